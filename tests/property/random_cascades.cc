// Random cascades: each one inside the separable class has a state of one pass that every check proves and that, streamed and merged, gives its
// definition; each one outside is refused by the name of what mixes, and its further pass gives the definition all the same.
// TILEWRIGHT_CASCADES=N runs N of each, TILEWRIGHT_CASCADES_SEED=S from that seed.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tests/support/derived.h"
#include "tests/support/random_cascade.h"
#include "tests/support/streamed.h"
#include "tilewright/derive/check.h"
#include "tilewright/driver/compiled.h"
#include "tilewright/driver/prove.h"
#include "tilewright/driver/session.h"
#include "tilewright/runtime/process.h"

namespace tilewright::testing::random_cascades_test {
namespace {

uint64_t number_of(const char* variable, uint64_t otherwise) {
  const char* set = std::getenv(variable);
  return set != nullptr && *set != 0 ? std::strtoull(set, nullptr, 10) : otherwise;
}

bool has_z3() {
  std::string said;
  return run_command({"z3", "--version"}, said) == 0;
}

/// A program with its derivation, and data of the sizes that the seed gives.
struct Case {
  std::string text;
  Program written, program;
  std::map<std::string, int64_t> given;
  Sizes sizes;
  Derivation d;

  Case(const RandomCascade& c, uint64_t seed)
      : text(c.text()), written(parse_program(std::make_shared<SourceText>(SourceText{"test.tw", text}))) {
    program = elaborate(written);
    given = {{"r", 2}, {"d", 2}, {"e", 2}, {"j", seed % 16 == 0 ? 1 : 5 + int64_t(seed % 5)}};
    sizes = bind_sizes(program, {}, given);
    d = derive(program, program.axis("j")->index);
  }
};

bool agree(double want, double got) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got);
  if (std::isinf(want) || std::isinf(got)) return want == got;
  return std::abs(want - got) <= 1e-7 * std::max(1.0, std::abs(want));
}

/// The outputs by one stream and two merge trees against the definition; empty where they agree.
std::string difference(const Case& c, uint64_t seed) {
  const RandomInputs data(c.program, c.sizes, seed);
  std::map<std::string, ArrayView> arrays;
  for (const Input& in : c.program.inputs)
    arrays[in.sym.name()] = {DType::f32, data.array(in.sym).data(), data.shape(in.sym), {}};
  Evaluator reference(c.written, c.sizes, arrays, {}, Precision::f64);
  Streamed streamed(c.program, c.d, c.sizes, data);
  std::mt19937_64 random(seed);
  const int64_t n = c.given.at("j");
  for (int history = 0; history < 3; ++history) {
    streamed.follow(history == 0 ? random_stream(random, n, 3) : random_tree(random, n, 3));
    for (const CascadeOutput& o : c.d.cascade.outputs) {
      const Output& out = c.written.outputs[o.output];
      const size_t axes = out.axes().size();
      for (int64_t r = 0; r < 2; ++r)
        for (int64_t e = 0; e < (axes > 1 ? 2 : 1); ++e) {
          const Index at = axes > 1 ? Index{r, e} : Index{r};
          const double want = reference.element(out, at), got = streamed.output(o, at);
          if (!agree(want, got))
            return fmt::format("{}[{}] is {} in place of {} ({})", out.sym.name(), fmt::join(at, ", "), got,
                               want, history == 0 ? "streamed" : "merged");
        }
    }
  }
  return {};
}

/// Every component and point has each identity, and all hold; and so do random merges other than those that derive() tried.
std::string unproved(const Case& c, uint64_t seed) {
  for (const Pass& pass : c.d.passes) {
    const State& s = pass.state;
    const auto has = [&](const std::string& what) {
      return std::any_of(s.checks.begin(), s.checks.end(),
                         [&](const Check& k) { return k.what == what && k.by == "expressions" && k.passed; });
    };
    for (const Component& a : s.components)
      for (const char* what : {"closure", "distributivity", "identity H(ρ, ρ) = 1",
                               "composition H(ρ', ρ'') H(ρ, ρ') = H(ρ, ρ'')",
                               "merge of two parts = the whole", "merge with an empty part = the other"})
        if (!has(fmt::format("{} of {}", what, a.var.name())))
          return fmt::format("no {} of {}", what, a.var.name());
    for (const Point& p : s.points)
      if (!has("merge of two parts = the whole of " + p.var.name())) return "no merge of " + p.var.name();
    std::vector<Check> random = derivation::check_merges(s, seed);
    random.insert(random.end(), s.checks.begin(), s.checks.end());
    for (const Check& k : random)
      if (!k.passed) return fmt::format("{} failed ({}): {}", k.what, k.by, k.detail);
  }
  return {};
}

