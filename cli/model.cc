// tilewright model: the performance model of a program's kernels on a machine.
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/machine.h"
#include "cli/output.h"
#include "tilewright/driver/compiled.h"
#include "tilewright/driver/launcher.h"
#include "tilewright/model/report.h"

namespace tilewright::cli {

namespace {

struct ModelOptions {
  Options program;
  MachineChoice machine;
  bool latex = false, markdown = false;
};

/// The kernels of the program. Where a GPU has none of it, `refused` receives why, and they are those of the interpreter, which asks for none.
CompiledProgram compiled_for(const Program& p, const CompileOptions& given, std::string& refused) {
  if (given.target != Target::Cuda) return compile_program(p, given);
  try {
    CompiledProgram c = compile_program(p, given);
    for (const Compilation& kernel : c.kernels)
      for (const GuardedPlan& g : kernel.plans) {
        const TileProgram t = lower(kernel, g.plan);
        refuse_checked_divisions(kernel, t, Target::Cuda);
        lower_mapped(kernel, t, Target::Cuda, LayoutClass::Aligned);
      }
    return c;
  } catch (const UserError& e) {
    if (!given.schedule.empty()) throw;  // the schedule may be what is wrong
    refused = e.diagnostics()[0].what;
  }
  CompileOptions interpreted = given;
  interpreted.target = Target::Interp;
  return compile_program(p, interpreted);
}

}  // namespace

void add_model(CLI::App& app, int& status) {
  auto o = std::make_shared<ModelOptions>();
  CLI::App* verb = app.add_subcommand(
      "model", "print what a plan moves, holds and takes on a machine, as formulas and in numbers");
  add_program(*verb, o->program);
  add_schedule(*verb, o->program);
  add_machine(*verb, o->machine, "h200");
  add_json(*verb, o->program.json);
  verb->add_flag("--latex", o->latex, "print LaTeX for a paper (amsmath) instead of text")
      ->excludes("--json");
  verb->add_flag("--markdown", o->markdown, "print Markdown instead of text")
      ->excludes("--json")
      ->excludes("--latex");
  add_examples(*verb,
               {"tilewright model examples/napkin/attention.tw",
                "tilewright model examples/pf_causal.tw --machine h100-sxm --size b=1,h=32,i=4096,j=4096",
                "tilewright model bench/product.tw --machine this.toml --size i=2048,k=2048,j=2048 --json",
                "tilewright model examples/pf_gqa.tw --schedule 'group g=4, i=32; stream j=64' --markdown"});
  verb->callback([o, &status] {
    Target target = Target::Interp;
    const MachineFile machine = chosen_machine(o->machine, "h200", target);
    std::map<std::string, int64_t> sizes;
    const Program p = load(o->program, sizes);
    const CompileOptions options = options_on(machine, o->machine, target, o->program, p);
    std::string refused;
    const CompiledProgram c = compiled_for(p, options, refused);
    std::vector<Report> reports;
    double seconds = 0, operations = 0;
    bool all = true;
    for (size_t k = 0; k < c.kernels.size(); ++k) {
      const Compilation& kernel = c.kernels[k];
      const TileProgram tiles = lower(kernel, plan_for(kernel, sizes));
      const Model m = model_of(kernel.elaborated, tiles);
      reports.push_back(report(m, machine, sizes, c.several() ? c.name_of(k) : ""));
      if (!refused.empty())
        reports.back().sections.insert(
            reports.back().sections.begin(),
            {"no kernel",
             {{"--target cuda",
               {},
               {},
               "",
               fmt::format("refused: {}; priced is the plan that it would have", refused),
               {}}}});
      const auto& prediction = reports.back().prediction;
      all = all && prediction && prediction->serial > 0;
      if (prediction) seconds += prediction->predicted, operations += prediction->operations;
    }
    if (o->program.json) {
      nlohmann::ordered_json j{
          {"program", p.name}, {"machine", machine.name}, {"kernels", nlohmann::ordered_json::array()}};
      for (const Report& r : reports) j["kernels"].push_back(to_json(r));
      if (!refused.empty()) j["refused"] = refused;
      if (all) j["seconds"] = seconds;
      j["assumptions"] = assumptions_json(reports);
      put_json(j);
    } else {
      std::string text;
      for (const Report& r : reports)
        text += (text.empty() ? "" : "\n") + (o->latex      ? to_latex(r)
                                              : o->markdown ? to_markdown(r)
                                                            : to_text(r));
      if (c.several() && all && !o->latex && !o->markdown)
        text += fmt::format("\nall {} kernels: {}\n", c.kernels.size(), quantity(seconds, "s"));
      put(text + (o->latex      ? assumptions_latex(reports)
                  : o->markdown ? assumptions_markdown(reports)
                                : assumptions_text(reports)));
    }
    status = 0;
  });
}

}  // namespace tilewright::cli
