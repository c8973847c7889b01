// Tile programs mapped to sm_80 and run by the interpreter of mapped programs: values against the definition, no race, no read before a copy has come, under several
// adversaries; what the mapping is made of; refusals by name.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/support/compiled.h"
#include "tests/support/mapped_run.h"
#include "tilewright/emit/emit.h"
#include "tilewright/map/interpreter_runner.h"
#include "tilewright/support/error.h"

namespace tilewright::testing::map_sm80_test {
namespace {

using Mode = Adversary::Mode;

const Adversary kAdversaries[] = {{1, Mode::Random}, {2, Mode::Eager}, {3, Mode::Lazy}};

Machine a100() { return gpu_machine("sm_80"); }

void expect_equal(const Compiled& c, const std::map<std::string, int64_t>& sizes, LayoutClass layout,
                  const std::string& where, LayoutClass mapped_as) {
  const MappedRun run(c, sizes, layout, Target::Cuda, {}, 11, a100());
  EXPECT_EQ(run.layout(), mapped_as) << where;
  for (const Adversary& a : kAdversaries) EXPECT_EQ(run.run(a), "") << where << ", seed " << a.seed;
  EXPECT_FALSE(emit_cuda(c.program, run.mapped()).empty());
}

template <class T>
int count(const Ops& ops, const std::function<bool(const T&)>& matches = {}) {
  int n = 0;
  for_each_op(ops, [&](const MappedOp& op) {
    auto* x = std::get_if<T>(&op.node);
    n += x && (!matches || matches(*x));
  });
  return n;
}

/// Both operands along the contracted axis or across it, in rings of every length.
TEST(MapSm80, ProductsOfOperandsInEveryLayout) {
  for (const char* x : {"r, c", "c, r"}) {
    for (const char* w : {"c, n", "n, c"}) {
      const std::string text = fmt::format(
          "axis r, n, c\ninput x[{}] : f16\ninput W[{}] : f16\ny[r, n] = sum[c](x * W)\noutput y : f32\n", x,
          w);
      for (int stages = 1; stages <= 4; ++stages) {
        const Compiled c =
            compile(text, fmt::format("group r=128/64, n=64; stream c=32; stages {}; roles 0+2", stages),
                    Target::Cuda, a100());
        expect_equal(c, {{"r", 136}, {"n", 72}, {"c", 160}}, LayoutClass::Aligned,
                     fmt::format("{} by {}, {} stages", x, w, stages), LayoutClass::Aligned);
      }
      const Compiled c =
          compile(text, "group r=128/128, n=40; stream c=16; stages 2; roles 1+1", Target::Cuda, a100());
      expect_equal(c, {{"r", 130}, {"n", 41}, {"c", 37}}, LayoutClass::General, text, LayoutClass::General);
      expect_equal(c, {{"r", 8}, {"n", 8}, {"c", 8}}, LayoutClass::Aligned, text, LayoutClass::Aligned);
    }
  }
}

TEST(MapSm80, ChainsOfProductsUnderEveryGuard) {
  for (const char* guard : {"always", "moved", "threshold", "speculative"}) {
    for (const char* program : {"pf_global", "pf_causal"}) {
      const Compiled c = compile_file(
          fmt::format("examples/{}.tw", program),
          fmt::format("group b=1, h=1, i=128/64; stream j=32; keep Q; stages 2; roles 0+2; guard {}", guard),
          {.literal_sizes = {{"d", 64}, {"e", 64}}}, Target::Cuda, a100());
      expect_equal(c, {{"b", 1}, {"h", 2}, {"i", 130}, {"j", 150}}, LayoutClass::Aligned,
                   fmt::format("{} {}", program, guard), LayoutClass::Aligned);
    }
  }
}

/// Rows that see nothing, an empty axis, and 32 rows for each warp.
TEST(MapSm80, RowsThatSeeNothingAndEmptyAxes) {
  for (const char* roles : {"i=128/64; roles 0+2", "i=128/128; roles 0+1", "i=256/128; roles 0+2"}) {
    const Compiled c = compile_file(
        "examples/pf_causal.tw",
        fmt::format("group b=1, h=1, {}; stream j=32; keep Q; stages 3; guard speculative", roles),
        {.literal_sizes = {{"d", 64}, {"e", 32}}}, Target::Cuda, a100());
    for (const auto& [i, j] : {std::pair<int64_t, int64_t>{200, 33}, {70, 100}, {5, 0}, {0, 5}})
      expect_equal(c, {{"b", 1}, {"h", 1}, {"i", i}, {"j", j}}, LayoutClass::Aligned,
                   fmt::format("{} i={} j={}", roles, i, j), LayoutClass::Aligned);
  }
}

TEST(MapSm80, CopiesByInstructionsWhereStridesAreAny) {
  const Compiled c =
      compile_file("examples/pf_causal.tw", "group b=1, h=1, i=64; stream j=16; keep Q; stages 2; roles 0+1",
                   {.literal_sizes = {{"d", 40}, {"e", 24}}}, Target::Cuda, a100());
  const MappedRun run(c, {{"b", 1}, {"h", 1}, {"i", 70}, {"j", 50}}, LayoutClass::General, Target::Cuda, {},
                      11, a100());
  for (const Adversary& a : kAdversaries) EXPECT_EQ(run.run(a), "");
  const Ops& ops = run.mapped().kernels[0].roles[0].body;
  EXPECT_EQ(count<CopyWait>(ops) + count<CopyCommit>(ops), 0) << "no copy is asynchronous";
}

const std::map<std::string, DType> kAllF32 = {
    {"Q", DType::f32}, {"K", DType::f32}, {"V", DType::f32}, {"O", DType::f32}};

/// GPUs for graphics have TF32 at the rate of f32.
TEST(MapSm80, ProductsByFmaWhereTf32IsSlow) {
  const Machine gpu = gpu_machine("sm_89");
  const Compiled c =
      compile_file("examples/pf_causal.tw", "group b=1, h=1, i=64; stream j=16; keep Q; stages 2; roles 0+1",
                   {.literal_sizes = {{"d", 32}, {"e", 32}}, .dtypes = kAllF32}, Target::Cuda, gpu);
  const MappedRun run(c, {{"b", 1}, {"h", 1}, {"i", 70}, {"j", 50}}, LayoutClass::Aligned, Target::Cuda, {},
                      11, gpu);
  for (const Adversary& a : kAdversaries) EXPECT_EQ(run.run(a), "");
  EXPECT_EQ(count<Mma>(run.mapped().kernels[0].roles[0].body), 0);
}

/// Operands of f32 along the contracted axis or across it, in steps of 8, whole or ragged.
TEST(MapSm80, ProductsInPartsOfOperandsInEveryLayout) {
  for (const Machine& gpu : {a100(), sm90()}) {
    for (const char* x : {"r, c", "c, r"}) {
      for (const char* w : {"c, n", "n, c"}) {
        const std::string text = fmt::format(
            "axis r, n, c\ninput x[{}] : f32\ninput W[{}] : f32\ny[r, n] = sum[c](x * W)\noutput y : f32\n",
            x, w);
        for (const char* schedule : {"group r=128/64, n=64; stream c=32; stages 3; roles 0+2",
                                     "group r=128/128, n=40; stream c=40; stages 2; roles 1+1",
                                     "group r=64, n=24; stream c=8; stages 1; roles 0+1"}) {
          const Compiled c = compile(text, schedule, Target::Cuda, gpu);
          const std::string where = fmt::format("{} by {}, {}", x, w, schedule);
          const MappedRun run(c, {{"r", 136}, {"n", 72}, {"c", 160}}, LayoutClass::Aligned, Target::Cuda, {},
                              11, gpu);
          for (const Adversary& a : kAdversaries) EXPECT_EQ(run.run(a), "") << where;
          const Ops& ops = run.mapped().kernels[0].roles[0].body;
          EXPECT_EQ(count<Mma>(ops),
                    count<Mma>(ops, [](const Mma& m) { return m.atom == "mma.m16n8k8.tf32x3"; }));
          EXPECT_GT(count<Mma>(ops), 0) << where;
          EXPECT_NE(emit_cuda(c.program, run.mapped()).find("mma.sync.aligned.m16n8k8.row.col.f32.tf32"),
                    std::string::npos);
          const MappedRun ragged(c, {{"r", 130}, {"n", 41}, {"c", 37}}, LayoutClass::General, Target::Cuda,
                                 {}, 11, gpu);
          EXPECT_EQ(ragged.run(kAdversaries[0]), "") << where;
        }
      }
    }
  }
}

/// What the first product accumulates is the operand of the second, in the registers where it is; features that are no multiple of a step; masks; rows that see nothing.
TEST(MapSm80, ChainsOfProductsInParts) {
  for (const char* program : {"pf_global", "pf_causal"}) {
    for (const char* rest : {"i=128/64; stream j=32; keep Q; stages 2; roles 0+2; guard speculative",
                             "i=64; stream j=24; keep Q; stages 1; roles 0+1; guard always"}) {
      for (int64_t d : {64, 20}) {
        const Compiled c =
            compile_file(fmt::format("examples/{}.tw", program), fmt::format("group b=1, h=1, {}", rest),
                         {.literal_sizes = {{"d", d}, {"e", d}}, .dtypes = kAllF32}, Target::Cuda, sm90());
        for (const auto& [i, j] : {std::pair<int64_t, int64_t>{130, 150}, {70, 100}, {5, 0}}) {
          const MappedRun run(c, {{"b", 1}, {"h", 1}, {"i", i}, {"j", j}}, LayoutClass::Aligned, Target::Cuda,
                              {}, 11, sm90());
          for (const Adversary& a : kAdversaries)
            EXPECT_EQ(run.run(a), "") << program << " " << rest << " " << d << " " << i << " " << j;
          const MappedKernel& k = run.mapped().kernels[0];
          EXPECT_EQ(k.roles.size(), 1u) << "single warps multiply, and all threads copy";
          EXPECT_GT(count<Mma>(k.roles[0].body,
                               [&](const Mma& m) { return k.buffer(m.a).space == Space::Registers; }),
                    0);
        }
      }
    }
  }
}

/// Scores far below 0 in f32, which share a tile with the operand made of them: the 0 beyond the keys must not enter a maximum.
TEST(MapSm80, LowScoresBesideTheEndOfTheKeys) {
  for (const char* guard : {"always", "moved", "threshold", "speculative"}) {
    const Compiled c = compile_file(
        "examples/pf_causal.tw",
        fmt::format("group b=1, h=1, i=64; stream j=32; keep Q; stages 2; roles 0+1; guard {}", guard),
        {.literal_sizes = {{"d", 16}, {"e", 16}}, .dtypes = kAllF32}, Target::Cuda, sm90());
    MappedRun run(c, {{"b", 1}, {"h", 1}, {"i", 20}, {"j", 20}}, LayoutClass::Aligned, Target::Cuda, {}, 11,
                  sm90());
    for (int64_t k = 0; k < 20 * 16; ++k)
      run.input("Q").set(k, 12), run.input("K").set(k, -12 - double(k % 7) / 8);
    run.expect();
    for (const Adversary& a : kAdversaries) EXPECT_EQ(run.run(a), "") << guard;
  }
}

/// Infinities, NaN, and the largest numbers, which must not overflow as they are rounded, in either operand: as the definition has them.
TEST(MapSm80, SpecialValuesOfProductsInParts) {
  const Compiled c = compile(
      "axis r, n, c\ninput x[r, c] : f32\ninput W[c, n] : f32\ny[r, n] = sum[c](x * W)\noutput y : f32\n",
      "group r=64, n=24; stream c=32; stages 2; roles 0+1", Target::Cuda, a100());
  constexpr int64_t rows = 40, columns = 24, depth = 96;
  MappedRun run(c, {{"r", rows}, {"n", columns}, {"c", depth}}, LayoutClass::Aligned, Target::Cuda, {}, 11,
                a100());
  const double inf = INFINITY, largest = std::ldexp(4095.0 / 4096, 128);  // which 11 bits round to infinity
  auto x = [&](int64_t r, int64_t k, double v) { run.input("x").set(r * depth + k, v); };
  auto w = [&](int64_t k, int64_t n, double v) { run.input("W").set(k * columns + n, v); };
  x(3, 5, inf), x(4, 6, -inf), x(5, 7, NAN);
  x(6, 8, inf), x(6, 50, -inf);  // of both signs, in different chunks
  x(7, 11, inf), w(11, 2, 0);    // inf · 0
  w(12, 4, inf), x(9, 12, 0), w(13, 5, NAN);
  x(11, 16, -inf), w(16, 6, -inf);  // inf · inf
  x(12, 17, inf), w(17, 8, 1);      // low parts that are 0
  run.expect();
  EXPECT_EQ(run.run(kAdversaries[0]), "");
  MappedRun large(c, {{"r", rows}, {"n", columns}, {"c", depth}}, LayoutClass::Aligned, Target::Cuda, {}, 12,
                  a100());
  for (int64_t r = rows - 4; r < rows; ++r)  // one term each, so that the sum is exact
    for (int64_t k = 0; k < depth; ++k)
      large.input("x").set(r * depth + k, k != 9 ? 0 : r % 2 == 0 ? largest : -largest);
  for (int64_t n = 0; n < columns; ++n)
    large.input("W").set(9 * columns + n, std::ldexp(1.0 + double(n), -100));
  large.expect();
  EXPECT_EQ(large.run(kAdversaries[0]), "");
}

/// Errors beside those of f32 additions one after another, for sums of few terms and of many: none is larger than the rule of `check` allows, twice those and what f32 resolves.
TEST(MapSm80, ErrorsOfProductsInParts) {
  std::mt19937 random(7);
  for (const bool positive : {false, true}) {
    for (int64_t depth : {1, 8, 24, 64, 256, 2048}) {
      constexpr int64_t m = 24, n = 40;
      std::normal_distribution<float> normal;
      std::vector<float> a(size_t(m * depth)), b(size_t(depth * n)), d(size_t(m * n), 0.0f);
      for (std::vector<float>* v : {&a, &b})
        for (float& e : *v) e = positive ? std::fabs(normal(random)) : normal(random);
      for (int64_t k = 0; k < depth; k += depth_of_parts) {  // chunks, as a stream has them
        const int64_t part = std::min<int64_t>(depth_of_parts, depth - k);
        std::vector<float> x, y(b.begin() + k * n, b.begin() + (k + part) * n);
        for (int64_t i = 0; i < m; ++i)
          x.insert(x.end(), a.begin() + i * depth + k, a.begin() + i * depth + k + part);
        emulation::multiply_in_parts(d.data(), x.data(), y.data(), m, n, part);
      }
      double error = 0, naive_error = 0, largest = 0;
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          double exact = 0;
          float naive = 0;
          for (int64_t k = 0; k < depth; ++k) {
            const float x = a[size_t(i * depth + k)], y = b[size_t(k * n + j)];
            exact += double(x) * double(y);
            naive += x * y;
          }
          error = std::max(error, std::fabs(double(d[size_t(i * n + j)]) - exact));
          naive_error = std::max(naive_error, std::fabs(double(naive) - exact));
          largest = std::max(largest, std::fabs(exact));
        }
      }
      EXPECT_LE(error, 2 * naive_error + std::ldexp(largest, -23)) << depth << (positive ? " positive" : "");
      RecordProperty(fmt::format("depth_{}_{}", depth, positive),
                     fmt::format("{} of {}", error, naive_error));
    }
  }
}

