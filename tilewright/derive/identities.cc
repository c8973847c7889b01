// The identities behind a state, as equations over real variables.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "tilewright/derive/check.h"
#include "tilewright/derive/normal_form.h"
#include "tilewright/program/elaborate.h"

namespace tilewright::derivation {
namespace {

class Identities {
 public:
  Identities(const State& s, Sym axis, const Merging& how) : state_(s), axis_(axis), abstract_(s) {
    for (const Point& p : s.points)
      last_.push_back(Sym::fresh({.name = p.var.name() + "_last", .kind = SymbolKind::Variable}));
    for (size_t a = 0; a < s.components.size(); ++a) lifts_.push_back(abstract_(element_of(s, a)));
    factors_.assign(s.components.size(), std::vector<Expr>(s.components.size(), 0));
    for (size_t a = 0; a < s.components.size(); ++a)
      for (const RepairTerm& t : s.components[a].repair)
        factors_[a][size_t(t.component)] = abstract_.finite(points_only(t.factor));
    for (const Point& p : s.points) u_.push_back(abstract_(p.u));
    left_ = side("_a");
    right_ = side("_b");
    merge_ = how(s, left_.copies, right_.copies);
  }

  std::vector<Identity> run() {
    for (size_t a = 0; a < state_.components.size(); ++a) {
      closure(a);
      if (chosen(a)) continue;  // by cases, all at once
      distributivity(a);
      same_point(a);
      composition(a);
    }
    for (size_t k = 0; k < state_.points.size(); ++k) merged_point(k);
    for (size_t a = 0; a < state_.components.size(); ++a)
      if (!chosen(a) && !state_.components[a].listed()) merged(a);
    for (size_t a = 0; a < state_.components.size(); ++a)
      if (!chosen(a) && !state_.components[a].listed()) merged_with_nothing(a);
    for (size_t a = 0; a < state_.components.size(); ++a)
      if (const Component& c = state_.components[a]; c.combine == Reducer::Topk)
        for (Identity& i : list_identities(c, state_.components[size_t(c.beside)], merge_.lists))
          out_.push_back(std::move(i));
    for (Identity& i : out_) {
      i.stands_for = abstract_.variables;
      for (const Side* side : {&left_, &right_})
        for (size_t k = 0; k < side->element.size(); ++k)
          i.stands_for.emplace_back(abstract_.variables[k].first, side->element[k].second->sym);
    }
    return std::move(out_);
  }

 private:
  /// A repair factor holds points, numbers and what does not vary; only the points are told apart.
  Expr points_only(Expr e) {
    return rewrite(e, [&](Expr x) {
      if (!x.is(Op::Read)) return x;
      for (size_t k = 0; k < state_.points.size(); ++k) {
        if (state_.points[k].var == x->sym) return Expr(abstract_.rho[k]);
        if (state_.points[k].next == x->sym) return Expr(abstract_.next[k]);
      }
      return x;
    });
  }

  Identity& report(const std::string& what, size_t a, std::vector<Identity::Equation> equations,
                   bool fine = true, const std::string& fault = {}) {
    return report(what, state_.components[a].var, std::move(equations), fine, fault);
  }
  Identity& report(const std::string& what, Sym of, std::vector<Identity::Equation> equations,
                   bool fine = true, const std::string& fault = {}) {
    out_.push_back(
        {fmt::format("{} of {}", what, of.name()), std::move(equations), {}, false, fine ? "" : fault, {}});
    return out_.back();
  }

  bool plain(size_t a) const {
    const Component& c = state_.components[a];
    return c.repair.size() == 1 && c.repair[0].component == int(a) && c.repair[0].factor.is_constant(1);
  }

  bool holds_point(Expr e) const {
    return std::any_of(abstract_.rho.begin(), abstract_.rho.end(), [&](Sym s) { return depends_on(e, s); });
  }

  /// ρ → ρ' (from = 0) or ρ' → ρ'' and ρ → ρ' (from = 1); ρ' → ρ'' alone (from = 2).
  Expr moved(Expr e, int from) const {
    Substitution s;
    for (size_t k = 0; k < state_.points.size(); ++k) {
      if (from == 0) s.emplace_back(abstract_.rho[k], abstract_.next[k]);
      if (from == 1) s.emplace_back(abstract_.rho[k], abstract_.next[k]);
      if (from >= 1) s.emplace_back(abstract_.next[k], last_[k]);
    }
    return substitute(e, s);
  }

