// Computing groups that take turns at the units of a core, by the clocks of the model.
#pragma once
#include <string>
#include <vector>

#include "tilewright/model/predict.h"

namespace tilewright::explain {

/// One statement of one group on one unit.
struct Turn {
  std::string unit;  ///< "load", "matrix", "special", "vector"
  int group = 0;     ///< of computing groups; −1: the loading role
  int chunk = 0;
  size_t line = 0;  ///< of the clock budget
  double begin = 0, end = 0;
};

struct Overlap {
  std::vector<Turn> turns;
  int groups = 1, chunks = 0;
  double clocks = 0;        ///< until the last chunk is done
  double chunk_clocks = 0;  ///< from chunk to chunk of all groups, in the steady state
  double serial = 0;        ///< of one chunk of all groups where nothing overlaps
  std::vector<std::string> units;
  double busy(const std::string& unit) const;  ///< share of the steady state
};

/// Each group runs the statements of a chunk in order, a unit serves one group at a time, and `ahead` chunks may be loaded before they are used. Greedy: the
/// group that can begin first does. nullopt where no statement has a rate.
std::optional<Overlap> overlap(const ClockBudget& budget, int groups, int ahead, int chunks);

/// A chart in characters: a line for each unit, `width` columns of time, groups as letters.
std::string chart(const Overlap& o, size_t width);
/// The same as SVG, in the colours of diagrams.
std::string chart_svg(const Overlap& o, const ClockBudget& budget);

}  // namespace tilewright::explain
