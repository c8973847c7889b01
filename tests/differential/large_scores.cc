// Scores of any finite magnitude: an exponential of a difference is as exact as the difference.
#include <cmath>
#include <limits>

#include "tests/support/scores.h"
#include "tests/support/wide_operands.h"

namespace tilewright::testing::large_scores_test {
namespace {

TEST(LargeScores, Cpu) { expect_definition_of_scores(Target::Cpu); }
TEST(LargeScores, Interp) { expect_definition_of_scores(Target::Interp); }
TEST(LargeScores, InterpMapped) {
  expect_definition_of_scores(Target::InterpMapped);
  expect_definition_of_scores(Target::InterpMapped, Target::Cpu);
}

/// `check` passes for O = softmax over j of `scores`, which may use S[i, j], a param o and an input z[i].
void expect_scores(const std::string& scores, Target target, double o = 0, double z = 0) {
  SCOPED_TRACE(fmt::format("{} on {}, o = {}, z = {}", scores, name(target), o, z));
  const Program p = parse_program(std::make_shared<SourceText>(SourceText{
      "s.tw", fmt::format("axis i, j\naxis d = 8\nparam o : f32\ninput Q[i, d] : f32\ninput K[j, d] : f32\n"
                          "input V[j, d] : f32\ninput z[i] : f32\nS[i, j] = sum[d](Q * K)\nM[i, j] = {}\n"
                          "O[i, d] = sum[j](softmax[j](M) * V)\noutput O\n",
                          scores)}));
  CompileOptions options;
  options.target = target;
  SessionOptions s;
  s.sizes = {{"i", 7}, {"j", 70}};
  s.params = {{"o", o}};
  s.inputs["z"].array = allocate(DType::f32, {7});
  for (int64_t k = 3; k < 7; ++k) store_element(DType::f32, s.inputs["z"].array->data.get(), k, z);
  Session session(p, options, s);
  session.run(0, 1);
  for (const OutputCheck& c : session.check())
    EXPECT_TRUE(c.comparison.passed) << c.comparison.reason << ", error " << c.comparison.error << ", got "
                                     << c.got << ", expected " << c.expected;
}

/// Masks as people write them: a number that swallows what it is added to.
TEST(LargeScores, Literals) {
  for (const char* scores : {"where(j <= 10 * i, S, -1e30)", "S + (-3e38)", "S + 1e15", "S - 1e30 * (j > i)",
                             "S + where(j > i, -1e30, 0)", "S + (1 - f32(j <= i)) * (-3.4e38)",
                             "S - 1e9 * (1 - (j <= i))", "S * 1e12", "S + 3e6", "S - 1e20 * j"})
    expect_scores(scores, Target::Interp);
  expect_scores("where(j <= 10 * i, S, -1e30) + (-3e38)", Target::Cpu);
}

/// Exponentials within a unit in the last place of their range; beyond it 0 and infinity, and NaN of NaN.
TEST(LargeScores, EndsOfExponentials) {
  const double inf = std::numeric_limits<double>::infinity();
  std::vector<double> xs{-inf, inf, std::nan(""), -3e38, -200, -149, -127, -126.5, 128, 129, 130, 3e38};
  for (double x = -124; x < 128; x += 0.171875) xs.push_back(x);
  const int64_t n = static_cast<int64_t>(xs.size());
  CompileOptions options;
  options.target = Target::Cpu;
  SessionOptions s;
  s.sizes = {{"i", 1}, {"j", n}};
  s.inputs["x"].array = allocate(DType::f32, {1, n});
  for (int64_t k = 0; k < n; ++k) store_element(DType::f32, s.inputs["x"].array->data.get(), k, xs[k]);
  Session session(parse_program(std::make_shared<SourceText>(
                      SourceText{"e.tw", "axis i, j\ninput x[i, j] : f32\ny[i, j] = exp2(x)\noutput y\n"})),
                  options, s);
  session.run(0, 1);
  for (int64_t k = 0; k < n; ++k) {
    const double y = session.outputs().at("y").at(k), exact = std::exp2(xs[k]);
    if (std::isnan(xs[k]))
      EXPECT_TRUE(std::isnan(y));
    else if (xs[k] >= 128 || xs[k] < -126)
      EXPECT_EQ(y, xs[k] > 0 ? inf : 0) << xs[k];
    else
      EXPECT_NEAR(y / exact, 1, 1.2e-7) << xs[k];
  }
}

/// The same where the row is stored: the exponents are taken once more, after the stream.
TEST(LargeScores, RowsThatAreStored) {
  for (const char* scores : {"S + 1e15", "S + 1e30", "S - 3e38", "S * 3 + 1e9", "S * 3 - 1e9", "1e7 - S",
                             "S + (1 - k) * -1e30", "S + (1 - k) * -1e9"})
    for (const char* schedule : {"", "stream j=16"}) {
      SCOPED_TRACE(fmt::format("{} {}", scores, schedule));
      const Program p = parse_program(std::make_shared<SourceText>(SourceText{
          "rows.tw",
          fmt::format(
              "axis i, j\ninput S[i, j] : f32\ninput k[i, j] : f32\nP[i, j] = softmax[j]({})\noutput P\n",
              scores)}));
      CompileOptions options;
      options.target = Target::Interp;
      options.schedule = schedule;
      SessionOptions s;
      s.sizes = {{"i", 7}, {"j", 70}};
      Session session(p, options, s);
      session.run(0, 1);
      for (const OutputCheck& c : session.check())
        EXPECT_TRUE(c.comparison.passed) << c.comparison.reason << ", error " << c.comparison.error
                                         << ", got " << c.got << ", expected " << c.expected;
    }
}

/// A NaN, an infinity or a large number that is the same along j is data that shows, though it cancels over the reals.
TEST(LargeScores, DataThatDoesNotVaryAlongTheStream) {
  for (double x : {double(NAN), double(INFINITY), -double(INFINITY), -3e38, 1e9}) {
    expect_scores("S + o", Target::Interp, x);
    expect_scores("S + z[i]", Target::Interp, 0, x);
  }
  expect_scores("S + z[i] - o", Target::Cpu, 5, NAN);
}

/// An operand that 16 bits cannot hold is multiplied as it is.
TEST(LargeScores, OperandsBeyondTheRangeOfF16) {
  for (Target target : {Target::Cpu, Target::Interp, Target::InterpMapped}) expect_wide_operands(target);
}

}  // namespace
}  // namespace tilewright::testing::large_scores_test
