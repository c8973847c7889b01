// The passes in order: program → elaborated → derivation → plans → tiles → mapped → source, and the proof of the derivation that is kept. Each is a function declared in its folder's header.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "tilewright/driver/price.h"
#include "tilewright/emit/emit.h"
#include "tilewright/map/cpu/nested.h"
#include "tilewright/plan/unit_row.h"
#include "tilewright/program/compared.h"
#include "tilewright/program/elaborate.h"
#include "tilewright/runtime/cuda.h"
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

/// Halves the longest block of a default plan, else its chunk; false where there is nothing left to halve.
bool halved(Plan& plan) {
  Cut* longest = nullptr;
  for (Cut& cut : plan.group)
    if (cut.block > 1 && (longest == nullptr || cut.block >= longest->block)) longest = &cut;
  if (longest != nullptr) {
    longest->block = longest->piece = (longest->block + 1) / 2;
  } else if (!plan.resident && plan.chunk > 1) {
    plan.chunk = (plan.chunk + 1) / 2;
  } else {
    return false;
  }
  return true;
}

/// Halves the chunk of a default plan of a GPU, whose tiles take too much shared memory or too many registers; false where that does not help.
bool shorter(Plan& plan) {
  constexpr int64_t shortest = 16;
  if (plan.resident || plan.chunk < 2 * shortest) return false;
  plan.chunk /= 2;
  return true;
}

/// Do tiles leave a thread of a GPU so few registers that it may keep some of them in memory?
bool crowds_registers(const MappedProgram& m) {
  constexpr int64_t beside = 16, file = 65536;  // addresses and signals at least; registers of a core
  return std::any_of(m.kernels.begin(), m.kernels.end(), [&](const MappedKernel& k) {
    const int64_t shared_out = k.roles.empty() ? 0 : k.roles.front().registers;
    const int64_t there =
        shared_out > 0 ? shared_out
                       : std::min<int64_t>(m.machine.registers_per_thread, file / std::max(1, k.threads()));
    return k.tile_registers > there - beside;
  });
}

/// What may stand in for a default plan of a GPU that is refused, best first: it, with one group of at most 64 rows, with blocks of one axis and single elements of
/// the others, with single elements alone, and those without matrix units.
std::vector<Plan> simpler(const Plan& refused) {
  std::vector<Plan> all{refused};
  Plan small = refused;
  small.computers = 1;
  small.stages = std::min(small.stages, 2);
  for (Cut& cut : small.group) cut.block = cut.piece = std::min<int64_t>(cut.block, 64);
  all.push_back(small);
  const auto blocked = [](const Cut& cut) { return cut.block > 1; };
  Plan single = small;
  for (Cut& cut : single.group) cut.block = cut.piece = 1;
  if (std::count_if(small.group.begin(), small.group.end(), blocked) > 1)
    for (size_t k = 0; k < small.group.size(); ++k)
      if (blocked(small.group[k])) all.push_back(single), all.back().group[k] = small.group[k];
  all.push_back(single);
  single.loaders = 0;
  single.by_warps = false;
  single.stages = 1;
  if (single.grid == GridBy::Persistent) single.grid = GridBy::Blocks;
  all.push_back(single);
  return all;
}

/// The first of simpler() that is accepted, in chunks as long as there is room for; false where none is. Plans whose tiles crowd the registers come last.
bool make_simpler(Compilation& c, size_t k) {
  std::optional<std::pair<Plan, TileProgram>> crowded;
  const auto take = [&](const Plan& plan, TileProgram tiles) {
    c.plans[k].plan = plan;
    c.tiles[k] = std::move(tiles);
    return true;
  };
  for (Plan plan : simpler(c.plans[k].plan)) {
    for (bool again = true; again;) {
      again = false;
      try {
        check_plan(c.elaborated, c.derivation, plan);
        TileProgram tiles = lower(c, plan, &c.times);
        lower_mapped(c, tiles, Target::Cuda, LayoutClass::General);
        if (!crowds_registers(lower_mapped(c, tiles, Target::Cuda, LayoutClass::Aligned)))
          return take(plan, std::move(tiles));
        if (!crowded) crowded.emplace(plan, std::move(tiles));
        again = true;
      } catch (const RoomError&) {
        again = true;
      } catch (const UserError&) {  // a shorter chunk would be refused too
      }
      again = again && !plan.resident && plan.chunk > 1;
      plan.chunk = std::max<int64_t>(1, plan.chunk / 2);
      if (plan.split > 0) plan.split = plan.split / plan.chunk * plan.chunk;
    }
  }
  return crowded && take(crowded->first, std::move(crowded->second));
}

