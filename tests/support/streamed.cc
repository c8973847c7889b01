#include "tests/support/streamed.h"

#include <algorithm>
#include <cmath>

#include "tilewright/derive/check.h"
#include "tilewright/program/elaborate.h"
#include "tilewright/support/error.h"

namespace tilewright::testing {

using derivation::combined;
namespace {

double start(Point::Kind k) {
  return k == Point::Kind::Mean ? 0 : k == Point::Kind::Maximum ? -INFINITY : INFINITY;
}

int grow(std::mt19937_64& random, History& h, int64_t begin, int64_t end, int64_t longest) {
  const auto die = [&](int64_t n) { return int64_t(random() % uint64_t(n)); };
  if (end - begin <= longest && (begin == end || die(3) > 0)) {
    h.push_back({.left = -1, .begin = begin, .end = end});
    return int(h.size()) - 1;
  }
  if (end - begin == 1) {  // beside nothing
    h.push_back({.left = -1, .begin = begin, .end = end});
    const int one = int(h.size()) - 1;
    h.push_back(die(2) == 0 ? Step{.merge = true, .left = one, .right = -1}
                            : Step{.merge = true, .left = -1, .right = one});
    return int(h.size()) - 1;
  }
  const int64_t middle = begin + die(end - begin + 1);
  const int l = grow(random, h, begin, middle, longest), r = grow(random, h, middle, end, longest);
  h.push_back({.merge = true, .left = l, .right = r});
  return int(h.size()) - 1;
}

}  // namespace

History random_stream(std::mt19937_64& random, int64_t n, int64_t longest) {
  History h;
  for (int64_t at = 0; at < n || h.empty();) {
    const int64_t end = std::min(n, at + int64_t(random() % uint64_t(longest + 1)));
    h.push_back({.left = int(h.size()) - 1, .begin = at, .end = end});
    at = end;
  }
  return h;
}

History random_tree(std::mt19937_64& random, int64_t n, int64_t longest) {
  History h;
  grow(random, h, 0, n, longest);
  return h;
}

Streamed::Streamed(const Program& elaborated, const Derivation& d, const Sizes& sizes, InputData inputs)
    : program_(elaborated), derivation_(d), inputs_(std::move(inputs)) {
  for (const auto& [s, n] : sizes) sizes_[s] = double(n);
  for (const Param& q : elaborated.params) {
    const double lo = q.range ? evaluate(q.range.lo, sizes_) : 1;
    sizes_[q.sym] = q.value && q.value.number() ? *q.value.number() : lo;
  }
  for (size_t k = 0; k < d.cascade.reductions.size(); ++k)
    roles_[d.cascade.reductions[k].result] = {Role::Kind::Result, 0, k};
  for (size_t p = 0; p < d.passes.size(); ++p) {
    Copies c;
    const auto copy = [&](Sym s, const Role& role) {
      c.left.emplace_back(s, Sym::fresh(s.info()));
      c.right.emplace_back(s, Sym::fresh(s.info()));
      c.of[c.left.back().second] = {true, role};
      c.of[c.right.back().second] = {false, role};
    };
    const State& s = d.passes[p].state;
    for (size_t k = 0; k < s.points.size(); ++k) {
      roles_[s.points[k].var] = {Role::Kind::Point, p, k};
      roles_[s.points[k].next] = {Role::Kind::Next, p, k};
      copy(s.points[k].var, roles_[s.points[k].var]);
    }
    for (size_t k = 0; k < s.components.size(); ++k) {
      roles_[s.components[k].var] = {Role::Kind::Component, p, k};
      copy(s.components[k].var, roles_[s.components[k].var]);
    }
    c.merge = merge(s, c.left, c.right);
    copies_.push_back(std::move(c));
  }
}

void Streamed::follow(History h) {
  history_ = std::move(h);
  known_.clear();
}

Bindings Streamed::bind(const std::vector<Sym>& axes, const Index& at) const {
  Bindings values = sizes_;
  for (size_t k = 0; k < axes.size(); ++k) values[axes[k]] = double(at[k]);
  return values;
}

bool Streamed::holds_tile(Expr e) {
  const auto it = holds_tile_.find(e.get());
  if (it != holds_tile_.end()) return it->second;
  bool found = e.is(Op::Read) && e->sym.kind() == SymbolKind::Tile;
  for (Expr a : e.args()) found = found || holds_tile(a);
  return holds_tile_[e.get()] = found;
}

double Streamed::input(Sym s, const Index& at) {
  const Definition* d = program_.definition(s);  // one that rounds
  if (d == nullptr) return inputs_(s, at);
  auto it = written_.find(s);
  if (it == written_.end()) it = written_.emplace(s, inlined(program_, s)).first;
  const double x =
      evaluate(it->second, bind(d->axes, at), [this](Sym t, const Index& i) { return input(t, i); });
  return d->dtype ? round_to(*d->dtype, x) : x;
}

/// What holds nothing of a state, in f64; remembered.
double Streamed::fixed(Expr e, const Bindings& at) {
  if (const auto n = e.number()) return *n;
  auto it = free_.find(e.get());
  if (it == free_.end()) it = free_.emplace(e.get(), free_symbols(e)).first;
  std::vector<double> where;
  for (Sym s : it->second) where.push_back(at.at(s));
  const auto [known, fresh] = fixed_.try_emplace({e.get(), std::move(where)}, 0);
  if (fresh) known->second = evaluate(e, at, [this](Sym s, const Index& i) { return input(s, i); });
  return known->second;
}

double Streamed::value(Expr e, const Bindings& at, const Reader& tiles) {
  return holds_tile(e) ? evaluate(e, at, tiles) : fixed(e, at);
}

double Streamed::value(Expr e, const Bindings& at) {
  Bindings here = sizes_;
  for (const auto& [s, x] : at) here[s] = x;
  const int last = int(history_.size()) - 1;
  return value(e, here, [&](Sym s, const Index& i) {
    return tile(s, i, derivation_.passes.size(), last, last, false);
  });
}

/// A tile as it is after `step` of its pass; `next` is the step whose point ρ' is.
double Streamed::tile(Sym s, const Index& at, size_t pass, int step, int next, bool lifting) {
  const auto role = roles_.find(s);
  if (role == roles_.end()) return input(s, at);
  const Role& r = role->second;
  switch (r.kind) {
    case Role::Kind::Result: return result(r.index, at);
    case Role::Kind::Next: return point(r.pass, r.index, next, at);
    case Role::Kind::Component:
      return component(r.pass, r.index, r.pass == pass ? step : int(history_.size()) - 1, at);
    case Role::Kind::Point: break;
  }
  const double rho = point(r.pass, r.index, r.pass == pass ? step : int(history_.size()) - 1, at);
  return lifting && state(r.pass).points[r.index].exponential && rho == -INFINITY ? 0 : rho;
}

double Streamed::result(size_t k, const Index& at) {
  const Reduction& r = derivation_.cascade.reductions[k];
  const Key key{r.result, 0, at};
  if (const auto it = known_.find(key); it != known_.end()) return it->second;
  const size_t pass = size_t(r.pass) - 1;
  const int last = int(history_.size()) - 1;
  const double x = value(derivation_.finish[k], bind(r.axes, at),
                         [&](Sym s, const Index& i) { return tile(s, i, pass, last, last, false); });
  return known_[key] = x;
}

double Streamed::output(const CascadeOutput& o, const Index& at) {
  const int last = int(history_.size()) - 1;
  const std::vector<Sym> axes = program_.tensor_axes(program_.outputs[o.output].sym);
  return value(o.value, bind(axes, at), [&](Sym s, const Index& i) {
    return tile(s, i, derivation_.passes.size(), last, last, false);
  });
}

double Streamed::lifted(size_t pass, size_t a, const Step& chunk, int points, const Bindings& at) {
  const Component& c = state(pass).components[a];
  const Reader tiles = [&](Sym s, const Index& i) { return tile(s, i, pass, points, points, true); };
  Bindings here = at;
  double sum = *identity(c.combine).number();
  for (int64_t x = chunk.begin; x < chunk.end; ++x) {
    here[derivation_.cascade.axis] = double(x);
    if (value(c.present, here, tiles) == 0) continue;
    sum = combined(c.combine, sum, value(c.lift, here, tiles));
  }
  return sum;
}

double Streamed::merged(Expr e, const Bindings& at, size_t pass, int step) {
  const Step& h = history_[size_t(step)];
  return value(e, at, [&](Sym s, const Index& i) {
    const auto copy = copies_[pass].of.find(s);
    if (copy == copies_[pass].of.end()) return tile(s, i, pass, step, step, false);
    const auto& [left, role] = copy->second;
    const int side = left ? h.left : h.right;
    return role.kind == Role::Kind::Point ? point(pass, role.index, side, i)
                                          : component(pass, role.index, side, i);
  });
}

double Streamed::point(size_t pass, size_t k, int step, const Index& index) {
  const Point& p = state(pass).points[k];
  if (step < 0) return start(p.kind);
  const Key key{p.var, step, index};
  if (const auto it = known_.find(key); it != known_.end()) return it->second;
  const Step& h = history_[size_t(step)];
  Bindings at = bind(p.axes, index);
  double rho = 0;
  if (h.merge) {
    rho = merged(copies_[pass].merge.points[k], at, pass, step);
  } else if (p.kind == Point::Kind::Mean) {
    rho = point(pass, k, h.left, index);
    const auto total = [&](int c) {
      const Component& own = state(pass).components[size_t(c)];
      Index i;
      for (Sym s : own.axes) i.push_back(int64_t(at.at(s)));
      return component(pass, size_t(c), h.left, i) + lifted(pass, size_t(c), h, h.left, at);
    };
    const double n = total(p.weight);
    if (n != 0) rho = (rho + (total(p.sum) / n));
  } else {
    rho = point(pass, k, h.left, index);
    const Reader tiles = [&](Sym s, const Index& i) { return tile(s, i, pass, h.left, h.left, false); };
    for (int64_t x = h.begin; x < h.end; ++x) {
      at[derivation_.cascade.axis] = double(x);
      if (value(p.present, at, tiles) == 0) continue;
      rho =
          combined(p.kind == Point::Kind::Maximum ? Reducer::Max : Reducer::Min, rho, value(p.u, at, tiles));
    }
  }
  return known_[key] = rho;
}

double Streamed::component(size_t pass, size_t a, int step, const Index& index) {
  const Component& c = state(pass).components[a];
  if (step < 0) return *identity(c.combine).number();
  const Key key{c.var, step, index};
  if (const auto it = known_.find(key); it != known_.end()) return it->second;
  const Step& h = history_[size_t(step)];
  const Bindings at = bind(c.axes, index);
  double x = 0;
  if (h.merge) {
    x = merged(copies_[pass].merge.components[a], at, pass, step);
  } else if (h.left < 0) {
    x = lifted(pass, a, h, step, at);
  } else {
    const Reader tiles = [&](Sym s, const Index& i) { return tile(s, i, pass, h.left, step, false); };
    double before = 0;
    for (const RepairTerm& t : c.repair) {
      const Component& b = state(pass).components[size_t(t.component)];
      Index i;
      for (Sym s : b.axes) i.push_back(int64_t(at.at(s)));
      const double y = component(pass, size_t(t.component), h.left, i);
      before =
          t.factor.is_constant(1) && c.repair.size() == 1 ? y : (before + (value(t.factor, at, tiles) * y));
    }
    x = (combined(c.combine, before, lifted(pass, a, h, step, at)));
  }
  return known_[key] = x;
}

RandomInputs::RandomInputs(const Program& p, const Sizes& sizes, uint64_t seed) {
  Bindings bound;
  for (const auto& [s, n] : sizes) bound[s] = double(n);
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, 1);
  for (const Input& in : p.inputs) {
    int64_t n = 1;
    for (Sym a : in.axes()) {
      shapes_[in.sym].push_back(sizes.at(a.size()));
      n *= shapes_[in.sym].back();
    }
    const bool integer = !is_float(in.dtype);
    const double lo = in.range ? evaluate(in.range.lo, bound) : integer ? 0 : -INFINITY;
    const double hi = in.range                     ? evaluate(in.range.hi, bound)
                      : in.dtype == DType::boolean ? 2
                      : integer                    ? 3
                                                   : INFINITY;
    std::vector<float>& all = arrays_[in.sym];
    shapes_[in.sym];
    for (int64_t k = 0; k < n; ++k) {
      double x = normal(random);
      if (integer) x = lo + std::floor(double(random() % (1 << 20)) / (1 << 20) * (hi - lo));
      all.push_back(float(std::clamp(x, lo, integer ? hi - 1 : hi)));
    }
  }
}

double RandomInputs::operator()(Sym s, const Index& at) const {
  const std::vector<int64_t>& shape = shapes_.at(s);
  int64_t k = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    TW_CHECK(0 <= at[d] && at[d] < shape[d], "read outside of " + s.name());
    k = k * shape[d] + at[d];
  }
  return arrays_.at(s)[size_t(k)];
}

}  // namespace tilewright::testing
