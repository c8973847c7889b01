// Default plans by stated rules (docs/schedule.md, "Defaults"):
//  1. A free axis is blocked when some array read along the stream lacks it (each streamed element is then used for the whole block); other axes
//     are cut into single indices. Axes of sorted lists and literal feature axes up to 256 stay whole. Of more than two blocked axes of a product, two stay: the last, and the last of another operand.
//  2. Without a blocked axis (or without a reduction) and without an axis kept whole the kernel moves rows: the row is resident up to a capacity, streamed beyond.
//  3. On a GPU see gpu_defaults.cc. On a CPU the block is two panels of three vectors and the chunk 128; the two blocked axes of a
//     product are four panels along the contiguous one and 384 elements of the other, and the chunk is 256 (product_tile below), wider where factors are made; few rows have plans of their own.
//     Where tile registers multiply bf16 a block is 256 rows, and a product starts from 24 vectors and 384 elements.
//     A long sum inside of a chunk is such a product of twelve vectors along the stream by 384 rows.
//     Rows that nothing but a row of weights is read beside are one vector by as many elements as make 8 KiB. Resident rows are moved four at a time, but for sorted lists; what is read once, a row at a time.
//  4. On a CPU a long stream under few rows (none, or no more than a few blocks) is split, so that its parts fill the cores, and a shorter one where there are few other tasks; a part is a length, whatever the cores.
//  5. The guard is the laziest that the state allows on a GPU, and always on a CPU, where the repair rides on the product, but for rows that are read once.
#include <algorithm>
#include <functional>
#include <tuple>

#include "tilewright/hardware/machine.h"
#include "tilewright/plan/defaults.h"

