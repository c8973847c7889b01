// What can fail as a program runs, an integer divided by zero and an index outside its tensor: where it can happen and where it was written.
#pragma once
#include <vector>

#include "tilewright/expr/simplify.h"
#include "tilewright/program/program.h"

namespace tilewright {

/// A quotient or remainder of integers whose divisor is not proved to differ from 0.
struct ZeroDivision {
  Expr division;
  Expr condition;  ///< holds where the quotient is needed and its divisor is 0
};
/// Those of `e`, without repetition. Branches that are not taken need nothing, nor do operands of a connective that its other operands decide.
/// `ranges`: of symbols, and of the elements of tensors and tiles.
std::vector<ZeroDivision> zero_divisions(Expr e, const Ranges& ranges = {});

/// The error that `division` is one by zero, at the place where it was written: the quotient or remainder of the program that names most of the
/// same tensors and symbols. `division` may read tiles that are called like tensors.
UserError division_by_zero(const Program& p, Expr division);

/// The error that `index` is not one of the `size` indices along an axis of a tensor: where the tensor is read at something else than its own axes,
/// if the program does so in one place; else at its declaration.
UserError index_outside(const Program& p, Sym tensor, Sym axis, int64_t index, int64_t size);

/// Throws the error of a division where evaluating `e` with these values divides by zero.
void refuse_zero_divisors(const Program& p, Expr e, const Bindings& values);

}  // namespace tilewright
