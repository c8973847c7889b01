// Examples that take several kernels, on every target that needs no GPU: ragged sizes with 0 and 1, f32 and f16.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <tuple>

#include "tests/support/examples.h"
#include "tilewright/driver/compiled.h"
#include "tilewright/runtime/cache.h"
#include "tilewright/runtime/compile.h"

namespace tilewright::testing::several_kernels_test {
namespace {

struct Blocks {
  const char* program;
  std::map<std::string, int64_t> literals;
  std::vector<std::map<std::string, int64_t>> sizes;
};

const Blocks kBlocks[] = {{"swiglu",
                           {},
                           {{{"t", 0}, {"c", 3}, {"f", 5}},
                            {{"t", 1}, {"c", 1}, {"f", 1}},
                            {{"t", 3}, {"c", 0}, {"f", 5}},
                            {{"t", 3}, {"c", 5}, {"f", 0}},
                            {{"t", 50}, {"c", 65}, {"f", 129}}}},
                          {"attention_block",
                           {{"d", 16}, {"e", 8}},
                           {{{"b", 1}, {"h", 2}, {"i", 0}, {"j", 3}, {"c", 5}},
                            {{"b", 1}, {"h", 1}, {"i", 1}, {"j", 1}, {"c", 1}},
                            {{"b", 2}, {"h", 3}, {"i", 5}, {"j", 0}, {"c", 7}},
                            {{"b", 1}, {"h", 0}, {"i", 5}, {"j", 4}, {"c", 7}},
                            {{"b", 2}, {"h", 3}, {"i", 17}, {"j", 40}, {"c", 70}}}},
                          {"qkv_attention",
                           {{"d", 16}},
                           {{{"b", 1}, {"k", 1}, {"g", 1}, {"i", 0}, {"c", 3}},
                            {{"b", 1}, {"k", 1}, {"g", 1}, {"i", 1}, {"c", 1}},
                            {{"b", 1}, {"k", 2}, {"g", 0}, {"i", 4}, {"c", 6}},
                            {{"b", 2}, {"k", 2}, {"g", 3}, {"i", 33}, {"c", 20}}}},
                          {"attention_backward",
                           {{"d", 16}, {"e", 8}},
                           {{{"b", 1}, {"h", 2}, {"i", 0}, {"j", 3}},
                            {{"b", 1}, {"h", 1}, {"i", 4}, {"j", 0}},
                            {{"b", 2}, {"h", 2}, {"i", 70}, {"j", 50}}}},
                          {"llama_block",
                           {{"d", 16}},
                           {{{"b", 1}, {"k", 1}, {"g", 1}, {"i", 0}, {"c", 3}, {"f", 4}},
                            {{"b", 1}, {"k", 1}, {"g", 1}, {"i", 1}, {"c", 1}, {"f", 1}},
                            {{"b", 1}, {"k", 1}, {"g", 2}, {"i", 3}, {"c", 6}, {"f", 0}},
                            {{"b", 2}, {"k", 2}, {"g", 3}, {"i", 21}, {"c", 20}, {"f", 70}}}}};

class SeveralKernels : public ::testing::TestWithParam<std::tuple<Target, DType>> {};

INSTANTIATE_TEST_SUITE_P(Targets, SeveralKernels,
                         ::testing::Combine(::testing::Values(Target::Interp, Target::Cpu),
                                            ::testing::Values(DType::f32, DType::f16)),
                         [](const auto& of) {
                           return fmt::format("{}_{}", name(std::get<0>(of.param)),
                                              name(std::get<1>(of.param)));
                         });

TEST_P(SeveralKernels, Examples) {
  for (const Blocks& blocks : kBlocks)
    for (const auto& sizes : blocks.sizes) {
      CheckCase c;
      c.program = blocks.program;
      c.literals = blocks.literals;
      c.sizes = sizes;
      std::tie(c.target, c.dtype) = GetParam();
      c.slack = 8;  // one or a few elements
      expect_check(c);
    }
}

struct Chained {
  const char* name;
  const char* text;
  std::vector<std::map<std::string, int64_t>> sizes;
};

const Chained kChained[] = {
    {"cross_entropy_of_a_product",
     R"(axis t, c, v
input x[t, c] : f32
input W[c, v] : f32
input label[t] : i64 range(0, size(v))
Z[t, v] = sum[c](x * W)
nll[t] = logsumexp[v](Z) - Z[t, label[t]]
loss[] = sum[t](nll) / size(t)
output loss, nll
)",
     {{{"t", 9}, {"c", 12}, {"v", 17}}, {{"t", 1}, {"c", 0}, {"v", 1}}}},
    {"norm_of_a_matrix",
     R"(axis a, b
input x[a, b] : f32
y[] = sqrt(sum[a, b](x * x))
z[a, b] = x / y[]
output z
)",
     {{{"a", 9}, {"b", 130}}, {{"a", 0}, {"b", 5}}, {{"a", 1}, {"b", 1}}}},
    {"router_after_a_product",
     R"(axis t, c
axis v = 16, n = 4
input x[t, c] : f32
input W[c, v] : f32
l[t, v] = sum[c](x * W)
p[t, v] = softmax[v](l)
w[t, n] = topk[v -> n](p)
e[t, n] = argtopk[v -> n](p)
output w : f32, e : i32
)",
     {{{"t", 9}, {"c", 12}}, {{"t", 1}, {"c", 1}}, {{"t", 0}, {"c", 4}}}},
    {"attention_and_its_derivatives",
     R"(axis i, j
axis d = 16, e = 8
input Q[i, d] : f32
input K[j, d] : f32
input V[j, e] : f32
input dO[i, e] : f32
S[i, j] = sum[d](Q * K) / 4
P[i, j] = softmax[j](S)
O[i, e] = sum[j](P * V)
dV[j, e] = sum[i](P * dO)
dP[i, j] = sum[e](dO * V)
D[i] = sum[e](dO * O)
dS[i, j] = P * (dP - D) / 4
dQ[i, d] = sum[j](dS * K)
dK[j, d] = sum[i](dS * Q)
output O, dQ, dK, dV
)",
     {{{"i", 9}, {"j", 12}}, {{"i", 2}, {"j", 3}}, {{"i", 0}, {"j", 3}}}},
    {"outputs_with_unlike_axes",
     R"(axis a, b, c
input x[a, b] : f32
input y[b, c] : f16
s[a] = sum[b](x)
m[c] = max[b](y)
p[b] = prod[c](y)
r[a, b] = relu(x)
output s, m, p, r : f16
)",
     {{{"a", 9}, {"b", 12}, {"c", 3}}, {{"a", 0}, {"b", 2}, {"c", 1}}}},
    {"three_products_in_a_statement",
     R"(axis r, a, b, c, d
input x[r, a] : f32
input W1[a, b] : f32
input b1[b] : f32
input W2[b, c] : f32
input W3[c, d] : f32
y[r, d] = sum[c](gelu(sum[b](gelu(sum[a](x * W1) + b1) * W2)) * W3)
output y[d, r] : f32
)",
     {{{"r", 9}, {"a", 12}, {"b", 3}, {"c", 70}, {"d", 5}},
      {{"r", 2}, {"a", 3}, {"b", 0}, {"c", 4}, {"d", 5}}}},
    {"normalised_layer_with_residual_and_softmax",
     R"(axis r, c, f
param eps : f32 = 0.00001
input x[r, c] : f32
input W1[c, f] : f32
input W2[f, c] : f32
mu[r] = mean[c](x)
n[r, c] = (x - mu) * rsqrt(var[c](x) + eps)
h[r, f] = gelu(sum[c](n * W1))
y[r, c] = x + sum[f](h * W2)
z[r, c] = softmax[c](y)
output z, y : f16
)",
     {{{"r", 9}, {"c", 12}, {"f", 30}}, {{"r", 1}, {"c", 1}, {"f", 0}}}},
    {"convolution_of_a_hidden_layer",
     R"(axis t, c, n
axis k = 3
input x[t, c] : f32
input A[c, n] : f32
input w[k, n] : f32
h[t, n] = relu(sum[c](x * A))
y[t, n] = sum[k](where(t >= k, h[t - k, n] * w, 0))
output y
)",
     {{{"t", 9}, {"c", 12}, {"n", 3}}, {{"t", 1}, {"c", 1}, {"n", 1}}}},
    {"covariance",
     R"(axis r, a
axis b = size(a)
input x[r, a] : f32
mu[a] = mean[r](x)
C[a, b] = sum[r]((x - mu) * (x[r, b] - mu[b])) / size(r)
v[a] = sum[b](C * mu[b])
output C, v
)",
     {{{"r", 9}, {"a", 12}}, {{"r", 1}, {"a", 1}}}},
};

