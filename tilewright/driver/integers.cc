#include "tilewright/driver/integers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <set>

#include "tilewright/expr/simplify.h"

namespace tilewright {

namespace {

/// Calls visit for each node once, inner ones first.
void each_inner_first(Expr e, std::set<Expr>& seen, const std::function<void(Expr)>& visit) {
  if (!e || !seen.insert(e).second) return;
  for (Expr a : e.args()) each_inner_first(a, seen, visit);
  visit(e);
}

bool is_arithmetic(Expr e) {
  switch (e.op()) {
    case Op::Add:
    case Op::Sub:
    case Op::Mul:
    case Op::Pow: return true;
    case Op::Reduce: return e->reducer == Reducer::Sum || e->reducer == Reducer::Prod;
    default: return false;
  }
}

/// Is a literal with a point or an exponent among what `e` computes with? Then it is real, whatever its value: -1e30 is no integer, and (1 - k) * -1e30 neither.
bool is_written_real(Expr e, std::set<Expr>& seen) {
  if (!seen.insert(e).second) return false;
  const auto any = [&](size_t from, size_t to) {
    for (size_t k = from; k < to; ++k)
      if (is_written_real(e.arg(k), seen)) return true;
    return false;
  };
  switch (e.op()) {
    case Op::Real: return true;
    case Op::Add:
    case Op::Sub:
    case Op::Mul:
    case Op::Neg:
    case Op::Pow:
    case Op::Max:
    case Op::Min:
    case Op::Abs: return any(0, e.args().size());
    case Op::Select: return any(1, 3);
    case Op::Reduce: return any(0, 1);
    default: return false;
  }
}

bool computes(Expr e) {
  if (!is_arithmetic(e) || !is_integer(e) || is_boolean(e) || tensors_read(e).empty()) return false;
  std::set<Expr> seen;
  return !is_written_real(e, seen);
}

struct Array {
  Interval values{0, 0};
  double magnitudes = 0;  ///< the sum of all
};

Array read_array(const Tensor& t) {
  Array a;
  int64_t total = 1, at = 0;
  for (int64_t n : t.shape) total *= n;
  std::vector<int64_t> index(t.shape.size(), 0);
  for (int64_t k = 0; k < total; ++k) {
    const double x = load_element(t.dtype, t.data, at);
    a.values = k == 0 ? Interval{x, x} : Interval{std::min(a.values.lo, x), std::max(a.values.hi, x)};
    a.magnitudes += std::fabs(x);
    for (size_t d = index.size(); d-- > 0;) {
      at += t.strides[d];
      if (++index[d] < t.shape[d]) break;
      at -= index[d] * t.strides[d];
      index[d] = 0;
    }
  }
  return a;
}

/// All values of a dtype.
Interval every(DType t) {
  if (t == DType::boolean) return {0, 1};
  const double half = std::ldexp(1.0, static_cast<int>(8 * bytes(t)) - 1);
  return {-half, half - 1};
}

class Bounds {
 public:
  /// Without `tensors`, arrays may hold anything that their dtype can.
  Bounds(const Program& p, const std::map<Sym, Tensor>* tensors, const Sizes& sizes,
         const std::map<std::string, double>& params)
      : p_(p) {
    for (const auto& [size, n] : sizes) ranges_[size] = {double(n), double(n)};
    for (const Param& q : p.params)
      if (const auto it = params.find(q.sym.name()); it != params.end()) {
        ranges_[q.sym] = {it->second, it->second};
      } else if (q.value) {
        ranges_[q.sym] = bounds(q.value, ranges_);
      }
    for (const Input& in : p.inputs) {
      if (is_float(in.dtype)) continue;
      if (tensors != nullptr) arrays_[in.sym] = read_array(tensors->at(in.sym));
      ranges_[in.sym] = tensors != nullptr ? arrays_[in.sym].values : every(in.dtype);
    }
  }

  struct Inexact {
    const Definition* definition;
    Expr where;
    double reaches;
  };

