#include "tilewright/search/families.h"

#include <algorithm>
#include <optional>

#include "tilewright/plan/axes.h"

namespace tilewright {

namespace {

constexpr int64_t long_axis = 1 << 20;     // what an axis without a size counts as
constexpr int64_t longest_block = 1 << 9;  // elements that a block of an axis has at most
constexpr int64_t longest_chunk = 1 << 10;
constexpr int64_t moved_rows = 1024;      // chunks of a kernel that only moves rows are longer than this
constexpr int64_t longest_row = 1 << 15;  // elements of a resident row
constexpr int64_t thread_group = 64;      // rows of a computing group of a GPU

class Search {
 public:
  Search(const Program& p, const Derivation& d, const Plan& base, const MachineFile& machine,
         const Sizes& sizes)
      : p_(p), d_(d), base_(base), machine_(machine), sizes_(sizes), roles_(axis_roles(p, d)) {
    lanes_ = machine.gpu || !machine.vector_bytes
                 ? 8
                 : std::max<int64_t>(1, int64_t(machine.vector_bytes->value) / 4);
  }

  std::vector<Family> run() {
    // One thing at a time beside what the base does, but for blocks of a resident stream.
    const std::vector<Plan> streams = ways_to_stream();
    for (const Plan& plan : streams) add(plan);
    for (const Plan& plan : streams)
      if (&plan == &streams[0] || plan.resident != base_.resident)
        for (const Plan& other : ways_to_cut(plan)) add(other);
    for (const Plan& plan : ways_to_share(base_)) add(plan);
    for (const Plan& plan : ways_to_keep(base_)) add(plan, true);
    for (const Plan& plan : ways_to_guard(base_)) add(plan, true);
    return std::move(found_);
  }

 private:
  int64_t length(Sym axis) const {
    const Axis& a = p_.axis(axis);
    if (a.baked()) return a.size.rational()->num();
    const auto it = sizes_.find(axis.size());
    return it == sizes_.end() ? long_axis : std::max<int64_t>(1, it->second);
  }
  bool known(Sym axis) const { return p_.axis(axis).baked() || sizes_.count(axis.size()); }

  bool legal(const Plan& plan) const {
    try {
      check_plan(p_, d_, plan);
      return true;
    } catch (const UserError&) {
      return false;
    }
  }

  /// Streamed, in parts of several lengths, or held whole.
  std::vector<Plan> ways_to_stream() const {
    std::vector<Plan> all{base_};
    Plan streamed = base_;
    const int64_t n = length(base_.stream);
    if (base_.resident) {
      streamed.resident = false;
      streamed.chunk = std::min<int64_t>(4096, base_.chunk);
      all.push_back(streamed);
    } else if (base_.split > 0) {
      streamed.split = 0;
      all.push_back(streamed);
    }
    for (int64_t part : {512, 2048, 8192, 32768}) {
      if (part >= n) continue;
      Plan parts = streamed;
      parts.split = (part + parts.chunk - 1) / parts.chunk * parts.chunk;
      if (std::any_of(all.begin(), all.end(), [&](const Plan& x) { return x.split == parts.split; }))
        continue;
      all.push_back(parts);
    }
    if (!base_.resident && known(base_.stream) && n <= longest_row) {
      Plan held = base_;
      held.resident = true;
      held.split = 0;
      held.stages = 1;
      held.loaders = 0;
      held.by_warps = false;
      held.bounds = BoundsBy::None;
      held.chunk = 1;
      while (held.chunk < n) held.chunk *= 2;
      if (p_.axis(base_.stream).baked()) held.chunk = n;
      all.push_back(held);
    }
    return all;
  }

