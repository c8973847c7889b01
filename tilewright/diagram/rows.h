// The graph that one row of a picture shows: boxes, names of arrays that come from or go to other rows, and arrays that
// pass beside the boxes of a column.
#pragma once
#include <functional>

#include "tilewright/diagram/shape.h"

namespace tilewright {

struct RowVertex {
  int box = -1;    ///< of the diagram; -1: a name, or an array that passes
  int array = -1;  ///< of a name or of what passes
  bool passes = false;
  int column = 0;  ///< within the row
  BoxGeometry g;
  std::vector<int> in_arrays, out_arrays;
  double y = 0;  ///< of the origin of its geometry
  double x = 0;  ///< left edge
};

/// From output `from_port` of a vertex to input `to_port` of one in the next column.
struct RowEdge {
  int from = 0, from_port = 0, to = 0, to_port = 0;
};

struct Row {
  int first = 0;  ///< column of the diagram that column 0 is
  int begin = 0,
      end =
          0;  ///< columns of the diagram that are its own; beside them stand names of arrays that come or go on
  std::vector<RowVertex> vertices;
  std::vector<RowEdge> edges;
  std::vector<std::vector<int>> columns;  ///< vertices, top to bottom
  double port_y(const RowEdge& e, bool at_end, size_t wire) const;
  /// Of each vertex the numbers of its edges, in their order.
  std::vector<std::vector<size_t>> edges_of_vertices() const;
  size_t wires(const RowEdge& e, const Diagram& d) const;
};

/// Cuts a diagram into rows of at most `room` pixels: few, where few and named arrays go on, of about equal length. `place` gives a row its
/// order and heights and returns its width.
std::vector<Row> rows_of(const Diagram& d, double room, const std::function<double(Row&)>& place);

/// Reorders the columns so that few wires cross: barycentre sweeps, the best order met is kept.
void reduce_crossings(const Diagram& d, Row& row);

/// Moves the inputs of boxes apart, and functions' inputs among each other, to where their arrays come from. Needs heights.
/// `given`: also to where what is given to the row stands, which else follows.
void align_inputs(const Diagram& d, Row& row, bool given);

/// Heights: straight wires where nothing overlaps. Columns are placed in turn against their neighbours, each by a weighted
/// isotonic median.
void place_heights(const Diagram& d, Row& row);

/// Moves parts of the row that no wire joins towards each other, as far as the order in every column allows.
void close_gaps(Row& row);

}  // namespace tilewright
