// Variance and LayerNorm into a product on data with mean 1e4 and deviation 1, in f32, whole and in 16 merged parts: relative error of the variance, and of y
// over the square root of c, under 3e-6. (A variance from Σx² − (Σx)²/n in f32 has no correct digit here.)
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/examples.h"

namespace tilewright::testing::shifted_accuracy_test {
namespace {

constexpr int64_t kRows = 6, kColumns = 5, kFeatures = 4096;
constexpr double kBound = 3e-6;

HostArray shifted(uint64_t seed) {
  HostArray x = filled(DType::f32, {kRows, kFeatures}, Fill::Normal, seed, "x");
  for (int64_t k = 0; k < x.elements(); ++k) store_element(x.dtype, x.data.get(), k, x.at(k) + 1e4);
  return x;
}

Program variance() {
  return parse_program(std::make_shared<SourceText>(SourceText{
      "variance.tw", "axis r\naxis c = 4096\ninput x[r, c] : f32\ns2[r] = var[c](x)\noutput s2\n"}));
}

/// Largest error of output `name` against the definition in f64, each element scaled by `scale(ref)`.
template <class Scale>
double worst(const Program& p, Target target, Target mapping, const std::string& schedule, uint64_t seed,
             const Scale& scale, const std::map<std::string, int64_t>& sizes) {
  CompileOptions c;
  c.target = target;
  c.mapping = mapping;
  c.schedule = schedule;
  SessionOptions s;
  s.sizes = sizes;
  s.seed = seed;
  s.inputs["x"].array = shifted(seed);
  Session session(p, c, s);
  session.run(0, 1);
  std::map<std::string, ArrayView> views;
  for (const auto& [name, a] : session.inputs()) views[name] = a.view();
  Evaluator reference(p, session.sizes(), views, {}, Precision::f64);
  const std::vector<double> ref = reference.all(p.outputs[0]);
  const HostArray& out = session.outputs().at(p.outputs[0].sym.name());
  double error = 0;
  for (size_t k = 0; k < ref.size(); ++k)
    error = std::max(error, std::fabs(out.at(static_cast<int64_t>(k)) - ref[k]) / scale(ref[k]));
  return error;
}

struct On {
  Target target, mapping;
};

TEST(ShiftedAccuracy, Variance) {
  for (const On& on : {On{Target::Cpu, Target::Cpu}, On{Target::Interp, Target::Cuda},
                       On{Target::InterpMapped, Target::Cuda}})
    for (const char* schedule : {"stream c=64", "stream c=64; split c=256"})
      for (uint64_t seed : {1, 2, 3}) {
        const double error =
            worst(variance(), on.target, on.mapping, schedule, seed, [](double ref) { return ref; }, {});
        EXPECT_LT(error, kBound) << name(on.target) << " " << schedule;
        EXPECT_GT(error, 0) << "a result without any rounding error is not a result in f32";
      }
}

TEST(ShiftedAccuracy, LayernormMatmul) {
  const Program p = example("layernorm_matmul", DType::f32);
  for (const On& on : {On{Target::Cpu, Target::Cpu}, On{Target::Interp, Target::Cuda},
                       On{Target::InterpMapped, Target::Cuda}})
    for (const char* schedule : {"stream c=64", "stream c=64; split c=256"})
      for (uint64_t seed : {1, 2, 3}) {
        const double error = worst(p, on.target, on.mapping, schedule, seed,
                                   [](double) { return std::sqrt(double(kFeatures)); }, {{"n", kColumns}});
        EXPECT_LT(error, kBound) << name(on.target) << " " << schedule;
      }
}

}  // namespace
}  // namespace tilewright::testing::shifted_accuracy_test
