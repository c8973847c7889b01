#include "tilewright/derive/lag.h"

#include <algorithm>
#include <map>

#include "tilewright/derive/cascade.h"
#include "tilewright/derive/normal_form.h"

namespace tilewright::derivation {
namespace {

/// Replaces the true running value r by ρ: r = ρ − kappa, and every component held at ρ is exp(kappa) times what it is at r. What is read
/// at the end must not notice.
class Lag {
 public:
  Lag(const Derivation& d, size_t pass, const Point& p) : d_(d), pass_(pass), point_(p) {
    kappa_ = Sym::fresh({.name = "kappa", .kind = SymbolKind::Variable});
  }

  bool harmless() {
    for (const Component& c : d_.passes[pass_].state.components) {
      if (!reads(c.lift, point_.var)) continue;
      // Only a pure scale is bounded: no difference u − ρ outside the exponential.
      if (reads(rewrite(c.lift, [](Expr x) { return x.is(Op::Exp) ? Expr(1) : x; }), point_.var))
        return false;
      scaled_.push_back(c.var);
    }
    for (const CascadeOutput& o : d_.cascade.outputs)
      if (!unchanged(o.value)) return false;
    for (size_t k = pass_ + 1; k < d_.passes.size(); ++k) {
      const State& s = d_.passes[k].state;
      for (const Point& p : s.points)
        if (!unchanged(p.u) || !unchanged(p.present)) return false;
      for (const Component& c : s.components)
        if (!unchanged(c.lift) || !unchanged(c.present)) return false;
    }
    return true;
  }

 private:
  static bool reads(Expr e, Sym s) {
    auto all = tensors_read(e);
    return std::find(all.begin(), all.end(), s) != all.end();
  }

  /// Results replaced by their finish, of this pass and later ones, through and through.
  Expr finished(Expr e) {
    return replace_reads(e, [&](Sym s) -> const Named* {
      for (size_t k = 0; k < d_.cascade.reductions.size(); ++k) {
        const Reduction& r = d_.cascade.reductions[k];
        if (r.result != s || r.pass <= int(pass_)) continue;
        auto [it, fresh] = finish_.try_emplace(k);
        if (fresh) it->second = {r.axes, finished(d_.finish[k])};
        return &it->second;
      }
      return nullptr;
    });
  }

  bool unchanged(Expr e) {
    Expr plain = finished(e);
    if (!reads(plain, point_.var) &&
        std::none_of(scaled_.begin(), scaled_.end(), [&](Sym s) { return reads(plain, s); }))
      return true;
    Expr lagged = rewrite(plain, [&](Expr x) {
      if (!x.is(Op::Read)) return x;
      if (x->sym == point_.var) return x - Expr(kappa_);
      bool scaled = std::find(scaled_.begin(), scaled_.end(), x->sym) != scaled_.end();
      return scaled ? exp(Expr(kappa_)) * x : x;
    });
    return without_kappa(simplify(lagged)) == without_kappa(simplify(plain));
  }

  bool is_point(Expr e) const { return e.is(Op::Read) && e->sym == point_.var; }
  /// |ρ| == inf or ρ == ±inf
  bool says_infinite(Expr condition) const {
    if (condition.is(Op::And))
      return std::any_of(condition.args().begin(), condition.args().end(),
                         [&](Expr a) { return says_infinite(a); });
    if (!condition.is(Op::Eq) || !condition.arg(1).is(Op::Real)) return false;
    Expr a = condition.arg(0);
    return is_point(a) || (a.is(Op::Abs) && is_point(a.arg(0)));
  }

  /// where(p, a, 0)·b = where(p, a·b, 0)
  static Expr multiplied_in(Expr product) {
    std::vector<Expr> rest = product.args();
    auto choice = std::find_if(rest.begin(), rest.end(),
                               [](Expr f) { return f.is(Op::Select) && f.arg(2).is_constant(0); });
    if (choice == rest.end()) return product;
    Expr p = choice->arg(0);
    *choice = choice->arg(1);
    Expr inside = product_of(rest);
    return make(Op::Select, {p, inside.is(Op::Mul) ? multiplied_in(inside) : inside, 0});
  }

  /// (exp(a)·x + exp(b)·y)^q = exp(q·a) · (x + exp(b − a)·y)^q
  static Expr common_exponential(Expr whole, Expr exponent) {
    Expr common;
    std::string first;
    for (Expr a : whole.args()) {
      std::vector<Expr> rest;
      Expr own;
      for (Expr f : factors_of(a)) (f.is(Op::Exp) ? own : rest.emplace_back()) = f;
      std::string key = to_string(product_of(rest));
      if (!own) return exponent.is_constant(1) ? whole : pow(whole, exponent);
      if (!common || key > first) common = own, first = key;  // of terms with components before one without
    }
    Expr sum = 0;
    for (Expr a : whole.args()) sum = sum + a / common;
    return simplify(pow(common, exponent) * pow(sum, exponent));
  }

  /// Positive factors leave comparisons with 0; kappa vanishes beside an infinite point, which has no other value to lag behind (an
  /// infinite maximum differs from any finite ρ by more than any threshold, so ρ is infinite with it).
  Expr without_kappa(Expr e) {
    Expr out = rewrite(e, [&](Expr x) {
      if (x.is(Op::Pow) && x.arg(0).is(Op::Add)) return common_exponential(x.arg(0), x.arg(1));
      if (x.is(Op::Add)) return common_exponential(x, 1);
      if ((x.is(Op::Eq) || x.is(Op::Ne)) && x.arg(1).is_constant(0) && x.arg(0).is(Op::Mul)) {
        std::vector<Expr> kept;
        for (Expr f : x.arg(0).args())
          if (!f.is(Op::Exp)) kept.push_back(f);
        if (kept.size() < x.arg(0).args().size()) return make(x.op(), {product_of(kept), 0});
      }
      if ((x.is(Op::Eq) || x.is(Op::Ne)) && x.arg(1).is(Op::Real)) {
        Expr a = x.arg(0), inside = a.is(Op::Abs) ? a.arg(0) : a;
        Expr bare = simplify(substitute(inside, {{kappa_, 0}}));
        if (a.is(Op::Abs) && !is_point(bare)) bare = simplify(-bare);
        if (is_point(bare)) return make(x.op(), {a.is(Op::Abs) ? make(Op::Abs, {bare}) : bare, x.arg(1)});
      }
      if (x.is(Op::Mul)) {
        Expr product = simplify(x);
        return product.is(Op::Mul) ? multiplied_in(product) : product;
      }
      if (x.is(Op::Select) && says_infinite(x.arg(0)) && depends_on(x.arg(1), kappa_))
        return select(x.arg(0), simplify(substitute(x.arg(1), {{kappa_, 0}})), x.arg(2));
      return x;
    });
    return out;
  }

  const Derivation& d_;
  size_t pass_;
  const Point& point_;
  Sym kappa_;
  std::vector<Sym> scaled_;
  std::map<size_t, Named> finish_;
};

}  // namespace

void mark_lag(Derivation& d) {
  for (size_t k = 0; k < d.passes.size(); ++k) {
    for (Point& p : d.passes[k].state.points) {
      if (p.kind != Point::Kind::Maximum || !p.exponential) continue;
      p.may_lag = p.speculative = Lag(d, k, p).harmless();
    }
  }
}

}  // namespace tilewright::derivation
