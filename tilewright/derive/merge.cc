// Merging two states (docs/derivation.md, "Merge").
#include <algorithm>

#include "tilewright/derive/cascade.h"
#include "tilewright/derive/normal_form.h"
#include "tilewright/program/elaborate.h"

namespace tilewright {
namespace {

using derivation::read_own;
using Copies = std::vector<std::pair<Sym, Sym>>;

class Merger {
 public:
  Merger(const State& s, const Copies& left, const Copies& right) : state_(s), left_(left), right_(right) {}

  Merge run() {
    Merge m;
    for (const Point& p : state_.points) m.points.push_back(point(p));
    for (const Component& c : state_.components) m.components.push_back(c.listed() ? Expr() : component(c));
    return m;
  }

 private:
  static Expr renamed(Expr e, const Copies& copies) {
    return rewrite(e, [&](Expr x) {
      if (!x.is(Op::Read)) return x;
      for (auto& [from, to] : copies)
        if (from == x->sym) return read(to, x.args());
      return x;
    });
  }
  Expr own(int component) const {
    return read_own(state_.components[size_t(component)].var, state_.components[size_t(component)].axes);
  }

  /// ρ* of a mean: ρ_l + (s_l + s_r + n_r (ρ_r − ρ_l)) / (n_l + n_r), in which only differences of the two points occur.
  Expr point(const Point& p) const {
    Expr rho = read_own(p.var, p.axes);
    Expr l = renamed(rho, left_), r = renamed(rho, right_);
    switch (p.kind) {
      case Point::Kind::Maximum: return max(l, r);
      case Point::Kind::Minimum: return min(l, r);
      case Point::Kind::Mean: break;
    }
    Expr sl = renamed(own(p.sum), left_), sr = renamed(own(p.sum), right_);
    Expr nl = renamed(own(p.weight), left_), nr = renamed(own(p.weight), right_);
    return select(equal(nl, 0), r, select(equal(nr, 0), l, l + (sl + sr + nr * (r - l)) / (nl + nr)));
  }

  static bool scaled_by_exponential(const Component& c) {
    bool found = false;
    for (const RepairTerm& t : c.repair)
      rewrite(t.factor, [&](Expr x) {
        found = found || x.is(Op::Exp);
        return x;
      });
    return found;
  }

  /// The condition under which one side holds nothing of the component, where the state can tell.
  Expr nothing(const Component& c) const {
    auto reads = tensors_read(c.lift);
    for (const Point& p : state_.points) {
      if (std::find(reads.begin(), reads.end(), p.var) == reads.end()) continue;
      Expr rho = read_own(p.var, p.axes);
      // An index of the maximum is repaired by a choice, and −inf may be a value that was seen.
      if (p.kind == Point::Kind::Maximum && p.exponential && scaled_by_exponential(c))
        return equal(rho, derivation::minus_infinity());
      if (p.kind == Point::Kind::Mean) {
        const Component& n = state_.components[size_t(p.weight)];
        if (n.present == c.present || derivation::is_true(n.present)) return equal(own(p.weight), 0);
      }
    }
    return {};
  }

  Expr side(const Component& c, const Copies& copies) const {
    Expr sum;
    for (const RepairTerm& t : c.repair) {
      Expr b = own(t.component);
      Expr x = t.factor.is_constant(1) ? b : t.factor * b;
      sum = sum ? sum + x : x;
    }
    if (Expr empty = nothing(c)) sum = select(empty, identity(c.combine), sum);
    return renamed(sum, copies);
  }

  Expr component(const Component& c) const {
    Expr l = side(c, left_), r = side(c, right_);
    switch (c.combine) {
      case Reducer::Sum: return l + r;
      case Reducer::Max: return max(l, r);
      case Reducer::Min: return min(l, r);
      case Reducer::Prod: return l * r;
      case Reducer::Any: return logical_or(l, r);
      case Reducer::All: return logical_and(l, r);
      default: break;
    }
    TW_CHECK(false, "components are combined by sum, max, min, prod, any or all");
  }

  const State& state_;
  const Copies& left_;
  const Copies& right_;
};

}  // namespace

std::vector<Sym> rank_axes(const Derivation& d) {
  std::vector<Sym> out;
  for (const Pass& pass : d.passes)
    for (const Component& c : pass.state.components)
      if (c.rank && std::find(out.begin(), out.end(), c.rank) == out.end()) out.push_back(c.rank);
  return out;
}

Merge merge(const State& state, const Copies& left, const Copies& right) {
  return Merger(state, left, right).run();
}

}  // namespace tilewright
