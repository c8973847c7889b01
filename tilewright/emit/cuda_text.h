// Inside of the CUDA emitter: names, indented text, and the helper functions that the emitted source carries.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tilewright/emit/identifiers.h"
#include "tilewright/map/mapped.h"

namespace tilewright::cuda_text {

/// Lines of source with indentation.
class Lines {
 public:
  void line(const std::string& text);
  void open(const std::string& text);  ///< "text {"
  void close(const std::string& tail = "}");
  void chain(const std::string& text);  ///< "} text {"
  void blank() { text_ += "\n"; }
  void append(const Lines& other);  ///< at the current indentation
  const std::string& text() const { return text_; }
  bool empty() const { return text_.empty(); }

 private:
  std::string text_;
  int depth_ = 0;
};

/// Names for the symbols of one kernel, apart from those that the kernel's text uses itself.
Identifiers kernel_names();

/// Helper functions of the emitted source by name; each is printed when it, or one that needs it, was asked for.
class Helpers {
 public:
  /// Marks `name` and what it needs; returns `name`.
  std::string use(const std::string& name);
  /// wgmma of an atom's shape; returns the function's name.
  std::string use_wgmma(int n, DType dtype, bool a_in_registers, bool a_transposed, bool b_transposed);
  /// Bulk copy through a tensor map of `rank` dimensions.
  std::string use_bulk_copy(int rank);
  /// Marks every helper that the text calls.
  void use_from(const std::string& text);
  /// Source of all that was marked.
  std::string text() const;

 private:
  std::set<std::string> used_;
  std::map<std::string, std::string> made_;
};

/// The tiles that e reads, in first-occurrence order.
std::vector<Sym> tiles_in(Expr e);
inline bool power_of_two(int64_t n) { return n > 0 && (n & (n - 1)) == 0; }
/// x / d and x % d of a nonnegative integer, by shifts and masks where possible; "x" must bind tightly.
std::string quotient(const std::string& x, int64_t d);
std::string remainder(const std::string& x, int64_t d);
/// The identifier occurs in the text.
bool mentions(const std::string& text, const std::string& name);
/// terms joined by " + ", "0" when there are none.
std::string join_sum(const std::vector<std::string>& terms);
/// "c * x", "x", "" (c = 0).
std::string times(const std::string& x, int64_t c);

}  // namespace tilewright::cuda_text