/// Cuts the blocks of default plans until their tiles fit the memory of a task on a CPU. The tiles are kept.
void fit_task(Compilation& c) {
  const int64_t room = this_cpu().shared_bytes;
  const auto needed = [](const TileProgram& t) {
    int64_t most = 0;
    for (const TileKernel& given : t.kernels) {
      const TileKernel k = cpu::with_nested_sums(t.axes, given);
      int64_t held = 0;
      for (const Tile& tile : k.tiles)
        held += full_bytes(k, tile) / bytes(tile.dtype) * std::max<int64_t>(4, bytes(tile.dtype));
      most = std::max(most, held);
    }
    return most;
  };
  for (GuardedPlan& g : c.plans) {
    try {
      TileProgram t = lower(c, g.plan, &c.times);
      while (needed(t) > room && halved(g.plan)) t = lower(c, g.plan, &c.times);  // else the mapping refuses
      c.tiles.push_back(std::move(t));
    } catch (const UserError&) {
      // What keeps tiles from being built is reported when the plan is used.
      c.tiles.clear();
      return;
    }
  }
}

/// What a resident plan may hold: a share of the memory of a task on a CPU that its caches keep; of the registers of a GPU's core what leaves room for a second block.
constexpr int64_t kHeldOnCpu = 1 << 20, kHeldOnGpu = 96 << 10;
constexpr int64_t kLongestHeldOnCpu = 4096, kLongestHeld = 8192;

/// A stream that is read several times may be held on chip whole and read once instead: a plan for sizes up to what is held, in front of the others, if it costs
/// less by the price of driver/price.h.
void offer_resident(Compilation& c, const CompileOptions& o) {
  const Plan streamed = c.plans.back().plan;
  const Target target = plan_target(o);
  const Axis& axis = c.elaborated.axis(streamed.stream);
  // An output along the stream reads what a pass read before it; on a CPU it finds that in a cache.
  const std::vector<CascadeOutput>& outputs = c.derivation.cascade.outputs;
  const bool output =
      target != Target::Cpu && axis.baked() &&
      std::any_of(outputs.begin(), outputs.end(), [](const CascadeOutput& x) { return x.along_stream; });
  if (c.derivation.passes.size() + output < 2 || streamed.resident || c.plans.front().plan.resident) return;
  const int64_t longest = target == Target::Cpu ? kLongestHeldOnCpu : kLongestHeld;
  const int64_t fewest = target == Target::Cpu ? std::max(1, this_cpu().vector.bytes / 4) : 1;  // rows: lanes
  GuardedPlan held{{}, streamed};
  Plan& plan = held.plan;
  plan.resident = true;
  plan.chunk = axis.baked() ? axis.size.rational()->num() : longest;
  plan.split = 0;
  plan.stages = 1;
  plan.loaders = 0;
  plan.by_warps = false;
  plan.bounds = BoundsBy::None;
  if (plan.chunk < 1 || plan.chunk > longest) return;
  held.when.at_most.emplace_back(plan.stream, plan.chunk);
  Compilation as_is = c, other = c;
  try {
    check_plan(c.elaborated, c.derivation, plan);
    TileProgram t = lower(c, plan);
    const int64_t room = target == Target::Cpu ? kHeldOnCpu : kHeldOnGpu;
    const auto needed = [&] {
      int64_t most = 0;
      for (const TileKernel& k : t.kernels) {
        int64_t sum = 0;
        for (const Tile& tile : k.tiles)
          if (contains_axis(tile.axes, plan.stream)) sum += full_bytes(k, tile);
        most = std::max(most, sum);
      }
      return most;
    };
    while (needed() > room) {
      const auto last = [&](const Cut& x) { return x.block == 1 || x.block / 2 < fewest; };
      if (std::all_of(plan.group.begin(), plan.group.end(), last)) return;
      halved(plan);
      t = lower(c, plan);
    }
    if (target != Target::Interp) lower_mapped(c, t, target, LayoutClass::Aligned);
    other.plans = {held};
    other.tiles = {std::move(t)};
    as_is.plans = {c.plans.back()};
    as_is.tiles = {lower(c, streamed)};
  } catch (const UserError&) {
    return;  // it cannot be held
  }
  const Price one = price_of(other, target), several = price_of(as_is, target);
  // Blocks of few rows keep more cores busy than blocks that read again, which the price does not say.
  const bool taken = one.total < (output ? 1 : 1 - least_saving) * several.total;
  c.choices.push_back({taken ? Choice::Kind::Held : Choice::Kind::Read,
                       plan.stream.name(),
                       {},
                       taken ? one : several,
                       taken ? several : one,
                       {}});
  if (!taken) return;
  c.plans.insert(c.plans.begin(), held);
  if (!c.tiles.empty()) c.tiles.insert(c.tiles.begin(), std::move(other.tiles.front()));
}

