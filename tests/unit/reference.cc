// The reference evaluator on programs written as text, against values computed here by hand-written loops.
#include "tilewright/reference/reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace tilewright::reference_test {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
const double nan_value = std::numeric_limits<double>::quiet_NaN();

/// A program, its inputs and their storage.
class Case {
 public:
  explicit Case(const std::string& text)
      : program_(parse_program(std::make_shared<SourceText>(SourceText{"t.tw", text}))) {}

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
    for (size_t k = 0; k < values.size(); ++k)
      store_element(in->dtype, bytes_of.data(), int64_t(k), values[k]);
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
    if (std::isnan(want[k]))
      EXPECT_TRUE(std::isnan(got[k])) << "at " << k << ": " << got[k];
    else if (std::isinf(want[k]))
      EXPECT_EQ(got[k], want[k]) << "at " << k;
    else
      EXPECT_NEAR(got[k], want[k], tolerance) << "at " << k;
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
std::vector<double> attention(const std::vector<double>& q, const std::vector<double>& k,
                              const std::vector<double>& v, int64_t heads, int64_t rows, int64_t keys,
                              int64_t d, Seen seen) {
  std::vector<double> out(size_t(heads * rows * d)), s(static_cast<size_t>(keys));
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t i = 0; i < rows; ++i) {
      double m = -inf, l = 0;
      for (int64_t j = 0; j < keys; ++j) {
        double x = 0;
        for (int64_t c = 0; c < d; ++c)
          x += q[size_t((h * rows + i) * d + c)] * k[size_t((h * keys + j) * d + c)];
        s[size_t(j)] = seen(i, j) ? x / std::sqrt(double(d)) : -inf;
        m = std::max(m, s[size_t(j)]);
      }
      for (int64_t j = 0; j < keys; ++j) l += seen(i, j) ? std::exp(s[size_t(j)] - m) : 0;
      for (int64_t j = 0; j < keys; ++j)
        if (seen(i, j))
          for (int64_t c = 0; c < d; ++c)
            out[size_t((h * rows + i) * d + c)] +=
                std::exp(s[size_t(j)] - m) / l * v[size_t((h * keys + j) * d + c)];
    }
  return out;
}

TEST(Reference, AttentionMatchesLoops) {
  const int64_t heads = 2, rows = 37, keys = 300, d = 128;
  auto q = normal(size_t(heads * rows * d), 1), k = normal(size_t(heads * keys * d), 2),
       v = normal(size_t(heads * keys * d), 3);
  Case c(attention_text);
  c.input("Q", {heads, rows, d}, q).input("K", {heads, keys, d}, k).input("V", {heads, keys, d}, v);
  auto want = attention(q, k, v, heads, rows, keys, d, [](int64_t, int64_t) { return true; });
  expect_near(c.all(), want);
  expect_near(c.all(0, Precision::naive), want, 1e-5);
  Evaluator e = c.evaluator();
  EXPECT_NEAR(e.element(c.output(), {1, 36, 127}), want.back(), 1e-12);
  EXPECT_NEAR(e.element(c.output(), {0, 3, 5}), want[3 * 128 + 5], 1e-12);
}

TEST(Reference, RowsThatSeeNothingAreZeroWithLogsumexpOfMinusInfinity) {
  const int64_t heads = 1, rows = 9, keys = 5, d = 128;
  auto q = normal(size_t(rows * d), 1), k = normal(size_t(keys * d), 2), v = normal(size_t(keys * d), 3);
  Case c(R"(axis h, i, j
axis d = 128, e = 128
input Q[h, i, d] : f32
input K[h, j, d] : f32
input V[h, j, e] : f32
S[h, i, j] = where(j <= i + size(j) - size(i), sum[d](Q * K) / sqrt(size(d)), -inf)
O[h, i, e] = sum[j](softmax[j](S) * V)
L[h, i] = logsumexp[j](S)
output O, L
)");
  c.input("Q", {heads, rows, d}, q).input("K", {heads, keys, d}, k).input("V", {heads, keys, d}, v);
  auto seen = [&](int64_t i, int64_t j) { return j <= i + keys - rows; };
  expect_near(c.all(0), attention(q, k, v, heads, rows, keys, d, seen));
  auto l = c.all(1);
  for (int64_t i = 0; i < rows; ++i) EXPECT_EQ(std::isinf(l[size_t(i)]), i < rows - keys) << i;
  EXPECT_EQ(l[0], -inf);
}

