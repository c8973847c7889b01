// Copies by the threads that compute. Streamed tiles are copied some chunks ahead, into rings:
//
//     copy chunks 0 … n − 2, a group each
//     for each chunk c:  wait until n − 2 groups are in flight; barrier; copy chunk c + n − 1 into the slot of chunk c − 1; compute chunk c
//
// The barrier tells every thread that the copies of all threads have come, and that all are done with the slot that is filled next. Kept tiles come first and are
// awaited by what reads them, or by the first chunk. Copies by instructions, where an atom in groups does not do, stand in the same places.
#include "tilewright/expr/simplify.h"
#include "tilewright/map/sm90/body.h"
#include "tilewright/support/error.h"

namespace tilewright::hopper {
namespace {

constexpr int64_t unit_bytes = 16;

}  // namespace

bool in_units(const Context& c, const Staged& s) {
  const Tile& tile = *s.tile;
  const Load& load = *s.load;
  const Input* input = c.program.input(load.tensor);
  if (c.layout != LayoutClass::Aligned || tile.axes.size() < 2 || !input || input->dtype != tile.dtype)
    return false;
  const std::vector<Dim> dims = c.dims(load.tensor);
  if (dims.empty() || dims.back().pieces.size() != 1) return false;
  const int64_t unit = unit_bytes / bytes(tile.dtype);
  const Buffer& b = c.out.buffer(tile.sym);
  for (size_t a = 0; a < tile.axes.size(); ++a) {
    const Sym axis = tile.axes[a];
    if (!(load.index.back() == Expr(axis))) continue;
    if (load.present && depends_on(load.present, axis)) return false;
    for (size_t k = 0; k + 1 < load.index.size(); ++k)
      if (depends_on(load.index[k], axis)) return false;
    const KernelAxis& along = c.axis(axis);
    const bool from_start = along.kind == KernelAxis::Kind::Whole || along.kind == KernelAxis::Kind::Resident;
    const int64_t run = b.layout.contiguous(int(a));
    return run >= unit && run % unit == 0 && b.layout.shape()[a] % unit == 0 &&
           (from_start || along.block % unit == 0);
  }
  return false;
}

/// Appends the copy; true where it joins the open group.
bool BodyBuilder::copy_tile(const Staged& s, const Position& at, const std::string& comment, Ops& out) {
  const bool grouped = in_units(c_, s);
  out.push_back({Copy{grouped ? "copy.async" : "copy.plain", s.tile->sym, c_.use(s, at), s.load->tensor,
                      s.load->index, c_.frame(at), s.load->present},
                 comment});
  if (grouped) c_.add_guard(s.load->tensor, true, int(unit_bytes));
  return grouped;
}

void BodyBuilder::copy_in_groups(const Statements& loads, const Position& at, Ops& out) {
  // A tile that is loaded once has no earlier readers, and is not needed before it is read.
  if (at.loop) out.push_back({Barrier{0, Scope::Role}, "readers of the tiles are done"});
  bool grouped = false;
  for (const Stmt* s : loads) {
    const Staged& staged = *c_.find_staged(std::get<Load>(s->node).tile);
    grouped = copy_tile(staged, at, s->comment, out) || grouped;
    if (!at.loop) unawaited_.insert(staged.tile->sym);
  }
  if (grouped) out.push_back({CopyCommit{}, {}});
  in_flight_ = in_flight_ || (grouped && !at.loop);
  if (!at.loop) return;
  if (grouped) out.push_back({CopyWait{0}, {}});
  out.push_back({Barrier{0, Scope::Role}, {}});
}

void BodyBuilder::await_kept(const std::vector<Sym>& read, Ops& out) {
  if (std::none_of(read.begin(), read.end(), [&](Sym t) { return unawaited_.count(t) > 0; })) return;
  if (in_flight_) out.push_back({CopyWait{0}, {}});
  in_flight_ = false;
  out.push_back({Barrier{0, Scope::Role}, {}});
  unawaited_.clear();
}

void BodyBuilder::ring_loop(const Loop& s, Ops& out) {
  std::vector<const Staged*> tiles;
  int slots = 0;
  for (const Staged& x : c_.staged) {
    if (!x.ring || std::find(x.loops.begin(), x.loops.end(), &s) == x.loops.end()) continue;
    TW_CHECK(slots == 0 || slots == x.tile->slots, "rings of one loop have the same number of slots");
    slots = x.tile->slots;
    tiles.push_back(&x);
  }
  const Sym counter = c_.axis(s.axis).counter;
  const std::vector<SegmentVars> segments = c_.segments(s, out, true);
  const Expr total = c_.loop_total.at(&s);
  std::vector<const SegmentVars*> filled;
  for (const SegmentVars& segment : segments)
    if (!segment.empty) filled.push_back(&segment);
  if (filled.empty()) return;

  auto chunk_of = [&](Expr ordinal) {
    Expr chunk;
    for (size_t k = filled.size(); k-- > 0;) {
      const Expr here = simplify(filled[k]->lo + ordinal - filled[k]->before);
      // Chunks of neighbouring segments follow each other.
      chunk = !chunk || chunk == here ? here : select(less(ordinal, filled[k + 1]->before), here, chunk);
    }
    return chunk;
  };
  auto fetch = [&](Expr ordinal, Ops& ops) {
    If there{less(ordinal, total), {}, {}};
    const Sym chunk = Sym::fresh({.name = s.axis.name() + "_next",
                                  .kind = SymbolKind::Variable,
                                  .integer = true,
                                  .nonnegative = true});
    there.then.push_back({Define{chunk, chunk_of(ordinal)}, {}});
    const Position at{&s, Expr(chunk), ordinal, true};
    bool grouped = false;
    for (const Staged* x : tiles) grouped = copy_tile(*x, at, {}, there.then) || grouped;
    ops.push_back({there, {}});
    if (grouped) ops.push_back({CopyCommit{}, {}});
    return grouped;
  };

  if (c_.loops.front() != &s) out.push_back({Barrier{0, Scope::Role}, "readers of earlier chunks are done"});
  bool grouped = false;
  for (int ahead = 0; ahead + 1 < slots; ++ahead) grouped = fetch(Expr(ahead), out) || grouped;
  const std::set<Sym> before = unawaited_;
  unawaited_.clear();  // the first chunk waits for them
  for (const SegmentVars* segment : filled) {
    MappedLoop ops{counter, segment->lo, segment->hi, {}};
    const Position at{&s, Expr(counter), sum_of(segment->before, simplify(Expr(counter) - segment->lo)),
                      segment->masked};
    if (grouped)
      ops.body.push_back({CopyWait{slots - 2}, {}});
    else if (in_flight_)
      ops.body.push_back({CopyWait{0}, {}});
    ops.body.push_back({Barrier{0, Scope::Role}, "the chunk has come, and readers of the last one are done"});
    fetch(simplify(at.ordinal + (slots - 1)), ops.body);
    body(s.body, at, ops.body);
    out.push_back({ops, {}});
  }
  // Where there was no chunk nothing was awaited.
  if (in_flight_) out.push_back({CopyWait{0}, {}});
  in_flight_ = false;
  unawaited_ = before;
}

}  // namespace tilewright::hopper
