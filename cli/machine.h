// The machine of the performance model that a command line asks for.
#pragma once
#include "cli/options.h"
#include "tilewright/hardware/machine_file.h"

namespace tilewright::cli {

struct MachineChoice {
  std::string machine, target;  ///< --machine and --target; empty: not given
};

/// Adds --machine and --target. `fallback`: the machine where neither is given.
void add_machine(CLI::App& verb, MachineChoice& o, const std::string& fallback);

/// Adds --machine where --target always has a value.
void add_machine_of_target(CLI::App& verb, std::string& machine);
/// The machine that is named, else the one that the target runs on. UserError where the target does not run on it.
MachineFile machine_of_target(const std::string& named, const std::string& target);

/// Options that compile the plans of `target` on the machine: kernels for GPUs are made for the architecture of a machine that is named. UserError where the schedule is a
/// plan file of another kind of machine.
CompileOptions options_on(const MachineFile& machine, const MachineChoice& choice, Target target,
                          const Options& o, const Program& p);

/// The machine asked for, else the one that the target runs on, else `fallback`; and the target whose plans it gets. UserError where a target does not run on it.
MachineFile chosen_machine(const MachineChoice& o, const std::string& fallback, Target& target);

}  // namespace tilewright::cli
