// A state run on random values: streams and merge trees against the lifts summed directly.
#include <algorithm>
#include <cmath>
#include <random>

#include <fmt/format.h>

#include "tilewright/derive/check.h"
#include "tilewright/derive/normal_form.h"
#include "tilewright/program/elaborate.h"

namespace tilewright::derivation {
namespace {

/// A sorted list of pairs, held by two components.
struct List {
  std::vector<double> keys, indices;
};
constexpr size_t list_length = 3;

struct Values {
  std::vector<double> points, components;
  std::vector<List> lists;  ///< of the components that are keys; empty elsewhere
};

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

class Machine {
 public:
  Machine(const State& s, uint64_t seed, const Merging& how) : state_(s), abstract_(s), random_(seed) {
    for (const Point& p : s.points) {
      u_.push_back(abstract_(p.u));
      point_present_.push_back(flag(p.present));
    }
    for (size_t a = 0; a < s.components.size(); ++a) {
      lifts_.push_back(abstract_(element_of(s, a)));
      present_.push_back(flag(s.components[a].present));
    }
    for (size_t a = 0; a < lifts_.size(); ++a)
      if (s.components[a].combine == Reducer::Argtopk) {
        const std::vector<Sym> own = free_symbols(lifts_[a]);
        if (!own.empty()) position_ = own[0];
      }
    for (const Point& p : s.points) copies(p.var);
    for (const Component& c : s.components) copies(c.var);
    merge_ = how(s, left_, right_);
    for (Pairs* side : {&left_list_, &right_list_})
      for (std::vector<Expr>* values : {&side->keys, &side->indices})
        for (size_t k = 0; k < list_length; ++k)
          values->push_back(Sym::fresh({.name = "pair", .kind = SymbolKind::Variable}));
    merged_list_ = merge_.lists(left_list_, right_list_);
    for (auto* list : {&merge_.points, &merge_.components})
      for (Expr e : *list)
        for (Sym v : e ? free_symbols(e) : std::vector<Sym>{}) fixed_[v] = 1;
    for (const Component& c : s.components)
      for (const RepairTerm& t : c.repair)
        for (Sym v : free_symbols(t.factor)) fixed_[v] = 1;
  }

  /// Draws `n` elements. With `extremes`, exponents are sometimes −inf and elements often absent.
  void draw(size_t n, bool extremes) {
    std::normal_distribution<double> normal(0, 1);
    std::uniform_int_distribution<int> die(0, 5);
    std::vector<double> offset;
    for (auto& v : abstract_.variables) offset.push_back(is_flag(v.second) ? 0 : 8 * normal(random_));
    elements_.assign(n, {});
    for (Bindings& e : elements_) {
      for (size_t k = 0; k < abstract_.variables.size(); ++k) {
        Sym s = abstract_.variables[k].second;
        bool flag = is_flag(s);
        double x = flag ? die(random_) > (extremes ? 2 : 0) : offset[k] + 3 * normal(random_);
        e[s] = x;
      }
      for (auto& v : abstract_.variables)
        if (extremes && !is_flag(v.second) && is_exponent(v.second) && die(random_) < 2)
          e[v.second] = at_minus_infinity(v.second, e);
      for (auto& v : abstract_.variables) {
        if (!is_key_alone(v.second)) continue;
        const double some[] = {NAN, INFINITY, -INFINITY, offset[0], e[v.second], e[v.second]};
        if (extremes) e[v.second] = some[die(random_)];
      }
    }
    // What lists order: each element stands at its place along the axis.
    for (size_t k = 0; k < n; ++k) elements_[k][position_] = double(k);
  }

  /// The value of `s` at which every exponent that depends on it is −inf; what it is where there is none.
  double at_minus_infinity(Sym s, const Bindings& element) const {
    for (double x : {-INFINITY, INFINITY}) {
      Bindings values = element;
      values[s] = x;
      bool low = true;
      for (size_t k = 0; k < u_.size(); ++k)
        low = low && (!depends_on(u_[k], s) || evaluate(u_[k], values) == -INFINITY);
      if (low) return x;
    }
    return element.at(s);
  }

  Values empty() const {
    Values v;
    for (const Point& p : state_.points)
      v.points.push_back(p.kind == Point::Kind::Mean      ? 0
                         : p.kind == Point::Kind::Maximum ? -INFINITY
                                                          : INFINITY);
    for (const Component& c : state_.components) {
      v.components.push_back(*identity(c.combine).number());
      v.lists.emplace_back();
      if (c.combine == Reducer::Topk)
        v.lists.back() = {std::vector<double>(list_length, *identity(Reducer::Topk).number()),
                          std::vector<double>(list_length, *identity(Reducer::Argtopk).number())};
    }
    return v;
  }

