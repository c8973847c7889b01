// The content-addressed cache of compiled kernels.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tilewright {

/// 128-bit hash of the parts, as 32 hexadecimal digits; the parts' lengths are hashed too.
std::string content_key(const std::vector<std::string>& parts);

/// The folder, created when missing; nullopt when caching is off or impossible (the reason is reported once on standard error).
std::optional<std::string> cache_folder();

/// Bytes stored under `key`, when present and undamaged; a damaged entry is removed.
std::optional<std::vector<char>> cache_get(const std::string& key, const std::string& extension);
/// Stores bytes atomically; failures are reported once and otherwise ignored. Returns the path when it was stored.
std::optional<std::string> cache_put(const std::string& key, const std::string& extension,
                                     const std::vector<char>& data);
/// Extensions of entries that count as no kernels: what a compiler said of itself, and what kernels a program was cut into.
inline constexpr const char* compiler_extension = ".compiler";
inline constexpr const char* attempts_extension = ".attempts";
/// Path of an undamaged entry, for loaders that need a file.
std::optional<std::string> cache_path(const std::string& key, const std::string& extension);

/// What the cache holds. Files that no kernel of ours would be stored under are neither counted nor removed.
struct CacheContents {
  bool off = false;     ///< TILEWRIGHT_DISABLE_CACHE=1
  std::string folder;   ///< empty: none can be named, as neither TILEWRIGHT_CACHE_DIR nor HOME is set
  int64_t kernels = 0;  ///< entries, each with its checksum
  int64_t bytes = 0;    ///< of all their files
};
CacheContents cache_contents();
/// Removes every entry; what was removed. UserError naming the file that cannot be removed.
CacheContents cache_clear();

/// A private temporary folder of this process, removed at exit.
const std::string& temporary_folder();
/// Removes the temporary folder and every file that write_file_atomically is writing; later calls of it wait for ever. For a process that ends at once afterwards.
void remove_temporaries();

std::optional<std::vector<char>> read_file(const std::string& path);
/// Writes a temporary beside the file and renames it; false where it cannot. Through a symbolic link the file it names is replaced; a device or
/// a pipe is written to and stays what it is.
bool write_file_atomically(const std::string& path, const std::vector<char>& data);

}  // namespace tilewright
