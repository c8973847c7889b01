// Products of bf16 on units that multiply pairs: which products take them, and how their operands lie.
//
// The unit adds a[2q, lane]·b[row, 2q] + a[2q+1, lane]·b[row, 2q+1] in f32. The lanes operand lies in pairs, [summed / 2][lane][2]; of the broadcast operand two
// neighbours along the summed axis are one 32-bit word, so that it is contiguous along that axis, and arrays of that order are read where they lie.
#pragma once
#include "tilewright/map/cpu/lanes.h"

namespace tilewright::cpu {

/// Products of the kernel whose factors both are bf16 and are used by such products alone, always on the same side. `lanes`: as chosen for products in f32.
std::map<const Dot*, PairProduct> pair_products(const Lanes& lanes, const TileKernel& k, Bf16Unit unit);

/// Vectors of a panel for products by tile registers: two columns of 16 lanes, one where there are no more.
int vectors_of_tiles(int64_t elements, int width);

/// Does a Local buffer lie in pairs? Then of which axis; null: it does not.
Sym pair_axis(const Buffer& b);

}  // namespace tilewright::cpu
