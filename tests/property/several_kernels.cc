// Random chains of definitions, cut into kernels by the rule and by random `store` clauses, against the reference evaluator.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tilewright/driver/compiled.h"
#include "tilewright/driver/session.h"

namespace tilewright::several_kernels_test {
namespace {

/// Writes a program of two to five definitions over r and two of the axes a, b, c.
class Chain {
 public:
  explicit Chain(unsigned seed) : random_(seed) {}

  std::string write() {
    const char* dtype = chance(2) ? "f32" : "f16";
    text_ = "axis r, a, b, c\n";
    for (const char* axis : {"a", "b", "c"}) text_ += fmt::format("input x{0}[r, {0}] : {1}\n", axis, dtype);
    for (const char* pair : {"ab", "bc", "ca", "ba", "cb", "ac"})
      text_ += fmt::format("input W{}[{}, {}] : {}\n", pair, pair[0], pair[1], dtype);
    tensors_ = {{"xa", "a"}, {"xb", "b"}, {"xc", "c"}};
    const int n = 2 + pick(4);
    for (int k = 0; k < n; ++k) define(fmt::format("t{}", k));
    text_ += fmt::format("output {}\n", fmt::join(outputs(), ", "));
    return text_;
  }

  std::string schedule() {
    std::vector<std::string> stored;
    for (const std::string& name : holding_)
      if (chance(3)) stored.push_back(name);
    return stored.empty() ? "" : fmt::format("store {}", fmt::join(stored, ", "));
  }

 private:
  struct Tensor {
    std::string name, axis;
  };

