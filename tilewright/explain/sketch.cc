#include "tilewright/explain/sketch.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "tilewright/explain/text.h"

namespace tilewright::explain {

namespace {

/// Pixels of one character.
constexpr double kCellWidth = 5.8, kCellHeight = 12.9;

class Grid {
 public:
  Grid(int width, int height)
      : width_(width),
        height_(height),
        joints_(static_cast<size_t>(width * height), 0),
        cells_(static_cast<size_t>(width * height)) {}

  static int column(double x) { return static_cast<int>(std::floor(x / kCellWidth)); }
  static int row(double y) { return static_cast<int>(std::floor(y / kCellHeight)); }

  void path(const Path& p) {
    Spot last = p.start;
    at_ = {column(last.x), row(last.y)};
    for (const Stroke& s : p.strokes) {
      const int steps =
          s.curve ? 24 : std::max(1, static_cast<int>(std::hypot(s.to.x - last.x, s.to.y - last.y) / 3));
      for (int k = 1; k <= steps; ++k) {
        const double t = static_cast<double>(k) / steps, u = 1 - t;
        const auto mix = [&](double a, double b, double c, double d) {
          return s.curve ? u * u * u * a + 3 * u * u * t * b + 3 * u * t * t * c + t * t * t * d
                         : a + (d - a) * t;
        };
        go(column(mix(last.x, s.a.x, s.b.x, s.to.x)), row(mix(last.y, s.a.y, s.b.y, s.to.y)));
      }
      last = s.to;
    }
  }

  void text(int x, int y, const std::string& s) {
    if (y < 0 || y >= height_) return;
    for (size_t at = 0; at < s.size();) {
      size_t end = at + 1;
      while (end < s.size() && (static_cast<unsigned char>(s[end]) & 0xC0) == 0x80) ++end;
      if (x >= 0 && x < width_) cell(x, y) = s.substr(at, end - at);
      ++x;
      at = end;
    }
  }
  bool free(int x, int y, size_t length) const {
    for (int k = x; k < x + static_cast<int>(length); ++k)
      if (k >= 0 && k < width_ && y >= 0 && y < height_ &&
          !cells_[static_cast<size_t>(y * width_ + k)].empty())
        return false;
    return true;
  }

  std::string str() const {
    static const char* const lines[16] = {" ", "│", "─", "└", "│", "│", "┌", "├",
                                          "─", "┘", "─", "┴", "┐", "┤", "┬", "┼"};
    std::string out;
    bool blank = true;
    for (int y = 0; y < height_; ++y) {
      std::string row;
      for (int x = 0; x < width_; ++x) {
        const size_t n = static_cast<size_t>(y * width_ + x);
        row += cells_[n].empty() ? lines[joints_[n]] : cells_[n];
      }
      while (!row.empty() && row.back() == ' ') row.pop_back();
      if (row.empty() && blank) continue;  // one empty line at most
      blank = row.empty();
      out += row + "\n";
    }
    while (out.size() > 1 && out[out.size() - 1] == '\n' && out[out.size() - 2] == '\n') out.pop_back();
    return out;
  }

 private:
  enum : uint8_t { kNorth = 1, kEast = 2, kSouth = 4, kWest = 8 };

  std::string& cell(int x, int y) { return cells_[static_cast<size_t>(y * width_ + x)]; }
  void join(int x, int y, uint8_t side) {
    if (x >= 0 && x < width_ && y >= 0 && y < height_) joints_[static_cast<size_t>(y * width_ + x)] |= side;
  }
  void go(int x, int y) {
    while (at_.first != x) {
      const bool right = x > at_.first;
      join(at_.first, at_.second, right ? kEast : kWest);
      at_.first += right ? 1 : -1;
      join(at_.first, at_.second, right ? kWest : kEast);
    }
    while (at_.second != y) {
      const bool down = y > at_.second;
      join(at_.first, at_.second, down ? kSouth : kNorth);
      at_.second += down ? 1 : -1;
      join(at_.first, at_.second, down ? kNorth : kSouth);
    }
  }

  int width_, height_;
  std::vector<uint8_t> joints_;
  std::vector<std::string> cells_;
  std::pair<int, int> at_;
};

}  // namespace

std::string sketch(const Diagram& d, size_t columns) {
  Diagram plain = d;
  plain.title.clear();
  plain.notes.clear();
  LayoutOptions options;
  options.width = kCellWidth * static_cast<double>(columns);
  const Picture p = lay_out(plain, options);
  Grid grid(Grid::column(p.width) + 2, Grid::row(p.height) + 2);
  for (const PictureWire& w : p.wires) grid.path(w.path);
  for (const PictureShape& s : p.shapes) {
    const int left = Grid::column(s.at.x), right = Grid::column(s.at.right()), top = Grid::row(s.at.y),
              bottom = Grid::row(s.at.bottom());
    const int middle = Grid::row((s.at.y + s.at.bottom()) / 2);
    if (s.kind == DiagramBox::Kind::Normalise) {
      grid.text((left + right) / 2, middle, "▷");
      continue;
    }
    for (int y = top; y <= bottom; ++y) {
      const bool first = y == top, last = y == bottom;
      for (int x = left; x <= right; ++x) grid.text(x, y, " ");
      const bool one = top == bottom;
      grid.text(left, y, one ? "[" : first ? "⎡" : last ? "⎣" : "⎢");
      grid.text(right, y, one ? "]" : first ? "⎤" : last ? "⎦" : "⎥");
    }
  }
  std::vector<const PictureText*> texts;
  for (const PictureText& t : p.texts)
    if (t.text != "…") texts.push_back(&t);  // of arrays that go on in another row
  // Code first: it has no other place. Labels of wires give way.
  std::stable_sort(texts.begin(), texts.end(), [](const PictureText* a, const PictureText* b) {
    return (a->kind == PictureText::Kind::Axis) < (b->kind == PictureText::Kind::Axis);
  });
  for (const PictureText* t : texts) {
    const std::string s = t->text + t->sub + (t->tail.empty() ? "" : (t->text.empty() ? "" : " ") + t->tail);
    const int x = Grid::column(t->at.x), y = Grid::row(t->at.y - 3);
    if (t->kind == PictureText::Kind::Axis && !grid.free(x, y, columns_of(s))) continue;
    grid.text(x, y, s);
  }
  return grid.str();
}

}  // namespace tilewright::explain
