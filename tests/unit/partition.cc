// Programs of several kernels: what is stored, what stays fused, in which order, and where the arrays between kernels lie.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "tilewright/driver/compiled.h"
#include "tilewright/program/elaborate.h"

namespace tilewright::partition_test {
namespace {

Program parsed(const std::string& text) {
  return parse_program(std::make_shared<SourceText>(SourceText{"test.tw", text}));
}

std::string described(const Partition& q) {
  std::string text;
  for (const Part& part : q.parts) {
    std::vector<std::string> reads;
    for (const Input& in : part.program.inputs) reads.push_back(in.sym.name());
    text += fmt::format("{}{}({})", text.empty() ? "" : " ", part.name(), fmt::join(reads, " "));
  }
  return text;
}

/// The partition when every kernel is accepted.
std::string by_rule(const std::string& text, const std::vector<std::string>& fuse = {}) {
  const Program p = elaborate(parsed(text));
  Forced forced;
  for (const Definition& d : p.definitions)
    for (const std::string& name : fuse)
      if (d.sym.name() == name) forced.fuse.push_back(d.sym);
  return described(partition(p, forced, [](const Program&) { return Attempt{}; }));
}

CompiledProgram compiled(const std::string& text, const std::string& schedule = "",
                         Target target = Target::Interp) {
  CompileOptions o;
  o.target = target;
  o.schedule = schedule;
  return compile_program(parsed(text), o);
}

const std::string kProducts = R"(axis r, c, f, n
input x[r, c] : f32
input A[c, f] : f32
input B[f, n] : f32
)";

TEST(PartitionRule, AProductUnderAProductIsStored) {
  EXPECT_EQ(by_rule(kProducts + "h[r, f] = relu(sum[c](x * A))\ny[r, n] = sum[f](h * B)\noutput y\n"),
            "h(x A) y(B h)");
}

TEST(PartitionRule, SoIsOneInsideOfAStatement) {
  EXPECT_EQ(by_rule(kProducts + "y[r, n] = sum[f](relu(sum[c](x * A)) * B)\noutput y\n"),
            "y_1(x A) y(B y_1)");
}

TEST(PartitionRule, ItStaysWhereTheReaderLacksNothing) {
  EXPECT_EQ(by_rule(kProducts + "h[r, f] = sum[c](x * A)\ny[r] = sum[f](h * h)\noutput y\n"), "y(x A)");
}

TEST(PartitionRule, ShortLiteralAxesAreHeldWhole) {
  const std::string text = R"(axis i, j, n
axis d = 16, e = {}
input Q[i, d] : f32
input K[j, d] : f32
input V[j, e] : f32
S[i, j] = sum[d](Q * K)
O[i, e] = sum[j](softmax[j](S) * V)
output O
)";
  EXPECT_EQ(by_rule(fmt::format(fmt::runtime(text), 256)), "O(Q K V)");
  EXPECT_EQ(by_rule(fmt::format(fmt::runtime(text), 257)), "S(Q K) O(V S)");
}

TEST(PartitionRule, ReductionsOfOneCascadeStayTogether) {
  EXPECT_EQ(by_rule(kProducts + "m[r, c] = x * rsqrt(mean[c](x * x))\ny[r, f] = sum[c](m * A)\noutput y\n"),
            "y(x A)");
}

TEST(PartitionRule, FuseOverridesIt) {
  EXPECT_EQ(by_rule(kProducts + "h[r, f] = sum[c](x * A)\ny[r, n] = sum[f](h * B)\noutput y\n", {"h"}),
            "y(x A B)");
}

// ---- by price ----

const std::string kNormalised =
    kProducts + "m[r, c] = x * rsqrt(mean[c](x * x))\ny[r, f] = sum[c](m * A)\noutput y\n";

