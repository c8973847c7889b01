// Golden files: printed forms that are compared with a stored text.
#pragma once

#include <string>
#include <string_view>

namespace tilewright::testing {

/// Compares `text` with the file tests/golden/expected/`name` (`name` may hold sub-folders) and adds a
/// GoogleTest failure with the first difference and its surroundings where they differ, or where the file is
/// missing. With TW_UPDATE_GOLDEN=1 in the environment the file is written instead and nothing fails.
/// A final newline is added to `text` if it has none, so that stored files end in one.
void expect_golden(std::string_view name, std::string_view text);

/// The report of `expect_golden`: empty where the texts agree, else the first hunk that differs, with three
/// lines around it; lines of `expected` are marked '-', lines of `actual` '+'.
std::string first_difference(std::string_view expected, std::string_view actual);

}  // namespace tilewright::testing
