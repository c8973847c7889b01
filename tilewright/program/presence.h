// Where an expression is absent: the rules of docs/language.md, "Absence", as conditions.
#pragma once
#include <unordered_map>
#include <unordered_set>

#include "tilewright/program/program.h"

namespace tilewright {

/// An absent element reads −inf, or 0 once it went through exp, exp2 or softmax. Each member is a condition
/// that holds where the element is not absent in that way; both hold where it is present.
struct Presence {
  Expr not_minus_inf;
  Expr not_zero;
};

class PresenceRules {
 public:
  explicit PresenceRules(const Program& program) : program_(program) {}

  /// Reads of definitions look through to their values; a written softmax keeps the absence of its body.
  Presence of(Expr e);
  /// Present in either way.
  Expr present(Expr e);
  /// As a term under `sum`: also absent where a factor takes the literal 0 of a `where`.
  Expr present_under_sum(Expr e);
  /// True when evaluating `e` cannot fail: no read that needs a check, no divisor that may be zero.
  bool never_fails(Expr e);
  bool lies_inside(Expr index, Sym axis) const;
  /// `e` stands for a reduction, whose elements are all present, whatever condition stands around it.
  void stands_for_reduction(Expr e) { reductions_.insert(e); }
  /// To be called when the program's definition of `tensor` has changed.
  void forget() { memo_.clear(), zero_.clear(), safe_.clear(); }

 private:
  Presence rules(Expr e);
  Expr not_zero_under_sum(Expr e);
  Expr zero_rules(Expr e);
  /// `c`, a condition over the axes of definition `d`, at the indices of a read of it.
  Expr at_read(Expr c, const Definition& d, Expr read) const;

  const Program& program_;
  std::unordered_set<Expr> reductions_;
  std::unordered_map<Expr, Presence> memo_;
  std::unordered_map<Expr, Expr> zero_;
  std::unordered_map<Expr, bool> safe_;
};

}  // namespace tilewright
