// The tilewright command, started as a user would.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace tilewright::testing {

struct CommandResult {
  int status = -1;  ///< exit status, or 128 + the signal that ended it
  std::string out, err;
  int64_t peak_bytes = 0;  ///< of resident memory, the largest of the program and of what it waited for
};

/// Runs build/tilewright with `arguments` in `folder` (default: the repository). `environment` adds or replaces variables. `signal` > 0 is sent after `after_ms`.
CommandResult tilewright(const std::vector<std::string>& arguments, const std::string& folder = "",
                         const std::map<std::string, std::string>& environment = {}, int signal = 0,
                         int after_ms = 0);
/// The number at `pointer` ("/counts/0/bytes") of a text in JSON; NaN where there is none.
double number_in_json(const std::string& text, const std::string& pointer);
/// Any program, found on PATH.
CommandResult run_program(const std::vector<std::string>& command, const std::string& folder = "",
                          const std::map<std::string, std::string>& environment = {}, int signal = 0,
                          int after_ms = 0);
/// Path of the command.
std::string command_path();

/// A new empty folder, removed when the test process ends.
std::string new_folder();
void write(const std::string& path, const std::string& text);
std::string read(const std::string& path);
/// Names in a folder, sorted.
std::vector<std::string> list(const std::string& folder);

}  // namespace tilewright::testing
