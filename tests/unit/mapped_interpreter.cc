#include "tilewright/map/interpreter.h"

#include <gtest/gtest.h>

#include "tests/support/mapped_samples.h"

namespace tilewright::testing::mapped_interpreter_test {
namespace {

using Mode = Adversary::Mode;

/// Every mode, many seeds: no fault, and the right values each time.
void expect_right(const MappedSample& s, int seeds) {
  for (Mode mode : {Mode::Random, Mode::Eager, Mode::Lazy})
    for (int seed = 0; seed < seeds; ++seed)
      ASSERT_LE(s.run({uint64_t(seed), mode}), s.tolerance) << "mode " << int(mode) << ", seed " << seed;
}

TEST(MappedInterpreter, PipelineUnderManySeeds) { expect_right(pipeline_sample(130, 190), 100); }

TEST(MappedInterpreter, BlocksInThreads) {
  const MappedSample s = pipeline_sample(700, 190);
  for (int threads : {2, 5, 9}) EXPECT_LE(s.run({3, Mode::Random}, threads), s.tolerance);
}

TEST(MappedInterpreter, PipelineOfAwkwardSizes) {
  for (auto [rows, columns] : {std::pair<int64_t, int64_t>{1, 1}, {64, 64}, {129, 63}, {256, 321}, {5, 400}})
    expect_right(pipeline_sample(rows, columns), 4);
}

TEST(MappedInterpreter, PlainCopiesAndThreads) {
  expect_right(plain_sample(), 40);
  expect_right(plain_sample(1, 1), 2);
  expect_right(plain_sample(17, 64), 2);
}

TEST(MappedInterpreter, TaskWithClippedExtents) {
  expect_right(task_sample(), 3);
  expect_right(task_sample(1, 1), 1);
  expect_right(task_sample(4, 8), 1);
  expect_right(task_sample(5, 0), 1);  // sums over nothing
}

TEST(MappedInterpreter, NoBlocksNoWork) {
  MappedSample s = task_sample(0, 5);
  EXPECT_EQ(s.run(), 0);
}

// A layout that differs from what the bulk copy writes gives wrong values: data lives where layouts put it.
TEST(MappedInterpreter, WrongPanelGivesWrongValues) {
  MappedSample s = pipeline_sample();
  for (TensorMap& m : s.kernel().tensor_maps)
    if (m.name == "map_K") m.swizzle_bytes = 0;
  EXPECT_GT(s.run(), 10 * s.tolerance);
}

TEST(MappedInterpreter, StridedArraysAndCompositeDimensions) {
  MappedSample s = plain_sample();
  // K stored with rows 13 elements apart.
  TestArray wide(DType::f16, {25, 13});
  for (int64_t j = 0; j < 25; ++j)
    for (int64_t d = 0; d < 8; ++d) wide.set(j * 13 + d, s.inputs.at("K").at(j * 8 + d));
  TestArray out(DType::f16, s.output_shape);
  std::map<std::string, ArrayView> views;
  for (auto& [name, array] : s.inputs) views[name] = array.view();
  views["K"] = {DType::f16, wide.storage.data(), {25, 8}, {13, 1}};
  interpret(s.program, s.mapped, s.sizes, views, {}, {{"O", out.target()}});
  for (int64_t k = 0; k < out.elements(); ++k) ASSERT_NEAR(out.at(k), s.expected[size_t(k)], s.tolerance);
}

TEST(MappedInterpreter, SelectsDoNotReadWhatIsNotTaken) {
  MappedSample s = task_sample(10, 21);
  // The panel reads the view only inside the array; without extents every element is computed.
  auto *clear = find_op<MapOp>(s.role("task").body), *map = find_op<MapOp>(s.role("task").body, 1);
  auto* reduce = find_op<ReduceOp>(s.role("task").body);
  ASSERT_TRUE(clear && map && reduce);
  for (Frame* f : {&clear->frame, &map->frame, &reduce->frame})
    for (AxisFrame& a : *f) a.extent = Expr();
  Sym r = map->frame[0].axis, j = map->frame[1].axis;
  Expr inside = logical_and(less(r, r.size()), less(j, j.size()));
  map->value = select(inside, map->value, 0);
  EXPECT_LE(s.run(), s.tolerance);
}

TEST(MappedInterpreter, ExchangeBetweenLanesAndGroups) {
  // One row of 256 elements a block, four of them in each of 64 threads; sums across a warp, then across the role through scratch.
  MappedSample s = task_sample(3, 256);
  MappedKernel& k = s.kernel();
  k.grid[0].block = k.grid[0].piece = 1;
  Sym r = k.buffers[0].axes[0], j = k.buffers[0].axes[1];
  Layout threads({256}, {{0, 4, 1, Digit::To::Offset, 1}, {0, 64, 4, Digit::To::Owner, 1}});
  Buffer x{
      .sym = Sym::fresh({.name = "x", .kind = SymbolKind::Tile}), .axes = {j}, .layout = threads, .role = 0};
  Buffer sum{.sym = Sym::fresh({.name = "sum", .kind = SymbolKind::Tile}),
             .axes = {},
             .layout = threads.reduce_axis(0),
             .role = 0};
  Buffer scratch{.sym = Sym::fresh({.name = "scratch", .kind = SymbolKind::Tile}),
                 .axes = {j},
                 .space = Space::Local,
                 .layout = Layout::row_major({2})};
  k.buffers = {x, sum, scratch};
  Expr value = read(x.sym, {Expr(j)});
  Sym X = s.program.inputs[0].sym, Y = s.program.outputs[0].sym;
  Role role{"threads", 64, 64, 0, {}};
  role.body = {{Copy{"copy.vector", x.sym, {}, X, {r, j}, {}, {}}, ""},
               {ReduceOp{sum.sym, Reducer::Sum, {j}, value, false, {}, {}, Scope::Role, scratch.sym}, ""},
               {StoreOut{"store.plain", sum.sym, Y, {r}, {}}, ""}};
  k.roles = {role};
  EXPECT_LE(s.run(), s.tolerance);

  // The same in two steps: partial sums of each thread, then the replicas combined.
  auto two_steps = [&](Scope across) {
    k.roles[0].body = {
        {Copy{"copy.vector", x.sym, {}, X, {r, j}, {}, {}}, ""},
        {ReduceOp{sum.sym, Reducer::Sum, {j}, value, false, {}, {}, Scope::Thread, {}}, ""},
        {ReduceOp{sum.sym, Reducer::Sum, {}, read(sum.sym, {}), false, {}, {}, across, scratch.sym}, ""},
        {StoreOut{"store.plain", sum.sym, Y, {r}, {}}, ""}};
  };
  two_steps(Scope::Role);
  EXPECT_LE(s.run(), s.tolerance);
  // Across a warp alone the two warps hold different sums.
  two_steps(Scope::Warp);
  try {
    s.run();
    FAIL() << "different replicas were stored";
  } catch (const MappedFault& f) {
    EXPECT_EQ(f.kind, MappedFault::Kind::Placement) << f.what();
  }
}

TEST(MappedInterpreter, VotesActOnTheirScope) {
  // x[j] of 64 threads; threads of a warp that has a value above 2 write 1, others 0.
  MappedSample s = task_sample(2, 64);
  MappedKernel& k = s.kernel();
  k.grid[0].block = k.grid[0].piece = 1;
  Sym r = k.buffers[0].axes[0], j = k.buffers[0].axes[1];
  Layout one({64}, {{0, 64, 1, Digit::To::Owner, 1}});
  Buffer x{.sym = Sym::fresh({.name = "x", .kind = SymbolKind::Tile}), .axes = {j}, .layout = one, .role = 0};
  k.buffers = {x};
  Sym X = s.program.inputs[0].sym, Y = Sym::fresh({.name = "Z", .kind = SymbolKind::Tensor});
  s.program.outputs = {{Y, s.program.inputs[0].dims, DType::f32, {}}};
  s.output = "Z";
  s.output_shape = {2, 64};
  TestArray& in = s.inputs.at("X");
  for (int64_t n = 0; n < 128; ++n) in.set(n, n == 5 || n == 64 + 40 || n == 64 + 41 ? 3 : 0);
  Expr value = read(x.sym, {Expr(j)});
  for (Scope scope : {Scope::Thread, Scope::Warp, Scope::Role}) {
    Vote vote{
        less(2, value), {j}, {}, {}, scope, {{MapOp{x.sym, 1, {}, {}}, ""}}, {{MapOp{x.sym, 0, {}, {}}, ""}}};
    Role role{"threads", 64, 64, 0, {}};
    role.body = {{Copy{"copy.plain", x.sym, {}, X, {r, j}, {}, {}}, ""},
                 {vote, ""},
                 {StoreOut{"store.plain", x.sym, Y, {r, j}, {}}, ""}};
    k.roles = {role};
    s.expected.assign(128, 0);
    for (int64_t n = 0; n < 128; ++n) {
      int64_t width = scope == Scope::Thread ? 1 : scope == Scope::Warp ? 32 : 64;
      for (int64_t m = n / width * width; m < (n / width + 1) * width; ++m)
        if (in.at(m) > 2) s.expected[size_t(n)] = 1;
    }
    EXPECT_EQ(s.run(), 0) << int(scope);
  }
}

TEST(MappedInterpreter, LargeBlocks) {
  // 8 blocks × 16 chunks of products 128 × 64 × 64.
  MappedSample s = pipeline_sample(1000, 1000);
  EXPECT_LE(s.run(), s.tolerance);
}

}  // namespace
}  // namespace tilewright::testing::mapped_interpreter_test
