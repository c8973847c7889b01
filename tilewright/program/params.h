// Values of params, given or by default.
#pragma once
#include "tilewright/program/program.h"

namespace tilewright {

/// What a param is when this number is given for it, or is its default: rounded to its dtype. UserError where an integer or a boolean does not hold it, or
/// where the number may be one that f64 rounded, from 2^53 on.
double param_value(const Param& param, double given);

}  // namespace tilewright
