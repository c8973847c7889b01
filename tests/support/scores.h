// Programs whose scores are far from 0: finite stand-ins for -inf behind a mask, large scales, large offsets.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tilewright/driver/session.h"

namespace tilewright::testing {

struct ScoreCase {
  std::string name, text;
  std::map<std::string, int64_t> sizes;
};

/// Rows that see nothing but the stand-in average all values, as the definition says.
inline std::vector<ScoreCase> score_cases() {
  auto rows = [](const std::string& type, const std::string& scores, const std::string& scaled = "C") {
    return fmt::format(
        "program scores\naxis h, i, j\naxis d = 64, e = 64\n"
        "input Q[h, i, d] : {0}\ninput K[h, j, d] : {0}\ninput V[h, j, e] : {0}\n"
        "S[h, i, j] = sum[d](Q[h, i, d] * K[h, j, d]) / sqrt(size(d))\nC[h, i, j] = {1}\n"
        "P[h, i, j] = softmax[j]({2})\nO[h, i, e] = sum[j](P * V)\noutput O : {0}\n",
        type, scores, scaled);
  };
  auto masked = [](const char* stand_in) { return fmt::format("where(j < i - 40, S, {})", stand_in); };
  auto wide = [](const std::string& scores, const std::string& scaled) {
    return fmt::format(
        "program wide\naxis r, c\ninput X[r, c] : f32\nC[r, c] = {}\nP[r, c] = softmax[c]({})\noutput P : "
        "f32\n",
        scores, scaled);
  };
  const std::map<std::string, int64_t> three{{"h", 2}, {"i", 130}, {"j", 197}}, two{{"r", 9}, {"c", 333}};
  return {
      {"a mask of -1e30, f16", rows("f16", masked("-1e30")), three},
      {"a mask of -1e10, bf16", rows("bf16", masked("-1e10")), three},
      {"a mask of -3.4e38, f32", rows("f32", masked("-3.4e38")), three},
      {"a mask of -1e30 before a scale, f32", rows("f32", masked("-1e30"), "C * 0.3"), three},
      {"an offset of 1e4, f16", rows("f16", "S + 1e4"), three},
      {"an offset of -1e4, f32", rows("f32", "S - 1e4"), three},
      {"a scale of 3e7, f32", rows("f32", "S * 3e7"), three},
      {"a scale of 1e3, f16", rows("f16", "S * 1e3"), three},
      {"rows of -1e30", wide("where(c > r * 50, X, -1e30)", "C * 0.3"), two},
      {"rows of 1e30 and less", wide("X * 1e30", "C"), two},
  };
}

/// `schedule` is for the programs that stream over j; the others take their defaults.
inline void expect_definition_of_scores(Target target, Target mapping = Target::Cuda,
                                        const std::string& schedule = "") {
  CompileOptions options;
  options.target = target;
  options.mapping = mapping;
  for (const ScoreCase& c : score_cases()) {
    SCOPED_TRACE(c.name);
    options.schedule = c.sizes.count("j") ? schedule : "";
    const Program p = parse_program(std::make_shared<SourceText>(SourceText{"scores.tw", c.text}));
    SessionOptions s;
    s.sizes = c.sizes;
    Session session(p, options, s);
    session.run(0, 1);
    for (const OutputCheck& o : session.check())
      EXPECT_TRUE(o.comparison.passed)
          << o.comparison.reason << ", error " << o.comparison.error << ", tolerance "
          << o.comparison.tolerance << ", got " << o.got << ", expected " << o.expected;
  }
}

}  // namespace tilewright::testing
