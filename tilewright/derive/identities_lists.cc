// The identities behind a sorted list: its order, its merge, and that what is ranked rises with the key.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "tilewright/derive/check.h"
#include "tilewright/expr/simplify.h"
#include "tilewright/program/elaborate.h"

namespace tilewright::derivation {
namespace {

constexpr const char* kBroken = "an order of the values breaks it";

Expr variable(const std::string& name) { return Sym::fresh({.name = name, .kind = SymbolKind::Variable}); }

/// `n` pairs of variables, named after the list.
Pairs variables(const std::string& keys, const std::string& indices, const std::string& side, size_t n) {
  Pairs out;
  for (size_t r = 0; r < n; ++r) {
    out.keys.push_back(variable(fmt::format("{}_{}{}", keys, side, r)));
    out.indices.push_back(variable(fmt::format("{}_{}{}", indices, side, r)));
  }
  return out;
}

Expr before(const Pairs& x, size_t p, const Pairs& y, size_t q) {
  return stands_before(x.keys[p], x.indices[p], y.keys[q], y.indices[q]);
}
bool ordered(double key, double index, double other_key, double other_index) {
  return stands_before(key, index, other_key, other_index);
}
Expr absent(Expr index) { return equal(index, *identity(Reducer::Argtopk).rational()); }

// ---- the order -------------------------------------------------------------------------------------------------------

/// Does the condition say of two pairs what the kernels' order does, and is that order strict? All orders of two, and of three, pairs, with NaN and
/// what is no element among them.
bool strictly_ordered() {
  static const bool fine = [] {
    const double keys[] = {0, 1, 2, NAN}, indices[] = {0, 1, 2, -1};
    const Pairs pair = variables("key", "index", "", 2);
    const Expr condition = before(pair, 0, pair, 1);
    struct Pair {
      double key, index;
    };
    std::vector<Pair> all;
    for (double key : keys)
      for (double index : indices) all.push_back({key, index});
    const auto comes = [](const Pair& p, const Pair& q) { return ordered(p.key, p.index, q.key, q.index); };
    bool right = true;
    for (const Pair& p : all)
      for (const Pair& q : all) {
        const double said = evaluate(condition, {{pair.keys[0]->sym, p.key},
                                                 {pair.indices[0]->sym, p.index},
                                                 {pair.keys[1]->sym, q.key},
                                                 {pair.indices[1]->sym, q.index}});
        right = right && (said != 0) == comes(p, q) && !(comes(p, q) && comes(q, p)) &&
                (p.index == q.index || comes(p, q) || comes(q, p));
        for (const Pair& s : all) right = right && !(comes(p, q) && comes(q, s) && !comes(p, s));
      }
    return right;
  }();
  return fine;
}

/// Asymmetric, transitive, and total for different indices, so that the first k of all are the first k of the first k of parts, whatever the parts.
Identity order(const Component& keys) {
  const Pairs t = variables("t", "at", "", 3);
  const auto holds = [](Expr condition) { return Identity::Equation{select(condition, 1, 0), 1}; };
  Identity out;
  out.what = "strict order of " + keys.var.name();
  out.equations = {holds(logical_not(logical_and(before(t, 0, t, 1), before(t, 1, t, 0)))),
                   holds(logical_or(equal(t.indices[0], t.indices[1]),
                                    logical_or(before(t, 0, t, 1), before(t, 1, t, 0)))),
                   holds(logical_or(logical_not(logical_and(before(t, 0, t, 1), before(t, 1, t, 2))),
                                    before(t, 0, t, 2)))};
  for (Expr index : t.indices) out.assumptions.push_back(logical_or(less_equal(0, index), absent(index)));
  out.by_cases = true;
  if (!strictly_ordered()) out.fault = kBroken;
  return out;
}

// ---- the merge -------------------------------------------------------------------------------------------------------

/// The merge of two lists of n pairs each under every order of their pairs. It is read as choices by questions which of two pairs comes first.
class Orders {
 public:
  Orders(const ListMerging& how, size_t n) : n_(n) {
    const Pairs left = variables("key", "index", "a", n), right = variables("key", "index", "b", n);
    for (const Pairs* side : {&left, &right})
      for (size_t p = 0; p < n; ++p) {
        leaf(side->keys[p]);
        leaf(side->indices[p]);
      }
    const Pairs merged = how(left, right);
    for (Expr e : merged.keys) keys_.push_back(step(e));
    for (Expr e : merged.indices) indices_.push_back(step(e));
  }

