// What the interpreter counts equals what the formulas say, byte for byte, at random sizes and plans.
#include <gtest/gtest.h>

#include <random>

#include "tests/support/compiled.h"
#include "tests/support/tile_samples.h"
#include "tilewright/expr/simplify.h"
#include "tilewright/model/cost.h"

namespace tilewright::model_counts_test {
namespace {

using testing::TestArray;
using testing::TileSample;

int64_t below(std::mt19937& gen, int64_t n) { return int64_t(gen() % uint64_t(n)); }

void expect_counts(const TileSample& s, const Sizes& sizes, const std::string& what) {
  std::map<std::string, TestArray> arrays;
  std::map<std::string, ArrayView> inputs;
  std::map<std::string, MutableArray> outputs;
  unsigned seed = 1;
  for (const Input& in : s.program.inputs) {
    TestArray& a = arrays[in.sym.name()] = testing::random_array(in.dtype, shape_of(in.dims, sizes), seed++);
    inputs[in.sym.name()] = a.view();
  }
  for (const Output& o : s.program.outputs) {
    TestArray& a = arrays["out " + o.sym.name()] = TestArray(o.dtype, shape_of(o.dims, sizes));
    outputs[o.sym.name()] = a.target();
  }
  Counts c = interpret(s.program, s.tiles, sizes, inputs, {}, outputs);
  Cost formula = cost(s.program, s.tiles);
  EXPECT_EQ(testing::miscount(formula, sizes, c), "") << what << to_text(s.program, formula);
}

TEST(Counts, AttentionEqualsItsFormula) {
  std::mt19937 gen(11);
  for (int round = 0; round < 40; ++round) {
    const int64_t piece = 1 + below(gen, 9), block = piece * (1 + below(gen, 3)), chunk = 1 + below(gen, 20);
    const int64_t features = 1 + below(gen, 6);
    TileSample s = testing::attention_sample({.guard = Guard(below(gen, 4)),
                                              .causal = below(gen, 3) > 0,
                                              .dtype = below(gen, 2) ? DType::f16 : DType::f32,
                                              .block = block,
                                              .piece = piece,
                                              .chunk = chunk,
                                              .features = features,
                                              .stages = int(1 + below(gen, 3))});
    for (int k = 0; k < 3; ++k) {
      const int64_t i = k == 0 ? below(gen, 2) : below(gen, 60), j = k == 1 ? below(gen, 2) : below(gen, 60);
      const std::vector<int64_t> sizes{below(gen, 3), 1 + below(gen, 2), i, j, features, features};
      std::string what = ::testing::PrintToString(sizes) + " block " + std::to_string(block) + "/" +
                         std::to_string(piece) + " chunk " + std::to_string(chunk) + "\n";
      expect_counts(s, testing::sizes_in_order(s.program, sizes), what);
      if (HasFailure()) return;
    }
  }
}

TEST(Counts, SoftmaxAndLayernormEqualTheirFormulas) {
  for (int64_t n : {0, 1, 7, 1023, 1024, 1025, 5000})
    for (int64_t rows : {0, 1, 3}) {
      TileSample resident = testing::resident_softmax_sample(),
                 two = testing::two_pass_softmax_sample(DType::f16);
      expect_counts(resident, testing::sizes_in_order(resident.program, {rows, n}), "resident ");
      expect_counts(two, testing::sizes_in_order(two.program, {rows, n}), "two passes ");
    }
  for (auto [rows, n] : {std::pair<int64_t, int64_t>{0, 1}, {1, 0}, {1, 1}, {65, 70}}) {
    TileSample s = testing::layernorm_matmul_sample();
    expect_counts(s, testing::sizes_in_order(s.program, {rows, n, 4096}), "layernorm ");
  }
}

TEST(Counts, FormulasReadLikeThePaper) {
  // Without a mask: 2·q·d for queries and outputs, 2·x·d for each block of queries.
  TileSample s = testing::global_attention_sample();
  Cost c = cost(s.program, s.tiles);
  const Program& p = s.program;
  Expr b = p.axes[0].index.size(), h = p.axes[1].index.size(), i = p.axes[2].index.size(),
       j = p.axes[3].index.size();
  EXPECT_TRUE(provably_equal(c.memory.loaded, b * h * Expr(256) * (i + Expr(2) * j * ceildiv(i, 128))))
      << to_string(c.memory.loaded);
  EXPECT_TRUE(provably_equal(c.memory.stored, b * h * Expr(256) * i)) << to_string(c.memory.stored);
}

}  // namespace
}  // namespace tilewright::model_counts_test
