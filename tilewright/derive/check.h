// Inside of derive/ only: the identities behind a state, each proved or tested.
#pragma once
#include "tilewright/derive/state.h"

namespace tilewright::derivation {

/// Fills State.checks of every pass by the checks below; InternalError when one fails. `small` is the same program with the streamed axis made
/// short enough to be evaluated, and its derivation; null where there is none.
struct Small {
  const Program& program;
  const Derivation& derivation;
};
void prove(Derivation& d, const Small* small);

/// The axes beside the streamed one over which the lift of component `a` is a sum of what holds a point, or of what such a sum is repaired by; empty
/// where the lift is no such sum.
std::vector<Sym> summed_inside(const State& s, size_t a);
/// φ_a at one element, where an element has an index of those axes too: what the identities speak of.
Expr element_of(const State& s, size_t a);

/// What a component of combine `r` holds of two parts. NaN is the extremum of what it is among, as in kernels.
double combined(Reducer r, double a, double b);

/// What a state must satisfy, over real variables: `left` = `right` for each equation, where `assumptions` hold.
struct Identity {
  struct Equation {
    Expr left, right;
  };
  std::string what;  ///< "closure of o"
  std::vector<Equation> equations;
  std::vector<Expr> assumptions;
  bool by_cases =
      false;          ///< decided by enumerating the orders of the values, since the equations hold choices
  std::string fault;  ///< why it fails for a reason that is no equation, or in a case; else empty
  std::vector<std::pair<Expr, Sym>> stands_for;  ///< what variables of the equations stand for
  bool increasing =
      false;  ///< the exponentials in it are known to be increasing; decided by the sign of a derivative
};
/// Closure φ_a(c, ρ') = Σ_b H_ab φ_b(c, ρ), distributivity H(t ⊕ t') = H t ⊕ H t', identity H(ρ, ρ) = 1 and composition
/// H(ρ', ρ'') H(ρ, ρ') = H(ρ, ρ'') of each component. Of the merge `how`: for each point, that it is the point of both parts together; for each
/// component, with any ρ*, that two parts of one element give φ_a(c, ρ*) ⊕ φ_a(c', ρ*), and two parts of any size what closure says of them,
/// H(ρ_l, ρ*) t_l ⊕ H(ρ_r, ρ*) t_r; and that a part which holds nothing leaves the other as it is.
std::vector<Identity> identities(const State& s, Sym axis, const Merging& how = merge);

constexpr const char* kWhole = "merge of two parts = the whole";
/// Of the two sides of a sorted list: that pairs are strictly ordered; that `how` gives the first pairs of two sorted lists, decided for up to four
/// pairs on each side by all orders of them; and that what is ranked rises with the key.
std::vector<Identity> list_identities(const Component& keys, const Component& indices,
                                      const ListMerging& how);

/// By expressions, over the reals: the identities above.
std::vector<Check> check_identities(const State& s, Sym axis, const Merging& how = merge);

/// By random values of everything that varies along the axis, infinities and absent elements included: streams in random chunks and merge trees of
/// random shape, with empty sides, hold at their point what the lifts sum to there. `how` is the merge that is tested.
std::vector<Check> check_merges(const State& s, uint64_t seed, const Merging& how = merge);

/// By random data at small sizes: the outputs finished from streamed states equal the definition, evaluated directly.
std::vector<Check> check_outputs(const Program& elaborated, const Derivation& d, uint64_t seed);

/// A state with everything that holds no point replaced by variables: what the identities are about.
struct Abstraction {
  explicit Abstraction(const State& s);
  /// Over `variables`, `rho` and `next`.
  Expr operator()(Expr e);
  /// Guards at infinities dropped: where(ρ == ρ', 1, exp(ρ − ρ')) = exp(ρ − ρ') for finite points.
  Expr finite(Expr e) const;
  std::vector<Sym> rho, next;                   ///< for each point
  std::vector<Sym> sides;                       ///< the points of the two sides of a merge
  std::vector<std::pair<Expr, Sym>> variables;  ///< what each variable stands for
  std::vector<Sym> flags;                       ///< those that stand for conditions

 private:
  bool holds_point(Expr e);
  Expr variable(Expr e);
  std::vector<Expr> without_points(std::vector<Expr> free, std::vector<Expr>& args);
  Expr parts(Expr e);
  const State& state_;
};

}  // namespace tilewright::derivation
