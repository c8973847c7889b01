// The example programs at chosen dtypes and sizes, checked against their definitions.
#pragma once
#include <gtest/gtest.h>

#include "tilewright/driver/session.h"

namespace tilewright::testing {

/// examples/<name>.tw with every float array declared `dtype`, and literal sizes replaced.
Program example(const std::string& name, DType dtype,
                const std::map<std::string, int64_t>& literal_sizes = {});

struct CheckCase {
  std::string program;
  DType dtype = DType::f32;
  Target target = Target::Cpu;
  Target mapping = Target::Cuda;
  std::map<std::string, int64_t> sizes;
  std::map<std::string, int64_t> literals;
  std::string schedule;
  std::string arch;  ///< CompileOptions::arch
  std::map<std::string, double> params;
  std::map<std::string, InputSource> inputs;
  uint64_t seed = 1;
  /// Multiplies the tolerance. The rule takes the naive program's error on the same elements; where there is one element that error can be near zero by luck.
  double slack = 1;
  /// Operations past which a sample of the elements is compared, as in Session::check.
  double sample_above = 1e10;
  std::string str() const;
};

/// Runs the case and expects `tilewright check` to pass. Faults of ours fail the test with their message.
void expect_check(const CheckCase& c);

/// The (row, stream) sizes that matter: empty, one, below and at and above a tile.
const std::vector<int64_t>& ragged_sizes();

/// TILEWRIGHT_SWEEP=full in the environment asks for every combination of sizes.
bool full_sweep();

/// Skips the test where there is no GPU.
#define SKIP_WITHOUT_GPU()                                         \
  do {                                                             \
    std::string why;                                               \
    if (!::tilewright::cuda::available(&why)) GTEST_SKIP() << why; \
  } while (false)

}  // namespace tilewright::testing
