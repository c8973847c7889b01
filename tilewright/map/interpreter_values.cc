#include "tilewright/map/interpreter_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "tilewright/program/failures.h"
#include "tilewright/support/error.h"

namespace tilewright::emulation {

int Symbols::slot(Sym s) { return index_.emplace(s, int(index_.size())).first->second; }

void Scalars::set(int slot, double x) {
  if (slot >= int(value.size())) {
    value.resize(size_t(slot) + 1, 0);
    known.resize(size_t(slot) + 1, 0);
  }
  value[slot] = x;
  known[slot] = 1;
}

PointProgram::PointProgram(const std::vector<Expr>& values, const Points& points, bool wide,
                           const Context& context)
    : points_(points), tag_(context.tag), wide_(wide), width_(std::clamp<size_t>(points.size(), 1, lanes)) {
  for (Expr e : values) outputs_.push_back(compile(e, context));
  if (!checks_.empty()) find_needs(values);
  registers_.assign(uniform_.size() * width_, 0);
}

int PointProgram::emit(Instruction i, bool uniform, bool integer) {
  i.dst = int(uniform_.size());
  i.round = i.kind != Instruction::Kind::Coordinate && !wide_ && !integer;
  uniform_.push_back(uniform);
  integer_.push_back(integer);
  (uniform ? once_ : each_).push_back(i);
  return i.dst;
}

int PointProgram::apply(Op op, int a, int b, int c, bool integer) {
  auto same = [&](int r) { return r < 0 || uniform_[r]; };
  return emit({.op = op, .a = a, .b = b, .c = c}, same(a) && same(b) && same(c), integer);
}

int PointProgram::add_check(Sym s) {
  checks_.push_back({.sym = s, .bad = std::vector<uint8_t>(width_, 0)});
  return int(checks_.size()) - 1;
}

int PointProgram::compile(Expr e, const Context& context) {
  if (auto it = compiled_.find(e); it != compiled_.end()) return it->second;
  std::vector<int> args;
  bool is_tile = e.is(Op::Read) && !context.array(e->sym);
  if (!is_tile)
    for (Expr a : e.args()) args.push_back(compile(a, context));
  auto arg = [&](size_t k) { return k < args.size() ? args[k] : -1; };
  auto integers = [&](size_t from) {
    return std::all_of(args.begin() + long(from), args.end(), [&](int r) { return integer_[r]; });
  };
  int r = -1;
  switch (e.op()) {
    case Op::Constant:
    case Op::Real:
      r = emit({.kind = Instruction::Kind::Constant, .constant = *e.number()}, true,
               e.rational() && e.rational()->is_integer());
      break;
    case Op::Symbol: {
      auto axis = std::find(points_.axes.begin(), points_.axes.end(), e->sym);
      if (axis != points_.axes.end()) {
        r = emit({.kind = Instruction::Kind::Coordinate, .number = int(axis - points_.axes.begin())}, false,
                 true);
        break;
      }
      scalar_slots_.push_back(context.symbols.slot(e->sym));
      scalar_names_.push_back(e->sym.name());
      r = emit({.kind = Instruction::Kind::Scalar, .number = int(scalar_slots_.size()) - 1}, true,
               e->sym.info().integer);
      break;
    }
    case Op::Read: {
      int check = add_check(e->sym);
      check_of_[e] = check;
      if (is_tile) {
        tiles_.push_back(context.tile(e));
        r = emit({.kind = Instruction::Kind::Tile, .a = -1, .b = check, .number = int(tiles_.size()) - 1},
                 false, tiles_.back().integer);
        break;
      }
      Array* array = context.array(e->sym);
      TW_CHECK(array->sizes.size() == args.size(),
               fmt::format("{} has {} axes", to_string(e), array->sizes.size()));
      arrays_.push_back({array, args});
      bool uniform = std::all_of(args.begin(), args.end(), [&](int a) { return uniform_[a]; });
      r = emit({.kind = Instruction::Kind::Array, .b = check, .number = int(arrays_.size()) - 1}, uniform,
               !is_float(array->dtype));
      break;
    }
    case Op::Reduce:
    case Op::RangeSum: TW_CHECK(false, fmt::format("a mapped op holds a nested reduction: {}", to_string(e)));
    case Op::Add:
    case Op::Mul:
    case Op::Max:
    case Op::Min:
    case Op::And:
    case Op::Or: {
      bool logical = e.is(Op::And) || e.is(Op::Or);
      if (args.empty()) {
        double identity = e.is(Op::Max)                    ? -INFINITY
                          : e.is(Op::Min)                  ? INFINITY
                          : e.is(Op::Mul) || e.is(Op::And) ? 1
                                                           : 0;
        r = emit({.kind = Instruction::Kind::Constant, .constant = identity}, true, std::isfinite(identity));
        break;
      }
      r = args[0];
      for (size_t k = 1; k < args.size(); ++k)
        r = apply(e.op(), r, args[k], -1, logical || (integer_[r] && integer_[args[k]]));
      break;
    }
    case Op::Cast: {
      bool integer = !is_float(e->dtype);
      r = emit({.op = Op::Cast, .a = args[0], .dtype = e->dtype}, uniform_[args[0]], integer);
      break;
    }
    case Op::Select: r = apply(Op::Select, args[0], args[1], args[2], integers(1)); break;
    case Op::FloorDiv:
    case Op::Mod: {
      int check = add_check(Sym());
      checks_.back().kind = BadRead::Kind::ZeroDivisor;
      checks_.back().division = e;
      check_of_[e] = check;
      r = apply(e.op(), arg(0), arg(1), -1, true);
      (uniform_[r] ? once_ : each_).back().number = check;
      break;
    }
    case Op::Lt:
    case Op::Le:
    case Op::Eq:
    case Op::Ne:
    case Op::Not: r = apply(e.op(), arg(0), arg(1), -1, true); break;
    case Op::Sub:
    case Op::Neg:
    case Op::Abs:
    case Op::Sign: r = apply(e.op(), arg(0), arg(1), -1, integers(0)); break;
    default: r = apply(e.op(), arg(0), arg(1), -1, false); break;
  }
  order_.push_back(e);
  compiled_[e] = r;
  return r;
}

int PointProgram::mask(Op op, int a, int b) {
  int dst = int(uniform_.size());
  uniform_.push_back(false);
  integer_.push_back(true);
  masks_.push_back({.op = op, .dst = dst, .a = a, .b = b});
  return dst;
}

/// For every check the condition under which its value is used: false in branches of a Select that are not taken and in operands
/// of a connective that is decided before them.
void PointProgram::find_needs(const std::vector<Expr>& values) {
  std::unordered_map<Expr, int> need;
  auto require = [&](Expr e, int condition) {
    auto [it, fresh] = need.emplace(e, condition);
    if (fresh || it->second == always) return;
    it->second = condition == always ? always : mask(Op::Or, it->second, condition);
  };
  auto both = [&](int a, int b) { return a == always ? b : mask(Op::And, a, b); };
  for (Expr e : values) require(e, always);
  for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
    Expr e = *it;
    auto found = need.find(e);
    if (found == need.end()) continue;
    int here = found->second;
    if (auto check = check_of_.find(e); check != check_of_.end()) checks_[check->second].need = here;
    if (e.is(Op::Select)) {
      int condition = compiled_.at(e.arg(0));
      require(e.arg(0), here);
      require(e.arg(1), both(here, condition));
      require(e.arg(2), both(here, mask(Op::Not, condition, -1)));
    } else if (e.is(Op::And) || e.is(Op::Or)) {
      // Canonical forms sort the operands: what may fail is needed where all others leave the value open.
      std::vector<Expr> args = e.args();
      std::stable_partition(args.begin(), args.end(), [](Expr a) { return zero_divisions(a).empty(); });
      int open = here;
      for (Expr a : args) {
        require(a, open);
        int value = compiled_.at(a);
        open = both(open, e.is(Op::And) ? value : mask(Op::Not, value, -1));
      }
    } else {
      for (Expr a : e.args())
        if (compiled_.contains(a)) require(a, here);
    }
  }
}

