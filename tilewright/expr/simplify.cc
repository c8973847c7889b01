// simplify(): the canonical builders applied from the leaves up, remembered on each node.
#include "tilewright/expr/simplify.h"

#include <cmath>

#include "tilewright/expr/canonical.h"
#include "tilewright/support/error.h"

namespace tilewright {
namespace canonical {
namespace {

Expr log2_of_e_inverse() { return make(Op::Log, {Expr(2)}); }

Expr build(const Node& n, const std::vector<Expr>& a) {
  switch (n.op) {
    case Op::Constant: return Expr(n.number);
    case Op::Real: return Expr::real(n.real);
    case Op::Symbol: return Expr(n.sym);
    case Op::Read: return read(n.sym, a);
    case Op::Add: return add(a);
    case Op::Sub: return subtract(a[0], a[1]);
    case Op::Mul: return mul(a);
    case Op::Div: return divide(a[0], a[1]);
    case Op::Neg: return negative(a[0]);
    case Op::Pow: return power(a[0], a[1]);
    case Op::Exp: return exponential(a[0]);
    case Op::Exp2: return exponential(mul({a[0], log2_of_e_inverse()}));
    case Op::Log: return logarithm(a[0]);
    case Op::Log2: return divide(logarithm(a[0]), log2_of_e_inverse());
    case Op::Sqrt: return power(a[0], Expr(Rational(1, 2)));
    case Op::Rsqrt: return power(a[0], Expr(Rational(-1, 2)));
    case Op::Tanh:
    case Op::Sigmoid:
    case Op::Erf:
    case Op::Abs:
    case Op::Floor:
    case Op::Round:
    case Op::Sign: return unary(n.op, a[0]);
    case Op::Max:
    case Op::Min: return extremum(n.op, a);
    case Op::Select: return where(a[0], a[1], a[2]);
    case Op::Lt: return lt(a[0], a[1]);
    case Op::Le: return le(a[0], a[1]);
    case Op::Eq: return eq(a[0], a[1]);
    case Op::Ne: return negation(eq(a[0], a[1]));
    case Op::And: return conjunction(a);
    case Op::Or: return disjunction(a);
    case Op::Not: return negation(a[0]);
    case Op::FloorDiv: return floor_div(a[0], a[1]);
    case Op::Mod: return modulo(a[0], a[1]);
    case Op::Cast: return convert(n.dtype, a[0]);
    case Op::Reduce:
      return has_rank(n.reducer) ? ranked(n.reducer, n.bound[0], a[0], a[1])
                                 : reduction(n.reducer, n.bound, a[0]);
    case Op::RangeSum: return ranged_sum(n.bound[0], a[0], a[1], a[2]);
  }
  TW_CHECK(false, "unknown operator");
}

}  // namespace

Expr rebuild(const Node& shape, std::vector<Expr> args) {
  try {
    return build(shape, args);
  } catch (const RationalOverflow&) {  // a number that does not fit: keep what is written
    Node n = shape;
    n.args = std::move(args);
    return make(std::move(n));
  }
}

}  // namespace canonical

namespace {

Expr known_canonical(Expr e) {
  const Node* n = interned(e).canonical.load(std::memory_order_acquire);
  return Expr::of(n);
}

void remember(Expr e, Expr canonical) {
  interned(e).canonical.store(canonical.get(), std::memory_order_release);
}

std::vector<Expr> simplified(const std::vector<Expr>& args) {
  std::vector<Expr> out;
  out.reserve(args.size());
  for (Expr a : args) out.push_back(simplify(a));
  return out;
}

/// Applies the builders until nothing changes. Rules are written so that one round is the rule and a second
/// the exception.
Expr settled(Expr e) {
  std::vector<Expr> passed;
  for (int round = 0; round < 12; ++round) {
    if (Expr known = known_canonical(e)) return known;
    Expr next = canonical::rebuild(*e, simplified(e.args()));
    if (next == e) break;
    passed.push_back(e);
    e = next;
  }
  remember(e, e);
  for (Expr p : passed) remember(p, e);
  return e;
}

}  // namespace

Expr simplify(Expr e) {
  if (Expr known = known_canonical(e)) return known;
  Expr out = settled(canonical::rebuild(*e, simplified(e.args())));
  remember(e, out);
  return out;
}

namespace {

/// (a + b)^n multiplied out for 2 <= n <= 8 while it stays below 256 terms.
Expr multiplied_out(Expr power) {
  Expr base = power.arg(0);
  auto n = power.arg(1).rational();
  if (!base.is(Op::Add) || !n || !n->is_integer() || n->num() < 2 || n->num() > 8) return power;
  if (std::pow(double(base.args().size()), double(n->num())) > 256) return power;
  std::vector<Expr> out = base.args();
  for (int64_t k = 1; k < n->num(); ++k) {
    std::vector<Expr> next;
    for (Expr a : out)
      for (Expr b : base.args()) next.push_back(canonical::distribute(canonical::mul({a, b})));
    out = canonical::terms_of(canonical::add(std::move(next)));
  }
  return canonical::add(std::move(out));
}

Expr expanded_node(Expr e) {
  if (e.is(Op::Pow)) return multiplied_out(e);
  if (e.is(Op::Mul)) {
    std::vector<Expr> factors;
    bool any = false;
    for (Expr f : e.args()) {
      factors.push_back(f.is(Op::Pow) ? multiplied_out(f) : f);
      any |= factors.back().is(Op::Add);
    }
    return any ? canonical::distribute(make(Op::Mul, std::move(factors))) : e;
  }
  if (e.is(Op::Reduce) && e->reducer == Reducer::Sum && e.arg(0).is(Op::Add)) {
    std::vector<Expr> terms;
    for (Expr t : e.arg(0).args()) terms.push_back(canonical::reduction(Reducer::Sum, e->bound, t));
    return canonical::add(std::move(terms));
  }
  return e;
}

}  // namespace

Expr expand(Expr e) {
  e = simplify(e);
  for (int round = 0; round < 4; ++round) {
    Expr next = simplify(rewrite(
        e, [](Expr x) { return x.args().empty() ? x : expanded_node(canonical::rebuild(*x, x.args())); }));
    if (next == e) break;
    e = next;
  }
  return e;
}

namespace {

/// The product of all denominators of a sum, each to its highest power; 1 when there are none.
Expr common_denominator(Expr sum) {
  std::map<Expr, Rational> highest;
  for (Expr t : canonical::terms_of(sum)) {
    for (Expr f : canonical::factors_of(t)) {
      if (!f.is(Op::Pow) || f.arg(0).number()) continue;
      auto q = f.arg(1).rational();
      if (!q || q->num() >= 0) continue;
      auto it = highest.emplace(f.arg(0), -*q).first;
      it->second = std::max(it->second, -*q);
    }
  }
  std::vector<Expr> factors;
  for (auto& [base, power] : highest) factors.push_back(canonical::power(base, Expr(power)));
  return canonical::mul(std::move(factors));
}

/// A condition that decides a selection in `e` outside of binders.
Expr deciding_condition(Expr e) {
  if (!facts(e).condition || e.is(Op::Reduce) || e.is(Op::RangeSum)) return Expr();
  if (e.is(Op::Select)) return canonical::literals(e.arg(0), true)[0].first;
  for (Expr a : e.args())
    if (Expr c = deciding_condition(a)) return c;
  return Expr();
}

/// e = 0 over the reals: expanded, over a common denominator, in each case of its selections.
bool is_zero(Expr e, int cases) {
  e = expand(e);
  if (e.number()) return e.is_constant(0);
  Expr denominator = common_denominator(e);
  if (!denominator.is_constant(1)) {
    std::vector<Expr> terms;  // each cancels its denominator before the rest is expanded
    for (Expr t : canonical::terms_of(e)) terms.push_back(canonical::mul({t, denominator}));
    if (expand(canonical::add(std::move(terms))).is_constant(0)) return true;
  }
  Expr condition = cases > 0 ? deciding_condition(e) : Expr();
  if (!condition) return false;
  return is_zero(canonical::assuming(e, {{condition, true}}), cases - 1) &&
         is_zero(canonical::assuming(e, {{condition, false}}), cases - 1);
}

}  // namespace

bool provably_equal(Expr a, Expr b) { return simplify(a) == simplify(b) || is_zero(a - b, 6); }

bool is_integer(Expr e) { return facts(e).integer; }
bool is_boolean(Expr e) { return facts(e).boolean || e.is_constant(0) || e.is_constant(1); }

}  // namespace tilewright
