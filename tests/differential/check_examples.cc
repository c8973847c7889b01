// Every example on every target that needs no GPU, over dtypes and ragged sizes. With TILEWRIGHT_SWEEP=full every pair of sizes up to 1000 runs on
// every target; otherwise a selection that takes a minute.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <tuple>

#include "tests/support/examples.h"

namespace tilewright::testing::check_examples_test {
namespace {

struct On {
  Target target, mapping;
  const char* name;
};
const On kTargets[] = {{Target::Cpu, Target::Cpu, "Cpu"},
                       {Target::Interp, Target::Cuda, "Interp"},
                       {Target::InterpMapped, Target::Cuda, "InterpMappedCuda"},
                       {Target::InterpMapped, Target::Cpu, "InterpMappedCpu"}};
const DType kTypes[] = {DType::f32, DType::f16, DType::bf16};

/// One target and one dtype of the inputs: each pair is a test of its own, so that a full sweep can be sharded
/// (GTEST_TOTAL_SHARDS, GTEST_SHARD_INDEX).
class CheckExamples : public ::testing::TestWithParam<std::tuple<On, DType>> {
 protected:
  const On& on() const { return std::get<0>(GetParam()); }
  void expect(CheckCase c) const {
    c.dtype = std::get<1>(GetParam());
    c.target = on().target;
    c.mapping = on().mapping;
    expect_check(c);
  }
  template <class Make>
  void sweep(const Make& make) const;
};

INSTANTIATE_TEST_SUITE_P(Targets, CheckExamples,
                         ::testing::Combine(::testing::ValuesIn(kTargets), ::testing::ValuesIn(kTypes)),
                         [](const auto& of) {
                           return fmt::format("{}_{}", std::get<0>(of.param).name,
                                              name(std::get<1>(of.param)));
                         });

/// The CPU takes all pairs up to 129; interpreters a selection that meets each boundary.
bool selected(const On& on, int64_t a, int64_t b) {
  if (full_sweep()) return true;
  if (a == 1000 || b == 1000) return on.target == Target::Cpu && a * b == 129 * 1000;
  if (on.target == Target::Cpu) return true;
  return (a == 7 && b == 129) || (a == 129 && b == 64) || a * b == 0 || (a == 1 && b == 1) ||
         (a == 129 && b == 129);
}

template <class Make>
void CheckExamples::sweep(const Make& make) const {
  for (int64_t a : ragged_sizes())
    for (int64_t b : ragged_sizes())
      if (selected(on(), a, b)) expect(make(a, b));
}

CheckCase attention_case(const char* program, int64_t i, int64_t j, int64_t d) {
  CheckCase c;
  c.program = program;
  c.sizes = {{"b", 1}, {"h", 2}, {"i", i}, {"j", j}};
  c.literals = {{"d", d}, {"e", d}};
  return c;
}

TEST_P(CheckExamples, GlobalAttention128) {
  sweep([](int64_t i, int64_t j) { return attention_case("pf_global", i, j, 128); });
}
TEST_P(CheckExamples, GlobalAttention64) {
  sweep([](int64_t i, int64_t j) { return attention_case("pf_global", i, j, 64); });
}
TEST_P(CheckExamples, CausalAttention128) {
  sweep([](int64_t i, int64_t j) { return attention_case("pf_causal", i, j, 128); });
}
TEST_P(CheckExamples, CausalAttention64) {
  sweep([](int64_t i, int64_t j) { return attention_case("pf_causal", i, j, 64); });
}

TEST_P(CheckExamples, RowSoftmax) {
  sweep([](int64_t r, int64_t j) {
    CheckCase c;
    c.program = "softmax";
    c.sizes = {{"r", r}, {"j", j}};
    return c;
  });
}

TEST_P(CheckExamples, RowSoftmaxStreamed) {
  sweep([](int64_t r, int64_t j) {
    CheckCase c;
    c.program = "softmax";
    c.sizes = {{"r", r}, {"j", j}};
    c.schedule = "stream j=256";
    return c;
  });
}

CheckCase layernorm_case(int64_t r, int64_t n, int64_t features) {
  CheckCase c;
  c.program = "layernorm_matmul";
  if (r * n < 16)
    c.slack = 8;  // of a few elements the naive program, whose error is the tolerance, may be nearly exact
  c.sizes = {{"r", r}, {"n", n}};
  c.literals = {{"c", features}};
  if (features == 4096 && !full_sweep() && r * n > 129 * 64) c.sizes = {{"r", 3}, {"n", 5}};
  return c;
}

TEST_P(CheckExamples, LayernormMatmulOfNothing) {
  sweep([](int64_t r, int64_t n) { return layernorm_case(r, n, 0); });
}
TEST_P(CheckExamples, LayernormMatmul129) {
  sweep([](int64_t r, int64_t n) { return layernorm_case(r, n, 129); });
}
TEST_P(CheckExamples, LayernormMatmul4096) {
  // An interpreter takes whole tiles, each of 4096 features, whatever the sizes: those of 129 features meet every edge.
  if (on().target != Target::Cpu && !full_sweep()) return expect(layernorm_case(7, 65, 4096));
  sweep([](int64_t r, int64_t n) { return layernorm_case(r, n, 4096); });
}

TEST_P(CheckExamples, SplitAndMerged) {
  CheckCase c = attention_case("pf_causal", 70, 300, 64);
  c.schedule = "stream j=32; split j=64";
  expect(c);
  CheckCase l = layernorm_case(5, 70, 1000);
  l.schedule = "group n=64; stream c=16; split c=64";  // merging holds two states
  expect(l);
}

}  // namespace
}  // namespace tilewright::testing::check_examples_test
