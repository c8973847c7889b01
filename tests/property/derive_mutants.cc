// Wrong repairs, merges and finishes must be rejected: each mutant of each state fails at least one check, and repairs fail both the check by
// expressions and the check by random values.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "tests/support/derived.h"
#include "tilewright/derive/check.h"
#include "tilewright/driver/compiled.h"
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
  size_t component = 0;
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
    if (c.listed()) continue;  // holds no point
    for (size_t t = 0; t < c.repair.size(); ++t) {
      auto add = [&](const std::string& what, Expr factor) {
        if (provably_equal(factor, c.repair[t].factor))
          return;  // an even power does not tell the points apart
        Mutant m{c.var.name() + ", term " + std::to_string(t) + ": " + what, s, a};
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
        for (size_t p = 1; p < s.points.size() && s.points[p].axes == s.points[0].axes; ++p)
          add("the other point", renamed(c.repair[t].factor, {{s.points[0].var, s.points[p].var},
                                                              {s.points[0].next, s.points[p].next},
                                                              {s.points[p].var, s.points[0].var},
                                                              {s.points[p].next, s.points[0].next}}));
      } else {
        for (const Point& p : s.points) add("a scale too many", exp(own(p, p.var) - own(p, p.next)));
      }
      if (c.repair.size() > 1) {
        Mutant m{c.var.name() + ": term " + std::to_string(t) + " dropped", s, a};
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
  }
}

// ---- the states of all examples ----

using Copies = std::vector<std::pair<Sym, Sym>>;

/// The components of one side of a merge as its rows repair them, one term left out where that is asked for.
Expr repaired(const State& s, size_t a, const Copies& side, size_t without = size_t(-1)) {
  const Component& c = s.components[a];
  Expr sum = 0;
  for (size_t t = 0; t < c.repair.size(); ++t) {
    if (t == without) continue;
    const Component& b = s.components[size_t(c.repair[t].component)];
    const Expr held = read(b.var, std::vector<Expr>(b.axes.begin(), b.axes.end()));
    const Expr term = c.repair[t].factor.is_constant(1) ? held : c.repair[t].factor * held;
    sum = sum.is_constant(0) ? term : sum + term;
  }
  return renamed(sum, side);
}

struct MergeMutant {
  std::string what;
  Merging how;
};