/// One role computes and copies; results of the first product are operands of the second where they are, in registers.
TEST(MapSm80, IsMadeOfProductsByWarpsAndCopiesInGroups) {
  const Compiled c = compile_file("examples/pf_global.tw", "", {}, Target::Cuda, a100());
  const MappedProgram m = map_gpu(c.program, c.tiles, a100(), LayoutClass::Aligned);
  ASSERT_EQ(m.kernels.size(), 1u);
  const MappedKernel& k = m.kernels[0];
  ASSERT_EQ(k.roles.size(), 1u);
  EXPECT_TRUE(k.channels.empty());
  EXPECT_TRUE(k.tensor_maps.empty());
  EXPECT_LE(k.local_bytes(), a100().shared_bytes);
  const Ops& ops = k.roles[0].body;
  EXPECT_EQ(count<MmaFence>(ops) + count<Commit>(ops) + count<WaitGroup>(ops) + count<ProxyFence>(ops), 0);
  EXPECT_EQ(count<Copy>(ops, [](const Copy& x) { return x.atom != "copy.async"; }), 0);
  EXPECT_GT(count<CopyWait>(ops), 0);
  EXPECT_EQ(count<Mma>(ops), count<Mma>(ops, [](const Mma& x) { return x.atom == "mma.m16n8k16.f16"; }));
  EXPECT_EQ(2 * count<Mma>(ops, [&](const Mma& x) { return k.buffer(x.a).space == Space::Registers; }),
            count<Mma>(ops));
  const std::string text = emit_cuda(c.program, m);
  for (const char* part : {"CUDA for sm_80", "ldmatrix", "mma.sync", "cp.async.cg", "tw_copy_wait<"})
    EXPECT_NE(text.find(part), std::string::npos) << part;
  for (const char* part : {"wgmma", "mbarrier", "setmaxnreg", "TensorMap map"})
    EXPECT_EQ(text.find(part), std::string::npos) << part;
}

