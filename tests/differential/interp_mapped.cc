// Programs mapped to sm_90a and to sm_80, and interpreted under several adversaries, against their definitions: operands of scores in every layout, masks of every
// kind, products whose operands are made on either side.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/compiled.h"
#include "tests/support/mapped_run.h"
#include "tilewright/emit/emit.h"
#include "tilewright/map/placement.h"

namespace tilewright::testing::interp_mapped_test {
namespace {

using Mode = Adversary::Mode;

struct Case {
  std::string name, text;
  std::vector<std::map<std::string, int64_t>> sizes;
  std::vector<std::string> dtypes = {"f16"};  ///< stands for T in the text
  std::vector<std::string> schedules = {""};
  std::map<std::string, double> params = {};
  double slack = 1;  ///< on the error that the rule of `check` allows
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

std::string with_dtype(std::string text, const std::string& dtype) {
  for (size_t at = 0; (at = text.find(": T", at)) != std::string::npos; at += 3)
    text.replace(at, 3, ": " + dtype);
  return text;
}

class Mapped : public ::testing::TestWithParam<std::tuple<Case, std::string>> {};

TEST_P(Mapped, EqualsItsDefinition) {
  const Case& c = std::get<0>(GetParam());
  const Machine gpu = gpu_machine(std::get<1>(GetParam()));
  for (const std::string& dtype : c.dtypes) {
    if (gpu.arch != sm90().arch && dtype != c.dtypes.front()) break;  // the rest is the same by instructions
    for (const std::string& schedule : c.schedules) {
      const Compiled compiled = compile(with_dtype(c.text, dtype), schedule, Target::Cuda, gpu);
      unsigned seed = 1;
      for (const auto& sizes : c.sizes) {
        const bool first = &sizes == &c.sizes.front();
        if (!first && dtype != c.dtypes.front()) break;
        for (LayoutClass layout : {LayoutClass::Aligned, LayoutClass::General}) {
          if (first && layout == LayoutClass::General && dtype == "bf16") continue;
          std::string where = fmt::format("{} {}", dtype, schedule);
          for (auto& [name, n] : sizes) where += fmt::format(" {}={}", name, n);
          SCOPED_TRACE(where);
          MappedRun run(compiled, sizes, layout, Target::Cuda, c.params, seed, gpu);
          run.slack = c.slack;
          if (layout == LayoutClass::Aligned && run.layout() != layout) continue;
          EXPECT_TRUE(misplaced(run.mapped()).empty());
          if (first) {
            EXPECT_FALSE(emit_cuda(compiled.program, run.mapped()).empty());
          }
          const Mode mode = seed % 3 == 0 ? Mode::Lazy : seed % 3 == 1 ? Mode::Random : Mode::Eager;
          ASSERT_EQ(run.run({seed, mode}), "") << print(compiled.program, run.mapped());
          ++seed;
        }
      }
    }
  }
}

const std::string kScores = R"(axis b, h, i, j
axis d = 32, e = 48
input Q[b, h, i, d] : T
input K[b, h, j, d] : T
input V[b, h, j, e] : T
)";
const std::string kWeighted = "O[b, h, i, e] = sum[j](softmax[j](S) * V)\noutput O : T\n";
const std::vector<std::map<std::string, int64_t>> kRagged = {{{"b", 1}, {"h", 2}, {"i", 70}, {"j", 130}},
                                                             {{"b", 2}, {"h", 1}, {"i", 3}, {"j", 40}},
                                                             {{"b", 1}, {"h", 1}, {"i", 129}, {"j", 64}}};
const std::vector<std::string> kFloats = {"f16", "bf16", "f32"};

Case scores(const std::string& name, const std::string& inputs, const std::string& s) {
  return {name, kScores + inputs + "S[b, h, i, j] = " + s + "\n" + kWeighted, kRagged, kFloats};
}
const std::string kDot = "sum[d](Q * K) / sqrt(size(d))";

const std::string kProduct =
    "axis r, n\naxis c = 144\ninput x[r, c] : T\ninput gamma[c] : T\ninput W[c, n] : T\n";
const std::vector<std::map<std::string, int64_t>> kRows = {{{"r", 70}, {"n", 72}}, {{"r", 3}, {"n", 9}}};

const Case kCases[] = {
    // A bias of the scores in each layout that the tile has.
    scores("bias_of_a_head", "input B[h] : T\n", kDot + " + B[h]"),
    scores("bias_of_a_row", "input B[h, i] : T\n", kDot + " + B[h, i]"),
    scores("bias_of_a_column", "input B[h, j] : T\n", kDot + " + B[h, j]"),
    scores("bias_of_an_element", "input B[i, j] : T\n", kDot + " + B[i, j]"),
    scores("bias_of_all", "input B[i, j] : T\ninput r[h, i] : f32\ninput c[j] : T\ninput s[b] : f32\n",
           kDot + " * s[b] + B[i, j] * r[h, i] - c[j]"),
    scores("slopes", "input slope[h] : f32\n",
           "where(j <= i + size(j) - size(i), " + kDot + " + slope[h] / 64 * (j - i), -inf)"),
    // A mask in each.
    scores("mask_of_an_element", "input M[i, j] : bool\n", "where(M[i, j], " + kDot + ", -inf)"),
    scores("mask_of_a_column", "input M[b, j] : bool\n", "where(M[b, j], " + kDot + ", -inf)"),
    scores("mask_of_a_row", "input M[h, i] : i32 range(0, 150)\n", "where(j < M[h, i], " + kDot + ", -inf)"),
    scores("mask_of_a_row_and_a_column",
           "input di[b, i] : i32 range(0, 3)\ninput dj[b, j] : i32 range(0, 3)\n",
           "where(di[b, i] == dj[b, j] and j <= i + size(j) - size(i), " + kDot + ", -inf)"),
    scores("mask_of_integers", "input M[i, j] : i8 range(0, 2)\n", "where(M[i, j] != 0, " + kDot + ", -inf)"),
    scores("mask_and_bias", "input M[i, j] : bool\ninput B[h, i, j] : T\n",
           "where(M[i, j], " + kDot + " + B[h, i, j], -inf)"),
    // Products whose terms may be absent.
    {"absent_terms_of_loaded_operands",
     kProduct + "y[r, n] = sum[c](where(c <= 3 * r, x * W, 0))\noutput y : f32\n", kRows, kFloats},
    {"absent_terms_of_made_operands",
     kProduct + "y[r, n] = sum[c](where(c <= 3 * r, (x * 2 + 1) * W, 0))\noutput y : f32\n", kRows, kFloats},
    {"absent_terms_by_column", kProduct + "y[r, n] = sum[c](where(c <= 4 * n, x * W, 0))\noutput y : f32\n",
     kRows, kFloats},
    {"absent_terms_by_a_table",
     kProduct + "input M[r, c] : bool\ny[r, n] = sum[c](where(M[r, c], (x - 1) * W, 0))\noutput y : f32\n",
     kRows, kFloats},
    // Operands made on the side of the columns.
    {"scaled_columns",
     kProduct + "y[r, n] = sum[c](x * rsqrt(mean[c](x * x) + 1e-5) * gamma * W)\noutput y : T\n", kRows,
     kFloats},
    {"function_of_columns", kProduct + "y[r, n] = sum[c](x * tanh(W + gamma))\noutput y : f32\n", kRows,
     kFloats},
    {"two_products",
     kProduct + "input U[c, n] : T\na[r, n] = sum[c](x * gamma * W)\nu[r, n] = sum[c](x * gamma * U)\ny[r, "
                "n] = silu(a) * u\noutput y : T\n",
     kRows, kFloats},
    {"whole_multiples",
     "axis r, n\naxis c = 256\ninput x[r, c] : bf16\ninput gamma[c] : bf16\ninput W[c, n] : bf16\ny[r, n] = "
     "sum[c](x * (W * gamma + W))\noutput y : bf16\n",
     {{{"r", 70}, {"n", 72}}},
     {"bf16"},
     {"", "group r=64, n=64; stream c=64; stages 1; roles 0+1"}},
    // Groups of heads, functions of scores, second outputs.
    {"grouped_softcap_window",
     R"(axis b, k, g, i, j
axis d = 64, e = 64
param cap : f32 = 50
input Q[b, (k g), i, d] : T
input K[b, k, j, d] : T
input V[b, k, j, e] : T
S[b, k, g, i, j] = sum[d](Q[b, (k g), i, d] * K) / sqrt(size(d))
C[b, k, g, i, j] = where(j <= i + size(j) - size(i) and i + size(j) - size(i) - j < 50, cap * tanh(S / cap), -inf)
O[b, k, g, i, e] = sum[j](softmax[j](C) * V)
L[b, k, g, i] = logsumexp[j](C)
output O[b, (k g), i, e] : T, L : f32
)",
     {{{"b", 1}, {"k", 1}, {"g", 2}, {"i", 70}, {"j", 130}},
      {{"b", 1}, {"k", 1}, {"g", 5}, {"i", 5}, {"j", 3}}},
     kFloats,
     {""},
     {{"cap", 30}}},
    {"normalised_rows_and_columns",
     R"(axis b, h, i, j
axis d = 64, e = 32
input Q[b, h, i, d] : T
input K[b, h, j, d] : T
input V[b, h, j, e] : T
S[b, h, i, j] = sum[d](Q * K) * rsqrt(mean[d](Q ** 2) + 1e-6) * rsqrt(mean[d](K ** 2) + 1e-6) / 8
O[b, h, i, e] = sum[j](softmax[j](S) * V)
output O : T
)",
     kRagged,
     {"f16", "f32"}},
    {"linear_cross_entropy",
     R"(axis r, v
axis k = 64
input x[r, k] : T
input W[v, k] : T
input label[r] : i32 range(0, size(v))
z[r, v] = sum[k](x * W)
loss[r] = logsumexp[v](z) - sum[v](where(v == label[r], z, 0))
output loss : f32
)",
     {{{"r", 70}, {"v", 130}}, {{"r", 3}, {"v", 1}}},
     {"bf16", "f32"}},
    {"rows_without_products",
     R"(axis r, c
input x[r, c] : T
input g[c] : T
mu[r] = mean[c](x)
y[r, c] = (x - mu) * rsqrt(var[c](x) + 1e-5) * g
output y : T, mu : T
)",
     {{{"r", 3}, {"c", 300}}, {{"r", 2}, {"c", 1}}},
     kFloats,
     {"", "group r=1; resident c=1024", "group r=1; stream c=128"},
     {},
     2},
    {"reductions_that_are_no_products",
     kProduct + "y[r, n] = max[c](x + W * gamma)\noutput y : f32\n",
     {{{"r", 20}, {"n", 30}}},
     {"f16", "f32"},
     {"group r=16, n=16; stream c=16"}},
    {"reductions_of_products",
     R"(axis r, j, n
axis d = 16
input x[r, d] : T
input K[j, d] : T
input W[j, n] : T
y[r, n] = max[j](sum[d](x * K) + W)
output y : f32
)",
     {{{"r", 70}, {"j", 40}, {"n", 30}}},
     {"f16", "f32"},
     {"group r=64, n=16; stream j=32"}},
    // Chunks and blocks shorter than the tiles of the atoms.
    {"positions_of_maxima",
     "axis r, c\ninput x[r, c] : T\nk[r] = argmax[c](x)\noutput k : i32\n",
     {{{"r", 5}, {"c", 300}}, {{"r", 2}, {"c", 1}}},
     kFloats},
    {"short_chunks",
     kScores + "S[b, h, i, j] = where(j <= i + 40, " + kDot + ", -inf)\n" + kWeighted,
     {{{"b", 1}, {"h", 1}, {"i", 21}, {"j", 60}}},
     {"f16", "f32"},
     {"group b=1, h=1, i=8; stream j=8; guard speculative",
      "group b=1, h=1, i=4; stream j=4; keep Q; guard threshold"}},
    {"short_contractions",
     kProduct + "y[r, n] = silu(sum[c](x * W)) * sum[c](x * gamma * W)\noutput y : f32\n",
     {{{"r", 9}, {"n", 20}}},
     {"bf16", "f32"},
     {"group r=8, n=16; stream c=16", "group r=8, n=8; stream c=8", "group r=64, n=16; stream c=48"}},
    // Several elements of the grid in a block.
    {"in_turn",
     kScores + "S[b, h, i, j] = where(j <= i + size(j) - size(i), " + kDot + ", -inf)\n" + kWeighted,
     {{{"b", 2}, {"h", 3}, {"i", 70}, {"j", 130}}, {{"b", 1}, {"h", 7}, {"i", 129}, {"j", 64}}},
     {"f16", "bf16"},
     {"group i=64/64; stream j=32; roles 1+1; grid persistent",
      "group i=64/64; stream j=64; stages 3; roles 1+1; guard threshold; grid persistent, h/2",
      "group i=64/64; stream j=32; roles 1+1; grid blocks, b/2"}},
    {"products_in_turn",
     kProduct + "y[r, n] = sum[c](x * W)\noutput y : T\n",
     {{{"r", 140}, {"n", 200}}, {{"r", 3}, {"n", 9}}},
     {"f16"},
     {"group r=64, n=64; stream c=64; stages 2; roles 1+1; grid persistent, r/2",
      "group r=64, n=64; stream c=64; stages 1; roles 1+1; grid persistent"}},
    {"passes_in_turn",
     kProduct + "y[r, n] = sum[c](x * rsqrt(mean[c](x * x) + 1e-5) * gamma * W)\noutput y : T\n",
     {{{"r", 140}, {"n", 72}}},
     {"f16"},
     {"group r=64, n=64; stream c=48; roles 1+1; grid persistent"}},
    {"unlike_features",
     R"(axis b, h, i, j
axis d = 192, e = 128
input Q[b, h, i, d] : f16
input K[b, h, j, d] : f16
input V[b, h, j, e] : f16
O[b, h, i, e] = sum[j](softmax[j](where(j <= i, sum[d](Q * K) / 14, -inf)) * V)
output O : f16
)",
     {{{"b", 1}, {"h", 1}, {"i", 70}, {"j", 130}}}},
};

