// Products in masked chunks: how terms that are absent contribute nothing.
#include <fmt/format.h>

#include <algorithm>

#include "tilewright/expr/simplify.h"
#include "tilewright/map/sm90/body.h"
#include "tilewright/support/error.h"
#include "tilewright/tile/index_range.h"
#include "tilewright/tile/statements.h"

namespace tilewright::hopper {
namespace {

bool writes(const Stmt& s, Sym tile) {
  std::vector<Sym> w = tiles_written(s);
  return std::find(w.begin(), w.end(), tile) != w.end();
}

/// The value of a Map in masked chunks at elements where `present` does not hold.
Expr where_absent(const Map& m, Expr present) {
  const Expr value = m.masked ? m.masked : m.value;
  return simplify(rewrite(value, [&](Expr x) { return x == present ? make(Op::Or, {}) : x; }));
}

/// All maps that may have written `tile` last before statement number `end` of `body` satisfy `holds`, and nothing else wrote it since.
template <class F>
bool last_writers(const Body& body, size_t end, Sym tile, const F& holds) {
  for (size_t k = end; k-- > 0;) {
    if (!writes(body[k], tile)) continue;
    if (auto* m = std::get_if<Map>(&body[k].node)) return holds(*m, k);
    auto* when = std::get_if<When>(&body[k].node);
    if (!when) return false;
    for (const Stmt& s : when->body) {
      if (!writes(s, tile)) continue;
      auto* m = std::get_if<Map>(&s.node);
      if (!m || !holds(*m, k)) return false;
    }
  }
  return false;
}

bool is_minus_infinity(Expr e) {
  return e == simplify(-Expr::infinity()) || e == Expr::real(-__builtin_inf());
}

/// −∞ where `present` does not hold, because it was selected so.
bool falls_out(const Body& body, size_t end, Expr e, Expr present) {
  if (e.is(Op::Mul)) {
    Expr tile;
    for (Expr f : e.args()) {
      if (f.is(Op::Read) && f->sym.kind() == SymbolKind::Tile && !tile) {
        tile = f;
      } else if (!provably_positive(f)) {
        return false;
      }
    }
    return tile && falls_out(body, end, tile, present);
  }
  if (!e.is(Op::Read) || e->sym.kind() != SymbolKind::Tile) return false;
  return last_writers(body, end, e->sym,
                      [&](const Map& m, size_t) { return is_minus_infinity(where_absent(m, present)); });
}

/// Zero where `present` does not hold: selected so, or the exponential of what falls out. An exponential of −∞ less a point that is −∞ itself is NaN, and a
/// row whose exponentials are NaN is computed again before they are used.
bool vanishes(const Body& body, size_t end, Sym tile, Expr present, int depth = 0) {
  if (depth > 8) return false;
  return last_writers(body, end, tile, [&](const Map& m, size_t at) {
    const Expr value = where_absent(m, present);
    if (value.is_constant(0)) return true;
    if (value.is(Op::Read) && value->sym.kind() == SymbolKind::Tile && value->sym != tile)
      return vanishes(body, at, value->sym, present, depth + 1);
    if (!value.is(Op::Exp2) && !value.is(Op::Exp)) return false;
    const Expr exponent = value.arg(0);
    const std::vector<Expr> terms = exponent.is(Op::Add)   ? exponent.args()
                                    : exponent.is(Op::Sub) ? std::vector<Expr>{exponent.arg(0)}
                                                           : std::vector<Expr>{exponent};
    return std::any_of(terms.begin(), terms.end(), [&](Expr t) { return falls_out(body, at, t, present); });
  });
}

bool is_axis_of(const Context& c, Sym tile, Sym axis) {
  const std::vector<Sym>& axes = c.tile(tile).axes;
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

std::vector<Sym> registers_read(const Context& c, Expr e) {
  std::vector<Sym> out;
  for (Sym t : tensors_read(e))
    if (t.kind() == SymbolKind::Tile && c.tile(t).level == Level::Registers) out.push_back(t);
  return out;
}

/// Something besides products under the same condition reads the tile.
bool read_elsewhere(const Context& c, Sym tile, Expr present) {
  bool found = false;
  for_each_stmt(c.kernel.body, [&](const Stmt& s) {
    if (inner_body(s)) {  // its condition alone: what is inside comes by itself
      auto* when = std::get_if<When>(&s.node);
      const std::vector<Sym> read = when ? tensors_read(when->condition) : std::vector<Sym>{};
      found = found || std::find(read.begin(), read.end(), tile) != read.end();
      return;
    }
    auto* dot = std::get_if<Dot>(&s.node);
    if (dot && (dot->a == tile || dot->b == tile) && dot->present == present) return;
    const std::vector<Sym> read = tiles_read(c, s);
    found = found || std::find(read.begin(), read.end(), tile) != read.end();
  });
  return found;
}

/// FMA instructions run through the contracted axes in every thread of a result. What the condition reads along them from registers lies in other
/// threads, so those parts of it go through shared memory.
void share_condition(Context& c, Product& p) {
  const Expr present = p.dot->present;
  const std::vector<Expr> parts = present.is(Op::And) ? present.args() : std::vector<Expr>{present};
  auto along = [&](Sym tile) {
    return p.column &&
           std::any_of(p.dot->axes.begin(), p.dot->axes.end(), [&](Sym k) { return is_axis_of(c, tile, k); });
  };
  Expr shared, own;
  for (Expr part : parts) {
    const std::vector<Sym> tiles = registers_read(c, part);
    const bool apart = std::any_of(tiles.begin(), tiles.end(), along);
    if (apart && depends_on(part, p.column)) {
      throw UserError(Span{},
                      fmt::format("a product's mask compares elements along {} with elements along {}, and "
                                  "no thread of {} holds both",
                                  p.dot->axes[0].written(), p.column.written(), c.machine.arch),
                      "mask the operand before the product, or run the program on a CPU");
    }
    Expr& side = apart ? shared : own;
    side = side ? logical_and(side, part) : part;
  }
  p.condition = own;
  if (!shared) return;
  p.condition_value = shared;
  for (Sym a : {p.row, p.column})
    if (a && depends_on(shared, a)) p.condition_axes.push_back(a);
  for (Sym k : p.dot->axes)
    if (depends_on(shared, k)) p.condition_axes.push_back(k);
  p.condition_tile =
      Sym::fresh({.name = c.tile(p.dot->tile).sym.name() + "_present", .kind = SymbolKind::Tile});
  const std::vector<Sym> tiles = registers_read(c, shared);
  const bool whole = std::any_of(tiles.begin(), tiles.end(),
                                 [&](Sym t) { return c.tile(t).axes.size() == p.condition_axes.size(); });
  if (!whole)
    p.condition_registers = Sym::fresh({.name = p.condition_tile.name() + "_own", .kind = SymbolKind::Tile});
  const Expr elsewhere =
      read(p.condition_tile, std::vector<Expr>(p.condition_axes.begin(), p.condition_axes.end()));
  p.condition = own ? logical_and(own, elsewhere) : elsewhere;
}

}  // namespace

bool implies_inside(const Context& c, Expr condition, Sym axis) {
  if (condition.is(Op::And))
    return std::any_of(condition.args().begin(), condition.args().end(),
                       [&](Expr part) { return implies_inside(c, part, axis); });
  if (!(condition.is(Op::Le) || condition.is(Op::Lt)) || !is_integer(condition.arg(0)) ||
      !is_integer(condition.arg(1)))
    return false;
  // a <= b: what is left to the end of the axis is at least b − a.
  Expr room = condition.arg(1) - condition.arg(0);
  if (condition.is(Op::Lt)) room = room - 1;
  const KernelAxis& k = c.axis(axis);
  const Expr left = simplify((k.end ? k.end : Expr(axis.size())) - 1 - Expr(axis) - room);
  if (depends_on(left, axis)) return false;
  const auto range = index_range(left, [](Sym s) {
    return std::optional<IndexRange>(IndexRange{0, Expr(s.size()) - 1});
  });
  return range && provably_nonnegative(simplify(range->lo));
}

Expr BodyBuilder::beyond(Expr value, const Position& at) const {
  if (!at.masked || !at.loop) return {};
  const auto known = [](Expr e) -> Expr {
    if (e.is_constant(0)) return Expr(0);
    return is_minus_infinity(e) ? identity(Reducer::Max) : Expr();
  };
  if (value.is(Op::Select)) {
    if (implies_inside(c_, value.arg(0), at.loop->axis)) return known(value.arg(2));
    return {};
  }
  if (value.is(Op::Read)) {
    const auto it = beyond_.find(value->sym);
    return it != beyond_.end() ? it->second : Expr();
  }
  const Expr nothing = identity(Reducer::Max);
  if (value.is(Op::Mul)) {
    Expr factor;
    for (Expr f : value.args()) {
      if (provably_positive(f)) continue;
      if (factor) return {};
      factor = f;
    }
    return factor && beyond(factor, at) == nothing ? nothing : Expr();
  }
  if (value.is(Op::Add) || value.is(Op::Sub)) {
    // As in vanishes(): a sum with −∞ in it is −∞, or NaN and then computed again before it is used.
    const std::vector<Expr> terms = value.is(Op::Add) ? value.args() : std::vector<Expr>{value.arg(0)};
    return std::any_of(terms.begin(), terms.end(), [&](Expr t) { return beyond(t, at) == nothing; }) ? nothing
                                                                                                     : Expr();
  }
  if (value.is(Op::Exp2) || value.is(Op::Exp)) return beyond(value.arg(0), at) == nothing ? Expr(0) : Expr();
  return {};
}

void choose_absent(Context& c, Product& p) {
  if (!p.in_masked || !p.dot->present) return;
  const Expr present = p.dot->present;
  p.absent = Product::Absent::Instructions;
  if (p.tensor_core && c.tile(p.a).level == Level::Registers) {
    const std::vector<Sym> tiles = registers_read(c, present);
    const bool held = std::all_of(tiles.begin(), tiles.end(),
                                  [&](Sym t) { return !p.column || !is_axis_of(c, t, p.column); });
    if (vanishes(*p.body, p.number, p.a, present)) {
      p.absent = Product::Absent::Zero;
    } else if (!depends_on(present, p.column) && held && !read_elsewhere(c, p.a, present)) {
      p.absent = Product::Absent::Select;
    }
  }
  share_condition(c, p);
}

}  // namespace tilewright::hopper
