// derive(): passes, points that must be introduced, states (docs/derivation.md).
#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/format.h>

#include "tilewright/derive/check.h"
#include "tilewright/derive/deriver.h"
#include "tilewright/derive/lag.h"
#include "tilewright/derive/readable.h"
#include "tilewright/program/elaborate.h"

namespace tilewright {
namespace derivation {

Derivation Deriver::run() {
  Seen seen = build_cascade(program_, axis_);
  Cascade& cascade = seen.cascade;
  written_ = std::move(seen.written);
  names_ = names_of(program_);
  for (const Reduction& r : cascade.reductions) names_.push_back(r.result.name());
  compared_ = compared_results(cascade);
  for (Reduction& r : cascade.reductions) place(r);
  for (CascadeOutput& o : cascade.outputs) o.value = with_guarded_scales(simplify(rescaled(o.value)));
  drop_unread(cascade.outputs);

  Derivation d;
  d.cascade.axis = axis_;
  d.cascade.outputs = std::move(cascade.outputs);
  int last = 1;
  for (const Work& w : work_) last = std::max(last, w.r.pass);
  for (CascadeOutput& o : d.cascade.outputs) {
    int needed = 0;
    for (Sym s : tensors_read(o.value)) needed = std::max(needed, pass_of(s));
    o.pass = o.along_stream ? needed + 1 : std::max(needed, 1);
    last = std::max(last, o.pass);
  }
  d.passes.resize(size_t(last));
  d.finish.resize(work_.size());
  d.family.resize(work_.size());
  for (size_t k = 0; k < work_.size(); ++k) {
    d.cascade.reductions.push_back(work_[k].r);
    d.passes[size_t(work_[k].r.pass) - 1].reductions.push_back(k);
  }
  for (size_t k = 0; k < d.cascade.outputs.size(); ++k) {
    const CascadeOutput& o = d.cascade.outputs[k];
    if (o.along_stream) d.passes[size_t(o.pass) - 1].stored.push_back(k);
  }
  for (Pass& pass : d.passes) {
    PassState s = build_state(
        program_, axis_, work_, pass.reductions,
        [&](Sym result) { return contexts(result, d.cascade.outputs); }, names_);
    pass.state = std::move(s.state);
    for (size_t k = 0; k < pass.reductions.size(); ++k) {
      d.finish[pass.reductions[k]] = s.finish[k];
      d.family[pass.reductions[k]] = s.family[k];
    }
    notes_.insert(notes_.end(), s.deferred.begin(), s.deferred.end());
  }
  for (auto& [result, refusal] : refusals_) {
    for (size_t k = 0; k < work_.size(); ++k) {
      if (work_[k].r.result != result) continue;
      d.refusals.push_back(refusal);
      d.refusals.back().reduction = k;
    }
  }
  mark_lag(d);
  describe(program_, d, notes_);
  return d;
}

std::set<Sym> Deriver::compared_results(const Cascade& cascade) {
  std::set<Sym> found;
  std::set<std::pair<Expr, bool>> seen;
  const std::function<void(Expr, bool)> visit = [&](Expr e, bool inside) {
    if (!seen.insert({e, inside}).second) return;
    if (inside && e.is(Op::Read)) found.insert(e->sym);
    if (e.is(Op::Lt) || e.is(Op::Le) || e.is(Op::Eq) || e.is(Op::Ne))
      for (size_t k : {0, 1}) {
        const auto n = e.arg(1 - k).number();
        inside = inside || !n || (std::isfinite(*n) && !e.arg(k).is(Op::Read));
      }
    for (Expr a : e.args()) visit(a, inside);
  };
  for (const Reduction& r : cascade.reductions) visit(r.body, false), visit(r.present, false);
  for (const CascadeOutput& o : cascade.outputs) visit(o.value, false);
  return found;
}

int Deriver::pass_of(Sym result) const {
  for (const Work& w : work_)
    if (w.r.result == result) return w.r.pass;
  return 0;
}

Expr Deriver::rescaled(Expr e) const {
  if (scale_.empty()) return e;
  return with_plain_zero_tests(simplify(replace_reads(e, [&](Sym s) {
    auto it = scale_.find(s);
    return it == scale_.end() ? nullptr : &it->second;
  })));
}

Expr Deriver::with_guarded_scales(Expr e) const {
  if (scale_.empty()) return e;
  return rewrite(e, [&](Expr x) {
    if (!x.is(Op::Mul)) return x;
    Expr none;
    bool unbounded = false;
    std::vector<Expr> bounded, others;  // factors that stand beside the sums and the scales
    for (Expr f : x.args()) {
      // |s| and powers of s are 0 where s is.
      Expr sum = f;
      while (sum.is(Op::Abs) || (sum.is(Op::Pow) && sum.arg(1).number() && *sum.arg(1).number() > 0))
        sum = sum.arg(0);
      const Work* w = sum.is(Op::Read) ? work(sum->sym) : nullptr;
      const bool scale = f.is(Op::Exp) && unbounded_over_nothing(f.arg(0));
      if (w && w->is_sum())
        none = none ? logical_or(none, equal(sum, 0)) : equal(sum, 0);
      else if (!scale)
        others.push_back(f);
      if (!scale) bounded.push_back(f);
      unbounded = unbounded || scale;
    }
    if (!none || !unbounded) return x;
    // Another factor may be NaN over nothing, a mean say.
    const bool finite = std::all_of(others.begin(), others.end(), [&](Expr f) { return !holds_results(f); });
    return simplify(select(none, finite ? Expr(0) : make(Op::Mul, bounded), x));
  });
}

bool Deriver::unbounded_over_nothing(Expr e) const {
  if (!holds_results(e)) return false;
  Bindings values;
  for (const Axis& a : program_.axes) values[a.index.size()] = a.size.is_constant(0) ? 0 : 1;
  for (const Axis& a : program_.axes)
    if (a.size.is_constant(0) && depends_on(e, a.index)) return false;  // there are no elements
  for (Sym s : free_symbols(e)) values[s] = s.kind() == SymbolKind::Index ? 0 : 1;
  const double x = evaluate(e, values, [&](Sym s, const std::vector<int64_t>&) {
    const Work* w = work(s);
    return w ? *identity(w->r.reducer).number() : 0.75;
  });
  return std::isnan(x) || x == INFINITY;
}

const Work* Deriver::work(Sym result) const {
  for (const Work& w : work_)
    if (w.r.result == result) return &w;
  return nullptr;
}

void Deriver::place(Reduction r) {
  r.body = rescaled(r.body);
  r.present = rescaled(r.present);
  int pass = 1;
  for (Expr e : {r.body, r.present})
    for (Sym s : tensors_read(e)) pass = std::max(pass, pass_of(s));
  for (;; ++pass) {
    std::set<Sym> running;
    for (const Work& w : work_)
      if (w.r.pass == pass) running.insert(w.r.result);
    NormalForm nf(axis_, running, signs_);
    r.pass = pass;
    try {
      return analyse(r, nf);
    } catch (const Mixing& m) {
      TW_CHECK(nf.runs(m.subterm), "a subterm without running results was refused: " + to_string(m.subterm));
      refusals_.emplace_back(r.result, Refusal{0, m.subterm, span_of(m.subterm, r), m.reason});
    }
  }
}

void Deriver::analyse(Reduction r, NormalForm& nf) {
  const std::vector<Sym> axes = r.axes;
  r.present = nf.settled(r.present);
  Work w;
  w.r = r;
  w.compared = compared_.count(r.result) > 0;
  if (r.reducer == Reducer::Sum) {
    w.terms = nf.terms(is_true(r.present) ? r.body : simplify(select(r.present, r.body, 0)));
    size_t components = 0;
    for (const Term& t : w.terms) components += t.shifts.empty() ? 0 : family_size(t);
    if (components > largest_family)
      throw Mixing{r.body, fmt::format("its state would hold more than {} components", largest_family)};
    for (Term& t : w.terms) w.anchor.push_back(anchor(t, r, nf));
    std::vector<Term> joined;
    std::vector<int> anchors;
    for (size_t k = 0; k < w.terms.size(); ++k) {  // equal now that all exponentials are at their maxima
      auto same = std::find_if(joined.begin(), joined.end(),
                               [&](const Term& t) { return t.same_family(w.terms[k]); });
      if (same != joined.end()) {
        same->coefficient = simplify(same->coefficient + w.terms[k].coefficient);
      } else {
        joined.push_back(w.terms[k]);
        anchors.push_back(w.anchor[k]);
      }
    }
    w.terms = std::move(joined);
    w.anchor = std::move(anchors);
    Expr scale = common_scale(w, nf);
    if (moved_) {
      rebuild(w);
    } else {
      widen_presence(w);
    }
    moved_ = false;
    if (auto same = equal_work(w.r)) {
      scale_[r.result] = {axes, scale * *same};
      return;
    }
    if (!scale.is_constant(1) || w.r.axes != axes || w.r.result != r.result) {
      scale_[r.result] = {axes, scale * read_own(w.r.result, w.r.axes)};
      if (!scale.is_constant(1)) notes_.push_back({w.r.result, Note::Kind::Scale, scale});
    }
    if (signs_.nonnegative(w.r.body)) signs_.set(r.result, false, true);
  } else if (r.rank) {
    const auto size = [&](Sym a) { return program_.axis(a).baked() ? *program_.axis(a).size.number() : 0; };
    w.peeled =
        peel_ranked(r.reducer, r.rank, r.body, r.present, is_true(r.present) && size(axis_) >= size(r.rank),
                    nf, where_present(r), axis_, [&](const Leaf& l) {
                      return axes_of(program_, axis_, {l.c, l.present, Expr(l.rank)});
                    });
  } else if (auto chosen = choice(r, nf)) {
    w.choice = *chosen;
    w.r.present = conjunction(w.choice.present, w.choice.condition);
  } else {
    w.peeled = peel(r.reducer, r.body, r.present, nf, signs_, size(), [&](const Leaf& l) {
      return axes_of(program_, axis_, {l.c, l.present});
    });
    if (is_true(r.present) && signs_.nonnegative(r.body)) signs_.set(r.result, false, true);
  }
  work_.push_back(std::move(w));
}

Signs Deriver::where_present(const Reduction& r) const {
  Signs signs = signs_;
  for (const Work& w : work_)
    if (w.is_sum() && signs_.positive(w.r.body) && implies(r.present, w.r.present))
      signs.set(w.r.result, true, true);
  return signs;
}

Expr Deriver::common_scale(Work& w, NormalForm& nf) {
  Expr common;
  auto exponential = [&](Expr coefficient) -> Expr {
    for (Expr f : factors_of(coefficient))
      if (f.is(Op::Exp) && (nf.runs(f) || holds_results(f))) return f;
    return {};
  };
  for (const Term& t : w.terms) {
    Expr e = exponential(t.coefficient);
    if (!e || (common && common != e)) return 1;
    common = e;
  }
  if (!common) return 1;
  for (Term& t : w.terms) t.coefficient = simplify(t.coefficient / common);
  moved_ = true;
  return common;
}

bool Deriver::holds_results(Expr e) const {
  for (Sym s : tensors_read(e))
    if (pass_of(s) > 0) return true;
  return false;
}

void Deriver::rebuild(Work& w) {
  Expr present = w.terms.empty() ? truth() : w.terms[0].present;
  for (const Term& t : w.terms)
    if (t.present != present) present = truth();
  std::vector<Expr> addends;
  for (Term t : w.terms) {
    if (t.present == present) t.present = truth();
    addends.push_back(value_of(t));
  }
  w.r.body = sum_of(addends);
  w.r.present = present;
  w.r.axes = axes_of(program_, axis_, {w.r.body, w.r.present});
  Sym fresh = Sym::fresh(w.r.result.info());
  for (auto& [result, refusal] : refusals_)
    if (result == w.r.result) result = fresh;
  w.r.result = fresh;
}

void Deriver::widen_presence(Work& w) {
  std::vector<Expr> kept;
  for (Expr a : conditions_of(w.r.present)) {
    bool guard = a.is(Op::Ne) && (a.arg(1) == minus_infinity() || a.arg(1) == Expr::infinity()) &&
                 depends_on(a, axis_) && !w.terms.empty();
    for (const Term& t : w.terms)
      for (Expr x : conditions_of(t.present)) guard = guard && x != a;
    if (!guard) kept.push_back(a);
  }
  if (kept.size() == conditions_of(w.r.present).size()) return;
  w.r.present = kept.empty() ? truth() : kept.size() == 1 ? kept[0] : simplify(make(Op::And, kept));
  w.r.axes = axes_of(program_, axis_, {w.r.body, w.r.present});
}

bool Deriver::implies(Expr p, Expr q) {
  const std::vector<Expr> given = conditions_of(p);
  for (Expr c : conditions_of(q))
    if (std::find(given.begin(), given.end(), c) == given.end()) return false;
  return true;
}

std::vector<Expr> Deriver::conditions_of(Expr p) {
  if (is_true(p)) return {};
  return p.is(Op::And) ? p.args() : std::vector<Expr>{p};
}

std::optional<Expr> Deriver::equal_work(const Reduction& r) const {
  for (const Work& w : work_)
    if (w.r.reducer == r.reducer && w.r.body == r.body && w.r.present == r.present && w.r.pass == r.pass)
      return read_own(w.r.result, w.r.axes);
  return std::nullopt;
}

Expr Deriver::size() const {
  const Axis& a = program_.axis(axis_);
  return a.baked() ? a.size : Expr(axis_.size());
}

namespace {

/// The program with a literal size of `axis` made a symbol again, so that it can be run at any length. A literal that happens to be the same
/// number becomes that symbol too: the program that results is a more general one.
Program with_free_size(const Program& p, Sym axis) {
  Program q = p;
  for (Axis& a : q.axes) {
    if (a.index != axis || !a.baked()) continue;
    Expr literal = a.size;
    for (Definition& d : q.definitions)
      d.value = rewrite(d.value, [&](Expr e) { return e == literal ? Expr(axis.size()) : e; });
    a.size = Expr();
  }
  return q;
}

/// The program with numbers past 2^20 made smaller, equal ones alike, so that the definition as written keeps enough digits in f64 for a comparison:
/// beside 1e15 a value has one. They stay past what may cancel (KeptSums), so the derivation is of the same kind.
Program with_moderate_numbers(const Program& p) {
  constexpr double large = 0x1p20, moderate = 0x1p17;
  Program q = p;
  std::map<double, Expr> known;
  for (Definition& d : q.definitions)
    d.value = rewrite(d.value, [&](Expr e) -> Expr {
      const auto n = e.number();
      if (!n || !std::isfinite(*n) || std::abs(*n) <= large) return e;
      const auto [it, fresh] = known.emplace(std::abs(*n), Expr());
      if (fresh) it->second = Expr(int64_t(moderate) + 1000 * int64_t(known.size()));
      return *n < 0 ? -it->second : it->second;
    });
  return q;
}

/// Axes that lifts sum differences over beside the streamed one.
std::vector<Sym> summed_inside(const Derivation& d) {
  std::vector<Sym> out;
  for (const Pass& pass : d.passes)
    for (size_t a = 0; a < pass.state.components.size(); ++a)
      for (Sym s : derivation::summed_inside(pass.state, a))
        if (std::find(out.begin(), out.end(), s) == out.end()) out.push_back(s);
  return out;
}

bool same_shape(const Derivation& a, const Derivation& b) {
  if (a.passes.size() != b.passes.size() || a.cascade.reductions.size() != b.cascade.reductions.size())
    return false;
  for (size_t k = 0; k < a.passes.size(); ++k) {
    if (a.passes[k].state.points.size() != b.passes[k].state.points.size()) return false;
    if (a.passes[k].state.components.size() != b.passes[k].state.components.size()) return false;
  }
  return true;
}

}  // namespace
}  // namespace derivation

Derivation derive_unproved(const Program& elaborated, Sym axis) {
  return derivation::Deriver(elaborated, axis).run();
}

void prove(const Program& elaborated, Derivation& d) {
  using namespace derivation;
  const Sym axis = d.cascade.axis;
  const Axis& a = elaborated.axis(axis);
  constexpr double short_enough = 64;
  const bool too_long = a.baked() && *a.size.number() > short_enough;
  Program free = too_long ? with_free_size(elaborated, axis) : elaborated;
  bool same = !too_long;
  for (Sym inner : summed_inside(d))  // samples are shorter there than the size that the state counts with
    for (const Axis& long_one : elaborated.axes) {
      if (long_one.index.size() != inner.size() || !long_one.baked()) continue;
      free = with_free_size(free, long_one.index);
      same = false;
    }
  const Program sample = with_moderate_numbers(free);
  for (size_t k = 0; k < sample.definitions.size(); ++k)
    same = same && sample.definitions[k].value == elaborated.definitions[k].value;
  if (same) {
    Small small{elaborated, d};
    prove(d, &small);
    return;
  }
  const Derivation general = derive_unproved(sample, axis);
  Small small{sample, general};
  prove(d, same_shape(d, general) ? &small : nullptr);
}

Derivation derive(const Program& elaborated, Sym axis) {
  Derivation d = derive_unproved(elaborated, axis);
  prove(elaborated, d);
  return d;
}

}  // namespace tilewright
