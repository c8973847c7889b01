// Inside of derive/ only: the normal form of an expression along the streamed axis (docs/derivation.md, rules 1–8).
//
// An expression is C (varies along the axis, holds no running result), R (holds running results, or is constant), or mixed. The normal form is a
// sum of terms
//     coefficient(R) · [present(C)] · Σ_inner c(C) · Π (u(C) − mu(R))^power · exp(u(C) − r(R))
// It is found or it is not: then the smallest mixing subterm is thrown as Mixing.
#pragma once
#include <functional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "tilewright/derive/expressions.h"

namespace tilewright::derivation {

/// (u − mu)^power, kept whole: the generator of a shifted family.
struct Shift {
  Expr u, mu;
  int power = 1;
  int point = -1;  ///< the point of the state that it is held at, once there is one
  friend bool operator==(const Shift&, const Shift&) = default;
};

struct Term {
  Expr coefficient = 1;
  Expr c = 1;
  Expr present = truth();
  std::vector<Shift> shifts = {};  ///< different (u, mu), ordered
  Expr u = {}, r = {};  ///< both null: no exponential; r is 0 where the exponent holds nothing of R
  std::vector<Sym> inner =
      {};  ///< other axes that are summed over: c and the shifts vary along them, nothing else does
  bool same_family(const Term& o) const {
    return c == o.c && present == o.present && shifts == o.shifts && u == o.u && r == o.r && inner == o.inner;
  }
};

/// What has no normal form.
struct Mixing {
  Expr subterm;
  std::string reason;
};

/// Signs of results that follow from their definitions: reads of them are replaced by symbols before a sign is asked for.
class Signs {
 public:
  void set(Sym result, bool positive, bool nonnegative);
  bool positive(Expr e) const;
  bool nonnegative(Expr e) const;
  Expr assumed(Expr e) const;  ///< `e` with the known results replaced

 private:
  std::unordered_map<Sym, Sym> known_;
};

class NormalForm {
 public:
  /// `running` tells which results belong to the pass under way; all others are constants.
  NormalForm(Sym axis, std::set<Sym> running, const Signs& signs);

  enum class Kind { Constant, R, C, Mixed };
  Kind kind(Expr e);
  bool varies(Expr e) const { return depends_on(e, axis_); }
  bool runs(Expr e);  ///< holds a running result

  /// Joined terms without zeros; throws Mixing.
  std::vector<Term> terms(Expr e);
  /// `p` as a disjunction of C-condition ∧ R-condition; throws Mixing with the mixed atom.
  struct Split {
    Expr c, r;
  };
  std::vector<Split> split(Expr p);
  /// A condition in which C + R == ±inf asks about C alone: R is a real number.
  Expr settled(Expr condition);

 private:
  using Terms = std::vector<Term>;
  Terms of(Expr e);
  Terms of_varying(Expr e);
  Terms of_parts(Expr e);
  Terms of_mixed(Expr e);
  Terms of_sum(Expr e);
  Terms of_power(Expr e);
  Terms of_exponential(Expr whole, Expr exponent);
  Terms of_logarithm(Expr e);
  Terms of_select(Expr e);
  Terms of_inner_reduction(Expr e);
  Terms product(const Terms& a, const Terms& b, Expr whole);
  Terms shifted(Expr varying, Expr rest);
  bool needs_no_point(Expr exponent) const;
  Term summed(Term t, Expr reduction);
  bool is_exponential_guard(Expr condition, const Terms& guarded);

  Sym axis_;
  std::set<Sym> running_;
  const Signs& signs_;
  std::unordered_map<const Node*, bool> runs_;
};

/// The number of components that carry a term: all lower powers of its generators.
size_t family_size(const Term& t);
/// A reduction whose family is larger takes another pass: the repair alone has its square of terms.
constexpr size_t largest_family = 32;

/// Terms of the same family added; zeros dropped.
std::vector<Term> join(std::vector<Term> terms);
/// The term as an expression.
Expr value_of(const Term& t);

}  // namespace tilewright::derivation
