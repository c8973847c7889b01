#include "tilewright/emit/c_expr.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tilewright/expr/simplify.h"
#include "tilewright/support/error.h"

namespace tilewright {
namespace {

using namespace c_precedence;

CValue literal_value(double x, CKind kind) {
  CValue v;
  v.kind = kind;
  v.literal = true;
  v.number = x;
  return v;
}

bool is_integral(double x) { return std::floor(x) == x && std::fabs(x) < 0x1p62; }

/// A name that costs nothing to repeat.
bool is_name(const CValue& v) {
  return v.literal ||
         std::all_of(v.text.begin(), v.text.end(), [](char c) { return std::isalnum(c) || c == '_'; });
}

/// e / log(2) when every addend of e carries the factor log(2).
std::optional<Expr> without_log2(Expr e) {
  static const Expr log2 = make(Op::Log, {Expr(2)});
  if (e == log2) return Expr(1);
  if (e.is(Op::Add)) {
    std::vector<Expr> terms;
    for (Expr t : e.args()) {
      auto rest = without_log2(t);
      if (!rest) return std::nullopt;
      terms.push_back(*rest);
    }
    return make(Op::Add, terms);
  }
  if (e.is(Op::Mul)) {
    std::vector<Expr> factors = e.args();
    auto at = std::find(factors.begin(), factors.end(), log2);
    if (at == factors.end()) return std::nullopt;
    factors.erase(at);
    return factors.size() == 1 ? factors[0] : make(Op::Mul, factors);
  }
  return std::nullopt;
}

}  // namespace

std::string CDialect::apply(const std::string& pattern, const std::vector<std::string>& args) {
  std::string out;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '{' && i + 2 < pattern.size() && pattern[i + 2] == '}') {
      const size_t k = size_t(pattern[i + 1] - '0');
      TW_CHECK(k < args.size(), "pattern " + pattern + " has more holes than operands");
      out += args[k];
      i += 2;
    } else {
      out += pattern[i];
    }
  }
  return out;
}

std::string CDialect::real_literal(double x, int bits) const {
  if (bits == 32) x = double(float(x));
  if (std::isnan(x)) return bits == 32 ? nan32 : nan64;
  if (std::isinf(x)) return (x < 0 ? "-" : "") + (bits == 32 ? infinity32 : infinity64);
  std::string s = bits == 32 ? fmt::format("{}", float(x)) : fmt::format("{}", x);
  if (s.find_first_of(".e") == std::string::npos) s += ".0";
  return bits == 32 ? s + "f" : s;
}

std::string CDialect::integer_literal(int64_t x, int bits) const {
  const bool wide = x > INT32_MAX || x <= INT32_MIN;
  if (x == INT64_MIN) return "(-9223372036854775807LL - 1)";
  return fmt::format("{}{}", x, wide && bits == 64 ? "LL" : "");
}

std::string CPrinter::wrap(const CValue& v, int precedence) {
  return v.precedence >= precedence ? v.text : "(" + v.text + ")";
}

bool CPrinter::closed(Expr e) {
  auto [it, fresh] = closed_.emplace(e.get(), false);
  if (!fresh) return it->second;
  bool all = !e.is(Op::Symbol) && !e.is(Op::Read) && !e.is(Op::Reduce) && !e.is(Op::RangeSum);
  for (Expr a : e.args()) all = all && closed(a);
  return closed_[e.get()] = all;
}

CValue CPrinter::literal(Expr e) {
  const double x = evaluate(e, {});
  // 0 and 1 are numbers until a condition is asked for.
  if (is_boolean(e) && !e.is(Op::Constant)) return CValue::boolean(x != 0 ? "true" : "false");
  return literal_value(x, is_integer(e) ? CKind::Integer : CKind::Real);
}

