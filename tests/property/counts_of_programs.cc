// What the interpreter counts equals what the formulas say, byte for byte, on every program of examples/: each of its kernels, on the default plans of both
// targets and on plans changed at random, at ragged sizes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "tests/support/compiled.h"
#include "tilewright/driver/compiled.h"
#include "tilewright/driver/launch.h"
#include "tilewright/driver/session.h"
#include "tilewright/expr/simplify.h"

namespace tilewright::counts_of_programs_test {
namespace {

using testing::TestArray;

int64_t below(std::mt19937& gen, int64_t n) { return int64_t(gen() % uint64_t(n)); }
template <class T>
T one_of(std::mt19937& gen, std::initializer_list<T> of) {
  return *(of.begin() + below(gen, int64_t(of.size())));
}

std::vector<std::string> programs() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(TW_SOURCE_DIR) + "/examples"))
    if (entry.path().extension() == ".tw") names.push_back(entry.path().stem());
  std::sort(names.begin(), names.end());
  return names;
}

/// The program with lengths in place of its literal sizes: small ones, that tiles do not divide.
Program with_lengths(const std::string& name, std::mt19937& gen) {
  const std::string path = std::string(TW_SOURCE_DIR) + "/examples/" + name + ".tw";
  const Program written = load_program(path);
  Overrides o;
  for (const Axis& a : written.axes)
    if (a.baked()) {
      const int64_t n = a.size.rational()->num();
      // Halves of a head and ranks are as they are.
      if (n >= 16) o.literal_sizes[a.name()] = one_of<int64_t>(gen, {16, 20});
    }
  // Axes of one length stay so: d and e of a head, its halves.
  if (o.literal_sizes.count("d") && o.literal_sizes.count("e")) o.literal_sizes["e"] = o.literal_sizes["d"];
  try {
    return load_program(path, o);
  } catch (const UserError&) {
    return written;
  }
}

/// Sizes of the axes that have no literal or computed one, and of integer params.
Sizes ragged(const Program& p, std::mt19937& gen, int round) {
  Sizes sizes;
  const auto length = [&]() -> int64_t {
    if (round == 0) return one_of<int64_t>(gen, {0, 1});
    if (round == 1) return 1;
    return one_of<int64_t>(gen, {0, 1, 2, 3, 7, 17, 33, 65});
  };
  // Axes that are many times others are long enough where those are short.
  const bool multiples = std::any_of(p.axes.begin(), p.axes.end(), [](const Axis& a) {
    return a.size && !a.size.is(Op::Symbol) && !a.baked();
  });
  double elements = 1;
  for (const Axis& a : p.axes) {
    if (a.size && !a.size.is(Op::Symbol)) continue;
    int64_t n = length();
    if (multiples || elements * double(n) > 3000) n = std::min<int64_t>(n, 3);
    elements *= double(std::max<int64_t>(n, 1));
    sizes[a.index.size()] = n;
  }
  for (const Axis& a : p.axes)
    if (!sizes.count(a.index.size()) && a.size) sizes[a.index.size()] = evaluate_integer(a.size, sizes);
  return sizes;
}

/// A plan with other tiles, that may be illegal.
Plan changed(Plan plan, std::mt19937& gen) {
  for (Cut& cut : plan.group) {
    cut.block = one_of<int64_t>(gen, {1, 2, 3, 5, 8, 17, 32});
    cut.piece = below(gen, 2) ? 0 : 1 + below(gen, cut.block);
  }
  plan.chunk = one_of<int64_t>(gen, {1, 3, 8, 20, 64});
  plan.split = plan.split > 0 || below(gen, 4) == 0 ? plan.chunk * (1 + below(gen, 3)) : 0;
  plan.resident = plan.split == 0 && below(gen, 4) == 0;
  if (plan.resident) plan.chunk = 128, plan.bounds = BoundsBy::None;
  plan.stages = int(1 + below(gen, 3));
  plan.guard = Guard(below(gen, 4));
  return plan;
}

struct Tested {
  int plans = 0, runs = 0;
};

