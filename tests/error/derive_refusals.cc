// What has no streaming state is refused by name, with the place where it was written, and computed in a later pass.
#include <gtest/gtest.h>

#include "tests/support/derived.h"
#include "tilewright/derive/state.h"
#include "tilewright/expr/simplify.h"

namespace tilewright::testing {
namespace {

struct Case {
  std::string written, subterm;
};

std::string source_of(const Span& s) { return s.source->text.substr(s.begin, s.end - s.begin); }

class Refusals : public ::testing::TestWithParam<Case> {};

TEST_P(Refusals, NameTheMixingSubterm) {
  Derived x = derived(programs::with_earlier_maximum(GetParam().written), "j");
  ASSERT_EQ(x.d.passes.size(), 2u) << "a second pass over j";
  ASSERT_EQ(x.d.refusals.size(), 1u);
  const Refusal& r = x.d.refusals[0];
  EXPECT_EQ(x.d.cascade.reductions[r.reduction].result.name(), "y");
  EXPECT_EQ(x.d.cascade.reductions[r.reduction].pass, 2);
  EXPECT_EQ(source_of(r.span), GetParam().subterm);
  EXPECT_FALSE(r.reason.empty());
  EXPECT_NE(to_text(x.program, x.d).find("refused"), std::string::npos);
  for (const Pass& pass : x.d.passes)
    for (const Check& c : pass.state.checks) EXPECT_TRUE(c.passed) << c.what;
}

INSTANTIATE_TEST_SUITE_P(
    Written, Refusals,
    ::testing::Values(Case{"exp(u * r)", "u * r"}, Case{"sigmoid(u - r)", "sigmoid(u - r)"},
                      Case{"relu(u - r)", "relu(u - r)"}, Case{"round(u / r)", "round(u / r)"},
                      Case{"floor(u / r)", "floor(u / r)"}, Case{"tanh(u * r)", "tanh(u * r)"},
                      Case{"abs(u - r)", "abs(u - r)"}, Case{"f8e4m3(448 * u / r)", "f8e4m3(448 * u / r)"},
                      Case{"where(u < r, u, 0)", "u < r"}, Case{"max(u, r)", "max(u, r)"},
                      Case{"1 / (u - 2 * r)", "1 / (u - 2 * r)"}));

TEST(RefusedPrograms, ATypedIntermediateIsARounding) {
  Derived x = derived(
      "axis i, j, e\ninput S[i, j] : f32\ninput V[j, e] : f32\nP[i, j] : bf16 = softmax[j](S)\nO[i, e] = "
      "sum[j](P * V)\noutput O\n",
      "j");
  ASSERT_EQ(x.d.passes.size(), 2u);
  ASSERT_EQ(x.d.refusals.size(), 1u);
  EXPECT_EQ(x.d.refusals[0].span.line(), 4);
  EXPECT_TRUE(x.d.refusals[0].subterm.is(Op::Cast));
}

TEST(RefusedPrograms, ARunningVectorHasTheRankOfItsAxis) {
  Derived x = derived(
      "axis i, j, d\ninput K[j, d] : f32\nr[d] = sum[j](K)\ny[i] = sum[j](sum[d](r * K) * i)\noutput y\n",
      "j");
  ASSERT_EQ(x.d.refusals.size(), 1u);
  EXPECT_TRUE(x.d.refusals[0].subterm.is(Op::Reduce));
}

TEST(RefusedPrograms, PassesAreCounted) {
  Derived x = derived(
      "axis i, j\ninput u[i, j] : f32\na[i] = max[j](u)\nb[i] = sum[j](round(u - a))\nc[i] = sum[j](round(u "
      "* b))\noutput c\n",
      "j");
  EXPECT_EQ(x.d.passes.size(), 3u);
  EXPECT_EQ(x.d.refusals.size(), 2u);
}

TEST(RefusedPrograms, AnAxisThatTheProgramDoesNotUse) {
  Program p = elaborated("axis i, j, k\ninput u[i, j] : f32\ninput w[k] : f32\na[i] = max[j](u)\noutput a\n");
  try {
    derive(p, p.axis("k")->index);
    FAIL() << "not refused";
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.diagnostics()[0].what).find("`k`"), std::string::npos);
  }
}

}  // namespace
}  // namespace tilewright::testing
