// Statements of a tile program to ops of the computing role.
#include "tilewright/map/sm90/body.h"

#include <fmt/format.h>

#include <algorithm>

#include "tilewright/expr/simplify.h"
#include "tilewright/support/error.h"

namespace tilewright::hopper {
namespace {

constexpr int64_t vector_bytes = 16;  // that a thread moves at once

/// Elements of `dtype` that lie side by side in memory and in the registers of one thread, 16 bytes at most; 1 where a tile may begin between such runs.
int64_t vector_run(const Context& c, const Tile& tile, Sym tensor, DType dtype,
                   const std::vector<Expr>& index) {
  std::vector<Dim> dims = c.dims(tensor);
  if (dims.empty() || dims.back().pieces.empty() || index.empty()) return 1;
  for (size_t a = 0; a < tile.axes.size(); ++a) {
    if (!depends_on(index.back(), tile.axes[a])) continue;
    if (!(index.back() == Expr(tile.axes[a]))) return 1;
    const int64_t run =
        std::min(c.out.buffer(tile.sym).layout.contiguous(int(a)), vector_bytes / bytes(dtype));
    const KernelAxis& along = c.axis(tile.axes[a]);
    const bool from_start = along.kind == KernelAxis::Kind::Whole || along.kind == KernelAxis::Kind::Resident;
    return from_start || along.block % run == 0 ? run : 1;
  }
  return 1;
}

/// Along the axis that is contiguous in memory four neighbouring threads hold two elements each of every eight, and blocks of eight come in fours: each of them can gather
/// one block of four and store 16 bytes.
bool in_quads(const Context& c, const Tile& tile, Expr last) {
  const Layout& layout = c.out.buffer(tile.sym).layout;
  for (size_t a = 0; a < tile.axes.size(); ++a) {
    if (!(last == Expr(tile.axes[a])) || c.axis(tile.axes[a]).block % 8 != 0) continue;
    bool pairs = false, lanes = false, blocks = false;
    for (const Digit& d : layout.digits()) {
      if (d.axis < 0) return false;  // replicas
      if (d.axis != int(a)) continue;
      pairs = pairs || (d.to == Digit::To::Offset && d.step == 1 && d.extent == 2 && d.stride == 1);
      lanes = lanes || (d.to == Digit::To::Owner && d.step == 2 && d.extent == 4 && d.stride == 1);
      blocks = blocks || (d.to == Digit::To::Offset && d.step == 8 && d.extent % 4 == 0);
    }
    return pairs && lanes && blocks && layout.shape()[a] == layout.shape()[a] / 32 * 32;
  }
  return false;
}

}  // namespace

Scope scope_of(const Ops& ops) {
  Scope scope = Scope::Warp;
  for_each_op(ops, [&](const MappedOp& op) {
    if (auto* b = std::get_if<Barrier>(&op.node)) scope = std::max(scope, b->scope);
    if (auto* r = std::get_if<ReduceOp>(&op.node)) scope = std::max(scope, r->across);
    if (auto* v = std::get_if<Vote>(&op.node)) scope = std::max(scope, v->scope);
  });
  return scope;
}

Ops BodyBuilder::run() {
  Ops out;
  c_.loop_total.clear();
  for (const Staged& s : c_.staged)
    if (s.channel >= 0 && s.loops.empty() && !c_.persistent)
      out.push_back({Wait{s.channel, true, Expr(0)}, {}});
  body(c_.kernel.body, {}, out);
  if (in_flight_) out.push_back({CopyWait{0}, {}});
  return c_.for_each_item(std::move(out));
}

Statements BodyBuilder::unstaged(const Body& body) const {
  Statements list;
  for (const Stmt& s : body) {
    auto* load = std::get_if<Load>(&s.node);
    const Staged* staged = load ? c_.find_staged(load->tile) : nullptr;
    if ((!staged || (staged->channel < 0 && !staged->ring)) && !c_.beside.count(&s)) list.push_back(&s);
  }
  return list;
}

void BodyBuilder::body(const Body& b, const Position& at, Ops& out) {
  RingState rings;
  statements(c_.loaders > 0 ? products_first(unstaged(b)) : unstaged(b), at,
             at.loop || c_.persistent ? &rings : nullptr, out);
}

std::set<Sym> BodyBuilder::rings(const Statements& list, const Loop* loop) const {
  std::set<Sym> tiles;
  for (const Stmt* s : list) {
    for (Sym t : tiles_read(c_, *s)) {
      const Staged* staged = c_.find_staged(t);
      if (staged && c_.guarded(*staged, loop)) tiles.insert(t);
    }
  }
  return tiles;
}

void BodyBuilder::wait(const std::set<Sym>& tiles, const Position& at, Ops& out) {
  for (const Staged& s : c_.staged)
    if (tiles.count(s.tile->sym)) out.push_back({Wait{s.channel, true, c_.use(s, at)}, {}});
}

void BodyBuilder::release(const std::set<Sym>& tiles, const Position& at, Ops& out) {
  for (const Staged& s : c_.staged)
    if (tiles.count(s.tile->sym)) out.push_back({Arrive{s.channel, false, c_.use(s, at), s.signals()}, {}});
}

bool BodyBuilder::tensor_core(const Stmt& s) const {
  auto* dot = std::get_if<Dot>(&s.node);
  return dot && c_.product(*dot).tensor_core;
}

void BodyBuilder::statements(const Statements& list, const Position& at, RingState* state, Ops& out) {
  auto before = [&](const Statements& group) {
    if (!state) return;
    std::set<Sym> needed;
    for (Sym t : rings(group, at.loop))
      if (state->waited.insert(t).second) needed.insert(t);
    wait(needed, at, out);
  };
  auto after = [&](const Statements& group, size_t next) {
    if (!state) return;
    const Statements rest(list.begin() + long(next), list.end());
    std::set<Sym> later = rings(rest, at.loop), now;
    for (Sym t : rings(group, at.loop))
      if (!later.count(t) && !state->held.count(t)) now.insert(t);
    release(now, at, out);
  };
  for (size_t k = 0; k < list.size();) {
    Statements group{list[k]};
    if (std::holds_alternative<Load>(list[k]->node) && c_.find_staged(std::get<Load>(list[k]->node).tile)) {
      while (k + group.size() < list.size()) {
        auto* load = std::get_if<Load>(&list[k + group.size()]->node);
        if (!load || !c_.find_staged(load->tile)) break;
        group.push_back(list[k + group.size()]);
      }
      if (c_.by_warps)
        copy_in_groups(group, at, out);
      else
        stage_here(group, at, out);
    } else if (tensor_core(*list[k])) {
      // Products without a path between them are issued together.
      while (k + group.size() < list.size() && tensor_core(*list[k + group.size()])) {
        const Dot& next = std::get<Dot>(list[k + group.size()]->node);
        bool apart = true;
        for (const Stmt* s : group) {
          const Dot& d = std::get<Dot>(s->node);
          apart = apart && next.a != d.tile && next.b != d.tile;
        }
        if (!apart) break;
        group.push_back(list[k + group.size()]);
      }
      before(group);
      for (const Stmt* s : group) await_kept(tiles_read(c_, *s), out);
      multiply_now(group, at, out);
      after(group, k + group.size());
    } else {
      before(group);
      if (!at.loop && !std::holds_alternative<Loop>(list[k]->node)) {
        for (Sym t : tiles_read(c_, *list[k])) {
          const Staged* staged = c_.find_staged(t);
          if (staged && staged->carried && finals_.insert(t).second)
            out.push_back({Wait{staged->channel, true, c_.use(*staged, at)}, {}});
        }
      }
      const auto* loop = std::get_if<Loop>(&list[k]->node);
      if (!loop || !c_.has_ring(*loop)) await_kept(tiles_read(c_, *list[k]), out);
      statement(*list[k], at, out);
      after(group, k + 1);
    }
    k += group.size();
  }
  if (state && state->finish) {
    std::set<Sym> unread;
    for (const Staged& s : c_.staged) {
      if (c_.guarded(s, at.loop) && !state->waited.count(s.tile->sym) && !state->held.count(s.tile->sym))
        unread.insert(s.tile->sym);
    }
    wait(unread, at, out);
    release(unread, at, out);
  }
}

void BodyBuilder::statement(const Stmt& s, const Position& at, Ops& out) {
  const size_t first = out.size();
  if (auto* x = std::get_if<Map>(&s.node)) map(*x, at, out);
  if (auto* x = std::get_if<Reduce>(&s.node)) reduce(*x, at, out);
  if (auto* x = std::get_if<Load>(&s.node)) load(*x, at, out);
  if (auto* x = std::get_if<Store>(&s.node)) store(*x, at, out);
  if (auto* x = std::get_if<When>(&s.node)) when(*x, at, out);
  if (auto* x = std::get_if<Dot>(&s.node)) multiply_by_fma(*x, at, false, out);
  if (auto* x = std::get_if<Loop>(&s.node)) loop(*x, out);
  if (out.size() > first && out.back().comment.empty()) out.back().comment = s.comment;
}

Expr BodyBuilder::at_own_axes(Sym buffer) const {
  const Buffer& b = c_.out.buffer(buffer);
  return read(buffer, std::vector<Expr>(b.axes.begin(), b.axes.end()));
}

Expr BodyBuilder::clipped(Expr value, const std::vector<Sym>& axes, const Position& at,
                          Expr otherwise) const {
  for (Sym a : axes) {
    Expr inside = c_.inside(a, at.masked);
    const bool streamed = at.loop && a == at.loop->axis && c_.axis(a).kind != KernelAxis::Kind::Resident;
    if (inside && streamed)
      if (const Expr already = beyond(simplify(value), at); already && already == otherwise) inside = {};
    const int64_t block = c_.axis(a).block;
    if (at.loop && a == at.loop->axis && c_.axis(a).kind != KernelAxis::Kind::Resident &&
        c_.extent(a) > block) {
      const Expr chunk = less(Expr(a), simplify(product_of(at.chunk, Expr(block)) + block));
      inside = inside ? logical_and(inside, chunk) : chunk;
    }
    if (inside) value = select(inside, value, otherwise);
  }
  return value;
}

std::vector<Use> BodyBuilder::uses_of(const std::vector<Sym>& tiles, const Position& at) const {
  std::vector<Use> result;
  for (Sym t : tiles) {
    const Staged* s = c_.find_staged(t);
    if (!s || (s->channel < 0 && !s->ring)) continue;
    if (std::any_of(result.begin(), result.end(), [&](const Use& u) { return u.buffer == t; })) continue;
    result.push_back({t, c_.use(*s, at)});
  }
  return result;
}

std::vector<Use> BodyBuilder::uses(const std::vector<Expr>& exprs, const Position& at) const {
  std::vector<Sym> tiles;
  for (Expr e : exprs)
    if (e)
      for (Sym t : tensors_read(e)) tiles.push_back(t);
  return uses_of(tiles, at);
}

std::set<Sym> BodyBuilder::register_axes(Expr e) const {
  std::set<Sym> axes;
  for (Sym t : tensors_read(e)) {
    if (t.kind() != SymbolKind::Tile) continue;
    const Buffer& b = c_.out.buffer(t);
    if (b.space == Space::Registers) axes.insert(b.axes.begin(), b.axes.end());
  }
  return axes;
}

void BodyBuilder::map(const Map& s, const Position& at, Ops& out) {
  Expr value = at.masked && s.masked ? s.masked : s.value;
  Expr behind = beyond(simplify(value), at);
  // A tile may hold scores first and then the operand made of them, so that what lies beyond is 0 for both.
  for (const Product& p : c_.products)
    if (p.tensor_core && (p.a == s.tile || p.b == s.tile)) {
      const Expr operand = clipped(value, p.dot->axes, at, Expr(0));
      if (operand != value) behind = Expr(0);
      value = operand;
    }
  beyond_.erase(s.tile);
  if (behind) beyond_[s.tile] = behind;
  if (value == at_own_axes(s.tile)) return;
  if (const Made* made = c_.find_made(s.tile)) {
    out.push_back({Barrier{0, Scope::Role}, "readers of " + s.tile.name() + " are done"});
    out.push_back({MapOp{s.tile, value, c_.frame(at), uses({value}, at)}, {}});
    if (made->tensor_core && !c_.by_warps) out.push_back({ProxyFence{}, {}});
    out.push_back({Barrier{0, Scope::Role}, {}});
    return;
  }
  out.push_back({MapOp{s.tile, value, c_.frame(at), uses({value}, at)}, {}});
}

Sym BodyBuilder::scratch(Sym result, int64_t elements, DType dtype) {
  Buffer b;
  b.sym = Sym::fresh({.name = result.name() + "_exchange", .kind = SymbolKind::Tile});
  b.axes = {Sym::fresh({.name = "slot", .kind = SymbolKind::Variable, .integer = true, .nonnegative = true})};
  b.dtype = dtype;
  b.space = Space::Local;
  b.layout = Layout::row_major({elements});
  b.comment = "partial results of warps";
  c_.out.buffers.push_back(b);
  return b.sym;
}

Expr BodyBuilder::exchanged(const Reduce& s, Expr value, const Position& at, Ops& out) {
  const std::vector<Sym>& result = c_.tile(s.tile).axes;
  std::vector<Sym> moved;
  for (Sym t : tensors_read(value)) {
    if (t.kind() != SymbolKind::Tile || !in_registers(t)) continue;
    const std::vector<Sym>& axes = c_.out.buffer(t).axes;
    const bool apart = std::any_of(s.axes.begin(), s.axes.end(), [&](Sym k) {
      return std::find(axes.begin(), axes.end(), k) != axes.end() &&
             std::any_of(result.begin(), result.end(), [&](Sym a) { return c_.distribution.collide(k, a); });
    });
    if (apart) moved.push_back(t);
  }
  if (moved.empty()) return value;
  // Rows belong to one warp, so only its threads exchange them.
  const auto has_row = [&](const std::vector<Sym>& axes) {
    return c_.row && std::find(axes.begin(), axes.end(), c_.row) != axes.end();
  };
  const bool rows = has_row(result) && std::all_of(moved.begin(), moved.end(),
                                                   [&](Sym t) { return has_row(c_.out.buffer(t).axes); });
  const Scope scope = rows ? Scope::Warp : Scope::Role;
  out.push_back({Barrier{0, scope}, {}});
  for (Sym t : moved) {
    Sym& copy = copies_[t];
    if (!copy) {
      const Buffer of = c_.out.buffer(t);
      Buffer b;
      b.sym = copy = Sym::fresh({.name = t.name() + "_shared", .kind = SymbolKind::Tile});
      b.axes = of.axes;
      b.dtype = of.dtype;
      b.space = Space::Local;
      std::vector<int> order;
      for (size_t a = of.axes.size(); a-- > 0;) order.push_back(int(a));
      b.layout = Layout::strided(of.layout.shape(), order,
                                 of.axes.size() > 1 ? std::max(1, 16 / bytes(of.dtype)) : 0);
      b.comment = "for reductions by other threads";
      c_.out.buffers.push_back(b);
    }
    out.push_back({MapOp{copy, at_own_axes(t), c_.frame(at), {}}, {}});
  }
  out.push_back({Barrier{0, scope}, {}});
  return rewrite(value, [&](Expr x) {
    if (!x.is(Op::Read) || std::find(moved.begin(), moved.end(), x->sym) == moved.end()) return x;
    return read(copies_.at(x->sym), x.args());
  });
}

void BodyBuilder::reduce(const Reduce& s, const Position& at, Ops& out) {
  Expr value = at.masked && s.masked ? s.masked : s.value;
  value = exchanged(s, value, at, out);
  // A sum of a number is it as many times as there are elements; a held axis has its size.
  const auto known = [&](Sym a) {
    return c_.axis(a).kind == KernelAxis::Kind::Resident || !c_.inside(a, at.masked);
  };
  if (s.reducer == Reducer::Sum && value.rational() && std::all_of(s.axes.begin(), s.axes.end(), known)) {
    Expr total = value;
    for (Sym a : s.axes)
      total = simplify(total * (c_.inside(a, at.masked) ? Expr(a.size()) : Expr(c_.axis(a).block)));
    if (s.accumulate) total = at_own_axes(s.tile) + total;
    out.push_back({MapOp{s.tile, total, c_.frame(at), {}}, {}});
    return;
  }
  value = clipped(value, s.axes, at, identity(s.reducer));
  ReduceOp op;
  op.buffer = s.tile;
  op.reducer = s.reducer;
  op.axes = s.axes;
  op.value = value;
  op.accumulate = s.accumulate;
  op.uses = uses({value}, at);
  const std::set<Sym> held = register_axes(value);
  std::vector<Sym> free, exchanged;
  for (Sym a : s.axes) (held.count(a) ? exchanged : free).push_back(a);
  op.frame = c_.frame(at, free);
  op.across = c_.distribution.across(exchanged);
  if (op.across > Scope::Warp) {
    const Layout& result = c_.out.buffer(s.tile).layout;
    bool lanes = std::any_of(result.digits().begin(), result.digits().end(), [](const Digit& d) {
      return d.axis >= 0 && d.to == Digit::To::Owner && d.stride < 32;
    });
    const int64_t warps = c_.distribution.threads() / 32;
    op.scratch = scratch(s.tile, warps * result.elements() * (lanes ? 32 : 1), c_.tile(s.tile).dtype);
  }
  out.push_back({op, {}});
}

void BodyBuilder::load(const Load& s, const Position& at, Ops& out) {
  const Tile& tile = c_.tile(s.tile);
  Copy copy{"copy.plain", s.tile, {}, s.tensor, s.index, c_.frame(at), s.present};
  const Input* input = c_.program.input(s.tensor);
  if (c_.layout == LayoutClass::Aligned && input && input->dtype == tile.dtype) {
    const int64_t run = vector_run(c_, tile, s.tensor, input->dtype, s.index);
    if (run > 1) {
      copy.atom = "copy.vector";
      c_.add_guard(s.tensor, true, int(run * bytes(input->dtype)));
    }
  }
  out.push_back({copy, {}});
}

void BodyBuilder::store(const Store& s, const Position& at, Ops& out) {
  const Tile& tile = c_.tile(s.tile);
  std::vector<Sym> clipped_axes;
  for (Sym a : tile.axes)
    if (c_.extent(a) > c_.axis(a).block && c_.axis(a).kind != KernelAxis::Kind::Resident)
      clipped_axes.push_back(a);
  StoreOut op{"store.plain", s.tile, s.tensor, s.index, c_.frame(at, clipped_axes)};
  auto output = std::find_if(c_.program.outputs.begin(), c_.program.outputs.end(),
                             [&](const Output& o) { return o.sym == s.tensor; });
  if (c_.layout == LayoutClass::Aligned && output != c_.program.outputs.end() && is_float(output->dtype) &&
      bytes(output->dtype) <= 4) {
    const int64_t run = vector_run(c_, tile, s.tensor, output->dtype, s.index);
    if (run > 1) {
      op.atom =
          bytes(output->dtype) == 2 && in_quads(c_, tile, s.index.back()) ? "store.quad" : "store.vector";
      c_.add_guard(s.tensor, true, int(run * bytes(output->dtype)));
    }
  }
  out.push_back({op, {}});
}

void BodyBuilder::when(const When& s, const Position& at, Ops& out) {
  Vote vote;
  vote.condition = s.condition;
  vote.axes = s.axes;
  // Rows outside of the array hold numbers that nobody reads: they must not send the others to the slow path.
  for (Sym a : s.axes)
    if (c_.axis(a).kind == KernelAxis::Kind::Group)
      vote.condition = logical_and(c_.inside(a, true), vote.condition);
  vote.frame = c_.frame(at);
  vote.uses = uses({vote.condition}, at);
  const std::map<Sym, Expr> before = beyond_;
  statements(unstaged(s.body), at, nullptr, vote.then);  // what it reads was awaited before the vote
  std::erase_if(beyond_, [&](const auto& entry) {
    const auto it = before.find(entry.first);
    return it == before.end() || !(it->second == entry.second);
  });
  vote.scope = std::max(vote.scope, scope_of(vote.then));
  out.push_back({vote, {}});
}

void BodyBuilder::stage_here(const Statements& loads, const Position& at, Ops& out) {
  out.push_back({Barrier{0, Scope::Role}, "readers of the tiles are done"});
  bool fence = false;
  for (const Stmt* s : loads) {
    const Load& l = std::get<Load>(s->node);
    out.push_back(
        {Copy{"copy.plain", l.tile, Expr(0), l.tensor, l.index, c_.frame(at), l.present}, s->comment});
    fence = fence || c_.find_staged(l.tile)->tensor_core;
  }
  if (fence) out.push_back({ProxyFence{}, {}});
  out.push_back({Barrier{0, Scope::Role}, {}});
}

void BodyBuilder::loop(const Loop& s, Ops& out) {
  const KernelAxis& axis = c_.axis(s.axis);
  if (axis.kind == KernelAxis::Kind::Resident) {
    c_.loop_total[&s] = Expr(1);
    body(s.body, Position{&s, Expr(0), Expr(0), true}, out);
    return;
  }
  if (c_.has_ring(s)) return ring_loop(s, out);
  std::vector<SegmentVars> segments = c_.segments(s, out);
  for (size_t k = 0; k < segments.size(); ++k) {
    const SegmentVars& segment = segments[k];
    if (segment.empty) continue;
    SegmentVars* next = k + 1 < segments.size() && segments[k + 1].masked && !segments[k + 1].empty
                            ? &segments[k + 1]
                            : nullptr;
    bool joined = false;
    if (pipelined(s, segment, next, joined, out)) {
      if (joined) {  // its first chunk is behind it where there was a chunk here
        const Sym from = Sym::fresh({.name = fmt::format("{}_rest", s.axis.name()),
                                     .kind = SymbolKind::Variable,
                                     .integer = true,
                                     .nonnegative = true});
        out.push_back({Define{from, select(less(segment.lo, segment.hi), next->lo + 1, next->lo)}, {}});
        next->first = Expr(from);
      }
      continue;
    }
    if (made_ahead(s, segment, out)) continue;
    MappedLoop ops{axis.counter, segment.first ? segment.first : segment.lo, segment.hi, {}};
    body(s.body, c_.position(s, segment, Expr(axis.counter)), ops.body);
    out.push_back({ops, {}});
  }
}

Role computing_role(Context& c) {
  Role role;
  role.name = "compute";
  role.threads = int(c.distribution.threads());
  role.group = std::min(128, role.threads);
  role.body = BodyBuilder(c).run();
  return role;
}

}  // namespace tilewright::hopper
