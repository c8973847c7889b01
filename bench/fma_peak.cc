// The machine's f32 FMA peak: widest vectors, independent accumulators, all threads at once. extern "C" double fma_peak(int threads): GFLOP/s.
#include <chrono>
#include <thread>
#include <vector>

#if defined(__AVX512F__)
constexpr int kBytes = 64, kAccumulators = 16;
#elif defined(__AVX__)
constexpr int kBytes = 32, kAccumulators = 12;
#else
constexpr int kBytes = 16, kAccumulators = 12;
#endif
typedef float vf __attribute__((vector_size(kBytes)));

__attribute__((noinline)) static float burn(long n) {
  vf acc[kAccumulators], a, b;
  for (int k = 0; k < int(sizeof(vf) / 4); ++k) a[k] = 1.0f - 1e-7f * float(k), b[k] = 1e-7f;
  for (auto& x : acc) x = a;
  for (long i = 0; i < n; ++i) {
#pragma GCC unroll 16
    for (int k = 0; k < kAccumulators; ++k) {
      acc[k] = acc[k] * a + b;
      asm volatile("" : "+x"(acc[k]));
    }
  }
  float sum = 0;
  for (auto& x : acc) sum += x[0];
  return sum;
}

extern "C" double fma_peak(int threads) {
  const long n = 20000000;
  volatile float sink = 0;
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::thread> workers;
  for (int t = 1; t < threads; ++t) workers.emplace_back([&] { sink = burn(n); });
  sink = burn(n);
  for (auto& w : workers) w.join();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return double(threads) * double(n) * kAccumulators * double(sizeof(vf) / 4) * 2 / seconds * 1e-9;
}
