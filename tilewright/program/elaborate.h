// From what is written to what is derived from: reducers expanded, absence made explicit, definitions
// inlined.
#pragma once
#include <optional>

#include "tilewright/program/program.h"

namespace tilewright {

/// The program with only Sum Max Min Prod Any All Argmax Argmin Topk Argtopk reducers, and absence explicit: every Reduce
/// whose body may be absent becomes Reduce(r, axes, where(present, body, identity)), the condition assumed
/// inside the branch, so that nothing later needs the rules of absence (docs/language.md, "Absence"). Parts
/// of `present` that are free of the axes and cannot fail stand outside: where(outer, Reduce(r, axes,
/// where(inner, body, identity)), identity). Argmax and argmin of what may be absent also find the first
/// present index, for rows whose present elements all equal the identity. Sizes of baked axes become their
/// literals. Softmax: m = max x, e = where(x == −inf, 0, exp(x − m)), l = Σe, where(l == 0, 0, e/l).
/// logsumexp: m where m is infinite, else m + log Σ exp(x − m). mean: Σ over the number present. var: mean((x
/// − mean)²). Expansions are expressions inside the definition; no definitions are added. relu, silu, gelu
/// were expanded by the parser. The body of Topk and Argtopk is where(present, x, −inf) (ranked_body in expr.h).
Program elaborate(const Program& p);

/// A Topk or Argtopk of an elaborated program by counting: the element before which as many present elements stand as its rank says
/// (larger ones, equal ones of smaller index, NaN before numbers). It takes the square of the axis' length.
/// `real`: the values that are compared are whole values of that dtype (compared.h).
Expr counted(Expr ranked, std::optional<DType> real = {});
/// Every Topk and Argtopk counted.
Program with_counted_ranks(Program elaborated, std::optional<DType> real = {});

/// Condition under which `e` is present (true constant when always). Reads of definitions look through to
/// their values.
Expr presence(const Program& p, Expr e);

/// Value of a definition of an elaborated program with every read of other definitions replaced by its value
/// (indices substituted), except those that round (dtype given), which stay reads. Sums over unrelated axes
/// keep their bound symbols; capture is avoided.
Expr inlined(const Program& elaborated, Sym definition);

/// The identity of a reducer: 0, −inf, +inf, 1, false, true; −1 for indices. Of Topk and Argtopk it is what a sorted list holds behind its last
/// element: −inf and −1.
Expr identity(Reducer r);

}  // namespace tilewright