namespace tilewright {

namespace {

constexpr int64_t kCpuRow = 1 << 15;  // resident rows stay in the second-level cache
constexpr int64_t kCpuRowTile =
    2 << 10;  // elements of a vector of rows in a chunk: three such tiles fit a first-level cache
constexpr int64_t kCpuRowChunk = 1 << 10;  // elements of rows that are read once, in a chunk
constexpr int64_t kCpuRowsAtOnce =
    4;  // that are moved and resident: memory brings several rows faster than one where each crosses pages
constexpr int64_t kCpuRowsHeld = 1 << 14;  // elements of each of them, where they are resident
constexpr int64_t kCpuFewTasks = 64;       // rows that are no more are tasks each
constexpr int64_t kStreamedRowChunk = 4096;
// A micro-kernel loads and stores its accumulators once a chunk: longer ones spread that over more, shorter ones fit a mask better.
constexpr int64_t kCpuChunk = 128;
constexpr int64_t kCpuTiles =
    32 << 10;  // bytes of the tiles of a product's block for each lane: half of a second-level cache
constexpr int64_t kCpuMakingTiles =
    51
    << 10;  // where each block of columns makes factors again: measured faster, though little else fits the cache
constexpr int64_t kCpuLongSum =
    768;  // a sum inside of a chunk that is longer makes a product of its own of it
constexpr int64_t
    kCpuLongSumVectors = 12,
    kCpuLongSumRows = 384,
    kCpuLongSumChunks =
        4;  // of a chunk; of its rows; in a part: so much work that a part's state is little beside it
constexpr int64_t kCpuWhole =
    512;  // features that a task holds whole rather than make scores again for each block
constexpr int64_t kTileTiles =
    48 << 10;  // the same where tile registers multiply: more than a third of a cache of 2 MiB
constexpr int64_t kTileRows = 256;  // rows of a block beside a chunk of 128, where tile registers multiply
constexpr int64_t kTileKept = 512 << 10;  // bytes that a block of so many rows may keep of its operands
constexpr int64_t kCpuFewRows = 16;       // rows of a product that its other operand outweighs
constexpr int64_t kCpuPart =
    2048;  // elements of a part: its state is a small share of what is streamed for it
constexpr int64_t kCpuShortPart = 512;     // where parts are all the tasks that there are
constexpr int64_t kCpuFewBlocks = 4;       // blocks of rows beside which a stream is split
constexpr int64_t kCpuFewSingle = 2;       // elements of each axis of single indices that leave too few tasks
constexpr int64_t kCpuFewRowsChunk = 128;  // elements of a chunk beside at most a vector of rows

/// Is there a point that is a greatest or least value?
bool has_extremes(const Derivation& d) {
  return std::any_of(d.passes.begin(), d.passes.end(), [](const Pass& pass) {
    return std::any_of(pass.state.points.begin(), pass.state.points.end(),
                       [](const Point& x) { return x.kind != Point::Kind::Mean; });
  });
}

/// Is there no sorted list in the state? A list costs much at the end of each chunk.
bool without_lists(const Derivation& d) {
  return std::all_of(d.passes.begin(), d.passes.end(), [](const Pass& pass) {
    return std::none_of(pass.state.components.begin(), pass.state.components.end(),
                        [](const Component& c) { return c.listed(); });
  });
}

bool legal(const Program& p, const Derivation& d, const Plan& plan) {
  try {
    check_plan(p, d, plan);
    return true;
  } catch (const UserError&) {
    return false;
  }
}

/// False for a piece of a composite dimension of an output.
bool is_dimension(const Program& p, Sym axis) {
  for (const Output& o : p.outputs)
    for (const Dim& d : o.dims)
      if (d.pieces.size() > 1 && contains(d.pieces, axis)) return false;
  return true;
}

/// The same plans for at most `most` elements of an axis, all in one block.
std::vector<GuardedPlan> narrowed(std::vector<GuardedPlan> plans, Sym axis, int64_t most) {
  for (GuardedPlan& g : plans) {
    for (Cut& cut : g.plan.group)
      if (cut.axis == axis) cut.block = cut.piece = most;
    auto& limits = g.when.at_most;
    limits.erase(std::remove_if(limits.begin(), limits.end(), [&](const auto& l) { return l.first == axis; }),
                 limits.end());
    limits.emplace_back(axis, most);
  }
  return plans;
}

/// How a CPU cuts a product without maxima.
struct ProductTile {
  int64_t lanes, rows, chunk;
};

/// Is a factor of a sum of products made of several values, or of a code of eight bits, anew for each block of the columns?
bool makes_factors(const Program& p, const AxisRoles& roles, const Derivation& d) {
  for (Sym t : roles.streamed_inputs)
    if (is_float(p.input(t)->dtype) && bytes(p.input(t)->dtype) == 1) return true;
  const std::function<bool(Expr)> product = [&](Expr e) {
    return e.is(Op::Mul) ? std::all_of(e->args.begin(), e->args.end(), product) : e.is(Op::Read);
  };
  return std::any_of(d.passes.begin(), d.passes.end(), [&](const Pass& pass) {
    return std::any_of(pass.state.components.begin(), pass.state.components.end(), [&](const Component& c) {
      return c.combine == Reducer::Sum && tensors_read(c.lift).size() > 1 && !product(c.lift);
    });
  });
}

/// The larger, the more often a packed element is used and the fewer times accumulators are read back.
ProductTile product_tile(const Program& p, const AxisRoles& roles, const Derivation& d, Sym lanes_axis,
                         int64_t width, bool tiles) {
  int64_t results = 0, packed = 0;
  for (const Pass& pass : d.passes)
    for (const Component& c : pass.state.components)
      results += contains(c.axes, lanes_axis) && c.axes.size() > 1;
  for (Sym t : roles.streamed_inputs) packed += contains(roles.read_at.at(t), lanes_axis);
  ProductTile t{12, 384, 256};
  if (has_points(d))
    t = {18, 192, 256};  // what is multiplied is made of both operands' tiles: each is copied
  else if (makes_factors(p, roles, d) && !tiles)
    t = {33, 256, 128};  // wide, since each block of columns makes them again
  else if (tiles)
    t = {24, 384, 256};
  const int64_t element = tiles ? 2 : 4, most = tiles          ? kTileTiles
                                                : t.lanes > 24 ? kCpuMakingTiles
                                                               : kCpuTiles;
  const auto bytes_a_lane = [&] { return t.lanes * (4 * results * t.rows + element * packed * t.chunk); };
  for (auto [part, least] :
       {std::pair(&t.lanes, int64_t(6)), std::pair(&t.rows, int64_t(192)), std::pair(&t.chunk, int64_t(128))})
    while (*part > least && bytes_a_lane() > most) *part /= 2;
  t.lanes *= width;
  return t;
}

/// Are products on this machine taken by tile registers? All that is read along the stream, and all that is kept beside it, is bf16 then.
bool by_tile_registers(const Program& p, const AxisRoles& roles, const Machine& m) {
  if (m.vector.bf16 != Bf16Unit::Tiles) return false;
  int factors = 0, others = 0;
  for (const std::vector<Sym>* list : {&roles.streamed_inputs, &roles.kept_inputs})
    for (Sym t : *list) {
      const DType type = p.input(t)->dtype;
      if (is_float(type) && roles.read_at.at(t).size() > 1) ++(type == DType::bf16 ? factors : others);
    }
  return factors > 1 && others == 0;
}

/// Plans of rows that are moved one by one, and in front of the last size class one that takes several at a time, where they are resident and short enough. Few rows stay
/// a task each.
std::vector<GuardedPlan> several_rows(const Program& p, const Derivation& d,
                                      std::vector<GuardedPlan> single) {
  const Sym axis = single[0].plan.group.back().axis;
  std::vector<GuardedPlan> all = single;
  all.insert(all.begin(), single[0]);
  Plan& plan = all[0].plan;
  all[0].when.at_most = {{plan.stream, kCpuRowsHeld}};
  plan.chunk = kCpuRowsHeld;
  plan.group.back().block = plan.group.back().piece = kCpuRowsAtOnce;
  if (!legal(p, d, plan)) return single;
  if (p.axis(axis).baked()) return p.axis(axis).size.rational()->num() > kCpuFewTasks ? all : single;
  for (GuardedPlan& g : single) g.when.at_most.emplace_back(axis, kCpuFewTasks);
  all.insert(all.begin(), single.begin(), single.end());
  return all;
}

std::vector<GuardedPlan> cpu_default_plans(DefaultStart start) {
  const Program& p = start.program;
  const Derivation& d = start.derivation;
  const AxisRoles& roles = start.roles;
  const std::vector<Sym>& rows = start.rows;
  const Sym row_axis = start.row_axis, column_axis = start.column_axis;
  // The long side of a product has its lanes along the axis that is contiguous in memory, where packing moves least, and enough rows share
  // what is packed. Where points are extremes, every row has its own: then one axis must be a column.
  Sym product_lanes;
  const auto columns =
      std::count_if(rows.begin(), rows.end(), [&](Sym a) { return contains(roles.feature, a); });
  if (rows.size() > 1 && (!has_extremes(d) || (rows.size() == 2 && columns == 1))) {
    product_lanes = row_axis;
    for (const Input& in : p.inputs)
      for (Sym a : rows)
        if (contains(roles.streamed_inputs, in.sym) && !in.dims.empty() &&
            in.dims.back().pieces.back() == a && (!column_axis || a == column_axis || a == row_axis))
          product_lanes = a;
  }
  const bool long_sum = rows.size() == 1 && roles.feature.empty() &&
                        std::any_of(roles.inner.begin(), roles.inner.end(), [&](Sym a) {
                          return p.axis(a).baked() && p.axis(a).size.rational()->num() > kCpuLongSum;
                        });
  // Rows beside a row of weights: nothing is used often enough to be worth a block, and long pieces of each row come from memory fastest.
  const bool long_rows =
      rows.size() == 1 && start.plan.whole.empty() && roles.feature.empty() && !d.cascade.reductions.empty();
  const Machine cpu = this_cpu();
  const int64_t lanes = std::max<int64_t>(1, cpu.vector.bytes / 4);
  const bool tiles = by_tile_registers(p, roles, cpu);
  const ProductTile product = product_tile(p, roles, d, product_lanes, lanes, tiles);
  int64_t rows_of_block = 6 * lanes;
  if (tiles) {
    int64_t kept = 0;  // bytes a row
    for (Sym t : roles.kept_inputs)
      if (contains(roles.read_at.at(t), row_axis))
        kept += 2 * start.extents.elements(roles.read_at.at(t), row_axis);
    for (int64_t block : {kTileRows / 2, kTileRows})
      if (block * kept <= kTileKept) rows_of_block = std::max(rows_of_block, block);
  }
  start.cut([&](Sym axis) {
    const int64_t block = product_lanes      ? (axis == product_lanes ? product.lanes : product.rows)
                          : axis == row_axis ? (long_sum    ? kCpuLongSumRows
                                                : long_rows ? lanes
                                                            : rows_of_block)
                                             : 64;
    return std::pair(block, block);
  });
  start.keep(false);
  Plan plan = start.plan;
  plan.loaders = 0;
  plan.computers = 1;
  plan.guard = Guard::Always;
  if (start.moves_rows()) {
    // One pass reads a row once anyway: pieces that stay in the first cache are faster than a row in the second.
    const bool once = plan.whole.empty() && d.passes.size() == 1 && !d.cascade.reductions.empty() &&
                      std::none_of(d.cascade.outputs.begin(), d.cascade.outputs.end(),
                                   [](const CascadeOutput& o) { return o.along_stream; });
    if (once && without_lists(d)) plan.guard = laziest_guard(d);  // no product takes a repair along
    GuardedPlan held{{}, plan};
    held.when.at_most.emplace_back(plan.stream, kCpuRow);
    held.plan.chunk = once ? kCpuRowChunk : kCpuRow;
    held.plan.resident = !once;
    plan.chunk = once ? kCpuRowChunk : kStreamedRowChunk;
    Plan parts = plan;
    parts.split = kCpuRow;
    if (legal(p, d, parts)) plan = parts;
    std::vector<GuardedPlan> plans{held, GuardedPlan{{}, plan}};
    return once || plan.group.empty() || d.cascade.reductions.empty() || !without_lists(d)
               ? plans
               : several_rows(p, d, plans);
  }
  plan.stages = 1;
  const int64_t summed = start.summed();
  plan.chunk = (product_lanes            ? product.chunk
                : long_sum               ? kCpuLongSumVectors * lanes
                : long_rows              ? kCpuRowTile / lanes
                : rows.empty() && !tiles ? kCpuFewRowsChunk
                                         : kCpuChunk) /
               summed;
  Plan parts = plan;
  parts.split =
      long_sum ? kCpuLongSumChunks * plan.chunk : (kCpuPart + plan.chunk - 1) / plan.chunk * plan.chunk;
  std::vector<GuardedPlan> plans;
  if (legal(p, d, parts)) {
    const bool scores = !product_lanes && !long_sum && !long_rows;
    GuardedPlan few{{}, parts};
    for (Sym a : rows)
      for (const Cut& cut : plan.group)
        if (cut.axis == a && !long_sum)
          few.when.at_most.emplace_back(a, cut.block * (scores ? kCpuFewBlocks : 1));
    GuardedPlan brief{{}, plan};
    brief.when.at_most.emplace_back(plan.stream, long_sum ? parts.split : 2 * kCpuPart);
    plans = {brief, few};
    if (scores) {
      GuardedPlan alone = few;
      alone.plan.split = (kCpuShortPart + plan.chunk - 1) / plan.chunk * plan.chunk;
      alone.when.at_most.emplace_back(plan.stream, 4 * kCpuPart);
      for (const Cut& cut : plan.group)
        if (cut.block == 1) alone.when.at_most.emplace_back(cut.axis, kCpuFewSingle);
      plans.insert(plans.begin(), alone);
    }
  }
  if (plans.empty() || (!rows.empty() && !long_sum)) plans.push_back(GuardedPlan{{}, plan});
  // Rows that share a dimension with another axis are often fewer than a vector: such a block computes nothing else.
  if (row_axis && has_points(d) && !is_dimension(p, row_axis) && !product_lanes) {
    std::vector<GuardedPlan> few = narrowed(plans, row_axis, lanes);
    for (GuardedPlan& g : few) g.plan.chunk = kCpuFewRowsChunk / summed;
    if (rows.size() == 1 && few.size() > 1) few.pop_back();  // the split plan takes as few rows at any length
    plans.insert(plans.begin(), few.begin(), few.end());
  }
  // A product of few rows reads its other operand once: long pieces of that operand's rows, a few rows at a time.
  if (product_lanes && rows.size() == 2) {
    std::vector<GuardedPlan> few = narrowed(plans, rows[0] == product_lanes ? rows[1] : rows[0], kCpuFewRows);
    for (GuardedPlan& g : few) {
      g.plan.chunk = std::max<int64_t>(1, 32 / summed);
      for (Cut& cut : g.plan.group)
        if (cut.axis == product_lanes) cut.block = cut.piece = 36 * lanes;
      for (auto& [axis, most] : g.when.at_most)
        if (axis == product_lanes) most = 36 * lanes;
    }
    plans.insert(plans.begin(), few.begin(), few.end());
  }
  plans.erase(
      std::remove_if(plans.begin(), plans.end(),
                     [&](const GuardedPlan& g) {
                       return std::any_of(g.when.at_most.begin(), g.when.at_most.end(), [&](const auto& l) {
                         return p.axis(l.first).baked() && p.axis(l.first).size.rational()->num() > l.second;
                       });
                     }),
      plans.end());
  return plans;
}

/// Is any of the arrays more than numbers of documents, pages and the like, which a GPU reads beside what it streams?
bool shares_numbers(const Program& p, const std::vector<Sym>& arrays) {
  return std::any_of(arrays.begin(), arrays.end(), [&](Sym t) { return is_float(p.input(t)->dtype); });
}

}  // namespace

Guard laziest_guard(const Derivation& d) {
  bool lag = false, speculative = true;
  for (const Pass& pass : d.passes)
    for (const Point& point : pass.state.points) {
      if (point.kind == Point::Kind::Mean) continue;
      if (!point.may_lag) return Guard::Always;
      lag = true;
      speculative = speculative && point.speculative;
    }
  if (!lag) return Guard::Always;
  return speculative ? Guard::Speculative : Guard::Threshold;
}

bool has_points(const Derivation& d) {
  return std::any_of(d.passes.begin(), d.passes.end(),
                     [](const Pass& pass) { return !pass.state.points.empty(); });
}

int64_t widest_operand(const Program& p, const AxisRoles& roles) {
  int64_t widest = 1;
  for (Sym t : roles.streamed_inputs)
    if (roles.read_at.at(t).size() > 1 && is_float(p.input(t)->dtype))
      widest = std::max<int64_t>(widest, bytes(p.input(t)->dtype));
  return widest;
}

int64_t Extents::elements(const std::vector<Sym>& axes, Sym without) const {
  int64_t n = 1;
  for (Sym a : axes) {
    if (a == without) continue;
    auto it = of.find(a);
    n *= it == of.end() ? 1 : it->second;
  }
  return n;
}

void DefaultStart::cut(const std::function<std::pair<int64_t, int64_t>(Sym axis)>& length) {
  for (Cut& c : plan.group) {
    if (!contains(rows, c.axis)) continue;
    const bool row = c.axis == row_axis;
    if (!row && has_points(derivation) && !contains(roles.feature, c.axis))
      continue;  // single indices: one row axis a tile
    if (!row && column_axis && c.axis != column_axis) continue;
    std::tie(c.block, c.piece) = length(c.axis);
    extents.of[c.axis] = c.block;
  }
}

void DefaultStart::keep(bool numbers) {
  for (Sym t : roles.kept_inputs) {
    const std::vector<Sym> axes = program.tensor_axes(t);
    if (!axes.empty() && (numbers || extents.elements(axes) > 1)) plan.keep.push_back(t);
  }
}

bool DefaultStart::moves_rows() const {
  const std::vector<Sym> ranks = rank_axes(derivation);
  return rows.empty() &&
         std::all_of(plan.whole.begin(), plan.whole.end(), [&](Sym a) { return contains(ranks, a); });
}

int64_t DefaultStart::summed() const {
  int64_t most = 1;
  for (const Reduction& r : derivation.cascade.reductions)
    if (r.body.is(Op::Reduce) && !has_points(derivation)) {
      int64_t n = 1, power = 1;
      for (Sym a : r.body->bound) n *= std::max<int64_t>(1, extents.of.count(a) ? extents.of.at(a) : 1);
      while (power < std::min<int64_t>(n, 64)) power *= 2;
      most = std::max(most, power);
    }
  return most;
}

DefaultStart default_start(const Program& p, const Derivation& d, bool gpu) {
  DefaultStart start{p, d, axis_roles(p, d), {}, {}, {}, {}, {}};
  const AxisRoles& roles = start.roles;
  Plan& plan = start.plan;
  std::vector<Sym>& rows = start.rows;
  plan.stream = d.cascade.axis;
  auto whole = [&](Sym a) {
    plan.whole.push_back(a);
    start.extents.of[a] = p.axis(a).baked() ? p.axis(a).size.rational()->num() : 1;
  };
  for (Sym a : roles.inner) whole(a);
  const std::vector<Sym> ranks = rank_axes(d);
  for (Sym a : roles.free) {
    if (contains(ranks, a)) {
      whole(a);
      continue;
    }
    const Axis& axis = p.axis(a);
    const bool blocked = contains(roles.reused, a) && !d.cascade.reductions.empty() &&
                         (!gpu || shares_numbers(p, roles.lacking.at(a)));
    const bool feature = contains(roles.feature, a) || (gpu && !has_points(d) && !rows.empty());
    if (axis.baked() && blocked && feature &&
        axis.size.rational()->num() <= (gpu ? whole_limit : kCpuWhole)) {
      whole(a);
      continue;
    }
    plan.group.push_back(Cut{a, 1, 1});
    if (blocked) rows.push_back(a);
  }
  // The row axis of tiles is the last blocked axis that the points have (the longest in practice: queries, not heads that share keys), one that is a dimension of its own if there is such; columns are
  // features without a literal size. Without points the first blocked axis is the row.
  Sym& row_axis = start.row_axis;
  row_axis = rows.empty() ? Sym() : rows.front();
  if (!roles.feature.empty() || has_points(d))
    for (bool own : {false, true})
      for (Sym a : rows)
        if (!contains(roles.feature, a) && (!own || is_dimension(p, a))) row_axis = a;
  // A product with more than two blocked axes has one of each operand in a tile: columns are the last, rows the last that other operands have.
  Sym& column_axis = start.column_axis;
  if (rows.size() > 2 && !has_points(d)) {
    column_axis = rows.back();
    for (Sym a : rows)
      if (roles.lacking.at(a) != roles.lacking.at(column_axis)) row_axis = a;
  }
  return start;
}

std::vector<GuardedPlan> default_plans(const Program& p, const Derivation& d, Target target,
                                       const Machine& machine) {
  const bool gpu = target != Target::Cpu;
  DefaultStart start = default_start(p, d, gpu);
  return gpu ? gpu_default_plans(std::move(start), machine) : cpu_default_plans(std::move(start));
}

}  // namespace tilewright
