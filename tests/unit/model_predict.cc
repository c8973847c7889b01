// Predictions: occupancy, waves, caches, multiples of tiles, work, what is not priced.
#include "tilewright/model/predict.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tilewright/driver/kernel.h"

namespace tilewright::model_predict_test {
namespace {

struct Predicted {
  Compilation c;
  TileProgram tiles;
  Model m;
  Predicted(const std::string& file, const std::string& schedule, Target target = Target::Interp) {
    CompileOptions o;
    o.target = target;
    o.host_steps = target == Target::Cpu;
    o.schedule = schedule;
    c = analyse(load_program(std::string(TW_SOURCE_DIR) + "/" + file), o);
    tiles = lower(c, c.plans.back().plan);
    m = model_of(c.elaborated, tiles);
  }
  Predicted(const Predicted&) = delete;
  Integers sizes(const std::map<std::string, int64_t>& by_name) const {
    Sizes s;
    for (const auto& [name, n] : by_name) s[c.elaborated.axis(name)->index.size()] = n;
    return values_of(m, s);
  }
  Sym tile(const std::string& axis) const { return m.symbols.block.at(c.elaborated.axis(axis)->index); }
};

const ResourceTime* find(const Prediction& p, const std::string& name) {
  for (const ResourceTime& r : p.resources)
    if (r.name == name) return &r;
  return nullptr;
}

TEST(Predict, ProductsBoundByTheMatrixUnits) {
  Predicted x("examples/pf_global.tw", "group i=128/64; stream j=128; stages 2; roles 1+2; keep Q");
  const MachineFile h100 = find_machine("h100-sxm");
  const Integers v = x.sizes({{"b", 1}, {"h", 33}, {"i", 4096}, {"j", 4096}});
  const Prediction p = predict(x.m, h100, v);
  // 33 · 32 blocks are eight whole waves of 132.
  EXPECT_EQ(p.occupancy.blocks, 33 * 32);
  EXPECT_EQ(p.occupancy.blocks_per_core, 1);
  EXPECT_EQ(p.occupancy.waves, 8);
  EXPECT_DOUBLE_EQ(p.occupancy.efficiency, 1);
  EXPECT_DOUBLE_EQ(p.operations, 4.0 * 33 * 4096 * 4096 * 128);
  ASSERT_TRUE(find(p, "matrix f16"));
  EXPECT_NEAR(find(p, "matrix f16")->seconds, p.operations / 989.4e12, 1e-9);
  EXPECT_EQ(p.bound_by, "matrix f16");
  EXPECT_LE(p.overlapped, p.predicted);
  EXPECT_LE(p.predicted, p.serial);
  // One head more starts a ninth wave.
  const Prediction late = predict(x.m, h100, x.sizes({{"b", 1}, {"h", 34}, {"i", 4096}, {"j", 4096}}));
  EXPECT_EQ(late.occupancy.waves, 9);
  EXPECT_NEAR(late.occupancy.efficiency, 34 * 32 / (9.0 * 132), 1e-12);
  EXPECT_GT(late.predicted / p.predicted, 1.1);
  // What no data sheet gives is named, not guessed.
  ASSERT_TRUE(find(p, "L2 -> shared memory"));
  EXPECT_EQ(find(p, "L2 -> shared memory")->rate, 0);
  EXPECT_NE(find(p, "L2 -> shared memory")->unpriced, "");
}

TEST(Predict, SlotsThatStayEmptyCostNothing) {
  Predicted x("examples/napkin/attention_f8.tw",
              "group q=128; stream x=64; keep Q; stages 2; roles 0+1; guard always");
  const MachineFile h100 = find_machine("h100-sxm");
  const auto at = [&](int64_t blocks) {
    return predict(x.m, h100, x.sizes({{"q", 128 * blocks}, {"x", 8192}}));
  };
  const Prediction full = at(132), one_less = at(131), two = at(264), one_more = at(133);
  ASSERT_GT(full.occupancy.blocks_per_core, 1);
  // A block on each core uses all of it, though another would fit.
  EXPECT_DOUBLE_EQ(full.occupancy.efficiency, 1);
  EXPECT_NEAR(one_less.occupancy.efficiency, 131.0 / 132, 1e-12);
  EXPECT_NEAR(one_more.occupancy.efficiency, 133.0 / 264, 1e-12);
  // Twice the blocks take twice as long on the same units, and no group waits alone.
  EXPECT_NEAR(two.overlapped / full.overlapped, 2, 1e-9);
  EXPECT_EQ(two.groups, 2 * full.groups);
}

TEST(Predict, OneComputingGroupWaitsForItsUnits) {
  Predicted one("examples/pf_global.tw", "group i=64; stream j=128; stages 2; roles 1+1; keep Q");
  MachineFile h100 = find_machine("h100-sxm");
  h100.blocks_per_core = Figure{1, "guide"};
  const Integers v = one.sizes({{"b", 1}, {"h", 33}, {"i", 4096}, {"j", 4096}});
  const Prediction p = predict(one.m, h100, v);
  EXPECT_EQ(p.groups, 1);
  EXPECT_NEAR(p.predicted, p.serial, 1e-12);
  double compute = 0, waits = 0;
  for (const ResourceTime& r : p.resources) {
    if (r.kind == ResourceTime::Kind::Compute) compute += r.seconds;
    if (r.kind == ResourceTime::Kind::Wait) waits += r.seconds;
  }
  EXPECT_GT(waits, 0);
  EXPECT_NEAR(p.serial, compute + waits, 1e-12);
}

TEST(Predict, RingsHideLoadsAndGroupsTakeTurns) {
  const auto at = [](const std::string& schedule, const std::string& machine) {
    Predicted x("examples/pf_global.tw", schedule);
    // Whole waves of blocks of 128 and of 192 rows.
    return predict(x.m, find_machine(machine), x.sizes({{"b", 1}, {"h", 44}, {"i", 16128}, {"j", 16128}}));
  };
  const Prediction one = at("group i=128/64; stream j=128; stages 1; roles 1+2; keep Q", "h100-sxm"),
                   two = at("group i=128/64; stream j=128; stages 2; roles 1+2; keep Q", "h100-sxm"),
                   three = at("group i=192/64; stream j=64; stages 3; roles 1+3; keep Q", "h100-sxm");
  // Without a slot ahead each chunk waits for its loads.
  EXPECT_GT(one.predicted, 1.3 * two.predicted);
  // Where each group has less to do beside the matrix unit, products wait less.
  EXPECT_LT(three.predicted, two.predicted);
  EXPECT_EQ(two.bound_by, "matrix f16");
  // A machine that cannot hold its clock takes longer, by what was measured of it.
  const Prediction limited = at("group i=128/64; stream j=128; stages 2; roles 1+2; keep Q", "h200");
  EXPECT_NEAR(limited.operations / find(limited, "matrix f16")->seconds, 770e12, 1e9);
}

TEST(Predict, MasksHalveTheWork) {
  Predicted global("examples/pf_global.tw", "group i=128; stream j=128"),
      causal("examples/pf_causal.tw", "group i=128; stream j=128; grid blocks");
  const std::map<std::string, int64_t> sizes{{"b", 1}, {"h", 64}, {"i", 8192}, {"j", 8192}};
  const MachineFile h100 = find_machine("h100-sxm");
  const Prediction a = predict(global.m, h100, global.sizes(sizes)),
                   b = predict(causal.m, h100, causal.sizes(sizes));
  // 64 chunks a row against 1 + 2 + … + 64 over 64.
  EXPECT_NEAR(b.operations / a.operations, 65.0 / 128, 1e-12);
  EXPECT_TRUE(b.occupancy.uneven);
  EXPECT_GT(b.occupancy.efficiency, 0.9);
  // With the heaviest blocks first the lightest is what the others wait for.
  Predicted sorted("examples/pf_causal.tw", "group i=128; stream j=128; grid blocks, h/32 MB");
  const Occupancy first = predict(sorted.m, h100, sorted.sizes(sizes)).occupancy;
  EXPECT_FALSE(b.occupancy.sorted);
  EXPECT_TRUE(first.sorted);
  const double average = 64.0 * 64 / 132, heaviest = 64 / 32.5;
  EXPECT_NEAR(b.occupancy.efficiency, average / (average + 131.0 / 132 * heaviest), 1e-12);
  EXPECT_NEAR(first.efficiency, average / (average + 131.0 / 132 * (2 - heaviest)), 1e-12);
  // Alone on its core the heaviest block is what all wait for.
  EXPECT_NEAR(predict(sorted.m, h100, sorted.sizes({{"b", 1}, {"h", 1}, {"i", 8192}, {"j", 8192}}))
                  .occupancy.efficiency,
              64.0 / 132 / heaviest, 1e-12);
}

TEST(Predict, CachesShareWhatBlocksRead) {
  Predicted x("examples/napkin/product.tw", "group a=128/64, c=64; stream b=128; stages 2; roles 1+2");
  const MachineFile a100 = find_machine("a100");
  for (int64_t n : {1024, 4096, 16384}) {
    const Integers v = x.sizes({{"a", n}, {"b", n}, {"c", n}});
    const Prediction p = predict(x.m, a100, v);
    const ResourceTime *memory = find(p, "memory -> L2"), *cache = find(p, "L2 -> shared memory");
    ASSERT_TRUE(memory && cache);
    const double arrays = 3.0 * double(n) * double(n) * 2;
    EXPECT_GE(memory->amount, arrays * (1 - 1e-12)) << n;  // compulsory
    EXPECT_LE(memory->amount, cache->amount) << n;
    // At 1024 the arrays lie in the cache.
    if (n == 1024) {
      EXPECT_DOUBLE_EQ(memory->amount, arrays);
    }
  }
}

TEST(Predict, TilesAreMultiplesOfUnitsAndLines) {
  Predicted x("examples/napkin/product.tw", "group a=128, c=64; stream b=128");
  const MachineFile h100 = find_machine("h100-sxm");
  const auto multiple = multiples(x.m, h100);
  // Rows: 64 of a wgmma. Columns: 8 of it, and a line of 64 f16 of B. Depth: 16, and a line of A.
  EXPECT_EQ(multiple.at(x.tile("a")), 64);
  EXPECT_EQ(multiple.at(x.tile("c")), 64);
  EXPECT_EQ(multiple.at(x.tile("b")), 64);
  MachineFile odd = h100;
  odd.matrix.at(DType::f16).shape = {48, 24, 16};
  EXPECT_EQ(multiples(x.m, odd).at(x.tile("c")), 192);  // lcm(24, 64)
  const Integers v = x.sizes({{"a", 4096}, {"b", 4096}, {"c", 4096}});
  const auto best = best_tiles(x.m, h100, v);
  ASSERT_TRUE(best);
  for (const auto& [tile, n] : best->tiles) EXPECT_EQ(n % multiple.at(tile), 0);
  EXPECT_LE(best->shared, h100.level("shared")->per_block->value);
  EXPECT_LE(best->registers, h100.level("registers")->capacity->value);
  // No plan of such tiles that fits transfers less: all of them tried through the exact formulas.
  for (int64_t a = 64; a <= 512; a += 64)
    for (int64_t c = 64; c <= 512; c += 64)
      for (int64_t b = 64; b <= 192; b += 64) {
        Integers w = v;
        w[x.tile("a")] = a, w[x.tile("c")] = c, w[x.tile("b")] = b;
        if (*value_of(x.m.exact.peak_shared, w) > h100.level("shared")->per_block->value ||
            *value_of(x.m.exact.peak_registers, w) > h100.level("registers")->capacity->value)
          continue;
        const double moved = *value_of(x.m.exact.memory.loaded, w) + *value_of(x.m.exact.memory.stored, w);
        EXPECT_GE(moved, best->transfers * (1 - 1e-9)) << a << " " << c << " " << b;
      }
}

TEST(Predict, WorkOfAChunk) {
  Predicted x("examples/pf_softcap.tw", "group i=128; stream j=64; guard always");
  double matrix = 0, special = 0;
  const Integers v = x.sizes({});
  for (const Operation& op : x.m.operations) {
    if (!op.loop || !op.plain) continue;
    const double n = *value_of(op.each, v);
    if (op.unit == Unit::Matrix) matrix += n;
    if (op.unit == Unit::Special) special += n;
  }
  EXPECT_EQ(matrix, 2 * 128 * 64 * 128);
  // A tanh and an exponential for each score, one exponential for each row's repair.
  EXPECT_EQ(special, 2 * 128 * 64 + 128);
}

TEST(Predict, ACpuComputesOneAfterAnother) {
  Predicted x("bench/product.tw", "group i=192, j=96; stream k=128", Target::Cpu);
  MachineFile cpu = detect_cpu();
  cpu.fma_f32 = Figure{100e9, "system"};
  const Prediction p = predict(x.m, cpu, x.sizes({{"i", 512}, {"j", 512}, {"k", 512}}));
  EXPECT_NEAR(p.predicted, 2.0 * 512 * 512 * 512 / 100e9, 1e-6 + 0.25 * p.predicted);
  EXPECT_DOUBLE_EQ(p.predicted, p.serial);
  EXPECT_EQ(p.occupancy.slots, int64_t(cpu.cores->value));
  // Rows of two elements cost calls of the micro-kernel, and columns of half a vector whole ones.
  Predicted small("bench/product.tw", "group i=2, j=4; stream k=4", Target::Cpu);
  const Prediction q = predict(small.m, cpu, small.sizes({{"i", 512}, {"j", 512}, {"k", 512}}));
  EXPECT_EQ(find(q, "multiply-adds of products")->amount, find(p, "multiply-adds of products")->amount);
  EXPECT_GT(q.predicted, 3 * p.predicted);
}

TEST(Predict, OperandsOfACpuCrossMemoryOnceWhereTheyFitItsCache) {
  Predicted x("bench/product.tw", "group i=64, j=32; stream k=64", Target::Cpu);
  MachineFile cpu = find_machine("typical-avx2");
  const auto moved = [&](int64_t n) {
    return find(predict(x.m, cpu, x.sizes({{"i", n}, {"j", n}, {"k", n}})), "memory -> L3")->amount;
  };
  EXPECT_DOUBLE_EQ(moved(512), 3.0 * 512 * 512 * 4);
  // B, read again for every block of rows, is larger than half of the cache; A lies there from one block of columns to the next.
  EXPECT_GT(moved(2048), 16 * 3.0 * 2048 * 2048 * 4 / 2);
}

TEST(Predict, PiecesOfRowsCostTheirStart) {
  MachineFile cpu = find_machine("typical-avx2");
  const double bandwidth = cpu.levels[1].bandwidth->value;
  cpu.runs = Figure{1 / (1024 / bandwidth + 100e-9), "test"};
  Predicted x("bench/product.tw", "group i=8, j=256; stream k=32", Target::Cpu);
  const Prediction p = predict(x.m, cpu, x.sizes({{"i", 8}, {"j", 4096}, {"k", 4096}}));
  // B has a piece of 256 columns in each of its rows for each block; rows of A go on in the next chunk.
  ASSERT_TRUE(find(p, "runs of neighbours"));
  EXPECT_DOUBLE_EQ(find(p, "runs of neighbours")->amount, 4096.0 * 16);
  EXPECT_NEAR(find(p, "runs of neighbours")->seconds, 4096 * 16 * 100e-9, 1e-9);
  Predicted rows("examples/argmax.tw", "group r=8; stream j=1024", Target::Cpu);
  EXPECT_FALSE(find(predict(rows.m, cpu, rows.sizes({{"r", 64}, {"j", 65536}})), "runs of neighbours"));
}

TEST(Predict, RowsThatAreReadOnceComeBehindTheWork) {
  const MachineFile cpu = find_machine("typical-avx2");
  const auto of = [&](const std::string& file, const std::map<std::string, int64_t>& sizes) {
    Predicted x(file, "stream " + std::string(sizes.count("j") ? "j" : "c") + "=1024", Target::Cpu);
    return predict(x.m, cpu, x.sizes(sizes));
  };
  const Prediction once = of("examples/argmax.tw", {{"r", 64}, {"j", 65536}});
  EXPECT_LT(once.predicted, 0.8 * once.serial);
  EXPECT_GE(once.predicted, find(once, "memory -> L3")->seconds);
  const Prediction twice = of("examples/softmax.tw", {{"r", 64}, {"j", 65536}});
  EXPECT_DOUBLE_EQ(twice.predicted, twice.serial);
}

TEST(Predict, ClocksAreThoseOfTheCoreWhereTheyAreKnown) {
  Predicted x("examples/softmax.tw", "stream j=1024", Target::Cpu);
  MachineFile cpu = find_machine("typical-avx2");
  const auto starts = [&] {
    return find(predict(x.m, cpu, x.sizes({{"r", 64}, {"j", 65536}})), "starts of passes")->seconds;
  };
  // Two multiply-adds of eight lanes a clock, unless the clock is known.
  const double derived = starts(), hertz = cpu.fma_f32->value / 32 / cpu.cores->value;
  cpu.clock = Figure{2 * hertz, "test"};
  EXPECT_NEAR(starts(), derived / 2, derived * 1e-9);
}

TEST(Predict, RepairsRideOnProducts) {
  const auto vector_units = [](const std::string& guard) {
    Predicted x("examples/pf_global.tw", "group i=48; stream j=64; guard " + guard, Target::Cpu);
    const Prediction p =
        predict(x.m, find_machine("typical-avx2"), x.sizes({{"b", 1}, {"h", 2}, {"i", 512}, {"j", 512}}));
    return find(p, "vector units")->amount;
  };
  // Multiplying the accumulators by the repair costs nothing; a vote costs something.
  EXPECT_LT(vector_units("always"), 1.1 * vector_units("moved"));
}

TEST(Predict, EmptySizes) {
  Predicted x("examples/pf_causal.tw", "group i=128; stream j=128");
  for (const auto& [i, j] : {std::pair<int64_t, int64_t>{0, 0}, {0, 5}, {5, 0}, {1, 1}}) {
    const Prediction p =
        predict(x.m, find_machine("h100-sxm"), x.sizes({{"b", 1}, {"h", 1}, {"i", i}, {"j", j}}));
    EXPECT_TRUE(std::isfinite(p.predicted) && p.predicted >= 0) << i << " " << j;
  }
}

}  // namespace
}  // namespace tilewright::model_predict_test