CValue CPrinter::as(CValue v, CKind kind) const {
  const int bits = kind == CKind::Real ? dialect_.real_bits : dialect_.integer_bits;
  if (v.literal) {
    if (kind == CKind::Boolean) return CValue::boolean(v.number != 0 ? "true" : "false");
    v.text = kind == CKind::Real ? dialect_.real_literal(v.number, bits)
                                 : dialect_.integer_literal(int64_t(v.number), bits);
    TW_CHECK(kind == CKind::Real || is_integral(v.number), fmt::format("{} is not an integer", v.number));
    v.precedence = v.text[0] == '-' ? unary : primary;
    v.literal = false;
    v.kind = kind;
    v.bits = bits;
    return v;
  }
  if (v.kind == kind && (kind == CKind::Boolean || v.bits == bits)) return v;
  if (v.lanes) return convert_lanes(std::move(v), kind);
  switch (kind) {
    case CKind::Boolean: return CValue::boolean(wrap(v, equality + 1) + " != 0", equality);
    case CKind::Integer:
      if (v.kind == CKind::Boolean)
        return CValue::integer(wrap(v, branch_operand) + " ? 1 : 0", bits, branch);
      TW_CHECK(v.kind == CKind::Integer, "a real where an integer is needed: " + v.text);
      return CValue::integer("(" + dialect_.integer_type(bits) + ")" + wrap(v, unary), bits, unary);
    case CKind::Real:
      if (v.kind == CKind::Boolean)
        return CValue::real(fmt::format("{} ? {} : {}", wrap(v, branch_operand),
                                        dialect_.real_literal(1, bits), dialect_.real_literal(0, bits)),
                            bits, branch);
      return CValue::real("(" + dialect_.real_type(bits) + ")" + wrap(v, unary), bits, unary);
  }
  TW_CHECK(false, "unknown kind");
}

CValue CPrinter::nested(Expr e) { TW_CHECK(false, "not a scalar expression: " + to_string(e)); }
CValue CPrinter::splat(CValue v) const { TW_CHECK(false, "this target has no lanes: " + v.text); }
CValue CPrinter::convert_lanes(CValue v, CKind) const {
  TW_CHECK(false, "this target has no lanes: " + v.text);
}
CValue CPrinter::real_of_integer(Expr, CValue v) { return as(std::move(v), CKind::Real); }

std::string CPrinter::type_of(const CValue& v) const {
  switch (v.kind) {
    case CKind::Boolean: return "bool";
    case CKind::Integer: return dialect_.integer_type(v.bits);
    case CKind::Real: return dialect_.real_type(v.bits);
  }
  TW_CHECK(false, "unknown kind");
}

bool CPrinter::harmless(Expr e) const {
  if ((e.is(Op::FloorDiv) || e.is(Op::Mod)) && !e.arg(1).number()) return false;
  return std::all_of(e.args().begin(), e.args().end(), [&](Expr a) { return harmless(a); });
}

CValue CPrinter::call(Op op, CKind kind, std::vector<CValue> args) {
  const auto it = dialect_.functions.find({op, kind});
  TW_CHECK(it != dialect_.functions.end(), fmt::format("this target has no function for '{}'", name(op)));
  const bool lanes = std::any_of(args.begin(), args.end(), [](const CValue& v) { return v.lanes; });
  std::vector<std::string> texts;
  for (size_t i = 0; i < args.size(); ++i) {
    CValue v = as(args[i], op == Op::Select && i == 0 ? CKind::Boolean : kind);
    texts.push_back((lanes && !v.lanes ? splat(std::move(v)) : v).text);
  }
  CValue out;
  out.text = CDialect::apply(it->second, texts);
  out.kind = kind;
  out.bits = kind == CKind::Real ? dialect_.real_bits : dialect_.integer_bits;
  out.lanes = lanes;
  return out;
}

CValue CPrinter::function(Op op, Expr, CValue v) { return call(op, CKind::Real, {std::move(v)}); }

CValue CPrinter::value(Expr e) {
  if (depth_ == 0 && !share_.empty()) count_uses(e);
  ++depth_;
  CValue v = print(e);
  --depth_;
  return v;
}

std::vector<std::string> CPrinter::take_declarations() {
  uses_.clear();
  named_.clear();
  next_ = 0;
  return std::exchange(declarations_, {});
}

void CPrinter::count_uses(Expr e) {
  if (uses_[e.get()]++ > 0 || e.is(Op::Read)) return;
  for (Expr a : e.args()) count_uses(a);
}

CValue CPrinter::declare(CValue v) {
  if (v.literal) return v;
  const std::string name = fmt::format("{}{}", share_, next_++);
  declarations_.push_back(fmt::format("const {} {} = {};", type_of(v), name, v.text));
  v.text = name;
  v.precedence = primary;
  return v;
}

CValue CPrinter::print(Expr e) {
  if (closed(e)) return literal(e);
  if (auto it = named_.find(e.get()); it != named_.end()) return it->second;
  CValue v = print_node(e);
  if (!share_.empty() && uses_[e.get()] > 1 && !is_name(v) && harmless(e)) {
    v = declare(std::move(v));
    named_[e.get()] = v;
  }
  return v;
}

