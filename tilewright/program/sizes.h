// Size binding: from array shapes and `--size` to a value for every axis.
#pragma once
#include <map>

#include "tilewright/program/program.h"

namespace tilewright {

/// Size symbol -> length, for every axis of the program.
using Sizes = std::map<Sym, int64_t>;

/// `shapes`: input name -> memory shape (composite dimensions as one number). `given`: axis name -> length.
/// Later information must agree with earlier. Errors (UserError): rank or shape disagreement (both shapes
/// named), an axis nothing fixes (asks for --size), composite dimension not divisible, unknown axis or input
/// name (nearest suggested), negative sizes, products over 2^62.
Sizes bind_sizes(const Program& p, const std::map<std::string, std::vector<int64_t>>& shapes,
                 const std::map<std::string, int64_t>& given);

/// "(3, 4)", "(3,)": a shape as NumPy prints it.
std::string shape_text(const std::vector<int64_t>& shape);

/// Memory shape of dims under sizes.
std::vector<int64_t> shape_of(const std::vector<Dim>& dims, const Sizes& sizes);

}  // namespace tilewright
