#include "tilewright/tile/lifetime.h"

#include <algorithm>

#include "tilewright/tile/statements.h"

namespace tilewright {

Lifetime::Lifetime(const TileKernel& k) : k_(k) { before(k.body, {}); }

const std::vector<Sym>& Lifetime::read_by(const Stmt& s) {
  const auto known = reads_.find(&s);
  return known != reads_.end() ? known->second : reads_.emplace(&s, reads(k_, s)).first->second;
}

std::set<Sym> Lifetime::before(const Body& body, std::set<Sym> live) {
  for (size_t i = body.size(); i-- > 0;) {
    const Stmt& s = body[i];
    after_[&s] = live;
    if (auto* loop = std::get_if<Loop>(&s.node)) {
      // A second round sees what the next iteration needs; a third would add nothing.
      std::set<Sym> around = live;
      for (int round = 0; round < 2; ++round) {
        std::set<Sym> in = before(loop->body, around);
        around.insert(in.begin(), in.end());
      }
      live = around;
    } else if (auto* when = std::get_if<When>(&s.node)) {
      std::set<Sym> in = before(when->body, live);
      live.insert(in.begin(), in.end());
      for (Sym t : read_by(s)) live.insert(t);
    } else {
      if (Sym w = written(s)) live.erase(w);
      for (Sym t : read_by(s)) live.insert(t);
    }
  }
  return live;
}

std::set<Sym> Lifetime::during(const Stmt& s) const {
  std::set<Sym> live = after_.at(&s);
  const auto known = reads_.find(&s);  // a loop reads nothing itself
  if (known != reads_.end()) live.insert(known->second.begin(), known->second.end());
  if (Sym w = written(s)) live.insert(w);
  return live;
}

void Peak::raise(const Peak& other) {
  shared = std::max(shared, other.shared);
  registers = std::max(registers, other.registers);
}

Peak live_during(const TileKernel& k, const Lifetime& lifetime, const Stmt& s) {
  Peak here;
  for (Sym sym : lifetime.during(s)) {
    const Tile& t = k.tile(sym);
    (t.level == Level::Shared ? here.shared : here.registers) += full_bytes(k, t);
  }
  return here;
}

Peak live_peak(const TileKernel& k) {
  const Lifetime lifetime(k);
  Peak peak;
  for_each_stmt(k.body, [&](const Stmt& s) { peak.raise(live_during(k, lifetime, s)); });
  return peak;
}

}  // namespace tilewright
