// A program without fusion: each statement of the definition a kernel of its own, whose array lies in memory between it and those that read it.
#pragma once
#include "tilewright/explain/planned.h"

namespace tilewright::explain {

struct UnfusedKernel {
  std::string statement;            ///< the array that it stores
  std::vector<std::string> reads;   ///< arrays
  std::unique_ptr<Planned> kernel;  ///< with the default plan of the target; null where it is refused
  std::string refused;              ///< why
  bool between = false;             ///< the array is no output
  DType dtype = DType::f32;
  Expr elements;  ///< of the array, over sizes
};

/// In the order of the program. Softmaxes and the like stay in the kernel of their statement.
std::vector<UnfusedKernel> unfused(const Program& p, const CompileOptions& o,
                                   const std::map<std::string, int64_t>& sizes);

}  // namespace tilewright::explain