CValue CPrinter::print_real(Expr e) {
  CValue v = print(e);
  return v.kind == CKind::Integer && !v.literal ? real_of_integer(e, std::move(v))
                                                : as(std::move(v), CKind::Real);
}

CValue CPrinter::print_node(Expr e) {
  const auto& a = e.args();
  switch (e.op()) {
    case Op::Constant:
    case Op::Real: return literal(e);
    case Op::Symbol: return symbol(e->sym);
    case Op::Read: return read(e);
    case Op::Reduce:
    case Op::RangeSum: return nested(e);
    case Op::Add: return sum(a);
    case Op::Sub: return sum({a[0], -a[1]});
    case Op::Neg: return sum({e});
    case Op::Mul: return product(a, false);
    case Op::Div: return product({a[0], pow(a[1], -1)}, false);
    case Op::Pow: return power(a[0], a[1]);
    case Op::Exp:
      if (auto base2 = without_log2(a[0])) return function(Op::Exp2, *base2, print_real(*base2));
      [[fallthrough]];
    case Op::Exp2:
    case Op::Log:
    case Op::Log2:
    case Op::Sqrt:
    case Op::Rsqrt:
    case Op::Tanh:
    case Op::Sigmoid:
    case Op::Erf: return function(e.op(), a[0], print_real(a[0]));
    case Op::Floor:
    case Op::Round: {
      CValue v = print(a[0]);
      return v.kind == CKind::Real ? call(e.op(), CKind::Real, {v}) : v;
    }
    case Op::Abs:
    case Op::Sign: {
      CValue v = print(a[0]);
      return call(e.op(), v.kind == CKind::Real ? CKind::Real : CKind::Integer, {v});
    }
    case Op::Max:
    case Op::Min: return extremum(e.op(), a);
    case Op::Select: return conditional(e);
    case Op::Lt:
    case Op::Le:
    case Op::Eq:
    case Op::Ne: return comparison(e.op(), a[0], a[1]);
    case Op::And:
    case Op::Or: return connective(e.op(), a);
    case Op::Not: {
      CValue v = as(print(a[0]), CKind::Boolean);
      const bool lanes = v.lanes;
      v = CValue::boolean((lanes ? "~" : "!") + wrap(v, unary), unary);
      v.lanes = lanes;
      return v;
    }
    case Op::FloorDiv:
    case Op::Mod: return divide(e.op(), a[0], a[1]);
    case Op::Cast: return cast_to(e->dtype, print(a[0]));
  }
  TW_CHECK(false, "unknown operator");
}

/// A summand: `negative` tells that it is subtracted.
CValue CPrinter::term(Expr e, bool& negative) {
  negative = false;
  while (e.is(Op::Neg)) {
    negative = !negative;
    e = e.arg(0);
  }
  if (!e.is(Op::Mul) || named_.count(e.get())) return print(e);
  double coefficient = 1;
  for (Expr f : e.args())
    if (closed(f)) coefficient *= evaluate(f, {});
  if (!(coefficient < 0)) return print(e);
  negative = !negative;
  return product(e.args(), true);
}

CValue CPrinter::join_sum(const std::vector<std::pair<bool, CValue>>& terms, double constant, CKind kind) {
  const int bits = kind == CKind::Real ? dialect_.real_bits : dialect_.integer_bits;
  if (terms.empty()) return literal_value(constant, kind);
  std::vector<std::pair<bool, CValue>> ordered = terms;
  // A positive term first reads better than a leading minus.
  auto first = std::find_if(ordered.begin(), ordered.end(), [](const auto& t) { return !t.first; });
  if (first != ordered.end()) std::rotate(ordered.begin(), first, first + 1);
  const bool leading_minus = ordered[0].first;
  CValue out;
  out.kind = kind;
  out.bits = bits;
  if (leading_minus && constant != 0 && !std::isnan(constant)) {
    out.text = as(literal_value(constant, kind), kind).text;
    constant = 0;
  }
  for (const auto& [negative, value] : ordered) {
    const CValue v = as(value, kind);
    out.lanes = out.lanes || v.lanes;
    if (out.text.empty())
      out.text = negative ? "-" + wrap(v, primary) : wrap(v, sum_of_terms);
    else
      out.text += (negative ? " - " : " + ") + wrap(v, product_of_factors);
  }
  if (constant != 0) {
    const CValue c = as(literal_value(std::fabs(constant), kind), kind);
    out.text += (constant < 0 ? " - " : " + ") + c.text;
  }
  const bool single = terms.size() == 1 && constant == 0;
  if (single && !leading_minus) return as(terms[0].second, kind);
  out.precedence = single && leading_minus && out.text[0] == '-' ? unary : sum_of_terms;
  return out;
}

