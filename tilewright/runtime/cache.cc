#include "tilewright/runtime/cache.h"

#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>

#include "tilewright/support/error.h"

namespace tilewright {

namespace fs = std::filesystem;

namespace {

std::string hex(XXH128_hash_t h) {
  return fmt::format("{:016x}{:016x}", static_cast<uint64_t>(h.high64), static_cast<uint64_t>(h.low64));
}

std::string checksum(const std::vector<char>& data) { return hex(XXH3_128bits(data.data(), data.size())); }

void report_once(const std::string& message) {
  static std::atomic<bool> reported{false};
  if (reported.exchange(true)) return;
  std::fputs(fmt::format("tilewright: {}; kernels are compiled again in each process\n", message).c_str(),
             stderr);
}

/// Files that are being written, by their temporary names, and the temporary folder once it exists.
struct Temporaries {
  std::mutex mutex;
  std::set<std::string> files;
  std::string folder;
};
Temporaries& temporaries() {
  static auto* t = new Temporaries;  // never destroyed: threads may still write while the process ends
  return *t;
}

/// A name that cache_put gives: 32 hexadecimal digits and an extension. Returns the digits, or nothing.
std::string key_of(const std::string& file) {
  const size_t digits = file.find_first_not_of("0123456789abcdef");
  return digits == 32 && file[32] == '.' ? file.substr(0, 32) : "";
}

bool disabled() {
  const char* off = std::getenv("TILEWRIGHT_DISABLE_CACHE");
  return off != nullptr && std::string(off) == "1";
}

}  // namespace

std::string content_key(const std::vector<std::string>& parts) {
  std::string all;
  for (const std::string& p : parts) all += fmt::format("{}:", p.size()) + p;
  return hex(XXH3_128bits(all.data(), all.size()));
}

namespace {

/// Where the cache is, whether or not it exists; empty when nothing says so.
std::string cache_location() {
  if (const char* dir = std::getenv("TILEWRIGHT_CACHE_DIR"); dir != nullptr && *dir != 0) return dir;
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg != nullptr && *xdg != 0)
    return std::string(xdg) + "/tilewright";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != 0)
    return std::string(home) + "/.cache/tilewright";
  return "";
}

/// The files of the cache, with their keys.
std::vector<std::pair<fs::path, std::string>> cache_files(const std::string& folder) {
  std::vector<std::pair<fs::path, std::string>> files;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string key = key_of(it->path().filename().string());
    std::error_code ignored;
    if (!key.empty() && it->is_regular_file(ignored)) files.emplace_back(it->path(), key);
  }
  return files;
}

}  // namespace

CacheContents cache_contents() {
  CacheContents c;
  c.off = disabled();
  c.folder = cache_location();
  if (c.folder.empty()) return c;
  std::set<std::string> keys;
  for (const auto& [path, key] : cache_files(c.folder)) {
    std::error_code error;
    const auto size = fs::file_size(path, error);
    if (!error) c.bytes += static_cast<int64_t>(size);
    const std::string name = path.filename().string();
    if (name.find(compiler_extension) == std::string::npos &&
        name.find(attempts_extension) == std::string::npos)
      keys.insert(key);
  }
  c.kernels = static_cast<int64_t>(keys.size());
  return c;
}

CacheContents cache_clear() {
  const CacheContents before = cache_contents();
  if (before.folder.empty()) return before;
  for (const auto& [path, key] : cache_files(before.folder)) {
    std::error_code error;
    fs::remove(path, error);
    if (error)
      throw UserError(Span{}, fmt::format("{} cannot be removed: {}", path.string(), error.message()),
                      "check the permissions of the folder");
  }
  return before;
}

std::optional<std::string> cache_folder() {
  if (disabled()) return std::nullopt;
  const std::string folder = cache_location();
  if (folder.empty()) {
    report_once("no cache folder: neither TILEWRIGHT_CACHE_DIR nor HOME is set");
    return std::nullopt;
  }
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    report_once(fmt::format("the cache folder {} cannot be made ({})", folder, error.message()));
    return std::nullopt;
  }
  return folder;
}

