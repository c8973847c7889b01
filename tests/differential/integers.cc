// Integers are exact up to 2^53 on every host target, or refused by name.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tilewright/driver/session.h"

namespace tilewright::testing::integers_test {
namespace {

constexpr int64_t kLimit = int64_t{1} << 53;
constexpr Target kTargets[] = {Target::Cpu, Target::Interp, Target::InterpMapped};

template <class T>
HostArray array_of(DType dtype, std::vector<int64_t> shape, const std::vector<T>& values) {
  HostArray a = allocate(dtype, std::move(shape));
  std::copy(values.begin(), values.end(), static_cast<T*>(a.data.get()));
  return a;
}

/// The outputs of a program over axes i = 1 and j of its arrays, by name; all of them have passed `check`.
std::map<std::string, std::vector<int64_t>> outputs(const std::string& text, Target target,
                                                    const std::map<std::string, HostArray>& arrays,
                                                    const std::string& schedule = "") {
  CompileOptions o;
  o.target = target;
  o.mapping = Target::Cpu;
  o.schedule = schedule;
  SessionOptions s;
  for (const auto& [name, a] : arrays) s.inputs[name].array = a;
  Session session(parse_program(std::make_shared<SourceText>(SourceText{"i.tw", text})), o, s);
  session.run(0, 1);
  for (const OutputCheck& c : session.check())
    EXPECT_TRUE(c.comparison.passed) << c.name << " on " << name(target) << ": " << c.comparison.reason;
  std::map<std::string, std::vector<int64_t>> out;
  for (const auto& [name, a] : session.outputs())
    for (int64_t k = 0; k < a.elements(); ++k) out[name].push_back(int64_t(a.at(k)));
  return out;
}

std::string message(const std::function<void()>& f) {
  try {
    f();
  } catch (const UserError& e) {
    return e.what();
  }
  return "no error";
}

const std::string kReductions = R"(axis i, j
input n[i, j] : i64
s[i] = sum[j](n)
t[i] = sum[j](n * 3 - 1)
hi[i] = max[j](n)
lo[i] = min[j](n)
a[i] = argmax[j](n)
b[i] = argmin[j](n)
output s, t, hi, lo, a, b
)";

TEST(Integers, ReductionsAreExact) {
  // Neighbours past 2^24 and past 2^31, whose sums lie just below 2^53.
  for (const std::vector<int64_t>& n :
       {std::vector<int64_t>{16777217, 16777218, -16777217, 16777218, -16777219, 1},
        std::vector<int64_t>{4294967297, 4294967299, 4294967298, -3, -4294967299, 0},
        std::vector<int64_t>{1501199875790155, -1, 2, -3, 5, 1501199875790154}}) {
    int64_t sum = 0, best = 0, least = 0;
    for (size_t k = 0; k < n.size(); ++k) {
      sum += n[k];
      if (n[k] > n[size_t(best)]) best = int64_t(k);
      if (n[k] < n[size_t(least)]) least = int64_t(k);
    }
    const int64_t scaled = 3 * sum - int64_t(n.size());
    for (Target target : kTargets)
      for (const char* schedule : {"", "group i=1; stream j=2; guard always"}) {
        auto y =
            outputs(kReductions, target, {{"n", array_of(DType::i64, {1, int64_t(n.size())}, n)}}, schedule);
        const std::string where = fmt::format("{} {}", name(target), schedule);
        EXPECT_EQ(y["s"][0], sum) << where;
        EXPECT_EQ(y["t"][0], scaled) << where;
        EXPECT_EQ(y["hi"][0], n[size_t(best)]) << where;
        EXPECT_EQ(y["lo"][0], n[size_t(least)]) << where;
        EXPECT_EQ(y["a"][0], best) << where;
        EXPECT_EQ(y["b"][0], least) << where;
      }
  }
}

TEST(Integers, InnerReductionsAndProductsAreExact) {
  const std::string text = R"(axis i, j
axis d = 4
input n[i, d] : i32
input m[j, d] : i32
p[i] = max[j](sum[d](n * m))
q[i] = sum[j](max[d](n + m))
output p, q
)";
  const std::vector<int32_t> n = {16777217, 3, -5, 1}, m = {1, 1, 0, 0, 0, 16777219, 1, 1};
  for (Target target : kTargets) {
    auto y = outputs(text, target,
                     {{"n", array_of(DType::i32, {1, 4}, n)}, {"m", array_of(DType::i32, {2, 4}, m)}});
    EXPECT_EQ(y["p"][0], 3 * int64_t{16777219} - 4) << name(target);
    EXPECT_EQ(y["q"][0], 16777218 + 16777222) << name(target);
  }
}

