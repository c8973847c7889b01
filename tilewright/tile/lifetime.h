// Which tiles hold a value that is still needed, at each statement of a kernel.
#pragma once
#include <map>
#include <set>

#include "tilewright/tile/tile_program.h"

namespace tilewright {

/// Live tiles by backward data flow. The body of a loop may run any number of times, that of a When or not at
/// all. Loads, dots, reductions and maps that do not read their own tile overwrite it whole.
class Lifetime {
 public:
  explicit Lifetime(const TileKernel& k);
  /// Tiles that are needed after the statement.
  const std::set<Sym>& after(const Stmt& s) const { return after_.at(&s); }
  /// Tiles that take memory while the statement runs: those needed after it, those it reads, and the one it
  /// writes.
  std::set<Sym> during(const Stmt& s) const;

 private:
  std::set<Sym> before(const Body& body, std::set<Sym> live);
  /// What a statement reads, found once: loops are gone round twice.
  const std::vector<Sym>& read_by(const Stmt& s);

  const TileKernel& k_;
  std::map<const Stmt*, std::vector<Sym>> reads_;
  std::map<const Stmt*, std::set<Sym>> after_;
};

/// Bytes of tiles at full size (times slots).
struct Peak {
  int64_t shared = 0, registers = 0;
  /// The larger of each.
  void raise(const Peak& other);
};
/// Of the tiles that are live while one statement runs.
Peak live_during(const TileKernel& k, const Lifetime& lifetime, const Stmt& s);
/// M of one kernel: the largest total of tiles that are live at once.
Peak live_peak(const TileKernel& k);

}  // namespace tilewright
