#include "tilewright/tile/chunk_table.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tilewright/expr/simplify.h"
#include "tilewright/tile/statements.h"

namespace tilewright {
namespace {

using interpreter::Array;

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double most_elements = 1 << 26;

/// Values between lo and hi, both included; conditions are 0 or 1.
struct Values {
  double lo = -inf, hi = inf;
  bool single() const { return lo == hi; }
};
constexpr Values anything{}, either{0, 1};

class Bounds {
 public:
  Bounds(const std::map<Sym, double>& scalars, const Sizes& sizes, const std::map<Sym, Array>& inputs)
      : scalars_(scalars), sizes_(sizes), inputs_(inputs) {}

  /// Where an index lies from here on: [first, last].
  void place(Sym index, int64_t first, int64_t last) { at_[index] = {double(first), double(last)}; }

  /// Conditions without a bound are `either`.
  Values condition(Expr e) {
    const Values v = of(e);
    return v.lo >= 0 && v.hi <= 1 ? v : either;
  }

 private:
  Values of(Expr e) {
    if (auto x = e.number()) return std::isnan(*x) ? anything : Values{*x, *x};
    switch (e.op()) {
      case Op::Symbol: return symbol(e->sym);
      case Op::Read: return read(e);
      case Op::Lt:
        return compare(e, [](Values a, Values b) {
          return Values{double(a.hi < b.lo), double(a.lo < b.hi)};
        });
      case Op::Le:
        return compare(e, [](Values a, Values b) {
          return Values{double(a.hi <= b.lo), double(a.lo <= b.hi)};
        });
      case Op::Eq: return compare(e, equal);
      case Op::Ne:
        return compare(e, [](Values a, Values b) {
          const Values same = equal(a, b);
          return Values{1 - same.hi, 1 - same.lo};
        });
      case Op::And: return fold(e, {1, 1}, [](double a, double b) { return std::min(a, b); });
      case Op::Or: return fold(e, {0, 0}, [](double a, double b) { return std::max(a, b); });
      case Op::Not: {
        const Values a = condition(e.arg(0));
        return {1 - a.hi, 1 - a.lo};
      }
      case Op::Select: {
        const Values c = condition(e.arg(0));
        if (c.single()) return of(e.arg(c.lo != 0 ? 1 : 2));
        const Values a = of(e.arg(1)), b = of(e.arg(2));
        return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)};
      }
      default: break;
    }
    // Real arithmetic rounds in a kernel otherwise than here.
    return is_integer(e) ? integer(e) : anything;
  }

  Values integer(Expr e) {
    std::vector<Values> v;
    for (Expr a : e.args()) {
      v.push_back(of(a));
      if (std::isinf(v.back().lo) || std::isinf(v.back().hi)) return anything;
    }
    switch (e.op()) {
      case Op::Add: {
        Values sum{0, 0};
        for (Values a : v) sum = {sum.lo + a.lo, sum.hi + a.hi};
        return sum;
      }
      case Op::Sub: return {v[0].lo - v[1].hi, v[0].hi - v[1].lo};
      case Op::Neg: return {-v[0].hi, -v[0].lo};
      case Op::Mul: {
        Values product{1, 1};
        for (Values a : v) {
          auto [least, most] =
              std::minmax({product.lo * a.lo, product.lo * a.hi, product.hi * a.lo, product.hi * a.hi});
          product = {least, most};
        }
        return product;
      }
      case Op::Max:
      case Op::Min: {
        Values x = v[0];
        for (Values a : v)
          x = e.is(Op::Max) ? Values{std::max(x.lo, a.lo), std::max(x.hi, a.hi)}
                            : Values{std::min(x.lo, a.lo), std::min(x.hi, a.hi)};
        return x;
      }
      case Op::Abs: {
        const double least = v[0].lo > 0 ? v[0].lo : v[0].hi < 0 ? -v[0].hi : 0;
        return {least, std::max(-v[0].lo, v[0].hi)};
      }
      case Op::FloorDiv:
        if (!v[1].single() || v[1].lo <= 0) return anything;
        return {std::floor(v[0].lo / v[1].lo), std::floor(v[0].hi / v[1].lo)};
      case Op::Mod: {
        if (!v[1].single() || v[1].lo <= 0) return anything;
        const double m = v[1].lo, first = std::floor(v[0].lo / m);
        if (first == std::floor(v[0].hi / m)) return {v[0].lo - first * m, v[0].hi - first * m};
        return {0, m - 1};
      }
      case Op::Cast: return is_integer(e.arg(0)) || is_boolean(e.arg(0)) ? v[0] : anything;
      default: return anything;
    }
  }

  Values symbol(Sym s) const {
    if (s.kind() == SymbolKind::Index) {
      if (auto it = at_.find(s); it != at_.end()) return it->second;
      auto size = sizes_.find(s.size());
      return size == sizes_.end() ? anything : Values{0, std::max(0.0, double(size->second) - 1)};
    }
    auto it = scalars_.find(s);
    return it == scalars_.end() ? anything : Values{it->second, it->second};
  }

