// Wrong repairs and merges of a state, each of which every check must reject.
#pragma once
#include <string>
#include <vector>

#include "tilewright/derive/state.h"

namespace tilewright::testing {

using Copies = std::vector<std::pair<Sym, Sym>>;

/// Reads at the point's own axes.
Expr own(const Point& p, Sym var);
/// `e` with reads of tiles renamed.
Expr renamed(Expr e, const Copies& names);

/// A state with a wrong repair, or a list ranked by a function that falls.
struct Mutant {
  std::string what;
  State state;
  size_t component = 0;
};
std::vector<Mutant> mutants(const State& s);

/// A wrong merge of a state.
struct MergeMutant {
  std::string what;
  Merging how;
};
/// Wrong merges of the components, of the points and of sorted lists.
std::vector<MergeMutant> merge_mutants(const State& s);

}  // namespace tilewright::testing
