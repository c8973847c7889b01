// Tokens and expressions: recursive descent, binary operators by precedence climbing.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tilewright/program/parser.h"
#include "tilewright/program/words.h"

namespace tilewright {

int ExpressionParser::level_of(const Token& t) {
  if (t.word("or")) return Or;
  if (t.word("and")) return And;
  if (t.is("==") || t.is("!=") || t.is("<") || t.is("<=") || t.is(">") || t.is(">=")) return Compare;
  if (t.is("+") || t.is("-")) return Sum;
  if (t.is("*") || t.is("/") || t.is("//") || t.is("%")) return Product;
  return 0;
}

const Token& ExpressionParser::peek() {
  if (!open_.empty())
    while (tokens_[at_].kind == TokenKind::Newline && !statement_begins(at_)) ++at_;
  return tokens_[at_];
}

Token ExpressionParser::take() {
  Token t = peek();
  if (t.kind != TokenKind::End) ++at_;
  if (t.is("(") || t.is("[")) open_.push_back(t);
  if ((t.is(")") || t.is("]")) && !open_.empty()) open_.pop_back();
  return t;
}

bool ExpressionParser::accept(const char* sign) {
  if (!peek().is(sign)) return false;
  take();
  return true;
}

Token ExpressionParser::expect(const char* sign, const std::string& hint) {
  if (!peek().is(sign)) unexpected(fmt::format("`{}`", sign), hint);
  return take();
}

const Token& ExpressionParser::ahead(size_t n) {
  peek();
  return tokens_[std::min(at_ + n, tokens_.size() - 1)];
}

bool ExpressionParser::statement_begins(size_t k) const {
  while (tokens_[k].kind == TokenKind::Newline) ++k;
  const Token& t = tokens_[k];
  if (t.kind == TokenKind::End) return true;
  if (t.kind != TokenKind::Name) return false;
  if (is_statement_keyword(t.text)) return true;
  if (tokens_[k + 1].is("=")) return true;  // a left side without axes: an error, but a statement
  if (!tokens_[k + 1].is("[")) return false;
  int depth = 0;
  for (++k; tokens_[k].kind != TokenKind::Newline && tokens_[k].kind != TokenKind::End; ++k) {
    if (tokens_[k].is("(") || tokens_[k].is("[")) ++depth;
    if (tokens_[k].is(")") || tokens_[k].is("]")) --depth;
    if (depth == 0 && tokens_[k].is("=")) return true;
  }
  return false;
}

void ExpressionParser::recover() {
  while (tokens_[at_].kind != TokenKind::End &&
         !(tokens_[at_].kind == TokenKind::Newline && (open_.empty() || statement_begins(at_))))
    ++at_;
  open_.clear();
}

std::string ExpressionParser::shown(const Token& t) {
  switch (t.kind) {
    case TokenKind::End:
    case TokenKind::Newline: return "the end of the line";
    default: return fmt::format("`{}`", t.text);
  }
}

void ExpressionParser::unexpected(const std::string& wanted, std::string hint) {
  const Token& t = peek();
  if (t.kind == TokenKind::Bad) throw StatementAbandoned();  // reported by the lexer
  if ((t.kind == TokenKind::Newline || t.kind == TokenKind::End) && !open_.empty()) {
    const Token& bracket = open_.back();
    diagnostics_.fail(bracket.span, fmt::format("`{}` is not closed", bracket.text),
                      fmt::format("add `{}`", bracket.is("(") ? ")" : "]"));
  }
  if (!open_.empty() && ((t.is(")") && open_.back().is("[")) || (t.is("]") && open_.back().is("(")))) {
    const Token& bracket = open_.back();
    diagnostics_.fail(bracket.span, fmt::format("`{}` is not closed before `{}`", bracket.text, t.text),
                      fmt::format("add `{}`", bracket.is("(") ? ")" : "]"));
  }
  if (hint.empty() && t.is("=")) hint = "`=` defines; `==` compares";
  if (hint.empty() && (t.is(")") || t.is("]")))
    hint = open_.empty() ? "no bracket is open that it could close"
                         : fmt::format("write {} behind `{}`", wanted, tokens_[at_ - 1].text);
  if (hint.empty() && (t.kind == TokenKind::Name || t.kind == TokenKind::Number || t.is("(")) &&
      wanted == "the end of the line")
    hint = "a product needs `*`; a statement ends with its line";
  diagnostics_.fail(t.span, fmt::format("expected {}, found {}", wanted, shown(t)), hint);
}

Ident ExpressionParser::identifier(const std::string& what) {
  const Token& t = peek();
  if (t.kind != TokenKind::Name) unexpected(what);
  const std::string reserved = reserved_as(t.text);
  if (!reserved.empty())
    diagnostics_.fail(t.span, fmt::format("`{}` is {} and cannot be {}", t.text, reserved, what),
                      "choose another name");
  const Token taken = take();
  return {taken.text, taken.span};
}

void ExpressionParser::too_deep(const Span& where) {
  diagnostics_.fail(where, fmt::format("the expression nests deeper than {} levels", nesting_limit),
                    "split it into several definitions");
}

const Syntax* ExpressionParser::node(Syntax n) {
  for (const Syntax* a : n.args) n.depth = std::max(n.depth, a->depth + 1);
  if (n.depth > depth_limit)
    diagnostics_.fail(
        n.name_span,
        fmt::format("more than {} operations depend on each other in one expression", depth_limit),
        "split it into several definitions");
  tree_.nodes.push_back(std::move(n));
  return &tree_.nodes.back();
}

const Syntax* ExpressionParser::expression(int least) {
  const Nested nested(*this);
  const Syntax* left = peek().word("not") ? negation(least) : unary();
  bool compared = false;
  const Syntax* middle = nullptr;
  while (true) {
    const Token& t = peek();
    const int level = level_of(t);
    if (level == 0 || level < least) return left;
    if (level == Compare && compared) {
      const Token op = take();
      const Syntax* right = expression(Compare + 1);
      diagnostics_.fail(op.span, "comparisons do not chain",
                        fmt::format("write `{} and {} {} {}`", source_slice(left->span),
                                    source_slice(middle->span), op.text, source_slice(right->span)));
    }
    const Token op = take();
    const Syntax* right = expression(level + 1);
    if (level == Compare) {
      compared = true;
      middle = right;
    }
    Syntax n;
    n.kind = Syntax::Kind::Binary;
    n.name = op.text;
    n.name_span = op.span;
    n.span = Span::join(left->span, right->span);
    n.args = {left, right};
    left = node(std::move(n));
  }
}

const Syntax* ExpressionParser::negation(int least) {
  if (least > Not)
    diagnostics_.fail(peek().span, "`not` binds weaker than the operator before it",
                      "put it in brackets: (not …)");
  Syntax n;
  n.kind = Syntax::Kind::Not;
  const Token op = take();
  n.args = {expression(Not)};
  n.name_span = op.span;
  n.span = Span::join(op.span, n.args[0]->span);
  return node(std::move(n));
}

const Syntax* ExpressionParser::unary() {
  if (!peek().is("-")) {
    if (peek().is("+")) unexpected("a value", "leave the `+` away");
    return power();
  }
  const Nested nested(*this);
  Syntax n;
  n.kind = Syntax::Kind::Neg;
  const Token op = take();
  if (peek().word("not")) negation(Product);
  n.args = {unary()};
  n.name_span = op.span;
  n.span = Span::join(op.span, n.args[0]->span);
  return node(std::move(n));
}

const Syntax* ExpressionParser::power() {
  const Syntax* base = primary();
  if (!peek().is("**")) return base;
  const Nested nested(*this);
  const Token op = take();
  if (peek().word("not")) negation(Product);
  Syntax n;
  n.kind = Syntax::Kind::Binary;
  n.name = op.text;
  n.name_span = op.span;
  n.args = {base, unary()};
  n.span = Span::join(base->span, n.args[1]->span);
  return node(std::move(n));
}

const Syntax* ExpressionParser::primary() {
  const Token& t = peek();
  if (t.kind == TokenKind::Number) return leaf(Syntax::Kind::Number);
  if (t.is("(")) {
    const Span open = take().span;
    const Syntax* inner = expression();
    if (peek().is(","))
      diagnostics_.fail(peek().span, "a pair is not a value",
                        "the pieces of a composite index stand without commas: (k g)");
    const bool juxtaposed = peek().kind == TokenKind::Name || peek().kind == TokenKind::Number;
    const Span close =
        expect(")", juxtaposed ? "a product needs `*`; a composite (k g) stands only as an index" : "").span;
    Syntax n = *inner;  // the same value; messages show the brackets
    n.span = Span::join(open, close);
    return node(std::move(n));
  }
  if (t.kind != TokenKind::Name) unexpected("a value");
  if (t.word("inf")) return leaf(Syntax::Kind::Inf);
  if (t.word("true")) return leaf(Syntax::Kind::True);
  if (t.word("false")) return leaf(Syntax::Kind::False);
  if (t.word("size")) return size();
  if (t.word("topk") || t.word("argtopk")) return topk();
  if (find_reducer(t.text) && ahead(1).is("[")) return reduction();
  if (find_function(t.text) || parse_dtype(t.text) || (reserved_as(t.text).empty() && ahead(1).is("(")))
    return call();
  if (find_reducer(t.text))
    diagnostics_.fail(t.span, fmt::format("`{}` reduces over axes", t.text),
                      fmt::format("name them: {}[j](…)", t.text));
  if (!reserved_as(t.text).empty()) unexpected("a value");
  return ahead(1).is("[") ? element() : leaf(Syntax::Kind::Name);
}

const Syntax* ExpressionParser::leaf(Syntax::Kind kind) {
  const Token t = take();
  Syntax n;
  n.kind = kind;
  n.name = t.text;
  n.name_span = n.span = t.span;
  n.real = t.real;
  return node(std::move(n));
}

const Syntax* ExpressionParser::size() {
  Syntax n;
  n.kind = Syntax::Kind::Size;
  n.name_span = take().span;
  expect("(", "size(j) is the length of axis j");
  n.idents = {identifier("an axis name")};
  n.span = Span::join(n.name_span, expect(")", "size takes the name of one axis").span);
  return node(std::move(n));
}

const Syntax* ExpressionParser::topk() {
  Syntax n;
  n.kind = Syntax::Kind::TopK;
  const Token word = take();
  const std::string usage =
      fmt::format("it reads {}[v -> n](x): the size of axis n says how many", word.text);
  n.name = word.text;
  n.name_span = word.span;
  expect("[", usage);
  n.idents.push_back(identifier("an axis name"));
  expect("->", usage);
  n.idents.push_back(identifier("an axis name"));
  expect("]", usage);
  expect("(", usage);
  n.args = {expression()};
  n.span = Span::join(word.span, expect(")").span);
  return node(std::move(n));
}

const Syntax* ExpressionParser::reduction() {
  Syntax n;
  n.kind = Syntax::Kind::Reduce;
  const Token word = take();
  n.name = word.text;
  n.name_span = word.span;
  expect("[");
  do n.idents.push_back(identifier("an axis name"));
  while (accept(","));
  expect("]", fmt::format("a reduction reads {}[j](…), over axis names", word.text));
  expect("(", fmt::format("a reduction reads {}[j](…)", word.text));
  n.args = {expression()};
  if (peek().is(","))
    diagnostics_.fail(
        peek().span, fmt::format("`{}[…]` reduces one expression", word.text),
        find_function(word.text) ? fmt::format("the function of several values is {}(x, y)", word.text) : "");
  n.span = Span::join(word.span, expect(")").span);
  return node(std::move(n));
}

const Syntax* ExpressionParser::call() {
  Syntax n;
  n.kind = Syntax::Kind::Call;
  const Token word = take();
  n.name = word.text;
  n.name_span = word.span;
  if (peek().is("["))
    diagnostics_.fail(word.span, fmt::format("`{}` is a function of values and takes no axes", word.text),
                      fmt::format("write {}(…)", word.text));
  expect("(", fmt::format("`{}` takes its argument in round brackets", word.text));
  if (!peek().is(")")) {
    do n.args.push_back(expression());
    while (accept(","));
  }
  n.span = Span::join(word.span, expect(")", "arguments stand with commas between").span);
  return node(std::move(n));
}

bool ExpressionParser::reads_as_reduction() {
  if (!ahead(1).is("[")) return false;
  int depth = 0;
  for (size_t n = 1;; ++n) {
    const Token& t = ahead(n);
    if (t.kind == TokenKind::End || t.kind == TokenKind::Newline) return false;
    if (t.is("[") || t.is("(")) ++depth;
    if (t.is("]") || t.is(")")) --depth;
    if (depth == 0) return ahead(n + 1).is("(");
  }
}

const Syntax* ExpressionParser::element() {
  if (reads_as_reduction()) {  // no element is followed by a bracket
    const Token word = take();
    const std::string near = nearest_name(word.text, reducer_names());
    diagnostics_.fail(
        word.span, fmt::format("no reducer is called `{}`", word.text),
        near.empty() ? fmt::format("a product needs `*`; reducers are {}", fmt::join(reducer_names(), ", "))
                     : fmt::format("did you mean `{}`?", near));
  }
  Syntax n;
  n.kind = Syntax::Kind::Read;
  const Token word = take();
  n.name = word.text;
  n.name_span = word.span;
  expect("[");
  if (!peek().is("]")) {
    do n.args.push_back(index());
    while (accept(","));
  }
  n.span = Span::join(word.span, expect("]", "indices stand with commas between").span);
  return node(std::move(n));
}

const Syntax* ExpressionParser::index() {
  if (!(peek().is("(") && ahead(1).kind == TokenKind::Name && ahead(2).kind == TokenKind::Name &&
        level_of(ahead(1)) == 0 && level_of(ahead(2)) == 0 && reserved_as(ahead(1).text).empty()))
    return expression();
  Syntax n;
  n.kind = Syntax::Kind::Pieces;
  const Span open = take().span;
  while (!peek().is(")")) n.idents.push_back(identifier("an axis name"));
  n.name_span = n.span = Span::join(open, take().span);
  return node(std::move(n));
}

}  // namespace tilewright
