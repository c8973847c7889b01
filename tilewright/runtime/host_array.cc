#include "tilewright/runtime/host_array.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "tilewright/support/error.h"

namespace tilewright {

namespace {

/// A counter-based generator: 64 random bits from (key, counter), by the finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
uint64_t random_bits(uint64_t key, uint64_t counter) {
  uint64_t z = key + (counter + 1) * 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

/// Uniform in (0, 1).
double uniform(uint64_t key, uint64_t counter) {
  return (static_cast<double>(random_bits(key, counter) >> 11) + 0.5) * 0x1p-53;
}

}  // namespace

int64_t HostArray::elements() const {
  int64_t n = 1;
  for (int64_t s : shape) n *= s;
  return n;
}

HostArray allocate(DType dtype, std::vector<int64_t> shape) {
  int64_t size = bytes(dtype);
  for (int64_t n : shape) {
    if (n > 0 && size > (int64_t{1} << 62) / n)
      throw UserError(Span{}, fmt::format("an array of shape [{}] overflows", fmt::join(shape, ", ")),
                      "use smaller sizes");
    size *= n;
  }
  HostArray a;
  a.dtype = dtype;
  a.shape = std::move(shape);
  const size_t rounded = (static_cast<size_t>(size) + 64) / 64 * 64;
  void* p = std::aligned_alloc(64, rounded);
  if (p == nullptr) throw std::bad_alloc();
  std::memset(p, 0, rounded);
  a.data = std::shared_ptr<void>(p, std::free);
  return a;
}

HostArray filled(DType dtype, std::vector<int64_t> shape, Fill fill, uint64_t seed, const std::string& name,
                 int64_t lo, int64_t hi) {
  HostArray a = allocate(dtype, std::move(shape));
  if (fill == Fill::Zeros) return a;
  const uint64_t key = XXH3_64bits_withSeed(name.data(), name.size(), seed);
  const int64_t n = a.elements();
  if (!is_float(dtype)) {
    if (n > 0 && hi <= lo)
      throw UserError(Span{}, fmt::format("input `{}` has the empty range [{}, {})", name, lo, hi),
                      "declare a range that holds a value");
    for (int64_t k = 0; k < n; ++k)
      store_element(dtype, a.data.get(), k,
                    static_cast<double>(lo + static_cast<int64_t>(random_bits(key, static_cast<uint64_t>(k)) %
                                                                  static_cast<uint64_t>(hi - lo))));
    return a;
  }
  for (int64_t k = 0; k < n; ++k) {
    double x = uniform(key, static_cast<uint64_t>(2 * (k / 2)));
    if (fill == Fill::Normal) {
      // Box and Muller: a pair of normal numbers from a pair of uniform ones.
      const double radius = std::sqrt(-2 * std::log(x)),
                   angle = 2 * M_PI * uniform(key, static_cast<uint64_t>(2 * (k / 2) + 1));
      x = k % 2 == 0 ? radius * std::cos(angle) : radius * std::sin(angle);
    } else if (k % 2 == 1) {
      x = uniform(key, static_cast<uint64_t>(k));
    }
    store_element(dtype, a.data.get(), k, x);
  }
  return a;
}

HostArray filled_within(DType dtype, std::vector<int64_t> shape, uint64_t seed, const std::string& name,
                        double lo, double hi) {
  const bool below = std::isfinite(lo), above = std::isfinite(hi);
  HostArray a = filled(dtype, std::move(shape), below && above ? Fill::Uniform : Fill::Normal, seed, name);
  if (!below && !above) return a;
  const int64_t n = a.elements();
  if (n > 0 && !(below ? least_from(dtype, lo) < hi : greatest_below(dtype, hi) >= lo))
    throw UserError(Span{},
                    fmt::format("input `{}` has the range [{}, {}), which holds no value of {}", name, lo, hi,
                                tilewright::name(dtype)),
                    "declare a range that holds a value");
  for (int64_t k = 0; k < n; ++k) {
    const double x = a.at(k);
    double value = below && above ? lo + x * (hi - lo) : below ? lo + std::fabs(x) : hi - std::fabs(x);
    value = round_to(dtype, value);
    if (!(value >= lo && value < hi))  // rounded out of it
      value = round_to(dtype, below && above ? lo / 2 + hi / 2 : below ? lo + 1 : hi - 1);
    if (!(value >= lo && value < hi)) value = below ? least_from(dtype, lo) : greatest_below(dtype, hi);
    store_element(dtype, a.data.get(), k, value);
  }
  return a;
}

}  // namespace tilewright
