// Recursive descent over the grammar of docs/language.md; binary operators by precedence climbing.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tilewright/program/lexer.h"
#include "tilewright/program/syntax.h"
#include "tilewright/program/words.h"

namespace tilewright {

std::string source_slice(const Span& span) {
  return span ? span.source->text.substr(span.begin, span.end - span.begin) : std::string();
}

namespace {

// Binding strength, weakest first; 0: not a binary operator.
enum Level { Or = 1, And, Not, Compare, Sum, Product };
int level_of(const Token& t) {
  if (t.word("or")) return Or;
  if (t.word("and")) return And;
  if (t.is("==") || t.is("!=") || t.is("<") || t.is("<=") || t.is(">") || t.is(">=")) return Compare;
  if (t.is("+") || t.is("-")) return Sum;
  if (t.is("*") || t.is("/") || t.is("//") || t.is("%")) return Product;
  return 0;
}

class Parser {
 public:
  Parser(const SourceRef& source, Diagnostics& diagnostics)
      : tokens_(tokenize(source, diagnostics)), diagnostics_(diagnostics) {}

  SyntaxTree run() {
    while (tokens_[at_].kind != TokenKind::End) {
      if (tokens_[at_].kind == TokenKind::Newline) {
        ++at_;
        continue;
      }
      Statement s;
      const size_t first = at_;
      open_.clear();
      nesting_ = 0;
      try {
        statement(s);
        if (peek().kind != TokenKind::Newline) unexpected("the end of the line");
        s.complete = true;
        s.span = Span::join(tokens_[first].span, tokens_[at_ - 1].span);
      } catch (const StatementAbandoned&) {
        s.span = tokens_[first].span;
        recover();
      }
      tree_.statements.push_back(std::move(s));
    }
    return std::move(tree_);
  }

 private:
  // ---- tokens -----------------------------------------------------------------------------------------------

  // Inside brackets a new line does not end a statement, unless the next line clearly begins one: then a bracket was left open.
  const Token& peek() {
    if (!open_.empty())
      while (tokens_[at_].kind == TokenKind::Newline && !statement_begins(at_)) ++at_;
    return tokens_[at_];
  }
  Token take() {
    Token t = peek();
    if (t.kind != TokenKind::End) ++at_;
    if (t.is("(") || t.is("[")) open_.push_back(t);
    if ((t.is(")") || t.is("]")) && !open_.empty()) open_.pop_back();
    return t;
  }
  bool accept(const char* sign) {
    if (!peek().is(sign)) return false;
    take();
    return true;
  }
  Token expect(const char* sign, const std::string& hint = {}) {
    if (!peek().is(sign)) unexpected(fmt::format("`{}`", sign), hint);
    return take();
  }
  const Token& ahead(size_t n) {
    peek();
    return tokens_[std::min(at_ + n, tokens_.size() - 1)];
  }

  // Whether the line after the Newline at `k` begins a statement: a keyword, or NAME[…] … = on that line.
  bool statement_begins(size_t k) const {
    while (tokens_[k].kind == TokenKind::Newline) ++k;
    const Token& t = tokens_[k];
    if (t.kind == TokenKind::End) return true;
    if (t.kind != TokenKind::Name) return false;
    if (is_statement_keyword(t.text)) return true;
    if (!tokens_[k + 1].is("[")) return false;
    int depth = 0;
    for (++k; tokens_[k].kind != TokenKind::Newline && tokens_[k].kind != TokenKind::End; ++k) {
      if (tokens_[k].is("(") || tokens_[k].is("[")) ++depth;
      if (tokens_[k].is(")") || tokens_[k].is("]")) --depth;
      if (depth == 0 && tokens_[k].is("=")) return true;
    }
    return false;
  }

  void recover() {
    while (tokens_[at_].kind != TokenKind::End &&
           !(tokens_[at_].kind == TokenKind::Newline && (open_.empty() || statement_begins(at_))))
      ++at_;
    open_.clear();
  }

  static std::string shown(const Token& t) {
    switch (t.kind) {
      case TokenKind::End:
      case TokenKind::Newline: return "the end of the line";
      default: return fmt::format("`{}`", t.text);
    }
  }

