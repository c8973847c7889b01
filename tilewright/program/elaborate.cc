#include "tilewright/program/elaborate.h"

#include <map>

#include "tilewright/expr/simplify.h"
#include "tilewright/program/compared.h"
#include "tilewright/program/conditions.h"
#include "tilewright/program/presence.h"

namespace tilewright {

Expr identity(Reducer r) {
  switch (r) {
    case Reducer::Sum: return Expr(0);
    case Reducer::Max: return Expr::real(-__builtin_inf());
    case Reducer::Min: return Expr::infinity();
    case Reducer::Prod: return Expr(1);
    case Reducer::Any: return never();
    case Reducer::All: return always();
    case Reducer::Argmax:
    case Reducer::Argmin:
    case Reducer::Argtopk: return Expr(-1);
    case Reducer::Topk: return Expr::real(-__builtin_inf());
    case Reducer::Mean:
    case Reducer::Var:
    case Reducer::Softmax:
    case Reducer::Logsumexp: break;
  }
  TW_CHECK(false, std::string("reducer ") + name(r) + " has no identity: it is expanded");
}

namespace {

class Elaborator {
 public:
  explicit Elaborator(const Program& p) : program_(p), rules_(program_) {
    for (const Axis& a : program_.axes)
      if (a.baked()) baked_.push_back({a.index.size(), a.size});
  }

  Program run() {
    for (Definition& d : program_.definitions) {
      d.value = rewrite(substitute(d.value, baked_), [&](Expr e) {
        const Expr out = e.is(Op::Reduce) ? expand(e) : e;
        // Errors in what was made point to what was written.
        if (out != e)
          if (Span at = program_.span_of(e)) program_.spans.emplace(out, at);
        return out;
      });
      rules_.forget();
    }
    return std::move(program_);
  }

 private:
  Expr expand(Expr e) {
    const Expr x = e.arg(0);
    const std::vector<Sym>& axes = e->bound;
    switch (e->reducer) {
      case Reducer::Sum: return guarded(Reducer::Sum, axes, x, rules_.present_under_sum(x));
      case Reducer::Max:
      case Reducer::Min:
      case Reducer::Prod:
      case Reducer::Any:
      case Reducer::All: return guarded(e->reducer, axes, x, rules_.present(x));
      case Reducer::Argmax:
      case Reducer::Argmin: return arg(e->reducer, axes, x);
      case Reducer::Mean: return mean(axes, x, rules_.present(x));
      case Reducer::Var: {
        const Expr p = rules_.present(x);
        return guarded(Reducer::Sum, axes, pow(x - mean(axes, x, p), Expr(2)), p) / count(axes, p);
      }
      case Reducer::Softmax: return softmax(axes, x);
      case Reducer::Logsumexp: return logsumexp(axes, x);
      case Reducer::Topk:
      case Reducer::Argtopk: return element_of_rank(e);
    }
    TW_CHECK(false, "a reducer is not handled");
  }

  /// The reduction of `body` over its present elements. Conditions free of the axes stand outside.
  Expr guarded(Reducer r, const std::vector<Sym>& axes, Expr body, Expr present) {
    if (is_always(present)) return reduce(r, axes, body);
    if (is_never(present)) return identity(r);
    body = assume(body, present);
    Expr outer = always(), inner = always();
    for (Expr c : conjuncts(present)) {
      bool free = is_always(inner) || rules_.never_fails(c);
      for (Sym axis : axes) free = free && !depends_on(c, axis);
      Expr& side = free ? outer : inner;
      side = is_always(side) ? c : logical_and(side, c);
    }
    const Expr all = reduce(r, axes, is_always(inner) ? body : select(inner, body, identity(r)));
    if (is_always(outer)) return all;
    const Expr guarded = select(outer, all, identity(r));
    rules_.stands_for_reduction(
        guarded);  // what reads it finds an ordinary number, also where nothing was present
    return guarded;
  }

  /// Number of present elements.
  Expr count(const std::vector<Sym>& axes, Expr present) {
    if (!is_always(present)) return guarded(Reducer::Sum, axes, Expr(1), present);
    Expr n;
    for (Sym axis : axes) {
      const Expr size = substitute(Expr(axis.size()), baked_);
      n = n ? n * size : size;
    }
    return n;
  }

  Expr mean(const std::vector<Sym>& axes, Expr x, Expr present) {
    return guarded(Reducer::Sum, axes, x, both(present, rules_.present_under_sum(x))) / count(axes, present);
  }

  /// x with elements that are absent as 0 (after exp) made absent as −inf, as softmax and logsumexp skip
  /// both.
  Expr skipping(Expr x) {
    const Expr not_zero = rules_.of(x).not_zero;
    return is_always(not_zero) ? x : select(not_zero, x, identity(Reducer::Max));
  }

  Expr maximum(const std::vector<Sym>& axes, Expr x) {
    return guarded(Reducer::Max, axes, x, rules_.present(x));
  }

