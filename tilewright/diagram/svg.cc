#include "tilewright/diagram/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <pugixml.hpp>
#include <sstream>

#include "tilewright/diagram/shape.h"

namespace tilewright {
namespace {

using Kind = DiagramBox::Kind;
using TextKind = PictureText::Kind;

struct Palette {
  const char *paper, *ink, *faint, *fill, *memory, *shared, *registers, *matrix, *mask, *frame;
};
constexpr Palette kLight = {"#ffffff", "#1b1b1f", "#6d6d76", "#f4f4f6", "#1b1b1f",
                            "#d97706", "#15803d", "#1d4ed8", "#fdf3e1", "#9a9aa6"};
constexpr Palette kDark = {"#16171b", "#ececf0", "#a0a0ab", "#24262d", "#e4e4ea",
                           "#f6a93b", "#4ade80", "#7aa7ff", "#3a3222", "#71717d"};

std::string rules(const Palette& c) {
  std::string s;
  const auto add = [&](const char* selector, const std::string& body) {
    s += fmt::format("{}{{{}}}\n", selector, body);
  };
  add(".paper", fmt::format("fill:{}", c.paper));
  add(".title,.name,.code", fmt::format("fill:{}", c.ink));
  add(".type,.note,.figure,.loop", fmt::format("fill:{}", c.faint));
  add(".memory", fmt::format("stroke:{}", c.memory));
  add(".shared", fmt::format("stroke:{}", c.shared));
  add(".registers", fmt::format("stroke:{}", c.registers));
  add(".matrix", fmt::format("stroke:{}", c.matrix));
  add(".memory-text,.memory-dot", fmt::format("fill:{}", c.memory));
  add(".shared-text,.shared-dot", fmt::format("fill:{}", c.shared));
  add(".registers-text,.registers-dot", fmt::format("fill:{}", c.registers));
  add(".matrix-text,.matrix-dot", fmt::format("fill:{}", c.matrix));
  add(".open", fmt::format("fill:{}", c.paper));
  add(".halo", fmt::format("stroke:{}", c.paper));
  add(".box", fmt::format("fill:{};stroke:{}", c.fill, c.ink));
  add(".mask", fmt::format("fill:{};stroke:{}", c.mask, c.ink));
  add(".mark", fmt::format("fill:{}", c.ink));
  add(".dash", fmt::format("stroke:{}", c.frame));
  add(".bar", fmt::format("stroke:{}", c.faint));
  add(".frame", fmt::format("stroke:{}", c.frame));
  return s;
}

/// What does not depend on the theme.
std::string shared_rules() {
  const char* sans = "font-family:Helvetica,Arial,'DejaVu Sans',sans-serif";
  const char* code = "font-family:'DejaVu Sans Mono',Menlo,Consolas,monospace";
  std::string s;
  s += fmt::format(".title{{{};font-weight:bold;font-size:{}px}}\n", sans, measure::title);
  s += fmt::format(".name{{{};font-weight:bold;font-size:{}px}}\n", sans, measure::name);
  s += fmt::format(".type{{{};font-size:{}px}}\n", sans, measure::type);
  s += fmt::format(".axis{{{};font-style:italic;font-size:{}px}}\n", sans, measure::axis);
  s += fmt::format(".size{{font-style:normal;font-weight:normal;font-size:{}px}}\n", measure::type);
  s += fmt::format(".code{{{};font-size:{}px}}\n", code, measure::code);
  s += fmt::format(".note{{{};font-size:{}px}}\n", code, measure::note);
  s += fmt::format(".figure{{{};font-size:{}px}}\n", sans, measure::figure);
  s += fmt::format(".loop{{{};font-weight:bold;font-size:{}px}}\n", sans, measure::figure);
  s +=
      ".wire{fill:none;stroke-width:1.3}\n.halo{fill:none;stroke-width:4}\n.unit{stroke-dasharray:1.2 2.4}\n";
  s += ".box,.mask{stroke-width:1}\n.step{stroke-dasharray:4 "
       "2.5}\n.dash{fill:none;stroke-width:.9;stroke-dasharray:4 3}\n";
  s += ".bar{fill:none;stroke-width:.9}\n.dot{stroke:none}\n.open{stroke-width:1.2}\n.frame{fill:none;stroke-"
       "width:1.4}\n";
  s += "text{white-space:pre}\n";
  return s;
}

const char* name_of(Shade s) {
  switch (s) {
    case Shade::Memory: return "memory";
    case Shade::Shared: return "shared";
    case Shade::Registers: return "registers";
    case Shade::Matrix: return "matrix";
  }
  return "memory";
}

std::string number(double x) {
  std::string s = fmt::format("{:.1f}", x);
  if (s.size() > 2 && s.compare(s.size() - 2, 2, ".0") == 0) s.resize(s.size() - 2);
  return s == "-0" ? "0" : s;
}
std::string pair(Spot p) { return number(p.x) + " " + number(p.y); }

std::string path_text(const Path& p) {
  std::string s = "M" + pair(p.start);
  for (const Stroke& g : p.strokes) {
    if (g.curve)
      s += "C" + pair(g.a) + " " + pair(g.b) + " " + pair(g.to);
    else
      s += "L" + pair(g.to);
  }
  return s;
}

/// Without a little at both ends, so that it hides nothing of what goes on there.
Path shortened(Path p) {
  const auto pull = [](Spot& end, Spot towards) {
    const double dx = towards.x - end.x, dy = towards.y - end.y, length = std::hypot(dx, dy);
    if (length > 4) end = {end.x + dx * 1.5 / length, end.y + dy * 1.5 / length};
  };
  const Stroke first = p.strokes.front();
  pull(p.start, first.curve ? first.a : first.to);
  Stroke& last = p.strokes.back();
  const Spot before = p.strokes.size() > 1 ? p.strokes[p.strokes.size() - 2].to : p.start;
  pull(last.to, last.curve ? last.b : before);
  return p;
}

class Writer {
 public:
  std::string run(const std::vector<Picture>& pictures, Theme theme, const std::string& title) {
    double width = 0, height = 0;
    for (const Picture& p : pictures) width = std::max(width, p.width), height += p.height;
    pugi::xml_node svg = document_.append_child("svg");
    const auto set = [&](const char* name, const std::string& value) {
      svg.append_attribute(name) = value.c_str();
    };
    set("xmlns", "http://www.w3.org/2000/svg");
    set("width", number(std::ceil(width)));
    set("height", number(std::ceil(height)));
    set("viewBox", fmt::format("0 0 {} {}", number(std::ceil(width)), number(std::ceil(height))));
    svg.append_child("title").text().set(title.c_str());
    std::string style = "\n" + shared_rules() + rules(theme == Theme::Dark ? kDark : kLight);
    if (theme == Theme::Auto) style += "@media (prefers-color-scheme: dark) {\n" + rules(kDark) + "}\n";
    svg.append_child("style").text().set(style.c_str());
    pugi::xml_node paper = svg.append_child("rect");
    attribute(paper, "class", "paper");
    attribute(paper, "width", number(std::ceil(width)));
    attribute(paper, "height", number(std::ceil(height)));
    double y = 0;
    for (const Picture& p : pictures) {
      group_ = svg.append_child("g");
      if (y > 0) attribute(group_, "transform", "translate(0 " + number(y) + ")");
      picture(p);
      y += p.height;
    }
    std::ostringstream out;
    document_.save(out, " ", pugi::format_indent | pugi::format_no_declaration, pugi::encoding_utf8);
    return out.str();
  }

