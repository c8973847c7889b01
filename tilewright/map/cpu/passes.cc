#include "tilewright/map/cpu/passes.h"

#include <algorithm>
#include <map>
#include <set>

#include "tilewright/expr/simplify.h"
#include "tilewright/map/cpu/lanes.h"
#include "tilewright/tile/statements.h"

namespace tilewright::cpu {
namespace {

struct Reads {
  Sym buffer;

  bool in(Expr e) const {
    if (!e) return false;
    const std::vector<Sym> read = tensors_read(e);
    return std::find(read.begin(), read.end(), buffer) != read.end();
  }
  bool in(const std::vector<Expr>& list) const {
    return std::any_of(list.begin(), list.end(), [&](Expr e) { return in(e); });
  }

  bool operator()(const Define& x) const { return in(x.value); }
  bool operator()(const Fetch& x) const { return in(x.index); }
  bool operator()(const If& x) const { return in(x.condition); }
  bool operator()(const Vote& x) const { return in(x.condition); }
  bool operator()(const Copy& x) const { return in(x.index) || in(x.present); }
  bool operator()(const StoreOut& x) const { return x.buffer == buffer || in(x.index); }
  bool operator()(const Mma& x) const {
    return x.a == buffer || x.b == buffer || (x.d == buffer && !x.zero) || x.next == buffer;
  }
  bool operator()(const MapOp& x) const { return in(x.value); }
  bool operator()(const ReduceOp& x) const { return in(x.value) || (x.accumulate && x.buffer == buffer); }
  bool operator()(const RankOp& x) const {
    return x.keys == buffer || x.indices == buffer || in(x.value) || in(x.at) || in(x.present);
  }
  template <class T>
  bool operator()(const T&) const {
    return false;  // loops and what they hold are visited one by one; waiting and asynchronous ops do not occur
  }
};

struct Writes {
  Sym buffer;

