// What a kernel costs at nominal sizes, as one number: counted bytes and operations. It decides which statements share a kernel (plan/partition.h).
#pragma once
#include "tilewright/driver/compiled.h"

namespace tilewright {

/// The length that an axis counts as where its size is not literal: the choice of kernels is made once for all sizes. A GPU is full from longer ones on.
constexpr int64_t nominal_size(Target plans) { return plans == Target::Cuda ? 2048 : 1024; }

/// `sizes`, with that length for every axis without a literal size that it lacks, and what follows for computed sizes.
Sizes nominal_sizes(const std::vector<Axis>& axes, Target plans, Sizes sizes = {});
/// Of plans with conditions the first that admits nominal sizes, else the last.
size_t nominal_plan(const Program& elaborated, Target target, const std::vector<GuardedPlan>& plans);

/// Axes that this plan cuts into blocks.
std::vector<Sym> axes_cut(const Compilation& c, Target plans);

/// What a machine does in the time in which a byte crosses its memory; docs/schedule.md says where the numbers come from.
struct Balance {
  double again;  ///< the share that a byte costs which a kernel reads a second time (caches hold it)
  double narrow_products;  ///< operations of products whose operands have at most 16 bits
  double products;         ///< of others
  double operations;       ///< of everything else
  double launch;           ///< bytes that cross memory while a kernel starts
};
Balance balance_of(Target plans);

/// The kernel with the first of its plans that admits the nominal sizes; its tiles must have been built. `plans`: the machine whose plans it has. Bytes are
/// those of model/cost.h. Each operation counts one, a division or root 4, exp, log and their like 16; what differs from block to block under a
/// mask is taken at a few blocks. UserError where bytes overflow 64 bits.
Price price_of(const Compilation& c, Target plans);

}  // namespace tilewright
