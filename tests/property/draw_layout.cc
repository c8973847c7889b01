// Pictures of all examples: nothing overlaps, wires end at ports, every name of the program can be read.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "tests/support/picture.h"

namespace tilewright::testing::draw_layout_test {
namespace {

std::vector<std::string> examples() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(TW_SOURCE_DIR) + "/examples"))
    if (entry.path().extension() == ".tw") paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  return paths;
}

TEST(DrawLayout, ProgramsKeepTheRules) {
  ASSERT_GT(examples().size(), 40u);
  for (const std::string& path : examples())
    for (double width : {700.0, 420.0, 2000.0}) {
      LayoutOptions o;
      o.width = width;
      const Picture picture = lay_out(diagram_of(load_program(path)), o);
      EXPECT_EQ(breaches(picture), "") << path << " at " << width;
      EXPECT_FALSE(picture.texts.empty()) << path;
      if (width == 700) {
        EXPECT_LE(picture.width, 701) << path;
      }
    }
}

/// Words of all texts.
std::set<std::string> words(const Picture& p) {
  std::set<std::string> out;
  for (const PictureText& t : p.texts) {
    std::string word;
    for (char c : t.text + " " + t.sub + " " + t.tail + " ") {
      if (std::isalnum(static_cast<unsigned char>(c)) || c == '_') {
        word += c;
      } else {
        if (!word.empty()) out.insert(word);
        word.clear();
      }
    }
  }
  return out;
}

TEST(DrawLayout, NamesAndParamsCanBeRead) {
  for (const std::string& path : examples()) {
    const Program p = load_program(path);
    const std::set<std::string> shown = words(lay_out(diagram_of(p)));
    const auto expect = [&](const std::string& name) {
      EXPECT_TRUE(shown.count(name)) << path << ": " << name;
    };
    for (const Axis& a : p.axes) expect(a.name());
    for (const Param& x : p.params) expect(x.sym.name());
    for (const Input& x : p.inputs) expect(x.sym.name());
    for (const Output& x : p.outputs) expect(x.sym.name());
    // A softmax that is written out is drawn as one: the definitions of its parts are not.
    if (path.find("respelled") == std::string::npos)
      for (const Definition& x : p.definitions) expect(x.sym.name());
  }
}

}  // namespace
}  // namespace tilewright::testing::draw_layout_test
