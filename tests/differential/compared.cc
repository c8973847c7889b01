// What is compared is one value: maxima are found among the elements that they are the maxima of, however those are made, in how many passes and kernels, and beside
// what else. Counts and indices must be those of the definition; a value rounded otherwise on one of the sides is found nowhere.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cctype>

#include "tests/support/examples.h"
#include "tilewright/driver/compiled.h"

namespace tilewright::testing::compared_test {
namespace {

struct Place {
  const char* name;
  Target target;
  bool mapped_for_gpu = false;
};
const Place kPlaces[] = {
    {"interp", Target::Interp}, {"cpu", Target::Cpu}, {"mapped", Target::InterpMapped, true}};

/// Values of an element: affine, products with rows, products that are added, functions, contractions, values of an earlier pass, masked ones.
const char* const kValues[] = {
    "0.3 * x + y",
    "x / 3 - y",
    "x * w / sqrt(3) + 0.1 * y * w",
    "x * y + w * y",
    "exp(0.3 * x) * y + w",
    "(x + w) / (1 + y * y)",
    "sum[d](A[i, d] * B[j, d]) / sqrt(size(d)) + 0.3 * y",
    "sum[d](A[i, d] * B[j, d]) * rsqrt(sum[d](B[j, d] * B[j, d]))",
    "softmax[j](0.3 * x + y)",
    "(x - mean[j](x)) * rsqrt(var[j](x) + 1e-5) * y",
    "where(j <= i + 20, 0.3 * x + y, -inf)",
};

/// Outputs that compare elements of Z, with what they are called.
struct Use {
  const char *text, *output;
};
const Use kUses[] = {
    {"a[i] = argmax[j](Z)", "a : i32"},
    {"a[i] = argmin[j](Z)", "a : i32"},
    {"n[i] = sum[j](where(Z == max[j](Z), 1, 0))", "n : i32"},
    {"n[i] = sum[j](where(Z != min[j](Z), 1, 0))", "n : i32"},
    {"n[i] = sum[j](where(Z - max[j](Z) == 0, 1, 0))", "n : i32"},
    {"n[i] = sum[j](where(0.7 * Z + y >= max[j](0.7 * Z + y), 1, 0))", "n : i32"},
    {"n[i] = sum[j](where(Z >= min[t](topk[j -> t](Z)), 1, 0))", "n : i32"},
    {"m[i] = max[j](Z)\nn[j] = sum[i](where(Z == m, 1, 0))", "n : i32"},
    {"r[i, j] = sum[k](where(Z[i, k] > Z[i, j], 1, 0))\nn[i] = max[j](r)", "n : i32"},
    {"h[i, j] = where(Z == max[j](Z), 1, 0)", "h : i32"},
};

/// What shares the maximum of Z, with factors and addends of its own.
const Use kBeside[] = {{"", ""},
                       {"L[i] = logsumexp[j](Z)", "L"},
                       {"L[i] = logsumexp[j](0.3 * Z)", "L"},
                       {"L[i] = logsumexp[j](Z + w)", "L"},
                       {"O[i] = sum[j](softmax[j](Z) * y)", "O"}};

class Compared : public ::testing::TestWithParam<Place> {
 protected:
  static void check(const std::string& value, const Use& use, const Use& beside, const std::string& real,
                    uint64_t seed) {
    std::string text = "axis i, j\naxis d = 24, t = 8\naxis k = size(j)\n";
    const std::string body = fmt::format("Z[i, j] = {}\n{}\n{}\n", value, use.text, beside.text);
    for (auto [name, declared] :
         {std::pair{"x", "x[i, j]"}, {"y", "y[j]"}, {"w", "w[i]"}, {"A", "A[i, d]"}, {"B", "B[j, d]"}})
      if (reads(body, name)) text += fmt::format("input {} : {}\n", declared, real);
    text += body + fmt::format("output {}{}{}\n", use.output, *beside.output ? ", " : "", beside.output);
    SCOPED_TRACE(text);
    CompileOptions o;
    o.target = GetParam().target;
    o.mapping = GetParam().mapped_for_gpu ? Target::Cuda : Target::Cpu;
    SessionOptions s;
    s.sizes = {{"i", 21}, {"j", 75}};
    s.seed = seed;
    try {
      Session session(parse_program(std::make_shared<SourceText>(SourceText{"compared.tw", text})), o, s);
      session.run(0, 1);
      for (const OutputCheck& c : session.check())
        EXPECT_TRUE(c.comparison.passed)
            << c.name << ": " << c.comparison.reason << ", got " << c.got << ", expected " << c.expected;
    } catch (const UserError&) {
      ++refused;
      EXPECT_TRUE(GetParam().mapped_for_gpu);
    }
  }
  static inline int refused = 0;

 private:
  /// Is the word in the text?
  static bool reads(const std::string& text, const std::string& word) {
    const auto letter = [&](size_t at) {
      return at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) || text[at] == '_');
    };
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
      if (!letter(at - 1) && !letter(at + word.size())) return true;
    return false;
  }
};
INSTANTIATE_TEST_SUITE_P(Places, Compared, ::testing::ValuesIn(kPlaces),
                         [](const auto& p) { return p.param.name; });

/// Every value with every use, each with one of what may stand beside it. Two sets of data.
TEST_P(Compared, ElementsWithTheirExtrema) {
  const bool slow = GetParam().target != Target::Interp;
  size_t n = 0;
  for (const char* value : kValues)
    for (const Use& use : kUses) {
      const Use& beside = kBeside[n++ % std::size(kBeside)];
      if (slow && n % 7 != 0) continue;  // each is compiled
      check(value, use, beside, "f32", n);
    }
  EXPECT_LT(refused, 5);
}

TEST_P(Compared, ElementsOfOtherTypes) {
  for (const char* real : {"bf16", "f64"})
    for (const char* value : {kValues[0], kValues[6]})
      for (const Use& use : {kUses[0], kUses[2], kUses[7]}) check(value, use, kBeside[1], real, 5);
}

/// The maximum of the scores themselves beside exponentials with another factor and another addend.
TEST_P(Compared, InputsWithTheirExtrema) {
  for (const Use& beside : kBeside)
    for (const Use& use : {kUses[0], kUses[2], kUses[4]}) check("x", use, beside, "f32", 7);
}

}  // namespace
}  // namespace tilewright::testing::compared_test
