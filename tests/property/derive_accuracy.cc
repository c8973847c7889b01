// States run in f32 on data that are easily computed badly: a large mean, large scores, in whole streams and in merged parts.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/support/derived.h"
#include "tests/support/f32_state.h"

namespace tilewright::testing::derive_accuracy_test {
namespace {

using Data = std::vector<std::vector<float>>;  ///< for each input, its elements along the stream

/// A program of one pass whose output is one number, in f32.
class InF32 {
 public:
  InF32(const std::string& text, const std::string& axis) : x_(derived(text, axis)) {
    EXPECT_EQ(x_.d.passes.size(), 1u);
  }

  /// Streamed in chunks of 64, in so many parts of equal length that are then merged two by two.
  double run(const Data& data, size_t parts) const {
    const int64_t n = int64_t(data[0].size()), chunk = 64;
    const F32State state(x_.state(), n, [&](Expr e, int64_t j) {
      Bindings here;
      for (Sym s : free_symbols(e)) here[s] = s == x_.d.cascade.axis ? double(j) : 0;
      return evaluate(e, here, [&](Sym s, const Index&) { return at(data, s, j); });
    });
    History h;
    std::vector<int> sides;
    for (size_t p = 0; p < parts; ++p) {
      int before = -1;
      const int64_t end = int64_t(p + 1) * n / int64_t(parts);
      for (int64_t begin = int64_t(p) * n / int64_t(parts); begin < end; begin += chunk) {
        h.push_back({.left = before, .begin = begin, .end = std::min(begin + chunk, end)});
        before = int(h.size()) - 1;
      }
      sides.push_back(before);
    }
    while (sides.size() > 1) {
      std::vector<int> next;
      for (size_t k = 0; k + 1 < sides.size(); k += 2) {
        h.push_back({.merge = true, .left = sides[k], .right = sides[k + 1]});
        next.push_back(int(h.size()) - 1);
      }
      if (sides.size() % 2 == 1) next.push_back(sides.back());
      sides = next;
    }
    const auto finish = [&](Sym s) {
      for (size_t k = 0; k < x_.d.finish.size(); ++k)
        if (x_.d.cascade.reductions[k].result == s) return x_.d.finish[k];
      ADD_FAILURE() << "nothing computes " << s.name();
      return Expr(0);
    };
    return state.finished(x_.d.cascade.outputs[0].value, state.run(h), finish,
                          {{x_.d.cascade.axis.size(), double(n)}});
  }

 private:
  double at(const Data& data, Sym s, int64_t j) const {
    for (size_t k = 0; k < x_.program.inputs.size(); ++k)
      if (x_.program.inputs[k].sym == s) return data[k][size_t(j)];
    ADD_FAILURE() << "no input " << s.name();
    return 0;
  }
  Derived x_;
};

std::vector<float> normal(uint64_t seed, double mean, double deviation) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> x(mean, deviation);
  std::vector<float> out;
  for (size_t k = 0; k < 4096; ++k) out.push_back(float(x(random)));
  return out;
}

double covariance(const std::vector<float>& u, const std::vector<float>& v) {
  double mu = 0, nu = 0, sum = 0;
  for (float x : u) mu += x / double(u.size());
  for (float x : v) nu += x / double(v.size());
  for (size_t k = 0; k < u.size(); ++k) sum += (u[k] - mu) * (v[k] - nu);
  return sum / double(u.size());
}

TEST(Accuracy, VarianceWithALargeMean) {
  const InF32 variance(programs::variance, "c");
  for (size_t parts : {1, 16, 64})
    for (uint64_t seed = 1; seed <= 3; ++seed)
      for (const auto& [mean, bound] : {std::pair{1e4, 3e-6}, std::pair{1e6, 2e-5}}) {
        const std::vector<float> x = normal(seed, mean, 1);
        const double exact = covariance(x, x);
        EXPECT_LT(std::abs(variance.run({x}, parts) - exact) / exact, bound)
            << mean << ", " << parts << " parts";
      }
}

TEST(Accuracy, CovarianceWithLargeMeans) {
  const InF32 program(programs::covariance, "c");
  for (size_t parts : {1, 16, 64})
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      const std::vector<float> u = normal(seed, 1e6, 1), noise = normal(seed + 10, 1e6, 1);
      std::vector<float> v;
      for (size_t k = 0; k < u.size(); ++k) v.push_back(float(0.5 * (double(u[k]) + noise[k])));
      const double exact = covariance(u, v);
      EXPECT_LT(std::abs(program.run({u, v}, parts) - exact) / exact, 2e-5) << parts << " parts";
    }
}

