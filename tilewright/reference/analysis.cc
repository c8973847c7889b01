// What is known of an expression before it is evaluated: its kind, integer bounds, constant value, stride, and whether it can fail.
#include <algorithm>
#include <cmath>

#include "tilewright/reference/graph.h"

namespace tilewright::reference {
namespace {

int64_t clamp(__int128 x) { return int64_t(std::clamp<__int128>(x, IntegerRange::low, IntegerRange::high)); }

/// Saturating arithmetic: an unbounded end stays unbounded.
int64_t sum_ends(int64_t a, int64_t b) {
  if (a == IntegerRange::low || b == IntegerRange::low) return IntegerRange::low;
  if (a == IntegerRange::high || b == IntegerRange::high) return IntegerRange::high;
  return clamp(__int128(a) + b);
}

IntegerRange range_sum(IntegerRange a, IntegerRange b) {
  return {sum_ends(a.lo, b.lo), sum_ends(a.hi, b.hi)};
}
IntegerRange negate(IntegerRange a) { return {-a.hi, -a.lo}; }

IntegerRange multiply(IntegerRange a, IntegerRange b) {
  __int128 p[] = {__int128(a.lo) * b.lo, __int128(a.lo) * b.hi, __int128(a.hi) * b.lo, __int128(a.hi) * b.hi};
  return {clamp(*std::min_element(p, p + 4)), clamp(*std::max_element(p, p + 4))};
}

int64_t floor_div(int64_t a, int64_t b) { return a / b - ((a % b != 0) && ((a < 0) != (b < 0))); }

IntegerRange unite(IntegerRange a, IntegerRange b) { return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)}; }

double floor_mod(double a, double b) { return a - b * std::floor(a / b); }

}  // namespace

Kind kind_of(DType t) {
  return is_float(t) ? Kind::real : t == DType::boolean ? Kind::boolean : Kind::integer;
}

std::vector<Expr> reads_in(Expr e) {
  std::vector<Expr> found;
  std::unordered_map<Expr, bool> seen;
  std::function<void(Expr)> visit = [&](Expr x) {
    if (!seen.emplace(x, true).second) return;
    if (x.is(Op::Read)) found.push_back(x);
    for (Expr a : x.args()) visit(a);
  };
  visit(e);
  return found;
}

std::vector<Sym> Graph::index_symbols(Expr e, const std::vector<Sym>& order) {
  std::vector<Sym> free = free_symbols(e), result;
  auto take = [&](Sym s) {
    if (s.kind() == SymbolKind::Index && std::find(result.begin(), result.end(), s) == result.end())
      result.push_back(s);
  };
  for (Sym s : order)
    if (std::find(free.begin(), free.end(), s) != free.end()) take(s);
  for (Sym s : free) take(s);
  return result;
}

int64_t Graph::size_of(Sym index) const {
  auto it = sizes_.find(index.size());
  TW_CHECK(it != sizes_.end(), "axis " + index.name() + " has no size");
  return it->second;
}