/// Wrong merges of the components and of the points.
std::vector<MergeMutant> merge_mutants(const State& s) {
  std::vector<MergeMutant> out;
  using Wrong = std::function<Expr(const State&, const Copies&, const Copies&)>;
  const auto component = [&](size_t a, const std::string& what, const Wrong& wrong) {
    out.push_back(
        {s.components[a].var.name() + ": " + what, [=](const State& st, const Copies& l, const Copies& r) {
           Merge m = merge(st, l, r);
           m.components[a] = wrong(st, l, r);
           return m;
         }});
  };
  const auto point = [&](size_t k, const std::string& what, const Wrong& wrong) {
    out.push_back(
        {s.points[k].var.name() + ": " + what, [=](const State& st, const Copies& l, const Copies& r) {
           Merge m = merge(st, l, r);
           m.points[k] = wrong(st, l, r);
           return m;
         }});
  };
  for (size_t a = 0; a < s.components.size(); ++a) {
    const Component& c = s.components[a];
    if (c.listed()) continue;  // its merge is no expression; tests/unit/derive_ranks.cc breaks its order
    const Expr self = read(c.var, std::vector<Expr>(c.axes.begin(), c.axes.end()));
    const bool sum = c.combine == Reducer::Sum;
    const auto both = [sum, r = c.combine](Expr x, Expr y) {
      return sum ? x + y : r == Reducer::Max ? max(x, y) : r == Reducer::Min ? min(x, y) : x * y;
    };
    if (c.combine == Reducer::Any || c.combine == Reducer::All) {
      component(a, "and in place of or", [=](const State&, const Copies& l, const Copies& r) {
        return c.combine == Reducer::Any ? logical_and(renamed(self, l), renamed(self, r))
                                         : logical_or(renamed(self, l), renamed(self, r));
      });
      continue;
    }
    component(a, "the right side dropped",
              [=](const State& st, const Copies& l, const Copies&) { return repaired(st, a, l); });
    component(a, "the left side dropped",
              [=](const State& st, const Copies&, const Copies& r) { return repaired(st, a, r); });
    component(a, "the right side doubled", [=](const State& st, const Copies& l, const Copies& r) {
      return both(repaired(st, a, l), 2 * repaired(st, a, r));
    });
    component(a, "another reducer", [=](const State& st, const Copies& l, const Copies& r) {
      const Expr x = repaired(st, a, l), y = repaired(st, a, r);
      return c.combine == Reducer::Min   ? max(x, y)
             : c.combine == Reducer::Max ? min(x, y)
             : sum                       ? x - y
                                         : x + y;
    });
    if (c.repair.size() == 1 && c.repair[0].factor.is_constant(1)) continue;
    const bool chosen = c.combine == Reducer::Min;  // its factors compare points, in either order
    component(a, "the right side not repaired", [=](const State& st, const Copies& l, const Copies& r) {
      return both(repaired(st, a, l), renamed(self, r));
    });
    component(a, "the left side not repaired", [=](const State& st, const Copies& l, const Copies& r) {
      return both(renamed(self, l), repaired(st, a, r));
    });
    const auto exchanged = [](const State& st, const Copies& side) {  // ρ and ρ* of a side
      Copies turned = side;
      for (const Point& p : st.points)
        for (size_t k = 0, n = turned.size(); k < n; ++k) {
          if (turned[k].first != p.var) continue;
          turned.emplace_back(p.next, turned[k].second);
          turned[k].second = p.next;
        }
      return turned;
    };
    if (!chosen)
      component(a, "from the merged point", [=](const State& st, const Copies& l, const Copies& r) {
        return both(repaired(st, a, exchanged(st, l)), repaired(st, a, r));
      });
    component(a, "from the other side's point", [=](const State& st, const Copies& l, const Copies& r) {
      Copies mixed = l;
      for (size_t k = 0; k < st.points.size(); ++k) mixed[k] = r[k];
      return both(repaired(st, a, mixed), repaired(st, a, r));
    });
    component(a, "to the other side's point", [=](const State& st, const Copies& l, const Copies& r) {
      Copies mixed = l;
      for (size_t k = 0; k < st.points.size(); ++k) mixed.emplace_back(st.points[k].next, r[k].second);
      return both(repaired(st, a, mixed), repaired(st, a, r));
    });
    for (size_t t = 0; c.repair.size() > 1 && t < c.repair.size(); ++t)
      component(a, "term " + std::to_string(t) + " dropped",
                [=](const State& st, const Copies& l, const Copies& r) {
                  return both(repaired(st, a, l, t), repaired(st, a, r));
                });
  }
  for (size_t k = 0; k < s.points.size(); ++k) {
    const Point& p = s.points[k];
    const Expr rho = own(p, p.var);
    point(k, "the left point", [=](const State&, const Copies& l, const Copies&) { return renamed(rho, l); });
    point(k, "the right point",
          [=](const State&, const Copies&, const Copies& r) { return renamed(rho, r); });
    point(k, "the middle", [=](const State&, const Copies& l, const Copies& r) {
      return (renamed(rho, l) + renamed(rho, r)) / 2;
    });
    if (p.kind != Point::Kind::Mean) {
      point(k, "the other extremum", [=](const State&, const Copies& l, const Copies& r) {
        return p.kind == Point::Kind::Maximum ? min(renamed(rho, l), renamed(rho, r))
                                              : max(renamed(rho, l), renamed(rho, r));
      });
      continue;
    }
    const auto of = [&](int c) {
      const Component& held = s.components[size_t(c)];
      return read(held.var, std::vector<Expr>(held.axes.begin(), held.axes.end()));
    };
    const Expr residual = of(p.sum), n = of(p.weight);
    struct Side {
      Expr rho, s, n;
    };
    const auto mean = [=](const Copies& l, const Copies& r,
                          const std::function<Expr(const Side&, const Side&)>& f) {
      return f({renamed(rho, l), renamed(residual, l), renamed(n, l)},
               {renamed(rho, r), renamed(residual, r), renamed(n, r)});
    };
    point(k, "without residuals", [=](const State&, const Copies& l, const Copies& r) {
      return mean(l, r,
                  [](const Side& x, const Side& y) { return x.rho + y.n * (y.rho - x.rho) / (x.n + y.n); });
    });
    point(k, "weights exchanged", [=](const State&, const Copies& l, const Copies& r) {
      return mean(l, r, [](const Side& x, const Side& y) {
        return x.rho + (x.s + y.s + x.n * (y.rho - x.rho)) / (x.n + y.n);
      });
    });
    point(k, "a difference negated", [=](const State&, const Copies& l, const Copies& r) {
      return mean(l, r, [](const Side& x, const Side& y) {
        return x.rho + (x.s + y.s + y.n * (x.rho - y.rho)) / (x.n + y.n);
      });
    });
  }
  return out;
}

