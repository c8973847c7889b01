// What a rule of the derivation is tested for, on one that exists: a nondecreasing function of (varying + running) is peeled off a
// maximum. docs/adding_a_rule.md leads from this file to a new rule.
#include <gtest/gtest.h>

#include "tests/support/derived.h"
#include "tilewright/derive/check.h"

namespace tilewright::testing::rule_skeleton_test {
namespace {

/// The smallest program that needs the rule: `m` is still moving when tanh(x - m) is reduced.
const char kProgram[] =
    "axis r, j\ninput x[r, j] : f32\n"
    "m[r] = max[j](x)\n"
    "t[r] = min[j](tanh(x - m))\n"
    "output t : f32\n";

/// The same with what the rule must refuse: a function that falls and rises, with the turn at a running value.
const char kOutside[] =
    "axis r, j\ninput x[r, j] : f32\n"
    "m[r] = max[j](x)\n"
    "t[r] = min[j](abs(x - m / 2))\n"
    "output t : f32\n";

TEST(RuleSkeleton, OnePassAndTheStateThatIsExpected) {
  const Derived x = derived(kProgram, "j");
  EXPECT_EQ(x.d.passes.size(), 1u);
  EXPECT_TRUE(x.d.refusals.empty());
  ASSERT_EQ(x.state().components.size(), 2u);  // the maximum and the minimum of x
  EXPECT_EQ(x.state().components[1].meaning, "min x");
}

TEST(RuleSkeleton, EveryCheckPasses) {
  const Derived x = derived(kProgram, "j");
  for (const Check& c : x.state().checks) EXPECT_TRUE(c.passed) << c.what << ": " << c.detail;
  for (uint64_t seed = 1; seed <= 20; ++seed)
    for (const Check& c : derivation::check_outputs(x.program, x.d, seed))
      EXPECT_TRUE(c.passed) << c.what << ": " << c.detail;
}

TEST(RuleSkeleton, AWrongFinishIsNoticed) {
  Derived x = derived(kProgram, "j");
  for (Expr& finish : x.d.finish) finish = finish + 1;
  bool noticed = false;
  for (const Check& c : derivation::check_outputs(x.program, x.d, 1)) noticed = noticed || !c.passed;
  EXPECT_TRUE(noticed);
}

TEST(RuleSkeleton, WhatLiesOutsideTakesASecondPassAndNamesTheSubterm) {
  const Derived x = derived(kOutside, "j");
  EXPECT_EQ(x.d.passes.size(), 2u);
  ASSERT_EQ(x.d.refusals.size(), 1u);
  EXPECT_EQ(to_string(x.d.refusals[0].subterm), "abs(x[r, j] - m[r] / 2)");
  EXPECT_FALSE(x.d.refusals[0].reason.empty());
}

}  // namespace
}  // namespace tilewright::testing::rule_skeleton_test