  [[noreturn]] void unexpected(const std::string& wanted, std::string hint = {}) {
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
    if (hint.empty() && (t.is(")") || t.is("]"))) hint = "no bracket is open that it could close";
    if (hint.empty() && (t.kind == TokenKind::Name || t.kind == TokenKind::Number || t.is("(")) &&
        wanted == "the end of the line")
      hint = "a product needs `*`; a statement ends with its line";
    diagnostics_.fail(t.span, fmt::format("expected {}, found {}", wanted, shown(t)), hint);
  }

  Ident identifier(const std::string& what) {
    const Token& t = peek();
    if (t.kind != TokenKind::Name) unexpected(what);
    const std::string reserved = reserved_as(t.text);
    if (!reserved.empty())
      diagnostics_.fail(t.span, fmt::format("`{}` is {} and cannot be {}", t.text, reserved, what),
                        "choose another name");
    const Token taken = take();
    return {taken.text, taken.span};
  }

  // ---- statements -------------------------------------------------------------------------------------------

  void statement(Statement& s) {
    const Token& t = peek();
    if (t.kind == TokenKind::Bad) throw StatementAbandoned();
    if (t.word("program")) return program_statement(s);
    if (t.word("axis")) return axis_statement(s);
    if (t.word("param")) return param_statement(s);
    if (t.word("let")) return let_statement(s);
    if (t.word("input")) return input_statement(s);
    if (t.word("output")) return output_statement(s);
    if (t.kind == TokenKind::Name) return definition(s);
    unexpected("a statement",
               "a line begins with program, axis, param, let, input or output, or defines NAME[axes] = expression");
  }

  // Any word will do: the program's name is not in the name space of the text.
  void program_statement(Statement& s) {
    s.kind = Statement::Kind::Program;
    take();
    if (peek().kind != TokenKind::Name) unexpected("the program's name");
    const Token t = take();
    s.items.emplace_back().name = {t.text, t.span};
  }

  void axis_statement(Statement& s) {
    s.kind = Statement::Kind::Axis;
    take();
    do {
      const Ident name = identifier("an axis name");
      s.items.emplace_back().name = name;
      if (accept("=")) s.items.back().value = expression();
    } while (accept(","));
  }

  void param_statement(Statement& s) {
    s.kind = Statement::Kind::Param;
    take();
    const Ident name = identifier("a param name");
    Statement::Item& item = s.items.emplace_back();
    item.name = name;
    if (peek().is("[")) {
      diagnostics_.fail(peek().span, "a param is one number and has no axes", "declare an array with `input`");
    }
    item.dtype = dtype_after_colon("a param", name.name);
    if (accept("=")) item.value = expression();
    range(item);
  }

  void let_statement(Statement& s) {
    s.kind = Statement::Kind::Let;
    take();
    const Ident name = identifier("a name");
    Statement::Item& item = s.items.emplace_back();
    item.name = name;
    if (peek().is("["))
      diagnostics_.fail(peek().span, "a let is one number and has no axes",
                        fmt::format("leave `let` away: {}[…] = expression", name.name));
    expect("=", "a let reads `let NAME = expression`");
    item.value = expression();
  }

  void input_statement(Statement& s) {
    s.kind = Statement::Kind::Input;
    take();
    const Ident name = identifier("an input name");
    Statement::Item& item = s.items.emplace_back();
    item.name = name;
    if (!peek().is("["))
      unexpected("`[`", fmt::format("an input lists its dimensions: input {}[…] : f32", name.name));
    dims(item);
    item.dtype = dtype_after_colon("an input", source_slice(Span::join(name.span, item.dims_span)));
    range(item);
  }

  void output_statement(Statement& s) {
    s.kind = Statement::Kind::Output;
    take();
    do {
      const Ident name = identifier("the name of a definition");
      Statement::Item& item = s.items.emplace_back();
      item.name = name;
      if (peek().is("[")) dims(item);
      if (accept(":")) item.dtype = dtype();
      if (peek().is("="))
        diagnostics_.fail(peek().span, "an output names what was defined above",
                          fmt::format("write two statements: {0}[…] = expression, then output {0}", name.name));
    } while (accept(","));
  }