  void closure(size_t a) {
    Expr after = moved(lifts_[a], 0), before = 0;
    if (chosen(a)) return cases(a);
    for (const RepairTerm& t : state_.components[a].repair)
      before = before + factors_[a][size_t(t.component)] * lifts_[size_t(t.component)];
    if (state_.components[a].combine == Reducer::Sum) {
      report("closure", a, {{after, before}});
    } else if (plain(a)) {
      report("closure", a, {}, !holds_point(lifts_[a]), "its lift depends on a point that no repair follows");
    } else {
      report("closure", a, {{after, before}}, false, "what is no sum is not repaired");
    }
  }

  /// A minimum that a point chooses: its lift and factor are 1 or inf by comparisons of u, ρ and ρ' alone.
  bool chosen(size_t a) const {
    const Component& c = state_.components[a];
    return c.combine == Reducer::Min && c.repair.size() == 1 && c.repair[0].component == int(a) &&
           holds_point(lifts_[a]);
  }

  /// All orders of u, ρ, ρ', ρ'' that a point can pass through, two positive bodies: closure, distributivity, identity and composition.
  void cases(size_t a) {
    Expr factor = factors_[a][a];
    size_t p = 0;
    while (p < state_.points.size() && !depends_on(lifts_[a], abstract_.rho[p])) ++p;
    Sym rho = abstract_.rho[p], next = abstract_.next[p];
    Expr u = u_[p];
    double sign = state_.points[p].kind == Point::Kind::Maximum ? 1 : -1;
    std::vector<Sym> bodies;
    for (Sym s : free_symbols(lifts_[a]))
      if (s != rho && !depends_on(u, s)) bodies.push_back(s);
    auto h = [&](double from, double to) {
      return evaluate(factor, {{rho, sign * from}, {next, sign * to}});
    };
    auto lift = [&](double x, double at, double body) {
      Bindings values{{rho, sign * at}};
      for (Sym s : bodies) values[s] = body;
      for (Sym s : free_symbols(u))
        values[s] = sign * x / evaluate(u, {{s, 1}});  // u is a variable times a number
      return evaluate(lifts_[a], values);
    };
    bool closed = true, distributes = true, same = true, composes = true, whole = true, neutral = true;
    Bindings indices;
    for (Sym i : free_symbols(merge_.components[a])) indices[i] = 0;
    const auto merged = [&](double l, double t_l, double r, double t_r) {  // ρ* is the later of both
      return evaluate(merge_.components[a], indices, [&](Sym v, const std::vector<int64_t>&) {
        if (v == state_.points[p].next) return sign * std::max(l, r);
        if (v == left_.copies[p].second) return sign * l;
        if (v == right_.copies[p].second) return sign * r;
        if (v == left_.copies[state_.points.size() + a].second) return t_l;
        return v == right_.copies[state_.points.size() + a].second ? t_r : double(NAN);
      });
    };
    for (double x = 0; x < 4; ++x)
      for (double r = x; r < 4; ++r)
        for (double r1 = r; r1 < 4; ++r1) {
          same = same && h(r, r) == 1;
          for (double r2 = r1; r2 < 4; ++r2) composes = composes && h(r1, r2) * h(r, r1) == h(r, r2);
          for (double body : {1.0, 2.0}) closed = closed && lift(x, r1, body) == h(r, r1) * lift(x, r, body);
          for (double s : {1.0, 2.0, double(INFINITY)})
            for (double t : {1.0, 2.0, double(INFINITY)})
              distributes = distributes && h(r, r1) * std::min(s, t) == std::min(h(r, r1) * s, h(r, r1) * t);
          for (double y = 0; y <= r1; ++y)  // x in a part at r, y in one at r1
            for (auto [s, t] : {std::pair{1.0, 2.0}, std::pair{2.0, 1.0}}) {
              const double want = std::min(lift(x, r1, s), lift(y, r1, t));
              whole = whole && merged(r, lift(x, r, s), r1, lift(y, r1, t)) == want &&
                      merged(r1, lift(y, r1, t), r, lift(x, r, s)) == want;
            }
          for (double s : {1.0, double(INFINITY)})
            neutral =
                neutral && merged(r, s, -INFINITY, INFINITY) == s && merged(-INFINITY, INFINITY, r, s) == s;
        }
    const bool rising = state_.points[p].kind == Point::Kind::Maximum;
    const auto ordered = [&](Expr low, Expr high) {
      return rising ? less_equal(low, high) : less_equal(high, low);
    };
    std::vector<Expr> order{ordered(u, rho), ordered(rho, next), ordered(next, last_[p])};
    for (Sym s : bodies) order.push_back(less(0, s));
    const auto say = [&](const char* what, bool passed, Expr left, Expr right) {
      Identity& i = report(what, a, {{left, right}}, passed, "an order of the values breaks it");
      i.assumptions = order;
      i.by_cases = true;
    };
    const Expr s = stand_in(0), t = stand_in(1);
    order.push_back(less(0, s));
    order.push_back(less(0, t));
    say("closure", closed, moved(lifts_[a], 0), factor * lifts_[a]);
    say("distributivity", distributes, factor * min(s, t), min(factor * s, factor * t));
    say("identity H(ρ, ρ) = 1", same, substitute(factor, {{next, rho}}), 1);
    say("composition H(ρ', ρ'') H(ρ, ρ') = H(ρ, ρ'')", composes, moved(factor, 1) * factor, moved(factor, 2));
    order.clear();
    for (const Side* side : {&left_, &right_}) {
      order.push_back(ordered(substitute(u, side->element), side->points[p]));
      order.push_back(ordered(side->points[p], next));
      for (Sym b : bodies) order.push_back(less(0, substitute(Expr(b), side->element)));
    }
    say(kWhole, whole,
        of_parts(merge_.components[a], [&](const Side& side, size_t b) { return lifted(side, b); }),
        min(at_merged(left_, a), at_merged(right_, a)));
    say(kNeutral, neutral, 0, 0);
  }

