// Emitted CUDA as C++: what stands in front of a source so that the system compiler takes it and one host thread runs the threads of a block in turn. Threads
// of a warp must come to the same exchanges; of a block, to the same barriers.
#pragma once

namespace tilewright::testing {

/// `emulated_run(body, begin, end)` calls the body once for each thread of blocks [begin, end).
inline const char* const emulated_cuda = R"(
#include <cmath>
#include <functional>
#include <ucontext.h>
#include <vector>
#define __device__
#define __forceinline__ inline
#define __global__
#define __launch_bounds__(n)
#define __grid_constant__
#define __shared__ static
using std::floor, std::fmax, std::fmin;
struct TensorMap;
struct Place { int x; };
static Place threadIdx, blockIdx, blockDim{96};
static ucontext_t emulated_main, emulated_threads[96];
static long long emulated_slots[2][96];
static int emulated_phase[96], emulated_arrived;
static bool emulated_done[96];
static const std::function<void()>* emulated_body;
static void emulated_yield() {
  const int t = threadIdx.x;
  swapcontext(&emulated_threads[t], &emulated_main);
}
static void emulated_start() {
  (*emulated_body)();
  emulated_done[threadIdx.x] = true;
}
static long long* emulated_exchange(long long x) {
  const int t = threadIdx.x, phase = emulated_phase[t]++ & 1;
  emulated_slots[phase][t] = x;
  emulated_yield();
  return emulated_slots[phase] + t / 32 * 32;
}
static long long __shfl_xor_sync(unsigned, long long x, int far) { return emulated_exchange(x)[(threadIdx.x & 31) ^ far]; }
static int __reduce_min_sync(unsigned, int x) {
  const long long* all = emulated_exchange(x);
  long long y = all[0];
  for (int k = 1; k < 32; ++k) y = all[k] < y ? all[k] : y;
  return int(y);
}
static int __reduce_max_sync(unsigned, int x) { return -__reduce_min_sync(0, -x); }
static void __syncthreads() {
  ++emulated_arrived;
  do emulated_yield();
  while (emulated_arrived % blockDim.x != 0);
}
static double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }
static void emulated_run(const std::function<void()>& body, long long begin, long long end) {
  static std::vector<std::vector<char>> stacks(blockDim.x, std::vector<char>(1 << 16));
  emulated_body = &body;
  for (blockIdx.x = int(begin); blockIdx.x < end; ++blockIdx.x) {
    emulated_arrived = 0;
    for (int t = 0; t < blockDim.x; ++t) {
      emulated_done[t] = false, emulated_phase[t] = 0;
      getcontext(&emulated_threads[t]);
      emulated_threads[t].uc_stack.ss_sp = stacks[t].data();
      emulated_threads[t].uc_stack.ss_size = stacks[t].size();
      emulated_threads[t].uc_link = &emulated_main;
      makecontext(&emulated_threads[t], emulated_start, 0);
    }
    for (bool live = true; live;) {
      live = false;
      for (int t = 0; t < blockDim.x; ++t) {
        if (emulated_done[t]) continue;
        threadIdx.x = t;
        swapcontext(&emulated_main, &emulated_threads[t]);
        live = true;
      }
    }
  }
}
)";

}  // namespace tilewright::testing
