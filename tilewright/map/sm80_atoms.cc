// Atoms of sm_80 and later: products by single warps, copies in groups. Costs are issue cycles on one multiprocessor: a product of 16 × 8 × 16 takes two of A100
// (PTX ISA; the published dense rate of 2048 f16 operations a cycle); a copy of 16 bytes a thread moves 128 bytes a cycle into shared memory.
#include <fmt/format.h>

#include "tilewright/map/atom.h"

namespace tilewright {
namespace {

std::vector<Atom> make_sm80_table() {
  std::vector<Atom> table;
  using Kind = Atom::Kind;
  // d[16, 8] += a[16, 16] · b[16, 8] in the registers of a warp; operands in shared memory are read by ldmatrix, four blocks of 8 × 8 at a time.
  for (DType t : {DType::f16, DType::bf16}) {
    Atom a;
    a.name = fmt::format("mma.m16n8k16.{}", name(t));
    a.kind = Kind::Mma;
    a.dtype = t;
    a.by_warp = true;
    a.a_in_registers = true;
    a.m = 16, a.n = 8, a.k = 16;
    a.cost = 2;
    table.push_back(a);
  }
  // d[16, 8] += a[16, 8] · b[8, 8] of f32 operands, each as a sum of two TF32 numbers: three products of m16n8k8, a quarter of the rate of f16 each.
  table.push_back({.name = "mma.m16n8k8.tf32x3",
                   .kind = Kind::Mma,
                   .dtype = DType::f32,
                   .by_warp = true,
                   .a_in_registers = true,
                   .in_parts = true,
                   .m = 16,
                   .n = 8,
                   .k = 8,
                   .cost = 6});
  table.push_back({.name = "fma.thread",
                   .kind = Kind::Mma,
                   .dtype = DType::f32,
                   .m = 1,
                   .n = 1,
                   .k = 1,
                   .cost = 1.0 / 64});
  // Memory -> shared past the registers (cp.async), 16 bytes a thread; what lies outside the array is filled with zeros.
  table.push_back({.name = "copy.async", .kind = Kind::Copy, .completion = Completion::Group, .cost = 1});
  table.push_back({.name = "copy.plain", .kind = Kind::Copy, .cost = 1});
  table.push_back({.name = "copy.vector", .kind = Kind::Copy, .cost = 1});
  table.push_back({.name = "store.plain", .kind = Kind::Store, .cost = 1});
  table.push_back({.name = "store.vector", .kind = Kind::Store, .cost = 1});
  table.push_back({.name = "exp2.approx", .kind = Kind::Exp2, .cost = 1.0 / 16, .max_error = 2});
  table.push_back({.name = "shuffle.xor", .kind = Kind::Shuffle, .cost = 1.0 / 32});
  return table;
}

}  // namespace

const std::vector<Atom>& sm80_atoms() {
  static const std::vector<Atom> table = make_sm80_table();
  return table;
}

}  // namespace tilewright
