// Default plans of a GPU for streams of exponentials, by the number of rows.
#include <gtest/gtest.h>

#include "tests/support/compiled.h"

namespace tilewright::testing::gpu_defaults_test {
namespace {

/// The plans behind those of few rows, a line each.
std::string plans(const std::string& file, int64_t features) {
  const Compiled c =
      compile_file(file, {}, {.literal_sizes = {{"d", features}, {"e", features}}, .dtypes = {}});
  std::vector<GuardedPlan> all = default_plans(c.program, c.derivation, Target::Cuda);
  EXPECT_LE(all.size(), 8);
  while (!all.empty() && all[0].plan.computers == 1) all.erase(all.begin());
  return print(c.program, all) + "\n";
}

TEST(GpuDefaults, RowsOfUnmaskedStreamsShareWhatIsCopied) {
  EXPECT_EQ(
      plans("examples/pf_global.tw", 64),
      "when i <= 512: group b=1, h=1, i=128/64; stream j=128; keep Q; stages 2; roles 1+2; guard "
      "speculative\n"
      "when i <= 8192: group b=1, h=1, i=256/64; stream j=64; keep Q; stages 4; roles 1+4; guard "
      "speculative\n"
      "otherwise: group b=1, h=1, i=192/64; stream j=96; keep Q; stages 3; roles 1+3; guard speculative\n");
  EXPECT_EQ(
      plans("examples/pf_global.tw", 128),
      "when i <= 1024: group b=1, h=1, i=128/64; stream j=128; keep Q; stages 2; roles 1+2; guard "
      "speculative\n"
      "otherwise: group b=1, h=1, i=192/64; stream j=64; keep Q; stages 3; roles 1+3; guard speculative\n");
  EXPECT_EQ(plans("examples/pf_global.tw", 256),
            "group b=1, h=1, i=128/64; stream j=64; keep Q; stages 2; roles 1+2; guard speculative\n");
}

TEST(GpuDefaults, LongestRowsStartFirstWhereAMaskCutsThem) {
  EXPECT_EQ(
      plans("examples/pf_causal.tw", 128),
      "when i <= 2048: group b=1, h=1, i=128/64; stream j=128; keep Q; stages 2; roles 1+2; guard "
      "speculative; "
      "grid blocks, h/32 MB\n"
      "otherwise: group b=1, h=1, i=192/64; stream j=64; keep Q; stages 3; roles 1+3; guard speculative; "
      "grid blocks, h/32 MB\n");
  // Query heads that share a key head meet it in the same section.
  EXPECT_NE(plans("examples/pf_gqa.tw", 64)
                .find("i=256/64; stream j=64; keep Q; stages 4; roles 1+4; guard "
                      "speculative; grid blocks, k/32 MB"),
            std::string::npos);
}

/// Where a table says which page holds a key, one chunk is on its way while another is waited for.
TEST(GpuDefaults, GathersHaveAChunkOnItsWay) {
  const auto few = [](const std::string& key) {
    const Compiled c = compile(
        "axis b, h, i, p, v\naxis t = 16\naxis j = 16 * size(p)\naxis d = 128, e = 128\n"
        "input Q[b, h, i, d] : f16\ninput K[v, h, t, d] : f16\ninput V[v, h, t, e] : f16\n"
        "input page[b, p] : i64 range(0, size(v))\nS[b, h, i, j] = sum[d](Q * K[" +
        key + ", h, j % 16, d])\nO[b, h, i, e] = sum[j](softmax[j](S) * V[" + key +
        ", h, j % 16, e])\noutput O : f16\n");
    return print(c.program, default_plans(c.program, c.derivation, Target::Cuda));
  };
  EXPECT_NE(few("page[b, j // 16]").find("stream j=64; split j=512; keep Q; stages 3"), std::string::npos);
  EXPECT_NE(few("j // 16").find("stream j=128; split j=512; keep Q; stages 2"), std::string::npos);
}

/// A thread of one group lacks registers for 128 scores that a hyperbolic tangent makes.
TEST(GpuDefaults, LongScoresOfFewRowsComeInShortChunks) {
  const auto few = [](const char* file) {
    const Compiled c = compile_file(file);
    const std::vector<GuardedPlan> all = default_plans(c.program, c.derivation, Target::Cuda);
    return std::pair(all[0].plan.chunk, all[0].plan.stages);
  };
  EXPECT_EQ(few("examples/dc_softcap.tw"), std::pair(int64_t(64), 3));
  EXPECT_EQ(few("examples/dc_gqa.tw"), std::pair(int64_t(128), 2));
}

}  // namespace
}  // namespace tilewright::testing::gpu_defaults_test