CValue CPrinter::sum(const std::vector<Expr>& terms) {
  std::vector<std::pair<bool, CValue>> integers, reals;
  std::vector<Expr> integer_terms;
  double integer_constant = 0, real_constant = 0;
  for (Expr t : terms) {
    if (closed(t)) {
      CValue v = literal(t);
      if (v.kind == CKind::Boolean) v = as(std::move(v), CKind::Integer), v.number = v.text == "true" ? 1 : 0;
      (v.kind == CKind::Real ? real_constant : integer_constant) += v.number;
      continue;
    }
    bool negative;
    CValue v = term(t, negative);
    if (v.kind == CKind::Real) {
      reals.push_back({negative, std::move(v)});
    } else {
      integers.push_back({negative, as(std::move(v), CKind::Integer)});
      integer_terms.push_back(t);
    }
  }
  if (reals.empty() && real_constant == 0) return join_sum(integers, integer_constant, CKind::Integer);
  if (integers.empty()) {
    real_constant += integer_constant;
  } else {
    // The integer part is exact before it becomes a real.
    if (integer_constant != 0) integer_terms.push_back(Expr(int64_t(integer_constant)));
    const Expr whole = integer_terms.size() == 1 ? integer_terms[0] : make(Op::Add, integer_terms);
    reals.push_back({false, real_of_integer(whole, join_sum(integers, integer_constant, CKind::Integer))});
  }
  return join_sum(reals, real_constant, CKind::Real);
}

CValue CPrinter::product(const std::vector<Expr>& factors, bool negate) {
  double coefficient = negate ? -1 : 1;
  std::vector<std::pair<Expr, CValue>> above;
  std::vector<CValue> below;
  bool integer = true;
  for (Expr f : factors) {
    if (closed(f)) {
      coefficient *= evaluate(f, {});
      continue;
    }
    if (f.is(Op::Pow) && !named_.count(f.get())) {
      const auto n = f.arg(1).rational();
      const bool rsqrt = n && *n == Rational(-1, 2) && dialect_.functions.count({Op::Rsqrt, CKind::Real});
      if (n && *n < Rational(0) && !rsqrt) {
        below.push_back(as(power(f.arg(0), Expr(-*n)), CKind::Real));
        integer = false;
        continue;
      }
    }
    CValue v = print(f);
    integer = integer && v.kind != CKind::Real;
    above.push_back({f, std::move(v)});
  }
  integer = integer && is_integral(coefficient);
  const CKind kind = integer ? CKind::Integer : CKind::Real;
  CValue out;
  out.kind = kind;
  out.bits = integer ? dialect_.integer_bits : dialect_.real_bits;
  out.precedence = product_of_factors;
  bool negative = false;
  if (coefficient == -1 && !above.empty()) negative = true;
  if ((coefficient != 1 && !negative) || above.empty())
    out.text = as(literal_value(coefficient, kind), kind).text;
  for (auto& [f, v] : above) {
    const bool convert = !integer && v.kind == CKind::Integer && !v.literal;
    const CValue x = convert ? real_of_integer(f, std::move(v)) : as(std::move(v), kind);
    out.lanes = out.lanes || x.lanes;
    if (above.size() == 1 && below.empty() && out.text.empty() && !negative) return x;
    out.text += (out.text.empty() ? (negative ? "-" : "") : " * ");
    out.text += wrap(x, negative && &v == &above[0].second ? primary : unary);
  }
  if (!below.empty()) {
    std::string text;
    for (const CValue& v : below) {
      out.lanes = out.lanes || v.lanes;
      text += (text.empty() ? "" : " * ") + wrap(v, unary);
    }
    out.text += " / " + (below.size() == 1 ? text : "(" + text + ")");
  }
  return out;
}

