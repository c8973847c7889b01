// Programs brought down to mapped programs, seeded inputs, and what interpret() makes of them.
#pragma once
#include "tests/support/compiled.h"
#include "tilewright/map/interpreter.h"

namespace tilewright::testing {

/// A mapped program with inputs, and its outputs from the definition.
class MappedRun {
 public:
  /// Sizes of run-time axes by name. Where the guards of the aligned class do not hold for contiguous arrays of these sizes, the general class is mapped.
  /// `gpu`: whose mapping, for Target::Cuda.
  MappedRun(const Compiled& c, const std::map<std::string, int64_t>& sizes, LayoutClass layout,
            Target target = Target::Cuda, const std::map<std::string, double>& params = {},
            unsigned seed = 11, const Machine& gpu = sm90());
  /// Interprets `m` (mapped() or a mutated copy of it): an empty text when the outputs satisfy the rule of `check`.
  std::string run(const MappedProgram& m, const Adversary& adversary = {}) const;
  std::string run(const Adversary& adversary = {}) const { return run(mapped_, adversary); }
  const MappedProgram& mapped() const { return mapped_; }
  LayoutClass layout() const { return layout_; }
  /// An input, to be changed before expect().
  TestArray& input(const std::string& name) { return arrays_.inputs.at(name); }
  /// Computes what is expected of the inputs as they are now.
  void expect();
  double slack = 1;  ///< on the tolerance

 private:
  const Compiled& compiled_;  ///< outlives this
  MappedProgram mapped_;
  LayoutClass layout_;
  Sizes sizes_;
  Arrays arrays_;
  struct Expected {
    std::vector<double> values;
    double tolerance = 0;
  };
  std::vector<Expected> expected_;  ///< of each output
};

}  // namespace tilewright::testing
