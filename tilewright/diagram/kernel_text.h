// Statements of a kernel as texts of boxes.
#pragma once
#include "tilewright/diagram/text.h"
#include "tilewright/tile/statements.h"

namespace tilewright {

class KernelText {
 public:
  explicit KernelText(const TileKernel& k) : k_(k) {}

  /// In the language's syntax; reads of tiles at their own axes are their names, long decimals have six digits.
  std::string of(Expr e) const;
  /// "sum[j](E)", or "l + sum[j](E)" where it accumulates. `value`: in place of what is reduced (empty: its text).
  std::string of(const Reduce& x, const std::string& value = "") const;
  /// One statement in one line.
  std::string line(const Stmt& s) const;
  /// A statement and those inside it, a line or more each, indented.
  void add_lines(const Stmt& s, const std::string& indent, std::vector<std::string>& out) const;

 private:
  void find_reads(Expr e, std::vector<std::pair<Expr, std::string>>& shown) const;

  const TileKernel& k_;
};

/// Where the value of a masked segment is that of a plain one if a condition holds, and another if not.
struct MaskOf {
  Expr condition;  ///< null: there is none
  Expr otherwise;
};
MaskOf mask_of(Expr value, Expr masked);

}  // namespace tilewright
