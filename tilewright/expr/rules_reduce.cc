// Maximum and minimum, reductions, bounded sums. `f` depends on the bound axes, `k` does not.
//
//   max(max(a, b), c) = max(a, b, c)          max(a, a) = a      max(-inf, a) = a      max(a, a + 1) = a + 1
//   Σ k·f = k·Σ f for finite k                Σ_x k = size(x)·k     Σ_x Σ_y f = Σ_{x,y} f
//   Σ f·where(c, g, 0) = Σ where(c, f·g, 0): absent elements are skipped, whatever f is there
//   Σ where(c and k, f, 0) = where(k, Σ where(c, f, 0), 0)        likewise max with -inf, min with inf
//   max(k + f) = k + max f                    max k·f = k·max f for k > 0 made of numbers, sizes and params
//   any (p and k) = k and any p               all (p or k) = k or all p
//   max where(c, k·f + l, -inf) = k·max where(c, f, -inf) + l for such k, l
#include <algorithm>
#include <cmath>
#include <limits>

#include "tilewright/expr/canonical.h"

namespace tilewright::canonical {
namespace {

bool depends_on_any(Expr e, const std::vector<Sym>& symbols) {
  return std::any_of(symbols.begin(), symbols.end(), [&](Sym s) { return depends_on(e, s); });
}

/// e = constant + rest, for max(a, a + 1).
std::pair<Number, Expr> split_number(Expr e) {
  if (!e.is(Op::Add) || !e.arg(0).number()) return {Number(0), e};
  Number c = *Number::of(e.arg(0));
  if (!c.finite()) return {Number(0), e};
  if (e.args().size() == 2) return {c, e.arg(1)};
  return {c, make(Op::Add, std::vector<Expr>(e.args().begin() + 1, e.args().end()))};
}

}  // namespace

Expr extremum(Op op, std::vector<Expr> args) {
  const bool max = op == Op::Max;
  std::vector<Expr> flat;
  for (Expr a : args) {
    if (a.is(op))
      flat.insert(flat.end(), a.args().begin(), a.args().end());
    else
      flat.push_back(a);
  }
  std::optional<Number> number;
  std::vector<std::pair<Expr, Number>> terms;  // rest, constant
  for (Expr a : flat) {
    if (auto n = Number::of(a)) {
      if (std::isnan(n->value())) return a;
      if (!number || (max ? n->value() > number->value() : n->value() < number->value())) number = n;
      continue;
    }
    auto [c, rest] = split_number(a);
    auto same =
        std::find_if(terms.begin(), terms.end(), [other = rest](auto& t) { return t.first == other; });
    if (same == terms.end())
      terms.emplace_back(rest, c);
    else if (max ? c.value() > same->second.value() : c.value() < same->second.value())
      same->second = c;
  }
  std::vector<Expr> out;
  for (auto& [rest, c] : terms) out.push_back(c.is(0) ? rest : add({c.expr(), rest}));
  // Finite terms that never decide beside a number vanish; a NaN must not.
  if (number && std::isfinite(number->value())) {
    bool needed = true;
    std::erase_if(out, [&](Expr e) {
      if (!facts(e).finite) return false;
      Interval r = bounds(e);
      return max ? r.hi <= number->value() : r.lo >= number->value();
    });
    for (Expr e : out) {
      Interval r = bounds(e);
      if (max ? r.lo >= number->value() : r.hi <= number->value()) needed = false;
    }
    if (!needed) number.reset();
  }
  if (number && std::isinf(number->value())) {
    if ((number->value() < 0) == max) {
      if (!out.empty()) number.reset();
    } else {
      std::erase_if(out, [](Expr e) { return facts(e).finite; });
    }
  }
  if (number) out.push_back(number->expr());
  std::sort(out.begin(), out.end(), [](Expr a, Expr b) { return compare(a, b) < 0; });
  if (out.size() == 1) return out[0];
  return make(op, std::move(out));
}

namespace {

struct Factored {
  std::vector<Expr> outside, inside;
};

/// Factors of `body` that may stand before a sum. An infinite one stays: Σ inf·f is NaN where f changes its sign.
Factored split_product(Expr body, const std::vector<Sym>& axes) {
  Factored f;
  auto [content, base] = primitive(body, true);
  if (!content.is(1)) f.outside.push_back(content.expr());
  for (Expr x : factors_of(base)) {
    if (x.is_constant(1)) continue;
    const bool stays = depends_on_any(x, axes) || (x.number() && !std::isfinite(*x.number()));
    (stays ? f.inside : f.outside).push_back(x);
  }
  return f;
}

/// The axis symbols on which `body` does not depend, removed from `axes`.
std::vector<Sym> take_unused(std::vector<Sym>& axes, Expr body) {
  std::vector<Sym> unused;
  std::erase_if(axes, [&](Sym s) {
    if (depends_on(body, s)) return false;
    unused.push_back(s);
    return true;
  });
  return unused;
}

Expr plain(Reducer r, const std::vector<Sym>& axes, Expr body) {
  return axes.empty() ? body : reduce(r, axes, body);
}

/// reduce where(c and k, f, identity) = where(k, reduce where(c, f, identity), identity)
std::optional<Expr> outer_conditions(Reducer r, const std::vector<Sym>& axes, Expr body, Expr identity) {
  if (!body.is(Op::Select) || body.arg(2) != identity) return std::nullopt;
  std::vector<Expr> outside, inside;
  for (Expr c : conjuncts(body.arg(0))) (depends_on_any(c, axes) ? inside : outside).push_back(c);
  if (outside.empty()) return std::nullopt;
  Expr inner = inside.empty() ? body.arg(1) : where(conjunction(inside), body.arg(1), identity);
  return where(conjunction(outside), reduction(r, axes, inner), identity);
}

/// The body of a sum without its factors where(c, x, 0), whose conditions are collected: an element is absent
/// where one fails, even beside factors that are not finite there.
Expr without_conditions(Expr body, std::vector<Expr>& conditions) {
  for (;;) {
    std::vector<Expr> factors;
    bool any = false;
    for (Expr f : factors_of(body)) {
      if (f.is(Op::Select) && f.arg(2).is_constant(0)) {
        conditions.push_back(f.arg(0));
        f = f.arg(1);
        any = true;
      }
      factors.push_back(f);
    }
    if (!any) return body;
    body = mul(std::move(factors));
  }
}

Expr sum(std::vector<Sym> axes, Expr body) {
  if (body.is_constant(0)) return body;
  std::vector<Expr> conditions;
  if (Expr x = without_conditions(body, conditions); x != body) {
    Expr joined = where(conjunction(conditions), x, Expr(0));
    if (joined != body) return reduction(Reducer::Sum, axes, joined);
  }
  if (body.is(Op::Reduce) && body->reducer == Reducer::Sum) {
    bool independent = std::none_of(axes.begin(), axes.end(), [&](Sym s) {
      return std::find(body->bound.begin(), body->bound.end(), s) != body->bound.end();
    });
    if (independent) {
      axes.insert(axes.end(), body->bound.begin(), body->bound.end());
      return reduction(Reducer::Sum, axes, body.arg(0));
    }
  }
  if (auto moved = outer_conditions(Reducer::Sum, axes, body, Expr(0))) return *moved;
  Factored f = split_product(body, axes);
  if (!f.outside.empty()) {
    f.outside.push_back(reduction(Reducer::Sum, axes, mul(f.inside)));
    return mul(std::move(f.outside));
  }
  std::vector<Expr> sizes;
  std::vector<Sym> kept = axes;
  for (Sym s : take_unused(kept, body)) {
    if (s.size())
      sizes.push_back(s.size());
    else
      kept.push_back(s);
  }
  if (!sizes.empty()) {
    sizes.push_back(kept.empty() ? body : reduction(Reducer::Sum, kept, body));
    return mul(std::move(sizes));
  }
  if (body.is(Op::Select) && body.arg(2).is_constant(0)) {
    Factored g = split_product(body.arg(1), axes);
    std::vector<Expr> stay = g.inside, move;
    for (Expr x : g.outside) (free_of_data(x) ? move : stay).push_back(x);
    if (!move.empty()) {
      move.push_back(reduction(Reducer::Sum, axes, where(body.arg(0), mul(stay), Expr(0))));
      return mul(std::move(move));
    }
  }
  return plain(Reducer::Sum, axes, body);
}

Expr highest(Reducer r, std::vector<Sym> axes, Expr body) {
  const Expr identity = Expr::real(r == Reducer::Max ? -std::numeric_limits<double>::infinity()
                                                     : std::numeric_limits<double>::infinity());
  if (body == identity) return body;
  if (body.is(Op::Reduce) && body->reducer == r) {
    bool independent = std::none_of(axes.begin(), axes.end(), [&](Sym s) {
      return std::find(body->bound.begin(), body->bound.end(), s) != body->bound.end();
    });
    if (independent) {
      axes.insert(axes.end(), body->bound.begin(), body->bound.end());
      return reduction(r, axes, body.arg(0));
    }
  }
  if (auto moved = outer_conditions(r, axes, body, identity)) return *moved;
  std::erase_if(axes, [&](Sym s) { return !depends_on(body, s) && s.size() && s.size().info().positive; });
  if (axes.empty()) return body;
  const bool chosen = body.is(Op::Select) && body.arg(2) == identity;
  Expr x = chosen ? body.arg(1) : body;
  auto again = [&](Expr rest) {
    return reduction(r, axes, chosen ? where(body.arg(0), rest, identity) : rest);
  };
  // A number alone stays: max over an axis of 3 is -inf when the axis is empty.
  if (!x.number()) {
    auto [content, base] = primitive(x, false);
    std::vector<Expr> outside, inside;
    if (!content.is(1)) outside.push_back(content.expr());
    for (Expr f : factors_of(base)) {
      bool moves = is_uniform(f) && !f.number() && !depends_on_any(f, axes) && provably_positive(f);
      (moves ? outside : inside).push_back(f);
    }
    if (!outside.empty() && !inside.empty()) {
      outside.push_back(again(mul(std::move(inside))));
      return mul(std::move(outside));
    }
  }
  if (x.is(Op::Add)) {
    std::vector<Expr> outside, inside;
    for (Expr t : x.args()) {
      bool moves = !depends_on_any(t, axes) && (!chosen || free_of_data(t));
      (moves ? outside : inside).push_back(t);
    }
    if (!outside.empty() && !inside.empty()) {
      outside.push_back(again(add(std::move(inside))));
      return add(std::move(outside));
    }
  }
  return plain(r, axes, body);
}

/// any (p and k) = k and any p; all (p or k) = k or all p. Right over empty axes, too.
Expr quantified(Reducer r, const std::vector<Sym>& axes, Expr body) {
  const Op op = r == Reducer::Any ? Op::And : Op::Or;
  if (!body.is(op)) return plain(r, axes, body);
  std::vector<Expr> outside, inside;
  for (Expr c : body.args()) (depends_on_any(c, axes) ? inside : outside).push_back(c);
  if (outside.empty() || inside.empty()) return plain(r, axes, body);
  outside.push_back(reduction(r, axes, op == Op::And ? conjunction(inside) : disjunction(inside)));
  return op == Op::And ? conjunction(outside) : disjunction(outside);
}

}  // namespace

Expr reduction(Reducer r, std::vector<Sym> axes, Expr body) {
  std::sort(axes.begin(), axes.end());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  if (axes.empty() && r != Reducer::Argmax && r != Reducer::Argmin) return body;
  switch (r) {
    case Reducer::Sum: return sum(std::move(axes), body);
    case Reducer::Max:
    case Reducer::Min: return highest(r, std::move(axes), body);
    case Reducer::Any: return is_false(body) ? Expr(0) : quantified(r, axes, body);
    case Reducer::All: return is_true(body) ? Expr(1) : quantified(r, axes, body);
    case Reducer::Prod:
      if (body.is_constant(1)) return body;
      break;
    default: break;
  }
  return reduce(r, std::move(axes), body);
}

Expr ranged_sum(Sym var, Expr lo, Expr hi, Expr body) {
  if (body.is_constant(0)) return body;
  std::vector<Expr> outside, inside;
  auto [content, base] = primitive(body, true);
  if (!content.is(1)) outside.push_back(content.expr());
  for (Expr f : factors_of(base)) (depends_on(f, var) ? inside : outside).push_back(f);
  std::erase_if(outside, [](Expr f) { return f.is_constant(1); });
  if (inside.empty()) {  // Σ k over [lo, hi) = k·max(0, hi - lo)
    outside.push_back(extremum(Op::Max, {Expr(0), subtract(hi, lo)}));
    return mul(std::move(outside));
  }
  if (outside.empty()) return range_sum(var, lo, hi, body);
  outside.push_back(range_sum(var, lo, hi, mul(std::move(inside))));
  return mul(std::move(outside));
}

}  // namespace tilewright::canonical
