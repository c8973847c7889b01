// The rule of `check`, and the sample it takes when the reference is too long to evaluate whole.
#include "tilewright/driver/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace tilewright::compare_test {
namespace {

const double inf = INFINITY, nan_value = NAN;

TEST(Compare, IntegersMayFallToEitherSideOfATie) {
  EXPECT_FALSE(compare({44}, {43}, {44}, DType::i8).passed);
  EXPECT_TRUE(compare({44}, {43}, {44}, DType::i8, {44}).passed);
  EXPECT_TRUE(compare({43}, {43}, {44}, DType::i8, {44}).passed);
  EXPECT_FALSE(compare({45}, {43}, {44}, DType::i8, {44}).passed);
}

TEST(Compare, SaysWhereTheToleranceIsLoose) {
  // The naive program is far off in one element, which sets the tolerance of all.
  std::vector<double> ref(64, 1.0), naive(64, 1.0);
  EXPECT_FALSE(compare(ref, ref, naive, DType::f32).loose());
  EXPECT_DOUBLE_EQ(compare(ref, ref, naive, DType::f32).usual, 1.0);
  naive[0] = 1.2;
  const Comparison c = compare(ref, ref, naive, DType::f32);
  EXPECT_TRUE(c.passed);
  EXPECT_TRUE(c.loose());
  // Exact zeros, integers and nothing at all are not.
  const std::vector<double> zeros(4, 0.0);
  EXPECT_FALSE(compare(zeros, zeros, zeros, DType::f32).loose());
  EXPECT_FALSE(compare({3}, {3}, {3}, DType::i32).loose());
  EXPECT_FALSE(compare({}, {}, {}, DType::f32).loose());
  EXPECT_FALSE(compare({inf}, {inf}, {inf}, DType::f32).loose());
}

TEST(Compare, AcceptsTwiceTheErrorOfNaiveAndTheDtypesResolution) {
  // 0.75 + 0.3 − 0.3 in f16 is 0.75 + 2^-12 or so: resolution near 1 is 2^-10.
  const std::vector<double> ref = {0.75, -0.5}, naive = {0.75 + 0.01, -0.5};
  const double resolution =
      std::fabs(round_to(DType::f16,
                         round_to(DType::f16, 0.75 + round_to(DType::f16, 0.3)) - round_to(DType::f16, 0.3)) -
                0.75);
  Comparison c = compare({0.75 + 0.0199, -0.5}, ref, naive, DType::f16);
  EXPECT_TRUE(c.passed) << c.reason;
  EXPECT_NEAR(c.error, 0.0199, 1e-12);
  EXPECT_GE(c.tolerance, 0.02 + 2 * resolution - 1e-12);
  EXPECT_LT(c.tolerance, 0.0215);
  EXPECT_EQ(c.elements, 2);
  c = compare({0.75, -0.5 - 0.022}, ref, naive, DType::f16);
  EXPECT_FALSE(c.passed);
  EXPECT_EQ(c.worst, 1);
  EXPECT_FALSE(c.reason.empty());
}

TEST(Compare, TiesAddToTheTolerance) {
  const std::vector<double> ref = {1, 2}, ties = {1.25, 2};
  EXPECT_TRUE(compare({1, 2.25}, ref, ref, DType::f32, ties).passed);
  EXPECT_FALSE(compare({1, 2.26}, ref, ref, DType::f32, ties).passed);
  EXPECT_FALSE(compare({1, 2.25}, ref, ref, DType::f32).passed);
  EXPECT_TRUE(compare({1, 2}, ref, ref, DType::f32, {INFINITY, NAN}).passed);  // an overflow takes no part
}

TEST(Compare, ResolutionOfOneElementIsAtLeastHalfAUnit) {
  // 0.5 + 0.3 − 0.3 is 0.5 in f32.
  const float third = 0.3f, sum = 0.5f + third, back = sum - third;
  ASSERT_EQ(back, 0.5f);
  EXPECT_DOUBLE_EQ(compare({0.5}, {0.5}, {0.5}, DType::f32).tolerance, 2 * 0.5 * std::ldexp(1.0, -24));
}

TEST(Compare, ResolutionIsThatOfTheOutputsDtype) {
  std::vector<double> ref;
  for (int k = 0; k < 100; ++k) ref.push_back(0.01 * k - 0.5);
  auto tolerance = [&](DType t) { return compare(ref, ref, ref, t).tolerance; };
  EXPECT_LT(tolerance(DType::f64), 1e-15);
  EXPECT_GT(tolerance(DType::f64), 0);
  EXPECT_LT(tolerance(DType::f32), 3e-7);
  EXPECT_LT(tolerance(DType::f16), 2e-3);
  EXPECT_LT(tolerance(DType::bf16), 2e-2);
  EXPECT_GT(tolerance(DType::bf16), 1e-3);
  EXPECT_GT(tolerance(DType::f16), 1e-4);
  // An output off by more than the resolution fails when naive is exact.
  std::vector<double> out = ref;
  out[40] += 1e-3;
  EXPECT_FALSE(compare(out, ref, ref, DType::f32).passed);
  EXPECT_EQ(compare(out, ref, ref, DType::f32).worst, 40);
  EXPECT_TRUE(compare(out, ref, ref, DType::bf16).passed);
}

TEST(Compare, NonFiniteValuesMatchInKindAndPlaceAndLeaveTheMaxima) {
  const std::vector<double> ref = {1, inf, -inf, nan_value};
  EXPECT_TRUE(compare(ref, ref, ref, DType::f32).passed);
  EXPECT_LT(compare(ref, ref, ref, DType::f32).tolerance, 1e-6);
  // A naive evaluation that overflows where the reference does not gives no licence.
  Comparison c = compare({1 + 1e-3, inf, -inf, nan_value}, ref, {inf, inf, -inf, nan_value}, DType::f32);
  EXPECT_FALSE(c.passed);
  EXPECT_EQ(c.worst, 0);
  for (size_t k = 0; k < 4; ++k)
    for (double wrong : {2.0, inf, -inf, nan_value}) {
      std::vector<double> out = ref;
      if (out[k] == wrong || (std::isnan(out[k]) && std::isnan(wrong))) continue;
      out[k] = wrong;
      c = compare(out, ref, ref, DType::f32);
      EXPECT_FALSE(c.passed) << k << " " << wrong;
      EXPECT_EQ(c.worst, int64_t(k));
    }
}

TEST(Compare, OverflowOfTheOutputsDtypeIsExpected) {
  EXPECT_TRUE(compare({inf, 1}, {1e6, 1}, {1e6, 1}, DType::f16).passed);
  EXPECT_FALSE(compare({65504, 1}, {1e6, 1}, {1e6, 1}, DType::f16).passed);
  EXPECT_TRUE(compare({448, 1}, {448, 1}, {448, 1}, DType::f8e4m3).passed);
}

TEST(Compare, IntegersAreEqual) {
  EXPECT_TRUE(compare({3, -1}, {3, -1}, {3, 7}, DType::i32).passed);
  Comparison c = compare({3, 0}, {3, -1}, {3, 7}, DType::i32);
  EXPECT_FALSE(c.passed);
  EXPECT_EQ(c.worst, 1);
}

TEST(Compare, AnIndexMayBeThatOfTheKey) {
  EXPECT_TRUE(compare({3, 5}, {3, 4}, {3, 4}, DType::i32, {}, {2, 5}).passed);
  const Comparison c = compare({3, 6}, {3, 4}, {3, 4}, DType::i32, {}, {2, 5});
  EXPECT_FALSE(c.passed);
  EXPECT_EQ(c.worst, 1);
}

TEST(Compare, ElementsThatAreComparedInKindAreCounted) {
  EXPECT_EQ(compare({inf, 1, -inf}, {inf, 1, -inf}, {inf, 1, -inf}, DType::f32).not_finite, 2);
  EXPECT_EQ(compare({3, -1}, {3, -1}, {3, 7}, DType::i32).not_finite, 0);
}

TEST(Compare, NothingIsEqualToNothing) { EXPECT_TRUE(compare({}, {}, {}, DType::f32).passed); }

TEST(Sample, HoldsEndsAndTileEdgesAndRepeatsItself) {
  const std::vector<int64_t> shape = {3, 1000, 130}, steps = {1, 128, 64};
  auto sample = sample_indices(shape, steps, 200, 5);
  EXPECT_EQ(sample.size(), 200u);
  EXPECT_EQ(sample[0], (std::vector<int64_t>{0, 0, 0}));
  EXPECT_EQ(sample[1], (std::vector<int64_t>{2, 999, 129}));
  std::set<std::vector<int64_t>> distinct(sample.begin(), sample.end());
  EXPECT_EQ(distinct.size(), sample.size());
  std::vector<std::set<int64_t>> seen(3);
  for (auto& index : sample)
    for (size_t k = 0; k < 3; ++k) {
      ASSERT_GE(index[k], 0);
      ASSERT_LT(index[k], shape[k]);
      seen[k].insert(index[k]);
    }
  for (int64_t edge : {127, 128, 895, 896}) EXPECT_TRUE(seen[1].count(edge)) << edge;
  for (int64_t edge : {63, 64, 127, 128}) EXPECT_TRUE(seen[2].count(edge)) << edge;
  EXPECT_EQ(sample_indices(shape, steps, 200, 5), sample);
  EXPECT_NE(sample_indices(shape, steps, 200, 6), sample);
}

TEST(Sample, OfASmallArrayIsAllOfIt) {
  EXPECT_EQ(sample_indices({2, 2}, {1, 1}, 100, 1).size(), 4u);
  EXPECT_EQ(sample_indices({}, {}, 100, 1).size(), 1u);
  EXPECT_TRUE(sample_indices({4, 0}, {2, 2}, 100, 1).empty());
}

}  // namespace
}  // namespace tilewright::compare_test
