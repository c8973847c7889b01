// Refusals on the way from a program to a kernel: whole messages.
#include <gtest/gtest.h>

#include "tilewright/driver/kernel.h"

namespace tilewright {
namespace {

std::string refusal(const std::string& text, const CompileOptions& o, const std::function<void(Kernel&)>& run = {}) {
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

TEST(DriverErrors, UnprovedReadOnACompiledTarget) {
  const std::string text = "axis i, j\ninput x[i] : f32\ninput t[j] : i64 range(0, 3)\ny[i] = sum[j](x[i + t[j]])\noutput y\n";
  std::vector<float> x(4), y(4);
  std::vector<int64_t> t(3);
  const std::string message = refusal(text, {}, [&](Kernel& k) {
    k.run({{"x", {DType::f32, x.data(), {4}, {}}}, {"t", {DType::i64, t.data(), {3}, {}}}}, {}, {{"y", {DType::f32, y.data(), {4}, {}}}});
  });
  EXPECT_EQ(message,
            "p.tw:2:1: error: `x` is read at an index that is not proved to lie inside it, which --target cpu does not support yet\n"
            "  input x[i] : f32\n"
            "  ^~~~~~~~~~~~~~~~\n"
            "  help: use --target interp, or write the index so that its range follows from the axes\n");
}

TEST(DriverErrors, Schedules) {
  CompileOptions o;
  o.schedule = "strem j=3";
  EXPECT_EQ(refusal(kRows, o), "<schedule>:1:1: error: no clause begins with `strem`\n  strem j=3\n  ^~~~~\n  help: did you mean `stream`?\n");
  o.schedule = "stream r=3";
  EXPECT_EQ(refusal(kRows, o), "<schedule>:1:8: error: the program's state runs over `j`, not over `r`\n  stream r=3\n         ^\n  help: stream `j`\n");
  o.schedule = "group r=6/4";
  EXPECT_EQ(refusal(kRows, o), "<schedule>:1:7: error: pieces of 4 do not divide blocks of 6\n  group r=6/4\n        ^\n  help: choose a divisor\n");
  o.schedule = "stream j=4; split j=8";
  EXPECT_EQ(refusal(kRows, o),
            "p.tw:4:8: error: output `P` runs along the split axis `j`: parts do not know the merged state when they store it\n  output P\n         ^\n  help: drop `split`\n");
}

}  // namespace
}  // namespace tilewright
