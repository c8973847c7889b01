// What a derivation says about the axes of a program: which are rows, which are features, which are summed inside.
#pragma once
#include <map>

#include "tilewright/plan/plan.h"

namespace tilewright {

struct AxisRoles {
  std::vector<Sym>
      free;  ///< axes of the outputs (in memory order), then of results, without the streamed one
  std::vector<Sym> inner;            ///< axes bound inside bodies (contracted within a chunk)
  std::vector<Sym> streamed_inputs;  ///< arrays read along the streamed axis
  std::vector<Sym> kept_inputs;      ///< arrays that the bodies read without the streamed axis
  std::vector<Sym> feature;  ///< free axes that some result has and no point has, among results with points
  /// Free axes that some array read along the stream lacks: a block over such an axis uses each streamed element many times.
  std::vector<Sym> reused;
  std::map<Sym, std::vector<Sym>>
      read_at;  ///< for each array: the axes that its indices mention, bound ones too
  std::map<Sym, std::vector<Sym>>
      lacking;  ///< for each of them: the arrays read along the stream that lack it
};

/// The longest literal size that a tile holds whole unless a schedule says so.
constexpr int64_t whole_limit = 256;

AxisRoles axis_roles(const Program& p, const Derivation& d);
bool contains(const std::vector<Sym>& v, Sym s);

}  // namespace tilewright
