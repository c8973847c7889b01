// Inside of derive/ only: the program seen from one streamed axis.
#pragma once
#include "tilewright/derive/state.h"

namespace tilewright::derivation {

/// Reductions over the axis in dependence order and the outputs over their results; passes are not found yet (all 1). Equal reductions are one.
struct Seen {
  Cascade cascade;
  std::vector<std::pair<Expr, Span>>
      written;  ///< expressions over results, not simplified, and where they stand in the program
};

/// UserError: a reducer that is not carried, an axis that the program does not use.
Seen build_cascade(const Program& elaborated, Sym axis);

/// `reads` of tensors and tiles replaced by values at their indices: `value(sym)` gives the value over `axes`, or null to keep the read.
struct Named {
  std::vector<Sym> axes;
  Expr value;
};
Expr replace_reads(Expr e, const std::function<const Named*(Sym)>& value);

/// Index symbols of `e` other than the streamed axis, in the order of the program's axes.
std::vector<Sym> axes_of(const Program& p, Sym streamed, const std::vector<Expr>& parts);
/// Read(sym, axes)
Expr read_own(Sym sym, const std::vector<Sym>& axes);
/// Names that the program uses.
std::vector<std::string> names_of(const Program& p);
/// A name that is not in `taken`, from `wish`; it is added to `taken`.
std::string unique_name(std::string wish, std::vector<std::string>& taken);

}  // namespace tilewright::derivation
