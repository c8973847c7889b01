#include "tests/support/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace tilewright::testing {
namespace {

constexpr double kSlack = 0.6;  // coordinates are rounded

bool overlap(const Rect& a, const Rect& b) {
  return a.x + kSlack < b.right() && b.x + kSlack < a.right() && a.y + kSlack < b.bottom() &&
         b.y + kSlack < a.bottom();
}
bool inside(const Rect& a, const Rect& b) {
  return a.x >= b.x - kSlack && a.right() <= b.right() + kSlack && a.y >= b.y - kSlack &&
         a.bottom() <= b.bottom() + kSlack;
}
std::string shown(const Rect& r) {
  return fmt::format("[{:.1f}, {:.1f}] x [{:.1f}, {:.1f}]", r.x, r.right(), r.y, r.bottom());
}

}  // namespace

std::string breaches(const Picture& p) {
  std::string out;
  const auto texts = [&] {
    for (size_t a = 0; a < p.texts.size(); ++a)
      for (size_t b = a + 1; b < p.texts.size(); ++b)
        if (overlap(p.texts[a].bounds, p.texts[b].bounds))
          return fmt::format("text `{}` {} overlaps `{}` {}\n", p.texts[a].text, shown(p.texts[a].bounds),
                             p.texts[b].text, shown(p.texts[b].bounds));
    return std::string();
  };
  const auto boxes = [&] {
    for (size_t a = 0; a < p.shapes.size(); ++a)
      for (size_t b = a + 1; b < p.shapes.size(); ++b)
        if (overlap(p.shapes[a].at, p.shapes[b].at))
          return fmt::format("box {} {} overlaps box {} {}\n", p.shapes[a].box, shown(p.shapes[a].at),
                             p.shapes[b].box, shown(p.shapes[b].at));
    return std::string();
  };
  const auto texts_and_boxes = [&] {
    for (const PictureText& t : p.texts)
      for (const PictureShape& s : p.shapes)
        if (overlap(t.bounds, s.at) && !inside(t.bounds, s.at))
          return fmt::format("text `{}` {} overlaps box {} {}\n", t.text, shown(t.bounds), s.box,
                             shown(s.at));
    return std::string();
  };
  const auto wires = [&] {
    std::set<std::pair<long, long>> ports;
    const auto key = [](Spot s) { return std::make_pair(std::lround(s.x * 10), std::lround(s.y * 10)); };
    for (const Spot& s : p.ports) ports.insert(key(s));
    const auto known = [&](Spot s) {
      const auto [x, y] = key(s);
      for (long dx = -1; dx <= 1; ++dx)
        for (long dy = -1; dy <= 1; ++dy)
          if (ports.count({x + dx, y + dy})) return true;
      return false;
    };
    for (const PictureWire& w : p.wires)
      for (const Spot& end : {w.path.start, w.path.end()})
        if (!known(end))
          return fmt::format("a wire ends at ({:.1f}, {:.1f}), where there is no port\n", end.x, end.y);
    return std::string();
  };
  const auto bounds = [&] {
    const Rect all{0, 0, p.width, p.height};
    for (const PictureText& t : p.texts)
      if (!inside(t.bounds, all)) return fmt::format("text `{}` {} lies outside\n", t.text, shown(t.bounds));
    for (const PictureShape& s : p.shapes)
      if (!inside(s.at, all)) return fmt::format("box {} {} lies outside\n", s.box, shown(s.at));
    for (const PictureWire& w : p.wires)
      for (const Spot& end : {w.path.start, w.path.end()})
        if (!inside({end.x, end.y, 0, 0}, all))
          return fmt::format("a wire ends at ({:.1f}, {:.1f}), outside\n", end.x, end.y);
    return std::string();
  };
  return texts() + boxes() + texts_and_boxes() + wires() + bounds();
}

}  // namespace tilewright::testing
