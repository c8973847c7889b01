// Inside of derive/normal_form*.cc only: sums, products and choices that leave out what is 0, 1 or certain.
#pragma once
#include <algorithm>

#include "tilewright/derive/normal_form.h"

namespace tilewright::derivation {

inline bool zero(Expr e) { return e.is_constant(0); }
inline Expr times(Expr a, Expr b) {
  if (a.is_constant(1)) return b;
  if (b.is_constant(1)) return a;
  return simplify(a * b);
}
inline Expr plus(Expr a, Expr b) { return zero(a) ? b : zero(b) ? a : simplify(a + b); }
inline Expr minus(Expr a) { return simplify(-a); }

/// where(condition, value, 0)
inline Expr only_if(Expr condition, Expr value) {
  return is_true(condition) ? value : simplify(select(condition, value, 0));
}

inline bool depends_on_any(Expr e, const std::vector<Sym>& axes) {
  return e && std::any_of(axes.begin(), axes.end(), [&](Sym s) { return depends_on(e, s); });
}

}  // namespace tilewright::derivation
