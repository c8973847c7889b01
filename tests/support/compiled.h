// From program text to a tile program and back to numbers, for tests.
#pragma once
#include "tests/support/test_array.h"
#include "tilewright/model/cost.h"

namespace tilewright::testing {

struct Compiled {
  Program parsed, program;  ///< as written; elaborated
  Derivation derivation;
  Plan plan;
  TileProgram tiles;
};

/// `schedule` over the default plan of the CUDA target, for `gpu`; empty: the default plan that has no guard.
Compiled compile(const std::string& text, const std::string& schedule = {}, Target target = Target::Cuda,
                 const Machine& gpu = sm90());
Compiled compile_file(const std::string& path, const std::string& schedule = {},
                      const Overrides& overrides = {}, Target target = Target::Cuda,
                      const Machine& gpu = sm90());

struct Arrays {
  std::map<std::string, TestArray> inputs;
  std::map<std::string, double> params;
  std::map<std::string, ArrayView> views() const;
};
/// Seeded normal inputs; integer inputs lie in their declared range (or 0, 1).
Arrays random_inputs(const Program& p, const Sizes& sizes, unsigned seed);
/// Sizes by axis name; literal axes keep theirs.
Sizes sizes_of(const Program& p, const std::map<std::string, int64_t>& values);

struct Outcome {
  Counts counts;
  std::map<std::string, TestArray> outputs;
};
Outcome run_tiles(const Compiled& c, const Sizes& sizes, const Arrays& arrays);

/// The rule of `check`: max|out − ref| <= 2·max|naive − ref| + atol over finite elements, with atol =
/// 2·max|(ref + 0.3 − 0.3) − ref| in the output's dtype; non-finite values agree in kind and place. An empty
/// text when it holds.
std::string disagreement(const Compiled& c, const Sizes& sizes, const Arrays& arrays, const Outcome& outcome,
                         double slack = 1);

/// What was counted equals the formulas; an empty text when it does. `some`: formulas over what has no value, as bounds that a step in front finds, are passed over.
std::string miscount(const Cost& formula, const Sizes& values, const Counts& counts, bool some = false);
std::string miscount(const Compiled& c, const Sizes& sizes, const Arrays& arrays, const Counts& counts);

}  // namespace tilewright::testing
