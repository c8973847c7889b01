// Absence and expansion: which elements take part, that nothing behind a mask is read, and that hand-written
// forms become the same expression.
#include "tilewright/program/elaborate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tilewright/expr/simplify.h"

namespace tilewright::program_elaborate_test {
namespace {

constexpr double inf = INFINITY;
const double nan = std::nan("");

Program parse(const std::string& text) {
  return parse_program(std::make_shared<SourceText>(SourceText{"t.tw", text}));
}

Expr value(const Program& p, const std::string& name) {
  for (const Definition& d : p.definitions)
    if (d.sym.name() == name) return d.value;
  throw std::runtime_error("no definition " + name);
}

Sym tensor(const Program& p, const std::string& name) {
  for (const Definition& d : p.definitions)
    if (d.sym.name() == name) return d.sym;
  throw std::runtime_error("no definition " + name);
}

// ---- presence ---------------------------------------------------------------------------------------------

/// Condition under which the expression is present, over x, z (unmasked), c (−inf where j >= n), e = exp(c).
std::string present(const std::string& expression) {
  const Program p = parse(
      "axis i, j, d = 4\nparam n : i32\nparam s : f32\nparam pos : f32 range(1, 9)\n"
      "input x[j] : f32\ninput z[j] : f32\ninput m[j] : bool\n"
      "c[j] = where(j < n, x, -inf)\ne[j] = exp(c)\nr[j] : bf16 = e\nt[j] : i32 = c\n"
      "y[i, j] = " +
      expression + "\noutput y");
  return to_string(presence(p, value(p, "y")));
}

TEST(Presence, Masks) {
  EXPECT_EQ(present("x"), "1");
  EXPECT_EQ(present("where(j < n, x, -inf)"), "j < n");
  EXPECT_EQ(present("where(j < n, -inf, x)"), "not j < n");
  EXPECT_EQ(present("where(j == n, -inf, x)"), "j != n");
  EXPECT_EQ(present("c"), "j < n") << "reads look through";
  EXPECT_EQ(present("c[j + 1]"), "j + 1 < n");
  EXPECT_EQ(present("where(j < n, where(m, x, -inf), -inf)"), "j < n and m[j]");
  EXPECT_EQ(present("where(j < n, -inf, where(m, -inf, x))"), "not j < n and not m[j]");
  EXPECT_EQ(present("where(m, c, x)"), "m[j] and j < n or not m[j]");
  EXPECT_EQ(present("-inf"), "1") << "the literal is absent only as a branch";
  EXPECT_EQ(present("x - inf"), "1");
  EXPECT_EQ(present("where(j < n, x, -1e30)"), "1");
  EXPECT_EQ(present("where(j < n, x, inf)"), "1");
  EXPECT_EQ(present("where(j < n, x, 0)"), "1");
}

TEST(Presence, WhatKeepsMinusInfinity) {
  EXPECT_EQ(present("c + z"), "j < n");
  EXPECT_EQ(present("z + c"), "j < n");
  EXPECT_EQ(present("c - z"), "j < n");
  EXPECT_EQ(present("z - c"), "1") << "it reads +inf";
  EXPECT_EQ(present("-c"), "1");
  EXPECT_EQ(present("x + where(m, 0, -inf)"), "m[j]");
  EXPECT_EQ(present("c * 2"), "j < n");
  EXPECT_EQ(present("0.5 * c / sqrt(size(d)) * log2(exp(1))"), "j < n");
  EXPECT_EQ(present("c / sqrt(size(j))"), "j < n");
  EXPECT_EQ(present("c * pos"), "j < n") << "the range says that it is positive";
  EXPECT_EQ(present("c * s"), "1");
  EXPECT_EQ(present("c * -2"), "1");
  EXPECT_EQ(present("c * 0"), "1");
  EXPECT_EQ(present("c * z"), "1");
  EXPECT_EQ(present("c / z"), "1");
  EXPECT_EQ(present("tanh(c)"), "1");
  EXPECT_EQ(present("max(c, z)"), "1");
  EXPECT_EQ(present("f16(c)"), "j < n");
  EXPECT_EQ(present("t"), "1") << "an integer has no −inf";
}

TEST(Presence, WhatKeepsZero) {
  EXPECT_EQ(present("exp(c)"), "j < n");
  EXPECT_EQ(present("exp2(c)"), "j < n");
  EXPECT_EQ(present("2 ** c"), "j < n");
  EXPECT_EQ(present("0.5 ** c"), "1");
  EXPECT_EQ(present("softmax[j](c)"), "j < n");
  EXPECT_EQ(present("e * z"), "j < n");
  EXPECT_EQ(present("z * e"), "j < n");
  EXPECT_EQ(present("-e * -3"), "j < n");
  EXPECT_EQ(present("e / z"), "j < n");
  EXPECT_EQ(present("z / e"), "1");
  EXPECT_EQ(present("e ** 2"), "j < n");
  EXPECT_EQ(present("e + z"), "1") << "it reads z";
  EXPECT_EQ(present("e * z - e * x"), "j < n");
  EXPECT_EQ(present("exp(e)"), "1");
  EXPECT_EQ(present("r"), "j < n") << "rounding keeps 0";
  EXPECT_EQ(present("sum[j](e)"), "1");
}

TEST(Presence, Guards) {
  EXPECT_EQ(present("where(c == -inf, 0, z)"), "j < n");
  EXPECT_EQ(present("where(-inf == c, 0, z)"), "j < n");
  EXPECT_EQ(present("where(c != -inf, z, 0)"), "j < n");
  EXPECT_EQ(present("where(c > -inf, z, 0)"), "j < n");
  EXPECT_EQ(present("where(c == -inf, 0, exp(c - 1))"), "j < n");
  EXPECT_EQ(present("where(x == -inf, 0, z)"), "1") << "a −inf that comes from data is an ordinary number";
  EXPECT_EQ(present("where(c == -inf, 1, z)"), "1");
  EXPECT_EQ(present("where(s == 0, 0, e / s)"), "j < n") << "both branches read 0 there";
  EXPECT_EQ(present("where(s != 0, e / s, 0)"), "j < n");
  EXPECT_EQ(present("where(x[0] == 0, 0, exp(where(m[i], z, -inf)))"), "x[0] == 0 or m[i]")
      << "a read that may fail stays behind its guard";
}

// ---- identity of spellings --------------------------------------------------------------------------------

/// Whether two definitions of one program become the same expression.
::testing::AssertionResult same(const std::string& text, const std::string& a, const std::string& b) {
  const Program p = elaborate(parse(text));
  const Expr x = simplify(inlined(p, tensor(p, a))), y = simplify(inlined(p, tensor(p, b)));
  if (x == y) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << to_string(x) << "\n  is not\n" << to_string(y);
}

const std::string attention =
    "axis b, i, j, d = 8, e\ninput Q[b, i, d] : f16\ninput K[b, j, d] : f16\ninput V[b, j, e] : f16\n"
    "input len[b] : i32\nS[b, i, j] = sum[d](Q * K) / sqrt(size(d))\n";

TEST(Elaborate, HandWrittenSoftmaxIsTheSameExpression) {
  const std::string written =
      "m[b, i] = max[j](C)\ne1[b, i, j] = where(C == -inf, 0, exp(C - m))\nl[b, i] = sum[j](e1)\n"
      "P1[b, i, j] = where(l == 0, 0, e1 / l)\nP2[b, i, j] = softmax[j](C)\n"
      "O1[b, i, e] = sum[j](P1 * V)\nO2[b, i, e] = sum[j](P2 * V)\nO3[b, i, e] = sum[j](softmax[j](C) * "
      "V)\noutput O1";
  for (const std::string mask :
       {"C[b, i, j] = S\n", "C[b, i, j] = where(j <= i + size(j) - size(i), S, -inf)\n",
        "C[b, i, j] = where(j < len[b] and i - j < 5, S, -inf)\n",
        "C[b, i, j] = where(j >= len[b], -inf, S)\n",
        "C[b, i, j] = where(j < len[b], S, -inf) + 0.5 * (j - i)\n"}) {
    EXPECT_TRUE(same(attention + mask + written, "P1", "P2")) << mask;
    EXPECT_TRUE(same(attention + mask + written, "O1", "O2")) << mask;
    EXPECT_TRUE(same(attention + mask + written, "O1", "O3")) << mask;
  }
}

TEST(Elaborate, RespelledAttentionIsTheSameExpression) {
  EXPECT_TRUE(same(attention + R"(
C[b, i, j] = where(j <= i + size(j) - size(i), S, -inf)
O1[b, i, e] = sum[j](softmax[j](C) * V)
let c = log2(exp(1))
q[i, b, d] = Q * rsqrt(size(d))
s[j, b, i] = where(size(j) - j < size(i) - i, -inf, sum[d](K * q))
m[i, b] = max[j](s)
w[j, i, b] = where(s != -inf, exp2((s - m) * c), 0)
l[b, i] = sum[j](w)
p[i, j, b] = where(l != 0, w / l, 0)
O2[b, i, e] = sum[j](V * p)
output O1
)",
                   "O1", "O2"));
}

TEST(Elaborate, OtherExpansions) {
  const std::string text =
      "axis i, j\ninput x[i, j] : f32\nc[i, j] = where(j <= i, x, -inf)\n"
      "mean1[i] = mean[j](x)\nmean2[i] = sum[j](x) / size(j)\n"
      "var1[i] = var[j](x)\nvar2[i] = mean[j]((x - mean1) ** 2)\n"
      "lse1[i] = logsumexp[j](c)\nm[i] = max[j](c)\nlse2[i] = where(abs(m) == inf, m, m + log(sum[j](exp(c - "
      "m))))\n"
      "n[i] = sum[j](where(j <= i, 1, 0))\nmean3[i] = mean[j](c)\nmean4[i] = sum[j](where(j <= i, x, 0)) / "
      "n\n"
      "output lse1";
  EXPECT_TRUE(same(text, "mean1", "mean2"));
  EXPECT_TRUE(same(text, "var1", "var2"));
  EXPECT_TRUE(same(text, "lse1", "lse2"));
  EXPECT_TRUE(same(text, "mean3", "mean4"));
}

TEST(Elaborate, OnlyBasicReducersRemainAndElaborationIsIdempotent) {
  const Program p = elaborate(
      parse("axis i, j, k = 3\ninput x[i, j] : f32\n"
            "y[i] = mean[j](x) + var[j](x) + logsumexp[j](where(j < i, x, -inf)) + argmax[j](x) * size(k)\n"
            "z[i, j] = softmax[j](x)\noutput y"));
  std::string text = print(p);
  for (const char* word : {"mean", "var[", "softmax", "logsumexp", "size(k)"})
    EXPECT_EQ(text.find(word), std::string::npos) << word << " in\n" << text;
  EXPECT_EQ(print(elaborate(p)), text);
}

TEST(Elaborate, InliningSubstitutesIndicesAndKeepsWhatRounds) {
  const Program p =
      elaborate(parse("axis i, j\ninput x[i, j] : f32\na[i] = sum[j](x[i, j] * x[j, i])\n"
                      "h[j] : f16 = 2 * a[j]\ny[i, j] = a[j] + a[i + 1] + h\noutput y"));
  EXPECT_EQ(print(p).find("softmax"), std::string::npos);
  const std::string text = to_string(inlined(p, tensor(p, "y")));
  EXPECT_NE(text.find("h[j]"), std::string::npos) << text;
  EXPECT_NE(text.find("x[i + 1, j]"), std::string::npos) << text;
  // a[j] sums over j inside: the index j of y must not be captured.
  std::vector<Sym> free = free_symbols(inlined(p, tensor(p, "y")));
  EXPECT_EQ(free.size(), 2u) << text;
}

// ---- values -----------------------------------------------------------------------------------------------

/// Evaluates definition y[] or y[j] at 0 … 5 of a program over x[j] (data), v[j] (data), with reads counted.
struct Sample {
  std::vector<double> x, v;
  int size = 6;
  std::vector<int> read_x;  ///< indices of x that were read

