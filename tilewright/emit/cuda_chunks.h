// Inside of the CUDA emitter: kernels in front that find the chunks a mask leaves.
#pragma once
#include <string>

#include "tilewright/emit/cuda_prelude.h"
#include "tilewright/map/mapped.h"

namespace tilewright::cuda_text {

/// The step as CUDA source: the rule of tile/chunk_table.h, a block of threads for each row of the table. Its warps share the chunks; what does not change from
/// chunk to chunk stands in front of the loop. An array is read over boxes of up to 2^15 elements; over larger ones it may hold anything.
std::string chunk_step(const Program& p, const MappedProgram& m, const ChunkStep& s, Helpers& helpers);

}  // namespace tilewright::cuda_text
