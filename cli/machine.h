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

/// The machine asked for, else the one that the target runs on, else `fallback`; and the target whose plans it gets. UserError where a target does not run on it.
MachineFile chosen_machine(const MachineChoice& o, const std::string& fallback, Target& target);

}  // namespace tilewright::cli
