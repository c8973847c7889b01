// Comparisons and connectives.
//
//   integers:  a < b = 0 <= b - a - 1             a <= b = 0 <= b - a
//              not 0 <= e = 0 <= -e - 1           0 <= 4·e + 3 = 0 <= e (content divided out)
//              e == 0 with a positive leading coefficient
//   reals:     comparisons keep their sides; not (a < b) stays, since b <= a differs for NaN; a == a is true
//              where a is finite for sure, else it says that a is no NaN; a <= a is a == a
//              where(c, x, n) == n = not c or x == n
//              a + r == inf = a == inf for finite r
//              not any p = all not p
//   and, or:   flat, sorted (conditions on indices before those that read tensors), without duplicates and
//              without what the others imply; formulas that mix the two: rules_boolean.cc
#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "tilewright/expr/canonical.h"

namespace tilewright::canonical {

bool is_true(Expr e) { return e.number() && *e.number() != 0; }
bool is_false(Expr e) { return e.number() && *e.number() == 0; }

namespace {

/// e = constant + rest.
std::pair<Rational, Expr> split_constant(Expr e) {
  if (auto q = e.rational()) return {*q, Expr(0)};
  if (!e.is(Op::Add) || !e.arg(0).rational()) return {0, e};
  if (e.args().size() == 2) return {*e.arg(0).rational(), e.arg(1)};
  return {*e.arg(0).rational(), make(Op::Add, std::vector<Expr>(e.args().begin() + 1, e.args().end()))};
}

/// Greatest common divisor of the coefficients of `e`; nullopt where one is not an integer.
std::optional<int64_t> integer_content(Expr e) {
  int64_t g = 0;
  for (Expr t : terms_of(e)) {
    auto c = split_coefficient(t).first;
    if (!c.exact() || !c.rational().is_integer()) return std::nullopt;
    g = std::gcd(g, c.rational().num());
  }
  return g;
}

/// 0 <= e for an integer e.
Expr at_least_zero(Expr e) {
  e = distribute(e);
  auto [c, rest] = split_constant(e);
  if (rest.is_constant(0)) return Expr(c.num() >= 0);
  if (auto g = integer_content(rest); g && *g > 1)
    e = add({Expr((c / Rational(*g)).floor()), mul({Expr(Rational(1, *g)), rest})});
  Interval range = bounds(e);
  if (range.lo >= 0) return Expr(1);
  if (range.hi < 0) return Expr(0);
  return make(Op::Le, {Expr(0), e});
}

/// e == 0 for an integer e.
Expr is_zero(Expr e) {
  e = distribute(e);
  auto [c, rest] = split_constant(e);
  if (rest.is_constant(0)) return Expr(c.num() == 0);
  if (auto g = integer_content(rest); g && *g > 1) {
    Rational quotient = c / Rational(*g);
    if (!quotient.is_integer()) return Expr(0);
    e = add({Expr(quotient), mul({Expr(Rational(1, *g)), rest})});
  }
  if (leads_negative(e)) e = negative(e);
  Interval range = bounds(e);
  if (range.lo > 0 || range.hi < 0) return Expr(0);
  return make(Op::Eq, {e, Expr(0)});
}

bool both_integer(Expr a, Expr b) { return facts(a).integer && facts(b).integer; }

/// x == ±inf where rules decide or reduce it.
std::optional<Expr> equals_infinity(Expr x, double inf) {
  if (facts(x).finite) return Expr(0);
  if (inf < 0 && (x.is(Op::Exp) || x.is(Op::Abs) || x.is(Op::Pow) || x.is(Op::Reduce)) && bounds(x).lo >= 0)
    return Expr(0);
  if (x.is(Op::Add)) {
    std::vector<Expr> infinite;
    for (Expr t : x.args())
      if (!facts(t).finite) infinite.push_back(t);
    if (infinite.size() == 1) return eq(infinite[0], Expr::real(inf));
  }
  if (x.is(Op::Mul)) {
    std::vector<Expr> rest;
    double sign = 1;
    for (Expr f : x.args()) {
      auto n = f.number();
      if (n && std::isfinite(*n) && *n != 0)
        sign *= *n < 0 ? -1 : 1;
      else if (!(is_uniform(f) && provably_positive(f)))
        rest.push_back(f);
    }
    if (rest.size() < x.args().size()) return eq(mul(rest), Expr::real(sign * inf));
  }
  if (x.is(Op::Exp) && inf > 0) return eq(x.arg(0), Expr::real(inf));
  return std::nullopt;
}

}  // namespace

Expr lt(Expr a, Expr b) {
  if (a == b) return Expr(0);
  if (a.number() && b.number()) return Expr(*a.number() < *b.number());
  if (both_integer(a, b)) return at_least_zero(add({b, negative(a), Expr(-1)}));
  if (b.is(Op::Real) && std::isinf(b->real) && facts(a).finite) return Expr(b->real > 0);
  if (a.is(Op::Real) && std::isinf(a->real) && facts(b).finite) return Expr(a->real < 0);
  return make(Op::Lt, {a, b});
}

Expr le(Expr a, Expr b) {
  if (a == b) return eq(a, b);
  if (a.number() && b.number()) return Expr(*a.number() <= *b.number());
  if (both_integer(a, b)) return at_least_zero(subtract(b, a));
  if (b.is(Op::Real) && std::isinf(b->real) && facts(a).finite) return Expr(b->real > 0);
  if (a.is(Op::Real) && std::isinf(a->real) && facts(b).finite) return Expr(a->real < 0);
  return make(Op::Le, {a, b});
}

Expr eq(Expr a, Expr b) {
  if (a.number() && b.number()) return Expr(*a.number() == *b.number());
  if (a == b) return facts(a).finite ? Expr(1) : make(Op::Eq, {a, b});
  if (both_integer(a, b)) return is_zero(subtract(a, b));
  if (a.number() || (!b.number() && compare(b, a) < 0)) std::swap(a, b);
  if (b.number()) {
    if (std::isinf(*b.number()))
      if (auto r = equals_infinity(a, *b.number())) return *r;
    if (a.is(Op::Select) && (a.arg(1).number() || a.arg(2).number()))
      return disjunction(
          {conjunction({a.arg(0), eq(a.arg(1), b)}), conjunction({negation(a.arg(0)), eq(a.arg(2), b)})});
  }
  return make(Op::Eq, {a, b});
}

Expr negation(Expr c) {
  if (c.number()) return Expr(*c.number() == 0);
  switch (c.op()) {
    case Op::Not: return c.arg(0);
    case Op::Le:
      if (both_integer(c.arg(0), c.arg(1))) return lt(c.arg(1), c.arg(0));
      break;
    case Op::Reduce:
      if (c->reducer == Reducer::Any) return reduction(Reducer::All, c->bound, negation(c.arg(0)));
      if (c->reducer == Reducer::All) return reduction(Reducer::Any, c->bound, negation(c.arg(0)));
      break;
    case Op::Eq: return make(Op::Ne, c.args());
    case Op::Ne: return make(Op::Eq, c.args());
    case Op::And:
    case Op::Or: {
      std::vector<Expr> args;
      for (Expr a : c.args()) args.push_back(negation(a));
      return c.is(Op::And) ? disjunction(std::move(args)) : conjunction(std::move(args));
    }
    default: break;
  }
  return make(Op::Not, {c});
}

std::vector<Expr> conjuncts(Expr c) { return c.is(Op::And) ? c.args() : std::vector<Expr>{c}; }

namespace {

/// The connective of `both` (And) or `either` (Or), with the constants that decide or vanish.
class Connective {
 public:
  explicit Connective(bool both) : both_(both) {}