/// Kernels when each costs what `price` says of the names of its definitions.
Partition priced(const std::string& text, const std::function<double(const std::vector<std::string>&)>& price,
                 Start start, const std::vector<std::string>& fuse = {}, int* asked = nullptr) {
  const Program p = elaborate(parsed(text));
  Forced forced;
  for (const Definition& d : p.definitions)
    for (const std::string& name : fuse)
      if (d.sym.name() == name) forced.fuse.push_back(d.sym);
  return partition(
      p, forced,
      [&](const Program& part) {
        if (asked) ++*asked;
        std::vector<std::string> names;
        for (const Definition& d : part.definitions) names.push_back(d.sym.name());
        Attempt a;
        a.stream = part.axis("c") ? part.axis("c")->index : Sym();
        a.price.total = price(names);
        a.price.kernels = 1;
        return a;
      },
      start);
}

double per_definition(const std::vector<std::string>& names) { return names.size() > 1 ? 10 : 1; }

TEST(PartitionPrice, WhatIsComputedAgainIsStoredWhereThatCostsLess) {
  const Partition q = priced(kNormalised, per_definition, Start::OneKernel);
  EXPECT_EQ(described(q), "m(x) y(A m)");
  ASSERT_FALSE(q.choices.empty());
  EXPECT_EQ(q.choices[0].kind, Choice::Kind::Stored);
  EXPECT_EQ(q.choices[0].what, "m");
  EXPECT_EQ(q.choices[0].taken.total, 2);
  EXPECT_EQ(q.choices[0].otherwise.total, 10);
}

TEST(PartitionPrice, FuseOverridesIt) {
  EXPECT_EQ(described(priced(kNormalised, per_definition, Start::OneKernel, {"m"})), "y(x A)");
}

TEST(PartitionPrice, ASmallSavingChangesNothing) {
  const Partition q = priced(
      kNormalised, [](const auto& names) { return names.size() > 1 ? 10.0 : 4.9; }, Start::OneKernel);
  EXPECT_EQ(described(q), "y(x A)");
  for (const Choice& c : q.choices) EXPECT_EQ(c.kind, Choice::Kind::Fused);
  EXPECT_EQ(q.choices.size(), 2u);  // the row, and its sum of squares
}

TEST(PartitionPrice, NothingIsAskedWhereNothingIsComputedAgain) {
  int asked = 0;
  priced(kProducts + "m[r] = max[c](x)\ny[r] = sum[c](exp(x - m))\noutput y\n", per_definition,
         Start::OneKernel, {}, &asked);
  EXPECT_EQ(asked, 0);
}

TEST(PartitionPrice, AMeanThatIsSubtractedIsNotStored) {
  const std::string text =
      kProducts + "mu[r] = mean[c](x)\nlo[r] = min[c](x)\ny[r, f] = sum[c]((x - mu) * lo * A)\noutput y\n";
  const auto stores_nothing_else = [](const auto& names) { return names.size() > 2 ? 10.0 : 1.0; };
  EXPECT_EQ(described(priced(text, stores_nothing_else, Start::OneKernel)), "lo(x) y(x A lo)");
}

TEST(PartitionPrice, TheSearchIsBounded) {
  std::string text = kProducts;
  std::string body = "x";
  for (int n = 0; n < 100; ++n) {
    text += fmt::format("m{}[r] = max[c](x * {})\n", n, n + 2);
    body += fmt::format(" * m{}", n);
  }
  int asked = 0;
  priced(
      text + "y[r, f] = sum[c](" + body + " * A)\noutput y\n", [](const auto& n) { return double(n.size()); },
      Start::OneKernel, {}, &asked);
  EXPECT_LE(asked, most_attempts + 2);
}

// ---- operands in 16 bits ----

