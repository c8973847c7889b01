// The rule of `tilewright check`.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "tilewright/program/program.h"

namespace tilewright {

struct Comparison {
  bool passed = false;
  double error = 0;        ///< max |out − ref| over finite elements
  double tolerance = 0;    ///< 2·max|naive − ref| + max|ties − ref| + atol
  double usual = 0;        ///< root mean square of the finite elements of ref
  int64_t elements = 0;    ///< compared
  int64_t not_finite = 0;  ///< of them, those whose reference is infinite or NaN: compared in kind alone
  int64_t worst = -1;      ///< position in the lists of the largest error, or of the first mismatch in kind
  std::string reason;      ///< empty when passed

  /// Passing says little of elements of usual size: their tolerance is more than a quarter of what they are.
  bool loose() const { return tolerance > usual / 4; }
};

/// out, ref, naive: the same elements. max|out − ref| ≤ 2·max|naive − ref| + atol, atol = 2·max|(ref + 0.3 − 0.3) − ref| computed in `dtype` (the output's), at least
/// |ref| times its unit roundoff twice; non-finite values must
/// match in kind and place and leave the maxima; integer and boolean outputs must be equal. `ties`, of a program that rounds intermediates: ref with
/// roundings near ties taken the other way (Precision::ties); then max|ties − ref| is added to the tolerance, and an integer may equal either. `by_keys`, of integer outputs that are indices of a
/// ranked function: the indices in the order of what the function is increasing in; an element may equal either.
Comparison compare(const std::vector<double>& out, const std::vector<double>& ref,
                   const std::vector<double>& naive, DType dtype, const std::vector<double>& ties = {},
                   const std::vector<double>& by_keys = {});

/// Does the program round a real to less than f32, or make an integer of a computed one, on the way to an output?
bool rounds_intermediates(const Program& p);

/// A seeded sample of at most `count` distinct indices of an array: first, last, edges of tiles of the given steps along each axis, random.
std::vector<std::vector<int64_t>> sample_indices(const std::vector<int64_t>& shape,
                                                 const std::vector<int64_t>& steps, int64_t count,
                                                 uint64_t seed);

}  // namespace tilewright
