#include "tilewright/support/rational.h"

#include <cctype>
#include <limits>

#include "tilewright/support/error.h"

namespace tilewright {
namespace {

using Wide = __int128;

int64_t narrow(Wide x) {
  if (x > std::numeric_limits<int64_t>::max() || x < -Wide(std::numeric_limits<int64_t>::max()))
    throw RationalOverflow();
  return int64_t(x);
}

Wide gcd(Wide a, Wide b) {
  if (a < 0) a = -a;
  if (b < 0) b = -b;
  while (b != 0) {
    Wide r = a % b;
    a = b;
    b = r;
  }
  return a;
}

Rational reduced(Wide n, Wide d) {
  if (d < 0) {
    n = -n;
    d = -d;
  }
  Wide g = gcd(n, d);
  if (g > 1) {
    n /= g;
    d /= g;
  }
  return Rational(narrow(n), narrow(d));
}

}  // namespace

Rational::Rational(int64_t n, int64_t d) : num_(n), den_(d) {
  TW_CHECK(d != 0, "rational with denominator 0");
  Wide wn = n, wd = d;
  if (wd < 0) {
    wn = -wn;
    wd = -wd;
  }
  Wide g = gcd(wn, wd);
  num_ = narrow(wn / g);
  den_ = narrow(wd / g);
}

std::string Rational::str() const {
  return den_ == 1 ? std::to_string(num_) : std::to_string(num_) + "/" + std::to_string(den_);
}

Rational Rational::operator-() const { return reduced(-Wide(num_), den_); }

// Sums over the common denominator: the products fit 127 bits.
Rational operator+(const Rational& a, const Rational& b) {
  return reduced(Wide(a.num_) * b.den_ + Wide(b.num_) * a.den_, Wide(a.den_) * b.den_);
}
Rational operator-(const Rational& a, const Rational& b) {
  return reduced(Wide(a.num_) * b.den_ - Wide(b.num_) * a.den_, Wide(a.den_) * b.den_);
}
Rational operator*(const Rational& a, const Rational& b) {
  return reduced(Wide(a.num_) * b.num_, Wide(a.den_) * b.den_);
}
Rational operator/(const Rational& a, const Rational& b) {
  TW_CHECK(b.num_ != 0, "division of rationals by 0");
  return reduced(Wide(a.num_) * b.den_, Wide(a.den_) * b.num_);
}

std::strong_ordering operator<=>(const Rational& a, const Rational& b) {
  Wide left = Wide(a.num_) * b.den_, right = Wide(b.num_) * a.den_;
  if (left < right) return std::strong_ordering::less;
  if (left > right) return std::strong_ordering::greater;
  return std::strong_ordering::equal;
}

Rational Rational::floor() const {
  int64_t q = num_ / den_;
  if (num_ % den_ < 0) --q;
  return q;
}

std::optional<Rational> Rational::parse(const std::string& s) {
  size_t at = 0;
  bool negative = false;
  if (at < s.size() && (s[at] == '-' || s[at] == '+')) negative = s[at++] == '-';
  Wide mantissa = 0;
  int scale = 0;
  bool digits = false, point = false;
  for (; at < s.size(); ++at) {
    char c = s[at];
    if (c == '.' && !point) {
      point = true;
    } else if (std::isdigit(static_cast<unsigned char>(c))) {
      digits = true;
      mantissa = mantissa * 10 + (c - '0');
      if (mantissa > Wide(1) << 100) return std::nullopt;
      if (point) --scale;
    } else {
      break;
    }
  }
  if (!digits) return std::nullopt;
  if (at < s.size()) {
    if (s[at] != 'e' && s[at] != 'E') return std::nullopt;
    ++at;
    bool down = false;
    if (at < s.size() && (s[at] == '-' || s[at] == '+')) down = s[at++] == '-';
    if (at == s.size()) return std::nullopt;
    int exponent = 0;
    for (; at < s.size(); ++at) {
      if (!std::isdigit(static_cast<unsigned char>(s[at]))) return std::nullopt;
      exponent = exponent * 10 + (s[at] - '0');
      if (exponent > 1000) return std::nullopt;
    }
    scale += down ? -exponent : exponent;
  }
  if (mantissa == 0) return Rational(0);
  while (scale < 0 && mantissa % 10 == 0) {
    mantissa /= 10;
    ++scale;
  }
  Wide den = 1;
  for (; scale > 0; --scale) {
    mantissa *= 10;
    if (mantissa > std::numeric_limits<int64_t>::max()) return std::nullopt;
  }
  for (; scale < 0; ++scale) {
    den *= 10;
    if (den > Wide(1) << 100) return std::nullopt;
  }
  try {
    return reduced(negative ? -mantissa : mantissa, den);
  } catch (const RationalOverflow&) {
    return std::nullopt;
  }
}

}  // namespace tilewright