/// Kernels where one that reads W beside x or gamma costs 10 and any other 1, for a target that multiplies 16-bit elements.
Partition with_operands(const std::string& text, bool sixteen_bits = true, int* asked = nullptr) {
  const Program p = elaborate(parsed(text));
  const Forced forced;
  const Attempting attempting = [&](const Program& part) {
    if (asked) ++*asked;
    const auto reads = [&](const std::string& name) {
      return std::any_of(part.inputs.begin(), part.inputs.end(),
                         [&](const Input& in) { return in.sym.name() == name; });
    };
    Attempt a;
    a.stream = part.axis("c")->index;
    a.price.total = reads("W") && (reads("x") || reads("gamma")) ? 10 : 1;
    a.price.kernels = 1;
    return a;
  };
  return partition(p, forced, attempting, Start::OneKernel, sixteen_bits);
}

std::string norm_product(const std::string& type, const std::string& gamma) {
  return fmt::format(
      "axis r, n\naxis c = 4096\ninput x[r, c] : {0}\ninput gamma[c] : {0}\ninput W[c, n] : {0}\n"
      "y[r, n] = sum[c](x * rsqrt(mean[c](x * x) + 1e-5){1} * W)\noutput y\n",
      type, gamma);
}

TEST(PartitionOperands, RowsAreScaledWhereTheirRangeIsNotKnown) {
  const Partition q = with_operands(norm_product("f16", " * gamma"));
  EXPECT_EQ(described(q), "y_1_scale, y_1_f16(x gamma) y(W y_1_scale y_1_f16)");
  ASSERT_EQ(q.arrays.size(), 2u);
  EXPECT_EQ(q.arrays[0].dtype, DType::f32);
  EXPECT_EQ(q.arrays[1].dtype, DType::f16);
}

TEST(PartitionOperands, NormalisedRowsFit) {
  EXPECT_EQ(described(with_operands(norm_product("f16", ""))), "y_1_f16(x) y(W y_1_f16)");
}

TEST(PartitionOperands, WideRangesTakeNoFactors) {
  EXPECT_EQ(described(with_operands(norm_product("bf16", " * gamma"))), "y_1_bf16(x gamma) y(W y_1_bf16)");
}

TEST(PartitionOperands, NothingIsStoredForProductsOfWideElements) {
  EXPECT_EQ(described(with_operands(norm_product("f32", " * gamma"))), "y(x gamma W)");
  EXPECT_EQ(described(with_operands(norm_product("f16", " * gamma"), false)), "y(x gamma W)");
}

TEST(PartitionOperands, ArraysAreReadAsTheyAre) {
  int asked = 0;
  with_operands(
      "axis r, n, c\ninput x[r, c] : f16\ninput W[c, n] : f16\ny[r, n] = sum[c](2 * x * W)\noutput y\n", true,
      &asked);
  EXPECT_EQ(asked, 0);
}

TEST(PartitionOperands, AnAxisThatIsHeldWholeMakesNothingAgain) {
  std::string text = norm_product("f16", " * gamma");
  text.replace(text.find("axis r, n\n"), 10, "axis r\naxis n = 64\n");
  EXPECT_EQ(described(with_operands(text)), "y(x gamma W)");
}

/// Blocks, and with them prices, follow the vectors of the machine: these tests are about one.
struct NarrowVectors {
  NarrowVectors() { setenv("TILEWRIGHT_CPU_ISA", "portable", 1); }
  ~NarrowVectors() { unsetenv("TILEWRIGHT_CPU_ISA"); }
};

TEST(PartitionPrice, KernelsOfOneStreamAreJoined) {
  const NarrowVectors vectors;
  const CompiledProgram c = compile_program(
      load_program(fmt::format("{}/examples/attention_backward.tw", TW_SOURCE_DIR)), {.target = Target::Cpu});
  ASSERT_EQ(c.kernels.size(), 2u);
  EXPECT_EQ(c.name_of(1), "dK, dV");
  EXPECT_EQ(c.kernels[0].derivation.passes.size(), 1u);
}

