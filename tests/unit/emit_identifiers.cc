// Names of emitted text: words of C, C++ and CUDA, of the C library, and of the emitted text itself are avoided, and nothing else changes.
#include "tilewright/emit/identifiers.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tilewright/driver/session.h"
#include "tilewright/emit/emit.h"
#include "tilewright/program/words.h"

namespace tilewright::testing::emit_identifiers_test {
namespace {

TEST(Identifiers, WordsOfTheLanguagesAreReserved) {
  for (const char* word :
       {"class", "float", "int64_t", "threadIdx", "blockIdx", "half", "float4", "uint2", "co_await", "and_eq",
        "restrict", "errno", "NULL", "linux", "size_t", "__global__", "_Float16", "M_PI", "std"})
    EXPECT_TRUE(is_reserved_identifier(word)) << word;
  for (const char* word : {"x", "Q", "f", "gamma", "time", "float5", "_x", "classes", "int64"})
    EXPECT_FALSE(is_reserved_identifier(word)) << word;
  for (const char* word : {"exp", "expf", "fmal", "gamma", "main", "memset", "time"})
    EXPECT_TRUE(is_library_function(word)) << word;
  for (const char* word : {"f", "l", "expo", "attention"}) EXPECT_FALSE(is_library_function(word)) << word;
}

TEST(Identifiers, AreMadeOfTheNameWhereTheyCan) {
  EXPECT_EQ(c_identifier("rho"), "rho");
  EXPECT_EQ(c_identifier("class"), "class_");
  EXPECT_EQ(c_identifier("__global__"), "v__global__");
  EXPECT_EQ(c_identifier("2nd row"), "v2nd_row");
  EXPECT_EQ(c_identifier("gamma"), "gamma") << "a variable may be called as a function of the C library";
  EXPECT_EQ(c_function("gamma"), "gamma_");
  EXPECT_EQ(c_function("attention"), "attention");
  Identifiers names({"words"}, {"t"});
  auto named = [&](const char* text) { return names.of(Sym::fresh({.name = text})); };
  EXPECT_EQ(named("words"), "words_2");
  EXPECT_EQ(named("t0"), "t0_") << "temporaries are called t0, t1 …";
  EXPECT_EQ(named("tt0"), "tt0");
  EXPECT_EQ(named("float"), "float_");
  EXPECT_EQ(named("tw_exp2"), "vtw_exp2") << "so begin the helpers of CUDA";
  const Sym j = Sym::fresh({.name = "j"});
  EXPECT_EQ(names.of(j), "j");
  EXPECT_EQ(named("j_in"), "j_in");
  EXPECT_EQ(names.part(j, "in"), "j_in_2") << "somebody's own";
  EXPECT_EQ(names.part(j, "in"), "j_in_2") << "the same at every call";
  EXPECT_EQ(identifiers_in("a+b2(_c) // 3d"), (std::set<std::string>{"a", "b2", "_c", "3d"}));
}

Program parsed(const std::string& text) {
  return parse_program(std::make_shared<SourceText>(SourceText{"names.tw", text}));
}

std::string source_of(const std::string& text, Target target) {
  CompileOptions o;
  o.target = target;
  const Compilation c = analyse(parsed(text), o);
  const TileProgram t = lower(c, c.plans.front().plan);
  return lower_source(c, lower_mapped(c, t, target, LayoutClass::General));
}

/// A program whose names are the placeholders $0, $1 …
struct Template {
  std::string text;
  size_t names;
  std::string with(const std::vector<std::string>& words) const {
    std::string out = text;
    for (size_t k = names; k-- > 0;) {
      const std::string hole = fmt::format("${}", k);
      for (size_t at; (at = out.find(hole)) != std::string::npos;) out.replace(at, hole.size(), words.at(k));
    }
    return out;
  }
  std::vector<std::string> plain() const {
    std::vector<std::string> words;
    for (size_t k = 0; k < names; ++k)
      words.push_back(fmt::format("plain{}q", std::string(1, char('a' + k))));
    return words;
  }
};

const Template kAttention{
    "program $0\naxis $1, $2\naxis $3 = 64\nparam $4 : f32 = 5\ninput $5[$1, $3] : f16\ninput $6[$2, $3] : "
    "f16\n"
    "input $7[$2, $3] : f16\ninput $8[$2] : i32 range(0, 2)\n"
    "$9[$1, $2] = sum[$3]($5 * $6)\n"
    "O[$1, $3] = sum[$2](softmax[$2](where($2 <= $1 and $8 != 0, $4 * tanh($9 / $4), -inf)) * $7)\noutput O "
    ": f16\n",
    10};
const Template kRows{
    "program $0\naxis $1, $2\nparam $3 : i32 = 3 range(1, 9)\ninput $4[$1, $2] : f32\ninput $5[$1] : f32\n"
    "input $6[$1, $2] : i32 range(0, 4)\n"
    "$7[$1] = sum[$2]($4 ** 3 * exp2(-abs($4)) * ($6 // $3 + $2 % 7) - $5[where($1 > $6, $1 - $6, 0)])\n"
    "$8[$1] = argmax[$2]($4)\n$9[$1] = var[$2]($4)\noutput $7, $8, $9\n",
    10};

/// Words and signs without comments, directives, texts and white space.
std::vector<std::string> tokens(const std::string& source) {
  std::vector<std::string> out;
  for (size_t at = 0; at < source.size();) {
    const char c = source[at];
    if (c == '#' || source.compare(at, 2, "//") == 0) {
      at = source.find('\n', at);
      if (at == std::string::npos) break;
    } else if (c == '"') {
      at = source.find('"', at + 1);
      if (at == std::string::npos) break;
      ++at;
    } else if (std::isalnum(static_cast<unsigned char>(c)) || c == '_') {
      size_t end = at;
      while (end < source.size() &&
             (std::isalnum(static_cast<unsigned char>(source[end])) || source[end] == '_'))
        ++end;
      out.push_back(source.substr(at, end - at));
      at = end;
    } else {
      if (!std::isspace(static_cast<unsigned char>(c))) out.push_back(std::string(1, c));
      ++at;
    }
  }
  return out;
}

/// The kernels of an emitted text, each a scope of its own, without the helpers in front of them.
std::vector<std::string> kernels_of(const std::string& source) {
  std::vector<size_t> begins;
  for (const char* mark : {"_task(const int64* words", "_words {"}) {
    if (!begins.empty()) break;
    for (size_t at = source.find(mark); at != std::string::npos; at = source.find(mark, at + 1))
      begins.push_back(at);
  }
  EXPECT_FALSE(begins.empty());
  for (size_t& at : begins) at = source.rfind('\n', at) + 1;
  std::vector<std::string> kernels;
  for (size_t k = 0; k < begins.size(); ++k)
    kernels.push_back(
        source.substr(begins[k], k + 1 < begins.size() ? begins[k + 1] - begins[k] : std::string::npos));
  return kernels;
}

/// The two texts are one up to a renaming that is one to one in each kernel: nothing was captured.
void expect_renamed(const std::string& a, const std::string& b, const std::string& how) {
  const std::vector<std::string> kernels = kernels_of(a), renamed = kernels_of(b);
  ASSERT_EQ(kernels.size(), renamed.size()) << how;
  for (size_t n = 0; n < kernels.size(); ++n) {
    const std::vector<std::string> x = tokens(kernels[n]), y = tokens(renamed[n]);
    ASSERT_EQ(x.size(), y.size()) << how << b;
    std::map<std::string, std::string> forth, back;
    for (size_t k = 0; k < x.size(); ++k) {
      ASSERT_EQ(forth.emplace(x[k], y[k]).first->second, y[k]) << how << ": " << x[k];
      ASSERT_EQ(back.emplace(y[k], x[k]).first->second, x[k]) << how << ": " << y[k] << " captures";
    }
  }
}

TEST(EmittedNames, MayBeAnyWord) {
  for (const Template& t : {kAttention, kRows})
    for (Target target : {Target::Cpu, Target::Cuda}) {
      const std::string plain = source_of(t.with(t.plain()), target);
      std::set<std::string> words = identifiers_in(plain);
      words.merge(std::set<std::string>{"class", "float", "int64_t", "f", "threadIdx", "t0", "t1", "s0", "k",
                                        "j0", "main", "NULL", "linux", "map0", "tw_exp2", "__half",
                                        "_Float16"});
      std::vector<std::string> usable;
      for (const std::string& w : words)
        if (!std::isdigit(static_cast<unsigned char>(w[0])) && reserved_as(w).empty() && w != "O" &&
            w.find("plain") == std::string::npos)
          usable.push_back(w);
      // Each word in each place: the list is shifted through the places of the template.
      for (size_t first = 0; first < usable.size(); first += 7) {
        std::vector<std::string> chosen{t.plain()[0]};  // the function stands outside of what it may hide
        for (size_t k = 1; k < t.names; ++k) chosen.push_back(usable[(first + k) % usable.size()]);
        expect_renamed(plain, source_of(t.with(chosen), target),
                       fmt::format("{} with {}", name(target), chosen[0] + " " + chosen[1] + " …"));
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
}

TEST(EmittedNames, AFunctionIsNoWordOfTheCLibrary) {
  for (const char* name : {"class", "expf", "memset", "ld", "vf", "tw_exp2", "TensorMap", "main"}) {
    MappedKernel k;
    k.name = name;
    const std::string symbol = kernel_symbol(k);
    EXPECT_NE(symbol, name);
    EXPECT_NE(source_of(fmt::format(
                            "program {}\naxis i, j\ninput x[i, j] : f32\ny[i] = sum[j](x)\noutput y\n", name),
                        Target::Cpu)
                  .find("extern \"C\" void " + symbol + "(const long long*"),
              std::string::npos)
        << name;
  }
  MappedKernel k;
  k.name = "attention";
  EXPECT_EQ(kernel_symbol(k), "attention");
}

}  // namespace
}  // namespace tilewright::testing::emit_identifiers_test
