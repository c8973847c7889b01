// Refusals of schedules for several kernels and of programs that no cut helps: whole messages.
#include <gtest/gtest.h>

#include "tilewright/driver/compiled.h"

namespace tilewright::several_kernels_test {
namespace {

const char kProducts[] = R"(axis r, c, f, n
input x[r, c] : f32
input A[c, f] : f32
input B[f, n] : f32
v[r, c] = x * 2
h[r, f] = relu(sum[c](v * A))
y[r, n] = sum[f](h * B)
output y
)";

std::string refusal(const std::string& text, const std::string& schedule = "") {
  try {
    CompileOptions o;
    o.target = Target::Interp;
    o.schedule = schedule;
    compile_program(parse_program(std::make_shared<SourceText>(SourceText{"p.tw", text})), o);
  } catch (const UserError& e) {
    std::string all;
    for (const Diagnostic& d : e.diagnostics()) all += d.render();
    return all;
  }
  return "no error";
}

struct RefusedSchedule {
  const char* name;
  std::string text, schedule, message;
};

const char kRowSums[] = "axis a, b\ninput x[a, b] : f32\ny[a] = sum[b](x)\noutput y\n";

const RefusedSchedule kRefusedSchedules[] = {
    {"ClausesUnderNoHeading", kProducts, "stream c=64",
     "<schedule>:1:1: error: the program takes 2 kernels, and these clauses name none\n"
     "  stream c=64\n"
     "  ^~~~~~~~~~~\n"
     "  help: put them under the heading of a kernel: `kernel h:`, `kernel y:`\n"},
    {"HeadingOfNoKernel", kProducts, "kernel z: stream c=64",
     "<schedule>:1:1: error: no kernel of the program stores just that\n"
     "  kernel z: stream c=64\n"
     "  ^~~~~~~~~\n"
     "  help: kernels are `kernel h:`, `kernel y:`\n"},
    {"HeadingTwice", kProducts, "kernel y: stream f=64\nkernel y: stream f=32",
     "<schedule>:2:1: error: `kernel y` is given twice\n"
     "  kernel y: stream f=32\n"
     "  ^~~~~~~~~\n"
     "  help: give all its clauses under one heading\n"},
    {"HeadingWithoutColon", kProducts, "kernel y stream f=64",
     "<schedule>:1:10: error: a heading ends with `:`\n"
     "  kernel y stream f=64\n"
     "           ^\n"
     "  help: write `kernel NAME: clauses`\n"},
    {"AxisUnderAHeading", kProducts, "kernel y: stream q=64",
     "<schedule>:1:18: error: no axis is called `q`\n"
     "  kernel y: stream q=64\n"
     "                   ^\n"
     "  help: use an axis of the program\n"},
    {"StoreOfNoReduction", kProducts, "store v",
     "<schedule>:1:7: error: `v` holds no reduction\n"
     "  store v\n"
     "        ^\n"
     "  help: it costs little and is computed where it is read; name a definition that holds one\n"},
    {"FuseOfNoDefinition", kProducts, "fuse k",
     "<schedule>:1:6: error: `fuse` names no definition: `k`\n"
     "  fuse k\n"
     "       ^\n"
     "  help: definitions that hold a reduction are h, y\n"},
    {"StoreAndFuse", kProducts, "store h; fuse h",
     "<schedule>:1:15: error: `h` is to be stored and to be fused\n"
     "  store h; fuse h\n"
     "                ^\n"
     "  help: name it in one of the clauses\n"},
    {"StoreTwice", kProducts, "store h; store y",
     "<schedule>:1:10: error: `store` is given twice\n"
     "  store h; store y\n"
     "           ^~~~~\n"
     "  help: name all definitions in one clause: `store q, hidden`\n"},
    {"StoreBehindClauses", kProducts, "kernel y: stream f=64\nstore h",
     "<schedule>:2:1: error: `store` stands behind clauses of a kernel\n"
     "  store h\n"
     "  ^~~~~\n"
     "  help: `store` and `fuse` come first: they say which kernels there are\n"},
    {"StoreOfNothing", kProducts, "store",
     "<schedule>:1:6: error: expected the name of a definition after `store`\n"
     "  store\n"
     "       ^\n"
     "  help: write `store NAME`\n"},
    // What is fused by command is refused for the reason that the whole program was.
    {"FusedByCommand", kProducts, "fuse h",
     "<schedule>:1:6: error: with `h` computed where it is read, a kernel is refused\n"
     "  fuse h\n"
     "       ^\n"
     "  help: store it, or mend this:\n"
     "p.tw:1:12: error: axis `f` is reduced inside a chunk and has no literal size, so a tile cannot "
     "hold it whole\n"
     "  axis r, c, f, n\n"
     "             ^\n"
     "  help: declare `axis f = 128` (any literal)\n"},
    // Axes that the compiler makes are called by those of the text.
    {"FusedAcrossJoinedAxes",
     "axis i, k, g, c, n\ninput o[i, (k g)] : f32\ninput W[(k g), c] : f32\ninput B[c, n] : f32\n"
     "h[i, c] = sum[k, g](o * W)\ny[i, n] = sum[c](h * B)\noutput y\n",
     "fuse h",
     "<schedule>:1:6: error: with `h` computed where it is read, a kernel is refused\n"
     "  fuse h\n"
     "       ^\n"
     "  help: store it, or mend this:\n"
     "p.tw:1:9: error: the product `kg` of axes `k`, `g` is summed inside a chunk and has no literal size, "
     "so a tile "
     "cannot hold it whole\n"
     "  axis i, k, g, c, n\n"
     "          ^\n"
     "  help: declare `axis k = 128, g = 128` (any literals)\n"},
    {"WhatNoCutHelps", "y[] = 3.0\noutput y\n", "",
     "p.tw:2:8: error: the program reduces over no axis and its output has none, so there is nothing "
     "to stream\n"
     "  output y\n"
     "         ^\n"
     "  help: give the output an axis, or write a reduction\n"},
    {"OneKernelHasNoSections", kRowSums, "kernel y: stream b=64\nkernel z: stream b=64",
     "<schedule>:1:1: error: the program is one kernel, not several\n"
     "  kernel y: stream b=64\n"
     "  ^~~~~~~~~\n"
     "  help: write its clauses alone, or under `kernel y:`\n"},
    {"ClausesBeforeWhen", kRowSums, "stream b=64; when b <= 8: resident b=8",
     "<schedule>:1:1: error: these clauses stand before `when`\n"
     "  stream b=64; when b <= 8: resident b=8\n"
     "  ^~~~~~~~~~~~~\n"
     "  help: write them behind a `when` or behind `otherwise:`\n"},
    {"WhenBehindOtherwise", kRowSums, "otherwise: stream b=64\nwhen b <= 8: resident b=8",
     "<schedule>:2:1: error: `when` stands behind `otherwise`\n"
     "  when b <= 8: resident b=8\n"
     "  ^~~~\n"
     "  help: `otherwise` is the last plan: no sizes are left\n"},
    {"WhenOfNoAxis", kRowSums, "when q <= 8: stream b=64",
     "<schedule>:1:6: error: no axis is called `q`\n"
     "  when q <= 8: stream b=64\n"
     "       ^\n"
     "  help: use an axis of the program\n"},
    {"WhenWithoutALimit", kRowSums, "when b < 8: stream b=64",
     "<schedule>:1:8: error: expected `<=`\n"
     "  when b < 8: stream b=64\n"
     "         ^\n"
     "  help: write `when j <= 1024: clauses`\n"},
    {"WhenWithoutColon", kRowSums, "when b <= 8 stream b=64",
     "<schedule>:1:13: error: expected `:` behind `when`\n"
     "  when b <= 8 stream b=64\n"
     "              ^\n"
     "  help: write `when j <= 1024: clauses`\n"},
    {"WhenWithoutClauses", kRowSums, "when b <= 8:\notherwise: stream b=64",
     "<schedule>:1:13: error: the schedule holds no clause\n"
     "  when b <= 8:\n"
     "              ^\n"
     "  help: write one, such as `stream j=128`, or give no schedule for the default plans\n"},
};

class SeveralKernelErrors : public ::testing::TestWithParam<RefusedSchedule> {};

TEST_P(SeveralKernelErrors, WholeMessage) {
  EXPECT_EQ(refusal(GetParam().text, GetParam().schedule), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(All, SeveralKernelErrors, ::testing::ValuesIn(kRefusedSchedules),
                         [](const auto& of) { return std::string(of.param.name); });

}  // namespace
}  // namespace tilewright::several_kernels_test
