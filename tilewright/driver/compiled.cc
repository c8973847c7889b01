#include "tilewright/driver/compiled.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tilewright/driver/attempts.h"
#include "tilewright/driver/clauses.h"
#include "tilewright/driver/price.h"
#include "tilewright/plan/axes.h"
#include "tilewright/search/plan_file.h"

namespace tilewright {

namespace {

/// Do two parts of one program compute the same?
bool same_part(const Program& a, const Program& b) {
  const auto equal = [](const auto& x, const auto& y, const auto& same) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), same);
  };
  return equal(a.axes, b.axes,
               [](const Axis& x, const Axis& y) { return x.index == y.index && x.size == y.size; }) &&
         equal(a.inputs, b.inputs,
               [](const Input& x, const Input& y) { return x.sym == y.sym && x.axes() == y.axes(); }) &&
         equal(a.definitions, b.definitions,
               [](const Definition& x, const Definition& y) {
                 return x.sym == y.sym && x.value == y.value && x.axes == y.axes && x.dtype == y.dtype;
               }) &&
         equal(a.outputs, b.outputs, [](const Output& x, const Output& y) {
           return x.sym == y.sym && x.dtype == y.dtype && x.axes() == y.axes();
         });
}

class ProgramCompiler {
 public:
  /// A part has a plan for nominal sizes that compiles, and another that does not.
  struct AcceptedInPart {};

  /// `brief`: parts are compared by their plans for nominal sizes alone. run() throws AcceptedInPart where that was too little.
  ProgramCompiler(const Program& p, const CompileOptions& o, bool brief)
      : options_(o), brief_(brief), sections_(split_schedule(o.schedule, o.schedule_name)) {
    out_.program = p;
  }

  CompiledProgram run() {
    if (std::optional<CompiledProgram> kept = recall()) return std::move(*kept);
    for (const ScheduleSections::Kernel& k : sections_.kernels)
      if (says_nothing(k.clauses))
        throw UserError(k.heading, "no clause stands under this heading",
                        "write one behind it, such as `stream j=128`, or leave the heading out");
    Forced forced;
    if (sections_.sectioned()) forced = forced_by(elaborate_for(out_.program, options_), sections_);
    bool one = forced.store.empty() && single();
    if (one && asks_for_one()) return std::move(out_);
    const auto begin = std::chrono::steady_clock::now();
    const Program elaborated = elaborate_for(out_.program, options_);
    const Attempting attempting = [&](const Program& part) {
      return brief_ ? remembered(known(elaborated), part) : attempt(part);
    };
    try {
      std::optional<std::vector<Sym>> cut;
      if (one) cut = axes_cut(out_.kernels.front(), plan_target(options_));
      out_.partition = partition(elaborated, forced, attempting, one ? Start::OneKernel : Start::Rules,
                                 sixteen_bits(), cut);
      if (!sections_.kernels.empty() && !has_headings(out_.partition))
        take_default(elaborated, attempting, one);
    } catch (const UserError& e) {
      if (!sections_.sectioned() || !take_default(elaborated, attempting, one)) {
        if (!sections_.fuse.empty()) throw refused_fusion(e);
        give_up(e);
        return std::move(out_);
      }
    }
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    if (!one || !out_.partition.choices.empty()) out_.before.push_back({"partition", took.count()});
    const bool several = out_.partition.parts.size() > 1;
    if (one && !several) {
      if (!sections_.kernels.empty()) throw not_several();
      out_.partition.parts.clear();
      out_.partition.arrays.clear();
      keep(Start::OneKernel);
      return std::move(out_);
    }
    if (one) out_.whole = std::move(out_.kernels.front());
    out_.kernels.clear();
    if (sections_.has_plain && (several || !sections_.kernels.empty()))
      throw UserError(Span{sections_.plain.source, sections_.plain.begin, sections_.plain.end},
                      several ? fmt::format("the program takes {} kernels, and these clauses name none",
                                            out_.partition.parts.size())
                              : "these clauses stand under no heading, and others do",
                      fmt::format("put them under the heading of a kernel: {}", fmt::join(headings(), ", ")));
    const std::vector<const ScheduleRange*> clauses = clauses_of_parts();
    for (size_t k = 0; k < out_.partition.parts.size(); ++k) {
      const Part& part = out_.partition.parts[k];
      const auto attempted = std::find_if(accepted_.begin(), accepted_.end(), [&](const Accepted& a) {
        return a.stream == part.stream && same_part(a.compilation.program, part.program);
      });
      if (clauses[k] == nullptr && attempted != accepted_.end()) {
        out_.kernels.push_back(attempted->compilation);
        continue;
      }
      try {
        Compilation c = analyse_part(part.program, part.stream, options_, clauses[k]);
        lowered(c, options_, clauses[k] == nullptr);
        out_.kernels.push_back(std::move(c));
      } catch (const UserError&) {
        if (!brief_ || clauses[k] != nullptr) throw;
        throw AcceptedInPart{};
      }
    }
    out_.workspaces = plan_workspaces(out_.program, out_.partition);
    keep(one ? Start::OneKernel : Start::Rules);
    return std::move(out_);
  }

