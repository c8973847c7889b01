// Atoms of CPUs with vector units. Costs are cycles at two vector operations a cycle.
#include <fmt/format.h>

#include <map>

#include "tilewright/map/atom.h"

namespace tilewright {
namespace {

std::vector<Atom> make_cpu_table() {
  std::vector<Atom> table;
  using Kind = Atom::Kind;
  // An outer product: R scalars of one operand, broadcast from where they lie, times C vectors of lanes of the other; m = R rows, n = C vectors.
  for (int rows : {1, 2, 3, 4, 6, 8}) {
    for (int vectors = 1; vectors <= 4; ++vectors) {
      Atom a;
      a.name = fmt::format("fma.{}x{}", rows, vectors);
      a.kind = Kind::Mma;
      a.m = rows, a.n = vectors, a.k = 1;
      a.cost = rows * vectors / 2.0;
      table.push_back(a);
    }
  }
  // The same with pairs of bf16 (map/cpu/pairs.h). A dot product adds the second product of a pair, then the first, each sum rounded to f32; with n pairs the
  // result is off by at most 2n half units of the largest partial sum. Products are exact; numbers below 2^-126 count as 0, in operands and in sums.
  for (int rows : {1, 2, 4, 8}) {
    for (int vectors = 1; vectors <= 4; ++vectors) {
      Atom a;
      a.name = fmt::format("bf16_dot.{}x{}", rows, vectors);
      a.kind = Kind::Mma;
      a.dtype = DType::bf16;
      a.m = rows, a.n = vectors, a.k = 2;
      a.cost = rows * vectors;
      table.push_back(a);
    }
  }
  // Tile registers: 32 rows by the lanes of n vectors; each instruction sums the first and the second products of 16 pairs apart, then both, then adds that to
  // the accumulator. Rows, and summed elements behind the last 32, that are left over take dot products.
  for (int vectors = 1; vectors <= 4; ++vectors) {
    Atom a;
    a.name = fmt::format("bf16_tiles.32x{}", vectors);
    a.kind = Kind::Mma;
    a.dtype = DType::bf16;
    a.m = 32, a.n = vectors, a.k = 32;
    a.cost = 32 * vectors;
    table.push_back(a);
  }
  table.push_back({.name = "copy.plain", .kind = Kind::Copy, .cost = 1});
  table.push_back({.name = "copy.pack", .kind = Kind::Copy, .cost = 1});  // into panels of lanes
  table.push_back(
      {.name = "copy.convert", .kind = Kind::Copy, .cost = 1});  // changes the element type, keeps the order
  table.push_back({.name = "store.plain", .kind = Kind::Store, .cost = 1});
  table.push_back({.name = "store.transpose", .kind = Kind::Store, .cost = 1});  // lanes become the slow axis
  // Round, polynomial, scale by the exponent; errors in units of the last place of f32.
  table.push_back({.name = "exp2.degree6", .kind = Kind::Exp2, .cost = 4.5, .max_error = 0.7});
  table.push_back({.name = "exp2.degree5", .kind = Kind::Exp2, .cost = 4.0, .max_error = 1.8});
  table.push_back({.name = "exp2.degree3", .kind = Kind::Exp2, .cost = 3.0, .max_error = 630});
  return table;
}

}  // namespace

const std::vector<Atom>& cpu_atoms() {
  static const std::vector<Atom> table = make_cpu_table();
  return table;
}

const Atom* find_atom(const std::string& name) {
  static const std::map<std::string, const Atom*> index = [] {
    std::map<std::string, const Atom*>
        result;  // plain copies and stores stand in several tables and mean the same
    for (const auto* table : {&sm90_atoms(), &sm80_atoms(), &cpu_atoms()})
      for (const Atom& a : *table) result.emplace(a.name, &a);
    return result;
  }();
  auto it = index.find(name);
  return it == index.end() ? nullptr : it->second;
}

}  // namespace tilewright
