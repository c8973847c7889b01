// Where a vote may compute a tile again, what is rounded from it behind the vote is rounded in front of it instead, and again in the vote: registers then hold the rounded
// form across the vote, not both.
#include <algorithm>
#include <set>

#include "tilewright/map/sm90/body.h"

namespace tilewright::hopper {
namespace {

std::vector<Sym> tiles_of(Expr e) {
  std::vector<Sym> tiles;
  if (e)
    for (Sym s : tensors_read(e))
      if (s.kind() == SymbolKind::Tile) tiles.push_back(s);
  return tiles;
}

/// Tiles that ops read or write; `others`: something else than maps, reductions and votes stands there.
struct Touched {
  std::set<Sym> read, written;
  bool others = false;
  explicit Touched(const Ops& ops, size_t first, size_t last) {
    for (size_t k = first; k < last; ++k) {
      const Ops one{ops[k]};
      for_each_op(one, [&](const MappedOp& op) {
        auto reads = [&](Expr e) {
          for (Sym t : tiles_of(e)) read.insert(t);
        };
        if (auto* m = std::get_if<MapOp>(&op.node)) {
          reads(m->value), written.insert(m->buffer);
        } else if (auto* r = std::get_if<ReduceOp>(&op.node)) {
          reads(r->value), written.insert(r->buffer);
          if (r->accumulate) read.insert(r->buffer);
        } else if (auto* v = std::get_if<Vote>(&op.node)) {
          reads(v->condition);
        } else {
          others = true;
        }
      });
    }
  }
  bool touches(Sym t) const { return read.count(t) > 0 || written.count(t) > 0; }
};

}  // namespace

bool round_before_vote(const MappedKernel& k, Ops& ops, size_t at) {
  const MapOp map = std::get<MapOp>(ops[at].node);
  const Buffer& target = k.buffer(map.buffer);
  if (target.space != Space::Registers) return false;
  size_t vote = at;
  while (vote > 0 && !std::holds_alternative<Vote>(ops[vote - 1].node)) --vote;
  if (vote == 0) return false;
  --vote;
  const Vote& v = std::get<Vote>(ops[vote].node);
  if (v.then.empty() || !v.otherwise.empty()) return false;
  const std::vector<Sym> read = tiles_of(map.value);
  const Touched between(ops, vote + 1, at), inside(v.then, 0, v.then.size());
  if (between.others || inside.others || between.touches(map.buffer) || inside.touches(map.buffer))
    return false;
  bool narrower = false;  // than a tile that the vote computes again
  for (Sym t : read) {
    if (between.written.count(t) > 0) return false;
    if (inside.written.count(t) > 0)
      narrower = narrower || (k.buffer(t).space == Space::Registers && k.buffer(t).axes == target.axes &&
                              bytes(k.buffer(t).dtype) > bytes(target.dtype));
  }
  if (!narrower) return false;
  size_t place = vote;  // behind the last writer of what it reads
  while (place > 0) {
    const Touched before(ops, place - 1, place);
    if (before.others || before.touches(map.buffer)) return false;
    --place;
    if (std::any_of(read.begin(), read.end(), [&](Sym t) { return before.written.count(t) > 0; })) break;
  }
  const bool written = place < vote && std::any_of(read.begin(), read.end(), [&](Sym t) {
                         return Touched(ops, place, place + 1).written.count(t) > 0;
                       });
  if (!written) return false;
  const MappedOp op = ops[at];
  std::get<Vote>(ops[vote].node).then.push_back({map, {}});
  ops.erase(ops.begin() + long(at));
  ops.insert(ops.begin() + long(place) + 1, op);
  return true;
}

void round_early(const MappedKernel& k, Ops& ops) {
  for (MappedOp& op : ops) for_each_body(op, [&](Ops& inside) { round_early(k, inside); });
  for (size_t at = 0; at < ops.size(); ++at)
    if (std::holds_alternative<MapOp>(ops[at].node)) round_before_vote(k, ops, at);
}

}  // namespace tilewright::hopper