void PointProgram::begin(const Scalars& scalars, std::vector<double> origins) {
  scalars_ = &scalars;
  origins_ = std::move(origins);
  for (Check& c : checks_) {
    if (c.any) std::fill(c.bad.begin(), c.bad.end(), 0);
    c.any = false;
  }
  for (const Instruction& i : once_) execute(i, 0, width_);
}

std::optional<BadRead> PointProgram::run(size_t first, size_t n, const uint8_t* active,
                                         const std::function<bool(size_t)>& inside) {
  for (const Instruction& i : each_) execute(i, first, n);
  bool any = std::any_of(checks_.begin(), checks_.end(), [](const Check& c) { return c.any; });
  if (!any) return std::nullopt;
  for (const Instruction& i : masks_) execute(i, first, n);
  for (Check& c : checks_) {
    if (!c.any) continue;
    for (size_t k = 0; k < n; ++k)
      if (c.bad[k] && (!active || active[k]) && (c.need == always || reg(c.need)[k] != 0) &&
          (c.kind != BadRead::Kind::ZeroDivisor || !inside || inside(first + k)))
        return BadRead{c.kind, c.sym, first + k, c.division};
  }
  for (const Instruction& i : each_) {  // checks of `once_` stay for the next batch
    bool checked = i.kind == Instruction::Kind::Tile || i.kind == Instruction::Kind::Array ||
                   i.op == Op::FloorDiv || i.op == Op::Mod;
    if (!checked) continue;
    Check& c = checks_[i.kind == Instruction::Kind::Apply ? i.number : i.b];
    std::fill(c.bad.begin(), c.bad.end(), 0);
    c.any = false;
  }
  return std::nullopt;
}