  Expr build(const std::vector<Expr>& args) {
    for (Expr a : args) flatten(a);
    if (decided_) return Expr(both_ ? 0 : 1);
    join_inequalities();
    for (Expr a : args_)
      if (has(negation(a))) decided_ = true;
    if (decided_) return Expr(both_ ? 0 : 1);
    if (propagate()) return rebuilt(args_);
    std::sort(args_.begin(), args_.end(), before_in_connective);
    const Op other = both_ ? Op::Or : Op::And;
    if (args_.size() > 1 && std::any_of(args_.begin(), args_.end(), [&](Expr a) { return a.is(other); })) {
      if (auto minimal = minimal_formula(make(op(), args_))) return *minimal;
      if (!both_)
        if (auto common = factor()) return *common;
    }
    if (args_.empty()) return Expr(both_ ? 1 : 0);
    if (args_.size() == 1 && (facts(args_[0]).boolean)) return args_[0];
    return make(op(), args_);
  }

 private:
  Op op() const { return both_ ? Op::And : Op::Or; }
  Expr rebuilt(const std::vector<Expr>& args) const { return both_ ? conjunction(args) : disjunction(args); }
  bool has(Expr a) const { return seen_.count(a) != 0; }

  void flatten(Expr a) {
    if (a.is(op())) {
      for (Expr x : a.args()) flatten(x);
    } else if (a.number()) {
      if (is_true(a) != both_) decided_ = true;
    } else if (seen_.insert(a).second) {
      args_.push_back(a);
    }
  }