  int pick(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  bool chance(int n) { return pick(n) == 0; }
  const Tensor& recent() {
    const int n = static_cast<int>(tensors_.size());
    return tensors_[static_cast<size_t>(chance(2) ? n - 1 : pick(n))];
  }

  void define(const std::string& name) {
    const Tensor t = recent();
    std::string axis = t.axis, value;
    bool holds = true;
    switch (pick(7)) {
      case 0:
      case 1:
      case 2: {  // a product, perhaps under a function, perhaps with a residual
        axis = std::string("abc").substr(static_cast<size_t>(pick(3)), 1);
        if (axis == t.axis) axis = axis == "a" ? "b" : "a";
        value = fmt::format("sum[{0}]({1} * W{0}{2})", t.axis, t.name, axis);
        if (chance(2)) value = fmt::format("tanh({})", value);
        for (const Tensor& other : tensors_)
          if (other.axis == axis && chance(3)) {
            value += " + " + other.name;
            break;
          }
        break;
      }
      case 3: value = fmt::format("softmax[{}]({})", t.axis, t.name); break;
      case 4: value = fmt::format("{0} * rsqrt(mean[{1}]({0} * {0}) + 1)", t.name, t.axis); break;
      case 5: value = fmt::format("{0} - max[{1}](where({1} <= r, {0}, -inf))", t.name, t.axis); break;
      default: value = fmt::format("{0} * 0.5 + sigmoid({0})", t.name); holds = false;
    }
    // The maximum over nothing is −inf, and an infinity times 0 leaves the rule of the check with NaN on both sides.
    if (value.find("max[") != std::string::npos) value = fmt::format("max(-8, min(8, {}))", value);
    if (holds) holding_.push_back(name);
    text_ += fmt::format("{}[r, {}]{} = {}\n", name, axis, chance(4) ? " : f16" : "", value);
    tensors_.push_back({name, axis});
  }

  std::vector<std::string> outputs() {
    std::vector<std::string> names = {tensors_.back().name};
    if (chance(3) && tensors_.size() > 4) names.push_back(tensors_[3].name + (chance(2) ? " : f16" : ""));
    return names;
  }

  std::mt19937 random_;
  std::string text_;
  std::vector<Tensor> tensors_;
  std::vector<std::string> holding_;
};

/// Equal up to rounding: outputs of a few elements can exceed the tolerance of the check by luck.
bool close(const OutputCheck& c) {
  if (c.comparison.passed) return true;
  return std::isfinite(c.got) && std::isfinite(c.expected) &&
         c.comparison.error <= 64 * c.comparison.tolerance + 0.02 * (1 + std::fabs(c.expected));
}

TEST(SeveralKernels, ChainsEqualTheirDefinition) {
  int refused = 0, several = 0, cut = 0;
  const int programs = 120;
  for (unsigned seed = 1; seed <= programs; ++seed) {
    Chain chain(seed);
    const std::string text = chain.write(), schedule = chain.schedule();
    std::mt19937 random(seed * 77);
    SessionOptions s;
    s.seed = seed;
    for (const char* axis : {"r", "a", "b", "c"})
      s.sizes[axis] =
          std::vector<int64_t>{0, 1, 3, 7, 20}[random() % (seed % 4 == 0 ? 5 : 3) + (seed % 4 == 0 ? 0 : 2)];
    for (const std::string& with : {std::string(), schedule}) {
      if (with.empty() && &with != &schedule && seed % 2 == 1 && !schedule.empty()) continue;
      SCOPED_TRACE(fmt::format("seed {}\n{}\n{}", seed, text, with));
      try {
        CompileOptions o;
        o.target = Target::Interp;
        o.schedule = with;
        Session session(parse_program(std::make_shared<SourceText>(SourceText{"chain.tw", text})), o, s);
        const CompiledProgram& c = session.kernel().compiled();
        several += c.several();
        cut += c.several() && with.empty();
        session.run(0, 1);
        for (const OutputCheck& check : session.check())
          EXPECT_TRUE(close(check)) << check.name << ": " << check.comparison.reason << " got " << check.got
                                    << " expected " << check.expected << "\n"
                                    << plan_text(c);
      } catch (const UserError& e) {
        ++refused;
        if (refused < 4)
          std::fputs((text + with + "\n" + e.diagnostics()[0].render() + "\n").c_str(), stderr);
      }
    }
  }
  EXPECT_GT(several, programs / 3);
  EXPECT_GT(cut, programs / 8);
  EXPECT_LT(refused, programs / 10);
}

/// The plans of a default, printed and given back as a schedule, are the same plans.
TEST(SeveralKernels, PlansOfChainsMeanThemselves) {
  int several = 0;
  for (unsigned seed = 2000; seed < 2040; ++seed) {
    const std::string text = Chain(seed).write();
    const Program p = parse_program(std::make_shared<SourceText>(SourceText{"chain.tw", text}));
    for (Target target : {Target::Cpu, Target::Cuda}) {
      SCOPED_TRACE(fmt::format("seed {} {}\n{}", seed, name(target), text));
      CompileOptions o;
      o.target = target;
      std::optional<CompiledProgram> c;
      try {
        c = compile_program(p, o);
      } catch (const UserError&) {
        continue;
      }
      several += c->several();
      o.schedule = plan_text(*c);
      try {
        EXPECT_EQ(plan_text(compile_program(p, o)), o.schedule);
      } catch (const UserError& e) {
        ADD_FAILURE() << e.diagnostics()[0].render() << "\n" << o.schedule;
      }
    }
  }
  EXPECT_GT(several, 20);
}

/// Mapped and printed for a CPU and a GPU, and run as mapped programs.
TEST(SeveralKernels, ChainsAreMapped) {
  int refused = 0;
  const unsigned first = 1000, programs = 40;
  for (unsigned seed = first; seed < first + programs; ++seed) {
    const std::string text = Chain(seed).write();
    SCOPED_TRACE(fmt::format("seed {}\n{}", seed, text));
    const Program p = parse_program(std::make_shared<SourceText>(SourceText{"chain.tw", text}));
    for (Target target : {Target::Cpu, Target::Cuda}) {
      CompileOptions o;
      o.target = o.mapping = target;
      SessionOptions s;
      s.seed = seed;
      s.sizes = {{"r", 5}, {"a", 7}, {"b", 20}, {"c", 1 + seed % 3}};
      try {
        const CompiledProgram c = compile_program(p, o);
        for (const Compilation& k : c.kernels)
          for (const GuardedPlan& g : k.plans)
            lower_source(k, lower_mapped(k, lower(k, g.plan), target, LayoutClass::General));
        o.target = Target::InterpMapped;
        Session session(p, o, s);
        session.run(0, 1);
        for (const OutputCheck& check : session.check())
          EXPECT_TRUE(close(check)) << check.name << ": " << check.comparison.reason << " got " << check.got
                                    << " expected " << check.expected << "\n"
                                    << session.kernel().last_plan();
      } catch (const UserError& e) {
        ++refused;
        if (refused < 4) std::fputs((text + e.diagnostics()[0].render() + "\n").c_str(), stderr);
      }
    }
  }
  EXPECT_LT(refused, 8);
}

}  // namespace
}  // namespace tilewright::several_kernels_test
