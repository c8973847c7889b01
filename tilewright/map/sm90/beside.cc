// Tiles without rows. Every thread that holds rows would compute them alike, so threads beside the one that loads make each of them once for a chunk, from
// the tiles in shared memory, and hand it over in a ring. A state (a sum over all chunks) is handed over after every chunk: use u of its ring is what
// it is after u chunks.
#include <fmt/format.h>

#include <algorithm>

#include "tilewright/expr/simplify.h"
#include "tilewright/map/sm90/body.h"
#include "tilewright/support/error.h"
#include "tilewright/tile/statements.h"

namespace tilewright::hopper {
namespace {

constexpr int makers = 96;  // three warps of the group whose first one loads

bool has(const std::vector<Sym>& v, Sym s) { return std::find(v.begin(), v.end(), s) != v.end(); }

bool accumulates(const Stmt& s) {
  auto* r = std::get_if<Reduce>(&s.node);
  auto* d = std::get_if<Dot>(&s.node);
  return (r && r->accumulate) || (d && d->accumulate);
}

bool reduces(const Stmt& s) {
  return std::holds_alternative<Reduce>(s.node) || std::holds_alternative<Dot>(s.node);
}

class Chooser {
 public:
  explicit Chooser(Context& c) : c_(c) { walk(c.kernel.body, nullptr, false); }

  void run() {
    for (const Tile& t : c_.kernel.tiles)
      if (std::optional<Candidate> x = candidate(t)) chosen_[t.sym] = *x;
    for (bool changed = true; changed;) {
      changed = false;
      for (auto it = chosen_.begin(); it != chosen_.end();) {
        const bool stays = fed(it->first, it->second);
        changed = changed || !stays;
        it = stays ? std::next(it) : chosen_.erase(it);
      }
    }
    keep_what_sums_serve();
    if (!chosen_.empty()) commit();
  }

 private:
  struct Site {
    const Stmt* stmt;
    const Loop* loop;
    bool in_when;
    int place;
  };
  struct Candidate {
    const Loop* loop = nullptr;  ///< null: made once, before loops
    bool carried = false;
    std::vector<Site> writers;
  };

  void walk(const Body& body, const Loop* loop, bool in_when) {
    for (const Stmt& s : body) {
      sites_.push_back({&s, loop, in_when, int(sites_.size())});
      if (auto* l = std::get_if<Loop>(&s.node)) {
        walk(l->body, l, in_when);
        end_of_[l] = int(sites_.size());
      }
      if (auto* w = std::get_if<When>(&s.node)) walk(w->body, loop, true);
    }
  }

  bool reads_tile(const Site& site, Sym t) const { return has(reads(c_.kernel, *site.stmt), t); }

  /// One axis, not that of the rows; written by maps and sums of one loop alone, or a sum over a loop that starts as a constant; read by expressions
  /// of the loop after it is written (a sum: before, or after the loop). Or written outside of loops alone, also with rows.
  std::optional<Candidate> candidate(const Tile& t) const {
    if (t.level != Level::Registers || t.dtype != DType::f32 || t.axes.size() != 1) return {};
    Candidate x;
    std::vector<Site> inside, outside;
    const Site* start = nullptr;
    for (const Site& s : sites_) {
      if (!has(all_written(*s.stmt), t.sym)) continue;
      if (s.in_when || std::holds_alternative<Load>(s.stmt->node) ||
          std::holds_alternative<Rank>(s.stmt->node))
        return {};
      x.writers.push_back(s);
      if (s.loop) {
        if (x.loop && x.loop != s.loop) return {};
        x.loop = s.loop;
        inside.push_back(s);
      } else {
        auto* m = std::get_if<Map>(&s.stmt->node);
        start = m && m->value.number() && !start ? &s : start;
        outside.push_back(s);
      }
    }
    if (x.writers.empty() || (x.loop && t.axes[0] == c_.row)) return {};
    if (x.loop && c_.axis(x.loop->axis).kind == KernelAxis::Kind::Resident) return {};
    x.carried = x.loop && !outside.empty();
    if (x.carried && (outside.size() != 1 || !start || inside.size() != 1 || !accumulates(*inside[0].stmt) ||
                      start->place > inside[0].place))
      return {};
    const std::vector<Site>& made = x.loop ? inside : outside;
    if (!x.carried && reads_tile(made[0], t.sym)) return {};
    for (const Site& s : sites_) {
      const bool writes = has(all_written(*s.stmt), t.sym);
      if (writes || !reads_tile(s, t.sym)) continue;
      if (!std::holds_alternative<Map>(s.stmt->node) && !std::holds_alternative<Reduce>(s.stmt->node))
        return {};
      if (x.carried) {
        const bool before = s.loop == x.loop && s.place < inside[0].place;
        const bool after = !s.loop && s.place >= end_of_.at(x.loop);
        if (!before && !after) return {};
      } else if (x.loop && s.loop != x.loop) {
        return {};
      } else if (s.place < made.back().place) {
        // What stands between its writers would read another value than the one handed over, unless it is made beside too.
        if (s.place < made[0].place || !one_axis(s)) return {};
      }
    }
    return x;
  }

