// Every plan that is enumerated computes the definition: run by the interpreter of tile programs at small ragged sizes.
#include <gtest/gtest.h>

#include "tilewright/driver/ranked.h"
#include "tilewright/driver/session.h"

namespace tilewright::search_plans_test {
namespace {

struct Case {
  std::string name, program;
  std::map<std::string, int64_t> literal;  ///< replace literal sizes
  std::map<std::string, int64_t> sizes;
};

void PrintTo(const Case& c, std::ostream* os) { *os << c.name; }

class SearchPlans : public ::testing::TestWithParam<Case> {};

TEST_P(SearchPlans, PassCheckOnTheInterpreter) {
  const Case& c = GetParam();
  Overrides overrides;
  overrides.literal_sizes = c.literal;
  const Program p = load_program(std::string(TW_SOURCE_DIR) + "/" + c.program, overrides);
  CompileOptions o;
  o.target = Target::Interp;
  SessionOptions s;
  s.sizes = c.sizes;
  s.seed = 3;
  std::vector<std::string> schedules;
  for (Target target : {Target::Interp, Target::Cpu}) {
    CompileOptions plans;
    plans.target = target;
    const CompiledProgram compiled = compile_program(p, plans);
    ASSERT_FALSE(compiled.several());
    const Compilation& kernel = compiled.kernels[0];
    const MachineFile machine = find_machine(target == Target::Cpu ? "typical-avx2" : "h200");
    for (const Family& f : families(kernel.elaborated, kernel.derivation, kernel.plans.back().plan, machine,
                                    all_sizes(compiled, c.sizes))) {
      // The ends of every dial: the least and the largest of all, and one of each alone.
      for (size_t pick = 0; pick < f.dials.size() + 2; ++pick) {
        std::vector<int64_t> values;
        for (size_t k = 0; k < f.dials.size(); ++k)
          values.push_back(pick == 0 || pick == k + 2 ? f.dials[k].values.front() : f.dials[k].values.back());
        schedules.push_back(print(kernel.program, with_values(f, values)));
      }
    }
  }
  std::sort(schedules.begin(), schedules.end());
  schedules.erase(std::unique(schedules.begin(), schedules.end()), schedules.end());
  EXPECT_GT(schedules.size(), 4u);
  for (const std::string& text : schedules) {
    CompileOptions with = o;
    with.schedule = text;
    try {
      Session session(p, with, s);
      session.run(0, 1);
      for (const OutputCheck& check : session.check())
        EXPECT_TRUE(check.comparison.passed) << text << "\n" << check.name << ": " << check.comparison.reason;
    } catch (const UserError& e) {
      ADD_FAILURE() << text << "\n" << e.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Programs, SearchPlans,
    ::testing::Values(Case{"pf_causal",
                           "examples/pf_causal.tw",
                           {{"d", 16}, {"e", 16}},
                           {{"b", 1}, {"h", 2}, {"i", 67}, {"j", 71}}},
                      Case{"dc_gqa",
                           "examples/dc_gqa.tw",
                           {{"d", 16}, {"e", 16}},
                           {{"b", 1}, {"k", 2}, {"g", 3}, {"j", 1100}}},
                      Case{"softmax", "examples/softmax.tw", {}, {{"r", 3}, {"j", 1030}}},
                      Case{"product", "bench/product.tw", {}, {{"i", 29}, {"k", 70}, {"j", 37}}}),
    [](const auto& c) { return c.param.name; });

}  // namespace
}  // namespace tilewright::search_plans_test
