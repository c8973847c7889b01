#include "tilewright/runtime/calibrate.h"

#include <fmt/format.h>

#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#endif

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "tilewright/emit/cpp_prelude.h"
#include "tilewright/hardware/machine.h"
#include "tilewright/runtime/compile.h"
#include "tilewright/runtime/pool.h"

namespace tilewright {
namespace {

/// Each takes words: address of the data, elements, rounds. Sums go back into the data's first element, so that nothing is left out.
const char* const kSource = R"TEXT(
#define EACH8(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define EACH12(X) EACH8(X) X(8) X(9) X(10) X(11)
#if $REGISTERS >= 32
#define ACCUMULATORS EACH12
#else
#define ACCUMULATORS EACH8
#endif
extern "C" void multiply_adds(const int64* words, int64, int64) {
  const vf a = splat(0.9999999f), b = splat(1e-7f);
#define CLEAR(k) vf acc##k = a;
  ACCUMULATORS(CLEAR)
  for (int64 i = 0; i < words[2]; ++i) {
#define STEP(k) acc##k = acc##k * a + b; asm volatile("" : "+$C"(acc##k));
    ACCUMULATORS(STEP)
  }
  vf sum = {};
#define COLLECT(k) sum += acc##k;
  ACCUMULATORS(COLLECT)
  *(real*)words[0] = sum[0];
}
extern "C" void read_all(const int64* words, int64, int64) {
  const real* p = (const real*)words[0];
  vf sum = {};
  for (int64 r = 0; r < words[2]; ++r) {
#define ZERO(k) vf part##k = {};
    EACH8(ZERO)
    for (int64 i = 0; i + 8 * LANES <= words[1]; i += 8 * LANES) {
#define ADD(k) part##k += ld(p + i + k * LANES);
      EACH8(ADD)
    }
#define GATHER(k) sum += part##k;
    EACH8(GATHER)
    asm volatile("" ::: "memory");
  }
  if (sum[0] == 12345.0f) *(real*)words[0] = sum[0];
}
// Sixteen additions, each of the sum before it.
extern "C" void additions(const int64* words, int64, int64) {
  int64 sum = words[2];
  for (int64 i = 0; i < words[2]; ++i) {
#define NEXT(k) sum += i; asm volatile("" : "+r"(sum));
    EACH8(NEXT) EACH8(NEXT)
  }
  if (sum == 12345) *(real*)words[0] = 1.0f;
}
// Pieces of 1 KiB that lie 16 KiB apart, each begun when the one before it is there, until everything has been read. As copies of kernels do, each brings the piece
// near that comes 4 KiB behind it.
extern "C" void read_runs(const int64* words, int64, int64) {
  enum { PIECE = 256, APART = 16 * PIECE, AHEAD = 4 * APART, LINE = 16 };
  const real* p = (const real*)words[0];
  int64 at = 0;
  for (int64 r = 0; r < words[2]; ++r) {
    for (int64 first = 0; first < APART; first += PIECE)
      for (int64 row = 0; row + APART <= words[1]; row += APART) {
        vf sum = {};
        for (int64 i = 0; i < PIECE; i += LINE) __builtin_prefetch(p + row + AHEAD + first + i);
        for (int64 i = 0; i < PIECE; i += LANES) sum += ld(p + row + first + at + i);
        at = sum[0] < 0.0f;  // no number is
      }
    asm volatile("" ::: "memory");
  }
  if (at != 0) *(real*)words[0] = 1.0f;
}
extern "C" void write_all(const int64* words, int64, int64) {
  real* p = (real*)words[0];
  const vf x = splat(1.0f);
  for (int64 r = 0; r < words[2]; ++r) {
    for (int64 i = 0; i + 8 * LANES <= words[1]; i += 8 * LANES) {
#define PUT(k) st(p + i + k * LANES, x);
      EACH8(PUT)
    }
    asm volatile("" ::: "memory");
  }
}
extern "C" void copy_all(const int64* words, int64, int64) {
  real* p = (real*)words[0];
  const int64 half = words[1] / 2 / (8 * LANES) * (8 * LANES);
  for (int64 r = 0; r < words[2]; ++r) {
    for (int64 i = 0; i < half; i += 8 * LANES) {
#define MOVE(k) st(p + half + i + k * LANES, ld(p + i + k * LANES));
      EACH8(MOVE)
    }
    asm volatile("" ::: "memory");
  }
}
// Four vectors are read, made into results and written, throughout the array.
#define RESULTS(name, make)                                             \
  extern "C" void name(const int64* words, int64, int64) {              \
    real* p = (real*)words[0];                                          \
    for (int64 r = 0; r < words[2]; ++r) {                              \
      for (int64 i = 0; i + 4 * LANES <= words[1]; i += 4 * LANES) {    \
        vf x[4];                                                        \
        for (int c = 0; c < 4; ++c) x[c] = ld(p + i + c * LANES);       \
        make;                                                           \
        for (int c = 0; c < 4; ++c) st(p + i + c * LANES, x[c]);        \
      }                                                                 \
      asm volatile("" ::: "memory");                                    \
    }                                                                   \
  }
RESULTS(exponentials, for (int c = 0; c < 4; ++c) x[c] -= 1.0f; v_exp2(x))
RESULTS(tangents, v_tanh(x))
RESULTS(quotients, for (int c = 0; c < 4; ++c) x[c] = 1.0f / x[c])
// A product of the tiles of a block: 2 panels of 3 vectors, 64 rows, 128 deep; they take more than a first-level cache.
extern "C" void products(const int64* words, int64, int64) {
  real* a = (real*)words[0];
  real *b = a + 2 * 128 * 3 * LANES, *d = b + 64 * 128;
  for (int64 r = 0; r < words[2]; ++r) {
    product<$ROWS, 3>(6 * LANES, 64, 128, d, 64 * 3 * LANES, 3 * LANES, a, 128 * 3 * LANES, 3 * LANES, b, 128, 1, true);
    asm volatile("" ::: "memory");
  }
}
// The first half of the array holds numbers of 16 bits, the second their values.
#define CONVERTED(name, convert)                                                      \
  extern "C" void name(const int64* words, int64, int64) {                            \
    unsigned short* narrow = (unsigned short*)words[0];                               \
    real* wide = (real*)words[0] + words[1] / 2;                                      \
    for (int64 r = 0; r < words[2]; ++r) {                                            \
      for (int64 i = 0; i + LANES <= words[1] / 2; i += LANES) convert;               \
      asm volatile("" ::: "memory");                                                  \
    }                                                                                 \
  }
CONVERTED(widened, st(wide + i, load_f16(narrow + i, 1, LANES)))
CONVERTED(rounded, store_f16(narrow + i, 1, LANES, ld(wide + i)))
)TEXT";

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Keeps the calling thread on the k-th of the cores that it may run on, until the value ends. Two threads that the system puts on one core would halve what
/// both cores do.
class OnCore {
 public:
  explicit OnCore(int k) {
#if defined(__linux__)
    CPU_ZERO(&before_);
    if (pthread_getaffinity_np(pthread_self(), sizeof before_, &before_) != 0) return;
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (!CPU_ISSET(core, &before_) || k-- > 0) continue;
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(core, &one);
      kept_ = pthread_setaffinity_np(pthread_self(), sizeof one, &one) == 0;
      return;
    }
#else
    (void)k;
#endif
  }
  ~OnCore() {
#if defined(__linux__)
    if (kept_) pthread_setaffinity_np(pthread_self(), sizeof before_, &before_);
#endif
  }
  OnCore(const OnCore&) = delete;
  OnCore& operator=(const OnCore&) = delete;

