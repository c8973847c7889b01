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

TEST(EmitCpp, IncludesNothingAndIsDeterministic) {
  const std::string text = emitted(layernorm_matmul_sample(DType::bf16));
  EXPECT_EQ(text.find("#include"), std::string::npos);
  EXPECT_EQ(text, emitted(layernorm_matmul_sample(DType::bf16)));
}

}  // namespace
}  // namespace tilewright::testing::emit_cpp_test