  /// The state after one more chunk.
  Values stream(const Values& before, const std::vector<size_t>& chunk) {
    Values after = before;
    for (size_t k = 0; k < state_.points.size(); ++k) {
      after.points[k] = moved_point(k, before, chunk);
      if (wander_ && state_.points[k].kind == Point::Kind::Mean)
        after.points[k] += std::normal_distribution<double>(0, 2)(random_);
    }
    for (size_t a = 0; a < lifts_.size(); ++a) {
      if (state_.components[a].combine == Reducer::Topk) {
        for (size_t k : chunk)
          if (at(present_[a], k, after.points) != 0)
            insert_ranked(after.lists[a].keys, after.lists[a].indices, at(lifts_[a], k, after.points),
                          index_of(a, k));
      }
      if (state_.components[a].listed()) continue;
      after.components[a] = combined(state_.components[a].combine, repaired(a, before, after.points),
                                     lifted(a, after.points, chunk));
    }
    return after;
  }

  Values merged(const Values& l, const Values& r) const {
    Values out;
    auto reader = [&](Sym s, const std::vector<int64_t>&) -> double {
      for (size_t k = 0; k < state_.points.size(); ++k) {
        if (left_[k].second == s) return l.points[k];
        if (right_[k].second == s) return r.points[k];
        if (state_.points[k].next == s) return out.points[k];
      }
      for (size_t k = 0, n = state_.points.size(); k < state_.components.size(); ++k) {
        if (left_[n + k].second == s) return l.components[k];
        if (right_[n + k].second == s) return r.components[k];
      }
      TW_CHECK(false, "a merge reads " + s.name());
    };
    for (Expr e : merge_.points) out.points.push_back(evaluate(e, fixed_, reader));
    for (Expr e : merge_.components) out.components.push_back(e ? evaluate(e, fixed_, reader) : 0);
    for (size_t a = 0; a < l.lists.size(); ++a) out.lists.push_back(merged(l.lists[a], r.lists[a]));
    return out;
  }

  /// Merges [begin, end) by a random tree whose leaves are chunks, some of them empty.
  Values tree(size_t begin, size_t end, bool wander) {
    wander_ = wander;
    std::uniform_int_distribution<int> die(0, 3);
    if (begin == end || (end - begin <= 2 && die(random_) > 0)) {
      std::vector<size_t> chunk;
      for (size_t k = begin; k < end; ++k) chunk.push_back(k);
      return stream(empty(), chunk);
    }
    size_t middle = std::uniform_int_distribution<size_t>(begin, end)(random_);
    if ((middle == begin || middle == end) && end - begin == 1) {
      Values one = stream(empty(), {begin});
      return middle == begin ? merged(empty(), one) : merged(one, empty());
    }
    Values l = tree(begin, middle, wander);
    return merged(l, tree(middle, end, wander));
  }

  /// A stream in random chunks. With `wander`, points of means move anywhere: the residual Σ(u − ρ) is not 0 then, and every term of a
  /// repair counts.
  Values chunks(size_t n, bool wander) {
    wander_ = wander;
    Values v = empty();
    size_t at = 0;
    while (at < n) {
      size_t length = std::uniform_int_distribution<size_t>(0, 3)(random_);
      std::vector<size_t> chunk;
      for (; length > 0 && at < n; --length) chunk.push_back(at++);
      v = stream(v, chunk);
    }
    wander_ = false;
    return v;
  }

  /// Empty where `v` is what the elements [0, n) give at its own points; else what differs.
  std::string difference(const Values& v, size_t n) const {
    std::vector<size_t> all;
    for (size_t k = 0; k < n; ++k) all.push_back(k);
    for (size_t k = 0; k < state_.points.size(); ++k) {
      if (std::isnan(v.points[k]))
        return fmt::format("point {} is not a number", state_.points[k].var.name());
      if (state_.points[k].kind == Point::Kind::Mean) continue;
      double want = moved_point(k, empty(), all);
      if (want != v.points[k])
        return fmt::format("point {} is {} in place of {}", state_.points[k].var.name(), v.points[k], want);
    }
    for (size_t a = 0; a < lifts_.size(); ++a) {
      if (state_.components[a].combine == Reducer::Topk)
        if (std::string wrong = list_difference(a, v, n); !wrong.empty()) return wrong;
      if (state_.components[a].listed()) continue;
      double size = 1, want = lifted(a, v.points, all, &size);
      double got = v.components[a];
      bool close = want == got || (std::isnan(want) && std::isnan(got)) ||
                   std::abs(want - got) <= 1e-8 * std::max(size, std::abs(want));
      if (!close) return fmt::format("{} is {} in place of {}", state_.components[a].var.name(), got, want);
    }
    return {};
  }

