#include "tilewright/derive/list.h"

namespace tilewright {

Expr stands_before(Expr key, Expr index, Expr other_key, Expr other_index) {
  const auto number = [](Expr x) { return less_equal(x, Expr::infinity()); };
  const Expr smaller = less(index, other_index);
  const Expr of_numbers = logical_or(less(other_key, key), logical_and(equal(key, other_key), smaller));
  const Expr not_a_number = logical_and(logical_not(number(key)), logical_or(number(other_key), smaller));
  return logical_and(less_equal(0, index),
                     logical_or(less(other_index, 0), logical_or(of_numbers, not_a_number)));
}

void insert_ranked(std::vector<double>& keys, std::vector<double>& indices, double key, double index) {
  size_t at = keys.size();
  while (at > 0 && stands_before(key, index, keys[at - 1], indices[at - 1])) --at;
  if (at == keys.size()) return;
  keys.insert(keys.begin() + long(at), key);
  indices.insert(indices.begin() + long(at), index);
  keys.pop_back();
  indices.pop_back();
}

Pairs insert_ranked(const Pairs& list, Expr key, Expr index) {
  Pairs out;
  Expr before_above;  // null: nothing stands above
  for (size_t r = 0; r < list.keys.size(); ++r) {
    const Expr before = stands_before(key, index, list.keys[r], list.indices[r]);
    Expr k = select(before, key, list.keys[r]), i = select(before, index, list.indices[r]);
    if (before_above) {
      k = select(before_above, list.keys[r - 1], k);
      i = select(before_above, list.indices[r - 1], i);
    }
    out.keys.push_back(k);
    out.indices.push_back(i);
    before_above = before;
  }
  return out;
}

Pairs merge_lists(const Pairs& left, const Pairs& right) {
  Pairs out = left;
  for (size_t r = 0; r < right.keys.size(); ++r) out = insert_ranked(out, right.keys[r], right.indices[r]);
  return out;
}

}  // namespace tilewright