 private:
#if defined(__linux__)
  cpu_set_t before_;
  bool kept_ = false;
#endif
};

struct Freed {
  void operator()(void* p) const { std::free(p); }
};
using Buffer = std::unique_ptr<float, Freed>;

Buffer buffer(int64_t bytes) {
  const size_t size = size_t((bytes + 4095) / 4096 * 4096);
  Buffer b(static_cast<float*>(std::aligned_alloc(4096, size)));
  if (!b) throw std::bad_alloc();
  std::fill(b.get(), b.get() + size / 4, 1.0f);
  return b;
}

class Bench {
 public:
  explicit Bench(const CalibrateOptions& o) : o_(o), threads_(o.threads > 0 ? o.threads : default_threads()) {
    const VectorUnit unit = this_cpu().vector;
    std::string code = kSource;
    auto replace = [&](const std::string& what, const std::string& with) {
      for (size_t at; (at = code.find(what)) != std::string::npos;) code.replace(at, what.size(), with);
    };
    replace("$ROWS", unit.registers >= 32 ? "8" : "4");  // as the mapping for CPUs takes them
    replace("$REGISTERS", std::to_string(unit.registers));
    // The register class of vectors: x86's x, v with 32 of them, aarch64's w.
#if defined(__aarch64__)
    replace("$C", "w");
#else
    replace("$C", unit.registers >= 32 ? "v" : "x");
#endif
    lanes_ = unit.bytes / 4;
    accumulators_ = unit.registers >= 32 ? 12 : 8;
    module_ = CpuModule::load(cpp_prelude(code, unit, DType::f32) + code, unit.flags);
  }