TEST(Reference, NothingBehindAMaskContributes) {
  const int64_t rows = 300, keys = 300, d = 128;
  auto q = normal(size_t(rows * d), 1), k = normal(size_t(keys * d), 2), v = normal(size_t(keys * d), 3);
  Case c(R"(axis i, j
axis d = 128, e = 128
input Q[i, d] : f32
input K[j, d] : f32
input V[j, e] : f32
param n : i64
S[i, j] = where(j < n, sum[d](Q * K) / sqrt(size(d)), -inf)
O[i, e] = sum[j](softmax[j](S) * V)
output O
)");
  auto want = attention(q, k, v, 1, rows, keys, d, [](int64_t, int64_t j) { return j < 271; });
  for (int64_t j = 271; j < keys; ++j)
    for (int64_t x = 0; x < d; ++x) {
      k[size_t(j * d + x)] = j % 2 ? nan_value : inf;
      v[size_t(j * d + x)] = j % 3 ? nan_value : -inf;
    }
  c.input("Q", {rows, d}, q).input("K", {keys, d}, k).input("V", {keys, d}, v).param("n", 271);
  expect_near(c.all(), want);
  expect_near(c.all(0, Precision::naive), want, 1e-5);
}

TEST(Reference, ReductionsOverNothing) {
  Case c(R"(axis i, j
input x[i, j] : f32
a[i] = sum[j](x)
b[i] = max[j](x)
c[i] = min[j](x)
d[i] = prod[j](x)
e[i] = argmax[j](x)
f[i] = mean[j](x)
g[i] = var[j](x)
h[i] = any[j](x > 0)
k[i] = all[j](x > 0)
l[i] = logsumexp[j](x)
m[i, j] = softmax[j](x)
output a, b, c, d, e, f, g, h, k, l, m
)");
  c.input("x", {2, 0}, {});
  const double want[] = {0, -inf, inf, 1, -1, nan_value, nan_value, 0, 1, -inf};
  for (size_t k = 0; k < 10; ++k) expect_near(c.all(k), {want[k], want[k]});
  EXPECT_TRUE(c.all(10).empty());
  Case empty("axis i, j\ninput x[i, j] : f32\ns[i] = sum[j](x)\noutput s\n");
  empty.input("x", {0, 3}, {});
  EXPECT_TRUE(empty.all().empty());
}

TEST(Reference, MeanAndVarianceOfFarOffValues) {
  const int64_t n = 1000;
  auto x = normal(size_t(n), 5);
  for (double& v : x) v = double(float(v + 1e6));
  double mean = 0, var = 0;
  for (double v : x) mean += v / double(n);
  for (double v : x) var += (v - mean) * (v - mean) / double(n);
  Case c("axis n\ninput x[n] : f32\nm[] = mean[n](x)\nv[] = var[n](x)\noutput m, v\n");
  c.input("x", {n}, x);
  expect_near(c.all(0), {mean}, 1e-9);
  expect_near(c.all(1), {var}, 1e-9);
}

TEST(Reference, MeanCountsPresentElements) {
  Case c(
      "axis n\ninput x[n] : f32\nm[] = mean[n](where(x > 0, x, -inf))\nv[] = var[n](where(x > 0, x, "
      "-inf))\noutput m, v\n");
  c.input("x", {5}, {1, -7, 3, -9, 8});
  expect_near(c.all(0), {4});
  expect_near(c.all(1), {(9. + 1 + 16) / 3});
}

