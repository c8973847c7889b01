#include "tests/support/golden.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tilewright::testing {
namespace {

namespace fs = std::filesystem;
using Lines = std::vector<std::string_view>;

constexpr std::size_t context_lines = 3;
constexpr std::size_t longest_hunk = 20;

Lines split_lines(std::string_view text) {
  Lines lines;
  while (!text.empty()) {
    std::size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  }
  return lines;
}

bool update_requested() {
  const char* value = std::getenv("TW_UPDATE_GOLDEN");
  return value != nullptr && std::string_view(value) == "1";
}

std::optional<std::string> read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(in), {});
}

bool write_file(const fs::path& path, std::string_view text) {
  std::error_code ignored;  // a folder that cannot be made shows as a file that cannot be written
  fs::create_directories(path.parent_path(), ignored);
  std::ofstream out(path, std::ios::binary);
  out << text;
  return static_cast<bool>(out.flush());
}

/// Where two line lists meet again after a difference that starts at `start` in both: how many lines each
/// drops, with the smallest sum; both run to their ends if they never meet within `longest_hunk`.
struct Hunk {
  std::size_t removed, added;
};

Hunk resynchronise(const Lines& a, const Lines& b, std::size_t start) {
  for (std::size_t sum = 1; sum <= 2 * longest_hunk; ++sum) {
    for (std::size_t removed = 0; removed <= sum; ++removed) {
      std::size_t i = start + removed, j = start + sum - removed;
      if (i > a.size() || j > b.size()) continue;
      bool both_end = i == a.size() && j == b.size();
      if (both_end || (i < a.size() && j < b.size() && a[i] == b[j])) return {removed, sum - removed};
    }
  }
  return {a.size() - start, b.size() - start};
}

void append_marked(std::string& out, char mark, const Lines& lines, std::size_t begin, std::size_t count) {
  std::size_t shown = std::min(count, longest_hunk);
  for (std::size_t k = 0; k < shown; ++k) out += fmt::format("{}{}\n", mark, lines[begin + k]);
  if (shown < count) out += fmt::format("{}... {} more lines\n", mark, count - shown);
}

}  // namespace

std::string first_difference(std::string_view expected, std::string_view actual) {
  if (expected == actual) return "";
  Lines a = split_lines(expected), b = split_lines(actual);
  std::size_t start = 0;
  while (start < a.size() && start < b.size() && a[start] == b[start]) ++start;
  if (start == a.size() && start == b.size()) return "the texts differ in their final newline only\n";

  Hunk hunk = resynchronise(a, b, start);
  std::size_t before = std::min(start, context_lines);
  std::size_t after = std::min(a.size() - start - hunk.removed, context_lines);
  std::size_t first = start - before;
  std::string out = fmt::format("@@ -{},{} +{},{} @@\n", first + 1, before + hunk.removed + after, first + 1,
                                before + hunk.added + after);
  append_marked(out, ' ', a, first, before);
  append_marked(out, '-', a, start, hunk.removed);
  append_marked(out, '+', b, start, hunk.added);
  append_marked(out, ' ', a, start + hunk.removed, after);
  return out;
}

void expect_golden(std::string_view name, std::string_view text) {
  fs::path path = fs::path(TW_SOURCE_DIR) / "tests/golden/expected" / name;
  std::string actual(text);
  if (actual.empty() || actual.back() != '\n') actual += '\n';

  std::optional<std::string> expected = read_file(path);
  if (update_requested()) {
    if (expected != actual && !write_file(path, actual)) ADD_FAILURE() << "cannot write " << path.string();
    return;
  }
  if (!expected) {
    ADD_FAILURE() << "no golden file tests/golden/expected/" << name
                  << "; write it with TW_UPDATE_GOLDEN=1\n--- text\n"
                  << actual;
    return;
  }
  std::string difference = first_difference(*expected, actual);
  if (difference.empty()) return;
  ADD_FAILURE() << "--- tests/golden/expected/" << name << "\n+++ printed now\n"
                << difference << "(TW_UPDATE_GOLDEN=1 stores the new text)";
}

}  // namespace tilewright::testing
