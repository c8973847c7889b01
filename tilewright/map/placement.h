// Whether threads hold what they compute with: the layouts of a mapped program compared, nothing run.
//
// An op is computed by threads that each cover part of its range: what the digits of their number select along every axis. So all register buffers
// of an op must give its axes the same digits of the thread number, and two axes of one op must not use the same digits. Products of matrix units
// accept the layouts of interpreter_atoms.cc only. The interpreter finds the same in ops that it executes; here all are looked at.
#pragma once
#include <string>
#include <vector>

#include "tilewright/map/mapped.h"

namespace tilewright {

/// What threads would need and do not hold, one text for each op at fault: "role compute, `o = …`: …". Empty for a program whose every op is
/// placed as docs/mapped.md asks.
std::vector<std::string> misplaced(const MappedProgram& m);
std::vector<std::string> misplaced(const MappedKernel& k);

}  // namespace tilewright
