// Reductions and votes: values of many points combined in one owner, then among owners.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tilewright/map/interpreter_points.h"
#include "tilewright/support/error.h"

namespace tilewright::emulation {
namespace {

using Kind = MappedFault::Kind;

double identity_of(Reducer r) {
  switch (r) {
    case Reducer::Max: return -INFINITY;
    case Reducer::Min: return INFINITY;
    case Reducer::Prod:
    case Reducer::All: return 1;
    default: return 0;
  }
}

double combined(Reducer r, double a, double b) {
  switch (r) {
    case Reducer::Sum: return a + b;
    case Reducer::Prod: return a * b;
    case Reducer::Max: return std::isnan(a) || a > b ? a : b;
    case Reducer::Min: return std::isnan(a) || a < b ? a : b;
    case Reducer::Any: return a != 0 || b != 0;
    case Reducer::All: return a != 0 && b != 0;
    default: TW_CHECK(false, fmt::format("a mapped op cannot reduce by {}", name(r)));
  }
}

/// Which instance of a scope a thread belongs to.
int instance_of(const RoleState& r, int owner, Scope scope) {
  switch (scope) {
    case Scope::Thread: return owner;
    case Scope::Warp: return owner / 32;
    case Scope::Group: return owner / r.spec->group;
    default: return 0;
  }
}

/// Which threads compute at a coordinate: those that hold every register operand there.
class Holders {
 public:
  /// Over points with the given axes.
  void add(const BufferState& b, const std::vector<Sym>& axes) {
    held_.push_back({&b, Projection(axes, b.spec->axes, b.table.shape)});
    if (held_.size() > 1 && held_.back().buffer->spec->axes.size() > held_.front().buffer->spec->axes.size())
      std::swap(held_.front(), held_.back());
  }
  bool empty() const { return held_.empty(); }
  const BufferState* widest() const { return held_.empty() ? nullptr : held_.front().buffer; }
  /// Calls visit(owner) for each holder at `coords`; returns the number of them.
  template <class F>
  int visit(const std::vector<int64_t>& coords, F visit) const {
    int count = 0;
    const Held& first = held_.front();
    const int64_t place = first.at(coords);
    for (int32_t replica : first.buffer->table.replicas) {
      const int owner = first.buffer->table.owner[size_t(place)] + replica;
      const bool all = std::all_of(held_.begin() + 1, held_.end(), [&](const Held& h) {
        return h.buffer->table.held(h.at(coords), owner) >= 0;
      });
      if (!all) continue;
      ++count;
      visit(owner);
    }
    return count;
  }

