#include "tilewright/hardware/layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "tilewright/support/error.h"

namespace tilewright {
namespace {

/// Joins digits that continue each other and sorts them, so that equal maps have equal digits: by axis, then by step (replicas: by stride).
std::vector<Digit> canonical(std::vector<Digit> digits) {
  std::erase_if(digits, [](const Digit& d) { return d.extent == 1; });
  std::sort(digits.begin(), digits.end(), [](const Digit& a, const Digit& b) {
    if (a.axis != b.axis) return a.axis < b.axis;
    return a.axis < 0 ? a.stride < b.stride : a.step < b.step;
  });
  std::vector<Digit> joined;
  for (Digit d : digits) {
    if (d.axis < 0) d.step = 0;
    if (!joined.empty()) {
      Digit& last = joined.back();
      bool continues = last.axis == d.axis && last.to == d.to && d.stride == last.stride * last.extent &&
                       (d.axis < 0 || d.step == last.step * last.extent);
      if (continues) {
        last.extent *= d.extent;
        continue;
      }
    }
    joined.push_back(d);
  }
  return joined;
}

/// Digits of one destination from the smallest stride to the largest.
std::vector<const Digit*> by_stride(const std::vector<Digit>& digits, Digit::To to) {
  std::vector<const Digit*> result;
  for (const Digit& d : digits)
    if (d.to == to) result.push_back(&d);
  std::sort(result.begin(), result.end(), [](auto* a, auto* b) { return a->stride < b->stride; });
  return result;
}

/// 1 + the largest sum of digit values times their strides.
int64_t span(const std::vector<Digit>& digits, Digit::To to) {
  int64_t most = 0;
  for (const Digit& d : digits)
    if (d.to == to) most += (d.extent - 1) * d.stride;
  return most + 1;
}

bool advance(std::vector<int64_t>& coords, const std::vector<int64_t>& shape) {
  for (size_t a = shape.size(); a-- > 0;) {
    if (++coords[a] < shape[a]) return true;
    coords[a] = 0;
  }
  return false;
}

}  // namespace

Layout::Layout(std::vector<int64_t> shape, std::vector<Digit> digits, Swizzle swizzle)
    : shape_(std::move(shape)), digits_(std::move(digits)), swizzle_(swizzle) {
  for (const Digit& d : digits_) {
    TW_CHECK(d.axis >= -1 && d.axis < int(shape_.size()),
             fmt::format("digit of axis {} in {} axes", d.axis, shape_.size()));
    TW_CHECK(d.extent >= 1 && (d.extent == 1 || d.stride >= 1),
             fmt::format("digit of extent {}, stride {}", d.extent, d.stride));
    TW_CHECK(d.axis >= 0 || d.to == Digit::To::Owner, "a replicated digit belongs to owners");
  }
  digits_ = canonical(std::move(digits_));
  for (size_t a = 0; a < shape_.size(); ++a) {
    int64_t covered = 1;
    for (const Digit& d : digits_) {
      if (d.axis != int(a)) continue;
      TW_CHECK(d.step == covered, fmt::format("axis {} of {}: a digit of step {} follows {} coordinates", a,
                                              str(), d.step, covered));
      covered *= d.extent;
    }
    TW_CHECK(covered == shape_[a],
             fmt::format("axis {} of {}: digits cover {} of {}", a, str(), covered, shape_[a]));
  }
  for (Digit::To to : {Digit::To::Owner, Digit::To::Offset}) {
    int64_t held = 1;
    for (const Digit* d : by_stride(digits_, to)) {
      TW_CHECK(d->stride >= held, fmt::format("digits of {} overlap at stride {}", str(), d->stride));
      held += (d->extent - 1) * d->stride;
    }
  }
  TW_CHECK(swizzle_.bits == 0 || swizzle_.shift >= swizzle_.bits,
           "a swizzle must not read the bits that it writes");
}

Layout Layout::row_major(std::vector<int64_t> shape) {
  std::vector<int> order(shape.size());
  for (size_t a = 0; a < shape.size(); ++a) order[a] = int(shape.size() - 1 - a);
  return strided(std::move(shape), order);
}

Layout Layout::strided(std::vector<int64_t> shape, std::vector<int> fastest_first, int64_t pad) {
  TW_CHECK(fastest_first.size() == shape.size(), "one place in the order for each axis");
  std::vector<Digit> digits;
  int64_t stride = 1;
  for (size_t k = 0; k < fastest_first.size(); ++k) {
    int axis = fastest_first[k];
    TW_CHECK(axis >= 0 && axis < int(shape.size()), fmt::format("axis {} of {}", axis, shape.size()));
    digits.push_back({axis, shape[axis], 1, Digit::To::Offset, stride});
    stride *= shape[axis];
    if (k == 0) stride += pad;
  }
  return Layout(std::move(shape), std::move(digits));
}

int64_t Layout::owners() const { return span(digits_, Digit::To::Owner); }

int64_t Layout::elements() const {
  int64_t n = span(digits_, Digit::To::Offset);
  if (swizzle_.bits == 0) return n;
  int64_t unit = int64_t(1) << (swizzle_.base + swizzle_.bits);  // a swizzle stays inside aligned units
  return (n + unit - 1) / unit * unit;
}

Place Layout::place(const std::vector<int64_t>& coords) const {
  TW_CHECK(coords.size() == shape_.size(), fmt::format("{} coordinates in {}", coords.size(), str()));
  Place p;
  for (const Digit& d : digits_) {
    if (d.axis < 0) continue;
    int64_t value = coords[d.axis] / d.step % d.extent;
    (d.to == Digit::To::Owner ? p.owner : p.offset) += value * d.stride;
  }
  p.offset = swizzle_.apply(p.offset);
  return p;
}

std::vector<Place> Layout::places(const std::vector<int64_t>& coords) const {
  std::vector<Place> result{place(coords)};
  for (const Digit& d : digits_) {
    if (d.axis >= 0) break;  // replicas come first
    size_t n = result.size();
    for (int64_t v = 1; v < d.extent; ++v)
      for (size_t k = 0; k < n; ++k) result.push_back({result[k].owner + v * d.stride, result[k].offset});
  }
  return result;
}

bool Layout::coords(Place p, std::vector<int64_t>& out) const {
  out.assign(shape_.size(), 0);
  if (p.owner < 0 || p.offset < 0) return false;
  p.offset = swizzle_.apply(p.offset);  // its own inverse
  for (Digit::To to : {Digit::To::Owner, Digit::To::Offset}) {
    int64_t rest = to == Digit::To::Owner ? p.owner : p.offset;
    auto order = by_stride(digits_, to);
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
      int64_t value = rest / (*it)->stride;
      if (value >= (*it)->extent) return false;
      rest -= value * (*it)->stride;
      if ((*it)->axis >= 0) out[(*it)->axis] += value * (*it)->step;
    }
    if (rest != 0) return false;
  }
  return true;
}

