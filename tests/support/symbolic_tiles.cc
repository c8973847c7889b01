#include "tests/support/symbolic_tiles.h"

#include <cmath>
#include <functional>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tilewright/derive/state.h"
#include "tilewright/expr/simplify.h"
#include "tilewright/program/elaborate.h"
#include "tilewright/tile/statements.h"

namespace tilewright::testing {

namespace {

/// p/q = x up to rounding, with a small q.
std::optional<Rational> as_fraction(double x) {
  if (!std::isfinite(x) || std::fabs(x) > 1e9) return std::nullopt;
  double rest = std::fabs(x);
  int64_t p0 = 0, q0 = 1, p1 = 1, q1 = 0;
  for (int k = 0; k < 40; ++k) {
    const double whole = std::floor(rest);
    const int64_t p = int64_t(whole) * p1 + p0, q = int64_t(whole) * q1 + q0;
    if (q > 1000000 || p > int64_t{1} << 40) return std::nullopt;
    p0 = p1, q0 = q1, p1 = p, q1 = q;
    if (std::fabs(double(p) / double(q) - std::fabs(x)) <= 2e-15 * std::fabs(x))
      return Rational(x < 0 ? -p : p, q);
    rest = 1 / (rest - whole);
  }
  return std::nullopt;
}

uint64_t mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// ---- two fields ----

using Wide = unsigned __int128;

uint64_t times(uint64_t a, uint64_t b, uint64_t m) { return uint64_t(Wide(a) * b % m); }
uint64_t plus(uint64_t a, uint64_t b, uint64_t m) { return uint64_t((Wide(a) + b) % m); }
uint64_t raised(uint64_t a, uint64_t n, uint64_t m) {
  uint64_t x = 1;
  for (; n > 0; n >>= 1, a = times(a, a, m))
    if (n & 1) x = times(x, a, m);
  return x;
}
uint64_t inverse(uint64_t a, uint64_t m) { return raised(a, m - 2, m); }

bool is_prime(uint64_t n) {  // Miller and Rabin; the bases decide below 2^64
  for (uint64_t d : {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37})
    if (n % d == 0) return n == d;
  uint64_t odd = n - 1;
  int twos = 0;
  while (odd % 2 == 0) odd /= 2, ++twos;
  for (uint64_t base : {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37}) {
    uint64_t x = raised(base, odd, n);
    if (x == 1 || x == n - 1) continue;
    bool composite = true;
    for (int k = 1; k < twos && composite; ++k) composite = (x = times(x, x, n)) != n - 1;
    if (composite) return false;
  }
  return true;
}

/// p = 2q + 1, both prime and 3 mod 4, so that a^((p + 1) / 4) is a root of each square; 2, 3 and 5 are squares in both.
struct Fields {
  uint64_t p = 0, q = 0, generator = 4;  ///< a square is of order q
  Fields() {
    const auto square = [](uint64_t a, uint64_t m) { return raised(a, (m - 1) / 2, m) == 1; };
    for (q = (uint64_t{1} << 60) + 3;; q += 4) {
      p = 2 * q + 1;
      if (!is_prime(q) || !is_prime(p)) continue;
      bool all = true;
      for (uint64_t a : {2, 3, 5}) all = all && square(a, p) && square(a, q);
      if (all) return;
    }
  }
};
const Fields& fields() {
  static const Fields f;
  return f;
}

uint64_t of_integer(int64_t n, uint64_t m) { return n >= 0 ? uint64_t(n) % m : m - uint64_t(-n) % m; }
uint64_t of_fraction(const Rational& r, uint64_t m) {
  return times(of_integer(r.num(), m), inverse(of_integer(r.den(), m), m), m);
}
uint64_t root(uint64_t a, uint64_t m) { return raised(a, (m + 1) / 4, m); }

/// log 2, of which nothing is known but that it is a number.
uint64_t log_two(uint64_t m) { return mixed(m) % m; }

/// The image of a number that a tile program or a definition holds: of fractions, their roots, and both times log 2 or divided by it.
uint64_t of_number(double x, uint64_t m) {
  if (!std::isfinite(x)) return 0;
  if (x == std::floor(x) && std::fabs(x) < 1e15) return of_integer(int64_t(x), m);
  const double log2 = std::log(2.0);
  for (int power : {0, 1, -1}) {
    const double rest = power == 0 ? x : power > 0 ? x / log2 : x * log2;
    const uint64_t factor = power == 0 ? 1 : power > 0 ? log_two(m) : inverse(log_two(m), m);
    if (const auto r = as_fraction(rest)) return times(of_fraction(*r, m), factor, m);
    if (const auto r = as_fraction(rest * rest)) {
      const uint64_t whole =
          times(root(of_integer(r->num(), m), m), inverse(root(of_integer(r->den(), m), m), m), m);
      return times(rest < 0 ? m - whole : whole, factor, m);
    }
  }
  return mixed(uint64_t(std::llround(x * 1e12)) ^ m) % m;
}

SymbolicValue sum(const SymbolicValue& a, const SymbolicValue& b) {
  const auto [p, q, g] = fields();
  return {a.value + b.value, plus(a.image, b.image, p), plus(a.exponent, b.exponent, q)};
}
SymbolicValue product(const SymbolicValue& a, const SymbolicValue& b) {
  const auto [p, q, g] = fields();
  return {a.value * b.value, times(a.image, b.image, p), times(a.exponent, b.exponent, q)};
}
/// exp(a) for the exponent a: an element of order q, which as an exponent itself has an image for each value.
SymbolicValue exponential(const SymbolicValue& a) {
  const auto [p, q, g] = fields();
  const double x = std::exp(a.value);
  if (x == 0) return {};
  return {x, raised(g, a.exponent, p), mixed(a.exponent) % q};
}

}  // namespace

SymbolicRun::SymbolicRun(const Program& elaborated, const Sizes& sizes, uint64_t seed)
    : program_(elaborated), sizes_(sizes), seed_(seed) {
  for (const Param& q : program_.params) {
    double x = q.value && q.value.number() ? *q.value.number() : 2;
    if (!q.value && q.range.lo && q.range.lo.number()) x = std::max(x, *q.range.lo.number());
    params_[q.sym] = constant(x);
  }
}

SymbolicValue SymbolicRun::constant(double x) const {
  return {x, of_number(x, fields().p), of_number(x, fields().q)};
}

double SymbolicRun::random(Sym s, const Element& at, uint64_t salt) const {
  uint64_t h = mixed(seed_ * 1000003 + salt);
  for (char c : s.name()) h = mixed(h ^ uint64_t(c));
  for (int64_t x : at) h = mixed(h ^ uint64_t(x + 7));
  return double(h >> 11) / double(uint64_t{1} << 53);
}

SymbolicValue SymbolicRun::input(const Input& in, const Element& at) {
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

SymbolicValue SymbolicRun::element(Sym tensor, const Element& at) {
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

SymbolicValue SymbolicRun::defined(const Output& o, const Element& at) {
  const std::vector<Sym> pieces = o.axes(), own = program_.tensor_axes(o.sym);
  Element index;
  for (Sym a : own) index.push_back(at[size_t(std::find(pieces.begin(), pieces.end(), a) - pieces.begin())]);
  return element(o.sym, index);
}

// ---- arithmetic ----

/// a^n: a homomorphism of products also for halves.
SymbolicValue SymbolicRun::power(const SymbolicValue& a, double exponent) const {
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
SymbolicValue SymbolicRun::opaque(const std::string& of, double argument, double value) const {
  uint64_t h = mixed(uint64_t(std::llround(argument * 1e9)));
  for (char c : of) h = mixed(h ^ uint64_t(c));
  return {value, h % fields().p, mixed(h) % fields().q};
}

SymbolicValue SymbolicRun::combine(Reducer r, const SymbolicValue& a, const SymbolicValue& b) const {
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

SymbolicValue SymbolicRun::reduced(Expr e, Scope& scope, const Reading& reading) {
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

SymbolicValue SymbolicRun::reduced_anew(Expr e, Scope& scope, const Reading& reading) {
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

SymbolicValue SymbolicRun::evaluate(Expr e, Scope& scope, const Reading& reading) {
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

// ---- tile programs ----

/// One kernel, block after block.
class SymbolicKernel {
 public:
  SymbolicKernel(SymbolicRun& run, const TileProgram& t, const TileKernel& k, SymbolicRun::Scope scope,
                 std::map<Sym, SymbolicArray>& arrays)
      : run_(run), t_(t), k_(k), scope_(std::move(scope)), arrays_(arrays) {}

  void blocks(size_t from = 0) {
    if (from == k_.grid.size()) {
      tiles_.clear();
      for (const KernelAxis& a : k_.inner)
        if (!advances(a)) range_[a.index] = {0, size(a.index)};
      return body(k_.body, false);
    }
    const KernelAxis& a = k_.grid[from];
    for (int64_t n = 0; n * a.block < size(a.index); ++n) {
      enter(a, n);
      blocks(from + 1);
    }
  }

 private:
  int64_t size(Sym index) const { return run_.sizes_.at(index.size()); }

  void enter(const KernelAxis& a, int64_t counter) {
    if (a.counter) scope_[a.counter] = run_.constant(double(counter));
    range_[a.index] = {counter * a.block, std::min(size(a.index), (counter + 1) * a.block)};
    scope_[a.index] = run_.constant(double(counter * a.block));
  }

  /// Calls f at every coordinate of `axes` in the block and chunk under way.
  void each(const std::vector<Sym>& axes, const std::function<void()>& f, size_t from = 0) {
    if (from == axes.size()) return f();
    const auto at = range_.find(axes[from]);
    if (at == range_.end()) throw std::runtime_error("no range of " + axes[from].name());
    const auto [lo, hi] = at->second;
    for (int64_t i = lo; i < hi; ++i) {
      scope_[axes[from]] = run_.constant(double(i));
      each(axes, f, from + 1);
    }
    scope_[axes[from]] = run_.constant(double(lo));
  }

  Element here(const std::vector<Sym>& axes) const {
    Element at;
    for (Sym a : axes) at.push_back(int64_t(scope_.at(a).value));
    return at;
  }
  SymbolicValue& tile(Sym sym) { return tiles_[sym][here(k_.tile(sym).axes)]; }
  const SymbolicValue& read(Sym sym, const Element& at) const {
    const auto tile = tiles_.find(sym);
    if (tile != tiles_.end())
      if (const auto it = tile->second.find(at); it != tile->second.end()) return it->second;
    throw std::runtime_error(
        fmt::format("{}[{}] is read and was not written", sym.name(), fmt::join(at, ", ")));
  }
  SymbolicValue value(Expr e) {
    return run_.evaluate(e, scope_, [&](Sym s, const Element& at) { return read(s, at); });
  }
  bool holds(Expr e) { return value(e).value != 0; }

  void body(const Body& stmts, bool masked) {
    for (const Stmt& s : stmts) std::visit([&](const auto& x) { visit(s, x, masked); }, s.node);
  }

  Element index_of(const std::vector<Expr>& index) {
    Element at;
    for (Expr e : index) at.push_back(int64_t(value(e).value));
    return at;
  }

  void visit(const Stmt& s, const Load& x, bool) {
    each(domain(k_, s), [&] {
      const Element at = index_of(x.index);
      const auto own = arrays_.find(x.tensor);
      const bool workspace = own != arrays_.end() && run_.program_.input(x.tensor) == nullptr;
      bool inside = true;
      if (workspace) {
        inside = own->second.count(at) > 0;
      } else {
        const std::vector<Sym> axes = run_.program_.tensor_axes(x.tensor);
        for (size_t k = 0; k < at.size(); ++k) inside = inside && at[k] >= 0 && at[k] < size(axes[k]);
      }
      if (inside)
        tile(x.tile) = workspace ? own->second.at(at) : run_.element(x.tensor, at);
      else if (!x.present || holds(x.present))
        throw std::runtime_error(
            fmt::format("{}[{}] is loaded and does not exist", x.tensor.name(), fmt::join(at, ", ")));
      else
        tile(x.tile) = run_.constant(NAN);
    });
  }
  void visit(const Stmt& s, const Store& x, bool) {
    each(domain(k_, s), [&] {
      const SymbolicValue v = read(x.tile, here(k_.tile(x.tile).axes));
      arrays_[x.tensor][index_of(x.index)] = v;
    });
  }
  void visit(const Stmt& s, const Map& x, bool masked) {
    each(domain(k_, s), [&] {
      const SymbolicValue v = value(value_in(x, masked));
      tile(x.tile) = v;
    });
  }
  void visit(const Stmt&, const Reduce& x, bool masked) {
    each(k_.tile(x.tile).axes, [&] {
      const bool arg = x.reducer == Reducer::Argmax || x.reducer == Reducer::Argmin;
      if (arg) throw std::runtime_error("an index is reduced as a choice");
      SymbolicValue total = run_.constant(*identity(x.reducer).number());
      each(x.axes, [&] { total = run_.combine(x.reducer, total, value(value_in(x, masked))); });
      if (x.accumulate) total = run_.combine(x.reducer, read(x.tile, here(k_.tile(x.tile).axes)), total);
      tile(x.tile) = total;
    });
  }
  void visit(const Stmt& s, const Dot& x, bool masked) {
    const std::vector<Sym> all = domain(k_, s), own = k_.tile(x.tile).axes;
    std::vector<Sym> summed;
    for (Sym a : all)
      if (!contains_axis(own, a)) summed.push_back(a);
    each(own, [&] {
      SymbolicValue total = x.accumulate ? read(x.tile, here(own)) : run_.constant(0);
      each(summed, [&] {
        if (masked && x.present && !holds(x.present)) return;
        total = sum(total, product(read(x.a, here(k_.tile(x.a).axes)), read(x.b, here(k_.tile(x.b).axes))));
      });
      tile(x.tile) = total;
    });
  }
  void visit(const Stmt&, const Rank& x, bool masked) {
    std::vector<Sym> outer;
    for (Sym a : k_.tile(x.keys).axes)
      if (a != x.rank) outer.push_back(a);
    const int64_t length = size(x.rank);
    each(outer, [&] {
      std::vector<std::pair<SymbolicValue, SymbolicValue>> list;
      for (int64_t n = 0; n < length; ++n) {
        scope_[x.rank] = run_.constant(double(n));
        list.emplace_back(read(x.keys, here(k_.tile(x.keys).axes)),
                          read(x.indices, here(k_.tile(x.indices).axes)));
      }
      each({x.axis}, [&] {
        if (masked && x.present && !holds(x.present)) return;
        const SymbolicValue key = value(x.value), at = value(x.at);
        size_t to = list.size();
        while (to > 0 &&
               stands_before(key.value, at.value, list[to - 1].first.value, list[to - 1].second.value))
          --to;
        list.insert(list.begin() + std::ptrdiff_t(to), {key, at});
        list.pop_back();
      });
      for (int64_t n = 0; n < length; ++n) {
        scope_[x.rank] = run_.constant(double(n));
        tile(x.keys) = list[size_t(n)].first;
        tile(x.indices) = list[size_t(n)].second;
      }
    });
  }
  void visit(const Stmt&, const Loop& x, bool) {
    const KernelAxis& a = k_.axis(x.axis);
    for (const Segment& g : x.segments) {
      const int64_t lo = int64_t(value(g.lo).value), hi = int64_t(value(g.hi).value);
      for (int64_t chunk = lo; chunk < hi; ++chunk) {
        if (a.kind != KernelAxis::Kind::Resident) enter(a, chunk);
        body(x.body, g.masked);
      }
    }
  }
  void visit(const Stmt&, const When& x, bool masked) {
    bool any = false;
    each(x.axes, [&] { any = any || holds(x.condition); });
    if (any) body(x.body, masked);
  }

  SymbolicRun& run_;
  const TileProgram& t_;
  const TileKernel& k_;
  SymbolicRun::Scope scope_;
  std::map<Sym, SymbolicArray>& arrays_;
  std::map<Sym, SymbolicArray> tiles_;
  std::map<Sym, std::pair<int64_t, int64_t>> range_;
};

std::map<Sym, SymbolicArray> SymbolicRun::run(const TileProgram& t) {
  for (const Axis& a : t.axes)
    if (!sizes_.count(a.index.size())) sizes_[a.index.size()] = evaluate_integer(a.size, sizes_);
  Scope scope = params_;
  for (const HostScalar& s : t.scalars) scope[s.sym] = evaluate(s.value, scope, {});
  std::map<Sym, SymbolicArray> arrays;
  for (const Workspace& w : t.workspaces) arrays[w.sym];
  for (const TileKernel& k : t.kernels) {
    if (!k.chunk_tables.empty()) throw std::runtime_error("bounds that the host finds");
    SymbolicKernel(*this, t, k, scope, arrays).blocks();
  }
  return arrays;
}

/// Where a root was taken of what has none in a field, its square is not what it was: other images are tried.
SymbolicRun::Comparison SymbolicRun::compare(const TileProgram& t, bool images) {
  constexpr uint64_t attempts = 100;
  Comparison c;
  for (attempt_ = 0; attempt_ < attempts; ++attempt_) {
    known_.clear(), reduced_.clear();
    not_squares_ = false;
    c = compare_once(t, images);
    if (!c.by_image || !not_squares_) break;
  }
  return c;
}

SymbolicRun::Comparison SymbolicRun::compare_once(const TileProgram& t, bool images) {
  Comparison c;
  std::map<Sym, SymbolicArray> arrays;
  try {
    arrays = run(t);
  } catch (const std::exception& e) {
    c.difference = e.what();
    return c;
  }
  for (const Output& o : program_.outputs) {
    const std::vector<Sym> axes = o.axes();
    int64_t elements = 1;
    for (Sym a : axes) elements *= sizes_.at(a.size());
    const SymbolicArray& array = arrays[o.sym];
    if (int64_t(array.size()) != elements) {
      c.difference = fmt::format("{} of {} elements of {} are stored", array.size(), elements, o.sym.name());
      return c;
    }
    for (const auto& [at, got] : array) {
      const SymbolicValue want = defined(o, at);
      ++c.elements;
      const bool alike = got.value == want.value || (std::isnan(got.value) && std::isnan(want.value)) ||
                         std::fabs(got.value - want.value) <= 1e-9 * (1 + std::fabs(want.value));
      const bool same = !images || !std::isfinite(want.value) || got.image == want.image;
      if (!alike || !same) {
        c.by_image = alike;
        c.difference = fmt::format("{}[{}] is {} in place of {}{}", o.sym.name(), fmt::join(at, ", "),
                                   got.value, want.value, alike ? ", equal at this point only" : "");
        return c;
      }
    }
  }
  return c;
}

}  // namespace tilewright::testing
