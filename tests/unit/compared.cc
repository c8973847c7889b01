// Which values are whole: those that are compared with themselves, and no others.
#include "tilewright/program/compared.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/examples.h"
#include "tilewright/program/elaborate.h"

namespace tilewright::testing::compared_test {
namespace {

/// The definitions of a program, with Z as given and what follows, that hold a whole value; "f64" where inputs are.
std::vector<std::string> whole_ones(const std::string& value, const std::string& uses,
                                    const std::string& real = "f32") {
  const Program p =
      with_compared_values_whole(elaborate(parse_program(std::make_shared<SourceText>(SourceText{
          "c.tw", fmt::format("axis i, j\naxis k = size(j)\ninput x[i, j] : {}\ninput y[j] : {}\nZ[i, j] "
                              "= {}\n{}\noutput o\n",
                              real, real, value, uses)}))));
  std::vector<std::string> names;
  for (const Definition& d : p.definitions) {
    bool found = false;
    rewrite(d.value, [&](Expr e) {
      found = found || (is_whole(e) && e->dtype == (real == "f64" ? DType::f64 : DType::f32));
      return e;
    });
    if (found) names.push_back(d.sym.name());
  }
  return names;
}

using Names = std::vector<std::string>;

TEST(Compared, DefinitionsWithTheirExtrema) {
  const std::string z = "0.3 * x + y";
  EXPECT_EQ(whole_ones(z, "o[i] = sum[j](where(Z == max[j](Z), 1, 0))"), Names{"Z"});
  EXPECT_EQ(whole_ones(z, "o[i] = sum[j](where(Z == max[j](Z), 1, 0))", "f64"), Names{"Z"});
  EXPECT_EQ(whole_ones(z, "m[i] = max[j](Z)\no[i] = sum[j](where(Z - m >= 0, 1, 0))"), Names{"Z"});
  EXPECT_EQ(whole_ones(z, "o[i] = argmin[j](Z)"), Names{"Z"});
  EXPECT_EQ(whole_ones(z, "o[i, j] = sum[k](where(Z[i, k] > Z[i, j], 1, 0))"), Names{"Z"});
  // The probabilities are compared, not the scores.
  EXPECT_EQ(whole_ones(z, "P[i, j] = softmax[j](Z)\nm[i] = max[j](P)\no[i] = sum[j](where(P == m, 1, 0))"),
            Names{"P"});
}

TEST(Compared, ValuesWrittenAlike) {
  EXPECT_EQ(whole_ones("x", "o[i] = sum[j](where(2.5 * x + y == max[j](2.5 * x + y), 1, 0))"), Names{"o"});
  EXPECT_EQ(whole_ones("x", "o[i, j] = sum[k](where(2.5 * x[i, k] > 2.5 * x[i, j], 1, 0))"), Names{"o"});
  EXPECT_EQ(whole_ones("x", "o[i] = argmax[j](softmax[j](x))"), Names{"o"});
}

TEST(Compared, NothingElse) {
  const std::string z = "0.3 * x + y";
  EXPECT_EQ(whole_ones(z, "o[i] = logsumexp[j](Z)"), Names{});
  EXPECT_EQ(whole_ones(z, "o[i] = sum[j](softmax[j](where(j <= i, Z, -inf)) * y)"), Names{});
  EXPECT_EQ(whole_ones(z, "o[i] = sum[j](where(Z > 0.5, Z, 0))"), Names{});
  EXPECT_EQ(whole_ones(z, "P[i, j] = softmax[j](Z)\no[i] = -sum[j](where(P == 0, 0, P * log(P)))"), Names{})
      << "a probability that is 0 is no score that is the largest";
  EXPECT_EQ(whole_ones(z, "m[i] = max[j](x)\no[i] = sum[j](where(Z > m, 1, 0))"), Names{});
  EXPECT_EQ(whole_ones(z, "o[i] = argmax[j](Z + max[j](x))"), Names{}) << "the position of the largest Z";
  EXPECT_EQ(whole_ones("x", "o[i] = argmax[j](Z)"), Names{}) << "elements of an array are what they are";
}

}  // namespace
}  // namespace tilewright::testing::compared_test
