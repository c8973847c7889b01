// The text of the helpers, spelled out in the emitted source so that it can be read and taken away alone.
#include "tilewright/emit/cuda_prelude.h"

namespace tilewright::cuda_text {

const std::vector<Helper>& helper_library() {
  static const std::vector<Helper> table = {
      {"tw_infinity",
       {},
       "__device__ __forceinline__ float tw_infinity() { return __int_as_float(0x7f800000); }\n"},
      {"tw_nan", {}, "__device__ __forceinline__ float tw_nan() { return __int_as_float(0x7fc00000); }\n"},
      {"tw_infinity64",
       {},
       "__device__ __forceinline__ double tw_infinity64() { return "
       "__longlong_as_double(0x7ff0000000000000ll); }\n"},
      {"tw_nan64",
       {},
       "__device__ __forceinline__ double tw_nan64() { return __longlong_as_double(0x7ff8000000000000ll); "
       "}\n"},
      {"tw_select", {}, R"(// Both are evaluated: no branch.
__device__ __forceinline__ float tw_select(bool c, float a, float b) { return c ? a : b; }
__device__ __forceinline__ double tw_select(bool c, double a, double b) { return c ? a : b; }
)"},
      {"tw_exp2", {}, R"(__device__ __forceinline__ float tw_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
)"},
      {"tw_exp2_exact",
       {},
       R"(// 2^x = (2·2^f) 2^(n - 1) with n in the low bits of t and |f| <= 1/2: degree 6, 2e-9. Infinity from n = 129, 0 at n = -126. No conversion, which
// would take the time of eight other operations.
__device__ __forceinline__ float tw_exp2_exact(float x) {
  float t;
  asm("max.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(-126.0f));
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(t) : "f"(x + 12582912.0f), "f"(12583041.0f));
  const float f = x - (t - 12582912.0f);
  float p = fmaf(f, 3.07067236e-4f, 2.67977488e-3f);
  p = fmaf(p, f, 1.92368747e-2f);
  p = fmaf(p, f, 1.11006649e-1f);
  p = fmaf(p, f, 4.80452958e-1f);
  p = fmaf(p, f, 1.38629441f);
  p = fmaf(p, f, 2.0f);
  return p * __int_as_float((__float_as_int(t) << 23) + 0x3f000000);
}
)"},
      {"tw_exp",
       {"tw_exp2"},
       "__device__ __forceinline__ float tw_exp(float x) { return tw_exp2(x * 1.44269504f); }\n"},
      {"tw_sigmoid",
       {"tw_exp"},
       "__device__ __forceinline__ float tw_sigmoid(float x) { return 1.0f / (1.0f + tw_exp(-x)); }\n"},
      {"tw_seldom",
       {},
       R"(// x, so that nothing made of it is computed in front of the rare case that needs it.
__device__ __forceinline__ int tw_seldom(int x) {
  asm volatile("" : "+r"(x));
  return x;
}
)"},
      {"tw_tanh_near",
       {},
       R"(// tanh(x) = x q(x² - limit) for |x| < 0.3: relative error below 1.3e-6.
struct tw_terms {
  float limit, q[3];
};
__device__ __forceinline__ tw_terms tw_tanh_terms() { return {0.09f, {9.71043169e-1f, -3.10359115e-1f, 1.26339445e-1f}}; }
// k tanh(c x) for |c x| < 0.3; nothing is near where powers of c leave the range of floats.
__device__ __forceinline__ tw_terms tw_tanh_terms(float c, float k) {
  tw_terms t = tw_tanh_terms();
  const float square = c * c;
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(square));
  t.limit = square > 2e-10f && square < 5e9f ? t.limit * inverse : 0.0f;
  k *= c;
#pragma unroll
  for (int n = 0; n < 3; ++n, k *= square) t.q[n] *= k;
  return t;
}
// Bit 31 of `seen` is lost where x lies outside.
__device__ __forceinline__ float tw_tanh_near(float x, const tw_terms& t, int& seen) {
  const float v = fmaf(x, x, -t.limit);
  seen &= __float_as_int(v);
  return x * fmaf(fmaf(t.q[2], v, t.q[1]), v, t.q[0]);
}
)"},
      {"tw_tanh_exact",
       {"tw_exp", "tw_select"},
       R"(// 1 - 2 / (1 + exp(2 x)), absolute error below 2e-7; for |x| < 1/2 x + x³ q(x²), relative error below 1e-7.
__device__ __forceinline__ float tw_tanh_exact(float x) {
  const float large = 1.0f - __fdividef(2.0f, 1.0f + tw_exp(2.0f * x)), square = x * x;
  float q = fmaf(square, 1.72414760e-2f, -5.30454871e-2f);
  q = fmaf(q, square, 1.33258789e-1f);
  q = fmaf(q, square, -3.33331439e-1f);
  return tw_select(fabsf(x) < 0.5f, fmaf(q * square, x, x), large);
}
)"},
      {"tw_max", {}, R"(// NaN propagates.
__device__ __forceinline__ float tw_max(float a, float b) {
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
__device__ __forceinline__ double tw_max(double a, double b) { return a != a ? a : b != b ? b : a < b ? b : a; }
template <class T> __device__ __forceinline__ T tw_max(T a, T b) { return a < b ? b : a; }
)"},
      {"tw_min", {}, R"(// NaN propagates.
__device__ __forceinline__ float tw_min(float a, float b) {
  float y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
__device__ __forceinline__ double tw_min(double a, double b) { return a != a ? a : b != b ? b : b < a ? b : a; }
template <class T> __device__ __forceinline__ T tw_min(T a, T b) { return b < a ? b : a; }
)"},
      {"tw_tanh",
       {"tw_max", "tw_min"},
       R"(// x p(x² - 0.09) / q(x² - 0.09), one result of the special function unit, for |x| up to 7.6, where tanh ends: relative error below 7e-7. Bit 31 of `seen` is lost where
// x lies outside of what tw_tanh_near takes.
__device__ __forceinline__ float tw_tanh(float x, int& seen) {
  x = tw_min(tw_max(x, -7.6f), 7.6f);
  const float v = fmaf(x, x, -0.09f);
  seen &= __float_as_int(v);
  const float p = fmaf(fmaf(fmaf(fmaf(-6.37365456e-9f, v, 7.13094559e-6f), v, 2.62404034e-3f), v, 1.22838196e-1f), v, 9.71041996e-1f);
  const float q = fmaf(fmaf(fmaf(1.93223834e-4f, v, 2.21306237e-2f), v, 4.46346405e-1f), v, 1.0f);
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(q));
  return x * p * inverse;
}
__device__ __forceinline__ float tw_tanh(float x) {
  int seen = 0;
  return tw_tanh(x, seen);
}
)"},
      {"tw_floor_div", {}, R"(template <class T> __device__ __forceinline__ T tw_floor_div(T a, T b) {
  const T q = a / b;
  return q - (a % b != 0 && (a < 0) != (b < 0));
}
)"},
      {"tw_floor_mod",
       {"tw_floor_div"},
       R"(template <class T> __device__ __forceinline__ T tw_floor_mod(T a, T b) { return a - b * tw_floor_div(a, b); }
)"},
      {"tw_sign",
       {},
       R"(template <class T> __device__ __forceinline__ T tw_sign(T x) { return x > T(0) ? T(1) : x < T(0) ? T(-1) : x; }
)"},
      {"tw_to_int", {}, R"(// Truncates toward zero and saturates.
template <class T> __device__ __forceinline__ int tw_to_int(T x) { return x != x ? 0 : (int)x; }
template <class T> __device__ __forceinline__ int tw_to_int8(T x) {
  const int n = tw_to_int(x);
  return n < -128 ? -128 : n > 127 ? 127 : n;
}
)"},
      {"tw_f16", {}, R"(__device__ __forceinline__ float tw_from_f16(unsigned short h) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(h));
  return y;
}
__device__ __forceinline__ unsigned short tw_to_f16(float x) {
  unsigned short h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
  return h;
}
__device__ __forceinline__ unsigned tw_pack_f16(float low, float high) {
  unsigned y;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
}
__device__ __forceinline__ float tw_half_f16(unsigned pair, int odd) { return tw_from_f16((unsigned short)(odd ? pair >> 16 : pair)); }
)"},
      {"tw_bf16",
       {},
       R"(__device__ __forceinline__ float tw_from_bf16(unsigned short h) { return __uint_as_float((unsigned)h << 16); }
__device__ __forceinline__ unsigned tw_pack_bf16(float low, float high) {
  unsigned y;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
}
__device__ __forceinline__ unsigned short tw_to_bf16(float x) { return (unsigned short)tw_pack_bf16(x, 0.0f); }
__device__ __forceinline__ float tw_half_bf16(unsigned pair, int odd) { return __uint_as_float(odd ? pair & 0xffff0000u : pair << 16); }
)"},
      {"tw_f8", {"tw_f16"}, R"(__device__ __forceinline__ float tw_from_f8e4m3(unsigned char b) {
  unsigned y;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(y) : "h"((unsigned short)b));
  return tw_from_f16((unsigned short)y);
}
__device__ __forceinline__ float tw_from_f8e5m2(unsigned char b) { return tw_from_f16((unsigned short)((unsigned)b << 8)); }
// e4m3 saturates at 448.
__device__ __forceinline__ unsigned char tw_to_f8e4m3(float x) {
  unsigned short y;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(y) : "f"(0.0f), "f"(x));
  return (unsigned char)y;
}
)"},
      {"tw_local_address",
       {},
       R"(__device__ __forceinline__ unsigned tw_local_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
)"},
      {"tw_signal",
       {},
       R"(__device__ __forceinline__ void tw_signal_init(unsigned signal, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(signal), "r"(arrivals));
}
__device__ __forceinline__ void tw_arrive(unsigned signal) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(signal) : "memory");
}
__device__ __forceinline__ void tw_expect(unsigned signal, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(signal), "r"(bytes) : "memory");
}
__device__ __forceinline__ void tw_wait(unsigned signal, unsigned parity) {
  asm volatile(
      "{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@done bra end;\nbra again;\nend:\n}" ::"r"(signal),
      "r"(parity)
      : "memory");
}
)"},
      {"tw_grid",
       {},
       R"(// Until kernels in front have ended and what they wrote is visible; this kernel may have been started before.
// Devices before compute capability 9.0 start kernels one after another.
__device__ __forceinline__ void tw_grid_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// Kernels behind may be started once every block has come here.
__device__ __forceinline__ void tw_grid_release() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
__device__ __forceinline__ void tw_prefetch_map(const TensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
)"},
      {"tw_chunks",
       {"tw_grid", "tw_infinity64"},
       R"(// Values between lo and hi, both included; conditions are 0 or 1.
struct tw_span {
  double lo, hi;
};
__device__ __forceinline__ tw_span tw_one(double x) { return {x, x}; }
__device__ __forceinline__ tw_span tw_anything() { return {-tw_infinity64(), tw_infinity64()}; }
__device__ __forceinline__ tw_span tw_condition(tw_span a) { return a.lo >= 0 && a.hi <= 1 ? a : tw_span{0, 1}; }
__device__ __forceinline__ tw_span tw_span_less(tw_span a, tw_span b) { return {double(a.hi < b.lo), double(a.lo < b.hi)}; }
__device__ __forceinline__ tw_span tw_span_less_equal(tw_span a, tw_span b) { return {double(a.hi <= b.lo), double(a.lo <= b.hi)}; }
__device__ __forceinline__ tw_span tw_span_equal(tw_span a, tw_span b) {
  if (a.hi < b.lo || b.hi < a.lo) return {0, 0};
  return {double(a.lo == a.hi && b.lo == b.hi), 1};
}
__device__ __forceinline__ tw_span tw_span_not(tw_span a) { return {1 - a.hi, 1 - a.lo}; }
__device__ __forceinline__ tw_span tw_span_and(tw_span a, tw_span b) { return {fmin(a.lo, b.lo), fmin(a.hi, b.hi)}; }
__device__ __forceinline__ tw_span tw_span_or(tw_span a, tw_span b) { return {fmax(a.lo, b.lo), fmax(a.hi, b.hi)}; }
__device__ __forceinline__ tw_span tw_span_select(tw_span c, tw_span a, tw_span b) {
  return c.lo == 1 ? a : c.hi == 0 ? b : tw_span{fmin(a.lo, b.lo), fmax(a.hi, b.hi)};
}
__device__ __forceinline__ bool tw_known(tw_span a) { return a.lo > -tw_infinity64() && a.hi < tw_infinity64(); }
__device__ __forceinline__ tw_span tw_span_add(tw_span a, tw_span b) {
  return tw_known(a) && tw_known(b) ? tw_span{a.lo + b.lo, a.hi + b.hi} : tw_anything();
}
__device__ __forceinline__ tw_span tw_span_subtract(tw_span a, tw_span b) {
  return tw_known(a) && tw_known(b) ? tw_span{a.lo - b.hi, a.hi - b.lo} : tw_anything();
}
__device__ __forceinline__ tw_span tw_span_multiply(tw_span a, tw_span b) {
  if (!tw_known(a) || !tw_known(b)) return tw_anything();
  const double w = a.lo * b.lo, x = a.lo * b.hi, y = a.hi * b.lo, z = a.hi * b.hi;
  return {fmin(fmin(w, x), fmin(y, z)), fmax(fmax(w, x), fmax(y, z))};
}
__device__ __forceinline__ tw_span tw_span_max(tw_span a, tw_span b) {
  return tw_known(a) && tw_known(b) ? tw_span{fmax(a.lo, b.lo), fmax(a.hi, b.hi)} : tw_anything();
}
__device__ __forceinline__ tw_span tw_span_min(tw_span a, tw_span b) {
  return tw_known(a) && tw_known(b) ? tw_span{fmin(a.lo, b.lo), fmin(a.hi, b.hi)} : tw_anything();
}
__device__ __forceinline__ tw_span tw_span_abs(tw_span a) {
  if (!tw_known(a)) return tw_anything();
  return {a.lo > 0 ? a.lo : a.hi < 0 ? -a.hi : 0, fmax(-a.lo, a.hi)};
}
__device__ __forceinline__ tw_span tw_span_floor_divide(tw_span a, tw_span b) {
  if (!tw_known(a) || b.lo != b.hi || !(b.lo > 0)) return tw_anything();
  return {floor(a.lo / b.lo), floor(a.hi / b.lo)};
}
__device__ __forceinline__ tw_span tw_span_modulo(tw_span a, tw_span b) {
  if (!tw_known(a) || b.lo != b.hi || !(b.lo > 0)) return tw_anything();
  const double first = floor(a.lo / b.lo);
  if (first == floor(a.hi / b.lo)) return {a.lo - first * b.lo, a.hi - first * b.lo};
  return {0, b.lo - 1};
}
__device__ __forceinline__ tw_span tw_span_finite(tw_span a) { return tw_known(a) ? a : tw_anything(); }

// Where an index lies: in a block of its axis, and along all of it. Axes without elements have one block.
__device__ __forceinline__ int tw_blocks(long long size, int block) { return size > 0 ? (int)((size + block - 1) / block) : 1; }
__device__ __forceinline__ tw_span tw_block(long long number, int block, long long size) {
  const long long end = number * block + block;
  return {double(number * block), double((end < size ? end : size) - 1)};
}
__device__ __forceinline__ tw_span tw_index(long long size) { return {0, size > 0 ? double(size - 1) : 0}; }

// Least and greatest of a value among the threads of a warp, and an element as a number.
__device__ __forceinline__ int tw_least(int x) { return __reduce_min_sync(0xffffffffu, x); }
__device__ __forceinline__ int tw_most(int x) { return __reduce_max_sync(0xffffffffu, x); }
__device__ __forceinline__ long long tw_least(long long x) {
  for (int far = 16; far > 0; far /= 2) {
    const long long y = __shfl_xor_sync(0xffffffffu, x, far);
    x = y < x ? y : x;
  }
  return x;
}
__device__ __forceinline__ long long tw_most(long long x) {
  for (int far = 16; far > 0; far /= 2) {
    const long long y = __shfl_xor_sync(0xffffffffu, x, far);
    x = y > x ? y : x;
  }
  return x;
}
__device__ __forceinline__ long long tw_number(long long x) { return x; }
__device__ __forceinline__ int tw_number(int x) { return x; }
__device__ __forceinline__ int tw_number(signed char x) { return x; }
__device__ __forceinline__ int tw_number(unsigned char x) { return x != 0; }  // bool
template <class T>
__device__ __forceinline__ tw_span tw_span_element(const T* data) { return tw_one(double(tw_number(*data))); }

// Elements of an array whose indices lie in spans.
template <int rank>
struct tw_box {
  tw_span at[rank];
  long long sizes[rank], strides[rank];
};
// Least and greatest element, found by a warp: of no box that leaves the array (what reads it says so), is empty or holds more than 2^15 elements.
template <class T, int rank>
__device__ __forceinline__ tw_span tw_extrema(const T* data, const tw_box<rank>& box) {
  double elements = 1;
  int extents[rank];
#pragma unroll
  for (int d = 0; d < rank; ++d) {
    const tw_span i = box.at[d];
    if (!(i.lo >= 0 && i.hi < double(box.sizes[d]))) return tw_anything();
    data += (long long)i.lo * box.strides[d];
    extents[d] = (int)(i.hi - i.lo) + 1;
    elements *= extents[d];
  }
  if (!(elements > 0 && elements <= 32768)) return tw_anything();
  if (elements == 1) return tw_span_element(data);
  auto least = tw_number(*data), most = least;
#pragma unroll 4
  for (int e = threadIdx.x & 31; e < (int)elements; e += 32) {
    long long offset = 0;
    int rest = e;
#pragma unroll
    for (int d = rank - 1; d > 0; --d) {
      offset += rest % extents[d] * box.strides[d];
      rest /= extents[d];
    }
    const auto x = tw_number(data[offset + rest * box.strides[0]]);
    least = x < least ? x : least;
    most = x > most ? x : most;
  }
  return {double(tw_least(least)), double(tw_most(most))};
}

// What is known of a warp's share of the chunks of a range. Shares lie in the order of the warps.
struct tw_chunks {
  int size, to;              // elements of a chunk, and where the last one ends
  int next, end;             // chunks to look at
  int some_begin, some_end;  // hold all chunks with a present element; -1: there is none
  int full_begin, full_end;  // the first of the longest runs of chunks in which every element is present
  int lead, run;             // where the first of these runs ends that begins with the share, and where the one begins that ends with it
  __device__ __forceinline__ tw_span chunk() const { return tw_block(next, size, to); }
  __device__ __forceinline__ void take(bool some, bool every) {
    const int q = next++;
    if (some) some_begin = some_begin < 0 ? q : some_begin, some_end = q + 1;
    if (!some || !every || (q + 1ll) * size > to) {
      lead = lead < q ? lead : q;
      run = q + 1;
    } else {
      keep(run, q + 1);
    }
  }
  __device__ __forceinline__ void keep(int begin, int stop) {
    if (stop - begin > full_end - full_begin) full_begin = begin, full_end = stop;
  }
  __device__ __forceinline__ void append(const tw_chunks& b) {
    if (b.some_begin >= 0) some_begin = some_begin < 0 ? b.some_begin : some_begin, some_end = b.some_end;
    keep(run, b.lead);
    keep(b.full_begin, b.full_end);
    if (lead == end) lead = b.lead;
    if (b.lead < b.end) run = b.run;
    end = b.end;
  }
  // Joins the shares and writes the row of the block: begin, full_begin, full_end, limit. `first`: the range's first chunk.
  __device__ __forceinline__ void store(int first, long long* row) const {
    __shared__ tw_chunks shares[32];
    if ((threadIdx.x & 31) == 0) shares[threadIdx.x >> 5] = *this;
    __syncthreads();
    if (threadIdx.x != 0) return;
    tw_chunks all = shares[0];
    for (int w = 1; w < (int)blockDim.x >> 5; ++w) all.append(shares[w]);
    if (all.some_begin < 0) all.some_begin = all.some_end = first;
    if (all.full_begin == all.full_end) all.full_begin = all.full_end = all.some_begin;
    row[0] = all.some_begin, row[1] = all.full_begin, row[2] = all.full_end, row[3] = all.some_end;
  }
};
__device__ __forceinline__ tw_chunks tw_chunks_of(int from, int to, int size) {
  const int first = from / size, stop = (int)((to + size - 1ll) / size), last = stop > first ? stop : first;
  const int warps = (int)blockDim.x >> 5, share = (last - first + warps - 1) / warps;
  const long long begin = first + (long long)share * (threadIdx.x >> 5), end = begin + share;
  const int b = begin < last ? (int)begin : last, e = end < last ? (int)end : last;
  return {size, to, b, e, -1, -1, b, b, e, b};
}
)"},
      {"tw_barrier", {}, R"(__device__ __forceinline__ void tw_barrier(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
)"},
      {"tw_any", {}, R"(// True in all threads of the barrier when it is in one.
__device__ __forceinline__ bool tw_any(int id, int threads, bool vote) {
  int any;
  asm volatile(
      "{\n.reg .pred p, q;\nsetp.ne.s32 p, %1, 0;\nbar.red.or.pred q, %2, %3, p;\nselp.s32 %0, 1, 0, q;\n}"
      : "=r"(any)
      : "r"((int)vote), "r"(id), "r"(threads)
      : "memory");
  return any != 0;
}
)"},
      {"tw_proxy_fence",
       {},
       R"(__device__ __forceinline__ void tw_proxy_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
)"},
      {"tw_products",
       {},
       R"(__device__ __forceinline__ void tw_product_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void tw_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int pending> __device__ __forceinline__ void tw_wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}
// Keeps accesses to registers on their side of fences and waits; no instruction.
template <int n> __device__ __forceinline__ void tw_pin(float (&r)[n]) {
#pragma unroll
  for (int k = 0; k < n; ++k) asm volatile("" : "+f"(r[k])::"memory");
}
template <int n> __device__ __forceinline__ void tw_pin(unsigned (&r)[n]) {
#pragma unroll
  for (int k = 0; k < n; ++k) asm volatile("" : "+r"(r[k])::"memory");
}
// Uses registers in a case that never comes. Behind a wait: assemblers before CUDA 13.3 give operands of products in flight to others as soon as these are issued, but not
// what is used later. In front of one: what computes the registers is not moved behind it, where nothing is left to hide it.
__device__ __forceinline__ unsigned tw_bits(unsigned x) { return x; }
__device__ __forceinline__ unsigned tw_bits(float x) { return __float_as_uint(x); }
template <class T, int n> __device__ __forceinline__ void tw_keep(const T (&r)[n], bool never) {
  if (__builtin_expect(never, 0)) {
    unsigned all = 0;
#pragma unroll
    for (int k = 0; k < n; ++k) all |= tw_bits(r[k]);
    asm volatile("nanosleep.u32 %0;" ::"r"(all & 1));
  }
}
// Shared memory operand in panels of 128 bytes: address, distance to the next panel across the contracted axis, distance to the next eight rows.
__device__ __forceinline__ unsigned long long tw_operand(unsigned address, unsigned leading, unsigned stride) {
  return (1ull << 62) | ((unsigned long long)(stride >> 4) << 32) | ((unsigned long long)(leading >> 4) << 16) | ((address & 0x3ffff) >> 4);
}
)"},
      {"tw_matrix",
       {},
       R"(// Four blocks of 8 x 8 from shared memory, or two: thread 8 b + r of the warp names row r of block b. Each thread gets two neighbours of each block along its
// rows, or (turned) across them.
__device__ __forceinline__ void tw_matrix(unsigned (&r)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}
__device__ __forceinline__ void tw_matrix(unsigned (&r)[2], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(address));
}
__device__ __forceinline__ void tw_matrix_turned(unsigned (&r)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}
__device__ __forceinline__ void tw_matrix_turned(unsigned (&r)[2], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(address));
}
)"},
      {"tw_mma_f16", {}, R"(// d[16, 8] += a[16, 16] b[16, 8] in the registers of a warp
__device__ __forceinline__ void tw_mma_f16(float* d, const unsigned* a, unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
)"},
      {"tw_mma_bf16", {}, R"(// d[16, 8] += a[16, 16] b[16, 8] in the registers of a warp
__device__ __forceinline__ void tw_mma_bf16(float* d, const unsigned* a, unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
)"},
      {"tw_again",
       {},
       R"(// The same number, of which the compiler does not know that.
__device__ __forceinline__ unsigned tw_again(unsigned x) {
  asm volatile("" : "+r"(x));
  return x;
}
)"},
      {"tw_inside",
       {},
       R"(// Lies the index inside of the axis? Else the error word of the launch gets the number of the check + 1 in its low bits, and the index above them.
__device__ __forceinline__ bool tw_inside(long long index, long long size, long long* error, int check) {
  if (index >= 0 && index < size) return true;
  const long long most = 1ll << 46, shown = index > most ? most : index < -most ? -most : index;
  *error = shown * 65536 + (check + 1);
  return false;
}
)"},
      {"tw_parts",
       {},
       R"(// x = high + low in TF32, 11 bits each. To round, half of high's last place is added before it is cut, toward zero, so that the largest numbers do not overflow. Infinities and
// NaN stay in high, and low is NaN.
__device__ __forceinline__ void tw_split(float x, unsigned& high, unsigned& low) {
  const float power = __uint_as_float(__float_as_uint(x) & 0xff800000u);
  high = __float_as_uint(__fmaf_rz(power, 0x1p-11f, x)) & 0xffffe000u;
  low = __float_as_uint(x - __uint_as_float(high));
}
// Two neighbours along the contracted axis, which are `along` elements apart.
template <int along> __device__ __forceinline__ void tw_split_pair(const float* x, unsigned (&high)[2], unsigned (&low)[2]) {
  float first, second;
  if (along == 1) {
    const float2 pair = *(const float2*)x;
    first = pair.x, second = pair.y;
  } else {
    first = x[0], second = x[along];
  }
  tw_split(first, high[0], low[0]);
  tw_split(second, high[1], low[1]);
}
// An operand of 16 rows from shared memory: rows g and g + 8, pairs along the contracted axis.
template <int across, int along>
__device__ __forceinline__ void tw_split_rows(const float* x, unsigned (&high)[4], unsigned (&low)[4]) {
  unsigned h[2][2], l[2][2];
  tw_split_pair<along>(x, h[0], l[0]);
  tw_split_pair<along>(x + 8 * across, h[1], l[1]);
  high[0] = h[0][0], high[1] = h[1][0], high[2] = h[0][1], high[3] = h[1][1];
  low[0] = l[0][0], low[1] = l[1][0], low[2] = l[0][1], low[3] = l[1][1];
}
// The same from registers that hold it as an accumulator does.
__device__ __forceinline__ void tw_split_held(const float* x, unsigned (&high)[4], unsigned (&low)[4]) {
  tw_split(x[0], high[0], low[0]);
  tw_split(x[2], high[1], low[1]);
  tw_split(x[1], high[2], low[2]);
  tw_split(x[3], high[3], low[3]);
}
__device__ __forceinline__ void tw_mma_tf32(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// d[16, 8] += a[16, 8 steps] b[8 steps, 8] in the registers of a warp. The parts that are low are summed apart: where an operand is not finite their sum is NaN, and that
// of the high parts alone is right.
template <int steps>
__device__ __forceinline__ void tw_multiply_parts(float* d, const unsigned (*a_high)[4], const unsigned (*a_low)[4],
                                                  const unsigned (*b_high)[2], const unsigned (*b_low)[2], bool zero) {
  float high[4] = {0.0f, 0.0f, 0.0f, 0.0f}, low[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
  for (int s = 0; s < steps; ++s) {
    tw_mma_tf32(low, a_low[s], b_high[s]);
    tw_mma_tf32(high, a_high[s], b_high[s]);
    tw_mma_tf32(low, a_high[s], b_low[s]);
  }
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    const float both = high[e] + low[e], sum = both == both ? both : high[e];
    d[e] = zero ? sum : d[e] + sum;
  }
}
)"},
      {"tw_copies",
       {},
       R"(// 16 bytes of memory -> shared memory, of which `bytes` are read and the rest is zero; joins the open group of copies. Barriers and waits order it, so that reads of
// indices may move in front of the copies before it.
__device__ __forceinline__ void tw_copy_async(unsigned to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes));
}
__device__ __forceinline__ int tw_at_most(int limit, int n) { return n < limit ? n : limit; }
__device__ __forceinline__ void tw_copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int pending> __device__ __forceinline__ void tw_copy_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}
)"},
      {"tw_gather_quad",
       {},
       R"(// Of four lanes each holds word k of its own for each of four blocks; lane t ends with all words of block t, in the order of the lanes.
__device__ __forceinline__ void tw_gather_quad(unsigned (&w)[4], int lane) {
  const bool high = lane & 2, odd = lane & 1;
  const unsigned a0 = high ? w[2] : w[0], a1 = high ? w[3] : w[1];
  const unsigned b0 = __shfl_xor_sync(0xffffffffu, high ? w[0] : w[2], 2), b1 = __shfl_xor_sync(0xffffffffu, high ? w[1] : w[3], 2);
  const unsigned a = odd ? a1 : a0, b = odd ? b1 : b0;
  const unsigned c = __shfl_xor_sync(0xffffffffu, odd ? a0 : a1, 1), d = __shfl_xor_sync(0xffffffffu, odd ? b0 : b1, 1);
  const unsigned near0 = odd ? c : a, near1 = odd ? a : c, far0 = odd ? d : b, far1 = odd ? b : d;
  w[0] = high ? far0 : near0, w[1] = high ? far1 : near1, w[2] = high ? near0 : far0, w[3] = high ? near1 : far1;
}
)"},
      {"tw_swizzle", {}, R"(// Bank swizzle of an offset in elements.
template <int bits, int base, int shift> __device__ __forceinline__ int tw_swizzle(int offset) {
  return offset ^ (((offset >> (base + shift)) & ((1 << bits) - 1)) << base);
}
)"},
      {"tw_seen_f16",
       {},
       R"(// 0 · x onto what was seen: 0 until one of two packed numbers is not finite, NaN from then on.
__device__ __forceinline__ unsigned tw_seen_f16(unsigned seen, unsigned pair) {
  asm("fma.rn.f16x2 %0, %1, %2, %0;" : "+r"(seen) : "r"(pair), "r"(0u));
  return seen;
}
)"},
      {"tw_seen_f32",
       {},
       R"(// 0 · x onto what was seen: 0 until a number is not finite, NaN from then on.
__device__ __forceinline__ unsigned tw_seen_f32(unsigned seen, unsigned x) {
  return __float_as_uint(__fmaf_rn(__uint_as_float(x), 0.0f, __uint_as_float(seen)));
}
)"},
      {"tw_seen_bf16",
       {},
       R"(// 0 · x onto what was seen: 0 until one of two packed numbers is not finite, NaN from then on.
__device__ __forceinline__ unsigned tw_seen_bf16(unsigned seen, unsigned pair) {
  asm("fma.rn.bf16x2 %0, %1, %2, %0;" : "+r"(seen) : "r"(pair), "r"(0u));
  return seen;
}
)"},
  };
  return table;
}

}  // namespace tilewright::cuda_text
