// Element types: names, sizes, rounding and raw conversion.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace tilewright {

enum class DType : uint8_t { f64, f32, f16, bf16, f8e4m3, f8e5m2, i64, i32, i8, boolean };

const char* name(DType t);  ///< "f16", …, "bool"
std::optional<DType> parse_dtype(const std::string& s);
int bytes(DType t);  ///< size of one element in memory
bool is_float(DType t);
bool is_integer(DType t);    ///< i64, i32, i8
int mantissa_bits(DType t);  ///< explicit bits: 52, 23, 10, 7, 3, 2; 0 for others
double max_finite(DType t);  ///< largest finite value (65504 for f16); 0 for others

/// `x` rounded to `t` (half to even; f16, bf16, f8e5m2 overflow to infinity, f8e4m3 saturates at ±448; a cast to an integer
/// truncates toward zero and saturates; bool is x != 0).
double round_to(DType t, double x);

/// The least value of `t` that is not below `lo`; infinity where `t` has no finite one.
double least_from(DType t, double lo);
/// The greatest value of `t` that is below `hi`; minus infinity where `t` has no finite one.
double greatest_below(DType t, double hi);

double load_element(DType t, const void* array,
                    int64_t index);  ///< element `index` (in elements) as a double
void store_element(DType t, void* array, int64_t index, double x);  ///< rounds, then stores

}  // namespace tilewright