  void distributivity(size_t a) {
    const Component& c = state_.components[a];
    bool fine = true;
    Expr whole = 0, parts = 0;
    for (const RepairTerm& t : c.repair) {
      const Component& b = state_.components[size_t(t.component)];
      fine = fine && b.combine == c.combine && !depends_on(t.factor, axis_) &&
             (c.combine == Reducer::Sum || t.factor.is_constant(1));
      Expr f = factors_[a][size_t(t.component)];
      Expr s = stand_in(2 * size_t(t.component)), u = stand_in(2 * size_t(t.component) + 1);
      if (c.combine == Reducer::Sum) {
        whole = whole + f * (s + u);
        parts = parts + f * s + f * u;
      }
    }
    report("distributivity", a, {{whole, parts}}, fine,
           "a repair factor varies along the axis, or does not fit the reducer");
  }

  Expr stand_in(size_t k) {
    while (stand_ins_.size() <= k)
      stand_ins_.push_back(
          Sym::fresh({.name = fmt::format("t{}", stand_ins_.size()), .kind = SymbolKind::Variable}));
    return stand_ins_[k];
  }

  void same_point(size_t a) {
    Substitution s;
    for (size_t k = 0; k < state_.points.size(); ++k) s.emplace_back(abstract_.next[k], abstract_.rho[k]);
    std::vector<Identity::Equation> all;
    for (size_t b = 0; b < factors_.size(); ++b)
      if (a == b || !factors_[a][b].is_constant(0))
        all.push_back({substitute(factors_[a][b], s), a == b ? 1 : 0});
    report("identity H(ρ, ρ) = 1", a, std::move(all));
  }

  void composition(size_t a) {
    std::vector<Identity::Equation> all;
    for (size_t c = 0; c < factors_.size(); ++c) {
      Expr twice = 0;
      for (size_t b = 0; b < factors_.size(); ++b) {
        if (factors_[a][b].is_constant(0) || factors_[b][c].is_constant(0)) continue;
        twice = twice + moved(factors_[a][b], 1) * factors_[b][c];
      }
      Expr once = moved(factors_[a][c], 2);
      if (twice.is_constant(0) && once.is_constant(0)) continue;
      all.push_back({twice, once});
    }
    report("composition H(ρ', ρ'') H(ρ, ρ') = H(ρ, ρ'')", a, std::move(all));
  }

  // ---- merges ----

  static constexpr const char* kNeutral = "merge with an empty part = the other";