bool maps_to_gpu(const CompileOptions& o) {
  return o.target == Target::Cuda || (o.target == Target::InterpMapped && o.mapping == Target::Cuda);
}

/// UserError where a plan that is written asks for what its target has not.
void check_target(const Machine& gpu, const CompileOptions& o, const Plan& plan, const ClauseSpans& where) {
  const bool on_gpu = plan_target(o) == Target::Cuda;
  const auto fail = [&](const char* clause, const std::string& what, const std::string& hint) {
    throw UserError(where(clause), what, hint);
  };
  if (plan.bounds == BoundsBy::Host && o.target == Target::Cuda)
    fail("bounds", "bounds host: the arrays that the mask reads lie on the device",
         "write `bounds device` or `bounds tested`");
  if (plan.bounds == BoundsBy::Device && !on_gpu)
    fail("bounds", "bounds device: the kernels run on the host",
         o.host_steps ? "write `bounds host` or `bounds tested`" : "write `bounds tested`");
  if (plan.bounds == BoundsBy::Host && !on_gpu && !o.host_steps)
    fail("bounds", "bounds host: a library has no step that looks at arrays before its kernel",
         "write `bounds tested`");
  if (!on_gpu && (plan.grid == GridBy::Persistent || plan.section_axis))
    fail("grid",
         fmt::format("{}: a CPU has no grid: its threads take the next block as they come",
                     plan.grid == GridBy::Persistent
                         ? "grid persistent"
                         : fmt::format("sections of `{}`", plan.section_axis.name())),
         "leave `grid` out");
  if (on_gpu && gpu.arch != sm90().arch && plan.grid == GridBy::Persistent)
    fail("grid",
         fmt::format("grid persistent: kernels for {} have no loading group, which would read ahead for the "
                     "next element of the grid",
                     gpu.arch),
         "leave it out, or write `grid blocks`");
  if (on_gpu && gpu.arch != sm90().arch && plan.loaders > 0)
    fail("roles",
         fmt::format("roles {}+{}: kernels for {} have no loading group: the groups that compute copy too",
                     plan.loaders, plan.computers, gpu.arch),
         fmt::format("write `roles 0+{}`", plan.computers));
}

/// Derivation and plans of an elaborated program.
/// `brief`: with the plan for nominal sizes alone.
/// Clauses without the blanks around them.
Span written(const ScheduleRange& clauses) {
  const std::string text = clauses.source->text.substr(clauses.begin, clauses.end - clauses.begin);
  const size_t first = text.find_first_not_of(" \t\r\n;"), last = text.find_last_not_of(" \t\r\n;");
  if (first == std::string::npos) return {clauses.source, clauses.begin, clauses.end};
  return {clauses.source, clauses.begin + first, clauses.begin + last + 1};
}

