// Inside of build_tiles: points kept without their scalar factor.
#pragma once
#include "tilewright/derive/state.h"

namespace tilewright {

/// The derivation with each exponential maximum or minimum of u = c·v, c a positive scalar, held as the extremum
/// of v: the point's u becomes v, its scale c, and every read of ρ or ρ' becomes c times the read of what is held.
/// max(c·v) = c·max(v), so every value stays what it was. What it gains: v − ρ is exact for the largest element,
/// however large it is, where c·v − c·ρ keeps the rounding of c·ρ (a row of scores near −1e30 would come out as
/// NaN), and the extremum of a chunk needs no product. Where u is a sum whose addends have factors of their own, c is log 2, so that the exponential is 2 to the power of v − ρ
/// without a product. Points that are compared with elements keep
/// their units, in which the elements are rounded.
Derivation points_without_scale(const Program& elaborated, Derivation d);

}  // namespace tilewright
