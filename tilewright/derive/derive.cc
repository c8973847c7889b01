// derive(): passes, points that must be introduced, states (docs/derivation.md).
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "tilewright/derive/cascade.h"
#include "tilewright/derive/check.h"
#include "tilewright/derive/family.h"
#include "tilewright/derive/lag.h"
#include "tilewright/derive/readable.h"
#include "tilewright/program/elaborate.h"

namespace tilewright {
namespace derivation {
namespace {

class Deriver {
 public:
  Deriver(const Program& p, Sym axis) : program_(p), axis_(axis) {}

  Derivation run() {
    Seen seen = build_cascade(program_, axis_);
    Cascade& cascade = seen.cascade;
    written_ = std::move(seen.written);
    names_ = names_of(program_);
    for (const Reduction& r : cascade.reductions) names_.push_back(r.result.name());
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

 private:
  int pass_of(Sym result) const {
    for (const Work& w : work_)
      if (w.r.result == result) return w.r.pass;
    return 0;
  }

  Expr rescaled(Expr e) const {
    if (scale_.empty()) return e;
    return with_plain_zero_tests(simplify(replace_reads(e, [&](Sym s) {
      auto it = scale_.find(s);
      return it == scale_.end() ? nullptr : &it->second;
    })));
  }

  /// exp(−m)·s of a sum s held without that factor: 0 where s is, also where nothing was present and m is −inf.
  Expr with_guarded_scales(Expr e) const {
    if (scale_.empty()) return e;
    return rewrite(e, [&](Expr x) {
      if (!x.is(Op::Mul)) return x;
      Expr none;
      bool unbounded = false;
      for (Expr f : x.args()) {
        const Work* w = f.is(Op::Read) ? work(f->sym) : nullptr;
        if (w && w->is_sum()) none = none ? logical_or(none, equal(f, 0)) : equal(f, 0);
        unbounded = unbounded || (f.is(Op::Exp) && unbounded_over_nothing(f.arg(0)));
      }
      return none && unbounded ? simplify(select(none, 0, x)) : x;
    });
  }

  /// Is exp(e) infinite or NaN where nothing was present?
  bool unbounded_over_nothing(Expr e) const {
    if (!holds_results(e)) return false;
    Bindings values;
    for (const Axis& a : program_.axes) values[a.index.size()] = 1;
    for (Sym s : free_symbols(e)) values[s] = s.kind() == SymbolKind::Index ? 0 : 1;
    const double x = evaluate(e, values, [&](Sym s, const std::vector<int64_t>&) {
      const Work* w = work(s);
      return w ? *identity(w->r.reducer).number() : 0.75;
    });
    return std::isnan(x) || x == INFINITY;
  }

  const Work* work(Sym result) const {
    for (const Work& w : work_)
      if (w.r.result == result) return &w;
    return nullptr;
  }

  /// Rule 12: the earliest pass in which the reduction has a normal form.
  void place(Reduction r) {
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
        TW_CHECK(nf.runs(m.subterm),
                 "a subterm without running results was refused: " + to_string(m.subterm));
        refusals_.emplace_back(r.result, Refusal{0, m.subterm, span_of(m.subterm, r), m.reason});
      }
    }
  }