void expect_chained(const Chained& chained, Target target, Target mapping, bool all) {
  for (const auto& sizes : chained.sizes) {
    SCOPED_TRACE(fmt::format("{} {} {}", chained.name, name(target), sizes.begin()->second));
    CompileOptions o;
    o.target = target;
    o.mapping = mapping;
    SessionOptions s;
    s.sizes = sizes;
    try {
      Session session(parse_program(std::make_shared<SourceText>(SourceText{"chained.tw", chained.text})), o,
                      s);
      EXPECT_TRUE(session.kernel().compiled().several());
      session.run(0, 1);
      for (const OutputCheck& c : session.check())
        EXPECT_TRUE(c.comparison.passed || c.comparison.error <= 8 * c.comparison.tolerance)
            << c.name << ": " << c.comparison.reason << ", got " << c.got << ", expected " << c.expected
            << "\n"
            << session.kernel().last_plan();
    } catch (const UserError& e) {
      ADD_FAILURE() << e.diagnostics()[0].render();
    }
    if (!all) break;
  }
}

TEST(ChainedPrograms, OnEveryTarget) {
  for (const Chained& chained : kChained) {
    expect_chained(chained, Target::Interp, Target::Cuda, true);
    expect_chained(chained, Target::InterpMapped, Target::Cuda, true);
    expect_chained(chained, Target::InterpMapped, Target::Cpu, true);
    expect_chained(chained, Target::Cpu, Target::Cpu, false);
  }
}

