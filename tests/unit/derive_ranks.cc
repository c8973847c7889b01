// topk and argtopk in a derivation: the sorted list that holds them, what may be deferred behind it, and what is refused.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/derived.h"
#include "tilewright/derive/check.h"
#include "tilewright/derive/json.h"
#include "tilewright/derive/latex.h"
#include "tilewright/derive/smt.h"
#include "tilewright/driver/prove.h"
#include "tilewright/hardware/machine.h"
#include "tilewright/map/mapped.h"
#include "tilewright/plan/plan.h"
#include "tilewright/runtime/process.h"

namespace tilewright::testing::derive_ranks_test {
namespace {

/// A program of `body` over x[t, v] whose outputs are the five largest of `ranked` and where they stand.
std::string program(const std::string& ranked, const std::string& body = "") {
  return "axis t, v\naxis n = 5\ninput x[t, v] : f32\n" + body + "w[t, n] = topk[v -> n](" + ranked +
         ")\nc[t, n] = argtopk[v -> n](" + ranked + ")\noutput w : f32, c : i32\n";
}

const Component* side(const State& s, Reducer r) {
  for (const Component& c : s.components)
    if (c.combine == r) return &c;
  return nullptr;
}

bool has(const std::vector<Check>& checks, const std::string& what) {
  return std::any_of(checks.begin(), checks.end(),
                     [&](const Check& c) { return c.what.starts_with(what) && c.passed; });
}

TEST(DeriveRanks, AListIsTwoComponentsBesideEachOther) {
  const Derived p = derived(program("x"), "v");
  ASSERT_EQ(p.d.passes.size(), 1u);
  ASSERT_EQ(p.state().components.size(), 2u);
  EXPECT_TRUE(p.state().points.empty());
  const Component *keys = side(p.state(), Reducer::Topk), *indices = side(p.state(), Reducer::Argtopk);
  ASSERT_TRUE(keys && indices);
  EXPECT_EQ(&p.state().components[size_t(keys->beside)], indices);
  EXPECT_EQ(&p.state().components[size_t(indices->beside)], keys);
  EXPECT_EQ(to_string(keys->lift), "x[t, v]");
  EXPECT_EQ(to_string(indices->lift), "v");
  EXPECT_EQ(keys->rank.name(), "n");
  EXPECT_EQ(keys->axes, indices->axes);
  EXPECT_TRUE(keys->present.is_constant(1));
  ASSERT_EQ(rank_axes(p.d).size(), 1u);
  EXPECT_EQ(rank_axes(p.d)[0].name(), "n");
  EXPECT_EQ(to_string(p.d.finish[0]), "w[t, n]");
  EXPECT_EQ(to_string(p.d.finish[1]), "c[t, n]");
}

TEST(DeriveRanks, ASoftmaxIsAppliedToWhatIsLeft) {
  const Derived p = derived(program("softmax[v](x)"), "v");
  ASSERT_EQ(p.d.passes.size(), 1u);
  EXPECT_TRUE(p.d.refusals.empty());
  EXPECT_EQ(p.state().points.size(), 1u);
  EXPECT_EQ(p.state().components.size(), 3u);  // l, and the two sides of the list
  const Component* keys = side(p.state(), Reducer::Topk);
  ASSERT_TRUE(keys);
  EXPECT_EQ(to_string(keys->lift), "x[t, v]");
  EXPECT_TRUE(has(p.state().checks, "strict order of w_key"));
  EXPECT_TRUE(has(p.state().checks, "ranked in the order of the keys of w_key"));
  EXPECT_TRUE(has(p.state().checks, "merge trees of random shape"));
  EXPECT_TRUE(has(p.state().checks, "w equals its definition"));
  EXPECT_TRUE(has(p.state().checks, "c equals its definition"));
  EXPECT_TRUE(p.state().points[0].may_lag);
  const std::string text = to_text(p.program, p.d);
  EXPECT_NE(text.find("1 list of 5 pairs"), std::string::npos) << text;
  EXPECT_NE(text.find("w_key[t, n], c[t, n] = the 5 largest pairs (x, v)"), std::string::npos) << text;
  EXPECT_NE(text.find("merged as sorted lists"), std::string::npos) << text;
  EXPECT_NE(text.find("ranked by x"), std::string::npos) << text;
  EXPECT_NE(to_latex(p.program, p.d).find("5 largest pairs"), std::string::npos);
  EXPECT_NE(to_json(p.program, p.d).dump().find("the 5 largest pairs (x, v)"), std::string::npos);
}

TEST(DeriveRanks, StrictlyIncreasingFunctionsAreDeferred) {
  struct {
    const char *ranked, *body, *key;
  } cases[] = {
      {"exp(x - m)", "m[t] = max[v](x)\n", "x[t, v]"},
      {"2 * x - m", "m[t] = max[v](x)\n", "x[t, v]"},
      {"(x - mu) / sqrt(s + 1e-3)", "mu[t] = mean[v](x)\ns[t] = var[v](x)\n", "x[t, v]"},
      {"sigmoid(x / 2 + m)", "m[t] = max[v](x)\n", "x[t, v]"},
      {"abs(x) / l", "l[t] = sum[v](exp(x))\n", "abs(x[t, v])"},
      {"(exp(x - m) + 3) ** 3", "m[t] = max[v](x)\n", "x[t, v]"},
      {"softmax[v](where(v < 7, x / 3, -inf))", "", "x[t, v]"},
      {"softmax[v](-x)", "", "-x[t, v]"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.ranked);
    const Derived p = derived(program(c.ranked, c.body), "v");
    EXPECT_EQ(p.d.passes.size(), 1u);
    const Component* keys = side(p.state(), Reducer::Topk);
    ASSERT_TRUE(keys);
    EXPECT_EQ(to_string(keys->lift), c.key);
  }
}

TEST(DeriveRanks, WhatMayRankOtherwiseIsRefusedByName) {
  struct {
    const char *ranked, *body, *subterm, *reason;
  } cases[] = {
      {"bf16(x - m)", "m[t] = max[v](x)\n", "bf16(x[t, v] - m[t])", "strictly increasing"},
      {"x * a", "a[t] = sum[v](x)\n", "x[t, v] * a[t]", "not known to be positive"},
      {"softmax[v](x) + b", "b[t, v] = x * x\n", "", "more than one varying value"},
      {"round(x / m)", "m[t] = max[v](x * x) + 1\n", "round(", "strictly increasing"},
      {"max(x, m / 2)", "m[t] = max[v](x)\n", "max(", "strictly increasing"},
      {"where(x < a, x, 2 * x + a)", "a[t] = sum[v](x)\n", "", "choice"},
      {"1 / (1 + exp(x - m))", "m[t] = max[v](x)\n", "", "strictly increasing"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.ranked);
    const Derived p = derived(program(c.ranked, c.body), "v");
    EXPECT_EQ(p.d.passes.size(), 2u);
    ASSERT_EQ(p.d.refusals.size(), 2u);  // of w and of c
    EXPECT_EQ(to_string(p.d.refusals[0].subterm).substr(0, std::string(c.subterm).size()), c.subterm);
    EXPECT_NE(p.d.refusals[0].reason.find(c.reason), std::string::npos) << p.d.refusals[0].reason;
    EXPECT_TRUE(p.d.refusals[0].span);
    const Component* keys = side(p.state(2), Reducer::Topk);
    ASSERT_TRUE(keys);  // the value itself is the key there
    EXPECT_FALSE(keys->ranked);
  }
}

TEST(DeriveRanks, AbsentElementsAreNotInTheList) {
  const Derived p = derived(program("where(v < t, x, -inf)"), "v");
  const Component* keys = side(p.state(), Reducer::Topk);
  ASSERT_TRUE(keys);
  EXPECT_EQ(to_string(keys->lift), "x[t, v]");
  EXPECT_FALSE(keys->present.is_constant(1));
  EXPECT_EQ(keys->present, side(p.state(), Reducer::Argtopk)->present);
}

TEST(DeriveRanks, LengthsThatNoStateHoldsAreCounted) {
  const char* texts[] = {
      "axis t, n\naxis v = 7\ninput x[t, v] : f32\nw[t, n] = topk[v -> n](x)\noutput w\n",  // known when it runs
      "axis t\naxis v = 7, n = 300\ninput x[t, v] : f32\nw[t, n] = topk[v -> n](x)\noutput w\n",  // too long
      "axis t\naxis v = 7, n = 3\ninput x[t, v] : f32\nw[t, n] = topk[v -> n](x)\nm[t] = w[t, 0] - w[t, "
      "1]\noutput m\n",
  };
  for (const char* text : texts) {
    SCOPED_TRACE(text);
    const Derived p = derived(text, "v");
    EXPECT_TRUE(rank_axes(p.d).empty());
    for (const Reduction& r : p.d.cascade.reductions) EXPECT_FALSE(has_rank(r.reducer));
  }
}

TEST(DeriveRanks, StreamsAndMergesHoldOverManySeeds) {
  for (const char* ranked : {"x", "softmax[v](x)", "where(x > 0, x, -inf)"}) {
    const Derived p = derived(program(ranked), "v");
    for (uint64_t seed = 1; seed <= 20; ++seed)
      for (const Check& c : derivation::check_merges(p.state(), seed))
        EXPECT_TRUE(c.passed) << ranked << ": " << c.detail;
  }
}

TEST(DeriveRanks, AWrongStateIsNoticed) {
  const Derived p = derived(program("softmax[v](x)"), "v");
  const auto rejected = [&](const State& s) {
    std::vector<Check> all = derivation::check_identities(s, p.d.cascade.axis);
    for (const Check& c : derivation::check_merges(s, 1)) all.push_back(c);
    return std::any_of(all.begin(), all.end(), [](const Check& c) { return !c.passed; });
  };
  EXPECT_FALSE(rejected(p.state()));
  const size_t keys = size_t(side(p.state(), Reducer::Argtopk)->beside);
  State falling = p.state();
  falling.components[keys].ranked = -falling.components[keys].ranked;
  EXPECT_TRUE(rejected(falling));
  State held = p.state();  // keys held at the point, which no repair follows
  const Point& m = held.points[0];
  held.components[keys].lift =
      held.components[keys].lift - read(m.var, std::vector<Expr>(m.axes.begin(), m.axes.end()));
  EXPECT_TRUE(rejected(held));
  Derivation reversed = p.d;  // ranked by −x
  reversed.passes[0].state.components[keys].lift = -p.state().components[keys].lift;
  const std::vector<Check> outputs = derivation::check_outputs(p.program, reversed, 1);
  EXPECT_TRUE(std::any_of(outputs.begin(), outputs.end(), [](const Check& c) { return !c.passed; }));
}

TEST(DeriveRanks, PairsAreStrictlyOrdered) {
  const double nan = NAN, inf = INFINITY;
  EXPECT_TRUE(stands_before(2, 5, 1, 0));
  EXPECT_TRUE(stands_before(1, 0, 1, 5));
  EXPECT_FALSE(stands_before(1, 5, 1, 0));
  EXPECT_TRUE(stands_before(nan, 5, inf, 0));
  EXPECT_FALSE(stands_before(inf, 0, nan, 5));
  EXPECT_TRUE(stands_before(nan, 1, nan, 2));
  EXPECT_TRUE(stands_before(-inf, 9, -inf, -1));  // an element before nothing
  EXPECT_FALSE(stands_before(-inf, -1, -inf, 9));
  EXPECT_FALSE(stands_before(inf, -1, -inf, 9));
  std::vector<double> keys(3, -inf), indices(3, -1);
  const double x[] = {1, nan, -inf, 1, 4};
  for (int k : {3, 0, 4, 2, 1}) insert_ranked(keys, indices, x[k], k);
  EXPECT_TRUE(std::isnan(keys[0]));
  EXPECT_EQ(indices, (std::vector<double>{1, 4, 0}));
}

TEST(DeriveRanks, Z3ProvesTheOrder) {
  Derived p = derived(program("softmax[v](x)"), "v");
  std::string all;
  for (const SmtFile& f : to_smt(p.program, p.d))
    for (const std::string& c : f.checks) all += c + "\n";
  EXPECT_NE(all.find("strict order of w_key"), std::string::npos) << all;
  EXPECT_NE(all.find("ranked in the order of the keys of w_key"), std::string::npos) << all;
  std::string said;
  if (run_command({"z3", "--version"}, said) != 0) GTEST_SKIP() << "z3 is not installed";
  EXPECT_TRUE(prove_by_z3(p.program, p.d));
  State falling = p.state();
  Component& keys = falling.components[size_t(side(p.state(), Reducer::Argtopk)->beside)];
  keys.ranked = -keys.ranked;
  p.d.passes[0].state = falling;
  EXPECT_FALSE(prove_by_z3(p.program, p.d));
}

TEST(DeriveRanks, TheAxisOfRanksIsWhole) {
  const Derived p = derived(program("x"), "v");
  for (const GuardedPlan& g : default_plans(p.program, p.d, Target::Cpu)) {
    ASSERT_EQ(g.plan.whole.size(), 1u);
    EXPECT_EQ(g.plan.whole[0].name(), "n");
  }
  try {
    parse_schedule(p.program, p.d, "group n=5; stream v=8",
                   default_plans(p.program, p.d, Target::Cpu).back().plan);
    Plan cut = default_plans(p.program, p.d, Target::Cpu).back().plan;
    cut.group.push_back({rank_axes(p.d)[0], 5, 5});
    check_plan(p.program, p.d, cut);
    FAIL() << "a group of ranks";
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find("sorted list runs along it"), std::string::npos) << e.what();
  }
}

TEST(DeriveRanks, AGpuGetsNoLists) {
  const Derived p = derived(program("x"), "v");
  const Plan plan = default_plans(p.program, p.d, Target::Cuda).front().plan;
  try {
    map_sm90(p.program, build_tiles(p.program, p.d, plan), sm90(), LayoutClass::General);
    FAIL() << "a list on a GPU";
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find("sorted lists along `n` are not mapped"), std::string::npos)
        << e.what();
    EXPECT_NE(std::string(e.what()).find("test.tw:2"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace tilewright::testing::derive_ranks_test
