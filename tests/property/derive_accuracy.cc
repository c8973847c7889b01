// The functions of a state evaluated in f32 alone: the variance of data with a large mean, whole and in merged parts.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "tests/support/derived.h"
#include "tilewright/derive/state.h"

namespace tilewright::testing::derive_accuracy_test {
namespace {

using Tiles = std::map<Sym, float>;

/// Every operation rounded to f32; reads by tile symbol alone.
float in_f32(Expr e, const Tiles& tiles, float size) {
  auto at = [&](size_t k) { return in_f32(e.arg(k), tiles, size); };
  switch (e.op()) {
    case Op::Constant: return float(e->number.value());
    case Op::Real: return float(e->real);
    case Op::Symbol: return size;
    case Op::Read: return tiles.at(e->sym);
    case Op::Add: {
      float x = at(0);
      for (size_t k = 1; k < e.args().size(); ++k) x += at(k);
      return x;
    }
    case Op::Sub: return at(0) - at(1);
    case Op::Neg: return -at(0);
    case Op::Mul: {
      float x = at(0);
      for (size_t k = 1; k < e.args().size(); ++k) x *= at(k);
      return x;
    }
    case Op::Div: return at(0) / at(1);
    case Op::Pow: {
      int n = int(e.arg(1).rational()->num());
      float x = at(0), y = 1;
      for (int k = 0; k < std::abs(n); ++k) y *= x;
      return n < 0 ? 1 / y : y;
    }
    case Op::Select: return at(0) != 0 ? at(1) : at(2);
    case Op::Eq: return at(0) == at(1);
    case Op::Ne: return at(0) != at(1);
    case Op::Abs: return std::abs(at(0));
    default: ADD_FAILURE() << "not expected here: " << name(e.op()); return 0;
  }
}

struct Values {
  float rho = 0;
  std::vector<float> t;
};

class Variance {
 public:
  explicit Variance(Derived x) : x_(std::move(x)), s_(x_.state()), p_(s_.points.at(0)) {
    for (Sym v : {p_.var}) copies(v);
    for (const Component& c : s_.components) copies(c.var);
    merge_ = merge(s_, left_, right_);
    input_ = x_.program.inputs[0].sym;
  }

  Values empty() const { return {0, std::vector<float>(s_.components.size(), 0)}; }

  Values stream(const Values& before, const std::vector<float>& data, size_t begin, size_t end) const {
    auto lifted = [&](size_t a, float rho) {  // sixteen lanes, as a vector unit adds
      float lanes[16] = {};
      for (size_t k = begin; k < end; ++k)
        lanes[k % 16] += in_f32(s_.components[a].lift, {{p_.var, rho}, {input_, data[k]}}, 0);
      for (int w = 8; w > 0; w /= 2)
        for (int k = 0; k < w; ++k) lanes[k] += lanes[k + w];
      return lanes[0];
    };
    float s = before.t[size_t(p_.sum)] + lifted(size_t(p_.sum), before.rho);
    float n = before.t[size_t(p_.weight)] + lifted(size_t(p_.weight), before.rho);
    Values after{before.rho + s / n, {}};
    for (size_t a = 0; a < s_.components.size(); ++a) {
      float t = 0;
      for (const RepairTerm& r : s_.components[a].repair)
        t +=
            in_f32(r.factor, {{p_.var, before.rho}, {p_.next, after.rho}}, 0) * before.t[size_t(r.component)];
      after.t.push_back(t + lifted(a, after.rho));
    }
    return after;
  }

  Values merged(const Values& l, const Values& r) const {
    Tiles tiles{{left_[0].second, l.rho}, {right_[0].second, r.rho}};
    for (size_t k = 0; k < s_.components.size(); ++k) {
      tiles[left_[k + 1].second] = l.t[k];
      tiles[right_[k + 1].second] = r.t[k];
    }
    Values out;
    tiles[p_.next] = out.rho = in_f32(merge_.points[0], tiles, 0);
    for (Expr e : merge_.components) out.t.push_back(in_f32(e, tiles, 0));
    return out;
  }

  float finished(const Values& v, float n) const {
    Tiles tiles{{p_.var, v.rho}};
    for (size_t k = 0; k < s_.components.size(); ++k) tiles[s_.components[k].var] = v.t[k];
    for (size_t k = 0; k < x_.d.finish.size(); ++k)
      tiles[x_.d.cascade.reductions[k].result] = in_f32(x_.d.finish[k], tiles, n);
    return in_f32(x_.d.cascade.outputs[0].value, tiles, n);
  }

 private:
  void copies(Sym s) {
    left_.emplace_back(s, Sym::fresh(s.info()));
    right_.emplace_back(s, Sym::fresh(s.info()));
  }

  Derived x_;
  const State& s_;
  const Point& p_;
  std::vector<std::pair<Sym, Sym>> left_, right_;
  Merge merge_;
  Sym input_;
};

double worst(double mean, size_t parts) {
  static const Variance variance(derived(programs::variance, "c"));
  double worst = 0;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    constexpr size_t n = 4096, chunk = 64;
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal(mean, 1);
    std::vector<float> data;
    for (size_t k = 0; k < n; ++k) data.push_back(float(normal(random)));
    double mu = 0, exact = 0;
    for (float x : data) mu += x;
    mu /= n;
    for (float x : data) exact += (x - mu) * (x - mu);
    exact /= n;
    std::vector<Values> state;
    for (size_t p = 0; p < parts; ++p) {
      Values v = variance.empty();
      for (size_t at = p * n / parts; at < (p + 1) * n / parts; at += chunk)
        v = variance.stream(v, data, at, std::min(at + chunk, (p + 1) * n / parts));
      state.push_back(v);
    }
    while (state.size() > 1) {
      std::vector<Values> next;
      for (size_t k = 0; k + 1 < state.size(); k += 2)
        next.push_back(variance.merged(state[k], state[k + 1]));
      if (state.size() % 2) next.push_back(state.back());
      state = std::move(next);
    }
    worst = std::max(worst, std::abs(double(variance.finished(state[0], float(n))) - exact) / exact);
  }
  return worst;
}

TEST(Accuracy, VarianceWithALargeMean) {
  for (size_t parts : {1, 16, 64}) {
    EXPECT_LT(worst(1e4, parts), 3e-6) << parts << " parts";
    EXPECT_LT(worst(1e6, parts), 2e-5) << parts << " parts";
  }
}

}  // namespace
}  // namespace tilewright::testing::derive_accuracy_test
