// Conditions as expressions: constants folded, guards kept in order, and facts carried into branches.
#pragma once
#include <vector>

#include "tilewright/expr/expr.h"

namespace tilewright {

inline Expr always() { return Expr(1); }
inline Expr never() { return Expr(0); }
inline bool is_always(Expr c) { return c.is_constant(1); }
inline bool is_never(Expr c) { return c.is_constant(0); }

/// `a and b`, b evaluated only where a holds; b is folded under a, and what a already says is left away.
Expr both(Expr a, Expr b);
/// `a or b`, b evaluated only where a does not hold.
Expr either(Expr a, Expr b);
Expr opposite(Expr c);
/// `a` where c holds, else `b`; each evaluated only where it is taken.
Expr choose(Expr c, Expr a, Expr b);
/// The conditions that `c` joins by `and`, in order; empty for always().
std::vector<Expr> conjuncts(Expr c);

/// `e` where `condition` is known to hold: selections and connectives that it decides are folded, also below
/// a reduction as far as the condition is free of its axes. Conditions are compared in canonical form.
Expr assume(Expr e, Expr condition);
/// Every branch of every selection folded under the conditions that lead to it.
Expr fold_branches(Expr e);

}  // namespace tilewright
