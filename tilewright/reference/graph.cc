#include "tilewright/reference/graph.h"

#include <algorithm>
#include <cmath>

#include "tilewright/program/elaborate.h"

namespace tilewright::reference {
namespace {

/// Bodies of at most this many operations are recomputed where they are read.
constexpr double inline_weight = 3;
/// Parts of a reduction's body of at least this weight, used at least `split_reuse` times each, become tables.
constexpr double split_weight = 3, split_reuse = 8;
/// Computing one block of a table on demand should not cost more than this many operations for its neighbours' sake.
constexpr double block_operations = 32768;

bool is_f8(DType t) { return t == DType::f8e4m3 || t == DType::f8e5m2; }

Sym tensor_symbol(const std::string& name, Kind kind) {
  SymbolInfo info;
  info.name = name;
  info.kind = SymbolKind::Tensor;
  info.integer = kind != Kind::real;
  return Sym::fresh(info);
}

/// Splits where(c, x, identity) and where(c, identity, x) into a condition and a body, repeatedly.
std::pair<Expr, Expr> guard_and_body(Reducer r, Expr e) {
  Expr absent = r == Reducer::Argmax   ? -Expr::infinity()
                : r == Reducer::Argmin ? Expr::infinity()
                                       : identity(r);
  auto is_identity = [&](Expr x) {
    auto a = x.number(), b = absent.number();
    if (!a && x.is(Op::Neg) && x.arg(0).number()) a = -*x.arg(0).number();
    if (!b && absent.is(Op::Neg)) b = -*absent.arg(0).number();
    return x == absent || (a && b && *a == *b);
  };
  Expr guard;
  auto require = [&](Expr c) { guard = guard ? logical_and(guard, c) : c; };
  while (e.is(Op::Select)) {
    if (is_identity(e.arg(2))) {
      require(e.arg(0));
      e = e.arg(1);
    } else if (is_identity(e.arg(1))) {
      require(logical_not(e.arg(0)));
      e = e.arg(2);
    } else {
      break;
    }
  }
  return {guard, e};
}

/// Applies f to the factors of a product: through Mul, Neg and the numerators of Div.
Expr map_factors(Expr e, const std::function<Expr(Expr)>& f) {
  if (e.is(Op::Mul)) {
    std::vector<Expr> args;
    for (Expr a : e.args()) args.push_back(map_factors(a, f));
    return with_args(e, std::move(args));
  }
  if (e.is(Op::Neg)) return with_args(e, {map_factors(e.arg(0), f)});
  if (e.is(Op::Div)) return with_args(e, {map_factors(e.arg(0), f), e.arg(1)});
  return f(e);
}

/// A sum over several axes of a product as sums of products of two: what is free of the last axis, another summed factor among it, stands before the sum over that
/// axis, as in Σ_k A·(Σ_l W·B). A kernel computes it so, in one order or another, and each inner sum is an operand. Others stay as they are.
Expr contracted(Expr sum) {
  const std::vector<Sym> bound = sum->bound;
  Expr body = sum.arg(0);
  for (size_t last = bound.size(); bound.size() > 1 && last-- > 0;) {
    std::vector<Sym> others = bound;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(last));
    const auto varies = [&](Expr f) {
      return std::any_of(others.begin(), others.end(), [&](Sym s) { return depends_on(f, s); });
    };
    std::vector<Expr> inner;
    int outside = 0;
    const Expr outer = map_factors(body, [&](Expr f) {
      if (depends_on(f, bound[last])) {
        inner.push_back(f);
        return Expr(1);
      }
      outside += varies(f) ? 1 : 0;
      return f;
    });
    if (inner.size() < 2 || outside == 0 || depends_on(outer, bound[last])) continue;
    Expr product = inner[0];
    for (size_t k = 1; k < inner.size(); ++k) product = product * inner[k];
    if (!varies(product)) continue;
    return contracted(reduce(Reducer::Sum, others, outer * reduce(Reducer::Sum, {bound[last]}, product)));
  }
  return sum;
}

double operation_weight(Op op) {
  switch (op) {
    case Op::Constant:
    case Op::Real:
    case Op::Symbol:
    case Op::Read:
    case Op::Reduce:
    case Op::RangeSum: return 0;
    case Op::Add:
    case Op::Sub:
    case Op::Mul:
    case Op::Neg:
    case Op::Abs:
    case Op::Sign:
    case Op::Max:
    case Op::Min:
    case Op::Select:
    case Op::Lt:
    case Op::Le:
    case Op::Eq:
    case Op::Ne:
    case Op::And:
    case Op::Or:
    case Op::Not: return 1;
    case Op::Div:
    case Op::Sqrt:
    case Op::Rsqrt:
    case Op::Floor:
    case Op::Round:
    case Op::FloorDiv:
    case Op::Mod:
    case Op::Cast: return 4;
    case Op::Pow:
    case Op::Exp:
    case Op::Exp2:
    case Op::Log:
    case Op::Log2:
    case Op::Tanh:
    case Op::Sigmoid:
    case Op::Erf: return 10;
  }
  return 1;
}

bool is_narrow(DType t) { return is_float(t) && mantissa_bits(t) < mantissa_bits(DType::f32); }

/// Calls f once for each node of `e` outside of the indices of reads.
void for_each_value(Expr e, const std::function<void(Expr)>& f) {
  std::unordered_map<Expr, bool> seen;
  std::function<void(Expr)> visit = [&](Expr x) {
    if (!seen.emplace(x, true).second) return;
    f(x);
    if (x.is(Op::Read)) return;
    for (Expr a : x.args()) visit(a);
  };
  visit(e);
}

}  // namespace

