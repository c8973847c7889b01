// Exact rationals over 64-bit integers. Overflow throws RationalOverflow (callers fall back to doubles).
#pragma once
#include <compare>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

namespace tilewright {

struct RationalOverflow : std::overflow_error {
  RationalOverflow() : std::overflow_error("rational overflow") {}
};

/// numerator/denominator in lowest terms, denominator > 0.
class Rational {
 public:
  Rational(int64_t n = 0) : num_(n) {}  // NOLINT: integers are rationals
  Rational(int64_t n, int64_t d);
  int64_t num() const { return num_; }
  int64_t den() const { return den_; }
  bool is_integer() const { return den_ == 1; }
  double value() const { return double(num_) / double(den_); }
  std::string str() const;  ///< "3", "-1/2"
  Rational operator-() const;
  friend Rational operator+(const Rational& a, const Rational& b);
  friend Rational operator-(const Rational& a, const Rational& b);
  friend Rational operator*(const Rational& a, const Rational& b);
  friend Rational operator/(const Rational& a, const Rational& b);  ///< b != 0
  friend bool operator==(const Rational& a, const Rational& b) = default;
  friend std::strong_ordering operator<=>(const Rational& a, const Rational& b);
  Rational floor() const;
  /// Exact value of a decimal literal such as "1e-5" or "0.25"; nullopt if it does not fit.
  static std::optional<Rational> parse(const std::string& decimal);

 private:
  int64_t num_ = 0, den_ = 1;
};

}  // namespace tilewright
