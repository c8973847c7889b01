// An ahead-of-time library: the kernels of every plan and layout class of a program behind one C function that chooses among them as a Kernel does.
// It needs neither Tilewright nor a compiler when it runs.
#pragma once
#include <string>

#include "tilewright/driver/kernel.h"

namespace tilewright {

struct LibrarySource {
  std::string source;  ///< one C++ file, the header's text included
  std::string header;  ///< C and C++: the argument struct, the function, its statuses
  std::string flags;   ///< of the compiler (CpuModule::load adds its own)
};

/// `prefix` begins every exported name and must be an identifier of C (UserError otherwise). Compiles for the CPU of this machine (this_cpu) whatever
/// o.target says. UserError by name where the host part would need what it does not have: params and scalars rounded to 16 bits or fewer.
LibrarySource library_source(const Program& p, const CompileOptions& o, const std::string& prefix);

}  // namespace tilewright
