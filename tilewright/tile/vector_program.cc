#include "tilewright/tile/vector_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "tilewright/program/compared.h"
#include "tilewright/program/failures.h"

namespace tilewright::interpreter {

struct VectorProgram::Compiler {
  VectorProgram& out;
  Sym strip;
  const std::map<Sym, int>& slots;
  const std::map<Sym, int>& tile_of;
  const std::vector<bool>& tile_is_integer;
  const std::vector<bool>& tile_has_strip;
  bool wide;
  /// Values are shared where the same elements are asked for: under the same mask.
  std::map<std::pair<Expr, int>, int> done;

  int fresh(bool uniform, bool integer) {
    size_t offset = out.values_.size();
    out.values_.resize(offset + size_t(uniform ? 1 : strip_length));
    out.registers_.push_back({uniform, integer, offset});
    return int(out.registers_.size()) - 1;
  }
  bool uniform(int r) const { return r < 0 || out.registers_[size_t(r)].uniform; }
  bool integer(int r) const { return out.registers_[size_t(r)].integer; }

  int emit(Instruction i, bool is_integer) {
    bool is_uniform = uniform(i.a) && uniform(i.b) && uniform(i.c);
    i.dst = fresh(is_uniform, is_integer);
    i.round = !wide && !is_integer;
    out.code_.push_back(std::move(i));
    return out.code_.back().dst;
  }
  int operate(Op op, int a, int b, int c, bool is_integer, Expr source, int mask = -1) {
    Instruction i;
    i.op = op, i.a = a, i.b = b, i.c = c, i.mask = mask, i.source = source;
    return emit(std::move(i), is_integer);
  }
  int conjunction(int mask, int condition) {
    return mask < 0 ? condition : operate(Op::And, mask, condition, -1, true, {});
  }

  int value(Expr e, int mask) {
    auto key = std::make_pair(e, mask);
    if (auto it = done.find(key); it != done.end()) return it->second;
    int r = compute(e, mask);
    done[key] = r;
    return r;
  }

  int leaf(Op op, bool is_uniform, bool is_integer, double number, int index) {
    Instruction i;
    i.op = op, i.number = number, i.index = index;
    i.dst = fresh(is_uniform, is_integer);
    i.round = !wide && !is_integer;
    out.code_.push_back(i);
    return i.dst;
  }

  bool whole = false;  ///< inside of a whole value (program/compared.h)

  /// A product that goes into a sum: its last rounding is left out, as a fused multiply-add does, but not inside of whole values.
  int term(Expr e, int mask) {
    if (whole || !e.is(Op::Mul) || e.args().size() < 2 || wide) return value(e, mask);
    int left =
        value(e.args().size() == 2 ? e.arg(0) : make(Op::Mul, {e.args().begin(), e.args().end() - 1}), mask);
    int right = value(e.args().back(), mask);
    if (integer(left) && integer(right)) return value(e, mask);
    int r = operate(Op::Mul, left, right, -1, false, e);
    out.code_.back().round = false;
    return r;
  }

