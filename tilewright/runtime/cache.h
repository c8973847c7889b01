// The content-addressed cache of compiled kernels.
#pragma once
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
std::optional<std::string> cache_put(const std::string& key, const std::string& extension, const std::vector<char>& data);
/// Path of an undamaged entry, for loaders that need a file.
std::optional<std::string> cache_path(const std::string& key, const std::string& extension);

/// A private temporary folder of this process, removed at exit.
const std::string& temporary_folder();

std::optional<std::vector<char>> read_file(const std::string& path);
bool write_file_atomically(const std::string& path, const std::vector<char>& data);

}  // namespace tilewright
