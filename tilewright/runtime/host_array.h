// Arrays on the host that own their memory, and seeded values for them.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tilewright/reference/reference.h"

namespace tilewright {

/// A host array; copies share the memory. Data are aligned to 64 bytes. Strides in elements; empty: row-major.
struct HostArray {
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  std::shared_ptr<void> data;
  int64_t elements() const;
  ArrayView view() const { return {dtype, data.get(), shape, strides}; }
  double at(int64_t index) const { return load_element(dtype, data.get(), index); }  ///< row-major arrays
};

/// Row-major, filled with zeros. UserError "size overflows" past 2^62 bytes, std::bad_alloc when memory is short.
HostArray allocate(DType dtype, std::vector<int64_t> shape);

/// How a random or constant input is made; values depend on seed, name and element number alone.
enum class Fill : uint8_t { Normal, Uniform, Zeros };
/// Normal: mean 0, deviation 1. Uniform: [0, 1). Integer arrays with Normal or Uniform take `lo`, `hi` (half open) and are uniform in it.
HostArray filled(DType dtype, std::vector<int64_t> shape, Fill fill, uint64_t seed, const std::string& name,
                 int64_t lo = 0, int64_t hi = 1);
/// Reals uniform in [lo, hi), or where one bound is infinite as far from the other as normal numbers from 0. UserError where the dtype has no value
/// in it.
HostArray filled_within(DType dtype, std::vector<int64_t> shape, uint64_t seed, const std::string& name,
                        double lo, double hi);

}  // namespace tilewright
