// Inside of derive/ only: from reductions in normal form to the state of one pass (rules 10 and 11).
#pragma once
#include "tilewright/derive/cascade.h"
#include "tilewright/derive/peel.h"

namespace tilewright::derivation {

/// A minimum over the elements at which u equals its extremum. It is held at the running extremum: a new one empties it.
struct Choice {
  int extremum = -1;       ///< the work whose extremum chooses; −1: not such a reduction
  Expr condition;          ///< holds u == Read(extremum)
  Expr present = truth();  ///< the other conditions
  int offset = 0;          ///< added to the body, so that what is held is positive and can be scaled by inf
};

/// A reduction whose pass and normal form are known.
struct Work {
  Reduction r;
  std::vector<Term> terms;  ///< sums
  std::vector<int>
      anchor;     ///< for each term: the work whose maximum its exponential is held at, −1 without one
  Peeled peeled;  ///< other reducers
  Choice choice;  ///< in place of `peeled`, for a minimum that is chosen by an extremum
  bool compared =
      false;  ///< the result is compared, with the elements that it is the extremum of say: it is to be one of them to the last bit
  bool is_sum() const { return r.reducer == Reducer::Sum; }
};

/// Why a value is not held as it was written.
struct Note {
  enum class Kind {
    Factor,      ///< `value` does not vary along the stream and is applied at the end
    Peeled,      ///< everything that does not vary was taken out of a maximum, minimum, …
    Scale,       ///< held without its factor `value`, which is applied where the result is used
    Introduced,  ///< a maximum that the program does not name
    Ranked,      ///< ordered by `value`, of which it is a strictly increasing function
  };
  Sym result;
  Kind kind = Kind::Factor;
  Expr value;
};

struct PassState {
  State state;
  std::vector<Expr> finish;              ///< for each work of the pass
  std::vector<std::vector<int>> family;  ///< for each work of the pass: see Derivation
  std::vector<Note> deferred;
};

/// `works` are the indices of the pass's works in `all`, in order. `contexts` gives, for each place where a result is used, the condition under
/// which that place counts.
PassState build_state(const Program& p, Sym axis, const std::vector<Work>& all,
                      const std::vector<size_t>& works, const std::function<std::vector<Expr>(Sym)>& contexts,
                      std::vector<std::string>& names);

}  // namespace tilewright::derivation
