// Sums, products, powers, extrema and divisions: constants are joined, negative terms subtracted, negative powers divided by.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tilewright/emit/c_expr.h"
#include "tilewright/expr/simplify.h"
#include "tilewright/support/error.h"

namespace tilewright {

namespace {
using namespace c_precedence;
}

/// A summand: `negative` tells that it is subtracted.
CValue CPrinter::term(Expr e, bool& negative) {
  negative = false;
  while (e.is(Op::Neg)) {
    negative = !negative;
    e = e.arg(0);
  }
  if (!e.is(Op::Mul) || is_named(e)) return print(e);
  double coefficient = 1;
  for (Expr f : e.args())
    if (closed(f)) coefficient *= evaluate(f, {});
  if (!(coefficient < 0)) return print(e);
  negative = !negative;
  return product(e.args(), true);
}

CValue CPrinter::join_sum(const std::vector<std::pair<bool, CValue>>& terms, double constant, CKind kind) {
  const int bits = kind == CKind::Real ? dialect_.real_bits : dialect_.integer_bits;
  if (terms.empty()) return CValue::number_of(constant, kind);
  std::vector<std::pair<bool, CValue>> ordered = terms;
  // A positive term first reads better than a leading minus.
  auto first = std::find_if(ordered.begin(), ordered.end(), [](const auto& t) { return !t.first; });
  if (first != ordered.end()) std::rotate(ordered.begin(), first, first + 1);
  const bool leading_minus = ordered[0].first;
  const bool single = terms.size() == 1 && constant == 0;  // before the constant may move to the front
  CValue out;
  out.kind = kind;
  out.bits = bits;
  if (leading_minus && constant != 0 && !std::isnan(constant)) {
    out.text = as(CValue::number_of(constant, kind), kind).text;
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
    const CValue c = as(CValue::number_of(std::fabs(constant), kind), kind);
    out.text += (constant < 0 ? " - " : " + ") + c.text;
  }
  if (single && !leading_minus) return as(terms[0].second, kind);
  out.precedence = single ? unary : sum_of_terms;
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
    if (f.is(Op::Pow) && !is_named(f)) {
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
  if (whole_ && !integer && above.size() + (coefficient != 1 && coefficient != -1) > 1) {
    // Each product by itself: no sum takes it in.
    std::vector<CValue> all;
    if (coefficient != 1 && coefficient != -1) all.push_back(as(CValue::number_of(coefficient, kind), kind));
    for (auto& [f, v] : above)
      all.push_back(v.kind == CKind::Integer && !v.literal ? real_of_integer(f, std::move(v))
                                                           : as(std::move(v), kind));
    CValue of = all[0];
    for (size_t k = 1; k < all.size(); ++k) of = whole_product(of, all[k]);
    if (coefficient == -1) of.text = "-" + of.text, of.precedence = unary;
    above = {{Expr(), std::move(of)}};
    coefficient = 1;
  }
  if (coefficient == -1 && !above.empty()) negative = true;
  if ((coefficient != 1 && !negative) || above.empty())
    out.text = as(CValue::number_of(coefficient, kind), kind).text;
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
      text += (text.empty() ? "" : " * ") + wrap(v, unary);  // a divisor is no addend
    }
    out.text += " / " + (below.size() == 1 ? text : "(" + text + ")");
  }
  return out;
}

CValue CPrinter::whole_product(const CValue& a, const CValue& b) const {
  CValue out = a;
  out.lanes = a.lanes || b.lanes;
  out.literal = false;
  out.text = CDialect::apply(dialect_.whole_product, {wrap(a, unary), wrap(b, unary)});
  out.precedence = primary;
  return out;
}

CValue CPrinter::whole_result(CValue v) const {
  if (!whole_ || dialect_.whole_result.empty()) return v;
  v.text = CDialect::apply(dialect_.whole_result, {v.text});
  v.precedence = primary;
  return v;
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
    if (!share_.empty() && !v.is_name() && harmless(base)) {
      v = declare(std::move(v));
      names()[base.get()] = v;
    }
    CValue out = v;
    if (whole_ && v.kind == CKind::Real) {
      for (int64_t k = 1; k < n->num(); ++k) out = whole_product(out, v);
      return out;
    }
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

}  // namespace tilewright
