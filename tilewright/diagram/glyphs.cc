#include "tilewright/diagram/glyphs.h"

#include <algorithm>
#include <array>

namespace tilewright {
namespace {

// Advances of the characters from U+0020 to U+007E, thousandths of the size.
constexpr std::array<int, 95> kSans = {
    318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361,  318, 337, 636, 636, 636,
    636, 636, 636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531, 1000, 684, 686, 698, 770, 632,
    575, 775, 752, 295, 295, 656, 557, 863, 748, 787, 603, 787, 695, 635,  611, 732, 684, 989, 685,
    611, 685, 390, 337, 390, 838, 500, 500, 613, 635, 550, 635, 615, 352,  635, 634, 278, 278, 579,
    278, 974, 634, 612, 635, 635, 411, 521, 392, 634, 592, 818, 592, 592,  525, 636, 337, 636, 838};
constexpr std::array<int, 95> kBold = {
    348, 456,  521, 838, 696, 1002, 872, 306, 457, 457, 523, 838, 380, 415,  380, 365, 696, 696,  696,
    696, 696,  696, 696, 696, 696,  696, 400, 400, 838, 838, 838, 580, 1000, 774, 762, 734, 830,  683,
    683, 821,  837, 372, 372, 775,  637, 995, 837, 850, 733, 850, 770, 720,  682, 812, 774, 1103, 771,
    724, 725,  457, 365, 457, 838,  500, 500, 675, 716, 593, 716, 678, 435,  716, 712, 343, 343,  665,
    343, 1042, 712, 687, 716, 716,  493, 595, 478, 712, 652, 924, 645, 652,  582, 712, 365, 712,  838};
constexpr int kFixed = 602;
constexpr int kOther = 700;  // letters beyond ASCII

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

}  // namespace

double text_width(const std::string& text, Font font, double size) {
  double sum = 0;
  for (char c : text) {
    if (continues(c)) continue;
    const auto code = static_cast<unsigned char>(c);
    if (font == Font::Code)
      sum += kFixed;
    else if (code >= 0x20 && code < 0x7F)
      sum += (font == Font::Bold ? kBold : kSans)[code - 0x20];
    else
      sum += kOther;
  }
  return sum * size / 1000;
}

std::vector<std::string> broken(const std::string& text, size_t most) {
  if (text.size() <= most) return {text};
  // Places where a line may end, the best have the least cost: outside of brackets before inside, weak operators before strong.
  struct Place {
    size_t at;
    int cost;
  };
  std::vector<Place> places;
  int depth = 0;
  for (size_t k = 0; k < text.size(); ++k) {
    const char c = text[k];
    if (c == '(' || c == '[') ++depth;
    if (c == ')' || c == ']') --depth;
    if (c != ' ' || k == 0) continue;
    const std::string word = text.substr(k + 1, text.find(' ', k + 1) - k - 1);
    int strength = -1;
    if (text[k - 1] == ',')
      strength = 0;
    else if (word == "and" || word == "or")
      strength = 0;
    else if (word == "<" || word == "<=" || word == "==" || word == "!=" || word == "->")
      strength = 1;
    else if (word == "+" || word == "-")
      strength = 2;
    else if (word == "*" || word == "/" || word == "//" || word == "%" || word == "**")
      strength = 3;
    if (strength >= 0) places.push_back({k, depth * 4 + strength});
  }
  std::vector<std::string> lines;
  size_t begin = 0;
  while (text.size() - begin > most) {
    const Place* best = nullptr;
    for (const Place& p : places) {
      if (p.at <= begin || p.at - begin > most) continue;
      // A line that is not nearly empty, at the least depth; the later of equals.
      const bool full = (p.at - begin) * 10 >= most * 3;
      const bool best_full = best && (best->at - begin) * 10 >= most * 3;
      if (!best || (full && !best_full) || (full == best_full && p.cost <= best->cost)) best = &p;
    }
    if (!best)
      for (const Place& p : places)
        if (p.at > begin) {
          best = &p;
          break;
        }
    if (!best) break;
    lines.push_back(text.substr(begin, best->at - begin));
    begin = best->at + 1;
  }
  lines.push_back(text.substr(begin));
  return lines;
}

}  // namespace tilewright
