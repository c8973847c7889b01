// Intervals and signs.
#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "tilewright/expr/canonical.h"

namespace tilewright {
namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

// ---- signs
// -----------------------------------------------------------------------------------------------------------

enum SignFact : uint8_t { kKnown = 1, kPositive = 2, kNonnegative = 4, kNegative = 8, kNonpositive = 16 };

uint8_t sign_facts(Expr e);

uint8_t of_bounds(double lo, double hi) {
  uint8_t s = 0;
  if (lo > 0) s |= kPositive;
  if (lo >= 0) s |= kNonnegative;
  if (hi < 0) s |= kNegative;
  if (hi <= 0) s |= kNonpositive;
  return s;
}

uint8_t flipped(uint8_t s) {
  uint8_t out = 0;
  if (s & kPositive) out |= kNegative;
  if (s & kNonnegative) out |= kNonpositive;
  if (s & kNegative) out |= kPositive;
  if (s & kNonpositive) out |= kNonnegative;
  return out;
}

uint8_t sum_of(uint8_t a, uint8_t b) {
  uint8_t out = a & b & (kNonnegative | kNonpositive);
  if ((out & kNonnegative) && ((a | b) & kPositive)) out |= kPositive;
  if ((out & kNonpositive) && ((a | b) & kNegative)) out |= kNegative;
  return out;
}

uint8_t product_of(uint8_t a, uint8_t b) {
  if (b & kNonpositive && !(b & kNonnegative)) return flipped(product_of(a, flipped(b)));
  if (!(b & kNonnegative)) return 0;
  uint8_t out = a & (kNonnegative | kNonpositive);
  if (b & kPositive) out |= a & (kPositive | kNegative);
  return out;
}

bool is_even(Rational q) { return q.is_integer() && q.num() % 2 == 0; }

uint8_t sign_of_power(Expr base, Expr exponent) {
  uint8_t b = sign_facts(base);
  if (b & kPositive) return kPositive | kNonnegative;
  auto q = exponent.rational();
  if (q && (is_even(*q) || b & kNonnegative)) return q->num() < 0 ? kPositive | kNonnegative : kNonnegative;
  if (q && q->is_integer() && q->num() > 0) return b & (kNegative | kNonpositive);
  return b & kNonnegative;
}

uint8_t find_sign(Expr e) {
  auto arg = [&](size_t k) { return sign_facts(e.arg(k)); };
  switch (e.op()) {
    case Op::Constant:
    case Op::Real: return of_bounds(*e.number(), *e.number());
    case Op::Symbol:
    case Op::Read: {
      const SymbolInfo& s = e->sym.info();
      return s.positive ? kPositive | kNonnegative : s.nonnegative ? kNonnegative : 0;
    }
    case Op::Add: {
      uint8_t s = kNonnegative | kNonpositive;
      for (Expr a : e.args()) s = sum_of(s, sign_facts(a));
      return s;
    }
    case Op::Sub: return sum_of(arg(0), flipped(arg(1)));
    case Op::Neg: return flipped(arg(0));
    case Op::Mul: {
      std::vector<Expr> args = e.args();
      uint8_t s = kPositive | kNonnegative;
      for (size_t k = 0; k < args.size(); ++k) {
        auto twin = std::find(args.begin() + long(k) + 1, args.end(), args[k]);
        uint8_t f = sign_facts(args[k]);
        if (twin != args.end()) {  // x·x
          args.erase(twin);
          f = f & (kPositive | kNegative) ? kPositive | kNonnegative : kNonnegative;
        }
        s = product_of(s, f);
      }
      return s;
    }
    case Op::Div: {
      uint8_t b = arg(1);
      if (b & kNonnegative) b |= kPositive;  // a quotient by 0 has no sign to lose
      if (b & kNonpositive) b |= kNegative;
      return product_of(arg(0), b);
    }
    case Op::Pow: return sign_of_power(e.arg(0), e.arg(1));
    case Op::Exp:
    case Op::Exp2:
    case Op::Rsqrt:
    case Op::Sigmoid: return kPositive | kNonnegative;
    case Op::Sqrt: return kNonnegative | (arg(0) & kPositive);
    case Op::Log:
    case Op::Log2:
      if (auto n = e.arg(0).number(); n && *n > 0) return of_bounds(std::log(*n), std::log(*n));
      return 0;
    case Op::Tanh:
    case Op::Erf:
    case Op::Sign: return arg(0);
    case Op::Abs: return kNonnegative | (arg(0) & (kPositive | kNegative) ? kPositive : 0);
    case Op::Floor: return arg(0) & (kNonnegative | kNegative | kNonpositive);
    case Op::Round: return arg(0) & (kNonnegative | kNonpositive);
    case Op::Max:
    case Op::Min: {
      uint8_t any = 0, all = 0xff;
      for (Expr a : e.args()) {
        any |= sign_facts(a);
        all &= sign_facts(a);
      }
      const uint8_t up = kPositive | kNonnegative, down = kNegative | kNonpositive;
      return e.is(Op::Max) ? (any & up) | (all & down) : (all & up) | (any & down);
    }
    case Op::Select: return arg(1) & arg(2);
    case Op::Lt:
    case Op::Le:
    case Op::Eq:
    case Op::Ne:
    case Op::And:
    case Op::Or:
    case Op::Not: return kNonnegative;
    case Op::FloorDiv:
      return (arg(1) & kNonnegative) ? arg(0) & (kNonnegative | kNegative | kNonpositive) : 0;
    case Op::Mod: return arg(1) & (kNonnegative | kNonpositive);
    case Op::Cast: return arg(0) & (kNonnegative | kNonpositive);
    case Op::Reduce:
      switch (e->reducer) {
        case Reducer::Sum: return arg(0) & (kNonnegative | kNonpositive);
        // Axes are taken as not empty here: the sign of a maximum over nothing decides nothing.
        case Reducer::Max:
        case Reducer::Min:
        case Reducer::Mean: return arg(0);
        case Reducer::Prod: return arg(0) & (kPositive | kNonnegative);
        case Reducer::Any:
        case Reducer::All:
        case Reducer::Var:
        case Reducer::Softmax: return kNonnegative;
        case Reducer::Argmax:
        case Reducer::Argmin:
        case Reducer::Logsumexp:
        case Reducer::Topk:  // −inf past the last element
        case Reducer::Argtopk: return 0;
      }
      return 0;
    case Op::RangeSum: return arg(2) & (kNonnegative | kNonpositive);
  }
  return 0;
}

uint8_t sign_facts(Expr e) {
  auto& cached = interned(e).sign;
  uint8_t s = cached.load(std::memory_order_relaxed);
  if (s & kKnown) return s & uint8_t(~kKnown);
  s = find_sign(e) & uint8_t(~kKnown);
  cached.store(s | kKnown, std::memory_order_relaxed);
  return s;
}

// ---- intervals
// -------------------------------------------------------------------------------------------------------

/// Products of bounds, in which 0 · inf is 0: a bound of infinity is never attained by a factor that meets a
/// zero.
double times(double a, double b) { return a == 0 || b == 0 ? 0 : a * b; }

Interval hull(Interval a, Interval b) { return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)}; }
Interval sum(Interval a, Interval b) {
  double lo = a.lo + b.lo, hi = a.hi + b.hi;
  return {std::isnan(lo) ? -kUnbounded : lo, std::isnan(hi) ? kUnbounded : hi};
}
Interval product(Interval a, Interval b) {
  double p[] = {times(a.lo, b.lo), times(a.lo, b.hi), times(a.hi, b.lo), times(a.hi, b.hi)};
  return {*std::min_element(p, p + 4), *std::max_element(p, p + 4)};
}
Interval reciprocal(Interval a) {
  if (a.lo > 0 || a.hi < 0) return {1 / a.hi, 1 / a.lo};
  if (a.lo == 0) return {a.hi == 0 ? kUnbounded : 1 / a.hi, kUnbounded};
  if (a.hi == 0) return {-kUnbounded, 1 / a.lo};
  return {};
}
Interval absolute(Interval a) {
  if (a.lo >= 0) return a;
  if (a.hi <= 0) return {-a.hi, -a.lo};
  return {0, std::max(-a.lo, a.hi)};
}

