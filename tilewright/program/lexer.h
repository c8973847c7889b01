// Words, numbers and signs of a text, with positions.
#pragma once
#include <string>
#include <vector>

#include "tilewright/program/diagnostics.h"

namespace tilewright {

enum class TokenKind : uint8_t {
  Name,     ///< a word, reserved or not
  Number,   ///< digits, with `real` set when there is a point or an exponent
  Sign,     ///< an operator or a bracket: text is its spelling
  Newline,  ///< end of a line, also inside brackets (the parser decides whether it ends a statement)
  Bad,      ///< already reported
  End,
};

struct Token {
  TokenKind kind = TokenKind::End;
  std::string text;
  bool real = false;
  Span span;
  bool is(const char* sign) const { return kind == TokenKind::Sign && text == sign; }
  bool word(const char* w) const { return kind == TokenKind::Name && text == w; }
};

/// All tokens, the last of kind End. Comments and blanks are dropped. Errors (a tab outside a comment, a
/// character or an operator that the language does not have, a malformed number) are added to `diagnostics`
/// and leave a Bad token.
std::vector<Token> tokenize(const SourceRef& source, Diagnostics& diagnostics);

}  // namespace tilewright