  void definition(Statement& s) {
    s.kind = Statement::Kind::Define;
    const Token& first = peek();
    const Token& second = ahead(1);
    if (const std::string reserved = reserved_as(first.text); !reserved.empty())
      diagnostics_.fail(first.span, fmt::format("`{}` is {} and cannot be defined", first.text, reserved),
                        "choose another name");
    if (second.kind == TokenKind::Name) {  // `inputs x[…]`, `axes i`
      const std::string near = nearest_name(first.text, {"program", "axis", "param", "let", "input", "output"});
      diagnostics_.fail(first.span, fmt::format("`{}` does not begin a statement", first.text),
                        near.empty() ? "statements begin with program, axis, param, let, input, output, or are NAME[axes] = …"
                                     : fmt::format("did you mean `{}`?", near));
    }
    const Ident name = identifier("a name");
    Statement::Item& item = s.items.emplace_back();
    item.name = name;
    if (peek().is("="))
      diagnostics_.fail(name.span, fmt::format("the left side of `{}` does not list its axes", name.name),
                        fmt::format("write {0}[i, j] = … with its axes, {0}[] = … for none, or let {0} = … for a number "
                                    "that reads no tensor",
                                    name.name));
    if (!peek().is("[")) unexpected("`[`", "a definition reads NAME[axes] = expression");
    dims(item);
    for (const DimSyntax& d : item.dims)
      if (d.pieces.size() > 1)
        diagnostics_.fail(d.span, "a left side lists single axes",
                          "make the dimension composite in the output statement: output NAME[(k g), …]");
    if (accept(":")) item.dtype = dtype();
    expect("=", "a definition reads NAME[axes] = expression");
    item.value = expression();
  }

  std::optional<Ident> dtype_after_colon(const std::string& what, const std::string& text) {
    if (!accept(":")) unexpected("`:`", fmt::format("{} needs a dtype: {} : f32", what, text));
    return dtype();
  }

  Ident dtype() {
    const Token& t = peek();
    if (t.kind != TokenKind::Name || !parse_dtype(t.text)) {
      const std::string near = t.kind == TokenKind::Name ? nearest_name(t.text, dtype_names()) : "";
      unexpected("a dtype", near.empty() ? fmt::format("dtypes are {}", fmt::join(dtype_names(), ", "))
                                         : fmt::format("did you mean `{}`?", near));
    }
    const Token taken = take();
    return {taken.text, taken.span};
  }

  void range(Statement::Item& item) {
    if (!peek().word("range")) return;
    take();
    expect("(", "a range reads range(lo, hi), hi excluded");
    item.lo = expression();
    expect(",", "a range reads range(lo, hi), hi excluded");
    item.hi = expression();
    expect(")");
  }

  void dims(Statement::Item& item) {
    const Span open = expect("[").span;
    item.has_dims = true;
    if (!peek().is("]")) {
      do {
        DimSyntax& d = item.dims.emplace_back();
        if (peek().is("(")) {
          const Span begin = take().span;
          while (!peek().is(")")) {
            d.pieces.push_back(identifier("an axis name"));
            if (peek().is(","))
              diagnostics_.fail(peek().span, "the pieces of a composite dimension stand without commas",
                                "write (k g), outermost first");
          }
          const Span end = take().span;
          d.span = Span::join(begin, end);
          if (d.pieces.size() < 2)
            diagnostics_.fail(d.span, "a composite dimension has at least two pieces",
                              d.pieces.empty() ? "name its axes, outermost first: (k g)"
                                               : fmt::format("write {} without brackets", d.pieces[0].name));
        } else {
          d.pieces.push_back(identifier("an axis name"));
          d.span = d.pieces[0].span;
        }
      } while (accept(","));
    }
    const Token close = expect("]", "dimensions are axis names or composites such as (k g), with commas between");
    item.dims_span = Span::join(open, close.span);
  }

  // ---- expressions ------------------------------------------------------------------------------------------

  struct Nested {
    explicit Nested(Parser& of) : parser(of) {
      if (++parser.nesting_ > nesting_limit) parser.too_deep(parser.peek().span);
    }
    ~Nested() { --parser.nesting_; }
    Parser& parser;
  };

  [[noreturn]] void too_deep(const Span& where) {
    diagnostics_.fail(where, fmt::format("the expression nests deeper than {} levels", nesting_limit),
                      "split it into several definitions");
  }

