// Ceilings of the machine, all threads at once.
// extern "C" double fma_peak(int threads, int cpu): f32 GFLOP/s of widest vectors and independent accumulators in registers.
// extern "C" double read_rate(const float* data, long n, int threads, int cpu): GB/s at which n elements are read once, in equal parts.
// `cpu`: by the CPU time of the process, shared among the threads, instead of by the clock on the wall.
#include <time.h>

#include <thread>
#include <vector>

#if defined(__AVX512F__)
constexpr int kBytes = 64;
#elif defined(__AVX__)
constexpr int kBytes = 32;
#else
constexpr int kBytes = 16;
#endif
constexpr int kAccumulators = 12;
typedef float vf __attribute__((vector_size(kBytes)));

// Named variables, since arrays of vectors do not always stay in registers.
#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

__attribute__((noinline)) static float burn(long n) {
  vf a, b;
  for (int k = 0; k < int(sizeof(vf) / 4); ++k) a[k] = 1.0f - 1e-7f * float(k), b[k] = 1e-7f;
#define DECLARE(k) vf acc##k = a;
  EACH(DECLARE)
  for (long i = 0; i < n; ++i) {
#define STEP(k)            \
  acc##k = acc##k * a + b; \
  asm volatile("" : "+x"(acc##k));
    EACH(STEP)
  }
  float sum = 0;
#define COLLECT(k) sum += acc##k[0];
  EACH(COLLECT)
  return sum;
}

static double now(int threads, int cpu) {
  timespec t;
  clock_gettime(cpu ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return (double(t.tv_sec) + 1e-9 * double(t.tv_nsec)) / (cpu ? threads : 1);
}

extern "C" double fma_peak(int threads, int cpu) {
  const long n = 20000000;
  volatile float sink = 0;
  const double begin = now(threads, cpu);
  std::vector<std::thread> workers;
  for (int t = 1; t < threads; ++t) workers.emplace_back([&] { sink = burn(n); });
  sink = burn(n);
  for (auto& w : workers) w.join();
  const double seconds = now(threads, cpu) - begin;
  return double(threads) * double(n) * kAccumulators * double(sizeof(vf) / 4) * 2 / seconds * 1e-9;
}

__attribute__((noinline)) static float read(const float* p, long n) {
  constexpr int kLanes = int(sizeof(vf) / 4);
  typedef float vf_any __attribute__((vector_size(kBytes), aligned(4)));
#define CLEAR(k) vf acc##k = {};
  EACH(CLEAR)
  for (long i = 0; i + 12 * kLanes <= n; i += 12 * kLanes) {
#define ADD(k) acc##k += *(const vf_any*)(p + i + k * kLanes);
    EACH(ADD)
  }
  float sum = 0;
  EACH(COLLECT)
  return sum;
}

extern "C" double read_rate(const float* data, long n, int threads, int cpu) {
  volatile float sink = 0;
  const long part = n / threads;
  const double begin = now(threads, cpu);
  std::vector<std::thread> workers;
  for (int t = 1; t < threads; ++t) workers.emplace_back([&, t] { sink = read(data + t * part, part); });
  sink = read(data, part);
  for (auto& w : workers) w.join();
  const double seconds = now(threads, cpu) - begin;
  return double(part) * threads * 4 / seconds * 1e-9;
}