/// A refusal by a stage behind the plan, at the clauses that asked for the plan.
template <class Error>
Error at_clauses(const Error& e, const Span& clauses) {
  std::vector<Diagnostic> all = e.diagnostics();
  for (Diagnostic& d : all)
    if (!d.span) d.span = clauses;
  return Error(all);
}

void derive_and_plan(Compilation& c, Sym stream, const CompileOptions& o, const ScheduleRange* clauses,
                     bool brief = false) {
  c.derivation = timed("derive", &c.times, [&] { return derive_for(c.elaborated, stream, o); });
  c.plans = timed("plan", &c.times,
                  [&] { return default_plans(c.elaborated, c.derivation, plan_target(o), c.gpu); });
  TW_CHECK(!c.plans.empty(), "no default plan");
  if (brief) c.plans = {c.plans[nominal_plan(c.elaborated, plan_target(o), c.plans)]};
  const bool on_gpu = plan_target(o) == Target::Cuda;
  const BoundsBy found = on_gpu ? BoundsBy::Device : o.host_steps ? BoundsBy::Host : BoundsBy::Tested;
  if (masks_read_arrays(c.derivation))
    for (GuardedPlan& g : c.plans)
      if (!g.plan.resident) g.plan.bounds = found;
  if (clauses == nullptr) {
    if (plan_target(o) == Target::Cpu) fit_task(c);
    offer_resident(c, o);
  }
  if (clauses != nullptr) {
    c.schedule = written(*clauses);
    c.plans = timed("schedule", &c.times, [&] {
      return parse_plans(
          c.elaborated, c.derivation, *clauses, c.plans.back().plan,
          [&](const Plan& plan, const ClauseSpans& where) { check_target(c.gpu, o, plan, where); });
    });
  } else {
    for (const GuardedPlan& g : c.plans) check_plan(c.elaborated, c.derivation, g.plan);
  }
}

}  // namespace

Target plan_target(const CompileOptions& o) {
  if (o.target == Target::InterpMapped) return o.mapping;
  if (o.target == Target::Interp) return Target::Cuda;
  return o.target;
}

std::string arch_of(const CompileOptions& o) {
  if (!o.arch.empty()) return o.arch;
  if (const char* given = std::getenv("TILEWRIGHT_GPU_ARCH"); given != nullptr && *given != 0) {
    const std::vector<std::string>& known = gpu_archs();
    if (std::find(known.begin(), known.end(), given) == known.end())
      throw UserError(
          Span{},
          fmt::format("TILEWRIGHT_GPU_ARCH={} names no architecture that kernels are made for", given),
          fmt::format("set it to one of {}, or unset it", fmt::join(known, ", ")));
    return given;
  }
  if (o.target == Target::Cuda && cuda::available() && o.device < cuda::device_count()) {
    const cuda::DeviceInfo device = cuda::device_info(o.device);
    if (device.major >= 8 && device.major != 9) return gpu_arch_of(device.major, device.minor);
  }
  return sm90().arch;
}

std::vector<Sym> streams_of(const Program& elaborated) {
  std::vector<Sym> candidates = stream_candidates(elaborated);
  if (candidates.empty() && !elaborated.outputs.empty()) {
    const std::vector<Sym> axes = elaborated.outputs[0].axes();
    if (!axes.empty()) candidates.push_back(axes.back());
  }
  return candidates;
}

Program elaborate_for(const Program& p, const CompileOptions& o) {
  const Program whole = with_compared_values_whole(elaborate(p));
  return maps_to_gpu(o) ? with_counted_ranks(whole, real_dtype(p)) : whole;
}

Derivation derive_for(Program& elaborated, Sym stream, const CompileOptions& o) {
  Derivation d = derive_unproved(elaborated, stream);
  if (!maps_to_gpu(o)) return d;
  std::optional<Program> with_row = with_unit_row(elaborated, d);
  if (!with_row) return d;
  elaborated = std::move(*with_row);
  return derive_unproved(elaborated, stream);
}

