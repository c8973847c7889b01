// Plans chosen by measurement: the best by prediction run in turn, on the program's own arrays.
#pragma once
#include "tilewright/driver/ranked.h"
#include "tilewright/driver/session.h"
#include "tilewright/search/race.h"

namespace tilewright {

struct TuneOptions {
  size_t best = 12;   ///< plans of each kernel, the fastest by prediction first
  size_t finals = 3;  ///< the fastest that run again beside the default
  /// Of all races together: a third of the budget is kept for the last. The default is compiled and runs once whatever that takes.
  RaceOptions race;
  /// Told what is about to run: the round (from 0), which of how many schedules.
  std::function<void(int round, size_t schedule, size_t schedules)> progress;
};

struct TunedPlan {
  std::string schedule;  ///< for the whole program; it admits every size that the defaults admit
  std::string kernel;    ///< whose plan differs from the default, of several; empty: the default, or all
  double predicted = 0;  ///< seconds, of that kernel
  size_t place = 0;      ///< among the predictions of that kernel, from 1; 0: not predicted
  Contender measured;
};

struct Tuned {
  std::vector<TunedPlan> plans;  ///< the default first
  size_t winner = 0;             ///< the default, unless another is faster by more than `least_gain`
  double seconds = 0;            ///< that measuring took, compilation included
  double default_seconds = 0;    ///< of them until the default had run once
  /// What the default takes longer than the winner, as a share of the winner's time.
  double regret() const;
};

/// A plan replaces the default where its median is shorter by this share of it: less is noise.
constexpr double least_gain = 0.02;

/// UserError: what keeps the default from running. Plans that cannot run are listed with the reason.
Tuned tune(const Program& p, const CompileOptions& compile, const SessionOptions& session,
           const MachineFile& machine, const TuneOptions& options);

}  // namespace tilewright
