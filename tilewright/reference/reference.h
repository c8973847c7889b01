// The definition evaluated directly: the reference every kernel is compared with.
#pragma once
#include <map>
#include <memory>

#include "tilewright/program/sizes.h"

namespace tilewright {

/// A host array in any dtype: row-major unless strides are given (in elements). `data` is borrowed.
struct ArrayView {
  DType dtype = DType::f32;
  const void* data = nullptr;
  std::vector<int64_t> shape;    ///< memory shape
  std::vector<int64_t> strides;  ///< elements; empty: row-major
};

enum class Precision {
  f64,   ///< reference: all arithmetic in double; declared roundings (dtype on statement, cast) still round
  ties,  ///< as f64, but a declared rounding to less than f32 takes the other neighbour where a tie lies within 2^-18 of the value
  ///< (relative): what a computation in f32, as right as this one, may find there. So does a computed real that becomes an integer
  naive,  ///< statement by statement in f32, declared roundings, and operands of contractions (factors of a sum over an axis
  ///< of a product) rounded to the narrowest dtype of the inputs that are direct factors of that contraction; a sum over several
  ///< axes is taken as nested sums, the inner ones being operands
};

/// Does e make an integer of a real that is computed (round, floor, a cast)? Elements of inputs are exact.
bool rounds_to_integer(const Program& p, Expr e);

/// Evaluates any element of any definition on demand, with memoisation by statement rows; elements are computed as vectors along the
/// innermost reduced axis. Written for sizes up to about 10^10 operations.
class Evaluator {
 public:
  /// `arrays`: input name -> array; `params`: name -> value (rounded to the param's dtype). The program is as parsed (not elaborated).
  /// UserError: missing input, dtype or shape mismatch, value outside a declared range of a param or an integer input.
  Evaluator(const Program& p, const Sizes& sizes, const std::map<std::string, ArrayView>& arrays,
            const std::map<std::string, double>& params, Precision precision);
  ~Evaluator();
  /// Value of output `o` at `index` (over output.axes() order), before rounding to the output's dtype.
  double element(const Output& o, const std::vector<int64_t>& index);
  /// All elements in memory order of the output.
  std::vector<double> all(const Output& o);
  /// Scalar operations that all(o) costs, counted from the sizes (multiply and add count one each).
  double cost(const Output& o) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tilewright
