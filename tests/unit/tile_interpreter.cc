// Hand-built tile programs against direct evaluation of what they stand for.
#include "tilewright/tile/interpreter.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/test_array.h"
#include "tests/support/tile_samples.h"
#include "tilewright/tile/lifetime.h"
#include "tilewright/tile/statements.h"

namespace tilewright::tile_interpreter_test {
namespace {

using testing::random_array;
using testing::sizes_in_order;
using testing::TestArray;
using testing::TileSample;

struct Result {
  Counts counts;
  TestArray out;
};

Result run(const TileSample& s, const Sizes& sizes, const std::map<std::string, ArrayView>& inputs) {
  const Output& o = s.program.outputs.at(0);
  Result r;
  r.out = TestArray(o.dtype, shape_of(o.dims, sizes));
  r.counts = interpret(s.program, s.tiles, sizes, inputs, {}, {{o.sym.name(), r.out.target()}});
  return r;
}

/// One head of softmax(Q Kᵀ / √D) V in f64.
std::vector<double> attend(const TestArray& q, const TestArray& k, const TestArray& v, int64_t ni, int64_t nj,
                           int64_t d, bool causal) {
  std::vector<double> out(size_t(ni * d), 0), p(size_t(nj), 0);
  for (int64_t i = 0; i < ni; ++i) {
    double m = -INFINITY, l = 0;
    for (int64_t j = 0; j < nj; ++j) {
      double s = 0;
      for (int64_t c = 0; c < d; ++c) s += q.at(i * d + c) * k.at(j * d + c);
      p[size_t(j)] = causal && j > i + nj - ni ? -INFINITY : s / std::sqrt(double(d));
      m = std::max(m, p[size_t(j)]);
    }
    if (m == -INFINITY) continue;
    for (double& x : p) l += x = std::exp(x - m);
    for (int64_t j = 0; j < nj; ++j)
      if (p[size_t(j)] > 0)
        for (int64_t c = 0; c < d; ++c) out[size_t(i * d + c)] += p[size_t(j)] / l * v.at(j * d + c);
  }
  return out;
}

void check_attention(Guard guard, bool causal, DType dtype, int64_t ni, int64_t nj, double tolerance,
                     double scale = 1) {
  const int64_t d = 32;
  TileSample s = testing::attention_sample({.guard = guard,
                                            .causal = causal,
                                            .dtype = dtype,
                                            .block = 16,
                                            .piece = 8,
                                            .chunk = 16,
                                            .features = d,
                                            .stages = 2});
  Sizes sizes = sizes_in_order(s.program, {1, 1, ni, nj, d, d});
  TestArray q = random_array(dtype, {1, 1, ni, d}, 1), k = random_array(dtype, {1, 1, nj, d}, 2);
  TestArray v = random_array(dtype, {1, 1, nj, d}, 3);
  for (int64_t i = 0; i < q.elements(); ++i) q.set(i, q.at(i) * scale);
  Result r = run(s, sizes, {{"Q", q.view()}, {"K", k.view()}, {"V", v.view()}});
  std::vector<double> want = attend(q, k, v, ni, nj, d, causal);
  for (int64_t i = 0; i < r.out.elements(); ++i)
    ASSERT_NEAR(r.out.at(i), want[size_t(i)], tolerance)
        << "element " << i << " guard " << name(guard) << " causal " << causal << " sizes " << ni << " "
        << nj;
}

TEST(Interpreter, AttentionUnderEveryGuard) {
  for (Guard guard : {Guard::Always, Guard::Moved, Guard::Threshold, Guard::Speculative})
    for (bool causal : {false, true})
      for (auto [ni, nj] :
           {std::pair<int64_t, int64_t>{1, 1}, {0, 5}, {5, 0}, {7, 50}, {50, 7}, {40, 64}, {33, 65}}) {
        check_attention(guard, causal, DType::f32, ni, nj, 2e-6);
        check_attention(guard, causal, DType::f16, ni, nj, 3e-3);
      }
}

TEST(Interpreter, LargeLogitsTakeTheSlowPath) {
  for (Guard guard : {Guard::Threshold, Guard::Speculative})
    check_attention(guard, true, DType::f32, 40, 64, 3e-5, 40);
}

TEST(Interpreter, NaNBehindAMaskDoesNotContribute) {
  const int64_t d = 32, n = 20;
  TileSample s = testing::attention_sample({.guard = Guard::Speculative,
                                            .causal = true,
                                            .dtype = DType::f32,
                                            .block = 16,
                                            .piece = 16,
                                            .chunk = 16,
                                            .features = d});
  TestArray q = random_array(DType::f32, {1, 1, n, d}, 1), k = random_array(DType::f32, {1, 1, n, d}, 2);
  TestArray v = random_array(DType::f32, {1, 1, n, d}, 3);
  std::vector<double> want = attend(q, k, v, n, n, d, true);
  for (int64_t j = 10; j < n; ++j)
    for (int64_t c = 0; c < d; ++c) k.set(j * d + c, NAN), v.set(j * d + c, j % 2 ? NAN : INFINITY);
  Result r = run(s, sizes_in_order(s.program, {1, 1, n, n, d, d}),
                 {{"Q", q.view()}, {"K", k.view()}, {"V", v.view()}});
  for (int64_t i = 0; i < 10 * d; ++i) ASSERT_NEAR(r.out.at(i), want[size_t(i)], 2e-6) << i;
}

TEST(Interpreter, Softmax) {
  for (DType dtype : {DType::f32, DType::f16})
    for (int64_t n : {0, 1, 7, 1000, 1025, 3000})
      for (bool resident : {false, true}) {
        TileSample s =
            resident ? testing::resident_softmax_sample(dtype) : testing::two_pass_softmax_sample(dtype);
        TestArray x = random_array(dtype, {3, n}, 5, 100);
        Result r = run(s, sizes_in_order(s.program, {3, n}), {{"X", x.view()}});
        for (int64_t row = 0; row < 3; ++row) {
          double m = -INFINITY, l = 0;
          for (int64_t j = 0; j < n; ++j) m = std::max(m, x.at(row * n + j));
          for (int64_t j = 0; j < n; ++j) l += std::exp(x.at(row * n + j) - m);
          for (int64_t j = 0; j < n; ++j) {
            double want = std::exp(x.at(row * n + j) - m) / l;
            ASSERT_NEAR(r.out.at(row * n + j), want, want * (dtype == DType::f32 ? 2e-5 : 1e-3) + 1e-7);
          }
        }
      }
}

TEST(Interpreter, ResidentAxisIsBounded) {
  TileSample s = testing::resident_softmax_sample();
  TestArray x = random_array(DType::f32, {1, 9000}, 5);
  EXPECT_THROW(run(s, sizes_in_order(s.program, {1, 9000}), {{"X", x.view()}}), UserError);
}

TEST(Interpreter, LayernormMatmulFarFromZero) {
  TileSample s = testing::layernorm_matmul_sample(DType::f32);
  const int64_t rows = 70, n = 65, c = 4096;
  TestArray x = random_array(DType::f32, {rows, c}, 1, 1000), gamma = random_array(DType::f32, {c}, 2);
  TestArray w = random_array(DType::f32, {c, n}, 3);
  Result r = run(s, sizes_in_order(s.program, {rows, n, c}),
                 {{"x", x.view()}, {"gamma", gamma.view()}, {"W", w.view()}});
  for (int64_t row = 0; row < rows; row += 23) {
    double mean = 0, var = 0;
    for (int64_t k = 0; k < c; ++k) mean += x.at(row * c + k) / double(c);
    for (int64_t k = 0; k < c; ++k) var += std::pow(x.at(row * c + k) - mean, 2) / double(c);
    for (int64_t col = 0; col < n; col += 9) {
      double want = 0;
      for (int64_t k = 0; k < c; ++k)
        want += (x.at(row * c + k) - mean) / std::sqrt(var + 1e-5) * gamma.at(k) * w.at(k * n + col);
      EXPECT_NEAR(r.out.at(row * n + col), want, 2e-3);
    }
  }
}

TEST(Interpreter, CountsOfAttention) {
  // i: 3 blocks of 16 in pieces of 8, j: chunks of 16. 40 queries, 40 keys, causal: 1 + 2 + 3 chunks.
  const int64_t d = 32, n = 40;
  TileSample s = testing::attention_sample({.guard = Guard::Always,
                                            .causal = true,
                                            .dtype = DType::f16,
                                            .block = 16,
                                            .piece = 8,
                                            .chunk = 16,
                                            .features = d,
                                            .stages = 2});
  TestArray q = random_array(DType::f16, {1, 1, n, d}, 1), k = q, v = q;
  Counts c = run(s, sizes_in_order(s.program, {1, 1, n, n, d, d}),
                 {{"Q", q.view()}, {"K", k.view()}, {"V", v.view()}})
                 .counts;
  const int64_t keys = 16 + 32 + 40;  // the last block sees all 40, the last chunk of which holds 8
  EXPECT_EQ(c.memory.loaded, 2 * (n * d + 2 * keys * d));
  EXPECT_EQ(c.memory.stored, 2 * n * d);
  // K and V are read once for each piece of 8 queries (2, 2 and 1 of them), Q once a chunk.
  EXPECT_EQ(c.shared.loaded, 2 * d * (2 * (2 * 16 + 2 * 32 + 1 * 40) + (16 * 1 + 16 * 2 + 8 * 3)));
  EXPECT_EQ(c.chunks_visited, 6);
  EXPECT_EQ(c.chunks_total, 9);
  // Shared: Q and two slots of K and V. Registers, at the second product: o, l, rho, P and S (which ends at
  // the cast before).
  EXPECT_EQ(c.peak_shared, 2 * 16 * d * (1 + 2 + 2));
}

TEST(Lifetime, CountsWhatIsNeededLater) {
  TileSample s = testing::attention_sample({.block = 16, .piece = 16, .chunk = 8, .features = 4});
  const TileKernel& k = s.tiles.kernels.at(0);
  Lifetime lifetime(k);
  std::set<std::string> at_dot;
  for_each_stmt(k.body, [&](const Stmt& stmt) {
    auto* dot = std::get_if<Dot>(&stmt.node);
    if (!dot || !dot->accumulate) return;
    for (Sym t : lifetime.during(stmt)) at_dot.insert(t.name());
  });
  EXPECT_EQ(at_dot, (std::set<std::string>{"Q", "P", "V", "o", "l", "rho"}));
  // While P is made of S: o, S, P, l, rho.
  EXPECT_EQ(live_peak(k).registers, 16 * 4 * 4 + 16 * 8 * 4 + 16 * 8 * 2 + 2 * 16 * 4);
}

}  // namespace
}  // namespace tilewright::tile_interpreter_test
