// Programs built in C++ mean what their text means.
#include "tilewright/program/build.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tilewright::build::program_build_test {
namespace {

Program parse(const std::string& text) {
  return parse_program(std::make_shared<SourceText>(SourceText{"t.tw", text}));
}

/// The built program prints as `text` does, and its print parses to the same.
void expect_same(const Builder& b, const std::string& text) {
  const std::string built = print(b.build());
  EXPECT_EQ(built, print(parse(text)));
  EXPECT_EQ(print(parse(built)), built);
}

TEST(ProgramBuild, GroupedHeads) {
  Builder p("grouped");
  const AxisName b = p.axis("b"), k = p.axis("k"), g = p.axis("g"), i = p.axis("i"), j = p.axis("j");
  const AxisName d = p.axis("d", 128), e = p.axis("e", size(d));
  const Term cap = p.param("cap", DType::f32, 50, RangeTerms{1, 100});
  const TensorName Q = p.input("Q", {b, Group{k, g}, i, d}, DType::f16);
  const TensorName K = p.input("K", {b, k, j, d}, DType::f16), V = p.input("V", {b, k, j, e}, DType::f16);
  const TensorName S = p.define("S", {b, k, g, i, j}, sum({d}, Q(b, Group{k, g}, i, d) * K) / sqrt(size(d)));
  const TensorName C =
      p.define("C", {b, k, g, i, j}, where(j <= i + size(j) - size(i), cap * tanh(S / cap), -inf()));
  const TensorName O = p.define("O", {b, k, g, i, e}, sum({j}, softmax({j}, C) * V));
  const TensorName L = p.define("L", {b, k, g, i}, logsumexp({j}, C));
  p.output(O, DType::f16, {b, Group{k, g}, i, e});
  p.output(L, DType::f32);
  expect_same(p, R"(program grouped
axis b, k, g, i, j
axis d = 128, e = size(d)
param cap : f32 = 50 range(1, 100)
input Q[b, (k g), i, d] : f16
input K[b, k, j, d] : f16
input V[b, k, j, e] : f16
S[b, k, g, i, j] = sum[d](Q[b, (k g), i, d] * K) / sqrt(size(d))
C[b, k, g, i, j] = where(j <= i + size(j) - size(i), cap * tanh(S / cap), -inf)
O[b, k, g, i, e] = sum[j](softmax[j](C) * V)
L[b, k, g, i]    = logsumexp[j](C)
output O[b, (k g), i, e] : f16, L : f32
)");
}

TEST(ProgramBuild, OperatorsBindAsInCpp) {
  Builder p;
  const AxisName i = p.axis("i"), j = p.axis("j"), n = p.axis("n", 4);
  const TensorName x = p.input("x", {i, j}, DType::f32),
                   t = p.input("t", {j}, DType::i32, RangeTerms{0, size(j)});
  const TensorName z = p.input("z", {}, DType::f64);
  const Term half = p.let("half", 1.0 / 2);
  p.define("a", {i, j}, (x - half) - (x - 2.0) * -x / (x / (x * 3)));
  p.define("b", {i, j}, -pow(x, 2) + pow(-x, pow(x, -2)) - pow(pow(x, 2), 3));
  p.define("c", {i, j},
           !(i < j || (i == j && x(i, t(j)) != 0)) && (!(i > 3) || j >= i % (2 + floordiv(j, 2))));
  p.define(
      "d", {i},
      max_of(max({j}, x), min_of(mean({j}, x), -1e-30)) + z.scalar() + cast(DType::bf16, argmin({j}, x)));
  p.define("e", {i, n}, topk(j, n, x) + argtopk(j, n, abs(x)), DType::f16);
  const TensorName f = p.define("f", {}, any({i, j}, x == -inf()) && true);
  p.output(f);
  expect_same(p, R"(axis i
axis j
axis n = 4
input x[i, j] : f32
input t[j] : i32 range(0, size(j))
input z[] : f64
let half = 0.5
a[i, j] = x - half - (x - 2.0) * -x / (x / (x * 3))
b[i, j] = -x ** 2 + (-x) ** x ** -2 - (x ** 2) ** 3
c[i, j] = not (i < j or i == j and x[i, t[j]] != 0) and (not i > 3 or j >= i % (2 + j // 2))
d[i] = max(max[j](x), min(mean[j](x), -1e-30)) + z[] + bf16(argmin[j](x))
e[i, n] : f16 = topk[j -> n](x) + argtopk[j -> n](abs(x))
f[] = any[i, j](x == -inf) and true
output f
)");
}

TEST(ProgramBuild, Numbers) {
  EXPECT_EQ(Term(2).text(), "2");
  EXPECT_EQ(Term(2.0).text(), "2.0");
  EXPECT_EQ(Term(1e300).text(), "1e+300");
  EXPECT_EQ(Term(-0.5f).text(), "-0.5");
  EXPECT_EQ(Term(true).text(), "true");
  EXPECT_EQ((Term(1) - Term(INT64_MIN)).text(), "1 - (-9223372036854775807 - 1)");
  EXPECT_EQ(Term(-INFINITY).text(), "-inf");
  EXPECT_EQ((2 * Term(NAN)).text(), "2 * (inf - inf)");
}

TEST(ProgramBuild, ErrorsShowTheLineThatACallWrote) {
  Builder p;
  const AxisName i = p.axis("i"), j = p.axis("j");
  const TensorName x = p.input("x", {i, j}, DType::f32);
  p.output(p.define("y", {i}, x * 2));
  try {
    p.build();
    FAIL();
  } catch (const UserError& e) {
    ASSERT_EQ(e.diagnostics().size(), 1u);
    EXPECT_EQ(e.diagnostics()[0].render(),
              R"(<builder>:4:8: error: axis `j` of the right side is not on the left side of `y`
  y[i] = x * 2
         ^
  help: `x` alone reads x[i, j]; reduce over it, for example sum[j](…), or write y[i, j]
)");
  }
  EXPECT_THROW(p.axis("two words"), UserError);
  EXPECT_THROW(p.axis("k\noutput x"), UserError);
  EXPECT_THROW(Builder("9lives"), UserError);
}

}  // namespace
}  // namespace tilewright::build::program_build_test
