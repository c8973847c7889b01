#include "tilewright/tile/unscale.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "tilewright/expr/simplify.h"
#include "tilewright/tile/machine_form.h"
#include "tilewright/tile/statements.h"

namespace tilewright {
namespace {

/// The positive scalar factor of u, or 1.
Expr scale_of(Expr u) {
  if (!u.is(Op::Mul)) return 1;
  std::vector<Expr> scalars;
  for (Expr f : u.args())
    if (is_scalar(f)) scalars.push_back(f);
  if (scalars.empty() || scalars.size() == u.args().size()) return 1;
  Expr scale = simplify(make(Op::Mul, scalars));
  return provably_positive(scale) ? scale : Expr(1);
}

template <class F>
void each_read(Expr e, const F& f) {
  if (e.is(Op::Read)) f(e);
  for (Expr a : e.args()) each_read(a, f);
}

/// u / log 2, where u is a sum that this does not make dearer: each addend has a scalar factor already, or varies along one axis at most. Else null.
Expr in_binary_units(Expr u) {
  if (!u.is(Op::Add)) return {};
  std::vector<Expr> addends;
  for (Expr a : u.args()) {
    const std::vector<Expr> factors = a.is(Op::Mul) ? a.args() : std::vector<Expr>{a};
    const bool scaled = std::any_of(factors.begin(), factors.end(), [](Expr f) { return is_scalar(f); });
    bool narrow = true;
    each_read(a, [&](Expr read) { narrow = narrow && read.args().size() <= 1; });
    if (!scaled && !narrow) return {};
    addends.push_back(simplify(a / log(Expr(2))));
  }
  return simplify(make(Op::Add, addends));
}

bool is_comparison(Expr e) { return e.is(Op::Lt) || e.is(Op::Le) || e.is(Op::Eq) || e.is(Op::Ne); }
bool is_infinite(Expr e) { return e.number() && std::isinf(*e.number()); }

/// Points that are compared with something else than points, infinities and 0, such as the elements that they are an extremum of (an argmax): these are not
/// rounded as what is held without its factor.
std::set<Sym> compared_points(const Derivation& d) {
  std::set<Sym> points, compared;
  for (const Pass& pass : d.passes)
    for (const Point& p : pass.state.points) points.insert({p.var, p.next});
  const auto plain = [&](Expr side) {
    return is_infinite(side) || side.is_constant(0) || (side.is(Op::Read) && points.count(side->sym) > 0);
  };
  const std::function<void(Expr)> visit = [&](Expr e) {
    if (!e) return;
    for (Expr a : e.args()) visit(a);
    if (!is_comparison(e)) return;
    for (size_t k = 0; k < 2; ++k)
      if (!plain(e.arg(1 - k)))
        each_read(e.arg(k), [&](Expr read) {
          if (points.count(read->sym)) compared.insert(read->sym);
        });
  };
  for (const Reduction& r : d.cascade.reductions) visit(r.body), visit(r.present);
  for (const CascadeOutput& o : d.cascade.outputs) visit(o.value);
  for (const Pass& pass : d.passes)
    for (const Component& c : pass.state.components) {
      visit(c.lift), visit(c.present);
      for (const RepairTerm& t : c.repair) visit(t.factor);
    }
  for (Expr e : d.finish) visit(e);
  return compared;
}

}  // namespace

Derivation points_without_scale(const Program& elaborated, Derivation d) {
  std::map<Sym, Expr> scales;  // of ρ and ρ'
  const std::set<Sym> compared = compared_points(d);
  for (Pass& pass : d.passes)
    for (Point& p : pass.state.points) {
      if (!p.exponential || p.kind == Point::Kind::Mean) continue;
      const Expr u = simplify(bake(elaborated.axes, p.u)), scale = scale_of(u);
      if (!scale.is_constant(1)) {
        p.u = simplify(u / scale);
        p.scale = scale;
      } else if (const Expr binary =
                     compared.count(p.var) + compared.count(p.next) > 0 ? Expr() : in_binary_units(u)) {
        p.u = binary;
        p.scale = log(Expr(2));
      } else {
        continue;
      }
      scales[p.var] = scales[p.next] = p.scale;
    }
  if (scales.empty()) return d;
  auto scaled = [&](Expr& e) {
    if (!e) return;
    std::map<Expr, Expr> held;  // scale·read -> read
    Expr after = rewrite(e, [&](Expr x) -> Expr {
      if (x.is(Op::Read)) {
        auto it = scales.find(x->sym);
        if (it == scales.end()) return x;
        Expr value = it->second * x;
        held[value] = x;
        return value;
      }
      // Points are compared as they are held: with one another, and with what they are at first.
      if (is_comparison(x)) {
        std::vector<Expr> sides = x.args();
        std::set<Expr> factors;
        for (Expr& side : sides) {
          if (is_infinite(side)) continue;
          auto it = held.find(side);
          if (it == held.end()) return x;
          factors.insert(scales.at(it->second->sym));
          side = it->second;
        }
        if (factors.size() == 1) return with_args(x, sides);
      }
      return x;
    });
    if (after != e) e = simplify(bake(elaborated.axes, after));
  };
  for (Reduction& r : d.cascade.reductions) {
    scaled(r.body);
    scaled(r.present);
  }
  for (CascadeOutput& o : d.cascade.outputs) scaled(o.value);
  for (Pass& pass : d.passes) {
    for (Point& p : pass.state.points) {
      scaled(p.u);
      scaled(p.present);
    }
    for (Component& c : pass.state.components) {
      scaled(c.lift);
      scaled(c.present);
      for (RepairTerm& t : c.repair) scaled(t.factor);
    }
  }
  for (Expr& e : d.finish) scaled(e);
  return d;
}

}  // namespace tilewright
