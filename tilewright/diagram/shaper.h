// One box on its way to a geometry: names at ends and boxes at which every wire ends (shape.cc), boxes that axes pass (shape_mapped.cc).
#pragma once
#include <map>

#include "tilewright/diagram/arrange.h"
#include "tilewright/diagram/shape.h"

namespace tilewright {

class Shaper {
 public:
  Shaper(const Diagram& d, const DiagramBox& box, const std::vector<double>& starts)
      : d_(d), box_(box), starts_(starts) {}
  BoxGeometry run();

 private:
  using Kind = DiagramBox::Kind;

  /// A wire of an input, and its height.
  struct Source {
    size_t input, wire;
    double y;
  };

  const DiagramArray& array(int a) const { return d_.arrays[static_cast<size_t>(a)]; }
  bool enters(Sym axis) const { return !axis || holds(box_.enters, axis); }
  bool leaves(Sym axis) const { return !axis || holds(box_.leaves, axis); }
  bool passes(Sym axis) const { return axis && !enters(axis) && !leaves(axis) && sources_of(axis); }
  const std::vector<Source>* sources_of(Sym axis) const {
    for (const auto& [s, sources] : axes_)
      if (s == axis) return &sources;
    return nullptr;
  }
  Shade shade_of(size_t input) const {
    return box_.shade == Shade::Matrix ? Shade::Matrix : array(box_.inputs[input]).shade;
  }

  void inputs();
  void stack(size_t output, double first);
  void extents();

  // names at the ends
  void source();
  void sink();
  /// The lines of the box as texts without a place, and the width of the widest.
  std::vector<PictureText> names(double& width) const;
  void bar(double x, double from, double to);
  void place_beside(std::vector<PictureText>& lines, const std::vector<double>& ys, bool before);

  // boxes at which every wire ends
  void opaque();
  double text_block_width() const;
  /// The text in the middle of the shape, `shift` further right than its middle.
  void put_text(double shift = 0);

  // boxes that axes pass, from left to right: each part is given the x behind the one before
  void mapped();
  void find_sources();
  /// Summed axes of a contraction: two wires and the curve between them.
  double cups();
  /// Wires of further inputs join those of the first.
  double risers(double x);
  double place_outputs(double x);
  double place_shape(double x);
  /// What leaves the shape, what passes and what begins.
  void finish(double x);

  const Diagram& d_;
  const DiagramBox& box_;
  const std::vector<double>& starts_;
  BoxGeometry g_;
  std::vector<std::pair<Sym, std::vector<Source>>> axes_;  ///< in order of occurrence
  std::vector<Source> units_;
  std::map<Sym, double> entered_;
  double bend_from_ = 0, bend_to_ = 0;
};

}  // namespace tilewright