  int threads() const { return threads_; }

  double fma(int threads) const {
    return best(module_->entry("multiply_adds"), threads, 64, double(accumulators_) * double(lanes_) * 2);
  }
  /// Results per second of a kernel that makes one for each element of 16 KiB, or for each of half of them.
  double results(const char* kernel, int threads, double share = 1) const {
    return best(module_->entry(kernel), threads, 16384, 4096 * share);
  }
  /// Operations of products per second, by the function that kernels use.
  double products(int threads) const {
    const int64_t lanes = 6 * lanes_;
    return best(module_->entry("products"), threads, 4 * (128 * lanes + 64 * 128 + 64 * lanes),
                2.0 * double(lanes) * 64 * 128);
  }
  /// Elements widened and rounded, as many of each.
  double conversions(int threads) const {
    return 2 / (1 / results("widened", threads, 0.5) + 1 / results("rounded", threads, 0.5));
  }
  /// Clocks per second of a core.
  double clock() const { return best(module_->entry("additions"), 1, 64, 16); }
  /// Pieces of 1 KiB, each in another page and brought near ahead of its use, that are read per second from arrays of `bytes` for each thread.
  double runs(int threads, int64_t bytes) const {
    bytes = bytes / 16384 * 16384;
    return best(module_->entry("read_runs"), threads, bytes, double(bytes) / 1024);
  }
  /// Empty tasks per second.
  double tasks() const {
    constexpr int64_t all = 50000;
    double least = __builtin_inf();
    for (int round = 0; round < 20; ++round) {
      const double begin = seconds_now();
      parallel_for(
          all, 1, threads_, [](void*, int64_t, int64_t) {}, nullptr);
      least = std::min(least, seconds_now() - begin);
    }
    return all / least;
  }
  /// Bytes per second on arrays of `bytes` for each thread.
  double rate(const char* kernel, int threads, int64_t bytes) const {
    return best(module_->entry(kernel), threads, bytes, double(bytes));
  }
  /// Seconds from one parallel region to the next in which every thread takes part: each task waits until all have begun, so that no thread takes two.
  double launch() const {
    struct Meeting {
      std::atomic<int> begun{0};
      int all = 1;
    } meeting;
    meeting.all = threads_;
    const auto meet = [](void* context, int64_t, int64_t) {
      Meeting& m = *static_cast<Meeting*>(context);
      ++m.begun;
      // A thread that another process holds up is not waited for longer than a turn of the system's scheduler.
      const double begin = seconds_now();
      while (m.begun.load() < m.all && seconds_now() - begin < 0.01) std::this_thread::yield();
    };
    std::vector<double> means;
    for (int round = 0; round < 40; ++round) {
      constexpr int regions = 25;
      const double begin = seconds_now();
      for (int k = 0; k < regions; ++k) {
        meeting.begun = 0;
        parallel_for(threads_, 1, threads_, meet, &meeting);
      }
      means.push_back((seconds_now() - begin) / regions);
    }
    return *std::min_element(means.begin(), means.end());
  }

