// Files that the user names for reading: never waited for, never read without end.
#pragma once
#include <cstdint>
#include <string>

namespace tilewright {

/// A program or a schedule in a file is at most this long.
constexpr uint64_t largest_text = uint64_t{16} << 20;

/// An open regular file. Folders, pipes, devices and sockets are not opened: they have no length, and reading them may take for ever.
class InputFile {
 public:
  explicit InputFile(const std::string& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  bool missing() const { return missing_; }  ///< nothing has that name
  /// Why it cannot be read ("it is a folder", "Permission denied"); empty where it can.
  const std::string& problem() const { return problem_; }
  /// What to do about it, where that is not to name another file; else empty.
  const std::string& remedy() const { return remedy_; }
  uint64_t bytes() const { return bytes_; }
  /// The next `n` bytes; false where the file ends before, or the disk reports an error.
  bool read(void* to, uint64_t n);
  /// All of it, as a text of at most largest_text bytes; where that fails, problem() and remedy() say why and the result is empty.
  std::string text();

 private:
  int file_ = -1;
  bool missing_ = false;
  std::string problem_, remedy_;
  uint64_t bytes_ = 0;
};

/// Why a file's content is no text: "byte 7 is NUL", "byte 7 is not UTF-8"; empty of a text.
std::string why_no_text(const std::string& content);

/// Bytes of memory that this process may use: that of the machine, or less where it is confined to less.
uint64_t memory_of_machine();

}  // namespace tilewright
