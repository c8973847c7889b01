// tilewright emit: any value on the way from text to source.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "tilewright/driver/choices.h"
#include "tilewright/program/elaborate.h"

namespace tilewright::cli {

namespace {

const std::vector<std::string> kStages = {"program", "kernels", "plan", "tile", "mapped", "source"};

/// One kernel at a stage behind the plan.
std::string emitted(const Compilation& c, const Plan& plan, const CompileOptions& options,
                    const std::string& stage, const std::string& layout, bool canonical,
                    std::vector<PassTime>& times) {
  const TileProgram tiles = lower(c, plan, &times);
  if (stage == "tile") return print(c.elaborated, tiles, canonical);
  Target target = options.target;
  if (target == Target::InterpMapped) target = options.mapping;
  const MappedProgram mapped = lower_mapped(
      c, tiles, target, layout == "aligned" ? LayoutClass::Aligned : LayoutClass::General, &times);
  return stage == "mapped" ? print(c.elaborated, mapped) : lower_source(c, mapped, &times);
}

/// The arrays between kernels: what they take, where they lie and when they live.
nlohmann::json workspace_json(const CompiledProgram& c) {
  nlohmann::json j{{"alignment", workspace_alignment},
                   {"regions", c.workspaces.regions.size()},
                   {"arrays", nlohmann::json::array()}};
  for (size_t k = 0; k < c.partition.arrays.size(); ++k) {
    const StoredArray& a = c.partition.arrays[k];
    nlohmann::json axes = nlohmann::json::array();
    for (Sym s : a.axes()) axes.push_back(s.name());
    j["arrays"].push_back({{"name", a.sym.name()},
                           {"dtype", name(a.dtype)},
                           {"axes", axes},
                           {"output", a.output},
                           {"bytes", to_string(c.workspaces.bytes[k])},
                           {"region", c.workspaces.region[k] + 1},
                           {"from", a.from + 1},
                           {"until", a.until + 1}});
  }
  return j;
}

}  // namespace

void add_emit(CLI::App& app, int& status) {
  auto o = std::make_shared<Options>();
  auto stage = std::make_shared<std::string>("source");
  auto layout = std::make_shared<std::string>("aligned");
  auto timings = std::make_shared<bool>(false);
  auto canonical = std::make_shared<bool>(false);
  auto output = std::make_shared<std::string>();
  CLI::App* verb = app.add_subcommand(
      "emit", "print the program, its kernels, plans, tile programs, mapped programs or source");
  add_common(*verb, *o);
  add_examples(*verb,
               {"tilewright emit examples/pf_causal.tw --stage tile",
                "tilewright emit examples/pf_causal.tw --stage source --target cuda -o causal.cu",
                "tilewright emit examples/softmax.tw --stage plan --schedule 'stream j=256' --timings"});
  verb->add_option("--stage", *stage, "what to print")
      ->type_name("program|kernels|plan|tile|mapped|source")
      ->capture_default_str();
  verb->add_option("--layout", *layout, "the layout class to map for")
      ->type_name("aligned|general")
      ->capture_default_str();
  verb->add_option("-o,--output", *output, "write the text here (default: standard output)")
      ->type_name("FILE");
  verb->add_flag("--canonical", *canonical, "tile: rename everything by order of occurrence");
  verb->add_flag("--timings", *timings, "print each pass and its time on standard error");
  verb->callback([=, &status] {
    status = [&] {
      expect_one_of(*stage, kStages, "stage");
      expect_one_of(*layout, {"aligned", "general"}, "layout class");
      if (!output->empty()) {
        check_writable("--output", *output);
        files_read(*o).writes("--output", *output);
      }
      std::map<std::string, int64_t> sizes;
      const Program p = load(*o, sizes);
      const CompileOptions options = compile_options(*o, p);
      const bool mapped = *stage == "mapped", emitted_source = *stage == "source";
      for (const char* option : {"--threads", "--device"})
        expect_effect(*verb, option, false, "nothing runs: it is for `run` and `check`");
      for (const char* option : {"--target", "--schedule", "--stream", "--map", "--arch"})
        expect_effect(*verb, option, *stage != "program",
                      "a program is printed before anything is chosen for it");
      expect_effect(*verb, "--map", options.target == Target::InterpMapped && !emitted_source,
                    "it is for --target interp-mapped");
      expect_effect(*verb, "--arch", plan_target(options) == Target::Cuda,
                    "it is for plans and kernels of GPUs: --target cuda, interp, or interp-mapped");
      expect_effect(*verb, "--layout", mapped || emitted_source,
                    "it is for --stage mapped and --stage source");
      expect_effect(*verb, "--canonical", *stage == "tile", "it is for --stage tile");
      const bool maps = options.target == Target::Cpu || options.target == Target::Cuda;
      if ((mapped && options.target == Target::Interp) || (emitted_source && !maps))
        throw UserError(Span{},
                        fmt::format("--target {} has no {}", o->target, mapped ? "mapped program" : "source"),
                        mapped ? "it runs the tile program; write --target cpu, cuda or interp-mapped"
                               : "it runs the program as it is; write --target cpu or --target cuda");
      std::string text;
      std::vector<PassTime> times;
      nlohmann::json kernels = nlohmann::json::array(), workspace, choices;
      auto progress = std::make_unique<Progress>("compiling");
      if (*stage == "program") {
        text = print(p);
      } else {
        const CompiledProgram c = compile_program(p, options);
        times = c.times();
        if (*stage == "plan") text = plan_text(c);
        if (*stage == "kernels") text = choices_text(c, plan_target(options));
        choices = choices_json(c);
        for (size_t k = 0; k < c.kernels.size(); ++k) {
          nlohmann::json one{{"kernel", c.name_of(k)}};
          if (*stage == "plan") {
            for (const GuardedPlan& g : c.kernels[k].plans)
              one["plans"].push_back(print(c.kernels[k].program, g.plan));
          } else {
            const std::string own = *stage == "kernels"
                                        ? print(c.kernels[k].program)
                                        : emitted(c.kernels[k], plan_for(c.kernels[k], sizes), options,
                                                  *stage, *layout, *canonical, times);
            // Each source has its own helpers; in namespaces they are one file that compiles.
            const bool inside = emitted_source && c.several();
            text += heading(c, k, emitted_source ? "//" : "#");
            if (inside) text += fmt::format("namespace kernel_{} {{\n", k + 1);
            text += own;
            if (c.several() && !own.empty() && own.back() != '\n') text += "\n";
            if (inside) text += fmt::format("}}  // namespace kernel_{}\n", k + 1);
            one["text"] = own;
          }
          kernels.push_back(one);
        }
        if (c.several()) workspace = workspace_json(c);
      }
      progress.reset();
      if (*timings) {
        double total = 0;
        for (const PassTime& t : times) {
          tell(fmt::format("{:<12} {:8.3f} ms\n", t.name, t.milliseconds));
          total += t.milliseconds;
        }
        tell(fmt::format("{:<12} {:8.3f} ms\n", "total", total));
      }
      if (!text.empty() && text.back() != '\n') text += "\n";
      if (!output->empty()) write_text(*output, text);
      if (o->json) {
        nlohmann::json j{{"stage", *stage}};
        j[output->empty() ? "text" : "file"] = output->empty() ? text : *output;
        if (kernels.size() > 1) {
          j["kernels"] = kernels;
          j["workspace"] = workspace;
        }
        if (!choices.empty()) j["choices"] = choices;
        for (const PassTime& t : times) j["milliseconds"][t.name] = t.milliseconds;
        put_json(j);
      } else if (output->empty()) {
        put(text);
      }
      return 0;
    }();
  });
}

}  // namespace tilewright::cli
