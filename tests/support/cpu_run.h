// Compiles and runs a program that was mapped for a CPU.
#pragma once
#include "tilewright/map/mapped.h"
#include "tilewright/tile/interpreter.h"

namespace tilewright::testing {

/// Emits C++, compiles it with the flags of the mapped machine, and runs all kernels in order.
void run_cpu(const Program& elaborated, const MappedProgram& m, const Sizes& sizes,
             const std::map<std::string, ArrayView>& inputs, const std::map<std::string, double>& params,
             const std::map<std::string, MutableArray>& outputs);

/// The machine of this processor narrowed to "avx2" or "portable"; the name of one it does not have gives the widest below.
Machine cpu_machine(const std::string& isa);

}  // namespace tilewright::testing
