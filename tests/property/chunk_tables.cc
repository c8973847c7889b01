// The step that bounds masks which read arrays, against every element: what it skips is absent, what it calls plain is present. The step of a GPU, run thread by
// thread on the host, finds the same.
#include "tilewright/tile/chunk_table.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/support/emulated_cuda.h"
#include "tilewright/driver/launch.h"
#include "tilewright/driver/session.h"
#include "tilewright/emit/cuda_chunks.h"
#include "tilewright/emit/emit.h"
#include "tilewright/expr/simplify.h"
#include "tilewright/map/sm90/context.h"
#include "tilewright/runtime/compile.h"

namespace tilewright::chunk_tables_test {
namespace {

struct Mask {
  std::string inputs, condition;
  /// Values of the inputs at given sizes, in the order of their declaration.
  std::function<std::vector<std::vector<int32_t>>(std::mt19937&, int64_t ni, int64_t nj)> values;
  /// Is (b, i, j) present?
  std::function<bool(const std::vector<std::vector<int32_t>>&, int64_t b, int64_t i, int64_t j, int64_t ni,
                     int64_t nj)>
      present;
};

constexpr int64_t batches = 2;

std::vector<int32_t> random_list(std::mt19937& gen, int64_t n, int32_t below, bool sorted) {
  std::vector<int32_t> list(static_cast<size_t>(n));
  for (int32_t& x : list) x = int32_t(gen() % uint32_t(below));
  if (sorted) std::sort(list.begin(), list.end());
  return list;
}

std::vector<Mask> masks() {
  using Lists = std::vector<std::vector<int32_t>>;
  auto documents = [](bool sorted) {
    return [sorted](std::mt19937& gen, int64_t ni, int64_t nj) {
      return Lists{random_list(gen, ni, 5, sorted), random_list(gen, nj, 5, sorted)};
    };
  };
  const std::string two = "input a[i] : i32 range(0, 5)\ninput c[j] : i32 range(0, 5)\n";
  auto same = [](const Lists& v, int64_t, int64_t i, int64_t j, int64_t, int64_t) {
    return v[0][size_t(i)] == v[1][size_t(j)];
  };
  return {
      {two, "a[i] == c[j]", documents(true), same},
      {two, "a[i] == c[j]", documents(false), same},
      {two, "a[i] == c[j] and j <= i + 3", documents(true),
       [same](const Lists& v, int64_t b, int64_t i, int64_t j, int64_t ni, int64_t nj) {
         return same(v, b, i, j, ni, nj) && j <= i + 3;
       }},
      {two, "not (a[i] < c[j]) or j // 7 == 1", documents(true),
       [](const Lists& v, int64_t, int64_t i, int64_t j, int64_t, int64_t) {
         return v[0][size_t(i)] >= v[1][size_t(j)] || j / 7 == 1;
       }},
      {"input a[b] : i32 range(0, size(j) + 1)\n", "j < a[b]",
       [](std::mt19937& gen, int64_t, int64_t nj) {
         return Lists{random_list(gen, batches, int32_t(nj + 1), false)};
       },
       [](const Lists& v, int64_t b, int64_t, int64_t j, int64_t, int64_t) { return j < v[0][size_t(b)]; }},
      {"input a[b] : i32 range(0, size(j) + 1)\n", "j < a[b] or j <= i + size(j) - size(i)",
       [](std::mt19937& gen, int64_t, int64_t nj) {
         return Lists{random_list(gen, batches, int32_t(nj + 1), false)};
       },
       [](const Lists& v, int64_t b, int64_t i, int64_t j, int64_t ni, int64_t nj) {
         return j < v[0][size_t(b)] || j <= i + nj - ni;
       }},
      {"input a[i, j] : i32 range(0, 2)\n", "a[i, j] != 0",
       [](std::mt19937& gen, int64_t ni, int64_t nj) {
         std::vector<int32_t> list(size_t(ni * nj));
         const uint32_t tile = 4 + gen() % 20;
         for (int64_t i = 0; i < ni; ++i)
           for (int64_t j = 0; j < nj; ++j) list[size_t(i * nj + j)] = (i / tile + j / tile) % 3 == 0;
         return Lists{list};
       },
       [](const Lists& v, int64_t, int64_t i, int64_t j, int64_t, int64_t nj) {
         return v[0][size_t(i * nj + j)] != 0;
       }},
      {"input a[b, j] : i32 range(0, 9)\ninput c[i] : i32 range(0, 4)\n",
       "max(a[b, j], 2) * c[i] - abs(j - 3 * i) % 5 < where(c[i] == 1, j // 4, 6) or min(c[i], 1) == a[b, "
       "c[i] % max(size(j), 1)]",
       [](std::mt19937& gen, int64_t ni, int64_t nj) {
         return Lists{random_list(gen, batches * nj, 9, true), random_list(gen, ni, 4, true)};
       },
       [](const Lists& v, int64_t b, int64_t i, int64_t j, int64_t, int64_t nj) {
         const int64_t a = v[0][size_t(b * nj + j)], c = v[1][size_t(i)];
         return std::max<int64_t>(a, 2) * c - std::abs(j - 3 * i) % 5 < (c == 1 ? j / 4 : 6) ||
                std::min<int64_t>(c, 1) == v[0][size_t(b * nj + c % nj)];
       }},
      {"input a[b] : i64 range(0, size(j) + 1)\ninput c[(i j)] : bool\n", "j < a[b] and not c",
       [](std::mt19937& gen, int64_t ni, int64_t nj) {
         // 64-bit integers as pairs, bools four to a word.
         Lists lists{{}, std::vector<int32_t>(size_t(ni * nj + 3) / 4)};
         for (int64_t b = 0; b < batches; ++b)
           lists[0].insert(lists[0].end(), {int32_t(gen() % uint32_t(nj + 1)), 0});
         auto* flags = reinterpret_cast<unsigned char*>(lists[1].data());
         for (int64_t k = 0; k < ni * nj; ++k) flags[k] = k / 50 % 2 == 0;
         return lists;
       },
       [](const Lists& v, int64_t b, int64_t i, int64_t j, int64_t, int64_t nj) {
         return j < v[0][size_t(2 * b)] && !reinterpret_cast<const unsigned char*>(v[1].data())[i * nj + j];
       }},
  };
}

/// The tile kernel of a masked sum, with its chunk table.
struct Compiled {
  Program program;
  Compilation compilation;
  TileProgram tiles;
};
Compiled compile(const Mask& m, const std::string& schedule) {
  const std::string text = fmt::format(
      "program masked\naxis b, i, j\ninput x[b, i, j] : f32\n{}C[b, i, j] = where({}, x, -inf)\n"
      "y[b, i] = logsumexp[j](C)\noutput y : f32\n",
      m.inputs, m.condition);
  Compiled c;
  c.program = parse_program(std::make_shared<SourceText>(SourceText{"masked.tw", text}));
  CompileOptions options;
  options.target = Target::Interp;
  options.schedule = schedule;
  c.compilation = analyse(c.program, options);
  c.tiles = lower(c.compilation, c.compilation.plans.back().plan);
  return c;
}

/// The steps of a GPU in one source, each with an entry of its own: `steps` belong to the kernels in the order of `compiled`.
std::shared_ptr<CpuModule> emulated(const std::vector<Compiled>& compiled, std::vector<ChunkStep>& steps) {
  cuda_text::Helpers helpers;
  std::string kernels;
  for (const Compiled& c : compiled) {
    MappedProgram m;
    m.workspaces = c.tiles.workspaces;
    ChunkStep step = hopper::chunk_steps(c.compilation.elaborated, c.tiles).front();
    step.name = fmt::format("step{}", steps.size());
    kernels += cuda_text::chunk_step(c.compilation.elaborated, m, step, helpers);
    kernels += fmt::format(
        "extern \"C\" void run_{0}(const long long* words, long long begin, long long end) {{\n"
        "  emulated_run([&] {{ {0}(*(const {0}_words*)words); }}, begin, end);\n}}\n",
        step_symbol(step));
    steps.push_back(std::move(step));
  }
  return CpuModule::load(testing::emulated_cuda + helpers.text() + kernels, "");
}

/// The table as the step of a GPU fills it.
std::vector<int64_t> rows_by_step(const CpuModule& module, const Compiled& c, const ChunkStep& step,
                                  const Sizes& sizes, const std::map<std::string, ArrayView>& views) {
  Bound b;
  b.sizes = sizes;
  std::vector<int64_t> rows(size_t(rows_of(step.table, sizes)) * 4);
  b.tensors[step.table.table].data = rows.data();
  for (const Input& in : c.compilation.elaborated.inputs) {
    Tensor& t = b.tensors[in.sym];
    t.data = const_cast<void*>(views.at(in.sym.name()).data);
    t.shape = views.at(in.sym.name()).shape;
    t.strides = row_major(t.shape);
  }
  const std::vector<int64_t> words = words_of(step.arguments, b);
  module.entry("run_" + step_symbol(step))(words.data(), 0, int64_t(rows.size() / 4));
  return rows;
}

TEST(ChunkTables, KeepEveryPresentElementAndTestEveryAbsentOne) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 gen(seed);
  std::vector<Compiled> compiled;
  std::vector<ChunkStep> steps;
  const char* const schedules[] = {"group b=1, i=16; stream j=8", "group b=1, i=1; stream j=4; split j=12"};
  for (const char* schedule : schedules)
    for (const Mask& m : masks()) compiled.push_back(compile(m, schedule));
  const auto module = emulated(compiled, steps);
  size_t number = 0;
  for ([[maybe_unused]] const char* schedule : schedules)
    for (const Mask& m : masks()) {
      const size_t own = number++;
      const Compiled& c = compiled[own];
      const TileKernel& k = c.tiles.kernels.front();
      ASSERT_EQ(k.chunk_tables.size(), 1u) << m.condition;
      const ChunkTable& table = k.chunk_tables[0];
      for (auto [ni, nj] :
           std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {16, 8}, {37, 61}, {40, 0}, {5, 100}}) {
        Sizes sizes;
        for (const Axis& a : c.compilation.elaborated.axes)
          sizes[a.index.size()] = a.name() == "b" ? batches : a.name() == "i" ? ni : nj;
        for (const Axis& a : c.tiles.axes)
          if (a.size && !sizes.count(a.index.size())) sizes[a.index.size()] = evaluate_integer(a.size, sizes);
        const auto values = m.values(gen, ni, nj);
        const std::vector<float> x(size_t(batches * ni * nj));
        std::map<std::string, ArrayView> views;
        size_t next = 0;
        for (const Input& in : c.compilation.elaborated.inputs) {
          const bool data = in.sym.name() == "x";
          views[in.sym.name()] = {in.dtype,
                                  data ? static_cast<const void*>(x.data()) : values[next++].data(),
                                  shape_of(in.dims, sizes),
                                  {}};
        }
        const auto inputs = interpreter::bind_inputs(c.compilation.elaborated, sizes, views);
        std::map<Sym, double> scalars;
        for (const auto& [size, n] : sizes) scalars[size] = double(n);
        const std::vector<int64_t> rows = chunk_rows(table, scalars, sizes, inputs);
        if (ni > 0 && nj > 0) {
          EXPECT_EQ(rows_by_step(*module, c, steps[own], sizes, views), rows)
              << m.condition << ", i=" << ni << ", j=" << nj;
        }
        const int64_t chunk = table.stream.block, split = c.compilation.plans.back().plan.split;
        const int64_t length = split > 0 ? split : nj;
        size_t row = 0;
        std::vector<int64_t> at(table.rows.size(), 0), counts;
        for (const KernelAxis& a : table.rows)
          counts.push_back((sizes.at(a.index.size()) + a.block - 1) / a.block);
        for (bool done = std::any_of(counts.begin(), counts.end(), [](int64_t n) { return n == 0; }); !done;
             ++row) {
          int64_t b0 = 0, b1 = batches, i0 = 0, i1 = ni, part = 0;
          for (size_t r = 0; r < at.size(); ++r) {
            const KernelAxis& a = table.rows[r];
            const int64_t first = at[r] * a.block, last = std::min(first + a.block, sizes.at(a.index.size()));
            if (a.index.name() == "b") b0 = first, b1 = last;
            if (a.index.name() == "i") i0 = first, i1 = last;
            if (a.kind == KernelAxis::Kind::Part) part = at[r];
          }
          ASSERT_LE((row + 1) * 4, rows.size());
          const int64_t *v = &rows[row * 4], from = part * length, to = std::min(nj, from + length);
          EXPECT_LE(v[0], v[1]);
          EXPECT_LE(v[1], v[2]);
          EXPECT_LE(v[2], v[3]);
          for (int64_t q = from / chunk; q * chunk < to; ++q) {
            bool some = false, all = q * chunk + chunk <= to;
            for (int64_t b = b0; b < b1; ++b)
              for (int64_t i = i0; i < i1; ++i)
                for (int64_t j = q * chunk; j < std::min(to, q * chunk + chunk); ++j) {
                  const bool present = m.present(values, b, i, j, ni, nj);
                  some = some || present;
                  all = all && present;
                }
            EXPECT_TRUE(!some || (q >= v[0] && q < v[3])) << m.condition << " skips chunk " << q;
            EXPECT_TRUE(all || q < v[1] || q >= v[2]) << m.condition << " does not test chunk " << q;
          }
          size_t r = at.size();
          while (r > 0 && ++at[r - 1] == counts[r - 1]) at[--r] = 0;
          done = r == 0;
        }
        EXPECT_EQ(rows.size(), row * 4);
      }
    }
}

