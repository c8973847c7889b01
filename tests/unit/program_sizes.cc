// Sizes of axes from array shapes, --size and declarations.
#include "tilewright/program/sizes.h"

#include <gtest/gtest.h>

namespace tilewright::program_sizes_test {
namespace {

const char* const text = R"(axis b, k, g, i, j, p, d = 8
axis l = 16 * size(p) + 1
input Q[b, (k g), i, d] : f16
input K[b, k, j, d] : f16
input C[b, l] : f32
S[b, k, g, i, j] = sum[d](Q[b, (k g), i, d] * K)
output S[b, (k g), i, j] : f16, C
)";

Program program(const std::string& source = text) {
  return parse_program(std::make_shared<SourceText>(SourceText{"t.tw", source}));
}

using Shapes = std::map<std::string, std::vector<int64_t>>;
using Given = std::map<std::string, int64_t>;

std::map<std::string, int64_t> bound(const Program& p, const Shapes& shapes, const Given& given) {
  std::map<std::string, int64_t> named;
  for (const auto& [sym, size] : bind_sizes(p, shapes, given)) named[sym.name()] = size;
  return named;
}

std::string error(const Program& p, const Shapes& shapes, const Given& given) {
  try {
    bind_sizes(p, shapes, given);
  } catch (const UserError& e) {
    const Diagnostic& d = e.diagnostics()[0];
    return (d.span ? std::to_string(d.span.line()) + ": " : "") + d.what +
           (d.hint.empty() ? "" : " | " + d.hint);
  }
  return "no error";
}

const Shapes good = {{"Q", {2, 6, 5, 8}}, {"K", {2, 3, 7, 8}}, {"C", {2, 33}}};

TEST(Sizes, CompositeAndDeclaredSizesAreSolved) {
  const auto s = bound(program(), good, {});
  EXPECT_EQ(s, (std::map<std::string, int64_t>{
                   {"b", 2}, {"k", 3}, {"g", 2}, {"i", 5}, {"j", 7}, {"p", 2}, {"d", 8}, {"l", 33}}));
}

TEST(Sizes, FromTheCommandAlone) {
  const Given given = {{"b", 1}, {"k", 2}, {"g", 4}, {"i", 3}, {"j", 3}, {"p", 5}};
  EXPECT_EQ(bound(program(), {}, given).at("l"), 81);
  EXPECT_EQ(bound(program(), {{"C", {1, 81}}}, {{"b", 1}, {"k", 2}, {"g", 4}, {"i", 3}, {"j", 3}}).at("p"),
            5);
}

TEST(Sizes, ShapesOfDims) {
  const Program p = program();
  const Sizes s = bind_sizes(p, good, {});
  EXPECT_EQ(shape_of(p.inputs[0].dims, s), (std::vector<int64_t>{2, 6, 5, 8}));
  EXPECT_EQ(shape_of(p.outputs[0].dims, s), (std::vector<int64_t>{2, 6, 5, 7}));
}

TEST(Sizes, EmptyAxesAreLegal) {
  const auto s = bound(program(), {{"Q", {0, 6, 0, 8}}, {"K", {0, 3, 7, 8}}, {"C", {0, 1}}}, {});
  EXPECT_EQ(s.at("b"), 0);
  EXPECT_EQ(s.at("p"), 0);
  EXPECT_EQ(s.at("g"), 2);
}

TEST(Sizes, Disagreement) {
  Shapes s = good;
  s["K"] = {3, 3, 7, 8};
  EXPECT_EQ(error(program(), s, {}),
            "4: axis `b` is 2 by Q[b, (k g), i, d] of shape (2, 6, 5, 8), but 3 by K[b, k, j, d] of shape "
            "(3, 3, 7, 8) | give arrays and sizes that agree");
  s["K"] = {1, 3, 7, 8};
  EXPECT_EQ(error(program(), s, {}),
            "4: axis `b` is 2 by Q[b, (k g), i, d] of shape (2, 6, 5, 8), but 1 by K[b, k, j, d] of shape "
            "(1, 3, 7, 8) | "
            "size 1 is not broadcast: leave the axis away where the array does not vary along it");
  EXPECT_EQ(error(program(), good, {{"j", 8}}),
            "4: axis `j` is 8 by --size j=8, but 7 by K[b, k, j, d] of shape (2, 3, 7, 8) | give arrays and "
            "sizes that agree");
  EXPECT_EQ(error(program(), good, {{"d", 16}}),
            "1: axis `d` is 8 by its declaration, but 16 by --size d=16 | the size stands in the program; to "
            "compile for another one: --size d=16");
  s = good;
  s["C"] = {2, 34};
  EXPECT_EQ(error(program(), s, {}),
            "2: axis `l` is 34 by C[b, l] of shape (2, 34), which no size of `p` gives by its declaration l "
            "= 16 * size(p) + 1 | "
            "give arrays whose sizes agree with the declaration");
  EXPECT_EQ(error(program(), good, {{"p", 3}}),
            "2: axis `l` is 33 by C[b, l] of shape (2, 33), but 49 by its declaration l = 16 * size(p) + 1 | "
            "give arrays and sizes that agree");
}

TEST(Sizes, CompositeErrors) {
  Shapes s = good;
  s["Q"] = {2, 7, 5, 8};
  EXPECT_EQ(error(program(), s, {}),
            "3: dimension 2 of Q[b, (k g), i, d] of shape (2, 7, 5, 8) is 7, which does not agree with k = 3 "
            "by K[b, k, j, d] of shape "
            "(2, 3, 7, 8) | its length must be a multiple of them to give the size of `g`");
  EXPECT_EQ(error(program(), good, {{"g", 4}}),
            "3: dimension 2 of Q[b, (k g), i, d] of shape (2, 6, 5, 8) is 6, which does not agree with k = 3 "
            "by K[b, k, j, d] of shape "
            "(2, 3, 7, 8), g = 4 by --size g=4 | its length must be the product of the sizes of its pieces");
}

TEST(Sizes, RankAndNames) {
  EXPECT_EQ(error(program(), {{"K", {2, 3, 7}}}, {}),
            "4: `K` is declared as K[b, k, j, d], 4 dimensions, and the array has shape (2, 3, 7) | "
            "give an array with one dimension for each declared one; a composite (k g) is one dimension");
  EXPECT_EQ(error(program(), {}, {{"qq", 2}}).substr(0, 40), "--size qq=2: the program has no axis `qq");
  EXPECT_EQ(error(program(), {{"KK", {2}}}, {}), "the program has no input `KK` | did you mean `K`?");
  EXPECT_EQ(error(program(), {}, {{"q", 2}}),
            "--size q=2: the program has no axis `q` | its axes are b, k, g, i, j, p, d, l");
  EXPECT_EQ(error(program(), {}, {{"i", -2}}),
            "1: axis `i` has size -2 by --size i=-2 | a size is not negative");
}

TEST(Sizes, UnknownAxes) {
  EXPECT_EQ(error(program(), {{"K", {2, 3, 7, 8}}}, {}),
            "1: nothing fixes the size of axes `g`, `i`, `p`, `l` | give it: --size g=N,i=N,p=N");
}

TEST(Sizes, Overflow) {
  const Program p = program("axis i, j\ninput x[i, j] : f32\ny[i] = sum[j](x)\noutput y");
  EXPECT_EQ(error(p, {}, {{"i", int64_t(1) << 40}, {"j", int64_t(1) << 21}}),
            "2: the size of `x`, shape (1099511627776, 2097152), overflows: it would take more than 2^62 "
            "bytes | give smaller sizes");
  EXPECT_EQ(error(p, {}, {{"i", int64_t(1) << 40}, {"j", 0}}), "no error");
  const Program q = program("axis i, j = size(i) * size(i)\ninput x[i] : f32\ny[j] = sum[i](x)\noutput y");
  EXPECT_EQ(error(q, {}, {{"i", int64_t(1) << 40}}).substr(0, 27), "1: the size of axis `j`: si");
}

}  // namespace
}  // namespace tilewright::program_sizes_test
