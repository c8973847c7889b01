#include "tilewright/driver/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <list>

#include "tilewright/driver/compiled.h"
#include "tilewright/driver/launch.h"
#include "tilewright/driver/launcher.h"
#include "tilewright/driver/profile.h"
#include "tilewright/expr/simplify.h"
#include "tilewright/runtime/cuda.h"

namespace tilewright {

const char* name(Claim::Verdict v) {
  switch (v) {
    case Claim::Verdict::Holds: return "holds";
    case Claim::Verdict::Refuted: return "refuted";
    case Claim::Verdict::NotMeasured: return "not measured";
  }
  return "";
}

bool Verification::refuted() const {
  return std::any_of(claims.begin(), claims.end(),
                     [](const Claim& c) { return c.verdict == Claim::Verdict::Refuted; });
}

namespace {

/// One kernel with the plan that the sizes choose.
struct Modelled {
  const Compilation* kernel = nullptr;
  std::string name;  ///< of several kernels: what it is called
  Plan plan;
  TileProgram tiles;
  Model model;
};

void judge(Claim& c) {
  if (!c.predicted || !c.found) return;
  const double low = *c.predicted, high = c.upto.value_or(low), found = *c.found;
  // Bytes are integers; what is rounded is a sum of them in f64.
  const double slack = 1e-9 * std::max(std::fabs(low), std::fabs(high));
  const bool above = found >= low - slack, below = found <= high + slack;
  const bool holds = c.kind == Claim::Kind::AtMost    ? below
                     : c.kind == Claim::Kind::AtLeast ? above
                                                      : above && below;
  c.verdict = holds ? Claim::Verdict::Holds : Claim::Verdict::Refuted;
}

class Verifier {
 public:
  Verifier(const Program& p, const CompileOptions& o, const VerifyOptions& v) : p_(p), o_(o), v_(v) {}

  Verification run() {
    compile();
    const Sizes sizes = bind_sizes(p_, {}, v_.session.sizes);
    choose_plans(sizes);
    r_.program = p_.name;
    r_.target = name(o_.target);
    r_.machine = v_.machine.name;
    for (const Modelled& m : kernels_) {
      r_.plan += r_.plan.empty() ? "" : "\n";
      if (!m.name.empty()) r_.plan += fmt::format("kernel {}: ", m.name);
      r_.plan += print(m.kernel->elaborated, m.plan);
    }
    for (const Axis& a : p_.axes) r_.sizes.emplace_back(a.name(), sizes.at(a.index.size()));
    count(sizes);
    for (Modelled& m : kernels_) best_tiles_of(m, sizes);
    time_of(sizes);
    return std::move(r_);
  }

 private:
  void compile() {
    try {
      kernel_ = std::make_shared<Kernel>(p_, o_);
      if (o_.target == Target::Cuda)
        for (const Compilation& c : kernel_->compiled().kernels)
          for (const GuardedPlan& g : c.plans) {
            const TileProgram t = lower(c, g.plan);
            refuse_checked_divisions(c, t, Target::Cuda);
            lower_mapped(c, t, Target::Cuda, LayoutClass::Aligned);
          }
    } catch (const UserError& e) {
      if (o_.target != Target::Cuda) throw;
      refused_ = e.diagnostics()[0].what;
      CompileOptions interpreted = o_;
      interpreted.target = Target::Interp;
      kernel_ = std::make_shared<Kernel>(p_, interpreted);
    }
  }

  void choose_plans(const Sizes& sizes) {
    const CompiledProgram& c = kernel_->compiled();
    for (size_t k = 0; k < c.kernels.size(); ++k) {
      const Compilation& kernel = c.kernels[k];
      Sizes here = sizes;
      bind_added_axes(kernel.program.axes, here);
      const auto plan = std::find_if(kernel.plans.begin(), kernel.plans.end(),
                                     [&](const GuardedPlan& g) { return g.when.admits(here); });
      if (plan == kernel.plans.end())
        throw UserError(Span{}, "no plan admits these sizes",
                        "drop the schedule, raise the capacity, or stream the axis");
      Modelled& m = kernels_.emplace_back();
      m.kernel = &kernel;
      m.name = c.several() ? c.name_of(k) : "";
      m.plan = plan->plan;
      m.tiles = lower(kernel, m.plan);
      m.model = model_of(kernel.elaborated, m.tiles);
    }
  }

