// The pool: every index once, nested loops, many callers, forked children.
#include "tilewright/runtime/pool.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

namespace tilewright::runtime_pool_test {
namespace {

struct Counts {
  std::vector<std::atomic<int>> hits;
  explicit Counts(size_t n) : hits(n) {}
  static void body(void* ctx, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) ++static_cast<Counts*>(ctx)->hits[static_cast<size_t>(i)];
  }
  bool all(int n) const {
    for (const auto& h : hits)
      if (h != n) return false;
    return true;
  }
};

TEST(Pool, EveryIndexOnce) {
  for (int64_t n : {0, 1, 7, 1000})
    for (int threads : {0, 1, 2, 5})
      for (int64_t grain : {1, 3, 2000}) {
        Counts c(static_cast<size_t>(n));
        parallel_for(n, grain, threads, Counts::body, &c);
        EXPECT_TRUE(c.all(1)) << n << " " << threads << " " << grain;
      }
}

TEST(Pool, NestedLoopsRun) {
  Counts c(64);
  parallel_for(
      8, 1, 4,
      [](void* ctx, int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          parallel_for(
              8, 1, 4, [](void* inner, int64_t b, int64_t e) { Counts::body(inner, b, e); }, ctx);
      },
      &c);
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(c.hits[i], 8);
}

TEST(Pool, ManyCallers) {
  Counts c(100);
  std::vector<std::thread> callers;
  for (int k = 0; k < 4; ++k) callers.emplace_back([&] { parallel_for(100, 1, 3, Counts::body, &c); });
  for (auto& t : callers) t.join();
  EXPECT_TRUE(c.all(4));
}

TEST(Pool, WorksInAForkedChild) {
  Counts c(100);
  parallel_for(100, 1, 4, Counts::body, &c);
  const pid_t pid = fork();
  if (pid == 0) {
    Counts mine(100);
    parallel_for(100, 1, 4, Counts::body, &mine);
    _exit(mine.all(1) ? 0 : 1);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace tilewright::runtime_pool_test
