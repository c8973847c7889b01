// Inside of derive/ only: from reductions in normal form to the state of one pass (rules 10 and 11).
#pragma once
#include "tilewright/derive/cascade.h"
#include "tilewright/derive/peel.h"

namespace tilewright::derivation {

/// A reduction whose pass and normal form are known.
struct Work {
  Reduction r;
  std::vector<Term> terms;          ///< sums
  std::vector<int> anchor;          ///< for each term: the work whose maximum its exponential is held at, −1 without one
  Peeled peeled;                    ///< other reducers
  bool is_sum() const { return r.reducer == Reducer::Sum; }
};

/// u = scale · v + offset with scale > 0 and both free of the streamed axis; null scale where it is not.
struct Proportion {
  Expr scale, offset;
  explicit operator bool() const { return bool(scale); }
};
Proportion proportion(Expr u, Expr v, Sym axis);

struct PassState {
  State state;
  std::vector<Expr> finish;              ///< for each work of the pass
  std::vector<std::vector<int>> family;  ///< for each work of the pass: see Derivation
  std::vector<std::string> deferred;
};

/// `works` are the indices of the pass's works in `all`, in order. `contexts` gives, for each place where a result is used, the condition under
/// which that place counts.
PassState build_state(const Program& p, Sym axis, const std::vector<Work>& all, const std::vector<size_t>& works,
                      const std::function<std::vector<Expr>(Sym)>& contexts, std::vector<std::string>& names);

}  // namespace tilewright::derivation
