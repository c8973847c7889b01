#include "tilewright/derive/peel.h"

#include <algorithm>
#include <cmath>

#include "tilewright/derive/family.h"
#include "tilewright/program/compared.h"
#include "tilewright/program/elaborate.h"

namespace tilewright::derivation {
namespace {

using Kind = NormalForm::Kind;

class Peeler {
 public:
  Peeler(NormalForm& nf, const Signs& signs, Expr size,
         const std::function<std::vector<Sym>(const Leaf&)>& axes_of, Inside inside)
      : nf_(nf), signs_(signs), size_(size), axes_of_(axes_of), inside_(inside) {}

  Peeled run(Reducer r, Expr body, Expr present) {
    switch (r) {
      case Reducer::Max:
      case Reducer::Min: out_.value = extremum(r, body, present); break;
      case Reducer::Prod: out_.value = product(body, present); break;
      case Reducer::Any: out_.value = any(body, present); break;
      case Reducer::All: out_.value = simplify(logical_not(any(negation(body), present))); break;
      default: TW_CHECK(false, "a sum is not peeled");
    }
    out_.value = simplify(out_.value);
    return std::move(out_);
  }

 private:
  Expr leaf(Reducer r, Expr c, Expr present) {
    if (!inner_.empty() && r != Reducer::Sum) {
      if (!free(present)) throw Mixing{c, "a condition of an inner reduction beside a running value"};
      c = simplify(reduce(r, inner_, c));
    }
    for (const Leaf& l : out_.leaves)
      if (l.reducer == r && l.c == c && l.present == present) return read(l);
    Leaf l{.sym = {}, .axes = {}, .reducer = r, .c = c, .present = present};
    l.axes = axes_of_(l);
    l.sym = Sym::fresh({.name = name(r), .kind = SymbolKind::Tile});
    out_.leaves.push_back(l);
    return read(l);
  }
  static Expr read(const Leaf& l) {
    return tilewright::read(l.sym, std::vector<Expr>(l.axes.begin(), l.axes.end()));
  }
  Expr count(Expr present) { return leaf(Reducer::Sum, 1, present); }
  /// Is `e` free of the axes of the reductions inside which it stands?
  bool free(Expr e) const {
    return std::none_of(inner_.begin(), inner_.end(), [&](Sym s) { return depends_on(e, s); });
  }
  /// Can `e` be moved out of everything?
  bool moves(Expr e) {
    const Kind kind = nf_.kind(e);
    return kind != Kind::C && kind != Kind::Mixed && free(e);
  }
  static Reducer opposite(Reducer r) { return r == Reducer::Max ? Reducer::Min : Reducer::Max; }

  /// `present` ∧ `c` may hold for nothing: then the branch must not take part, whatever was peeled off it.
  Expr branch(Reducer r, Expr value, Expr present) {
    if (is_true(present) || value.is(Op::Read)) return value;
    return select(equal(count(present), 0), identity(r), value);
  }

