#include "cli/machine.h"

#include <fmt/format.h>

#include "tilewright/search/plan_file.h"

namespace tilewright::cli {

namespace {

/// UserError where a target does not run on the machine.
void expect_runs_on(const std::string& target, const MachineFile& machine, const std::string& hint) {
  if ((target == "cpu") == machine.gpu)
    throw UserError(Span{}, fmt::format("--target {} does not run on {}", target, machine.name), hint);
}

}  // namespace

void add_machine_of_target(CLI::App& verb, std::string& machine) {
  verb.add_option(
          "--machine", machine,
          "a machine that `hardware list` prints, or a file (default: this-cpu; with another --target: h200)")
      ->type_name("NAME|FILE");
}

MachineFile machine_of_target(const std::string& named, const std::string& target) {
  MachineFile machine = find_machine(!named.empty() ? named : target == "cpu" ? "this-cpu" : "h200");
  expect_runs_on(target, machine,
                 fmt::format("write --target {}, or leave --machine out", machine.gpu ? "cuda" : "cpu"));
  return machine;
}

void add_machine(CLI::App& verb, MachineChoice& o, const std::string& fallback) {
  verb.add_option("--machine", o.machine,
                  fmt::format("a machine that `hardware list` prints, or a file (default: {})",
                              fallback == "this-cpu" ? "this-cpu; with --target cuda: h200"
                                                     : fallback + "; with --target cpu: this-cpu"))
      ->type_name("NAME|FILE");
  verb.add_option("--target", o.target, "whose default plans: those of the machine, unless given")
      ->type_name("cpu|cuda|interp");
}

MachineFile chosen_machine(const MachineChoice& o, const std::string& fallback, Target& target) {
  if (!o.target.empty()) expect_one_of(o.target, {"cpu", "cuda", "interp"}, "target of the model");
  const std::string name = !o.machine.empty()  ? o.machine
                           : o.target.empty()  ? fallback
                           : o.target == "cpu" ? "this-cpu"
                                               : "h200";
  MachineFile machine = find_machine(name);
  if (!o.target.empty())
    expect_runs_on(
        o.target, machine,
        machine.gpu ? "leave --target out: plans are those of a GPU" : "write --target cpu, or leave it out");
  // The plans of a GPU do not depend on whether its kernels can be emitted, which `--target cuda` asks for.
  target = !machine.gpu ? Target::Cpu : o.target == "cuda" ? Target::Cuda : Target::Interp;
  return machine;
}

CompileOptions options_on(const MachineFile& machine, const MachineChoice& choice, Target target,
                          const Options& o, const Program& p) {
  Options with_target = o;
  with_target.target = name(target);
  CompileOptions c = compile_options(with_target, p);
  if (machine.gpu && !choice.machine.empty()) c.arch = machine.arch;
  // Interpreters take the plans of any target, but a price on a GPU is one of a GPU's plans.
  if (machine.gpu && is_plan_file(c.schedule))
    schedule_of(c.schedule, c.schedule_name, p.name, name(Target::Cuda));
  return c;
}

}  // namespace tilewright::cli