TEST(Integers, PositionsAreExactPastTheMantissaOfAReal) {
  const int64_t length = (int64_t{1} << 24) + 7;
  const auto program = [](const char* dtype) {
    return fmt::format("axis i, j\ninput x[i, j] : {}\na[i] = argmax[j](x)\noutput a\n", dtype);
  };
  HostArray x = allocate(DType::f64, {1, length});
  static_cast<double*>(x.data.get())[length - 2] = 1;
  auto y = outputs(program("f64"), Target::Cpu, {{"x", x}});
  EXPECT_EQ(y["a"][0], length - 2);
  for (Target target : kTargets)
    EXPECT_EQ(message([&] {
                outputs(program("f32"), target, {{"x", allocate(DType::f32, {1, length})}});
              }),
              "i.tw:1:9: error: positions along `j` are held in f32, which counts to 2^24, and size(j) is "
              "16777223\n"
              "  axis i, j\n          ^\n  help: compare f64 values: positions are then held in f64")
        << name(target);
}

TEST(Integers, PastTheLimitTheyAreRefused) {
  for (Target target : kTargets) {
    const auto run = [&](std::vector<int64_t> n) {
      return message([&] {
        outputs(kReductions, target, {{"n", array_of(DType::i64, {1, int64_t(n.size())}, n)}});
      });
    };
    EXPECT_EQ(run({5, kLimit + 1}),
              "i.tw:2:1: error: input `n` holds 9007199254740993, and integers are exact up to 2^53 alone\n"
              "  input n[i, j] : i64\n  ^~~~~~~~~~~~~~~~~~~\n"
              "  help: subtract an offset, or pass f64 where rounding is accepted")
        << name(target);
    EXPECT_EQ(run({5, -kLimit - 1}).substr(0, 46), "i.tw:2:1: error: input `n` holds -900719925474")
        << name(target);
    EXPECT_EQ(
        message([&] {
          outputs("axis i, j\ninput n[i, j] : i64\ns[i] = sum[j](n)\noutput s\n", target,
                  {{"n", array_of(DType::i64, {1, 2}, std::vector<int64_t>{kLimit - 8, 8})}});
        }),
        "i.tw:4:8: error: output `s` reaches 9007199254740992, and integers are exact below 2^53 alone\n"
        "  output s\n         ^\n"
        "  help: sum reals where rounding is accepted, for example sum[j](f64(n))")
        << name(target);
  }
}

