// One box by itself: where its wires enter and leave, how they run inside, where its shape stands.
#pragma once
#include "tilewright/diagram/layout.h"

namespace tilewright {

namespace measure {
constexpr double pitch = 13;   ///< between wires of an array
constexpr double gap = 11;     ///< more than that between arrays
constexpr double code = 9.5;   ///< sizes of fonts
constexpr double line = 11.5;  ///< between lines of code
constexpr double name = 11;
constexpr double type = 8.5;
constexpr double axis = 9;
constexpr double title = 12;
constexpr double note = 8.5;
constexpr double figure = 8.5;
constexpr double lowered = 0.75;  ///< size of lowered text
}  // namespace measure

/// Geometry relative to the box's left edge; y = 0 is anywhere.
struct BoxGeometry {
  double width = 0, top = 0, bottom = 0;
  std::vector<std::vector<double>> in_y, out_y;  ///< of each wire of each input and output
  std::vector<bool> labelled;                    ///< of each output: do its wires get their labels again?
  bool shaped = false;
  Rect shape;
  std::vector<PictureWire> strands;
  std::vector<PictureDot> dots;
  std::vector<PictureText> texts;
  std::vector<Path> bars;
  std::vector<Spot> ports;  ///< edges of the shape, joints
};

/// `starts`: heights of the first wire of each input; empty: one input below the other.
BoxGeometry geometry_of(const Diagram& d, const DiagramBox& box, const std::vector<double>& starts = {});
/// An array that continues in another row of the picture: its name, before (`begins`) or behind its wires.
BoxGeometry continuation(const Diagram& d, int array, bool begins, const std::string& name);

/// A text with its bounds; `at` is the left end of its baseline.
PictureText text_at(PictureText::Kind kind, Spot at, const std::string& text, const std::string& sub = "",
                    const std::string& tail = "");
double width_of(const DiagramWire& w);

}  // namespace tilewright
