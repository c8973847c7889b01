// The steps from a definition to hardware: their formulas against cost(), the chart of units, and what is said where a step does not apply.
#include <gtest/gtest.h>

#include <set>

#include "tilewright/explain/formula.h"
#include "tilewright/explain/overlap.h"
#include "tilewright/explain/steps.h"
#include "tilewright/explain/unfused.h"
#include "tilewright/tile/lifetime.h"

namespace tilewright::testing::explain_steps_test {
namespace {

using namespace tilewright::explain;

struct Made {
  CompiledProgram program;
  StepOptions options;
  std::vector<Step> steps;
  const Step& step(const std::string& name) const {
    for (const Step& s : steps)
      if (s.name == name) return s;
    ADD_FAILURE() << "no step " << name;
    return steps.front();
  }
};

Made make(const std::string& file, const std::map<std::string, int64_t>& sizes,
          const std::string& schedule = {}, const std::string& machine = "h200") {
  Made m;
  m.options.machine = find_machine(machine);
  m.options.compile.target = m.options.machine.gpu ? Target::Interp : Target::Cpu;
  m.options.compile.host_steps = !m.options.machine.gpu;
  m.options.compile.schedule = schedule;
  m.options.sizes = sizes;
  m.program = compile_program(load_program(std::string(TW_SOURCE_DIR) + "/examples/" + file + ".tw"),
                              m.options.compile);
  m.steps = steps_of(m.program, m.options);
  return m;
}

int64_t moved(const Program& p, const TileProgram& t, const std::map<std::string, int64_t>& sizes) {
  std::map<Sym, int64_t> values;
  for (const Axis& a : t.axes) {
    if (const auto it = sizes.find(a.name()); it != sizes.end()) values[a.index.size()] = it->second;
    if (a.baked()) values[a.index.size()] = a.size.rational()->num();
  }
  for (const Axis& a : t.axes)
    if (a.size && !values.count(a.index.size())) values[a.index.size()] = evaluate_integer(a.size, values);
  const Cost c = cost(p, t);
  return evaluate_integer(c.memory.loaded, values) + evaluate_integer(c.memory.stored, values);
}

/// H of every step of a kernel is, at numbers, the cost() of its tile program, and M what is live in it at most.
TEST(ExplainSteps, FormulasAreThoseOfCost) {
  struct Case {
    const char *file, *schedule;
    std::map<std::string, int64_t> sizes;
  };
  for (const Case& c :
       {Case{"napkin/attention", "", {{"q", 300}, {"x", 700}}},
        Case{"pf_causal", "", {{"b", 2}, {"h", 3}, {"i", 200}, {"j", 333}}},
        Case{"layernorm_matmul", "group r=128/64, n=256; stream c=64", {{"r", 130}, {"n", 70}}},
        Case{"napkin/product", "group a=64, c=32; stream b=16", {{"a", 100}, {"b", 90}, {"c", 70}}},
        Case{"softmax", "", {{"r", 5}, {"j", 20000}}}}) {
    SCOPED_TRACE(c.file);
    const Made m = make(c.file, c.sizes, c.schedule);
    const Compilation& kernel = m.program.kernels[0];
    const TileProgram tiles = lower(kernel, plan_for(kernel, c.sizes));
    const int64_t expected = moved(kernel.elaborated, tiles, c.sizes);
    const Peak peak = live_peak(tiles.kernels[0]);
    for (const Step& s : m.steps) {
      SCOPED_TRACE(s.name);
      for (const StepFormula& x : s.formulas) {
        if (!x.exact) continue;
        ASSERT_TRUE(x.value) << x.name;
        const auto value = value_of(x.exact, x.numbers);
        if (value) {
          EXPECT_EQ(*value, *x.value) << x.name;
        }
        if (s.name == "definition" || s.name == "stream") continue;
        if (x.name == "H") {
          EXPECT_EQ(*x.value, double(expected));
        }
        if (x.name == "M shared") {
          EXPECT_EQ(*x.value, double(peak.shared));
        }
        if (x.name == "M registers") {
          EXPECT_EQ(*x.value, double(peak.registers));
        }
      }
    }
  }
}

/// Before grouping a block holds everything: the cost() of the plan whose blocks are as large as their axes.
TEST(ExplainSteps, StreamingAloneIsOneBlock) {
  const std::map<std::string, int64_t> sizes{{"q", 256}, {"x", 640}};
  const Made m = make("napkin/attention", sizes);
  const Made whole = make("napkin/attention", sizes, "group q=256; stream x=128; keep Q");
  const Compilation& kernel = whole.program.kernels[0];
  const int64_t expected = moved(kernel.elaborated, lower(kernel, kernel.plans[0].plan), sizes);
  EXPECT_EQ(*m.step("stream").formulas[0].value, double(expected));
  EXPECT_EQ(expected, 2 * 256 * 128 + 2 * 2 * 640 * 128 + 2 * 256 * 128);
  EXPECT_GT(*m.step("group").formulas[0].value, double(expected));
}

/// The unfused program: each statement's kernel costs what cost() says, and every array crosses at least once.
TEST(ExplainSteps, StatementsAlone) {
  const std::map<std::string, int64_t> sizes{{"b", 1}, {"h", 2}, {"i", 200}, {"j", 333}};
  const Made m = make("pf_causal", sizes);
  int64_t sum = 0;
  std::vector<std::string> between;
  for (const UnfusedKernel& k : unfused(m.program.program, m.options.compile, sizes)) {
    ASSERT_TRUE(k.kernel) << k.refused;
    sum += moved(k.kernel->compilation.elaborated, k.kernel->tiles, sizes);
    if (k.between) between.push_back(k.statement);
  }
  EXPECT_EQ(between, (std::vector<std::string>{"S", "C", "P"}));
  const Step& s = m.step("definition");
  double h = 0, once = 0;
  for (const StepFormula& x : s.formulas) {
    if (x.name == "H") h = *x.value;
    if (x.name == "H once") once = *x.value;
    if (x.name == "between") {
      EXPECT_EQ(*x.value, 3.0 * 4 * 2 * 200 * 333);
    }
  }
  EXPECT_EQ(h, double(sum));
  // Scores, masked scores and probabilities in f32, each written and read; operands and the result in f16.
  EXPECT_GE(once, 2 * 3 * 4.0 * 2 * 200 * 333 + 2.0 * 2 * 128 * (200 + 333 + 333 + 200));
  EXPECT_LE(once, h);
}

TEST(ExplainSteps, NamesInOrder) {
  const auto names = [](const Made& m) {
    std::vector<std::string> all;
    for (const Step& s : m.steps) all.push_back(s.name);
    return all;
  };
  const std::vector<std::string> one{"definition",     "stream",   "group",        "expand",
                                     "sub-loops",      "recolour", "divisibility", "lifetimes",
                                     "configurations", "clocks",   "overlap"};
  EXPECT_EQ(names(make("napkin/attention", {})), one);
  std::vector<std::string> split = one;
  split.insert(split.begin() + 3, "split");
  EXPECT_EQ(names(make("dc_gqa", {}, "group b=1, k=1, g=64; stream j=64; split j=1024; keep Q")), split);
  const Made several = make("swiglu", {});
  EXPECT_EQ(several.step("kernels").applies, several.program.several());
  std::set<std::string> kernels;
  for (const Step& s : several.steps) kernels.insert(s.kernel);
  EXPECT_EQ(kernels.size(), several.program.kernels.size() + 1);
}

TEST(ExplainSteps, WhatDoesNotApplySaysWhy) {
  const Made cpu = make("napkin/attention", {}, "", "this-cpu");
  EXPECT_FALSE(cpu.step("clocks").applies);
  EXPECT_NE(cpu.step("clocks").changed.find("no clock"), std::string::npos) << cpu.step("clocks").changed;
  EXPECT_NE(cpu.step("recolour").changed.find("No product runs on a matrix unit"), std::string::npos);
  const Made passes = make("softmax", {}, "group r=1; stream j=256");
  EXPECT_NE(passes.step("stream").changed.find("One pass does not carry all of it"), std::string::npos)
      << passes.step("stream").changed;
  const Made refused = make("refused_round", {}, "", "this-cpu");
  EXPECT_NE(refused.step("stream").changed.find("round("), std::string::npos)
      << refused.step("stream").changed;
  const Made ampere = make("napkin/attention", {}, "", "a100");
  EXPECT_NE(ampere.step("overlap").changed.find("compute capability 9.0"), std::string::npos);
}

TEST(ExplainSteps, Divisors) {
  const Made m = make("napkin/attention", {});
  const Table& t = m.step("divisibility").tables.at(0);
  for (const auto& row : t.rows) {
    if (row[0] == "g_q") {
      EXPECT_EQ(row[1], "64") << row[2];
    }
    if (row[0] == "s_x") {
      EXPECT_EQ(row[1], "16") << row[2];
    }
  }
  const Made product = make("napkin/product", {}, "group a=64, c=64; stream b=64");
  std::map<std::string, std::string> of;
  for (const auto& row : product.step("divisibility").tables.at(0).rows) of[row[0]] = row[1];
  // A lies along b, B along c: lines of 128 bytes hold 64 elements of f16.
  EXPECT_EQ(of, (std::map<std::string, std::string>{{"g_a", "64"}, {"g_c", "64"}, {"s_b", "64"}}));
}

TEST(ExplainSteps, Formulas) {
  const Made m = make("napkin/attention", {});
  EXPECT_EQ(m.step("group").formulas[0].text, "2·q·d + 2·q·e + 2·q·x·d/g_q + 2·q·x·e/g_q");
  EXPECT_EQ(m.step("stream").formulas[0].text, "2·q·d + 2·q·e + 2·x·d + 2·x·e");
  EXPECT_EQ(m.step("stream").formulas[1].text.find("·q·x"), std::string::npos)
      << "M is free of the whole of x";
}

/// No unit serves two groups at a time, each group goes in order, and overlap is no faster than its longest unit.
TEST(ExplainSteps, TurnsAtUnits) {
  const Made m = make("pf_causal", {{"b", 1}, {"h", 8}, {"i", 4096}, {"j", 4096}});
  const Compilation& c = m.program.kernels[0];
  const Planned k(c, plan_for(c, m.options.sizes));
  const auto budget = clock_budget(k.model, m.options.machine, numbers(k, m.options.sizes));
  ASSERT_TRUE(budget);
  for (int groups : {1, 2, 3}) {
    const auto o = overlap(*budget, groups, 2, 6);
    ASSERT_TRUE(o);
    std::map<std::string, double> free_at;
    std::map<int, double> ready;
    std::map<std::string, double> work;
    for (const Turn& t : o->turns) {
      if (t.unit != "load") {
        EXPECT_GE(t.begin, ready[t.group]);
        ready[t.group] = t.end;
      }
      work[t.unit] += t.end - t.begin;
    }
    std::vector<Turn> sorted = o->turns;
    std::sort(sorted.begin(), sorted.end(), [](const Turn& a, const Turn& b) { return a.begin < b.begin; });
    for (const Turn& t : sorted) {
      EXPECT_GE(t.begin, free_at[t.unit]);
      free_at[t.unit] = t.end;
    }
    double longest = 0;
    for (const auto& [unit, n] : work) longest = std::max(longest, n / 6);
    EXPECT_GE(o->chunk_clocks, longest * (1 - 1e-9));
    EXPECT_LE(o->chunk_clocks, o->serial * (1 + 1e-9));
    if (groups == 1) {
      EXPECT_NEAR(o->chunk_clocks, o->serial, 1e-6 * o->serial);
    }
    if (groups > 1) {
      EXPECT_LT(o->chunk_clocks, o->serial);
    }
  }
}

TEST(ExplainSteps, PagesReferToNothing) {
  Made m = make("napkin/attention", {{"q", 4096}, {"x", 4096}});
  m.options.pictures = true;
  const std::vector<Step> steps = steps_of(m.program, m.options);
  const std::string html = to_html(m.program, m.options, steps);
  for (const char* word : {"<script", "src=", "url(", "@import", "<link", "http-equiv"})
    EXPECT_EQ(html.find(word), std::string::npos) << word;
  size_t at = 0;
  while ((at = html.find("http", at)) != std::string::npos) {
    EXPECT_EQ(html.compare(at, 26, "http://www.w3.org/2000/svg"), 0) << html.substr(at, 40);
    ++at;
  }
  // Every link has a place.
  for (at = 0; (at = html.find("href=\"#", at)) != std::string::npos; ++at) {
    const std::string id = html.substr(at + 7, html.find('"', at + 7) - at - 7);
    EXPECT_NE(html.find("id=\"" + id + "\""), std::string::npos) << id;
  }
  const nlohmann::ordered_json j = to_json(m.program, m.options, steps);
  EXPECT_EQ(j["steps"].size(), steps.size());
  EXPECT_TRUE(j["steps"][1].contains("svg"));
}

}  // namespace
}  // namespace tilewright::testing::explain_steps_test