/// Refused for the size of its state, which docs/derivation.md limits.
bool too_large(const RandomCascade& cascade, uint64_t seed) {
  const Case c(cascade, seed);
  return std::any_of(c.d.refusals.begin(), c.d.refusals.end(), [](const Refusal& r) {
    return r.reason.find("would hold more than") != std::string::npos;
  });
}

/// Why the cascade is not what it should be; empty where it is.
std::string fault_inside(const RandomCascade& cascade, uint64_t seed) {
  try {
    const Case c(cascade, seed);
    for (const Refusal& r : c.d.refusals) return "refused: " + to_string(r.subterm) + ": " + r.reason;
    if (c.d.passes.size() != 1) return fmt::format("{} passes", c.d.passes.size());
    if (std::string why = unproved(c, seed); !why.empty()) return why;
    return difference(c, seed);
  } catch (const UserError& e) {
    return e.diagnostics()[0].render();
  } catch (const std::exception& e) {
    return e.what();
  }
}

std::string fault_outside(const RandomCascade& cascade, uint64_t seed) {
  try {
    const Case c(cascade, seed);
    const auto& all = c.d.refusals;
    if (all.size() != 1)
      return fmt::format("{} refusals: {}", all.size(), all.empty() ? "" : to_string(all[0].subterm));
    const Refusal& r = c.d.refusals[0];
    if (name(r.subterm.op()) != cascade.mixing_op || r.reason.empty())
      return fmt::format("refused for {}, not for {}", to_string(r.subterm), cascade.mixing->text);
    const size_t last = cascade.statements.size() - 1;
    if (c.d.cascade.reductions[r.reduction].pass != 2)
      return fmt::format("R{} in pass {}", last, c.d.cascade.reductions[r.reduction].pass);
    const std::string there = c.text.substr(r.span.begin, r.span.end - r.span.begin);
    if (cascade.mixing->text.find(there) == std::string::npos || there.find('R') == std::string::npos)
      return fmt::format("refused at `{}`, not at `{}`", there, cascade.mixing->text);
    if (std::string why = unproved(c, seed); !why.empty()) return why;
    return difference(c, seed);
  } catch (const UserError& e) {
    return e.diagnostics()[0].render();
  } catch (const std::exception& e) {
    return e.what();
  }
}

/// The kernels of the cascade, run as tile programs.
std::string fault_of_kernels(const RandomCascade& cascade, uint64_t seed, size_t passes) {
  try {
    CompileOptions o;
    o.target = Target::Interp;
    SessionOptions s;
    s.seed = seed;
    s.sizes = {{"r", 3}, {"d", 2}, {"e", 2}, {"j", 20}};
    Session session(parse_program(std::make_shared<SourceText>(SourceText{"test.tw", cascade.text()})), o, s);
    const CompiledProgram& c = session.kernel().compiled();
    if (!c.several() && c.kernels[0].derivation.passes.size() != passes)
      return fmt::format("planned in {} passes", c.kernels[0].derivation.passes.size());
    session.run(0, 1);
    for (const OutputCheck& check : session.check())
      if (!check.comparison.passed && !(check.comparison.error <= 64 * check.comparison.tolerance))
        return fmt::format("{}: {} got {} expected {}", check.name, check.comparison.reason, check.got,
                           check.expected);
    return {};
  } catch (const UserError& e) {
    return e.diagnostics()[0].render();
  } catch (const std::exception& e) {
    return e.what();
  }
}

struct Batch {
  uint64_t seed = number_of("TILEWRIGHT_CASCADES_SEED", 1), count = 0;
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  int failed = 0, most = int(number_of("TILEWRIGHT_CASCADES_FAILURES", 3));

