// Transfer and memory formulas of a plan, symbolic in the sizes ("FlashAttention on a Napkin", arXiv 2412.03317: H is what changes level, M what a
// level holds). Equal, byte for byte, to what the interpreter of tile programs counts.
//
// The plan's tile sizes and the bytes of each dtype may be symbols too (TileSymbols). At the numbers of any plan with the same cuts the formulas then
// give what cost() of that plan gives (tests/property/model_symbols.cc).
#pragma once
#include <map>

#include "tilewright/tile/tile_program.h"

namespace tilewright {

struct LevelCost {
  Expr loaded;  ///< bytes, over size symbols and integer params (may hold RangeSum nodes)
  Expr stored;
};
struct Cost {
  LevelCost memory, shared;
  std::vector<std::pair<Sym, Expr>> loaded_by_tensor, stored_by_tensor;
  Expr peak_shared, peak_registers;  ///< M, bytes of one block
  Expr
      chunks_visited;  ///< over the bounds of one block, times the blocks, where a step in front finds them (ChunkTable)
};

/// Symbols in place of the numbers of a plan.
struct TileSymbols {
  std::map<Sym, Sym>
      block;  ///< axis -> elements of a block or chunk: g_i, s_j. Axes with blocks of one element have none
  std::map<Sym, Sym> piece;  ///< axis -> elements of a piece: p_i. Only where pieces are smaller than blocks
  std::map<DType, Sym> width;  ///< bytes of an element: q_f16
  Sym split;  ///< elements of a part: part_j, in smooth formulas alone; null where the stream is not split
  std::map<const Loop*, Sym> visited;  ///< of a loop with a mask: the share of its chunks that is visited
  /// What each symbol stands for in the tile program that they were made from; shares of chunks have no value.
  std::map<Sym, int64_t> values;
  /// Sizes of the tile program's axes that are literal: kept as symbols in formulas, with these values.
  std::map<Sym, int64_t> literal;
};
TileSymbols tile_symbols(const Program& p, const TileProgram& t);

Cost cost(const Program& p, const TileProgram& t);
/// Over symbols. `smooth`: tiles are taken to divide what they cut, so that every formula is a sum of products of powers; a loop with a mask visits the share
/// `symbols.visited` of its chunks.
Cost cost(const Program& p, const TileProgram& t, const TileSymbols& symbols, bool smooth);

/// Transfers alone, without peaks. `all`: false leaves out shared memory, chunks, what is stored by tensor and the sum of what is loaded.
Cost transfers(const Program& p, const TileProgram& t, const TileSymbols& symbols, bool smooth,
               bool all = true);
/// The largest totals of live tiles of one block, bytes.
struct Peaks {
  Expr shared, registers;
  Expr both;  ///< together: M where a block has one memory
};
/// Which of them are asked for; the others are 0.
enum class Memories : uint8_t { Apart, Together, All };
Peaks peaks(const TileProgram& t, const TileSymbols& symbols, Memories memories = Memories::All);

/// What one loop visits, over all blocks.
struct Visits {
  const Loop* loop = nullptr;
  size_t kernel = 0;
  Expr plain, masked;  ///< chunks
  Expr elements;       ///< of the streamed axis, in visited chunks
  Expr all;            ///< elements that would be visited without a mask
};
std::vector<Visits> visits(const Program& p, const TileProgram& t, const TileSymbols& symbols);

/// Blocks of each kernel's grid.
std::vector<Expr> blocks(const Program& p, const TileProgram& t, const TileSymbols& symbols);
/// How often a whole chunk of a loop is run over all blocks, or a block (null), where tiles divide what they cut.
Expr smooth_repeats(const Program& p, const TileProgram& t, const TileSymbols& symbols, size_t kernel,
                    const Loop* loop);
/// Elements that a statement ranges over in one whole block or chunk.
Expr elements_of_domain(const TileProgram& t, const TileKernel& k, const std::vector<Sym>& axes,
                        const TileSymbols& symbols);

/// The same of the elements inside arrays, summed over the chunks of a loop (null: none) that are visited with and without a test, and over all blocks.
Expr clipped_elements(const Program& p, const TileProgram& t, const TileSymbols& symbols, size_t kernel,
                      const Loop* loop, const std::vector<Sym>& axes, bool plain = true, bool masked = true);

/// A table for people: one line for each level with H and M.
std::string to_text(const Program& p, const Cost& c);

}  // namespace tilewright
