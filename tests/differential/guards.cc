// Every guard of a state on scores that are hard on it, as mapped for GPUs and interpreted.
#include <gtest/gtest.h>

#include "tests/support/guards.h"

namespace tilewright::testing::guards_test {
namespace {

TEST(Guards, HoldOnHardScores) { expect_guards(Target::InterpMapped, "sm_90a", "f16"); }
TEST(Guards, HoldOnHardScoresByWarps) { expect_guards(Target::InterpMapped, "sm_80", "bf16"); }
TEST(Guards, HoldOnHardScoresInF32) { expect_guards(Target::InterpMapped, "sm_90a", "f32"); }

}  // namespace
}  // namespace tilewright::testing::guards_test
