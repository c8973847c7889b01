// Reads tokens and expressions of the grammar in docs/language.md. The statements stand in parser.cc.
#pragma once
#include <vector>

#include "tilewright/program/lexer.h"
#include "tilewright/program/syntax.h"

namespace tilewright {

class ExpressionParser {
 public:
  ExpressionParser(const SourceRef& source, Diagnostics& diagnostics)
      : tokens_(tokenize(source, diagnostics)), diagnostics_(diagnostics) {}

 protected:
  // Binding strength of binary operators, weakest first.
  enum Level { Or = 1, And, Not, Compare, Sum, Product };
  static int level_of(const Token& t);  // 0: not a binary operator

  // Inside brackets a new line does not end a statement, unless the next line clearly begins one: then a
  // bracket was left open.
  const Token& peek();
  Token take();
  bool accept(const char* sign);
  Token expect(const char* sign, const std::string& hint = {});
  const Token& ahead(size_t n);  // the n-th token after peek()
  // Whether the line after the Newline at `k` begins a statement: a keyword, or NAME[…] … = on that line.
  bool statement_begins(size_t k) const;
  void recover();  // to the end of the statement
  static std::string shown(const Token& t);
  // Fails with "expected `wanted`, found …", or with the bracket that was left open.
  [[noreturn]] void unexpected(const std::string& wanted, std::string hint = {});
  Ident identifier(const std::string& what);  // a name that is not reserved

  // Counts the nesting of recursive calls against nesting_limit.
  struct Nested {
    explicit Nested(ExpressionParser& of) : parser(of) {
      if (++parser.nesting_ > nesting_limit) parser.too_deep(parser.peek().span);
    }
    ~Nested() { --parser.nesting_; }
    ExpressionParser& parser;
  };
  [[noreturn]] void too_deep(const Span& where);
  const Syntax* node(Syntax n);
  const Syntax* expression(int least = Or);  // operators that bind at least as strongly as `least`
  const Syntax* negation(int least);
  const Syntax* unary();
  const Syntax* power();
  const Syntax* primary();
  const Syntax* leaf(Syntax::Kind kind);
  const Syntax* size();
  const Syntax* topk();
  const Syntax* reduction();
  const Syntax* call();
  const Syntax* element();
  bool reads_as_reduction();  ///< a name, axes or indices in square brackets, and a round bracket
  const Syntax* index();

  const std::vector<Token> tokens_;
  Diagnostics& diagnostics_;
  SyntaxTree tree_;
  size_t at_ = 0;
  std::vector<Token> open_;  // brackets not closed yet
  int nesting_ = 0;
};

}  // namespace tilewright
