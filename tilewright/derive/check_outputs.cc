// Outputs finished from streamed states against the definition, on random data at small sizes.
#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "tilewright/derive/check.h"
#include "tilewright/derive/normal_form.h"
#include "tilewright/program/elaborate.h"

namespace tilewright::derivation {
namespace {

constexpr int64_t stream_length = 6, other_length = 2;
constexpr int64_t longest = 64;

uint64_t mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

using Index = std::vector<int64_t>;

class Sample {
 public:
  Sample(const Program& p, const Derivation& d, uint64_t seed) : program_(p), derivation_(d), seed_(seed) {
    Sym x = d.cascade.axis;
    for (const Axis& a : p.axes) {
      double n = a.index == x ? double(stream_length) : a.size.is_constant(0) ? 0 : double(other_length);
      if (a.size && (a.index == x || !a.baked())) n = a.baked() ? *a.size.number() : evaluate(a.size, sizes_);
      sizes_[a.index.size()] = n;
    }
    length_ = int64_t(sizes_[x.size()]);
    for (const Param& q : p.params) sizes_[q.sym] = parameter(q);
    for (int64_t at = 0; at < length_;) {  // chunk boundaries, one chunk empty
      chunks_.push_back(at);
      if (chunks_.size() == 2) chunks_.push_back(at);
      at += 1 + int64_t(mixed(seed + uint64_t(at)) % 3);
    }
    chunks_.push_back(length_);
  }

  bool small() const { return length_ <= longest; }
  bool has_elements(const CascadeOutput& o) const {
    const std::vector<Sym> axes = program_.tensor_axes(program_.outputs[o.output].sym);
    return std::all_of(axes.begin(), axes.end(), [&](Sym s) { return sizes_.at(s.size()) > 0; });
  }

  /// Definition and streamed value of an output at one element.
  std::pair<double, double> both(const CascadeOutput& o) {
    const Output& out = program_.outputs[o.output];
    Bindings at = sizes_;
    for (Sym s : program_.tensor_axes(out.sym))
      at[s] = double(mixed(seed_ + s.info().id) % uint64_t(std::max<int64_t>(1, sizes_.at(s.size()))));
    const Definition* def = program_.definition(out.sym);
    auto reader = [this](Sym s, const Index& i) { return input(s, i); };
    double want = evaluate(def ? written(out.sym) : o.value, at, reader);
    return {want, value(o.value, at)};
  }

 private:
  static double parameter(const Param& q) {
    if (q.value && q.value.number()) return *q.value.number();
    double lo = q.range ? q.range.lo.number().value_or(1) : 1,
           hi = q.range ? q.range.hi.number().value_or(lo + 2) : 3;
    double x = lo + (hi - lo) * 0.4;
    return is_float(q.dtype) ? x : std::floor(x);
  }

  double input(Sym s, const Index& at) {
    if (const Definition* d = program_.definition(s))  // one that rounds
      return remembered({s, 0, at}, [&] {
        const double x =
            evaluate(written(s), bind(d->axes, at), [this](Sym t, const Index& i) { return input(t, i); });
        return d->dtype ? round_to(*d->dtype, x) : x;
      });
    uint64_t h = mixed(seed_ ^ (s.info().id << 20));
    for (int64_t i : at) h = mixed(h ^ uint64_t(i + 17));
    double unit = double(h >> 11) / double(1ull << 53);
    const Input* in = program_.input(s);
    TW_CHECK(in, "no data for " + s.name());
    double lo = -2, hi = 2;
    if (in->range) {
      lo = evaluate(in->range.lo, sizes_);
      hi = evaluate(in->range.hi, sizes_);
    } else if (!is_float(in->dtype)) {
      lo = 0;
      hi = in->dtype == DType::boolean ? 2 : 3;
    }
    if (is_float(in->dtype))
      hi = std::min(hi, lo + 4);  // exponentials of the definition as written stay finite
    double x = lo + (hi - lo) * unit;
    return is_float(in->dtype) ? x : std::floor(x);
  }

  /// A definition with those that do not round in place of their names.
  Expr written(Sym s) {
    auto it = written_.find(s);
    if (it == written_.end()) it = written_.emplace(s, inlined(program_, s)).first;
    return it->second;
  }

