// Translation validation: a tile program run at small sizes on elements that stand for symbols, beside the definition evaluated on the same ones.
//
// An element carries its value at a random point, in f64, and exact images of the expression that it is. Whatever decides something (a maximum, a condition,
// a mask, a vote, the order of a list) is decided by the values, so one run covers the cases of that point; other points cover others. What is left is
// sums, products, powers and exponentials of the elements of the inputs, and two of those are the same function if their images in a
// finite field of 2^62 elements are, at random images of the inputs: an identity of polynomials that does not hold is found with all but
// a probability of its degree in 2^60. exp is a homomorphism of a field of prime order q into the elements of order q of the other, so
// its laws hold exactly. Functions of which no law is used (tanh, erf, log, round, floor) have an image for each value of their argument. Dtypes round nothing here.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tilewright/program/sizes.h"
#include "tilewright/tile/tile_program.h"

namespace tilewright::testing {

struct SymbolicValue {
  double value = 0;
  uint64_t
      image = 0,
      exponent =
          0;  ///< in the field of p elements, and in that of q elements as part of an exponent; of finite values
};
using Element = std::vector<int64_t>;
using SymbolicArray = std::map<Element, SymbolicValue>;

class SymbolicRun {
 public:
  /// `elaborated` at `sizes`; `seed` chooses the point and the images.
  SymbolicRun(const Program& elaborated, const Sizes& sizes, uint64_t seed);

  /// The outputs that the tile program stores, by symbol and index of piece axes. std::runtime_error for what no run may do: an element read before it is
  /// written, an index outside of an array.
  std::map<Sym, SymbolicArray> run(const TileProgram& t);
  /// What the definitions say of an output at an index of its piece axes.
  SymbolicValue defined(const Output& o, const Element& at);

  struct Comparison {
    int elements = 0;
    bool by_image = false;   ///< the first difference is one of images alone
    std::string difference;  ///< the first one, or a fault
  };
  /// Every element of every output, by values and by images, or by values alone: log l + ρ is the same for every ρ, which images do not know.
  Comparison compare(const TileProgram& t, bool images = true);

 private:
  friend class SymbolicKernel;
  using Scope = std::map<Sym, SymbolicValue>;
  using Reading = std::function<SymbolicValue(Sym, const Element&)>;

  SymbolicValue constant(double x) const;
  SymbolicValue evaluate(Expr e, Scope& scope, const Reading& reading);
  SymbolicValue combine(Reducer r, const SymbolicValue& a, const SymbolicValue& b) const;
  SymbolicValue power(const SymbolicValue& a, double exponent) const;
  SymbolicValue opaque(const std::string& of, double argument, double value) const;
  SymbolicValue reduced(Expr e, Scope& scope, const Reading& reading);
  SymbolicValue reduced_anew(Expr e, Scope& scope, const Reading& reading);
  SymbolicValue element(Sym tensor, const Element& at);
  Comparison compare_once(const TileProgram& t, bool images);
  SymbolicValue input(const Input& in, const Element& at);
  double random(Sym s, const Element& at, uint64_t salt) const;

  const Program& program_;
  Sizes sizes_;
  uint64_t seed_;
  Scope params_;
  std::map<std::pair<Sym, Element>, SymbolicValue> known_;
  bool in_definition_ = false;
  uint64_t attempt_ = 0;
  mutable bool not_squares_ = false;
  std::map<std::pair<const Node*, Element>, SymbolicValue> reduced_;
  std::map<const Node*, std::vector<Sym>> free_;
};

}  // namespace tilewright::testing
