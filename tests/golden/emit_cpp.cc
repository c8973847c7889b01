// Emitted C++ of two small programs, for a fixed machine.
#include <gtest/gtest.h>

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

TEST(EmitCpp, IncludesNothingAndIsDeterministic) {
  const std::string text = emitted(layernorm_matmul_sample(DType::bf16));
  EXPECT_EQ(text.find("#include"), std::string::npos);
  EXPECT_EQ(text, emitted(layernorm_matmul_sample(DType::bf16)));
}

}  // namespace
}  // namespace tilewright::testing::emit_cpp_test
