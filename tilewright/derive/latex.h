// The derivation as LaTeX, for a paper: what `tilewright derive --latex` prints for one streamed axis.
#pragma once
#include <string>

#include "tilewright/derive/state.h"

namespace tilewright {

/// Paragraphs with amsmath's align*: every point, then for each reduction its definition, state, repair, merge and finish, then the outputs. Needs
/// \usepackage{amsmath} and nothing else.
std::string to_latex(const Program& p, const Derivation& d);

}  // namespace tilewright
