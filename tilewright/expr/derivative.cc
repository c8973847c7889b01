// Derivatives and affine forms.
#include <algorithm>

#include "tilewright/expr/canonical.h"

namespace tilewright {
namespace {

using canonical::add;
using canonical::mul;
using canonical::negative;
using canonical::power;

constexpr double kTwoOverSqrtPi = 1.12837916709551257390;

/// d/ds of canonical expressions.
class Differentiator {
 public:
  explicit Differentiator(Sym s) : s_(s) {}

  std::optional<Expr> operator()(Expr e) {
    if (!depends_on(e, s_)) return Expr(0);
    auto it = memo_.find(e);
    if (it != memo_.end()) return it->second;
    auto d = find(e);
    memo_.emplace(e, d);
    return d;
  }

 private:
  /// outer · d(inner)
  std::optional<Expr> chain(Expr outer, Expr inner) {
    auto d = (*this)(inner);
    if (!d) return d;
    return mul({outer, *d});
  }

  std::optional<Expr> find(Expr e) {
    Expr a = e.args().empty() ? Expr() : e.arg(0);
    switch (e.op()) {
      case Op::Symbol: return Expr(1);
      case Op::Add: {
        std::vector<Expr> terms;
        for (Expr t : e.args()) {
          auto d = (*this)(t);
          if (!d) return d;
          terms.push_back(*d);
        }
        return add(std::move(terms));
      }
      case Op::Mul: {
        std::vector<Expr> terms;
        for (size_t k = 0; k < e.args().size(); ++k) {
          auto d = (*this)(e.arg(k));
          if (!d) return d;
          std::vector<Expr> factors = e.args();
          factors[k] = *d;
          if (!d->is_constant(0)) terms.push_back(mul(std::move(factors)));
        }
        return add(std::move(terms));
      }
      case Op::Pow: {
        Expr n = e.arg(1);
        if (!depends_on(n, s_)) return chain(mul({n, power(a, add({n, Expr(-1)}))}), a);
        auto da = (*this)(a), dn = (*this)(n);
        if (!da || !dn) return std::nullopt;
        return mul({e, add({mul({*dn, canonical::logarithm(a)}), mul({n, *da, power(a, Expr(-1))})})});
      }
      case Op::Exp: return chain(e, a);
      case Op::Log: return chain(power(a, Expr(-1)), a);
      case Op::Tanh: return chain(add({Expr(1), negative(power(e, Expr(2)))}), a);
      case Op::Sigmoid: return chain(mul({e, add({Expr(1), negative(e)})}), a);
      case Op::Erf:
        return chain(mul({Expr::real(kTwoOverSqrtPi), canonical::exponential(negative(power(a, Expr(2))))}),
                     a);
      case Op::Abs: return chain(canonical::unary(Op::Sign, a), a);
      case Op::Max:
      case Op::Min: return of_extremum(e);
      case Op::Select: {
        if (depends_on(a, s_)) return std::nullopt;
        auto x = (*this)(e.arg(1)), y = (*this)(e.arg(2));
        if (!x || !y) return std::nullopt;
        return canonical::where(a, *x, *y);
      }
      case Op::Reduce: {
        if (e->reducer != Reducer::Sum) return std::nullopt;
        auto d = (*this)(a);
        if (!d) return d;
        return canonical::reduction(Reducer::Sum, e->bound, *d);
      }
      case Op::RangeSum: {
        if (depends_on(a, s_) || depends_on(e.arg(1), s_)) return std::nullopt;
        auto d = (*this)(e.arg(2));
        if (!d) return d;
        return canonical::ranged_sum(e->bound[0], a, e.arg(1), *d);
      }
      // Steps, comparisons and reads at a moving index have no derivative by rule; the raw operators do not
      // occur.
      case Op::Constant:
      case Op::Real:
      case Op::Read:
      case Op::Sub:
      case Op::Div:
      case Op::Neg:
      case Op::Exp2:
      case Op::Log2:
      case Op::Sqrt:
      case Op::Rsqrt:
      case Op::Floor:
      case Op::Round:
      case Op::Sign:
      case Op::Lt:
      case Op::Le:
      case Op::Eq:
      case Op::Ne:
      case Op::And:
      case Op::Or:
      case Op::Not:
      case Op::FloorDiv:
      case Op::Mod:
      case Op::Cast: return std::nullopt;
    }
    return std::nullopt;
  }

  /// The derivative of the argument that is the largest (smallest), right except where two meet.
  std::optional<Expr> of_extremum(Expr e) {
    auto d = (*this)(e.arg(0));
    Expr best = e.arg(0);
    for (size_t k = 1; d && k < e.args().size(); ++k) {
      auto dk = (*this)(e.arg(k));
      if (!dk) return dk;
      Expr other = e.arg(k);
      Expr keep = e.is(Op::Max) ? canonical::le(other, best) : canonical::le(best, other);
      d = canonical::where(keep, *d, *dk);
      best = canonical::extremum(e.op(), {best, other});
    }
    return d;
  }

  Sym s_;
  std::map<Expr, std::optional<Expr>> memo_;
};

std::optional<Affine> affine_of(Expr e, const std::vector<Sym>& vars) {
  std::vector<std::vector<Expr>> coefficients(vars.size());
  std::vector<Expr> rest;
  for (Expr t : canonical::terms_of(e)) {
    std::optional<size_t> var;
    std::vector<Expr> factors;
    for (Expr f : canonical::factors_of(t)) {
      size_t uses = size_t(std::count_if(vars.begin(), vars.end(), [&](Sym v) { return depends_on(f, v); }));
      if (uses == 0) {
        factors.push_back(f);
        continue;
      }
      if (var || !f.is(Op::Symbol)) return std::nullopt;
      var = size_t(std::find(vars.begin(), vars.end(), f->sym) - vars.begin());
    }
    if (var)
      coefficients[*var].push_back(mul(std::move(factors)));
    else
      rest.push_back(t);
  }
  Affine out;
  for (auto& c : coefficients) out.coefficient.push_back(simplify(add(std::move(c))));
  out.rest = simplify(add(std::move(rest)));
  return out;
}

}  // namespace

std::optional<Expr> derivative(Expr e, Sym s) {
  auto d = Differentiator(s)(simplify(e));
  if (d) *d = simplify(*d);
  return d;
}

std::optional<Affine> affine(Expr e, const std::vector<Sym>& vars) {
  e = canonical::distribute(simplify(e));
  if (auto a = affine_of(e, vars)) return a;
  Expr x = expand(e);
  return x == e ? std::nullopt : affine_of(x, vars);
}

}  // namespace tilewright
