#include "tilewright/model/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tilewright/tile/statements.h"

namespace tilewright {

const std::vector<Assumption>& assumptions() {
  static const std::vector<Assumption> all = {
      {"A1", "a load moves each of its elements once, and finds none of them nearer by",
       "`run --target interp --json` counts the same bytes; on a GPU, compare with the bytes that its "
       "counters show between cache and cores"},
      {"A2", "tiles divide what they cut",
       "compare with the exact formulas at sizes that they do not divide"},
      {"A3", "one memory holds all tiles of a block, and it is full",
       "time plans with half and with twice the block: transfers must follow the form"},
      {"A4", "chunks of the stream are small beside what a block keeps",
       "halve the chunk: transfers stay, and larger blocks fit"},
      {"A5", "units and levels work at the same time",
       "time the plan with one computing group and one stage: it should take the serial time"},
      {"A6", "latency is hidden, but for the waits that are listed",
       "time a size of few blocks: it should take no longer than a block's share of the whole"},
      {"A7", "matrix units reach their peak at any tile", "time a plain product with the same tiles"},
      {"A8", "an exponential, logarithm, root or quotient is one result of the special units",
       "replace half of the exponentials by polynomials: the time must fall where they are the bound"},
      {"A9", "the compiler emits one instruction for each operation counted",
       "count instructions in the emitted code, or with a profiler"},
      {"A10", "slow paths, and guards that wait for a point to move, run on few chunks",
       "sort the keys so that each chunk moves the maximum"},
      {"A11", "blocks that run at a time along the last blocked axis share what they read through a cache",
       "count the bytes read from memory with a profiler"},
      {"A12",
       "blocks of unmasked kernels take equally long and start in waves; of masked ones the heaviest may "
       "start last, the lightest where a plan has sections",
       "time sizes one block below and above a whole number of waves"},
      {"A13", "where a mask reads arrays, every chunk is priced as visited",
       "`run --target interp --json` counts the chunks visited"},
      {"A14", "clock and rates are those of the machine file", "log the clock during a run of a second"},
      {"A15", "a block takes the shared memory and registers that its tiles take",
       "compare with what the compiler reports for the kernel"},
      {"A16",
       "a CPU runs the statements of a block one after another, and finds its tiles in the nearest cache "
       "that holds them all",
       "count the instructions and cache misses of the emitted loops (perf stat)"},
  };
  return all;
}

namespace {

class Reporter {
 public:
  Reporter(const Model& m, const MachineFile& machine, const std::map<std::string, int64_t>& sizes)
      : m_(m), machine_(machine), p_(*m.program), t_(*m.tiles) {
    Sizes known;
    for (const Axis& a : p_.axes)
      if (auto it = sizes.find(a.name()); it != sizes.end()) known[a.index.size()] = it->second;
    values_ = values_of(m, known);
    complete_ = complete(m, values_);
    for (const auto& [sym, n] : values_) numbers_[sym] = double(n);
    for (const Visits& v : m.visits) {
      auto share = m.symbols.visited.find(v.loop);
      if (share == m.symbols.visited.end()) continue;
      const auto some = value_of(v.elements, values_), all = value_of(v.all, values_);
      if (some && all) numbers_[share->second] = *all > 0 ? *some / *all : 0;
      if (!some && all) from_arrays_ = true, numbers_[share->second] = 1;
    }
  }

  Report run(const std::string& kernel) {
    r_.program = p_.name;
    r_.kernel = kernel;
    r_.plan = print(p_, t_.plan);
    r_.machine = machine_.name;
    for (const Axis& a : p_.axes)
      if (auto it = values_.find(a.index.size()); it != values_.end())
        r_.sizes.emplace_back(a.name(), it->second);
    symbols();
    transfers();
    memory();
    form();
    tiles();
    work();
    if (complete_) {
      r_.prediction = predict(m_, machine_, values_);
      clocks();
      occupancy();
      times();
    }
    return std::move(r_);
  }

 private:
  using Keys = std::vector<std::string>;

