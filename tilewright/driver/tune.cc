#include "tilewright/driver/tune.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace tilewright {

namespace {

/// The schedule of the program with other plans for one kernel.
std::string schedule_with(CompiledProgram& c, size_t kernel, std::vector<GuardedPlan> plans) {
  std::swap(c.kernels[kernel].plans, plans);
  const std::string text = plan_text(c);
  std::swap(c.kernels[kernel].plans, plans);
  return text;
}

/// The plan for every size: what a resident plan does not hold, the last of the defaults takes.
std::vector<GuardedPlan> for_all_sizes(const Compilation& kernel, const Plan& plan) {
  if (!plan.resident) return {GuardedPlan{{}, plan}};
  return {GuardedPlan{{{{plan.stream, plan.chunk}}}, plan}, kernel.plans.back()};
}

class Tuner {
 public:
  Tuner(const Program& p, const CompileOptions& compile, const SessionOptions& session,
        const TuneOptions& options)
      : program_(p), compile_(compile), options_(options), session_(p, compile, session) {}

  Tuned run(const std::map<std::string, int64_t>& given, const MachineFile& machine) {
    begin_ = std::chrono::steady_clock::now();
    CompiledProgram c = session_.kernel().compiled();
    Tuned t;
    t.plans.push_back({plan_text(c), "", 0, 0, {}});
    std::vector<std::pair<size_t, Plan>> of{{0, {}}};  // kernel and plan of each
    std::vector<RankedPlan> firsts;                    // of each kernel by prediction
    const std::vector<RankedKernel> kernels =
        rank_plans(c, compile_, machine, all_sizes(c, given), options_.best);
    for (const RankedKernel& k : kernels) {
      const std::vector<RankedPlan>& ranked = k.ranking.plans;
      const size_t own = k.ranking.place_of_default();
      firsts.push_back(ranked.at(0));
      for (size_t n = 0; n < ranked.size() && n < options_.best; ++n) {
        if (n == own) continue;
        t.plans.push_back({schedule_with(c, k.kernel, for_all_sizes(c.kernels[k.kernel], ranked[n].plan)),
                           c.several() ? c.name_of(k.kernel) : "",
                           ranked[n].seconds,
                           n + 1,
                           {}});
        of.emplace_back(k.kernel, ranked[n].plan);
      }
      if (own < ranked.size() && !c.several())
        t.plans[0].predicted = ranked[own].seconds, t.plans[0].place = own + 1;
    }
    if (c.several()) {
      // What the model puts first for every kernel, together.
      std::vector<std::vector<GuardedPlan>> own;
      for (size_t k = 0; k < c.kernels.size(); ++k) {
        own.push_back(c.kernels[k].plans);
        if (!firsts[k].is_default) c.kernels[k].plans = for_all_sizes(c.kernels[k], firsts[k].plan);
      }
      TunedPlan together{plan_text(c), "", 0, 1, {}};
      for (size_t k = 0; k < c.kernels.size(); ++k) {
        together.predicted += firsts[k].seconds;
        c.kernels[k].plans = own[k];
      }
      t.plans.push_back(together);
      of.emplace_back(c.kernels.size(), Plan{});
    }
    // Other kernels, where they are predicted to take no longer.
    constexpr size_t most_cuts = 8;
    bool complete = true;
    double own = 0;
    for (const RankedPlan& first : firsts) own += first.seconds;
    if (compile_.schedule.empty())
      for (RankedCut& cut : rank_cuts(program_, c, kernels, compile_, machine, given, most_cuts, complete)) {
        if (cut.seconds > own) continue;
        for (RankedKernel& k : cut.kernels)
          if (!k.ranking.plans[0].is_default)
            cut.program.kernels[k.kernel].plans =
                for_all_sizes(cut.program.kernels[k.kernel], k.ranking.plans[0].plan);
        t.plans.push_back({plan_text(cut.program), "", cut.seconds, 0, {}});
        of.emplace_back(c.kernels.size(), Plan{});
      }
    std::vector<size_t> all{0};
    for (size_t n = 1; n < t.plans.size(); ++n) all.push_back(n);
    constexpr double share_of_finals = 1.0 / 3;
    measure(t, all, options_.race.rounds, left() * (1 - share_of_finals));
    if (c.several() && left() > 0) combine(t, c, of);
    // The fastest of many is one that was lucky too: a few run again beside the default and what the model puts first, and those times count.
    std::vector<size_t> finalists = fastest(t, options_.finals);
    for (size_t n = 1; n < t.plans.size(); ++n)
      if (t.plans[n].place == 1 && t.plans[n].kernel.empty() &&
          std::find(finalists.begin(), finalists.end(), n) == finalists.end())
        finalists.push_back(n);
    finalists.insert(finalists.begin(), 0);
    if (left() > 0 && finalists.size() > 1) measure(t, finalists, 2 * options_.race.rounds, left());
    t.seconds = spent();
    t.default_seconds = default_seconds_;
    for (size_t n : finalists)
      if (t.plans[n].measured.median() <
          (t.winner == 0 ? 1 - least_gain : 1) * t.plans[t.winner].measured.median())
        t.winner = n;
    return t;
  }

