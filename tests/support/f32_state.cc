#include "tests/support/f32_state.h"

#include <algorithm>
#include <cmath>

#include "tilewright/program/elaborate.h"
#include "tilewright/support/error.h"

namespace tilewright::testing {

using derivation::combined;
namespace {

Reducer reducer_of(const Point& p) { return p.kind == Point::Kind::Maximum ? Reducer::Max : Reducer::Min; }

double start(const Point& p) {
  return p.kind == Point::Kind::Mean ? 0 : p.kind == Point::Kind::Maximum ? -INFINITY : INFINITY;
}

}  // namespace

F32State::F32State(const State& s, int64_t n, const Element& element, const std::map<Sym, int64_t>& ranks)
    : state_(s), n_(n), ranks_(ranks), abstract_(s) {
  std::vector<Expr> lifts, us;
  for (size_t a = 0; a < s.components.size(); ++a) lifts.push_back(abstract_(derivation::element_of(s, a)));
  for (const Point& p : s.points) us.push_back(abstract_(p.u));
  const auto slot = [&](Sym v) { slots_.emplace(v, slots_.size()); };
  for (const auto& [value, v] : abstract_.variables) slot(v);
  variables_ = slots_.size();
  const auto copy = [&](Sym v) {
    left_.emplace_back(v, Sym::fresh(v.info()));
    right_.emplace_back(v, Sym::fresh(v.info()));
    slot(left_.back().second);
    slot(right_.back().second);
  };
  for (size_t k = 0; k < s.points.size(); ++k) {
    slot(abstract_.rho[k]);
    slot(s.points[k].var);
    slot(s.points[k].next);
    copy(s.points[k].var);
  }
  for (const Component& c : s.components) {
    slot(c.var);
    copy(c.var);
  }
  for (Expr lift : lifts) lifts_.push_back(compile(lift));
  for (Expr e : us) u_.push_back(compile(e));
  const Merge m = merge(s, left_, right_);
  for (Expr e : m.points) point_merges_.push_back(compile(e));
  for (Expr e : m.components) component_merges_.push_back(e ? compile(e) : Code());
  for (const Component& c : s.components) {
    repairs_.emplace_back();
    for (const RepairTerm& t : c.repair) repairs_.back().push_back(compile(t.factor));
  }
  for (int64_t j = 0; j < n; ++j) {
    elements_.emplace_back(slots_.size());
    for (const auto& [value, v] : abstract_.variables)
      elements_.back()[slots_.at(v)] = float(element(value, j));
  }
  for (const Component& c : s.components) {
    present_.emplace_back();
    for (int64_t j = 0; j < n; ++j) present_.back().push_back(element(c.present, j) != 0);
  }
  for (const Point& p : s.points) {
    point_present_.emplace_back();
    for (int64_t j = 0; j < n; ++j) point_present_.back().push_back(element(p.present, j) != 0);
  }
}

F32State::Code F32State::compile(Expr e) const {
  if (e.is(Op::Read) || e.is(Op::Symbol)) {
    const auto at = slots_.find(e->sym);
    TW_CHECK(at != slots_.end(), "a state reads " + e->sym.name());
    return [k = at->second](const Slots& s, bool) { return s[k]; };
  }
  if (const auto n = e.number()) return [x = *n](const Slots&, bool) { return x; };
  std::vector<Code> args;
  for (Expr a : e.args()) args.push_back(compile(a));
  const auto folded = [&](auto f) -> Code {
    return [args, f](const Slots& s, bool rounds) {
      double x = args[0](s, rounds);
      for (size_t k = 1; k < args.size(); ++k) {
        x = f(x, args[k](s, rounds));
        if (rounds) x = float(x);
      }
      return rounds ? double(float(x)) : x;
    };
  };
  const auto one = [&](auto f) -> Code {
    return [a = args[0], f](const Slots& s, bool rounds) {
      const double x = f(a(s, rounds));
      return rounds ? double(float(x)) : x;
    };
  };
  switch (e.op()) {
    case Op::Add: return folded([](double a, double b) { return a + b; });
    case Op::Mul: return folded([](double a, double b) { return a * b; });
    case Op::Max: return folded([](double a, double b) { return std::max(a, b); });
    case Op::Min: return folded([](double a, double b) { return std::min(a, b); });
    case Op::Sub: return folded([](double a, double b) { return a - b; });
    case Op::Div: return folded([](double a, double b) { return a / b; });
    case Op::Pow: return folded([](double a, double b) { return std::pow(a, b); });
    case Op::Eq: return folded([](double a, double b) { return double(a == b); });
    case Op::Ne: return folded([](double a, double b) { return double(a != b); });
    case Op::Lt: return folded([](double a, double b) { return double(a < b); });
    case Op::Le: return folded([](double a, double b) { return double(a <= b); });
    case Op::And: return folded([](double a, double b) { return double(a != 0 && b != 0); });
    case Op::Or: return folded([](double a, double b) { return double(a != 0 || b != 0); });
    case Op::Not: return one([](double a) { return double(a == 0); });
    case Op::Neg: return one([](double a) { return -a; });
    case Op::Abs: return one([](double a) { return std::abs(a); });
    case Op::Exp: return one([](double a) { return std::exp(a); });
    case Op::Log: return one([](double a) { return std::log(a); });
    case Op::Select:
      return [args](const Slots& s, bool rounds) {
        return args[0](s, rounds) != 0 ? args[1](s, rounds) : args[2](s, rounds);
      };
    default: break;
  }
  TW_CHECK(false, std::string("a state computes ") + name(e.op()));
  return {};
}

F32State::Values F32State::empty() const {
  Values v;
  for (const Point& p : state_.points) v.points.push_back(float(start(p)));
  for (const Component& c : state_.components) {
    const auto nothing = [&](Reducer r) {
      return std::vector<double>(size_t(ranks_.at(c.rank)), *identity(r).number());
    };
    v.components.push_back(float(*identity(c.combine).number()));
    v.lists.emplace_back();
    if (c.combine == Reducer::Topk) v.lists.back() = {nothing(Reducer::Topk), nothing(Reducer::Argtopk)};
  }
  return v;
}

void F32State::set_points(int64_t element, const std::vector<float>& points) const {
  Slots& s = const_cast<Slots&>(elements_[size_t(element)]);  // the slots of the points are scratch
  for (size_t k = 0; k < points.size(); ++k) {
    const bool nothing = state_.points[k].exponential && points[k] == -INFINITY;
    s[slots_.at(abstract_.rho[k])] = nothing ? 0 : double(points[k]);
  }
}

/// The list of keys `a` takes in an element, if it is present.
void F32State::insert(size_t a, List& list, int64_t element, const std::vector<float>& points) const {
  if (!present_[a][size_t(element)]) return;
  set_points(element, points);
  const Slots& s = elements_[size_t(element)];
  insert_ranked(list.keys, list.indices, double(float(lifts_[a](s, true))),
                lifts_[size_t(state_.components[a].beside)](s, true));
}

double F32State::lifted(size_t a, const Step& chunk, const std::vector<float>& points, bool rounds,
                        double* scale) const {
  const Reducer r = state_.components[a].combine;
  if (state_.components[a].listed()) return 0;
  double lanes[16];
  std::fill(std::begin(lanes), std::end(lanes), *identity(r).number());
  for (int64_t j = chunk.begin; j < chunk.end; ++j) {
    if (!present_[a][size_t(j)]) continue;
    set_points(j, points);
    const double x = lifts_[a](elements_[size_t(j)], rounds);
    if (scale != nullptr) *scale += std::abs(x);
    double& lane = lanes[j % 16];
    lane = combined(r, lane, x);
    if (rounds) lane = float(lane);
  }
  for (size_t w = 8; w > 0; w /= 2)
    for (size_t k = 0; k < w; ++k) {
      lanes[k] = combined(r, lanes[k], lanes[k + w]);
      if (rounds) lanes[k] = float(lanes[k]);
    }
  return lanes[0];
}

float F32State::moved(size_t k, const Values& before, const Step& chunk) const {
  const Point& p = state_.points[k];
  float rho = before.points[k];
  if (p.kind == Point::Kind::Mean) {
    const auto total = [&](int c) {
      return float(before.components[size_t(c)] + float(lifted(size_t(c), chunk, before.points, true)));
    };
    const float n = total(p.weight);
    return n == 0 ? rho : rho + total(p.sum) / n;
  }
  for (int64_t j = chunk.begin; j < chunk.end; ++j)
    if (point_present_[k][size_t(j)])
      rho = float(combined(reducer_of(p), rho, u_[k](elements_[size_t(j)], true)));
  return rho;
}

F32State::Values F32State::streamed(const Values& before, const Step& chunk) const {
  Values after;
  Slots s(slots_.size());
  for (size_t k = 0; k < state_.points.size(); ++k) {
    after.points.push_back(moved(k, before, chunk));
    s[slots_.at(state_.points[k].var)] = before.points[k];
    s[slots_.at(state_.points[k].next)] = after.points[k];
  }
  after.lists = before.lists;
  for (size_t a = 0; a < state_.components.size(); ++a) {
    const Component& c = state_.components[a];
    if (c.combine == Reducer::Topk)
      for (int64_t j = chunk.begin; j < chunk.end; ++j) insert(a, after.lists[a], j, after.points);
    if (c.listed()) {
      after.components.push_back(0);
      continue;
    }
    float t = 0;
    for (size_t i = 0; i < c.repair.size(); ++i) {
      const float b = before.components[size_t(c.repair[i].component)];
      const float term = c.repair[i].factor.is_constant(1) ? b : float(float(repairs_[a][i](s, true)) * b);
      t = i == 0 ? term : t + term;
    }
    after.components.push_back(float(combined(c.combine, t, lifted(a, chunk, after.points, true))));
  }
  return after;
}

F32State::Values F32State::merged(const Values& l, const Values& r) const {
  Slots s(slots_.size());
  const size_t points = state_.points.size();
  const auto set = [&](size_t k, float x, float y) {
    s[slots_.at(left_[k].second)] = x;
    s[slots_.at(right_[k].second)] = y;
  };
  for (size_t k = 0; k < points; ++k) set(k, l.points[k], r.points[k]);
  for (size_t a = 0; a < state_.components.size(); ++a) set(points + a, l.components[a], r.components[a]);
  Values out;
  for (size_t k = 0; k < points; ++k) {
    out.points.push_back(float(point_merges_[k](s, true)));
    s[slots_.at(state_.points[k].next)] = out.points[k];
  }
  for (const Code& c : component_merges_) out.components.push_back(c ? float(c(s, true)) : 0);
  out.lists = l.lists;
  for (size_t a = 0; a < out.lists.size(); ++a)
    for (size_t k = 0; k < r.lists[a].keys.size(); ++k)
      insert_ranked(out.lists[a].keys, out.lists[a].indices, r.lists[a].keys[k], r.lists[a].indices[k]);
  return out;
}

F32State::Values F32State::run(const History& h) const {
  std::vector<Values> done;
  const Values nothing = empty();
  const auto at = [&](int k) -> const Values& { return k < 0 ? nothing : done[size_t(k)]; };
  for (const Step& step : h)
    done.push_back(step.merge ? merged(at(step.left), at(step.right)) : streamed(at(step.left), step));
  return done.back();
}

std::vector<F32State::Held> F32State::compare(const Values& v) const {
  const Step everything{.begin = 0, .end = n_};
  std::vector<Held> out;
  for (size_t a = 0; a < state_.components.size(); ++a) {
    const Component& c = state_.components[a];
    if (c.combine == Reducer::Topk) {
      List all;  // with room for every element: nothing drops out
      for (std::vector<double>* side : {&all.keys, &all.indices})
        side->assign(size_t(n_) + v.lists[a].keys.size(), side == &all.keys ? -INFINITY : -1);
      for (int64_t j = 0; j < n_; ++j) insert(a, all, j, v.points);
      for (size_t k = 0; k < v.lists[a].keys.size(); ++k) {
        out.push_back({c.var.name(), v.lists[a].keys[k], all.keys[k], 0, true});
        out.push_back(
            {state_.components[size_t(c.beside)].var.name(), v.lists[a].indices[k], all.indices[k], 0, true});
      }
    }
    if (c.listed()) continue;
    Held h{c.var.name(), v.components[a], 0, 0};
    h.want = lifted(a, everything, v.points, false, &h.scale);
    if (c.combine != Reducer::Sum) h.scale = std::abs(h.want);
    out.push_back(h);
  }
  for (size_t k = 0; k < state_.points.size(); ++k) {
    const Point& p = state_.points[k];
    double sum = 0, count = 0, extremum = start(p), largest = 0;
    for (int64_t j = 0; j < n_; ++j) {
      if (!point_present_[k][size_t(j)]) continue;
      const double u = u_[k](elements_[size_t(j)], false);
      sum += u;
      ++count;
      largest = std::max(largest, std::abs(u));
      if (p.kind != Point::Kind::Mean) extremum = combined(reducer_of(p), extremum, u);
    }
    const bool mean = p.kind == Point::Kind::Mean;
    const double want = !mean ? extremum : count == 0 ? 0 : sum / count;
    out.push_back({p.var.name(), v.points[k], want, mean ? largest : std::abs(want)});
  }
  return out;
}

float F32State::finished(Expr e, const Values& v, const std::function<Expr(Sym)>& finish,
                         const Bindings& sizes) const {
  Slots s(slots_.size());
  const auto whole = [&](const auto& self, Expr x) -> Expr {
    return rewrite(x, [&](Expr y) -> Expr {
      if (y.is(Op::Symbol)) return sizes.count(y->sym) ? Expr::real(sizes.at(y->sym)) : y;
      if (!y.is(Op::Read) || slots_.count(y->sym)) return y;
      return self(self, finish(y->sym));
    });
  };
  for (size_t k = 0; k < state_.points.size(); ++k) s[slots_.at(state_.points[k].var)] = v.points[k];
  for (size_t a = 0; a < state_.components.size(); ++a)
    s[slots_.at(state_.components[a].var)] = v.components[a];
  return float(compile(whole(whole, e))(s, true));
}

}  // namespace tilewright::testing
