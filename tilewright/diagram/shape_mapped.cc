// Boxes that axes pass: those are drawn beside the shape, and what enters or leaves bends to it.
#include <algorithm>
#include <cmath>

#include "tilewright/diagram/shaper.h"

namespace tilewright {

using Kind = DiagramBox::Kind;

void Shaper::mapped() {
  find_sources();
  double x = cups();
  x = risers(x);
  x = place_outputs(x);
  x = place_shape(x);
  finish(x);
}

void Shaper::find_sources() {
  for (size_t k = 0; k < box_.inputs.size(); ++k) {
    const auto& wires = array(box_.inputs[k]).wires;
    for (size_t w = 0; w < wires.size(); ++w) {
      const Source s{k, w, g_.in_y[k][w]};
      if (!wires[w].axis) {
        units_.push_back(s);
        continue;
      }
      auto it =
          std::find_if(axes_.begin(), axes_.end(), [&](const auto& a) { return a.first == wires[w].axis; });
      if (it == axes_.end()) it = axes_.insert(axes_.end(), {wires[w].axis, {}});
      it->second.push_back(s);
    }
  }
}

double Shaper::cups() {
  if (box_.kind != Kind::Contract) return 0;
  std::vector<std::vector<Source>> cups;
  for (const auto& [axis, sources] : axes_)
    if (enters(axis)) cups.push_back(sources);
  std::sort(cups.begin(), cups.end(),
            [](const auto& a, const auto& b) { return a[1].y - a[0].y < b[1].y - b[0].y; });
  double x = 0;
  for (const auto& cup : cups) {
    const double dy = cup[1].y - cup[0].y;
    x = std::max(x + 7, std::min(12 + dy * 0.12, 22.0));
    PictureWire w;
    w.shade = shade_of(0);
    w.path.start = {0, cup[0].y};
    // A half circle where it is small, straight in the middle where it is tall.
    const double r = std::min(x, dy / 2);
    w.path.line({x - r, cup[0].y});
    const double c = r * 0.5523;
    w.path.strokes.push_back({true, {x - r + c, cup[0].y}, {x, cup[0].y + r - c}, {x, cup[0].y + r}});
    if (dy > 2 * r + 0.01) w.path.strokes.push_back({false, {}, {}, {x, cup[1].y - r}});
    w.path.strokes.push_back({true, {x, cup[1].y - r + c}, {x - r + c, cup[1].y}, {x - r, cup[1].y}});
    w.path.line({0, cup[1].y});
    const auto named = [&](size_t n, const std::string& otherwise) {
      const std::string& name = array(box_.inputs[n]).name;
      return name.empty() ? otherwise : name;
    };
    w.title = named(0, "what enters above") + ", " + named(1, "what enters below") + ": summed";
    g_.strands.push_back(w);
  }
  return x;
}

double Shaper::risers(double x) {
  struct Riser {
    Source from;
    double to;
  };
  std::vector<Riser> risers;
  for (const auto& [axis, sources] : axes_) {
    if (box_.kind == Kind::Contract && enters(axis)) continue;
    for (size_t k = 1; k < sources.size(); ++k) risers.push_back({sources[k], sources[0].y});
  }
  std::sort(risers.begin(), risers.end(), [](const Riser& a, const Riser& b) { return a.from.y < b.from.y; });
  bool first = true;
  for (const Riser& r : risers) {
    x += first ? 13 : 9;
    first = false;
    PictureWire w;
    w.shade = shade_of(r.from.input);
    w.path.start = {0, r.from.y};
    const double bow = std::min(9.0, std::abs(r.from.y - r.to)), up = r.to < r.from.y ? -1 : 1;
    w.path.line({x - bow, r.from.y});
    w.path.strokes.push_back(
        {true, {x - bow * 0.4, r.from.y}, {x, r.from.y + up * bow * 0.4}, {x, r.from.y + up * bow}});
    if (std::abs(r.from.y + up * bow - r.to) > 0.01) w.path.strokes.push_back({false, {}, {}, {x, r.to}});
    w.title = array(box_.inputs[r.from.input]).title;
    g_.strands.push_back(w);
    g_.dots.push_back({{x, r.to}, w.shade, false});
    g_.ports.push_back({x, r.to});
  }
  return x + (first ? 0 : 5);
}

double Shaper::place_outputs(double x) {
  double next = -1e9, most = 0;
  for (size_t k = 0; k < box_.outputs.size(); ++k) {
    const auto& wires = array(box_.outputs[k]).wires;
    std::vector<double> wanted;
    bool straight = true;
    for (size_t w = 0; w < wires.size(); ++w) {
      if (!passes(wires[w].axis)) continue;
      const double y = sources_of(wires[w].axis)->front().y;
      wanted.push_back(y - measure::pitch * static_cast<double>(w));
    }
    double first = 0;
    if (!wanted.empty()) {
      std::sort(wanted.begin(), wanted.end());
      first = wanted[(wanted.size() - 1) / 2];
    } else {
      std::vector<double> entering;
      for (const auto& [axis, sources] : axes_)
        if (enters(axis)) entering.push_back(sources.front().y);
      for (const Source& u : units_) entering.push_back(u.y);
      for (double y : entering) first += y / static_cast<double>(entering.size());
      if (box_.kind == Kind::Contract) first = (g_.in_y[0].back() + g_.in_y[1].front()) / 2;
      first -= measure::pitch * static_cast<double>(wires.size() - 1) / 2;
    }
    first = std::max(first, next);
    stack(k, first);
    for (size_t w = 0; w < wires.size(); ++w) {
      const double y = g_.out_y.back()[w];
      if (passes(wires[w].axis)) {
        const Source& s = sources_of(wires[w].axis)->front();
        if (std::abs(s.y - y) > 0.01) straight = false;
        most = std::max(most, std::abs(s.y - y));
      } else if (!leaves(wires[w].axis) || !enters(wires[w].axis)) {
        straight = false;
      }
    }
    g_.labelled.push_back(!straight || box_.kind == Kind::Contract);
    next = g_.out_y.back().back() + measure::pitch + measure::gap + 6;
  }
  bend_from_ = x;
  bend_to_ = most > 0.01 ? x + std::min(16 + most * 0.3, 44.0) : x;
  return bend_to_;
}

double Shaper::place_shape(double x) {
  if (box_.kind == Kind::Contract && box_.lines.empty()) return x + 3;
  double floor = -1e9;  // lowest passing wire
  for (size_t k = 0; k < box_.outputs.size(); ++k) {
    const auto& wires = array(box_.outputs[k]).wires;
    for (size_t w = 0; w < wires.size(); ++w)
      if (!leaves(wires[w].axis)) floor = std::max(floor, g_.out_y[k][w]);
  }
  // Wires that enter, at the heights that they come from where there is room.
  std::vector<Source> entering = units_;
  std::vector<Sym> axis_of(units_.size());
  for (const auto& [axis, sources] : axes_)
    if (enters(axis) && box_.kind != Kind::Contract)
      entering.push_back(sources.front()), axis_of.push_back(axis);
  std::vector<size_t> order(entering.size());
  for (size_t k = 0; k < order.size(); ++k) order[k] = k;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return entering[a].y < entering[b].y; });
  size_t leaving = 0;
  for (int a : box_.outputs)
    for (const DiagramWire& w : array(a).wires) leaving += leaves(w.axis) ? 1 : 0;

  double width = text_block_width() + 12, height = measure::line * static_cast<double>(box_.lines.size()) + 6;
  const size_t ports = std::max(entering.size(), leaving);
  switch (box_.kind) {
    case Kind::Normalise:
      width = 20;
      height = 20;
      break;
    case Kind::Reindex: width += 14; break;
    case Kind::Pick: width += 12; break;
    case Kind::Linear: width += 6; break;
    case Kind::Mask: width += 12; break;
    default: break;
  }
  width = std::max(width, 18.0);
  if (ports > 1) height = std::max(height, measure::pitch * static_cast<double>(ports - 1) + 10);
  double top;
  if (floor > -1e8) {
    top = floor + 5;
    if (!entering.empty() && box_.kind != Kind::Normalise) {
      // Lower where what enters comes from below.
      double middle = 0;
      for (const Source& s : entering) middle += s.y / static_cast<double>(entering.size());
      top = std::max(top, middle - height / 2);
    }
    if (box_.kind == Kind::Normalise && !entering.empty())
      top = std::max(floor + 3, entering[order[0]].y - height / 2);
  } else {
    double middle = 0;
    for (const Source& s : entering) middle += s.y / static_cast<double>(entering.size());
    if (entering.empty() && !g_.out_y.empty()) middle = (g_.out_y[0].front() + g_.out_y[0].back()) / 2;
    if (entering.size() > 1) {  // tall enough for its wires to come in straight, within reason
      const double low = entering[order.front()].y, high = entering[order.back()].y;
      if (high - low < 64) {
        middle = (low + high) / 2;
        height = std::max(height, high - low + 12);
      }
    }
    top = middle - height / 2;
  }
  std::vector<double> port(entering.size());
  double last = -1e9, most = 0;
  for (size_t n = 0; n < order.size(); ++n) {
    const size_t k = order[n];
    const double rest = measure::pitch * static_cast<double>(order.size() - 1 - n);
    double y = std::clamp(entering[k].y, top + 5, std::max(top + 5, top + height - 5 - rest));
    if (box_.kind == Kind::Normalise && order.size() == 1) y = top + height / 2;
    y = std::max(y, last + 8);
    last = port[k] = y;
    most = std::max(most, std::abs(y - entering[k].y));
  }
  height = std::max(height, last > -1e8 ? last + 5 - top : 0);
  if (most > 0.01) bend_to_ = std::max(bend_to_, bend_from_ + std::min(14 + most * 0.35, 44.0));
  x = std::max(x, bend_to_) + 3;
  g_.shaped = true;
  g_.shape = {x, top, width, height};
  put_text(box_.kind == Kind::Mask ? 5 : box_.kind == Kind::Pick ? 4 : 0);
  for (size_t k = 0; k < entering.size(); ++k) {
    PictureWire w;
    w.shade = shade_of(entering[k].input);
    w.unit = !axis_of[k];
    w.path.start = {0, entering[k].y};
    w.path.line({bend_from_, entering[k].y});
    w.path.bend({bend_to_, port[k]});
    double edge = x;
    if (box_.kind == Kind::Reindex || box_.kind == Kind::Pick) {
      const double out = std::abs(port[k] - (top + height / 2)) / (height / 2);
      edge += (box_.kind == Kind::Reindex ? 7 : 10) * out;
    }
    w.path.line({edge, port[k]});
    w.title = array(box_.inputs[entering[k].input]).title;
    g_.strands.push_back(w);
    g_.ports.push_back({edge, port[k]});
    if (axis_of[k]) entered_[axis_of[k]] = port[k];
  }
  return x + width;
}