  bool one_axis(const Site& s) const {
    const Sym target = written(*s.stmt);
    return target && c_.tile(target).axes.size() == 1;
  }

  /// Everything that its writers read lies in shared memory or is made beside.
  bool fed(Sym t, const Candidate& x) const {
    for (const Site& w : x.writers) {
      for (Sym read : reads(c_.kernel, *w.stmt)) {
        if (read == t) continue;
        if (const Staged* s = const_cast<Context&>(c_).find_staged(read)) {
          if (!s->loops.empty() && s->loops != std::vector<const Loop*>{x.loop}) return false;
          continue;
        }
        auto other = chosen_.find(read);
        if (other == chosen_.end() || other->second.carried || other->second.loop != x.loop ||
            other->second.writers[0].place > w.place)
          return false;
      }
    }
    // A reader between its writers must be beside, too.
    if (x.carried) return true;
    for (const Site& s : sites_) {
      if (has(all_written(*s.stmt), t) || !reads_tile(s, t) || s.place > x.writers.back().place) continue;
      if (!chosen_.count(written(*s.stmt))) return false;
    }
    return true;
  }

  /// A map alone is cheap where it is needed; what sums are made of, or what is made of them, goes with them.
  void keep_what_sums_serve() {
    std::set<Sym> useful;
    for (auto& [t, x] : chosen_)
      if (std::any_of(x.writers.begin(), x.writers.end(), [](const Site& s) { return reduces(*s.stmt); }))
        useful.insert(t);
    const auto reads_any = [&](const Candidate& x, const std::set<Sym>& of) {
      return std::any_of(x.writers.begin(), x.writers.end(), [&](const Site& w) {
        return std::any_of(of.begin(), of.end(), [&](Sym t) { return reads_tile(w, t); });
      });
    };
    for (size_t before = 0; before != useful.size();) {  // made of sums
      before = useful.size();
      for (auto& [t, x] : chosen_)
        if (reads_any(x, useful)) useful.insert(t);
    }
    for (size_t before = 0; before != useful.size();) {  // what those are made of
      before = useful.size();
      for (auto& [t, x] : chosen_)
        for (Sym u : std::vector<Sym>(useful.begin(), useful.end()))
          if (reads_any(chosen_.at(u), {t})) useful.insert(t);
    }
    std::erase_if(chosen_, [&](auto& x) { return !useful.count(x.first); });
  }

  void commit() {
    c_.makers = makers;
    for (auto& [t, x] : chosen_)
      for (const Site& w : x.writers) c_.beside.insert(w.stmt);
    for (auto& [t, x] : chosen_) {
      const bool handed_over = std::any_of(sites_.begin(), sites_.end(), [&, t = t](const Site& s) {
        return !c_.beside.count(s.stmt) && reads_tile(s, t);
      });
      Tile& tile = *std::find_if(c_.kernel.tiles.begin(), c_.kernel.tiles.end(),
                                 [&, t = t](const Tile& k) { return k.sym == t; });
      tile.level = Level::Shared;
      tile.slots = std::max(2, c_.tiles.plan.stages);
      for (const Site& w : x.writers)
        for (Sym read : reads(c_.kernel, *w.stmt))
          if (Staged* s = c_.find_staged(read)) s->read_beside = true;
      if (handed_over || x.carried) {
        Staged ring;
        ring.tile = &tile;
        if (x.loop) ring.loops = {x.loop};
        ring.carried = x.carried;
        rings_.push_back(ring);
      } else {
        c_.kept_beside.push_back(t);
      }
    }
    // In the order of the tiles, so that the text is the same in every run.
    std::sort(rings_.begin(), rings_.end(), [](const Staged& a, const Staged& b) { return a.tile < b.tile; });
    c_.staged.insert(c_.staged.end(), rings_.begin(), rings_.end());
    std::erase_if(c_.products, [&](const Product& p) { return chosen_.count(p.dot->tile) > 0; });
  }

