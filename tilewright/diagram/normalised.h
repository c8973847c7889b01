// Softmaxes that a program writes out.
#pragma once
#include <map>
#include <set>

#include "tilewright/program/program.h"

namespace tilewright {

/// A definition that is exp(x − max x) over its own sum, with x = `value`.
struct Normalised {
  std::vector<Sym> axes;
  Expr value;
  std::string where;  ///< names of the definitions that write it out
};

/// Definitions that are softmaxes, whatever they are called: a quotient of an exponential and its sum, where the exponent
/// is a value less its maximum over the axis of the sum, up to guards against empty rows and the base of the exponential.
/// `hidden` receives the definitions of their parts that nothing else reads.
std::map<Sym, Normalised> normalised_definitions(const Program& p, std::set<Sym>& hidden);

}  // namespace tilewright