  /// Are the kernels of run() refused by a stage behind the plan?
  bool gave_up() const { return gave_up_; }

  /// Did a stage behind the plan refuse a default plan, so that simpler ones may be accepted?
  bool plan_refused() const { return plan_refused_; }

  /// Writes what was found out, once the kernels are proved.
  void write_kept() const {
    if (known_) known_->keep();
  }

 private:
  Attempts& known(const Program& elaborated) {
    if (!known_) known_.emplace(elaborated, options_);
    return *known_;
  }

  /// Are kernels to run, by default plans? Interpreters compile nothing, so that a start is a small part of a run.
  bool recalls() const {
    return options_.recall && brief_ && options_.schedule.empty() && !options_.stream &&
           (options_.target == Target::Cpu || options_.target == Target::Cuda);
  }

  /// Notes what the kernels are, so that recall() makes them again. Plans whose text does not mean just them are not kept.
  void keep(Start start) {
    if (!recalls()) return;
    const Program elaborated = elaborate_for(out_.program, options_);
    known(elaborated).add(start);
    for (const Compilation& c : out_.kernels) {
      const std::string plans = print(c.program, c.plans);
      try {
        if (plans_of(c.elaborated, c.derivation, plans) != c.plans) return;
      } catch (const UserError&) {
        return;
      }
      known_->add(out_.parted() ? c.program : elaborated, {c.derivation.cascade.axis.name(), plans});
    }
  }

  std::vector<GuardedPlan> plans_of(const Program& p, const Derivation& d, const std::string& text) const {
    const auto source = std::make_shared<SourceText>(SourceText{"<kept plans>", text});
    return parse_plans(
        p, d, ScheduleRange{source, 0, text.size()},
        default_plans(p, d, plan_target(options_), gpu_machine(arch_of(options_))).back().plan);
  }

  /// The kernels as keep() noted them, where nothing but running them is asked for; nullopt where something is not known.
  std::optional<CompiledProgram> recall() {
    if (!recalls()) return std::nullopt;
    struct Unknown {};
    CompiledProgram c;
    c.program = out_.program;
    c.recalled = true;
    try {
      const Program elaborated = elaborate_for(c.program, options_);
      const std::optional<Start> start = known(elaborated).start();
      if (!start) return std::nullopt;
      const auto kernel = [&](const Program& part) {
        const std::optional<Attempts::Kept> kept = known_->kept(part);
        const Axis* axis = kept ? part.axis(kept->stream) : nullptr;
        if (axis == nullptr) throw Unknown{};
        Compilation k;
        k.gpu = gpu_machine(arch_of(options_));
        k.program = k.elaborated = part;
        k.derivation = derive_for(k.elaborated, axis->index, options_);
        k.plans = plans_of(k.elaborated, k.derivation, kept->plans);
        c.kernels.push_back(std::move(k));
      };
      if (*start == Start::OneKernel && known_->kept(elaborated)) {
        kernel(elaborated);
        c.kernels.back().program = c.program;
        return c;
      }
      c.partition = partition(
          elaborated, {},
          [&](const Program& part) {
            std::optional<Attempt> answer = known_->find(part);
            if (!answer) throw Unknown{};
            return *answer;
          },
          *start, sixteen_bits());
      for (const Part& part : c.partition.parts) kernel(part.program);
      c.workspaces = plan_workspaces(c.program, c.partition);
      return c;
    } catch (const Unknown&) {
      return std::nullopt;
    } catch (const UserError&) {
      return std::nullopt;  // said again by the search
    }
  }

  /// GPUs multiply matrices of 16-bit elements.
  bool sixteen_bits() const { return plan_target(options_) == Target::Cuda; }