void PointProgram::read_array(const Instruction& i, size_t n) {
  const ArrayRead& read = arrays_[i.number];
  Check& check = checks_[i.b];
  double* out = reg(i.dst);
  for (size_t k = 0; k < n; ++k) {
    int64_t offset = 0;
    bool inside = true;
    for (size_t d = 0; d < read.index.size(); ++d) {
      double x = reg(read.index[d])[k];
      inside = inside && x >= 0 && x < double(read.array->sizes[d]);
      if (inside) offset += int64_t(x) * read.array->strides[d];
    }
    auto refuse = [&](BadRead::Kind kind) {
      out[k] = 0;
      check.bad[k] = 1;
      check.any = true;
      check.kind = kind;
    };
    if (!inside) {
      refuse(BadRead::Kind::Outside);
      continue;
    }
    if (!read.array->writer.empty()) {
      const int64_t writer =
          std::atomic_ref(const_cast<int64_t&>(read.array->writer[offset])).load(std::memory_order_relaxed);
      if (writer != tag_ && (writer == 0 || writer >> 32 == tag_ >> 32)) {
        refuse(writer == 0 ? BadRead::Kind::Unwritten : BadRead::Kind::Foreign);
        continue;
      }
    }
    out[k] = load_element(read.array->dtype, read.array->data, offset);
  }
}

namespace {

double floor_quotient(double a, double b) {
  int64_t x = int64_t(a), y = int64_t(b), q = x / y;
  return double(q - ((x % y != 0) && ((x < 0) != (y < 0))));
}

template <class F>
void unary(double* out, const double* a, size_t n, F f) {
  for (size_t k = 0; k < n; ++k) out[k] = f(a[k]);
}

template <class F>
void binary(double* out, const double* a, const double* b, size_t n, F f) {
  for (size_t k = 0; k < n; ++k) out[k] = f(a[k], b[k]);
}

}  // namespace

