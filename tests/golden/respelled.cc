// A respelled program gives the same tile program up to names.
#include <gtest/gtest.h>

#include "tests/support/examples.h"

namespace tilewright::testing::respelled_test {
namespace {

std::string tiles(const Program& p, Target target) {
  CompileOptions o;
  o.target = target;
  const Compilation c = analyse(p, o);
  return print(c.elaborated, lower(c, c.plans.back().plan), true);
}

TEST(Respelled, SameTileProgram) {
  for (Target target : {Target::Cpu, Target::Cuda}) {
    const std::string plain = tiles(example("pf_causal", DType::f16), target),
                      other = tiles(example("respelled", DType::f16), target);
    EXPECT_EQ(plain, other);
    EXPECT_GT(plain.size(), 200u);
    EXPECT_NE(plain, tiles(example("pf_global", DType::f16), target)) << "a different program must differ";
  }
}

}  // namespace
}  // namespace tilewright::testing::respelled_test
