// Source -> machine code, through a content-addressed cache.
//
// Cache: $TILEWRIGHT_CACHE_DIR, else $XDG_CACHE_HOME/tilewright, else ~/.cache/tilewright; off with TILEWRIGHT_DISABLE_CACHE=1 (then a temporary folder).
// Keys hash source, flags, compiler version and architecture (xxHash 128). Files are written to a temporary name and renamed; a corrupt entry (checksum beside it)
// is rebuilt; a read-only or full folder is reported once on standard error and the run goes on without it.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tilewright {

struct CompileStats {
  int64_t compiled = 0, hits = 0;
};
CompileStats compile_stats();  ///< since the process began; a test counts with it

/// The command that compiles C++ ($CXX, else c++) and the first line of its version. UserError when it cannot be run (what to install).
struct CpuCompiler {
  std::string command, version;
};
CpuCompiler cpu_compiler();

/// Emitted C++ -> the bytes of a shared object, through the cache. Errors as CpuModule::load.
std::vector<char> compile_cpu(const std::string& source, const std::string& flags);

/// Emitted C++ and the flags it is compiled with.
struct CpuSource {
  std::string text, flags;
};

/// A loaded shared object of emitted C++.
class CpuModule {
 public:
  /// Compiles with $CXX, else c++. UserError: no compiler (what to install), compilation failed (the compiler's message; a fault of ours is thrown as InternalError).
  static std::shared_ptr<CpuModule> load(const std::string& source, const std::string& flags);
  /// The same of several, compiled side by side. Throws the first fault in their order.
  static std::vector<std::shared_ptr<CpuModule>> load_all(const std::vector<CpuSource>& sources);
  using Entry = void (*)(const int64_t* words, int64_t begin, int64_t end);
  Entry entry(const std::string& kernel) const;
  ~CpuModule();

 private:
  CpuModule() = default;
  void* handle_ = nullptr;
};

/// NVRTC: source -> cubin (`--gpu-architecture=sm_90a -default-device`), cached. UserError when NVRTC is not found. `log` receives ptxas warnings when not null;
/// the warnings C7510, C7513 and C7514 (unsafe wgmma) are errors (InternalError).
std::vector<char> compile_cuda(const std::string& source, const std::string& arch,
                               std::string* log = nullptr);
/// Whether ptxas let products wait for one another since registers are too few (warnings C7511 and C7512 in the log of compile_cuda): right, but slow.
bool products_serialized(const std::string& log);

}  // namespace tilewright
