// The last step of building a kernel: statements stay what they are, tiles are merged and placed.
#include <algorithm>

#include "tilewright/tile/lifetime.h"
#include "tilewright/tile/lower.h"
#include "tilewright/tile/statements.h"

namespace tilewright {
namespace {

void rename_tile(TileKernel& k, Sym from, Sym to) {
  auto sym = [&](Sym& s) {
    if (s == from) s = to;
  };
  auto expr = [&](Expr& e) {
    if (!e || !contains_axis(tensors_read(e), from)) return;
    e = rewrite(e, [&](Expr x) { return x.is(Op::Read) && x->sym == from ? read(to, x.args()) : x; });
  };
  for_each_stmt(k.body, [&](Stmt& s) {
    if (auto* load = std::get_if<Load>(&s.node)) {
      sym(load->tile), expr(load->present);
      for (Expr& e : load->index) expr(e);
    } else if (auto* store = std::get_if<Store>(&s.node)) {
      sym(store->tile);
      for (Expr& e : store->index) expr(e);
    } else if (auto* map = std::get_if<Map>(&s.node)) {
      sym(map->tile), expr(map->value), expr(map->masked);
    } else if (auto* dot = std::get_if<Dot>(&s.node)) {
      sym(dot->tile), sym(dot->a), sym(dot->b), expr(dot->present);
    } else if (auto* reduce = std::get_if<Reduce>(&s.node)) {
      sym(reduce->tile), expr(reduce->value), expr(reduce->masked);
    } else if (auto* rank = std::get_if<Rank>(&s.node)) {
      sym(rank->keys), sym(rank->indices), expr(rank->value), expr(rank->at), expr(rank->present);
    } else if (auto* when = std::get_if<When>(&s.node)) {
      expr(when->condition);
    }
  });
}

/// Removes statements whose tile is not read afterwards, and maps of a tile to itself. True when something
/// went.
bool remove_dead(TileKernel& k) {
  Lifetime lifetime(k);
  std::set<const Stmt*> dead;
  for_each_stmt(k.body, [&](const Stmt& s) {
    const std::vector<Sym> tiles = all_written(s);
    const auto unread = [&](Sym tile) { return !lifetime.after(s).count(tile); };
    if (!tiles.empty() && std::all_of(tiles.begin(), tiles.end(), unread)) dead.insert(&s);
    if (auto* map = std::get_if<Map>(&s.node);
        map && !map->masked && map->value.is(Op::Read) && map->value->sym == map->tile)
      dead.insert(&s);
  });
  if (dead.empty()) return false;
  auto remove = [&](auto& self, Body& body) -> void {
    // Addresses are compared before anything moves.
    std::vector<bool> gone;
    for (Stmt& s : body) {
      gone.push_back(dead.count(&s) != 0);
      if (Body* inner = inner_body(s)) self(self, *inner);
    }
    Body kept;
    for (size_t i = 0; i < body.size(); ++i)
      if (!gone[i]) kept.push_back(std::move(body[i]));
    body = std::move(kept);
  };
  remove(remove, k.body);
  return true;
}

/// Rows of numbers keep their names; merging pays for chunks and accumulators.
bool is_large(const TileKernel& k, const Tile& t) {
  return t.axes.size() > 1 || std::any_of(t.axes.begin(), t.axes.end(),
                                          [&](Sym a) { return k.axis(a).kind != KernelAxis::Kind::Group; });
}

/// A map that reads a tile which ends there may write over it: both become one tile if they are never needed
/// at the same time elsewhere.
bool merge_one(TileKernel& k) {
  Lifetime lifetime(k);
  std::vector<std::pair<const Stmt*, std::set<Sym>>> during;  // found for the first candidate
  const auto live_during = [&]() -> const auto& {
    if (during.empty())
      for_each_stmt(k.body, [&](const Stmt& s) { during.emplace_back(&s, lifetime.during(s)); });
    return during;
  };
  Sym from, to;
  for_each_stmt(k.body, [&](const Stmt& stmt) {
    auto* map = std::get_if<Map>(&stmt.node);
    if (!map || from) return;
    const Tile& target = k.tile(map->tile);
    if (target.use == Tile::Use::Operand) return;
    std::vector<Sym> sources = tiles_read(k, map->value);
    if (map->masked)
      for (Sym s : tiles_read(k, map->masked))
        if (!contains_axis(sources, s)) sources.push_back(s);
    for (Sym s : sources) {
      const Tile& source = k.tile(s);
      if (s == map->tile || source.use == Tile::Use::Operand || source.dtype != target.dtype ||
          source.axes != target.axes || source.level != target.level || !is_large(k, source))
        continue;
      if (source.use == Tile::Use::State && target.use == Tile::Use::State) continue;
      bool apart = true;
      for (const auto& [other, there] : live_during()) {
        bool both = there.count(s) && there.count(map->tile);
        if (both && other != &stmt && !inner_body(*other)) apart = false;
      }
      // After the map the source must be dead, or both would hold different values.
      if (!apart || lifetime.after(stmt).count(s)) continue;
      if (target.use == Tile::Use::State)
        from = s, to = map->tile;
      else
        from = map->tile, to = s;
      break;
    }
  });
  if (!from) return false;
  rename_tile(k, from, to);
  return true;
}

/// Loads of tiles that contractions read, and of the tables that their indices read, come first in their
/// body.
void raise_loads(TileKernel& k, Body& body) {
  std::set<Sym> wanted;
  for (size_t i = body.size(); i-- > 0;) {
    if (Body* inner = inner_body(body[i])) raise_loads(k, *inner);
    auto* load = std::get_if<Load>(&body[i].node);
    if (!load || (k.tile(load->tile).level != Level::Shared && !wanted.count(load->tile))) continue;
    for (Sym s : reads(k, body[i])) wanted.insert(s);
    wanted.insert(load->tile);
  }
  // A load that reads a computed tile stays where it is.
  std::set<Sym> loaded;
  std::stable_partition(body.begin(), body.end(), [&](const Stmt& s) {
    auto* load = std::get_if<Load>(&s.node);
    if (!load || !wanted.count(load->tile)) return false;
    for (Sym t : reads(k, s)) {
      bool here = std::any_of(body.begin(), body.end(),
                              [&](const Stmt& other) { return contains_axis(all_written(other), t); });
      if (here && !loaded.count(t)) return false;
    }
    loaded.insert(load->tile);
    return true;
  });
}

}  // namespace

void tidy(TileKernel& k, int stages) {
  while (remove_dead(k)) {
  }
  while (merge_one(k)) {
    while (remove_dead(k)) {
    }
  }
  // Tiles in the order in which they are written.
  std::vector<Tile> used;
  for_each_stmt(k.body, [&](const Stmt& s) {
    for (Sym tile : all_written(s))
      if (std::none_of(used.begin(), used.end(), [&](const Tile& t) { return t.sym == tile; }))
        used.push_back(k.tile(tile));
  });
  k.tiles = std::move(used);
  for_each_stmt(k.body, [&](const Stmt& s) {
    auto* dot = std::get_if<Dot>(&s.node);
    if (!dot) return;
    for (Tile& t : k.tiles)
      if ((t.sym == dot->a || t.sym == dot->b) && t.use == Tile::Use::Operand) {
        t.level = Level::Shared;
        if (!t.kept) t.slots = stages;
      }
  });
  raise_loads(k, k.body);
  // Axes that nothing uses.
  std::erase_if(k.inner, [&](const KernelAxis& a) {
    if (a.kind != KernelAxis::Kind::Whole) return false;
    bool found = std::any_of(k.tiles.begin(), k.tiles.end(),
                             [&](const Tile& t) { return contains_axis(t.axes, a.index); });
    for_each_stmt(k.body, [&](const Stmt& s) { found = found || contains_axis(domain(k, s), a.index); });
    return !found;
  });
}

}  // namespace tilewright
