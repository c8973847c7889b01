// Text of expressions in the language's syntax.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "tilewright/expr/expr.h"
#include "tilewright/expr/node.h"

namespace tilewright {
namespace {

/// Binding strengths of the grammar, weakest first.
enum Strength { kOr = 1, kAnd, kNot, kCompare, kAdd, kMul, kUnary, kPower, kPrimary };

struct Text {
  std::string text;
  int strength;
  std::string in(int at_least) const { return strength < at_least ? "(" + text + ")" : text; }
};

Text print(Expr e);

std::string decimal(double x) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x < 0 ? "-inf" : "inf";
  std::string s = fmt::format("{}", x);
  if (s.find_first_of(".e") == std::string::npos) s += ".0";
  return s;
}

Text print(Rational q) {
  if (q.is_integer()) return {q.str(), q.num() < 0 ? kUnary : kPrimary};
  if (q.den() > 64) {  // a decimal literal where it is short and exact
    std::string s = decimal(q.value());
    if (s.size() <= 12 && Rational::parse(s) == q) return {s, q.num() < 0 ? kUnary : kPrimary};
  }
  return {fmt::format("{} / {}", q.num(), q.den()), kMul};
}

bool is_negative_number(Expr e) {
  if (auto q = e.rational()) return q->num() < 0;
  return e.is(Op::Real) && e->real < 0;
}

/// The term without its minus sign where it has one that can be shown as a subtraction.
std::optional<Expr> without_minus(Expr term) {
  try {
    if (term.is(Op::Neg)) return term.arg(0);
    if (term.is(Op::Constant) && is_negative_number(term)) return Expr(-*term.rational());
    if (term.is(Op::Real) && is_negative_number(term)) return Expr::real(-term->real);
    if (term.is(Op::Mul) && is_negative_number(term.arg(0)) && term.args().size() > 1) {
      std::vector<Expr> rest(term.args().begin() + 1, term.args().end());
      Expr c = *without_minus(term.arg(0));
      if (!c.is_constant(1)) rest.insert(rest.begin(), c);
      return rest.size() == 1 ? rest[0] : make(Op::Mul, rest);
    }
  } catch (const RationalOverflow&) {
  }
  return std::nullopt;
}

Text print_sum(const std::vector<Expr>& terms) {
  std::vector<std::pair<bool, Expr>> signed_terms;  // true: subtracted
  for (Expr t : terms) {
    auto positive = without_minus(t);
    // A written `-x` that stands first is a negation already.
    signed_terms.emplace_back(positive && !(signed_terms.empty() && t.is(Op::Neg)), positive ? *positive : t);
    if (!signed_terms.back().first) signed_terms.back().second = t;
  }
  if (signed_terms[0].first)  // b - a rather than -a + b
    std::stable_partition(signed_terms.begin(), signed_terms.end(), [](auto& t) { return !t.first; });
  std::string out;
  for (auto& [minus, t] : signed_terms) {
    if (out.empty())
      out = minus ? "-" + print(t).in(kPower) : print(t).in(kAdd);
    else
      out += (minus ? " - " : " + ") + print(t).in(kMul);
  }
  return {out, signed_terms.size() == 1 ? (signed_terms[0].first ? int(kUnary) : int(kAdd)) : int(kAdd)};
}

Text print_power(Expr base, Rational q) {
  if (q == Rational(1)) return print(base);
  if (q == Rational(1, 2)) return {"sqrt(" + print(base).text + ")", kPrimary};
  if (q == Rational(-1, 2)) return {"rsqrt(" + print(base).text + ")", kPrimary};
  if (q == Rational(-1)) return {"1 / " + print(base).in(kUnary), kMul};
  return {print(base).in(kPrimary) + " ** " + print(Expr(q)).in(kUnary), kPower};
}

Text print_product(const std::vector<Expr>& factors) {
  std::vector<std::string> over, under;
  bool minus = false;
  for (size_t k = 0; k < factors.size(); ++k) {
    Expr f = factors[k];
    auto q = f.rational();
    if (k == 0 && q && factors.size() > 1) {
      minus = q->num() < 0;
      Rational c = minus ? -*q : *q;
      Text t = print(c);
      if (t.strength == kMul) {
        if (c.num() != 1) over.push_back(std::to_string(c.num()));
        under.push_back(std::to_string(c.den()));
      } else if (c != Rational(1)) {
        over.push_back(t.text);
      }
    } else if (f.is(Op::Pow) && f.arg(1).rational() && f.arg(1).rational()->num() < 0 && factors.size() > 1) {
      under.push_back(print_power(f.arg(0), -*f.arg(1).rational()).in(kUnary));
    } else {
      Text t = print(f);
      // -x // y would read as (-x) // y.
      over.push_back(t.in(over.empty() && !minus ? kMul : kUnary));
    }
  }
  std::string out = minus ? "-" : "";
  if (over.empty()) over.push_back("1");
  for (size_t k = 0; k < over.size(); ++k) out += (k ? " * " : "") + over[k];
  for (const std::string& u : under) out += " / " + u;
  return {out, over.size() + under.size() == 1 && minus ? kUnary : kMul};
}

Text infix(Expr e, const char* op, int strength, int left, int right) {
  return {print(e.arg(0)).in(left) + " " + op + " " + print(e.arg(1)).in(right), strength};
}

Text connective(Expr e, const char* op, int strength) {
  if (e.args().empty()) return {e.is(Op::And) ? "true" : "false", kPrimary};
  std::string out;
  for (Expr a : e.args()) out += (out.empty() ? "" : fmt::format(" {} ", op)) + print(a).in(strength + 1);
  return {out, strength};
}

std::string list(const std::vector<Expr>& args) {
  std::string out;
  for (Expr a : args) out += (out.empty() ? "" : ", ") + print(a).text;
  return out;
}

std::string names(const std::vector<Sym>& symbols) {
  std::string out;
  for (Sym s : symbols) out += (out.empty() ? "" : ", ") + s.name();
  return out;
}

std::string print_side(const std::vector<Expr>& terms) {
  return terms.empty() ? "0" : print_sum(terms).in(kAdd);
}

Text print_comparison(Expr e) {
  if (const auto s = sides_of(e))
    return {print_side(s->left) + " " + name(s->op) + " " + print_side(s->right), kCompare};
  return infix(e, name(e.op()), kCompare, kAdd, kAdd);
}

Text print(Expr e) {
  auto call = [&](const std::string& f) { return Text{f + "(" + list(e.args()) + ")", kPrimary}; };
  switch (e.op()) {
    case Op::Constant: return print(e->number);
    case Op::Real: return {decimal(e->real), is_negative_number(e) ? kUnary : kPrimary};
    case Op::Symbol:
      if (e->sym.kind() == SymbolKind::Size && e->sym.name().find('(') == std::string::npos)
        return {"size(" + e->sym.name() + ")", kPrimary};
      return {e->sym.name(), kPrimary};
    case Op::Read: return {e->sym.name() + "[" + list(e.args()) + "]", kPrimary};
    case Op::Add: return e.args().empty() ? Text{"0", kPrimary} : print_sum(e.args());
    case Op::Sub: return infix(e, "-", kAdd, kAdd, kMul);
    case Op::Mul: return print_product(e.args());
    case Op::Div: return infix(e, "/", kMul, kMul, kUnary);
    case Op::FloorDiv: return infix(e, "//", kMul, kMul, kUnary);
    case Op::Mod: return infix(e, "%", kMul, kMul, kUnary);
    case Op::Neg: return {"-" + print(e.arg(0)).in(kUnary), kUnary};
    case Op::Pow:
      if (auto q = e.arg(1).rational()) return print_power(e.arg(0), *q);
      return {print(e.arg(0)).in(kPrimary) + " ** " + print(e.arg(1)).in(kUnary), kPower};
    case Op::Lt:
    case Op::Le:
    case Op::Eq:
    case Op::Ne: return print_comparison(e);
    case Op::And: return connective(e, "and", kAnd);
    case Op::Or: return connective(e, "or", kOr);
    case Op::Not: return {"not " + print(e.arg(0)).in(kNot), kNot};
    case Op::Cast: return call(name(e->dtype));
    case Op::Reduce:
      if (has_rank(e->reducer))
        return {fmt::format("{}[{} -> {}]({})", name(e->reducer), names(e->bound), print(e.arg(1)).text,
                            print(e.arg(0)).text),
                kPrimary};
      return call(fmt::format("{}[{}]", name(e->reducer), names(e->bound)));
    case Op::RangeSum:
      return {fmt::format("rangesum[{} = {} .. {}]({})", names(e->bound), print(e.arg(0)).text,
                          print(e.arg(1)).text, print(e.arg(2)).text),
              kPrimary};
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
    case Op::Select: return call(name(e.op()));
  }
  return {"?", kPrimary};
}

}  // namespace