int64_t visited(const std::vector<int64_t>& rows) {
  int64_t n = 0;
  for (size_t k = 0; k < rows.size(); k += 4) n += rows[k + 3] - rows[k];
  return n;
}

TEST(ChunkTables, EqualDocumentsVisitOneInEight) {
  const Mask m = masks()[0];
  const Compiled c = compile(m, "group b=1, i=128; stream j=128");
  const int64_t n = 8192;
  Sizes sizes;
  for (const Axis& a : c.compilation.elaborated.axes) sizes[a.index.size()] = a.name() == "b" ? 1 : n;
  std::vector<int32_t> document(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) document[size_t(i)] = int32_t(i / (n / 8));
  const std::vector<float> x(size_t(n * n));
  std::map<std::string, ArrayView> views;
  for (const Input& in : c.compilation.elaborated.inputs)
    views[in.sym.name()] = {in.dtype,
                            in.sym.name() == "x" ? static_cast<const void*>(x.data()) : document.data(),
                            shape_of(in.dims, sizes),
                            {}};
  const auto rows = chunk_rows(c.tiles.kernels[0].chunk_tables[0], {}, sizes,
                               interpreter::bind_inputs(c.compilation.elaborated, sizes, views));
  EXPECT_EQ(visited(rows), (n / 128) * (n / 128) / 8);
}

}  // namespace
}  // namespace tilewright::chunk_tables_test
