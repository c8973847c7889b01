// Loops whose products overlap with other work.
//
// A body of the form
//     first products (operands copied, results used by the body); element work; last products (accumulate into states, used by nothing else here)
// runs with the last products one iteration behind: those of chunk c − 1 have no path to the first ones of chunk c, so both are issued as one batch,
// and one computing group fills the tensor cores while another does its element work. The batch waits for all its operands first, so that nothing stands between
// its products. The loop is peeled once and drained once. Element work in front of the first statement that touches what the last products use runs while they do. Where
// there is much of it, the rounded operand of the next products is made in registers of its own too, beside the work that it is rounded from, since those of this
// operand are read meanwhile; it moves over behind the wait.
//
// Where a masked segment follows, its first chunk is taken with the last one here: its first products are issued with the last ones of the drain. In the peeled chunk
// of the segment that comes first a speculative state has no point yet, so bodies of slow paths run at once.
//
// A body of last products alone keeps one batch in flight. Where element work makes their operands, as much of it as touches neither those nor the results
// runs for the next chunk while the products of this one are in flight.
#include <algorithm>

#include "tilewright/expr/simplify.h"
#include "tilewright/map/sm90/body.h"
#include "tilewright/support/error.h"

namespace tilewright::hopper {
namespace {

std::set<Sym> without(std::set<Sym> a, const std::set<Sym>& b) {
  for (Sym s : b) a.erase(s);
  return a;
}

std::set<Sym> join(std::set<Sym> a, const std::set<Sym>& b) {
  a.insert(b.begin(), b.end());
  return a;
}

/// Operations for each element in the statements' values, functions that are printed as many counted as ten.
int64_t operations(Expr e) {
  if (!e || e.is(Op::Read) || e.is(Op::Symbol) || e.number()) return 0;
  int64_t n = e.is(Op::Tanh) || e.is(Op::Sigmoid) || e.is(Op::Erf) || e.is(Op::Pow) ? 10 : 1;
  for (Expr a : e.args()) n += operations(a);
  return n;
}

/// Element work as long as the products of a chunk.
constexpr int64_t heavy_work = 10;

}  // namespace

Statements BodyBuilder::products_first(Statements list) const {
  const auto from_shared = [&](const Stmt* x) {
    if (!tensor_core(*x)) return false;
    const Dot& d = std::get<Dot>(x->node);
    return !in_registers(d.a) && !in_registers(d.b) && !d.accumulate && in_registers(d.tile) &&
           c_.tile(d.tile).use != Tile::Use::State;
  };
  const auto first = std::find_if(list.begin(), list.end(), from_shared);
  if (first == list.end()) return list;
  int64_t words = 0;
  for (const Buffer& b : c_.out.buffers)
    if (b.space == Space::Registers && b.axes.size() > 1) words += words_of_thread(b);
  if (words > registers_of_thread(c_.groups) - registers_beside_tiles) return list;
  auto end = std::find_if_not(first, list.end(), from_shared);
  for (auto x = end; x != list.end(); ++x) {
    if (!from_shared(*x)) continue;
    const Dot& d = std::get<Dot>((*x)->node);
    const bool apart = std::none_of(end, x, [&](const Stmt* y) {
      const auto among = [&](const std::vector<Sym>& v) {
        return std::any_of(v.begin(), v.end(), [&](Sym t) { return t == d.tile || t == d.a || t == d.b; });
      };
      return among(tiles_written(*y)) ||
             std::ranges::any_of(tiles_read(c_, *y), [&](Sym t) { return t == d.tile; });
    });
    if (apart) std::rotate(end++, x, x + 1);
  }
  return list;
}

Statements BodyBuilder::products_last(Statements list) const {
  const auto product = [&](const Stmt* x) { return tensor_core(*x); };
  const auto behind = std::find_if(list.rbegin(), list.rend(), product).base();
  const auto from = std::find_if_not(std::make_reverse_iterator(behind), list.rend(), product).base();
  std::set<Sym> read, written;
  for (auto x = from; x != behind; ++x) {
    for (Sym t : tiles_read(c_, **x)) read.insert(t);
    for (Sym t : tiles_written(**x)) written.insert(t);
  }
  const bool apart = std::all_of(behind, list.end(), [&](const Stmt* x) {
    const std::vector<Sym> reads = tiles_read(c_, *x), writes = tiles_written(*x);
    return !std::holds_alternative<Loop>(x->node) &&
           std::none_of(reads.begin(), reads.end(), [&](Sym t) { return written.count(t) > 0; }) &&
           std::none_of(writes.begin(), writes.end(),
                        [&](Sym t) { return read.count(t) > 0 || written.count(t) > 0; });
  });
  if (apart) std::rotate(from, behind, list.end());
  return list;
}

bool BodyBuilder::pipelined(const Loop& s, const SegmentVars& segment, const SegmentVars* next, bool& joined,
                            Ops& out) {
  if (segment.masked || c_.loaders == 0) return false;
  const Statements list = products_last(products_first(unstaged(s.body)));
  const Sym counter = c_.axis(s.axis).counter;
  auto dot = [](const Stmt* x) -> const Dot& { return std::get<Dot>(x->node); };

  size_t head = 0;
  while (head < list.size() && tensor_core(*list[head])) {
    const Dot& d = dot(list[head]);
    const Product& p = c_.product(d);
    if (in_registers(p.a) || c_.tile(d.tile).use == Tile::Use::State) break;
    ++head;
  }
  size_t tail = list.size();
  while (tail > head && tensor_core(*list[tail - 1])) {
    const Dot& d = dot(list[tail - 1]);
    if (!d.accumulate || c_.tile(d.tile).use != Tile::Use::State) break;
    --tail;
  }
  const Statements first(list.begin(), list.begin() + long(head)),
      middle(list.begin() + long(head), list.begin() + long(tail)),
      last(list.begin() + long(tail), list.end());
  if (last.empty()) return false;
  if (head == 0) return middle.empty() && accumulate_only(s, segment, last, out);

  const std::set<Sym> in_first = rings(first, &s), in_middle = rings(middle, &s), in_last = rings(last, &s);
  for (const Stmt* x : last) {
    for (const Stmt* y : first)
      if (dot(x).a == dot(y).tile || dot(x).b == dot(y).tile) return false;
  }
  for (
      Sym t :
      in_last)  // held over into the next iteration, which needs a slot of its own, and the loads ahead of it another
    if ((in_first.count(t) || in_middle.count(t)) && c_.find_staged(t)->tile->slots < 3) return false;

  auto batch = [&](const Statements& dots, const Position& at, Ops& ops) {
    for (const Stmt* x : dots) {
      issue(dot(x), at, ops);
      ops.back().comment = x->comment;
    }
    ops.push_back({Commit{}, {}});
  };
  const size_t early = while_products_run(first, middle, last, &s);
  const Statements ahead(middle.begin(), middle.begin() + long(early)),
      behind(middle.begin() + long(early), middle.end());
  auto element_work = [&](const Statements& work, const Position& at, Ops& ops) {
    RingState state;
    state.waited = in_first;
    state.held = in_last;
    // What first products alone read was released behind them.
    state.held.insert(in_first.begin(), in_first.end());
    for (Sym t : in_middle)
      if (!in_last.count(t)) state.held.erase(t);
    statements(work, at, &state, ops);
  };

  Ops ops;
  const Position start = c_.position(s, segment, segment.lo);
  wait(in_first, start, ops);
  ops.push_back({MmaFence{}, {}});
  batch(first, start, ops);
  ops.push_back({WaitGroup{0}, {}});
  release(without(in_first, join(in_middle, in_last)), start, ops);
  // Behind chunks of other segments a state has its point.
  element_work(segment.before.is_constant(0) ? settled(middle) : middle, start, ops);

  int64_t work = 0;
  for (const Stmt* x : middle) {
    auto* map = std::get_if<Map>(&x->node);
    if (map && c_.out.buffer(map->tile).axes.size() > 1) work += operations(map->value);
  }
  MappedLoop steady{counter, simplify(segment.lo + 1), segment.hi, {}};
  const Position now = c_.position(s, segment, Expr(counter));
  const Position previous = c_.position(s, segment, Expr(counter) - 1);
  wait(in_first, now, steady.body);
  wait(without(in_last, join(in_first, in_middle)), previous, steady.body);
  steady.body.push_back({MmaFence{}, {}});
  batch(first, now, steady.body);
  batch(last, previous, steady.body);
  steady.body.push_back({WaitGroup{1}, {}});
  release(without(in_first, join(in_middle, in_last)), now, steady.body);
  Ops later;
  statements(ahead, now, nullptr, later);
  auto meanwhile = long(later.size());
  element_work(behind, now, later);
  if (work >= heavy_work) meanwhile = std::max(meanwhile, long(rounded_apart(first, last, later)));
  steady.body.insert(steady.body.end(), later.begin(), later.begin() + meanwhile);
  steady.body.push_back({WaitGroup{0}, {}});
  release(in_last, previous, steady.body);
  steady.body.insert(steady.body.end(), later.begin() + meanwhile, later.end());
  ops.push_back({steady, "the last products run one chunk behind"});

  const Position end = c_.position(s, segment, segment.hi - 1);
  Ops drain;
  wait(without(in_last, join(in_first, in_middle)), end, drain);
  drain.push_back({MmaFence{}, {}});
  batch(last, end, drain);
  drain.push_back({WaitGroup{0}, {}});
  joined = next && std::all_of(first.begin(), first.end(), [&](const Stmt* x) {
             return c_.product(dot(x)).absent == Product::Absent::None;
           });
  // Joined, it drains where the masked segment is empty: if that is the last, nobody fills these slots again.
  if (!joined || !next->last || c_.persistent) release(in_last, end, drain);
  if (joined) {
    const Position masked = c_.position(s, *next, next->lo);
    Ops both;
    wait(in_first, masked, both);
    wait(without(in_last, join(in_first, in_middle)), end, both);
    both.push_back({MmaFence{}, {}});
    batch(first, masked, both);
    batch(last, end, both);
    both.push_back({WaitGroup{1}, {}});
    release(without(in_first, join(in_middle, in_last)), masked, both);
    // Three groups have no registers left for masks, and two have none for them beside much element work.
    const bool beside = c_.groups <= 2 && work < heavy_work;
    if (beside) statements(ahead, masked, nullptr, both);
    both.push_back({WaitGroup{0}, {}});
    release(in_last, end, both);
    RingState state;
    state.waited = in_first;
    state.held = without(in_first, join(in_middle, in_last));
    Statements rest = beside ? behind : middle;
    rest.insert(rest.end(), last.begin(), last.end());
    statements(rest, masked, &state, both);
    ops.push_back({If{less(next->lo, next->hi), std::move(both), std::move(drain)},
                   "the last products and the first of a masked chunk"});
  } else {
    ops.insert(ops.end(), drain.begin(), drain.end());
  }
  out.push_back({If{less(segment.lo, segment.hi), std::move(ops), {}}, {}});
  return true;
}

Statements BodyBuilder::settled(const Statements& list) const {
  Statements all;
  bool slow = false;
  for (const Stmt* s : list) {
    auto* when = std::get_if<When>(&s->node);
    // What only adds to a state, as instructions do with operands that its products left out, finds no point.
    const bool adds = when && std::ranges::any_of(when->body, [](const Stmt& x) {
                        auto* r = std::get_if<Reduce>(&x.node);
                        return r && r->accumulate;
                      });
    if (when && when->slow_path && !adds) {
      slow = true;
      for (const Stmt* inside : unstaged(when->body)) all.push_back(inside);
    } else {
      all.push_back(s);
    }
  }
  if (!slow) return list;
  // From the end: what is written again before anything reads it is not computed.
  Statements kept;
  std::set<Sym> overwritten;
  for (size_t k = all.size(); k-- > 0;) {
    const Stmt& s = *all[k];
    const auto* reduce = std::get_if<Reduce>(&s.node);
    const bool whole = std::holds_alternative<Map>(s.node) || (reduce && !reduce->accumulate);
    const std::vector<Sym> written = tiles_written(s);
    const std::vector<Sym> read = tiles_read(c_, s);
    const bool held = std::none_of(read.begin(), read.end(), [&](Sym t) { return c_.find_staged(t); });
    if (whole && held && in_registers(written[0]) && overwritten.count(written[0])) continue;
    if (whole) overwritten.insert(written[0]);
    for (Sym t : read) overwritten.erase(t);
    kept.insert(kept.begin(), &s);
  }
  return kept;
}

size_t BodyBuilder::rounded_apart(const Statements& first, const Statements& last, Ops& work) {
  std::set<Sym> flying;  // what products in flight use
  for (const Stmt* x : last) {
    const Dot& dot = std::get<Dot>(x->node);
    flying.insert({dot.tile, dot.a, dot.b});
  }
  const auto made = std::find_if(work.begin(), work.end(), [&](const MappedOp& op) {
    const auto* map = std::get_if<MapOp>(&op.node);
    return map && flying.count(map->buffer) && in_registers(map->buffer) &&
           bytes(c_.out.buffer(map->buffer).dtype) == 2;
  });
  if (made == work.end()) return 0;
  const size_t at = size_t(made - work.begin());
  const MapOp rounding = std::get<MapOp>(made->node);
  Buffer next = c_.out.buffer(rounding.buffer);
  next.sym = Sym::fresh({.name = rounding.buffer.name() + "_next", .kind = SymbolKind::Tile});

  std::set<Sym> held = flying;
  for (const Tile& t : c_.kernel.tiles)
    if (t.use == Tile::Use::State) held.insert(t.sym);
  for (const Stmt* x : first) held.insert(std::get<Dot>(x->node).tile);
  int64_t words = words_of_thread(next);
  for (Sym t : held)
    if (in_registers(t)) words += words_of_thread(c_.out.buffer(t));
  if (words > registers_of_thread(c_.groups) - registers_beside_tiles) return 0;

  c_.out.buffers.push_back(next);
  Ops apart = work;
  std::get<MapOp>(apart[at].node).buffer = next.sym;
  if (!round_before_vote(c_.out, apart, at)) {
    c_.out.buffers.pop_back();
    return 0;
  }
  apart.insert(apart.begin() + long(at) + 1,
               MappedOp{MapOp{rounding.buffer, at_own_axes(next.sym), rounding.frame, {}},
                        "operand of the next products"});
  work = std::move(apart);
  size_t n = 0;
  for (; n < work.size(); ++n) {
    const auto* map = std::get_if<MapOp>(&work[n].node);
    const auto* reduce = std::get_if<ReduceOp>(&work[n].node);
    if (!map && !(reduce && reduce->across <= Scope::Warp)) break;
    std::vector<Sym> tiles{map ? map->buffer : reduce->buffer};
    for (Sym t : tensors_read(map ? map->value : reduce->value))
      if (t.kind() == SymbolKind::Tile) tiles.push_back(t);
    if (!std::all_of(tiles.begin(), tiles.end(), [&](Sym t) { return in_registers(t) && !flying.count(t); }))
      break;
  }
  return n;
}

size_t BodyBuilder::while_products_run(const Statements& first, const Statements& middle,
                                       const Statements& last, const Loop* loop) const {
  std::set<Sym> flying, held;  // what products in flight use; what threads hold meanwhile
  for (const Stmt* x : last) {
    const Dot& dot = std::get<Dot>(x->node);
    flying.insert({dot.tile, dot.a, dot.b});
  }
  const auto hold = [&](Sym tile) {
    if (in_registers(tile)) held.insert(tile);
  };
  for (const Tile& t : c_.kernel.tiles)
    if (t.use == Tile::Use::State) hold(t.sym);
  for (Sym t : flying) hold(t);
  for (const Stmt* x : first) hold(std::get<Dot>(x->node).tile);
  // The assembler delays what does not fit beside the products until these are through.
  const int64_t room = registers_of_thread(c_.groups);
  size_t n = 0;
  for (; n < middle.size(); ++n) {
    const Stmt& s = *middle[n];
    const auto* reduce = std::get_if<Reduce>(&s.node);
    const bool by_lanes = reduce && c_.distribution.across(reduce->axes) <= Scope::Warp;
    if (!(std::holds_alternative<Map>(s.node) || by_lanes) || !rings({&s}, loop).empty()) break;
    std::vector<Sym> tiles = tiles_read(c_, s);
    for (Sym t : tiles_written(s)) tiles.push_back(t), hold(t);
    if (std::any_of(tiles.begin(), tiles.end(), [&](Sym t) { return flying.count(t) > 0; })) break;
    int64_t words = 0;
    for (Sym t : held) words += words_of_thread(c_.out.buffer(t));
    if (words > room) break;
  }
  return n;
}

bool BodyBuilder::accumulate_only(const Loop& s, const SegmentVars& segment, const Statements& list,
                                  Ops& out) {
  for (const Stmt* x : list)
    if (in_registers(c_.product(std::get<Dot>(x->node)).a)) return false;
  const std::set<Sym> read = rings(list, &s);
  for (const Staged& staged : c_.staged) {
    const bool here = std::find(staged.loops.begin(), staged.loops.end(), &s) != staged.loops.end();
    if (here && (!read.count(staged.tile->sym) || staged.tile->slots < 2)) return false;
  }
  const Sym counter = c_.axis(s.axis).counter;
  auto step = [&](const Position& at, Ops& ops) {
    wait(read, at, ops);
    ops.push_back({MmaFence{}, {}});
    for (const Stmt* x : list) issue(std::get<Dot>(x->node), at, ops);
    ops.push_back({Commit{}, {}});
  };
  Ops ops;
  step(c_.position(s, segment, segment.lo), ops);
  MappedLoop steady{counter, simplify(segment.lo + 1), segment.hi, {}};
  const Position now = c_.position(s, segment, Expr(counter));
  step(now, steady.body);
  steady.body.push_back({WaitGroup{1}, {}});
  release(read, c_.position(s, segment, Expr(counter) - 1), steady.body);
  ops.push_back({steady, "one batch in flight"});
  ops.push_back({WaitGroup{0}, {}});
  release(read, c_.position(s, segment, segment.hi - 1), ops);
  out.push_back({If{less(segment.lo, segment.hi), std::move(ops), {}}, {}});
  return true;
}

/// A rare body that only adds to tiles that products add to: it may as well run before them.
bool BodyBuilder::adds_alone(const Stmt& s, const std::set<Sym>& results) const {
  auto* when = std::get_if<When>(&s.node);
  return when && std::all_of(when->body.begin(), when->body.end(), [&](const Stmt& x) {
           auto* r = std::get_if<Reduce>(&x.node);
           return r && r->accumulate && r->reducer == Reducer::Sum && results.count(r->tile);
         });
}

bool BodyBuilder::made_ahead(const Loop& s, const SegmentVars& segment, Ops& out) {
  if (segment.masked || c_.loaders == 0) return false;
  const Statements list = unstaged(s.body);
  size_t end = list.size(), tail = end;
  while (end > 0 && std::holds_alternative<When>(list[end - 1]->node)) --end;
  tail = end;
  std::set<Sym> results, flying;
  while (tail > 0 && tensor_core(*list[tail - 1])) {
    const Dot& d = std::get<Dot>(list[tail - 1]->node);
    if (!d.accumulate || c_.tile(d.tile).use != Tile::Use::State) break;
    if (c_.find_made(c_.product(d).a) || c_.find_made(c_.product(d).b)) return false;
    results.insert(d.tile);
    flying.insert(d.tile);
    if (in_registers(c_.product(d).a)) flying.insert(c_.product(d).a);
    --tail;
  }
  const Statements last(list.begin() + long(tail), list.begin() + long(end));
  if (last.empty() || tail == 0 || flying == results) return false;
  Statements work(list.begin(), list.begin() + long(tail));
  for (size_t k = end; k < list.size(); ++k) {
    if (!adds_alone(*list[k], results)) return false;
    work.push_back(list[k]);
  }
  if (std::any_of(work.begin(), work.end(), [&](const Stmt* x) { return tensor_core(*x); })) return false;
  const std::set<Sym> in_last = rings(last, &s);
  for (Sym t : in_last)  // the next chunk's arrives while this one is in use
    if (c_.find_staged(t)->tile->slots < 2) return false;

  // What products in flight use is touched behind them, and so is what depends on that.
  Statements early, late;
  std::set<Sym> late_reads, late_writes;
  for (const Stmt* x : work) {
    const std::vector<Sym> read = tiles_read(c_, *x), written = tiles_written(*x);
    const auto any = [](const std::vector<Sym>& v, const std::set<Sym>& of) {
      return std::any_of(v.begin(), v.end(), [&](Sym t) { return of.count(t) > 0; });
    };
    if (any(read, flying) || any(written, flying) || any(read, late_writes) || any(written, late_reads) ||
        any(written, late_writes)) {
      late.push_back(x);
      late_reads.insert(read.begin(), read.end());
      late_writes.insert(written.begin(), written.end());
    } else {
      early.push_back(x);
    }
  }
  if (early.empty()) return false;

  const std::set<Sym> in_late = rings(late, &s);
  const auto put = [&](const Statements& part, bool finish, RingState& state, const Position& at, Ops& ops) {
    state.held = in_last;
    if (!finish) state.held.insert(in_late.begin(), in_late.end());
    state.finish = finish;
    statements(part, at, &state, ops);
  };
  const auto issue_last = [&](const RingState& state, const Position& at, Ops& ops) {
    wait(without(in_last, state.waited), at, ops);
    ops.push_back({MmaFence{}, {}});
    for (const Stmt* x : last) {
      issue(std::get<Dot>(x->node), at, ops);
      ops.back().comment = x->comment;
    }
    ops.push_back({Commit{}, {}});
  };
  Ops ops;
  const Position start = c_.position(s, segment, segment.lo);
  RingState first;
  put(early, false, first, start, ops);
  put(late, true, first, start, ops);
  issue_last(first, start, ops);

  MappedLoop steady{c_.axis(s.axis).counter, simplify(segment.lo + 1), segment.hi, {}};
  const Position now = c_.position(s, segment, Expr(steady.var));
  RingState state;
  put(early, false, state, now, steady.body);
  steady.body.push_back({WaitGroup{0}, {}});
  release(in_last, c_.position(s, segment, Expr(steady.var) - 1), steady.body);
  put(late, true, state, now, steady.body);
  issue_last(state, now, steady.body);
  ops.push_back({steady, "operands of the next products are made while these run"});
  ops.push_back({WaitGroup{0}, {}});
  release(in_last, c_.position(s, segment, segment.hi - 1), ops);
  out.push_back({If{less(segment.lo, segment.hi), std::move(ops), {}}, {}});
  return true;
}

}  // namespace tilewright::hopper