  int compute(Expr e, int mask) {
    switch (e.op()) {
      case Op::Constant: return leaf(Op::Constant, true, e.rational()->is_integer(), *e.number(), -1);
      case Op::Real: return leaf(Op::Constant, true, false, *e.number(), -1);
      case Op::Symbol: {
        Sym s = e->sym;
        if (s == strip) return leaf(Op::Symbol, false, true, 0, -1);
        auto it = slots.find(s);
        TW_CHECK(it != slots.end(), "unbound symbol in a tile program: " + s.name());
        return leaf(Op::Symbol, true, s.info().integer, 0, it->second);
      }
      case Op::Read: {
        auto it = tile_of.find(e->sym);
        TW_CHECK(it != tile_of.end(), "read of an unknown tile: " + e->sym.name());
        auto known = std::find(out.tiles_.begin(), out.tiles_.end(), it->second);
        int position = int(known - out.tiles_.begin());
        if (known == out.tiles_.end()) out.tiles_.push_back(it->second);
        size_t tile = size_t(it->second);
        return leaf(Op::Read, !tile_has_strip[tile], tile_is_integer[tile], 0, position);
      }
      case Op::Select: {
        int condition = value(e.arg(0), mask);
        int inverse = operate(Op::Not, condition, -1, -1, true, e);
        int a = value(e.arg(1), conjunction(mask, condition));
        int b = value(e.arg(2), conjunction(mask, inverse));
        return operate(Op::Select, condition, a, b, integer(a) && integer(b), e);
      }
      case Op::And:
      case Op::Or: {
        if (e.args().empty()) return leaf(Op::Constant, true, true, e.is(Op::And) ? 1 : 0, -1);
        // Canonical forms sort the operands: what may fail is needed where all others leave the value open.
        std::vector<Expr> args = e.args();
        std::stable_partition(args.begin(), args.end(), [](Expr a) { return zero_divisions(a).empty(); });
        int result = value(args[0], mask);
        for (size_t i = 1; i < args.size(); ++i) {
          int open = e.is(Op::And) ? result : operate(Op::Not, result, -1, -1, true, e);
          int next = value(args[i], conjunction(mask, open));
          result = operate(e.op(), result, next, -1, true, e);
        }
        return result;
      }
      case Op::Add:
      case Op::Mul:
      case Op::Max:
      case Op::Min: {
        if (e.args().empty()) {
          double identity = e.is(Op::Add) ? 0 : e.is(Op::Mul) ? 1 : e.is(Op::Max) ? -INFINITY : INFINITY;
          return leaf(Op::Constant, true, std::isfinite(identity), identity, -1);
        }
        int result = e.is(Op::Add) && e.args().size() > 1 ? term(e.arg(0), mask) : value(e.arg(0), mask);
        for (size_t i = 1; i < e.args().size(); ++i) {
          // One product of each addition is fused.
          const bool fused = e.is(Op::Add) && !(i == 1 && e.arg(0).is(Op::Mul));
          int next = fused ? term(e.arg(i), mask) : value(e.arg(i), mask);
          result = operate(e.op(), result, next, -1, integer(result) && integer(next), e);
        }
        return result;
      }
      case Op::Reduce:
      case Op::RangeSum: fail_check("no reduction inside an expression", __FILE__, __LINE__, to_string(e));
      case Op::Cast: {
        Instruction i;
        const bool outside = std::exchange(whole, whole || is_whole(e));
        i.op = Op::Cast, i.dtype = e->dtype, i.a = value(e.arg(0), mask), i.source = e;
        whole = outside;
        return emit(std::move(i), !is_float(e->dtype));
      }
      default: break;
    }
    const bool sub = e.is(Op::Sub);
    int a = sub ? term(e.arg(0), mask) : value(e.arg(0), mask);
    int b = e.args().size() < 2            ? -1
            : sub && !e.arg(0).is(Op::Mul) ? term(e.arg(1), mask)
                                           : value(e.arg(1), mask);
    bool is_integer = false;
    switch (e.op()) {
      case Op::Sub: is_integer = integer(a) && integer(b); break;
      case Op::Neg:
      case Op::Abs:
      case Op::Sign: is_integer = integer(a); break;
      case Op::Lt:
      case Op::Le:
      case Op::Eq:
      case Op::Ne:
      case Op::Not:
      case Op::FloorDiv:
      case Op::Mod: is_integer = true; break;
      default: break;
    }
    return operate(e.op(), a, b, -1, is_integer, e, mask);
  }
};

VectorProgram::VectorProgram(Expr e, Sym strip, const std::map<Sym, int>& slots,
                             const std::map<Sym, int>& tile_of, const std::vector<bool>& tile_is_integer,
                             const std::vector<bool>& tile_has_strip, bool wide) {
  Compiler c{*this, strip, slots, tile_of, tile_is_integer, tile_has_strip, wide, {}};
  result_ = c.value(e, -1);
}

const double* VectorProgram::run(const double* scalars, const std::vector<Source>& sources, int64_t first,
                                 int64_t n) {
  for (const Instruction& i : code_) execute(i, scalars, sources, first, n);
  return values_.data() + registers_[size_t(result_)].offset;
}

namespace {

double floor_quotient(double a, double b) {
  int64_t x = int64_t(a), y = int64_t(b), q = x / y;
  return double(q - ((x % y != 0) && ((x < 0) != (y < 0))));
}
double remainder_of(double a, double b) { return a - floor_quotient(a, b) * b; }

}  // namespace

void VectorProgram::execute(const Instruction& i, const double* scalars, const std::vector<Source>& sources,
                            int64_t first, int64_t n) {
  const Register& dst = registers_[size_t(i.dst)];
  double* out = values_.data() + dst.offset;
  int64_t count = dst.uniform ? 1 : n;
  auto operand = [&](int r) { return r < 0 ? nullptr : values_.data() + registers_[size_t(r)].offset; };
  auto step = [&](int r) -> int64_t { return r < 0 || registers_[size_t(r)].uniform ? 0 : 1; };
  const double *a = operand(i.a), *b = operand(i.b), *c = operand(i.c);
  const int64_t sa = step(i.a), sb = step(i.b), sc = step(i.c);
  auto unary = [&](auto f) {
    for (int64_t k = 0; k < count; ++k) out[k] = f(a[k * sa]);
  };
  auto binary = [&](auto f) {
    for (int64_t k = 0; k < count; ++k) out[k] = f(a[k * sa], b[k * sb]);
  };
  switch (i.op) {
    case Op::Constant:
    case Op::Real: out[0] = i.number; break;
    case Op::Symbol:
      if (i.index >= 0)
        out[0] = scalars[i.index];
      else
        for (int64_t k = 0; k < count; ++k) out[k] = double(first + k);
      break;
    case Op::Read: {
      const Source& s = sources[size_t(i.index)];
      if (s.wide)
        for (int64_t k = 0; k < count; ++k) out[k] = s.wide[k * s.stride];
      else
        for (int64_t k = 0; k < count; ++k) out[k] = double(s.single[k * s.stride]);
      break;
    }
    case Op::Add: binary([](double x, double y) { return x + y; }); break;
    case Op::Sub: binary([](double x, double y) { return x - y; }); break;
    case Op::Mul: binary([](double x, double y) { return x * y; }); break;
    case Op::Div: binary([](double x, double y) { return x / y; }); break;
    case Op::Neg: unary([](double x) { return -x; }); break;
    case Op::Pow: binary([](double x, double y) { return std::pow(x, y); }); break;
    case Op::Exp: unary([](double x) { return std::exp(x); }); break;
    case Op::Exp2: unary([](double x) { return std::exp2(x); }); break;
    case Op::Log: unary([](double x) { return std::log(x); }); break;
    case Op::Log2: unary([](double x) { return std::log2(x); }); break;
    case Op::Sqrt: unary([](double x) { return std::sqrt(x); }); break;
    case Op::Rsqrt: unary([](double x) { return 1 / std::sqrt(x); }); break;
    case Op::Tanh: unary([](double x) { return std::tanh(x); }); break;
    case Op::Sigmoid: unary([](double x) { return 1 / (1 + std::exp(-x)); }); break;
    case Op::Erf: unary([](double x) { return std::erf(x); }); break;
    case Op::Abs: unary([](double x) { return std::fabs(x); }); break;
    case Op::Floor: unary([](double x) { return std::floor(x); }); break;
    case Op::Round: unary([](double x) { return std::nearbyint(x); }); break;
    case Op::Sign: unary([](double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : x; }); break;
    case Op::Max: binary([](double x, double y) { return std::isnan(x) || x > y ? x : y; }); break;
    case Op::Min: binary([](double x, double y) { return std::isnan(x) || x < y ? x : y; }); break;
    case Op::Select:
      for (int64_t k = 0; k < count; ++k) out[k] = a[k * sa] != 0 ? b[k * sb] : c[k * sc];
      break;
    case Op::Lt: binary([](double x, double y) { return double(x < y); }); break;
    case Op::Le: binary([](double x, double y) { return double(x <= y); }); break;
    case Op::Eq: binary([](double x, double y) { return double(x == y); }); break;
    case Op::Ne: binary([](double x, double y) { return double(x != y); }); break;
    case Op::And: binary([](double x, double y) { return double(x != 0 && y != 0); }); break;
    case Op::Or: binary([](double x, double y) { return double(x != 0 || y != 0); }); break;
    case Op::Not: unary([](double x) { return double(x == 0); }); break;
    case Op::FloorDiv:
    case Op::Mod: {
      const double* mask = operand(i.mask);
      const int64_t sm = step(i.mask);
      for (int64_t k = 0; k < count; ++k) {
        double y = b[k * sb];
        if (y == 0) {
          // A uniform quotient under a varying mask counts when any element needs it.
          bool needed = !mask;
          for (int64_t j = 0; mask && j < (dst.uniform && sm ? n : 1); ++j)
            needed = needed || mask[(k + j) * sm] != 0;
          if (needed) throw DividedByZero{i.source};
          out[k] = 0;
        } else {
          out[k] = i.op == Op::FloorDiv ? floor_quotient(a[k * sa], y) : remainder_of(a[k * sa], y);
        }
      }
      break;
    }
    case Op::Cast: unary([t = i.dtype](double x) { return round_to(t, x); }); break;
    case Op::Reduce:
    case Op::RangeSum: break;  // refused when compiled
  }
  if (i.round)
    for (int64_t k = 0; k < count; ++k) out[k] = double(float(out[k]));
}

}  // namespace tilewright::interpreter
