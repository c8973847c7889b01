// How many chunks the blocks of a kernel visit under its masks, from a few blocks: what an exact sum over all blocks costs too much for, a hundred times over.
#pragma once
#include "tilewright/expr/simplify.h"
#include "tilewright/model/cost.h"

namespace tilewright {

/// Of one loop, over all blocks.
struct SampledVisits {
  double plain = 0, masked = 0;  ///< chunks
  double elements = 0;           ///< of the axis, in those chunks
  double all = 0;                ///< elements without a mask
  bool known = true;  ///< false: a step in front finds the bounds, and every chunk counts, as `plain`
};

/// Chunks that loops visit, for the tile sizes of any plan of a family.
class Sampler {
 public:
  Sampler(const TileProgram& t, const TileSymbols& symbols);
  /// In the order of visits() (model/cost.h). `values`: sizes, tile sizes, params. Bounds that are not known, as those which a step in front finds, visit every chunk.
  std::vector<SampledVisits> visits(const Bindings& values) const;

 private:
  struct Of {
    const TileKernel* kernel;
    const KernelAxis* axis;
    std::vector<Segment> segments;        ///< over tile symbols
    std::vector<const KernelAxis*> rows;  ///< axes of the grid that the bounds depend on
  };
  const TileProgram& t_;
  const TileSymbols& symbols_;
  std::vector<Of> loops_;
};

/// Blocks along an axis of the grid, or chunks along one that is streamed, and elements of one, on average.
double count_of(const TileSymbols& symbols, const KernelAxis& a, double length, const Bindings& values);

}  // namespace tilewright
