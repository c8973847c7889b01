// Mapped programs written by hand, for tests of the interpreter and of what prints them.
#pragma once
#include <functional>

#include "tests/support/test_array.h"
#include "tilewright/map/interpreter.h"

namespace tilewright::testing {

struct MappedSample {
  Program program;
  MappedProgram mapped;
  Sizes sizes;
  std::map<std::string, TestArray> inputs;
  std::string output;  ///< name
  DType output_dtype = DType::f16;
  std::vector<int64_t> output_shape;
  std::vector<double> expected;  ///< of the output, row-major
  double tolerance = 0;          ///< absolute

  /// Interprets and returns the largest difference from `expected` (infinite when something was not written).
  double run(const Adversary& adversary = {}, int threads = 1) const;
  MappedKernel& kernel() { return mapped.kernels[0]; }
  Role& role(const std::string& name);
};

/// O[i,e] = Σ_j f16(¼ Σ_d Q[i,d]·K[j,d] where j <= i + 40, else 0)·V[j,e] on sm_90a, d = e = 64: a loading role, two computing
/// groups of 64 rows each, rings of two slots for K and V with channels of their own, the second product one iteration behind the first
/// and issued together with it, and an epilogue through the bytes of Q and a bulk store.
MappedSample pipeline_sample(int64_t rows = 150, int64_t columns = 200);

/// The same definition for d = e = 8 with all data in plain layouts and one role of 64 threads: copies by all threads into one slot of Local,
/// products by FMA instructions, row sums exchanged between lanes. y[i] = Σ_j of the same.
MappedSample plain_sample(int64_t rows = 40, int64_t columns = 25);

/// Sums of rows by a task of one thread, with clipped extents and views.
MappedSample task_sample(int64_t rows = 10, int64_t columns = 21);

/// Calls `visit` for each op of `ops` and its bodies, in order; where it returns false the op is removed.
void edit(Ops& ops, const std::function<bool(MappedOp&)>& visit);
/// Removes ops of type T number `which` (of those that `matches` accepts) and returns whether there was one.
template <class T>
bool remove_op(Ops& ops, int which = 0, const std::function<bool(const T&)>& matches = {}) {
  int seen = 0;
  bool found = false;
  edit(ops, [&](MappedOp& op) {
    auto* x = std::get_if<T>(&op.node);
    if (!x || (matches && !matches(*x)) || seen++ != which) return true;
    found = true;
    return false;
  });
  return found;
}
/// Op number `which` of type T (of those that `matches` accepts); null when there is none.
template <class T>
T* find_op(Ops& ops, int which = 0, const std::function<bool(const T&)>& matches = {}) {
  int seen = 0;
  T* found = nullptr;
  edit(ops, [&](MappedOp& op) {
    auto* x = std::get_if<T>(&op.node);
    if (x && (!matches || matches(*x)) && seen++ == which) found = x;
    return true;
  });
  return found;
}

}  // namespace tilewright::testing
