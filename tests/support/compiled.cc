#include "tests/support/compiled.h"

#include <fmt/format.h>

#include <cmath>

#include "tilewright/expr/simplify.h"
#include "tilewright/model/cost.h"
#include "tilewright/program/elaborate.h"

namespace tilewright::testing {
namespace {

Compiled compile_program(Program parsed, const std::string& schedule, Target target, const Machine& gpu) {
  Compiled c;
  c.parsed = std::move(parsed);
  c.program = elaborate(c.parsed);
  c.derivation = derive(c.program, stream_candidates(c.program).at(0));
  c.plan = default_plans(c.program, c.derivation, target, gpu).back().plan;
  if (!schedule.empty()) c.plan = parse_schedule(c.program, c.derivation, schedule, c.plan);
  c.tiles = build_tiles(c.program, c.derivation, c.plan);
  return c;
}

}  // namespace

Compiled compile(const std::string& text, const std::string& schedule, Target target, const Machine& gpu) {
  auto source = std::make_shared<SourceText>(SourceText{"test.tw", text});
  return compile_program(parse_program(source), schedule, target, gpu);
}

Compiled compile_file(const std::string& path, const std::string& schedule, const Overrides& overrides,
                      Target target, const Machine& gpu) {
  return compile_program(load_program(path, overrides), schedule, target, gpu);
}

std::map<std::string, ArrayView> Arrays::views() const {
  std::map<std::string, ArrayView> v;
  for (const auto& [name, a] : inputs) v[name] = a.view();
  return v;
}

Arrays random_inputs(const Program& p, const Sizes& sizes, unsigned seed) {
  Arrays arrays;
  Bindings values;
  for (const auto& [sym, size] : sizes) values[sym] = double(size);
  for (const Input& in : p.inputs) {
    TestArray& a = arrays.inputs[in.sym.name()] = random_array(in.dtype, shape_of(in.dims, sizes), seed++);
    if (is_float(in.dtype)) continue;
    std::mt19937 gen(seed);
    int64_t lo = in.range ? int64_t(evaluate(in.range.lo, values)) : 0,
            hi = in.range ? int64_t(evaluate(in.range.hi, values)) : 2;
    for (int64_t i = 0; i < a.elements(); ++i)
      a.set(i, double(lo + int64_t(gen() % uint64_t(std::max<int64_t>(hi - lo, 1)))));
  }
  return arrays;
}

Sizes sizes_of(const Program& p, const std::map<std::string, int64_t>& values) {
  return bind_sizes(p, {}, values);
}

Outcome run_tiles(const Compiled& c, const Sizes& sizes, const Arrays& arrays) {
  Outcome r;
  std::map<std::string, MutableArray> targets;
  for (const Output& o : c.program.outputs) {
    TestArray& a = r.outputs[o.sym.name()] = TestArray(o.dtype, shape_of(o.dims, sizes));
    targets[o.sym.name()] = a.target();
  }
  r.counts = interpret(c.program, c.tiles, sizes, arrays.views(), arrays.params, targets);
  return r;
}

std::string disagreement(const Compiled& c, const Sizes& sizes, const Arrays& arrays, const Outcome& outcome,
                         double slack) {
  Evaluator exact(c.parsed, sizes, arrays.views(), arrays.params, Precision::f64);
  Evaluator naive(c.parsed, sizes, arrays.views(), arrays.params, Precision::naive);
  for (const Output& o : c.parsed.outputs) {
    const std::vector<double> ref = exact.all(o), rough = naive.all(o);
    const TestArray& out = outcome.outputs.at(o.sym.name());
    double error = 0, allowed = 0, atol = 0;
    int64_t worst = -1;
    for (size_t i = 0; i < ref.size(); ++i) {
      const double want = round_to(o.dtype, ref[i]), got = out.at(int64_t(i));
      if (!std::isfinite(want) || !std::isfinite(got)) {
        if (std::isnan(want) ? !std::isnan(got) : want != got)
          return fmt::format("{}[{}] is {}, the reference {}", o.sym.name(), i, got, ref[i]);
        continue;
      }
      if (!is_float(o.dtype)) {
        if (want != got) return fmt::format("{}[{}] is {}, the reference {}", o.sym.name(), i, got, ref[i]);
        continue;
      }
      if (std::fabs(got - ref[i]) > error) error = std::fabs(got - ref[i]), worst = int64_t(i);
      if (std::isfinite(rough[i]))
        allowed = std::max(allowed, std::fabs(round_to(o.dtype, rough[i]) - ref[i]));
      const double shifted = round_to(o.dtype, round_to(o.dtype, ref[i] + 0.3) - 0.3);
      if (std::isfinite(shifted)) atol = std::max(atol, 2 * std::fabs(shifted - ref[i]));
    }
    if (error > slack * (2 * allowed + atol))
      return fmt::format("{}: error {} at {} ({} for {}), naive {}, atol {}", o.sym.name(), error, worst,
                         out.at(worst), ref[size_t(worst)], allowed, atol);
  }
  return {};
}

std::string miscount(const Cost& formula, const Sizes& values, const Counts& counts, bool some) {
  std::string text;
  const auto compare = [&](const std::string& what, int64_t counted, Expr e) {
    for (Sym s : free_symbols(e))
      if (some && !values.count(s)) return;
    const int64_t predicted = evaluate_integer(e, values);
    if (counted != predicted)
      text += fmt::format("{}: counted {}, predicted {} = {}\n", what, counted, predicted, to_string(e));
  };
  compare("memory loaded", counts.memory.loaded, formula.memory.loaded);
  compare("memory stored", counts.memory.stored, formula.memory.stored);
  compare("shared loaded", counts.shared.loaded, formula.shared.loaded);
  compare("shared stored", counts.shared.stored, formula.shared.stored);
  compare("chunks visited", counts.chunks_visited, formula.chunks_visited);
  compare("peak of shared memory", counts.peak_shared, formula.peak_shared);
  compare("peak of registers", counts.peak_registers, formula.peak_registers);
  int64_t sum = 0, listed = 0;
  for (const auto& [tensor, n] : counts.loaded_by_tensor) sum += n;
  for (const auto& [tensor, e] : formula.loaded_by_tensor) {
    const auto it = counts.loaded_by_tensor.find(tensor);
    const int64_t n = it == counts.loaded_by_tensor.end() ? 0 : it->second;
    compare("loaded from " + tensor.name(), n, e);
    listed += n;
  }
  if (sum != listed) text += "an array is counted that no formula names\n";
  return text;
}

std::string miscount(const Compiled& c, const Sizes& sizes, const Arrays& arrays, const Counts& counts) {
  Sizes values = sizes;
  for (const Param& p : c.program.params) {
    if (is_float(p.dtype)) continue;
    auto given = arrays.params.find(p.sym.name());
    values[p.sym] = int64_t(given != arrays.params.end() ? given->second : evaluate(p.value, {}));
  }
  return miscount(cost(c.program, c.tiles), values, counts);
}

}  // namespace tilewright::testing
