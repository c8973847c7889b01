// Lines, curves and texts with their bounds.
#include <cmath>

#include "tilewright/diagram/shape.h"

namespace tilewright {

using TextKind = PictureText::Kind;

void Path::line(Spot to) {
  const Spot from = end();
  if (std::abs(from.x - to.x) < 0.01 && std::abs(from.y - to.y) < 0.01) return;
  // A line goes on where the last one ended.
  if (!strokes.empty() && !strokes.back().curve) {
    const Spot before = strokes.size() > 1 ? strokes[strokes.size() - 2].to : start;
    if (std::abs(before.y - from.y) < 0.01 && std::abs(from.y - to.y) < 0.01) {
      strokes.back().to = to;
      return;
    }
  }
  strokes.push_back({false, {}, {}, to});
}

void Path::bend(Spot to) {
  const Spot from = end();
  if (std::abs(from.y - to.y) < 0.01) return line(to);
  const double middle = (from.x + to.x) / 2;
  strokes.push_back({true, {middle, from.y}, {middle, to.y}, to});
}

namespace {

Font font_of(TextKind kind) {
  switch (kind) {
    case TextKind::Title:
    case TextKind::Loop:
    case TextKind::Name: return Font::Bold;
    case TextKind::Code:
    case TextKind::Note: return Font::Code;
    default: return Font::Sans;
  }
}

double size_of(TextKind kind) {
  switch (kind) {
    case TextKind::Title: return measure::title;
    case TextKind::Name: return measure::name;
    case TextKind::Type: return measure::type;
    case TextKind::Axis: return measure::axis;
    case TextKind::Code: return measure::code;
    case TextKind::Note: return measure::note;
    case TextKind::Loop:
    case TextKind::Figure: return measure::figure;
  }
  return measure::code;
}

}  // namespace

PictureText text_at(TextKind kind, Spot at, const std::string& text, const std::string& sub,
                    const std::string& tail) {
  PictureText t;
  t.kind = kind;
  t.at = at;
  t.text = text;
  t.sub = sub;
  t.tail = tail;
  const double size = size_of(kind);
  double width = text_width(text, font_of(kind), size);
  if (!sub.empty()) width += text_width(sub, font_of(kind), size * measure::lowered);
  if (!tail.empty()) width += 3 + text_width(tail, Font::Sans, size);
  t.bounds = {at.x, at.y - size * 0.76, width, size * (sub.empty() ? 0.98 : 1.05)};
  return t;
}

double width_of(const DiagramWire& w) {
  return text_at(TextKind::Axis, {}, w.name, w.sub, w.size).bounds.width;
}

}  // namespace tilewright
