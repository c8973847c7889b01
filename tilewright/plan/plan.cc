#include "tilewright/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "tilewright/expr/simplify.h"
#include "tilewright/plan/axes.h"
#include "tilewright/support/advice.h"

namespace tilewright {

const char* name(Guard g) {
  switch (g) {
    case Guard::Always: return "always";
    case Guard::Moved: return "moved";
    case Guard::Threshold: return "threshold";
    case Guard::Speculative: return "speculative";
  }
  return "";
}

const char* name(GridBy g) {
  switch (g) {
    case GridBy::None: return "none";
    case GridBy::Blocks: return "blocks";
    case GridBy::Persistent: return "persistent";
  }
  return "";
}

const char* name(BoundsBy b) {
  switch (b) {
    case BoundsBy::None: return "none";
    case BoundsBy::Host: return "host";
    case BoundsBy::Device: return "device";
    case BoundsBy::Tested: return "tested";
  }
  return "";
}

namespace {

/// Is there a condition on integer or boolean elements of arrays, which an interval of each bounds?
bool reads_arrays(Expr condition) {
  if (!condition) return false;
  if (condition.is(Op::And) || condition.is(Op::Or) || condition.is(Op::Not))
    return std::any_of(condition.args().begin(), condition.args().end(), reads_arrays);
  if (condition.is(Op::Read)) return true;
  if (tensors_read(condition).empty() || !is_boolean(condition)) return false;
  return std::all_of(condition.args().begin(), condition.args().end(),
                     [](Expr a) { return a.number() || (is_integer(a) && !a.is(Op::Reduce)); });
}

}  // namespace

bool masks_read_arrays(const Derivation& d) {
  for (const Pass& pass : d.passes) {
    for (const Point& x : pass.state.points)
      if (reads_arrays(x.present)) return true;
    for (const Component& c : pass.state.components)
      if (reads_arrays(c.present)) return true;
  }
  return false;
}

const char* name(Target t) {
  switch (t) {
    case Target::Interp: return "interp";
    case Target::InterpMapped: return "interp-mapped";
    case Target::Cpu: return "cpu";
    case Target::Cuda: return "cuda";
  }
  return "";
}

bool SizeClass::admits(const Sizes& sizes) const {
  return std::all_of(at_most.begin(), at_most.end(), [&](const auto& limit) {
    auto it = sizes.find(limit.first.size());
    return it != sizes.end() && it->second <= limit.second;
  });
}

std::string print(const Program&, const Plan& plan) {
  std::string text;
  auto clause = [&](const std::string& s) { text += (text.empty() ? "" : "; ") + s; };
  if (!plan.group.empty()) {
    std::string group;
    for (const Cut& c : plan.group) {
      group += fmt::format("{}{}={}", group.empty() ? "" : ", ", c.axis.name(), c.block);
      if (c.piece != 0 && c.piece != c.block) group += fmt::format("/{}", c.piece);
    }
    clause("group " + group);
  }
  clause(fmt::format("{} {}={}", plan.resident ? "resident" : "stream", plan.stream.name(), plan.chunk));
  if (plan.split > 0) clause(fmt::format("split {}={}", plan.stream.name(), plan.split));
  if (!plan.keep.empty()) {
    std::string keep;
    for (Sym s : plan.keep) keep += (keep.empty() ? "" : ", ") + s.name();
    clause("keep " + keep);
  }
  clause(fmt::format("stages {}", plan.stages));
  clause(fmt::format("roles {}+{}", plan.loaders, plan.computers));
  clause(fmt::format("guard {}", name(plan.guard)));
  if (plan.bounds != BoundsBy::None) clause(fmt::format("bounds {}", name(plan.bounds)));
  if (plan.grid != GridBy::None)
    clause(fmt::format("grid {}{}", name(plan.grid),
                       plan.section_axis ? fmt::format(", {}/{}{}", plan.section_axis.name(), plan.section,
                                                       plan.section_megabytes ? " MB" : "")
                                         : ""));
  return text;
}

std::string print(const Program& p, const std::vector<GuardedPlan>& plans) {
  if (plans.size() == 1 && plans[0].when.at_most.empty()) return print(p, plans[0].plan);
  std::string text;
  for (const GuardedPlan& g : plans) {
    std::string limits;
    for (const auto& [axis, most] : g.when.at_most)
      limits += fmt::format("{} {} <= {}", limits.empty() ? "when" : ",", axis.name(), most);
    text += fmt::format("{}{}: {}", text.empty() ? "" : "\n", limits.empty() ? "otherwise" : limits,
                        print(p, g.plan));
  }
  return text;
}

void check_plan(const Program& p, const Derivation& d, const Plan& plan, const ClauseSpans& where) {
  auto fail = [&](const std::string& clause, const std::string& what, const std::string& hint) {
    throw UserError(where ? where(clause) : Span{}, what, hint);
  };
  if (plan.stream != d.cascade.axis)
    fail("stream",
         fmt::format("the plan streams over `{}`, but the state was derived over `{}`", plan.stream.name(),
                     d.cascade.axis.name()),
         fmt::format("write `stream {}=…`", d.cascade.axis.name()));
  if (plan.chunk < 1)
    fail("stream", "a chunk holds at least one element",
         fmt::format("write `stream {}=64`", plan.stream.name()));
  const AxisRoles roles = axis_roles(p, d);
  std::vector<Sym> seen;
  for (const Cut& c : plan.group) {
    if (contains(seen, c.axis))
      fail("group", fmt::format("axis `{}` is grouped twice", c.axis.name()),
           "name each axis once behind `group`");
    seen.push_back(c.axis);
    if (!contains(roles.free, c.axis))
      fail("group", fmt::format("axis `{}` cannot be grouped: it is not an axis of a result", c.axis.name()),
           "group axes that an output has and that are not streamed");
    if (contains(rank_axes(d), c.axis))
      fail("group",
           fmt::format("axis `{}` cannot be grouped: a sorted list runs along it, which is kept whole",
                       c.axis.name()),
           fmt::format("drop `{}` from `group`", c.axis.name()));
    if (c.block < 1)
      fail("group", fmt::format("a block of `{}` holds at least one element", c.axis.name()),
           "use a positive block size");
    if (c.piece > 0 && c.block % c.piece != 0)
      fail("group",
           fmt::format("pieces of {} do not divide blocks of {} on axis `{}`", c.piece, c.block,
                       c.axis.name()),
           "choose a divisor");
  }
  auto whole = [&](Sym axis, const char* why) {
    if (contains(seen, axis)) return;
    const Axis& a = p.axis(axis);
    if (a.baked()) return;
    std::string hint = hint_of_literal(a);
    if (a.joined.empty())
      hint += fmt::format(", pass `{}` for a declared literal", advice::literal_size(a.name(), "N"));
    if (contains(roles.free, axis)) hint += fmt::format(", or group it: `group {}=64`", a.name());
    throw UserError(
        a.span,
        fmt::format("{} {} and has no literal size, so a tile cannot hold it whole", described(a), why),
        hint);
  };
  for (Sym a : roles.free) whole(a, "is neither grouped nor streamed");
  for (Sym a : roles.inner) whole(a, "is summed inside a chunk");
  if (plan.split > 0) {
    if (plan.resident)
      fail("split", "a resident axis is held whole, so it cannot be split",
           "drop `split` or write `stream` for `resident`");
    if (plan.split % plan.chunk != 0)
      fail("split",
           fmt::format("parts of {} elements are not a multiple of chunks of {}", plan.split, plan.chunk),
           "choose a multiple");
    for (const CascadeOutput& o : d.cascade.outputs)
      if (o.along_stream)
        throw UserError(p.outputs[o.output].span,
                        fmt::format("output `{}` runs along the split axis `{}`: parts do not know the "
                                    "merged state when they store it",
                                    p.outputs[o.output].sym.name(), plan.stream.name()),
                        "drop `split`");
    if (d.passes.size() > 1)
      fail("split",
           fmt::format("the program needs {} passes over `{}`; only one pass can be split", d.passes.size(),
                       plan.stream.name()),
           "drop `split`");
  }
  if (plan.stages < 1 || plan.stages > 8)
    fail("stages", fmt::format("stages {}: a ring has 1 to 8 slots", plan.stages),
         "write a number from 1 to 8");
  if (plan.loaders < 0 || plan.loaders > 1 || plan.computers < 1 || plan.computers > 4)
    fail("roles",
         fmt::format("roles {}+{}: a block has {}", plan.loaders, plan.computers,
                     plan.loaders > 1     ? "at most one loading group"
                     : plan.computers < 1 ? "at least one computing group"
                                          : "at most 4 computing groups"),
         "use 0 or 1 loading and 1 to 4 computing groups");
  if (plan.bounds != BoundsBy::None && !masks_read_arrays(d))
    fail(
        "bounds",
        "`bounds` chooses how masks that read arrays are treated, and no mask of this program reads integers "
        "or booleans of one",
        "drop `bounds`");
  if (plan.bounds != BoundsBy::None && plan.resident)
    fail("bounds", "a resident axis has one chunk, which is always visited",
         "drop `bounds` or write `stream` for `resident`");
  if (plan.grid == GridBy::Persistent && plan.loaders == 0)
    fail("grid",
         "grid persistent: without a loading group nothing is read ahead for the next element of the grid",
         "write `grid blocks`; on sm_90a, and there alone, `roles 1+2` is another way");
  if (plan.section_axis) {
    if (!contains(seen, plan.section_axis))
      fail("grid",
           fmt::format("`{}` is not grouped, so it has no blocks to take in sections",
                       plan.section_axis.name()),
           "name an axis of `group`");
    if (seen.back() == plan.section_axis)
      fail("grid",
           fmt::format("`{}` is the last axis of the grid: no blocks of another axis could share a section",
                       plan.section_axis.name()),
           "name an axis before it, or drop the section");
    if (plan.section < 1) fail("grid", "a section holds at least one block", "use a positive number");
  }
  if (plan.guard != Guard::Always) {
    for (const Pass& pass : d.passes)
      for (const Point& point : pass.state.points) {
        if (point.kind == Point::Kind::Mean) continue;  // shifted generators always move
        if (!point.may_lag)
          fail("guard",
               fmt::format("guard {}: the point `{}` may not lag, its repair is not a bounded scale",
                           name(plan.guard), point.var.name()),
               "use `guard always`");
        if (plan.guard == Guard::Speculative && !point.speculative)
          fail("guard",
               fmt::format("guard speculative: the running value of `{}` appears in a result",
                           point.var.name()),
               "use `guard threshold`");
      }
  }
}

}  // namespace tilewright