  Integers values(const Modelled& m, const Sizes& sizes) const {
    Sizes here = sizes;
    bind_added_axes(m.kernel->program.axes, here);
    Integers v = values_of(m.model, here);
    for (const Param& x : m.kernel->elaborated.params)
      if (const auto it = v_.session.params.find(x.sym.name());
          it != v_.session.params.end() && is_integer(Expr(x.sym)))
        v[x.sym] = int64_t(it->second);
    return v;
  }

  double operations(const Sizes& sizes) const {
    double sum = 0;
    for (const Modelled& m : kernels_)
      for (const ResourceTime& r : predict(m.model, v_.machine, values(m, sizes)).resources)
        sum += r.kind == ResourceTime::Kind::Compute || r.unit == "bytes" ? r.amount : 0;
    return sum;
  }

  /// The given sizes with the longest axis halved until the interpreter can take them.
  std::map<std::string, int64_t> cut_down() const {
    std::map<std::string, int64_t> sizes = v_.session.sizes;
    while (operations(bind_sizes(p_, {}, sizes)) > v_.most_operations) {
      const auto longest = std::max_element(sizes.begin(), sizes.end(),
                                            [](const auto& a, const auto& b) { return a.second < b.second; });
      if (longest == sizes.end() || longest->second < 2) break;
      longest->second = (longest->second + 1) / 2;
    }
    return sizes;
  }

  /// Formulas in the language's syntax, sizes by their axes' names.
  static std::string text(const Modelled& m, Expr e) {
    Substitution names;
    for (const Axis& a : m.tiles.axes)
      names.emplace_back(
          a.index.size(),
          Sym::fresh(
              {.name = a.index.name(), .kind = SymbolKind::Variable, .integer = true, .nonnegative = true}));
    return to_string(substitute(e, names));
  }

  std::string of_kernel(const Modelled& m, const std::string& what) const {
    return m.name.empty() ? what : fmt::format("{}: {}", m.name, what);
  }

  // --- counts

  void count(const Sizes&) {
    SessionOptions s = v_.session;
    s.sizes = cut_down();
    CompileOptions interpreted = o_;
    interpreted.target = Target::Interp;
    const Session session(p_, interpreted, s, kernel_);
    const Sizes sizes = session.sizes();
    for (const Axis& a : p_.axes) r_.counted_sizes.emplace_back(a.name(), sizes.at(a.index.size()));
    std::map<std::string, HostArray> arrays = session.inputs();
    for (const Modelled& m : kernels_) {
      const Program& part = m.kernel->elaborated;
      Sizes here = sizes;
      bind_added_axes(part.axes, here);
      std::map<std::string, ArrayView> inputs;
      for (const Input& in : part.inputs) inputs[in.sym.name()] = arrays.at(in.sym.name()).view();
      std::map<std::string, MutableArray> outputs;
      for (const Output& o : part.outputs) {
        const HostArray a = allocate(o.dtype, shape_of(o.dims, here));
        arrays[o.sym.name()] = a;
        outputs[o.sym.name()] = MutableArray{a.dtype, a.data.get(), a.shape, {}};
      }
      std::map<std::string, double> params;
      for (const Param& x : part.params)
        if (const auto it = v_.session.params.find(x.sym.name()); it != v_.session.params.end())
          params.insert(*it);
      compare(m, here, interpret(part, m.tiles, here, inputs, params, outputs));
    }
  }

