// Sorted lists of pairs (key, index): the larger key first, NaN before numbers, the smaller index first among equals. A list has a literal length; where
// fewer elements were present, identity(Topk) and identity(Argtopk), −inf and −1, fill the rest: nothing stands behind every element.
#pragma once
#include <functional>
#include <vector>

#include "tilewright/expr/expr.h"

namespace tilewright {

/// Does the pair (key, index) stand before another in a sorted list? A strict order of all elements; a negative index is no element.
inline bool stands_before(double key, double index, double other_key, double other_index) {
  if (index < 0 || other_index < 0) return index >= 0;
  if (key != key || other_key != other_key)
    return key != key && (other_key == other_key || index < other_index);
  return key > other_key || (key == other_key && index < other_index);
}
/// The same as a condition. That a key is a number is written `key <= inf`.
Expr stands_before(Expr key, Expr index, Expr other_key, Expr other_index);

/// Puts a pair where it belongs in the lists of the same length, and drops the last.
void insert_ranked(std::vector<double>& keys, std::vector<double>& indices, double key, double index);

/// The pairs of a list, the first one first.
struct Pairs {
  std::vector<Expr> keys, indices;
};
/// What `insert_ranked` makes of a list: at each rank the pair from the rank above it, the new pair, or what stood there.
Pairs insert_ranked(const Pairs& list, Expr key, Expr index);
/// The first of both lists together, as many as `left` is long: `left` takes in the pairs of `right`, as the kernels do.
Pairs merge_lists(const Pairs& left, const Pairs& right);
using ListMerging = std::function<Pairs(const Pairs& left, const Pairs& right)>;

}  // namespace tilewright
