// What the default plans of all machines start from: which axes are blocked, kept whole or taken one by one, and which of them are rows and columns.
#pragma once
#include <functional>
#include <map>
#include <utility>

#include "tilewright/plan/axes.h"

namespace tilewright {

/// Lengths of axes in a tile.
struct Extents {
  std::map<Sym, int64_t> of;
  /// Elements of a tile with these axes, `without` left out; an axis without a length counts as one.
  int64_t elements(const std::vector<Sym>& axes, Sym without = {}) const;
};

struct DefaultStart {
  const Program& program;
  const Derivation& derivation;
  AxisRoles roles;
  Plan plan;  ///< the streamed axis, what is whole, and free axes in blocks of one element
  Extents extents;
  std::vector<Sym> rows;  ///< blocked axes, still to be cut
  Sym row_axis;           ///< of them, along the rows of tiles; null: nothing is blocked
  Sym column_axis;  ///< of more than two blocked axes the one along columns; null: all but the row are columns

  /// Cuts blocked axes into {block, piece} of `length`(axis); others beside the row of a point, or beside row and column, stay single.
  void cut(const std::function<std::pair<int64_t, int64_t>(Sym axis)>& length);
  /// Keeps inputs that do not change along the stream; single numbers too where `numbers`.
  void keep(bool numbers);
  /// Nothing but rows is blocked or whole (sorted lists apart): the kernel moves them.
  bool moves_rows() const;
  /// A sum over several axes has all of them in its chunks: the power of two up to 64 that the others make up.
  int64_t summed() const;
};

DefaultStart default_start(const Program& p, const Derivation& d, bool gpu);
/// The rules of gpu_defaults.cc.
std::vector<GuardedPlan> gpu_default_plans(DefaultStart start, const Machine& machine);

bool has_points(const Derivation& d);
/// The laziest guard that the state allows: speculative, threshold, always.
Guard laziest_guard(const Derivation& d);
/// Bytes of an element of the widest array that is read along the stream; single numbers, rows of a table, indices and conditions left out.
int64_t widest_operand(const Program& p, const AxisRoles& roles);

}  // namespace tilewright
