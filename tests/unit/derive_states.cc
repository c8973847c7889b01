// The states of known programs, component by component.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/derived.h"
#include "tilewright/derive/state.h"
#include "tilewright/expr/simplify.h"

namespace tilewright::testing::derive_states_test {
namespace {

std::string axes(const std::vector<Sym>& list) {
  std::string out;
  for (Sym s : list) out += (out.empty() ? "" : " ") + s.name();
  return out;
}

/// "name[axes] meaning" of each component, sorted.
std::vector<std::string> components(const State& s) {
  std::vector<std::string> out;
  for (const Component& c : s.components) out.push_back(c.var.name() + "[" + axes(c.axes) + "] " + c.meaning);
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::string> sorted(std::vector<std::string> v) {
  std::sort(v.begin(), v.end());
  return v;
}

Expr repair_factor(const State& s, const Component& c, const std::string& of) {
  for (const RepairTerm& t : c.repair)
    if (s.components[size_t(t.component)].var.name() == of) return t.factor;
  return {};
}

Expr own(const Point& p, Sym var) { return read(var, std::vector<Expr>(p.axes.begin(), p.axes.end())); }

void expect_scale(const State& s, const std::string& component) {
  const Point& p = s.points.at(0);
  Expr rho = own(p, p.var), next = own(p, p.next);
  for (const Component& c : s.components) {
    if (c.var.name() != component) continue;
    ASSERT_EQ(c.repair.size(), 1u);
    EXPECT_EQ(c.repair[0].factor, select(equal(rho, next), 1, exp(rho - next))) << component;
  }
}

void expect_all_passed(const Derived& x) {
  for (const Pass& pass : x.d.passes)
    for (const Check& c : pass.state.checks) EXPECT_TRUE(c.passed) << c.what;
}

TEST(States, Softmax) {
  Derived x = derived(programs::softmax, "j");
  ASSERT_EQ(x.d.passes.size(), 2u);
  ASSERT_EQ(x.state().points.size(), 1u);
  const Point& m = x.state().points[0];
  EXPECT_EQ(m.kind, Point::Kind::Maximum);
  EXPECT_EQ(axes(m.axes), "r");
  EXPECT_TRUE(m.exponential);
  EXPECT_TRUE(m.may_lag) << "P = exp(x - m)/l does not depend on which point was used";
  EXPECT_TRUE(m.speculative);
  EXPECT_EQ(components(x.state()), sorted({"l[r] sum exp(x - m)"}));
  expect_scale(x.state(), "l");
  // The output along the axis is stored in pass 2, with the finals of pass 1 as constants.
  ASSERT_EQ(x.d.cascade.outputs.size(), 1u);
  EXPECT_TRUE(x.d.cascade.outputs[0].along_stream);
  EXPECT_EQ(x.d.cascade.outputs[0].pass, 2);
  EXPECT_TRUE(x.d.passes[0].stored.empty());
  EXPECT_EQ(x.d.passes[1].stored, std::vector<size_t>{0});
  EXPECT_TRUE(x.d.passes[1].reductions.empty());
  EXPECT_TRUE(x.d.refusals.empty());
  expect_all_passed(x);
}

TEST(States, CausalAttention) {
  Derived x = derived(programs::causal, "j");
  ASSERT_EQ(x.d.passes.size(), 1u);
  const State& s = x.state();
  ASSERT_EQ(s.points.size(), 1u);
  EXPECT_EQ(s.points[0].var.name(), "m");
  EXPECT_EQ(axes(s.points[0].axes), "b i");
  EXPECT_EQ(components(s), sorted({"l[b i] sum exp(S - m)", "o[b i e] sum V * exp(S - m)"}));
  expect_scale(s, "l");
  expect_scale(s, "o");
  for (const Component& c : s.components)
    EXPECT_EQ(c.present, s.points[0].present) << "the mask is the presence of everything";
  EXPECT_FALSE(s.points[0].present.number().has_value());
  // u is the scaled product without the mask.
  Sym S = x.program.definitions[0].sym;
  EXPECT_EQ(s.points[0].u, simplify(inlined(x.program, S)));
  // finish: o / l where something was present
  Expr l = read(x.reduction("l")->result, {s.points[0].axes[0], s.points[0].axes[1]});
  const Component& o = *x.component("o");
  Expr t = read(o.var, std::vector<Expr>(o.axes.begin(), o.axes.end()));
  size_t k = size_t(x.reduction("o") - x.d.cascade.reductions.data());
  EXPECT_EQ(simplify(x.d.finish[k]), simplify(select(equal(l, 0), 0, t / l)));
  EXPECT_TRUE(s.points[0].speculative);
  expect_all_passed(x);
}

TEST(States, TheScaleOfScoresDoesNotMatter) {
  for (const char* body : {"exp(x - m)", "exp2((x - m) * log2(exp(1)))", "exp(x) / exp(m)"}) {
    Derived x = derived(std::string("axis r, j\ninput x[r, j] : f32\nm[r] = max[j](x)\nl[r] = sum[j](") +
                            body + ")\nz[r] = m + log(l)\noutput z\n",
                        "j");
    EXPECT_EQ(x.d.passes.size(), 1u);
    EXPECT_EQ(components(x.state()), sorted({"l[r] sum exp(x - m)"})) << body;
    EXPECT_EQ(x.state().points.size(), 1u);
    EXPECT_TRUE(x.state().points[0].may_lag) << body;
  }
}

TEST(States, LayernormIntoAProduct) {
  Derived x = derived(programs::layernorm, "c");
  ASSERT_EQ(x.d.passes.size(), 1u);
  const State& s = x.state();
  ASSERT_EQ(s.points.size(), 1u);
  const Point& rho = s.points[0];
  EXPECT_EQ(rho.kind, Point::Kind::Mean);
  EXPECT_EQ(axes(rho.axes), "r");
  EXPECT_FALSE(rho.may_lag);
  EXPECT_EQ(components(s), sorted({"count[] sum 1", "d1[r] sum x - rho", "d2[r] sum (x - rho) ** 2",
                                   "y0[n] sum gamma * W", "y[r n] sum gamma * W * (x - rho)"}));
  EXPECT_EQ(s.components[size_t(rho.sum)].var.name(), "d1");
  EXPECT_EQ(s.components[size_t(rho.weight)].var.name(), "count");
  Expr delta = own(rho, rho.var) - own(rho, rho.next);
  EXPECT_TRUE(provably_equal(repair_factor(s, *x.component("d2"), "d1"), 2 * delta));
  EXPECT_TRUE(provably_equal(repair_factor(s, *x.component("d2"), "count"), pow(delta, 2)));
  EXPECT_TRUE(provably_equal(repair_factor(s, *x.component("y"), "y0"), delta));
  EXPECT_EQ(x.component("y0")->repair.size(), 1u);
  // finish uses −Σ(x − ρ)/n, so ρ itself does not occur, and the inverse deviation is applied once.
  size_t k = size_t(x.reduction("y") - x.d.cascade.reductions.data());
  for (Sym t : tensors_read(x.d.finish[k])) EXPECT_FALSE(t == rho.var);
  auto read_in = tensors_read(x.d.finish[k]);
  EXPECT_NE(std::find(read_in.begin(), read_in.end(), x.component("d1")->var), read_in.end())
      << "the residual is not dropped";
  EXPECT_FALSE(x.d.deferred.empty());
  expect_all_passed(x);
}

TEST(States, Variance) {
  Derived x = derived(programs::variance, "c");
  ASSERT_EQ(x.d.passes.size(), 1u);
  EXPECT_EQ(components(x.state()), sorted({"n[] sum 1", "d1[r] sum x - rho", "d2[r] sum (x - rho) ** 2"}));
  expect_all_passed(x);
}

TEST(States, Covariance) {
  Derived x = derived(programs::covariance, "c");
  ASSERT_EQ(x.d.passes.size(), 1u);
  EXPECT_EQ(x.state().points.size(), 2u);
  EXPECT_EQ(x.state().components.size(), 4u) << "the product, both differences, the count";
  bool product = false;
  for (const Component& c : x.state().components) product = product || c.repair.size() == 4;
  EXPECT_TRUE(product);
  expect_all_passed(x);
}

TEST(States, UnsafeSoftmaxGetsAMaximum) {
  Derived x = derived(programs::unsafe_softmax, "j");
  ASSERT_EQ(x.d.passes.size(), 1u);
  ASSERT_EQ(x.state().points.size(), 1u);
  EXPECT_EQ(x.state().points[0].kind, Point::Kind::Maximum);
  EXPECT_EQ(x.state().components.size(), 2u);
  // exp(m) cancels between the two sums.
  for (Sym t : tensors_read(x.d.cascade.outputs[0].value)) EXPECT_NE(t.name(), "m");
  EXPECT_TRUE(x.state().points[0].speculative);
  expect_all_passed(x);
}

TEST(States, AShiftThatIsNotTheMaximumIsMovedOut) {
  Derived x = derived(
      "axis i, j, e\ninput S[i, j] : f32\ninput V[j, e] : f32\nt[i] = sum[j](S)\n"
      "O[i, e] = sum[j](exp(S - t) * V) / sum[j](exp(S - t))\noutput O\n",
      "j");
  EXPECT_EQ(x.d.passes.size(), 1u);
  EXPECT_EQ(x.reduction("t"), nullptr) << "nothing reads it any more";
  EXPECT_EQ(x.state().points.size(), 1u);
  expect_all_passed(x);
}

TEST(States, AMinimumServesAsPoint) {
  Derived x = derived(programs::affine, "c");
  ASSERT_EQ(x.d.passes.size(), 1u);
  ASSERT_EQ(x.state().points.size(), 1u);
  EXPECT_EQ(x.state().points[0].kind, Point::Kind::Minimum);
  EXPECT_EQ(components(x.state()), sorted({"hi[r] max x", "y[r n] sum W * (x - lo)", "y0[n] sum W"}));
  expect_all_passed(x);
}

TEST(States, SoftmaxBackwardInOnePass) {
  Derived x = derived(programs::backward, "j");
  ASSERT_EQ(x.d.passes.size(), 1u);
  const State& s = x.state();
  ASSERT_EQ(s.points.size(), 2u);
  EXPECT_NE(x.component("D"), nullptr) << "held shifted: sum (T - rho) exp(S - m)";
  EXPECT_EQ(x.component("D")->meaning, "sum (T - rho) * exp(S - m)");
  EXPECT_EQ(x.component("dq")->meaning, "sum K * (T - rho) * exp(S - m)");
  EXPECT_EQ(x.component("dq0")->meaning, "sum K * exp(S - m)");
  EXPECT_TRUE(s.points[0].may_lag);
  expect_all_passed(x);
}

TEST(States, PeeledMaximum) {
  Derived x = derived(
      "axis r, c\ninput x[r, c] : f32\na[r] = sum[c](abs(x))\nm[r] = max[c](abs(x) * a)\n"
      "k[r] = max[c](x * sum[c](x))\noutput m, k\n",
      "c");
  EXPECT_EQ(x.d.passes.size(), 1u);
  EXPECT_EQ(x.component("m")->meaning, "max abs(x)");
  int maxima = 0, minima = 0;
  for (const Component& c : x.state().components) {
    maxima += c.combine == Reducer::Max && c.meaning == "max x";
    minima += c.combine == Reducer::Min && c.meaning == "min x";
  }
  EXPECT_EQ(maxima, 1);
  EXPECT_EQ(minima, 1) << "a factor of unknown sign needs both";
  expect_all_passed(x);
}

TEST(States, IndexOfTheMaximum) {
  Derived x =
      derived("axis r, c\ninput x[r, c] : f32\nk[r] = argmax[c](x)\nq[r] = argmin[c](x)\noutput k, q\n", "c");
  EXPECT_EQ(x.d.passes.size(), 1u);
  EXPECT_EQ(x.state().points.size(), 2u);
  EXPECT_EQ(x.state().components.size(), 2u);
  for (const Component& c : x.state().components) EXPECT_EQ(c.combine, Reducer::Min);
  expect_all_passed(x);
}

/// One state of one pass, whose components are named so; every check passed.
void expect_one_pass(const std::string& body, const std::vector<std::string>& held) {
  Derived x = derived(
      "axis r, j, d\ninput x[r, j] : f32\ninput y[r, j] : f32\ninput z[j] : f32\ninput Q[r, d] : f32\n"
      "input K[j, d] : f32\n" +
          body,
      "j");
  ASSERT_EQ(x.d.passes.size(), 1u) << body;
  EXPECT_TRUE(x.d.refusals.empty()) << body;
  EXPECT_EQ(components(x.state()), sorted(held)) << body;
  expect_all_passed(x);
}

TEST(States, TheIndexOfAMaximumOfWhatRises) {
  expect_one_pass("a[r] = sum[j](y)\nk[r] = argmax[j](x * (1 + abs(a)) + a)\noutput k\n",
                  {"k[r] min where(x == m_2 or not x <= inf, 1 + j, inf)"});
  expect_one_pass("k[r] = argmin[j](tanh(x))\noutput k\n",
                  {"k[r] min where(m == tanh(x) or not tanh(x) <= inf, 1 + j, inf)"});
  Derived falls =
      derived("axis r, j\ninput x[r, j] : f32\na[r] = sum[j](x)\nk[r] = argmax[j](x * a)\noutput k\n", "j");
  EXPECT_EQ(falls.d.passes.size(), 2u) << "a factor of unknown sign";
}

TEST(States, ScoresShiftedByAResult) {
  expect_one_pass("a[r] = sum[j](y)\no[r] = sum[j](softmax[j](x - a) * y)\noutput o\n",
                  {"l[r] sum exp(x - m_2)", "o[r] sum y * exp(x - m_2)"});
}

TEST(States, ASumOverAnotherAxisKeepsWhatVariesAlongIt) {
  expect_one_pass("a[r] = max[j](y)\no[r] = sum[j](sum[d](Q * (K - a)))\noutput o\n",
                  {"a[r] max y", "d1[r] sum sum[d](Q * K) - rho", "n[] sum 1"});
}

/// Σ_jΣ_d exp(u − r): one point for both axes.
/// Nothing says that an input is a logsumexp: exp(S − L) is held at its maximum, which lags. D is a constant, so nothing else is repaired. A bound that the
/// program states on the exponent makes the point needless.
TEST(States, ASavedNormaliserIsHeldAtAMaximum) {
  const std::string text =
      "axis i, j\naxis d = 4\ninput S[i, j] : f32\ninput T[i, j] : f32\ninput K[j, d] : f32\ninput L[i] : "
      "f32\n"
      "input D[i] : f32\nP[i, j] = ";
  const std::string gradient = "\nG[i, d] = sum[j](P * (T - D) * K)\noutput G\n";
  const Derived x = derived(text + "exp(S - L)" + gradient, "j");
  EXPECT_EQ(x.d.passes.size(), 1u);
  ASSERT_EQ(x.state().points.size(), 1u);
  const Point& m = x.state().points[0];
  EXPECT_EQ(m.kind, Point::Kind::Maximum);
  EXPECT_EQ(to_string(m.u), "f64(S[i, j] - L[i])");  // kept together: L may be large
  EXPECT_TRUE(m.may_lag);
  EXPECT_TRUE(m.speculative);
  ASSERT_EQ(x.state().components.size(), 1u);
  expect_scale(x.state(), x.state().components[0].var.name());
  expect_all_passed(x);
  const Derived bounded = derived(text + "exp(min(max(S - L, -30), 0))" + gradient, "j");
  EXPECT_EQ(bounded.d.passes.size(), 1u);
  EXPECT_TRUE(bounded.state().points.empty());
  ASSERT_EQ(bounded.state().components.size(), 1u);
  ASSERT_EQ(bounded.state().components[0].repair.size(), 1u);
  EXPECT_TRUE(bounded.state().components[0].repair[0].factor.is_constant(1));
}

/// The point is the mean over both axes, and the lifts are sums over the other one.
TEST(States, VariancesOverSeveralAxesTakeOnePass) {
  const std::string text =
      "axis i, j\naxis d = 4\ninput u[i, j, d] : f32\ninput v[i, j, d] : f32\ninput w[d] : f32\n"
      "input len[i] : i32 range(0, 5)\nmu[i] = mean[j, d](u)\n";
  struct {
    const char* y;
    size_t points, components;
  } cases[] = {
      {"var[j, d](u)", 1, 3},
      {"sum[j, d]((u - mu) ** 2)", 1, 3},
      {"sum[j, d]((u - mu) ** 3)", 1, 4},
      {"sum[j, d]((u - mu) * w * v)", 1, 4},
      {"sum[j, d]((u - mu) / sqrt(var[j, d](u) + 1) * v)", 1, 5},
      {"sum[j, d]((u - mu) * (v - mean[j, d](v)))", 2, 4},
      {"sum[j](sum[d]((u - mu) ** 2))", 1, 3},
      {"sum[j, d](where(d < len, (u - sum[j, d](where(d < len, u, 0)) / sum[j, d](where(d < len, 1, 0))) ** "
       "2, 0))",
       1, 3},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.y);
    const Derived x = derived(text + "y[i] = " + c.y + "\noutput y\n", "j");
    EXPECT_EQ(x.d.passes.size(), 1u);
    for (const Refusal& r : x.d.refusals) ADD_FAILURE() << to_string(r.subterm) << ": " << r.reason;
    EXPECT_EQ(x.state().points.size(), c.points);
    EXPECT_EQ(x.state().components.size(), c.components);
    for (const Point& p : x.state().points) {
      EXPECT_EQ(p.kind, Point::Kind::Mean);
      EXPECT_EQ(axes(p.axes), "i");
    }
    expect_all_passed(x);
  }
  const Derived x = derived(text + "y[i] = var[j, d](u)\noutput y\n", "j");
  EXPECT_EQ(components(x.state()),
            sorted({"n[] sum sum[d](1)", "d1[i] sum sum[d](u - rho)", "d2[i] sum sum[d]((u - rho) ** 2)"}));
}

/// A weight that is a sum itself is no sum of differences.
TEST(States, AWeightThatIsASumOverAnotherAxis) {
  const Derived x = derived(
      "axis r, j\naxis d = 4\ninput Q[r, d] : f32\ninput K[j, d] : f32\ninput y[r, j] : f32\nmu[r] = "
      "mean[j](y)\n"
      "s[r] = sum[j]((y - mu) * sum[d](Q * K))\noutput s\n",
      "j");
  EXPECT_EQ(x.d.passes.size(), 1u);
  EXPECT_EQ(components(x.state()), sorted({"n[] sum 1", "d1[r] sum y - rho", "s0[r] sum sum[d](Q * K)",
                                           "s[r] sum (y - rho) * sum[d](Q * K)"}));
  expect_all_passed(x);
}

TEST(States, ASumOfExponentialsOverSeveralAxes) {
  const std::string text =
      "axis i, j\naxis d = 4\ninput u[i, j, d] : f32\ninput v[i, d] : f32\nr[i] = max[j, d](u)\n";
  for (const char* y : {"sum[j, d](exp(u - r))", "sum[j, d](exp(u - r) * v)", "logsumexp[j, d](u)",
                        "sum[j, d](where(d < 3, exp(2 * u - 2 * r), 0))"}) {
    SCOPED_TRACE(y);
    Derived x = derived(text + "y[i] = " + y + "\noutput y\n", "j");
    EXPECT_EQ(x.d.passes.size(), 1u);
    ASSERT_EQ(x.state().points.size(), 1u);
    EXPECT_EQ(axes(x.state().points[0].axes), "i");
  }
}

TEST(States, AMaximumOverSeveralAxesIsPeeledThroughBoth) {
  const std::string text =
      "axis i, j\naxis d = 4\ninput K[j, d] : f32\ninput R[i, d] : f32\ninput u[i, j] : f32\nr[i] = "
      "max[j](u)\n";
  for (const char* y : {"max[j, d](K * R * r)", "max[j, d](K * R + r)", "min[j, d](exp(K * R - r))",
                        "max[j, d](-abs(r) * K)", "max[j, d](max(K, R) * abs(r) + r)"}) {
    SCOPED_TRACE(y);
    Derived x = derived(text + "y[i] = " + y + "\noutput y\n", "j");
    EXPECT_EQ(x.d.passes.size(), 1u);
  }
  // A running value that varies along the other axis does not leave it.
  const Derived x = derived(
      "axis j\naxis d = 4\ninput K[j, d] : f32\nr[d] = max[j](K)\ny[] = max[j, d](K * r)\noutput y\n", "j");
  EXPECT_EQ(x.d.passes.size(), 2u);
}

TEST(States, AProductKeepsItsRange) {
  expect_one_pass("a[r] = max[j](y)\np[r] = prod[j]((1 + 0.1 * x) * abs(a))\noutput p\n",
                  {"a[r] max y", "n[] sum 1", "p[r] prod 1 + x / 10"});
}

/// A maximum over fewer elements than a difference sees is −inf while the difference holds something.
TEST(States, AMaximumThatSeesLessIsNoPoint) {
  Derived x = derived(
      "axis r, j\ninput x[r, j] : f32\nm[r] = max[j](where(j <= r, x, -inf))\nv[r] = sum[j]((x - m) ** "
      "2)\noutput v\n",
      "j");
  ASSERT_EQ(x.state().points.size(), 1u);
  EXPECT_EQ(x.state().points[0].kind, Point::Kind::Mean);
  EXPECT_FALSE(x.state().points[0].present.number() == 0);
  expect_all_passed(x);
}

TEST(States, OnePointForEachPresence) {
  Derived x = derived(
      "axis r, j\ninput x[r, j] : f32\ninput z[j] : f32\na[r] = max[j](x)\nb[r] = sum[j](where(x > 0, a + z, "
      "0))\nv[] = var[j](z)\n"
      "output a, b, v\n",
      "j");
  EXPECT_EQ(x.d.passes.size(), 1u);
  EXPECT_EQ(x.state().points.size(), 2u);
  expect_all_passed(x);
}

TEST(States, ProductsAnyAll) {
  Derived x = derived(
      "axis r, c\ninput x[r, c] : f32\na[r] = sum[c](x**2)\np[r] = prod[c]((1 + x**2) * a)\n"
      "q[r] = any[c](x > 1 and a > 2)\nt[r] = all[c](x < 2 or a > 1)\noutput p, q, t\n",
      "c");
  EXPECT_EQ(x.d.passes.size(), 1u);
  expect_all_passed(x);
}

TEST(States, AConditionOnAResultCountsNoElements) {
  // Where a wholly masked row has no weights, no page of it is looked up: `l != 0` decides for the row, and the state needs no count beside l.
  Derived x = derived(
      "program p\naxis b, p, v, d\naxis j = 4 * size(p)\naxis t = 4\ninput S[b, j] : f32\ninput V[v, t, d] : "
      "f32\n"
      "input page[b, p] : i64 range(0, size(v))\ninput len[b] : i64 range(0, size(j) + 1)\n"
      "C[b, j] = where(j < len[b], S, -inf)\n"
      "O[b, d] = sum[j](softmax[j](C) * V[page[b, j // 4], j % 4, d])\noutput O : f32\n",
      "j");
  const State& s = x.state();
  ASSERT_EQ(s.components.size(), 2u);
  for (const Component& c : s.components) EXPECT_TRUE(depends_on(c.present, x.d.cascade.axis));
  EXPECT_EQ(s.components[0].present, s.components[1].present);
  EXPECT_EQ(s.components[0].present, s.points.at(0).present);
  expect_all_passed(x);
}

TEST(States, AnOutputThatNeedsNoResultStaysInPassOne) {
  Derived x = derived(
      "axis i, j, e\ninput S[i, j] : f32\ninput V[j, e] : f32\nZ[i, j] = S * 2\nP[i, j] = softmax[j](Z)\n"
      "O[i, e] = sum[j](P * V)\noutput O, P, Z\n",
      "j");
  ASSERT_EQ(x.d.cascade.outputs.size(), 3u);
  EXPECT_EQ(x.d.cascade.outputs[0].pass, 1);
  EXPECT_EQ(x.d.cascade.outputs[1].pass, 2);
  EXPECT_EQ(x.d.cascade.outputs[2].pass, 1);
  EXPECT_EQ(x.d.passes[0].stored, std::vector<size_t>{2});
  EXPECT_EQ(x.d.passes[1].stored, std::vector<size_t>{1});
}

TEST(States, ASecondPassKnowsTheMaximumOfTheFirst) {
  // exp(x − m) with the final m is at most 1: no point in pass 2.
  Derived x = derived(
      "axis r, c\ninput x[r, c] : f32\nm[r] = max[c](x)\nl[r] = sum[c](exp(x - m))\n"
      "q[r] = sum[c](round(exp(x - m) / l) * exp(x - m))\noutput q\n",
      "c");
  ASSERT_EQ(x.d.passes.size(), 2u);
  EXPECT_TRUE(x.state(2).points.empty());
  EXPECT_EQ(x.d.refusals.size(), 1u);
  expect_all_passed(x);
}

TEST(States, SmallExponentsNeedNoPoint) {
  Derived x = derived(
      "axis r, c, e\ninput x[r, c] : f32\ninput V[c, e] : f32\nO[r, e] = sum[c](softmax[c](4 * tanh(x)) * "
      "V)\noutput O\n",
      "c");
  EXPECT_EQ(x.d.passes.size(), 1u);
  EXPECT_TRUE(x.state().points.empty());
  EXPECT_EQ(x.state().components.size(), 2u);
  expect_all_passed(x);
}

TEST(States, AnInfiniteFactorStaysInside) {
  // Σ inf·x is NaN where x changes its sign, inf·Σ x is not.
  for (std::string body : {"x * inf", "x / 0", "x * 1e300 * 1e300", "inf * (x - inf * x)"})
    for (std::string reducer : {"sum", "max", "min"}) {
      Derived x =
          derived("axis i, j\ninput x[i, j] : f32\ny[i] = " + reducer + "[j](" + body + ")\noutput y\n", "j");
      ASSERT_EQ(x.d.passes.size(), 1u);
      ASSERT_EQ(x.state().components.size(), 1u);
      const Component& y = x.state().components[0];
      EXPECT_EQ(x.d.finish[0], read(y.var, {Expr(y.axes[0])})) << reducer << " of " << body;
      expect_all_passed(x);
    }
}

TEST(States, ExponentialsOfExponentials) {
  std::string body = "x";
  for (int k = 1; k <= 6; ++k) {
    body = "exp(" + body + ")";
    Derived x = derived("axis i, j\ninput x[i, j] : f32\ny[i] = sum[j](" + body + ")\noutput y\n", "j");
    ASSERT_EQ(x.d.passes.size(), 1u);
    ASSERT_EQ(x.state().points.size(), 1u) << "held at the maximum of the outermost exponent";
    expect_all_passed(x);
  }
}

TEST(States, NestedUsesOfTheAxisAreCopies) {
  // A[j] read along the streamed axis is a sum over a copy of the axis.
  Derived x = derived(
      "axis i, j\naxis n = 3\ninput X[i, j] : f32\nA[i] = sum[j](X)\nB[i] = sum[j](X * A)\noutput B\n", "j");
  EXPECT_EQ(x.d.passes.size(), 1u);
  EXPECT_EQ(x.d.cascade.reductions.size(), 2u);
  Derived y =
      derived("axis i, j\ninput X[i, j] : f32\nA[j] = sum[i](X)\nB[i] = sum[j](X * A)\noutput B\n", "i");
  EXPECT_EQ(y.d.passes.size(), 2u) << "A is a result there, B is stored along i once A is final";
  EXPECT_EQ(y.d.passes[1].stored, std::vector<size_t>{0});
}

TEST(States, EmptyAxes) {
  // rsqrt(0/0) must not reach the result of an empty sum.
  Derived x = derived(
      "axis r, c, n\ninput x[r, c] : f32\ninput W[c, n] : f32\nq[r] = mean[c](x**2)\ny[r, n] = sum[c](x * "
      "rsqrt(q) * W)\noutput y\n",
      "c");
  size_t k = size_t(x.reduction("y") - x.d.cascade.reductions.data());
  Bindings values;
  for (Sym s : free_symbols(x.d.finish[k])) values[s] = 0;
  values[x.program.axis("c")->index.size()] = 0;
  EXPECT_EQ(evaluate(x.d.finish[k], values, [](Sym, const std::vector<int64_t>&) { return 0.0; }), 0);
}

TEST(States, Candidates) {
  Program attention = elaborated(programs::causal);
  std::vector<std::string> names;
  for (Sym s : stream_candidates(attention)) names.push_back(s.name());
  EXPECT_EQ(names, (std::vector<std::string>{"j", "d"}));
  EXPECT_TRUE(stream_candidates(elaborated("axis i\ninput x[i] : f32\ny[i] = x + 1\noutput y\n")).empty());
}

}  // namespace
}  // namespace tilewright::testing::derive_states_test