  double value(Expr e, const Bindings& at) {
    return evaluate(e, at, [this](Sym s, const Index& i) {
      return s.kind() == SymbolKind::Tile ? tile(s, i) : input(s, i);
    });
  }

  Bindings bind(const std::vector<Sym>& axes, const Index& at) const {
    Bindings values = sizes_;
    for (size_t k = 0; k < axes.size(); ++k) values[axes[k]] = double(at[k]);
    return values;
  }

  double remembered(const std::tuple<Sym, size_t, Index>& key, const std::function<double()>& find) {
    auto it = memo_.find(key);
    if (it != memo_.end()) return it->second;
    double x = find();
    memo_[key] = x;
    return x;
  }

  /// A result, or a point or component after the whole stream.
  double tile(Sym s, const Index& at) {
    for (size_t k = 0; k < derivation_.cascade.reductions.size(); ++k) {
      const Reduction& r = derivation_.cascade.reductions[k];
      if (r.result == s)
        return remembered({s, 0, at}, [&] { return value(derivation_.finish[k], bind(r.axes, at)); });
    }
    for (const Pass& pass : derivation_.passes) {
      const State& st = pass.state;
      for (size_t k = 0; k < st.points.size(); ++k)
        if (st.points[k].var == s) return point(st, k, chunks_.size() - 1, at);
      for (size_t k = 0; k < st.components.size(); ++k)
        if (st.components[k].var == s) return component(st, k, chunks_.size() - 1, at);
    }
    TW_CHECK(false, "nothing computes " + s.name());
  }

  /// Points as they are after `step` chunks; with `lifting`, −inf counts as 0.
  double value_at(const State& st, Expr e, const Bindings& at, size_t step, bool lifting,
                  std::optional<size_t> next = {}) {
    return evaluate(e, at, [&](Sym s, const Index& i) {
      for (size_t k = 0; k < st.points.size(); ++k) {
        if (st.points[k].next == s && next) return point(st, k, *next, i);
        if (st.points[k].var != s) continue;
        double rho = point(st, k, step, i);
        return lifting && st.points[k].exponential && rho == -INFINITY ? 0 : rho;
      }
      return s.kind() == SymbolKind::Tile ? tile(s, i) : input(s, i);
    });
  }

  template <class F>
  void for_chunk(size_t step, Bindings at, F f) {
    for (int64_t x = chunks_[step - 1]; x < chunks_[step]; ++x) {
      at[derivation_.cascade.axis] = double(x);
      f(at);
    }
  }

  double lifted(const State& st, size_t a, size_t chunk, size_t points, const Bindings& at) {
    const Component& c = st.components[a];
    double sum = *identity(c.combine).number();
    for_chunk(chunk, at, [&](const Bindings& here) {
      if (value_at(st, c.present, here, points, true) != 0)
        sum = combined(c.combine, sum, value_at(st, c.lift, here, points, true));
    });
    return sum;
  }

  double point(const State& st, size_t k, size_t step, const Index& index) {
    const Point& p = st.points[k];
    return remembered({p.var, step, index}, [&]() -> double {
      if (step == 0)
        return p.kind == Point::Kind::Mean ? 0 : p.kind == Point::Kind::Maximum ? -INFINITY : INFINITY;
      Bindings at = bind(p.axes, index);
      double rho = point(st, k, step - 1, index);
      if (p.kind == Point::Kind::Mean) {
        auto total = [&](int c) {
          const Component& own = st.components[size_t(c)];
          Index i;
          for (Sym s : own.axes) i.push_back(int64_t(at.at(s)));
          return component(st, size_t(c), step - 1, i) + lifted(st, size_t(c), step, step - 1, at);
        };
        double n = total(p.weight);
        return n == 0 ? rho : rho + total(p.sum) / n;
      }
      for_chunk(step, at, [&](const Bindings& here) {
        if (value_at(st, p.present, here, step - 1, false) == 0) return;
        double u = value_at(st, p.u, here, step - 1, false);
        rho = combined(p.kind == Point::Kind::Maximum ? Reducer::Max : Reducer::Min, rho, u);
      });
      return rho;
    });
  }

