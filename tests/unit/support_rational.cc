#include "tilewright/support/rational.h"

#include <gtest/gtest.h>

#include <limits>

namespace tilewright::support_rational_test {
namespace {

TEST(Rational, LowestTermsWithPositiveDenominator) {
  EXPECT_EQ(Rational(6, -4).str(), "-3/2");
  EXPECT_EQ(Rational(0, -5), Rational(0));
  EXPECT_EQ(Rational(0, -5).den(), 1);
  EXPECT_EQ(Rational(8, 4).str(), "2");
}

TEST(Rational, Arithmetic) {
  EXPECT_EQ(Rational(1, 3) + Rational(1, 6), Rational(1, 2));
  EXPECT_EQ(Rational(1, 3) - Rational(1, 2), Rational(-1, 6));
  EXPECT_EQ(Rational(2, 3) * Rational(9, 4), Rational(3, 2));
  EXPECT_EQ(Rational(2, 3) / Rational(-4, 9), Rational(-3, 2));
  EXPECT_EQ(-Rational(2, 3), Rational(-2, 3));
  EXPECT_EQ(Rational(-7, 2).floor(), Rational(-4));
  EXPECT_EQ(Rational(7, 2).floor(), Rational(3));
  EXPECT_EQ(Rational(-4).floor(), Rational(-4));
}

TEST(Rational, OrderIsExact) {
  const int64_t big = std::numeric_limits<int64_t>::max();
  EXPECT_LT(Rational(big - 1, big), Rational(1));
  EXPECT_LT(Rational(big - 2, big - 1), Rational(big - 1, big));
  EXPECT_GT(Rational(-1, 3), Rational(-1, 2));
}

TEST(Rational, OverflowThrows) {
  const int64_t big = std::numeric_limits<int64_t>::max();
  EXPECT_THROW(Rational(big) + Rational(1), RationalOverflow);
  EXPECT_THROW(Rational(big) * Rational(2), RationalOverflow);
  EXPECT_THROW(Rational(1, big) * Rational(1, 2), RationalOverflow);
  EXPECT_EQ(Rational(big, 2) * Rational(2), Rational(big)) << "intermediate products may be wider";
}

TEST(Rational, ParsesDecimals) {
  EXPECT_EQ(Rational::parse("1e-5"), Rational(1, 100000));
  EXPECT_EQ(Rational::parse("0.25"), Rational(1, 4));
  EXPECT_EQ(Rational::parse("-12.50"), Rational(-25, 2));
  EXPECT_EQ(Rational::parse("3E2"), Rational(300));
  EXPECT_EQ(Rational::parse(".5"), Rational(1, 2));
  EXPECT_EQ(Rational::parse("1.000000000000000000000"), Rational(1));
  EXPECT_EQ(Rational::parse("1e40"), std::nullopt);
  EXPECT_EQ(Rational::parse("1e-40"), std::nullopt);
  EXPECT_EQ(Rational::parse("0e999"), Rational(0));
  for (const char* wrong : {"", ".", "-", "1e", "1e+", "1x", "1.2.3", "e5", "inf"})
    EXPECT_EQ(Rational::parse(wrong), std::nullopt) << wrong;
}

}  // namespace
}  // namespace tilewright::support_rational_test