TEST(Reference, NormalisedProduct) {
  const int64_t rows = 5, c_size = 700, n = 300;
  auto x = normal(size_t(rows * c_size), 1), gamma = normal(size_t(c_size), 2),
       w = normal(size_t(c_size * n), 3);
  Case c(R"(axis r, c, n
input x[r, c] : f32
input gamma[c] : f32
input W[c, n] : f32
mu[r] = mean[c](x)
s2[r] = var[c](x)
y[r, n] = sum[c]((x - mu) * rsqrt(s2 + 1e-5) * gamma * W)
output y
)");
  c.input("x", {rows, c_size}, x).input("gamma", {c_size}, gamma).input("W", {c_size, n}, w);
  std::vector<double> want(size_t(rows * n));
  for (int64_t r = 0; r < rows; ++r) {
    double mu = 0, s2 = 0;
    for (int64_t k = 0; k < c_size; ++k) mu += x[size_t(r * c_size + k)] / double(c_size);
    for (int64_t k = 0; k < c_size; ++k) s2 += std::pow(x[size_t(r * c_size + k)] - mu, 2) / double(c_size);
    for (int64_t k = 0; k < c_size; ++k)
      for (int64_t m = 0; m < n; ++m)
        want[size_t(r * n + m)] +=
            (x[size_t(r * c_size + k)] - mu) / std::sqrt(s2 + 1e-5) * gamma[size_t(k)] * w[size_t(k * n + m)];
  }
  expect_near(c.all(), want, 1e-10);
  expect_near(c.all(0, Precision::naive), want, 1e-3);
}

TEST(Reference, CompositeDimensionsAndPermutedOutputs) {
  // Heads (k g) in memory; the output puts them last and the row first.
  Case c(R"(axis b, k, g, i
input Q[b, (k g), i] : f32
input s[k] : f32
T[b, k, g, i] = Q[b, (k g), i] * s[k] + g
output T[i, (g k), b]
)");
  const int64_t B = 2, K = 3, G = 2, I = 4;
  auto q = normal(size_t(B * K * G * I), 1), s = normal(size_t(K), 2);
  c.input("Q", {B, K * G, I}, q).input("s", {K}, s);
  std::vector<double> want(size_t(B * K * G * I));
  for (int64_t b = 0; b < B; ++b)
    for (int64_t k = 0; k < K; ++k)
      for (int64_t g = 0; g < G; ++g)
        for (int64_t i = 0; i < I; ++i)
          want[size_t((i * G * K + g * K + k) * B + b)] =
              q[size_t(((b * K + k) * G + g) * I + i)] * s[size_t(k)] + double(g);
  expect_near(c.all(), want);
  Evaluator e = c.evaluator();
  EXPECT_NEAR(e.element(c.output(), {3, 1, 2, 1}), want[size_t((3 * G * K + 1 * K + 2) * B + 1)], 1e-12);
}

TEST(Reference, StridedInput) {
  Case c("axis i, j\ninput x[i, j] : f32\ny[i, j] = 2 * x\nr[i] = sum[j](x * x)\noutput y, r\n");
  std::vector<float> memory(60);
  for (size_t k = 0; k < memory.size(); ++k) memory[k] = float(k);
  c.array("x") = {DType::f32, memory.data() + 1, {3, 4}, {5, 15}};
  auto at = [&](int64_t i, int64_t j) { return double(1 + 5 * i + 15 * j); };
  std::vector<double> y, r;
  for (int64_t i = 0; i < 3; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < 4; ++j) {
      y.push_back(2 * at(i, j));
      sum += at(i, j) * at(i, j);
    }
    r.push_back(sum);
  }
  expect_near(c.all(0), y);
  expect_near(c.all(1), r);
}

