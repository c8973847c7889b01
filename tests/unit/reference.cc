// The reference evaluator on programs written as text, against values computed here by hand-written loops.
#include "tilewright/program/reference.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <random>

namespace tilewright {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
const double nan_value = std::numeric_limits<double>::quiet_NaN();

/// A program, its inputs and their storage.
class Case {
 public:
  explicit Case(const std::string& text) : program_(parse_program(std::make_shared<SourceText>(SourceText{"t.tw", text}))) {}

  Case& size(const std::string& axis, int64_t n) {
    sizes_[axis] = n;
    return *this;
  }
  Case& param(const std::string& name, double x) {
    params_[name] = x;
    return *this;
  }
  /// Values in row-major order of the declared dimensions, rounded to the declared dtype.
  Case& input(const std::string& name, std::vector<int64_t> shape, const std::vector<double>& values) {
    const Input* in = nullptr;
    for (const Input& i : program_.inputs)
      if (i.sym.name() == name) in = &i;
    EXPECT_TRUE(in) << name;
    auto& bytes_of = storage_[name];
    bytes_of.resize(values.size() * size_t(bytes(in->dtype)) + 1);
    for (size_t k = 0; k < values.size(); ++k) store_element(in->dtype, bytes_of.data(), int64_t(k), values[k]);
    arrays_[name] = {in->dtype, bytes_of.data(), std::move(shape), {}};
    return *this;
  }
  ArrayView& array(const std::string& name) { return arrays_[name]; }

  Evaluator evaluator(Precision precision = Precision::f64) {
    std::map<std::string, std::vector<int64_t>> shapes;
    for (auto& [name, a] : arrays_) shapes[name] = a.shape;
    bound_ = bind_sizes(program_, shapes, sizes_);
    return Evaluator(program_, bound_, arrays_, params_, precision);
  }
  std::vector<double> all(size_t output = 0, Precision precision = Precision::f64) {
    return evaluator(precision).all(program_.outputs[output]);
  }
  const Program& program() const { return program_; }
  const Output& output(size_t k = 0) const { return program_.outputs[k]; }

 private:
  Program program_;
  std::map<std::string, std::vector<char>> storage_;
  std::map<std::string, ArrayView> arrays_;
  std::map<std::string, double> params_;
  std::map<std::string, int64_t> sizes_;
  Sizes bound_;
};

std::vector<double> normal(size_t n, uint32_t seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> d;
  std::vector<double> x(n);
  for (double& v : x) v = d(engine);
  return x;
}

/// Equal within `tolerance`, or both NaN, or the same infinity.
void expect_near(const std::vector<double>& got, const std::vector<double>& want, double tolerance = 1e-12) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t k = 0; k < got.size(); ++k) {
    if (std::isnan(want[k])) EXPECT_TRUE(std::isnan(got[k])) << "at " << k << ": " << got[k];
    else if (std::isinf(want[k])) EXPECT_EQ(got[k], want[k]) << "at " << k;
    else EXPECT_NEAR(got[k], want[k], tolerance) << "at " << k;
  }
}

const char* attention_text = R"(axis h, i, j
axis d = 128, e = 128
input Q[h, i, d] : f32
input K[h, j, d] : f32
input V[h, j, e] : f32
S[h, i, j] = sum[d](Q[h, i, d] * K[h, j, d]) / sqrt(size(d))
P[h, i, j] = softmax[j](S[h, i, j])
O[h, i, e] = sum[j](P[h, i, j] * V[h, j, e])
output O : f32
)";

/// softmax(QKᵀ/√D, masked) V with loops; `seen(i, j)` says what row i sees.
template <class Seen>
std::vector<double> attention(const std::vector<double>& q, const std::vector<double>& k, const std::vector<double>& v, int64_t heads,
                              int64_t rows, int64_t keys, int64_t d, Seen seen) {
  std::vector<double> out(size_t(heads * rows * d)), s(static_cast<size_t>(keys));
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t i = 0; i < rows; ++i) {
      double m = -inf, l = 0;
      for (int64_t j = 0; j < keys; ++j) {
        double x = 0;
        for (int64_t c = 0; c < d; ++c) x += q[size_t((h * rows + i) * d + c)] * k[size_t((h * keys + j) * d + c)];
        s[size_t(j)] = seen(i, j) ? x / std::sqrt(double(d)) : -inf;
        m = std::max(m, s[size_t(j)]);
      }
      for (int64_t j = 0; j < keys; ++j) l += seen(i, j) ? std::exp(s[size_t(j)] - m) : 0;
      for (int64_t j = 0; j < keys; ++j)
        if (seen(i, j))
          for (int64_t c = 0; c < d; ++c)
            out[size_t((h * rows + i) * d + c)] += std::exp(s[size_t(j)] - m) / l * v[size_t((h * keys + j) * d + c)];
    }
  return out;
}

TEST(Reference, AttentionMatchesLoops) {
  const int64_t heads = 2, rows = 37, keys = 300, d = 128;
  auto q = normal(size_t(heads * rows * d), 1), k = normal(size_t(heads * keys * d), 2), v = normal(size_t(heads * keys * d), 3);
  Case c(attention_text);
  c.input("Q", {heads, rows, d}, q).input("K", {heads, keys, d}, k).input("V", {heads, keys, d}, v);
  auto want = attention(q, k, v, heads, rows, keys, d, [](int64_t, int64_t) { return true; });
  expect_near(c.all(), want);
  expect_near(c.all(0, Precision::naive), want, 1e-5);
  Evaluator e = c.evaluator();
  EXPECT_NEAR(e.element(c.output(), {1, 36, 127}), want.back(), 1e-12);
  EXPECT_NEAR(e.element(c.output(), {0, 3, 5}), want[3 * 128 + 5], 1e-12);
}

TEST(Reference, AttentionIsQuick) {
  const int64_t heads = 2, n = 1000, d = 128;
  Case c(attention_text);
  c.input("Q", {heads, n, d}, normal(size_t(heads * n * d), 1))
      .input("K", {heads, n, d}, normal(size_t(heads * n * d), 2))
      .input("V", {heads, n, d}, normal(size_t(heads * n * d), 3));
  for (Precision p : {Precision::f64, Precision::naive}) {
    auto t0 = std::chrono::steady_clock::now();
    c.all(0, p);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - t0).count();
    RecordProperty(p == Precision::f64 ? "f64_ms" : "naive_ms", int(seconds * 1e3));
    printf("%f s\n", seconds);
    EXPECT_LT(seconds, 20);
  }
}

}  // namespace
}  // namespace tilewright