TEST(MapSm80, DefaultPlansFitEveryArchitecture) {
  for (const char* arch : {"sm_80", "sm_86", "sm_89", "sm_90", "sm_120"}) {
    const Machine gpu = gpu_machine(arch);
    for (const char* program : {"examples/pf_global.tw", "examples/pf_causal.tw",
                                "examples/layernorm_matmul.tw", "examples/swiglu.tw", "bench/product.tw"}) {
      const Compiled c = [&] {
        try {
          return compile_file(program, "", {}, Target::Cuda, gpu);
        } catch (const UserError&) {
          return Compiled{};  // of several kernels
        }
      }();
      if (c.tiles.kernels.empty()) continue;
      const MappedProgram m = map_gpu(c.program, c.tiles, gpu, LayoutClass::Aligned);
      for (const MappedKernel& k : m.kernels) EXPECT_LE(k.local_bytes(), gpu.shared_bytes) << arch << program;
    }
    const Compiled narrow = compile(
        "axis i, j, k\ninput A[i, k] : f16\ninput B[k, j] : f16\nC[i, j] = sum[k](A * B)\noutput C : f16\n",
        "", Target::Cuda, gpu);
    const MappedProgram m = map_gpu(narrow.program, narrow.tiles, gpu, LayoutClass::Aligned);
    EXPECT_LE(m.kernels[0].local_bytes(), gpu.shared_bytes) << arch;
  }
}

TEST(MapSm80, SaysWhatDoesNotFit) {
  const Compiled c = compile_file("examples/pf_global.tw",
                                  "group b=1, h=1, i=128/64; stream j=128; keep Q; stages 2; roles 0+2", {},
                                  Target::Cuda, gpu_machine("sm_86"));
  try {
    map_gpu(c.program, c.tiles, gpu_machine("sm_86"), LayoutClass::Aligned);
    FAIL() << "a plan that needs more shared memory than there is was accepted";
  } catch (const UserError& e) {
    EXPECT_NE(e.diagnostics()[0].what.find("bytes of shared memory of 101376"), std::string::npos)
        << e.diagnostics()[0].what;
  }
  for (const char* arch : {"sm_75", "sm_", "80", "sm_80a", "gfx942", ""})
    EXPECT_THROW(gpu_machine(arch), UserError) << arch;
}

}  // namespace
}  // namespace tilewright::testing::map_sm80_test