 private:
  struct Held {
    const BufferState* buffer;
    Projection at;
  };
  std::vector<Held> held_;  ///< the first has most axes
};

}  // namespace

/// Extents of a tile, no longer than those of what is read along its axes: vectors pad one tile and not another.
std::vector<int64_t> Runner::without_padding(const BufferState& b, const std::vector<int>& operands) const {
  std::vector<int64_t> shape = b.table.shape;
  for (size_t a = 0; a < shape.size(); ++a)
    for (int k : operands)
      if (const auto n = axis_extent(b.spec->axes[a], {k})) shape[a] = std::min(shape[a], *n);
  return shape;
}

/// A point for each element of the value in each owner that takes part; dest: the element of the result that it goes to.
PointOp& Runner::reduce_points(RoleState& r, const ReduceOp& op, const FrameScope& frame) {
  const BufferState& b = buffers_[buffer_index(op.buffer)];
  TW_CHECK(b.storage >= 0, fmt::format("{} is a view and cannot be written", op.buffer.name()));
  Expr value = without_views(op.value);
  std::vector<int> registers = tiles_of(value, Space::Registers), operands = tiles_of(value, Space::Local);
  operands.insert(operands.end(), registers.begin(), registers.end());
  std::vector<int64_t> extents;
  for (Sym axis : op.axes) {
    auto n = axis_extent(axis, operands);
    if (!n) n = frame.extent(axis);
    TW_CHECK(n, fmt::format("`{}` does not say how long {} is", print(kernel_, *r.node), axis.name()));
    extents.push_back(*n);
  }
  auto& cache = caches_[&op];
  if (cache) {
    auto& made = static_cast<PointOp&>(*cache);
    bool enough = std::equal(extents.begin(), extents.end(), made.extents.begin(),
                             [](int64_t a, int64_t have) { return a <= have; });
    if (enough) return made;
  }
  auto made = std::make_unique<PointOp>();
  made->extents = extents;
  made->points.axes = b.spec->axes;
  made->points.axes.insert(made->points.axes.end(), op.axes.begin(), op.axes.end());
  std::vector<int64_t> shape = r.spec->threads == 1 ? without_padding(b, operands) : b.table.shape;
  shape.insert(shape.end(), extents.begin(), extents.end());
  made->points.coords.resize(shape.size());
  const bool in_registers = b.spec->space == Space::Registers;
  Holders holders;
  for (int k : registers) holders.add(buffers_[k], made->points.axes);
  // Threads that share the results of a Local tile meet in the scratch tile, where there is one.
  made->exchanged = op.across != Scope::Thread && r.spec->threads > 1 && (!holders.empty() || op.scratch);
  if (made->exchanged && op.across > Scope::Warp && !op.scratch && r.spec->threads > 32)
    fault(Kind::Placement, r, "an exchange between warps needs a scratch tile");
  Projection to(made->points.axes, b.spec->axes, b.table.shape);
  for_each_coordinate(shape, [&](const std::vector<int64_t>& coords, int64_t) {
    int64_t result = to(coords);
    auto add = [&](int owner, int64_t element) {
      for (size_t a = 0; a < coords.size(); ++a) made->points.coords[a].push_back(int32_t(coords[a]));
      made->points.owner.push_back(owner);
      made->dest.push_back(int32_t(element));
    };
    if (holders.empty()) {
      if (in_registers) {
        for (int32_t replica : b.table.replicas)
          add(b.table.owner[result] + replica, b.table.held(result, b.table.owner[result] + replica));
      } else {
        add(r.spec->threads == 1 ? 0 : -1, b.table.offset[result]);
      }
      return;
    }
    std::vector<int> seen;  // an element with replicas counts once for each instance
    int results = 0, without = 0;
    const int holding = holders.visit(coords, [&](int owner) {
      int64_t element = in_registers ? b.table.held(result, owner) : b.table.offset[result];
      if (element < 0) {
        without = owner;
        return;
      }
      ++results;
      int instance = in_registers ? instance_of(r, owner, op.across) : 0;
      if (made->exchanged && !op.axes.empty()) {
        if (std::find(seen.begin(), seen.end(), instance) != seen.end()) return;
        seen.push_back(instance);
      }
      add(owner, element);
    });
    if (holding == 0)
      fault(Kind::Placement, r,
            fmt::format("no thread holds all operands of {}, {} among them", op.buffer.name(),
                        holders.widest()->spec->sym.name()));
    if (results == 0)
      fault(Kind::Placement, r,
            fmt::format("thread {} holds elements of {} and not their result in {}", without,
                        holders.widest()->spec->sym.name(), op.buffer.name()));
  });
  compile(r, *made, {op.value}, b.spec->dtype == DType::f64);
  cache = std::move(made);
  return static_cast<PointOp&>(*cache);
}

void Runner::execute(RoleState& r, const ReduceOp& op) {
  FrameScope frame(*this, r, op.frame);
  PointOp& points = reduce_points(r, op, frame);
  const BufferState& b = buffers_[buffer_index(op.buffer)];
  const Buffer& spec = *b.spec;
  bool in_registers = spec.space == Space::Registers;
  bool rounds = is_float(spec.dtype) && spec.dtype != DType::f64 && !is_wide({without_views(op.value)});
  if (points.exchanged) {
    require_level(r, op.across, "an exchange of this scope");
    if (op.across >= Scope::Group) exchange(r, op);
  }

  begin(r, points, frame, op.uses);
  std::vector<double> partial(storages_[b.storage].slot_elements, identity_of(op.reducer));
  auto combine = [&](double x, double y) {
    double z = combined(op.reducer, x, y);
    return rounds ? double(float(z)) : z;
  };
  run_points(r, points, frame, [&](size_t p, size_t lane) {
    double& x = partial[points.dest[p]];
    x = combine(x, points.program->output(0)[lane]);
  });

  // Results: of each coordinate within the extents, in each active owner.
  int slot = slot_of_written(r, spec, op.uses);
  double* out = slot_data(spec, slot);
  if (in_registers) touch_registers(r, spec, true);
  if (!in_registers && racy_) tracked(spec, slot);
  std::vector<std::optional<int64_t>> limits;
  for (Sym axis : spec.axes) limits.push_back(frame.extent(axis));
  for_each_coordinate(b.table.shape, [&](const std::vector<int64_t>& coords, int64_t k) {
    for (size_t a = 0; a < coords.size(); ++a)
      if (limits[a] && coords[a] >= *limits[a]) return;
    for (int32_t replica : b.table.replicas) {
      int owner = b.table.owner[k] + replica;
      if (!r.active(in_registers ? owner : -1)) continue;
      int64_t element = (in_registers ? int64_t(owner) * b.table.elements : 0) + b.table.offset[k];
      double total = partial[element];
      if (points.exchanged && in_registers) {
        total = identity_of(op.reducer);
        for (int32_t other : b.table.replicas) {
          int peer = b.table.owner[k] + other;
          if (instance_of(r, peer, op.across) == instance_of(r, owner, op.across))
            total = combine(total, partial[int64_t(peer) * b.table.elements + b.table.offset[k]]);
        }
      }
      if (!in_registers && racy_)
        write_local(r, spec, slot, tracked(spec, slot), element,
                    owner_unit(r, r.spec->threads == 1 ? 0 : -1));
      if (op.accumulate) {
        if (is_unwritten(out[element]))
          fault(Kind::Uninitialised, r,
                fmt::format("{} is accumulated to and was never written", slot_name(spec, slot)));
        total = combine(out[element], total);
      }
      out[element] = round_to(spec.dtype, total);
    }
  });
}

namespace {

/// Where the lists of an op lie: for each list and rank the element of keys and of indices.
struct RankCache : PointOp {
  int64_t length = 0;
  std::vector<int32_t> keys, indices;
};

}  // namespace

/// A point for each pair, in order along `axis`; dest: the number of its list.
PointOp& Runner::rank_points(RoleState& r, const RankOp& op, const FrameScope& frame) {
  const BufferState &keys = buffers_[buffer_index(op.keys)], &indices = buffers_[buffer_index(op.indices)];
  const auto& axes = keys.spec->axes;
  TW_CHECK(r.spec->threads == 1 && keys.spec->space == Space::Local && axes == indices.spec->axes,
           "lists are sorted by one thread, in local memory");
  const auto extent = frame.extent(op.axis), length = frame.extent(op.rank);
  TW_CHECK(extent && length,
           fmt::format("`{}` does not say how long its lists are", print(kernel_, *r.node)));
  auto& cache = caches_[&op];
  if (cache && static_cast<PointOp&>(*cache).extents[0] >= *extent) return static_cast<PointOp&>(*cache);
  auto made = std::make_unique<RankCache>();
  made->extents = {*extent};
  made->length = *length;
  std::vector<int> operands;
  for (Expr e : {op.value, op.at, op.present})
    for (int k : e ? tiles_of(without_views(e), Space::Local) : std::vector<int>{}) operands.push_back(k);
  std::vector<int64_t> shape = without_padding(keys, operands);
  for (size_t a = axes.size(); a-- > 0;) {
    if (axes[a] == op.rank)
      shape.erase(shape.begin() + long(a));
    else
      made->points.axes.insert(made->points.axes.begin(), axes[a]);
  }
  const auto element = [&](const BufferState& b, const std::vector<int64_t>& coords, int64_t rank) {
    int64_t at = 0;
    for (size_t a = 0, outer = 0; a < axes.size(); ++a)
      at = at * b.table.shape[a] + (axes[a] == op.rank ? rank : coords[outer++]);
    return b.table.offset[size_t(at)];
  };
  made->points.axes.push_back(op.axis);
  made->points.coords.resize(made->points.axes.size());
  for_each_coordinate(shape, [&](const std::vector<int64_t>& coords, int64_t list) {
    for (int64_t rank = 0; rank < *length; ++rank) {
      made->keys.push_back(element(keys, coords, rank));
      made->indices.push_back(element(indices, coords, rank));
    }
    for (int64_t k = 0; k < *extent; ++k) {
      for (size_t a = 0; a < coords.size(); ++a) made->points.coords[a].push_back(int32_t(coords[a]));
      made->points.coords.back().push_back(int32_t(k));
      made->points.owner.push_back(0);
      made->dest.push_back(int32_t(list));
    }
  });
  std::vector<Expr> values{op.value, op.at};
  if (op.present) values = {select(op.present, op.value, 0), select(op.present, op.at, 0), op.present};
  compile(r, *made, values, keys.spec->dtype == DType::f64);
  cache = std::move(made);
  return static_cast<PointOp&>(*cache);
}

void Runner::execute(RoleState& r, const RankOp& op) {
  FrameScope frame(*this, r, op.frame);
  auto& points = static_cast<RankCache&>(rank_points(r, op, frame));
  const Buffer &keys = kernel_.buffer(op.keys), &indices = kernel_.buffer(op.indices);
  begin(r, points, frame, op.uses);
  double *key = slot_data(keys, slot_of_written(r, keys, op.uses)),
         *index = slot_data(indices, slot_of_written(r, indices, op.uses));
  run_points(r, points, frame, [&](size_t p, size_t lane) {
    if (op.present && points.program->output(2)[lane] == 0) return;
    const double x = round_to(keys.dtype, points.program->output(0)[lane]),
                 at = points.program->output(1)[lane];
    const int32_t *k = &points.keys[size_t(points.dest[p] * points.length)],
                  *i = &points.indices[size_t(points.dest[p] * points.length)];
    if (is_unwritten(key[k[points.length - 1]]) || is_unwritten(index[i[points.length - 1]]))
      fault(Kind::Uninitialised, r,
            fmt::format("the list {} takes in a pair and was never written", keys.sym.name()));
    int64_t to = points.length;
    for (; to > 0 && stands_before(x, at, key[k[to - 1]], index[i[to - 1]]); --to) {
      if (to == points.length) continue;
      key[k[to]] = key[k[to - 1]];
      index[i[to]] = index[i[to - 1]];
    }
    if (to == points.length) return;
    key[k[to]] = x;
    index[i[to]] = at;
  });
}

/// The barriers of an exchange through Local memory, and its use of the scratch tile.
void Runner::exchange(RoleState& r, const ReduceOp& op) {
  execute(r, Barrier{0, op.across});
  ++r.clock[r.index];
  if (op.scratch && racy_) {
    const Buffer& scratch = kernel_.buffer(op.scratch);
    Slot& s = tracked(scratch, 0);
    for (int64_t e = 0; e < scratch.layout.elements(); ++e)
      write_local(r, scratch, 0, s, e, unit(r, op.across, 0));
    ++r.clock[r.index];
  }
  execute(r, Barrier{0, op.across});
  ++r.clock[r.index];
}

PointOp& Runner::vote_points(RoleState& r, const Vote& op, const FrameScope& frame) {
  Expr condition = without_views(op.condition);
  std::vector<int> registers = tiles_of(condition, Space::Registers),
                   operands = tiles_of(condition, Space::Local);
  operands.insert(operands.end(), registers.begin(), registers.end());
  std::vector<int64_t> shape;
  for (Sym axis : op.axes) {
    auto n = axis_extent(axis, operands);
    if (!n) n = frame.extent(axis);
    TW_CHECK(n, fmt::format("`{}` does not say how long {} is", print(kernel_, *r.node), axis.name()));
    shape.push_back(*n);
  }
  auto& cache = caches_[&op];
  if (cache) {
    auto& known = static_cast<PointOp&>(*cache);
    bool enough = std::equal(shape.begin(), shape.end(), known.extents.begin(),
                             [](int64_t a, int64_t have) { return a <= have; });
    if (enough) return known;
  }
  auto made = std::make_unique<PointOp>();
  made->extents = shape;
  made->points.axes = op.axes;
  made->points.coords.resize(op.axes.size());
  Holders holders;
  for (int k : registers) holders.add(buffers_[k], op.axes);
  for_each_coordinate(shape, [&](const std::vector<int64_t>& coords, int64_t) {
    auto add = [&](int owner) {
      for (size_t a = 0; a < coords.size(); ++a) made->points.coords[a].push_back(int32_t(coords[a]));
      made->points.owner.push_back(owner);
    };
    if (holders.empty())
      add(r.spec->threads == 1 ? 0 : -1);
    else if (holders.visit(coords, add) == 0)
      fault(Kind::Placement, r,
            fmt::format("no thread holds all operands of the condition, {} among them",
                        holders.widest()->spec->sym.name()));
  });
  compile(r, *made, {op.condition}, false);
  cache = std::move(made);
  return static_cast<PointOp&>(*cache);
}

/// For each thread whether its instance of the scope has any point that satisfies the condition.
std::vector<uint8_t> Runner::vote(RoleState& r, const Vote& op) {
  FrameScope frame(*this, r, op.frame);
  require_level(r, op.scope, "a vote of this scope");
  TW_CHECK(op.scope < Scope::Block || roles_.size() == 1, "a vote of the block in a kernel of several roles");
  PointOp& points = vote_points(r, op, frame);
  begin(r, points, frame, op.uses);
  std::vector<uint8_t> instances(r.spec->threads, 0);
  bool everyone = false;
  run_points(r, points, frame, [&](size_t p, size_t lane) {
    if (points.program->output(0)[lane] == 0) return;
    int owner = points.points.owner[p];
    if (owner < 0)
      everyone = true;
    else
      instances[instance_of(r, owner, op.scope)] = 1;
  });
  std::vector<uint8_t> result(r.spec->threads, 0);
  for (int t = 0; t < r.spec->threads; ++t) result[t] = everyone || instances[instance_of(r, t, op.scope)];
  return result;
}

}  // namespace tilewright::emulation