  /// Why the keys, and why the indices, are not the first n of both; empty where they are.
  std::pair<std::string, std::string> faults() {
    std::pair<std::string, std::string> out;
    if (keys_.size() != n_ || indices_.size() != n_) return {kBroken, kBroken};
    // `l` and `r` elements are present, in an order that goes through both lists: bit k tells whose the k-th is.
    for (size_t l = 0; l <= n_; ++l)
      for (size_t r = 0; r <= n_; ++r)
        for (size_t order = 0; order < (size_t{1} << (l + r)); ++order) {
          if (size_t(__builtin_popcountll(order)) != r) continue;
          place_.assign(2 * n_, l + r);  // what fills a list stands behind all
          size_t of_left = 0, of_right = 0;
          for (size_t k = 0; k < l + r; ++k) place_[order >> k & 1 ? n_ + of_right++ : of_left++] = k;
          run();
          for (size_t k = 0; k < n_; ++k) {
            judge(values_[keys_[k]], 0, std::min(k, l + r), out.first);
            judge(values_[indices_[k]], 1, std::min(k, l + r), out.second);
          }
        }
    return out;
  }

 private:
  static constexpr int undecided = -1;
  enum class Kind { Leaf, Before, Choice, Other };
  struct Step {
    Kind kind = Kind::Other;
    std::array<size_t, 4> of =
        {};  ///< Before: two pairs, each a key and an index; Choice: the question, both ways
  };

  size_t put(Expr e, const Step& s) {
    steps_.push_back(s);
    return known_[e] = steps_.size() - 1;
  }
  /// Variable 2p is the key of pair p, variable 2p + 1 its index; the pairs of `left` come first.
  void leaf(Expr e) { put(e, {Kind::Leaf, {}}); }

  size_t step(Expr e) {
    if (const auto it = known_.find(e); it != known_.end()) return it->second;
    if (e.is(Op::Select)) {
      const size_t question = step(e.arg(0)), then = step(e.arg(1)), otherwise = step(e.arg(2));
      return put(e, {Kind::Choice, {question, then, otherwise}});
    }
    static const Pairs two = variables("key", "index", "", 2);
    static const Expr first = before(two, 0, two, 1);
    std::map<Expr, Expr> found;
    if (!matches(first, e, found)) return put(e, {});
    Step s{Kind::Before, {}};
    for (size_t k = 0; k < 4; ++k) s.of[k] = step(found.at((k % 2 == 0 ? two.keys : two.indices)[k / 2]));
    return put(e, s);
  }
  /// Is `e` the pattern with something in the place of each of its variables?
  static bool matches(Expr pattern, Expr e, std::map<Expr, Expr>& found) {
    if (pattern.is(Op::Symbol)) return found.emplace(pattern, e).first->second == e;
    if (pattern.args().empty()) return pattern == e;
    if (pattern.op() != e.op() || pattern.args().size() != e.args().size()) return false;
    for (size_t k = 0; k < pattern.args().size(); ++k)
      if (!matches(pattern.arg(k), e.arg(k), found)) return false;
    return true;
  }

  void run() {
    values_.assign(steps_.size(), undecided);
    for (size_t k = 0; k < steps_.size(); ++k) {
      const auto& [kind, of] = steps_[k];
      if (kind == Kind::Leaf) values_[k] = int(k);
      if (kind == Kind::Choice && values_[of[0]] != undecided)
        values_[k] = values_[of[values_[of[0]] != 0 ? 1 : 2]];
      if (kind != Kind::Before) continue;
      const int p = values_[of[0]], q = values_[of[2]];
      const bool pairs =
          p >= 0 && q >= 0 && p % 2 == 0 && q % 2 == 0 && values_[of[1]] == p + 1 && values_[of[3]] == q + 1;
      if (pairs) values_[k] = place_[size_t(p / 2)] < place_[size_t(q / 2)];
    }
  }

  /// Is `value` that side (0: key, 1: index) of the pair in its place?
  void judge(int value, int side, size_t place, std::string& fault) const {
    if (value == undecided)
      fault = "the order of the pairs alone does not decide it";
    else if (fault.empty() && (value % 2 != side || place_.at(size_t(value / 2)) != place))
      fault = kBroken;
  }

