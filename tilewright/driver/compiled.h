// Program -> kernels: one where the program fits one, else the parts of a partition (plan/partition.h), each compiled
// as a program of its own.
#pragma once
#include <optional>

#include "tilewright/driver/kernel.h"
#include "tilewright/plan/workspaces.h"

namespace tilewright {

struct CompiledProgram {
  Program program;  ///< as parsed
  /// In the order in which they run. That of a program of one kernel holds the program itself; else each holds a part.
  std::vector<Compilation> kernels;
  Partition partition;  ///< without parts where the program is one kernel
  std::optional<Compilation>
      whole;  ///< as one kernel, where that is accepted and several cost less; not proved, since it is not run
  WorkspacePlan workspaces;
  bool recalled = false;         ///< kernels that this build made and proved before (CompileOptions::recall)
  std::vector<PassTime> before;  ///< passes over the whole program
  bool parted() const { return !partition.parts.empty(); }
  bool several() const { return kernels.size() > 1; }
  /// "q", "u, v": what a kernel is called in schedules and headings.
  std::string name_of(size_t kernel) const;
  std::vector<PassTime> times() const;  ///< of all passes
};

/// Elaborates, cuts into kernels, derives and plans. A program that is accepted as one kernel is one; docs/schedule.md
/// says what else is cut where. UserError: what a kernel is refused for, schedules that name what there is not.
CompiledProgram compile_program(const Program& p, const CompileOptions& o);

/// The plan that sizes by axis name choose; without sizes the last one, which has no condition.
const Plan& plan_for(const Compilation& c, const std::map<std::string, int64_t>& sizes);

/// A line above what is printed of a kernel, `mark` first: "# kernel 1 of 6: q". Empty for a program of one kernel.
std::string heading(const CompiledProgram& c, size_t kernel, const char* mark);

/// Plans as `emit --stage plan` prints them. A program of several kernels: what is stored and fused, a heading for each
/// kernel, and its workspaces as comments; given back as a schedule it means the same plans.
std::string plan_text(const CompiledProgram& c);

/// The schedule with the plan chosen for each kernel.
std::string schedule_text(const CompiledProgram& c, const std::vector<const Plan*>& plans);

}  // namespace tilewright
