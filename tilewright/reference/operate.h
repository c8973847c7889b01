// Inside the reference evaluator: one instruction on a strip.
#pragma once
#include <limits>

#include "tilewright/expr/expr.h"
#include "tilewright/reference/strips.h"
#include "tilewright/support/error.h"

namespace tilewright::reference {

/// An operand: the values and whether there is one for each lane.
template <class E>
struct Operand {
  const E* at = nullptr;
  bool wide = false;
  E operator[](int64_t k) const { return at[wide ? k : 0]; }
};

template <class T>
TW_INLINE inline T maximum(T a, T b) {
  return a > b || a != a ? a : b;  // NaN wins
}
template <class T>
TW_INLINE inline T minimum(T a, T b) {
  return a < b || a != a ? a : b;
}

template <class E>
void select(E* d, Operand<uint8_t> c, Operand<E> a, Operand<E> b, int64_t n) {
  for (int64_t k = 0; k < n; ++k) d[k] = c[k] ? a[k] : b[k];
}

/// Comparisons of E.
template <class E>
void compare(Op op, uint8_t* d, Operand<E> a, Operand<E> b, int64_t n) {
  auto with = [&](auto f) { map2(d, a.at, a.wide, b.at, b.wide, n, f); };
  switch (op) {
    case Op::Lt: return with([](E x, E y) TW_INLINE { return uint8_t(x < y); });
    case Op::Le: return with([](E x, E y) TW_INLINE { return uint8_t(x <= y); });
    case Op::Eq: return with([](E x, E y) TW_INLINE { return uint8_t(x == y); });
    case Op::Ne: return with([](E x, E y) TW_INLINE { return uint8_t(x != y); });
    default: TW_CHECK(false, std::string("not a comparison: ") + name(op));
  }
}

/// Operations of reals that give reals.
template <class T>
void operate_real(Op op, DType dtype, T* d, Operand<T> a, Operand<T> b, int64_t n) {
  auto one = [&](auto f) { map1(d, a.at, n, f); };
  auto two = [&](auto f) { map2(d, a.at, a.wide, b.at, b.wide, n, f); };
  auto wide = [&](auto f) { map2_wide(d, a.at, a.wide, b.at, b.wide, n, f); };
  switch (op) {
    case Op::Add: return wide([](auto x, auto y) TW_INLINE { return x + y; });
    case Op::Sub: return wide([](auto x, auto y) TW_INLINE { return x - y; });
    case Op::Mul: return wide([](auto x, auto y) TW_INLINE { return x * y; });
    case Op::Div: return two([](T x, T y) TW_INLINE { return x / y; });
    case Op::Pow: return two([](T x, T y) { return std::pow(x, y); });
    case Op::Max: return two([](T x, T y) TW_INLINE { return maximum(x, y); });
    case Op::Min: return two([](T x, T y) TW_INLINE { return minimum(x, y); });
    case Op::Neg: return one([](T x) TW_INLINE { return -x; });
    case Op::Abs: return one([](T x) TW_INLINE { return std::fabs(x); });
    case Op::Sign: return one([](T x) TW_INLINE { return x > 0 ? T(1) : x < 0 ? T(-1) : x == 0 ? T(0) : x; });
    case Op::Floor: return one([](T x) { return std::floor(x); });
    case Op::Round: return one([](T x) { return std::nearbyint(x); });
    case Op::Exp: return one([](T x) { return std::exp(x); });
    case Op::Exp2: return one([](T x) { return std::exp2(x); });
    case Op::Log: return one([](T x) { return std::log(x); });
    case Op::Log2: return one([](T x) { return std::log2(x); });
    case Op::Sqrt: return one([](T x) { return std::sqrt(x); });
    case Op::Rsqrt: return one([](T x) { return 1 / std::sqrt(x); });
    case Op::Tanh: return one([](T x) { return std::tanh(x); });
    case Op::Sigmoid: return one([](T x) { return 1 / (1 + std::exp(-x)); });
    case Op::Erf: return one([](T x) { return std::erf(x); });
    case Op::Cast: {
      const FloatRounding round(dtype);
      return one([&](T x) { return T(round(double(x))); });
    }
    case Op::Constant:
    case Op::Real:
    case Op::Symbol:
    case Op::Read:
    case Op::Select:
    case Op::Lt:
    case Op::Le:
    case Op::Eq:
    case Op::Ne:
    case Op::And:
    case Op::Or:
    case Op::Not:
    case Op::FloorDiv:
    case Op::Mod:
    case Op::Reduce:
    case Op::RangeSum: break;
  }
  TW_CHECK(false, std::string("not an operation of reals: ") + name(op));
}

/// A real to an integer dtype: truncated, saturated, NaN to 0.
inline int64_t to_integer(DType t, double x) {
  if (t == DType::i64) {
    if (!(x > -0x1p63)) return x != x ? 0 : std::numeric_limits<int64_t>::min();
    return x >= 0x1p63 ? std::numeric_limits<int64_t>::max() : int64_t(x);
  }
  return int64_t(round_to(t, x));
}

/// An integer to an integer dtype.
inline int64_t narrow(DType t, int64_t x) {
  if (t == DType::i64) return x;
  const int64_t most =
      t == DType::i32 ? std::numeric_limits<int32_t>::max() : std::numeric_limits<int8_t>::max();
  return x > most ? most : x < -most - 1 ? -most - 1 : x;
}

/// Floor division and its remainder; 0 where y is 0 (the caller reports that where it matters).
inline int64_t divide_floor(int64_t x, int64_t y) {
  if (y == 0) return 0;
  if (y == -1) return int64_t(-uint64_t(x));
  return x / y - (x % y != 0 && (x < 0) != (y < 0));
}
inline int64_t modulo_floor(int64_t x, int64_t y) {
  if (y == 0 || y == -1) return 0;
  const int64_t r = x % y;
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
inline int64_t power(int64_t x, int64_t y) {
  uint64_t r = 1, base = uint64_t(x);
  for (; y > 0; y >>= 1, base *= base)
    if (y & 1) r *= base;
  return int64_t(r);
}

/// Operations of integers that give integers; they wrap around.
inline void operate_integer(Op op, DType dtype, int64_t* d, Operand<int64_t> a, Operand<int64_t> b,
                            int64_t n) {
  using I = int64_t;
  auto one = [&](auto f) { map1(d, a.at, n, f); };
  auto two = [&](auto f) { map2(d, a.at, a.wide, b.at, b.wide, n, f); };
  switch (op) {
    case Op::Add: return two([](I x, I y) TW_INLINE { return I(uint64_t(x) + uint64_t(y)); });
    case Op::Sub: return two([](I x, I y) TW_INLINE { return I(uint64_t(x) - uint64_t(y)); });
    case Op::Mul: return two([](I x, I y) TW_INLINE { return I(uint64_t(x) * uint64_t(y)); });
    case Op::Max: return two([](I x, I y) TW_INLINE { return x > y ? x : y; });
    case Op::Min: return two([](I x, I y) TW_INLINE { return x < y ? x : y; });
    case Op::Neg: return one([](I x) TW_INLINE { return I(-uint64_t(x)); });
    case Op::Abs: return one([](I x) TW_INLINE { return x < 0 ? I(-uint64_t(x)) : x; });
    case Op::Sign: return one([](I x) TW_INLINE { return I(x > 0) - I(x < 0); });
    case Op::Floor:
    case Op::Round: return one([](I x) TW_INLINE { return x; });
    case Op::FloorDiv: return two([](I x, I y) { return divide_floor(x, y); });
    case Op::Mod: return two([](I x, I y) { return modulo_floor(x, y); });
    case Op::Pow: return two([](I x, I y) { return power(x, y); });
    case Op::Cast: return one([&](I x) { return narrow(dtype, x); });
    case Op::Constant:
    case Op::Real:
    case Op::Symbol:
    case Op::Read:
    case Op::Div:
    case Op::Exp:
    case Op::Exp2:
    case Op::Log:
    case Op::Log2:
    case Op::Sqrt:
    case Op::Rsqrt:
    case Op::Tanh:
    case Op::Sigmoid:
    case Op::Erf:
    case Op::Select:
    case Op::Lt:
    case Op::Le:
    case Op::Eq:
    case Op::Ne:
    case Op::And:
    case Op::Or:
    case Op::Not:
    case Op::Reduce:
    case Op::RangeSum: break;
  }
  TW_CHECK(false, std::string("not an operation of integers: ") + name(op));
}

inline void operate_boolean(Op op, uint8_t* d, Operand<uint8_t> a, Operand<uint8_t> b, int64_t n) {
  using B = uint8_t;
  switch (op) {
    case Op::And: return map2(d, a.at, a.wide, b.at, b.wide, n, [](B x, B y) TW_INLINE { return B(x & y); });
    case Op::Or: return map2(d, a.at, a.wide, b.at, b.wide, n, [](B x, B y) TW_INLINE { return B(x | y); });
    case Op::Not: return map1(d, a.at, n, [](B x) TW_INLINE { return B(!x); });
    default: TW_CHECK(false, std::string("not an operation of conditions: ") + name(op));
  }
}

}  // namespace tilewright::reference