  /// Of inequalities 0 <= c + T with one T the strongest (and) or weakest (or) stays; those with T and -T
  /// meet or cover.
  void join_inequalities() {
    std::vector<std::pair<Expr, Rational>> kept;  // T, c
    std::vector<Expr> others;
    for (Expr a : args_) {
      if (!(a.is(Op::Le) && a.arg(0).is_constant(0) && facts(a.arg(1)).integer)) {
        others.push_back(a);
        continue;
      }
      auto [c, t] = split_constant(a.arg(1));
      auto same = std::find_if(kept.begin(), kept.end(), [term = t](auto& k) { return k.first == term; });
      if (same == kept.end())
        kept.emplace_back(t, c);
      else if ((c < same->second) == both_)
        same->second = c;
    }
    for (size_t k = 0; k < kept.size(); ++k) {
      auto [t, c] = kept[k];
      Expr opposite = negative(t);
      auto other =
          std::find_if(kept.begin() + long(k), kept.end(), [&](auto& x) { return x.first == opposite; });
      if (other == kept.end()) continue;
      Rational sum = c + other->second;
      if (both_ && sum < Rational(0)) decided_ = true;
      if (!both_ && sum >= Rational(-1)) decided_ = true;
      if (decided_) return;
      if (both_ ? sum != Rational(0) : sum != Rational(-2)) continue;
      Expr meet = is_zero(add({t, Expr(both_ ? c : c + Rational(1))}));
      others.push_back(both_ ? meet : negation(meet));
      kept.erase(other);
      kept.erase(kept.begin() + long(k--));
    }
    for (auto& [t, c] : kept) others.push_back(make(Op::Le, {Expr(0), add({Expr(c), t})}));
    std::vector<Expr> before = std::move(args_);
    args_.clear();
    seen_.clear();
    for (Expr a : others) flatten(a);
  }

  /// Compound arguments under what the simple ones say.
  bool propagate() {
    constexpr size_t many = 64;  // of so many only those that hold other conditions are looked into
    bool changed = false;
    for (size_t k = 0; k < args_.size(); ++k) {
      Expr a = args_[k];
      if (args_.size() > many &&
          std::none_of(a.args().begin(), a.args().end(), [](Expr x) { return facts(x).condition; }))
        continue;
      Assumptions known;
      for (size_t n = 0; n < args_.size(); ++n)
        if (n != k && !args_[n].is(both_ ? Op::Or : Op::And)) known.emplace_back(args_[n], both_);
      if (known.empty()) continue;
      Expr b = assuming(a, known);
      if (b == a) continue;
      args_[k] = b;
      changed = true;
    }
    return changed;
  }

  /// (a and b) or (a and c) = a and (b or c)
  std::optional<Expr> factor() {
    if (args_.size() < 2) return std::nullopt;
    std::vector<Expr> common;
    for (Expr x : conjuncts(args_[0])) {
      bool everywhere = std::all_of(args_.begin() + 1, args_.end(), [&](Expr a) {
        auto parts = conjuncts(a);
        return std::find(parts.begin(), parts.end(), x) != parts.end();
      });
      if (everywhere) common.push_back(x);
    }
    if (common.empty()) return std::nullopt;
    std::vector<Expr> rest;
    for (Expr a : args_) {
      std::vector<Expr> parts = conjuncts(a);
      std::erase_if(parts,
                    [&](Expr p) { return std::find(common.begin(), common.end(), p) != common.end(); });
      rest.push_back(conjunction(parts));
    }
    common.push_back(disjunction(rest));
    return conjunction(common);
  }

  bool both_;
  bool decided_ = false;
  std::vector<Expr> args_;
  std::unordered_set<Expr> seen_;
};

}  // namespace

Expr conjunction(std::vector<Expr> args) { return Connective(true).build(args); }
Expr disjunction(std::vector<Expr> args) { return Connective(false).build(args); }

// ---- assumptions
// -----------------------------------------------------------------------------------------------------

Assumptions literals(Expr c, bool truth) {
  Assumptions out;
  if (c.is(Op::Not)) return literals(c.arg(0), !truth);
  if (c.is(truth ? Op::And : Op::Or)) {
    for (Expr a : c.args())
      for (auto& l : literals(a, truth)) out.push_back(l);
    return out;
  }
  out.emplace_back(c, truth);
  return out;
}

namespace {

/// An inequality or equation c + T (>= or ==) 0 that is known.
struct Fact {
  Expr t;
  Rational c;
  bool equation;
};

class Assuming {
 public:
  explicit Assuming(const Assumptions& known) {
    for (auto& [condition, truth] : known)
      for (auto& [atom, holds] : literals(condition, truth)) learn(atom, holds);
  }