  void compare(const Modelled& m, const Sizes& sizes, const Counts& c) {
    const Cost& f = m.model.exact;
    const Integers here = values(m, sizes);
    // Where a step in front finds the chunks of a block, the formulas of the plan that visits every chunk are a bound.
    std::optional<Modelled> every;
    if (m.plan.bounds == BoundsBy::Host || m.plan.bounds == BoundsBy::Device) {
      every.emplace();
      every->kernel = m.kernel;
      every->plan = m.plan;
      every->plan.bounds = BoundsBy::Tested;
      every->tiles = lower(*m.kernel, every->plan);
      every->model = model_of(m.kernel->elaborated, every->tiles);
    }
    const auto claim = [&](const std::string& what, Expr e, Expr bound, int64_t counted,
                           std::vector<std::string> assumes, const std::string& unit) {
      Claim x;
      x.name = of_kernel(m, what);
      x.unit = unit;
      x.assumes = std::move(assumes);
      x.by = "counted";
      x.found = double(counted);
      x.predicted = value_of(e, here);
      x.formula = text(m, e);
      if (!x.predicted && every) {
        x.kind = Claim::Kind::AtMost;
        x.predicted = value_of(bound, values(*every, sizes));
        x.formula = text(*every, bound);
        x.assumes.push_back("A13");
        x.note = "of every chunk, as a bound: the mask reads arrays";
      }
      if (!x.predicted) x.note = "the formula has no value at these sizes";
      judge(x);
      r_.claims.push_back(std::move(x));
    };
    const Cost& b = every ? every->model.exact : f;
    for (size_t k = 0; k < f.loaded_by_tensor.size(); ++k) {
      const auto& [tensor, e] = f.loaded_by_tensor[k];
      const auto found = c.loaded_by_tensor.find(tensor);
      Expr bound = e;
      for (const auto& [other, every_chunk] : b.loaded_by_tensor)
        if (other.name() == tensor.name()) bound = every_chunk;
      claim(fmt::format("H memory, {} loaded", tensor.name()), e, bound,
            found == c.loaded_by_tensor.end() ? 0 : found->second, {"A1"}, "bytes");
    }
    claim("H memory, stored", f.memory.stored, b.memory.stored, c.memory.stored, {"A1"}, "bytes");
    claim("H shared, loaded", f.shared.loaded, b.shared.loaded, c.shared.loaded, {"A1", "A10"}, "bytes");
    claim("H shared, stored", f.shared.stored, b.shared.stored, c.shared.stored, {"A1", "A10"}, "bytes");
    claim("M shared", f.peak_shared, b.peak_shared, c.peak_shared, {"A15"}, "bytes");
    claim("M registers", f.peak_registers, b.peak_registers, c.peak_registers, {"A15"}, "bytes");
    if (!f.chunks_visited.is_constant(0))
      claim("chunks visited", f.chunks_visited, b.chunks_visited, c.chunks_visited, {}, "");
  }

  // --- best tiles

  /// The plan with other tiles; nullopt where they are none of its own, or no plan has them.
  std::optional<Plan> with_tiles(const Modelled& m, const std::map<Sym, int64_t>& tiles) const {
    Plan plan = m.plan;
    for (const auto& [axis, sym] : m.model.symbols.block) {
      const auto n = tiles.find(sym);
      if (n == tiles.end()) continue;
      bool known = axis == plan.stream;
      if (known) plan.chunk = n->second;
      for (Cut& cut : plan.group) {
        if (cut.axis != axis) continue;
        known = true;
        if (cut.piece > 0 && cut.piece < cut.block)
          cut.piece = std::max<int64_t>(1, cut.piece * n->second / cut.block);
        else
          cut.piece = 0;
        cut.block = n->second;
      }
      if (!known) return std::nullopt;
    }
    if (plan.split > 0) plan.split = (plan.split + plan.chunk - 1) / plan.chunk * plan.chunk;
    try {
      check_plan(m.kernel->elaborated, m.kernel->derivation, plan);
    } catch (const UserError&) {
      return std::nullopt;
    }
    return plan;
  }

  /// Bytes that the plan moves at memory; nullopt where it does not fit the machine, or its formulas have no value.
  std::optional<double> moved(const Modelled& m, const Plan& plan, const Sizes& sizes) const {
    const Program& p = m.kernel->elaborated;
    try {
      const TileProgram t = lower(*m.kernel, plan);
      Integers v = values(m, sizes);
      const TileSymbols symbols = tile_symbols(p, t);
      for (const auto& [sym, n] : symbols.values) v[sym] = n;
      for (const auto& [sym, n] : symbols.literal) v[sym] = n;
      const Cost c = cost(p, t);
      const auto loaded = value_of(c.memory.loaded, v), stored = value_of(c.memory.stored, v);
      const MemoryLevel *s = v_.machine.level("shared"), *r = v_.machine.level("registers");
      const double room = s ? (s->per_block ? s->per_block->value : s->capacity ? s->capacity->value : 0) : 0;
      const double held = v_.machine.gpu
                              ? value_of(c.peak_shared, v).value_or(0)
                              : value_of(peaks(t, symbols, Memories::Together).both, v).value_or(0);
      if (!loaded || !stored || held > room) return std::nullopt;
      if (v_.machine.gpu && r && r->capacity &&
          value_of(c.peak_registers, v).value_or(0) > r->capacity->value)
        return std::nullopt;
      return *loaded + *stored;
    } catch (const UserError&) {
      return std::nullopt;
    }
  }

