// A diagram drawn with characters, for a terminal.
#pragma once
#include "tilewright/diagram/layout.h"

namespace tilewright::explain {

/// At most about `columns` wide; what is wider continues below, as in a picture. Wires are lines, boxes their text between brackets, a softmax ▷, a sum of
/// products a bend that joins two wires. Lines end without spaces.
std::string sketch(const Diagram& d, size_t columns);

}  // namespace tilewright::explain
