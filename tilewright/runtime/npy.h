// NumPy's .npy files (format versions 1 and 2).
#pragma once
#include <string>

#include "tilewright/runtime/host_array.h"

namespace tilewright {

/// Reads <f8 <f4 <f2 <i8 <i4 |i1 |b1, and <u2 (bits of bf16) or |u1 (bits of an f8 type) where `dtype` is one; the result has dtype `dtype`: floats are
/// rounded to it, equal types are kept bit for bit. C and Fortran order (through strides). UserError naming the file: not a .npy, truncated, unsupported dtype, object arrays,
/// real values for an integer input.
HostArray read_npy(const std::string& path, DType dtype);
/// Writes row-major. Low-precision floats as <f4, or as raw bits (<f2, <u2, |u1) with `raw`. The file appears whole or not at all.
void write_npy(const std::string& path, const HostArray& array, bool raw = false);

}  // namespace tilewright
