// Default plans by stated rules (docs/schedule.md, "Defaults"):
//  1. A free axis is blocked when some array read along the stream lacks it (each streamed element is then used for the whole block); other axes
//     are cut into single indices. Axes of sorted lists and literal feature axes up to 256 stay whole. Of more than two blocked axes of a product, two stay: the last, and the last of another operand.
//  2. Without a blocked axis (or without a reduction) and without an axis kept whole the kernel moves rows: the row is resident up to a capacity, streamed beyond.
//  3. On a GPU the block is 128 rows in pieces of 64 (one for each computing warpgroup) with a loading warpgroup; the chunk is the largest of 128, 64, 32, 16 that fits shared
//     memory with its ring. A product of two 16-bit arrays is cut into 256 rows by 128 columns, four pieces, with chunks of 64 in four stages;
//     other sums of their products without points, or with one mean, take 128 rows by 256 columns, shared among the results, with chunks of 64 in three. More rows than 8192
//     (1024 where features are few) of a stream of exponentials are cut into 192 for three groups (three_groups below). On a CPU the block is two panels of three vectors and the chunk 64; the two blocked axes of a
//     product are four panels along the contiguous one and 384 elements of the other, and the chunk is 256 (product_tile below), wider where factors are made; few rows have plans of their own.
//     Where tile registers multiply bf16 a block is 256 rows and the chunk 128, and a product starts from 24 vectors and 384 elements.
//     Rows that nothing but a row of weights is read beside are one vector by chunks of 1024.
//  4. On a CPU a long stream under few rows (none, or no more than a block) is split, so that its parts fill the cores; a part is a length, whatever the cores.
//  5. The guard is the laziest that the state allows on a GPU (speculative, threshold, always), and always on a CPU, where the repair rides on the product.
#include <algorithm>
#include <functional>
#include <optional>

#include "tilewright/hardware/machine.h"
#include "tilewright/plan/axes.h"

