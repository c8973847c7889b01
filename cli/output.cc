#include "cli/output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <vector>

#include "tilewright/runtime/cache.h"
#include "tilewright/support/error.h"

namespace tilewright::cli {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void output_failed() {
  const int reason = errno;
  if (reason == EPIPE) throw ClosedPipe{};
  throw UserError(Span{}, fmt::format("standard output cannot be written: {}", std::strerror(reason)),
                  "free some space, or send it elsewhere");
}

}  // namespace

void put(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) output_failed();
}

void put_json(const nlohmann::json& j) {
  put(j.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

void tell(const std::string& text) { (void)std::fwrite(text.data(), 1, text.size(), stderr); }

void finish_output() {
  if (std::fflush(stdout) != 0) output_failed();
}

void check_writable(const std::string& option, const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error))
    throw UserError(Span{}, fmt::format("{}: {} is a folder", option, path), "name a file in it");
  fs::path folder = fs::path(path).parent_path();
  if (folder.empty()) folder = ".";
  if (!fs::exists(folder, error))
    throw UserError(Span{}, fmt::format("{}: there is no folder {}", option, folder.string()),
                    "make it, or name another file");
  if (!fs::is_directory(folder, error))
    throw UserError(Span{}, fmt::format("{}: {} is not a folder", option, folder.string()),
                    "name another file");
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    throw UserError(
        Span{},
        fmt::format("{}: the folder {} cannot be written: {}", option, folder.string(), std::strerror(errno)),
        "name a file in another folder");
}

namespace {

/// The same file, or two paths to where none is yet.
bool same_file(const std::string& a, const std::string& b) {
  std::error_code error;
  if (fs::equivalent(a, b, error)) return true;
  const fs::path first = fs::weakly_canonical(fs::absolute(a), error);
  if (error) return false;
  const fs::path second = fs::weakly_canonical(fs::absolute(b), error);
  return !error && first == second;
}

}  // namespace

void OutputFiles::reads(const std::string& what, const std::string& path) { read_.push_back({what, path}); }

void OutputFiles::writes(const std::string& option, const std::string& path) {
  std::error_code none;  // what is read and is no file has a message of its own
  for (const Known& k : read_)
    if (fs::equivalent(k.path, path, none))
      throw UserError(Span{}, fmt::format("{} would overwrite {}, {}", option, k.name, k.path),
                      "name another file");
  for (const Known& k : written_)
    if (same_file(k.path, path))
      throw UserError(Span{}, fmt::format("{} and {} go to the same file {}", k.name, option, path),
                      "name a file for each");
  written_.push_back({option, path});
}

void write_text(const std::string& path, const std::string& text) {
  if (!write_file_atomically(path, std::vector<char>(text.begin(), text.end())))
    throw UserError(Span{}, fmt::format("{} cannot be written", path),
                    "check the folder, its permissions and the free space");
}

}  // namespace tilewright::cli
