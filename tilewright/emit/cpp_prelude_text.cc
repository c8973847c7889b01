// The text of the helpers. Polynomials are least-squares fits, reweighted towards the smallest largest relative error on their interval; errors are
// given before rounding:
//   v_exp2   x = n + f, |f| <= 1/2: degree 6, 2e-9. Results below 2^-125.5 are 0. NaN stays NaN, large arguments give infinity.
//   v_exp    n = round(x log2 e), the rest in two parts (Cody and Waite), then the polynomial of v_exp2.
//   v_log    x = m 2^e, sqrt(1/2) <= m < sqrt(2); log(1 + f) = f - f²/2 + f³ r(f), r of degree 8, 8e-10.
//   v_tanh   |x| < 0.625: x + x³ q(x²), 5e-9; otherwise 1 - 2/(exp(2|x|) + 1).
//   v_erf    |x| < 0.92: x q(x²), 4e-10; otherwise 1 - exp(r(|x|)), r a fit of log erfc.
// Functions of f64, and powers, call the C library element by element.
#include "tilewright/emit/cpp_prelude.h"

namespace tilewright {

const char* const cpp_prelude_text = R"TEXT(
//@ always
typedef long long int64;
typedef $R real;
enum { LANES = $V };
typedef real vf __attribute__((vector_size($B), may_alias));          // reals of all lanes
typedef $M vm __attribute__((vector_size($B), may_alias));            // conditions: 0 or -1 in every lane
typedef float vs __attribute__((vector_size(4 * LANES), may_alias));
typedef int vi __attribute__((vector_size(4 * LANES), may_alias));
typedef unsigned vu __attribute__((vector_size(4 * LANES), may_alias));
typedef int64 vl __attribute__((vector_size(8 * LANES), may_alias));
typedef real vf_any __attribute__((vector_size($B), aligned(sizeof(real)), may_alias));  // anywhere in memory
#define INLINE static inline __attribute__((always_inline))
#ifdef __clang__
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

//@ iota
static const vm iota = {$IOTA};
//@ iota_real
static const vf iota_real = {$IOTA};
//@ iota_long
static const vl iota_long = {$IOTA};
//@ v_whole
// x, of which the compiler does not know what it is made: no product in it joins a sum.
#if defined(__AVX512F__)
#define IN_REGISTER "+v"
#elif defined(__x86_64__)
#define IN_REGISTER "+x"
#elif defined(__aarch64__)
#define IN_REGISTER "+w"
#else
#define IN_REGISTER "+m"
#endif
INLINE vf v_whole(vf x) {
  asm("" : IN_REGISTER(x));
  return x;
}
INLINE real v_whole(real x) {
  asm("" : IN_REGISTER(x));
  return x;
}
//@ ld
INLINE vf ld(const real* p) { return *(const vf*)p; }
//@ st
INLINE void st(real* p, vf x) { *(vf*)p = x; }
//@ ld_int
INLINE vi ld_int(const int* p) { return *(const vi*)p; }
INLINE vl ld_int(const int64* p) { return *(const vl*)p; }
//@ st_int
INLINE void st_int(int* p, vi x) { *(vi*)p = x; }
INLINE void st_int(int* p, vl x) { *(vi*)p = __builtin_convertvector(x, vi); }
INLINE void st_int(int64* p, vl x) { *(vl*)p = x; }
INLINE void st_int(int64* p, vi x) { *(vl*)p = __builtin_convertvector(x, vl); }
//@ splat
INLINE vf splat(real x) { return x - (vf){}; }
//@ splat_mask
INLINE vm splat_mask(bool x) { return (vm){} - ($M)x; }
//@ splat_int
INLINE vl splat_int(int64 x) { return x - (vl){}; }
//@ to_mask
INLINE vm to_mask(vi x) { return __builtin_convertvector(x, vm); }
INLINE vm to_mask(vl x) { return __builtin_convertvector(x, vm); }
//@ to_long
INLINE vl to_long(vi x) { return __builtin_convertvector(x, vl); }
//@ to_real
INLINE vf to_real(vi x) { return __builtin_convertvector(x, vf); }
INLINE vf to_real(vl x) { return __builtin_convertvector(x, vf); }
//@ select
INLINE vf select(vm c, vf a, vf b) { return c ? a : b; }
//@ select_mask
INLINE vm select_mask(vm c, vm a, vm b) { return (c & a) | (~c & b); }
//@ select_int
INLINE vl select_int(vm c, vl a, vl b) {
  const vl m = __builtin_convertvector(c, vl);
  return (m & a) | (~m & b);
}
//@ clamp
// Comparisons of lane numbers with far away bounds stay what they are.
INLINE int clamp(int64 x) { return x < -(1 << 30) ? -(1 << 30) : x > (1 << 30) ? (1 << 30) : (int)x; }
//@ valid
INLINE vm valid(int64 n) { return iota < ($M)clamp(n); }  // the first n lanes
//@ any
INLINE bool any(vm x) {
  int64 found = 0;
  UNROLL
  for (int l = 0; l < LANES; ++l) found |= x[l];
  return found != 0;
}
//@ all
INLINE bool all(vm x) {
  int64 found = -1;
  UNROLL
  for (int l = 0; l < LANES; ++l) found &= x[l];
  return found != 0;
}
//@ above below f32
// a > b ? a : b and a < b ? a : b: b where either is NaN. The compiler takes a comparison and a selection for what is one instruction.
#if defined(__AVX512F__) && $V == 16
INLINE vf above(vf a, vf b) {
  vf m;
  asm("vmaxps %2, %1, %0" : "=v"(m) : "v"(a), "v"(b));
  return m;
}
INLINE vf below(vf a, vf b) {
  vf m;
  asm("vminps %2, %1, %0" : "=v"(m) : "v"(a), "v"(b));
  return m;
}
#elif defined(__AVX__) && $V == 8
INLINE vf above(vf a, vf b) { return (vf)__builtin_ia32_maxps256(a, b); }
INLINE vf below(vf a, vf b) { return (vf)__builtin_ia32_minps256(a, b); }
#elif defined(__SSE__) && $V == 4
INLINE vf above(vf a, vf b) { return (vf)__builtin_ia32_maxps(a, b); }
INLINE vf below(vf a, vf b) { return (vf)__builtin_ia32_minps(a, b); }
#else
INLINE vf above(vf a, vf b) { return a > b ? a : b; }
INLINE vf below(vf a, vf b) { return a < b ? a : b; }
#endif
//@ above below f64
INLINE vf above(vf a, vf b) { return a > b ? a : b; }
INLINE vf below(vf a, vf b) { return a < b ? a : b; }
//@ unordered nans with_nans
// Where a or b is NaN, and what makes x NaN there.
#if defined(__AVX512F__) && $V == 16
typedef unsigned short nans;
INLINE nans unordered(vf a, vf b) { return __builtin_ia32_cmpps512_mask(a, b, 3, -1, 4); }
INLINE vf with_nans(vf x, nans k) {
  asm("vmovaps %1, %0%{%2%}" : "+v"(x) : "v"(splat(__builtin_nanf(""))), "Yk"(k));
  return x;
}
#else
typedef vm nans;
INLINE nans unordered(vf a, vf b) {
#if defined(__AVX__) && $B == 32 && $V == 8
  return (vm)__builtin_ia32_cmpps256(a, b, 3);
#else
  return (a != a) | (b != b);
#endif
}
INLINE vf with_nans(vf x, nans k) { return (vf)((vm)x | k); }
#endif
//@ v_max
INLINE vf v_max(vf a, vf b) { return a == a ? above(a, b) : a; }  // NaN if either is
INLINE real v_max(real a, real b) { return a > b || a != a ? a : b; }
//@ v_min
INLINE vf v_min(vf a, vf b) { return a == a ? below(a, b) : a; }  // NaN if either is
INLINE real v_min(real a, real b) { return a < b || a != a ? a : b; }
//@ take_top
// Column c of s, and what was found so far, into the greatest (TOP 1) or least (-1) values.
template <int TOP, int R, int C>
INLINE void take_top(real* top, const vf (&s)[R][C], int c) {
#if defined(__AVX__)  // whether one of two is NaN takes one instruction, and no value waits for it
  vf x = s[0][c];
  nans found = unordered(x, s[R - 1][c]);
  UNROLL
  for (int r = 1; r < R; ++r) {
    x = TOP > 0 ? above(x, s[r][c]) : below(x, s[r][c]);
    if (r % 2 == 0) found |= unordered(s[r - 1][c], s[r][c]);
  }
  const vf old = ld(top);
  x = TOP > 0 ? above(x, old) : below(x, old);
  st(top, with_nans(x, found));
#else
  vf x = ld(top);
  UNROLL
  for (int r = 0; r < R; ++r) x = TOP > 0 ? v_max(x, s[r][c]) : v_min(x, s[r][c]);
  st(top, x);
#endif
}
//@ i_max
INLINE int64 i_max(int64 a, int64 b) { return a > b ? a : b; }
INLINE vl i_max(vl a, vl b) { return a > b ? a : b; }
//@ stands_before
INLINE bool stands_before(real key, int64 index, real other_key, int64 other_index) {
  if (index < 0 || other_index < 0) return index >= 0;
  if (key != key || other_key != other_key) return key != key && (other_key == other_key || index < other_index);
  return key > other_key || (key == other_key && index < other_index);
}
//@ rank_in
// A pair into a sorted list of n, whose last drops out.
INLINE void rank_in(real* keys, int64 key_step, int64* indices, int64 index_step, int64 n, real key, int64 index) {
  if (key < keys[(n - 1) * key_step]) return;
  int64 to = n;
  for (; to > 0 && stands_before(key, index, keys[(to - 1) * key_step], indices[(to - 1) * index_step]); --to) {
    if (to == n) continue;
    keys[to * key_step] = keys[(to - 1) * key_step];
    indices[to * index_step] = indices[(to - 1) * index_step];
  }
  if (to == n) return;
  keys[to * key_step] = key;
  indices[to * index_step] = index;
}
//@ i_min
INLINE int64 i_min(int64 a, int64 b) { return a < b ? a : b; }
INLINE vl i_min(vl a, vl b) { return a < b ? a : b; }
//@ i_abs
INLINE int64 i_abs(int64 a) { return a < 0 ? -a : a; }
INLINE vl i_abs(vl a) { return a < 0 ? -a : a; }
//@ i_sign
INLINE int64 i_sign(int64 a) { return (a > 0) - (a < 0); }
INLINE vl i_sign(vl a) { return (vl)(a < 0) - (vl)(a > 0); }
//@ i_floordiv
// Total: lanes and branches that are not taken divide by anything. A quotient by 0 is 0, one by -1 wraps.
INLINE int64 i_floordiv(int64 a, int64 b) {
  if (b == 0) return 0;
  if (b == -1) return (int64)(0ull - (unsigned long long)a);
  return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}
INLINE vl i_floordiv(vl a, vl b) {
  for (int l = 0; l < LANES; ++l) a[l] = i_floordiv(a[l], b[l]);
  return a;
}
//@ i_mod
INLINE int64 i_mod(int64 a, int64 b) {
  if (b == 0 || b == -1) return 0;
  const int64 r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
INLINE vl i_mod(vl a, vl b) {
  for (int l = 0; l < LANES; ++l) a[l] = i_mod(a[l], b[l]);
  return a;
}
//@ away
// Lane l holds lane l ^ W of x.
template <int W>
INLINE vf away(vf x) {
  return W == 8   ? __builtin_shufflevector(x, x, $AWAY8)
         : W == 4 ? __builtin_shufflevector(x, x, $AWAY4)
         : W == 2 ? __builtin_shufflevector(x, x, $AWAY2)
                  : __builtin_shufflevector(x, x, $AWAY1);
}
//@ sum_lanes
INLINE real sum_lanes(vf x) {
  if (LANES > 8) x = x + away<8>(x);
  if (LANES > 4) x = x + away<4>(x);
  if (LANES > 2) x = x + away<2>(x);
  x = x + away<1>(x);
  return x[0];
}
INLINE int64 sum_lanes(vl x) {
  int64 s = 0;
  for (int l = 0; l < LANES; ++l) s += x[l];
  return s;
}
//@ prod_lanes
INLINE real prod_lanes(vf x) {
  if (LANES > 8) x = x * away<8>(x);
  if (LANES > 4) x = x * away<4>(x);
  if (LANES > 2) x = x * away<2>(x);
  x = x * away<1>(x);
  return x[0];
}
INLINE int64 prod_lanes(vl x) {
  int64 s = 1;
  for (int l = 0; l < LANES; ++l) s *= x[l];
  return s;
}
//@ max_lanes
INLINE real max_lanes(vf x) {
  if (LANES > 8) x = v_max(x, away<8>(x));
  if (LANES > 4) x = v_max(x, away<4>(x));
  if (LANES > 2) x = v_max(x, away<2>(x));
  x = v_max(x, away<1>(x));
  return x[0];
}
INLINE int64 max_lanes(vl x) {
  int64 m = x[0];
  for (int l = 1; l < LANES; ++l) m = x[l] > m ? x[l] : m;
  return m;
}
//@ min_lanes
INLINE real min_lanes(vf x) {
  if (LANES > 8) x = v_min(x, away<8>(x));
  if (LANES > 4) x = v_min(x, away<4>(x));
  if (LANES > 2) x = v_min(x, away<2>(x));
  x = v_min(x, away<1>(x));
  return x[0];
}
INLINE int64 min_lanes(vl x) {
  int64 m = x[0];
  for (int l = 1; l < LANES; ++l) m = x[l] < m ? x[l] : m;
  return m;
}
//@ v_abs
INLINE vf v_abs(vf x) { return (vf)((vm)x & ~(($M)1 << (8 * sizeof(real) - 1))); }
INLINE real v_abs(real x) { return x < 0 ? -x : x == 0 ? 0 : x; }
//@ v_sign
INLINE real v_sign(real x) { return x > 0 ? (real)1 : x < 0 ? (real)-1 : x; }
INLINE vf v_sign(vf x) { return x > 0 ? splat(1) : x < 0 ? splat(-1) : x; }
//@ v_round f32
INLINE vf v_round(vf x) {  // half to even
  const vf a = v_abs(x), r = (a + 8388608.0f) - 8388608.0f;
  return a < 8388608.0f ? (x < 0 ? -r : r) : x;
}
INLINE real v_round(real x) { return v_round(splat(x))[0]; }
//@ v_round f64
INLINE vf v_round(vf x) {  // half to even
  const vf a = v_abs(x), r = (a + 4503599627370496.0) - 4503599627370496.0;
  return a < 4503599627370496.0 ? (x < 0 ? -r : r) : x;
}
INLINE real v_round(real x) { return v_round(splat(x))[0]; }
//@ v_floor
INLINE vf v_floor(vf x) {
  const vf r = v_round(x);
  return r > x ? r - 1 : r;
}
INLINE real v_floor(real x) { return v_floor(splat(x))[0]; }
//@ v_sqrt f32
INLINE real v_sqrt(real x) { return __builtin_sqrtf(x); }
INLINE vf v_sqrt(vf x) {
  for (int l = 0; l < LANES; ++l) x[l] = __builtin_sqrtf(x[l]);
  return x;
}
//@ v_sqrt f64
INLINE real v_sqrt(real x) { return __builtin_sqrt(x); }
INLINE vf v_sqrt(vf x) {
  for (int l = 0; l < LANES; ++l) x[l] = __builtin_sqrt(x[l]);
  return x;
}
//@ v_rsqrt
INLINE real v_rsqrt(real x) { return 1 / v_sqrt(x); }
INLINE vf v_rsqrt(vf x) { return 1 / v_sqrt(x); }
//@ ALL
#define ALL UNROLL for (int c = 0; c < N; ++c)  // N vectors in step: none waits for its own last operation
//@ exp2_parts rounded rounding scaled twice f32
// `rounded` is the next whole number n plus `rounding`; exp2_parts makes 2^f 2^n of f and that: infinity from n = 129, 0 from n = -126 down.
#if defined(__AVX512F__) && $V == 16
const real rounding = 0, twice = 1;
INLINE vf rounded(vf x) {
  vf n;
  asm("vrndscaleps $8, %1, %0" : "=v"(n) : "v"(x));
  return n;
}
INLINE vf scaled(vf p, vf n) {  // 0 and infinity also where n is infinite and p, made of the difference to it, is NaN
  const unsigned short some = __builtin_ia32_cmpps512_mask(n, splat(-125.0f), 5, -1, 4);  // not less
  vf y;
  asm("vscalefps %2, %1, %0%{%3%}%{z%}" : "=v"(y) : "v"(p), "v"(n), "Yk"(some));
  return y;
}
#else
const real rounding = 12582912.0f, twice = 2;  // n stands in the low bits
INLINE vf rounded(vf x) { return x + rounding; }
INLINE vf scaled(vf p, vf t) { return p * (vf)(((vi)t << 23) + 0x3f000000); }  // (2·2^f)·2^(n - 1)
#endif
template <int N>
INLINE void exp2_parts(vf (&f)[N], const vf (&t)[N]) {
  vf p[N];
  ALL p[c] = f[c] * (1.53533618e-4f * twice) + 1.33988744e-3f * twice;
  ALL p[c] = p[c] * f[c] + 9.61843735e-3f * twice;
  ALL p[c] = p[c] * f[c] + 5.55033245e-2f * twice;
  ALL p[c] = p[c] * f[c] + 2.40226479e-1f * twice;
  ALL p[c] = p[c] * f[c] + 6.93147205e-1f * twice;
  ALL p[c] = p[c] * f[c] + twice;
  ALL f[c] = scaled(p[c], t[c]);
}
//@ v_exp2 f32
template <int N>
INLINE void v_exp2(vf (&x)[N]) {
  vf t[N];
  if (rounding != 0) ALL x[c] = above(splat(-126.0f), x[c]);
  ALL t[c] = rounded(x[c]);
  if (rounding != 0) ALL t[c] = below(splat(rounding + 129), t[c]);
  ALL x[c] = x[c] - (t[c] - rounding);
  exp2_parts(x, t);
}
INLINE vf v_exp2(vf x) {
  vf a[1] = {x};
  v_exp2(a);
  return a[0];
}
INLINE real v_exp2(real x) { return v_exp2(splat(x))[0]; }
//@ v_exp f32
template <int N>
INLINE void v_exp(vf (&x)[N]) {
  vf t[N];
  ALL x[c] = above(splat(-87.3365479f), x[c]);  // -126 log 2
  ALL t[c] = below(splat(rounding + 129), rounded(x[c] * 1.44269504f));
  ALL x[c] = x[c] - (t[c] - rounding) * 0.693359375f;
  ALL x[c] = (x[c] + (t[c] - rounding) * 2.12194440e-4f) * 1.44269504f;
  exp2_parts(x, t);
}
INLINE vf v_exp(vf x) {
  vf a[1] = {x};
  v_exp(a);
  return a[0];
}
INLINE real v_exp(real x) { return v_exp(splat(x))[0]; }
//@ log_parts log_ends f32
INLINE vf log_parts(vf x, vf& e) {  // x = m 2^e; log m
  const vm tiny = x < 1.17549435e-38f;
  const vi shifted = (vi)(tiny ? x * 8388608.0f : x) - 0x3f3504f3;
  e = __builtin_convertvector(shifted >> 23, vf) - (tiny ? splat(23) : splat(0));
  const vf f = (vf)((shifted & 0x7fffff) + 0x3f3504f3) - 1.0f;
  vf r = f * 6.74664141e-2f - 1.16756497e-1f;
  r = r * f + 1.18881620e-1f;
  r = r * f - 1.24055889e-1f;
  r = r * f + 1.42195524e-1f;
  r = r * f - 1.66679959e-1f;
  r = r * f + 2.00021187e-1f;
  r = r * f - 2.50000096e-1f;
  r = r * f + 3.33333126e-1f;
  return f + (r * f - 0.5f) * (f * f);
}
INLINE vf log_ends(vf x, vf r) {
  r = x == 0 ? splat(-__builtin_inff()) : r;
  r = x == __builtin_inff() ? x : r;
  r = x < 0 ? splat(__builtin_nanf("")) : r;
  return x == x ? r : x;
}
//@ v_log f32
INLINE vf v_log(vf x) {
  vf e;
  const vf m = log_parts(x, e);
  return log_ends(x, e * 0.693359375f + (m - e * 2.12194440e-4f));
}
INLINE real v_log(real x) { return v_log(splat(x))[0]; }
//@ v_log2 f32
INLINE vf v_log2(vf x) {
  vf e;
  const vf m = log_parts(x, e);
  return log_ends(x, e + m * 1.44269504f);
}
INLINE real v_log2(real x) { return v_log2(splat(x))[0]; }
//@ v_tanh f32
template <int N>
INLINE void v_tanh(vf (&x)[N]) {
  vf e[N], t[N], q[N];
  ALL t[c] = below(splat(rounding + 129), rounded(v_abs(x[c]) * 2.88539008f));
  ALL e[c] = v_abs(x[c]) * 2.88539008f - (t[c] - rounding);
  exp2_parts(e, t);  // exp(2|x|): what rounding the exponent does to it is small in 2/(e + 1)
  ALL q[c] = x[c] * x[c] * -5.70498652e-3f + 2.06390868e-2f;
  ALL q[c] = q[c] * (x[c] * x[c]) - 5.37397149e-2f;
  ALL q[c] = q[c] * (x[c] * x[c]) + 1.33314422e-1f;
  ALL q[c] = q[c] * (x[c] * x[c]) - 3.33332819e-1f;
  ALL {
    const vf near = x[c] + x[c] * (x[c] * x[c] * q[c]), far = 1.0f - 2.0f / (e[c] + 1.0f);
    x[c] = v_abs(x[c]) < 0.625f ? near : (vf)((vm)far | ((vm)x[c] & (vm)splat(-0.0f)));
  }
}
INLINE vf v_tanh(vf x) {
  vf a[1] = {x};
  v_tanh(a);
  return a[0];
}
INLINE real v_tanh(real x) { return v_tanh(splat(x))[0]; }
//@ v_erf f32
INLINE vf v_erf(vf x) {
  const vf a = v_abs(x), s = x * x;
  vf q = s * 8.38239086e-5f - 8.14559763e-4f;
  q = q * s + 5.20128609e-3f;
  q = q * s - 2.68595001e-2f;
  q = q * s + 1.12836973e-1f;
  q = q * s - 3.76126339e-1f;
  q = q * s + 1.12837917f;
  const vf near = x * q, b = a > 4.0f ? splat(4.0f) : a;
  vf r = b * -2.11618334e-5f + 4.35218081e-4f;
  r = r * b - 4.17463931e-3f;
  r = r * b + 2.51286153e-2f;
  r = r * b - 1.08293933e-1f;
  r = r * b - 6.33334665e-1f;
  r = r * b - 1.12952082f;
  r = r * b + 1.75873472e-4f;
  const vf far = 1.0f - v_exp(r);
  return x != x ? x : a < 0.92f ? near : x < 0 ? -far : far;
}
INLINE real v_erf(real x) { return v_erf(splat(x))[0]; }
//@ EACH f64
#define EACH(name, function)                                    \
  INLINE real name(real x) { return function(x); }              \
  INLINE vf name(vf x) {                                        \
    for (int l = 0; l < LANES; ++l) x[l] = function(x[l]);      \
    return x;                                                   \
  }
//@ v_exp2 f64
EACH(v_exp2, __builtin_exp2)
//@ v_exp f64
EACH(v_exp, __builtin_exp)
//@ v_log f64
EACH(v_log, __builtin_log)
//@ v_log2 f64
EACH(v_log2, __builtin_log2)
//@ v_tanh f64
EACH(v_tanh, __builtin_tanh)
//@ v_erf f64
EACH(v_erf, __builtin_erf)
//@ v_sigmoid f64
INLINE vf v_sigmoid(vf x) { return 1 / (1 + v_exp(-x)); }
INLINE real v_sigmoid(real x) { return v_sigmoid(splat(x))[0]; }
//@ v_sigmoid f32
template <int N>
INLINE void v_sigmoid(vf (&x)[N]) {
  ALL x[c] = -x[c];
  v_exp(x);
  ALL x[c] = 1 / (1 + x[c]);
}
INLINE vf v_sigmoid(vf x) {
  vf a[1] = {x};
  v_sigmoid(a);
  return a[0];
}
INLINE real v_sigmoid(real x) { return v_sigmoid(splat(x))[0]; }
//@ v_pow f32
INLINE real v_pow(real x, real y) { return __builtin_powf(x, y); }
INLINE vf v_pow(vf x, vf y) {
  for (int l = 0; l < LANES; ++l) x[l] = __builtin_powf(x[l], y[l]);
  return x;
}
//@ v_pow f64
INLINE real v_pow(real x, real y) { return __builtin_pow(x, y); }
INLINE vf v_pow(vf x, vf y) {
  for (int l = 0; l < LANES; ++l) x[l] = __builtin_pow(x[l], y[l]);
  return x;
}

//@ inside
// 0 <= index < size; otherwise the number of the check and the index are reported.
INLINE bool inside(int64 index, int64 size, int64* error, int64 check) {
  if (index >= 0 && index < size) return true;
  const int64 far = 1LL << 47, kept = index < -far ? -far : index >= far ? far - 1 : index;
  __atomic_store_n(error, (int64)((unsigned long long)kept << 16) | (check + 1), __ATOMIC_RELAXED);
  return false;
}
//@ fail
// The number of the check that failed is reported.
INLINE void fail(int64* error, int64 check) { __atomic_store_n(error, check + 1, __ATOMIC_RELAXED); }
//@ gather
// The first n lanes from p[0], p[stride] …; 0 in the others.
template <class T>
INLINE void gather(T* lanes, const T* p, int64 stride, int64 n) {
  for (int64 l = 0; l < LANES; ++l) lanes[l] = l < n ? p[l * stride] : (T)0;
}
//@ scatter
template <class T>
INLINE void scatter(T* p, int64 stride, int64 n, const T* lanes) {
  for (int64 l = 0; l < LANES; ++l)
    if (l < n) p[l * stride] = lanes[l];
}
//@ vh vh_any vb vb_any
typedef unsigned short vh __attribute__((vector_size(2 * LANES), may_alias));
typedef unsigned short vh_any __attribute__((vector_size(2 * LANES), aligned(2), may_alias));
typedef unsigned char vb __attribute__((vector_size(LANES), may_alias));
typedef unsigned char vb_any __attribute__((vector_size(LANES), aligned(1), may_alias));
//@ raw_load raw_load_apart
template <class T>
__attribute__((noinline, cold)) static vu raw_load_apart(const T* p, int64 stride, int64 n) {
  vu lanes;
  for (int64 l = 0; l < LANES; ++l) lanes[l] = l < n ? p[l * stride] : 0;
  return lanes;
}
INLINE vu raw_load(const unsigned short* p, int64 stride, int64 n) {
#if defined(__AVX2__) && $V == 8 && !defined(__clang__)  // GCC 12 widens the halves of the vector one by one
  typedef short v8h __attribute__((vector_size(16), aligned(2)));
  if (__builtin_expect(n >= LANES && stride == 1, 1)) return (vu)__builtin_ia32_pmovzxwd256(*(const v8h*)p);
#endif
  if (__builtin_expect(n >= LANES && stride == 1, 1)) return __builtin_convertvector(*(const vh_any*)p, vu);
  return raw_load_apart(p, stride, n);
}
INLINE vu raw_load(const unsigned char* p, int64 stride, int64 n) {
  if (__builtin_expect(n >= LANES && stride == 1, 1)) return __builtin_convertvector(*(const vb_any*)p, vu);
  return raw_load_apart(p, stride, n);
}
//@ raw_store raw_store_apart
template <class T>
__attribute__((noinline, cold)) static void raw_store_apart(T* p, int64 stride, int64 n, vu x) {
  for (int64 l = 0; l < LANES; ++l)
    if (l < n) p[l * stride] = (T)x[l];
}
INLINE void raw_store(unsigned short* p, int64 stride, int64 n, vu x) {
  if (__builtin_expect(n >= LANES && stride == 1, 1))
    *(vh_any*)p = __builtin_convertvector(x, vh);
  else
    raw_store_apart(p, stride, n, x);
}
INLINE void raw_store(unsigned char* p, int64 stride, int64 n, vu x) {
  if (__builtin_expect(n >= LANES && stride == 1, 1))
    *(vb_any*)p = __builtin_convertvector(x, vb);
  else
    raw_store_apart(p, stride, n, x);
}
//@ decode
// Numbers with M bits of mantissa and smallest normal exponent E; codes from `special` on are infinities and NaN.
template <int M, int E>
INLINE vs decode(vu code, unsigned sign, unsigned special) {
  const vu m = code & (sign - 1);
  vs x = (vs)((m << (23 - M)) + ((126 + E) << 23));
  x = m < (1u << M) ? __builtin_convertvector((vi)m, vs) * (E == -6 ? 0x1p-9f : M == 10 ? 0x1p-24f : 0x1p-16f) : x;
  x = m >= special ? (vs)(m > special || M == 3 ? (vu){} + 0x7fc00000u : (vu){} + 0x7f800000u) : x;
  return (vs)((vu)x | (((code & sign) != 0) & 0x80000000u));
}
//@ encode
// To nearest, ties to even; from `limit` on the code is `large`.
template <int M, int E>
INLINE vu encode(vs x, unsigned sign, float limit, unsigned large, unsigned nan) {
  const vu bits = (vu)x, a = bits & 0x7fffffffu;
  const vs y = (vs)a, unit = (vs){} + (E == -6 ? 0x1p14f : M == 10 ? 0x1p-1f : 0x1p7f);  // 2^(E - M + 23): its last bit is the smallest number
  vu code = ((a + ((1u << (22 - M)) - 1) + ((a >> (23 - M)) & 1)) >> (23 - M)) - ((126 + E) << M);
  code = y < (E == -6 ? 0x1p-6f : 0x1p-14f) ? (vu)(y + unit) - (vu)unit : code;
  code = y >= limit ? (vu){} + large : code;
  code = x != x ? (vu){} + nan : code;
  return code | ((bits >> 31) * sign);
}
//@ from_f16
INLINE vs from_f16(vu code) {
#if defined(__F16C__) && $V == 8
  typedef short v8h __attribute__((vector_size(16)));
  return (vs)__builtin_ia32_vcvtph2ps256(__builtin_convertvector(code, v8h));
#elif defined(__AVX512F__) && $V == 16
  typedef short v16h __attribute__((vector_size(32)));
  return (vs)__builtin_ia32_vcvtph2ps512_mask(__builtin_convertvector(code, v16h), (vs){}, -1, 4);
#else
  return decode<10, -14>(code, 0x8000u, 0x7c00u);
#endif
}
//@ to_f16
INLINE vu to_f16(vs x) {
#if defined(__F16C__) && $V == 8
  typedef unsigned short v8u __attribute__((vector_size(16)));
  return __builtin_convertvector((v8u)__builtin_ia32_vcvtps2ph256(x, 0), vu);
#elif defined(__AVX512F__) && $V == 16
  typedef short v16h __attribute__((vector_size(32)));
  typedef unsigned short v16u __attribute__((vector_size(32)));
  return __builtin_convertvector((v16u)__builtin_ia32_vcvtps2ph512_mask(x, 0, (v16h){}, -1), vu);
#else
  return encode<10, -14>(x, 0x8000u, 65520.0f, 0x7c00u, 0x7e00u);
#endif
}
//@ from_bf16
INLINE vs from_bf16(vu code) { return (vs)(code << 16); }
//@ to_bf16
INLINE vu to_bf16(vs x) {
  const vu bits = (vu)x;
  return x == x ? (bits + 0x7fffu + ((bits >> 16) & 1)) >> 16 : (bits >> 16) | 0x40u;
}
//@ from_f8e4m3
INLINE vs from_f8e4m3(vu code) { return decode<3, -6>(code, 0x80u, 0x7fu); }
//@ to_f8e4m3
INLINE vu to_f8e4m3(vs x) { return encode<3, -6>(x, 0x80u, 448.0f, 0x7eu, 0x7fu); }
//@ from_f8e5m2
INLINE vs from_f8e5m2(vu code) { return decode<2, -14>(code, 0x80u, 0x7cu); }
//@ to_f8e5m2
INLINE vu to_f8e5m2(vs x) { return encode<2, -14>(x, 0x80u, 61440.0f, 0x7cu, 0x7eu); }
//@ widen
INLINE vf widen(vs x) { return __builtin_convertvector(x, vf); }
//@ narrow
INLINE vs narrow(vf x) { return __builtin_convertvector(x, vs); }
//@ round_f16
INLINE vf round_f16(vf x) { return widen(from_f16(to_f16(narrow(x)))); }
INLINE real round_f16(real x) { return round_f16(splat(x))[0]; }
//@ round_bf16
INLINE vf round_bf16(vf x) { return widen(from_bf16(to_bf16(narrow(x)))); }
INLINE real round_bf16(real x) { return round_bf16(splat(x))[0]; }
//@ round_f8e4m3
INLINE vf round_f8e4m3(vf x) { return widen(from_f8e4m3(to_f8e4m3(narrow(x)))); }
INLINE real round_f8e4m3(real x) { return round_f8e4m3(splat(x))[0]; }
//@ round_f8e5m2
INLINE vf round_f8e5m2(vf x) { return widen(from_f8e5m2(to_f8e5m2(narrow(x)))); }
INLINE real round_f8e5m2(real x) { return round_f8e5m2(splat(x))[0]; }
//@ round_f32
INLINE vf round_f32(vf x) { return widen(narrow(x)); }
INLINE real round_f32(real x) { return (real)(float)x; }
//@ to_i64
// Towards zero, saturating; NaN is 0.
INLINE int64 to_i64(real x) {
  const int64 most = 0x7fffffffffffffffLL;
  return x != x ? 0 : x >= (real)9223372036854775808.0 ? most : x <= (real)-9223372036854775808.0 ? -most - 1 : (int64)x;
}
INLINE vl to_i64(vf x) {
  vl r;
  for (int l = 0; l < LANES; ++l) r[l] = to_i64(x[l]);
  return r;
}
//@ to_i32
INLINE int64 to_i32(int64 x) { return x < -2147483647LL - 1 ? -2147483647LL - 1 : x > 2147483647LL ? 2147483647LL : x; }
INLINE int64 to_i32(real x) { return to_i32(to_i64(x)); }
INLINE vl to_i32(vl x) {
  for (int l = 0; l < LANES; ++l) x[l] = to_i32((int64)x[l]);
  return x;
}
INLINE vl to_i32(vf x) { return to_i32(to_i64(x)); }
//@ to_i8
INLINE int64 to_i8(int64 x) { return x < -128 ? -128 : x > 127 ? 127 : x; }
INLINE int64 to_i8(real x) { return to_i8(to_i64(x)); }
INLINE vl to_i8(vl x) {
  for (int l = 0; l < LANES; ++l) x[l] = to_i8((int64)x[l]);
  return x;
}
INLINE vl to_i8(vf x) { return to_i8(to_i64(x)); }

//@ load_real load_apart
__attribute__((noinline, cold)) static vf load_apart(const real* p, int64 stride, int64 n) {
  alignas(64) real lanes[LANES];
  gather(lanes, p, stride, n);
  return *(const vf*)lanes;
}
// The first n lanes from p[0], p[stride] …; 0 in the others.
INLINE vf load_real(const real* p, int64 stride, int64 n) {
  if (__builtin_expect(n >= LANES && stride == 1, 1)) return *(const vf_any*)p;
  return load_apart(p, stride, n);
}
//@ bring
// Brings bytes that will be read into the second cache: it waits for more lines at once than the first.
INLINE void bring(const void* p, int64 bytes) {
  for (int64 b = 0; b < bytes; b += 64) __builtin_prefetch((const char*)p + b, 0, 2);
}
//@ transpose
// x[r][l] = x[l][r] of LANES vectors of LANES numbers.
template <class V>
INLINE void transpose(V (&x)[LANES]) {
  UNROLL
  for (int r = 0; r < LANES; ++r) {
    if (LANES <= 8 || (r & 8)) continue;
    V &a = x[r], &b = x[(r + 8) % LANES];
    const V low = __builtin_shufflevector(a, b, $LOWS8);
    b = __builtin_shufflevector(a, b, $HIGHS8);
    a = low;
  }
  UNROLL
  for (int r = 0; r < LANES; ++r) {
    if (LANES <= 4 || (r & 4)) continue;
    V &a = x[r], &b = x[(r + 4) % LANES];
    const V low = __builtin_shufflevector(a, b, $LOWS4);
    b = __builtin_shufflevector(a, b, $HIGHS4);
    a = low;
  }
  UNROLL
  for (int r = 0; r < LANES; ++r) {
    if (LANES <= 2 || (r & 2)) continue;
    V &a = x[r], &b = x[(r + 2) % LANES];
    const V low = __builtin_shufflevector(a, b, $LOWS2);
    b = __builtin_shufflevector(a, b, $HIGHS2);
    a = low;
  }
  UNROLL
  for (int r = 0; r < LANES; ++r) {
    if (r & 1) continue;
    V &a = x[r], &b = x[r + 1];
    const V low = __builtin_shufflevector(a, b, $LOWS1);
    b = __builtin_shufflevector(a, b, $HIGHS1);
    a = low;
  }
}
//@ pack
// to[panel, k, lane] = from[lane, k] for n rows of panels of `width` lanes, of which the first `lanes` exist and the others are 0. What lies `ahead` elements
// further is read soon (0: nothing is known). LOAD(p, stride, n) converts n elements to a vector.
template <class T, vf (*LOAD)(const T*, int64, int64)>
__attribute__((noinline)) static void pack(real* to, int64 to_panel, int64 to_row, int64 width, const T* from, int64 from_lane, int64 from_row, int64 lanes,
                                           int64 n, int64 ahead = 0) {
  for (int64 k = 0; from_lane == 1 && k < n; ++k) {
    real* t = to + k * to_row;
    const T* f = from + k * from_row;
    if (ahead != 0) bring(f + ahead, lanes * sizeof(T));
    for (int64 left = lanes; left > 0; left -= width, t += to_panel, f += width) {
      int64 l = 0;
      const int64 exist = left < width ? left : width;
      for (; l + LANES <= exist; l += LANES) st(t + l, LOAD(f + l, 1, LANES));
      if (l < exist) st(t + l, LOAD(f + l, 1, exist - l)), l += LANES;
      for (; l < width; l += LANES) st(t + l, (vf){});
    }
  }
  for (int64 first = 0; from_lane != 1 && first < lanes; first += width, to += to_panel)
    for (int64 l = 0; l < width; l += LANES) {
      const T* f = from + (first + l) * from_lane;
      int64 k = 0;
      for (; from_row == 1 && first + l + LANES <= lanes && k + LANES <= n; k += LANES) {
        vf rows[LANES];
        UNROLL
        for (int r = 0; r < LANES; ++r) rows[r] = LOAD(f + r * from_lane + k, 1, LANES);
        transpose(rows);
        UNROLL
        for (int r = 0; r < LANES; ++r) st(to + (k + r) * to_row + l, rows[r]);
      }
      for (; k < n; ++k) st(to + k * to_row + l, LOAD(f + k * from_row, from_lane, lanes - first - l));
    }
}
//@ unpack
// to[lane, k] = from[panel, k, lane] for n rows of panels of `width` lanes, of which the first `lanes` exist.
__attribute__((noinline)) static void unpack(real* to, int64 to_lane, int64 to_row, const real* from, int64 from_panel, int64 from_row, int64 width,
                                             int64 lanes, int64 n) {
  for (int64 k = 0; to_lane == 1 && k < n; ++k) {
    real* t = to + k * to_row;
    const real* f = from + k * from_row;
    for (int64 left = lanes; left > 0; left -= width, t += width, f += from_panel) {
      int64 l = 0;
      const int64 exist = left < width ? left : width;
      for (; l + LANES <= exist; l += LANES) *(vf_any*)(t + l) = ld(f + l);
      for (; l < exist; ++l) t[l] = f[l];
    }
  }
  for (int64 first = 0; to_lane != 1 && first < lanes; first += width, from += from_panel)
    for (int64 l = 0; l < width && first + l < lanes; l += LANES) {
      real* t = to + (first + l) * to_lane;
      const int64 exist = lanes - first - l;
      int64 k = 0;
      for (; to_row == 1 && exist >= LANES && k + LANES <= n; k += LANES) {
        vf rows[LANES];
        UNROLL
        for (int r = 0; r < LANES; ++r) rows[r] = ld(from + (k + r) * from_row + l);
        transpose(rows);
        UNROLL
        for (int r = 0; r < LANES; ++r) *(vf_any*)(t + r * to_lane + k) = rows[r];
      }
      for (; k < n; ++k)
        for (int64 r = 0; r < LANES && r < exist; ++r) t[r * to_lane + k * to_row] = from[k * from_row + l + r];
    }
}
//@ load_f32
INLINE vf load_f32(const float* p, int64 stride, int64 n) {
  alignas(64) float lanes[LANES];
  gather(lanes, p, stride, n);
  return widen(*(const vs*)lanes);
}
//@ load_f64
INLINE vf load_f64(const double* p, int64 stride, int64 n) {
  alignas(64) real lanes[LANES];
  for (int64 l = 0; l < LANES; ++l) lanes[l] = l < n ? (real)p[l * stride] : (real)0;
  return *(const vf*)lanes;
}
//@ load_f16
INLINE vf load_f16(const unsigned short* p, int64 stride, int64 n) {
#if defined(__F16C__) && $V == 8
  typedef short v8h __attribute__((vector_size(16), aligned(2)));
  if (__builtin_expect(n >= LANES && stride == 1, 1)) return widen((vs)__builtin_ia32_vcvtph2ps256(*(const v8h*)p));
#elif defined(__AVX512F__) && $V == 16
  typedef short v16h __attribute__((vector_size(32), aligned(2)));
  if (__builtin_expect(n >= LANES && stride == 1, 1)) return widen((vs)__builtin_ia32_vcvtph2ps512_mask(*(const v16h*)p, (vs){}, -1, 4));
#endif
  return widen(from_f16(raw_load(p, stride, n)));
}
//@ load_bf16
INLINE vf load_bf16(const unsigned short* p, int64 stride, int64 n) { return widen(from_bf16(raw_load(p, stride, n))); }
//@ load_f8e4m3
INLINE vf load_f8e4m3(const unsigned char* p, int64 stride, int64 n) { return widen(from_f8e4m3(raw_load(p, stride, n))); }
//@ load_f8e5m2
INLINE vf load_f8e5m2(const unsigned char* p, int64 stride, int64 n) { return widen(from_f8e5m2(raw_load(p, stride, n))); }
//@ load_int
template <class T>
INLINE vi load_int(const T* p, int64 stride, int64 n) {
  alignas(64) int lanes[LANES];
  for (int64 l = 0; l < LANES; ++l) lanes[l] = l < n ? (int)p[l * stride] : 0;
  return *(const vi*)lanes;
}
INLINE vl load_int(const int64* p, int64 stride, int64 n) {
  alignas(64) int64 lanes[LANES];
  gather(lanes, p, stride, n);
  return *(const vl*)lanes;
}
//@ store_real store_apart
__attribute__((noinline, cold)) static void store_apart(real* p, int64 stride, int64 n, vf x) { scatter(p, stride, n, (const real*)&x); }
INLINE void store_real(real* p, int64 stride, int64 n, vf x) {
  if (__builtin_expect(n >= LANES && stride == 1, 1))
    *(vf_any*)p = x;
  else
    store_apart(p, stride, n, x);
}
//@ store_past store_fence
typedef long long v_words __attribute__((vector_size($B), may_alias));
typedef long long v_part __attribute__((vector_size(16), may_alias));
// Where `past`, whole vectors go past the caches, which would read a line before it is written; a line may come in parts of 16 bytes.
#if defined(__clang__)
INLINE void past_whole(v_words* p, v_words x) { __builtin_nontemporal_store(x, p); }
INLINE void past_part(v_part* p, v_part x) { __builtin_nontemporal_store(x, p); }
#elif defined(__x86_64__)
INLINE void past_whole(v_words* p, v_words x) { __builtin_ia32_movntdq$NT(p, x); }
INLINE void past_part(v_part* p, v_part x) { __builtin_ia32_movntdq(p, x); }
#endif
INLINE void store_past(real* p, int64 stride, int64 n, vf x, bool past) {
#if defined(__x86_64__)
  if (past && n >= LANES && stride == 1 && (unsigned long long)p % 16 == 0) {
    if ((unsigned long long)p % $B == 0) return past_whole((v_words*)p, (v_words)x);
    UNROLL
    for (int k = 0; k < $B / 16; ++k) past_part((v_part*)p + k, ((const v_part*)&x)[k]);
    return;
  }
#endif
  store_real(p, stride, n, x);
}
// Such stores are seen by others before what follows.
INLINE void store_fence() {
#if defined(__x86_64__)
  __builtin_ia32_sfence();
#endif
}
//@ store_f32
INLINE void store_f32(float* p, int64 stride, int64 n, vf x) {
  const vs y = narrow(x);
  scatter(p, stride, n, (const float*)&y);
}
//@ store_f64
INLINE void store_f64(double* p, int64 stride, int64 n, vf x) {
  for (int64 l = 0; l < LANES; ++l)
    if (l < n) p[l * stride] = x[l];
}
//@ store_f16
INLINE void store_f16(unsigned short* p, int64 stride, int64 n, vf x) { raw_store(p, stride, n, to_f16(narrow(x))); }
//@ store_bf16
INLINE void store_bf16(unsigned short* p, int64 stride, int64 n, vf x) { raw_store(p, stride, n, to_bf16(narrow(x))); }
//@ store_f8e4m3
INLINE void store_f8e4m3(unsigned char* p, int64 stride, int64 n, vf x) { raw_store(p, stride, n, to_f8e4m3(narrow(x))); }
//@ store_f8e5m2
INLINE void store_f8e5m2(unsigned char* p, int64 stride, int64 n, vf x) { raw_store(p, stride, n, to_f8e5m2(narrow(x))); }
//@ store_int
template <class T, class V>
INLINE void store_int(T* p, int64 stride, int64 n, V x) {
  for (int64 l = 0; l < LANES; ++l)
    if (l < n) p[l * stride] = (T)x[l];
}

//@ fma
// d[r, lanes] (+)= Σ_k a[k, lanes]·b[r, k] for R rows and C vectors of lanes, in R·C accumulators. `scale`: what d held is multiplied by it first, lane by
// lane (null: not). TOP: the greatest (1) or least (-1) value of each lane is taken into `top` as well (0: not). For each k lines_near lines, `near_row` bytes
// apart from `near` on and `near_step` bytes further with every k, are brought near: NEAR 0: rows behind, into the first cache, one line of each of two (of one
// where C is 1 and loads are what the loop waits for); 1: as many of what is read next, into the second cache, which waits for more lines at once; 2: whole
// panels of it. BESIDE: the last of the R rows is one of another product with the same lanes, which
// takes b from `e` and lies at `de`.
template <int C, int NEAR>
constexpr int lines_near = NEAR > 1 ? (C * int(sizeof(vf)) + 63) / 64 : C > 1 ? 2 : 1;
// PIN keeps the compiler from loading a vector of lanes again for every row: 4×3 rows and vectors would take 16 loads instead of 7 for 12 products.
#if defined(__AVX512F__)
#define PIN(x) asm("" : "+v"(x))
#elif defined(__AVX__)
#define PIN(x) asm("" : "+x"(x))
#else
#define PIN(x)
#endif
// KEEP keeps it from addressing all rows from one pointer: a register for the distance of every row is more than there are, and what has none is moved
// through vector registers, where it waits behind the products.
#define KEEP(p) asm("" : "+r"(p))
// Vectors of type V, which may be halves, and W of them in a row of d: behind the C that are computed it holds 0, or what it held.
typedef real vf_half __attribute__((vector_size($B / 2), may_alias));
template <int R, int C, int TOP, int NEAR, int BESIDE = 0, class V = vf, int W = C>
__attribute__((noinline)) static void fma(real* d, int64 d_row, const real* a, int64 a_inner, const real* b, int64 b_row, int64 b_inner,
                                          int64 inner, bool add, const real* scale, real* top, const char* near, int64 near_row,
                                          int64 near_step, const real* e = 0, int64 e_inner = 0, real* de = 0) {
  constexpr int N = sizeof(V) / sizeof(real);
  const auto row = [&](int r) { return BESIDE && r == R - 1 ? de : d + r * d_row; };
  V s[R][C];
  UNROLL
  for (int r = 0; r < R; ++r) {
    UNROLL
    for (int c = 0; c < C; ++c) s[r][c] = (V){};
  }
  const real* four[(R + 3) / 4];
  UNROLL
  for (int r = 0; r < R; r += 4) {
    four[r / 4] = b + r * b_row;
    KEEP(four[r / 4]);
  }
  for (int64 k = 0; k < inner; ++k) {
    V x[C];
    UNROLL
    for (int c = 0; c < C; ++c) {
      __builtin_memcpy(&x[c], a + c * N, sizeof(V));
      PIN(x[c]);
    }
    UNROLL
    for (int r = 0; r < R; ++r) {
      const real y = BESIDE && r == R - 1 ? *e : four[r / 4][r % 4 * b_row];
      UNROLL
      for (int c = 0; c < C; ++c) s[r][c] += x[c] * y;
    }
    a += a_inner;
    UNROLL
    for (int r = 0; r < R; r += 4) four[r / 4] += b_inner;
    if (BESIDE) e += e_inner;
    UNROLL
    for (int l = 0; l < lines_near<C, NEAR>; ++l) __builtin_prefetch(near + l * near_row, 0, NEAR > 0 ? 2 : 3);
    near += near_step;
  }
  if (add) {
    UNROLL
    for (int c = 0; c < C; ++c) {
      const V x = scale ? *(const V*)(scale + c * N) : 1 - (V){};
      UNROLL
      for (int r = 0; r < R; ++r) s[r][c] += *(const V*)(row(r) + c * N) * x;
    }
  }
  UNROLL
  for (int r = 0; r < R; ++r) {
    UNROLL
    for (int c = 0; c < C; ++c) *(V*)(row(r) + c * N) = s[r][c];
    UNROLL
    for (int c = C; c < W; ++c)
      if (!add) *(V*)(row(r) + c * N) = (V){};
  }
  if constexpr (TOP != 0 && N < LANES) {
    UNROLL
    for (int c = 0; c < C; ++c) {
      V x = *(const V*)(top + c * N);
      UNROLL
      for (int r = 0; r < R; ++r) x = (TOP > 0 ? x > s[r][c] : x < s[r][c]) | (x != x) ? x : s[r][c];  // NaN if any is
      *(V*)(top + c * N) = x;
    }
  } else if constexpr (TOP != 0) {
    UNROLL
    for (int c = 0; c < C; ++c) take_top<TOP, R, C>(top + c * LANES, s, c);
  }
}
//@ product
// The same for n rows, a power of two that is at most R: a tile of rows that R does not divide ends with halves of R, not with one row after another.
template <int R, int C, int TOP, int NEAR, int BESIDE = 0>
INLINE void fma_of(int64 n, real* d, int64 d_row, const real* a, int64 a_inner, const real* b, int64 b_row, int64 b_inner, int64 inner, bool add,
                   const real* scale, real* top, const char* near, int64 near_row, int64 near_step, const real* e = 0, int64 e_inner = 0,
                   real* de = 0) {
  if constexpr (R > 1) {
    if (n < R)
      return fma_of<R / 2, C, TOP, NEAR, BESIDE>(n, d, d_row, a, a_inner, b, b_row, b_inner, inner, add, scale, top, near, near_row, near_step, e,
                                                 e_inner, de);
  }
  fma<R + BESIDE, C, TOP, NEAR, BESIDE>(d, d_row, a, a_inner, b, b_row, b_inner, inner, add, scale, top, near, near_row, near_step, e, e_inner, de);
}
// The first vectors of a panel, about half of them, or half of one.
template <int R, int C, int TOP, int NEAR, class... A>
INLINE void fma_few(A... a) {
  if constexpr (C > 1)
    fma<R, (C + 1) / 2, TOP, NEAR, 0, vf, C>(a...);
  else if constexpr (sizeof(vf) > 16)
    fma<R, 1, TOP, NEAR, 0, vf_half, 2>(a...);
}
// The same for any number of rows and of lanes, in panels of C vectors, of the last of which no more than about half are computed where that is enough; rows of b are used for all panels in turn, but where
// they are few: then a panel, which the first cache holds, is used for all rows. What is read next is brought near: `next_rows` rows of
// `next_bytes` bytes, `next_row` bytes apart; where `next_bytes` is 0, the lanes that lie at `next` as those of now lie at `a`, each panel of them while the
// same of now is used; or, where `next` is null, the rows behind. BESIDE: the first rows take one of another product along, as `fma` does.
template <int R, int C, int TOP = 0, int NEAR = 0, int BESIDE = 0>
__attribute__((noinline)) static void product(int64 lanes, int64 rows, int64 inner, real* d, int64 d_panel, int64 d_row, const real* a,
                                              int64 a_panel, int64 a_inner, const real* b, int64 b_row, int64 b_inner, bool add,
                                              const real* scale = 0, real* top = 0, const void* next = 0, int64 next_row = 0,
                                              int64 next_rows = 0, int64 next_bytes = 0, const real* e = 0, int64 e_inner = 0,
                                              real* de = 0, int64 de_panel = 0) {
  constexpr int narrow = C > 1 ? (C + 1) / 2 * LANES : sizeof(vf) > 16 ? LANES / 2 : 0;
  const int64 panels = (lanes + C * LANES - 1) / (C * LANES);
  for (int64 c = 0; TOP != 0 && c < panels * C; ++c) st(top + c * LANES, splat(TOP > 0 ? -__builtin_inff() : __builtin_inff()));
  const int64 size = sizeof(real), calls = (rows / R + __builtin_popcountll(rows % R)) * panels, lines = lines_near<C, NEAR>;
  const bool as_now = next && next_bytes == 0;
  const char* near = (const char*)next;
  int64 near_row = next_row, near_step = 0, near_rows = 0;  // rows for each call; rows behind one another are cut anew
  if (next && !as_now && calls > 0 && inner > 0) {
    if (near_row == next_bytes) {
      next_bytes = near_row = (next_rows * next_bytes + lines * calls - 1) / (lines * calls);
      next_rows = lines * calls;
    }
    near_step = (next_bytes + inner - 1) / inner;
    near_rows = (next_rows + calls - 1) / calls;
  }
  const bool few = rows <= 2 * R;
  for (int64 r = 0, p = 0, n = R; r < rows && p < panels; near += near_rows * near_row) {
    while (n > rows - r) n /= 2;
    if (!next && (few || p == 0)) {
      const bool behind = b_inner == 1 && r + n < rows;
      near = (const char*)(b + (behind ? r + n : r) * b_row);
      near_row = behind ? b_row * size : 0;
      near_step = behind ? size : 0;
      near_rows = lines;
    }
    const real* s = scale ? scale + p * C * LANES : 0;
    real* t = TOP != 0 ? top + p * C * LANES : 0;
    const real *ap = a + p * a_panel, *br = b + r * b_row;
    real* dp = d + p * d_panel + r * d_row;
    if (as_now) {  // once, by the first rows
      near = r == 0 ? (const char*)next + p * a_panel * size : (const char*)ap;
      near_row = 64;
      near_step = a_inner * size;
    }
    for (int64 k = lines; k < near_rows; ++k) bring(near + k * near_row, next_bytes);
    if (BESIDE && r == 0)
      fma_of<R, C, TOP, NEAR, BESIDE>(n, dp, d_row, ap, a_inner, br, b_row, b_inner, inner, add, s, t, near, near_row, near_step, e, e_inner,
                                      de + p * de_panel);
    else if (narrow > 0 && n == R && lanes - p * C * LANES <= narrow)
      fma_few<R, C, TOP, NEAR>(dp, d_row, ap, a_inner, br, b_row, b_inner, inner, add, s, t, near, near_row, near_step);
    else
      fma_of<R, C, TOP, NEAR>(n, dp, d_row, ap, a_inner, br, b_row, b_inner, inner, add, s, t, near, near_row, near_step);
    if (few) {
      r += n;
      if (r == rows) r = 0, n = R, ++p;
    } else if (++p == panels) {
      p = 0, r += n;
    }
  }
}
//@ end
)TEXT";

}  // namespace tilewright
