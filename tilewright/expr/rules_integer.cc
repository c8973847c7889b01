// Floor division and remainder of integers, casts.
//
//   (m·a + b) // m = a + b // m               (m·a + b) % m = b % m         for a divisor m that is not 0
//   (g·a + c) // (g·m) = (a + c // g) // m    (a // m) // n = a // (m·n)    for numbers g, m, n > 0
//   coefficients are reduced to the least remainder in size, constants to 0 <= c < m
//   a // m = 0 and a % m = a                  where bounds show 0 <= a < m
#include <cmath>
#include <numeric>

#include "tilewright/expr/canonical.h"

namespace tilewright::canonical {
namespace {

int64_t floor_quotient(int64_t a, int64_t b) { return Rational(a, b).floor().num(); }

struct Division {
  std::vector<Expr> quotient;  ///< terms whose multiples of the divisor were taken out
  Expr rest;
};

/// a = m·(Σ quotient) + rest for a number m > 0 and integer coefficients.
Division divide_terms(Expr a, int64_t m) {
  Division d;
  std::vector<Expr> rest;
  for (Expr t : terms_of(a)) {
    Number c = t.number() ? *Number::of(t) : split_coefficient(t).first;
    int64_t n = c.rational().num(), q = floor_quotient(n, m), r = n - q * m;
    if (!t.number() && r > m / 2) {
      ++q;
      r -= m;
    }
    Expr base = t.number() ? Expr(1) : split_coefficient(t).second;
    if (q != 0) d.quotient.push_back(mul({Expr(q), base}));
    if (r != 0) rest.push_back(mul({Expr(r), base}));
  }
  d.rest = add(std::move(rest));
  return d;
}

/// a = b·(Σ quotient) + rest for a divisor that is a product of symbols and the like.
Division divide_by_product(Expr a, Expr b) {
  Division d;
  std::vector<Expr> rest;
  Expr inverse = power(b, Expr(-1));
  for (Expr t : terms_of(a)) {
    Expr q = mul({t, inverse});
    bool exact = facts(q).integer && !t.number();
    (exact ? d.quotient : rest).push_back(exact ? q : t);
  }
  d.rest = add(std::move(rest));
  return d;
}

/// All coefficients are integers that fit 64 bits.
bool has_integer_coefficients(Expr a) {
  for (Expr t : terms_of(a)) {
    Number c = t.number() ? *Number::of(t) : split_coefficient(t).first;
    if (!c.exact() || !c.rational().is_integer()) return false;
  }
  return true;
}

std::optional<int64_t> positive_integer(Expr e) {
  auto q = e.rational();
  if (!q || !q->is_integer() || q->num() <= 0) return std::nullopt;
  return q->num();
}

}  // namespace

Expr floor_div(Expr a, Expr b) {
  auto q = a.rational(), p = b.rational();
  if (p && p->num() != 0 && q) return Expr((*q / *p).floor());
  if (b.is_constant(1) && facts(a).integer) return a;
  if (b.is_constant(-1) && facts(a).integer) return negative(a);
  if (a.is_constant(0) && provably_positive(b)) return a;
  if (a == b && provably_positive(b)) return Expr(1);
  if (!facts(a).integer || !facts(b).integer) return make(Op::FloorDiv, {a, b});
  a = distribute(a);
  if (auto m = positive_integer(b); m && has_integer_coefficients(a)) {
    Division d = divide_terms(a, *m);
    if (!d.quotient.empty()) {
      d.quotient.push_back(floor_div(d.rest, b));
      return add(std::move(d.quotient));
    }
    int64_t g = *m;
    for (Expr t : terms_of(a))
      if (!t.number()) g = std::gcd(g, split_coefficient(t).first.rational().num());
    if (g > 1) {
      std::vector<Expr> terms;
      for (Expr t : terms_of(a)) {
        if (auto c = t.rational())
          terms.push_back(Expr((*c / Rational(g)).floor()));
        else
          terms.push_back(mul({Expr(Rational(1, g)), t}));
      }
      return floor_div(add(std::move(terms)), Expr(*m / g));
    }
    if (a.is(Op::FloorDiv)) {
      auto inner = positive_integer(a.arg(1));
      if (inner) return floor_div(a.arg(0), mul({a.arg(1), b}));
    }
    Interval range = bounds(a);
    if (range.lo >= 0 && range.hi < double(*m)) return Expr(0);
  } else if (!p) {
    Division d = divide_by_product(a, b);
    if (!d.quotient.empty()) {
      d.quotient.push_back(floor_div(d.rest, b));
      return add(std::move(d.quotient));
    }
  }
  return make(Op::FloorDiv, {a, b});
}

Expr modulo(Expr a, Expr b) {
  auto q = a.rational(), p = b.rational();
  if (p && p->num() != 0 && q) return Expr(*q - *p * (*q / *p).floor());
  if ((b.is_constant(1) || b.is_constant(-1)) && facts(a).integer) return Expr(0);
  if (a == b && provably_positive(b)) return Expr(0);
  if (!facts(a).integer || !facts(b).integer) return make(Op::Mod, {a, b});
  a = distribute(a);
  if (auto m = positive_integer(b); m && has_integer_coefficients(a)) {
    Division d = divide_terms(a, *m);
    if (!d.quotient.empty()) return modulo(d.rest, b);
    int64_t g = *m;
    for (Expr t : terms_of(a))
      g = std::gcd(g, (t.number() ? *t.rational() : split_coefficient(t).first.rational()).num());
    if (g > 1) return mul({Expr(g), modulo(mul({Expr(Rational(1, g)), a}), Expr(*m / g))});
    if (a.is(Op::Mod)) {
      auto inner = positive_integer(a.arg(1));
      if (inner && *inner % *m == 0) return modulo(a.arg(0), b);
    }
    Interval range = bounds(a);
    if (range.lo >= 0 && range.hi < double(*m)) return a;
  } else if (!p) {
    Division d = divide_by_product(a, b);
    if (!d.quotient.empty()) return modulo(d.rest, b);
  }
  return make(Op::Mod, {a, b});
}

Expr convert(DType t, Expr a) {
  if (auto n = a.number()) return Expr::real(round_to(t, *n));
  if (a.is(Op::Cast) && a->dtype == t) return a;
  if ((t == DType::i64 || t == DType::f64) && facts(a).integer && facts(a).finite) return a;
  if (t == DType::boolean && facts(a).boolean) return a;
  Node n;
  n.op = Op::Cast;
  n.dtype = t;
  n.args = {a};
  return make(std::move(n));
}

}  // namespace tilewright::canonical