std::optional<std::vector<char>> read_file(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return std::nullopt;
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  std::vector<char> data((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (in.bad()) return std::nullopt;
  return data;
}

bool write_file_atomically(const std::string& named, const std::vector<char>& data) {
  static std::atomic<int> counter{0};
  std::error_code unknown;
  const fs::file_status status = fs::status(named, unknown);
  if (fs::exists(status) && !fs::is_regular_file(status)) {  // a device or a pipe: never replaced
    if (fs::is_directory(status)) return false;
    std::ofstream out(named, std::ios::binary);
    out.write(data.data(), static_cast<std::streamsize>(data.size()));
    out.close();
    return bool(out);
  }
  const fs::path target = fs::is_symlink(fs::symlink_status(named, unknown))
                              ? fs::weakly_canonical(named, unknown)
                              : fs::path(named);
  const std::string path = target.empty() ? named : target.string();
  const std::string temporary = fmt::format("{}.{}.{}.tmp", path, getpid(), counter++);
  Temporaries& all = temporaries();
  {
    std::lock_guard lock(all.mutex);
    all.files.insert(temporary);
  }
  std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
  out.write(data.data(), static_cast<std::streamsize>(data.size()));
  out.close();
  std::error_code error;
  std::lock_guard lock(all.mutex);
  if (out) fs::rename(temporary, path, error);
  all.files.erase(temporary);
  if (out && !error) return true;
  fs::remove(temporary, error);
  return false;
}

std::optional<std::vector<char>> cache_get(const std::string& key, const std::string& extension) {
  const auto folder = cache_folder();
  if (!folder) return std::nullopt;
  const std::string path = *folder + "/" + key + extension;
  auto data = read_file(path);
  if (!data) return std::nullopt;
  const auto sum = read_file(path + ".sum");
  if (!sum || std::string(sum->begin(), sum->end()) != checksum(*data)) {
    std::error_code ignored;
    fs::remove(path, ignored);
    fs::remove(path + ".sum", ignored);
    return std::nullopt;
  }
  return data;
}

std::optional<std::string> cache_path(const std::string& key, const std::string& extension) {
  if (!cache_get(key, extension)) return std::nullopt;
  return *cache_folder() + "/" + key + extension;
}

std::optional<std::string> cache_put(const std::string& key, const std::string& extension,
                                     const std::vector<char>& data) {
  const auto folder = cache_folder();
  if (!folder) return std::nullopt;
  const std::string path = *folder + "/" + key + extension;
  const std::string sum = checksum(data);
  // The checksum is written first: an entry without a matching checksum counts as damaged.
  if (!write_file_atomically(path + ".sum", std::vector<char>(sum.begin(), sum.end())) ||
      !write_file_atomically(path, data)) {
    report_once(fmt::format("the cache folder {} cannot be written", *folder));
    return std::nullopt;
  }
  return path;
}

const std::string& temporary_folder() {
  struct Folder {
    std::string path;
    pid_t owner;
    Folder() : owner(getpid()) {
      std::error_code none;
      fs::path under = fs::temp_directory_path(none);
      const char* named = std::getenv("TMPDIR");
      if (none && named != nullptr && *named == 0) {
        under = "/tmp";
        none.clear();
      } else if (none) {
        under = named != nullptr ? named : "/tmp";
      }
      std::string pattern = (under / "tilewright-XXXXXX").string();
      if (none || mkdtemp(pattern.data()) == nullptr) {
        throw UserError(Span{}, fmt::format("no temporary folder can be made under {}", under.string()),
                        "free some space, or set TMPDIR to a folder that can be written");
      }
      path = pattern;
      std::lock_guard lock(temporaries().mutex);
      temporaries().folder = path;
    }
    ~Folder() {
      std::error_code ignored;
      if (getpid() == owner) fs::remove_all(path, ignored);
    }
  };
  static const Folder folder;
  return folder.path;
}

void remove_temporaries() {
  Temporaries& all = temporaries();
  all.mutex.lock();  // for good: nothing may be created after this
  std::error_code ignored;
  for (const std::string& file : all.files) fs::remove(file, ignored);
  if (!all.folder.empty()) fs::remove_all(all.folder, ignored);
}

}  // namespace tilewright
