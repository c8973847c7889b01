// The outer form of a schedule for several kernels (docs/schedule.md):
//
//   store q, hidden          definitions that are stored
//   fuse S                   definitions that are not
//   kernel q: stream c=64    the clauses of the kernel that stores `q`, up to the next heading
//
// A schedule without any of these is the schedule of a program of one kernel. The clauses of a kernel are one plan, or several of which the
// first that admits the sizes runs:
//
//   when j <= 1024: resident j=1024
//   otherwise: stream j=4096
#pragma once
#include <string>
#include <vector>

#include "tilewright/support/error.h"

namespace tilewright {

/// Clauses of one kernel: a range of the schedule's text.
struct ScheduleRange {
  SourceRef source;
  size_t begin = 0, end = 0;
};

struct ScheduleSections {
  struct Name {
    std::string text;
    Span span;
  };
  struct Kernel {
    std::vector<Name> names;
    Span heading;
    ScheduleRange clauses;
  };
  std::vector<Name> store, fuse;
  ScheduleRange plain;  ///< clauses under no heading
  bool has_plain = false;
  std::vector<Kernel> kernels;
  bool sectioned() const { return !store.empty() || !fuse.empty() || !kernels.empty(); }
};

/// One plan among the clauses of a kernel.
struct ScheduleCase {
  struct Limit {
    ScheduleSections::Name axis;
    int64_t most = 0;
  };
  std::vector<Limit> limits;  ///< size(axis) <= most for each; empty: always
  ScheduleRange clauses;
};

/// The plans that clauses hold: one where nothing says `when`. UserError: a condition that is none, clauses before the first `when`,
/// anything behind `otherwise`, more than eight plans.
std::vector<ScheduleCase> split_cases(const ScheduleRange& clauses);

/// UserError: a heading without a name or `:`, a name given twice, `store` or `fuse` under a heading or behind other
/// clauses. `name` is what messages call the text.
ScheduleSections split_schedule(const std::string& text, const std::string& name);

}  // namespace tilewright
