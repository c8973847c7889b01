// Copies in groups (cp.async): issued by all threads of a role, delivered in any order when the adversary likes, at the latest at the wait for their group. The
// wait makes them known to the threads that issued them, each its own part; the others need a barrier behind it.
#include <fmt/format.h>

#include <algorithm>

#include "tilewright/map/interpreter_runner.h"
#include "tilewright/support/error.h"

namespace tilewright::emulation {

using Kind = MappedFault::Kind;

/// The elements were checked as written already (write_local).
GroupCopy& Runner::begin_group_copy(RoleState& r, const Copy& op, const Buffer& b, int slot) {
  constexpr int64_t unit_bytes = 16;
  require_level(r, Scope::Role, "a copy in a group");
  const Array& from = *env_.arrays.at(op.tensor);
  if (from.dtype != b.dtype)
    fault(Kind::Placement, r, fmt::format("{} refuses: it changes no element type", op.atom));
  const int64_t unit = unit_bytes / bytes(b.dtype);
  bool runs = false;
  for (size_t a = 0; a < b.axes.size(); ++a) {
    const int64_t run = b.layout.contiguous(int(a));
    runs = runs || (run >= unit && run % unit == 0 && b.layout.shape()[a] % unit == 0);
  }
  if (!runs)
    fault(Kind::Placement, r,
          fmt::format("{} refuses: {} has no runs of {} bytes", op.atom, b.sym.name(), unit_bytes));
  GroupCopy c;
  c.id = next_id_++;
  c.op = &op;
  c.node = r.node;
  c.group = r.copy_group;
  c.slot = slot;
  slot_state(b, slot).group_writes.push_back({c.id, b.layout.elements()});
  r.copies.push_back(std::move(c));
  return r.copies.back();
}

void Runner::complete(GroupCopy& c) {
  if (c.done) return;
  c.done = true;
  double* data = slot_data(kernel_.buffer(c.op->buffer), c.slot);
  for (auto& [element, value] : c.values) data[element] = value;
}

void Runner::execute(RoleState& r, const CopyCommit&) {
  require_level(r, Scope::Role, "the end of a group of copies");
  ++r.copy_group;
}

void Runner::execute(RoleState& r, const CopyWait& op) {
  require_level(r, Scope::Role, "a wait for copies");
  const Unit all = unit(r, Scope::Role, 0);
  while (!r.copies.empty() && r.copies.front().group < r.copy_group - op.pending) {
    GroupCopy& c = r.copies.front();
    complete(c);
    const Buffer& b = kernel_.buffer(c.op->buffer);
    Slot& s = tracked(b, c.slot);
    for (auto& [element, value] : c.values)
      s.writes[size_t(element)] = {int32_t(r.now()), int16_t(all.index), all.level, int8_t(r.index)};
    s.last_write[size_t(r.index)] = r.now();
    std::erase_if(s.group_writes, [&](const GroupWrite& w) { return w.id == c.id; });
    r.copies.pop_front();
  }
}

}  // namespace tilewright::emulation
