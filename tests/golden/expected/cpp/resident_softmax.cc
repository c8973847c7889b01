// softmax: made by Tilewright for cpu-avx2.
// softmax: words are X, Y, X_r, X_j, Y_r, Y_j, r, j
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
INLINE vf v_max(vf a, vf b) { return a == a ? above(a, b) : a; }  // NaN if either is
INLINE real v_max(real a, real b) { return a > b || a != a ? a : b; }
// Lane l holds lane l ^ W of x.
template <int W>
INLINE vf away(vf x) {
  return W == 8   ? __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7)
         : W == 4 ? __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3)
         : W == 2 ? __builtin_shufflevector(x, x, 2, 3, 0, 1, 6, 7, 4, 5)
                  : __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6);
}
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
template <class T>
INLINE void scatter(T* p, int64 stride, int64 n, const T* lanes) {
  for (int64 l = 0; l < LANES; ++l)
    if (l < n) p[l * stride] = lanes[l];
}
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
__attribute__((noinline, cold)) static void store_apart(real* p, int64 stride, int64 n, vf x) { scatter(p, stride, n, (const real*)&x); }
INLINE void store_real(real* p, int64 stride, int64 n, vf x) {
  if (__builtin_expect(n >= LANES && stride == 1, 1))
    *(vf_any*)p = x;
  else
    store_apart(p, stride, n, x);
}
typedef long long v_words __attribute__((vector_size(32), may_alias));
typedef long long v_part __attribute__((vector_size(16), may_alias));
// Where `past`, whole vectors go past the caches, which would read a line before it is written; a line may come in parts of 16 bytes.
#if defined(__clang__)
INLINE void past_whole(v_words* p, v_words x) { __builtin_nontemporal_store(x, p); }
INLINE void past_part(v_part* p, v_part x) { __builtin_nontemporal_store(x, p); }
#elif defined(__x86_64__)
INLINE void past_whole(v_words* p, v_words x) { __builtin_ia32_movntdq256(p, x); }
INLINE void past_part(v_part* p, v_part x) { __builtin_ia32_movntdq(p, x); }
#endif
INLINE void store_past(real* p, int64 stride, int64 n, vf x, bool past) {
#if defined(__x86_64__)
  if (past && n >= LANES && stride == 1 && (unsigned long long)p % 16 == 0) {
    if ((unsigned long long)p % 32 == 0) return past_whole((v_words*)p, (v_words)x);
    UNROLL
    for (int k = 0; k < 32 / 16; ++k) past_part((v_part*)p + k, ((const v_part*)&x)[k]);
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

static void softmax_task(const int64* words, int64 task) {
  const float* const X = (const float*)words[0];
  float* const Y = (float*)words[1];
  const int64 X_r = words[2];
  const int64 X_j = words[3];
  const int64 Y_r = words[4];
  const int64 Y_j = words[5];
  const int64 size_r = words[6];
  const int64 size_j = words[7];
  const int64 r_block = task;
  real rho;  // []
  real l;  // []
  alignas(64) real E[8192];  // [j]
  real g;  // []
  real l_inv;  // []
  const int64 r = r_block;
  // rho = max[j](X[j]): point
  {
    vf total[4];
    UNROLL
    for (int u = 0; u < 4; ++u) total[u] = splat(-__builtin_inff());
    for (int64 first = 0; first + 32 <= size_j; first += 32) {
      __builtin_prefetch(X + r * X_r + 0 * X_j + 1 * X_r + (0 * size_j + first) / 2 * X_j, 0, 2);
      UNROLL
      for (int u = 0; u < 4; ++u) {
        const int64 j = first + u * 8;
        total[u] = v_max(total[u], load_real(X + r * X_r + j * X_j, X_j, size_j - j));
      }
    }
    for (int64 j = (size_j) / 32 * 32; j < size_j; j += 8) {
      total[0] = v_max(total[0], select(valid(size_j - j), load_real(X + r * X_r + j * X_j, X_j, size_j - j), splat(-__builtin_inff())));
    }
    rho = max_lanes(v_max((v_max(total[0], total[1])), (v_max(total[2], total[3]))));
  }
  // g = where(rho[] == -inf, 0, rho[])
  g = rho == -__builtin_inff() ? 0.0f : rho;
  // E = exp2((X[j] - g[]) * 1.4426950408889634): exp(X - rho)
  // l = sum[j](E[j]): sum exp(X - rho)
  {
    vf total[4];
    UNROLL
    for (int u = 0; u < 4; ++u) total[u] = (vf){};
    for (int64 first = 0; first + 32 <= size_j; first += 32) {
      __builtin_prefetch(X + r * X_r + 0 * X_j + 1 * X_r + (1 * size_j + first) / 2 * X_j, 0, 2);
      vf x0[4];
      UNROLL
      for (int u = 0; u < 4; ++u) {
        const int64 j = first + u * 8;
        x0[u] = 1.442695f * (load_real(X + r * X_r + j * X_j, X_j, size_j - j) - g);
      }
      v_exp2(x0);
      UNROLL
      for (int u = 0; u < 4; ++u) {
        const int64 j = first + u * 8;
        const vf made = x0[u];
        st(E + j, made);
        total[u] = total[u] + made;
      }
    }
    for (int64 j = (size_j) / 32 * 32; j < size_j; j += 8) {
      const vf made = v_exp2(1.442695f * (load_real(X + r * X_r + j * X_j, X_j, size_j - j) - g));
      st(E + j, made);
      total[0] = total[0] + select(valid(size_j - j), made, (vf){});
    }
    l = sum_lanes((total[0] + total[1]) + (total[2] + total[3]));
  }
  // l_inv = 1 / l[]
  l_inv = 1.0f / l;
  // E = where(l[] != 0, E[j] * l_inv[], 0): finish
  // Y[r, j] = E
  for (int64 j = 0; j < size_j; j += 8) {
    store_past(Y + r * Y_r + j * Y_j, Y_j, size_j - j, l != 0.0f ? ld(E + j) * l_inv : splat(0.0f), 33554432 < 4 * size_r * size_j);
  }
}

extern "C" void softmax(const long long* words, long long begin, long long end) {
  for (long long task = begin; task < end; ++task) softmax_task(words, task);
  store_fence();
}