  std::optional<Inexact> find() {
    std::optional<Inexact> found;
    for (const Definition& d : p_.definitions) {
      std::set<Expr> seen;
      each_inner_first(d.value, seen, [&](Expr written) {
        if (found || !computes(written)) return;
        const double most = magnitude(without_casts(written));
        if (std::isfinite(most) && most > double(exact_integer)) found = Inexact{&d, written, most};
      });
      if (found) break;
      const Expr value = without_casts(d.value);
      ranges_[d.sym] = bounds(d.dtype ? cast(*d.dtype, value) : value, ranges_);
    }
    return found;
  }

 private:
  /// Integers cast from reals without bounds are not followed: they stand for anything.
  Expr without_casts(Expr e) {
    return rewrite(e, [&](Expr x) {
      if (!x.is(Op::Cast) || is_float(x->dtype) || is_integer(x.arg(0))) return x;
      const Interval b = bounds(x.arg(0), ranges_);
      if (std::isfinite(b.lo) && std::isfinite(b.hi)) return x;
      return Expr(Sym::fresh({.name = "cast", .kind = SymbolKind::Variable, .integer = true}));
    });
  }
  double magnitude(Expr e) {
    const Interval b = bounds(e, ranges_);
    const double most = std::max(std::fabs(b.lo), std::fabs(b.hi));
    if (!e.is(Op::Reduce) || e->reducer != Reducer::Sum) return most;
    return std::min(most, sum_of_magnitudes(e.arg(0), e->bound));
  }

  /// Σ |e| over the axes: what no partial sum passes.
  double sum_of_magnitudes(Expr e, const std::vector<Sym>& bound) {
    double points = 1;
    for (Sym s : bound) points *= ranges_.at(s.size()).hi;
    if (e.is(Op::Add) || e.is(Op::Sub)) {
      double sum = 0;
      for (Expr a : e.args()) sum += sum_of_magnitudes(a, bound);
      return sum;
    }
    if (e.is(Op::Neg)) return sum_of_magnitudes(e.arg(0), bound);
    if (e.is(Op::Mul) && e.args().size() == 2)
      for (size_t k : {0, 1})
        if (const auto n = e.arg(k).number()) return std::fabs(*n) * sum_of_magnitudes(e.arg(1 - k), bound);
    const Interval b = bounds(e, ranges_);
    const double all = points * std::max(std::fabs(b.lo), std::fabs(b.hi));
    const auto array = e.is(Op::Read) ? arrays_.find(e->sym) : arrays_.end();
    // Each element is read at most once where every axis of the sum is an index of its own.
    const bool once = array != arrays_.end() && std::all_of(bound.begin(), bound.end(), [&](Sym s) {
                        const std::vector<Expr>& at = e.args();
                        return std::find(at.begin(), at.end(), Expr(s)) != at.end();
                      });
    return once ? std::min(all, array->second.magnitudes) : all;
  }

  const Program& p_;
  Ranges ranges_;
  std::map<Sym, Array> arrays_;
};

}  // namespace

bool computes_with_integers(const Program& p) {
  for (const Definition& d : p.definitions) {
    bool any = false;
    std::set<Expr> seen;
    each_inner_first(d.value, seen, [&](Expr e) { any = any || computes(e); });
    if (any) return true;
  }
  return false;
}

void refuse_inexact_integers(const Program& p, const std::map<Sym, Tensor>& tensors, const Sizes& sizes,
                             const std::map<std::string, double>& params) {
  if (!Bounds(p, nullptr, sizes, params).find()) return;
  const auto found = Bounds(p, &tensors, sizes, params).find();
  if (!found) return;
  const Span span = p.span_of(found->where);
  throw UserError(
      span ? span : found->definition->span,
      fmt::format("an integer of `{}` may reach {:.4g} with these arrays, and integers are exact up to "
                  "2^53 alone",
                  found->definition->sym.name(), found->reaches),
      "compute with reals where rounding is accepted, for example f64(n) * n");
}

}  // namespace tilewright