CValue CPrinter::power(Expr base, Expr exponent) {
  const auto n = exponent.rational();
  if (n && *n == Rational(1, 2)) return call(Op::Sqrt, CKind::Real, {print_real(base)});
  if (n && *n == Rational(-1, 2) && dialect_.functions.count({Op::Rsqrt, CKind::Real}))
    return call(Op::Rsqrt, CKind::Real, {print_real(base)});
  if (n && *n < Rational(0)) return product({pow(base, exponent)}, false);
  if (n && n->is_integer() && n->num() >= 1 && n->num() <= 4) {
    CValue v = print(base);
    if (v.kind == CKind::Boolean) v = as(std::move(v), CKind::Integer);
    v = as(v, v.kind);
    if (n->num() == 1) return v;
    if (!share_.empty() && !is_name(v) && harmless(base)) {
      v = declare(std::move(v));
      named_[base.get()] = v;
    }
    CValue out = v;
    for (int64_t k = 1; k < n->num(); ++k)
      out.text = (k == 1 ? wrap(v, unary) : out.text) + " * " + wrap(v, unary);
    out.precedence = product_of_factors;
    return out;
  }
  return call(Op::Pow, CKind::Real, {print_real(base), print_real(exponent)});
}

CValue CPrinter::extremum(Op op, const std::vector<Expr>& args) {
  TW_CHECK(!args.empty(), "a maximum of nothing");
  std::vector<CValue> values;
  bool integer = true;
  for (Expr a : args) {
    values.push_back(print(a));
    integer = integer && values.back().kind != CKind::Real;
  }
  const CKind kind = integer ? CKind::Integer : CKind::Real;
  for (size_t i = 0; i < args.size(); ++i) {
    const bool convert = !integer && values[i].kind == CKind::Integer && !values[i].literal;
    values[i] = convert ? real_of_integer(args[i], std::move(values[i])) : as(std::move(values[i]), kind);
  }
  CValue out = values[0];
  for (size_t i = 1; i < values.size(); ++i) out = call(op, kind, {out, values[i]});
  return out;
}

CValue CPrinter::compare(Op op, CValue a, CValue b) {
  CKind kind = CKind::Integer;
  if (a.kind == CKind::Real || b.kind == CKind::Real)
    kind = CKind::Real;
  else if (a.kind == CKind::Boolean && b.kind == CKind::Boolean && (op == Op::Eq || op == Op::Ne))
    kind = CKind::Boolean;
  a = as(std::move(a), kind);
  b = as(std::move(b), kind);
  const bool order = op == Op::Lt || op == Op::Le;
  const int p = order ? relation : equality;
  const char* text = op == Op::Lt ? "<" : op == Op::Le ? "<=" : op == Op::Eq ? "==" : "!=";
  const bool lanes = a.lanes || b.lanes;
  if (kind == CKind::Boolean && a.lanes != b.lanes)
    (a.lanes ? b : a) = splat(a.lanes ? std::move(b) : std::move(a));
  CValue out = CValue::boolean(fmt::format("{} {} {}", wrap(a, p + 1), text, wrap(b, p + 1)), p);
  out.lanes = lanes;
  return out;
}

CValue CPrinter::comparison(Op op, Expr a, Expr b) {
  CValue va = print(a), vb = print(b);
  if (va.kind == CKind::Real || vb.kind == CKind::Real || !(a.is_constant(0) != b.is_constant(0)) ||
      named_.count((a.is_constant(0) ? b : a).get()))
    return compare(op, std::move(va), std::move(vb));
  // 0 <= Σ positive − Σ negative reads Σ negative <= Σ positive.
  const Expr e = a.is_constant(0) ? b : a;
  if (!e.is(Op::Add)) return compare(op, std::move(va), std::move(vb));
  std::vector<std::pair<bool, CValue>> same, other;
  double constant = 0;
  for (Expr t : e.args()) {
    if (closed(t)) {
      constant += evaluate(t, {});
      continue;
    }
    bool negative;
    CValue v = term(t, negative);
    (negative ? other : same).push_back({false, std::move(v)});
  }
  double same_constant = constant > 0 ? constant : 0, other_constant = constant < 0 ? -constant : 0;
  if (op == Op::Le && a.is_constant(0) && other_constant == 1 && !other.empty()) {
    op = Op::Lt;
    other_constant = 0;
  }
  CValue x = as(join_sum(same, same_constant, CKind::Integer), CKind::Integer);
  CValue y = as(join_sum(other, other_constant, CKind::Integer), CKind::Integer);
  return a.is_constant(0) ? compare(op, std::move(y), std::move(x)) : compare(op, std::move(x), std::move(y));
}

