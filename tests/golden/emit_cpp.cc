// Emitted C++ of two small programs, for a fixed machine.
#include <gtest/gtest.h>

#include "tests/support/compiled.h"
#include "tests/support/golden.h"
#include "tests/support/tile_samples.h"
#include "tilewright/emit/emit.h"

namespace tilewright::testing::emit_cpp_test {
namespace {

Machine avx2() {
  Machine m;
  m.name = "cpu-avx2";
  m.shared_bytes = 4 << 20;
  m.vector = {.bytes = 32, .registers = 16, .isa = "avx2", .flags = ""};
  return m;
}

std::string emitted(const TileSample& s) {
  return emit_cpp(s.program, map_cpu(s.program, s.tiles, avx2(), LayoutClass::General));
}

TEST(EmitCpp, Golden) {
  expect_golden("cpp/causal_f32.cc",
                emitted(attention_sample(
                    {.dtype = DType::f32, .block = 48, .piece = 48, .chunk = 64, .features = 32})));
  expect_golden("cpp/resident_softmax.cc", emitted(resident_softmax_sample()));
}

/// The loop over chunks of a product of few rows, with an optional second one of a single row that reads the same weights.
std::string chunks_of_few_rows(const std::string& type, const std::string& result) {
  const Compiled c = compile(
      "program few\naxis r, n\naxis c = 4096\ninput x[r, c] : f32\ninput g[c] : f32\ninput W[c, n] : " +
          type + "\n" + result + "\noutput y : f32\n",
      "group r=8, n=96; stream c=32", Target::Cpu);
  const std::string text = emit_cpp(c.program, map_cpu(c.program, c.tiles, avx2(), LayoutClass::General));
  return text.substr(text.find("for (int64 c_chunk"));
}

// Weights that few rows use are read where they lie, and each panel brings the same panel of the next chunk into the second-level cache.
TEST(EmitCpp, FewRowsBringTheSamePanelOfTheNextChunkNear) {
  const std::string text = chunks_of_few_rows("f32", "y[r, n] = sum[c](x * W)");
  EXPECT_NE(text.find("W_next = W_at + 32 * W_c;"), std::string::npos) << text;
  EXPECT_NE(text.find("W_bytes = 0;"), std::string::npos) << text;
  EXPECT_NE(text.find("product<4, 3, 0, 2>("), std::string::npos) << text;
  EXPECT_NE(text.find("W_next, 4 * W_c, W_rows, W_bytes);"), std::string::npos) << text;
  // What is converted is always a copy, whose rows lie side by side.
  EXPECT_EQ(chunks_of_few_rows("f16", "y[r, n] = sum[c](x * W)").find(", 0, 2>("), std::string::npos);
}

// Of two products with the same weights the one that takes longest brings them near.
TEST(EmitCpp, OneProductBringsSharedWeightsNear) {
  const std::string text = chunks_of_few_rows("f32", "y[r, n] = sum[c](x * W) + sum[c](g * W)");
  size_t products = 0, bring = 0;
  for (size_t at = 0; (at = text.find(" product<", at)) != std::string::npos; ++at) {
    ++products;
    const std::string line = text.substr(at, text.find('\n', at) - at);
    if (line.find("W_next") == std::string::npos) continue;
    ++bring;
    EXPECT_NE(line.find("x + "), std::string::npos) << line;
  }
  EXPECT_EQ(products, 2u) << text;
  EXPECT_EQ(bring, 1u) << text;
}

std::string rows(const std::string& body, const std::string& schedule) {
  const Compiled c = compile("program rows\naxis r, c\ninput x[r, c] : f32\n" + body, schedule, Target::Cpu);
  const std::string text = emit_cpp(c.program, map_cpu(c.program, c.tiles, avx2(), LayoutClass::General));
  return text.substr(text.find("static void rows_task("));
}

// Sums of the same elements are one loop, in which what they take is made once; every line of the next chunk is asked for.
TEST(EmitCpp, ReductionsOfTheSameElementsAreOneLoop) {
  const std::string text =
      rows("mu[r] = mean[c](x)\ns[r] = mean[c]((x - mu) ** 2)\noutput mu, s\n", "group r=1; stream c=1024");
  EXPECT_NE(text.find("vf total[2][4];"), std::string::npos) << text;
  EXPECT_EQ(text.find(" D["), std::string::npos) << text;
  EXPECT_NE(text.find("(1 * nc + 2 * first + 48) / 3 * x_c"), std::string::npos) << text;
  // A sum that the values of another depend on waits for it.
  EXPECT_EQ(rows("m[r] = max[c](x)\nl[r] = sum[c](exp(x - m))\noutput m, l\n", "group r=1; resident c=1024")
                .find("total[2][4]"),
            std::string::npos);
}

// A difference is exact before it is added, and not behind.
TEST(EmitCpp, DifferencesAreTakenBeforeTheyAreAdded) {
  const std::string text =
      rows("mu[r] = mean[c](x)\ns[r] = mean[c]((x - mu) ** 2)\noutput s\n", "group r=1; stream c=1024");
  EXPECT_NE(text.find("total[u] = total[u] + (load_real("), std::string::npos) << text;
}

// What is made and only stored needs no tile, and large arrays are stored past the caches.
TEST(EmitCpp, LargeResultsGoPastTheCaches) {
  const std::string text =
      rows("m[r] = max[c](x)\ny[r, c] = x - m\noutput y\n", "group r=1; resident c=1024");
  EXPECT_NE(text.find("33554432 < 4 * size_r * size_c);"), std::string::npos) << text;
  EXPECT_EQ(text.find("unpack("), std::string::npos) << text;
  EXPECT_NE(text.find("store_fence();"), std::string::npos) << text;
}

TEST(EmitCpp, IncludesNothingAndIsDeterministic) {
  const std::string text = emitted(layernorm_matmul_sample(DType::bf16));
  EXPECT_EQ(text.find("#include"), std::string::npos);
  EXPECT_EQ(text, emitted(layernorm_matmul_sample(DType::bf16)));
}

}  // namespace
}  // namespace tilewright::testing::emit_cpp_test
