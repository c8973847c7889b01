// Refusals on the way from a program to a kernel: whole messages.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "tilewright/driver/compiled.h"
#include "tilewright/driver/session.h"

namespace tilewright::driver_errors_test {
namespace {

std::string refusal(const std::string& text, const CompileOptions& o,
                    const std::function<void(Kernel&)>& run = {}) {
  try {
    Kernel k(parse_program(std::make_shared<SourceText>(SourceText{"p.tw", text})), o);
    if (run) run(k);
  } catch (const UserError& e) {
    std::string all;
    for (const Diagnostic& d : e.diagnostics()) all += d.render();
    return all;
  }
  return "no error";
}

const char kRows[] = "axis r, j\ninput x[r, j] : f32\nP[r, j] = softmax[j](x)\noutput P\n";

const char kShifted[] =
    "axis i, j\ninput x[i] : f32\ninput t[j] : i64 range(0, 3)\ny[i] = sum[j](x[i + t[j]])\noutput y\n";

/// On a CPU the kernel tests the index: nothing is read outside, and the failure is reported after the run.
TEST(DriverErrors, IndexOutsideItsArrayOnACpu) {
  const std::vector<float> x = {1, 2, 3, 4};
  std::vector<float> y(4);
  for (const auto& [last, expected] : std::map<int64_t, std::string>{
           {0, "no error"},
           {-1,
            "p.tw:4:15: error: index -1 is outside axis i of x, which has size 4\n"
            "  y[i] = sum[j](x[i + t[j]])\n"
            "                ^~~~~~~~~~~\n"
            "  help: guard the read with where(...), or correct the values it is indexed by\n"},
           {int64_t(1) << 50,
            "p.tw:4:15: error: index 140737488355327 is outside axis i of x, which has size 4\n"
            "  y[i] = sum[j](x[i + t[j]])\n"
            "                ^~~~~~~~~~~\n"
            "  help: guard the read with where(...), or correct the values it is indexed by\n"}}) {
    std::vector<int64_t> t = {0, 0, last};
    const std::string message = refusal(kShifted, {}, [&](Kernel& k) {
      k.run({{"x", {DType::f32, const_cast<float*>(x.data()), {4}, {}}},
             {"t", {DType::i64, t.data(), {3}, {}}}},
            {}, {{"y", {DType::f32, y.data(), {4}, {}}}});
    });
    EXPECT_EQ(message, expected);
    const std::vector<float> sums = {3, 6, 9, 12};
    if (last == 0) {
      EXPECT_EQ(y, sums);
    }
  }
}

/// Whole tiles of a GPU's mapping hold elements outside of the arrays, whose divisors are 0.
TEST(DriverErrors, DivisorsOutsideOfTheArraysDoNotCount) {
  const Program p = parse_program(std::make_shared<SourceText>(SourceText{
      "p.tw",
      "axis i, j\naxis d = 8\ninput Q[i, d] : f32\ninput K[j, d] : f32\ninput a[i] : i32 range(1, 4)\n"
      "input b[j] : i32 range(1, 4)\nC[i, j] = where(a[i] // b[j] == 1, sum[d](Q * K), -inf)\n"
      "L[i] = logsumexp[j](C)\noutput L : f32\n"}));
  for (Target mapping : {Target::Cuda, Target::Cpu}) {
    CompileOptions o;
    o.target = Target::InterpMapped;
    o.mapping = mapping;
    SessionOptions s;
    s.sizes = {{"i", 53}, {"j", 150}};
    Session session(p, o, s);
    ASSERT_NO_THROW(session.run(0, 1));
    for (const OutputCheck& c : session.check()) EXPECT_TRUE(c.comparison.passed) << c.comparison.reason;
  }
}

TEST(DriverErrors, Schedules) {
  CompileOptions o;
  o.schedule = "strem j=3";
  EXPECT_EQ(refusal(kRows, o),
            "<schedule>:1:1: error: no clause begins with `strem`\n  strem j=3\n  ^~~~~\n  help: did you "
            "mean `stream`?\n");
  o.schedule = "stream r=3";
  EXPECT_EQ(refusal(kRows, o),
            "<schedule>:1:8: error: the program's state runs over `j`, not over `r`\n  stream r=3\n         "
            "^\n  help: stream `j`\n");
  o.schedule = "group r=6/4";
  EXPECT_EQ(refusal(kRows, o),
            "<schedule>:1:7: error: pieces of 4 do not divide blocks of 6\n  group r=6/4\n        ^\n  help: "
            "choose a divisor\n");
  o.schedule = "bounds elsewhere";
  EXPECT_EQ(
      refusal(kRows, o),
      "<schedule>:1:8: error: no way to bound masks is called `elsewhere`\n  bounds elsewhere\n         "
      "^~~~~~~~~\n  help: choose host, device or tested\n");
  o.schedule = "bounds host";
  EXPECT_EQ(
      refusal(kRows, o),
      "<schedule>:1:1: error: `bounds` chooses how masks that read arrays are treated, and no mask of this "
      "program reads integers or booleans of one\n  bounds host\n  ^~~~~~~~~~~\n  help: drop `bounds`\n");
  EXPECT_EQ(refusal("axis i\ninput x[i] : f32\noutput x : f32\n", {}),
            "p.tw:3:8: error: output `x` is an input: no kernel makes it\n  output x : f32\n         ^\n  "
            "help: define "
            "a copy and make it the output: x_out[axes] = x\n");
  const char* lengths =
      "program lengths\naxis r, j\ninput x[r, j] : f32\ninput n[r] : i32 range(0, 100)\n"
      "y[r] = sum[j](where(j < n[r], x, 0))\noutput y : f32\n";
  o.schedule = "bounds device";
  o.target = Target::Cpu;
  EXPECT_EQ(
      refusal(lengths, o),
      "<schedule>:1:1: error: bounds device: the kernels run on the host\n  bounds device\n  ^~~~~~~~~~~~~\n"
      "  help: write `bounds host` or `bounds tested`\n");
  o.host_steps = false;
  EXPECT_EQ(refusal(lengths, o),
            "<schedule>:1:1: error: bounds device: the kernels run on the host\n  bounds device\n"
            "  ^~~~~~~~~~~~~\n  help: write `bounds tested`\n");
  o = {};
  o.schedule = "resident j=64; bounds tested";
  EXPECT_EQ(
      refusal(lengths, o),
      "<schedule>:1:16: error: a resident axis has one chunk, which is always visited\n  resident j=64; "
      "bounds tested\n                 ^~~~~~~~~~~~~\n  help: drop `bounds` or write `stream` for "
      "`resident`\n");
  o.schedule = "resident j=64; split j=64";
  EXPECT_EQ(
      refusal(lengths, o),
      "<schedule>:1:16: error: a resident axis is held whole, so it cannot be split\n  resident j=64; split "
      "j=64\n                 ^~~~~~~~~~\n  help: drop `split` or write `stream` for `resident`\n");
  o.schedule = "stream j=64; stages 9";
  EXPECT_EQ(refusal(lengths, o),
            "<schedule>:1:14: error: stages 9: a ring has 1 to 8 slots\n  stream j=64; stages "
            "9\n               ^~~~~~~~\n  help: write a number from 1 to 8\n");
  o.schedule = "roles 2+1; stream j=64";
  EXPECT_EQ(refusal(lengths, o),
            "<schedule>:1:1: error: roles 2+1: a block has at most one loading group\n  roles 2+1; stream "
            "j=64\n  ^~~~~~~~~\n  help: use 0 or 1 loading "
            "and 1 to 4 computing groups\n");
  o.schedule = "stream j=ü";
  EXPECT_EQ(
      refusal(lengths, o),
      "<schedule>:1:10: error: unexpected character `ü` in a schedule\n  stream j=ü\n           ^\n  help: a "
      "schedule holds words, numbers and `; = , / + : <=`\n");
  o.schedule = "resident j=64";  // a default's split is not meant
  EXPECT_EQ(
      print(
          parse_program(std::make_shared<SourceText>(SourceText{"p.tw", lengths})),
          analyse(parse_program(std::make_shared<SourceText>(SourceText{"p.tw", lengths})), o).plans[0].plan),
      "group r=1; resident j=64; stages 1; roles 0+1; guard always");
  o.schedule = "stream j=64; bounds host";
  o.target = Target::Cuda;
  EXPECT_EQ(refusal(lengths, o),
            "<schedule>:1:14: error: bounds host: the arrays that the mask reads lie on the device\n"
            "  stream j=64; bounds host\n               ^~~~~~~~~~~\n  help: write `bounds "
            "device` or `bounds tested`\n");
  o.target = Target::Cuda;
  o.arch = "sm_80";
  o.schedule = "stream j=64; roles 1+1; grid persistent";
  EXPECT_EQ(
      refusal(lengths, o),
      "<schedule>:1:25: error: grid persistent: kernels for sm_80 have no loading group, which would read "
      "ahead for the next element of the grid\n  stream j=64; roles 1+1; grid persistent\n"
      "                          ^~~~~~~~~~~~~~~\n  help: leave it out, or write `grid blocks`\n");
  o.target = Target::Cpu;
  o.arch.clear();
  EXPECT_EQ(
      refusal(lengths, o),
      "<schedule>:1:25: error: grid persistent: a CPU has no grid: its threads take the next block as they "
      "come\n  stream j=64; roles 1+1; grid persistent\n                          ^~~~~~~~~~~~~~~\n"
      "  help: leave `grid` out\n");
  o.target = Target::Cpu;
  o.schedule = "stream j=4; split j=8";
  EXPECT_EQ(refusal(kRows, o),
            "p.tw:4:8: error: output `P` runs along the split axis `j`: parts do not know the merged state "
            "when they store it\n  output P\n         ^\n  help: drop `split`\n");
}

TEST(DriverErrors, ASchedulesClausesAreGivenOnce) {
  CompileOptions o;
  const auto message = [&](const std::string& schedule) {
    o.schedule = schedule;
    return refusal(kRows, o);
  };
  EXPECT_EQ(message("stream j=4; stages 1; stream j=8"),
            "<schedule>:1:23: error: `stream` is given twice; the first stands at line 1, column 1\n  stream "
            "j=4; stages 1; stream j=8\n                        ^~~~~~\n  help: give it once\n");
  EXPECT_EQ(message("guard always\nguard moved"),
            "<schedule>:2:1: error: `guard` is given twice; the first stands at line 1, column 1\n  guard "
            "moved\n  ^~~~~\n  help: give it once\n");
  EXPECT_EQ(message("stream j=4; resident j=8"),
            "<schedule>:1:13: error: `resident` contradicts `stream` at line 1, column 1\n  stream j=4; "
            "resident j=8\n              ^~~~~~~~\n"
            "  help: an axis is either streamed or held whole: give one of them\n");
  EXPECT_EQ(message("group r=2; group r=3"),
            "<schedule>:1:12: error: `group` is given twice; the first stands at line 1, column 1\n  group "
            "r=2; group r=3\n             ^~~~~\n"
            "  help: give all cuts in one clause: `group i=128/64, h=1`\n");
  EXPECT_EQ(message("stages 99999999999"),
            "<schedule>:1:8: error: 99999999999 is too many\n  stages 99999999999\n         ^~~~~~~~~~~\n  "
            "help: write `stages 2`; the number is at most 1024\n");
  EXPECT_EQ(message("  # a comment"),
            "<schedule>:1:1: error: the schedule holds no clause\n    # a comment\n  ^\n  help: write one, "
            "such as `stream j=128`, or give no schedule for the default plans\n");
  o.schedule_name = "rows.sched";
  EXPECT_EQ(message("strem j=3"),
            "rows.sched:1:1: error: no clause begins with `strem`\n  strem j=3\n  ^~~~~\n  help: did you "
            "mean `stream`?\n");
}

/// Runs on a host target with arrays of the shapes given, all of them i32 or f32; every element of `n` is 6, of `m` 2 but the last.
std::string failure(const std::string& text, Target target, int32_t last,
                    const std::map<std::string, double>& params = {}) {
  CompileOptions o;
  o.target = target;
  o.mapping = Target::Cpu;
  std::vector<int32_t> n(6, 6), m(6, 2);
  m.back() = last;
  std::vector<float> x(6, 1), y(2);
  return refusal(text, o, [&](Kernel& k) {
    std::map<std::string, Tensor> in;
    for (const Input& i : k.compiled().program.inputs) {
      const std::string& name = i.sym.name();
      void* data = name == "n"   ? static_cast<void*>(n.data())
                   : name == "m" ? static_cast<void*>(m.data())
                                 : x.data();
      in[name] = {i.dtype, data, {2, 3}, {}};
    }
    k.run(in, params, {{"y", {DType::f32, y.data(), {2}, {}}}});
  });
}

constexpr Target kHostTargets[] = {Target::Cpu, Target::Interp, Target::InterpMapped};
const std::string kGuardIt = "  help: guard it: where(divisor != 0, ..., 0)\n";

TEST(DriverErrors, AnIntegerDividedByZero) {
  const std::string head = "axis i, j\ninput n[i, j] : i32\ninput m[i, j] : i32\ninput x[i, j] : f32\n";
  for (Target t : kHostTargets) {
    for (const auto& [op, text] : std::map<std::string, std::string>{{"//", "n // m"}, {"%", "n % m"}}) {
      const std::string program = head + "y[i] = sum[j](x * (" + text + "))\noutput y\n";
      EXPECT_EQ(failure(program, t, 2), "no error") << name(t);
      EXPECT_EQ(failure(program, t, 0),
                "p.tw:5:19: error: division by zero in `n[i, j] " + op + " m[i, j]`\n  y[i] = sum[j](x * (" +
                    text + "))\n                    ^" + std::string(text.size() + 1, '~') + "\n" + kGuardIt)
          << name(t);
    }
    // Where no quotient is needed none fails, in whatever order a condition is evaluated.
    for (const char* guarded : {"where(m != 0, n // m, 0)", "where(m != 0 and 6 // m > 2, n, 0)",
                                "where(m == 0 or 6 // m > 2, 0, n)", "where(j < 2, n // m, 0)"})
      EXPECT_EQ(failure(head + "y[i] = sum[j](x * " + guarded + ")\noutput y\n", t, 0), "no error")
          << guarded << " on " << name(t);
    EXPECT_EQ(failure(head + "y[i] = sum[j](x * where(j > 0, n // m, 0))\noutput y\n", t, 0),
              "p.tw:5:32: error: division by zero in `n[i, j] // m[i, j]`\n"
              "  y[i] = sum[j](x * where(j > 0, n // m, 0))\n"
              "                                 ^~~~~~\n" +
                  kGuardIt)
        << name(t);
  }
}

TEST(DriverErrors, AParamAsDivisor) {
  for (Target t : kHostTargets) {
    for (const char* used : {"x * (7 // k)", "where(j < 7 // k, x, 0)", "x * (n // k)"}) {
      const std::string program = fmt::format(
          "axis i, j\nparam k : i32\ninput n[i, j] : i32\ninput x[i, j] : f32\ny[i] = sum[j]({})\noutput y\n",
          used);
      EXPECT_EQ(failure(program, t, 2, {{"k", 3}}), "no error") << used << " on " << name(t);
      const std::string message = failure(program, t, 2, {{"k", 0}});
      EXPECT_EQ(message.substr(0, 7), "p.tw:5:") << used << " on " << name(t) << message;
      EXPECT_NE(message.find("division by zero in `"), std::string::npos) << message;
    }
  }
}

TEST(DriverErrors, AnIndexThatIsAQuotient) {
  const std::string program =
      "axis i, j\ninput m[i, j] : i32\ninput x[i, j] : f32\ny[i] = sum[j](x[i, 4 // m])\noutput y\n";
  for (Target t : kHostTargets) {
    EXPECT_EQ(failure(program, t, 2), "no error") << name(t);
    EXPECT_EQ(failure(program, t, 0),
              "p.tw:4:20: error: division by zero in `4 // m[i, j]`\n"
              "  y[i] = sum[j](x[i, 4 // m])\n"
              "                     ^~~~~~\n" +
                  kGuardIt)
        << name(t);
    EXPECT_EQ(failure(program, t, 1),
              "p.tw:4:15: error: index 4 is outside axis j of x, which has size 3\n"
              "  y[i] = sum[j](x[i, 4 // m])\n"
              "                ^~~~~~~~~~~~\n"
              "  help: guard the read with where(...), or correct the values it is indexed by\n")
        << name(t);
  }
}

TEST(DriverErrors, ADivisorThatAGpuWouldHaveToTest) {
  EXPECT_EQ(
      failure("axis i, j\ninput n[i, j] : i32\ninput m[i, j] : i32\ny[i] = sum[j](n // m)\noutput y : f32\n",
              Target::Cuda, 2),
      "p.tw:4:15: error: an integer is divided by a value that is not proved to differ from 0, which "
      "--target "
      "cuda does not support yet\n  y[i] = sum[j](n // m)\n                ^~~~~~\n"
      "  help: use --target cpu, or divide where(divisor != 0, ..., 0)\n");
}

}  // namespace
}  // namespace tilewright::driver_errors_test
