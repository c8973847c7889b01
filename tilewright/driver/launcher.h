// One kernel of a program: dispatch by size and layout class, machine code on first use, launch.
#pragma once
#include <memory>
#include <optional>

#include "tilewright/driver/kernel.h"
#include "tilewright/driver/launch.h"
#include "tilewright/runtime/compile.h"

namespace tilewright {

/// Kernels on a GPU have no way yet to report an integer divided by an element that is 0: that is left to the other targets, which do. UserError at such a division where `target` is
/// Cuda.
void refuse_checked_divisions(const Compilation& c, const TileProgram& t, Target target);

/// Not thread safe: Kernel runs one launcher at a time. Borrows the compilation and the options.
class Launcher {
 public:
  Launcher(Compilation& c, const CompileOptions& o);
  ~Launcher();
  Launcher(Launcher&&) noexcept;
  /// `bound` holds the sizes of the kernel's axes and every input and output, by symbol; `params` those of its program, by name.
  void run(Bound& bound, const std::map<std::string, double>& params, void* stream);
  /// On a GPU, after a run that succeeded: launches on `stream` what that run launched.
  void repeat(void* stream);
  /// What has to be compiled before `bound` can run on a CPU, if anything has: kernels of one program are compiled side by side.
  std::optional<CpuSource> missing(const Bound& bound);
  /// On a GPU: UserError where a kernel that has ended found an index outside of its array. The next run looks too; nothing waits for the device.
  void report_failures();
  const Counts& counts() const;          ///< of the last run on Target::Interp
  const std::string& last_plan() const;  ///< plan and layout class of the last run

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tilewright
