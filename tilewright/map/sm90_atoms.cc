// Atoms of sm_90a. Costs are issue cycles of the unit on one multiprocessor: a tensor core row of m64nNk16 retires in N/2 cycles (PTX ISA and the
// published dense rate of 4096 f16 operations a cycle); copies and stores of 16 bytes a thread move 128 bytes a cycle through shared memory.
#include <fmt/format.h>

#include "tilewright/map/atom.h"

namespace tilewright {
namespace {

std::vector<Atom> make_sm90_table() {
  std::vector<Atom> table;
  using Kind = Atom::Kind;
  // d[64, n] += a[64, 16] · b[16, n]. Both operands from shared memory, or a from registers ("rs").
  for (DType t : {DType::f16, DType::bf16}) {
    for (int n = 8; n <= 256; n += 8) {
      for (bool registers : {false, true}) {
        Atom a;
        a.name = fmt::format("wgmma.m64n{}k16.{}{}", n, name(t), registers ? ".rs" : "");
        a.kind = Kind::Mma;
        a.dtype = t;
        a.completion = Completion::Group;
        a.reads_async_proxy = true;
        a.a_in_registers = registers;
        a.m = 64, a.n = n, a.k = 16;
        a.cost = n / 2.0;
        table.push_back(a);
      }
    }
  }
  // Products by FMA instructions of the threads: operands from registers or shared memory, f32 accumulation.
  table.push_back({.name = "fma.thread",
                   .kind = Kind::Mma,
                   .dtype = DType::f32,
                   .m = 1,
                   .n = 1,
                   .k = 1,
                   .cost = 1.0 / 128});
  // Memory -> shared by the bulk copy engine, through a tensor map; counts bytes on a channel.
  table.push_back({.name = "copy.bulk", .kind = Kind::Copy, .completion = Completion::Channel, .cost = 1});
  table.push_back(
      {.name = "copy.plain", .kind = Kind::Copy, .cost = 1});  // one element a thread and instruction
  table.push_back(
      {.name = "copy.vector", .kind = Kind::Copy, .cost = 1});  // 16 bytes a thread and instruction
  table.push_back({.name = "store.plain", .kind = Kind::Store, .cost = 1});
  table.push_back({.name = "store.vector", .kind = Kind::Store, .cost = 1});
  table.push_back({.name = "store.quad", .kind = Kind::Store, .cost = 1});
  // Shared -> memory by the bulk copy engine, through a tensor map; reads shared memory through the asynchronous proxy.
  table.push_back({.name = "store.bulk",
                   .kind = Kind::Store,
                   .completion = Completion::Bulk,
                   .reads_async_proxy = true,
                   .cost = 1});
  // ex2.approx.ftz.f32: two units in the last place over the full range (PTX ISA).
  table.push_back({.name = "exp2.approx", .kind = Kind::Exp2, .cost = 1.0 / 16, .max_error = 2});
  table.push_back({.name = "shuffle.xor", .kind = Kind::Shuffle, .cost = 1.0 / 32});
  return table;
}

}  // namespace

const std::vector<Atom>& sm90_atoms() {
  static const std::vector<Atom> table = make_sm90_table();
  return table;
}

}  // namespace tilewright
