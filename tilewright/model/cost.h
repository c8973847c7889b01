// Transfer and memory formulas of a plan, symbolic in the sizes ("FlashAttention on a Napkin", arXiv 2412.03317: H is what changes level, M what a
// level holds). Equal, byte for byte, to what the interpreter of tile programs counts.
#pragma once
#include "tilewright/tile/tile_program.h"

namespace tilewright {

struct LevelCost {
  Expr loaded;  ///< bytes, over size symbols and integer params (may hold RangeSum nodes)
  Expr stored;
};
struct Cost {
  LevelCost memory, shared;
  std::vector<std::pair<Sym, Expr>> loaded_by_tensor;
  Expr peak_shared, peak_registers;  ///< M, bytes of one block
  Expr
      chunks_visited;  ///< over the bounds of one block, times the blocks, where a host step finds them (ChunkTable)
};

Cost cost(const Program& p, const TileProgram& t);
/// A table for people: one line for each level with H and M.
std::string to_text(const Program& p, const Cost& c);

}  // namespace tilewright
