// Pictures of programs.
#include "tests/support/golden.h"

#include <gtest/gtest.h>

#include "tilewright/diagram/svg.h"

namespace tilewright::testing::draw_test {
namespace {

void expect_picture(const std::string& name, Theme theme = Theme::Auto) {
  const Program p = load_program(std::string(TW_SOURCE_DIR) + "/examples/" + name + ".tw");
  expect_golden("draw/" + name + (theme == Theme::Dark ? ".dark" : "") + ".svg",
                to_svg({lay_out(diagram_of(p))}, theme, p.name));
}

TEST(Draw, Programs) {
  for (const char* name :
       {"pf_global", "pf_causal", "softmax", "rmsnorm_matmul", "layernorm_matmul", "gated_mlp", "paged",
        "swiglu", "llama_block", "moe_routing", "cross_entropy_linear", "variance", "packed", "respelled"})
    expect_picture(name);
}
TEST(Draw, Dark) { expect_picture("pf_causal", Theme::Dark); }

}  // namespace
}  // namespace tilewright::testing::draw_test