  explicit Batch(uint64_t otherwise) : count(number_of("TILEWRIGHT_CASCADES", otherwise)) {}

  /// Fails with the smallest cascade that `fault` still finds wrong.
  void fail(const RandomCascade& c, uint64_t at, const std::string& why,
            const std::function<std::string(const RandomCascade&)>& fault) {
    const RandomCascade small = shrunk(c, [&](const RandomCascade& q) { return !fault(q).empty(); });
    ADD_FAILURE() << "seed " << at << ": " << why << "\n"
                  << c.text() << "shrunk: " << fault(small) << "\n"
                  << small.text();
    ++failed;
  }
  void report(const std::string& what) const {
    const double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    fmt::print("{} {} (seeds {} to {}), {:.0f} a minute\n", count, what, seed, seed + count - 1,
               60 * double(count) / s);
  }
};

TEST(RandomCascades, InsideTheClassAreStreamedAndProved) {
  Batch batch(200);
  const bool z3 = has_z3();
  SmtFile questions;
  size_t asked = 0, kernels = 0, large = 0;
  std::map<std::string, std::string> of;  // question -> program
  for (uint64_t k = 0; k < batch.count && batch.failed < batch.most; ++k) {
    const uint64_t seed = batch.seed + k;
    const RandomCascade c = random_cascade(seed, false);
    const auto fault = [&](const RandomCascade& q) { return fault_inside(q, seed); };
    if (const std::string why = fault(c); !why.empty()) {
      if (why.starts_with("refused") && too_large(c, seed)) {
        ++large;
        continue;
      }
      batch.fail(c, seed, why, fault);
      continue;
    }
    if (k % 10 == 0) {
      ++asked;
      const Case one(c, seed);
      if (z3)
        for (const SmtFile& file : to_smt(one.program, one.d)) {
          questions.text += file.text;
          for (const std::string& check : file.checks) questions.checks.push_back(check);
          of[std::to_string(questions.checks.size())] = one.text;
        }
    }
    if (k % 20 == 0) {
      ++kernels;
      const auto of_kernels = [&](const RandomCascade& q) { return fault_of_kernels(q, seed, 1); };
      if (const std::string wrong = of_kernels(c); !wrong.empty()) batch.fail(c, seed, wrong, of_kernels);
    }
  }
  EXPECT_LE(large, 1 + batch.count / 200);
  batch.report(fmt::format(
      "cascades of the class, none refused (but {} for the size of their state), wrong or unproved, {} of "
      "them as kernels",
      large, kernels));
  if (!z3) {
    fmt::print("z3 is not installed: {} cascades were not asked about\n", asked);
    return;
  }
  const std::vector<Check> answers = ask_z3(questions);
  for (size_t k = 0; k < answers.size(); ++k)
    EXPECT_TRUE(answers[k].passed) << answers[k].what << ": " << answers[k].detail;
  fmt::print("z3 proves the {} identities of {} of them\n", answers.size(), asked);
}

TEST(RandomCascades, OutsideTheClassAreRefusedByNameAndRight) {
  Batch batch(80);
  size_t kernels = 0;
  for (uint64_t k = 0; k < batch.count && batch.failed < batch.most; ++k) {
    const uint64_t seed = batch.seed + k;
    const RandomCascade c = random_cascade(seed, true);
    const auto fault = [&](const RandomCascade& q) { return fault_outside(q, seed); };
    if (const std::string why = fault(c); !why.empty()) {
      batch.fail(c, seed, why, fault);
      continue;
    }
    if (k % 10 == 0) {
      ++kernels;
      const auto of_kernels = [&](const RandomCascade& q) { return fault_of_kernels(q, seed, 2); };
      if (const std::string wrong = of_kernels(c); !wrong.empty()) batch.fail(c, seed, wrong, of_kernels);
    }
  }
  batch.report(
      fmt::format("cascades with a factor that mixes, each refused by its name and right in a second pass, "
                  "{} of them as kernels",
                  kernels));
}

}  // namespace
}  // namespace tilewright::testing::random_cascades_test
