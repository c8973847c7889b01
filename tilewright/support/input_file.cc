#include "tilewright/support/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include <fmt/format.h>

namespace tilewright {

InputFile::InputFile(const std::string& path) {
  file_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe without a writer is not waited for
  struct stat s;
  if (file_ < 0 || fstat(file_, &s) != 0) {
    missing_ = errno == ENOENT || errno == ENOTDIR;
    problem_ = std::strerror(errno);
    if (errno == EACCES || errno == EPERM) remedy_ = "check its permissions";
    return;
  }
  bytes_ = static_cast<uint64_t>(s.st_size);
  if (S_ISREG(s.st_mode)) return;
  const char* kind = S_ISDIR(s.st_mode)                         ? "folder"
                     : S_ISFIFO(s.st_mode)                      ? "pipe"
                     : S_ISCHR(s.st_mode) || S_ISBLK(s.st_mode) ? "device"
                                                                : "socket";
  problem_ = fmt::format("it is a {}", kind);
  if (!S_ISDIR(s.st_mode)) remedy_ = "save what it gives to a file, and name that";
}

InputFile::~InputFile() {
  if (file_ >= 0) close(file_);
}

bool InputFile::read(void* to, uint64_t n) {
  auto* at = static_cast<char*>(to);
  while (n > 0) {
    const ssize_t got = ::read(file_, at, std::min<uint64_t>(n, uint64_t{1} << 30));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    n -= static_cast<uint64_t>(got);
  }
  return true;
}

std::string InputFile::text() {
  std::string all;
  if (!problem_.empty()) return all;
  if (bytes_ > largest_text) {
    problem_ = fmt::format("it is {} bytes long, and a text has at most {} MiB", bytes_, largest_text >> 20);
    return all;
  }
  all.resize(bytes_);
  if (!read(all.data(), bytes_)) {
    problem_ = "the disk reports an error";
    all.clear();
  }
  return all;
}

std::string why_no_text(const std::string& content) {
  for (size_t k = 0; k < content.size();) {
    const unsigned char c = static_cast<unsigned char>(content[k]);
    if (c == 0) return fmt::format("byte {} is NUL", k);
    const size_t more = c < 0x80 ? 0 : (c >> 5) == 6 ? 1 : (c >> 4) == 14 ? 2 : (c >> 3) == 30 ? 3 : 4;
    bool whole = more < 4 && k + more < content.size();
    for (size_t m = 1; whole && m <= more; ++m)
      whole = (static_cast<unsigned char>(content[k + m]) & 0xC0) == 0x80;
    if (!whole) return fmt::format("byte {} is not UTF-8", k);
    k += more + 1;
  }
  return {};
}

uint64_t memory_of_machine() {
  auto most = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  for (const char* limit : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    uint64_t bytes = 0;
    if (std::ifstream(limit) >> bytes) most = std::min(most, bytes);  // "max" is no number
  }
  return most;
}

}  // namespace tilewright
