// Scores of any finite magnitude: an exponential of a difference is as exact as the difference.
#include "tests/support/scores.h"

namespace tilewright::testing::large_scores_test {
namespace {

TEST(LargeScores, Cpu) { expect_definition_of_scores(Target::Cpu); }
TEST(LargeScores, Interp) { expect_definition_of_scores(Target::Interp); }
TEST(LargeScores, InterpMapped) {
  expect_definition_of_scores(Target::InterpMapped);
  expect_definition_of_scores(Target::InterpMapped, Target::Cpu);
}

}  // namespace
}  // namespace tilewright::testing::large_scores_test
