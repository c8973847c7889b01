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
  int m = 0, n = 0, k = 0;      ///< Mma tile
  double cost = 0;              ///< cycles of the unit for one issue
  double max_error = 0;         ///< ulp, for function atoms
};

/// The table of a target; names are unique.
const std::vector<Atom>& sm90_atoms();
const std::vector<Atom>& sm80_atoms();
const std::vector<Atom>& cpu_atoms();
const Atom* find_atom(const std::string& name);

}  // namespace tilewright