const std::string kRowsAndColumns = R"(axis r
axis c = 512
input x[r, c] : f16
input g[c] : f16
input dy[r, c] : f16
inv[r] = rsqrt(mean[c](x ** 2) + 1e-6)
dot[r] = mean[c](dy * g * x)
dx[r, c] = inv * (dy * g - x * inv ** 2 * dot)
dg[c] = sum[r](dy * x * inv)
output dx : f16, dg : f32
)";

TEST(PartitionPrice, SumsOverAnAxisThatThePlanCutsAreStored) {
  const auto kernels = [](const std::vector<std::string>& cut) {
    const Program p = elaborate(parsed(kRowsAndColumns));
    const auto attempting = [&](const Program& part) {
      Attempt a;
      a.stream = part.axis("r")->index;
      for (const std::string& name : cut) a.cut.push_back(part.axis(name)->index);
      a.price.total = double(part.definitions.size() * part.definitions.size());
      a.price.kernels = 1;
      return a;
    };
    const std::vector<Sym> known = attempting(p).cut;
    return described(partition(p, {}, attempting, Start::OneKernel, false, known));
  };
  EXPECT_EQ(kernels({}), "dx, dg(x g dy)");  // each block has whole rows
  EXPECT_NE(kernels({"c"}), "dx, dg(x g dy)");
}

TEST(PartitionPrice, RowSumsAreNotMadeForEachBlockOfColumns) {
  const NarrowVectors vectors;
  const CompiledProgram c = compile_program(parsed(kRowsAndColumns), {.target = Target::Cpu});
  ASSERT_GE(c.kernels.size(), 2u);
  EXPECT_TRUE(c.whole.has_value());
  ASSERT_FALSE(c.partition.choices.empty());
}

TEST(PartitionPrice, OneKernelIsKeptBesideThoseThatCostLess) {
  const NarrowVectors vectors;
  const Program p = load_program(fmt::format("{}/examples/rmsnorm_matmul.tw", TW_SOURCE_DIR));
  const CompiledProgram c = compile_program(p, {.target = Target::Cpu});
  EXPECT_EQ(c.kernels.size(), 2u);
  ASSERT_TRUE(c.whole.has_value());
  EXPECT_EQ(c.whole->derivation.passes.size(), 1u);
  const CompiledProgram one = compile_program(p, {.target = Target::Cpu, .schedule = "stream c=64"});
  EXPECT_EQ(one.kernels.size(), 1u);
  const CompiledProgram named =
      compile_program(p, {.target = Target::Cpu, .schedule = "kernel y: stream c=64"});
  EXPECT_EQ(named.kernels.size(), 1u);
}

TEST(PartitionPrice, WhatIsPrintedParsesBack) {
  for (const char* name : {"rmsnorm_matmul", "quant_gemm", "mla_decode", "affine_quant_gemm",
                           "rmsnorm_swiglu", "attention_backward", "llama_block"}) {
    SCOPED_TRACE(name);
    const Program p = load_program(fmt::format("{}/examples/{}.tw", TW_SOURCE_DIR, name));
    CompileOptions o;
    o.target = Target::Cpu;
    const std::string text = plan_text(compile_program(p, o));
    o.schedule = text;
    EXPECT_EQ(plan_text(compile_program(p, o)), text);
  }
}

