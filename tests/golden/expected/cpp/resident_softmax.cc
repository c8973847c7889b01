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
INLINE vf v_max(vf a, vf b) {  // NaN if either is
  const vf m = a > b ? a : b;
  return a == a ? m : a;
}
INLINE real v_max(real a, real b) { return a > b || a != a ? a : b; }
INLINE real sum_lanes(vf x) {
  for (int w = LANES / 2; w > 0; w /= 2)
    for (int l = 0; l < w; ++l) x[l] += x[l + w];
  return x[0];
}
INLINE int64 sum_lanes(vl x) {
  int64 s = 0;
  for (int l = 0; l < LANES; ++l) s += x[l];
  return s;
}
INLINE real max_lanes(vf x) {
  real m = x[0];
  for (int l = 1; l < LANES; ++l) m = v_max(m, x[l]);
  return m;
}
INLINE int64 max_lanes(vl x) {
  int64 m = x[0];
  for (int l = 1; l < LANES; ++l) m = x[l] > m ? x[l] : m;
  return m;
}
INLINE vf exp2_parts(vf f, vf t) {  // 2^f 2^n as (2·2^f)·2^(n - 1): infinity from n = 129, 0 at n = -126; the low bits of t hold n
  vf p = f * 3.07067236e-4f + 2.67977488e-3f;
  p = p * f + 1.92368747e-2f;
  p = p * f + 1.11006649e-1f;
  p = p * f + 4.80452958e-1f;
  p = p * f + 1.38629441f;
  p = p * f + 2.0f;
  return p * (vf)(((vi)t << 23) + 0x3f000000);
}
INLINE vf v_exp2(vf x) {
  x = x < -126.0f ? splat(-126.0f) : x;
  vf t = x + 12582912.0f;                        // rounds: n in the low bits
  t = t > 12583041.0f ? splat(12583041.0f) : t;  // n <= 129
  return exp2_parts(x - (t - 12582912.0f), t);
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
// The first n lanes from p[0], p[stride] …; 0 in the others.
INLINE vf load_real(const real* p, int64 stride, int64 n) {
  if (n >= LANES && stride == 1) return *(const vf_any*)p;
  alignas(64) real lanes[LANES];
  gather(lanes, p, stride, n);
  return *(const vf*)lanes;
}
INLINE void store_real(real* p, int64 stride, int64 n, vf x) {
  if (n >= LANES && stride == 1)
    *(vf_any*)p = x;
  else
    scatter(p, stride, n, (const real*)&x);
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
      UNROLL
      for (int u = 0; u < 4; ++u) {
        const int64 j = first + u * 8;
        const vf made = v_exp2(1.442695f * (load_real(X + r * X_r + j * X_j, X_j, size_j - j) - g));
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
  for (int64 j = 0; j < size_j; j += 8) {
    st(E + j, l != 0.0f ? ld(E + j) * l_inv : splat(0.0f));
  }
  // Y[r, j] = E
  for (int64 j = 0; j < size_j; j += 8) {
    store_real(Y + r * Y_r + j * Y_j, Y_j, size_j - j, ld(E + j));
  }
}

extern "C" void softmax(const long long* words, long long begin, long long end) {
  for (long long task = begin; task < end; ++task) softmax_task(words, task);
}