  /// One side of a merge.
  struct Side {
    std::vector<std::pair<Sym, Sym>>
        copies;                      ///< points, then components: what the merge reads in their place
    std::vector<Sym> points, parts;  ///< the variables that stand for them
    Substitution element;            ///< the variables of one element that the side holds
  };
  Side side(const std::string& suffix) {
    const auto variable = [&](Sym s) {
      return Sym::fresh({.name = s.name() + suffix, .kind = SymbolKind::Variable});
    };
    Side out;
    for (const Point& p : state_.points) {
      out.copies.emplace_back(p.var, Sym::fresh(p.var.info()));
      out.points.push_back(variable(p.var));
      abstract_.sides.push_back(out.points.back());
    }
    for (const Component& c : state_.components) {
      out.copies.emplace_back(c.var, Sym::fresh(c.var.info()));
      out.parts.push_back(variable(c.var));
    }
    for (auto& [value, c] : abstract_.variables) out.element.emplace_back(c, variable(c));
    return out;
  }

  /// The place of a copy in its side's `copies`, and the side.
  std::pair<const Side*, size_t> find(Sym copy) const {
    for (const Side* s : {&left_, &right_})
      for (size_t k = 0; k < s->copies.size(); ++k)
        if (s->copies[k].second == copy) return {s, k};
    return {nullptr, 0};
  }

  /// Does the condition ask whether a side, other than `empty`, holds nothing: ρ == −inf, n == 0?
  bool asks_for_nothing(Expr condition, const Side* empty) const {
    if (!condition.is(Op::Eq) || !condition.arg(0).is(Op::Read)) return false;
    const auto [side, k] = find(condition.arg(0)->sym);
    if (side == nullptr || side == empty) return false;
    if (k < state_.points.size())
      return state_.points[k].kind == Point::Kind::Maximum && condition.arg(1) == minus_infinity();
    const int component = int(k - state_.points.size());
    return condition.arg(1).is_constant(0) &&
           std::any_of(state_.points.begin(), state_.points.end(),
                       [&](const Point& p) { return p.kind == Point::Kind::Mean && p.weight == component; });
  }

  /// An expression of the merge over real variables: each side holds something, or is `empty`. `held` gives the components of a side, ρ* is `next`.
  using Held = std::function<Expr(const Side&, size_t component)>;
  Expr of_parts(Expr e, const Held& held, const Side* empty = nullptr,
                const std::vector<Expr>& next = {}) const {
    e = rewrite(e,
                [&](Expr x) { return x.is(Op::Select) && asks_for_nothing(x.arg(0), empty) ? x.arg(2) : x; });
    e = rewrite(e, [&](Expr x) -> Expr {
      if (!x.is(Op::Read)) return x;
      for (size_t k = 0; k < state_.points.size(); ++k)
        if (state_.points[k].next == x->sym) return next.empty() ? Expr(abstract_.next[k]) : next[k];
      const auto [side, k] = find(x->sym);
      if (side == nullptr) return x;
      if (k >= state_.points.size()) return held(*side, k - state_.points.size());
      if (side != empty) return side->points[k];
      return state_.points[k].kind == Point::Kind::Mean      ? Expr(0)
             : state_.points[k].kind == Point::Kind::Maximum ? minus_infinity()
                                                             : Expr::infinity();
    });
    return abstract_.finite(e);
  }

  Expr part(const Side& side, size_t b) const { return side.parts[b]; }
  /// φ_b of the side's element at the side's point, and at ρ*.
  Expr lifted(const Side& side, size_t b) const {
    Substitution at;
    for (size_t k = 0; k < side.points.size(); ++k) at.emplace_back(abstract_.rho[k], side.points[k]);
    return substitute(substitute(lifts_[b], at), side.element);
  }
  Expr at_merged(const Side& side, size_t b) const { return substitute(moved(lifts_[b], 0), side.element); }

  static Expr combined(Reducer r, Expr a, Expr b) {
    switch (r) {
      case Reducer::Max: return max(a, b);
      case Reducer::Min: return min(a, b);
      case Reducer::Prod: return a * b;
      case Reducer::Any: return logical_or(a, b);
      case Reducer::All: return logical_and(a, b);
      default: return a + b;
    }
  }

