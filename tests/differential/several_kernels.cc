// Examples that take several kernels, on every target that needs no GPU: ragged sizes with 0 and 1, f32 and f16.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <tuple>

#include "tests/support/examples.h"
#include "tilewright/driver/compiled.h"
#include "tilewright/runtime/cache.h"
#include "tilewright/runtime/compile.h"

namespace tilewright::testing {
namespace {

struct Blocks {
  const char* program;
  std::map<std::string, int64_t> literals;
  std::vector<std::map<std::string, int64_t>> sizes;
};

const Blocks kBlocks[] = {{"swiglu",
                           {},
                           {{{"t", 0}, {"c", 3}, {"f", 5}},
                            {{"t", 1}, {"c", 1}, {"f", 1}},
                            {{"t", 3}, {"c", 0}, {"f", 5}},
                            {{"t", 3}, {"c", 5}, {"f", 0}},
                            {{"t", 50}, {"c", 65}, {"f", 129}}}},
                          {"attention_block",
                           {{"d", 16}, {"e", 8}},
                           {{{"b", 1}, {"h", 2}, {"i", 0}, {"j", 3}, {"c", 5}},
                            {{"b", 1}, {"h", 1}, {"i", 1}, {"j", 1}, {"c", 1}},
                            {{"b", 2}, {"h", 3}, {"i", 5}, {"j", 0}, {"c", 7}},
                            {{"b", 1}, {"h", 0}, {"i", 5}, {"j", 4}, {"c", 7}},
                            {{"b", 2}, {"h", 3}, {"i", 17}, {"j", 40}, {"c", 70}}}},
                          {"qkv_attention",
                           {{"d", 16}},
                           {{{"b", 1}, {"k", 1}, {"g", 1}, {"i", 0}, {"c", 3}},
                            {{"b", 1}, {"k", 1}, {"g", 1}, {"i", 1}, {"c", 1}},
                            {{"b", 1}, {"k", 2}, {"g", 0}, {"i", 4}, {"c", 6}},
                            {{"b", 2}, {"k", 2}, {"g", 3}, {"i", 33}, {"c", 20}}}},
                          {"llama_block",
                           {{"d", 16}},
                           {{{"b", 1}, {"k", 1}, {"g", 1}, {"i", 0}, {"c", 3}, {"f", 4}},
                            {{"b", 1}, {"k", 1}, {"g", 1}, {"i", 1}, {"c", 1}, {"f", 1}},
                            {{"b", 1}, {"k", 1}, {"g", 2}, {"i", 3}, {"c", 6}, {"f", 0}},
                            {{"b", 2}, {"k", 2}, {"g", 3}, {"i", 21}, {"c", 20}, {"f", 70}}}}};

class SeveralKernels : public ::testing::TestWithParam<std::tuple<Target, DType>> {};

INSTANTIATE_TEST_SUITE_P(Targets, SeveralKernels,
                         ::testing::Combine(::testing::Values(Target::Interp, Target::Cpu),
                                            ::testing::Values(DType::f32, DType::f16)),
                         [](const auto& of) {
                           return fmt::format("{}_{}", name(std::get<0>(of.param)),
                                              name(std::get<1>(of.param)));
                         });

TEST_P(SeveralKernels, Examples) {
  for (const Blocks& blocks : kBlocks)
    for (const auto& sizes : blocks.sizes) {
      CheckCase c;
      c.program = blocks.program;
      c.literals = blocks.literals;
      c.sizes = sizes;
      std::tie(c.target, c.dtype) = GetParam();
      c.slack = 8;  // one or a few elements
      expect_check(c);
    }
}

/// The mapped program of every kernel, its signals checked by the adversary.
TEST(SeveralKernelsMapped, Examples) {
  for (const Blocks& blocks : kBlocks)
    for (Target mapping : {Target::Cuda, Target::Cpu}) {
      // A sum over two axes one of which stands in a condition alone is not mapped to sm_90a.
      if (mapping == Target::Cuda && std::string(blocks.program) == "attention_block") continue;
      CheckCase c;
      c.program = blocks.program;
      c.literals = blocks.literals;
      c.sizes = blocks.sizes.front().begin()->first == "t" ? blocks.sizes[4] : blocks.sizes.back();
      for (auto& [axis, size] : c.sizes) size = std::min<int64_t>(size, 20);
      c.dtype = DType::f16;
      c.target = Target::InterpMapped;
      c.mapping = mapping;
      c.slack = 8;
      expect_check(c);
    }
}

TEST(SeveralKernelsOnTheCpu, ANewSizeCompilesNothing) {
  setenv("TILEWRIGHT_CACHE_DIR", (temporary_folder() + "/several").c_str(), 1);
  Kernel k(example("swiglu", DType::f32), {});
  ASSERT_TRUE(k.compiled().several());
  const auto run = [&](int64_t t, int64_t c, int64_t f) {
    const HostArray x = filled(DType::f32, {t, c}, Fill::Normal, 1, "x"),
                    w1 = filled(DType::f32, {c, f}, Fill::Normal, 1, "W1"),
                    w3 = filled(DType::f32, {c, f}, Fill::Normal, 1, "W3"),
                    w2 = filled(DType::f32, {f, c}, Fill::Normal, 1, "W2"), y = allocate(DType::f32, {t, c});
    const auto tensor = [](const HostArray& a) { return Tensor{a.dtype, a.data.get(), a.shape, a.strides}; };
    k.run({{"x", tensor(x)}, {"W1", tensor(w1)}, {"W3", tensor(w3)}, {"W2", tensor(w2)}}, {},
          {{"y", tensor(y)}});
  };
  run(60, 80, 90);
  run(3, 16, 24);
  run(60, 6000, 90);
  run(3, 80, 6000);
  run(60, 80, 6000);
  run(3, 6000, 90);
  const int64_t after = compile_stats().compiled;
  for (int64_t t : {0, 1, 47, 48, 130})
    for (int64_t c : {0, 1, 64, 200}) run(t, c, 100);
  EXPECT_EQ(compile_stats().compiled, after);
}

}  // namespace
}  // namespace tilewright::testing
