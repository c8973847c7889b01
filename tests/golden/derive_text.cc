// Derivations as text and as JSON.
#include <gtest/gtest.h>

#include "tests/support/derived.h"
#include "tests/support/golden.h"
#include "tilewright/derive/json.h"
#include "tilewright/derive/latex.h"
#include "tilewright/derive/smt.h"

namespace tilewright::testing::derive_text_test {
namespace {

std::string text(const std::string& program, const std::string& axis) {
  Derived x = derived(program, axis);
  return to_text(x.program, x.d);
}

TEST(DeriveText, Causal) { expect_golden("derive/causal.txt", text(programs::causal, "j")); }
TEST(DeriveText, Softmax) { expect_golden("derive/softmax.txt", text(programs::softmax, "j")); }
TEST(DeriveText, Layernorm) { expect_golden("derive/layernorm.txt", text(programs::layernorm, "c")); }
TEST(DeriveText, Backward) { expect_golden("derive/backward.txt", text(programs::backward, "j")); }
TEST(DeriveText, Unsafe) { expect_golden("derive/unsafe_softmax.txt", text(programs::unsafe_softmax, "j")); }
TEST(DeriveText, Refused) {
  expect_golden("derive/refused.txt", text(programs::with_earlier_maximum("round(u / r)"), "j"));
}
TEST(DeriveText, Ranks) { expect_golden("derive/ranks.txt", text(programs::ranks, "v")); }

std::string smt(const std::string& program, const std::string& axis) {
  Derived x = derived(program, axis);
  return to_smt(x.program, x.d).at(0).text;
}
TEST(DeriveText, Smt) {
  expect_golden("derive/variance.smt2", smt(programs::variance, "c"));
  expect_golden("derive/ranks.smt2", smt(programs::ranks, "v"));
  expect_golden("derive/argmax.smt2",
                smt("axis r, c\ninput x[r, c] : f32\nk[r] = argmax[c](x)\noutput k\n", "c"));
}

TEST(DeriveText, Latex) {
  Derived x = derived(programs::causal, "j");
  expect_golden("derive/causal.tex", to_latex(x.program, x.d));
  Derived y = derived(programs::layernorm, "c");
  expect_golden("derive/layernorm.tex", to_latex(y.program, y.d));
  Derived z = derived(programs::ranks, "v");
  expect_golden("derive/ranks.tex", to_latex(z.program, z.d));
}

TEST(DeriveText, Json) {
  Derived x = derived(programs::causal, "j");
  auto j = to_json(x.program, x.d);
  EXPECT_EQ(j["axis"], "j");
  EXPECT_EQ(j["passes"], 1);
  ASSERT_EQ(j["reductions"].size(), 3u);
  for (auto& r : j["reductions"])
    for (const char* field : {"family", "state", "repair", "merge", "finish", "proofs"})
      EXPECT_TRUE(r.contains(field)) << field;
  EXPECT_EQ(j["reductions"][2]["finish"], "where(l != 0, o / l, 0)");
  EXPECT_EQ(j["reductions"][2]["repair"][0], "o' = exp(m - m') * o");
  expect_golden("derive/causal.json", j.dump(1));
}

}  // namespace
}  // namespace tilewright::testing::derive_text_test
