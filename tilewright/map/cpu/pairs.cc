#include "tilewright/map/cpu/pairs.h"

#include <algorithm>
#include <set>

#include "tilewright/expr/simplify.h"
#include "tilewright/tile/statements.h"

namespace tilewright::cpu {
namespace {

constexpr int64_t least_rows_of_pairs = 4;   ///< fewer do not pay for packing the lanes operand
constexpr int64_t least_rows_of_tiles = 16;  ///< fewer would all be left over

/// Tiles of bf16 that nothing but loads at fixed strides or nothing but maps write.
std::set<Sym> possible_factors(const TileKernel& k) {
  std::map<Sym, std::set<size_t>> writers;
  std::set<Sym> refused;
  for_each_stmt(k.body, [&](const Stmt& s) {
    for (Sym t : all_written(s)) writers[t].insert(s.node.index());
    if (const Load* l = std::get_if<Load>(&s.node)) {
      const std::vector<Sym>& axes = k.tile(l->tile).axes;
      writers[l->tile].insert(s.node.index());
      bool fixed = !l->present;
      for (Expr e : l->index) {
        const auto form = affine(e, axes);
        fixed = fixed && form && tensors_read(e).empty() &&
                std::all_of(form->coefficient.begin(), form->coefficient.end(),
                            [](Expr c) { return bool(c.rational()); });
      }
      if (!fixed) refused.insert(l->tile);
    } else if (!std::holds_alternative<Map>(s.node)) {
      for (Sym t : all_written(s)) refused.insert(t);
    }
  });
  std::set<Sym> found;
  for (const Tile& t : k.tiles)
    if (t.dtype == DType::bf16 && !refused.count(t.sym) && writers[t.sym].size() == 1) found.insert(t.sym);
  return found;
}

}  // namespace

std::map<const Dot*, PairProduct> pair_products(const Lanes& lanes, const TileKernel& k, Bf16Unit unit) {
  std::map<const Dot*, PairProduct> found;
  if (unit == Bf16Unit::None || lanes.real != DType::f32) return found;
  const std::set<Sym> factors = possible_factors(k);
  std::vector<const Dot*> all;
  for_each_stmt(k.body, [&](const Stmt& s) {
    const Dot* d = std::get_if<Dot>(&s.node);
    if (!d) return;
    all.push_back(d);
    if (!factors.count(d->a) || !factors.count(d->b) || d->axes.size() != 1) return;
    const auto p = product_axes(lanes, k, *d);
    const int64_t least = unit == Bf16Unit::Tiles ? least_rows_of_tiles : least_rows_of_pairs;
    if (!p || !p->row || block_of(k, p->row) < least || block_of(k, p->inner) < 2 ||
        block_of(k, p->lane) < lanes.width)
      return;
    if (lanes.panel_axis && contains_axis(k.tile(p->broadcast).axes, lanes.panel_axis)) return;
    found[d] = {p->lanes, p->broadcast, p->inner};
  });
  for (bool changed = true; changed;) {
    changed = false;
    for (const Dot* d : all) {
      const auto mine = found.find(d);
      for (auto it = found.begin(); it != found.end();) {
        const PairProduct& p = it->second;
        bool clash = false;
        for (Sym t : {d->a, d->b}) {
          if (t != p.lanes && t != p.broadcast) continue;
          clash = clash || mine == found.end() || mine->second.inner != p.inner ||
                  (t == p.lanes) != (t == mine->second.lanes);
        }
        if (clash && it != mine) {
          it = found.erase(it);
          changed = true;
        } else {
          ++it;
        }
      }
    }
  }
  return found;
}

int vectors_of_tiles(int64_t elements, int width) {
  const int column = std::max(1, 16 / width);
  return elements <= 16 ? column : std::min(4, 2 * column);
}

Sym pair_axis(const Buffer& b) {
  if (b.space != Space::Local || b.dtype != DType::bf16) return {};
  for (const Digit& d : b.layout.digits())
    if (d.step == 1 && d.stride == 1 && d.extent == 2) return b.axes[size_t(d.axis)];
  return {};
}

}  // namespace tilewright::cpu
