// Whole messages for arrays, sizes, params and data that do not fit a program.
#include <gtest/gtest.h>

#include <cmath>

#include "tilewright/reference/reference.h"

namespace tilewright::program_bindings_test {
namespace {

struct Given {
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  std::vector<double> values = {};
};

/// The message that binding `arrays` and evaluating the first output gives.
std::string message(const std::string& text, const std::map<std::string, Given>& arrays,
                    const std::map<std::string, int64_t>& sizes = {},
                    const std::map<std::string, double>& params = {}) {
  try {
    const Program p = parse_program(std::make_shared<SourceText>(SourceText{"t.tw", text}));
    std::map<std::string, std::vector<int64_t>> shapes;
    std::map<std::string, std::vector<char>> storage;
    std::map<std::string, ArrayView> views;
    for (const auto& [name, a] : arrays) {
      shapes[name] = a.shape;
      std::vector<char>& bytes_of = storage[name];
      bytes_of.resize(a.values.size() * size_t(bytes(a.dtype)) + 1);
      for (size_t k = 0; k < a.values.size(); ++k)
        store_element(a.dtype, bytes_of.data(), int64_t(k), a.values[k]);
      views[name] = {a.dtype, bytes_of.data(), a.shape, {}};
    }
    const Sizes bound = bind_sizes(p, shapes, sizes);
    Evaluator(p, bound, views, params, Precision::f64).all(p.outputs[0]);
  } catch (const UserError& e) {
    std::string all = "\n";
    for (const Diagnostic& d : e.diagnostics()) all += d.render();
    return all;
  }
  return "no error";
}

const char* const kProduct =
    "axis i, j, k\ninput A[i, k] : f32\ninput B[k, j] : f32\ny[i, j] = sum[k](A * B)\noutput y\n";
const char* const kGrouped =
    "axis k, g\naxis d = 4\ninput Q[(k g), d] : f16\ny[k] = sum[g, d](Q[(k g), d])\noutput y\n";
const char* const kGather =
    "axis i, j\ninput x[j] : f32\ninput t[i] : i32\ninput u[i] : i32 range(0, size(j))\ninput m[i] : bool\n"
    "a[i] = x[t]\nb[i] = where(m, x[t], 0) + 6 // t\noutput a, b\n";

TEST(ProgramBindings, WrongRank) {
  EXPECT_EQ(message(kProduct, {{"A", {DType::f32, {3}}}, {"B", {DType::f32, {3, 2}}}}), R"(
t.tw:2:1: error: `A` is declared as A[i, k], 2 dimensions, and the array has shape (3,)
  input A[i, k] : f32
  ^~~~~~~~~~~~~~~~~~~
  help: give an array with one dimension for each declared one; a composite (k g) is one dimension
)");
  EXPECT_EQ(message(kGrouped, {{"Q", {DType::f16, {2, 3, 4}}}}), R"(
t.tw:3:1: error: `Q` is declared as Q[(k g), d], 2 dimensions, and the array has shape (2, 3, 4)
  input Q[(k g), d] : f16
  ^~~~~~~~~~~~~~~~~~~~~~~
  help: give an array with one dimension for each declared one; a composite (k g) is one dimension
)");
}

TEST(ProgramBindings, WrongDtype) {
  EXPECT_EQ(message(kProduct, {{"A", {DType::f64, {1, 1}, {1}}}, {"B", {DType::f32, {1, 1}, {1}}}}), R"(
t.tw:2:1: error: input `A` has dtype f64, but the program declares f32
  input A[i, k] : f32
  ^~~~~~~~~~~~~~~~~~~
  help: convert the array, or compile with --dtype A=f64
)");
}

TEST(ProgramBindings, DisputedAxis) {
  EXPECT_EQ(message(kProduct, {{"A", {DType::f32, {2, 3}}}, {"B", {DType::f32, {4, 2}}}}), R"(
t.tw:3:1: error: axis `k` is 3 by A[i, k] of shape (2, 3), but 4 by B[k, j] of shape (4, 2)
  input B[k, j] : f32
  ^~~~~~~~~~~~~~~~~~~
  help: give arrays and sizes that agree
)");
  EXPECT_EQ(message(kProduct, {{"A", {DType::f32, {2, 1}}}, {"B", {DType::f32, {4, 2}}}}), R"(
t.tw:3:1: error: axis `k` is 1 by A[i, k] of shape (2, 1), but 4 by B[k, j] of shape (4, 2)
  input B[k, j] : f32
  ^~~~~~~~~~~~~~~~~~~
  help: size 1 is not broadcast: leave the axis away where the array does not vary along it
)");
  EXPECT_EQ(message(kProduct, {{"A", {DType::f32, {2, 3}}}, {"B", {DType::f32, {3, 2}}}}, {{"i", 5}}), R"(
t.tw:2:1: error: axis `i` is 5 by --size i=5, but 2 by A[i, k] of shape (2, 3)
  input A[i, k] : f32
  ^~~~~~~~~~~~~~~~~~~
  help: give arrays and sizes that agree
)");
  EXPECT_EQ(message(kGrouped, {{"Q", {DType::f16, {6, 5}}}}, {{"g", 2}}), R"(
t.tw:3:1: error: axis `d` is 4 by its declaration, but 5 by Q[(k g), d] of shape (6, 5)
  input Q[(k g), d] : f16
  ^~~~~~~~~~~~~~~~~~~~~~~
  help: the size stands in the program; to compile for another one: --size d=5
)");
}

TEST(ProgramBindings, CompositeDimension) {
  EXPECT_EQ(message(kGrouped, {{"Q", {DType::f16, {7, 4}}}}, {{"g", 2}}), R"(
t.tw:3:1: error: dimension 1 of Q[(k g), d] of shape (7, 4) is 7, which does not agree with g = 2 by --size g=2
  input Q[(k g), d] : f16
  ^~~~~~~~~~~~~~~~~~~~~~~
  help: its length must be a multiple of them to give the size of `k`
)");
  EXPECT_EQ(message(kGrouped, {{"Q", {DType::f16, {6, 4}}}}), R"(
t.tw:1:6: error: nothing fixes the size of axes `k`, `g`
  axis k, g
       ^
  help: give it: --size k=N,g=N
)");
}

TEST(ProgramBindings, SizesThatOverflow) {
  EXPECT_EQ(
      message("axis i, j\ny[i, j] = i\noutput y\n", {}, {{"i", int64_t(1) << 40}, {"j", int64_t(1) << 40}}),
      R"(
t.tw:3:8: error: the size of `y`, shape (1099511627776, 1099511627776), overflows: it would take more than 2^62 bytes
  output y
         ^
  help: give smaller sizes
)");
  EXPECT_EQ(message("axis i, j = size(i) * size(i)\ny[j] = j\noutput y\n", {}, {{"i", int64_t(1) << 40}}), R"(
t.tw:1:9: error: the size of axis `j`: size overflows 64 bits
  axis i, j = size(i) * size(i)
          ^
  help: use smaller sizes: every count and byte offset must stay below 2^63
)");
  EXPECT_EQ(message("axis i, n = 9223372036854775807 * 2\ny[n] = n\noutput y\n", {}), R"(
t.tw:1:9: error: the size of axis `n`: size overflows 64 bits
  axis i, n = 9223372036854775807 * 2
          ^
  help: use smaller sizes: every count and byte offset must stay below 2^63
)");
}

TEST(ProgramBindings, UnknownNames) {
  EXPECT_EQ(
      message(kProduct, {{"A", {DType::f32, {1, 1}, {1}}}, {"C", {DType::f32, {1, 1}, {1}}}}, {{"j", 1}}), R"(
error: the program has no input `C`
  help: its inputs are A, B
)");
  EXPECT_EQ(message(kProduct, {}, {{"kk", 2}}), R"(
error: --size kk=2: the program has no axis `kk`
  help: did you mean `k`?
)");
  EXPECT_EQ(message("axis i\nparam cap : f32\ny[i] = cap\noutput y\n", {}, {{"i", 1}}, {{"caps", 2}}), R"(
error: the program has no param `caps`
  help: did you mean `cap`?
)");
}

TEST(ProgramBindings, Missing) {
  EXPECT_EQ(message(kProduct, {{"A", {DType::f32, {2, 3}}}}), R"(
t.tw:1:9: error: nothing fixes the size of axis `j`
  axis i, j, k
          ^
  help: give it: --size j=N
)");
  EXPECT_EQ(message(kProduct, {{"A", {DType::f32, {1, 1}, {1}}}}, {{"j", 1}}), R"(
t.tw:3:1: error: input `B` is missing
  input B[k, j] : f32
  ^~~~~~~~~~~~~~~~~~~
  help: give an array for it; given are A
)");
  EXPECT_EQ(message("axis i\nparam cap : f32\ny[i] = cap\noutput y\n", {}, {{"i", 1}}), R"(
t.tw:2:1: error: param `cap` has no value
  param cap : f32
  ^~~~~~~~~~~~~~~
  help: give one: --param cap=N
)");
}

TEST(ProgramBindings, Ranges) {
  EXPECT_EQ(message("axis i\nparam cap : f32 range(1, 100)\ny[i] = cap\noutput y\n", {}, {{"i", 1}},
                    {{"cap", NAN}}),
            R"(
t.tw:2:1: error: param `cap` is nan, outside its declared range [1, 100)
  param cap : f32 range(1, 100)
  ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~
  help: give a value inside; the upper end is excluded
)");
  EXPECT_EQ(message("axis i\ninput t[i] : i32 range(0, size(i))\ny[i] = t\noutput y\n",
                    {{"t", {DType::i32, {3}, {0, 3, 1}}}}),
            R"(
t.tw:2:1: error: input `t` holds 3, outside its declared range [0, 3)
  input t[i] : i32 range(0, size(i))
  ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
  help: correct the array; the upper end is excluded
)");
}

TEST(ProgramBindings, IndexOutOfBounds) {
  std::map<std::string, Given> arrays = {{"x", {DType::f32, {2}, {1, 2}}},
                                         {"t", {DType::i32, {3}, {1, -1, 2}}},
                                         {"u", {DType::i32, {3}, {0, 1, 0}}},
                                         {"m", {DType::boolean, {3}, {1, 0, 0}}}};
  EXPECT_EQ(message(kGather, arrays), R"(
t.tw:6:8: error: index -1 is outside axis `j` of `x`, which has size 2
  a[i] = x[t]
         ^~~~
  help: guard the read with where(...), or correct the values it is indexed by
)");
  std::string guarded = kGather;
  guarded.replace(guarded.find("output a, b"), 11, "output b, a");
  EXPECT_EQ(message(guarded, arrays), "no error") << "what is masked is not read";
  arrays.at("t").values = {1, 0, 2};
  EXPECT_EQ(message(guarded, arrays), R"(
t.tw:7:28: error: division by zero in `6 // t[i]`
  b[i] = where(m, x[t], 0) + 6 // t
                             ^~~~~~
  help: guard it: where(divisor != 0, ..., 0)
)");
}

TEST(ProgramBindings, NoReduction) {
  EXPECT_EQ(message("axis i, k\ninput A[i, k] : f32\ninput b[k] : f32\ny[i] = A * b\noutput y\n", {}), R"(
t.tw:4:8: error: axis `k` of the right side is not on the left side of `y`
  y[i] = A * b
         ^
  help: `A` alone reads A[i, k]; reduce over it, for example sum[k](…), or write y[i, k]
)");
}

}  // namespace
}  // namespace tilewright::program_bindings_test