TEST(Reference, ReadsThroughATableThatIsGarbageBehindTheMask) {
  Case c(R"(axis b, p, j, d, w
axis t = 4
input C[p, t, d] : f32
input page[b, w] : i32
input len[b] : i32
input q[b, d] : f32
x[b, j] = where(j < len[b], sum[d](q * C[page[b, j // 4], j % 4, d]), -inf)
m[b] = max[j](x)
output m
)");
  const int64_t P = 3, T = 4, D = 5, B = 2;
  auto pool = normal(size_t(P * T * D), 1), q = normal(size_t(B * D), 2);
  std::vector<double> page = {2, 0, -77, 1, 99999, 5}, len = {7, 3};
  c.input("C", {P, T, D}, pool)
      .input("page", {B, 3}, page)
      .input("len", {B}, len)
      .input("q", {B, D}, q)
      .size("j", 12);
  std::vector<double> want(2, -inf);
  for (int64_t b = 0; b < B; ++b)
    for (int64_t j = 0; j < int64_t(len[size_t(b)]); ++j) {
      double x = 0;
      for (int64_t k = 0; k < D; ++k)
        x += q[size_t(b * D + k)] * pool[size_t((int64_t(page[size_t(b * 3 + j / 4)]) * T + j % 4) * D + k)];
      want[size_t(b)] = std::max(want[size_t(b)], x);
    }
  expect_near(c.all(), want);
  // One element more and the garbage is needed: only then an error, which names tensor, axis and value.
  len[1] = 5;
  c.input("len", {B}, len);
  Evaluator e = c.evaluator();
  EXPECT_NEAR(e.element(c.output(), {0}), want[0], 1e-12);
  try {
    e.element(c.output(), {1});
    FAIL() << "an index out of bounds was accepted";
  } catch (const UserError& error) {
    const Diagnostic& d = error.diagnostics()[0];
    EXPECT_NE(d.what.find("index 99999 is outside axis `p` of `C`, which has size 3"), std::string::npos)
        << d.what;
    EXPECT_TRUE(d.span);
  }
}

TEST(Reference, AShiftedReadBehindItsGuard) {
  Case c(
      "axis i\ninput x[i] : f32\ny[i] = x + where(i >= 1, x[i - 1], 0) + where(i + 1 < size(i), x[i + 1], "
      "0)\noutput y\n");
  auto x = normal(600, 4);
  c.input("x", {600}, x);
  std::vector<double> want(600);
  for (size_t i = 0; i < 600; ++i) want[i] = x[i] + (i ? x[i - 1] : 0) + (i + 1 < 600 ? x[i + 1] : 0);
  expect_near(c.all(), want);
  Case bad("axis i\ninput x[i] : f32\ny[i] = x[i + 1] - x\noutput y\n");
  bad.input("x", {600}, x);
  Evaluator e = bad.evaluator();
  EXPECT_NEAR(e.element(bad.output(), {598}), x[599] - x[598], 1e-12);
  EXPECT_THROW(e.element(bad.output(), {599}), UserError);
  EXPECT_THROW(bad.all(), UserError);
}

TEST(Reference, IntegersFloorAndAZeroDivisorIsAnErrorWhereItIsNeeded) {
  Case c(
      "axis i\ninput a[i] : i64\ninput b[i] : i64\nq[i] = where(b != 0, a // b, 0)\nr[i] = where(b != 0, a % "
      "b, 0)\nz[i] = a // b\noutput q, r, z\n");
  c.input("a", {6}, {7, -7, 7, -7, 5, 1}).input("b", {6}, {2, 2, -2, -2, 0, -1});
  expect_near(c.all(0), {3, -4, -4, 3, 0, -1});
  expect_near(c.all(1), {1, 1, -1, -1, 0, 0});
  Evaluator e = c.evaluator();
  EXPECT_EQ(e.element(c.output(2), {0}), 3);
  EXPECT_THROW(e.element(c.output(2), {4}), UserError);
}

TEST(Reference, LargeIntegersStayExactInNaive) {
  Case c("axis i\ninput a[i] : i64\ny[i] = a * 3 + i\ns[] = sum[i](a)\noutput y : i64, s : i64\n");
  const double big = 9007199254740992. / 4;
  c.input("a", {2}, {big, 16777217});
  expect_near(c.all(0, Precision::naive), {big * 3, 16777217 * 3. + 1}, 0);
  expect_near(c.all(1, Precision::naive), {big + 16777217}, 0);
}

TEST(Reference, DeclaredRoundingsHoldInBothPrecisions) {
  Case c(R"(axis i
input x[i] : f32
a[i] : bf16 = x * 3
b[i] = f16(x * 1000)
d[i] = f8e4m3(x * 1000)
e[i] : i32 = x * 2
f[i] = i8(x * 100)
g[i] : f8e5m2 = x
output a, b, d, e, f, g
)");
  std::vector<double> x = {1.2345, -70.5, 0.001, 3, -1e-9, 0.3};
  for (double& v : x) v = double(float(v));
  c.input("x", {6}, x);
  for (Precision p : {Precision::f64, Precision::naive}) {
    auto r = [&](double v) { return p == Precision::naive ? double(float(v)) : v; };
    std::vector<double> a, b, d, e, f, g;
    for (double v : x) {
      a.push_back(round_to(DType::bf16, r(v * 3)));
      b.push_back(round_to(DType::f16, r(v * 1000)));
      d.push_back(round_to(DType::f8e4m3, r(v * 1000)));
      e.push_back(std::trunc(v * 2));
      f.push_back(round_to(DType::i8, r(v * 100)));
      g.push_back(round_to(DType::f8e5m2, v));
    }
    expect_near(c.all(0, p), a, 0);
    expect_near(c.all(1, p), b, 0);
    expect_near(c.all(2, p), d, 0);
    expect_near(c.all(3, p), e, 0);
    expect_near(c.all(4, p), f, 0);
    expect_near(c.all(5, p), g, 0);
  }
}

TEST(Reference, RoundingsNearATieTakeTheOtherNeighbour) {
  Case c(
      "axis i\ninput x[i] : f32\na[i] : f16 = x\nb[i] = 2 * f16(-x) + bf16(x)\nd[i] : f32 = x\noutput a, b, "
      "d\n");
  const double unit = 0x1p-10, tie = 1 + unit / 2, near = 0x1p-20, far = 0x1p-15;
  const std::vector<double> x = {tie, tie - near, tie + near, tie + far, 1, 1 + unit / 4, 0, INFINITY};
  c.input("x", {int64_t(x.size())}, x);
  const std::vector<double> a = {1 + unit, 1 + unit, 1, 1 + unit, 1, 1, 0, INFINITY};
  expect_near(c.all(0, Precision::ties), a, 0);
  std::vector<double> b;
  for (size_t k = 0; k < x.size(); ++k)
    b.push_back(-2 * a[k] + (std::isinf(x[k]) ? INFINITY : x[k] == 0 ? 0 : 1));
  b.back() = NAN;
  expect_near(c.all(1, Precision::ties), b, 0);
  expect_near(c.all(2, Precision::ties), x, 0);
}

TEST(Reference, IntegersOfComputedRealsNearAStepTakeTheOtherNeighbour) {
  Case c(
      "axis i\ninput x[i] : f64\na[i] = round(2 * x)\nb[i] = floor(2 * x)\nd[i] = i32(2 * x)\ne[i] = "
      "round(x)\n"
      "output a, b, d, e\n");
  const double near = 0x1p-20, far = 0x1p-10;
  const std::vector<double> twice = {2.5 - near, 2.5 + near, 2.5 + far, -2.5 - near, 2,  3 - near,
                                     3 + near,   -3 + near,  -3 - near, near,        inf};
  std::vector<double> x;
  for (double v : twice) x.push_back(v / 2);
  c.input("x", {int64_t(x.size())}, x);
  expect_near(c.all(0, Precision::ties), {3, 2, 3, -2, 2, 3, 3, -3, -3, 0, INFINITY}, 0);
  expect_near(c.all(1, Precision::ties), {2, 2, 2, -3, 2, 3, 2, -4, -3, -1, INFINITY}, 0);
  expect_near(c.all(2, Precision::ties), {2, 2, 2, -2, 2, 3, 2, -3, -2, 0, 2147483647}, 0);
  std::vector<double> e;  // an element of an input is exact
  for (double v : x) e.push_back(std::nearbyint(v));
  expect_near(c.all(3, Precision::ties), e, 0);
}

TEST(Reference, NaiveRoundsOperandsOfContractionsToTheNarrowestDirectInput) {
  Case c(
      "axis j, e\ninput p[j] : f32\ninput V[j, e] : bf16\ny[e] = sum[j](exp(p) * V)\nz[e] = sum[j](exp(p) * "
      "f32(V))\noutput y, z\n");
  const int64_t J = 3, E = 2;
  std::vector<double> p = {0.1, -0.7, 1.3}, v = {1, 2, 3, 4, 5, 6}, y(2), z(2), exact(2);
  for (double& x : p) x = double(float(x));
  c.input("p", {J}, p).input("V", {J, E}, v);
  for (int64_t e = 0; e < E; ++e)
    for (int64_t j = 0; j < J; ++j) {
      const double x = v[size_t(j * E + e)];
      y[size_t(e)] += round_to(DType::bf16, std::exp(p[size_t(j)])) * x;
      exact[size_t(e)] += std::exp(p[size_t(j)]) * x;
    }
  expect_near(c.all(0, Precision::naive), y, 1e-5);
  EXPECT_GT(std::fabs(y[0] - exact[0]), 1e-3);
  expect_near(c.all(1, Precision::naive), exact, 1e-5);  // V is not a direct factor
  expect_near(c.all(0), exact);
}

TEST(Reference, NaiveKeepsTheRangeOfF16Operands) {
  Case c("axis j\ninput p[j] : f32\ninput V[j] : f16\ny[] = sum[j](p * V)\noutput y\n");
  c.input("p", {2}, {3e6, 1}).input("V", {2}, {0.001, 1});
  const double v = round_to(DType::f16, 0.001);
  expect_near(c.all(0, Precision::naive), {3e6 * v + 1}, 3);
}

TEST(Reference, ArgmaxTakesTheSmallestIndexAndSkipsAbsentElements) {
  Case c(
      "axis i, j\ninput x[i, j] : f32\ninput m[i, j] : bool\na[i] = argmax[j](x)\nb[i] = argmin[j](x)\n"
      "d[i] = argmax[j](where(m, x, -inf))\noutput a, b, d\n");
  c.input("x", {3, 4}, {1, 5, 5, 0, -inf, -inf, -inf, -inf, 2, nan_value, 3, 0});
  c.input("m", {3, 4}, {1, 0, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0});
  expect_near(c.all(0), {1, 0, 1});
  expect_near(c.all(1), {3, 0, 1});
  expect_near(c.all(2), {2, 2, -1});
  // The same along columns, where the strip is the kept axis.
  Case t("axis i, j\ninput x[i, j] : f32\na[j] = argmax[i](x)\nb[j] = argmin[i](x)\noutput a, b\n");
  t.input("x", {3, 4}, {1, 5, 5, 0, 1, 7, 5, -1, 0, nan_value, 6, 0});
  expect_near(t.all(0), {0, 2, 2, 0});
  expect_near(t.all(1), {2, 2, 0, 1});
}

TEST(Reference, ConditionsAndOtherReducers) {
  Case c(R"(axis i, j
input x[i, j] : f32
a[i] = any[j](x > 2)
b[i] = all[j](x > 0 or j == 1)
d[i] = prod[j](x)
e[i] = max[j](x * j)
f[] = sum[i, j](x)
g[i] = sum[j](1)
h[i] = sum[j](x > 1)
k[i] = min[j](where(x > 0, j, 99))
output a, b, d, e, f, g, h, k
)");
  c.input("x", {2, 3}, {1, -2, 3, 0.5, 4, -1});
  expect_near(c.all(0), {1, 1});
  expect_near(c.all(1), {1, 0});
  expect_near(c.all(2), {-6, -2});
  expect_near(c.all(3), {6, 4});
  expect_near(c.all(4), {5.5});
  expect_near(c.all(5), {3, 3});
  expect_near(c.all(6), {1, 1});
  expect_near(c.all(7), {0, 0});
}

TEST(Reference, MaximumPropagatesNaNAndSelectsNeverDo) {
  Case c(
      "axis i, j\ninput x[i, j] : f32\na[i] = max[j](x)\nb[i] = max(x[i, 0], x[i, 1])\nd[i] = sum[j](where(x "
      "== x, x, 0))\noutput a, b, d\n");
  c.input("x", {2, 2}, {nan_value, 1, 2, 3});
  expect_near(c.all(0), {nan_value, 3});
  expect_near(c.all(1), {nan_value, 3});
  expect_near(c.all(2), {1, 5});
}

TEST(Reference, ElementsOfDefinitionsTooLargeToKeep) {
  // S has 1.6e9 elements: it is kept in parts, and an element of O needs one row of it.
  Case c(R"(axis i, j, d
input Q[i, d] : f32
input K[j, d] : f32
S[i, j] = sum[d](Q * K)
P[i, j] = softmax[j](S)
O[i, d] = sum[j](P * K)
output O
)");
  const int64_t n = 40000, d = 4;
  auto q = normal(size_t(n * d), 1), k = normal(size_t(n * d), 2);
  c.input("Q", {n, d}, q).input("K", {n, d}, k);
  Evaluator e = c.evaluator();
  for (int64_t i : {int64_t(0), int64_t(1234), n - 1}) {
    double l = 0, o = 0;
    for (int64_t j = 0; j < n; ++j) {
      double s = 0;
      for (int64_t x = 0; x < d; ++x) s += q[size_t(i * d + x)] * k[size_t(j * d + x)];
      l += std::exp(s);
      o += std::exp(s) * k[size_t(j * d + 3)];
    }
    EXPECT_NEAR(e.element(c.output(), {i, 3}), o / l, 1e-10);
  }
  EXPECT_GT(e.cost(c.output()), 1.6e9 * 8);
}

TEST(Reference, CostCountsMultiplyAndAdd) {
  Case c("axis i, j, k\ninput A[i, k] : f32\ninput B[k, j] : f32\nC[i, j] = sum[k](A * B)\noutput C\n");
  c.input("A", {3, 5}, normal(15, 1)).input("B", {5, 7}, normal(35, 2));
  EXPECT_EQ(c.evaluator().cost(c.output()), 2 * 3 * 5 * 7);
}

void expect_error(Case& c, const std::string& text) {
  try {
    c.evaluator();
    FAIL() << "accepted; expected: " << text;
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
  }
}

TEST(Reference, RefusesWrongInputs) {
  Case c(
      "axis i\nparam a : f32 range(0, 10)\ninput x[i] : f32\ninput n[i] : i32 range(0, size(i))\ny[i] = x * "
      "a + n\noutput y\n");
  c.input("x", {3}, {1, 2, 3}).param("a", 1);
  expect_error(c, "input `n` is missing");
  c.input("n", {3}, {0, 1, 3});
  expect_error(c, "input `n` holds 3, outside its declared range [0, 3)");
  c.input("n", {3}, {0, 1, 2}).param("a", 10);
  expect_error(c, "param `a` is 10, outside its declared range [0, 10)");
  c.param("a", 1).param("alpha", 2);
  expect_error(c, "no param `alpha`");
  Case d("axis i\nparam a : f32\ninput x[i] : f32\ny[i] = x * a\noutput y\n");
  d.input("x", {3}, {1, 2, 3});
  expect_error(d, "param `a` has no value");
  d.param("a", 1).array("x").dtype = DType::f64;
  expect_error(d, "dtype f64, but the program declares f32");
}

}  // namespace
}  // namespace tilewright::reference_test
