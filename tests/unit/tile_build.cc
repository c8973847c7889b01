// build_tiles: the statements that plans turn into.
#include <gtest/gtest.h>

#include <set>

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

/// Tiles that a statement reads and that no statement before it writes, in words.
std::string read_before_written(const Compiled& c) {
  std::string found;
  for (const TileKernel& k : c.tiles.kernels) {
    std::set<Sym> there;
    for_each_stmt(k.body, [&](const Stmt& s) {
      for (Sym t : reads(k, s))
        if (!there.count(t)) found += t.name() + " ";
      for (Sym t : all_written(s)) there.insert(t);
    });
  }
  return found.empty() ? found : found + "in\n" + print(c.program, c.tiles);
}

std::string gathers(const std::string& results, const std::string& sum) {
  return "axis r, j\naxis d = 4\ninput x[r, j] : f32\ninput u[d] : f32\ninput g[j] : i32 range(0, 3)\n"
         "input n[r] : i32\ninput m[r, j] : bool\n" +
         results + "y[r] = " + sum + "\noutput y : f32\n";
}

TEST(Build, ConditionsOfLoadsReadWhatIsThere) {
  const std::string some = "t0[r] = sum[j](where(j < n, u[g] + x, 0))\n";
  const std::vector<std::string> programs = {
      // The second condition reads an array that is loaded after the elements.
      gathers(some + "t1[r] = sum[j](where(m, u[g] * x, 0))\n", "t0 + t1"),
      // The second condition reads a result of an earlier pass.
      gathers(some + "t1[r] = sum[j](where(x > mean[j](x), u[g] * x, 0))\n", "t0 + t1"),
      // The second condition reads the gathered elements themselves.
      gathers(some + "t1[r] = sum[j](where(u[g] > x, u[g] * x, 0))\n", "t0 + t1"),
      gathers("t0[r] = max[j](where(m, u[g], 0))\nt1[r] = sum[j](where(x > t0, u[g] * u[g], 0))\n",
              "t0 + t1"),
  };
  for (const std::string& text : programs)
    for (const char* schedule :
         {"stream j=1; group r=1", "stream j=32; group r=16", "resident j=64; group r=1"}) {
      SCOPED_TRACE(schedule);
      const Compiled c = compile(text, schedule);
      EXPECT_EQ(read_before_written(c), "");
      const Sizes sizes = sizes_of(c.program, {{"r", 5}, {"j", 37}});
      const Arrays arrays = random_inputs(c.program, sizes, 3);
      EXPECT_EQ(disagreement(c, sizes, arrays, run_tiles(c, sizes, arrays)), "");
    }
}

}  // namespace
}  // namespace tilewright::tile_build_test
