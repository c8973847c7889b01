#include "tilewright/derive/family.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "tilewright/program/elaborate.h"

namespace tilewright::derivation {

namespace {

using Powers = std::map<int, int>;  // point -> power

struct Key {
  Reducer reducer = Reducer::Sum;
  Expr c, present;
  Powers powers;
  int exponential = -1;
  int chooser = -1;  ///< the extremum that chooses
  Expr condition;    ///< over Read(ρ)
  Sym rank = {};     ///< of a list: Topk its keys, Argtopk its indices
  friend bool operator==(const Key&, const Key&) = default;
};

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

class FamilyBuilder {
 public:
  FamilyBuilder(const Program& p, Sym axis, const std::vector<Work>& all, const std::vector<size_t>& works,
                const std::function<std::vector<Expr>(Sym)>& contexts, std::vector<std::string>& names)
      : program_(p), axis_(axis), all_(all), works_(works), contexts_(contexts), names_(names) {}

  PassState run() {
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

 private:
  State& state() { return out_.state; }
  Expr rho(int point) const {
    return read_own(out_.state.points[size_t(point)].var, out_.state.points[size_t(point)].axes);
  }
  Expr next(int point) const {
    return read_own(out_.state.points[size_t(point)].next, out_.state.points[size_t(point)].axes);
  }

  bool in_pass(Sym result) const {
    return std::any_of(works_.begin(), works_.end(), [&](size_t k) { return all_[k].r.result == result; });
  }
  std::optional<size_t> work_of(Sym result) const {
    for (size_t k : works_)
      if (all_[k].r.result == result) return k;
    return std::nullopt;
  }

  // ---- points ----

  int point(Point::Kind kind, Expr u, Expr present, const std::string& wish) {
    for (size_t k = 0; k < state().points.size(); ++k) {
      const Point& p = state().points[k];
      if (p.kind == kind && p.u == u && p.present == present) return int(k);
    }
    Point p;
    p.kind = kind;
    p.u = u;
    p.present = present;
    p.axes = axes_of(program_, axis_, {u, present});
    std::string name = unique_name(wish, names_);
    p.var = Sym::fresh({.name = name, .kind = SymbolKind::Tile});
    p.next = Sym::fresh({.name = name + "_next", .kind = SymbolKind::Tile});
    state().points.push_back(p);
    return int(state().points.size()) - 1;
  }

  const Leaf& leaf_of(size_t work) const { return all_[work].peeled.leaves[0]; }

  /// The point of a plain maximum or minimum, named after it.
  int point_of_extremum(size_t work, Expr u) {
    const Work& w = all_[work];
    const Leaf& leaf = w.peeled.leaves[0];
    bool itself = !served_.count(work) && u == leaf.c;
    std::string wish = itself ? w.r.result.name() : "rho";
    if (itself) release_name(wish);
    int p = point(leaf.reducer == Reducer::Max ? Point::Kind::Maximum : Point::Kind::Minimum, u, leaf.present,
                  wish);
    served_.emplace(work, std::pair{p, proportion(u, leaf.c, axis_)});
    return p;
  }

  void exponential_points() {
    for (size_t k : works_) {
      for (size_t t = 0; t < terms_[k].size(); ++t) {
        int anchor = all_[k].anchor.empty() ? -1 : all_[k].anchor[t];
        if (anchor < 0) continue;
        int p = point_of_extremum(size_t(anchor), terms_[k][t].u);
        state().points[size_t(p)].exponential = true;
        exponential_[{k, t}] = p;
      }
    }
  }

  bool reads(Expr e, Sym result) const {
    auto all = tensors_read(e);
    return std::find(all.begin(), all.end(), result) != all.end();
  }

  /// Sums that mu is made of, also through the results that it reads.
  std::vector<size_t> feeders(Expr mu) const {
    std::vector<size_t> out;
    std::function<void(Expr)> visit = [&](Expr e) {
      for (Sym s : tensors_read(e)) {
        auto k = work_of(s);
        if (!k || std::find(out.begin(), out.end(), *k) != out.end()) continue;
        out.push_back(*k);
        visit(all_[*k].r.body);
      }
    };
    visit(mu);
    return out;
  }

  void shift_points() {
    for (size_t k : works_)
      for (Term& t : terms_[k])
        for (Shift& s : t.shifts) s.point = shift_point(s, t);
  }

  /// An extremum that mu reads, of u where the term is present, serves as point; else the mean of u, where what feeds mu is present.
  int shift_point(const Shift& s, const Term& t) {
    for (size_t q : works_) {
      const Work& w = all_[q];
      if (w.is_sum() || !w.peeled.plain() || !reads(s.mu, w.r.result)) continue;
      const Leaf& leaf = w.peeled.leaves[0];
      const bool extremum = leaf.reducer == Reducer::Max || leaf.reducer == Reducer::Min;
      const bool seen = is_true(leaf.present) || leaf.present == t.present;
      if (extremum && seen && proportion(s.u, leaf.c, axis_)) return point_of_extremum(q, s.u);
    }
    Expr present = t.present;
    for (size_t f : feeders(s.mu))
      for (const Term& x : terms_[f])
        if (x.c == s.u && !x.u) present = x.present;
    return point(Point::Kind::Mean, s.u, present, "rho");
  }

  /// A sum that feeds a point is itself held shifted: a factor u of its terms becomes (u − rho) + rho.
  void hold_shifted() {
    std::vector<std::pair<Shift, std::vector<size_t>>> wanted;
    for (size_t k : works_)
      for (const Term& t : terms_[k])
        for (const Shift& s : t.shifts)
          if (state().points[size_t(s.point)].kind == Point::Kind::Mean)
            wanted.emplace_back(Shift{s.u, 0, 1, s.point}, feeders(s.mu));
    for (auto& [held, works] : wanted) {
      const std::vector<Sym>& axes = state().points[size_t(held.point)].axes;
      for (size_t k : works) {
        const std::vector<Sym>& own = all_[k].r.axes;
        const auto has = [&](Sym a) { return std::find(own.begin(), own.end(), a) != own.end(); };
        if (!std::all_of(axes.begin(), axes.end(), has)) continue;  // one sum for many points
        for (Term& t : terms_[k]) {
          std::vector<Expr> rest = factors_of(t.c);
          auto it = std::find(rest.begin(), rest.end(), held.u);
          if (t.c == held.u) {
            t.c = 1;
          } else if (it != rest.end()) {
            rest.erase(it);
            t.c = product_of(rest);
          } else {
            continue;
          }
          t.shifts.push_back(held);
        }
      }
    }
  }

  // ---- components ----

  Powers powers(const Term& t) const {
    Powers out;
    for (const Shift& s : t.shifts) out[s.point] += s.power;
    return out;
  }

  Key key(size_t work, size_t term) const {
    const Term& t = terms_.at(work)[term];
    auto it = exponential_.find({work, term});
    return {Reducer::Sum, t.c, t.present, powers(t), it == exponential_.end() ? -1 : it->second, -1, {}};
  }

  Key chosen(size_t work) const {
    const Work& w = all_[work];
    int p = choosers_.at(work);
    Sym extremum = all_[size_t(w.choice.extremum)].r.result;
    Key k{Reducer::Min, simplify(w.r.body + w.choice.offset), w.choice.present, {}, -1, p, {}};
    k.condition = rewrite(w.choice.condition,
                          [&](Expr x) { return x.is(Op::Read) && x->sym == extremum ? rho(p) : x; });
    return k;
  }

  std::optional<int> find(const Key& key) const {
    for (size_t k = 0; k < keys_.size(); ++k)
      if (keys_[k] == key) return int(k);
    return std::nullopt;
  }

  int component(const Key& key, const std::string& wish) {
    if (auto known = find(key)) return *known;
    Component c;
    c.combine = key.reducer;
    c.present = key.present;
    std::vector<Expr> factors{key.c};
    for (auto& [p, n] : key.powers) factors.push_back(pow(state().points[size_t(p)].u - rho(p), n));
    if (key.exponential >= 0)
      factors.push_back(exp(state().points[size_t(key.exponential)].u - rho(key.exponential)));
    c.lift = key.reducer == Reducer::Argtopk ? Expr(axis_)
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

  /// The components of `top` and of everything below it, made lowest first; `top` comes first in the list.
  std::vector<int> family(const Key& top, const std::string& wish) {
    std::vector<int> out;
    for_downset(top.powers, [&](const Powers& powers) {
      Key k = top;
      k.powers = powers;
      out.insert(out.begin(), component(k, powers == top.powers ? wish : wish + "0"));
    });
    return out;
  }

  static Key of_leaf(const Leaf& l) { return {l.reducer, l.c, l.present, {}, -1, -1, {}, l.rank}; }

  /// The two components of a list that a result reads, that of `l` first.
  std::vector<int> list(const Leaf& l, const Peeled& from) {
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
    Key keys = of_leaf(l), indices = keys;
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

  void include(size_t work, const std::vector<int>& components) {
    for (int c : components)
      if (std::find(family_[work].begin(), family_[work].end(), c) == family_[work].end())
        family_[work].push_back(c);
  }

  void release_name(const std::string& name) { std::erase(names_, name); }

  void components() {
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
            include(k,
                    {component(of_leaf(l), l.reducer == w.r.reducer ? w.r.result.name() : name(l.reducer))});
      }
    }
    for (size_t p = 0; p < state().points.size(); ++p) {
      Point& q = state().points[p];
      if (q.kind != Point::Kind::Mean) continue;
      Expr present = q.present;
      int sum = family({Reducer::Sum, 1, present, {{int(p), 1}}, -1, -1, {}}, "d1")[0];
      int weight = *find({Reducer::Sum, 1, present, {}, -1, -1, {}});
      state().points[p].sum = sum;
      state().points[p].weight = weight;
    }
    for (size_t k = 0; k < keys_.size(); ++k) repair(k);
  }

  /// exp(ρ − ρ'), 1 where both are the same also at −inf.
  Expr scale(int p) const { return select(equal(rho(p), next(p)), 1, exp(rho(p) - next(p))); }
  /// ρ − ρ'; a point that has seen nothing has nothing to move.
  Expr shift(int p) const {
    Expr d = rho(p) - next(p);
    if (state_const().points[size_t(p)].kind == Point::Kind::Mean) return d;
    return select(equal(make(Op::Abs, {rho(p)}), Expr::infinity()), 0, d);
  }
  const State& state_const() const { return out_.state; }

  void repair(size_t a) {
    const Key& top = keys_[a];
    Component& c = state().components[a];
    std::vector<RepairTerm> row;
    for_downset(top.powers, [&](const Powers& powers) {
      Key k = top;
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

  // ---- finish ----

  Expr read_component(int k) const {
    return read_own(state_const().components[size_t(k)].var, state_const().components[size_t(k)].axes);
  }

  /// The point that carries the value of a leaf, if one does.
  std::optional<Expr> served_leaf(const Leaf& l) const {
    for (auto& [k, served] : served_) {
      const Leaf& own = all_[k].peeled.leaves[0];
      if (own.reducer == l.reducer && own.c == l.c && own.present == l.present) {
        const auto& [p, relation] = served;
        return simplify((rho(p) - relation.offset) / relation.scale);
      }
    }
    return std::nullopt;
  }

  /// Results of this pass replaced by their finish, through and through.
  Expr finished(Expr e) {
    return replace_reads(e, [&](Sym s) -> const Named* {
      auto k = work_of(s);
      if (!k) return nullptr;
      auto [it, fresh] = named_.try_emplace(*k);
      if (fresh) it->second = {all_[*k].r.axes, finished(value(*k))};
      return &it->second;
    });
  }

  /// The coefficient as conditions and the rest: where(p, a, 0)·b = where(p, a·b, 0).
  static std::pair<Expr, Expr> guarded(Expr coefficient) {
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

  /// ρ − mu in terms of components: the running value is ρ + Σ(u − ρ)/n, so ρ cancels and −Σ(u − ρ)/n is left.
  Expr difference(int p, Expr mu, Expr condition) {
    Expr value = finished(mu);
    if (!is_true(condition)) {
      Expr known = simplify(finished(condition));
      value = rewrite(value,
                      [&](Expr e) { return e.is(Op::Select) && simplify(e.arg(0)) == known ? e.arg(1) : e; });
    }
    return simplify(expand(rho(p) - value));
  }

  Expr finish_term(size_t work, size_t index) {
    const Term& t = terms_[work][index];
    auto [condition, coefficient] = guarded(t.coefficient);
    Key top = key(work, index);
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
      Key k = top;
      k.powers = it->first;
      addends.push_back(it->second * read_component(*find(k)));
    }
    Expr value = simplify(coefficient * sum_of(addends));
    return is_true(condition) ? value : simplify(select(condition, value, 0));
  }

  /// [H(ρ, r) t]_1 with what was moved out, without regard to emptiness.
  Expr value(size_t k) {
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
      // Σ 1 over everything is the size of the axis.
      if (auto n = find({Reducer::Sum, 1, truth(), {}, -1, -1, {}}))
        sum = simplify(replace_reads(sum, [&](Sym s) -> const Named* {
          static thread_local Named size;
          size = {{}, size_of_axis()};
          return s == state().components[size_t(*n)].var ? &size : nullptr;
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

  /// Does `e` give `want` when nothing was present?
  bool gives(double want, Expr e, const Reduction& r) {
    for (int sample = 1; sample <= 3; ++sample) {
      Bindings values;
      for (const Axis& a : program_.axes)
        values[a.index.size()] = sample;  // lengths of the reductions inside
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
        return sample == 1   ? 0.75
               : sample == 2 ? -1.5
                             : INFINITY;  // an input, or the result of an earlier pass
      };
      double got = evaluate(e, values, reader);
      if (!(got == want)) return false;
    }
    return true;
  }

  /// Does `e` read a point or a component, or the length of the streamed axis?
  bool holds_state(Expr e) {
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

  Expr finish(size_t k) {
    const Work& w = all_[k];
    Expr e = value(k);
    note_deferred(k);
    if (w.choice.extremum >= 0 || w.r.rank) return e;  // inf when nothing was present
    if (is_true(w.r.present)) {
      const Axis& a = program_.axis(axis_);
      if (a.baked() && *a.size.number() > 0) return e;
    }
    if (gives(*identity(w.r.reducer).number(), finished(e), w.r)) return e;
    auto contexts = contexts_(w.r.result);
    // A condition that holds nothing of the state, such as one on an index, does not know whether anything was present.
    auto covered = [&](Expr condition) {
      const Expr known = finished(condition);
      return !condition.number() && holds_state(known) && gives(0, known, w.r);
    };
    if (!contexts.empty() && std::all_of(contexts.begin(), contexts.end(), covered)) return e;
    Expr none =
        is_true(w.r.present)
            ? equal(Expr(axis_.size()), 0)
            : equal(read_component(component_late({Reducer::Sum, 1, w.r.present, {}, -1, -1, {}})), 0);
    return simplify(select(none, identity(w.r.reducer), e));
  }

  int component_late(const Key& k) {
    if (auto known = find(k)) return *known;
    int c = component(k, "n");
    repair(size_t(c));
    return c;
  }

  Expr size_of_axis() const {
    const Axis& a = program_.axis(axis_);
    return a.baked() ? a.size : Expr(axis_.size());
  }

  void note_deferred(size_t k) {
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

  const Program& program_;
  Sym axis_;
  const std::vector<Work>& all_;
  const std::vector<size_t>& works_;
  const std::function<std::vector<Expr>(Sym)>& contexts_;
  std::vector<std::string>& names_;
  PassState out_;
  std::map<size_t, std::vector<Term>> terms_;
  std::map<std::pair<size_t, size_t>, int> exponential_;
  std::map<size_t, int> choosers_;                       // work -> point
  std::map<size_t, std::pair<int, Proportion>> served_;  // work -> the point that carries its value
  std::vector<Key> keys_;
  std::map<size_t, std::vector<int>> family_;
  std::map<size_t, Named> named_;
};

}  // namespace

PassState build_state(const Program& p, Sym axis, const std::vector<Work>& all,
                      const std::vector<size_t>& works, const std::function<std::vector<Expr>(Sym)>& contexts,
                      std::vector<std::string>& names) {
  return FamilyBuilder(p, axis, all, works, contexts, names).run();
}

}  // namespace tilewright::derivation