/// Σ exp(scale·S)·V / Σ exp(scale·S), where the largest score weighs most.
double weighted(const std::vector<float>& s, const std::vector<float>& v, double scale = 1) {
  const double m = scale * double(*std::max_element(s.begin(), s.end()));
  double l = 0, o = 0;
  for (size_t k = 0; k < s.size(); ++k) {
    l += std::exp(scale * s[k] - m);
    o += std::exp(scale * s[k] - m) * v[k];
  }
  return o / l;
}

const std::string kInputs = "axis j\ninput S[j] : f32\ninput V[j] : f32\n";

TEST(Accuracy, ScoresUpToSixtyThousand) {
  const InF32 program(kInputs + "O[] = sum[j](softmax[j](S) * V)\noutput O\n", "j");
  for (size_t parts : {1, 16, 64})
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      const std::vector<float> v = normal(seed + 20, 0, 1);
      std::vector<float> wide = normal(seed, 0, 2e4), near = normal(seed, 6e4, 1),
                         low = normal(seed, -6e4, 1);
      for (float& x : wide) x = std::clamp(x, -6e4f, 6e4f);
      for (const std::vector<float>& s : {wide, near, low})
        EXPECT_NEAR(program.run({s, v}, parts), weighted(s, v), 4e-6) << parts << " parts";
    }
}

/// exp(S − L) with a saved L that is not the logsumexp: addends that overflow where they are computed as they stand, and whose sum does not.
TEST(Accuracy, ASavedNormaliserFarFromTheScores) {
  const InF32 program(
      "axis j\ninput S[j] : f32\ninput V[j] : f32\ninput L[] : f32\nO[] = sum[j](exp(S - L) * V)\noutput O\n",
      "j");
  for (size_t parts : {1, 16, 64}) {
    std::vector<float> s = normal(1, 0, 1), v = normal(2, 0, 1);
    const std::vector<float> saved(s.size(), -84);  // exp(84) = 3e36
    double exact = 0, scale = 0;
    for (size_t k = 0; k + 1 < s.size(); k += 2) {  // pairs that nearly cancel, each beyond the range of f32
      s[k + 1] = s[k];
      v[k] = 1000 + float(k % 7);
      v[k + 1] = -1000;
    }
    for (size_t k = 0; k < s.size(); ++k) {
      exact += std::exp(double(s[k]) + 84) * v[k] * 1e-3;
      scale += std::exp(double(s[k]) + 84) * std::abs(v[k]) * 1e-3;
    }
    for (float& x : v) x *= 1e-3f;
    const double got = program.run({s, v, saved}, parts);
    EXPECT_TRUE(std::isfinite(got));
    EXPECT_LT(std::abs(got - exact), 1e-5 * scale) << parts << " parts";
  }
}

/// Spellings that overflow or cancel where they are computed as they stand.
TEST(Accuracy, UnsafeSpellings) {
  const std::vector<float> s = normal(1, 0, 60), v = normal(2, 0, 1);
  const auto program = [&](const std::string& weight) {
    return InF32(kInputs + "m[] = max[j](S)\nt[] = sum[j](S)\nO[] = sum[j](" + weight + " * V) / sum[j](" +
                     weight + ")\noutput O\n",
                 "j");
  };
  for (size_t parts : {1, 64}) {
    EXPECT_NEAR(program("exp(S)").run({s, v}, parts), weighted(s, v), 4e-6) << "no maximum";
    EXPECT_NEAR(program("exp(S - t)").run({s, v}, parts), weighted(s, v), 4e-6)
        << "a shift that is no maximum";
    EXPECT_NEAR(program("exp(2 * S - m)").run({s, v}, parts), weighted(s, v, 2), 4e-6)
        << "a shift of another scale";
    EXPECT_NEAR(program("exp(S) * exp(-m)").run({s, v}, parts), weighted(s, v), 4e-6)
        << "a shift taken apart";
  }
  // The first half is far from the second: a mean over the full size would start near 0, squares less the square of the mean have no digit.
  std::vector<float> x = normal(3, 1e6, 1);
  for (size_t k = 0; k < x.size() / 2; ++k) x[k] -= 1000;
  const double exact = covariance(x, x);
  for (size_t parts : {1, 64})
    EXPECT_LT(std::abs(InF32(programs::variance, "c").run({x}, parts) - exact) / exact, 2e-6)
        << parts << " parts";
}

}  // namespace
}  // namespace tilewright::testing::derive_accuracy_test
