// Arrays for tests: bytes with a dtype and a shape, filled with zeros or seeded random numbers.
#pragma once
#include <random>

#include "tilewright/reference/reference.h"
#include "tilewright/tile/interpreter.h"

namespace tilewright::testing {

struct TestArray {
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  std::vector<char> storage;

  TestArray() = default;
  TestArray(DType type, std::vector<int64_t> dims) : dtype(type), shape(std::move(dims)) {
    storage.resize(size_t(elements() * bytes(dtype)) +
                   8);  // never empty: data() is a pointer also for no elements
  }
  int64_t elements() const {
    int64_t n = 1;
    for (int64_t s : shape) n *= s;
    return n;
  }
  double at(int64_t i) const { return load_element(dtype, storage.data(), i); }
  void set(int64_t i, double x) { store_element(dtype, storage.data(), i, x); }
  ArrayView view() const { return {dtype, storage.data(), shape, {}}; }
  MutableArray target() { return {dtype, storage.data(), shape, {}}; }
};

/// Normal numbers, rounded to the dtype.
inline TestArray random_array(DType dtype, std::vector<int64_t> shape, unsigned seed, double mean = 0,
                              double deviation = 1) {
  TestArray a(dtype, std::move(shape));
  std::mt19937 gen(seed);
  std::normal_distribution<double> normal(mean, deviation);
  for (int64_t i = 0; i < a.elements(); ++i) a.set(i, normal(gen));
  return a;
}

/// Sizes of the program's axes in the order of declaration.
inline Sizes sizes_in_order(const Program& p, const std::vector<int64_t>& values) {
  Sizes sizes;
  for (size_t i = 0; i < p.axes.size(); ++i) sizes[p.axes[i].index.size()] = values.at(i);
  return sizes;
}

}  // namespace tilewright::testing
