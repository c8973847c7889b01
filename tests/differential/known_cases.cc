// Inputs on which other tools of this field were publicly wrong, each with the value that is right, interpreted,
// on the CPU and on a GPU. Every row also agrees with its definition in f64. Rows share programs, so that few kernels are compiled.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "tests/support/examples.h"
#include "tilewright/driver/session.h"
#include "tilewright/runtime/cuda.h"

namespace tilewright::testing::known_cases_test {
namespace {

using SizeMap = std::map<std::string, int64_t>;
using Arrays = std::map<std::string, HostArray>;

/// One run: what is not in `arrays` is seeded normal.
struct Run {
  std::string text;
  SizeMap sizes = {};
  Arrays arrays = {};
  std::map<std::string, double> params = {};
  std::string schedule = {};
  bool definition = true;  ///< compare with the definition in f64 too
};

using Outputs = std::map<std::string, HostArray>;

Outputs outputs_of(Target target, const Run& r) {
  const Program p = parse_program(std::make_shared<SourceText>(SourceText{"case.tw", r.text}));
  CompileOptions o;
  o.target = target;
  o.schedule = r.schedule;
  SessionOptions s;
  s.sizes = r.sizes;
  s.params = r.params;
  for (const auto& [name, a] : r.arrays) s.inputs[name] = {Fill::Normal, a};
  Session session(p, o, s);
  session.run(0, 1);
  if (r.definition)
    for (const OutputCheck& c : session.check()) {
      const Comparison& m = c.comparison;
      // With few elements the naive program's error, which the tolerance follows, is a matter of luck.
      EXPECT_TRUE(m.passed || (m.reason.find("exceeds") != std::string::npos && m.error <= 4 * m.tolerance))
          << c.name << ": " << m.reason << ", error " << m.error << ", tolerance " << m.tolerance << ", at ["
          << fmt::format("{}", fmt::join(c.index, ", ")) << "] got " << c.got << ", expected " << c.expected
          << "; plan " << session.kernel().last_plan();
    }
  return session.outputs();
}

/// A row-major array with the value that `f` gives for each element number.
HostArray array(DType t, std::vector<int64_t> shape, const std::function<double(int64_t)>& f) {
  HostArray a = allocate(t, std::move(shape));
  for (int64_t k = 0; k < a.elements(); ++k) store_element(t, a.data.get(), k, f(k));
  return a;
}
HostArray all(DType t, std::vector<int64_t> shape, double value) {
  return array(t, std::move(shape), [value](int64_t) { return value; });
}
HostArray normal(DType t, std::vector<int64_t> shape, const char* name) {
  return filled(t, std::move(shape), Fill::Normal, 0, name);
}
void set(HostArray& a, int64_t element, double value) {
  store_element(a.dtype, a.data.get(), element, value);
}
bool finite(const HostArray& a) {
  for (int64_t k = 0; k < a.elements(); ++k)
    if (!std::isfinite(a.at(k))) return false;
  return true;
}
void expect_all(const HostArray& a, double value, double within = 0) {
  for (int64_t k = 0; k < a.elements(); ++k) ASSERT_NEAR(a.at(k), value, within) << "element " << k;
}

/// Causal grouped attention with its logsumexp; heads (k g), so k = g = 1 is plain attention.
const char kCausal[] = R"(axis b, k, g, i, j
axis d = 16, e = 16
input Q[b, (k g), i, d] : f32
input K[b, k, j, d] : f32
input V[b, k, j, e] : f32
S[b, k, g, i, j] = sum[d](Q[b, (k g), i, d] * K) / sqrt(size(d))
C[b, k, g, i, j] = where(j <= i + size(j) - size(i), S, -inf)
O[b, k, g, i, e] = sum[j](softmax[j](C) * V)
L[b, k, g, i]    = logsumexp[j](C)
output O[b, (k g), i, e] : f32, L : f32
)";
SizeMap heads(int64_t b, int64_t k, int64_t g, int64_t i, int64_t j) {
  return {{"b", b}, {"k", k}, {"g", g}, {"i", i}, {"j", j}};
}

/// A window of w keys, and scores capped before the mask; chunks of 64 keys.
const char kWindow[] = R"(axis h, i, j
axis d = 16, e = 16
param cap : f32 = 50
param w : i64 = 1000
input Q[h, i, d] : f32
input K[h, j, d] : f32
input V[h, j, e] : f32
S[h, i, j] = sum[d](Q * K)
C[h, i, j] = where(j <= i + size(j) - size(i) and i + size(j) - size(i) - j < w, cap * tanh(S / cap), -inf)
O[h, i, e] = sum[j](softmax[j](C) * V)
output O
)";
const char kChunks[] = "group h=1, i=1; stream j=64";

