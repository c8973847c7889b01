#include "tilewright/map/sm90/context.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tilewright/expr/simplify.h"
#include "tilewright/support/error.h"
#include "tilewright/tile/statements.h"

namespace tilewright::hopper {

Expr sum_of(Expr a, Expr b) {
  if (a.is_constant(0)) return b;
  if (b.is_constant(0)) return a;
  return a + b;
}

Expr product_of(Expr a, Expr b) {
  if (a.is_constant(1)) return b;
  if (b.is_constant(1)) return a;
  if (a.is_constant(0) || b.is_constant(0)) return Expr(0);
  return a * b;
}

int64_t literal(Expr e, int64_t otherwise) {
  if (!e) return otherwise;
  auto r = simplify(e).rational();
  return r && r->is_integer() ? r->num() : otherwise;
}

bool begins_at_units(const Context& c, const Load& load, Sym inner, DType dtype) {
  const int64_t unit = 16 / bytes(dtype), none = -1;
  const KernelAxis& a = c.axis(inner);
  const bool from_start = a.kind == KernelAxis::Kind::Whole || a.kind == KernelAxis::Kind::Resident;
  const int64_t offset = literal(load.index.back() - Expr(inner), none);
  return offset >= 0 && offset % unit == 0 && (from_start || a.block % unit == 0);
}

Expr identity(Reducer r) {
  switch (r) {
    case Reducer::Sum:
    case Reducer::Any: return Expr(0);
    case Reducer::Prod:
    case Reducer::All: return Expr(1);
    case Reducer::Max: return Expr::real(-__builtin_inf());
    case Reducer::Min: return Expr::infinity();
    default: throw UserError(Span{}, fmt::format("reduction {} is not mapped to GPUs", name(r)));
  }
}

Staged* Context::find_staged(Sym tile) {
  for (Staged& s : staged)
    if (s.tile->sym == tile) return &s;
  return nullptr;
}

Made* Context::find_made(Sym tile) {
  for (Made& m : made)
    if (m.tile == tile) return &m;
  return nullptr;
}

bool Context::has_ring(const Loop& loop) const {
  return std::any_of(staged.begin(), staged.end(), [&](const Staged& s) {
    return s.ring && std::find(s.loops.begin(), s.loops.end(), &loop) != s.loops.end();
  });
}

Product& Context::product(const Dot& dot) {
  for (Product& p : products)
    if (p.dot == &dot) return p;
  TW_CHECK(false, "a Dot that was not surveyed");
}

int64_t Context::extent(Sym a) const { return distribution.has(a) ? distribution.extent(a) : axis(a).block; }

Expr Context::inside(Sym index, bool masked) const {
  const KernelAxis& a = axis(index);
  switch (a.kind) {
    case KernelAxis::Kind::Stream:
    case KernelAxis::Kind::Part:
      if (!masked) return {};
      return less(Expr(index), a.end ? a.end : Expr(index.size()));
    case KernelAxis::Kind::Resident: {
      const Expr size = program.axis(index).size;
      const bool filled = size && literal(size, 0) >= extent(index);  // no element of the tile lies outside
      return filled ? Expr() : less(Expr(index), Expr(index.size()));
    }
    case KernelAxis::Kind::Whole: return extent(index) > a.block ? less(Expr(index), Expr(a.block)) : Expr();
    case KernelAxis::Kind::Group: return less(Expr(index), Expr(index.size()));
  }
  return {};
}

Frame Context::frame(const Position& at, const std::vector<Sym>& with_extent) const {
  Frame f;
  auto extent_of = [&](Sym index) -> Expr {
    if (std::find(with_extent.begin(), with_extent.end(), index) == with_extent.end()) return {};
    return Expr(axis(index).block);
  };
  if (at.loop) {
    const KernelAxis& a = axis(at.loop->axis);
    f.push_back({a.index, simplify(product_of(at.chunk, Expr(a.block))), extent_of(a.index)});
  }
  for (Sym index : with_extent) {
    if (at.loop && index == at.loop->axis) continue;
    const KernelAxis& a = axis(index);
    const bool grid = a.kind == KernelAxis::Kind::Group && a.counter;
    f.push_back({index, grid ? product_of(Expr(a.counter), Expr(a.block)) : Expr(0), extent_of(index)});
  }
  return f;
}

bool Context::guarded(const Staged& s, const Loop* loop) const {
  if (s.channel < 0) return false;
  if (!loop) return persistent && s.loops.empty();
  return std::find(s.loops.begin(), s.loops.end(), loop) != s.loops.end();
}

namespace {

/// Blocks of grid axis `at` that read so many bytes along the stream, at least one: what they share is read once, and axes behind `at` meet all of them.
Expr blocks_reading(const Context& c, size_t at, int64_t bytes_of_section) {
  const auto place = [&](Sym index) {
    size_t g = 0;
    while (g < c.out.grid.size() && c.out.grid[g].index != index) ++g;
    return g;
  };
  constexpr int64_t unit = 64;  // bytes; sums of products of sizes stay in 32 bits
  Expr read = 0;                // units that a block of the axis reads
  std::set<Sym> seen;
  for (const Staged& s : c.staged) {
    if (s.loops.empty() || !s.load || !seen.insert(s.load->tensor).second) continue;
    std::set<Sym> axes;
    for (Expr e : s.load->index)
      for (Sym index : free_symbols(e))
        if (index.kind() == SymbolKind::Index) axes.insert(index);
    if (!axes.count(c.out.grid[at].index)) continue;
    int64_t literal_bytes = bytes(s.tile->dtype);
    Expr sizes = 1;
    for (Sym index : axes) {
      const Expr size =
          place(index) <= at ? Expr(c.axis(index).block) : bake(c.tiles.axes, Expr(index.size()));
      if (const auto n = simplify(size).rational())
        literal_bytes *= n->num();
      else
        sizes = sizes * size;
    }
    read = read + Expr((literal_bytes + unit - 1) / unit) * sizes;
  }
  return simplify(max(Expr(1), floordiv(Expr(bytes_of_section / unit), max(Expr(1), read))));
}

}  // namespace

void order_grid(Context& c) {
  const Plan& plan = c.tiles.plan;
  for (size_t a = 0; a + 1 < c.out.grid.size(); ++a)
    if (plan.section_axis && c.out.grid[a].index == plan.section_axis) {
      c.out.sectioned = plan.section_axis;
      c.out.section = plan.section_megabytes ? blocks_reading(c, a, plan.section << 20) : Expr(plan.section);
    }
  // Sums that a making role hands over begin with a block.
  if (plan.grid != GridBy::Persistent || c.loaders == 0 || c.makers > 0) return;
  c.persistent = c.out.persistent = true;
  const auto count = [](const std::string& name) {
    return Sym::fresh({.name = name, .kind = SymbolKind::Variable, .integer = true, .nonnegative = true});
  };
  c.ordinal = count("ordinal");
  for (const Loop* loop : c.loops)
    if (std::any_of(c.staged.begin(), c.staged.end(), [&](const Staged& s) {
          return std::find(s.loops.begin(), s.loops.end(), loop) != s.loops.end();
        }))
      c.used[loop] = count(loop->axis.name() + "_used");
}

Ops Context::for_each_item(Ops body) const {
  if (!persistent) return body;
  Ops ops;
  for (const Loop* loop : loops) {
    const auto chunks = used.find(loop);
    if (chunks == used.end()) continue;
    ops.push_back({Define{chunks->second, Expr(0)}, {}});
    body.push_back({Define{chunks->second, simplify(Expr(chunks->second) + loop_total.at(loop)), true}, {}});
  }
  ops.push_back({Items{ordinal, std::move(body)}, {}});
  return ops;
}

Expr Context::use(const Staged& s, const Position& at) const {
  if (s.loops.empty()) return persistent ? Expr(ordinal) : Expr(0);
  if (s.carried && !at.loop) {
    auto total = loop_total.find(s.loops[0]);
    return total == loop_total.end() ? Expr(0) : total->second;
  }
  TW_CHECK(at.loop, "a streamed tile outside of its loop");
  Expr use = at.ordinal;
  if (persistent)
    for (const Loop* l : s.loops) use = use + Expr(used.at(l));
  for (const Loop* l : s.loops) {
    if (l == at.loop) break;
    use = sum_of(use, loop_total.at(l));
  }
  return simplify(use);
}

Position Context::position(const Loop& loop, const SegmentVars& segment, Expr counter) const {
  const Expr chunk = segment.backward ? segment.lo + segment.hi - 1 - counter : counter;
  return {&loop, simplify(chunk), sum_of(segment.before, simplify(counter - segment.lo)), segment.masked};
}

namespace {

/// The value, conditions left out, changes along the axis.
bool positional(Expr e, Sym axis) {
  if (e.is(Op::Symbol)) return e->sym == axis;
  if (e.is(Op::Read)) return false;
  const auto& args = e.args();
  return std::any_of(args.begin() + (e.is(Op::Select) ? 1 : 0), args.end(),
                     [&](Expr a) { return positional(a, axis); });
}

}  // namespace

bool Context::backward(const Loop& loop) const {
  const KernelAxis& a = axis(loop.axis);
  if (a.kind == KernelAxis::Kind::Resident || loop.segments.size() < 2 || !loop.segments.back().masked ||
      has_ring(loop))
    return false;
  return std::any_of(loop.body.begin(), loop.body.end(), [&](const Stmt& s) {
    auto* map = std::get_if<Map>(&s.node);
    return map && positional(map->value, loop.axis);
  });
}

std::vector<SegmentVars> Context::segments(const Loop& loop, Ops& ops, bool count_all) {
  std::vector<SegmentVars> result;
  fetch_chunks(kernel, loop, ops);
  auto define = [&](const std::string& name, Expr value) -> Expr {
    value = simplify(value);
    if (value.rational() || value.is(Op::Symbol)) return value;
    Sym v = Sym::fresh({.name = name, .kind = SymbolKind::Variable, .integer = true, .nonnegative = true});
    ops.push_back({Define{v, value}, {}});
    return Expr(v);
  };
  const std::string axis_name = loop.axis.name();
  std::vector<std::pair<Expr, Expr>> bounds;  // segments share them
  auto bound = [&](const std::string& name, Expr value) -> Expr {
    for (const auto& [known, variable] : bounds)
      if (known == value) return variable;
    bounds.emplace_back(value, define(name, value));
    return bounds.back().second;
  };
  std::vector<size_t> order;
  for (size_t k = 0; k < loop.segments.size(); ++k) order.push_back(k);
  const bool from_end = backward(loop);
  if (from_end) std::reverse(order.begin(), order.end());
  Expr before = 0;
  for (size_t n = 0; n < order.size(); ++n) {
    const size_t k = order[n];
    const Segment& s = loop.segments[k];
    SegmentVars v;
    v.masked = s.masked;
    v.backward = from_end;
    v.last = n + 1 == order.size() && !loops.empty() && loops.back() == &loop;
    v.before = before;
    const Expr lo = simplify(s.lo), hi = simplify(s.hi);
    v.empty = lo == hi;
    if (!v.empty) {
      v.lo = bound(fmt::format("{}_from{}", axis_name, k), lo);
      v.hi = bound(fmt::format("{}_to{}", axis_name, k), hi);
      const bool rest = std::any_of(order.begin() + long(n) + 1, order.end(), [&](size_t later) {
        return simplify(loop.segments[later].lo) != simplify(loop.segments[later].hi);
      });
      const bool later_loop = !loops.empty() && loops.back() != &loop;
      const bool carries = std::any_of(staged.begin(), staged.end(),
                                       [&](const Staged& x) { return x.carried && x.loops[0] == &loop; });
      if (rest || later_loop || carries || count_all || persistent)
        before =
            define(fmt::format("{}_before{}", axis_name, n + 1), sum_of(before, max(Expr(0), v.hi - v.lo)));
    }
    result.push_back(v);
  }
  loop_total[&loop] = before;
  return result;
}

void Context::add_guard(Sym tensor, bool unit_inner, int align) {
  for (LayoutGuard& g : guards) {
    if (g.tensor != tensor) continue;
    g.unit_inner = g.unit_inner || unit_inner;
    g.align = std::max(g.align, align);
    return;
  }
  guards.push_back({tensor, unit_inner, align});
}

std::vector<Dim> Context::dims(Sym tensor) const {
  MappedProgram view;  // only the workspaces matter
  view.workspaces = tiles.workspaces;
  return memory_dims(program, view, tensor);
}

Sym Context::stride(Sym tensor, int dim) {
  Sym& s = strides[{tensor, dim}];
  if (!s) {
    s = Sym::fresh({.name = fmt::format("{}_stride{}", tensor.name(), dim),
                    .kind = SymbolKind::Variable,
                    .integer = true});
  }
  return s;
}

}  // namespace tilewright::hopper
