// Prints source from a mapped program; decides nothing.
//
// C++ (CPU): no header is included; vector types of the compiler; one exported function for each kernel,
//   extern "C" void <kernel>(const long long* words, long long begin, long long end)
// which runs tasks [begin, end) of the grid. `words` are the kernel's arguments in order, 8 bytes each (pointers, strides in elements, sizes, f64 scalars).
//
// CUDA: no header is included; one __global__ function for each kernel,
//   extern "C" __global__ void <kernel>(const __grid_constant__ TensorMap map0, …, const __grid_constant__ Words words)
// one block for each grid element, tensor maps in the order of MappedKernel::tensor_maps, then the words by value.
//
// Both carry the derivation and tile names as comments; the text depends on nothing but the mapped program.
#pragma once
#include <string>

#include "tilewright/map/mapped.h"

namespace tilewright {

/// The function that a kernel is emitted as: its own name, unless C, C++, CUDA, the C library or the emitted text use that.
std::string kernel_symbol(const MappedKernel& k);
/// The function that a step in front of the kernels is emitted as.
std::string step_symbol(const ChunkStep& s);

std::string emit_cpp(const Program& elaborated, const MappedProgram& m);
std::string emit_cuda(const Program& elaborated, const MappedProgram& m);

}  // namespace tilewright
