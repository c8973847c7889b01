// Random expressions: simplify() and expand() keep the value at sampled points, simplify() is idempotent,
// bounds() holds the value, derivative() agrees with a difference quotient, affine() with the expression. A
// failing expression is shrunk before it is printed.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tilewright/expr/canonical.h"

namespace tilewright::expr_simplify_test {
namespace {

uint64_t seed() {
  if (const char* s = std::getenv("TW_TEST_SEED")) return std::strtoull(s, nullptr, 10);
  return 20240611;
}

Sym symbol(const char* name, SymbolKind kind, bool integer, bool positive, const SymbolInfo* size = nullptr) {
  SymbolInfo s;
  s.name = name;
  s.kind = kind;
  s.integer = integer;
  s.positive = positive;
  s.size = size;
  return Sym::fresh(s);
}

struct World {
  Sym n = symbol("a", SymbolKind::Size, true, false), m = symbol("b", SymbolKind::Size, true, false);
  Sym a = symbol("a", SymbolKind::Index, true, false, &n.info()),
      b = symbol("b", SymbolKind::Index, true, false, &m.info());
  Sym i = symbol("i", SymbolKind::Variable, true, false), k = symbol("k", SymbolKind::Variable, true, false);
  Sym x = symbol("x", SymbolKind::Variable, false, false),
      y = symbol("y", SymbolKind::Variable, false, false);
  Sym p = symbol("p", SymbolKind::Param, false, true);
  Sym T = symbol("T", SymbolKind::Tensor, false, false), U = symbol("U", SymbolKind::Tensor, true, false);
};
const World& world() {
  static World w;
  return w;
}

/// Elements are small multiples of 1/4 (T) and integers (U), so that sums and products of them are exact.
double element(Sym t, const std::vector<int64_t>& index) {
  uint64_t h = t == world().T ? 17 : 23;
  for (int64_t v : index) h = h * 1000003 + uint64_t(v + 7) * 97;
  h ^= h >> 13;
  return t == world().T ? double(int64_t(h % 25) - 12) / 4 : double(int64_t(h % 9) - 3);
}

enum class Want { integer, exact, real, boolean };

/// Random expressions. `exact` ones are polynomials and selections of dyadic numbers whose evaluation does
/// not round, so that comparisons and steps of them are decided alike before and after simplification.
class Generator {
 public:
  explicit Generator(uint64_t s) : random_(s) {}

  Expr operator()(Want want, int depth) {
    switch (want) {
      case Want::integer: return integer(depth);
      case Want::exact: return exact(depth);
      case Want::real: return real(depth);
      case Want::boolean: return boolean(depth);
    }
    return Expr(0);
  }
  int below(int n) { return int(random_() % uint64_t(n)); }

 private:
  Expr integer(int depth) {
    const World& w = world();
    if (depth <= 0) {
      switch (below(5)) {
        case 0: return Expr(below(9) - 3);
        case 1: return w.i;
        case 2: return w.k;
        case 3: return below(2) ? w.n : w.m;
        default: return read(w.U, {Expr(w.i)});
      }
    }
    auto a = [&] { return integer(depth - 1 - below(2)); };
    switch (below(14)) {
      case 0:
      case 1: return a() + a();
      case 2:
      case 3: return a() - a();
      case 4: return Expr(below(7) - 3) * a();
      case 5: return a() * a();
      case 6:
      case 7: return floordiv(a(), Expr(1 + below(8)));
      case 8: return mod(a(), Expr(1 + below(8)));
      case 9: return floordiv(Expr(4) * a() + a(), Expr(4));
      case 10: return max(a(), a());
      case 11: return min(a(), a());
      case 12: return select(boolean(depth - 1), a(), a());
      default: return -a();
    }
  }

  Expr exact(int depth) {
    const World& w = world();
    if (depth <= 0) {
      switch (below(6)) {
        case 0: return Expr(Rational(below(9) - 4, 2));
        case 1:
        case 2: return w.x;
        case 3: return w.y;
        case 4: return w.p;
        default: return read(w.T, {Expr(w.i), Expr(w.k)});
      }
    }
    auto a = [&] { return exact(depth - 1 - below(2)); };
    switch (below(12)) {
      case 0:
      case 1: return a() + a();
      case 2:
      case 3: return a() - a();
      case 4:
      case 5: return Expr(Rational(below(9) - 4, 2)) * a();
      case 6: return a() * a();
      case 7: return max(a(), a());
      case 8: return min(a(), a());
      case 9: return select(boolean(depth - 1), a(), a());
      case 10: return make(below(2) ? Op::Abs : Op::Neg, {a()});
      default: return integer(depth - 1);
    }
  }

