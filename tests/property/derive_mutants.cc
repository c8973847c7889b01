// Wrong repairs, merges and finishes must be rejected: each mutant of each state fails at least one check, and repairs fail both the check by
// expressions and the check by random values.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "tests/support/derived.h"
#include "tilewright/derive/check.h"
#include "tilewright/driver/prove.h"
#include "tilewright/expr/simplify.h"
#include "tilewright/runtime/process.h"

namespace tilewright::testing::derive_mutants_test {
namespace {

using derivation::check_identities;
using derivation::check_merges;
using derivation::check_outputs;

bool has_z3() {
  std::string said;
  return run_command({"z3", "--version"}, said) == 0;
}

bool rejects(const std::vector<Check>& checks) {
  return std::any_of(checks.begin(), checks.end(), [](const Check& c) { return !c.passed; });
}

struct Mutant {
  std::string what;
  State state;
};

Expr own(const Point& p, Sym var) { return read(var, std::vector<Expr>(p.axes.begin(), p.axes.end())); }

/// `e` with reads of tiles renamed.
Expr renamed(Expr e, const std::vector<std::pair<Sym, Sym>>& names) {
  return rewrite(e, [&](Expr x) {
    if (!x.is(Op::Read)) return x;
    for (auto& [from, to] : names)
      if (x->sym == from) return read(to, x.args());
    return x;
  });
}

std::vector<Mutant> mutants(const State& s) {
  std::vector<Mutant> out;
  for (size_t a = 0; a < s.components.size(); ++a) {
    const Component& c = s.components[a];
    for (size_t t = 0; t < c.repair.size(); ++t) {
      auto add = [&](const std::string& what, Expr factor) {
        if (provably_equal(factor, c.repair[t].factor))
          return;  // an even power does not tell the points apart
        Mutant m{c.var.name() + ", term " + std::to_string(t) + ": " + what, s};
        m.state.components[a].repair[t].factor = factor;
        out.push_back(std::move(m));
      };
      if (!c.repair[t].factor.is_constant(1)) {
        add("factor dropped", 1);
        add("negated", -c.repair[t].factor);
        add("doubled", 2 * c.repair[t].factor);
        std::vector<std::pair<Sym, Sym>> turned;
        for (const Point& p : s.points) {
          turned.emplace_back(p.var, p.next);
          turned.emplace_back(p.next, p.var);
        }
        add("points exchanged", renamed(c.repair[t].factor, turned));
        for (size_t p = 1; p < s.points.size(); ++p)
          add("the other point", renamed(c.repair[t].factor, {{s.points[0].var, s.points[p].var},
                                                              {s.points[0].next, s.points[p].next},
                                                              {s.points[p].var, s.points[0].var},
                                                              {s.points[p].next, s.points[0].next}}));
      } else {
        for (const Point& p : s.points) add("a scale too many", exp(own(p, p.var) - own(p, p.next)));
      }
      if (c.repair.size() > 1) {
        Mutant m{c.var.name() + ": term " + std::to_string(t) + " dropped", s};
        m.state.components[a].repair.erase(m.state.components[a].repair.begin() + long(t));
        out.push_back(std::move(m));
      }
    }
  }
  return out;
}

class Mutants : public ::testing::TestWithParam<std::pair<const std::string*, const char*>> {};

TEST_P(Mutants, OfRepairsAreRejectedByBothCheckers) {
  auto [text, axis] = GetParam();
  Derived x = derived(*text, axis);
  Sym stream = x.program.axis(axis)->index;
  const State& s = x.state();
  EXPECT_FALSE(rejects(check_identities(s, stream)));
  for (uint64_t seed = 1; seed <= 20; ++seed) EXPECT_FALSE(rejects(check_merges(s, seed))) << "seed " << seed;
  auto all = mutants(s);
  EXPECT_GE(all.size(), s.components.size());
  for (const Mutant& m : all) {
    EXPECT_TRUE(rejects(check_identities(m.state, stream))) << "by expressions: " << m.what;
    EXPECT_TRUE(rejects(check_merges(m.state, 1))) << "by random values: " << m.what;
  }
}

TEST_P(Mutants, OfMergesAreRejected) {
  auto [text, axis] = GetParam();
  Derived x = derived(*text, axis);
  const State& s = x.state();
  using Copies = std::vector<std::pair<Sym, Sym>>;
  auto left_point = [](const State& st, const Copies& l, const Copies& r) {
    Merge m = merge(st, l, r);
    for (size_t p = 0; p < st.points.size(); ++p)
      m.points[p] = renamed(own(st.points[p], st.points[p].var), l);
    return m;
  };
  auto opposite = [](const State& st, const Copies& l, const Copies& r) {
    Merge m = merge(st, l, r);
    for (Expr& e : m.points)
      e = rewrite(e, [](Expr v) {
        return v.is(Op::Max) ? make(Op::Min, v.args()) : v.is(Op::Min) ? make(Op::Max, v.args()) : v;
      });
    return m;
  };
  auto one_side = [](const State& st, const Copies& l, const Copies& r) {
    Merge m = merge(st, l, r);
    const Component& c = st.components.back();
    m.components.back() = renamed(read(c.var, std::vector<Expr>(c.axes.begin(), c.axes.end())), l);
    return m;
  };
  auto unrepaired = [](const State& st, const Copies& l, const Copies& r) {
    Merge m = merge(st, l, r);
    const Component& c = st.components.back();
    Expr t = read(c.var, std::vector<Expr>(c.axes.begin(), c.axes.end()));
    m.components.back() = renamed(t, l) + renamed(t, r);
    return m;
  };
  bool extremum = std::any_of(s.points.begin(), s.points.end(),
                              [](const Point& p) { return p.kind != Point::Kind::Mean; });
  if (extremum) {  // any point is right for a mean
    EXPECT_TRUE(rejects(check_merges(s, 1, left_point)));
    EXPECT_TRUE(rejects(check_merges(s, 1, opposite)));
  } else {
    EXPECT_FALSE(rejects(check_merges(s, 1, left_point)));
  }
  EXPECT_TRUE(rejects(check_merges(s, 1, one_side)));
  bool repaired =
      s.components.back().repair.size() > 1 || !s.components.back().repair[0].factor.is_constant(1);
  if (repaired) {
    EXPECT_TRUE(rejects(check_merges(s, 1, unrepaired)));
  }
}

/// Tiles that the outputs are computed from: results through their finishes, components and what repairs them.
std::vector<Sym> live(const Derivation& d) {
  std::vector<Sym> out;
  std::function<void(Expr)> visit = [&](Expr e) {
    for (Sym s : tensors_read(e)) {
      if (std::find(out.begin(), out.end(), s) != out.end()) continue;
      out.push_back(s);
      for (size_t k = 0; k < d.finish.size(); ++k)
        if (d.cascade.reductions[k].result == s) visit(d.finish[k]);
      for (const Pass& pass : d.passes)
        for (const Component& c : pass.state.components)
          if (c.var == s) visit(c.lift);
    }
  };
  for (const CascadeOutput& o : d.cascade.outputs) visit(o.value);
  return out;
}

TEST_P(Mutants, OfFinishesAndLiftsAreRejected) {
  auto [text, axis] = GetParam();
  Derived x = derived(*text, axis);
  if (x.program.axis(axis)->baked()) return;  // run at any length only where the size is a symbol
  EXPECT_FALSE(rejects(check_outputs(x.program, x.d, 1)));
  std::vector<Sym> used = live(x.d);
  auto is_used = [&](Sym s) { return std::find(used.begin(), used.end(), s) != used.end(); };
  for (size_t k = 0; k < x.d.finish.size(); ++k) {
    // A result carried by a point may stand for any point; one that nothing reads has no effect.
    if (x.d.family[k].empty() || !is_used(x.d.cascade.reductions[k].result)) continue;
    Derivation wrong = x.d;
    wrong.finish[k] = wrong.finish[k] * 2 + 1;
    EXPECT_TRUE(rejects(check_outputs(x.program, wrong, 1)))
        << "finish of " << x.d.cascade.reductions[k].result.name();
  }
  for (size_t c = 0; c < x.state().components.size(); ++c) {
    if (x.state().components[c].combine != Reducer::Sum || !is_used(x.state().components[c].var)) continue;
    Derivation wrong = x.d;
    Component& mutant = wrong.passes[0].state.components[c];
    mutant.lift = mutant.lift + 1;
    // A constant beside a shifted power is a family too, so closure alone does not always tell; the outputs do.
    bool found = rejects(check_identities(wrong.passes[0].state, x.program.axis(axis)->index)) ||
                 rejects(check_outputs(x.program, wrong, 1));
    EXPECT_TRUE(found) << "lift of " << mutant.var.name();
  }
}

/// z3 proves every state and refutes every mutant of its repairs.
TEST_P(Mutants, OfRepairsAreRefutedByZ3) {
  if (!has_z3()) GTEST_SKIP() << "z3 is not installed";
  auto [text, axis] = GetParam();
  Derived x = derived(*text, axis);
  const Sym stream = x.program.axis(axis)->index;
  EXPECT_FALSE(rejects(ask_z3(to_smt(x.state(), stream, "the state"))));
  for (const Mutant& m : mutants(x.state())) {
    const std::vector<Check> answers = ask_z3(to_smt(m.state, stream, m.what));
    EXPECT_TRUE(std::any_of(answers.begin(), answers.end(), [](const Check& c) { return c.detail == "sat"; }))
        << m.what;
  }
}

INSTANTIATE_TEST_SUITE_P(
    States, Mutants,
    ::testing::Values(std::pair{&programs::softmax, "j"}, std::pair{&programs::causal, "j"},
                      std::pair{&programs::layernorm, "c"}, std::pair{&programs::variance, "c"},
                      std::pair{&programs::covariance, "c"}, std::pair{&programs::unsafe_softmax, "j"},
                      std::pair{&programs::affine, "c"}, std::pair{&programs::backward, "j"}));

TEST(IndexMutants, OfAnIndexAreRejected) {
  Derived x = derived("axis r, c\ninput x[r, c] : f32\nk[r] = argmax[c](x)\noutput k\n", "c");
  Sym stream = x.program.axis("c")->index;
  EXPECT_FALSE(rejects(check_identities(x.state(), stream)));
  for (const Mutant& m : mutants(x.state())) {
    if (m.what.find("points exchanged") != std::string::npos) continue;  // equality does not tell them apart
    EXPECT_TRUE(rejects(check_identities(m.state, stream))) << m.what;
    if (has_z3()) {
      EXPECT_TRUE(rejects(ask_z3(to_smt(m.state, stream, m.what)))) << m.what;
    }
  }
  if (has_z3()) {
    EXPECT_FALSE(rejects(ask_z3(to_smt(x.state(), stream, "an index"))));
  }
}

}  // namespace
}  // namespace tilewright::testing::derive_mutants_test