  Expr extremum(Reducer r, Expr e, Expr present) {
    Kind kind = nf_.kind(e);
    if (moves(e)) return e;
    if (kind == Kind::Constant) return leaf(r, e, present);
    if (kind == Kind::Mixed && is_whole(e))
      throw Mixing{e, "a mixture of running and varying values is rounded as a whole"};
    const bool whole =
        inside_ == Inside::Whole || is_whole(e);  // kept: a point of its own, as in exponentials
    if (kind == Kind::C && whole) return leaf(r, e, present);
    if (auto f = increasing(r, e, present)) return f;
    if (kind == Kind::C) return leaf(r, e, present);
    switch (e.op()) {
      case Op::Add: {
        std::vector<Expr> moved, kept;
        for (Expr a : e.args()) (moves(a) ? moved : kept).push_back(a);
        if (moved.empty()) break;
        moved.push_back(extremum(r, sum_of(kept), present));
        return sum_of(moved);
      }
      case Op::Mul: {
        std::vector<Expr> moved, kept;
        for (Expr f : e.args()) (moves(f) ? moved : kept).push_back(f);
        if (moved.empty()) break;
        Expr a = product_of(moved), rest = product_of(kept);
        if (signs_.nonnegative(a)) return a * extremum(r, rest, present);
        if (signs_.nonnegative(simplify(-a))) return a * extremum(opposite(r), rest, present);
        return select(less_equal(0, a), a * extremum(r, rest, present),
                      a * extremum(opposite(r), rest, present));
      }
      case Op::Max:
      case Op::Min: {
        const bool same = e.is(Op::Max) == (r == Reducer::Max);
        std::vector<Expr> of_c, args;  // those of C are one value
        for (Expr a : e.args()) (!same && nf_.kind(a) == Kind::C ? of_c : args).push_back(a);
        if (!of_c.empty()) args.push_back(of_c.size() == 1 ? of_c[0] : simplify(make(e.op(), of_c)));
        const auto varying = std::count_if(args.begin(), args.end(), [&](Expr a) { return nf_.varies(a); });
        if (!same && varying != 1) break;
        for (Expr& a : args) a = extremum(r, a, present);
        return make(e.op(), args);
      }
      case Op::Abs: {
        std::vector<Term> t = nf_.terms(e);
        if (t.size() != 1 || !t[0].shifts.empty() || t[0].u || !free(t[0].coefficient)) break;
        return t[0].coefficient * leaf(r, t[0].c, conjunction(present, t[0].present));
      }
      case Op::Select: {
        Expr none = identity(r);
        std::vector<Expr> parts;
        auto take = [&](Expr condition, Expr value) {
          if (value == none) return;
          for (const NormalForm::Split& s : nf_.split(condition)) {
            if (is_false(s.c) || is_false(s.r)) continue;
            if (!free(s.c) || !free(s.r))
              throw Mixing{e, "a condition of an inner reduction beside a running value"};
            Expr here = conjunction(present, s.c);
            Expr part = branch(r, extremum(r, value, here), is_true(s.c) ? truth() : here);
            parts.push_back(is_true(s.r) ? part : select(s.r, part, none));
          }
        };
        take(e.arg(0), e.arg(1));
        take(negation(e.arg(0)), e.arg(2));
        if (parts.empty()) return none;
        return parts.size() == 1 ? parts[0] : make(r == Reducer::Max ? Op::Max : Op::Min, parts);
      }
      case Op::Reduce: {  // max_j max_d(a·c + b) = a·max_j(max_d c) + b
        if (e->reducer != r) break;
        const std::vector<Sym> around = inner_;
        inner_.insert(inner_.end(), e->bound.begin(), e->bound.end());
        const Expr value = extremum(r, e.arg(0), present);
        inner_ = around;
        return value;
      }
      default: break;
    }
    throw Mixing{e, "what is left after peeling holds both running and varying values"};
  }

  /// f(max g) for nondecreasing f, f(min g) for nonincreasing f; null where `e` is none of them.
  Expr increasing(Reducer r, Expr e, Expr present) {
    auto inside = [&](Expr a, bool up) { return extremum(up ? r : opposite(r), a, present); };
    switch (e.op()) {
      case Op::Exp:
      case Op::Log:
      case Op::Tanh:
      case Op::Sigmoid:
      case Op::Erf:
      case Op::Floor:
      case Op::Round:
      case Op::Sign:
      case Op::Cast: return with_args(e, {inside(e.arg(0), true)});
      case Op::Pow: {
        auto q = e.arg(1).rational();
        if (!q || nf_.varies(e.arg(1))) return {};
        bool odd = q->is_integer() && q->num() % 2 != 0 && q->num() > 0;
        if (odd || (*q > Rational(0) && signs_.nonnegative(e.arg(0))))
          return pow(inside(e.arg(0), true), e.arg(1));
        if (*q < Rational(0) && signs_.positive(e.arg(0))) return pow(inside(e.arg(0), false), e.arg(1));
        return {};
      }
      default: return {};
    }
  }

  /// Π a·c·exp(u − r) = aⁿ · Π c · exp(Σ u − n·r), where a holds results
  Expr product(Expr body, Expr present) {
    if (nf_.kind(body) == Kind::C) return leaf(Reducer::Prod, body, present);
    std::vector<Term> t = nf_.terms(body);
    if (t.size() != 1 || !t[0].shifts.empty() || !is_true(t[0].present))
      throw Mixing{body, "a product of sums of running and varying values"};
    Expr n = is_true(present) ? count(truth()) : count(present);
    std::vector<Expr> moved, c{t[0].c};  // what holds no result stays, so that the product keeps its range
    for (Expr f : factors_of(t[0].coefficient)) (nf_.runs(f) ? moved : c).push_back(f);
    Expr value = pow(product_of(moved), n);
    if (Expr inside = product_of(c); !inside.is_constant(1))
      value = value * leaf(Reducer::Prod, inside, present);
    if (t[0].u) value = value * exp(leaf(Reducer::Sum, t[0].u, present) - n * t[0].r);
    return value;
  }

