#include "tilewright/runtime/cache.h"

#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

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
  if (!reported.exchange(true)) fmt::print(stderr, "tilewright: {}; kernels are compiled again in each process\n", message);
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

std::optional<std::string> cache_folder() {
  if (disabled()) return std::nullopt;
  std::string folder;
  if (const char* dir = std::getenv("TILEWRIGHT_CACHE_DIR"); dir != nullptr && *dir != 0) {
    folder = dir;
  } else if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg != nullptr && *xdg != 0) {
    folder = std::string(xdg) + "/tilewright";
  } else if (const char* home = std::getenv("HOME"); home != nullptr && *home != 0) {
    folder = std::string(home) + "/.cache/tilewright";
  } else {
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

bool write_file_atomically(const std::string& path, const std::vector<char>& data) {
  static std::atomic<int> counter{0};
  const std::string temporary = fmt::format("{}.{}.{}.tmp", path, getpid(), counter++);
  {
    std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
    out.write(data.data(), static_cast<std::streamsize>(data.size()));
    out.close();
    if (!out) {
      std::error_code ignored;
      fs::remove(temporary, ignored);
      return false;
    }
  }
  std::error_code error;
  fs::rename(temporary, path, error);
  if (error) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    return false;
  }
  return true;
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

std::optional<std::string> cache_put(const std::string& key, const std::string& extension, const std::vector<char>& data) {
  const auto folder = cache_folder();
  if (!folder) return std::nullopt;
  const std::string path = *folder + "/" + key + extension;
  const std::string sum = checksum(data);
  // The checksum is written first: an entry without a matching checksum counts as damaged.
  if (!write_file_atomically(path + ".sum", std::vector<char>(sum.begin(), sum.end())) || !write_file_atomically(path, data)) {
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
      std::string pattern = (fs::temp_directory_path() / "tilewright-XXXXXX").string();
      if (mkdtemp(pattern.data()) == nullptr) {
        throw UserError(Span{}, fmt::format("no temporary folder can be made under {}", fs::temp_directory_path().string()),
                        "free some space, or set TMPDIR to a folder that can be written");
      }
      path = pattern;
    }
    ~Folder() {
      std::error_code ignored;
      if (getpid() == owner) fs::remove_all(path, ignored);
    }
  };
  static const Folder folder;
  return folder.path;
}

}  // namespace tilewright
