// Products and powers.
//
//   (a·b)·c = a·b·c           a^p·a^q = a^(p+q)        exp(a)·exp(b) = exp(a + b)
//   (a^p)^n = a^(p·n)         (a·b)^n = a^n·b^n        for integers n; for others where a >= 0
//   (a^p)^q = a^(p·q)         where neither side exists for a < 0
//   (a^2)^p = |a|^(2p)        |a|^(2n) = a^(2n)
//   b^y = exp(y·log b)        for b > 0 and an exponent that is not a number
//   (p^k·q^l)^r               with primes: 128^(-1/2) = 1/16·2^(1/2)
//   a·a^-1 = 1                over the reals, where defined; 0·a stays unless a is finite
#include <algorithm>
#include <cmath>

#include "tilewright/expr/canonical.h"

namespace tilewright::canonical {
namespace {

struct Product {
  Number coefficient{1};
  std::vector<std::pair<Expr, Expr>> factors;  // base, exponent
  std::vector<Expr> exponents;                 // of exponentials
  bool merged = false;

  void collect(Expr e) {
    if (auto n = Number::of(e)) {
      coefficient = coefficient * *n;
    } else if (e.is(Op::Mul)) {
      for (Expr a : e.args()) collect(a);
    } else if (e.is(Op::Exp)) {
      exponents.push_back(e.arg(0));
    } else if (e.is(Op::Pow)) {
      include(e.arg(0), e.arg(1));
    } else if (e.is(Op::Add)) {
      auto [content, rest] = primitive(e, true);
      coefficient = coefficient * content;
      include(rest, Expr(1));
    } else {
      include(e, Expr(1));
    }
  }

  void include(Expr base, Expr exponent) {
    for (auto& [b, x] : factors) {
      if (b != base) continue;
      if (!(x.rational() && exponent.rational()) && !provably_nonnegative(base)) continue;
      x = add({x, exponent});
      merged = true;
      return;
    }
    factors.emplace_back(base, exponent);
  }