 private:
  /// The list against all elements that are present, sorted.
  std::string list_difference(size_t a, const Values& v, size_t n) const {
    std::vector<std::pair<double, double>> all;
    for (size_t k = 0; k < n; ++k)
      if (at(present_[a], k, v.points) != 0) all.emplace_back(at(lifts_[a], k, v.points), index_of(a, k));
    std::stable_sort(all.begin(), all.end(), [](const auto& x, const auto& y) {
      return std::isnan(x.first) ? !std::isnan(y.first) : x.first > y.first;
    });
    all.resize(list_length, {*identity(Reducer::Topk).number(), *identity(Reducer::Argtopk).number()});
    const List& got = v.lists[a];
    for (size_t k = 0; k < list_length; ++k)
      if (!same(got.keys[k], all[k].first) || !same(got.indices[k], all[k].second))
        return fmt::format("{} holds ({}, {}) at rank {} in place of ({}, {})",
                           state_.components[a].var.name(), got.keys[k], got.indices[k], k, all[k].first,
                           all[k].second);
    return {};
  }

  List merged(const List& l, const List& r) const {
    if (l.keys.empty()) return {};
    Bindings values;
    for (const auto& [list, symbols] : {std::pair{&l, &left_list_}, std::pair{&r, &right_list_}})
      for (size_t k = 0; k < list_length; ++k) {
        values[symbols->keys[k]->sym] = list->keys[k];
        values[symbols->indices[k]->sym] = list->indices[k];
      }
    List out;
    for (Expr e : merged_list_.keys) out.keys.push_back(evaluate(e, values));
    for (Expr e : merged_list_.indices) out.indices.push_back(evaluate(e, values));
    return out;
  }

  /// What the list of keys `a` notes of an element besides its key.
  double index_of(size_t a, size_t element) const {
    return at(lifts_[size_t(state_.components[a].beside)], element, {});
  }

  /// Is the variable ordered by a list and used nowhere else?
  bool is_key_alone(Sym s) const {
    if (is_flag(s) || s == position_) return false;
    bool found = false;
    for (size_t a = 0; a < lifts_.size(); ++a) {
      if (!depends_on(lifts_[a], s)) continue;
      if (!state_.components[a].listed()) return false;
      found = true;
    }
    for (Expr u : u_)
      if (depends_on(u, s)) return false;
    return found;
  }

  /// Each atom is a flag: what is present for a component is present for the points it is held at.
  Expr flag(Expr present) {
    if (present.is(Op::And) || present.is(Op::Or) || present.is(Op::Not)) {
      std::vector<Expr> parts;
      for (Expr a : present.args()) parts.push_back(flag(a));
      return with_args(present, std::move(parts));
    }
    Expr e = abstract_(present);
    for (Sym s : free_symbols(e)) abstract_.flags.push_back(s);
    return e;
  }
  bool is_flag(Sym s) const {
    return std::find(abstract_.flags.begin(), abstract_.flags.end(), s) != abstract_.flags.end();
  }

  /// The exponent of a point, used nowhere but in exponentials.
  bool is_exponent(Sym s) const {
    bool found = false;
    for (size_t k = 0; k < u_.size(); ++k)
      found = found || (state_.points[k].exponential && depends_on(u_[k], s));
    for (size_t a = 0; a < lifts_.size(); ++a)
      if (const Expr lift = lifts_[a]; !state_.components[a].listed())
        found = found && !depends_on(rewrite(lift, [](Expr x) { return x.is(Op::Exp) ? Expr(1) : x; }), s);
    for (size_t k = 0; k < u_.size(); ++k)
      found = found && (state_.points[k].exponential || !depends_on(u_[k], s));
    return found;
  }

  void copies(Sym s) {
    left_.emplace_back(s, Sym::fresh(s.info()));
    right_.emplace_back(s, Sym::fresh(s.info()));
  }