void PointProgram::execute(const Instruction& i, size_t first, size_t n) {
  double* out = reg(i.dst);
  const double* a = i.a >= 0 ? reg(i.a) : nullptr;
  const double* b = i.b >= 0 && i.kind == Instruction::Kind::Apply ? reg(i.b) : nullptr;
  switch (i.kind) {
    case Instruction::Kind::Constant: std::fill_n(out, n, i.constant); break;
    case Instruction::Kind::Scalar: {
      int slot = scalar_slots_[i.number];
      TW_CHECK(scalars_->has(slot), fmt::format("{} has no value here", scalar_names_[i.number]));
      std::fill_n(out, n, scalars_->value[slot]);
      break;
    }
    case Instruction::Kind::Coordinate: {
      const int32_t* c = points_.coords[i.number].data() + first;
      double origin = origins_[i.number];
      for (size_t k = 0; k < n; ++k) out[k] = origin + c[k];
      break;
    }
    case Instruction::Kind::Tile: {
      const TileRead& t = tiles_[i.number];
      const int32_t* index = t.index.data() + first;
      bool any = false;
      for (size_t k = 0; k < n; ++k) {
        out[k] = t.base[index[k]];
        any |= is_unwritten(out[k]);
      }
      if (any) {
        Check& check = checks_[i.b];
        check.any = true;
        check.kind = BadRead::Kind::Unwritten;
        for (size_t k = 0; k < n; ++k) check.bad[k] = is_unwritten(out[k]);
      }
      return;  // held as rounded
    }
    case Instruction::Kind::Array: read_array(i, n); break;
    case Instruction::Kind::Apply:
      switch (i.op) {
        case Op::Add: binary(out, a, b, n, [](double x, double y) { return x + y; }); break;
        case Op::Sub: binary(out, a, b, n, [](double x, double y) { return x - y; }); break;
        case Op::Mul: binary(out, a, b, n, [](double x, double y) { return x * y; }); break;
        case Op::Div: binary(out, a, b, n, [](double x, double y) { return x / y; }); break;
        case Op::Neg: unary(out, a, n, [](double x) { return -x; }); break;
        case Op::Pow: binary(out, a, b, n, [](double x, double y) { return std::pow(x, y); }); break;
        case Op::Exp: unary(out, a, n, [](double x) { return std::exp(x); }); break;
        case Op::Exp2: unary(out, a, n, [](double x) { return std::exp2(x); }); break;
        case Op::Log: unary(out, a, n, [](double x) { return std::log(x); }); break;
        case Op::Log2: unary(out, a, n, [](double x) { return std::log2(x); }); break;
        case Op::Sqrt: unary(out, a, n, [](double x) { return std::sqrt(x); }); break;
        case Op::Rsqrt: unary(out, a, n, [](double x) { return 1 / std::sqrt(x); }); break;
        case Op::Tanh: unary(out, a, n, [](double x) { return std::tanh(x); }); break;
        case Op::Sigmoid: unary(out, a, n, [](double x) { return 1 / (1 + std::exp(-x)); }); break;
        case Op::Erf: unary(out, a, n, [](double x) { return std::erf(x); }); break;
        case Op::Abs: unary(out, a, n, [](double x) { return std::fabs(x); }); break;
        case Op::Floor: unary(out, a, n, [](double x) { return std::floor(x); }); break;
        case Op::Round: unary(out, a, n, [](double x) { return std::nearbyint(x); }); break;
        case Op::Sign: unary(out, a, n, [](double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : x; }); break;
        case Op::Max:
          binary(out, a, b, n, [](double x, double y) { return std::isnan(x) || x > y ? x : y; });
          break;
        case Op::Min:
          binary(out, a, b, n, [](double x, double y) { return std::isnan(x) || x < y ? x : y; });
          break;
        case Op::Select: {
          const double* c = reg(i.c);
          for (size_t k = 0; k < n; ++k) out[k] = a[k] != 0 ? b[k] : c[k];
          break;
        }
        case Op::Lt: binary(out, a, b, n, [](double x, double y) { return double(x < y); }); break;
        case Op::Le: binary(out, a, b, n, [](double x, double y) { return double(x <= y); }); break;
        case Op::Eq: binary(out, a, b, n, [](double x, double y) { return double(x == y); }); break;
        case Op::Ne: binary(out, a, b, n, [](double x, double y) { return double(x != y); }); break;
        case Op::And:
          binary(out, a, b, n, [](double x, double y) { return double(x != 0 && y != 0); });
          break;
        case Op::Or: binary(out, a, b, n, [](double x, double y) { return double(x != 0 || y != 0); }); break;
        case Op::Not: unary(out, a, n, [](double x) { return double(x == 0); }); break;
        case Op::FloorDiv:
        case Op::Mod:
          for (size_t k = 0; k < n; ++k) {
            if (b[k] != 0) {
              double q = floor_quotient(a[k], b[k]);
              out[k] = i.op == Op::FloorDiv ? q : a[k] - q * b[k];
              continue;
            }
            out[k] = 0;
            checks_[i.number].bad[k] = 1;
            checks_[i.number].any = true;
          }
          break;
        case Op::Cast: unary(out, a, n, [t = i.dtype](double x) { return round_to(t, x); }); break;
        default: TW_CHECK(false, fmt::format("{} is no operation of a point", name(i.op)));
      }
      break;
  }
  if (i.round)
    for (size_t k = 0; k < n; ++k) out[k] = double(float(out[k]));
}

}  // namespace tilewright::emulation
