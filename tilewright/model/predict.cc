#include "tilewright/model/predict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tilewright/model/pricing.h"
#include "tilewright/tile/statements.h"

namespace tilewright {

Model model_of(const Program& p, const TileProgram& t, Purpose purpose) {
  Model m;
  m.program = &p;
  m.tiles = &t;
  m.symbols = tile_symbols(p, t);
  const bool of_cpu = purpose == Purpose::PriceOnCpu;
  m.exact = transfers(p, t, m.symbols, false, !of_cpu);
  m.smooth = transfers(p, t, m.symbols, true, !of_cpu);
  const Peaks peak = peaks(t, m.symbols,
                           of_cpu                           ? Memories::Together
                           : purpose == Purpose::PriceOnGpu ? Memories::Apart
                                                            : Memories::All);
  m.exact.peak_shared = m.smooth.peak_shared = peak.shared;
  m.exact.peak_registers = m.smooth.peak_registers = peak.registers;
  m.held = peak.both;
  m.blocks = blocks(p, t, m.symbols);
  if (purpose == Purpose::Report) {
    m.visits = visits(p, t, m.symbols);
  } else {
    for (size_t n = 0; n < t.kernels.size(); ++n)
      for_each_stmt(t.kernels[n].body, [&](const Stmt& s) {
        if (const Loop* loop = std::get_if<Loop>(&s.node)) m.visits.push_back({loop, n, {}, {}, {}, {}});
      });
  }
  if (purpose != Purpose::PriceOnGpu) m.core = core_statements(p, t);
  if (!of_cpu) m.operations = operations(t, m.symbols);
  if (purpose != Purpose::Report) return m;
  m.problem = tile_problem(p, t, m.symbols, &m.why_no_form);
  if (m.problem) {
    m.form = canonical(*m.problem, false, &m.why_no_form);
    m.leading = canonical(*m.problem, true, m.form ? nullptr : &m.why_no_form);
  }
  return m;
}

Integers values_of(const Model& m, const Sizes& sizes) {
  Integers v = m.symbols.literal;
  for (const auto& [sym, n] : m.symbols.values) v[sym] = n;
  for (const auto& [sym, n] : sizes) v[sym] = n;
  // Axes of the tile program are those of the program and what it adds.
  for (const std::vector<Axis>* axes : {&m.program->axes, &m.tiles->axes})
    for (const Axis& a : *axes) {
      if (!a.size || v.count(a.index.size())) continue;
      if (const auto n = value_of(a.size, v)) v[a.index.size()] = int64_t(*n);
    }
  for (const Param& x : m.program->params)
    if (x.value && is_integer(Expr(x.sym)))
      if (const auto n = value_of(x.value, v)) v[x.sym] = int64_t(*n);
  return v;
}

std::optional<double> value_of(Expr e, const Integers& values) {
  for (Sym s : free_symbols(e))
    if (!values.count(s)) return std::nullopt;
  return double(evaluate_integer(e, values));
}

namespace {

/// The numbers that a formula depends on, in order; nullopt where one of them is not known.
template <class Number>
std::optional<std::vector<Number>> numbers_of(const std::vector<Sym>& symbols,
                                              const std::map<Sym, Number>& values) {
  std::vector<Number> numbers;
  for (Sym s : symbols) {
    const auto it = values.find(s);
    if (it == values.end()) return std::nullopt;
    numbers.push_back(it->second);
  }
  return numbers;
}

template <class Formulas, class Number, class Evaluate>
std::optional<double> known_value(Formulas& formulas, Expr e, const std::map<Sym, Number>& values,
                                  Evaluate evaluate) {
  auto at = formulas.find(e);
  if (at == formulas.end())
    at = formulas.emplace(e, typename Formulas::mapped_type{free_symbols(e), {}}).first;
  const auto numbers = numbers_of(at->second.depends_on, values);
  if (!numbers) return std::nullopt;
  const auto known = at->second.found.find(*numbers);
  if (known != at->second.found.end()) return known->second;
  return at->second.found[*numbers] = evaluate(e, values);
}

}  // namespace

std::optional<double> KnownValues::operator()(Expr e, const Integers& values) {
  return known_value(exact_, e, values,
                     [](Expr x, const Integers& v) { return double(evaluate_integer(x, v)); });
}

std::optional<double> KnownValues::operator()(Expr e, const Bindings& values) {
  return known_value(smooth_, e, values, [](Expr x, const Bindings& v) { return evaluate(x, v); });
}

bool complete(const Model& m, const Integers& values) {
  auto known = [&](Expr e) {
    for (Sym s : free_symbols(e))
      if (!values.count(s) && s.kind() != SymbolKind::Variable) return false;
    return true;
  };
  return known(m.exact.memory.loaded) && known(m.exact.memory.stored) && known(m.blocks[0]);
}

bool uses_matrix_unit(const MachineFile& machine, const Operation& op) {
  if (op.unit != Unit::Matrix || !machine.gpu) return false;
  const auto unit = machine.matrix.find(op.dtype);
  if (unit == machine.matrix.end()) return false;
  if (op.dtype != DType::f32) return true;
  return unit->second.rate && machine.fma_f32 &&
         unit->second.rate->value > matrix_products(op.dtype) * machine.fma_f32->value;
}

double matrix_products(DType operands) { return operands == DType::f32 ? 3 : 1; }

namespace {

/// Work of the heaviest block over that of the average one, from the chunks that blocks of the last grid axis visit.
double heaviest_share(const Model& m, const Counted& c) {
  const TileKernel& k = m.tiles->kernels[0];
  if (k.grid.empty()) return 1;
  for (const Visits& v : m.visits) {
    if (v.kernel != 0 || !m.symbols.visited.count(v.loop)) continue;
    const SampledVisits& n = *c.visits(v.loop);
    const auto chunk = m.symbols.block.find(v.loop->axis);
    if (!n.known || n.plain + n.masked <= 0 || chunk == m.symbols.block.end()) return 1;
    // No block visits more than the whole axis.
    const double average = (n.plain + n.masked) / c.blocks(0);
    double length = c.length(v.loop->axis);
    if (m.tiles->plan.split > 0) length = std::min(length, double(m.tiles->plan.split));
    const double most = std::ceil(length / double(c.values().at(chunk->second)));
    return std::max(1.0, most / average);
  }
  return 1;
}

/// Registers of 32 bits that the threads of a block have in use at once: those of the state, and of the largest other tile with its rounded form. Slow paths may take more.
double words_at_least(const Model& m, const Counted& c) {
  double most = 0;
  for (const TileKernel& k : m.tiles->kernels) {
    double states = 0, other = 0;
    for (const Tile& t : k.tiles) {
      if (t.level != Level::Registers) continue;
      double words = bytes(t.dtype) / 4.0;
      for (Sym axis : t.axes) {
        const auto block = m.symbols.block.find(axis);
        words *= double(block == m.symbols.block.end() ? k.axis(axis).block : c.values().at(block->second));
      }
      if (t.use == Tile::Use::State)
        states += words;
      else
        other = std::max(other, words);
    }
    most = std::max(most, states + 1.5 * other);
  }
  return most;
}

Occupancy occupancy_of(const Model& m, const MachineFile& machine, const Counted& c) {
  Occupancy o;
  const Plan& plan = m.tiles->plan;
  const MemoryLevel *s = machine.level("shared"), *r = machine.level("registers");
  double most = 1e9;
  auto limit = [&](double n, const char* what) {
    if (n < most) most = n, o.limit = what;
  };
  if (machine.gpu) {
    const double shared = c.value(m.exact.peak_shared).value_or(0),
                 registers = c.value(m.exact.peak_registers).value_or(0);
    if (s && s->capacity && shared > 0) limit(o.by_shared = s->capacity->value / shared, "shared memory");
    if (s && s->per_block && shared > s->per_block->value) o.fits = false;
    if (r && r->capacity && registers > 0)
      limit(o.by_registers = r->capacity->value / registers, "registers");
    if (machine.groups_per_core && machine.threads_per_group) {
      // A role's group is 128 threads: a warpgroup.
      const double groups =
          128.0 / machine.threads_per_group->value * std::max(1, plan.loaders + plan.computers);
      limit(o.by_threads = machine.groups_per_core->value / groups, "threads");
    }
    if (machine.blocks_per_core) limit(o.by_blocks = machine.blocks_per_core->value, "blocks");
    if (machine.registers_per_core && machine.registers_per_thread) {
      // Beside its tiles a thread has addresses and counters; a thread that loads has a few.
      constexpr double own = 40, of_loaders = 24, group = 128;
      const double threads = group * std::max(1, plan.computers);
      const double room =
          std::min(machine.registers_per_thread->value,
                   (machine.registers_per_core->value - of_loaders * group * plan.loaders) / threads);
      o.fits = o.fits && words_at_least(m, c) / threads + own <= room;
    }
    // Beside a loading role each computing one has as many registers as the file holds.
    if (plan.loaders > 0 && machine.registers_per_core) limit(1, "registers, which roles share out");
    o.fits = o.fits && most >= 1;
    o.blocks_per_core = std::max<int64_t>(1, most < 1e9 ? int64_t(most) : 1);
  } else {
    o.limit = "one task a core";
  }
  o.slots = int64_t(machine.cores->value) * o.blocks_per_core;
  o.blocks = int64_t(c.value(m.blocks[0]).value_or(0));
  o.waves = (o.blocks + o.slots - 1) / o.slots;
  o.uneven =
      std::any_of(m.symbols.visited.begin(), m.symbols.visited.end(), [](const auto&) { return true; });
  if (o.blocks > 0) {
    // Blocks of a core share its units: what counts is the core that has most blocks, not the slots that stay empty.
    const double cores = machine.cores->value, average = double(o.blocks) / cores;
    if (o.uneven) {
      const double heaviest = heaviest_share(m, c);
      // Whatever the order in which blocks start, none ends later than if the heaviest were the last (Graham, Bounds on multiprocessing timing anomalies, 1969). Where the
      // heaviest of a section start together, a light one is the last: as much lighter than the average as the heaviest is heavier.
      o.sorted = plan.section_axis && m.tiles->kernels[0].heaviest_first;
      const double last = o.sorted ? std::max(0.0, 2 - heaviest) : heaviest;
      o.efficiency = average / std::max(heaviest, average + (1 - 1 / cores) * last);
    } else {
      o.efficiency = average / std::ceil(average);
    }
  }
  return o;
}

}  // namespace

namespace pricing {

ResourceTime& Sheet::add(const std::string& name, double amount, const std::string& unit,
                         const MaybeFigure& rate, const std::string& figure, ResourceTime::Kind kind,
                         double scale) {
  ResourceTime r{name, amount, unit, 0, 0, "", kind};
  if (rate) {
    r.rate = rate->value * scale;
    // Transfers from memory are shared by all cores: idle ones leave theirs to the others.
    const bool compute = kind == ResourceTime::Kind::Compute;
    r.seconds = amount / r.rate / (compute ? prediction.occupancy.efficiency : 1);
  } else {
    r.unpriced = machine.missing(figure);
  }
  prediction.resources.push_back(r);
  return prediction.resources.back();
}

void Sheet::wait(const std::string& name, double amount, const std::string& unit, double seconds) {
  if (seconds > 0)
    prediction.resources.push_back(
        {name, amount, unit, amount / seconds, seconds, "", ResourceTime::Kind::Wait});
}

double Sheet::sum(ResourceTime::Kind kind) const {
  double seconds = 0;
  for (const ResourceTime& r : prediction.resources) seconds += r.kind == kind ? r.seconds : 0;
  return seconds;
}

}  // namespace pricing

struct Predictor::Parts {
  const Model& m;
  const MachineFile& machine;
  std::optional<Sampler> sampler;
  std::optional<pricing::Cpu> cpu;
  KnownValues known;
};

Predictor::Predictor(const Model& m, const MachineFile& machine, Counting counting)
    : parts_(new Parts{m, machine, {}, {}, {}}) {
  if (counting == Counting::Sampled) parts_->sampler.emplace(*m.tiles, m.symbols);
  if (!machine.gpu) parts_->cpu.emplace(m, machine, counting);
}
Predictor::~Predictor() = default;
Predictor::Predictor(Predictor&&) noexcept = default;

Prediction Predictor::of(const Integers& values) const {
  const Model& m = parts_->m;
  const MachineFile& machine = parts_->machine;
  const Counted counted(m, values, parts_->sampler ? &*parts_->sampler : nullptr, parts_->known);
  Prediction p;
  p.occupancy = occupancy_of(m, machine, counted);
  p.transfers = counted.loaded() + counted.stored();
  pricing::Sheet sheet{m, machine, counted, p};
  if (parts_->cpu)
    parts_->cpu->price(sheet);
  else
    pricing::price_gpu(sheet);
  return p;
}

double Predictor::held(const Integers& values) const {
  return parts_->known(parts_->machine.gpu ? parts_->m.exact.peak_shared : parts_->m.held, values)
      .value_or(0);
}

Prediction predict(const Model& m, const MachineFile& machine, const Integers& values) {
  return Predictor(m, machine).of(values);
}

}  // namespace tilewright
