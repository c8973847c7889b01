// Text in columns on a terminal, and in HTML.
#pragma once
#include <string>
#include <vector>

namespace tilewright::explain {

/// Columns that a text takes on a terminal, each character one.
size_t columns_of(const std::string& s);
/// With spaces up to `width` columns, before it where `right`.
std::string padded(const std::string& s, size_t width, bool right = false);
/// In lines of at most `width` columns, the later ones behind `indent` spaces. A word longer than a line stays whole; spaces inside a line stay.
std::string wrapped(const std::string& s, size_t indent, size_t width);
/// At most `width` columns; what is cut off is marked by "…".
std::string cut(const std::string& s, size_t width);
/// "⁶⁴"
std::string superscript(int64_t n);
/// With &, <, >, " as entities.
std::string escaped(const std::string& s);
/// "a, b and c"
std::string listed(const std::vector<std::string>& items);
/// "1 kernel", "2 kernels"
std::string counted(size_t n, const std::string& what);

struct Table {
  std::string title;
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;
  std::vector<bool> right;  ///< columns of numbers; may be shorter than `head`
};
/// Columns two spaces apart, each line behind `indent` spaces and at most `width` columns: the last column is wrapped.
std::string to_text(const Table& t, size_t indent, size_t width);

}  // namespace tilewright::explain
