// Every literal axis of every example set to 0: sums over nothing, heads without features. Each command answers; none finds a fault of its own.
#include <gtest/gtest.h>

#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tests/support/command.h"
#include "tilewright/program/program.h"

namespace tilewright::testing::zero_sizes_test {
namespace {

/// The sizes behind "# try: " of a program, and the other words.
struct Tried {
  std::map<std::string, std::string> sizes;
  std::vector<std::string> others;
};
Tried tried(const std::string& text) {
  Tried out;
  const size_t at = text.find("# try: ");
  if (at == std::string::npos) return out;
  std::istringstream words(text.substr(at + 7, text.find('\n', at) - at - 7));
  for (std::string word; words >> word;) {
    if (word != "--size") {
      out.others.push_back(word);
      continue;
    }
    words >> word;
    std::istringstream all(word);
    for (std::string one; std::getline(all, one, ',');)
      out.sizes[one.substr(0, one.find('='))] = one.substr(one.find('=') + 1);
  }
  return out;
}

void expect_answer(std::vector<std::string> arguments) {
  const CommandResult r = tilewright(arguments);
  const std::string command = fmt::format("{}", fmt::join(arguments, " "));
  EXPECT_TRUE(r.status == 0 || r.status == 2) << command << "\n" << r.status << "\n" << r.err;
  if (r.status == 2) {
    EXPECT_NE(r.err.find("error: "), std::string::npos) << command << "\n" << r.err;
  }
}

TEST(ZeroSizes, OfEveryLiteralAxisOfEveryExample) {
  const std::string folder = std::string(TW_SOURCE_DIR) + "/examples", scratch = new_folder();
  int tried_axes = 0;
  for (const std::string& file : list(folder)) {
    if (!file.ends_with(".tw")) continue;
    const Program p = load_program(folder + "/" + file);
    for (const Axis& a : p.axes) {
      if (!a.baked() || !a.size.rational()) continue;
      ++tried_axes;
      const std::string program = "examples/" + file, zero = a.name() + "=0";
      expect_answer({"derive", program, "--size", zero});
      expect_answer({"model", program, "--size", zero});
      expect_answer({"draw", program, "--size", zero, "--output", scratch + "/picture.svg"});
      for (const char* stage : {"plan", "tile"})
        expect_answer({"emit", program, "--stage", stage, "--size", zero});
      Tried t = tried(read(folder + "/" + file));
      t.sizes[a.name()] = "0";
      std::vector<std::string> check{"check", program, "--target", "interp"};
      check.insert(check.end(), t.others.begin(), t.others.end());
      for (const auto& [axis, size] : t.sizes) check.insert(check.end(), {"--size", axis + "=" + size});
      const CommandResult r = tilewright(check);
      EXPECT_TRUE(r.status == 0 || r.status == 2) << fmt::format("{}", fmt::join(check, " ")) << "\n"
                                                  << r.out << r.err;
    }
  }
  EXPECT_GE(tried_axes, 60);
}

}  // namespace
}  // namespace tilewright::testing::zero_sizes_test
