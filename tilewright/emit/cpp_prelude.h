// Helper functions of the emitted C++: vector types, loads and stores of every element type, functions on vectors, the micro-kernel of products. Only
// what a program uses is printed.
#pragma once
#include <set>
#include <string>

#include "tilewright/hardware/machine.h"
#include "tilewright/support/dtype.h"

namespace tilewright {

/// The helpers that `code` mentions, with those they need, in order. `real`: f32 or f64, in which the program computes.
std::string cpp_prelude(const std::string& code, const VectorUnit& unit, DType real);

/// What the helpers, their types and macros are called.
const std::set<std::string>& cpp_prelude_names();

/// Text of all helpers, in sections that begin with a line "//@ name name … [f32|f64]": what the section defines, and for which reals it is meant.
/// $V: lanes of a vector, $B: its bytes, $R: the real type, $M: the integer of its width, $IOTA: the lane numbers; $AWAY<n>, $LOWS<n>, $HIGHS<n>: lanes in
/// the order of shuffles.
extern const char* const cpp_prelude_text;
extern const char* const cpp_prelude_bf16_text;  ///< products of bf16 by pairs, behind the others

}  // namespace tilewright
