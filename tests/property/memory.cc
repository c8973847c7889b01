// Memory of a long sequence on the CPU: what a process takes besides inputs and outputs.
#include <gtest/gtest.h>

#include "tests/support/command.h"

namespace tilewright::testing::memory_test {
namespace {

/// Peak memory of `run` at one head of 128 features, in f32. The scores of 2048 queries and 32768 keys would take 256 MiB.
TEST(Memory, OfALongSequenceIsThatOfItsArrays) {
  constexpr int64_t queries = 2048, keys = 32768, arrays = 2 * (queries + keys) * 128 * 4;  // Q, O and K, V
  const std::string cache = new_folder();
  const auto peak = [&] {
    const CommandResult r = tilewright({"run", "examples/pf_global.tw", "--size", "b=1,h=1,i=2048,j=32768",
                                        "--dtype", "Q=f32,K=f32,V=f32,O=f32", "--warmup", "0"},
                                       "", {{"TILEWRIGHT_CACHE_DIR", cache}});
    EXPECT_EQ(r.status, 0) << r.err;
    return r.peak_bytes;
  };
  peak();  // the compiler, which takes memory of its own, is done after this
  const int64_t taken = peak();
  EXPECT_GT(taken, arrays) << "all of the arrays were touched";
  EXPECT_LT(taken - arrays, int64_t{64} << 20);
}

}  // namespace
}  // namespace tilewright::testing::memory_test
