#include "tilewright/search/rank.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "tilewright/search/cpu_time.h"

namespace tilewright {

namespace {

/// The formulas of a family, and what a plan of it takes.
struct Priced {
  TileProgram tiles;
  Model model;
  Expr held;  ///< M
  std::optional<CpuTimer> cpu;
  std::optional<Sampler> sampler;  ///< of a GPU
  struct Visited {
    Sym plain, masked, elements, all;  ///< of one loop: chunks and elements as symbols
  };
  std::vector<Visited> visited;

  Priced(const Program& p, const Derivation& d, const Plan& plan, const MachineFile& machine)
      : tiles(build_tiles(p, d, plan)) {
    // As model_of does, without the closed forms, which no price needs.
    model.program = &p;
    model.tiles = &tiles;
    model.symbols = tile_symbols(p, tiles);
    model.exact = cost(p, tiles, model.symbols, false);
    model.smooth = cost(p, tiles, model.symbols, true);
    model.operations = operations(tiles, model.symbols);
    model.visits = visits(p, tiles, model.symbols);
    model.blocks = blocks(p, tiles, model.symbols);
    held = machine.gpu ? model.exact.peak_shared : peak_of_block(tiles, model.symbols);
    if (!machine.gpu) {
      cpu.emplace(model, machine);
      return;
    }
    // Exact sums over blocks would be evaluated for every resource of every plan: chunks, from samples, are symbols instead, and transfers smooth.
    sampler.emplace(tiles, model.symbols);
    const auto symbol = [](const char* name) {
      return Sym::fresh({.name = name, .kind = SymbolKind::Variable, .integer = true, .nonnegative = true});
    };
    for (Visits& v : model.visits) {
      visited.push_back({symbol("plain"), symbol("masked"), symbol("elements"), symbol("all")});
      v.plain = visited.back().plain;
      v.masked = visited.back().masked;
      const auto share = model.symbols.visited.find(v.loop);
      if (share == model.symbols.visited.end()) continue;
      const Expr ratio = Expr(visited.back().elements) / Expr(visited.back().all);
      for (LevelCost* level : {&model.smooth.memory, &model.smooth.shared})
        for (Expr* e : {&level->loaded, &level->stored}) *e = substitute(*e, {{share->second, ratio}});
    }
    if (!model.symbols.visited.empty())  // a symbol without a value: the smooth formula is taken
      for (LevelCost* level : {&model.exact.memory, &model.exact.shared})
        level->loaded = level->stored = symbol("exact");
  }
  Priced(const Priced&) = delete;

  /// Bytes: exact where nothing is masked.
  static double moved(Expr exact, Expr smooth, const Integers& values) {
    if (const auto n = value_of(exact, values)) return *n;
    Bindings numbers;
    for (const auto& [sym, n] : values) numbers[sym] = double(n);
    for (Sym s : free_symbols(smooth))
      if (!numbers.count(s)) return 0;
    return evaluate(smooth, numbers);
  }

  void price(RankedPlan& x, const MachineFile& machine, Integers& values) const {
    if (cpu) {
      const CpuTime t = cpu->of(values);
      x.seconds = t.seconds;
      x.bound_by = t.bound_by;
      x.transfers = t.transfers;
      x.terms = t.terms;
      return;
    }
    Bindings numbers;
    for (const auto& [sym, n] : values) numbers[sym] = double(n);
    const std::vector<SampledVisits> chunks = sampler->visits(numbers);
    for (size_t n = 0; n < visited.size(); ++n) {
      values[visited[n].plain] = std::llround(chunks[n].plain);
      values[visited[n].masked] = std::llround(chunks[n].masked);
      values[visited[n].elements] = std::llround(chunks[n].elements);
      values[visited[n].all] = std::max<int64_t>(1, std::llround(chunks[n].all));
    }
    const Prediction p = predict(model, machine, values);
    x.seconds = p.predicted;
    x.bound_by = p.bound_by;
    for (const ResourceTime& r : p.resources) x.terms.emplace_back(r.name, r.seconds);
    x.transfers = moved(model.exact.memory.loaded, model.smooth.memory.loaded, values) +
                  moved(model.exact.memory.stored, model.smooth.memory.stored, values);
  }
};

/// Sizes, widths and params as numbers, with the axes that the tile program adds.
Integers values_at(const Model& m, const Sizes& sizes) {
  Integers v = values_of(m, sizes);
  for (const Axis& a : m.tiles->axes)
    if (!v.count(a.index.size()) && a.size)
      if (const auto n = value_of(a.size, v)) v[a.index.size()] = int64_t(*n);
  return v;
}

double room_of(const MachineFile& machine) {
  const MemoryLevel* shared = machine.level("shared");
  if (!shared) return __builtin_inf();
  const MaybeFigure& room = shared->per_block ? shared->per_block : shared->capacity;
  return room ? room->value : __builtin_inf();
}

double peak(const Model& m, Expr held, const Integers& v) {
  Bindings b;
  for (const auto& [sym, n] : v) b[sym] = double(n);
  for (const auto& [loop, share] : m.symbols.visited) b[share] = 1;
  for (Sym s : free_symbols(held))
    if (!b.count(s)) return 0;
  return evaluate(held, b);
}

bool before(const RankedPlan& a, const RankedPlan& b) {
  if (a.seconds != b.seconds) return a.seconds < b.seconds;
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
    Integers values = values_at(m, sizes);
    for (bool more = true; more;) {
      std::vector<int64_t> numbers;
      for (size_t k = 0; k < f.dials.size(); ++k) numbers.push_back(f.dials[k].values[at[k]]);
      RankedPlan x;
      x.plan = with_values(f, numbers);
      for (size_t k = 0; k < f.dials.size(); ++k)
        if (auto it = m.symbols.block.find(f.dials[k].axis); it != m.symbols.block.end())
          values[it->second] = numbers[k];
      x.held = peak(m, priced->held, values);
      x.is_default = print(elaborated, x.plan) == as_text;
      if (x.held > room && !x.is_default) {
        ++r.too_large;
      } else {
        priced->price(x, machine, values);
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
