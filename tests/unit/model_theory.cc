// The figures of "FlashAttention on a Napkin" (arXiv 2412.03317), derived from programs by the model and from machine files: canonical forms and
// where they hold, widths, clusters, arithmetic intensity, clocks.
#include <gtest/gtest.h>

#include <cmath>

#include "tilewright/driver/kernel.h"
#include "tilewright/model/predict.h"

namespace tilewright::model_theory_test {
namespace {

/// A program of examples/napkin with a schedule, and its model.
struct Modelled {
  Compilation c;
  TileProgram tiles;
  Model m;
  Modelled(const std::string& name, const std::string& schedule) {
    CompileOptions o;
    o.target = Target::Interp;
    o.host_steps = false;
    o.schedule = schedule;
    c = analyse(load_program(std::string(TW_SOURCE_DIR) + "/examples/napkin/" + name + ".tw"), o);
    tiles = lower(c, c.plans.back().plan);
    m = model_of(c.elaborated, tiles);
  }
  Modelled(const Modelled&) = delete;
  Expr size(const std::string& axis) const { return c.elaborated.axis(axis)->index.size(); }
  Sym tile(const std::string& axis) const { return m.symbols.block.at(c.elaborated.axis(axis)->index); }
  /// With every width 1: elements, as the paper counts. `d` stands for both feature axes.
  Expr in_elements(Expr e) const {
    Substitution s;
    for (const auto& [dtype, sym] : m.symbols.width) s.emplace_back(sym, 1);
    if (c.elaborated.axis("e") && c.elaborated.axis("d")) s.emplace_back(size("e")->sym, size("d"));
    return substitute(e, s);
  }
  Bindings widths(double narrow, double wide) const {
    Bindings b;
    for (const auto& [dtype, sym] : m.symbols.width) b[sym] = dtype == DType::f32 ? wide : narrow;
    return b;
  }
  const Canonical& form() const { return *m.leading; }
  /// The bound of M below which the form holds, where `tile` (or a product of tiles) fills its axis.
  Expr valid(Expr tiles_filled) const {
    for (const auto& [what, bound] : form().valid)
      if (what == tiles_filled) return in_elements(bound);
    return {};
  }
};

void expect_equal(Expr a, Expr b) {
  ASSERT_TRUE(a && b);
  EXPECT_TRUE(provably_equal(a, b) || simplify(a) == simplify(b)) << to_string(simplify(a)) << "\n"
                                                                  << to_string(simplify(b));
}

TEST(Theory, Product) {
  Modelled x("product", "group a=64, c=64; stream b=32");
  ASSERT_TRUE(x.m.leading) << x.m.why_no_form;
  const Expr a = x.size("a"), b = x.size("b"), c = x.size("c"), M = x.form().memory;
  // H = abc(1/g_a + 1/g_c) + ac.
  expect_equal(x.in_elements(x.m.smooth.memory.loaded + x.m.smooth.memory.stored),
               a * b * c * (Expr(1) / Expr(x.tile("a")) + Expr(1) / Expr(x.tile("c"))) + a * c);
  EXPECT_EQ(x.form().beta, Rational(1, 2));
  expect_equal(x.in_elements(x.form().alpha), Expr(2) * a * b * c);
  expect_equal(x.in_elements(x.form().constant), a * c);
  expect_equal(x.in_elements(x.form().formula), Expr(2) * a * b * c * pow(M, Expr(Rational(-1, 2))) + a * c);
  // g_a = g_c = √M, so the form holds for √M <= a and √M <= c.
  ASSERT_EQ(x.form().tiles.size(), 2u);
  for (const auto& [tile, best] : x.form().tiles)
    expect_equal(x.in_elements(best), pow(M, Expr(Rational(1, 2))));
  expect_equal(x.valid(x.tile("a")), a * a);
  expect_equal(x.valid(x.tile("c")), c * c);
  expect_equal(x.in_elements(x.form().compulsory), a * b + b * c + a * c);
}

TEST(Theory, AttentionOfOneHead) {
  Modelled x("attention", "group q=64; stream x=32; keep Q");
  ASSERT_TRUE(x.m.leading) << x.m.why_no_form;
  const Expr q = x.size("q"), k = x.size("x"), d = x.size("d"), M = x.form().memory, g = x.tile("q");
  expect_equal(x.in_elements(x.m.smooth.memory.loaded + x.m.smooth.memory.stored),
               Expr(2) * q * d + Expr(2) * k * q * d / g);
  EXPECT_EQ(x.form().beta, Rational(1));
  expect_equal(x.in_elements(x.form().formula), Expr(2) * q * d + Expr(4) * k * q * d * d / M);
  expect_equal(x.in_elements(x.form().tiles.at(0).second), M / (Expr(2) * d));
  expect_equal(x.valid(g), Expr(2) * q * d);
  expect_equal(x.in_elements(x.form().compulsory), Expr(2) * q * d + Expr(2) * k * d);
  // The memory of a block holds 2 g_q d and the chunks, whose scores the paper leaves out.
  const auto columns = maximands(peaks(x.tiles, x.m.symbols, Memories::Together).both);
  ASSERT_TRUE(columns);
  bool found = false;
  for (const Laurent& column : *columns) {
    const auto all = laurent(x.in_elements(column.expr()));
    found = found || (all->terms.count({{x.tile("q"), Rational(1)}, {d->sym, Rational(1)}}) &&
                      all->terms.at({{x.tile("q"), Rational(1)}, {d->sym, Rational(1)}}) == Rational(2));
  }
  EXPECT_TRUE(found);
}

TEST(Theory, PeaksThatAreAskedForAloneAreThoseOfAll) {
  for (const char* schedule : {"group q=64; stream x=32; keep Q", "group q=128/64; stream x=64; stages 3"}) {
    const Modelled x("attention", schedule);
    const Peaks all = peaks(x.tiles, x.m.symbols), apart = peaks(x.tiles, x.m.symbols, Memories::Apart),
                together = peaks(x.tiles, x.m.symbols, Memories::Together);
    EXPECT_EQ(apart.shared, all.shared);
    EXPECT_EQ(apart.registers, all.registers);
    EXPECT_TRUE(apart.both.is_constant(0));
    EXPECT_EQ(together.both, all.both);
    EXPECT_TRUE(together.shared.is_constant(0) && together.registers.is_constant(0));
    EXPECT_FALSE(all.both.is_constant(0));
  }
}

TEST(Theory, HeadsThatShareKeysAndValues) {
  Modelled x("shared_heads", "group h=2, q=64; stream x=32; keep Q");
  ASSERT_TRUE(x.m.leading) << x.m.why_no_form;
  const Expr h = x.size("h"), q = x.size("q"), k = x.size("x"), d = x.size("d"), M = x.form().memory;
  const Expr gh = x.tile("h"), gq = x.tile("q");
  expect_equal(x.in_elements(x.m.smooth.memory.loaded + x.m.smooth.memory.stored),
               Expr(2) * h * q * d + Expr(2) * k * q * h * d / (gq * gh));
  expect_equal(x.in_elements(x.form().formula), Expr(2) * h * q * d + Expr(4) * h * k * q * d * d / M);
  // Only the product of the tiles is determined, and it fills both axes at M = 2hqd.
  EXPECT_TRUE(x.form().tiles.empty());
  ASSERT_EQ(x.form().products.size(), 1u);
  expect_equal(x.in_elements(x.form().products[0].second), M / (Expr(2) * d));
  ASSERT_EQ(x.form().valid.size(), 1u);
  expect_equal(x.in_elements(x.form().valid[0].second), Expr(2) * h * q * d);
}

TEST(Theory, HeadsOfTheirOwn) {
  Modelled x("separate_heads", "group h=2, q=64; stream x=32; keep Q");
  ASSERT_TRUE(x.m.leading) << x.m.why_no_form;
  const Expr h = x.size("h"), q = x.size("q"), k = x.size("x"), d = x.size("d"), M = x.form().memory;
  // As one head, h times; g_h = 1 is best.
  expect_equal(x.in_elements(x.form().formula), h * (Expr(2) * q * d + Expr(4) * k * q * d * d / M));
  ASSERT_EQ(x.m.problem->least.size(), 1u);
  EXPECT_EQ(x.m.problem->least[0], x.tile("h"));
}

/// H*(M) at numbers follows the form inside its range, is clamped beyond, and never falls below the compulsory transfers.
TEST(Theory, FormsHoldUpToWhereGroupsFillTheirAxes) {
  struct Sizes3 {
    const char *program, *schedule;
    std::map<std::string, double> sizes;
  };
  for (const Sizes3& s :
       {Sizes3{"product", "group a=64, c=64; stream b=32", {{"a", 500}, {"b", 3000}, {"c", 2000}}},
        Sizes3{"attention", "group q=64; stream x=32; keep Q", {{"q", 300}, {"x", 5000}}},
        Sizes3{"shared_heads", "group h=2, q=64; stream x=32; keep Q", {{"h", 6}, {"q", 50}, {"x", 900}}},
        Sizes3{
            "separate_heads", "group h=2, q=64; stream x=32; keep Q", {{"h", 6}, {"q", 50}, {"x", 900}}}}) {
    Modelled x(s.program, s.schedule);
    // Leading terms alone, so that numbers and form mean the same memory.
    TileProblem problem = *x.m.problem;
    std::vector<Sym> widths;
    for (const auto& [dtype, sym] : x.m.symbols.width) widths.push_back(sym);
    for (Laurent& column : problem.memory) column = leading(column, widths);
    Bindings v = x.widths(1, 1);
    for (const auto& [sym, n] : x.m.symbols.literal) v[sym] = double(n);
    for (const auto& [axis, n] : s.sizes) v[x.size(axis)->sym] = n;
    double limit = __builtin_inf();
    for (const auto& [what, bound] : x.form().valid) limit = std::min(limit, evaluate(bound, v));
    const double compulsory = evaluate(x.form().compulsory, v);
    double before = __builtin_inf();
    for (double M = 600; M < 1e8; M *= 1.7) {
      v[x.form().memory] = M;
      const double form = evaluate(x.form().formula, v), least = least_transfers(problem, v, M);
      EXPECT_LE(least, before * (1 + 1e-9)) << s.program << " " << M;
      EXPECT_GE(least, compulsory * (1 - 1e-9));
      if (M <= limit)
        EXPECT_NEAR(least, form, 1e-5 * form) << s.program << " M = " << M;
      else
        EXPECT_GE(least, form * (1 - 1e-6)) << s.program << " M = " << M;
      before = least;
    }
    EXPECT_NEAR(least_transfers(problem, v, 1e12), compulsory, 1e-6 * compulsory);
  }
}

TEST(Theory, OneQueryTransfersItsKeysWhateverTheMemory) {
  Modelled x("attention", "group q=64; stream x=32; keep Q");
  Bindings v = x.widths(1, 1);
  for (const auto& [sym, n] : x.m.symbols.literal) v[sym] = double(n);
  v[x.size("q")->sym] = 1;
  v[x.size("x")->sym] = 32 * 1024;
  for (double M : {1e3, 1e5, 1e7, 1e9}) EXPECT_NEAR(least_transfers(*x.m.problem, v, M), 8.4e6, 0.02e6) << M;
}

TEST(Theory, Widths) {
  // The M-dependent term scales with q^(1 + β) where everything shrinks; with f32 accumulators by 12/5 and 2 from two bytes to one.
  Modelled attention("attention", "group q=64; stream x=32; keep Q"),
      product("product", "group a=64, c=64; stream b=32");
  auto gain = [](const Modelled& x, double narrow_before, double narrow_after, bool accumulators) {
    Bindings sizes;
    for (const auto& [sym, n] : x.m.symbols.literal) sizes[sym] = double(n);
    for (const char* axis : {"a", "b", "c", "q", "x"})
      if (x.c.elaborated.axis(axis)) sizes[x.size(axis)->sym] = 1000;
    return gain_of_widths(x.form(), sizes, x.widths(narrow_before, accumulators ? narrow_before : 4),
                          x.widths(narrow_after, accumulators ? narrow_after : 4));
  };
  EXPECT_NEAR(gain(attention, 2, 1, true), 4, 1e-9);
  EXPECT_NEAR(gain(product, 2, 1, true), 2 * std::sqrt(2.0), 1e-9);
  EXPECT_NEAR(gain(attention, 2, 1, false), 2.4, 1e-9);
  EXPECT_NEAR(gain(product, 2, 1, false), 2, 1e-9);
}

TEST(Theory, ClustersOfAnH800) {
  const MachineFile h800 = find_machine("h800");
  const double alone = h800.levels[1].bandwidth->value;
  Modelled attention("attention", "group q=64; stream x=32; keep Q"),
      product("product", "group a=64, c=64; stream b=32");
  auto saving = [&](const Modelled& x, const Cluster& cluster) {
    const double n = cluster.size->value, beta = x.form().beta.value(), M = 1e5;
    return 100 * cluster_saving(std::pow(M, -beta), std::pow(n * M, -beta), alone, cluster.bandwidth->value);
  };
  ASSERT_EQ(h800.clusters.size(), 2u);
  EXPECT_NEAR(saving(attention, h800.clusters[0]), 18.8, 0.05);
  EXPECT_NEAR(saving(attention, h800.clusters[1]), 17.3, 0.05);
  EXPECT_NEAR(saving(product, h800.clusters[0]), 11.0, 0.05);
  EXPECT_NEAR(saving(product, h800.clusters[1]), 11.5, 0.05);
}

TEST(Theory, IntensityOfAProductOnAnH100) {
  const MachineFile h100 = find_machine("h100-sxm");
  Modelled x("product", "group a=64, c=64; stream b=32");
  const Expr operations = Expr(2) * x.size("a") * x.size("b") * x.size("c");
  const double ratio = h100.levels[1].bandwidth->value / h100.matrix.at(DType::f16).rate->value;
  // Two-byte elements throughout, as the paper has it.
  double b = 0, memory = 0;
  for (const BalancePoint& t : balance(x.form(), operations, x.widths(2, 2), ratio))
    (t.symbol == x.form().memory ? memory : b) = t.value;
  EXPECT_NEAR(b, 295.3, 0.05);
  EXPECT_NEAR(memory / 1024, 681, 0.6);
  // With accumulators in f32 the memory is twice that.
  for (const BalancePoint& t : balance(x.form(), operations, x.widths(2, 4), ratio))
    if (t.symbol == x.form().memory) {
      EXPECT_NEAR(t.value, 2 * memory, 1e-6 * memory);
    }
}

TEST(Theory, ClocksOfAHopperRow) {
  Modelled x("attention_f8", "group q=128; stream x=64; keep Q; stages 2; roles 1+3; guard always");
  const MachineFile h100 = find_machine("h100-sxm");
  Integers v = values_of(x.m, {{x.size("q")->sym, 8192}, {x.size("x")->sym, 8192}});
  const auto budget = clock_budget(x.m, h100, v);
  ASSERT_TRUE(budget);
  EXPECT_EQ(budget->rows, 128);
  auto row = [&](double clocks) { return clocks / double(budget->rows); };
  std::vector<double> products, sums;
  for (const ClockLine& line : budget->lines) {
    if (line.role == "matrix") products.push_back(row(line.clocks));
    if (line.role == "vector" && line.what.find("sum") != std::string::npos) sums.push_back(row(line.clocks));
  }
  ASSERT_EQ(products.size(), 2u);
  EXPECT_NEAR(products[0], 2, 0.001);  // QK in eight bits
  EXPECT_NEAR(products[1], 4, 0.001);  // PV in sixteen
  EXPECT_NEAR(row(budget->special), 4.06, 0.01);
  ASSERT_EQ(sums.size(), 1u);
  EXPECT_NEAR(sums[0], 0.5, 0.001);
  EXPECT_NEAR(row(budget->matrix), 6, 0.001);
  EXPECT_NEAR(budget->matrix_bound / 1e15, 1.32, 0.005);
  // The published budget leaves out what else the vector units do: maxima, scaling, rounding, and the repair of the output.
  EXPECT_GT(row(budget->vector), 1.5);
}

TEST(Theory, WarpgroupsThatFitAHopperCore) {
  const MachineFile h100 = find_machine("h100-sxm");
  const double KiB = 1024;
  // The paper's blocks: 48 KiB of shared memory for all and 48 for each warpgroup, 74.75 KiB of registers for each.
  const double shared = fitting(h100.level("shared")->per_block->value, 48 * KiB, 48 * KiB);
  const double registers = fitting(h100.level("registers")->capacity->value, 0, 74.75 * KiB);
  EXPECT_NEAR(shared, 3.7, 0.05);
  EXPECT_NEAR(registers, 3.4, 0.05);
  EXPECT_EQ(std::floor(std::min(shared, registers)), 3);
  // Keys of eight bits and values of sixteen in two stages are the 48 KiB that all share.
  Modelled x("attention_f8", "group q=128; stream x=64; keep Q; stages 2; guard always");
  Integers v = values_of(x.m, {});
  const Loop* loop = x.m.visits.at(0).loop;
  EXPECT_EQ(value_of(loaded_in_chunk(x.tiles, x.tiles.kernels[0], *loop, x.m.symbols), v), 24 * KiB);
}

TEST(Theory, FlashAttention3) {
  // Exponentials and bookkeeping take 66 % of one f16 product's time (the paper's figure) and do not overlap with products.
  const double product = 1, other = 0.66;
  EXPECT_NEAR(100 * utilisation(2 * product, other), 75, 0.5);
  EXPECT_NEAR(100 * utilisation(2 * product / 2, other), 60, 0.5);
}

}  // namespace
}  // namespace tilewright::model_theory_test
