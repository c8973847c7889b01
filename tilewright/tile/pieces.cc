// How pieces become statements: shared and row-wise subexpressions, operands of contractions.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "tilewright/expr/simplify.h"
#include "tilewright/program/compared.h"
#include "tilewright/tile/lower.h"
#include "tilewright/tile/statements.h"

namespace tilewright {
namespace {

std::vector<Expr> factors_of(Expr e) { return e.is(Op::Mul) ? e.args() : std::vector<Expr>{e}; }

Expr product_of(const std::vector<Expr>& factors) {
  if (factors.empty()) return 1;
  return factors.size() == 1 ? factors[0] : simplify(make(Op::Mul, factors));
}

/// One operation that costs no more than reading a tile: a sign, a scalar factor, a change of dtype.
bool is_cheap(Expr e) {
  if (e.is(Op::Neg) || e.is(Op::Cast)) return e.arg(0).is(Op::Read);
  if (!e.is(Op::Mul) || e.args().size() != 2) return false;
  return (e.arg(0).is(Op::Read) && is_scalar(e.arg(1))) || (e.arg(1).is(Op::Read) && is_scalar(e.arg(0)));
}

}  // namespace

/// Nodes that get a tile because several statements contain them: the largest such nodes, then what is still
/// shared between those and the rest.
std::set<Expr> KernelBuilder::shared_nodes(const std::vector<Expr>& roots) const {
  std::set<Expr> cut;
  auto worth = [&](Expr e) {
    return !e.is(Op::Read) && !e.args().empty() && !is_boolean(e) && !is_integer(e) && !is_cheap(e) &&
           !tiles_read(k_, e).empty();
  };
  while (true) {
    // Units are what becomes one statement: a root, or a node that was cut out.
    std::map<Expr, int> units;
    std::vector<Expr> starts = roots;  // whole values are units by themselves
    starts.insert(starts.end(), cut.begin(), cut.end());
    for (size_t i = 0; i < starts.size(); ++i) {
      const bool definition = i >= roots.size();
      std::set<Expr> seen;
      std::function<void(Expr, bool)> visit = [&](Expr x, bool top) {
        if (is_whole(x) || (!(top && definition) && cut.count(x))) return;
        if (!seen.insert(x).second) return;
        if (!(top && definition)) ++units[x];
        if (x.is(Op::Read)) return;
        for (Expr a : x.args()) visit(a, false);
      };
      visit(starts[i], true);
    }
    std::set<Expr> found;
    std::set<Expr> walked;
    std::function<void(Expr, bool)> walk = [&](Expr x, bool top) {
      if (is_whole(x) || (!top && cut.count(x))) return;
      if (!walked.insert(x).second) return;
      auto n = units.find(x);
      if (n != units.end() && n->second > 1 && worth(x) && !cut.count(x)) {
        found.insert(x);
        return;
      }
      if (x.is(Op::Read)) return;
      for (Expr a : x.args()) walk(a, false);
    };
    for (Expr r : starts) walk(r, true);
    if (found.empty()) return cut;
    cut.insert(found.begin(), found.end());
  }
}

bool KernelBuilder::factorise(Expr term, const std::vector<Sym>& reduced, const std::vector<Sym>& target,
                              Piece& piece) const {
  auto varies = [&](Expr e, const std::vector<Sym>& axes) {
    return std::any_of(axes.begin(), axes.end(), [&](Sym s) { return depends_on(e, s); });
  };
  auto is_operand = [&](Expr e) {
    return e.is(Op::Read) && has_tile(k_, e->sym) && k_.tile(e->sym).use == Tile::Use::Operand;
  };
  std::vector<Expr> factors = factors_of(term), scalars, varying;
  for (Expr f : factors) (varies(f, reduced) || varies(f, target) ? varying : scalars).push_back(f);
  if (varying.size() < 2) return false;
  for (Sym s : target)
    if (!varies(term, {s})) return false;  // only the condition has that axis, and no operand could

  const auto elements = [&](const std::vector<Expr>& side) {
    int64_t n = 1;
    for (const std::vector<Sym>* axes : {&reduced, &target})
      for (Sym s : *axes)
        if (varies(product_of(side), {s})) n *= k_.axis(s).block;
    return n;
  };

  // Each target axis proposes the factors that have it as one side; the fewer temporaries the better, then the smaller.
  struct Sides {
    std::vector<Expr> with, without;
  } best;
  std::pair<int, int64_t> best_cost{1 << 30, 0};
  for (Sym x : target) {
    Sides s;
    for (Expr f : varying) (depends_on(f, x) ? s.with : s.without).push_back(f);
    if (s.with.empty() || s.without.empty()) continue;
    auto reduces = [&](const std::vector<Expr>& side) {
      return std::any_of(side.begin(), side.end(), [&](Expr f) { return varies(f, reduced); });
    };
    if (!reduces(s.with) || !reduces(s.without)) continue;
    std::pair<int, int64_t> cost{0, 0};
    for (const auto* side : {&s.with, &s.without})
      if (side->size() > 1 || !is_operand((*side)[0])) {
        // Where rows are shared among groups of threads, each holds its own in registers.
        const bool apart = checks_operands() && !has_rows(product_of(*side));
        cost = {cost.first + 1, cost.second + (apart ? int64_t(1) << 40 : 0) + elements(*side)};
      }
    if (cost < best_cost) best = s, best_cost = cost;
  }
  if (best.with.empty()) return false;

  auto own = [&](const std::vector<Expr>& side, const std::vector<Expr>& other) {
    for (size_t i = 0; i < target.size(); ++i)
      if (varies(product_of(side), {target[i]}) && !varies(product_of(other), {target[i]})) return i;
    return target.size();
  };
  // Rows (the earlier axis of the target) are on side a; a side without rows is a row of its own.
  const size_t first = own(best.with, best.without), second = own(best.without, best.with);
  std::vector<Expr> a = best.with, b = best.without;
  if (second == target.size() || second < first) std::swap(a, b);
  piece.kind = Piece::Kind::Dot;
  for (Expr f : varying)
    if (is_operand(f)) piece.direct.push_back(k_.tile(f->sym).dtype);
  // A scalar factor goes where a temporary is made anyway.
  if (!scalars.empty()) {
    bool to_b = a.size() == 1 && is_operand(a[0]) && !(b.size() == 1 && is_operand(b[0]));
    std::vector<Expr>& side = to_b ? b : a;
    side.insert(side.end(), scalars.begin(), scalars.end());
  }
  piece.a = product_of(a);
  piece.b = product_of(b);
  return true;
}

/// The values of `side` lie in the range of f16, by declared ranges and by what is known of exponentials.
bool KernelBuilder::fits_f16(Expr side) const {
  Ranges ranges;
  std::map<Expr, Expr> stand_in;
  Expr e = rewrite(side, [&](Expr x) {
    if (!x.is(Op::Read)) return x;
    auto [it, fresh] = stand_in.emplace(x, Expr());
    if (!fresh) return it->second;
    Sym v = Sym::fresh({.name = "x", .kind = SymbolKind::Variable});
    it->second = v;
    if (auto limit = limits_.find(x->sym); limit != limits_.end()) {
      ranges[v] = {0, limit->second};
    } else if (has_tile(k_, x->sym) && k_.tile(x->sym).use == Tile::Use::Operand) {
      for (const auto& [loaded, tile] : loads_)
        if (tile == x->sym)
          if (const Input* in = p_.input(loaded->sym); in && in->range) {
            Interval lo = bounds(bake(p_.axes, in->range.lo)), hi = bounds(bake(p_.axes, in->range.hi));
            ranges[v] = {lo.lo, hi.hi};
          }
    }
    return Expr(v);
  });
  Interval range = bounds(e, ranges);
  return range.lo >= -65504 && range.hi <= 65504;
}

bool KernelBuilder::has_rows(Expr side) const {
  const std::vector<Sym> axes = axes_in(side);
  return std::any_of(axes.begin(), axes.end(), [&](Sym s) { return k_.axis(s).piece < k_.axis(s).block; });
}

DType KernelBuilder::operand_dtype(Expr side, const std::vector<DType>& direct) const {
  DType narrow = real_;
  for (DType t : direct)
    if (is_float(t) && bytes(t) < bytes(narrow)) narrow = t;
  // A computed operand is no f8 factor: it keeps at least the digits of the f8 ones.
  if (bytes(narrow) == 1) return fits_f16(side) ? DType::f16 : DType::bf16;
  if (narrow == DType::f16)
    return fits_f16(side) || (checks_operands() && has_rows(side)) ? DType::f16 : real_;
  return narrow == DType::bf16 ? DType::bf16 : real_;
}

/// `v`, the value of `from`, in a tile of that dtype.
Sym KernelBuilder::rounded(Expr from, Expr v, DType dtype) {
  const Expr key = cast(dtype, from);
  if (Sym tile = known(key)) return tile;
  const size_t frame = frame_for(from), saved = std::exchange(current_, frame);
  const Sym tile = new_tile("P", axes_in(from), dtype);
  map(tile, v);
  remember(frame, key, tile);
  current_ = saved;
  return tile;
}

Sym KernelBuilder::operand(Expr machine, DType dtype, const std::set<Expr>& shared) {
  const auto narrowed = [&](Expr from, Expr v) { return rounded(from, v, dtype); };
  if (machine.is(Op::Read)) {
    const Tile& t = k_.tile(machine->sym);
    if (t.use == Tile::Use::Operand || t.dtype == dtype) return t.sym;
    return narrowed(machine, machine);
  }
  if (dtype == real_ || known(machine) || shared.count(machine) || is_whole(machine)) {
    Sym tile = known(machine) ? known(machine) : materialise(machine, shared);
    return dtype == real_ ? tile : narrowed(at(tile), at(tile));
  }
  std::vector<Sym> domain = axes_in(machine);
  std::vector<Expr> args;
  for (Expr x : machine.args()) args.push_back(value(x, domain, shared));
  return narrowed(machine, with_args(machine, args));
}

Expr KernelBuilder::value(Expr e, const std::vector<Sym>& domain, const std::set<Expr>& shared) {
  if (e.is(Op::Read) || e.args().empty()) return e;
  if (is_whole(e)) return at(whole_tile(e));
  if (Sym tile = known(e)) return at(tile);
  if (!is_boolean(e) && !is_integer(e) && !tiles_read(k_, e).empty()) {
    if (shared.count(e) || axes_in(e).size() < domain.size()) return at(materialise(e, shared));
  }
  std::vector<Expr> args;
  for (Expr a : e.args()) args.push_back(value(a, domain, shared));
  return with_args(e, args);
}

std::string KernelBuilder::name_for(Expr machine) const {
  const bool row = !stream_ || !depends_on(machine, stream_);
  if (machine.is(Op::Exp2)) return row ? "r" : "E";
  if (machine.is(Op::Div) && machine.arg(0).is_constant(1)) {
    if (machine.arg(1).is(Op::Read)) return machine.arg(1)->sym.name() + "_inv";
  }
  return row ? "r" : "T";
}

/// Made in one form, so that it is the same number each time: what varies along fewer axes is a whole value too, and nothing is taken from other statements.
Sym KernelBuilder::whole_tile(Expr e, const std::string& name) {
  if (Sym tile = known(e)) return tile;
  const size_t frame = frame_for(e), saved = std::exchange(current_, frame);
  const std::vector<Sym> axes = axes_in(e);
  const Expr value = cast(e->dtype, inside_whole(e.arg(0), axes, e->dtype));
  const Sym tile = new_tile(name.empty() ? name_for(e) : name, axes, real_);
  map(tile, value);
  remember(frame, e, tile);
  current_ = saved;
  return tile;
}

Expr KernelBuilder::inside_whole(Expr e, const std::vector<Sym>& domain, DType dtype) {
  if (e.is(Op::Read) || e.args().empty()) return e;
  if (is_whole(e)) return at(whole_tile(e));
  if (!is_boolean(e) && !is_integer(e) && !tiles_read(k_, e).empty() && axes_in(e).size() < domain.size())
    return at(whole_tile(cast(dtype, e)));
  std::vector<Expr> args;
  for (Expr a : e.args()) args.push_back(inside_whole(a, domain, dtype));
  return with_args(e, args);
}

Expr KernelBuilder::condition(Expr e) {
  if (e.is(Op::Read) || e.args().empty()) return e;
  if (is_whole(e)) {
    const Expr m = machine(e, axes_in(e));
    return is_whole(m) ? at(whole_tile(m)) : m;
  }
  std::vector<Expr> args;
  for (Expr a : e.args()) args.push_back(condition(a));
  return with_args(e, args);
}

Sym KernelBuilder::materialise(Expr machine, const std::set<Expr>& shared, const std::string& name) {
  if (is_whole(machine)) return whole_tile(machine, name);
  const size_t frame = frame_for(machine), saved = std::exchange(current_, frame);
  std::vector<Sym> axes = axes_in(machine);
  std::vector<Expr> args;
  for (Expr a : machine.args()) args.push_back(value(a, axes, shared));
  Sym tile = new_tile(name.empty() ? name_for(machine) : name, axes, real_);
  map(tile, with_args(machine, args));
  remember(frame, machine, tile);
  current_ = saved;
  return tile;
}

Sym KernelBuilder::tile_of(Expr e, const std::string& name) {
  Expr m = machine(e, axes_in(e));
  if (m.is(Op::Read)) return m->sym;
  Sym tile = known(m);
  return tile ? tile : materialise(m, {}, name);
}

/// Maps that overwrite tiles read by others come after them. Where maps read each other's tiles, old values
/// are copied.
void KernelBuilder::order_in_place(std::vector<Piece>& pieces) {
  auto reads = [&](const Piece& x, Sym tile) {
    std::vector<Sym> read = tensors_read(x.value);
    return std::find(read.begin(), read.end(), tile) != read.end();
  };
  std::vector<Piece> ordered;
  while (!pieces.empty()) {
    auto free = std::find_if(pieces.begin(), pieces.end(), [&](const Piece& x) {
      return std::none_of(pieces.begin(), pieces.end(),
                          [&](const Piece& y) { return &x != &y && reads(y, x.tile); });
    });
    if (free == pieces.end()) {
      Sym old = new_tile(pieces[0].tile.name() + "_old", k_.tile(pieces[0].tile).axes,
                         k_.tile(pieces[0].tile).dtype);
      const Expr from = at(pieces[0].tile), to = at(old);
      map(old, from);
      for (size_t i = 1; i < pieces.size(); ++i)
        pieces[i].value = rewrite(pieces[i].value, [&](Expr x) { return x == from ? to : x; });
      continue;
    }
    ordered.push_back(std::move(*free));
    pieces.erase(free);
  }
  pieces = std::move(ordered);
}

void KernelBuilder::emit(std::vector<Piece> pieces, bool in_place) {
  if (in_place) order_in_place(pieces);
  std::vector<Expr> roots;
  for (Piece& x : pieces) {
    if (x.kind == Piece::Kind::Dot) {
      for (Expr* side : {&x.a, &x.b}) {
        const DType dtype = operand_dtype(*side, x.direct);
        const bool fits = dtype != DType::f16 || fits_f16(*side);
        *side = machine(*side, axes_in(*side));
        roots.push_back(*side);
        const bool whole = side->is(Op::Read) && k_.tile((*side)->sym).use == Tile::Use::Operand;
        (side == &x.a ? x.a_operand : x.b_operand) = {dtype, !fits && !whole};
      }
    } else {
      x.value = machine(x.value, axes_union(k_.tile(x.tile).axes, x.axes));
      roots.push_back(x.value);
    }
    if (x.present) x.present = condition(x.present);
  }
  const std::set<Expr> shared = shared_nodes(roots);
  for (const Piece& x : pieces) emit_piece(x, shared);
}

/// A · B in 16 bits, where the values of a side may leave the range of f16: what leaves it, infinities and NaN among them, is 0 in the rounded operand, and its products are
/// added as they are on a slow path. Each product is counted once.
void KernelBuilder::emit_dot(const Piece& x, const std::set<Expr>& shared) {
  const Expr present = x.present && !is_true(x.present) ? x.present : Expr();
  std::vector<Expr> inside;  // of each checked side
  std::vector<Sym> axes;
  const auto side = [&](Expr machine, const Piece::Operand& o) {
    if (!o.checked) return operand(machine, o.dtype, shared);
    const Expr full = at(machine.is(Op::Read) ? machine->sym
                         : known(machine)     ? known(machine)
                                              : materialise(machine, shared));
    inside.push_back(less_equal(make(Op::Abs, {full}), Expr(65504)));
    axes = axes_union(axes, axes_in(full));
    return rounded(full, select(inside.back(), full, 0), o.dtype);
  };
  const Sym a = side(x.a, x.a_operand), b = side(x.b, x.b_operand);
  put(Dot{x.tile, a, b, x.axes, x.accumulate, present}, x.comment);
  if (inside.empty()) return;
  const Expr all = inside.size() == 1 ? inside[0] : logical_and(inside[0], inside[1]);
  const auto full = [&](Expr machine, Sym operand) {
    return known(machine) ? at(known(machine)) : machine.is(Op::Read) ? machine : at(operand);
  };
  const Expr left_out = select(all, 0, full(x.a, a) * full(x.b, b));
  open_when();
  put(Reduce{x.tile, Reducer::Sum, x.axes, left_out, present ? select(present, left_out, 0) : Expr(), true},
      "what is no number of f16");
  close_when(logical_not(all), axes, true);
}

void KernelBuilder::emit_piece(const Piece& x, const std::set<Expr>& shared) {
  const bool test = x.present && !is_true(x.present);
  if (x.kind == Piece::Kind::Dot) return emit_dot(x, shared);
  const std::vector<Sym> domain = axes_union(k_.tile(x.tile).axes, x.axes);
  Expr v = value(x.value, domain, shared);
  Expr masked = test ? select(x.present, v, x.absent) : Expr();
  if (x.kind == Piece::Kind::Map)
    put(Map{x.tile, v, masked}, x.comment);
  else
    put(Reduce{x.tile, x.reducer, x.axes, v, masked, x.accumulate}, x.comment);
}

}  // namespace tilewright
