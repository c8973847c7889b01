// One query against many keys as GPUs get it: a tile with one row, parts that are merged, keys in pages that a table names; by both mappings, interpreted.
#include <gtest/gtest.h>

#include "tests/support/examples.h"

namespace tilewright::testing::single_queries_test {
namespace {

CheckCase mapped(const char* program, const char* arch, DType t) {
  CheckCase c;
  c.program = program;
  c.dtype = t;
  c.target = Target::InterpMapped;
  c.arch = arch;
  return c;
}

TEST(SingleQueries, EqualTheirDefinitions) {
  for (const char* arch : {"sm_90a", "sm_80"})
    for (const char* program : {"dc_causal", "dc_gqa", "dc_alibi", "dc_softcap"})
      for (int64_t j : {0, 1, 150, 513, 1100}) {
        CheckCase c = mapped(program, arch, j % 2 == 0 ? DType::f16 : DType::bf16);
        for (const Axis& a : example(program, c.dtype).axes)
          if (!a.size) c.sizes[a.name()] = a.name() == "j" ? j : 2;
        expect_check(c);
      }
}

/// Pages lie anywhere in the pool; sequences end inside of one.
TEST(SingleQueries, ReadKeysInPages) {
  for (const char* arch : {"sm_90a", "sm_80"})
    for (int64_t pages : {1, 7, 40}) {
      CheckCase c = mapped("paged", arch, DType::f16);
      c.sizes = {{"b", 2}, {"h", 2}, {"p", pages}, {"v", 2 * pages + 1}};
      expect_check(c);
    }
}

/// A row of one element changes no array: views with any strides are taken as before.
TEST(SingleQueries, TakeTransposedViews) {
  for (const char* arch : {"sm_90a", "sm_80"}) {
    CheckCase c = mapped("dc_causal", arch, DType::f16);
    c.sizes = {{"b", 1}, {"h", 2}, {"j", 70}};
    HostArray q = filled(DType::f16, {128, 2, 1}, Fill::Normal, 5, "Q");
    q.shape = {1, 2, 128};
    q.strides = {1, 1, 2};
    c.inputs["Q"].array = q;
    HostArray k = filled(DType::f16, {128, 70, 2, 1}, Fill::Normal, 6, "K");
    k.shape = {1, 2, 70, 128};
    k.strides = {1, 1, 2, 140};
    c.inputs["K"].array = k;
    expect_check(c);
  }
}

}  // namespace
}  // namespace tilewright::testing::single_queries_test
