// A diagram with a place for everything: what is drawn where, in pixels, y downwards.
#pragma once
#include "tilewright/diagram/diagram.h"
#include "tilewright/diagram/glyphs.h"

namespace tilewright {

struct Spot {
  double x = 0, y = 0;
};

/// A line or a cubic Bezier curve to `to`.
struct Stroke {
  bool curve = false;
  Spot a, b, to;
};

struct Path {
  Spot start;
  std::vector<Stroke> strokes;
  void line(Spot to);
  /// A curve that leaves and arrives horizontally.
  void bend(Spot to);
  Spot end() const { return strokes.empty() ? start : strokes.back().to; }
};

struct Rect {
  double x = 0, y = 0, width = 0, height = 0;
  double right() const { return x + width; }
  double bottom() const { return y + height; }
};

struct PictureText {
  enum class Kind : uint8_t {
    Title,   ///< of the picture
    Name,    ///< of an array
    Type,    ///< its dtype
    Axis,    ///< on a wire; `sub` is lowered, `tail` follows
    Code,    ///< inside a box
    Note,    ///< below the picture
    Figure,  ///< in the table under the columns
    Loop,    ///< how a loop runs
  };
  Kind kind = Kind::Code;
  Spot at;  ///< left end of the baseline
  std::string text, sub, tail;
  Rect bounds;
  Shade shade = Shade::Memory;
};

struct PictureWire {
  Path path;
  Shade shade = Shade::Memory;
  bool unit = false;  ///< the value of an array without axes: dotted
  std::string title;
};

struct PictureShape {
  DiagramBox::Kind kind = DiagramBox::Kind::Function;
  int box = -1;
  Rect at;
  Shade shade = Shade::Memory;
  std::string title;
};

struct PictureDot {
  Spot at;
  Shade shade = Shade::Memory;
  bool open = false;  ///< a wire begins: the value is repeated along it
};

/// A loop, or the part of it in one row of the picture.
struct PictureFrame {
  Rect at;
  bool begins = true, ends = true;
};

struct Picture {
  double width = 0, height = 0;
  std::vector<PictureFrame> frames;
  std::vector<Path> separators;  ///< dashed lines between arrays and between boxes side by side
  std::vector<Path> bars;        ///< where given arrays begin and results end; rules of the table
  std::vector<PictureWire> wires;
  std::vector<PictureDot> dots;
  std::vector<PictureShape> shapes;
  std::vector<PictureText> texts;
  std::vector<Spot> ports;  ///< where wires may begin and end
};

struct LayoutOptions {
  double width = 700;  ///< pixels; what is wider continues below, arrays that go on are named at both ends
};

/// Columns left to right, in rows of at most the asked width; within a row the order of boxes by barycentre sweeps, their
/// heights by weighted medians under the constraint that nothing overlaps.
Picture lay_out(const Diagram& d, const LayoutOptions& options = {});

}  // namespace tilewright
