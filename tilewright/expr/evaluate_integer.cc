// Exact evaluation of sizes and costs, with bounded sums by floor sums.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <unordered_map>

#include <fmt/format.h>

#include "tilewright/expr/canonical.h"
#include "tilewright/expr/floor_sum.h"
#include "tilewright/support/error.h"

namespace tilewright {
namespace {

/// A rational over 128 bits: sizes are integers, but i·(i + 1)/2 passes through halves.
struct Exact {
  Wide n = 0, d = 1;
  Exact(Wide num = 0, Wide den = 1) : n(num), d(den) {  // NOLINT
    if (d == 1) return;
    Wide a = n < 0 ? -n : n, b = d < 0 ? -d : d;
    while (b != 0) std::swap(a %= b, b);
    if (d < 0) a = -a;
    if (a == 0) return;
    n /= a;
    d /= a;
  }
  bool integer() const { return d == 1; }
  friend Exact operator+(const Exact& a, const Exact& b) {
    if (a.d == 1 && b.d == 1) return wide_add(a.n, b.n);
    return {wide_add(wide_mul(a.n, b.d), wide_mul(b.n, a.d)), wide_mul(a.d, b.d)};
  }
  friend Exact operator*(const Exact& a, const Exact& b) { return {wide_mul(a.n, b.n), wide_mul(a.d, b.d)}; }
  Exact operator-() const { return {-n, d}; }
  friend bool operator<(const Exact& a, const Exact& b) { return wide_mul(a.n, b.d) < wide_mul(b.n, a.d); }
  friend bool operator==(const Exact& a, const Exact& b) { return a.n == b.n && a.d == b.d; }
};

[[noreturn]] void fail_division() {
  throw UserError(Span{}, "division by zero in a size", "give sizes for which the divisor is not zero");
}

Exact inverse(const Exact& x) {
  if (x.n == 0) fail_division();
  return {x.d, x.n};
}

Exact power(Exact x, int64_t n) {
  if (n < 0) return power(inverse(x), -n);
  Exact r = 1;
  for (; n > 0; n >>= 1) {
    if (n & 1) r = r * x;
    if (n > 1) x = x * x;
  }
  return r;
}

Exact floor_quotient(const Exact& a, const Exact& b) {
  if (b.n == 0) fail_division();
  Exact q = a * inverse(b);
  return wide_floor_div(q.n, q.d);
}

/// floor((a·v + b)/m) with 0 < a < m.
struct FloorAtom {
  Wide a, b, m;
  friend auto operator<=>(const FloorAtom&, const FloorAtom&) = default;
};

/// Σ coefficient · v^power · Π floors.
struct Monomial {
  int power = 0;
  std::vector<FloorAtom> floors;  // sorted
  friend bool operator<(const Monomial& x, const Monomial& y) {
    return x.power != y.power ? x.power < y.power : x.floors < y.floors;
  }
};
using Polynomial = std::map<Monomial, Exact>;

Polynomial constant(Exact x) { return x.n == 0 ? Polynomial{} : Polynomial{{Monomial{}, x}}; }

void accumulate(Polynomial& p, const Monomial& m, const Exact& c) {
  Exact& x = p[m];
  x = x + c;
  if (x.n == 0) p.erase(m);
}

Polynomial operator+(Polynomial a, const Polynomial& b) {
  for (auto& [m, c] : b) accumulate(a, m, c);
  return a;
}

Polynomial operator*(const Polynomial& a, const Polynomial& b) {
  Polynomial r;
  for (auto& [m, c] : a)
    for (auto& [k, d] : b) {
      Monomial x{m.power + k.power, m.floors};
      x.floors.insert(x.floors.end(), k.floors.begin(), k.floors.end());
      std::sort(x.floors.begin(), x.floors.end());
      accumulate(r, x, c * d);
    }
  return r;
}

Polynomial scaled(const Polynomial& p, const Exact& x) { return p * constant(x); }

/// The sign of the slope where every part of `p` moves the same way: 1 up or flat, -1 down; nullopt where
/// unknown.
std::optional<int> direction(const Polynomial& p) {
  int found = 0;
  for (auto& [m, c] : p) {
    if (m.power == 0 && m.floors.empty()) continue;
    if (m.power + int(m.floors.size()) != 1) return std::nullopt;
    int s = c.n < 0 ? -1 : 1;  // floors have a positive slope
    if (found && found != s) return std::nullopt;
    found = s;
  }
  return found ? found : 1;
}

Exact value_at(const Polynomial& p, Wide v) {
  Exact r = 0;
  for (auto& [m, c] : p) {
    Exact x = c * power(Exact(v), m.power);
    for (const FloorAtom& f : m.floors) x = x * Exact(wide_floor_div(wide_add(wide_mul(f.a, v), f.b), f.m));
    r = r + x;
  }
  return r;
}

/// Σ of a monomial over lo <= v < hi, nullopt where no closed form is known.
std::optional<Exact> sum_of(const Monomial& m, Wide lo, Wide hi) {
  const Wide n = hi - lo;
  if (m.floors.empty() && m.power <= 4) {
    Exact r = 0;  // v = lo + i
    Wide binomial = 1;
    for (int k = 0; k <= m.power; ++k) {
      r = r + Exact(binomial) * power(Exact(lo), m.power - k) * Exact(power_sum(n, k));
      binomial = binomial * (m.power - k) / (k + 1);
    }
    return r;
  }
  if (m.floors.empty()) return std::nullopt;
  const FloorAtom& f = m.floors[0];
  const bool square = m.power == 0 && m.floors.size() == 2 && f == m.floors[1];
  if (!square && !(m.floors.size() == 1 && m.power <= 1)) return std::nullopt;
  FloorSums s = floor_sums(n, f.a, wide_add(wide_mul(f.a, lo), f.b), f.m, square || m.power == 1);
  if (square) return Exact(s.squares);
  if (m.power == 0) return Exact(s.floors);
  return Exact(wide_add(s.weighted, wide_mul(lo, s.floors)));
}

class IntegerEvaluator {
 public:
  explicit IntegerEvaluator(const std::map<Sym, int64_t>& values) : values_(values) {}