  void section(const std::string& title) { r_.sections.push_back({title, {}}); }
  ReportLine& line(const std::string& name, Expr formula, std::optional<double> value,
                   const std::string& unit, Keys keys, const std::string& note = {}) {
    r_.sections.back().lines.push_back({name, formula, value, unit, note, std::move(keys)});
    return r_.sections.back().lines.back();
  }
  /// A smooth formula with its own value.
  ReportLine& smooth(const std::string& name, Expr e, const std::string& unit, Keys keys) {
    return line(name, e, number(e), unit, std::move(keys));
  }
  std::optional<double> number(Expr e) const {
    for (Sym s : free_symbols(e))
      if (!numbers_.count(s)) return std::nullopt;
    return evaluate(e, numbers_);
  }
  std::optional<double> exact(Expr e) const { return value_of(e, values_); }

  void symbols() {
    section("symbols");
    for (const TileKernel& k : t_.kernels)
      for (const auto* list : {&k.grid, &k.inner})
        for (const KernelAxis& a : *list) {
          auto it = m_.symbols.block.find(a.index);
          if (it == m_.symbols.block.end() || !named_.insert(it->second).second) continue;
          const char* what = a.kind == KernelAxis::Kind::Group    ? "elements of a block of {}"
                             : a.kind == KernelAxis::Kind::Stream ? "elements of a chunk of {}"
                                                                  : "elements of {} held on chip";
          line(it->second.name(), {}, double(m_.symbols.values.at(it->second)), "", {},
               fmt::format(fmt::runtime(what), a.index.name()));
          if (auto piece = m_.symbols.piece.find(a.index); piece != m_.symbols.piece.end())
            line(piece->second.name(), {}, double(m_.symbols.values.at(piece->second)), "", {},
                 fmt::format("elements of a piece of {}", a.index.name()));
        }
    if (m_.symbols.split)
      line(m_.symbols.split.name(), {}, double(m_.symbols.values.at(m_.symbols.split)), "", {},
           fmt::format("elements of a part of {}", t_.plan.stream.name()));
    for (const auto& [dtype, sym] : m_.symbols.width)
      line(sym.name(), {}, double(bytes(dtype)), "bytes", {},
           fmt::format("of an element of {}", name(dtype)));
    std::set<Sym> shown;
    for (const Axis& a : p_.axes)
      if (auto it = m_.symbols.literal.find(a.index.size());
          it != m_.symbols.literal.end() && shown.insert(it->first).second)
        line(a.name(), {}, double(it->second), "", {}, "literal size");
    for (const Visits& v : m_.visits) {
      auto share = m_.symbols.visited.find(v.loop);
      if (share == m_.symbols.visited.end()) continue;
      if (exact(v.elements) || !from_arrays_)
        line(share->second.name(), {}, number(Expr(share->second)), "", {},
             fmt::format("share of {} in visited chunks", v.loop->axis.name()));
      else
        line(share->second.name(), {}, 1.0, "", {"A13"},
             fmt::format("share of {} in visited chunks; the mask reads arrays", v.loop->axis.name()));
    }
  }

  void transfers() {
    section("transfers H between memory and blocks");
    const Keys keys{"A1", "A2"};
    auto tensors = [&](const auto& smooth_list, const auto& exact_list, const char* what) {
      for (const auto& [tensor, e] : smooth_list)
        for (const auto& [other, precise] : exact_list)
          if (other == tensor) {
            auto v = exact(precise);
            line(fmt::format("{} {}", tensor.name(), what), e, v ? v : number(e), "bytes", keys);
          }
    };
    tensors(m_.smooth.loaded_by_tensor, m_.exact.loaded_by_tensor, "loaded");
    tensors(m_.smooth.stored_by_tensor, m_.exact.stored_by_tensor, "stored");
    for (const TileKernel& k : t_.kernels)
      for (const KernelAxis& a : k.grid)
        if (a.block == 1 && a.kind == KernelAxis::Kind::Group) could_share(k, a);
    section("transfers H, exact");
    auto precise = [&](const char* name, Expr e) {
      if (!e.is_constant(0)) line(name, e, exact(e), "bytes", {"A1"});
    };
    precise("memory, loaded", m_.exact.memory.loaded);
    precise("memory, stored", m_.exact.memory.stored);
    precise("shared, loaded", m_.exact.shared.loaded);
    precise("shared, stored", m_.exact.shared.stored);
    if (!m_.exact.chunks_visited.is_constant(0))
      line("chunks visited", m_.exact.chunks_visited, exact(m_.exact.chunks_visited), "", {});
  }

