// Emitted CUDA where the types of C++ decide what it means.
#include <gtest/gtest.h>

#include <sstream>

#include "tilewright/driver/kernel.h"

namespace tilewright::testing::emit_cuda_test {
namespace {

std::string source_of(const std::string& text) {
  CompileOptions o;
  o.target = Target::Cuda;
  o.arch = "sm_90a";
  const Compilation c = analyse(parse_program(std::make_shared<SourceText>(SourceText{"case.tw", text})), o);
  return lower_source(c, lower_mapped(c, lower(c, c.plans.front().plan), Target::Cuda, LayoutClass::General));
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

/// An index that is not proved to lie inside its array is tested where it is read, and the launch learns which it was.
TEST(EmitCuda, IndicesThatMayLieOutsideAreTested) {
  const std::string text = source_of(
      "axis i, j\ninput x[i] : f32\ninput t[j] : i64 range(0, 3)\ny[i] = sum[j](x[i + t[j]])\noutput y\n");
  EXPECT_NE(text.find("tw_inside("), std::string::npos);
  EXPECT_NE(text.find("long long* const error = (long long*)words.error;"), std::string::npos);
}

}  // namespace
}  // namespace tilewright::testing::emit_cuda_test
