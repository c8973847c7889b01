#include "tilewright/runtime/pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace tilewright {

namespace {

/// One parallel loop: workers take ranges from `next` until n.
struct Job {
  int64_t n = 0, grain = 1;
  void (*body)(void*, int64_t, int64_t) = nullptr;
  void* ctx = nullptr;
  std::atomic<int64_t> next{0};
  void work() {
    for (;;) {
      const int64_t begin = next.fetch_add(grain, std::memory_order_relaxed);
      if (begin >= n) return;
      body(ctx, begin, std::min(n, begin + grain));
    }
  }
};

class Pool {
 public:
  /// Runs `job` on the caller and up to threads − 1 workers.
  void run(Job& job, int threads) {
    std::unique_lock lock(mutex_);
    while (static_cast<int>(workers_.size()) < threads - 1) workers_.emplace_back([this] { loop(); });
    job_ = &job;
    wanted_ = threads - 1;
    joined_ = finished_ = 0;
    ++generation_;
    wake_.notify_all();
    lock.unlock();
    job.work();
    lock.lock();
    // Workers that have not started yet are no longer needed.
    wanted_ = joined_;
    done_.wait(lock, [this] { return finished_ == joined_; });
    job_ = nullptr;
  }

  ~Pool() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (std::thread& t : workers_) t.join();
  }

 private:
  void loop() {
    uint64_t seen = 0;
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return stop_ || generation_ != seen; });
      if (stop_) return;
      seen = generation_;
      if (job_ == nullptr || joined_ >= wanted_) continue;
      ++joined_;
      Job* job = job_;
      lock.unlock();
      job->work();
      lock.lock();
      if (++finished_ == joined_) done_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::vector<std::thread> workers_;
  Job* job_ = nullptr;
  int wanted_ = 0, joined_ = 0, finished_ = 0;
  uint64_t generation_ = 0;
  bool stop_ = false;
};

// A child process inherits no threads: after fork the pool is abandoned (its threads do not exist) and made anew. At exit it is left to the system,
// since worker threads must not be joined from static destructors of a process that is being torn down.
Pool* pool = nullptr;
std::mutex run_mutex;  // one parallel loop at a time; a second caller works alone
thread_local bool inside = false;

void reset_in_child() {
  pool = nullptr;
  new (&run_mutex) std::mutex();
}

}  // namespace

int default_threads() {
  static const int threads = [] {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  }();
  return threads;
}

void parallel_for(int64_t n, int64_t grain, int threads, void (*body)(void*, int64_t, int64_t), void* ctx) {
  if (n <= 0) return;
  grain = std::max<int64_t>(1, grain);
  if (threads <= 0) threads = default_threads();
  threads = static_cast<int>(std::min<int64_t>(threads, (n + grain - 1) / grain));
  std::unique_lock<std::mutex> lock(run_mutex, std::defer_lock);
  if (threads == 1 || inside || !lock.try_lock()) {
    body(ctx, 0, n);
    return;
  }
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, reset_in_child); });
  if (pool == nullptr) pool = new Pool;
  Job job;
  job.n = n;
  job.grain = grain;
  job.body = body;
  job.ctx = ctx;
  inside = true;
  pool->run(job, threads);
  inside = false;
}

}  // namespace tilewright
