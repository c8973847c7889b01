// Every example on every target that needs no GPU, over dtypes and ragged sizes. With TILEWRIGHT_SWEEP=full every pair of sizes up to 1000 runs on
// every target; otherwise a selection that takes a minute.
#include <gtest/gtest.h>

#include "tests/support/examples.h"

namespace tilewright::testing {
namespace {

struct On {
  Target target, mapping;
};
const On kTargets[] = {{Target::Cpu, Target::Cpu}, {Target::Interp, Target::Cuda}, {Target::InterpMapped, Target::Cuda}, {Target::InterpMapped, Target::Cpu}};
const DType kTypes[] = {DType::f32, DType::f16, DType::bf16};

/// The CPU takes all pairs up to 129; interpreters a selection that meets each boundary.
bool selected(const On& on, int64_t a, int64_t b) {
  if (full_sweep()) return true;
  if (a == 1000 || b == 1000) return on.target == Target::Cpu && a * b == 129 * 1000;
  if (on.target == Target::Cpu) return true;
  return (a == 7 && b == 129) || (a == 129 && b == 64) || a * b == 0 || (a == 1 && b == 1) || (a == 129 && b == 129);
}

template <class Make>
void sweep(const Make& make) {
  for (const On& on : kTargets)
    for (DType t : kTypes)
      for (int64_t a : ragged_sizes())
        for (int64_t b : ragged_sizes())
          if (selected(on, a, b)) {
            CheckCase c = make(a, b);
            c.dtype = t;
            c.target = on.target;
            c.mapping = on.mapping;
            expect_check(c);
          }
}

CheckCase attention_case(const char* program, int64_t i, int64_t j, int64_t d) {
  CheckCase c;
  c.program = program;
  c.sizes = {{"b", 1}, {"h", 2}, {"i", i}, {"j", j}};
  c.literals = {{"d", d}, {"e", d}};
  return c;
}

TEST(CheckExamples, GlobalAttention128) { sweep([](int64_t i, int64_t j) { return attention_case("pf_global", i, j, 128); }); }
TEST(CheckExamples, GlobalAttention64) { sweep([](int64_t i, int64_t j) { return attention_case("pf_global", i, j, 64); }); }
TEST(CheckExamples, CausalAttention128) { sweep([](int64_t i, int64_t j) { return attention_case("pf_causal", i, j, 128); }); }
TEST(CheckExamples, CausalAttention64) { sweep([](int64_t i, int64_t j) { return attention_case("pf_causal", i, j, 64); }); }

TEST(CheckExamples, RowSoftmax) {
  sweep([](int64_t r, int64_t j) {
    CheckCase c;
    c.program = "softmax";
    c.sizes = {{"r", r}, {"j", j}};
    return c;
  });
}

TEST(CheckExamples, RowSoftmaxStreamed) {
  sweep([](int64_t r, int64_t j) {
    CheckCase c;
    c.program = "softmax";
    c.sizes = {{"r", r}, {"j", j}};
    c.schedule = "stream j=256";
    return c;
  });
}

TEST(CheckExamples, LayernormMatmul) {
  for (int64_t features : {0, 129, 4096})
    sweep([&](int64_t r, int64_t n) {
      CheckCase c;
      c.program = "layernorm_matmul";
      if (r * n == 1) c.slack = 8;
      c.sizes = {{"r", r}, {"n", n}};
      c.literals = {{"c", features}};
      if (features == 4096 && !full_sweep() && r * n > 129 * 64) c.sizes = {{"r", 3}, {"n", 5}};
      return c;
    });
}

TEST(CheckExamples, SplitAndMerged) {
  for (DType t : kTypes)
    for (const On& on : kTargets) {
      CheckCase c = attention_case("pf_causal", 70, 300, 64);
      c.dtype = t;
      c.target = on.target;
      c.mapping = on.mapping;
      c.schedule = "stream j=32; split j=64";
      expect_check(c);
      CheckCase l;
      l.program = "layernorm_matmul";
      l.sizes = {{"r", 5}, {"n", 70}};
      l.literals = {{"c", 1000}};
      l.dtype = t;
      l.target = on.target;
      l.mapping = on.mapping;
      l.schedule = "stream c=16; split c=64";
      expect_check(l);
    }
}

}  // namespace
}  // namespace tilewright::testing
