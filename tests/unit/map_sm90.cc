// Tile programs mapped to sm_90a and run by the interpreter of mapped programs: values against the definition, no race, no deadlock, no early release under
// several adversaries; refusals by name.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <random>

#include "tests/support/compiled.h"
#include "tests/support/mapped_run.h"
#include "tests/support/tile_samples.h"
#include "tilewright/map/interpreter.h"
#include "tilewright/map/mapped.h"
#include "tilewright/reference/reference.h"
#include "tilewright/support/error.h"

namespace tilewright::testing::map_sm90_test {
namespace {

struct Array {
  DType dtype;
  std::vector<int64_t> shape;
  std::vector<uint8_t> data;
  int64_t size() const {
    int64_t n = 1;
    for (int64_t s : shape) n *= s;
    return n;
  }
};

Array filled(DType t, std::vector<int64_t> shape, unsigned seed) {
  Array a{t, std::move(shape), {}};
  a.data.resize(size_t(std::max<int64_t>(1, a.size()) * bytes(t)));
  std::mt19937 rng(seed);
  std::normal_distribution<double> normal;
  for (int64_t k = 0; k < a.size(); ++k) store_element(t, a.data.data(), k, normal(rng));
  return a;
}

struct Case {
  TileSample sample;
  Sizes sizes;
  std::map<std::string, Array> inputs, outputs;

