#include "tilewright/derive/expressions.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <unordered_map>

#include "tilewright/program/compared.h"

namespace tilewright::derivation {

Expr truth() { return Expr(1); }
bool is_true(Expr e) { return e.number() && *e.number() != 0; }
bool is_false(Expr e) { return e.number() && *e.number() == 0; }
Expr conjunction(Expr a, Expr b) {
  if (is_true(a)) return b;
  if (is_true(b) || a == b) return a;
  return simplify(logical_and(a, b));
}
Expr negation(Expr a) { return simplify(logical_not(a)); }
Expr minus_infinity() { return Expr::real(-INFINITY); }

std::vector<Expr> factors_of(Expr e) { return e.is(Op::Mul) ? e.args() : std::vector<Expr>{e}; }
std::vector<Expr> addends_of(Expr e) { return e.is(Op::Add) ? e.args() : std::vector<Expr>{e}; }
Expr product_of(const std::vector<Expr>& factors) {
  if (factors.empty()) return 1;
  return factors.size() == 1 ? simplify(factors[0]) : simplify(make(Op::Mul, factors));
}
Expr sum_of(const std::vector<Expr>& addends) {
  if (addends.empty()) return 0;
  return addends.size() == 1 ? simplify(addends[0]) : simplify(make(Op::Add, addends));
}

Expr with_plain_zero_tests(Expr e) {
  bool changed = false;
  Expr out = rewrite(e, [&](Expr x) {
    if ((!x.is(Op::Eq) && !x.is(Op::Ne)) || !x.arg(1).is_constant(0)) return x;
    std::vector<Expr> kept;
    for (Expr f : factors_of(x.arg(0)))
      if (!f.is(Op::Exp)) kept.push_back(f);
    if (kept.empty() || kept.size() == factors_of(x.arg(0)).size()) return x;
    changed = true;
    return make(x.op(), {product_of(kept), 0});
  });
  return changed ? simplify(out) : e;
}

Expr with_decided_guards(Expr e) {
  bool changed = false;
  Expr out = rewrite(e, [&](Expr x) {
    if ((!x.is(Op::Eq) && !x.is(Op::Ne)) || x.arg(1) != minus_infinity()) return x;
    if (bounds(x.arg(0)).lo == -INFINITY) return x;
    changed = true;
    return Expr(x.is(Op::Ne));
  });
  return changed ? simplify(out) : e;
}

size_t complexity(Expr e) {
  constexpr size_t most = size_t(1) << 40;
  std::unordered_map<const Node*, size_t> known;
  std::function<size_t(Expr)> count = [&](Expr x) {
    if (x.args().empty()) return size_t(1);
    if (auto it = known.find(x.get()); it != known.end()) return it->second;
    size_t n = 1;
    for (Expr a : x.args()) n = std::min(most, n + count(a));
    known.emplace(x.get(), n);
    return n;
  };
  return count(e);
}

namespace {

bool leads_negative(Expr e) {
  auto n = factors_of(e)[0].number();
  return n && *n < 0;
}

/// scale · sum, scale > 0, where the first term of the sum that is neither a number nor 0 times something has the coefficient ±1.
std::pair<Rational, Expr> monic_sum(Expr e) {
  for (Expr a : e.args()) {
    if (a.number()) continue;
    auto q = factors_of(a)[0].rational();
    if (q && *q == Rational(0)) continue;  // 0 · x is kept where x may not be finite
    if (!q || *q == Rational(1) || *q == Rational(-1)) return {1, e};
    Rational scale = *q < Rational(0) ? -*q : *q;
    std::vector<Expr> addends;
    for (Expr b : e.args()) addends.push_back(simplify(b * Expr(Rational(1) / scale)));
    return {scale, make(Op::Add, addends)};
  }
  return {1, e};
}

}  // namespace

Expr monic(Expr e) {
  return rewrite(e, [](Expr x) {
    if (!x.is(Op::Mul) && !x.is(Op::Pow)) return x;
    std::vector<Expr> numbers, rest;
    bool changed = false;
    std::vector<Expr> factors;
    std::function<void(Expr)> flatten = [&](Expr f) {  // a factor may have been scaled just now
      if (!f.is(Op::Mul)) return factors.push_back(f);
      for (Expr g : f.args()) flatten(g);
    };
    flatten(x);
    changed = factors.size() != factors_of(x).size();
    for (Expr f : factors) {
      bool power = f.is(Op::Pow) && f.arg(0).is(Op::Add) && f.arg(1).number();
      if (f.number() || (f.is(Op::Pow) && f.arg(0).number() && f.arg(1).number())) {
        numbers.push_back(f);
      } else if (power || f.is(Op::Add)) {
        auto [scale, sum] = monic_sum(power ? f.arg(0) : f);
        changed = changed || scale != Rational(1);
        numbers.push_back(power ? pow(Expr(scale), f.arg(1)) : Expr(scale));
        rest.push_back(power ? pow(sum, f.arg(1)) : sum);
      } else {
        rest.push_back(f);
      }
    }
    Expr number = product_of(numbers);
    if (leads_negative(
            number)) {  // −(a − b) = b − a, where an odd power of a difference is among the factors
      for (Expr& f : rest) {
        bool power = f.is(Op::Pow) && f.arg(1).rational() && f.arg(1).rational()->is_integer() &&
                     f.arg(1).rational()->num() % 2 != 0;
        Expr sum = power ? f.arg(0) : f;
        if (!sum.is(Op::Add)) continue;
        std::vector<Expr> negated;
        for (Expr a : sum.args()) negated.push_back(simplify(-a));
        std::stable_partition(negated.begin(), negated.end(), [](Expr a) { return !leads_negative(a); });
        f = power ? pow(make(Op::Add, negated), f.arg(1)) : make(Op::Add, negated);
        number = simplify(-number);
        changed = true;
        break;
      }
    }
    if (!changed) return x;
    if (!number.is_constant(1)) rest.insert(rest.begin(), number);
    return rest.size() == 1 ? rest[0] : make(Op::Mul, rest);
  });
}

bool is_kept(Expr e) { return e.is(Op::Cast) && e->dtype == DType::f64 && !is_integer(e.arg(0)); }

namespace {

/// The addends of sums and differences, each with its sign.
void signed_addends(Expr e, bool negative, std::vector<Expr>& out) {
  if (e.is(Op::Add) || e.is(Op::Sub)) {
    for (size_t k = 0; k < e.args().size(); ++k)
      signed_addends(e.arg(k), negative != (e.is(Op::Sub) && k == 1), out);
  } else if (e.is(Op::Neg)) {
    signed_addends(e.arg(0), !negative, out);
  } else {
    out.push_back(negative ? -e : e);
  }
}

}  // namespace

/// Over the reals an addend that does not vary may always leave a sum, to cancel later. But a NaN or an infinity of the data must show in the
/// result, and beside a large number the values it is added to are rounded away, by the definition and so by the kernel.
KeptSums::Kind KeptSums::kind(Expr e) {
  constexpr double large = 65536;
  if (auto n = e.number()) return {false, std::abs(*n) <= large};
  if (e.is(Op::Symbol)) return {false, e->sym.kind() != SymbolKind::Param || e->sym.info().largest <= large};
  if (auto it = kinds_.find(e); it != kinds_.end()) return it->second;
  Kind k{e.is(Op::Read) && e->sym.kind() == SymbolKind::Tile, !e.is(Op::Read)};
  for (Expr a : e.args()) {
    const Kind inner = kind(a);
    k.result = k.result || inner.result;
    k.cancels = k.cancels && inner.cancels;
  }
  return kinds_[e] = k;
}

bool KeptSums::stays(Expr addend) {
  const Kind k = kind(addend);
  return !k.result && !k.cancels && !depends_on(addend, axis_);
}

/// A large number times a sum: multiplied out, its terms would no longer cancel to 0, as in (1 - p) * -1e30.
Expr KeptSums::not_multiplied_out(Expr x) {
  if (x.is(Op::Neg)) return -not_multiplied_out(x.arg(0));
  const auto is_large = [&](Expr a) {
    const auto n = a.is(Op::Neg) ? a.arg(0).number() : a.number();
    return n && !kind(a).cancels;
  };
  std::vector<Expr> args = x.args();
  if (!x.is(Op::Mul) || std::none_of(args.begin(), args.end(), is_large)) return x;
  for (Expr& a : args) {
    if (!a.is(Op::Add) && !a.is(Op::Sub)) continue;
    const Interval b = bounds(a, ranges_);
    if (!is_integer(a))
      a = cast(DType::f64, a);
    else if (b.lo >= -0x1p24 && b.hi <= 0x1p24)
      a = cast(DType::f32, a);  // exact; to f64 nothing would be left of it
  }
  return with_args(x, args);
}

Expr KeptSums::operator()(Expr x) {
  if (x.args().empty() || x.is(Op::Read) || x.is(Op::Reduce) || is_kept(x) || is_integer(x)) return x;
  if (auto it = known_.find(x); it != known_.end()) return it->second;
  if (is_whole(x) && !kind(x).result) return known_[x] = x;
  std::vector<Expr> args;
  for (Expr a : x.args()) args.push_back((*this)(a));
  for (Expr& a : args)
    if (is_integer(a)) a = not_multiplied_out(a);  // it becomes real here
  if (x.is(Op::Mul)) {
    const Expr product = not_multiplied_out(with_args(x, args));
    return known_[product] = known_[x] = product;
  }
  Expr out = with_args(x, args);
  const bool sum = x.is(Op::Add) || x.is(Op::Sub);
  if (sum && std::any_of(args.begin(), args.end(), [&](Expr a) { return stays(a); })) {
    std::vector<Expr> addends, kept, rest;
    signed_addends(out, false, addends);
    bool varies = false;
    for (Expr a : addends) {
      const bool own = !kind(a).result && depends_on(a, axis_);
      varies = varies || own;
      (own || stays(a) ? kept : rest).push_back(a);
    }
    if (varies) {
      rest.insert(rest.begin(), cast(DType::f64, sum_of(kept)));
      out = rest.size() == 1 ? rest[0] : make(Op::Add, rest);
    }
  }
  known_[out] = out;
  return known_[x] = out;
}

bool is_exact(const Proportion& p) {
  const std::vector<Sym> free = free_symbols(p.scale);
  return p.offset.is_constant(0) && tensors_read(p.scale).empty() &&
         std::all_of(free.begin(), free.end(),
                     [](Sym s) { return s.kind() == SymbolKind::Size || s.kind() == SymbolKind::Param; });
}

Proportion proportion(Expr u, Expr v, Sym axis) {
  if (u == v) return {1, 0};
  auto parts = [&](Expr e) {
    std::vector<Expr> varying, rest;
    for (Expr a : addends_of(e)) (depends_on(a, axis) ? varying : rest).push_back(a);
    return std::pair{varying, sum_of(rest)};
  };
  auto [us, u0] = parts(u);
  auto [vs, v0] = parts(v);
  if (us.empty() || us.size() != vs.size()) return {};
  auto fixed = [&](Expr e) {
    std::vector<Expr> out;
    for (Expr f : factors_of(e))
      if (!depends_on(f, axis)) out.push_back(f);
    return product_of(out);
  };
  Expr scale = simplify(fixed(us[0]) / fixed(vs[0]));
  if (!provably_positive(scale) || (scale.number() && std::isinf(*scale.number()))) return {};
  if (!provably_equal(sum_of(us), scale * sum_of(vs))) return {};
  return {scale, simplify(u0 - scale * v0)};
}

}  // namespace tilewright::derivation
