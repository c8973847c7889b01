// What a kernel does: which tiles are staged in shared memory, which products run on tensor cores, how axes lie on threads.
#include <fmt/format.h>

#include <algorithm>

#include "tilewright/map/sm90/context.h"
#include "tilewright/support/error.h"
#include "tilewright/tile/statements.h"

namespace tilewright::hopper {
namespace {

bool contains(const std::vector<Sym>& v, Sym s) { return std::find(v.begin(), v.end(), s) != v.end(); }

int64_t floor_power_of_two(int64_t n) {
  int64_t p = 1;
  while (p * 2 <= n) p *= 2;
  return p;
}

bool two_bytes(DType t) { return t == DType::f16 || t == DType::bf16; }

bool has_masked(const Loop* loop) {
  return loop && std::any_of(loop->segments.begin(), loop->segments.end(), [](auto& s) { return s.masked; });
}

void walk(Context& c, const Body& body, const Loop* loop) {
  for (size_t number = 0; number < body.size(); ++number) {
    const Stmt& s = body[number];
    if (auto* load = std::get_if<Load>(&s.node)) {
      const Tile& tile = c.tile(load->tile);
      if (tile.level != Level::Shared) continue;
      for (Expr index : load->index) {
        for (Sym read : tensors_read(index)) {
          if (read.kind() != SymbolKind::Tile) continue;
          throw UserError(
              Span{},
              fmt::format("{} is read at indices that are computed from {}, and the threads of {} that copy "
                          "it to shared memory do not hold those",
                          load->tensor.name(), read.name(), c.machine.arch),
              "gather its elements into an input first, or run the program on a CPU");
        }
      }
      Staged* known = c.find_staged(tile.sym);
      if (!known) {
        c.staged.push_back({});
        known = &c.staged.back();
        known->tile = &tile;
        known->load = load;
      }
      TW_CHECK(known->load->tensor == load->tensor && known->load->index == load->index,
               fmt::format("tile {} is loaded from two places", tile.sym.name()));
      if (loop) known->loops.push_back(loop);
    } else if (auto* dot = std::get_if<Dot>(&s.node)) {
      Product p;
      p.dot = dot;
      p.body = &body;
      p.number = number;
      p.in_masked = has_masked(loop);
      c.products.push_back(p);
    } else if (auto* inner = std::get_if<Loop>(&s.node)) {
      if (loop)
        throw UserError(Span{}, fmt::format("loops inside of loops are not mapped to {}", c.machine.arch),
                        "stream over one axis");
      c.loops.push_back(inner);
      walk(c, inner->body, inner);
    } else if (auto* when = std::get_if<When>(&s.node)) {
      walk(c, when->body, loop);
    }
  }
}

/// The fragment family needs one axis of rows: the first blocked axis of the grid that a product's result has.
Sym find_row(const Context& c) {
  std::vector<Sym> axes;
  for_each_stmt(c.kernel.body, [&](const Stmt& s) {
    if (auto* dot = std::get_if<Dot>(&s.node)) axes = axes_union(axes, c.tile(dot->tile).axes);
  });
  for (const KernelAxis& a : c.kernel.grid)
    if (a.kind == KernelAxis::Kind::Group && a.block > 1 && contains(axes, a.index)) return a.index;
  return {};
}

bool multiplies(const Context& c) {
  bool found = false;
  for_each_stmt(c.kernel.body, [&](const Stmt& s) { found = found || std::holds_alternative<Dot>(s.node); });
  return found;
}

void orient(const Context& c, Product& p) {
  const Dot& dot = *p.dot;
  p.a = dot.a;
  p.b = dot.b;
  auto rows_in = [&](Sym t) { return c.row && contains(c.tile(t).axes, c.row); };
  if (!rows_in(p.a) && rows_in(p.b)) std::swap(p.a, p.b);
  for (Sym axis : c.tile(dot.tile).axes) {
    if (axis == c.row) {
      p.row = axis;
    } else {
      p.column = axis;
    }
  }
}

/// Whether a unit covers the product; the reasons why not are the conditions in order.
void choose_unit(Context& c, Product& p) {
  const Dot& dot = *p.dot;
  const Tile &d = c.tile(dot.tile), &a = c.tile(p.a), &b = c.tile(p.b);
  if (!p.row || !p.column || d.axes.size() != 2 || d.dtype != DType::f32) return;
  const bool in_parts = c.by_warps && c.machine.tf32_parts && a.dtype == DType::f32;
  if (dot.axes.size() != 1 || !(two_bytes(a.dtype) || in_parts) || a.dtype != b.dtype) return;
  const Sym k = dot.axes[0];
  auto has = [](const Tile& t, Sym x, Sym y) {
    return t.axes.size() == 2 && contains(t.axes, x) && contains(t.axes, y);
  };
  if (!has(a, p.row, k) || !has(b, k, p.column)) return;
  if (b.level != Level::Shared || a.level == Level::Memory) return;
  const bool registers = a.level == Level::Registers;
  const KernelAxis& contracted = c.axis(k);
  const int64_t step = in_parts ? 8 : 16;
  // A partial step would contract elements of the next chunk; a whole axis is padded with zeros.
  if (contracted.kind != KernelAxis::Kind::Whole && contracted.block % step != 0) return;
  if (registers && a.axes != std::vector<Sym>{p.row, k}) return;
  // A made operand is laid out in whole panels or steps, which its own operands must cover.
  const int64_t whole = in_parts ? step : 64;
  if (c.find_made(b.sym) && (c.axis(k).block % whole != 0 || c.axis(p.column).block % whole != 0)) return;
  int64_t n = (c.axis(p.column).block + 7) / 8 * 8;
  int pieces = 1;
  while (n > 256 * pieces) ++pieces;
  if (pieces > 1 && !c.by_warps) {
    while (pieces <= 64 && (n % pieces != 0 || n / pieces % 64 != 0 || n / pieces > 256)) ++pieces;
    if (pieces > 64) return;
  }
  p.tensor_core = true;
  if (c.by_warps) {
    p.atom = in_parts ? "mma.m16n8k8.tf32x3" : fmt::format("mma.m16n8k16.{}", name(a.dtype));
    return;
  }
  p.atom = fmt::format("wgmma.m64n{}k16.{}{}", n / pieces, name(a.dtype), registers ? ".rs" : "");
}

void place_fragments(Context& c) {
  const int64_t rows = c.row ? c.axis(c.row).block : 64;
  const int64_t group_rows = ((rows + c.groups - 1) / c.groups + 63) / 64 * 64;
  c.distribution = Distribution::fragment(c.groups, group_rows);
  if (c.row) c.distribution.place_row(c.row);
  std::vector<Sym> sixteen;  // columns that a register operand is contracted over
  for (const Product& p : c.products)
    if (c.tile(p.a).level == Level::Registers)
      for (Sym k : p.dot->axes) sixteen.push_back(k);
  for (const Tile& t : c.kernel.tiles) {
    if (t.level != Level::Registers) continue;
    for (Sym a : t.axes) {
      if (c.distribution.has(a)) continue;
      c.distribution.place_column(a, c.axis(a).block, contains(sixteen, a) ? 16 : 8);
    }
  }
}

void place_rows(Context& c) {
  std::vector<Sym> axes;
  std::vector<int64_t> sizes;
  int64_t widest = 1;
  for (const Tile& t : c.kernel.tiles) {
    for (Sym a : t.axes)
      if (!contains(axes, a)) axes.push_back(a);
    if (t.use == Tile::Use::Operand) widest = std::max<int64_t>(widest, bytes(t.dtype));
  }
  const int64_t most = 128 * c.groups;
  Sym fast;
  for (Sym a : axes)
    if (!fast || c.axis(a).block >= c.axis(fast).block) fast = a;
  if (!fast) {
    c.distribution = Distribution::rows(32, 1);
    return;
  }
  // Other axes: along the same threads where no tile has both, else along the remaining threads and registers.
  std::vector<Sym> slow, beside;
  for (Sym a : axes) {
    if (a == fast) continue;
    bool together = std::any_of(c.kernel.tiles.begin(), c.kernel.tiles.end(),
                                [&](const Tile& t) { return contains(t.axes, a) && contains(t.axes, fast); });
    (together ? slow : beside).push_back(a);
  }
  std::stable_sort(slow.begin(), slow.end(), [&](Sym a, Sym b) { return c.axis(a).block > c.axis(b).block; });
  const KernelAxis& f = c.axis(fast);
  const bool may_pad = f.kind == KernelAxis::Kind::Resident || f.kind == KernelAxis::Kind::Whole;
  int64_t size = f.block;
  const int64_t wanted = std::max<int64_t>(1, 16 / std::max<int64_t>(widest, 2));
  int64_t lanes = most, vector = wanted;
  if (may_pad) {
    // Vectors first, then as many threads as there are vectors.
    while (vector > 1 && size < vector) vector /= 2;
    lanes = std::min(most, std::max<int64_t>(1, floor_power_of_two((size + vector - 1) / vector)));
    if (slow.empty())
      while (vector > 1 && lanes * 2 <= most && lanes * vector >= size) vector /= 2, lanes *= 2;
    size = (size + lanes * vector - 1) / (lanes * vector) * (lanes * vector);
  } else {
    if (!slow.empty())
      while (lanes > 1 && size % (lanes * vector) != 0) lanes /= 2;
    else
      while (lanes > 1 && size % lanes != 0) lanes /= 2;
    while (vector > 1 && size % (lanes * vector) != 0) vector /= 2;
  }
  int64_t threads = std::max<int64_t>(32, lanes);
  if (!slow.empty()) {
    int64_t along = most / lanes;
    while (along > 1 && c.axis(slow[0]).block % along != 0) along /= 2;
    threads = std::max<int64_t>(threads, lanes * along);
  }
  c.distribution = Distribution::rows(threads, lanes);
  c.distribution.place_fast(fast, size, vector);
  for (size_t k = 0; k < slow.size(); ++k) {
    if (k == 0)
      c.distribution.place_slow(slow[k], c.axis(slow[k]).block, 1);
    else
      c.distribution.place_registers(slow[k], c.axis(slow[k]).block, int(k) + 1);
  }
  for (Sym a : beside) {
    int64_t v = vector;
    while (v > 1 && c.axis(a).block % v != 0) v /= 2;
    c.distribution.place_fast(a, c.axis(a).block, v);
  }
}

}  // namespace

void survey(Context& c) {
  c.loaders = c.by_warps ? 0 : c.tiles.plan.loaders;
  c.groups = std::max(1, c.tiles.plan.computers);
  if (c.loaders > 1) {
    throw UserError(
        Span{},
        fmt::format("roles {}+{}: {} uses at most one loading group", c.loaders, c.groups, c.machine.arch),
        fmt::format("write roles 1+{} or roles 0+{}", c.groups, c.groups));
  }
  if ((c.loaders + c.groups) * 128 > c.machine.threads_per_block) {
    throw UserError(Span{}, fmt::format("roles {}+{} need {} threads, a block has {}", c.loaders, c.groups,
                                        (c.loaders + c.groups) * 128, c.machine.threads_per_block));
  }
  c.has_products = multiplies(c);
  if (c.has_products) {
    c.row = find_row(c);
    c.kernel.tiles.reserve(2 * c.kernel.tiles.size());  // staged tiles are known by address
    spare_element_work(c);
    share_crowded(c);
    if (c.may_use_rings) load_through_rings(c);
  }
  read_indices_in_place(c);
  walk(c, c.kernel.body, nullptr);
  if (!c.has_products) {
    c.loaders = c.staged.empty() ? 0 : c.loaders;
    place_rows(c);
    return;
  }
  for (Product& p : c.products) {
    orient(c, p);
    choose_unit(c, p);
    choose_absent(c, p);
  }
  if (c.may_make_beside) choose_beside(c);
  place_fragments(c);
  for (const Product& p : c.products) {
    if (!p.tensor_core) continue;
    for (Sym operand : {p.a, p.b}) {
      if (Staged* s = c.find_staged(operand)) s->tensor_core = true;
      if (Made* m = c.find_made(operand)) m->tensor_core = true;
    }
  }
}

std::vector<Sym> tiles_written(const Stmt& s) {
  struct Visitor {
    std::vector<Sym> operator()(const Load& x) const { return {x.tile}; }
    std::vector<Sym> operator()(const Store&) const { return {}; }
    std::vector<Sym> operator()(const Map& x) const { return {x.tile}; }
    std::vector<Sym> operator()(const Dot& x) const { return {x.tile}; }
    std::vector<Sym> operator()(const Reduce& x) const { return {x.tile}; }
    std::vector<Sym> operator()(const Rank& x) const { return {x.keys, x.indices}; }
    std::vector<Sym> operator()(const Loop& x) const { return all(x.body); }
    std::vector<Sym> operator()(const When& x) const { return all(x.body); }
    static std::vector<Sym> all(const Body& body) {
      std::vector<Sym> out;
      for (const Stmt& s : body)
        for (Sym t : tiles_written(s)) out.push_back(t);
      return out;
    }
  };
  return std::visit(Visitor{}, s.node);
}

std::vector<Sym> tiles_read(const Context& c, const Stmt& s) {
  std::vector<Sym> out;
  auto expr = [&](Expr e) {
    if (!e) return;
    for (Sym t : tensors_read(e))
      if (t.kind() == SymbolKind::Tile) out.push_back(t);
  };
  struct Visitor {
    const Context& c;
    std::vector<Sym>& out;
    decltype(expr)& read;
    void operator()(const Load& x) const {
      for (Expr e : x.index) read(e);
    }
    void operator()(const Store& x) const {
      out.push_back(x.tile);
      for (Expr e : x.index) read(e);
    }
    void operator()(const Map& x) const { read(x.value), read(x.masked); }
    void operator()(const Dot& x) const {
      out.push_back(x.a), out.push_back(x.b);
      if (x.accumulate) out.push_back(x.tile);
      read(x.present);
    }
    void operator()(const Reduce& x) const {
      if (x.accumulate) out.push_back(x.tile);
      read(x.value), read(x.masked);
    }
    void operator()(const Rank& x) const {
      out.insert(out.end(), {x.keys, x.indices});
      read(x.value), read(x.at), read(x.present);
    }
    void operator()(const Loop& x) const { all(x.body); }
    void operator()(const When& x) const {
      read(x.condition);
      all(x.body);
    }
    void all(const Body& body) const {
      for (const Stmt& s : body)
        for (Sym t : tiles_read(c, s)) out.push_back(t);
    }
  };
  std::visit(Visitor{c, out, expr}, s.node);
  return out;
}

}  // namespace tilewright::hopper
