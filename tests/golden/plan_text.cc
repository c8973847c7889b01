// The plan of a program of several kernels: what is stored, where it lies, and every kernel.
#include "tests/support/golden.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tilewright/driver/compiled.h"

namespace tilewright::testing::plan_text_test {
namespace {

TEST(PlanText, DecoderBlock) {
  CompileOptions o;
  o.target = Target::Interp;  // the plans of a GPU do not depend on this machine
  const CompiledProgram c =
      compile_program(load_program(std::string(TW_SOURCE_DIR) + "/examples/llama_block.tw"), o);
  std::string text = plan_text(c) + "\n";
  for (size_t k = 0; k < c.kernels.size(); ++k) text += heading(c, k, "#") + print(c.kernels[k].program);
  expect_golden("plan/llama_block.txt", text);
}

/// Given back as a schedule the plans of every example mean themselves: also where operands are stored, which have no name in the program, and where plans
/// are simpler than the default ones.
TEST(PlanText, GivenBackMeansTheSame) {
  std::map<std::string, Program> programs;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(TW_SOURCE_DIR) + "/examples"))
    if (entry.path().extension() == ".tw")
      programs[entry.path().stem().string()] = load_program(entry.path().string());
  programs["groups of weights"] = parse_program(std::make_shared<SourceText>(SourceText{
      "w.tw",
      "axis m, n, kg\naxis g = 32\ninput x[m, (kg g)] : f16\ninput w[n, (kg g)] : i8 range(-8, 8)\n"
      "input s[n, kg] : f16\ny[m, n] = sum[kg, g](x[m, (kg g)] * w[n, (kg g)] * s[n, kg])\noutput y\n"}));
  for (const char* d : {"", " = 64", " = 512"})  // a sum without a name, beside one that is stored
    programs[fmt::format("normalised keys, d{}", d)] = parse_program(std::make_shared<SourceText>(SourceText{
        "n.tw", fmt::format("axis i, j, d{}\ninput A[i, d] : f32\ninput B[j, d] : f32\n"
                            "S[i, j] = sum[d](A[i, d] * B[j, d]) * rsqrt(sum[d](B[j, d] * B[j, d]))\n"
                            "L[i] = logsumexp[j](S)\noutput L\n",
                            d)}));
  size_t several = 0;
  for (const auto& [name, p] : programs)
    for (const char* arch : {"sm_90a", "sm_80", "cpu"}) {
      CompileOptions o;
      o.target = arch == std::string("cpu") ? Target::Cpu : Target::Cuda;
      if (o.target == Target::Cuda) o.arch = arch;
      CompiledProgram c;
      try {
        c = compile_program(p, o);
      } catch (const UserError&) {
        continue;  // that target refuses it
      }
      if (!c.several()) continue;
      ++several;
      o.schedule = plan_text(c);
      EXPECT_EQ(plan_text(compile_program(p, o)), o.schedule) << name << " " << arch;
    }
  EXPECT_GT(several, 12u);
}

}  // namespace
}  // namespace tilewright::testing::plan_text_test