  bool operator()(const Copy& x) const { return x.buffer == buffer; }
  bool operator()(const Mma& x) const { return x.d == buffer; }
  bool operator()(const MapOp& x) const { return x.buffer == buffer; }
  bool operator()(const ReduceOp& x) const { return x.buffer == buffer; }
  bool operator()(const RankOp& x) const { return x.keys == buffer || x.indices == buffer; }
  template <class T>
  bool operator()(const T&) const {
    return false;
  }
};

const AxisFrame* frame_of(const Frame& f, Sym axis) {
  for (const AxisFrame& a : f)
    if (a.axis == axis) return &a;
  return nullptr;
}

/// The reduction takes each value that the map makes once, as it is.
bool takes(const ReduceOp& r, const MapOp& map, const Buffer& made) {
  if (r.value != read(made.sym, {made.axes.begin(), made.axes.end()}) || r.frame.size() != map.frame.size())
    return false;
  return std::all_of(map.frame.begin(), map.frame.end(), [&](const AxisFrame& f) {
    const AxisFrame* g = frame_of(r.frame, f.axis);
    return g && g->origin == f.origin && g->extent == f.extent;
  });
}

/// Sums and products of few values that are read: computed again in less time than a tile of them is stored and read.
bool is_cheap(Expr e) {
  if (e.args().empty() || e.is(Op::Read)) return true;
  return (e.is(Op::Add) || e.is(Op::Sub) || e.is(Op::Mul)) && e.args().size() == 2 &&
         std::all_of(e.args().begin(), e.args().end(), is_cheap);
}

/// Does an op, or one inside of it, write to a tile?
bool changes(const MappedOp& op, Sym buffer) {
  bool found = writes(op, buffer);
  for_each_body(op, [&](const Ops& body) {
    for (const MappedOp& o : body) found = found || changes(o, buffer);
  });
  return found;
}

/// The reduction behind `at` that reads the tile made there does so element by element, and what it is made of is still the same.
bool may_make(const MappedKernel& k, const Ops& body, size_t at, size_t behind) {
  const MapOp& map = std::get<MapOp>(body[at].node);
  const auto* r = std::get_if<ReduceOp>(&body[behind].node);
  const Buffer& made = k.buffer(map.buffer);
  const Expr own = read(made.sym, {made.axes.begin(), made.axes.end()});
  if (!r || (r->accumulate && r->buffer == made.sym) || r->frame.size() != map.frame.size()) return false;
  bool same = true;
  rewrite(r->value, [&](Expr x) {
    same = same && (!x.is(Op::Read) || x->sym != made.sym || x == own);
    return x;
  });
  for (const AxisFrame& f : map.frame) {
    const AxisFrame* g = frame_of(r->frame, f.axis);
    same = same && g && g->origin == f.origin && g->extent == f.extent;
  }
  const std::vector<Sym> made_of = tensors_read(map.value);
  same = same && std::find(made_of.begin(), made_of.end(), r->buffer) == made_of.end();
  for (size_t n = at + 1; n < behind; ++n)
    same = same && std::none_of(made_of.begin(), made_of.end(), [&](Sym s) { return changes(body[n], s); });
  return same;
}

}  // namespace

bool reads(const MappedOp& op, Sym buffer) { return std::visit(Reads{buffer}, op.node); }

bool writes(const MappedOp& op, Sym buffer) { return std::visit(Writes{buffer}, op.node); }

void inline_maps(MappedKernel& k, Ops& role) {
  const auto count = [&](Sym buffer) {
    int n = 0;
    for_each_op(role, [&](MappedOp& op) { n += reads(op, buffer); });
    return n;
  };
  const auto is_taken = [&](const Ops& body, size_t at) {
    const auto* map = std::get_if<MapOp>(&body[at].node);
    const auto* reduce = at + 1 < body.size() ? std::get_if<ReduceOp>(&body[at + 1].node) : nullptr;
    if (!map || !reduce) return false;
    const Buffer& made = k.buffer(map->buffer);
    return made.space == Space::Local && is_float(made.dtype) && takes(*reduce, *map, made) &&
           !reads(body[at], made.sym) && !reads(body[at], reduce->buffer);
  };
  const auto for_each_ops = [&](const auto& f) {
    f(role);
    for_each_op(role, [&](MappedOp& op) { for_each_body(op, f); });
  };
  // A loop in several segments makes and reads a tile in each.
  std::map<Sym, int> taken;
  for_each_ops([&](Ops& body) {
    for (size_t at = 0; at < body.size(); ++at)
      if (is_taken(body, at)) ++taken[std::get<MapOp>(body[at].node).buffer];
  });
  std::set<Sym> inlined;
  for (const auto& [buffer, times] : taken)
    if (count(buffer) == times) inlined.insert(buffer);
  for_each_ops([&](Ops& body) {
    for (size_t at = 0; at < body.size(); ++at) {
      if (!is_taken(body, at) || !inlined.count(std::get<MapOp>(body[at].node).buffer)) continue;
      std::get<ReduceOp>(body[at + 1].node).value = std::get<MapOp>(body[at].node).value;
      body.erase(body.begin() + long(at));
    }
  });
  // What several reductions take of the same elements is made in their loops, if that is cheap.
  const auto takers = [&](const Ops& body, size_t at) {
    std::vector<size_t> behind;
    const auto* map = std::get_if<MapOp>(&body[at].node);
    if (!map || !is_cheap(map->value) || reads(body[at], map->buffer)) return behind;
    const Buffer& made = k.buffer(map->buffer);
    if (made.space != Space::Local || !is_float(made.dtype) || made.axes.empty()) return behind;
    for (size_t n = at + 1; n < body.size() && !changes(body[n], made.sym); ++n)
      if (reads(body[n], made.sym)) behind.push_back(n);
    if (!std::all_of(behind.begin(), behind.end(), [&](size_t n) { return may_make(k, body, at, n); }))
      behind.clear();
    return behind;
  };
  taken.clear(), inlined.clear();
  for_each_ops([&](Ops& body) {
    for (size_t at = 0; at < body.size(); ++at)
      if (const size_t n = takers(body, at).size(); n > 1)
        taken[std::get<MapOp>(body[at].node).buffer] += int(n);
  });
  for (const auto& [buffer, times] : taken)
    if (count(buffer) == times) inlined.insert(buffer);
  for_each_ops([&](Ops& body) {
    for (size_t at = 0; at < body.size(); ++at) {
      const auto* map = std::get_if<MapOp>(&body[at].node);
      if (!map || !inlined.count(map->buffer)) continue;
      const Buffer& made = k.buffer(map->buffer);
      const Expr own = read(made.sym, {made.axes.begin(), made.axes.end()}), value = map->value;
      for (size_t n : takers(body, at)) {
        ReduceOp& r = std::get<ReduceOp>(body[n].node);
        r.value = rewrite(r.value, [&](Expr x) { return x == own ? value : x; });
      }
      body.erase(body.begin() + long(at--));
    }
  });
  // A tile that nothing makes or reads any more takes no memory.
  k.buffers.erase(std::remove_if(k.buffers.begin(), k.buffers.end(),
                                 [&](const Buffer& b) {
                                   if (b.space != Space::Local || count(b.sym) > 0) return false;
                                   bool made = false;
                                   for_each_op(role, [&](MappedOp& op) { made = made || writes(op, b.sym); });
                                   return !made;
                                 }),
                  k.buffers.end());
}

void share_reading(const MappedKernel& k, Ops& body, Sym stream, Sym axis, int64_t elements) {
  std::vector<ReduceOp*> passes;
  std::vector<Sym> views;
  for (MappedOp& op : body) {
    ReduceOp* r = std::get_if<ReduceOp>(&op.node);
    const bool single = r && std::any_of(k.buffers.begin(), k.buffers.end(), [&](const Buffer& b) {
                          return b.sym == r->buffer && b.axes.empty();
                        });
    if (single && r->axes == std::vector<Sym>{stream}) passes.push_back(r);
    for (const Buffer& b : k.buffers)
      if (b.space == Space::Memory && b.axes == std::vector<Sym>{stream} && reads(op, b.sym) &&
          std::find(views.begin(), views.end(), b.sym) == views.end() &&
          std::any_of(b.index.begin(), b.index.end(), [&](Expr e) { return depends_on(e, axis); }))
        views.push_back(b.sym);
  }
  for (size_t part = 0; part < passes.size(); ++part)
    for (Sym view : views)
      passes[part]->shares.push_back({view, {axis, elements}, int(part), int(passes.size())});
}

}  // namespace tilewright::cpu
