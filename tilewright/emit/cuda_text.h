// Inside of the CUDA emitter: names, indented text, and pieces of expressions.
#pragma once
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
/// conditions joined by " && ", "" when there are none.
std::string join_and(const std::vector<std::string>& terms);
/// "c * x", "x", "" (c = 0).
std::string times(const std::string& x, int64_t c);

}  // namespace tilewright::cuda_text
