// Inside of expr/ only: what is stored beside an interned node.
#pragma once
#include <atomic>
#include <optional>
#include <vector>

#include "tilewright/expr/expr.h"

namespace tilewright {

/// Facts that follow from a node and its children, found when it is interned.
struct NodeFacts {
  bool integer = false;    ///< integer-valued (or infinite, where a maximum over nothing is)
  bool boolean = false;    ///< comparison or connective
  bool finite = false;     ///< never infinite or NaN, whatever its symbols are
  bool data = false;       ///< holds a Read or a real Variable, which may be infinite or NaN at run time
  bool condition = false;  ///< holds a comparison, connective or Select
  bool has_index = false;  ///< holds a free or bound Index symbol
};

struct InternedNode : Node {
  NodeFacts facts;
  mutable std::atomic<const Node*> canonical{nullptr};  ///< simplify() of this node
  mutable std::atomic<const std::vector<Sym>*> free_syms{
      nullptr};  ///< free symbols in first-occurrence order
  mutable std::atomic<const std::vector<Sym>*> read_syms{nullptr};  ///< tensors_read()
  mutable std::atomic<uint8_t> sign{0};  ///< SignFacts (interval.cc); 0: not known yet
};

inline const InternedNode& interned(Expr e) { return static_cast<const InternedNode&>(*e); }
inline const NodeFacts& facts(Expr e) { return interned(e).facts; }

/// Free symbols without a copy.
const std::vector<Sym>& free_symbols_of(Expr e);

/// A comparison of a sum with zero as people write it: `j <= i + n` for 0 <= i - j + n, `j < i` for 0 <= i - j - 1,
/// `v == k` for v - k == 0. Each side holds the terms of a sum; empty: 0. nullopt: it reads best as it stands.
struct Sides {
  Op op;
  std::vector<Expr> left, right;
};
std::optional<Sides> sides_of(Expr comparison);

/// Structural order: by operator, payload and arguments; symbols by creation. Unlike operator<, it does not
/// depend on the order in which expressions were built, so that two spellings of a program print alike.
/// Negative, zero or positive.
int compare(Expr a, Expr b);

}  // namespace tilewright
