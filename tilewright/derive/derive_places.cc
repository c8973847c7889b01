// Where results are read, and where what is refused was written.
#include "tilewright/derive/deriver.h"

#include <algorithm>
#include <functional>

#include "tilewright/program/elaborate.h"

namespace tilewright::derivation {

void Deriver::drop_unread(const std::vector<CascadeOutput>& outputs) {
  std::set<Sym> live;
  std::function<void(Expr)> mark = [&](Expr e) {
    for (Sym s : tensors_read(e)) {
      if (!live.insert(s).second) continue;
      for (const Work& w : work_) {
        if (w.r.result != s) continue;
        mark(w.r.body);
        mark(w.r.present);
        for (const Term& t : w.terms)
          if (t.r) mark(t.r);
      }
    }
  };
  for (const CascadeOutput& o : outputs) mark(o.value);
  std::vector<int> place(work_.size(), -1);
  std::vector<Work> kept;
  for (size_t k = 0; k < work_.size(); ++k) {
    if (!live.count(work_[k].r.result)) continue;
    place[k] = int(kept.size());
    kept.push_back(std::move(work_[k]));
  }
  for (Work& w : kept) {
    for (int& a : w.anchor)
      if (a >= 0) a = place[size_t(a)];
    if (w.choice.extremum >= 0) w.choice.extremum = place[size_t(w.choice.extremum)];
  }
  work_ = std::move(kept);
}

std::vector<Expr> Deriver::contexts(Sym result, const std::vector<CascadeOutput>& outputs) const {
  std::vector<Expr> out;
  std::set<std::pair<Expr, Expr>> seen;
  std::function<void(Expr, Expr)> visit = [&](Expr e, Expr condition) {
    if (!seen.emplace(e, condition).second) return;
    if (e.is(Op::Read) && e->sym == result) out.push_back(condition);
    if (e.is(Op::Select)) {
      visit(e.arg(0), condition);
      visit(e.arg(1), conjunction(condition, e.arg(0)));
      visit(e.arg(2), conjunction(condition, negation(e.arg(0))));
    } else {
      for (Expr a : e.args()) visit(a, condition);
    }
  };
  for (const CascadeOutput& o : outputs) visit(o.value, truth());
  for (const Work& w : work_)
    visit(is_true(w.r.present) ? w.r.body : select(w.r.present, w.r.body, 0), truth());
  return out;
}

Span Deriver::span_of(Expr subterm, const Reduction& r) const {
  const auto smallest = [&](bool inside, const auto& fits) {
    Span best;
    for (auto& [value, span] : written_) {
      if (value.op() == Op::Symbol || (inside && (span.begin < r.span.begin || r.span.end < span.end)))
        continue;
      if (best && best.end - best.begin <= span.end - span.begin) continue;
      if (fits(rescaled(simplify(value)))) best = span;
    }
    return best;
  };
  const auto values = [](Expr e) {
    std::vector<Sym> all = tensors_read(e);
    return std::set<Sym>(all.begin(), all.end());
  };
  const auto same = [&](Expr e) { return e == subterm; };
  const auto alike = [&](Expr e) { return e.op() == subterm.op() && values(e) == values(subterm); };
  const auto holds = [&](Expr e) {
    constexpr size_t small = 64;
    bool found = false;
    if (complexity(e) > small) return false;
    rewrite(expand(e), [&](Expr x) {
      found = found || x == subterm;
      return x;
    });
    return found;
  };
  if (Span s = smallest(false, same)) return s;
  if (Span s = smallest(true, alike)) return s;
  if (Span s = smallest(true, holds)) return s;
  if (Span s = smallest(false, alike)) return s;
  return r.span;
}

}  // namespace tilewright::derivation
