#include "tilewright/expr/latex.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "tilewright/expr/node.h"

namespace tilewright {
namespace latex {
namespace {

/// Binding strengths, weakest first.
enum Strength { kLogic = 1, kCompare, kAdd, kMul, kPrimary };

struct Text {
  std::string text;
  int strength = kPrimary;
  std::string in(int at_least) const { return strength < at_least ? "\\left(" + text + "\\right)" : text; }
};

Text print(Expr e);

Text print(Rational q) {
  const bool minus = q.num() < 0;
  const std::string size = q.is_integer()
                               ? (minus ? -q : q).str()
                               : fmt::format("\\frac{{{}}}{{{}}}", minus ? -q.num() : q.num(), q.den());
  return minus ? Text{"-" + size, kAdd} : Text{size};
}

Text number(double x) {
  if (std::isnan(x)) return {"\\mathrm{NaN}"};
  if (std::isinf(x)) return x < 0 ? Text{"-\\infty", kAdd} : Text{"\\infty"};
  std::string s = fmt::format("{:.6g}", x);
  if (const size_t e = s.find('e'); e != std::string::npos)
    s = fmt::format("{} \\cdot 10^{{{}}}", s.substr(0, e), std::stoi(s.substr(e + 1)));
  return {s, x < 0 ? kAdd : s.size() > 8 ? kMul : kPrimary};
}

std::string list(const std::vector<Expr>& args) {
  std::string out;
  for (Expr a : args) out += (out.empty() ? "" : ", ") + print(a).text;
  return out;
}

Text function(const std::string& f, Expr e) { return {f + "\\left(" + list(e.args()) + "\\right)"}; }

Text fraction(const std::string& over, const std::string& under) {
  return {fmt::format("\\frac{{{}}}{{{}}}", over, under)};
}

Text power(Expr base, Rational q) {
  if (q.num() < 0) return fraction("1", power(base, -q).text);
  if (q == Rational(1)) return print(base);
  if (q == Rational(1, 2)) return {fmt::format("\\sqrt{{{}}}", print(base).text)};
  return {fmt::format("{}^{{{}}}", print(base).in(kPrimary), print(q).text)};
}

Text product(const std::vector<Expr>& factors) {
  std::vector<Text> over, under;
  bool minus = false;
  for (Expr f : factors) {
    const auto q = f.rational();
    if (q) {
      minus = minus != (q->num() < 0);
      const int64_t n = q->num() < 0 ? -q->num() : q->num();
      if (n != 1) over.insert(over.begin(), Text{std::to_string(n)});
      if (q->den() != 1) under.insert(under.begin(), Text{std::to_string(q->den())});
    } else if (f.is(Op::Pow) && f.arg(1).rational() && f.arg(1).rational()->num() < 0) {
      under.push_back(power(f.arg(0), -*f.arg(1).rational()));
    } else {
      over.push_back(print(f));
    }
  }
  const auto joined = [](const std::vector<Text>& all) {
    if (all.size() == 1) return all[0].text;
    std::string out;
    for (size_t k = 0; k < all.size(); ++k) out += (k ? "\\," : "") + all[k].in(kMul);
    return out;
  };
  Text out;
  if (under.empty())
    out = over.empty() ? Text{"1"} : over.size() == 1 ? over[0] : Text{joined(over), kMul};
  else
    out = fraction(over.empty() ? "1" : joined(over), joined(under));
  return minus ? Text{"-" + out.in(kMul), kAdd} : out;
}

Text sum(const std::vector<Expr>& terms) {
  std::vector<std::string> texts;
  for (Expr t : terms) texts.push_back(print(t).in(kAdd));
  // b - a rather than -a + b
  std::stable_partition(texts.begin(), texts.end(), [](const std::string& t) { return t[0] != '-'; });
  std::string out;
  for (const std::string& t : texts) out += out.empty() ? t : t[0] == '-' ? " - " + t.substr(1) : " + " + t;
  return {out.empty() ? "0" : out, kAdd};
}

Text infix(Expr e, const char* op, int strength) {
  std::string out;
  for (Expr a : e.args()) out += (out.empty() ? "" : fmt::format(" {} ", op)) + print(a).in(strength + 1);
  return {out, strength};
}

Text comparison(Expr e, const char* op) {
  const auto s = sides_of(e);
  if (!s) return infix(e, op, kCompare);
  const char* shown = s->op == Op::Lt ? "<" : op;
  return {fmt::format("{} {} {}", sum(s->left).text, shown, sum(s->right).text), kCompare};
}

Text reduction(Expr e) {
  std::string axes;
  for (Sym s : e->bound) axes += (axes.empty() ? "" : ", ") + latex_name(s.name());
  if (has_rank(e->reducer))
    return {fmt::format("\\operatorname{{{}}}_{{{} \\to {}}}\\left({}\\right)", name(e->reducer), axes,
                        print(e.arg(1)).text, print(e.arg(0)).text)};
  const std::string body = print(e.arg(0)).in(kMul);
  switch (e->reducer) {
    case Reducer::Sum: return {fmt::format("\\sum_{{{}}} {}", axes, body), kMul};
    case Reducer::Prod: return {fmt::format("\\prod_{{{}}} {}", axes, body), kMul};
    case Reducer::Max: return {fmt::format("\\max_{{{}}} {}", axes, body), kMul};
    case Reducer::Min: return {fmt::format("\\min_{{{}}} {}", axes, body), kMul};
    default: return {fmt::format("\\operatorname{{{}}}_{{{}}} {}", name(e->reducer), axes, body), kMul};
  }
}

Text print(Expr e) {
  switch (e.op()) {
    case Op::Constant: return print(e->number);
    case Op::Real: return number(e->real);
    case Op::Symbol:
      if (e->sym.kind() == SymbolKind::Size)
        return {fmt::format("\\lvert {}\\rvert", latex_name(e->sym.name()))};
      return {latex_name(e->sym.name())};
    case Op::Read:
      if (e.args().empty()) return {latex_name(e->sym.name())};
      return {fmt::format("{{{}}}_{{{}}}", latex_name(e->sym.name()), list(e.args()))};
    case Op::Add: return sum(e.args());
    case Op::Sub: return {print(e.arg(0)).in(kAdd) + " - " + print(e.arg(1)).in(kMul), kAdd};
    case Op::Mul: return product(e.args());
    case Op::Div: return fraction(print(e.arg(0)).text, print(e.arg(1)).text);
    case Op::Neg: return {"-" + print(e.arg(0)).in(kMul), kAdd};
    case Op::Pow:
      if (const auto q = e.arg(1).rational()) return power(e.arg(0), *q);
      return {fmt::format("{}^{{{}}}", print(e.arg(0)).in(kPrimary), print(e.arg(1)).text)};
    case Op::Exp: return {fmt::format("e^{{{}}}", print(e.arg(0)).text)};
    case Op::Exp2: return {fmt::format("2^{{{}}}", print(e.arg(0)).text)};
    case Op::Log: return function("\\log", e);
    case Op::Log2: return function("\\log_2", e);
    case Op::Tanh: return function("\\tanh", e);
    case Op::Sqrt: return {fmt::format("\\sqrt{{{}}}", print(e.arg(0)).text)};
    case Op::Rsqrt: return fraction("1", fmt::format("\\sqrt{{{}}}", print(e.arg(0)).text));
    case Op::Abs: return {fmt::format("\\left|{}\\right|", print(e.arg(0)).text)};
    case Op::Floor: return {fmt::format("\\left\\lfloor {}\\right\\rfloor", print(e.arg(0)).text)};
    case Op::FloorDiv:
      return {fmt::format("\\left\\lfloor \\frac{{{}}}{{{}}}\\right\\rfloor", print(e.arg(0)).text,
                          print(e.arg(1)).text)};
    case Op::Mod: return {print(e.arg(0)).in(kMul) + " \\bmod " + print(e.arg(1)).in(kPrimary), kMul};
    case Op::Max: return function("\\max", e);
    case Op::Min: return function("\\min", e);
    case Op::Select:
      return {fmt::format("\\begin{{cases}} {} & {} \\\\ {} & \\text{{otherwise}} \\end{{cases}}",
                          print(e.arg(1)).text, print(e.arg(0)).text, print(e.arg(2)).text),
              kMul};
    case Op::Lt: return comparison(e, "<");
    case Op::Le: return comparison(e, "\\le");
    case Op::Eq: return comparison(e, "=");
    case Op::Ne: return comparison(e, "\\ne");
    case Op::And: return e.args().empty() ? Text{"\\top"} : infix(e, "\\wedge", kLogic);
    case Op::Or: return e.args().empty() ? Text{"\\bot"} : infix(e, "\\vee", kLogic);
    case Op::Not: return {"\\neg " + print(e.arg(0)).in(kPrimary), kPrimary};
    case Op::Cast: return function(fmt::format("\\operatorname{{{}}}", name(e->dtype)), e);
    case Op::Reduce: return reduction(e);
    case Op::RangeSum:
      return {fmt::format("\\sum_{{{} \\le {} < {}}} {}", print(e.arg(0)).text,
                          latex_name(e->bound[0].name()), print(e.arg(1)).text, print(e.arg(2)).in(kMul)),
              kMul};
    case Op::Sigmoid:
    case Op::Erf:
    case Op::Round:
    case Op::Sign: return function(fmt::format("\\operatorname{{{}}}", name(e.op())), e);
  }
  return {"?"};
}

}  // namespace
}  // namespace latex

std::string latex_name(const std::string& name) {
  static const std::set<std::string> greek = {"alpha",   "beta",  "gamma", "delta", "epsilon", "zeta",
                                              "eta",     "theta", "iota",  "kappa", "lambda",  "mu",
                                              "nu",      "xi",    "pi",    "rho",   "sigma",   "tau",
                                              "upsilon", "phi",   "chi",   "psi",   "omega"};
  std::string base = name, above;
  while (!base.empty() && (base.back() == '\'' || base.back() == '*')) {
    above = (base.back() == '*' ? "^{*}" : "'") + above;
    base.pop_back();
  }
  const auto word = [&](const std::string& w) {
    if (w.size() == 1) return w == "_" ? std::string("\\_") : w;
    if (greek.count(w)) return "\\" + w + " ";
    std::string escaped;
    for (char c : w) escaped += c == '_' ? "\\_" : std::string(1, c);
    const bool numbered = w.size() > 1 && w.find_first_not_of("0123456789", 1) == std::string::npos;
    return (numbered ? "\\mathit{" : "\\mathrm{") + escaped + "}";
  };
  // What follows the first `_` is the index, a part for each further one. An `_` at either end is part of the name.
  size_t at = base.find('_', 1);
  if (at == std::string::npos || at + 1 == base.size()) return word(base) + above;
  std::string below;
  for (size_t begin = at + 1; begin <= base.size();) {
    const size_t end = std::min(base.find('_', begin), base.size());
    const std::string part = base.substr(begin, end - begin);
    const bool number = part.find_first_not_of("0123456789") == std::string::npos && !part.empty();
    below += (below.empty() ? "" : ", ") + (number ? part : word(part.empty() ? "_" : part));
    begin = end + 1;
  }
  return fmt::format("{}_{{{}}}{}", word(base.substr(0, at)), below, above);
}

std::string to_latex(Expr e) { return latex::print(e).text; }

}  // namespace tilewright
