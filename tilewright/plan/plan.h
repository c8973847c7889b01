// A plan: which axes are cut, streamed, kept whole or resident, and how. A plan's text is its schedule with every default filled in
// (docs/schedule.md):
//
//   group b=1, h=1, i=128/64; stream j=128; keep Q; stages 2; roles 1+2; guard speculative
//
//   group a=N[/M]   the axis is cut into blocks of N (level 1: one block or task) and pieces of M (level 2: one computing group of threads)
//   stream a=N      the axis crosses in chunks of N
//   resident a=N    the axis is held on chip whole, read once; valid for sizes up to N
//   split a=N       parts of N elements are streamed separately and merged (N a multiple of the chunk)
//   keep T          the tile of T that does not depend on the stream is loaded once
//   stages N        ring slots for streamed operands
//   roles L+C       L loading and C computing groups (warpgroups on a GPU; 0+1 on a CPU)
//   guard always|moved|threshold|speculative
//   grid blocks|persistent [, a/N]   a block for each element of the grid, or as many as run at once, which take elements in turn; N blocks of axis a share
//                                    what they read (sections)
//   bounds host|device|tested   where a mask reads arrays: chunks to visit found before the kernel runs, on the host or by a kernel in front; or every chunk tested
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "tilewright/derive/state.h"
#include "tilewright/hardware/machine.h"
#include "tilewright/plan/sections.h"
#include "tilewright/program/sizes.h"

namespace tilewright {

struct Cut {
  Sym axis;
  int64_t block = 1;  ///< elements of one block (level 1)
  int64_t piece = 0;  ///< elements of one piece (level 2); 0: same as block
  bool operator==(const Cut&) const = default;
};

enum class Guard : uint8_t { Always, Moved, Threshold, Speculative };
const char* name(Guard g);

/// How chunks are chosen where a mask reads arrays; None: no mask does.
enum class BoundsBy : uint8_t { None, Host, Device, Tested };
const char* name(BoundsBy b);

/// How a GPU runs the grid: a block for each element, or as many blocks as run at once, each of which takes elements in turn. None: blocks, unsaid.
enum class GridBy : uint8_t { None, Blocks, Persistent };
const char* name(GridBy g);

struct Plan {
  std::vector<Cut> group;  ///< grid axes, outermost first
  Sym stream;              ///< streamed axis
  int64_t chunk = 0;
  bool resident = false;   ///< `stream` is held whole (chunk is the capacity)
  int64_t split = 0;       ///< part length, 0: no split
  std::vector<Sym> whole;  ///< axes neither cut nor streamed; their sizes are literal
  std::vector<Sym> keep;   ///< inputs kept across the stream
  int stages = 1;
  int loaders = 0, computers = 1;
  /// On a GPU single warps take the products and copy: there is no loading group. The machine and the dtypes of the program decide it, so no schedule says it.
  bool by_warps = false;
  Guard guard = Guard::Always;
  BoundsBy bounds = BoundsBy::None;
  GridBy grid = GridBy::None;
  /// Blocks of this axis are taken `section` at a time: all blocks of the axes behind it meet one section before the next begins (null: they are not).
  Sym section_axis;
  int64_t section = 0;
  bool section_megabytes =
      false;  ///< as many blocks as read so much along the stream, by the sizes of a call
  /// May products go to units for 16-bit operands, which a loading group or the warps themselves feed?
  bool feeds_units() const { return loaders > 0 || by_warps; }
  bool operator==(const Plan&) const = default;
};

enum class Target : uint8_t { Interp, InterpMapped, Cpu, Cuda };
const char* name(Target t);

/// A condition on run-time sizes under which a plan is used: size(axis) <= limit for each; empty: always.
struct SizeClass {
  std::vector<std::pair<Sym, int64_t>> at_most;
  bool admits(const Sizes& sizes) const;
  bool operator==(const SizeClass&) const = default;
};

struct GuardedPlan {
  SizeClass when;
  Plan plan;
  bool operator==(const GuardedPlan&) const = default;
};

/// Schedule text -> plan; what is not said is filled in from `defaults`. UserError with a caret in the text: unknown axis (nearest named), an axis that
/// is not a group axis of the program, stream over an axis without a state, split not a multiple of chunk, a clause given twice, …  `name` is what messages
/// call the text: a file's name where it comes from one.
Plan parse_schedule(const Program& p, const Derivation& d, const std::string& text, const Plan& defaults,
                    const std::string& name = "<schedule>");
/// The same of a range of a schedule: what belongs to one plan of one kernel.
Plan parse_schedule(const Program& p, const Derivation& d, const ScheduleRange& clauses,
                    const Plan& defaults);
/// The place of a clause of a schedule (`stream` stands for `resident` too); of one that is not written that of the schedule.
using ClauseSpans = std::function<Span(const std::string& clause)>;
/// All plans of one kernel (sections.h, split_cases), each filled in from `defaults`. A plan that holds an axis resident admits no more of it
/// than it holds. UserError: a condition on what is no axis. `check`: what else is asked of a plan, beside check_plan().
std::vector<GuardedPlan> parse_plans(const Program& p, const Derivation& d, const ScheduleRange& clauses,
                                     const Plan& defaults,
                                     const std::function<void(const Plan&, const ClauseSpans&)>& check = {});
/// Does a condition under which an element takes part compare integers of an array, or read its booleans?
bool masks_read_arrays(const Derivation& d);

/// The full schedule text; parse_schedule(print) gives the same plan.
std::string print(const Program& p, const Plan& plan);
/// The plans of a kernel, a line each: `when j <= 1024: …`, then `otherwise: …`; of one plan for all sizes its text alone.
std::string print(const Program& p, const std::vector<GuardedPlan>& plans);

/// Stated defaults (docs/schedule.md) for a target, at most eight, the last without a guard. `dtype` of the widest input decides tile sizes on a GPU.
/// `gpu`: the GPU that they are for, whatever the target.
std::vector<GuardedPlan> default_plans(const Program& p, const Derivation& d, Target target,
                                       const Machine& gpu = sm90());

/// Structure: every free axis of the outputs is grouped or whole, whole axes are literal, the streamed axis has a state … UserError otherwise.
/// `where`: the place of the clause at fault, where the plan was written.
void check_plan(const Program& p, const Derivation& d, const Plan& plan, const ClauseSpans& where = {});

}  // namespace tilewright
