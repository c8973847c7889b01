// Clauses of a schedule for several kernels (plan/sections.h) beside the definitions and kernels of a program.
#pragma once
#include <string>
#include <vector>

#include "tilewright/plan/partition.h"
#include "tilewright/plan/sections.h"

namespace tilewright {

std::vector<std::string> names_of(const std::vector<Sym>& symbols);
/// The names of the symbols, in whatever order?
bool same_names(const std::vector<ScheduleSections::Name>& written, const std::vector<Sym>& symbols);

/// What `store` and `fuse` name. UserError: what is no definition, or holds no reduction; a name in both.
Forced forced_by(const Program& elaborated, const ScheduleSections& sections);

/// What the clauses `store` and `fuse` name of kernels that a schedule prints.
struct StoredAndFused {
  std::vector<Sym> stored, fused;
};
StoredAndFused stored_and_fused(const Program& p, const Partition& partition);
/// The two clauses, a line each; empty where they name nothing.
std::string to_text(const StoredAndFused& named);

/// Are there comments and separators alone?
bool says_nothing(const ScheduleRange& r);
/// The text of a schedule with all but a range made blank, so that positions stay.
std::string blanked(const ScheduleRange& r);

}  // namespace tilewright