  const Syntax* node(Syntax n) {
    for (const Syntax* a : n.args) n.depth = std::max(n.depth, a->depth + 1);
    if (n.depth > nesting_limit) too_deep(n.name_span);
    tree_.nodes.push_back(std::move(n));
    return &tree_.nodes.back();
  }

  const Syntax* expression(int least = Or) {
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
                          fmt::format("write `{} and {} {} {}`", source_slice(left->span), source_slice(middle->span), op.text,
                                      source_slice(right->span)));
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

  const Syntax* negation(int least) {
    if (least > Not)
      diagnostics_.fail(peek().span, "`not` binds weaker than the operator before it", "put it in brackets: (not …)");
    Syntax n;
    n.kind = Syntax::Kind::Not;
    const Token op = take();
    n.args = {expression(Not)};
    n.name_span = op.span;
    n.span = Span::join(op.span, n.args[0]->span);
    return node(std::move(n));
  }

  const Syntax* unary() {
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

  const Syntax* power() {
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

  const Syntax* primary() {
    const Token& t = peek();
    if (t.kind == TokenKind::Number) return leaf(Syntax::Kind::Number);
    if (t.is("(")) {
      const Span open = take().span;
      const Syntax* inner = expression();
      if (peek().is(","))
        diagnostics_.fail(peek().span, "a pair is not a value", "the pieces of a composite index stand without commas: (k g)");
      const Span close = expect(")").span;
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
    if (find_function(t.text) || parse_dtype(t.text) || (reserved_as(t.text).empty() && ahead(1).is("("))) return call();
    if (find_reducer(t.text))
      diagnostics_.fail(t.span, fmt::format("`{}` reduces over axes", t.text),
                        fmt::format("name them: {}[j](…)", t.text));
    if (!reserved_as(t.text).empty()) unexpected("a value");
    return ahead(1).is("[") ? element() : leaf(Syntax::Kind::Name);
  }

  const Syntax* leaf(Syntax::Kind kind) {
    const Token t = take();
    Syntax n;
    n.kind = kind;
    n.name = t.text;
    n.name_span = n.span = t.span;
    n.real = t.real;
    return node(std::move(n));
  }

  const Syntax* size() {
    Syntax n;
    n.kind = Syntax::Kind::Size;
    n.name_span = take().span;
    expect("(", "size(j) is the length of axis j");
    n.idents = {identifier("an axis name")};
    n.span = Span::join(n.name_span, expect(")", "size takes the name of one axis").span);
    return node(std::move(n));
  }

  const Syntax* topk() {
    Syntax n;
    n.kind = Syntax::Kind::TopK;
    const Token word = take();
    const std::string usage = fmt::format("it reads {}[v -> n](x): the size of axis n says how many", word.text);
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

  const Syntax* reduction() {
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
      diagnostics_.fail(peek().span, fmt::format("`{}[…]` reduces one expression", word.text),
                        find_function(word.text) ? fmt::format("the function of several values is {}(x, y)", word.text) : "");
    n.span = Span::join(word.span, expect(")").span);
    return node(std::move(n));
  }

  const Syntax* call() {
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

  const Syntax* element() {
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

  const Syntax* index() {
    if (!(peek().is("(") && ahead(1).kind == TokenKind::Name && ahead(2).kind == TokenKind::Name && level_of(ahead(1)) == 0 &&
          level_of(ahead(2)) == 0 && reserved_as(ahead(1).text).empty()))
      return expression();
    Syntax n;
    n.kind = Syntax::Kind::Pieces;
    const Span open = take().span;
    while (!peek().is(")")) n.idents.push_back(identifier("an axis name"));
    n.name_span = n.span = Span::join(open, take().span);
    return node(std::move(n));
  }

  const std::vector<Token> tokens_;
  Diagnostics& diagnostics_;
  SyntaxTree tree_;
  size_t at_ = 0;
  std::vector<Token> open_;  // brackets not closed yet
  int nesting_ = 0;
};

}  // namespace

SyntaxTree parse_syntax(const SourceRef& source, Diagnostics& diagnostics) { return Parser(source, diagnostics).run(); }

}  // namespace tilewright
