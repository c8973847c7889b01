// Tiles that registers cannot hold: two of their axes would lie along the same threads. They go to shared memory, with what they are made from.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tilewright/map/sm90/context.h"
#include "tilewright/support/error.h"
#include "tilewright/tile/statements.h"

namespace tilewright::hopper {
namespace {

class Crowded {
 public:
  explicit Crowded(Context& c) : c_(c) { walk(c.kernel.body, false); }

  void run() {
    for (size_t k = 0; k < c_.kernel.tiles.size(); ++k) {
      const Tile& t = c_.kernel.tiles[k];
      if (t.level == Level::Registers && beside_rows(t) > 1) share(t.sym, t.sym);
    }
  }

 private:
  struct Writers {
    bool loads = false, maps = false, others = false, streamed = false;
    std::vector<const Map*> values;
  };

  void walk(const Body& body, bool streamed) {
    for (const Stmt& s : body) {
      if (auto* loop = std::get_if<Loop>(&s.node))
        walk(loop->body, c_.axis(loop->axis).kind != KernelAxis::Kind::Resident);
      if (auto* when = std::get_if<When>(&s.node)) walk(when->body, streamed);
      const Sym tile = written(s);
      if (!tile) continue;
      Writers& w = writers_[tile];
      if (std::holds_alternative<Load>(s.node)) {
        w.loads = true;
        w.streamed = w.streamed || streamed;
      } else if (auto* m = std::get_if<Map>(&s.node)) {
        w.maps = true;
        w.values.push_back(m);
      } else {
        w.others = true;
      }
    }
  }

  int64_t beside_rows(const Tile& t) const {
    return std::count_if(t.axes.begin(), t.axes.end(), [&](Sym a) { return a != c_.row; });
  }

  void share(Sym tile, Sym wanted) {
    Tile& t = *std::find_if(c_.kernel.tiles.begin(), c_.kernel.tiles.end(),
                            [&](const Tile& x) { return x.sym == tile; });
    if (t.level != Level::Registers) return;
    const Writers& w = writers_[tile];
    if (w.others || (w.loads && w.maps) || t.use == Tile::Use::State ||
        (!w.loads && std::find(t.axes.begin(), t.axes.end(), c_.row) != t.axes.end())) {
      const Tile& of = c_.tile(wanted);
      std::string axes;
      for (Sym a : of.axes) axes += (axes.empty() ? "" : ", ") + a.written();
      throw UserError(
          Span{},
          fmt::format("tile {}[{}] has more than one axis along the same threads{}", wanted.name(), axes,
                      tile == wanted ? ""
                                     : fmt::format(", and is made from {}, which threads hold in registers",
                                                   tile.name())),
          fmt::format("group all of its axes but one{} in blocks of one element",
                      c_.row ? fmt::format(" and {}", c_.row.written()) : ""));
    }
    t.level = Level::Shared;
    if (w.loads) {
      t.slots = w.streamed ? std::max(1, c_.tiles.plan.stages) : 1;
      return;
    }
    c_.made.push_back({t.sym, {}, false});
    for (const Map* m : w.values)
      for (Expr e : {m->value, m->masked})
        if (e)
          for (Sym read : tensors_read(e))
            if (read.kind() == SymbolKind::Tile && read != tile) share(read, wanted);
  }

  Context& c_;
  std::map<Sym, Writers> writers_;
};

}  // namespace

void share_crowded(Context& c) { Crowded(c).run(); }

}  // namespace tilewright::hopper
