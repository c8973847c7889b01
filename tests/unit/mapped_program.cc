#include <gtest/gtest.h>

#include <set>

#include "tests/support/golden.h"
#include "tests/support/mapped_samples.h"
#include "tilewright/expr/simplify.h"

namespace tilewright::testing::mapped_program_test {
namespace {

TEST(MappedProgram, LocalMemoryIsPackedByAlignment) {
  MappedSample s = pipeline_sample();
  MappedKernel& k = s.kernel();
  Sym Q = k.buffers[0].sym, K = k.buffers[1].sym, V = k.buffers[2].sym, out = k.buffers[3].sym;
  EXPECT_EQ(k.buffer(Q).slot_bytes(), 128 * 64 * 2);
  EXPECT_EQ(k.local_offset(Q), 0);
  EXPECT_EQ(k.local_offset(K), 16384);
  EXPECT_EQ(k.local_offset(V), 16384 + 2 * 8192);
  EXPECT_EQ(k.local_offset(out), 0) << "it shares the bytes of Q";
  EXPECT_EQ(k.signal_offset(0), 49152);
  EXPECT_EQ(k.signal_offset(2), 49152 + 16 * 3);
  EXPECT_EQ(k.local_bytes(), 49152 + 16 * 5);
  EXPECT_EQ(k.threads(), 384);
  // A small buffer declared first goes behind those of larger alignment.
  Buffer scratch{.sym = Sym::fresh({.name = "scratch", .kind = SymbolKind::Tile}),
                 .axes = {},
                 .space = Space::Local,
                 .layout = Layout::row_major({}),
                 .alignment = 4};
  k.buffers.insert(k.buffers.begin(), scratch);
  EXPECT_EQ(k.local_offset(Q), 0);
  EXPECT_EQ(k.local_offset(scratch.sym), 49152);
  EXPECT_EQ(k.signal_offset(0), 49168) << "signals are aligned to 16 bytes";
}

TEST(MappedProgram, UnknownNamesAreFaultsOfOurs) {
  MappedSample s = pipeline_sample();
  Sym nobody = Sym::fresh({.name = "nobody", .kind = SymbolKind::Tile});
  EXPECT_THROW(s.kernel().buffer(nobody), InternalError);
  EXPECT_THROW(s.kernel().local_offset(s.kernel().buffers[4].sym), InternalError)
      << "registers have no local bytes";
  EXPECT_THROW(memory_dims(s.program, s.mapped, nobody), InternalError);
}

TEST(MappedProgram, ElementOffsets) {
  auto size = [](const char* name) {
    return Sym::fresh({.name = name, .kind = SymbolKind::Size, .integer = true, .nonnegative = true});
  };
  auto index = [](const char* name, Sym n) {
    return Sym::fresh(
        {.name = name, .kind = SymbolKind::Index, .integer = true, .nonnegative = true, .size = &n.info()});
  };
  Sym nk = size("k"), ng = size("g"), ni = size("i");
  Sym k = index("k", nk), g = index("g", ng), i = index("i", ni), stride0 = size("s0"), stride1 = size("s1");
  // A composite dimension (k g) with stride s0 and a dimension i with stride s1.
  Expr offset = element_offset({{{k, g}}, {{i}}}, {Expr(k), Expr(g) + 1, Expr(i) - 2}, {stride0, stride1});
  EXPECT_TRUE(provably_equal(
      offset, (Expr(k) * Expr(ng) + Expr(g) + 1) * Expr(stride0) + (Expr(i) - 2) * Expr(stride1)));
  EXPECT_TRUE(element_offset({}, {}, {}).is_constant(0));
  EXPECT_THROW(element_offset({{{k, g}}}, {Expr(k)}, {stride0}), InternalError);
}

TEST(MappedProgram, MemoryDimensions) {
  MappedSample s = pipeline_sample();
  Sym w = Sym::fresh({.name = "W", .kind = SymbolKind::Tensor});
  s.mapped.workspaces.push_back({w, {s.program.axes[0].index, s.program.axes[2].index}, DType::f32});
  EXPECT_EQ(memory_dims(s.program, s.mapped, s.program.inputs[1].sym).size(), 2u);
  EXPECT_EQ(memory_dims(s.program, s.mapped, s.program.outputs[0].sym)[1].pieces[0], s.program.axes[3].index);
  EXPECT_EQ(memory_dims(s.program, s.mapped, w)[0].pieces, std::vector<Sym>{s.program.axes[0].index});
}

TEST(MappedProgram, Printed) {
  MappedSample pipeline = pipeline_sample(), plain = plain_sample(), task = task_sample();
  expect_golden("mapped/pipeline.txt", print(pipeline.program, pipeline.mapped));
  expect_golden("mapped/plain.txt", print(plain.program, plain.mapped));
  expect_golden("mapped/task.txt", print(task.program, task.mapped));
}

TEST(Atoms, NamesAreUniqueAndFound) {
  for (const auto* table : {&sm90_atoms(), &cpu_atoms()}) {
    std::set<std::string> names;
    for (const Atom& a : *table) {
      EXPECT_TRUE(names.insert(a.name).second) << a.name;
      ASSERT_TRUE(find_atom(a.name)) << a.name;
      EXPECT_GT(a.cost, 0) << a.name;
    }
  }
  const Atom* a = find_atom("wgmma.m64n80k16.bf16.rs");
  ASSERT_TRUE(a);
  EXPECT_EQ(a->n, 80);
  EXPECT_TRUE(a->a_in_registers);
  EXPECT_EQ(a->completion, Completion::Group);
  EXPECT_EQ(find_atom("wgmma.m64n84k16.f16"), nullptr);
  EXPECT_EQ(find_atom("fma.8x3")->completion, Completion::Synchronous);
}

}  // namespace
}  // namespace tilewright::testing::mapped_program_test
