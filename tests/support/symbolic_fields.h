// Exact images of expressions in two finite fields (see symbolic_tiles.h): an element's value at a point, its image, and its image as part of an exponent.
#pragma once
#include <cstdint>

#include "tilewright/support/rational.h"

namespace tilewright::testing {

struct SymbolicValue {
  double value = 0;
  uint64_t
      image = 0,
      exponent =
          0;  ///< in the field of p elements, and in that of q elements as part of an exponent; of finite values
};

namespace symbolic {

/// p = 2q + 1, both prime and 3 mod 4, so that a^((p + 1) / 4) is a root of each square; 2, 3 and 5 are squares in both.
struct Fields {
  uint64_t p = 0, q = 0, generator = 4;  ///< a square is of order q
  Fields();
};
const Fields& fields();

uint64_t mixed(uint64_t x);
uint64_t times(uint64_t a, uint64_t b, uint64_t m);
uint64_t plus(uint64_t a, uint64_t b, uint64_t m);
uint64_t raised(uint64_t a, uint64_t n, uint64_t m);
uint64_t inverse(uint64_t a, uint64_t m);
uint64_t root(uint64_t a, uint64_t m);
/// The image of a number that a tile program or a definition holds: of fractions, their roots, and both times log 2 or divided by it.
uint64_t of_number(double x, uint64_t m);

SymbolicValue sum(const SymbolicValue& a, const SymbolicValue& b);
SymbolicValue product(const SymbolicValue& a, const SymbolicValue& b);
/// exp(a) for the exponent a: an element of order q, which as an exponent itself has an image for each value.
SymbolicValue exponential(const SymbolicValue& a);

}  // namespace symbolic
}  // namespace tilewright::testing
