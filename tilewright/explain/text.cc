#include "tilewright/explain/text.h"

#include <fmt/format.h>

#include <algorithm>

namespace tilewright::explain {

namespace {

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

}  // namespace

size_t columns_of(const std::string& s) {
  return static_cast<size_t>(std::count_if(s.begin(), s.end(), [](char c) { return !continues(c); }));
}

std::string padded(const std::string& s, size_t width, bool right) {
  const size_t n = columns_of(s);
  const std::string space(n < width ? width - n : 0, ' ');
  return right ? space + s : s + space;
}

std::string wrapped(const std::string& s, size_t indent, size_t width) {
  std::string out, line;
  const auto flush = [&] {
    out += (out.empty() ? "" : "\n" + std::string(indent, ' ')) + line;
    line.clear();
  };
  size_t gap = 1;
  for (size_t at = 0; at < s.size();) {
    const size_t end = std::min(s.find(' ', at), s.size());
    const std::string word = s.substr(at, end - at);
    at = end + 1;
    if (word.empty()) {
      ++gap;
      continue;
    }
    if (!line.empty() && indent + columns_of(line) + gap + columns_of(word) > width) flush();
    line += (line.empty() ? "" : std::string(gap, ' ')) + word;
    gap = 1;
  }
  flush();
  return out;
}

std::string cut(const std::string& s, size_t width) {
  if (columns_of(s) <= width) return s;
  size_t end = 0, n = 0;
  while (end < s.size()) {
    if (!continues(s[end]) && ++n == width) break;
    ++end;
  }
  return s.substr(0, end) + "…";
}

std::string superscript(int64_t n) {
  static const char* const digits[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string out;
  for (char c : fmt::format("{}", n)) out += c == '-' ? "⁻" : digits[c - '0'];
  return out;
}

std::string escaped(const std::string& s) {
  std::string out;
  for (char c : s) switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  return out;
}

std::string listed(const std::vector<std::string>& items) {
  std::string out;
  for (size_t k = 0; k < items.size(); ++k)
    out += (k == 0 ? "" : k + 1 == items.size() ? " and " : ", ") + items[k];
  return out;
}

std::string counted(size_t n, const std::string& what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

std::string to_text(const Table& t, size_t indent, size_t width) {
  std::vector<size_t> widths(t.head.size(), 0);
  const auto look = [&](const std::vector<std::string>& row) {
    for (size_t k = 0; k < row.size() && k < widths.size(); ++k)
      widths[k] = std::max(widths[k], columns_of(row[k]));
  };
  look(t.head);
  for (const auto& row : t.rows) look(row);
  std::string out;
  if (!t.title.empty()) out += std::string(indent, ' ') + t.title + "\n";
  const auto put = [&](const std::vector<std::string>& row) {
    std::string line(indent, ' ');
    size_t at = indent;
    for (size_t k = 0; k < row.size(); ++k) {
      const bool last = k + 1 == row.size(), right = k < t.right.size() && t.right[k];
      line += last && !right ? wrapped(row[k], at, width) : padded(row[k], widths[k], right);
      if (!last) line += "  ";
      at += widths[k] + 2;
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    out += line + "\n";
  };
  if (std::any_of(t.head.begin(), t.head.end(), [](const std::string& s) { return !s.empty(); })) put(t.head);
  for (const auto& row : t.rows) put(row);
  return out;
}

}  // namespace tilewright::explain