template <class F>
Interval monotone(Interval a, F f) {
  return {f(a.lo), f(a.hi)};
}

/// Exactly rounded functions and their libm versions may differ in the last place: real bounds are widened by
/// that much.
Interval widened(Interval a) {
  auto step = [](double x, double towards) {
    return std::isfinite(x) && x != 0 ? std::nextafter(x, towards) : x;
  };
  return {step(a.lo, -kUnbounded), step(a.hi, kUnbounded)};
}

class Bounder {
 public:
  Bounder(const Ranges& ranges, std::vector<Expr> known) : ranges_(ranges), known_(std::move(known)) {}

  Interval operator()(Expr e) {
    if (auto n = e.number()) return std::isnan(*n) ? Interval{} : Interval{*n, *n};
    auto it = memo_.find(e);
    if (it != memo_.end()) return it->second;
    Interval r = find(e);
    if (!(r.lo <= r.hi)) r = {};  // NaN bounds
    memo_.emplace(e, r);
    return r;
  }

 private:
  Interval of_symbol(Sym s) const {
    auto it = ranges_.find(s);
    if (it != ranges_.end()) return it->second;
    const SymbolInfo& info = s.info();
    if (info.kind == SymbolKind::Index && info.size) {
      auto size = ranges_.find(s.size());
      if (size != ranges_.end()) return {0, std::max(0.0, size->second.hi - 1)};
    }
    if (info.positive) return {info.integer ? 1.0 : 0.0, kUnbounded};
    return {info.nonnegative ? 0 : -kUnbounded, kUnbounded};
  }