 private:
  /// Best `amount` per second of a round, all threads together. A run takes a few milliseconds, less than a turn of the system's scheduler, so that some
  /// runs have the cores to themselves on a machine that does other things too; runs are repeated until the best has stood for a while.
  double best(CpuModule::Entry entry, int threads, int64_t bytes, double amount) const {
    std::vector<Buffer> data;
    for (int t = 0; t < threads; ++t) data.push_back(buffer(bytes));
    int64_t rounds = 1;
    std::atomic<int> waiting{0}, turn{0};
    std::atomic<bool> over{false};
    std::vector<double> begins(size_t(threads), 0.0), ends(size_t(threads), 0.0);
    const auto work = [&](int t) {
      const int64_t words[3] = {reinterpret_cast<int64_t>(data[size_t(t)].get()), bytes / 4, rounds};
      --waiting;
      while (waiting.load() > 0) std::this_thread::yield();
      begins[size_t(t)] = seconds_now();
      entry(words, 0, 1);
      ends[size_t(t)] = seconds_now();
    };
    // The others stay from run to run.
    std::atomic<int> left{0};
    std::vector<std::thread> others;
    for (int t = 1; t < threads; ++t)
      others.emplace_back([&, t] {
        const OnCore core(t);
        for (int seen = 0; !over.load();) {
          if (turn.load() == seen) {
            std::this_thread::yield();
            continue;
          }
          ++seen;
          work(t);
          --left;
        }
      });
    const OnCore core(0);
    const auto run = [&] {
      waiting = threads;
      left = threads - 1;
      ++turn;
      work(0);
      while (left.load() > 0) std::this_thread::yield();
      return *std::max_element(ends.begin(), ends.end()) - *std::min_element(begins.begin(), begins.end());
    };
    // One run may be held up by what else the machine does: the shorter of two says how long it takes.
    const auto shorter = [&] {
      const double first = run();
      return std::min(first, run());
    };
    double seconds = shorter();
    while (seconds < o_.seconds / 32 && rounds < (int64_t(1) << 40)) {
      rounds *= seconds < o_.seconds / 512 ? 8 : 2;
      seconds = shorter();
    }
    const double begin = seconds_now();
    for (int since = 0; since < 8 || seconds_now() - begin < o_.seconds; ++since) {
      const double here = run();
      if (here < 0.995 * seconds) since = 0;
      seconds = std::min(seconds, here);
      if (seconds_now() - begin > 8 * o_.seconds) break;
    }
    over = true;
    for (std::thread& t : others) t.join();
    return amount * double(rounds) * threads / seconds;
  }

  CalibrateOptions o_;
  int threads_ = 1, lanes_ = 4, accumulators_ = 8;
  std::shared_ptr<CpuModule> module_;
};

}  // namespace

std::vector<int64_t> cache_sizes(const std::vector<std::pair<int64_t, double>>& rates) {
  std::vector<int64_t> sizes;
  size_t first = 0;
  while (first < rates.size()) {
    double inside = rates[first].second;
    size_t last = first;
    for (size_t k = first + 1; k < rates.size() && rates[k].second > 0.75 * inside; ++k) {
      inside = std::max(inside, rates[k].second);
      last = k;
    }
    if (last + 1 >= rates.size()) break;  // it never ends: that is the memory
    sizes.push_back(rates[last].first);
    // The next plateau begins where the rate stops falling.
    first = last + 1;
    while (first + 1 < rates.size() && rates[first + 1].second < 0.85 * rates[first].second) ++first;
  }
  return sizes;
}

