// tilewright explain and derive --steps given what they cannot take, and where their pages go.
#include <gtest/gtest.h>

#include "tests/support/command.h"
#include "tilewright/runtime/cuda.h"

namespace tilewright::testing::explain_errors_test {
namespace {

const char kProgram[] =
    "# Row sums.\nprogram s\naxis r, j\ninput x[r, j] : f32\ny[r] = sum[j](x)\noutput y : f32\n";
const char kRefused[] = "program s\naxis r, j\ninput x[r, j] : f32\ny[r] = sum[j](z)\noutput y : f32\n";

class ExplainErrors : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder = new_folder();
    write(folder + "/s.tw", kProgram);
    write(folder + "/bad.tw", kRefused);
  }
  static std::string refused(const std::vector<std::string>& arguments) {
    const CommandResult r = tilewright(arguments, folder);
    EXPECT_EQ(r.status, 2) << r.err;
    EXPECT_EQ(r.out, "");
    return r.err;
  }
  static std::string folder;
};
std::string ExplainErrors::folder;

TEST_F(ExplainErrors, WherePagesCannotGo) {
  EXPECT_EQ(refused({"explain", "s.tw", "--html", "none/x.html"}),
            "error: --html: there is no folder none\n  help: make it, or name another file\n");
  EXPECT_EQ(refused({"derive", "s.tw", "--steps", "--html", "."}),
            "error: --html: . is a folder\n  help: name a file in it\n");
  EXPECT_EQ(list(folder), (std::vector<std::string>{"bad.tw", "s.tw"}));
}

TEST_F(ExplainErrors, Options) {
  EXPECT_EQ(refused({"derive", "s.tw", "--html", "x.html"}),
            "error: --html has no effect here\n  help: it is for --steps\n");
  EXPECT_EQ(refused({"derive", "s.tw", "--machine", "h200"}),
            "error: --machine has no effect here\n  help: it is for --steps\n");
  EXPECT_EQ(refused({"derive", "s.tw", "--steps", "--kernel", "z"}),
            "error: no kernel is called `z`\n  help: choose one of y\n");
  EXPECT_EQ(
      refused({"derive", "s.tw", "--steps", "--target", "cpu", "--machine", "h200"}),
      "error: --target cpu does not run on H200\n  help: leave --target out: plans are those of a GPU\n");
  EXPECT_EQ(refused({"explain", "s.tw", "--no-run", "--repeat", "3"}),
            "error: --repeat has no effect here\n  help: --no-run leaves the runs out\n");
  EXPECT_NE(refused({"explain", "s.tw", "--machine", "h2oo"}).find("h200"), std::string::npos);
  EXPECT_NE(refused({"explain", "s.tw", "--schedule", "strem j=4"}).find("did you mean `stream`?"),
            std::string::npos);
  EXPECT_NE(refused({"derive", "s.tw", "--steps", "--schedule", "stream r=4"}).find("r"), std::string::npos);
}

TEST_F(ExplainErrors, WithoutAGpuTheTimeIsLeftOut) {
  if (std::string why; !cuda::available(&why)) {
    const CommandResult r =
        tilewright({"explain", "s.tw", "--target", "cuda", "--machine", "h200", "--size", "r=2,j=3"}, folder);
    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_NE(r.out.find(why), std::string::npos) << r.out;
  }
}

TEST_F(ExplainErrors, Programs) {
  EXPECT_NE(refused({"explain", "bad.tw"}).find("bad.tw:4:"), std::string::npos);
  EXPECT_NE(refused({"derive", "bad.tw", "--steps"}).find("bad.tw:4:"), std::string::npos);
  EXPECT_NE(refused({"explain", "none.tw"}).find("none.tw"), std::string::npos);
}

TEST_F(ExplainErrors, Sizes) {
  EXPECT_NE(refused({"explain", "s.tw", "--size", "r=3"}).find("--size"), std::string::npos);
  EXPECT_EQ(refused({"explain", "s.tw", "--size", "q=3"}),
            "error: --size q=3: the program has no axis `q`\n  help: its axes are r, j\n");
  const CommandResult r = tilewright({"explain", "s.tw"}, folder);
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_NE(r.out.find("sizes are missing: give --size r=N,j=N"), std::string::npos) << r.out;
}

TEST_F(ExplainErrors, Pages) {
  const CommandResult page = tilewright({"explain", "s.tw", "--size", "r=3,j=5000", "--repeat", "2"}, folder);
  EXPECT_EQ(page.status, 0) << page.err;
  EXPECT_NE(page.out.find("median of 2"), std::string::npos) << page.out;
  EXPECT_NE(page.out.find("Row sums."), std::string::npos);
  const CommandResult html = tilewright({"explain", "s.tw", "--no-run", "--html", "page.html"}, folder);
  EXPECT_EQ(html.status, 0) << html.err;
  EXPECT_EQ(html.out, "");
  EXPECT_EQ(read(folder + "/page.html").rfind("<!DOCTYPE html>", 0), 0u);
  const CommandResult steps =
      tilewright({"derive", "s.tw", "--steps", "--html", "steps.html", "--json"}, folder);
  EXPECT_EQ(steps.status, 0) << steps.err;
  EXPECT_NE(read(folder + "/steps.html").find("<svg"), std::string::npos);
  EXPECT_NE(steps.out.find("\"steps\""), std::string::npos);
}

}  // namespace
}  // namespace tilewright::testing::explain_errors_test