  Expr real(int depth) {
    if (depth <= 0) return exact(0);
    auto a = [&] { return real(depth - 1 - below(2)); };
    switch (below(26)) {
      case 0:
      case 1: return a() + a();
      case 2:
      case 3: return a() - a();
      case 4:
      case 5: return a() * a();
      case 6: return a() / a();
      case 7:
      case 8: return exp(a());
      case 9: return exp2(a());
      case 10: return log(a());
      case 11: return make(Op::Log2, {a()});
      case 12: return sqrt(a());
      case 13: return make(Op::Rsqrt, {a()});
      case 14: return make(below(2) ? Op::Tanh : Op::Erf, {a()});
      case 15: return make(below(2) ? Op::Sigmoid : Op::Abs, {a()});
      case 16: return pow(a(), Expr(Rational(below(9) - 4, 1 + below(2))));
      case 17: return pow(Expr(1 + below(80)), Expr(Rational(below(7) - 3, 2)));
      case 18: return pow(Expr(world().p), a());
      case 19: return select(boolean(depth - 1), a(), a());
      case 20: return max(a(), a());
      case 21: return make(below(2) ? Op::Floor : Op::Round, {exact(depth - 1)});
      case 22: return make(Op::Sign, {exact(depth - 1)});
      case 23: return reduction(depth);
      case 24: return Expr(1 + below(200)) * a();
      default: return exact(depth - 1);
    }
  }

  Expr reduction(int depth) {
    const World& w = world();
    Expr element = read(w.T, {Expr(w.a), Expr(w.b)}), other = read(w.T, {Expr(w.b), Expr(w.a)});
    Expr inner;
    switch (below(6)) {
      case 0: inner = element * exact(depth - 1); break;
      case 1: inner = element + other * Expr(2); break;
      case 2:
        inner = select(less_equal(Expr(w.a) + w.i, Expr(w.b) + w.k), element * exact(depth - 2), Expr(0));
        break;
      case 3: inner = exp(element) * other; break;
      case 4: inner = exact(depth - 1); break;
      default: inner = Expr(w.p) * element + exact(depth - 2); break;
    }
    Reducer r =
        std::vector{Reducer::Sum, Reducer::Sum, Reducer::Sum, Reducer::Max, Reducer::Min}[size_t(below(5))];
    if (below(3) == 0) return reduce(r, {w.a}, reduce(r, {w.b}, inner));
    Expr both = reduce(r, {w.b, w.a}, inner);
    return below(2) ? both : both * both;
  }

  Expr boolean(int depth) {
    if (depth > 0) {
      switch (below(7)) {
        case 0: return logical_and(boolean(depth - 1), boolean(depth - 1));
        case 1: return logical_or(boolean(depth - 1), boolean(depth - 1));
        case 2: return logical_not(boolean(depth - 1));
        default: break;
      }
    }
    if (below(3) == 0) {  // comparisons that imply each other or meet
      Expr a = world().i, b = Expr(world().k) + Expr(below(5) - 2);
      if (below(2)) std::swap(a, b);
      return make(std::vector{Op::Lt, Op::Le, Op::Eq, Op::Ne}[size_t(below(4))], {a, b});
    }
    Want sides = below(2) ? Want::integer : Want::exact;
    Expr a = (*this)(sides, depth - 1), b = (*this)(sides, depth - 1);
    return make(std::vector{Op::Lt, Op::Le, Op::Eq, Op::Ne}[size_t(below(4))], {a, b});
  }

