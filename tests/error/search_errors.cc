// What users can get wrong with `search`, `tune` and plans in JSON: the message, the place and exit status 2.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/command.h"

namespace tilewright::search_errors_test {
namespace {

using testing::tilewright;

std::string refused(std::vector<std::string> arguments) {
  const testing::CommandResult r = tilewright(arguments);
  EXPECT_EQ(r.status, 2) << r.out << r.err;
  return r.err;
}

/// The message about a plan file with this content, given to `run`.
std::string plan(const std::string& text) {
  const std::string file = testing::new_folder() + "/plan.json";
  testing::write(file, text);
  std::string err = refused({"run", "examples/softmax.tw", "--size", "r=2,j=8", "--schedule", file});
  for (size_t at; (at = err.find(file)) != std::string::npos;) err.replace(at, file.size(), "plan.json");
  return err;
}

TEST(PlanFiles, SayWhereTheyAreWrong) {
  EXPECT_EQ(
      plan("{\"tilewright_plan\": 1,\n \"program\" \"softmax\"}"),
      "plan.json:2:20: error: the plan is not JSON\n"
      "   \"program\" \"softmax\"}\n"
      "                     ^\n"
      "  help: give a file that `tilewright tune --output FILE` wrote, or a schedule (docs/schedule.md)\n");
  EXPECT_NE(plan("{}").find("plan.json:1:1: error: the plan has no field `tilewright_plan`"),
            std::string::npos);
  EXPECT_NE(plan("{\"tilewright_plan\": 2}")
                .find("plan.json:1:2: error: the plan is of version 2, and this command reads version 1"),
            std::string::npos);
  EXPECT_NE(
      plan("{\"tilewright_plan\": 1, \"program\": \"pf_causal\", \"schedule\": \"stream j=8\"}")
          .find("plan.json:1:24: error: the plan is for the program `pf_causal`, and this one is `softmax`"),
      std::string::npos);
  EXPECT_NE(
      plan("{\"tilewright_plan\": 1, \"program\": \"softmax\"}").find("the plan has no field `schedule`"),
      std::string::npos);
  EXPECT_NE(plan("{\"tilewright_plan\": 1, \"program\": \"softmax\", \"schedule\": 7}")
                .find("`schedule` is not a text"),
            std::string::npos);
  EXPECT_EQ(
      plan("[]"),
      "plan.json:1:1: error: the plan is a list in JSON, not an object\n"
      "  []\n"
      "  ^\n"
      "  help: give a file that `tilewright tune --output FILE` wrote, or a schedule (docs/schedule.md)\n");
  EXPECT_NE(plan("{\"tilewright_plan\": 1, \"program\": \"softmax\", \"target\": \"cuda\", \"schedule\": "
                 "\"stream j=8\"}")
                .find("plan.json:1:46: error: the plan is for the target `cuda`, and this is for `cpu`"),
            std::string::npos);
  // The schedule itself is read as any other.
  EXPECT_NE(plan("{\"tilewright_plan\": 1, \"program\": \"softmax\", \"schedule\": \"stream k=8\"}")
                .find("plan.json (schedule):1:8: error: "),
            std::string::npos);
}

TEST(PlanFiles, AreModelledOnTheirTarget) {
  const std::string file = testing::new_folder() + "/plan.json";
  testing::write(file,
                 "{\"tilewright_plan\": 1, \"program\": \"softmax\", \"target\": \"cuda\", \"schedule\": "
                 "\"stream j=8\"}");
  EXPECT_NE(refused({"model", "examples/softmax.tw", "--machine", "this-cpu", "--schedule", file})
                .find("the plan is for the target `cuda`, and this is for `cpu`"),
            std::string::npos);
  testing::write(file,
                 "{\"tilewright_plan\": 1, \"program\": \"softmax\", \"target\": \"cpu\", \"schedule\": "
                 "\"stream j=8\"}");
  for (const std::vector<std::string>& verb : {std::vector<std::string>{"model", "examples/softmax.tw"},
                                               {"explain", "examples/softmax.tw"},
                                               {"derive", "examples/softmax.tw", "--steps"}}) {
    std::vector<std::string> arguments = verb;
    arguments.insert(arguments.end(), {"--machine", "h200", "--schedule", file});
    EXPECT_NE(refused(arguments).find("the plan is for the target `cpu`, and this is for `cuda`\n"),
              std::string::npos)
        << refused(arguments);
  }
  testing::write(file,
                 "{\"tilewright_plan\": 1, \"program\": \"softmax\", \"target\": \"cuda\", \"schedule\": "
                 "\"stream j=8\"}");
  EXPECT_EQ(tilewright(
                {"run", "examples/softmax.tw", "--size", "r=2,j=8", "--target", "interp", "--schedule", file})
                .status,
            0);
}

TEST(Search, RefusesWhatItCannotSearch) {
  EXPECT_NE(refused({"search", "examples/softmax.tw", "--target", "interp-mapped"})
                .find("no target of a search is called"),
            std::string::npos);
  EXPECT_NE(
      refused({"search", "examples/softmax.tw", "--machine", "h200"}).find("--target cpu does not run on"),
      std::string::npos);
  EXPECT_NE(refused({"search", "examples/softmax.tw", "--best", "0"}).find("--best 0 is not an integer"),
            std::string::npos);
  EXPECT_NE(refused({"search", "examples/softmax.tw", "--size", "q=1"}).find("the program has no axis `q`"),
            std::string::npos);
}

TEST(Tune, RefusesWhatItCannotMeasureOrKeep) {
  const std::vector<std::string> softmax{"tune", "examples/softmax.tw", "--size", "r=2,j=8"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), softmax.begin(), softmax.end());
    return refused(more);
  };
  EXPECT_NE(with({"--best", "none"}).find("--best none is not a number of plans"), std::string::npos);
  EXPECT_NE(with({"--budget", "0"}).find("--budget 0 is not an integer from 1"), std::string::npos);
  EXPECT_NE(with({"--target", "interp"}).find("no target of tuning is called `interp`"), std::string::npos);
  EXPECT_NE(with({"--device", "1"}).find("--device has no effect here"), std::string::npos);
  EXPECT_NE(with({"-o", "/nowhere/plan.json"}).find("--output /nowhere/plan.json"), std::string::npos);
  EXPECT_EQ(refused({"tune", "examples/softmax.tw"}).find("internal"), std::string::npos);
  EXPECT_NE(with({"-o", ""}).find("-o is empty"), std::string::npos);
}

}  // namespace
}  // namespace tilewright::search_errors_test
