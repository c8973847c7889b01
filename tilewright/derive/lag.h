// Inside of derive/ only: may a point lag behind its running value?
#pragma once
#include "tilewright/derive/state.h"

namespace tilewright::derivation {

/// Sets may_lag and speculative of the points. A maximum may lag when everything that is read at the end, and every later pass, is the same
/// for any ρ in its place: then its reduction stands for ρ.
void mark_lag(Derivation& d);

}  // namespace tilewright::derivation
