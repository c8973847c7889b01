// Inside of derive/ only: reductions that are not sums. Everything of R is moved out of the reduction until only C is left (rule 9).
#pragma once
#include "tilewright/derive/normal_form.h"

namespace tilewright::derivation {

/// A reduction over C alone, to be carried as a component: its value is Read(sym, axes).
struct Leaf {
  Sym sym;
  std::vector<Sym> axes;
  Reducer reducer = Reducer::Max;
  Expr c, present;
  Sym rank = {};  ///< Topk, Argtopk: the axis of ranks; `c` is what is ordered
};

struct Peeled {
  Expr value;  ///< over Read(leaf.sym, leaf.axes) and R
  std::vector<Leaf> leaves;
  Expr ranked = {};  ///< see Component
  Sym key = {};
  bool plain() const { return leaves.size() == 1 && value.is(Op::Read) && value->sym == leaves[0].sym; }
};

/// What is left of a value of C: without the nondecreasing functions around it, so that more leaves are shared, or whole.
enum class Inside { Functions, Whole };

/// max, min, prod, any, all of `body` where `present` over an axis of `size`; `axes_of` gives the axes of a leaf. Throws Mixing.
Peeled peel(Reducer r, Expr body, Expr present, NormalForm& nf, const Signs& signs, Expr size,
            const std::function<std::vector<Sym>(const Leaf&)>& axes_of, Inside inside = Inside::Functions);

/// An element of the sorted list of `body` where `present`, or its index, as a function of one leaf: the list of what varies, of which `body` must be a strictly
/// increasing function over the reals. `whole`: the axis has at least as many present elements as there are ranks. `positive` also knows
/// what is positive where anything is present. Throws Mixing.
Peeled peel_ranked(Reducer r, Sym rank, Expr body, Expr present, bool whole, NormalForm& nf,
                   const Signs& positive, Sym axis,
                   const std::function<std::vector<Sym>(const Leaf&)>& axes_of);

}  // namespace tilewright::derivation
