#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tilewright/model/pricing.h"
#include "tilewright/tile/statements.h"

namespace tilewright::pricing {

namespace {

// What a block waits for, and how well groups take turns: from streams of exponentials at 1024 to 16384 rows (docs/model.md, "Prediction").
constexpr double seconds_of_block = 3e-6;  // its first loads and last stores, while nothing else of it runs
constexpr double seconds_of_load = 1e-6;   // until a tile that is asked for lies in shared memory
constexpr double seconds_of_turn = 2e-8;   // signals of a chunk
constexpr double sharpness = 4;            // of the maximum of two bounds: near to each other neither is met
// Of a thread, for each multiply-add of f32 operands in parts (map/atom.h): four to split an element of b, which serves 16 rows, and four for each 32 added to a result.
constexpr double instructions_of_parts = 4.0 / 16 + 4.0 / 32;

/// Bytes of the arrays that are loaded, each once.
double array_bytes(const Model& m, const Counted& c) {
  double sum = 0;
  for (const auto& [tensor, e] : m.exact.loaded_by_tensor) {
    const Input* in = m.program->input(tensor);
    if (!in) continue;
    double n = bytes(in->dtype);
    for (Sym a : in->axes()) n *= c.length(a);
    sum += n;
  }
  return sum;
}

/// Statements of a kernel that load the tensor: its passes over it.
int loads_of(const TileKernel& k, Sym tensor) {
  int n = 0;
  for_each_stmt(k.body, [&](const Stmt& s) {
    if (auto* load = std::get_if<Load>(&s.node)) n += load->tensor == tensor ? 1 : 0;
  });
  return std::max(1, n);
}

/// What crosses from memory into the first cache: blocks that run at a time, the last axes of the grid first, share what they read, as one block as long as all of
/// them would; arrays that the cache holds whole are read once.
double through_cache(const Model& m, const MemoryLevel& cache, const Counted& c, int64_t slots,
                     double loaded) {
  const double arrays = std::min(array_bytes(m, c), loaded);
  if (cache.capacity && arrays <= cache.capacity->value * (cache.units ? cache.units->value : 1))
    return arrays;
  const TileKernel& k = m.tiles->kernels[0];
  Integers larger = c.values();
  int64_t together = std::max<int64_t>(1, slots);
  for (size_t i = k.grid.size(); i-- > 0 && together > 1;) {
    auto it = m.symbols.block.find(k.grid[i].index);
    const auto n = int64_t(c.length(k.grid[i].index));
    const int64_t g = it == m.symbols.block.end() ? 1 : c.values().at(it->second);
    const int64_t factor = std::min(together, std::max<int64_t>(1, (n + g - 1) / g));
    if (it != m.symbols.block.end()) larger[it->second] = std::max(g, std::min(n, g * factor));
    together /= factor;
  }
  const double blocks = c.blocks(0);
  double shared = 0;
  for (size_t t = 0; t < m.exact.loaded_by_tensor.size(); ++t) {
    const auto& [tensor, exact] = m.exact.loaded_by_tensor[t];
    const Expr smooth = m.smooth.loaded_by_tensor[t].second;
    const auto moved = c.bytes(exact, smooth, &larger), alone = c.bytes(exact, smooth);
    if (!moved || !alone) return loaded;
    // What a block reads again, in a later pass, is still there if the cache holds what all blocks that run read in one.
    const double passes = loads_of(k, tensor);
    const double held = *alone / std::max(blocks, 1.0) / passes * double(slots);
    const bool again = passes > 1 && cache.capacity &&
                       held <= cache.capacity->value * (cache.units ? cache.units->value : 1);
    shared += again ? *moved / passes : *moved;
  }
  return std::max(arrays, std::min(shared, loaded));
}

}  // namespace

void price_gpu(Sheet& sheet) {
  using Kind = ResourceTime::Kind;
  const Model& m = sheet.m;
  const MachineFile& machine = sheet.machine;
  const Counted& c = sheet.counted;
  Prediction& p = sheet.prediction;
  const double loaded = c.loaded(), stored = c.stored();
  const double inner = c.bytes(m.exact.shared.loaded, m.smooth.shared.loaded).value_or(0) +
                       c.bytes(m.exact.shared.stored, m.smooth.shared.stored).value_or(0);
  // Each boundary between levels, farthest first.
  bool near = false, first = true;
  for (size_t k = 1; k < machine.levels.size(); ++k) {
    const MemoryLevel &from = machine.levels[k - 1], &to = machine.levels[k];
    double amount = loaded + stored;
    if (first && to.role == "cache") amount = stored + through_cache(m, to, c, p.occupancy.slots, loaded);
    first = false;
    if (near && to.role == "cache") continue;  // of tiles and values: which of them it holds is up to it
    if (to.role == "registers") amount = inner;
    const std::string source = near && to.role == "registers" ? machine.level("shared")->name : from.name;
    sheet.add(fmt::format("{} -> {}", source, to.name), amount, "bytes",
              k == 1 && to.copies ? to.copies : to.bandwidth, fmt::format("levels.{}.bandwidth", to.name),
              Kind::Transfer);
    near = near || to.role == "shared";
  }
  std::map<DType, double> matrix;
  double special = 0, vector = 0;
  for (const Operation& op : m.operations) {
    const double n = c.value(op.each).value_or(0) * c.times(op.kernel, op.loop, op.plain, op.masked);
    if (op.unit == Unit::Matrix) p.operations += 2 * n;
    const bool on_matrix = uses_matrix_unit(machine, op);
    (op.unit == Unit::Special ? special
     : on_matrix              ? matrix[op.dtype]
                              : vector) += on_matrix ? matrix_products(op.dtype) * n : n;
    if (on_matrix && op.dtype == DType::f32) vector += instructions_of_parts * n;
  }
  for (const auto& [dtype, n] : matrix) {
    const MatrixUnit& unit = machine.matrix.at(dtype);
    sheet.add(fmt::format("matrix {}", name(dtype)), n, "multiply-adds",
              unit.sustained ? unit.sustained : unit.rate, fmt::format("rates.matrix.{}", name(dtype)),
              Kind::Compute, 0.5);
  }
  if (special > 0)
    sheet.add("exponentials", special, "results", machine.special, "rates.special", Kind::Compute);
  if (vector > 0)
    sheet.add("vector units", vector, "instructions", machine.fma_f32, "rates.fma_f32", Kind::Compute, 0.5);
  sheet.add(
      "launches", double(m.tiles->kernels.size()), "kernels",
      machine.launch ? MaybeFigure(Figure{1 / machine.launch->value, machine.launch->source}) : MaybeFigure(),
      "transfers.launch", Kind::Launch);

  double transfers = 0, longest = 0;
  std::string computing_by;
  for (const ResourceTime& r : p.resources) {
    if (r.kind == Kind::Transfer) transfers = std::max(transfers, r.seconds);
    if (r.kind == Kind::Compute && r.seconds > longest) longest = r.seconds, computing_by = r.name;
    if (r.kind != Kind::Launch && r.seconds > p.overlapped) p.overlapped = r.seconds, p.bound_by = r.name;
  }
  const double compute = sheet.sum(Kind::Compute), launches = sheet.sum(Kind::Launch);
  // Each group of a core takes its own units one after another, and while it uses one the other groups use the others.
  // No more blocks share a core than there are.
  const double cores = machine.cores->value;
  const int64_t resident =
      std::min<int64_t>(p.occupancy.blocks_per_core,
                        std::max<int64_t>(1, int64_t(std::ceil(double(p.occupancy.blocks) / cores))));
  p.groups = resident * std::max(1, m.tiles->plan.computers);
  const double one_after_another = compute / double(p.groups);
  double working = std::max(longest, one_after_another);
  if (p.groups > 1 && working > 0)
    working = std::min(
        compute,
        std::pow(std::pow(longest, sharpness) + std::pow(one_after_another, sharpness), 1 / sharpness));
  const bool turns = one_after_another > longest;

  // A ring of s slots brings s chunks in the time of a load and of one chunk's use; meanwhile the core's other blocks work. What a block cannot hide so it waits for.
  double chunks = 0;
  for (const Visits& v : m.visits) chunks += c.times(v.kernel, v.loop);
  double waits = 0;
  const bool priced = working > 0 || transfers > 0;
  if (chunks > 0 && priced) {
    const double slots = std::min(std::max<double>(1, double(p.occupancy.blocks)), cores * double(resident)),
                 of_slot = chunks / slots, chunk = working / of_slot,
                 ring = (seconds_of_load + chunk / double(resident)) / double(m.tiles->plan.stages);
    waits = of_slot * (std::max(0.0, ring - chunk) + seconds_of_turn);
    sheet.wait("loads that come late, and signals", chunks, "chunks", waits);
  }
  const double rounds = double(p.occupancy.blocks) / (cores * double(resident));
  const double ends =
      p.occupancy.blocks > 0 && priced ? seconds_of_block * std::max(1.0, rounds / double(resident)) : 0;
  sheet.wait("blocks that begin and end", double(p.occupancy.blocks), "blocks", ends);

  p.predicted = std::max(p.overlapped, working + waits) + ends + launches;
  if (working + waits > p.overlapped)
    p.bound_by = waits > working ? "loads that come late, and signals"
                 : turns         ? "computing, one unit after another"
                                 : computing_by;
  p.serial = std::max(transfers, compute) + sheet.sum(Kind::Wait) + launches;
  p.overlapped += launches;
}

}  // namespace tilewright::pricing
