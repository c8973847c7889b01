#include "tilewright/driver/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "tilewright/reference/reference.h"
#include "tilewright/support/error.h"

namespace tilewright {

namespace {

/// Same kind of non-finite value (or both finite).
bool same_kind(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return true;
}

}  // namespace

Comparison compare(const std::vector<double>& out, const std::vector<double>& ref,
                   const std::vector<double>& naive, DType dtype, const std::vector<double>& ties,
                   const std::vector<double>& by_keys) {
  TW_CHECK(out.size() == ref.size() && out.size() == naive.size(), "compared lists differ in length");
  TW_CHECK(ties.empty() || ties.size() == ref.size(), "compared lists differ in length");
  TW_CHECK(by_keys.empty() || by_keys.size() == ref.size(), "compared lists differ in length");
  Comparison c;
  c.elements = static_cast<int64_t>(out.size());
  if (!is_float(dtype)) {
    for (size_t k = 0; k < out.size(); ++k)
      if (out[k] != round_to(dtype, ref[k]) && (by_keys.empty() || out[k] != round_to(dtype, by_keys[k])) &&
          (ties.empty() || out[k] != round_to(dtype, ties[k]))) {
        c.error = std::fabs(out[k] - ref[k]);
        c.worst = static_cast<int64_t>(k);
        c.reason = "integers and booleans must be equal";
        return c;
      }
    c.passed = true;
    return c;
  }
  double naive_error = 0, tie_error = 0, spacing = 0, squares = 0;
  int64_t finite = 0;
  int64_t mismatch = -1;
  for (size_t k = 0; k < out.size(); ++k) {
    const double r = round_to(dtype, ref[k]);
    c.not_finite += !std::isfinite(r);
    if (!same_kind(out[k], r)) {
      if (mismatch < 0) mismatch = static_cast<int64_t>(k);
      continue;
    }
    if (!std::isfinite(r)) continue;
    squares += ref[k] * ref[k], ++finite;
    const double error = std::fabs(out[k] - ref[k]);
    if (error > c.error || c.worst < 0) {
      c.error = std::max(c.error, error);
      c.worst = static_cast<int64_t>(k);
    }
    if (std::isfinite(naive[k])) naive_error = std::max(naive_error, std::fabs(naive[k] - ref[k]));
    if (!ties.empty() && std::isfinite(ties[k])) tie_error = std::max(tie_error, std::fabs(ties[k] - ref[k]));
    // The dtype's resolution at this magnitude, as a sum and a difference of 0.3 show it. The addends are rounded as the dtype would.
    const double third = round_to(dtype, 0.3);
    const double back = round_to(dtype, round_to(dtype, r + third) - third);
    if (std::isfinite(back)) spacing = std::max(spacing, std::fabs(back - r));
    // Few elements may all happen to survive that: half a unit in the last place is the least of it.
    spacing = std::max(spacing, std::fabs(r) * std::ldexp(1.0, -1 - mantissa_bits(dtype)));
  }
  c.tolerance = 2 * naive_error + tie_error + 2 * spacing;
  c.usual = finite > 0 ? std::sqrt(squares / double(finite)) : 0;
  if (mismatch >= 0) {
    c.worst = mismatch;
    c.reason = "a non-finite value differs in kind or place";
    return c;
  }
  c.passed = c.error <= c.tolerance;
  if (!c.passed) c.reason = "the error exceeds the tolerance";
  return c;
}

bool rounds_intermediates(const Program& p) {
  const auto narrow = [](DType t) { return is_float(t) && mantissa_bits(t) < mantissa_bits(DType::f32); };
  for (const Definition& d : p.definitions) {
    if (d.dtype && narrow(*d.dtype)) return true;
    bool casts = false;
    rewrite(d.value, [&](Expr e) {
      casts = casts || (e.is(Op::Cast) && narrow(e->dtype)) || rounds_to_integer(p, e);
      return e;
    });
    if (casts) return true;
  }
  return false;
}

std::vector<std::vector<int64_t>> sample_indices(const std::vector<int64_t>& shape,
                                                 const std::vector<int64_t>& steps, int64_t count,
                                                 uint64_t seed) {
  TW_CHECK(shape.size() == steps.size(), "one step for each axis");
  std::vector<std::vector<int64_t>> sample;
  std::set<std::vector<int64_t>> seen;
  for (int64_t n : shape)
    if (n == 0) return sample;
  auto add = [&](std::vector<int64_t> index) {
    if (static_cast<int64_t>(sample.size()) < count && seen.insert(index).second)
      sample.push_back(std::move(index));
  };
  std::vector<int64_t> last;
  for (int64_t n : shape) last.push_back(n - 1);
  add(std::vector<int64_t>(shape.size(), 0));
  add(last);
  std::mt19937_64 random(seed);
  auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  auto anywhere = [&] {
    std::vector<int64_t> index;
    for (int64_t n : shape) index.push_back(below(n));
    return index;
  };
  // Both sides of tile edges: the first, the last, and random ones, with the other coordinates random.
  for (size_t k = 0; k < shape.size(); ++k) {
    if (steps[k] <= 1 || steps[k] >= shape[k]) continue;
    const int64_t tiles = (shape[k] + steps[k] - 1) / steps[k];
    for (int64_t tile : {int64_t{1}, tiles - 1, 1 + below(tiles - 1), 1 + below(tiles - 1)})
      for (int64_t side : {int64_t{-1}, int64_t{0}}) {
        std::vector<int64_t> index = anywhere();
        index[k] = std::min(tile * steps[k] + side, shape[k] - 1);
        add(index);
      }
  }
  for (int64_t tries = 0; tries < 20 * count && static_cast<int64_t>(sample.size()) < count; ++tries)
    add(anywhere());
  return sample;
}

}  // namespace tilewright
