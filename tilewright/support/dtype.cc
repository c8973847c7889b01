#include "tilewright/support/dtype.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "tilewright/support/error.h"

namespace tilewright {
namespace {

struct Info {
  DType type;
  const char* name;
  int bytes;
  int mantissa;      ///< explicit bits of a float; 0 for others
  int min_exponent;  ///< of the smallest normal number
  double max;        ///< largest finite value of a float
};

constexpr double kMaxF64 = std::numeric_limits<double>::max();
constexpr double kMaxF32 = std::numeric_limits<float>::max();
constexpr Info kInfo[] = {
    {DType::f64, "f64", 8, 52, -1022, kMaxF64},
    {DType::f32, "f32", 4, 23, -126, kMaxF32},
    {DType::f16, "f16", 2, 10, -14, 65504},
    {DType::bf16, "bf16", 2, 7, -126, 0x1.FEp127},
    {DType::f8e4m3, "f8e4m3", 1, 3, -6, 448},
    {DType::f8e5m2, "f8e5m2", 1, 2, -14, 57344},
    {DType::i64, "i64", 8, 0, 0, 0},
    {DType::i32, "i32", 4, 0, 0, 0},
    {DType::i8, "i8", 1, 0, 0, 0},
    {DType::boolean, "bool", 1, 0, 0, 0},
};

const Info& info(DType t) { return kInfo[size_t(t)]; }

int exponent_bits(DType t) { return bytes(t) * 8 - 1 - mantissa_bits(t); }

/// Bits of a value that round_to has already made representable in a 16- or 8-bit float.
uint32_t encode(DType t, double x) {
  const int m = mantissa_bits(t), e = exponent_bits(t);
  const uint32_t sign = uint32_t(std::signbit(x)) << (m + e);
  const uint32_t all_ones = (1u << e) - 1;
  if (std::isnan(x)) return sign | (t == DType::f8e4m3 ? 0x7fu : (all_ones << m) | (1u << (m - 1)));
  if (std::isinf(x)) return sign | (all_ones << m);
  if (x == 0) return sign;
  const int min_exponent = info(t).min_exponent;
  const int exponent = std::max(std::ilogb(x), min_exponent);
  const uint32_t scaled = uint32_t(std::ldexp(std::fabs(x), m - exponent));  // 1.m, or 0.m when subnormal
  if (scaled < (1u << m)) return sign | scaled;
  return sign | (uint32_t(exponent - min_exponent + 1) << m) | (scaled - (1u << m));
}

double decode(DType t, uint32_t bits) {
  const int m = mantissa_bits(t), e = exponent_bits(t);
  const uint32_t all_ones = (1u << e) - 1, exponent = (bits >> m) & all_ones,
                 mantissa = bits & ((1u << m) - 1);
  const double sign = (bits >> (m + e)) & 1 ? -1 : 1;
  if (t == DType::f8e4m3) {
    if (exponent == all_ones && mantissa == 7) return std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == all_ones) {
    return mantissa ? std::numeric_limits<double>::quiet_NaN()
                    : sign * std::numeric_limits<double>::infinity();
  }
  const int min_exponent = info(t).min_exponent;
  if (exponent == 0) return sign * std::ldexp(double(mantissa), min_exponent - m);
  return sign * std::ldexp(double(mantissa + (1u << m)), min_exponent + int(exponent) - 1 - m);
}

template <class T>
T load(const void* array, int64_t index) {
  T x;
  std::memcpy(&x, static_cast<const char*>(array) + index * int64_t(sizeof(T)), sizeof(T));
  return x;
}

template <class T>
void store(void* array, int64_t index, T x) {
  std::memcpy(static_cast<char*>(array) + index * int64_t(sizeof(T)), &x, sizeof(T));
}

template <class T>
T saturate(double x) {
  if (std::isnan(x)) return 0;
  x = std::trunc(x);
  if (x >= -double(std::numeric_limits<T>::min())) return std::numeric_limits<T>::max();
  if (x <= double(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  return T(x);
}

}  // namespace

const char* name(DType t) { return info(t).name; }

std::optional<DType> parse_dtype(const std::string& s) {
  for (const Info& i : kInfo)
    if (s == i.name) return i.type;
  return std::nullopt;
}

int bytes(DType t) { return info(t).bytes; }
bool is_float(DType t) { return info(t).mantissa > 0; }
bool is_integer(DType t) { return t == DType::i64 || t == DType::i32 || t == DType::i8; }
int mantissa_bits(DType t) { return info(t).mantissa; }
double max_finite(DType t) { return info(t).max; }

double round_to(DType t, double x) {
  switch (t) {
    case DType::f64: return x;
    case DType::f32: return double(float(x));
    case DType::i64: return double(saturate<int64_t>(x));
    case DType::i32: return double(saturate<int32_t>(x));
    case DType::i8: return double(saturate<int8_t>(x));
    case DType::boolean: return x != 0;
    case DType::f16:
    case DType::bf16:
    case DType::f8e4m3:
    case DType::f8e5m2: break;
  }
  const Info& i = info(t);
  if (std::isnan(x) || x == 0) return x;
  const double overflow = t == DType::f8e4m3 ? i.max : std::numeric_limits<double>::infinity();
  if (std::isinf(x)) return std::copysign(overflow, x);
  const int exponent = std::max(std::ilogb(x), i.min_exponent);
  // Scaling by a power of two is exact, so that nearbyint (half to even) is the only rounding.
  const double rounded =
      std::ldexp(std::nearbyint(std::ldexp(x, i.mantissa - exponent)), exponent - i.mantissa);
  return std::fabs(rounded) > i.max ? std::copysign(overflow, x) : rounded;
}

double least_from(DType t, double lo) {
  constexpr double none = std::numeric_limits<double>::infinity();
  if (t == DType::boolean) return lo <= 0 ? 0 : lo <= 1 ? 1 : none;
  if (is_integer(t)) {
    const double bound = std::ldexp(1, 8 * bytes(t) - 1);
    return std::ceil(lo) >= bound ? none : std::max(-bound, std::ceil(lo));
  }
  const double nearest = round_to(t, lo);
  if (nearest >= lo) return nearest;
  if (std::isinf(nearest)) return -max_finite(t);
  // Values from here to the next power of two, which is one of them, lie equally far apart.
  const double step = std::ldexp(1, std::max(std::ilogb(lo), info(t).min_exponent) - info(t).mantissa);
  return nearest + step > max_finite(t) ? none : nearest + step;
}

double greatest_below(DType t, double hi) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const double above = std::nextafter(-hi, infinity);
  if (is_float(t)) return -least_from(t, above);
  if (t == DType::boolean) return hi > 1 ? 1 : hi > 0 ? 0 : -infinity;
  const double bound = std::ldexp(1, 8 * bytes(t) - 1);
  return std::ceil(hi) - 1 < -bound ? -infinity : std::min(bound - 1, std::ceil(hi) - 1);
}

double load_element(DType t, const void* array, int64_t index) {
  switch (t) {
    case DType::f64: return load<double>(array, index);
    case DType::f32: return load<float>(array, index);
    case DType::f16:
    case DType::bf16: return decode(t, load<uint16_t>(array, index));
    case DType::f8e4m3:
    case DType::f8e5m2: return decode(t, load<uint8_t>(array, index));
    case DType::i64: return double(load<int64_t>(array, index));
    case DType::i32: return load<int32_t>(array, index);
    case DType::i8: return load<int8_t>(array, index);
    case DType::boolean: return load<uint8_t>(array, index) != 0;
  }
  TW_CHECK(false, "unknown dtype");
}

void store_element(DType t, void* array, int64_t index, double x) {
  switch (t) {
    case DType::f64: return store(array, index, x);
    case DType::f32: return store(array, index, float(x));
    case DType::f16:
    case DType::bf16: return store(array, index, uint16_t(encode(t, round_to(t, x))));
    case DType::f8e4m3:
    case DType::f8e5m2: return store(array, index, uint8_t(encode(t, round_to(t, x))));
    case DType::i64: return store(array, index, saturate<int64_t>(x));
    case DType::i32: return store(array, index, saturate<int32_t>(x));
    case DType::i8: return store(array, index, saturate<int8_t>(x));
    case DType::boolean: return store(array, index, uint8_t(x != 0));
  }
  TW_CHECK(false, "unknown dtype");
}

}  // namespace tilewright