  Exact operator()(Expr e) {
    switch (e.op()) {
      case Op::Constant: return {e->number.num(), e->number.den()};
      case Op::Symbol: return value_of(e->sym);
      default: break;
    }
    const bool varies =
        std::any_of(bound_.begin(), bound_.end(), [&](auto& b) { return depends_on(e, b.first); });
    if (varies) return find(e);
    auto it = memo_.find(e);
    if (it != memo_.end()) return it->second;
    Exact x = find(e);
    memo_.emplace(e, x);
    return x;
  }

 private:
  Exact value_of(Sym s) const {
    for (size_t k = bound_.size(); k-- > 0;)
      if (bound_[k].first == s) return bound_[k].second;
    auto it = values_.find(s);
    TW_CHECK(it != values_.end(), fmt::format("no value for size {}", s.name()));
    return it->second;
  }

  Exact find(Expr e) {
    auto arg = [&](size_t k) { return (*this)(e.arg(k)); };
    auto truth = [](bool b) { return Exact(b ? 1 : 0); };
    switch (e.op()) {
      case Op::Add: {
        Exact r = 0;
        for (Expr a : e.args()) r = r + (*this)(a);
        return r;
      }
      case Op::Mul: {
        Exact r = 1;
        for (Expr a : e.args()) r = r * (*this)(a);
        return r;
      }
      case Op::Sub: return arg(0) + -arg(1);
      case Op::Neg: return -arg(0);
      case Op::Div: return arg(0) * inverse(arg(1));
      case Op::Pow: {
        auto n = e.arg(1).rational();
        TW_CHECK(n && n->is_integer(), "a size holds a root: " + to_string(e));
        return power(arg(0), n->num());
      }
      case Op::Abs: {
        Exact x = arg(0);
        return x.n < 0 ? -x : x;
      }
      case Op::Sign: {
        Exact x = arg(0);
        return (x.n > 0) - (x.n < 0);
      }
      case Op::Floor: return floor_quotient(arg(0), 1);
      case Op::Round: {
        Exact x = arg(0), low = floor_quotient(x, 1), twice = (x + -low) * 2;
        if (twice == Exact(1)) return low.n % 2 == 0 ? low : low + 1;
        return twice < Exact(1) ? low : low + 1;
      }
      case Op::FloorDiv: return floor_quotient(arg(0), arg(1));
      case Op::Mod: {
        Exact a = arg(0), b = arg(1);
        return a + -(b * floor_quotient(a, b));
      }
      case Op::Max:
      case Op::Min: {
        Exact r = arg(0);
        for (size_t k = 1; k < e.args().size(); ++k) {
          Exact x = arg(k);
          if (e.is(Op::Max) ? r < x : x < r) r = x;
        }
        return r;
      }
      case Op::Select: return arg(0).n != 0 ? arg(1) : arg(2);
      case Op::Lt:
      case Op::Le:
      case Op::Eq:
      case Op::Ne:
        if (!is_exact(e.arg(0)) || !is_exact(e.arg(1))) return truth(in_doubles(e) != 0);
        if (e.is(Op::Lt)) return truth(arg(0) < arg(1));
        if (e.is(Op::Le)) return truth(!(arg(1) < arg(0)));
        return truth((arg(0) == arg(1)) == e.is(Op::Eq));
      case Op::And:
        for (Expr a : e.args())
          if ((*this)(a).n == 0) return 0;
        return 1;
      case Op::Or:
        for (Expr a : e.args())
          if ((*this)(a).n != 0) return 1;
        return 0;
      case Op::Not: return truth(arg(0).n == 0);
      case Op::Cast: {
        if (is_float(e->dtype)) break;
        if (!is_exact(e.arg(0))) {
          const double x = in_doubles(e);
          if (!(std::fabs(x) < 0x1p62)) fail_size_overflow();
          return Wide(x);
        }
        const Exact x = arg(0);
        if (e->dtype == DType::boolean) return truth(x.n != 0);
        const Wide whole = x.n / x.d;  // truncates toward zero
        if (e->dtype == DType::i64) return whole;
        const Wide most = e->dtype == DType::i32 ? INT32_MAX : INT8_MAX;
        return std::clamp(whole, -most - 1, most);
      }
      case Op::Real:
        if (const auto q = Expr::real(e->real).rational()) return {q->num(), q->den()};
        break;
      case Op::RangeSum: return ranged(e);
      case Op::Constant:
      case Op::Symbol:
      case Op::Read:
      case Op::Exp:
      case Op::Exp2:
      case Op::Log:
      case Op::Log2:
      case Op::Sqrt:
      case Op::Rsqrt:
      case Op::Tanh:
      case Op::Sigmoid:
      case Op::Erf:
      case Op::Reduce: break;
    }
    throw InternalError(fmt::format("a size cannot hold {}: {}", name(e.op()), to_string(e)));
  }