  std::vector<double> operator()(const std::string& definitions, bool row) {
    const Program p = elaborate(
        parse("axis j\nparam n : i32\ninput x[j] : f32\ninput v[j] : f32\n" + definitions + "\noutput y"));
    const Expr e = inlined(p, tensor(p, "y"));
    Bindings values;
    for (const Axis& a : p.axes) values[a.index.size()] = a.baked() ? *a.size.number() : size;
    values[p.params[0].sym] = 3;
    const Reader reader = [&](Sym t, const std::vector<int64_t>& at) {
      if (t.name() == "x") read_x.push_back(int(at[0]));
      if (at[0] < 0 || at[0] >= size) throw std::runtime_error("read out of bounds");
      return (t.name() == "x" ? x : v).at(size_t(at[0]));
    };
    std::vector<double> out;
    for (int j = 0; j < (row ? size : 1); ++j) {
      values[p.axis("j")->index] = j;
      out.push_back(evaluate(e, values, reader));
    }
    return out;
  }
};

const std::vector<double> data = {1, 2, 3, nan, inf, nan}, weights = {10, 20, 30, nan, nan, inf};

double scalar(const std::string& definitions, std::vector<double> x = data, std::vector<double> v = weights) {
  return Sample{std::move(x), std::move(v)}(definitions, false)[0];
}

TEST(Elaborate, NothingBehindAMaskContributes) {
  const std::string c = "c[j] = where(j < n, x, -inf)\n";
  const double l = std::exp(-2) + std::exp(-1) + 1;
  EXPECT_DOUBLE_EQ(scalar(c + "y[] = max[j](c)"), 3);
  EXPECT_DOUBLE_EQ(scalar(c + "y[] = min[j](c)"), 1);
  EXPECT_DOUBLE_EQ(scalar(c + "y[] = sum[j](c)"), 6);
  EXPECT_DOUBLE_EQ(scalar(c + "y[] = prod[j](c)"), 6);
  EXPECT_DOUBLE_EQ(scalar(c + "y[] = mean[j](c)"), 2);
  EXPECT_DOUBLE_EQ(scalar(c + "y[] = var[j](c)"), 2.0 / 3);
  EXPECT_DOUBLE_EQ(scalar(c + "y[] = argmax[j](c)"), 2);
  EXPECT_DOUBLE_EQ(scalar(c + "y[] = argmin[j](c)"), 0);
  EXPECT_DOUBLE_EQ(scalar(c + "y[] = logsumexp[j](c)"), 3 + std::log(l));
  EXPECT_DOUBLE_EQ(scalar(c + "y[] = sum[j](exp(c - 3) * v)"), 10 * std::exp(-2) + 20 * std::exp(-1) + 30);
  EXPECT_DOUBLE_EQ(scalar(c + "y[] = sum[j](softmax[j](c) * v)"),
                   (10 * std::exp(-2) + 20 * std::exp(-1) + 30) / l);
  EXPECT_DOUBLE_EQ(scalar(c + "p[j] : f16 = softmax[j](c)\ny[] = sum[j](where(j < 1, p / p, 0) * v)"), 10);
  EXPECT_DOUBLE_EQ(scalar("y[] = sum[j](where(j < n, x, 0) * v)"), 140);
  EXPECT_DOUBLE_EQ(scalar("y[] = sum[j](v * where(j >= n, 0, x) / 2)"), 70);
  EXPECT_DOUBLE_EQ(scalar("y[] = sum[j](-where(j >= n, 0, v))"), -60);
}

TEST(Elaborate, AnEmptyRowIsZeroAndItsLogsumexpMinusInfinity) {
  const std::string c = "c[j] = where(j < n - 9, x, -inf)\n";
  EXPECT_EQ(scalar(c + "y[] = sum[j](softmax[j](c) * v)"), 0);
  EXPECT_EQ(scalar(c + "y[] = logsumexp[j](c)"), -inf);
  EXPECT_EQ(scalar(c + "y[] = argmax[j](c)"), -1);
  EXPECT_EQ(scalar(c + "y[] = max[j](c)"), -inf);
  EXPECT_TRUE(std::isnan(scalar(c + "y[] = mean[j](c)")));
  EXPECT_TRUE(std::isnan(scalar(c + "y[] = var[j](c)")));
  EXPECT_EQ(Sample({data, weights})(c + "y[j] = softmax[j](c)", true), std::vector<double>(6, 0.0));
}

/// Softmax over j of masked scores made of x at `index`: is the guard of the row a choice outside of the sum?
bool guard_stands_outside(const std::string& index) {
  const Program p = elaborate(parse(
      "axis i, j\naxis d = 8\ninput x[j, d] : f32\ninput t[d] : i32 range(0, 8)\n"
      "S[i, j] = sum[d](x[j, d] * x[j, " +
      index + "])\nC[i, j] = where(j <= i, S, -inf)\ny[i] = sum[j](softmax[j](C) * x[j, 0])\noutput y"));
  return value(p, "y").is(Op::Select);
}

TEST(Elaborate, TheGuardOfARowStandsOutsideOfASumThatCannotFail) {
  EXPECT_TRUE(guard_stands_outside("d"));
  EXPECT_TRUE(guard_stands_outside("(d + 4) % 8"));
  EXPECT_TRUE(guard_stands_outside("(d + 4) % size(d)"));
  EXPECT_TRUE(guard_stands_outside("7 - d % 8"));
  EXPECT_FALSE(guard_stands_outside("(d + 4) % 9"));
  EXPECT_FALSE(guard_stands_outside("t[d]"));
}

/// An axis declared as long as another indexes its arrays; one that only happens to be as long may not.
TEST(Elaborate, AnAxisAsLongAsAnotherLiesInside) {
  for (const auto& [length, outside] :
       {std::pair{"size(i)", true}, {"1 * size(i)", true}, {"size(i) + 1", false}}) {
    const Program p = elaborate(parse(std::string("axis i\naxis j = ") + length +
                                      "\ninput u[i] : f32\nC[i, j] = where(j <= i, u[i] * u[j], -inf)\n"
                                      "y[i] = sum[j](softmax[j](C) * u[j])\noutput y"));
    EXPECT_EQ(value(p, "y").is(Op::Select), outside) << length;
  }
}

/// The choice that stands outside of a sum is no mask of what reads it.
TEST(Elaborate, AReductionIsPresentWhateverStoodInsideOfIt) {
  const Program p = elaborate(
      parse("axis h, i, j\ninput S[h, i, j] : f32\ninput V[h, j] : f32\ninput W[h] : f32\n"
            "C[h, i, j] = where(j <= i, S, -inf)\nO[h, i] = sum[j](softmax[j](C) * V)\ny[i] = sum[h](O * W)\n"
            "z[i] = sum[h](where(W > 0, O, 0))\noutput y, z"));
  EXPECT_TRUE(value(p, "O").is(Op::Select));
  EXPECT_EQ(to_string(value(p, "y")), "sum[h](O[h, i] * W[h])");
  EXPECT_EQ(to_string(value(p, "z")), "sum[h](where(0 < W[h], O[h, i], 0))");
}

TEST(Elaborate, ReadsBehindAMaskAreNotMade) {
  Sample sample{{1, 2, 3, 4, 5, 6}, weights};
  sample("c[j] = where(j < n, x[j], -inf)\ny[] = sum[j](softmax[j](c) * v)", false);
  for (int j : sample.read_x) EXPECT_LT(j, 3);
  // Out of bounds behind the mask: 2 · j leaves the array from j = 3 on.
  EXPECT_DOUBLE_EQ(scalar("y[] = sum[j](where(j < n, x[2 * j], 0) * v)", {1, 0, 2, 0, 3, 0}), 10 + 40 + 90);
  EXPECT_DOUBLE_EQ(scalar("a[j] = where(j < n, x[2 * j], -inf)\ny[] = max[j](a)", {1, 0, 2, 0, 3, 0}), 3);
  EXPECT_DOUBLE_EQ(scalar("a[j] = where(j < n, where(x[2 * j] > 1, x[2 * j], -inf), -inf)\ny[] = sum[j](a)",
                          {1, 0, 2, 0, 3, 0}),
                   5);
}

TEST(Elaborate, MinusInfinityFromDataIsAnOrdinaryNumber) {
  const std::vector<double> x = {-inf, 1, -inf, -inf, -inf, -inf};
  EXPECT_EQ(scalar("y[] = sum[j](x)", x), -inf);
  EXPECT_EQ(scalar("c[j] = where(j < n, x, -inf)\ny[] = min[j](c)", x), -inf);
  EXPECT_EQ(scalar("c[j] = where(j < n and j != 1, x, -inf)\ny[] = argmax[j](c)", x), 0);
  EXPECT_EQ(scalar("c[j] = where(j > 1, x, -inf)\ny[] = argmax[j](c)", x), 2) << "the first present one";
  EXPECT_EQ(scalar("c[j] = where(j > 1, x, -inf)\ny[] = mean[j](c)", x), -inf);
  EXPECT_EQ(scalar("y[] = logsumexp[j](x)", x), 1);
  EXPECT_EQ(scalar("y[] = sum[j](softmax[j](x))", x), 1);
  EXPECT_EQ(scalar("y[] = sum[j](softmax[j](x))", {-inf, -inf, -inf, -inf, -inf, -inf}), 0);
  EXPECT_EQ(scalar("y[] = logsumexp[j](x)", {0, inf, 0, 0, 0, 0}), inf);
}

TEST(Elaborate, AbsenceDoesNotChangeOrdinaryValues) {
  const std::vector<double> x = {1, 2, 3, 4, 5, 6}, v = {6, 5, 4, 3, 2, 1};
  const std::string c = "c[j] = where(j < n, x, -inf)\n";
  EXPECT_DOUBLE_EQ(scalar(c + "y[] = sum[j](exp(c) * 0 + 1)", x, v), 6)
      << "a sum with something present is present";
  EXPECT_DOUBLE_EQ(scalar(c + "y[] = max[j](-c)", x, v), inf) << "elsewhere an absent value reads −inf";
  EXPECT_DOUBLE_EQ(scalar(c + "y[] = sum[j](where(c == -inf, 7, 0))", x, v), 21);
  EXPECT_DOUBLE_EQ(scalar(c + "y[] = max[j](where(j < n, -x, 0))", x, v), 0) << "0 is a value under max";
  EXPECT_DOUBLE_EQ(scalar(c + "y[] = mean[j](where(j < n, x, 0))", x, v), 1);
  EXPECT_DOUBLE_EQ(scalar(c + "d[j] = where(j > 0, v, -inf)\ny[] = sum[j](exp(c - x) + exp(d - v))", x, v),
                   3 + 5);
}

TEST(Elaborate, SoftmaxOfSoftmaxSkipsTheAbsent) {
  const std::vector<double> y = Sample{{0, 0, 0, 0, 0, 0}, weights}(
      "c[j] = where(j < n, x, -inf)\np[j] = softmax[j](c)\ny[j] = softmax[j](p)", true);
  for (int j = 0; j < 6; ++j) EXPECT_DOUBLE_EQ(y[j], j < 3 ? 1.0 / 3 : 0.0);
}

TEST(Elaborate, JointAndNestedReductions) {
  Sample sample{{1, 2, 3, nan, nan, nan}, {1, 1, 1, 1, 1, 1}};
  EXPECT_DOUBLE_EQ(
      sample("axis k = 2\nc[j, k] = where(j + k < n, x * (k + 1), -inf)\ny[] = sum[j, k](c)", false)[0],
      6 + 6);
  EXPECT_DOUBLE_EQ(
      sample("axis k = 2\nc[j, k] = where(j + k < n, x * (k + 1), -inf)\ny[] = max[k](sum[j](c))", false)[0],
      6);
  EXPECT_DOUBLE_EQ(sample("axis k = 2\ny[] = mean[j, k](v)", false)[0], 1);
}

}  // namespace
}  // namespace tilewright::program_elaborate_test
