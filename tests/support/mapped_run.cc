#include "tests/support/mapped_run.h"

#include <fmt/format.h>

#include <cmath>

namespace tilewright::testing {
namespace {

/// Do contiguous arrays of these sizes satisfy the guards?
bool admits(const Program& p, const MappedProgram& m, const Sizes& sizes) {
  for (const LayoutGuard& g : m.layout) {
    DType dtype = DType::f32;
    for (const Input& in : p.inputs)
      if (in.sym == g.tensor) dtype = in.dtype;
    for (const Output& out : p.outputs)
      if (out.sym == g.tensor) dtype = out.dtype;
    const std::vector<int64_t> shape = shape_of(memory_dims(p, m, g.tensor), sizes);
    int64_t stride = 1;
    for (size_t d = shape.size(); d-- > 1;) {
      stride *= shape[d];
      if (shape[d - 1] != 1 && stride * bytes(dtype) % g.align != 0) return false;
    }
  }
  return true;
}

}  // namespace

MappedRun::MappedRun(const Compiled& c, const std::map<std::string, int64_t>& sizes, LayoutClass layout,
                     Target target, const std::map<std::string, double>& params, unsigned seed,
                     const Machine& gpu)
    : compiled_(c),
      layout_(layout),
      sizes_(sizes_of(c.program, sizes)),
      arrays_(random_inputs(c.program, sizes_, seed)) {
  arrays_.params = params;
  auto map = [&](LayoutClass l) {
    return target == Target::Cuda ? map_gpu(c.program, c.tiles, gpu, l)
                                  : map_cpu(c.program, c.tiles, this_cpu(), l);
  };
  mapped_ = map(layout);
  if (!admits(c.program, mapped_, sizes_)) mapped_ = map(layout_ = LayoutClass::General);
  expect();
}

void MappedRun::expect() {
  expected_.clear();
  Evaluator exact(compiled_.parsed, sizes_, arrays_.views(), arrays_.params, Precision::f64);
  Evaluator naive(compiled_.parsed, sizes_, arrays_.views(), arrays_.params, Precision::naive);
  for (const Output& o : compiled_.parsed.outputs) {
    Expected e;
    e.values = exact.all(o);
    const std::vector<double> rough = naive.all(o);
    double allowed = 0, atol = 0;
    for (size_t k = 0; k < rough.size(); ++k) {
      if (!std::isfinite(e.values[k])) continue;
      if (std::isfinite(rough[k]))
        allowed = std::max(allowed, std::fabs(round_to(o.dtype, rough[k]) - e.values[k]));
      const double shifted = round_to(o.dtype, round_to(o.dtype, e.values[k] + 0.3) - 0.3);
      if (std::isfinite(shifted)) atol = std::max(atol, 2 * std::fabs(shifted - e.values[k]));
    }
    e.tolerance = is_float(o.dtype) ? 2 * allowed + atol : 0;
    expected_.push_back(std::move(e));
  }
}

std::string MappedRun::run(const MappedProgram& m, const Adversary& adversary) const {
  std::map<std::string, TestArray> arrays;
  std::map<std::string, MutableArray> targets;
  for (const Output& o : compiled_.program.outputs) {
    TestArray& a = arrays[o.sym.name()] = TestArray(o.dtype, shape_of(o.dims, sizes_));
    for (int64_t k = 0; k < a.elements(); ++k) a.set(k, 77);
    targets[o.sym.name()] = a.target();
  }
  interpret(compiled_.program, m, sizes_, arrays_.views(), arrays_.params, targets, adversary);
  for (size_t o = 0; o < expected_.size(); ++o) {
    const Output& output = compiled_.parsed.outputs[o];
    const TestArray& a = arrays.at(output.sym.name());
    for (int64_t k = 0; k < a.elements(); ++k) {
      const double exact = expected_[o].values[size_t(k)], want = round_to(output.dtype, exact),
                   got = a.at(k);
      const bool agrees = std::isfinite(want) ? std::fabs(got - exact) <= slack * expected_[o].tolerance
                          : std::isnan(want)  ? std::isnan(got)
                                              : got == want;
      if (!agrees && got != want)
        return fmt::format("{}[{}] is {}, the definition gives {}, tolerance {}", output.sym.name(), k, got,
                           exact, expected_[o].tolerance);
    }
  }
  return {};
}

}  // namespace tilewright::testing
