// Inside of derive/ only: sums, products and conditions taken apart and put together.
#pragma once
#include <unordered_map>
#include <vector>

#include "tilewright/expr/simplify.h"

namespace tilewright::derivation {

Expr truth();  ///< the canonical true
bool is_true(Expr e);
bool is_false(Expr e);
Expr conjunction(Expr a, Expr b);  ///< simplified
Expr negation(Expr a);             ///< simplified
Expr minus_infinity();

/// Number of nodes when written out, without sharing (at most 2^40); a measure of how simple an expression is.
size_t complexity(Expr e);
/// Factors of a product, or the expression alone; terms of a sum, or the expression alone.
std::vector<Expr> factors_of(Expr e);
std::vector<Expr> addends_of(Expr e);
/// exp(a)·b == 0 where b == 0, likewise !=. Simplified.
Expr with_plain_zero_tests(Expr e);
/// Comparisons with −inf that the bounds of the other side decide. Simplified.
Expr with_decided_guards(Expr e);
/// Sums among the factors of `e` scaled so that their first term has the coefficient ±1: (4096x − s)² / 2²⁴ = (x − s/4096)². Not canonical.
Expr monic(Expr e);
/// Sums whose parts do not cancel (docs/derivation.md, "What does not cancel"): an addend that does not vary along the axis, and that holds an element
/// of an array, a param without a finite range or a large number, is kept with what varies, as f64(sum). The cast changes no value and keeps the
/// sum from being taken apart by simplify(); kernels are printed without it. Not inside of reductions, which are kept by themselves. What was
/// looked at once is remembered.
class KeptSums {
 public:
  /// `known`: bounds of tensors.
  explicit KeptSums(Sym axis, Ranges known = {}) : axis_(axis), ranges_(std::move(known)) {}
  Expr operator()(Expr e);

 private:
  struct Kind {
    bool result = false;   ///< holds a result of the cascade
    bool cancels = false;  ///< small and finite for sure
  };
  Kind kind(Expr e);
  bool stays(Expr addend);
  Expr not_multiplied_out(Expr product);

  Sym axis_;
  Ranges ranges_;
  std::unordered_map<Expr, Expr> known_;
  std::unordered_map<Expr, Kind> kinds_;
};
/// A sum kept so.
bool is_kept(Expr e);
Expr product_of(const std::vector<Expr>& factors);
Expr sum_of(const std::vector<Expr>& addends);

/// u = scale · v + offset with scale > 0 and both free of the streamed axis; null scale where it is not.
struct Proportion {
  Expr scale, offset;
  explicit operator bool() const { return bool(scale); }
};
Proportion proportion(Expr u, Expr v, Sym axis);
/// Is an extremum of v that of u with the factor taken off again, to the last bit? Of numbers, sizes and params alone, which tiles hold apart (tile/unscale.h), and no addend.
bool is_exact(const Proportion& p);

}  // namespace tilewright::derivation
