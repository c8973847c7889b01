#include "tilewright/search/race.h"

#include <algorithm>
#include <chrono>

#include "tilewright/support/error.h"

namespace tilewright {

double Contender::median() const {
  if (seconds.empty()) return __builtin_inf();
  std::vector<double> sorted = seconds;
  std::sort(sorted.begin(), sorted.end());
  const size_t n = sorted.size();
  return n % 2 == 1 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

double Contender::least() const {
  return seconds.empty() ? __builtin_inf() : *std::min_element(seconds.begin(), seconds.end());
}

std::vector<Contender> race(size_t contenders, const std::function<double(size_t)>& measure,
                            const RaceOptions& options, const std::function<void(int, size_t)>& progress) {
  using clock = std::chrono::steady_clock;
  const auto begin = clock::now();
  const auto spent = [&] { return std::chrono::duration<double>(clock::now() - begin).count(); };
  std::vector<Contender> all(contenders);
  double longest_start = 0;  // what the first run of another took, preparation included
  for (int round = 0; round < options.rounds; ++round) {
    double best = __builtin_inf();
    for (const Contender& c : all) best = std::min(best, c.least());
    // Every other round runs backwards: what drifts in a round is not always to the disadvantage of the last.
    for (size_t n = 0; n < contenders; ++n) {
      const size_t k = round % 2 == 0 ? n : contenders - 1 - n;
      Contender& c = all[k];
      const double factor = options.hopeless * (c.seconds.size() < 3 ? 2 : 1);
      if (!c.failed.empty() || (k != 0 && !c.seconds.empty() && c.least() > best * factor)) continue;
      const bool first = all[0].seconds.empty();
      if (!first && spent() > options.budget) return all;
      const bool fresh = c.seconds.empty();
      if (fresh && !first && (round > 0 || spent() + longest_start > options.budget)) continue;
      if (progress) progress(round, k);
      const double before = spent();
      try {
        c.seconds.push_back(measure(k));
      } catch (const UserError& e) {
        if (k == 0) throw;
        c.failed = e.diagnostics().front().what;
      } catch (const InternalError& e) {  // a plan that the assembler of a GPU has too few registers for, say
        if (k == 0) throw;
        c.failed = std::string(e.what()).substr(0, std::string(e.what()).find('\n'));
      }
      if (fresh && k != 0) longest_start = std::max(longest_start, spent() - before);
    }
  }
  return all;
}

}  // namespace tilewright