/// The mapped program of every kernel, its signals checked by the adversary.
TEST(SeveralKernelsMapped, Examples) {
  for (const Blocks& blocks : kBlocks)
    for (Target mapping : {Target::Cuda, Target::Cpu}) {
      CheckCase c;
      c.program = blocks.program;
      c.literals = blocks.literals;
      c.sizes = blocks.sizes.front().begin()->first == "t" ? blocks.sizes[4] : blocks.sizes.back();
      for (auto& [axis, size] : c.sizes) size = std::min<int64_t>(size, 20);
      c.dtype = DType::f16;
      c.target = Target::InterpMapped;
      c.mapping = mapping;
      c.slack = 8;
      expect_check(c);
    }
}

TEST(SeveralKernelsOnTheCpu, ANewSizeCompilesNothing) {
  setenv("TILEWRIGHT_CACHE_DIR", (temporary_folder() + "/several").c_str(), 1);
  Kernel k(example("swiglu", DType::f32), {});
  ASSERT_TRUE(k.compiled().several());
  const auto run = [&](int64_t t, int64_t c, int64_t f) {
    const HostArray x = filled(DType::f32, {t, c}, Fill::Normal, 1, "x"),
                    w1 = filled(DType::f32, {c, f}, Fill::Normal, 1, "W1"),
                    w3 = filled(DType::f32, {c, f}, Fill::Normal, 1, "W3"),
                    w2 = filled(DType::f32, {f, c}, Fill::Normal, 1, "W2"), y = allocate(DType::f32, {t, c});
    const auto tensor = [](const HostArray& a) { return Tensor{a.dtype, a.data.get(), a.shape, a.strides}; };
    k.run({{"x", tensor(x)}, {"W1", tensor(w1)}, {"W3", tensor(w3)}, {"W2", tensor(w2)}}, {},
          {{"y", tensor(y)}});
  };
  run(60, 80, 90);
  run(3, 16, 24);
  run(60, 6000, 90);
  run(3, 80, 6000);
  run(60, 80, 6000);
  run(3, 6000, 90);
  const int64_t after = compile_stats().compiled;
  for (int64_t t : {0, 1, 47, 48, 130})
    for (int64_t c : {0, 1, 64, 200}) run(t, c, 100);
  EXPECT_EQ(compile_stats().compiled, after);
}

}  // namespace
}  // namespace tilewright::testing::several_kernels_test
