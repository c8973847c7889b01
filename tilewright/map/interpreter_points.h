// Inside of the interpreter of mapped programs: ops over points and the frames they run in.
#pragma once
#include <algorithm>

#include "tilewright/map/interpreter_runner.h"

namespace tilewright::emulation {

/// Origins and extents of an op; index symbols of the frame have their origin as value while it lives.
struct Runner::FrameScope {
  FrameScope(Runner& runner, RoleState& role, const Frame& frame);
  ~FrameScope();
  FrameScope(const FrameScope&) = delete;
  double origin(Sym axis) const;
  std::optional<int64_t> extent(Sym axis) const;
  std::vector<double> origins(const std::vector<Sym>& axes) const;

  Runner& runner;
  RoleState& role;
  std::vector<std::pair<Sym, int64_t>> extents;
  struct Saved {
    int slot;
    bool known;
    double value;
  };
  std::vector<Saved> saved;
};

/// Calls commit(point, lane) for each point that is computed; results are in the program's outputs at `lane`.
template <class F>
void Runner::run_points(RoleState& r, PointOp& op, const FrameScope& frame, F commit) {
  for (size_t first = 0; first < op.points.size(); first += PointProgram::lanes) {
    size_t n = std::min(PointProgram::lanes, op.points.size() - first);
    const uint8_t* active = op.active.empty() ? nullptr : op.active.data() + first;
    if (active && std::find(active, active + n, 1) == active + n) continue;
    if (auto bad =
            op.program->run(first, n, active, [&](size_t p) { return inside_arrays(r, op, frame, p); }))
      bad_read(r, op, frame, *bad);
    for (size_t k = 0; k < n; ++k)
      if (!active || active[k]) commit(first + k, k);
  }
}

/// Calls visit(coords, row-major number) for every coordinate of a tile.
template <class F>
void for_each_coordinate(const std::vector<int64_t>& shape, F visit) {
  int64_t n = 1;
  for (int64_t extent : shape) n *= extent;
  std::vector<int64_t> coords(shape.size(), 0);
  for (int64_t k = 0; k < n; ++k) {
    visit(coords, k);
    for (size_t a = coords.size(); a-- > 0;) {
      if (++coords[a] < shape[a]) break;
      coords[a] = 0;
    }
  }
}

/// Row-major number in a tile with axes `to` of a coordinate over axes `from` (which has them all).
class Projection {
 public:
  Projection(const std::vector<Sym>& from, const std::vector<Sym>& to, const std::vector<int64_t>& shape);
  int64_t operator()(const std::vector<int64_t>& coords) const {
    int64_t at = 0;
    for (auto [axis, stride] : terms_) at += coords[axis] * stride;
    return at;
  }

 private:
  std::vector<std::pair<size_t, int64_t>> terms_;
};

}  // namespace tilewright::emulation
