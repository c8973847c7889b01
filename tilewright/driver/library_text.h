// Inside of driver/ only: what every ahead-of-time library holds, and C as its host part is written in.
#pragma once
#include "tilewright/emit/c_expr.h"

namespace tilewright {

/// The C type of an element in the library's header; low-precision floats are their bits.
const char* c_type(DType t);
/// Scalars on the host: double and int64_t, with the functions of library_helpers.
CDialect host_dialect();
/// Helper functions, array checks and workspaces of the host part.
extern const char* const library_helpers;

}  // namespace tilewright
