// What a plan takes on a CPU, for the order of plans: the model's amounts (model/work.h, model/cost.h) at the rates that the emitted kernels reach rather than at peaks.
// docs/search.md states every term and where its number comes from.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "tilewright/map/cpu/lanes.h"
#include "tilewright/search/sampled.h"

namespace tilewright {

struct CpuTime {
  double seconds = 0;
  std::string bound_by;                               ///< the largest of the terms
  double transfers = 0;                               ///< bytes that cross memory
  std::vector<std::pair<std::string, double>> terms;  ///< seconds of each, in the order of docs/search.md
};

/// Of the plans of one family.
class CpuTimer {
 public:
  /// `m` must outlive it; its tile program is that of one plan of the family.
  CpuTimer(const Model& m, const MachineFile& machine);
  /// `values`: sizes, tile sizes, widths and integer params.
  CpuTime of(const Integers& values) const;

 private:
  struct Product {
    size_t operation;      ///< of the model
    Sym lane, row, inner;  ///< row may be null
  };
  struct Copy {
    const TileKernel* kernel;
    const Loop* loop;
    std::vector<Sym> axes;
    double cycles = 0;  ///< of an element
  };
  struct Run {  ///< elements of an array that follow one another in memory and in a tile
    const TileKernel* kernel;
    Sym axis;
  };
  struct Pass {  ///< a map or reduction over tiles
    const TileKernel* kernel;
    const Loop* loop;
    std::vector<Sym> axes;
  };
  const Model& m_;
  const MachineFile& machine_;
  Sampler sampler_;
  int width_ = 8;
  double hertz_ = 3e9;
  std::vector<Product> products_;
  std::vector<Copy> copies_;
  std::vector<Pass> passes_;
  std::map<Sym, Run> runs_;  ///< by tensor
  std::vector<std::pair<const TileKernel*, const Tile*>> tiles_;
};

}  // namespace tilewright
