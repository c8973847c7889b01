// The examples on the GPU, over dtypes and ragged sizes up to 8192, aligned and general layouts.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/examples.h"
#include "tests/support/scores.h"
#include "tests/support/wide_operands.h"
#include "tilewright/runtime/cuda.h"

namespace tilewright::testing::check_examples_gpu_test {
namespace {

/// Operations of the definition past which a sample of the elements is compared: the reference evaluator has one core and would take minutes for the longest sizes.
constexpr double kSampleAbove = 1e8;

const DType kTypes[] = {DType::f16, DType::bf16, DType::f32};

std::vector<std::pair<int64_t, int64_t>> pairs() {
  std::vector<std::pair<int64_t, int64_t>> all;
  for (int64_t a : ragged_sizes())
    for (int64_t b : ragged_sizes()) all.emplace_back(a, b);
  for (int64_t big : {4096, 8192}) {
    all.emplace_back(big, big);
    all.emplace_back(129, big);
    all.emplace_back(big, 7);
  }
  return all;
}

/// Every size class is a kernel to compile, most of a test's time: all pairs for one program, type and width, a few of short rows and of longer ones for the others.
std::vector<std::pair<int64_t, int64_t>> pairs_of(bool all) {
  if (all || full_sweep()) return pairs();
  return {{0, 7}, {7, 0}, {64, 129}, {129, 1000}, {1000, 129}};
}

CheckCase attention_case(const char* program, int64_t i, int64_t j, int64_t d, DType t) {
  CheckCase c;
  c.program = program;
  c.sizes = {{"b", 1}, {"h", 2}, {"i", i}, {"j", j}};
  c.literals = {{"d", d}, {"e", d}};
  c.dtype = t;
  c.target = Target::Cuda;
  c.sample_above = kSampleAbove;
  return c;
}

/// Each in a test of its own, so that they can run side by side.
void expect_attention(DType t) {
  for (const char* program : {"pf_global", "pf_causal"})
    for (int64_t d : {64, 128}) {
      const bool all = t == DType::f16 && d == 128 && std::string(program) == "pf_causal";
      if (!all && (t == DType::f32) != (d == 64) && !full_sweep()) continue;
      for (const auto& [i, j] : pairs_of(all)) expect_check(attention_case(program, i, j, d, t));
    }
}

TEST(CheckExamplesGpu, Attention) {
  SKIP_WITHOUT_GPU();
  expect_attention(DType::f16);
}
TEST(CheckExamplesGpu, AttentionInBf16) {
  SKIP_WITHOUT_GPU();
  expect_attention(DType::bf16);
}
TEST(CheckExamplesGpu, AttentionInF32) {
  SKIP_WITHOUT_GPU();
  expect_attention(DType::f32);
}

// ---- Products by warps and copies in groups, which devices of compute capability 9.0 run too ----

TEST(CheckExamplesGpuByWarps, Attention) {
  SKIP_WITHOUT_GPU();
  for (const char* program : {"pf_global", "pf_causal"})
    for (DType t : kTypes)
      for (int64_t d : {64, 128})
        for (const auto& [i, j] : pairs_of(t == DType::f16 && d == 128)) {
          CheckCase c = attention_case(program, i, j, d, t);
          c.arch = "sm_80";
          expect_check(c);
        }
}

TEST(CheckExamplesGpuByWarps, AttentionWithOtherPlansAndFeatures) {
  SKIP_WITHOUT_GPU();
  for (const char* schedule :
       {"group b=1, h=1, i=128/64; stream j=64; keep Q; stages 2; roles 0+2; guard threshold",
        "group b=1, h=1, i=128/128; stream j=32; keep Q; stages 3; roles 0+1; guard always",
        "group b=1, h=1, i=64; stream j=48; keep Q; stages 1; roles 0+1; guard moved",
        "group b=1, h=1, i=64; stream j=16; keep Q; stages 4; roles 0+1; guard speculative"})
    for (int64_t d : {40, 80, 128})
      for (const auto& [i, j] : {std::pair<int64_t, int64_t>{1000, 1000}, {129, 7}, {7, 129}, {300, 0}}) {
        CheckCase c = attention_case("pf_causal", i, j, d, DType::f16);
        c.arch = "sm_80";
        c.schedule = schedule;
        expect_check(c);
      }
}

TEST(CheckExamplesGpuByWarps, SingleAndChainedProducts) {
  SKIP_WITHOUT_GPU();
  for (DType t : kTypes)
    for (int64_t n : {0, 1, 7, 129, 300, 1000}) {
      CheckCase c;
      c.dtype = t;
      c.target = Target::Cuda;
      c.arch = "sm_80";
      c.slack = 8;
      c.program = "swiglu";
      c.sizes = {{"t", n}, {"c", 200}, {"f", 264}};
      expect_check(c);
      c.sizes = {{"t", 136}, {"c", n}, {"f", 72}};
      expect_check(c);
      c.program = "layernorm_matmul";
      c.sizes = {{"r", n}, {"n", 136}};
      c.literals = {{"c", 512}};
      expect_check(c);
    }
}

TEST(CheckExamplesGpuByWarps, VariantsOfAttention) {
  SKIP_WITHOUT_GPU();
  for (const char* program :
       {"pf_gqa", "pf_alibi", "pf_softcap", "pf_window", "dc_causal", "dc_gqa", "dc_softcap"})
    for (int64_t n : {1, 129, 1000}) {
      CheckCase c;
      c.program = program;
      const Program p = example(program, DType::f16);
      for (const Axis& a : p.axes)
        if (!a.baked()) c.sizes[a.name()] = a.name() == "i" || a.name() == "j" ? n : 2;
      for (const Param& q : p.params) c.params[q.sym.name()] = 20;
      c.dtype = DType::f16;
      c.target = Target::Cuda;
      c.arch = "sm_80";
      expect_check(c);
    }
}

TEST(CheckExamplesGpuByWarps, RowSoftmax) {
  SKIP_WITHOUT_GPU();
  for (DType t : kTypes)
    for (const auto& [r, j] : {std::pair<int64_t, int64_t>{7, 1000}, {3, 8192}, {2, 0}}) {
      CheckCase c;
      c.program = "softmax";
      c.sizes = {{"r", r}, {"j", j}};
      c.dtype = t;
      c.target = Target::Cuda;
      c.arch = "sm_80";
      expect_check(c);
    }
}

/// Operands of f32 in every layout, in parts: ragged steps, infinities, NaN, and numbers that must not overflow as they are rounded.
TEST(CheckExamplesGpuByWarps, SpecialValuesOfProductsInParts) {
  SKIP_WITHOUT_GPU();
  constexpr int64_t rows = 150, depth = 203, columns = 90;
  for (const char* x_axes : {"r, c", "c, r"}) {
    for (const char* w_axes : {"c, n", "n, c"}) {
      const Program p = parse_program(std::make_shared<SourceText>(
          SourceText{"parts.tw", fmt::format("axis r, n, c\ninput x[{}] : f32\ninput W[{}] : f32\n"
                                             "y[r, n] = sum[c](x * W)\noutput y : f32\n",
                                             x_axes, w_axes)}));
      const bool x_rows = x_axes[0] == 'r', w_rows = w_axes[0] == 'c';
      HostArray x = filled(DType::f32, {x_rows ? rows : depth, x_rows ? depth : rows}, Fill::Normal, 1, "x"),
                w = filled(DType::f32, {w_rows ? depth : columns, w_rows ? columns : depth}, Fill::Normal, 2,
                           "W");
      const auto set_x = [&](int64_t r, int64_t c, double value) {
        store_element(DType::f32, x.data.get(), x_rows ? r * depth + c : c * rows + r, value);
      };
      const auto set_w = [&](int64_t c, int64_t n, double value) {
        store_element(DType::f32, w.data.get(), w_rows ? c * columns + n : n * depth + c, value);
      };
      const double largest = std::ldexp(4095.0 / 4096, 128);  // which 11 bits round to infinity
      set_x(3, 5, INFINITY), set_x(4, 6, -INFINITY), set_x(5, 7, NAN);
      set_x(6, 8, INFINITY), set_x(6, 150, -INFINITY);
      set_x(7, 11, INFINITY), set_w(11, 2, 0);
      set_w(12, 4, INFINITY), set_x(9, 12, 0), set_w(13, 5, NAN);
      set_x(11, 16, -INFINITY), set_w(16, 6, -INFINITY);
      set_x(12, 17, INFINITY), set_w(17, 8, 1);
      for (int64_t r = rows - 4; r < rows; ++r)  // one term each, so that the sum is exact
        for (int64_t c = 0; c < depth; ++c) set_x(r, c, c != 9 ? 0 : r % 2 == 0 ? largest : -largest);
      for (int64_t n = 0; n < columns; ++n) set_w(9, n, std::ldexp(1.0 + double(n), -100));
      for (const char* arch : {"", "sm_80"}) {
        CompileOptions options;
        options.target = Target::Cuda;
        options.arch = arch;
        SessionOptions s;
        s.sizes = {{"r", rows}, {"n", columns}, {"c", depth}};
        s.inputs["x"].array = x;
        s.inputs["W"].array = w;
        Session session(p, options, s);
        session.run(0, 1);
        for (const OutputCheck& c : session.check())
          EXPECT_TRUE(c.comparison.passed)
              << x_axes << " by " << w_axes << " " << arch << ": " << c.comparison.reason << ", error "
              << c.comparison.error << ", got " << c.got << ", expected " << c.expected;
      }
    }
  }
}

TEST(CheckExamplesGpu, RowSoftmax) {
  SKIP_WITHOUT_GPU();
  for (const char* schedule : {"", "stream j=512"})
    for (DType t : kTypes)
      for (const auto& [r, j] : pairs()) {
        CheckCase c;
        c.program = "softmax";
        c.sizes = {{"r", r}, {"j", j}};
        c.dtype = t;
        c.target = Target::Cuda;
        c.schedule = schedule;
        c.sample_above = kSampleAbove;
        expect_check(c);
      }
}

TEST(CheckExamplesGpu, LargeScores) {
  SKIP_WITHOUT_GPU();
  expect_definition_of_scores(Target::Cuda);
  expect_definition_of_scores(Target::Cuda, Target::Cuda, "guard always");
}

TEST(CheckExamplesGpu, OperandsBeyondTheRangeOfF16) {
  SKIP_WITHOUT_GPU();
  expect_wide_operands(Target::Cuda);
}

/// Capped scores on both sides of where a hyperbolic tangent is a polynomial.
TEST(CheckExamplesGpu, CappedScores) {
  SKIP_WITHOUT_GPU();
  for (double cap : {50.0, 2.0, 0.5}) {
    CheckCase c;
    c.program = "pf_softcap";
    c.sizes = {{"b", 1}, {"k", 2}, {"g", 2}, {"i", 200}, {"j", 300}};
    c.params = {{"cap", cap}};
    c.dtype = DType::f16;
    c.target = Target::Cuda;
    expect_check(c);
  }
}

void expect_layernorm_matmul(DType t, int64_t features,
                             const std::vector<std::pair<int64_t, int64_t>>& sizes) {
  for (const auto& [r, n] : full_sweep() ? pairs() : sizes) {
    CheckCase c;
    c.program = "layernorm_matmul";
    if (r * n == 1) c.slack = 8;
    c.sizes = {{"r", r}, {"n", n}};
    c.literals = {{"c", features}};
    c.dtype = t;
    c.target = Target::Cuda;
    c.sample_above = kSampleAbove;
    expect_check(c);
  }
}

TEST(CheckExamplesGpu, LayernormMatmul) {
  SKIP_WITHOUT_GPU();
  expect_layernorm_matmul(DType::f16, 4096,
                          {{0, 8}, {8, 0}, {64, 1000}, {129, 64}, {1000, 136}, {129, 8192}});
  for (DType t : {DType::bf16, DType::f32}) expect_layernorm_matmul(t, 4096, {{129, 1000}});
}

/// Widths that are no multiple of what is copied at a time, and none at all: the general layout.
TEST(CheckExamplesGpu, LayernormMatmulOfOddWidths) {
  SKIP_WITHOUT_GPU();
  for (DType t : kTypes) expect_layernorm_matmul(t, 129, {{129, 1000}, {1000, 7}});
  expect_layernorm_matmul(DType::f16, 129, {{1, 1}, {7, 129}});
  expect_layernorm_matmul(DType::f16, 0, {{7, 129}, {129, 64}});
}

TEST(CheckExamplesGpu, SplitAndMerged) {
  SKIP_WITHOUT_GPU();
  for (DType t : kTypes) {
    CheckCase c = attention_case("pf_causal", 200, 1000, 128, t);
    c.schedule = "stream j=32; split j=256";
    expect_check(c);
  }
}

/// One query against many keys: a tile with one row, parts that are merged; also with keys in pages that a table names.
TEST(CheckExamplesGpu, SingleQueries) {
  SKIP_WITHOUT_GPU();
  for (const char* arch : {"sm_90a", "sm_80"})
    for (const char* program : {"dc_causal", "dc_gqa", "dc_alibi", "dc_softcap", "paged"})
      for (int64_t j : {0, 1, 129, 512, 513, 5000, 9001}) {
        CheckCase c;
        c.program = program;
        c.dtype = DType::f16;
        for (const Axis& a : example(program, c.dtype).axes)
          if (!a.size) c.sizes[a.name()] = a.name() == "j" ? j : 3;
        if (c.program == "paged") c.sizes = {{"b", 2}, {"h", 2}, {"p", j / 16}, {"v", j / 8 + 1}};
        if (c.program == "paged" && j < 16) continue;  // no sequence has a length
        c.target = Target::Cuda;
        c.arch = arch;
        c.sample_above = kSampleAbove;
        expect_check(c);
      }
}

/// Masks that read arrays: bounded by a kernel in front, in both mappings, in parts that are merged, and tested everywhere.
TEST(CheckExamplesGpu, MasksThatReadArrays) {
  SKIP_WITHOUT_GPU();
  for (const char* arch : {"sm_90a", "sm_80"})
    for (const char* program : {"documents", "lengths", "prefix_lm"})
      for (const char* schedule :
           {"", "group i=64; stream j=64; split j=256; stages 2; bounds device", "bounds tested"})
        for (auto [i, j] :
             std::vector<std::pair<int64_t, int64_t>>{{0, 64}, {7, 0}, {70, 129}, {300, 1000}}) {
          CheckCase c = attention_case(program, i, j, 128, DType::f16);
          c.schedule = schedule;
          c.arch = arch;
          expect_check(c);
        }
}

/// Programs of several kernels, with the arrays between them on the device.
void expect_several(const char* program, DType t, const std::map<std::string, int64_t>& sizes) {
  CheckCase c;
  c.program = program;
  c.dtype = t;
  c.target = Target::Cuda;
  c.slack = 8;
  c.sizes = sizes;
  expect_check(c);
}

TEST(CheckExamplesGpu, SeveralKernels) {
  SKIP_WITHOUT_GPU();
  for (DType t : kTypes)
    for (int64_t n : {0, 7, 129, 300}) {
      if (t != DType::f16 && n != 129 && !full_sweep()) continue;
      expect_several("swiglu", t, {{"t", n}, {"c", 200}, {"f", 260}});
      expect_several("swiglu", t, {{"t", 130}, {"c", n}, {"f", 70}});
      expect_several("rope", t, {{"b", 1}, {"h", 2}, {"i", n}, {"j", n}});
    }
}

TEST(CheckExamplesGpu, AttentionWithItsProjections) {
  SKIP_WITHOUT_GPU();
  for (int64_t n : {0, 7, 300})
    expect_several("qkv_attention", DType::f16, {{"b", 2}, {"k", 2}, {"g", 3}, {"i", n}, {"c", 100}});
}

TEST(CheckExamplesGpu, DecoderBlock) {
  SKIP_WITHOUT_GPU();
  for (DType t : full_sweep() ? std::vector<DType>{DType::f16, DType::bf16, DType::f32}
                              : std::vector<DType>{DType::f16})
    for (int64_t n : full_sweep() ? std::vector<int64_t>{0, 1, 7, 129, 300} : std::vector<int64_t>{129})
      expect_several("llama_block", t, {{"b", 1}, {"k", 2}, {"g", 2}, {"i", n}, {"c", 200}, {"f", 300}});
}

/// Transposed and offset views take the general layout class.
TEST(CheckExamplesGpu, GeneralLayouts) {
  SKIP_WITHOUT_GPU();
  for (DType t : kTypes) {
    CheckCase c = attention_case("pf_causal", 129, 200, 64, t);
    for (const char* name : {"Q", "K", "V"}) {
      const int64_t n = name[0] == 'Q' ? 129 : 200;
      HostArray a = filled(t, {64, n, 2, 1}, Fill::Normal, 5, name);
      a.shape = {1, 2, n, 64};
      a.strides = {1, 1, 2, 2 * n};
      c.inputs[name].array = a;
    }
    expect_check(c);
  }
}

}  // namespace
}  // namespace tilewright::testing::check_examples_gpu_test
