#include "tilewright/emit/cuda_text.h"

#include <fmt/format.h>

#include <cctype>

namespace tilewright::cuda_text {

void Lines::line(const std::string& text) {
  if (text.empty()) return;
  text_ += std::string(size_t(depth_) * 2, ' ') + text + "\n";
}

void Lines::open(const std::string& text) {
  line(text.empty() ? "{" : text + " {");
  ++depth_;
}

void Lines::close(const std::string& tail) {
  --depth_;
  line(tail);
}

void Lines::chain(const std::string& text) {
  --depth_;
  line("} " + text + " {");
  ++depth_;
}

void Lines::append(const Lines& other) {
  size_t at = 0;
  while (at < other.text_.size()) {
    const size_t end = other.text_.find('\n', at);
    line(other.text_.substr(at, end - at));
    at = end + 1;
  }
}

Identifiers kernel_names() {
  return Identifiers(
      {"K",     "TensorMap",     "a",       "b",      "x",      "y",     "z",     "w",      "k",
       "s",     "block",         "element", "end",    "first",  "group", "lane",  "local",  "local_at",
       "now",   "range",         "signals", "slot",   "thread", "tile",  "to",    "total",  "vote",
       "warp",  "warp_of_block", "words",   "abs",    "erf",    "erff",  "exp",   "exp2",   "exp2f",
       "expf",  "fabs",          "fabsf",   "floor",  "floorf", "fma",   "fmaf",  "fmaxf",  "llabs",
       "log",   "log2",          "log2f",   "logf",   "max",    "min",   "pow",   "powf",   "rint",
       "rintf", "rsqrt",         "rsqrtf",  "sqrt",   "sqrtf",  "tanh",  "tanhf", "a_part", "b_part",
       "pair",  "a_high",        "a_low",   "b_high", "b_low"},
      {"map"});
}

std::vector<Sym> tiles_in(Expr e) {
  std::vector<Sym> out;
  for (Sym t : tensors_read(e))
    if (t.kind() == SymbolKind::Tile) out.push_back(t);
  return out;
}

std::string quotient(const std::string& x, int64_t d) {
  if (d == 1) return x;
  if (power_of_two(d)) return fmt::format("({} >> {})", x, __builtin_ctzll(uint64_t(d)));
  return fmt::format("({} / {})", x, d);
}

std::string remainder(const std::string& x, int64_t d) {
  if (power_of_two(d)) return fmt::format("({} & {})", x, d - 1);
  return fmt::format("({} % {})", x, d);
}

std::string join_sum(const std::vector<std::string>& terms) {
  std::string text;
  for (const std::string& t : terms)
    if (!t.empty() && t != "0") text += (text.empty() ? "" : " + ") + t;
  return text.empty() ? "0" : text;
}

std::string join_and(const std::vector<std::string>& terms) {
  std::string text;
  for (const std::string& t : terms) text += (text.empty() ? "" : " && ") + t;
  return text;
}

bool mentions(const std::string& text, const std::string& name) {
  const auto word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
    const size_t end = at + name.size();
    if ((at == 0 || !word(text[at - 1])) && (end >= text.size() || !word(text[end]))) return true;
  }
  return false;
}

std::string times(const std::string& x, int64_t c) {
  if (c == 0 || x == "0") return "";
  return c == 1 ? x : fmt::format("{} * {}", c, x);
}

}  // namespace tilewright::cuda_text
