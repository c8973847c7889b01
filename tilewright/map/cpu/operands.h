// Which operand tiles are read where they lie, and what a kernel is given.
#pragma once
#include "tilewright/map/cpu/lanes.h"

namespace tilewright::cpu {

struct View {
  Sym tensor;
  std::vector<Expr> index;
};

/// Tiles that need no copy: loaded from one place, with indices affine in their axes and proved inside, in the element type in which the kernel
/// computes, and neither the lanes operand of a product (which must be packed) nor one whose rows it would cross again and again.
std::map<Sym, View> views_of(const TileProgram& t, const TileKernel& k, const Lanes& lanes);

/// The argument list of a kernel: pointers, strides, sizes, scalars, each in the order of the program.
void add_arguments(const Program& p, const MappedProgram& m, MappedKernel& k);

}  // namespace tilewright::cpu
