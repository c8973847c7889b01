// Widths of text, so that it can be placed without the fonts that will show it.
#pragma once
#include <string>
#include <vector>

namespace tilewright {

/// Fonts of a picture: proportional, upright, bold or italic, and of fixed width for text in the language's syntax.
enum class Font : uint8_t { Sans, Bold, Code };

/// Width in pixels of UTF-8 text at `size` pixels. Wide fonts (DejaVu) are assumed: others take less.
double text_width(const std::string& text, Font font, double size);

/// Text in the language's syntax broken into lines of about `most` characters, before operators and behind commas, weak
/// operators and those outside of brackets first; what has no such place stays whole.
std::vector<std::string> broken(const std::string& text, size_t most = 24);

}  // namespace tilewright