/// Keys past the length of their batch are absent; streamed in parts of 32 keys that are merged.
const char kLengths[] = R"(axis b, i, j
axis d = 16, e = 16
input Q[b, i, d] : f32
input K[b, j, d] : f32
input V[b, j, e] : f32
input len[b] : i64 range(0, size(j) + 1)
S[b, i, j] = where(j < len[b], sum[d](Q * K[b, j, d]) / sqrt(size(d)), -inf)
O[b, i, e] = sum[j](softmax[j](S) * V)
L[b, i]    = logsumexp[j](S)
output O, L
)";
const char kParts[] = "group b=1, i=1; stream j=16; split j=32";

/// Causal bf16 attention whose scores carry the distance between query and key.
const char kDistance[] = R"(axis i, j
axis d = 64, e = 64
input Q[i, d] : bf16
input K[j, d] : bf16
input V[j, e] : bf16
D[i, j] = i + size(j) - size(i) - j
S[i, j] = sum[d](Q * K) / sqrt(size(d)) + D
O[i, e] = sum[j](softmax[j](where(D >= 0, S, -inf)) * V)
output O : bf16
)";

const char kSoftmax[] = "axis r, j\ninput x[r, j] : f32\nP[r, j] = softmax[j](x)\noutput P\n";

struct Case {
  const char* name;
  std::function<void(Target)> check;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

const Case kCases[] = {
    {"RowsThatSeeNothing",
     [](Target t) {
       const Outputs out = outputs_of(t, {kCausal, heads(1, 1, 2, 40, 9)});
       const HostArray &o = out.at("O"), &l = out.at("L");
       for (int64_t h = 0; h < 2; ++h)
         for (int64_t i = 0; i < 40; ++i) {
           const bool sees = i >= 31;
           EXPECT_EQ(std::isfinite(l.at(h * 40 + i)), sees);
           if (sees) continue;
           EXPECT_EQ(l.at(h * 40 + i), -INFINITY);
           for (int64_t e = 0; e < 16; ++e) EXPECT_EQ(o.at((h * 40 + i) * 16 + e), 0);
         }
     }},
    {"PartsWithoutAValidKey",
     [](Target t) {
       const std::vector<int64_t> lengths = {0, 1, 33, 130};
       const auto len = [&](int64_t b) { return double(lengths[size_t(b)]); };
       const Outputs out = outputs_of(
           t,
           {kLengths, {{"b", 4}, {"i", 3}, {"j", 130}}, {{"len", array(DType::i64, {4}, len)}}, {}, kParts});
       EXPECT_TRUE(finite(out.at("O")));
       for (int64_t k = 0; k < 12; ++k) EXPECT_EQ(std::isfinite(out.at("L").at(k)), k >= 3);
       for (int64_t k = 0; k < 48; ++k) EXPECT_EQ(out.at("O").at(k), 0);
     }},
    {"GarbageBehindALength",
     [](Target t) {
       const int64_t j = 100, length = 41;
       const auto garbage = [&](int64_t at) {
         return at / 16 < length ? 0.5 : at % 3 == 0 ? NAN : at % 3 == 1 ? INFINITY : -INFINITY;
       };
       const Outputs out = outputs_of(t, {kLengths,
                                          {{"b", 1}, {"i", 3}, {"j", j}},
                                          {{"len", all(DType::i64, {1}, double(length))},
                                           {"K", array(DType::f32, {1, j, 16}, garbage)},
                                           {"V", array(DType::f32, {1, j, 16}, garbage)}},
                                          {},
                                          kParts});
       expect_all(out.at("O"), 0.5, 1e-6);
     }},
    {"AScoreFarBelowAMaskedOne",
     [](Target t) {
       const char* text =
           "axis i, j\naxis d = 1, e = 1\ninput q[i, d] : f32\ninput k[j, d] : f32\ninput v[j, e] : f32\n"
           "input seen[j] : bool\nO[i, e] = sum[j](softmax[j](where(seen, sum[d](q * k), -inf)) * v)\noutput "
           "O\n";
       const auto pair = [](double a, double b) {
         return array(DType::f32, {2, 1}, [=](int64_t n) { return n == 0 ? a : b; });
       };
       const HostArray seen = array(DType::boolean, {2}, [](int64_t n) { return n == 0; });
       expect_all(
           outputs_of(t, {text,
                          {},
                          {{"q", pair(-20000, 0)}, {"k", pair(1, 0)}, {"v", pair(1, 100)}, {"seen", seen}},
                          {},
                          "group i=1"})
               .at("O"),
           1);
     }},
    {"ASinkAndTilesOutsideTheWindow",
     [](Target t) {
       const char* text = R"(axis h, i, j
axis d = 16, e = 16
param w : i64 = 20
input Q[h, i, d] : f32
input K[h, j, d] : f32
input V[h, j, e] : f32
input sink[h] : f32
S[h, i, j] = sum[d](Q * K) / sqrt(size(d))
C[h, i, j] = where(j <= i + size(j) - size(i) and i + size(j) - size(i) - j < w, S, -inf)
m[h, i] = max(max[j](C), sink[h])
p[h, i, j] = where(C == -inf, 0, exp(C - m))
O[h, i, e] = sum[j](p * V) / (sum[j](p) + exp(sink[h] - m))
output O
)";
       // A window of no key at all leaves the sink alone.
       for (double w : {20, 0}) {
         const Outputs out = outputs_of(t, {text,
                                            {{"h", 2}, {"i", 70}, {"j", 150}},
                                            {{"sink", all(DType::f32, {2}, 2)}},
                                            {{"w", w}},
                                            "group h=1, i=1; stream j=16"});
         EXPECT_TRUE(finite(out.at("O")));
         if (w == 0) expect_all(out.at("O"), 0);
       }
     }},
    {"OneKeyOfGreatValues",
     [](Target t) {
       const HostArray x = all(DType::bf16, {1, 64}, 133120);
       expect_all(outputs_of(t, {kDistance, {}, {{"Q", x}, {"K", x}, {"V", x}}}).at("O"), 133120);
     }},
    {"DistancesPastAThousandKeys",
     [](Target t) {
       const Outputs out = outputs_of(t, {kDistance, {{"i", full_sweep() ? 1025 : 9}, {"j", 1025}}});
       EXPECT_TRUE(finite(out.at("O")));
     }},
    {"SequencesFarShorterThanATile",
     [](Target t) {
       const Outputs out = outputs_of(t, {kCausal, heads(2, 1, 1, 2, 2)});
       // The first query of each batch sees one key: its value, untouched.
       const HostArray v = normal(DType::f32, {2, 1, 2, 16}, "V");
       for (int64_t b = 0; b < 2; ++b)
         for (int64_t e = 0; e < 16; ++e) EXPECT_EQ(out.at("O").at(b * 32 + e), v.at(b * 32 + e));
     }},
    {"OneTileAndNone",
     [](Target t) {
       for (int64_t n : {0, 1, 15, 16, 47, 48, 64})
         EXPECT_EQ(outputs_of(t, {kCausal, heads(1, 1, 1, n, n)}).at("O").elements(), n * 16);
       const Outputs no_keys = outputs_of(t, {kCausal, heads(1, 1, 1, 5, 0)});
       expect_all(no_keys.at("O"), 0);
       for (int64_t k = 0; k < 5; ++k) EXPECT_EQ(no_keys.at("L").at(k), -INFINITY);
     }},
    {"AViewWithoutTheLastKeys",
     [](Target t) {
       const HostArray big = normal(DType::f32, {1, 2, 100, 16}, "big");
       HostArray view = big;
       view.shape = {1, 2, 60, 16};
       view.strides = {3200, 1600, 16, 1};
       const HostArray copy =
           array(DType::f32, {1, 2, 60, 16}, [&](int64_t k) { return big.at(k / 960 * 1600 + k % 960); });
       const SizeMap sizes = heads(1, 2, 1, 30, 60);
       const Outputs seen = outputs_of(t, {kCausal, sizes, {{"K", view}, {"V", view}}}),
                     copied = outputs_of(t, {kCausal, sizes, {{"K", copy}, {"V", copy}}});
       for (int64_t k = 0; k < copied.at("O").elements(); ++k)
         EXPECT_EQ(seen.at("O").at(k), copied.at("O").at(k)) << k;
     }},
    {"AnInnermostStrideThatIsNotOne",
     [](Target t) {
       const auto transposed =
           [](const HostArray& a) {  // the same values, the last two axes swapped in memory
             const int64_t n = a.shape[2], d = a.shape[3];
             HostArray b = array(a.dtype, a.shape, [&](int64_t k) {
               const int64_t outer = k / (n * d), rest = k % (n * d);
               return a.at(outer * n * d + rest % n * d + rest / n);
             });
             b.strides = {a.shape[1] * n * d, n * d, 1, n};
             return b;
           };
       const SizeMap sizes = heads(1, 2, 1, 30, 60);
       const HostArray q = normal(DType::f32, {1, 2, 30, 16}, "Q"),
                       k = normal(DType::f32, {1, 2, 60, 16}, "K"),
                       v = normal(DType::f32, {1, 2, 60, 16}, "V");
       const Outputs plain = outputs_of(t, {kCausal, sizes, {{"Q", q}, {"K", k}, {"V", v}}}),
                     swapped =
                         outputs_of(t, {kCausal,
                                        sizes,
                                        {{"Q", transposed(q)}, {"K", transposed(k)}, {"V", transposed(v)}}});
       for (int64_t n = 0; n < plain.at("O").elements(); ++n)
         EXPECT_NEAR(swapped.at("O").at(n), plain.at("O").at(n), 1e-5) << n;
     }},
    {"OffsetsPastTwoToThe31",
     [](Target t) {
       // A few rows that lie far apart, or many.
       const bool few = t == Target::Interp && !full_sweep();
       const int64_t rows = few ? 4 : 410923, stride = few ? int64_t{1} << 30 : 9728;
       const int64_t middle = (int64_t{1} << 31) / stride;  // the first row that ends past 2^31
       const size_t size = size_t(rows * stride * 2);
       void* memory =
           mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
       if (memory == MAP_FAILED) GTEST_SKIP() << "no address space for 8 GB";
       HostArray x;
       x.dtype = DType::f16;
       x.shape = {rows, 3};
       x.strides = {stride, 1};
       x.data = std::shared_ptr<void>(memory, [size](void* p) { munmap(p, size); });
       for (int64_t r : {int64_t{0}, middle, rows - 1})
         for (int64_t c = 0; c < 3; ++c) set(x, r * stride + c, double(c + 1));
       Run run{"axis r, c\ninput x[r, c] : f16\ny[r] = sum[c](x)\noutput y\n", {}, {{"x", x}}};
       run.definition = false;  // every row is known
       const HostArray y = outputs_of(t, run).at("y");
       for (int64_t r = 0; r < rows; ++r)
         ASSERT_EQ(y.at(r), r == 0 || r == middle || r == rows - 1 ? 6 : 0) << r;
     }},
    {"MoreHeadsAndBatchesThanAGridHas",
     [](Target t) {
       std::vector<SizeMap> all = {heads(65536, 1, 1, 1, 1)};
       if (t == Target::Cpu || full_sweep()) all.push_back(heads(1485, 48, 1, 1, 1));
       for (const SizeMap& sizes : all) {
         Run run{kCausal, sizes};
         run.definition = false;  // one key: its value
         const int64_t b = sizes.at("b"), k = sizes.at("k");
         run.arrays["V"] = normal(DType::f32, {b, k, 1, 16}, "V");
         const HostArray o = outputs_of(t, run).at("O");
         ASSERT_EQ(o.elements(), b * k * 16);
         ASSERT_EQ(std::memcmp(o.data.get(), run.arrays["V"].data.get(), size_t(b * k * 16 * 4)), 0);
       }
     }},
    {"QuotientsOverNothing",
     [](Target t) {
       const HostArray seen = array(DType::i32, {3}, [](int64_t n) { return double(3 * n); });
       const HostArray by = array(DType::f32, {3}, [](int64_t n) { return n == 0 ? 0.0 : 2.0; });
       const Outputs out = outputs_of(t, {R"(axis b, j
input x[b, j] : f32
input len[b] : i32 range(0, size(j) + 1)
input s[b] : f32
m[b] = sum[j](where(j < len[b], x / len[b], 0))
n[b] = sum[j](where(j < len[b], x / s, 0))
q[b] = sum[j](where(j < len[b], x * log(s), 0))
output m, n, q
)",
                                          {{"j", 7}},
                                          {{"len", seen}, {"s", by}}});
       for (const char* name : {"m", "n", "q"}) EXPECT_EQ(out.at(name).at(0), 0) << name;
     }},
    {"ZerosPast16BitIndices",
     [](Target t) {
       const int64_t features = full_sweep() ? 512 : 64;
       Run run{
           fmt::format("axis i, j\naxis d = {0}, e = {0}\ninput Q[i, d] : f16\ninput X[j, d] : f16\n"
                       "S[i, j] = sum[d](Q * X) / sqrt(size(d))\nO[i, e] = sum[j](softmax[j](S) * X[j, e])\n"
                       "output O : f16\n",
                       features),
           {{"i", 1}},
           {{"X", allocate(DType::f16, {33728, features})}}};
       run.definition = false;
       expect_all(outputs_of(t, run).at("O"), 0);
     }},
    {"AnyNumberOfQueryHeadsToAKeyHead",
     [](Target t) {
       for (auto [k, g] :
            std::vector<std::pair<int64_t, int64_t>>{{2, 16}, {3, 3}, {2, 5}, {1, 6}, {1, 7}, {1, 12}})
         outputs_of(t, {kCausal, heads(1, k, g, 5, 33)});
     }},
    {"PackedSequencesOfUnlikeLengths",
     [](Target t) {
       const std::vector<int64_t> cu_q = {0, 76, 110, 256}, cu_k = {0, 1, 2, 3};
       const auto segment = [](const std::vector<int64_t>& cu, int64_t n) {
         int64_t s = 0;
         while (n >= cu[size_t(s) + 1]) ++s;
         return s;
       };
       const auto of_queries = [&](bool position) {
         return array(DType::i32, {256}, [&, position](int64_t n) {
           const int64_t s = segment(cu_q, n), keys = 1, queries = cu_q[size_t(s) + 1] - cu_q[size_t(s)];
           return double(position ? n - cu_q[size_t(s)] + keys - queries : s);
         });
       };
       const auto of_keys = [&](bool position) {
         return array(DType::i32, {3},
                      [&, position](int64_t n) { return double(position ? 0 : segment(cu_k, n)); });
       };
       const Outputs out = outputs_of(t, {R"(axis i, j
axis d = 16, e = 16
input Q[i, d] : f32
input K[j, d] : f32
input V[j, e] : f32
input qs[i] : i32 range(0, 3)
input ks[j] : i32 range(0, 3)
input qp[i] : i32 range(-300, 300)
input kp[j] : i32 range(0, 300)
S[i, j] = where(qs[i] == ks[j] and kp[j] <= qp[i], sum[d](Q * K), -inf)
O[i, e] = sum[j](softmax[j](S) * V)
output O
)",
                                          {},
                                          {{"qs", of_queries(false)},
                                           {"qp", of_queries(true)},
                                           {"ks", of_keys(false)},
                                           {"kp", of_keys(true)}},
                                          {},
                                          "group i=1"});
       const HostArray v = normal(DType::f32, {3, 16}, "V");
       for (int64_t i = 0; i < 256; ++i)
         for (int64_t e = 0; e < 16; ++e) {  // the last query of each sequence sees its one key
           const bool last = i == 75 || i == 109 || i == 255;
           ASSERT_EQ(out.at("O").at(i * 16 + e), last ? v.at(segment(cu_q, i) * 16 + e) : 0) << i;
         }
     }},
    {"NoQueriesOfSevenFeatures",
     [](Target t) {
       const char* text =
           "axis b, h, i, j\naxis d = 7, e = 7\ninput Q[b, h, i, d] : f32\ninput K[b, h, j, d] : f32\ninput "
           "V[b, h, "
           "j, e] : f32\nO[b, h, i, e] = sum[j](softmax[j](sum[d](Q[b, h, i, d] * K) / sqrt(size(d))) * "
           "V)\noutput O\n";
       const HostArray none = allocate(DType::f32, {7, 9, 0, 7});
       const HostArray o = outputs_of(t, {text, {}, {{"Q", none}, {"K", none}, {"V", none}}}).at("O");
       EXPECT_EQ(o.shape, (std::vector<int64_t>{7, 9, 0, 7}));
     }},
    {"AWindowOfWKeysHoldsWKeys",
     [](Target t) {
       for (int64_t w : {1, 4, 64, 65}) {
         const HostArray q = allocate(DType::f32, {1, 130, 16});
         const HostArray v = array(DType::f32, {1, 130, 16}, [](int64_t k) { return double(k / 16); });
         const HostArray o = outputs_of(t, {kWindow,
                                            {{"h", 1}, {"i", 130}, {"j", 130}},
                                            {{"Q", q}, {"V", v}},
                                            {{"w", double(w)}},
                                            kChunks})
                                 .at("O");
         for (int64_t i = 0; i < 130; ++i) {
           const double first = double(std::max<int64_t>(0, i - w + 1));  // the mean of first … i
           ASSERT_NEAR(o.at(i * 16), (first + double(i)) / 2, 1e-4) << "w = " << w << ", query " << i;
         }
       }
     }},
    {"ScoresCappedAsWritten",
     [](Target t) {
       const double cap = 3;
       const HostArray q = all(DType::f32, {1, 1, 16}, 0.5);
       const HostArray k = array(DType::f32, {1, 2, 16}, [](int64_t n) { return n < 16 ? 1 : 0; });
       const HostArray v = array(DType::f32, {1, 2, 16}, [](int64_t n) { return n < 16 ? 1 : 0; });
       const double a = std::exp(cap * std::tanh(8 / cap));  // the score of key 0 is 16 · 0.5 = 8
       expect_all(
           outputs_of(t, {kWindow, {}, {{"Q", q}, {"K", k}, {"V", v}}, {{"cap", cap}}, kChunks}).at("O"),
           a / (a + 1), 1e-6);
     }},
    {"PaddingIsNotCappedIntoWeight",
     [](Target t) {
       // 65 keys in chunks of 64, all far below the cap: padding capped to -cap would outweigh them.
       const HostArray q = all(DType::f32, {1, 1, 16}, -1e3), k = all(DType::f32, {1, 65, 16}, 1),
                       v = all(DType::f32, {1, 65, 16}, 7);
       expect_all(outputs_of(t, {kWindow, {}, {{"Q", q}, {"K", k}, {"V", v}}, {{"cap", 5}}, kChunks}).at("O"),
                  7, 1e-5);
       outputs_of(t, {kWindow, {{"h", 1}, {"i", 65}, {"j", 65}}, {}, {{"cap", 5}}, kChunks});
     }},
    {"AnIndexOfMinusInfinityBesideASumInParts",
     [](Target t) {
       const HostArray z =
           array(DType::f32, {2, 300}, [](int64_t k) { return k < 300 || k == 450 ? -INFINITY : 0.5; });
       outputs_of(t, {"axis t, v\ninput z[t, v] : f32\na[t] = argmax[v](z)\nl[t] = logsumexp[v](z)\n"
                      "output a : i32, l : f32\n",
                      {{"t", 2}, {"v", 300}},
                      {{"z", z}},
                      {},
                      "stream v=16; split v=64"});
     }},
    {"ThirtyRunsAreBitEqual",
     [](Target t) {
       const Run run{kCausal, heads(2, 2, 3, 40, 90), {}, {}, {}};
       const HostArray first = outputs_of(t, run).at("O");
       const Program p = parse_program(std::make_shared<SourceText>(SourceText{"case.tw", kCausal}));
       for (int threads : {0, 1}) {
         CompileOptions o;
         o.target = t;
         o.threads = threads;
         SessionOptions s;
         s.sizes = run.sizes;
         Session session(p, o, s);
         for (int n = 0; n < (threads == 0 ? 29 : 1); ++n) {
           session.run(0, 1);
           const HostArray& again = session.outputs().at("O");
           ASSERT_EQ(std::memcmp(first.data.get(), again.data.get(), size_t(first.elements() * 4)), 0) << n;
         }
       }
     }},
    {"NonFiniteValuesBehindACausalEdge",
     [](Target t) {
       const int64_t n = 100;
       HostArray k = normal(DType::f32, {1, 1, n, 16}, "K"), v = normal(DType::f32, {1, 1, n, 16}, "V");
       const HostArray before = outputs_of(t, {kCausal, heads(1, 1, 1, n, n), {{"K", k}, {"V", v}}}).at("O");
       k = array(DType::f32, k.shape, [old = k](int64_t at) { return old.at(at); });
       v = array(DType::f32, v.shape, [old = v](int64_t at) { return old.at(at); });
       set(v, 50 * 16 + 3, NAN);
       set(v, 58 * 16 + 4, INFINITY);
       set(k, 60 * 16 + 5, NAN);
       set(k, 90 * 16 + 6, INFINITY);
       const HostArray after = outputs_of(t, {kCausal, heads(1, 1, 1, n, n), {{"K", k}, {"V", v}}}).at("O");
       for (int64_t at = 0; at < 50 * 16; ++at)
         ASSERT_NEAR(after.at(at), before.at(at), 1e-5) << "query " << at / 16;
       for (int64_t i = 60; i < n; ++i) EXPECT_TRUE(std::isnan(after.at(i * 16))) << "query " << i;
     }},
    {"LogitsAllAlike",
     [](Target t) {
       for (double x : {0.0, 1e4, -1e4}) {
         expect_all(outputs_of(t, {kSoftmax, {}, {{"x", all(DType::f32, {3, 129}, x)}}}).at("P"), 1.0 / 129,
                    1e-9);
         const HostArray q = all(DType::f32, {1, 1, 20, 16}, x / 400),
                         k = all(DType::f32, {1, 1, 129, 16}, 100), v = all(DType::f32, {1, 1, 129, 16}, 3);
         const Outputs out = outputs_of(t, {kCausal, {}, {{"Q", q}, {"K", k}, {"V", v}}});
         expect_all(out.at("O"), 3, 1e-5);
         for (int64_t i = 0; i < 20; ++i)
           EXPECT_NEAR(out.at("L").at(i), x + std::log(110.0 + double(i)), 1e-3);
       }
     }},
    {"LogitsSpreadWide",
     [](Target t) {
       const int64_t n = 1001;
       const auto spread = [&](double shift) {
         return array(DType::f32, {1, n}, [=](int64_t k) { return -6e4 + 120.0 * double(k) + shift; });
       };
       const HostArray p = outputs_of(t, {kSoftmax, {}, {{"x", spread(0)}}}).at("P"),
                       q = outputs_of(t, {kSoftmax, {}, {{"x", spread(8192)}}}).at("P");
       for (int64_t k = 0; k < n; ++k) ASSERT_EQ(p.at(k), q.at(k)) << k;
       EXPECT_EQ(p.at(n - 1), 1);
     }},
    {"FeaturesOfAnyNumber",
     [](Target t) {
       std::vector<std::pair<int, int>> dims = {{72, 112}, {96, 80}};
       if (full_sweep())
         dims.insert(dims.end(), {{80, 96}, {112, 72}, {192, 128}, {576, 512}, {32, 256}, {256, 32}});
       for (auto [d, e] : dims) {
         SCOPED_TRACE(fmt::format("d = {}, e = {}", d, e));
         outputs_of(t,
                    {fmt::format(
                         "axis h, i, j\naxis d = {}, e = {}\ninput Q[h, i, d] : f32\ninput K[h, j, d] : f32\n"
                         "input V[h, j, e] : f32\nS[h, i, j] = sum[d](Q * K) / sqrt(size(d))\n"
                         "O[h, i, e] = sum[j](softmax[j](S) * V)\noutput O\n",
                         d, e),
                     {{"h", 2}, {"i", 70}, {"j", 70}}});
       }
     }},
};

class KnownCases : public ::testing::TestWithParam<std::tuple<Case, Target>> {};

TEST_P(KnownCases, AreRight) {
  const auto& [c, target] = GetParam();
  if (target == Target::Cuda) SKIP_WITHOUT_GPU();
  try {
    c.check(target);
  } catch (const UserError& e) {
    if (target == Target::Cuda && !HasFailure()) GTEST_SKIP() << "refused: " << e.diagnostics()[0].what;
    std::string text;
    for (const Diagnostic& d : e.diagnostics()) text += d.render();
    ADD_FAILURE() << text;
  }
}

INSTANTIATE_TEST_SUITE_P(All, KnownCases,
                         ::testing::Combine(::testing::ValuesIn(kCases),
                                            ::testing::Values(Target::Interp, Target::Cpu, Target::Cuda)),
                         [](const auto& of) {
                           return fmt::format("{}_{}", std::get<0>(of.param).name,
                                              name(std::get<1>(of.param)));
                         });

}  // namespace
}  // namespace tilewright::testing::known_cases_test