 private:
  static void attribute(pugi::xml_node node, const char* name, const std::string& value) {
    node.append_attribute(name) = value.c_str();
  }

  pugi::xml_node add(const char* element, const std::string& kind) {
    pugi::xml_node node = group_.append_child(element);
    attribute(node, "class", kind);
    return node;
  }

  void titled(pugi::xml_node node, const std::string& title) {
    if (!title.empty()) node.append_child("title").text().set(title.c_str());
  }

  void picture(const Picture& p) {
    for (const PictureFrame& f : p.frames) frame(f);
    for (const Path& s : p.separators) attribute(add("path", "dash"), "d", path_text(s));
    for (const Path& b : p.bars) attribute(add("path", "bar"), "d", path_text(b));
    for (const PictureWire& w : p.wires) {
      if (w.path.strokes.empty()) continue;
      const std::string d = path_text(w.path);
      attribute(add("path", "halo"), "d", path_text(shortened(w.path)));
      pugi::xml_node node = add("path", fmt::format("wire {}{}", name_of(w.shade), w.unit ? " unit" : ""));
      attribute(node, "d", d);
      titled(node, w.title);
    }
    for (const PictureDot& d : p.dots) {
      pugi::xml_node node = add("circle", d.open ? fmt::format("open {}", name_of(d.shade))
                                                 : fmt::format("dot {}-dot", name_of(d.shade)));
      attribute(node, "cx", number(d.at.x));
      attribute(node, "cy", number(d.at.y));
      attribute(node, "r", d.open ? "2" : "2.2");
    }
    for (const PictureShape& s : p.shapes) shape(s);
    for (const PictureText& t : p.texts) text(t);
  }

  void frame(const PictureFrame& f) {
    const double r = 8, x0 = f.at.x, y0 = f.at.y, x1 = f.at.right(), y1 = f.at.bottom();
    std::string d;
    if (f.ends)
      d = fmt::format("M{} {}H{}Q{} {} {} {}V{}Q{} {} {} {}H{}", number(x0 + r), number(y0), number(x1 - r),
                      number(x1), number(y0), number(x1), number(y0 + r), number(y1 - r), number(x1),
                      number(y1), number(x1 - r), number(y1), number(x0 + r));
    else
      d = fmt::format("M{} {}H{}M{} {}H{}", number(x0 + r), number(y0), number(x1), number(x1), number(y1),
                      number(x0 + r));
    if (f.begins)
      d += fmt::format("Q{} {} {} {}V{}Q{} {} {} {}", number(x0), number(y1), number(x0), number(y1 - r),
                       number(y0 + r), number(x0), number(y0), number(x0 + r), number(y0));
    attribute(add("path", "frame"), "d", d);
    // The way back to the next chunk.
    if (f.begins || f.ends) {
      const double x = f.begins ? x0 + r + 2 : x1 - r - 12;
      attribute(add("path", "frame"), "d",
                fmt::format("M{} {}L{} {}L{} {}", number(x + 6), number(y0 - 4), number(x), number(y0),
                            number(x + 6), number(y0 + 4)));
    }
  }

