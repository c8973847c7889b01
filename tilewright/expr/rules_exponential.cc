// Exponentials, logarithms and the other functions of one argument.
//
//   exp(-inf) = 0                     exp(q·log b + r) = b^q·exp(r)      for a number q and b >= 0
//   the exponent is expanded          log(exp(a)·b) = a + log b          log(a·b) = log a + log b for a > 0
//   log(a^q) = q·log a for a > 0      log n is written with primes; log 2 stays symbolic
//   tanh(-a) = -tanh(a), likewise erf and sign; |−a| = |a|; |q·a| = |q|·|a|; |a| = a for a >= 0
//   floor(a + n) = floor(a) + n, likewise round, for integers n; floor(e/m) = e // m for integers e, m
#include <cmath>
#include <limits>

#include "tilewright/expr/canonical.h"

namespace tilewright::canonical {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Σ ±count·log(prime) of a positive rational.
Expr log_of_number(Rational q) {
  std::vector<Expr> terms;
  auto include = [&](int64_t n, int64_t sign) {
    auto term = [&](int64_t prime, int64_t count) {
      Expr l = make(Op::Log, {Expr(prime)});
      terms.push_back(sign * count == 1 ? l : make(Op::Mul, {Expr(sign * count), l}));
    };
    for (int64_t p = 2; p < (1 << 16) && p * p <= n; ++p) {
      int64_t count = 0;
      for (; n % p == 0; n /= p) ++count;
      if (count) term(p, count);
    }
    if (n > 1) term(n, 1);
  };
  include(q.num(), 1);
  include(q.den(), -1);
  return add(std::move(terms));
}

}  // namespace

Expr exponential(Expr a) {
  if (a.is_constant(0)) return Expr(1);
  if (a.is(Op::Real) && !std::isfinite(a->real)) return Expr::real(std::exp(a->real));
  a = distribute(a);
  std::vector<Expr> factors, rest;
  for (Expr t : terms_of(a)) {
    auto [c, base] = split_coefficient(t);
    if (base.is(Op::Log) && c.exact() && provably_nonnegative(base.arg(0)))
      factors.push_back(power(base.arg(0), c.expr()));
    else
      rest.push_back(t);
  }
  if (factors.empty()) return a.is_constant(0) ? Expr(1) : make(Op::Exp, {a});
  if (!rest.empty()) factors.push_back(make(Op::Exp, {add(std::move(rest))}));
  return mul(std::move(factors));
}

Expr logarithm(Expr a) {
  if (auto q = a.rational()) {
    if (q->num() > 0) return log_of_number(*q);
    return Expr::real(q->num() == 0 ? -kInfinity : std::numeric_limits<double>::quiet_NaN());
  }
  if (a.is(Op::Real) && !(std::isfinite(a->real) && a->real > 0)) return Expr::real(std::log(a->real));
  if (a.is(Op::Exp)) return a.arg(0);
  if (a.is(Op::Pow) && a.arg(1).rational()) {
    Expr base = a.arg(0);
    Rational q = *a.arg(1).rational();
    if (provably_nonnegative(base)) return mul({a.arg(1), logarithm(base)});
    if (q.is_integer() && q.num() % 2 == 0) return mul({a.arg(1), logarithm(unary(Op::Abs, base))});
  }
  if (a.is(Op::Add)) {
    auto [content, rest] = primitive(a, false);
    if (!content.is(1)) return add({logarithm(content.expr()), make(Op::Log, {rest})});
  }
  if (a.is(Op::Mul)) {
    std::vector<Expr> terms, rest;
    for (Expr f : a.args()) (provably_positive(f) ? terms : rest).push_back(f);
    if (!terms.empty()) {
      for (Expr& f : terms) f = logarithm(f);
      if (!rest.empty()) terms.push_back(logarithm(mul(std::move(rest))));
      return add(std::move(terms));
    }
  }
  return make(Op::Log, {a});
}

