// Inside of expr/ only: exact sums of floors, in O(log) steps.
#pragma once
#include "tilewright/expr/expr.h"

namespace tilewright {

using Wide = __int128;

/// Throws UserError "size overflows 64 bits".
[[noreturn]] void fail_size_overflow();
Wide wide_add(Wide a, Wide b);
Wide wide_mul(Wide a, Wide b);
Wide wide_floor_div(Wide a, Wide b);  ///< b != 0

/// Sums over 0 <= i < n of q(i) = floor((a·i + b)/m), m > 0, by the Euclidean recursion on (a, m).
struct FloorSums {
  Wide floors = 0;    ///< Σ q
  Wide weighted = 0;  ///< Σ i·q
  Wide squares = 0;   ///< Σ q²
};
/// Only `floors` unless `all`: the other two are larger and may overflow where it does not.
FloorSums floor_sums(Wide n, Wide a, Wide b, Wide m, bool all);

/// Σ i^p over 0 <= i < n, p <= 4.
Wide power_sum(Wide n, int p);

}  // namespace tilewright
