// What is printed parses to the same program; damaged texts give messages, never a crash.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "tilewright/program/program.h"

namespace tilewright::program_roundtrip_test {
namespace {

Program parse(const std::string& text) {
  return parse_program(std::make_shared<SourceText>(SourceText{"t.tw", text}));
}

std::vector<std::string> examples() {
  std::vector<std::string> texts;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(TW_SOURCE_DIR) + "/examples")) {
    if (entry.path().extension() != ".tw") continue;
    std::ifstream file(entry.path());
    texts.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  std::sort(texts.begin(), texts.end());
  return texts;
}

/// Checks that the printed text is a fixed point and defines as much as the original.
void expect_round_trip(const std::string& text) {
  const Program p = parse(text);
  const std::string once = print(p);
  Program again;
  ASSERT_NO_THROW(again = parse(once)) << once;
  ASSERT_EQ(print(again), once) << text;
  ASSERT_EQ(again.axes.size(), p.axes.size());
  ASSERT_EQ(again.definitions.size(), p.definitions.size());
  for (size_t k = 0; k < p.definitions.size(); ++k) {
    const SymbolInfo &a = p.definitions[k].sym.info(), &b = again.definitions[k].sym.info();
    ASSERT_EQ(a.integer, b.integer) << once;
    ASSERT_EQ(a.nonnegative, b.nonnegative) << once;
  }
  for (size_t k = 0; k < p.outputs.size(); ++k) ASSERT_EQ(again.outputs[k].dtype, p.outputs[k].dtype);
}

TEST(ProgramRoundTrip, Examples) {
  ASSERT_GE(examples().size(), 5u);
  for (const std::string& text : examples()) expect_round_trip(text);
}

class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed) {}
  int pick(int n) { return int(random_() % unsigned(n)); }
  template <size_t N>
  std::string one(const char* const (&all)[N]) {
    return all[pick(int(N))];
  }

  std::string real(int depth) {
    static const char* const leaves[] = {"x",     "x[i, j]", "q",     "q[i + 1, d]", "q[(g k), 2 * d]",
                                         "s",     "half",    "inf",   "-inf",        "0.1",
                                         "1e-30", "-2.5",    "1e300", "3.5",         "e[]",
                                         "f",     "2.0",     "-0.0",  "1e17"};
    static const char* const binary[] = {" + ", " - ", " * ", " / ", " ** "};
    static const char* const functions[] = {"exp",     "log",  "exp2", "log2",  "sqrt",  "rsqrt", "tanh",
                                            "sigmoid", "erf",  "abs",  "floor", "round", "sign",  "relu",
                                            "silu",    "gelu", "f32",  "bf16",  "f8e4m3"};
    static const char* const reducers[] = {"sum",  "max", "min",       "prod",
                                           "mean", "var", "logsumexp", "softmax"};
    static const char* const axes[] = {"[j]", "[i, j]", "[k]", "[d, g, k]"};
    if (depth <= 0) return one(leaves);
    const auto a = [&] { return real(depth - 1); };
    static const char* const ranks[] = {"topk[j -> n1](", "argtopk[k -> n1](", "topk[i -> n1]("};
    switch (pick(10)) {
      case 0:
      case 1:
      case 2: return "(" + a() + ")" + one(binary) + "(" + a() + ")";
      case 3: return "(" + a() + one(binary) + a() + ")";
      case 4: return "-(" + a() + ")";
      case 5: return one(functions) + "(" + a() + ")";
      case 6: return one(reducers) + one(axes) + "(" + a() + ")";
      case 7: return "sum[n1](" + one(ranks) + a() + "))";
      case 8: return "where(" + condition(depth - 1) + ", " + a() + ", " + a() + ")";
      default: return "max(" + a() + ", " + integer(depth - 1) + ", " + a() + ")";
    }
  }

  std::string integer(int depth) {
    static const char* const leaves[] = {"i",       "j", "0",    "7",           "-3",          "n",
                                         "size(k)", "t", "t[j]", "t[t[i] % 4]", "argmax[j](x)"};
    static const char* const binary[] = {" + ", " - ", " * ", " // ", " % ", " ** 2 + "};
    if (depth <= 0) return one(leaves);
    std::string b = integer(depth - 1);
    if (b == "0") b = "1";
    return "(" + integer(depth - 1) + one(binary) + "(" + b + " + 9))";
  }

  std::string condition(int depth) {
    static const char* const leaves[] = {"true",    "false", "on",        "m",
                                         "m[i, 0]", "i < j", "any[j](m)", "not on"};
    static const char* const compare[] = {" < ", " <= ", " == ", " != ", " > ", " >= "};
    if (depth <= 0) return one(leaves);
    const auto c = [&] { return condition(depth - 1); };
    switch (pick(5)) {
      case 0: return "(" + c() + " and " + c() + ")";
      case 1: return "(" + c() + " or " + c() + ")";
      case 2: return "(not (" + c() + "))";
      case 3: return "((" + c() + ") == (" + c() + "))";
      default: return "(" + integer(depth - 1) + one(compare) + real(depth - 1) + ")";
    }
  }

  std::string program() {
    std::string text =
        "axis i, j, k, g, d, n1 = 3\nparam s : f32\nparam n : i32 = 3\nparam on : bool = true\nlet half = 1 "
        "/ 2 + "
        "size(i) * s\n"
        "input x[i, j] : f32\ninput q[(k g), d] : f16\ninput t[j] : i32 range(0, size(j))\ninput m[i, j] : "
        "bool\n"
        "input e[] : f64\nf[i, j, k, g, d] = x * q\n";
    const std::string axes = "[i, j, k, g, d]";
    text += "y" + axes + " = " + real(4) + "\nz" + axes + " : f16 = " + integer(3) + "\nw" + axes + " = " +
            condition(4);
    return text + "\noutput y[(k i), j, (d g)] : bf16, z, w\n";
  }

 private:
  std::mt19937 random_;
};

