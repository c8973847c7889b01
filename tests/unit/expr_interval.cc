// Intervals, signs, derivatives and affine forms.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/symbols.h"
#include "tilewright/expr/simplify.h"

namespace tilewright::expr_interval_test {
namespace {

struct ExprInterval : ::testing::Test {
  Sym i = test_axis("i"), j = test_axis("j"), d = test_axis("d");
  Sym Q = test_tensor("Q"), T = test_tensor("T");
  Sym x = test_variable("x"), y = test_variable("y"), n = test_counter("n");
  Sym c = test_positive("c");
  Expr u = read(Q, {i, j});
  Expr top(Expr e) { return reduce(Reducer::Max, {j}, e); }
};

void within(Expr e, double lo, double hi, const Ranges& r = {}) {
  Interval b = bounds(e, r);
  EXPECT_DOUBLE_EQ(b.lo, lo) << to_string(e);
  EXPECT_DOUBLE_EQ(b.hi, hi) << to_string(e);
}

TEST_F(ExprInterval, Defaults) {
  within(i, 0, INFINITY);
  within(i.size(), 0, INFINITY);
  within(c, 0, INFINITY);
  within(u, -INFINITY, INFINITY);
  within(u, -2, 3, {{Q, {-2, 3}}});
  within(Expr(i) + 1, 1, 10, {{i, {0, 9}}});
  within(i, 0, 9, {{i.size(), {1, 10}}});
}

TEST_F(ExprInterval, NormalisedElements) {
  const Expr squares = reduce(Reducer::Sum, {j}, u * u);
  within(simplify(u * make(Op::Rsqrt, {squares / Expr(64) + Expr(1)})), -8, 8);
  within(simplify(u / sqrt(squares)), -1, 1);
  within(simplify(3 * u * make(Op::Rsqrt, {squares})), -3, 3);
  within(simplify(u * make(Op::Rsqrt, {squares - Expr(1)})), -INFINITY, INFINITY);
  within(simplify(read(T, {i, j}) * make(Op::Rsqrt, {squares})), -INFINITY, INFINITY);
}

TEST_F(ExprInterval, Functions) {
  within(exp(u), 0, INFINITY);
  within(u * u, 0, INFINITY);
  within(simplify(u * u), 0, INFINITY);
  within(pow(x, 2), 0, 9, {{x, {-3, 2}}});
  within(make(Op::Tanh, {u}), -1, 1);
  within(make(Op::Sigmoid, {u}), 0, 1);
  within(make(Op::Abs, {Expr(x)}), 0, 3, {{x, {-3, 2}}});
  within(Expr(1) / x, 0.25, 1, {{x, {1, 4}}});
  within(Expr(1) / x, -INFINITY, INFINITY, {{x, {-1, 4}}});
  within(mod(n, 8), 0, 7);
  within(floordiv(n, 4), -3, 5, {{n, {-9, 20}}});
  within(Expr(x) - x * 2, -6, 3, {{x, {0, 3}}});
  within(simplify(Expr(x) - x * 2), -3, 0, {{x, {0, 3}}});
  within(cast(DType::f16, x), -INFINITY, 2048, {{x, {-1e9, 2049}}});
  within(less(x, y), 0, 1);
  within(select(less(x, y), 3, 5), 3, 5);
  within(max(x, 2), 2, INFINITY);
}

TEST_F(ExprInterval, Reductions) {
  within(reduce(Reducer::Sum, {j}, exp(u)), 0, INFINITY);
  within(reduce(Reducer::Sum, {j}, make(Op::Sigmoid, {u})), 0, 10, {{j.size(), {1, 10}}});
  within(top(make(Op::Tanh, {u})), -INFINITY, 1);
  within(top(make(Op::Tanh, {u})), -1, 1, {{j.size(), {1, 10}}});
  within(reduce(Reducer::Argmax, {j}, u), -1, 9, {{j.size(), {1, 10}}});
  within(range_sum(n, 0, 4, Expr(n) + 1), 4, 16);
}

TEST_F(ExprInterval, DifferenceWithAMaximum) {
  EXPECT_EQ(bounds(u - top(u)).hi, 0);
  EXPECT_EQ(bounds(simplify(u - top(u))).hi, 0);
  EXPECT_EQ(bounds(simplify(3 * u / 8 - 3 * top(u) / 8)).hi, 0);
  EXPECT_EQ(bounds(simplify(Expr(c) * u - top(Expr(c) * u))).hi, 0);
  EXPECT_EQ(bounds(simplify(u + read(T, {i}) - top(u + read(T, {i})))).hi, 0);
  EXPECT_EQ(bounds(simplify(u - top(u) - 5)).hi, -5);
  EXPECT_EQ(bounds(simplify(2 * u - top(u))).hi, INFINITY) << "the shift must match";
  EXPECT_EQ(bounds(simplify(u - top(2 * u))).hi, INFINITY);
  EXPECT_EQ(bounds(simplify(u - reduce(Reducer::Min, {j}, u))).lo, 0);
  within(simplify(exp(u - top(u))), 0, 1);
}

TEST_F(ExprInterval, MaximumUnderTheSameMask) {
  Expr mask = less_equal(j, i), masked = select(mask, u, Expr::real(-INFINITY));
  within(simplify(select(mask, exp(u - top(masked)), 0)), 0, 1);
  within(simplify(exp(u - top(masked))), 0, INFINITY);
}

TEST_F(ExprInterval, Signs) {
  EXPECT_TRUE(provably_positive(exp(u)));
  EXPECT_TRUE(provably_positive(exp(u) + pow(u, 2)));
  EXPECT_TRUE(provably_positive(Expr(c) / 3));
  EXPECT_TRUE(provably_positive(pow(Expr(d.size()), Rational(-1, 2))));
  EXPECT_TRUE(provably_positive(pow(u, 2) + Rational(1, 100000)));
  EXPECT_TRUE(provably_nonnegative(make(Op::Abs, {u}) * i));
  EXPECT_TRUE(provably_nonnegative(reduce(Reducer::Sum, {j}, exp(u))));
  EXPECT_FALSE(provably_positive(reduce(Reducer::Sum, {j}, exp(u)))) << "0 over an empty axis";
  EXPECT_TRUE(provably_nonnegative(-(-exp(u))));
  EXPECT_TRUE(provably_positive(Expr(-3) * -exp(u)));
  EXPECT_FALSE(provably_nonnegative(u));
  EXPECT_FALSE(provably_nonnegative(Expr(i) - j));
  EXPECT_FALSE(provably_positive(Expr(0)));
  EXPECT_TRUE(provably_nonnegative(select(less(x, y), exp(x), 0)));
}

TEST_F(ExprInterval, Kinds) {
  EXPECT_TRUE(is_integer(Expr(i) * 2 + floordiv(n, 3)));
  EXPECT_FALSE(is_integer(Expr(i) / 2));
  EXPECT_FALSE(is_integer(u));
  EXPECT_TRUE(is_integer(read(test_integers("doc"), {i})));
  EXPECT_TRUE(is_boolean(less(x, y)));
  EXPECT_TRUE(is_boolean(Expr(1)));
  EXPECT_FALSE(is_boolean(Expr(2)));
  EXPECT_FALSE(is_boolean(u));
}

TEST_F(ExprInterval, Derivatives) {
  auto d_dx = [&](Expr e) { return *derivative(e, x); };
  EXPECT_EQ(d_dx(pow(x, 3)), simplify(3 * pow(x, 2)));
  EXPECT_EQ(d_dx(exp(2 * Expr(x))), simplify(2 * exp(2 * Expr(x))));
  EXPECT_EQ(d_dx(Expr(x) * y), Expr(y));
  EXPECT_EQ(d_dx(log(Expr(x))), simplify(1 / Expr(x)));
  EXPECT_EQ(d_dx(u), Expr(0));
  EXPECT_EQ(d_dx(reduce(Reducer::Sum, {j}, u * x)), simplify(reduce(Reducer::Sum, {j}, u)));
  EXPECT_EQ(d_dx(select(less(y, 0), Expr(x) * x, x)), simplify(select(less(y, 0), 2 * Expr(x), 1)));
  EXPECT_EQ(derivative(make(Op::Floor, {Expr(x)}), x), std::nullopt);
  EXPECT_EQ(derivative(select(less(x, 0), x, y), x), std::nullopt);
  EXPECT_EQ(derivative(cast(DType::f16, x), x), std::nullopt);
  EXPECT_EQ(derivative(read(Q, {Expr(n), Expr(j)}), n), std::nullopt);
}

TEST_F(ExprInterval, AffineForms) {
  auto a = affine(2 * Expr(i) * n + 3 * (Expr(j) - i) + 7, {i, j});
  ASSERT_TRUE(a);
  EXPECT_EQ(a->coefficient[0], simplify(2 * Expr(n) - 3));
  EXPECT_EQ(a->coefficient[1], Expr(3));
  EXPECT_EQ(a->rest, Expr(7));
  EXPECT_TRUE(affine(pow(Expr(i) + j, 2) - 2 * Expr(i) * j - pow(i, 2) - pow(j, 2) + Expr(i), {i, j}));
  EXPECT_FALSE(affine(Expr(i) * j, {i, j}));
  EXPECT_FALSE(affine(floordiv(i, 2), {i}));
  EXPECT_TRUE(affine(floordiv(j, 2) + i, {i}));
  EXPECT_TRUE(affine(Expr(i) * j, {i}));
}

}  // namespace
}  // namespace tilewright::expr_interval_test
