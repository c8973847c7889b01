// Machines as data: what the mapping must know of a target.
#pragma once
#include <cstdint>
#include <string>

namespace tilewright {

struct VectorUnit {
  int bytes = 16;      ///< width of a vector register
  int registers = 16;  ///< architectural vector registers
  std::string isa;     ///< "avx512", "avx2", "portable"
  std::string flags;   ///< compiler flags that enable it, e.g. "-march=native"
};

struct Machine {
  std::string name;          ///< "h200", "cpu-avx2"
  int64_t shared_bytes = 0;  ///< of one block (GPU) or cache budget of one task (CPU)
  int64_t registers_per_thread = 0;
  int64_t threads_per_block = 0;
  int multiprocessors = 0;  ///< or cores
  VectorUnit vector;        ///< CPU
};

Machine sm90();  ///< 227 KiB shared, 255 registers, 1024 threads
Machine
this_cpu();  ///< detected; environment TILEWRIGHT_CPU_ISA=avx512|avx2|portable overrides downwards; UserError
             ///< for any other value

}  // namespace tilewright
