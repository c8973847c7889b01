// Products of bf16 on units that multiply pairs, against their definitions: by instructions where this processor has them, else written out with the same
// layouts, tails and order of sums.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <set>

#include "tests/support/mapped_run.h"
#include "tilewright/driver/session.h"
#include "tilewright/emit/emit.h"
#include "tilewright/runtime/compile.h"

namespace tilewright::testing::bf16_products_test {
namespace {

using SizeMap = std::map<std::string, int64_t>;

/// Units to test, of those that this machine gives the same name one; those with `kind` in their names. The last in the list of a kind is always written out.
std::vector<std::string> units(const std::string& kind = {}) {
  std::vector<std::string> list;
  std::set<std::string> seen;
  for (const char* isa : {"avx512+bf16_dot", "avx512+bf16_tiles", "avx2+bf16_dot", "avx2+bf16_tiles",
                          "portable+bf16_dot", "portable+bf16_tiles"}) {
    if (std::string(isa).find(kind) == std::string::npos) continue;
    setenv("TILEWRIGHT_CPU_ISA", isa, 1);
    if (seen.insert(this_cpu().name).second) list.push_back(isa);
  }
  return list;
}

struct Products {
  int pairs = 0, others = 0;
};

Products products(const MappedProgram& m) {
  Products found;
  for (const MappedKernel& k : m.kernels)
    for (const Role& r : k.roles)
      for_each_op(r.body, [&](const MappedOp& o) {
        if (const Mma* x = std::get_if<Mma>(&o.node))
          ++(find_atom(x->atom)->dtype == DType::bf16 ? found.pairs : found.others);
      });
  return found;
}

/// Compiled, run and checked with each unit at all sizes; all of its products take pairs, or none.
void expect_definition(const std::string& text, const std::vector<SizeMap>& sizes, bool pairs = true,
                       const std::string& schedule = {}, const std::string& kind = {}) {
  const Program p = parse_program(std::make_shared<SourceText>(SourceText{"p.tw", text}));
  CompileOptions options;
  options.schedule = schedule;
  for (const std::string& isa : units(kind)) {
    setenv("TILEWRIGHT_CPU_ISA", isa.c_str(), 1);
    const Compilation c = analyse(p, options);
    const Products found =
        products(lower_mapped(c, lower(c, c.plans.back().plan), Target::Cpu, LayoutClass::General));
    EXPECT_TRUE(pairs ? found.pairs > 0 && found.others == 0 : found.pairs == 0)
        << text << isa << " " << schedule;
    std::shared_ptr<Kernel> kernel;
    for (const SizeMap& at : sizes) {
      std::string where = isa + " " + schedule;
      for (const auto& [axis, size] : at) where += fmt::format(" {}={}", axis, size);
      try {
        SessionOptions s;
        s.sizes = at;
        if (!kernel) kernel = std::make_shared<Kernel>(p, options);
        Session session(p, options, s, kernel);
        session.run(0, 1);
        for (const OutputCheck& o : session.check())
          EXPECT_TRUE(o.comparison.passed)
              << text << where << ": " << o.name << ": " << o.comparison.reason << ", error "
              << o.comparison.error << ", tolerance " << o.comparison.tolerance << ", at ["
              << fmt::format("{}", fmt::join(o.index, ", ")) << "] got " << o.got << ", expected "
              << o.expected;
      } catch (const UserError& e) {
        for (const Diagnostic& d : e.diagnostics()) ADD_FAILURE() << text << where << ": " << d.render();
      }
    }
  }
}

std::string product(const std::string& a, const std::string& b, const std::string& out = "f32") {
  return fmt::format(
      "axis i, k, j\ninput A[{}] : bf16\ninput B[{}] : bf16\nC[i, j] = sum[k](A * B)\noutput C : {}\n", a, b,
      out);
}

const std::vector<SizeMap> kMatrices = {
    {{"i", 100}, {"k", 130}, {"j", 70}}, {{"i", 1}, {"k", 1}, {"j", 1}},    {{"i", 33}, {"k", 31}, {"j", 47}},
    {{"i", 130}, {"k", 64}, {"j", 96}},  {{"i", 49}, {"k", 97}, {"j", 33}}, {{"i", 17}, {"k", 0}, {"j", 20}},
    {{"i", 49}, {"k", 1024}, {"j", 131}}};  // rows that share sets of a cache

TEST(Bf16Products, OfMatricesInEveryOrder) {
  for (const char* a : {"i, k", "k, i"})
    for (const char* b : {"k, j", "j, k"}) expect_definition(product(a, b), kMatrices);
  expect_definition(product("i, k", "k, j", "bf16"), kMatrices);
}

TEST(Bf16Products, OfRaggedBlocksAndChunks) {
  expect_definition(product("i, k", "k, j"), kMatrices, true, "group i=40, j=24; stream k=33");
  expect_definition(product("k, i", "j, k"), kMatrices, true, "group i=24, j=56; stream k=48");
}

std::string attention(const std::string& mask, int d, int e, const std::string& out = "f32") {
  return fmt::format(R"(axis b, i, j
axis d = {}, e = {}
input Q[b, i, d] : bf16
input K[b, j, d] : bf16
input V[b, j, e] : bf16
S[b, i, j] = where({}, sum[d](Q * K) / sqrt(size(d)), -inf)
O[b, i, e] = sum[j](softmax[j](S) * V)
output O : {}
)",
                     d, e, mask, out);
}

const std::vector<SizeMap> kRows = {{{"b", 2}, {"i", 100}, {"j", 131}}, {{"b", 1}, {"i", 61}, {"j", 200}},
                                    {{"b", 1}, {"i", 33}, {"j", 1}},    {{"b", 1}, {"i", 1}, {"j", 70}},
                                    {{"b", 1}, {"i", 50}, {"j", 0}},    {{"b", 1}, {"i", 300}, {"j", 301}}};

TEST(Bf16Products, OfScoresAndWeights) {
  expect_definition(attention("j >= 0", 64, 64), kRows);
  expect_definition(attention("j <= i + size(j) - size(i)", 24, 40), kRows);
  expect_definition(attention("j <= i + size(j) - size(i)", 37, 19, "bf16"), kRows);
}

/// Chunks that a mask ends sooner for one panel of rows than for another, or begins later; rows that see nothing.
TEST(Bf16Products, BehindMasksOfWindows) {
  const std::vector<SizeMap> rows = {{{"b", 1}, {"i", 290}, {"j", 290}},
                                     {{"b", 1}, {"i", 97}, {"j", 40}},
                                     {{"b", 1}, {"i", 70}, {"j", 400}}};
  expect_definition(attention("j <= i and i <= j + 50", 32, 32, "bf16"), rows, true, "", "tiles");
  expect_definition(attention("2 * j <= i + 7", 32, 40), rows, true, "group b=1, i=160; stream j=96",
                    "tiles");
}

TEST(Bf16Products, OfMadeFactors) {
  expect_definition(R"(axis r, n
axis c = 200
input x[r, c] : bf16
input g[c] : bf16
input W[c, n] : bf16
m[r] = mean[c](x)
v[r] = mean[c](x * x)
y[r, n] = sum[c](x * rsqrt(v[r] + 1e-5) * g * W)
output y : bf16
)",
                    {{{"r", 70}, {"n", 100}}, {{"r", 3}, {"n", 40}}});
}

