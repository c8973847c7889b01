// What the command prints: results to standard output, with every failure to write noticed; files that outputs will go to, tried before anything runs.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tilewright::cli {

/// Writes `text` to standard output. A reader that closed the pipe ends the command quietly (ClosedPipe); any other failure is a UserError.
void put(const std::string& text);
/// Writes a JSON object and a newline; bytes that are not UTF-8 (of a file's name) are replaced.
void put_json(const nlohmann::json& j);
/// Writes to standard error, as far as that goes.
void tell(const std::string& text);
/// Flushes standard output, with the errors of put(). Called once at the end of a verb.
void finish_output();

/// Thrown when nobody reads standard output any more; the command exits with 141, as a shell reports SIGPIPE.
struct ClosedPipe {};

/// UserError unless a file can be created or replaced at `path`: its folder exists and can be written, and `path` is no folder. `option` begins the message.
void check_writable(const std::string& option, const std::string& path);

/// The files that one command reads and writes: no output goes to a file that it reads, or to that of another output, by whatever path.
class OutputFiles {
 public:
  /// A file that is read. `what` ends a message: "the program".
  void reads(const std::string& what, const std::string& path);
  /// UserError where an output, named by `option`, would overwrite what is read or another output; else remembers it.
  void writes(const std::string& option, const std::string& path);

 private:
  struct Known {
    std::string name, path;
  };
  std::vector<Known> read_, written_;
};

/// Writes a text file under a temporary name and renames it. UserError naming the file and the reason.
void write_text(const std::string& path, const std::string& text);

}  // namespace tilewright::cli
