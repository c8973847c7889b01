// tilewright run: run on .npy or seeded inputs, time it, write outputs.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/arrays.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "tilewright/driver/compiled.h"
#include "tilewright/driver/launch.h"
#include "tilewright/expr/simplify.h"
#include "tilewright/model/cost.h"

namespace tilewright::cli {

namespace {

nlohmann::json level_json(const LevelBytes& b) { return {{"loaded", b.loaded}, {"stored", b.stored}}; }

/// What the interpreter counted, beside the formulas of the model at the same sizes.
nlohmann::json counts_json(const Session& s) {
  const CompiledProgram& c = s.kernel().compiled();
  const Counts n = s.kernel().counts();
  nlohmann::json j;
  j["counted"] = {{"memory", level_json(n.memory)},
                  {"shared", level_json(n.shared)},
                  {"slow_memory", level_json(n.slow_memory)},
                  {"slow_shared", level_json(n.slow_shared)},
                  {"peak_shared", n.peak_shared},
                  {"peak_registers", n.peak_registers},
                  {"chunks_visited", n.chunks_visited},
                  {"chunks_total", n.chunks_total}};
  // Several kernels: bytes add up, peaks are those of the largest.
  Sizes sizes = s.sizes();
  Cost sum;
  for (const Compilation& kernel : c.kernels) {
    for (const GuardedPlan& g : kernel.plans) {
      if (!g.when.admits(s.sizes())) continue;
      const TileProgram t = lower(kernel, g.plan);
      const Cost cost = tilewright::cost(kernel.elaborated, t);
      bind_added_axes(kernel.program.axes, sizes);
      bind_added_axes(t.axes, sizes);
      const auto add = [](Expr& to, Expr e) { to = to ? simplify(to + e) : e; };
      const auto most = [](Expr& to, Expr e) { to = to ? simplify(max(to, e)) : e; };
      add(sum.memory.loaded, cost.memory.loaded);
      add(sum.memory.stored, cost.memory.stored);
      add(sum.shared.loaded, cost.shared.loaded);
      add(sum.shared.stored, cost.shared.stored);
      most(sum.peak_shared, cost.peak_shared);
      most(sum.peak_registers, cost.peak_registers);
      add(sum.chunks_visited, cost.chunks_visited);
      break;
    }
  }
  // A formula over the bounds of one block, which a step in front finds, has no value of its own.
  const auto entry = [&](Expr e) {
    nlohmann::json value;
    const std::vector<Sym> symbols = free_symbols(e);
    if (std::all_of(symbols.begin(), symbols.end(), [&](Sym x) { return sizes.count(x) != 0; }))
      value = evaluate_integer(e, sizes);
    return nlohmann::json{{"formula", to_string(e)}, {"value", value}};
  };
  j["formulas"] = {
      {"memory_loaded", entry(sum.memory.loaded)},  {"memory_stored", entry(sum.memory.stored)},
      {"shared_loaded", entry(sum.shared.loaded)},  {"shared_stored", entry(sum.shared.stored)},
      {"peak_shared", entry(sum.peak_shared)},      {"peak_registers", entry(sum.peak_registers)},
      {"chunks_visited", entry(sum.chunks_visited)}};
  return j;
}

void print_counts(const nlohmann::json& j) {
  auto line = [&](const char* what, int64_t counted, const char* formula) {
    const nlohmann::json& f = j["formulas"][formula];
    const std::string value = f["value"].is_null() ? "by block" : std::to_string(f["value"].get<int64_t>());
    put(fmt::format("  {:<16} {:>16}  {:>16}  {}\n", what, counted, value, f["formula"].get<std::string>()));
  };
  const nlohmann::json& n = j["counted"];
  put(fmt::format("  {:<16} {:>16}  {:>16}  {}\n", "bytes", "counted", "formula", ""));
  line("memory loaded", n["memory"]["loaded"], "memory_loaded");
  line("memory stored", n["memory"]["stored"], "memory_stored");
  line("shared loaded", n["shared"]["loaded"], "shared_loaded");
  line("peak shared", n["peak_shared"], "peak_shared");
  line("peak registers", n["peak_registers"], "peak_registers");
  line("chunks visited", n["chunks_visited"], "chunks_visited");
}

}  // namespace

void add_run(CLI::App& app, int& status) {
  auto o = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("run", "run on .npy or seeded random inputs, time it, write outputs");
  add_common(*verb, *o);
  add_running(*verb, *o);
  add_integer(
      *verb, "--repeat", [o](int64_t n) { o->repeat = static_cast<int>(n); }, 1, 1000000, 1, "timed runs");
  add_integer(
      *verb, "--warmup", [o](int64_t n) { o->warmup = static_cast<int>(n); }, 0, 1000000, 1,
      "untimed runs before them");
  add_examples(*verb, {"tilewright run examples/pf_causal.tw --size b=1,h=8,i=1024,j=1024 --dtype "
                       "Q=f32,K=f32,V=f32,O=f32 --repeat 10",
                       "tilewright run examples/softmax.tw --input x=x.npy --output P=p.npy",
                       "tilewright run examples/softmax.tw --size r=8,j=5000 --target interp"});
  verb->callback([o, verb, &status] {
    status = [&] {
      std::map<std::string, int64_t> sizes;
      const Program p = load(*o, sizes);
      CompileOptions options = compile_options(*o, p);
      options.recall = true;
      expect_effects(*verb, *o, options.target);
      const SessionOptions s = session_options(*o, p, sizes);
      Session session = make_session(p, options, s);
      const bool interpreted = options.target == Target::Interp || options.target == Target::InterpMapped;
      const Timing t = run_session(session, interpreted ? 0 : o->warmup, o->repeat);
      const auto files = write_outputs(*o, session);
      nlohmann::json j{{"program", p.name},
                       {"target", name(options.target)},
                       {"plan", session.kernel().last_plan()},
                       {"milliseconds", {{"median", t.median}, {"min", t.min}, {"max", t.max}}}};
      for (const Axis& a : p.axes) j["sizes"][a.name()] = session.sizes().at(a.index.size());
      for (const Output& out : p.outputs) {
        const HostArray& a = session.outputs().at(out.sym.name());
        nlohmann::json e{{"name", out.sym.name()}, {"shape", a.shape}, {"dtype", name(a.dtype)}};
        if (auto it = files.find(out.sym.name()); it != files.end()) e["file"] = it->second;
        j["outputs"].push_back(e);
      }
      if (options.target == Target::Interp) j["counts"] = counts_json(session);
      const CompiledProgram& compiled = session.kernel().compiled();
      const WorkspaceLayout workspace = lay_out(compiled.workspaces, session.sizes());
      if (compiled.several())
        j["workspace"] = {{"bytes", workspace.bytes}, {"without_reuse", workspace.separate}};
      if (o->json) {
        put_json(j);
        return 0;
      }
      put(fmt::format("{}  {}  {}\n  plan   {}\n", p.name, name(options.target),
                      sizes_text(p, session.sizes()), plan_lines(session)));
      if (interpreted) {
        put(fmt::format("  interpreted in {:.1f} ms\n", t.median));
      } else {
        put(fmt::format("  time   {:.3f} ms (median of {}; {:.3f} to {:.3f})\n", t.median, o->repeat, t.min,
                        t.max));
      }
      for (const Output& out : p.outputs) {
        const HostArray& a = session.outputs().at(out.sym.name());
        put(fmt::format("  output {} {} [{}]{}\n", out.sym.name(), name(a.dtype), fmt::join(a.shape, ", "),
                        files.count(out.sym.name()) ? " -> " + files.at(out.sym.name()) : ""));
      }
      if (compiled.several())
        put(fmt::format("  arrays between kernels: {} bytes, {} without reuse\n", workspace.bytes,
                        workspace.separate));
      if (options.target == Target::Interp) print_counts(j["counts"]);
      return 0;
    }();
  });
}

}  // namespace tilewright::cli