  /// Made of numbers that are rationals and operations that keep them so. What is not stands in a size only below
  /// a cast or a comparison, which are then evaluated in doubles.
  bool is_exact(Expr e) {
    switch (e.op()) {
      case Op::Real: return Expr::real(e->real).rational().has_value();
      case Op::Exp:
      case Op::Exp2:
      case Op::Log:
      case Op::Log2:
      case Op::Sqrt:
      case Op::Rsqrt:
      case Op::Tanh:
      case Op::Sigmoid:
      case Op::Erf: return false;
      case Op::Cast: return !is_float(e->dtype);
      case Op::Lt:
      case Op::Le:
      case Op::Eq:
      case Op::Ne: return true;
      case Op::Pow: {
        const auto n = e.arg(1).rational();
        return n && n->is_integer() && is_exact(e.arg(0));
      }
      case Op::Div: return is_exact(e.arg(0)) && is_exact(e.arg(1)) && (*this)(e.arg(1)).n != 0;
      default: return std::all_of(e.args().begin(), e.args().end(), [&](Expr a) { return is_exact(a); });
    }
  }

  double in_doubles(Expr e) const {
    Bindings values;
    for (const auto& [sym, value] : values_) values[sym] = double(value);
    for (const auto& [sym, value] : bound_) values[sym] = double(value.n) / double(value.d);
    return evaluate(e, values);
  }

