// map_sm80: the phases of the mapping to GPUs (map/sm90/context.h) with products by warps and copies in groups.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tilewright/map/sm90/context.h"
#include "tilewright/support/advice.h"
#include "tilewright/support/error.h"
#include "tilewright/tile/statements.h"

namespace tilewright {
namespace {

/// The kernel's products are of f32 operands, rows by columns. Single warps take them on tensor cores in parts; wgmma has no form for that, since it reads operands
/// from shared memory as they are.
bool multiplies_in_parts(const TileKernel& k) {
  bool in_parts = false, whole = false;
  for_each_stmt(k.body, [&](const Stmt& s) {
    auto* dot = std::get_if<Dot>(&s.node);
    if (!dot) return;
    const Tile &d = k.tile(dot->tile), &a = k.tile(dot->a), &b = k.tile(dot->b);
    const bool rows = std::any_of(d.axes.begin(), d.axes.end(), [&](Sym x) {
      const KernelAxis& axis = k.axis(x);
      return axis.kind == KernelAxis::Kind::Group && axis.block > 1;
    });
    whole = whole || (bytes(a.dtype) == 2 && a.dtype == b.dtype);
    in_parts = in_parts || (rows && d.axes.size() == 2 && d.dtype == DType::f32 && a.dtype == DType::f32 &&
                            b.dtype == DType::f32);
  });
  return in_parts && !whole;
}

/// Does an expression round to the type?
bool rounds_to(Expr e, DType t, std::set<Expr>& seen) {
  if (!e || !seen.insert(e).second) return false;
  if (e.is(Op::Cast) && e->dtype == t) return true;
  return std::any_of(e.args().begin(), e.args().end(), [&](Expr a) { return rounds_to(a, t, seen); });
}

/// A definition of the program that rounds to the type, as it is declared or on the way; null: none.
const Definition* rounding_definition(const Program& p, DType t) {
  for (const Definition& d : p.definitions) {
    std::set<Expr> seen;
    if (d.dtype == t || rounds_to(d.value, t, seen)) return &d;
  }
  return nullptr;
}

/// Numbers of four bits of exponent are converted by instructions that came with compute capability 8.9; rounding to those of five bits is not emitted for any GPU.
void refuse_f8(const Program& p, const Machine& m) {
  if (const Definition* d = rounding_definition(p, DType::f8e5m2))
    throw UserError(d->span,
                    fmt::format("`{}` rounds to f8e5m2, which kernels for GPUs do not", d->sym.name()),
                    "round to f8e4m3 or f16, or use " + advice::target("cpu"));
  for (const Output& out : p.outputs)
    if (out.dtype == DType::f8e5m2)
      throw UserError(out.span,
                      fmt::format("`{}` rounds to f8e5m2, which kernels for GPUs do not", out.sym.name()),
                      "declare it f8e4m3 or f16, or use " + advice::target("cpu"));
  if (m.capability >= 89) return;
  if (const Definition* d = rounding_definition(p, DType::f8e4m3))
    throw UserError(
        d->span,
        fmt::format("`{}` rounds to f8e4m3, which devices of compute capability 8.9 and later do; "
                    "kernels are made for {}",
                    d->sym.name(), m.arch),
        "round to f16, or run on a later device");
  auto refuse = [&](Sym array, DType t, Span span) {
    if (t != DType::f8e4m3) return;
    throw UserError(span,
                    fmt::format("`{}` is {}, which devices of compute capability 8.9 and later convert; "
                                "kernels are made for {}",
                                array.name(), name(t), m.arch),
                    "declare it f16, or run on a later device");
  };
  for (const Input& in : p.inputs) refuse(in.sym, in.dtype, in.span);
  for (const Output& out : p.outputs) refuse(out.sym, out.dtype, out.span);
}

}  // namespace

MappedProgram map_sm80(const Program& elaborated, const TileProgram& t, const Machine& m,
                       LayoutClass layout) {
  refuse_f8(elaborated, m);
  return hopper::map_kernels(elaborated, t, m, layout, [](const TileKernel&) { return true; });
}

MappedProgram map_gpu(const Program& elaborated, const TileProgram& t, const Machine& m, LayoutClass layout) {
  if (m.arch != sm90().arch) return map_sm80(elaborated, t, m, layout);
  refuse_f8(elaborated, m);
  return hopper::map_kernels(elaborated, t, m, layout, multiplies_in_parts);
}

}  // namespace tilewright
