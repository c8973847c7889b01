// build_tiles: the statements that plans turn into.
#include <gtest/gtest.h>

#include "tests/support/compiled.h"
#include "tests/support/tile_samples.h"
#include "tilewright/program/elaborate.h"
#include "tilewright/tile/statements.h"

namespace tilewright::tile_build_test {
namespace {

using namespace testing;

/// The same program and plan through the compiler, names aside.
void expect_same(const TileSample& sample) {
  Program p = elaborate(sample.program);
  Derivation d = derive(p, sample.tiles.plan.stream);
  TileProgram built = build_tiles(p, d, sample.tiles.plan);
  EXPECT_EQ(print(p, built, true), print(sample.program, sample.tiles, true)) << print(p, built);
}

TEST(Build, SamplesAreWhatIsBuilt) {
  for (Guard guard : {Guard::Always, Guard::Moved, Guard::Threshold, Guard::Speculative})
    for (DType dtype : {DType::f16, DType::f32}) {
      expect_same(attention_sample({.guard = guard, .dtype = dtype}));
      expect_same(attention_sample({.guard = guard,
                                    .causal = false,
                                    .dtype = dtype,
                                    .block = 48,
                                    .piece = 48,
                                    .chunk = 64,
                                    .stages = 1}));
    }
  expect_same(resident_softmax_sample());
  expect_same(two_pass_softmax_sample());
  expect_same(layernorm_matmul_sample());
  expect_same(layernorm_matmul_sample(DType::bf16));
}

}  // namespace
}  // namespace tilewright::tile_build_test
