#include "tilewright/search/cpu_time.h"

#include <algorithm>
#include <cmath>

#include "tilewright/map/cpu/operands.h"
#include "tilewright/tile/statements.h"

namespace tilewright {

namespace {

// Clocks that emitted kernels take beside their operations (bench/notes.md).
constexpr double call_of_kernel =
    20;  // a call of the micro-kernel: accumulators read and written, its loop left
constexpr double accumulators = 10;       // independent sums that hide the latency of a multiply-add
constexpr double crossed_element = 1;     // an element of a copy across rows
constexpr double copied_vector = 2;       // a vector of a copy along rows: read, converted, written
constexpr double start_of_pass = 40;      // a pass over a tile: its loops set up
constexpr double seconds_of_task = 4e-7;  // a task taken from the pool
constexpr double start_of_run =
    128;  // bytes of memory's time that a run of neighbouring elements costs beside its own
constexpr double exposed = 0.3;  // share of slower memory that prefetching leaves to be waited for

Machine vectors_of(const MachineFile& f) {
  Machine m = this_cpu();
  if (f.vector_bytes) m.vector.bytes = int(f.vector_bytes->value);
  if (f.vector_registers) m.vector.registers = int(f.vector_registers->value);
  m.vector.bf16 = Bf16Unit::None;
  return m;
}

double bandwidth(const MachineFile& m, const char* level) {
  for (const MemoryLevel& l : m.levels)
    if (l.name == level && l.bandwidth) return l.bandwidth->value;
  return 0;
}

double capacity(const MachineFile& m, const char* level) {
  for (const MemoryLevel& l : m.levels)
    if (l.name == level && l.capacity) return l.capacity->value;
  return __builtin_inf();
}

/// Lengths and blocks of a kernel's axes at the numbers of one plan.
class Lengths {
 public:
  Lengths(const Model& m, const Bindings& values) : m_(m), values_(values) {}
  double of(Sym index) const {
    if (const auto it = values_.find(index.size()); it != values_.end()) return it->second;
    for (const Axis& a : m_.tiles->axes)
      if (a.index == index && a.baked()) return double(a.size.rational()->num());
    return 1;
  }
  double count(const KernelAxis& a) const { return count_of(m_.symbols, a, of(a.index), values_); }
  /// Elements in a block or chunk, on average.
  double extent(const TileKernel& k, Sym axis) const {
    const double n = of(axis);
    for (const auto* list : {&k.grid, &k.inner})
      for (const KernelAxis& a : *list)
        if (a.index == axis && a.kind != KernelAxis::Kind::Part) return n / std::max(1.0, count(a));
    return n;
  }
  double elements(const TileKernel& k, const std::vector<Sym>& axes) const {
    double n = 1;
    for (Sym a : axes) n *= extent(k, a);
    return n;
  }
  double blocks(const TileKernel& k) const {
    double n = 1;
    for (const KernelAxis& a : k.grid) n *= count(a);
    return n;
  }

