// Machines as data: what the mapping must know of a target.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "tilewright/hardware/bf16_unit.h"

namespace tilewright {

struct VectorUnit {
  int bytes = 16;                  ///< width of a vector register
  int registers = 16;              ///< architectural vector registers
  std::string isa;                 ///< "avx512", "avx2", "portable"; "avx512+bf16_tiles"
  std::string flags;               ///< compiler flags that enable it, e.g. "-march=native"
  Bf16Unit bf16 = Bf16Unit::None;  ///< by which products of bf16 are computed
};

struct Machine {
  std::string name;          ///< "h200", "cpu-avx2"
  int64_t shared_bytes = 0;  ///< of one block (GPU) or cache budget of one task (CPU)
  int64_t registers_per_thread = 0;
  int64_t threads_per_block = 0;
  int multiprocessors = 0;  ///< or cores
  std::string arch;         ///< GPU: what kernels are made for, as its compiler names it: "sm_90a", "sm_80"
  int capability = 0;       ///< GPU: the compute capability, ten times: 80 for sm_80, 90 for sm_90a
  bool tf32_parts =
      false;          ///< GPU: three products of TF32 take less time than one of f32 by FMA instructions
  VectorUnit vector;  ///< CPU
};

Machine sm90();  ///< 227 KiB shared, 255 registers, 1024 threads
/// The architectures that kernels are made for, in the order of their compute capabilities from 8.0 on: "sm_80", …, "sm_90", "sm_90a", "sm_100", …
const std::vector<std::string>& gpu_archs();
/// The last of them that a device of this compute capability runs kernels for, without sm_90a; the first where there is none.
std::string gpu_arch_of(int major, int minor);
/// A GPU by its architecture, one of gpu_archs(). UserError for any other text.
Machine gpu_machine(const std::string& arch);
/// Detected. The environment's TILEWRIGHT_CPU_ISA overrides it downwards: avx512, avx2 or portable, which may be followed by +bf16_dot or +bf16_tiles (without,
/// products of bf16 are computed in f32). A unit for bf16 that the processor lacks is emulated with the same layouts and arithmetic, so that it can be
/// tested anywhere. UserError for any other value.
Machine this_cpu();

}  // namespace tilewright
