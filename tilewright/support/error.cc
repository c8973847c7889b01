#include "tilewright/support/error.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

namespace tilewright {

int Span::line() const {
  if (!source) return 0;
  const std::string& t = source->text;
  return 1 + int(std::count(t.begin(), t.begin() + std::min(begin, t.size()), '\n'));
}

int Span::column() const {
  if (!source) return 0;
  size_t at = std::min(begin, source->text.size());
  size_t newline = at == 0 ? std::string::npos : source->text.rfind('\n', at - 1);
  return 1 + int(newline == std::string::npos ? at : at - newline - 1);
}

Span Span::join(const Span& a, const Span& b) {
  if (!a) return b;
  if (!b || b.source != a.source) return a;
  return {a.source, std::min(a.begin, b.begin), std::max(a.end, b.end)};
}

namespace {

/// A byte of UTF-8 that does not begin a character.
bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

/// Cuts a long line to what stands around byte `at`, with … where something is left out; `length` bytes from there are marked.
void clip(std::string& line, size_t& at, size_t& length) {
  constexpr size_t kShown = 160, kBefore = 60;
  if (line.size() <= kShown) return;
  size_t from = at > kBefore ? at - kBefore : 0;
  while (from > 0 && continues_character(line[from])) --from;
  size_t to = std::min(line.size(), from + kShown);
  while (to < line.size() && continues_character(line[to])) ++to;
  const std::string before = from > 0 ? "…" : "", after = to < line.size() ? "…" : "";
  length = std::max<size_t>(1, std::min(length, to - std::min(at, to)));
  line = before + line.substr(from, to - from) + after;
  at = at - from + before.size();
}

/// A message that quotes a word of any length stays readable.
std::string shortened(const std::string& what) {
  constexpr size_t kLongest = 2000;
  return what.size() <= kLongest
             ? what
             : what.substr(0, kLongest / 2) + " … " + what.substr(what.size() - kLongest / 4);
}

/// What a program or an argument quotes must not steer the terminal: control characters appear as their pictures (U+2400 and on), tabs and newlines as they are.
std::string printable(const std::string& text) {
  std::string shown;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == 0x7F)
      shown += "\u2421";
    else if (byte >= 0x20 || c == '\n' || c == '\t')
      shown += c;
    else
      shown += fmt::format("\xE2\x90{}", static_cast<char>(0x80 + byte));
  }
  return shown;
}

}  // namespace

std::string character_at(const std::string& text, size_t at) {
  size_t end = std::min(at + 1, text.size());
  while (end < text.size() && continues_character(text[end])) ++end;
  return text.substr(std::min(at, end), end - std::min(at, end));
}

std::string Diagnostic::render() const {
  std::string out;
  const std::string message = shortened(what);
  if (!span) {
    out = fmt::format("error: {}\n", message);
  } else {
    const std::string& text = span.source->text;
    size_t column = size_t(span.column());
    out = fmt::format("{}:{}:{}: error: {}\n", span.source->name, span.line(), column, message);
    size_t start = std::min(span.begin, text.size()) - (column - 1);
    size_t stop = std::min(text.find('\n', start), text.size());
    std::string line = text.substr(start, stop - start);
    if (!line.empty() && line.back() == '\r') line.pop_back();
    size_t length =
        std::max<size_t>(1, std::min(span.end, stop) - std::min(span.begin, std::min(span.end, stop)));
    size_t at = column - 1;
    clip(line, at, length);
    std::string marks;
    for (size_t k = 0; k < at && k < line.size(); ++k)
      if (!continues_character(line[k])) marks += line[k] == '\t' ? '\t' : ' ';
    marks += "^";
    for (size_t k = at + 1; k < at + length; ++k)
      if (k >= line.size() || !continues_character(line[k])) marks += '~';
    out += fmt::format("  {}\n  {}\n", line, marks);
  }
  if (!hint.empty()) out += fmt::format("  help: {}\n", hint);
  return printable(out);
}

namespace {
std::string render_all(const std::vector<Diagnostic>& diagnostics) {
  std::string out;
  for (const Diagnostic& d : diagnostics) out += d.render();
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}
}  // namespace

UserError::UserError(Span span, std::string what, std::string hint)
    : UserError(std::vector<Diagnostic>{{std::move(span), std::move(what), std::move(hint)}}) {}

UserError::UserError(std::vector<Diagnostic> diagnostics)
    : std::runtime_error(render_all(diagnostics)), diagnostics_(std::move(diagnostics)) {
  TW_CHECK(!diagnostics_.empty(), "a UserError needs a diagnostic");
}

void fail_check(const char* condition, const char* file, int line, const std::string& message) {
  throw InternalError(fmt::format("{}:{}: internal fault: {} ({})", file, line, message, condition));
}

namespace {
/// Edit distance with swaps of neighbours (optimal string alignment).
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}
}  // namespace

std::string nearest_name(const std::string& name, const std::vector<std::string>& known) {
  constexpr size_t kLongest = 200;  // the distance takes the product of both lengths
  if (name.size() > kLongest) return {};
  size_t limit = std::max<size_t>(1, name.size() / 3);
  std::string best;
  size_t best_distance = limit + 1;
  for (const std::string& candidate : known) {
    if (candidate == name || candidate.size() > name.size() + limit) continue;
    size_t distance = edit_distance(name, candidate);
    // Names of one letter are all one edit apart: such a guess helps nobody unless only the case differs.
    if (distance >= std::max(name.size(), candidate.size())) continue;
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace tilewright
