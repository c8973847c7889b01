// Program -> Kernel: the pass table, the dispatch table and running.
#pragma once
#include <functional>
#include <map>
#include <memory>

#include "tilewright/derive/state.h"
#include "tilewright/map/mapped.h"
#include "tilewright/plan/partition.h"
#include "tilewright/reference/reference.h"
#include "tilewright/tile/interpreter.h"

namespace tilewright {

/// One pass of the compiler, listed once; printed and timed (`emit --timings`).
struct PassTime {
  std::string name;
  double milliseconds = 0;
};

/// Everything on the way from text to plans for one kernel; for `derive`, `emit`, tests.
struct Compilation {
  Program program;  ///< as parsed; a part of a larger program: elaborated
  Program elaborated;
  Derivation derivation;
  std::vector<GuardedPlan> plans;
  Span schedule;  ///< the clauses that chose the plans; no position: defaults
  std::vector<TileProgram>
      tiles;                    ///< of each plan, where they were built to see whether the kernel is accepted
  std::vector<Choice> choices;  ///< between plans: a stream that takes several passes may be held instead
  std::vector<PassTime> times;
  Machine gpu = sm90();  ///< that kernels for GPUs are planned and mapped for
};

struct CompileOptions {
  Target target = Target::Cpu;
  std::string schedule;                      ///< empty: defaults
  std::string schedule_name = "<schedule>";  ///< what messages call its text
  int threads = 0;
  int device = 0;
  std::string arch;  ///< of the GPU that kernels are made for (gpu_machine); empty: as arch_of() finds
  Target mapping = Target::Cuda;  ///< InterpMapped: whose mapping runs (Cuda or Cpu)
  Sym stream;                     ///< streamed axis; null: the first candidate
  bool simpler =
      false;  ///< default plans that the mapping to a GPU refuses are made simpler until it accepts them (compile_program)
  bool host_steps = true;  ///< of kernels for a CPU: may the host look at arrays before a launch?
  /// Kernels are there to run: what this build made and proved before of the same program is taken from the cache, without the choices that
  /// led to it, built tiles and State.checks.
  bool recall = false;
};

/// The machine whose plans a target uses by default: the interpreters run a GPU's plans unless told otherwise.
Target plan_target(const CompileOptions& o);
/// The architecture that kernels for GPUs are made for: the option, else TILEWRIGHT_GPU_ARCH, else that of the device for Target::Cuda where there is one, else sm_90a.
std::string arch_of(const CompileOptions& o);
/// The elaborated program that a target gets: a GPU has no op for sorted lists yet, so its ranks are counted.
Program elaborate_for(const Program& p, const CompileOptions& o);
/// The derivation of what a target streams, not proved yet. For a GPU a program without rows gets one of one element first (plan/unit_row.h).
Derivation derive_for(Program& elaborated, Sym stream, const CompileOptions& o);
/// Parse is done; elaborate, derive and plan as one kernel. What is derived is not proved yet.
Compilation analyse(const Program& p, const CompileOptions& o);
/// The same of an elaborated part of a program, streamed over `stream`. `clauses`: its section of a schedule, or null. `brief`: with the default plan for
/// nominal sizes (driver/price.h) alone.
Compilation analyse_part(const Program& part, Sym stream, const CompileOptions& o,
                         const ScheduleRange* clauses, bool brief = false);
/// Proves the derivation of what is kept: Derivation of every kernel that compile_program() returns has its State.checks.
/// InternalError where a check fails.
void prove(Compilation& c);
/// The axes that a program can be streamed over, best first: those it reduces over, else the last of its first output.
std::vector<Sym> streams_of(const Program& elaborated);
/// Builds the tiles of every plan and maps them where the target is mapped. UserError where that is refused. `shrink`: plans that
/// do not fit a task of a CPU, or the shared memory of a GPU, are cut until they do. With CompileOptions::simpler a refused plan for some sizes is left to the
/// plans behind it, and the last one is made simpler.
void check_lowering(Compilation& c, const CompileOptions& o, bool shrink);
/// One plan on through tiles, mapping and source. Each is a pass.
TileProgram lower(const Compilation& c, const Plan& plan, std::vector<PassTime>* times = nullptr);
/// `target` is Cpu or Cuda.
MappedProgram lower_mapped(const Compilation& c, const TileProgram& t, Target target, LayoutClass layout,
                           std::vector<PassTime>* times = nullptr);
std::string lower_source(const Compilation& c, const MappedProgram& m,
                         std::vector<PassTime>* times = nullptr);

/// An array on the host or on a device, described as DLPack would.
struct Tensor {
  DType dtype = DType::f32;
  void* data = nullptr;
  std::vector<int64_t> shape, strides;  ///< strides in elements; empty: row-major
};

struct CompiledProgram;

/// A dispatch table for each kernel of a program: guards on size class and layout class lead to a plan compiled once on first use. Sizes, strides and params are
/// run-time arguments; no size compiles anything within a class. Kernels run one after another; arrays between them lie in one workspace that is kept from run to run. Thread safe;
/// on a GPU the runs of one Kernel share its workspaces, so they go to one stream.
class Kernel {
 public:
  Kernel(const Program& p, const CompileOptions& o);
  ~Kernel();
  const CompiledProgram& compiled() const;
  /// Runs on host arrays (Cpu, Interp, InterpMapped) or device arrays (Cuda, on `stream`, without synchronising). Every input and output by name. Output arrays have the
  /// memory shape of the output. UserError on any mismatch (both shapes named).
  void run(const std::map<std::string, Tensor>& inputs, const std::map<std::string, double>& params,
           const std::map<std::string, Tensor>& outputs, const std::map<std::string, int64_t>& sizes = {},
           void* stream = nullptr);
  /// On a GPU: the last run once more, with its arrays, sizes and params, for callers that know them to be the same; a few microseconds of host time. False, and nothing is
  /// launched, on other targets and where the last run failed or there was none. UserError as report_failures().
  bool repeat(void* stream);
  /// Counts of the last run on Target::Interp, summed over the kernels (peaks: the largest).
  Counts counts() const;
  /// On a GPU: UserError where a launch that has ended found an index outside of its array; the next run of the kernel looks too. Nothing waits for the device.
  void report_failures();
  /// The plan and layout class the last run used, as text; of several kernels a line for each.
  std::string last_plan() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tilewright
