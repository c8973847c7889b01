// What a drawing of a program and one of a kernel share once their boxes and arrays are known.
#pragma once
#include "tilewright/diagram/diagram.h"

namespace tilewright {

/// Is the axis among them?
bool holds(const std::vector<Sym>& axes, Sym axis);
/// Number of the wire of `axis` in an array; -1 where it has none.
int wire_of(const DiagramArray& a, Sym axis);

/// Puts the wires of every array in an order that lets them run straight: what a contraction sums lies beside its other
/// factor, what enters a shape lies below what passes beside it. Boxes stand in an order in which they can run.
void order_wires(Diagram& d);

/// Columns by the longest path to each box; then what is needed late and given by sources alone moves right, and
/// sources stand before the first box that reads them. Boxes in `fixed` keep theirs (by index; may be empty).
void assign_columns(Diagram& d);

/// Boxes that read each array, in order.
std::vector<std::vector<int>> readers_of(const Diagram& d);

}  // namespace tilewright
