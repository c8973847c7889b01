// Programs of many kinds on the CPU against their definitions: reducers, products in every form, masks, gathers. A program is written with {T} for the
// type of its arrays; sizes are run-time values, so that one compilation serves all of them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "tests/support/examples.h"
#include "tilewright/driver/session.h"

namespace tilewright::testing::cpu_programs_test {
namespace {

using SizeMap = std::map<std::string, int64_t>;

struct Run {
  std::string schedule;
  double slack =
      1;  ///< of the tolerance: with few elements the naive program's error, which it follows, is a matter of luck
};

std::string with_dtype(std::string text, DType t) {
  for (size_t at = text.find("{T}"); at != std::string::npos; at = text.find("{T}", at))
    text.replace(at, 3, name(t));
  return text;
}

void expect_definition(const std::string& text, DType dtype, const std::vector<SizeMap>& sizes,
                       const Run& run = {}) {
  const Program p = parse_program(std::make_shared<SourceText>(SourceText{"p.tw", with_dtype(text, dtype)}));
  CompileOptions options;
  options.schedule = run.schedule;
  std::shared_ptr<Kernel> kernel;  // made for the first sizes, run at all
  for (const SizeMap& at : sizes) {
    std::string where = std::string(name(dtype)) + " " + run.schedule;
    for (const auto& [axis, size] : at) where += fmt::format(" {}={}", axis, size);
    try {
      SessionOptions s;
      s.sizes = at;
      if (!kernel) kernel = std::make_shared<Kernel>(p, options);
      Session session(p, options, s, kernel);
      session.run(0, 1);
      for (const OutputCheck& o : session.check()) {
        const Comparison& c = o.comparison;
        const bool close =
            c.reason.find("exceeds") != std::string::npos && c.error <= run.slack * c.tolerance;
        EXPECT_TRUE(c.passed || close)
            << text << where << ": " << o.name << ": " << c.reason << ", error " << c.error << ", tolerance "
            << c.tolerance << ", at [" << fmt::format("{}", fmt::join(o.index, ", ")) << "] got " << o.got
            << ", expected " << o.expected << "; plan " << session.kernel().last_plan();
      }
    } catch (const UserError& e) {
      std::string all;
      for (const Diagnostic& d : e.diagnostics()) all += d.render();
      ADD_FAILURE() << text << where << ": " << all;
    } catch (const std::exception& e) {
      ADD_FAILURE() << text << where << ": " << e.what();
    }
  }
}

const DType kTypes[] = {DType::f32, DType::f16, DType::f64};
/// Whole vectors, part of one, none; past one round of four vectors; past one chunk of a short stream.
const int64_t kLengths[] = {0, 1, 2, 33, 129, 1000};

std::vector<SizeMap> rows(int64_t r) {
  std::vector<SizeMap> all;
  for (int64_t j : kLengths) all.push_back({{"r", r}, {"j", j}});
  return all;
}

std::string reducing(const std::string& definition) {
  return "axis r, j\ninput x[r, j] : {T}\ninput k[r, j] : i32 range(-5, 100)\n" + definition + "\noutput m\n";
}

/// Resident in every type; in f32 also streamed in short chunks, and split.
void expect_reducer(const std::string& definition, bool splits = true) {
  const std::string text = reducing(definition);
  const bool reals = definition.find('k') == std::string::npos;  // else only `k` is read
  for (DType t : kTypes)
    if (t == DType::f32 || reals) expect_definition(text, t, rows(70), {.slack = 2});
  expect_definition(text, DType::f32, rows(70), {.schedule = "stream j=64", .slack = 2});
  if (splits)
    expect_definition(text, DType::f32, rows(70), {.schedule = "stream j=64; split j=128", .slack = 2});
}

TEST(CpuReducers, Products) {
  expect_reducer("m[r] = prod[j](1 + x / 10)");
  expect_reducer("m[r] = prod[j](where(x > 0, 1, -1))");
  expect_reducer("m[r] = prod[j](where(j % 2 == 0, 1 - x / 10, 1))");
  expect_reducer("m[r] = prod[j](where(k % 60 == 0, 2, 1))");
}

TEST(CpuReducers, Sums) {
  expect_reducer("m[r] = sum[j](x - 1)");
  expect_reducer("m[r] = sum[j](where(x > 0, x, 0))");
  expect_reducer("m[r] = sum[j](k)");
  expect_reducer("m[r] = sum[j](x > 0)");
  expect_reducer("m[r] = mean[j](x)");
  expect_reducer("m[r] = var[j](x)");
}

TEST(CpuReducers, Extrema) {
  expect_reducer("m[r] = max[j](x)");
  expect_reducer("m[r] = min[j](x * x - 1)");
  expect_reducer("m[r] = max[j](k)");
  expect_reducer("m[r] = min[j](2 * k - 1)");
  expect_reducer("m[r] = max[j](where(j <= r + 40, x, -inf))");
}

TEST(CpuReducers, Conditions) {
  expect_reducer("m[r] = any[j](x > 2 or x < -2.5)");
  expect_reducer("m[r] = all[j](x > -2 and x < 2)");
  expect_reducer("m[r] = any[j](k == 7)");
}

TEST(CpuReducers, Indices) {
  expect_reducer("m[r] = argmax[j](x)");
  expect_reducer("m[r] = argmin[j](x)");
  expect_reducer("m[r] = argmax[j](k)");
  expect_reducer("m[r] = argmax[j](where(j > r, x, -inf))");
}

TEST(CpuReducers, Exponentials) {
  expect_reducer("m[r] = logsumexp[j](x)");
  expect_reducer("m[r] = logsumexp[j](where(j <= r + 3, x, -inf))");
  expect_reducer("m[r, j] = softmax[j](x)", false);
  expect_reducer("m[r, j] = softmax[j](where(j <= r + 3, x, -inf))", false);
}

const char kCausal[] =
    "axis b, i, j\naxis d = 24, e = 40\ninput Q[b, i, d] : {T}\ninput K[b, j, d] : {T}\ninput V[b, j, e] : "
    "{T}\n"
    "S[b, i, j] = where(j <= i + size(j) - size(i), sum[d](Q[b, i, d] * K[b, j, d]) / sqrt(size(d)), -inf)\n"
    "O[b, i, e] = sum[j](softmax[j](S) * V[b, j, e])\noutput O\n";
const char kNormProduct[] =
    "axis r, n\naxis c = 70\ninput x[r, c] : {T}\ninput g[c] : {T}\ninput W[c, n] : {T}\nm[r] = "
    "mean[c](x)\nv[r] = var[c](x)\n"
    "y[r, n] = sum[c]((x[r, c] - m[r]) * rsqrt(v[r] + 1e-5) * g[c] * W[c, n])\noutput y\n";

TEST(CpuIntegers, ABranchThatIsNotTakenDividesByZero) {
  for (const char* value :
       {"where(x != 0, 10 // x, 0)", "where(x != 0, 10 % x, 0)", "where(x > 0 and 7 // x > 2, x, 0)"})
    expect_definition(
        fmt::format("axis r, c\ninput x[r, c] : i32 range(0, 4)\ns[r] = sum[c]({})\noutput s : i64\n", value),
        DType::f32, {{{"r", 2}, {"c", 9}}, {{"r", 3}, {"c", 100}}});
}

TEST(CpuRounding, ADefinitionRoundsBeforeItsOutputIsStored) {
  for (const char* narrow : {"f16", "bf16"})
    for (const char* value : {"sum[c](x)", "max[c](x) * 1.001", "sum[c](exp(x - max[c](x)))"})
      expect_definition(
          fmt::format("axis r, c\ninput x[r, c] : {{T}}\nf[r] : {} = {}\noutput f : f32\n", narrow, value),
          DType::f32, {{{"r", 9}, {"c", 40}}});
}

/// Rows fill panels of three vectors, two, one, a part of one; a power of two or not.
TEST(CpuBlocks, AnyBlockOfRows) {
  const std::vector<SizeMap> sizes = {{{"b", 2}, {"i", 1}, {"j", 1}},
                                      {{"b", 1}, {"i", 7}, {"j", 129}},
                                      {{"b", 1}, {"i", 129}, {"j", 64}},
                                      {{"b", 2}, {"i", 100}, {"j", 100}}};
  for (int64_t block : {1, 2, 8, 12, 16, 33, 40, 48, 130})
    expect_definition(kCausal, DType::f32, sizes, {.schedule = fmt::format("group i={}", block)});
}

/// Of a panel's vectors, or of a vector, about half is computed where no more rows are left: one row less and more than each, as often as the
/// micro-kernel's rows divide the stream and features, and not.
TEST(CpuBlocks, RowsThatFillPartOfAPanel) {
  const char* before = std::getenv("TILEWRIGHT_CPU_ISA");
  const std::string saved = before ? before : "";
  std::vector<SizeMap> sizes;
  for (int64_t vector : {4, 8, 16})
    for (int64_t vectors : {1, 2, 4, 5})
      for (int64_t more : {-vector / 2, int64_t(0), int64_t(1)})
        sizes.push_back({{"b", 1}, {"i", vectors * vector + more}, {"j", more == 1 ? 45 : 64}});
  for (const char* isa : {"avx512", "avx2", "portable"}) {
    setenv("TILEWRIGHT_CPU_ISA", isa, 1);
    for (const char* schedule : {"group i=48", "group i=16", "group i=8"})
      expect_definition(kCausal, DType::f32, sizes, {.schedule = schedule});
    expect_definition(kCausal, DType::f64, sizes, {.schedule = "group i=24"});
  }
  if (before)
    setenv("TILEWRIGHT_CPU_ISA", saved.c_str(), 1);
  else
    unsetenv("TILEWRIGHT_CPU_ISA");
}

TEST(CpuBlocks, AnyChunkOfTheStream) {
  const std::vector<SizeMap> sizes = {
      {{"b", 1}, {"i", 7}, {"j", 129}}, {{"b", 1}, {"i", 60}, {"j", 60}}, {{"b", 1}, {"i", 1}, {"j", 1}}};
  for (int64_t chunk : {1, 2, 7, 33})
    for (int64_t block : {1, 16, 48})
      if (chunk == 1 || block == 16)
        expect_definition(kCausal, DType::f32, sizes,
                          {.schedule = fmt::format("group i={}; stream j={}", block, chunk)});
  for (int64_t chunk : {1, 8})
    expect_definition(reducing("m[r, j] = softmax[j](x)"), DType::f16, rows(5),
                      {.schedule = fmt::format("stream j={}", chunk)});
}

/// A mean that moves with every element costs more digits than the tolerance of few elements allows.
TEST(CpuBlocks, AnyBlockOfColumns) {
  for (const char* schedule : {"group r=3, n=5; stream c=1", "group r=33, n=16; stream c=7",
                               "group r=8, n=33", "group r=1, n=1; stream c=64", "group r=72, n=64"})
    expect_definition(kNormProduct, DType::f32,
                      {{{"r", 5}, {"n", 70}}, {{"r", 75}, {"n", 33}}, {{"r", 1}, {"n", 70}}},
                      {.schedule = schedule, .slack = 4});
}

/// Few rows read the other operand where it lies if its rows are contiguous and fill panels, and a copy of it otherwise. Rows that the
/// micro-kernel's do not divide end with halves of it.
TEST(CpuBlocks, ProductsOfFewRows) {
  std::vector<SizeMap> sizes;
  for (int64_t m : {1, 2, 3, 5, 7, 12, 16, 17})
    for (int64_t n : {48, 100, 336})
      for (int64_t k : {1, 70}) sizes.push_back({{"m", m}, {"n", n}, {"k", k}});
  const char* contiguous =
      "axis m, n, k\ninput A[m, k] : {T}\ninput B[k, n] : {T}\nC[m, n] = sum[k](A * B)\noutput C\n";
  const char* apart =
      "axis m, n, k\naxis p = 2 * size(n)\ninput A[m, k] : {T}\ninput B[k, p] : {T}\n"
      "C[m, n] = sum[k](A * B[k, 2 * n])\noutput C\n";
  for (DType t : {DType::f32, DType::f16, DType::bf16}) expect_definition(contiguous, t, sizes);
  expect_definition(apart, DType::f32, sizes);
}

/// The sum of γ W, one row, is taken with the first rows of the product, whichever they are.
TEST(CpuBlocks, AProductOfOneRowBesideOneOfMany) {
  std::vector<SizeMap> sizes;
  for (int64_t r : {1, 7, 8, 9, 16, 40})
    for (int64_t n : {48, 100}) sizes.push_back({{"r", r}, {"n", n}});
  for (DType t : {DType::f32, DType::f16, DType::bf16})
    expect_definition(kNormProduct, t, sizes, {.slack = 4});
}

/// A sum inside of a chunk that is long is taken in parts, ragged ones too.
TEST(CpuBlocks, LongSumsInsideOfAChunk) {
  const char* text =
      "axis t, v\naxis c = 800\ninput x[t, c] : {T}\ninput W[c, v] : {T}\nz[t, v] = sum[c](x * W)\n"
      "m[t] = max[v](z)\nL[t] = logsumexp[v](z / 30)\noutput m, L\n";
  std::vector<SizeMap> sizes;
  for (int64_t t : {7, 50, 200})
    for (int64_t v : {33, 250}) sizes.push_back({{"t", t}, {"v", v}});
  sizes.push_back({{"t", 390}, {"v", 40}});  // several blocks of rows
  sizes.push_back({{"t", 9}, {"v", 900}});   // several parts
  for (DType dtype : {DType::f32, DType::bf16}) expect_definition(text, dtype, sizes, {.slack = 4});
}

/// Axes of the literal size 0 inside of a stream: sums over nothing, and outputs without elements.
TEST(CpuBlocks, LiteralSizesOfZero) {
  for (const char* sizes : {"d = 0, e = 8", "d = 8, e = 0"})
    expect_definition(
        fmt::format(
            "axis i, j\naxis {}\ninput Q[i, d] : {{T}}\ninput K[j, d] : {{T}}\ninput V[j, e] : {{T}}\n"
            "O[i, e] = sum[j](softmax[j](sum[d](Q * K)) * V)\noutput O\n",
            sizes),
        DType::f32, {{{"i", 5}, {"j", 70}}}, {.slack = 4});
}

/// A cache of pages of 16 keys, found through a table.
const char kPaged[] =
    "axis b, h, i, p, n\naxis s = 16, d = 32, e = 40\naxis j = 16 * size(p)\ninput Q[b, h, i, d] : "
    "{T}\ninput C[n, h, s, d] : {T}\ninput D[n, h, s, e] : {T}\n"
    "input page[b, p] : i32 range(0, size(n))\ninput len[b] : i32 range(0, 100)\n"
    "S[b, h, i, j] = where(j < len[b], sum[d](Q[b, h, i, d] * C[page[b, j // 16], h, j % 16, d]) / "
    "sqrt(size(d)), -inf)\n"
    "O[b, h, i, e] = sum[j](softmax[j](S) * D[page[b, j // 16], h, j % 16, e])\noutput O\n";

TEST(CpuGathers, PagedCache) {
  std::vector<SizeMap> sizes;
  for (int64_t p : {0, 1, 2, 9})
    for (int64_t i : {1, 50}) sizes.push_back({{"b", 2}, {"h", 3}, {"i", i}, {"p", p}, {"n", 20}});
  for (DType t : {DType::f32, DType::f16, DType::bf16}) expect_definition(kPaged, t, sizes);
}

/// Lanes along what is gathered, along what is not, and none; guarded reads are made where the guard holds only.
TEST(CpuGathers, ComputedIndices) {
  expect_definition(
      "axis r, j, v\ninput x[r, v] : {T}\ninput t[j] : i32 range(0, size(v))\nm[r] = sum[j](x[r, "
      "t[j]])\noutput m\n",
      DType::f32,
      {{{"r", 5}, {"j", 0}, {"v", 3}}, {{"r", 5}, {"j", 1}, {"v", 1}}, {{"r", 7}, {"j", 129}, {"v", 40}}});
  expect_definition(
      "axis r, j\ninput x[r, j] : {T}\nm[r] = sum[j](where(j >= 3, x[r, j - 3], 0))\noutput m\n", DType::f16,
      rows(6));
  expect_definition(
      "axis r, j\ninput x[r, j] : {T}\nm[r] = max[j](where(j + r < size(j), x[r, j + r], -inf))\noutput m\n",
      DType::f32, rows(6));
  expect_definition(
      "axis r, v\ninput x[r, v] : {T}\ninput t[r] : i32 range(0, size(v))\nm[r] = logsumexp[v](x) - x[r, "
      "t[r]]\noutput m\n",
      DType::f32, {{{"r", 5}, {"v", 1}}, {{"r", 3}, {"v", 33}}, {{"r", 70}, {"v", 1000}}});
}

/// A program, the axes that take every length, those that do not, and the types it runs in.
struct Sample {
  const char* title;
  const char* text;
  std::vector<const char*> axes;
  SizeMap fixed;
  std::vector<DType> types;
};

/// All axes alike, then one at a time empty, of one element, and long.
std::vector<SizeMap> lengths(const Sample& s) {
  std::vector<SizeMap> all;
  const auto add = [&](int64_t others, const char* axis, int64_t n) {
    SizeMap m = s.fixed;
    for (const char* a : s.axes) m[a] = others;
    if (axis) m[axis] = n;
    if (std::find(all.begin(), all.end(), m) == all.end()) all.push_back(m);
  };
  for (int64_t n : {0, 1, 2, 17, 129}) add(n, nullptr, 0);
  for (const char* a : s.axes) {
    add(17, a, 0);
    add(33, a, 1);
    add(9, a, 1000);
  }
  return all;
}

/// Results of few elements make the tolerance, which follows the naive program's error, a matter of luck. Each sample runs in one of its types, by turns;
/// in all of them with TILEWRIGHT_SWEEP=full.
void expect_samples(const std::vector<Sample>& samples) {
  for (size_t n = 0; n < samples.size(); ++n) {
    const Sample& s = samples[n];
    SCOPED_TRACE(s.title);
    for (size_t k = 0; k < s.types.size(); ++k)
      if (k == n % s.types.size() || full_sweep())
        expect_definition(s.text, s.types[k], lengths(s), {.slack = 4});
  }
}

/// Decays by the distance of two positions: at position 1500 a difference of two products would have lost four digits.
TEST(CpuPrograms, DecaysByDistance) {
  expect_definition(
      "axis i, j, c\ninput x[j, c] : {T}\ninput a[c] : f32 range(0.5, 0.99)\ninput g[c] : f32 range(0.1, "
      "0.9)\n"
      "y[i, c] = sum[j](where(j <= i, a ** (i - j) * x, 0))\n"
      "z[i, c] = sum[j](where(j <= i, exp(-(i - j) * g) * x, 0))\noutput y, z\n",
      DType::f32,
      {{{"i", 0}, {"j", 0}, {"c", 2}},
       {{"i", 70}, {"j", 70}, {"c", 3}},
       {{"i", 1500}, {"j", 1500}, {"c", 2}}});
}

/// Beside a streamed axis, an index along a short one: NaN is first, and nothing present gives -1.
TEST(CpuPrograms, IndicesAlongShortAxes) {
  expect_definition(
      "axis t, c\naxis n = 8\ninput x[t, n] : {T}\ninput w[t, c] : {T}\ninput table[t, n] : {T}\n"
      "k[t] = argmax[n](x)\nl[t] = argmin[n](where(x > 0, x, inf))\nq[t] = argmax[n](where(x > 5, x, -inf))\n"
      "r[t] = argmax[n](where(x > 0, sqrt(-x), x))\ns[t] = argmax[n](0 * x)\n"
      "y[t] = sum[c](w) * k + table[t, max(0, l[t])]\noutput y, k : i32, l : i32, q : i32, r : i32, s : "
      "i32\n",
      DType::f32, {{{"t", 0}, {"c", 3}}, {{"t", 50}, {"c", 70}}}, {.schedule = "", .slack = 4});
}

/// States hold integers as reals; what is made of them may need the integer: quotients, remainders and indices.
TEST(CpuPrograms, IntegersOfReductions) {
  expect_definition(
      "axis r, c\naxis n = 5\ninput x[r, c] : i32 range(-10, 10)\ninput w[c, r] : i32 range(-3, 3)\n"
      "input z[r, c] : {T}\ninput table[c, n] : {T}\n"
      "a[r] = sum[c](x) // 7\nb[r] = sum[c](where(x > 0, 1, 0)) % 5\np[r] = argmax[c](z)\n"
      "y[r, n] = table[p[r], n]\noutput a : i32, b : i32, y\n",
      DType::f32, {{{"r", 7}, {"c", 129}}, {{"r", 50}, {"c", 3}}}, {.schedule = "", .slack = 4});
  expect_definition(
      "axis r, c, k\ninput x[r, k] : i32 range(-10, 10)\ninput w[k, c] : i32 range(-3, 3)\n"
      "a[r, c] = sum[k](x * w) // 7\noutput a : i32\n",
      DType::f32, {{{"r", 7}, {"c", 20}, {"k", 33}}}, {.schedule = "", .slack = 4});
}

TEST(CpuPrograms, Products) {
  expect_samples({
      {"rows by columns",
       "axis m, n, k\n"
       "input A[m, k] : {T}\n"
       "input B[k, n] : {T}\n"
       "C[m, n] = sum[k](A[m, k] * B[k, n])\n"
       "output C\n",
       {"m", "n", "k"},
       {},
       {DType::f32, DType::bf16}},
      {"both contiguous along the sum",
       "axis m, n, k\n"
       "input A[m, k] : {T}\n"
       "input B[n, k] : {T}\n"
       "C[m, n] = sum[k](A[m, k] * B[n, k])\n"
       "output C\n",
       {"m", "n", "k"},
       {},
       {DType::f32}},
      {"transposed operands and result",
       "axis m, n, k\n"
       "input A[k, m] : {T}\n"
       "input B[n, k] : {T}\n"
       "C[n, m] = sum[k](A[k, m] * B[n, k])\n"
       "output C\n",
       {"m", "n", "k"},
       {},
       {DType::f32}},
      {"batched",
       "axis b, m, n, k\n"
       "input A[b, m, k] : {T}\n"
       "input B[b, k, n] : {T}\n"
       "C[b, m, n] = sum[k](A * B)\n"
       "output C : {T}\n",
       {"m", "n", "k"},
       {{"b", 3}},
       {DType::f32}},
      {"bias and gelu",
       "axis m, n, k\n"
       "input A[m, k] : {T}\n"
       "input B[k, n] : {T}\n"
       "input c[n] : {T}\n"
       "C[m, n] = gelu(sum[k](A * B) / sqrt(size(k) + 1) + c)\n"
       "output C : {T}\n",
       {"m", "n", "k"},
       {},
       {DType::f32, DType::f16}},
      {"scaled rows and columns",
       "axis m, n, k\n"
       "input A[m, k] : {T}\n"
       "input B[k, n] : {T}\n"
       "input s[m] : {T}\n"
       "input t[n] : {T}\n"
       "C[m, n] = s[m] * t[n] * sum[k](A * B) + 1\n"
       "output C : {T}\n",
       {"m", "n", "k"},
       {},
       {DType::f32}},
      {"matrix by vector",
       "axis m, k\n"
       "input A[m, k] : {T}\n"
       "input x[k] : {T}\n"
       "y[m] = sum[k](A * x)\n"
       "output y\n",
       {"m", "k"},
       {},
       {DType::f32}},
      {"vector by matrix",
       "axis n, k\n"
       "input A[k, n] : {T}\n"
       "input x[k] : {T}\n"
       "y[n] = sum[k](A * x)\n"
       "output y\n",
       {"n", "k"},
       {},
       {DType::f32}},
      {"three factors",
       "axis m, n, k\n"
       "input A[m, k] : {T}\n"
       "input B[k, n] : {T}\n"
       "input D[m, k] : {T}\n"
       "C[m, n] = sum[k](A * B * D)\n"
       "output C\n",
       {"m", "n", "k"},
       {},
       {DType::f32, DType::bf16}},
      {"three factors, one with every axis",
       "axis m, n, k\n"
       "input A[m, k] : {T}\n"
       "input B[k, n] : {T}\n"
       "input D[m, n, k] : {T}\n"
       "C[m, n] = sum[k](A * B * D)\n"
       "output C\n",
       {"m", "n", "k"},
       {},
       {DType::f32}},
      {"two summed axes",
       "axis m, n, k\n"
       "axis l = 8\n"
       "input A[m, k, l] : {T}\n"
       "input B[k, l, n] : {T}\n"
       "C[m, n] = sum[k, l](A * B)\n"
       "output C\n",
       {"m", "n", "k"},
       {},
       {DType::f32}},
      {"two products in a row",
       "axis m, n, k\n"
       "axis l = 48\n"
       "input A[m, l] : {T}\n"
       "input B[l, k] : {T}\n"
       "input D[k, n] : {T}\n"
       "C[m, n] = sum[k](sum[l](A[m, l] * B[l, k]) * D[k, n])\n"
       "output C\n",
       {"m", "n", "k"},
       {},
       {DType::f32, DType::f16}},
      {"gated two-layer network",
       "axis m, n, k\n"
       "axis l = 48\n"
       "input A[m, l] : {T}\n"
       "input B[l, k] : {T}\n"
       "input G[l, k] : {T}\n"
       "input D[k, n] : {T}\n"
       "C[m, n] = sum[k](silu(sum[l](A[m, l] * G[l, k])) * sum[l](A[m, l] * B[l, k]) * D[k, n])\n"
       "output C : {T}\n",
       {"m", "n", "k"},
       {},
       {DType::f32}},
      {"three outputs, one without columns",
       "axis m, n, k\n"
       "input A[m, k] : {T}\n"
       "input B[k, n] : {T}\n"
       "input D[k, n] : {T}\n"
       "C[m, n] = sum[k](A * B)\n"
       "E[m, n] = sum[k](A * D)\n"
       "s[m] = sum[k](A)\n"
       "output C, E, s\n",
       {"m", "n", "k"},
       {},
       {DType::f32}},
      {"a product gates another",
       "axis m, n, k\n"
       "input A[m, k] : {T}\n"
       "input B[k, n] : {T}\n"
       "input D[k, n] : {T}\n"
       "C[m, n] = silu(sum[k](A * B)) * sum[k](A * D)\n"
       "output C : {T}\n",
       {"m", "n", "k"},
       {},
       {DType::f32}},
      {"a form in two vectors",
       "axis m, n\n"
       "axis k = 12, l = 20\n"
       "input A[m, k] : {T}\n"
       "input B[n, l] : {T}\n"
       "input W[k, l] : {T}\n"
       "C[m, n] = sum[k, l](A[m, k] * W[k, l] * B[n, l])\n"
       "output C\n",
       {"m", "n"},
       {},
       {DType::f32, DType::bf16}},
      {"a product of products",
       "axis m, n, j\n"
       "axis k = 12\n"
       "input A[m, j] : {T}\n"
       "input W[j, k] : {T}\n"
       "input B[n, k] : {T}\n"
       "C[m, n] = sum[j](A[m, j] * sum[k](W[j, k] * B[n, k]))\n"
       "output C\n",
       {"m", "n", "j"},
       {},
       {DType::f32}},
      {"maxima of sums",
       "axis m, n, k\n"
       "input A[m, k] : {T}\n"
       "input B[k, n] : {T}\n"
       "C[m, n] = max[k](A + B)\n"
       "output C\n",
       {"m", "n", "k"},
       {},
       {DType::f32}},
      {"nearest of many",
       "axis m, n\n"
       "axis d = 24\n"
       "input A[m, d] : {T}\n"
       "input B[n, d] : {T}\n"
       "C[m] = min[n](sum[d]((A[m, d] - B[n, d]) ** 2))\n"
       "output C\n",
       {"m", "n"},
       {},
       {DType::f32}},
      {"convolution by shifted reads",
       "axis b, t, n\n"
       "axis c = 16, w = 3\n"
       "input x[b, t, c] : {T}\n"
       "input K[w, c, n] : {T}\n"
       "y[b, t, n] = sum[c, w](where(t - w >= 0, x[b, t - w, c] * K[w, c, n], 0))\n"
       "output y : {T}\n",
       {"t", "n"},
       {{"b", 2}},
       {DType::f32}},
  });
}

TEST(CpuPrograms, Types) {
  expect_samples({
      {"weights in i8",
       "axis m, n, k\n"
       "input A[m, k] : {T}\n"
       "input B[k, n] : i8 range(-127, 128)\n"
       "input s[n] : {T}\n"
       "C[m, n] = s[n] * sum[k](A * B)\n"
       "output C : {T}\n",
       {"m", "n", "k"},
       {},
       {DType::f32}},
      {"integers",
       "axis m, n, k\n"
       "input A[m, k] : i8 range(-127, 128)\n"
       "input B[k, n] : i8 range(-127, 128)\n"
       "C[m, n] = sum[k](A * B)\n"
       "output C\n",
       {"m", "n", "k"},
       {},
       {DType::f32}},
      {"f8 factors",
       "axis m, n, k\n"
       "input A[m, k] : f8e4m3\n"
       "input B[k, n] : f8e4m3\n"
       "C[m, n] = sum[k](A * B)\n"
       "output C : bf16\n",
       {"m", "n", "k"},
       {},
       {DType::f32}},
      {"f64",
       "axis m, n, k\n"
       "input A[m, k] : f64\n"
       "input B[k, n] : f64\n"
       "C[m, n] = sum[k](A * B)\n"
       "output C\n",
       {"m", "n", "k"},
       {},
       {DType::f32}},
  });
}

TEST(CpuPrograms, Rows) {
  expect_samples({
      {"RMSNorm into a product",
       "axis r, n\n"
       "axis c = 200\n"
       "input x[r, c] : {T}\n"
       "input g[c] : {T}\n"
       "input W[c, n] : {T}\n"
       "q[r] = mean[c](x * x)\n"
       "y[r, n] = sum[c](x * rsqrt(q[r] + 1e-5) * g * W)\n"
       "output y : {T}\n",
       {"r", "n"},
       {},
       {DType::f32, DType::f16}},
      {"gradient of softmax",
       "axis r, j\n"
       "input p[r, j] : {T}\n"
       "input g[r, j] : {T}\n"
       "d[r] = sum[j](p * g)\n"
       "y[r, j] = p * (g - d)\n"
       "output y : {T}\n",
       {"r", "j"},
       {},
       {DType::f32}},
      {"cross-entropy of a product",
       "axis t, v\n"
       "axis d = 64\n"
       "input h[t, d] : {T}\n"
       "input W[v, d] : {T}\n"
       "input label[t] : i32 range(0, size(v))\n"
       "z[t, v] = sum[d](h[t, d] * W[v, d])\n"
       "L[t] = logsumexp[v](z) - z[t, label[t]]\n"
       "output L\n",
       {"t"},
       {{"v", 300}},
       {DType::f32, DType::bf16}},
      {"greedy choice",
       "axis t, v\n"
       "axis d = 64\n"
       "input h[t, d] : {T}\n"
       "input W[v, d] : {T}\n"
       "z[t, v] = sum[d](h[t, d] * W[v, d])\n"
       "L[t] = argmax[v](z)\n"
       "output L\n",
       {"t", "v"},
       {},
       {DType::f32}},
  });
}

/// What is stored as it was read, in every direction.
TEST(CpuPrograms, Copies) {
  for (const char* text : {"axis i\ninput x[i] : {T}\ny[i] = x\noutput y : {T}\n",
                           "axis i\ninput x[i] : {T}\ny[i] = x[size(i) - 1 - i]\noutput y : {T}\n"})
    for (DType t : {DType::f32, DType::f16})
      expect_definition(text, t, {{{"i", 0}}, {{"i", 1}}, {{"i", 5000}}});
  for (const char* text :
       {"axis i, j\ninput x[i, j] : {T}\ny[j, i] = x\noutput y : {T}\n",
        "axis i, j\ninput x[i, j] : {T}\ny[i, j] = x\ns[i] = sum[j](x)\noutput y : {T}, s : f32\n"})
    expect_definition(text, DType::f32, {{{"i", 3}, {"j", 129}}, {{"i", 70}, {"j", 7}}});
}

/// A chunk of one element has no loop for vectors to run along, also where nothing read says which axis they would take.
TEST(CpuPrograms, ChunksOfOneElementAreCounted) {
  const std::string count = "axis r, j\nt[r] = sum[j]((j // 4 <= r // 2) or (r - j < 3))\noutput t\n";
  const std::string largest = "axis r, j\ninput x[r, j] : f32\nm[r] = max[j](x)\noutput m\n";
  for (const std::string& text : {count, largest})
    expect_definition(text, DType::f32, {{{"r", 1}, {"j", 2}}, {{"r", 9}, {"j", 17}}},
                      {.schedule = "stream j=1"});
}

TEST(CpuPrograms, Masks) {
  expect_samples({
      {"no mask, heads of 40",
       "axis b, h, i, j\n"
       "axis d = 40, e = 40\n"
       "input Q[b, h, i, d] : {T}\n"
       "input K[b, h, j, d] : {T}\n"
       "input V[b, h, j, e] : {T}\n"
       "S[b, h, i, j] = sum[d](Q[b, h, i, d] * K[b, h, j, d]) / sqrt(size(d))\n"
       "C[b, h, i, j] = S\n"
       "P[b, h, i, j] = softmax[j](C)\n"
       "O[b, h, i, e] = sum[j](P[b, h, i, j] * V[b, h, j, e])\n"
       "output O : {T}\n",
       {"i", "j"},
       {{"b", 1}, {"h", 2}},
       {DType::f32, DType::bf16}},
      {"unlike heads",
       "axis b, h, i, j\n"
       "axis d = 192, e = 128\n"
       "input Q[b, h, i, d] : {T}\n"
       "input K[b, h, j, d] : {T}\n"
       "input V[b, h, j, e] : {T}\n"
       "S[b, h, i, j] = sum[d](Q[b, h, i, d] * K[b, h, j, d]) / sqrt(size(d))\n"
       "C[b, h, i, j] = S\n"
       "P[b, h, i, j] = softmax[j](C)\n"
       "O[b, h, i, e] = sum[j](P[b, h, i, j] * V[b, h, j, e])\n"
       "output O : {T}\n",
       {"i", "j"},
       {{"b", 1}, {"h", 2}},
       {DType::f32}},
      {"window",
       "axis b, h, i, j\n"
       "axis d = 64, e = 64\n"
       "param w : i32 = 20\n"
       "input Q[b, h, i, d] : {T}\n"
       "input K[b, h, j, d] : {T}\n"
       "input V[b, h, j, e] : {T}\n"
       "S[b, h, i, j] = sum[d](Q[b, h, i, d] * K[b, h, j, d]) / sqrt(size(d))\n"
       "C[b, h, i, j] = where(j <= i + size(j) - size(i) and i + size(j) - size(i) - j < w, S, -inf)\n"
       "P[b, h, i, j] = softmax[j](C)\n"
       "O[b, h, i, e] = sum[j](P[b, h, i, j] * V[b, h, j, e])\n"
       "output O : {T}\n",
       {"i", "j"},
       {{"b", 1}, {"h", 2}},
       {DType::f32, DType::bf16}},
      {"softcap",
       "axis b, h, i, j\n"
       "axis d = 64, e = 64\n"
       "param cap : f32 = 20 range(1, 100)\n"
       "input Q[b, h, i, d] : {T}\n"
       "input K[b, h, j, d] : {T}\n"
       "input V[b, h, j, e] : {T}\n"
       "S[b, h, i, j] = sum[d](Q[b, h, i, d] * K[b, h, j, d]) / sqrt(size(d))\n"
       "C[b, h, i, j] = where(j <= i + size(j) - size(i), cap * tanh(S / cap), -inf)\n"
       "P[b, h, i, j] = softmax[j](C)\n"
       "O[b, h, i, e] = sum[j](P[b, h, i, j] * V[b, h, j, e])\n"
       "output O : {T}\n",
       {"i", "j"},
       {{"b", 1}, {"h", 2}},
       {DType::f32}},
      {"slopes",
       "axis b, h, i, j\n"
       "axis d = 64, e = 64\n"
       "input Q[b, h, i, d] : {T}\n"
       "input K[b, h, j, d] : {T}\n"
       "input V[b, h, j, e] : {T}\n"
       "input slope[h] : f32\n"
       "S[b, h, i, j] = sum[d](Q[b, h, i, d] * K[b, h, j, d]) / sqrt(size(d))\n"
       "C[b, h, i, j] = where(j <= i, S - slope[h] * (i - j), -inf)\n"
       "P[b, h, i, j] = softmax[j](C)\n"
       "O[b, h, i, e] = sum[j](P[b, h, i, j] * V[b, h, j, e])\n"
       "output O : {T}\n",
       {"i", "j"},
       {{"b", 1}, {"h", 2}},
       {DType::f32}},
      {"bias",
       "axis b, h, i, j\n"
       "axis d = 64, e = 64\n"
       "input Q[b, h, i, d] : {T}\n"
       "input K[b, h, j, d] : {T}\n"
       "input V[b, h, j, e] : {T}\n"
       "input B[h, i, j] : {T}\n"
       "S[b, h, i, j] = sum[d](Q[b, h, i, d] * K[b, h, j, d]) / sqrt(size(d))\n"
       "C[b, h, i, j] = S + B[h, i, j]\n"
       "P[b, h, i, j] = softmax[j](C)\n"
       "O[b, h, i, e] = sum[j](P[b, h, i, j] * V[b, h, j, e])\n"
       "output O : {T}\n",
       {"i", "j"},
       {{"b", 1}, {"h", 2}},
       {DType::f32}},
      {"mask array",
       "axis b, h, i, j\n"
       "axis d = 64, e = 64\n"
       "input Q[b, h, i, d] : {T}\n"
       "input K[b, h, j, d] : {T}\n"
       "input V[b, h, j, e] : {T}\n"
       "input M[b, i, j] : bool\n"
       "S[b, h, i, j] = sum[d](Q[b, h, i, d] * K[b, h, j, d]) / sqrt(size(d))\n"
       "C[b, h, i, j] = where(M[b, i, j], S, -inf)\n"
       "P[b, h, i, j] = softmax[j](C)\n"
       "O[b, h, i, e] = sum[j](P[b, h, i, j] * V[b, h, j, e])\n"
       "output O : {T}\n",
       {"i", "j"},
       {{"b", 1}, {"h", 2}},
       {DType::f16}},
      {"lengths",
       "axis b, h, i, j\n"
       "axis d = 64, e = 64\n"
       "input Q[b, h, i, d] : {T}\n"
       "input K[b, h, j, d] : {T}\n"
       "input V[b, h, j, e] : {T}\n"
       "input len[b] : i32 range(0, 1000)\n"
       "S[b, h, i, j] = sum[d](Q[b, h, i, d] * K[b, h, j, d]) / sqrt(size(d))\n"
       "C[b, h, i, j] = where(j < len[b], S, -inf)\n"
       "P[b, h, i, j] = softmax[j](C)\n"
       "O[b, h, i, e] = sum[j](P[b, h, i, j] * V[b, h, j, e])\n"
       "output O : {T}\n",
       {"i", "j"},
       {{"b", 1}, {"h", 2}},
       {DType::f32}},
      {"documents",
       "axis b, h, i, j\n"
       "axis d = 64, e = 64\n"
       "input Q[b, h, i, d] : {T}\n"
       "input K[b, h, j, d] : {T}\n"
       "input V[b, h, j, e] : {T}\n"
       "input di[i] : i32 range(0, 4)\n"
       "input dj[j] : i32 range(0, 4)\n"
       "S[b, h, i, j] = sum[d](Q[b, h, i, d] * K[b, h, j, d]) / sqrt(size(d))\n"
       "C[b, h, i, j] = where(di[i] == dj[j], S, -inf)\n"
       "P[b, h, i, j] = softmax[j](C)\n"
       "O[b, h, i, e] = sum[j](P[b, h, i, j] * V[b, h, j, e])\n"
       "output O : {T}\n",
       {"i", "j"},
       {{"b", 1}, {"h", 2}},
       {DType::f32}},
      {"logsumexp as an output",
       "axis b, h, i, j\n"
       "axis d = 64, e = 64\n"
       "input Q[b, h, i, d] : {T}\n"
       "input K[b, h, j, d] : {T}\n"
       "input V[b, h, j, e] : {T}\n"
       "S[b, h, i, j] = sum[d](Q[b, h, i, d] * K[b, h, j, d]) / sqrt(size(d))\n"
       "C[b, h, i, j] = where(j <= i + size(j) - size(i), S, -inf)\n"
       "P[b, h, i, j] = softmax[j](C)\n"
       "O[b, h, i, e] = sum[j](P[b, h, i, j] * V[b, h, j, e])\n"
       "L[b, h, i] = logsumexp[j](C)\n"
       "output O : {T}, L\n",
       {"i", "j"},
       {{"b", 1}, {"h", 2}},
       {DType::f16}},
      {"sigmoid weights",
       "axis b, h, i, j\n"
       "axis d = 64, e = 64\n"
       "input Q[b, h, i, d] : {T}\n"
       "input K[b, h, j, d] : {T}\n"
       "input V[b, h, j, e] : {T}\n"
       "S[b, h, i, j] = sum[d](Q[b, h, i, d] * K[b, h, j, d]) / sqrt(size(d))\n"
       "C[b, h, i, j] = S\n"
       "P[b, h, i, j] = sigmoid(C)\n"
       "O[b, h, i, e] = sum[j](P[b, h, i, j] * V[b, h, j, e])\n"
       "output O : {T}\n",
       {"i", "j"},
       {{"b", 1}, {"h", 2}},
       {DType::f32}},
      {"heads inside positions",
       "axis b, h, i, j\n"
       "axis d = 64, e = 64\n"
       "input Q[b, i, h, d] : {T}\n"
       "input K[b, j, h, d] : {T}\n"
       "input V[b, j, h, e] : {T}\n"
       "S[b, h, i, j] = sum[d](Q[b, i, h, d] * K[b, j, h, d]) / sqrt(size(d))\n"
       "C[b, h, i, j] = where(j <= i + size(j) - size(i), S, -inf)\n"
       "P[b, h, i, j] = softmax[j](C)\n"
       "O[b, h, i, e] = sum[j](P[b, h, i, j] * V[b, j, h, e])\n"
       "output O : {T}\n",
       {"i", "j"},
       {{"b", 1}, {"h", 2}},
       {DType::f32}},
  });
}

TEST(CpuPrograms, Heads) {
  expect_samples({
      {"two score products, shared keys",
       "axis b, h, i, j\n"
       "axis d = 64, r = 16, e = 48\n"
       "input Q[b, h, i, d] : {T}\n"
       "input R[b, h, i, r] : {T}\n"
       "input K[b, j, d] : {T}\n"
       "input T2[b, j, r] : {T}\n"
       "input V[b, j, e] : {T}\n"
       "S[b, h, i, j] = (sum[d](Q * K[b, j, d]) + sum[r](R * T2[b, j, r])) / sqrt(size(d) + size(r))\n"
       "O[b, h, i, e] = sum[j](softmax[j](S) * V[b, j, e])\n"
       "output O : {T}\n",
       {"i", "j"},
       {{"b", 1}, {"h", 2}},
       {DType::f32}},
      {"grouped queries",
       "axis b, k, g, i, j\n"
       "axis d = 64, e = 64\n"
       "input Q[b, (k g), i, d] : {T}\n"
       "input K[b, k, j, d] : {T}\n"
       "input V[b, k, j, e] : {T}\n"
       "S[b, k, g, i, j] = sum[d](Q[b, (k g), i, d] * K) / sqrt(size(d))\n"
       "C[b, k, g, i, j] = where(j <= i + size(j) - size(i), S, -inf)\n"
       "O[b, k, g, i, e] = sum[j](softmax[j](C) * V)\n"
       "L[b, k, g, i] = logsumexp[j](C)\n"
       "output O[b, (k g), i, e] : {T}, L : f32\n",
       {"i", "j"},
       {{"b", 1}, {"k", 2}, {"g", 3}},
       {DType::f32, DType::f16}},
      {"one query",
       "axis b, h, j\n"
       "axis d = 64, e = 64\n"
       "input Q[b, h, d] : {T}\n"
       "input K[b, h, j, d] : {T}\n"
       "input V[b, h, j, e] : {T}\n"
       "S[b, h, j] = sum[d](Q[b, h, d] * K) / sqrt(size(d))\n"
       "O[b, h, e] = sum[j](softmax[j](S) * V)\n"
       "output O : {T}\n",
       {"j"},
       {{"b", 2}, {"h", 3}},
       {DType::f32}},
      {"one position of grouped queries",
       "axis b, k, g, j\n"
       "axis d = 64, e = 64\n"
       "input Q[b, (k g), d] : {T}\n"
       "input K[b, k, j, d] : {T}\n"
       "input V[b, k, j, e] : {T}\n"
       "S[b, k, g, j] = sum[d](Q[b, (k g), d] * K[b, k, j, d]) / sqrt(size(d))\n"
       "O[b, k, g, e] = sum[j](softmax[j](S) * V)\n"
       "output O[b, (k g), e] : {T}\n",
       {"j"},
       {{"b", 2}, {"k", 3}, {"g", 4}},
       {DType::bf16}},
  });
}

/// A power of two of a constant minus a row value: the exponent is a product with that difference.
TEST(CpuPrograms, PowersOfLogProbabilities) {
  expect_definition(
      "axis r, j\ninput x[r, j] : {T}\ns[r, j] = log(1 + (x + 0.125 * (j - r)) ** 2)\n"
      "t[r] = sum[j](exp2(s - logsumexp[j](s)))\nz[r, j] = s - 1.5 * t\noutput t, z\n",
      DType::f32, {{{"r", 17}, {"j", 65}}}, {.slack = 4});
}

/// A long stream under few rows is split by default, and its parts merged.
TEST(CpuPrograms, LongStreamsAreSplit) {
  const char* const one_query =
      "axis b, h, j\naxis d = 16, e = 24\ninput Q[b, h, d] : {T}\ninput K[b, h, j, d] : {T}\ninput V[b, h, "
      "j, e] : {T}\n"
      "S[b, h, j] = sum[d](Q[b, h, d] * K) / sqrt(size(d))\nO[b, h, e] = sum[j](softmax[j](S) * V)\noutput "
      "O\n";
  expect_definition(one_query, DType::f32,
                    {{{"b", 1}, {"h", 2}, {"j", 4096}},
                     {{"b", 1}, {"h", 2}, {"j", 4097}},
                     {{"b", 3}, {"h", 1}, {"j", 4097}},
                     {{"b", 1}, {"h", 2}, {"j", 513}},
                     {{"b", 2}, {"h", 1}, {"j", 9000}}},
                    {.slack = 4});
  expect_definition(kCausal, DType::f32,
                    {{{"b", 1}, {"i", 3}, {"j", 9000}},
                     {{"b", 1}, {"i", 50}, {"j", 5000}},
                     {{"b", 1}, {"i", 150}, {"j", 700}}},
                    {.slack = 4});
  expect_definition("axis r, j\ninput x[r, j] : {T}\nm[r] = logsumexp[j](x)\noutput m\n", DType::f32,
                    {{{"r", 2}, {"j", 100000}}}, {.slack = 8});
}

}  // namespace
}  // namespace tilewright::testing::cpu_programs_test
