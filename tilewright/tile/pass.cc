#include "tilewright/tile/pass.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tilewright/expr/simplify.h"
#include "tilewright/program/elaborate.h"
#include "tilewright/tile/statements.h"

namespace tilewright {
namespace {

constexpr double ln2 = 0.6931471805599453;
/// A speculative lift is kept while the sum over the row lies below 2^15: each element then fits f16.
constexpr int64_t speculative_limit = 32768;
/// scale·ρ in bits up to which it may be rounded before it is subtracted: an error of 2^-14 in the exponent.
constexpr int64_t rounded_limit = 1024;
/// A lagging point moves when the running value is a factor of 2^8 above it.
constexpr double threshold_bits = 8;

Expr read_at(Sym sym, const std::vector<Sym>& axes) { return read(sym, {axes.begin(), axes.end()}); }

Expr times(Expr x, Expr scale) { return scale.is_constant(1) ? x : x * scale; }

Expr identity_of(Point::Kind kind) {
  switch (kind) {
    case Point::Kind::Maximum: return -Expr::infinity();
    case Point::Kind::Minimum: return Expr::infinity();
    case Point::Kind::Mean: return 0;
  }
  return {};
}

Expr number(Expr e) { return e.is(Op::Neg) && e.arg(0).number() ? Expr::real(-*e.arg(0).number()) : e; }

/// Does the value itself (not a condition in it) hold an index or an integer element?
bool holds_index(Expr e) {
  if (is_boolean(e)) return false;
  if (e.is(Op::Symbol)) return e->sym.kind() == SymbolKind::Index;
  if (e.is(Op::Read)) return e->sym.info().integer;
  if (e.is(Op::Select)) return holds_index(e.arg(1)) || holds_index(e.arg(2));
  return std::any_of(e.args().begin(), e.args().end(), holds_index);
}

DType dtype_of(const KernelBuilder& b, const Component& c) {
  if (c.combine == Reducer::Any || c.combine == Reducer::All) return DType::boolean;
  if (c.combine == Reducer::Argtopk) return DType::i64;
  // Indices and integers are carried exactly also past 2^24.
  return is_integer(c.lift) && holds_index(c.lift) ? DType::f64 : b.real();
}

}  // namespace

PassBuilder::PassBuilder(KernelBuilder& b, const State& s, Guard guard)
    : b_(b), s_(s), guard_(b.resident() ? Guard::Always : guard) {}

void PassBuilder::declare(KernelBuilder& b, const State& s) {
  for (const Point& p : s.points) {
    b.declare(p.var, p.axes, b.real(), Tile::Use::State);
    b.declare(p.next, p.axes, b.real(), Tile::Use::Temporary);
  }
  for (const Component& c : s.components) b.declare(c.var, c.axes, dtype_of(b, c), Tile::Use::State);
}

std::vector<Sym> PassBuilder::tiles(const State& s) {
  std::vector<Sym> all;
  for (const Point& p : s.points) all.push_back(p.var);
  for (const Component& c : s.components) all.push_back(c.var);
  return all;
}

void PassBuilder::initialise(KernelBuilder& b, const State& s) {
  for (const Point& p : s.points) b.map(p.var, number(identity_of(p.kind)));
  for (const Component& c : s.components) b.map(c.var, number(identity(c.combine)), c.meaning);
}

Expr PassBuilder::rho(const Point& p) const { return read_at(p.var, p.axes); }
Expr PassBuilder::next(const Point& p) const { return read_at(p.next, p.axes); }

/// scale·(u − ρ), multiplied out.
Expr PassBuilder::exponent(const Point& p) const { return p.scale * p.u - p.scale * rho(p); }

/// Is it a mean over other axes too, so that u is no tile of the chunk?
bool PassBuilder::varies_inside(const Point& p) const {
  return p.kind == Point::Kind::Mean && s_.components.at(size_t(p.sum)).lift.is(Op::Reduce);
}

PassBuilder::PointParts PassBuilder::parts(const Point& p) {
  PointParts x;
  x.present = b_.tiled(p.present);
  if (!varies_inside(p)) x.u = b_.tiled(p.u, x.present);
  return x;
}

void PassBuilder::chunk() {
  for (const Point& p : s_.points) parts_.push_back(parts(p));
  for (size_t k = 0; k < s_.points.size(); ++k) {
    if (s_.points[k].kind == Point::Kind::Mean)
      move_mean(k);
    else
      move_extremum(k);
  }
  lifts();
}

void PassBuilder::move_extremum(size_t k) {
  const Point& p = s_.points[k];
  PointParts& x = parts_[k];
  const bool masked = !is_true(x.present);
  std::vector<Sym> axes = b_.axes_in(x.u);
  if (masked && p.exponential) {
    // Absent elements are selected away once, for the maximum and for the exponentials.
    axes = b_.axes_in(read_at(p.var, axes_union(p.axes, {b_.stream().index})));
    x.tile = b_.new_tile("U", axes, b_.real());
    Piece piece;
    piece.tile = x.tile;
    piece.value = x.u;
    piece.present = x.present;
    piece.absent = number(identity_of(p.kind));
    b_.emit({piece});
  } else if (!x.u.is(Op::Read)) {
    x.tile = b_.tile_of(x.u, "U");
  }
  if (p.exponential) {
    // A row's exponential is the row's also where u is the same number for all of them.
    const Expr u = x.tile ? b_.at(x.tile) : x.u;
    x.exponential = b_.new_tile("E", b_.axes_in(u - b_.at(p.var)), b_.real());
  }
  const Guard guard = p.exponential && p.kind == Point::Kind::Maximum ? guard_ : Guard::Always;
  const double limit = guard == Guard::Threshold     ? std::exp2(threshold_bits)
                       : guard == Guard::Speculative ? speculative_limit
                                                     : 1;
  if (p.exponential) b_.set_limit(x.exponential, limit);
  if (guard == Guard::Speculative) {
    speculative_exponential(p, x);
    // The row's sum tells whether the old point kept the exponentials in range; often it is a component as
    // well.
    Sym sum;
    for (size_t c = 0; c < s_.components.size() && !sum; ++c) {
      const Component& component = s_.components[c];
      if (component.combine != Reducer::Sum || !(component.present == p.present)) continue;
      if (simplify(component.lift) != simplify(exp(exponent(p)))) continue;
      sum = b_.new_tile(component.var.name() + "_chunk", b_.tile_axes(component.axes), b_.real());
      chunk_values_[c] = sum;
    }
    if (!sum) sum = b_.new_tile("check", b_.tile_axes(p.axes), b_.real());
    auto add_up = [&] {
      b_.put(Reduce{sum, Reducer::Sum, {b_.stream().index}, b_.at(x.exponential), {}, false});
    };
    add_up();
    b_.open_when();
    extremum(p, x);
    move(k);
    exponential(p, x);
    add_up();
    b_.close_when(logical_not(less_equal(b_.at(sum), speculative_limit)), b_.kernel().tile(sum).axes, true);
    return;
  }
  extremum(p, x);
  if (guard == Guard::Always) {
    move(k);
  } else {
    Expr above = b_.at(p.var);
    if (guard == Guard::Threshold)
      above =
          above + b_.scalar(simplify(Expr::real(threshold_bits * ln2) / bake(b_.program().axes, p.scale)));
    b_.open_when();
    move(k);
    b_.close_when(less(above, b_.at(p.next)), b_.kernel().tile(p.var).axes, false);
  }
  if (p.exponential) exponential(p, x);
}

/// ρ' = max(ρ, the chunk's maximum).
void PassBuilder::extremum(const Point& p, const PointParts& x) {
  const bool maximum = p.kind == Point::Kind::Maximum;
  const Reducer r = maximum ? Reducer::Max : Reducer::Min;
  Piece piece;
  piece.kind = Piece::Kind::Reduce;
  piece.reducer = r;
  piece.axes = {b_.stream().index};
  piece.value = x.tile ? b_.at(x.tile) : x.u;
  if (!is_true(x.present) && !(x.tile && p.exponential)) {
    piece.present = x.present;
    piece.absent = number(identity_of(p.kind));
  }
  if (b_.resident()) {
    piece.tile = p.var;
    piece.comment = "point";
    b_.emit({piece});
    return;
  }
  piece.tile = b_.new_tile(p.var.name() + "_chunk", b_.tile_axes(p.axes), b_.real());
  b_.emit({piece});
  const Expr here = b_.at(piece.tile);
  b_.map(p.next, maximum ? max(b_.at(p.var), here) : min(b_.at(p.var), here), "point");
}

/// Components repaired from ρ to ρ', then ρ := ρ'. The point of a resident axis is where it is from the
/// start.
void PassBuilder::move(size_t k) {
  if (b_.resident()) return;
  repair(k);
  b_.map(s_.points[k].var, b_.at(s_.points[k].next));
}

void PassBuilder::repair(size_t k) {
  // Points move one after the other: the others stand still here, and what their moving would add is nothing.
  auto others_still = [&](Expr e) {
    return rewrite(e, [&](Expr x) -> Expr {
      if (x.is(Op::Read))
        for (size_t q = 0; q < s_.points.size(); ++q)
          if (q != k && x->sym == s_.points[q].next) return read(s_.points[q].var, x.args());
      if ((x.is(Op::Sub) && x.arg(0) == x.arg(1)) || (x.is(Op::Add) && simplify(x).is_constant(0))) return 0;
      if (x.is(Op::Select) && x.arg(1).is_constant(0) && x.arg(2).is_constant(0)) return 0;
      if (x.is(Op::Mul) &&
          std::any_of(x.args().begin(), x.args().end(), [](Expr f) { return f.is_constant(0); }))
        return 0;
      if (x.is(Op::Pow) && x.arg(0).is_constant(0) && !x.arg(1).is_constant(0)) return 0;
      return x;
    });
  };
  std::vector<Piece> pieces;
  for (const Component& c : s_.components) {
    Expr repaired = 0;
    for (const RepairTerm& t : c.repair) {
      const Component& from = s_.components[size_t(t.component)];
      const Expr factor = others_still(t.factor);
      if (!factor.is_constant(0)) repaired = repaired + factor * read_at(from.var, from.axes);
    }
    repaired = b_.tiled(repaired);
    if (repaired == b_.at(c.var)) continue;
    Piece piece;
    piece.tile = c.var;
    piece.value = repaired;
    piece.comment = "repair";
    pieces.push_back(piece);
  }
  b_.emit(std::move(pieces), true);
}

/// E = exp(scale·(u − ρ)). The difference comes first: it is exact where u and ρ are close, however large they
/// are. A point at its identity counts as 0: the row has seen nothing.
void PassBuilder::exponential(const Point& p, const PointParts& x) {
  exponential_of(p, x.tile ? b_.at(x.tile) : x.u, x.exponential, fmt::format("exp(u - {})", p.var.name()));
}

void PassBuilder::exponential_of(const Point& p, Expr u, Sym target, const std::string& comment) {
  Sym row = b_.new_tile("g", b_.tile_axes(p.axes), b_.real());
  b_.map(row, select(equal(b_.at(p.var), number(identity_of(p.kind))), 0, b_.at(p.var)));
  b_.map(target, exp2(times(u - b_.at(row), b_.binary_scale(p.scale))), comment);
}

/// E = exp(scale·(u − ρ)) from a point that may lie far below u, or be −inf: then E is inf or NaN, and the slow
/// path follows. Where every input is rounded to 16 bits, scale·ρ is rounded before it is subtracted, which
/// leaves one fused operation for each element; the error of that grows with ρ, so that rows far from 0 take
/// the slow path as well.
void PassBuilder::speculative_exponential(const Point& p, const PointParts& x) {
  const Expr u = x.tile ? b_.at(x.tile) : x.u, scale = b_.binary_scale(p.scale);
  const std::string comment = fmt::format("exp(u - {})", p.var.name());
  const auto& inputs = b_.program().inputs;
  const bool coarse = std::all_of(inputs.begin(), inputs.end(), [](const Input& input) {
    return !is_float(input.dtype) || mantissa_bits(input.dtype) <= mantissa_bits(DType::f16);
  });
  if (!coarse) {
    b_.map(x.exponential, exp2(times(u - b_.at(p.var), scale)), comment);
    return;
  }
  Sym row = b_.new_tile("g", b_.tile_axes(p.axes), b_.real());
  const Expr scaled = b_.at(p.var) * scale;
  b_.map(row, select(less_equal(make(Op::Abs, {scaled}), rounded_limit), scaled, -Expr::infinity()));
  b_.map(x.exponential, exp2(u * scale - b_.at(row)), comment);
}

/// ρ' = ρ + (Σ(u − ρ) seen before and here) / (their weight).
void PassBuilder::move_mean(size_t k) {
  const Point& p = s_.points[k];
  const Component &sum = s_.components.at(size_t(p.sum)), &weight = s_.components.at(size_t(p.weight));
  auto chunk_value = [&](const Component& c) {
    return b_.new_tile(c.var.name() + "_chunk", b_.tile_axes(c.axes), b_.real());
  };
  Sym s = chunk_value(sum), n;
  if (auto known = chunk_values_.find(size_t(p.weight)); known != chunk_values_.end()) n = known->second;
  std::vector<Piece> pieces{lift(size_t(p.sum), s, false, b_.resident() ? p.var : Expr())};
  if (!n) {
    n = chunk_value(weight);
    pieces.push_back(lift(size_t(p.weight), n, false));
    std::vector<Sym> read = tensors_read(weight.lift);
    if (std::find(read.begin(), read.end(), p.var) == read.end()) chunk_values_[size_t(p.weight)] = n;
  }
  b_.emit(std::move(pieces));
  if (b_.resident()) {
    b_.map(p.var, select(equal(b_.at(n), 0), 0, b_.at(s) / b_.at(n)), "point");
    return;
  }
  // The number seen may vary along fewer axes than the point does: its sum is taken once.
  Sym seen = b_.new_tile(weight.var.name() + "_seen", b_.kernel().tile(n).axes, b_.real());
  b_.map(seen, b_.at(weight.var) + b_.at(n));
  b_.map(
      p.next,
      select(equal(b_.at(seen), 0), b_.at(p.var), b_.at(p.var) + (b_.at(sum.var) + b_.at(s)) / b_.at(seen)),
      "point");
  move(k);
}

/// The lists of `keys` and the component beside it take in the chunk.
void PassBuilder::list(const Component& keys) {
  const Component& indices = s_.components[size_t(keys.beside)];
  if (b_.resident())
    for (const Component* c : {&keys, &indices}) b_.map(c->var, number(identity(c->combine)));
  const Expr present = b_.condition(b_.tiled(keys.present));
  const bool masked = !is_true(present);
  Expr key = b_.tiled(keys.lift, present);
  if (!key.is(Op::Read) && !key.args().empty()) {
    Piece piece;
    piece.tile = b_.new_tile("K", b_.axes_in(key), b_.real());
    piece.value = key;
    if (masked && b_.axes_in(present).size() <= b_.kernel().tile(piece.tile).axes.size()) {
      piece.present = present;
      piece.absent = number(identity(Reducer::Topk));
    }
    key = b_.at(piece.tile);
    b_.emit({piece});
  }
  b_.put(Rank{keys.var, indices.var, keys.rank, b_.stream().index, key, Expr(b_.stream().index),
              masked ? present : Expr()},
         keys.meaning);
}

/// The component's lift over the chunk into `target`. `without`: a point's symbol whose value counts as 0 (it
/// has none yet).
Piece PassBuilder::lift(size_t index, Sym target, bool accumulate, Expr without) {
  const Component& c = s_.components[index];
  Expr present = b_.tiled(c.present);
  bool vanishes = false;  // absent elements add 0 by themselves
  Expr e = rewrite(c.lift, [&](Expr x) {
    if (without && x.is(Op::Read) && x->sym == without->sym) return Expr(0);
    for (size_t k = 0; k < s_.points.size(); ++k)
      if (int sign = parts_[k].difference ? is_difference(x, s_.points[k]) : 0)
        return sign > 0 ? b_.at(parts_[k].difference) : -b_.at(parts_[k].difference);
    if (!x.is(Op::Exp)) return x;
    for (size_t k = 0; k < s_.points.size(); ++k) {
      const Point& p = s_.points[k];
      if (!p.exponential || !provably_equal(x.arg(0), exponent(p))) continue;
      PointParts& parts = parts_[k];
      if (is_true(p.present) || p.present == c.present) {
        vanishes = vanishes || !is_true(p.present);
        return b_.at(parts.exponential);
      }
      // Elements that the point does not see: exponentials of their own, from values that are not selected
      // away.
      Sym unmasked = b_.new_tile("E", b_.kernel().tile(parts.exponential).axes, b_.real());
      exponential_of(p, parts.u, unmasked);
      return b_.at(unmasked);
    }
    return x;
  });
  e = b_.tiled(e, present);
  Piece piece;
  piece.comment = c.meaning;
  const std::vector<Sym> stream{b_.stream().index};
  if (c.combine == Reducer::Sum) {
    if (!b_.factorise(e, stream, b_.kernel().tile(target).axes, piece)) piece.kind = Piece::Kind::Reduce;
  } else {
    piece.kind = Piece::Kind::Reduce;
  }
  piece.tile = target;
  piece.axes = stream;
  piece.reducer = c.combine;
  piece.value = e;
  piece.accumulate = accumulate;
  if (!is_true(present)) {
    // exp(−inf) = 0 ends an absent term, unless another factor may be NaN or infinite.
    size_t others = 0;
    for (Expr f : e.is(Op::Mul) ? e.args() : std::vector<Expr>{e})
      if (!is_scalar(f)) ++others;
    if (piece.kind == Piece::Kind::Dot || !vanishes || others > 1) {
      piece.present = present;
      piece.absent = number(identity(c.combine));
    }
  }
  return piece;
}

/// 1 for scale·(u − ρ), −1 for its negative, else 0.
int PassBuilder::is_difference(Expr x, const Point& p) const {
  if (!x.is(Op::Add) && !x.is(Op::Sub)) return 0;
  const Expr difference = exponent(p);
  return simplify(x - difference).is_constant(0) ? 1 : simplify(x + difference).is_constant(0) ? -1 : 0;
}

/// scale·(u − ρ) as a tile where several lifts hold it as a factor.
void PassBuilder::differences() {
  for (size_t k = 0; k < s_.points.size(); ++k) {
    if (varies_inside(s_.points[k])) continue;
    int holders = 0;
    for (const Component& c : s_.components) {
      bool holds = is_difference(c.lift, s_.points[k]);
      rewrite(c.lift, [&](Expr x) {
        for (Expr a : x.is(Op::Exp) ? std::vector<Expr>{} : x.args())
          holds = holds || is_difference(a, s_.points[k]);
        return x;
      });
      holders += holds;
    }
    if (holders < 2) continue;
    PointParts& x = parts_[k];
    const Expr u = x.tile && is_true(x.present) ? b_.at(x.tile) : x.u;
    const Expr difference = u - b_.at(s_.points[k].var);
    const Expr scale = bake(b_.program().axes, s_.points[k].scale);
    x.difference = b_.new_tile("D", b_.axes_in(difference), b_.real());
    Piece piece;
    piece.tile = x.difference;
    piece.value = scale.is_constant(1) ? difference : difference * b_.scalar(scale);
    b_.emit({piece});
  }
}

void PassBuilder::lifts() {
  differences();
  std::vector<Piece> pieces;
  for (size_t k = 0; k < s_.components.size(); ++k) {
    const Component& c = s_.components[k];
    if (c.listed()) continue;
    auto known = chunk_values_.find(k);
    if (known == chunk_values_.end()) {
      pieces.push_back(lift(k, c.var, !b_.resident()));
      continue;
    }
    Piece piece;
    piece.tile = c.var;
    piece.value = b_.resident() ? b_.at(known->second) : b_.at(c.var) + b_.at(known->second);
    piece.comment = c.meaning;
    pieces.push_back(piece);
  }
  b_.emit(std::move(pieces));
  for (const Component& c : s_.components)
    if (c.combine == Reducer::Topk) list(c);
  // What was exponentiated serves the outputs of a resident row as well.
  if (!b_.resident()) return;
  for (size_t k = 0; k < s_.points.size(); ++k)
    if (parts_[k].exponential && is_true(parts_[k].present)) {
      const Expr scale = bake(b_.program().axes, s_.points[k].scale);
      b_.remember_exponential(simplify(scale * parts_[k].u - scale * b_.at(s_.points[k].var)),
                              parts_[k].exponential);
    }
}

void merge_state(KernelBuilder& b, const State& s, const std::vector<std::pair<Sym, Sym>>& other) {
  std::vector<std::pair<Sym, Sym>> own;
  for (Sym tile : PassBuilder::tiles(s)) own.emplace_back(tile, tile);
  Merge m = merge(s, own, other);
  for (size_t k = 0; k < s.points.size(); ++k) {
    Piece piece;
    piece.tile = s.points[k].next;
    piece.value = b.tiled(m.points[k]);
    piece.comment = "point";
    b.emit({piece});
  }
  std::vector<Piece> pieces;
  for (size_t k = 0; k < s.components.size(); ++k) {
    if (s.components[k].listed()) continue;
    Piece piece;
    piece.tile = s.components[k].var;
    piece.value = b.tiled(m.components[k]);
    piece.comment = "merge";
    pieces.push_back(piece);
  }
  b.emit(std::move(pieces), true);
  for (const Point& p : s.points) b.map(p.var, b.at(p.next));
  const auto tile_of = [&](Sym component) {
    for (const auto& [from, to] : other)
      if (from == component) return to;
    TW_CHECK(false, "the other state lacks " + component.name());
  };
  for (const Component& c : s.components) {
    if (c.combine != Reducer::Topk) continue;
    // The other list runs along a copy of the axis of ranks.
    const Sym keys = tile_of(c.var), indices = tile_of(s.components[size_t(c.beside)].var);
    Sym along;
    for (Sym a : b.kernel().tile(keys).axes)
      if (a.size() == c.rank.size()) along = a;
    b.put(Rank{c.var, s.components[size_t(c.beside)].var, c.rank, along, b.at(keys), b.at(indices), {}},
          "merge");
  }
}

}  // namespace tilewright
