// What every picture must keep to.
#pragma once
#include "tilewright/diagram/layout.h"

namespace tilewright::testing {

/// Empty where no text overlaps another, no box another box, no text a box that it does not lie in, where every wire begins and ends at a
/// port and all lies inside the picture; else the first breach of each kind.
std::string breaches(const Picture& p);

}  // namespace tilewright::testing
