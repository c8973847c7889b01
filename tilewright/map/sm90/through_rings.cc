// Register tiles that every chunk loads come through rings in shared memory.
#include <algorithm>
#include <iterator>

#include "tilewright/map/sm90/context.h"
#include "tilewright/tile/statements.h"

namespace tilewright::hopper {
namespace {

bool holds(const std::vector<Sym>& v, Sym s) { return std::find(v.begin(), v.end(), s) != v.end(); }

/// What the bulk copy engine may bring: elements of two bytes as the array holds them, at indices that are no table's.
bool may_come_in_bulk(const Context& c, const Load& load, const Tile& t) {
  const Input* input = c.program.input(load.tensor);
  if (!input || input->dtype != t.dtype || bytes(t.dtype) != 2 || load.present || t.axes.empty() ||
      t.axes.size() > 2)
    return false;
  for (Sym a : t.axes)
    if (depends_on(load.index.back(), a) && !begins_at_units(c, load, a, t.dtype)) return false;
  return std::all_of(load.index.begin(), load.index.end(), [](Expr e) { return tensors_read(e).empty(); });
}

}  // namespace

void load_through_rings(Context& c) {
  if (!c.row || c.loaders == 0 || c.layout != LayoutClass::Aligned) return;
  std::map<Sym, int> writers;
  for_each_stmt(c.kernel.body, [&](const Stmt& s) {
    for (Sym t : all_written(s)) ++writers[t];
  });
  for (Stmt& outer : c.kernel.body) {
    auto* loop = std::get_if<Loop>(&outer.node);
    if (!loop || c.axis(loop->axis).kind == KernelAxis::Kind::Resident) continue;
    Body body, first;  // what is needed first comes first
    for (Stmt& s : loop->body) {
      auto* load = std::get_if<Load>(&s.node);
      const Tile tile = load ? c.tile(load->tile) : Tile{};
      // Two axes beside the rows lie in shared memory anyway.
      const bool wanted =
          load && tile.level == Level::Registers && writers[tile.sym] == 1 && holds(tile.axes, loop->axis) &&
          (tile.axes.size() == 1 || holds(tile.axes, c.row)) && may_come_in_bulk(c, *load, tile);
      if (!wanted) {
        body.push_back(std::move(s));
        continue;
      }
      Tile ring = tile;
      ring.sym = Sym::fresh({.name = tile.sym.name() + "_ring", .kind = SymbolKind::Tile});
      ring.level = Level::Shared;
      ring.slots = std::max(2, c.tiles.plan.stages);
      c.kernel.tiles.push_back(ring);
      c.through_rings.push_back(ring.sym);
      const Expr held = read(ring.sym, std::vector<Expr>(tile.axes.begin(), tile.axes.end()));
      first.push_back({Load{ring.sym, load->tensor, load->index, {}}, s.comment});
      body.push_back({Map{tile.sym, held, {}}, {}});
    }
    std::move(body.begin(), body.end(), std::back_inserter(first));
    loop->body = std::move(first);
  }
}

}  // namespace tilewright::hopper
