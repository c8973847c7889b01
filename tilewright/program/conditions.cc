#include "tilewright/program/conditions.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "tilewright/expr/simplify.h"

namespace tilewright {

std::vector<Expr> conjuncts(Expr c) {
  if (is_always(c)) return {};
  if (!c.is(Op::And)) return {c};
  std::vector<Expr> all;
  for (Expr a : c.args())
    for (Expr part : conjuncts(a)) all.push_back(part);
  return all;
}

namespace {

Expr join(Op op, const std::vector<Expr>& parts) {
  if (parts.empty()) return op == Op::And ? always() : never();
  return parts.size() == 1 ? parts[0] : make(op, parts);
}

/// Facts are canonical conditions that are known to hold; a set of them is interned, so that a visited node
/// can be remembered with its facts.
using Facts = std::set<Expr>;

class Folder {
 public:
  Expr fold(Expr e, const std::vector<Expr>& known) {
    Facts facts;
    for (Expr k : known) learn(facts, k);
    return visit(e, facts);
  }

 private:
  /// A condition for comparison with others: connectives as written with `not` at the atoms, atoms
  /// simplified. An atom that is constant over the reals stays as it is, since NaN may decide it otherwise (x
  /// == x).
  static Expr canonical(Expr c, bool negated = false) {
    if (c.is(Op::Not)) return canonical(c.arg(0), !negated);
    if (c.is(Op::And) || c.is(Op::Or)) {
      std::vector<Expr> parts;
      for (Expr part : c.args()) parts.push_back(canonical(part, negated));
      return join(c.is(Op::And) != negated ? Op::And : Op::Or, parts);
    }
    const Expr atom = negated ? opposite(c) : c, simple = simplify(atom);
    return is_always(simple) || is_never(simple) ? atom : simple;
  }

  static void learn(Facts& facts, Expr condition) {
    for (Expr part : conjuncts(canonical(condition)))
      if (!is_always(part)) facts.insert(part);
  }
  static Facts with(const Facts& facts, Expr condition) {
    Facts more = facts;
    learn(more, condition);
    return more;
  }

  /// Whether a canonical condition is decided by the facts.
  static std::optional<bool> decided(Expr c, const Facts& facts) {
    if (facts.count(c)) return true;
    if (c.is(Op::And) || c.is(Op::Or)) {
      const bool stops = c.is(Op::Or);  // the value of one part that decides the whole
      bool all = true;
      for (Expr part : c.args()) {
        const auto d = decided(part, facts);
        if (d && *d == stops) return stops;
        all &= d.has_value();
      }
      if (all) return !stops;
      return std::nullopt;
    }
    if (facts.count(canonical(c, true))) return false;
    return std::nullopt;
  }

  static bool is_condition(Expr e) {
    switch (e.op()) {
      case Op::Lt:
      case Op::Le:
      case Op::Eq:
      case Op::Ne:
      case Op::And:
      case Op::Or:
      case Op::Not: return true;
      default: return false;
    }
  }

  Expr condition(Expr c, const Facts& facts) {
    if (!facts.empty() && !is_always(c) && !is_never(c))
      if (const auto d = decided(canonical(c), facts)) return *d ? always() : never();
    return visit_children(c, facts);
  }

  Expr visit(Expr e, const Facts& facts) {
    if (e.args().empty()) return e;
    const int id = contexts_.emplace(facts, int(contexts_.size())).first->second;
    const auto key = std::make_pair(e, id);
    if (const auto found = memo_.find(key); found != memo_.end()) return found->second;
    const Expr result = is_condition(e) ? condition(e, facts) : visit_children(e, facts);
    memo_.emplace(key, result);
    return result;
  }

  Expr visit_children(Expr e, const Facts& facts) {
    switch (e.op()) {
      case Op::Select: {
        const Expr c = condition(e.arg(0), facts);
        if (is_always(c)) return visit(e.arg(1), facts);
        if (is_never(c)) return visit(e.arg(2), facts);
        const Expr a = visit(e.arg(1), with(facts, c)), b = visit(e.arg(2), with(facts, logical_not(c)));
        return a == b ? a : select(c, a, b);
      }
      case Op::And:
      case Op::Or: {
        const bool stops = e.is(Op::Or);
        std::vector<Expr> parts;
        Facts here = facts;
        for (Expr arg : e.args()) {
          const Expr part = condition(arg, here);
          if (is_always(part) || is_never(part)) {
            if (is_always(part) == stops) {
              parts.push_back(part);
              break;
            }
            continue;
          }
          parts.push_back(part);
          learn(here, stops ? logical_not(part) : part);
        }
        // A part that decides the whole stands last; the parts before it only guard it.
        if (!parts.empty() && (stops ? is_always(parts.back()) : is_never(parts.back()))) return parts.back();
        return join(e.op(), parts);
      }
      case Op::Not: return opposite(condition(e.arg(0), facts));
      case Op::Reduce:
      case Op::RangeSum: {
        Facts outer;
        for (Expr f : facts)
          if (std::none_of(e->bound.begin(), e->bound.end(), [&](Sym s) { return depends_on(f, s); }))
            outer.insert(f);
        std::vector<Expr> args = e.args();
        for (Expr& a : args) a = visit(a, outer);
        return with_args(e, args);
      }
      default: {
        std::vector<Expr> args = e.args();
        for (Expr& a : args) a = visit(a, facts);
        return with_args(e, args);
      }
    }
  }

  std::map<Facts, int> contexts_;
  std::map<std::pair<Expr, int>, Expr> memo_;
};

}  // namespace

Expr opposite(Expr c) {
  if (is_always(c)) return never();
  if (is_never(c)) return always();
  if (c.is(Op::Not)) return c.arg(0);
  if (c.is(Op::Eq)) return make(Op::Ne, c.args());
  if (c.is(Op::Ne)) return make(Op::Eq, c.args());
  return logical_not(c);
}

Expr both(Expr a, Expr b) {
  if (is_always(a) || is_never(b)) return b;
  if (is_never(a) || is_always(b) || a == b) return a;
  b = assume(b, a);
  if (is_always(b)) return a;
  if (is_never(b)) return b;
  std::vector<Expr> parts = conjuncts(a);
  for (Expr part : conjuncts(b)) parts.push_back(part);
  return join(Op::And, parts);
}

Expr either(Expr a, Expr b) {
  if (is_always(a) || is_never(b) || a == b) return a;
  if (is_never(a) || is_always(b)) return b;
  return logical_or(a, b);
}

Expr choose(Expr c, Expr a, Expr b) {
  if (is_always(c) || a == b) return a;
  if (is_never(c)) return b;
  return either(both(c, a), both(opposite(c), b));
}

Expr assume(Expr e, Expr condition) {
  if (is_always(condition)) return e;
  return Folder().fold(e, {condition});
}

Expr fold_branches(Expr e) { return Folder().fold(e, {}); }

}  // namespace tilewright
