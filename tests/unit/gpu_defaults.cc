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
  for (const auto& [file, stream] :
       {std::pair("examples/paged.tw", "stream j=64; split j=512; keep Q, len; stages 3"),
        std::pair("examples/dc_gqa.tw", "stream j=128; split j=512; keep Q; stages 2")}) {
    const Compiled c = compile_file(file);
    const std::string all = print(c.program, default_plans(c.program, c.derivation, Target::Cuda));
    EXPECT_NE(all.find(stream), std::string::npos) << all;
  }
}

}  // namespace
}  // namespace tilewright::testing::gpu_defaults_test
