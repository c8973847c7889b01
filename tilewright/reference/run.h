// Inside the reference evaluator: tables with storage, and the interpreter of their code.
#pragma once
#include <memory>

#include "tilewright/reference/graph.h"

namespace tilewright::reference {

class Engine {
 public:
  virtual ~Engine() = default;
  /// Element of a table at an index over its axes. UserError when it cannot be computed (an index out of bounds, a division by zero).
  virtual double element(int table, const std::vector<int64_t>& index) = 0;
  /// All elements; the one at index i goes to out[Σ i_k·strides_k].
  virtual void all(int table, const std::vector<int64_t>& strides, double* out) = 0;
};

/// Real arithmetic in double (f64) or float (naive). `arrays`: one for each of program.inputs, strides filled in.
std::unique_ptr<Engine> make_engine(Graph& graph, std::vector<ArrayView> arrays, Precision precision);

}  // namespace tilewright::reference
