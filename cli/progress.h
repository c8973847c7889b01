// A line on standard error that tells what a long step is doing.
#pragma once
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace tilewright::cli {

/// Shows "what … 3 s" on standard error from two seconds on, where that is a terminal; the line is erased when the step ends. Nothing otherwise.
class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

 private:
  void show();

  const std::string what_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace tilewright::cli
