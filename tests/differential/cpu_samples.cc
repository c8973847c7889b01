// Hand-built tile programs, mapped for a CPU, compiled and run, against the definition in f64.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/support/cpu_run.h"
#include "tests/support/tile_samples.h"
#include "tilewright/reference/reference.h"

namespace tilewright::testing::cpu_samples_test {
namespace {

/// A host array with the bytes it lies in; strides in elements, with room for padding between rows.
struct HostArray {
  DType dtype;
  std::vector<int64_t> shape, strides;
  std::vector<char> bytes;

  HostArray() = default;
  HostArray(DType t, std::vector<int64_t> s, int64_t row_padding = 0, bool inner_gap = false)
      : dtype(t), shape(std::move(s)) {
    strides.resize(shape.size());
    int64_t n = inner_gap ? 3 : 1;
    for (size_t k = shape.size(); k-- > 0;) {
      strides[k] = n;
      n *= std::max<int64_t>(shape[k], 1);
      if (k + 1 == shape.size()) n += row_padding;
    }
    bytes.assign(size_t((n + 64) * tilewright::bytes(t)), char(0x7f));  // what lies outside is not finite
  }
  template <class F>
  void each(F f) const {
    std::vector<int64_t> index(shape.size(), 0);
    for (int64_t n : shape)
      if (n == 0) return;
    for (;;) {
      int64_t at = 0;
      for (size_t k = 0; k < index.size(); ++k) at += index[k] * strides[k];
      f(index, at);
      size_t k = index.size();
      while (k-- > 0) {
        if (++index[k] < shape[k]) break;
        index[k] = 0;
      }
      if (k == size_t(-1)) return;
    }
  }
  double get(int64_t at) const { return load_element(dtype, bytes.data(), at); }
  void set(int64_t at, double x) { store_element(dtype, bytes.data(), at, x); }
  ArrayView view() const { return {dtype, bytes.data(), shape, strides}; }
  MutableArray out() { return {dtype, bytes.data(), shape, strides}; }
};

struct Case {
  TileSample sample;
  std::map<std::string, int64_t> sizes;
  std::string isa;
  int64_t padding = 0;
  bool gap = false;
  double scale = 1;
  std::function<void(std::map<std::string, HostArray>&)> change;
};

Sizes sizes_of(const Program& p, const std::map<std::string, int64_t>& given) {
  Sizes sizes;
  for (const Axis& a : p.axes)
    sizes[a.index.size()] = a.baked() ? a.size.rational()->num() : given.at(a.name());
  return sizes;
}

void check(Case c) {
  const Program& p = c.sample.program;
  const Sizes sizes = sizes_of(p, c.sizes);
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  std::map<std::string, HostArray> inputs, outputs;
  std::map<std::string, ArrayView> views;
  std::map<std::string, MutableArray> outs;
  for (const Input& in : p.inputs) {
    HostArray a(in.dtype, shape_of(in.dims, sizes), c.padding, c.gap);
    a.each([&](const auto&, int64_t at) { a.set(at, normal(random) * c.scale); });
    inputs[in.sym.name()] = std::move(a);
  }
  if (c.change) c.change(inputs);
  for (const auto& [name, a] : inputs) views[name] = a.view();
  for (const Output& out : p.outputs) {
    outputs[out.sym.name()] = HostArray(out.dtype, shape_of(out.dims, sizes), c.padding, c.gap);
    outs[out.sym.name()] = outputs[out.sym.name()].out();
  }
  const MappedProgram m = map_cpu(p, c.sample.tiles, cpu_machine(c.isa), LayoutClass::General);
  run_cpu(p, m, sizes, views, {}, outs);

  Evaluator reference(p, sizes, views, {}, Precision::f64), naive(p, sizes, views, {}, Precision::naive);
  for (const Output& out : p.outputs) {
    const HostArray& got = outputs[out.sym.name()];
    double naive_error = 0, error = 0, magnitude = 0;
    const std::vector<double> want = reference.all(out), rough = naive.all(out);
    size_t k = 0;
    got.each([&](const std::vector<int64_t>& index, int64_t at) {
      const double w = round_to(out.dtype, want[k]), n = round_to(out.dtype, rough[k]), g = got.get(at);
      ++k;
      if (!std::isfinite(w)) {
        EXPECT_TRUE(std::isnan(w) ? std::isnan(g) : w == g)
            << "element " << k - 1 << " is " << g << ", not " << w;
        return;
      }
      if (!std::isfinite(g))
        ADD_FAILURE() << "element " << k - 1 << " (" << index.back() << ") is " << g << ", not " << w;
      naive_error = std::max(naive_error, std::fabs(n - w));
      error = std::max(error, std::fabs(g - w));
      magnitude = std::max(magnitude, std::fabs(w));
    });
    const double atol = 2 * magnitude * std::ldexp(1.0, -mantissa_bits(out.dtype) - 1);
    EXPECT_LE(error, 2 * naive_error + atol) << out.sym.name() << ": naive " << naive_error;
  }
}

const char* const isas[] = {"", "portable"};

AttentionOptions f32_attention(bool causal, int64_t block, int64_t chunk, int64_t features) {
  return {.causal = causal,
          .dtype = DType::f32,
          .block = block,
          .piece = block,
          .chunk = chunk,
          .features = features};
}

TEST(CpuSamples, GlobalAttention) {
  for (const char* isa : isas)
    for (auto [i, j] : {std::pair<int64_t, int64_t>{100, 130}, {1, 1}, {48, 64}, {7, 257}})
      check({.sample = attention_sample(f32_attention(false, 48, 64, 32)),
             .sizes = {{"b", 2}, {"h", 3}, {"i", i}, {"j", j}},
             .isa = isa});
}

TEST(CpuSamples, AttentionOfManyBlocks) {
  for (int64_t block : {16, 40, 96, 128})
    check({.sample = attention_sample(f32_attention(false, block, 64, 72)),
           .sizes = {{"b", 1}, {"h", 1}, {"i", 150}, {"j", 100}}});
}

TEST(CpuSamples, StridedArrays) {
  for (const char* isa : isas)
    for (bool gap : {false, true})
      check({.sample = attention_sample(f32_attention(true, 48, 64, 20)),
             .sizes = {{"b", 2}, {"h", 2}, {"i", 61}, {"j", 75}},
             .isa = isa,
             .padding = 5,
             .gap = gap});
}

TEST(CpuSamples, CausalAttention) {
  for (const char* isa : isas)
    for (auto [i, j] : {std::pair<int64_t, int64_t>{100, 130}, {130, 100}, {1, 70}, {200, 3}, {64, 64}})
      check({.sample = attention_sample(f32_attention(true, 48, 64, 32)),
             .sizes = {{"b", 1}, {"h", 2}, {"i", i}, {"j", j}},
             .isa = isa});
}

TEST(CpuSamples, NothingLeaksThroughAMask) {
  for (double bad : {double(INFINITY), double(NAN)})
    for (const char* isa : isas)
      check({.sample = attention_sample(f32_attention(true, 48, 64, 32)),
             .sizes = {{"b", 1}, {"h", 1}, {"i", 90}, {"j", 90}},
             .isa = isa,
             .change = [bad](auto& inputs) {
               for (const char* name : {"K", "V"}) {
                 HostArray& a = inputs[name];
                 a.each([&](const auto& index, int64_t at) {
                   if (index[2] == 57) a.set(at, bad);
                 });
               }
             }});
}

TEST(CpuSamples, NanPropagates) {
  check({.sample = attention_sample(f32_attention(false, 48, 64, 32)),
         .sizes = {{"b", 1}, {"h", 1}, {"i", 90}, {"j", 90}},
         .change = [](auto& inputs) { inputs["Q"].set(32 * 5, NAN); }});
}

TEST(CpuSamples, LargeScores) {
  check({.sample = attention_sample(f32_attention(true, 48, 64, 32)),
         .sizes = {{"b", 1}, {"h", 1}, {"i", 90}, {"j", 90}},
         .scale = 60});
}

TEST(CpuSamples, HalfPrecisionAttention) {
  for (DType t : {DType::f16, DType::bf16})
    for (const char* isa : isas) {
      AttentionOptions o = f32_attention(true, 48, 64, 64);
      o.dtype = t;
      check(
          {.sample = attention_sample(o), .sizes = {{"b", 1}, {"h", 2}, {"i", 100}, {"j", 90}}, .isa = isa});
    }
}

TEST(CpuSamples, EveryGuard) {
  for (Guard g : {Guard::Moved, Guard::Threshold, Guard::Speculative}) {
    AttentionOptions o = f32_attention(true, 48, 64, 32);
    o.guard = g;
    check({.sample = attention_sample(o), .sizes = {{"b", 1}, {"h", 2}, {"i", 100}, {"j", 300}}, .scale = 3});
  }
}

TEST(CpuSamples, RowSoftmax) {
  for (const char* isa : isas)
    for (int64_t n : {1, 7, 1000, 1024, 2500})
      for (DType t : {DType::f32, DType::f16}) {
        check({.sample = resident_softmax_sample(t), .sizes = {{"r", 5}, {"j", n}}, .isa = isa});
        check({.sample = two_pass_softmax_sample(t), .sizes = {{"r", 5}, {"j", n}}, .isa = isa});
      }
}

TEST(CpuSamples, LayerNormIntoAProduct) {
  for (const char* isa : isas)
    for (DType t : {DType::f32, DType::f16, DType::bf16})
      check({.sample = layernorm_matmul_sample(t), .sizes = {{"r", 70}, {"n", 100}}, .isa = isa});
}

}  // namespace
}  // namespace tilewright::testing::cpu_samples_test