  /// Which axes are cut into blocks, single indices, or held whole: as the base does, or with one axis changed.
  std::vector<Plan> ways_to_cut(const Plan& plan) const {
    std::vector<Plan> all;
    for (size_t k = 0; k < plan.group.size(); ++k) {
      const Cut& cut = plan.group[k];
      const int64_t n = length(cut.axis);
      Plan other = plan;
      if (cut.block > 1) {
        if (n > 1 && plan.group.size() > 1 && blocked(plan) < 2) continue;
        other.group[k].block = other.group[k].piece = 1;
      } else {
        // A block of an axis uses what is streamed without it more often; of rows that are moved some make one task.
        const bool last = k + 1 == plan.group.size() && blocked(plan) == 0;
        if (n < 2 || (!contains(roles_.reused, cut.axis) && !last)) continue;
        other.group[k].block = other.group[k].piece = std::min<int64_t>(4, n);
      }
      all.push_back(other);
    }
    for (Sym a : plan.whole) {
      if (!contains(roles_.free, a) || length(a) <= thread_group) continue;
      Plan other = plan;
      other.whole.erase(std::find(other.whole.begin(), other.whole.end(), a));
      other.group.push_back(Cut{a, thread_group, thread_group});
      all.push_back(other);
    }
    return all;
  }

  static int64_t blocked(const Plan& plan) {
    return std::count_if(plan.group.begin(), plan.group.end(), [](const Cut& c) { return c.block > 1; });
  }

  /// Groups of threads and ring slots of a GPU. A block has a piece for each computing group.
  std::vector<Plan> ways_to_share(const Plan& plan) const {
    std::vector<Plan> all;
    if (!machine_.gpu || plan.resident) return all;
    for (int computers : {1, 2, 3, 4})
      for (int stages : {1, 2, 3, 4}) {
        if (computers == plan.computers && stages == plan.stages) continue;
        Plan other = plan;
        other.stages = stages;
        if (computers != plan.computers) {
          Cut* rows = nullptr;
          for (Cut& c : other.group)
            if (c.piece > 0 && c.block == c.piece * plan.computers && plan.computers > 1) rows = &c;
          if (!rows) continue;
          rows->block = rows->piece * computers;
          other.computers = computers;
        }
        all.push_back(other);
      }
    return all;
  }

  /// An operand that does not change along the stream is loaded once, or again for each chunk.
  std::vector<Plan> ways_to_keep(const Plan& plan) const {
    constexpr size_t most = 3;
    std::vector<Plan> all;
    for (Sym tensor : roles_.kept_inputs) {
      if (p_.tensor_axes(tensor).empty() || all.size() == most) continue;
      Plan other = plan;
      const auto kept = std::find(other.keep.begin(), other.keep.end(), tensor);
      if (kept != other.keep.end())
        other.keep.erase(kept);
      else
        other.keep.push_back(tensor);
      all.push_back(other);
    }
    return all;
  }

  /// When the reference point of a state moves.
  std::vector<Plan> ways_to_guard(const Plan& plan) const {
    std::vector<Plan> all;
    const bool moves = std::any_of(d_.passes.begin(), d_.passes.end(), [](const Pass& pass) {
      return std::any_of(pass.state.points.begin(), pass.state.points.end(),
                         [](const Point& x) { return x.kind != Point::Kind::Mean; });
    });
    if (!moves || plan.resident) return all;
    for (Guard guard : {Guard::Always, Guard::Moved, Guard::Threshold, Guard::Speculative}) {
      if (guard == plan.guard) continue;
      all.push_back(plan);
      all.back().guard = guard;
    }
    return all;
  }

  /// Every value below `most` and the first that reaches it; `own` too.
  static std::vector<int64_t> up_to(std::vector<int64_t> values, int64_t most, int64_t own) {
    values.push_back(own);
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    std::vector<int64_t> kept;
    for (int64_t v : values) {
      if (v == own || kept.empty() || kept.back() < most) kept.push_back(v);
    }
    return kept;
  }

  /// Does the base cut the axis into blocks of that length?
  bool has_block(Sym axis, int64_t block) const {
    return std::any_of(base_.group.begin(), base_.group.end(),
                       [&](const Cut& c) { return c.axis == axis && c.block == block; });
  }

