// The maxima at which exponentials are held, shared or introduced (rule 10), and minima that an extremum chooses.
#include "tilewright/derive/deriver.h"

#include <algorithm>
#include <tuple>

#include "tilewright/program/elaborate.h"

namespace tilewright::derivation {

std::optional<Choice> Deriver::choice(const Reduction& r, NormalForm& nf) {
  if (r.reducer != Reducer::Min || !nf.runs(r.present) || nf.kind(r.body) != NormalForm::Kind::C ||
      !provably_nonnegative(r.body))
    return std::nullopt;
  Choice out;
  for (Expr p : conditions_of(r.present)) {
    if (!nf.runs(p)) {
      out.present = conjunction(out.present, p);
    } else {
      if (out.extremum >= 0) return std::nullopt;
      std::tie(out.extremum, out.condition) = at_extremum(p, r.pass, nf);
      if (out.extremum < 0) return std::nullopt;
    }
  }
  if (out.extremum < 0) return std::nullopt;
  out.offset = provably_positive(r.body) ? 0 : 1;
  return out;
}

std::pair<int, Expr> Deriver::at_extremum(Expr condition, int pass, NormalForm& nf) {
  for (Expr equation : condition.is(Op::Or) ? condition.args() : std::vector<Expr>{condition}) {
    if (!equation.is(Op::Eq)) continue;
    for (size_t k = 0; k < work_.size(); ++k) {
      const Reduction q = work_[k].r;
      const bool extremum = q.reducer == Reducer::Max || q.reducer == Reducer::Min;
      const Expr value = read_own(q.result, q.axes);
      if (!extremum || q.pass != pass) continue;
      if (equation != simplify(equal(q.body, value)) && equation != simplify(equal(value, q.body))) continue;
      const auto axes = [&](const Leaf& l) { return axes_of(program_, axis_, {l.c, l.present}); };
      const Peeled peeled = peel(q.reducer, q.body, q.present, nf, signs_, size(), axes, Inside::Whole);
      if (peeled.leaves.size() != 1 || peeled.leaves[0].reducer != q.reducer || !rises(peeled)) continue;
      const Expr u = peeled.leaves[0].c;
      const int plain = plain_extremum(q.reducer, u, peeled.leaves[0].present, pass, q.span);
      const Work& at = work_[size_t(plain)];
      const Expr chosen = simplify(equal(u, read_own(at.r.result, at.r.axes)));
      const Expr out = rewrite(condition, [&](Expr e) {
        if (e == q.body) return u;
        return e.is(Op::Eq) && (e.arg(0) == value || e.arg(1) == value) ? chosen : e;
      });
      for (Expr e : out.is(Op::Or) ? out.args() : std::vector<Expr>{out})
        if (nf.runs(e) && e != chosen) return {-1, {}};
      return {plain, out};
    }
  }
  return {-1, {}};
}

bool Deriver::rises(const Peeled& p) const {
  const Sym leaf = Sym::fresh({.name = "leaf", .kind = SymbolKind::Variable});
  const auto line = affine(
      rewrite(p.value, [&](Expr e) { return e.is(Op::Read) && e->sym == p.leaves[0].sym ? Expr(leaf) : e; }),
      {leaf});
  return line && signs_.positive(line->coefficient[0]);
}

int Deriver::plain_extremum(Reducer reducer, Expr u, Expr present, int pass, Span span) {
  for (size_t k = 0; k < work_.size(); ++k) {
    const Work& w = work_[k];
    if (w.is_sum() || w.r.pass != pass || !w.peeled.plain()) continue;
    const Leaf& leaf = w.peeled.leaves[0];
    if (leaf.reducer == reducer && leaf.c == u && leaf.present == present) return int(k);
  }
  Work w;
  w.r.reducer = reducer;
  w.r.body = u;
  w.r.present = present;
  w.r.pass = pass;
  w.r.span = span;
  w.r.axes = axes_of(program_, axis_, {u, present});
  w.r.result = Sym::fresh({.name = unique_name("m", names_), .kind = SymbolKind::Tile});
  w.peeled = {read_own(w.r.result, w.r.axes), {{w.r.result, w.r.axes, reducer, u, present}}};
  w.compared = true;
  work_.push_back(std::move(w));
  return int(work_.size()) - 1;
}

int Deriver::anchor(Term& t, const Reduction& r, NormalForm& nf) {
  if (!t.u) return -1;
  if (below_a_known_maximum(t.u, r.pass)) {
    t.c = simplify(t.c * exp(t.u));
    t.coefficient = simplify(t.coefficient * exp(-t.r));
    t.u = t.r = Expr();
    moved_ = true;
    return -1;
  }
  auto [k, value] = known_maximum(t, r.pass);
  if (k < 0) {
    Reduction m;
    m.reducer = Reducer::Max;
    m.body = t.u;
    m.present = t.present;
    m.pass = r.pass;
    m.span = r.span;
    m.axes = axes_of(program_, axis_, {m.body, m.present});
    m.result = Sym::fresh({.name = unique_name("m", names_), .kind = SymbolKind::Tile});
    notes_.push_back({m.result, Note::Kind::Introduced, m.body});
    NormalForm plain(axis_, {}, signs_);
    Work w;
    w.r = m;
    w.peeled = peel(m.reducer, m.body, m.present, plain, signs_, size(), [&](const Leaf&) { return m.axes; });
    // A point is the exponent itself: where more was peeled off than a factor and an addend, nothing is.
    if (w.peeled.leaves.size() != 1 || !proportion(t.u, w.peeled.leaves[0].c, axis_)) {
      const Leaf leaf{m.result, m.axes, m.reducer, m.body, m.present};
      w.peeled = {read_own(m.result, m.axes), {leaf}};
    }
    work_.push_back(std::move(w));
    k = int(work_.size()) - 1;
    value = read_own(m.result, m.axes);
  }
  (void)nf;
  Expr rest = simplify(expand(value - t.r));
  if (!rest.is_constant(0)) {
    t.coefficient = simplify(t.coefficient * exp(rest));
    moved_ = true;
  }
  t.r = value;
  return k;
}

std::pair<int, Expr> Deriver::known_maximum(const Term& t, int pass) const {
  int found = -1;
  Expr value;
  for (size_t k = 0; k < work_.size(); ++k) {
    const Work& w = work_[k];
    if (w.r.reducer != Reducer::Max || w.r.pass != pass || !w.peeled.plain()) continue;
    const Leaf& leaf = w.peeled.leaves[0];
    Proportion p = proportion(t.u, leaf.c, axis_);
    if (!p || (w.compared && !is_exact(p))) continue;
    auto read_in = tensors_read(t.r);
    bool meant = std::find(read_in.begin(), read_in.end(), w.r.result) != read_in.end();
    if (!meant && leaf.present != t.present && !is_true(leaf.present)) continue;
    if (!implies(t.present, leaf.present)) continue;  // it would see elements that its point does not
    if (found >= 0 && !meant) continue;
    found = int(k);
    value = simplify(p.scale * read_own(w.r.result, w.r.axes) + p.offset);
    if (meant) break;
  }
  return {found, value};
}

bool Deriver::below_a_known_maximum(Expr u, int pass) const {
  if (!u.is(Op::Add)) return false;
  for (const Work& w : work_) {
    if (w.r.reducer != Reducer::Max || w.r.pass >= pass || !w.peeled.plain()) continue;
    std::vector<Expr> rest;
    Expr scale;
    for (Expr a : u.args()) {
      Expr negative = simplify(-a);
      std::vector<Expr> factors = factors_of(negative);
      auto it = std::find_if(factors.begin(), factors.end(),
                             [&](Expr f) { return f.is(Op::Read) && f->sym == w.r.result; });
      if (it == factors.end()) {
        rest.push_back(a);
        continue;
      }
      factors.erase(it);
      scale = product_of(factors);
    }
    if (!scale || !provably_positive(scale) || rest.size() + 1 != u.args().size()) continue;
    Proportion p = proportion(sum_of(rest), w.peeled.leaves[0].c, axis_);
    if (p && p.scale == scale && p.offset.is_constant(0)) return true;
  }
  return false;
}

}  // namespace tilewright::derivation
