// Long sums inside of a chunk, a part at a time.
#pragma once
#include "tilewright/tile/tile_program.h"

namespace tilewright::cpu {

/// Elements of a summed axis beyond which its operands are loaded part by part, and of a part.
constexpr int64_t long_sum = 768, sum_part = 256;

/// Products over a whole axis that is long take its operands in parts: a loop over the axis stands in the place of the product, and accumulates. Only where
/// nothing else reads the operands. Values are the same up to the order of sums.
TileKernel with_nested_sums(const std::vector<Axis>& axes, TileKernel k);

}  // namespace tilewright::cpu
