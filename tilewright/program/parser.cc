// The statements of the grammar in docs/language.md, by recursive descent.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tilewright/program/parser.h"
#include "tilewright/program/words.h"

namespace tilewright {

std::string source_slice(const Span& span) {
  return span ? span.source->text.substr(span.begin, span.end - span.begin) : std::string();
}

namespace {

class Parser : ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

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
    unexpected(
        "a statement",
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
      diagnostics_.fail(peek().span, "a param is one number and has no axes",
                        "declare an array with `input`");
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
        diagnostics_.fail(
            peek().span, "an output names what was defined above",
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
      const std::string near =
          nearest_name(first.text, {"program", "axis", "param", "let", "input", "output"});
      diagnostics_.fail(
          first.span, fmt::format("`{}` does not begin a statement", first.text),
          near.empty()
              ? "statements begin with program, axis, param, let, input, output, or are NAME[axes] = …"
              : fmt::format("did you mean `{}`?", near));
    }
    const Ident name = identifier("a name");
    Statement::Item& item = s.items.emplace_back();
    item.name = name;
    if (peek().is("="))
      diagnostics_.fail(
          name.span, fmt::format("the left side of `{}` does not list its axes", name.name),
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
    const char* form = "a range reads range(lo, hi), hi excluded";
    const auto bound = [&](const char* what) {
      if (peek().is(")") || peek().is(",")) unexpected(what, form);
      return expression();
    };
    expect("(", form);
    item.lo = bound("the lower end of a range");
    expect(",", form);
    item.hi = bound("the upper end of a range");
    expect(")", form);
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
    const Token close =
        expect("]", "dimensions are axis names or composites such as (k g), with commas between");
    item.dims_span = Span::join(open, close.span);
  }
};

}  // namespace

SyntaxTree parse_syntax(const SourceRef& source, Diagnostics& diagnostics) {
  return Parser(source, diagnostics).run();
}

}  // namespace tilewright
