// Default plans of a GPU by stated rules (docs/schedule.md, "Defaults"); defaults.cc says which axes are blocked.
//  1. Rows that move are resident up to 1024, then 8192 elements, and streamed in chunks of 4096 beyond, by two groups of threads that load themselves. Rows of a literal
//     length are resident as they are, as many to a block as make 2048 elements.
//  2. Else a block is 128 rows in pieces of 64, one for each of two computing groups, by 64 columns; a third group loads, two stages ahead.
//  3. A sum of products of 16-bit arrays without points, or with one mean, takes what registers hold of accumulators (unit_tile): 256 rows by 128 columns in four pieces where both operands
//     are arrays as they are, with chunks of 64 in four stages; else 128 rows by 256 columns, shared among the results, with chunks of 64 in three stages.
//  4. The chunk is 128 (or that of rule 3), 64, 32 or 16: the largest whose ring fits shared memory beside what is kept. Where the mapping finds that tiles take more, the driver halves it.
//  5. More than 1024 rows of a stream of exponentials are cut into 192 for three groups. Where features are so few that registers hold it, more than 512 are cut into 256 for four
//     groups, and those of three begin beyond 8192 (more_groups, by_rows). Where a mask cuts the chunks of a block by its rows, three groups begin beyond 2048 and four beyond 1024, and
//     blocks with most chunks come first in sections of the last axis before the rows that streamed arrays have: as many indices as read 32 MB, which a second-level cache holds (in_sections).
//     Two groups, in the order of the grid, where arrays say which rows see what (documents).
//  6. Products of rule 3 that are arrays as they are run on a persistent grid: the loading group reads ahead while results are stored.
//  7. Where single warps multiply (before compute capability 9.0, and operands of f32), two groups compute and copy, with blocks and chunks that registers and shared memory hold
//     (cut_for_warps); one where a sum of products of f32 arrays is all there is.
//  8. Up to 64 rows of a stream with points (one query, or the query heads that share a key head), and of a product of 16-bit arrays, are one piece of one computing group, beside at most 128 columns.
//     A longer stream is split, so that it is read by all multiprocessors, and blocks that run at once take the parts in turn (few_rows). Chunks are the longest that fit twice; three
//     shorter ones where arrays say where elements lie, so that one is on its way while another is waited for, and where scores are made by long functions, for which registers are few.
//  9. The guard is the laziest that the state allows: speculative, threshold, always.
#include <algorithm>
#include <functional>
#include <limits>
#include <optional>

#include "tilewright/hardware/machine.h"
#include "tilewright/plan/defaults.h"

