#include "tilewright/driver/ranked.h"

#include "tilewright/driver/launch.h"
#include "tilewright/driver/price.h"

namespace tilewright {

namespace {

/// Does the target's mapping take the plan?
bool mapped(const Compilation& c, const CompileOptions& o, const Plan& plan) {
  const Target target = o.target == Target::InterpMapped ? o.mapping : o.target;
  try {
    const TileProgram t = lower(c, plan);
    if (target != Target::Interp) lower_mapped(c, t, target, LayoutClass::Aligned);
    return true;
  } catch (const UserError&) {
    return false;
  }
}

}  // namespace

Sizes all_sizes(const CompiledProgram& c, const std::map<std::string, int64_t>& sizes) {
  Sizes all;
  for (const auto& [name, n] : sizes) all[c.program.axis(name)->index.size()] = n;
  all = nominal_sizes(c.program.axes, all);
  for (const Compilation& kernel : c.kernels) bind_added_axes(kernel.program.axes, all);
  return all;
}

std::vector<RankedKernel> rank_plans(const CompiledProgram& c, const CompileOptions& o,
                                     const MachineFile& machine, const Sizes& sizes, size_t best) {
  std::vector<RankedKernel> all;
  for (size_t k = 0; k < c.kernels.size(); ++k) {
    const Compilation& kernel = c.kernels[k];
    size_t chosen = 0;
    while (chosen + 1 < kernel.plans.size() && !kernel.plans[chosen].when.admits(sizes)) ++chosen;
    Ranking r = rank(kernel.elaborated, kernel.derivation, kernel.plans[chosen].plan, machine, sizes);
    for (size_t n = 0; n < r.plans.size() && n < best;) {
      if (r.plans[n].is_default || mapped(kernel, o, r.plans[n].plan)) {
        ++n;
        continue;
      }
      r.plans.erase(r.plans.begin() + int64_t(n));
      ++r.refused;
    }
    all.push_back({k, std::move(r)});
  }
  return all;
}

}  // namespace tilewright