  /// An axis cut into single indices, of which a block would use what is loaded along the stream more often.
  void could_share(const TileKernel& k, const KernelAxis& a) {
    std::vector<std::string> lacking;
    for_each_stmt(k.body, [&](const Stmt& s) {
      auto* loop = std::get_if<Loop>(&s.node);
      if (!loop) return;
      for (const Stmt& inner : loop->body)
        if (auto* load = std::get_if<Load>(&inner.node))
          if (std::none_of(load->index.begin(), load->index.end(),
                           [&](Expr e) { return depends_on(e, a.index) || depends_on(e, a.counter); }))
            lacking.push_back(load->tensor.name());
    });
    if (!lacking.empty())
      line(fmt::format("{} is cut singly", a.index.name()), {}, {}, "", {},
           fmt::format("a block of {} would load {} once for all of it", a.index.name(),
                       fmt::join(lacking, ", ")));
  }

  void memory() {
    section("memory M of one block");
    auto held = [&](const char* name, Expr e, const MemoryLevel* level, bool per_block) {
      if (e.is_constant(0)) return;
      const MaybeFigure& room = level && per_block && level->per_block ? level->per_block
                                : level                                ? level->capacity
                                                                       : MaybeFigure();
      ReportLine& l = line(name, e, exact(e), "bytes", {"A15"});
      if (room && (machine_.gpu || per_block)) l.note = fmt::format("of {}", quantity(room->value, "bytes"));
      if (room && l.value && *l.value > room->value && machine_.gpu) l.note += ": does not fit";
    };
    const Expr both = m_.held;
    held("shared", m_.exact.peak_shared, machine_.gpu ? machine_.level("shared") : nullptr, true);
    held("registers", m_.exact.peak_registers, machine_.level("registers"), false);
    held("both", both, machine_.gpu ? nullptr : machine_.level("shared"), true);
  }

  void form() {
    section("canonical form H*(M): the least transfers of blocks of M bytes");
    const Canonical* c = m_.form ? &*m_.form : m_.leading ? &*m_.leading : nullptr;
    if (!c) {
      line("none", {}, {}, "", {}, m_.why_no_form);
      return;
    }
    const Keys keys{"A1", "A2", "A3", "A4"};
    line("H*(M)", c->formula, {}, "bytes", keys);
    if (m_.form && m_.leading) {
      const Expr terms = substitute(m_.leading->formula, {{m_.leading->memory, Expr(c->memory)}});
      if (terms != c->formula) line("leading terms", terms, {}, "bytes", keys);
    }
    for (const auto& [tile, best] : c->tiles) line(fmt::format("best {}", tile.name()), best, {}, "", keys);
    for (const auto& [product, best] : c->products)
      line(fmt::format("best {}", to_string(product)), best, {}, "", keys,
           "of these tiles only the product matters");
    if (m_.problem)
      for (Sym g : m_.problem->least)
        line(fmt::format("best {}", g.name()), 1, {}, "", keys, "a larger one saves nothing");
    for (const auto& [what, bound] : c->valid)
      smooth("holds up to M", bound, "bytes", keys).note =
          fmt::format("there {} fills what it cuts", to_string(what));
    smooth("compulsory, least of all", c->compulsory, "bytes", {"A1"});
    if (c->alpha.is_constant(0)) return;
    widths(*c);
    levels(*c);
    intensity(*c);
  }

  /// What narrower elements save of the M-dependent term.
  void widths(const Canonical& c) {
    Bindings before, halved, all;
    double narrow = 0;
    for (const auto& [dtype, sym] : m_.symbols.width) {
      const double n = bytes(dtype);
      const bool operand = std::any_of(p_.inputs.begin(), p_.inputs.end(),
                                       [&, d = dtype](const Input& in) { return in.dtype == d; });
      before[sym] = n;
      halved[sym] = operand ? n / 2 : n;
      all[sym] = n / 2;
      narrow += operand ? 1 : 0;
    }
    Bindings sizes = numbers_;
    for (const Axis& a : p_.axes) sizes.try_emplace(a.index.size(), 4096);  // of these it does not depend
    for (const auto& [loop, share] : m_.symbols.visited) sizes.try_emplace(share, 1);
    section("elements of half the bytes: the M-dependent term falls by a factor");
    const Keys keys{"A1", "A3", "A4"};
    if (narrow > 0)
      line("of inputs", {}, gain_of_widths(c, sizes, before, halved), "", keys,
           "accumulators and state as they are");
    line("of everything", {}, gain_of_widths(c, sizes, before, all), "", keys,
         fmt::format("2^(1 + β), β = {}", c.beta.str()));
  }

