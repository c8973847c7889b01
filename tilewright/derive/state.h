// From a program to a streaming state (docs/derivation.md; the normal form and its numbering follow that page).
//
// A Cascade is the program seen from one streamed axis x: a list of reductions over x, each of which may read the results of earlier ones, and the
// outputs written in terms of their results. A State carries the cascade through the axis in chunks: points ρ (running reference values), components
//     t_a = ⊕_x φ_a(c, ρ)
// and five functions: point, lift, repair, combine, finish.
//
// Values that are not inputs are read like tensors: Read(var, indices) with var of kind Tile and the index symbols of its axes.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tilewright/derive/list.h"
#include "tilewright/program/program.h"

namespace tilewright {

/// One reduction over the streamed axis. `body` reads inputs, rounded definitions and earlier results.
struct Reduction {
  Sym result;                      ///< kind Tile; read as Read(result, axes)
  Reducer reducer = Reducer::Sum;  ///< Sum Max Min Prod Any All Topk Argtopk
  Sym rank;  ///< Topk, Argtopk: the axis of the result along which ranks run, of literal size; else null
  std::vector<Sym> axes;  ///< free axes of the result (never the streamed axis), the rank axis among them
  Expr body;              ///< simplified, inside the presence condition
  Expr present;           ///< boolean; true constant when every element takes part
  int pass = 1;           ///< 1-based: the earliest pass over x in which it can be computed
  Span span;              ///< where it was written
};

/// An output as an expression over results (and, when it has the streamed axis, over values along x: such an output is stored in `pass`).
struct CascadeOutput {
  size_t output = 0;  ///< index into program.outputs
  Expr value;
  bool along_stream = false;
  int pass = 1;  ///< the pass in which it is stored; for outputs not along x, the last pass they need
};

struct Cascade {
  Sym axis;                           ///< streamed index symbol
  std::vector<Reduction> reductions;  ///< in dependence order
  std::vector<CascadeOutput> outputs;
};

/// The reference value a family of components is held at.
struct Point {
  enum class Kind {
    Maximum,  ///< ρ' = max(ρ, max over the chunk of u); identity −inf
    Minimum,  ///< ρ' = min(ρ, min over the chunk of u); identity +inf
    Mean,     ///< ρ' = ρ + Σ_seen (u − ρ) / n over everything seen, chunk included; identity 0
  };
  Sym var, next;  ///< ρ and ρ', kind Tile
  std::vector<Sym> axes;
  Kind kind = Kind::Maximum;
  Expr
      u;  ///< the varying quantity, over C; of a mean also over the axes that its `sum` adds up inside, see Component::lift
  Expr scale = 1;  ///< exponentials are exp(scale·(u − ρ)); derive() leaves 1, see tile/unscale.h
  Expr present;    ///< condition under which u takes part
  int sum = -1, weight = -1;  ///< Mean: components Σ(u − ρ) and n = Σ 1
  bool exponential =
      false;  ///< some component is exp(u − ρ)·…: a lift with ρ = −inf uses 0 (guarded exponentials)
  bool may_lag = false;      ///< the guard policies moved, threshold are legal (a bounded scale repairs)
  bool speculative = false;  ///< legal too: the running value appears in no finish
};

/// A term H_ab ⊗ t_b of a repair row: factor over Read(point.var), Read(point.next), index symbols, sizes.
struct RepairTerm {
  int component = 0;
  Expr factor;
};

/// One value, or one side of a sorted list of pairs (list.h). The list has an axis more than its elements, `rank`: a pair for each of its literal
/// size. Two components hold it, the keys (combine Topk) and the indices (combine Argtopk), each `beside` the other; to combine is to merge.
struct Component {
  Sym var;  ///< kind Tile
  std::vector<Sym> axes;
  Reducer combine = Reducer::Sum;
  /// φ_a at one element, over C and Read(point.var, …); valid where `present`. In a sum over other axes too, it is their sum: Reduce(Sum, axes, φ_a).
  Expr lift;
  Expr present;
  Sym rank;         ///< of a list; else null
  int beside = -1;  ///< of a list
  /// Keys of a list: what the program ranks, a strictly increasing function of `key`, over symbols for results where those are positive;
  /// null: the key itself.
  Expr ranked;
  Sym key;
  std::vector<RepairTerm> repair;  ///< row a of H(ρ, ρ'); {self, 1} alone when ρ does not matter
  std::string meaning;             ///< for readers: "Σ exp(S − ρ)·V"
  bool listed() const { return beside >= 0; }
};

/// The longest list that a state holds: one of more ranks is found by counting (program/elaborate.h).
constexpr int64_t most_ranks = 256;

/// One identity that was checked, and by what.
struct Check {
  std::string
      what;  ///< "closure of o", "composition H(ρ',ρ'')H(ρ,ρ') = H(ρ,ρ'')", "merge equals the whole (random)"
  std::string by;  ///< "expressions", "random values", "z3"
  bool passed = false;
  std::string detail;
};

/// The state of one pass.
struct State {
  std::vector<Point> points;
  std::vector<Component> components;
  std::vector<Check> checks;
};

/// Why a reduction could not join an earlier pass.
struct Refusal {
  size_t reduction = 0;
  Expr subterm;  ///< the mixing subterm
  Span span;
  std::string reason;
};

struct Pass {
  std::vector<size_t> reductions;  ///< indices into cascade.reductions
  State state;
  std::vector<size_t> stored;  ///< outputs along x stored in this pass (indices into cascade.outputs)
};

struct Derivation {
  Cascade cascade;
  std::vector<Pass> passes;
  /// For each reduction: its final value over Read(component.var), Read(point.var) of its own pass and Read(result) of earlier reductions.
  std::vector<Expr> finish;
  /// For each reduction: the components of its family (indices into the state of its pass), the one that it is itself first; empty where a point
  /// carries its value.
  std::vector<std::vector<int>> family;
  std::vector<std::string> deferred;  ///< sentences: what was moved to finish, and why
  std::vector<Refusal> refusals;
};

/// The state of the elaborated program streamed over `axis` (an index symbol). Inner reductions over other axes stay inside expressions as Reduce nodes.
/// UserError (with the span of the statement) when the program is outside what the compiler carries, e.g. reductions that are not connected
/// through one axis.
Derivation derive(const Program& elaborated, Sym axis);
/// The same without State.checks: nothing has proved it yet.
Derivation derive_unproved(const Program& elaborated, Sym axis);
/// Fills State.checks of what derive_unproved(elaborated, d.cascade.axis) gave. InternalError where a check fails.
void prove(const Program& elaborated, Derivation& d);

/// Axes along which lists of the states run, each once.
std::vector<Sym> rank_axes(const Derivation& d);

/// Axes over which the program can be streamed, best first: longest chain of dependent reductions, then declaration order.
std::vector<Sym> stream_candidates(const Program& elaborated);

/// ρ* of two sides and the repaired, combined components, as expressions over Read(var) of two renamed copies of the state:
/// `left` and `right` map each point and component symbol to its copy. An empty side yields the other by selection.
struct Merge {
  std::vector<Expr> points;  ///< for each point: ρ*
  std::vector<Expr>
      components;  ///< for each component, over left, right and Read(point.next) standing for ρ*; null for a list: `lists` merges its pairs
  ListMerging lists = merge_lists;
};
Merge merge(const State& state, const std::vector<std::pair<Sym, Sym>>& left,
            const std::vector<std::pair<Sym, Sym>>& right);
/// `merge`, or what is to be checked in its place.
using Merging = std::function<Merge(const State&, const std::vector<std::pair<Sym, Sym>>&,
                                    const std::vector<std::pair<Sym, Sym>>&)>;

/// Text for people: for each reduction its definition, family, state, repair, merge, finish, what was deferred, what proved what.
std::string to_text(const Program& p, const Derivation& d);

}  // namespace tilewright
