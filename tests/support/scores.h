// Programs whose scores are far from 0: finite stand-ins for -inf behind a mask, large scales, large offsets.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tilewright/driver/session.h"

namespace tilewright::testing {

/// Scores S * scale + offset where a key is seen, the stand-in elsewhere, and both under a further scale.
struct Scores {
  double stand_in = -1, scale = 1, offset = 0;
};

/// Every value runs through one compiled kernel for each program. Rows that see nothing but the stand-in average all values, as the definition says.
/// `schedule` is for the programs that stream over j; rows take their defaults.
inline void expect_definition_of_scores(Target target, Target mapping = Target::Cuda,
                                        const std::string& schedule = "") {
  const std::vector<Scores> cases = {{-1e10, 1, 0},    {-1e30, 1, 0},   {-3.4e38, 1, 0},  {-1e30, 1, 1e4},
                                     {-1e30, 1, -1e4}, {-1e30, 1e3, 0}, {-3.4e38, 3e7, 0}};
  const auto check = [&](const std::string& text, const std::map<std::string, int64_t>& sizes, bool streams) {
    const Program p = parse_program(std::make_shared<SourceText>(SourceText{"scores.tw", text}));
    CompileOptions options;
    options.target = target;
    options.mapping = mapping;
    options.schedule = streams ? schedule : "";
    for (const Scores& c : cases) {
      SCOPED_TRACE(fmt::format("{}stand_in {}, scale {}, offset {}", text, c.stand_in, c.scale, c.offset));
      SessionOptions s;
      s.sizes = sizes;
      s.params = {{"stand_in", c.stand_in}, {"scale", c.scale}, {"offset", c.offset}};
      Session session(p, options, s);
      session.run(0, 1);
      for (const OutputCheck& o : session.check())
        EXPECT_TRUE(o.comparison.passed)
            << o.comparison.reason << ", error " << o.comparison.error << ", tolerance "
            << o.comparison.tolerance << ", got " << o.got << ", expected " << o.expected;
    }
  };
  const std::string params = "param stand_in : f32\nparam scale : f32\nparam offset : f32\n";
  for (const char* type : {"f32", "f16", "bf16"})
    check(fmt::format("program scores\naxis h, i, j\naxis d = 64, e = 64\n{1}"
                      "input Q[h, i, d] : {0}\ninput K[h, j, d] : {0}\ninput V[h, j, e] : {0}\n"
                      "S[h, i, j] = sum[d](Q[h, i, d] * K[h, j, d]) / sqrt(size(d))\n"
                      "C[h, i, j] = where(j < i - 40, S * scale + offset, stand_in)\n"
                      "P[h, i, j] = softmax[j](C)\nO[h, i, e] = sum[j](P * V)\noutput O : {0}\n",
                      type, params),
          {{"h", 2}, {"i", 130}, {"j", 197}}, true);
  check("program rows\naxis r, c\n" + params +
            "input X[r, c] : f32\nC[r, c] = where(c > r * 50, X * scale + offset, stand_in)\n"
            "P[r, c] = softmax[c](C * 0.3)\noutput P : f32\n",
        {{"r", 9}, {"c", 333}}, false);
}

}  // namespace tilewright::testing