  std::mt19937_64 random_;
};

std::vector<Bindings> points(uint64_t s, int count) {
  const World& w = world();
  std::mt19937_64 random(s);
  auto integer = [&](int lo, int hi) { return double(lo + int(random() % uint64_t(hi - lo + 1))); };
  std::vector<Bindings> out;
  for (int k = 0; k < count; ++k) {
    Bindings b;
    b[w.n] = integer(1, 4);
    b[w.m] = integer(1, 3);
    b[w.i] = integer(-9, 20);
    b[w.k] = integer(-9, 20);
    b[w.x] = integer(-9, 9) / 4;
    b[w.y] = integer(-9, 9) / 4;
    b[w.p] = integer(1, 12) / 4;
    out.push_back(b);
  }
  return out;
}

void subexpressions(Expr e, std::set<Expr>& out) {
  if (!out.insert(e).second) return;
  for (Expr a : e.args()) subexpressions(a, out);
}

/// Identities are over the reals: a point counts only where each part of the expression is an ordinary number
/// of moderate size. Parts under a reduction are covered by its value.
bool ordinary(Expr e, const Bindings& b) {
  const World& w = world();
  std::set<Expr> parts;
  subexpressions(e, parts);
  for (Expr s : parts) {
    if (depends_on(s, w.a) || depends_on(s, w.b)) continue;
    double v = evaluate(s, b, element);
    if (!std::isfinite(v) || std::fabs(v) > 1e5) return false;
    if (s.is(Op::Div) || s.is(Op::Rsqrt) || s.is(Op::Log) || s.is(Op::Log2) || s.is(Op::Pow) ||
        s.is(Op::Sqrt))
      if (std::fabs(evaluate(s.arg(s.is(Op::Div) ? 1 : 0), b, element)) < 1e-3) return false;
  }
  return true;
}

bool close(double a, double b, double scale) {
  if (std::isnan(a) || std::isnan(b)) return false;
  return std::fabs(a - b) <= 1e-6 * (1 + std::fabs(a) + scale);
}

/// Why `e` fails, or "".
using Check = std::function<std::string(Expr)>;

std::string same_value(Expr e, Expr other, const char* what) {
  for (const Bindings& b : points(99, 6)) {
    if (!ordinary(e, b)) continue;
    double before = evaluate(e, b, element), after = evaluate(other, b, element);
    if (!close(before, after, 0))
      return fmt::format("{}: {} became {}, now {}", what, before, after, to_string(other));
  }
  return "";
}

std::string check_simplify(Expr e) {
  Expr s = simplify(e);
  std::set<Expr> parts;
  subexpressions(s, parts);
  for (Expr x : parts) {
    // simplify() remembers its results, so the rules themselves are asked.
    if (Expr again = canonical::rebuild(*x, x.args()); again != x)
      return "not idempotent: " + to_string(x) + " -> " + to_string(again);
    if (simplify(x) != x) return "part is not canonical: " + to_string(x) + " -> " + to_string(simplify(x));
    switch (x.op()) {
      case Op::Sub:
      case Op::Div:
      case Op::Neg:
      case Op::Exp2:
      case Op::Log2:
      case Op::Sqrt:
      case Op::Rsqrt: return "raw operator in canonical form: " + to_string(x);
      default: break;
    }
  }
  return same_value(e, s, "simplify");
}

std::string check_expand(Expr e) {
  Expr x = expand(e);
  if (expand(x) != x) return "expand is not idempotent: " + to_string(x) + " -> " + to_string(expand(x));
  return same_value(e, x, "expand");
}

std::string check_bounds(Expr e) {
  Interval range = bounds(e), after = bounds(simplify(e));
  const bool positive = provably_positive(e), nonnegative = provably_nonnegative(e);
  const World& w = world();
  for (const Bindings& b : points(7, 6)) {
    if (!ordinary(e, b)) continue;
    double v = evaluate(e, b, element), slack = 1e-9 * (1 + std::fabs(v));
    if (v < range.lo - slack || v > range.hi + slack)
      return fmt::format("{} outside [{}, {}]", v, range.lo, range.hi);
    if (v < after.lo - slack || v > after.hi + slack)
      return fmt::format("{} outside [{}, {}] after", v, after.lo, after.hi);
    if ((positive && v < 0) || (nonnegative && v < 0)) return fmt::format("{} has the wrong sign", v);
    Ranges narrow;
    for (Sym s : {w.i, w.k, w.x, w.y, w.p, w.n, w.m}) narrow[s] = {b.at(s), b.at(s) + 1};
    Interval r = bounds(e, narrow);
    if (v < r.lo - slack || v > r.hi + slack) return fmt::format("{} outside narrow [{}, {}]", v, r.lo, r.hi);
  }
  return "";
}

std::string check_derivative(Expr e) {
  const World& w = world();
  auto d = derivative(e, w.x);
  if (!d) return "";
  for (const Bindings& b : points(5, 4)) {
    auto at = [&](double dx) {
      Bindings moved = b;
      moved[w.x] += 0.013 + dx;  // off the grid on which comparisons tie
      return moved;
    };
    const double h = 1e-4;
    if (!ordinary(e, at(-2 * h)) || !ordinary(e, at(2 * h)) || !ordinary(e, at(0))) continue;
    auto f = [&](double dx) { return evaluate(e, at(dx), element); };
    double wide = (f(2 * h) - f(-2 * h)) / (4 * h), slim = (f(h) - f(-h)) / (2 * h),
           known = evaluate(*d, at(0), element);
    if (std::fabs(wide - slim) > 1e-3 * (1 + std::fabs(slim))) continue;  // not smooth enough here to compare
    if (!(std::fabs(known - slim) <= 2e-2 * (1 + std::fabs(slim))))
      return fmt::format("derivative {} = {}, difference quotient {}", to_string(*d), known, slim);
  }
  return "";
}

std::string check_affine(Expr e) {
  const World& w = world();
  auto a = affine(e, {w.x, w.y});
  if (!a) return "";
  Expr sum = a->rest + a->coefficient[0] * w.x + a->coefficient[1] * w.y;
  for (Expr part : {a->rest, a->coefficient[0], a->coefficient[1]})
    if (depends_on(part, w.x) || depends_on(part, w.y)) return "coefficient depends on a variable";
  return same_value(e, sum, "affine");
}

/// The same expression written otherwise: operands swapped and regrouped, a - b as a + -1·b, a / b as a·b^-1,
/// roots as powers, exp as exp2, branches swapped under a negated condition, comparisons of integers turned
/// round and shifted, not pushed in.
class Respeller {
 public:
  explicit Respeller(uint64_t s) : random_(s) {}

