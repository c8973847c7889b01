#include "tests/support/symbolic_values.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tilewright/derive/state.h"
#include "tilewright/expr/simplify.h"
#include "tilewright/program/elaborate.h"

namespace tilewright::testing {

using namespace symbolic;

SymbolicProgram::SymbolicProgram(const Program& elaborated, const Sizes& sizes, uint64_t seed)
    : program_(elaborated), sizes_(sizes), seed_(seed) {
  for (const Param& q : program_.params) {
    double x = q.value && q.value.number() ? *q.value.number() : 2;
    if (!q.value && q.range.lo && q.range.lo.number()) x = std::max(x, *q.range.lo.number());
    params_[q.sym] = constant(x);
  }
}

SymbolicValue SymbolicProgram::constant(double x) const {
  return {x, of_number(x, fields().p), of_number(x, fields().q)};
}

double SymbolicProgram::random(Sym s, const Element& at, uint64_t salt) const {
  uint64_t h = mixed(seed_ * 1000003 + salt);
  for (char c : s.name()) h = mixed(h ^ uint64_t(c));
  for (int64_t x : at) h = mixed(h ^ uint64_t(x + 7));
  return double(h >> 11) / double(uint64_t{1} << 53);
}

SymbolicValue SymbolicProgram::input(const Input& in, const Element& at) {
  const double x = random(in.sym, at, 1);
  double lo = seed_ % 2 ? 0.25 : -2, hi = 2;  // every other point is positive
  const auto bound = [&](Expr e) {
    Bindings values;
    for (const auto& [s, n] : sizes_) values[s] = double(n);
    return tilewright::evaluate(e, values);
  };
  const bool ranged = in.range.lo && in.range.hi;
  if (ranged) lo = bound(in.range.lo), hi = bound(in.range.hi);
  if (in.dtype == DType::boolean) return constant(x < 0.6 ? 1 : 0);
  if (!is_float(in.dtype)) {
    if (!ranged) lo = 0, hi = 4;
    return constant(std::floor(lo + x * std::max(0.0, hi - lo)));
  }
  const auto image = [&](uint64_t m, uint64_t salt) {
    return uint64_t(random(in.sym, at, salt) * 0x1p53) * 127 % m;
  };
  return {lo + x * (hi - lo), image(fields().p, 2), image(fields().q, 3)};
}

SymbolicValue SymbolicProgram::element(Sym tensor, const Element& at) {
  const auto key = std::pair(tensor, at);
  if (const auto it = known_.find(key); it != known_.end()) return it->second;
  const std::vector<Sym> axes = program_.tensor_axes(tensor);
  for (size_t k = 0; k < at.size(); ++k)
    if (at[k] < 0 || at[k] >= sizes_.at(axes[k].size()))
      throw std::runtime_error(fmt::format("{}[{}] does not exist", tensor.name(), fmt::join(at, ", ")));
  SymbolicValue v;
  if (const Input* in = program_.input(tensor)) {
    v = input(*in, at);
  } else {
    const Definition& d = *program_.definition(tensor);
    Scope scope = params_;
    for (size_t k = 0; k < d.axes.size(); ++k) scope[d.axes[k]] = constant(double(at[k]));
    const bool outside = std::exchange(in_definition_, true);
    v = evaluate(d.value, scope, [&](Sym s, const Element& i) { return element(s, i); });
    in_definition_ = outside;
    if (d.dtype && !is_float(*d.dtype)) v = constant(std::trunc(v.value));
  }
  known_.emplace(key, v);
  return v;
}

SymbolicValue SymbolicProgram::defined(const Output& o, const Element& at) {
  const std::vector<Sym> pieces = o.axes(), own = program_.tensor_axes(o.sym);
  Element index;
  for (Sym a : own) index.push_back(at[size_t(std::find(pieces.begin(), pieces.end(), a) - pieces.begin())]);
  return element(o.sym, index);
}

// ---- arithmetic ----

/// a^n: a homomorphism of products also for halves.
SymbolicValue SymbolicProgram::power(const SymbolicValue& a, double exponent) const {
  const double value = std::pow(a.value, exponent);
  const auto in = [&](uint64_t x, uint64_t m) {
    if (exponent != std::floor(exponent)) {
      const uint64_t square = x;
      x = root(x, m);
      not_squares_ = not_squares_ || times(x, x, m) != square;
    }
    const int64_t n = int64_t(exponent == std::floor(exponent) ? exponent : 2 * exponent);
    return raised(n < 0 ? inverse(x, m) : x, uint64_t(std::llabs(n)), m);
  };
  if (2 * exponent != std::floor(2 * exponent) || std::fabs(exponent) > 64)
    return opaque(fmt::format("pow {}", exponent), a.value, value);
  return {value, in(a.image, fields().p), in(a.exponent, fields().q)};
}

/// Two arguments that agree to ten digits are taken for equal.
SymbolicValue SymbolicProgram::opaque(const std::string& of, double argument, double value) const {
  uint64_t h = mixed(uint64_t(std::llround(argument * 1e9)));
  for (char c : of) h = mixed(h ^ uint64_t(c));
  return {value, h % fields().p, mixed(h) % fields().q};
}

SymbolicValue SymbolicProgram::combine(Reducer r, const SymbolicValue& a, const SymbolicValue& b) const {
  switch (r) {
    case Reducer::Sum: return sum(a, b);
    case Reducer::Prod: return product(a, b);
    case Reducer::Max: return std::isnan(a.value) || a.value >= b.value ? a : b;
    case Reducer::Min: return std::isnan(a.value) || a.value <= b.value ? a : b;
    case Reducer::Any: return constant(a.value != 0 || b.value != 0);
    case Reducer::All: return constant(a.value != 0 && b.value != 0);
    default: throw std::runtime_error("a reducer that a run does not know");
  }
}

SymbolicValue SymbolicProgram::reduced(Expr e, Scope& scope, const Reading& reading) {
  // In a definition a reduction is the same wherever the indices that it mentions are.
  std::pair<const Node*, Element> key{e.get(), {}};
  if (in_definition_) {
    auto [free, fresh] = free_.try_emplace(e.get());
    if (fresh)
      for (Sym s : free_symbols(e))
        if (s.kind() == SymbolKind::Index) free->second.push_back(s);
    for (Sym s : free->second) key.second.push_back(int64_t(scope.at(s).value));
    if (const auto it = reduced_.find(key); it != reduced_.end()) return it->second;
  }
  const SymbolicValue value = reduced_anew(e, scope, reading);
  if (in_definition_) reduced_.emplace(key, value);
  return value;
}

SymbolicValue SymbolicProgram::reduced_anew(Expr e, Scope& scope, const Reading& reading) {
  const std::vector<Sym> bound = e->bound;
  const bool ranked = has_rank(e->reducer),
             arg = e->reducer == Reducer::Argmax || e->reducer == Reducer::Argmin;
  SymbolicValue total = ranked || arg ? SymbolicValue{} : constant(*identity(e->reducer).number());
  std::vector<std::pair<SymbolicValue, int64_t>> list;
  const RankedBody body = ranked ? ranked_body(e) : RankedBody{e.arg(0), {}};
  std::function<void(size_t)> visit = [&](size_t k) {
    if (k < bound.size()) {
      for (int64_t i = 0; i < sizes_.at(bound[k].size()); ++i) {
        scope[bound[k]] = constant(double(i));
        visit(k + 1);
      }
      scope.erase(bound[k]);
      return;
    }
    if (body.present && evaluate(body.present, scope, reading).value == 0) return;
    const SymbolicValue v = evaluate(body.value, scope, reading);
    if (ranked || arg)
      list.emplace_back(v, int64_t(scope.at(bound.back()).value));
    else
      total = combine(e->reducer, total, v);
  };
  const Scope outside = scope;
  visit(0);
  scope = outside;
  if (!ranked && !arg) return total;
  std::stable_sort(list.begin(), list.end(), [&](const auto& x, const auto& y) {
    if (e->reducer == Reducer::Argmin) return x.first.value < y.first.value;
    return stands_before(x.first.value, double(x.second), y.first.value, double(y.second));
  });
  const size_t rank = ranked ? size_t(evaluate(e.arg(1), scope, reading).value) : 0;
  const bool index = e->reducer != Reducer::Topk;
  if (rank >= list.size()) return constant(index ? -1 : -INFINITY);
  return index ? constant(double(list[rank].second)) : list[rank].first;
}

SymbolicValue SymbolicProgram::evaluate(Expr e, Scope& scope, const Reading& reading) {
  const auto arg = [&](size_t k) { return evaluate(e.arg(k), scope, reading); };
  const auto number = [&](bool x) { return constant(x ? 1 : 0); };
  const auto negative = [&](const SymbolicValue& v) { return product(constant(-1), v); };
  switch (e.op()) {
    case Op::Constant:
    case Op::Real: return constant(*e.number());
    case Op::Symbol: {
      if (const auto it = scope.find(e->sym); it != scope.end()) return it->second;
      if (const auto it = sizes_.find(e->sym); it != sizes_.end()) return constant(double(it->second));
      throw std::runtime_error("no value of " + e->sym.name());
    }
    case Op::Read: {
      Element at;
      for (Expr a : e.args()) at.push_back(int64_t(evaluate(a, scope, reading).value));
      return reading(e->sym, at);
    }
    case Op::Reduce: return reduced(e, scope, reading);
    case Op::Select: return arg(0).value != 0 ? arg(1) : arg(2);
    case Op::Add:
    case Op::Mul:
    case Op::Max:
    case Op::Min: {
      SymbolicValue v = arg(0);
      for (size_t k = 1; k < e.args().size(); ++k)
        v = e.is(Op::Add)   ? sum(v, arg(k))
            : e.is(Op::Mul) ? product(v, arg(k))
                            : combine(e.is(Op::Max) ? Reducer::Max : Reducer::Min, v, arg(k));
      return v;
    }
    case Op::Sub: return sum(arg(0), negative(arg(1)));
    case Op::Neg: return negative(arg(0));
    case Op::Div: return product(arg(0), power(arg(1), -1));
    case Op::Pow: {
      const SymbolicValue a = arg(0), b = arg(1);
      return e.arg(1).number() ? power(a, b.value)
                               : opaque(fmt::format("pow {}", b.value), a.value, std::pow(a.value, b.value));
    }
    case Op::Sqrt: return power(arg(0), 0.5);
    case Op::Rsqrt: return power(arg(0), -0.5);
    case Op::Exp: return exponential(arg(0));
    case Op::Exp2: return exponential(product(arg(0), constant(std::log(2.0))));
    case Op::Log:
    case Op::Log2: {
      const SymbolicValue a = arg(0);
      const double x = std::log(a.value);
      const SymbolicValue v = x == 1 || x == 0 ? constant(x) : opaque("log", a.value, x);
      return e.is(Op::Log) ? v : product(v, constant(1 / std::log(2.0)));
    }
    case Op::Abs: {
      const SymbolicValue a = arg(0);
      return a.value < 0 ? negative(a) : a;
    }
    case Op::Sign: {
      const double a = arg(0).value;
      return constant(a > 0 ? 1 : a < 0 ? -1 : 0);
    }
    case Op::Lt: return number(arg(0).value < arg(1).value);
    case Op::Le: return number(arg(0).value <= arg(1).value);
    case Op::Eq: return number(arg(0).value == arg(1).value);
    case Op::Ne: return number(arg(0).value != arg(1).value);
    case Op::Not: return number(arg(0).value == 0);
    case Op::And: {
      for (Expr a : e.args())
        if (evaluate(a, scope, reading).value == 0) return number(false);
      return number(true);
    }
    case Op::Or: {
      for (Expr a : e.args())
        if (evaluate(a, scope, reading).value != 0) return number(true);
      return number(false);
    }
    case Op::FloorDiv: return constant(std::floor(arg(0).value / arg(1).value));
    case Op::Mod: {
      const double a = arg(0).value, b = arg(1).value;
      return constant(a - b * std::floor(a / b));
    }
    case Op::Cast: {
      const SymbolicValue a = arg(0);
      if (e->dtype == DType::boolean) return number(a.value != 0);
      return is_float(e->dtype) ? a : constant(std::trunc(a.value));
    }
    case Op::Tanh: {
      const SymbolicValue a = arg(0);
      return opaque(name(e.op()), a.value, std::tanh(a.value));
    }
    case Op::Sigmoid: {
      const SymbolicValue a = arg(0);
      return power(sum(constant(1), exponential(negative(a))), -1);
    }
    case Op::Erf: {
      const SymbolicValue a = arg(0);
      return opaque(name(e.op()), a.value, std::erf(a.value));
    }
    case Op::Floor: {
      const SymbolicValue a = arg(0);
      return opaque(name(e.op()), a.value, std::floor(a.value));
    }
    case Op::Round: {
      const SymbolicValue a = arg(0);
      return opaque(name(e.op()), a.value, std::nearbyint(a.value));
    }
    default: throw std::runtime_error(std::string("an operation that a run does not know: ") + name(e.op()));
  }
}

}  // namespace tilewright::testing
