// The text of the helpers for products of bf16 on units that multiply pairs (map/cpu/pairs.h). Instructions are used where the compiler's target has them;
// elsewhere the same arithmetic is written out, so that layouts, tails and order of sums are the same on every machine.
#include "tilewright/emit/cpp_prelude.h"

namespace tilewright {

const char* const cpp_prelude_bf16_text = R"TEXT(//@ st_bf16
INLINE void st_bf16(unsigned short* p, vf x) { *(vh_any*)p = __builtin_convertvector(to_bf16(narrow(x)), vh); }
//@ st_pairs
// Lane by lane the pair (low, high), rounded.
INLINE void st_pairs(unsigned short* p, vf low, vf high) {
#if defined(__AVX512BF16__) && $V == 16
  typedef short v32h __attribute__((vector_size(64), may_alias));
  v32h x;
  asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(x) : "v"(low), "v"(high));
  *(v32h*)p = __builtin_shufflevector(x, x, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13,
                                      29, 14, 30, 15, 31);
#else
  *(vu*)p = to_bf16(narrow(low)) | to_bf16(narrow(high)) << 16;
#endif
}
//@ ld_pairs
// All lanes of the first or the second elements of pairs.
INLINE vf ld_pairs(const unsigned short* p) {
  const unsigned long at = (unsigned long)p;
  const vu x = *(const vu*)(at & ~3ul);
  return (vf)(at & 2 ? x & 0xffff0000u : x << 16);
}
//@ ld_along_pairs
// The first n elements along the axis of which two are neighbours, from an even one on, with `step` from pair to pair; 0 behind them.
INLINE vf ld_along_pairs(const unsigned short* p, int64 step, int64 n) {
  vu x = {};
  for (int64 l = 0; l < LANES; ++l)
    if (l < n) x[l] = (unsigned)p[l / 2 * step + l % 2] << 16;
  return (vf)x;
}
//@ load_words
// LANES pairs of the n elements from p on, 0 behind them.
__attribute__((noinline, cold)) static vu load_words_apart(const unsigned short* p, int64 n) {
  vu x = {};
  for (int64 l = 0; l < 2 * LANES; ++l)
    if (l < n) x[l / 2] |= (unsigned)p[l] << (16 * (l % 2));
  return x;
}
typedef unsigned vu_any __attribute__((vector_size(4 * LANES), aligned(2), may_alias));
INLINE vu load_words(const unsigned short* p, int64 n) {
  if (__builtin_expect(n >= 2 * LANES, 1)) return *(const vu_any*)p;
  return load_words_apart(p, n);
}
//@ pack_pairs
// to[k / 2, lane, k % 2] = from[lane, k] for n elements k of `width` lanes, of which the first `lanes` exist; 0 where there is none.
__attribute__((noinline)) static void pack_pairs(unsigned short* to, int64 to_pair, int64 width, const unsigned short* from, int64 from_lane,
                                                 int64 from_inner, int64 lanes, int64 n) {
  if (lanes > width) lanes = width;
  if (from_lane == 1) {
    for (int64 k = 0; k < n; k += 2)
      for (int64 l = 0; l < width; l += LANES) {
        const unsigned short* f = from + k * from_inner + l;
        vu x = l < lanes ? raw_load(f, 1, lanes - l) : (vu){};
        if (k + 1 < n && l < lanes) x |= raw_load(f + from_inner, 1, lanes - l) << 16;
        *(vu*)(to + k / 2 * to_pair + 2 * l) = x;
      }
    return;
  }
  for (int64 l = 0; l < width; l += LANES)
    for (int64 k = 0; k < n; k += 2 * LANES) {
      vu x[LANES];
      for (int r = 0; r < LANES; ++r) {
        x[r] = (vu){};
        if (l + r >= lanes) continue;
        const unsigned short* f = from + (l + r) * from_lane + k * from_inner;
        if (from_inner == 1)
          x[r] = load_words(f, n - k);
        else
          for (int64 e = 0; e < 2 * LANES; ++e)
            if (k + e < n) x[r][e / 2] |= (unsigned)f[e * from_inner] << (16 * (e % 2));
      }
      transpose(x);
      for (int64 q = 0; q < LANES; ++q)
        if (k + 2 * q < n) *(vu*)(to + (k / 2 + q) * to_pair + 2 * l) = x[q];
    }
}
//@ pack_rows
// to[row, k] = from[row, k] for n elements k of each row; rows of `to` have room for whole vectors of pairs.
__attribute__((noinline)) static void pack_rows(unsigned short* to, int64 to_row, const unsigned short* from, int64 from_row, int64 from_inner,
                                                int64 rows, int64 n) {
  if (from_row == 1 && from_inner != 1) {
    for (int64 r = 0; r < rows; r += LANES)
      for (int64 k = 0; k < n; k += 2 * LANES) {
        vu x[LANES];
        for (int q = 0; q < LANES; ++q) {
          const int64 e = k + 2 * q;
          const unsigned short* f = from + r + e * from_inner;
          x[q] = e < n ? raw_load(f, 1, rows - r) : (vu){};
          if (e + 1 < n) x[q] |= raw_load(f + from_inner, 1, rows - r) << 16;
        }
        transpose(x);
        for (int64 q = 0; q < LANES && r + q < rows; ++q) *(vu*)(to + (r + q) * to_row + k) = x[q];
      }
    return;
  }
  for (int64 r = 0; r < rows; ++r) {
    if (from_inner == 1)
      __builtin_memcpy(to + r * to_row, from + r * from_row, 2 * n);
    else
      for (int64 k = 0; k < n; ++k) to[r * to_row + k] = from[r * from_row + k * from_inner];
  }
}
//@ unpack_bf16
// to[lane, k] = from[panel, k, lane], rounded, for n rows of panels of `width` lanes, of which the first `lanes` exist.
__attribute__((noinline)) static void unpack_bf16(unsigned short* to, int64 to_lane, int64 to_row, const real* from, int64 from_panel, int64 from_row,
                                                  int64 width, int64 lanes, int64 n) {
  for (int64 k = 0; to_lane == 1 && k < n; ++k)
    for (int64 first = 0; first < lanes; first += width)
      for (int64 l = first; l < first + width && l < lanes; l += LANES)
        raw_store(to + l + k * to_row, 1, lanes - l, to_bf16(ld(from + first / width * from_panel + k * from_row + l - first)));
  for (int64 first = 0; to_lane != 1 && first < lanes; first += width, from += from_panel)
    for (int64 l = 0; l < width && first + l < lanes; l += LANES) {
      const int64 exist = lanes - first - l;
      unsigned short* t = to + (first + l) * to_lane;
      int64 k = 0;
      for (; to_row == 1 && k + LANES <= n; k += LANES) {
        vu x[LANES];
        for (int q = 0; q < LANES; ++q) x[q] = (vu)ld(from + (k + q) * from_row + l);
        transpose(x);
        for (int q = 0; q < LANES && q < exist; ++q) raw_store(t + q * to_lane + k, 1, LANES, to_bf16((vs)x[q]));
      }
      for (; k < n; ++k) raw_store(t + k * to_row, to_lane, exist, to_bf16(ld(from + k * from_row + l)));
    }
}
//@ flush
// Numbers below the smallest normal one count as 0.
INLINE vf flush(vf x) { return v_abs(x) < 1.17549435e-38f ? (vf){} : x; }
//@ dot_pairs
// s + high·high + low·low, lane by lane with one pair for all lanes.
INLINE vf dot_pairs(vf s, vu a, unsigned b) {
#if defined(__AVX512BF16__) && $V == 16
  asm("vdpbf16ps %2, %1, %0" : "+v"(s) : "v"(a), "v"(b + (vu){}));
  return s;
#else
  const vu y = b + (vu){};
  s = flush(flush((vf)(a & 0xffff0000u)) * flush((vf)(y & 0xffff0000u)) + flush(s));
  return flush(flush((vf)(a << 16)) * flush((vf)(y << 16)) + s);
#endif
}
//@ clear_top
template <int TOP>
INLINE void clear_top(real* top, int64 vectors) {
  for (int64 c = 0; TOP != 0 && c < vectors; ++c) st(top + c * LANES, splat(TOP > 0 ? -__builtin_inff() : __builtin_inff()));
}
//@ rows_of_pairs
// d[r, lanes] (+)= Σ_k a[k, lanes]·b[r, k] for R rows and C vectors of lanes, in R·C accumulators; a lies in pairs, with `a_pair` from pair to pair. `scale`,
// TOP: as for fma. Rows of d have W vectors: behind the C that are computed they hold 0, or what they held.
template <int R, int C, int TOP, int W = C>
__attribute__((noinline)) static void rows_of_pairs(real* d, int64 d_row, const unsigned short* a, int64 a_pair, const unsigned short* b,
                                                    int64 b_row, int64 b_inner, int64 inner, bool add, const real* scale, real* top) {
  asm("" : "+r"(inner));  // of a length that it knows the compiler makes a loop whose sums lie in memory
  typedef unsigned word __attribute__((aligned(2), may_alias));
  vf s[R][C];
  UNROLL
  for (int r = 0; r < R; ++r) {
    UNROLL
    for (int c = 0; c < C; ++c) s[r][c] = (vf){};
  }
  int64 k = 0;
  for (; b_inner == 1 && k + 2 <= inner; k += 2, a += a_pair) {
    vu x[C];
    UNROLL
    for (int c = 0; c < C; ++c) x[c] = *(const vu*)(a + 2 * c * LANES);
    UNROLL
    for (int r = 0; r < R; ++r) {
      const unsigned y = *(const word*)(b + r * b_row + k);
      UNROLL
      for (int c = 0; c < C; ++c) s[r][c] = dot_pairs(s[r][c], x[c], y);
    }
  }
  for (; k < inner; k += 2, a += a_pair) {
    UNROLL
    for (int r = 0; r < R; ++r) {
      const unsigned short* f = b + r * b_row + k * b_inner;
      const unsigned y = k + 1 < inner ? f[0] | (unsigned)f[b_inner] << 16 : f[0];
      UNROLL
      for (int c = 0; c < C; ++c) s[r][c] = dot_pairs(s[r][c], *(const vu*)(a + 2 * c * LANES), y);
    }
  }
  if (add) {
    UNROLL
    for (int c = 0; c < C; ++c) {
      const vf x = scale ? ld(scale + c * LANES) : splat(1);
      UNROLL
      for (int r = 0; r < R; ++r) s[r][c] += ld(d + r * d_row + c * LANES) * x;
    }
  }
  UNROLL
  for (int r = 0; r < R; ++r) {
    UNROLL
    for (int c = 0; c < C; ++c) st(d + r * d_row + c * LANES, s[r][c]);
    UNROLL
    for (int c = C; c < W; ++c)
      if (!add) st(d + r * d_row + c * LANES, (vf){});
  }
  if (TOP != 0) {
    UNROLL
    for (int c = 0; c < C; ++c) take_top<TOP, R, C>(top + c * LANES, s, c);
  }
}
//@ all_rows_of_pairs
// The same for n rows, a power of two that is at most R.
template <int R, int C, int TOP>
INLINE void some_rows_of_pairs(int64 n, real* d, int64 d_row, const unsigned short* a, int64 a_pair, const unsigned short* b, int64 b_row, int64 b_inner,
                               int64 inner, bool add, const real* scale, real* top) {
  if constexpr (R > 1) {
    if (n < R) return some_rows_of_pairs<R / 2, C, TOP>(n, d, d_row, a, a_pair, b, b_row, b_inner, inner, add, scale, top);
  }
  rows_of_pairs<R, C, TOP>(d, d_row, a, a_pair, b, b_row, b_inner, inner, add, scale, top);
}
// The same for any number of rows and of lanes, in panels of C vectors, of the last of which no more than about half are computed where that is enough.
template <int R, int C, int TOP>
static void all_rows_of_pairs(int64 lanes, int64 rows, int64 inner, real* d, int64 d_panel, int64 d_row, const unsigned short* a, int64 a_panel,
                              int64 a_pair, const unsigned short* b, int64 b_row, int64 b_inner, bool add, const real* scale, real* top) {
  for (int64 r = 0, n = R; r < rows; r += n) {
    while (n > rows - r) n /= 2;
    for (int64 p = 0; p * C * LANES < lanes; ++p) {
      const real* s = scale ? scale + p * C * LANES : 0;
      real *t = TOP != 0 ? top + p * C * LANES : 0, *dp = d + p * d_panel + r * d_row;
      if (C > 1 && n == R && lanes - p * C * LANES <= (C + 1) / 2 * LANES)
        rows_of_pairs<R, (C + 1) / 2, TOP, C>(dp, d_row, a + p * a_panel, a_pair, b + r * b_row, b_row, b_inner, inner, add, s, t);
      else
        some_rows_of_pairs<R, C, TOP>(n, dp, d_row, a + p * a_panel, a_pair, b + r * b_row, b_row, b_inner, inner, add, s, t);
    }
  }
}
//@ product_of_pairs
template <int R, int C, int TOP = 0>
__attribute__((noinline)) static void product_of_pairs(int64 lanes, int64 rows, int64 inner, real* d, int64 d_panel, int64 d_row,
                                                       const unsigned short* a, int64 a_panel, int64 a_pair, const unsigned short* b,
                                                       int64 b_row, int64 b_inner, bool add, const real* scale, real* top) {
  clear_top<TOP>(top, (lanes + C * LANES - 1) / (C * LANES) * C);
  all_rows_of_pairs<R, C, TOP>(lanes, rows, inner, d, d_panel, d_row, a, a_panel, a_pair, b, b_row, b_inner, add, scale, top);
}
//@ tiles_permitted
// May this process use tile registers? The system is asked once (arch_prctl, ARCH_REQ_XCOMP_PERM of XTILEDATA).
#if defined(__AMX_TILE__) && defined(__AMX_BF16__) && defined(__linux__) && $V == 16
#define TILE_REGISTERS 1
static bool tiles_permitted() {
  static int known = 0;
  int answer = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (answer == 0) {
    long result;
    asm volatile("syscall" : "=a"(result) : "a"(158l), "D"(0x1023l), "S"(18l) : "rcx", "r11", "memory");
    answer = result == 0 ? 1 : -1;
    __atomic_store_n(&known, answer, __ATOMIC_RELAXED);
  }
  return answer > 0;
}
#else
#define TILE_REGISTERS 0
static bool tiles_permitted() { return true; }  // what they compute is written out
#endif
//@ TileRegisters
// Eight registers of 16 rows of 64 bytes, as long as this stands.
struct TileRegisters {
#if TILE_REGISTERS
  bool used;
  TileRegisters() : used(tiles_permitted()) {
    struct alignas(64) {
      unsigned char palette = 1, start = 0, reserved[14] = {};
      unsigned short bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      unsigned char rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    } shape;
    if (used) asm volatile("ldtilecfg %0" : : "m"(shape));
  }
  ~TileRegisters() {
    if (used) asm volatile("tilerelease");
  }
#else
  TileRegisters() {}
  ~TileRegisters() {}
#endif
};
//@ Upcoming
// Rows of memory that the next chunk reads, which are brought into the second-level cache a line after another: at each step of a product by tile registers its
// share.
struct Upcoming {
  struct Rows {
    const char* at;
    int64 step, n, bytes;
  } rows[4];
  int64 count, now, row, byte, each;
  Upcoming() : count(0), now(0), row(0), byte(0), each(0) {}
  // n rows and other_n elements of each, with their steps in elements, or the other way round; rows that are not contiguous are left alone.
  void add(const unsigned short* p, int64 step, int64 n, int64 other_step, int64 other_n) {
    if (n <= 0 || other_n <= 0 || (step != 1 && other_step != 1)) return;
    const bool swapped = other_step != 1;
    Rows& x = rows[count++];
    x.at = (const char*)p;
    x.step = 2 * (swapped ? other_step : step);
    x.n = swapped ? other_n : n;
    x.bytes = 2 * (swapped ? n : other_n);
    if (x.step != x.bytes) return;
    x.bytes *= x.n;
    x.n = 1;
  }
  void share(int64 steps) {
    int64 lines = 0;
    for (int64 k = 0; k < count; ++k) lines += rows[k].n * ((rows[k].bytes + 63) / 64);
    each = steps > 0 ? (lines + steps - 1) / steps : 0;
  }
  void bring() {
    for (int64 k = 0; k < each && now < count; ++k) {
      const Rows& x = rows[now];
      __builtin_prefetch(x.at + row * x.step + byte, 0, 2);
      byte += 64;
      if (byte < x.bytes) continue;
      byte = 0;
      if (++row < x.n) continue;
      row = 0;
      ++now;
    }
  }
};
//@ tile_block
// d[r, lane] (+)= Σ_k a[k, lane]·b[r, k] for 16·M rows, 16·N lanes and a multiple of 32 elements k.
template <int M, int N>
__attribute__((noinline)) static void tile_block(real* d, int64 d_row, const unsigned short* a, int64 a_pair, const unsigned short* b,
                                                 int64 b_row, int64 inner, bool add, Upcoming* upcoming) {
#if TILE_REGISTERS
  const long ds = 4 * d_row, as = 2 * a_pair, bs = 2 * b_row;
  real* d1 = d + 16 * d_row;
#define TILE_AT(op, p, stride, t) asm volatile(op " (%0,%1,1), %%" t : : "r"(p), "r"(stride) : "memory")
  if (add) {
    TILE_AT("tileloadd", d, ds, "tmm0");
    if (N > 1) TILE_AT("tileloadd", d + 16, ds, "tmm1");
    if (M > 1) TILE_AT("tileloadd", d1, ds, "tmm2");
    if (M > 1 && N > 1) TILE_AT("tileloadd", d1 + 16, ds, "tmm3");
  } else {
    asm volatile("tilezero %tmm0\n\ttilezero %tmm1\n\ttilezero %tmm2\n\ttilezero %tmm3");
  }
  for (int64 k = 0; k < inner; k += 32) {
    const unsigned short *ap = a + k / 2 * a_pair, *bp = b + k;
    TILE_AT("tileloadd", ap, as, "tmm6");
    TILE_AT("tileloadd", bp, bs, "tmm4");
    asm volatile("tdpbf16ps %tmm6, %tmm4, %tmm0");
    if (N > 1) TILE_AT("tileloadd", ap + 32, as, "tmm7");
    if (N > 1) asm volatile("tdpbf16ps %tmm7, %tmm4, %tmm1");
    if (M > 1) TILE_AT("tileloadd", bp + 16 * b_row, bs, "tmm5");
    if (M > 1) asm volatile("tdpbf16ps %tmm6, %tmm5, %tmm2");
    if (M > 1 && N > 1) asm volatile("tdpbf16ps %tmm7, %tmm5, %tmm3");
    if (upcoming) upcoming->bring();
  }
#define TILE_TO(p, t) asm volatile("tilestored %%" t ", (%0,%1,1)" : : "r"(p), "r"(ds) : "memory")
  TILE_TO(d, "tmm0");
  if (N > 1) TILE_TO(d + 16, "tmm1");
  if (M > 1) TILE_TO(d1, "tmm2");
  if (M > 1 && N > 1) TILE_TO(d1 + 16, "tmm3");
#else
  for (int64 r = 0; r < 16 * M; ++r)
    for (int64 l = 0; l < 16 * N; l += LANES) {
      vf s = add ? ld(d + r * d_row + l) : (vf){};
      for (int64 k = 0; k < inner; k += 32) {
        vf low = {}, high = {};
        for (int64 q = k / 2; q < k / 2 + 16; ++q) {
          const vu x = *(const vu*)(a + q * a_pair + 2 * l);
          const vf y = flush(splat(0) + (vf)((vu){} + ((unsigned)b[r * b_row + 2 * q] << 16))),
                   z = flush(splat(0) + (vf)((vu){} + ((unsigned)b[r * b_row + 2 * q + 1] << 16)));
          low = flush(low + flush((vf)(x << 16)) * y);
          high = flush(high + flush((vf)(x & 0xffff0000u)) * z);
        }
        s = flush(flush(s) + flush(low + high));
      }
      st(d + r * d_row + l, s);
    }
#endif
}
//@ scale_rows
// d[r, lanes] *= scale[lanes], where any lane of the panel has another scale than 1.
template <int C>
static void scale_rows(real* d, int64 d_row, int64 rows, const real* scale) {
  vf x[C];
  vm other = {};
  UNROLL
  for (int c = 0; c < C; ++c) {
    x[c] = ld(scale + c * LANES);
    other |= x[c] != 1;
  }
  if (!any(other)) return;
  for (int64 r = 0; r < rows; ++r) {
    UNROLL
    for (int c = 0; c < C; ++c) st(d + r * d_row + c * LANES, ld(d + r * d_row + c * LANES) * x[c]);
  }
}
//@ top_of_rows
template <int C, int TOP>
static void top_of_rows(const real* d, int64 d_row, int64 rows, real* top) {
  vf x[C];
  UNROLL
  for (int c = 0; c < C; ++c) x[c] = ld(top + c * LANES);
  for (int64 r = 0; r < rows; ++r) {
    UNROLL
    for (int c = 0; c < C; ++c) {
      const vf y = ld(d + r * d_row + c * LANES);
      x[c] = TOP > 0 ? v_max(x[c], y) : v_min(x[c], y);
    }
  }
  UNROLL
  for (int c = 0; c < C; ++c) st(top + c * LANES, x[c]);
}
//@ product_by_tiles
// The same by tile registers, of blocks of 32 rows; what is left of rows and of the summed axis, and everything where the system refuses tile registers, by
// dot products of R rows. Extremes of a block are taken while the next one is multiplied. Rows that lie a multiple of 2 KiB apart share a few sets of the
// first-level cache: those of a block are copied where several panels use them.
template <int R, int C, int TOP = 0>
__attribute__((noinline)) static void product_by_tiles(int64 panels, int64 rows, int64 inner, real* d, int64 d_panel, int64 d_row,
                                                       const unsigned short* a, int64 a_panel, int64 a_pair, const unsigned short* b,
                                                       int64 b_row, int64 b_inner, bool add, const real* scale, real* top, Upcoming* upcoming) {
  constexpr int N = C * LANES / 16;
  enum { NEAR = 512 };
  alignas(64) unsigned short near[32 * (NEAR + 32)];
  const int64 by_tiles = rows / 16 * 16, whole = inner / 32 * 32;
  if (by_tiles == 0 || whole == 0 || b_inner != 1 || !tiles_permitted()) {
    product_of_pairs<R, C, TOP>(panels * C * LANES, rows, inner, d, d_panel, d_row, a, a_panel, a_pair, b, b_row, b_inner, add, scale, top);
    return;
  }
  clear_top<TOP>(top, panels * C);
  // All at once, so that stores are done before tile registers load the rows.
  for (int64 p = 0; add && scale && p < panels; ++p) scale_rows<C>(d + p * d_panel, d_row, by_tiles, scale + p * C * LANES);
  const bool copied = panels >= 4 && b_row % 1024 == 0 && whole <= NEAR, at_once = TOP != 0 && whole == inner;
  const real* last = 0;  // whose extremes are to be taken
  real* last_top = 0;
  int64 last_rows = 0;
  for (int64 r = 0; r < by_tiles; r += 32) {
    const bool two = r + 32 <= by_tiles;
    const unsigned short* br = b + r * b_row;
    int64 step = b_row;
    if (copied) {
      for (int64 k = 0; k < (two ? 32 : 16); ++k) __builtin_memcpy(near + k * (NEAR + 32), br + k * b_row, 2 * whole);
      br = near;
      step = NEAR + 32;
    }
    for (int64 p = 0; p < panels; ++p) {
      real* dp = d + p * d_panel + r * d_row;
      if (two)
        tile_block<2, N>(dp, d_row, a + p * a_panel, a_pair, br, step, whole, add, upcoming);
      else
        tile_block<1, N>(dp, d_row, a + p * a_panel, a_pair, br, step, whole, add, upcoming);
      if (!at_once) continue;
      if (last) top_of_rows<C, TOP>(last, d_row, last_rows, last_top);
      last = dp;
      last_top = top + p * C * LANES;
      last_rows = two ? 32 : 16;
    }
  }
  if (whole < inner)
    all_rows_of_pairs<R, C, 0>(panels * C * LANES, by_tiles, inner - whole, d, d_panel, d_row, a + whole / 2 * a_pair, a_panel, a_pair, b + whole,
                               b_row, 1, true, 0, 0);
  if (by_tiles < rows)
    all_rows_of_pairs<R, C, 0>(panels * C * LANES, rows - by_tiles, inner, d + by_tiles * d_row, d_panel, d_row, a, a_panel, a_pair,
                               b + by_tiles * b_row, b_row, 1, add, scale, 0);
  if (last) top_of_rows<C, TOP>(last, d_row, last_rows, last_top);
  const int64 taken = at_once ? by_tiles : 0;
  for (int64 p = 0; TOP != 0 && taken < rows && p < panels; ++p)
    top_of_rows<C, TOP>(d + p * d_panel + taken * d_row, d_row, rows - taken, top + p * C * LANES);
}
)TEXT";

}  // namespace tilewright
