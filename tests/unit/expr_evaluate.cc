// Evaluation in f64 and exact evaluation with sums in closed form.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/support/symbols.h"
#include "tilewright/expr/floor_sum.h"
#include "tilewright/expr/simplify.h"
#include "tilewright/support/error.h"

namespace tilewright::expr_evaluate_test {
namespace {

struct ExprEvaluate : ::testing::Test {
  Sym i = test_axis("i"), j = test_axis("j"), Q = test_tensor("Q");
  Sym x = test_variable("x"), v = test_counter("v"), t = test_counter("t");
  Bindings sizes{{i.size(), 3}, {j.size(), 4}};
  static double element(Sym, const std::vector<int64_t>& n) {
    double r = 0;
    for (int64_t k : n) r = r * 10 + double(k);
    return r;
  }
};

TEST_F(ExprEvaluate, Reductions) {
  auto value = [&](Expr e) { return evaluate(e, sizes, element); };
  Expr q = read(Q, {i, j});
  EXPECT_EQ(value(reduce(Reducer::Sum, {i, j}, q)), 4 * (0 + 10 + 20) + 3 * (0 + 1 + 2 + 3));
  EXPECT_EQ(value(reduce(Reducer::Sum, {i}, reduce(Reducer::Max, {j}, q))), 3 + 13 + 23);
  EXPECT_EQ(value(reduce(Reducer::Argmax, {j}, -pow(Expr(j) - 2, 2))), 2);
  EXPECT_EQ(value(reduce(Reducer::Argmin, {j}, mod(j, 2))), 0) << "the smallest index of equals";
  EXPECT_EQ(value(reduce(Reducer::Mean, {j}, j)), 1.5);
  EXPECT_EQ(value(reduce(Reducer::Var, {j}, j)), 1.25);
  EXPECT_EQ(value(reduce(Reducer::Prod, {j}, Expr(j) + 1)), 24);
  EXPECT_EQ(value(reduce(Reducer::Any, {j}, equal(j, 3))), 1);
  EXPECT_EQ(value(reduce(Reducer::All, {j}, less(j, 3))), 0);
  EXPECT_NEAR(value(reduce(Reducer::Logsumexp, {j}, j)),
              std::log(1 + std::exp(1) + std::exp(2) + std::exp(3)), 1e-12);
  EXPECT_NEAR(value(reduce(Reducer::Sum, {j}, reduce(Reducer::Softmax, {j}, j))), 1, 1e-12);
}

TEST_F(ExprEvaluate, EmptyAxesGiveIdentities) {
  Bindings none{{j.size(), 0}};
  auto value = [&](Reducer r) { return evaluate(reduce(r, {j}, Expr(j) + 1), none); };
  EXPECT_EQ(value(Reducer::Sum), 0);
  EXPECT_EQ(value(Reducer::Max), -INFINITY);
  EXPECT_EQ(value(Reducer::Min), INFINITY);
  EXPECT_EQ(value(Reducer::Prod), 1);
  EXPECT_EQ(value(Reducer::Argmax), -1);
  EXPECT_TRUE(std::isnan(value(Reducer::Mean)));
  EXPECT_EQ(value(Reducer::Logsumexp), -INFINITY);
}

TEST_F(ExprEvaluate, OnlyWhatIsNeeded) {
  Expr fails = read(Q, {Expr(x)});
  auto none = [](Sym, const std::vector<int64_t>&) -> double { throw std::runtime_error("read"); };
  EXPECT_EQ(evaluate(select(less(x, 1), 7, fails), {{x, 0}}, none), 7);
  EXPECT_EQ(evaluate(logical_and(less(x, 0), less(fails, 1)), {{x, 0}}, none), 0);
  EXPECT_EQ(evaluate(logical_or(less(x, 1), less(fails, 1)), {{x, 0}}, none), 1);
}

TEST_F(ExprEvaluate, NodeSemantics) {
  auto value = [&](Expr e) { return evaluate(e, {{x, -7}}); };
  EXPECT_EQ(value(floordiv(x, 2)), -4);
  EXPECT_EQ(value(mod(x, 3)), 2);
  EXPECT_EQ(value(pow(Expr(0), 0)), 1);
  EXPECT_EQ(value(make(Op::Round, {Expr(Rational(5, 2))})), 2);
  EXPECT_TRUE(std::isnan(value(max(Expr::real(NAN), 3))));
  EXPECT_TRUE(std::isnan(value(min(3, Expr::real(NAN)))));
  EXPECT_EQ(value(cast(DType::i32, Expr(Rational(-5, 2)))), -2);
  EXPECT_EQ(value(exp(Expr::real(-INFINITY))), 0);
  EXPECT_THROW(value(Expr(v)), InternalError);
}

TEST_F(ExprEvaluate, Integers) {
  Expr a = i.size(), b = j.size();
  std::map<Sym, int64_t> at{{i.size(), 1000}, {j.size(), 77}};
  EXPECT_EQ(evaluate_integer(ceildiv(a, b) * 64 + mod(a, b), at), 13 * 64 + 76);
  EXPECT_EQ(evaluate_integer(a * (a + 1) / 2, at), 500500);
  EXPECT_EQ(evaluate_integer(simplify(a * (a + 1) / 2), at), 500500);
  EXPECT_EQ(evaluate_integer(select(less(a, b), 1, max(a, b)), at), 1000);
  EXPECT_EQ(evaluate_integer(make(Op::Round, {Expr(Rational(-5, 2))}), at), -2);
  Expr big = int64_t(1) << 62;
  EXPECT_THROW(evaluate_integer(big * a, at), UserError);
  EXPECT_EQ(evaluate_integer(floordiv(big * a, a), at), int64_t(1) << 62) << "intermediate values are wider";
  EXPECT_THROW(evaluate_integer(pow(a, 20) * pow(a, 20), at), UserError);
  EXPECT_THROW(evaluate_integer(a / 7, at), InternalError);
  EXPECT_THROW(evaluate_integer(Expr(v), at), InternalError);
}

TEST(FloorSums, AgreeWithIteration) {
  std::mt19937_64 random(5);
  auto below = [&](int64_t n) { return int64_t(random() % uint64_t(n)); };
  for (int k = 0; k < 3000; ++k) {
    int64_t n = below(30), a = below(41) - 20, b = below(101) - 50, m = 1 + below(17);
    Wide floors = 0, weighted = 0, squares = 0;
    for (int64_t x = 0; x < n; ++x) {
      Wide q = wide_floor_div(a * x + b, m);
      floors += q;
      weighted += x * q;
      squares += q * q;
    }
    FloorSums s = floor_sums(n, a, b, m, true);
    ASSERT_TRUE(s.floors == floors && s.weighted == weighted && s.squares == squares)
        << n << " " << a << " " << b << " " << m;
    ASSERT_TRUE(floor_sums(n, a, b, m, false).floors == floors);
  }
  for (int p = 0; p <= 4; ++p) {
    Wide sum = 0;
    for (int64_t n = 0; n < 20; ++n) {
      ASSERT_TRUE(power_sum(n, p) == sum) << n << " " << p;
      Wide x = 1;
      for (int k = 0; k < p; ++k) x *= n;
      sum += x;
    }
  }
}

/// Random bodies of sums, in closed form and by iteration.
TEST_F(ExprEvaluate, BoundedSumsAgreeWithIteration) {
  std::mt19937_64 random(11);
  auto below = [&](int n) { return int(random() % uint64_t(n)); };
  std::function<Expr(int)> body = [&](int depth) -> Expr {
    if (depth == 0) return below(3) ? Expr(v) : Expr(below(9) - 4);
    switch (below(9)) {
      case 0: return body(depth - 1) + body(depth - 1);
      case 1: return Expr(below(7) - 3) * body(depth - 1);
      case 2: return body(depth - 1) * body(depth - 1);
      case 3: return floordiv(Expr(below(9) - 4) * v + below(20) - 10, 1 + below(7));
      case 4: return mod(Expr(below(9) - 4) * v + below(20) - 10, 1 + below(7));
      case 5: return max(body(depth - 1), body(depth - 1));
      case 6: return min(body(depth - 1), body(depth - 1));
      case 7: return floordiv(body(depth - 1), 1 + below(5));
      default: return select(less(body(depth - 1), body(depth - 1)), body(depth - 1), body(depth - 1));
    }
  };
  for (int k = 0; k < 3000; ++k) {
    Expr e = body(1 + below(3));
    int64_t lo = below(20) - 10, hi = lo + below(25) - 2, sum = 0;
    for (int64_t n = lo; n < hi; ++n) sum += evaluate_integer(e, {{v, n}});
    ASSERT_EQ(evaluate_integer(range_sum(v, lo, hi, e), {}), sum) << to_string(range_sum(v, lo, hi, e));
  }
}

TEST_F(ExprEvaluate, CausalTileCountsAreNotIterated) {
  // Key tiles visited by query tiles of 128 with keys in chunks of 64, aligned to the end.
  Expr rows = i.size(), keys = j.size();
  Expr visited = max(0, min(ceildiv(keys, 64), floordiv(128 * Expr(t) + 127 + keys - rows, 64) + 1));
  Expr count = range_sum(t, 0, ceildiv(rows, 128), visited);
  EXPECT_EQ(evaluate_integer(count, {{i.size(), 256}, {j.size(), 256}}), 2 + 4);
  EXPECT_EQ(evaluate_integer(count, {{i.size(), 1000}, {j.size(), 300}}), [] {
    int64_t n = 0;
    for (int64_t k = 0; k < 8; ++k)
      n += std::max<int64_t>(
          0, std::min<int64_t>(5, int64_t(std::floor((128 * double(k) + 127 + 300 - 1000) / 64)) + 1));
    return n;
  }());
  // A sum over 2^29 chunks: by floor sums, since iteration would not come back.
  const int64_t size = int64_t(1) << 36;
  EXPECT_GT(evaluate_integer(count, {{i.size(), size}, {j.size(), size}}), int64_t(1) << 57);
}

TEST_F(ExprEvaluate, NestedSums) {
  Expr inner = range_sum(v, 0, Expr(t) + 1, Expr(v) * t);
  Expr outer = range_sum(t, 0, 10, inner + floordiv(t, 3));
  int64_t sum = 0;
  for (int64_t a = 0; a < 10; ++a) {
    for (int64_t b = 0; b <= a; ++b) sum += a * b;
    sum += a / 3;
  }
  EXPECT_EQ(evaluate_integer(outer, {}), sum);
  EXPECT_EQ(evaluate(outer, {}), double(sum));
}

}  // namespace
}  // namespace tilewright::expr_evaluate_test