  Interval of_power(Expr e) {
    Interval b = (*this)(e.arg(0));
    auto q = e.arg(1).rational();
    if (!q) {
      if (b.lo < 0) return {};
      Interval x = (*this)(e.arg(1));
      double p[] = {std::pow(b.lo, x.lo), std::pow(b.lo, x.hi), std::pow(b.hi, x.lo), std::pow(b.hi, x.hi)};
      for (double v : p)
        if (std::isnan(v)) return {0, kUnbounded};
      return widened({*std::min_element(p, p + 4), *std::max_element(p, p + 4)});
    }
    double x = std::fabs(q->value());
    if (is_even(*q)) b = absolute(b);
    if (!q->is_integer()) {
      if (b.hi < 0) return {};
      b.lo = std::max(b.lo, 0.0);
    }
    Interval r = monotone(b, [&](double v) { return std::pow(v, x); });
    if (x != 1) r = widened(r);
    return q->num() < 0 ? reciprocal(r) : r;
  }

  /// R = reduce max body and F <= 0 give F·R + rest <= F·body + rest (and so for the other signs and min),
  /// which is worth knowing where something cancels, as in u - max u.
  Interval of_sum(Expr e) {
    Interval r{0, 0};
    for (Expr t : e.args()) r = sum(r, (*this)(t));
    for (Expr t : e.args()) {
      for (Expr f : canonical::factors_of(t)) {
        if (!f.is(Op::Reduce) || (f->reducer != Reducer::Max && f->reducer != Reducer::Min)) continue;
        std::vector<Expr> others = canonical::factors_of(t);
        others.erase(std::find(others.begin(), others.end(), f));
        Expr factor = simplify(make(Op::Mul, others));
        const bool up = provably_nonnegative(factor), down = !up && provably_nonnegative(simplify(-factor));
        if (!up && !down) continue;
        Expr body = f.arg(0);
        if (body.is(Op::Select) && body.arg(2).is(Op::Real) && holds(body.arg(0))) body = body.arg(1);
        std::vector<Expr> terms = e.args();
        terms.erase(std::find(terms.begin(), terms.end(), t));
        terms.push_back(factor * body);
        Expr other = simplify(make(Op::Add, terms));
        if (canonical::terms_of(other).size() >= e.args().size()) continue;
        Interval b = (*this)(other);
        if ((f->reducer == Reducer::Max) == down)
          r.hi = std::min(r.hi, b.hi);
        else
          r.lo = std::max(r.lo, b.lo);
      }
    }
    return r;
  }

  bool holds(Expr condition) const {
    auto parts = canonical::conjuncts(condition);
    return std::all_of(parts.begin(), parts.end(),
                       [&](Expr c) { return std::find(known_.begin(), known_.end(), c) != known_.end(); });
  }

  Interval where(Expr value, Expr condition, bool truth) {
    std::vector<Expr> known = known_;
    for (auto& [atom, positive] : canonical::literals(condition, truth))
      known.push_back(positive ? atom : canonical::negation(atom));
    return Bounder(ranges_, known)(value);
  }