  void best_tiles_of(const Modelled& m, const Sizes& sizes) {
    const auto best = best_tiles(m.model, v_.machine, values(m, sizes));
    if (!best) return;
    Claim x;
    x.kind = Claim::Kind::AtLeast;
    x.unit = "bytes";
    x.assumes = {"A1", "A15"};
    std::string shown;
    for (const auto& [sym, n] : best->tiles)
      shown += fmt::format("{}{}={}", shown.empty() ? "" : ", ", sym.name(), n);
    x.name = of_kernel(m, fmt::format("best tiles {}", shown));
    const auto plan = with_tiles(m, best->tiles);
    if (plan) x.predicted = moved(m, *plan, sizes);
    int tried = 0;
    for (const auto& [sym, n] : best->tiles) {
      const int64_t unit = best->multiple.at(sym);
      for (int64_t other : {n - unit, n + unit, n / 2 / unit * unit, 2 * n}) {
        if (other < unit || other == n || !x.predicted) continue;
        std::map<Sym, int64_t> tiles = best->tiles;
        tiles[sym] = other;
        const auto neighbour = with_tiles(m, tiles);
        const auto bytes = neighbour ? moved(m, *neighbour, sizes) : std::nullopt;
        if (!bytes) continue;
        ++tried;
        x.found = std::min(x.found.value_or(*bytes), *bytes);
      }
    }
    x.by = fmt::format("least of {} neighbours that fit", tried);
    if (!x.predicted)
      x.note = "no plan of this kernel has these tiles, or the mask reads arrays";
    else if (tried == 0)
      x.note = "no neighbour fits";
    judge(x);
    r_.claims.push_back(std::move(x));
  }

  // --- time, and bytes that a profiler counts

  void time_of(const Sizes& sizes) {
    Claim x;
    x.name = "time";
    x.kind = Claim::Kind::Between;
    x.unit = "s";
    x.assumes = {"A5", "A6", "A9", "A12", "A14"};
    x.predicted = 0, x.upto = 0;
    bool priced = true;
    std::map<std::string, double> amounts;
    double stored = 0;
    for (const Modelled& m : kernels_) {
      const Integers here = values(m, sizes);
      const Prediction p = predict(m.model, v_.machine, here);
      priced = priced && p.serial > 0 && complete(m.model, here);
      *x.predicted += p.overlapped;
      *x.upto += p.serial;
      for (const ResourceTime& r : p.resources) amounts[r.name] += r.amount;
      stored += value_of(m.model.exact.memory.stored, here).value_or(0);
    }
    if (!priced) x.predicted = x.upto = std::nullopt;
    const auto why_not = [&]() -> std::string {
      if (v_.repeat <= 0) return "--repeat 0";
      if (!refused_.empty()) return fmt::format("{} refuses the program: {}", r_.target, refused_);
      std::string why;
      if (o_.target == Target::Cuda && !cuda::available(&why)) return why;
      if (!priced)
        return v_.machine.gpu ? "the machine file lacks rates"
                              : fmt::format(
                                    "{} has no rates: write them by tilewright hardware calibrate "
                                    "--output FILE, and pass --machine FILE",
                                    v_.machine.name);
      return "";
    }();
    if (why_not.empty()) {
      Session session(p_, o_, v_.session, kernel_);
      const Timing t = session.run(2, v_.repeat);
      x.found = t.median / 1e3;
      x.by = fmt::format("median of {} runs", v_.repeat);
      x.note = fmt::format("least {}; holds within {:.0f} % of the interval", quantity(t.min / 1e3, "s"),
                           100 * v_.tolerance);
      if (*x.found < v_.shortest) {
        x.note = fmt::format("{} measured: below {} what starts the kernel counts; give larger sizes",
                             quantity(*x.found, "s"), quantity(v_.shortest, "s"));
        x.found = std::nullopt;
      } else {
        Claim wide = x;
        *wide.predicted *= 1 - v_.tolerance;
        *wide.upto *= 1 + v_.tolerance;
        judge(wide);
        x.verdict = wide.verdict;
      }
    } else {
      x.note = why_not;
    }
    r_.claims.push_back(std::move(x));
    if (o_.target == Target::Cuda) profiled(amounts, stored);
  }