Compilation analyse(const Program& p, const CompileOptions& o) {
  Compilation c;
  c.gpu = gpu_machine(arch_of(o));
  c.program = p;
  c.elaborated = timed("elaborate", &c.times, [&] { return elaborate_for(p, o); });
  Sym stream = o.stream;
  if (!stream) {
    const std::vector<Sym> candidates = streams_of(c.elaborated);
    if (candidates.empty()) {
      throw UserError(
          p.outputs.empty() ? Span{} : p.outputs[0].span,
          "the program reduces over no axis and its output has none, so there is nothing to stream",
          "give the output an axis, or write a reduction");
    }
    stream = candidates.front();
  }
  const auto source = std::make_shared<SourceText>(SourceText{o.schedule_name, o.schedule});
  const ScheduleRange clauses{source, 0, o.schedule.size()};
  derive_and_plan(c, stream, o, o.schedule.empty() ? nullptr : &clauses);
  return c;
}

Compilation analyse_part(const Program& part, Sym stream, const CompileOptions& o,
                         const ScheduleRange* clauses, bool brief) {
  Compilation c;
  c.gpu = gpu_machine(arch_of(o));
  c.program = c.elaborated = part;
  derive_and_plan(c, stream, o, clauses, brief);
  return c;
}

void prove(Compilation& c) {
  timed("prove", &c.times, [&] {
    prove(c.elaborated, c.derivation);
    return true;
  });
}

void check_lowering(Compilation& c, const CompileOptions& o, bool shrink) {
  const Target target = o.target == Target::InterpMapped ? o.mapping : o.target;
  const bool maps = target == Target::Cpu || target == Target::Cuda;
  for (size_t k = 0; k < c.plans.size(); ++k) {
    GuardedPlan& g = c.plans[k];
    if (k >= c.tiles.size()) c.tiles.push_back(lower(c, g.plan, &c.times));
    std::optional<RoomError> first;
    if (o.simpler && shrink && target == Target::Cuda) {
      try {
        lower_mapped(c, c.tiles[k], target, LayoutClass::Aligned);
      } catch (const UserError&) {
        if (c.plans.size() > 1 && !g.when.at_most.empty()) {  // its sizes go to the plans behind it
          c.plans.erase(c.plans.begin() + static_cast<ptrdiff_t>(k));
          c.tiles.erase(c.tiles.begin() + static_cast<ptrdiff_t>(k));
          --k;
          continue;
        }
        if (!make_simpler(c, k)) throw;
      }
      continue;
    }
    while (maps) {
      try {
        lower_mapped(c, c.tiles[k], target, LayoutClass::Aligned);
        break;
      } catch (const RoomError& e) {  // what is refused for another reason is refused in smaller blocks too
        if (!first) first = e;
        if (!shrink || !(target == Target::Cpu ? halved(g.plan) : shorter(g.plan)))
          throw at_clauses(*first, c.schedule);
      } catch (const UserError& e) {
        throw at_clauses(e, c.schedule);
      }
      check_plan(c.elaborated, c.derivation, g.plan);
      c.tiles[k] = lower(c, g.plan, &c.times);
    }
  }
}

TileProgram lower(const Compilation& c, const Plan& plan, std::vector<PassTime>* times) {
  return timed("tiles", times, [&] { return build_tiles(c.elaborated, c.derivation, plan); });
}

MappedProgram lower_mapped(const Compilation& c, const TileProgram& t, Target target, LayoutClass layout,
                           std::vector<PassTime>* times) {
  return timed("map", times, [&] {
    return target == Target::Cuda ? map_gpu(c.elaborated, t, c.gpu, layout)
                                  : map_cpu(c.elaborated, t, this_cpu(), layout);
  });
}

std::string lower_source(const Compilation& c, const MappedProgram& m, std::vector<PassTime>* times) {
  return timed("emit", times, [&] {
    return m.target == Target::Cuda ? emit_cuda(c.elaborated, m) : emit_cpp(c.elaborated, m);
  });
}

}  // namespace tilewright
