// The points of a pass, and the sums that are held shifted by them.
#include "tilewright/derive/family_builder.h"

#include <algorithm>

#include "tilewright/program/elaborate.h"

namespace tilewright::derivation {

int FamilyBuilder::point(Point::Kind kind, Expr u, Expr present, const std::string& wish,
                         const std::vector<Sym>& inner) {
  for (size_t k = 0; k < state().points.size(); ++k) {
    const Point& p = state().points[k];
    if (p.kind == kind && p.u == u && p.present == present) return int(k);
  }
  Point p;
  p.kind = kind;
  p.u = u;
  p.present = present;
  inner_.push_back(inner);
  p.axes = axes_of(program_, axis_, {inner.empty() ? u : reduce(Reducer::Sum, inner, u), present});
  std::string name = unique_name(wish, names_);
  p.var = Sym::fresh({.name = name, .kind = SymbolKind::Tile});
  p.next = Sym::fresh({.name = name + "_next", .kind = SymbolKind::Tile});
  state().points.push_back(p);
  return int(state().points.size()) - 1;
}

int FamilyBuilder::point_of_extremum(size_t work, Expr u) {
  const Work& w = all_[work];
  const Leaf& leaf = w.peeled.leaves[0];
  bool itself = !served_.count(work) && u == leaf.c;
  std::string wish = itself ? w.r.result.name() : "rho";
  if (itself) release_name(wish);
  int p = point(leaf.reducer == Reducer::Max ? Point::Kind::Maximum : Point::Kind::Minimum, u, leaf.present,
                wish);
  served_.emplace(work, std::pair{p, proportion(u, leaf.c, axis_)});
  return p;
}

void FamilyBuilder::exponential_points() {
  for (size_t k : works_) {
    for (size_t t = 0; t < terms_[k].size(); ++t) {
      int anchor = all_[k].anchor.empty() ? -1 : all_[k].anchor[t];
      if (anchor < 0) continue;
      int p = point_of_extremum(size_t(anchor), terms_[k][t].u);
      state().points[size_t(p)].exponential = true;
      exponential_[{k, t}] = p;
    }
  }
}

bool FamilyBuilder::reads(Expr e, Sym result) const {
  auto all = tensors_read(e);
  return std::find(all.begin(), all.end(), result) != all.end();
}

std::vector<size_t> FamilyBuilder::feeders(Expr mu) const {
  std::vector<size_t> out;
  std::function<void(Expr)> visit = [&](Expr e) {
    for (Sym s : tensors_read(e)) {
      auto k = work_of(s);
      if (!k || std::find(out.begin(), out.end(), *k) != out.end()) continue;
      out.push_back(*k);
      visit(all_[*k].r.body);
    }
  };
  visit(mu);
  return out;
}

void FamilyBuilder::shift_points() {
  for (size_t k : works_)
    for (Term& t : terms_[k])
      for (Shift& s : t.shifts) s.point = shift_point(s, t);
}

int FamilyBuilder::shift_point(const Shift& s, const Term& t) {
  for (size_t q : works_) {
    const Work& w = all_[q];
    if (w.is_sum() || !w.peeled.plain() || !reads(s.mu, w.r.result)) continue;
    const Leaf& leaf = w.peeled.leaves[0];
    const bool extremum = leaf.reducer == Reducer::Max || leaf.reducer == Reducer::Min;
    const bool seen = is_true(leaf.present) || leaf.present == t.present;
    if (extremum && seen && (w.compared ? s.u == leaf.c : bool(proportion(s.u, leaf.c, axis_))))
      return point_of_extremum(q, s.u);
  }
  Expr present = t.present;
  const std::vector<Sym> inner = along(s.u, t.inner);
  for (size_t f : feeders(s.mu))
    for (const Term& x : terms_[f])
      if (x.c == (inner.empty() ? s.u : simplify(reduce(Reducer::Sum, inner, s.u))) && !x.u)
        present = x.present;
  return point(Point::Kind::Mean, s.u, present, "rho", inner);
}

std::vector<Sym> FamilyBuilder::along(Expr e, const std::vector<Sym>& axes) {
  std::vector<Sym> out;
  for (Sym s : axes)
    if (depends_on(e, s)) out.push_back(s);
  return out;
}

std::optional<Expr> FamilyBuilder::without_factor(Expr c, Expr u) {
  if (c == u)  // of a value that is 0 where it is absent: 1 where it is present
    return u.is(Op::Select) && u.arg(2).is_constant(0) ? simplify(select(u.arg(0), 1, 0)) : Expr(1);
  std::vector<Expr> rest = factors_of(c);
  const auto it = std::find(rest.begin(), rest.end(), u);
  if (it == rest.end()) return std::nullopt;
  rest.erase(it);
  return product_of(rest);
}

std::optional<Expr> FamilyBuilder::without_summed_factor(Expr c, Expr u, const std::vector<Sym>& inner) {
  std::vector<Expr> rest = factors_of(c);
  for (Expr& f : rest) {
    if (!f.is(Op::Reduce) || f->reducer != Reducer::Sum || f->bound != inner) continue;
    const auto inside = without_factor(f.arg(0), u);
    if (!inside) continue;
    f = *inside;
    return product_of(rest);
  }
  return std::nullopt;
}

void FamilyBuilder::hold_shifted() {
  std::vector<std::pair<Shift, std::vector<size_t>>> wanted;
  for (size_t k : works_)
    for (const Term& t : terms_[k])
      for (const Shift& s : t.shifts)
        if (state().points[size_t(s.point)].kind == Point::Kind::Mean)
          wanted.emplace_back(Shift{s.u, 0, 1, s.point}, feeders(s.mu));
  for (auto& [held, works] : wanted) {
    const std::vector<Sym>& axes = state().points[size_t(held.point)].axes;
    for (size_t k : works) {
      const std::vector<Sym>& own = all_[k].r.axes;
      const auto has = [&](Sym a) { return std::find(own.begin(), own.end(), a) != own.end(); };
      if (!std::all_of(axes.begin(), axes.end(), has)) continue;  // one sum for many points
      const std::vector<Sym>& inner = inner_[size_t(held.point)];
      for (Term& t : terms_[k]) {
        if (!inner.empty() && !t.inner.empty()) continue;
        const auto rest =
            inner.empty() ? without_factor(t.c, held.u) : without_summed_factor(t.c, held.u, inner);
        if (!rest) continue;
        t.c = *rest;
        t.inner.insert(t.inner.end(), inner.begin(), inner.end());
        t.shifts.push_back(held);
      }
    }
  }
}

}  // namespace tilewright::derivation
