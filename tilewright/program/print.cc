// Canonical text of a program. The expression printer differs from to_string (expr.h): it writes the
// composite dimensions of reads and keeps every operator as it was written, so that what is printed parses to
// the same expressions.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "tilewright/program/program.h"
#include "tilewright/program/verify.h"

namespace tilewright {

namespace {

// Binding strength of the printed form, as in the grammar.
enum Strength {
  OrLevel = 1,
  AndLevel,
  NotLevel,
  CompareLevel,
  SumLevel,
  ProductLevel,
  UnaryLevel,
  PowerLevel,
  Primary
};

struct Text {
  std::string text;
  int strength = Primary;
};

/// With a point or an exponent: without one it would be an i64.
std::string decimal(double x) {
  const std::string text = fmt::format("{}", x);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

/// A number as a literal, or as a quotient where no short decimal is exact.
Text number(const Rational& r) {
  const int strength = r < Rational(0) ? UnaryLevel : Primary;
  if (r.is_integer()) return {r.str(), strength};
  const std::string shortest = decimal(r.value());
  if (Rational::parse(shortest) == std::optional<Rational>(r)) return {shortest, strength};
  return {fmt::format("{} / {}", r.num(), r.den()), ProductLevel};
}

class Printer {
 public:
  explicit Printer(const Program& p) : program_(p) {}

  std::string text(Expr e) const { return print(e).text; }

 private:
  std::string operand(Expr e, int least) const {
    const Text t = print(e);
    return t.strength < least ? "(" + t.text + ")" : t.text;
  }

  Text infix(Expr e, const char* op, int level, int first, int rest) const {
    std::string text = operand(e.arg(0), first);
    for (size_t k = 1; k < e.args().size(); ++k) text += fmt::format(" {} {}", op, operand(e.arg(k), rest));
    return {text, level};
  }

  Text call(const std::string& function, const std::vector<Expr>& args) const {
    std::vector<std::string> texts;
    for (Expr a : args) texts.push_back(text(a));
    return {fmt::format("{}({})", function, fmt::join(texts, ", "))};
  }

  std::string names(const std::vector<Sym>& axes) const {
    std::vector<std::string> out;
    for (Sym s : axes) out.push_back(s.name());
    return fmt::format("{}", fmt::join(out, ", "));
  }

  Text read(Expr e) const {
    const Input* in = program_.input(e->sym);
    std::vector<std::string> indices;
    size_t at = 0;
    const size_t dims = in ? in->dims.size() : e.args().size();
    for (size_t k = 0; k < dims; ++k) {
      const size_t n = in ? in->dims[k].pieces.size() : 1;
      indices.push_back(n == 1 ? text(e.arg(at))
                               : composite(in->dims[k], {e.args().begin() + at, e.args().begin() + at + n}));
      at += n;
    }
    return {fmt::format("{}[{}]", e->sym.name(), fmt::join(indices, ", "))};
  }

  /// One index for a composite dimension: (k g) where all pieces are axes; the flat index x where they are x
  /// // size(g) and x % size(g); else the flat index made of them.
  std::string composite(const Dim& dim, const std::vector<Expr>& pieces) const {
    bool plain = true;
    for (Expr p : pieces) plain &= p.is(Op::Symbol) && p->sym.kind() == SymbolKind::Index;
    if (plain) {
      std::vector<Sym> axes;
      for (Expr p : pieces) axes.push_back(p->sym);
      std::string out;
      for (Sym s : axes) out += (out.empty() ? "" : " ") + s.name();
      return "(" + out + ")";
    }
    const size_t last = pieces.size() - 1;
    if (pieces[last].is(Op::Mod)) {
      const Expr flat = pieces[last].arg(0);
      if (pieces == split_index(flat, dim)) return text(flat);
    }
    Expr flat = pieces[0];
    for (size_t k = 1; k < pieces.size(); ++k) flat = flat * Expr(dim.pieces[k].size()) + pieces[k];
    return text(flat);
  }

  Text print(Expr e) const {
    switch (e.op()) {
      case Op::Constant: return number(*e.rational());
      case Op::Real: {
        const double x = e->real;
        if (std::isnan(x)) return {"inf - inf", SumLevel};
        if (std::isinf(x)) return x > 0 ? Text{"inf"} : Text{"-inf", UnaryLevel};
        return {decimal(x), std::signbit(x) ? UnaryLevel : Primary};
      }
      case Op::Symbol:
        if (e->sym.kind() == SymbolKind::Size) return {fmt::format("size({})", e->sym.name())};
        return {e->sym.name()};
      case Op::Read: return read(e);
      case Op::Add: return infix(e, "+", SumLevel, SumLevel, ProductLevel);
      case Op::Sub: return infix(e, "-", SumLevel, SumLevel, ProductLevel);
      case Op::Mul: return infix(e, "*", ProductLevel, ProductLevel, UnaryLevel);
      case Op::Div: return infix(e, "/", ProductLevel, ProductLevel, UnaryLevel);
      case Op::FloorDiv: return infix(e, "//", ProductLevel, ProductLevel, UnaryLevel);
      case Op::Mod: return infix(e, "%", ProductLevel, ProductLevel, UnaryLevel);
      case Op::Neg: return {"-" + operand(e.arg(0), UnaryLevel), UnaryLevel};
      case Op::Pow: return infix(e, "**", PowerLevel, Primary, UnaryLevel);
      case Op::Lt:
      case Op::Le:
      case Op::Eq:
      case Op::Ne: return infix(e, name(e.op()), CompareLevel, SumLevel, SumLevel);
      case Op::And: return infix(e, "and", AndLevel, AndLevel, NotLevel);
      case Op::Or: return infix(e, "or", OrLevel, OrLevel, AndLevel);
      case Op::Not: return {"not " + operand(e.arg(0), NotLevel), NotLevel};
      case Op::Cast:
        if (e->dtype == DType::boolean && e.arg(0).is_constant(1)) return {"true"};
        if (e->dtype == DType::boolean && e.arg(0).is_constant(0)) return {"false"};
        return call(name(e->dtype), e.args());
      case Op::Reduce:
        if (has_rank(e->reducer))
          return {fmt::format("{}[{} -> {}]({})", name(e->reducer), names(e->bound), text(e.arg(1)),
                              text(e.arg(0)))};
        return {fmt::format("{}[{}]({})", name(e->reducer), names(e->bound), text(e.arg(0)))};
      case Op::RangeSum:
        return {fmt::format("rangesum[{}]({}, {}, {})", names(e->bound), text(e.arg(0)), text(e.arg(1)),
                            text(e.arg(2)))};
      case Op::Exp:
      case Op::Exp2:
      case Op::Log:
      case Op::Log2:
      case Op::Sqrt:
      case Op::Rsqrt:
      case Op::Tanh:
      case Op::Sigmoid:
      case Op::Erf:
      case Op::Abs:
      case Op::Floor:
      case Op::Round:
      case Op::Sign:
      case Op::Max:
      case Op::Min:
      case Op::Select: return call(name(e.op()), e.args());
    }
    TW_CHECK(false, "an operator has no printed form");
  }

  const Program& program_;
};

std::string range_text(const Printer& print, const Range& range) {
  return range ? fmt::format(" range({}, {})", print.text(range.lo), print.text(range.hi)) : "";
}

}  // namespace

std::string print(const Program& p) {
  const Printer printer(p);
  std::vector<std::string> blocks;
  const auto add = [&](std::string block) {
    if (!block.empty()) blocks.push_back(std::move(block));
  };
  if (p.name != "program") add(fmt::format("program {}\n", p.name));
  std::string text;
  // Axes whose size is known when it runs share a line; the others have a line each, since their sizes may be
  // long.
  for (size_t k = 0; k < p.axes.size(); ++k) {
    const Axis& a = p.axes[k];
    const bool joins = k > 0 && !a.size && !p.axes[k - 1].size;
    if (joins) text.pop_back();
    text += fmt::format("{}{}", joins ? ", " : "axis ", a.name());
    if (a.size) text += fmt::format(" = {}", printer.text(a.size));
    text += "\n";
  }
  for (const Param& q : p.params)
    text +=
        fmt::format("param {} : {}{}{}\n", q.sym.name(), name(q.dtype),
                    q.value ? " = " + printer.text(q.value) : std::string(), range_text(printer, q.range));
  for (const Let& l : p.lets) text += fmt::format("let {} = {}\n", l.sym.name(), printer.text(l.value));
  for (const Input& in : p.inputs)
    text += fmt::format("input {}{} : {}{}\n", in.sym.name(), dims_text(in.dims), name(in.dtype),
                        range_text(printer, in.range));
  add(std::move(text));
  text.clear();
  for (const Definition& d : p.definitions) {
    std::vector<std::string> axes;
    for (Sym s : d.axes) axes.push_back(s.name());
    text +=
        fmt::format("{}[{}]{} = {}\n", d.sym.name(), fmt::join(axes, ", "),
                    d.dtype ? fmt::format(" : {}", name(*d.dtype)) : std::string(), printer.text(d.value));
  }
  add(std::move(text));
  text.clear();
  for (const Output& o : p.outputs) {
    std::vector<Dim> own;
    for (Sym s : p.tensor_axes(o.sym)) own.push_back({{s}});
    if (const Input* in = p.input(o.sym)) own = in->dims;
    const std::string dims = dims_text(o.dims);
    text +=
        fmt::format("output {}{} : {}\n", o.sym.name(), dims == dims_text(own) ? "" : dims, name(o.dtype));
  }
  add(std::move(text));
  return fmt::format("{}", fmt::join(blocks, "\n"));
}

}  // namespace tilewright
