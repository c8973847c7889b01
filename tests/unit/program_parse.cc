// Text to Program: structure, precedence, reads, types, overrides.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tilewright/program/program.h"

namespace tilewright::program_parse_test {
namespace {

Program parse(const std::string& text, const Overrides& overrides = {}) {
  return parse_program(std::make_shared<SourceText>(SourceText{"t.tw", text}), overrides);
}

/// The canonical text of the right side of y, in a program with the inputs below.
std::string right_side(const std::string& expression, const std::string& axes = "i, j, k, g, d") {
  const Program p = parse(
      "axis i, j, k, g, d\nparam s : f32\nparam n : i32\nparam on : bool\nlet half = 0.5\n"
      "input x[i, j] : f32\ninput q[(k g), d] : f16\ninput t[j] : i32\ninput m[i, j] : bool\n"
      "y[" +
      axes + "] = " + expression + "\noutput y\n");
  const std::string text = print(p), key = "] = ";
  const size_t at = text.find(key, text.find("\ny["));
  return text.substr(at + key.size(), text.find('\n', at) - at - key.size());
}

DType output_dtype(const std::string& expression) {
  return parse(
             "axis i\nparam w : f64\ninput x[i] : f16\ninput z[i] : f64\ninput t[i] : i8\ninput m[i] : "
             "bool\ny[i] = " +
             expression + "\noutput y\n")
      .outputs[0]
      .dtype;
}

TEST(ProgramParse, Structure) {
  const Program p = parse(R"(
# a comment; tabs	are fine here
program grouped
axis b, k, g, i   # more
axis d = 4 * 32
param cap : f32 = 50 range(1, 100)
input Q[b, (k g), i, d] : f16
input len[b] : i32 range(0, size(i) + 1)
S[b, k, g, i] : bf16 = sum[d](Q[b, (k g), i, d]
                              * cap)
output S[b, (k g), i] : f16, len
)");
  EXPECT_EQ(p.name, "grouped");
  ASSERT_EQ(p.axes.size(), 5u);
  EXPECT_FALSE(p.axes[0].size);
  EXPECT_TRUE(p.axes[4].baked());
  EXPECT_TRUE(p.axes[4].size.is_constant(128));
  EXPECT_EQ(p.axes[4].index.kind(), SymbolKind::Index);
  EXPECT_EQ(p.axes[4].index.size().kind(), SymbolKind::Size);
  ASSERT_EQ(p.inputs.size(), 2u);
  EXPECT_EQ(p.inputs[0].dims.size(), 4u);
  EXPECT_EQ(p.inputs[0].axes().size(), 5u);
  EXPECT_TRUE(p.inputs[1].sym.info().integer);
  EXPECT_TRUE(p.inputs[1].sym.info().nonnegative);
  EXPECT_TRUE(p.params[0].sym.info().positive);
  ASSERT_EQ(p.definitions.size(), 1u);
  EXPECT_EQ(p.definitions[0].dtype, DType::bf16);
  EXPECT_EQ(p.definitions[0].axes.size(), 4u);
  const Expr sum = p.definitions[0].value;
  ASSERT_TRUE(sum.is(Op::Reduce));
  const Expr read = sum.arg(0).arg(0);
  ASSERT_TRUE(read.is(Op::Read));
  EXPECT_EQ(read.args().size(), 5u) << "one index for each piece";
  EXPECT_EQ(p.span_of(sum).line(), 9);
  ASSERT_EQ(p.outputs.size(), 2u);
  EXPECT_EQ(p.outputs[0].dims.size(), 3u);
  EXPECT_EQ(p.outputs[0].dtype, DType::f16);
  EXPECT_EQ(p.outputs[1].dtype, DType::i64);
  EXPECT_EQ(p.tensor_axes(p.outputs[0].sym).size(), 4u);
  EXPECT_EQ(p.axis("g")->name(), "g");
  EXPECT_EQ(p.axis("x"), nullptr);
}

TEST(ProgramParse, Precedence) {
  EXPECT_EQ(right_side("1 + 2 * 3 - 4"), "1 + 2 * 3 - 4");
  EXPECT_EQ(right_side("1 - (2 - 3)"), "1 - (2 - 3)");
  EXPECT_EQ(right_side("(1 - 2) - 3"), "1 - 2 - 3");
  EXPECT_EQ(right_side("i * (j + 1) // 2 % 3"), "i * (j + 1) // 2 % 3");
  EXPECT_EQ(right_side("i * (j // 2)"), "i * (j // 2)");
  EXPECT_EQ(right_side("-s ** 2"), "-s ** 2");
  EXPECT_EQ(right_side("(-s) ** 2"), "(-s) ** 2");
  EXPECT_EQ(right_side("s ** -i ** 2"), "s ** -i ** 2");
  EXPECT_EQ(right_side("(s ** i) ** 2"), "(s ** i) ** 2");
  EXPECT_EQ(right_side("- - s"), "--s");
  EXPECT_EQ(right_side("s * -s / -2"), "s * -s / -2");
  EXPECT_EQ(right_side("(-2) ** 2 + -inf"), "(-2) ** 2 + -inf");
  EXPECT_EQ(right_side("not i < j and on or i == j"), "not i < j and on or i == j");
  EXPECT_EQ(right_side("not (i < j and on) or (i == j)"), "not (i < j and on) or i == j");
  EXPECT_EQ(right_side("(i < j or on) and on"), "(i < j or on) and on");
  EXPECT_EQ(right_side("(i < j) == (j < k)"), "(i < j) == (j < k)");
  EXPECT_EQ(right_side("(i < j) * s"), "(i < j) * s");
  EXPECT_EQ(right_side("i > j"), "j < i");
  EXPECT_EQ(right_side("i >= j"), "j <= i");
}

TEST(ProgramParse, ExpressionsAreRaw) {
  const Program p = parse("axis i\ninput x[i] : f32\ny[i] = -x ** 2 - x / 2\noutput y");
  const Expr v = p.definitions[0].value;
  ASSERT_TRUE(v.is(Op::Sub));
  EXPECT_TRUE(v.arg(0).is(Op::Neg));
  EXPECT_TRUE(v.arg(0).arg(0).is(Op::Pow));
  EXPECT_TRUE(v.arg(1).is(Op::Div));
}

TEST(ProgramParse, FunctionsThatStandForExpressions) {
  EXPECT_EQ(right_side("relu(s)"), "max(s, 0)");
  EXPECT_EQ(right_side("silu(s)"), "s * sigmoid(s)");
  EXPECT_EQ(right_side("gelu(s)"), "0.5 * s * (1 + erf(s / sqrt(2)))");
  EXPECT_EQ(right_side("pow(s, 2)"), "s ** 2");
  EXPECT_EQ(right_side("max(s, i, 2) + min(i, j)"), "max(s, i, 2) + min(i, j)");
  EXPECT_EQ(right_side("half * s"), "0.5 * s") << "lets are put in";
}

TEST(ProgramParse, Numbers) {
  EXPECT_EQ(right_side("1e-5 + 0.25 + 3. + .5 + 2E3"), "1e-05 + 0.25 + 3.0 + 0.5 + 2000.0");
  EXPECT_EQ(right_side("0.1"), "0.1");
  EXPECT_EQ(right_side("1e300"), "1e+300");
  EXPECT_EQ(right_side("2 * -2.0 ** 0.0 - -1e17"), "2 * -2.0 ** 0.0 - -1e+17") << "a real stays one";
  EXPECT_EQ(right_side("3.141592653589793"), "3.141592653589793");
  EXPECT_EQ(right_side("9223372036854775807"), "9223372036854775807");
}

TEST(ProgramParse, Reads) {
  EXPECT_EQ(right_side("sum[j](x)"), "sum[j](x[i, j])");
  EXPECT_EQ(right_side("q"), "q[(k g), d]");
  EXPECT_EQ(right_side("q[(k g), d // 2]"), "q[(k g), d // 2]");
  EXPECT_EQ(right_side("q[(g k), d]"), "q[(g k), d]");
  EXPECT_EQ(right_side("q[i + 1, d]"), "q[i + 1, d]") << "a flat index of a composite dimension";
  EXPECT_EQ(right_side("q[i, d]"), "q[i, d]");
  EXPECT_EQ(right_side("q[(i j k), d]"), "q[(i * size(j) + j) * size(k) + k, d]");
  EXPECT_EQ(right_side("x[(i j), 0]"), "x[i * size(j) + j, 0]");
  EXPECT_EQ(right_side("x[t[j] % 4, t[i // 2]]"), "x[t[j] % 4, t[i // 2]]");
  EXPECT_EQ(right_side("sum[j](x * softmax[j](x))"), "sum[j](x[i, j] * softmax[j](x[i, j]))");
}

TEST(ProgramParse, FlatIndexOfACompositeDimension) {
  const Program p = parse("axis i, k, g, h\ninput q[(k g h)] : f32\ny[i] = q[i]\noutput y");
  const Expr v = p.definitions[0].value;
  ASSERT_EQ(v.args().size(), 3u);
  const Expr i = p.axes[0].index, g = p.axes[2].index.size(), h = p.axes[3].index.size();
  EXPECT_EQ(v.arg(0), floordiv(i, g * h));
  EXPECT_EQ(v.arg(1), mod(floordiv(i, h), g));
  EXPECT_EQ(v.arg(2), mod(i, h));
}

TEST(ProgramParse, BooleansStayBooleans) {
  EXPECT_EQ(right_side("where(true, i, j)"), "where(true, i, j)");
  EXPECT_EQ(right_side("where(m, true, false)"), "where(m[i, j], true, false)");
  EXPECT_EQ(output_dtype("true"), DType::boolean);
}

TEST(ProgramParse, Types) {
  EXPECT_EQ(output_dtype("x"), DType::f32);
  EXPECT_EQ(output_dtype("z"), DType::f64);
  EXPECT_EQ(output_dtype("x + z"), DType::f64);
  EXPECT_EQ(output_dtype("x * w"), DType::f32) << "only inputs make reals f64";
  EXPECT_EQ(output_dtype("t"), DType::i64);
  EXPECT_EQ(output_dtype("i + t"), DType::i64);
  EXPECT_EQ(output_dtype("i / 2"), DType::f32);
  EXPECT_EQ(output_dtype("i // 2"), DType::i64);
  EXPECT_EQ(output_dtype("i ** 2"), DType::i64);
  EXPECT_EQ(output_dtype("i ** -2"), DType::f32);
  EXPECT_EQ(output_dtype("1"), DType::i64);
  EXPECT_EQ(output_dtype("1.0"), DType::f32);
  EXPECT_EQ(output_dtype("m"), DType::boolean);
  EXPECT_EQ(output_dtype("m + m"), DType::i64);
  EXPECT_EQ(output_dtype("sum[i](m)"), DType::i64);
  EXPECT_EQ(output_dtype("any[i](m)"), DType::boolean);
  EXPECT_EQ(output_dtype("mean[i](t)"), DType::f32);
  EXPECT_EQ(output_dtype("argmax[i](x)"), DType::i64);
  EXPECT_EQ(output_dtype("where(m, m, m)"), DType::boolean);
  EXPECT_EQ(output_dtype("where(m, 1, x)"), DType::f32);
  EXPECT_EQ(output_dtype("i8(x)"), DType::i64);
  EXPECT_EQ(output_dtype("bf16(z)"), DType::f32);
  EXPECT_EQ(output_dtype("max(t, 2)"), DType::i64);
  EXPECT_EQ(output_dtype("abs(t) + sign(t)"), DType::i64);
  EXPECT_EQ(output_dtype("exp(t)"), DType::f32);
}

TEST(ProgramParse, AxisSizes) {
  const Program p = parse(
      "axis a = size(b) + size(c), b = 2 * 3, c = size(b), n = 16 * size(m), m\n"
      "input x[a, n, m] : f32\ny[a] = sum[n, m](x)\noutput y");
  EXPECT_TRUE(p.axis("a")->size.is_constant(12)) << "sizes that follow from literals are literals";
  EXPECT_FALSE(p.axis("n")->baked());
  EXPECT_TRUE(p.axis("n")->size);
  EXPECT_FALSE(p.axis("m")->size);
}

TEST(ProgramParse, Overrides) {
  const std::string text =
      "axis i, d = 128, e = size(d)\ninput x[i, d] : f16\ny[i] : bf16 = sum[d](x)\nz[i] = y + "
      "size(e)\noutput y, z : f16";
  Overrides o;
  o.literal_sizes = {{"d", 64}, {"e", 64}};
  o.dtypes = {{"x", DType::bf16}, {"y", DType::f32}, {"z", DType::bf16}};
  const Program p = parse(text, o);
  EXPECT_TRUE(p.axis("d")->size.is_constant(64));
  EXPECT_TRUE(p.axis("e")->size.is_constant(64));
  EXPECT_FALSE(p.axis("i")->size) << "a size known when it runs stays so";
  EXPECT_EQ(p.inputs[0].dtype, DType::bf16);
  EXPECT_EQ(p.definitions[0].dtype, DType::f32);
  EXPECT_EQ(p.outputs[0].dtype, DType::f32);
  EXPECT_EQ(p.outputs[1].dtype, DType::bf16);
}

TEST(ProgramParse, LinesContinueInsideBracketsAndEndAnywhere) {
  const Program p = parse(
      "\xEF\xBB\xBF"
      "axis i\r\ninput x[\r\n i ] : f32 # c\r\ny[i] = (x # inside\n\n + 1)\n\noutput y");
  EXPECT_EQ(print(p), "axis i\ninput x[i] : f32\n\ny[i] = x[i] + 1\n\noutput y : f32\n");
}

TEST(ProgramParse, WithoutAxes) {
  const Program p = parse(
      "axis i\ninput s[] : f32\ninput x[i] : f32\nc[] = s * sum[i](x)\ny[i] = x / c + c[]\noutput y, c");
  EXPECT_EQ(p.definitions[0].axes.size(), 0u);
  EXPECT_NE(print(p).find("y[i] = x[i] / c[] + c[]"), std::string::npos);
}

#ifdef __SANITIZE_ADDRESS__  // each takes a minute there, and shows nothing that fewer do not
constexpr int many_levels = 3000, many_statements = 500;
#else
constexpr int many_levels = 100000, many_statements = 10000;
#endif

TEST(ProgramParse, NestingJustBelowTheLimit) {
  const auto nested = [](int n) {
    std::string open, close;
    for (int k = 0; k < n; ++k) open += "exp(", close += ")";
    return "axis i\ny[i] = " + open + "i" + close + "\noutput y";
  };
  EXPECT_NO_THROW(print(parse(nested(490))));
  EXPECT_THROW(parse(nested(510)), UserError);
  EXPECT_THROW(parse(nested(many_levels)), UserError);
}

TEST(ProgramParse, ManyStatements) {
  std::string text = "axis i, j\ninput x[i, j] : f32\n";
  for (int k = 0; k < many_statements; ++k)
    text +=
        "a" + std::to_string(k) + "[i] = sum[j](where(j <= i, x * " + std::to_string(k) + ", 0)) + x[i, 0]\n";
  const Program p = parse(fmt::format("{}output a{}, a0\n", text, many_statements - 1));
  EXPECT_EQ(p.definitions.size(), size_t(many_statements));
  EXPECT_EQ(print(parse(print(p))), print(p));
}

TEST(ProgramParse, ChainsOfDefinitionsAreBounded) {
  std::string text = "axis i\ninput x0[i] : f32\n";
  for (int k = 0; k < 10; ++k) {
    text += "x" + std::to_string(k + 1) + "[i] = ";
    for (int n = 0; n < 450; ++n) text += "-";
    text += "x" + std::to_string(k) + "\n";
  }
  try {
    parse(text + "output x10");
    FAIL();
  } catch (const UserError& e) {
    ASSERT_EQ(e.diagnostics().size(), 1u);
    EXPECT_EQ(e.diagnostics()[0].what, "`x5` and the definitions it reads nest deeper than 2000 levels");
  }
}

TEST(ProgramLoad, FilesThatAreNotPrograms) {
  EXPECT_THROW(load_program("/nonexistent/a.tw"), UserError);
  EXPECT_THROW(load_program("/"), UserError);
  EXPECT_EQ(load_program(std::string(TW_SOURCE_DIR) + "/examples/pf_causal.tw").name, "pf_causal");
}

}  // namespace
}  // namespace tilewright::program_parse_test
