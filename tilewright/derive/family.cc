// From reductions in normal form to the components of one pass and their repairs.
#include "tilewright/derive/family_builder.h"

#include <algorithm>

#include <fmt/format.h>

#include "tilewright/program/elaborate.h"

namespace tilewright::derivation {
namespace {

Expr binomial(int n, int k) {
  int64_t b = 1;
  for (int i = 0; i < k; ++i) b = b * (n - i) / (i + 1);
  return b;
}

/// All exponent tuples between 0 and `top`, lowest first, calling f.
void for_downset(const Powers& top, const std::function<void(const Powers&)>& f) {
  std::vector<std::pair<int, int>> dims(top.begin(), top.end());
  Powers now;
  std::function<void(size_t)> go = [&](size_t k) {
    if (k == dims.size()) {
      Powers clean;
      for (auto& [point, n] : now)
        if (n > 0) clean[point] = n;
      return f(clean);
    }
    for (int n = 0; n <= dims[k].second; ++n) {
      now[dims[k].first] = n;
      go(k + 1);
    }
  };
  go(0);
}

}  // namespace

PassState FamilyBuilder::run() {
  for (size_t k : works_) terms_[k] = all_[k].terms;
  exponential_points();
  for (size_t k : works_)
    if (all_[k].choice.extremum >= 0)
      choosers_[k] =
          point_of_extremum(size_t(all_[k].choice.extremum), leaf_of(size_t(all_[k].choice.extremum)).c);
  shift_points();
  hold_shifted();
  components();
  for (size_t k : works_) {
    out_.finish.push_back(monic(finish(k)));
    out_.family.push_back(family_[k]);
  }
  return std::move(out_);
}

Powers FamilyBuilder::powers(const Term& t) const {
  Powers out;
  for (const Shift& s : t.shifts) out[s.point] += s.power;
  return out;
}

FamilyKey FamilyBuilder::key(size_t work, size_t term) const {
  const Term& t = terms_.at(work)[term];
  auto it = exponential_.find({work, term});
  return {Reducer::Sum, t.c, t.present, powers(t), it == exponential_.end() ? -1 : it->second,
          -1,           {},  {},        t.inner};
}

FamilyKey FamilyBuilder::chosen(size_t work) const {
  const Work& w = all_[work];
  int p = choosers_.at(work);
  Sym extremum = all_[size_t(w.choice.extremum)].r.result;
  FamilyKey k{Reducer::Min, simplify(w.r.body + w.choice.offset), w.choice.present, {}, -1, p, {}};
  k.condition =
      rewrite(w.choice.condition, [&](Expr x) { return x.is(Op::Read) && x->sym == extremum ? rho(p) : x; });
  return k;
}

std::optional<int> FamilyBuilder::find(const FamilyKey& key) const {
  for (size_t k = 0; k < keys_.size(); ++k)
    if (keys_[k] == key) return int(k);
  return std::nullopt;
}

int FamilyBuilder::component(const FamilyKey& key, const std::string& wish) {
  if (auto known = find(key)) return *known;
  Component c;
  c.combine = key.reducer;
  c.present = key.present;
  std::vector<Expr> factors{key.c};
  for (auto& [p, n] : key.powers) factors.push_back(pow(state().points[size_t(p)].u - rho(p), n));
  if (key.exponential >= 0)
    factors.push_back(exp(state().points[size_t(key.exponential)].u - rho(key.exponential)));
  c.lift = key.reducer == Reducer::Argtopk ? Expr(axis_)
           : !key.inner.empty()            ? reduce(Reducer::Sum, key.inner, product_of(factors))
           : key.chooser < 0               ? product_of(factors)
                                           : simplify(select(key.condition, key.c, Expr::infinity()));
  std::vector<Expr> varying{c.lift, c.present};
  if (key.rank) varying.insert(varying.end(), {key.c, Expr(key.rank)});
  c.axes = axes_of(program_, axis_, varying);
  c.rank = key.rank;
  std::string name = wish;
  if (key.reducer == Reducer::Sum && key.exponential < 0 && key.c.is_constant(1)) {
    int total = 0;
    for (auto& [p, n] : key.powers) total += n;
    bool n_is_free = std::find(names_.begin(), names_.end(), "n") == names_.end();
    name = total == 0               ? (n_is_free ? "n" : "count")
           : key.powers.size() == 1 ? fmt::format("d{}", total)
                                    : wish;
  }
  c.var = Sym::fresh({.name = unique_name(name, names_),
                      .kind = SymbolKind::Tile,
                      .integer = key.reducer == Reducer::Argtopk});
  keys_.push_back(key);
  state().components.push_back(std::move(c));
  return int(keys_.size()) - 1;
}

std::vector<int> FamilyBuilder::family(const FamilyKey& top, const std::string& wish) {
  std::vector<int> out;
  for_downset(top.powers, [&](const Powers& powers) {
    FamilyKey k = top;
    k.powers = powers;
    out.insert(out.begin(), component(k, powers == top.powers ? wish : wish + "0"));
  });
  return out;
}

std::vector<int> FamilyBuilder::list(const Leaf& l, const Peeled& from) {
  const auto named = [&](Reducer side, Reducer other, const char* suffix) {
    std::string name;
    for (Reducer r : {other, side})
      for (size_t k : works_) {
        const Peeled& p = all_[k].peeled;
        if (all_[k].r.reducer != r || p.leaves.empty() || p.leaves[0].c != l.c ||
            p.leaves[0].present != l.present || p.leaves[0].rank != l.rank)
          continue;
        const bool own =
            r == side && (side == Reducer::Argtopk || all_[k].r.body == l.c);  // it is that result
        name = all_[k].r.result.name() + (own ? "" : suffix);
        if (own) release_name(name);
      }
    return name;
  };
  FamilyKey keys = of_leaf(l), indices = keys;
  keys.reducer = Reducer::Topk;
  indices.reducer = Reducer::Argtopk;
  const bool fresh = !find(keys);
  const int key = component(keys, fresh ? named(Reducer::Topk, Reducer::Argtopk, "_key") : ""),
            index = component(indices, fresh ? named(Reducer::Argtopk, Reducer::Topk, "_at") : "");
  state().components[size_t(key)].beside = index;
  state().components[size_t(index)].beside = key;
  if (from.ranked) {
    state().components[size_t(key)].ranked = from.ranked;
    state().components[size_t(key)].key = from.key;
  }
  if (l.reducer == Reducer::Topk) return {key, index};
  return {index, key};
}

void FamilyBuilder::include(size_t work, const std::vector<int>& components) {
  for (int c : components)
    if (std::find(family_[work].begin(), family_[work].end(), c) == family_[work].end())
      family_[work].push_back(c);
}

void FamilyBuilder::components() {
  for (size_t k : works_) {
    const Work& w = all_[k];
    if (served_.count(k)) continue;
    if (w.r.rank) {
      for (const Leaf& l : w.peeled.leaves) include(k, list(l, w.peeled));
      continue;
    }
    release_name(w.r.result.name());  // its main component may bear it
    if (w.is_sum()) {
      for (size_t t = 0; t < terms_[k].size(); ++t) include(k, family(key(k, t), w.r.result.name()));
    } else if (w.choice.extremum >= 0) {
      include(k, {component(chosen(k), w.r.result.name())});
    } else {
      for (const Leaf& l : w.peeled.leaves)
        if (!served_leaf(l))
          include(k, {component(of_leaf(l), l.reducer == w.r.reducer ? w.r.result.name() : name(l.reducer))});
    }
  }
  for (size_t p = 0; p < state().points.size(); ++p) {
    Point& q = state().points[p];
    if (q.kind != Point::Kind::Mean) continue;
    Expr present = q.present, one = 1;
    const std::vector<Sym>& inner = inner_[p];
    if (!inner.empty()) one = *without_factor(q.u, q.u);
    int sum = family({Reducer::Sum, one, present, {{int(p), 1}}, -1, -1, {}, {}, inner}, "d1")[0];
    int weight = *find({Reducer::Sum, one, present, {}, -1, -1, {}, {}, inner});
    state().points[p].sum = sum;
    state().points[p].weight = weight;
  }
  for (size_t k = 0; k < keys_.size(); ++k) repair(k);
}

Expr FamilyBuilder::shift(int p) const {
  Expr d = rho(p) - next(p);
  if (state_const().points[size_t(p)].kind == Point::Kind::Mean) return d;
  return select(equal(make(Op::Abs, {rho(p)}), Expr::infinity()), 0, d);
}

void FamilyBuilder::repair(size_t a) {
  const FamilyKey& top = keys_[a];
  Component& c = state().components[a];
  std::vector<RepairTerm> row;
  for_downset(top.powers, [&](const Powers& powers) {
    FamilyKey k = top;
    k.powers = powers;
    Expr factor = 1;
    for (auto& [p, n] : top.powers) {
      auto it = powers.find(p);
      int below = it == powers.end() ? 0 : it->second;
      if (below == n) continue;
      Expr f = n - below == 1 ? shift(p) : pow(shift(p), n - below);
      if (!binomial(n, below).is_constant(1)) f = binomial(n, below) * f;
      factor = factor.is_constant(1) ? f : factor * f;
    }
    if (top.chooser >= 0) {  // a new extremum empties it; NaN stays the extremum once it is seen
      Expr r = rho(top.chooser);
      factor = select(logical_or(equal(r, next(top.chooser)), logical_not(less_equal(r, Expr::infinity()))),
                      1, Expr::infinity());
    }
    if (top.exponential >= 0)
      factor = factor.is_constant(1) ? scale(top.exponential) : factor * scale(top.exponential);
    row.insert(row.begin(), {*find(k), factor});
  });
  c.repair = row;
}

PassState build_state(const Program& p, Sym axis, const std::vector<Work>& all,
                      const std::vector<size_t>& works, const std::function<std::vector<Expr>(Sym)>& contexts,
                      std::vector<std::string>& names) {
  return FamilyBuilder(p, axis, all, works, contexts, names).run();
}

}  // namespace tilewright::derivation
