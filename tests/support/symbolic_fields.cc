#include "tests/support/symbolic_fields.h"

#include <cmath>
#include <optional>

namespace tilewright::testing::symbolic {
namespace {

using Wide = unsigned __int128;

/// p/q = x up to rounding, with a small q.
std::optional<Rational> as_fraction(double x) {
  if (!std::isfinite(x) || std::fabs(x) > 1e9) return std::nullopt;
  double rest = std::fabs(x);
  int64_t p0 = 0, q0 = 1, p1 = 1, q1 = 0;
  for (int k = 0; k < 40; ++k) {
    const double whole = std::floor(rest);
    const int64_t p = int64_t(whole) * p1 + p0, q = int64_t(whole) * q1 + q0;
    if (q > 1000000 || p > int64_t{1} << 40) return std::nullopt;
    p0 = p1, q0 = q1, p1 = p, q1 = q;
    if (std::fabs(double(p) / double(q) - std::fabs(x)) <= 2e-15 * std::fabs(x))
      return Rational(x < 0 ? -p : p, q);
    rest = 1 / (rest - whole);
  }
  return std::nullopt;
}

}  // namespace

uint64_t mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

uint64_t times(uint64_t a, uint64_t b, uint64_t m) { return uint64_t(Wide(a) * b % m); }
uint64_t plus(uint64_t a, uint64_t b, uint64_t m) { return uint64_t((Wide(a) + b) % m); }
uint64_t raised(uint64_t a, uint64_t n, uint64_t m) {
  uint64_t x = 1;
  for (; n > 0; n >>= 1, a = times(a, a, m))
    if (n & 1) x = times(x, a, m);
  return x;
}
uint64_t inverse(uint64_t a, uint64_t m) { return raised(a, m - 2, m); }

namespace {

bool is_prime(uint64_t n) {  // Miller and Rabin; the bases decide below 2^64
  for (uint64_t d : {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37})
    if (n % d == 0) return n == d;
  uint64_t odd = n - 1;
  int twos = 0;
  while (odd % 2 == 0) odd /= 2, ++twos;
  for (uint64_t base : {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37}) {
    uint64_t x = raised(base, odd, n);
    if (x == 1 || x == n - 1) continue;
    bool composite = true;
    for (int k = 1; k < twos && composite; ++k) composite = (x = times(x, x, n)) != n - 1;
    if (composite) return false;
  }
  return true;
}

}  // namespace

Fields::Fields() {
  const auto square = [](uint64_t a, uint64_t m) { return raised(a, (m - 1) / 2, m) == 1; };
  for (q = (uint64_t{1} << 60) + 3;; q += 4) {
    p = 2 * q + 1;
    if (!is_prime(q) || !is_prime(p)) continue;
    bool all = true;
    for (uint64_t a : {2, 3, 5}) all = all && square(a, p) && square(a, q);
    if (all) return;
  }
}
const Fields& fields() {
  static const Fields f;
  return f;
}

uint64_t root(uint64_t a, uint64_t m) { return raised(a, (m + 1) / 4, m); }

namespace {

uint64_t of_integer(int64_t n, uint64_t m) { return n >= 0 ? uint64_t(n) % m : m - uint64_t(-n) % m; }
uint64_t of_fraction(const Rational& r, uint64_t m) {
  return times(of_integer(r.num(), m), inverse(of_integer(r.den(), m), m), m);
}
/// log 2, of which nothing is known but that it is a number.
uint64_t log_two(uint64_t m) { return mixed(m) % m; }

}  // namespace

uint64_t of_number(double x, uint64_t m) {
  if (!std::isfinite(x)) return 0;
  if (x == std::floor(x) && std::fabs(x) < 1e15) return of_integer(int64_t(x), m);
  const double log2 = std::log(2.0);
  for (int power : {0, 1, -1}) {
    const double rest = power == 0 ? x : power > 0 ? x / log2 : x * log2;
    const uint64_t factor = power == 0 ? 1 : power > 0 ? log_two(m) : inverse(log_two(m), m);
    if (const auto r = as_fraction(rest)) return times(of_fraction(*r, m), factor, m);
    if (const auto r = as_fraction(rest * rest)) {
      const uint64_t whole =
          times(root(of_integer(r->num(), m), m), inverse(root(of_integer(r->den(), m), m), m), m);
      return times(rest < 0 ? m - whole : whole, factor, m);
    }
  }
  return mixed(uint64_t(std::llround(x * 1e12)) ^ m) % m;
}

SymbolicValue sum(const SymbolicValue& a, const SymbolicValue& b) {
  const auto [p, q, g] = fields();
  return {a.value + b.value, plus(a.image, b.image, p), plus(a.exponent, b.exponent, q)};
}
SymbolicValue product(const SymbolicValue& a, const SymbolicValue& b) {
  const auto [p, q, g] = fields();
  return {a.value * b.value, times(a.image, b.image, p), times(a.exponent, b.exponent, q)};
}
SymbolicValue exponential(const SymbolicValue& a) {
  const auto [p, q, g] = fields();
  const double x = std::exp(a.value);
  if (x == 0) return {};
  return {x, raised(g, a.exponent, p), mixed(a.exponent) % q};
}

}  // namespace tilewright::testing::symbolic
