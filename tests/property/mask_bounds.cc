// analyse_mask against every element of small blocks.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "tilewright/expr/simplify.h"
#include "tilewright/tile/statements.h"

namespace tilewright::mask_bounds_test {
namespace {

Sym index_symbol(const std::string& name) {
  Sym size = Sym::fresh({.name = name, .kind = SymbolKind::Size, .integer = true, .nonnegative = true});
  return Sym::fresh(
      {.name = name, .kind = SymbolKind::Index, .integer = true, .nonnegative = true, .size = &size.info()});
}
Sym counter(const std::string& name) {
  return Sym::fresh({.name = name, .kind = SymbolKind::Variable, .integer = true, .nonnegative = true});
}

struct Setting {
  Sym i = index_symbol("i"), j = index_symbol("j"), d = index_symbol("d"), part = index_symbol("part");
  Sym w = Sym::fresh({.name = "w", .kind = SymbolKind::Param, .integer = true});
  Sym f = Sym::fresh({.name = "f", .kind = SymbolKind::Param});
  Sym table = Sym::fresh({.name = "table", .kind = SymbolKind::Tensor, .integer = true});
  TileKernel kernel;
  int64_t block, chunk, split;

  Setting(int64_t block_size, int64_t chunk_size, int64_t split_size)
      : block(block_size), chunk(chunk_size), split(split_size) {
    kernel.grid.push_back({i, KernelAxis::Kind::Group, block, block, counter("ib"), {}, {}});
    KernelAxis stream{j, KernelAxis::Kind::Stream, chunk, chunk, counter("jc"), {}, {}};
    if (split) {
      Sym number = counter("pc");
      kernel.grid.push_back({part, KernelAxis::Kind::Part, 1, 1, number, {}, {}});
      stream.begin = Expr(number) * Expr(split);
      stream.end = min((Expr(number) + 1) * Expr(split), j.size());
    }
    kernel.inner.push_back(stream);
    kernel.inner.push_back({d, KernelAxis::Kind::Whole, 3, 3, {}, {}, {}});
  }
  const KernelAxis& stream() const { return kernel.inner[0]; }
};

int64_t below(std::mt19937& gen, int64_t n) { return int64_t(gen() % uint64_t(n)); }

/// A random condition over i, j, sizes, the integer param and now and then something that no analysis
/// follows.
Expr random_condition(std::mt19937& gen, const Setting& s, int depth) {
  if (depth > 0 && below(gen, 2)) {
    Expr a = random_condition(gen, s, depth - 1), b = random_condition(gen, s, depth - 1);
    return below(gen, 3) ? logical_and(a, b) : logical_or(a, b);
  }
  if (depth > 0 && below(gen, 6) == 0) return logical_not(random_condition(gen, s, depth - 1));
  int64_t coefficients[] = {1, -1, 1, -1, 2, -3};
  Expr e = Expr(s.j) * Expr(coefficients[below(gen, 6)]);
  switch (below(gen, 5)) {
    case 0: break;
    case 1: e = e + Expr(s.i); break;
    case 2: e = e - Expr(s.i) * Expr(2); break;
    case 3: e = e + floordiv(s.i, 3) - mod(s.i, 2); break;
    case 4: e = e - max(s.i, s.w); break;
  }
  if (below(gen, 2)) e = e + Expr(s.j.size()) - Expr(s.i.size());
  if (below(gen, 3) == 0) e = e + Expr(s.w);
  if (below(gen, 5) == 0) e = e + Expr(s.d);
  e = e + Expr(below(gen, 21) - 10);
  switch (below(gen, 8)) {
    case 0: return less(0, e);
    case 1: return equal(mod(e, 3), 0);
    case 2: return equal(e, 0);
    case 3: return less_equal(read(s.table, {s.j}), e);
    case 4: return less(Expr(s.f), e);
    default: return less_equal(e, 0);
  }
}

TEST(MaskBounds, HoldEveryPresentElement) {
  std::mt19937 gen(7);
  int64_t plain = 0, skipped = 0, tested = 0, bounded = 0;
  for (int round = 0; round < 700; ++round) {
    int64_t chunk = 1 + below(gen, 5);
    Setting s(1 + below(gen, 5), chunk, below(gen, 3) ? 0 : chunk * (1 + below(gen, 3)));
    Expr present = random_condition(gen, s, 2);
    MaskBounds b = analyse_mask(present, s.kernel, s.stream());
    for (int sizes = 0; sizes < 4; ++sizes) {
      const int64_t ni = 1 + below(gen, 14), nj = below(gen, 18), w = below(gen, 15) - 5;
      const double f = double(below(gen, 20)) / 3;
      std::vector<int64_t> table;
      for (int64_t j = 0; j < nj; ++j) table.push_back(below(gen, 9) - 4);
      std::map<Sym, int64_t> integers{{s.i.size(), ni}, {s.j.size(), nj}, {s.w, w}};
      const int64_t parts = s.split ? (nj + s.split - 1) / s.split : 1;
      for (int64_t ib = 0; ib * s.block < ni; ++ib)
        for (int64_t part = 0; part < parts; ++part) {
          integers[s.kernel.grid[0].counter] = ib;
          if (s.split) integers[s.kernel.grid[1].counter] = part;
          const int64_t from = part * s.split, to = s.split ? std::min(from + s.split, nj) : nj;
          const int64_t begin = evaluate_integer(b.begin, integers),
                        limit = evaluate_integer(b.limit, integers);
          const int64_t stop = b.stop ? evaluate_integer(b.stop, integers) : 0;
          const int64_t full_begin = evaluate_integer(b.full_begin, integers),
                        full_end = evaluate_integer(b.full_end, integers);
          std::string where =
              fmt::format("{} with i={} j={} w={} block {} part {}: {} {} {} {}", to_string(present), ni, nj,
                          w, ib, part, begin, full_begin, full_end, limit);
          ASSERT_LE(begin, full_begin) << where;
          ASSERT_LE(full_begin, full_end) << where;
          ASSERT_LE(full_end, limit) << where;
          if (begin < limit) {
            ASSERT_GE(begin * chunk, from) << where;
            ASSERT_LT((limit - 1) * chunk, to) << where;
          }
          for (int64_t q = from / chunk; q * chunk < to; ++q) {
            int64_t there = 0, all = 0;
            for (int64_t j = q * chunk; j < q * chunk + chunk; ++j)
              for (int64_t i = ib * s.block; i < std::min(ib * s.block + s.block, ni); ++i)
                for (int64_t d = 0; d < 3; ++d) {
                  ++all;
                  if (j >= to) continue;
                  Bindings values{{s.i, double(i)}, {s.j, double(j)}, {s.d, double(d)}, {s.f, f}};
                  for (auto& [sym, v] : integers) values[sym] = double(v);
                  Reader reader = [&](Sym, const std::vector<int64_t>& at) {
                    return double(table.at(size_t(at[0])));
                  };
                  const bool here = evaluate(present, values, reader) != 0;
                  there += here;
                  if (here && b.stop) {
                    ASSERT_LT(j, stop) << where;
                    ++bounded;
                  }
                }
            const bool visited = q >= begin && q < limit, full = q >= full_begin && q < full_end;
            if (there > 0) {
              ASSERT_TRUE(visited) << where << " chunk " << q;
            }
            if (full) {
              ASSERT_EQ(there, all) << where << " chunk " << q;
            }
            (full ? plain : visited ? tested : skipped)++;
          }
        }
    }
  }
  // The analysis must be worth something on these conditions.
  EXPECT_GT(plain, 1000);
  EXPECT_GT(skipped, 1000);
  EXPECT_GT(tested, 1000);
  EXPECT_GT(bounded, 1000);
}

TEST(MaskBounds, CausalIsExact) {
  Setting s(4, 3, 0);
  Expr present = less_equal(s.j, Expr(s.i) + Expr(s.j.size()) - Expr(s.i.size()));
  MaskBounds b = analyse_mask(present, s.kernel, s.stream());
  for (int64_t ni = 1; ni < 12; ++ni)
    for (int64_t nj = 0; nj < 12; ++nj)
      for (int64_t ib = 0; ib * 4 < ni; ++ib) {
        std::map<Sym, int64_t> v{{s.i.size(), ni}, {s.j.size(), nj}, {s.kernel.grid[0].counter, ib}};
        int64_t first = 4 * ib + nj - ni,
                last = std::min(4 * ib + 3, ni - 1) + nj - ni;  // last visible key of the outer rows
        EXPECT_EQ(evaluate_integer(b.begin, v), 0);
        EXPECT_EQ(evaluate_integer(b.limit, v), last < 0 ? 0 : last / 3 + 1);
        EXPECT_EQ(evaluate_integer(b.full_end, v), first + 1 < 0 ? 0 : (first + 1) / 3);
        EXPECT_EQ(evaluate_integer(b.stop, v), last + 1);
      }
}

TEST(MaskBounds, WindowSkipsBothSides) {
  Setting s(2, 4, 0);
  Expr present = logical_and(less_equal(s.j, s.i), less(Expr(s.i) - Expr(s.j), 8));
  MaskBounds b = analyse_mask(present, s.kernel, s.stream());
  std::map<Sym, int64_t> v{
      {s.i.size(), 100}, {s.j.size(), 100}, {s.kernel.grid[0].counter, 20}};  // rows 40, 41: keys 33 … 41
  EXPECT_EQ(evaluate_integer(b.begin, v), 8);
  EXPECT_EQ(evaluate_integer(b.full_begin, v), 9);  // 36 … 39
  EXPECT_EQ(evaluate_integer(b.full_end, v), 10);
  EXPECT_EQ(evaluate_integer(b.limit, v), 11);
}

}  // namespace
}  // namespace tilewright::mask_bounds_test
