// How the axes of a kernel lie on the threads of the computing role and in their registers.
//
// Every axis has digits (as in a Layout): some select the thread, the rest a register. The layout of a tile follows from its axes alone, so
// tiles of one kernel agree about who holds what: m[i] = max(m[i], S[i, j]) never moves data, and a tile without an axis is replicated over the
// threads that the axis selects.
//
// Two families:
//  - fragment: rows and columns lie as in the accumulator of wgmma (hardware/layout.h), 64 rows for each group of 128 threads;
//  - rows: the longest axis runs along the threads in vectors of 16 bytes, so that accesses to memory are coalesced.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "tilewright/map/mapped.h"

namespace tilewright::hopper {

/// The least multiple of m that is at least n.
inline int64_t round_up(int64_t n, int64_t m) { return (n + m - 1) / m * m; }

class Distribution {
 public:
  /// A digit of a coordinate, lowest step first. stride: of the owner, or the rank among the offset digits of a tile (lower ranks vary faster).
  struct Part {
    int64_t extent = 1;
    Digit::To to = Digit::To::Offset;
    int64_t stride = 0;
  };

  /// Rows [0, rows) of `row` lie 64 to a group; `group_rows` rows belong to each of `groups` groups.
  static Distribution fragment(int groups, int64_t group_rows);
  /// `threads` owners of which `lanes` lie along the fast axis; the rest along slow axes.
  static Distribution rows(int64_t threads, int64_t lanes);

  void place_row(Sym axis);                                     ///< fragment
  void place_column(Sym axis, int64_t size, int64_t multiple);  ///< fragment; padded to `multiple` (8 or 16)
  void place_fast(Sym axis, int64_t size, int64_t vector);      ///< rows; size a multiple of vector
  void place_slow(Sym axis, int64_t size, int rank);            ///< rows; rank > 0
  void place_registers(Sym axis, int64_t size, int rank);       ///< along registers alone

  bool has(Sym axis) const { return parts_.count(axis) > 0; }
  int64_t extent(Sym axis) const;  ///< padded
  int64_t threads() const { return threads_; }
  /// UserError when two axes of the tile lie along the same threads.
  Layout layout(const std::vector<Sym>& axes) const;
  /// Some threads select coordinates along both axes.
  bool collide(Sym a, Sym b) const;
  /// The narrowest scope that holds all owners among which elements along the axes lie.
  Scope across(const std::vector<Sym>& axes) const;

 private:
  struct Slot {  ///< a digit of the thread number
    int64_t extent, stride;
  };
  std::vector<Slot> slots_;
  int64_t threads_ = 0;
  int64_t lanes_ = 1;       ///< rows
  int64_t group_rows_ = 0;  ///< fragment
  std::map<Sym, std::vector<Part>> parts_;
};

}  // namespace tilewright::hopper
