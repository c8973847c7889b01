// Programs beyond the examples: masks, several outputs, several passes, tables, every family of states.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/compiled.h"
#include "tilewright/model/cost.h"

namespace tilewright::interp_programs_test {
namespace {

using namespace testing;

struct Case {
  std::string name, text;
  std::vector<std::string> schedules;  ///< "" is the default plan
  std::vector<std::map<std::string, int64_t>> sizes;
  std::map<std::string, double> params;
  double slack = 1;  ///< on the error that the rule of `check` allows
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

class Programs : public ::testing::TestWithParam<Case> {};

TEST_P(Programs, EqualTheirDefinition) {
  const Case& c = GetParam();
  for (const std::string& schedule : c.schedules) {
    Compiled compiled;
    try {
      compiled = compile(c.text, schedule);
    } catch (const UserError& e) {
      FAIL() << schedule << "\n" << e.diagnostics()[0].render();
    }
    unsigned seed = 1;
    for (const auto& values : c.sizes) {
      Sizes sizes = sizes_of(compiled.program, values);
      Arrays arrays = random_inputs(compiled.program, sizes, seed++);
      arrays.params = c.params;
      std::string where = schedule + " with";
      for (auto& [name, n] : values) where += fmt::format(" {}={}", name, n);
      Outcome r = run_tiles(compiled, sizes, arrays);
      ASSERT_EQ(disagreement(compiled, sizes, arrays, r, c.slack), "")
          << where << "\n"
          << print(compiled.program, compiled.tiles);
      ASSERT_EQ(miscount(compiled, sizes, arrays, r.counts), "") << where << "\n"
                                                                 << print(compiled.program, compiled.tiles);
    }
  }
}

const std::string kHeads = R"(axis b, k, g, i, j
axis d = 16, e = 8
input Q[b, (k g), i, d] : f16
input K[b, k, j, d] : f16
input V[b, k, j, e] : f16
S[b, k, g, i, j] = sum[d](Q[b, (k g), i, d] * K) / sqrt(size(d))
)";
const std::vector<std::map<std::string, int64_t>> kHeadSizes = {
    {{"b", 2}, {"k", 2}, {"g", 3}, {"i", 20}, {"j", 37}},
    {{"b", 1}, {"k", 1}, {"g", 5}, {"i", 9}, {"j", 1}},
    {{"b", 1}, {"k", 2}, {"g", 1}, {"i", 33}, {"j", 16}},
    {{"b", 1}, {"k", 1}, {"g", 1}, {"i", 3}, {"j", 0}}};
const std::vector<std::string> kHeadSchedules = {
    "group b=1, k=1, g=1, i=8/4; stream j=8; guard always",
    "group b=1, k=1, g=4, i=4; stream j=16; guard moved",
    "group b=1, k=1, g=1, i=16; stream j=8; keep Q; guard threshold",
    "group b=1, k=1, g=8, i=1; stream j=8; guard speculative"};
const std::string kFlat =
    "axis i, j\naxis d = 8\ninput Q[i, d] : f32\ninput K[j, d] : f32\ninput V[j, d] : f32\n"
    "S[i, j] = sum[d](Q[i, d] * K[j, d])\n";
const std::vector<std::map<std::string, int64_t>> kFlatSizes = {{{"i", 21}, {"j", 40}},
                                                                {{"i", 1}, {"j", 1}},
                                                                {{"i", 40}, {"j", 21}},
                                                                {{"i", 5}, {"j", 0}},
                                                                {{"i", 0}, {"j", 5}}};

const Case kCases[] = {
    {"grouped_causal_softcap_logsumexp",
     kHeads + R"(param cap : f32 = 50 range (1, 1000)
C[b, k, g, i, j] = where(j <= i + size(j) - size(i), cap * tanh(S / cap), -inf)
O[b, k, g, i, e] = sum[j](softmax[j](C) * V)
L[b, k, g, i] = logsumexp[j](C)
output O[b, (k g), i, e] : f16, L : f32
)",
     kHeadSchedules,
     kHeadSizes,
     {}},
    {"alibi",
     kHeads + R"(input slope[k, g] : f32
C[b, k, g, i, j] = where(j <= i + size(j) - size(i), S + slope[k, g] * (j - i), -inf)
O[b, k, g, i, e] = sum[j](softmax[j](C) * V)
output O[b, (k g), i, e] : f16
)",
     kHeadSchedules,
     kHeadSizes,
     {}},
    {"window",
     kHeads + R"(param w : i64 = 7
C[b, k, g, i, j] = where(j <= i + size(j) - size(i) and i + size(j) - size(i) - j < w, 30 * tanh(S / 30), -inf)
O[b, k, g, i, e] = sum[j](softmax[j](C) * V)
output O[b, (k g), i, e] : f16
)",
     kHeadSchedules,
     kHeadSizes,
     {{"w", 9}}},
    {"split_grouped_decode",
     kHeads + R"(O[b, k, g, i, e] = sum[j](softmax[j](S) * V)
output O[b, (k g), i, e] : f16
)",
     {"group b=1, k=1, g=8, i=1; stream j=4; split j=8; guard speculative",
      "group b=1, k=1, g=8, i=1; stream j=4; split j=16; guard threshold"},
     kHeadSizes,
     {}},
    {"documents",
     kFlat + R"(input doc[j] : i32 range (0, 3)
input row[i] : i32 range (0, 3)
O[i, d] = sum[j](softmax[j](where(row[i] == doc[j], S, -inf)) * V)
output O : f32
)",
     {"group i=8; stream j=8; guard always", "group i=8; stream j=8; guard speculative",
      "group i=8; stream j=8; split j=16"},
     kFlatSizes,
     {}},
    {"lengths",
     R"(axis b, i, j
axis d = 8
input Q[b, i, d] : f32
input K[b, j, d] : f32
input V[b, j, d] : f32
input len[b] : i32 range (0, 12)
S[b, i, j] = where(j < len[b], sum[d](Q[b, i, d] * K[b, j, d]), -inf)
O[b, i, d] = sum[j](softmax[j](S) * V)
output O : f32
)",
     {"", "group b=1, i=8; stream j=4; guard moved", "group b=2, i=8; stream j=4"},
     {{{"b", 3}, {"i", 9}, {"j", 12}}, {{"b", 1}, {"i", 1}, {"j", 5}}},
     {}},
    {"prefix",
     kFlat + R"(param p : i64 = 5
O[i, d] = sum[j](softmax[j](where(j < p or j <= i, S, -inf)) * V)
output O : f32
)",
     {"group i=4; stream j=4; guard always", "group i=4; stream j=4; guard threshold"},
     kFlatSizes,
     {{"p", 11}}},
    {"probabilities_too",
     kFlat + R"(P[i, j] = softmax[j](S)
O[i, d] = sum[j](P * V)
output O : f32, P : f32
)",
     {"group i=8; stream j=8; guard always", "group i=8; stream j=8; keep Q; guard speculative",
      "group i=8; resident j=64"},
     kFlatSizes,
     {}},
    {"scores_too",
     kFlat + R"(O[i, d] = sum[j](softmax[j](where(j <= i, S, -inf)) * V)
output O : f32, S : f32
)",
     {"group i=8; stream j=8; guard always"},
     kFlatSizes,
     {}},
    {"unsafe_softmax",
     kFlat + R"(O[i, d] = sum[j](exp(S) * V) / sum[j](exp(S))
output O : f32
)",
     {"group i=8; stream j=8; guard always", "group i=8; stream j=8; guard speculative"},
     {{{"i", 21}, {"j", 40}}, {{"i", 1}, {"j", 1}}},
     {}},
    {"sinks",
     kFlat + R"(input sink[i] : f32
m[i] = max(max[j](S), sink[i])
O[i, d] = sum[j](exp(S - m) * V) / (sum[j](exp(S - m)) + exp(sink - m))
output O : f32
)",
     {"group i=8; stream j=8; guard always", "group i=8; stream j=8; guard threshold"},
     {{{"i", 21}, {"j", 40}}, {{"i", 1}, {"j", 1}}},
     {}},
    {"spherical",
     kFlat + R"(O[i, d] = sum[j](S * V) / sqrt(sum[j](S * S) + 1)
output O : f32
)",
     {"group i=8; stream j=8"},
     kFlatSizes,
     {}},
    {"backward_dq_saved",
     kFlat + R"(input dO[i, d] : f32
input L[i] : f32
input D[i] : f32
dP[i, j] = sum[d](dO[i, d] * V[j, d])
dQ[i, d] = sum[j](exp(S - L - 20) * (dP - D) * K)
output dQ : f32
)",
     {"group i=8; stream j=8"},
     kFlatSizes,
     {}},
    {"backward_dq_one_pass",
     kFlat + R"(input dO[i, d] : f32
P[i, j] = softmax[j](S)
dP[i, j] = sum[d](dO[i, d] * V[j, d])
D[i] = sum[j](P * dP)
dQ[i, d] = sum[j](P * (dP - D) * K)
output dQ : f32
)",
     {"group i=8; stream j=8", "group i=8; resident j=64"},
     {{{"i", 21}, {"j", 40}}, {{"i", 1}, {"j", 1}}, {{"i", 5}, {"j", 0}}},
     {},
     1.5},
    {"rmsnorm_matmul",
     R"(axis r, n
axis c = 48
input x[r, c] : f16
input gamma[c] : f16
input W[c, n] : f16
y[r, n] = sum[c](x * rsqrt(mean[c](x * x) + 1e-5) * gamma * W)
output y : f16
)",
     {"group r=8, n=16; stream c=16", "group r=8, n=16; stream c=16; split c=32",
      "group r=8, n=16; resident c=48"},
     {{{"r", 9}, {"n", 20}}, {{"r", 1}, {"n", 7}}},
     {}},
    {"gated_mlp",
     R"(axis r, n
axis c = 32
input x[r, c] : bf16
input A[c, n] : bf16
input B[c, n] : bf16
y[r, n] = silu(sum[c](x * A)) * sum[c](x * B)
output y : bf16
)",
     {"group r=8, n=16; stream c=16"},
     {{{"r", 9}, {"n", 20}}, {{"r", 20}, {"n", 7}}},
     {}},
    {"affine_quant_matmul",
     R"(axis r, n
axis c = 40
input x[r, c] : f32
input W[c, n] : f32
lo[r] = min[c](x)
hi[r] = max[c](x)
y[r, n] = sum[c]((x - lo) / (hi - lo) * W)
output y : f32
)",
     {"group r=8, n=16; stream c=16", "group r=8, n=16; resident c=40"},
     {{{"r", 9}, {"n", 20}}, {{"r", 1}, {"n", 7}}},
     {}},
    {"quantised_in_two_passes",
     R"(axis r, n
axis c = 40
input x[r, c] : f32
input W[c, n] : f32
a[r] = max[c](abs(x))
y[r, n] = sum[c](round(127 * x / a) * W) * a / 127
output y : f32
)",
     {"group r=8, n=16; stream c=16", "group r=8, n=16; resident c=40"},
     {{{"r", 9}, {"n", 20}}, {{"r", 1}, {"n", 7}}},
     {}},
    {"variance",
     R"(axis r, c
input x[r, c] : f32
v[r] = var[c](x + 1000)
m[r] = mean[c](x)
output v : f32, m : f32
)",
     {"", "group r=1; stream c=16", "group r=4; stream c=16", "group r=1; resident c=128",
      "group r=2; stream c=8; split c=16"},
     {{{"r", 40}, {"c", 100}}, {{"r", 1}, {"c", 1}}, {{"r", 40}, {"c", 16}}},
     {}},
    {"masked_mean",
     R"(axis r, c
input x[r, c] : f32
m[r] = mean[c](where(c < r + 3, x, -inf))
v[r] = var[c](where(c < r + 3, x, -inf))
output m : f32, v : f32
)",
     {"group r=4; stream c=4", "group r=4; resident c=64", "group r=4; stream c=4; split c=8"},
     {{{"r", 9}, {"c", 20}}, {{"r", 1}, {"c", 1}}},
     {}},
    {"argmax",
     R"(axis r, c
input x[r, c] : f32
a[r] = argmax[c](x)
n[r] = argmin[c](x)
output a : i32, n : i32
)",
     {"group r=4; stream c=16", "group r=4; resident c=256"},
     {{{"r", 9}, {"c", 100}}, {{"r", 1}, {"c", 1}}, {{"r", 2}, {"c", 0}}},
     {}},
    {"cross_entropy",
     R"(axis t, v
axis c = 16
input x[t, c] : f32
input W[c, v] : f32
input label[t] : i32 range (0, size(v))
Z[t, v] = sum[c](x * W)
y[t] = logsumexp[v](Z) - Z[t, label[t]]
output y : f32
)",
     {"group t=8; stream v=8", "group t=8; stream v=8; split v=16"},
     {{{"t", 9}, {"v", 40}}, {{"t", 17}, {"v", 7}}},
     {}},
    {"any_all_prod",
     R"(axis r, c
input x[r, c] : f32
a[r] = any[c](x > 2)
b[r] = all[c](x > -2)
p[r] = prod[c](x)
output a : bool, b : bool, p : f32
)",
     {"group r=4; stream c=4", "group r=4; resident c=64"},
     {{{"r", 9}, {"c", 13}}, {{"r", 1}, {"c", 1}}, {{"r", 2}, {"c", 0}}},
     {}},
    {"paged",
     R"(axis i, j, page
axis d = 8, w = 4
input Q[i, d] : f32
input table[page] : i32 range (0, size(page))
input cache[page, w, d] : f32
param n : i64 = 0
S[i, j] = where(j < n, sum[d](Q[i, d] * cache[table[j // 4], j % 4, d]), -inf)
O[i, d] = sum[j](softmax[j](S) * cache[table[j // 4], j % 4, d])
output O : f32
)",
     {"group i=4; stream j=8; guard always", "group i=4; stream j=4; guard always"},
     {{{"i", 5}, {"j", 20}, {"page", 4}}},
     {{"n", 14}}},
    {"rope",
     kFlat.substr(0, kFlat.find("S[")) + R"(axis h = 4, s = 2
input cq[i, h] : f32
input ck[j, h] : f32
T[i, j] = sum[h](Q[i, h] * cq * (K[j, h] * ck) - Q[i, h + 4] * cq * (K[j, h + 4] * ck))
O[i, d] = sum[j](softmax[j](T) * V)
output O : f32
)",
     {"group i=8; stream j=8; keep Q, cq; guard always"},
     kFlatSizes,
     {}},
    {"f64",
     R"(axis r, c
input x[r, c] : f64
y[r] = logsumexp[c](x)
s[r] = var[c](x)
output y : f64, s : f64
)",
     {"group r=4; stream c=16"},
     {{{"r", 9}, {"c", 100}}, {{"r", 1}, {"c", 1}}},
     {}},
    {"rounded_scores",
     kFlat + R"(R[i, j] : bf16 = S * 2
O[i, d] = sum[j](softmax[j](R) * V)
output O : f32
)",
     {"group i=8; stream j=8; guard always"},
     kFlatSizes,
     {}},
    {"rounded_probabilities",
     kFlat + R"(P[i, j] : bf16 = softmax[j](S)
O[i, d] = sum[j](P * V)
output O : f32
)",
     {"group i=8; stream j=8; guard always", "group i=8; resident j=64"},
     kFlatSizes,
     {}},
    {"column_statistics",
     R"(axis r, c
input x[r, c] : f16
m[c] = max[r](x)
s[c] = sum[r](x * x)
output m : f16, s : f32
)",
     {"group c=16; stream r=8", "group c=1; stream r=8; split r=16"},
     {{{"r", 33}, {"c", 20}}, {{"r", 1}, {"c", 1}}},
     {}},
};

INSTANTIATE_TEST_SUITE_P(Tile, Programs, ::testing::ValuesIn(kCases),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace tilewright::interp_programs_test
