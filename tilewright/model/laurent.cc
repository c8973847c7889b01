#include "tilewright/model/laurent.h"

#include <algorithm>
#include <cmath>

namespace tilewright {
namespace {

Powers times(const Powers& a, const Powers& b) {
  Powers p = a;
  for (const auto& [sym, power] : b) {
    const Rational sum = p.count(sym) ? p[sym] + power : power;
    if (sum == Rational(0))
      p.erase(sym);
    else
      p[sym] = sum;
  }
  return p;
}

std::optional<Laurent> product(const Laurent& a, const Laurent& b) {
  Laurent all;
  if (a.terms.size() * b.terms.size() > 10000) return std::nullopt;
  for (const auto& [p, x] : a.terms)
    for (const auto& [q, y] : b.terms) all.add(times(p, q), x * y);
  return all;
}

std::optional<Laurent> of(Expr e) {
  Laurent l;
  switch (e.op()) {
    case Op::Constant: l.add({}, *e.rational()); return l;
    case Op::Symbol: l.add({{e->sym, Rational(1)}}, Rational(1)); return l;
    case Op::Add:
      for (Expr a : e.args()) {
        const auto part = of(a);
        if (!part) return std::nullopt;
        for (const auto& [p, x] : part->terms) l.add(p, x);
      }
      return l;
    case Op::Mul: {
      l.add({}, Rational(1));
      for (Expr a : e.args()) {
        const auto factor = of(a);
        if (!factor) return std::nullopt;
        const auto all = product(l, *factor);
        if (!all) return std::nullopt;
        l = *all;
      }
      return l;
    }
    case Op::Pow: {
      const auto exponent = e.arg(1).rational();
      if (!exponent) return std::nullopt;
      const auto base = of(e.arg(0));
      if (!base) return std::nullopt;
      if (base->terms.size() == 1 && base->terms.begin()->second == Rational(1)) {
        Powers p;
        for (const auto& [sym, power] : base->terms.begin()->first) p[sym] = power * *exponent;
        l.add(p, Rational(1));
        return l;
      }
      if (!exponent->is_integer() || exponent->num() < 1 || exponent->num() > 8) return std::nullopt;
      l.add({}, Rational(1));
      for (int64_t k = 0; k < exponent->num(); ++k) {
        const auto all = product(l, *base);
        if (!all) return std::nullopt;
        l = *all;
      }
      return l;
    }
    default: return std::nullopt;
  }
}

/// Does `b` exceed `a` term by term?
bool within(const Laurent& a, const Laurent& b) {
  return std::all_of(a.terms.begin(), a.terms.end(), [&](const auto& term) {
    auto it = b.terms.find(term.first);
    return it != b.terms.end() && !(it->second < term.second);
  });
}

}  // namespace

void Laurent::add(const Powers& powers, const Rational& coefficient) {
  auto [it, fresh] = terms.try_emplace(powers, coefficient);
  if (!fresh) it->second = it->second + coefficient;
  if (it->second == Rational(0)) terms.erase(it);
}

Expr Laurent::expr() const {
  Expr sum = 0;
  for (const auto& [powers, coefficient] : terms) {
    Expr term = coefficient;
    for (const auto& [sym, power] : powers) term = term * pow(Expr(sym), Expr(power));
    sum = sum + term;
  }
  return simplify(sum);
}

Expr Laurent::factored() const {
  if (terms.size() < 2) return expr();
  Powers common = terms.begin()->first;
  Rational number = terms.begin()->second;
  for (const auto& [powers, coefficient] : terms) {
    if (!(coefficient == number)) number = Rational(1);
    std::erase_if(common, [&, &term = powers](const auto& x) { return term.count(x.first) == 0; });
    for (auto& [sym, power] : common) power = std::min(power, powers.at(sym));
  }
  std::erase_if(common, [](const auto& x) { return x.second == Rational(0); });
  Laurent rest;
  Powers inverse;
  for (const auto& [sym, power] : common) inverse[sym] = -power;
  for (const auto& [powers, coefficient] : terms) rest.add(times(powers, inverse), coefficient / number);
  Laurent front;
  front.add(common, number);
  return simplify(front.expr() * rest.expr());
}

double Laurent::value(const Bindings& values) const {
  double sum = 0;
  for (const auto& [powers, coefficient] : terms) {
    double term = coefficient.value();
    for (const auto& [sym, power] : powers) {
      const double x = values.at(sym);
      term *= power == Rational(1) ? x : power == Rational(-1) ? 1 / x : std::pow(x, power.value());
    }
    sum += term;
  }
  return sum;
}

bool Laurent::depends(Sym s) const {
  return std::any_of(terms.begin(), terms.end(), [&](const auto& t) { return t.first.count(s) != 0; });
}

std::optional<Laurent> laurent(Expr e) { return of(expand(e)); }

Expr greatest(std::vector<Laurent> sums) {
  std::vector<Laurent> kept;
  for (size_t i = 0; i < sums.size(); ++i) {
    bool needed = true;
    for (size_t j = 0; j < sums.size() && needed; ++j)
      if (i != j && within(sums[i], sums[j]) && (!within(sums[j], sums[i]) || j < i)) needed = false;
    if (needed) kept.push_back(sums[i]);
  }
  if (kept.empty()) return 0;
  if (kept.size() == 1) return kept[0].factored();
  std::vector<Expr> all;
  for (const Laurent& l : kept) all.push_back(l.factored());
  return simplify(make(Op::Max, all));
}

std::optional<std::vector<Laurent>> maximands(Expr e) {
  std::vector<Laurent> all;
  for (Expr part : e.is(Op::Max) ? e.args() : std::vector<Expr>{e}) {
    const auto l = laurent(part);
    if (!l) return std::nullopt;
    all.push_back(*l);
  }
  return all;
}

Laurent leading(const Laurent& sum, const std::vector<Sym>& ignored) {
  const auto at = [](const Powers& p, Sym s) {
    auto it = p.find(s);
    return it == p.end() ? Rational(0) : it->second;
  };
  const auto divides = [&](const Powers& a, const Powers& b) {
    bool proper = false;
    for (const Powers* p : {&a, &b})
      for (const auto& [sym, power] : *p) {
        if (std::find(ignored.begin(), ignored.end(), sym) != ignored.end()) continue;
        if (at(b, sym) < at(a, sym)) return false;
        proper = proper || at(a, sym) < at(b, sym);
      }
    return proper;
  };
  Laurent kept;
  for (const auto& [powers, coefficient] : sum.terms)
    if (std::none_of(sum.terms.begin(), sum.terms.end(),
                     [&](const auto& other) { return divides(powers, other.first); }))
      kept.add(powers, coefficient);
  return kept;
}

}  // namespace tilewright