  Interval of_reduction(Expr e) {
    Ranges inner = ranges_;
    Interval count{1, 1};
    for (Sym s : e->bound) {
      inner.erase(s);
      Interval size = s.size() ? of_symbol(s.size()) : Interval{0, kUnbounded};
      count = product(count, size);
      if (s.size()) inner[s] = {0, std::max(0.0, size.hi - 1)};
    }
    std::vector<Expr> known;
    for (Expr k : known_)
      if (std::none_of(e->bound.begin(), e->bound.end(), [&](Sym s) { return depends_on(k, s); }))
        known.push_back(k);
    Interval b = Bounder(inner, known)(e.arg(0));
    switch (e->reducer) {
      case Reducer::Sum: return product(count, b);
      case Reducer::Max: return {count.lo >= 1 ? b.lo : -kUnbounded, b.hi};
      case Reducer::Min: return {b.lo, count.lo >= 1 ? b.hi : kUnbounded};
      case Reducer::Prod:
        if (b.lo < 0) return {};
        return {b.lo >= 1 ? 1.0 : 0.0, b.hi <= 1 ? 1.0 : kUnbounded};
      case Reducer::Any:
      case Reducer::All: return {0, 1};
      case Reducer::Argmax:
      case Reducer::Argmin:
      case Reducer::Argtopk: return {-1, std::max(-1.0, count.hi - 1)};
      case Reducer::Mean: return b;
      case Reducer::Var: return {0, kUnbounded};
      case Reducer::Softmax: return {0, 1};
      case Reducer::Logsumexp: return {};
      case Reducer::Topk: return {-kUnbounded, b.hi};
    }
    return {};
  }

  struct Normalised {
    Expr value;   ///< among the factors
    double most;  ///< of its magnitude times the root
  };
  /// |u|·(k·Σ u² + rest)^(-1/2) <= k^(-1/2) for rest >= 0: the sum holds the square of each of its elements.
  std::optional<Normalised> normalised(Expr root, const std::vector<Expr>& factors) const {
    if (!root.is(Op::Pow) || root.arg(1).rational() != Rational(-1, 2)) return {};
    const std::vector<Expr> terms = canonical::terms_of(root.arg(0));
    for (Expr t : terms) {
      double k = 1;
      Expr squares;
      for (Expr f : canonical::factors_of(t)) {
        if (auto n = f.number())
          k *= *n;
        else if (!squares && f.is(Op::Reduce) && f->reducer == Reducer::Sum)
          squares = f;
        else
          k = 0;
      }
      if (!squares || !(k > 0) || !squares.arg(0).is(Op::Pow) || !squares.arg(0).arg(1).is_constant(2))
        continue;
      if (!std::all_of(terms.begin(), terms.end(), [&](Expr x) { return x == t || provably_nonnegative(x); }))
        continue;
      for (Expr u : factors)
        if (is_element(u, squares.arg(0).arg(0), squares->bound)) return Normalised{u, 1 / std::sqrt(k)};
    }
    return {};
  }
  /// Is `u` the value of `body` at some element of the axes `bound`?
  static bool is_element(Expr u, Expr body, const std::vector<Sym>& bound) {
    Substitution at;
    for (Sym s : bound)
      for (Sym a : free_symbols(u))
        if (a.size() && a.size() == s.size()) {
          at.emplace_back(s, Expr(a));
          break;
        }
    return at.size() == bound.size() && simplify(substitute(body, at)) == u;
  }

  Interval of_ranged_sum(Expr e) {
    Interval lo = (*this)(e.arg(0)), hi = (*this)(e.arg(1));
    Ranges inner = ranges_;
    Interval count{std::max(0.0, hi.lo - lo.hi), std::max(0.0, hi.hi - lo.lo)};
    if (count.hi == 0) return {0, 0};
    inner[e->bound[0]] = {lo.lo, hi.hi - 1};
    return product(count, Bounder(inner, {})(e.arg(2)));
  }

  Interval of_quotient(Interval a, Interval b) {
    if (b.lo <= 0 && b.hi >= 0) {
      if (b.lo < 0) return {};
      b.lo = 1;  // integers; a zero divisor is an error
      if (b.hi < 1) return {};
    }
    auto quotient = [](double x, double y) {
      return std::isinf(x) && std::isinf(y) ? (x > 0) == (y > 0) ? 0.0 : -1.0 : std::floor(x / y);
    };
    double p[] = {quotient(a.lo, b.lo), quotient(a.lo, b.hi), quotient(a.hi, b.lo), quotient(a.hi, b.hi)};
    return {*std::min_element(p, p + 4), *std::max_element(p, p + 4)};
  }

