// The neighbours of a number among the values of a dtype.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tilewright/support/dtype.h"

namespace tilewright::testing::dtype_values_test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(DTypeValues, LeastFromAndGreatestBelow) {
  EXPECT_EQ(least_from(DType::f16, 1.0001), 1 + 0x1p-10);
  EXPECT_EQ(least_from(DType::f16, 1 + 0x1p-10), 1 + 0x1p-10);
  EXPECT_EQ(least_from(DType::f16, -1.0001), -1);
  EXPECT_EQ(least_from(DType::f16, -1.0008), -1);
  EXPECT_EQ(least_from(DType::f16, 0x1p-30), 0x1p-24);
  EXPECT_EQ(least_from(DType::f16, -0x1p-30), 0);
  EXPECT_EQ(least_from(DType::f16, 65505), kInfinity);
  EXPECT_EQ(least_from(DType::f8e4m3, 449), kInfinity);
  EXPECT_EQ(greatest_below(DType::f16, 1), 1 - 0x1p-11);
  EXPECT_EQ(greatest_below(DType::f16, kInfinity), 65504);
  EXPECT_EQ(greatest_below(DType::bf16, 1e10), 149 * 0x1p26);
  EXPECT_EQ(least_from(DType::i8, -200), -128);
  EXPECT_EQ(least_from(DType::i8, 127.5), kInfinity);
  EXPECT_EQ(greatest_below(DType::i8, 1000), 127);
  EXPECT_EQ(greatest_below(DType::i32, 3), 2);
  EXPECT_EQ(greatest_below(DType::i8, -128), -kInfinity);
  EXPECT_EQ(least_from(DType::boolean, 0.5), 1);
  EXPECT_EQ(greatest_below(DType::boolean, 1), 0);
}

/// Against rounding: nothing of the dtype lies between a number and its neighbour.
TEST(DTypeValues, NoValueLiesBetween) {
  for (DType t : {DType::f32, DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2})
    for (double x = -500; x < 500; x += 0.37) {
      const double up = least_from(t, x), down = greatest_below(t, x);
      if (std::isinf(up) || std::isinf(down)) continue;
      EXPECT_EQ(round_to(t, up), up);
      EXPECT_EQ(round_to(t, down), down);
      EXPECT_LE(x, up);
      EXPECT_LT(down, x);
      const double middle = round_to(t, down / 2 + up / 2);
      EXPECT_TRUE(middle == up || middle == down || middle == x) << name(t) << " " << x;
    }
}

}  // namespace
}  // namespace tilewright::testing::dtype_values_test