  Expr operator()(Expr e) {
    return rewrite(e, [this](Expr x) { return respelled(x); });
  }

 private:
  bool maybe() { return random_() % 2 == 0; }

  Expr respelled(Expr e) {
    auto arg = [&](size_t k) { return e.arg(k); };
    std::vector<Expr> args = e.args();
    switch (e.op()) {
      case Op::Add:
      case Op::Mul:
      case Op::Max:
      case Op::Min:
      case Op::And:
      case Op::Or:
        std::shuffle(args.begin(), args.end(), random_);
        if (args.size() > 2 && maybe()) {
          Expr tail = make(e.op(), std::vector<Expr>(args.begin() + 1, args.end()));
          return make(e.op(), {tail, args[0]});
        }
        if (e.is(Op::And) && maybe())
          return logical_not(logical_or(logical_not(args[0]), logical_not(args[1])));
        return make(e.op(), args);
      case Op::Sub: return maybe() ? arg(0) + -arg(1) : Expr(-1) * arg(1) + arg(0);
      case Op::Neg: return maybe() ? Expr(0) - arg(0) : Expr(-1) * arg(0);
      case Op::Div: return maybe() ? arg(0) * pow(arg(1), Expr(-1)) : Expr(1) / arg(1) * arg(0);
      case Op::Sqrt: return pow(arg(0), Expr(Rational(1, 2)));
      case Op::Rsqrt: return maybe() ? Expr(1) / sqrt(arg(0)) : sqrt(Expr(1) / arg(0));
      case Op::Exp: return maybe() ? exp2(arg(0) * (Expr(1) / log(Expr(2)))) : exp2(arg(0) / log(Expr(2)));
      case Op::Exp2: return maybe() ? exp(arg(0) * log(Expr(2))) : pow(Expr(2), arg(0));
      case Op::Log2: return log(arg(0)) / log(Expr(2));
      case Op::Select: return maybe() ? select(logical_not(arg(0)), arg(2), arg(1)) : e;
      case Op::Lt:
      case Op::Le: {
        const bool strict = e.is(Op::Lt);
        if (!is_integer(arg(0)) || !is_integer(arg(1))) return e;
        switch (random_() % 3) {
          case 0: return logical_not(strict ? less_equal(arg(1), arg(0)) : less(arg(1), arg(0)));
          case 1: return strict ? less_equal(arg(0) + 1, arg(1)) : less(arg(0) - arg(1), Expr(1));
          default: return strict ? less(arg(0) * 3, arg(1) * 3) : less_equal(-arg(1), -arg(0));
        }
      }
      case Op::Eq: return maybe() ? equal(arg(1), arg(0)) : logical_not(make(Op::Ne, {arg(0), arg(1)}));
      case Op::Ne: return logical_not(equal(arg(1), arg(0)));
      case Op::Reduce: {
        Node n = *e;
        std::reverse(n.bound.begin(), n.bound.end());
        return make(n);
      }
      default: return e;
    }
  }

