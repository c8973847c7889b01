// A model's formulas at the numbers of one plan: how often its parts run, how long its axes and blocks are, what it moves.
#pragma once
#include "tilewright/model/predict.h"
#include "tilewright/model/sampled.h"

namespace tilewright {

class Counted {
 public:
  /// `sampler`: chunks under a mask are counted at a few blocks; null: by exact sums. `known`: what other plans of the model have found. All must outlive it.
  Counted(const Model& m, const Integers& values, const Sampler* sampler, KnownValues& known);

  const Integers& values() const { return values_; }
  /// Of an axis; 1 where it is not known.
  double length(Sym index) const;
  /// Blocks or chunks of the axis.
  double count(const KernelAxis& a) const;
  /// Elements in a block or chunk, on average: the last of an axis is shorter.
  double extent(const TileKernel& k, Sym axis) const;
  double elements(const TileKernel& k, const std::vector<Sym>& axes) const;
  double blocks(size_t kernel) const;
  /// Chunks in which what stands in `loop` runs, over all blocks; blocks where it stands outside of loops. Bounds that a step in front finds: every chunk.
  double times(size_t kernel, const Loop* loop, bool plain = true, bool masked = true) const;
  const SampledVisits* visits(const Loop* loop) const;
  /// Exact, or where that has no value, or is too long for a search, smooth. nullopt: a size is not known. `larger`: other tile sizes.
  std::optional<double> bytes(Expr exact, Expr smooth, const Integers* larger = nullptr) const;
  std::optional<double> value(Expr e) const { return known_(e, values_); }
  std::optional<double> value(Expr e, const Integers& values) const { return known_(e, values); }
  /// Loaded and stored at memory.
  double loaded() const;
  double stored() const;

 private:
  Bindings smooth_numbers(const Integers& values) const;

  const Model& m_;
  const Integers& values_;
  KnownValues& known_;
  bool sampled_;
  Bindings numbers_;
  std::vector<SampledVisits> visits_;  ///< in the order of Model::visits
};

}  // namespace tilewright