TEST(Partition, AKernelThatIsRefusedIsCutAtTheSmallestArrayThatHelps) {
  const Program p = elaborate(parsed(kProducts + R"(s[r] = sum[c](x)
h[r, f] = sum[c](x * A) + s
y[r, f] = h * 2 + max[c](x)
output y
)"));
  int asked = 0;
  const auto attempt = [&](const Program& part) {
    ++asked;
    Attempt a;
    bool fused = false;  // y is refused as long as it holds s
    for (const Definition& d : part.definitions) fused = fused || d.sym.name() == "s";
    if (fused && part.outputs[0].sym.name() == "y") a.refusal = UserError(Span{}, "too much");
    return a;
  };
  EXPECT_EQ(described(partition(p, {}, attempt)), "s(x) y(x A s)");
  EXPECT_GT(asked, 2);
}

TEST(Partition, WhatCannotBeCutIsRefusedWithItsReason) {
  const Program p = elaborate(parsed(kProducts + "h[r, f] = sum[c](x * A)\noutput h\n"));
  try {
    partition(p, {}, [](const Program&) {
      Attempt a;
      a.refusal = UserError(Span{}, "too much");
      return a;
    });
    FAIL() << "no refusal";
  } catch (const UserError& e) {
    EXPECT_EQ(e.diagnostics()[0].what, "too much");
  }
}

TEST(Partition, SeveralReductionsOfAStatementGetNames) {
  const CompiledProgram c = compiled(R"(axis r, c, f, n
input x[r, c] : f32
input A[c, n] : f32
input z[r, f] : f32
input B[f, n] : f32
y[r, n] = sum[c](x * A) + sum[f](z * B)
output y
)");
  ASSERT_TRUE(c.several());
  EXPECT_EQ(described(c.partition).substr(0, 3), "y_1");
}

TEST(Partition, AReductionOverSeveralAxesTakesAKernelForEach) {
  const std::string text = "axis a, b, c\naxis d = 4\ninput x[a, b, c, d] : f32\n";
  const CompiledProgram sum = compiled(text + "y[] = sqrt(sum[a, b, c, d](x * x))\noutput y\n");
  EXPECT_EQ(described(sum.partition), "y_1(x) y_1_2(y_1) y(y_1_2)");
  const CompiledProgram nested = compiled(text + "y[a, d] = max[b](sum[c](x))\noutput y\n");
  EXPECT_EQ(described(nested.partition), "y_1(x) y(y_1)");
}

TEST(PartitionRule, ReductionsOfFewerAxesAreStoredInPlaceOfADefinition) {
  const std::string text = R"(axis i, j, n
axis d = 16, e = 16
input Q[i, d] : f32
input K[j, d] : f32
input G[i, e] : f32
P[i, j] = softmax[j](sum[d](Q * K))
y[j, e] = sum[i](P * G)
output y
)";
  EXPECT_EQ(by_rule(text), "y_1, P_1(Q K) y(Q K G y_1 P_1)");
}

/// Whether a row saw anything is no mask of what reads the sum over the row: it would have to be stored for each head.
TEST(Partition, AConditionMovedOutOfAReductionIsNotStored) {
  const std::string text = R"(axis b, h, i, j, c
axis d = 16, e = 16
input x[b, i, c] : f16
input Q[b, h, i, d] : f16
input K[b, h, j, d] : f16
input V[b, h, j, e] : f16
input W[(h e), c] : f16
C[b, h, i, j] = where(j <= i + size(j) - size(i), sum[d](Q * K[b, h, j, d]), -inf)
O[b, h, i, e] : f16 = sum[j](softmax[j](C) * V)
y[b, i, c] = x + sum[h, e](O * W[(h e), c])
output y : f16
)";
  EXPECT_EQ(by_rule(text), "O(Q K V) y(x W O)");
}

TEST(Partition, OutputsShareAKernelWhereRowsAndStreamAreTheSame) {
  const std::string text = R"(axis r, c, n
axis k = 4
input x[r, c] : f32
input A[c, n] : f32
input B[c, n] : f32
input z[n, c] : f32
a[r, n] = sum[c](x * A)
b[r, n] = sum[c](x * B)
m[n]    = max[c](z)
e[r, n] = a * 2
t[r]    = sum[n](e)
output a, b, m, t
)";
  EXPECT_EQ(by_rule(text), "a, b(x A B) m(z) t(x A)");
}

