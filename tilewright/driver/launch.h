// Binding of a mapped program to arrays: the argument words, grid sizes, tensor maps and the choice by layout.
#pragma once
#include <map>

#include "tilewright/driver/kernel.h"

namespace tilewright {

/// Everything a launch knows about its arrays, by symbol.
struct Bound {
  Sizes sizes;                    ///< with the axes of parts
  std::map<Sym, Tensor> tensors;  ///< inputs, outputs, workspaces; strides filled in
  std::map<Sym, double> scalars;  ///< host scalars and params
  int64_t* error = nullptr;       ///< where kernels report a failed check (map/checks.h)
};

/// Row-major strides of a shape, in elements.
std::vector<int64_t> row_major(const std::vector<int64_t>& shape);

/// Lengths of the axes that the tile program adds (parts), from those of the program.
void bind_added_axes(const std::vector<Axis>& axes, Sizes& sizes);

/// Values of host scalars and params. `params` by name; a param without value or default is a UserError; a value outside its range too.
std::map<Sym, double> bind_scalars(const Program& p, const std::vector<HostScalar>& scalars,
                                   const Sizes& sizes, const std::map<std::string, double>& params);

/// True when the arrays satisfy every layout guard.
bool admits(const std::vector<LayoutGuard>& guards, const Bound& b);

/// Blocks of the grid.
int64_t blocks_of(const MappedKernel& k, const Sizes& sizes);

/// Throws what an error word says, if it says anything: UserError at the read, with the index, the axis and its size.
void throw_failed_check(int64_t error_word, const Program& p, const MappedProgram& m, const Sizes& sizes);

/// Rows of the table that a step fills: one at least along every axis.
int64_t rows_of(const ChunkTable& table, const Sizes& sizes);

/// The 8-byte words of a kernel's arguments.
std::vector<int64_t> words_of(const std::vector<Argument>& arguments, const Bound& b);

}  // namespace tilewright