TEST(Bf16Products, OfRowsOfAVocabulary) {
  expect_definition(R"(axis r, v
axis k = 50
input x[r, k] : bf16
input W[v, k] : bf16
input label[r] : i32 range(0, size(v))
z[r, v] = sum[k](x * W)
loss[r] = logsumexp[v](z) - sum[v](where(v == label[r], z, 0))
output loss : f32
)",
                    {{{"r", 70}, {"v", 333}}, {{"r", 40}, {"v", 5}}});
}

TEST(Bf16Products, NotOfOtherTypes) {
  const std::string of_bf16 = product("i, k", "k, j");
  expect_definition(std::string(of_bf16).replace(of_bf16.find("B[k, j] : bf16") + 10, 4, "f16"),
                    {{{"i", 40}, {"k", 50}, {"j", 60}}}, false);
}

TEST(Bf16Products, OfSumsThatAreFactors) {
  expect_definition(R"(axis r, s
axis n = 64
input X[r, n] : bf16
input Y[s, n] : bf16
S[r, s] = sum[n](X * Y)
Z[r, n] = sum[s](S * Y)
output Z : f32
)",
                    {{{"r", 40}, {"s", 50}}, {{"r", 60}, {"s", 3}}});
}

/// The same sums in the same order, whoever computes them.
TEST(Bf16Products, HaveTheSameBitsByInstructionsAndWrittenOut) {
  const Compiled c = compile(product("i, k", "j, k"), "", Target::Cpu);
  const Sizes sizes = sizes_of(c.program, {{"i", 77}, {"k", 300}, {"j", 100}});
  Arrays arrays = random_inputs(c.program, sizes, 5);
  TestArray& a = arrays.inputs.at("A");
  for (int64_t k = 0; k < a.elements(); k += 7) a.set(k, a.at(k) * std::ldexp(1.0, int(k % 250) - 125));
  std::map<std::string, std::vector<float>> first;
  for (const std::string& isa : units()) {
    setenv("TILEWRIGHT_CPU_ISA", isa.c_str(), 1);
    std::vector<float> got(7700);
    Kernel kernel(c.parsed, {});
    std::map<std::string, Tensor> inputs;
    for (const auto& [name, view] : arrays.views())
      inputs[name] = {view.dtype, const_cast<void*>(view.data), view.shape, view.strides};
    kernel.run(inputs, {}, {{"C", {DType::f32, got.data(), {77, 100}, {}}}});
    const std::string kind = isa.substr(isa.find('+'));
    if (!first.count(kind)) {
      first[kind] = got;
      continue;
    }
    EXPECT_EQ(std::memcmp(first[kind].data(), got.data(), got.size() * sizeof(float)), 0) << isa;
  }
}

