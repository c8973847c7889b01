#include "tilewright/driver/ranked.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

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
  all = nominal_sizes(c.program.axes, Target::Cpu, all);
  for (const Compilation& kernel : c.kernels) bind_added_axes(kernel.program.axes, all);
  return all;
}

namespace {

Ranking rank_kernel(const Compilation& kernel, const CompileOptions& o, const MachineFile& machine,
                    const Sizes& sizes, size_t best) {
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
  return r;
}

}  // namespace

std::vector<RankedKernel> rank_plans(const CompiledProgram& c, const CompileOptions& o,
                                     const MachineFile& machine, const Sizes& sizes, size_t best) {
  std::vector<RankedKernel> all;
  for (size_t k = 0; k < c.kernels.size(); ++k)
    all.push_back({k, rank_kernel(c.kernels[k], o, machine, sizes, best)});
  return all;
}

double seconds_of(const std::vector<RankedKernel>& kernels) {
  double sum = 0;
  for (const RankedKernel& k : kernels)
    if (!k.ranking.plans.empty()) sum += k.ranking.plans[0].seconds;
  return sum;
}

std::vector<RankedCut> rank_cuts(const Program& p, const CompiledProgram& c,
                                 const std::vector<RankedKernel>& own, const CompileOptions& o,
                                 const MachineFile& machine, const std::map<std::string, int64_t>& sizes,
                                 size_t most, bool& complete) {
  size_t tried = 0;
  const auto named = [](const auto& list, const std::string& name) {
    return std::any_of(list.begin(), list.end(), [&](const auto& x) { return x.sym.name() == name; });
  };
  std::set<std::string> stored;
  for (const StoredArray& a : c.partition.arrays) stored.insert(a.definition.name());
  const auto kernels_of = [](const CompiledProgram& x) {
    std::vector<std::string> names;
    for (size_t k = 0; k < x.kernels.size(); ++k) names.push_back(x.name_of(k));
    return names;
  };
  std::vector<RankedCut> all;
  complete = true;
  for (Sym d : holding_reductions(elaborate_for(p, o))) {
    // Results are stored anyway, and what has no name cannot be asked for.
    if (named(p.outputs, d.name()) || !named(p.definitions, d.name())) continue;
    if (tried++ == most) {
      complete = false;
      break;
    }
    RankedCut cut;
    cut.clause = fmt::format("{} {}", stored.count(d.name()) ? "fuse" : "store", d.name());
    CompileOptions with = o;
    with.schedule = cut.clause + "\n";
    try {
      cut.program = compile_program(p, with);
    } catch (const UserError&) {
      continue;
    }
    if (kernels_of(cut.program) == kernels_of(c)) continue;
    const Sizes all_of = all_sizes(cut.program, sizes);
    for (size_t k = 0; k < cut.program.kernels.size(); ++k) {
      const Compilation& kernel = cut.program.kernels[k];
      // Most kernels of a program stay what they are.
      const auto same = std::find_if(own.begin(), own.end(), [&](const RankedKernel& x) {
        const Compilation& other = c.kernels[x.kernel];
        return print(other.program) == print(kernel.program) && !x.ranking.plans.empty();
      });
      if (same != own.end())
        cut.kernels.push_back({k, same->ranking});
      else
        cut.kernels.push_back({k, rank_kernel(kernel, with, machine, all_of, 1)});
    }
    if (std::any_of(cut.kernels.begin(), cut.kernels.end(),
                    [](const RankedKernel& k) { return k.ranking.plans.empty(); }))
      continue;
    cut.seconds = seconds_of(cut.kernels);
    all.push_back(std::move(cut));
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const RankedCut& a, const RankedCut& b) { return a.seconds < b.seconds; });
  return all;
}

}  // namespace tilewright