Layout Layout::reduce_axis(int axis) const {
  TW_CHECK(axis >= 0 && axis < int(shape_.size()), fmt::format("axis {} of {}", axis, str()));
  std::vector<int64_t> shape = shape_;
  shape.erase(shape.begin() + axis);
  std::vector<Digit> digits;
  int64_t next = 1;
  for (const Digit* d : by_stride(digits_, Digit::To::Offset)) {
    if (d->axis == axis) continue;
    digits.push_back(*d);
    digits.back().stride = next;
    next *= d->extent;
  }
  for (const Digit* d : by_stride(digits_, Digit::To::Owner)) {
    digits.push_back(*d);
    if (d->axis == axis) digits.back().axis = -1;
  }
  for (Digit& d : digits)
    if (d.axis > axis) --d.axis;
  return Layout(std::move(shape), std::move(digits));
}

int64_t Layout::contiguous(int axis) const {
  int64_t run = 1, others = 0;
  for (const Digit& d : digits_) {
    if (d.to != Digit::To::Offset) continue;
    if (d.axis == axis && d.step == 1 && d.stride == 1)
      run = d.extent;
    else
      others = std::gcd(others, d.stride);
  }
  if (run > 1 && swizzle_.bits > 0) run = std::gcd(std::gcd(run, others), int64_t(1) << swizzle_.base);
  return run;
}

int Layout::bank_conflicts(const std::vector<int64_t>& byte_offsets, int bytes_each) {
  TW_CHECK(bytes_each >= 1, "an access has bytes");
  constexpr int64_t banks = 32, word = 4;
  size_t together =
      size_t(std::clamp<int64_t>(banks * word / bytes_each, 1, 32));  // owners served in one pass
  size_t worst = 0;
  for (size_t first = 0; first < byte_offsets.size(); first += together) {
    std::set<int64_t> words[banks];
    for (size_t k = first; k < std::min(first + together, byte_offsets.size()); ++k)
      for (int64_t w = byte_offsets[k] / word; w <= (byte_offsets[k] + bytes_each - 1) / word; ++w)
        words[w % banks].insert(w);
    for (const auto& w : words) worst = std::max(worst, w.size());
  }
  return int(worst);
}

std::string Layout::str() const {
  std::string text = fmt::format("({})", fmt::join(shape_, ", "));
  for (const Digit& d : digits_) {
    std::string from = d.axis < 0    ? "replica"
                       : d.step == 1 ? fmt::format("{}", d.axis)
                                     : fmt::format("{}/{}", d.axis, d.step);
    text += fmt::format(" {}:{}{}{}", from, d.extent, d.to == Digit::To::Owner ? "@" : "*", d.stride);
  }
  if (swizzle_.bits > 0) text += fmt::format(" xor({},{},{})", swizzle_.bits, swizzle_.base, swizzle_.shift);
  return text;
}

Conversion classify(const Layout& from, const Layout& to) {
  TW_CHECK(from.shape() == to.shape(),
           fmt::format("layouts of different tiles: {} and {}", from.str(), to.str()));
  if (from == to) return Conversion::Identity;
  constexpr int64_t warp = 32;
  Conversion result = Conversion::Identity;
  std::vector<int64_t> coords(from.shape().size(), 0);
  do {
    std::vector<Place> held = from.places(coords);
    for (const Place& p : to.places(coords)) {
      auto same = [&](int64_t unit) {
        return std::any_of(held.begin(), held.end(),
                           [&](const Place& h) { return h.owner / unit == p.owner / unit; });
      };
      if (same(1)) continue;
      if (!same(warp)) return Conversion::Shared;
      result = Conversion::Lanes;
    }
  } while (advance(coords, from.shape()));
  return result;
}

}  // namespace tilewright
