// What the results are at the end: finishes over points and components.
#include "tilewright/derive/family_builder.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "tilewright/program/elaborate.h"

namespace tilewright::derivation {

Expr FamilyBuilder::read_component(int k) const {
  return read_own(state_const().components[size_t(k)].var, state_const().components[size_t(k)].axes);
}

std::optional<Expr> FamilyBuilder::served_leaf(const Leaf& l) const {
  for (auto& [k, served] : served_) {
    const Leaf& own = all_[k].peeled.leaves[0];
    if (own.reducer == l.reducer && own.c == l.c && own.present == l.present) {
      const auto& [p, relation] = served;
      return simplify((rho(p) - relation.offset) / relation.scale);
    }
  }
  return std::nullopt;
}

Expr FamilyBuilder::finished(Expr e) {
  return replace_reads(e, [&](Sym s) -> const Named* {
    auto k = work_of(s);
    if (!k) return nullptr;
    auto [it, fresh] = named_.try_emplace(*k);
    if (fresh) it->second = {all_[*k].r.axes, finished(value(*k))};
    return &it->second;
  });
}

std::pair<Expr, Expr> FamilyBuilder::guarded(Expr coefficient) {
  Expr condition = truth();
  std::vector<Expr> rest;
  for (Expr f : factors_of(coefficient)) {
    if (f.is(Op::Select) && f.arg(2).is_constant(0)) {
      condition = conjunction(condition, f.arg(0));
      rest.push_back(f.arg(1));
    } else {
      rest.push_back(f);
    }
  }
  return {condition, product_of(rest)};
}

Expr FamilyBuilder::difference(int p, Expr mu, Expr condition) {
  Expr value = finished(mu);
  if (!is_true(condition)) {
    Expr known = simplify(finished(condition));
    value = rewrite(value,
                    [&](Expr e) { return e.is(Op::Select) && simplify(e.arg(0)) == known ? e.arg(1) : e; });
  }
  return simplify(expand(rho(p) - value));
}

Expr FamilyBuilder::finish_term(size_t work, size_t index) {
  const Term& t = terms_[work][index];
  auto [condition, coefficient] = guarded(t.coefficient);
  FamilyKey top = key(work, index);
  // Π (W_p + δ)^power as a polynomial in the W_p: powers -> coefficient
  std::map<Powers, Expr> polynomial{{{}, 1}};
  for (const Shift& s : t.shifts) {
    int p = s.point;
    Expr delta = difference(p, s.mu, condition);
    for (int k = 0; k < s.power; ++k) {
      std::map<Powers, Expr> product;
      auto include = [&](const Powers& powers, Expr x) {
        auto [it, fresh] = product.try_emplace(powers, x);
        if (!fresh) it->second = simplify(it->second + x);
      };
      for (auto& [powers, x] : polynomial) {
        Powers up = powers;
        ++up[p];
        include(up, x);
        if (!delta.is_constant(0)) include(powers, simplify(x * delta));
      }
      polynomial = std::move(product);
    }
  }
  std::vector<Expr> addends;
  for (auto it = polynomial.rbegin(); it != polynomial.rend(); ++it) {
    FamilyKey k = top;
    k.powers = it->first;
    addends.push_back(it->second * read_component(*find(k)));
  }
  Expr value = simplify(coefficient * sum_of(addends));
  return is_true(condition) ? value : simplify(select(condition, value, 0));
}

Expr FamilyBuilder::value(size_t k) {
  const Work& w = all_[k];
  auto served = served_.find(k);
  if (served != served_.end()) {
    auto& [p, relation] = served->second;
    return simplify((rho(p) - relation.offset) / relation.scale);
  }
  if (w.is_sum()) {
    std::vector<Expr> addends;
    for (size_t t = 0; t < terms_[k].size(); ++t) addends.push_back(finish_term(k, t));
    Expr sum = sum_of(addends);
    // Σ 1 over everything is the size of the axes.
    std::map<Sym, Named> sizes;
    for (size_t n = 0; n < keys_.size(); ++n) {
      if (keys_[n] != FamilyKey{Reducer::Sum, 1, truth(), {}, -1, -1, {}, {}, keys_[n].inner}) continue;
      Expr size = size_of_axis();
      for (Sym s : keys_[n].inner) size = size * size_of(s);
      sizes[state().components[n].var] = {{}, size};
    }
    if (!sizes.empty())
      sum = simplify(replace_reads(sum, [&](Sym s) -> const Named* {
        const auto it = sizes.find(s);
        return it == sizes.end() ? nullptr : &it->second;
      }));
    return sum;
  }
  if (w.choice.extremum >= 0) return simplify(read_component(*find(chosen(k))) - w.choice.offset);
  std::map<Sym, Named> leaves;
  for (const Leaf& l : w.peeled.leaves) {
    auto point = served_leaf(l);
    leaves[l.sym] = {l.axes, point ? *point : read_component(*find(of_leaf(l)))};
  }
  return simplify(replace_reads(w.peeled.value, [&](Sym s) -> const Named* {
    auto it = leaves.find(s);
    return it == leaves.end() ? nullptr : &it->second;
  }));
}

bool FamilyBuilder::gives(double want, Expr e, const Reduction& r) {
  for (const Axis& a : program_.axes)
    if (a.size.is_constant(0) && depends_on(e, a.index)) return true;  // there are no elements
  constexpr std::array elsewhere{0.75, -1.5, double(INFINITY), 0.0,
                                 double(NAN)};  // an input, or the result of an earlier pass
  for (int sample = 1; sample <= int(elsewhere.size()); ++sample) {
    Bindings values;
    for (const Axis& a : program_.axes)  // lengths of the reductions inside
      values[a.index.size()] = a.size.is_constant(0) ? 0 : sample;
    for (Sym s : free_symbols(e))
      values[s] = s.kind() == SymbolKind::Index ? sample - 1 : sample + 0.25 * double(s.info().id % 3);
    if (is_true(r.present)) values[axis_.size()] = 0;
    Reader reader = [&](Sym s, const std::vector<int64_t>&) -> double {
      for (const Point& p : state().points)
        if (p.var == s)
          return p.kind == Point::Kind::Mean ? 0 : p.kind == Point::Kind::Maximum ? -INFINITY : INFINITY;
      for (const Component& c : state().components) {
        if (c.var != s) continue;
        bool empty = c.present == r.present || is_true(r.present);
        if (c.present.is(Op::And) && !empty)
          empty = std::find(c.present.args().begin(), c.present.args().end(), r.present) !=
                  c.present.args().end();
        return empty ? *identity(c.combine).number() : 0.5 + sample;
      }
      return elsewhere[size_t(sample) - 1];
    };
    double got = evaluate(e, values, reader);
    if (!(got == want)) return false;
  }
  return true;
}

bool FamilyBuilder::holds_state(Expr e) {
  if (depends_on(e, axis_.size())) return true;
  const auto of_state = [&](Sym s) {
    const State& own = state();
    return std::any_of(own.points.begin(), own.points.end(), [&](const Point& p) { return p.var == s; }) ||
           std::any_of(own.components.begin(), own.components.end(),
                       [&](const Component& c) { return c.var == s; });
  };
  const std::vector<Sym> reads = tensors_read(e);
  return std::any_of(reads.begin(), reads.end(), of_state);
}

Expr FamilyBuilder::finish(size_t k) {
  const Work& w = all_[k];
  Expr e = value(k);
  note_deferred(k);
  if (w.choice.extremum >= 0 || w.r.rank) return e;  // inf when nothing was present
  if (is_true(w.r.present)) {
    const Axis& a = program_.axis(axis_);
    if (a.baked() && *a.size.number() > 0) return e;
  }
  const Expr identity = tilewright::identity(w.r.reducer);
  // A condition on results of this pass decides for all elements together: the state counts those that may be present without it.
  Reduction own = w.r;
  own.present = truth();
  Expr together = truth();
  for (Expr c : w.r.present.is(Op::And) ? w.r.present.args() : std::vector<Expr>{w.r.present}) {
    Expr& part = depends_on(c, axis_) || !reads_results(c) ? own.present : together;
    part = conjunction(part, c);
  }
  if (!is_true(together)) e = simplify(select(together, e, identity));
  if (gives(*identity.number(), finished(e), own)) return e;
  auto contexts = contexts_(w.r.result);
  // A condition that holds nothing of the state, such as one on an index, does not know whether anything was present.
  auto covered = [&](Expr condition) {
    const Expr known = finished(condition);
    return !condition.number() && holds_state(known) && gives(0, known, own);
  };
  if (!contexts.empty() && std::all_of(contexts.begin(), contexts.end(), covered)) return e;
  Expr none = is_true(own.present)
                  ? equal(Expr(axis_.size()), 0)
                  : equal(read_component(component_late({Reducer::Sum, 1, own.present, {}, -1, -1, {}})), 0);
  return simplify(select(none, identity, e));
}

bool FamilyBuilder::reads_results(Expr e) {
  const std::vector<Sym> reads = tensors_read(e);
  return std::any_of(reads.begin(), reads.end(), [&](Sym s) { return work_of(s).has_value(); });
}

int FamilyBuilder::component_late(const FamilyKey& k) {
  if (auto known = find(k)) return *known;
  int c = component(k, "n");
  repair(size_t(c));
  return c;
}

Expr FamilyBuilder::size_of(Sym index) const {
  for (const Axis& a : program_.axes)
    if (a.index.size() == index.size()) return a.baked() ? a.size : Expr(index.size());
  return Expr(index.size());
}

void FamilyBuilder::note_deferred(size_t k) {
  const Work& w = all_[k];
  if (w.is_sum()) {
    for (const Term& t : terms_[k])
      if (!t.coefficient.number() && !tensors_read(t.coefficient).empty())
        out_.deferred.push_back({w.r.result, Note::Kind::Factor, t.coefficient});
  } else if (w.r.rank) {
    const Leaf& l = w.peeled.leaves[0];
    if (l.c != w.r.body) out_.deferred.push_back({w.r.result, Note::Kind::Ranked, l.c});
  } else if (w.choice.extremum < 0 && !w.peeled.plain()) {
    out_.deferred.push_back({w.r.result, Note::Kind::Peeled, {}});
  }
}

}  // namespace tilewright::derivation
