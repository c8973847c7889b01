// H*(M): closed forms against numeric minimisation, and both against points tried at random.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tilewright/model/optimum.h"

namespace tilewright::model_optimum_test {
namespace {

Sym variable(const std::string& name, SymbolKind kind = SymbolKind::Variable) {
  return Sym::fresh({.name = name, .kind = kind, .integer = true, .positive = true, .nonnegative = true});
}

double uniform(std::mt19937& gen, double lo, double hi) {
  return lo + (hi - lo) * double(gen()) / double(std::mt19937::max());
}

struct Random {
  TileProblem problem;
  Bindings values;
};

/// Transfers Σ α_t/tile (one term a tile, sometimes one of two tiles) and memory of one or several products of tiles.
Random random_problem(std::mt19937& gen, bool simple) {
  Random r;
  const size_t n = 1 + gen() % 3;
  for (size_t v = 0; v < n; ++v) {
    const Sym g = variable("g" + std::to_string(v)),
              size = variable("n" + std::to_string(v), SymbolKind::Size);
    r.problem.tiles.push_back(g);
    r.problem.size[g] = Expr(size);
    r.values[size] = std::floor(uniform(gen, 20, 3000));
    r.problem.transfers.add({{g, Rational(-1)}}, Rational(int64_t(uniform(gen, 1, 1e6))));
  }
  const auto& tiles = r.problem.tiles;
  r.problem.transfers.add({}, Rational(1000));
  if (!simple && n > 1)
    r.problem.transfers.add({{tiles[0], Rational(-1)}, {tiles[1], Rational(-1)}},
                            Rational(int64_t(uniform(gen, 1, 1e5))));
  Laurent column;
  Powers all;
  for (Sym g : tiles) all[g] = Rational(1);
  column.add(all, Rational(int64_t(uniform(gen, 1, 8))));
  if (!simple)
    for (Sym g : tiles) column.add({{g, Rational(1)}}, Rational(int64_t(uniform(gen, 1, 64))));
  r.problem.memory.push_back(column);
  if (!simple && gen() % 2) {
    Laurent other;
    other.add({{tiles.back(), Rational(1)}}, Rational(int64_t(uniform(gen, 50, 500))));
    r.problem.memory.push_back(other);
  }
  return r;
}

double largest(const TileProblem& p, const Bindings& b) {
  double most = 0;
  for (const Laurent& column : p.memory) most = std::max(most, column.value(b));
  return most;
}

TEST(Optimum, NothingThatFitsTransfersLess) {
  std::mt19937 gen(5);
  for (int round = 0; round < 60; ++round) {
    const Random r = random_problem(gen, round % 2 == 0);
    const double M = std::exp(uniform(gen, std::log(300.0), std::log(1e6)));
    std::map<Sym, double> best;
    const double least = least_transfers(r.problem, r.values, M, &best);
    Bindings at = r.values;
    if (!std::isfinite(least)) {
      for (Sym g : r.problem.tiles) at[g] = 1;
      EXPECT_GT(largest(r.problem, at), M);
      continue;
    }
    for (const auto& [g, x] : best) at[g] = x;
    EXPECT_LE(largest(r.problem, at), M * (1 + 1e-9));
    EXPECT_NEAR(r.problem.transfers.value(at), least, 1e-9 * least);
    for (int k = 0; k < 400; ++k) {
      Bindings other = r.values;
      for (Sym g : r.problem.tiles) {
        const double high = std::log(evaluate(r.problem.size.at(g), r.values));
        // Anywhere, and near the optimum.
        const double x = k % 2 ? uniform(gen, 0, high) : std::log(best.at(g)) + uniform(gen, -0.2, 0.2);
        other[g] = std::exp(std::clamp(x, 0.0, high));
      }
      if (largest(r.problem, other) <= M) {
        EXPECT_GE(r.problem.transfers.value(other), least * (1 - 1e-6)) << round;
      }
    }
    // Integer tiles transfer no less.
    Bindings whole = r.values;
    for (const auto& [g, x] : best) whole[g] = std::floor(x);
    EXPECT_GE(r.problem.transfers.value(whole), least * (1 - 1e-9));
  }
}

TEST(Optimum, ClosedFormsAreTheMinimumWhereTheyHold) {
  std::mt19937 gen(9);
  int inside = 0;
  for (int round = 0; round < 60; ++round) {
    const Random r = random_problem(gen, true);
    std::string why;
    const auto form = canonical(r.problem, false, &why);
    ASSERT_TRUE(form) << why;
    const double n = double(r.problem.tiles.size());
    EXPECT_EQ(form->beta, Rational(1, int64_t(n)));
    for (int k = 0; k < 6; ++k) {
      const double M = std::exp(uniform(gen, std::log(10.0), std::log(1e9)));
      Bindings at = r.values;
      at[form->memory] = M;
      double lowest = __builtin_inf();
      for (const auto& [tile, best] : form->tiles) lowest = std::min(lowest, evaluate(best, at));
      bool valid = lowest >= 1;
      for (const auto& [what, bound] : form->valid) valid = valid && M <= evaluate(bound, at);
      const double least = least_transfers(r.problem, r.values, M), closed = evaluate(form->formula, at);
      if (valid) {
        ++inside;
        EXPECT_NEAR(closed, least, 1e-4 * least);
      } else if (std::isfinite(least)) {
        EXPECT_GE(least, closed * (1 - 1e-6));  // a bound of a tile costs
      }
    }
  }
  EXPECT_GT(inside, 60);
}

TEST(Optimum, ClusterTimes) {
  // A cluster of one is none; a faster link saves more; without a saving of transfers there is none of time.
  EXPECT_NEAR(cluster_saving(10, 10, 2, 3), 0, 1e-12);
  EXPECT_GT(cluster_saving(10, 5, 2, 4), cluster_saving(10, 5, 2, 3));
  EXPECT_NEAR(cluster_seconds(10, 5, 2, 4), (0.5 - 0.25) * 5 + 10 / 4.0, 1e-12);
}

TEST(Laurent, SumsAreTakenApartAndPutTogether) {
  const Sym a = variable("a"), b = variable("b");
  const Expr e =
      pow(Expr(a) + Expr(b), 2) / (Expr(a) * pow(Expr(b), Expr(Rational(1, 2)))) + Expr(Rational(3, 2));
  const auto l = laurent(e);
  ASSERT_TRUE(l);
  EXPECT_EQ(l->terms.size(), 4u);
  for (const Bindings& at : {Bindings{{a, 2}, {b, 3}}, Bindings{{a, 10}, {b, 0.5}}}) {
    EXPECT_NEAR(l->value(at), evaluate(e, at), 1e-9);
    EXPECT_NEAR(evaluate(l->expr(), at), evaluate(e, at), 1e-9);
    EXPECT_NEAR(evaluate(l->factored(), at), evaluate(e, at), 1e-9);
  }
  EXPECT_FALSE(laurent(floordiv(Expr(a), Expr(b))));
  EXPECT_FALSE(laurent(max(Expr(a), Expr(b))));
  // a·b exceeds a and b for large symbols; a²/b exceeds neither.
  Laurent sum;
  sum.add({{a, Rational(1)}}, Rational(100));
  sum.add({{a, Rational(1)}, {b, Rational(1)}}, Rational(1));
  sum.add({{a, Rational(2)}, {b, Rational(-1)}}, Rational(1));
  EXPECT_EQ(leading(sum, {}).terms.size(), 2u);
  EXPECT_EQ(leading(sum, {b}).terms.size(), 1u);
}

}  // namespace
}  // namespace tilewright::model_optimum_test
