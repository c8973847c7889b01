// Every plan that is enumerated computes the definition: run by the interpreter of tile programs at small ragged sizes.
#include <gtest/gtest.h>

#include "tilewright/driver/ranked.h"
#include "tilewright/driver/session.h"

namespace tilewright::search_plans_test {
namespace {

struct Case {
  std::string program;
  std::map<std::string, int64_t> literal;  ///< replace literal sizes
  std::map<std::string, int64_t> sizes;
};

class SearchPlans : public ::testing::TestWithParam<Case> {};

TEST_P(SearchPlans, PassCheckOnTheInterpreter) {
  const Case& c = GetParam();
  Overrides overrides;
  overrides.literal_sizes = c.literal;
  const Program p = load_program(std::string(TW_SOURCE_DIR) + "/" + c.program, overrides);
  CompileOptions o;
  o.target = Target::Interp;
  const CompiledProgram compiled = compile_program(p, o);
  ASSERT_FALSE(compiled.several());
  const Compilation& kernel = compiled.kernels[0];
  const Sizes sizes = all_sizes(compiled, c.sizes);
  SessionOptions s;
  s.sizes = c.sizes;
  s.seed = 3;
  std::vector<std::string> schedules;
  for (const char* machine : {"h200", "typical-avx2"})
    for (const Family& f : families(kernel.elaborated, kernel.derivation, kernel.plans.back().plan,
                                    find_machine(machine), sizes)) {
      // The ends of every dial: the least and the largest of all, and one of each alone.
      for (size_t pick = 0; pick < f.dials.size() + 2; ++pick) {
        std::vector<int64_t> values;
        for (size_t k = 0; k < f.dials.size(); ++k)
          values.push_back(pick == 0 || pick == k + 2 ? f.dials[k].values.front() : f.dials[k].values.back());
        schedules.push_back(print(kernel.program, with_values(f, values)));
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
    ::testing::Values(
        Case{"examples/pf_causal.tw", {{"d", 16}, {"e", 16}}, {{"b", 1}, {"h", 2}, {"i", 67}, {"j", 71}}},
        Case{"examples/dc_gqa.tw", {{"d", 16}, {"e", 16}}, {{"b", 1}, {"k", 2}, {"g", 3}, {"j", 1100}}},
        Case{"examples/softmax.tw", {}, {{"r", 3}, {"j", 1030}}},
        Case{"bench/product.tw", {}, {{"i", 29}, {"k", 70}, {"j", 37}}}),
    [](const auto& info) {
      const std::string& file = info.param.program;
      const size_t begin = file.rfind('/') + 1;
      return file.substr(begin, file.size() - begin - 3);
    });

}  // namespace
}  // namespace tilewright::search_plans_test
