// Programs of any size are compiled or refused by name, in a few seconds.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ctime>

#include "tilewright/driver/compiled.h"

namespace tilewright::large_programs_test {
namespace {

const std::string kHead = "axis i, j\ninput x[i, j] : f32\n";

std::string times(int n, const std::string& s) {
  std::string all;
  for (int k = 0; k < n; ++k) all += s;
  return all;
}

/// f(0) f(1) … f(n − 1)
template <class F>
std::string each(int n, F f) {
  std::string all;
  for (int k = 0; k < n; ++k) all += f(k);
  return all;
}

/// Compiles the text down to source for a CPU; the first message of a refusal, without its position.
std::string outcome(const std::string& text) {
  const std::clock_t begin = std::clock();
  std::string result = "compiled";
  try {
    CompileOptions o;
    const CompiledProgram all =
        compile_program(parse_program(std::make_shared<SourceText>(SourceText{"t.tw", text})), o);
    for (const Compilation& c : all.kernels)
      for (const GuardedPlan& g : c.plans)
        lower_source(c, lower_mapped(c, lower(c, g.plan), Target::Cpu, LayoutClass::General));
  } catch (const UserError& e) {
    result = e.diagnostics()[0].what;
    EXPECT_LT(std::string(e.what()).size(), 100000u) << "a message can be read";
  }
  EXPECT_LT(double(std::clock() - begin) / CLOCKS_PER_SEC, 5.0) << text.substr(0, 200);
  return result;
}

TEST(LargePrograms, TenThousandStatements) {
  EXPECT_EQ(outcome(kHead + each(10000, [](int k) { return fmt::format("a{}[i, j] = x + {}\n", k, k); }) +
                    "y[i] = sum[j](a9999)\noutput y\n"),
            "compiled");
  EXPECT_EQ(
      outcome(kHead + each(10000, [](int k) { return fmt::format("a{}[i] = sum[j](x * {})\n", k, k); }) +
              "y[i] = a9999\noutput y\n"),
      "compiled");
  EXPECT_EQ(outcome(kHead + "let l0 = 1\n" +
                    each(9999, [](int k) { return fmt::format("let l{} = l{} + 1\n", k + 1, k); }) +
                    "y[i] = sum[j](x * l9999)\noutput y\n"),
            "compiled");
  EXPECT_EQ(outcome(kHead +
                    each(10000, [](int k) { return fmt::format("axis q{0}\ninput z{0}[q{0}] : f32\n", k); }) +
                    "y[i] = sum[j](x)\noutput y\n"),
            "compiled");
}

TEST(LargePrograms, ChainsOfDefinitions) {
  const auto chain = [](int n, const std::string& then) {
    return kHead + "a0[i, j] = x\n" +
           each(n - 1, [&](int k) { return fmt::format("a{}[i, j] = a{}{}\n", k + 1, k, then); }) +
           fmt::format("y[i] = sum[j](a{})\noutput y\n", n - 1);
  };
  EXPECT_EQ(outcome(chain(900, " + 1")), "compiled");
  EXPECT_EQ(outcome(chain(5000, " + 1")),
            "`a1000` and the definitions it reads nest deeper than 2000 levels");
  EXPECT_EQ(outcome(chain(5000, " * x + 2")),
            "`a667` and the definitions it reads nest deeper than 2000 levels");
}

TEST(LargePrograms, ValuesThatGrowWithEveryDefinition) {
  const auto squares = [](int steps) {
    return kHead + "a0[i, j] = x\n" +
           each(steps, [](int k) { return fmt::format("a{0}[i, j] = a{1} + a{1} * a{1}\n", k + 1, k); }) +
           fmt::format("y[i] = sum[j](a{})\noutput y\n", steps);
  };
  for (int steps : {9, 13, 40, 100}) EXPECT_EQ(outcome(squares(steps)), "compiled") << "by several kernels";
}

TEST(LargePrograms, LongExpressions) {
  const auto sum_of = [](const std::string& body) {
    return kHead + "y[i] = sum[j](" + body + ")\noutput y\n";
  };
  EXPECT_EQ(outcome(sum_of(times(10000, "(") + "x" + times(10000, ")"))),
            "the expression nests deeper than 500 levels");
  EXPECT_EQ(outcome(sum_of("x" + times(10000, " + x"))),
            "more than 1000 operations depend on each other in one expression");
  EXPECT_EQ(outcome(sum_of("x" + each(400, [](int k) { return fmt::format(" + max(x, {})", k); }))),
            "compiled");
  EXPECT_EQ(outcome(sum_of("1" + each(200, [](int k) { return fmt::format(" * (x + {})", k); }))),
            "compiled");
}

TEST(LargePrograms, LongWordsAndNumbers) {
  const std::string name(100000, 'y');
  EXPECT_EQ(outcome(kHead + name + "[i] = sum[j](x)\noutput " + name + "\n"), "compiled");
  EXPECT_EQ(outcome(kHead + name + "[i] = sum[j](x)\noutput " + name + "z\n").substr(0, 10), "unknown na");
  const std::string digits(1000000, '1');
  EXPECT_EQ(outcome(kHead + "y[i] = sum[j](x * 0." + digits + ")\noutput y\n"), "compiled");
  EXPECT_NE(outcome(kHead + "y[i] = sum[j](x * " + digits + ")\noutput y\n"), "compiled");
  EXPECT_NE(outcome(kHead + "y[i] = sum[j](x * 1e" + digits + ")\noutput y\n"), "compiled");
  EXPECT_EQ(outcome(kHead + "#" + digits + "\ny[i] = sum[j](x)\noutput y\n"), "compiled");
}

}  // namespace
}  // namespace tilewright::large_programs_test
