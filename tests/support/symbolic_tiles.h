// Translation validation: a tile program run at small sizes on elements that stand for symbols, beside the definition evaluated on the same ones.
//
// An element carries its value at a random point, in f64, and exact images of the expression that it is. Whatever decides something (a maximum, a condition,
// a mask, a vote, the order of a list) is decided by the values, so one run covers the cases of that point; other points cover others. What is left is
// sums, products, powers and exponentials of the elements of the inputs, and two of those are the same function if their images in a
// finite field of 2^62 elements are, at random images of the inputs: an identity of polynomials that does not hold is found with all but
// a probability of its degree in 2^60. exp is a homomorphism of a field of prime order q into the elements of order q of the other, so
// its laws hold exactly. Functions of which no law is used (tanh, erf, log, round, floor) have an image for each value of their argument. Dtypes round nothing here.
#pragma once
#include <map>
#include <string>

#include "tests/support/symbolic_values.h"
#include "tilewright/tile/tile_program.h"

namespace tilewright::testing {

class SymbolicRun : public SymbolicProgram {
 public:
  using SymbolicProgram::SymbolicProgram;

  /// The outputs that the tile program stores, by symbol and index of piece axes. std::runtime_error for what no run may do: an element read before it is
  /// written, an index outside of an array.
  std::map<Sym, SymbolicArray> run(const TileProgram& t);
  struct Comparison {
    int elements = 0;
    bool by_image = false;   ///< the first difference is one of images alone
    std::string difference;  ///< the first one, or a fault
  };
  /// Every element of every output, by values and by images, or by values alone: log l + ρ is the same for every ρ, which images do not know.
  Comparison compare(const TileProgram& t, bool images = true);

 private:
  Comparison compare_once(const TileProgram& t, bool images);
};

}  // namespace tilewright::testing
