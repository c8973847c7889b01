// Contractions of the interpreter. Operands are read in pieces of level 2: each combination of pieces of the
// axes that one operand lacks reads that operand again, which is what is counted for operands at
// Level::Shared.
#include <algorithm>
#include <cstring>

#include "tilewright/tile/execute.h"
#include "tilewright/tile/statements.h"

namespace tilewright::interpreter {
namespace {

template <class T>
void add_scaled(T* acc, T x, const T* row, int64_t n) {
  typedef T Vector __attribute__((vector_size(32)));
  constexpr int64_t lanes = 32 / int64_t(sizeof(T));
  Vector factor = Vector{} + x;
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    Vector a, r;
    std::memcpy(&a, acc + i, sizeof a);
    std::memcpy(&r, row + i, sizeof r);
    a += factor * r;
    std::memcpy(acc + i, &a, sizeof a);
  }
  for (; i < n; ++i) acc[i] += x * row[i];
}

struct Range {
  int64_t lo = 0, hi = 0;
  int64_t size() const { return hi - lo; }
};

/// A part of an operand, packed row-major over `axes`.
template <class T>
struct Packed {
  std::vector<int> axes;
  std::vector<int64_t> strides;
  std::vector<T> values;
};

}  // namespace

void Kernel::prepare_dot(Code& c, const Dot& x) {
  const std::vector<Sym>& target = k_.tile(x.tile).axes;
  const std::vector<Sym>&a = k_.tile(x.a).axes, &b = k_.tile(x.b).axes;
  for (Sym s : domain(k_, *c.stmt))
    TW_CHECK(contains_axis(a, s) || contains_axis(b, s), "a dot ranges over axes of its operands");
  Sym along;
  for (Sym s : target)
    if (contains_axis(b, s) && !contains_axis(a, s)) along = s, c.vector_operand = 1;
  if (!along)
    for (Sym s : target)
      if (contains_axis(a, s) && !contains_axis(b, s)) along = s, c.vector_operand = 0;
  if (along) c.vector_axis = axis_number_.at(along);
  if (!x.present) return;
  c.present_along_vector = along && depends_on(x.present, along);
  for (Sym t : tiles_read(k_, x.present))
    c.present_along_vector = c.present_along_vector || (along && contains_axis(k_.tile(t).axes, along));
  // The strip of the condition runs along the vector axis if it varies there, else along the last reduced
  // one.
  std::vector<int> order = c.domain;
  const int strip = c.present_along_vector ? c.vector_axis : c.domain.back();
  order.erase(std::find(order.begin(), order.end(), strip));
  order.push_back(strip);
  c.plain = program(x.present, order, nullptr);
}

void Kernel::execute(Code& c, const Dot& x, bool masked) {
  if (k_.tile(x.tile).dtype == DType::f64)
    multiply<double>(c, x, masked);
  else
    multiply<float>(c, x, masked);
}

