// A row for products that have none: one query against many keys, as matrix units take it.
#pragma once
#include <optional>

#include "tilewright/plan/plan.h"

namespace tilewright {

/// Where no axis of the results is left to be the rows of tiles, and what is streamed has features in 16 bits, a GPU multiplies by threads what its matrix units would multiply faster than
/// it arrives. The program with an axis of one element behind the last single axis of the results: Q[b, h, d] becomes Q[b, (h row), d], and so do all inputs but those that rows share (what is
/// streamed with features), every definition that depends on one of them, and the outputs. Arrays lie in memory as before. nullopt: it has rows, or moves nothing but rows, or has no such
/// axis, or is wider.
std::optional<Program> with_unit_row(const Program& elaborated, const Derivation& d);

}  // namespace tilewright