TEST(Partition, AnOutputThatIsReadIsNoSecondArrayInItsOwnDtype) {
  const std::string text = kProducts + "h[r, f] = sum[c](x * A)\ny[r, n] = sum[f](h * B)\n";
  const CompiledProgram same = compiled(text + "output h, y\n");
  ASSERT_EQ(same.partition.arrays.size(), 1u);
  EXPECT_TRUE(same.partition.arrays[0].output);
  EXPECT_TRUE(same.workspaces.regions.empty());
  const CompiledProgram other = compiled(text + "output h : f16, y\n");
  ASSERT_EQ(other.partition.arrays.size(), 1u);
  EXPECT_FALSE(other.partition.arrays[0].output);
  EXPECT_EQ(other.partition.arrays[0].sym.name(), "h_stored");
  EXPECT_EQ(other.partition.arrays[0].dtype, DType::f32);
}

TEST(Partition, WhatOneKernelCarriesIsOneKernel) {
  const CompiledProgram c = compiled(R"(axis r, j
input x[r, j] : f32
P[r, j] = softmax[j](x)
output P
)");
  EXPECT_FALSE(c.parted());
  EXPECT_EQ(plan_text(c).find("kernel"), std::string::npos);
}

TEST(Partition, PiecesUsedTogetherAreOneAxis) {
  const CompiledProgram c = compiled(R"(axis i, k, g, c
axis d = 8
input o[i, (k g), d] : f32
input W[(k g), d, c] : f32
y[i, c] = sum[k, g, d](o[i, (k g), d] * W[(k g), d, c])
output y
)");
  ASSERT_EQ(c.kernels.size(), 1u);
  EXPECT_EQ(c.kernels[0].derivation.cascade.axis.name(), "kg");
}

// A chain of products: each array is read by the next kernel alone, so two regions serve all.
const std::string kChain = R"(axis r, a, b
input x[r, a] : f32
input A[a, b] : f32
input B[b, a] : f32
h1[r, b] = sum[a](x * A)
h2[r, a] = sum[b](h1 * B)
h3[r, b] = sum[a](h2 * A)
h4[r, a] = sum[b](h3 * B)
y[r, b]  = sum[a](h4 * A) + h2[r, 0]
output y
)";

TEST(Workspaces, RegionsAreUsedAgainWhereLifetimesDoNotOverlap) {
  const CompiledProgram c = compiled(kChain);
  ASSERT_EQ(c.partition.arrays.size(), 4u);
  const auto& arrays = c.partition.arrays;
  EXPECT_EQ(arrays[1].until, 4u);  // h2 lives to the end
  EXPECT_EQ(c.workspaces.region, (std::vector<int>{0, 1, 0, 2}));
  for (size_t m = 0; m < arrays.size(); ++m)
    for (size_t n = m + 1; n < arrays.size(); ++n)
      EXPECT_TRUE(c.workspaces.region[m] != c.workspaces.region[n] || arrays[m].until < arrays[n].from ||
                  arrays[n].until < arrays[m].from);
}

TEST(Workspaces, OffsetsAreAlignedAndEvaluatedIn64Bits) {
  const CompiledProgram c = compiled(kChain);
  Sizes sizes;
  const auto at = [&](int64_t r, int64_t a, int64_t b) {
    sizes[c.program.axis("r")->index.size()] = r;
    sizes[c.program.axis("a")->index.size()] = a;
    sizes[c.program.axis("b")->index.size()] = b;
    return lay_out(c.workspaces, sizes);
  };
  const WorkspaceLayout l = at(3, 5, 7);  // h1, h3: 84 bytes, h2, h4: 60
  EXPECT_EQ(l.offset, (std::vector<int64_t>{0, 128, 0, 192}));
  EXPECT_EQ(l.bytes, 256);
  EXPECT_EQ(l.separate, 384);
  EXPECT_EQ(at(0, 5, 7).bytes, 0);
  EXPECT_EQ(at(1 << 20, 1 << 12, 1).bytes, (int64_t{1} << 35) + (int64_t{1} << 22));
  EXPECT_THROW(at(int64_t{1} << 31, int64_t{1} << 31, int64_t{1} << 31), UserError);
}

