// Sorted lists against sorting: topk and argtopk of keys alone and behind increasing functions, at ragged sizes, with fewer elements than ranks, absent
// elements, NaN, infinities and ties, streamed, resident, split and in blocks of rows, interpreted and on the CPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/support/examples.h"
#include "tilewright/driver/compiled.h"
#include "tilewright/expr/simplify.h"
#include "tilewright/model/cost.h"

namespace tilewright::testing::ranked_test {
namespace {

constexpr int64_t ranks = 4;

/// Where a program runs.
struct Place {
  const char* name;
  Target target;
  const char* schedule;
};
const Place kPlaces[] = {
    {"interp", Target::Interp, ""},
    {"interp_stream", Target::Interp, "stream v=8"},
    {"interp_split", Target::Interp, "stream v=4; split v=8"},
    {"interp_rows", Target::Interp, "group t=3; stream v=5; split v=10"},
    {"mapped", Target::InterpMapped, ""},
    {"mapped_split", Target::InterpMapped, "stream v=4; split v=8"},
    {"mapped_rows", Target::InterpMapped, "group t=3; stream v=8"},
    {"cpu", Target::Cpu, ""},
    {"cpu_stream", Target::Cpu, "stream v=8"},
    {"cpu_split", Target::Cpu, "stream v=4; split v=8"},
    {"cpu_rows", Target::Cpu, "group t=3; stream v=5; split v=10"},
};

class Ranked : public ::testing::TestWithParam<Place> {
 protected:
  std::unique_ptr<Session> session(const std::string& text, const std::map<std::string, int64_t>& sizes,
                                   const std::map<std::string, HostArray>& arrays) const {
    CompileOptions o;
    o.target = GetParam().target;
    o.mapping = Target::Cpu;
    o.schedule = GetParam().schedule;
    SessionOptions s;
    s.sizes = sizes;
    for (const auto& [name, a] : arrays) s.inputs[name] = {Fill::Normal, a};
    auto made = std::make_unique<Session>(
        parse_program(std::make_shared<SourceText>(SourceText{"ranked.tw", text})), o, s);
    made->run(0, 1);
    return made;
  }
};
INSTANTIATE_TEST_SUITE_P(Places, Ranked, ::testing::ValuesIn(kPlaces),
                         [](const auto& p) { return p.param.name; });

std::string text(DType t, const std::string& ranked, const std::string& more = "") {
  return fmt::format(
      "axis t, v\naxis n = {}\ninput x[t, v] : {}\n{}w[t, n] = topk[v -> n]({})\nc[t, n] = argtopk[v -> "
      "n]({})\n"
      "output w : f32, c : i32\n",
      ranks, name(t), more, ranked, ranked);
}

/// The rows that matter: number `row % 8` decides what stands in it.
HostArray rows(DType t, int64_t count, int64_t length) {
  HostArray a = filled(t, {count, length}, Fill::Normal, 3, "x");
  for (int64_t r = 0; r < count; ++r)
    for (int64_t v = 0; v < length; ++v) {
      double x = a.at(r * length + v);
      switch (r % 8) {
        case 1: x = 1.5; break;                         // all equal
        case 2: x = std::floor(2 * x) / 2; break;       // many equal
        case 3: x = v % 3 == 1 ? -INFINITY : x; break;  // data, not absent
        case 4: x = -INFINITY; break;
        case 5: x = v % 5 == 2 ? NAN : x; break;
        case 6: x = v % 4 == 3 ? INFINITY : v % 4 == 1 ? NAN : x; break;
        case 7: x = double(v); break;  // each one stands before all that were seen
        default: break;
      }
      store_element(t, a.data.get(), r * length + v, x);
    }
  return a;
}

/// Indices of the elements that are present, in order.
template <class Present>
std::vector<int64_t> sorted(const HostArray& x, int64_t row, int64_t length, Present present) {
  std::vector<int64_t> order;
  for (int64_t v = 0; v < length; ++v)
    if (present(v)) order.push_back(v);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    const double p = x.at(row * length + a), q = x.at(row * length + b);
    return std::isnan(p) ? !std::isnan(q) : p > q;
  });
  return order;
}

const std::pair<int64_t, int64_t> kSizes[] = {{9, 37}, {8, 3}, {3, 1}, {2, 0}, {0, 6}, {16, 40}};

