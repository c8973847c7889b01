// Formulas over symbols for tile sizes and widths: at the numbers of a plan they are the formulas of that plan.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <random>

#include "tilewright/driver/compiled.h"
#include "tilewright/driver/session.h"
#include "tilewright/model/cost.h"
#include "tilewright/model/laurent.h"

namespace tilewright::model_symbols_test {
namespace {

struct Case {
  std::string program;
  /// A schedule with {} for numbers, and what they are multiples of; a number of a piece divides the number before it.
  std::string schedule;
  std::vector<int64_t> unit;
};

int64_t below(std::mt19937& gen, int64_t n) { return int64_t(gen() % uint64_t(n)); }

std::string filled(const Case& c, std::mt19937& gen) {
  std::string s = c.schedule;
  int64_t before = 1;
  for (int64_t unit : c.unit) {
    int64_t n = unit > 0 ? unit * (2 + below(gen, 7)) : before / -unit;
    before = n;
    const size_t at = s.find("{}");
    s = s.substr(0, at) + fmt::format("{}", n) + s.substr(at + 2);
  }
  return s;
}

class ModelSymbols : public ::testing::TestWithParam<Case> {};

TEST_P(ModelSymbols, EqualTheFormulasOfEveryPlan) {
  const Case& c = GetParam();
  std::mt19937 gen(7);
  const Program p = load_program(std::string(TW_SOURCE_DIR) + "/" + c.program);
  CompileOptions o;
  o.target = Target::Interp;
  o.schedule = filled(c, gen);
  const Compilation first = analyse(p, o);
  const TileProgram tiles = lower(first, first.plans.back().plan);
  const TileSymbols symbols = tile_symbols(first.elaborated, tiles);
  const Cost formula = cost(first.elaborated, tiles, symbols, false);
  const Cost smooth = cost(first.elaborated, tiles, symbols, true);
  EXPECT_TRUE(laurent(smooth.memory.loaded)) << to_string(smooth.memory.loaded);
  EXPECT_TRUE(laurent(smooth.memory.stored)) << to_string(smooth.memory.stored);
  EXPECT_TRUE(laurent(smooth.shared.loaded)) << to_string(smooth.shared.loaded);
  for (int round = 0; round < 12; ++round) {
    o.schedule = filled(c, gen);
    const Compilation other = analyse(p, o);
    const TileProgram t = lower(other, other.plans.back().plan);
    const TileSymbols numbers = tile_symbols(other.elaborated, t);
    const Cost expected = cost(other.elaborated, t);
    ASSERT_EQ(numbers.block.size(), symbols.block.size()) << o.schedule;
    for (int k = 0; k < 4; ++k) {
      std::map<Sym, int64_t> values = symbols.literal, plain = symbols.literal;
      for (const Program* q : {&first.elaborated, &other.elaborated})
        for (const Param& x : q->params) values[x.sym] = plain[x.sym] = 37;  // a window
      for (const auto& [dtype, sym] : symbols.width) values[sym] = bytes(dtype);
      // The programs are two; their axes have the same order.
      for (size_t a = 0; a < first.elaborated.axes.size(); ++a) {
        const Sym here = first.elaborated.axes[a].index, there = other.elaborated.axes[a].index;
        const int64_t size = first.elaborated.axes[a].baked()      ? 0
                             : k == 0                              ? below(gen, 3)
                             : here == tiles.plan.stream && k == 3 ? below(gen, 20000)
                                                                   : 1 + below(gen, 150);
        if (size > 0 || !first.elaborated.axes[a].baked()) values[here.size()] = plain[there.size()] = size;
        auto it = symbols.block.find(here);
        if (it == symbols.block.end()) continue;
        values[it->second] = numbers.values.at(numbers.block.at(there));
        if (symbols.piece.count(here))
          values[symbols.piece.at(here)] = numbers.values.at(numbers.piece.at(there));
      }
      auto same = [&](const char* what, Expr symbolic, Expr number) {
        EXPECT_EQ(evaluate_integer(symbolic, values), evaluate_integer(number, plain))
            << what << " " << o.schedule << "\n"
            << to_string(symbolic) << "\n"
            << to_string(number);
      };
      same("memory loaded", formula.memory.loaded, expected.memory.loaded);
      same("memory stored", formula.memory.stored, expected.memory.stored);
      same("shared loaded", formula.shared.loaded, expected.shared.loaded);
      same("shared stored", formula.shared.stored, expected.shared.stored);
      same("chunks", formula.chunks_visited, expected.chunks_visited);
      same("shared M", formula.peak_shared, expected.peak_shared);
      same("register M", formula.peak_registers, expected.peak_registers);
      for (size_t n = 0; n < expected.loaded_by_tensor.size(); ++n)
        same("by tensor", formula.loaded_by_tensor[n].second, expected.loaded_by_tensor[n].second);
      if (HasFailure()) return;
    }
    // Where tiles divide what they cut, smooth formulas are the exact ones.
    Bindings values;
    std::map<Sym, int64_t> whole = symbols.literal;
    for (const Param& x : first.elaborated.params) whole[x.sym] = 37;
    for (const auto& [dtype, sym] : symbols.width) whole[sym] = bytes(dtype);
    for (size_t a = 0; a < first.elaborated.axes.size(); ++a) {
      const Sym here = first.elaborated.axes[a].index, there = other.elaborated.axes[a].index;
      int64_t unit = 1;
      if (auto it = symbols.block.find(here); it != symbols.block.end()) {
        unit = whole[it->second] = numbers.values.at(numbers.block.at(there));
        if (symbols.piece.count(here))
          whole[symbols.piece.at(here)] = numbers.values.at(numbers.piece.at(there));
      }
      if (tiles.plan.split > 0 && here == tiles.plan.stream) unit = tiles.plan.split;
      // A resident axis is at most full.
      const int64_t tiles_of_axis = tiles.plan.resident && here == tiles.plan.stream ? 1 : 1 + below(gen, 4);
      if (!first.elaborated.axes[a].baked()) whole[here.size()] = unit * tiles_of_axis;
    }
    for (const Visits& v : visits(first.elaborated, tiles, symbols)) {
      const double all = double(evaluate_integer(v.all, whole));
      if (symbols.visited.count(v.loop))
        values[symbols.visited.at(v.loop)] = double(evaluate_integer(v.elements, whole)) / all;
    }
    if (symbols.split) whole[symbols.split] = tiles.plan.split;
    for (const auto& [sym, n] : whole) values[sym] = double(n);
    const double exact = double(evaluate_integer(formula.memory.loaded, whole)),
                 close = evaluate(smooth.memory.loaded, values);
    EXPECT_NEAR(close, exact, 1e-9 * exact) << o.schedule << "\n" << to_string(smooth.memory.loaded);
    EXPECT_NEAR(evaluate(smooth.memory.stored, values),
                double(evaluate_integer(formula.memory.stored, whole)), 1e-6);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Programs, ModelSymbols,
    ::testing::Values(
        Case{"examples/pf_global.tw", "group i={}/{}; stream j={}; stages 2", {8, -2, 5}},
        Case{"examples/pf_causal.tw", "group i={}/{}; stream j={}; keep Q; guard speculative", {6, -3, 4}},
        Case{"examples/pf_window.tw", "group i={}; stream j={}; guard threshold", {3, 7}},
        Case{"examples/window_two_sided.tw", "group i={}; stream j={}", {4, 6}},
        Case{"examples/pf_gqa.tw", "group k=1, g={}, i={}; stream j={}", {1, 8, 16}},
        Case{"examples/dc_gqa.tw", "stream j={}; split j=5040", {2}},
        Case{"examples/softmax.tw", "stream j={}", {16}}, Case{"examples/softmax.tw", "resident j={}", {128}},
        Case{"bench/product.tw", "group i={}/{}, j={}; stream k={}", {4, -2, 3, 8}},
        Case{"examples/layernorm_matmul.tw", "group r={}, n={}; stream c={}", {8, 8, 16}},
        Case{"examples/gated_mlp.tw", "group t={}, f={}/{}; stream c={}", {8, 8, -4, 16}},
        Case{"examples/documents.tw", "group i={}; stream j={}; bounds tested", {8, 16}},
        Case{"examples/logsumexp.tw", "stream j={}", {32}}),
    [](const auto& test) {
      std::string name = fmt::format("{}_{}", test.index, test.param.program);
      for (char& c : name)
        if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
      return name;
    });

}  // namespace
}  // namespace tilewright::model_symbols_test