void Shaper::finish(double x) {
  struct Leaving {
    size_t output, wire;
    double from, to;
  };
  std::vector<Leaving> leaving;
  double most = 0;
  size_t made = 0;
  for (size_t k = 0; k < box_.outputs.size(); ++k)
    for (const DiagramWire& w : array(box_.outputs[k]).wires) made += leaves(w.axis) ? 1 : 0;
  size_t n = 0;
  for (size_t k = 0; k < box_.outputs.size(); ++k) {
    const auto& wires = array(box_.outputs[k]).wires;
    for (size_t w = 0; w < wires.size(); ++w) {
      if (!leaves(wires[w].axis)) continue;
      double y = g_.out_y[k][w];
      if (g_.shaped) {
        const double low = g_.shape.y + 5, high = g_.shape.bottom() - 5;
        const auto it = entered_.find(wires[w].axis);
        const double rest = measure::pitch * static_cast<double>(made - 1 - n);
        y = made == 1 && it != entered_.end() ? it->second
            : made == 1                       ? std::clamp(y, low, high)
                                              : std::clamp(y, low + measure::pitch * static_cast<double>(n),
                                                           std::max(low + measure::pitch * static_cast<double>(n), high - rest));
        if (box_.kind == Kind::Normalise && made == 1) y = g_.shape.y + g_.shape.height / 2;
      }
      ++n;
      leaving.push_back({k, w, y, g_.out_y[k][w]});
      most = std::max(most, std::abs(y - g_.out_y[k][w]));
    }
  }
  const double after = most > 0.01 ? std::min(12 + most * 0.3, 40.0) : (g_.shaped ? 4 : 0);
  g_.width = x + after;
  for (const Leaving& l : leaving) {
    const DiagramArray& out = array(box_.outputs[l.output]);
    PictureWire w;
    w.shade = out.shade;
    w.unit = !out.wires[l.wire].axis;
    double edge = x;
    if (box_.kind == Kind::Reindex && g_.shaped)
      edge -= 7 * std::abs(l.from - (g_.shape.y + g_.shape.height / 2)) / (g_.shape.height / 2);
    w.path.start = {edge, l.from};
    w.path.line({x, l.from});
    w.path.bend({g_.width, l.to});
    w.title = out.title;
    g_.strands.push_back(w);
    g_.ports.push_back({edge, l.from});
  }
  for (size_t k = 0; k < box_.outputs.size(); ++k) {
    const DiagramArray& out = array(box_.outputs[k]);
    for (size_t w = 0; w < out.wires.size(); ++w) {
      const Sym axis = out.wires[w].axis;
      if (leaves(axis)) continue;
      PictureWire strand;
      strand.title = out.title;
      if (const auto* sources = passes(axis) ? sources_of(axis) : nullptr) {
        strand.shade = shade_of(sources->front().input);
        strand.path.start = {0, sources->front().y};
        strand.path.line({bend_from_, sources->front().y});
        strand.path.bend({bend_to_, g_.out_y[k][w]});
      } else {
        strand.shade = out.shade;
        const double from = std::max(2.0, bend_to_ - 2);
        strand.path.start = {from, g_.out_y[k][w]};
        g_.dots.push_back({strand.path.start, out.shade, true});
        g_.ports.push_back(strand.path.start);
      }
      strand.path.line({g_.width, g_.out_y[k][w]});
      g_.strands.push_back(strand);
    }
  }
}

}  // namespace tilewright
