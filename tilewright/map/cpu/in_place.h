// Copies that products need not wait for.
#pragma once
#include <map>

#include "tilewright/map/mapped.h"

namespace tilewright::cpu {

/// Elements that a product reads no more often than this are not worth a copy.
constexpr int few_uses = 16;

/// Sets Copy::in_place in one body where products alone read what is copied, as their lanes. `uses`: for such an operand how often its product reads each
/// element, over sizes.
void read_in_place(Ops& body, const std::map<Sym, Expr>& uses);

}  // namespace tilewright::cpu