/// NaN and infinities where nothing may look: they reach no output that does not see them. The interpreter runs the same products.
TEST(Bf16Products, HideWhatIsNotFinite) {
  const Compiled c = compile(attention("j <= i", 64, 24), "", Target::Cpu);
  for (const std::string& isa : units()) {
    setenv("TILEWRIGHT_CPU_ISA", isa.c_str(), 1);
    MappedRun run(c, {{"b", 1}, {"i", 90}, {"j", 90}}, LayoutClass::General, Target::Cpu);
    EXPECT_GT(products(run.mapped()).pairs, 0);
    for (int64_t k = 0; k < 64; ++k) run.input("K").set(57 * 64 + k, k % 2 ? NAN : INFINITY);
    for (int64_t k = 0; k < 24; ++k) run.input("V").set(57 * 24 + k, k % 2 ? NAN : -INFINITY);
    run.expect();
    EXPECT_EQ(run.run(), "") << isa;
  }
}

/// The same by emitted kernels: rows before the values are as without them, whichever panel they lie in, and rows that see them are NaN.
TEST(Bf16Products, HideWhatIsNotFiniteWhenCompiled) {
  constexpr int n = 300, hidden = 157, e = 24;
  const Compiled c = compile(attention("j <= i", 64, e), "", Target::Cpu);
  const Sizes sizes = sizes_of(c.program, {{"b", 1}, {"i", n}, {"j", n}});
  for (const std::string& isa : units("tiles")) {
    setenv("TILEWRIGHT_CPU_ISA", isa.c_str(), 1);
    Kernel kernel(c.parsed, {});
    const auto run = [&](bool clean) {
      Arrays arrays = random_inputs(c.program, sizes, 3);
      if (!clean) {
        for (int k = 0; k < 64; ++k) arrays.inputs.at("K").set(hidden * 64 + k, k % 2 ? NAN : INFINITY);
        for (int k = 0; k < e; ++k) arrays.inputs.at("V").set(hidden * e + k, k % 2 ? NAN : -INFINITY);
      }
      std::vector<float> got(n * e);
      std::map<std::string, Tensor> inputs;
      for (const auto& [name, view] : arrays.views())
        inputs[name] = {view.dtype, const_cast<void*>(view.data), view.shape, view.strides};
      kernel.run(inputs, {}, {{"O", {DType::f32, got.data(), {1, n, e}, {}}}});
      return got;
    };
    const std::vector<float> clean = run(true), got = run(false);
    int wrong = 0;
    for (int k = 0; k < n * e; ++k)
      wrong += k < hidden * e ? !(std::abs(got[k] - clean[k]) <= 1e-4) : std::isfinite(got[k]);
    EXPECT_EQ(wrong, 0) << isa;
  }
}

/// What stands for the instructions of the widest units is accepted by the compiler.
TEST(Bf16Products, InstructionsAssemble) {
  const Compiled c = compile(attention("j <= i", 64, 64), "group b=1, i=96; stream j=64", Target::Cpu);
  for (Bf16Unit unit : {Bf16Unit::Dot, Bf16Unit::Tiles}) {
    Machine m = this_cpu();
    m.vector = {
        .bytes = 64, .registers = 32, .isa = "avx512", .flags = "-march=sapphirerapids", .bf16 = unit};
    const MappedProgram mapped = map_cpu(c.program, c.tiles, m, LayoutClass::General);
    EXPECT_GT(products(mapped).pairs, 0);
#if defined(__x86_64__)
    EXPECT_FALSE(compile_cpu(emit_cpp(c.program, mapped), m.vector.flags).empty());
#endif
  }
}

}  // namespace
}  // namespace tilewright::testing::bf16_products_test
