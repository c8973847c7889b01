// Programs as boxes and wires, texts as SVG.
#include <gtest/gtest.h>

#include <ctime>
#include <pugixml.hpp>

#include "tests/support/picture.h"
#include "tilewright/diagram/svg.h"
#include "tilewright/driver/compiled.h"

namespace tilewright::testing::draw_diagram_test {
namespace {

using Kind = DiagramBox::Kind;

Diagram diagram(const std::string& text) {
  return diagram_of(parse_program(std::make_shared<SourceText>(SourceText{"test.tw", text})));
}

Diagram example(const std::string& name) {
  return diagram_of(load_program(std::string(TW_SOURCE_DIR) + "/examples/" + name + ".tw"));
}

/// Boxes that are neither given nor results.
std::vector<Kind> kinds(const Diagram& d) {
  std::vector<Kind> out;
  for (const DiagramBox& b : d.boxes)
    if (b.kind != Kind::Source && b.kind != Kind::Sink) out.push_back(b.kind);
  return out;
}

std::string text(const DiagramBox& b) {
  std::string s;
  for (const std::string& l : b.lines) s += (s.empty() ? "" : " ") + l;
  return s;
}

const DiagramBox& only(const Diagram& d, Kind kind) {
  const DiagramBox* found = nullptr;
  for (const DiagramBox& b : d.boxes)
    if (b.kind == kind) {
      EXPECT_EQ(found, nullptr) << "two of them";
      found = &b;
    }
  EXPECT_NE(found, nullptr);
  return *found;
}

TEST(DrawDiagram, MaskedAttention) {
  const Diagram d = example("pf_causal");
  EXPECT_EQ(kinds(d),
            (std::vector<Kind>{Kind::Contract, Kind::Function, Kind::Mask, Kind::Normalise, Kind::Contract}));
  EXPECT_EQ(text(only(d, Kind::Mask)), "j <= i + size(j) - size(i)");
  EXPECT_EQ(text(only(d, Kind::Function)), "• / sqrt(size(d))");
}

TEST(DrawDiagram, HoverTitlesNameWhatHasNoName) {
  const std::string svg = to_svg({lay_out(example("packed"))}, Theme::Light, "");
  EXPECT_NE(svg.find("<title>what enters above, V: summed</title>"), std::string::npos);
  EXPECT_EQ(svg.find("<title>,"), std::string::npos);
}

TEST(DrawDiagram, ASoftmaxWrittenOutIsOne) {
  const Diagram d = example("respelled");
  EXPECT_EQ(kinds(d),
            (std::vector<Kind>{Kind::Function, Kind::Contract, Kind::Mask, Kind::Normalise, Kind::Contract}));
  EXPECT_EQ(only(d, Kind::Normalise).enters.at(0).name(), "key");
  // With another exponent it is not.
  const Diagram other = diagram(
      "axis r, j\ninput x[r, j] : f32\nm[r] = max[j](x)\ne[r, j] = exp(2 * (x - m))\nl[r] = sum[j](e)\n"
      "p[r, j] = e / l\noutput p\n");
  EXPECT_EQ(kinds(other), (std::vector<Kind>{Kind::Reduce, Kind::Function, Kind::Reduce, Kind::Function}));
  // A part that something else reads stays, and so does one that is an output.
  const Diagram shared = diagram(
      "axis r, j\ninput x[r, j] : f32\nm[r] = max[j](x)\ne[r, j] = exp(x - m)\nl[r] = sum[j](e)\n"
      "p[r, j] = e / l\noutput p : f32, l : f32\n");
  EXPECT_EQ(kinds(shared), (std::vector<Kind>{Kind::Reduce, Kind::Function, Kind::Reduce, Kind::Normalise}));
}

TEST(DrawDiagram, Weights) {
  EXPECT_EQ(kinds(example("gated_mlp")), (std::vector<Kind>{Kind::Linear, Kind::Linear, Kind::Function}));
  // Keys are none, since the axis of keys is normalised over, and neither is what shares an axis that stays.
  EXPECT_EQ(kinds(diagram("axis i, j\naxis d = 8\ninput Q[i, d] : f32\ninput K[j, d] : f32\n"
                          "P[i, j] = softmax[j](sum[d](Q * K))\noutput P\n")),
            (std::vector<Kind>{Kind::Contract, Kind::Normalise}));
  EXPECT_EQ(kinds(diagram("axis b, i, c\naxis d = 8\ninput x[b, i, d] : f32\ninput W[i, d, c] : f32\n"
                          "y[b, i, c] = sum[d](x * W)\noutput y\n")),
            (std::vector<Kind>{Kind::Contract}));
}

TEST(DrawDiagram, OtherReadsAndPicks) {
  const Diagram d = example("cross_entropy_linear");
  EXPECT_EQ(text(only(d, Kind::Pick)), "v = label");
  const Diagram p = example("paged");
  int reads = 0;
  for (const DiagramBox& b : p.boxes) reads += b.kind == Kind::Reindex ? 1 : 0;
  EXPECT_EQ(reads, 3);
  const Diagram t = diagram("axis i, j\ninput x[i, j] : f32\ny[i, j] = x[j // 2, i]\noutput y\n");
  EXPECT_EQ(text(only(t, Kind::Reindex)), "i = j // 2 j = i");
}

TEST(DrawDiagram, EveryColumnReadsFromColumnsBefore) {
  for (const char* name : {"llama_block", "attention_backward", "rope", "sinks"}) {
    const Diagram d = example(name);
    for (const DiagramBox& b : d.boxes)
      for (int a : b.inputs) {
        const DiagramBox& from = d.boxes.at(static_cast<size_t>(d.arrays.at(static_cast<size_t>(a)).from));
        EXPECT_LT(from.column, b.column) << name;
      }
  }
}

/// The kernels of the plan that a GPU gets, one after the other.
std::vector<Diagram> plan(const std::string& source) {
  CompileOptions o;
  o.target = Target::Interp;
  const CompiledProgram c =
      compile_program(parse_program(std::make_shared<SourceText>(SourceText{"test.tw", source})), o);
  std::vector<Diagram> all;
  for (const Compilation& kernel : c.kernels) {
    const TileProgram tiles = lower(kernel, kernel.plans.back().plan);
    for (size_t k = 0; k < tiles.kernels.size(); ++k)
      all.push_back(diagram_of(kernel.elaborated, kernel.derivation, tiles, k, {}));
  }
  return all;
}

const DiagramBox& giver(const Diagram& d, int array) {
  return d.boxes.at(static_cast<size_t>(d.arrays.at(static_cast<size_t>(array)).from));
}

TEST(DrawDiagram, MasksOfSumsInPlans) {
  // What is summed by a reduction is masked before it.
  const Diagram sum =
      plan("axis r, j\ninput x[r, j] : f32\ns[r] = sum[j](where(j <= r, x * x, 0))\noutput s : f32\n").at(0);
  EXPECT_EQ(text(only(sum, Kind::Mask)), "j <= r");
  for (const DiagramBox& b : sum.boxes)
    if (b.kind == Kind::Reduce) {
      EXPECT_EQ(giver(sum, b.inputs.at(0)).kind, Kind::Mask);
    }
  // Of a contraction the factor that has the axes of the condition.
  const Diagram dot = plan(
                          "axis i, j\naxis e = 64\ninput P[i, j] : f16\ninput V[j, e] : f16\n"
                          "O[i, e] = sum[j](where(j <= i, P * V, 0))\noutput O : f16\n")
                          .at(0);
  EXPECT_EQ(text(only(dot, Kind::Mask)), "j <= i");
  const DiagramBox& mask = giver(dot, only(dot, Kind::Contract).inputs.at(0));
  EXPECT_EQ(mask.kind, Kind::Mask);
  EXPECT_EQ(dot.arrays.at(static_cast<size_t>(mask.inputs.at(0))).name, "P");
  // A mask that the scores have come through is not drawn again on what is made of them.
  const Diagram attention =
      plan(
          "axis i, j\naxis d = 64, e = 64\ninput Q[i, d] : f16\ninput K[j, d] : f16\ninput V[j, e] : f16\n"
          "O[i, e] = sum[j](softmax[j](where(j <= i, sum[d](Q * K), -inf)) * V)\noutput O : f16\n")
          .at(0);
  EXPECT_EQ(text(only(attention, Kind::Mask)), "j <= i");
  for (const Diagram* d : {&sum, &dot, &attention}) EXPECT_EQ(breaches(lay_out(*d)), "");
}

TEST(DrawDiagram, ManyBoxesTakeLittleTime) {
  std::string source = "axis r, j\ninput x[r, j] : f32\n", chain = source + "c0[r, j] = x\n";
  for (int k = 0; k < 2000; ++k) source += fmt::format("s{0}[r] = sum[j](x * {0})\noutput s{0} : f32\n", k);
  for (int k = 0; k < 600; ++k) chain += fmt::format("c{}[r, j] = tanh(c{})\n", k + 1, k);
  for (const std::string& s : {source, chain + "output c600 : f32\n"}) {
    const std::clock_t begin = std::clock();
    EXPECT_GT(lay_out(diagram(s)).shapes.size(), 500u);
    EXPECT_LT(double(std::clock() - begin) / CLOCKS_PER_SEC, 15.0);
  }
}

TEST(DrawDiagram, ArraysWithoutAxesAndAxesWithoutArrays) {
  const Diagram d = diagram(
      "axis i, j\ninput x[i] : f32\ns[] = sum[i](x)\ny[i, j] = x / s + j\nk[j] = j * 2\noutput y : f32, k : "
      "i64, s : f32\n");
  EXPECT_EQ(breaches(lay_out(d)), "");
  EXPECT_EQ(breaches(lay_out(diagram("axis i\nk[i] = i\noutput k : i64\n"))), "");
  EXPECT_EQ(breaches(lay_out(diagram("axis i, j\ninput x[i] : f32\ny[i, j] = x\noutput y\n"))), "");
}

TEST(DrawDiagram, SvgIsWellFormedAndEscaped) {
  const Diagram d = diagram(
      "axis i, j\ninput x[i, j] : f32\ny[i, j] = where(i < j and x != 0, x, -inf)\nz[i] = max[j](y)\noutput "
      "z\n");
  for (Theme theme : {Theme::Auto, Theme::Light, Theme::Dark}) {
    const std::string svg = to_svg({lay_out(d)}, theme, "a < b & \"c\"");
    pugi::xml_document doc;
    const pugi::xml_parse_result r = doc.load_string(svg.c_str());
    ASSERT_TRUE(r) << r.description();
    EXPECT_STREQ(doc.child("svg").child("title").text().get(), "a < b & \"c\"");
    EXPECT_NE(svg.find("i &lt; j"), std::string::npos);
    EXPECT_EQ(svg.find("prefers-color-scheme") != std::string::npos, theme == Theme::Auto);
    for (const char* word : {"<script", "href", "<image"}) EXPECT_EQ(svg.find(word), std::string::npos);
    // The text of the mask is text.
    bool found = false;
    for (const pugi::xpath_node& n : doc.select_nodes("//text"))
      found = found || std::string(n.node().text().get()).find("i < j") != std::string::npos;
    EXPECT_TRUE(found);
  }
}

TEST(DrawDiagram, Lines) {
  EXPECT_EQ(broken("a + b", 20), (std::vector<std::string>{"a + b"}));
  EXPECT_EQ(broken("j <= i + size(j) - size(i) and i - j < w", 26),
            (std::vector<std::string>{"j <= i + size(j) - size(i)", "and i - j < w"}));
  EXPECT_EQ(broken("f(aaaaaaaaaaa, bbbbbbbbbb) * c", 20).at(0), "f(aaaaaaaaaaa,");
  EXPECT_EQ(broken("averylongnamewithoutanyplacetobreak", 10).size(), 1u);
  // Nothing is lost.
  const std::string long_text = "where(d < size(d) // 2, -q, q) * cos + (a - b) / c ** 2 and not x == -inf";
  for (size_t most = 3; most < 80; ++most) {
    std::string joined;
    for (const std::string& l : broken(long_text, most)) joined += (joined.empty() ? "" : " ") + l;
    EXPECT_EQ(joined, long_text);
  }
}

}  // namespace
}  // namespace tilewright::testing::draw_diagram_test