  void merged(size_t a) {
    const Reducer r = state_.components[a].combine;
    const auto repaired = [&](const Side& side) {
      if (r != Reducer::Sum) return part(side, a);
      Substitution from;
      for (size_t k = 0; k < side.points.size(); ++k) from.emplace_back(abstract_.rho[k], side.points[k]);
      Expr sum = 0;
      for (size_t b = 0; b < factors_.size(); ++b)
        if (!factors_[a][b].is_constant(0)) sum = sum + substitute(factors_[a][b], from) * part(side, b);
      return sum;
    };
    std::vector<Identity::Equation> all{
        {of_parts(merge_.components[a], [&](const Side& s, size_t b) { return part(s, b); }),
         combined(r, repaired(left_), repaired(right_))}};
    if (r == Reducer::Sum)
      all.push_back({of_parts(merge_.components[a], [&](const Side& s, size_t b) { return lifted(s, b); }),
                     at_merged(left_, a) + at_merged(right_, a)});
    report(kWhole, a, std::move(all));
  }

  /// ρ* as it is when one side is empty, else what the merge says of it.
  std::vector<Expr> merged_points(const Held& held, const Side* empty) const {
    std::vector<Expr> out;
    for (Expr e : merge_.points) out.push_back(simplify(of_parts(e, held, empty)));
    return out;
  }

  /// Simplified, where a variable times 0 is 0: they are real.
  static Expr without_zeros(Expr e) {
    const auto zero = [](Expr x) { return x.is_constant(0); };
    return simplify(rewrite(simplify(e), [&](Expr x) {
      return x.is(Op::Mul) && std::any_of(x.args().begin(), x.args().end(), zero) ? Expr(0) : x;
    }));
  }

  void merged_with_nothing(size_t a) {
    std::vector<Identity::Equation> all;
    for (const Side* empty : {&left_, &right_}) {
      const Side& full = empty == &left_ ? right_ : left_;
      const Held held = [&](const Side& s, size_t b) {
        return &s == empty ? identity(state_.components[b].combine) : part(s, b);
      };
      const Expr left = of_parts(merge_.components[a], held, empty, merged_points(held, empty));
      const Reducer r = state_.components[a].combine;
      all.push_back({without_zeros(left), simplify(combined(r, identity(r), part(full, a)))});
    }
    report(kNeutral, a, std::move(all));
  }

  /// A maximum is that of the elements of both parts; a mean their mean, which is what ρ + Σ(u − ρ)/n is of each part.
  void merged_point(size_t k) {
    const Point& p = state_.points[k];
    const auto variable = [](const char* name) {
      return Sym::fresh({.name = name, .kind = SymbolKind::Variable});
    };
    std::vector<Identity::Equation> all;
    std::vector<Expr> assumptions;
    if (p.kind == Point::Kind::Mean) {
      const Expr sum_l = variable("sum_a"), sum_r = variable("sum_b"), n = variable("n"),
                 n_l = variable("n_a");
      const auto held = [&](const Side& s, size_t b) -> Expr {
        const bool left = &s == &left_;
        const Expr count = left ? n_l : n - n_l;
        if (int(b) == p.weight) return count;
        return int(b) == p.sum ? (left ? sum_l : sum_r) - count * s.points[k] : part(s, b);
      };
      all.push_back({simplify(expand(simplify(of_parts(merge_.points[k], held)))), (sum_l + sum_r) / n});
      assumptions = {less(0, n_l), less(n_l, n)};
    } else {
      const auto extremum = p.kind == Point::Kind::Maximum ? max : min;
      const Expr x = variable("u0"), y = variable("u1"), z = variable("u2");
      const Expr merged = of_parts(merge_.points[k], [&](const Side& s, size_t b) { return part(s, b); });
      all.push_back({substitute(merged, {{left_.points[k], extremum(x, y)}, {right_.points[k], z}}),
                     extremum(x, extremum(y, z))});
    }
    for (const Side* empty : {&left_, &right_}) {
      const Held held = [&](const Side& s, size_t b) {
        return &s == empty ? identity(state_.components[b].combine) : part(s, b);
      };
      const Side& full = empty == &left_ ? right_ : left_;
      all.push_back({merged_points(held, empty)[k], full.points[k]});
    }
    report(kWhole, p.var, std::move(all)).assumptions = assumptions;
  }

  const State& state_;
  Sym axis_;
  Abstraction abstract_;
  Side left_, right_;
  Merge merge_;
  std::vector<Expr> u_;
  std::vector<Sym> last_, stand_ins_;
  std::vector<Expr> lifts_;
  std::vector<std::vector<Expr>> factors_;
  std::vector<Identity> out_;
};

}  // namespace

std::vector<Identity> identities(const State& s, Sym axis, const Merging& how) {
  return Identities(s, axis, how).run();
}

}  // namespace tilewright::derivation
