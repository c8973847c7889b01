#include <fmt/format.h>

#include "tilewright/emit/cuda_chunks.h"
#include "tilewright/emit/cuda_kernel.h"
#include "tilewright/emit/emit.h"
#include "tilewright/map/placement.h"
#include "tilewright/support/error.h"

namespace tilewright {

std::string emit_cuda(const Program& elaborated, const MappedProgram& m) {
  if (const std::vector<std::string> faults = misplaced(m); !faults.empty())
    TW_CHECK(false, "a misplaced program is printed: " + faults[0]);
  cuda_text::Helpers helpers;
  std::string kernels;
  for (const ChunkStep& s : m.chunk_steps) kernels += "\n" + cuda_text::chunk_step(elaborated, m, s, helpers);
  for (const MappedKernel& k : m.kernels) {
    cuda_text::CudaKernel kernel(elaborated, m, k, helpers);
    kernels += "\n" + kernel.text();
  }
  helpers.use_from(kernels);
  std::string out = fmt::format(
      "// {}: CUDA for {}, generated from its definition. Compiles with NVRTC or nvcc; includes "
      "nothing.\n",
      m.name, m.machine.arch);
  out += "#pragma nv_diag_suppress 177, 550\n";
  out += "struct __align__(64) TensorMap { unsigned long long words[16]; };\n\n";
  return out + helpers.text() + kernels;
}

}  // namespace tilewright
