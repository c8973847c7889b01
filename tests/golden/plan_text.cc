// The plan of a program of several kernels: what is stored, where it lies, and every kernel.
#include "tests/support/golden.h"

#include <gtest/gtest.h>

#include "tilewright/driver/compiled.h"

namespace tilewright::testing::plan_text_test {
namespace {

TEST(PlanText, DecoderBlock) {
  CompileOptions o;
  o.target = Target::Interp;  // the plans of a GPU do not depend on this machine
  const CompiledProgram c =
      compile_program(load_program(std::string(TW_SOURCE_DIR) + "/examples/llama_block.tw"), o);
  std::string text = plan_text(c) + "\n";
  for (size_t k = 0; k < c.kernels.size(); ++k) text += heading(c, k, "#") + print(c.kernels[k].program);
  expect_golden("plan/llama_block.txt", text);
}

}  // namespace
}  // namespace tilewright::testing::plan_text_test
