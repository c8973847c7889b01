// The identities behind a derivation as text for an SMT solver (SMT-LIB 2.6), so that anyone can prove them again.
#pragma once
#include <string>
#include <vector>

#include "tilewright/derive/state.h"

namespace tilewright {

/// One pass of a derivation: the file's text, and the names of its checks in the order in which they are asked. A check echoes its name and
/// asks whether the negation of an identity can be satisfied: `unsat` proves the identity for all real values.
///
/// Everything that holds no point is a real variable. An exponential is known by instances of its laws alone: exp(a + b) = exp a · exp b,
/// exp(−a) · exp(a) = 1, exp(a) > 0, and of what is ranked a < b ⟹ exp(a) < exp(b), at the terms that occur. A function of which nothing is known stands for itself. The value inf of a choice
/// (argmax) is a number above all others that it is compared with.
struct SmtFile {
  std::string text;
  std::vector<std::string> checks;
};

std::vector<SmtFile> to_smt(const Program& p, const Derivation& d);

/// The identities of one state with the merge `how`; `heading` becomes a comment.
SmtFile to_smt(const State& s, Sym axis, const std::string& heading, const Merging& how = merge);

}  // namespace tilewright
