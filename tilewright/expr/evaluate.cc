// Evaluation in f64.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <unordered_map>

#include <fmt/format.h>

#include "tilewright/expr/canonical.h"
#include "tilewright/support/error.h"

namespace tilewright {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double greater(double a, double b) { return std::isnan(a) || std::isnan(b) ? kNan : std::max(a, b); }
double smaller(double a, double b) { return std::isnan(a) || std::isnan(b) ? kNan : std::min(a, b); }

double floor_quotient(double a, double b) {
  TW_CHECK(b != 0, "division by zero in an integer expression");
  return std::floor(a / b);
}

/// Scopes of bound symbols, innermost last. A node's value is remembered in the innermost scope it depends
/// on, so that what does not vary with a reduction is evaluated once.
class Evaluator {
 public:
  Evaluator(const Bindings& values, const Reader& reader) : values_(values), reader_(reader), scopes_(1) {}

  double operator()(Expr e) {
    if (e.is(Op::Constant)) return e->number.value();
    if (e.is(Op::Real)) return e->real;
    if (e.is(Op::Symbol)) return value_of(e->sym);
    auto& memo = scopes_[scope_of(e)].memo;
    auto it = memo.find(e.get());
    if (it != memo.end()) return it->second;
    double x = find(e);
    scopes_[scope_of(e)].memo.emplace(e.get(), x);
    return x;
  }

 private:
  struct Scope {
    std::vector<std::pair<Sym, double>> bound;
    std::unordered_map<const Node*, double> memo;
  };

  const double* bound_value(Sym s, size_t& scope) const {
    for (scope = scopes_.size(); scope-- > 1;)
      for (auto& [b, x] : scopes_[scope].bound)
        if (b == s) return &x;
    scope = 0;
    return nullptr;
  }

  double value_of(Sym s) const {
    size_t scope;
    if (const double* x = bound_value(s, scope)) return *x;
    auto it = values_.find(s);
    TW_CHECK(it != values_.end(), fmt::format("no value for {}", s.name()));
    return it->second;
  }

  size_t scope_of(Expr e) const {
    size_t deepest = 0, scope;
    if (scopes_.size() == 1) return 0;
    for (Sym s : free_symbols_of(e)) {
      bound_value(s, scope);
      deepest = std::max(deepest, scope);
    }
    return deepest;
  }

  int64_t length(Sym axis) const {
    TW_CHECK(bool(axis.size()), fmt::format("axis {} has no size", axis.name()));
    return int64_t(value_of(axis.size()));
  }

  /// Calls f(flat index) with the axes bound to each index in turn; the last axis moves fastest.
  template <class F>
  void each(const std::vector<Sym>& axes, F f) {
    std::vector<int64_t> sizes;
    int64_t total = 1;
    for (Sym a : axes) {
      sizes.push_back(length(a));
      total *= sizes.back();
    }
    scopes_.emplace_back();
    for (Sym a : axes) scopes_.back().bound.emplace_back(a, 0);
    for (int64_t n = 0; n < total; ++n) {
      int64_t rest = n;
      for (size_t k = axes.size(); k-- > 0;) {
        scopes_.back().bound[k].second = double(rest % sizes[k]);
        rest /= sizes[k];
      }
      scopes_.back().memo.clear();
      f(n);
    }
    scopes_.pop_back();
  }

  double reduced(Expr e) {
    Expr body = e.arg(0);
    const std::vector<Sym>& axes = e->bound;
    switch (e->reducer) {
      case Reducer::Sum: {
        double r = 0;
        each(axes, [&](int64_t) { r += (*this)(body); });
        return r;
      }
      case Reducer::Prod: {
        double r = 1;
        each(axes, [&](int64_t) { r *= (*this)(body); });
        return r;
      }
      case Reducer::Max: {
        double r = -kInf;
        each(axes, [&](int64_t) { r = greater(r, (*this)(body)); });
        return r;
      }
      case Reducer::Min: {
        double r = kInf;
        each(axes, [&](int64_t) { r = smaller(r, (*this)(body)); });
        return r;
      }
      case Reducer::Any: {
        bool r = false;
        each(axes, [&](int64_t) { r = r || (*this)(body) != 0; });
        return r;
      }
      case Reducer::All: {
        bool r = true;
        each(axes, [&](int64_t) { r = r && (*this)(body) != 0; });
        return r;
      }
      case Reducer::Argmax:
      case Reducer::Argmin: {
        double best = 0;
        int64_t at = -1;
        const double sign = e->reducer == Reducer::Argmax ? 1 : -1;
        each(axes, [&](int64_t n) {
          double x = sign * (*this)(body);
          if (at < 0 || x > best || (std::isnan(x) && !std::isnan(best))) {
            best = x;
            at = n;
          }
        });
        return double(at);
      }
      case Reducer::Mean:
      case Reducer::Var: return moment(e);
      case Reducer::Softmax:
      case Reducer::Logsumexp: return normalised(e);
      case Reducer::Topk:
      case Reducer::Argtopk: return of_rank(e);
    }
    return kNan;
  }

