// The performance model put to the test: each claim that `tilewright model` makes and that can be refuted here, beside a count or a measurement.
//
// Counts are those of the interpreter of tile programs, on the plan that is modelled; where the sizes are too large for it, at sizes cut down, with the formulas evaluated
// there too. Times are those of the kernel on this processor, or on an NVIDIA GPU; its bytes those that the profiler `ncu` reports.
#pragma once
#include <nlohmann/json.hpp>

#include "tilewright/driver/session.h"
#include "tilewright/model/report.h"

namespace tilewright {

struct Claim {
  enum class Verdict : uint8_t { Holds, Refuted, NotMeasured };
  /// What is claimed of the number that is found: that it equals `predicted`, is at most or at least that, or lies between `predicted` and `upto`.
  enum class Kind : uint8_t { Equal, AtMost, AtLeast, Between };
  std::string name;  ///< "H memory, K loaded"
  Kind kind = Kind::Equal;
  std::string formula;               ///< in the language's syntax; empty: none
  std::vector<std::string> assumes;  ///< keys of assumptions()
  std::string unit;                  ///< "bytes", "s"
  std::optional<double> predicted, upto, found;
  std::string by;  ///< "counted", "median of 9 runs", "ncu"
  Verdict verdict = Verdict::NotMeasured;
  std::string note;  ///< why it is not measured, or what else there is to say
};
const char* name(Claim::Verdict v);

struct Verification {
  std::string program, target, machine, plan;
  std::vector<std::pair<std::string, int64_t>> sizes, counted_sizes;  ///< equal where nothing was cut down
  std::vector<Claim> claims;
  bool refuted() const;
};

struct VerifyOptions {
  SessionOptions session;
  MachineFile machine;
  int repeat = 9;                ///< timed runs; 0: time is not measured
  double most_operations = 1e8;  ///< that the interpreter is given
  double tolerance = 0.2;        ///< of times, beyond the predicted interval
  double shortest = 1e-3;        ///< seconds below which a time says more of the clock than of the model
  std::vector<std::string>
      run_command;  ///< what `ncu` profiles: a command that runs the program on the GPU once
};

/// `o.target`: Cpu or Cuda, whose plans are modelled. UserError where the program cannot be compiled or run. A program that has no kernel on a GPU is counted with
/// the plans that the GPU would have, and its measurements say why there are none.
Verification verify(const Program& p, const CompileOptions& o, const VerifyOptions& v);

std::string to_text(const Verification& v);
nlohmann::ordered_json to_json(const Verification& v);

}  // namespace tilewright
