// What is ordered before what: clocks, accesses to Local and Registers, channels, fences and barriers.
#include <fmt/format.h>

#include <algorithm>

#include "tilewright/map/interpreter_runner.h"
#include "tilewright/support/error.h"

namespace tilewright::emulation {
namespace {

using Kind = MappedFault::Kind;
constexpr int warp_threads = 32;

void join(Clock& into, const Clock& other) {
  for (size_t k = 0; k < into.size() && k < other.size(); ++k) into[k] = std::max(into[k], other[k]);
}

int instance(const RoleState& r, Unit u, Scope level) {
  if (level >= Scope::Role) return 0;
  if (u.level == level) return u.index;
  int thread = u.level == Scope::Warp ? u.index * warp_threads : u.index;
  return level == Scope::Warp ? thread / warp_threads : thread / r.spec->group;
}

Unit unit_of(const Access& a) { return {a.level, a.index}; }

const char* plural(int64_t n) { return n == 1 ? "" : "s"; }

}  // namespace

Unit Runner::unit(const RoleState& r, Scope level, int index) const {
  if (r.spec->threads == 1) return {Scope::Thread, 0};
  if (level >= Scope::Role) level = Scope::Role, index = 0;
  if (level == Scope::Role && r.groups() == 1) level = Scope::Group;
  if (level == Scope::Group && r.spec->threads <= warp_threads) level = Scope::Warp, index = 0;
  return {level, index};
}

Unit Runner::cover(const RoleState& r, Unit a, Unit b) const {
  for (int level = int(std::max(a.level, b.level)); level < int(Scope::Role); ++level) {
    int index = instance(r, a, Scope(level));
    if (index == instance(r, b, Scope(level))) return {Scope(level), index};
  }
  return {Scope::Role, 0};
}

bool Runner::ordered(const RoleState& r, int64_t time, Unit first, Unit second) const {
  if (r.own >= time) return true;
  Unit both = cover(r, first, second);
  switch (both.level) {
    case Scope::Thread: return true;
    case Scope::Warp: return r.warp_barrier[both.index] > time;
    case Scope::Group: return r.group_barrier[both.index] > time;
    default: return r.role_barrier > time;
  }
}

bool Runner::knows(const RoleState& r, const Access& a, Unit u) const {
  if (a.time == 0) return true;
  if (a.role == r.index)
    return a.time == r.now() || ordered(r, a.time, unit_of(a), u);  // one op: one thread an element
  return r.clock[a.role] >= a.time;
}

bool Runner::fenced(const RoleState& r, const Access& a) const {
  if (a.time == 0) return true;
  if (a.role != r.index) return r.fenced[a.role] >= a.time;
  for (int w = 0; w < r.warps(); ++w) {
    Unit warp{Scope::Warp, w};
    bool inside = a.level <= Scope::Warp ? instance(r, unit_of(a), Scope::Warp) == w
                                         : a.level >= Scope::Role || instance(r, warp, a.level) == a.index;
    if (inside && r.warp_proxy_fence[w] <= a.time) return false;
  }
  return true;
}

int64_t Runner::barrier_time(const RoleState& r, Scope level) const {
  Unit u = unit(r, level, 0);
  if (u.level >= Scope::Role) return r.role_barrier;
  if (u.level == Scope::Thread) return r.now();
  const auto& times = u.level == Scope::Group ? r.group_barrier : r.warp_barrier;
  return *std::min_element(times.begin(), times.end());
}

int Runner::active_instances(const RoleState& r, Scope level) const {
  auto count = [&](int size) {
    int n = 0;
    for (int first = 0; first < r.spec->threads; first += size) {
      bool any = r.mask.empty();
      for (int t = first; !any && t < std::min(first + size, r.spec->threads); ++t) any = r.mask[t];
      n += any;
    }
    return n;
  };
  switch (level) {
    case Scope::Thread: return count(1);
    case Scope::Warp: return count(warp_threads);
    case Scope::Group: return count(r.spec->group);
    default: return 1;
  }
}

void Runner::require_level(const RoleState& r, Scope level, const char* what) {
  if (level <= r.level) return;
  if (unit(r, level, 0).level <= unit(r, r.level, 0).level) return;  // the same threads in this role
  fault(Kind::BarrierMismatch, r, fmt::format("{} stands in a vote whose threads may disagree", what));
}

// ---- Local, by instructions ----

Slot& Runner::slot_state(const Buffer& b, int slot) {
  return storages_[buffers_[buffer_index(b.sym)].storage].slots[slot];
}

void Runner::read_slot(RoleState& r, const Buffer& b, int slot) {
  if (!racy_) return;
  for (const AsyncWrite& w : slot_state(b, slot).async_writes) {
    if (r.clock[w.agent] > w.phase) continue;
    fault(Kind::EarlyRead, r,
          fmt::format("{} is read before its copy is known to be complete; wait for full first",
                      slot_name(b, slot)));
  }
  if (!slot_state(b, slot).group_writes.empty())
    fault(Kind::EarlyRead, r,
          fmt::format("{} is read while a copy into it may be in flight; wait for its group first",
                      slot_name(b, slot)));
}

void Runner::read_local(RoleState& r, const Buffer& b, int slot, Slot& s, int64_t element, Unit u) {
  if (!knows(r, s.writes[element], u))
    fault(Kind::Race, r,
          fmt::format("{} is read by threads that no barrier or wait orders after its writer",
                      slot_name(b, slot)));
  Access& last = s.reads[element];
  Access now{int32_t(r.now()), int16_t(u.index), u.level, int8_t(r.index)};
  if (last.time != 0 && (last.role < 0 || !knows(r, last, u))) {
    if (last.role == r.index) {
      Unit both = cover(r, unit_of(last), u);
      now.level = both.level, now.index = int16_t(both.index);
    } else {
      now.role = -1;
    }
  }
  last = now;
  s.last_read[r.index] = r.now();
}

void Runner::write_local(RoleState& r, const Buffer& b, int slot, Slot& s, int64_t element, Unit u) {
  auto race = [&](const char* what) {
    fault(Kind::Race, r, fmt::format("{} is written {}", slot_name(b, slot), what));
  };
  for (const AsyncWrite& w : s.async_writes)
    if (element >= w.begin && element < w.end && r.clock[w.agent] <= w.phase)
      race("while a copy into it may be in flight");
  for (const GroupWrite& w : s.group_writes)
    if (element < w.end) race("while a copy into it may be in flight");
  for (const AsyncRead& a : s.async_reads) {
    Unit reader = unit(r, Scope::Role, 0);
    if (a.bulk) {
      if (element < a.begin || element >= a.end) continue;
    } else {
      int group = element < int64_t(a.region->size()) ? (*a.region)[element] : -1;
      if (group < 0) continue;
      if (group != 127) reader = unit(r, Scope::Group, group);
    }
    const char* name = a.bulk ? "while a bulk store may read it" : "while a product may read it";
    if (a.time < 0) race(name);
    // A product is awaited by all threads of its groups, a bulk store by the elected thread.
    bool over = a.role != r.index ? r.clock[roles_.size() + a.role] >= a.time
                : !a.bulk && reader.level != Scope::Role && reader.level == cover(r, reader, u).level
                    ? true
                    : r.own_awaited >= a.time || ordered(r, a.time, reader, u);
    if (!over) race(name);
  }
  if (!knows(r, s.writes[element], u))
    race("by threads that no barrier or wait orders after its last writer");
  const Access& last = s.reads[element];
  bool read_before = last.role >= 0 ? knows(r, last, u) : true;
  for (size_t q = 0; last.time != 0 && last.role < 0 && q < roles_.size(); ++q) {
    Access of_role{int32_t(s.last_read[q]), 0, Scope::Role, int8_t(q)};
    read_before = read_before && knows(r, of_role, u);
  }
  if (!read_before) race("while another thread may still read it");
  s.writes[element] = {int32_t(r.now()), int16_t(u.index), u.level, int8_t(r.index)};
  s.last_write[r.index] = r.now();
}

// ---- Local, by asynchronous ops ----

void Runner::read_by_product(RoleState& r, const Buffer& b, int slot, const std::vector<int8_t>& region,
                             uint64_t id) {
  read_slot(r, b, slot);
  Slot& s = slot_state(b, slot);
  bool written = std::any_of(s.last_write.begin(), s.last_write.end(), [](int64_t t) { return t != 0; });
  for (size_t e = 0; written && e < region.size(); ++e) {
    if (region[e] < 0) continue;
    Unit u = region[e] == 127 ? unit(r, Scope::Role, 0) : unit(r, Scope::Group, region[e]);
    if (!knows(r, s.writes[e], u))
      fault(Kind::Race, r,
            fmt::format("{} is read by a product that no barrier or wait orders after its writer",
                        slot_name(b, slot)));
    if (!fenced(r, s.writes[e]))
      fault(Kind::MissingFence, r,
            fmt::format(
                "{} was written by instructions and is read by a product without a fence of local memory",
                slot_name(b, slot)));
  }
  s.async_reads.push_back({.id = id, .role = r.index, .bulk = false, .region = &region});
}

void Runner::read_by_store(RoleState& r, const Buffer& b, int slot, int64_t begin, int64_t end,
                           const StoreAsync& op, uint64_t id) {
  read_slot(r, b, slot);
  Slot& s = slot_state(b, slot);
  Unit u = unit(r, op.per, 0);
  bool written = std::any_of(s.last_write.begin(), s.last_write.end(), [](int64_t t) { return t != 0; });
  for (int64_t e = begin; written && e < end; ++e) {
    if (!knows(r, s.writes[e], u))
      fault(Kind::Race, r,
            fmt::format("{} is read by a bulk store that no barrier orders after its writers",
                        slot_name(b, slot)));
    if (!fenced(r, s.writes[e]))
      fault(Kind::MissingFence, r,
            fmt::format(
                "{} was written by instructions and is read by a bulk store without a fence of local memory",
                slot_name(b, slot)));
  }
  s.async_reads.push_back({.id = id, .role = r.index, .bulk = true, .begin = begin, .end = end});
}

void Runner::write_by_copy(RoleState& r, const Buffer& b, int slot, int64_t begin, int64_t end, int agent,
                           int64_t phase) {
  Slot& s = slot_state(b, slot);
  auto early = [&](const std::string& what) {
    fault(Kind::EarlyRelease, r,
          fmt::format("{} is refilled while {}; wait for empty first", slot_name(b, slot), what));
  };
  Unit all = unit(r, Scope::Role, 0);
  for (const AsyncRead& a : s.async_reads) {
    std::string who = fmt::format("a {} of role {} may read it", a.bulk ? "bulk store" : "product",
                                  roles_[a.role].spec->name);
    if (a.time < 0) early(who);
    bool one_group = !a.bulk && all.level != Scope::Role;
    bool over = a.role != r.index ? r.clock[roles_.size() + a.role] >= a.time
                                  : one_group || r.own_awaited >= a.time || ordered(r, a.time, all, all);
    if (!over) early(who);
  }
  for (size_t q = 0; q < roles_.size(); ++q) {
    Access read{int32_t(s.last_read[q]), int16_t(all.index), all.level, int8_t(q)};
    if (!knows(r, read, all)) early(fmt::format("role {} may read it", roles_[q].spec->name));
    Access written{int32_t(s.last_write[q]), int16_t(all.index), all.level, int8_t(q)};
    if (!knows(r, written, all))
      fault(
          Kind::Race, r,
          fmt::format("{} is refilled while role {} may write it", slot_name(b, slot), roles_[q].spec->name));
    if (!fenced(r, written))
      fault(
          Kind::MissingFence, r,
          fmt::format(
              "{} was written by instructions and is refilled by a bulk copy without a fence of local memory",
              slot_name(b, slot)));
  }
  for (const AsyncWrite& w : s.async_writes) {
    if (w.end <= begin || end <= w.begin || r.clock[w.agent] > w.phase) continue;
    early("an earlier copy may be in flight or unread");
  }
  std::erase_if(s.async_writes, [&](const AsyncWrite& w) { return w.begin < end && begin < w.end; });
  s.async_writes.push_back({agent, phase, begin, end});
  s.async_reads.clear();  // all ordered before this copy
  if (end - begin == int64_t(s.writes.size())) {
    std::fill(s.last_read.begin(), s.last_read.end(), 0);
    std::fill(s.last_write.begin(), s.last_write.end(), 0);
  }
}

void Runner::await(RoleState& r, uint64_t id) {
  for (Storage& storage : storages_)
    for (Slot& s : storage.slots)
      for (AsyncRead& a : s.async_reads)
        if (a.id == id) a.time = r.now();
}

// ---- Registers ----

void Runner::touch_registers(RoleState& r, const Buffer& b, bool write) {
  if (b.role != r.index)
    fault(Kind::Placement, r, fmt::format("{} belongs to the threads of another role", b.sym.name()));
  Storage& s = storages_[buffers_[buffer_index(b.sym)].storage];
  if (s.in_flight_d > 0)
    fault(
        Kind::InFlight, r,
        fmt::format("{} is {} while a product that accumulates in it is in flight; wait for its group first",
                    b.sym.name(), write ? "written" : "read"));
  if (write && s.in_flight_a > 0)
    fault(Kind::InFlight, r,
          fmt::format("{} is written while a product that reads it is in flight; wait for its group first",
                      b.sym.name()));
  s.last_access = r.now();
  if (write) s.last_write = r.now();
}

void Runner::touch_by_product(RoleState& r, const Buffer& b, bool as_d) {
  if (b.role != r.index)
    fault(Kind::Placement, r, fmt::format("{} belongs to the threads of another role", b.sym.name()));
  Storage& s = storages_[buffers_[buffer_index(b.sym)].storage];
  if (as_d ? s.in_flight_a > 0 : s.in_flight_d > 0)
    fault(Kind::InFlight, r,
          fmt::format(
              "{} is used {} while a product that uses it otherwise is in flight; wait for its group first",
              b.sym.name(), as_d ? "as accumulator" : "as operand"));
  int64_t fence = r.now();
  for (int w = 0; w < r.warps(); ++w)
    if (r.active(w * warp_threads)) fence = std::min(fence, r.warp_mma_fence[w]);
  int64_t touched = as_d ? s.last_access : s.last_write;
  if (fence == 0 || fence <= touched)
    fault(
        Kind::MissingFence, r,
        fmt::format("{} was used by instructions and is then used by a product without a fence of registers",
                    b.sym.name()));
}

// ---- Channels ----

Signal& Runner::signal(int channel, bool full, int64_t slot) {
  ChannelState& c = channels_[channel];
  return full ? c.full[slot] : c.empty[slot];
}

bool Runner::try_wait(RoleState& r, const Wait& op) {
  const Channel& c = kernel_.channels.at(op.channel);
  int64_t use = integer(r, op.use);
  TW_CHECK(use >= 0, fmt::format("use {} of channel {}", use, c.name));
  int64_t phase = use / c.slots;
  const Signal& s = signal(op.channel, op.full, use % c.slots);
  int64_t meant = op.full ? phase + 1 : phase;  // completed phases
  if ((s.completed & 1) != (meant & 1)) return false;
  if (s.completed != meant)
    fault(Kind::StalePhase, r,
          fmt::format("{}.{}[{}] use {}: the wait is for {} completed phase{} and passes after {}, which "
                      "have the same parity",
                      c.name, op.full ? "full" : "empty", use % c.slots, use, meant, plural(meant),
                      s.completed));
  if (meant > 0) {
    r.own = std::max(r.own, s.seen[r.index]);
    r.own_awaited = std::max(r.own_awaited, s.seen[roles_.size() + r.index]);
    join(r.clock, s.seen);
    join(r.fenced, s.seen_fenced);
  }
  return true;
}

void Runner::arrive(RoleState& r, int channel, bool full, int64_t use, int count, Scope per) {
  const Channel& c = kernel_.channels.at(channel);
  TW_CHECK(use >= 0, fmt::format("use {} of channel {}", use, c.name));
  int slot = int(use % c.slots);
  int64_t phase = use / c.slots;
  Signal& s = signal(channel, full, slot);
  int needed = full ? c.full_arrivals : c.empty_arrivals;
  std::string name = fmt::format("{}.{}[{}] use {}", c.name, full ? "full" : "empty", slot, use);
  if (s.completed < phase)
    fault(Kind::StalePhase, r,
          fmt::format("{}: an arrival meant for phase {} counts in phase {}, which is still open", name,
                      phase, s.completed));
  if (s.completed > phase)
    fault(Kind::BarrierMismatch, r, fmt::format("{}: more arrivals than the {} of its phase", name, needed));
  if (s.arrived + count > needed)
    fault(Kind::BarrierMismatch, r,
          fmt::format("{}: {} arrivals in a phase of {}", name, s.arrived + count, needed));
  Clock known = r.clock;
  if (per > Scope::Warp) known[r.index] = barrier_time(r, per);
  known[roles_.size() + r.index] = r.now();
  join(s.clock, known);
  Clock known_fenced = r.fenced;
  known_fenced[r.index] = *std::min_element(r.warp_proxy_fence.begin(), r.warp_proxy_fence.end());
  join(s.fenced, known_fenced);
  s.arrived += count;
}

void Runner::advance(int channel, bool full, int slot) {
  const Channel& c = kernel_.channels[channel];
  Signal& s = signal(channel, full, slot);
  if (s.arrived != (full ? c.full_arrivals : c.empty_arrivals) || s.bytes != 0) return;
  ++s.completed;
  s.arrived = 0;
  s.seen.swap(s.clock);
  s.seen_fenced.swap(s.fenced);
  s.clock.assign(agents_, 0);
  s.fenced.assign(agents_, 0);
  if (full) s.seen[channels_[channel].agent + slot] = s.completed;
}

void Runner::execute(RoleState& r, const Arrive& op) {
  const Channel& c = kernel_.channels.at(op.channel);
  require_level(r, op.per, "an arrival of this scope");
  int64_t use = integer(r, op.use);
  if (!op.full) {
    for (Sym buffer : c.buffers) {
      const BufferState& b = buffers_[buffer_index(buffer)];
      if (b.storage < 0 || b.spec->space != Space::Local) continue;
      int slot = int(use % b.spec->slots);
      for (const AsyncRead& a : storages_[b.storage].slots[slot].async_reads)
        if (a.role == r.index && a.time < 0)
          fault(Kind::EarlyRelease, r,
                fmt::format("{} is released (use {}) while a {} that reads it is in flight",
                            slot_name(*b.spec, slot), use, a.bulk ? "bulk store" : "product"));
    }
  }
  arrive(r, op.channel, op.full, use, active_instances(r, op.per), op.per);
  advance(op.channel, op.full, int(use % c.slots));
}

// ---- Fences, groups and barriers ----

void Runner::execute(RoleState& r, const MmaFence&) {
  for (int w = 0; w < r.warps(); ++w)
    if (r.active(w * warp_threads)) r.warp_mma_fence[w] = r.now();
}

void Runner::execute(RoleState& r, const ProxyFence&) {
  bool all = true;
  for (int w = 0; w < r.warps(); ++w) {
    if (r.active(w * warp_threads))
      r.warp_proxy_fence[w] = r.now();
    else
      all = false;
  }
  if (all) r.fenced = r.clock;
}

void Runner::execute(RoleState& r, const Commit&) { ++r.group_number; }

void Runner::execute(RoleState& r, const WaitGroup& op) {
  while (!r.products.empty() && r.products.front().group < r.group_number - op.pending) {
    Product& p = r.products.front();
    complete(p, r);
    await(r, p.id);
    --storages_[buffers_[buffer_index(p.op->d)].storage].in_flight_d;
    const BufferState& a = buffers_[buffer_index(p.op->a)];
    if (a.spec->space == Space::Registers) --storages_[a.storage].in_flight_a;
    r.products.pop_front();
  }
}

void Runner::execute(RoleState& r, const BulkWait&) {
  for (BulkStore& s : r.stores) {
    complete(s, r);
    await(r, s.id);
  }
  r.stores.clear();
}

void Runner::execute(RoleState& r, const Barrier& op) {
  require_level(r, op.scope, "a barrier of this scope");
  auto active = [&](int first, int size) {
    if (r.mask.empty()) return true;
    for (int t = first; t < std::min(first + size, r.spec->threads); ++t)
      if (r.mask[t]) return true;
    return false;
  };
  Scope scope = std::max(op.scope, unit(r, op.scope, 0).level);
  if (scope >= Scope::Role) r.role_barrier = r.now();
  for (int g = 0; g < r.groups(); ++g)
    if (scope >= Scope::Role || (scope == Scope::Group && active(g * r.spec->group, r.spec->group)))
      r.group_barrier[g] = r.now();
  for (int w = 0; w < r.warps(); ++w) {
    Unit group{Scope::Group, instance(r, {Scope::Warp, w}, Scope::Group)};
    bool covered = scope >= Scope::Group ? r.group_barrier[group.index] == r.now()
                                         : active(w * warp_threads, warp_threads);
    if (covered) r.warp_barrier[w] = r.now();
  }
}

bool Runner::pass_block_barrier(RoleState& r, const Barrier& b) {
  require_level(r, Scope::Block, "a barrier of the block");
  if (r.barrier_open) {
    r.barrier_open = false;
    return true;
  }
  r.block_barrier = &b;
  for (const RoleState& other : roles_) {
    if (other.finished)
      fault(Kind::BarrierMismatch, r,
            fmt::format("role {} has ended and never reaches barrier {}", other.spec->name, b.id));
    if (other.block_barrier && other.block_barrier->id != b.id)
      fault(Kind::BarrierMismatch, r,
            fmt::format("role {} waits at barrier {}", other.spec->name, other.block_barrier->id));
  }
  if (!std::all_of(roles_.begin(), roles_.end(), [](const RoleState& other) { return other.block_barrier; }))
    return false;
  Clock clock(agents_, 0), fences(agents_, 0);
  for (RoleState& other : roles_) {
    ++other.clock[other.index];
    other.clock[roles_.size() + other.index] = other.now();
    other.fenced[other.index] =
        *std::min_element(other.warp_proxy_fence.begin(), other.warp_proxy_fence.end());
    join(clock, other.clock);
    join(fences, other.fenced);
  }
  for (RoleState& other : roles_) {
    other.clock = clock;
    other.fenced = fences;
    other.block_barrier = nullptr;
    other.barrier_open = &other != &r;
    execute(other, Barrier{b.id, Scope::Role});
  }
  return true;
}

}  // namespace tilewright::emulation