  /// The boundaries between levels, by the counters of a GPU.
  void profiled(const std::map<std::string, double>& amounts, double stored) {
    const std::vector<std::string> metrics = {"dram__bytes_read.sum", "lts__t_sectors_srcunit_tex.sum",
                                              "sm__sass_data_bytes_mem_shared.sum"};
    Profile found;
    if (!refused_.empty())
      found.missing = fmt::format("{} refuses the program: {}", r_.target, refused_);
    else
      found = profile(v_.run_command, metrics);
    bool near = false;
    for (size_t k = 1; k < v_.machine.levels.size(); ++k) {
      const MemoryLevel &from = v_.machine.levels[k - 1], &to = v_.machine.levels[k];
      const std::string boundary = fmt::format("{} -> {}", from.name, to.name);
      const auto amount = amounts.find(boundary);
      const bool inside = near;
      near = near || to.role == "shared";
      if (amount == amounts.end()) continue;
      Claim x;
      x.unit = "bytes";
      x.by = "ncu";
      x.predicted = amount->second;
      std::string metric;
      double scale = 1;
      if (from.role == "memory") {
        x.name = fmt::format("{}, read", boundary);
        x.kind = Claim::Kind::Between;
        x.assumes = {"A1", "A11"};
        x.predicted = amount->second - stored;
        metric = metrics[0];
      } else if (!inside) {
        x.name = boundary;
        x.kind = Claim::Kind::Between;
        x.assumes = {"A1"};
        metric = metrics[1], scale = 32;  // bytes of a sector
      } else {
        x.name = boundary;
        x.kind = Claim::Kind::AtMost;
        x.assumes = {"A1", "A10"};
        x.note = "of load and store instructions: matrix units read their operands themselves";
        metric = metrics[2];
      }
      const double middle = *x.predicted;
      if (x.kind == Claim::Kind::Between)
        x.predicted = middle * (1 - v_.tolerance), x.upto = middle * (1 + v_.tolerance);
      const auto value = found.metrics.find(metric);
      if (value != found.metrics.end())
        x.found = value->second * scale;
      else
        x.note = found.missing.empty() ? fmt::format("ncu did not report {}", metric) : found.missing;
      judge(x);
      r_.claims.push_back(std::move(x));
    }
  }