  Interval find(Expr e) {
    auto arg = [&](size_t k) { return (*this)(e.arg(k)); };
    switch (e.op()) {
      case Op::Constant:
      case Op::Real: return {};
      case Op::Symbol: return of_symbol(e->sym);
      case Op::Read: return of_symbol(e->sym);
      case Op::Add: return of_sum(e);
      case Op::Sub: {
        Interval b = arg(1), r = sum(arg(0), {-b.hi, -b.lo});
        if (Expr c = simplify(e); c.is(Op::Add)) {  // where u - max u shows
          Interval known = (*this)(c);
          r = {std::max(r.lo, known.lo), std::min(r.hi, known.hi)};
        }
        return r;
      }
      case Op::Neg: return {-arg(0).hi, -arg(0).lo};
      case Op::Mul: {
        Interval r{1, 1};
        std::vector<Expr> factors = e.args();
        for (Expr root : e.args())
          if (const std::optional<Normalised> n = normalised(root, factors)) {
            std::erase(factors, root);
            std::erase(factors, n->value);
            r = product(r, {-n->most, n->most});
          }
        for (Expr a : factors) r = product(r, (*this)(a));
        if (provably_nonnegative(e)) r.lo = std::max(r.lo, 0.0);
        return r;
      }
      case Op::Div: return product(arg(0), reciprocal(arg(1)));
      case Op::Pow: return of_power(e);
      case Op::Exp: return widened(monotone(arg(0), [](double x) { return std::exp(x); }));
      case Op::Exp2: return widened(monotone(arg(0), [](double x) { return std::exp2(x); }));
      case Op::Log:
      case Op::Log2: {
        Interval a = arg(0);
        if (a.hi < 0) return {};
        a.lo = std::max(a.lo, 0.0);
        const bool two = e.is(Op::Log2);
        return widened(monotone(a, [&](double x) { return two ? std::log2(x) : std::log(x); }));
      }
      case Op::Sqrt:
      case Op::Rsqrt: {
        Interval a = arg(0);
        if (a.hi < 0) return {};
        a.lo = std::max(a.lo, 0.0);
        Interval r = widened(monotone(a, [](double x) { return std::sqrt(x); }));
        return e.is(Op::Sqrt) ? r : reciprocal(r);
      }
      case Op::Tanh: {
        Interval r = widened(monotone(arg(0), [](double x) { return std::tanh(x); }));
        return {std::max(r.lo, -1.0), std::min(r.hi, 1.0)};
      }
      case Op::Erf: {
        Interval r = widened(monotone(arg(0), [](double x) { return std::erf(x); }));
        return {std::max(r.lo, -1.0), std::min(r.hi, 1.0)};
      }
      case Op::Sigmoid: {
        Interval r = widened(monotone(arg(0), [](double x) { return 1 / (1 + std::exp(-x)); }));
        return {std::max(r.lo, 0.0), std::min(r.hi, 1.0)};
      }
      case Op::Abs: return absolute(arg(0));
      case Op::Floor: return monotone(arg(0), [](double x) { return std::floor(x); });
      case Op::Round: return monotone(arg(0), [](double x) { return std::nearbyint(x); });
      case Op::Sign: return monotone(arg(0), [](double x) { return double((x > 0) - (x < 0)); });
      case Op::Max:
      case Op::Min: {
        Interval r = arg(0);
        for (size_t k = 1; k < e.args().size(); ++k) {
          Interval a = arg(k);
          if (e.is(Op::Max))
            r = {std::max(r.lo, a.lo), std::max(r.hi, a.hi)};
          else
            r = {std::min(r.lo, a.lo), std::min(r.hi, a.hi)};
        }
        return r;
      }
      case Op::Select: return hull(where(e.arg(1), e.arg(0), true), where(e.arg(2), e.arg(0), false));
      case Op::Lt:
      case Op::Le:
      case Op::Eq:
      case Op::Ne:
      case Op::And:
      case Op::Or:
      case Op::Not: return {0, 1};
      case Op::FloorDiv: return of_quotient(arg(0), arg(1));
      case Op::Mod: {
        Interval a = arg(0), b = arg(1);
        if (b.lo < 0) return {};
        if (a.lo >= 0 && a.hi < b.lo) return a;
        double top = std::max(0.0, b.hi - 1);
        return {0, a.lo >= 0 ? std::min(a.hi, top) : top};
      }
      case Op::Cast: return monotone(arg(0), [&](double x) { return round_to(e->dtype, x); });
      case Op::Reduce: return of_reduction(e);
      case Op::RangeSum: return of_ranged_sum(e);
    }
    return {};
  }

  const Ranges& ranges_;
  std::vector<Expr> known_;
  std::unordered_map<Expr, Interval> memo_;
};

}  // namespace

bool provably_positive(Expr e) { return sign_facts(e) & kPositive; }
bool provably_nonnegative(Expr e) { return sign_facts(e) & kNonnegative; }

Interval bounds(Expr e, const Ranges& ranges) { return Bounder(ranges, {})(e); }

}  // namespace tilewright
