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

using namespace symbolic;

namespace {

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
  int64_t size(Sym index) const { return run_.size(index); }

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
      const bool workspace = own != arrays_.end() && run_.program().input(x.tensor) == nullptr;
      bool inside = true;
      if (workspace) {
        inside = own->second.count(at) > 0;
      } else {
        const std::vector<Sym> axes = run_.program().tensor_axes(x.tensor);
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

}  // namespace

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