INSTANTIATE_TEST_SUITE_P(
    Gpus, Mapped, ::testing::Combine(::testing::ValuesIn(kCases), ::testing::Values("sm_90a", "sm_80")),
    [](const auto& test) { return std::get<0>(test.param).name + "_" + std::get<1>(test.param); });

TEST(MappedFeatures, OfManySizes) {
  for (const char* arch : {"sm_90a", "sm_80", "sm_89"})
    for (int64_t features : {8, 40, 80, 96, 112, 256}) {
      const Compiled c =
          compile_file("examples/pf_causal.tw", "", {.literal_sizes = {{"d", features}, {"e", features}}},
                       Target::Cuda, gpu_machine(arch));
      const MappedRun run(c, {{"b", 1}, {"h", 1}, {"i", 70}, {"j", 100}}, LayoutClass::Aligned, Target::Cuda,
                          {}, 11, gpu_machine(arch));
      EXPECT_EQ(run.run({3, Mode::Random}), "") << arch << " " << features;
    }
}

/// NaN and infinities where nothing may look, in each kind of mask: they reach no output that does not see them.
TEST(MappedMasks, HideWhatIsNotFinite) {
  const std::map<std::string, std::string> masks = {{"index", "j <= i"},
                                                    {"element", "M[i, j]"},
                                                    {"column", "N[j]"},
                                                    {"row and column", "a[i] == c[j]"},
                                                    {"all", "j <= i and M[i, j] and N[j] and a[i] == c[j]"}};
  const std::pair<std::string, std::string> kinds[] = {
      {"f16", "sm_90a"}, {"f32", "sm_90a"}, {"f16", "sm_80"}};
  for (const auto& [dtype, arch] : kinds) {
    for (const auto& [name, mask] : masks) {
      const Machine gpu = gpu_machine(arch);
      const Compiled c = compile(with_dtype(R"(axis i, j
axis d = 16, e = 24
input Q[i, d] : T
input K[j, d] : T
input V[j, e] : T
input M[i, j] : bool
input N[j] : bool
input a[i] : i32 range(0, 2)
input c[j] : i32 range(0, 2)
O[i, e] = sum[j](softmax[j](where()" + mask + R"(, sum[d](Q * K), -inf)) * V)
output O : T
)",
                                            dtype),
                                 "", Target::Cuda, gpu);
      MappedRun run(c, {{"i", 70}, {"j", 90}}, LayoutClass::Aligned, Target::Cuda, {}, 11, gpu);
      for (int64_t k = 0; k < 16; ++k) run.input("K").set(20 * 16 + k, k % 2 ? NAN : INFINITY);
      for (int64_t k = 0; k < 24; ++k)
        run.input("V").set(20 * 24 + k, k % 2 ? NAN : -INFINITY), run.input("V").set(89 * 24 + k, NAN);
      run.expect();
      EXPECT_EQ(run.run({5, Mode::Random}), "") << dtype << ", " << name << ", " << arch;
    }
  }
}

}  // namespace
}  // namespace tilewright::testing::interp_mapped_test
