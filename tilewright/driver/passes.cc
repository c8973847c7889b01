// The passes in order: program → elaborated → derivation → plans → tiles → mapped → source. Each is a function declared in its folder's header.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "tilewright/driver/kernel.h"
#include "tilewright/emit/emit.h"
#include "tilewright/program/elaborate.h"
#include "tilewright/tile/statements.h"

namespace tilewright {

namespace {

template <class F>
auto timed(const char* name, std::vector<PassTime>* times, const F& f) {
  const auto begin = std::chrono::steady_clock::now();
  auto result = f();
  if (times != nullptr)
    times->push_back(
        {name, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count()});
  return result;
}

/// The machine whose plans a target uses by default: the interpreters run a GPU's plans unless told otherwise.
Target plan_target(const CompileOptions& o) {
  if (o.target == Target::InterpMapped) return o.mapping;
  if (o.target == Target::Interp) return Target::Cuda;
  return o.target;
}

/// Cuts the blocks of a default plan, the longest first, until its tiles fit the memory of a task on a CPU.
void fit_task(const Compilation& c, Plan& plan) {
  const int64_t room = this_cpu().shared_bytes;
  const auto needed = [&] {
    int64_t most = 0;
    const TileProgram t = build_tiles(c.elaborated, c.derivation, plan);
    for (const TileKernel& k : t.kernels) {
      int64_t held = 0;
      for (const Tile& tile : k.tiles)
        held += full_bytes(k, tile) / bytes(tile.dtype) * std::max<int64_t>(4, bytes(tile.dtype));
      most = std::max(most, held);
    }
    return most;
  };
  try {
    while (needed() > room) {
      Cut* longest = nullptr;
      for (Cut& cut : plan.group)
        if (cut.block > 1 && (longest == nullptr || cut.block >= longest->block)) longest = &cut;
      if (longest != nullptr) {
        longest->block = longest->piece = (longest->block + 1) / 2;
      } else if (!plan.resident && plan.chunk > 1) {
        plan.chunk = (plan.chunk + 1) / 2;
      } else {
        return;  // the mapping says what does not fit
      }
    }
  } catch (const UserError&) {
    // What keeps tiles from being built is reported when the plan is used.
  }
}

}  // namespace

Compilation analyse(const Program& p, const CompileOptions& o) {
  Compilation c;
  c.program = p;
  c.elaborated = timed("elaborate", &c.times, [&] { return elaborate(p); });
  Sym stream = o.stream;
  if (!stream) {
    const std::vector<Sym> candidates = stream_candidates(c.elaborated);
    if (candidates.empty()) {
      throw UserError(p.outputs.empty() ? Span{} : p.outputs[0].span,
                      "the program reduces over no axis, so there is nothing to stream",
                      "programs of element functions alone are not supported: write at least one reduction");
    }
    stream = candidates.front();
  }
  c.derivation = timed("derive", &c.times, [&] { return derive(c.elaborated, stream); });
  c.plans =
      timed("plan", &c.times, [&] { return default_plans(c.elaborated, c.derivation, plan_target(o)); });
  TW_CHECK(!c.plans.empty(), "no default plan");
  if (plan_target(o) == Target::Cpu && o.schedule.empty())
    for (GuardedPlan& g : c.plans) fit_task(c, g.plan);
  if (!o.schedule.empty()) {
    const Plan plan = timed("schedule", &c.times, [&] {
      return parse_schedule(c.elaborated, c.derivation, o.schedule, c.plans.back().plan, o.schedule_name);
    });
    c.plans = {GuardedPlan{{}, plan}};
    if (plan.resident) c.plans[0].when.at_most.emplace_back(plan.stream, plan.chunk);
  } else {
    for (const GuardedPlan& g : c.plans) check_plan(c.elaborated, c.derivation, g.plan);
  }
  return c;
}

TileProgram lower(const Compilation& c, const Plan& plan, std::vector<PassTime>* times) {
  return timed("tiles", times, [&] { return build_tiles(c.elaborated, c.derivation, plan); });
}

MappedProgram lower_mapped(const Compilation& c, const TileProgram& t, Target target, LayoutClass layout,
                           std::vector<PassTime>* times) {
  return timed("map", times, [&] {
    return target == Target::Cuda ? map_sm90(c.elaborated, t, sm90(), layout)
                                  : map_cpu(c.elaborated, t, this_cpu(), layout);
  });
}

std::string lower_source(const Compilation& c, const MappedProgram& m, std::vector<PassTime>* times) {
  return timed("emit", times, [&] {
    return m.target == Target::Cuda ? emit_cuda(c.elaborated, m) : emit_cpp(c.elaborated, m);
  });
}

}  // namespace tilewright