TEST(SeveralKernels, PlansPrintAndParseBack) {
  const CompiledProgram c = compiled(kChain);
  std::vector<const Plan*> plans;
  for (const Compilation& k : c.kernels) plans.push_back(&k.plans.back().plan);
  const std::string text = schedule_text(c, plans);
  const CompiledProgram again = compiled(kChain, text);
  std::vector<const Plan*> same;
  for (const Compilation& k : again.kernels) {
    EXPECT_EQ(k.plans.size(), 1u);
    same.push_back(&k.plans[0].plan);
  }
  EXPECT_EQ(schedule_text(again, same), text);
}

/// The text of all plans, with the sizes that each is for, means the same plans; of one kernel and of several.
TEST(SeveralKernels, PlansOfSizeClassesParseBack) {
  const std::string rows = "axis r, j\ninput x[r, j] : f32\nP[r, j] = softmax[j](x)\noutput P\n";
  const std::string several =
      "axis r, j\ninput x[r, j] : f32\nP[r, j] = softmax[j](x)\nq[j, r] = softmax[r](P)\noutput q\n";
  for (const std::string& program : {rows, several}) {
    const CompiledProgram c = compiled(program);
    const std::string text = plan_text(c);
    EXPECT_NE(text.find("when j <= 1024: group r=1; resident j=1024;"), std::string::npos) << text;
    EXPECT_NE(text.find("\notherwise: group r=1; stream j="), std::string::npos) << text;
    const CompiledProgram again = compiled(program, text);
    EXPECT_EQ(plan_text(again), text);
    ASSERT_EQ(again.kernels.size(), c.kernels.size());
    for (size_t k = 0; k < c.kernels.size(); ++k) {
      ASSERT_EQ(again.kernels[k].plans.size(), c.kernels[k].plans.size());
      for (size_t n = 0; n < c.kernels[k].plans.size(); ++n)
        for (size_t a = 0; a < c.kernels[k].plans[n].when.at_most.size(); ++a)
          EXPECT_EQ(again.kernels[k].plans[n].when.at_most[a].second,
                    c.kernels[k].plans[n].when.at_most[a].second);
    }
  }
}

TEST(SeveralKernels, PlansOfExamplesParseBack) {
  for (const char* name : {"attention_block", "attention_backward", "qkv_attention", "llama_block"}) {
    SCOPED_TRACE(name);
    const Program p = load_program(fmt::format("{}/examples/{}.tw", TW_SOURCE_DIR, name));
    CompileOptions o;
    o.target = Target::Cuda;
    const auto text = [&] {
      const CompiledProgram c = compile_program(p, o);
      std::vector<const Plan*> plans;
      for (const Compilation& k : c.kernels) plans.push_back(&k.plans.back().plan);
      return schedule_text(c, plans);
    };
    const std::string defaults = text();
    o.schedule = defaults;
    EXPECT_EQ(text(), defaults);
  }
}

TEST(SeveralKernels, StoreCutsWhatOneKernelWouldCarry) {
  const std::string text = R"(axis i, j
axis d = 16, e = 16
input Q[i, d] : f32
input K[j, d] : f32
input V[j, e] : f32
S[i, j] = sum[d](Q * K)
O[i, e] = sum[j](softmax[j](S) * V)
output O
)";
  EXPECT_FALSE(compiled(text).parted());
  const CompiledProgram c = compiled(text, "store S\nkernel O: stream j=32");
  EXPECT_EQ(described(c.partition), "S(Q K) O(V S)");
  EXPECT_EQ(c.kernels[1].plans[0].plan.chunk, 32);
  EXPECT_EQ(c.kernels[1].plans.size(), 1u);
}

}  // namespace
}  // namespace tilewright::partition_test
