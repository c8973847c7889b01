// map_sm80: the phases of the mapping to GPUs (map/sm90/context.h) with products by warps and copies in groups.
#include <fmt/format.h>

#include "tilewright/map/sm90/context.h"
#include "tilewright/support/error.h"

namespace tilewright {
namespace {

/// Numbers of four bits of exponent are converted by instructions that came with compute capability 8.9.
void refuse_f8(const Program& p, const Machine& m) {
  if (m.arch != "sm_80" && m.arch != "sm_86" && m.arch != "sm_87") return;
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
  return hopper::map_kernels(elaborated, t, m, layout, true);
}

MappedProgram map_gpu(const Program& elaborated, const TileProgram& t, const Machine& m, LayoutClass layout) {
  return m.arch == "sm_90a" ? map_sm90(elaborated, t, m, layout) : map_sm80(elaborated, t, m, layout);
}

}  // namespace tilewright
