// Ceilings of the machine, all threads at once.
// extern "C" double fma_peak(int threads, int cpu): f32 GFLOP/s of widest vectors and independent accumulators in registers.
// extern "C" double read_rate(const float* data, long n, int threads, int cpu): GB/s at which n elements are read once, in equal parts.
// extern "C" double dot_peak(int threads, int cpu), tile_peak(int threads, int cpu): bf16 GFLOP/s of dot products of pairs in vector registers, and of tile
// registers; 0 where the machine has none.
// `cpu`: by the CPU time of the process, shared among the threads, instead of by the clock on the wall.
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

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

#if defined(__AVX512BF16__)
__attribute__((noinline)) static float burn_dots(long n) {
  vf a;
  for (int k = 0; k < int(sizeof(vf) / 4); ++k) a[k] = 1e-3f * float(k);
#define DECLARE_DOT(k) vf acc##k = {};
  EACH(DECLARE_DOT)
  for (long i = 0; i < n; ++i) {
#define DOT(k) asm volatile("vdpbf16ps %1, %1, %0" : "+v"(acc##k) : "v"(a));
    EACH(DOT)
  }
  float sum = 0;
  EACH(COLLECT)
  return sum;
}
#endif

#if defined(__AMX_TILE__) && defined(__AMX_BF16__)
struct alignas(64) TileShape {
  unsigned char palette = 1, start = 0, reserved[14] = {};
  unsigned short bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  unsigned char rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

__attribute__((noinline)) static float burn_tiles(long n) {
  const TileShape shape;
  asm volatile("ldtilecfg %0" : : "m"(shape));
  asm volatile(
      "tilezero %tmm0\n\ttilezero %tmm1\n\ttilezero %tmm2\n\ttilezero %tmm3\n\t"
      "tilezero %tmm4\n\ttilezero %tmm5\n\ttilezero %tmm6\n\ttilezero %tmm7");
  for (long i = 0; i < n; ++i)
    asm volatile(
        "tdpbf16ps %tmm6, %tmm4, %tmm0\n\ttdpbf16ps %tmm7, %tmm4, %tmm1\n\t"
        "tdpbf16ps %tmm6, %tmm5, %tmm2\n\ttdpbf16ps %tmm7, %tmm5, %tmm3");
  asm volatile("tilerelease");
  return 0;
}
#endif

template <class F>
static double rate_of(F burn_some, double operations, int threads, int cpu) {
  volatile float sink = 0;
  const double begin = now(threads, cpu);
  std::vector<std::thread> workers;
  for (int t = 1; t < threads; ++t) workers.emplace_back([&] { sink = burn_some(); });
  sink = burn_some();
  for (auto& w : workers) w.join();
  return threads * operations / (now(threads, cpu) - begin) * 1e-9;
}

extern "C" double dot_peak(int threads, int cpu) {
#if defined(__AVX512BF16__)
  const long n = 10000000;
  return rate_of([=] { return burn_dots(n); }, double(n) * kAccumulators * double(sizeof(vf) / 4) * 4,
                 threads, cpu);
#else
  (void)threads, (void)cpu;
  return 0;
#endif
}

extern "C" double tile_peak(int threads, int cpu) {
#if defined(__AMX_TILE__) && defined(__AMX_BF16__)
  if (syscall(SYS_arch_prctl, 0x1023, 18) != 0) return 0;  // permission for tile registers
  const long n = 1000000;
  return rate_of([=] { return burn_tiles(n); }, double(n) * 4 * 16 * 16 * 32 * 2, threads, cpu);
#else
  (void)threads, (void)cpu;
  return 0;
#endif
}