/// The questions of `file` whose checks are in `names`.
SmtFile only(const SmtFile& file, const std::vector<std::string>& names) {
  SmtFile out;
  const std::string mark = "(echo \"";
  for (size_t at = file.text.find(mark); at != std::string::npos;) {
    const size_t next = file.text.find(mark, at + 1);
    const std::string block = file.text.substr(at, next - at);
    const std::string name = block.substr(mark.size(), block.find("\")\n") - mark.size());
    if (std::find(names.begin(), names.end(), name) != names.end()) {
      out.text += block;
      out.checks.push_back(name);
    }
    at = next;
  }
  return out;
}

/// Without what its variables stand for: two states that differ in that alone have the same mutants.
std::string without_comments(const std::string& text) {
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) out += line.substr(0, line.find(';')) + "\n";
  return out;
}

/// Every distinct mutant of the repairs and merges of every example's states.
TEST(ExampleMutants, OfRepairsAndMergesAreRejectedByBothEngines) {
  const bool z3 = has_z3();
  std::set<std::string> seen;  // states and mutants, as questions
  size_t states = 0, repairs = 0, merges = 0, random = 0;
  SmtFile all;
  std::vector<std::pair<std::string, size_t>>
      asked;  // the mutant of each run of questions, and where it ends
  for (const auto& file : std::filesystem::directory_iterator(std::string(TW_SOURCE_DIR) + "/examples")) {
    if (file.path().extension() != ".tw") continue;
    CompileOptions o;
    o.target = Target::Interp;
    const CompiledProgram compiled = compile_program(load_program(file.path().string()), o);
    for (const Compilation& kernel : compiled.kernels)
      for (const Pass& pass : kernel.derivation.passes) {
        const State& s = pass.state;
        const Sym stream = kernel.derivation.cascade.axis;
        if (!seen.insert(without_comments(to_smt(s, stream, "").text)).second) continue;
        ++states;
        const auto judge = [&](const std::string& what, const State& state, const Merging& how,
                               size_t& count) {
          const SmtFile questions = to_smt(state, stream, "", how);
          if (!seen.insert(without_comments(questions.text)).second) return;
          ++count;
          std::vector<std::string> failed;
          for (const Check& c : check_identities(state, stream, how))
            if (!c.passed) failed.push_back(c.what);
          const std::string name = file.path().stem().string() + ", " + what;
          EXPECT_FALSE(failed.empty()) << "by expressions: " << name;
          if (&count == &repairs) random += rejects(check_merges(state, 1));
          if (failed.size() > 2) failed.resize(2);  // as many as z3 is asked about
          const SmtFile mine = only(questions, failed);
          all.text += mine.text;
          all.checks.insert(all.checks.end(), mine.checks.begin(), mine.checks.end());
          asked.emplace_back(name, all.checks.size());
        };
        for (const Mutant& m : mutants(s)) {
          const bool equality = m.what.find("points exchanged") != std::string::npos;
          if (equality && s.components[m.component].combine == Reducer::Min)
            continue;  // it does not tell them apart
          judge(m.what, m.state, merge, repairs);
        }
        for (const MergeMutant& m : merge_mutants(s)) judge("merge, " + m.what, s, m.how, merges);
      }
  }
  fmt::print(
      "{} states: {} distinct mutants of repairs and {} of merges, each rejected by expressions, of the "
      "repairs {} by random "
      "values too\n",
      states, repairs, merges, random);
  EXPECT_GE(repairs + merges, 200u);
  if (!z3) GTEST_SKIP() << "z3 is not installed: it was not asked about them";
  const std::vector<Check> answers = ask_z3(all);
  size_t at = 0;
  for (const auto& [name, end] : asked) {
    bool refuted = false;
    for (; at < end; ++at) refuted = refuted || answers[at].detail == "sat";
    EXPECT_TRUE(refuted) << "by z3: " << name;
  }
  fmt::print("z3 refutes each of them, in {} answers\n", answers.size());
}

}  // namespace
}  // namespace tilewright::testing::derive_mutants_test
