// Memory of a long sequence on the CPU: what a process takes besides inputs and outputs.
#include <gtest/gtest.h>

#include "tests/support/command.h"

namespace tilewright::testing::memory_test {
namespace {

constexpr int64_t kMiB = 1 << 20;

/// Peak memory of `run` at one head of 128 features and S queries and keys, in f32. The window keeps the run short; the
/// scores of all queries would take 4 GiB.
int64_t peak(int64_t s, const std::string& cache) {
  const std::string size = "b=1,h=1,i=" + std::to_string(s) + ",j=" + std::to_string(s);
  const CommandResult r = tilewright({"run", "examples/window_two_sided.tw", "--size", size, "--param",
                                      "w=64", "--dtype", "Q=f32,K=f32,V=f32,O=f32", "--warmup", "0"},
                                     "", {{"TILEWRIGHT_CACHE_DIR", cache}});
  EXPECT_EQ(r.status, 0) << r.err;
  return r.peak_bytes;
}

TEST(Memory, OfALongSequenceIsThatOfItsArrays) {
  constexpr int64_t s = 32768, arrays = 4 * s * 128 * 4;  // Q, K, V and O
  const std::string cache = new_folder();
  peak(s, cache);  // the compiler, which takes memory of its own, is done
  const int64_t taken = peak(s, cache);
  EXPECT_GT(taken, arrays) << "all of the arrays were touched";
  EXPECT_LT(taken - arrays, 64 * kMiB);
}

}  // namespace
}  // namespace tilewright::testing::memory_test