Kind Graph::kind(Expr e) {
  auto known = kinds_.find(e);
  if (known != kinds_.end()) return known->second;
  auto arithmetic = [&](size_t first) {
    Kind k = Kind::integer;
    for (size_t a = first; a < e.args().size(); ++a)
      if (kind(e.arg(a)) == Kind::real) k = Kind::real;
    return k;
  };
  Kind k = Kind::real;
  switch (e.op()) {
    case Op::Constant: k = e->number.is_integer() ? Kind::integer : Kind::real; break;
    case Op::Symbol:
      switch (e->sym.kind()) {
        case SymbolKind::Index:
        case SymbolKind::Size: k = Kind::integer; break;
        default: k = e->sym.info().integer ? Kind::integer : Kind::real; break;
      }
      for (const Param& p : program_.params)
        if (p.sym == e->sym) k = kind_of(p.dtype);
      break;
    case Op::Read: k = tables[size_t(table_of(e->sym))].kind; break;
    case Op::Add:
    case Op::Sub:
    case Op::Mul:
    case Op::Neg:
    case Op::Abs:
    case Op::Sign:
    case Op::Floor:
    case Op::Round:
    case Op::Max:
    case Op::Min: k = arithmetic(0); break;
    case Op::Pow: {
      auto power = constant(e.arg(1));
      if (power && *power >= 0) k = arithmetic(0);
      break;
    }
    case Op::Real:
    case Op::Div:
    case Op::Exp:
    case Op::Exp2:
    case Op::Log:
    case Op::Log2:
    case Op::Sqrt:
    case Op::Rsqrt:
    case Op::Tanh:
    case Op::Sigmoid:
    case Op::Erf: k = Kind::real; break;
    case Op::Select:
      k = kind(e.arg(1)) == Kind::boolean && kind(e.arg(2)) == Kind::boolean ? Kind::boolean : arithmetic(1);
      break;
    case Op::Lt:
    case Op::Le:
    case Op::Eq:
    case Op::Ne:
    case Op::And:
    case Op::Or:
    case Op::Not: k = Kind::boolean; break;
    case Op::FloorDiv:
    case Op::Mod:
    case Op::RangeSum: k = Kind::integer; break;
    case Op::Cast: k = kind_of(e->dtype); break;
    case Op::Reduce:
      switch (e->reducer) {
        case Reducer::Sum:
        case Reducer::Prod:
        case Reducer::Max:
        case Reducer::Min: k = arithmetic(0); break;
        case Reducer::Any:
        case Reducer::All: k = Kind::boolean; break;
        case Reducer::Argmax:
        case Reducer::Argmin: k = Kind::integer; break;
        case Reducer::Mean:
        case Reducer::Var:
        case Reducer::Softmax:
        case Reducer::Logsumexp:
        case Reducer::Topk:
        case Reducer::Argtopk: TW_CHECK(false, "the program is not elaborated");
      }
      break;
  }
  kinds_.emplace(e, k);
  return k;
}

IntegerRange Graph::range(Expr e) {
  auto known = ranges_.find(e);
  if (known != ranges_.end()) return known->second;
  IntegerRange r = range_of(e);
  ranges_.emplace(e, r);
  return r;
}

IntegerRange Graph::range_of(Expr e) {
  if (auto value = constant(e)) {
    if (std::fabs(*value) < 0x1p53) return {int64_t(std::floor(*value)), int64_t(std::ceil(*value))};
    return {};
  }
  if (kind(e) == Kind::boolean) return {0, 1};
  if (kind(e) == Kind::real) return {};
  auto fold = [&](auto f) {
    IntegerRange r = range(e.arg(0));
    for (size_t k = 1; k < e.args().size(); ++k) r = f(r, range(e.arg(k)));
    return r;
  };
  switch (e.op()) {
    case Op::Symbol:
      if (e->sym.kind() == SymbolKind::Index) return {0, std::max<int64_t>(0, size_of(e->sym) - 1)};
      return {};
    case Op::Read: return tables[size_t(table_of(e->sym))].range;
    case Op::Add: return fold(range_sum);
    case Op::Sub: return fold([](IntegerRange a, IntegerRange b) { return range_sum(a, negate(b)); });
    case Op::Mul: return fold(multiply);
    case Op::Neg: return negate(range(e.arg(0)));
    case Op::Max:
      return fold([](IntegerRange a, IntegerRange b) {
        return IntegerRange{std::max(a.lo, b.lo), std::max(a.hi, b.hi)};
      });
    case Op::Min:
      return fold([](IntegerRange a, IntegerRange b) {
        return IntegerRange{std::min(a.lo, b.lo), std::min(a.hi, b.hi)};
      });
    case Op::Abs: {
      IntegerRange a = range(e.arg(0));
      return {a.lo > 0 ? a.lo : a.hi < 0 ? -a.hi : 0, std::max(a.hi, -a.lo)};
    }
    case Op::Sign: return {-1, 1};
    case Op::Floor:
    case Op::Round: return range(e.arg(0));
    case Op::Select: return unite(range(e.arg(1)), range(e.arg(2)));
    case Op::FloorDiv: {
      IntegerRange a = range(e.arg(0)), b = range(e.arg(1));
      if (b.lo <= 0) return {};
      IntegerRange r{std::min(floor_div(a.lo, b.lo), floor_div(a.lo, b.hi)),
                     std::max(floor_div(a.hi, b.lo), floor_div(a.hi, b.hi))};
      if (a.lo == IntegerRange::low) r.lo = IntegerRange::low;
      if (a.hi == IntegerRange::high) r.hi = IntegerRange::high;
      return r;
    }
    case Op::Mod: {
      IntegerRange a = range(e.arg(0)), b = range(e.arg(1));
      if (b.lo <= 0) return {};
      if (a.lo >= 0 && a.hi < b.lo) return a;
      return {0, a.lo >= 0 ? std::min(a.hi, b.hi - 1) : b.hi - 1};
    }
    case Op::Cast: {
      if (kind(e.arg(0)) == Kind::real) return {};
      IntegerRange a = range(e.arg(0));
      if (e->dtype == DType::i64) return a;
      const int64_t most = e->dtype == DType::i32 ? INT32_MAX : INT8_MAX;
      return {std::clamp(a.lo, -most - 1, most), std::clamp(a.hi, -most - 1, most)};
    }
    default: return {};
  }
}

