#include "tilewright/derive/peel.h"

#include <algorithm>
#include <cmath>

#include "tilewright/program/elaborate.h"

namespace tilewright::derivation {
namespace {

using Kind = NormalForm::Kind;

class Peeler {
 public:
  Peeler(NormalForm& nf, const Signs& signs, Expr size,
         const std::function<std::vector<Sym>(const Leaf&)>& axes_of)
      : nf_(nf), signs_(signs), size_(size), axes_of_(axes_of) {}

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
  static Reducer opposite(Reducer r) { return r == Reducer::Max ? Reducer::Min : Reducer::Max; }

  /// `present` ∧ `c` may hold for nothing: then the branch must not take part, whatever was peeled off it.
  Expr branch(Reducer r, Expr value, Expr present) {
    if (is_true(present) || value.is(Op::Read)) return value;
    return select(equal(count(present), 0), identity(r), value);
  }

  Expr extremum(Reducer r, Expr e, Expr present) {
    Kind kind = nf_.kind(e);
    if (kind == Kind::Constant || kind == Kind::R) return e;
    if (kind == Kind::C && is_kept(e)) return leaf(r, e, present);  // a point of its own, as in exponentials
    if (auto f = increasing(r, e, present)) return f;
    if (kind == Kind::C) return leaf(r, e, present);
    switch (e.op()) {
      case Op::Add: {
        std::vector<Expr> moved, kept;
        for (Expr a : e.args())
          (nf_.kind(a) == Kind::C || nf_.kind(a) == Kind::Mixed ? kept : moved).push_back(a);
        if (moved.empty()) break;
        moved.push_back(extremum(r, sum_of(kept), present));
        return sum_of(moved);
      }
      case Op::Mul: {
        std::vector<Expr> moved, kept;
        for (Expr f : e.args())
          (nf_.kind(f) == Kind::C || nf_.kind(f) == Kind::Mixed ? kept : moved).push_back(f);
        if (moved.empty()) break;
        Expr a = product_of(moved), rest = product_of(kept);
        if (signs_.nonnegative(a)) return a * extremum(r, rest, present);
        if (signs_.nonnegative(simplify(-a))) return a * extremum(opposite(r), rest, present);
        return select(less_equal(0, a), a * extremum(r, rest, present),
                      a * extremum(opposite(r), rest, present));
      }
      case Op::Max:
      case Op::Min: {
        bool same = e.is(Op::Max) == (r == Reducer::Max);
        std::vector<Expr> args;
        int varying = 0;
        for (Expr a : e.args()) {
          varying += nf_.varies(a);
          args.push_back(extremum(r, a, present));
        }
        if (same || varying == 1) return make(e.op(), args);
        break;
      }
      case Op::Abs: {
        std::vector<Term> t = nf_.terms(e);
        if (t.size() != 1 || !t[0].shifts.empty() || t[0].u) break;
        return t[0].coefficient * leaf(r, t[0].c, conjunction(present, t[0].present));
      }
      case Op::Select: {
        Expr none = identity(r);
        std::vector<Expr> parts;
        auto take = [&](Expr condition, Expr value) {
          if (value == none) return;
          for (const NormalForm::Split& s : nf_.split(condition)) {
            if (is_false(s.c) || is_false(s.r)) continue;
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

  /// Π a·c·exp(u − r) = aⁿ · Π c · exp(Σ u − n·r)
  Expr product(Expr body, Expr present) {
    if (nf_.kind(body) == Kind::C) return leaf(Reducer::Prod, body, present);
    std::vector<Term> t = nf_.terms(body);
    if (t.size() != 1 || !t[0].shifts.empty() || !is_true(t[0].present))
      throw Mixing{body, "a product of sums of running and varying values"};
    Expr n = is_true(present) ? count(truth()) : count(present);
    Expr value = pow(t[0].coefficient, n);
    if (!t[0].c.is_constant(1)) value = value * leaf(Reducer::Prod, t[0].c, present);
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
  Peeled out_;
};

}  // namespace

Peeled peel(Reducer r, Expr body, Expr present, NormalForm& nf, const Signs& signs, Expr size,
            const std::function<std::vector<Sym>(const Leaf&)>& axes_of) {
  if (nf.runs(present)) {  // as a choice inside, so that its parts are told apart
    body = r == Reducer::Any   ? simplify(logical_and(present, body))
           : r == Reducer::All ? simplify(logical_or(logical_not(present), body))
                               : simplify(select(present, body, identity(r)));
    present = truth();
  }
  return Peeler(nf, signs, size, axes_of).run(r, body, present);
}

}  // namespace tilewright::derivation