  void analyse(Reduction r, NormalForm& nf) {
    const std::vector<Sym> axes = r.axes;
    r.present = nf.settled(r.present);
    Work w;
    w.r = r;
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

  /// Sums of positive values are positive where an element of `r` is present, if they take in all that `r` does.
  Signs where_present(const Reduction& r) const {
    Signs signs = signs_;
    for (const Work& w : work_)
      if (w.is_sum() && signs_.positive(w.r.body) && implies(r.present, w.r.present))
        signs.set(w.r.result, true, true);
    return signs;
  }

  /// min of a positive value where u is at its extremum: the index of a maximum.
  std::optional<Choice> choice(const Reduction& r, NormalForm& nf) {
    if (r.reducer != Reducer::Min || !nf.runs(r.present) || nf.kind(r.body) != NormalForm::Kind::C ||
        !provably_nonnegative(r.body))
      return std::nullopt;
    Choice out;
    for (Expr p : conditions_of(r.present)) {
      if (!nf.runs(p)) {
        out.present = conjunction(out.present, p);
      } else {
        if (out.extremum >= 0) return std::nullopt;
        std::tie(out.extremum, out.condition) = at_extremum(p, r.pass, nf);
        if (out.extremum < 0) return std::nullopt;
      }
    }
    if (out.extremum < 0) return std::nullopt;
    out.offset = provably_positive(r.body) ? 0 : 1;
    return out;
  }

  /// A condition that says body == extremum of body, perhaps with alternatives: the extremum of what the body rises with, and the condition
  /// about that.
  std::pair<int, Expr> at_extremum(Expr condition, int pass, NormalForm& nf) {
    for (Expr equation : condition.is(Op::Or) ? condition.args() : std::vector<Expr>{condition}) {
      if (!equation.is(Op::Eq)) continue;
      for (size_t k = 0; k < work_.size(); ++k) {
        const Reduction q = work_[k].r;
        const bool extremum = q.reducer == Reducer::Max || q.reducer == Reducer::Min;
        const Expr value = read_own(q.result, q.axes);
        if (!extremum || q.pass != pass) continue;
        if (equation != simplify(equal(q.body, value)) && equation != simplify(equal(value, q.body)))
          continue;
        const auto axes = [&](const Leaf& l) { return axes_of(program_, axis_, {l.c, l.present}); };
        const Peeled peeled = peel(q.reducer, q.body, q.present, nf, signs_, size(), axes, Inside::Whole);
        if (peeled.leaves.size() != 1 || peeled.leaves[0].reducer != q.reducer || !rises(peeled)) continue;
        const Expr u = peeled.leaves[0].c;
        const int plain = plain_extremum(q.reducer, u, peeled.leaves[0].present, pass, q.span);
        const Work& at = work_[size_t(plain)];
        const Expr chosen = simplify(equal(u, read_own(at.r.result, at.r.axes)));
        const Expr out = rewrite(condition, [&](Expr e) {
          if (e == q.body) return u;
          return e.is(Op::Eq) && (e.arg(0) == value || e.arg(1) == value) ? chosen : e;
        });
        for (Expr e : out.is(Op::Or) ? out.args() : std::vector<Expr>{out})
          if (nf.runs(e) && e != chosen) return {-1, {}};
        return {plain, out};
      }
    }
    return {-1, {}};
  }

  /// Is it a · leaf + b with a > 0?
  bool rises(const Peeled& p) const {
    const Sym leaf = Sym::fresh({.name = "leaf", .kind = SymbolKind::Variable});
    const auto line =
        affine(rewrite(p.value,
                       [&](Expr e) { return e.is(Op::Read) && e->sym == p.leaves[0].sym ? Expr(leaf) : e; }),
               {leaf});
    return line && signs_.positive(line->coefficient[0]);
  }

  /// The extremum of u itself, from which nothing is peeled: an earlier work, or a new one.
  int plain_extremum(Reducer reducer, Expr u, Expr present, int pass, Span span) {
    for (size_t k = 0; k < work_.size(); ++k) {
      const Work& w = work_[k];
      if (w.is_sum() || w.r.pass != pass || !w.peeled.plain()) continue;
      const Leaf& leaf = w.peeled.leaves[0];
      if (leaf.reducer == reducer && leaf.c == u && leaf.present == present) return int(k);
    }
    Work w;
    w.r.reducer = reducer;
    w.r.body = u;
    w.r.present = present;
    w.r.pass = pass;
    w.r.span = span;
    w.r.axes = axes_of(program_, axis_, {u, present});
    w.r.result = Sym::fresh({.name = unique_name("m", names_), .kind = SymbolKind::Tile});
    w.peeled = {read_own(w.r.result, w.r.axes), {{w.r.result, w.r.axes, reducer, u, present}}};
    work_.push_back(std::move(w));
    return int(work_.size()) - 1;
  }

  /// Rule 10: the maximum at which the exponential of `t` is held. What is left of the exponent of R goes to the coefficient.
  int anchor(Term& t, const Reduction& r, NormalForm& nf) {
    if (!t.u) return -1;
    if (below_a_known_maximum(t.u, r.pass)) {
      t.c = simplify(t.c * exp(t.u));
      t.coefficient = simplify(t.coefficient * exp(-t.r));
      t.u = t.r = Expr();
      moved_ = true;
      return -1;
    }
    auto [k, value] = known_maximum(t, r.pass);
    if (k < 0) {
      Reduction m;
      m.reducer = Reducer::Max;
      m.body = t.u;
      m.present = t.present;
      m.pass = r.pass;
      m.span = r.span;
      m.axes = axes_of(program_, axis_, {m.body, m.present});
      m.result = Sym::fresh({.name = unique_name("m", names_), .kind = SymbolKind::Tile});
      notes_.push_back({m.result, Note::Kind::Introduced, m.body});
      NormalForm plain(axis_, {}, signs_);
      Work w;
      w.r = m;
      w.peeled =
          peel(m.reducer, m.body, m.present, plain, signs_, size(), [&](const Leaf&) { return m.axes; });
      // A point is the exponent itself: where more was peeled off than a factor and an addend, nothing is.
      if (w.peeled.leaves.size() != 1 || !proportion(t.u, w.peeled.leaves[0].c, axis_)) {
        const Leaf leaf{m.result, m.axes, m.reducer, m.body, m.present};
        w.peeled = {read_own(m.result, m.axes), {leaf}};
      }
      work_.push_back(std::move(w));
      k = int(work_.size()) - 1;
      value = read_own(m.result, m.axes);
    }
    (void)nf;
    Expr rest = simplify(expand(value - t.r));
    if (!rest.is_constant(0)) {
      t.coefficient = simplify(t.coefficient * exp(rest));
      moved_ = true;
    }
    t.r = value;
    return k;
  }

  /// An earlier maximum of the same pass whose body is the exponent up to a positive factor and an addend.
  std::pair<int, Expr> known_maximum(const Term& t, int pass) const {
    int found = -1;
    Expr value;
    for (size_t k = 0; k < work_.size(); ++k) {
      const Work& w = work_[k];
      if (w.r.reducer != Reducer::Max || w.r.pass != pass || !w.peeled.plain()) continue;
      const Leaf& leaf = w.peeled.leaves[0];
      Proportion p = proportion(t.u, leaf.c, axis_);
      if (!p) continue;
      auto read_in = tensors_read(t.r);
      bool meant = std::find(read_in.begin(), read_in.end(), w.r.result) != read_in.end();
      if (!meant && leaf.present != t.present && !is_true(leaf.present)) continue;
      if (!implies(t.present, leaf.present)) continue;  // it would see elements that its point does not
      if (found >= 0 && !meant) continue;
      found = int(k);
      value = simplify(p.scale * read_own(w.r.result, w.r.axes) + p.offset);
      if (meant) break;
    }
    return {found, value};
  }

  /// u = v − max v with the maximum of an earlier pass: at most 0 already.
  bool below_a_known_maximum(Expr u, int pass) const {
    if (!u.is(Op::Add)) return false;
    for (const Work& w : work_) {
      if (w.r.reducer != Reducer::Max || w.r.pass >= pass || !w.peeled.plain()) continue;
      std::vector<Expr> rest;
      Expr scale;
      for (Expr a : u.args()) {
        Expr negative = simplify(-a);
        std::vector<Expr> factors = factors_of(negative);
        auto it = std::find_if(factors.begin(), factors.end(),
                               [&](Expr f) { return f.is(Op::Read) && f->sym == w.r.result; });
        if (it == factors.end()) {
          rest.push_back(a);
          continue;
        }
        factors.erase(it);
        scale = product_of(factors);
      }
      if (!scale || !provably_positive(scale) || rest.size() + 1 != u.args().size()) continue;
      Proportion p = proportion(sum_of(rest), w.peeled.leaves[0].c, axis_);
      if (p && p.scale == scale && p.offset.is_constant(0)) return true;
    }
    return false;
  }

  /// An exponential of R that all terms share: the reduction is held without it.
  Expr common_scale(Work& w, NormalForm& nf) {
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

  bool holds_results(Expr e) const {
    for (Sym s : tensors_read(e))
      if (pass_of(s) > 0) return true;
    return false;
  }

  void rebuild(Work& w) {
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

  /// Conditions u != −inf, of u = −v the conditions v != inf, that the normal form dropped, since an exponential is 0 there anyway.
  void widen_presence(Work& w) {
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

  /// Does `p` name all conditions of `q`?
  static bool implies(Expr p, Expr q) {
    const std::vector<Expr> given = conditions_of(p);
    for (Expr c : conditions_of(q))
      if (std::find(given.begin(), given.end(), c) == given.end()) return false;
    return true;
  }

  static std::vector<Expr> conditions_of(Expr p) {
    if (is_true(p)) return {};
    return p.is(Op::And) ? p.args() : std::vector<Expr>{p};
  }

  /// The result of an earlier work that is the same reduction.
  std::optional<Expr> equal_work(const Reduction& r) const {
    for (const Work& w : work_)
      if (w.r.reducer == r.reducer && w.r.body == r.body && w.r.present == r.present && w.r.pass == r.pass)
        return read_own(w.r.result, w.r.axes);
    return std::nullopt;
  }

  /// Reductions that no output needs any more.
  void drop_unread(const std::vector<CascadeOutput>& outputs) {
    std::set<Sym> live;
    std::function<void(Expr)> mark = [&](Expr e) {
      for (Sym s : tensors_read(e)) {
        if (!live.insert(s).second) continue;
        for (const Work& w : work_) {
          if (w.r.result != s) continue;
          mark(w.r.body);
          mark(w.r.present);
          for (const Term& t : w.terms)
            if (t.r) mark(t.r);
        }
      }
    };
    for (const CascadeOutput& o : outputs) mark(o.value);
    std::vector<int> place(work_.size(), -1);
    std::vector<Work> kept;
    for (size_t k = 0; k < work_.size(); ++k) {
      if (!live.count(work_[k].r.result)) continue;
      place[k] = int(kept.size());
      kept.push_back(std::move(work_[k]));
    }
    for (Work& w : kept) {
      for (int& a : w.anchor)
        if (a >= 0) a = place[size_t(a)];
      if (w.choice.extremum >= 0) w.choice.extremum = place[size_t(w.choice.extremum)];
    }
    work_ = std::move(kept);
  }

  /// For each place where `result` is read: the conditions of the choices around it.
  std::vector<Expr> contexts(Sym result, const std::vector<CascadeOutput>& outputs) const {
    std::vector<Expr> out;
    std::set<std::pair<Expr, Expr>> seen;
    std::function<void(Expr, Expr)> visit = [&](Expr e, Expr condition) {
      if (!seen.emplace(e, condition).second) return;
      if (e.is(Op::Read) && e->sym == result) out.push_back(condition);
      if (e.is(Op::Select)) {
        visit(e.arg(0), condition);
        visit(e.arg(1), conjunction(condition, e.arg(0)));
        visit(e.arg(2), conjunction(condition, negation(e.arg(0))));
      } else {
        for (Expr a : e.args()) visit(a, condition);
      }
    };
    for (const CascadeOutput& o : outputs) visit(o.value, truth());
    for (const Work& w : work_)
      visit(is_true(w.r.present) ? w.r.body : select(w.r.present, w.r.body, 0), truth());
    return out;
  }

  /// Where `subterm` was written: the smallest place whose value it is; else, first inside of the reduction, the smallest with the same operator
  /// over the same values (what a presence condition decided is folded in the subterm) or that holds it once multiplied out; else the reduction.
  Span span_of(Expr subterm, const Reduction& r) const {
    const auto smallest = [&](bool inside, const auto& fits) {
      Span best;
      for (auto& [value, span] : written_) {
        if (value.op() == Op::Symbol || (inside && (span.begin < r.span.begin || r.span.end < span.end)))
          continue;
        if (best && best.end - best.begin <= span.end - span.begin) continue;
        if (fits(rescaled(simplify(value)))) best = span;
      }
      return best;
    };
    const auto values = [](Expr e) {
      std::vector<Sym> all = tensors_read(e);
      return std::set<Sym>(all.begin(), all.end());
    };
    const auto same = [&](Expr e) { return e == subterm; };
    const auto alike = [&](Expr e) { return e.op() == subterm.op() && values(e) == values(subterm); };
    const auto holds = [&](Expr e) {
      constexpr size_t small = 64;
      bool found = false;
      if (complexity(e) > small) return false;
      rewrite(expand(e), [&](Expr x) {
        found = found || x == subterm;
        return x;
      });
      return found;
    };
    if (Span s = smallest(false, same)) return s;
    if (Span s = smallest(true, alike)) return s;
    if (Span s = smallest(true, holds)) return s;
    if (Span s = smallest(false, alike)) return s;
    return r.span;
  }

  Expr size() const {
    const Axis& a = program_.axis(axis_);
    return a.baked() ? a.size : Expr(axis_.size());
  }

  const Program& program_;
  Sym axis_;
  Signs signs_;
  std::vector<Work> work_;
  std::map<Sym, Named> scale_;
  std::vector<std::pair<Expr, Span>> written_;
  std::vector<std::pair<Sym, Refusal>> refusals_;
  std::vector<Note> notes_;
  std::vector<std::string> names_;
  bool moved_ = false;
};

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
  const Program sample = with_moderate_numbers(too_long ? with_free_size(elaborated, axis) : elaborated);
  bool same = !too_long;
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