 private:
  const Model& m_;
  const Bindings& values_;
};

}  // namespace

CpuTimer::CpuTimer(const Model& m, const MachineFile& machine)
    : m_(m), machine_(machine), sampler_(*m.tiles, m.symbols) {
  const Machine cpu = vectors_of(machine);
  width_ = std::max(1, cpu.vector.bytes / 4);
  // Two multiply-adds of a vector each clock.
  if (machine.fma_f32) hertz_ = machine.fma_f32->value / machine.cores->value / (4 * width_);
  size_t operation = 0;
  for (const TileKernel& k : m.tiles->kernels) {
    const cpu::Lanes lanes = cpu::choose_lanes(k, cpu);
    const std::map<Sym, cpu::View> in_place = cpu::views_of(*m.tiles, k, lanes);
    std::map<Sym, Sym> contiguous;  // tile -> the axis along which its array is contiguous
    const auto walk = [&](const auto& self, const Body& body, const Loop* loop) -> void {
      for (const Stmt& s : body) {
        if (const auto* inner = std::get_if<Loop>(&s.node)) {
          self(self, inner->body, inner);
        } else if (const auto* x = std::get_if<Load>(&s.node)) {
          if (!x->index.empty() && x->index.back().is(Op::Symbol))
            runs_[x->tensor] = {&k, x->index.back()->sym};
          if (in_place.count(x->tile)) continue;
          const Tile& tile = k.tile(x->tile);
          const auto fastest = lanes.fastest.find(x->tile);
          const bool along = x->index.empty() || fastest == lanes.fastest.end() || !fastest->second ||
                             depends_on(x->index.back(), fastest->second);
          copies_.push_back({&k, loop, tile.axes, along ? copied_vector / width_ : crossed_element});
        } else if (const auto* d = std::get_if<Dot>(&s.node)) {
          Product p{0, {}, {}, {}};
          if (const auto axes = cpu::product_axes(lanes, k, *d))
            p.lane = axes->lane, p.row = axes->row, p.inner = axes->inner;
          products_.push_back(p);
        } else if (std::get_if<Map>(&s.node) || std::get_if<Reduce>(&s.node)) {
          passes_.push_back({&k, loop, domain(k, s)});
        }
      }
    };
    walk(walk, k.body, nullptr);
    for (const Tile& tile : k.tiles) tiles_.emplace_back(&k, &tile);
  }
  // Products are listed in the order of the program.
  for (size_t n = 0; n < m.operations.size() && operation < products_.size(); ++n)
    if (m.operations[n].unit == Unit::Matrix) products_[operation++].operation = n;
}

CpuTime CpuTimer::of(const Integers& given) const {
  Bindings values;
  for (const auto& [sym, n] : given) values[sym] = double(n);
  const std::vector<SampledVisits> visits = sampler_.visits(values);
  const Lengths lengths(m_, values);
  const auto visits_of = [&](const Loop* loop) -> const SampledVisits* {
    for (size_t n = 0; n < m_.visits.size() && n < visits.size(); ++n)
      if (m_.visits[n].loop == loop) return &visits[n];
    return nullptr;
  };
  const auto times = [&](const TileKernel& k, const Loop* loop, bool plain = true, bool masked = true) {
    const SampledVisits* v = loop ? visits_of(loop) : nullptr;
    if (!v) return lengths.blocks(k);
    return (plain ? v->plain : 0) + (masked ? v->masked : 0);
  };
  // Loops of a CPU end where the arrays end: blocks count with the elements that they have on average, lanes with whole vectors.
  Bindings averages = values;
  for (const TileKernel& k : m_.tiles->kernels)
    for (const auto* list : {&k.grid, &k.inner})
      for (const KernelAxis& a : *list)
        if (auto it = m_.symbols.block.find(a.index);
            it != m_.symbols.block.end() && a.kind != KernelAxis::Kind::Part)
          averages[it->second] = lengths.extent(k, a.index);
  const double cores = machine_.cores->value, clocks = hertz_;  // of one core
  double products = 0, special = 0, vector = 0;
  size_t next = 0;
  for (size_t n = 0; n < m_.operations.size(); ++n) {
    const Operation& op = m_.operations[n];
    const TileKernel& k = m_.tiles->kernels[op.kernel];
    double amount = evaluate(op.each, averages) * times(k, op.loop, op.plain, op.masked);
    if (op.unit == Unit::Special) {
      special += amount;
    } else if (op.unit == Unit::Vector) {
      vector += amount;
    } else {
      const Product& p = products_[next++];
      double cycles = amount / (2.0 * width_);
      if (p.lane) {
        const double lane = lengths.extent(k, p.lane), row = p.row ? lengths.extent(k, p.row) : 1,
                     inner = p.inner ? lengths.extent(k, p.inner) : 1;
        const int registers = machine_.vector_registers ? int(machine_.vector_registers->value) : 16;
        const int vectors =
            cpu::vectors_of_panel(std::max<int64_t>(1, int64_t(lane)), width_, registers, row > 1);
        const double rows = std::min<double>(row, cpu::rows_of_product(vectors, registers));
        const double panels = std::ceil(lane / width_) * width_ / lane;
        const double sums = vectors * rows;
        cycles *= panels * std::max({1.0, (vectors + rows) / sums, accumulators / sums});
        cycles += amount * panels / (sums * width_ * std::max(1.0, inner)) * call_of_kernel;
      } else {
        cycles *= 2 * width_;
      }
      products += cycles;
    }
  }
  double copies = 0, passes = 0;
  for (const Copy& c : copies_)
    copies += c.cycles * lengths.elements(*c.kernel, c.axes) * times(*c.kernel, c.loop);
  for (const Pass& p : passes_)
    passes += (start_of_pass + lengths.elements(*p.kernel, p.axes) / width_) * times(*p.kernel, p.loop);
  passes += vector / (2.0 * width_);
  const double exponentials = machine_.special ? special * cores / machine_.special->value * clocks : 0;

  // Tiles that a nearer cache does not hold come from the next, once a chunk.
  double held = 0, moved = 0;
  for (const auto& [k, tile] : tiles_) {
    const double bytes = 4 * lengths.elements(*k, tile->axes);
    held += bytes;
    double most = 0;
    for (const SampledVisits& v : visits) most = std::max(most, v.plain + v.masked);
    moved += bytes * std::max(most, lengths.blocks(*k));
  }
  const double first = capacity(machine_, "L1"), second = capacity(machine_, "L2");
  double caches = 0;
  if (held > first && bandwidth(machine_, "L1") > 0) caches += exposed * moved / bandwidth(machine_, "L1");
  if (held > second / 2 && bandwidth(machine_, "L2") > 0) caches += moved / bandwidth(machine_, "L2");

  // Arrays: from memory once where what is read again lies in the last cache meanwhile, else each time.
  CpuTime t;
  double again = 0, starts = 0;
  Bindings smooth = values;
  // No block holds more than there is: a smooth formula of tiles longer than their axes would count less than an array once.
  for (const auto& [axis, block] : m_.symbols.block)
    if (const auto size = values.find(axis.size()); size != values.end() && smooth.count(block))
      smooth[block] = std::max(1.0, std::min(smooth.at(block), double(size->second)));
  for (size_t n = 0; n < m_.visits.size() && n < visits.size(); ++n)
    if (auto it = m_.symbols.visited.find(m_.visits[n].loop); it != m_.symbols.visited.end())
      smooth[it->second] = visits[n].all > 0 ? visits[n].elements / visits[n].all : 0;
  const auto number = [&](Expr e) {
    for (Sym s : free_symbols(e))
      if (!smooth.count(s)) return 0.0;
    return evaluate(e, smooth);
  };
  const double last = capacity(machine_, "L3");
  const TileKernel& k = m_.tiles->kernels[0];
  for (const auto& [tensor, formula] : m_.smooth.loaded_by_tensor) {
    const double loaded = number(formula);
    const Input* in = m_.program->input(tensor);
    double once = loaded, slice = 0;
    if (in) {
      once = slice = double(bytes(in->dtype));
      bool before = true;  // grid axes around the innermost one that the array lacks
      std::vector<Sym> fixed;
      size_t lacking = 0;
      const std::vector<Sym> axes = in->axes();
      for (size_t g = 0; g < k.grid.size(); ++g)
        if (std::find(axes.begin(), axes.end(), k.grid[g].index) == axes.end()) lacking = g;
      for (size_t g = 0; g < k.grid.size() && before; ++g) {
        if (g == lacking) before = false;
        if (before) fixed.push_back(k.grid[g].index);
      }
      for (Sym a : axes) {
        once *= lengths.of(a);
        slice *=
            std::find(fixed.begin(), fixed.end(), a) != fixed.end() ? lengths.extent(k, a) : lengths.of(a);
      }
      once = std::min(once, loaded);
    }
    const bool stays = slice * cores <= last / 2;
    t.transfers += stays ? once : loaded;
    if (const auto run = runs_.find(tensor); in && run != runs_.end()) {
      const double n = lengths.extent(*run->second.kernel, run->second.axis);
      if (n < lengths.of(run->second.axis))
        starts += (stays ? once : loaded) * start_of_run / (n * double(bytes(in->dtype)));
    }
    if (stays) again += loaded - once;
  }
  t.transfers += number(m_.smooth.memory.stored);
  const double memory =
      bandwidth(machine_, "L3") > 0 ? (t.transfers + starts) / bandwidth(machine_, "L3") : 0;
  if (bandwidth(machine_, "L2") > 0) caches += exposed * again / bandwidth(machine_, "L2");

  // Tasks on cores: the last round is not full, and the heaviest task under a mask may end last.
  const double tasks = lengths.blocks(k);
  double stretch = 1;
  if (tasks > 0) {
    stretch = std::ceil(tasks / cores) * cores / tasks;
    if (!m_.symbols.visited.empty()) stretch = std::max(1.0, 2 * cores / tasks);
  }
  const double launches = machine_.launch ? machine_.launch->value * double(m_.tiles->kernels.size()) : 0;
  const std::pair<const char*, double> terms[] = {{"products", products / clocks / cores * stretch},
                                                  {"exponentials", exponentials / clocks / cores * stretch},
                                                  {"passes over tiles", passes / clocks / cores * stretch},
                                                  {"copies of operands", copies / clocks / cores * stretch},
                                                  {"caches", caches * stretch},
                                                  {"tasks", tasks * seconds_of_task / cores}};
  double computing = 0, largest = 0;
  for (const auto& [what, seconds] : terms) {
    computing += seconds;
    if (seconds > largest) largest = seconds, t.bound_by = what;
    t.terms.emplace_back(what, seconds);
  }
  t.terms.emplace_back("memory", memory);
  if (memory > computing) t.bound_by = "memory";
  // What a core computes overlaps with what it waits for, but not wholly.
  t.seconds = std::max(memory, computing) + exposed * std::min(memory, computing) + launches;
  return t;
}

}  // namespace tilewright
