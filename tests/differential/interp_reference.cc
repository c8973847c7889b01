// Tile programs against the definition, evaluated directly; and what they move against the formulas.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/compiled.h"

namespace tilewright::interp_reference_test {
namespace {

using namespace testing;

void expect_right(const Compiled& c, const std::map<std::string, int64_t>& values, const std::string& what,
                  unsigned seed = 1) {
  std::string where = what + " with";
  for (auto& [name, n] : values) where += fmt::format(" {}={}", name, n);
  Sizes sizes = sizes_of(c.program, values);
  Arrays arrays = random_inputs(c.program, sizes, seed);
  Outcome r = run_tiles(c, sizes, arrays);
  std::string wrong = disagreement(c, sizes, arrays, r), count = miscount(c, sizes, arrays, r.counts);
  EXPECT_EQ(wrong, "") << where << "\n" << print(c.program, c.tiles);
  EXPECT_EQ(count, "") << where << "\n" << print(c.program, c.tiles);
}

const int64_t kSizes[] = {0, 1, 7, 64, 129};
const char* kGuards[] = {"always", "moved", "threshold", "speculative"};

TEST(Examples, Attention) {
  for (const char* file : {"examples/pf_global.tw", "examples/pf_causal.tw"})
    for (const char* guard : kGuards) {
      Compiled c = compile_file(file, fmt::format("group i=64/32; stream j=32; guard {}", guard),
                                {.literal_sizes = {{"d", 16}, {"e", 24}}});
      for (int64_t i : kSizes)
        for (int64_t j : kSizes)
          expect_right(c, {{"b", 1}, {"h", 2}, {"i", i}, {"j", j}}, fmt::format("{} {}", file, guard));
    }
}

TEST(Examples, AttentionSplit) {
  for (const char* file : {"examples/pf_global.tw", "examples/pf_causal.tw"})
    for (const char* guard : {"always", "speculative"}) {
      Compiled c = compile_file(file, fmt::format("group i=16; stream j=8; split j=32; guard {}", guard),
                                {.literal_sizes = {{"d", 8}, {"e", 8}},
                                 .dtypes = {{"Q", DType::f32}, {"K", DType::f32}, {"V", DType::f32}}});
      for (int64_t i : {1, 40})
        for (int64_t j : kSizes)
          expect_right(c, {{"b", 1}, {"h", 2}, {"i", i}, {"j", j}}, fmt::format("split {} {}", file, guard));
    }
}

TEST(Examples, Softmax) {
  for (const char* schedule :
       {"resident j=256", "stream j=32; guard always", "group r=4; stream j=16; guard moved",
        "group r=4; stream j=16; guard threshold", "group r=2; stream j=16; guard speculative"}) {
    Compiled c = compile_file("examples/softmax.tw", schedule);
    for (int64_t j : kSizes)
      for (int64_t r : {0, 1, 7}) expect_right(c, {{"r", r}, {"j", j}}, fmt::format("softmax {}", schedule));
  }
}

TEST(Examples, LayernormMatmul) {
  for (const char* schedule :
       {"group r=16/8, n=16; stream c=16", "group r=5, n=3; stream c=7", "group r=4, n=8; resident c=64"})
    for (DType dtype : {DType::f16, DType::bf16, DType::f32}) {
      Compiled c = compile_file(
          "examples/layernorm_matmul.tw", schedule,
          {.literal_sizes = {{"c", 48}}, .dtypes = {{"x", dtype}, {"gamma", dtype}, {"W", dtype}}});
      for (int64_t r : {0, 1, 33})
        for (int64_t n : {7, 40})
          expect_right(c, {{"r", r}, {"n", n}}, fmt::format("layernorm {} {}", schedule, name(dtype)));
    }
}

TEST(Examples, Respelled) {
  Compiled a = compile_file("examples/respelled.tw", "group query=128/64; stream key=128; guard speculative");
  Compiled b = compile_file("examples/pf_causal.tw", "group i=128/64; stream j=128; guard speculative");
  EXPECT_EQ(print(a.program, a.tiles, true), print(b.program, b.tiles, true));
}

}  // namespace
}  // namespace tilewright::interp_reference_test