  double at(Expr e, size_t element, const std::vector<double>& points) const {
    Bindings& values = elements_[element];
    for (size_t k = 0; k < points.size(); ++k) {
      if (!depends_on(e, abstract_.rho[k])) continue;
      bool nothing = std::isinf(points[k]) && points[k] < 0 && state_.points[k].exponential;
      values[abstract_.rho[k]] = nothing ? 0 : points[k];
    }
    return evaluate(e, values);
  }

  double lifted(size_t a, const std::vector<double>& points, const std::vector<size_t>& chunk,
                double* size = nullptr) const {
    Reducer r = state_.components[a].combine;
    double sum = *identity(r).number();
    for (size_t k : chunk) {
      if (at(present_[a], k, points) == 0) continue;
      double x = at(lifts_[a], k, points);
      if (size) *size += std::abs(x);
      sum = combined(r, sum, x);
    }
    return sum;
  }

  double repaired(size_t a, const Values& before, const std::vector<double>& next) const {
    auto reader = [&](Sym s, const std::vector<int64_t>&) -> double {
      for (size_t k = 0; k < state_.points.size(); ++k) {
        if (state_.points[k].var == s) return before.points[k];
        if (state_.points[k].next == s) return next[k];
      }
      TW_CHECK(false, "a repair reads " + s.name());
    };
    if (state_.components[a].repair.size() == 1 && state_.components[a].repair[0].factor.is_constant(1))
      return before.components[a];
    double sum = 0;
    for (const RepairTerm& t : state_.components[a].repair)
      sum += evaluate(t.factor, fixed_, reader) * before.components[size_t(t.component)];
    return sum;
  }

  double moved_point(size_t k, const Values& before, const std::vector<size_t>& chunk) const {
    const Point& p = state_.points[k];
    double rho = before.points[k];
    if (p.kind != Point::Kind::Mean) {
      Reducer r = p.kind == Point::Kind::Maximum ? Reducer::Max : Reducer::Min;
      for (size_t e : chunk)
        if (at(point_present_[k], e, before.points) != 0) rho = combined(r, rho, at(u_[k], e, before.points));
      return rho;
    }
    double s = before.components[size_t(p.sum)] + lifted(size_t(p.sum), before.points, chunk);
    double n = before.components[size_t(p.weight)] + lifted(size_t(p.weight), before.points, chunk);
    return n == 0 ? rho : rho + s / n;
  }

  const State& state_;
  Abstraction abstract_;
  std::mt19937_64 random_;
  bool wander_ = false;
  Sym position_ =
      Sym::fresh({.name = "position", .kind = SymbolKind::Variable});  ///< the index that lists note
  std::vector<Expr> u_, point_present_, lifts_, present_;
  std::vector<std::pair<Sym, Sym>> left_, right_;
  Merge merge_;
  Pairs left_list_, right_list_, merged_list_;  ///< a merge of lists, over variables
  Bindings fixed_;
  mutable std::vector<Bindings> elements_;  ///< variables, and the points at which the last lift was taken
};

}  // namespace

double combined(Reducer r, double a, double b) {
  switch (r) {
    case Reducer::Sum: return a + b;
    case Reducer::Max: return std::isnan(a) ? a : std::isnan(b) ? b : std::max(a, b);
    case Reducer::Min: return std::isnan(a) ? a : std::isnan(b) ? b : std::min(a, b);
    case Reducer::Prod: return a * b;
    case Reducer::Any: return a != 0 || b != 0;
    case Reducer::All: return a != 0 && b != 0;
    default: break;
  }
  TW_CHECK(false, "components are combined by sum, max, min, prod, any or all");
}

std::vector<Check> check_merges(const State& s, uint64_t seed, const Merging& how) {
  if (s.components.empty() && s.points.empty()) return {};
  constexpr size_t n = 9;
  Machine machine(s, seed, how);
  Check streams{"streams in random chunks hold the whole", "random values", true, {}};
  Check trees{"merge trees of random shape hold the whole", "random values", true, {}};
  for (bool extremes : {false, true}) {
    machine.draw(n, extremes);
    for (int k = 0; k < 3; ++k) {
      for (auto* check : {&streams, &trees}) {
        std::string wrong =
            machine.difference(check == &streams ? machine.chunks(n, k > 0) : machine.tree(0, n, k > 0), n);
        if (wrong.empty() || !check->passed) continue;
        check->passed = false;
        check->detail = wrong;
      }
    }
  }
  if (!machine.difference(machine.merged(machine.empty(), machine.empty()), 0).empty()) {
    trees.passed = false;
    trees.detail = "two empty sides do not give an empty one";
  }
  return {streams, trees};
}

}  // namespace tilewright::derivation