  Attempt remembered(Attempts& known, const Program& part) {
    if (auto answer = known.find(part)) {
      plan_refused_ = plan_refused_ || answer->refusal;
      return *answer;
    }
    Attempt answer = attempt(part);
    known.add(part, answer);
    return answer;
  }

  /// What `fuse` asks for makes a kernel that is refused for the reason of `e`.
  UserError refused_fusion(const UserError& e) const {
    std::vector<std::string> names;
    for (const auto& n : sections_.fuse) names.push_back(n.text);
    std::vector<Diagnostic> all{
        {Span::join(sections_.fuse.front().span, sections_.fuse.back().span),
         fmt::format("with `{}` computed where {} read, a kernel is refused", fmt::join(names, "`, `"),
                     names.size() == 1 ? "it is" : "they are"),
         names.size() == 1 ? "store it, or mend this:" : "store one of them, or mend this:"}};
    all.insert(all.end(), e.diagnostics().begin(), e.diagnostics().end());
    return UserError(all);
  }

  /// The program as one kernel, or false where that is refused and several may do.
  bool single() {
    CompileOptions o = options_;
    if (sections_.sectioned()) o.schedule.clear();
    std::optional<Compilation> c;
    try {
      c = analyse(out_.program, o);
      if (sections_.kernels.size() == 1 && only_kernel()) {
        o.schedule = blanked(sections_.kernels[0].clauses);
        c = analyse(out_.program, o);
      }
      lowered(*c, o, o.schedule.empty() && plan_target(o) == Target::Cuda);
    } catch (const UserError& e) {
      refusal_ = e;
      if (c && !sections_.sectioned()) {
        c->tiles.clear();
        whole_ = std::move(c);
      }
      if ((!o.schedule.empty() || o.stream) && fits_by_default()) throw;
      return false;
    }
    out_.kernels.push_back(std::move(*c));
    return true;
  }

  /// Does the user choose a plan, or the streamed axis, for the program as one kernel?
  bool asks_for_one() const {
    return options_.stream || sections_.has_plain || (sections_.kernels.size() == 1 && only_kernel());
  }

  UserError not_several() const {
    return UserError(
        sections_.kernels[0].heading, "the program is one kernel, not several",
        fmt::format("write its clauses alone, or under `kernel {}:`", fmt::join(names_of(outputs()), ", ")));
  }

  std::vector<Sym> outputs() const {
    std::vector<Sym> all;
    for (const Output& o : out_.program.outputs) all.push_back(o.sym);
    return all;
  }

  /// Does the only heading name all outputs?
  bool only_kernel() const { return same_names(sections_.kernels[0].names, outputs()); }

  /// check_lowering, noted where it refuses.
  void lowered(Compilation& c, const CompileOptions& o, bool shrink) {
    try {
      check_lowering(c, o, shrink);
    } catch (const UserError&) {
      plan_refused_ = true;
      throw;
    }
  }

  bool fits_by_default() const {
    CompileOptions o = options_;
    o.schedule.clear();
    o.stream = Sym();
    try {
      Compilation c = analyse(out_.program, o);
      check_lowering(c, o, false);
      return true;
    } catch (const UserError&) {
      return false;
    }
  }

  /// Streamed over the first axis that the compiler accepts; else what it says to the first.
  Attempt attempt(const Program& part) {
    Attempt result;
    std::vector<Sym> streams = streams_of(part);
    if (contains(streams, options_.stream)) streams.insert(streams.begin(), options_.stream);
    for (Sym stream : streams) {
      try {
        Compilation c = analyse_part(part, stream, options_, nullptr, brief_);
        lowered(c, options_, true);
        const int passes = static_cast<int>(c.derivation.passes.size());
        const Price price = price_of(c, plan_target(options_));
        std::vector<Sym> cut = axes_cut(c, plan_target(options_));
        if (!brief_) accepted_.push_back({stream, std::move(c)});
        return {stream, passes, {}, price, std::move(cut)};
      } catch (const UserError& e) {
        if (!result.refusal) result = {stream, 0, e};
      }
    }
    if (streams.empty())
      result.refusal =
          UserError(part.outputs.empty() ? Span{} : part.outputs[0].span,
                    "the program reduces over no axis and its output has none, so there is nothing to stream",
                    "give the output an axis, or write a reduction");
    return result;
  }

