// The identities behind a state, as equations over real variables.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "tilewright/derive/check.h"
#include "tilewright/derive/normal_form.h"

namespace tilewright::derivation {
namespace {

class Identities {
 public:
  Identities(const State& s, Sym axis) : state_(s), axis_(axis), abstract_(s) {
    for (const Point& p : s.points)
      last_.push_back(Sym::fresh({.name = p.var.name() + "_last", .kind = SymbolKind::Variable}));
    for (const Component& c : s.components) lifts_.push_back(abstract_(c.lift));
    factors_.assign(s.components.size(), std::vector<Expr>(s.components.size(), 0));
    for (size_t a = 0; a < s.components.size(); ++a)
      for (const RepairTerm& t : s.components[a].repair)
        factors_[a][size_t(t.component)] = abstract_.finite(points_only(t.factor));
  }

  std::vector<Identity> run() {
    for (size_t a = 0; a < state_.components.size(); ++a) {
      closure(a);
      if (chosen(a)) continue;  // by cases, all at once
      distributivity(a);
      same_point(a);
      composition(a);
    }
    for (Identity& i : out_) i.stands_for = abstract_.variables;
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
    out_.push_back({fmt::format("{} of {}", what, state_.components[a].var.name()),
                    std::move(equations),
                    {},
                    false,
                    fine ? "" : fault,
                    {}});
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
    Expr u = abstract_(state_.points[p].u);
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
    bool closed = true, distributes = true, same = true, composes = true;
    for (double x = 0; x < 4; ++x)
      for (double r = x; r < 4; ++r)
        for (double r1 = r; r1 < 4; ++r1) {
          same = same && h(r, r) == 1;
          for (double r2 = r1; r2 < 4; ++r2) composes = composes && h(r1, r2) * h(r, r1) == h(r, r2);
          for (double body : {1.0, 2.0}) closed = closed && lift(x, r1, body) == h(r, r1) * lift(x, r, body);
          for (double s : {1.0, 2.0, double(INFINITY)})
            for (double t : {1.0, 2.0, double(INFINITY)})
              distributes = distributes && h(r, r1) * std::min(s, t) == std::min(h(r, r1) * s, h(r, r1) * t);
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

  const State& state_;
  Sym axis_;
  Abstraction abstract_;
  std::vector<Sym> last_, stand_ins_;
  std::vector<Expr> lifts_;
  std::vector<std::vector<Expr>> factors_;
  std::vector<Identity> out_;
};

}  // namespace

std::vector<Identity> identities(const State& s, Sym axis) { return Identities(s, axis).run(); }

}  // namespace tilewright::derivation
