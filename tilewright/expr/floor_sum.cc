#include "tilewright/expr/floor_sum.h"

#include "tilewright/support/error.h"

namespace tilewright {

void fail_size_overflow() {
  throw UserError(Span{}, "size overflows 64 bits",
                  "use smaller sizes: every count and byte offset must stay below 2^63");
}

Wide wide_add(Wide a, Wide b) {
  Wide r;
  if (__builtin_add_overflow(a, b, &r)) fail_size_overflow();
  return r;
}

Wide wide_mul(Wide a, Wide b) {
  Wide r;
  if (__builtin_mul_overflow(a, b, &r)) fail_size_overflow();
  return r;
}

Wide wide_floor_div(Wide a, Wide b) {
  Wide q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

Wide power_sum(Wide n, int p) {
  if (n <= 0) return 0;
  const Wide l = n - 1;  // the last term
  switch (p) {
    case 0: return n;
    case 1: return wide_mul(n, l) / 2;
    case 2: return wide_mul(wide_mul(n, l), wide_add(wide_mul(2, l), 1)) / 6;
    case 3: {
      Wide t = power_sum(n, 1);
      return wide_mul(t, t);
    }
    case 4: {  // l(l+1)(2l+1)(3l²+3l−1)/30
      Wide s = wide_mul(wide_mul(n, l), wide_add(wide_mul(2, l), 1)) / 6;
      return wide_mul(s, wide_add(wide_mul(3, wide_mul(l, n)), -1)) / 5;
    }
    default: break;
  }
  TW_CHECK(false, "power sums go to the fourth power");
}

// With a = a' + m·A, b = b' + m·B and q' the floors of a', b': q = A·i + B + q'. For 0 <= a', b' < m let t =
// floor((a'(n-1) + b')/m); q'(i) is the number of k in [0, t) with i > c(k), c(k) = floor((m·k + m − b' −
// 1)/a'), so that sums over i become sums over k of the floors c with (m, m − b' − 1, a').
FloorSums floor_sums(Wide n, Wide a, Wide b, Wide m, bool all) {
  FloorSums r;
  if (n <= 0) return r;
  const Wide whole_a = wide_floor_div(a, m), whole_b = wide_floor_div(b, m);
  a -= whole_a * m;
  b -= whole_b * m;
  const Wide last = n - 1, t = wide_floor_div(wide_add(wide_mul(a, last), b), m);
  if (t > 0) {
    const FloorSums s = floor_sums(t, m, m - b - 1, a, all);
    r.floors = wide_add(wide_mul(last, t), -s.floors);
    if (all) {
      // Σ_k Σ_{i > c(k)} i = Σ_k (last·n − c(c+1))/2
      r.weighted = wide_add(wide_mul(t, wide_mul(last, n)), -wide_add(s.squares, s.floors)) / 2;
      // q² = Σ_{k < q} (2k + 1), so Σ q² = Σ_k (2k + 1)(last − c(k))
      r.squares = wide_add(wide_mul(last, wide_mul(t, t)), -wide_add(wide_mul(2, s.weighted), s.floors));
    }
  }
  const Wide s0 = n, s1 = power_sum(n, 1);
  // (A·i + B + q')² and its sums, by parts.
  FloorSums full;
  full.floors = wide_add(r.floors, wide_add(wide_mul(whole_a, s1), wide_mul(whole_b, s0)));
  if (!all) return full;
  const Wide s2 = power_sum(n, 2);
  full.weighted = wide_add(r.weighted, wide_add(wide_mul(whole_a, s2), wide_mul(whole_b, s1)));
  full.squares =
      wide_add(r.squares, wide_add(wide_mul(2 * whole_a, r.weighted), wide_mul(2 * whole_b, r.floors)));
  full.squares = wide_add(full.squares, wide_mul(wide_mul(whole_a, whole_a), s2));
  full.squares = wide_add(full.squares, wide_mul(wide_mul(2 * whole_a, whole_b), s1));
  full.squares = wide_add(full.squares, wide_mul(wide_mul(whole_b, whole_b), s0));
  return full;
}

}  // namespace tilewright
