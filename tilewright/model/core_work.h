// What the cores of a CPU compute: every statement of a tile program as the emitted loops run it, clipped to the arrays.
//
// A CPU has no unit that takes whole tiles: rows, chunks and lanes that lie outside of an array are not computed. Tiles lie in the caches next to a core, so
// each statement reads the tiles it uses from there and writes its own; neighbouring statements over the same axes are one loop and pass values in registers. Arrays of narrow
// elements are widened into tiles of f32 when they are loaded and rounded when they are stored.
//
// Amounts are so much for each element of a domain. How many elements a domain has at given sizes and tiles is counted elsewhere (predict_cpu.cc), exactly or at a few blocks.
#pragma once
#include "tilewright/model/cost.h"

namespace tilewright {

/// Elements that a statement ranges over, of all blocks and of the chunks of `loop` (null: it stands outside of loops) that are visited without and with a test. Without axes: the chunks
/// or blocks themselves.
struct CoreDomain {
  size_t kernel = 0;
  const Loop* loop = nullptr;
  std::vector<Sym> axes;
  bool plain = true, masked = true;
  friend bool operator==(const CoreDomain&, const CoreDomain&) = default;
};

enum class CoreWork : uint8_t {
  Products,      ///< multiply-adds of contractions
  Instructions,  ///< for one element each: additions, comparisons, selections; a maximum that keeps NaN is three
  Exponentials,  ///< exp2, exp, log; half of a sigmoid, an erf, a general power
  Quotients,     ///< quotients and roots; the other half of a sigmoid
  Tangents,      ///< tanh
  Conversions,   ///< elements widened or rounded between arrays and tiles
  Places,        ///< of sorted lists: an element goes through every place of its list
  Passes,        ///< loops over tiles that are begun
  Read,          ///< bytes of tiles, at the width that a CPU holds them in
  Written
};
constexpr size_t kinds_of_core_work = size_t(CoreWork::Written) + 1;

struct CoreTerm {
  CoreWork work = CoreWork::Products;
  double each = 0;    ///< of one element of the domain
  size_t domain = 0;  ///< of CoreStatements::domains
};

struct CoreStatement {
  const Stmt* statement = nullptr;
  size_t kernel = 0;
  const Loop* loop = nullptr;
  std::vector<CoreTerm> terms;
};

struct CoreStatements {
  std::vector<CoreDomain> domains;  ///< each once
  std::vector<CoreStatement> all;   ///< in the order of the program
};
CoreStatements core_statements(const Program& p, const TileProgram& t);

}  // namespace tilewright