 private:
  /// Plans but the default by median, the fastest first.
  static std::vector<size_t> fastest(const Tuned& t, size_t most) {
    std::vector<size_t> order;
    for (size_t n = 1; n < t.plans.size(); ++n)
      if (!t.plans[n].measured.seconds.empty()) order.push_back(n);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return t.plans[a].measured.median() < t.plans[b].measured.median();
    });
    if (order.size() > most) order.resize(most);
    return order;
  }

  double spent() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }
  double left() const { return options_.race.budget - spent(); }

  /// Races some plans, the default first.
  void measure(Tuned& t, const std::vector<size_t>& contenders, int rounds, double budget) {
    RaceOptions here = options_.race;
    here.rounds = rounds;
    here.budget = budget;
    const std::vector<Contender> measured = race(
        contenders.size(), [&](size_t k) { return seconds_of(t, contenders[k]); }, here,
        [&](int round, size_t k) {
          if (options_.progress) options_.progress(round, contenders[k], t.plans.size());
        });
    for (size_t k = 0; k < contenders.size(); ++k)
      if (!measured[k].seconds.empty() || !measured[k].failed.empty())
        t.plans[contenders[k]].measured = measured[k];
  }

  /// The fastest plan of every kernel together.
  void combine(Tuned& t, CompiledProgram& c, const std::vector<std::pair<size_t, Plan>>& of) {
    std::map<size_t, size_t> best;
    const double own = t.plans[0].measured.median();
    for (size_t n = 1; n < t.plans.size(); ++n) {
      const double time = t.plans[n].measured.median();
      if (of[n].first >= c.kernels.size()) continue;
      if (time > own * (1 - least_gain / 2)) continue;
      const auto [it, fresh] = best.try_emplace(of[n].first, n);
      if (!fresh && time < t.plans[it->second].measured.median()) it->second = n;
    }
    if (best.size() < 2) return;
    for (const auto& [kernel, n] : best)
      c.kernels[kernel].plans = for_all_sizes(c.kernels[kernel], of[n].second);
    t.plans.push_back({plan_text(c), "", 0, 0, {}});
    measure(t, {0, t.plans.size() - 1}, options_.race.rounds, left() / 3);
  }

  double seconds_of(const Tuned& t, size_t n) {
    Timed& timed = kernels_[n];
    if (!timed.kernel) {
      if (n == 0) {
        timed.kernel = session_.shared_kernel();
      } else {
        CompileOptions o = compile_;
        o.schedule = t.plans[n].schedule;
        timed.kernel = std::make_shared<Kernel>(program_, o);
      }
      const double once = session_.run_with(*timed.kernel, 1, 1).min;
      // What is hopeless at first sight is not run again.
      if (n != 0 && once * 1e-3 > 2 * options_.race.hopeless * best_) return once * 1e-3;
      // Short runs are repeated until they take some milliseconds.
      constexpr double long_enough = 4;
      timed.repeat = once > 0 ? std::clamp(int(std::ceil(long_enough / once)), 1, 200) : 200;
    }
    const double seconds = session_.run_with(*timed.kernel, 0, timed.repeat).median * 1e-3;
    if (n == 0 && default_seconds_ == 0) default_seconds_ = spent();
    best_ = std::min(best_, seconds);
    return seconds;
  }

  struct Timed {
    std::shared_ptr<Kernel> kernel;
    int repeat = 1;
  };

  const Program& program_;
  const CompileOptions& compile_;
  const TuneOptions& options_;
  Session session_;
  std::map<size_t, Timed> kernels_;
  std::chrono::steady_clock::time_point begin_;
  double default_seconds_ = 0;
  double best_ = __builtin_inf();  // seconds of the fastest run so far
};

}  // namespace

double Tuned::regret() const { return plans[0].measured.median() / plans[winner].measured.median() - 1; }

Tuned tune(const Program& p, const CompileOptions& compile, const SessionOptions& session,
           const MachineFile& machine, const TuneOptions& options) {
  return Tuner(p, compile, session, options).run(session.sizes, machine);
}

}  // namespace tilewright
