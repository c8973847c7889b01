// causal: made by Tilewright for cpu-avx2.
// causal: words are Q, K, V, O, Q_b, Q_h, Q_i, Q_d, K_b, K_h, K_j, K_d, V_b, V_h, V_j, V_e, O_b, O_h, O_i, O_e, b, h, i, j
typedef long long int64;
typedef float real;
enum { LANES = 8 };
typedef real vf __attribute__((vector_size(32), may_alias));          // reals of all lanes
typedef int vm __attribute__((vector_size(32), may_alias));            // conditions: 0 or -1 in every lane
typedef float vs __attribute__((vector_size(4 * LANES), may_alias));
typedef int vi __attribute__((vector_size(4 * LANES), may_alias));
typedef unsigned vu __attribute__((vector_size(4 * LANES), may_alias));
typedef int64 vl __attribute__((vector_size(8 * LANES), may_alias));
typedef real vf_any __attribute__((vector_size(32), aligned(sizeof(real)), may_alias));  // anywhere in memory
#define INLINE static inline __attribute__((always_inline))
#ifdef __clang__
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

static const vm iota = {0, 1, 2, 3, 4, 5, 6, 7};
INLINE vf ld(const real* p) { return *(const vf*)p; }
INLINE void st(real* p, vf x) { *(vf*)p = x; }
INLINE vf splat(real x) { return x - (vf){}; }
INLINE vf select(vm c, vf a, vf b) { return c ? a : b; }
// Comparisons of lane numbers with far away bounds stay what they are.
INLINE int clamp(int64 x) { return x < -(1 << 30) ? -(1 << 30) : x > (1 << 30) ? (1 << 30) : (int)x; }
INLINE vm valid(int64 n) { return iota < (int)clamp(n); }  // the first n lanes
INLINE bool any(vm x) {
  int64 found = 0;
  UNROLL
  for (int l = 0; l < LANES; ++l) found |= x[l];
  return found != 0;
}
INLINE bool all(vm x) {
  int64 found = -1;
  UNROLL
  for (int l = 0; l < LANES; ++l) found &= x[l];
  return found != 0;
}
// a > b ? a : b and a < b ? a : b: b where either is NaN. The compiler takes a comparison and a selection for what is one instruction.
#if defined(__AVX512F__) && 8 == 16
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
#elif defined(__AVX__) && 8 == 8
INLINE vf above(vf a, vf b) { return (vf)__builtin_ia32_maxps256(a, b); }
INLINE vf below(vf a, vf b) { return (vf)__builtin_ia32_minps256(a, b); }
#elif defined(__SSE__) && 8 == 4
INLINE vf above(vf a, vf b) { return (vf)__builtin_ia32_maxps(a, b); }
INLINE vf below(vf a, vf b) { return (vf)__builtin_ia32_minps(a, b); }
#else
INLINE vf above(vf a, vf b) { return a > b ? a : b; }
INLINE vf below(vf a, vf b) { return a < b ? a : b; }
#endif
// Where a or b is NaN, and what makes x NaN there.
#if defined(__AVX512F__) && 8 == 16
typedef unsigned short nans;
INLINE nans unordered(vf a, vf b) { return __builtin_ia32_cmpps512_mask(a, b, 3, -1, 4); }
INLINE vf with_nans(vf x, nans k) {
  asm("vmovaps %1, %0%{%2%}" : "+v"(x) : "v"(splat(__builtin_nanf(""))), "Yk"(k));
  return x;
}
#else
typedef vm nans;
INLINE nans unordered(vf a, vf b) {
#if defined(__AVX__) && 32 == 32 && 8 == 8
  return (vm)__builtin_ia32_cmpps256(a, b, 3);
#else
  return (a != a) | (b != b);
#endif
}
INLINE vf with_nans(vf x, nans k) { return (vf)((vm)x | k); }
#endif
INLINE vf v_max(vf a, vf b) { return a == a ? above(a, b) : a; }  // NaN if either is
INLINE real v_max(real a, real b) { return a > b || a != a ? a : b; }
INLINE vf v_min(vf a, vf b) { return a == a ? below(a, b) : a; }  // NaN if either is
INLINE real v_min(real a, real b) { return a < b || a != a ? a : b; }
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
INLINE int64 i_max(int64 a, int64 b) { return a > b ? a : b; }
INLINE vl i_max(vl a, vl b) { return a > b ? a : b; }
INLINE int64 i_min(int64 a, int64 b) { return a < b ? a : b; }
INLINE vl i_min(vl a, vl b) { return a < b ? a : b; }
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
// Lane l holds lane l ^ W of x.
template <int W>
INLINE vf away(vf x) {
  return W == 8   ? __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7)
         : W == 4 ? __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3)
         : W == 2 ? __builtin_shufflevector(x, x, 2, 3, 0, 1, 6, 7, 4, 5)
                  : __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6);
}
INLINE vf v_abs(vf x) { return (vf)((vm)x & ~((int)1 << (8 * sizeof(real) - 1))); }
INLINE real v_abs(real x) { return x < 0 ? -x : x == 0 ? 0 : x; }
#define ALL UNROLL for (int c = 0; c < N; ++c)  // N vectors in step: none waits for its own last operation
// `rounded` is the next whole number n plus `rounding`; exp2_parts makes 2^f 2^n of f and that: infinity from n = 129, 0 from n = -126 down.
#if defined(__AVX512F__) && 8 == 16
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
// The first n lanes from p[0], p[stride] …; 0 in the others.
template <class T>
INLINE void gather(T* lanes, const T* p, int64 stride, int64 n) {
  for (int64 l = 0; l < LANES; ++l) lanes[l] = l < n ? p[l * stride] : (T)0;
}
INLINE vs narrow(vf x) { return __builtin_convertvector(x, vs); }
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
// Brings bytes that will be read into the second cache: it waits for more lines at once than the first.
INLINE void bring(const void* p, int64 bytes) {
  for (int64 b = 0; b < bytes; b += 64) __builtin_prefetch((const char*)p + b, 0, 2);
}
// x[r][l] = x[l][r] of LANES vectors of LANES numbers.
template <class V>
INLINE void transpose(V (&x)[LANES]) {
  UNROLL
  for (int r = 0; r < LANES; ++r) {
    if (LANES <= 8 || (r & 8)) continue;
    V &a = x[r], &b = x[(r + 8) % LANES];
    const V low = __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7);
    b = __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15);
    a = low;
  }
  UNROLL
  for (int r = 0; r < LANES; ++r) {
    if (LANES <= 4 || (r & 4)) continue;
    V &a = x[r], &b = x[(r + 4) % LANES];
    const V low = __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11);
    b = __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
    a = low;
  }
  UNROLL
  for (int r = 0; r < LANES; ++r) {
    if (LANES <= 2 || (r & 2)) continue;
    V &a = x[r], &b = x[(r + 2) % LANES];
    const V low = __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13);
    b = __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
    a = low;
  }
  UNROLL
  for (int r = 0; r < LANES; ++r) {
    if (r & 1) continue;
    V &a = x[r], &b = x[r + 1];
    const V low = __builtin_shufflevector(a, b, 0, 8, 2, 10, 4, 12, 6, 14);
    b = __builtin_shufflevector(a, b, 1, 9, 3, 11, 5, 13, 7, 15);
    a = low;
  }
}
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
typedef real vf_half __attribute__((vector_size(32 / 2), may_alias));
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