TEST(ProgramRoundTrip, RandomPrograms) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    expect_round_trip(Generator(seed).program());
    if (HasFatalFailure()) return;
  }
}

TEST(ProgramRoundTrip, DamagedTextsGiveMessages) {
  static const char* const scraps[] = {"(",      ")",   "[",    "]",     ",",      "=", "\n",      "#",  "\t",
                                       " axis ", "-",   "**",   "not ",  "sum[j]", "i", "0",       "1e", "->",
                                       ":",      "f16", "\xC3", "size(", "where",  ";", "output ", "inf"};
  std::vector<std::string> texts = examples();
  for (unsigned seed = 0; seed < 20; ++seed) texts.push_back(Generator(seed).program());
  int refused = 0;
  for (unsigned seed = 0; seed < 1500; ++seed) {
    Generator g(seed);
    std::string text = texts[seed % texts.size()];
    for (int edits = 1 + g.pick(3); edits > 0; --edits) {
      const size_t at = size_t(g.pick(int(text.size())));
      switch (g.pick(3)) {
        case 0: text.erase(at, size_t(1 + g.pick(6))); break;
        case 1: text.insert(at, g.one(scraps)); break;
        default: text.insert(at, text.substr(size_t(g.pick(int(text.size()))), size_t(g.pick(12))));
      }
    }
    try {
      expect_round_trip(text);
      if (HasFatalFailure()) return;
    } catch (const UserError& e) {
      ++refused;
      ASSERT_LE(e.diagnostics().size(), 20u);
      for (const Diagnostic& d : e.diagnostics()) {
        ASSERT_TRUE(d.span) << d.what;
        ASSERT_LE(d.span.begin, d.span.end);
        ASSERT_LE(d.span.end, text.size());
        ASSERT_FALSE(d.render().empty());
      }
    }
  }
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace tilewright::program_roundtrip_test
