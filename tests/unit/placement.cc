// Layouts compared before anything runs: what misplaced() names, the interpreter would fault on, and no mapping leaves.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/compiled.h"
#include "tests/support/mapped_run.h"
#include "tests/support/mapped_samples.h"
#include "tilewright/map/placement.h"
#include "tilewright/support/error.h"

namespace tilewright::testing::placement_test {
namespace {

using Kind = MappedFault::Kind;

/// misplaced() names `words`, and a run ends with a fault of placement.
void expect_misplaced(const MappedSample& s, const std::vector<std::string>& words) {
  const std::vector<std::string> faults = misplaced(s.mapped);
  ASSERT_FALSE(faults.empty());
  for (const std::string& word : words)
    EXPECT_NE(faults[0].find(word), std::string::npos) << word << " in: " << faults[0];
  try {
    s.run();
    ADD_FAILURE() << "runs all the same";
  } catch (const MappedFault& f) {
    EXPECT_EQ(f.kind, Kind::Placement) << f.what();
  }
}

Buffer& buffer(MappedSample& s, const std::string& name) {
  for (Buffer& b : s.kernel().buffers)
    if (b.sym.name() == name) return b;
  throw std::runtime_error("no buffer " + name);
}

TEST(Placement, NothingIsMisplacedInSoundPrograms) {
  for (const MappedSample& s : {pipeline_sample(), plain_sample(), task_sample()}) {
    const std::vector<std::string> faults = misplaced(s.mapped);
    EXPECT_TRUE(faults.empty()) << faults[0];
  }
  for (const char* file : {"pf_global", "pf_causal", "softmax", "layernorm_matmul"}) {
    const Compiled c = compile_file(fmt::format("examples/{}.tw", file));
    for (LayoutClass layout : {LayoutClass::Aligned, LayoutClass::General}) {
      const std::vector<std::string> faults = misplaced(map_sm90(c.program, c.tiles, sm90(), layout));
      EXPECT_TRUE(faults.empty()) << file << ": " << faults[0];
    }
  }
}

TEST(Placement, ElementsThatOtherThreadsHold) {
  MappedSample s = plain_sample();
  const Buffer &o = buffer(s, "o"), &scores = buffer(s, "S");
  // Rows of o lie as those of S: a copy of S's row sums is held by the threads of those rows; with rows in another order it is not.
  Buffer row{.sym = Sym::fresh({.name = "row", .kind = SymbolKind::Tile}),
             .axes = {o.axes[0]},
             .layout = scores.layout.reduce_axis(1),
             .role = 0};
  row.layout = Layout({16}, {{0, 16, 1, Digit::To::Owner, 1}, {-1, 4, 0, Digit::To::Owner, 16}});
  Ops more{{MapOp{row.sym, 1, {}, {}}, ""}, {MapOp{o.sym, read(row.sym, {Expr(row.axes[0])}), {}, {}}, ""}};
  s.kernel().buffers.push_back(row);
  auto& body = s.role("threads").body;
  body.insert(body.begin() + 1, more.begin(), more.end());
  expect_misplaced(s, {"role threads", "row", "lie along i in different threads"});
}

TEST(Placement, ReductionsThatThreadsCannotFinish) {
  // A sum over j of what threads hold along j, in threads that hold the result along e.
  MappedSample s = plain_sample();
  const Buffer &scores = buffer(s, "S"), &o = buffer(s, "o");
  ReduceOp wrong{o.sym,
                 Reducer::Sum,
                 {scores.axes[1]},
                 read(scores.sym, {Expr(scores.axes[0]), Expr(scores.axes[1])}),
                 false,
                 {},
                 {},
                 Scope::Thread,
                 {}};
  MapOp clear{scores.sym, 1, {}, {}};
  auto& body = s.role("threads").body;
  Ops more{{clear, ""}, {wrong, ""}};
  body.insert(body.begin() + 1, more.begin(), more.end());
  expect_misplaced(s, {"o = sum over j of S[i, j]", "the same threads lie along"});
}

TEST(Placement, LayoutsThatAtomsRefuse) {
  MappedSample s = pipeline_sample();
  buffer(s, "K").layout = Layout::row_major({64, 64});
  expect_misplaced(s, {"wgmma.m64n64k16.f16", "the second operand has no swizzle"});
  MappedSample other = pipeline_sample();
  buffer(other, "P").layout = Layout({128, 64}, {{0, 8, 1, Digit::To::Owner, 4},
                                                 {0, 2, 8, Digit::To::Offset, 4},
                                                 {0, 4, 16, Digit::To::Owner, 32},
                                                 {0, 2, 64, Digit::To::Owner, 128},
                                                 {1, 2, 1, Digit::To::Offset, 1},
                                                 {1, 4, 2, Digit::To::Owner, 1},
                                                 {1, 2, 8, Digit::To::Offset, 2},
                                                 {1, 4, 16, Digit::To::Offset, 8}});
  expect_misplaced(other, {"wgmma.m64n64k16.f16.rs", "the first operand is not laid out in fragments"});
}

TEST(Placement, RegistersOfAnotherRole) {
  MappedSample s = pipeline_sample();
  const Buffer& o = buffer(s, "o");
  s.role("load").body.push_back({MapOp{o.sym, 0, {}, {}}, ""});
  EXPECT_FALSE(misplaced(s.mapped).empty());
}

/// What needs an exchange that is not mapped is refused by name, with what to do.
TEST(Placement, TheMappingRefusesWhatNoThreadHolds) {
  const Compiled c = compile(R"(axis i, j, n
axis d = 16
input Q[i, d] : f16
input K[j, d] : f16
input V[j, n] : f16
input M[i, j] : i32 range(0, 9)
input N[n] : i32 range(0, 9)
y[i, n] = sum[j](where(M[i, j] < N[n], sum[d](Q * K) * V, 0))
output y : f32
)",
                             "group i=64, n=16; stream j=16");
  try {
    map_sm90(c.program, c.tiles, sm90(), LayoutClass::Aligned);
    FAIL() << "mapped";
  } catch (const UserError& e) {
    EXPECT_NE(e.diagnostics()[0].what.find("compares elements along j with elements along n"),
              std::string::npos)
        << e.diagnostics()[0].what;
    EXPECT_FALSE(e.diagnostics()[0].hint.empty());
  }
}

}  // namespace
}  // namespace tilewright::testing::placement_test
