#include "tilewright/program/params.h"

#include <fmt/format.h>

#include <cmath>

#include "tilewright/support/error.h"

namespace tilewright {

double param_value(const Param& param, double given) {
  // A double at 2^53 may be one that was rounded to it.
  if (!is_float(param.dtype) && std::isfinite(given) && std::fabs(given) >= 0x1p53)
    throw UserError(param.span,
                    fmt::format("param `{}` is given {:.0f}, and integers are exact below 2^53 alone",
                                param.sym.name(), given),
                    "subtract an offset, or declare the param f64 where rounding is accepted");
  const double value = round_to(param.dtype, given);
  if (!is_float(param.dtype) && value != given)
    throw UserError(
        param.span,
        fmt::format("param `{}` is {}, which does not hold {}", param.sym.name(), name(param.dtype), given),
        param.dtype == DType::boolean ? "give 0 or 1" : "give an integer, or declare the param f32");
  return value;
}

}  // namespace tilewright
