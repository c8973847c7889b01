// What has no streaming state is refused by name, with the place where it was written, and computed in a later pass.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/derived.h"
#include "tilewright/derive/state.h"
#include "tilewright/expr/simplify.h"

namespace tilewright::testing::derive_refusals_test {
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

/// y = Σ_j Π_k (x[j, k] − mean_j x[j, k])
std::string centred_product(int factors) {
  std::string text = "axis j, k\ninput x[j, k] : f32\n", product;
  for (int k = 0; k < factors; ++k) {
    text += fmt::format("m{0}[] = mean[j](x[j, {0}])\n", k);
    product += fmt::format("{1}(x[j, {0}] - m{0})", k, k == 0 ? "" : " * ");
  }
  return text + "y[] = sum[j](" + product + ")\noutput y\n";
}

TEST(RefusedPrograms, AFamilyHasAtMost32Components) {
  Derived five = derived(centred_product(5), "j");
  EXPECT_EQ(five.d.passes.size(), 1u);
  EXPECT_EQ(five.state().components.size(), 32u);
  for (int factors : {6, 8, 12}) {
    Derived x = derived(centred_product(factors), "j");
    ASSERT_EQ(x.d.passes.size(), 2u) << factors;
    EXPECT_EQ(x.state(2).components.size(), 1u) << "the means are constants in a second pass";
    ASSERT_EQ(x.d.refusals.size(), 1u);
    EXPECT_EQ(x.d.refusals[0].reason, "its state would hold more than 32 components");
    EXPECT_TRUE(x.d.refusals[0].subterm.is(Op::Mul));
    EXPECT_EQ(x.d.refusals[0].span.line(), 3 + factors);
  }
}

TEST(RefusedPrograms, AProductOfManySumsOfExponentialsStaysOneTerm) {
  std::string product;
  for (int k = 0; k < 7; ++k)
    product += fmt::format("{}(exp(x[i, j] * {}) + 1)", k == 0 ? "" : " * ", k + 40);
  Derived x = derived("axis i, j\ninput x[i, j] : f32\ny[i] = sum[j](" + product + ")\noutput y\n", "j");
  EXPECT_EQ(x.d.passes.size(), 1u);
  EXPECT_EQ(x.state().components.size(), 1u) << "2^7 terms are not told apart";
}

std::string message_of(const std::string& text, const std::string& axis) {
  try {
    derived(text, axis);
  } catch (const UserError& e) {
    return e.what();
  }
  return "not refused";
}

TEST(RefusedPrograms, AValueThatIsTooLongWhenWrittenOut) {
  auto squares = [](int steps) {
    std::string text = "axis i, j\ninput x[i, j] : f32\na0[i, j] = x\n";
    for (int k = 1; k <= steps; ++k) text += fmt::format("a{0}[i, j] = a{1} + a{1} * a{1}\n", k, k - 1);
    return text + fmt::format("y[i] = sum[j](a{})\noutput y\n", steps);
  };
  EXPECT_EQ(derived(squares(5), "j").d.passes.size(), 1u);
  for (int steps : {14, 40, 300})
    EXPECT_EQ(
        message_of(squares(steps), "j"),
        fmt::format(
            "test.tw:{}:8: error: this value takes more than 4000 operations once its definitions are "
            "written out\n  y[i] = sum[j](a{})\n         ^~~~~~~~{}~\n  help: compute a part of it in a "
            "program of its own and read it as an input",
            steps + 4, steps, std::string(std::to_string(steps).size(), '~')));
}

TEST(RefusedPrograms, MoreReductionsThanOneStateHolds) {
  std::string text = "axis i, j\ninput x[i, j] : f32\n", outputs;
  for (int k = 0; k < 10000; ++k) {
    text += fmt::format("a{0}[i] = sum[j](max(x, {0}))\n", k);
    outputs += fmt::format("{}a{}", k == 0 ? "" : ", ", k);
  }
  EXPECT_EQ(
      message_of(text + "output " + outputs + "\n", "j"),
      "test.tw:259:11: error: more than 256 reductions over `j` in one program\n"
      "  a256[i] = sum[j](max(x, 256))\n            ^~~~~~~~~~~~~~~~~~~\n  help: write several programs");
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
}  // namespace tilewright::testing::derive_refusals_test
