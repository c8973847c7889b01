// A kernel of a program with its tile program and model.
#pragma once
#include <memory>

#include "tilewright/driver/compiled.h"
#include "tilewright/model/predict.h"

namespace tilewright::explain {

/// Never moved: the model points at the rest.
struct Planned {
  Compilation compilation;
  Plan plan;
  TileProgram tiles;
  Model model;
  Planned(Compilation c, const Plan& p)
      : compilation(std::move(c)),
        plan(p),
        tiles(lower(compilation, plan)),
        model(model_of(compilation.elaborated, tiles)) {}
  Planned(const Planned&) = delete;
  Planned& operator=(const Planned&) = delete;
};

/// Values of everything in the model's formulas, with the sizes that are known.
Integers numbers(const Planned& k, const std::map<std::string, int64_t>& sizes);
/// Where a formula of tiles that divide what they cut gives another number at these sizes than the exact bytes: which is which. Else empty.
std::string where_tiles_divide(const Model& m, Expr smooth, const std::optional<double>& exact,
                               const Integers& values);

}  // namespace tilewright::explain
