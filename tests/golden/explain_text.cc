// The steps from definition to hardware, and the page about a program, as text.
#include <gtest/gtest.h>

#include "tests/support/golden.h"
#include "tilewright/explain/explanation.h"

namespace tilewright::testing::explain_text_test {
namespace {

using namespace tilewright::explain;

struct Prepared {
  CompiledProgram program;
  StepOptions options;
};

Prepared prepare(const std::string& file, const std::map<std::string, int64_t>& sizes) {
  Prepared m;
  m.options.machine = find_machine("h200");
  m.options.compile.target = Target::Interp;
  m.options.compile.host_steps = false;
  m.options.sizes = sizes;
  m.program = compile_program(load_program(std::string(TW_SOURCE_DIR) + "/examples/" + file + ".tw"),
                              m.options.compile);
  return m;
}

void expect_steps(const std::string& name, const std::string& file,
                  const std::map<std::string, int64_t>& sizes) {
  const Prepared m = prepare(file, sizes);
  expect_golden("steps/" + name + ".txt", to_text(m.program, m.options, steps_of(m.program, m.options)));
}

void expect_page(const std::string& name, const std::string& file,
                 const std::map<std::string, int64_t>& sizes) {
  const Prepared m = prepare(file, sizes);
  Measured none;
  none.why_not = "left out";
  expect_golden("explain/" + name + ".txt", to_text(explanation_of(m.program, m.options, none)));
}

TEST(ExplainText, StepsOfAttention) { expect_steps("attention", "napkin/attention", {}); }
TEST(ExplainText, StepsOfCausalAttention) {
  expect_steps("pf_causal", "pf_causal", {{"b", 1}, {"h", 32}, {"i", 4096}, {"j", 4096}});
}
TEST(ExplainText, StepsOfLayerNormalisation) { expect_steps("layernorm_matmul", "layernorm_matmul", {}); }

TEST(ExplainText, PageOfAttention) {
  expect_page("attention", "napkin/attention", {{"q", 4096}, {"x", 4096}});
}
TEST(ExplainText, PageWhereTilesDoNotDivide) {
  expect_page("attention_ragged", "napkin/attention", {{"q", 100}, {"x", 1000}});
}
TEST(ExplainText, PageOfVariance) { expect_page("variance", "variance", {}); }
TEST(ExplainText, PageOfSeveralKernels) { expect_page("swiglu", "swiglu", {{"t", 512}}); }

}  // namespace
}  // namespace tilewright::testing::explain_text_test
