#include "tilewright/driver/price.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "tilewright/expr/simplify.h"
#include "tilewright/model/cost.h"
#include "tilewright/tile/statements.h"

namespace tilewright {

Balance balance_of(Target plans) {
  constexpr Balance cpu{0.3, 8, 8, 1, 250e3}, gpu{0.4, 200, 14, 4, 20e6};
  return plans == Target::Cpu ? cpu : gpu;
}

Sizes nominal_sizes(const std::vector<Axis>& axes, Target plans, Sizes sizes) {
  for (const Axis& a : axes)
    if (!a.size && !sizes.count(a.index.size())) sizes[a.index.size()] = nominal_size(plans);
  // Sizes computed from others, in whatever order they are declared.
  for (size_t round = 0; round < axes.size(); ++round)
    for (const Axis& a : axes) {
      if (!a.size || sizes.count(a.index.size())) continue;
      const std::vector<Sym> needed = free_symbols(a.size);
      if (std::all_of(needed.begin(), needed.end(), [&](Sym s) { return sizes.count(s) > 0; }))
        sizes[a.index.size()] = evaluate_integer(a.size, sizes);
    }
  return sizes;
}

size_t nominal_plan(const Program& elaborated, Target target, const std::vector<GuardedPlan>& plans) {
  const Sizes sizes = nominal_sizes(elaborated.axes, target);
  size_t chosen = 0;
  while (chosen + 1 < plans.size() && !plans[chosen].when.admits(sizes)) ++chosen;
  return chosen;
}

std::vector<Sym> axes_cut(const Compilation& c, Target plans) {
  std::vector<Sym> axes;
  for (const Cut& cut : c.plans.at(nominal_plan(c.elaborated, plans, c.plans)).plan.group) {
    const Axis& a = c.elaborated.axis(cut.axis);
    if (!a.baked() || *a.size.number() > double(cut.block)) axes.push_back(cut.axis);
  }
  return axes;
}

namespace {

/// Operations for one element of `e`, each shared one once.
class Operations {
 public:
  Operations(const std::vector<Axis>& axes, const Sizes& sizes) : axes_(axes), sizes_(sizes) {}

  double operator()(Expr e) {
    if (!e || e.args().empty() || !seen_.insert(e).second) return 0;
    double sum = 0;
    for (Expr a : e.args()) sum += (*this)(a);
    switch (e.op()) {
      case Op::Read: return 0;  // an address
      case Op::Add:
      case Op::Mul: return sum + double(e.args().size()) - 1;
      case Op::Pow: return sum + (e.arg(1).is_constant(2) ? 1 : 4);
      case Op::Div:
      case Op::Sqrt:
      case Op::Rsqrt:
      case Op::FloorDiv:
      case Op::Mod: return sum + 4;
      case Op::Exp:
      case Op::Exp2:
      case Op::Log:
      case Op::Log2:
      case Op::Tanh:
      case Op::Sigmoid:
      case Op::Erf: return sum + 16;
      case Op::Reduce: {
        double n = 1;
        for (Sym s : e->bound)
          if (sizes_.count(s.size())) n *= double(sizes_.at(s.size()));
        return n * (sum + 1);
      }
      default: return sum + 1;
    }
  }

 private:
  const std::vector<Axis>& axes_;
  const Sizes& sizes_;
  std::set<Expr> seen_;
};

/// Operations of a kernel at given sizes.
class Count {
 public:
  Count(const TileProgram& t, const TileKernel& k, const Sizes& sizes) : t_(t), k_(k), sizes_(sizes) {
    for (const auto& [size, n] : sizes_) values_[size] = double(n);
    for (const ChunkTable& table : k_.chunk_tables) {
      const double chunks = number(count(t_.axes, table.stream));
      const std::vector<double> all{0, 0, chunks, chunks};
      for (size_t n = 0; n < table.bounds.size(); ++n) values_[table.bounds[n]] = all[n];
    }
    for (const KernelAxis& a : k_.grid) blocks_ *= number(count(t_.axes, a));
  }

  double products = 0, narrow_products = 0, operations = 0;

  void run() { body(k_.body, blocks_); }

 private:
  double number(Expr e) const {
    const Expr x = bake(t_.axes, e);
    const std::vector<Sym> needed = free_symbols(x);
    for (Sym s : needed) TW_CHECK(values_.count(s), "no size of " + s.name());
    return evaluate(x, values_);
  }

  double length(Sym index) const {
    const KernelAxis& a = k_.axis(index);
    const double all = number(size_of(t_.axes, index)), parts = number(count(t_.axes, a));
    return parts > 0 ? all / parts : 0;
  }

  double elements(const std::vector<Sym>& axes) const {
    double n = 1;
    for (Sym a : axes) n *= length(a);
    return n;
  }

