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
  constexpr size_t small = 64;
  if (complexity(e) <= small) e = simplify(expand(e));  // x·(x − y) is one variable however it was written
  auto [scale, rest] = [&]() -> std::pair<Expr, Expr> {  // numbers stay, so that u and u/2 are one variable
    for (Expr a : addends_of(e)) {
      if (a.number()) continue;
      std::vector<Expr> numbers;
      for (Expr f : factors_of(a))
        if (f.number()) numbers.push_back(f);
      const Expr s = product_of(numbers);
      if (s.is_constant(1)) break;
      if (s.number() && std::isinf(*s.number()))  // e / inf is no value; its sign is told apart
        return *s.number() < 0 ? std::pair<Expr, Expr>{-1, simplify(-e)} : std::pair<Expr, Expr>{1, e};
      return {s, simplify(expand(e / s))};
    }
    return {1, e};
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
    if (e.is(Op::Add)) free = without_points(free, args);
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

/// z + t − ρ of a point of z is about z, which the point moves with, and t: the addends without those of z, which join `args`.
std::vector<Expr> Abstraction::without_points(std::vector<Expr> free, std::vector<Expr>& args) {
  for (const Point& p : state_.points) {
    const bool here = std::any_of(args.begin(), args.end(), [&](Expr a) {
      for (Sym s : tensors_read(a))
        if (s == p.var || s == p.next) return true;
      return false;
    });
    for (Expr sign : {Expr(1), Expr(-1)}) {
      const std::vector<Expr> u = addends_of(simplify(expand(sign * p.u)));
      std::vector<Expr> rest = free;
      size_t found = 0;
      for (Expr a : u) found += std::erase(rest, a);
      if (!here || found < u.size() || rest.empty()) continue;
      args.push_back(sign * p.u);
      free = rest;
    }
  }
  return free;
}

/// A condition beside one on a point: about the same variables.
Expr Abstraction::parts(Expr e) {
  std::vector<Expr> args;
  for (Expr a : e.args()) args.push_back(is_boolean(a) && !a.number() ? parts(a) : variable(a));
  return with_args(e, std::move(args));
}

Expr Abstraction::finite(Expr e) const {
  auto is_point = [&](Expr x) {
    if (!x.is(Op::Symbol)) return false;
    for (const std::vector<Sym>* all : {&rho, &next, &sides})
      if (std::find(all->begin(), all->end(), x->sym) != all->end()) return true;
    return false;
  };
  return rewrite(e, [&](Expr x) {
    if (!x.is(Op::Select) || !x.arg(0).is(Op::Eq)) return x;
    Expr a = x.arg(0).arg(0), b = x.arg(0).arg(1);
    bool at_infinity = b == Expr::infinity() && a.is(Op::Abs) && is_point(a.arg(0));
    bool same = is_point(a) && is_point(b) && x.arg(1).is_constant(1) && x.arg(2) == exp(a - b);
    return at_infinity || same ? x.arg(2) : x;
  });
}

std::vector<Sym> summed_inside(const State& s, size_t a) {
  const auto sums = [](const Component& c) {
    return c.lift.is(Op::Reduce) && c.lift->reducer == Reducer::Sum;
  };
  const auto sums_points = [&](const Component& c) {
    if (!sums(c)) return false;
    const std::vector<Sym> read = tensors_read(c.lift);
    return std::any_of(s.points.begin(), s.points.end(), [&](const Point& p) {
      return std::find(read.begin(), read.end(), p.var) != read.end();
    });
  };
  const Component& c = s.components[a];
  bool inside = sums_points(c);
  for (const Component& top : s.components)
    if (sums(c) && !inside && sums_points(top))
      inside = std::any_of(top.repair.begin(), top.repair.end(),
                           [&](const RepairTerm& t) { return t.component == int(a); });
  return inside ? c.lift->bound : std::vector<Sym>{};
}

Expr element_of(const State& s, size_t a) {
  const Expr lift = s.components[a].lift;
  return summed_inside(s, a).empty() ? lift : lift.arg(0);
}

std::vector<Check> check_identities(const State& s, Sym axis, const Merging& how) {
  std::vector<Check> out;
  for (const Identity& i : identities(s, axis, how)) {
    std::string fault = i.fault;
    for (const Identity::Equation& q : i.equations)
      if (fault.empty() && !i.by_cases && !provably_equal(q.left, q.right))
        fault = fmt::format("{} against {}", to_string(q.left), to_string(q.right));
    out.push_back({i.what, "expressions", fault.empty(), fault});
  }
  return out;
}

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
