// Sums of products of powers of positive symbols, with rational coefficients and exponents: what transfers and memory are where tiles divide what they
// cut ("posynomials" where every coefficient is positive).
#pragma once
#include <map>
#include <optional>
#include <vector>

#include "tilewright/expr/simplify.h"

namespace tilewright {

/// Symbol -> exponent; no exponent is 0.
using Powers = std::map<Sym, Rational>;

struct Laurent {
  std::map<Powers, Rational> terms;  ///< no coefficient is 0

  Expr expr() const;
  Expr factored() const;                       ///< the same with what all terms have in common in front
  double value(const Bindings& values) const;  ///< every symbol must be bound
  bool depends(Sym s) const;
  void add(const Powers& powers, const Rational& coefficient);
  friend bool operator==(const Laurent&, const Laurent&) = default;
};

/// `e` as such a sum; nullopt where it holds anything else (floors, maxima, sums over ranges).
std::optional<Laurent> laurent(Expr e);

/// The maximum of sums with positive coefficients: those that another exceeds term by term are left out.
Expr greatest(std::vector<Laurent> sums);
/// The sums of such a maximum, or of one sum alone; nullopt for anything else.
std::optional<std::vector<Laurent>> maximands(Expr e);

/// Terms that divide another term in every symbol but those of `ignored` are left out: they matter less the larger the symbols are.
Laurent leading(const Laurent& sum, const std::vector<Sym>& ignored);

}  // namespace tilewright
