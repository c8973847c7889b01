// Inside the reference evaluator: loops over strips of values.
//
// Vectors are 16 bytes wide whatever the machine offers, and sums are taken in a fixed order, so that results have the same bits everywhere.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

#include "tilewright/support/dtype.h"

#define TW_INLINE __attribute__((always_inline))

namespace tilewright::reference {

template <class T>
struct Wide;
template <>
struct Wide<double> {
  typedef double type __attribute__((vector_size(16)));
};
template <>
struct Wide<float> {
  typedef float type __attribute__((vector_size(16)));
};

template <class T>
TW_INLINE inline typename Wide<T>::type load_wide(const T* p) {
  typename Wide<T>::type v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <class T>
TW_INLINE inline void store_wide(T* p, typename Wide<T>::type v) {
  std::memcpy(p, &v, sizeof v);
}

/// d[k] = f(a[k]) for k < n.
template <class D, class A, class F>
TW_INLINE inline void map1(D* d, const A* a, int64_t n, F f) {
  for (int64_t k = 0; k < n; ++k) d[k] = f(a[k]);
}

/// d[k] = f(a[k], b[k]) for k < n; an operand whose flag is false has one value for all k.
template <class D, class A, class B, class F>
TW_INLINE inline void map2(D* d, const A* a, bool wide_a, const B* b, bool wide_b, int64_t n, F f) {
  if (wide_a && wide_b) {
    for (int64_t k = 0; k < n; ++k) d[k] = f(a[k], b[k]);
  } else if (wide_a) {
    const B y = *b;
    for (int64_t k = 0; k < n; ++k) d[k] = f(a[k], y);
  } else if (wide_b) {
    const A x = *a;
    for (int64_t k = 0; k < n; ++k) d[k] = f(x, b[k]);
  } else {
    const D value = f(*a, *b);
    for (int64_t k = 0; k < n; ++k) d[k] = value;
  }
}

/// map2 for + − · of reals.
template <class T, class F>
TW_INLINE inline void map2_wide(T* d, const T* a, bool wide_a, const T* b, bool wide_b, int64_t n, F f) {
  constexpr int64_t w = 16 / sizeof(T);
  using V = typename Wide<T>::type;
  int64_t k = 0;
  if (wide_a && wide_b) {
    for (; k + w <= n; k += w) store_wide(d + k, f(load_wide(a + k), load_wide(b + k)));
    for (; k < n; ++k) d[k] = f(a[k], b[k]);
  } else if (wide_a) {
    const T y = *b;
    const V ys = y - V{};  // keeps the sign of zero
    for (; k + w <= n; k += w) store_wide(d + k, f(load_wide(a + k), ys));
    for (; k < n; ++k) d[k] = f(a[k], y);
  } else if (wide_b) {
    const T x = *a;
    const V xs = x - V{};
    for (; k + w <= n; k += w) store_wide(d + k, f(xs, load_wide(b + k)));
    for (; k < n; ++k) d[k] = f(x, b[k]);
  } else {
    const T value = f(*a, *b);
    for (; k < n; ++k) d[k] = value;
  }
}

template <class T>
TW_INLINE inline T sum_of_wide(typename Wide<T>::type v) {
  constexpr int w = 16 / sizeof(T);
  T s = 0;
  if constexpr (w == 2) {
    s = v[0] + v[1];
  } else {
    s = (v[0] + v[1]) + (v[2] + v[3]);
  }
  return s;
}

/// Σ a[k]·b[k], in four vectors of partial sums.
template <class T>
T dot(const T* a, const T* b, int64_t n) {
  constexpr int64_t w = 16 / sizeof(T);
  typename Wide<T>::type s0 = {}, s1 = {}, s2 = {}, s3 = {};
  int64_t k = 0;
  for (; k + 4 * w <= n; k += 4 * w) {
    s0 += load_wide(a + k) * load_wide(b + k);
    s1 += load_wide(a + k + w) * load_wide(b + k + w);
    s2 += load_wide(a + k + 2 * w) * load_wide(b + k + 2 * w);
    s3 += load_wide(a + k + 3 * w) * load_wide(b + k + 3 * w);
  }
  T sum = sum_of_wide<T>((s0 + s1) + (s2 + s3)), rest = 0;
  for (; k < n; ++k) rest += a[k] * b[k];
  return sum + rest;
}

/// Σ a[k]
template <class T>
T sum(const T* a, int64_t n) {
  constexpr int64_t w = 16 / sizeof(T);
  typename Wide<T>::type s0 = {}, s1 = {}, s2 = {}, s3 = {};
  int64_t k = 0;
  for (; k + 4 * w <= n; k += 4 * w) {
    s0 += load_wide(a + k);
    s1 += load_wide(a + k + w);
    s2 += load_wide(a + k + 2 * w);
    s3 += load_wide(a + k + 3 * w);
  }
  T total = sum_of_wide<T>((s0 + s1) + (s2 + s3)), rest = 0;
  for (; k < n; ++k) rest += a[k];
  return total + rest;
}

/// acc[k] += x·b[k]
template <class T>
void multiply_add(T* acc, T x, const T* b, int64_t n) {
  constexpr int64_t w = 16 / sizeof(T);
  const typename Wide<T>::type xs = x - typename Wide<T>::type{};
  int64_t k = 0;
  for (; k + w <= n; k += w) store_wide(acc + k, load_wide(acc + k) + xs * load_wide(b + k));
  for (; k < n; ++k) acc[k] += x * b[k];
}

/// acc[k] += a[k]·b[k]
template <class T>
void multiply_add(T* acc, const T* a, const T* b, int64_t n) {
  constexpr int64_t w = 16 / sizeof(T);
  int64_t k = 0;
  for (; k + w <= n; k += w) store_wide(acc + k, load_wide(acc + k) + load_wide(a + k) * load_wide(b + k));
  for (; k < n; ++k) acc[k] += a[k] * b[k];
}

/// Rounds to a float dtype as round_to does, quickly where the value is normal there.
class FloatRounding {
 public:
  explicit FloatRounding(DType t) : type_(t), drop_(52 - mantissa_bits(t)), largest_(max_finite(t)) {
    switch (t) {
      case DType::f16:
      case DType::f8e5m2: smallest_ = 0x1p-14; break;
      case DType::f8e4m3: smallest_ = 0x1p-6; break;
      default: smallest_ = 0x1p-126; break;
    }
  }
  double operator()(double x) const {
    if (type_ == DType::f64 || x == 0) return x;
    if (type_ == DType::f32) return double(float(x));
    const double size = std::fabs(x);
    return size >= smallest_ && size <= largest_ ? significand(x) : round_to(type_, x);
  }
  /// The other neighbour where a tie lies within 2^-18 of x (relative).
  double beside_tie(double x) const {
    const double y = (*this)(x), d = std::isfinite(x) ? std::fabs(x) * 0x1p-18 : 0;
    for (double z : {(*this)(x - d), (*this)(x + d)})
      if (z != y) return z;
    return y;
  }
  /// The significand alone is rounded (half to even): the range stays that of a double.
  double significand(double x) const {
    if (!std::isfinite(x) || drop_ == 0) return x;
    uint64_t u;
    std::memcpy(&u, &x, sizeof u);
    u += ((u >> drop_) & 1) + ((uint64_t(1) << (drop_ - 1)) - 1);
    u &= ~((uint64_t(1) << drop_) - 1);
    std::memcpy(&x, &u, sizeof x);
    return x;
  }

 private:
  DType type_;
  int drop_;
  double smallest_ = 0, largest_;
};

}  // namespace tilewright::reference
