// The legal plans of a kernel: a few families, each with values that its numbers may take.
//
// Plans of one family differ in block sizes and chunks alone, so one tile program and one set of formulas stand for all of them (TileSymbols). What
// changes the tile program makes another family: a split, a stream held resident, an axis that is cut into blocks rather than single indices, groups
// of threads, ring slots, a kept operand, a guard.
#pragma once
#include "tilewright/hardware/machine_file.h"
#include "tilewright/plan/plan.h"

namespace tilewright {

/// A number of a plan: elements of a block of `axis`, or of a chunk of the streamed axis.
struct Dial {
  Sym axis;
  bool chunk = false;
  std::vector<int64_t> values;  ///< increasing
};

struct Family {
  Plan plan;  ///< one plan of the family
  std::vector<Dial> dials;
};

/// `plan` with the k-th value of each dial, in the order of the family's dials; pieces of a CPU follow their blocks.
Plan with_values(const Family& f, const std::vector<int64_t>& values);

/// Families for one kernel, that of `base` first. `base`: the default plan that the sizes choose; one thing at a time differs from it. Blocks and chunks come from a ladder of multiples of the vector (CPU) or of the matrix units (GPU), up to the first that covers `sizes`; those of
/// `base` are among them. Each family's first plan passes check_plan. `sizes`: by size symbol; those that are absent count as long.
std::vector<Family> families(const Program& elaborated, const Derivation& d, const Plan& base,
                             const MachineFile& machine, const Sizes& sizes);

}  // namespace tilewright