class CountsOfPrograms : public ::testing::TestWithParam<std::string> {
 protected:
  void expect(const Compilation& kernel, const Plan& plan, const Sizes& sizes, Tested& tested) {
    const Program& p = kernel.elaborated;
    const TileProgram t = lower(kernel, plan);
    const Cost formula = cost(p, t);
    Sizes values = sizes;
    std::map<std::string, double> params;
    for (const Param& x : p.params) {
      params[x.sym.name()] = x.value && x.value.rational() ? x.value.rational()->value() : 37;
      if (is_integer(Expr(x.sym))) values[x.sym] = int64_t(params[x.sym.name()] = double(below(gen_, 80)));
    }
    bind_added_axes(t.axes, values);
    std::map<std::string, TestArray> arrays;
    std::map<std::string, ArrayView> inputs;
    std::map<std::string, MutableArray> outputs;
    for (const Input& in : p.inputs) {
      TestArray a = testing::random_array(in.dtype, shape_of(in.dims, sizes), unsigned(gen_()));
      if (!is_float(in.dtype)) {
        const int64_t lo = in.range ? evaluate_integer(in.range.lo, sizes) : 0,
                      hi = in.range ? evaluate_integer(in.range.hi, sizes) : 2;
        for (int64_t i = 0; i < a.elements(); ++i)
          a.set(i, double(lo + below(gen_, std::max<int64_t>(1, hi - lo))));
      }
      arrays[in.sym.name()] = std::move(a);
      inputs[in.sym.name()] = arrays[in.sym.name()].view();
    }
    for (const Output& o : p.outputs) {
      TestArray& a = arrays["out " + o.sym.name()] = TestArray(o.dtype, shape_of(o.dims, sizes));
      outputs[o.sym.name()] = a.target();
    }
    Counts c;
    try {
      c = interpret(p, t, sizes, inputs, params, outputs);
    } catch (const UserError&) {
      return;  // an index outside its array, with these lengths
    }
    ++tested.runs;
    const std::string what = print(p, plan) + "\n" + ::testing::PrintToString(shown(p, sizes)) + "\n";
    EXPECT_EQ(testing::miscount(formula, values, c, true), "") << what << print(p, t);
  }

  static std::map<std::string, int64_t> shown(const Program& p, const Sizes& sizes) {
    std::map<std::string, int64_t> all;
    for (const Axis& a : p.axes)
      if (sizes.count(a.index.size())) all[a.name()] = sizes.at(a.index.size());
    return all;
  }

  std::mt19937 gen_{17};
};

TEST_P(CountsOfPrograms, EqualTheirFormulas) {
  for (Target target : {Target::Cpu, Target::Cuda}) {
    SCOPED_TRACE(name(target));
    const Program p = with_lengths(GetParam(), gen_);
    Tested tested;
    CompileOptions o;
    o.target = target;
    CompiledProgram c;
    try {
      c = compile_program(p, o);
    } catch (const UserError&) {
      o.target = Target::Interp;  // no kernel of it runs there; its plans are those of the same machine
      c = compile_program(p, o);
    }
    for (const Compilation& kernel : c.kernels) {
      std::vector<GuardedPlan> plans = kernel.plans;
      for (int k = 0; k < 12 && plans.size() < kernel.plans.size() + 2; ++k) {
        GuardedPlan other{{}, changed(kernel.plans.back().plan, gen_)};
        try {
          check_plan(kernel.elaborated, kernel.derivation, other.plan);
          lower(kernel, other.plan);
        } catch (const UserError&) {
          continue;
        }
        if (other.plan.resident) other.when.at_most.emplace_back(other.plan.stream, other.plan.chunk);
        plans.push_back(other);
      }
      for (const GuardedPlan& g : plans) {
        ++tested.plans;
        for (int round = 0; round < 3; ++round) {
          const Sizes sizes = ragged(kernel.elaborated, gen_, round);
          if (g.when.admits(sizes)) expect(kernel, g.plan, sizes, tested);
          if (HasFailure()) return;
        }
      }
    }
    EXPECT_GE(tested.plans, int(c.kernels.size()));
    EXPECT_GE(tested.runs, int(c.kernels.size()));
  }
}

INSTANTIATE_TEST_SUITE_P(Examples, CountsOfPrograms, ::testing::ValuesIn(programs()),
                         [](const auto& of) { return of.param; });

}  // namespace
}  // namespace tilewright::counts_of_programs_test
