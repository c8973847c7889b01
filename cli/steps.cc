#include "cli/steps.h"

#include "cli/output.h"
#include "cli/progress.h"
#include "tilewright/explain/steps.h"

namespace tilewright::cli {

void add_steps(CLI::App& verb, Options& o, StepsRequest& steps) {
  verb.add_flag("--steps", steps.asked,
                "print every step from the definition to hardware, with pseudocode, H and M (docs/steps.md)")
      ->excludes("--latex")
      ->excludes("--prove")
      ->excludes("--smt");
  verb.add_option("--html", steps.html, "with --steps: write them here as one HTML page with pictures")
      ->type_name("FILE");
  verb.add_option("--kernel", steps.kernel, "with --steps: one kernel of several, by an array that it stores")
      ->type_name("NAME");
  add_machine(verb, steps.machine, "h200");
  add_schedule(verb, o);
}

void expect_steps(const CLI::App& verb, const StepsRequest& steps) {
  for (const char* option : {"--html", "--kernel", "--machine", "--target", "--schedule"})
    expect_effect(verb, option, steps.asked, "it is for --steps");
}

int print_steps(const Options& given, const StepsRequest& request) {
  if (!request.html.empty()) {
    check_writable("--html", request.html);
    files_read(given, request.machine.machine).writes("--html", request.html);
  }
  Target target = Target::Interp;
  const MachineFile machine = chosen_machine(request.machine, "h200", target);
  std::map<std::string, int64_t> sizes;
  const Program p = load(given, sizes);
  explain::StepOptions with;
  with.compile = options_on(machine, request.machine, target, given, p);
  with.machine = machine;
  with.sizes = sizes;
  with.kernel = request.kernel;
  with.pictures = given.json || !request.html.empty();
  const CompiledProgram c = [&] {
    Progress progress("deriving");
    return compile_program(p, with.compile);
  }();
  const std::vector<explain::Step> steps = [&] {
    Progress progress("making steps");
    return steps_of(c, with);
  }();
  if (!request.html.empty()) write_text(request.html, to_html(c, with, steps));
  if (given.json) {
    nlohmann::ordered_json j = to_json(c, with, steps);
    if (!request.html.empty()) j["file"] = request.html;
    put_json(j);
  } else if (request.html.empty()) {
    put(to_text(c, with, steps));
  }
  return 0;
}

}  // namespace tilewright::cli
