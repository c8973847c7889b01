#include "tilewright/derive/normal_form.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "tilewright/derive/normal_form_parts.h"

namespace tilewright::derivation {

namespace {

std::string reason_of(Op op) {
  switch (op) {
    case Op::Round:
    case Op::Floor: return fmt::format("{} of a mixture of running and varying values", name(op));
    case Op::Cast: return "a mixture of running and varying values is rounded to a type";
    case Op::Max:
    case Op::Min: return fmt::format("the {} of running and varying values", name(op));
    case Op::Lt:
    case Op::Le:
    case Op::Eq:
    case Op::Ne: return "a comparison of a running with a varying value";
    default: return fmt::format("{} mixes running and varying values", name(op));
  }
}

/// A constant factor stands before the sum, except an infinite one: Σ inf·c is NaN where c changes its sign.
Term constant_term(Expr e) {
  return e.number() && std::isinf(*e.number()) ? Term{.c = e} : Term{.coefficient = e};
}

bool varies_along(const Term& t, const std::vector<Sym>& axes) {
  const auto shift = [&](const Shift& s) { return depends_on_any(s.u, axes); };
  return depends_on_any(t.c, axes) || depends_on_any(t.present, axes) || depends_on_any(t.u, axes) ||
         std::any_of(t.shifts.begin(), t.shifts.end(), shift);
}

void add_shift(std::vector<Shift>& shifts, const Shift& s) {
  for (Shift& known : shifts) {
    if (known.u == s.u && known.mu == s.mu) {
      known.power += s.power;
      return;
    }
  }
  auto before = [](const Shift& a, const Shift& b) { return a.u == b.u ? a.mu < b.mu : a.u < b.u; };
  shifts.insert(std::upper_bound(shifts.begin(), shifts.end(), s, before), s);
}

}  // namespace

// ---- signs -----------------------------------------------------------------------------------------------------------

void Signs::set(Sym result, bool positive, bool nonnegative) {
  if (!positive && !nonnegative) return;
  known_[result] = Sym::fresh({.name = result.name(),
                               .kind = SymbolKind::Variable,
                               .positive = positive,
                               .nonnegative = nonnegative});
}

Expr Signs::assumed(Expr e) const {
  if (known_.empty()) return e;
  return rewrite(e, [&](Expr x) {
    if (!x.is(Op::Read)) return x;
    auto it = known_.find(x->sym);
    return it == known_.end() ? x : Expr(it->second);
  });
}

bool Signs::positive(Expr e) const { return provably_positive(e) || provably_positive(simplify(assumed(e))); }
bool Signs::nonnegative(Expr e) const {
  return provably_nonnegative(e) || provably_nonnegative(simplify(assumed(e)));
}

// ---- terms -----------------------------------------------------------------------------------------------------------

std::vector<Term> join(std::vector<Term> terms) {
  std::vector<Term> out;
  for (Term& t : terms) {
    if (zero(t.coefficient) || zero(t.c) || is_false(t.present)) continue;
    auto same = std::find_if(out.begin(), out.end(), [&](const Term& o) { return o.same_family(t); });
    if (same == out.end()) {
      out.push_back(std::move(t));
    } else {
      same->coefficient = plus(same->coefficient, t.coefficient);
    }
  }
  std::erase_if(out, [](const Term& t) { return zero(t.coefficient); });
  return out;
}

size_t family_size(const Term& t) {
  size_t n = 1;
  for (size_t k = 0; k < t.shifts.size(); ++k) {
    size_t power = 0;  // the generators of one u share a point
    bool first = true;
    for (size_t j = 0; j < t.shifts.size(); ++j) {
      if (t.shifts[j].u != t.shifts[k].u) continue;
      power += size_t(t.shifts[j].power);
      first = first && j >= k;
    }
    if (first) n = std::min<size_t>(n * (power + 1), 1 << 20);
  }
  return n;
}

Expr value_of(const Term& t) {
  std::vector<Expr> factors{t.c};
  for (const Shift& s : t.shifts) factors.push_back(pow(s.u - s.mu, s.power));
  if (!t.inner.empty()) factors = {reduce(Reducer::Sum, t.inner, product_of(factors))};
  factors.insert(factors.begin(), t.coefficient);
  if (t.u) factors.push_back(exp(t.u - t.r));
  return only_if(t.present, product_of(factors));
}

// ---- kinds -----------------------------------------------------------------------------------------------------------

NormalForm::NormalForm(Sym axis, std::set<Sym> running, const Signs& signs)
    : axis_(axis), running_(std::move(running)), signs_(signs) {}

bool NormalForm::runs(Expr e) {
  if (e.args().empty() && !e.is(Op::Read)) return false;
  auto it = runs_.find(e.get());
  if (it != runs_.end()) return it->second;
  bool found = e.is(Op::Read) && running_.count(e->sym) != 0;
  for (Expr a : e.args()) found = found || runs(a);
  runs_.emplace(e.get(), found);
  return found;
}

NormalForm::Kind NormalForm::kind(Expr e) {
  bool c = varies(e), r = runs(e);
  return c ? (r ? Kind::Mixed : Kind::C) : (r ? Kind::R : Kind::Constant);
}

// ---- the rules -------------------------------------------------------------------------------------------------------

std::vector<Term> NormalForm::terms(Expr e) { return join(of(e)); }

NormalForm::Terms NormalForm::of(Expr e) {
  switch (kind(e)) {
    case Kind::Constant: return {constant_term(e)};
    case Kind::R: return {Term{.coefficient = e}};
    case Kind::C: return of_varying(e);
    case Kind::Mixed: return of_mixed(e);
  }
  return {};
}

/// An exponential with a proven small exponent stays in range without a point.
bool NormalForm::needs_no_point(Expr exponent) const {
  constexpr double small = 32;
  Interval b = bounds(exponent);
  return b.lo >= -small && b.hi <= small;
}

/// Rule 1: C → c, exp(C) → u. Constant factors go to the coefficient, conditions to `present`; a sum that holds exponentials is taken apart.
/// What would have too many terms stays one: nothing in it needs a repair.
NormalForm::Terms NormalForm::of_varying(Expr e) {
  if (!varies(e)) return {constant_term(e)};
  try {
    return of_parts(e);
  } catch (const Mixing&) {
    return {Term{.c = e}};
  }
}

NormalForm::Terms NormalForm::of_parts(Expr e) {
  switch (e.op()) {
    case Op::Exp:
      if (needs_no_point(e.arg(0))) break;
      return {Term{.u = e.arg(0), .r = 0}};
    case Op::Mul: {
      Terms out{Term{}};
      for (Expr f : e.args()) out = product(out, of_varying(f), e);
      return out;
    }
    case Op::Select: {
      if (zero(e.arg(1)) || zero(e.arg(2))) return of_select(e);
      Terms then = of_varying(e.arg(1)), otherwise = of_varying(e.arg(2));
      auto exponential = [](const Term& t) { return bool(t.u); };
      if (std::any_of(then.begin(), then.end(), exponential) ||
          std::any_of(otherwise.begin(), otherwise.end(), exponential))
        return of_select(e);
      break;
    }
    case Op::Add: {
      Terms out;
      std::vector<Expr> plain;
      for (Expr a : e.args()) {
        Terms t = of_varying(a);
        bool exponential = std::any_of(t.begin(), t.end(), [](const Term& x) { return bool(x.u); });
        if (exponential) {
          out.insert(out.end(), t.begin(), t.end());
        } else {
          plain.push_back(a);
        }
      }
      if (out.empty()) break;
      Expr rest = sum_of(plain);
      if (!plain.empty()) out.push_back(varies(rest) ? Term{.c = rest} : Term{.coefficient = rest});
      return out;
    }
    default: break;
  }
  return {Term{.c = e}};
}

NormalForm::Terms NormalForm::of_mixed(Expr e) {
  switch (e.op()) {
    case Op::Add: return of_sum(e);
    case Op::Mul: {
      Terms out{Term{}};
      for (Expr f : e.args()) out = product(out, of(f), e);
      return out;
    }
    case Op::Pow: return of_power(e);
    case Op::Exp: return of_exponential(e, e.arg(0));
    case Op::Log: return of_logarithm(e);
    case Op::Abs: {
      Terms t = terms(e.arg(0));
      if (t.size() != 1 || !t[0].shifts.empty())
        throw Mixing{e, "the sign of a difference that changes with the running value"};
      t[0].coefficient = simplify(make(Op::Abs, {t[0].coefficient}));
      t[0].c = simplify(make(Op::Abs, {t[0].c}));
      return t;
    }
    case Op::Select: return of_select(e);
    case Op::Reduce: return of_inner_reduction(e);
    case Op::And:
    case Op::Or:
    case Op::Not: return of_select(select(e, 1, 0));
    default: break;
  }
  throw Mixing{e, reason_of(e.op())};
}

NormalForm::Terms NormalForm::product(const Terms& a, const Terms& b, Expr whole) {
  constexpr size_t most = 64;
  if (a.size() * b.size() > most) throw Mixing{whole, "its product has more than 64 terms"};
  Terms out;
  for (const Term& x : a) {
    for (const Term& y : b) {
      Term t;
      t.coefficient = times(x.coefficient, y.coefficient);
      t.c = times(x.c, y.c);
      t.present = conjunction(x.present, y.present);
      t.shifts = x.shifts;
      for (const Shift& s : y.shifts) add_shift(t.shifts, s);
      if ((!x.inner.empty() && (!y.inner.empty() || varies_along(y, x.inner))) ||
          (!y.inner.empty() && varies_along(x, y.inner)))
        throw Mixing{whole, "a product of sums over other axes whose terms hold running values"};
      t.inner = x.inner.empty() ? y.inner : x.inner;
      if (x.u && y.u) {
        t.u = plus(x.u, y.u);
        t.r = plus(x.r, y.r);
        if (!varies(t.u)) {  // exp(u) · exp(−u)
          t.coefficient = times(t.coefficient, simplify(exp(t.u - t.r)));
          t.u = t.r = Expr();
        }
      } else {
        t.u = x.u ? x.u : y.u;
        t.r = x.u ? x.r : y.r;
      }
      if (family_size(t) > largest_family)
        throw Mixing{whole, fmt::format("its state would hold more than {} components", largest_family)};
      out.push_back(std::move(t));
    }
  }
  return join(std::move(out));
}

/// Rule 2. `varying` (C) plus `rest` (R): one generator (u − mu), scaled so that u has the coefficient 1.
NormalForm::Terms NormalForm::shifted(Expr varying, Expr rest) {
  std::vector<Expr> constant, inside;
  for (Expr f : factors_of(addends_of(varying)[0])) {
    bool number = f.number() || (f.is(Op::Pow) && f.arg(0).number() && f.arg(1).number());
    bool moves = varying.is(Op::Add) ? number : !varies(f);
    (moves ? constant : inside).push_back(f);
  }
  for (const std::vector<Expr>& candidate : {constant, std::vector<Expr>{}}) {
    Expr s = product_of(candidate);
    Expr mu = simplify(expand(-rest / s));
    bool numeric = s.number() || std::all_of(candidate.begin(), candidate.end(), [](Expr f) {
                     return tensors_read(f).empty() && !f.is(Op::Symbol);
                   });
    if (!numeric && complexity(mu) > complexity(rest)) continue;  // a division that does not cancel
    Expr u = simplify(expand(varying / s));
    Terms out{Term{.coefficient = s}};
    out[0].shifts.push_back({u, mu, 1});
    return out;
  }
  return {Term{.c = varying}, Term{.coefficient = rest}};
}

NormalForm::Terms NormalForm::of_sum(Expr e) {
  std::vector<Expr> varying, rest;
  Terms out;
  for (Expr a : e.args()) {
    switch (kind(a)) {
      case Kind::Constant:
      case Kind::R: rest.push_back(a); break;
      case Kind::C: {
        Terms t = of_varying(a);
        bool exponential = std::any_of(t.begin(), t.end(), [](const Term& x) { return bool(x.u); });
        if (exponential) {
          out.insert(out.end(), t.begin(), t.end());
        } else {
          varying.push_back(a);
        }
        break;
      }
      case Kind::Mixed: {
        Terms t = of(a);
        out.insert(out.end(), t.begin(), t.end());
        break;
      }
    }
  }
  Expr c = sum_of(varying), r = sum_of(rest);
  if (!varying.empty() && runs(r)) {
    Terms w = shifted(c, minus(minus(r)));
    out.insert(out.end(), w.begin(), w.end());
  } else if (!varying.empty()) {
    out.push_back(Term{.c = plus(c, r)});
  } else if (out.size() == 1 && runs(r) && out[0].shifts.empty() && !out[0].u && is_true(out[0].present)) {
    // a·c + r = a·(c − mu), where the division by a cancels
    Expr mu = simplify(expand(-r / out[0].coefficient));
    if (complexity(mu) < complexity(r)) {
      Terms w = shifted(out[0].c, minus(mu));
      for (Term& t : w) t.coefficient = times(t.coefficient, out[0].coefficient);
      return w;
    }
    out.push_back(Term{.coefficient = r});
  } else if (!rest.empty()) {
    out.push_back(Term{.coefficient = r});
  }
  return out;
}

/// Rules 3 to 5 for powers.
NormalForm::Terms NormalForm::of_power(Expr e) {
  Expr base = e.arg(0), exponent = e.arg(1);
  auto q = exponent.rational();
  if (q && q->is_integer() && q->num() >= 1 && q->num() <= 4) {
    Terms b = terms(base), out{Term{}};
    for (int64_t k = 0; k < q->num(); ++k) out = product(out, b, e);
    return out;
  }
  if (exponent.number()) {
    Terms t = terms(base);
    if (t.size() != 1 || !t[0].shifts.empty() || !is_true(t[0].present))
      throw Mixing{e, "a power of a sum that holds both running and varying values"};
    bool integer = q && q->is_integer();
    if (!integer && !(signs_.nonnegative(t[0].coefficient) && signs_.nonnegative(t[0].c)))
      throw Mixing{e, "a root of a product whose factors are not known to be non-negative"};
    t[0].coefficient = simplify(pow(t[0].coefficient, exponent));
    t[0].c = simplify(pow(t[0].c, exponent));
    if (t[0].u) {
      t[0].u = simplify(t[0].u * exponent);
      t[0].r = simplify(t[0].r * exponent);
    }
    return t;
  }
  if (!signs_.positive(base)) throw Mixing{e, "a power whose base is not known to be positive"};
  return of_exponential(e, simplify(exponent * log(base)));
}

/// Rule 5: each addend of the exponent is R or C. Addends that are neither are expanded; the others stay as they are written, so that one contraction
/// of sums does not become one for each pair of their terms.
NormalForm::Terms NormalForm::of_exponential(Expr, Expr exponent) {
  std::vector<Expr> varying, rest;
  for (Expr whole : addends_of(exponent))
    for (Expr a : kind(whole) == Kind::Mixed ? addends_of(expand(whole)) : std::vector<Expr>{whole}) {
      Kind k = kind(a);
      if (k == Kind::Mixed)
        throw Mixing{a, "an exponent that multiplies or mixes running and varying values"};
      (k == Kind::C ? varying : rest).push_back(a);
    }
  Expr u = sum_of(varying), r = minus(sum_of(rest));
  if (varying.empty()) return {Term{.coefficient = simplify(exp(-r))}};
  if (needs_no_point(u)) return {Term{.coefficient = simplify(exp(-r)), .c = simplify(exp(u))}};
  return {Term{.u = u, .r = r}};
}

NormalForm::Terms NormalForm::of_logarithm(Expr e) {
  Terms t = terms(e.arg(0));
  if (t.size() != 1 || !t[0].shifts.empty() || !is_true(t[0].present))
    throw Mixing{e, "the logarithm of a sum of running and varying values"};
  if (!signs_.nonnegative(t[0].coefficient) || !signs_.nonnegative(t[0].c))
    throw Mixing{e, "the logarithm of a product whose factors are not known to be positive"};
  std::vector<Expr> parts{log(t[0].coefficient), log(t[0].c)};
  if (t[0].u) parts.push_back(t[0].u - t[0].r);
  Expr sum = sum_of(parts);
  return kind(sum) == Kind::Mixed && sum.is(Op::Add) ? of_sum(sum) : of(sum);
}

}  // namespace tilewright::derivation