std::optional<Sides> sides_of(Expr e) {
  const bool order = e.is(Op::Le) || e.is(Op::Lt), equality = e.is(Op::Eq) || e.is(Op::Ne);
  if (!(order && e.arg(0).is_constant(0)) && !(equality && e.arg(1).is_constant(0))) return std::nullopt;
  const Expr sum = e.arg(order ? 1 : 0);
  if (!sum.is(Op::Add)) return std::nullopt;
  Sides s{e.op(), {}, {}};
  for (Expr t : sum.args()) {
    if (s.op == Op::Le && t.is_constant(-1) && sum.args().size() > 1) {
      s.op = Op::Lt;
      continue;
    }
    const auto positive = t.is(Op::Neg) ? std::nullopt : without_minus(t);
    (positive ? s.left : s.right).push_back(positive ? *positive : t);
  }
  if (s.left.empty() && s.op != Op::Lt) return std::nullopt;
  for (std::vector<Expr>* side : {&s.left, &s.right})  // the constant last: i + 1 <= j
    if (!side->empty() && side->front().is(Op::Constant))
      std::rotate(side->begin(), side->begin() + 1, side->end());
  if (equality) std::swap(s.left, s.right);
  return s;
}

std::string to_string(Expr e) { return e ? print(e).text : "(null)"; }

}  // namespace tilewright
