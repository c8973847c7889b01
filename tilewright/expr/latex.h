// Expressions in LaTeX's mathematics (amsmath).
#pragma once
#include <string>

#include "tilewright/expr/expr.h"

namespace tilewright {

/// `o / l` as \frac{o}{l}, `exp(S - m)` as e^{S - m}, `sum[d](Q * K)` as \sum_{d} Q\,K, `where(c, x, y)` as cases.
std::string to_latex(Expr e);

/// A name: one letter or a Greek letter's name in italics, other words upright; what follows `_` as an index; `'` and `*` at
/// the end above: `s_2` as s_{2}, `s2` as \mathit{s2}, `rho'` as \rho', `m_a_1` as m_{a, 1}. Unlike names look unlike.
std::string latex_name(const std::string& name);

}  // namespace tilewright
