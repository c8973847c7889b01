// The state of every program of examples/ that is about one: how many passes, points and components, and what is refused.
#include <gtest/gtest.h>

#include "tests/support/derived.h"
#include "tilewright/program/elaborate.h"

namespace tilewright::testing::derive_examples_test {
namespace {

struct Expected {
  const char* program;
  size_t passes, points, components;  ///< over all passes
  const char* refused;                ///< how the subterm that mixes begins; empty where nothing is refused
};

const Expected kExpected[] = {
    {"logsumexp", 1, 1, 1, ""},
    {"cross_entropy_linear", 1, 1, 2, ""},
    {"variance", 1, 1, 3, ""},
    {"group_statistics", 1, 1, 3, ""},
    {"covariance", 1, 2, 4, ""},
    {"layernorm_matmul", 1, 1, 5, ""},
    {"rmsnorm_matmul", 1, 0, 2, ""},
    {"rmsnorm_swiglu", 1, 0, 3, ""},
    {"gated_mlp", 1, 0, 2, ""},
    {"affine_quant_gemm", 1, 1, 3, ""},
    {"softmax_backward_dq", 1, 1, 1, ""},
    {"softmax_backward_one_pass", 1, 2, 6, ""},
    {"performer_state", 1, 1, 2, ""},
    {"qknorm_gqa", 1, 1, 2, ""},
    {"mla_decode", 1, 1, 2, ""},
    {"spherical_attention", 1, 0, 2, ""},
    {"unsafe_softmax", 1, 1, 2, ""},
    {"argmax", 1, 1, 1, ""},
    {"layernorm", 2, 1, 3, ""},
    {"softmax_with_scores", 2, 1, 2, ""},
    {"moe_routing", 1, 1, 3, ""},
    {"quant_gemm", 2, 0, 2, "f8e4m3(448 * x[m, k] / a[m])"},
    {"refused_exponent", 2, 1, 2, "u[n, j] * r[n] / 8"},
    {"refused_sigmoid", 2, 0, 2, "sigmoid(u[n, j] - r[n])"},
    {"refused_relu", 2, 0, 2, "max(0, u[n, j] - r[n] / 2)"},
    {"refused_round", 2, 0, 2, "round(8 * u[n, j] / r[n])"},
};

TEST(DeriveExamples, HaveTheStateThatTheyAreAbout) {
  for (const Expected& e : kExpected) {
    SCOPED_TRACE(e.program);
    const Program p = elaborate(load_program(std::string(TW_SOURCE_DIR) + "/examples/" + e.program + ".tw"));
    const Derivation d = derive(p, stream_candidates(p).at(0));
    size_t points = 0, components = 0;
    for (const Pass& pass : d.passes) {
      points += pass.state.points.size();
      components += pass.state.components.size();
    }
    EXPECT_EQ(d.passes.size(), e.passes);
    EXPECT_EQ(points, e.points);
    EXPECT_EQ(components, e.components);
    std::string refused;
    for (const Refusal& r : d.refusals) refused += (refused.empty() ? "" : "; ") + to_string(r.subterm);
    const std::string expected = e.refused;
    EXPECT_EQ(expected.empty() ? refused : refused.substr(0, expected.size()), expected);
  }
}

}  // namespace
}  // namespace tilewright::testing::derive_examples_test