double Table::elements() const {
  double n = 1;
  for (int64_t s : sizes) n *= double(s);
  return n;
}

double Table::points() const {
  double n = 1;
  for (int64_t s : bound_sizes) n *= double(s);
  return n;
}

Graph::Graph(const Program& program, const Sizes& sizes, const std::map<Sym, double>& params,
             const std::vector<IntegerRange>& input_ranges, Precision precision)
    : program_(program), sizes_(sizes), params_(params), precision_(precision) {
  for (size_t k = 0; k < program.inputs.size(); ++k) add_input(program.inputs[k], input_ranges[k]);
  for (const Definition& d : program.definitions) add_definition(d);
}

void Graph::add_input(const Input& input, IntegerRange range) {
  Table t;
  t.sym = input.sym;
  t.axes = input.axes();
  t.kind = t.value_kind = kind_of(input.dtype);
  t.input = &input;
  t.range = range;
  add(std::move(t));
}

void Graph::add_definition(const Definition& d) {
  Expr value = d.value;
  if (precision_ == Precision::naive) value = round_operands(value, d.axes);
  if (value.is(Op::Reduce) && index_symbols(value, d.axes) == d.axes) {
    // The reduction is the definition; it is kept under the definition's name.
    Expr lowered = with_args(value, {lower(value.arg(0), d.axes)});
    int id = add_reduction(lowered, d.axes, d.sym.name());
    declare(tables[size_t(id)], d.dtype);
    by_sym_[d.sym] = id;
    return;
  }
  Table t = pointwise(d.sym.name(), d.axes, lower(value, d.axes));
  declare(t, d.dtype);
  t.inlinable =
      !d.dtype && weight(t.body) <= inline_weight && index_symbols(t.body, {}).size() <= d.axes.size();
  by_sym_[d.sym] = add(std::move(t));
}

void Graph::declare(Table& t, std::optional<DType> dtype) {
  if (!dtype) return;
  t.rounded = dtype;
  t.beside_ties = precision_ == Precision::ties && is_narrow(*dtype);
  t.kind = kind_of(*dtype);
  if (*dtype == DType::boolean)
    t.range = {0, 1};
  else if (*dtype != DType::i64)
    t.range = {};
}

Table Graph::pointwise(std::string name, std::vector<Sym> axes, Expr body) {
  Table t;
  t.axes = std::move(axes);
  t.body = body;
  t.kind = t.value_kind = kind(body);
  t.sym = tensor_symbol(name, t.kind);
  if (t.kind != Kind::real) t.range = range(body);
  return t;
}

