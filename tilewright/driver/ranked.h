// Plans of a compiled program in the order of their predicted times, kernel by kernel.
#pragma once
#include "tilewright/driver/compiled.h"
#include "tilewright/search/rank.h"

namespace tilewright {

struct RankedKernel {
  size_t kernel = 0;  ///< of CompiledProgram::kernels
  Ranking ranking;
};

/// Sizes of every axis of a program and of its kernels, by size symbol: those that are given by name, and the nominal size (price.h) of those that are not.
Sizes all_sizes(const CompiledProgram& c, const std::map<std::string, int64_t>& sizes);

/// What is ranked beside each kernel's own plan for these sizes. `best`: how many plans of each kernel, from the first on, are mapped to the target; plans
/// that the mapping refuses are left out (counted as refused).
std::vector<RankedKernel> rank_plans(const CompiledProgram& c, const CompileOptions& o,
                                     const MachineFile& machine, const Sizes& sizes, size_t best);

/// Another way to cut a program into kernels.
struct RankedCut {
  std::string clause;  ///< what a schedule says to ask for it: "store y", "fuse n"
  CompiledProgram program;
  std::vector<RankedKernel> kernels;
  double seconds = 0;  ///< of all kernels, each with its first plan by prediction
};

/// One definition that holds a reduction is stored where `c` computes it where it is read, or the other way round. The fastest first; those that are refused, or cut no
/// other kernels, are left out. `most` definitions are tried, in the order of the program, and `complete` says whether those were all. `c`: of `p`, compiled without a schedule, and `own` its ranking.
std::vector<RankedCut> rank_cuts(const Program& p, const CompiledProgram& c,
                                 const std::vector<RankedKernel>& own, const CompileOptions& o,
                                 const MachineFile& machine, const std::map<std::string, int64_t>& sizes,
                                 size_t most, bool& complete);
/// Seconds of all kernels with their first plans.
double seconds_of(const std::vector<RankedKernel>& kernels);

}  // namespace tilewright
