// Canonical form, intervals, sign, derivative and evaluation of scalar expressions. Identities hold over the
// reals extended by ±inf where a rule says so; rules are written as equations, one file per operator family
// (rules_*.cc), each sampled and tested for idempotence.
#pragma once
#include <map>
#include <optional>

#include "tilewright/expr/expr.h"

namespace tilewright {

/// Canonical form. Idempotent. In the result:
///  - only Constant Real Symbol Read Add Mul Pow Exp Log Tanh Sigmoid Erf Abs Floor Round Sign Max Min Select
///    Lt Le Eq Ne And Or Not FloorDiv Mod Cast Reduce RangeSum occur. Sub, Neg → Add with coefficient −1;
///    Div → Mul with Pow −1; sqrt, rsqrt → Pow ±1/2; exp2(x) → Exp(x·log 2), log2(x) → Log(x)·(log 2)⁻¹;
///    log 2 stays symbolic and cancels.
///  - sums are flat, like terms collected, constants first, terms in structural order (operator, symbols by
///    creation, arguments: it does not depend on how the expression was built).
///  - products are flat, equal bases collected, powers of numbers folded exactly, roots kept exact with prime
///    bases (128^(-1/2) = 1/16·2^(1/2)); Exp(a)·Exp(b) → Exp(a+b). Numbers are distributed over sums; other
///    products are not unless expand() is called, except in exponents: exp(c·(x − m)) = exp(c·x − c·m).
///    x − x = 0 and x·x⁻¹ = 1 over the reals; 0·x stays unless x is known to be finite.
///  - integer comparisons (both sides integer) are `0 <= e` or `e == 0` / `e != 0` with e's content (gcd)
///    divided out, e canonical. Comparisons of reals keep their sides, and not (a < b) of reals stays, since
///    b <= a differs for NaN.
///  - `not` is pushed to atoms; and/or are flat, sorted, without duplicates; formulas that mix them have one
///    form for each Boolean function of at most six atoms (rules_boolean.cc).
///  - Select: constant conditions folded; inside a branch the condition is known; a negated condition swaps
///    the branches. The polarity is kept that has −inf, inf, 0 or another number (in this order) in the else
///    branch, else the condition with the smaller canonical form. Select(a, Select(b, x, z), z) →
///    Select(a and b, x, z); constant factors leave where(c, k·x, 0) and, if positive, where(c, k·x, ±inf).
///  - Reduce sum: factors free of the bound axes move outside, factors where(c, x, 0) become one condition of
///    the body, conditions free of the axes move outside; nested sums over independent axes merge; bound axes
///    are sorted.
///  - Reduce max/min: a provably positive factor made of numbers, sizes and params and an addend free of the
///    axes move outside, conditions as for sums.
///  - FloorDiv/Mod of sums: multiples of a constant divisor move out.
Expr simplify(Expr e);

/// Products distributed over sums, integer powers of sums multiplied out, sums over axes split by terms, then
/// simplify().
Expr expand(Expr e);

/// True when a − b expands to zero, over a common denominator and in each case of its selections (at most six
/// conditions deep). Over the reals, where both are defined.
bool provably_equal(Expr a, Expr b);

/// A closed interval; lo > hi never occurs.
struct Interval {
  double lo = -__builtin_inf(), hi = __builtin_inf();
};
using Ranges = std::map<Sym, Interval>;

/// Bounds of `e` given ranges of symbols. Index symbols default to [0, +inf), sizes to [0, +inf), positive
/// symbols to (0, +inf). Tensor reads default to all reals (ranges may hold a tensor's symbol). u − reduce
/// max u <= 0 and the like are known, also with a positive factor and, inside Select(c, …), with a maximum of
/// where(c, u, −inf).
Interval bounds(Expr e, const Ranges& ranges = {});
bool provably_positive(Expr e);     ///< > 0
bool provably_nonnegative(Expr e);  ///< >= 0
bool is_integer(Expr e);            ///< integer-valued by its symbols
bool is_boolean(Expr e);            ///< comparison or connective (or true/false constants)

/// d e / d s, simplified; nullopt where e is not differentiable by rule (floor, comparisons over s …).
std::optional<Expr> derivative(Expr e, Sym s);

/// Coefficients of `e` as an affine function of `vars` (any expression free of vars may be a coefficient): e
/// = Σ c_k·vars_k + rest.
struct Affine {
  std::vector<Expr> coefficient;  ///< one for each of vars, simplified
  Expr rest;
};
std::optional<Affine> affine(Expr e, const std::vector<Sym>& vars);

/// Values of symbols for evaluation.
using Bindings = std::map<Sym, double>;
/// Element of tensor or tile `sym` at integer indices.
using Reader = std::function<double(Sym, const std::vector<int64_t>&)>;

/// Value in f64. Every free symbol must be bound (InternalError otherwise); reads go through `reader`; Reduce
/// nodes iterate over their axes' sizes (the Size symbols must be bound). Cast rounds. For speed-critical
/// evaluation use reference/reference.h or tile/interpreter.h.
double evaluate(Expr e, const Bindings& values, const Reader& reader = {});
/// Exact 64-bit value of an integer expression (sizes, costs, RangeSum by floor-sum where affine, else by
/// iteration). Throws UserError "size overflows 64 bits" on overflow.
int64_t evaluate_integer(Expr e, const std::map<Sym, int64_t>& values);

}  // namespace tilewright
