// Programs of many kinds on the CPU against their definitions: reducers, products in every form, masks, gathers. A program is written with {T} for the
// type of its arrays; sizes are run-time values, so that one compilation serves all of them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tilewright/driver/session.h"

namespace tilewright::testing {
namespace {

using SizeMap = std::map<std::string, int64_t>;

struct Run {
  std::string schedule;
  double slack = 1;  ///< of the tolerance: with few elements the naive program's error, which it follows, is a matter of luck
};

std::string with_dtype(std::string text, DType t) {
  for (size_t at = text.find("{T}"); at != std::string::npos; at = text.find("{T}", at)) text.replace(at, 3, name(t));
  return text;
}

void expect_definition(const std::string& text, DType dtype, const std::vector<SizeMap>& sizes, const Run& run = {}) {
  const Program p = parse_program(std::make_shared<SourceText>(SourceText{"p.tw", with_dtype(text, dtype)}));
  CompileOptions options;
  options.schedule = run.schedule;
  for (const SizeMap& at : sizes) {
    std::string where = std::string(name(dtype)) + " " + run.schedule;
    for (const auto& [axis, size] : at) where += fmt::format(" {}={}", axis, size);
    try {
      SessionOptions s;
      s.sizes = at;
      Session session(p, options, s);
      session.run(0, 1);
      for (const OutputCheck& o : session.check()) {
        const Comparison& c = o.comparison;
        const bool close = c.reason.find("exceeds") != std::string::npos && c.error <= run.slack * c.tolerance;
        EXPECT_TRUE(c.passed || close) << text << where << ": " << o.name << ": " << c.reason << ", error " << c.error << ", tolerance " << c.tolerance << ", at ["
                                       << fmt::format("{}", fmt::join(o.index, ", ")) << "] got " << o.got << ", expected " << o.expected << "; plan "
                                       << session.kernel().last_plan();
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
  if (splits) expect_definition(text, DType::f32, rows(70), {.schedule = "stream j=64; split j=128", .slack = 2});
}

TEST(CpuReducers, Products) {
  expect_reducer("m[r] = prod[j](1 + x / 10)");
  expect_reducer("m[r] = prod[j](where(x > 0, 1, -1))");
  expect_reducer("m[r] = prod[j](where(j % 2 == 0, 1 - x / 10, 1))");
  expect_reducer("m[r] = prod[j](where(k % 30 == 0, 2, 1))");
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
    "axis b, i, j\naxis d = 24, e = 40\ninput Q[b, i, d] : {T}\ninput K[b, j, d] : {T}\ninput V[b, j, e] : {T}\n"
    "S[b, i, j] = where(j <= i + size(j) - size(i), sum[d](Q[b, i, d] * K[b, j, d]) / sqrt(size(d)), -inf)\n"
    "O[b, i, e] = sum[j](softmax[j](S) * V[b, j, e])\noutput O\n";
const char kNormProduct[] =
    "axis r, n\naxis c = 70\ninput x[r, c] : {T}\ninput g[c] : {T}\ninput W[c, n] : {T}\nm[r] = mean[c](x)\nv[r] = var[c](x)\n"
    "y[r, n] = sum[c]((x[r, c] - m[r]) * rsqrt(v[r] + 1e-5) * g[c] * W[c, n])\noutput y\n";

/// Rows fill panels of three vectors, two, one, a part of one; a power of two or not.
TEST(CpuBlocks, AnyBlockOfRows) {
  const std::vector<SizeMap> sizes = {{{"b", 2}, {"i", 1}, {"j", 1}}, {{"b", 1}, {"i", 7}, {"j", 129}}, {{"b", 1}, {"i", 129}, {"j", 64}}, {{"b", 2}, {"i", 100}, {"j", 100}}};
  for (int64_t block : {1, 2, 8, 12, 16, 33, 40, 48, 130}) expect_definition(kCausal, DType::f32, sizes, {.schedule = fmt::format("group i={}", block)});
}

TEST(CpuBlocks, AnyChunkOfTheStream) {
  const std::vector<SizeMap> sizes = {{{"b", 1}, {"i", 7}, {"j", 129}}, {{"b", 1}, {"i", 60}, {"j", 60}}, {{"b", 1}, {"i", 1}, {"j", 1}}};
  for (int64_t chunk : {1, 2, 7, 33})
    for (int64_t block : {1, 16, 48})
      if (chunk == 1 || block == 16) expect_definition(kCausal, DType::f32, sizes, {.schedule = fmt::format("group i={}; stream j={}", block, chunk)});
  for (int64_t chunk : {1, 8}) expect_definition(reducing("m[r, j] = softmax[j](x)"), DType::f16, rows(5), {.schedule = fmt::format("stream j={}", chunk)});
}

/// A mean that moves with every element costs more digits than the tolerance of few elements allows.
TEST(CpuBlocks, AnyBlockOfColumns) {
  for (const char* schedule : {"group r=3, n=5; stream c=1", "group r=33, n=16; stream c=7", "group r=8, n=33", "group r=1, n=1; stream c=64", "group r=72, n=64"})
    expect_definition(kNormProduct, DType::f32, {{{"r", 5}, {"n", 70}}, {{"r", 75}, {"n", 33}}, {{"r", 1}, {"n", 70}}}, {.schedule = schedule, .slack = 4});
}

/// A cache of pages of 16 keys, found through a table.
const char kPaged[] =
    "axis b, h, i, p, n\naxis s = 16, d = 32, e = 40\naxis j = 16 * size(p)\ninput Q[b, h, i, d] : {T}\ninput C[n, h, s, d] : {T}\ninput D[n, h, s, e] : {T}\n"
    "input page[b, p] : i32 range(0, size(n))\ninput len[b] : i32 range(0, 100)\n"
    "S[b, h, i, j] = where(j < len[b], sum[d](Q[b, h, i, d] * C[page[b, j // 16], h, j % 16, d]) / sqrt(size(d)), -inf)\n"
    "O[b, h, i, e] = sum[j](softmax[j](S) * D[page[b, j // 16], h, j % 16, e])\noutput O\n";

TEST(CpuGathers, PagedCache) {
  std::vector<SizeMap> sizes;
  for (int64_t p : {0, 1, 2, 9})
    for (int64_t i : {1, 50}) sizes.push_back({{"b", 2}, {"h", 3}, {"i", i}, {"p", p}, {"n", 20}});
  for (DType t : {DType::f32, DType::f16, DType::bf16}) expect_definition(kPaged, t, sizes);
}

/// Lanes along what is gathered, along what is not, and none; guarded reads are made where the guard holds only.
TEST(CpuGathers, ComputedIndices) {
  expect_definition("axis r, j, v\ninput x[r, v] : {T}\ninput t[j] : i32 range(0, size(v))\nm[r] = sum[j](x[r, t[j]])\noutput m\n", DType::f32,
                    {{{"r", 5}, {"j", 0}, {"v", 3}}, {{"r", 5}, {"j", 1}, {"v", 1}}, {{"r", 7}, {"j", 129}, {"v", 40}}});
  expect_definition("axis r, j\ninput x[r, j] : {T}\nm[r] = sum[j](where(j >= 3, x[r, j - 3], 0))\noutput m\n", DType::f16, rows(6));
  expect_definition("axis r, j\ninput x[r, j] : {T}\nm[r] = max[j](where(j + r < size(j), x[r, j + r], -inf))\noutput m\n", DType::f32, rows(6));
  expect_definition("axis r, v\ninput x[r, v] : {T}\ninput t[r] : i32 range(0, size(v))\nm[r] = logsumexp[v](x) - x[r, t[r]]\noutput m\n", DType::f32,
                    {{{"r", 5}, {"v", 1}}, {{"r", 3}, {"v", 33}}, {{"r", 70}, {"v", 1000}}});
}

}  // namespace
}  // namespace tilewright::testing