  Expr build() {
    if (std::isnan(coefficient.value())) return coefficient.expr();
    std::vector<Expr> done;
    bool again = false;
    for (auto& [base, exponent] : factors) {
      Expr f = exponent.is_constant(1) ? base
               : merged                ? power(base, exponent)
                                       : make(Op::Pow, {base, exponent});
      bool plain = f == base || (f.is(Op::Pow) && f.arg(0) == base);
      again |= !plain || f.number();
      done.push_back(f);
    }
    if (exponents.size() == 1) {
      done.push_back(make(Op::Exp, {exponents[0]}));
    } else if (exponents.size() > 1) {
      done.push_back(exponential(add(exponents)));
      again |= !done.back().is(Op::Exp);
    }
    if (again) {
      done.push_back(coefficient.expr());
      return mul(std::move(done));
    }
    if (coefficient.zero() && std::all_of(done.begin(), done.end(), [](Expr f) { return facts(f).finite; }))
      return Expr(0);
    if (!coefficient.finite())
      std::erase_if(done, [](Expr f) { return facts(f).finite && provably_positive(f); });
    if (done.size() == 1 && done[0].is(Op::Add) && !coefficient.is(1) && coefficient.finite() &&
        !coefficient.zero())
      return add({make(Op::Mul, {coefficient.expr(), done[0]})});
    auto key = [](Expr f) { return f.is(Op::Pow) ? f.arg(0) : f; };
    std::sort(done.begin(), done.end(), [&](Expr a, Expr b) {
      int c = compare(key(a), key(b));
      return c != 0 ? c < 0 : compare(a, b) < 0;
    });
    if (!coefficient.is(1)) done.insert(done.begin(), coefficient.expr());
    if (done.empty()) return Expr(1);
    return done.size() == 1 ? done[0] : make(Op::Mul, std::move(done));
  }
};

bool is_even(const Rational& q) { return q.is_integer() && q.num() % 2 == 0; }

/// base^exponent for base > 0 as a rational times primes to powers between 0 and 1.
Expr number_power(Rational base, Rational exponent) {
  std::vector<Expr> factors;
  Rational coefficient = 1;
  auto include = [&](int64_t prime, int64_t count) {
    Rational total = Rational(count) * exponent, whole = total.floor();
    if (whole.num() > 64 || whole.num() < -64) throw RationalOverflow();
    for (int64_t k = 0; k < whole.num(); ++k) coefficient = coefficient * Rational(prime);
    for (int64_t k = 0; k < -whole.num(); ++k) coefficient = coefficient * Rational(1, prime);
    if (total != whole) factors.push_back(make(Op::Pow, {Expr(prime), Expr(total - whole)}));
  };
  auto factorise = [&](int64_t n, int64_t sign) {
    for (int64_t p = 2; p < (1 << 16) && p * p <= n; ++p) {
      int64_t count = 0;
      for (; n % p == 0; n /= p) ++count;
      if (count) include(p, sign * count);
    }
    if (n > 1) include(n, sign);
  };
  try {
    factorise(base.num(), 1);
    factorise(base.den(), -1);
  } catch (const RationalOverflow&) {
    return Expr::real(std::pow(base.value(), exponent.value()));
  }
  if (factors.empty()) return Expr(coefficient);
  if (coefficient == Rational(1) && factors.size() == 1) return factors[0];
  factors.push_back(coefficient);
  return mul(std::move(factors));
}

/// (a/b)^-q = (b/a)^q: of the two a positive exponent.
Expr root_of_product(Expr base, Rational exponent) {
  if (exponent.num() > 0) return make(Op::Pow, {base, Expr(exponent)});
  return make(Op::Pow, {power(base, Expr(-1)), Expr(-exponent)});
}

/// (a·b)^x where the factors that are >= 0, and for integer x all of them, are raised alone.
Expr power_of_product(Expr base, Expr exponent, bool integer) {
  std::vector<Expr> raised, rest;
  for (Expr f : base.args()) {
    auto n = Number::of(f);
    if (integer || provably_nonnegative(f)) {
      raised.push_back(power(f, exponent));
    } else if (n && n->negative() && n->finite()) {
      raised.push_back(power((-*n).expr(), exponent));
      rest.push_back(Expr(-1));
    } else {
      rest.push_back(f);
    }
  }
  // (-(a - b)^n)^x = ((b - a)^n)^x for odd n
  if (!integer && rest.size() == 2 && rest[0].is_constant(-1) && rest[1].is(Op::Pow) &&
      rest[1].arg(0).is(Op::Add)) {
    auto n = rest[1].arg(1).rational();
    if (n && n->is_integer() && n->num() % 2 != 0) {
      raised.push_back(power(make(Op::Pow, {negative(rest[1].arg(0)), rest[1].arg(1)}), exponent));
      return mul(std::move(raised));
    }
  }
  bool only_sign = raised.size() == 1 && raised[0].is_constant(1);
  if (raised.empty() || only_sign) return root_of_product(base, *exponent.rational());
  if (!rest.empty()) {
    Expr inner = mul(rest);
    raised.push_back(inner.is(Op::Mul) ? root_of_product(inner, *exponent.rational())
                                       : power(inner, exponent));
  }
  return mul(std::move(raised));
}

}  // namespace

Expr mul(std::vector<Expr> factors) {
  Product p;
  for (Expr f : factors) p.collect(f);
  return p.build();
}

Expr power(Expr base, Expr exponent) {
  auto q = exponent.rational();
  if (exponent.is_constant(0) || base.is_constant(1)) return Expr(1);
  if (exponent.is_constant(1)) return base;
  if (base.number() && exponent.number()) {
    auto b = base.rational();
    if (!b || !q) return Expr::real(std::pow(*base.number(), *exponent.number()));
    if (b->num() == 0) return q->num() > 0 ? Expr(0) : Expr::infinity();
    if (b->num() > 0) return number_power(*b, *q);
    if (!q->is_integer()) return Expr::real(std::nan(""));
    return mul({Expr(is_even(*q) ? 1 : -1), number_power(-*b, *q)});
  }
  if (!q) {
    if (provably_positive(base) && !(base.number() && !base.rational()))
      return exponential(mul({exponent, logarithm(base)}));
    return make(Op::Pow, {base, exponent});
  }
  if (base.is(Op::Exp)) return exponential(mul({exponent, base.arg(0)}));
  if (facts(base).boolean && q->num() > 0) return base;
  const bool integer = q->is_integer();
  if (base.is(Op::Abs) && is_even(*q)) return power(base.arg(0), exponent);
  if (base.is(Op::Pow)) {
    auto inner = base.arg(1).rational();
    if (integer || provably_nonnegative(base.arg(0))) return power(base.arg(0), mul({base.arg(1), exponent}));
    if (inner && is_even(*inner)) return power(unary(Op::Abs, base.arg(0)), mul({base.arg(1), exponent}));
    // For other p both sides exist for a >= 0 alone, unless p is odd and p·q an integer: (a^3)^(1/3) is not a
    // for a < 0.
    if (inner && (!inner->is_integer() || !(*inner * *q).is_integer()))
      return power(base.arg(0), Expr(*inner * *q));
  }
  if (base.is(Op::Mul)) return power_of_product(base, exponent, integer);
  if (base.is(Op::Add)) {
    auto [content, rest] = primitive(base, integer);
    if (!content.is(1)) return mul({power(content.expr(), exponent), power(rest, exponent)});
  }
  return make(Op::Pow, {base, exponent});
}

}  // namespace tilewright::canonical