  Expr softmax(const std::vector<Sym>& axes, Expr x) {
    x = skipping(x);
    const Expr e = select(equal(x, identity(Reducer::Max)), Expr(0), exp(x - maximum(axes, x)));
    const Expr l = guarded(Reducer::Sum, axes, e, rules_.present_under_sum(e));
    return select(equal(l, Expr(0)), Expr(0), e / l);
  }

  Expr logsumexp(const std::vector<Sym>& axes, Expr x) {
    x = skipping(x);
    const Expr m = maximum(axes, x);
    const Expr e = exp(x - m);
    const Expr l = guarded(Reducer::Sum, axes, e, rules_.present_under_sum(e));
    return select(equal(make(Op::Abs, {m}), Expr::infinity()), m, m + log(l));
  }

  /// The index of the first best present element, −1 without one. Absent elements read as the identity of the
  /// best, so only where that is the best itself must the first present index be found apart.
  Expr arg(Reducer r, const std::vector<Sym>& axes, Expr x) {
    const Expr present = rules_.present(x);
    if (is_always(present)) return reduce(r, axes, x);
    const Reducer best = r == Reducer::Argmax ? Reducer::Max : Reducer::Min;
    const Expr value = select(present, assume(x, present), identity(best));
    const Sym axis = axes.at(0);
    const Expr first =
        reduce(Reducer::Min, axes, select(present, Expr(axis), substitute(Expr(axis.size()), baked_)));
    const Expr some = reduce(Reducer::Any, axes, present);
    return select(equal(reduce(best, axes, value), identity(best)), select(some, first, Expr(-1)),
                  reduce(r, axes, value));
  }

  /// The same reduction of what is present.
  Expr element_of_rank(Expr e) {
    const Expr x = e.arg(0), present = rules_.present(x);
    const Expr body = is_always(present) ? x : select(present, assume(x, present), identity(Reducer::Max));
    return ranked(e->reducer, e->bound[0], body, e.arg(1));
  }

  Program program_;
  PresenceRules rules_;
  Substitution baked_;
};

class Inliner {
 public:
  explicit Inliner(const Program& p) : program_(p) {}

  Expr value(const Definition& d) {
    if (const auto found = memo_.find(d.sym); found != memo_.end()) return found->second;
    const Expr v = rewrite(d.value, [&](Expr e) {
      const Definition* other = e.is(Op::Read) ? program_.definition(e->sym) : nullptr;
      if (!other || other->dtype) return e;
      Substitution s;
      for (size_t k = 0; k < other->axes.size(); ++k)
        if (e.arg(k) != Expr(other->axes[k])) s.push_back({other->axes[k], e.arg(k)});
      return substitute(value(*other), s);
    });
    memo_.emplace(d.sym, v);
    return v;
  }

 private:
  const Program& program_;
  std::map<Sym, Expr> memo_;
};

}  // namespace

Program elaborate(const Program& p) { return Elaborator(p).run(); }

Expr counted(Expr e, std::optional<DType> real) {
  const RankedBody body = ranked_body(e);
  const Sym axis = e->bound[0];
  Expr value = real ? whole(body.value, *real) : body.value;
  if (real && value.is(Op::Read) && !is_integer(value)) value = cast(*real, value);  // of a definition
  const Expr present = body.present ? body.present : always(), wanted = e.arg(1);
  Sym other = primed(axis);
  while (depends_on(value, other) || depends_on(present, other)) other = primed(other);
  const Substitution moved{{axis, Expr(other)}};
  const Expr rival = substitute(value, moved);
  Expr ahead = less(value, rival), level = equal(rival, value);
  if (!is_integer(value)) {
    const Expr nan = logical_not(equal(value, value)), rival_nan = logical_not(equal(rival, rival));
    ahead = logical_or(ahead, logical_and(rival_nan, logical_not(nan)));
    level = logical_or(level, logical_and(rival_nan, nan));
  }
  const Expr before = logical_or(ahead, logical_and(level, less(Expr(other), Expr(axis))));
  const Expr rank =
      reduce(Reducer::Sum, {other}, select(both(substitute(present, moved), before), Expr(1), Expr(0)));
  const Expr chosen = both(present, equal(rank, wanted));
  if (e->reducer == Reducer::Topk)
    return reduce(Reducer::Max, {axis}, select(chosen, value, identity(Reducer::Max)));
  return reduce(Reducer::Sum, {axis}, select(chosen, Expr(axis) + 1, Expr(0))) - 1;
}

Program with_counted_ranks(Program p, std::optional<DType> real) {
  for (Definition& d : p.definitions)
    d.value = rewrite(d.value, [&](Expr e) {
      if (!e.is(Op::Reduce) || !has_rank(e->reducer)) return e;
      const Expr out = counted(e, real);
      if (Span at = p.span_of(e)) p.spans.emplace(out, at);
      return out;
    });
  return p;
}

Expr inlined(const Program& elaborated, Sym definition) {
  const Definition* d = elaborated.definition(definition);
  TW_CHECK(d, "no definition of the program is " + definition.name());
  return fold_branches(Inliner(elaborated).value(*d));
}

}  // namespace tilewright