namespace tilewright {

namespace {

constexpr int64_t kShortRow = 1024, kLongRow = 8192;  // capacities of resident rows, elements
constexpr int64_t kRowsOfBlock = 2048;  // elements of short rows that share a block: a vector for each thread
constexpr int64_t kRowChunk = 4096;
constexpr int64_t kLeastChunk = 16;
constexpr int64_t kBriefRow = 512, kCutRow = 2048;   // rows of a stream of exponentials for two groups
constexpr int64_t kSectionMegabytes = 32;            // that a second-level cache holds beside what is stored
constexpr int64_t kFewRows = 64, kFewColumns = 128;  // of one computing group
constexpr int64_t kBriefStream = 512,
                  kLongStream = 8192;  // streams that are not split, and that are split into shorter parts
constexpr int64_t kBriefPart = 512, kLongPart = 2048;
constexpr int64_t kSignals = 4096;  // bytes of shared memory for signals and small tiles

/// How a GPU cuts sums of products of 16-bit arrays without extremes.
struct UnitTile {
  int64_t rows = 128, columns = 64, chunk = 128;
  int stages = 2, groups = 2;
};

/// Products of f32 operands, which single warps take on tensor cores in parts (map/atom.h): two arrays of them at least.
bool multiplies_in_parts(const DefaultStart& start, const Machine& machine) {
  if (!machine.tf32_parts) return false;
  int arrays = 0;
  for (const std::vector<Sym>* list : {&start.roles.streamed_inputs, &start.roles.kept_inputs})
    for (Sym t : *list) {
      const DType dtype = start.program.input(t)->dtype;
      if (start.roles.read_at.at(t).size() < 2 || !is_float(dtype)) continue;
      if (dtype != DType::f32) return false;
      ++arrays;
    }
  return arrays > 1;
}

bool by_warps(const DefaultStart& start, const Machine& machine) {
  return machine.arch != sm90().arch || multiplies_in_parts(start, machine);
}

/// Accumulators lie in registers: 64 rows by 256 columns, or as many columns of several results, take half of those of a group of 128 threads. Where both operands are
/// arrays as they are, nothing else does, and four groups share what is copied.
UnitTile unit_tile(const DefaultStart& start, const Machine& machine) {
  const Program& p = start.program;
  const Derivation& d = start.derivation;
  const AxisRoles& roles = start.roles;
  if (start.rows.size() != 2) return {};
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
  const bool tf32 = multiplies_in_parts(start, machine);
  if (d.passes.size() != 1 || moves || d.passes[0].state.points.size() > 1 || !(narrow || tf32) ||
      results == 0)
    return {};
  const bool as_they_are = results == 1 && d.passes[0].state.components.size() == 1 &&
                           roles.streamed_inputs.size() == 2 && roles.kept_inputs.empty();
  // A core holds two blocks of one group, which do not wait for each other.
  if (tf32) return as_they_are ? UnitTile{128, 64, 32, 3, 1} : UnitTile{128, 64, 32, 3, 2};
  if (as_they_are) return {256, 128, 64, 4, 4};
  return {128, std::max<int64_t>(64, 256 / results), 64, 3, 2};
}

/// Streams of exponentials, with one operand kept and one result with features, as a GPU takes them: groups of 64 rows share what is copied. A thread has 160 registers in
/// three groups and 112 in four; those of the result, of a chunk of scores and of their rounded form may be 112 and 80 of them. None where the chunk would be short.
std::optional<Plan> more_groups(const DefaultStart& start, const Plan& two, int groups) {
  const Program& p = start.program;
  const Derivation& d = start.derivation;
  const AxisRoles& roles = start.roles;
  const Sym row_axis = start.row_axis;
  constexpr int64_t rows = 64, threads = 128;
  const int64_t registers = groups == 3 ? 112 : 80;
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
  Plan out = two;
  for (Cut& cut : out.group)
    if (cut.axis == row_axis) cut.block = groups * rows, cut.piece = rows;
  out.computers = groups;
  out.chunk = chunk;
  out.stages = groups;
  // Rounded scores pass through shared memory where a mask hides what is not finite.
  const auto needed = [&] {
    return groups * rows * (kept_bytes + 2 * (chunk + 8)) + out.stages * chunk * streamed_bytes;
  };
  while (out.stages > 1 && needed() > sm90().shared_bytes - kSignals) --out.stages;
  if (out.stages < 2) return {};
  return out;
}

/// Does a condition compare the streamed axis with the rows, so that blocks of rows visit different chunks? `by_arrays`: by what arrays say of them.
bool cut_by_rows(const DefaultStart& start, bool by_arrays) {
  const auto compares = [&](Expr present) {
    const std::vector<Sym> symbols = free_symbols(present);
    return contains(symbols, start.plan.stream) && contains(symbols, start.row_axis) &&
           (!by_arrays || !tensors_read(present).empty());
  };
  return std::any_of(start.derivation.passes.begin(), start.derivation.passes.end(), [&](const Pass& pass) {
    const State& state = pass.state;
    return std::any_of(state.points.begin(), state.points.end(),
                       [&](const Point& x) { return compares(x.present); }) ||
           std::any_of(state.components.begin(), state.components.end(),
                       [&](const Component& c) { return compares(c.present); });
  });
}

/// Are scores made by functions that take many instructions and registers?
bool long_scores(const DefaultStart& start) {
  const std::function<bool(Expr)> is_long = [&](Expr e) {
    return e && (e.is(Op::Tanh) || e.is(Op::Sigmoid) || e.is(Op::Erf) ||
                 std::any_of(e.args().begin(), e.args().end(), is_long));
  };
  return std::any_of(start.derivation.passes.begin(), start.derivation.passes.end(), [&](const Pass& pass) {
    return std::any_of(pass.state.points.begin(), pass.state.points.end(),
                       [&](const Point& x) { return is_long(x.u); });
  });
}

/// The plan in sections where an axis before the rows is read along the stream.
Plan in_sections(const DefaultStart& start, Plan plan) {
  plan.grid = GridBy::Blocks;
  if (plan.group.empty() || plan.group.back().axis != start.row_axis) return plan;
  for (size_t k = 0; k + 1 < plan.group.size(); ++k) {
    const Sym axis = plan.group[k].axis;
    for (Sym t : start.roles.streamed_inputs)
      if (plan.group[k].block == 1 && contains(start.roles.read_at.at(t), axis))
        plan.section_axis = axis, plan.section = kSectionMegabytes, plan.section_megabytes = true;
  }
  return plan;
}

/// Rule 5: plans of a stream of exponentials for at most so many rows, fewest first, from a plan of two groups.
std::vector<std::pair<int64_t, Plan>> by_rows(const DefaultStart& start, const Plan& two) {
  constexpr int64_t any = std::numeric_limits<int64_t>::max();
  // How long the runs are that arrays tell of (documents) is not known: the fewer rows a block has, the fewer elements that no row needs.
  if (cut_by_rows(start, true)) return {{any, two}};
  const bool cut = cut_by_rows(start, false);
  const std::optional<Plan> three = more_groups(start, two, 3),
                            four = long_scores(start) ? std::nullopt : more_groups(start, two, 4);
  std::vector<std::pair<int64_t, Plan>> plans;
  plans.emplace_back(four ? (cut ? kShortRow : kBriefRow) : three ? (cut ? kCutRow : kShortRow) : any, two);
  if (four) plans.emplace_back(three ? kLongRow : any, *four);
  if (three) plans.emplace_back(any, *three);
  if (cut)
    for (auto& [rows, plan] : plans) plan = in_sections(start, plan);
  return plans;
}

/// Are there never more rows than those of few_rows()?
bool only_few(const DefaultStart& start) {
  if (!start.row_axis) return true;
  const Axis& rows = start.program.axis(start.row_axis);
  return rows.baked() && rows.size.rational()->num() <= kFewRows;
}

bool legal(const DefaultStart& start, const Plan& plan) {
  try {
    check_plan(start.program, start.derivation, plan);
    return true;
  } catch (const UserError&) {
    return false;
  }
}

/// Rule 8, for `plan` in one piece of all rows: a part is so long that its state is a small share of what is streamed for it, and so short that few heads make
/// parts for all multiprocessors.
std::vector<GuardedPlan> in_parts(const DefaultStart& start, const Plan& plan) {
  constexpr int64_t any = std::numeric_limits<int64_t>::max();
  GuardedPlan all{{}, plan};
  if (!only_few(start)) all.when.at_most.emplace_back(start.row_axis, kFewRows);
  const Axis& stream = start.program.axis(plan.stream);
  std::vector<GuardedPlan> plans;
  std::vector<std::pair<int64_t, int64_t>> parts{
      {kBriefStream, 0}, {kLongStream, kBriefPart}, {any, kLongPart}};
  const auto blocked =
      std::count_if(plan.group.begin(), plan.group.end(), [](const Cut& c) { return c.block > 1; });
  if (blocked > 1) parts = {{kLongPart, 0}, {any, kLongPart}};  // each row has a state for every column
  for (const auto& [length, part] : parts) {
    GuardedPlan g = all;
    g.plan.split = part;
    if (!legal(start, g.plan)) return {all};
    if (stream.baked()) {
      if (stream.size.rational()->num() <= length) return {g};
    } else {
      if (length < any) g.when.at_most.emplace_back(g.plan.stream, length);
      plans.push_back(std::move(g));
    }
  }
  return plans;
}

std::vector<GuardedPlan> rows_that_move(const DefaultStart& start) {
  Plan plan = start.plan;
  plan.loaders = 0;
  plan.computers = 2;
  plan.guard = Guard::Always;
  std::vector<GuardedPlan> plans;
  const Axis& row = start.program.axis(plan.stream);
  const int64_t length = row.baked() ? row.size.rational()->num() : 0;
  if (length > 0 && length <= kLongRow) {  // as long as they are, short ones several to a block
    GuardedPlan g{{}, plan};
    g.when.at_most.emplace_back(plan.stream, length);
    g.plan.chunk = length;
    g.plan.resident = true;
    if (!g.plan.group.empty() && g.plan.group.back().block == 1) {
      Cut& last = g.plan.group.back();
      while (2 * last.block * length <= kRowsOfBlock) last.block *= 2;
      last.piece = last.block;
    }
    plans.push_back(g);
    plan.chunk = kRowChunk;
    plans.push_back(GuardedPlan{{}, plan});
    return plans;
  }
  for (int64_t capacity : {kShortRow, kLongRow}) {
    GuardedPlan g{{}, plan};
    g.when.at_most.emplace_back(plan.stream, capacity);
    g.plan.chunk = capacity;
    g.plan.resident = true;
    plans.push_back(g);
  }
  plan.chunk = kRowChunk;
  plans.push_back(GuardedPlan{{}, plan});
  return plans;
}

/// Rule 4.
int64_t chunk_that_fits(const DefaultStart& start, const Plan& plan, const UnitTile& unit) {
  const Program& p = start.program;
  const AxisRoles& roles = start.roles;
  int64_t kept = 0, per_element = 0, row_block = 1;
  for (Sym t : roles.kept_inputs)
    kept += start.extents.elements(roles.read_at.at(t)) * bytes(p.input(t)->dtype);
  for (Sym t : roles.streamed_inputs)
    per_element += start.extents.elements(roles.read_at.at(t), plan.stream) * bytes(p.input(t)->dtype);
  for (const Cut& cut : plan.group) row_block = std::max(row_block, cut.block);
  // A made operand passes through shared memory when it cannot stay in registers: reserve its tile.
  const int64_t made = unit.groups > 2 ? 0 : row_block * std::max<int64_t>(2, widest_operand(p, roles));
  per_element = per_element * plan.stages + made;
  const int64_t budget = sm90().shared_bytes - kSignals - kept;
  int64_t chunk = kLeastChunk;
  for (int64_t longer : {unit.chunk, int64_t(64), int64_t(32)})
    if (longer * per_element <= budget) {
      chunk = longer;
      break;
    }
  if (start.summed() > 1)
    while (chunk > 1 && chunk * per_element > budget) chunk /= 2;
  return chunk;
}

/// Rule 7, for two groups (one of few rows). A group of four warps has 128 rows, so that what a warp reads of the streamed operand serves 32 of them; 64 where registers or shared memory do not
/// hold that, or where there are few.
Plan cut_for_warps(DefaultStart start, Plan plan, const UnitTile& unit, const Machine& machine, int groups) {
  constexpr int64_t shortest = 32;
  const Program& p = start.program;
  const Derivation& d = start.derivation;
  const AxisRoles& roles = start.roles;
  const int64_t width = widest_operand(p, roles), summed = start.summed();
  // Parts of f32 operands and the sums of their products take half of the registers.
  const bool tf32 = multiplies_in_parts(start, machine), scores = has_points(d) && (width <= 2 || tf32);
  const int64_t most_registers = tf32 ? 96 : 190;
  plan.computers = groups;
  int64_t results = 0;
  for (const Pass& pass : d.passes)
    for (const Component& c : pass.state.components) results += c.axes.size() > 1;
  const auto rows = [&] { return start.row_axis ? start.extents.of[start.row_axis] : 1; };
  const auto registers = [&] {  // of a thread, for the results and a chunk of scores
    int64_t n = has_points(d) ? rows() * plan.chunk * (tf32 ? 4 : 3) / 2 : 0;
    for (const Pass& pass : d.passes)
      for (const Component& c : pass.state.components)
        if (c.axes.size() > 1) n += start.extents.elements(c.axes);
    return n / (plan.computers * 128);
  };
  // Features lie in panels of 64; what is made beside the products passes through shared memory where it cannot stay in registers.
  const auto tile_bytes = [&](Sym t) {
    int64_t n = bytes(p.input(t)->dtype);
    const bool panels = n == 2;
    for (Sym a : roles.read_at.at(t)) {
      const auto it = start.extents.of.find(a);
      const int64_t extent = a == plan.stream || it == start.extents.of.end() ? 1 : it->second;
      n *= panels && extent > 1 && contains(plan.whole, a) ? (extent + 63) / 64 * 64 : extent;
    }
    // Lines of f32 operands lie apart in the banks.
    if (!tf32 || p.tensor_axes(t).empty()) return n;
    const auto line = start.extents.of.find(p.tensor_axes(t).back());
    return n + n * 8 / std::max<int64_t>(line == start.extents.of.end() ? 1 : line->second, 16);
  };
  const auto shared = [&] {
    int64_t n = 0;
    for (Sym t : roles.kept_inputs) n += tile_bytes(t);
    for (Sym t : roles.streamed_inputs) {
      // A chunk along the last dimension of an array lies in such a panel too.
      const std::vector<Sym> axes = p.tensor_axes(t);
      const bool inner = bytes(p.input(t)->dtype) == 2 && !axes.empty() && axes.back() == plan.stream;
      n += (inner ? (plan.chunk + 63) / 64 * 64 : plan.chunk) * tile_bytes(t) * plan.stages;
    }
    const int64_t made = unit.groups > 2 ? 0 : has_points(d) ? std::max<int64_t>(2, width) : 4 * results;
    return n + rows() * (plan.chunk + 8) * made;
  };
  std::vector<int64_t> blocks{tf32 && !scores ? unit.rows : 64 * groups}, chunks{64, 32, 16};
  if (groups > 1 && ((scores && !tf32) || unit.groups > 2)) blocks.insert(blocks.begin(), 256);
  if (!scores && unit.chunk > 64) chunks.insert(chunks.begin(), 128);
  if (tf32 && !has_points(d)) chunks = {32, 16};
  const auto fits = [&] {
    for (int64_t block : blocks) {
      for (Cut& cut : plan.group)
        if (start.row_axis && cut.axis == start.row_axis)
          cut.block = block, cut.piece = block / plan.computers, start.extents.of[start.row_axis] = block;
      for (int64_t chunk : chunks) {
        plan.chunk = chunk;
        for (plan.stages = (groups == 1 ? 3 : std::min(3, unit.stages)); plan.stages >= 2; --plan.stages)
          if (shared() <= machine.shared_bytes - kSignals &&
              (!scores || registers() <= most_registers || (tf32 && chunk == chunks.back())) &&
              (chunk >= shortest || block == blocks.back()))
            return true;
      }
    }
    return false;
  };
  if (!fits()) plan.stages = 1;
  while (summed > 1 && plan.chunk > 16 && plan.chunk > 64 / summed) plan.chunk /= 2;
  return plan;
}

/// Is an array read at indices that another array holds (pages of a cache)?
bool reads_at_read_indices(Expr e) {
  if (e.is(Op::Read) &&
      std::any_of(e.args().begin(), e.args().end(), [](Expr at) { return !tensors_read(at).empty(); }))
    return true;
  return std::any_of(e.args().begin(), e.args().end(), reads_at_read_indices);
}

/// Rule 8.
std::vector<GuardedPlan> few_rows(DefaultStart start, Plan plan, const UnitTile& unit,
                                  const Machine& machine) {
  const bool product = start.rows.size() == 2 && unit.stages > 2;  // on units for operands of 16 bits
  if (!has_points(start.derivation) && !product) return {};
  for (Cut& cut : plan.group) {
    const int64_t block = cut.axis == start.row_axis ? kFewRows
                          : product                  ? std::min(cut.block, kFewColumns)
                                                     : cut.block;
    if (block != cut.block) cut.block = cut.piece = start.extents.of[cut.axis] = block;
  }
  const UnitTile few{kFewRows, kFewColumns, 128, 3, 1};
  plan.computers = few.groups;
  plan.stages = few.stages;
  if (by_warps(start, machine)) return in_parts(start, cut_for_warps(start, plan, few, machine, few.groups));
  plan.grid = GridBy::Persistent;
  plan.chunk = chunk_that_fits(start, plan, few);
  Plan longer = plan;
  longer.stages = 2;
  longer.chunk = chunk_that_fits(start, longer, few);
  const std::vector<Definition>& all = start.program.definitions;
  const bool gathers =
      std::any_of(all.begin(), all.end(), [](const Definition& x) { return reads_at_read_indices(x.value); });
  // Scores of 128 keys, their rounded form and what long functions hold meanwhile are more than the registers of a thread.
  const bool shorter = gathers || long_scores(start);
  return in_parts(start, longer.chunk > plan.chunk && !shorter ? longer : plan);
}

/// Rules 2 to 7.
std::vector<GuardedPlan> many_rows(const DefaultStart& start, Plan plan, const UnitTile& unit,
                                   const Machine& machine) {
  if (by_warps(start, machine))
    return {GuardedPlan{{}, cut_for_warps(start, plan, unit, machine, std::min(2, unit.groups))}};
  plan.chunk = chunk_that_fits(start, plan, unit);
  if (plan.guard != Guard::Speculative || !start.row_axis) {
    if (unit.groups > 2) plan.grid = GridBy::Persistent;
    return {GuardedPlan{{}, plan}};
  }
  const Axis& rows_axis = start.program.axis(start.row_axis);
  std::vector<GuardedPlan> plans;
  for (auto& [rows, of_rows] : by_rows(start, plan)) {
    if (rows_axis.baked()) {
      if (rows_axis.size.rational()->num() <= rows) return {GuardedPlan{{}, of_rows}};
    } else {
      GuardedPlan g{{}, of_rows};
      if (rows < std::numeric_limits<int64_t>::max()) g.when.at_most.emplace_back(start.row_axis, rows);
      plans.push_back(std::move(g));
    }
  }
  return plans;
}

}  // namespace

std::vector<GuardedPlan> gpu_default_plans(DefaultStart start, const Machine& machine) {
  const UnitTile unit = unit_tile(start, machine);
  start.cut([&](Sym axis) {
    return axis == start.row_axis ? std::pair(unit.rows, int64_t(64)) : std::pair(unit.columns, unit.columns);
  });
  // A number that every chunk reads again keeps its threads waiting.
  start.keep(!start.rows.empty());
  if (start.moves_rows()) return rows_that_move(start);
  Plan plan = start.plan;
  plan.by_warps = by_warps(start, machine);
  plan.loaders = plan.by_warps ? 0 : 1;
  plan.computers = unit.groups;
  plan.stages = unit.stages;
  plan.guard = laziest_guard(start.derivation);
  std::vector<GuardedPlan> plans = few_rows(start, plan, unit, machine);
  if (!plans.empty() && only_few(start)) return plans;
  const std::vector<GuardedPlan> more = many_rows(start, plan, unit, machine);
  plans.insert(plans.end(), more.begin(), more.end());
  return plans;
}

}  // namespace tilewright