  Exact ranged(Expr e) {
    Exact lo = (*this)(e.arg(0)), hi = (*this)(e.arg(1));
    TW_CHECK(lo.integer() && hi.integer(), "bounds of a sum are not integers: " + to_string(e));
    if (hi.n <= lo.n) return 0;
    // A sum may stand inside the body of another whose closed form is being found.
    const Sym outer = var_;
    Choices choices = std::move(choices_);
    choices_.clear();
    Exact r = sum(simplify(e.arg(2)), lo.n, hi.n, e->bound[0]);
    choices_ = std::move(choices);
    var_ = outer;
    return r;
  }

  // ---- sums in closed form
  // -------------------------------------------------------------------------------------------

  /// Where a maximum, minimum or condition changes its mind: `difference` >= 0 decides `key` of `node`.
  struct Undecided {
    std::pair<Expr, int> key;
    Polynomial difference;
  };
  struct NoClosedForm {};
  using Choices = std::map<std::pair<Expr, int>, bool>;

  Exact sum(Expr body, Wide lo, Wide hi, Sym var) {
    if (lo >= hi) return 0;
    var_ = var;
    try {
      Polynomial p = polynomial(body);
      Exact r = 0;
      for (auto& [m, c] : p) {
        auto s = sum_of(m, lo, hi);
        if (!s) return iterated(body, lo, hi, var);
        r = r + c * *s;
      }
      return r;
    } catch (const NoClosedForm&) {
      return iterated(body, lo, hi, var);
    } catch (const Undecided& u) {
      auto slope = direction(u.difference);
      if (!slope) return iterated(body, lo, hi, var);
      // The first v at which the sign of the difference is that of the far end.
      auto holds = [&](Wide v) { return value_at(u.difference, v).n >= 0; };
      const bool first = holds(lo);
      Wide low = lo, high = hi;
      while (high - low > 1) {
        Wide mid = low + (high - low) / 2;
        (holds(mid) == first ? low : high) = mid;
      }
      Choices saved = choices_;
      choices_[u.key] = first;
      Exact left = sum(body, lo, high, var);
      choices_ = saved;
      choices_[u.key] = !first;
      Exact right = sum(body, high, hi, var);
      choices_ = saved;
      return left + right;
    }
  }

  Exact iterated(Expr body, Wide lo, Wide hi, Sym var) {
    Choices saved = std::move(choices_);
    choices_.clear();
    bound_.emplace_back(var, 0);
    Exact r = 0;
    for (Wide v = lo; v < hi; ++v) {
      bound_.back().second = Exact(v);
      r = r + (*this)(body);
    }
    bound_.pop_back();
    choices_ = std::move(saved);
    var_ = var;
    return r;
  }

  bool decided(Expr node, int key, const Polynomial& difference) {
    if (difference.empty()) return true;
    if (difference.size() == 1 && difference.begin()->first.power == 0 &&
        difference.begin()->first.floors.empty())
      return difference.begin()->second.n >= 0;
    auto it = choices_.find({node, key});
    if (it != choices_.end()) return it->second;
    throw Undecided{{node, key}, difference};
  }

  bool condition(Expr c) {
    if (!depends_on(c, var_)) return (*this)(c).n != 0;
    auto difference = [&](size_t k, size_t m) {
      return polynomial(c.arg(k)) + scaled(polynomial(c.arg(m)), -1);
    };
    switch (c.op()) {
      case Op::Le: return decided(c, 0, difference(1, 0));
      case Op::Lt: return !decided(c, 0, difference(0, 1));
      case Op::Eq: return decided(c, 0, difference(1, 0)) && decided(c, 1, difference(0, 1));
      case Op::Ne: return !(decided(c, 0, difference(1, 0)) && decided(c, 1, difference(0, 1)));
      case Op::Not: return !condition(c.arg(0));
      case Op::And:
        return std::all_of(c.args().begin(), c.args().end(), [&](Expr a) { return condition(a); });
      case Op::Or: return std::any_of(c.args().begin(), c.args().end(), [&](Expr a) { return condition(a); });
      default: throw NoClosedForm{};
    }
  }

