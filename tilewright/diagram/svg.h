// Pictures as SVG.
#pragma once
#include "tilewright/diagram/layout.h"

namespace tilewright {

/// Auto follows the reader's preference (prefers-color-scheme).
enum class Theme : uint8_t { Auto, Light, Dark };

/// One document with the pictures below one another. Text stays text; boxes and wires have a <title>. It refers to no
/// other file and runs no script.
std::string to_svg(const std::vector<Picture>& pictures, Theme theme, const std::string& title);

}  // namespace tilewright
