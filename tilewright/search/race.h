// Measured times of several contenders, in rounds: each round runs every contender that is left once, so that what else the machine does falls on all alike.
#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace tilewright {

struct RaceOptions {
  /// Seconds for everything. Contender 0 runs once whatever it takes; another begins only if the longest first run of the others so far would still fit.
  double budget = 60;
  int rounds = 9;  ///< at most
  /// A contender whose least time of three rounds is longer than the best's by this factor runs no more; of fewer rounds, by twice the factor.
  double hopeless = 1.3;
};

struct Contender {
  std::vector<double> seconds;  ///< of each round in which it ran
  std::string failed;           ///< why it could not run; empty: it did, or the budget ended before its turn
  double median() const;        ///< infinite where it did not run
  double least() const;
};

/// Runs contender 0 (never given up) and the others. `measure` runs one once and returns seconds; its first call for a contender may prepare it. It throws UserError
/// where the contender cannot run. `progress` is told the round (from 0) and the contender before each run.
std::vector<Contender> race(size_t contenders, const std::function<double(size_t)>& measure,
                            const RaceOptions& options,
                            const std::function<void(int, size_t)>& progress = {});

}  // namespace tilewright
