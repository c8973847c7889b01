// Every guard of a state on scores that are hard on it, on the GPU, by both mappings.
#include <gtest/gtest.h>

#include "tests/support/examples.h"
#include "tests/support/guards.h"
#include "tilewright/runtime/cuda.h"

namespace tilewright::testing::guards_test {
namespace {

TEST(Guards, HoldOnHardScores) {
  SKIP_WITHOUT_GPU();
  for (const char* type : {"f16", "bf16", "f32"}) expect_guards(Target::Cuda, "sm_90a", type);
}

TEST(Guards, HoldOnHardScoresByWarps) {
  SKIP_WITHOUT_GPU();
  for (const char* type : {"f16", "bf16"}) expect_guards(Target::Cuda, "sm_80", type);
}

}  // namespace
}  // namespace tilewright::testing::guards_test
