#include <algorithm>

#include "tilewright/plan/axes.h"
#include "tilewright/plan/partitioner.h"

namespace tilewright::parts {

// ---- rule 3: what shares a kernel, and the order of kernels ----

std::set<Sym> Partitioner::rows(Sym sink) const {
  std::set<Sym> axes;
  for (Sym a : p_.tensor_axes(sink))
    if (!whole(a)) axes.insert(a);
  return axes;
}

/// The groups that `g` reads from, itself or through others.
std::set<size_t> Partitioner::before(const std::vector<Group>& groups, size_t g) const {
  std::set<size_t> found;
  std::vector<size_t> queue = {g};
  for (size_t k = 0; k < queue.size(); ++k)
    for (Sym s : definitions_of(p_, groups[queue[k]].sinks, stored_))
      for (Sym read : tensors_read(p_.definition(s)->value)) {
        if (!stored_.count(read)) continue;
        for (size_t n = 0; n < groups.size(); ++n)
          if (contains(groups[n].sinks, read) && n != queue[k] && found.insert(n).second) queue.push_back(n);
      }
  return found;
}

std::vector<Group> Partitioner::grouped() {
  std::vector<Group> groups;
  for (Sym s : sinks()) {
    const Attempt& a = attempt(stored_, {s});
    groups.push_back({{s}, a.stream, a.passes});
  }
  for (size_t a = 0; a < groups.size(); ++a)
    for (size_t b = a + 1; b < groups.size();) {
      const bool alike = groups[a].stream == groups[b].stream &&
                         rows(groups[a].sinks.front()) == rows(groups[b].sinks.front()) &&
                         !before(groups, a).count(b) && !before(groups, b).count(a);
      if (alike) {
        std::vector<Sym> both = groups[a].sinks;
        both.insert(both.end(), groups[b].sinks.begin(), groups[b].sinks.end());
        const Attempt& joint = attempt(stored_, both);
        if (!joint.refusal && joint.stream == groups[a].stream &&
            joint.passes <= std::max(groups[a].passes, groups[b].passes)) {
          groups[a].sinks = both;
          groups[a].passes = joint.passes;
          groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(b));
          continue;
        }
      }
      ++b;
    }
  return groups;
}

Partition Partitioner::ordered(const std::vector<Group>& groups) {
  Partition out;
  std::vector<bool> done(groups.size(), false);
  std::map<Sym, size_t> made;
  while (out.parts.size() < groups.size()) {
    size_t next = groups.size();
    for (size_t g = 0; g < groups.size() && next == groups.size(); ++g) {
      if (done[g]) continue;
      const std::set<size_t> first = before(groups, g);
      if (std::all_of(first.begin(), first.end(), [&](size_t n) { return done[n]; })) next = g;
    }
    TW_CHECK(next < groups.size(), "kernels of a program wait for one another");
    done[next] = true;
    const std::vector<Sym>& sinks = groups[next].sinks;
    for (Sym s : sinks) made[s] = out.parts.size();
    out.parts.push_back(Part{part(stored_, sinks), sinks, groups[next].stream});
  }
  for (const Part& q : out.parts)
    for (Sym s : q.stores) {
      if (!stored_.count(s)) continue;
      StoredArray a = shared_->arrays.at(s);
      a.from = a.until = made.at(s);
      for (size_t k = 0; k < out.parts.size(); ++k)
        if (k != a.from && out.parts[k].program.input(a.sym) != nullptr) a.until = std::max(a.until, k);
      out.arrays.push_back(a);
    }
  for (Sym s : holding_reductions(p_, stored_))
    if (!stored_.count(s) && !outputs_.count(s) && !changed_.count(s)) out.fused.push_back(s);
  return out;
}

}  // namespace tilewright::parts