std::optional<double> Graph::constant(Expr e) {
  auto known = constants_.find(e);
  if (known != constants_.end()) return known->second;
  std::optional<double> value = constant_of(e);
  constants_.emplace(e, value);
  return value;
}

std::optional<double> Graph::constant_of(Expr e) {
  switch (e.op()) {
    case Op::Constant: return e->number.value();
    case Op::Real: return e->real;
    case Op::Symbol:
      if (e->sym.kind() == SymbolKind::Size) {
        auto it = sizes_.find(e->sym);
        if (it != sizes_.end()) return double(it->second);
      } else if (e->sym.kind() == SymbolKind::Param) {
        auto it = params_.find(e->sym);
        if (it != params_.end()) return it->second;
      }
      return std::nullopt;
    case Op::Read:
    case Op::Reduce:
    case Op::RangeSum: return std::nullopt;
    default: break;
  }
  if (e.is(Op::Select)) {
    auto c = constant(e.arg(0));
    return c ? constant(e.arg(*c != 0 ? 1 : 2)) : std::nullopt;
  }
  std::vector<double> x;
  for (Expr a : e.args()) {
    auto value = constant(a);
    if (!value) return std::nullopt;
    x.push_back(*value);
  }
  auto fold = [&](auto f) {
    double r = x[0];
    for (size_t k = 1; k < x.size(); ++k) r = f(r, x[k]);
    return r;
  };
  switch (e.op()) {
    case Op::Add: return fold([](double a, double b) { return a + b; });
    case Op::Sub: return x[0] - x[1];
    case Op::Mul: return fold([](double a, double b) { return a * b; });
    case Op::Div: return x[0] / x[1];
    case Op::Neg: return -x[0];
    case Op::Pow: return std::pow(x[0], x[1]);
    case Op::Exp: return std::exp(x[0]);
    case Op::Exp2: return std::exp2(x[0]);
    case Op::Log: return std::log(x[0]);
    case Op::Log2: return std::log2(x[0]);
    case Op::Sqrt: return std::sqrt(x[0]);
    case Op::Rsqrt: return 1 / std::sqrt(x[0]);
    case Op::Tanh: return std::tanh(x[0]);
    case Op::Sigmoid: return 1 / (1 + std::exp(-x[0]));
    case Op::Erf: return std::erf(x[0]);
    case Op::Abs: return std::fabs(x[0]);
    case Op::Floor: return std::floor(x[0]);
    case Op::Round: return std::nearbyint(x[0]);
    case Op::Sign: return x[0] > 0 ? 1 : x[0] < 0 ? -1 : x[0];
    case Op::Max: return fold([](double a, double b) { return a > b || a != a ? a : b; });
    case Op::Min: return fold([](double a, double b) { return a < b || a != a ? a : b; });
    case Op::Lt: return x[0] < x[1];
    case Op::Le: return x[0] <= x[1];
    case Op::Eq: return x[0] == x[1];
    case Op::Ne: return x[0] != x[1];
    case Op::And: return fold([](double a, double b) { return double(a != 0 && b != 0); });
    case Op::Or: return fold([](double a, double b) { return double(a != 0 || b != 0); });
    case Op::Not: return x[0] == 0;
    case Op::FloorDiv:
      if (x[1] == 0) return std::nullopt;
      return std::floor(x[0] / x[1]);
    case Op::Mod:
      if (x[1] == 0) return std::nullopt;
      return floor_mod(x[0], x[1]);
    case Op::Cast: return round_to(e->dtype, x[0]);
    default: return std::nullopt;
  }
}