  std::mt19937_64 random_;
};

std::string check_respelling(Expr e) {
  auto at = points(3, 3);
  if (std::none_of(at.begin(), at.end(), [&](const Bindings& b) { return ordinary(e, b); }))
    return "";  // 1/0 and the like
  for (uint64_t s = 1; s <= 3; ++s) {
    Expr other = Respeller(s)(e);
    if (simplify(e) != simplify(other))
      return fmt::format("{}\n  is not canonical: {}\n                    {}", to_string(other),
                         to_string(simplify(e)), to_string(simplify(other)));
  }
  return "";
}

/// Smaller expressions of the same kind: parts, and the expression with a part replaced by one of its
/// arguments or by a leaf.
std::vector<Expr> smaller(Expr e) {
  std::vector<Expr> out;
  for (Expr a : e.args()) out.push_back(a);
  for (size_t k = 0; k < e.args().size(); ++k) {
    auto with = [&](Expr a) {
      // Of the same type: conditions stay conditions and integers integers.
      if (is_boolean(e.arg(k)) && !is_boolean(a)) return;
      if (!is_boolean(e.arg(k)) && is_boolean(a) && !a.number()) return;
      if (is_integer(e.arg(k)) && !is_integer(a)) return;
      std::vector<Expr> args = e.args();
      args[k] = a;
      out.push_back(with_args(e, args));
    };
    for (Expr leaf : {Expr(0), Expr(1), Expr(world().x)})
      if (!e.arg(k).args().empty()) with(leaf);
    for (Expr a : smaller(e.arg(k))) with(a);
  }
  return out;
}

size_t count(Expr e) {
  size_t n = 1;
  for (Expr a : e.args()) n += count(a);
  return n;
}

std::string guarded(const Check& check, Expr e) {
  try {
    return check(e);
  } catch (const std::exception& x) {
    return std::string("exception: ") + x.what();
  }
}

void run(const Check& check, std::initializer_list<Want> wants, int cases, int depth) {
  Generator generate(seed());
  for (int n = 0; n < cases; ++n) {
    Want want = wants.begin()[generate.below(int(wants.size()))];
    Expr e = generate(want, 1 + generate.below(depth));
    std::string why = guarded(check, e);
    if (why.empty()) continue;
    for (bool again = true; again;) {
      again = false;
      for (Expr s : smaller(e)) {
        if (count(s) >= count(e)) continue;
        std::string reason;
        try {
          reason = check(s);
        } catch (const std::exception&) {
          continue;  // an ill-typed shrink
        }
        if (reason.empty()) continue;
        e = s;
        why = reason;
        again = true;
        break;
      }
    }
    FAIL() << "seed " << seed() << " case " << n << "\n  " << to_string(e) << "\n  " << why;
  }
}

TEST(ExprProperty, SimplifyKeepsValuesAndIsIdempotent) {
  run(check_simplify, {Want::integer, Want::exact, Want::real, Want::boolean}, 6000, 4);
}
TEST(ExprProperty, SimplifyOfIntegers) { run(check_simplify, {Want::integer, Want::boolean}, 4000, 5); }
TEST(ExprProperty, RespellingsMeet) {
  run(check_respelling, {Want::integer, Want::exact, Want::real, Want::boolean}, 4000, 4);
}
TEST(ExprProperty, Expand) { run(check_expand, {Want::integer, Want::exact, Want::real}, 2000, 4); }
TEST(ExprProperty, Bounds) { run(check_bounds, {Want::integer, Want::exact, Want::real}, 3000, 4); }
TEST(ExprProperty, Derivative) { run(check_derivative, {Want::exact, Want::real}, 2000, 4); }
TEST(ExprProperty, Affine) { run(check_affine, {Want::integer, Want::exact}, 2000, 4); }

}  // namespace
}  // namespace tilewright::expr_simplify_test