  Expr any(Expr body, Expr present) {
    Expr value = 0;
    for (const NormalForm::Split& s : nf_.split(body)) {
      if (is_false(s.c) || is_false(s.r)) continue;
      bool everything = is_true(s.c) && is_true(present);
      Expr some = everything ? logical_not(equal(size_, 0)) : leaf(Reducer::Any, s.c, present);
      Expr part = is_true(s.r) ? some : logical_and(s.r, some);
      value = is_false(value) ? part : logical_or(value, part);
    }
    return value;
  }

  NormalForm& nf_;
  const Signs& signs_;
  Expr size_;
  const std::function<std::vector<Sym>(const Leaf&)>& axes_of_;
  Inside inside_;
  std::vector<Sym>
      inner_;  ///< axes of the reductions inside which an expression stands, of the same kind as the one that is peeled
  Peeled out_;
};

/// A body as a strictly increasing function of what varies: elements stand in the order of that.
class Increasing {
 public:
  Increasing(NormalForm& nf, const Signs& signs, Sym axis) : nf_(nf), signs_(signs), axis_(axis) {
    of_ = Sym::fresh({.name = "key", .kind = SymbolKind::Variable});
  }

  /// The body over `of`.
  Expr run(Expr body) {
    whole_ = body;
    if (nf_.varies(body)) return visit(body);
    key = 0;  // all are equal
    return body;
  }
  Expr of(Expr value) const { return substitute(result_, {{of_, value}}); }
  void keep(Expr result) { result_ = result; }
  /// The function where the key is finite and something is present; null where it is the key itself.
  Expr on_numbers() const {
    if (result_ == Expr(of_) || !depends_on(result_, of_)) return {};
    const Expr finite = rewrite(result_, [&](Expr x) {
      const bool guard = x.is(Op::Ne) && x.arg(0) == Expr(of_) && x.arg(1) == minus_infinity();
      return guard ? truth() : is_boolean(x) && !depends_on(x, of_) ? decided(x) : x;
    });
    return simplify(signs_.assumed(simplify(finite)));
  }
  Sym symbol() const { return of_; }

  Expr key;  ///< what varies

 private:
  [[noreturn]] static void refuse(Expr e, const std::string& reason) { throw Mixing{e, reason}; }

  Expr core(Expr c) {
    if (key && key != c) refuse(whole_, "more than one varying value decides the order");
    key = c;
    return Expr(of_);
  }

  Expr visit(Expr e) {
    const Kind kind = nf_.kind(e);
    if (kind == Kind::C && (is_whole(e) || !e.is(Op::Mul))) return core(e);
    switch (e.op()) {
      case Op::Add: {
        const auto [fixed, varying] = parts(e);
        if (!fixed.empty()) return sum_of(fixed) + visit(sum_of(varying));
        std::vector<Expr> sum;
        for (Expr a : varying) sum.push_back(visit(a));
        return sum_of(sum);
      }
      case Op::Mul: {
        const auto [fixed, varying] = parts(e);
        const Expr factor = product_of(fixed);
        if (kind == Kind::C) {
          if (fixed.empty() || !signs_.positive(factor)) return core(e);
        } else if (!signs_.positive(factor)) {
          refuse(e, "the order depends on the sign of a factor that is not known to be positive");
        }
        if (varying.size() == 1) return factor * visit(varying[0]);
        if (kind == Kind::C) return factor * core(product_of(varying));
        Expr product = factor;
        for (Expr f : varying) {
          if (!signs_.positive(f)) refuse(e, "the order depends on the signs of several varying factors");
          product = product * visit(f);
        }
        return product;
      }
      case Op::Exp:
      case Op::Log:
      case Op::Tanh:
      case Op::Sigmoid:
      case Op::Erf: return with_args(e, {visit(e.arg(0))});
      case Op::Pow: {
        const auto q = e.arg(1).rational();
        const bool odd = q && q->is_integer() && q->num() % 2 != 0 && q->num() > 0;
        if (odd || (q && *q > Rational(0) && signs_.nonnegative(e.arg(0))))
          return pow(visit(e.arg(0)), e.arg(1));
        break;
      }
      case Op::Select: return visit_choice(e);
      default: break;
    }
    refuse(e, "no rule says that this is strictly increasing in what varies, so it may rank otherwise");
  }

