// Attention as it is used, interpreted and on the CPU, against its definitions. The operators run at lengths from 0 to 129 in one
// type each, by turns, with few features; on the CPU those of them that differ most. Masks, layouts, blocks, head dimensions and
// numbers of query heads to a key head are interpreted. With TILEWRIGHT_SWEEP=full everything runs on both targets in every type: the
// operators with the features of the examples, up to 4096 keys, the others at ragged sizes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <tuple>

#include "tests/support/examples.h"

namespace tilewright::testing::check_workloads_test {
namespace {

using SizeMap = std::map<std::string, int64_t>;

/// A program and how its axes follow from the numbers of queries and keys.
struct Workload {
  const char* program;
  std::function<SizeMap(int64_t i, int64_t j)> sizes;
  std::map<std::string, double> params = {};
  SizeMap literals = {};
  bool quick = false;  ///< compiled for the CPU in the quick selection
};

SizeMap heads(int64_t i, int64_t j) { return {{"b", 1}, {"h", 2}, {"i", i}, {"j", j}}; }
SizeMap grouped(int64_t i, int64_t j) { return {{"b", 1}, {"k", 1}, {"g", 3}, {"i", i}, {"j", j}}; }
SizeMap one_query(int64_t, int64_t j) { return {{"b", 1}, {"h", 2}, {"j", j}}; }
SizeMap one_query_grouped(int64_t, int64_t j) { return {{"b", 1}, {"k", 1}, {"g", 3}, {"j", j}}; }

const Workload kOperators[] = {
    {"pf_global", heads},          {"pf_causal", heads},
    {"pf_alibi", heads},           {"pf_gqa", grouped, {}, {}, true},
    {"pf_softcap", grouped},       {"pf_window", grouped, {{"w", 100}}},
    {"dc_causal", one_query},      {"dc_alibi", one_query, {}, {}, true},
    {"dc_gqa", one_query_grouped}, {"dc_softcap", one_query_grouped, {}, {}, true},
};

/// Masks, layouts and blocks.
const Workload kOthers[] = {
    {"causal_start", heads},
    {"window_two_sided", heads, {{"w", 9}}},
    {"prefix_lm", heads},
    {"documents", heads},
    {"lengths", heads},
    {"dilated", heads},
    {"block_sparse",
     [](int64_t i, int64_t j) {
       return SizeMap{{"b", 1}, {"h", 2}, {"u", (i + 63) / 64}, {"v", (j + 63) / 64}};
     }},
    {"bias", heads},
    {"sinks", heads, {{"w", 30}}},
    {"packed",
     [](int64_t i, int64_t j) {
       return SizeMap{{"h", 2}, {"i", i}, {"j", j}};
     }},
    {"paged",
     [](int64_t i, int64_t j) {
       return SizeMap{{"b", 1 + i % 3}, {"h", 2}, {"p", 1 + j / 16}, {"v", 2 + j}};
     }},
    {"head_dims", grouped},
    {"mla_decode", one_query},
    {"rope", heads},
    {"attention_block",
     [](int64_t i, int64_t j) {
       return SizeMap{{"b", 1}, {"h", 2}, {"i", i}, {"j", j}, {"c", 33}};
     }},
    {"qkv_attention",
     [](int64_t i, int64_t j) {
       return SizeMap{{"b", 1}, {"k", 1}, {"g", 2}, {"i", i}, {"c", j}};
     }},
    {"llama_block",
     [](int64_t i, int64_t j) {
       return SizeMap{{"b", 1}, {"k", 1}, {"g", 2}, {"i", i}, {"c", j}, {"f", 37}};
     }},
    {"swiglu",
     [](int64_t i, int64_t j) {
       return SizeMap{{"t", i}, {"c", j}, {"f", 37}};
     }},
    {"rmsnorm_swiglu",
     [](int64_t i, int64_t j) {
       return SizeMap{{"b", i}, {"f", j}};
     }},
    {"layernorm_matmul",
     [](int64_t i, int64_t j) {
       return SizeMap{{"r", i}, {"n", j}};
     }},
    {"softmax",
     [](int64_t i, int64_t j) {
       return SizeMap{{"r", i}, {"j", j}};
     }},
};

const DType kTypes[] = {DType::f32, DType::f16, DType::bf16};

/// One target and one type: each pair is a test of its own, so that a full sweep can be sharded.
class CheckWorkloads : public ::testing::TestWithParam<std::tuple<Target, DType>> {
 protected:
  void expect(const Workload& w, int64_t i, int64_t j) const {
    CheckCase c;
    c.program = w.program;
    std::tie(c.target, c.dtype) = GetParam();
    c.sizes = w.sizes(i, j);
    c.params = w.params;
    c.literals = w.literals;
    c.sample_above = 1e9;
    if (i * j <= 4) c.slack = 4;  // few elements: the naive program's error is a matter of luck
    expect_check(c);
  }
  /// Does the quick selection run number `n` of a table in this type?
  bool turn(size_t n) const { return full_sweep() || kTypes[n % 3] == std::get<1>(GetParam()); }
};

std::string title(const ::testing::TestParamInfo<std::tuple<Target, DType>>& of) {
  return fmt::format("{}_{}", name(std::get<0>(of.param)), name(std::get<1>(of.param)));
}

class CheckOperators : public CheckWorkloads {};
INSTANTIATE_TEST_SUITE_P(Targets, CheckOperators,
                         ::testing::Combine(::testing::Values(Target::Cpu, Target::Interp),
                                            ::testing::ValuesIn(kTypes)),
                         title);

/// Interpreted in the quick selection: the command checks the examples on the CPU.
class CheckOthers : public CheckWorkloads {};
INSTANTIATE_TEST_SUITE_P(Targets, CheckOthers,
                         ::testing::Combine(::testing::ValuesIn(full_sweep()
                                                                    ? std::vector{Target::Cpu, Target::Interp}
                                                                    : std::vector{Target::Interp}),
                                            ::testing::ValuesIn(kTypes)),
                         title);

TEST_P(CheckOperators, AtManyLengths) {
  std::vector<int64_t> lengths = {0, 1, 2, 17, 129};
  if (full_sweep()) lengths.insert(lengths.end(), {1000, 4096});
  for (size_t n = 0; n < std::size(kOperators); ++n) {
    if (!turn(n)) continue;
    Workload w = kOperators[n];
    if (!full_sweep() && !w.quick && std::get<0>(GetParam()) == Target::Cpu) continue;
    if (!full_sweep()) w.literals = {{"d", 16}, {"e", 16}};
    for (int64_t s : lengths) {
      Workload at = w;
      if (s > 1000)  // one head is enough of 4096 keys
        at.sizes = [&w](int64_t i, int64_t j) {
          SizeMap sizes = w.sizes(i, j);
          for (const char* heads : {"h", "g"})
            if (sizes.count(heads)) sizes[heads] = 1;
          return sizes;
        };
      expect(at, s, s);
    }
  }
}

TEST_P(CheckOthers, MasksLayoutsAndBlocks) {
  std::vector<std::pair<int64_t, int64_t>> ragged = {{17, 33}};
  if (full_sweep())
    ragged.insert(ragged.end(), {{0, 5}, {5, 0}, {1, 1}, {1, 70}, {70, 129}, {129, 70}, {300, 300}});
  for (size_t n = 0; n < std::size(kOthers); ++n)
    for (size_t k = 0; k < ragged.size() && turn(n); ++k)
      expect(kOthers[n], ragged[k].first, ragged[k].second);
}

TEST_P(CheckOthers, HeadDimensions) {
  const std::pair<int64_t, int64_t> dims[] = {{32, 32},   {64, 64},   {72, 72},   {80, 80},
                                              {96, 96},   {112, 112}, {128, 128}, {192, 192},
                                              {256, 256}, {192, 128}, {576, 512}};
  for (size_t n = 0; n < std::size(dims); ++n) {
    if (!turn(n)) continue;
    const Workload w = {"head_dims", grouped, {}, {{"d", dims[n].first}, {"e", dims[n].second}}};
    expect(w, 17, 33);
    if (full_sweep()) expect(w, 70, 129);
  }
}

TEST_P(CheckOthers, QueryHeadsToAKeyHead) {
  const int64_t groups[] = {1, 5, 6, 7, 12, 64};
  for (size_t n = 0; n < std::size(groups); ++n) {
    if (!turn(n)) continue;
    const int64_t g = groups[n];
    const auto prompt = [g](int64_t i, int64_t j) {
      return SizeMap{{"b", 1}, {"k", 2}, {"g", g}, {"i", i}, {"j", j}};
    };
    const auto one = [g](int64_t, int64_t j) { return SizeMap{{"b", 2}, {"k", 2}, {"g", g}, {"j", j}}; };
    expect({"pf_gqa", prompt}, 17, 33);
    expect({"dc_gqa", one}, 1, 129);
  }
}

}  // namespace
}  // namespace tilewright::testing::check_workloads_test