  /// Σ over levels of H*(M)/bandwidth, with caches and clusters.
  void levels(const Canonical& c) {
    const MemoryLevel *shared = machine_.level("shared"), *registers = machine_.level("registers");
    if (!shared || !shared->capacity) return;
    double block = shared->capacity->value;
    if (machine_.gpu && registers && registers->capacity) block += registers->capacity->value;
    section("levels: H* where every level is full");
    const double n = machine_.cores->value;
    double sum = 0;
    bool priced = true;
    for (size_t k = 1; k < machine_.levels.size(); ++k) {
      const MemoryLevel& l = machine_.levels[k];
      if (l.role == "registers") break;
      // A cache for N blocks passes on what one block of N times the memory would ask for.
      const double sharing = l.role == "cache" ? n / (l.units ? l.units->value : 1) : 1, M = block * sharing;
      std::optional<double> moved;
      if (complete_ && m_.problem) moved = least_transfers(*m_.problem, numbers_, M);
      std::string note = fmt::format("M = {}", quantity(M, "bytes"));
      if (l.role == "cache") note += fmt::format(", {:g} blocks behind {}", sharing, l.name);
      if (moved && l.bandwidth) {
        sum += *moved / l.bandwidth->value;
        note += fmt::format("; {} at {}", quantity(*moved / l.bandwidth->value, "s"),
                            quantity(l.bandwidth->value, "bytes/s"));
      } else if (!l.bandwidth) {
        priced = false;
        note += fmt::format("; not priced: {}", machine_.missing(fmt::format("levels.{}.bandwidth", l.name)));
      }
      line(fmt::format("into {}", l.name), {}, moved, "bytes", {"A1", "A2", "A3", "A4", "A11"}, note);
      if (l.role == "shared") break;
    }
    if (complete_ && sum > 0)
      line("sum of times", {}, sum, "s", {"A3", "A6", "A14"}, priced ? "" : "of the levels that are priced");
    for (const Cluster& cluster : machine_.clusters) {
      const MemoryLevel* first = machine_.levels.size() > 1 ? &machine_.levels[1] : nullptr;
      if (!cluster.size || !cluster.bandwidth || !first || !first->bandwidth) continue;
      const double beta = c.beta.value(), N = cluster.size->value;
      line(fmt::format("cluster of {:g} saves", N), {},
           100 * cluster_saving(1, std::pow(N, -beta), first->bandwidth->value, cluster.bandwidth->value),
           "%", {"A3", "A4"}, "of the M-dependent term's time");
    }
  }

  void intensity(const Canonical& c) {
    const MemoryLevel* first = machine_.levels.size() > 1 ? &machine_.levels[1] : nullptr;
    Expr operations = 0;
    DType dtype = DType::f32;
    bool on_matrix = false;
    for (const Operation& op : m_.operations) {
      if (op.unit != Unit::Matrix) continue;
      on_matrix = uses_matrix_unit(machine_, op);
      operations = operations + Expr(2) * op.each * smooth_repeats(p_, t_, m_.symbols, op.kernel, op.loop);
      dtype = op.dtype;
    }
    operations = expand(operations);
    if (operations.is_constant(0) || !first || !first->bandwidth) return;
    MaybeFigure rate = on_matrix ? machine_.matrix.at(dtype).rate : machine_.fma_f32;
    if (rate && on_matrix) rate->value /= matrix_products(dtype);
    section("arithmetic intensity");
    smooth("operations K of products", operations, "op", {"A2"});
    const Expr h = m_.smooth.memory.loaded + m_.smooth.memory.stored;
    const auto k = number(operations), bytes_moved = number(h);
    if (k && bytes_moved && *bytes_moved > 0)
      line("K / H of this plan", {}, *k / *bytes_moved, "op/byte", {"A1", "A2"});
    if (!rate) {
      line("balance", {}, {}, "", {}, machine_.missing("rates.fma_f32"));
      return;
    }
    const double balance_of = rate->value / first->bandwidth->value;
    line("machine", {}, balance_of, "op/byte", {"A14"},
         fmt::format("{} over {}", quantity(rate->value, "op/s"),
                     quantity(first->bandwidth->value, "bytes/s")));
    Bindings widths;
    for (const auto& [d, sym] : m_.symbols.width) widths[sym] = bytes(d);
    for (const auto& [sym, n] : m_.symbols.literal) widths[sym] = double(n);
    for (const BalancePoint& b : balance(m_.leading ? *m_.leading : c, operations, widths, 1 / balance_of)) {
      const bool memory = b.symbol == c.memory || (m_.leading && b.symbol == m_.leading->memory);
      line(fmt::format("balanced where {} >=", memory ? "M" : axis_name(b.symbol)), b.per_operation, b.value,
           memory ? "bytes" : "", {"A1", "A2", "A3", "A4", "A7"}, "its term of H* alone");
    }
  }

