// Numbers and sums.
//
//   (a + b) + c = a + b + c          q·(a + b) = q·a + q·b for a number q
//   p·a + q·a = (p + q)·a            0·a vanishes when it comes from like terms
//   inf + a = inf for finite a       m·(a // m) + a % m = a
#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_map>

#include "tilewright/expr/canonical.h"

namespace tilewright::canonical {

Number Number::of(double x) {
  if (auto q = Expr::real(x).rational()) return *q;
  Number n;
  n.exact_.reset();
  n.value_ = x;
  return n;
}

std::optional<Number> Number::of(Expr e) {
  if (auto q = e.rational()) return Number(*q);
  if (e.is(Op::Real)) return Number::of(e->real);
  return std::nullopt;
}

Number operator+(const Number& a, const Number& b) {
  if (a.exact_ && b.exact_) {
    try {
      return *a.exact_ + *b.exact_;
    } catch (const RationalOverflow&) {
    }
  }
  return Number::of(a.value_ + b.value_);
}

Number operator*(const Number& a, const Number& b) {
  if (a.exact_ && b.exact_) {
    try {
      return *a.exact_ * *b.exact_;
    } catch (const RationalOverflow&) {
    }
  }
  return Number::of(a.value_ * b.value_);
}

bool operator==(const Number& a, const Number& b) {
  if (a.exact_ && b.exact_) return *a.exact_ == *b.exact_;
  return !a.exact_ && !b.exact_ && a.value_ == b.value_;
}

std::vector<Expr> factors_of(Expr e) { return e.is(Op::Mul) ? e.args() : std::vector<Expr>{e}; }
std::vector<Expr> terms_of(Expr e) { return e.is(Op::Add) ? e.args() : std::vector<Expr>{e}; }

std::pair<Number, Expr> split_coefficient(Expr term) {
  if (term.is(Op::Mul)) {
    auto n = Number::of(term.arg(0));
    if (n && n->finite() && !n->zero()) {
      if (term.args().size() == 2) return {*n, term.arg(1)};
      return {*n, make(Op::Mul, std::vector<Expr>(term.args().begin() + 1, term.args().end()))};
    }
  }
  return {Number(1), term};
}

namespace {

/// coefficient · base for a base without a number of its own.
Expr scaled(const Number& coefficient, Expr base) {
  if (coefficient.is(1)) return base;
  std::vector<Expr> factors = factors_of(base);
  if (factors[0].number()) return mul({coefficient.expr(), base});  // 0·x or inf·x
  factors.insert(factors.begin(), coefficient.expr());
  return make(Op::Mul, std::move(factors));
}

struct Sum {
  Number constant;
  std::vector<std::pair<Expr, Number>> terms;
  std::unordered_map<Expr, size_t> place;

  void collect(Expr e, const Number& scale) {
    if (auto n = Number::of(e)) {
      constant = constant + *n * scale;
    } else if (e.is(Op::Add)) {
      for (Expr a : e.args()) collect(a, scale);
    } else {
      auto [c, base] = split_coefficient(e);
      if (base.is(Op::Add)) return collect(base, c * scale);
      auto [it, fresh] = place.try_emplace(base, terms.size());
      if (fresh)
        terms.emplace_back(base, c * scale);
      else
        terms[it->second].second = terms[it->second].second + c * scale;
    }
  }

  /// m·(a // m) + a % m = a
  bool join_remainders() {
    for (size_t k = 0; k < terms.size(); ++k) {
      auto [base, c] = terms[k];
      if (!base.is(Op::Mod) || c.zero()) continue;
      auto [whole, quotient] = split_coefficient(mul({base.arg(1), floor_div(base.arg(0), base.arg(1))}));
      auto it = place.find(quotient);
      if (it == place.end() || !(terms[it->second].second == whole * c)) continue;
      terms[k].second = terms[it->second].second = Number(0);
      collect(base.arg(0), c);
      return true;
    }
    return false;
  }

