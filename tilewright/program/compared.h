// Values that are compared with themselves: an element with the maximum of its row, with the element at another index.
//
// `Z[i, j] == max[j](Z[i, j])` holds somewhere in each row, whatever Z is. A kernel that forms Z twice, once for the maximum and once for the comparison, with
// other roundings each time, finds it nowhere. So what is compared is rounded in one place, as if it were written `f32(…)`: such a cast is a value of its own from
// here on, which no rule takes apart (derive/expressions.h), whose operations are the same wherever it is formed (tile/machine_form.h), and none of whose products
// joins a sum in one instruction (emit/c_expr.h).
#pragma once
#include <functional>

#include "tilewright/program/program.h"

namespace tilewright {

/// The dtype of the reals of a program: f64 where an input is f64, else f32.
DType real_dtype(const Program& p);
/// A real rounded to the reals of the program and kept as it is: a cast to f32 or f64.
bool is_whole(Expr e);
/// `e` whole, branch by branch of a selection; what is no arithmetic (an element of an array, a number, an integer, an extremum of whole values) is so already.
Expr whole(Expr e, DType real);

/// rewrite(e, f) that leaves whole values as they are.
Expr outside_whole_values(Expr e, const std::function<Expr(Expr)>& f);

/// The elaborated program with whole values
///  - in Argmax and Argmin, but of a·u + b with reductions a and b over the same axis, whose place is that of u,
///  - in Max, Min and Topk, and in what a comparison sets beside them, where both are made of the same definition or written alike,
///  - on both sides of a comparison of a definition, or of what is written alike, at different indices.
/// Elsewhere the definitions and expressions concerned are the same whole values.
Program with_compared_values_whole(Program elaborated);

}  // namespace tilewright
