// Every program of examples/ and examples/napkin/ is checked by the command at the sizes that its `# try:` line names.
#include <gtest/gtest.h>

#include <sstream>

#include "tests/support/command.h"

namespace tilewright::testing::command_examples_test {
namespace {

/// The words behind "# try: " in a program.
std::vector<std::string> tried(const std::string& text) {
  const std::string mark = "\n# try: ";
  const size_t at = ("\n" + text).find(mark);
  if (at == std::string::npos) return {};
  std::istringstream in(text.substr(at + mark.size() - 1, text.find('\n', at) - at - mark.size() + 1));
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

void check_all(const std::string& target) {
  int programs = 0;
  for (const std::string folder : {"examples/", "examples/napkin/"}) {
    const std::string path = std::string(TW_SOURCE_DIR) + "/" + folder, readme = read(path + "README.md");
    for (const std::string& file : list(path)) {
      if (file.size() < 4 || file.substr(file.size() - 3) != ".tw") continue;
      const std::string name = file.substr(0, file.size() - 3);
      SCOPED_TRACE(name + " " + target);
      ++programs;
      EXPECT_NE(readme.find("`" + name + "`"), std::string::npos) << folder << "README.md does not list it";
      std::vector<std::string> arguments = tried(read(path + file));
      ASSERT_FALSE(arguments.empty()) << "no `# try:` line";
      arguments.insert(arguments.begin(), {"check", folder + file, "--target", target});
      const CommandResult r = tilewright(arguments);
      EXPECT_EQ(r.status, 0) << r.out << r.err;
      EXPECT_EQ(r.err, "");
    }
  }
  EXPECT_GE(programs, 60);
}

TEST(CommandExamples, Interpreted) { check_all("interp"); }
TEST(CommandExamples, OnTheCpu) { check_all("cpu"); }

}  // namespace
}  // namespace tilewright::testing::command_examples_test
