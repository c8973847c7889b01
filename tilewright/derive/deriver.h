// Inside of derive/ only: how a program is derived from: the pass of each reduction, what must be introduced, and the states.
#pragma once
#include <map>
#include <optional>
#include <set>

#include "tilewright/derive/cascade.h"
#include "tilewright/derive/family.h"

namespace tilewright::derivation {

class Deriver {
 public:
  Deriver(const Program& p, Sym axis) : program_(p), axis_(axis) {}
  Derivation run();

 private:
  /// Results that are compared: not with infinities, nor by themselves with a number.
  static std::set<Sym> compared_results(const Cascade& cascade);
  int pass_of(Sym result) const;
  Expr rescaled(Expr e) const;
  /// exp(−m)·s of a sum s held without that factor: 0 where s is, also where nothing was present and m is −inf.
  Expr with_guarded_scales(Expr e) const;
  /// Is exp(e) infinite or NaN where nothing was present?
  bool unbounded_over_nothing(Expr e) const;
  const Work* work(Sym result) const;
  /// Rule 12: the earliest pass in which the reduction has a normal form.
  void place(Reduction r);
  void analyse(Reduction r, NormalForm& nf);
  /// Sums of positive values are positive where an element of `r` is present, if they take in all that `r` does.
  Signs where_present(const Reduction& r) const;
  /// min of a positive value where u is at its extremum: the index of a maximum.
  std::optional<Choice> choice(const Reduction& r, NormalForm& nf);
  /// A condition that says body == extremum of body, perhaps with alternatives: the extremum of what the body rises with, and the condition
  /// about that.
  std::pair<int, Expr> at_extremum(Expr condition, int pass, NormalForm& nf);
  /// Is it a · leaf + b with a > 0?
  bool rises(const Peeled& p) const;
  /// The extremum of u itself, from which nothing is peeled: an earlier work, or a new one.
  int plain_extremum(Reducer reducer, Expr u, Expr present, int pass, Span span);
  /// Rule 10: the maximum at which the exponential of `t` is held. What is left of the exponent of R goes to the coefficient.
  int anchor(Term& t, const Reduction& r, NormalForm& nf);
  /// An earlier maximum of the same pass whose body is the exponent up to a positive factor and an addend.
  std::pair<int, Expr> known_maximum(const Term& t, int pass) const;
  /// u = v − max v with the maximum of an earlier pass: at most 0 already.
  bool below_a_known_maximum(Expr u, int pass) const;
  /// An exponential of R that all terms share: the reduction is held without it.
  Expr common_scale(Work& w, NormalForm& nf);
  bool holds_results(Expr e) const;
  void rebuild(Work& w);
  /// Conditions u != −inf, of u = −v the conditions v != inf, that the normal form dropped, since an exponential is 0 there anyway.
  void widen_presence(Work& w);
  /// Does `p` name all conditions of `q`?
  static bool implies(Expr p, Expr q);
  static std::vector<Expr> conditions_of(Expr p);
  /// The result of an earlier work that is the same reduction.
  std::optional<Expr> equal_work(const Reduction& r) const;
  /// Reductions that no output needs any more.
  void drop_unread(const std::vector<CascadeOutput>& outputs);
  /// For each place where `result` is read: the conditions of the choices around it.
  std::vector<Expr> contexts(Sym result, const std::vector<CascadeOutput>& outputs) const;
  /// Where `subterm` was written: the smallest place whose value it is; else, first inside of the reduction, the smallest with the same operator
  /// over the same values (what a presence condition decided is folded in the subterm) or that holds it once multiplied out; else the reduction.
  Span span_of(Expr subterm, const Reduction& r) const;
  Expr size() const;
  const Program& program_;
  Sym axis_;
  Signs signs_;
  std::vector<Work> work_;
  std::map<Sym, Named> scale_;
  std::vector<std::pair<Expr, Span>> written_;
  std::vector<std::pair<Sym, Refusal>> refusals_;
  std::vector<Note> notes_;
  std::vector<std::string> names_;
  std::set<Sym> compared_;
  bool moved_ = false;
};

}  // namespace tilewright::derivation