/// Sums, products and powers on the way to an output, which the output does not show.
TEST(Integers, PastTheLimitOnTheWayTheyAreRefused) {
  const auto run = [&](const std::string& value, int64_t largest, Target target = Target::Interp) {
    return message([&] {
      auto y = outputs(
          "axis i, j\ninput n[i, j] : i64\ninput m[i, j] : i32\ns[i] = " + value + "\noutput s\n", target,
          {{"n", array_of(DType::i64, {1, 3}, std::vector<int64_t>{largest, 1, -largest})},
           {"m", array_of(DType::i32, {1, 3}, std::vector<int32_t>{3, -7, 1 << 30})}});
      EXPECT_EQ(y["s"].size(), 1u);
    });
  };
  for (Target target : kTargets)
    EXPECT_EQ(run("sum[j](n * n // 1000000007)", int64_t{1} << 30, target),
              "i.tw:4:15: error: an integer of `s` may reach 1.153e+18 with these arrays, and integers are "
              "exact up to "
              "2^53 alone\n"
              "  s[i] = sum[j](n * n // 1000000007)\n"
              "                ^~~~~\n"
              "  help: compute with reals where rounding is accepted, for example f64(n) * n");
  const std::string fine = "no error";
  EXPECT_EQ(run("sum[j](n * n // 1000000007)", int64_t{1} << 26), fine);
  EXPECT_EQ(run("sum[j](n) // 2", kLimit / 2), fine);      // partial sums are bounded by Σ|n|
  EXPECT_NE(run("sum[j](n) // 2", kLimit / 2 + 2), fine);  // though the sum itself is 1
  EXPECT_NE(run("max[j](n + 1)", kLimit), fine);
  EXPECT_NE(run("max[j](n ** 2) % 10", int64_t{1} << 27), fine);
  EXPECT_EQ(run("max[j](m * 1000)", 0), fine);  // proved from the dtype alone
  EXPECT_NE(run("max[j](m * m) % 10", 0), fine);
  EXPECT_EQ(run("max[j](where(n == 0, i64(f32(m) * 3.0), 0))", 5), fine);  // what is cast is not followed
}

/// What is computed with a number that has a point or an exponent is real, though its value is an integer.
TEST(Integers, ALiteralWithAPointOrAnExponentIsReal) {
  const auto run = [&](const std::string& value, Target target) {
    return message([&] {
      outputs("axis i, j\ninput x[i, j] : f32\ninput k[i, j] : bool\ninput n[i, j] : i64\ns[i] = " + value +
                  "\noutput s : f32\n",
              target,
              {{"x", array_of(DType::f32, {1, 2}, std::vector<float>{1, 2})},
               {"k", array_of(DType::boolean, {1, 2}, std::vector<uint8_t>{1, 0})},
               {"n", array_of(DType::i64, {1, 2}, std::vector<int64_t>{1 << 30, 3})}});
    });
  };
  for (Target target : kTargets) {
    EXPECT_EQ(run("max[j](x + (1 - k) * -1e30)", target), "no error");
    EXPECT_EQ(run("logsumexp[j](x + (1 - k) * -1e30)", target), "no error");
    EXPECT_EQ(run("max[j](n * 1e12)", target), "no error");
    EXPECT_EQ(run("max[j](n * 1000000000000.0)", target), "no error");
  }
  EXPECT_NE(run("max[j](n * 1000000000000)", Target::Interp), "no error");
}

/// f32 counts to 2^24: what an integer output would show is refused past it, and held in f64 where an input is.
TEST(Integers, CountsPastTheMantissaOfARealAreRefused) {
  const int64_t length = (int64_t{1} << 24) + 7;
  const auto count = [&](DType dtype, const char* value) {
    return outputs(fmt::format("axis i, j\ninput x[i, j] : {}\nc[i] = {}\noutput c\n", name(dtype), value),
                   Target::Cpu, {{"x", allocate(dtype, {1, length})}});
  };
  EXPECT_EQ(count(DType::f64, "sum[j](where(x >= 0, 1, 0)) - 1")["c"][0], length - 1);
  EXPECT_EQ(message([&] { count(DType::f32, "sum[j](where(x >= 0, 1, 0)) - 1"); }),
            "i.tw:1:9: error: integers summed along `j` are held in f32, which counts to 2^24, and they may "
            "reach 16777223\n"
            "  axis i, j\n          ^\n  help: declare an input f64: sums are then held in f64");
  EXPECT_EQ(message([&] { count(DType::f32, "mean[j](x)"); }), "no error");
}

}  // namespace
}  // namespace tilewright::testing::integers_test
