// Inside of derive/ only: how the state of one pass is found (rules 10 and 11): its points, its components with their repairs, and the finishes.
#pragma once
#include <map>
#include <set>

#include "tilewright/derive/family.h"

namespace tilewright::derivation {

using Powers = std::map<int, int>;  ///< point -> power

/// What a component adds up: two with the same key are one.
struct FamilyKey {
  Reducer reducer = Reducer::Sum;
  Expr c, present;
  Powers powers;
  int exponential = -1;
  int chooser = -1;             ///< the extremum that chooses
  Expr condition;               ///< over Read(ρ)
  Sym rank = {};                ///< of a list: Topk its keys, Argtopk its indices
  std::vector<Sym> inner = {};  ///< axes beside the streamed one that c and the differences are summed over
  friend bool operator==(const FamilyKey&, const FamilyKey&) = default;
};

class FamilyBuilder {
 public:
  FamilyBuilder(const Program& p, Sym axis, const std::vector<Work>& all, const std::vector<size_t>& works,
                const std::function<std::vector<Expr>(Sym)>& contexts, std::vector<std::string>& names)
      : program_(p), axis_(axis), all_(all), works_(works), contexts_(contexts), names_(names) {}
  PassState run();

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
  int point(Point::Kind kind, Expr u, Expr present, const std::string& wish,
            const std::vector<Sym>& inner = {});
  const Leaf& leaf_of(size_t work) const { return all_[work].peeled.leaves[0]; }
  /// The point of a plain maximum or minimum, named after it.
  int point_of_extremum(size_t work, Expr u);
  void exponential_points();
  bool reads(Expr e, Sym result) const;
  /// Sums that mu is made of, also through the results that it reads.
  std::vector<size_t> feeders(Expr mu) const;
  void shift_points();
  /// An extremum that mu reads, of u where the term is present, serves as point; else the mean of u, where what feeds mu is present.
  int shift_point(const Shift& s, const Term& t);
  /// Those of the axes that `e` varies along.
  static std::vector<Sym> along(Expr e, const std::vector<Sym>& axes);
  /// `c` without the factor u, where it has it.
  static std::optional<Expr> without_factor(Expr c, Expr u);
  /// The same of a sum over `inner` that is a factor of `c`: what is left inside of it times what is left of c.
  static std::optional<Expr> without_summed_factor(Expr c, Expr u, const std::vector<Sym>& inner);
  /// A sum that feeds a point is itself held shifted: a factor u of its terms becomes (u − rho) + rho.
  void hold_shifted();

  // ---- components ----
  Powers powers(const Term& t) const;
  FamilyKey key(size_t work, size_t term) const;
  FamilyKey chosen(size_t work) const;
  std::optional<int> find(const FamilyKey& key) const;
  int component(const FamilyKey& key, const std::string& wish);
  /// The components of `top` and of everything below it, made lowest first; `top` comes first in the list.
  std::vector<int> family(const FamilyKey& top, const std::string& wish);
  static FamilyKey of_leaf(const Leaf& l) { return {l.reducer, l.c, l.present, {}, -1, -1, {}, l.rank}; }
  /// The two components of a list that a result reads, that of `l` first.
  std::vector<int> list(const Leaf& l, const Peeled& from);
  void include(size_t work, const std::vector<int>& components);
  void release_name(const std::string& name) { std::erase(names_, name); }
  void components();
  /// exp(ρ − ρ'), 1 where both are the same also at −inf.
  Expr scale(int p) const { return select(equal(rho(p), next(p)), 1, exp(rho(p) - next(p))); }
  /// ρ − ρ'; a point that has seen nothing has nothing to move.
  Expr shift(int p) const;
  const State& state_const() const { return out_.state; }
  void repair(size_t a);

  // ---- finish ----
  Expr read_component(int k) const;
  /// The point that carries the value of a leaf, if one does.
  std::optional<Expr> served_leaf(const Leaf& l) const;
  /// Results of this pass replaced by their finish, through and through.
  Expr finished(Expr e);
  /// The coefficient as conditions and the rest: where(p, a, 0)·b = where(p, a·b, 0).
  static std::pair<Expr, Expr> guarded(Expr coefficient);
  /// ρ − mu in terms of components: the running value is ρ + Σ(u − ρ)/n, so ρ cancels and −Σ(u − ρ)/n is left.
  Expr difference(int p, Expr mu, Expr condition);
  Expr finish_term(size_t work, size_t index);
  /// [H(ρ, r) t]_1 with what was moved out, without regard to emptiness.
  Expr value(size_t k);
  /// Does `e` give `want` when nothing was present?
  bool gives(double want, Expr e, const Reduction& r);
  /// Does `e` read a point or a component, or the length of the streamed axis?
  bool holds_state(Expr e);
  /// Does `e` read a result of this pass?
  bool reads_results(Expr e);
  Expr finish(size_t k);
  int component_late(const FamilyKey& k);
  Expr size_of_axis() const { return size_of(axis_); }
  Expr size_of(Sym index) const;
  void note_deferred(size_t k);
  const Program& program_;
  Sym axis_;
  const std::vector<Work>& all_;
  const std::vector<size_t>& works_;
  const std::function<std::vector<Expr>(Sym)>& contexts_;
  std::vector<std::string>& names_;
  PassState out_;
  std::vector<std::vector<Sym>>
      inner_;  ///< of each point that is a mean: axes beside the streamed one that u is averaged over
  std::map<size_t, std::vector<Term>> terms_;
  std::map<std::pair<size_t, size_t>, int> exponential_;
  std::map<size_t, int> choosers_;                       // work -> point
  std::map<size_t, std::pair<int, Proportion>> served_;  // work -> the point that carries its value
  std::vector<FamilyKey> keys_;
  std::map<size_t, std::vector<int>> family_;
  std::map<size_t, Named> named_;
};

}  // namespace tilewright::derivation
