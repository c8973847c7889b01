// Indices that are read from arrays (pages of a cache, rows of a table): who copies a tile reads them from memory itself.
#include <algorithm>
#include <functional>

#include "tilewright/map/sm90/context.h"
#include "tilewright/tile/statements.h"

namespace tilewright::hopper {
namespace {

/// What a load takes, as an expression over the axes of its tile; −1 where an index lies outside of the array, so that nothing is copied there.
Expr value_of(const Context& c, const Load& load) {
  size_t at = 0;
  Expr inside;
  for (const Dim& d : c.dims(load.tensor))
    for (Sym axis : d.pieces) {
      const Expr index = load.index[at++];
      const bool single = std::any_of(c.kernel.grid.begin(), c.kernel.grid.end(), [&](const KernelAxis& g) {
        return g.index == axis && g.block == 1 && index == Expr(axis);
      });
      if (single) continue;
      const Axis& a = c.program.axis(axis);
      const Expr fits =
          logical_and(less_equal(Expr(0), index), less(index, a.baked() ? a.size : Expr(axis.size())));
      inside = inside ? logical_and(inside, fits) : fits;
    }
  const Expr value = read(load.tensor, load.index);
  return inside ? select(inside, value, Expr(-1)) : value;
}

}  // namespace

void read_indices_in_place(Context& c) {
  std::map<Sym, const Load*> loaded;
  for_each_stmt(c.kernel.body, [&](const Stmt& s) {
    const Load* load = std::get_if<Load>(&s.node);
    if (load != nullptr && c.tile(load->tile).level == Level::Registers &&
        is_integer(c.tile(load->tile).dtype))
      loaded.emplace(load->tile, load);
  });
  const std::function<Expr(Expr)> in_place = [&](Expr e) {
    return rewrite(e, [&](Expr x) {
      if (!x.is(Op::Read)) return x;
      const auto it = loaded.find(x->sym);
      if (it == loaded.end() || it->second->present) return x;
      Substitution at;
      const std::vector<Sym>& axes = c.tile(x->sym).axes;
      for (size_t a = 0; a < axes.size(); ++a) at.emplace_back(axes[a], x.arg(int(a)));
      return in_place(substitute(value_of(c, *it->second), at));
    });
  };
  const auto reads_tile = [](Expr e) {
    if (!e) return false;
    const std::vector<Sym>& all = tensors_read(e);
    return std::any_of(all.begin(), all.end(), [](Sym s) { return s.kind() == SymbolKind::Tile; });
  };
  bool any = false;
  for_each_stmt(c.kernel.body, [&](Stmt& s) {
    Load* load = std::get_if<Load>(&s.node);
    if (load == nullptr || c.tile(load->tile).level != Level::Shared) return;
    for (Expr& index : load->index)
      if (reads_tile(index)) index = in_place(index), any = true;
    if (reads_tile(load->present)) load->present = in_place(load->present), any = true;
  });
  if (!any) return;
  // What nothing else reads need not be loaded.
  std::set<Sym> read;
  for_each_stmt(c.kernel.body, [&](const Stmt& s) {
    for (Sym t : reads(c.kernel, s)) read.insert(t);
  });
  const std::function<void(Body&)> sweep = [&](Body& body) {
    std::erase_if(body, [&](const Stmt& s) {
      const Load* load = std::get_if<Load>(&s.node);
      return load != nullptr && loaded.count(load->tile) && !read.count(load->tile);
    });
    for (Stmt& s : body)
      if (Body* inner = inner_body(s)) sweep(*inner);
  };
  sweep(c.kernel.body);
  std::erase_if(c.kernel.tiles, [&](const Tile& t) { return loaded.count(t.sym) && !read.count(t.sym); });
}

}  // namespace tilewright::hopper
