#include "tilewright/program/presence.h"

#include <cmath>

#include "tilewright/expr/simplify.h"
#include "tilewright/program/conditions.h"
#include "tilewright/program/elaborate.h"

namespace tilewright {

namespace {

bool is_minus_infinity(Expr e) {
  if (e.is(Op::Neg)) {
    const auto x = e.arg(0).number();
    return x && *x == INFINITY;
  }
  const auto x = e.number();
  return x && *x == -INFINITY;
}

bool is_zero(Expr e) {
  const auto x = e.number();
  return x && *x == 0;
}

/// A factor that keeps −inf: a positive number made of constants, sizes and positive params. Sizes count as
/// positive; where one is zero there is nothing to reduce over, or the factor is infinite.
bool is_positive_factor(Expr e) {
  if (!tensors_read(e).empty()) return false;
  Substitution positive;
  for (Sym s : free_symbols(e)) {
    if (s.kind() == SymbolKind::Index) return false;
    if (s.kind() != SymbolKind::Size) continue;
    SymbolInfo info = s.info();
    info.positive = true;
    info.kind = SymbolKind::Variable;
    positive.push_back({s, Expr(Sym::fresh(info))});
  }
  return provably_positive(simplify(substitute(e, positive)));
}

/// For `x == -inf` (either order): x.
Expr compared_with_minus_infinity(Expr c, Op op) {
  if (!c.is(op)) return {};
  if (is_minus_infinity(c.arg(1))) return c.arg(0);
  if (op != Op::Lt && is_minus_infinity(c.arg(0))) return c.arg(1);
  return {};
}

/// The condition of a selection, and its branches, with the literal 0 branch first where there is one.
struct Branches {
  Expr condition, zero, other;
};
Branches with_zero_first(Expr e) {
  if (is_zero(e.arg(2)) && !is_zero(e.arg(1))) return {opposite(e.arg(0)), e.arg(2), e.arg(1)};
  return {e.arg(0), e.arg(1), e.arg(2)};
}

/// x where the condition says `x == -inf` (or its negation denies `x != -inf`, `-inf < x`).
Expr tested_for_absence(Expr c) {
  if (Expr x = compared_with_minus_infinity(c, Op::Eq)) return x;
  if (!c.is(Op::Not)) return {};
  const Expr inner = c.arg(0);
  if (Expr x = compared_with_minus_infinity(inner, Op::Ne)) return x;
  if (inner.is(Op::Lt) && is_minus_infinity(inner.arg(0))) return inner.arg(1);
  return {};
}

}  // namespace

Expr PresenceRules::at_read(Expr c, const Definition& d, Expr read) const {
  Substitution s;
  for (size_t k = 0; k < d.axes.size(); ++k)
    if (read.arg(k) != Expr(d.axes[k])) s.push_back({d.axes[k], read.arg(k)});
  return substitute(c, s);
}

Presence PresenceRules::of(Expr e) {
  if (const auto found = memo_.find(e); found != memo_.end()) return found->second;
  const Presence p = rules(e);
  memo_.emplace(e, p);
  return p;
}

Expr PresenceRules::present(Expr e) {
  const Presence p = of(e);
  return both(p.not_minus_inf, p.not_zero);
}

Presence PresenceRules::rules(Expr e) {
  const Presence present{always(), always()};
  if (reductions_.count(e)) return present;
  switch (e.op()) {
    case Op::Select: {
      // A literal −inf is absent as a branch, and only there.
      const auto branch = [&](Expr b) { return is_minus_infinity(b) ? Presence{never(), always()} : of(b); };
      const Presence a = branch(e.arg(1)), b = branch(e.arg(2));
      Presence p{choose(e.arg(0), a.not_minus_inf, b.not_minus_inf),
                 choose(e.arg(0), a.not_zero, b.not_zero)};
      const Branches z = with_zero_first(e);
      if (!is_zero(z.zero)) return p;
      // Both branches read 0 where the other one is absent after exp, so the literal does not make the
      // element present.
      const Expr other = of(z.other).not_zero;
      if (!is_always(other)) p.not_zero = never_fails(other) ? other : either(z.condition, other);
      if (Expr x = tested_for_absence(z.condition)) p.not_zero = both(of(x).not_minus_inf, p.not_zero);
      return p;
    }
    case Op::Add: {
      // −inf + y is −inf; 0 + y is 0 only where y is.
      Presence p{always(), never()};
      for (Expr a : e.args()) {
        const Presence q = of(a);
        p.not_minus_inf = both(p.not_minus_inf, q.not_minus_inf);
        p.not_zero = either(p.not_zero, q.not_zero);
      }
      return p;
    }
    case Op::Sub: {
      const Presence a = of(e.arg(0)), b = of(e.arg(1));
      return {a.not_minus_inf, either(a.not_zero, b.not_zero)};
    }
    case Op::Neg: return {always(), of(e.arg(0)).not_zero};
    case Op::Mul: {
      Presence p{always(), always()};
      for (size_t k = 0; k < e.args().size(); ++k) {
        const Presence q = of(e.arg(k));
        p.not_zero = both(p.not_zero, q.not_zero);
        if (is_always(q.not_minus_inf)) continue;
        bool keeps = true;
        for (size_t other = 0; other < e.args().size(); ++other)
          if (other != k) keeps &= is_positive_factor(e.arg(other));
        if (keeps) p.not_minus_inf = both(p.not_minus_inf, q.not_minus_inf);
      }
      return p;
    }
    case Op::Div: {
      const Presence a = of(e.arg(0));
      const bool keeps = !is_always(a.not_minus_inf) && is_positive_factor(e.arg(1));
      return {keeps ? a.not_minus_inf : always(), a.not_zero};
    }
    case Op::Pow: {
      const auto base = e.arg(0).number(), exponent = e.arg(1).number();
      if (base && *base > 1) return {always(), of(e.arg(1)).not_minus_inf};
      if (exponent && *exponent > 0) return {always(), of(e.arg(0)).not_zero};
      return present;
    }
    case Op::Exp:
    case Op::Exp2: return {always(), of(e.arg(0)).not_minus_inf};
    case Op::Cast: return is_float(e->dtype) ? of(e.arg(0)) : present;
    case Op::Reduce:
      if (e->reducer == Reducer::Softmax) return {always(), this->present(e.arg(0))};
      return present;
    case Op::Read: {
      const Definition* d = program_.definition(e->sym);
      if (!d || (d->dtype && !is_float(*d->dtype))) return present;
      const Presence p = of(d->value);
      return {at_read(p.not_minus_inf, *d, e), at_read(p.not_zero, *d, e)};
    }
    default: return present;
  }
}

Expr PresenceRules::not_zero_under_sum(Expr e) {
  if (const auto found = zero_.find(e); found != zero_.end()) return found->second;
  const Expr c = both(of(e).not_zero, zero_rules(e));
  zero_.emplace(e, c);
  return c;
}

Expr PresenceRules::zero_rules(Expr e) {
  if (reductions_.count(e)) return always();
  switch (e.op()) {
    case Op::Select: {
      const auto branch = [&](Expr b) { return is_zero(b) ? never() : not_zero_under_sum(b); };
      return choose(e.arg(0), branch(e.arg(1)), branch(e.arg(2)));
    }
    case Op::Add:
    case Op::Sub: {
      Expr c = never();
      for (Expr a : e.args()) c = either(c, not_zero_under_sum(a));
      return c;
    }
    case Op::Mul: {
      Expr c = always();
      for (Expr a : e.args()) c = both(c, not_zero_under_sum(a));
      return c;
    }
    case Op::Div:
    case Op::Neg: return not_zero_under_sum(e.arg(0));
    case Op::Pow: {
      const auto exponent = e.arg(1).number();
      return exponent && *exponent > 0 ? not_zero_under_sum(e.arg(0)) : always();
    }
    case Op::Cast: return not_zero_under_sum(e.arg(0));
    case Op::Read: {
      const Definition* d = program_.definition(e->sym);
      return d ? at_read(not_zero_under_sum(d->value), *d, e) : always();
    }
    default: return always();
  }
}

Expr PresenceRules::present_under_sum(Expr e) { return both(of(e).not_minus_inf, not_zero_under_sum(e)); }

/// The index is the axis' own or that of an axis declared as long, a remainder by its size, or bounded by a literal size.
bool PresenceRules::lies_inside(Expr index, Sym axis) const {
  if (index == Expr(axis)) return true;
  const auto length = [&](Sym s) {
    const Axis& a = program_.axis(s);
    return a.size ? simplify(a.size) : Expr(s.size());
  };
  const bool own = index.is(Op::Symbol) && index->sym.kind() == SymbolKind::Index;
  if (own && length(index->sym) == length(axis)) return true;
  if (index.is(Op::Mod) && index.arg(1) == Expr(axis.size())) return true;
  const Axis& a = program_.axis(axis);
  if (!a.baked()) return false;
  const double size = double(a.size.rational()->num());
  if (index.is(Op::Mod) && index.arg(1).is_constant(a.size.rational()->num())) return true;
  const Interval range = bounds(index);
  return range.lo >= 0 && range.hi <= size - 1;
}

bool PresenceRules::never_fails(Expr e) {
  if (const auto found = safe_.find(e); found != safe_.end()) return found->second;
  bool safe = true;
  for (Expr a : e.args()) safe = safe && never_fails(a);
  if (e.is(Op::FloorDiv) || e.is(Op::Mod)) {
    const Expr divisor = e.arg(1);
    const auto number = divisor.number();
    safe = safe &&
           ((number && *number != 0) || (divisor.is(Op::Symbol) && divisor->sym.kind() == SymbolKind::Size));
  }
  if (safe && e.is(Op::Read)) {
    const std::vector<Sym> axes = program_.tensor_axes(e->sym);
    for (size_t k = 0; k < axes.size(); ++k) safe = safe && lies_inside(e.arg(k), axes[k]);
    if (const Definition* d = program_.definition(e->sym)) safe = safe && never_fails(d->value);
  }
  safe_.emplace(e, safe);
  return safe;
}

Expr presence(const Program& p, Expr e) { return PresenceRules(p).present(e); }

}  // namespace tilewright
