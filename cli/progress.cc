#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "cli/output.h"

namespace tilewright::cli {

Progress::Progress(std::string what) : what_(std::move(what)) {
  if (isatty(2)) thread_ = std::thread([this] { show(); });
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

void Progress::show() {
  using namespace std::chrono;
  const auto begin = steady_clock::now();
  std::unique_lock lock(mutex_);
  bool shown = false;
  for (auto next = begin + seconds(2); !wake_.wait_until(lock, next, [this] { return done_; });
       next += seconds(1)) {
    tell(
        fmt::format("\r{} … {} s\033[K", what_, duration_cast<seconds>(steady_clock::now() - begin).count()));
    std::fflush(stderr);
    shown = true;
  }
  if (shown) {
    tell("\r\033[K");
    std::fflush(stderr);
  }
}

}  // namespace tilewright::cli