MachineFile calibrate_cpu(const CalibrateOptions& o) {
  MachineFile m = detect_cpu();
  Bench bench(o);
  const int all = bench.threads();
  std::vector<int64_t> sizes;
  for (int64_t size = 8192; size <= o.largest; size *= 2)
    for (int64_t s : {size, size + size / 2})
      if (s <= o.largest) sizes.push_back(s);
  // Everything is measured several times over, so that what holds up one pass is gone in another.
  constexpr int passes = 3;
  const int steps = passes * (int(sizes.size()) + 10 + 4 * 4);
  int done = 0;
  auto next = [&](const std::string& what) {
    if (o.progress) o.progress(what, done, steps);
    ++done;
  };
  const std::string source = "measured";
  m.sources[source] = fmt::format(
      "tilewright hardware calibrate, {} threads, best of many short runs in {} passes", all, passes);
  auto set = [&](MaybeFigure& f, double value, const std::string& name) {
    f = Figure{value, source};
    m.unknown.erase(name);
  };
  std::vector<std::pair<int64_t, double>> rates;
  for (int64_t size : sizes) rates.emplace_back(size, 0);
  for (int pass = 0; pass < passes; ++pass)
    for (auto& [size, rate] : rates) {
      next(fmt::format("reads of {}", quantity(double(size), "bytes")));
      rate = std::max(rate, bench.rate("read_all", 1, size));
    }
  // Caches nearest first: L1, L2, L3. A size that the system tells is kept.
  const std::vector<int64_t> found = cache_sizes(rates);
  auto named = [&](const std::string& name) -> MemoryLevel& {
    return *std::find_if(m.levels.begin(), m.levels.end(),
                         [&](const MemoryLevel& l) { return l.name == name; });
  };
  const char* const names[] = {"L1", "L2", "L3"};
  for (size_t k = 0; k < 3; ++k) {
    MemoryLevel& l = named(names[k]);
    if (!l.capacity && k < found.size())
      set(l.capacity, double(found[k]), fmt::format("levels.{}.capacity", l.name));
  }
  // Virtual machines report a third level that they have a part of: what is measured counts, and a level whose end is not seen is not told apart from
  // the memory.
  if (found.size() > 2) set(named("L3").capacity, double(found[2]), "levels.L3.capacity");
  if (!named("L3").capacity || (found.size() < 3 && named("L3").capacity->value > double(o.largest) / 2)) {
    std::erase_if(m.levels, [&](const MemoryLevel& l) { return l.name == "L3"; });
    m.unknown["levels.L3"] =
        fmt::format("reads of up to {} show no third level", quantity(double(o.largest), "bytes"));
  }
  struct Job {
    std::string what, name;
    MaybeFigure& figure;
    std::function<double()> rate;  ///< per second; of the launch, launches
  };
  std::vector<Job> jobs;
  // Each level is read from the one before it: arrays that fit that one and not this one.
  for (size_t k = 1; k < m.levels.size(); ++k) {
    MemoryLevel& l = m.levels[k];
    const MemoryLevel& from = m.levels[k - 1];
    int64_t bytes = o.largest / all;
    if (k > 1 && from.capacity) {
      const double here = l.role == "registers" ? 0 : l.capacity ? l.capacity->value : 0;
      const bool own = from.units.has_value();
      bytes = int64_t(std::max(from.capacity->value / (own ? 1 : all) * 0.6, here * 1.5));
      bytes = std::min(bytes, o.largest / all);
    }
    bytes = bytes / 4096 * 4096;
    const std::string name = fmt::format("levels.{}.bandwidth", l.name);
    const auto job = [&](const std::string& what, MaybeFigure& figure, const char* kernel, int threads) {
      jobs.push_back({what, name, figure,
                      [&bench, kernel, threads, bytes] { return bench.rate(kernel, threads, bytes); }});
    };
    job(fmt::format("reads from {}", from.name), l.bandwidth, "read_all", all);
    job(fmt::format("writes to {}", from.name), l.writes, "write_all", all);
    job(fmt::format("copies in {}", from.name), l.copies, "copy_all", all);
    job(fmt::format("reads from {} by one core", from.name), l.one_core, "read_all", 1);
  }
  jobs.push_back({"multiply-adds", "rates.fma_f32", m.fma_f32, [&] { return bench.fma(all); }});
  jobs.push_back({"products", "rates.products", m.products, [&] { return bench.products(all); }});
  jobs.push_back(
      {"exponentials", "rates.special", m.special, [&] { return bench.results("exponentials", all); }});
  jobs.push_back(
      {"quotients", "rates.quotients", m.quotients, [&] { return bench.results("quotients", all); }});
  jobs.push_back({"tanh", "rates.tangents", m.tangents, [&] { return bench.results("tangents", all); }});
  jobs.push_back({"conversions", "rates.conversions", m.conversions, [&] { return bench.conversions(all); }});
  jobs.push_back({"clock", "rates.clock", m.clock, [&] { return bench.clock(); }});
  jobs.push_back(
      {"pieces in other pages", "rates.runs", m.runs, [&, all] { return bench.runs(all, o.largest / all); }});
  jobs.push_back({"tasks", "rates.tasks", m.tasks, [&] { return bench.tasks(); }});
  jobs.push_back({"parallel regions", "transfers.launch", m.launch, [&] { return 1 / bench.launch(); }});
  std::vector<double> best(jobs.size(), 0);
  for (int pass = 0; pass < passes; ++pass)
    for (size_t k = 0; k < jobs.size(); ++k) {
      next(jobs[k].what);
      best[k] = std::max(best[k], jobs[k].rate());
    }
  for (size_t k = 0; k < jobs.size(); ++k)
    set(jobs[k].figure, &jobs[k].figure == &m.launch ? 1 / best[k] : best[k], jobs[k].name);
  m.sources["derived"] = "half of fma_f32: a vector holds half as many";
  m.fma_f64 = Figure{m.fma_f32->value / 2, "derived"};
  m.unknown.erase("rates.fma_f64");
  for (auto it = m.unknown.begin(); it != m.unknown.end();)
    it = it->second.find("calibrate") != std::string::npos ? m.unknown.erase(it) : std::next(it);
  return m;
}

}  // namespace tilewright