  Case(TileSample s, const std::map<std::string, int64_t>& lengths) : sample(std::move(s)) {
    for (const Axis& a : sample.program.axes)
      sizes[a.index.size()] = a.baked() ? a.size.rational()->num() : lengths.at(a.name());
    unsigned seed = 7;
    for (const Input& in : sample.program.inputs)
      inputs[in.sym.name()] = filled(in.dtype, shape_of(in.dims, sizes), seed++);
    for (const Output& out : sample.program.outputs)
      outputs[out.sym.name()] = filled(out.dtype, shape_of(out.dims, sizes), seed++);
  }
  Case& roles(int loaders, int computers) {
    sample.tiles.plan.loaders = loaders;
    sample.tiles.plan.computers = computers;
    return *this;
  }
  std::map<std::string, ArrayView> views() const {
    std::map<std::string, ArrayView> v;
    for (auto& [name, a] : inputs) v[name] = {a.dtype, a.data.data(), a.shape, {}};
    return v;
  }
  /// Largest difference to the definition in f64; NaN where only one side is NaN.
  double error(LayoutClass layout, const Adversary& adversary = {}) {
    const MappedProgram m = map_sm90(sample.program, sample.tiles, sm90(), layout);
    std::map<std::string, MutableArray> out;
    for (auto& [name, a] : outputs) out[name] = {a.dtype, a.data.data(), a.shape, {}};
    interpret(sample.program, m, sizes, views(), {}, out, adversary);
    Evaluator reference(sample.program, sizes, views(), {}, Precision::f64);
    double worst = 0;
    for (const Output& o : sample.program.outputs) {
      const std::vector<double> expected = reference.all(o);
      const Array& got = outputs[o.sym.name()];
      for (size_t k = 0; k < expected.size(); ++k) {
        const double x = load_element(got.dtype, got.data.data(), int64_t(k));
        if (std::isnan(x) && std::isnan(expected[k])) continue;
        const double difference = x == expected[k] ? 0 : std::fabs(x - expected[k]);
        if (!(difference <= worst)) worst = difference;
      }
    }
    return worst;
  }
};

std::map<std::string, int64_t> attention_sizes(int64_t i, int64_t j) {
  return {{"b", 1}, {"h", 2}, {"i", i}, {"j", j}};
}

const Adversary adversaries[] = {
    {1, Adversary::Mode::Random}, {2, Adversary::Mode::Eager}, {3, Adversary::Mode::Lazy}};

TEST(MapSm90, PipelinedProductsUnderEveryGuard) {
  for (Guard guard : {Guard::Always, Guard::Moved, Guard::Threshold, Guard::Speculative}) {
    for (bool causal : {false, true}) {
      for (const Adversary& a : adversaries) {
        Case run(attention_sample({.guard = guard, .causal = causal, .chunk = 32, .features = 64}),
                 attention_sizes(130, 150));
        EXPECT_LT(run.roles(1, 2).error(LayoutClass::Aligned, a), 4e-3)
            << name(guard) << " causal " << causal;
      }
    }
  }
}

TEST(MapSm90, CopiesByInstructions) {
  Case run(attention_sample({.chunk = 32, .features = 64}), attention_sizes(130, 100));
  EXPECT_LT(run.roles(1, 2).error(LayoutClass::General), 4e-3);
}

TEST(MapSm90, ComputingThreadsThatLoadThemselves) {
  Case run(attention_sample({.block = 64, .chunk = 32, .features = 64, .stages = 1}),
           attention_sizes(70, 100));
  EXPECT_LT(run.roles(0, 1).error(LayoutClass::Aligned), 4e-3);
}

TEST(MapSm90, ProductsByFma) {
  Case run(attention_sample({.dtype = DType::f32, .chunk = 16, .features = 32}), attention_sizes(130, 50));
  EXPECT_LT(run.roles(1, 2).error(LayoutClass::Aligned), 1e-5);
  Case general(attention_sample({.dtype = DType::f32, .chunk = 16, .features = 32}), attention_sizes(64, 50));
  EXPECT_LT(general.roles(1, 2).error(LayoutClass::General), 1e-5);
}

TEST(MapSm90, FeaturesThatAreNoWholePanels) {
  for (int64_t features : {32, 72, 80}) {
    Case run(attention_sample({.chunk = 32, .features = features}), attention_sizes(130, 70));
    EXPECT_LT(run.roles(1, 2).error(LayoutClass::Aligned), 4e-3) << features;
  }
}

TEST(MapSm90, NonFiniteElementsBehindAMask) {
  for (Guard guard : {Guard::Always, Guard::Speculative}) {
    Case run(attention_sample({.guard = guard, .chunk = 32, .features = 64}), attention_sizes(40, 40));
    // Row 20 of V and K are seen by rows 20 and later only.
    for (const char* tensor : {"V", "K"})
      for (int64_t e = 0; e < 64; ++e)
        store_element(DType::f16, run.inputs[tensor].data.data(), 20 * 64 + e, e % 2 ? NAN : INFINITY);
    run.roles(1, 2);
    run.error(LayoutClass::Aligned);
    const Array& o = run.outputs["O"];
    for (int64_t i = 0; i < 40; ++i) {
      const bool finite = std::isfinite(load_element(o.dtype, o.data.data(), i * 64 + 1));
      EXPECT_EQ(finite, i < 20) << i;
    }
  }
}

TEST(MapSm90, RowsThatSeeNothingAndEmptyAxes) {
  Case nothing(attention_sample({.guard = Guard::Speculative, .chunk = 32, .features = 64}),
               attention_sizes(90, 33));
  EXPECT_LT(nothing.roles(1, 2).error(LayoutClass::Aligned), 4e-3);
  Case empty(attention_sample({.chunk = 32, .features = 64}), attention_sizes(5, 0));
  EXPECT_EQ(empty.roles(1, 2).error(LayoutClass::Aligned), 0);
}

TEST(MapSm90, RowsInRegisters) {
  for (DType t : {DType::f32, DType::f16}) {
    for (int64_t n : {1, 1000, 8192}) {
      Case run(resident_softmax_sample(t), {{"r", 2}, {"j", n}});
      EXPECT_LT(run.roles(0, 2).error(n % 8 ? LayoutClass::General : LayoutClass::Aligned),
                t == DType::f32 ? 1e-6 : 1e-3)
          << n;
    }
    Case two(two_pass_softmax_sample(t), {{"r", 2}, {"j", 2500}});
    EXPECT_LT(two.roles(0, 2).error(LayoutClass::General), t == DType::f32 ? 1e-6 : 1e-3);
  }
}

TEST(MapSm90, RankOneRepairsOfAnAccumulator) {
  for (DType t : {DType::f16, DType::bf16, DType::f32}) {
    Case run(layernorm_matmul_sample(t), {{"r", 3}, {"n", 40}});
    EXPECT_LT(run.roles(1, 1).error(LayoutClass::Aligned), t == DType::f32   ? 1e-3
                                                           : t == DType::f16 ? 0.2
                                                                             : 1.5)
        << name(t);
  }
}

template <class T>
int count(const Ops& ops) {
  int n = 0;
  for_each_op(ops, [&](const MappedOp& op) { n += std::holds_alternative<T>(op.node); });
  return n;
}

TEST(MapSm90, TilesWithoutRowsAreMadeBeside) {
  for (const char* schedule :
       {"group b=1, k=1, g=1, i=128/64; stream j=32; keep Q; stages 2; roles 1+2; guard speculative",
        "group b=1, k=1, g=1, i=192/64; stream j=48; keep Q; stages 3; roles 1+3; guard always"}) {
    const Compiled c = compile_file("examples/qknorm_gqa.tw", schedule);
    const MappedRun run(c, {{"b", 1}, {"k", 1}, {"g", 2}, {"i", 70}, {"j", 150}}, LayoutClass::Aligned);
    const MappedKernel& k = run.mapped().kernels[0];
    ASSERT_EQ(k.roles.size(), 3u);
    EXPECT_EQ(k.roles[1].threads + k.roles[2].threads, 128);
    EXPECT_EQ(k.roles[1].registers, k.roles[2].registers);
    const bool computed = std::any_of(k.buffers.begin(), k.buffers.end(), [](const Buffer& b) {
      return b.space == Space::Registers && b.axes.size() == 1 && b.axes[0].name() == "j";
    });
    EXPECT_FALSE(computed) << "a tile of keys alone is in the registers of all";
    for (const Adversary& a : adversaries) EXPECT_EQ(run.run(a), "");
  }
}

/// The copy engine reads from addresses of 16 bytes: chunks of four elements of two bytes along the last dimension come by instructions.
TEST(MapSm90, BoxesBeginAtMultiplesOfSixteenBytes) {
  const std::string text =
      "axis r, j\naxis d = 8, e = 8\ninput x[r, j] : bf16\ninput q[r, d] : bf16\ninput k[j, d] : bf16\n"
      "input v[j, e] : bf16\ninput b[j] : f32\ns[r, j] = sum[d](q * k) * x\np[r, j] = relu(s - b)\n"
      "o[r, e] = sum[j](p * v)\noutput o : f16\n";
  for (const auto& [chunk, bulk] : std::map<int, int>{{4, 3}, {16, 4}}) {
    const Compiled c = compile(text, fmt::format("group r=128/64; stream j={}; stages 2; roles 1+2", chunk));
    const MappedRun run(c, {{"r", 3}, {"j", 40}}, LayoutClass::Aligned);
    ASSERT_EQ(run.layout(), LayoutClass::Aligned);
    EXPECT_EQ(int(run.mapped().kernels[0].tensor_maps.size()), bulk) << chunk;
    for (const Adversary& a : adversaries) EXPECT_EQ(run.run(a), "") << chunk;
  }
  // Rows that begin in the middle of a unit.
  const Compiled shifted = compile(
      "axis i, j\naxis d = 64, e = 64, m = 72\ninput Q[i, d] : f16\ninput K[j, m] : f16\ninput V[j, e] : "
      "f16\n"
      "S[i, j] = sum[d](Q * K[j, d + 3])\nO[i, e] = sum[j](softmax[j](S) * V)\noutput O : f16\n");
  const MappedRun run(shifted, {{"i", 5}, {"j", 40}}, LayoutClass::Aligned);
  ASSERT_EQ(run.layout(), LayoutClass::Aligned);
  for (const Adversary& a : adversaries) EXPECT_EQ(run.run(a), "");
}

/// What instructions write into rings is signalled by each thread that wrote it, and released by each that read it; one of a warp speaks where the copy engine writes.
TEST(MapSm90, ThreadsSignalWhatTheyCopy) {
  const Compiled c = compile(
      "axis b, i, p, v\naxis t = 16\naxis j = 16 * size(p)\naxis d = 64, e = 64\ninput Q[b, i, d] : f16\n"
      "input K[v, t, d] : f16\ninput V[v, t, e] : f16\ninput page[b, p] : i64 range(0, size(v))\n"
      "input len[b] : i64 range(1, size(j) + 1)\n"
      "S[b, i, j] = sum[d](Q * K[page[b, j // 16], j % 16, d]) / sqrt(size(d))\n"
      "C[b, i, j] = where(j < len[b], S, -inf)\n"
      "O[b, i, e] = sum[j](softmax[j](C) * V[page[b, j // 16], j % 16, e])\noutput O : f16\n",
      "group b=1, i=64; stream j=32; keep Q; stages 3; roles 1+1; guard speculative; grid persistent");
  const MappedRun run(c, {{"b", 2}, {"i", 3}, {"p", 9}, {"v", 12}}, LayoutClass::Aligned);
  const MappedKernel& k = run.mapped().kernels[0];
  std::map<std::string, int> copied;  // arrivals on channels of what is copied by indices
  for (const Role& role : k.roles)
    for_each_op(role.body, [&](const MappedOp& o) {
      auto* a = std::get_if<Arrive>(&o.node);
      const std::string name = a ? k.channels[a->channel].name : "";
      if (name != "K" && name != "V") return;
      EXPECT_EQ(a->per, Scope::Thread) << name;
      EXPECT_EQ(k.channels[a->channel].full_arrivals, 128) << name;
      EXPECT_EQ(k.channels[a->channel].empty_arrivals, 128) << name;
      ++copied[name];
    });
  EXPECT_EQ(copied.size(), 2u);
  for (const Adversary& a : adversaries) EXPECT_EQ(run.run(a), "");
}

/// Query heads that share a key head are a piece of one dimension: a box of them ends in rows of the next key head, of which nobody reads what comes.
TEST(MapSm90, RowsOfAPieceComeByTheCopyEngine) {
  for (const auto& [rows, groups, maps] : {std::tuple{128, 2, 3}, {64, 1, 2}}) {
    const Compiled c = compile_file(
        "examples/dc_gqa.tw",
        fmt::format("group b=1, k=1, g={}/64; stream j=32; keep Q; stages 2; roles 1+{}; guard speculative",
                    rows, groups));
    const MappedRun run(c, {{"b", 2}, {"k", 2}, {"g", 70}, {"j", 90}}, LayoutClass::Aligned);
    EXPECT_EQ(int(run.mapped().kernels[0].tensor_maps.size()), maps);
    for (const Adversary& a : adversaries) EXPECT_EQ(run.run(a), "") << rows;
  }
}

TEST(MapSm90, VectorsBeginWhereTilesDo) {
  const std::string text =
      "axis r, j\ninput x[r, j] : bf16\ninput b[j] : f32\ny[r] = sum[j](relu(b - x) * x * b)\noutput y : "
      "f32\n";
  for (const auto& [chunk, atom] :
       std::map<int, std::string>{{1, "copy.plain"}, {3, "copy.plain"}, {16, "copy.vector"}}) {
    const Compiled c = compile(text, fmt::format("stream j={}", chunk));
    const MappedRun run(c, {{"r", 3}, {"j", 40}}, LayoutClass::Aligned);
    ASSERT_EQ(run.layout(), LayoutClass::Aligned);
    MappedProgram as_vectors = run.mapped();
    int copies = 0;
    for_each_op(as_vectors.kernels[0].roles[0].body, [&](MappedOp& o) {
      auto* copy = std::get_if<Copy>(&o.node);
      if (!copy || copy->tensor.name() != "x") return;
      EXPECT_EQ(copy->atom, atom) << chunk;
      copy->atom = "copy.vector";
      ++copies;
    });
    EXPECT_GE(copies, 1) << chunk;
    for (const Adversary& a : adversaries) EXPECT_EQ(run.run(a), "") << chunk;
    std::string fault;
    try {
      fault = run.run(as_vectors);
    } catch (const MappedFault& f) {
      fault = f.what();
    }
    if (atom == "copy.plain")
      EXPECT_NE(fault.find("between vectors of 2 elements"), std::string::npos) << chunk << ": " << fault;
    else
      EXPECT_EQ(fault, "");
  }
}

/// The operand is made in shared memory from a gather whose indices are then read in place, so that their tile goes.
TEST(MapSm90, OperandsMadeOfGatheredElements) {
  const Compiled c = compile(
      "axis r, j\naxis e = 4, f = 3\ninput x[r, j] : f32\ninput v[j, e] : f32\ninput u[f] : f32\n"
      "input g[j] : i32 range(0, 3)\ns[r, j] = relu(u[g] + x)\np[r, j] = s / (1 + max[j](abs(s)))\n"
      "o[r, e] = sum[j](p * v)\noutput o[e, r]\n");
  for (LayoutClass layout : {LayoutClass::Aligned, LayoutClass::General}) {
    const MappedRun run(c, {{"r", 70}, {"j", 65}}, layout);
    for (const Adversary& a : adversaries) EXPECT_EQ(run.run(a), "");
  }
}

TEST(MapSm90, RegisterTilesComeThroughRings) {
  for (const char* program : {"examples/rmsnorm_matmul.tw", "examples/layernorm_matmul.tw"}) {
    const Compiled c = compile_file(program, "group r=128/64, n=64; stream c=64; stages 2; roles 1+2",
                                    {.literal_sizes = {{"c", 320}}});
    const MappedRun run(c, {{"r", 130}, {"n", 72}}, LayoutClass::Aligned);
    const MappedKernel& k = run.mapped().kernels[0];
    EXPECT_EQ(count<Copy>(k.roles[0].body), 0) << program;
    for (const Adversary& a : adversaries) EXPECT_EQ(run.run(a), "") << program;
    // The first chunk's products are in flight when the next chunk's operand is made.
    const MappedLoop* loop = nullptr;
    for_each_op(k.roles[0].body, [&](const MappedOp& op) {
      if (auto* l = std::get_if<MappedLoop>(&op.node)) loop = l;
    });
    ASSERT_NE(loop, nullptr);
    const auto first = [&](auto is) { return std::find_if(loop->body.begin(), loop->body.end(), is); };
    const auto reduced = first([](const MappedOp& o) { return std::holds_alternative<ReduceOp>(o.node); });
    const auto awaited = first([](const MappedOp& o) { return std::holds_alternative<WaitGroup>(o.node); });
    EXPECT_LT(reduced - loop->body.begin(), awaited - loop->body.begin()) << program;
  }
}

/// The loop of the computing role that issues products one chunk behind.
const MappedLoop* pipelined_loop(const MappedKernel& k) {
  const MappedLoop* found = nullptr;
  for_each_op(k.roles[0].body, [&](const MappedOp& op) {
    auto* l = std::get_if<MappedLoop>(&op.node);
    if (l && std::any_of(l->body.begin(), l->body.end(), [](const MappedOp& o) {
          auto* w = std::get_if<WaitGroup>(&o.node);
          return w && w->pending == 1;
        }))
      found = l;
  });
  return found;
}

TEST(MapSm90, ValuesForASlowPathAreMadeThere) {
  const struct {
    const char *program, *groups;
    std::map<std::string, int64_t> sizes;
  } cases[] = {
      {"examples/pf_softcap.tw", "b=1, k=1, g=1", {{"b", 1}, {"k", 1}, {"g", 2}, {"i", 130}, {"j", 170}}},
      {"examples/pf_window.tw", "b=1, k=1, g=1", {{"b", 1}, {"k", 1}, {"g", 2}, {"i", 130}, {"j", 170}}},
      {"examples/pf_alibi.tw", "b=1, h=1", {{"b", 1}, {"h", 2}, {"i", 130}, {"j", 170}}}};
  for (const auto& x : cases) {
    const Compiled c = compile_file(
        x.program,
        fmt::format("group {}, i=128/64; stream j=32; stages 2; roles 1+2; guard speculative", x.groups));
    const MappedRun run(c, x.sizes, LayoutClass::Aligned);
    const MappedKernel& k = run.mapped().kernels[0];
    const MappedLoop* loop = pipelined_loop(k);
    ASSERT_NE(loop, nullptr) << x.program;
    const auto makes_scores = [](const MappedOp& o) {
      auto* m = std::get_if<MapOp>(&o.node);
      return m && m->buffer.name() == "S";
    };
    EXPECT_TRUE(std::none_of(loop->body.begin(), loop->body.end(), makes_scores)) << x.program;
    int slow = 0;
    for (const MappedOp& o : loop->body)
      if (auto* v = std::get_if<Vote>(&o.node))
        slow += int(std::count_if(v->then.begin(), v->then.end(), makes_scores));
    EXPECT_EQ(slow, 1) << x.program;
    // Positions are added where they are needed, not held in a tile.
    EXPECT_TRUE(std::none_of(k.buffers.begin(), k.buffers.end(), [](const Buffer& b) {
      return b.space == Space::Registers && b.axes.size() == 1 && b.axes[0].name() == "j";
    })) << x.program;
    for (const Adversary& a : adversaries) EXPECT_EQ(run.run(a), "") << x.program;
  }
}

/// The exponentials are made in front of the slow path, which may make them again, and multiplied behind it: no statement may take them as written by both.
TEST(MapSm90, ValuesThatASlowPathMayMakeAgainAreMadeBefore) {
  for (const char* guard : {"speculative", "threshold", "always"}) {
    const Compiled c = compile_file(
        "examples/softmax_backward_dq.tw",
        fmt::format("group b=1, h=1, i=128/64; stream j=64; keep L, Q, D, dO; stages 2; roles 1+2; guard {}",
                    guard));
    const MappedRun run(c, {{"b", 1}, {"h", 1}, {"i", 130}, {"j", 200}}, LayoutClass::Aligned);
    for (const Adversary& a : adversaries) EXPECT_EQ(run.run(a), "") << guard;
  }
}

TEST(MapSm90, ElementWorkBehindTheLastProducts) {
  const Compiled c =
      compile_file("examples/unsafe_softmax.tw",
                   "group b=1, h=1, i=128/64; stream j=32; stages 2; roles 1+2; guard speculative");
  const MappedRun run(c, {{"b", 1}, {"h", 2}, {"i", 130}, {"j", 170}}, LayoutClass::Aligned);
  EXPECT_NE(pipelined_loop(run.mapped().kernels[0]), nullptr);
  for (const Adversary& a : adversaries) EXPECT_EQ(run.run(a), "");
}

TEST(MapSm90, FourGroupsShareWhatIsCopied) {
  const Compiled c =
      compile_file("examples/pf_causal.tw",
                   "group b=1, h=1, i=256/64; stream j=64; keep Q; stages 4; roles 1+4; guard speculative",
                   {.literal_sizes = {{"d", 64}, {"e", 64}}, .dtypes = {}});
  const MappedRun run(c, {{"b", 1}, {"h", 2}, {"i", 300}, {"j", 330}}, LayoutClass::Aligned);
  const MappedKernel& k = run.mapped().kernels[0];
  EXPECT_EQ(k.threads(), 5 * 128);
  int registers = 0;
  for (const Role& r : k.roles) registers += r.registers * r.threads;
  EXPECT_LE(registers, 96 * 5 * 128) << "what a block of so many threads is launched with";
  for (const Adversary& a : adversaries) EXPECT_EQ(run.run(a), "");
}

/// Much element work runs in front of the wait for the last products, whose rounded operand is in use: the next one is made in a tile of its own.
TEST(MapSm90, MuchElementWorkRunsBesideTheLastProducts) {
  const Compiled c = compile_file(
      "examples/pf_softcap.tw",
      "group b=1, k=1, g=1, i=128/64; stream j=128; keep Q; stages 2; roles 1+2; guard speculative");
  const MappedRun run(c, {{"b", 1}, {"k", 1}, {"g", 1}, {"i", 70}, {"j", 390}}, LayoutClass::Aligned);
  const MappedLoop* loop = pipelined_loop(run.mapped().kernels[0]);
  ASSERT_NE(loop, nullptr);
  const auto place = [&](auto is) { return std::ranges::find_if(loop->body, is) - loop->body.begin(); };
  const auto makes = [](const char* tile) {
    return [tile](const MappedOp& o) {
      auto* m = std::get_if<MapOp>(&o.node);
      return m && m->buffer.name() == tile;
    };
  };
  const auto ended = place([](const MappedOp& o) {
    auto* w = std::get_if<WaitGroup>(&o.node);
    return w && w->pending == 0;
  });
  EXPECT_LT(place(makes("E")), ended);
  EXPECT_LT(place(makes("P_next")), ended);
  EXPECT_GT(place(makes("P")), ended);
  EXPECT_LT(place(makes("P")), long(loop->body.size()));
  for (const Adversary& a : adversaries) EXPECT_EQ(run.run(a), "");
}

/// Lanes add up their own elements of every chunk; their parts meet once, behind the loop, and a bound of the sum is shared out among them.
TEST(MapSm90, SumsStayInPartsOfLanes) {
  for (const char* guard : {"speculative", "threshold", "moved", "always"}) {
    const Compiled c = compile_file(
        "examples/pf_causal.tw",
        fmt::format("group b=1, h=1, i=128/64; stream j=64; keep Q; stages 2; roles 1+2; guard {}", guard));
    const MappedRun run(c, {{"b", 1}, {"h", 2}, {"i", 130}, {"j", 330}}, LayoutClass::Aligned);
    const MappedKernel& k = run.mapped().kernels[0];
    int in_chunks = 0, totals = 0;
    for_each_op(k.roles[0].body, [&](const MappedOp& op) {
      if (auto* v = std::get_if<Vote>(&op.node); v && tensors_read(v->condition)[0].name() == "l_chunk") {
        EXPECT_NE(to_string(v->condition).find("<= 8192"), std::string::npos) << to_string(v->condition);
      }
      auto* r = std::get_if<ReduceOp>(&op.node);
      if (!r || r->reducer != Reducer::Sum) return;
      (r->axes.empty() ? totals : in_chunks) += 1;
      EXPECT_EQ(r->across, r->axes.empty() ? Scope::Warp : Scope::Thread) << guard;
    });
    EXPECT_GT(in_chunks, 0) << guard;
    EXPECT_EQ(totals, 1) << guard;
    for (const Adversary& a : adversaries) EXPECT_EQ(run.run(a), "") << guard;
  }
}

/// A sum that every chunk needs whole, here as the point of a difference, is added up in every chunk.
TEST(MapSm90, SumsThatChunksNeedAreWhole) {
  const Compiled c = compile_file("examples/variance.tw", "group r=64; stream c=64");
  const MappedRun run(c, {{"r", 70}, {"c", 200}}, LayoutClass::Aligned);
  int whole = 0;
  for_each_op(run.mapped().kernels[0].roles[0].body, [&](const MappedOp& op) {
    auto* r = std::get_if<ReduceOp>(&op.node);
    whole += r && r->reducer == Reducer::Sum && r->across > Scope::Thread && !r->axes.empty();
  });
  EXPECT_GT(whole, 0);
  for (const Adversary& a : adversaries) EXPECT_EQ(run.run(a), "");
}

/// Both products of what is copied stand in one batch; a slow path that only adds what products left out stays behind its vote in the peeled chunk.
TEST(MapSm90, ProductsOfCopiedTilesAreIssuedTogether) {
  for (int stages : {2, 3}) {
    const Compiled c = compile_file("examples/softmax_backward_dq.tw",
                                    fmt::format("group b=1, h=1, i=128/64; stream j=64; keep L, Q, D, dO; "
                                                "stages {}; roles 1+2; guard speculative",
                                                stages));
    const MappedRun run(c, {{"b", 1}, {"h", 1}, {"i", 130}, {"j", 330}}, LayoutClass::Aligned);
    const MappedKernel& k = run.mapped().kernels[0];
    int batches = 0, adding = 0;
    const std::function<void(const Ops&, bool)> visit = [&](const Ops& ops, bool rare) {
      for (size_t n = 0; n < ops.size(); ++n) {
        auto* a = std::get_if<Mma>(&ops[n].node);
        auto* b = n + 1 < ops.size() ? std::get_if<Mma>(&ops[n + 1].node) : nullptr;
        batches += a && b && a->d.name() == "S" && b->d.name() == "S2";
        auto* r = std::get_if<ReduceOp>(&ops[n].node);
        adding += r && r->accumulate && r->buffer.name() == "s" && !rare;
        const bool vote = std::holds_alternative<Vote>(ops[n].node);
        MappedOp copy = ops[n];
        for_each_body(copy, [&](Ops& inside) { visit(inside, rare || vote); });
      }
    };
    visit(k.roles[0].body, false);
    EXPECT_GE(batches, 2) << stages;
    EXPECT_EQ(adding, 0) << stages;
    EXPECT_EQ(pipelined_loop(k) != nullptr, stages == 3);
    for (const Adversary& a : adversaries) EXPECT_EQ(run.run(a), "") << stages;
  }
}

TEST(MapSm90, BlocksThatTakeElementsOfTheGridInTurn) {
  for (const Adversary::Mode mode :
       {Adversary::Mode::Random, Adversary::Mode::Eager, Adversary::Mode::Lazy}) {
    for (LayoutClass layout : {LayoutClass::Aligned, LayoutClass::General}) {
      for (int64_t section : {0, 2}) {
        Case run(attention_sample({.guard = Guard::Speculative, .chunk = 32, .features = 64}),
                 {{"b", 1}, {"h", 3}, {"i", 300}, {"j", 330}});
        run.roles(1, 2).sample.tiles.plan.grid = GridBy::Persistent;
        if (section > 0) {
          run.sample.tiles.plan.section_axis = run.sample.tiles.plan.group[1].axis;
          run.sample.tiles.plan.section = section;
        }
        // Nine elements: five and four for two blocks, three for each of three.
        EXPECT_LT(run.error(layout, {.seed = 3, .mode = mode, .blocks = section > 0 ? 2 : 3}), 4e-3);
      }
    }
  }
  // Keys and values of a head are 1.25 MB: sections of one head, and of two of three.
  for (const int64_t megabytes : {1, 3}) {
    Case run(attention_sample({.chunk = 128, .features = 64}), {{"b", 1}, {"h", 3}, {"i", 130}, {"j", 5120}});
    Plan& plan = run.roles(1, 2).sample.tiles.plan;
    plan.grid = GridBy::Blocks;
    plan.section_axis = plan.group[1].axis;
    plan.section = megabytes;
    plan.section_megabytes = true;
    EXPECT_LT(run.error(LayoutClass::Aligned), 4e-3) << megabytes;
  }
  Case empty(attention_sample({.chunk = 32, .features = 64}), {{"b", 1}, {"h", 2}, {"i", 0}, {"j", 9}});
  empty.roles(1, 2).sample.tiles.plan.grid = GridBy::Persistent;
  EXPECT_EQ(empty.error(LayoutClass::Aligned), 0);
  Case nothing(attention_sample({.chunk = 32, .features = 64}), {{"b", 1}, {"h", 2}, {"i", 5}, {"j", 0}});
  nothing.roles(1, 2).sample.tiles.plan.grid = GridBy::Persistent;
  EXPECT_EQ(nothing.error(LayoutClass::Aligned, {.seed = 1, .blocks = 1}), 0);
  Case sums(layernorm_matmul_sample(DType::f16), {{"r", 130}, {"n", 152}});
  sums.roles(1, 1).sample.tiles.plan.grid = GridBy::Persistent;
  EXPECT_LT(sums.error(LayoutClass::Aligned), 0.2);
}

TEST(MapSm90, SaysWhatDoesNotFit) {
  TileSample big = attention_sample({.chunk = 256, .features = 256});
  big.tiles.plan.loaders = 1;
  big.tiles.plan.computers = 2;
  try {
    map_sm90(big.program, big.tiles, sm90(), LayoutClass::Aligned);
    FAIL() << "a plan that needs more than there is was accepted";
  } catch (const UserError& e) {
    const std::string text = e.diagnostics()[0].what;
    EXPECT_TRUE(text.find("registers") != std::string::npos ||
                text.find("shared memory") != std::string::npos)
        << text;
  }
  big.tiles.plan.loaders = 2;
  EXPECT_THROW(map_sm90(big.program, big.tiles, sm90(), LayoutClass::Aligned), UserError);
}

}  // namespace
}  // namespace tilewright::testing::map_sm90_test