  void body(const Body& stmts, double times) {
    for (const Stmt& s : stmts) std::visit([&](const auto& x) { visit(s, x, times); }, s.node);
  }
  double value(Expr e) const { return Operations(t_.axes, sizes_)(e); }

  void visit(const Stmt&, const Load&, double) {}
  void visit(const Stmt&, const Store&, double) {}
  void visit(const Stmt& s, const Map& x, double times) {
    operations += times * elements(domain(k_, s)) * value(x.value);
  }
  void visit(const Stmt& s, const Reduce& x, double times) {
    operations += times * elements(domain(k_, s)) * (value(x.value) + 1);
  }
  void visit(const Stmt& s, const Rank& x, double times) {
    constexpr double insertion = 4;  // most elements stand behind the whole list
    operations += times * elements(domain(k_, s)) * (value(x.value) + insertion);
  }
  void visit(const Stmt& s, const Dot& x, double times) {
    const bool narrow = bytes(k_.tile(x.a).dtype) <= 2 && bytes(k_.tile(x.b).dtype) <= 2;
    (narrow ? narrow_products : products) += 2 * times * elements(domain(k_, s));
  }
  void visit(const Stmt&, const Loop& x, double times) { body(x.body, times * chunks(x)); }
  void visit(const Stmt&, const When& x, double times) {
    if (!x.slow_path) body(x.body, times);
  }

  /// Chunks that a block visits, on average over a few blocks.
  double chunks(const Loop& x) {
    const KernelAxis& a = k_.axis(x.axis);
    const double all = number(count(t_.axes, a));
    std::vector<Expr> bounds;
    std::vector<const KernelAxis*> rows;
    for (const Segment& s : x.segments) bounds.push_back(bake(t_.axes, s.hi - s.lo));
    for (const KernelAxis& g : k_.grid)
      if (std::any_of(bounds.begin(), bounds.end(), [&](Expr e) { return depends_on(e, g.counter); }))
        rows.push_back(&g);
    for (Expr e : bounds)
      for (Sym s : free_symbols(e)) {
        const bool row = std::any_of(rows.begin(), rows.end(), [&](auto* g) { return g->counter == s; });
        if (!row && !values_.count(s)) return all;  // a param of the mask
      }
    constexpr int samples = 5;
    double sum = 0;
    for (int n = 0; n < samples; ++n) {
      for (const KernelAxis* g : rows)
        values_[g->counter] = std::floor((number(count(t_.axes, *g)) - 1) * n / (samples - 1));
      for (Expr e : bounds) sum += std::max(0.0, evaluate(e, values_));
    }
    return std::min(all, sum / samples);
  }

  const TileProgram& t_;
  const TileKernel& k_;
  const Sizes& sizes_;
  Bindings values_;
  double blocks_ = 1;
};

}  // namespace

Price price_of(const Compilation& c, Target plans) {
  const Balance balance = balance_of(plans);
  const TileProgram& t = c.tiles.at(nominal_plan(c.elaborated, plans, c.plans));
  const Sizes sizes = nominal_sizes(t.axes, plans, nominal_sizes(c.elaborated.axes, plans));

  std::map<Sym, int64_t> values(sizes.begin(), sizes.end());
  for (const Param& q : c.elaborated.params) {
    const auto given = q.value ? q.value.number() : std::nullopt;
    values[q.sym] = given ? int64_t(*given) : nominal_size(plans);
  }
  for (const TileKernel& k : t.kernels)
    for (const ChunkTable& table : k.chunk_tables) {
      const int64_t chunks = evaluate_integer(bake(t.axes, count(t.axes, table.stream)), values);
      const std::vector<int64_t> all{0, 0, chunks, chunks};
      for (size_t n = 0; n < table.bounds.size(); ++n) values[table.bounds[n]] = all[n];
    }
  const Cost moved = cost(c.elaborated, t);
  Price p;
  for (const auto& [tensor, loaded] : moved.loaded_by_tensor) {
    const double all = double(evaluate_integer(loaded, values));
    double once = all;
    if (const Input* in = c.elaborated.input(tensor)) {
      once = double(bytes(in->dtype));
      for (Sym a : in->axes()) once *= double(sizes.at(a.size()));
    }
    p.bytes += all;
    p.total += std::min(all, once) + balance.again * std::max(0.0, all - once);
  }
  const double stored = double(evaluate_integer(moved.memory.stored, values));
  p.bytes += stored;
  p.total += stored;
  for (const TileKernel& k : t.kernels) {
    Count n(t, k, sizes);
    n.run();
    p.products += n.products + n.narrow_products;
    p.operations += n.operations;
    p.total += n.products / balance.products + n.narrow_products / balance.narrow_products +
               n.operations / balance.operations + balance.launch;
  }
  p.kernels = int(t.kernels.size());
  return p;
}

}  // namespace tilewright
