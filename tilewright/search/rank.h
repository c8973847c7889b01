// Plans of a kernel in the order of their predicted times.
#pragma once
#include "tilewright/model/predict.h"
#include "tilewright/search/families.h"

namespace tilewright {

struct RankedPlan {
  Plan plan;
  double seconds = 0;                                 ///< predicted (model/predict.h)
  std::string bound_by;                               ///< the longest resource
  double transfers = 0;                               ///< H: bytes that cross memory
  double held = 0;                                    ///< M: bytes of one block
  std::vector<std::pair<std::string, double>> terms;  ///< seconds of each resource
  bool is_default = false;  ///< the plan that the sizes choose where nothing is said
  bool too_large =
      false;  ///< holds more than the machine's memory for one block: the default alone, which is listed all the same
};

struct Ranking {
  std::vector<RankedPlan>
      plans;  ///< fastest first; of equals the default, then the one with fewer transfers, then that with the longer chunk
  size_t families = 0;    ///< tile programs that were built
  size_t enumerated = 0;  ///< plans, of which
  size_t too_large =
      0;  ///< hold more than the machine's memory for one block, and are left out but for the default
  size_t refused = 0;       ///< or have no tiles
  double milliseconds = 0;  ///< that it took
  /// Place of the default plan; plans.size() where it has none.
  size_t place_of_default() const;
};

/// `machine` should know its rates (with_rates). `sizes` hold every size of the kernel's axes, by size symbol. Plans that need more than a block's
/// memory are left out, but for the default.
Ranking rank(const Program& elaborated, const Derivation& d, const Plan& base, const MachineFile& machine,
             const Sizes& sizes);

/// The machine itself where its rates are known; else a CPU with the cores, vectors and caches that the machine has and the rates for each core of
/// a typical one of the library (hardware/typical-avx2.toml, typical-avx512.toml). `about` says so.
MachineFile with_rates(const MachineFile& machine);

}  // namespace tilewright