  std::string axis_name(Sym size) const {
    for (const Axis& a : p_.axes)
      if (a.index.size() == size) return a.name();
    return size.name();
  }

  void tiles() {
    const auto best = best_tiles(m_, machine_, values_);
    if (!best) return;
    section("best tiles in whole numbers, by search");
    for (const auto& [sym, n] : best->tiles)
      line(sym.name(), {}, double(n), "", {"A1", "A15"},
           fmt::format("a multiple of {}; the plan has {}", best->multiple.at(sym),
                       m_.symbols.values.at(sym)));
    if (complete_) line("transfers", {}, best->transfers, "bytes", {"A1"});
    line("shared", {}, best->shared, "bytes", {"A15"});
    if (machine_.gpu) line("registers", {}, best->registers, "bytes", {"A15"});
  }

  void work() {
    section("work of one chunk of one block");
    for (const Operation& op : m_.operations) {
      if (!op.loop) continue;
      const char* unit = op.unit == Unit::Matrix    ? "multiply-adds"
                         : op.unit == Unit::Special ? "results"
                                                    : "instructions";
      std::string note = short_text(op.what);
      if (!op.masked) note += " (chunks without a test)";
      if (!op.plain) note += " (masked chunks)";
      const bool product = op.unit == Unit::Matrix, on_matrix = product && uses_matrix_unit(machine_, op);
      line(product ? fmt::format("{} {}", on_matrix ? "matrix" : "vector", name(op.dtype)) : name(op.unit),
           op.each, exact(op.each), unit,
           op.unit == Unit::Matrix ? Keys{} : Keys{op.unit == Unit::Special ? "A8" : "A9", "A10"}, note);
    }
  }

  static std::string short_text(const std::string& s) {
    if (s.size() <= 60) return s;
    size_t end = 57;
    while (end > 0 && (static_cast<unsigned char>(s[end]) & 0xC0) == 0x80) --end;
    return s.substr(0, end) + "…";
  }

  void clocks() {
    const auto budget = clock_budget(m_, machine_, values_);
    if (!budget) {
      if (machine_.gpu && !machine_.clock) {
        section("clocks of a core for one chunk");
        line("not priced", {}, {}, "", {}, machine_.missing("rates.clock"));
      }
      return;
    }
    section(budget->rows == 1
                ? "clocks of a core for one chunk of one block"
                : fmt::format("clocks of a core for one chunk of one block of {} rows", budget->rows));
    const Keys keys{"A6", "A7", "A8", "A9", "A10", "A14"};
    auto clocks_line = [&](const std::string& name, double clocks, const std::string& note) {
      if (clocks > 0)
        line(name, {}, clocks, "clocks", keys,
             budget->rows == 1 ? note
                               : fmt::format("{:.3g} a row{}{}", clocks / double(budget->rows),
                                             note.empty() ? "" : "; ", note));
      else
        line(name, {}, {}, "", keys, "not priced" + (note.empty() ? "" : "; " + note));
    };
    for (const ClockLine& l : budget->lines) clocks_line(l.role, l.clocks, short_text(l.what));
    if (budget->matrix > 0) clocks_line("all of matrix", budget->matrix, "");
    if (budget->special > 0) clocks_line("all of special", budget->special, "");
    if (budget->vector > 0) clocks_line("all of vector", budget->vector, "");
    if (budget->matrix > 0) {
      line("rate if products never wait", {}, budget->matrix_bound, "op/s", keys);
      line("share of it without overlap", {},
           100 * utilisation(budget->matrix, budget->special + budget->vector), "%", keys);
    }
  }

