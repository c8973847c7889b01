#include "tilewright/plan/axes.h"

#include <algorithm>

namespace tilewright {

bool contains(const std::vector<Sym>& v, Sym s) { return std::find(v.begin(), v.end(), s) != v.end(); }

namespace {

void add(std::vector<Sym>& v, Sym s) {
  if (!contains(v, s)) v.push_back(s);
}

/// Calls f(tensor, index symbols its indices mention, all of them) for every read of an input, and collects bound axes. An index that a reduction around the read
/// binds (`around`) is not one of the axes that results have.
template <class F>
void visit_reads(const Program& p, Expr e, std::vector<Sym>& bound, const F& f,
                 const std::vector<Sym>& around = {}) {
  if (!e) return;
  if (e.is(Op::Read) && p.input(e->sym)) {
    std::vector<Sym> mentioned, all;
    for (const Expr& index : e.args())
      for (Sym s : free_symbols(index)) {
        if (s.kind() != SymbolKind::Index) continue;
        add(all, s);
        if (!contains(around, s)) add(mentioned, s);
      }
    f(e->sym, mentioned, all);
  }
  if (!e.is(Op::Reduce)) {
    for (const Expr& a : e.args()) visit_reads(p, a, bound, f, around);
    return;
  }
  std::vector<Sym> inside = around;
  for (Sym s : e->bound) {
    add(bound, s);
    add(inside, s);
  }
  for (size_t k = 0; k < e.args().size(); ++k) visit_reads(p, e.arg(k), bound, f, k == 0 ? inside : around);
}

}  // namespace

AxisRoles axis_roles(const Program& p, const Derivation& d) {
  AxisRoles roles;
  const Sym stream = d.cascade.axis;
  for (const CascadeOutput& o : d.cascade.outputs)
    for (Sym s : p.outputs[o.output].axes())
      if (s != stream) add(roles.free, s);
  for (const Reduction& r : d.cascade.reductions)
    for (Sym s : r.axes)
      if (s != stream) add(roles.free, s);
  // The grid follows the memory order of the outputs, so it does not depend on the order of declaration.

  std::vector<std::pair<Sym, std::vector<Sym>>> reads;
  auto collect = [&](Expr e) {
    visit_reads(p, e, roles.inner,
                [&](Sym tensor, const std::vector<Sym>& axes, const std::vector<Sym>& all) {
                  reads.emplace_back(tensor, axes);
                  std::vector<Sym>& at = roles.read_at[tensor];  // empty of a single number
                  for (Sym s : all) add(at, s);
                });
  };
  for (const Reduction& r : d.cascade.reductions) {
    collect(r.body);
    collect(r.present);
  }
  for (const CascadeOutput& o : d.cascade.outputs)
    if (o.along_stream) collect(o.value);
  roles.inner.erase(std::remove_if(roles.inner.begin(), roles.inner.end(),
                                   [&](Sym s) { return s == stream || contains(roles.free, s); }),
                    roles.inner.end());
  for (const auto& [tensor, axes] : reads) {
    if (contains(axes, stream)) {
      add(roles.streamed_inputs, tensor);
    } else {
      add(roles.kept_inputs, tensor);
    }
  }
  for (Sym a : roles.free)
    for (const auto& [tensor, axes] : reads)
      if (contains(axes, stream) && !contains(axes, a)) {
        add(roles.reused, a);
        add(roles.lacking[a], tensor);
      }

  std::vector<Sym> point_axes;
  for (const Pass& pass : d.passes)
    for (const Point& point : pass.state.points)
      for (Sym s : point.axes) add(point_axes, s);
  for (Sym a : roles.free)
    if (!point_axes.empty() && !contains(point_axes, a)) add(roles.feature, a);
  return roles;
}

}  // namespace tilewright
