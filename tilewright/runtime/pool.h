// A small pool of threads with dynamic scheduling, fork-safe: the pool is rebuilt in a child process.
#pragma once
#include <cstdint>

namespace tilewright {

/// Runs body(ctx, begin, end) over [0, n) in ranges of `grain` on `threads` threads (0: all cores), the caller included. Exceptions do not cross.
void parallel_for(int64_t n, int64_t grain, int threads, void (*body)(void* ctx, int64_t begin, int64_t end),
                  void* ctx);
int default_threads();

}  // namespace tilewright
