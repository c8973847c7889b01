// derive --steps: from a definition to the code of a machine, a rewrite a step.
#pragma once
#include "cli/machine.h"

namespace tilewright::cli {

struct StepsRequest {
  bool asked = false;
  std::string html, kernel;
  MachineChoice machine;
};

/// Adds --steps, --html, --kernel, --machine, --target and --schedule.
void add_steps(CLI::App& verb, Options& o, StepsRequest& steps);
/// UserError for those of them that were given without --steps.
void expect_steps(const CLI::App& verb, const StepsRequest& steps);
/// Prints the steps of the program, or writes them; the exit status.
int print_steps(const Options& o, const StepsRequest& steps);

}  // namespace tilewright::cli