int Graph::add(Table t) {
  for (Sym s : t.axes) t.sizes.push_back(size_of(s));
  for (Sym s : t.bound) t.bound_sizes.push_back(size_of(s));
  if (t.body) t.can_fail = can_fail(t.body) || (t.guard && can_fail(t.guard));
  choose_layout(t);
  int id = int(tables.size());
  by_sym_[t.sym] = id;
  tables.push_back(std::move(t));
  return id;
}

Expr Graph::round_operands(Expr e, const std::vector<Sym>& order) {
  return rewrite(e, [&](Expr x) -> Expr {
    if (!x.is(Op::Reduce) || x->reducer != Reducer::Sum) return x;
    if (const Expr nested = contracted(x); nested != x) return round_operands(nested, order);
    auto varies = [&](Expr factor) {
      return std::any_of(x->bound.begin(), x->bound.end(), [&](Sym s) { return depends_on(factor, s); });
    };
    std::optional<DType> narrowest;  // of the inputs that are direct factors, f8 left out
    int factors = 0;
    bool direct_f8 = false, all_f8 = true;
    Expr body = guard_and_body(Reducer::Sum, x.arg(0)).second;
    map_factors(body, [&](Expr f) {
      if (!varies(f)) return f;
      ++factors;
      const Input* input = f.is(Op::Read) ? program_.input(f->sym) : nullptr;
      const bool f8 = (input && is_f8(input->dtype)) || (f.is(Op::Cast) && is_f8(f->dtype));
      all_f8 &= f8;
      direct_f8 |= input && f8;
      if (input && is_float(input->dtype) && !f8 &&
          (!narrowest || mantissa_bits(input->dtype) < mantissa_bits(*narrowest)))
        narrowest = input->dtype;
      return f;
    });
    if (direct_f8 && !narrowest) narrowest = DType::bf16;
    if (factors < 2 || all_f8 || !narrowest || mantissa_bits(*narrowest) >= mantissa_bits(DType::f32))
      return x;
    Expr rounded =
        map_factors(body, [&](Expr f) { return varies(f) ? round_operand(f, *narrowest, order) : f; });
    if (rounded == body) return x;
    // The body sits under selects; put the rounded one in its place.
    std::function<Expr(Expr)> place = [&](Expr y) -> Expr {
      if (y == body) return rounded;
      if (!y.is(Op::Select)) return y;
      return with_args(y, {y.arg(0), place(y.arg(1)), place(y.arg(2))});
    };
    return with_args(x, {place(x.arg(0))});
  });
}

Expr Graph::round_operand(Expr factor, DType t, const std::vector<Sym>& order) {
  const Input* input = factor.is(Op::Read) ? program_.input(factor->sym) : nullptr;
  if (input && is_float(input->dtype) && mantissa_bits(input->dtype) <= mantissa_bits(t)) return factor;
  if (factor.is(Op::Cast) && is_float(factor->dtype) && mantissa_bits(factor->dtype) <= mantissa_bits(t))
    return factor;
  std::vector<Sym> axes = index_symbols(factor, order);
  std::vector<Expr> indices(axes.begin(), axes.end());
  auto known = operands_.find({factor, t});
  if (known != operands_.end()) {
    const Table& table = tables[size_t(known->second)];
    return read(table.sym, {table.axes.begin(), table.axes.end()});
  }
  Table table = pointwise("operand", axes, lower(factor, order));
  table.operand = t;
  table.kind = Kind::real;
  Sym sym = table.sym;
  operands_[{factor, t}] = add(std::move(table));
  return read(sym, indices);
}

/// A cast as a read of a table that is rounded so.
Expr Graph::round_beside_ties(Expr cast, const std::vector<Sym>& order) {
  const std::vector<Sym> axes = index_symbols(cast, order);
  const auto key = std::pair(cast.arg(0), cast->dtype);
  auto known = operands_.find(key);
  if (known == operands_.end()) {
    Table table = pointwise("rounded", axes, cast.arg(0));
    declare(table, cast->dtype);
    known = operands_.emplace(key, add(std::move(table))).first;
  }
  const Table& table = tables[size_t(known->second)];
  return read(table.sym, {table.axes.begin(), table.axes.end()});
}

