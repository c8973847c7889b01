#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "cli/output.h"

namespace tilewright::cli {

Progress::Progress(std::string what, Piped piped) : what_(std::move(what)), terminal_(isatty(2)) {
  if (terminal_ || piped == Piped::Lines) thread_ = std::thread([this] { show(); });
}

Progress::~Progress() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    done_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Progress::now(std::string what) {
  std::lock_guard lock(mutex_);
  what_ = std::move(what);
}

void Progress::show() {
  using namespace std::chrono;
  const auto begin = steady_clock::now();
  const auto first = terminal_ ? seconds(2) : seconds(5), step = terminal_ ? seconds(1) : seconds(5);
  std::unique_lock lock(mutex_);
  bool shown = false;
  for (auto next = begin + first; !wake_.wait_until(lock, next, [this] { return done_; }); next += step) {
    const auto spent = duration_cast<seconds>(steady_clock::now() - begin).count();
    tell(terminal_ ? fmt::format("\r{} … {} s\033[K", what_, spent)
                   : fmt::format("{} … {} s\n", what_, spent));
    std::fflush(stderr);
    shown = terminal_;
  }
  if (shown) {
    tell("\r\033[K");
    std::fflush(stderr);
  }
}

}  // namespace tilewright::cli