  /// The list that two components hold after `step` chunks, at the coordinates of one of its pairs.
  using List = std::pair<std::vector<double>, std::vector<double>>;
  const List& list(const State& st, size_t keys, size_t step, Index index) {
    const Component& c = st.components[keys];
    Bindings at = bind(c.axes, index);
    for (size_t k = 0; k < c.axes.size(); ++k)
      if (c.axes[k] == c.rank) index[k] = 0;
    const auto [place, fresh] = lists_.try_emplace({c.var, step, index});
    List& out = place->second;
    if (!fresh) return out;
    const size_t length = size_t(sizes_.at(c.rank.size()));
    if (step == 0)
      return out = {std::vector<double>(length, *identity(Reducer::Topk).number()),
                    std::vector<double>(length, *identity(Reducer::Argtopk).number())};
    out = list(st, keys, step - 1, index);
    for_chunk(step, at, [&](const Bindings& here) {
      if (value_at(st, c.present, here, step, true) != 0)
        insert_ranked(out.first, out.second, value_at(st, c.lift, here, step, true),
                      here.at(derivation_.cascade.axis));
    });
    return out;
  }

  double component(const State& st, size_t a, size_t step, const Index& index) {
    const Component& c = st.components[a];
    if (c.listed()) {
      const bool keys = c.combine == Reducer::Topk;
      const List& both = list(st, keys ? a : size_t(c.beside), step, index);
      const size_t rank = size_t(bind(c.axes, index).at(c.rank));
      return (keys ? both.first : both.second).at(rank);
    }
    return remembered({c.var, step, index}, [&] {
      if (step == 0) return *identity(c.combine).number();
      Bindings at = bind(c.axes, index);
      double before = 0;
      for (const RepairTerm& t : c.repair) {
        const Component& b = st.components[size_t(t.component)];
        Index i;
        for (Sym s : b.axes) i.push_back(int64_t(at.at(s)));
        double x = component(st, size_t(t.component), step - 1, i);
        before = t.factor.is_constant(1) && c.repair.size() == 1
                     ? x
                     : before + value_at(st, t.factor, at, step - 1, false, step) * x;
      }
      return combined(c.combine, before, lifted(st, a, step, step, at));
    });
  }

  const Program& program_;
  const Derivation& derivation_;
  uint64_t seed_;
  Bindings sizes_;
  int64_t length_ = 0;
  std::vector<int64_t> chunks_;
  std::map<std::tuple<Sym, size_t, Index>, double> memo_;
  std::map<std::tuple<Sym, size_t, Index>, List> lists_;
  std::map<Sym, Expr> written_;
};

bool agree(double want, double got) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got);
  if (std::isinf(want) || std::isinf(got)) return want == got;
  return std::abs(want - got) <= 1e-7 * std::max(1.0, std::abs(want));
}

}  // namespace

std::vector<Check> check_outputs(const Program& elaborated, const Derivation& d, uint64_t seed) {
  std::vector<Check> out;
  if (!Sample(elaborated, d, seed).small()) return out;
  for (const CascadeOutput& o : d.cascade.outputs) {
    if (!Sample(elaborated, d, seed).has_elements(o)) continue;
    Check c{fmt::format("{} equals its definition", elaborated.outputs[o.output].sym.name()),
            "random values",
            true,
            {}};
    // A rounding in the program may fall either way for two right computations: one sample in three may differ.
    int wrong = 0, right = 0;
    for (uint64_t k = 0; k < 3 && (right < 2 || wrong > 0); ++k) {
      double want = NAN, got = NAN;
      try {
        std::tie(want, got) = Sample(elaborated, d, mixed(seed + k)).both(o);
      } catch (const InternalError&) {
        continue;  // random data for which the definition has no value
      }
      if (!std::isfinite(want) && std::isfinite(got)) continue;  // as written it overflows
      if (std::isinf(want) && std::isnan(got)) continue;  // so does an exponent, before its maximum is taken
      bool same = agree(want, got);
      ++(same ? right : wrong);
      if (!same) c.detail = fmt::format("{} in place of {}", got, want);
    }
    if (right + wrong == 0) continue;
    c.passed = wrong < 2 && right > 0;
    if (c.passed) c.detail.clear();
    out.push_back(std::move(c));
  }
  return out;
}

}  // namespace tilewright::derivation
