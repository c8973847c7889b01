#include "tilewright/driver/prove.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "tilewright/runtime/cache.h"
#include "tilewright/runtime/process.h"
#include "tilewright/support/error.h"

namespace tilewright {
namespace {

namespace fs = std::filesystem;

std::string z3() {
  const char* named = std::getenv("TILEWRIGHT_Z3");
  return named != nullptr && *named != 0 ? named : "z3";
}

std::string first_line(const std::string& text) {
  const std::string line = text.substr(0, std::min(text.find('\n'), size_t{200}));
  return line.empty() ? "nothing" : line;
}

}  // namespace

std::vector<Check> ask_z3(const SmtFile& file) {
  constexpr int milliseconds = 10000;
  static std::atomic<int> asked{0};
  const std::string script = fmt::format("{}/{}.smt2", temporary_folder(), asked++);
  if (!write_file_atomically(script, {file.text.begin(), file.text.end()}))
    throw UserError(Span{}, fmt::format("{} cannot be written", script),
                    "free some space, or set TMPDIR to a folder that can be written");
  std::string answers;
  const int status = run_command({z3(), "-smt2", fmt::format("-t:{}", milliseconds), script}, answers);
  std::error_code ignored;
  fs::remove(script, ignored);
  if (status == -1 || status == 127)
    throw UserError(
        Span{}, fmt::format("z3 cannot be started: `{}`", z3()),
        "install it (on Debian: apt-get install z3) or name it in the environment variable TILEWRIGHT_Z3");
  std::vector<Check> out;
  std::istringstream lines(answers);
  std::string said;
  for (std::string line; std::getline(lines, line);) {
    if (out.size() < file.checks.size() && line == file.checks[out.size()]) {
      out.push_back({line, "z3", false, "no answer"});
    } else if (!out.empty() && out.back().detail == "no answer") {
      out.back().passed = line == "unsat";
      out.back().detail = out.back().passed ? "" : line;
    }
  }
  if (out.size() != file.checks.size())
    throw UserError(Span{},
                    fmt::format("`{}` answered {} of {} checks, and said: {}", z3(), out.size(),
                                file.checks.size(), first_line(answers)),
                    "name a z3 in the environment variable TILEWRIGHT_Z3");
  return out;
}

bool prove_by_z3(const Program& p, Derivation& d) {
  const std::vector<SmtFile> files = to_smt(p, d);
  bool proved = true;
  for (size_t k = 0; k < files.size(); ++k)
    for (Check& c : ask_z3(files[k])) {
      proved = proved && c.passed;
      d.passes[k].state.checks.push_back(std::move(c));
    }
  return proved;
}

std::vector<std::string> write_smt(const Program& p, const Derivation& d, const std::string& folder,
                                   const std::string& name) {
  std::error_code error;
  fs::create_directories(folder, error);
  std::vector<std::string> paths;
  const std::vector<SmtFile> files = to_smt(p, d);
  for (size_t k = 0; k < files.size(); ++k) {
    const std::string file = files.size() == 1 ? name + ".smt2" : fmt::format("{}-{}.smt2", name, k + 1);
    paths.push_back((fs::path(folder) / file).string());
    std::ofstream out(paths.back());
    if (!(out << files[k].text).flush())
      throw UserError(Span{}, fmt::format("cannot write {}", paths.back()),
                      "give --smt a folder that can be written to");
  }
  return paths;
}

}  // namespace tilewright