  Context& c_;
  std::vector<Site> sites_;
  std::map<const Loop*, int> end_of_;
  std::map<Sym, Candidate> chosen_;
  std::vector<Staged> rings_;
};

/// Threads of the making role that share one vector of results: those that a tile has more of than it has vectors along its contiguous axis.
int64_t parts_of(const Context& c, const Buffer& result, const std::vector<Sym>& reduced, Expr value) {
  const Buffer* widest = nullptr;
  for (Sym t : tensors_read(value)) {
    if (t.kind() != SymbolKind::Tile) continue;
    const Buffer& b = c.out.buffer(t);
    if (!widest || b.axes.size() > widest->axes.size()) widest = &b;
  }
  if (!widest) return 1;
  for (size_t a = 0; a < widest->axes.size(); ++a) {
    const int64_t vector = 16 / bytes(widest->dtype);
    if (has(reduced, widest->axes[a]) || widest->layout.contiguous(int(a)) % vector != 0) continue;
    return std::max<int64_t>(1, c.makers / std::max<int64_t>(1, result.layout.elements() / vector));
  }
  return 1;
}

}  // namespace

void choose_beside(Context& c) {
  if (c.row && c.loaders > 0 && c.layout == LayoutClass::Aligned) Chooser(c).run();
}

void allocate_beside(Context& c) {
  const auto add = [&](Sym sym, const Tile& t, const std::string& comment) {
    Buffer b;
    b.sym = sym;
    b.axes = t.axes;
    b.dtype = t.dtype;
    b.space = Space::Local;
    std::vector<int64_t> shape;
    for (Sym a : t.axes) shape.push_back(c.extent(a));
    b.layout = Layout::row_major(shape);
    b.comment = comment;
    c.out.buffers.push_back(std::move(b));
  };
  for (Sym t : c.kept_beside) add(t, c.tile(t), "made beside for others");
  for (Staged& s : c.staged) {
    if (!s.carried) continue;
    s.sum = Sym::fresh({.name = s.tile->sym.name() + "_sum", .kind = SymbolKind::Tile});
    add(s.sum, *s.tile, "of all chunks so far");
  }
}

void BodyBuilder::publish(const Staged& s, Expr use, const Position& at, Ops& out) {
  const std::vector<Sym>& axes = s.tile->axes;
  out.push_back({Barrier{0, Scope::Role}, {}});
  if (!use.is_constant(0)) out.push_back({Wait{s.channel, false, use}, {}});
  out.push_back({MapOp{s.tile->sym,
                       read(s.sum, std::vector<Expr>(axes.begin(), axes.end())),
                       c_.frame(at),
                       {{s.tile->sym, use}}},
                 {}});
  out.push_back({Arrive{s.channel, true, use, s.signals()}, {}});
}

void BodyBuilder::make_tile(const Stmt& s, const Position& at, Ops& out) {
  const Sym tile = written(s);
  const Staged* ring = c_.find_staged(tile);
  const Sym target = ring && ring->carried ? ring->sum : tile;
  if (auto* m = std::get_if<Map>(&s.node)) {
    const Expr value = at.masked && m->masked ? m->masked : m->value;
    std::vector<Use> used = uses({value}, at);
    if (target == tile)
      for (const Use& u : uses_of({tile}, at))
        if (std::none_of(used.begin(), used.end(), [&](const Use& x) { return x.buffer == tile; }))
          used.push_back(u);
    out.push_back({MapOp{target, value, c_.frame(at), used}, s.comment});
    return;
  }
  ReduceOp op;
  Expr value;
  if (auto* d = std::get_if<Dot>(&s.node)) {
    op.reducer = Reducer::Sum;
    op.axes = d->axes;
    op.accumulate = d->accumulate;
    value = at_own_axes(d->a) * at_own_axes(d->b);
    if (at.masked && d->present) value = select(d->present, value, Expr(0));
    value = clipped(value, op.axes, at, Expr(0));
  } else {
    const Reduce& r = std::get<Reduce>(s.node);
    op.reducer = r.reducer;
    op.axes = r.axes;
    op.accumulate = r.accumulate;
    value = clipped(at.masked && r.masked ? r.masked : r.value, op.axes, at, identity(r.reducer));
  }
  op.buffer = target;
  op.value = value;
  op.frame = c_.frame(at, op.axes);
  op.uses = uses({value}, at);
  if (target == tile)
    for (const Use& u : uses_of({tile}, at)) op.uses.push_back(u);
  const Buffer result = c_.out.buffer(target);
  if (const int64_t parts = parts_of(c_, result, op.axes, value); parts > 1) {
    op.across = Scope::Role;
    op.scratch = scratch(target, parts * result.layout.elements(), result.dtype);
  }
  out.push_back({op, s.comment});
}

void BodyBuilder::make_tiles(const Body& body, const Position& at, Ops& out) {
  Statements list;
  for (const Stmt& x : body)
    if (c_.beside.count(&x)) list.push_back(&x);
  std::set<Sym> own, needed;  // rings that are handed over, rings that are read
  for (const Stmt* x : list) {
    for (Sym t : reads(c_.kernel, *x))
      if (const Staged* r = c_.find_staged(t); r && r->load && !r->loops.empty()) needed.insert(t);
    if (const Staged* r = c_.find_staged(written(*x)); r && !r->carried) own.insert(written(*x));
  }
  wait(needed, at, out);
  for (const Staged& r : c_.staged)
    if (own.count(r.tile->sym) && at.loop) out.push_back({Wait{r.channel, false, c_.use(r, at)}, {}});
  std::set<Sym> was_read, was_written;  // since the last barrier
  for (const Stmt* x : list) {
    const Sym target = written(*x);
    // Other threads may still read what is kept from the chunk before.
    bool ordered = (at.loop && !own.count(target)) || was_read.count(target) || was_written.count(target);
    for (Sym t : reads(c_.kernel, *x)) ordered = ordered || was_written.count(t);
    const size_t before = out.size();
    make_tile(*x, at, out);
    auto* r = std::get_if<ReduceOp>(&out.back().node);
    const bool exchanges = r && r->scratch;  // with barriers of its own
    if (ordered && !exchanges) out.insert(out.begin() + long(before), {Barrier{0, Scope::Role}, {}});
    if (ordered || exchanges) was_read.clear(), was_written.clear();
    for (Sym t : reads(c_.kernel, *x)) was_read.insert(t);
    was_written.insert(target);
  }
  release(needed, at, out);
  for (const Staged& r : c_.staged) {
    if (own.count(r.tile->sym)) out.push_back({Arrive{r.channel, true, c_.use(r, at), r.signals()}, {}});
    if (r.carried && at.loop == r.loops[0]) publish(r, simplify(c_.use(r, at) + 1), at, out);
  }
}

Ops BodyBuilder::making() {
  Ops out;
  c_.loop_total.clear();
  for (const Staged& s : c_.staged)
    if (s.load && s.loops.empty() && s.read_beside) out.push_back({Wait{s.channel, true, Expr(0)}, {}});
  make_tiles(c_.kernel.body, {}, out);
  for (const Staged& s : c_.staged)
    if (s.carried) publish(s, Expr(0), {}, out);
  for (const Loop* loop : c_.loops) {
    const bool any = std::any_of(loop->body.begin(), loop->body.end(),
                                 [&](const Stmt& s) { return c_.beside.count(&s) > 0; });
    if (!any) continue;
    const Sym counter = c_.axis(loop->axis).counter;
    for (const SegmentVars& segment : c_.segments(*loop, out)) {
      if (segment.empty) continue;
      MappedLoop ops{counter, segment.lo, segment.hi, {}};
      make_tiles(loop->body, c_.position(*loop, segment, Expr(counter)), ops.body);
      out.push_back({ops, {}});
    }
  }
  return out;
}

Role making_role(Context& c) {
  Role role;
  role.name = "make";
  role.threads = role.group = c.makers;
  role.body = BodyBuilder(c).making();
  return role;
}

}  // namespace tilewright::hopper
