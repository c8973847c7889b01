#include "tilewright/tile/interpreter.h"

#include "tilewright/expr/simplify.h"
#include "tilewright/program/failures.h"
#include "tilewright/tile/execute.h"
#include "tilewright/tile/lifetime.h"

namespace tilewright {

Counts interpret(const Program& p, const TileProgram& t, const Sizes& given,
                 const std::map<std::string, ArrayView>& inputs, const std::map<std::string, double>& params,
                 const std::map<std::string, MutableArray>& outputs) {
  Sizes sizes = given;
  for (const Axis& a : p.axes)
    if (a.baked()) sizes.emplace(a.index.size(), a.size.rational()->num());
  // Axes that are not the program's come last and have sizes in terms of others: numbers of parts.
  for (const Axis& a : t.axes)
    if (!sizes.count(a.index.size())) {
      TW_CHECK(a.size, "a size for axis " + a.name());
      sizes[a.index.size()] = evaluate_integer(a.size, sizes);
    }
  Bindings scalars(interpreter::bind_params(p, given, params));
  for (const auto& [sym, size] : sizes) scalars[sym] = double(size);
  for (const HostScalar& s : t.scalars) {
    refuse_zero_divisors(p, s.value, scalars);
    scalars[s.sym] = evaluate(s.value, scalars);
  }

  interpreter::Arrays arrays = interpreter::bind_arrays(p, t, sizes, inputs, outputs);
  Counts counts;
  for (const TileKernel& k : t.kernels) {
    try {
      interpreter::run_kernel(t, k, scalars, sizes, arrays, counts);
    } catch (const interpreter::DividedByZero& e) {
      throw division_by_zero(p, e.division);
    } catch (const interpreter::IndexOutside& e) {
      throw index_outside(p, e.tensor, e.axis, e.index, e.size);
    }
    Peak peak = live_peak(k);
    counts.peak_shared = std::max(counts.peak_shared, peak.shared);
    counts.peak_registers = std::max(counts.peak_registers, peak.registers);
  }
  return counts;
}

}  // namespace tilewright
