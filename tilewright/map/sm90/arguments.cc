// The argument list of a kernel: what its ops, bounds and tensor maps mention.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tilewright/map/sm90/context.h"
#include "tilewright/support/error.h"

namespace tilewright::hopper {
namespace {

/// Calls `expr` for every expression of the ops and `tensor` for every array they access.
template <class ExprF, class TensorF>
void visit(const Ops& ops, const ExprF& expr, const TensorF& tensor) {
  auto frame = [&](const Frame& f) {
    for (const AxisFrame& a : f) {
      if (a.origin) expr(a.origin);
      if (a.extent) expr(a.extent);
    }
  };
  auto uses = [&](const std::vector<Use>& u) {
    for (const Use& x : u) expr(x.number);
  };
  auto all = [&](const std::vector<Expr>& v) {
    for (Expr e : v) expr(e);
  };
  for_each_op(ops, [&](const MappedOp& op) {
    if (auto* x = std::get_if<Define>(&op.node)) expr(x->value);
    if (auto* x = std::get_if<Fetch>(&op.node)) tensor(x->tensor), all(x->index);
    if (auto* x = std::get_if<MappedLoop>(&op.node)) expr(x->lo), expr(x->hi);
    if (auto* x = std::get_if<If>(&op.node)) expr(x->condition);
    if (auto* x = std::get_if<Vote>(&op.node)) expr(x->condition), frame(x->frame), uses(x->uses);
    if (auto* x = std::get_if<Wait>(&op.node)) expr(x->use);
    if (auto* x = std::get_if<Arrive>(&op.node)) expr(x->use);
    if (auto* x = std::get_if<CopyAsync>(&op.node)) expr(x->use), all(x->coordinates);
    if (auto* x = std::get_if<Copy>(&op.node)) {
      if (x->use) expr(x->use);
      if (x->present) expr(x->present);
      tensor(x->tensor), all(x->index), frame(x->frame);
    }
    if (auto* x = std::get_if<StoreOut>(&op.node)) tensor(x->tensor), all(x->index), frame(x->frame);
    if (auto* x = std::get_if<Mma>(&op.node)) uses(x->uses), frame(x->frame);
    if (auto* x = std::get_if<MapOp>(&op.node)) expr(x->value), uses(x->uses), frame(x->frame);
    if (auto* x = std::get_if<ReduceOp>(&op.node)) expr(x->value), uses(x->uses), frame(x->frame);
  });
}

}  // namespace

void collect_arguments(Context& c) {
  std::vector<Sym> tensors;
  std::set<Sym> sizes, scalars;
  auto add_tensor = [&](Sym t) {
    if (std::find(tensors.begin(), tensors.end(), t) == tensors.end()) tensors.push_back(t);
  };
  auto add_expr = [&](Expr e) {
    for (Sym s : free_symbols(e)) {
      if (s.kind() == SymbolKind::Size) sizes.insert(s);
      const bool host = std::any_of(c.tiles.scalars.begin(), c.tiles.scalars.end(),
                                    [&](const HostScalar& h) { return h.sym == s; });
      if (s.kind() == SymbolKind::Param || host) scalars.insert(s);
    }
    for (Sym t : tensors_read(e))
      if (t.kind() == SymbolKind::Tensor) add_tensor(t);
  };
  auto add_sizes_of = [&](Sym t) {  // accesses are clipped to the array
    for (const Dim& d : c.dims(t))
      for (Sym a : d.pieces) sizes.insert(a.size());
  };
  for (const Role& r : c.out.roles) {
    visit(r.body, add_expr, add_tensor);
    for_each_op(
        r.body,
        [&](const MappedOp& op) {  // where an index may fail, elements outside of their axes are told apart
          const auto* copy = std::get_if<Copy>(&op.node);
          if (copy == nullptr || !copy->present) return;
          for (Sym a : c.out.buffer(copy->buffer).axes) sizes.insert(a.size());
        });
  }
  for (const KernelAxis& a : c.out.grid) sizes.insert(a.index.size());
  if (c.out.sectioned) add_expr(c.out.section);
  for (const TensorMap& m : c.out.tensor_maps) {
    for (const auto& d : m.dims) add_expr(d.size);
    add_tensor(m.tensor);
  }
  for (Sym t : tensors) add_sizes_of(t);
  for (Sym t : tensors) {
    c.out.arguments.push_back({Argument::Kind::Pointer, t, t, 0});
    const int n = int(c.dims(t).size());
    for (int d = 0; d < n; ++d) c.out.arguments.push_back({Argument::Kind::Stride, c.stride(t, d), t, d});
  }
  for (Sym s : sizes) {
    const bool baked = std::any_of(c.tiles.axes.begin(), c.tiles.axes.end(),
                                   [&](const Axis& a) { return a.index.size() == s && a.baked(); });
    if (!baked) c.out.arguments.push_back({Argument::Kind::Size, s, {}, 0});
  }
  for (Sym s : scalars) c.out.arguments.push_back({Argument::Kind::Scalar, s, {}, 0});
}

}  // namespace tilewright::hopper
