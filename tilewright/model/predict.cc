#include "tilewright/model/predict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "tilewright/tile/statements.h"

namespace tilewright {

Model model_of(const Program& p, const TileProgram& t) {
  Model m;
  m.program = &p;
  m.tiles = &t;
  m.symbols = tile_symbols(p, t);
  m.exact = cost(p, t, m.symbols, false);
  m.smooth = cost(p, t, m.symbols, true);
  m.operations = operations(t, m.symbols);
  m.visits = visits(p, t, m.symbols);
  m.blocks = blocks(p, t, m.symbols);
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
  for (const Axis& a : m.program->axes) {
    if (!a.size || v.count(a.index.size())) continue;
    if (const auto n = value_of(a.size, v)) v[a.index.size()] = int64_t(*n);
  }
  for (const Param& x : m.program->params)
    if (x.value && is_integer(Expr(x.sym)))
      if (const auto n = value_of(x.value, v)) v[x.sym] = int64_t(*n);
  return v;
}

namespace {

bool bound(Expr e, const Integers& values) {
  const std::vector<Sym> free = free_symbols(e);
  return std::all_of(free.begin(), free.end(), [&](Sym s) { return values.count(s) != 0; });
}

double shared_of(const Model& m, const Integers& v) { return value_of(m.exact.peak_shared, v).value_or(0); }
double registers_of(const Model& m, const Integers& v) {
  return value_of(m.exact.peak_registers, v).value_or(0);
}

/// Chunks in which an operation runs, over all blocks; blocks where it is outside of loops.
std::optional<double> times_run(const Model& m, const Operation& op, const Integers& values) {
  if (!op.loop) return value_of(m.blocks[op.kernel], values);
  for (const Visits& v : m.visits) {
    if (v.loop != op.loop) continue;
    const auto plain = value_of(v.plain, values), masked = value_of(v.masked, values);
    if (plain && masked) return (op.plain ? *plain : 0) + (op.masked ? *masked : 0);
    // Bounds that a host step finds: every chunk, as an upper bound.
    const auto all = value_of(v.all, values);
    const auto block =
        values.find(m.symbols.block.count(op.loop->axis) ? m.symbols.block.at(op.loop->axis) : Sym());
    if (!all) return std::nullopt;
    return op.plain || op.masked ? *all / double(block == values.end() ? 1 : block->second) : 0;
  }
  return std::nullopt;
}

/// Exact, or where bounds come from arrays with every chunk visited.
std::optional<double> transferred(const Model& m, Expr exact, Expr smooth, const Integers& values) {
  if (auto v = value_of(exact, values)) return v;
  Bindings b;
  for (const auto& [sym, n] : values) b[sym] = double(n);
  for (const auto& [loop, share] : m.symbols.visited) b[share] = 1;
  for (Sym s : free_symbols(smooth))
    if (!b.count(s)) return std::nullopt;
  return evaluate(smooth, b);
}

/// Bytes of the arrays that are loaded, each once.
double array_bytes(const Model& m, const Integers& values) {
  double sum = 0;
  for (const auto& [tensor, e] : m.exact.loaded_by_tensor) {
    const Input* in = m.program->input(tensor);
    if (!in) continue;
    double n = bytes(in->dtype);
    for (Sym a : in->axes()) {
      auto it = values.find(a.size());
      n *= it == values.end() ? 1 : double(it->second);
    }
    sum += n;
  }
  return sum;
}

/// Of an axis of the tile program; 1 where it is not known.
int64_t length_of(const Model& m, Sym index, const Integers& values) {
  if (auto it = values.find(index.size()); it != values.end()) return it->second;
  for (const Axis& a : m.tiles->axes)
    if (a.index == index && a.size) return int64_t(value_of(a.size, values).value_or(1));
  return 1;
}

/// Statements of a kernel that load the tensor: its passes over it.
int loads_of(const TileKernel& k, Sym tensor) {
  int n = 0;
  for_each_stmt(k.body, [&](const Stmt& s) {
    if (auto* load = std::get_if<Load>(&s.node)) n += load->tensor == tensor ? 1 : 0;
  });
  return std::max(1, n);
}

/// What crosses from memory into the first cache: blocks that run at a time, the last axes of the grid first, share what they read, as one block as long as all of
/// them would; arrays that the cache holds whole are read once.
double through_cache(const Model& m, const MemoryLevel& cache, const Integers& values, int64_t slots,
                     double loaded) {
  const double arrays = std::min(array_bytes(m, values), loaded);
  if (cache.capacity && arrays <= cache.capacity->value * (cache.units ? cache.units->value : 1))
    return arrays;
  const TileKernel& k = m.tiles->kernels[0];
  Integers larger = values;
  int64_t together = std::max<int64_t>(1, slots);
  for (size_t i = k.grid.size(); i-- > 0 && together > 1;) {
    auto it = m.symbols.block.find(k.grid[i].index);
    const int64_t n = length_of(m, k.grid[i].index, values);
    const int64_t g = it == m.symbols.block.end() ? 1 : values.at(it->second);
    const int64_t factor = std::min(together, std::max<int64_t>(1, (n + g - 1) / g));
    if (it != m.symbols.block.end()) larger[it->second] = std::max(g, std::min(n, g * factor));
    together /= factor;
  }
  const double blocks = value_of(m.blocks[0], values).value_or(1);
  double shared = 0;
  for (size_t t = 0; t < m.exact.loaded_by_tensor.size(); ++t) {
    const auto& [tensor, exact] = m.exact.loaded_by_tensor[t];
    const Expr smooth = m.smooth.loaded_by_tensor[t].second;
    const auto moved = transferred(m, exact, smooth, larger), alone = transferred(m, exact, smooth, values);
    if (!moved || !alone) return loaded;
    // What a block reads again, in a later pass, is still there if the cache holds what all blocks that run read in one.
    const double passes = loads_of(k, tensor);
    const double held = *alone / std::max(blocks, 1.0) / passes * double(slots);
    const bool again = passes > 1 && cache.capacity &&
                       held <= cache.capacity->value * (cache.units ? cache.units->value : 1);
    shared += again ? *moved / passes : *moved;
  }
  return std::max(arrays, std::min(shared, loaded));
}

double heaviest_share(const Model& m, const Integers& values);

Occupancy occupancy_of(const Model& m, const MachineFile& machine, const Integers& values) {
  Occupancy o;
  const Plan& plan = m.tiles->plan;
  const double shared = shared_of(m, values), registers = registers_of(m, values);
  const MemoryLevel *s = machine.level("shared"), *r = machine.level("registers");
  double most = 1e9;
  auto limit = [&](double n, const char* what) {
    if (n < most) most = n, o.limit = what;
  };
  if (machine.gpu) {
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
    o.fits = o.fits && most >= 1;
    o.blocks_per_core = std::max<int64_t>(1, most < 1e9 ? int64_t(most) : 1);
  } else {
    o.limit = "one task a core";
  }
  o.slots = int64_t(machine.cores->value) * o.blocks_per_core;
  o.blocks = int64_t(value_of(m.blocks[0], values).value_or(0));
  o.waves = (o.blocks + o.slots - 1) / o.slots;
  o.uneven =
      std::any_of(m.symbols.visited.begin(), m.symbols.visited.end(), [](const auto&) { return true; });
  if (o.blocks > 0) {
    // Blocks of a core share its units: what counts is the core that has most blocks, not the slots that stay empty.
    const double cores = machine.cores->value, average = double(o.blocks) / cores;
    if (o.uneven) {
      // The heaviest blocks start first: no core ends later than the average and the heaviest block allow.
      const double heaviest = heaviest_share(m, values);
      o.efficiency = average / std::max(average, heaviest);
    } else {
      o.efficiency = average / std::ceil(average);
    }
  }
  return o;
}

/// Work of the heaviest block over that of the average one, from the chunks that blocks of the last grid axis visit.
double heaviest_share(const Model& m, const Integers& values) {
  const TileKernel& k = m.tiles->kernels[0];
  if (k.grid.empty()) return 1;
  for (const Visits& v : m.visits) {
    if (v.kernel != 0 || !m.symbols.visited.count(v.loop)) continue;
    const auto plain = value_of(v.plain, values), masked = value_of(v.masked, values),
               all = value_of(v.all, values);
    if (!plain || !masked || !all || *plain + *masked <= 0) return 1;
    auto chunk = m.symbols.block.find(v.loop->axis);
    auto size = values.find(v.loop->axis.size());
    if (chunk == m.symbols.block.end() || size == values.end()) return 1;
    // No block visits more than the whole axis.
    const double blocks = value_of(m.blocks[0], values).value_or(1), average = (*plain + *masked) / blocks;
    const double most = std::ceil(double(size->second) / double(values.at(chunk->second)));
    return std::max(1.0, most / average);
  }
  return 1;
}

/// What the cores of a CPU do in all statements together.
struct CoreAmounts {
  double products = 0, instructions = 0, exponentials = 0, quotients = 0, tangents = 0, conversions = 0,
         read = 0, written = 0;
};
/// nullopt where a host step finds the chunks of a block.
std::optional<CoreAmounts> core_amounts(const Model& m, const Integers& values) {
  CoreAmounts sum;
  for (const CoreStatement& s : core_statements(*m.program, *m.tiles, m.symbols))
    for (const auto& [e, to] : {std::pair<Expr, double*>{s.products, &sum.products},
                                {s.instructions, &sum.instructions},
                                {s.exponentials, &sum.exponentials},
                                {s.quotients, &sum.quotients},
                                {s.tangents, &sum.tangents},
                                {s.conversions, &sum.conversions},
                                {s.read, &sum.read},
                                {s.written, &sum.written}}) {
      const auto n = value_of(e, values);
      if (!n) return std::nullopt;
      *to += *n;
    }
  return sum;
}

/// Bytes of a block's tiles that lie inside arrays, at the widths that a CPU holds them in.
double held_by_block(const Model& m, const Integers& values) {
  Integers here = values;
  for (const auto& [axis, sym] : m.symbols.block)
    here[sym] = std::max<int64_t>(1, std::min(values.at(sym), length_of(m, axis, values)));
  for (const auto& [axis, sym] : m.symbols.piece)
    here[sym] = std::min(values.at(sym), here.at(m.symbols.block.at(axis)));
  for (const auto& [dtype, sym] : m.symbols.width) here[sym] = std::max<int64_t>(4, bytes(dtype));
  return value_of(peak_of_block(*m.tiles, m.symbols), here).value_or(0);
}

/// The level into which tiles are read: the one next to the nearest memory that holds so many bytes in one unit.
const MemoryLevel* level_of_tiles(const MachineFile& machine, double held) {
  for (size_t k = machine.levels.size(); k-- > 1;)
    if (machine.levels[k - 1].capacity && held <= machine.levels[k - 1].capacity->value &&
        machine.levels[k].bandwidth)
      return &machine.levels[k];
  return nullptr;
}

}  // namespace

std::optional<double> value_of(Expr e, const Integers& values) {
  if (!bound(e, values)) return std::nullopt;
  return double(evaluate_integer(e, values));
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
  return op.unit == Unit::Matrix && machine.gpu && op.dtype != DType::f32 && machine.matrix.count(op.dtype);
}

double fitting(double capacity, double shared, double each) { return (capacity - shared) / each; }
double utilisation(double unit, double other) { return unit / (unit + other); }

Prediction predict(const Model& m, const MachineFile& machine, const Integers& values) {
  Prediction p;
  p.occupancy = occupancy_of(m, machine, values);
  const double stretch = 1 / p.occupancy.efficiency;
  auto resource = [&](const std::string& name, double amount, const std::string& unit,
                      const MaybeFigure& rate, const std::string& figure, ResourceTime::Kind kind,
                      double scale = 1) {
    ResourceTime r{name, amount, unit, 0, 0, "", kind};
    if (rate) {
      r.rate = rate->value * scale;
      // Transfers from memory are shared by all cores: idle slots leave theirs to the others.
      r.seconds = amount / r.rate * (kind == ResourceTime::Kind::Compute ? stretch : 1);
    } else {
      r.unpriced = machine.missing(figure);
    }
    p.resources.push_back(r);
  };
  const double loaded = transferred(m, m.exact.memory.loaded, m.smooth.memory.loaded, values).value_or(0);
  const double stored = transferred(m, m.exact.memory.stored, m.smooth.memory.stored, values).value_or(0);
  const double inner = transferred(m, m.exact.shared.loaded, m.smooth.shared.loaded, values).value_or(0) +
                       transferred(m, m.exact.shared.stored, m.smooth.shared.stored, values).value_or(0);
  // Each boundary between levels, farthest first.
  bool near = false, first = true;
  for (size_t k = 1; k < machine.levels.size(); ++k) {
    const MemoryLevel &from = machine.levels[k - 1], &to = machine.levels[k];
    double amount = loaded + stored;
    if (first && to.role == "cache")
      amount = stored + through_cache(m, to, values, p.occupancy.slots, loaded);
    if (near && to.role == "cache") {
      first = false;
      continue;  // of tiles and values: which of them a cache near the core holds is up to it
    }
    if (to.role == "registers") amount = inner;
    const std::string source = near && to.role == "registers" ? machine.level("shared")->name : from.name;
    if (!machine.gpu && to.role == "registers") continue;  // tiles are computed with where they lie, below
    resource(fmt::format("{} -> {}", source, to.name), amount, "bytes", to.bandwidth,
             fmt::format("levels.{}.bandwidth", to.name), ResourceTime::Kind::Transfer);
    // What is written costs more than what is read where lines are fetched before they are written.
    if (to.writes && to.bandwidth && p.resources.back().rate > 0 && amount > 0)
      p.resources.back().seconds = (amount - stored) / to.bandwidth->value + stored / to.writes->value;
    near = near || to.role == "shared";
    first = false;
  }
  std::map<DType, double> matrix;
  double special = 0, vector = 0;
  const std::optional<CoreAmounts> core = machine.gpu ? std::nullopt : core_amounts(m, values);
  if (core) p.operations = 2 * core->products;
  for (const Operation& op : core ? std::vector<Operation>{} : m.operations) {
    const double n = value_of(op.each, values).value_or(0) * times_run(m, op, values).value_or(0);
    if (op.unit == Unit::Matrix) {
      p.operations += 2 * n;
      if (uses_matrix_unit(machine, op))
        matrix[op.dtype] += n;
      else
        vector += n;
    } else {
      (op.unit == Unit::Special ? special : vector) += n;
    }
  }
  for (const auto& [dtype, n] : matrix)
    resource(fmt::format("matrix {}", name(dtype)), n, "multiply-adds", machine.matrix.at(dtype).rate,
             fmt::format("rates.matrix.{}", name(dtype)), ResourceTime::Kind::Compute, 0.5);
  if (special > 0)
    resource("exponentials", special, "results", machine.special, "rates.special",
             ResourceTime::Kind::Compute);
  if (vector > 0)
    resource("vector units", vector, "instructions", machine.fma_f32, "rates.fma_f32",
             ResourceTime::Kind::Compute, 0.5);
  if (core) {
    const auto compute = [&](const char* what, double amount, const char* unit, const MaybeFigure& rate,
                             const char* figure, double scale = 1) {
      if (amount > 0) resource(what, amount, unit, rate, figure, ResourceTime::Kind::Compute, scale);
    };
    compute("multiply-adds of products", core->products, "multiply-adds",
            machine.products ? machine.products : machine.fma_f32, "rates.fma_f32", 0.5);
    compute("vector units", core->instructions, "instructions", machine.fma_f32, "rates.fma_f32", 0.5);
    compute("exponentials", core->exponentials, "results", machine.special, "rates.special");
    compute("quotients", core->quotients, "results", machine.quotients, "rates.quotients");
    compute("tanh", core->tangents, "results", machine.tangents, "rates.tangents");
    compute("conversions", core->conversions, "elements", machine.conversions, "rates.conversions");
    // Tiles come from the nearest level that holds all of a block's.
    const MemoryLevel* near_level = level_of_tiles(machine, held_by_block(m, values));
    if (near_level) {
      const std::string figure = fmt::format("levels.{}.bandwidth", near_level->name);
      compute("tiles read", core->read, "bytes", near_level->bandwidth, figure.c_str());
      compute("tiles written", core->written, "bytes",
              near_level->writes ? near_level->writes : near_level->bandwidth, figure.c_str());
    }
  }
  resource(
      "launches", double(m.tiles->kernels.size()), "kernels",
      machine.launch ? MaybeFigure(Figure{1 / machine.launch->value, machine.launch->source}) : MaybeFigure(),
      "transfers.launch", ResourceTime::Kind::Launch);

  double transfers = 0, compute = 0, launches = 0;
  for (const ResourceTime& r : p.resources) {
    if (r.kind == ResourceTime::Kind::Launch) {
      launches = r.seconds;
      continue;
    }
    if (r.kind == ResourceTime::Kind::Transfer) transfers = std::max(transfers, r.seconds);
    if (r.kind == ResourceTime::Kind::Compute) compute += r.seconds;
    if (r.seconds > p.overlapped) p.overlapped = r.seconds, p.bound_by = r.name;
  }
  // Each group of a core takes its own units one after another, and while it uses one the other groups use the others.
  // No more blocks share a core than there are.
  const int64_t resident = std::min<int64_t>(
      p.occupancy.blocks_per_core,
      std::max<int64_t>(1, int64_t(std::ceil(double(p.occupancy.blocks) / machine.cores->value))));
  p.groups = machine.gpu ? resident * std::max(1, m.tiles->plan.computers) : 1;
  if (machine.gpu) {
    const double one_after_another = compute / double(p.groups);
    p.predicted = std::max(p.overlapped, one_after_another);
    if (one_after_another > p.overlapped) p.bound_by = "computing, one unit after another";
    p.serial = std::max(transfers, compute) + launches;
  } else {
    // A core waits for what it reads, and its units work for one statement at a time.
    p.predicted = transfers + compute;
    if (compute > transfers) p.bound_by = "computing, one unit after another";
    p.serial = p.predicted + launches;
  }
  p.overlapped += launches;
  p.predicted += launches;
  return p;
}

namespace {

/// Rows of a block: of the axis that the loop's reductions keep, else of the first that is cut into blocks.
int64_t rows_of(const Model& m, const TileKernel& k, const Loop& loop, const Integers& values) {
  std::vector<Sym> axes;
  for_each_stmt(loop.body, [&](const Stmt& s) {
    if (auto* x = std::get_if<Reduce>(&s.node); x && axes.empty()) axes = k.tile(x->tile).axes;
  });
  if (axes.empty())
    for (const KernelAxis& a : k.grid) axes.push_back(a.index);
  int64_t rows = 1;
  for (Sym a : axes)
    if (auto it = m.symbols.block.find(a); it != m.symbols.block.end() && a != loop.axis && rows == 1)
      rows = values.at(it->second);
  return rows;
}

}  // namespace

std::optional<ClockBudget> clock_budget(const Model& m, const MachineFile& machine, const Integers& values) {
  const Loop* loop = nullptr;
  for (const Visits& v : m.visits)
    if (!loop && v.kernel == 0) loop = v.loop;
  if (!loop || !machine.clock) return std::nullopt;
  ClockBudget b;
  const double cores = machine.cores->value, per_core = 1 / (cores * machine.clock->value);
  const TileKernel& k = m.tiles->kernels[0];
  b.rows = rows_of(m, k, *loop, values);
  if (const auto bytes = value_of(loaded_in_chunk(*m.tiles, k, *loop, m.symbols), values);
      bytes && *bytes > 0) {
    ClockLine line{"operands of a chunk, bytes", "load", *bytes, 0};
    const MemoryLevel* shared = machine.level("shared");
    if (shared && shared->bandwidth) line.clocks = *bytes / (shared->bandwidth->value * per_core);
    b.load = line.clocks;
    b.lines.push_back(line);
  }
  for (const Operation& op : m.operations) {
    if (op.loop != loop || !op.plain) continue;
    ClockLine line{op.what, name(op.unit), value_of(op.each, values).value_or(0), 0};
    const bool on_matrix = uses_matrix_unit(machine, op) && machine.matrix.at(op.dtype).rate;
    double rate = 0;  // of one core and clock
    if (on_matrix)
      rate = machine.matrix.at(op.dtype).rate->value / 2 * per_core;
    else if (op.unit == Unit::Special)
      rate = machine.special_per_clock ? machine.special_per_clock->value
             : machine.special         ? machine.special->value * per_core
                                       : 0;
    else
      rate = machine.fma_per_clock ? machine.fma_per_clock->value
             : machine.fma_f32     ? machine.fma_f32->value / 2 * per_core
                                   : 0;
    if (op.unit == Unit::Matrix) b.products += 2 * line.count;
    if (op.unit == Unit::Matrix && !on_matrix) line.role = name(Unit::Vector);
    if (rate > 0) line.clocks = line.count / rate;
    (on_matrix ? b.matrix : op.unit == Unit::Special ? b.special : b.vector) += line.clocks;
    b.lines.push_back(line);
  }
  if (b.matrix > 0) b.matrix_bound = b.products / b.matrix * cores * machine.clock->value;
  return b;
}

std::vector<Divisor> divisors(const Model& m, const MachineFile& machine) {
  std::vector<Divisor> all;
  auto need = [&](Sym axis, int64_t n, const std::string& why) {
    auto it = m.symbols.block.find(axis);
    if (it == m.symbols.block.end()) return;
    const bool known = std::any_of(all.begin(), all.end(), [&](const Divisor& d) {
      return d.tile == it->second && d.of == n && d.why == why;
    });
    if (!known) all.push_back({it->second, n, why});
  };
  for (const TileKernel& k : m.tiles->kernels)
    for_each_stmt(k.body, [&](const Stmt& s) {
      if (auto* dot = std::get_if<Dot>(&s.node)) {
        const Tile &a = k.tile(dot->a), &b = k.tile(dot->b);
        const DType dtype = bytes(a.dtype) >= bytes(b.dtype) ? a.dtype : b.dtype;
        const std::string in = "in " + dot->tile.name();
        if (!machine.gpu) {
          if (machine.vector_bytes)  // lanes along an axis that only one operand has
            for (Sym axis : k.tile(dot->tile).axes)
              if (contains_axis(a.axes, axis))
                need(axis, std::max<int64_t>(1, int64_t(machine.vector_bytes->value) / 4),
                     "lanes of a vector " + in);
          return;
        }
        auto unit = machine.matrix.find(dtype);
        if (unit == machine.matrix.end() || dtype == DType::f32) return;
        for (Sym axis : k.tile(dot->tile).axes) {
          if (contains_axis(a.axes, axis) && !contains_axis(b.axes, axis))
            need(axis, unit->second.shape[0], "rows of the matrix unit " + in);
          if (contains_axis(b.axes, axis) && !contains_axis(a.axes, axis))
            need(axis, unit->second.shape[1], "columns of the matrix unit " + in);
        }
        for (Sym axis : dot->axes) need(axis, unit->second.shape[2], "depth of the matrix unit " + in);
      } else if (auto* load = std::get_if<Load>(&s.node)) {
        const Input* input = m.program->input(load->tensor);
        if (!input || !machine.line_bytes || input->dims.empty() || load->index.empty()) return;
        const Expr last = load->index.back();
        if (last.is(Op::Symbol))
          need(last->sym, std::max<int64_t>(1, int64_t(machine.line_bytes->value) / bytes(input->dtype)),
               fmt::format("a line of {:.0f} bytes of {}", machine.line_bytes->value, load->tensor.name()));
      }
    });
  return all;
}

std::map<Sym, int64_t> multiples(const Model& m, const MachineFile& machine) {
  std::map<Sym, int64_t> all;
  for (const auto& [axis, sym] : m.symbols.block) all[sym] = 1;
  for (const Divisor& d : divisors(m, machine)) all[d.tile] = std::lcm(all[d.tile], d.of);
  return all;
}

namespace {

/// The search counts what is visited and how blocks divide by averages. Where every size is known the exact formulas decide between neighbours: one tile a unit shorter
/// or longer, halved or doubled, as long as that moves less.
void refine(const Model& m, const MachineFile& machine, const Integers& values, IntegerTiles& best) {
  const Expr shared = machine.gpu ? m.exact.peak_shared : peak_of_block(*m.tiles, m.symbols);
  const MemoryLevel *s = machine.level("shared"), *r = machine.level("registers");
  const double room = s->per_block ? s->per_block->value : s->capacity->value;
  const double file = machine.gpu && r && r->capacity ? r->capacity->value : 0;
  const auto with = [&](const std::map<Sym, int64_t>& tiles) {
    Integers v = values;
    for (const auto& [sym, n] : tiles) v[sym] = n;
    for (const auto& [axis, piece] : m.symbols.piece) {
      const Sym block = m.symbols.block.at(axis);
      v[piece] = std::max<int64_t>(1, values.at(piece) * v.at(block) / values.at(block));
    }
    return v;
  };
  const auto moved = [&](const Integers& v) -> std::optional<double> {
    const auto loaded = value_of(m.exact.memory.loaded, v), stored = value_of(m.exact.memory.stored, v);
    if (!loaded || !stored) return std::nullopt;
    return *loaded + *stored;
  };
  auto least = moved(with(best.tiles));
  if (!least) return;
  for (bool better = true; better;) {
    better = false;
    const std::map<Sym, int64_t> from = best.tiles;
    for (const auto& [sym, n] : from) {
      const int64_t unit = best.multiple.at(sym);
      for (int64_t other : {n - unit, n + unit, n / 2 / unit * unit, 2 * n}) {
        if (other < unit || other == n) continue;
        std::map<Sym, int64_t> tiles = from;
        tiles[sym] = other;
        const Integers v = with(tiles);
        if (value_of(shared, v).value_or(room + 1) > room) continue;
        if (file > 0 && value_of(m.exact.peak_registers, v).value_or(file + 1) > file) continue;
        const auto here = moved(v);
        ++best.tried;
        if (!here || *here >= *least * (1 - 1e-9)) continue;
        least = here;
        best.tiles = tiles;
        better = true;
      }
    }
  }
  const Integers v = with(best.tiles);
  best.transfers = *least;
  best.shared = value_of(shared, v).value_or(best.shared);
  best.registers = value_of(m.exact.peak_registers, v).value_or(best.registers);
}

}  // namespace

std::optional<IntegerTiles> best_tiles(const Model& m, const MachineFile& machine, const Integers& values) {
  const auto h = laurent(m.smooth.memory.loaded + m.smooth.memory.stored);
  // A CPU keeps all tiles in its cache; its registers hold the micro-kernel's values alone.
  const auto shared = maximands(machine.gpu ? m.exact.peak_shared : peak_of_block(*m.tiles, m.symbols)),
             registers = maximands(m.exact.peak_registers);
  if (!h || !shared || !registers) return std::nullopt;
  const MemoryLevel *s = machine.level("shared"), *r = machine.level("registers");
  const double room = s ? (s->per_block ? s->per_block->value : s->capacity ? s->capacity->value : 0) : 0;
  const double file = machine.gpu && r && r->capacity ? r->capacity->value : 0;
  if (room <= 0) return std::nullopt;
  IntegerTiles best;
  best.multiple = multiples(m, machine);
  std::vector<Sym> tiles;
  std::map<Sym, Expr> size;
  std::set<Sym> streams;
  for (const TileKernel& k : m.tiles->kernels)
    for (const auto* list : {&k.grid, &k.inner})
      for (const KernelAxis& a : *list) {
        auto it = m.symbols.block.find(a.index);
        if (it == m.symbols.block.end() || a.kind == KernelAxis::Kind::Resident) continue;
        if (std::find(tiles.begin(), tiles.end(), it->second) == tiles.end()) tiles.push_back(it->second);
        size[it->second] = a.index.size();
        if (a.kind == KernelAxis::Kind::Stream) streams.insert(it->second);
      }
  if (tiles.empty() || tiles.size() > 4) return std::nullopt;
  Bindings b;
  for (const auto& [sym, n] : values) b[sym] = double(n);
  for (const auto& [loop, share] : m.symbols.visited) b[share] = 1;
  for (const Laurent* l : {&*h})
    for (const auto& [powers, coefficient] : l->terms)
      for (const auto& [sym, power] : powers)
        if (!b.count(sym)) b[sym] = 4096;  // a size that is not known: long
  // Pieces keep their number.
  std::vector<std::pair<Sym, std::pair<Sym, double>>> pieces;
  for (const auto& [axis, piece] : m.symbols.piece) {
    const Sym block = m.symbols.block.at(axis);
    pieces.push_back(
        {piece, {block, double(m.symbols.values.at(piece)) / double(m.symbols.values.at(block))}});
  }
  std::vector<std::vector<int64_t>> candidates;
  for (Sym g : tiles) {
    std::vector<int64_t> c;
    const int64_t unit = best.multiple.at(g);
    const double most = streams.count(g) ? 512 : 4096;
    const double length = size.count(g) && b.count(size.at(g)->sym) ? b.at(size.at(g)->sym) : 1e18;
    for (int64_t n = unit; double(n) <= most; n += n < 16 * unit ? unit : n) {
      c.push_back(n);
      if (double(n) >= length) break;
    }
    if (c.empty()) c.push_back(unit);
    candidates.push_back(c);
  }
  auto largest = [&](const std::vector<Laurent>& columns) {
    double most = 0;
    for (const Laurent& l : columns) most = std::max(most, l.value(b));
    return most;
  };
  double least = __builtin_inf(), most_of_chunk = 0;
  std::vector<size_t> at(tiles.size(), 0);
  for (bool more = true; more;) {
    ++best.tried;
    double chunk = 1;
    for (size_t k = 0; k < tiles.size(); ++k) {
      b[tiles[k]] = double(candidates[k][at[k]]);
      if (streams.count(tiles[k])) chunk *= b[tiles[k]];
    }
    for (const auto& [piece, of] : pieces) b[piece] = b.at(of.first) * of.second;
    const double needed = largest(*shared), held = largest(*registers);
    if (needed <= room && (file <= 0 || held <= file)) {
      // The last block of an axis is as long as the others: ceil(n/g) blocks.
      Bindings ragged = b;
      for (Sym g : tiles) {
        if (streams.count(g)) continue;
        const double n = evaluate(size.at(g), b);
        ragged[g] = n / std::ceil(n / b.at(g));
      }
      const double moved = h->value(ragged);
      if (moved < least * (1 - 1e-9) || (moved <= least * (1 + 1e-9) && chunk > most_of_chunk)) {
        least = std::min(moved, least);
        most_of_chunk = chunk;
        for (Sym g : tiles) best.tiles[g] = int64_t(b.at(g));
        best.transfers = moved;
        best.shared = needed;
        best.registers = held;
      }
    }
    size_t k = 0;
    while (k < tiles.size() && ++at[k] == candidates[k].size()) at[k++] = 0;
    more = k < tiles.size();
  }
  if (best.tiles.empty()) return std::nullopt;
  refine(m, machine, values, best);
  return best;
}

}  // namespace tilewright