  void shape(const PictureShape& s) {
    const double x0 = s.at.x, y0 = s.at.y, x1 = s.at.right(), y1 = s.at.bottom(), ym = (y0 + y1) / 2;
    std::vector<Spot> corners;
    switch (s.kind) {
      case Kind::Normalise: corners = {{x0, ym}, {x1, y0}, {x1, y1}}; break;
      case Kind::Reindex:
        corners = {{x0, ym}, {x0 + 7, y0}, {x1 - 7, y0}, {x1, ym}, {x1 - 7, y1}, {x0 + 7, y1}};
        break;
      case Kind::Pick: corners = {{x0, ym}, {x0 + 10, y0}, {x1, y0}, {x1, y1}, {x0 + 10, y1}}; break;
      case Kind::Linear: corners = {{x0, y0}, {x1 - 7, y0}, {x1, y0 + 7}, {x1, y1}, {x0, y1}}; break;
      case Kind::Load:
      case Kind::Store: corners = {{x0, y0}, {x1 - 6, y0}, {x1, ym}, {x1 - 6, y1}, {x0, y1}}; break;
      default: break;
    }
    if (!corners.empty()) {
      std::string points;
      for (Spot p : corners) points += (points.empty() ? "" : " ") + number(p.x) + "," + number(p.y);
      pugi::xml_node node = add("polygon", "box");
      attribute(node, "points", points);
      attribute(node, "stroke-linejoin", "round");
      titled(node, s.title);
      return;
    }
    pugi::xml_node node = add("rect", s.kind == Kind::Mask   ? "mask"
                                      : s.kind == Kind::Step ? "box step"
                                                             : "box");
    attribute(node, "x", number(x0));
    attribute(node, "y", number(y0));
    attribute(node, "width", number(s.at.width));
    attribute(node, "height", number(s.at.height));
    attribute(node, "rx", s.kind == Kind::Reduce ? number(std::min(s.at.height / 2, 9.0)) : "1.5");
    titled(node, s.title);
    if (s.kind == Kind::Mask) {
      // A lower triangle: part of the indices is kept.
      const double a = 8, left = x0 + 4, low = ym + a / 2;
      attribute(add("polygon", "mark"), "points",
                fmt::format("{},{} {},{} {},{}", number(left), number(low - a), number(left), number(low),
                            number(left + a), number(low)));
    }
  }

  void text(const PictureText& t) {
    static const char* classes[] = {"title", "name", "type", "axis", "code", "note", "figure", "loop"};
    const std::string kind = classes[static_cast<size_t>(t.kind)];
    if (t.kind == TextKind::Axis || t.kind == TextKind::Name) {
      pugi::xml_node back = add("rect", "paper");
      attribute(back, "x", number(t.bounds.x - 1.5));
      attribute(back, "y", number(t.bounds.y));
      attribute(back, "width", number(t.bounds.width + 3));
      attribute(back, "height", number(t.bounds.height));
    }
    pugi::xml_node node =
        add("text", t.kind == TextKind::Axis ? fmt::format("axis {}-text", name_of(t.shade)) : kind);
    attribute(node, "x", number(t.at.x));
    attribute(node, "y", number(t.at.y));
    if (t.text.find("  ") != std::string::npos) attribute(node, "xml:space", "preserve");
    node.append_child(pugi::node_pcdata).set_value(t.text.c_str());
    if (!t.sub.empty()) {
      pugi::xml_node sub = node.append_child("tspan");
      attribute(sub, "dy", "2");
      attribute(sub, "font-size", number(measure::axis * measure::lowered));
      sub.append_child(pugi::node_pcdata).set_value(t.sub.c_str());
    }
    if (!t.tail.empty()) {
      pugi::xml_node tail = node.append_child("tspan");
      attribute(tail, "class", "size");
      if (!t.text.empty()) attribute(tail, "dx", "3");
      if (!t.sub.empty()) attribute(tail, "dy", "-2");
      tail.append_child(pugi::node_pcdata).set_value(t.tail.c_str());
    }
  }

  pugi::xml_document document_;
  pugi::xml_node group_;
};

}  // namespace

std::string to_svg(const std::vector<Picture>& pictures, Theme theme, const std::string& title) {
  return Writer().run(pictures, theme, title);
}

}  // namespace tilewright
