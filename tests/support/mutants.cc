#include "tests/support/mutants.h"

#include <functional>

#include "tilewright/expr/simplify.h"

namespace tilewright::testing {

Expr own(const Point& p, Sym var) { return read(var, std::vector<Expr>(p.axes.begin(), p.axes.end())); }

Expr renamed(Expr e, const Copies& names) {
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
    if (c.ranked) {
      out.push_back({c.var.name() + ": ranked by a falling function", s, a});
      out.back().state.components[a].ranked = -c.ranked;
    }
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
        Copies turned;
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

namespace {

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

using Before = std::function<Expr(Expr key, Expr index, Expr other_key, Expr other_index)>;
/// What stands at a rank: over the pair that is taken in, does it stand before what is there, and before the rank above?
using Stands = std::function<Expr(Expr before, Expr before_above, Expr taken, Expr above, Expr here)>;

Expr as_it_should(Expr before, Expr before_above, Expr taken, Expr above, Expr here) {
  return select(before_above, above, select(before, taken, here));
}

/// Lists merged by taking in the pairs of the right one, keys and indices each by an order and a rule.
ListMerging taking_in(const Before& of_keys, const Before& of_indices, const Stands& stands) {
  return [=](const Pairs& left, const Pairs& right) {
    Pairs list = left;
    for (size_t p = 0; p < right.keys.size(); ++p) {
      const Expr key = right.keys[p], index = right.indices[p];
      Pairs next;
      for (size_t r = 0; r < list.keys.size(); ++r) {
        const auto standing = [&](const Before& order, const std::vector<Expr>& side, Expr taken) {
          const auto before = [&](size_t k) { return order(key, index, list.keys[k], list.indices[k]); };
          return stands(before(r), r == 0 ? Expr(0) : before(r - 1), taken, side[r == 0 ? 0 : r - 1],
                        side[r]);
        };
        next.keys.push_back(standing(of_keys, list.keys, key));
        next.indices.push_back(standing(of_indices, list.indices, index));
      }
      list = next;
    }
    return list;
  };
}

std::vector<std::pair<std::string, ListMerging>> list_mutants() {
  const Before order = [](Expr k, Expr i, Expr l, Expr j) { return stands_before(k, i, l, j); };
  const Before later = [](Expr k, Expr i, Expr l, Expr j) {  // an element before what is none
    return logical_and(less_equal(0, i),
                       logical_or(less(j, 0), logical_or(less(l, k), logical_and(equal(k, l), less(j, i)))));
  };
  const Before smaller = [](Expr k, Expr i, Expr l, Expr j) {
    return logical_and(less_equal(0, i),
                       logical_or(less(j, 0), logical_or(less(k, l), logical_and(equal(k, l), less(i, j)))));
  };
  const Before any = [](Expr k, Expr i, Expr l, Expr j) {
    return logical_or(less(l, k), logical_and(equal(k, l), less(i, j)));
  };
  const Before unresolved = [](Expr k, Expr i, Expr l, Expr j) {
    return logical_and(less_equal(0, i), logical_or(less(j, 0), less(l, k)));
  };
  const auto sides = [](const Pairs& p, size_t from, size_t to) {
    return Pairs{{p.keys.begin() + long(from), p.keys.begin() + long(to)},
                 {p.indices.begin() + long(from), p.indices.begin() + long(to)}};
  };
  return {
      {"the right list dropped", [](const Pairs& l, const Pairs&) { return l; }},
      {"the left list dropped", [](const Pairs&, const Pairs& r) { return r; }},
      {"the last pair of the right list left out",
       [=](const Pairs& l, const Pairs& r) { return merge_lists(l, sides(r, 0, r.keys.size() - 1)); }},
      {"the first pair of the right list left out",
       [=](const Pairs& l, const Pairs& r) { return merge_lists(l, sides(r, 1, r.keys.size())); }},
      {"the keys of the left list kept",
       [](const Pairs& l, const Pairs& r) {
         return Pairs{l.keys, merge_lists(l, r).indices};
       }},
      {"the indices of the left list kept",
       [](const Pairs& l, const Pairs& r) {
         return Pairs{merge_lists(l, r).keys, l.indices};
       }},
      {"keys for indices",
       [](const Pairs& l, const Pairs& r) {
         return Pairs{merge_lists(l, r).keys, merge_lists(l, r).keys};
       }},
      {"the later index first among equals", taking_in(later, later, as_it_should)},
      {"equal keys left in the order of the lists",
       [=](const Pairs& l, const Pairs& r) { return taking_in(unresolved, unresolved, as_it_should)(r, l); }},
      {"indices moved without regard to equal keys", taking_in(order, later, as_it_should)},
      {"smaller keys first", taking_in(smaller, smaller, as_it_should)},
      {"what fills a list taken for elements", taking_in(any, any, as_it_should)},
      {"what a pair displaces lost",
       taking_in(order, order,
                 [](Expr before, Expr before_above, Expr taken, Expr, Expr here) {
                   return select(logical_and(before, logical_not(before_above)), taken, here);
                 })},
      {"a pair at every rank from its own on",
       taking_in(order, order,
                 [](Expr before, Expr, Expr taken, Expr, Expr here) { return select(before, taken, here); })},
      {"the rank above moved down always",
       taking_in(order, order,
                 [](Expr before, Expr, Expr taken, Expr above, Expr here) {
                   return select(before, above, select(before, taken, here));
                 })},
  };
}

}  // namespace

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
    if (c.listed()) {
      if (c.combine != Reducer::Topk) continue;
      for (const auto& [what, lists] : list_mutants())
        out.push_back(
            {c.var.name() + ": " + what, [lists](const State& st, const Copies& l, const Copies& r) {
               Merge m = merge(st, l, r);
               m.lists = lists;
               return m;
             }});
      continue;
    }
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

}  // namespace tilewright::testing
