#include "tests/support/examples.h"

#include "tilewright/driver/session.h"

#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <tuple>

namespace tilewright::testing {

Program example(const std::string& name, DType dtype, const std::map<std::string, int64_t>& literal_sizes) {
  const std::string path = std::string(TW_SOURCE_DIR) + "/examples/" + name + ".tw";
  const Program written = load_program(path);
  Overrides o;
  o.literal_sizes = literal_sizes;
  for (const Input& in : written.inputs)
    if (is_float(in.dtype)) o.dtypes[in.sym.name()] = dtype;
  for (const Definition& d : written.definitions)
    if (d.dtype && is_float(*d.dtype)) o.dtypes[d.sym.name()] = dtype;
  for (const Output& out : written.outputs)
    if (is_float(out.dtype)) o.dtypes[out.sym.name()] = dtype;
  return load_program(path, o);
}

std::string CheckCase::str() const {
  std::string text = fmt::format("{} {} {}", program, name(dtype), name(target));
  if (target == Target::InterpMapped) text += mapping == Target::Cuda ? "/sm90" : "/cpu";
  if (!arch.empty()) text += " " + arch;
  for (const auto& [axis, size] : sizes) text += fmt::format(" {}={}", axis, size);
  for (const auto& [axis, size] : literals) text += fmt::format(" {}={}", axis, size);
  for (const auto& [param, value] : params) text += fmt::format(" {}={}", param, value);
  if (!schedule.empty()) text += " [" + schedule + "]";
  return text;
}

namespace {

/// A program compiled for a target: cases that differ in sizes and values alone share it, as users' runs do.
struct Made {
  CheckCase of;
  Program program;
  std::shared_ptr<Kernel> kernel;
};

/// Made for `c`; the last one made where it serves.
const Made& made_for(const CheckCase& c, const CompileOptions& options) {
  static std::optional<Made> last;
  const auto key = [](const CheckCase& k) {
    return std::tie(k.program, k.dtype, k.target, k.mapping, k.literals, k.schedule, k.arch);
  };
  if (!last || key(last->of) != key(c)) {
    last.reset();
    const Program p = example(c.program, c.dtype, c.literals);
    last = Made{c, p, std::make_shared<Kernel>(p, options)};
  }
  return *last;
}

}  // namespace

void expect_check(const CheckCase& c) {
  SCOPED_TRACE(c.str());
  try {
    CompileOptions options;
    options.target = c.target;
    options.mapping = c.mapping;
    options.schedule = c.schedule;
    options.arch = c.arch;
    SessionOptions s;
    s.sizes = c.sizes;
    s.params = c.params;
    s.inputs = c.inputs;
    s.seed = c.seed;
    const Made& made = made_for(c, options);
    Session session(made.program, options, s, made.kernel);
    session.run(0, 1);
    for (const OutputCheck& o : session.check(c.sample_above))
      EXPECT_TRUE(o.comparison.passed || (o.comparison.reason.find("exceeds") != std::string::npos &&
                                          o.comparison.error <= c.slack * o.comparison.tolerance))
          << o.name << ": " << o.comparison.reason << ", error " << o.comparison.error << ", tolerance "
          << o.comparison.tolerance << ", at [" << fmt::format("{}", fmt::join(o.index, ", ")) << "] got "
          << o.got << ", expected " << o.expected << "; plan " << session.kernel().last_plan();
  } catch (const UserError& e) {
    std::string text;
    for (const Diagnostic& d : e.diagnostics()) text += d.render();
    ADD_FAILURE() << text;
  } catch (const std::exception& e) {
    ADD_FAILURE() << e.what();
  }
}

const std::vector<int64_t>& ragged_sizes() {
  static const std::vector<int64_t> sizes = {0, 1, 7, 64, 129, 1000};
  return sizes;
}

bool full_sweep() {
  const char* s = std::getenv("TILEWRIGHT_SWEEP");
  return s != nullptr && std::string(s) == "full";
}

}  // namespace tilewright::testing
