#include "tilewright/program/params.h"

#include <fmt/format.h>

#include "tilewright/support/error.h"

namespace tilewright {

double param_value(const Param& param, double given) {
  const double value = round_to(param.dtype, given);
  if (!is_float(param.dtype) && value != given)
    throw UserError(
        param.span,
        fmt::format("param `{}` is {}, which does not hold {}", param.sym.name(), name(param.dtype), given),
        param.dtype == DType::boolean ? "give 0 or 1" : "give an integer, or declare the param f32");
  return value;
}

}  // namespace tilewright
