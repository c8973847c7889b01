// What a tile program computes: products for matrix units, exponentials and other functions for special units, everything else for vector units.
//
// Counted are the tiles' full sizes, as a GPU computes them, over the chunks that masks leave. An expression counts each of its operations once for each
// element that the statement ranges over; a multiplication that only feeds an addition is one multiply-add with it, and equal subexpressions of a statement
// are one. Slow paths and guards that wait for a point to move are left out: they run on few chunks.
#pragma once
#include "tilewright/model/cost.h"

namespace tilewright {

enum class Unit : uint8_t { Matrix, Special, Vector };
const char* name(Unit u);

struct Operation {
  std::string what;  ///< as the tile program prints it: "S = dot d (Q, K)"
  Unit unit = Unit::Vector;
  DType dtype = DType::f32;  ///< Matrix: of the operands, the wider one
  Expr
      each;  ///< in one whole chunk, or block: multiply-adds (Matrix), results (Special), instructions for one element each (Vector)
  bool plain = true, masked = true;  ///< in which chunks
  const Loop* loop = nullptr;        ///< null: once a block
  size_t kernel = 0;
};

/// In the order of the program.
std::vector<Operation> operations(const TileProgram& t, const TileSymbols& symbols);

/// Bytes of operands that one whole chunk of a loop loads: what a loading role moves.
Expr loaded_in_chunk(const TileProgram& t, const TileKernel& k, const Loop& loop, const TileSymbols& symbols);

}  // namespace tilewright