  /// Several kernels do not help: the refusal of the one kernel stands, with that of a part where it says more. What is refused behind
  /// the plan is reported by the stage that refuses.
  void give_up(const UserError& e) {
    if (whole_) {
      out_.kernels.push_back(std::move(*whole_));
      gave_up_ = true;
      return;
    }
    if (!refusal_) throw e;
    std::vector<Diagnostic> all = refusal_->diagnostics();
    for (const Diagnostic& d : e.diagnostics())
      if (d.what != all[0].what) all.push_back(d);
    throw UserError(all);
  }

  std::vector<const ScheduleRange*> clauses_of_parts() const {
    std::vector<const ScheduleRange*> clauses(out_.partition.parts.size(), nullptr);
    std::vector<std::string> known;
    for (const Part& part : out_.partition.parts) known.push_back(part.name());
    for (const ScheduleSections::Kernel& k : sections_.kernels) {
      size_t found = 0;
      while (found < known.size() && !same_names(k.names, out_.partition.parts[found].stores)) ++found;
      if (found == known.size())
        throw UserError(k.heading, "no kernel of the program stores just that",
                        fmt::format("kernels are {}", fmt::join(headings(), ", ")));
      if (clauses[found] != nullptr)
        throw UserError(k.heading, fmt::format("`kernel {}` is given twice", known[found]),
                        "give all its clauses under one heading");
      clauses[found] = &k.clauses;
    }
    if (sections_.has_plain) clauses[0] = &sections_.plain;
    return clauses;
  }

  /// Is there a kernel for every heading?
  bool has_headings(const Partition& p) const {
    return std::all_of(sections_.kernels.begin(), sections_.kernels.end(), [&](const auto& k) {
      return std::any_of(p.parts.begin(), p.parts.end(),
                         [&](const Part& part) { return same_names(k.names, part.stores); });
    });
  }

  /// Default kernels may store a part of a statement that no definition names. A schedule that names their kernels, and stores and fuses what they do, means them: `store` and
  /// `fuse` alone may lead to others. False, with nothing changed, where it does not.
  bool take_default(const Program& elaborated, const Attempting& attempting, bool& one) {
    std::vector<Compilation> kernels = std::exchange(out_.kernels, {});
    try {
      const bool fits = single();
      std::optional<std::vector<Sym>> cut;
      if (fits) cut = axes_cut(out_.kernels.front(), plan_target(options_));
      Partition p =
          partition(elaborated, {}, attempting, fits ? Start::OneKernel : Start::Rules, sixteen_bits(), cut);
      const StoredAndFused named = stored_and_fused(out_.program, p);
      if (p.parts.size() > 1 && has_headings(p) && same_names(sections_.store, named.stored) &&
          same_names(sections_.fuse, named.fused)) {
        out_.partition = std::move(p);
        one = fits;
        return true;
      }
    } catch (const UserError&) {  // what was asked for is refused for its own reason
    }
    out_.kernels = std::move(kernels);
    return false;
  }

  std::vector<std::string> headings() const {
    std::vector<std::string> all;
    for (const Part& part : out_.partition.parts) all.push_back("`kernel " + part.name() + ":`");
    return all;
  }

  /// A part that was accepted, as it is compiled by default.
  struct Accepted {
    Sym stream;
    Compilation compilation;
  };

  const CompileOptions& options_;
  const bool brief_;
  bool gave_up_ = false, plan_refused_ = false;
  ScheduleSections sections_;
  std::vector<Accepted> accepted_;
  CompiledProgram out_;
  std::optional<Compilation> whole_;  ///< the program as one kernel that a stage behind the plan refuses
  std::optional<UserError> refusal_;
  std::optional<Attempts> known_;  ///< read where something is attempted or recalled
};

}  // namespace

std::string CompiledProgram::name_of(size_t kernel) const {
  if (parted()) return partition.parts[kernel].name();
  std::vector<std::string> names;
  for (const Output& o : program.outputs) names.push_back(o.sym.name());
  return fmt::format("{}", fmt::join(names, ", "));
}

std::vector<PassTime> CompiledProgram::times() const {
  std::vector<PassTime> sums = before;
  for (const Compilation& c : kernels)
    for (const PassTime& t : c.times) {
      const auto known =
          std::find_if(sums.begin(), sums.end(), [&](const PassTime& s) { return s.name == t.name; });
      if (known == sums.end())
        sums.push_back(t);
      else
        known->milliseconds += t.milliseconds;
    }
  return sums;
}

