// Errors with source positions.
//
// UserError  : the user's mistake. Carries one or more diagnostics, each with what is wrong, where (a Span in a SourceText, or
//              shapes in the text) and what to do. The command prints them and exits with status 2.
// InternalError: a fault of ours, thrown by TW_CHECK. The command exits with status 3.
#pragma once
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace tilewright {

/// A text that positions point into: a file, a schedule given on the command line, a program built in C++.
struct SourceText {
  std::string name;  ///< file name, or "<schedule>", "<builder>"
  std::string text;
};
using SourceRef = std::shared_ptr<const SourceText>;

/// A half-open byte range of a SourceText. A null source means "no position".
struct Span {
  SourceRef source;
  size_t begin = 0, end = 0;
  explicit operator bool() const { return source != nullptr; }
  /// 1-based line and column (in bytes) of `begin`.
  int line() const;
  int column() const;
  /// The smallest span that covers both; the one with a position if the other has none.
  static Span join(const Span& a, const Span& b);
};

/// One message: `file:line:col: error: what`, the line, a caret, then `help: hint` (when not empty).
struct Diagnostic {
  Span span;
  std::string what;
  std::string hint;
  std::string render() const;
};

class UserError : public std::runtime_error {
 public:
  UserError(Span span, std::string what, std::string hint = {});
  explicit UserError(std::vector<Diagnostic> diagnostics);  ///< at least one
  const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }

 private:
  std::vector<Diagnostic> diagnostics_;
};

/// A refusal for lack of room: tiles need more shared memory, task-local memory or registers than there are. Smaller blocks or chunks may fit.
class RoomError : public UserError {
 public:
  using UserError::UserError;
};

class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] void fail_check(const char* condition, const char* file, int line, const std::string& message);

/// The character of UTF-8 that begins at byte `at` of `text`, whole: what a message quotes.
std::string character_at(const std::string& text, size_t at);

/// Nearest of `known` to `name` by edit distance, or "" when none is near (distance > 1/3 of the length, at least 1; names of more than
/// 200 letters have none).
std::string nearest_name(const std::string& name, const std::vector<std::string>& known);

}  // namespace tilewright

/// Checks an invariant of the compiler; a failure is a fault of ours, never of the user.
#define TW_CHECK(condition, message)                                                       \
  do {                                                                                     \
    if (!(condition)) ::tilewright::fail_check(#condition, __FILE__, __LINE__, (message)); \
  } while (false)
