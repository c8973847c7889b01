// The sources of several kernels, as `emit` prints them: one file that compiles.
#include <gtest/gtest.h>

#include "tests/support/command.h"

namespace tilewright::testing::emit_several_test {
namespace {

const char kProgram[] =
    "program norm\naxis n, s, o\naxis c = 32\ninput x[n, s, c] : f16\ninput W[c, o] : f16\n"
    "mu[n] = mean[s, c](x)\nv[n] = var[s, c](x)\nz[n, s, c] = (x - mu) * rsqrt(v + 1e-5)\n"
    "y[n, s, o] = sum[c](z * W)\noutput y : f16\n";

std::string emitted(const std::string& folder, const std::vector<std::string>& target) {
  write(folder + "/norm.tw", kProgram);
  std::vector<std::string> all = {"emit", "norm.tw", "--stage", "source", "--target"};
  all.insert(all.end(), target.begin(), target.end());
  const CommandResult r = tilewright(all, folder);
  EXPECT_EQ(r.status, 0) << r.err;
  return r.out;
}

void expect_apart(const std::string& text) {
  EXPECT_NE(text.find("// kernel 2 of "), std::string::npos);
  for (const char* line : {"\nnamespace kernel_1 {\n", "\n}  // namespace kernel_1\n",
                           "\nnamespace kernel_2 {\n", "\n}  // namespace kernel_2\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line;
}

TEST(EmitSeveral, Cuda) {
  const std::string folder = new_folder();
  const bool nvcc = run_program({"nvcc", "--version"}).status == 0;
  for (const std::string arch : {"sm_80", "sm_90a"}) {
    const std::string text = emitted(folder, {"cuda", "--arch", arch});
    expect_apart(text);
    if (!nvcc) continue;
    write(folder + "/norm.cu", text);
    const CommandResult r =
        run_program({"nvcc", "-arch=" + arch, "-cubin", "-o", "norm.cubin", "norm.cu"}, folder);
    EXPECT_EQ(r.status, 0) << r.err << r.out;
  }
}

TEST(EmitSeveral, Cpp) {
  const std::string folder = new_folder();
  const std::string text = emitted(folder, {"cpu"});
  expect_apart(text);
  if (run_program({"c++", "--version"}).status != 0) GTEST_SKIP() << "no C++ compiler";
  write(folder + "/norm.cc", text);
  const CommandResult r =
      run_program({"c++", "-std=c++17", "-march=native", "-w", "-fsyntax-only", "norm.cc"}, folder);
  EXPECT_EQ(r.status, 0) << r.err;
}

}  // namespace
}  // namespace tilewright::testing::emit_several_test