namespace {

Expr absolute(Expr a) {
  if (auto n = Number::of(a)) return n->negative() ? (-*n).expr() : a;
  if (provably_nonnegative(a)) return a;
  auto [content, base] = primitive(a, true);
  if (!content.is(1)) return mul({content.negative() ? (-content).expr() : content.expr(), absolute(base)});
  if (a.is(Op::Mul)) {  // |a·b| = a·|b| for a >= 0
    std::vector<Expr> out, in;
    for (Expr f : a.args()) (provably_nonnegative(f) ? out : in).push_back(f);
    if (!out.empty()) {
      out.push_back(absolute(mul(std::move(in))));
      return mul(std::move(out));
    }
  }
  if (a.is(Op::Abs)) return a;
  if (provably_nonnegative(negative(a))) return negative(a);
  return make(Op::Abs, {a});
}

Expr sign_of(Expr a) {
  if (auto n = a.number()) return std::isnan(*n) ? a : Expr(*n > 0 ? 1 : *n < 0 ? -1 : 0);
  auto [content, base] = primitive(a, true);
  if (!content.is(1)) return content.negative() ? negative(sign_of(base)) : sign_of(base);
  if (facts(a).finite && provably_positive(a)) return Expr(1);
  return make(Op::Sign, {a});
}

/// floor and round: integer addends move out. Half to even makes this wrong for round with odd integers: only
/// even ones do.
Expr rounded(Op op, Expr a) {
  if (auto q = a.rational()) {
    if (op == Op::Floor) return Expr(q->floor());
    return Expr::real(std::nearbyint(q->value()));
  }
  if (a.is(Op::Real)) return Expr::real(op == Op::Floor ? std::floor(a->real) : std::nearbyint(a->real));
  if (facts(a).integer || a.is(Op::Floor) || a.is(Op::Round)) return a;
  std::vector<Expr> out, in;
  for (Expr t : terms_of(a)) {
    auto q = t.rational();
    Rational step = op == Op::Floor ? 1 : 2;
    if (q && !q->is_integer()) {  // the whole part of a constant
      Rational whole = (*q / step).floor() * step;
      out.push_back(whole);
      in.push_back(*q - whole);
    } else if (q) {
      Rational whole = (*q / step).floor() * step;
      out.push_back(whole);
      if (*q != whole) in.push_back(*q - whole);
    } else {
      auto c = split_coefficient(t).first;
      bool whole = facts(t).integer && (op == Op::Floor || (c.exact() && c.rational().num() % 2 == 0));
      (whole ? out : in).push_back(t);
    }
  }
  Expr inner = add(in);
  if (op == Op::Floor) {
    auto [content, base] = primitive(inner, true);
    if (content.exact() && !content.rational().is_integer() && facts(base).integer) {
      inner = floor_div(mul({Expr(content.rational().num()), base}), Expr(content.rational().den()));
      out.push_back(inner);
      return add(std::move(out));
    }
  }
  out.push_back(inner.number() ? rounded(op, inner) : make(op, {inner}));
  return add(std::move(out));
}

}  // namespace

Expr unary(Op op, Expr a) {
  switch (op) {
    case Op::Tanh:
    case Op::Erf:
      if (a.is_constant(0)) return a;
      if (a.is(Op::Real) && std::isinf(a->real)) return Expr(a->real > 0 ? 1 : -1);
      if (leads_negative(a)) return negative(make(op, {negative(a)}));
      return make(op, {a});
    case Op::Sigmoid:
      if (a.is_constant(0)) return Expr(Rational(1, 2));
      if (a.is(Op::Real) && std::isinf(a->real)) return Expr(a->real > 0 ? 1 : 0);
      return make(op, {a});
    case Op::Abs: return absolute(a);
    case Op::Sign: return sign_of(a);
    case Op::Floor:
    case Op::Round: return rounded(op, a);
    default: return make(op, {a});
  }
}

}  // namespace tilewright::canonical
