// tilewright draw given what it cannot take, and where its picture goes.
#include <gtest/gtest.h>

#include "tests/support/command.h"

namespace tilewright::testing::draw_errors_test {
namespace {

const char kProgram[] =
    "program s\naxis r, j\ninput x[r, j] : f16\nP[r, j] = softmax[j](where(r < j, x, -inf))\noutput P : "
    "f16\n";

class DrawErrors : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder = new_folder();
    write(folder + "/s.tw", kProgram);
  }
  static std::string refused(std::vector<std::string> more) {
    more.insert(more.begin(), {"draw", "s.tw"});
    const CommandResult r = tilewright(more, folder);
    EXPECT_EQ(r.status, 2) << r.err;
    EXPECT_EQ(r.out, "");
    return r.err;
  }
  static std::string folder;
};
std::string DrawErrors::folder;

TEST_F(DrawErrors, Options) {
  EXPECT_EQ(refused({"--theme", "drak"}), "error: no theme is called `drak`\n  help: did you mean `dark`?\n");
  EXPECT_EQ(refused({"--theme", "sepia"}),
            "error: no theme is called `sepia`\n  help: choose one of auto, light, dark\n");
  EXPECT_EQ(refused({"--width", "0"}),
            "error: --width 0 is not an integer from 300 to 10000\n  help: write --width 700\n");
  EXPECT_EQ(refused({"--output"}), "error: --output needs a value\n  help: see tilewright draw --help\n");
  EXPECT_EQ(refused({"--colour", "red"}),
            "error: no option is called `--colour`\n  help: see tilewright draw --help\n");
  EXPECT_EQ(refused({"--target", "cuda"}),
            "error: --target has no effect here\n  help: it is for --plan and --kernel\n");
  EXPECT_EQ(refused({"--schedule", "stream j=4"}),
            "error: --schedule has no effect here\n  help: it is for --plan and --kernel\n");
  EXPECT_EQ(refused({"--plan", "--map", "cpu"}),
            "error: --map has no effect here\n  help: it is for --target interp-mapped\n");
  EXPECT_EQ(refused({"--plan", "--target", "gpu"}),
            "error: no target is called `gpu`\n  help: did you mean `cpu`?\n");
  EXPECT_EQ(refused({"--kernel", "Q"}), "error: no kernel is called `Q`\n  help: choose one of P\n");
  EXPECT_EQ(
      refused({"--plan", "--schedule", "strem j=4"}),
      "<schedule>:1:1: error: no clause begins with `strem`\n  strem j=4\n  ^~~~~\n  help: did you mean "
      "`stream`?\n");
  EXPECT_EQ(refused({"--size", "q=3"}),
            "error: --size q=3: the program has no axis `q`\n  help: its axes are r, j\n");
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"--kernel", "P"}}) {
    std::vector<std::string> options = {"--size", "r=3,j=4"};
    options.insert(options.end(), more.begin(), more.end());
    EXPECT_EQ(refused(options),
              "error: --size j=4 has no effect here\n  help: it is for --plan; without it only an "
              "axis with a literal length takes another\n");
  }
}

TEST_F(DrawErrors, WherePicturesCannotGo) {
  EXPECT_EQ(refused({"--output", "none/x.svg"}),
            "error: --output: there is no folder none\n  help: make it, or name another file\n");
  EXPECT_EQ(refused({"--output", "."}), "error: --output: . is a folder\n  help: name a file in it\n");
  EXPECT_EQ(list(folder), std::vector<std::string>{"s.tw"});
}

TEST_F(DrawErrors, Pictures) {
  const CommandResult out = tilewright({"draw", "s.tw"}, folder);
  EXPECT_EQ(out.status, 0) << out.err;
  EXPECT_EQ(out.out.rfind("<svg ", 0), 0u);
  EXPECT_NE(out.out.find("r &lt; j"), std::string::npos);
  const CommandResult file = tilewright({"draw", "s.tw", "--output", "s.svg"}, folder);
  EXPECT_EQ(file.status, 0) << file.err;
  EXPECT_EQ(file.out, "");
  EXPECT_EQ(read(folder + "/s.svg"), out.out);
  const CommandResult json = tilewright({"draw", "s.tw", "--json", "--theme", "light"}, folder);
  EXPECT_EQ(json.status, 0) << json.err;
  const CommandResult plan =
      tilewright({"draw", "s.tw", "--plan", "--target", "interp", "--size", "r=8,j=32"}, folder);
  EXPECT_EQ(plan.status, 0) << plan.err;
  EXPECT_NE(plan.out.find("H memory, loaded"), std::string::npos);
  write(folder + "/literal.tw",
        "axis r\naxis j = 8\ninput x[r, j] : f16\nP[r] = max[j](x)\noutput P : f16\n");
  const CommandResult literal = tilewright({"draw", "literal.tw", "--size", "j=96"}, folder);
  EXPECT_EQ(literal.status, 0) << literal.err;
  EXPECT_NE(literal.out.find("96"), std::string::npos);
  EXPECT_GT(number_in_json(json.out, "/pictures/0/width"), 100);
  EXPECT_EQ(number_in_json(json.out, "/pictures/0/boxes"), 4);
}

}  // namespace
}  // namespace tilewright::testing::draw_errors_test
