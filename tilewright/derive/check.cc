#include "tilewright/derive/check.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "tilewright/derive/cascade.h"
#include "tilewright/derive/normal_form.h"

namespace tilewright::derivation {

Abstraction::Abstraction(const State& s) : state_(s) {
  for (const Point& p : s.points) {
    rho.push_back(Sym::fresh({.name = p.var.name(), .kind = SymbolKind::Variable}));
    next.push_back(Sym::fresh({.name = p.next.name(), .kind = SymbolKind::Variable}));
  }
}

bool Abstraction::holds_point(Expr e) {
  for (Sym s : tensors_read(e))
    for (const Point& p : state_.points)
      if (p.var == s || p.next == s) return true;
  return false;
}

Expr Abstraction::variable(Expr e) {
  if (e.number()) return e;
  auto [scale, rest] = [&]() -> std::pair<Expr, Expr> {  // numbers stay, so that u and u/2 are one variable
    std::vector<Expr> numbers, others;
    for (Expr f : factors_of(addends_of(e)[0])) (f.number() ? numbers : others).push_back(f);
    Expr s = product_of(numbers);
    if (s.is_constant(1) || others.empty()) return {1, e};
    return {s, simplify(expand(e / s))};
  }();
  for (auto& [known, s] : variables)
    if (known == rest) return scale * Expr(s);
  Sym s = Sym::fresh({.name = fmt::format("c{}", variables.size()), .kind = SymbolKind::Variable});
  variables.emplace_back(rest, s);
  return scale * Expr(s);
}

Expr Abstraction::operator()(Expr e) {
  if (e.is(Op::Read)) {
    for (size_t k = 0; k < state_.points.size(); ++k) {
      if (state_.points[k].var == e->sym) return rho[k];
      if (state_.points[k].next == e->sym) return next[k];
    }
  }
  if (!holds_point(e)) return variable(e);
  if (e.is(Op::Add) || e.is(Op::Mul)) {
    std::vector<Expr> free, args;
    for (Expr a : e.args()) (holds_point(a) ? args : free).push_back(a);
    for (Expr& a : args) a = (*this)(a);
    if (!free.empty()) args.push_back(variable(e.is(Op::Add) ? sum_of(free) : product_of(free)));
    return args.size() == 1 ? args[0] : make(e.op(), args);
  }
  std::vector<Expr> args;
  for (Expr a : e.args()) {
    bool condition = is_boolean(a) && !a.number() && !holds_point(a);
    args.push_back(condition ? parts(a) : (*this)(a));
  }
  return with_args(e, std::move(args));
}

/// A condition beside one on a point: about the same variables.
Expr Abstraction::parts(Expr e) {
  std::vector<Expr> args;
  for (Expr a : e.args()) args.push_back(is_boolean(a) && !a.number() ? parts(a) : variable(a));
  return with_args(e, std::move(args));
}

Expr Abstraction::finite(Expr e) const {
  auto is_point = [&](Expr x) {
    return x.is(Op::Symbol) && (std::find(rho.begin(), rho.end(), x->sym) != rho.end() ||
                                std::find(next.begin(), next.end(), x->sym) != next.end());
  };
  return rewrite(e, [&](Expr x) {
    if (!x.is(Op::Select) || !x.arg(0).is(Op::Eq)) return x;
    Expr a = x.arg(0).arg(0), b = x.arg(0).arg(1);
    bool at_infinity = b == Expr::infinity() && a.is(Op::Abs) && is_point(a.arg(0));
    bool same = is_point(a) && is_point(b) && x.arg(1).is_constant(1) && x.arg(2) == exp(a - b);
    return at_infinity || same ? x.arg(2) : x;
  });
}

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

  std::vector<Check> run() {
    for (size_t a = 0; a < state_.components.size(); ++a) {
      closure(a);
      if (chosen(a)) continue;  // by cases, all at once
      distributivity(a);
      same_point(a);
      composition(a);
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

  void report(const std::string& what, size_t a, bool passed, const std::string& detail = {}) {
    out_.push_back({fmt::format("{} of {}", what, state_.components[a].var.name()), "expressions", passed,
                    passed ? "" : detail});
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
    if (state_.components[a].combine != Reducer::Sum) {
      report("closure", a, !holds_point(lifts_[a]) && plain(a),
             "its lift depends on a point that no repair follows");
      return;
    }
    for (const RepairTerm& t : state_.components[a].repair)
      before = before + factors_[a][size_t(t.component)] * lifts_[size_t(t.component)];
    report("closure", a, provably_equal(after, before),
           fmt::format("{} against {}", to_string(after), to_string(before)));
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
    auto say = [&](const char* what, bool passed) {
      out_.push_back({fmt::format("{} of {}", what, state_.components[a].var.name()), "expressions", passed,
                      passed ? "" : "an order of the values breaks it"});
    };
    say("closure", closed);
    say("distributivity", distributes);
    say("identity H(ρ, ρ) = 1", same);
    say("composition H(ρ', ρ'') H(ρ, ρ') = H(ρ, ρ'')", composes);
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
      whole = whole + f * (s + u);
      parts = parts + f * s + f * u;
    }
    report("distributivity", a, fine && provably_equal(whole, parts),
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
    bool fine = true;
    for (size_t b = 0; b < factors_.size(); ++b)
      fine = fine && simplify(expand(substitute(factors_[a][b], s))).is_constant(a == b ? 1 : 0);
    report("identity H(ρ, ρ) = 1", a, fine, "a repair to the same point changes the value");
  }

  void composition(size_t a) {
    bool fine = true;
    for (size_t c = 0; c < factors_.size(); ++c) {
      Expr twice = 0;
      for (size_t b = 0; b < factors_.size(); ++b) {
        if (factors_[a][b].is_constant(0) || factors_[b][c].is_constant(0)) continue;
        twice = twice + moved(factors_[a][b], 1) * factors_[b][c];
      }
      Expr once = moved(factors_[a][c], 2);
      if (twice.is_constant(0) && once.is_constant(0)) continue;
      fine = fine && provably_equal(twice, once);
    }
    report("composition H(ρ', ρ'') H(ρ, ρ') = H(ρ, ρ'')", a, fine, "two repairs are not one");
  }

  const State& state_;
  Sym axis_;
  Abstraction abstract_;
  std::vector<Sym> last_, stand_ins_;
  std::vector<Expr> lifts_;
  std::vector<std::vector<Expr>> factors_;
  std::vector<Check> out_;
};

}  // namespace

std::vector<Check> check_identities(const State& s, Sym axis) { return Identities(s, axis).run(); }

void prove(Derivation& d, const Small* small) {
  constexpr uint64_t seed = 1;
  std::vector<Check> outputs;
  if (small) outputs = check_outputs(small->program, small->derivation, seed);
  for (size_t k = 0; k < d.passes.size(); ++k) {
    std::vector<Check>& all = d.passes[k].state.checks;
    all = check_identities(d.passes[k].state, d.cascade.axis);
    for (Check& c : check_merges(d.passes[k].state, seed)) all.push_back(std::move(c));
    if (k + 1 == d.passes.size()) all.insert(all.end(), outputs.begin(), outputs.end());
    for (const Check& c : all)
      TW_CHECK(c.passed, fmt::format("the derivation over {} is wrong: {} failed ({}): {}",
                                     d.cascade.axis.name(), c.what, c.by, c.detail));
  }
}

}  // namespace tilewright::derivation
