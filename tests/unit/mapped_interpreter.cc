#include "tilewright/map/interpreter.h"

#include <gtest/gtest.h>

#include "tests/support/mapped_samples.h"

namespace tilewright::testing {
namespace {

using Mode = Adversary::Mode;

TEST(MappedInterpreter, PipelineUnderEveryMode) {
  MappedSample s = pipeline_sample();
  for (Mode mode : {Mode::Eager, Mode::Lazy}) EXPECT_LE(s.run({1, mode}), s.tolerance);
}

}  // namespace
}  // namespace tilewright::testing