TEST_P(Ranked, KeysAlone) {
  for (DType t : {DType::f32, DType::f16, DType::bf16})
    for (auto [count, length] : kSizes) {
      SCOPED_TRACE(fmt::format("{} {}x{}", name(t), count, length));
      const HostArray x = rows(t, count, length);
      const auto s = session(text(t, "x"), {{"t", count}, {"v", length}}, {{"x", x}});
      const HostArray &w = s->outputs().at("w"), &c = s->outputs().at("c");
      for (int64_t r = 0; r < count; ++r) {
        const auto order = sorted(x, r, length, [](int64_t) { return true; });
        for (int64_t n = 0; n < ranks; ++n) {
          const bool there = n < int64_t(order.size());
          ASSERT_EQ(c.at(r * ranks + n), there ? double(order[size_t(n)]) : -1.0) << r << " " << n;
          const double want = there ? x.at(r * length + order[size_t(n)]) : -INFINITY,
                       got = w.at(r * ranks + n);
          ASSERT_TRUE(got == want || (std::isnan(got) && std::isnan(want))) << got << " for " << want;
        }
      }
      for (const OutputCheck& o : s->check())
        EXPECT_TRUE(o.comparison.passed) << o.name << ": " << o.comparison.reason;
    }
}

/// The maximum that an index is the place of is rounded as the elements are, though exponentials of them share it.
TEST_P(Ranked, AnIndexBesideExponentials) {
  for (const char* scores : {"2 * x + y", "0.3 * x + y", "x / 3 - y", "0.3 * x"}) {
    SCOPED_TRACE(scores);
    const auto s = session(
        fmt::format("axis t, v\ninput x[t, v] : f32\ninput y[v] : f32\nS[t, v] = {}\na[t] = argmax[v](S)\n"
                    "L[t] = logsumexp[v](S)\noutput a : i32, L\n",
                    scores),
        {{"t", 9}, {"v", 37}}, {});
    for (const OutputCheck& o : s->check())
      EXPECT_TRUE(o.comparison.passed) << o.name << ": " << o.comparison.reason;
  }
}

TEST_P(Ranked, ASoftmaxIsRankedByItsScores) {
  for (auto [count, length] : kSizes) {
    SCOPED_TRACE(fmt::format("{}x{}", count, length));
    const HostArray x = rows(DType::f32, count, length);
    const auto s = session(text(DType::f32, "softmax[v](x)"), {{"t", count}, {"v", length}}, {{"x", x}});
    const HostArray &w = s->outputs().at("w"), &c = s->outputs().at("c");
    for (int64_t r = 0; r < count; ++r) {
      const auto order = sorted(x, r, length, [](int64_t) { return true; });
      double m = -INFINITY, l = 0;
      bool nan = false;
      for (int64_t v : order)
        nan = nan || std::isnan(x.at(r * length + v)), m = std::max(m, x.at(r * length + v));
      for (int64_t v : order) l += m == -INFINITY ? 0 : std::exp(x.at(r * length + v) - m);
      for (int64_t n = 0; n < ranks; ++n) {
        const bool there = n < int64_t(order.size());
        const double got = w.at(r * ranks + n);
        ASSERT_EQ(c.at(r * ranks + n), there ? double(order[size_t(n)]) : -1.0) << r << " " << n;
        if (!there)
          ASSERT_EQ(got, -INFINITY);
        else if (nan || m == INFINITY)
          ASSERT_TRUE(std::isnan(got)) << got;
        else
          ASSERT_NEAR(got, l == 0 ? 0 : std::exp(x.at(r * length + order[size_t(n)]) - m) / l, 1e-6);
      }
    }
    for (const OutputCheck& o : s->check())
      EXPECT_TRUE(o.comparison.passed) << o.name << ": " << o.comparison.reason;
  }
}

/// Probabilities that are 0 in f64 tie in the definition as written, and differ over the reals.
TEST_P(Ranked, ProbabilitiesThatVanishKeepTheirOrder) {
  HostArray x = allocate(DType::f32, {2, 7});
  const float scores[] = {-900, 0, -2000, -1000, -800, -3000, -1e30f, 1e30f, 3, 2, 1, 5, 9, -1e30f};
  for (int64_t k = 0; k < 14; ++k) store_element(DType::f32, x.data.get(), k, scores[k]);
  const auto s = session(text(DType::f32, "softmax[v](x)"), {{"t", 2}, {"v", 7}}, {{"x", x}});
  const double indices[] = {1, 4, 0, 3, 0, 5, 4, 1};
  for (int64_t k = 0; k < 8; ++k) EXPECT_EQ(s->outputs().at("c").at(k), indices[k]) << k;
  for (const OutputCheck& o : s->check())
    EXPECT_TRUE(o.comparison.passed) << o.name << ": " << o.comparison.reason;
}

