// Plans by the model: what is enumerated is legal and priced as the plan itself, orders follow the machine, races, plans as JSON.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <chrono>
#include <ctime>
#include <set>
#include <thread>

#include "tilewright/driver/ranked.h"
#include "tilewright/driver/tune.h"
#include "tilewright/search/plan_file.h"
#include "tilewright/search/race.h"

namespace tilewright::search_test {
namespace {

struct Searched {
  CompiledProgram c;
  CompileOptions options;
  Sizes sizes;
  Searched(const std::string& file, const std::map<std::string, int64_t>& given,
           Target target = Target::Cpu) {
    options.target = target;
    options.host_steps = target == Target::Cpu;
    c = compile_program(load_program(std::string(TW_SOURCE_DIR) + "/" + file), options);
    sizes = all_sizes(c, given);
  }
  const Compilation& kernel() const { return c.kernels[0]; }
  const Plan& base() const {
    size_t k = 0;
    while (k + 1 < kernel().plans.size() && !kernel().plans[k].when.admits(sizes)) ++k;
    return kernel().plans[k].plan;
  }
  Ranking ranking(const MachineFile& m) const {
    return rank(kernel().elaborated, kernel().derivation, base(), m, sizes);
  }
};

MachineFile cpu_machine() {
  MachineFile m = find_machine("typical-avx2");
  m.cores->value = 2;
  return m;
}

const std::vector<std::pair<std::string, std::map<std::string, int64_t>>>& programs() {
  static const std::vector<std::pair<std::string, std::map<std::string, int64_t>>> all{
      {"examples/pf_causal.tw", {{"b", 1}, {"h", 4}, {"i", 1024}, {"j", 1024}}},
      {"examples/dc_gqa.tw", {{"b", 1}, {"k", 2}, {"g", 8}, {"j", 16384}}},
      {"examples/softmax.tw", {{"r", 512}, {"j", 8192}}},
      {"bench/product.tw", {{"i", 1024}, {"k", 1024}, {"j", 1024}}}};
  return all;
}

TEST(Search, EnumeratesLegalPlansWithTheDefaultAmongThem) {
  for (const auto& [file, given] : programs())
    for (Target target : {Target::Cpu, Target::Interp}) {
      const Searched s(file, given, target);
      const MachineFile machine = target == Target::Cpu ? cpu_machine() : find_machine("h200");
      const std::string own = print(s.c.program, s.base());
      int found = 0;
      size_t all = 0;
      std::set<std::string> texts;
      for (const Family& f :
           families(s.kernel().elaborated, s.kernel().derivation, s.base(), machine, s.sizes)) {
        std::vector<size_t> at(f.dials.size(), 0);
        for (const Dial& dial : f.dials) {
          EXPECT_TRUE(std::is_sorted(dial.values.begin(), dial.values.end()));
          ASSERT_FALSE(dial.values.empty()) << file;
        }
        for (bool more = true; more; ++all) {
          std::vector<int64_t> values;
          for (size_t k = 0; k < at.size(); ++k) values.push_back(f.dials[k].values[at[k]]);
          const Plan plan = with_values(f, values);
          EXPECT_NO_THROW(check_plan(s.kernel().elaborated, s.kernel().derivation, plan))
              << print(s.c.program, plan);
          const std::string text = print(s.c.program, plan);
          EXPECT_TRUE(texts.insert(text).second) << file << " twice: " << text;
          found += text == own;
          size_t k = 0;
          while (k < at.size() && ++at[k] == f.dials[k].values.size()) at[k++] = 0;
          more = k < at.size();
        }
      }
      EXPECT_EQ(found, 1) << file << " " << own;
      EXPECT_GT(all, 5u) << file;
    }
}

TEST(Search, PricesAPlanOfAFamilyAsThePlanItself) {
  for (const auto& [file, given] : programs()) {
    const Searched s(file, given);
    const Ranking r = s.ranking(cpu_machine());
    ASSERT_GT(r.plans.size(), 4u);
    for (size_t n = 0; n < r.plans.size(); n += 1 + r.plans.size() / 5) {
      // With the plan as the base its own tile program stands for its family.
      const Ranking own =
          rank(s.kernel().elaborated, s.kernel().derivation, r.plans[n].plan, cpu_machine(), s.sizes);
      const RankedPlan& x = own.plans.at(own.place_of_default());
      EXPECT_NEAR(x.seconds, r.plans[n].seconds, 1e-9 * x.seconds)
          << file << " " << print(s.c.program, x.plan);
      EXPECT_EQ(x.held, r.plans[n].held);
      EXPECT_NEAR(x.transfers, r.plans[n].transfers, 1e-12 * x.transfers);
    }
  }
}

TEST(Search, PredictsGpuPlansAsTheModelDoes) {
  for (const char* file : {"examples/pf_global.tw", "examples/pf_causal.tw"}) {
    const Searched s(file, {{"b", 1}, {"h", 16}, {"i", 4096}, {"j", 4096}}, Target::Interp);
    const MachineFile machine = find_machine("h200");
    const Ranking r = s.ranking(machine);
    for (size_t n = 0; n < r.plans.size(); n += 1 + r.plans.size() / 5) {
      if (r.plans[n].plan.split > 0) continue;
      const TileProgram t = lower(s.kernel(), r.plans[n].plan);
      const Model m = model_of(s.kernel().elaborated, t);
      const Prediction p = predict(m, machine, values_of(m, s.sizes));
      // Tiles that do not divide the axis are smooth under a mask.
      EXPECT_NEAR(p.predicted, r.plans[n].seconds, 0.1 * p.predicted) << print(s.c.program, r.plans[n].plan);
      EXPECT_EQ(p.bound_by, r.plans[n].bound_by);
    }
  }
}

TEST(Search, PredictsCpuPlansAsTheModelDoes) {
  for (const auto& [file, given] : programs()) {
    const Searched s(file, given);
    const MachineFile machine = cpu_machine();
    const Ranking r = s.ranking(machine);
    for (size_t n = 0; n < r.plans.size(); n += 1 + r.plans.size() / 7) {
      const TileProgram t = lower(s.kernel(), r.plans[n].plan);
      const Model m = model_of(s.kernel().elaborated, t);
      const Prediction p = predict(m, machine, values_of(m, s.sizes));
      EXPECT_NEAR(p.predicted, r.plans[n].seconds, 0.1 * p.predicted)
          << file << " " << print(s.c.program, r.plans[n].plan);
    }
  }
}

TEST(Search, OrdersByTimeAndFollowsTheMachine) {
  const Searched s("examples/pf_causal.tw", {{"b", 1}, {"h", 4}, {"i", 1024}, {"j", 1024}});
  const MachineFile machine = cpu_machine();
  const Ranking r = s.ranking(machine);
  EXPECT_TRUE(std::is_sorted(r.plans.begin(), r.plans.end(),
                             [](const RankedPlan& a, const RankedPlan& b) { return a.seconds < b.seconds; }));
  ASSERT_LT(r.place_of_default(), r.plans.size());
  EXPECT_GT(r.plans[0].seconds, 0);
  // A machine twice as fast in everything takes half the time, but for tasks.
  MachineFile fast = machine;
  for (MaybeFigure* rate :
       {&fast.fma_f32, &fast.special, &fast.products, &fast.quotients, &fast.tangents, &fast.conversions})
    (*rate)->value *= 2;
  if (fast.launch) fast.launch->value /= 2;
  for (MemoryLevel& l : fast.levels)
    for (MaybeFigure* rate : {&l.bandwidth, &l.writes})
      if (*rate) (*rate)->value *= 2;
  const Ranking twice = s.ranking(fast);
  ASSERT_EQ(twice.plans.size(), r.plans.size());
  for (size_t n = 0; n < r.plans.size(); ++n) {  // tasks cost what they cost
    EXPECT_GE(twice.plans[n].seconds, r.plans[n].seconds / 2 - 1e-12);
    EXPECT_LE(twice.plans[n].seconds, r.plans[n].seconds);
  }
  EXPECT_LT(twice.plans[0].seconds, 0.6 * r.plans[0].seconds);
  // Less memory for a block never adds a plan.
  MachineFile small = machine;
  for (MemoryLevel& l : small.levels)
    if (l.role == "shared") l.capacity->value = 64 << 10;
  const Ranking fewer = s.ranking(small);
  EXPECT_LT(fewer.plans.size(), r.plans.size());
  EXPECT_GT(fewer.too_large, r.too_large);
  // What holds too much is left out, but for the default.
  const bool own = fewer.plans.at(fewer.place_of_default()).too_large;
  EXPECT_EQ(fewer.enumerated, fewer.plans.size() + fewer.too_large - own + fewer.refused);
  for (const RankedPlan& x : fewer.plans) EXPECT_TRUE(x.held <= 64 << 10 || x.is_default);
}

TEST(Search, TakesLessThanThreeTenthsOfASecond) {
  for (const auto& [file, given] : programs()) {
    const Searched s(file, given);
    const std::clock_t begin = std::clock();  // of this process: others may run
    const auto all = rank_plans(s.c, s.options, cpu_machine(), s.sizes, 12);
    EXPECT_LT(double(std::clock() - begin) / CLOCKS_PER_SEC, 0.3) << file << " " << all[0].ranking.enumerated;
  }
}

TEST(Search, AProcessorThatIsNotCalibratedHasTypicalRates) {
  MachineFile bare = detect_cpu();
  ASSERT_FALSE(bare.fma_f32);
  const MachineFile m = with_rates(bare);
  ASSERT_TRUE(m.fma_f32 && m.special);
  EXPECT_EQ(m.cores->value, bare.cores->value);
  EXPECT_TRUE(m.sources.count(m.fma_f32->source));
  EXPECT_NE(m.about.find("not calibrated"), std::string::npos);
  EXPECT_EQ(with_rates(find_machine("h200")).name, find_machine("h200").name);
}

TEST(Race, GivesUpTheHopelessAndKeepsTheFirst) {
  std::vector<int> runs(5, 0);
  const std::vector<double> times{10, 1, 1.1, 1.5, 3};
  const std::vector<Contender> all = race(
      6,
      [&](size_t k) {
        if (k == 5) throw UserError(Span{}, "it does not run", "");
        ++runs[k];
        return times[k];
      },
      RaceOptions{100, 5, 1.3});
  EXPECT_EQ(runs, (std::vector<int>{5, 5, 5, 3, 1}));  // the first is slow, and the measure of the others
  EXPECT_EQ(all[5].failed, "it does not run");
  EXPECT_EQ(all[1].median(), 1.0);
  EXPECT_EQ(all[5].median(), __builtin_inf());
  // No contender begins that would not end in time, by what others took; those that have begun go on.
  {
    std::vector<int> begun(4, 0);
    const auto wait = [&](size_t k) {
      std::this_thread::sleep_for(std::chrono::milliseconds(begun[k]++ == 0 && k > 0 ? 60 : 1));
      return 1.0;
    };
    race(4, wait, RaceOptions{0.1, 3, 1.3});
    EXPECT_EQ(begun, (std::vector<int>{3, 3, 0, 0}));
  }
  // Without a budget the first alone runs.
  runs.assign(5, 0);
  race(
      3, [&](size_t k) { return ++runs[k], 1.0; }, RaceOptions{-1, 5, 1.3});
  EXPECT_EQ(runs, (std::vector<int>{1, 0, 0, 0, 0}));
}

TEST(Search, ResidentRowsAreTakenSeveralAtATime) {
  const auto chosen = [](const std::string& file, const std::string& along, int64_t rows, int64_t length) {
    const Searched s(file, {{"r", rows}, {along, length}});
    return std::pair(s.base().group.back().block, s.base().chunk);
  };
  // What is read once comes a row at a time, the next chunk of it brought near.
  EXPECT_EQ(chosen("examples/variance.tw", "c", 1000, 5000), std::pair(int64_t(1), int64_t(1024)));
  EXPECT_EQ(chosen("examples/logsumexp.tw", "j", 1000, 100000), std::pair(int64_t(1), int64_t(1024)));
  EXPECT_EQ(chosen("examples/argmax.tw", "j", 64, 5000), std::pair(int64_t(1), int64_t(1024)));
  // A row of weights beside the rows: a vector of rows, and chunks that make tiles of 16 KiB.
  const auto [block, chunk] = chosen("examples/layernorm.tw", "c", 1000, 5000);
  EXPECT_EQ(block * chunk, 2048);
  // Resident rows: several while they are short.
  EXPECT_EQ(chosen("examples/softmax.tw", "j", 1000, 5000).first, 4);
  EXPECT_EQ(chosen("examples/softmax.tw", "j", 1000, 20000).first, 1);
  EXPECT_EQ(chosen("examples/softmax.tw", "j", 30, 5000).first, 1);
}

TEST(Search, StreamsAreSplitWhereRowsAreFew) {
  const auto split = [](const std::string& file, const std::map<std::string, int64_t>& sizes) {
    return Searched(file, sizes).base().split;
  };
  const auto heads = [&](int64_t b, int64_t h, int64_t j) {
    return split("examples/mla_decode.tw", {{"b", b}, {"h", h}, {"j", j}});
  };
  // Where parts are all the tasks that there are they are short.
  EXPECT_EQ(heads(1, 128, 8192), 512);
  EXPECT_EQ(heads(8, 128, 4096), 0);
  EXPECT_EQ(heads(8, 128, 8192), 2048);
  EXPECT_EQ(heads(1, 128, 32768), 2048);
  EXPECT_EQ(heads(1, 1024, 32768), 0);
  EXPECT_EQ(split("examples/dc_gqa.tw", {{"b", 1}, {"k", 8}, {"g", 4}, {"j", 4096}}), 0);
  EXPECT_EQ(split("examples/dc_gqa.tw", {{"b", 1}, {"k", 1}, {"g", 4}, {"j", 4096}}), 512);
  EXPECT_EQ(split("examples/pf_global.tw", {{"b", 1}, {"h", 8}, {"i", 300}, {"j", 8192}}), 2048);
  EXPECT_EQ(split("examples/pf_global.tw", {{"b", 1}, {"h", 8}, {"i", 500}, {"j", 8192}}), 0);
}

TEST(Tune, RunsTheFastestAgain) {
  const Program p = load_program(std::string(TW_SOURCE_DIR) + "/examples/softmax.tw");
  CompileOptions o;
  SessionOptions s;
  s.sizes = {{"r", 4}, {"j", 64}};
  TuneOptions t;
  t.best = 5;
  t.finals = 2;
  t.race.rounds = 2;
  t.race.hopeless = 1e9;  // times of microseconds decide nothing here
  const Tuned tuned = tune(p, o, s, cpu_machine(), t);
  size_t again = 0;
  for (const TunedPlan& x : tuned.plans) again += x.measured.seconds.size() == 4;
  EXPECT_GE(again, std::min<size_t>(tuned.plans.size(), 3));
  EXPECT_LE(again, 4u);  // two, the default, and the first by prediction
}

TEST(Tune, BeginsNoPlanBeyondItsBudget) {
  const Program p = load_program(std::string(TW_SOURCE_DIR) + "/examples/softmax.tw");
  CompileOptions o;
  SessionOptions s;
  s.sizes = {{"r", 4}, {"j", 64}};
  TuneOptions t;
  t.best = 6;
  t.race.budget = 1e-3;
  const Tuned tuned = tune(p, o, s, cpu_machine(), t);
  ASSERT_GT(tuned.plans.size(), 2u);
  // The default is compiled and runs once, whatever that takes.
  EXPECT_EQ(tuned.winner, 0u);
  EXPECT_GE(tuned.plans[0].measured.seconds.size(), 1u);
  EXPECT_GT(tuned.default_seconds, t.race.budget);
  for (size_t n = 1; n < tuned.plans.size(); ++n)
    EXPECT_TRUE(tuned.plans[n].measured.seconds.empty()) << tuned.plans[n].schedule;
}

TEST(PlanFile, RoundTripsASchedule) {
  const std::string schedule =
      "when j <= 1024: group r=1; resident j=1024\notherwise: group r=1; stream j=4096";
  const std::string text = plan_file("softmax", "cpu", schedule).dump(1);
  EXPECT_TRUE(is_plan_file(text));
  EXPECT_TRUE(is_plan_file("  \n{"));
  EXPECT_FALSE(is_plan_file(schedule));
  EXPECT_EQ(schedule_of(text, "plan.json", "softmax"), schedule);
  // Every plan of a kernel, printed into JSON, compiles to itself.
  const Searched s("examples/softmax.tw", {{"r", 64}, {"j", 1024}});
  CompileOptions o;
  o.schedule = plan_file(s.c.program.name, "cpu", plan_text(s.c)).dump();
  EXPECT_EQ(plan_text(compile_program(s.c.program, o)), plan_text(s.c));
}

}  // namespace
}  // namespace tilewright::search_test
