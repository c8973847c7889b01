#include "tilewright/driver/prove.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "tilewright/runtime/process.h"
#include "tilewright/support/error.h"

namespace tilewright {
namespace {

namespace fs = std::filesystem;

/// A file that is gone when its owner is.
struct Temporary {
  std::string path;
  explicit Temporary(const std::string& text) {
    path = (fs::temp_directory_path() / "tilewright-XXXXXX").string();
    const int fd = mkstemp(path.data());
    if (fd >= 0) close(fd);
    if (fd < 0 || !(std::ofstream(path) << text).flush())
      throw UserError(Span{}, fmt::format("cannot write {}", path),
                      "free some space there, or name another folder in TMPDIR");
  }
  ~Temporary() { unlink(path.c_str()); }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
};

std::string z3() {
  const char* named = std::getenv("TILEWRIGHT_Z3");
  return named != nullptr && *named != 0 ? named : "z3";
}

}  // namespace

std::vector<Check> ask_z3(const SmtFile& file) {
  constexpr int milliseconds = 10000;
  const Temporary script(file.text);
  std::string answers;
  const int status = run_command({z3(), "-smt2", fmt::format("-t:{}", milliseconds), script.path}, answers);
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
  TW_CHECK(out.size() == file.checks.size(), fmt::format("z3 did not answer every check: {}", answers));
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
