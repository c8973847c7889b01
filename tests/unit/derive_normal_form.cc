// The normal form: terms of expressions along one axis, and the subterm that is named where there is none.
#include "tilewright/derive/normal_form.h"

#include <gtest/gtest.h>

#include "tests/support/symbols.h"

namespace tilewright::derivation::derive_normal_form_test {
namespace {

class NormalForms : public ::testing::Test {
 protected:
  NormalForms() : nf_(j, {m, r}, signs_) {}
  std::vector<Term> terms(Expr e) { return nf_.terms(simplify(e)); }
  /// The subterm that mixes, or null where a normal form exists.
  Expr mixing(Expr e) {
    try {
      nf_.terms(simplify(e));
    } catch (const Mixing& mixed) {
      return mixed.subterm;
    }
    return {};
  }
  static bool same_up_to_sign(Expr a, Expr b) {
    return a && (a == simplify(b) || simplify(-a) == simplify(b));
  }
  /// The terms add up to the expression.
  void expect_sum(Expr e) {
    Expr sum = 0;
    for (const Term& t : terms(e)) sum = sum + value_of(t);
    EXPECT_TRUE(provably_equal(sum, simplify(e)))
        << to_string(simplify(sum)) << " against " << to_string(simplify(e));
  }

  Sym i = test_axis("i"), j = test_axis("j"), d = test_axis("d");
  Sym m = test_symbol("m", SymbolKind::Tile), r = test_symbol("r", SymbolKind::Tile);
  Sym X = test_tensor("X"), Y = test_tensor("Y"), Z = test_tensor("Z");
  Expr x = read(X, {i, j}), y = read(Y, {j}), z = read(Z, {i});
  Expr M = read(m, {i}), R = read(r, {i});
  Signs signs_;
  NormalForm nf_;
};

TEST_F(NormalForms, Kinds) {
  using Kind = NormalForm::Kind;
  EXPECT_EQ(nf_.kind(z), Kind::Constant);
  EXPECT_EQ(nf_.kind(x), Kind::C);
  EXPECT_EQ(nf_.kind(M + z), Kind::R);
  EXPECT_EQ(nf_.kind(x * M), Kind::Mixed);
}

TEST_F(NormalForms, FactorsPart) {
  auto t = terms(x * y * R * z * 3);
  ASSERT_EQ(t.size(), 1u);
  EXPECT_EQ(t[0].c, simplify(x * y));
  EXPECT_EQ(t[0].coefficient, simplify(3 * z * R));
}

TEST_F(NormalForms, ADifferenceStaysWhole) {
  auto t = terms(pow(2 * x - 6 * M, 2) * y);
  ASSERT_EQ(t.size(), 1u);
  ASSERT_EQ(t[0].shifts.size(), 1u);
  EXPECT_EQ(t[0].shifts[0], (Shift{x, simplify(3 * M), 2}));
  EXPECT_TRUE(t[0].coefficient.is_constant(4));
  EXPECT_EQ(t[0].c, y);
}

TEST_F(NormalForms, ADifferenceWrittenOut) {
  auto t = terms(x * R - M * R);
  ASSERT_EQ(t.size(), 1u) << "x·R − M·R = R·(x − M)";
  EXPECT_EQ(t[0].shifts, (std::vector<Shift>{{x, M, 1}}));
  EXPECT_EQ(t[0].coefficient, R);
  expect_sum(x * R - M * R);
  EXPECT_EQ(terms(x * R - M).size(), 2u) << "no common factor: two terms";
}

TEST_F(NormalForms, Exponentials) {
  auto t = terms(exp(x - M) * y / R);
  ASSERT_EQ(t.size(), 1u);
  EXPECT_EQ(t[0].u, x);
  EXPECT_EQ(t[0].r, M);
  EXPECT_EQ(t[0].c, y);
  EXPECT_EQ(terms(pow(exp(x - M), 2)).at(0).u, simplify(2 * x));
  EXPECT_EQ(terms(exp(x) * exp(-M)).at(0).r, M);
  EXPECT_TRUE(terms(exp(make(Op::Tanh, {x}) - M)).at(0).u.get() == nullptr)
      << "a small exponent needs no point";
}

TEST_F(NormalForms, Choices) {
  Expr mask = less(Expr(j), Expr(i)), ready = equal(R, 0);
  auto t = terms(select(mask, x, 0) * select(ready, 0, 1 / R));
  ASSERT_EQ(t.size(), 1u);
  EXPECT_EQ(t[0].present, simplify(mask));
  EXPECT_EQ(t[0].coefficient, simplify(select(ready, 0, 1 / R)));
  auto both = terms(select(logical_and(mask, ready), x, y * R));
  EXPECT_EQ(both.size(), 3u) << "[mask, ready] x, [not ready] y·R, [ready, not mask] y·R";
  EXPECT_EQ(mixing(select(less(x, R), y, 0)), simplify(less(x, R)));
}

TEST_F(NormalForms, GuardsOfExponentialsVanish) {
  Expr guarded = select(equal(x, minus_infinity()), 0, exp(x - M));
  EXPECT_TRUE(is_true(terms(guarded * y).at(0).present));
  Expr product = select(equal(x, minus_infinity()), 0, exp(x - M) * x);
  EXPECT_FALSE(is_true(terms(product).at(0).present)) << "0 · −inf would be NaN";
  EXPECT_FALSE(is_true(terms(select(equal(y, minus_infinity()), 0, exp(x - M))).at(0).present));
}

TEST_F(NormalForms, InnerSums) {
  Sym W = test_tensor("W");
  Expr w = read(W, {j, d}), inner = reduce(Reducer::Sum, {d}, (read(X, {i, d}) * w - M * w) * R);
  auto t = terms(inner);
  ASSERT_EQ(t.size(), 2u) << "Σ_d x w − M Σ_d w";
  Expr md = read(m, {d});
  Expr vector = reduce(Reducer::Sum, {d}, md * w);
  EXPECT_EQ(mixing(vector), simplify(vector)) << "a running vector has the rank of its axis";
  EXPECT_EQ(terms(reduce(Reducer::Sum, {d}, w - M)).at(0).shifts.size(), 1u);
}

TEST_F(NormalForms, Powers) {
  EXPECT_EQ(terms(pow(x * R, -2)).at(0).c, simplify(pow(x, -2)));
  EXPECT_EQ(terms(pow(x * R, -2)).at(0).coefficient, simplify(pow(R, -2)));
  Expr root = sqrt(x * x + 1) * sqrt(R);
  EXPECT_EQ(terms(root).size(), 1u);
  EXPECT_EQ(mixing(pow(x + R, Rational(1, 2))), simplify(pow(x + R, Rational(1, 2))));
  EXPECT_TRUE(same_up_to_sign(mixing(1 / (x - M)), 1 / (x - M)));
  for (int n = 1; n <= 4; ++n) EXPECT_EQ(terms(pow(x - M, n)).at(0).shifts.at(0).power, n);
  EXPECT_TRUE(mixing(pow(x - M, 5)).get() != nullptr);
}

TEST_F(NormalForms, WhatHasNone) {
  EXPECT_EQ(mixing(exp(x * R) * y), simplify(x * R));
  for (Op op : {Op::Sigmoid, Op::Tanh, Op::Erf})
    EXPECT_TRUE(same_up_to_sign(mixing(make(op, {x - R}) * y), make(op, {x - R})));
  for (Op op : {Op::Round, Op::Floor}) EXPECT_EQ(mixing(make(op, {x / R}) * y), simplify(make(op, {x / R})));
  EXPECT_EQ(mixing(max(x - R, 0)), simplify(max(x - R, 0)));
  EXPECT_EQ(mixing(cast(DType::bf16, x / R)), simplify(cast(DType::bf16, x / R)));
  EXPECT_EQ(mixing(make(Op::Abs, {x - R})), simplify(make(Op::Abs, {x - R})));
}

TEST_F(NormalForms, TermsAddUp) {
  expect_sum((x - M) * (y - R) * x + 3 * R);
  expect_sum(pow(x - M, 3) * y + x * R);
  expect_sum((exp(x - M) + y) * (R + x));
  expect_sum((x + 2 - M) * (x - R) * select(less(Expr(j), Expr(i)), y, x));
}

TEST_F(NormalForms, SplitsOfConditions) {
  Expr a = less(Expr(j), Expr(i)), b = less(R, 1), c = less(y, 2);
  EXPECT_EQ(nf_.split(simplify(logical_and(a, b))).size(), 1u);
  EXPECT_EQ(nf_.split(simplify(logical_or(a, b))).size(), 2u);
  EXPECT_EQ(nf_.split(simplify(logical_or(a, logical_and(b, c)))).size(), 2u);
}

}  // namespace
}  // namespace tilewright::derivation::derive_normal_form_test
