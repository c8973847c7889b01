// Scores on which the guard of a state decides: maxima that move in every chunk, late, never, or are no numbers.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tilewright/driver/session.h"

namespace tilewright::testing {

/// The score of key j of `keys`, by row i; chunks have 32 keys.
struct GuardCase {
  const char* name;
  std::function<double(int64_t j, int64_t keys)> score;
  std::function<double(int64_t i)> factor = [](int64_t) { return 1.0; };  ///< of row i
};

inline const std::vector<GuardCase>& guard_cases() {
  constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::nan("");
  static const std::vector<GuardCase> cases = {
      {"MaximaThatGrowEveryChunk", [](int64_t j, int64_t) { return 16.0 * double(j / 32); }},
      {"MaximaThatGrowEveryKey", [](int64_t j, int64_t) { return 0.5 * double(j); }},
      {"MaximaThatCreepUnderEveryThreshold", [](int64_t j, int64_t) { return 3.0 * double(j / 32); }},
      {"MaximaThatFall", [](int64_t j, int64_t) { return -2.0 * double(j); }},
      {"OneHugeLateScore", [](int64_t j, int64_t n) { return j == n - 3 ? 60000.0 : 0; }},
      {"OneHugeLateScoreInSomeRows", [](int64_t j, int64_t n) { return j == n - 3 ? 60000.0 : 0; },
       [](int64_t i) { return i % 3 == 0   ? 1.0
                              : i % 3 == 1 ? -1.0
                                           : 0.0; }},
      {"LateScoresJustBelowTheRange", [](int64_t j, int64_t n) { return j > n - 8 ? 9.0 : 0; }},
      {"LateScoresJustAboveTheRange", [](int64_t j, int64_t n) { return j > n - 8 ? 10.5 : 0; }},
      {"OneHugeFirstScore", [](int64_t j, int64_t) { return j == 1 ? 60000.0 : 0; }},
      {"VeryLowScoresFirst", [](int64_t j, int64_t) { return j < 40 ? -60000.0 : 0; }},
      {"AbsentChunksFirst", [=](int64_t j, int64_t) { return j < 70 ? -infinity : 1.0; }},
      {"AbsentChunkBetween",
       [=](int64_t j, int64_t) { return j >= 32 && j < 64 ? -infinity : 0.25 * double(j); }},
      {"AbsentChunksLast", [=](int64_t j, int64_t) { return j > 20 ? -infinity : 1.0; }},
      {"NothingPresent", [=](int64_t, int64_t) { return -infinity; }},
      {"NaNLate", [=](int64_t j, int64_t n) { return j == n - 3 ? nan : 1.0; }},
      {"NaNFirst", [=](int64_t j, int64_t) { return j == 0 ? nan : 16.0 * double(j / 32); }},
      {"NaNInOneRow", [](int64_t j, int64_t) { return 16.0 * double(j / 32); },
       [=](int64_t i) { return i == 5 ? nan : 1.0; }},
      {"InfinityLate", [=](int64_t j, int64_t n) { return j == n - 3 ? infinity : 1.0; }},
  };
  return cases;
}

/// Attention over the scores of every case under every guard, global and causal, compared with the definition. Scores are products: the first feature of a query is the
/// factor of its row, that of a key its score, all others are 0. `arch` is that of CompileOptions.
inline void expect_guards(Target target, const std::string& arch, const std::string& type) {
  constexpr int64_t rows = 40, keys = 150, features = 32;
  const DType t = type == "f32" ? DType::f32 : type == "bf16" ? DType::bf16 : DType::f16;
  for (const char* mask : {"", "j <= i + size(j) - size(i)"}) {
    const std::string text = fmt::format(
        "program guarded\naxis i, j\naxis d = {1}, e = {1}\ninput Q[i, d] : {0}\ninput K[j, d] : {0}\ninput "
        "V[j, e] : {0}\n"
        "S[i, j] = sum[d](Q * K)\nC[i, j] = {2}\nO[i, e] = sum[j](softmax[j](C) * V)\nL[i] = "
        "logsumexp[j](C)\n"
        "output O : {0}, L : f32\n",
        type, features, *mask ? fmt::format("where({}, S, -inf)", mask) : std::string("S"));
    const Program p = parse_program(std::make_shared<SourceText>(SourceText{"guarded.tw", text}));
    for (const char* guard : {"always", "moved", "threshold", "speculative"}) {
      CompileOptions options;
      options.target = target;
      options.arch = arch;
      options.schedule = fmt::format("group i=64/64; stream j=32; keep Q; stages 2; roles {}; guard {}",
                                     arch == "sm_90a" ? "1+1" : "0+1", guard);
      for (const GuardCase& c : guard_cases()) {
        SCOPED_TRACE(fmt::format("{}{} {} {} {}", c.name, *mask ? ", causal" : "", type, arch, guard));
        SessionOptions s;
        s.sizes = {{"i", rows}, {"j", keys}};
        HostArray q = allocate(t, {rows, features}), k = allocate(t, {keys, features});
        for (int64_t n = 0; n < q.elements(); ++n)
          store_element(t, q.data.get(), n, n % features == 0 ? c.factor(n / features) : 0);
        for (int64_t n = 0; n < k.elements(); ++n)
          store_element(t, k.data.get(), n, n % features == 0 ? c.score(n / features, keys) : 0);
        s.inputs["Q"].array = q;
        s.inputs["K"].array = k;
        Session session(p, options, s);
        session.run(0, 1);
        for (const OutputCheck& o : session.check())
          EXPECT_TRUE(o.comparison.passed)
              << o.name << ": " << o.comparison.reason << ", error " << o.comparison.error << ", tolerance "
              << o.comparison.tolerance << ", got " << o.got << ", expected " << o.expected;
      }
    }
  }
}

}  // namespace tilewright::testing
