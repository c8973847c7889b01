// What stands below the picture of a kernel.
#pragma once
#include "tilewright/diagram/kernel_text.h"

namespace tilewright {

/// H and M of a plan by the model, a line each, in bytes: values where all sizes of a formula are in `sizes` (by size symbol), else formulas.
std::vector<std::string> cost_lines(const Program& p, const TileProgram& t,
                                    const std::map<Sym, int64_t>& sizes);

/// The grid, the masks (`cut_by_mask`: some chunks are not tested), host steps, and of the states that the kernel holds what was derived.
std::vector<std::string> kernel_notes(const Program& p, const Derivation& d, const TileProgram& t,
                                      const TileKernel& k, bool cut_by_mask);

}  // namespace tilewright
