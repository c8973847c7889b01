// Formulas of a model as people write them: 2·q·d + 4·q·x·d/g_q.
#pragma once
#include "tilewright/model/predict.h"

namespace tilewright::explain {

/// Sizes print as the names of their axes, bytes of elements as numbers; tile sizes keep their symbols. A sum of products of powers is printed term by
/// term, factors in the order of sizes, then tiles; of a maximum of such sums the one that is largest at the model's tile sizes.
class Formulas {
 public:
  explicit Formulas(const Model& m);
  /// Of sums over several models whose axes are among these: bytes of elements are numbers there already (see `numbered`).
  explicit Formulas(const std::vector<Axis>& axes);
  std::string text(Expr e) const;
  /// Of a maximum the sum that is largest at the tile sizes of the plan; else `e`.
  Expr largest(Expr e) const;
  /// Bytes of elements as numbers.
  Expr numbered(Expr e) const;
  /// Every group tile as large as the axis that it cuts, and one part where the stream is split.
  Expr ungrouped(Expr e) const;
  /// With numbers for some tiles, pieces in proportion.
  Expr with_tiles(Expr e, const std::map<Sym, int64_t>& tiles) const;

 private:
  std::string term(const Powers& powers, const Rational& coefficient) const;
  const Model* m_ = nullptr;
  Substitution shown_, widths_;  ///< sizes and widths; widths alone
  std::vector<Sym> order_;       ///< of factors
  Substitution whole_;           ///< g -> size
};

/// Both parts of what crosses a level.
Expr both(const LevelCost& level);

}  // namespace tilewright::explain
