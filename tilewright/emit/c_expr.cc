#include "tilewright/emit/c_expr.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tilewright/expr/simplify.h"
#include "tilewright/support/error.h"

namespace tilewright {
namespace {

using namespace c_precedence;

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

bool CValue::is_name() const {
  return literal || std::all_of(text.begin(), text.end(), [](char c) { return std::isalnum(c) || c == '_'; });
}

CValue CValue::number_of(double x, CKind kind) {
  CValue v;
  v.kind = kind;
  v.literal = true;
  v.number = x;
  return v;
}

bool is_integral(double x) { return std::floor(x) == x && std::fabs(x) < 0x1p62; }

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
  return CValue::number_of(x, is_integer(e) ? CKind::Integer : CKind::Real);
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
      if (v.kind == CKind::Real) return cast_to(DType::i64, std::move(v));  // states hold integers as reals
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
  named_whole_.clear();
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
  if (auto it = names().find(e.get()); it != names().end()) return it->second;
  CValue v = print_node(e);
  if (!share_.empty() && uses_[e.get()] > 1 && !v.is_name() && harmless(e)) {
    v = declare(std::move(v));
    names()[e.get()] = v;
  }
  return v;
}

CValue CPrinter::whole_value(Expr e) {
  const bool outside = std::exchange(whole_, true);
  CValue v = print_real(e);
  whole_ = outside;
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
      if (auto base2 = without_log2(a[0]))
        return whole_result(function(Op::Exp2, *base2, print_real(*base2)));
      [[fallthrough]];
    case Op::Exp2:
    case Op::Log:
    case Op::Log2:
    case Op::Sqrt:
    case Op::Rsqrt:
    case Op::Tanh:
    case Op::Sigmoid:
    case Op::Erf: return whole_result(function(e.op(), a[0], print_real(a[0])));
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
    case Op::Cast:
      return is_float(e->dtype) && bytes(e->dtype) * 8 >= dialect_.real_bits && !is_integer(a[0])
                 ? whole_value(a[0])
                 : cast_to(e->dtype, print(a[0]));
  }
  TW_CHECK(false, "unknown operator");
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
      is_named(a.is_constant(0) ? b : a))
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
  if (condition.lanes || (kind == CKind::Real && evaluates_both(e.arg(1), e.arg(2))))
    return call(Op::Select, kind, {condition, yes, no});
  if (yes.lanes != no.lanes) (yes.lanes ? no : yes) = splat(yes.lanes ? std::move(no) : std::move(yes));
  CValue out = yes;
  out.text = fmt::format("{} ? {} : {}", wrap(condition, branch_operand), wrap(yes, branch_operand),
                         wrap(no, branch_operand));
  out.precedence = branch;
  return out;
}

CValue CPrinter::cast_to(DType t, CValue v) const {
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
