// Tile programs mapped to sm_80 and run by the interpreter of mapped programs: values against the definition, no race, no read before a copy has come, under several
// adversaries; what the mapping is made of; refusals by name.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/compiled.h"
#include "tests/support/mapped_run.h"
#include "tilewright/emit/emit.h"
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

TEST(MapSm80, ProductsByFma) {
  const Compiled c =
      compile_file("examples/pf_causal.tw", "group b=1, h=1, i=64; stream j=16; keep Q; stages 2; roles 0+1",
                   {.literal_sizes = {{"d", 32}, {"e", 32}},
                    .dtypes = {{"Q", DType::f32}, {"K", DType::f32}, {"V", DType::f32}, {"O", DType::f32}}},
                   Target::Cuda, a100());
  expect_equal(c, {{"b", 1}, {"h", 1}, {"i", 70}, {"j", 50}}, LayoutClass::Aligned, "f32",
               LayoutClass::Aligned);
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
