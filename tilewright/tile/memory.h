// Inside the interpreter: arrays as the program addresses them, by one index for each piece axis.
#pragma once
#include <map>
#include <memory>

#include "tilewright/tile/interpreter.h"

namespace tilewright::interpreter {

/// An input, an output or a workspace.
struct Array {
  Sym sym;
  DType dtype = DType::f32;
  void* data = nullptr;          ///< inputs are never written
  std::vector<Sym> axes;         ///< piece axes
  std::vector<int64_t> sizes;    ///< of the piece axes
  std::vector<int64_t> strides;  ///< elements
  Span span;
  std::shared_ptr<std::vector<double>> storage;  ///< of a workspace
};

/// Params by name -> value, rounded to their dtypes, defaults filled in. UserError: unknown, missing, out of
/// the declared range.
std::map<Sym, double> bind_params(const Program& p, const Sizes& sizes,
                                  const std::map<std::string, double>& given);

/// What loads read and what stores write. An output may be an input, by another layout; workspaces (zeroed)
/// stand on both sides.
struct Arrays {
  std::map<Sym, Array> read, write;
};

/// The inputs among them.
std::map<Sym, Array> bind_inputs(const Program& p, const Sizes& sizes,
                                 const std::map<std::string, ArrayView>& inputs);
/// The arrays of a run. `sizes` holds the sizes of the tile program's own axes too. UserError: an array is
/// missing, or has another dtype or shape than the program says.
Arrays bind_arrays(const Program& p, const TileProgram& t, const Sizes& sizes,
                   const std::map<std::string, ArrayView>& inputs,
                   const std::map<std::string, MutableArray>& outputs);

}  // namespace tilewright::interpreter
