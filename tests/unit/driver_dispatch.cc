// Dispatch: a size compiles nothing within its class; classes choose plans; bad calls are the user's mistakes.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/examples.h"
#include "tilewright/runtime/cache.h"
#include "tilewright/runtime/compile.h"

namespace tilewright::testing::driver_dispatch_test {
namespace {

class Dispatch : public ::testing::Test {
 protected:
  void SetUp() override { setenv("TILEWRIGHT_CACHE_DIR", (temporary_folder() + "/dispatch").c_str(), 1); }
};

struct Call {
  HostArray x, p;
  void run(Kernel& k) {
    k.run({{"x", Tensor{x.dtype, x.data.get(), x.shape, x.strides}}}, {},
          {{"P", Tensor{p.dtype, p.data.get(), p.shape, {}}}});
  }
};

Call rows(int64_t r, int64_t j) {
  return {filled(DType::f32, {r, j}, Fill::Normal, 1, "x"), allocate(DType::f32, {r, j})};
}

TEST_F(Dispatch, ANewSizeBatchOrStrideCompilesNothing) {
  CompileOptions o;
  Kernel k(example("softmax", DType::f32), o);
  rows(3, 100).run(k);
  const int64_t first = compile_stats().compiled, hits = compile_stats().hits;
  for (int64_t r : {0, 1, 2, 17, 64})
    for (int64_t j : {0, 1, 5, 129, 1000, 4096}) rows(r, j).run(k);
  EXPECT_EQ(compile_stats().compiled, first);
  EXPECT_EQ(compile_stats().hits, hits);

  Kernel a(example("pf_causal", DType::f32, {{"d", 64}, {"e", 64}}), o);
  // `row`: elements from one row to the next, of 64 features each, `step` elements apart.
  auto attention = [&](int64_t i, int64_t j, int64_t b = 1, int64_t h = 1, int64_t row = 64,
                       int64_t step = 1) {
    const auto input = [&](int64_t n, const char* name) {
      HostArray x = filled(DType::f32, {b, h, n, row}, Fill::Normal, 1, name);
      x.strides = {h * n * row, n * row, row, step};
      x.shape[3] = 64;
      return x;
    };
    const HostArray q = input(i, "Q"), kk = input(j, "K"), v = input(j, "V"),
                    out = allocate(DType::f32, {b, h, i, 64});
    auto t = [](const HostArray& x) { return Tensor{x.dtype, x.data.get(), x.shape, x.strides}; };
    a.run({{"Q", t(q)}, {"K", t(kk)}, {"V", t(v)}}, {}, {{"O", t(out)}});
  };
  attention(5, 9);        // few tasks: its keys are split
  attention(5, 9, 3, 1);  // more of them
  const int64_t after = compile_stats().compiled;
  for (int64_t i : {0, 1, 47, 48, 49, 130})
    for (int64_t j : {0, 1, 63, 64, 65, 200}) attention(i, j);
  for (int64_t b : {0, 2, 70}) attention(3, 5, b, 2);
  for (int64_t row : {64, 65, 66, 72, 131, 4096}) attention(3, 5, 2, 3, row);
  for (int64_t step : {2, 3}) attention(40, 50, 1, 2, 64 * step + 1, step);
  EXPECT_EQ(compile_stats().compiled, after);
}

TEST_F(Dispatch, SizeClassesChoosePlans) {
  CompileOptions o;
  o.target = Target::Cpu;
  Kernel k(example("softmax", DType::f32), o);
  rows(2, 100).run(k);
  EXPECT_NE(k.last_plan().find("resident j="), std::string::npos) << k.last_plan();
  rows(1, 40000).run(k);
  EXPECT_NE(k.last_plan().find("stream j="), std::string::npos) << k.last_plan();
}

TEST_F(Dispatch, ASecondProcessWouldHitTheCache) {
  CompileOptions o;
  {
    Kernel k(example("softmax", DType::f64), o);
    Call c{filled(DType::f64, {2, 9}, Fill::Normal, 1, "x"), allocate(DType::f64, {2, 9})};
    c.run(k);
  }
  const CompileStats before = compile_stats();
  Kernel again(example("softmax", DType::f64), o);
  Call c{filled(DType::f64, {2, 9}, Fill::Normal, 1, "x"), allocate(DType::f64, {2, 9})};
  c.run(again);
  EXPECT_EQ(compile_stats().compiled, before.compiled);
}

std::string mistake(const std::function<void()>& f) {
  try {
    f();
  } catch (const UserError& e) {
    return e.diagnostics()[0].what + " | " + e.diagnostics()[0].hint;
  }
  return "no error";
}

TEST_F(Dispatch, BadCallsAreExplained) {
  CompileOptions o;
  Kernel k(example("softmax", DType::f32), o);
  const HostArray x = allocate(DType::f32, {2, 3}), wrong = allocate(DType::f32, {2, 4}),
                  half = allocate(DType::f16, {2, 3}), out = allocate(DType::f32, {2, 3});
  auto t = [](const HostArray& a) { return Tensor{a.dtype, a.data.get(), a.shape, {}}; };
  EXPECT_EQ(mistake([&] {
              k.run({{"x", t(x)}}, {}, {{"P", t(wrong)}});
            }),
            "output `P` has shape (2, 4), the program needs (2, 3) | pass an array of that shape");
  EXPECT_EQ(mistake([&] {
              k.run({{"x", t(half)}}, {}, {{"P", t(x)}});
            }),
            "input `x` is f16, the program declares f32 | convert it, or compile with --dtype x=f16");
  EXPECT_EQ(mistake([&] {
              k.run({{"X", t(x)}}, {}, {{"P", t(x)}});
            }),
            "no array is called `X` | inputs are x; outputs are P");
  EXPECT_EQ(mistake([&] {
              k.run({{"x", t(x)}}, {}, {});
            }),
            "output `P` is missing | pass an array of shape (2, 3)");
  EXPECT_EQ(mistake([&] {
              k.run({{"x", t(x)}}, {{"cap", 3.0}}, {{"P", t(out)}});
            }).substr(0, 28),
            "no param is called `cap` | p");
  EXPECT_EQ(mistake([&] {
              k.run({{"x", t(x)}, {"mask", t(x)}}, {}, {{"P", t(out)}});
            }),
            "no array is called `mask` | inputs are x; outputs are P");
}

TEST_F(Dispatch, OutputsHaveMemoryOfTheirOwn) {
  CompileOptions o;
  Kernel k(example("softmax", DType::f32), o);
  const HostArray x = allocate(DType::f32, {2, 8});
  float* at = static_cast<float*>(static_cast<void*>(x.data.get()));
  const auto view = [&](int64_t offset, std::vector<int64_t> strides) {
    return Tensor{DType::f32, at + offset, {2, 3}, std::move(strides)};
  };
  const std::string own = "pass arrays that do not overlap: a kernel reads and writes in no given order";
  EXPECT_EQ(mistake([&] {
              k.run({{"x", view(0, {3, 1})}}, {}, {{"P", view(0, {3, 1})}});
            }),
            "output `P` and input `x` lie in the same memory | " + own);
  EXPECT_EQ(mistake([&] {
              k.run({{"x", view(0, {3, 1})}}, {}, {{"P", view(4, {3, 1})}});
            }),
            "output `P` and input `x` lie in the same memory | " + own);
  EXPECT_EQ(
      mistake([&] {
        k.run({{"x", view(0, {3, 1})}}, {}, {{"P", view(8, {0, 1})}});
      }),
      "output `P` is broadcast: dimension 0 has 2 elements at one place | pass an array that has memory for "
      "every element");
  // Halves of rows, and every other element: nothing is shared.
  k.run({{"x", view(0, {8, 1})}}, {}, {{"P", view(4, {8, 1})}});
  k.run({{"x", view(0, {8, 2})}}, {}, {{"P", view(1, {8, 2})}});
}

TEST_F(Dispatch, AScheduleThatDoesNotAdmitTheSizeIsRefused) {
  CompileOptions o;
  o.schedule = "resident j=64";
  Kernel k(example("softmax", DType::f32), o);
  Call ok = rows(2, 64);
  ok.run(k);
  Call large = rows(2, 65);
  EXPECT_EQ(mistake([&] { large.run(k); }),
            "no plan admits these sizes: j is 65, the plan holds at most 64 | drop the schedule, raise the "
            "capacity, or stream the axis");
}

}  // namespace
}  // namespace tilewright::testing::driver_dispatch_test
