#include "tilewright/hardware/layout.h"

#include <gtest/gtest.h>

#include <set>

#include "tilewright/support/error.h"

namespace tilewright::layout_test {
namespace {

constexpr auto Owner = Digit::To::Owner;
constexpr auto Offset = Digit::To::Offset;

/// The accumulator of wgmma m64nN for `groups` groups of 64 rows.
Layout accumulator(int64_t columns, int64_t groups = 1) {
  std::vector<Digit> digits{{0, 8, 1, Owner, 4},  {0, 2, 8, Offset, 2}, {0, 4, 16, Owner, 32},
                            {1, 2, 1, Offset, 1}, {1, 4, 2, Owner, 1},  {1, columns / 8, 8, Offset, 4}};
  if (groups > 1) digits.push_back({0, groups, 64, Owner, 128});
  return Layout({64 * groups, columns}, digits);
}

/// The first operand of wgmma m64k16 in registers, in blocks of 16 columns: PTX ISA, "Register Fragments": a0 a1 at (g, 2t), a2 a3 at
/// (g + 8, 2t), a4 a5 at (g, 2t + 8), a6 a7 at (g + 8, 2t + 8), with t = lane % 4 and g = lane / 4.
Place operand_place(int64_t row, int64_t column) {
  int64_t lane = row % 8 * 4 + column % 8 / 2, warp = row / 16;
  return {warp * 32 + lane, column / 16 * 8 + column % 16 / 8 * 4 + row % 16 / 8 * 2 + column % 2};
}

/// f16 rows of 64·h columns as a bulk copy with 128-byte swizzle leaves them.
Layout panel(int64_t rows, int64_t halves) {
  return Layout({rows, 64 * halves},
                {{1, 64, 1, Offset, 1}, {1, halves, 64, Offset, 64 * rows}, {0, rows, 1, Offset, 64}},
                {3, 3, 3});
}

TEST(Layout, RowMajorAndStrided) {
  Layout l = Layout::row_major({3, 5});
  EXPECT_EQ(l.place({2, 4}), (Place{0, 14}));
  EXPECT_EQ(l.owners(), 1);
  EXPECT_EQ(l.elements(), 15);
  Layout columns = Layout::strided({3, 5}, {0, 1}, 1);
  EXPECT_EQ(columns.place({2, 0}), (Place{0, 2}));
  EXPECT_EQ(columns.place({0, 1}), (Place{0, 4}));
  EXPECT_EQ(columns.elements(), 19);
  EXPECT_EQ(Layout::row_major({}).elements(), 1);
}

TEST(Layout, EqualMapsAreEqual) {
  Layout split({4, 6}, {{1, 2, 1, Offset, 1}, {1, 3, 2, Offset, 2}, {0, 4, 1, Offset, 6}});
  EXPECT_EQ(split, Layout::row_major({4, 6}));
  EXPECT_EQ(split.str(), "(4, 6) 0:4*6 1:6*1");
  EXPECT_FALSE(split == Layout::strided({4, 6}, {0, 1}));
  EXPECT_EQ(Layout({1, 6}, {{0, 1, 1, Owner, 7}, {1, 6, 1, Offset, 1}}), Layout::row_major({1, 6}));
}

TEST(Layout, AccumulatorHoldsEveryElementOnce) {
  Layout l = accumulator(128, 2);
  EXPECT_EQ(l.owners(), 256);
  EXPECT_EQ(l.elements(), 64);
  std::set<std::pair<int64_t, int64_t>> places;
  for (int64_t i = 0; i < 128; ++i)
    for (int64_t j = 0; j < 128; ++j) {
      Place p = l.place({i, j});
      EXPECT_TRUE(places.insert({p.owner, p.offset}).second);
      std::vector<int64_t> back;
      ASSERT_TRUE(l.coords(p, back));
      EXPECT_EQ(back, (std::vector<int64_t>{i, j}));
    }
  EXPECT_EQ(places.size(), size_t(128 * 128));
  // lane 5 of warp 1 holds rows 17 and 25, columns 2 and 3 of each eight.
  EXPECT_EQ(l.place({17, 2}), (Place{37, 0}));
  EXPECT_EQ(l.place({25, 3}), (Place{37, 3}));
  EXPECT_EQ(l.place({25, 11}), (Place{37, 7}));
}

TEST(Layout, AccumulatorIsTheOperandOfTheNextProduct) {
  Layout l = accumulator(80);
  for (int64_t i = 0; i < 64; ++i)
    for (int64_t j = 0; j < 80; ++j) ASSERT_EQ(l.place({i, j}), operand_place(i, j)) << i << " " << j;
}

TEST(Layout, ClassifyConversions) {
  Layout acc = accumulator(16);
  EXPECT_EQ(classify(acc, acc), Conversion::Identity);
  // The same owners in another order of registers.
  Layout renamed({64, 16}, {{0, 8, 1, Owner, 4},
                            {0, 2, 8, Offset, 1},
                            {0, 4, 16, Owner, 32},
                            {1, 2, 1, Offset, 2},
                            {1, 4, 2, Owner, 1},
                            {1, 2, 8, Offset, 4}});
  EXPECT_EQ(classify(acc, renamed), Conversion::Identity);
  // Columns of a row in another order of the four lanes.
  Layout lanes({64, 16}, {{0, 8, 1, Owner, 4},
                          {0, 2, 8, Offset, 4},
                          {0, 4, 16, Owner, 32},
                          {1, 4, 1, Offset, 1},
                          {1, 4, 4, Owner, 1}});
  EXPECT_EQ(classify(acc, lanes), Conversion::Lanes);
  Layout rows({64, 16}, {{0, 64, 1, Owner, 1}, {1, 16, 1, Offset, 1}});
  EXPECT_EQ(classify(acc, rows), Conversion::Shared);
  // A replicated tile can be narrowed for free.
  Layout everywhere({4}, {{-1, 8, 0, Owner, 1}, {0, 4, 1, Offset, 1}});
  Layout one({4}, {{0, 4, 1, Owner, 1}});
  EXPECT_EQ(classify(everywhere, one), Conversion::Identity);
  EXPECT_EQ(classify(one, everywhere), Conversion::Lanes);
}

TEST(Layout, ReduceAxisLeavesReplicas) {
  Layout row = accumulator(128).reduce_axis(1);
  EXPECT_EQ(row.shape(), std::vector<int64_t>{64});
  EXPECT_EQ(row.owners(), 128);
  EXPECT_EQ(row.elements(), 2);
  auto places = row.places({9});
  ASSERT_EQ(places.size(), 4u);
  for (int64_t t = 0; t < 4; ++t) EXPECT_EQ(places[t], (Place{4 + t, 1}));
  Layout column = accumulator(16).reduce_axis(0);
  EXPECT_EQ(column.places({3}).size(), 32u);
  EXPECT_EQ(column.elements(), 4);
}

TEST(Layout, CoordsOfNothing) {
  Layout padded = Layout::strided({3, 5}, {0, 1}, 1);
  std::vector<int64_t> out;
  EXPECT_FALSE(padded.coords({0, 3}, out));
  EXPECT_FALSE(padded.coords({0, 19}, out));
  EXPECT_FALSE(padded.coords({1, 0}, out));
  EXPECT_TRUE(padded.coords({0, 18}, out));
  EXPECT_EQ(out, (std::vector<int64_t>{2, 4}));
}

TEST(Layout, SwizzleIsItsOwnInverseAndAvoidsConflicts) {
  Layout l = panel(64, 2);
  EXPECT_EQ(l.elements(), 64 * 128);
  std::set<int64_t> offsets;
  for (int64_t i = 0; i < 64; ++i)
    for (int64_t j = 0; j < 128; ++j) {
      Place p = l.place({i, j});
      offsets.insert(p.offset);
      EXPECT_EQ(l.swizzle().apply(l.swizzle().apply(p.offset)), p.offset);
    }
  EXPECT_EQ(offsets.size(), size_t(64 * 128));
  // Eight rows of one 16-byte column, as a matrix load reads them: no conflict with the swizzle, eightfold without.
  for (int64_t column = 0; column < 128; column += 8) {
    std::vector<int64_t> swizzled, plain;
    for (int64_t i = 0; i < 8; ++i) {
      swizzled.push_back(2 * l.place({i, column}).offset);
      plain.push_back(2 * Layout::row_major({64, 64}).place({i, column % 64}).offset);
    }
    EXPECT_EQ(Layout::bank_conflicts(swizzled, 16), 1);
    EXPECT_EQ(Layout::bank_conflicts(plain, 16), 8);
  }
}

TEST(Layout, BankConflicts) {
  std::vector<int64_t> same(32, 0), unit, strided;
  for (int64_t t = 0; t < 32; ++t) unit.push_back(4 * t), strided.push_back(8 * t);
  EXPECT_EQ(Layout::bank_conflicts(same, 4), 1);  // one word for all
  EXPECT_EQ(Layout::bank_conflicts(unit, 4), 1);
  EXPECT_EQ(Layout::bank_conflicts(strided, 4), 2);
  EXPECT_EQ(Layout::bank_conflicts(strided, 8), 1);  // two passes of 16 owners
  EXPECT_EQ(Layout::bank_conflicts({}, 4), 0);
}

TEST(Layout, Contiguous) {
  EXPECT_EQ(Layout::row_major({4, 6}).contiguous(1), 6);
  EXPECT_EQ(Layout::row_major({4, 6}).contiguous(0), 1);
  EXPECT_EQ(accumulator(64).contiguous(1), 2);
  EXPECT_EQ(panel(64, 2).contiguous(1), 8);  // 16 bytes: what the swizzle keeps together
  EXPECT_EQ(panel(64, 2).contiguous(0), 1);
}

TEST(Layout, RefusesWhatIsNoLayout) {
  EXPECT_THROW(Layout({4, 4}, {{0, 4, 1, Offset, 1}}), InternalError);  // axis 1 not covered
  EXPECT_THROW(Layout({4}, {{0, 2, 1, Offset, 1}, {0, 4, 2, Offset, 2}}),
               InternalError);  // covered twice over
  EXPECT_THROW(Layout({4, 4}, {{0, 4, 1, Offset, 1}, {1, 4, 1, Offset, 2}}),
               InternalError);                                                            // elements overlap
  EXPECT_THROW(Layout({4}, {{0, 4, 1, Owner, 1}, {-1, 2, 0, Owner, 2}}), InternalError);  // owners overlap
  EXPECT_THROW(Layout({4}, {{1, 4, 1, Offset, 1}}), InternalError);                       // no such axis
  EXPECT_THROW(Layout({4}, {{0, 4, 1, Offset, 1}, {-1, 2, 0, Offset, 4}}),
               InternalError);  // replicas have owners
  EXPECT_THROW(Layout({64}, {{0, 64, 1, Offset, 1}}, Swizzle{3, 3, 2}),
               InternalError);  // not its own inverse
}

}  // namespace
}  // namespace tilewright::layout_test
