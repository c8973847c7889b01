#include "tilewright/model/optimum.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tilewright/tile/statements.h"

namespace tilewright {
namespace {

/// A sum grouped by the exponents of some symbols: coefficient · Π symbol^exponent.
struct Posynomial {
  std::vector<std::pair<std::vector<Rational>, Expr>> terms;
};

Posynomial grouped(const Laurent& sum, const std::vector<Sym>& over) {
  std::map<std::vector<Rational>, Laurent> parts;
  for (const auto& [powers, coefficient] : sum.terms) {
    std::vector<Rational> exponents(over.size(), Rational(0));
    Powers rest;
    for (const auto& [sym, power] : powers) {
      const auto at = std::find(over.begin(), over.end(), sym);
      if (at == over.end())
        rest[sym] = power;
      else
        exponents[size_t(at - over.begin())] = power;
    }
    parts[exponents].add(rest, coefficient);
  }
  Posynomial p;
  for (const auto& [exponents, part] : parts) p.terms.emplace_back(exponents, part.factored());
  return p;
}

bool is_zero(const std::vector<Rational>& v) {
  return std::all_of(v.begin(), v.end(), [](const Rational& x) { return x == Rational(0); });
}

/// Solves A x = b over rationals; nullopt unless there is exactly one solution.
std::optional<std::vector<Rational>> solve(std::vector<std::vector<Rational>> a, std::vector<Rational> b) {
  const size_t n = a.empty() ? 0 : a[0].size();
  size_t row = 0;
  for (size_t column = 0; column < n; ++column) {
    size_t pivot = row;
    while (pivot < a.size() && a[pivot][column] == Rational(0)) ++pivot;
    if (pivot == a.size()) return std::nullopt;  // not determined
    std::swap(a[pivot], a[row]);
    std::swap(b[pivot], b[row]);
    for (size_t k = 0; k < a.size(); ++k) {
      if (k == row || a[k][column] == Rational(0)) continue;
      const Rational f = a[k][column] / a[row][column];
      for (size_t c = 0; c < n; ++c) a[k][c] = a[k][c] - f * a[row][c];
      b[k] = b[k] - f * b[row];
    }
    ++row;
  }
  for (size_t k = row; k < a.size(); ++k)
    if (!(b[k] == Rational(0))) return std::nullopt;  // contradictory
  std::vector<Rational> x;
  for (size_t k = 0; k < n; ++k) x.push_back(b[k] / a[k][k]);
  return x;
}

Expr power(Expr base, Rational exponent) {
  if (exponent == Rational(0)) return 1;
  return exponent == Rational(1) ? base : pow(base, Expr(exponent));
}

/// Π tile^exponent = coefficient · M^power, one row of the system that best tiles satisfy.
struct LogRow {
  std::vector<Rational> exponents;
  Expr coefficient;
  Rational power;
};

/// Reduced row echelon form.
void reduce_rows(std::vector<LogRow>& rows, size_t n) {
  size_t row = 0;
  for (size_t column = 0; column < n && row < rows.size(); ++column) {
    size_t pivot = row;
    while (pivot < rows.size() && rows[pivot].exponents[column] == Rational(0)) ++pivot;
    if (pivot == rows.size()) continue;
    std::swap(rows[pivot], rows[row]);
    const Rational lead = rows[row].exponents[column];
    for (Rational& e : rows[row].exponents) e = e / lead;
    rows[row].coefficient = simplify(power(rows[row].coefficient, Rational(1) / lead));
    rows[row].power = rows[row].power / lead;
    for (size_t k = 0; k < rows.size(); ++k) {
      const Rational f = rows[k].exponents[column];
      if (k == row || f == Rational(0)) continue;
      for (size_t c = 0; c < n; ++c) rows[k].exponents[c] = rows[k].exponents[c] - f * rows[row].exponents[c];
      rows[k].coefficient = simplify(rows[k].coefficient * power(rows[row].coefficient, -f));
      rows[k].power = rows[k].power - f * rows[row].power;
    }
    ++row;
  }
  rows.resize(std::min(row, rows.size()));
}

}  // namespace

std::optional<TileProblem> tile_problem(const Program& p, const TileProgram& t, const TileSymbols& symbols,
                                        std::string* why) {
  const auto none = [&](const std::string& reason) {
    if (why) *why = reason;
    return std::nullopt;
  };
  TileProblem problem;
  const Cost c = transfers(p, t, symbols, true);
  const auto h = laurent(c.memory.loaded + c.memory.stored);
  if (!h) return none("transfers are no sum of products of powers");
  const auto columns = maximands(peaks(t, symbols, Memories::Together).both);
  if (!columns) return none("memory is no sum of products of powers");
  std::set<Sym> groups, streams;
  Substitution resident;
  for (const TileKernel& k : t.kernels)
    for (const auto* list : {&k.grid, &k.inner})
      for (const KernelAxis& a : *list) {
        auto it = symbols.block.find(a.index);
        if (it == symbols.block.end()) continue;
        problem.size[it->second] = a.index.size();
        if (a.kind == KernelAxis::Kind::Group) groups.insert(it->second);
        if (a.kind == KernelAxis::Kind::Stream) streams.insert(it->second);
        if (a.kind == KernelAxis::Kind::Resident) resident.emplace_back(it->second, a.index.size());
      }
  problem.transfers = *h;
  for (const auto& [dtype, sym] : symbols.width) problem.widths.push_back(sym);
  problem.chunks.assign(streams.begin(), streams.end());
  for (const Laurent& column : *columns) {
    Laurent without;
    for (const auto& [powers, coefficient] : column.terms)
      if (std::none_of(powers.begin(), powers.end(),
                       [&](const auto& x) { return streams.count(x.first) != 0; }))
        without.add(powers, coefficient);
    if (!resident.empty()) without = *laurent(substitute(without.expr(), resident));
    if (!without.terms.empty()) problem.memory.push_back(without);
  }
  for (Sym g : groups) (h->depends(g) ? problem.tiles : problem.least).push_back(g);
  return problem;
}

std::optional<Canonical> canonical(const TileProblem& problem, bool leading_terms, std::string* why) {
  const auto none = [&](const std::string& reason) {
    if (why) *why = reason;
    return std::nullopt;
  };
  const std::vector<Sym>& widths = problem.widths;

  // Tiles that save nothing hold one element.
  Substitution ones;
  for (Sym s : problem.least) ones.emplace_back(s, 1);
  std::vector<Laurent> columns;
  for (const Laurent& column : problem.memory) {
    const Laurent one = ones.empty() ? column : *laurent(substitute(column.expr(), ones));
    columns.push_back(leading_terms ? leading(one, widths) : one);
  }
  const auto columns_left = maximands(greatest(columns));
  TW_CHECK(columns_left, "columns are polynomials");

  const std::vector<Sym>& tiles = problem.tiles;
  const Posynomial h = grouped(leading_terms ? leading(problem.transfers, widths) : problem.transfers, tiles);
  Canonical c;
  c.memory = Sym::fresh({.name = "M", .kind = SymbolKind::Variable, .positive = true, .nonnegative = true});
  c.constant = 0;
  std::vector<std::pair<std::vector<Rational>, Expr>> varying;
  Substitution whole;
  for (Sym g : tiles) whole.emplace_back(g, problem.size.at(g));
  c.compulsory = expand(substitute(problem.transfers.expr(), whole));
  for (const auto& term : h.terms) {
    if (is_zero(term.first))
      c.constant = c.constant + term.second;
    else
      varying.push_back(term);
  }
  if (const auto sum = laurent(c.constant)) c.constant = sum->factored();
  if (varying.empty()) {
    c.alpha = 0;
    c.beta = Rational(0);
    c.formula = c.constant;
    return c;
  }
  std::vector<std::pair<std::vector<Rational>, Expr>> held;
  for (const Laurent& column : *columns_left) {
    std::vector<std::pair<std::vector<Rational>, Expr>> here;
    for (const auto& term : grouped(column, tiles).terms) {
      if (!is_zero(term.first))
        here.push_back(term);
      else if (!leading_terms)
        return none("part of the memory does not depend on the tiles");
    }
    if (held.empty()) {
      held = here;
    } else if (held.size() == 1 && here.size() == 1 && held[0].first == here[0].first) {
      held[0].second = simplify(max(held[0].second, here[0].second));  // the larger one counts
    } else if (!here.empty()) {
      return none("two sets of tiles compete for the largest place, so the memory is a maximum");
    }
  }
  if (held.empty()) return none("the memory does not depend on the tiles that save transfers");

  // The dual: Σ δ = 1; for every tile Σ δ e + Σ γ f = 0.
  const size_t unknowns = varying.size() + held.size();
  std::vector<std::vector<Rational>> a(1, std::vector<Rational>(unknowns, Rational(0)));
  std::vector<Rational> b{Rational(1)};
  for (size_t t = 0; t < varying.size(); ++t) a[0][t] = Rational(1);
  for (size_t v = 0; v < tiles.size(); ++v) {
    std::vector<Rational> row;
    for (const auto& term : varying) row.push_back(term.first[v]);
    for (const auto& term : held) row.push_back(term.first[v]);
    a.push_back(row);
    b.emplace_back(0);
  }
  const auto dual = solve(a, b);
  if (!dual)
    return none(
        fmt::format("{} terms of transfers and {} of memory over {} tiles: the dual has no single solution",
                    varying.size(), held.size(), tiles.size()));
  for (const Rational& x : *dual)
    if (!(x > Rational(0))) return none("a tile is best at its bound whatever the memory is");
  Rational lambda(0);
  for (size_t k = 0; k < held.size(); ++k) lambda = lambda + (*dual)[varying.size() + k];
  Expr alpha = 1;
  for (size_t t = 0; t < varying.size(); ++t)
    alpha = alpha * power(varying[t].second / Expr((*dual)[t]), (*dual)[t]);
  for (size_t k = 0; k < held.size(); ++k) {
    const Rational gamma = (*dual)[varying.size() + k];
    alpha = alpha * power(held[k].second * Expr(lambda / gamma), gamma);
  }
  c.alpha = simplify(alpha);
  c.beta = lambda;
  c.formula = simplify(c.constant + c.alpha * power(Expr(c.memory), -lambda));

  // At the optimum term t is δ_t of what varies, and column term k is γ_k/λ of M.
  std::vector<LogRow> rows;
  for (size_t t = 0; t < varying.size(); ++t)
    rows.push_back({varying[t].first, simplify(Expr((*dual)[t]) * c.alpha / varying[t].second), -lambda});
  for (size_t k = 0; k < held.size(); ++k)
    rows.push_back(
        {held[k].first, simplify(Expr((*dual)[varying.size() + k] / lambda) / held[k].second), Rational(1)});
  reduce_rows(rows, tiles.size());
  for (const LogRow& row : rows) {
    if (is_zero(row.exponents)) continue;
    const Expr best = simplify(row.coefficient * power(Expr(c.memory), row.power));
    Expr product = 1, most = 1;
    int involved = 0;
    for (size_t v = 0; v < tiles.size(); ++v) {
      if (row.exponents[v] == Rational(0)) continue;
      ++involved;
      product = product * power(Expr(tiles[v]), row.exponents[v]);
      most = most * power(problem.size.at(tiles[v]), row.exponents[v]);
    }
    product = simplify(product);
    if (involved == 1)
      c.tiles.emplace_back(product->sym, best);
    else
      c.products.emplace_back(product, best);
    if (row.power > Rational(0))
      c.valid.emplace_back(product,
                           simplify(power(simplify(most / row.coefficient), Rational(1) / row.power)));
  }
  return c;
}

namespace {

/// A sum in numbers over some symbols, for logarithmic steps.
struct NumberSum {
  std::vector<double> coefficient;
  std::vector<std::vector<double>> exponents;
  double value(const std::vector<double>& log_tiles) const {
    double sum = 0;
    for (size_t t = 0; t < coefficient.size(); ++t) {
      double e = 0;
      for (size_t v = 0; v < log_tiles.size(); ++v) e += exponents[t][v] * log_tiles[v];
      sum += coefficient[t] * std::exp(e);
    }
    return sum;
  }
};

NumberSum numbers(const Laurent& sum, const std::vector<Sym>& over, const Bindings& values) {
  NumberSum n;
  for (const auto& [powers, coefficient] : sum.terms) {
    double c = coefficient.value();
    std::vector<double> exponents(over.size(), 0);
    for (const auto& [sym, p] : powers) {
      const auto at = std::find(over.begin(), over.end(), sym);
      if (at == over.end())
        c *= std::pow(values.at(sym), p.value());
      else
        exponents[size_t(at - over.begin())] = p.value();
    }
    n.coefficient.push_back(c);
    n.exponents.push_back(exponents);
  }
  return n;
}

}  // namespace

double least_transfers(const TileProblem& problem, const Bindings& given, double memory,
                       std::map<Sym, double>* best) {
  Bindings values = given;
  for (Sym s : problem.least) values[s] = 1;
  const std::vector<Sym>& tiles = problem.tiles;
  const NumberSum h = numbers(problem.transfers, tiles, values);
  std::vector<NumberSum> columns;
  for (const Laurent& column : problem.memory) columns.push_back(numbers(column, tiles, values));
  const size_t n = tiles.size();
  std::vector<double> high, x(n, 0.0);
  for (Sym g : tiles) high.push_back(std::log(std::max(1.0, evaluate(problem.size.at(g), values))));
  auto used = [&](const std::vector<double>& at) {
    double most = 0;
    for (const NumberSum& column : columns) most = std::max(most, column.value(at));
    return most;
  };
  auto finish = [&](const std::vector<double>& at) {
    if (best)
      for (size_t v = 0; v < n; ++v) (*best)[tiles[v]] = std::exp(at[v]);
    return h.value(at);
  };
  if (used(x) > memory) return __builtin_inf();
  if (used(high) <= memory || n == 0) return finish(high);
  // H falls and the memory grows with every tile, so the memory is full at the optimum: all tiles but the last are chosen, the last fills what is left.
  auto fill = [&](std::vector<double>& at) {
    double lo = 0, hi = high[n - 1];
    at[n - 1] = hi;
    if (used(at) <= memory) return true;
    at[n - 1] = lo;
    if (used(at) > memory) return false;
    for (int k = 0; k < 60; ++k) {
      at[n - 1] = (lo + hi) / 2;
      (used(at) <= memory ? lo : hi) = at[n - 1];
    }
    at[n - 1] = lo;
    return true;
  };
  // In logarithms the problem is convex: the least over one tile, of the least over the others, is found by ternary search.
  std::vector<double> at(n, 0.0);
  const std::function<double(size_t)> least = [&](size_t v) -> double {
    if (v + 1 >= n) return fill(at) ? h.value(at) : __builtin_inf();
    double lo = 0, hi = high[v];
    for (int k = 0; k < (n > 2 ? 50 : 100); ++k) {
      const double left = lo + (hi - lo) / 3, right = hi - (hi - lo) / 3;
      at[v] = left;
      const double l = least(v + 1);
      at[v] = right;
      const double r = least(v + 1);
      if (l <= r)  // also where both do not fit
        hi = right;
      else
        lo = left;
    }
    at[v] = lo;
    return least(v + 1);
  };
  least(0);
  return finish(at);
}

double gain_of_widths(const Canonical& c, const Bindings& sizes, const Bindings& before,
                      const Bindings& after) {
  Bindings a = sizes, b = sizes;
  for (const auto& [s, v] : before) a[s] = v;
  for (const auto& [s, v] : after) b[s] = v;
  return evaluate(c.alpha, a) / evaluate(c.alpha, b);
}

double cluster_seconds(double at_m, double at_nm, double bandwidth, double cross) {
  return (1 / bandwidth - 1 / cross) * at_nm + at_m / cross;
}

double cluster_saving(double at_m, double at_nm, double bandwidth, double cross) {
  return 1 - cluster_seconds(at_m, at_nm, bandwidth, cross) / (at_m / bandwidth);
}

std::vector<BalancePoint> balance(const Canonical& c, Expr operations, const Bindings& widths,
                                  double bytes_per_operation) {
  std::vector<BalancePoint> all;
  Substitution numbers;
  for (const auto& [sym, value] : widths)
    if (value == std::floor(value)) numbers.emplace_back(sym, Expr(int64_t(value)));
  const Expr k = expand(substitute(operations, numbers));
  // Terms that are one with numbers for widths and literal sizes count together; a formula that is a single term is shown with its symbols.
  std::vector<std::pair<Expr, Expr>> terms;  // in numbers; as shown, over operations
  const auto add = [&](Expr term) {
    const Expr in_numbers = expand(substitute(term, numbers));
    const bool single = !term.is(Op::Add) && !in_numbers.is(Op::Add);
    for (Expr part : in_numbers.is(Op::Add) ? in_numbers.args() : std::vector<Expr>{in_numbers}) {
      const Expr ratio = simplify(part / k), shown = simplify(term / operations);
      const bool simple =
          single && !shown.is(Op::Add) && std::none_of(shown.args().begin(), shown.args().end(), [](Expr f) {
            return f.is(Op::Add) || (f.is(Op::Pow) && f.arg(0).is(Op::Add));
          });
      terms.emplace_back(ratio, simple ? shown : ratio);
    }
  };
  add(c.constant);
  if (!c.alpha.is_constant(0)) add(c.alpha * power(Expr(c.memory), -c.beta));
  for (const auto& [ratio, shown] : terms) {
    BalancePoint x{shown, {}, 0};
    std::vector<Sym> unknown;
    for (Sym s : free_symbols(ratio))
      if (!widths.count(s)) unknown.push_back(s);
    if (unknown.size() != 1) continue;
    x.symbol = unknown[0];
    // ratio = k·symbol^(−p), from two values.
    Bindings at = widths;
    at[x.symbol] = 1;
    const double one = evaluate(ratio, at);
    at[x.symbol] = 4;
    const double four = evaluate(ratio, at);
    at[x.symbol] = 16;
    if (!(one > 0) || !(four < one) || std::fabs(evaluate(ratio, at) * one / (four * four) - 1) > 1e-9)
      continue;
    const double p = std::log(one / four) / std::log(4.0);
    x.value = std::pow(one / bytes_per_operation, 1 / p);
    all.push_back(x);
  }
  return all;
}

}  // namespace tilewright
