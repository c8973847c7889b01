#include "tilewright/support/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace tilewright::support_dtype_test {
namespace {

constexpr DType kAll[] = {DType::f64,    DType::f32, DType::f16, DType::bf16, DType::f8e4m3,
                          DType::f8e5m2, DType::i64, DType::i32, DType::i8,   DType::boolean};
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(DType, NamesRoundTrip) {
  for (DType t : kAll) EXPECT_EQ(parse_dtype(name(t)), t);
  EXPECT_EQ(parse_dtype("boolean"), std::nullopt);
  EXPECT_STREQ(name(DType::boolean), "bool");
}

TEST(DType, SizesAndKinds) {
  EXPECT_EQ(bytes(DType::f64), 8);
  EXPECT_EQ(bytes(DType::bf16), 2);
  EXPECT_EQ(bytes(DType::f8e5m2), 1);
  EXPECT_EQ(bytes(DType::boolean), 1);
  EXPECT_TRUE(is_float(DType::f8e4m3));
  EXPECT_FALSE(is_float(DType::i32));
  EXPECT_TRUE(is_integer(DType::i8));
  EXPECT_FALSE(is_integer(DType::boolean));
}

TEST(DType, MaximaAreTheirOwnRounding) {
  for (DType t : kAll) {
    if (!is_float(t)) continue;
    EXPECT_EQ(round_to(t, max_finite(t)), max_finite(t)) << name(t);
    // One more unit in the last place does not fit.
    if (t == DType::f64) continue;
    double ulp = std::ldexp(1, std::ilogb(max_finite(t)) - mantissa_bits(t));
    EXPECT_EQ(round_to(t, max_finite(t) + ulp), t == DType::f8e4m3 ? 448 : kInf) << name(t);
  }
}

TEST(DType, RoundsHalfToEven) {
  EXPECT_EQ(round_to(DType::f16, 2049), 2048);
  EXPECT_EQ(round_to(DType::f16, 2051), 2052);
  EXPECT_EQ(round_to(DType::bf16, 257), 256);
  EXPECT_EQ(round_to(DType::bf16, 259), 260);
  EXPECT_EQ(round_to(DType::f8e4m3, 17), 16);
  EXPECT_EQ(round_to(DType::f8e4m3, 19), 20);
  EXPECT_EQ(round_to(DType::f8e5m2, 9), 8);
  EXPECT_EQ(round_to(DType::f32, 16777217.0), 16777216.0);
  EXPECT_EQ(round_to(DType::f16, -2049), -2048);
}

TEST(DType, Subnormals) {
  EXPECT_EQ(round_to(DType::f16, 0x1p-24), 0x1p-24);
  EXPECT_EQ(round_to(DType::f16, 0x1p-25), 0);
  EXPECT_EQ(round_to(DType::f16, 0x1.8p-25), 0x1p-24);
  EXPECT_EQ(round_to(DType::f8e4m3, 0x1p-9), 0x1p-9);
  EXPECT_EQ(round_to(DType::f8e4m3, 0x1p-10), 0);
  EXPECT_EQ(round_to(DType::f8e5m2, 0x1p-16), 0x1p-16);
  EXPECT_EQ(round_to(DType::bf16, 0x1p-133), 0x1p-133);
}

TEST(DType, Overflow) {
  EXPECT_EQ(round_to(DType::f16, 65520), kInf);
  EXPECT_EQ(round_to(DType::f16, 65519), 65504);
  EXPECT_EQ(round_to(DType::f16, -1e9), -kInf);
  EXPECT_EQ(round_to(DType::f8e4m3, 1e9), 448);
  EXPECT_EQ(round_to(DType::f8e4m3, -kInf), -448);
  EXPECT_EQ(round_to(DType::f8e5m2, 1e9), kInf);
  EXPECT_TRUE(std::isnan(round_to(DType::f8e4m3, std::nan(""))));
}

TEST(DType, IntegersTruncateAndSaturate) {
  EXPECT_EQ(round_to(DType::i32, -2.9), -2);
  EXPECT_EQ(round_to(DType::i32, 2.9), 2);
  EXPECT_EQ(round_to(DType::i8, 300), 127);
  EXPECT_EQ(round_to(DType::i8, -300), -128);
  EXPECT_EQ(round_to(DType::i32, kInf), 2147483647);
  EXPECT_EQ(round_to(DType::boolean, 0.25), 1);
  EXPECT_EQ(round_to(DType::boolean, 0), 0);
}

TEST(DType, EveryBitPatternSurvivesLoadAndStore) {
  for (DType t : {DType::f16, DType::bf16}) {
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      uint16_t in = uint16_t(bits), out = 0;
      double x = load_element(t, &in, 0);
      if (std::isnan(x)) continue;
      store_element(t, &out, 0, x);
      ASSERT_EQ(in, out) << name(t) << " " << bits;
      ASSERT_EQ(round_to(t, x), x);
    }
  }
  for (DType t : {DType::f8e4m3, DType::f8e5m2}) {
    for (uint32_t bits = 0; bits < 256; ++bits) {
      uint8_t in = uint8_t(bits), out = 0;
      double x = load_element(t, &in, 0);
      if (std::isnan(x)) continue;
      EXPECT_TRUE(std::isfinite(x) || t == DType::f8e5m2);
      store_element(t, &out, 0, x);
      ASSERT_EQ(in, out) << name(t) << " " << bits;
    }
  }
}

TEST(DType, KnownBits) {
  uint16_t h = 0;
  store_element(DType::f16, &h, 0, 1.0);
  EXPECT_EQ(h, 0x3C00);
  store_element(DType::bf16, &h, 0, -2.0);
  EXPECT_EQ(h, 0xC000);
  uint8_t q = 0;
  store_element(DType::f8e4m3, &q, 0, 448);
  EXPECT_EQ(q, 0x7E);
  store_element(DType::f8e4m3, &q, 0, std::nan(""));
  EXPECT_EQ(q & 0x7F, 0x7F);
  store_element(DType::f8e5m2, &q, 0, kInf);
  EXPECT_EQ(q, 0x7C);
}

TEST(DType, RoundingIsMonotoneAndNearest) {
  for (DType t : {DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2}) {
    double last = -kInf;
    for (double x = -500; x < 500; x += 0.37) {
      double r = round_to(t, x);
      EXPECT_GE(r, last);
      last = r;
      double ulp = std::ldexp(1, std::max(std::ilogb(x), -6) - mantissa_bits(t));
      EXPECT_TRUE(std::fabs(x) > max_finite(t) || std::fabs(r - x) <= ulp / 2) << name(t) << " " << x;
    }
  }
}

TEST(DType, ArraysOfEveryType) {
  for (DType t : kAll) {
    alignas(8) unsigned char memory[64] = {};
    store_element(t, memory, 3, 1);
    store_element(t, memory, 2, 0);
    EXPECT_EQ(load_element(t, memory, 3), 1) << name(t);
    EXPECT_EQ(load_element(t, memory, 2), 0) << name(t);
  }
}

}  // namespace
}  // namespace tilewright::support_dtype_test
