// What a long step is doing, on standard error.
#pragma once
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace tilewright::cli {

/// Where standard error is no terminal: nothing, or a line every few seconds for steps that take minutes.
enum class Piped { Silent, Lines };

/// Shows "what … 3 s" on standard error from two seconds on, where that is a terminal; the line is erased when the step ends.
class Progress {
 public:
  explicit Progress(std::string what, Piped piped = Piped::Silent);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// What it does from here on.
  void now(std::string what);

 private:
  void show();

  std::string what_;
  const bool terminal_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace tilewright::cli