  size_t n_;
  std::vector<Step> steps_;  ///< each behind what it reads
  std::map<Expr, size_t> known_;
  std::vector<size_t> keys_, indices_;
  std::vector<int> values_;    ///< of a leaf itself, of a question 0 or 1
  std::vector<size_t> place_;  ///< of each pair
};

/// At rank `rank`, the pair before which as many of both lists stand; what fills a list where there is none.
std::pair<Expr, Expr> counted(const Pairs& left, const Pairs& right, size_t rank, Expr filling) {
  Expr key = filling, index = identity(Reducer::Argtopk);
  for (const Pairs* side : {&right, &left})
    for (size_t p = side->keys.size(); p-- > 0;) {
      Expr above = int64_t(p);  // of its own list
      const Pairs& other = side == &left ? right : left;
      for (size_t q = 0; q < other.keys.size(); ++q) above = above + select(before(other, q, *side, p), 1, 0);
      const Expr here = logical_and(less_equal(0, side->indices[p]), equal(above, int64_t(rank)));
      key = select(here, side->keys[p], key);
      index = select(here, side->indices[p], index);
    }
  return {key, index};
}

/// Two sorted lists of different elements, filled where there are no more: in each rank of the merge stands the pair before which as many stand.
std::pair<Identity, Identity> merged(const Component& keys, const Component& indices,
                                     const ListMerging& how) {
  constexpr size_t decided = 4, asked = 3;  // pairs of a list: by cases; by a solver
  std::pair<Identity, Identity> out;
  out.first.what = fmt::format("{} of {}", kWhole, keys.var.name());
  out.second.what = fmt::format("{} of {}", kWhole, indices.var.name());
  for (size_t n = 1; n <= decided; ++n) {
    const auto [of_keys, of_indices] = Orders(how, n).faults();
    if (out.first.fault.empty()) out.first.fault = of_keys;
    if (out.second.fault.empty()) out.second.fault = of_indices;
  }
  const Pairs l = variables(keys.var.name(), indices.var.name(), "a", asked),
              r = variables(keys.var.name(), indices.var.name(), "b", asked), both = how(l, r);
  const Expr filling = variable("filling");
  std::vector<Expr> assumptions;
  for (const Pairs* side : {&l, &r})
    for (size_t p = 0; p < asked; ++p) {
      const Expr none = logical_and(absent(side->indices[p]), equal(side->keys[p], filling));
      const Expr element = logical_and(less_equal(0, side->indices[p]), less_equal(filling, side->keys[p]));
      assumptions.push_back(
          logical_or(none, p == 0 ? element : logical_and(element, before(*side, p - 1, *side, p))));
    }
  for (size_t p = 0; p < asked; ++p)
    for (size_t q = 0; q < asked; ++q)
      assumptions.push_back(
          logical_or(less(l.indices[p], 0), logical_not(equal(l.indices[p], r.indices[q]))));
  for (size_t k = 0; k < std::min(asked, both.keys.size()); ++k) {
    const auto [key, index] = counted(l, r, k, filling);
    out.first.equations.push_back({both.keys[k], key});
    out.second.equations.push_back({both.indices[k], index});
  }
  for (Identity* i : {&out.first, &out.second}) {
    i->assumptions = assumptions;
    i->by_cases = true;
  }
  return out;
}

// ---- what is ranked --------------------------------------------------------------------------------------------------

/// What is ranked is a strictly increasing function of the key.
std::optional<Identity> increasing(const Component& keys) {
  if (!keys.ranked) return std::nullopt;
  std::map<Expr, Sym> values;  // what stands for an element of an array or a result
  const Expr numbers = rewrite(keys.ranked, [&](Expr e) {
    if (!e.is(Op::Read)) return e;
    const auto [it, fresh] = values.try_emplace(e);
    if (fresh) it->second = variable(e->sym.name())->sym;
    return Expr(it->second);
  });
  const Expr x = variable("x"), y = variable("y");
  const auto at = [&](Expr z) { return substitute(numbers, {{keys.key, z}}); };
  const Expr low = at(x), high = at(y);
  const auto slope = derivative(simplify(low), x->sym);
  const bool falls = slope && provably_nonnegative(simplify(-*slope));
  if (!falls && !(slope && provably_positive(*slope)))
    return std::nullopt;  // left to the rules by which it was found
  Identity out;
  out.what = "ranked in the order of the keys of " + keys.var.name();
  out.equations = {{select(less(low, high), 1, 0), 1}};
  if (falls) out.fault = "it is not increasing";
  out.assumptions.push_back(less(x, y));
  for (Sym s : free_symbols(low))
    if (s.info().positive) out.assumptions.push_back(less(0, s));
  out.by_cases = out.increasing = true;
  return out;
}

}  // namespace

std::vector<Identity> list_identities(const Component& keys, const Component& indices,
                                      const ListMerging& how) {
  std::vector<Identity> out;
  auto [of_keys, of_indices] = merged(keys, indices, how);
  out.push_back(order(keys));
  out.push_back(std::move(of_keys));
  out.push_back(std::move(of_indices));
  if (auto rises = increasing(keys)) out.push_back(std::move(*rises));
  return out;
}

}  // namespace tilewright::derivation