/// round(v), floor(v) or v cut to an integer: the other integer where v lies within 2^-18 (relative, but at least of 1) of where they
/// step.
static Expr step_beside(Expr e) {
  const Expr v = e.arg(0), nearest = make(Op::Round, {v}),
             size = make(Op::Max, {Expr(1), make(Op::Abs, {v})});
  const Expr away = make(Op::Abs, {v - nearest}), reach = Expr::real(0x1p-18) * size;
  if (e.is(Op::Round))
    return select(less_equal(Expr::real(0.5) - reach, away), nearest + make(Op::Sign, {v - nearest}),
                  nearest);
  const Expr near = logical_and(less_equal(away, reach), logical_not(equal(v, nearest)));
  if (e.is(Op::Floor)) return select(near, select(less_equal(v, nearest), nearest, nearest - Expr(1)), e);
  const Expr toward = select(less_equal(make(Op::Abs, {v}), make(Op::Abs, {nearest})), nearest,
                             nearest - make(Op::Sign, {nearest}));
  return cast(e->dtype, select(logical_and(near, logical_not(equal(nearest, Expr(0)))), toward, v));
}

Expr Graph::lower(Expr e, const std::vector<Sym>& order) {
  return rewrite(e, [&](Expr x) -> Expr {
    if (precision_ == Precision::ties && rounds_to_integer(program_, x) && kind(x.arg(0)) == Kind::real)
      return step_beside(x);
    if (x.is(Op::Read)) return lower_read(x);
    if (precision_ == Precision::ties && x.is(Op::Cast) && is_narrow(x->dtype) &&
        kind(x.arg(0)) == Kind::real)
      return round_beside_ties(x, order);
    if (!x.is(Op::Reduce)) return x;
    auto known = reductions_.find(x);
    int id = known != reductions_.end() ? known->second
                                        : add_reduction(x, index_symbols(x, order), name(x->reducer));
    reductions_[x] = id;
    const Table& t = tables[size_t(id)];
    return read(t.sym, {t.axes.begin(), t.axes.end()});
  });
}

Expr Graph::lower_read(Expr e) {
  const Table& t = tables[size_t(table_of(e->sym))];
  if (!t.inlinable || !in_bounds(e)) return e;
  Substitution s;
  for (size_t k = 0; k < t.axes.size(); ++k) s.emplace_back(t.axes[k], e.arg(k));
  return substitute(t.body, s);
}

int Graph::add_reduction(Expr reduce, std::vector<Sym> axes, std::string name) {
  Table t;
  t.reducer = reduce->reducer;
  t.bound = reduce->bound;
  t.kind = t.value_kind = kind(reduce);
  t.sym = tensor_symbol(name, t.kind);
  t.axes = std::move(axes);
  auto [guard, body] = guard_and_body(*t.reducer, reduce.arg(0));
  std::vector<Sym> loops = t.axes;
  loops.insert(loops.end(), t.bound.begin(), t.bound.end());
  t.guard = guard;
  t.body = split(body, loops);
  if (t.reducer == Reducer::Argmax || t.reducer == Reducer::Argmin)
    t.range = {-1, std::max<int64_t>(0, size_of(t.bound[0]) - 1)};
  else if (t.kind == Kind::boolean)
    t.range = {0, 1};
  return add(std::move(t));
}

Expr Graph::split(Expr body, const std::vector<Sym>& loops) {
  std::unordered_map<Expr, Expr> done;
  std::function<Expr(Expr)> visit = [&](Expr e) -> Expr {
    auto known = done.find(e);
    if (known != done.end()) return known->second;
    Expr result = e;
    std::vector<Sym> axes = index_symbols(e, loops);
    double reuse = 1;
    for (Sym s : loops)
      if (std::find(axes.begin(), axes.end(), s) == axes.end()) reuse *= double(size_of(s));
    if (e.args().empty() || e.is(Op::Read)) {
      // A leaf costs nothing to repeat.
    } else if (!axes.empty() && axes.size() < loops.size() && reuse >= split_reuse &&
               weight(e) >= split_weight) {
      auto part = parts_.find(e);
      if (part == parts_.end()) part = parts_.emplace(e, add(pointwise("part", axes, e))).first;
      const Table& t = tables[size_t(part->second)];
      result = read(t.sym, {t.axes.begin(), t.axes.end()});
    } else {
      std::vector<Expr> args;
      for (Expr a : e.args()) args.push_back(visit(a));
      result = with_args(e, std::move(args));
    }
    done.emplace(e, result);
    return result;
  };
  return visit(body);
}