TEST_P(Ranked, AbsentElementsLeaveNoTrace) {
  const std::string more =
      "input len[t] : i32 range(0, size(v) + 1)\ny[t, v] = where(v < len[t] and v % 3 != 1, x / 3, -inf)\n";
  for (const char* ranked : {"y", "softmax[v](y)"})
    for (auto [count, length] : kSizes) {
      SCOPED_TRACE(fmt::format("{} {}x{}", ranked, count, length));
      const HostArray x = rows(DType::f32, count, length);
      HostArray len = allocate(DType::i32, {count});
      for (int64_t r = 0; r < count; ++r)
        store_element(DType::i32, len.data.get(), r, double(length * (r % 5) / 4));
      const auto s =
          session(text(DType::f32, ranked, more), {{"t", count}, {"v", length}}, {{"x", x}, {"len", len}});
      for (int64_t r = 0; r < count; ++r) {
        const auto order =
            sorted(x, r, length, [&](int64_t v) { return double(v) < len.at(r) && v % 3 != 1; });
        for (int64_t n = 0; n < ranks; ++n)
          ASSERT_EQ(s->outputs().at("c").at(r * ranks + n),
                    n < int64_t(order.size()) ? double(order[size_t(n)]) : -1.0)
              << r << " " << n;
      }
      for (const OutputCheck& o : s->check())
        EXPECT_TRUE(o.comparison.passed) << o.name << ": " << o.comparison.reason;
    }
}

/// Scores that are a contraction, weights renormalised over those that were chosen, and a list in a second pass.
TEST_P(Ranked, ListsOfComputedValues) {
  const std::string router = R"(axis t, v
axis d = 16, n = 4
input x[t, d] : f16
input g[d, v] : f16
s[t, v] = sum[d](x * g)
w[t, n] = topk[v -> n](softmax[v](s))
c[t, n] = argtopk[v -> n](softmax[v](s))
r[t, n] = w / sum[n](w)
output r : f32, c : i32
)";
  for (auto [count, length] : {std::pair<int64_t, int64_t>{9, 37}, {5, 6}}) {
    const auto s = session(router, {{"t", count}, {"v", length}}, {});
    for (const OutputCheck& o : s->check())
      EXPECT_TRUE(o.comparison.passed) << o.name << ": " << o.comparison.reason;
    for (const Compilation& k : s->kernel().compiled().kernels) EXPECT_EQ(k.derivation.passes.size(), 1u);
    if (std::string(GetParam().schedule).find("split") != std::string::npos) continue;
    const auto rounded = session(text(DType::f32, "p", "p[t, v] : bf16 = softmax[v](x)\n"),
                                 {{"t", count}, {"v", length}}, {{"x", rows(DType::f32, count, length)}});
    for (const Compilation& k : rounded->kernel().compiled().kernels)
      EXPECT_EQ(k.derivation.passes.size(), 2u);
  }
}

/// What is counted is what is moved.
TEST(RankedCounts, FormulasAgreeWithTheInterpreter) {
  const std::string both = R"(axis t, v
axis e = 8, n = 4
input x[t, v] : f32
input V[v, e] : f32
w[t, n] = topk[v -> n](x)
o[t, e] = sum[v](softmax[v](x) * V)
output w, o
)";
  for (const char* schedule :
       {"group t=4; stream v=8", "group t=4; stream v=8; split v=16", "group t=4; resident v=64"}) {
    CompileOptions o;
    o.target = Target::Interp;
    o.schedule = schedule;
    SessionOptions so;
    so.sizes = {{"t", 9}, {"v", 37}};
    Session s(parse_program(std::make_shared<SourceText>(SourceText{"ranked.tw", both})), o, so);
    s.run(0, 1);
    for (const OutputCheck& c : s.check())
      EXPECT_TRUE(c.comparison.passed) << c.name << ": " << c.comparison.reason;
    const CompiledProgram& compiled = s.kernel().compiled();
    ASSERT_EQ(compiled.kernels.size(), 1u);
    const Compilation& k = compiled.kernels[0];
    const Cost cost = tilewright::cost(k.elaborated, lower(k, k.plans[0].plan));
    const Sizes& values = s.sizes();
    const Counts counts = s.kernel().counts();
    SCOPED_TRACE(schedule);
    EXPECT_EQ(evaluate_integer(cost.memory.loaded, values), counts.memory.loaded);
    EXPECT_EQ(evaluate_integer(cost.memory.stored, values), counts.memory.stored);
    EXPECT_EQ(evaluate_integer(cost.shared.loaded, values), counts.shared.loaded);
    EXPECT_EQ(evaluate_integer(cost.shared.stored, values), counts.shared.stored);
  }
}

}  // namespace
}  // namespace tilewright::testing::ranked_test
