// Runs the tests of one executable: all of them, or with --file=LABEL/STEM.cc those that this file defines.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

namespace {

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

/// GoogleTest's filter for the tests whose source file is FILE; empty where there are none.
std::string tests_of(const std::string& file) {
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  std::string filter;
  for (int s = 0; s < all.total_test_suite_count(); ++s) {
    const testing::TestSuite& suite = *all.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const testing::TestInfo& test = *suite.GetTestInfo(t);
      if (!ends_with(std::string("/") + test.file(), "/" + file)) continue;
      filter += (filter.empty() ? "" : ":") + std::string(suite.name()) + "." + test.name();
    }
  }
  return filter;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const std::string option = "--file=";
  for (int k = 1; k < argc; ++k) {
    const std::string argument = argv[k];
    const std::string filter =
        argument.compare(0, option.size(), option) == 0 ? tests_of(argument.substr(option.size())) : "";
    if (filter.empty()) {
      std::fprintf(stderr, "%s: not --file= with a file of this executable's tests\n", argv[k]);
      return 2;
    }
    testing::GTEST_FLAG(filter) = filter;
  }
  return RUN_ALL_TESTS();
}