  /// A condition where what is known to be positive is.
  Expr decided(Expr condition) const {
    const Expr known = simplify(signs_.assumed(condition));
    const bool not_equal = known.is(Op::Ne);
    if ((not_equal || known.is(Op::Eq)) && known.arg(1).is_constant(0) && provably_positive(known.arg(0)))
      return Expr(not_equal);
    return known;
  }

  /// A choice that falls one way wherever anything is present, and the guard of an exponential.
  Expr visit_choice(Expr e) {
    const Expr known = decided(e.arg(0));
    if (is_true(known) && !nf_.varies(e.arg(2))) return select(e.arg(0), visit(e.arg(1)), e.arg(2));
    if (is_false(known) && !nf_.varies(e.arg(1))) return select(e.arg(0), e.arg(1), visit(e.arg(2)));
    const Expr c = e.arg(0);
    const bool not_equal = c.is(Op::Ne), compares = not_equal || c.is(Op::Eq);
    const Expr value = e.arg(not_equal ? 1 : 2), lowest = e.arg(not_equal ? 2 : 1);
    const bool low = compares && c.arg(1) == minus_infinity(),
               high = compares && c.arg(1) == Expr::infinity();
    if ((low || high) && lowest.is_constant(0) && signs_.nonnegative(value)) {
      const Expr inside = visit(value);
      // The key is −inf where the guard says so.
      if (proportion(key, low ? c.arg(0) : simplify(-c.arg(0)), axis_))
        return select(make(Op::Ne, {Expr(of_), minus_infinity()}), inside, 0);
    }
    refuse(e, "a choice among running and varying values");
  }

  std::pair<std::vector<Expr>, std::vector<Expr>> parts(Expr e) const {
    std::vector<Expr> fixed, varying;
    for (Expr a : e.args()) (nf_.varies(a) ? varying : fixed).push_back(a);
    return {fixed, varying};
  }

  NormalForm& nf_;
  const Signs& signs_;
  Sym axis_, of_;
  Expr whole_, result_;
};

}  // namespace

Peeled peel_ranked(Reducer r, Sym rank, Expr body, Expr present, bool whole, NormalForm& nf,
                   const Signs& positive, Sym axis,
                   const std::function<std::vector<Sym>(const Leaf&)>& axes_of) {
  if (nf.runs(present)) throw Mixing{present, "what is ranked depends on a running value"};
  Increasing order(nf, positive, axis);
  order.keep(order.run(body));
  Peeled out;
  const auto leaf = [&](Reducer side) {
    Leaf l{.sym = {}, .axes = {}, .reducer = side, .c = order.key, .present = present, .rank = rank};
    l.axes = axes_of(l);
    l.sym = Sym::fresh({.name = name(side), .kind = SymbolKind::Tile});
    out.leaves.push_back(l);
    return read(l.sym, std::vector<Expr>(l.axes.begin(), l.axes.end()));
  };
  out.ranked = order.on_numbers();
  out.key = order.symbol();
  if (r == Reducer::Argtopk) {
    out.value = leaf(r);
    return out;
  }
  const Expr key = leaf(r);
  out.value = simplify(order.of(key));
  if (!whole && out.value != key)
    out.value = simplify(select(less(leaf(Reducer::Argtopk), 0), identity(Reducer::Topk), out.value));
  return out;
}

Peeled peel(Reducer r, Expr body, Expr present, NormalForm& nf, const Signs& signs, Expr size,
            const std::function<std::vector<Sym>(const Leaf&)>& axes_of, Inside inside) {
  if (nf.runs(present)) {  // as a choice inside, so that its parts are told apart
    body = r == Reducer::Any   ? simplify(logical_and(present, body))
           : r == Reducer::All ? simplify(logical_or(logical_not(present), body))
                               : simplify(select(present, body, identity(r)));
    present = truth();
  }
  return Peeler(nf, signs, size, axes_of, inside).run(r, body, present);
}

}  // namespace tilewright::derivation
