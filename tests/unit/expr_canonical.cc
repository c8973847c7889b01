// Canonical forms: what must meet, what must survive.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/symbols.h"
#include "tilewright/expr/simplify.h"

namespace tilewright::expr_canonical_test {
namespace {

const Expr kMinus = Expr::real(-INFINITY), kPlus = Expr::infinity();

struct Canonical : ::testing::Test {
  Sym b = test_axis("b"), i = test_axis("i"), j = test_axis("j"), d = test_axis("d");
  Sym Q = test_tensor("Q"), K = test_tensor("K"), V = test_tensor("V"), doc = test_integers("doc");
  Sym x = test_variable("x"), y = test_variable("y"), m = test_variable("m");
  Sym c = test_positive("c"), w = test_param("w"), n = test_counter("n"), k = test_counter("k");
  Expr s = read(Q, {i, j}), t = read(K, {j}), u = read(V, {i});

  static void meets(Expr p, Expr q) {
    EXPECT_EQ(simplify(p), simplify(q)) << to_string(p) << "  =>  " << to_string(simplify(p)) << "\n"
                                        << to_string(q) << "  =>  " << to_string(simplify(q));
  }
  static void is(Expr p, Expr q) {
    EXPECT_EQ(simplify(p), q) << to_string(p) << "  =>  " << to_string(simplify(p)) << ", not "
                              << to_string(q);
  }
  Expr sum(std::vector<Sym> axes, Expr e) { return reduce(Reducer::Sum, std::move(axes), e); }
  Expr top(std::vector<Sym> axes, Expr e) { return reduce(Reducer::Max, std::move(axes), e); }
};

TEST_F(Canonical, Sums) {
  is(s - s, 0);
  is(Expr(x) + x - 2 * Expr(x) + 3, 3);
  meets(Expr(2) * (Expr(x) + y) - y, 2 * Expr(x) + y);
  meets(Expr(x) - (Expr(y) - 1), Expr(1) + x - y);
  meets(-(Expr(x) - y), Expr(y) - x);
  is(Expr(x) / 3 + Expr(x) * Expr(Rational(2, 3)), x);
}

TEST_F(Canonical, Products) {
  is(s / s, 1);
  meets(Expr(x) * y / x, y);
  meets((Expr(x) - y) * (Expr(y) - x), -pow(Expr(x) - y, 2));
  meets((2 * Expr(x) + 2 * Expr(y)) * w, 2 * Expr(w) * (Expr(x) + y));
  meets(sqrt(Expr(c)) * sqrt(Expr(c)), c);
  meets(sqrt(pow(x, 2)), make(Op::Abs, {Expr(x)}));
  meets(pow(make(Op::Abs, {Expr(x)}), 2), Expr(x) * x);
  is(Expr(0) * i, 0);
  EXPECT_TRUE(simplify(Expr(0) * s).is(Op::Mul)) << "0·inf is not 0";
  meets(Expr(0) * s * 3, Expr(0) * s);
}

TEST_F(Canonical, MeansAreNotScaledUp) {
  Expr mean = sum({j}, s) / 4096;
  EXPECT_EQ(to_string(simplify((s - mean) * t)), "K[j] * (Q[i, j] - sum[j](Q[i, j]) / 4096)");
  EXPECT_EQ(to_string(simplify(pow(s - mean, 2))), "(Q[i, j] - sum[j](Q[i, j]) / 4096) ** 2");
  meets((2 * s - 2 * mean) * t, 2 * ((s - mean) * t));
}

TEST_F(Canonical, RootsOfNumbers) {
  Expr half = Rational(1, 2);
  meets(1 / sqrt(Expr(128)), make(Op::Rsqrt, {Expr(128)}));
  meets(1 / sqrt(Expr(128)), pow(128, -half));
  meets(1 / sqrt(Expr(128)), pow(2, Rational(-7, 2)));
  meets(sqrt(Expr(8)) * sqrt(Expr(2)), 4);
  meets(sqrt(Expr(12)), 2 * sqrt(Expr(3)));
  meets(sqrt(Expr(6)), sqrt(Expr(2)) * sqrt(Expr(3)));
  meets(sqrt(Expr(Rational(1, 2))), sqrt(Expr(2)) / 2);
  EXPECT_DOUBLE_EQ(evaluate(simplify(pow(80, -half)), {}), 1 / std::sqrt(80.0));
  meets(pow(Expr(d.size()), -half), 1 / sqrt(Expr(d.size())));
}

TEST_F(Canonical, ExponentialsInOtherBases) {
  meets(exp2(s * (1 / log(2))), exp(s));
  meets(exp2(s / log(2)), exp(s));
  meets(pow(2, s), exp(s * log(2)));
  meets(make(Op::Log2, {s}) * log(2), log(s));
  meets(log(8), 3 * log(2));
  meets(log(Expr(Rational(1, 6))), -log(2) - log(3));
  is(exp(Expr(3) * log(2)), 8);
  is(exp2(5), 32);
  const Expr log2e = 1 / log(2);
  meets(exp2(s * c * log2e - m * log2e), exp(Expr(c) * s - m));
}

TEST_F(Canonical, Exponentials) {
  meets(exp(s) * exp(-Expr(m)), exp(s - m));
  is(exp(s) / exp(s), 1);
  meets(exp(s - log(c)), exp(s) / c);
  meets(exp(Expr(c) * (s - m)), exp(Expr(c) * s - Expr(c) * m));
  meets(pow(exp(s), 3), exp(3 * s));
  meets(sqrt(exp(s)), exp(s / 2));
  meets(log(exp(s)), s);
  meets(log(exp(s) * c), s + log(c));
  is(exp(kMinus), 0);
  is(log(0), kMinus);
  Expr l = sum({j}, exp(s));
  meets(exp(s - m - log(l)), exp(s - m) / l);
}

TEST_F(Canonical, IntegerComparisons) {
  Expr causal = less_equal(j, Expr(i) + j.size() - i.size());
  meets(causal, less_equal(Expr(j) - i, Expr(j.size()) - i.size()));
  meets(causal, logical_not(less(Expr(i) + j.size() - i.size(), j)));
  meets(causal, less(j, Expr(i) + j.size() - i.size() + 1));
  meets(causal, less_equal(Expr(3) * j, Expr(3) * (Expr(i) + j.size() - i.size()) + 2));
  meets(less(Expr(2) * n, 5), less_equal(n, 2));
  meets(equal(Expr(2) * n - 2 * Expr(k), 4), equal(Expr(k) + 2, n));
  is(equal(Expr(2) * n, 5), 0);
  is(less(i, 0), 0);
  is(less_equal(0, i), 1);
  is(less_equal(mod(n, 8), 7), 1);
  meets(logical_not(equal(n, k)), make(Op::Ne, {Expr(k), Expr(n)}));
  meets(equal(read(doc, {i}), read(doc, {j})), equal(read(doc, {j}), read(doc, {i})));
  EXPECT_FALSE(simplify(less(i, i.size())).number()) << "a tail tile runs past the size";
}

TEST_F(Canonical, RealComparisonsKeepNan) {
  EXPECT_EQ(simplify(logical_not(less(s, t))).op(), Op::Not)
      << "t <= s is false for NaN, not (s < t) is true";
  meets(logical_not(logical_not(less(s, t))), less(s, t));
  EXPECT_EQ(simplify(equal(s, s)), equal(s, s)) << "false where s is NaN";
  meets(less_equal(s, s), equal(s, s));
  meets(logical_not(equal(s, s)), make(Op::Ne, {s, s}));
  is(equal(i, i), 1);
  is(less(s, s), 0);
  is(less(2, 3), 1);
}

TEST_F(Canonical, ComparisonsWithInfinity) {
  Expr mask = less(j, 5);
  meets(equal(select(mask, s, kMinus), kMinus), logical_or(logical_not(mask), equal(s, kMinus)));
  meets(make(Op::Ne, {select(mask, s, kMinus), kMinus}), logical_and(mask, make(Op::Ne, {s, kMinus})));
  meets(equal(Expr(c) * s + i, kMinus), equal(s, kMinus));
  is(equal(Expr(i), kMinus), 0);
  is(equal(exp(s), kMinus), 0);
  EXPECT_FALSE(simplify(equal(s + t, kMinus)).number());
}

TEST_F(Canonical, Connectives) {
  Expr p = less(s, t), q = less(t, u), r = less(u, s);
  meets(logical_and(p, logical_and(q, p)), logical_and(q, p));
  meets(logical_not(logical_and(p, q)), logical_or(logical_not(p), logical_not(q)));
  is(logical_and(p, logical_not(p)), 0);
  is(logical_or(p, logical_not(p)), 1);
  meets(logical_or(p, logical_and(p, q)), p);
  meets(logical_or(p, logical_and(logical_not(p), q)), logical_or(p, q));
  meets(logical_or(logical_and(p, q), logical_and(p, r)), logical_and(p, logical_or(q, r)));
  meets(logical_and(logical_or(p, q), logical_or(p, r)), logical_or(p, logical_and(q, r)));
  meets(logical_and(less(3, n), less(5, n)), less(5, n));
  meets(logical_or(less(3, n), less(5, n)), less(3, n));
  is(logical_and(less(n, 3), less(5, n)), 0);
  is(logical_or(less(n, 5), less(3, n)), 1);
  meets(logical_and(less_equal(n, 3), less_equal(3, n)), equal(n, 3));
  meets(logical_or(less(n, 3), less(3, n)), logical_not(equal(n, 3)));
}

TEST_F(Canonical, ConditionsOnIndicesComeFirst) {
  // What guards a read must be tested before it.
  Expr e = simplify(logical_and(equal(read(doc, {j}), 3), less(j, 5)));
  ASSERT_EQ(e.op(), Op::And);
  EXPECT_TRUE(tensors_read(e.arg(0)).empty());
}

TEST_F(Canonical, Selections) {
  Expr p = less_equal(j, i), q = less(Expr(i) - j, 5);
  Expr masked = simplify(select(p, s, kMinus));
  ASSERT_EQ(masked.op(), Op::Select);
  EXPECT_EQ(masked.arg(1), s);
  EXPECT_EQ(masked.arg(2), kMinus);
  meets(select(logical_not(p), kMinus, s), masked);
  meets(select(less(i, j), kMinus, s), masked);
  meets(select(p, select(q, s, kMinus), kMinus), select(logical_and(q, p), s, kMinus));
  meets(select(logical_not(p), kMinus, select(q, s, kMinus)), select(logical_and(q, p), s, kMinus));
  meets(select(p, t, select(q, t, u)), select(logical_or(p, q), t, u));
  meets(select(p, t, u), select(logical_not(p), u, t));
  is(select(p, s, s), s);
  is(select(1, s, t), s);
}

TEST_F(Canonical, BranchesKnowTheCondition) {
  Expr p = less_equal(j, i), q = less(t, u);
  meets(select(p, select(p, s, t) + 1, select(p, t, u)), select(p, s + 1, u));
  meets(select(logical_and(p, q), exp(select(q, s, t)), 0), select(logical_and(p, q), exp(s), 0));
  meets(select(p, select(less(j, Expr(i) + 3), s, t), u), select(p, s, u));        // implied by j <= i
  meets(select(p, t, select(less_equal(j, Expr(i) - 2), s, u)), select(p, t, u));  // excluded by i < j
  // Under a reduction that binds j, j <= i is another condition.
  Expr inner = top({j}, select(p, s, kMinus));
  Expr e = simplify(select(p, inner, 0));
  ASSERT_EQ(e.op(), Op::Select);
  EXPECT_EQ(e.arg(1), simplify(inner));
  meets(select(less(i, 3), sum({j}, select(less(i, 3), s, 0)), 0), select(less(i, 3), sum({j}, s), 0));
}

TEST_F(Canonical, ScaleAroundAMask) {
  Expr p = less_equal(j, i);
  meets(select(p, s / sqrt(Expr(128)), kMinus), select(p, s, kMinus) / sqrt(Expr(128)));
  meets(select(p, Expr(c) * s, kMinus), Expr(c) * select(p, s, kMinus));
  EXPECT_NE(simplify(select(p, -s, kMinus)), simplify(-select(p, s, kMinus))) << "-(-inf) is inf";
  EXPECT_NE(simplify(select(p, Expr(w) * s, kMinus)), simplify(Expr(w) * select(p, s, kMinus)))
      << "w has no sign";
  Expr masked = select(p, s, kMinus);
  is(masked - masked, 0);
  meets(select(p, 3 * s, 0), 3 * select(p, s, 0));
  // An element may be infinite, so that it stays under its condition.
  EXPECT_NE(simplify(select(p, u * t, 0)), simplify(u * select(p, t, 0)));
}

TEST_F(Canonical, SumsOverAxes) {
  Expr q = read(Q, {i, d}), kk = read(K, {j, d});
  meets(sum({d}, (q * w) * kk), Expr(w) * sum({d}, kk * q));
  meets(sum({d}, q * kk / sqrt(Expr(64))), sum({d}, q * kk) / 8);
  meets(sum({d}, u * kk), u * sum({d}, kk));
  meets(sum({d}, u), Expr(d.size()) * u);
  meets(sum({d}, sum({j}, kk)), sum({j, d}, kk));
  meets(sum({j, d}, kk), sum({d, j}, kk));
  meets(sum({d}, 2 * q + 4 * kk), 2 * sum({d}, q + 2 * kk));
  EXPECT_NE(simplify(sum({j}, sum({d}, q * kk) * t)), simplify(sum({j, d}, q * kk * t)))
      << "an inner contraction stays whole";
}

TEST_F(Canonical, AbsentElementsOfASum) {
  Expr p = less_equal(j, i), valid = less(i, 7);
  meets(sum({j}, u * select(p, t, 0)), sum({j}, select(p, u * t, 0)));
  meets(sum({j}, select(logical_and(p, valid), t, 0)), select(valid, sum({j}, select(p, t, 0)), 0));
  meets(sum({j}, select(valid, select(p, t, 0), 0)), select(valid, sum({j}, select(p, t, 0)), 0));
}

TEST_F(Canonical, MaximaOverAxes) {
  Expr p = less_equal(j, i);
  meets(top({j}, s / 8), top({j}, s) / 8);
  meets(top({j}, Expr(c) * s / sqrt(Expr(d.size()))), Expr(c) * top({j}, s) / sqrt(Expr(d.size())));
  meets(top({j}, s + u), top({j}, s) + u);
  meets(top({j}, select(p, s / 8, kMinus)), top({j}, select(p, s, kMinus)) / 8);
  meets(top({j}, select(p, s + i, kMinus)), top({j}, select(p, s, kMinus)) + i);
  meets(top({i}, top({j}, s)), top({j, i}, s));
  EXPECT_NE(simplify(top({j}, -s)), simplify(-top({j}, s)));
  EXPECT_NE(simplify(top({j}, Expr(w) * s)), simplify(Expr(w) * top({j}, s)));
  EXPECT_EQ(simplify(top({j}, u)).op(), Op::Reduce) << "-inf where j is empty";
  is(top({j}, kMinus), kMinus);
}

TEST_F(Canonical, Quantifiers) {
  Expr p = less(s, t), valid = less(i, 7);
  auto any = [&](Expr e) { return reduce(Reducer::Any, {j}, e); };
  auto all = [&](Expr e) { return reduce(Reducer::All, {j}, e); };
  meets(logical_not(any(p)), all(logical_not(p)));
  meets(logical_not(all(p)), any(logical_not(p)));
  meets(any(logical_and(p, valid)), logical_and(valid, any(p)));
  meets(all(logical_or(p, valid)), logical_or(valid, all(p)));
  EXPECT_NE(simplify(any(logical_or(p, valid))), simplify(logical_or(valid, any(p)))) << "j may be empty";
  is(any(0), 0);
  is(all(1), 1);
}

TEST_F(Canonical, MaximaOfTwo) {
  meets(max(s, max(t, s)), max(t, s));
  is(max(kMinus, s), s);
  is(min(kPlus, s), s);
  meets(max(Expr(x) + 1, x), Expr(x) + 1);
  is(max(0, i), i);
  is(min(0, i), 0);
  is(max(3, 5), 5);
  EXPECT_EQ(simplify(max(kPlus, s)).op(), Op::Max) << "NaN propagates";
}

TEST_F(Canonical, FloorDivision) {
  meets(floordiv(16 * Expr(n) + k, 16), Expr(n) + floordiv(k, 16));
  meets(mod(16 * Expr(n) + k, 16), mod(k, 16));
  meets(16 * floordiv(n, 16) + mod(n, 16), n);
  meets(floordiv(floordiv(n, 4), 8), floordiv(n, 32));
  meets(floordiv(4 * Expr(n) + 3, 8), floordiv(n, 2));
  meets(floordiv(Expr(n) - 1, 16) + 1, floordiv(Expr(n) + 15, 16));
  meets(mod(mod(n, 16), 4), mod(n, 4));
  meets(mod(4 * Expr(n), 8), 4 * mod(n, 2));
  is(floordiv(mod(n, 8), 8), 0);
  is(mod(mod(n, 8), 16), simplify(mod(n, 8)));
  is(floordiv(-7, 2), -4);
  is(mod(-7, 2), 1);
  meets(floordiv(127 * Expr(n), 128), Expr(n) + floordiv(-Expr(n), 128));
  meets(floordiv(Expr(n) * j.size() + k, j.size()), Expr(n) + floordiv(k, j.size()));
  meets(mod(Expr(n) * j.size() + k, j.size()), mod(k, j.size()));
}

TEST_F(Canonical, RoundingFunctions) {
  auto floor = [](Expr e) { return make(Op::Floor, {e}); };
  auto round = [](Expr e) { return make(Op::Round, {e}); };
  meets(floor(s + 3), floor(s) + 3);
  meets(floor(Expr(n) / 16), floordiv(n, 16));
  is(floor(n), n);
  meets(round(s + 2), round(s) + 2);
  EXPECT_NE(simplify(round(s + 1)), simplify(round(s) + 1))
      << "half to even: round(0.5) is 0, round(1.5) is 2";
  is(round(Expr(Rational(5, 2))), 2);
}

TEST_F(Canonical, OddAndEvenFunctions) {
  meets(make(Op::Tanh, {Expr(y) - x}), -make(Op::Tanh, {Expr(x) - y}));
  meets(make(Op::Abs, {Expr(y) - x}), make(Op::Abs, {Expr(x) - y}));
  meets(make(Op::Abs, {-3 * s}), 3 * make(Op::Abs, {s}));
  is(make(Op::Abs, {exp(s)}), simplify(exp(s)));
  is(make(Op::Sign, {-Expr(c)}), -1);
}

TEST_F(Canonical, Casts) {
  is(cast(DType::f16, Expr(2049)), 2048);
  EXPECT_EQ(simplify(cast(DType::f16, s)).op(), Op::Cast);
  meets(cast(DType::f16, cast(DType::f16, s)), cast(DType::f16, s));
  is(cast(DType::i64, n), n);
  EXPECT_NE(simplify(cast(DType::bf16, cast(DType::f16, s))), simplify(cast(DType::bf16, s)));
}

TEST_F(Canonical, BoundedSums) {
  meets(range_sum(n, 0, k, 3), 3 * max(k, 0));
  meets(range_sum(n, 0, k, Expr(n) * i.size()), Expr(i.size()) * range_sum(n, 0, k, n));
}

TEST_F(Canonical, SoftmaxSpelledTwoWays) {
  Expr mask = less_equal(j, Expr(i) + j.size() - i.size()), qk = sum({d}, read(Q, {i, d}) * read(K, {j, d}));
  auto output = [&](Expr score, auto exponential) {
    Expr top_score = top({j}, score);
    Expr e = select(equal(score, kMinus), 0, exponential(score - top_score));
    Expr l = sum({j}, e);
    return sum({j}, select(equal(l, 0), 0, e / l) * read(V, {j}));
  };
  Expr one = output(select(mask, qk / sqrt(Expr(128)), kMinus), [](Expr e) { return exp(e); });
  Expr scale = pow(128, Rational(-1, 2));
  Expr scaled = sum({d}, (read(K, {j, d}) * scale) * read(Q, {i, d}));
  Expr two = output(select(logical_not(mask), kMinus, scaled), [](Expr e) { return exp2(e * (1 / log(2))); });
  meets(one, two);
}

TEST_F(Canonical, Expansion) {
  auto equal = [](Expr p, Expr q) {
    EXPECT_TRUE(provably_equal(p, q)) << to_string(p) << " and " << to_string(q);
  };
  equal(pow(s - m, 2), s * s - 2 * s * m + Expr(m) * m);
  equal((s - m) * (s + m), s * s - Expr(m) * m);
  equal(sum({j}, (s - m) * t), sum({j}, s * t) - Expr(m) * sum({j}, t));
  equal(exp(Expr(c) * (s - m)) * exp(Expr(c) * (Expr(m) - y)), exp(Expr(c) * (s - y)));
  Expr p = less_equal(j, i), q = less(t, u), l = exp(t) + 1, r = exp(u) + 1;
  equal(s / l + t / r, (s * r + t * l) / (l * r));
  equal(s / l - s / (l * r), s * exp(u) / (l * r));
  equal(select(p, s, t) * u, select(p, s * u, t * u));
  equal(select(p, s, t) + select(q, s, t), select(q, select(p, 2 * s, s + t), select(p, s + t, 2 * t)));
  EXPECT_FALSE(provably_equal(s * t, s + t));
  EXPECT_FALSE(provably_equal(s / l, s / r));
  EXPECT_FALSE(provably_equal(select(p, s, t), select(q, s, t)));
}

TEST_F(Canonical, LargeNumbersDoNotWrapAround) {
  Expr big = int64_t(1) << 62;
  EXPECT_DOUBLE_EQ(*simplify(big * 4).number(), std::ldexp(1, 64));
  EXPECT_DOUBLE_EQ(*simplify(big + big).number(), std::ldexp(1, 63));
  EXPECT_NO_THROW(simplify(floordiv(big * 3, 7) + mod(big * 5, 3)));
  EXPECT_NO_THROW(simplify(less(big * n * 4, big)));
}

}  // namespace
}  // namespace tilewright::expr_canonical_test