  const Program& p_;
  CompileOptions o_;
  const VerifyOptions& v_;
  std::shared_ptr<Kernel> kernel_;
  std::string refused_;  ///< why the GPU has no kernel of the program
  std::list<Modelled> kernels_;
  Verification r_;
};

}  // namespace

Verification verify(const Program& p, const CompileOptions& o, const VerifyOptions& v) {
  return Verifier(p, o, v).run();
}

namespace {

std::string number(double x, const std::string& unit) {
  if (unit == "s") return quantity(x, "s");
  // Counts are integers, and shown whole.
  return x == std::floor(x) && std::fabs(x) < 1e15 ? fmt::format("{}", int64_t(x)) : fmt::format("{:.6g}", x);
}

std::string prediction_text(const Claim& c) {
  if (!c.predicted) return "-";
  const std::string low = number(*c.predicted, c.unit);
  switch (c.kind) {
    case Claim::Kind::Equal: return low;
    case Claim::Kind::AtMost: return "<= " + low;
    case Claim::Kind::AtLeast: return "no less than " + low;
    case Claim::Kind::Between:
      return c.upto && *c.upto != *c.predicted ? fmt::format("{} to {}", low, number(*c.upto, c.unit)) : low;
  }
  return low;
}

std::string sizes_text(const std::vector<std::pair<std::string, int64_t>>& sizes) {
  std::string text;
  for (const auto& [axis, n] : sizes) text += fmt::format("{}{}={}", text.empty() ? "" : " ", axis, n);
  return text;
}

/// A text's width on a screen: characters of UTF-8.
size_t width(const std::string& s) {
  return size_t(std::count_if(s.begin(), s.end(),
                              [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace

std::string to_text(const Verification& v) {
  std::string text = fmt::format("{}  {}  {}\n", v.program, v.target, sizes_text(v.sizes));
  for (size_t at = 0; at < v.plan.size();) {
    const size_t end = std::min(v.plan.find('\n', at), v.plan.size());
    text += fmt::format("  plan     {}\n", v.plan.substr(at, end - at));
    at = end + 1;
  }
  text += fmt::format("  machine  {}\n", v.machine);
  if (v.counted_sizes != v.sizes)
    text += fmt::format("  counted  at {}, the interpreter being slow; formulas are evaluated there too\n",
                        sizes_text(v.counted_sizes));
  std::vector<std::array<std::string, 5>> rows{{"claim", "assumes", "predicted", "found", "verdict"}};
  for (const Claim& c : v.claims) {
    std::string assumes, found = c.found ? number(*c.found, c.unit) : "-";
    for (const std::string& key : c.assumes) assumes += (assumes.empty() ? "" : " ") + key;
    if (c.found && c.by != "counted") found += ", " + c.by;
    std::string verdict = name(c.verdict);
    if (!c.note.empty()) verdict += (c.verdict == Claim::Verdict::NotMeasured ? ": " : "; ") + c.note;
    rows.push_back({c.name, assumes, prediction_text(c) + (c.unit == "bytes" && c.predicted ? " bytes" : ""),
                    found, verdict});
  }
  size_t widths[5] = {};
  for (const auto& row : rows)
    for (size_t k = 0; k < 5; ++k) widths[k] = std::max(widths[k], width(row[k]));
  text += "\n";
  for (const auto& row : rows) {
    std::string line = " ";
    for (size_t k = 0; k < 5; ++k) {
      line += " " + row[k];
      if (k < 4) line += std::string(widths[k] - width(row[k]) + 1, ' ');
    }
    text += line + "\n";
  }
  int holds = 0, refuted = 0, open = 0;
  for (const Claim& c : v.claims)
    ++(c.verdict == Claim::Verdict::Holds ? holds : c.verdict == Claim::Verdict::Refuted ? refuted : open);
  text += fmt::format("\n  {} hold, {} refuted, {} not measured\n", holds, refuted, open);
  std::vector<std::string> used;
  for (const Claim& c : v.claims) used.insert(used.end(), c.assumes.begin(), c.assumes.end());
  for (const Assumption& a : assumptions())
    if (std::find(used.begin(), used.end(), a.key) != used.end())
      text += fmt::format("  {:<4} {}\n", a.key, a.text);
  return text;
}

nlohmann::ordered_json to_json(const Verification& v) {
  nlohmann::ordered_json j{
      {"program", v.program}, {"target", v.target}, {"machine", v.machine}, {"plan", v.plan}};
  j["sizes"] = j["counted_sizes"] = nlohmann::ordered_json::object();
  for (const auto& [axis, n] : v.sizes) j["sizes"][axis] = n;
  for (const auto& [axis, n] : v.counted_sizes) j["counted_sizes"][axis] = n;
  j["claims"] = nlohmann::ordered_json::array();
  for (const Claim& c : v.claims) {
    const char* const kinds[] = {"equal", "at most", "at least", "between"};
    nlohmann::ordered_json x{{"claim", c.name}, {"kind", kinds[size_t(c.kind)]}, {"assumes", c.assumes}};
    if (!c.formula.empty()) x["formula"] = c.formula;
    if (c.predicted) x["predicted"] = *c.predicted;
    if (c.upto) x["upto"] = *c.upto;
    if (c.found) x["found"] = *c.found, x["by"] = c.by;
    if (!c.unit.empty()) x["unit"] = c.unit;
    x["verdict"] = name(c.verdict);
    if (!c.note.empty()) x["note"] = c.note;
    j["claims"].push_back(x);
  }
  j["refuted"] = v.refuted();
  return j;
}

}  // namespace tilewright
