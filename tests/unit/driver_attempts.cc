// What is kept of the search for kernels: the same kernels at the next start, and nothing where something differs.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/support/examples.h"
#include "tilewright/driver/attempts.h"
#include "tilewright/driver/choices.h"
#include "tilewright/program/elaborate.h"
#include "tilewright/runtime/cache.h"

namespace tilewright::driver_attempts_test {
namespace {

namespace fs = std::filesystem;

class KeptAttempts : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        temporary_folder() + "/attempts-" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
    setenv("TILEWRIGHT_CACHE_DIR", folder_.c_str(), 1);
    unsetenv("TILEWRIGHT_DISABLE_CACHE");
  }
  std::vector<fs::path> entries() const {
    std::vector<fs::path> found;
    if (fs::exists(folder_))
      for (const auto& e : fs::directory_iterator(folder_))
        if (e.path().extension() == attempts_extension) found.push_back(e.path());
    return found;
  }
  /// Plans and comparisons as people see them.
  static std::string compiled(const char* name, const CompileOptions& o = {}) {
    const CompiledProgram c =
        compile_program(load_program(std::string(TW_SOURCE_DIR) + "/examples/" + name + ".tw"), o);
    for (const Compilation& kernel : c.kernels)
      for (const Pass& pass : kernel.derivation.passes) EXPECT_FALSE(pass.state.checks.empty()) << name;
    return plan_text(c) + choices_text(c, plan_target(o));
  }
  static std::vector<std::string> names(const std::vector<Sym>& axes) {
    std::vector<std::string> all;
    for (Sym a : axes) all.push_back(a.name());
    return all;
  }
  std::string folder_;
};

TEST_F(KeptAttempts, GiveTheSameKernelsAndComparisons) {
  for (const char* name : {"attention_backward", "attention_block", "gated_mlp"}) {
    const std::string first = compiled(name);
    const size_t kept = entries().size();
    EXPECT_GT(kept, 0u) << name;
    EXPECT_EQ(compiled(name), first) << name;
    EXPECT_EQ(entries().size(), kept) << name;
  }
}

TEST_F(KeptAttempts, AreThoseOfOneProgramAndItsOptions) {
  const Program p = elaborate(load_program(std::string(TW_SOURCE_DIR) + "/examples/gated_mlp.tw"));
  Attempt accepted;
  accepted.stream = p.axes.at(0).index;
  accepted.passes = 2;
  accepted.price = {1, 2, 3, 6, 1};
  Attempts some(p, {});
  EXPECT_FALSE(some.find(p).has_value());
  some.add(p, accepted);
  some.keep();
  const auto found = Attempts(p, {}).find(p);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->stream, accepted.stream);
  EXPECT_EQ(found->passes, 2);
  EXPECT_EQ(found->price.total, 6);
  CompileOptions other;
  other.target = Target::Interp;
  EXPECT_FALSE(Attempts(p, other).find(p).has_value());
  const Program q = elaborate(load_program(std::string(TW_SOURCE_DIR) + "/examples/softmax.tw"));
  EXPECT_FALSE(Attempts(p, {}).find(q).has_value());
  EXPECT_FALSE(Attempts(q, {}).find(p).has_value());
}

TEST_F(KeptAttempts, RefusalsKeepTheirText) {
  const Program p = elaborate(load_program(std::string(TW_SOURCE_DIR) + "/examples/softmax.tw"));
  Attempt refused;
  refused.refusal = UserError(Span{}, "too wide", "make it narrow");
  Attempts some(p, {});
  some.add(p, refused);
  some.keep();
  const auto found = Attempts(p, {}).find(p);
  ASSERT_TRUE(found && found->refusal);
  EXPECT_EQ(found->refusal->diagnostics().at(0).what, "too wide");
}

TEST_F(KeptAttempts, RecallMakesTheSameKernels) {
  size_t several = 0, kernels = 0;
  for (const auto& entry : fs::directory_iterator(std::string(TW_SOURCE_DIR) + "/examples")) {
    if (entry.path().extension() != ".tw") continue;
    const std::string path = entry.path().string();
    const Program p = load_program(path);
    for (Target target : {Target::Cpu, Target::Cuda}) {
      CompileOptions o;
      o.target = target;
      o.recall = true;
      CompiledProgram first;
      try {
        first = compile_program(p, o);
      } catch (const UserError&) {
        continue;  // that target refuses it
      }
      ASSERT_FALSE(first.recalled) << path;
      const CompiledProgram again = compile_program(p, o);
      // A kernel that the mapping refuses is not kept: the stage that refuses it says so.
      if (!again.recalled && target == Target::Cuda) continue;
      ASSERT_TRUE(again.recalled) << path << " " << name(target);
      ASSERT_EQ(again.kernels.size(), first.kernels.size()) << path;
      EXPECT_EQ(plan_text(again), plan_text(first)) << path;
      for (size_t k = 0; k < first.kernels.size(); ++k) {
        const Compilation &x = again.kernels[k], &y = first.kernels[k];
        ASSERT_EQ(x.plans.size(), y.plans.size()) << path;
        for (size_t n = 0; n < x.plans.size(); ++n)
          EXPECT_EQ(names(x.plans[n].plan.whole), names(y.plans[n].plan.whole)) << path;
        EXPECT_EQ(x.derivation.passes.size(), y.derivation.passes.size()) << path;
      }
      several += first.several();
      kernels += first.kernels.size();
    }
  }
  EXPECT_GT(several, 15u);
  EXPECT_GT(kernels, 100u);
}

TEST_F(KeptAttempts, NothingIsRecalledWhereSomethingIsAskedFor) {
  const Program p = load_program(std::string(TW_SOURCE_DIR) + "/examples/attention_block.tw");
  CompileOptions o;
  o.recall = true;
  EXPECT_FALSE(compile_program(p, o).recalled);  // nothing is kept yet
  EXPECT_TRUE(compile_program(p, o).recalled);
  CompileOptions scheduled = o;
  scheduled.schedule = plan_text(compile_program(p, o));
  EXPECT_FALSE(compile_program(p, scheduled).recalled);
  CompileOptions other = o;
  other.target = Target::Interp;
  for (int k = 0; k < 2; ++k) EXPECT_FALSE(compile_program(p, other).recalled);
  other = o;
  other.recall = false;
  EXPECT_FALSE(compile_program(p, other).recalled);
}

TEST_F(KeptAttempts, DamagedEntriesAndAnAbsentCacheAreNoAnswers) {
  const std::string first = compiled("attention_block");
  ASSERT_FALSE(entries().empty());
  for (const fs::path& path : entries()) std::ofstream(path) << "[1,";
  EXPECT_EQ(compiled("attention_block"), first);
  setenv("TILEWRIGHT_DISABLE_CACHE", "1", 1);
  EXPECT_EQ(compiled("attention_block"), first);
  unsetenv("TILEWRIGHT_DISABLE_CACHE");
}

}  // namespace
}  // namespace tilewright::driver_attempts_test
