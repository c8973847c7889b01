// Products of f16 arrays whose made operand leaves the range of f16: large, infinite and NaN elements among ordinary ones.
#pragma once
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/examples.h"
#include "tilewright/driver/session.h"

namespace tilewright::testing {

/// `check` passes for y = Σ_c x·gamma·W, where x·gamma is 360000 (row 3), infinite (row 5) and NaN (row 40) in places, and in range elsewhere; a last chunk
/// and a last block are ragged.
inline void expect_wide_operands(Target target, Target mapping = Target::Cuda) {
  const Program p = parse_program(std::make_shared<SourceText>(
      SourceText{"wide.tw",
                 "axis r, n, c\ninput x[r, c] : f16\ninput gamma[c] : f16\ninput W[c, n] : f16\n"
                 "y[r, n] = sum[c](x * gamma * W)\noutput y : f32\n"}));
  CompileOptions options;
  options.target = target;
  options.mapping = mapping;
  constexpr int64_t rows = 70, features = 200, columns = 40;
  SessionOptions s;
  s.sizes = {{"r", rows}, {"n", columns}, {"c", features}};
  HostArray x = filled(DType::f16, {rows, features}, Fill::Normal, 1, "x"),
            gamma = filled(DType::f16, {features}, Fill::Normal, 2, "gamma");
  const auto set = [&](int64_t r, int64_t c, double value) {
    store_element(DType::f16, x.data.get(), r * features + c, value);
  };
  store_element(DType::f16, gamma.data.get(), 7, 600);
  store_element(DType::f16, gamma.data.get(), 199, 600);
  for (int64_t r = 0; r < rows; ++r) set(r, 7, 0.5), set(r, 199, -0.25);
  set(3, 7, 600);
  set(3, 199, -600);
  set(5, 20, INFINITY);
  set(40, 130, NAN);
  s.inputs["x"].array = x;
  s.inputs["gamma"].array = gamma;
  Session session(p, options, s);
  session.run(0, 1);
  for (const OutputCheck& c : session.check())
    EXPECT_TRUE(c.comparison.passed) << c.comparison.reason << ", error " << c.comparison.error << ", got "
                                     << c.got << ", expected " << c.expected;
}

}  // namespace tilewright::testing
