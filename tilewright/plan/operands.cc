// Operands of contractions that every block of an axis would make again: x·γ/rms for each block of columns, normalised keys for each block of queries. Made once by a
// kernel of their own, they are stored in the 16 bits that matrix units multiply, so that the contraction reads both factors as they lie in memory.
//
// What fits the range of the type is rounded to it. Otherwise each row along the contracted axes is scaled so that its elements reach up to 2^15, and what is summed is
// divided by the row's factor: Σ F·W = Σ h·W / s with s = 2^15 / max |F|, h = F·s. Where part of F has a known bound (a normalised row), the bound times the largest of
// the other factors (of γ) stands for the maximum. Infinities and NaN stay what they are.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "tilewright/expr/simplify.h"
#include "tilewright/plan/axes.h"
#include "tilewright/plan/partitioner.h"

namespace tilewright::parts {
namespace {

bool varies(Expr e, const std::vector<Sym>& axes) {
  return std::any_of(axes.begin(), axes.end(), [&](Sym s) { return depends_on(e, s); });
}

std::vector<Sym> indices_of(Expr e) {
  std::vector<Sym> axes;
  for (Sym s : free_symbols(e))
    if (s.kind() == SymbolKind::Index) axes.push_back(s);
  return axes;
}

void add_factors(Expr e, std::vector<Expr>& out) {
  if (e.is(Op::Mul)) {
    for (Expr a : e.args()) add_factors(a, out);
  } else if (e.is(Op::Div)) {
    add_factors(e.arg(0), out);
    if (!e.arg(1).is_constant(1)) out.push_back(Expr(1) / e.arg(1));
  } else if (!e.is_constant(1)) {
    out.push_back(e);
  }
}
std::vector<Expr> factors_of(Expr e) {
  std::vector<Expr> all;
  add_factors(e, all);
  return all;
}
Expr product_of(const std::vector<Expr>& factors) {
  Expr p = factors.at(0);
  for (size_t k = 1; k < factors.size(); ++k)
    p = factors[k].is(Op::Div) && factors[k].arg(0).is_constant(1) ? p / factors[k].arg(1) : p * factors[k];
  return p;
}

bool is_sixteen_bits(DType t) { return t == DType::f16 || t == DType::bf16; }

/// Every value of `e` (all definitions inlined) has a nearest number of `t`: its range is known to fit, or it is rounded to eight bits already.
bool fits(Expr e, DType t) {
  if (t == DType::bf16 || (e.is(Op::Cast) && bytes(e->dtype) == 1)) return true;
  const Interval range = bounds(simplify(e));
  constexpr double largest = 65504;
  return range.lo >= -largest && range.hi <= largest;
}

/// A bound of the magnitude of `e` (all definitions inlined) along the axes `summed`: known for the factors that have all of `rows`, times the largest of the others.
/// Null where that is not known.
Expr bound_by_factors(Expr e, const std::vector<Sym>& rows, const std::vector<Sym>& summed) {
  std::vector<Expr> known, others;
  for (Expr f : factors_of(e)) {
    const bool all = std::all_of(rows.begin(), rows.end(), [&](Sym s) { return depends_on(f, s); });
    (all ? known : others).push_back(f);
  }
  if (known.empty() || others.empty()) return {};
  const Interval range = bounds(simplify(product_of(known)));
  const double most = std::max(-range.lo, range.hi);
  if (!std::isfinite(most)) return {};
  const Expr rest = make(Op::Abs, {product_of(others)});
  std::vector<Sym> along;
  for (Sym s : summed)
    if (depends_on(rest, s)) along.push_back(s);
  return Expr::real(most) * (along.empty() ? rest : reduce(Reducer::Max, along, rest));
}

}  // namespace

Expr Partitioner::inlined(Expr e) const {
  return rewrite(e, [&](Expr x) {
    const Definition* d = x.is(Op::Read) && !stored_.count(x->sym) ? p_.definition(x->sym) : nullptr;
    if (d == nullptr) return x;
    Substitution at;
    for (size_t k = 0; k < d->axes.size(); ++k)
      if (x.arg(k) != Expr(d->axes[k])) at.emplace_back(d->axes[k], x.arg(k));
    const Expr value = inlined(at.empty() ? d->value : substitute(d->value, at));
    return d->dtype ? cast(*d->dtype, value) : value;
  });
}

/// The type of an array that is read as it is; nullopt for what is computed.
std::optional<DType> Partitioner::array_type(Expr e) const {
  if (!e.is(Op::Read)) return {};
  if (const Input* in = p_.input(e->sym)) return in->dtype;
  const Definition* d = p_.definition(e->sym);
  return d != nullptr && stored_.count(e->sym) ? std::optional(d->dtype.value_or(DType::f32)) : std::nullopt;
}

/// The type of 16 bits that all arrays among the factors of a sum have which have no more; nullopt where there is none.
std::optional<DType> Partitioner::operand_type(Expr sum) const {
  std::optional<DType> type;
  for (Expr f : factors_of(inlined(sum.arg(0)))) {
    const std::optional<DType> t = varies(f, sum->bound) ? array_type(f) : std::nullopt;
    if (!t || !is_float(*t) || bytes(*t) > 2) continue;
    if (!is_sixteen_bits(*t) || (type && type != t)) return {};
    type = t;
  }
  return type;
}

/// What a kernel would make again of the factors of `sum` for each block of `axis`: those that lack it, if they are more than an array and a number.
std::optional<Operand> Partitioner::operand(Sym home, Expr sum, Sym axis, DType type) const {
  const auto has = [&](Expr e) {
    const std::vector<Sym> all = indices_of(e);
    return std::any_of(all.begin(), all.end(), [&](Sym s) { return s.size() == axis.size(); });
  };
  Operand found{home, sum, {}, {}, type};
  std::vector<Expr> side;
  for (Expr f : factors_of(sum.arg(0))) (has(f) || indices_of(f).empty() ? found.rest : side).push_back(f);
  const auto varying = [&](const std::vector<Expr>& factors) {
    return std::any_of(factors.begin(), factors.end(), [&](Expr f) { return varies(f, sum->bound); });
  };
  if (!varying(side) || !varying(found.rest)) return {};
  found.value = product_of(side);
  if (is_fused_by_force(found.value.is(Op::Read) ? found.value->sym : home)) return {};
  // What is made: more than one array along the summed axes, what is computed from one, or a reduction.
  const Expr whole = inlined(found.value);
  bool reduces = false, again = true;
  std::set<Expr> seen;
  each_node(whole, seen, [&](Expr x) {
    if (!x.is(Op::Reduce)) return;
    reduces = true;
    again = again &&
            std::none_of(x->bound.begin(), x->bound.end(), [&](Sym s) { return s.size() == axis.size(); });
  });
  std::vector<Expr> along;
  for (Expr f : factors_of(whole))
    if (varies(f, sum->bound)) along.push_back(f);
  const bool is_array = along.size() == 1 && along[0].is(Op::Read) &&
                        (array_type(along[0]) == type || p_.input(along[0]->sym) != nullptr);
  if (!again || (is_array && !reduces)) return {};
  // Each of its axes is declared, once.
  std::set<Sym> axes;
  for (Sym s : indices_of(found.value)) {
    const bool declared = std::any_of(p_.axes.begin(), p_.axes.end(),
                                      [&](const Axis& a) { return a.index.size() == s.size(); });
    if (!declared || !axes.insert(s.size()).second) return {};
  }
  return found;
}

std::vector<Operand> Partitioner::operands(const std::vector<Sym>& sinks, Sym stream) const {
  std::vector<Operand> found;
  if (!shared_->sixteen_bits) return found;
  for (Sym s : computed(sinks)) {
    std::set<Expr> seen;
    each_node(p_.definition(s)->value, seen, [&](Expr e) {
      if (!e.is(Op::Reduce) || e->reducer != Reducer::Sum) return;
      const std::optional<DType> type = operand_type(e);
      if (!type) return;
      for (Sym sink : sinks)
        for (Sym a : p_.tensor_axes(sink)) {
          if (whole(a) || (stream && a.size() == stream.size())) continue;
          const std::optional<Operand> o = operand(s, e, a, *type);
          const bool known = o && std::any_of(found.begin(), found.end(), [&](const Operand& x) {
                               return x.home == o->home && x.sum == o->sum && x.value == o->value;
                             });
          if (o && !known) found.push_back(*o);
        }
    });
  }
  return found;
}

/// The axes of what is stored, declared ones: in the order of an array that has them all, so that it is read and written along the same one.
std::vector<Sym> Partitioner::order_of(Expr value) const {
  std::set<Sym> sizes;
  for (Sym s : indices_of(value)) sizes.insert(s.size());
  const auto declared = [&](Sym size) {
    return std::find_if(p_.axes.begin(), p_.axes.end(), [&](const Axis& a) { return a.index.size() == size; })
        ->index;
  };
  std::vector<Sym> order;
  std::set<Expr> seen;
  each_node(inlined(value), seen, [&](Expr x) {
    if (!order.empty() || !x.is(Op::Read) || x.args().size() != sizes.size()) return;
    std::set<Sym> of_read;
    for (Expr a : x.args())
      if (a.is(Op::Symbol) && a->sym.kind() == SymbolKind::Index) of_read.insert(a->sym.size());
    if (of_read != sizes) return;
    for (Expr a : x.args()) order.push_back(declared(a->sym.size()));
  });
  if (order.empty())
    for (const Axis& a : p_.axes)
      if (sizes.count(a.index.size())) order.push_back(a.index);
  return order;
}

Sym Partitioner::define_before(Sym home, const std::string& wish, const std::vector<Sym>& axes,
                               std::optional<DType> type, Expr value) {
  SymbolInfo info;
  info.kind = SymbolKind::Tensor;
  info.name = unique_name(wish, names_of(p_));
  const Sym sym = Sym::fresh(info);
  const auto at = std::find_if(p_.definitions.begin(), p_.definitions.end(),
                               [&](const Definition& d) { return d.sym == home; });
  const Span span = at->span;
  p_.definitions.insert(at, Definition{sym, axes, type, value, span});
  return sym;
}

std::vector<Sym> Partitioner::store_operand(const std::vector<Operand>& readers) {
  const auto at = [&](Sym s) {
    return std::find_if(p_.definitions.begin(), p_.definitions.end(),
                        [&](const Definition& d) { return d.sym == s; });
  };
  const Operand& o =
      *std::min_element(readers.begin(), readers.end(),
                        [&](const Operand& a, const Operand& b) { return at(a.home) < at(b.home); });
  const std::vector<Sym> axes = order_of(o.value);
  const std::vector<Sym> here = indices_of(o.value);
  const auto is_summed = [&](Sym a) {
    return std::any_of(o.sum->bound.begin(), o.sum->bound.end(), [&](Sym s) { return s.size() == a.size(); });
  };
  /// Indices along `axes` as `all` has them.
  const auto named_in = [](const std::vector<Sym>& along, const std::vector<Sym>& all) {
    std::vector<Expr> found;
    for (Sym a : along)
      found.emplace_back(*std::find_if(all.begin(), all.end(), [&](Sym x) { return x.size() == a.size(); }));
    return found;
  };
  std::vector<Sym> rows, summed;
  Substitution renamed;
  for (Sym a : axes) {
    (is_summed(a) ? summed : rows).push_back(a);
    for (Sym s : here)
      if (s.size() == a.size() && s != a) renamed.emplace_back(s, Expr(a));
  }
  Expr value = renamed.empty() ? o.value : substitute(o.value, renamed);
  const bool named = value.is(Op::Read) && value.args() == named_in(axes, axes) && p_.definition(value->sym);
  const std::string name = named ? value->sym.name() : o.home.name() + "_1";
  const std::string narrow = fmt::format("{}_{}", name, tilewright::name(o.type));
  Sym factor, stored;
  std::vector<Sym> made;
  if (fits(inlined(value), o.type)) {
    stored = define_before(o.home, narrow, axes, o.type, value);
    made = {stored};
  } else {
    Expr most = bound_by_factors(inlined(value), rows, summed);
    if (!named) value = read(define_before(o.home, name, axes, {}, value), named_in(axes, axes));
    if (!most) most = reduce(Reducer::Max, summed, make(Op::Abs, {value}));
    // Neither 0 nor an infinity as the largest element makes a factor that is one.
    const Expr scale = min(max(Expr(32768) / most, Expr::real(1e-34)), Expr::real(1e30));
    factor = define_before(o.home, name + "_scale", rows, {}, scale);
    stored = define_before(o.home, narrow, axes, o.type, value * read(factor, named_in(rows, axes)));
    made = {factor, stored};
  }
  for (Sym s : made) store(s);
  for (const Operand& reader : readers) {
    const std::vector<Sym> own = indices_of(reader.value);
    std::vector<Expr> factors = reader.rest;
    factors.push_back(read(stored, named_in(axes, own)));
    Expr sum = reduce(Reducer::Sum, reader.sum->bound, product_of(factors));
    if (factor) sum = sum / read(factor, named_in(rows, own));
    if (const Span span = p_.span_of(reader.sum)) p_.spans.emplace(sum, span);
    const auto home = at(reader.home);
    home->value = rewrite(home->value, [&](Expr x) { return x == reader.sum ? sum : x; });
    changed_.insert(reader.home);
  }
  return made;
}

}  // namespace tilewright::parts