CompiledProgram compile_program(const Program& p, const CompileOptions& given) {
  CompileOptions o = given;
  if (is_plan_file(o.schedule)) {
    // Interpreters of tile programs run the plans of any target.
    const Target target = o.target == Target::InterpMapped ? o.mapping : o.target;
    o.schedule = schedule_of(given.schedule, given.schedule_name, p.name,
                             target == Target::Interp ? "" : name(target));
    o.schedule_name = fmt::format("{} (schedule)", given.schedule_name);
  }
  for (const Output& out : p.outputs)
    for (const Input& in : p.inputs)
      if (in.sym == out.sym)
        throw UserError(
            out.span, fmt::format("output `{}` is an input: no kernel makes it", in.sym.name()),
            fmt::format("define a copy and make it the output: {0}_out[axes] = {0}", in.sym.name()));
  bool plan_refused = false;
  const auto compile = [&](const CompileOptions& options, std::optional<CompiledProgram>& refused) {
    ProgramCompiler compiler(p, options, true);
    std::optional<CompiledProgram> c;
    try {
      try {
        c = compiler.run();
      } catch (const UserError&) {
        plan_refused = compiler.plan_refused();
        throw;
      }
      if (compiler.gave_up()) refused = std::move(c), c.reset();
    } catch (const ProgramCompiler::AcceptedInPart&) {
      plan_refused = true;
      ProgramCompiler in_full(p, options, false);
      c = in_full.run();
      if (in_full.gave_up()) refused = std::move(c), c.reset();
    }
    if (!c || c->recalled) return c;
    for (Compilation& kernel : c->kernels) prove(kernel);
    compiler.write_kept();
    return c;
  };
  // On a GPU a program whose default plans a stage behind them refuses runs with simpler ones.
  CompileOptions simple = o;
  simple.simpler = true;
  std::optional<CompiledProgram> refused, ignored;
  std::optional<UserError> why;
  try {
    if (std::optional<CompiledProgram> c = compile(o, refused)) return std::move(*c);
  } catch (const UserError& e) {
    why = e;
  }
  const Target target = o.target == Target::InterpMapped ? o.mapping : o.target;
  if (target == Target::Cuda && (refused || plan_refused) &&
      (o.schedule.empty() || split_schedule(o.schedule, o.schedule_name).sectioned())) {
    try {
      if (std::optional<CompiledProgram> c = compile(simple, ignored)) return std::move(*c);
    } catch (const UserError&) {  // the first refusal says what is asked of a plan
    }
  }
  if (why) throw UserError(*why);
  for (Compilation& kernel : refused->kernels) prove(kernel);
  return std::move(*refused);
}

const Plan& plan_for(const Compilation& c, const std::map<std::string, int64_t>& sizes) {
  for (const GuardedPlan& g : c.plans) {
    bool admitted = !g.when.at_most.empty();
    for (const auto& [axis, limit] : g.when.at_most) {
      auto it = sizes.find(axis.name());
      admitted = admitted && it != sizes.end() && it->second <= limit;
    }
    if (admitted) return g.plan;
  }
  return c.plans.back().plan;
}

std::string heading(const CompiledProgram& c, size_t kernel, const char* mark) {
  if (!c.several()) return {};
  return fmt::format("{}{} kernel {} of {}: {}\n", kernel == 0 ? "" : "\n", mark, kernel + 1,
                     c.kernels.size(), c.name_of(kernel));
}

std::string plan_text(const CompiledProgram& c) {
  std::string text;
  if (c.several())
    text += to_text(stored_and_fused(c.program, c.partition)) + to_text(c.partition, c.workspaces);
  for (size_t k = 0; k < c.kernels.size(); ++k) {
    const std::string plans = print(c.kernels[k].program, c.kernels[k].plans);
    if (c.several())
      text += fmt::format("kernel {}:{}", c.name_of(k), plans.find('\n') == std::string::npos ? " " : "\n");
    text += plans + "\n";
  }
  return text;
}

std::string schedule_text(const CompiledProgram& c, const std::vector<const Plan*>& plans) {
  if (!c.several()) return print(c.program, *plans.at(0));
  std::string text = to_text(stored_and_fused(c.program, c.partition));
  for (size_t k = 0; k < c.kernels.size(); ++k)
    text += fmt::format("kernel {}: {}\n", c.name_of(k), print(c.kernels[k].program, *plans.at(k)));
  return text;
}

}  // namespace tilewright
