#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "tilewright/model/laurent.h"
#include "tilewright/model/predict.h"
#include "tilewright/tile/statements.h"

namespace tilewright {

std::vector<Divisor> divisors(const Model& m, const MachineFile& machine) {
  std::vector<Divisor> all;
  auto need = [&](Sym axis, int64_t n, const std::string& why) {
    auto it = m.symbols.block.find(axis);
    if (it == m.symbols.block.end()) return;
    const bool known = std::any_of(all.begin(), all.end(), [&](const Divisor& d) {
      return d.tile == it->second && d.of == n && d.why == why;
    });
    if (!known) all.push_back({it->second, n, why});
  };
  for (const TileKernel& k : m.tiles->kernels)
    for_each_stmt(k.body, [&](const Stmt& s) {
      if (auto* dot = std::get_if<Dot>(&s.node)) {
        const Tile &a = k.tile(dot->a), &b = k.tile(dot->b);
        const DType dtype = bytes(a.dtype) >= bytes(b.dtype) ? a.dtype : b.dtype;
        const std::string in = "in " + dot->tile.name();
        if (!machine.gpu) {
          if (machine.vector_bytes)  // lanes along an axis that only one operand has
            for (Sym axis : k.tile(dot->tile).axes)
              if (contains_axis(a.axes, axis))
                need(axis, std::max<int64_t>(1, int64_t(machine.vector_bytes->value) / 4),
                     "lanes of a vector " + in);
          return;
        }
        auto unit = machine.matrix.find(dtype);
        if (unit == machine.matrix.end() || dtype == DType::f32) return;
        for (Sym axis : k.tile(dot->tile).axes) {
          if (contains_axis(a.axes, axis) && !contains_axis(b.axes, axis))
            need(axis, unit->second.shape[0], "rows of the matrix unit " + in);
          if (contains_axis(b.axes, axis) && !contains_axis(a.axes, axis))
            need(axis, unit->second.shape[1], "columns of the matrix unit " + in);
        }
        for (Sym axis : dot->axes) need(axis, unit->second.shape[2], "depth of the matrix unit " + in);
      } else if (auto* load = std::get_if<Load>(&s.node)) {
        const Input* input = m.program->input(load->tensor);
        if (!input || !machine.line_bytes || input->dims.empty() || load->index.empty()) return;
        const Expr last = load->index.back();
        if (last.is(Op::Symbol))
          need(last->sym, std::max<int64_t>(1, int64_t(machine.line_bytes->value) / bytes(input->dtype)),
               fmt::format("a line of {:.0f} bytes of {}", machine.line_bytes->value, load->tensor.name()));
      }
    });
  return all;
}

std::map<Sym, int64_t> multiples(const Model& m, const MachineFile& machine) {
  std::map<Sym, int64_t> all;
  for (const auto& [axis, sym] : m.symbols.block) all[sym] = 1;
  for (const Divisor& d : divisors(m, machine)) all[d.tile] = std::lcm(all[d.tile], d.of);
  return all;
}

namespace {

/// The search counts what is visited and how blocks divide by averages. Where every size is known the exact formulas decide between neighbours: one tile a unit shorter
/// or longer, halved or doubled, as long as that moves less.
void refine(const Model& m, const MachineFile& machine, const Integers& values, IntegerTiles& best) {
  const Expr shared = machine.gpu ? m.exact.peak_shared : m.held;
  const MemoryLevel *s = machine.level("shared"), *r = machine.level("registers");
  const double room = s->per_block ? s->per_block->value : s->capacity->value;
  const double file = machine.gpu && r && r->capacity ? r->capacity->value : 0;
  const auto with = [&](const std::map<Sym, int64_t>& tiles) {
    Integers v = values;
    for (const auto& [sym, n] : tiles) v[sym] = n;
    for (const auto& [axis, piece] : m.symbols.piece) {
      const Sym block = m.symbols.block.at(axis);
      v[piece] = std::max<int64_t>(1, values.at(piece) * v.at(block) / values.at(block));
    }
    return v;
  };
  const auto moved = [&](const Integers& v) -> std::optional<double> {
    const auto loaded = value_of(m.exact.memory.loaded, v), stored = value_of(m.exact.memory.stored, v);
    if (!loaded || !stored) return std::nullopt;
    return *loaded + *stored;
  };
  auto least = moved(with(best.tiles));
  if (!least) return;
  for (bool better = true; better;) {
    better = false;
    const std::map<Sym, int64_t> from = best.tiles;
    for (const auto& [sym, n] : from) {
      const int64_t unit = best.multiple.at(sym);
      for (int64_t other : {n - unit, n + unit, n / 2 / unit * unit, 2 * n}) {
        if (other < unit || other == n) continue;
        std::map<Sym, int64_t> tiles = from;
        tiles[sym] = other;
        const Integers v = with(tiles);
        if (value_of(shared, v).value_or(room + 1) > room) continue;
        if (file > 0 && value_of(m.exact.peak_registers, v).value_or(file + 1) > file) continue;
        const auto here = moved(v);
        ++best.tried;
        if (!here || *here >= *least * (1 - 1e-9)) continue;
        least = here;
        best.tiles = tiles;
        better = true;
      }
    }
  }
  const Integers v = with(best.tiles);
  best.transfers = *least;
  best.shared = value_of(shared, v).value_or(best.shared);
  best.registers = value_of(m.exact.peak_registers, v).value_or(best.registers);
}

}  // namespace

std::optional<IntegerTiles> best_tiles(const Model& m, const MachineFile& machine, const Integers& values) {
  const auto h = laurent(m.smooth.memory.loaded + m.smooth.memory.stored);
  // A CPU keeps all tiles in its cache; its registers hold the micro-kernel's values alone.
  const auto shared = maximands(machine.gpu ? m.exact.peak_shared : m.held),
             registers = maximands(m.exact.peak_registers);
  if (!h || !shared || !registers) return std::nullopt;
  const MemoryLevel *s = machine.level("shared"), *r = machine.level("registers");
  const double room = s ? (s->per_block ? s->per_block->value : s->capacity ? s->capacity->value : 0) : 0;
  const double file = machine.gpu && r && r->capacity ? r->capacity->value : 0;
  if (room <= 0) return std::nullopt;
  IntegerTiles best;
  best.multiple = multiples(m, machine);
  std::vector<Sym> tiles;
  std::map<Sym, Expr> size;
  std::set<Sym> streams;
  for (const TileKernel& k : m.tiles->kernels)
    for (const auto* list : {&k.grid, &k.inner})
      for (const KernelAxis& a : *list) {
        auto it = m.symbols.block.find(a.index);
        if (it == m.symbols.block.end() || a.kind == KernelAxis::Kind::Resident) continue;
        if (std::find(tiles.begin(), tiles.end(), it->second) == tiles.end()) tiles.push_back(it->second);
        size[it->second] = a.index.size();
        if (a.kind == KernelAxis::Kind::Stream) streams.insert(it->second);
      }
  if (tiles.empty() || tiles.size() > 4) return std::nullopt;
  Bindings b;
  for (const auto& [sym, n] : values) b[sym] = double(n);
  for (const auto& [loop, share] : m.symbols.visited) b[share] = 1;
  for (const Laurent* l : {&*h})
    for (const auto& [powers, coefficient] : l->terms)
      for (const auto& [sym, power] : powers)
        if (!b.count(sym)) b[sym] = 4096;  // a size that is not known: long
  // Pieces keep their number.
  std::vector<std::pair<Sym, std::pair<Sym, double>>> pieces;
  for (const auto& [axis, piece] : m.symbols.piece) {
    const Sym block = m.symbols.block.at(axis);
    pieces.push_back(
        {piece, {block, double(m.symbols.values.at(piece)) / double(m.symbols.values.at(block))}});
  }
  std::vector<std::vector<int64_t>> candidates;
  for (Sym g : tiles) {
    std::vector<int64_t> c;
    const int64_t unit = best.multiple.at(g);
    const double most = streams.count(g) ? 512 : 4096;
    const double length = size.count(g) && b.count(size.at(g)->sym) ? b.at(size.at(g)->sym) : 1e18;
    for (int64_t n = unit; double(n) <= most; n += n < 16 * unit ? unit : n) {
      c.push_back(n);
      if (double(n) >= length) break;
    }
    if (c.empty()) c.push_back(unit);
    candidates.push_back(c);
  }
  auto largest = [&](const std::vector<Laurent>& columns) {
    double most = 0;
    for (const Laurent& l : columns) most = std::max(most, l.value(b));
    return most;
  };
  double least = __builtin_inf(), most_of_chunk = 0;
  std::vector<size_t> at(tiles.size(), 0);
  for (bool more = true; more;) {
    ++best.tried;
    double chunk = 1;
    for (size_t k = 0; k < tiles.size(); ++k) {
      b[tiles[k]] = double(candidates[k][at[k]]);
      if (streams.count(tiles[k])) chunk *= b[tiles[k]];
    }
    for (const auto& [piece, of] : pieces) b[piece] = b.at(of.first) * of.second;
    const double needed = largest(*shared), held = largest(*registers);
    if (needed <= room && (file <= 0 || held <= file)) {
      // The last block of an axis is as long as the others: ceil(n/g) blocks.
      Bindings ragged = b;
      for (Sym g : tiles) {
        if (streams.count(g)) continue;
        const double n = evaluate(size.at(g), b);
        ragged[g] = n / std::ceil(n / b.at(g));
      }
      const double moved = h->value(ragged);
      if (moved < least * (1 - 1e-9) || (moved <= least * (1 + 1e-9) && chunk > most_of_chunk)) {
        least = std::min(moved, least);
        most_of_chunk = chunk;
        for (Sym g : tiles) best.tiles[g] = int64_t(b.at(g));
        best.transfers = moved;
        best.shared = needed;
        best.registers = held;
      }
    }
    size_t k = 0;
    while (k < tiles.size() && ++at[k] == candidates[k].size()) at[k++] = 0;
    more = k < tiles.size();
  }
  if (best.tiles.empty()) return std::nullopt;
  refine(m, machine, values, best);
  return best;
}

}  // namespace tilewright
