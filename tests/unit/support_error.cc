#include "tilewright/support/error.h"

#include <gtest/gtest.h>

namespace tilewright::support_error_test {
namespace {

SourceRef source(const char* text) { return std::make_shared<const SourceText>(SourceText{"a.tw", text}); }

TEST(Span, LineAndColumnCountFromOne) {
  SourceRef s = source("ab\ncde\n");
  EXPECT_EQ((Span{s, 0, 1}.line()), 1);
  EXPECT_EQ((Span{s, 0, 1}.column()), 1);
  EXPECT_EQ((Span{s, 2, 3}.line()), 1) << "the newline belongs to its line";
  EXPECT_EQ((Span{s, 2, 3}.column()), 3);
  EXPECT_EQ((Span{s, 4, 6}.line()), 2);
  EXPECT_EQ((Span{s, 4, 6}.column()), 2);
  EXPECT_EQ((Span{s, 7, 7}.line()), 3) << "the end of the text";
  EXPECT_EQ((Span{s, 99, 99}.line()), 3) << "positions past the end are the end";
  EXPECT_FALSE(Span{});
}

TEST(Span, Join) {
  SourceRef s = source("abcdef");
  Span j = Span::join({s, 1, 2}, {s, 4, 6});
  EXPECT_EQ(j.begin, 1u);
  EXPECT_EQ(j.end, 6u);
  EXPECT_EQ(Span::join({}, {s, 4, 6}).begin, 4u);
  EXPECT_EQ(Span::join({s, 4, 6}, {}).end, 6u);
  EXPECT_FALSE(Span::join({}, {}));
}

TEST(Diagnostic, ShowsTheLineAndACaret) {
  Diagnostic d{{source("axis i\nS = sum[x](i)\n"), 15, 16}, "unknown axis x", "declare it"};
  EXPECT_EQ(d.render(),
            "a.tw:2:9: error: unknown axis x\n"
            "  S = sum[x](i)\n"
            "          ^\n"
            "  help: declare it\n");
}

TEST(Diagnostic, MarksTheWholeSpanWithinItsLine) {
  Diagnostic d{{source("abc def\nghi"), 4, 11}, "wrong", ""};
  EXPECT_EQ(d.render(), "a.tw:1:5: error: wrong\n  abc def\n      ^~~\n");
}

TEST(Diagnostic, AtTheEndAndWithoutPosition) {
  Diagnostic end{{source("ab"), 2, 2}, "unexpected end", ""};
  EXPECT_EQ(end.render(), "a.tw:1:3: error: unexpected end\n  ab\n    ^\n");
  Diagnostic none{{}, "no file", "give one"};
  EXPECT_EQ(none.render(), "error: no file\n  help: give one\n");
  Diagnostic empty{{source(""), 0, 0}, "empty", ""};
  EXPECT_EQ(empty.render(), "a.tw:1:1: error: empty\n  \n  ^\n");
}

TEST(UserError, HoldsAllDiagnostics) {
  UserError e(std::vector<Diagnostic>{{{}, "one", ""}, {{}, "two", ""}});
  EXPECT_EQ(e.diagnostics().size(), 2u);
  EXPECT_STREQ(e.what(), "error: one\nerror: two");
  EXPECT_THROW(UserError(std::vector<Diagnostic>{}), InternalError);
}

TEST(Check, ThrowsWithPlace) {
  try {
    TW_CHECK(1 + 1 == 3, "arithmetic");
    FAIL();
  } catch (const InternalError& e) {
    EXPECT_NE(std::string(e.what()).find("support_error.cc"), std::string::npos);
    EXPECT_NE(std::string(e.what()).find("arithmetic (1 + 1 == 3)"), std::string::npos);
  }
}

TEST(NearestName, SuggestsOnlyWhatIsNear) {
  EXPECT_EQ(nearest_name("sofmax", {"sum", "softmax", "mean"}), "softmax");
  EXPECT_EQ(nearest_name("jnput", {"input", "output"}), "input");
  EXPECT_EQ(nearest_name("ipnut", {"input", "output"}), "input") << "two neighbours swapped are one edit";
  EXPECT_EQ(nearest_name("banana", {"input", "output"}), "");
  EXPECT_EQ(nearest_name("x", {"i", "j"}), "");
  EXPECT_EQ(nearest_name("kk", {"k"}), "k");
  EXPECT_EQ(nearest_name("a", {}), "");
  const std::string long_name(200, 'y'), longer(201, 'y');
  EXPECT_EQ(nearest_name(long_name, {longer}), longer);
  EXPECT_EQ(nearest_name(longer, {long_name}), "") << "the distance of long names takes too long";
  EXPECT_EQ(nearest_name("y", {std::string(1000000, 'y')}), "");
}

}  // namespace
}  // namespace tilewright::support_error_test
