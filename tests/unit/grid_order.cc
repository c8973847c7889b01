// How the grid of a GPU is run: the clause of a schedule, the order of elements, who takes which of a persistent kernel.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/support/compiled.h"
#include "tilewright/map/mapped.h"
#include "tilewright/support/error.h"

namespace tilewright::testing::grid_order_test {
namespace {

const char* kProduct =
    "axis m, n, k\ninput A[m, k] : f16\ninput B[k, n] : f16\nC[m, n] = sum[k](A * B)\noutput C : f16\n";

std::string printed(const std::string& schedule) {
  const Compiled c = compile(kProduct, schedule);
  const std::string text = print(c.program, c.plan);
  const Compiled again = compile(kProduct, text);
  EXPECT_EQ(print(again.program, again.plan), text);
  const size_t at = text.find("grid ");
  return at == std::string::npos ? "" : text.substr(at);
}

TEST(GridClause, ComesBackAsItWasPrinted) {
  EXPECT_EQ(printed("grid persistent"), "grid persistent");
  EXPECT_EQ(printed("grid persistent, m/8; stages 3"), "grid persistent, m/8");
  EXPECT_EQ(printed("grid blocks, m/4"), "grid blocks, m/4");
  EXPECT_EQ(printed("grid blocks, m/32 MB; stages 3"), "grid blocks, m/32 MB");
  EXPECT_EQ(printed("grid blocks"), "grid blocks");
  EXPECT_NE(printed("roles 0+2; stages 1"), "grid persistent") << "nothing loads ahead";
}

std::string refusal(const std::string& schedule) {
  try {
    compile(kProduct, schedule);
  } catch (const UserError& e) {
    return e.diagnostics()[0].render();
  }
  return "accepted";
}

TEST(GridClause, IsRefusedByName) {
  EXPECT_EQ(
      refusal("grid endless"),
      "<schedule>:1:6: error: no way to run a grid is called `endless`\n  grid endless\n       ^~~~~~~\n"
      "  help: choose blocks or persistent\n");
  EXPECT_NE(refusal("grid persistent; roles 0+2").find("without a loading group"), std::string::npos);
  EXPECT_NE(refusal("grid blocks, n/8").find("`n` is the last axis of the grid"), std::string::npos);
  EXPECT_NE(refusal("grid blocks, k/8").find("`k` is not grouped"), std::string::npos);
  EXPECT_NE(refusal("grid blocks, m").find("expected `/`"), std::string::npos);
  EXPECT_EQ(
      refusal("grid blocks, m/4 GB"),
      "<schedule>:1:18: error: no unit of a section is called `GB`\n  grid blocks, m/4 GB\n               "
      "    ^~\n  help: write MB, or a number of blocks alone\n");
  EXPECT_NE(refusal("grid blocks, m/4294967296").find("a section of 4294967296 blocks is larger"),
            std::string::npos);
}

KernelAxis axis(const char* name) {
  const Sym length =
      Sym::fresh({.name = name, .kind = SymbolKind::Size, .integer = true, .nonnegative = true});
  const Sym index = Sym::fresh({.name = name,
                                .kind = SymbolKind::Index,
                                .integer = true,
                                .nonnegative = true,
                                .size = &length.info()});
  return {index, KernelAxis::Kind::Group, 1, 1, {}, {}, {}};
}

TEST(GridOrder, EveryElementComesOnce) {
  for (int64_t section : {0, 1, 2, 3, 5, 8}) {
    for (size_t sectioned : {0, 1, 2}) {
      MappedKernel k;
      k.grid = {axis("a"), axis("b"), axis("c"), axis("d")};
      k.heaviest_first = section % 2 == 0;
      if (section > 0) k.sectioned = k.grid[sectioned].index;
      const std::vector<int64_t> counts{2, 5, 3, 4};
      std::set<std::vector<int64_t>> seen;
      for (int64_t n = 0; n < 2 * 5 * 3 * 4; ++n) {
        const std::vector<int64_t> at = grid_counters(k, counts, section, n);
        for (size_t d = 0; d < counts.size(); ++d) {
          EXPECT_GE(at[d], 0);
          EXPECT_LT(at[d], counts[d]);
        }
        EXPECT_TRUE(seen.insert(at).second) << "element " << n << ", sections of " << section;
      }
    }
  }
}

TEST(GridOrder, SectionsMeetEveryBlockOfTheLastAxis) {
  MappedKernel k;
  k.grid = {axis("h"), axis("i")};
  k.heaviest_first = true;
  const auto order = [&](int64_t heads, int64_t rows) {
    std::string text;
    for (int64_t n = 0; n < heads * rows; ++n) {
      const auto at = grid_counters(k, {heads, rows}, 2, n);
      text += (n ? " " : "") + std::to_string(at[0]) + std::to_string(at[1]);
    }
    return text;
  };
  EXPECT_EQ(order(3, 2), "01 00 11 10 21 20");
  k.sectioned = k.grid[0].index;
  EXPECT_EQ(order(3, 2), "01 11 00 10 21 20") << "the last section has one head";
  k.heaviest_first = false;
  EXPECT_EQ(order(3, 2), "00 10 01 11 20 21");
}

TEST(GridOrder, BlocksTakeTurnsForthAndBack) {
  for (int64_t elements : {1, 2, 7, 12, 13, 40})
    for (int64_t blocks : {1, 3, 4, 5}) {
      std::set<int64_t> seen;
      int64_t most = 0, least = 1 << 20;
      for (int64_t block = 0; block < blocks; ++block) {
        int64_t work = 0;
        for (int64_t ordinal = 0; item_number(ordinal, block, blocks) < elements; ++ordinal) {
          const int64_t number = item_number(ordinal, block, blocks);
          EXPECT_TRUE(seen.insert(number).second);
          work += elements - number;  // lighter and lighter
        }
        most = std::max(most, work);
        least = std::min(least, work);
      }
      EXPECT_EQ(int64_t(seen.size()), elements);
      if (elements % (2 * blocks) == 0) {
        EXPECT_EQ(most, least);
      }
    }
}

}  // namespace
}  // namespace tilewright::testing::grid_order_test