static void causal_task(const int64* words, int64 task) {
  const float* const Q = (const float*)words[0];
  const float* const K = (const float*)words[1];
  const float* const V = (const float*)words[2];
  float* const O = (float*)words[3];
  const int64 Q_b = words[4];
  const int64 Q_h = words[5];
  const int64 Q_i = words[6];
  const int64 Q_d = words[7];
  const int64 K_b = words[8];
  const int64 K_h = words[9];
  const int64 K_j = words[10];
  const int64 K_d = words[11];
  const int64 V_b = words[12];
  const int64 V_h = words[13];
  const int64 V_j = words[14];
  const int64 V_e = words[15];
  const int64 O_b = words[16];
  const int64 O_h = words[17];
  const int64 O_i = words[18];
  const int64 O_e = words[19];
  const int64 size_b = words[20];
  const int64 size_h = words[21];
  const int64 size_i = words[22];
  const int64 size_j = words[23];
  const int64 i_block = i_floordiv(size_i + 48 - 1, 48) - 1 - task % (i_floordiv(size_i + 48 - 1, 48));
  task /= i_floordiv(size_i + 48 - 1, 48);
  const int64 h_block = task % (size_h);
  task /= size_h;
  const int64 b_block = task;
  alignas(64) real Q_tile[1536];  // [i, d]
  alignas(64) real rho[48];  // [i]
  alignas(64) real l[48];  // [i]
  alignas(64) real o[1536];  // [i, e]
  alignas(64) real S[3072];  // [i, j]
  alignas(64) real m[48];  // [i]
  alignas(64) real rho_next[48];  // [i]
  alignas(64) real g[48];  // [i]
  alignas(64) real r[48];  // [i]
  alignas(64) real l_inv[48];  // [i]
  int leak;  // []
  const int64 b = b_block;
  const int64 h = h_block;
  const int64 i0 = 48 * i_block;
  const int64 ni = i_min(48, size_i - i0);
  // Q = Q[b, h, i, d]
  pack<float, load_real>(Q_tile, 768, 24, 24, Q + b * Q_b + h * Q_h + i0 * Q_i + 0 * Q_d, Q_i, Q_d, ni, 32);
  // rho = -inf
  for (int64 p = 0; p * 24 < ni; ++p) {
    UNROLL
    for (int c = 0; c < 3; ++c) {
      const int64 i = p * 24 + c * 8;
      st(rho + i, splat(-__builtin_inff()));
    }
  }
  // l = 0
  for (int64 p = 0; p * 24 < ni; ++p) {
    UNROLL
    for (int c = 0; c < 3; ++c) {
      const int64 i = p * 24 + c * 8;
      st(l + i, splat(0.0f));
    }
  }
  // o = 0
  for (int64 p = 0; p * 24 < ni; ++p) {
    for (int64 e = 0; e < 32; ++e) {
      UNROLL
      for (int c = 0; c < 3; ++c) {
        const int64 i = p * 24 + c * 8;
        st(o + p * 768 + e * 24 + c * 8, splat(0.0f));
      }
    }
  }
  // plain
  for (int64 j_chunk = 0, j_chunk_end = i_max(0, i_min(i_block + ((size_j - size_i - 16 * i_block + 1) >> 6), size_j >> 6)); j_chunk < j_chunk_end; ++j_chunk) {
    const int64 j0 = 64 * j_chunk;
    const int64 nj = i_min(64, size_j - j0);
    // S = sum[d](Q * K)
    // m = max[j](S[i, j])
    product<4, 3, 1, 1>(ni, nj, 32, S, 1536, 24, Q_tile, 768, 24, K + b * K_b + h * K_h + j0 * K_j + 0 * K_d, K_j, K_d, false, 0, m, V + b * V_b + h * V_h + j0 * V_j + 0 * V_e, 4 * V_j, nj, 4 * 32);
    // rho_next = max(rho[i], m[i]): point
    for (int64 p = 0; p * 24 < ni; ++p) {
      UNROLL
      for (int c = 0; c < 3; ++c) {
        const int64 i = p * 24 + c * 8;
        st(rho_next + i, v_max(ld(rho + i), ld(m + i)));
      }
    }
    // r = where(rho[i] != rho_next[i], exp2((rho[i] - rho_next[i]) * 0.25503486164919736), 1)
    for (int64 p = 0; p * 24 < ni; ++p) {
      vf x0[3];
      UNROLL
      for (int c = 0; c < 3; ++c) {
        const int64 i = p * 24 + c * 8;
        const vf t0 = ld(rho + i);
        const vf t1 = ld(rho_next + i);
        x0[c] = 0.25503486f * (t0 - t1);
      }
      v_exp2(x0);
      UNROLL
      for (int c = 0; c < 3; ++c) {
        const int64 i = p * 24 + c * 8;
        const vf t0 = ld(rho + i);
        const vf t1 = ld(rho_next + i);
        st(r + i, select(t0 != t1, x0[c], splat(1.0f)));
      }
    }
    // l = l[i] * r[i]: repair
    for (int64 p = 0; p * 24 < ni; ++p) {
      UNROLL
      for (int c = 0; c < 3; ++c) {
        const int64 i = p * 24 + c * 8;
        st(l + i, ld(l + i) * ld(r + i));
      }
    }
    // rho = rho_next[i]
    for (int64 p = 0; p * 24 < ni; ++p) {
      UNROLL
      for (int c = 0; c < 3; ++c) {
        const int64 i = p * 24 + c * 8;
        st(rho + i, ld(rho_next + i));
      }
    }
    // g = where(rho[i] == -inf, 0, rho[i])
    for (int64 p = 0; p * 24 < ni; ++p) {
      UNROLL
      for (int c = 0; c < 3; ++c) {
        const int64 i = p * 24 + c * 8;
        const vf t0 = ld(rho + i);
        st(g + i, select(t0 == -__builtin_inff(), splat(0.0f), t0));
      }
    }
    // S = exp2((S[i, j] - g[i]) * 0.25503486164919736): exp(S - rho)
    // l sum = sum[j](S[i, j]): sum exp(S - rho)
    for (int64 p = 0; p * 24 < ni; ++p) {
      vf total[1][3];
      UNROLL
      for (int u = 0; u < 1; ++u) {
        UNROLL
        for (int c = 0; c < 3; ++c) total[u][c] = (vf){};
      }
      for (int64 j = 0; j < nj; ++j) {
        vf x0[3];
        UNROLL
        for (int c = 0; c < 3; ++c) {
          const int64 i = p * 24 + c * 8;
          x0[c] = 0.25503486f * (ld(S + p * 1536 + j * 24 + c * 8) - ld(g + i));
        }
        v_exp2(x0);
        UNROLL
        for (int c = 0; c < 3; ++c) {
          const int64 i = p * 24 + c * 8;
          const vf made = x0[c];
          st(S + p * 1536 + j * 24 + c * 8, made);
          total[0][c] = total[0][c] + made;
        }
      }
      UNROLL
      for (int c = 0; c < 3; ++c) {
        const int64 i = p * 24 + c * 8;
        st(l + i, ld(l + i) + (total[0][c]));
      }
    }
    // o = o[i, e] * r[i]: repair
    // o += sum[j](S * V): sum exp(S - rho) V
    product<4, 3, 0, 1>(ni, 32, nj, o, 768, 24, S, 1536, 24, V + b * V_b + h * V_h + j0 * V_j + 0 * V_e, V_e, V_j, true, r, 0, K + b * K_b + h * K_h + (j0 + 64) * K_j + 0 * K_d, 4 * K_j, i_min(64, size_j - (j0 + 64)), 4 * 32);
  }
  // masked
  for (int64 j_chunk = i_max(0, i_min(i_block + ((size_j - size_i - 16 * i_block + 1) >> 6), size_j >> 6)), j_chunk_end = i_max(0, i_min(((size_j - size_i + i_min(size_i - 1, 48 * i_block + 47)) >> 6) + 1, (size_j + 63) >> 6)); j_chunk < j_chunk_end; ++j_chunk) {
    const int64 j0_2 = 64 * j_chunk;
    const int64 nj_2 = i_min(64, size_j - j0_2);
    // S = sum[d](Q * K)
    product<4, 3, 0, 1>(ni, nj_2, 32, S, 1536, 24, Q_tile, 768, 24, K + b * K_b + h * K_h + j0_2 * K_j + 0 * K_d, K_j, K_d, false, 0, 0, V + b * V_b + h * V_h + j0_2 * V_j + 0 * V_e, 4 * V_j, nj_2, 4 * 32);
    // S = where(size(i) + j <= i + size(j), S[i, j], -inf)
    // m = max[j](S[i, j])
    for (int64 p = 0; p * 24 < ni; ++p) {
      vf total[1][3];
      UNROLL
      for (int u = 0; u < 1; ++u) {
        UNROLL
        for (int c = 0; c < 3; ++c) total[u][c] = splat(-__builtin_inff());
      }
      for (int64 j = 0; j < nj_2; ++j) {
        UNROLL
        for (int c = 0; c < 3; ++c) {
          const int64 i = p * 24 + c * 8;
          const vf made = select(iota >= clamp(size_i - (i0 + i) - size_j + (j0_2 + j)), ld(S + p * 1536 + j * 24 + c * 8), splat(-__builtin_inff()));
          st(S + p * 1536 + j * 24 + c * 8, made);
          total[0][c] = v_max(total[0][c], made);
        }
      }
      UNROLL
      for (int c = 0; c < 3; ++c) {
        const int64 i = p * 24 + c * 8;
        st(m + i, total[0][c]);
      }
    }
    // rho_next = max(rho[i], m[i]): point
    for (int64 p = 0; p * 24 < ni; ++p) {
      UNROLL
      for (int c = 0; c < 3; ++c) {
        const int64 i = p * 24 + c * 8;
        st(rho_next + i, v_max(ld(rho + i), ld(m + i)));
      }
    }
    // r = where(rho[i] != rho_next[i], exp2((rho[i] - rho_next[i]) * 0.25503486164919736), 1)
    for (int64 p = 0; p * 24 < ni; ++p) {
      vf x0[3];
      UNROLL
      for (int c = 0; c < 3; ++c) {
        const int64 i = p * 24 + c * 8;
        const vf t0 = ld(rho + i);
        const vf t1 = ld(rho_next + i);
        x0[c] = 0.25503486f * (t0 - t1);
      }
      v_exp2(x0);
      UNROLL
      for (int c = 0; c < 3; ++c) {
        const int64 i = p * 24 + c * 8;
        const vf t0 = ld(rho + i);
        const vf t1 = ld(rho_next + i);
        st(r + i, select(t0 != t1, x0[c], splat(1.0f)));
      }
    }
    // l = l[i] * r[i]: repair
    for (int64 p = 0; p * 24 < ni; ++p) {
      UNROLL
      for (int c = 0; c < 3; ++c) {
        const int64 i = p * 24 + c * 8;
        st(l + i, ld(l + i) * ld(r + i));
      }
    }
    // rho = rho_next[i]
    for (int64 p = 0; p * 24 < ni; ++p) {
      UNROLL
      for (int c = 0; c < 3; ++c) {
        const int64 i = p * 24 + c * 8;
        st(rho + i, ld(rho_next + i));
      }
    }
    // g = where(rho[i] == -inf, 0, rho[i])
    for (int64 p = 0; p * 24 < ni; ++p) {
      UNROLL
      for (int c = 0; c < 3; ++c) {
        const int64 i = p * 24 + c * 8;
        const vf t0 = ld(rho + i);
        st(g + i, select(t0 == -__builtin_inff(), splat(0.0f), t0));
      }
    }
    // S = exp2((S[i, j] - g[i]) * 0.25503486164919736): exp(S - rho)
    // l sum = sum[j](S[i, j]): sum exp(S - rho)
    for (int64 p = 0; p * 24 < ni; ++p) {
      vf total[1][3];
      UNROLL
      for (int u = 0; u < 1; ++u) {
        UNROLL
        for (int c = 0; c < 3; ++c) total[u][c] = (vf){};
      }
      for (int64 j = 0; j < nj_2; ++j) {
        vf x0[3];
        UNROLL
        for (int c = 0; c < 3; ++c) {
          const int64 i = p * 24 + c * 8;
          x0[c] = 0.25503486f * (ld(S + p * 1536 + j * 24 + c * 8) - ld(g + i));
        }
        v_exp2(x0);
        UNROLL
        for (int c = 0; c < 3; ++c) {
          const int64 i = p * 24 + c * 8;
          const vf made = x0[c];
          st(S + p * 1536 + j * 24 + c * 8, made);
          total[0][c] = total[0][c] + made;
        }
      }
      UNROLL
      for (int c = 0; c < 3; ++c) {
        const int64 i = p * 24 + c * 8;
        st(l + i, ld(l + i) + (total[0][c]));
      }
    }
    // leak = any[j, e](not abs(V[j, e]) < inf)
    {
      vm total[4];
      UNROLL
      for (int u = 0; u < 4; ++u) total[u] = (vm){};
      for (int64 j = 0; j < nj_2; ++j) {
        for (int64 first = 0; first + 32 <= 32; first += 32) {
          UNROLL
          for (int u = 0; u < 4; ++u) {
            const int64 e = first + u * 8;
            total[u] = total[u] | ~(v_abs(load_real(V + b * V_b + h * V_h + (j0_2 + j) * V_j + e * V_e, V_e, 32 - e)) < __builtin_inff());
          }
        }
        for (int64 e = (32) / 32 * 32; e < 32; e += 8) {
          total[0] = total[0] | ((~(v_abs(load_real(V + b * V_b + h * V_h + (j0_2 + j) * V_j + e * V_e, V_e, 32 - e)) < __builtin_inff())) & valid(32 - e));
        }
      }
      leak = any((total[0] | total[1]) | (total[2] | total[3]));
    }
    // leak any = any[i, j](S[i, j] != S[i, j])
    {
      vm total[3];
      UNROLL
      for (int u = 0; u < 3; ++u) total[u] = (vm){};
      for (int64 p = 0; p * 24 < ni; ++p) {
        for (int64 j = 0; j < nj_2; ++j) {
          UNROLL
          for (int c = 0; c < 3; ++c) {
            const int64 i = p * 24 + c * 8;
            const vf t0 = ld(S + p * 1536 + j * 24 + c * 8);
            total[c] = total[c] | ((t0 != t0) & valid(ni - i));
          }
        }
      }
      leak = (bool)(leak) | any(total[0] | total[1] | total[2]);
    }
    // absent terms contribute nothing, whatever the operands hold
    if (leak != 0) {
      // o = o[i, e] * r[i]: repair
      for (int64 p = 0; p * 24 < ni; ++p) {
        for (int64 e = 0; e < 32; ++e) {
          UNROLL
          for (int c = 0; c < 3; ++c) {
            const int64 i = p * 24 + c * 8;
            st(o + p * 768 + e * 24 + c * 8, ld(o + p * 768 + e * 24 + c * 8) * ld(r + i));
          }
        }
      }
      // o sum = sum[j](where(size(i) + j <= i + size(j), S[i, j] * V[j, e], 0)): sum exp(S - rho) V
      for (int64 p = 0; p * 24 < ni; ++p) {
        for (int64 e = 0; e < 32; ++e) {
          vf total[2][3];
          UNROLL
          for (int u = 0; u < 2; ++u) {
            UNROLL
            for (int c = 0; c < 3; ++c) total[u][c] = (vf){};
          }
          for (int64 first = 0; first + 2 <= nj_2; first += 2) {
            UNROLL
            for (int u = 0; u < 2; ++u) {
              const int64 j = first + u;
              UNROLL
              for (int c = 0; c < 3; ++c) {
                const int64 i = p * 24 + c * 8;
                total[u][c] = total[u][c] + select(iota >= clamp(size_i - (i0 + i) - size_j + (j0_2 + j)), ld(S + p * 1536 + j * 24 + c * 8) * V[b * V_b + h * V_h + (j0_2 + j) * V_j + e * V_e], splat(0.0f));
              }
            }
          }
          for (int64 j = (nj_2) / 2 * 2; j < nj_2; ++j) {
            UNROLL
            for (int c = 0; c < 3; ++c) {
              const int64 i = p * 24 + c * 8;
              total[0][c] = total[0][c] + select(iota >= clamp(size_i - (i0 + i) - size_j + (j0_2 + j)), ld(S + p * 1536 + j * 24 + c * 8) * V[b * V_b + h * V_h + (j0_2 + j) * V_j + e * V_e], splat(0.0f));
            }
          }
          UNROLL
          for (int c = 0; c < 3; ++c) {
            const int64 i = p * 24 + c * 8;
            st(o + p * 768 + e * 24 + c * 8, ld(o + p * 768 + e * 24 + c * 8) + (total[0][c] + total[1][c]));
          }
        }
      }
    } else {
      // o = o[i, e] * r[i]: repair
      // o += sum[j](S * V): sum exp(S - rho) V
      product<4, 3, 0, 1>(ni, 32, nj_2, o, 768, 24, S, 1536, 24, V + b * V_b + h * V_h + j0_2 * V_j + 0 * V_e, V_e, V_j, true, r, 0, K + b * K_b + h * K_h + (j0_2 + 64) * K_j + 0 * K_d, 4 * K_j, i_min(64, size_j - (j0_2 + 64)), 4 * 32);
    }
  }
  // l_inv = 1 / l[i]
  for (int64 p = 0; p * 24 < ni; ++p) {
    UNROLL
    for (int c = 0; c < 3; ++c) {
      const int64 i = p * 24 + c * 8;
      st(l_inv + i, 1.0f / ld(l + i));
    }
  }
  // o = where(l[i] != 0, o[i, e] * l_inv[i], 0): finish
  for (int64 p = 0; p * 24 < ni; ++p) {
    for (int64 e = 0; e < 32; ++e) {
      UNROLL
      for (int c = 0; c < 3; ++c) {
        const int64 i = p * 24 + c * 8;
        st(o + p * 768 + e * 24 + c * 8, select(ld(l + i) != 0.0f, ld(o + p * 768 + e * 24 + c * 8) * ld(l_inv + i), splat(0.0f)));
      }
    }
  }
  // O[b, h, i, e] = o
  unpack(O + b * O_b + h * O_h + i0 * O_i + 0 * O_e, O_i, O_e, o, 768, 24, 24, ni, 32);
}

extern "C" void causal(const long long* words, long long begin, long long end) {
  for (long long task = begin; task < end; ++task) causal_task(words, task);
}