std::optional<int64_t> Graph::coefficient(Expr e, Sym s) {
  if (!depends_on(e, s)) return 0;
  switch (e.op()) {
    case Op::Symbol: return 1;
    case Op::Add: {
      int64_t sum = 0;
      for (Expr a : e.args()) {
        auto c = coefficient(a, s);
        if (!c) return std::nullopt;
        sum += *c;
      }
      return sum;
    }
    case Op::Sub: {
      auto a = coefficient(e.arg(0), s), b = coefficient(e.arg(1), s);
      if (!a || !b) return std::nullopt;
      return *a - *b;
    }
    case Op::Neg: {
      auto a = coefficient(e.arg(0), s);
      if (!a) return std::nullopt;
      return -*a;
    }
    case Op::Mul: {
      int64_t product = 1;
      bool varies = false;
      for (Expr a : e.args()) {
        std::optional<int64_t> c;
        if (depends_on(a, s)) {
          if (varies) return std::nullopt;
          varies = true;
          c = coefficient(a, s);
        } else if (auto value = constant(a);
                   value && *value == std::floor(*value) && std::fabs(*value) < 0x1p40) {
          c = int64_t(*value);
        }
        if (!c || std::fabs(double(product) * double(*c)) > 0x1p52) return std::nullopt;
        product *= *c;
      }
      return product;
    }
    default: return std::nullopt;
  }
}

bool Graph::in_bounds(Expr read, int axis) {
  const Table& t = tables[size_t(table_of(read->sym))];
  for (size_t k = 0; k < t.sizes.size(); ++k) {
    if (axis >= 0 && int(k) != axis) continue;
    IntegerRange r = range(read.arg(k));
    if (kind(read.arg(k)) == Kind::real || r.lo < 0 || r.hi >= t.sizes[k]) return false;
  }
  return true;
}

bool Graph::can_fail(Expr e) {
  auto known = fails_.find(e);
  if (known != fails_.end()) return known->second;
  bool fails = false;
  if (!constant(e)) {
    if (e.is(Op::Read)) fails = tables[size_t(table_of(e->sym))].can_fail || !in_bounds(e);
    if (e.is(Op::FloorDiv) || e.is(Op::Mod)) {
      IntegerRange d = range(e.arg(1));
      fails = d.lo <= 0 && d.hi >= 0;
    }
    for (Expr a : e.args()) fails = fails || can_fail(a);
  }
  fails_.emplace(e, fails);
  return fails;
}

bool Graph::reads_computed(Expr e) {
  auto known = computed_.find(e);
  if (known != computed_.end()) return known->second;
  bool computed = e.is(Op::Read) && !tables[size_t(table_of(e->sym))].input;
  for (Expr a : e.args()) computed = computed || reads_computed(a);
  computed_.emplace(e, computed);
  return computed;
}

}  // namespace tilewright::reference
