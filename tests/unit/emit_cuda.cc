// Emitted CUDA where the types of C++ decide what it means.
#include <gtest/gtest.h>

#include <sstream>

#include "tilewright/driver/kernel.h"

namespace tilewright::testing::emit_cuda_test {
namespace {

/// Under the plan for the least sizes, or for the largest.
std::string source_of(const std::string& text, bool largest = false) {
  CompileOptions o;
  o.target = Target::Cuda;
  o.arch = "sm_90a";
  const Compilation c = analyse(parse_program(std::make_shared<SourceText>(SourceText{"case.tw", text})), o);
  const Plan& plan = (largest ? c.plans.back() : c.plans.front()).plan;
  return lower_source(c, lower_mapped(c, lower(c, plan), Target::Cuda, LayoutClass::General));
}

/// The helpers for extremes are overloaded: a value computed in f64 beside a total in f32 would fit none of them alone.
TEST(EmitCuda, ExtremesCompareNumbersOfOneType) {
  const std::string text = source_of(
      "axis r, j\ninput x[r, j] : f32\ninput m[r, j] : bool\nt[r] = argmin[j](where(m or j >= 2, x, "
      "-inf))\noutput t\n");
  std::istringstream lines(text);
  size_t found = 0;
  for (std::string line; std::getline(lines, line);) {
    const size_t at = line.find_first_not_of(' '), end = line.find('[');
    if (line.find(" = tw_min(") == std::string::npos || line.find("(double)") == std::string::npos) continue;
    if (text.find("float " + line.substr(at, end - at) + "[") == std::string::npos)
      continue;  // the total is f64
    ++found;
    EXPECT_NE(line.find(", (float)("), std::string::npos) << line;
  }
  EXPECT_GT(found, 0u);
}

/// Functions of two integers of 64 bits name their type: a literal beside them is an int.
TEST(EmitCuda, FunctionsOfWideIntegersNameTheirType) {
  const std::string text = source_of(
      "axis t, v, d\ninput at[t] : i64 range(-1, size(v))\ninput x[v, d] : f32\n"
      "y[t] = sum[d](x[max(at[t] // 3, 0), d] + x[min(at[t] % 5, size(v) - 1), d])\noutput y\n");
  for (const char* name : {"tw_max", "tw_min", "tw_floor_div", "tw_floor_mod"})
    EXPECT_NE(text.find(std::string(name) + "<long long>("), std::string::npos) << name;
}

/// An index that is not proved to lie inside its array is tested where it is read, and the launch learns which it was.
TEST(EmitCuda, IndicesThatMayLieOutsideAreTested) {
  const std::string text = source_of(
      "axis i, j\ninput x[i] : f32\ninput t[j] : i64 range(0, 3)\ny[i] = sum[j](x[i + t[j]])\noutput y\n");
  EXPECT_NE(text.find("tw_inside("), std::string::npos);
  EXPECT_NE(text.find("long long* const error = (long long*)words.error;"), std::string::npos);
}

/// A choice of indices of what is always there has a condition of no terms in front of what arrays say.
TEST(EmitCuda, BoundsOfConditionsOfNoTerms) {
  const std::string text = source_of(
      "axis r, j\ninput x[r, j] : f32\ninput g[j] : i32 range(0, 3)\n"
      "t[r] = argmin[j](where(i64(g) == r % 3, x, -inf))\noutput t\n",
      true);
  EXPECT_NE(text.find("tw_chunks_of("), std::string::npos);
  EXPECT_EQ(text.find("= ;"), std::string::npos);
}

std::string attention(const std::string& scores, const std::string& dtype) {
  return "axis i, j\naxis d = 64, e = 64\nparam cap : f32 = 50\ninput Q[i, d] : f16\n"
         "input K[j, d] : f16\ninput V[j, e] : f16\nS[i, j] = sum[d](Q * K)\nC[i, j] = " +
         scores + "\nO[i, e] = sum[j](softmax[j](C) * V)\noutput O : " + dtype + "\n";
}

/// What narrow results cannot tell apart is computed by polynomials near 0; f32 results take functions that hold their digits.
TEST(EmitCuda, TangentsNearZeroByPolynomialForNarrowResults) {
  const std::string narrow = source_of(attention("cap * tanh(S / cap)", "f16"));
  EXPECT_NE(narrow.find("tw_tanh_near(S["), std::string::npos);
  EXPECT_NE(narrow.find("tw_tanh_terms("), std::string::npos);
  EXPECT_EQ(narrow.find("tw_tanh_exact("), std::string::npos);
  // Element work that runs while products read their operands leaves these in their registers.
  EXPECT_NE(narrow.find("tw_keep(P, "), std::string::npos);
  const std::string wide = source_of(attention("cap * tanh(S / cap)", "f32"));
  EXPECT_EQ(wide.find("tw_tanh_near("), std::string::npos);
  EXPECT_NE(wide.find("tw_tanh_exact("), std::string::npos);
}

}  // namespace
}  // namespace tilewright::testing::emit_cuda_test
