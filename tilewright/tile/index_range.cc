#include "tilewright/tile/index_range.h"

#include "tilewright/expr/simplify.h"

namespace tilewright {
namespace {

class Ranger {
 public:
  explicit Ranger(const std::function<std::optional<IndexRange>(Sym)>& range_of) : range_of_(range_of) {}

  std::optional<IndexRange> of(Expr e) {
    switch (e.op()) {
      case Op::Constant:
        if (e.rational()->is_integer()) return IndexRange{e, e};
        return std::nullopt;
      case Op::Symbol: {
        Sym s = e->sym;
        if (s.kind() == SymbolKind::Index) return range_of_(s);
        if (s.kind() == SymbolKind::Size || s.info().integer) return IndexRange{e, e};
        return std::nullopt;
      }
      case Op::Add: {
        IndexRange sum{0, 0};
        for (Expr a : e.args()) {
          auto r = of(a);
          if (!r) return std::nullopt;
          sum = {sum.lo + r->lo, sum.hi + r->hi};
        }
        return sum;
      }
      case Op::Mul: return product(e);
      case Op::FloorDiv: {
        auto r = of(e.arg(0));
        auto divisor = e.arg(1).rational();
        if (!r || !divisor || divisor->num() <= 0) return std::nullopt;
        return IndexRange{floordiv(r->lo, e.arg(1)), floordiv(r->hi, e.arg(1))};
      }
      case Op::Mod: {
        auto divisor = e.arg(1).rational();
        if (!divisor || divisor->num() <= 0 || !is_integer(e.arg(0))) return std::nullopt;
        return IndexRange{0, e.arg(1) - 1};
      }
      case Op::Max:
      case Op::Min: {
        std::optional<IndexRange> all;
        for (Expr a : e.args()) {
          auto r = of(a);
          if (!r) return std::nullopt;
          if (!all)
            all = r;
          else if (e.is(Op::Max))
            all = IndexRange{max(all->lo, r->lo), max(all->hi, r->hi)};
          else
            all = IndexRange{min(all->lo, r->lo), min(all->hi, r->hi)};
        }
        return all;
      }
      default: return std::nullopt;
    }
  }

 private:
  /// A product of at most one varying factor with factors of known sign.
  std::optional<IndexRange> product(Expr e) {
    Expr constant = 1, varying;
    for (Expr a : e.args()) {
      bool fixed = tensors_read(a).empty() && is_integer(a);
      for (Sym s : free_symbols(a)) fixed = fixed && s.kind() != SymbolKind::Index;
      if (fixed)
        constant = constant * a;
      else if (!varying)
        varying = a;
      else
        return std::nullopt;
    }
    if (!varying) return IndexRange{constant, constant};
    auto r = of(varying);
    if (!r) return std::nullopt;
    constant = simplify(constant);
    if (provably_nonnegative(constant)) return IndexRange{constant * r->lo, constant * r->hi};
    if (provably_nonnegative(simplify(-constant))) return IndexRange{constant * r->hi, constant * r->lo};
    return std::nullopt;
  }

  const std::function<std::optional<IndexRange>(Sym)>& range_of_;
};

}  // namespace

std::optional<IndexRange> index_range(Expr e, const std::function<std::optional<IndexRange>(Sym)>& range_of) {
  return Ranger(range_of).of(e);
}

}  // namespace tilewright
