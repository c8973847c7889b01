// Values of params that are given.
#pragma once
#include "tilewright/program/program.h"

namespace tilewright {

/// The value of a param that is given, rounded to its dtype. UserError where an integer or a boolean does not hold it.
double param_value(const Param& param, double given);

}  // namespace tilewright
