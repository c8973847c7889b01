#include "cli/machine.h"

#include <fmt/format.h>

namespace tilewright::cli {

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
  if (!o.target.empty() && (o.target == "cpu") == machine.gpu)
    throw UserError(
        Span{}, fmt::format("--target {} does not run on {}", o.target, machine.name),
        machine.gpu ? "leave --target out: plans are those of a GPU" : "write --target cpu, or leave it out");
  // The plans of a GPU do not depend on whether its kernels can be emitted, which `--target cuda` asks for.
  target = !machine.gpu ? Target::Cpu : o.target == "cuda" ? Target::Cuda : Target::Interp;
  return machine;
}

}  // namespace tilewright::cli
