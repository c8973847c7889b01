#include "tilewright/map/cpu/lanes.h"

#include <algorithm>
#include <set>

#include "tilewright/map/cpu/pairs.h"
#include "tilewright/support/error.h"
#include "tilewright/tile/statements.h"

namespace tilewright::cpu {
namespace {

int64_t pad(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

/// The axis of `axes` that the last memory dimensions of an access run along; null if none.
Sym innermost(const std::vector<Expr>& index, const std::vector<Sym>& axes) {
  for (size_t k = index.size(); k-- > 0;)
    for (Sym a : axes)
      if (depends_on(index[k], a)) return a;
  return {};
}

DType real_of(const TileKernel& k) {
  for (const Tile& t : k.tiles)
    if (t.dtype == DType::f64) return DType::f64;
  return DType::f32;
}

std::map<Sym, DType> held_types(const TileKernel& k, DType real) {
  std::set<Sym> in_products, elsewhere;
  const auto use = [&](Expr e) {
    if (e)
      for (Sym s : tensors_read(e)) elsewhere.insert(s);
  };
  for_each_stmt(k.body, [&](const Stmt& s) {
    if (const Dot* d = std::get_if<Dot>(&s.node)) {
      in_products.insert({d->a, d->b});
      use(d->present);
      return;
    }
    for (Sym t : reads(k, s)) elsewhere.insert(t);
    if (const Load* l = std::get_if<Load>(&s.node)) {
      for (Expr e : l->index) use(e);
      use(l->present);
    }
  });
  std::map<Sym, DType> held;
  for (const Tile& t : k.tiles) {
    const bool factor = t.use == Tile::Use::Operand && in_products.count(t.sym) && !elsewhere.count(t.sym);
    held[t.sym] = is_float(t.dtype) || factor ? real : t.dtype;
  }
  return held;
}

/// Axes that may be cut into panels: those of the group, and in front of them streamed ones that a product carries into its result while it sums over
/// another streamed axis (nested.h). There each part of both operands is read anew for each chunk, so that to pack the chunk's serves all rows of the
/// block and leaves the rows where they lie.
std::vector<KernelAxis> panel_candidates(const TileKernel& k) {
  const auto streamed = [&](Sym a) { return k.axis(a).kind == KernelAxis::Kind::Stream; };
  std::vector<KernelAxis> found;
  for (const KernelAxis& a : k.inner) {
    bool nested = false;
    for_each_stmt(k.body, [&](const Stmt& s) {
      const Dot* d = std::get_if<Dot>(&s.node);
      nested = nested || (d && contains_axis(k.tile(d->tile).axes, a.index) &&
                          std::any_of(d->axes.begin(), d->axes.end(), streamed));
    });
    if (nested && a.kind == KernelAxis::Kind::Stream) found.push_back(a);
  }
  for (const KernelAxis& a : k.grid)
    if (a.kind == KernelAxis::Kind::Group) found.push_back(a);
  return found;
}

/// The long axis that one operand carries into the results of most products. Of several the first along which such an operand lies contiguous in
/// memory, so that packing it moves vectors; else the first.
Sym choose_panel_axis(const TileKernel& k, int width) {
  Sym best;
  std::pair<int, bool> best_worth{0, false};
  for (const KernelAxis& a : panel_candidates(k)) {
    if (a.block < width) continue;
    std::set<Sym> operands;
    std::pair<int, bool> worth{0, false};
    for_each_stmt(k.body, [&](const Stmt& s) {
      const Dot* d = std::get_if<Dot>(&s.node);
      if (!d || !contains_axis(k.tile(d->tile).axes, a.index)) return;
      const bool in_a = contains_axis(k.tile(d->a).axes, a.index);
      if (in_a == contains_axis(k.tile(d->b).axes, a.index)) return;
      ++worth.first;
      operands.insert(in_a ? d->a : d->b);
    });
    for (size_t made = 0; made != operands.size();) {  // and what they are made of
      made = operands.size();
      for_each_stmt(k.body, [&](const Stmt& s) {
        if (const Map* m = std::get_if<Map>(&s.node); m && operands.count(m->tile))
          for (Sym t : reads(k, s))
            if (contains_axis(k.tile(t).axes, a.index)) operands.insert(t);
      });
    }
    for_each_stmt(k.body, [&](const Stmt& s) {
      if (const Load* l = std::get_if<Load>(&s.node); l && operands.count(l->tile))
        worth.second = worth.second || innermost(l->index, k.tile(l->tile).axes) == a.index;
    });
    if (worth > best_worth) {
      best = a.index;
      best_worth = worth;
    }
  }
  return best;
}

/// Contiguous axes of tiles without the panel axis. Operands keep the order of their arrays where that axis is long enough; what is computed
/// from them follows; the rest takes its longest axis.
struct FastestAxes {
  static constexpr int64_t least_rows = 4;  ///< that make packing an operand worth while

  const TileKernel& k;
  int width;
  std::map<Sym, Sym> chosen;

  void vote(std::map<Sym, std::map<Sym, int64_t>>& votes, Sym tile, Sym axis, int64_t weight) {
    if (axis && contains_axis(k.tile(tile).axes, axis)) votes[tile][axis] += weight;
  }

  Sym longest(const Tile& t) const {
    Sym best;
    for (Sym a : t.axes)
      if (!best || block_of(k, a) >= block_of(k, best)) best = a;
    return best;
  }

  void operands() {
    for_each_stmt(k.body, [&](const Stmt& s) {
      const Load* l = std::get_if<Load>(&s.node);
      if (!l || chosen.count(l->tile)) return;
      const Tile& t = k.tile(l->tile);
      Sym a = innermost(l->index, t.axes);
      if (a && block_of(k, a) < width) a = longest(t);
      if (a) chosen[l->tile] = a;
    });
  }

  /// Lanes of products whose operands are contiguous along contracted axes only: one operand is packed along its longest free axis, once for all rows
  /// of the other.
  void products() {
    for_each_stmt(k.body, [&](const Stmt& s) {
      const Dot* x = std::get_if<Dot>(&s.node);
      if (!x || chosen.count(x->tile)) return;
      Sym side, lane, packed, along;
      int64_t gain = 0;
      for (const auto& [mine, other] : {std::pair(x->a, x->b), std::pair(x->b, x->a)}) {
        const std::vector<Sym>&own = k.tile(mine).axes, &others = k.tile(other).axes;
        int64_t rows = 1;  // each packed element serves so many
        for (Sym a : others)
          if (!contains_axis(own, a)) rows *= block_of(k, a);
        for (Sym a : own) {
          if (contains_axis(x->axes, a) || contains_axis(others, a) || block_of(k, a) < width) continue;
          const auto known = chosen.find(mine);
          if (known != chosen.end() && known->second == a) {
            side = mine;
            lane = a;
          } else if (rows >= least_rows && rows * block_of(k, a) > gain) {
            packed = mine;
            along = a;
            gain = rows * block_of(k, a);
          }
        }
      }
      if (!side && !packed) return;
      chosen[side ? side : packed] = chosen[x->tile] = side ? lane : along;
    });
  }

  void others() {
    for (size_t round = 0; round < k.tiles.size(); ++round) {
      std::map<Sym, std::map<Sym, int64_t>> votes;
      for_each_stmt(k.body, [&](const Stmt& s) {
        if (const Store* x = std::get_if<Store>(&s.node)) {
          if (!chosen.count(x->tile)) vote(votes, x->tile, innermost(x->index, k.tile(x->tile).axes), 1);
          return;
        }
        const Sym out = written(s);
        if (!out || chosen.count(out)) return;
        for (Sym in : reads(k, s)) {
          int64_t weight = 1;
          for (Sym a : k.tile(in).axes) weight *= block_of(k, a);
          if (auto it = chosen.find(in); it != chosen.end()) vote(votes, out, it->second, weight);
        }
      });
      bool changed = false;
      for (const auto& [tile, axes] : votes) {
        auto best = std::max_element(axes.begin(), axes.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
        if (block_of(k, best->first) < width) continue;
        chosen[tile] = best->first;
        changed = true;
      }
      if (!changed) break;
    }
    for (const Tile& t : k.tiles)
      if (!chosen.count(t.sym)) chosen[t.sym] = longest(t);
  }
};

}  // namespace

int64_t block_of(const TileKernel& k, Sym axis) { return k.axis(axis).block; }

int rows_of_product(int vectors, int registers) {
  const int free = registers - vectors - 1;  // lanes operand and one broadcast
  int rows = 1;
  for (int r : {2, 4, 8})
    if (r * vectors <= free) rows = r;
  return rows;
}

int vectors_of_panel(int64_t elements, int width, int registers, bool rows) {
  const int64_t vectors = (elements + width - 1) / width;
  int best = 1;
  double best_cost = 0;
  for (int c : {4, 3, 2, 1}) {
    if (c == 4 && rows) continue;
    // A micro-kernel needs about ten accumulators to hide the latency of its additions.
    const double rate = std::min(1.0, 0.4 + 0.05 * c * (rows ? rows_of_product(c, registers) : 1));
    const double cost = double(pad(vectors, c)) / rate;
    if (best_cost == 0 || cost < best_cost) {
      best = c;
      best_cost = cost;
    }
  }
  return best;
}

Lanes choose_lanes(const TileKernel& k, const Machine& m) {
  Lanes lanes;
  lanes.real = real_of(k);
  lanes.held = held_types(k, lanes.real);
  lanes.width = m.vector.bytes / bytes(lanes.real);
  lanes.panel_axis = choose_panel_axis(k, lanes.width);
  FastestAxes fastest{k, lanes.width, {}};
  if (lanes.panel_axis)
    for (const Tile& t : k.tiles)
      if (contains_axis(t.axes, lanes.panel_axis)) fastest.chosen[t.sym] = lanes.panel_axis;
  fastest.operands();
  fastest.products();
  fastest.others();
  lanes.fastest = std::move(fastest.chosen);
  lanes.by_pairs = pair_products(lanes, k, m.vector.bf16);
  std::set<Sym> of_tiles;
  for (const auto& [dot, product] : lanes.by_pairs) {
    lanes.held[product.lanes] = lanes.held[product.broadcast] = DType::bf16;
    lanes.paired[product.lanes] = product.inner;
    lanes.fastest[product.broadcast] = product.inner;
    if (m.vector.bf16 == Bf16Unit::Tiles) of_tiles.insert(lanes.fastest[product.lanes]);
  }
  for (const auto& [tile, axis] : lanes.fastest)
    if (axis) lanes.vectors[axis] = 1;
  std::map<Sym, bool> with_rows;
  for_each_stmt(k.body, [&](const Stmt& s) {
    const Dot* d = std::get_if<Dot>(&s.node);
    const auto product = d ? product_axes(lanes, k, *d) : std::nullopt;
    if (product) with_rows[product->lane] = with_rows[product->lane] || product->row;
  });
  for (const auto& [lane, rows] : with_rows)
    lanes.vectors[lane] = of_tiles.count(lane)
                              ? vectors_of_tiles(block_of(k, lane), lanes.width)
                              : vectors_of_panel(block_of(k, lane), lanes.width, m.vector.registers, rows);
  return lanes;
}

std::optional<ProductAxes> product_axes(const Lanes& lanes, const TileKernel& k, const Dot& dot) {
  std::map<Sym, int64_t> extents;
  const auto operand = [&](Sym tile) {
    const Tile& t = k.tile(tile);
    for (Sym a : t.axes) extents[a] = block_of(k, a);
    return Operand{t.axes, lanes.fastest.at(tile)};
  };
  for (Sym t : {dot.tile, dot.a, dot.b})
    if (!is_float(lanes.held.at(t))) return std::nullopt;
  const Operand d = operand(dot.tile), a = operand(dot.a), b = operand(dot.b);
  return product_axes(d, dot.a, a, dot.b, b, dot.axes, extents);
}

Layout layout_of(const Lanes& lanes, const TileKernel& k, const Tile& tile) {
  const Sym fastest = lanes.fastest.at(tile.sym);
  const auto in_pairs = lanes.paired.find(tile.sym);
  const Sym paired = in_pairs == lanes.paired.end() ? Sym() : in_pairs->second;
  const int64_t words =
      lanes.held.at(tile.sym) == DType::bf16 && !paired ? 2 : 1;  // of pairs, in whole vectors
  std::vector<int64_t> shape;
  for (Sym a : tile.axes) {
    const int64_t block =
        std::max<int64_t>(1, block_of(k, a));  // a literal size of 0 has a place, and no elements
    shape.push_back(a == fastest ? pad(block, words * lanes.panel(a)) : a == paired ? pad(block, 2) : block);
  }
  if (!fastest) return Layout::row_major(shape);
  const int at = int(std::find(tile.axes.begin(), tile.axes.end(), fastest) - tile.axes.begin());
  const bool panels = fastest == lanes.panel_axis;
  const int64_t run = panels ? lanes.panel(fastest) : shape[at];
  std::vector<Digit> digits{{at, run, 1, Digit::To::Offset, paired ? 2 : 1}};
  int64_t stride = run;
  if (paired) {
    const int a = int(std::find(tile.axes.begin(), tile.axes.end(), paired) - tile.axes.begin());
    digits.push_back({a, 2, 1, Digit::To::Offset, 1});
    digits.push_back({a, shape[size_t(a)] / 2, 2, Digit::To::Offset, 2 * run});
    stride = run * shape[size_t(a)];
  }
  for (int a = int(shape.size()) - 1; a >= 0; --a) {
    if (a == at || tile.axes[size_t(a)] == paired) continue;
    digits.push_back({a, shape[a], 1, Digit::To::Offset, stride});
    stride *= shape[a];
  }
  if (panels) digits.push_back({at, shape[at] / run, run, Digit::To::Offset, stride});
  return Layout(std::move(shape), std::move(digits));
}

Sym vector_axis(const Operand& result, const std::vector<Sym>& reduced, const std::vector<Operand>& reads,
                const std::map<Sym, int64_t>& extents) {
  std::vector<Sym> candidates;
  if (result.fastest) candidates.push_back(result.fastest);
  for (const Operand& r : reads)
    if (r.fastest && contains_axis(reduced, r.fastest) && !contains_axis(candidates, r.fastest))
      candidates.push_back(r.fastest);
  if (candidates.empty() && !reduced.empty()) {
    // Nothing is contiguous (a count): any reduced axis will do.
    candidates.push_back(reduced.back());
  }
  Sym best;
  int64_t best_cost = 0;
  for (Sym c : candidates) {
    int64_t cost = 0;  // elements read one by one
    for (const Operand& r : reads) {
      if (!contains_axis(r.axes, c) || r.fastest == c) continue;
      int64_t n = 1;
      for (Sym a : r.axes)
        if (auto it = extents.find(a); it != extents.end()) n *= it->second;
      cost += n;
    }
    if (!best || cost < best_cost) {
      best = c;
      best_cost = cost;
    }
  }
  return best;
}

std::optional<ProductAxes> product_axes(const Operand& d, Sym a, const Operand& oa, Sym b, const Operand& ob,
                                        const std::vector<Sym>& contracted,
                                        const std::map<Sym, int64_t>& extents) {
  ProductAxes p;
  p.lane = d.fastest;
  if (!p.lane || contracted.empty()) return std::nullopt;
  const bool in_a = contains_axis(oa.axes, p.lane), in_b = contains_axis(ob.axes, p.lane);
  if (in_a == in_b || (in_a ? oa : ob).fastest != p.lane) return std::nullopt;
  const Operand& lanes = in_a ? oa : ob;
  const Operand& broadcast = in_a ? ob : oa;
  p.lanes = in_a ? a : b;
  p.broadcast = in_a ? b : a;
  const auto extent = [&](Sym s) {  // unknown where only an operand read where it lies has the axis
    const auto it = extents.find(s);
    return it == extents.end() ? int64_t(0) : it->second;
  };
  const auto longest = [&](Sym best, Sym s) { return !best || extent(s) > extent(best) ? s : best; };
  for (Sym s : d.axes)
    if (s != p.lane && contains_axis(broadcast.axes, s) && !contains_axis(lanes.axes, s))
      p.row = longest(p.row, s);
  for (Sym s : contracted)
    if (contains_axis(lanes.axes, s) || contains_axis(broadcast.axes, s)) p.inner = longest(p.inner, s);
  if (!p.inner) return std::nullopt;
  for (Sym s : d.axes)
    if (s != p.lane && s != p.row) p.outer.push_back(s);
  for (Sym s : contracted)
    if (s != p.inner) p.outer.push_back(s);
  return p;
}

Operand operand_of(const MappedKernel& k, Sym buffer) {
  const Buffer& b = k.buffer(buffer);
  Operand o;
  o.axes = b.axes;
  if (b.space == Space::Memory) {
    o.fastest = innermost(b.index, b.axes);
  } else {
    const int64_t unit = pair_axis(b) ? 2 : 1;  // neighbouring lanes are pairs
    for (size_t a = 0; a < b.axes.size(); ++a)
      for (const Digit& d : b.layout.digits())
        if (d.axis == int(a) && d.step == 1 && d.stride == unit) o.fastest = b.axes[a];
  }
  return o;
}

}  // namespace tilewright::cpu