  Polynomial quotient(const Polynomial& a, const Exact& divisor) {
    if (divisor.n <= 0) throw NoClosedForm{};
    Exact slope = 0, offset = 0;
    for (auto& [m, c] : a) {
      if (!m.floors.empty() || m.power > 1) throw NoClosedForm{};
      (m.power ? slope : offset) = c * inverse(divisor);
    }
    // (p/q)·v + r/s over one denominator
    const Wide m = wide_mul(slope.d, offset.d), p = wide_mul(slope.n, offset.d),
               r = wide_mul(offset.n, slope.d);
    const Wide whole = wide_floor_div(p, m), base = wide_floor_div(r, m);
    Polynomial out = constant(base);
    if (whole != 0) accumulate(out, Monomial{1, {}}, Exact(whole));
    FloorAtom atom{p - whole * m, r - base * m, m};
    if (atom.a != 0) {
      Wide g = std::gcd(std::gcd(uint64_t(atom.a), uint64_t(atom.m)), uint64_t(atom.b));
      if (atom.m >> 62 == 0 && g > 1) atom = {atom.a / g, atom.b / g, atom.m / g};
      accumulate(out, Monomial{0, {atom}}, Exact(1));
    }
    return out;
  }

  Polynomial polynomial(Expr e) {
    if (!depends_on(e, var_)) return constant((*this)(e));
    switch (e.op()) {
      case Op::Symbol: return {{Monomial{1, {}}, Exact(1)}};
      case Op::Add: {
        Polynomial r;
        for (Expr a : e.args()) r = r + polynomial(a);
        return r;
      }
      case Op::Mul: {
        Polynomial r = constant(1);
        for (Expr a : e.args()) r = r * polynomial(a);
        return r;
      }
      case Op::Pow: {
        auto n = e.arg(1).rational();
        if (!n || !n->is_integer() || n->num() < 0 || n->num() > 4) throw NoClosedForm{};
        Polynomial base = polynomial(e.arg(0)), r = constant(1);
        for (int64_t k = 0; k < n->num(); ++k) r = r * base;
        return r;
      }
      case Op::FloorDiv:
        if (depends_on(e.arg(1), var_)) throw NoClosedForm{};
        return quotient(polynomial(e.arg(0)), (*this)(e.arg(1)));
      case Op::Mod: {
        if (depends_on(e.arg(1), var_)) throw NoClosedForm{};
        Exact divisor = (*this)(e.arg(1));
        Polynomial a = polynomial(e.arg(0));
        return a + scaled(quotient(a, divisor), -divisor);
      }
      case Op::Floor: return quotient(polynomial(e.arg(0)), 1);
      case Op::Max:
      case Op::Min: {
        Polynomial best = polynomial(e.arg(0));
        for (size_t k = 1; k < e.args().size(); ++k) {
          Polynomial other = polynomial(e.arg(k));
          Polynomial difference = e.is(Op::Max) ? best + scaled(other, -1) : other + scaled(best, -1);
          if (!decided(e, int(k), difference)) best = std::move(other);
        }
        return best;
      }
      case Op::Select: return polynomial(e.arg(condition(e.arg(0)) ? 1 : 2));
      case Op::Lt:
      case Op::Le:
      case Op::Eq:
      case Op::Ne:
      case Op::And:
      case Op::Or:
      case Op::Not: return constant(condition(e) ? 1 : 0);
      default: throw NoClosedForm{};
    }
  }

  const std::map<Sym, int64_t>& values_;
  std::vector<std::pair<Sym, Exact>> bound_;
  std::unordered_map<Expr, Exact> memo_;
  Choices choices_;
  Sym var_;
};

}  // namespace

int64_t evaluate_integer(Expr e, const std::map<Sym, int64_t>& values) {
  Exact x = IntegerEvaluator(values)(e);
  TW_CHECK(x.integer(), fmt::format("{} is not an integer", to_string(e)));
  if (x.n > Wide(INT64_MAX) || x.n < Wide(INT64_MIN)) fail_size_overflow();
  return int64_t(x.n);
}

}  // namespace tilewright
