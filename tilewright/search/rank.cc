#include "tilewright/search/rank.h"

#include <algorithm>
#include <chrono>
#include <optional>

namespace tilewright {

namespace {

/// The formulas of a family, and what a plan of it takes.
struct Priced {
  TileProgram tiles;
  Model model;
  Predictor predictor;

  Priced(const Program& p, const Derivation& d, const Plan& plan, const MachineFile& machine)
      : tiles(build_tiles(p, d, plan)),
        model(model_of(p, tiles, machine.gpu ? Purpose::PriceOnGpu : Purpose::PriceOnCpu)),
        predictor(model, machine, Counting::Sampled) {}
  Priced(const Priced&) = delete;

  static void price(RankedPlan& x, const Prediction& p) {
    x.seconds = p.predicted;
    x.bound_by = p.bound_by;
    x.transfers = p.transfers;
    for (const ResourceTime& r : p.resources) x.terms.emplace_back(r.name, r.seconds);
  }
};

double room_of(const MachineFile& machine) {
  const MemoryLevel* shared = machine.level("shared");
  if (!shared) return __builtin_inf();
  const MaybeFigure& room = shared->per_block ? shared->per_block : shared->capacity;
  return room ? room->value : __builtin_inf();
}

bool before(const RankedPlan& a, const RankedPlan& b) {
  if (a.seconds != b.seconds) return a.seconds < b.seconds;
  if (a.is_default != b.is_default) return a.is_default;
  if (a.transfers != b.transfers) return a.transfers < b.transfers;
  return a.plan.chunk > b.plan.chunk;
}

}  // namespace

size_t Ranking::place_of_default() const {
  const auto it = std::find_if(plans.begin(), plans.end(), [](const RankedPlan& x) { return x.is_default; });
  return size_t(it - plans.begin());
}

Ranking rank(const Program& elaborated, const Derivation& d, const Plan& base, const MachineFile& machine,
             const Sizes& sizes) {
  const auto begin = std::chrono::steady_clock::now();
  Ranking r;
  const std::string as_text = print(elaborated, base);
  const double room = room_of(machine);
  for (const Family& f : families(elaborated, d, base, machine, sizes)) {
    std::vector<size_t> at(f.dials.size(), 0);
    std::optional<Priced> priced;
    size_t all = 1;
    for (const Dial& dial : f.dials) all *= dial.values.size();
    r.enumerated += all;
    if (all == 0) continue;
    try {
      priced.emplace(elaborated, d, f.plan, machine);
    } catch (const UserError&) {
      r.refused += all;
      continue;
    }
    ++r.families;
    const Model& m = priced->model;
    Integers values = values_of(m, sizes);
    for (bool more = true; more;) {
      std::vector<int64_t> numbers;
      for (size_t k = 0; k < f.dials.size(); ++k) numbers.push_back(f.dials[k].values[at[k]]);
      RankedPlan x;
      x.plan = with_values(f, numbers);
      for (size_t k = 0; k < f.dials.size(); ++k)
        if (auto it = m.symbols.block.find(f.dials[k].axis); it != m.symbols.block.end())
          values[it->second] = numbers[k];
      x.held = priced->predictor.held(values);
      x.is_default = x.plan.chunk == base.chunk && x.plan.group.size() == base.group.size() &&
                     print(elaborated, x.plan) == as_text;
      const Prediction p = priced->predictor.of(values);
      x.too_large = x.held > room || !p.occupancy.fits;
      r.too_large += x.too_large;
      if (!x.too_large || x.is_default) {
        priced->price(x, p);
        r.plans.push_back(std::move(x));
      }
      size_t k = 0;
      while (k < f.dials.size() && ++at[k] == f.dials[k].values.size()) at[k++] = 0;
      more = k < f.dials.size();
    }
  }
  std::stable_sort(r.plans.begin(), r.plans.end(), before);
  r.milliseconds =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  return r;
}

}  // namespace tilewright