template <class T>
void Kernel::multiply(Code& c, const Dot& x, bool masked) {
  TileData& target = tiles_[size_t(tile_number_.at(x.tile))];
  const TileData* operand[2] = {&tiles_[size_t(tile_number_.at(x.a))], &tiles_[size_t(tile_number_.at(x.b))]};
  const bool test = masked && x.present;
  if (!x.accumulate) each(target.axes, [&] { target.set(offset(target), 0); });

  // Ranges of the piece under way, by position in the domain.
  const std::vector<int>& domain = c.domain;
  std::vector<Range> range(domain.size());
  auto has = [](const TileData& d, int axis) {
    return std::find(d.axes.begin(), d.axes.end(), axis) != d.axes.end();
  };
  auto range_of = [&](int axis) -> const Range& {
    return range[size_t(std::find(domain.begin(), domain.end(), axis) - domain.begin())];
  };

  Packed<T> packed[2];
  for (int o = 0; o < 2; ++o) {
    packed[o].axes = operand[o]->axes;
    auto along = std::find(packed[o].axes.begin(), packed[o].axes.end(), c.vector_axis);
    if (along != packed[o].axes.end()) std::rotate(along, along + 1, packed[o].axes.end());
  }
  auto pack = [&](int o) {
    Packed<T>& p = packed[o];
    const TileData& d = *operand[o];
    int64_t elements = 1;
    p.strides.assign(p.axes.size(), 1);
    for (size_t i = p.axes.size(); i-- > 0;) {
      p.strides[i] = elements;
      elements *= range_of(p.axes[i]).size();
    }
    p.values.resize(size_t(elements));
    const int64_t width = d.tile->level == Level::Shared ? bytes(d.tile->dtype) : 0;
    T* out = p.values.data();
    auto copy = [&](auto& self, size_t i, int64_t at) -> void {
      if (i == p.axes.size()) {
        *out++ = T(d.get(at));
        shared_->loaded += width;
        return;
      }
      const Range& r = range_of(p.axes[i]);
      const int64_t stride = d.stride_of(p.axes[i]);
      for (int64_t k = r.lo; k < r.hi; ++k) self(self, i + 1, at + k * stride);
    };
    copy(copy, 0, 0);
  };
  auto packed_at = [&](int o) {
    int64_t at = 0;
    for (size_t i = 0; i < packed[o].axes.size(); ++i) {
      const int axis = packed[o].axes[i];
      if (axis != c.vector_axis) at += (axes_[size_t(axis)].at - range_of(axis).lo) * packed[o].strides[i];
    }
    return packed[o].values.data() + at;
  };

  std::vector<int> rows = target.axes, reduced = numbers(x.axes);
  rows.erase(std::remove(rows.begin(), rows.end(), c.vector_axis), rows.end());
  std::vector<int> outer_reduced(reduced.begin(), reduced.end() - (reduced.empty() ? 0 : 1));
  std::vector<int> present_domain = domain;
  if (test) {
    const int strip = c.present_along_vector ? c.vector_axis : domain.back();
    present_domain.erase(std::find(present_domain.begin(), present_domain.end(), strip));
    present_domain.push_back(strip);
  }
  auto over = [&](auto& self, const std::vector<int>& axes, size_t i, const auto& f) -> void {
    if (i == axes.size()) return f();
    const Range& r = range_of(axes[i]);
    for (int64_t k = r.lo; k < r.hi; ++k) {
      place(axes[i], k);
      self(self, axes, i + 1, f);
    }
  };

  std::vector<T> row;
  std::vector<double> along;
  auto piece = [&] {
    for (const Range& r : range)
      if (r.size() == 0) return;
    pack(0);
    pack(1);
    const int64_t n = c.vector_axis < 0 ? 1 : range_of(c.vector_axis).size();
    const int64_t n_lo = c.vector_axis < 0 ? 0 : range_of(c.vector_axis).lo;
    const int v = c.vector_operand;
    const int64_t step = c.vector_axis < 0 ? 0 : target.stride_of(c.vector_axis);
    row.resize(size_t(n));
    over(over, rows, 0, [&] {
      if (c.vector_axis >= 0) place(c.vector_axis, n_lo);
      const int64_t at = offset(target);
      // The products of a piece are summed first: two short chains round less than one long one.
      std::fill(row.begin(), row.end(), T(0));
      auto term = [&] {
        const T left = *packed_at(1 - v);
        const T* right = packed_at(v);
        if (!test || !c.present_along_vector) return add_scaled(row.data(), left, right, n);
        for (int64_t first = 0; first < n; first += strip_length) {
          const int64_t count = std::min(strip_length, n - first);
          place(c.vector_axis, n_lo + first);
          const double* present = evaluate(c.plain, present_domain, count);
          for (int64_t i = 0; i < count; ++i)
            if (present[c.plain.uniform() ? 0 : i] != 0) row[size_t(first + i)] += left * right[first + i];
        }
      };
      if (reduced.empty()) return term();
      over(over, outer_reduced, 0, [&] {
        const int last = reduced.back();
        const Range& r = range_of(last);
        for (int64_t first = r.lo; first < r.hi; first += strip_length) {
          const int64_t count = std::min(strip_length, r.hi - first);
          if (test && !c.present_along_vector) {
            place(last, first);
            const double* present = evaluate(c.plain, present_domain, count);
            along.assign(present, present + (c.plain.uniform() ? 1 : count));
          }
          for (int64_t k = 0; k < count; ++k) {
            if (test && !c.present_along_vector && along[c.plain.uniform() ? 0 : size_t(k)] == 0) continue;
            place(last, first + k);
            term();
          }
        }
      });
      for (int64_t i = 0; i < n; ++i)
        target.set(at + i * step, double(T(target.get(at + i * step)) + row[size_t(i)]));
    });
  };
  auto pieces = [&](auto& self, size_t i) -> void {
    if (i == domain.size()) return piece();
    const AxisState& s = axes_[size_t(domain[i])];
    const bool cut = !has(*operand[0], domain[i]) || !has(*operand[1], domain[i]);
    const int64_t size = cut ? std::max<int64_t>(s.axis->piece, 1) : std::max<int64_t>(s.length, 1);
    for (int64_t lo = 0; lo < s.length; lo += size) {
      range[i] = {lo, std::min(lo + size, s.length)};
      self(self, i + 1);
    }
  };
  pieces(pieces, 0);
}

}  // namespace tilewright::interpreter
