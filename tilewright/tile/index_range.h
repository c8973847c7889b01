// Least and greatest values of integer expressions, as expressions.
#pragma once
#include <functional>
#include <optional>

#include "tilewright/expr/expr.h"

namespace tilewright {

struct IndexRange {
  Expr lo, hi;
};

/// Bounds of an integer expression over all values of its index symbols, each of which lies in
/// `range_of(symbol)`, as expressions over sizes, integer params and what range_of gives. Terms are bounded
/// one by one, so that bounds may be wide, never wrong. nullopt: not known (a tensor's element, a symbol
/// without a range, a divisor that is not a positive number).
std::optional<IndexRange> index_range(Expr e, const std::function<std::optional<IndexRange>(Sym)>& range_of);

}  // namespace tilewright
