// Mapping for CPUs: lanes, layouts, views, products, and the values of the mapped program in its interpreter.
#include "tilewright/map/cpu/lanes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "tests/support/compiled.h"
#include "tests/support/tile_samples.h"
#include "tilewright/map/interpreter.h"
#include "tilewright/support/error.h"
#include "tilewright/tile/statements.h"

namespace tilewright::testing::map_cpu_test {
namespace {

Machine vectors(int bytes, int registers) {
  Machine m;
  m.name = "cpu-test";
  m.shared_bytes = 4 << 20;
  m.vector = {.bytes = bytes, .registers = registers, .isa = "test", .flags = ""};
  return m;
}

AttentionOptions f32_attention(bool causal, int64_t block = 48, int64_t features = 32) {
  return {.causal = causal,
          .dtype = DType::f32,
          .block = block,
          .piece = block,
          .chunk = 64,
          .features = features};
}

MappedProgram mapped(const TileSample& s, const Machine& m = vectors(32, 16)) {
  return map_cpu(s.program, s.tiles, m, LayoutClass::General);
}

const Buffer& buffer(const MappedKernel& k, const std::string& name) {
  for (const Buffer& b : k.buffers)
    if (b.sym.name() == name) return b;
  throw std::runtime_error("no buffer " + name);
}

void each_op(const Ops& ops, const std::function<void(const MappedOp&)>& f) {
  for (const MappedOp& o : ops) {
    f(o);
    if (auto* x = std::get_if<MappedLoop>(&o.node)) each_op(x->body, f);
    if (auto* x = std::get_if<Vote>(&o.node)) {
      each_op(x->then, f);
      each_op(x->otherwise, f);
    }
  }
}

template <class T>
std::vector<T> all(const MappedKernel& k) {
  std::vector<T> found;
  each_op(k.roles.at(0).body, [&](const MappedOp& o) {
    if (auto* x = std::get_if<T>(&o.node)) found.push_back(*x);
  });
  return found;
}

TEST(MapCpu, RegistersDecideTheMicroKernel) {
  EXPECT_EQ(cpu::vectors_of_panel(48, 8, 16), 3);
  EXPECT_EQ(cpu::rows_of_product(3, 16), 4);
  EXPECT_EQ(cpu::vectors_of_panel(96, 16, 32), 3);
  EXPECT_EQ(cpu::rows_of_product(3, 32), 8);
  EXPECT_EQ(cpu::vectors_of_panel(8, 8, 16), 1) << "one vector needs no more";
  EXPECT_LE(cpu::rows_of_product(1, 16) + 2, 16);
}

TEST(MapCpu, GroupOperandsLieInPanelsAndStreamedOnesWhereTheyAre) {
  const MappedProgram m = mapped(attention_sample(f32_attention(false)));
  const MappedKernel& k = m.kernels.at(0);
  const Buffer& q = buffer(k, "Q");
  EXPECT_EQ(q.space, Space::Local);
  EXPECT_EQ(q.layout.place({25, 3}).offset, 24 * 32 + 3 * 24 + 1) << "panel 1, row d = 3, lane 1";
  EXPECT_EQ(buffer(k, "K").space, Space::Memory);
  EXPECT_EQ(buffer(k, "V").space, Space::Memory);
  const auto products = all<Mma>(k);
  ASSERT_EQ(products.size(), 2u);
  for (const Mma& p : products) EXPECT_EQ(p.atom, "fma.4x3");
  EXPECT_EQ(all<MappedLoop>(k).size(), 1u) << "clipped extents make plain and ragged chunks one loop";
}

TEST(MapCpu, OtherElementTypesAreConvertedByTheChunk) {
  AttentionOptions o = f32_attention(false);
  o.dtype = DType::bf16;
  const MappedProgram m = mapped(attention_sample(o));
  const MappedKernel& k = m.kernels.at(0);
  EXPECT_EQ(buffer(k, "K").space, Space::Local);
  EXPECT_EQ(buffer(k, "K").dtype, DType::f32);
  std::map<std::string, std::string> atoms;
  for (const Copy& c : all<Copy>(k)) atoms[c.buffer.name()] = c.atom;
  EXPECT_EQ(atoms["Q"], "copy.pack");
  EXPECT_EQ(atoms["K"], "copy.convert");
}

TEST(MapCpu, FactorsLieInPairsForUnitsThatMultiplyThem) {
  AttentionOptions o = f32_attention(false);
  o.dtype = DType::bf16;
  Machine machine = vectors(32, 16);
  machine.vector.bf16 = Bf16Unit::Dot;
  const MappedProgram m = mapped(attention_sample(o), machine);
  const MappedKernel& k = m.kernels.at(0);
  const Buffer &q = buffer(k, "Q"), &p = buffer(k, "P"), &v = buffer(k, "V");
  EXPECT_EQ(q.dtype, DType::bf16);
  EXPECT_EQ(q.layout.place({25, 3}).offset, 24 * 32 + 1 * 48 + 1 * 2 + 1)
      << "panel 1, pair 1 of d, lane 1, second of its pair";
  EXPECT_EQ(p.layout.place({0, 7}).offset, 3 * 48 + 1);
  EXPECT_EQ(buffer(k, "K").space, Space::Memory) << "contiguous along what is summed";
  EXPECT_EQ(v.space, Space::Local);
  EXPECT_EQ(v.layout.place({5, 1}).offset - v.layout.place({4, 1}).offset, 1) << "j is innermost";
  for (const Mma& x : all<Mma>(k)) EXPECT_EQ(x.atom, "bf16_dot.4x3");
  machine.vector.bf16 = Bf16Unit::Tiles;
  for (const Mma& x : all<Mma>(mapped(attention_sample(o), machine).kernels.at(0)))
    EXPECT_EQ(x.atom, "bf16_tiles.32x4");
  o.dtype = DType::f16;
  for (const Mma& x : all<Mma>(mapped(attention_sample(o), machine).kernels.at(0)))
    EXPECT_EQ(find_atom(x.atom)->dtype, DType::f32);
}

TEST(MapCpu, MasksKeepPlainChunksApartAndGuardProducts) {
  const MappedProgram m = mapped(attention_sample(f32_attention(true)));
  const MappedKernel& k = m.kernels.at(0);
  EXPECT_EQ(all<MappedLoop>(k).size(), 2u);
  const auto votes = all<Vote>(k);
  ASSERT_EQ(votes.size(), 1u);
  ASSERT_EQ(votes[0].then.size(), 2u);
  EXPECT_TRUE(std::holds_alternative<MapOp>(votes[0].then[0].node)) << "what is accumulated onto is repaired";
  EXPECT_TRUE(std::holds_alternative<ReduceOp>(votes[0].then[1].node))
      << "selects where something could leak";
  ASSERT_EQ(votes[0].otherwise.size(), 2u);
  EXPECT_TRUE(std::holds_alternative<MapOp>(votes[0].otherwise[0].node));
  EXPECT_TRUE(std::holds_alternative<Mma>(votes[0].otherwise[1].node));
  // An emitted weight is 0 or NaN where it is absent, so that the second test looks for NaN alone.
  bool tests_nan = false;
  for (const ReduceOp& r : all<ReduceOp>(k))
    tests_nan =
        tests_nan || (r.reducer == Reducer::Any && r.value.is(Op::Ne) && r.value.arg(0) == r.value.arg(1));
  EXPECT_TRUE(tests_nan);
}

TEST(MapCpu, MaskedChunksEndWhereNoRowSeesMore) {
  TileSample s = attention_sample(f32_attention(true));
  for_each_stmt(s.tiles.kernels.at(0).body, [&](Stmt& stmt) {
    if (Loop* loop = std::get_if<Loop>(&stmt.node))
      for (Segment& g : loop->segments)
        if (g.masked) g.stop = 77;
  });
  std::vector<std::string> extents;
  for (const Define& d : all<Define>(mapped(s).kernels.at(0)))
    if (d.var.name() == "nj") extents.push_back(to_string(d.value));
  ASSERT_EQ(extents.size(), 2u);
  EXPECT_EQ(extents[0].find("77"), std::string::npos) << extents[0];
  EXPECT_NE(extents[1].find("77"), std::string::npos) << extents[1];
}

TEST(MapCpu, ProductsBringNearWhatIsReadNext) {
  const MappedProgram m = mapped(attention_sample(f32_attention(false)));
  const auto products = all<Mma>(m.kernels.at(0));
  ASSERT_EQ(products.size(), 2u);
  EXPECT_EQ(products[0].next.name(), "V");
  EXPECT_EQ(products[1].next.name(), "K");
  for (const AxisFrame& f : products[1].next_frame) {
    if (f.axis.name() == "j") {
      EXPECT_FALSE(f.origin.is(Op::Symbol)) << "the next chunk: " << to_string(f.origin);
    }
  }
}

TEST(MapCpu, ShortGroupsLeaveLanesToTheRow) {
  const TileSample s = resident_softmax_sample();
  const cpu::Lanes lanes = cpu::choose_lanes(s.tiles.kernels.at(0), vectors(32, 16));
  EXPECT_FALSE(lanes.panel_axis);
  for (const Tile& t : s.tiles.kernels.at(0).tiles) {
    if (!t.axes.empty()) {
      EXPECT_EQ(lanes.fastest.at(t.sym).name(), "j");
    }
  }
}

TEST(MapCpu, ProductsWithLongSumsInsideOfAStreamHaveTheirLanesAlongIt) {
  const std::string text =
      "axis t, v\naxis c = 1000\ninput x[t, c] : f32\ninput W[c, v] : f32\n"
      "l[t] = logsumexp[v](sum[c](x * W))\noutput l\n";
  const Compiled c = compile(text, "group t=40; stream v=48", Target::Cpu);
  const MappedProgram m = map_cpu(c.program, c.tiles, vectors(32, 16), LayoutClass::General);
  const MappedKernel& k = m.kernels.at(0);
  EXPECT_EQ(buffer(k, "x").space, Space::Memory) << "rows are read where they lie, not packed for each chunk";
  const Buffer& w = buffer(k, "W");
  EXPECT_EQ(w.layout.place({1, 25}).offset, 256 * 24 + 24 + 1) << "panel 1, row c = 1, lane 1";
  const auto products = all<Mma>(k);
  ASSERT_EQ(products.size(), 1u);
  EXPECT_EQ(products[0].a, w.sym);
}

TEST(MapCpu, AMapThatOneReductionTakesHasNoTileInAnySegment) {
  const std::string text =
      "axis t, v\naxis c = 1000\ninput x[t, c] : f32\ninput W[c, v] : f32\ninput n[t] : i32 range(0, "
      "size(v))\n"
      "z[t, v] = sum[c](x * W)\nl[t] = logsumexp[v](z) - sum[v](where(v == n, z, 0))\noutput l\n";
  const Compiled c = compile(text, "group t=40; stream v=48", Target::Cpu);
  const MappedProgram m = map_cpu(c.program, c.tiles, vectors(32, 16), LayoutClass::General);
  int tiles = 0;
  for (const Buffer& b : m.kernels.at(0).buffers)
    tiles += b.space == Space::Local && b.axes.size() == 2 && b.sym.name() != "W";
  EXPECT_EQ(tiles, 1) << "scores, and no exponentials beside them";
}

TEST(MapCpu, AProductOfOneRowStandsInFrontOfTheOneThatTakesItAlong) {
  const MappedProgram m = mapped(layernorm_matmul_sample(DType::f32));
  const MappedOp* before = nullptr;
  bool beside = false;
  each_op(m.kernels.at(0).roles.at(0).body, [&](const MappedOp& o) {
    const auto *one = before ? std::get_if<Mma>(&before->node) : nullptr, *many = std::get_if<Mma>(&o.node);
    beside = beside || (one && many && one->a == many->a && m.kernels.at(0).buffer(one->d).axes.size() == 1);
    before = &o;
  });
  EXPECT_TRUE(beside);
}

TEST(MapCpu, PlansThatDoNotFitAreRefused) {
  Machine small = vectors(32, 16);
  small.shared_bytes = 16 << 10;
  try {
    mapped(attention_sample(f32_attention(false, 96, 128)), small);
    FAIL() << "48 KiB of Q in 16 KiB";
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find("a task has 16 KiB"), std::string::npos) << e.what();
  }
}

/// Runs tile program and mapped program in their interpreters.
void same_values(const TileSample& s, const std::map<std::string, int64_t>& given, const Machine& m) {
  Sizes sizes;
  for (const Axis& a : s.program.axes)
    sizes[a.index.size()] = a.baked() ? a.size.rational()->num() : given.at(a.name());
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  std::map<std::string, std::vector<char>> bytes_of;
  std::map<std::string, ArrayView> inputs;
  for (const Input& in : s.program.inputs) {
    const auto shape = shape_of(in.dims, sizes);
    int64_t n = 1;
    for (int64_t x : shape) n *= x;
    auto& data = bytes_of[in.sym.name()];
    data.resize(size_t(n * bytes(in.dtype)));
    for (int64_t e = 0; e < n; ++e) store_element(in.dtype, data.data(), e, normal(random));
    inputs[in.sym.name()] = {in.dtype, data.data(), shape, {}};
  }
  const Output& out = s.program.outputs.at(0);
  const auto shape = shape_of(out.dims, sizes);
  int64_t n = 1;
  for (int64_t x : shape) n *= x;
  std::vector<char> tile(size_t(n * bytes(out.dtype))), map(tile.size());
  interpret(s.program, s.tiles, sizes, inputs, {}, {{out.sym.name(), {out.dtype, tile.data(), shape, {}}}});
  interpret(s.program, mapped(s, m), sizes, inputs, {},
            {{out.sym.name(), {out.dtype, map.data(), shape, {}}}});
  const double tolerance = out.dtype == DType::f32 ? 1e-5 : 2e-2;
  for (int64_t e = 0; e < n; ++e) {
    const double a = load_element(out.dtype, tile.data(), e), b = load_element(out.dtype, map.data(), e);
    ASSERT_LE(std::fabs(a - b), tolerance * (1 + std::fabs(a)))
        << "element " << e << ": " << a << " and " << b;
  }
}

TEST(MapCpu, TheInterpreterFindsTheValuesOfTheTileProgram) {
  const Machine avx2 = vectors(32, 16), wide = vectors(64, 32);
  same_values(attention_sample(f32_attention(false, 48, 8)), {{"b", 1}, {"h", 2}, {"i", 53}, {"j", 70}},
              avx2);
  same_values(attention_sample(f32_attention(true, 48, 8)), {{"b", 1}, {"h", 1}, {"i", 53}, {"j", 70}}, avx2);
  same_values(attention_sample(f32_attention(true, 48, 8)), {{"b", 1}, {"h", 1}, {"i", 30}, {"j", 5}}, wide);
  AttentionOptions half = f32_attention(true, 16, 8);
  half.dtype = DType::f16;
  same_values(attention_sample(half), {{"b", 1}, {"h", 1}, {"i", 20}, {"j", 70}}, avx2);
  same_values(resident_softmax_sample(), {{"r", 2}, {"j", 77}}, avx2);
  same_values(two_pass_softmax_sample(), {{"r", 2}, {"j", 1100}}, avx2);
}

}  // namespace
}  // namespace tilewright::testing::map_cpu_test
