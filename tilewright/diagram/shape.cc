#include "tilewright/diagram/shape.h"

#include <algorithm>

#include "tilewright/diagram/shaper.h"

namespace tilewright {

using Kind = DiagramBox::Kind;
using TextKind = PictureText::Kind;

BoxGeometry Shaper::run() {
  inputs();
  switch (box_.kind) {
    case Kind::Source: source(); break;
    case Kind::Sink: sink(); break;
    case Kind::Load:
    case Kind::Store:
    case Kind::Step: opaque(); break;
    default: mapped(); break;
  }
  extents();
  return std::move(g_);
}

void Shaper::inputs() {
  double y = 0;
  for (int a : box_.inputs) {
    if (!starts_.empty()) y = starts_[g_.in_y.size()];
    g_.in_y.emplace_back();
    for (size_t w = 0; w < array(a).wires.size(); ++w, y += measure::pitch) g_.in_y.back().push_back(y);
    y += measure::gap;
  }
}

void Shaper::stack(size_t output, double first) {
  std::vector<double> ys;
  for (size_t w = 0; w < array(box_.outputs[output]).wires.size(); ++w)
    ys.push_back(first + measure::pitch * static_cast<double>(w));
  g_.out_y.push_back(ys);
}

// ---- names at the ends

std::vector<PictureText> Shaper::names(double& width) const {
  std::vector<PictureText> lines;
  for (size_t k = 0; k < box_.lines.size(); ++k) {
    if (box_.lines[k].empty()) continue;
    lines.push_back(text_at(k == 0 ? TextKind::Name : TextKind::Type, {}, box_.lines[k]));
    width = std::max(width, lines.back().bounds.width);
  }
  return lines;
}

void Shaper::source() {
  double width = 0;
  std::vector<PictureText> lines = names(width);
  for (size_t k = 0; k < box_.outputs.size(); ++k) stack(k, 0), g_.labelled.push_back(true);
  g_.width = width + 6;
  place_beside(lines, g_.out_y.at(0), true);
  const double last = g_.out_y[0].back();
  bar(g_.width, -4, last + 4);
}

void Shaper::sink() {
  double width = 0;
  std::vector<PictureText> lines = names(width);
  g_.width = width + 6;
  place_beside(lines, g_.in_y.at(0), false);
  bar(0, -4, g_.in_y[0].back() + 4);
}

void Shaper::bar(double x, double from, double to) {
  Path p;
  p.start = {x, from};
  p.line({x, to});
  g_.bars.push_back(p);
}

void Shaper::place_beside(std::vector<PictureText>& lines, const std::vector<double>& ys, bool before) {
  const double middle = (ys.front() + ys.back()) / 2;
  double height = 0;
  for (const PictureText& t : lines) height += t.bounds.height + 2;
  double y = middle - height / 2;
  for (const PictureText& t : lines) {
    const double x = before ? g_.width - 6 - t.bounds.width : 6;
    g_.texts.push_back(text_at(t.kind, {x, y - t.bounds.y}, t.text));
    y += t.bounds.height + 2;
  }
}

// ---- boxes at which every wire ends

void Shaper::opaque() {
  double width = text_block_width();
  const double bottom_in = g_.in_y.empty() || g_.in_y.back().empty() ? 0 : g_.in_y.back().back();
  // Outputs stand where the inputs of the same name or axes are.
  double next = -1e9;
  for (size_t k = 0; k < box_.outputs.size(); ++k) {
    const DiagramArray& out = array(box_.outputs[k]);
    double first =
        next > -1e8 ? next : bottom_in / 2 - measure::pitch * static_cast<double>(out.wires.size() - 1) / 2;
    for (size_t m = 0; m < box_.inputs.size(); ++m)
      if (array(box_.inputs[m]).name == out.name && array(box_.inputs[m]).wires.size() == out.wires.size())
        first = g_.in_y[m][0];
    if (box_.kind == Kind::Load && !box_.inputs.empty()) {
      const DiagramArray& in = array(box_.inputs[0]);
      std::vector<double> wanted;
      for (size_t w = 0; w < out.wires.size(); ++w)
        if (const int at = wire_of(in, out.wires[w].axis); at >= 0)
          wanted.push_back(g_.in_y[0][static_cast<size_t>(at)] - measure::pitch * static_cast<double>(w));
      if (!wanted.empty()) {
        std::sort(wanted.begin(), wanted.end());
        first = wanted[wanted.size() / 2];
      }
    }
    first = std::max(first, next);
    stack(k, first);
    g_.labelled.push_back(box_.kind != Kind::Step);
    next = g_.out_y.back().back() + measure::pitch + measure::gap;
  }
  double top = 1e9, bottom = -1e9;
  for (const auto* side : {&g_.in_y, &g_.out_y})
    for (const auto& ys : *side)
      for (double y : ys) top = std::min(top, y), bottom = std::max(bottom, y);
  const double needed = measure::line * static_cast<double>(box_.lines.size()) + 7;
  top -= 6, bottom += 6;
  if (bottom - top < needed) {
    const double more = (needed - (bottom - top)) / 2;
    top -= more, bottom += more;
  }
  g_.shaped = true;
  g_.shape = {0, top, width + 12 + (box_.kind == Kind::Step ? 0 : 8), bottom - top};
  g_.width = g_.shape.width;
  put_text();
}

double Shaper::text_block_width() const {
  double width = 0;
  for (const std::string& l : box_.lines) width = std::max(width, text_width(l, Font::Code, measure::code));
  return width;
}

void Shaper::put_text(double shift) {
  const double height = measure::line * static_cast<double>(box_.lines.size());
  double y = g_.shape.y + (g_.shape.height - height) / 2 + measure::line * 0.77;
  const double width = text_block_width();
  for (const std::string& l : box_.lines) {
    g_.texts.push_back(text_at(TextKind::Code, {g_.shape.x + (g_.shape.width - width) / 2 + shift, y}, l));
    y += measure::line;
  }
}

void Shaper::extents() {
  double top = 1e9, bottom = -1e9;
  for (const auto& ys : g_.in_y)
    for (double y : ys) top = std::min(top, y - 7), bottom = std::max(bottom, y + 7);
  for (size_t k = 0; k < g_.out_y.size(); ++k)
    for (double y : g_.out_y[k]) {
      const bool named = !array(box_.outputs[k]).label.empty() && y == g_.out_y[k].front();
      top = std::min(top, y - (named ? 18 : 7)), bottom = std::max(bottom, y + 7);
    }
  if (g_.shaped) top = std::min(top, g_.shape.y - 3), bottom = std::max(bottom, g_.shape.bottom() + 3);
  for (const PictureText& t : g_.texts)
    top = std::min(top, t.bounds.y - 1), bottom = std::max(bottom, t.bounds.bottom() + 1);
  g_.top = top;
  g_.bottom = bottom;
}

BoxGeometry geometry_of(const Diagram& d, const DiagramBox& box, const std::vector<double>& starts) {
  return Shaper(d, box, starts).run();
}

BoxGeometry continuation(const Diagram& d, int array, bool begins, const std::string& name) {
  DiagramBox box;
  box.kind = begins ? Kind::Source : Kind::Sink;
  box.lines = {name, "…"};
  (begins ? box.outputs : box.inputs) = {array};
  return geometry_of(d, box);
}

}  // namespace tilewright
