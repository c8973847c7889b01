#include "tilewright/hardware/machine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "tilewright/support/error.h"

namespace tilewright {
namespace {

VectorUnit portable() {
#if defined(__aarch64__)
  return {.bytes = 16, .registers = 32, .isa = "portable", .flags = ""};
#else
  return {.bytes = 16, .registers = 16, .isa = "portable", .flags = ""};
#endif
}

/// The widest unit of this processor that is not wider than `wanted`.
VectorUnit detect(const std::string& wanted) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (avx512 && wanted != "avx2" && wanted != "portable")
    return {.bytes = 64, .registers = 32, .isa = "avx512", .flags = "-march=native"};
  // Where the override narrows the unit, the compiler must not know the wider one.
  if (avx2 && wanted != "portable")
    return {.bytes = 32,
            .registers = 16,
            .isa = "avx2",
            .flags = avx512 ? "-march=haswell -mtune=native" : "-march=native"};
#else
  (void)wanted;
#endif
  return portable();
}

}  // namespace

Machine sm90() {
  Machine m;
  m.name = "h200";
  m.arch = "sm_90a";
  m.capability = 90;
  m.shared_bytes = 227 * 1024;
  m.registers_per_thread = 255;
  m.threads_per_block = 1024;
  m.multiprocessors = 132;
  m.tf32_parts = true;
  return m;
}

const std::vector<std::string>& gpu_archs() {
  static const std::vector<std::string> all = {"sm_80",  "sm_86",  "sm_87",  "sm_88",  "sm_89",  "sm_90",
                                               "sm_90a", "sm_100", "sm_103", "sm_110", "sm_120", "sm_121"};
  return all;
}

std::string gpu_arch_of(int major, int minor) {
  std::string found = gpu_archs().front();
  for (const std::string& arch : gpu_archs())
    if (arch != sm90().arch && std::stoi(arch.substr(3)) <= 10 * major + minor) found = arch;
  return found;
}

Machine gpu_machine(const std::string& arch) {
  Machine m = sm90();
  if (arch == m.arch) return m;
  if (std::find(gpu_archs().begin(), gpu_archs().end(), arch) == gpu_archs().end())
    throw UserError(Span{}, fmt::format("`{}` is no architecture that kernels are made for", arch),
                    fmt::format("choose one of {}", fmt::join(gpu_archs(), ", ")));
  const int capability = std::stoi(arch.substr(3));
  m.arch = m.name = arch;
  m.capability = capability;
  // Compute capabilities of the CUDA programming guide: what one block may have.
  const int major = capability / 10, minor = capability % 10;
  m.shared_bytes = (major == 8 ? (minor == 0 || minor == 7 ? 163 : 99) : major == 12 ? 99 : 227) * 1024;
  m.multiprocessors = major == 8 ? 108 : 132;
  // Data sheets: TF32 at 8 times the rate of f32 (A100, H100, B200) or at the same rate (GPUs for graphics, and those made from them).
  m.tf32_parts = capability == 80 || (major > 8 && major != 12);
  return m;
}

Machine this_cpu() {
  const char* given = std::getenv("TILEWRIGHT_CPU_ISA");
  const std::string text = given ? given : "", wanted = text.substr(0, text.find('+')),
                    suffix = text.substr(wanted.size());
  Bf16Unit bf16 = Bf16Unit::None;
  bool known = wanted == "avx512" || wanted == "avx2" || wanted == "portable" || text.empty();
  if (!suffix.empty()) {
    bf16 = suffix == std::string("+") + name(Bf16Unit::Dot) ? Bf16Unit::Dot : Bf16Unit::Tiles;
    known = known && !wanted.empty() && suffix == std::string("+") + name(bf16);
  }
  if (!known)
    throw UserError(
        Span{}, "TILEWRIGHT_CPU_ISA=" + text + " names no vector unit",
        "set it to avx512, avx2 or portable, followed by +bf16_dot or +bf16_tiles where products of bf16 are "
        "to use them, or unset it for the widest of this processor");
  Machine m;
  m.vector = detect(wanted);
  m.vector.bf16 = text.empty() && m.vector.bytes == 64 ? detect_bf16_unit() : bf16;
  if (m.vector.bf16 != Bf16Unit::None) m.vector.isa += std::string("+") + name(m.vector.bf16);
  m.name = "cpu-" + m.vector.isa;
  m.shared_bytes = 4 << 20;  // local tiles lie on the stack of a thread, of which there are 8 MiB
  m.registers_per_thread = m.vector.registers;
  m.threads_per_block = 1;
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  m.multiprocessors = cores > 0 ? int(cores) : 1;
  return m;
}

}  // namespace tilewright
