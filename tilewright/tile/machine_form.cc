#include "tilewright/tile/machine_form.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tilewright/expr/simplify.h"
#include "tilewright/program/compared.h"
#include "tilewright/tile/statements.h"

namespace tilewright {

bool is_true(Expr condition) {
  if (condition.is(Op::And)) return condition.args().empty();
  return condition.number() && *condition.number() != 0;
}
Expr truth() { return make(Op::And, {}); }
Expr conjunction(Expr a, Expr b) {
  if (is_true(a)) return b;
  if (is_true(b)) return a;
  return simplify(logical_and(a, b));
}

bool is_scalar(Expr e) {
  for (Sym s : free_symbols(e))
    if (s.kind() != SymbolKind::Size && s.kind() != SymbolKind::Param) return false;
  return tensors_read(e).empty() && !e.is(Op::Reduce);
}

namespace {

std::vector<Expr> arguments(Expr e, Op op) { return e.is(op) ? e.args() : std::vector<Expr>{e}; }

Expr multiply(Expr a, Expr b) {
  if (!a || a.is_constant(1)) return b;
  if (!b || b.is_constant(1)) return a;
  return a * b;
}

/// A numeric factor with its sign split off: (|c|, negative).
std::pair<Expr, bool> magnitude(Expr c) {
  if (auto x = c.number(); x && *x < 0) {
    if (auto q = c.rational()) return {Expr(-*q), true};
    return {Expr::real(-*x), true};
  }
  return {c, false};
}

struct CommonScale {
  Expr scale;               ///< positive
  std::vector<Expr> terms;  ///< each with coefficient 1 or -1
};

/// Σ terms = scale · Σ (±rest) where all scalar factors agree up to sign.
std::optional<CommonScale> common_scale(const std::vector<Expr>& terms) {
  CommonScale common;
  for (Expr t : terms) {
    std::vector<Expr> scalars, rest;
    bool minus = false;
    for (Expr f : arguments(t, Op::Mul)) {
      if (!is_scalar(f)) {
        rest.push_back(f);
        continue;
      }
      auto [size, negative] = magnitude(f);
      minus = minus != negative;
      if (!size.is_constant(1)) scalars.push_back(size);
    }
    if (rest.empty()) return {};
    Expr scale = scalars.empty() ? Expr(1) : simplify(make(Op::Mul, scalars));
    if (common.scale && common.scale != scale) return {};
    common.scale = scale;
    common.terms.push_back(simplify(minus ? -make(Op::Mul, rest) : make(Op::Mul, rest)));
  }
  return common;
}

/// count·of: an integer without reads, and the rest of a product, whose sign is in the integer.
struct Multiple {
  Expr count, of;
};

std::optional<Multiple> integer_multiple(Expr term) {
  if (!term.is(Op::Mul)) return {};
  std::vector<Expr> count, of;
  bool minus = false;
  for (Expr f : term.args()) {
    if (is_integer(f)) {
      count.push_back(f);
      continue;
    }
    auto [size, negative] = magnitude(f);
    minus = minus != negative;
    if (!size.is_constant(1)) of.push_back(size);
  }
  if (count.empty() || of.empty()) return {};
  const Expr n = simplify(make(Op::Mul, count));
  if (!tensors_read(n).empty()) return {};
  return Multiple{minus ? simplify(-n) : n, simplify(make(Op::Mul, of))};
}

bool of_indices(Expr e) {
  for (Sym s : free_symbols(e))
    if (s.kind() == SymbolKind::Index) return true;
  return false;
}

/// j·r − i·r as (j − i)·r: the difference of indices is exact, and that of two large products is not.
std::vector<Expr> with_differences(const std::vector<Expr>& terms) {
  std::vector<Expr> kept;
  std::vector<std::pair<Expr, std::vector<Expr>>> groups;  // what is multiplied, and how often
  std::map<Expr, size_t> group_of;
  for (Expr t : terms) {
    const std::optional<Multiple> m = integer_multiple(t);
    if (!m) continue;
    const auto [at, fresh] = group_of.emplace(m->of, groups.size());
    if (fresh) groups.push_back({m->of, {}});
    groups[at->second].second.push_back(m->count);
  }
  const auto joined = [&](Expr of) {
    const std::vector<Expr>& counts = groups[group_of.at(of)].second;
    return std::count_if(counts.begin(), counts.end(), of_indices) >= 2;
  };
  for (Expr t : terms) {
    const std::optional<Multiple> m = integer_multiple(t);
    if (!m || !joined(m->of)) kept.push_back(t);
  }
  for (const auto& [of, counts] : groups)
    if (joined(of)) kept.push_back(make(Op::Mul, {simplify(make(Op::Add, counts)), of}));
  return kept;
}

}  // namespace

Expr MachineForm::operator()(Expr e, const std::vector<Sym>& domain) {
  domain_ = domain;
  done_.clear();
  return convert(e);
}

Expr MachineForm::scalar(Expr e) {
  if (e.is(Op::Symbol) || e.number()) return e;
  if (free_symbols(e).empty()) return Expr::real(evaluate(e, {}));
  for (const HostScalar& s : scalars_)
    if (s.value == e) return s.sym;
  std::string name = fmt::format("c{}", scalars_.size() + 1);
  Sym sym = Sym::fresh({.name = name, .kind = SymbolKind::Variable, .positive = provably_positive(e)});
  scalars_.push_back({sym, e});
  return sym;
}

bool MachineForm::fewer_axes(Expr e) const { return axes_of_(e).size() < domain_.size(); }

Expr MachineForm::convert(Expr e) {
  if (auto it = done_.find(e); it != done_.end()) return it->second;
  Expr result = e;
  if (e.args().empty() || e.is(Op::Read)) {
    result = e;
  } else if (is_integer(e) && !e.is(Op::Cast)) {
    std::vector<Expr> args;
    for (Expr a : e.args()) args.push_back(convert(a));
    result = with_args(e, args);
  } else if (is_scalar(e) && !is_boolean(e)) {
    result = scalar(e);
  } else {
    switch (e.op()) {
      case Op::Cast:
        // Beside f32, to f64 changes no value; what it keeps together is a node of its own from here on.
        if (is_whole(e))
          result = e->dtype == DType::f64 && real_() != DType::f64 ? convert(e.arg(0)) : whole_value(e);
        else
          result = with_args(e, {convert(e.arg(0))});
        break;
      case Op::Mul: result = product(e); break;
      case Op::Add: result = sum(e.args()); break;
      case Op::Exp: result = exponential(e.arg(0)); break;
      case Op::Pow:
        if (auto q = e.arg(1).rational()) {
          result = power(e.arg(0), *q);
          break;
        }
        [[fallthrough]];
      default: {
        std::vector<Expr> args;
        for (Expr a : e.args()) args.push_back(convert(a));
        result = with_args(e, args);
      }
    }
  }
  return done_[e] = result;
}

Expr MachineForm::whole_value(Expr e) {
  std::map<Expr, Expr> done;
  std::vector<Sym> domain = axes_of_(e);
  bool whole = true;
  const auto exchange = [&] {
    std::swap(done, done_);
    std::swap(domain, domain_);
    std::swap(whole, whole_);
  };
  exchange();
  const Expr value = convert(e.arg(0));
  exchange();
  return value.is(Op::Cast) && value->dtype == e->dtype ? value : cast(e->dtype, value);
}

Expr MachineForm::power(Expr base, Rational q) {
  Expr x = convert(base);
  if (q == Rational(1, 2)) return sqrt(x);
  if (q == Rational(-1, 2)) return make(Op::Rsqrt, {x});
  if (q.is_integer() && std::abs(q.num()) <= 4 && q.num() != 0) {
    Expr p = x;
    for (int64_t n = std::abs(q.num()); n > 1; --n) p = p * x;
    return q.num() < 0 ? Expr(1) / p : p;
  }
  return pow(x, q);
}

Expr MachineForm::product(Expr e) {
  // (what varies along fewer axes, the coefficient among it) · (the rest): the first is computed once for
  // each of its own elements.
  Expr coefficient, row, row_under, over, under;
  // Where it is done seldom, a division by a number is done as one: it rounds once.
  auto divides = [&](Expr f) { return f.is(Op::Pow) && f.arg(1).is_constant(-1) && is_integer(f.arg(0)); };
  const bool seldom = !whole_ && !often_(domain_);
  const auto is_row = [&](Expr f) { return !whole_ && fewer_axes(f); };
  Expr divisor;
  for (Expr f : e.args()) {
    if (auto q = f.rational(); q && seldom && !q->is_integer()) {
      if (q->num() != 1) coefficient = multiply(coefficient, Expr(q->num()));
      divisor = multiply(divisor, Expr(q->den()));
    } else if (is_scalar(f) && seldom && divides(f)) {
      divisor = multiply(divisor, f.arg(0));
    } else if (is_scalar(f)) {
      coefficient = multiply(coefficient, f);
    } else if (f.is(Op::Pow) && f.arg(1).rational() && f.arg(1).rational()->num() < 0 &&
               f.arg(1).rational()->is_integer()) {
      Expr& side = is_row(f) ? row_under : under;
      side = multiply(side, power(f.arg(0), -*f.arg(1).rational()));
    } else {
      Expr& side = is_row(f) ? row : over;
      side = multiply(side, convert(f));
    }
  }
  if (coefficient) {
    Expr c = scalar(simplify(coefficient));
    Expr& side = row || row_under || !over ? row : over;
    side = multiply(side, c);
  }
  if (divisor) {
    Expr& side = row || row_under ? row_under : under;
    side = multiply(side, scalar(simplify(divisor)));
  }
  if (row_under) row = (row ? row : Expr(1)) / row_under;
  Expr result = multiply(over, row);
  if (under) result = (result ? result : Expr(1)) / under;
  return result;
}

Expr MachineForm::sum(const std::vector<Expr>& terms) {
  Expr total, constant;
  std::vector<Expr> minus;
  std::vector<Expr> ordered =
      with_differences(terms);  // sums kept together come first: they are not to be taken apart as text
  std::stable_partition(ordered.begin(), ordered.end(), [](Expr t) { return t.is(Op::Cast); });
  for (Expr t : ordered) {
    if (is_scalar(t)) {
      constant = constant ? constant + t : t;
      continue;
    }
    // The sign of a term is that of its numeric coefficient.
    Expr positive = t;
    bool negative = false;
    if (t.is(Op::Mul)) {
      std::vector<Expr> factors = t.args();
      auto [size, is_negative] = magnitude(factors[0]);
      if (is_negative) {
        negative = true;
        factors[0] = size;
        if (size.is_constant(1)) factors.erase(factors.begin());
        positive = factors.size() == 1 ? factors[0] : make(Op::Mul, factors);
      }
    }
    Expr x = convert(positive);
    if (negative)
      minus.push_back(x);
    else
      total = total ? total + x : x;
  }
  if (constant) {
    auto [size, negative] = magnitude(scalar(simplify(constant)));
    if (negative && total)
      minus.push_back(size);
    else if (negative)
      total = scalar(simplify(constant));
    else if (!size.is_constant(0))
      total = total ? total + size : size;
  }
  if (!total && minus.size() == 1) return -minus[0];
  if (!total) {
    Expr all = minus[0];
    for (size_t i = 1; i < minus.size(); ++i) all = all + minus[i];
    return -all;
  }
  for (Expr m : minus) total = total - m;
  return total;
}

Expr MachineForm::exponential(Expr a) {
  const Expr to_binary = pow(log(2), -1);
  if (a.is(Op::Add))
    if (auto common = common_scale(a.args())) {
      const Expr scale = simplify(common->scale * to_binary), difference = sum(common->terms);
      return exp2(scale.is_constant(1) ? difference : difference * scalar(scale));
    }
  // What varies along fewer axes may be the maximum of the rest, which is therefore summed as it was for the maximum, and
  // the difference is taken before it is scaled.
  std::vector<Expr> varying, scaled, row;
  for (Expr t : arguments(a, Op::Add)) {
    const bool fewer = !is_scalar(t) && fewer_axes(t);
    (fewer ? row : varying).push_back(fewer ? simplify(-t) : t);
  }
  if (!row.empty() && !varying.empty()) return exp2((sum(varying) - sum(row)) * scalar(to_binary));
  for (Expr t : arguments(a, Op::Add)) scaled.push_back(simplify(t * to_binary));
  return exp2(sum(scaled));
}

}  // namespace tilewright