CValue CPrinter::connective(Op op, const std::vector<Expr>& args) {
  // Conditions that are the same in all lanes are joined first, as scalars.
  std::vector<CValue> scalars, vectors;
  for (Expr a : args) {
    CValue v = as(print(a), CKind::Boolean);
    (v.lanes ? vectors : scalars).push_back(std::move(v));
  }
  const bool conjunction = op == Op::And;
  CValue out;
  if (!scalars.empty()) {
    const int p = conjunction ? both : either;
    out = scalars[0];
    for (size_t i = 1; i < scalars.size(); ++i)
      out = CValue::boolean(
          fmt::format("{} {} {}", i == 1 ? wrap(out, conjunction ? equality : relation) : out.text,
                      conjunction ? "&&" : "||", wrap(scalars[i], conjunction ? equality : relation)),
          p);
  }
  if (vectors.empty()) return out;
  if (!scalars.empty()) vectors.push_back(splat(std::move(out)));
  out = vectors[0];
  for (size_t i = 1; i < vectors.size(); ++i) {
    out = CValue::boolean(fmt::format("{} {} {}", i == 1 ? wrap(out, unary) : out.text,
                                      conjunction ? "&" : "|", wrap(vectors[i], unary)),
                          conjunction ? bit_and : bit_or);
    out.lanes = true;
  }
  return out;
}

CValue CPrinter::conditional(Expr e) {
  const CValue condition = as(print(e.arg(0)), CKind::Boolean);
  CValue yes = print(e.arg(1)), no = print(e.arg(2));
  CKind kind = CKind::Integer;
  if (yes.kind == CKind::Real || no.kind == CKind::Real)
    kind = CKind::Real;
  else if (yes.kind == CKind::Boolean && no.kind == CKind::Boolean)
    kind = CKind::Boolean;
  const auto convert = [&](Expr x, CValue v) {
    return kind == CKind::Real && v.kind == CKind::Integer && !v.literal ? real_of_integer(x, std::move(v))
                                                                         : as(std::move(v), kind);
  };
  yes = convert(e.arg(1), std::move(yes));
  no = convert(e.arg(2), std::move(no));
  if (condition.lanes) return call(Op::Select, kind, {condition, yes, no});
  if (yes.lanes != no.lanes) (yes.lanes ? no : yes) = splat(yes.lanes ? std::move(no) : std::move(yes));
  CValue out = yes;
  out.text = fmt::format("{} ? {} : {}", wrap(condition, branch_operand), wrap(yes, branch_operand),
                         wrap(no, branch_operand));
  out.precedence = branch;
  return out;
}

CValue CPrinter::divide(Op op, Expr a, Expr b) {
  CValue x = as(print(a), CKind::Integer), y = as(print(b), CKind::Integer);
  const bool lanes = x.lanes || y.lanes;
  const bool quotient = op == Op::FloorDiv;
  if (const auto n = b.rational(); n && n->is_integer() && n->num() > 0) {
    const int64_t d = n->num();
    if (d == 1 && quotient) return x;
    if ((d & (d - 1)) == 0) {
      const int bits = __builtin_ctzll(uint64_t(d));
      CValue out =
          quotient ? CValue::integer(fmt::format("{} >> {}", wrap(x, sum_of_terms + 1), bits), x.bits, shift)
                   : CValue::integer(fmt::format("{} & {}", wrap(x, sum_of_terms + 1),
                                                 dialect_.integer_literal(d - 1, x.bits)),
                                     x.bits, bit_and);
      out.lanes = lanes;
      return out;
    }
  }
  if (provably_nonnegative(a) && provably_positive(b)) {
    CValue out = CValue::integer(
        fmt::format("{} {} {}", wrap(x, product_of_factors), quotient ? "/" : "%", wrap(y, unary)), x.bits,
        product_of_factors);
    out.lanes = lanes;
    return out;
  }
  return call(op, CKind::Integer, {x, y});
}

CValue CPrinter::cast_to(DType t, CValue v) {
  if (t == DType::boolean) return as(std::move(v), CKind::Boolean);
  const bool to_integer = tilewright::is_integer(t);
  if (to_integer && v.kind != CKind::Real) {
    v = as(std::move(v), CKind::Integer);
    if (t == DType::i64) return v;
  } else {
    v = as(std::move(v), CKind::Real);
    if (!to_integer && bytes(t) * 8 >= v.bits) return v;
  }
  const auto it = dialect_.casts.find(t);
  TW_CHECK(it != dialect_.casts.end(), fmt::format("this target does not round to {}", name(t)));
  CValue out = v;
  out.text = CDialect::apply(it->second, {v.text});
  out.precedence = primary;
  if (to_integer) {
    out.kind = CKind::Integer;
    out.bits = dialect_.integer_bits;
  }
  return out;
}

}  // namespace tilewright
