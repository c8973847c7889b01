// What the cores of a CPU compute: every statement of a tile program as the emitted loops run it, clipped to the arrays.
//
// A CPU has no unit that takes whole tiles: rows, chunks and lanes that lie outside of an array are not computed. Tiles lie in the caches next to a core, so
// each statement reads the tiles it uses from there and writes its own; neighbouring statements over the same axes are one loop and pass values in registers. Arrays of narrow
// elements are widened into tiles of f32 when they are loaded and rounded when they are stored.
#pragma once
#include "tilewright/model/cost.h"

namespace tilewright {

/// One statement, over all blocks and chunks. Expressions over sizes, tiles and widths; null: none.
struct CoreStatement {
  std::string what;  ///< its tile
  Expr products;     ///< multiply-adds of contractions
  Expr
      instructions;  ///< for one element each: additions, comparisons, selections; a maximum that keeps NaN is three
  Expr exponentials;   ///< exp2, exp, log; half of a sigmoid, an erf, a general power
  Expr quotients;      ///< quotients and roots; the other half of a sigmoid
  Expr tangents;       ///< tanh
  Expr conversions;    ///< elements widened or rounded between arrays and tiles
  Expr read, written;  ///< bytes of tiles, at the width that a CPU holds them in
};
std::vector<CoreStatement> core_statements(const Program& p, const TileProgram& t,
                                           const TileSymbols& symbols);

}  // namespace tilewright
