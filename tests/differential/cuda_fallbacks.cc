// Programs whose default plans no GPU has room for, or whose tiles have too many axes for one thread layout: with the simpler plans that stand in for those
// they are accepted, printed in both layout classes, and equal their definitions in the adversarial interpreter.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/command.h"
#include "tilewright/driver/compiled.h"
#include "tilewright/driver/session.h"

namespace tilewright::testing::cuda_fallbacks_test {
namespace {

struct Case {
  const char *name, *text;
  std::map<std::string, int64_t> sizes;
};

const Case kCases[] = {
    {"conv1d",
     R"(axis b, i, l, ci, co
axis k = 4
input x[b, l, ci] : f16
input w[co, ci, k] : f16
y[b, i, co] = silu(sum[ci, k](where(i - k >= 0, x[b, i - k, ci], 0) * w))
output y : f16
)",
     {{"b", 2}, {"i", 30}, {"l", 30}, {"ci", 6}, {"co", 9}}},
    {"conv1d_strided",
     R"(axis b, i, co
axis k = 5, ci = 32
axis l = 2 * size(i) + 4
input x[b, ci, l] : bf16
input w[co, ci, k] : bf16
y[b, co, i] = max(0, sum[ci, k](x[b, ci, 2 * i + k] * w))
output y : bf16
)",
     {{"b", 2}, {"i", 17}, {"co", 20}}},
    {"conv2d",
     R"(axis n, y, x, co, ci
axis ky = 3, kx = 3
axis yi = size(y) + 2, xi = size(x) + 2
input I[n, ci, yi, xi] : f16
input W[co, ci, ky, kx] : f16
O[n, co, y, x] = sum[ci, ky, kx](I[n, ci, y + ky, x + kx] * W)
output O : f16
)",
     {{"n", 2}, {"y", 5}, {"x", 7}, {"co", 9}, {"ci", 5}}},
    {"depthwise",
     R"(axis n, y, x, c
axis ky = 3, kx = 3
axis yi = size(y) + 2, xi = size(x) + 2
input I[n, c, yi, xi] : f16
input W[c, ky, kx] : f16
O[n, c, y, x] = sum[ky, kx](I[n, c, y + ky, x + kx] * W)
output O : f16
)",
     {{"n", 2}, {"y", 5}, {"x", 7}, {"c", 9}}},
    {"w4_groups",
     R"(axis m, n, kg
axis g = 32
input x[m, (kg g)] : f16
input w[n, (kg g)] : i8 range(-8, 8)
input s[n, kg] : f16
input z[n, kg] : i8 range(-8, 8)
y[m, n] = sum[kg, g](x[m, (kg g)] * (w[n, (kg g)] - z[n, kg]) * s[n, kg])
output y : f16
)",
     {{"m", 17}, {"n", 40}, {"kg", 3}}},
    {"w4_packed",
     R"(axis m, n, kg
axis g = 16, p = 2
input x[m, (kg g p)] : f16
input w[n, (kg g)] : i32 range(0, 256)
input s[n, kg] : f16
y[m, n] = sum[kg, g, p](x[m, (kg g p)] * (where(p == 0, w[n, (kg g)] % 16, w[n, (kg g)] // 16) - 8) * s[n, kg])
output y : f16
)",
     {{"m", 17}, {"n", 20}, {"kg", 3}}},
    {"bilinear",
     R"(axis b, k
axis d = 32, e = 32
input x[b, d] : f16
input y[b, e] : f16
input W[k, d, e] : f16
O[b, k] = sum[d, e](x * W * y)
output O
)",
     {{"b", 7}, {"k", 19}}},
    {"tucker",
     R"(axis a, b, c
axis r = 8, s = 8, t = 8
input G[r, s, t] : f32
input A[a, r] : f32
input B[b, s] : f32
input C[c, t] : f32
X[a, b, c] = sum[r, s, t](G * A * B * C)
output X
)",
     {{"a", 5}, {"b", 6}, {"c", 7}}},
};

class Fallbacks : public ::testing::TestWithParam<std::tuple<Case, std::string>> {};

TEST_P(Fallbacks, EqualTheirDefinitions) {
  const auto& [c, arch] = GetParam();
  const Program p = parse_program(std::make_shared<SourceText>(SourceText{"p.tw", c.text}));
  CompileOptions o;
  o.target = Target::InterpMapped;
  o.arch = arch;
  SessionOptions s;
  s.sizes = c.sizes;
  try {
    Session session(p, o, s);
    session.run(0, 1);
    for (const OutputCheck& check : session.check())
      EXPECT_TRUE(check.comparison.passed)
          << check.name << ": " << check.comparison.reason << "; plan " << session.kernel().last_plan();
    o.target = Target::Cuda;
    const bool nvcc = run_program({"nvcc", "--version"}).status == 0;
    const CompiledProgram all = compile_program(p, o);
    for (size_t k = 0; k < all.kernels.size(); ++k)
      for (const GuardedPlan& g : all.kernels[k].plans)
        for (LayoutClass layout : {LayoutClass::Aligned, LayoutClass::General}) {
          const Compilation& kernel = all.kernels[k];
          const std::string source =
              lower_source(kernel, lower_mapped(kernel, lower(kernel, g.plan), Target::Cuda, layout));
          EXPECT_FALSE(source.empty());
          if (!nvcc || layout != LayoutClass::General || &g != &all.kernels[k].plans.back()) continue;
          const std::string folder = new_folder();
          write(folder + "/k.cu", source);
          const CommandResult r =
              run_program({"nvcc", "-arch=" + arch, "-cubin", "-o", "k.cubin", "k.cu"}, folder);
          EXPECT_EQ(r.status, 0) << r.err << r.out;
        }
  } catch (const UserError& e) {
    std::string text;
    for (const Diagnostic& d : e.diagnostics()) text += d.render();
    ADD_FAILURE() << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Gpus, Fallbacks,
                         ::testing::Combine(::testing::ValuesIn(kCases),
                                            ::testing::Values("sm_90a", "sm_80")),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param).name) + "_" + std::get<1>(test.param);
                         });

/// A plan that is written is not replaced.
TEST(Fallbacks, WrittenPlansAreRefusedAsTheyAre) {
  CompileOptions o;
  o.target = Target::Cuda;
  o.arch = "sm_90a";
  o.schedule = "stream ci=64";
  const Program p = parse_program(std::make_shared<SourceText>(SourceText{"p.tw", kCases[0].text}));
  bool refused = false;
  try {
    const CompiledProgram c = compile_program(p, o);
    lower_mapped(c.kernels[0], lower(c.kernels[0], c.kernels[0].plans[0].plan), Target::Cuda,
                 LayoutClass::Aligned);
  } catch (const RoomError& e) {
    refused = true;
    EXPECT_NE(e.diagnostics()[0].what.find(" registers a thread (32 of them states), there are 255"),
              std::string::npos)
        << e.diagnostics()[0].what;
  }
  EXPECT_TRUE(refused);
}

}  // namespace
}  // namespace tilewright::testing::cuda_fallbacks_test
