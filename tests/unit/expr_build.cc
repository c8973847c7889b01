// Interning, builders, free symbols, substitution, rewriting and text.
#include <gtest/gtest.h>

#include <cmath>

#include <thread>

#include "tests/support/symbols.h"
#include "tilewright/expr/simplify.h"
#include "tilewright/support/error.h"

namespace tilewright::expr_build_test {
namespace {

struct ExprBuild : ::testing::Test {
  Sym i = test_axis("i"), j = test_axis("j"), d = test_axis("d");
  Sym Q = test_tensor("Q"), K = test_tensor("K");
  Sym x = test_variable("x"), y = test_variable("y"), z = test_variable("z");
};

TEST_F(ExprBuild, EqualNodesAreOnePointer) {
  EXPECT_EQ((Expr(x) + y).get(), (Expr(x) + y).get());
  EXPECT_NE(Expr(x) + y, Expr(y) + x) << "builders keep what is written";
  EXPECT_EQ(Expr::real(0.5), Expr(Rational(1, 2)));
  EXPECT_EQ(Expr::real(-0.0), Expr(0));
  EXPECT_NE(Expr::real(0.1), Expr(Rational(1, 10))) << "0.1 is not a small binary fraction";
  EXPECT_EQ(Expr::real(std::nan("1")), Expr::real(std::nan("2")));
  EXPECT_EQ(Expr::real(1e300), Expr::real(1e300));
  EXPECT_NE(reduce(Reducer::Sum, {i}, x), reduce(Reducer::Max, {i}, x));
  EXPECT_NE(cast(DType::f16, x), cast(DType::bf16, x));
}

TEST_F(ExprBuild, SymbolsAreComparedByIdentity) {
  Sym other = test_variable("x");
  EXPECT_NE(Expr(x), Expr(other));
  EXPECT_TRUE(x < other) << "in order of creation";
  EXPECT_TRUE(i.info().integer && i.info().nonnegative && i.size().info().integer);
}

TEST_F(ExprBuild, InternsFromManyThreads) {
  std::vector<Expr> results(8);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < results.size(); ++t)
    threads.emplace_back([&, t] {
      Expr e = x;
      for (int k = 0; k < 400; ++k) e = e * Expr(k % 7) + exp(Expr(y) - Expr(k % 11));
      results[t] = simplify(e);
    });
  for (auto& t : threads) t.join();
  for (Expr r : results) EXPECT_EQ(r, results[0]);
}

TEST_F(ExprBuild, WrongArityIsAnInternalError) {
  EXPECT_THROW(make(Op::Sub, {Expr(x)}), InternalError);
  EXPECT_THROW(make(Op::Exp, {Expr()}), InternalError);
}

TEST_F(ExprBuild, FreeSymbols) {
  Expr s = reduce(Reducer::Sum, {d}, read(Q, {i, d}) * read(K, {j, d}));
  EXPECT_EQ(free_symbols(s), (std::vector<Sym>{i, j}));
  EXPECT_FALSE(depends_on(s, d));
  EXPECT_EQ(free_symbols(s * d), (std::vector<Sym>{i, j, d}));
  EXPECT_EQ(free_symbols(range_sum(x, y, x, Expr(x) * z)), (std::vector<Sym>{y, x, z}))
      << "the bounds of a sum are outside its scope";
  EXPECT_TRUE(depends_on(reduce(Reducer::Softmax, {j}, read(Q, {j})), j)) << "a softmax keeps its axis";
  EXPECT_EQ(tensors_read(s + read(Q, {read(K, {i})})), (std::vector<Sym>{Q, K}));
}

TEST_F(ExprBuild, SubstitutionIsSimultaneous) {
  EXPECT_EQ(substitute(Expr(x) + y, {{x, y}, {y, x}}), Expr(y) + x);
  Expr s = reduce(Reducer::Sum, {d}, read(Q, {i, d}));
  EXPECT_EQ(substitute(s, {{d, x}}), s) << "bound symbols are not free";
  EXPECT_EQ(substitute(s, {{i, Expr(j) + 1}}), reduce(Reducer::Sum, {d}, read(Q, {Expr(j) + 1, d})));
}

TEST_F(ExprBuild, SubstitutionAvoidsCapture) {
  Expr s = reduce(Reducer::Sum, {d}, read(Q, {i, d}));
  Expr moved = substitute(s, {{i, d}});  // not Σ_d Q[d, d]
  ASSERT_TRUE(moved.is(Op::Reduce));
  ASSERT_EQ(moved->bound.size(), 1u);
  EXPECT_NE(moved->bound[0], d);
  EXPECT_EQ(moved->bound[0].size(), d.size());
  EXPECT_EQ(free_symbols(moved), std::vector<Sym>{d});
  EXPECT_EQ(moved, substitute(s, {{i, d}})) << "renamed alike each time";
  Bindings values{{d.size(), 3}, {d, 1}};
  auto element = [](Sym, const std::vector<int64_t>& n) { return double(10 * n[0] + n[1]); };
  EXPECT_EQ(evaluate(moved, values, element), 33);
}

TEST_F(ExprBuild, SubstitutingTheAxisOfASoftmaxIsRefused) {
  EXPECT_THROW(substitute(reduce(Reducer::Softmax, {j}, read(Q, {j})), {{j, x}}), InternalError);
  EXPECT_NO_THROW(substitute(reduce(Reducer::Softmax, {j}, read(Q, {i, j})), {{i, x}}));
}

TEST_F(ExprBuild, RewriteVisitsSharedNodesOnce) {
  Expr shared = Expr(x) + 1;
  int visits = 0;
  Expr e = rewrite(shared * exp(shared), [&](Expr n) {
    visits += n.is(Op::Add);
    return n.is(Op::Symbol) ? Expr(y) : n;
  });
  EXPECT_EQ(visits, 1);
  EXPECT_EQ(e, (Expr(y) + 1) * exp(Expr(y) + 1));
}

TEST_F(ExprBuild, Text) {
  auto text = [](Expr e) { return to_string(e); };
  EXPECT_EQ(text(Expr(x) - (Expr(y) - z)), "x - (y - z)");
  EXPECT_EQ(text((Expr(x) - y) - z), "x - y - z");
  EXPECT_EQ(text(Expr(x) / (Expr(y) * z)), "x / (y * z)");
  EXPECT_EQ(text((Expr(x) + y) * z), "(x + y) * z");
  EXPECT_EQ(text(-pow(x, 2)), "-x ** 2");
  EXPECT_EQ(text(pow(-Expr(x), 2)), "(-x) ** 2");
  EXPECT_EQ(text(pow(x, -2)), "x ** -2");
  EXPECT_EQ(text(pow(pow(x, 3), y)), "(x ** 3) ** y");
  EXPECT_EQ(text(pow(x, pow(y, z))), "x ** y ** z");
  EXPECT_EQ(text(logical_and(logical_or(less(x, y), less(y, z)), logical_not(equal(x, z)))),
            "(x < y or y < z) and not x == z");
  EXPECT_EQ(text(reduce(Reducer::Sum, {i, j}, read(Q, {i, Expr(j) + 1}))), "sum[i, j](Q[i, j + 1])");
  EXPECT_EQ(text(select(less(x, y), Expr::real(-INFINITY), 0)), "where(x < y, -inf, 0)");
  EXPECT_EQ(text(cast(DType::bf16, x)), "bf16(x)");
  EXPECT_EQ(text(Expr(i.size()) * 2), "size(i) * 2");
  EXPECT_EQ(text(Expr(x) + Rational(1, 100000)), "x + 1e-05");
  EXPECT_EQ(text(mod(floordiv(x, 4), y)), "x // 4 % y");
  EXPECT_EQ(text(max(x, make(Op::Erf, {Expr(y)}))), "max(x, erf(y))");
}

TEST_F(ExprBuild, TextOfCanonicalForms) {
  auto text = [](Expr e) { return to_string(simplify(e)); };
  EXPECT_EQ(text(less_equal(j, Expr(i) + j.size() - i.size())), "size(i) + j <= i + size(j)");
  EXPECT_EQ(text(less(i, j)), "i < j");
  EXPECT_EQ(text(less(Expr(i) - j, 5)), "i <= j + 4");
  EXPECT_EQ(text(equal(read(test_integers("doc"), {i}), 3)), "doc[i] == 3");
  EXPECT_EQ(text(Expr(x) / 2 - Expr(y) / 3), "x / 2 - y / 3");
  EXPECT_EQ(text(Expr(x) / sqrt(y)), "x / sqrt(y)");
  EXPECT_EQ(text(Expr(1) / x), "1 / x");
  EXPECT_EQ(text(Expr(y) - x), "y - x");
  EXPECT_EQ(text(Expr(-1) * floordiv(i, 3) * x), "-x * (i // 3)");
  EXPECT_EQ(text(Expr(0) - x - y), "-x - y");
}

}  // namespace
}  // namespace tilewright::expr_build_test
