#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tilewright/map/cpu/operands.h"
#include "tilewright/model/pricing.h"
#include "tilewright/tile/statements.h"

namespace tilewright::pricing {

namespace {

// Clocks that emitted kernels take beside their operations (bench/notes.md).
constexpr double call_of_kernel =
    20;  // a call of the micro-kernel: accumulators read and written, its loop left
constexpr double accumulators = 10;        // independent sums that hide the latency of a multiply-add
constexpr double crossed_element = 1;      // an element of a copy across rows
constexpr double copied_vector = 2;        // a vector of a copy along rows: read and written
constexpr double start_of_pass = 40;       // a pass over a tile: its loops set up
constexpr double place_of_list = 3.5;      // an element past one place of a sorted list, in scalars
constexpr double depth_of_products = 128;  // of the products that `rates.products` is measured with
constexpr double seconds_of_task = 4e-7;   // a task taken from the pool, where no rate says it
constexpr double start_of_run =
    128;  // bytes of memory's time that a run of neighbouring elements costs beside its own, where no rate says it
constexpr double pages_at_hand = 64;    // whose addresses a core need not look up again
constexpr double piece_of_rate = 1024;  // bytes of a run that `rates.runs` is measured with
constexpr double share_of_cache = 0.5;  // of the last cache that what is read again may take

Machine vectors_of(const MachineFile& f) {
  Machine m = this_cpu();
  if (f.vector_bytes) m.vector.bytes = int(f.vector_bytes->value);
  if (f.vector_registers) m.vector.registers = int(f.vector_registers->value);
  m.vector.bf16 = Bf16Unit::None;
  return m;
}

/// The level into which tiles are read: the one next to the nearest memory that holds so many bytes in one unit.
const MemoryLevel* level_of_tiles(const MachineFile& machine, double held) {
  for (size_t k = machine.levels.size(); k-- > 1;)
    if (machine.levels[k - 1].capacity && held <= machine.levels[k - 1].capacity->value &&
        machine.levels[k].bandwidth)
      return &machine.levels[k];
  return nullptr;
}

/// Does a kernel read long rows once, multiply nothing and store along none of them? Each pass over a chunk then brings a part of the next one near.
bool reads_once(const TileProgram& t) {
  if (t.kernels.empty()) return false;
  const TileKernel& k = t.kernels[0];
  int loops = 0;
  bool others = false;
  for_each_stmt(k.body, [&](const Stmt& s) {
    others = others || std::get_if<Dot>(&s.node);
    const Loop* loop = std::get_if<Loop>(&s.node);
    if (!loop) return;
    loops += k.axis(loop->axis).kind == KernelAxis::Kind::Stream;
    for_each_stmt(loop->body, [&](const Stmt& inner) { others = others || std::get_if<Store>(&inner.node); });
  });
  return !others && loops == 1;
}

}  // namespace

Cpu::Cpu(const Model& m, const MachineFile& machine, Counting counting) : m_(m), domains_(m.core.domains) {
  const Machine cpu = vectors_of(machine);
  width_ = std::max(1, cpu.vector.bytes / 4);
  registers_ = cpu.vector.registers;
  // Where the clock is not known: two multiply-adds of a vector each.
  if (machine.clock)
    hertz_ = machine.clock->value;
  else if (machine.fma_f32)
    hertz_ = machine.fma_f32->value / machine.cores->value / (4 * width_);
  for (size_t n = 0; n < m.tiles->kernels.size(); ++n) {
    const TileKernel& k = m.tiles->kernels[n];
    const cpu::Lanes lanes = cpu::choose_lanes(k, cpu);
    const std::map<Sym, cpu::View> in_place = cpu::views_of(*m.tiles, k, lanes);
    for (const CoreStatement& s : m.core.all) {
      if (s.kernel != n) continue;
      if (const auto* x = std::get_if<Load>(&s.statement->node)) {
        if (!x->index.empty() && x->index.back().is(Op::Symbol))
          runs_[x->tensor] = {&k, x->index.back()->sym};
        if (in_place.count(x->tile)) continue;
        const Tile& tile = k.tile(x->tile);
        const auto fastest = lanes.fastest.find(x->tile);
        const bool along = x->index.empty() || fastest == lanes.fastest.end() || !fastest->second ||
                           depends_on(x->index.back(), fastest->second);
        copies_.push_back({domain_of({n, s.loop, tile.axes}), along, !s.terms.empty()});
      } else if (const auto* d = std::get_if<Dot>(&s.statement->node)) {
        Product& p = products_[s.statement];
        if (const auto axes = cpu::product_axes(lanes, k, *d)) p = {axes->lane, axes->row, axes->inner};
      }
    }
  }
  read_once_ = reads_once(*m.tiles);
  if (counting == Counting::Exact)
    for (const CoreDomain& d : domains_)
      exact_.push_back(
          clipped_elements(*m.program, *m.tiles, m.symbols, d.kernel, d.loop, d.axes, d.plain, d.masked));
}

size_t Cpu::domain_of(const CoreDomain& d) {
  const auto known = std::find(domains_.begin(), domains_.end(), d);
  if (known != domains_.end()) return size_t(known - domains_.begin());
  domains_.push_back(d);
  return domains_.size() - 1;
}

double Cpu::elements(const Counted& c, size_t domain) const {
  if (!exact_.empty())
    if (const auto n = c.value(exact_[domain])) return *n;
  const CoreDomain& d = domains_[domain];
  return c.times(d.kernel, d.loop, d.plain, d.masked) * c.elements(m_.tiles->kernels[d.kernel], d.axes);
}

/// Bytes of a block's tiles that lie inside arrays, at the widths that a CPU holds them in.
double Cpu::held_by_block(const Counted& c) const {
  Integers here = c.values();
  for (const auto& [axis, sym] : m_.symbols.block)
    here[sym] = std::max<int64_t>(1, std::min(here.at(sym), int64_t(c.length(axis))));
  for (const auto& [axis, sym] : m_.symbols.piece)
    here[sym] = std::min(here.at(sym), here.at(m_.symbols.block.at(axis)));
  for (const auto& [dtype, sym] : m_.symbols.width) here[sym] = std::max<int64_t>(4, bytes(dtype));
  return c.value(m_.held, here).value_or(0);
}

/// Arrays cross memory once where what is read again lies in the last cache meanwhile, else each time.
void Cpu::memory(Sheet& sheet) const {
  const Counted& c = sheet.counted;
  const MachineFile& machine = sheet.machine;
  const double cores = machine.cores->value, stored = c.stored();
  const MemoryLevel* last = machine.levels.size() > 1 ? &machine.levels[1] : nullptr;
  if (!last) return;
  const double room =
      last->role == "cache" && last->capacity ? share_of_cache * last->capacity->value : __builtin_inf();
  const TileKernel& k = m_.tiles->kernels[0];
  double moved = stored, runs = 0;
  for (size_t n = 0; n < m_.smooth.loaded_by_tensor.size(); ++n) {
    const auto& [tensor, smooth] = m_.smooth.loaded_by_tensor[n];
    const double loaded = c.bytes(m_.exact.loaded_by_tensor[n].second, smooth).value_or(0);
    const Input* in = m_.program->input(tensor);
    if (!in) {
      moved += loaded;
      continue;
    }
    // Between two reads of an element lies what the blocks around the innermost grid axis that the array lacks read of it; of an array with all of them a block's own part.
    const std::vector<Sym> axes = in->axes();
    size_t outside = k.grid.size();
    for (size_t g = k.grid.size(); g-- > 0 && outside == k.grid.size();)
      if (std::find(axes.begin(), axes.end(), k.grid[g].index) == axes.end()) outside = g;
    double once = double(bytes(in->dtype)), slice = once;
    for (Sym a : axes) {
      const bool fixed = std::any_of(k.grid.begin(), k.grid.begin() + int64_t(outside),
                                     [&](const KernelAxis& g) { return g.index == a; });
      once *= c.length(a);
      slice *= fixed ? c.extent(k, a) : c.length(a);
    }
    const double crosses = slice * cores <= room ? std::min(once, loaded) : loaded;
    moved += crosses;
    if (const auto run = runs_.find(tensor); run != runs_.end()) {
      const auto& [kernel, axis] = run->second;
      const double length = c.extent(*kernel, axis);
      // A row of the stream goes on in the next chunk, unless there are many rows.
      double rows = 1;
      for (Sym a : axes) rows *= a == axis ? 1 : c.extent(*kernel, a);
      const bool goes_on = kernel->axis(axis).kind == KernelAxis::Kind::Stream && rows <= pages_at_hand;
      if (length < c.length(axis) && !goes_on) runs += crosses / (length * double(bytes(in->dtype)));
    }
  }
  using Kind = ResourceTime::Kind;
  const auto crossing = [&](const MemoryLevel& from, const MemoryLevel& to, double amount) {
    ResourceTime& r = sheet.add(fmt::format("{} -> {}", from.name, to.name), amount, "bytes", to.bandwidth,
                                fmt::format("levels.{}.bandwidth", to.name), Kind::Transfer);
    // What is written costs more than what is read where lines are fetched before they are written.
    if (to.writes && r.rate > 0)
      r.seconds = (amount - stored) / to.bandwidth->value + stored / to.writes->value;
  };
  crossing(machine.levels[0], *last, moved);
  if (runs > 0 && machine.runs && last->bandwidth) {
    const double each = 1 / machine.runs->value - piece_of_rate / last->bandwidth->value;
    if (each > 0)
      sheet.add("runs of neighbours", runs, "runs", Figure{1 / each, machine.runs->source}, "rates.runs",
                Kind::Transfer);
  } else if (runs > 0) {
    sheet.add("runs of neighbours", runs, "runs", last->bandwidth,
              fmt::format("levels.{}.bandwidth", last->name), Kind::Transfer, 1 / start_of_run);
  }
  for (size_t n = 2; n < machine.levels.size(); ++n)
    if (machine.levels[n].role == "shared")
      crossing(machine.levels[n - 1], machine.levels[n], c.loaded() + stored);
}

/// Whole vectors of lanes; fewer independent sums than hide a multiply-add's latency, or more loads than multiply-adds, keep the units waiting.
void Cpu::products(Sheet& sheet, const std::vector<double>& elements) const {
  const Counted& c = sheet.counted;
  double products = 0, taken = 0, calls = 0;
  for (const CoreStatement& s : m_.core.all) {
    const auto it = products_.find(s.statement);
    if (it == products_.end()) continue;
    const TileKernel& k = m_.tiles->kernels[s.kernel];
    const Product& p = it->second;
    double amount = 0;
    for (const CoreTerm& t : s.terms)
      if (t.work == CoreWork::Products) amount += t.each * elements[t.domain];
    products += amount;
    if (!p.lane) {
      taken += amount;  // lanes run along the sum
      continue;
    }
    const double lane = c.extent(k, p.lane), row = p.row ? c.extent(k, p.row) : 1,
                 inner = p.inner ? c.extent(k, p.inner) : 1;
    const int vectors =
        cpu::vectors_of_panel(std::max<int64_t>(1, int64_t(lane)), width_, registers_, row > 1);
    const double rows = std::min<double>(row, cpu::rows_of_product(vectors, registers_));
    const double padding = std::ceil(lane / width_) * width_ / lane, sums = vectors * rows;
    taken += amount * padding * std::max({1.0, (vectors + rows) / sums, accumulators / sums});
    // The measured rate has calls in it.
    const double measured = sheet.machine.products ? 1 / depth_of_products : 0;
    calls += amount * padding / (sums * width_) * std::max(0.0, 1 / std::max(1.0, inner) - measured);
  }
  sheet.prediction.operations = 2 * products;
  if (products <= 0) return;
  const MachineFile& machine = sheet.machine;
  ResourceTime& r = sheet.add("multiply-adds of products", products, "multiply-adds",
                              machine.products ? machine.products : machine.fma_f32, "rates.fma_f32",
                              ResourceTime::Kind::Compute, 0.5);
  r.seconds *= taken / products;
  const MaybeFigure clocks =
      hertz_ > 0 ? MaybeFigure(Figure{hertz_ * machine.cores->value, "derived"}) : MaybeFigure();
  if (calls > 0)
    sheet.add("calls of products", calls, "calls", clocks, "rates.fma_f32", ResourceTime::Kind::Compute,
              1 / call_of_kernel);
}

void Cpu::price(Sheet& sheet) const {
  using Kind = ResourceTime::Kind;
  const MachineFile& machine = sheet.machine;
  const Counted& c = sheet.counted;
  Prediction& p = sheet.prediction;
  std::vector<double> counts(domains_.size());
  for (size_t d = 0; d < domains_.size(); ++d) counts[d] = elements(c, d);
  double amounts[kinds_of_core_work] = {};
  for (const CoreStatement& s : m_.core.all)
    for (const CoreTerm& t : s.terms) amounts[size_t(t.work)] += t.each * counts[t.domain];
  const auto amount = [&](CoreWork w) { return amounts[size_t(w)]; };

  memory(sheet);
  products(sheet, counts);
  const auto compute = [&](const char* what, double n, const char* unit, const MaybeFigure& rate,
                           const std::string& figure, double scale = 1) {
    if (n > 0) sheet.add(what, n, unit, rate, figure, Kind::Compute, scale);
  };
  const MaybeFigure clocks =
      hertz_ > 0 ? MaybeFigure(Figure{hertz_ * machine.cores->value, "derived"}) : MaybeFigure();
  compute("vector units", amount(CoreWork::Instructions), "instructions", machine.fma_f32, "rates.fma_f32",
          0.5);
  compute("exponentials", amount(CoreWork::Exponentials), "results", machine.special, "rates.special");
  compute("quotients", amount(CoreWork::Quotients), "results", machine.quotients, "rates.quotients");
  compute("tanh", amount(CoreWork::Tangents), "results", machine.tangents, "rates.tangents");
  compute("conversions", amount(CoreWork::Conversions), "elements", machine.conversions, "rates.conversions");
  compute("sorted lists", amount(CoreWork::Places), "places", clocks, "rates.fma_f32", 1 / place_of_list);
  compute("starts of passes", amount(CoreWork::Passes), "passes", clocks, "rates.fma_f32", 1 / start_of_pass);
  double crossed = 0, along = 0;
  for (const Copy& x : copies_) {
    const double n = counts[x.domain];
    if (!x.along)
      crossed += n;
    else if (!x.widened || !machine.conversions)
      along += n;
  }
  compute("copies of operands", along, "elements", clocks, "rates.fma_f32", width_ / copied_vector);
  compute("copies across rows", crossed, "elements", clocks, "rates.fma_f32", 1 / crossed_element);
  // Tiles come from the nearest level that holds all of a block's.
  if (const MemoryLevel* near_level = level_of_tiles(machine, held_by_block(c))) {
    const std::string figure = fmt::format("levels.{}.bandwidth", near_level->name);
    compute("tiles read", amount(CoreWork::Read), "bytes", near_level->bandwidth, figure);
    compute("tiles written", amount(CoreWork::Written), "bytes",
            near_level->writes ? near_level->writes : near_level->bandwidth, figure);
  }
  sheet.add("tasks", c.blocks(0), "tasks",
            machine.tasks ? machine.tasks
            : clocks      ? MaybeFigure(Figure{machine.cores->value / seconds_of_task, "derived"})
                          : MaybeFigure(),
            "rates.fma_f32", Kind::Wait);
  sheet.add(
      "launches", double(m_.tiles->kernels.size()), "kernels",
      machine.launch ? MaybeFigure(Figure{1 / machine.launch->value, machine.launch->source}) : MaybeFigure(),
      "transfers.launch", Kind::Launch);

  // A core waits for what it reads, and its units work for one statement at a time.
  double moving = 0, runs = 0;
  const ResourceTime* most[2] = {};
  for (const ResourceTime& r : p.resources) {
    if (r.kind == Kind::Transfer) {
      double& here = r.unit == "bytes" ? moving : runs;
      here = std::max(here, r.seconds);
    }
    if (r.kind != Kind::Transfer && r.kind != Kind::Compute) continue;
    p.overlapped = std::max(p.overlapped, r.seconds);
    const ResourceTime*& longest = most[r.kind == Kind::Compute];
    if (!longest || r.seconds > longest->seconds) longest = &r;
  }
  const double transfers = moving + runs, computing = sheet.sum(Kind::Compute);
  const ResourceTime* bound = most[computing > transfers];
  if (bound && bound->seconds > 0) p.bound_by = bound->name;
  p.groups = 1;
  const double others = sheet.sum(Kind::Wait) + sheet.sum(Kind::Launch);
  p.serial = transfers + computing + others;
  // Copies bring rows near ahead of their use, so that looking up pages goes on beside the work.
  p.predicted = (read_once_ ? std::max(transfers, computing) : moving + std::max(runs, computing)) + others;
  p.overlapped += sheet.sum(Kind::Launch);
}

}  // namespace tilewright::pricing