  /// Descending, NaN first, the smaller index first among equals; −inf and −1 past the last element that is present.
  double of_rank(Expr e) {
    const RankedBody body = ranked_body(e);
    std::vector<double> x;
    std::vector<int64_t> order;
    each(e->bound, [&](int64_t at) {
      const bool there = !body.present || (*this)(body.present) != 0;
      if (there) order.push_back(at);
      x.push_back(there ? (*this)(body.value) : -kInf);
    });
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      const double p = x[size_t(a)], q = x[size_t(b)];
      return std::isnan(p) ? !std::isnan(q) : p > q;
    });
    const double rank = (*this)(e.arg(1));
    const bool inside = rank >= 0 && rank < double(order.size());
    if (e->reducer == Reducer::Argtopk) return inside ? double(order[size_t(rank)]) : -1;
    return inside ? x[size_t(order[size_t(rank)])] : -kInf;
  }

  double moment(Expr e) {
    double total = 0, count = 0;
    each(e->bound, [&](int64_t) { total += (*this)(e.arg(0)), ++count; });
    const double mean = total / count;
    if (e->reducer == Reducer::Mean) return mean;
    double squares = 0;
    each(e->bound, [&](int64_t) {
      double x = (*this)(e.arg(0)) - mean;
      squares += x * x;
    });
    return squares / count;
  }

  double normalised(Expr e) {
    Expr body = e.arg(0);
    double m = -kInf, l = 0;
    each(e->bound, [&](int64_t) { m = greater(m, (*this)(body)); });
    if (e->reducer == Reducer::Logsumexp && std::isinf(m)) return m;
    auto weight = [&](double x) { return x == -kInf ? 0 : std::exp(x - m); };
    each(e->bound, [&](int64_t) { l += weight((*this)(body)); });
    if (e->reducer == Reducer::Logsumexp) return m + std::log(l);
    return l == 0 ? 0 : weight((*this)(body)) / l;
  }

  double ranged(Expr e) {
    const int64_t lo = int64_t((*this)(e.arg(0))), hi = int64_t((*this)(e.arg(1)));
    double r = 0;
    scopes_.emplace_back();
    scopes_.back().bound.emplace_back(e->bound[0], 0);
    for (int64_t n = lo; n < hi; ++n) {
      scopes_.back().bound[0].second = double(n);
      scopes_.back().memo.clear();
      r += (*this)(e.arg(2));
    }
    scopes_.pop_back();
    return r;
  }

  double powered(double x, Expr exponent) {
    if (auto q = exponent.rational()) {
      if (*q == Rational(2)) return x * x;
      if (*q == Rational(-1)) return 1 / x;
      if (*q == Rational(1, 2)) return std::sqrt(x);
      if (*q == Rational(-1, 2)) return 1 / std::sqrt(x);
    }
    return std::pow(x, (*this)(exponent));
  }

  double find(Expr e) {
    auto arg = [&](size_t k) { return (*this)(e.arg(k)); };
    switch (e.op()) {
      case Op::Constant:
      case Op::Real:
      case Op::Symbol: break;
      case Op::Read: {
        std::vector<int64_t> index;
        for (Expr a : e.args()) index.push_back(int64_t((*this)(a)));
        TW_CHECK(bool(reader_), fmt::format("no reader for {}", e->sym.name()));
        return reader_(e->sym, index);
      }
      case Op::Add: {
        double r = 0;
        for (Expr a : e.args()) r += (*this)(a);
        return r;
      }
      case Op::Sub: return arg(0) - arg(1);
      case Op::Mul: {
        double r = 1;
        for (Expr a : e.args()) r *= (*this)(a);
        return r;
      }
      case Op::Div: return arg(0) / arg(1);
      case Op::Neg: return -arg(0);
      case Op::Pow: return powered(arg(0), e.arg(1));
      case Op::Exp: return std::exp(arg(0));
      case Op::Exp2: return std::exp2(arg(0));
      case Op::Log: return std::log(arg(0));
      case Op::Log2: return std::log2(arg(0));
      case Op::Sqrt: return std::sqrt(arg(0));
      case Op::Rsqrt: return 1 / std::sqrt(arg(0));
      case Op::Tanh: return std::tanh(arg(0));
      case Op::Sigmoid: return 1 / (1 + std::exp(-arg(0)));
      case Op::Erf: return std::erf(arg(0));
      case Op::Abs: return std::fabs(arg(0));
      case Op::Floor: return std::floor(arg(0));
      case Op::Round: return std::nearbyint(arg(0));
      case Op::Sign: {
        double x = arg(0);
        return std::isnan(x) ? x : double((x > 0) - (x < 0));
      }
      case Op::Max: {
        double r = -kInf;
        for (Expr a : e.args()) r = greater(r, (*this)(a));
        return r;
      }
      case Op::Min: {
        double r = kInf;
        for (Expr a : e.args()) r = smaller(r, (*this)(a));
        return r;
      }
      case Op::Select: return arg(0) != 0 ? arg(1) : arg(2);
      case Op::Lt: return arg(0) < arg(1);
      case Op::Le: return arg(0) <= arg(1);
      case Op::Eq: return arg(0) == arg(1);
      case Op::Ne: return arg(0) != arg(1);
      case Op::And:
        for (Expr a : e.args())
          if ((*this)(a) == 0) return 0;
        return 1;
      case Op::Or:
        for (Expr a : e.args())
          if ((*this)(a) != 0) return 1;
        return 0;
      case Op::Not: return arg(0) == 0;
      case Op::FloorDiv: return floor_quotient(arg(0), arg(1));
      case Op::Mod: {
        double a = arg(0), b = arg(1);
        return a - b * floor_quotient(a, b);
      }
      case Op::Cast: return round_to(e->dtype, arg(0));
      case Op::Reduce: return reduced(e);
      case Op::RangeSum: return ranged(e);
    }
    return kNan;
  }

  const Bindings& values_;
  const Reader& reader_;
  std::vector<Scope> scopes_;
};

}  // namespace

double evaluate(Expr e, const Bindings& values, const Reader& reader) { return Evaluator(values, reader)(e); }

}  // namespace tilewright