  static Values equal(Values a, Values b) {
    if (a.hi < b.lo || b.hi < a.lo) return {0, 0};
    return {double(a.single() && b.single()), 1};
  }

  template <class F>
  Values compare(Expr e, const F& f) {
    const Values a = of(e.arg(0)), b = of(e.arg(1));
    return f(a, b);
  }
  template <class F>
  Values fold(Expr e, Values x, const F& f) {
    for (Expr a : e.args()) {
      const Values v = condition(a);
      x = {f(x.lo, v.lo), f(x.hi, v.hi)};
    }
    return x;
  }

  /// Least and greatest element in the box that the indices span now.
  Values read(Expr e) {
    auto it = inputs_.find(e->sym);
    if (it == inputs_.end() || is_float(it->second.dtype)) return anything;
    const Array& array = it->second;
    std::vector<int64_t> box;  // first and last of each index
    double elements = 1;
    for (size_t d = 0; d < array.sizes.size(); ++d) {
      const Values i = of(e.arg(d));
      if (!(i.lo >= 0 && i.hi < double(array.sizes[d]))) return anything;  // the kernel says what is outside
      box.insert(box.end(), {int64_t(i.lo), int64_t(i.hi)});
      elements *= i.hi - i.lo + 1;
    }
    Known& known = known_[e->sym];
    if (auto found = known.values.find(box); found != known.values.end()) return found->second;
    known.elements += elements;
    if (known.elements > most_elements) return anything;
    Values range{inf, -inf};
    look(array, box, 0, 0, range);
    return known.values[box] = range.lo <= range.hi ? range : anything;
  }

  static void look(const Array& array, const std::vector<int64_t>& box, size_t d, int64_t offset,
                   Values& range) {
    if (d == array.sizes.size()) {
      const double x = load_element(array.dtype, array.data, offset);
      range = {std::min(range.lo, x), std::max(range.hi, x)};
      return;
    }
    for (int64_t i = box[2 * d]; i <= box[2 * d + 1]; ++i)
      look(array, box, d + 1, offset + i * array.strides[d], range);
  }

  struct Known {
    std::map<std::vector<int64_t>, Values> values;
    double elements = 0;  ///< looked at so far
  };

  const std::map<Sym, double>& scalars_;
  const Sizes& sizes_;
  const std::map<Sym, Array>& inputs_;
  std::map<Sym, Values> at_;
  std::map<Sym, Known> known_;
};

int64_t blocks(int64_t size, int64_t block) { return (size + block - 1) / block; }

}  // namespace

std::vector<int64_t> chunk_rows(const ChunkTable& table, const std::map<Sym, double>& scalars,
                                const Sizes& sizes, const std::map<Sym, Array>& inputs) {
  Bounds bounds(scalars, sizes, inputs);
  const int64_t chunk = table.stream.block, length = sizes.at(table.stream.index.size());
  std::vector<int64_t> counts;
  int64_t total = 1;
  for (const KernelAxis& a : table.rows)
    total *= counts.emplace_back(blocks(sizes.at(a.index.size()), a.block));
  std::vector<int64_t> rows;
  rows.reserve(size_t(total) * 4);
  std::vector<int64_t> counter(counts.size(), 0);
  for (int64_t row = 0; row < total; ++row) {
    std::map<Sym, int64_t> counters = sizes;
    for (size_t k = 0; k < counts.size(); ++k) {
      const KernelAxis& a = table.rows[k];
      counters[a.counter] = counter[k];
      const int64_t first = counter[k] * a.block;
      bounds.place(a.index, first, std::min(first + a.block, sizes.at(a.index.size())) - 1);
    }
    const int64_t from = table.stream.begin ? evaluate_integer(table.stream.begin, counters) : 0;
    const int64_t to = table.stream.end ? evaluate_integer(table.stream.end, counters) : length;
    const int64_t q0 = from / chunk, q1 = std::max(q0, blocks(to, chunk));
    int64_t begin = -1, limit = q0, full_begin = q0, full_end = q0, run = -1;
    for (int64_t q = q0; q < q1; ++q) {
      const int64_t first = q * chunk, last = std::min(first + chunk, to) - 1;
      bounds.place(table.stream.index, first, last);
      if (bounds.condition(table.some).hi == 0) {
        run = -1;
        continue;
      }
      if (begin < 0) begin = q;
      limit = q + 1;
      const bool full = last - first + 1 == chunk && bounds.condition(table.every).lo == 1;
      if (!full) {
        run = -1;
        continue;
      }
      if (run < 0) run = q;
      if (q + 1 - run > full_end - full_begin) full_begin = run, full_end = q + 1;
    }
    if (begin < 0) begin = limit = q0;
    if (full_begin == full_end) full_begin = full_end = begin;
    rows.insert(rows.end(), {begin, full_begin, full_end, limit});
    for (size_t k = counts.size(); k-- > 0;) {
      if (++counter[k] < counts[k]) break;
      counter[k] = 0;
    }
  }
  return rows;
}

}  // namespace tilewright