namespace tilewright {

namespace {

constexpr int64_t kShortRow = 1024, kLongRow = 8192;  // capacities of resident rows on a GPU, elements
constexpr int64_t kCpuRow = 1 << 15;                  // resident rows on a CPU stay in its second-level cache
constexpr int64_t kCpuRowChunk =
    1 << 10;  // of rows that nothing is multiplied by: one vector of rows by this
constexpr int64_t kCpuTiles =
    32 << 10;  // bytes of the tiles of a product's block for each lane: half of a second-level cache
constexpr int64_t kCpuLongSum = 768,
                  kCpuSquare =
                      192;  // a sum inside of a chunk that is longer makes a product of its own of it
constexpr int64_t kCpuWhole =
    512;  // features that a task holds whole rather than make scores again for each block
constexpr int64_t kTileTiles =
    48 << 10;  // the same where tile registers multiply: more than a third of a cache of 2 MiB
constexpr int64_t kTileRows = 256;  // rows of a block beside a chunk of 128, where tile registers multiply
constexpr int64_t kTileKept = 512 << 10;  // bytes that a block of so many rows may keep of its operands
constexpr int64_t kCpuFewRows = 16;       // rows of a product that its other operand outweighs
constexpr int64_t kCpuPart =
    2048;  // elements of a part: its state is a small share of what is streamed for it

bool has_points(const Derivation& d) {
  return std::any_of(d.passes.begin(), d.passes.end(),
                     [](const Pass& pass) { return !pass.state.points.empty(); });
}

/// Bytes of an element of the widest array that is read along the stream, single numbers and rows of a table left out.
int64_t widest_operand(const Program& p, const AxisRoles& roles) {
  int64_t widest = 1;
  for (Sym t : roles.streamed_inputs)
    if (roles.read_at.at(t).size() > 1) widest = std::max<int64_t>(widest, bytes(p.input(t)->dtype));
  return widest;
}

/// How a GPU cuts sums of products of 16-bit arrays without extremes.
struct UnitTile {
  int64_t rows = 128, columns = 64, chunk = 128;
  int stages = 2, groups = 2;
};

/// Accumulators lie in registers: 64 rows by 256 columns, or as many columns of several results, take half of those of a group of 128 threads. Where both operands are
/// arrays as they are, nothing else does, and four groups share what is copied.
UnitTile unit_tile(const Program& p, const AxisRoles& roles, const Derivation& d) {
  int64_t results = 0;
  for (const Pass& pass : d.passes)
    for (const Component& c : pass.state.components) results += c.axes.size() > 1;
  const bool narrow = std::all_of(roles.streamed_inputs.begin(), roles.streamed_inputs.end(), [&](Sym t) {
    return bytes(p.input(t)->dtype) == 2 || roles.read_at.at(t).size() < 2;
  });
  // A mean may move under the sums: one row of shifts is added to them in every chunk. Extremes want chunks as long as their blocks of rows.
  const bool moves =
      d.passes.size() == 1 && std::any_of(d.passes[0].state.points.begin(), d.passes[0].state.points.end(),
                                          [](const Point& x) { return x.kind != Point::Kind::Mean; });
  if (d.passes.size() != 1 || moves || d.passes[0].state.points.size() > 1 || !narrow || results == 0)
    return {};
  if (results == 1 && d.passes[0].state.components.size() == 1 && roles.streamed_inputs.size() == 2 &&
      roles.kept_inputs.empty())
    return {256, 128, 64, 4, 4};
  return {128, std::max<int64_t>(64, 256 / results), 64, 3, 2};
}

/// Long streams of exponentials, with one operand kept and one result with features, as a GPU takes them: 192 rows in three groups share what is copied. Each
/// thread then has 160 registers; those of the result, of a chunk of scores and of their rounded form may be 112 of them. None where the chunk would be short.
std::optional<GuardedPlan> three_groups(const Program& p, const AxisRoles& roles, const Derivation& d,
                                        const Plan& two, Sym row_axis) {
  constexpr int64_t groups = 3, rows = 64, registers = 112, threads = 128;
  if (two.computers != 2 || two.guard != Guard::Speculative || d.passes.size() != 1 || !row_axis ||
      widest_operand(p, roles) > 2)
    return {};
  int64_t features = 0, kept = 0, kept_bytes = 0, streamed_bytes = 0;
  const auto size_of_whole = [&](const std::vector<Sym>& axes) {
    int64_t n = 1;
    for (Sym a : axes)
      if (contains(two.whole, a)) n *= p.axis(a).size.rational()->num();
    return n;
  };
  const auto padded = [&](Sym t) {  // panels of 64 features
    const int64_t n = size_of_whole(roles.read_at.at(t));
    return n > 1 ? (n + 63) / 64 * 64 : n;
  };
  for (const Component& c : d.passes[0].state.components)
    if (const int64_t n = size_of_whole(c.axes); n > 1) features = features == 0 ? n : -1;
  for (Sym t : roles.kept_inputs)
    if (contains(roles.read_at.at(t), row_axis) && size_of_whole(roles.read_at.at(t)) > 1) {
      ++kept;
      kept_bytes += padded(t) * bytes(p.input(t)->dtype);
    }
  for (Sym t : roles.streamed_inputs) streamed_bytes += padded(t) * bytes(p.input(t)->dtype);
  if (features < 1 || kept != 1) return {};
  const int64_t left =
      registers -
      rows * features / threads;  // scores take rows·chunk / threads, their rounded form half of it
  const int64_t chunk = std::min<int64_t>(128, left * 2 * threads / (3 * rows) / 32 * 32);
  if (chunk < 64) return {};
  GuardedPlan out{{}, two};
  for (Cut& cut : out.plan.group)
    if (cut.axis == row_axis) cut.block = groups * rows, cut.piece = rows;
  out.plan.computers = groups;
  out.plan.chunk = chunk;
  out.plan.stages = 3;
  // Rounded scores pass through shared memory where a mask hides what is not finite.
  const auto needed = [&] {
    return groups * rows * (kept_bytes + 2 * (chunk + 8)) + out.plan.stages * chunk * streamed_bytes;
  };
  while (out.plan.stages > 1 && needed() > sm90().shared_bytes - 4096) --out.plan.stages;
  if (out.plan.stages < 2) return {};
  return out;
}

/// Where single warps multiply, a group of four has 128 rows, so that what a warp reads of the streamed operand serves 32 of them; 64 where registers or shared memory
/// do not hold that. Two groups compute and copy. `registers`: of a thread for the results and a chunk of scores, `shared`: bytes, both of the plan as it is.
template <class CutRows, class Registers, class Shared>
void cut_for_warps(Plan& plan, const UnitTile& unit, bool scores, const Machine& m, const CutRows& cut_rows,
                   const Registers& registers, const Shared& shared) {
  constexpr int64_t most_registers = 190, shortest = 32;
  const int64_t room = m.shared_bytes - 4096;
  plan.loaders = 0;
  plan.computers = 2;
  std::vector<int64_t> blocks{128}, chunks{64, 32, 16};
  if (scores || unit.groups > 2) blocks.insert(blocks.begin(), 256);
  if (!scores && unit.chunk > 64) chunks.insert(chunks.begin(), 128);
  for (int64_t rows : blocks) {
    cut_rows(rows);
    for (int64_t chunk : chunks) {
      plan.chunk = chunk;
      for (plan.stages = std::min(3, unit.stages); plan.stages >= 2; --plan.stages)
        if (shared() <= room && (!scores || registers() <= most_registers) &&
            (chunk >= shortest || rows == blocks.back()))
          return;
    }
  }
  plan.stages = 1;
}

Guard laziest(const Derivation& d) {
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

/// Is there a point that is a greatest or least value?
bool has_extremes(const Derivation& d) {
  return std::any_of(d.passes.begin(), d.passes.end(), [](const Pass& pass) {
    return std::any_of(pass.state.points.begin(), pass.state.points.end(),
                       [](const Point& x) { return x.kind != Point::Kind::Mean; });
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

struct Extents {
  std::map<Sym, int64_t> of;
  int64_t elements(const std::vector<Sym>& axes, Sym without) const {
    int64_t n = 1;
    for (Sym a : axes) {
      if (a == without) continue;
      auto it = of.find(a);
      n *= it == of.end() ? 1 : it->second;
    }
    return n;
  }
};

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
    t = {24, 192, 128};  // wide, since each block of columns makes them again
  else if (tiles)
    t = {24, 384, 256};
  const int64_t element = tiles ? 2 : 4, most = tiles ? kTileTiles : kCpuTiles;
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

}  // namespace

std::vector<GuardedPlan> default_plans(const Program& p, const Derivation& d, Target target,
                                       const Machine& machine) {
  const AxisRoles roles = axis_roles(p, d);
  const bool gpu = target != Target::Cpu;
  Plan plan;
  plan.stream = d.cascade.axis;
  Extents extents;
  auto whole = [&](Sym a) {
    plan.whole.push_back(a);
    extents.of[a] = p.axis(a).baked() ? p.axis(a).size.rational()->num() : 1;
  };
  for (Sym a : roles.inner) whole(a);
  const std::vector<Sym> ranks = rank_axes(d);
  std::vector<Sym> rows;  // blocked axes
  for (Sym a : roles.free) {
    if (contains(ranks, a)) {
      whole(a);
      continue;
    }
    const Axis& axis = p.axis(a);
    const bool blocked = contains(roles.reused, a) && !d.cascade.reductions.empty();
    const bool feature = contains(roles.feature, a) || (gpu && !has_points(d) && !rows.empty());
    if (axis.baked() && blocked && feature &&
        axis.size.rational()->num() <= (gpu ? whole_limit : kCpuWhole)) {
      whole(a);
      continue;
    }
    plan.group.push_back(Cut{a, 1, 1});
    if (blocked) rows.push_back(a);
  }
  const int64_t width = widest_operand(p, roles);
  // The row axis of tiles is the last blocked axis that the points have (the longest in practice: queries, not heads that share keys), one that is a dimension of its own if there is such; columns are
  // features without a literal size. Without points the first blocked axis is the row.
  Sym row_axis = rows.empty() ? Sym() : rows.front();
  if (!roles.feature.empty() || has_points(d))
    for (bool own : {false, true})
      for (Sym a : rows)
        if (!contains(roles.feature, a) && (!own || is_dimension(p, a))) row_axis = a;
  // A product with more than two blocked axes has one of each operand in a tile: columns are the last, rows the last that other operands have.
  Sym column_axis;
  if (rows.size() > 2 && !has_points(d)) {
    column_axis = rows.back();
    for (Sym a : rows)
      if (roles.lacking.at(a) != roles.lacking.at(column_axis)) row_axis = a;
  }
  // On a CPU the long side of a product has its lanes along the axis that is contiguous in memory, where packing moves least, and enough rows share
  // what is packed. Where points are extremes, every row has its own: then one axis must be a column.
  Sym product_lanes;
  const auto columns =
      std::count_if(rows.begin(), rows.end(), [&](Sym a) { return contains(roles.feature, a); });
  if (!gpu && rows.size() > 1 && (!has_extremes(d) || (rows.size() == 2 && columns == 1))) {
    product_lanes = row_axis;
    for (const Input& in : p.inputs)
      for (Sym a : rows)
        if (contains(roles.streamed_inputs, in.sym) && !in.dims.empty() &&
            in.dims.back().pieces.back() == a && (!column_axis || a == column_axis || a == row_axis))
          product_lanes = a;
  }
  const bool long_sum = !gpu && rows.size() == 1 && roles.feature.empty() &&
                        std::any_of(roles.inner.begin(), roles.inner.end(), [&](Sym a) {
                          return p.axis(a).baked() && p.axis(a).size.rational()->num() > kCpuLongSum;
                        });
  // Rows beside a row of weights: nothing is used often enough to be worth a block, and long pieces of each row come from memory fastest.
  const bool long_rows = !gpu && rows.size() == 1 && plan.whole.empty() && roles.feature.empty() &&
                         !d.cascade.reductions.empty();
  const Machine cpu = this_cpu();
  const int64_t lanes = std::max<int64_t>(1, cpu.vector.bytes / 4);
  const bool tiles = !gpu && by_tile_registers(p, roles, cpu);
  const ProductTile product = product_tile(p, roles, d, product_lanes, lanes, tiles);
  int64_t rows_of_block = 6 * lanes;
  if (tiles) {
    int64_t kept = 0;  // bytes a row
    for (Sym t : roles.kept_inputs)
      if (contains(roles.read_at.at(t), row_axis))
        kept += 2 * extents.elements(roles.read_at.at(t), row_axis);
    for (int64_t block : {kTileRows / 2, kTileRows})
      if (block * kept <= kTileKept) rows_of_block = std::max(rows_of_block, block);
  }
  const UnitTile unit = rows.size() == 2 ? unit_tile(p, roles, d) : UnitTile();
  for (Cut& cut : plan.group) {
    if (!contains(rows, cut.axis)) continue;
    const bool row = cut.axis == row_axis;
    if (!row && has_points(d) && !contains(roles.feature, cut.axis))
      continue;  // single indices: one row axis a tile
    if (!row && column_axis && cut.axis != column_axis) continue;
    if (gpu) {
      cut.block = row ? unit.rows : unit.columns;
      cut.piece = row ? 64 : cut.block;
    } else {
      cut.block = cut.piece = product_lanes ? (cut.axis == product_lanes ? product.lanes : product.rows)
                              : row         ? (long_sum    ? kCpuSquare
                                               : long_rows ? lanes
                                                           : rows_of_block)
                                            : 64;
    }
    extents.of[cut.axis] = cut.block;
  }
  for (Sym t : roles.kept_inputs) {
    // On a GPU a number that every chunk reads again keeps its threads waiting.
    const bool several = extents.elements(p.tensor_axes(t), Sym()) > 1 || (gpu && !rows.empty());
    if (!p.tensor_axes(t).empty() && several) plan.keep.push_back(t);
  }

  const bool moves_rows = rows.empty() && std::all_of(plan.whole.begin(), plan.whole.end(),
                                                      [&](Sym a) { return contains(ranks, a); });
  if (moves_rows) {
    plan.loaders = 0;
    plan.computers = gpu ? 2 : 1;
    plan.guard = Guard::Always;
    std::vector<GuardedPlan> plans;
    std::vector<int64_t> capacities =
        gpu ? std::vector<int64_t>{kShortRow, kLongRow} : std::vector<int64_t>{kCpuRow};
    // One pass reads a row once anyway: pieces that stay in the first cache are faster than a row in the second.
    const bool once = !gpu && plan.whole.empty() && d.passes.size() == 1 && !d.cascade.reductions.empty() &&
                      std::none_of(d.cascade.outputs.begin(), d.cascade.outputs.end(),
                                   [](const CascadeOutput& o) { return o.along_stream; });
    for (int64_t capacity : capacities) {
      GuardedPlan g;
      g.when.at_most.emplace_back(plan.stream, capacity);
      g.plan = plan;
      g.plan.chunk = once ? kCpuRowChunk : capacity;
      g.plan.resident = !once;
      plans.push_back(g);
    }
    plan.chunk = once ? kCpuRowChunk : 4096;
    if (!gpu) {
      Plan parts = plan;
      parts.split = kCpuRow;
      if (legal(p, d, parts)) plan = parts;
    }
    plans.push_back(GuardedPlan{{}, plan});
    return plans;
  }

  plan.loaders = gpu ? 1 : 0;
  plan.computers = gpu ? unit.groups : 1;
  plan.stages = gpu ? unit.stages : 1;
  plan.guard = gpu ? laziest(d) : Guard::Always;
  // A sum over several axes has all of them in its chunks: the power of two that the others make up of 64.
  int64_t summed = 1;
  for (const Reduction& r : d.cascade.reductions)
    if (r.body.is(Op::Reduce) && !has_points(d)) {
      int64_t n = 1, power = 1;
      for (Sym a : r.body->bound) n *= std::max<int64_t>(1, extents.of.count(a) ? extents.of.at(a) : 1);
      while (power < std::min<int64_t>(n, 64)) power *= 2;
      summed = std::max(summed, power);
    }
  if (!gpu) {
    plan.chunk = (product_lanes ? product.chunk
                  : long_sum    ? kCpuSquare
                  : long_rows   ? kCpuRowChunk
                  : tiles       ? 128
                                : 64) /
                 summed;
    Plan parts = plan;
    parts.split = (kCpuPart + plan.chunk - 1) / plan.chunk * plan.chunk;
    std::vector<GuardedPlan> plans;
    if (legal(p, d, parts)) {
      GuardedPlan few{{}, parts};
      for (Sym a : rows)
        for (const Cut& cut : plan.group)
          if (cut.axis == a && !long_sum) few.when.at_most.emplace_back(a, cut.block);
      GuardedPlan brief{{}, plan};
      brief.when.at_most.emplace_back(plan.stream, 2 * kCpuPart);
      plans = {brief, few};
    }
    if (plans.empty() || (!rows.empty() && !long_sum)) plans.push_back(GuardedPlan{{}, plan});
    // Rows that share a dimension with another axis are often fewer than a vector: such a block computes nothing else.
    if (row_axis && has_points(d) && !is_dimension(p, row_axis) && !product_lanes) {
      std::vector<GuardedPlan> few = narrowed(plans, row_axis, lanes);
      if (rows.size() == 1 && few.size() > 1)
        few.pop_back();  // the split plan takes as few rows at any length
      plans.insert(plans.begin(), few.begin(), few.end());
    }
    // A product of few rows reads its other operand once: long pieces of that operand's rows, a few rows at a time.
    if (product_lanes && rows.size() == 2) {
      std::vector<GuardedPlan> few =
          narrowed(plans, rows[0] == product_lanes ? rows[1] : rows[0], kCpuFewRows);
      for (GuardedPlan& g : few) {
        g.plan.chunk = std::max<int64_t>(1, 32 / summed);
        for (Cut& cut : g.plan.group)
          if (cut.axis == product_lanes) cut.block = cut.piece = 36 * lanes;
        for (auto& [axis, most] : g.when.at_most)
          if (axis == product_lanes) most = 36 * lanes;
      }
      plans.insert(plans.begin(), few.begin(), few.end());
    }
    plans.erase(std::remove_if(
                    plans.begin(), plans.end(),
                    [&](const GuardedPlan& g) {
                      return std::any_of(g.when.at_most.begin(), g.when.at_most.end(), [&](const auto& l) {
                        return p.axis(l.first).baked() && p.axis(l.first).size.rational()->num() > l.second;
                      });
                    }),
                plans.end());
    return plans;
  }
  int64_t kept = 0, per_element = 0;
  for (Sym t : roles.kept_inputs)
    kept += extents.elements(roles.read_at.at(t), Sym()) * bytes(p.input(t)->dtype);
  for (Sym t : roles.streamed_inputs)
    per_element += extents.elements(roles.read_at.at(t), plan.stream) * bytes(p.input(t)->dtype);
  int64_t row_block = 1;
  for (const Cut& cut : plan.group) row_block = std::max(row_block, cut.block);
  // A made operand passes through shared memory when it cannot stay in registers: reserve its tile.
  per_element = per_element * plan.stages + (unit.groups > 2 ? 0 : row_block * std::max<int64_t>(2, width));
  if (machine.arch != sm90().arch) {
    const auto cut_rows = [&](int64_t n) {
      for (Cut& cut : plan.group)
        if (row_axis && cut.axis == row_axis)
          cut.block = n, cut.piece = n / plan.computers, extents.of[row_axis] = n;
    };
    const auto rows_now = [&] { return row_axis ? extents.of[row_axis] : 1; };
    int64_t results = 0;
    for (const Pass& pass : d.passes)
      for (const Component& c : pass.state.components) results += c.axes.size() > 1;
    const auto registers = [&]() -> int64_t {
      int64_t n = has_points(d) ? rows_now() * plan.chunk * 3 / 2 : 0;
      for (const Pass& pass : d.passes)
        for (const Component& c : pass.state.components)
          if (c.axes.size() > 1) n += extents.elements(c.axes, Sym());
      return n / (plan.computers * 128);
    };
    // Features lie in panels of 64; what is made beside the products passes through shared memory where it cannot stay in registers.
    const auto tile_bytes = [&](Sym t) {
      int64_t n = bytes(p.input(t)->dtype);
      const bool panels = n == 2;
      for (Sym a : roles.read_at.at(t)) {
        const auto it = extents.of.find(a);
        const int64_t extent = a == plan.stream || it == extents.of.end() ? 1 : it->second;
        n *= panels && extent > 1 && contains(plan.whole, a) ? (extent + 63) / 64 * 64 : extent;
      }
      return n;
    };
    const auto shared = [&] {
      int64_t n = 0;
      for (Sym t : roles.kept_inputs) n += tile_bytes(t);
      for (Sym t : roles.streamed_inputs) n += plan.chunk * tile_bytes(t) * plan.stages;
      const int64_t made = unit.groups > 2 ? 0 : has_points(d) ? std::max<int64_t>(2, width) : 4 * results;
      return n + rows_now() * (plan.chunk + 8) * made;
    };
    cut_for_warps(plan, unit, has_points(d) && width <= 2, machine, cut_rows, registers, shared);
    while (summed > 1 && plan.chunk > 16 && plan.chunk > 64 / summed) plan.chunk /= 2;
    return {GuardedPlan{{}, plan}};
  }
  const int64_t budget = sm90().shared_bytes - 4096 - kept;
  plan.chunk = 16;
  for (int64_t chunk : {unit.chunk, int64_t(64), int64_t(32)})
    if (chunk * per_element <= budget) {
      plan.chunk = chunk;
      break;
    }
  while (summed > 1 && plan.chunk > 1 && plan.chunk * per_element > budget) plan.chunk /= 2;
  std::vector<GuardedPlan> plans{GuardedPlan{{}, plan}};
  if (const std::optional<GuardedPlan> longer = three_groups(p, roles, d, plan, row_axis)) {
    const int64_t short_rows = longer->plan.chunk > 64 ? kShortRow : kLongRow;
    const Axis& rows_axis = p.axis(row_axis);
    if (rows_axis.baked()) {
      if (rows_axis.size.rational()->num() > short_rows) plans[0] = *longer;
    } else {
      plans[0].when.at_most.emplace_back(row_axis, short_rows);
      plans.push_back(*longer);
    }
  }
  return plans;
}

}  // namespace tilewright