double Graph::weight(Expr e) {
  double sum = 0;
  for_each_value(e, [&](Expr x) {
    if (!constant(x)) sum += operation_weight(x.op());
  });
  return sum;
}

double Graph::strip_cost(const Table& t, Sym strip, const std::vector<Expr>& reads) {
  double each = 0.4 * weight(t.body) + (t.reducer ? 0.3 : 0), nodes = 2 + double(reads.size());
  for (Expr r : reads) {
    if (!depends_on(r, strip)) continue;
    const Table& source = tables[size_t(table_of(r->sym))];
    double cost = 0.3;  // nanoseconds for one element that is next to the last one
    for (size_t k = 0; k < r.args().size(); ++k) {
      auto c = coefficient(r.arg(k), strip);
      if (!c)
        cost = 4;
      else if (*c != 0 && (int(k) != source.row || *c != 1))
        cost = std::max(cost, 2.0);
    }
    each += cost;
  }
  for_each_value(t.body, [&](Expr x) { nodes += operation_weight(x.op()) > 0; });
  const double length = double(std::clamp<int64_t>(size_of(strip), 1, strip_length));
  return each + 10 * nodes / length;
}

void Graph::choose_layout(Table& t) {
  t.row = int(t.axes.size()) - 1;
  if (t.row >= 0) t.strip = t.axes.back();
  std::vector<Expr> reads;
  if (t.body) {
    reads = reads_in(t.body);
    if (t.guard)
      for (Expr r : reads_in(t.guard)) reads.push_back(r);
    t.operations = t.reducer ? 1 : 0;
    auto count = [&](Expr x) { t.operations += operation_weight(x.op()) > 0 && !constant(x); };
    for_each_value(t.body, count);
    if (t.guard) for_each_value(t.guard, count);
    double best = INFINITY;
    // The last axis is preferred: readers of a table mostly run along it.
    for (int k = int(t.axes.size()) - 1; k >= 0; --k) {
      double cost = strip_cost(t, t.axes[size_t(k)], reads) * (k + 1 == int(t.axes.size()) ? 1 : 1.5);
      if (cost >= best) continue;
      best = cost;
      t.row = k;
      t.strip = t.axes[size_t(k)];
    }
    for (Sym s : t.bound) {
      double cost = strip_cost(t, s, reads);
      if (cost >= best) continue;
      best = cost;
      t.row = int(t.axes.size()) - 1;
      t.strip = s;
    }
  }
  choose_block(t, reads);
}

void Graph::choose_block(Table& t, const std::vector<Expr>& reads) {
  const double points = t.points();
  auto varies_with_bound = [&](Expr r) {
    return std::any_of(t.bound.begin(), t.bound.end(), [&](Sym s) { return depends_on(r, s); });
  };
  double neighbour = 0;  // operations that one more element of a block asks of other tables
  t.unit_cost = points * t.operations;
  for (Expr r : reads) {
    double cost = tables[size_t(table_of(r->sym))].unit_cost * (varies_with_bound(r) ? points : 1);
    t.unit_cost += cost;
    if (t.row >= 0 && depends_on(r, t.axes[size_t(t.row)])) neighbour += cost;
  }
  if (t.strip_is_bound()) neighbour += points * t.operations;
  // A block along the strip axis is what makes a free strip a vector; it keeps some length whatever its neighbours cost.
  const int least = t.reducer && !t.strip_is_bound() ? 5 : 0;
  int most = 0;
  const int64_t length = t.row < 0 ? 1 : t.sizes[size_t(t.row)];
  while (most < 8 && (int64_t(1) << most) < length) ++most;
  t.shift = most;
  while (t.shift > std::min(least, most) && neighbour * double(int64_t(1) << t.shift) > block_operations)
    --t.shift;
}

}  // namespace tilewright::reference
