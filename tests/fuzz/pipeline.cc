// Random programs through the whole pipeline: parsed, derived, planned and run as tile programs, and compared with
// the definition. A program may be refused (a UserError) by any stage; it may not crash, hang or be wrong.
//
//   fuzz_pipeline [FOLDER...]   first each .tw file of the folders, which must run and be right
//
// TILEWRIGHT_FUZZ_PROGRAMS  number of programs (a fixed number by default)
// TILEWRIGHT_FUZZ_SEED      seed of the first; program k has seed + k
// TILEWRIGHT_FUZZ_CPU=1     also compiles and runs each program for this CPU
// TILEWRIGHT_FUZZ_MAPPED=1  also as mapped for GPUs, sm_90a and sm_80, on the interpreter that finds races; they refuse more
// TILEWRIGHT_FUZZ_CUDA=1    also on a GPU, which refuses more
// TILEWRIGHT_FUZZ_STRICT=1  a fault that an internal check stopped fails the run
// TILEWRIGHT_FUZZ_VERBOSE=1 prints each refusal and each program that was stopped
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/fuzz/generator.h"
#include "tilewright/driver/session.h"

namespace tilewright::fuzz {
namespace {

constexpr uint64_t default_programs = 1500, default_seed = 1;
constexpr unsigned hang_seconds = 60;

uint64_t number_from(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text && *text ? std::strtoull(text, nullptr, 10) : otherwise;
}

char now_running[8192];
void on_alarm(int) {
  const char what[] = "a program did not end in time:\n";
  if (write(2, what, sizeof what - 1) < 0 || write(2, now_running, strlen(now_running)) < 0) _exit(2);
  _exit(1);
}

/// Stopped: a fault of ours that an internal check stopped, such as the checks that every derivation goes through
/// (exit status 3 of the command). Nothing wrong is computed, but it is a fault.
enum class Outcome { Right, Refused, Stopped, Wrong };

struct Result {
  Outcome outcome = Outcome::Right;
  std::string message;
};

/// Rounding alone may exceed the rule of `check` on outputs of a few elements, where the naive program happens to
/// be nearly exact; what is compared here is the meaning.
bool close(const OutputCheck& c, const Program& p) {
  if (c.comparison.passed) return true;
  int bits = mantissa_bits(DType::f32);  // operands may be rounded to the narrowest input
  for (const Input& in : p.inputs)
    if (is_float(in.dtype)) bits = std::min(bits, mantissa_bits(in.dtype));
  for (const Output& o : p.outputs)
    if (o.sym.name() == c.name && !is_float(o.dtype)) return false;
  return std::isfinite(c.got) && std::isfinite(c.expected) &&
         c.comparison.error <=
             64 * c.comparison.tolerance + 8 * std::ldexp(1 + std::fabs(c.expected), -bits - 1);
}

/// Where a program runs; `arch` of the GPU that its kernels are made for, empty: as the target has it.
struct Place {
  Target target = Target::Interp;
  std::string arch = {};
  bool gpu() const { return target == Target::Cuda || target == Target::InterpMapped; }
  std::string text() const { return arch.empty() ? name(target) : fmt::format("{} {}", name(target), arch); }
};

Result run(const Generated& g, const Place& place, uint64_t seed) {
  try {
    const Program p = parse_program(std::make_shared<SourceText>(SourceText{"generated.tw", g.text}));
    CompileOptions compile;
    compile.target = place.target;
    compile.arch = place.arch;
    compile.threads = 1;
    compile.schedule = g.schedule;
    SessionOptions options;
    options.sizes = g.sizes;
    options.seed = seed;
    Session session(p, compile, options);
    session.run(0, 1);
    for (const OutputCheck& c : session.check()) {
      if (!close(c, p))
        return {Outcome::Wrong,
                fmt::format("output {} [{}] is {} and should be {}: error {} over {}; {}; plan {}", c.name,
                            shape_text(c.index), c.got, c.expected, c.comparison.error,
                            c.comparison.tolerance, c.comparison.reason, session.kernel().last_plan())};
    }
  } catch (const UserError& e) {
    return {Outcome::Refused, e.diagnostics()[0].what};
  } catch (const InternalError& e) {
    return {Outcome::Stopped, e.what()};
  } catch (const std::exception& e) {
    return {Outcome::Wrong, std::string("an exception: ") + e.what()};
  }
  return {};
}

/// Programs that were wrong or stopped once. Axes of no declared size get 5, j gets 7.
int run_files(const std::vector<std::string>& folders) {
  std::vector<std::string> names;
  for (const std::string& folder : folders)
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      if (entry.path().extension() == ".tw") names.push_back(entry.path().string());
  std::sort(names.begin(), names.end());
  int wrong = 0;
  for (const std::string& name : names) {
    std::ifstream file(name, std::ios::binary);
    Generated g;
    g.text.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    const Program p = parse_program(std::make_shared<SourceText>(SourceText{name, g.text}));
    for (int64_t columns : {7, 0, 130}) {
      for (const Axis& a : p.axes)
        if (!a.size) g.sizes[a.name()] = a.name() == "j" ? columns : 5;
      const Result r = run(g, Place{}, 1);
      if (r.outcome == Outcome::Right) continue;
      fmt::print("{} with j={}: {}\n", name, columns, r.message);
      ++wrong;
    }
  }
  fmt::print("{} files, {} faults\n", names.size(), wrong);
  return wrong;
}

int main_of(const std::vector<std::string>& folders) {
  const int wrong = run_files(folders);
  const uint64_t programs = number_from("TILEWRIGHT_FUZZ_PROGRAMS", default_programs);
  const uint64_t seed = number_from("TILEWRIGHT_FUZZ_SEED", default_seed);
  const bool strict = number_from("TILEWRIGHT_FUZZ_STRICT", 0);
  const bool verbose = number_from("TILEWRIGHT_FUZZ_VERBOSE", 0);
  std::vector<Place> places = {{Target::Interp}};
  if (number_from("TILEWRIGHT_FUZZ_CPU", 0)) places.push_back({Target::Cpu});
  if (number_from("TILEWRIGHT_FUZZ_MAPPED", 0))
    for (const char* arch : {"sm_90a", "sm_80"}) places.push_back({Target::InterpMapped, arch});
  if (number_from("TILEWRIGHT_FUZZ_CUDA", 0)) places.push_back({Target::Cuda});
  fmt::print("{} programs from seed {}\n", programs, seed);
  std::fflush(stdout);
  signal(SIGALRM, on_alarm);
  int counts[4] = {0, 0, 0, 0}, refused_by_gpu = 0;
  for (uint64_t k = 0; k < programs; ++k) {
    const Generated g = Generator(seed + k).program();
    const std::string shown = fmt::format("seed {}, r={} j={}, schedule \"{}\"\n{}", seed + k,
                                          g.sizes.at("r"), g.sizes.at("j"), g.schedule, g.text);
    const size_t length = std::min(shown.size(), sizeof now_running - 1);
    std::copy_n(shown.begin(), length, now_running);
    now_running[length] = 0;
    for (const Place& place : places) {
      alarm(hang_seconds);
      const auto begin = std::chrono::steady_clock::now();
      Result r = run(g, place, seed + k);
      if (r.outcome == Outcome::Refused && !g.schedule.empty()) {  // a schedule may ask for what has no state
        Generated plain = g;
        plain.schedule.clear();
        r = run(plain, place, seed + k);
      }
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      alarm(0);
      if (place.gpu() && r.outcome == Outcome::Refused)
        ++refused_by_gpu;
      else
        ++counts[int(r.outcome)];
      if (r.outcome == Outcome::Wrong) fmt::print("WRONG on {}: {}\n{}\n", place.text(), r.message, shown);
      if (r.outcome == Outcome::Stopped)
        fmt::print("stopped on {}: {}{}\n", place.text(), r.message,
                   verbose ? "\n" + shown : fmt::format(" (seed {})", seed + k));
      if (verbose && r.outcome == Outcome::Refused)
        fmt::print("refused on {}: {} (seed {})\n", place.text(), r.message, seed + k);
      if (verbose && seconds > 1) fmt::print("{:.1f} s for seed {}\n", seconds, seed + k);
      std::fflush(stdout);
    }
  }
  fmt::print("{} right, {} refused, {} stopped by internal checks, {} wrong\n", counts[0], counts[1],
             counts[2], counts[3]);
  if (places.back().gpu()) fmt::print("{} more refused by GPU targets\n", refused_by_gpu);
  if (counts[0] < 3 * (counts[1] + counts[2])) {
    fmt::print("too few run for the comparison to mean much\n");
    return 1;
  }
  return wrong || counts[3] || (strict && counts[2]) ? 1 : 0;
}

}  // namespace
}  // namespace tilewright::fuzz

int main(int argc, char** argv) { return tilewright::fuzz::main_of({argv + 1, argv + argc}); }
