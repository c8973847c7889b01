// A program with its inputs, ready to run and to check on any target; what the command and the tests share.
#pragma once
#include <map>
#include <memory>
#include <optional>

#include "tilewright/driver/compare.h"
#include "tilewright/driver/kernel.h"
#include "tilewright/runtime/host_array.h"

namespace tilewright {

/// Where an input comes from: a fill, or an array.
struct InputSource {
  Fill fill = Fill::Normal;
  std::optional<HostArray> array;
};

struct SessionOptions {
  std::map<std::string, int64_t> sizes;  ///< run-time axes
  std::map<std::string, double> params;
  std::map<std::string, InputSource> inputs;  ///< what is not named is seeded normal
  uint64_t seed = 0;
};

struct Timing {
  double median = 0, min = 0, max = 0;
};  ///< milliseconds

struct OutputCheck {
  std::string name;
  Comparison comparison;
  std::vector<int64_t> index;  ///< of the worst element
  double got = 0, expected = 0;
  bool sampled = false;
};

class Session {
 public:
  Session(const Program& p, const CompileOptions& c, const SessionOptions& o);
  /// With a kernel made before of `p` and `c`, at the sizes of `o`.
  Session(const Program& p, const CompileOptions& c, const SessionOptions& o, std::shared_ptr<Kernel> kernel);
  ~Session();
  const Kernel& kernel() const;
  std::shared_ptr<Kernel> shared_kernel() const;
  const Sizes& sizes() const;
  /// Runs `warmup` + `repeat` times (at least once); times the repeats (device events on a GPU). Outputs are poisoned with NaN bytes before the first run.
  Timing run(int warmup, int repeat);
  /// The same with another kernel of the same program and target, on the same arrays: outputs are then those of that kernel.
  Timing run_with(Kernel& other, int warmup, int repeat);
  const std::map<std::string, HostArray>& inputs() const;
  const std::map<std::string, HostArray>& outputs() const;  ///< of the last run, on the host
  /// Compares the outputs of the last run with the reference. Past `sample_above` operations a sample of elements is compared.
  std::vector<OutputCheck> check(double sample_above = 1e10);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tilewright