  void occupancy() {
    const Occupancy& o = r_.prediction->occupancy;
    section("occupancy and waves");
    const Keys keys{"A12", "A15"};
    auto bound = [&](const char* name, double n) {
      if (n > 0) line(name, {}, n, "", keys, "blocks a core");
    };
    bound("by shared memory", o.by_shared);
    bound("by registers", o.by_registers);
    bound("by threads", o.by_threads);
    bound("by blocks", o.by_blocks);
    line("blocks a core", {}, double(o.blocks_per_core), "", keys,
         o.fits ? fmt::format("limit: {}", o.limit) : "the block does not fit");
    line("blocks", m_.blocks[0], double(o.blocks), "", {}, fmt::format("{} at a time", o.slots));
    if (o.blocks == 0) return;
    line("waves", {}, double(o.waves), "", keys);
    line("efficiency", {}, 100 * o.efficiency, "%", keys,
         o.sorted   ? "masks make blocks unlike, the heaviest start first: average over average and the "
                      "lightest block"
         : o.uneven ? "masks make blocks unlike: average over average and the heaviest block"
                    : "blocks over what all cores would do that had as many as the busiest");
  }

  void times() {
    section("time of each resource alone");
    for (const ResourceTime& r : r_.prediction->resources) {
      if (r.amount == 0) continue;
      Keys keys = r.kind == ResourceTime::Kind::Transfer  ? Keys{"A1", "A11", "A14"}
                  : r.kind == ResourceTime::Kind::Compute ? machine_.gpu
                                                                ? Keys{"A7", "A8", "A9", "A10", "A12", "A14"}
                                                                : Keys{"A7", "A9", "A10", "A12", "A14", "A16"}
                  : r.kind == ResourceTime::Kind::Wait ? Keys{"A6"}
                                                          : Keys{"A14"};
      const std::string amount = r.unit == "bytes" ? quantity(r.amount, "bytes")
                                 : r.amount == 1   ? "1 " + r.unit.substr(0, r.unit.size() - 1)
                                                   : fmt::format("{:.4g} {}", r.amount, r.unit);
      if (r.rate > 0)
        line(r.name, {}, r.seconds, "s", keys, amount);
      else
        line(r.name, {}, {}, "", keys, fmt::format("{}; not priced: {}", amount, r.unpriced));
    }
    section("prediction");
    const Prediction& p = *r_.prediction;
    const Keys keys{"A5", "A6", "A12", "A14"};
    if (p.serial <= 0) {
      line("time", {}, {}, "", {}, "nothing is priced");
      return;
    }
    line("everything overlaps", {}, p.overlapped, "s", keys);
    line("units wait for each other", {}, p.serial, "s", keys);
    line("predicted", {}, p.predicted, "s", keys,
         fmt::format("{} computing group{} a core; bound by {}", p.groups, p.groups == 1 ? "" : "s",
                     p.bound_by));
    if (p.operations > 0) line("products at", {}, p.operations / p.predicted, "op/s", keys);
    const double bytes_moved = array_bytes_stored();
    if (bytes_moved > 0)
      line("arrays at", {}, bytes_moved / p.predicted, "bytes/s", keys, "inputs and outputs, each once");
  }

  double array_bytes_stored() const {
    double sum = 0;
    auto add = [&](DType dtype, const std::vector<Sym>& axes) {
      double n = bytes(dtype);
      for (Sym a : axes) {
        auto it = values_.find(a.size());
        n *= it == values_.end() ? 0 : double(it->second);
      }
      sum += n;
    };
    for (const Input& in : p_.inputs) add(in.dtype, in.axes());
    for (const Output& out : p_.outputs) add(out.dtype, out.axes());
    return sum;
  }

  const Model& m_;
  const MachineFile& machine_;
  const Program& p_;
  const TileProgram& t_;
  Integers values_;
  Bindings numbers_;
  bool complete_ = false, from_arrays_ = false;
  std::set<Sym> named_;
  Report r_;
};

}  // namespace

Report report(const Model& m, const MachineFile& machine, const std::map<std::string, int64_t>& sizes,
              const std::string& kernel) {
  Report r = Reporter(m, machine, sizes).run(kernel);
  // Sizes print as their axes' names.
  Substitution names;
  for (const Axis& a : m.tiles->axes)
    names.emplace_back(
        a.index.size(),
        Sym::fresh(
            {.name = a.index.name(), .kind = SymbolKind::Variable, .integer = true, .nonnegative = true}));
  for (ReportSection& s : r.sections)
    for (ReportLine& l : s.lines)
      if (l.formula) l.formula = substitute(l.formula, names);
  return r;
}

}  // namespace tilewright
