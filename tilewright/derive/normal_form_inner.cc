// Rules 6 and 7: conditions and sums over other axes.
#include <algorithm>
#include <cmath>

#include "tilewright/derive/normal_form.h"
#include "tilewright/derive/normal_form_parts.h"

namespace tilewright::derivation {

namespace {

bool holds_part(Expr e, Expr part) {
  if (e == part) return true;
  return std::any_of(e.args().begin(), e.args().end(), [&](Expr a) { return holds_part(a, part); });
}

}  // namespace

/// where(u == −inf, 0, exp(u − r)): the exponential is 0 there anyway. Of u = −v the guard says v == inf.
bool NormalForm::is_exponential_guard(Expr condition, const Terms& guarded) {
  if (!condition.is(Op::Ne) || guarded.empty()) return false;
  Expr v = condition.arg(0);
  auto n = condition.arg(1).number();
  if (!n || !std::isinf(*n)) return false;
  const bool low = *n < 0;
  for (const Term& t : guarded) {
    if (!t.u || holds_part(t.c, v)) return false;  // 0 · −inf
    for (const Shift& s : t.shifts)
      if (holds_part(s.u, v)) return false;
    bool found = false;
    for (Expr a : addends_of(is_kept(t.u) ? t.u.arg(0) : t.u)) {
      std::vector<Expr> scale;
      bool here = false;
      for (Expr f : factors_of(a)) {
        if (f == v && !here) {
          here = true;
        } else {
          scale.push_back(f);
        }
      }
      if (!low) scale.push_back(Expr(-1));
      found = found || (here && provably_positive(simplify(product_of(scale))));
    }
    if (low && t.u == v) found = true;
    // v = s·u + r with s > 0, where r does not vary along the axis and has left the exponent, as a slope times a distance leaves it.
    if (low && !found) {
      std::vector<Expr> varying;
      for (Expr a : addends_of(expand(v)))
        if (kind(a) == Kind::C) varying.push_back(a);
      const Expr left = sum_of(varying), u = is_kept(t.u) ? t.u.arg(0) : t.u;
      const auto scale = simplify(u / left).number();
      found = (scale && *scale > 0) || provably_equal(left, u);
    }
    if (!found) return false;
  }
  return true;
}

Expr NormalForm::settled(Expr condition) {
  return rewrite(condition, [&](Expr e) {
    if ((!e.is(Op::Eq) && !e.is(Op::Ne)) || kind(e) != Kind::Mixed) return e;
    const auto n = e.arg(1).number();
    if (!n || !std::isinf(*n)) return e;
    std::vector<Expr> varying;
    for (Expr a : addends_of(e.arg(0))) {
      if (kind(a) == Kind::Mixed) return e;
      if (kind(a) == Kind::C) varying.push_back(a);
    }
    return simplify(make(e.op(), {sum_of(varying), e.arg(1)}));
  });
}

std::vector<NormalForm::Split> NormalForm::split(Expr p) {
  switch (kind(p)) {
    case Kind::Constant:
    case Kind::R: return {{truth(), p}};
    case Kind::C: return {{p, truth()}};
    case Kind::Mixed: break;
  }
  if (p.is(Op::And)) {
    std::vector<Split> out{{truth(), truth()}};
    for (Expr a : p.args()) {
      std::vector<Split> next;
      for (const Split& s : split(a))
        for (const Split& o : out) next.push_back({conjunction(o.c, s.c), conjunction(o.r, s.r)});
      if (next.size() > 16) throw Mixing{p, "a condition with more than 16 alternatives"};
      out = std::move(next);
    }
    return out;
  }
  if (p.is(Op::Or)) {
    // made disjoint: a or b = a, else b
    std::vector<Split> out;
    Expr none = truth();
    for (Expr a : p.args()) {
      for (const Split& s : split(a)) {
        std::vector<Split> before = is_true(none) ? std::vector<Split>{{truth(), truth()}} : split(none);
        for (const Split& b : before) out.push_back({conjunction(b.c, s.c), conjunction(b.r, s.r)});
      }
      none = conjunction(none, negation(a));
      if (out.size() > 16) throw Mixing{p, "a condition with more than 16 alternatives"};
    }
    return out;
  }
  throw Mixing{p, "a comparison of a running with a varying value"};
}

/// Rule 6: [p]NF(x) ++ [not p]NF(y).
NormalForm::Terms NormalForm::of_select(Expr e) {
  Terms out;
  auto branch = [&](Expr condition, Expr value) {
    if (zero(value)) return;
    Terms terms = of(value);
    condition = settled(condition);
    std::vector<Expr> atoms = condition.is(Op::And) ? condition.args() : std::vector<Expr>{condition};
    if (std::erase_if(atoms, [&](Expr a) { return is_exponential_guard(a, terms); }))
      condition = atoms.empty() ? truth() : atoms.size() == 1 ? atoms[0] : simplify(make(Op::And, atoms));
    for (const Split& s : split(condition)) {
      if (is_false(s.c) || is_false(s.r)) continue;
      for (Term t : terms) {
        if (depends_on_any(s.c, t.inner))
          throw Mixing{e, "a condition on an axis that is summed over inside"};
        t.present = conjunction(t.present, s.c);
        t.coefficient = only_if(s.r, t.coefficient);
        out.push_back(std::move(t));
      }
    }
  };
  branch(e.arg(0), e.arg(1));
  branch(negation(e.arg(0)), e.arg(2));
  return join(std::move(out));
}

/// The sum of `t` over the axes of `reduction`, as one term: its family holds powers of differences at each of their indices. A condition on them
/// becomes a choice of 0, so that it is neither in `present` nor does an absent value count.
Term NormalForm::summed(Term t, Expr reduction) {
  Expr rest = truth(), chosen = truth();
  for (Expr p : t.present.is(Op::And) ? t.present.args() : std::vector<Expr>{t.present})
    (depends_on_any(p, reduction->bound) ? chosen : rest) =
        conjunction(depends_on_any(p, reduction->bound) ? chosen : rest, p);
  t.present = rest;
  t.c = only_if(chosen, t.c);
  for (Expr f : factors_of(t.c))
    if (f.is(Op::Select) && zero(f.arg(2)) && depends_on_any(f.arg(0), reduction->bound))
      for (Shift& s : t.shifts)
        if (depends_on_any(s.u, reduction->bound)) s.u = only_if(f.arg(0), s.u);
  t.inner.insert(t.inner.end(), reduction->bound.begin(), reduction->bound.end());
  return t;
}

/// Rule 7: a sum over other axes moves inside where everything of R is free of them.
NormalForm::Terms NormalForm::of_inner_reduction(Expr e) {
  if (e->reducer != Reducer::Sum) throw Mixing{e, "an inner reduction of running and varying values"};
  auto free = [&](Expr x) {
    return !x || std::none_of(e->bound.begin(), e->bound.end(), [&](Sym b) { return depends_on(x, b); });
  };
  Terms out;
  for (Term t : terms(e.arg(0))) {
    std::vector<Expr> moved, bound;  // what holds no running value may vary along the other axis
    for (Expr f : factors_of(t.coefficient)) (free(f) || runs(f) ? moved : bound).push_back(f);
    t.coefficient = product_of(moved);
    t.c = times(t.c, product_of(bound));
    if (!free(t.coefficient) || !free(t.r))
      throw Mixing{e, "a sum over another axis whose terms hold running values that vary along that axis"};
    if (!free(t.u)) {  // Σ_k exp(u_k − ρ) = exp(m − ρ) · Σ_k exp(u_k − m) with m = max_k u_k
      const Expr most = simplify(
          reduce(Reducer::Max, e->bound, free(t.present) ? t.u : select(t.present, t.u, minus_infinity())));
      t.c = times(t.c, simplify(select(equal(t.u, minus_infinity()), 0, exp(t.u - most))));
      t.u = most;
    }
    Terms parts{t};
    bool all_free = std::all_of(t.shifts.begin(), t.shifts.end(), [&](const Shift& s) { return free(s.u); });
    for (const Shift& s : t.shifts)
      if (!free(s.mu))
        throw Mixing{e, "a sum over another axis whose terms hold running values that vary along that axis"};
    // Σ_k c_k (x_k − mu) = Σ_k c_k x_k − mu Σ_k c_k is one generator where Σ_k c_k does not vary.
    const bool plain = t.shifts.size() == 1 && t.shifts[0].power == 1 && !varies(t.c) && !varies(t.present);
    if (!t.inner.empty() || (!all_free && !plain)) {
      out.push_back(summed(std::move(t), e));
      continue;
    }
    if (!all_free) {
      Shift s = t.shifts[0];
      parts[0].shifts.clear();
      parts.push_back(parts[0]);
      parts[0].c = times(t.c, s.u);
      parts[1].coefficient = times(t.coefficient, minus(s.mu));
    }
    for (Term& p : parts) {
      Expr body = p.c;
      if (!free(p.present)) {
        body = only_if(p.present, body);
        p.present = truth();
      }
      Expr c = simplify(reduce(Reducer::Sum, e->bound, body));
      p.c = 1;
      Terms scaled = product({p}, varies(c) ? of_varying(c) : Terms{Term{.coefficient = c}}, e);
      out.insert(out.end(), scaled.begin(), scaled.end());
    }
  }
  out = join(std::move(out));
  // Σ_k (x_k − mu) = Σ_k x_k − size(k)·mu is one generator again.
  if (out.size() == 2) {
    for (int k = 0; k < 2; ++k) {
      const Term &x = out[size_t(k)], &y = out[size_t(1 - k)];
      bool plain =
          !x.u && !y.u && x.shifts.empty() && y.shifts.empty() && is_true(x.present) && is_true(y.present);
      if (plain && !runs(x.coefficient) && y.c.is_constant(1))
        return shifted(times(x.coefficient, x.c), y.coefficient);
    }
  }
  return out;
}

}  // namespace tilewright::derivation
