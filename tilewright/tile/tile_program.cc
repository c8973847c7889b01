#include "tilewright/tile/tile_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tilewright/expr/simplify.h"
#include "tilewright/tile/statements.h"

namespace tilewright {

const char* name(Level level) {
  switch (level) {
    case Level::Memory: return "memory";
    case Level::Shared: return "shared";
    case Level::Registers: return "registers";
  }
  return "";
}

std::vector<Expr> ChunkTable::index() const {
  std::vector<Expr> at;
  for (const KernelAxis& a : rows) at.push_back(a.counter);
  at.push_back(0);
  return at;
}

const KernelAxis& TileKernel::axis(Sym index) const {
  for (const auto* list : {&grid, &inner})
    for (const KernelAxis& a : *list)
      if (a.index == index) return a;
  fail_check("axis of the kernel", __FILE__, __LINE__, fmt::format("{} has no axis {}", name, index.name()));
}

const Tile& TileKernel::tile(Sym sym) const {
  for (const Tile& t : tiles)
    if (t.sym == sym) return t;
  fail_check("tile of the kernel", __FILE__, __LINE__, fmt::format("{} has no tile {}", name, sym.name()));
}

bool contains_axis(const std::vector<Sym>& axes, Sym axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

std::vector<Sym> axes_union(std::vector<Sym> a, const std::vector<Sym>& b) {
  for (Sym s : b)
    if (!contains_axis(a, s)) a.push_back(s);
  return a;
}

bool has_tile(const TileKernel& k, Sym sym) {
  return std::any_of(k.tiles.begin(), k.tiles.end(), [&](const Tile& t) { return t.sym == sym; });
}

bool has_axis(const TileKernel& k, Sym index) {
  auto is = [&](const KernelAxis& a) { return a.index == index; };
  return std::any_of(k.grid.begin(), k.grid.end(), is) || std::any_of(k.inner.begin(), k.inner.end(), is);
}

Expr value_in(const Map& s, bool masked) { return masked && s.masked ? s.masked : s.value; }
Expr value_in(const Reduce& s, bool masked) { return masked && s.masked ? s.masked : s.value; }

std::vector<Expr> values_in(const Stmt& s, bool masked) {
  if (auto* x = std::get_if<Map>(&s.node)) return {value_in(*x, masked)};
  if (auto* x = std::get_if<Reduce>(&s.node)) return {value_in(*x, masked)};
  if (auto* x = std::get_if<Rank>(&s.node)) {
    std::vector<Expr> all{x->value, x->at};
    if (masked && x->present) all.push_back(x->present);
    return all;
  }
  return {};
}

std::vector<Sym> domain(const TileKernel& k, const Stmt& s) {
  struct {
    const TileKernel& k;
    std::vector<Sym> operator()(const Load& x) const { return k.tile(x.tile).axes; }
    std::vector<Sym> operator()(const Store& x) const { return k.tile(x.tile).axes; }
    std::vector<Sym> operator()(const Map& x) const { return k.tile(x.tile).axes; }
    std::vector<Sym> operator()(const Dot& x) const { return axes_union(k.tile(x.tile).axes, x.axes); }
    std::vector<Sym> operator()(const Reduce& x) const { return axes_union(k.tile(x.tile).axes, x.axes); }
    std::vector<Sym> operator()(const Rank& x) const {
      std::vector<Sym> axes = k.tile(x.keys).axes;
      std::erase(axes, x.rank);
      return axes_union(axes, {x.axis});
    }
    std::vector<Sym> operator()(const Loop&) const { return {}; }
    std::vector<Sym> operator()(const When&) const { return {}; }
  } of{k};
  return std::visit(of, s.node);
}

std::vector<Sym> tiles_read(const TileKernel& k, Expr e) {
  std::vector<Sym> tiles;
  if (!e) return tiles;
  for (Sym s : tensors_read(e))
    if (has_tile(k, s)) tiles.push_back(s);
  return tiles;
}

std::vector<Sym> reads(const TileKernel& k, const Stmt& s, bool plain, bool masked) {
  auto of_expr = [&](Expr e) { return tiles_read(k, e); };
  auto of_values = [&](const auto& x) {
    std::vector<Sym> found;
    if (plain) found = axes_union(found, of_expr(value_in(x, false)));
    if (masked) found = axes_union(found, of_expr(value_in(x, true)));
    return found;
  };
  if (auto* x = std::get_if<Load>(&s.node)) {
    std::vector<Sym> found = of_expr(x->present);
    for (Expr i : x->index) found = axes_union(found, of_expr(i));
    return found;
  }
  if (auto* x = std::get_if<Store>(&s.node)) {
    std::vector<Sym> found{x->tile};
    for (Expr i : x->index) found = axes_union(found, of_expr(i));
    return found;
  }
  if (auto* x = std::get_if<Map>(&s.node)) return of_values(*x);
  if (auto* x = std::get_if<Reduce>(&s.node))
    return axes_union(of_values(*x), x->accumulate ? std::vector<Sym>{x->tile} : std::vector<Sym>{});
  if (auto* x = std::get_if<Rank>(&s.node)) {
    std::vector<Sym> found{x->keys, x->indices};
    for (Expr e : values_in(s, masked)) found = axes_union(found, of_expr(e));
    return found;
  }
  if (auto* x = std::get_if<Dot>(&s.node)) {
    std::vector<Sym> found = axes_union({x->a}, {x->b});
    if (masked) found = axes_union(found, of_expr(x->present));
    if (x->accumulate) found = axes_union(found, {x->tile});
    return found;
  }
  if (auto* x = std::get_if<When>(&s.node)) return of_expr(x->condition);
  return {};
}

Sym written(const Stmt& s) {
  struct {
    Sym operator()(const Load& x) const { return x.tile; }
    Sym operator()(const Store&) const { return {}; }
    Sym operator()(const Map& x) const { return x.tile; }
    Sym operator()(const Dot& x) const { return x.tile; }
    Sym operator()(const Reduce& x) const { return x.tile; }
    Sym operator()(const Rank& x) const { return x.keys; }
    Sym operator()(const Loop&) const { return {}; }
    Sym operator()(const When&) const { return {}; }
  } of;
  return std::visit(of, s.node);
}

std::vector<Sym> all_written(const Stmt& s) {
  if (auto* x = std::get_if<Rank>(&s.node)) return {x->keys, x->indices};
  const Sym tile = written(s);
  return tile ? std::vector<Sym>{tile} : std::vector<Sym>{};
}

const Body* inner_body(const Stmt& s) {
  if (auto* x = std::get_if<Loop>(&s.node)) return &x->body;
  if (auto* x = std::get_if<When>(&s.node)) return &x->body;
  return nullptr;
}
Body* inner_body(Stmt& s) { return const_cast<Body*>(inner_body(std::as_const(s))); }

void for_each_stmt(const Body& body, const std::function<void(const Stmt&)>& f) {
  for (const Stmt& s : body) {
    f(s);
    if (const Body* inner = inner_body(s)) for_each_stmt(*inner, f);
  }
}
void for_each_stmt(Body& body, const std::function<void(Stmt&)>& f) {
  for (Stmt& s : body) {
    f(s);
    if (Body* inner = inner_body(s)) for_each_stmt(*inner, f);
  }
}

bool advances(const KernelAxis& a) {
  return a.kind != KernelAxis::Kind::Whole && a.kind != KernelAxis::Kind::Resident;
}

Expr origin(const KernelAxis& a) {
  if (!advances(a)) return 0;
  return a.block == 1 ? Expr(a.counter) : Expr(a.counter) * Expr(a.block);
}

Expr size_of(const std::vector<Axis>& axes, Sym index) {
  for (const Axis& a : axes)
    if (a.index.size() == index.size() && a.baked()) return a.size;
  return index.size();
}

Expr bake(const std::vector<Axis>& axes, Expr e) {
  Substitution s;
  for (const Axis& a : axes)
    if (a.baked()) s.emplace_back(a.index.size(), a.size);
  return s.empty() ? e : substitute(e, s);
}

Expr extent(const std::vector<Axis>& axes, const KernelAxis& a) {
  Expr size = size_of(axes, a.index);
  if (auto q = size.rational(); q && q->is_integer() && q->num() > 0 && q->num() % a.block == 0)
    return a.block;
  if (a.block == 1 && advances(a)) return 1;
  if (!advances(a)) return min(a.block, size);
  return min(a.block, size - origin(a));
}

Expr count(const std::vector<Axis>& axes, const KernelAxis& a) {
  if (!advances(a)) return 1;
  Expr size = size_of(axes, a.index);
  if (a.block == 1) return size;
  if (auto q = size.rational(); q && q->is_integer()) return (q->num() + a.block - 1) / a.block;
  return ceildiv(size, a.block);
}

int64_t full_bytes(const TileKernel& k, const Tile& t) {
  int64_t n = int64_t(bytes(t.dtype)) * t.slots;
  for (Sym a : t.axes) n *= k.axis(a).block;
  return n;
}

}  // namespace tilewright
