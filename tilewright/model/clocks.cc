#include <algorithm>

#include "tilewright/model/predict.h"
#include "tilewright/tile/statements.h"

namespace tilewright {
namespace {

/// Rows of a block: of the axis that the loop's reductions keep, else of the first that is cut into blocks.
int64_t rows_of(const Model& m, const TileKernel& k, const Loop& loop, const Integers& values) {
  std::vector<Sym> axes;
  for_each_stmt(loop.body, [&](const Stmt& s) {
    if (auto* x = std::get_if<Reduce>(&s.node); x && axes.empty()) axes = k.tile(x->tile).axes;
  });
  if (axes.empty())
    for (const KernelAxis& a : k.grid) axes.push_back(a.index);
  int64_t rows = 1;
  for (Sym a : axes)
    if (auto it = m.symbols.block.find(a); it != m.symbols.block.end() && a != loop.axis && rows == 1)
      rows = values.at(it->second);
  return rows;
}

}  // namespace

std::optional<ClockBudget> clock_budget(const Model& m, const MachineFile& machine, const Integers& values) {
  const Loop* loop = nullptr;
  for (const Visits& v : m.visits)
    if (!loop && v.kernel == 0) loop = v.loop;
  if (!loop || !machine.clock) return std::nullopt;
  ClockBudget b;
  const double cores = machine.cores->value, per_core = 1 / (cores * machine.clock->value);
  const TileKernel& k = m.tiles->kernels[0];
  b.rows = rows_of(m, k, *loop, values);
  if (const auto bytes = value_of(loaded_in_chunk(*m.tiles, k, *loop, m.symbols), values);
      bytes && *bytes > 0) {
    ClockLine line{"operands of a chunk, bytes", "load", *bytes, 0};
    const MemoryLevel* shared = machine.level("shared");
    if (shared && shared->bandwidth) line.clocks = *bytes / (shared->bandwidth->value * per_core);
    b.load = line.clocks;
    b.lines.push_back(line);
  }
  for (const Operation& op : m.operations) {
    if (op.loop != loop || !op.plain) continue;
    ClockLine line{op.what, name(op.unit), value_of(op.each, values).value_or(0), 0};
    const bool on_matrix = uses_matrix_unit(machine, op) && machine.matrix.at(op.dtype).rate;
    double rate = 0;  // of one core and clock
    if (on_matrix)
      rate = machine.matrix.at(op.dtype).rate->value / 2 * per_core / matrix_products(op.dtype);
    else if (op.unit == Unit::Special)
      rate = machine.special_per_clock ? machine.special_per_clock->value
             : machine.special         ? machine.special->value * per_core
                                       : 0;
    else
      rate = machine.fma_per_clock ? machine.fma_per_clock->value
             : machine.fma_f32     ? machine.fma_f32->value / 2 * per_core
                                   : 0;
    if (op.unit == Unit::Matrix) b.products += 2 * line.count;
    if (op.unit == Unit::Matrix && !on_matrix) line.role = name(Unit::Vector);
    if (rate > 0) line.clocks = line.count / rate;
    (on_matrix ? b.matrix : op.unit == Unit::Special ? b.special : b.vector) += line.clocks;
    b.lines.push_back(line);
  }
  if (b.matrix > 0) b.matrix_bound = b.products / b.matrix * cores * machine.clock->value;
  return b;
}

double fitting(double capacity, double shared, double each) { return (capacity - shared) / each; }
double utilisation(double unit, double other) { return unit / (unit + other); }

}  // namespace tilewright
