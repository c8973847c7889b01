// What integers of a program may become, found from its arrays before it runs on the host.
#pragma once
#include "tilewright/driver/kernel.h"

namespace tilewright {

/// Integers are carried in f64 and in 64 bits: all of at most 2^53 are exact in both.
constexpr int64_t exact_integer = int64_t{1} << 53;

/// Does the program compute with elements of integer arrays? What is only compared or used as an index does not count.
bool computes_with_integers(const Program& p);

/// UserError, at the definition, where an integer on the way (a sum, a product, a power) may pass 2^53 in magnitude with these arrays, sizes and
/// params, so that it might be rounded. Every integer of a definition is bounded from what its arrays hold: where their dtypes do not prove it
/// small, each is read once for its least and greatest element and the sum of its magnitudes. What has no bound (a cast of reals, a maximum over nothing) is not followed. The arrays lie on
/// the host.
void refuse_inexact_integers(const Program& p, const std::map<Sym, Tensor>& tensors, const Sizes& sizes,
                             const std::map<std::string, double>& params);

}  // namespace tilewright
