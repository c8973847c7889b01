#include "tilewright/program/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>

namespace tilewright {

void Diagnostics::throw_sorted() {
  std::stable_sort(list_.begin(), list_.end(),
                   [](const Diagnostic& a, const Diagnostic& b) { return a.span.begin < b.span.begin; });
  throw UserError(std::move(list_));
}

namespace {

bool starts_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool continues_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Longest first, so that `**` wins over `*`.
const std::vector<std::string> signs = {"**", "//", "==", "!=", "<=", ">=", "->", "(", ")", "[", "]",
                                        ",",  ":",  "=",  "<",  ">",  "+",  "-",  "*", "/", "%"};

// Operators of other languages and what is written here. Longest first.
const std::vector<std::pair<std::string, std::string>> foreign = {
    {"&&", "write `and`"},
    {"||", "write `or`"},
    {"^", "`**` raises to a power"},
    {"&", "write `and` between conditions"},
    {"|", "write `or` between conditions"},
    {"!", "write `not` before a condition, `!=` for unequal"},
    {"~", "write `not` before a condition"},
    {"?", "write `where(condition, x, y)`"},
    {"@", "write the product as a sum over its axis, for example `sum[k](A[i, k] * B[k, j])`"},
    {";", "end a statement with a new line"},
    {"{", "brackets are ( ) and [ ]"},
    {"}", "brackets are ( ) and [ ]"},
    {"\"", "the language has no strings"},
    {"'", "the language has no strings"}};

class Lexer {
 public:
  Lexer(const SourceRef& source, Diagnostics& diagnostics)
      : source_(source), text_(source->text), diagnostics_(diagnostics) {}

  std::vector<Token> run() {
    if (text_.compare(0, 3, "\xEF\xBB\xBF") == 0) at_ = 3;
    while (at_ < text_.size()) next();
    emit(TokenKind::Newline, text_.size(), text_.size());
    emit(TokenKind::End, text_.size(), text_.size());
    return std::move(tokens_);
  }

 private:
  Span span(size_t begin, size_t end) const { return {source_, begin, end}; }
  void emit(TokenKind kind, size_t begin, size_t end, bool real = false) {
    tokens_.push_back({kind, text_.substr(begin, end - begin), real, span(begin, end)});
    at_ = end;
  }
  void bad(size_t end, const std::string& what, const std::string& hint) {
    diagnostics_.add(span(at_, end), what, hint);
    emit(TokenKind::Bad, at_, end);
  }

  void next() {
    const char c = text_[at_];
    if (c == ' ' || (c == '\r' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n')) {
      ++at_;
    } else if (c == '\n') {
      emit(TokenKind::Newline, at_, at_ + 1);
    } else if (c == '#') {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    } else if (c == '\t') {
      tab();
    } else if (starts_name(c)) {
      size_t end = at_;
      while (end < text_.size() && continues_name(text_[end])) ++end;
      emit(TokenKind::Name, at_, end);
    } else if (is_digit(c) || (c == '.' && at_ + 1 < text_.size() && is_digit(text_[at_ + 1]))) {
      number();
    } else {
      sign();
    }
  }

  // One report for a text: whoever indents with tabs does so on every line.
  void tab() {
    if (!tab_reported_) diagnostics_.add(span(at_, at_ + 1), "a tab stands outside a comment", "use spaces");
    tab_reported_ = true;
    ++at_;
  }

  void number() {
    size_t end = at_;
    bool real = false;
    const auto digits = [&] {
      while (end < text_.size() && is_digit(text_[end])) ++end;
    };
    digits();
    if (end < text_.size() && text_[end] == '.') {
      real = true;
      ++end;
      digits();
    }
    if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
      size_t exponent = end + 1;
      if (exponent < text_.size() && (text_[exponent] == '+' || text_[exponent] == '-')) ++exponent;
      if (exponent < text_.size() && is_digit(text_[exponent])) {
        real = true;
        end = exponent;
        digits();
      }
    }
    if (end < text_.size() && (continues_name(text_[end]) || text_[end] == '.')) {
      while (end < text_.size() && (continues_name(text_[end]) || text_[end] == '.')) ++end;
      const std::string word = text_.substr(at_, end - at_);
      bad(end, fmt::format("`{}` is neither a number nor a name", word),
          "numbers read 12, 0.5 or 1e-5; a product needs `*`; names start with a letter");
      return;
    }
    emit(TokenKind::Number, at_, end, real);
  }

  void sign() {
    for (const std::string& s : signs)
      if (text_.compare(at_, s.size(), s) == 0) return emit(TokenKind::Sign, at_, at_ + s.size());
    for (const auto& [spelling, hint] : foreign)
      if (text_.compare(at_, spelling.size(), spelling) == 0)
        return bad(at_ + spelling.size(), fmt::format("`{}` is not part of the language", spelling), hint);
    const std::string character = character_at(text_, at_);
    const unsigned char c = static_cast<unsigned char>(text_[at_]);
    const std::string shown =
        c < 0x20 || c == 0x7F ? fmt::format("character {}", int(c)) : fmt::format("`{}`", character);
    bad(at_ + character.size(), fmt::format("{} is not part of the language", shown),
        c == '\r' ? "a line ends with a newline, or with a carriage return and a newline"
                  : "names are made of the letters a to z and A to Z, digits and `_`; other characters may "
                    "stand in "
                    "comments");
  }

  const SourceRef source_;
  const std::string& text_;
  Diagnostics& diagnostics_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  bool tab_reported_ = false;
};

}  // namespace

std::vector<Token> tokenize(const SourceRef& source, Diagnostics& diagnostics) {
  return Lexer(source, diagnostics).run();
}

}  // namespace tilewright
