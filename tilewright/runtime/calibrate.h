// Measures the processor for the performance model: microbenchmarks alone, compiled by the system compiler.
//
// Rates are the best of many short runs, so that what else runs on the machine costs precision, not truth. Bytes per second, operations per second
// (two for each multiply-add), exponentials per second of the function that kernels use, seconds from one parallel region to the next.
#pragma once
#include <functional>
#include <string>

#include "tilewright/hardware/machine_file.h"

namespace tilewright {

struct CalibrateOptions {
  int threads = 0;  ///< 0: all cores
  double seconds =
      0.03;  ///< of the runs of one figure in one of three passes, at least; at most eight times that
  int64_t largest = 256 << 20;  ///< bytes of the largest array read
  /// Called before each measurement with what is measured, and how many there are.
  std::function<void(const std::string& what, int done, int all)> progress;
};

/// detect_cpu() with rates, bandwidths and the capacities of caches that the system does not tell. UserError where no compiler is found.
MachineFile calibrate_cpu(const CalibrateOptions& options = {});

/// Bytes up to which arrays stay in each cache, nearest first, from bytes/s of reads at growing sizes: a cache ends where the rate has fallen to three
/// quarters of what it was at a size well inside. Empty where the rates show no step.
std::vector<int64_t> cache_sizes(const std::vector<std::pair<int64_t, double>>& rates);

}  // namespace tilewright
