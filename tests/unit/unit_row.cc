// Which programs get a row of one element, and what it changes in them; the default plans of few rows.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/examples.h"
#include "tilewright/plan/unit_row.h"
#include "tilewright/program/elaborate.h"

namespace tilewright::testing::unit_row_test {
namespace {

std::optional<Program> rowed(const char* name, DType t = DType::f16) {
  const Program p = elaborate(example(name, t));
  return with_unit_row(p, derive_unproved(p, stream_candidates(p).front()));
}

std::string plans_of(const char* name, DType t, const char* arch) {
  const Program p = example(name, t);
  CompileOptions o;
  o.target = Target::Cuda;
  o.arch = arch;
  const Compilation c = analyse(p, o);
  return print(c.elaborated, c.plans);
}

std::string text(const std::vector<Dim>& dims) {
  std::string all;
  for (const Dim& d : dims) {
    std::string pieces;
    for (Sym s : d.pieces) pieces += (pieces.empty() ? "" : " ") + s.name();
    all += fmt::format("[{}]", pieces);
  }
  return all;
}

TEST(UnitRow, StandsBehindTheLastAxisOfThePoints) {
  const std::optional<Program> p = rowed("dc_causal");
  ASSERT_TRUE(p);
  ASSERT_NE(p->axis("row"), nullptr);
  EXPECT_TRUE(p->axis("row")->baked());
  EXPECT_EQ(text(p->inputs[0].dims), "[b][h row][d]");
  EXPECT_EQ(text(p->inputs[1].dims), "[b][h][j][d]");  // shared by all rows
  EXPECT_EQ(text(p->outputs[0].dims), "[b][h row][e]");
}

TEST(UnitRow, IsForProgramsWithoutRows) {
  EXPECT_TRUE(rowed("dc_alibi"));
  EXPECT_TRUE(rowed("paged"));  // a table of pages without heads makes none of heads
  EXPECT_FALSE(rowed("dc_gqa"));
  EXPECT_FALSE(rowed("pf_causal"));
  EXPECT_FALSE(rowed("softmax"));
  EXPECT_FALSE(rowed("dc_causal", DType::f32));  // by FMA instructions
}

TEST(UnitRow, LongStreamsOfFewRowsAreSplit) {
  EXPECT_EQ(plans_of("dc_causal", DType::f16, "sm_90a"),
            "when j <= 512: group b=1, h=1, row=64; stream j=128; keep Q; stages 2; roles 1+1; guard "
            "speculative; grid persistent\n"
            "when j <= 8192: group b=1, h=1, row=64; stream j=128; split j=512; keep Q; stages 2; roles 1+1; "
            "guard speculative; grid persistent\n"
            "otherwise: group b=1, h=1, row=64; stream j=128; split j=2048; keep Q; stages 2; roles 1+1; "
            "guard speculative; grid persistent");
  EXPECT_EQ(
      plans_of("dc_gqa", DType::f16, "sm_80"),
      "when g <= 64, j <= 512: group b=1, k=1, g=64; stream j=64; keep Q; stages 3; roles 0+1; guard "
      "speculative\n"
      "when g <= 64, j <= 8192: group b=1, k=1, g=64; stream j=64; split j=512; keep Q; stages 3; roles 0+1; "
      "guard speculative\n"
      "when g <= 64: group b=1, k=1, g=64; stream j=64; split j=2048; keep Q; stages 3; roles 0+1; guard "
      "speculative\n"
      "otherwise: group b=1, k=1, g=256/128; stream j=32; keep Q; stages 2; roles 0+2; guard speculative");
}

}  // namespace
}  // namespace tilewright::testing::unit_row_test