  Expr build() {
    while (join_remainders()) {
    }
    std::erase_if(terms, [](auto& t) { return t.second.zero(); });
    if (std::isnan(constant.value())) return Expr::real(constant.value());
    if (!constant.finite()) std::erase_if(terms, [](auto& t) { return facts(t.first).finite; });
    std::sort(terms.begin(), terms.end(), [](auto& a, auto& b) { return compare(a.first, b.first) < 0; });
    std::vector<Expr> args;
    if (!constant.zero()) args.push_back(constant.expr());
    for (auto& [base, c] : terms) args.push_back(scaled(c, base));
    if (args.empty()) return Expr(0);
    return args.size() == 1 ? args[0] : make(Op::Add, std::move(args));
  }
};

}  // namespace

Expr add(std::vector<Expr> terms) {
  Sum s;
  for (Expr t : terms) s.collect(t, Number(1));
  return s.build();
}

bool leads_negative(Expr e) {
  if (auto n = e.number()) return *n < 0;
  if (e.is(Op::Add)) {
    for (Expr t : e.args())
      if (!t.number()) return leads_negative(t);
    return false;
  }
  return e.is(Op::Mul) && e.arg(0).number() && *e.arg(0).number() < 0;
}

std::pair<Number, Expr> primitive(Expr e, bool with_sign) {
  if (!e.is(Op::Add)) {
    auto [c, base] = split_coefficient(e);
    if (!with_sign && c.negative()) return {-c, scaled(Number(-1), base)};
    return {c, base};
  }
  int64_t num = 0, den = 1;
  bool integers = true;
  std::optional<Rational> first;
  for (Expr t : e.args()) {
    auto [c, base] = t.number() ? std::pair{*Number::of(t), Expr(1)} : split_coefficient(t);
    if (!c.exact()) return {Number(1), e};
    if (!first && !t.number()) first = c.rational();
    integers = integers && facts(base).integer;
    num = std::gcd(num, c.rational().num());
    int64_t d = c.rational().den();
    if (__builtin_mul_overflow(den / std::gcd(den, d), d, &den)) return {Number(1), e};
  }
  Rational content(num, den);
  if (!integers) content = first->num() < 0 ? -*first : *first;  // x - m/4096 rather than 4096·x - m
  if (with_sign && leads_negative(e)) content = -content;
  if (content == Rational(1)) return {Number(1), e};
  std::vector<Expr> terms;
  try {
    const Rational inverse = Rational(1) / content;
    for (Expr t : e.args()) {
      if (auto q = t.rational()) {
        terms.push_back(*q * inverse);
      } else {
        auto [c, base] = split_coefficient(t);
        terms.push_back(scaled(Number(c.rational() * inverse), base));
      }
    }
  } catch (const RationalOverflow&) {
    return {Number(1), e};
  }
  return {Number(content), make(Op::Add, std::move(terms))};  // order does not depend on coefficients
}

Expr distribute(Expr e) {
  if (e.is(Op::Add)) {
    bool any = false;
    std::vector<Expr> terms;
    for (Expr t : e.args()) {
      terms.push_back(t.is(Op::Mul) ? distribute(t) : t);
      any |= terms.back() != t;
    }
    return any ? add(std::move(terms)) : e;
  }
  if (!e.is(Op::Mul)) return e;
  size_t count = 1;
  std::vector<std::vector<Expr>> products{{}};
  for (Expr f : e.args()) count *= f.is(Op::Add) ? f.args().size() : 1;
  if (count == 1 || count > 64) return e;
  for (Expr f : e.args()) {
    std::vector<std::vector<Expr>> next;
    for (auto& p : products)
      for (Expr t : terms_of(f)) {
        next.push_back(p);
        next.back().push_back(t);
      }
    products = std::move(next);
  }
  std::vector<Expr> terms;
  for (auto& p : products) terms.push_back(distribute(mul(std::move(p))));
  return add(std::move(terms));
}

}  // namespace tilewright::canonical
