#include "tilewright/hardware/bf16_unit.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace tilewright {
namespace {

#if defined(__x86_64__) && defined(__linux__)
bool has_dot() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __builtin_cpu_supports("avx512f") && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 5 & 1);
}

/// AMX-TILE and AMX-BF16, the state saved by the system, and its permission (arch_prctl ARCH_REQ_XCOMP_PERM for XTILEDATA).
bool has_tiles() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d >> 22 & 1) || !(d >> 24 & 1)) return false;
  if (!__get_cpuid_count(1, 0, &a, &b, &c, &d) || !(c >> 27 & 1)) return false;  // XGETBV
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  constexpr unsigned tile_states = 3u << 17;  // XTILECFG, XTILEDATA
  if ((low & tile_states) != tile_states) return false;
  return syscall(SYS_arch_prctl, 0x1023, 18) == 0;
}
#endif

}  // namespace

const char* name(Bf16Unit unit) {
  switch (unit) {
    case Bf16Unit::None: return "";
    case Bf16Unit::Dot: return "bf16_dot";
    case Bf16Unit::Tiles: return "bf16_tiles";
  }
  return "";
}

Bf16Unit detect_bf16_unit() {
#if defined(__x86_64__) && defined(__linux__)
  static const Bf16Unit unit = [] {
    __builtin_cpu_init();
    // Where tiles end, the same products go on by dot products. Alone these double the rate of f32 where a processor starts as many of them a cycle as of fused
    // multiply-adds, which AMD's do; Intel's start a quarter and are slower than f32.
    if (!has_dot()) return Bf16Unit::None;
    if (has_tiles()) return Bf16Unit::Tiles;
    return __builtin_cpu_is("amd") ? Bf16Unit::Dot : Bf16Unit::None;
  }();
  return unit;
#else
  return Bf16Unit::None;
#endif
}

}  // namespace tilewright
