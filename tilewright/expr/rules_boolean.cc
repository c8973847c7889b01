// Formulas that mix `and` and `or`: one form for each Boolean function of at most six conditions.
//
//   literals that the function implies stand before as factors of `and`, literals that imply it as terms of
//   `or`; the rest is written as the shorter of its minimal disjunction of conjunctions and its minimal
//   conjunction of disjunctions
#include <algorithm>
#include <array>
#include <bit>

#include "tilewright/expr/canonical.h"

namespace tilewright::canonical {

bool preferred_polarity(Expr c, Expr negated) {
  if (c.op() != negated.op()) return c.op() < negated.op();
  if (c.is(Op::Le) && leads_negative(c.arg(1)) != leads_negative(negated.arg(1)))
    return !leads_negative(c.arg(1));
  return compare(c, negated) < 0;
}

bool before_in_connective(Expr a, Expr b) {
  if (facts(a).data != facts(b).data) return facts(b).data;
  return compare(a, b) < 0;
}

namespace {

constexpr size_t kMostAtoms = 6;
/// Truth tables: bit v is the value where atom k is bit k of v.
constexpr std::array<uint64_t, kMostAtoms> kAtom = {0xAAAAAAAAAAAAAAAA, 0xCCCCCCCCCCCCCCCC,
                                                    0xF0F0F0F0F0F0F0F0, 0xFF00FF00FF00FF00,
                                                    0xFFFF0000FFFF0000, 0xFFFFFFFF00000000};

/// A conjunction of literals: `care` are the atoms in it, `value` those that are positive.
struct Cube {
  unsigned care, value;
  uint64_t table;
};

class Formula {
 public:
  /// Finds the atoms; false when there are too many.
  bool collect(Expr e) {
    if (e.is(Op::And) || e.is(Op::Or))
      return std::all_of(e.args().begin(), e.args().end(), [&](Expr a) { return collect(a); });
    Expr atom = atom_of(e).first;
    if (std::find(atoms_.begin(), atoms_.end(), atom) == atoms_.end()) atoms_.push_back(atom);
    return atoms_.size() <= kMostAtoms;
  }

  Expr build(Expr e) {
    std::sort(atoms_.begin(), atoms_.end(), before_in_connective);
    return write(table(e));
  }

 private:
  std::pair<Expr, bool> atom_of(Expr e) const {
    Expr other = negation(e);
    if (preferred_polarity(e, other)) return {e, true};
    return {other, false};
  }

  uint64_t table(Expr e) const {
    if (e.is(Op::And) || e.is(Op::Or)) {
      uint64_t t = e.is(Op::And) ? ~uint64_t(0) : 0;
      for (Expr a : e.args()) t = e.is(Op::And) ? t & table(a) : t | table(a);
      return t;
    }
    auto [atom, positive] = atom_of(e);
    uint64_t t = kAtom[size_t(std::find(atoms_.begin(), atoms_.end(), atom) - atoms_.begin())];
    return positive ? t : ~t;
  }

  Expr literal(size_t k, bool positive) const { return positive ? atoms_[k] : negation(atoms_[k]); }

  /// The function where atom k has the given value.
  static uint64_t cofactor(uint64_t f, size_t k, bool value) {
    const uint64_t half = value ? f & kAtom[k] : f & ~kAtom[k];
    return value ? half | half >> (1u << k) : half | half << (1u << k);
  }

  static Expr joined(Op op, const std::vector<Expr>& args) {
    std::vector<Expr> flat;
    for (Expr a : args) {
      if (a.is(op))
        flat.insert(flat.end(), a.args().begin(), a.args().end());
      else
        flat.push_back(a);
    }
    std::sort(flat.begin(), flat.end(), before_in_connective);
    return flat.size() == 1 ? flat[0] : make(op, std::move(flat));
  }

  Expr write(uint64_t f) const {
    if (f == 0 || ~f == 0) return Expr(f == 0 ? 0 : 1);
    for (bool both : {true, false}) {
      const uint64_t g = both ? f : ~f;
      std::vector<Expr> units;
      uint64_t rest = f;
      for (size_t k = 0; k < atoms_.size(); ++k) {
        for (bool value : {true, false}) {
          if (cofactor(g, k, !value) != 0) continue;  // g implies that atom k has this value
          units.push_back(literal(k, both ? value : !value));
          rest = cofactor(rest, k, value);
        }
      }
      if (units.empty()) continue;
      if (rest != (both ? ~uint64_t(0) : 0)) units.push_back(write(rest));
      return joined(both ? Op::And : Op::Or, units);
    }
    auto sum = cover(f), product = cover(~f);
    const bool disjunctive = literals_in(sum) <= literals_in(product);
    std::vector<Expr> parts;
    for (const Cube& c : disjunctive ? sum : product) {
      std::vector<Expr> inner;
      for (size_t k = 0; k < atoms_.size(); ++k)
        if (c.care >> k & 1) inner.push_back(literal(k, bool(c.value >> k & 1) == disjunctive));
      parts.push_back(joined(disjunctive ? Op::And : Op::Or, inner));
    }
    return joined(disjunctive ? Op::Or : Op::And, parts);
  }

  static int literals_in(const std::vector<Cube>& cubes) {
    int n = 0;
    for (const Cube& c : cubes) n += std::popcount(c.care);
    return n;
  }

  /// A small set of prime implicants whose union is f: those that alone cover a point, then greedily the
  /// largest.
  std::vector<Cube> cover(uint64_t f) const {
    const unsigned all = (1u << atoms_.size()) - 1;
    std::vector<Cube> primes;
    for (unsigned care = 0; care <= all; ++care) {
      for (unsigned value = care;; value = (value - 1) & care) {
        uint64_t t = ~uint64_t(0);
        for (size_t k = 0; k < atoms_.size(); ++k)
          if (care >> k & 1) t &= value >> k & 1 ? kAtom[k] : ~kAtom[k];
        if ((t & ~f) == 0) {
          bool prime = true;
          for (size_t k = 0; k < atoms_.size() && prime; ++k)
            if (care >> k & 1) prime = ((cofactor(t, k, value >> k & 1)) & ~f) != 0;
          if (prime) primes.push_back({care, value, t});
        }
        if (value == 0) break;
      }
    }
    uint64_t once = 0, twice = 0;
    for (const Cube& c : primes) {
      twice |= once & c.table;
      once |= c.table;
    }
    std::vector<Cube> chosen;
    uint64_t covered = 0;
    for (const Cube& c : primes) {
      if ((c.table & once & ~twice) == 0) continue;
      chosen.push_back(c);
      covered |= c.table;
    }
    while ((f & ~covered) != 0) {
      const Cube& best = *std::max_element(primes.begin(), primes.end(), [&](const Cube& a, const Cube& b) {
        return std::popcount(a.table & ~covered) < std::popcount(b.table & ~covered);
      });
      chosen.push_back(best);
      covered |= best.table;
    }
    return chosen;
  }

  std::vector<Expr> atoms_;
};

}  // namespace

std::optional<Expr> minimal_formula(Expr e) {
  Formula f;
  if (!f.collect(e)) return std::nullopt;
  return f.build(e);
}

}  // namespace tilewright::canonical
