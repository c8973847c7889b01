// A tile program as pseudocode, as far as a step from definition to hardware has come.
#pragma once
#include <string>
#include <vector>

#include "tilewright/model/cost.h"

namespace tilewright::explain {

struct CodeLine {
  int depth = 0;
  std::string text;
  std::string comment;         ///< from the derivation, behind the line
  std::string margin;          ///< before the line
  const Stmt* stmt = nullptr;  ///< null: a heading
};

struct CodeStyle {
  enum class Detail : uint8_t {
    Folded,   ///< what the stream holds is one line
    Opened,   ///< init, loop body, finish
    SubLoops  ///< chunks without a test and masked ones apart
  } detail = Detail::Opened;
  bool numbers = false;              ///< tile sizes as numbers instead of g_i, s_j
  bool levels = false;               ///< dtype and level behind each new tile
  std::vector<Sym> on_matrix_unit;   ///< with levels: tiles that a matrix unit makes
  std::map<Sym, int64_t> multiples;  ///< of tile symbols, written as superscripts
};

std::vector<CodeLine> pseudocode(const TileProgram& t, size_t kernel, const TileSymbols& symbols,
                                 const CodeStyle& style);

/// Labels of tiles: "g_q", "48", "g_q⁶⁴".
std::string label_of(const KernelAxis& a, const TileSymbols& symbols, const CodeStyle& style);
/// "S[g_q, s_x]" of a tile.
std::string tile_text(const TileKernel& k, const Tile& t, const TileSymbols& symbols, const CodeStyle& style);

}  // namespace tilewright::explain