  std::vector<int64_t> blocks(const Cut& cut) const {
    const int64_t n = length(cut.axis);
    std::vector<int64_t> values = ladder(cut, n);
    // A block as long as a literal axis would be the axis whole.
    if (p_.axis(cut.axis).baked())
      values.erase(
          std::remove_if(values.begin(), values.end(),
                         [&](int64_t v) { return v >= n && v != cut.block && !has_block(cut.axis, v); }),
          values.end());
    return values;
  }

  std::vector<int64_t> ladder(const Cut& cut, int64_t n) const {
    if (machine_.gpu) {
      // A block of several pieces follows the groups of threads.
      if (cut.piece > 0 && cut.piece < cut.block) return {cut.block};
      return up_to({64, 128, 256}, n, cut.block);
    }
    const Cut* of_base = nullptr;
    for (const Cut& c : base_.group)
      if (c.axis == cut.axis) of_base = &c;
    if (of_base && of_base->block == 1)
      return contains(roles_.reused, cut.axis) ? up_to({2, 4, lanes_}, n, cut.block)
                                               : std::vector<int64_t>{cut.block};
    std::vector<int64_t> values;
    for (int64_t vectors : {1, 3, 6, 12, 24, 48})
      if (vectors * lanes_ <= longest_block) values.push_back(vectors * lanes_);
    return up_to(values, n, cut.block);
  }

  std::vector<int64_t> chunks(const Plan& plan) const {
    if (plan.resident) return {plan.chunk};
    const int64_t n = length(plan.stream);
    std::vector<int64_t> values;
    if (machine_.gpu) {
      values = {16, 32, 64, 128};
    } else if (base_.chunk > moved_rows) {
      values = {1024, 4096, 16384};
    } else {
      for (int64_t times : {1, 2, 4, 8, 16})
        if (const int64_t v = base_.chunk * times / 4; v > 0 && v <= longest_chunk) values.push_back(v);
    }
    values = up_to(values, n, plan.chunk);
    if (plan.split > 0)
      values.erase(
          std::remove_if(values.begin(), values.end(), [&](int64_t v) { return plan.split % v != 0; }),
          values.end());
    return values;
  }

  /// `alone`: with the base's numbers, since what is changed is worth the same at all.
  void add(const Plan& plan, bool alone = false) {
    if (!legal(plan)) return;
    Family f{plan, {}};
    for (const Cut& cut : plan.group)
      if (cut.block > 1) f.dials.push_back({cut.axis, false, blocks(cut)});
    f.dials.push_back({plan.stream, true, chunks(plan)});
    // A block of one element is another family.
    for (Dial& dial : f.dials)
      if (!dial.chunk)
        dial.values.erase(
            std::remove_if(dial.values.begin(), dial.values.end(), [](int64_t v) { return v < 2; }),
            dial.values.end());
    if (alone) f.dials.clear();
    found_.push_back(std::move(f));
  }

  const Program& p_;
  const Derivation& d_;
  const Plan& base_;
  const MachineFile& machine_;
  const Sizes& sizes_;
  const AxisRoles roles_;
  int64_t lanes_ = 8;
  std::vector<Family> found_;
};

}  // namespace

Plan with_values(const Family& f, const std::vector<int64_t>& values) {
  Plan plan = f.plan;
  for (size_t k = 0; k < f.dials.size(); ++k) {
    const Dial& dial = f.dials[k];
    if (dial.chunk) {
      plan.chunk = values[k];
      continue;
    }
    for (Cut& cut : plan.group) {
      if (cut.axis != dial.axis) continue;
      const bool pieces = cut.piece > 0 && cut.piece < cut.block;
      if (!pieces) cut.piece = values[k];
      cut.block = values[k];
    }
  }
  return plan;
}

std::vector<Family> families(const Program& elaborated, const Derivation& d, const Plan& base,
                             const MachineFile& machine, const Sizes& sizes) {
  return Search(elaborated, d, base, machine, sizes).run();
}

}  // namespace tilewright
