#include <fmt/format.h>

#include "tilewright/emit/cpp_kernel.h"
#include "tilewright/emit/cpp_prelude.h"
#include "tilewright/emit/emit.h"
#include "tilewright/emit/identifiers.h"
#include "tilewright/support/error.h"

namespace tilewright {

std::string step_symbol(const ChunkStep& s) { return c_function(s.name); }

std::string kernel_symbol(const MappedKernel& k) {
  const std::string name = c_function(k.name);
  const bool used = cpp_prelude_names().count(name) || name.rfind("tw_", 0) == 0 || name == "TensorMap";
  return used ? "k_" + name : name;
}

std::string emit_cpp(const Program& elaborated, const MappedProgram& m) {
  TW_CHECK(m.target == Target::Cpu, "C++ is emitted from programs mapped for a CPU");
  DType real = DType::f32;
  for (const MappedKernel& k : m.kernels)
    for (const Buffer& b : k.buffers)
      if (b.dtype == DType::f64) real = DType::f64;
  std::string kernels;
  for (const MappedKernel& k : m.kernels) kernels += "\n" + CppKernel(elaborated, m, k, real).str();
  std::string text = fmt::format("// {}: made by Tilewright for {}.\n", m.name, m.machine.name);
  for (const MappedKernel& k : m.kernels) {
    text += fmt::format("// {}: words are", k.name);
    for (size_t w = 0; w < k.arguments.size(); ++w)
      text += fmt::format("{} {}", w ? "," : "", k.arguments[w].sym.name());
    text += "\n";
  }
  return text + cpp_prelude(kernels, m.machine.vector, real) + kernels;
}

}  // namespace tilewright