  Expr visit(Expr e) {
    if (!facts(e).condition) return e;
    if (facts(e).boolean)
      if (auto value = decide(e)) return Expr(*value);
    auto it = memo_.find(e);
    if (it != memo_.end()) return it->second;
    Expr out = descend(e);
    memo_.emplace(e, out);
    return out;
  }

 private:
  void learn(Expr atom, bool holds) {
    if (atom.is(Op::Ne)) {
      atom = make(Op::Eq, atom.args());
      holds = !holds;
    }
    atoms_.emplace_back(atom, holds);
    if (atom.is(Op::Le) && atom.arg(0).is_constant(0) && facts(atom.arg(1)).integer) {
      auto [c, t] = split_constant(atom.arg(1));
      if (holds)
        facts_.push_back({t, c, false});
      else
        facts_.push_back({negative(t), -c - Rational(1), false});
    } else if (atom.is(Op::Eq) && holds && atom.arg(1).is_constant(0) && facts(atom.arg(0)).integer) {
      auto [c, t] = split_constant(atom.arg(0));
      facts_.push_back({t, c, true});
    }
  }

  std::optional<bool> decide(Expr e) const {
    if (e.is(Op::Not)) {
      auto v = decide(e.arg(0));
      return v ? std::optional(!*v) : v;
    }
    if (e.is(Op::Ne)) {
      auto v = decide(make(Op::Eq, e.args()));
      return v ? std::optional(!*v) : v;
    }
    for (auto& [atom, holds] : atoms_)
      if (atom == e) return holds;
    if (facts_.empty()) return std::nullopt;
    const bool inequality = e.is(Op::Le) && e.arg(0).is_constant(0) && facts(e.arg(1)).integer;
    const bool equation = e.is(Op::Eq) && e.arg(1).is_constant(0) && facts(e.arg(0)).integer;
    if (!inequality && !equation) return std::nullopt;
    auto [c, t] = split_constant(e.arg(inequality ? 1 : 0));
    Expr opposite = negative(t);
    for (const Fact& f : facts_) {
      // Bounds that the fact gives for T.
      std::optional<Rational> lo, hi;
      if (f.t == t)
        lo = -f.c;
      else if (f.t == opposite)
        hi = f.c;
      else
        continue;
      if (f.equation) lo = hi = lo ? lo : hi;
      if (inequality && lo && *lo + c >= Rational(0)) return true;
      if (inequality && hi && *hi + c < Rational(0)) return false;
      if (equation && ((lo && *lo + c > Rational(0)) || (hi && *hi + c < Rational(0)))) return false;
      if (equation && lo && hi && *lo == *hi) return *lo + c == Rational(0);
    }
    return std::nullopt;
  }

  Expr condition(Expr e) {
    if (auto value = decide(e)) return Expr(*value);
    return visit(e);
  }

  Expr descend(Expr e) {
    if (e.is(Op::Reduce) || e.is(Op::RangeSum)) {
      Assumptions kept;
      for (auto& a : atoms_) {
        bool bound = false;
        for (Sym s : e->bound) bound |= depends_on(a.first, s);
        if (!bound) kept.push_back(a);
      }
      if (kept.empty()) return e;
      if (kept.size() < atoms_.size()) {
        Assuming inner(kept);
        return inner.arguments(e);
      }
    }
    return arguments(e);
  }

  Expr arguments(Expr e) {
    std::vector<Expr> args;
    bool changed = false;
    const bool connective = e.is(Op::And) || e.is(Op::Or) || e.is(Op::Not);
    for (size_t k = 0; k < e.args().size(); ++k) {
      Expr a = e.arg(k);
      args.push_back(connective || (e.is(Op::Select) && k == 0) ? condition(a) : visit(a));
      changed |= args.back() != a;
      if (e.is(Op::Select) && k == 0 && args[0].number()) return visit(e.arg(is_true(args[0]) ? 1 : 2));
    }
    return changed ? rebuild(*e, std::move(args)) : e;
  }

  Assumptions atoms_;
  std::vector<Fact> facts_;
  std::unordered_map<Expr, Expr> memo_;
};

}  // namespace

Expr assuming(Expr x, const Assumptions& known) {
  if (!facts(x).condition || known.empty()) return x;
  return Assuming(known).visit(x);
}

}  // namespace tilewright::canonical
