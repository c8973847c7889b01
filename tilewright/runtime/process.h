// Commands that are started and waited for.
#pragma once
#include <string>
#include <vector>

namespace tilewright {

/// Runs a command (no shell) without standard input; what it writes to standard output and error is added to `log`. Returns its exit status, 128
/// when a signal ended it, -1 when it could not be started.
int run_command(const std::vector<std::string>& command, std::string& log);

/// Ends the commands that run, and what they have started. None can be started afterwards: for a process that ends.
void stop_commands();

}  // namespace tilewright
