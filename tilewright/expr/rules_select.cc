// Selection.
//
//   where(c, x, x) = x                         where(not c, x, y) = where(c, y, x)
//   where(a, where(b, x, z), z) = where(a and b, x, z), and the other three places of z
//   inside x, c and what it implies hold; inside y they do not
//   where(c, p, false) = c and p for conditions p
//   where(c, k·x, 0) = k·where(c, x, 0)        for k made of numbers, sizes and params that is finite where they are
//   where(c, k·x, ±inf) = k·where(c, x, ±inf)  for such k > 0
// Of the two polarities the one is kept whose else branch is -inf, inf, 0 or another number, in this order;
// else the one whose condition comes first: equations before inequations, inequalities with a positive
// leading coefficient, `and` before `or`.
#include <algorithm>
#include <cmath>

#include "tilewright/expr/canonical.h"

namespace tilewright::canonical {
namespace {

int rank(Expr e) {
  auto n = e.number();
  if (!n) return 4;
  if (std::isinf(*n)) return *n < 0 ? 0 : 1;
  return *n == 0 ? 2 : 3;
}

bool is_flag(Expr e) { return facts(e).boolean || e.is_constant(0) || e.is_constant(1); }

/// Finite wherever its symbols are: nothing is divided by what may be 0, nor is its logarithm taken.
bool finite_with_symbols(Expr e) {
  if (facts(e).finite || e.is(Op::Symbol)) return true;
  if (e.is(Op::Pow)) {
    const auto exponent = e.arg(1).number();
    if (!(exponent && *exponent > 0) && !provably_positive(e.arg(0))) return false;
  }
  if (e.is(Op::Log) && !provably_positive(e.arg(0))) return false;
  return std::all_of(e.args().begin(), e.args().end(), finite_with_symbols);
}

/// where(c, x, n) with the factors of x that may stand outside moved there.
Expr without_factors(Expr c, Expr x, Expr n) {
  const bool zero = n.is_constant(0);
  if (!zero && !(n.is(Op::Real) && std::isinf(n->real))) return make(Op::Select, {c, x, n});
  if (auto number = x.number(); number && (!zero || !std::isfinite(*number) || *number == 1))
    return make(Op::Select, {c, x, n});
  auto [content, base] = x.number() ? std::pair{*Number::of(x), Expr(1)} : primitive(x, zero);
  std::vector<Expr> outside, inside;
  for (Expr f : factors_of(base)) {
    bool moves = is_uniform(f) && finite_with_symbols(f) && (zero || provably_positive(f)) && !f.number();
    (moves ? outside : inside).push_back(f);
  }
  if (inside.empty() && !zero) return make(Op::Select, {c, x, n});
  if (!content.is(1)) outside.push_back(content.expr());
  if (outside.empty()) return make(Op::Select, {c, x, n});
  outside.push_back(where(c, mul(std::move(inside)), n));
  return mul(std::move(outside));
}

}  // namespace

Expr where(Expr c, Expr a, Expr b) {
  if (c.number()) return is_true(c) ? a : b;
  a = assuming(a, literals(c, true));
  b = assuming(b, literals(c, false));
  if (a == b) return a;
  if (is_flag(a) && is_flag(b) && (facts(a).boolean || facts(b).boolean)) {
    if (is_false(b)) return conjunction({c, a});
    if (is_true(a)) return disjunction({c, b});
    Expr other = negation(c);
    if (is_false(a)) return conjunction({other, b});
    if (is_true(b)) return disjunction({other, a});
    return disjunction({conjunction({c, a}), conjunction({other, b})});
  }
  if (a.is(Op::Select)) {
    if (a.arg(2) == b) return where(conjunction({c, a.arg(0)}), a.arg(1), b);
    if (a.arg(1) == b) return where(conjunction({c, negation(a.arg(0))}), a.arg(2), b);
  }
  if (b.is(Op::Select)) {
    if (b.arg(1) == a) return where(disjunction({c, b.arg(0)}), a, b.arg(2));
    if (b.arg(2) == a) return where(disjunction({c, negation(b.arg(0))}), a, b.arg(1));
  }
  Expr other = negation(c);
  if (rank(a) < rank(b) || (rank(a) == rank(b) && !preferred_polarity(c, other))) {
    std::swap(a, b);
    std::swap(c, other);
  }
  return without_factors(c, a, b);
}

}  // namespace tilewright::canonical
