// Atoms: the instructions and micro-kernels a target offers, as a table. Mapping covers tile ops with atoms; emitters print them by name.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "tilewright/hardware/layout.h"
#include "tilewright/support/dtype.h"

namespace tilewright {

/// How an atom's completion is observed.
enum class Completion : uint8_t {
  Synchronous,
  Group,    ///< by Commit / WaitGroup of the issuing threads, CopyCommit / CopyWait for copies
  Channel,  ///< by a channel's full signal
  Bulk,     ///< by BulkWait
};

struct Atom {
  std::string name;  ///< "wgmma.m64n128k16.f16", "copy.bulk", "copy.plain", "fma.4x3", "store.plain"
  enum class Kind : uint8_t { Mma, Copy, Store, Exp2, Shuffle } kind = Kind::Mma;
  DType dtype = DType::f32;  ///< of the operands
  Completion completion = Completion::Synchronous;
  bool reads_async_proxy =
      false;  ///< reads Local through the asynchronous proxy (generic writes need a ProxyFence first)
  bool by_warp =
      false;  ///< Mma: the threads of a warp compute it together, their registers hold fragments; Local
              ///< operands are panels that the warp reads
  bool a_in_registers = false;  ///< Mma: the a operand may be a register fragment
  bool in_parts = false;        ///< Mma: operands are split in two parts, of which three products are taken
  int m = 0, n = 0, k = 0;      ///< Mma tile
  double cost = 0;              ///< cycles of the unit for one issue
  double max_error = 0;         ///< ulp, for function atoms
};

/// Atoms in_parts. An operand is split: high is the operand rounded to 11 bits, half away from zero, but toward zero where that would overflow; low the rest, of which the unit
/// takes 11 bits. Over `depth_of_parts` elements of the contracted axis Σ high·high and Σ (high·low + low·high) are accumulated apart, from zero, because the unit rounds
/// its sums toward zero; then their sum is added to d. Where an operand is infinite or NaN the second sum is NaN and says nothing, and the first one alone is what is added.
constexpr int64_t depth_of_parts = 32;

/// The table of a target; names are unique.
const std::vector<Atom>& sm90_atoms();
const std::vector<Atom>& sm80_atoms();
const std::vector<Atom>& cpu_atoms();
const Atom* find_atom(const std::string& name);

}  // namespace tilewright
