// Masks analysed by intervals: which chunks of a streamed axis a block visits, and which of them need no
// test.
//
// A condition that is affine in the streamed index j with an integer coefficient c reads 0 <= c·j + rest.
// Over one block the rest lies between two expressions of grid counters, lo and hi. With chunks of C elements
// and c = −a < 0 (j bounded above by rest/a)
//     chunk q may hold present elements   when a·q·C <= hi                q < hi // (a·C) + 1
//     chunk q is wholly present           when a·(q·C + C − 1) <= lo      q < (lo + a) // (a·C)
//     element j may be present            when a·j <= hi                  j < hi // a + 1
// and with c = a > 0 (j bounded below by −rest/a)
//     chunk q may hold present elements   when −hi <= a·(q·C + C − 1)     q >= (−hi + a − 1) // a // C
//     chunk q is wholly present           when −lo <= a·q·C               q >= ceil(−lo / (a·C))
// Everything else is tested on all chunks.
#include <algorithm>

#include "tilewright/expr/simplify.h"
#include "tilewright/tile/index_range.h"
#include "tilewright/tile/statements.h"

namespace tilewright {
namespace {

class Analysis {
 public:
  Analysis(const TileKernel& k, const KernelAxis& stream, const BlockOf& block)
      : k_(k), stream_(stream), block_(block) {}

  /// Chunk numbers; a null bound is that of the whole range.
  struct Chunks {
    Expr begin, limit;          ///< null: no bound
    Expr full_begin, full_end;  ///< null: no bound
    bool any_full = true;       ///< false: no chunk is known to be wholly present
    Expr stop;                  ///< an element; null: no bound
  };

  Chunks of(Expr present) {
    switch (present.op()) {
      case Op::Constant: return present.is_constant(0) ? disjunction({}) : Chunks{};
      case Op::And: return conjunction(present.args());
      case Op::Or: return disjunction(present.args());
      case Op::Le:
        if (present.arg(0).is_constant(0)) return at_least_zero(present.arg(1));
        return tested();
      case Op::Eq:
        if (present.arg(1).is_constant(0))
          return both(at_least_zero(present.arg(0)), at_least_zero(simplify(-present.arg(0))));
        if (present.arg(0).is_constant(0))
          return both(at_least_zero(present.arg(1)), at_least_zero(simplify(-present.arg(1))));
        return tested();
      default: return tested();
    }
  }

 private:
  static Chunks tested() {
    Chunks c;
    c.any_full = false;
    return c;
  }

  static Expr join(Expr a, Expr b, Expr (*f)(Expr, Expr)) { return a && b ? f(a, b) : a ? a : b; }

  static Chunks both(const Chunks& a, const Chunks& b) {
    return {
        join(a.begin, b.begin, max),       join(a.limit, b.limit, min), join(a.full_begin, b.full_begin, max),
        join(a.full_end, b.full_end, min), a.any_full && b.any_full,    join(a.stop, b.stop, min)};
  }

  Chunks conjunction(const std::vector<Expr>& args) {
    Chunks all;
    for (Expr a : args) all = both(all, of(a));
    return all;
  }

  /// The hull of what may be present. Wholly present chunks of two conditions are joined where both reach
  /// down to the first chunk; else those of one condition that has any are taken.
  Chunks disjunction(const std::vector<Expr>& args) {
    if (args.empty()) return {{}, 0, {}, 0, true, 0};
    Chunks all = of(args[0]);
    for (size_t i = 1; i < args.size(); ++i) {
      Chunks c = of(args[i]);
      all.begin = all.begin && c.begin ? min(all.begin, c.begin) : Expr();
      all.limit = all.limit && c.limit ? max(all.limit, c.limit) : Expr();
      all.stop = all.stop && c.stop ? max(all.stop, c.stop) : Expr();
      if (!all.any_full) {
        all.full_begin = c.full_begin, all.full_end = c.full_end, all.any_full = c.any_full;
      } else if (c.any_full && !all.full_begin && !c.full_begin) {
        all.full_end = all.full_end && c.full_end ? max(all.full_end, c.full_end) : Expr();
      } else if (c.any_full && !all.full_end && !c.full_end) {
        all.full_begin = all.full_begin && c.full_begin ? min(all.full_begin, c.full_begin) : Expr();
      }
    }
    return all;
  }

  Chunks at_least_zero(Expr e) {
    auto form = affine(e, {stream_.index});
    if (!form || depends_on(form->rest, stream_.index)) return tested();
    auto coefficient = form->coefficient[0].rational();
    if (!coefficient || !coefficient->is_integer() || coefficient->num() == 0) return tested();
    std::optional<IndexRange> rest = range(form->rest);
    if (!rest) return tested();
    int64_t a = coefficient->num() < 0 ? -coefficient->num() : coefficient->num();
    if (a > (int64_t(1) << 30)) return tested();
    const Expr step = simplify(Expr(a) * block_(stream_));
    if (coefficient->num() < 0)
      return {{},   floordiv(rest->hi, step) + 1, {}, floordiv(rest->lo + a, step),
              true, floordiv(rest->hi, a) + 1};
    return {floordiv(-rest->hi + (a - 1), step), {}, ceildiv(-rest->lo, step), {}, true, {}};
  }

  std::optional<IndexRange> range(Expr e) const {
    return index_range(e, [&](Sym s) { return range(s); });
  }

  /// Of an index symbol over the current block.
  std::optional<IndexRange> range(Sym s) const {
    if (!has_axis(k_, s)) return std::nullopt;
    const KernelAxis& a = k_.axis(s);
    const Expr block = block_(a);
    const Expr first = !advances(a) ? Expr(0) : a.block == 1 ? Expr(a.counter) : Expr(a.counter) * block;
    if (advances(a) && a.block == 1) return IndexRange{first, first};
    if (!advances(
            a)) {  // an empty axis counts as one element: bounds stay in order, and nothing is visited anyway
      if (a.kind == KernelAxis::Kind::Whole) return IndexRange{0, std::max<int64_t>(a.block - 1, 0)};
      return IndexRange{0, max(Expr(s.size()) - 1, 0)};
    }
    return IndexRange{first, min(first + simplify(block - 1), Expr(s.size()) - 1)};
  }

  const TileKernel& k_;
  const KernelAxis& stream_;
  const BlockOf& block_;
};

/// floor or ceiling of a bound of a part in chunks. Bounds of parts are multiples of the chunk, or the axis'
/// size.
Expr in_chunks(Expr bound, Expr chunk, bool up) {
  if (bound.is(Op::Min)) {
    Expr least;
    for (Expr a : bound.args()) {
      Expr c = in_chunks(a, chunk, up);
      least = least ? min(least, c) : c;
    }
    return least;
  }
  return up ? ceildiv(bound, chunk) : floordiv(bound, chunk);
}

}  // namespace

MaskBounds analyse_mask(Expr present, const TileKernel& k, const KernelAxis& stream, const BlockOf& given) {
  const BlockOf block = given ? given : [](const KernelAxis& a) { return Expr(a.block); };
  const Expr chunk = block(stream);
  Expr end = stream.end ? simplify(stream.end) : Expr(stream.index.size());
  Expr begin = stream.begin ? simplify(in_chunks(simplify(stream.begin), chunk, false)) : Expr(0);
  Expr limit = in_chunks(end, chunk, true), full = in_chunks(end, chunk, false);
  Analysis::Chunks c = Analysis(k, stream, block).of(simplify(present));

  // Bounds that no condition moves are already in order: begin <= full <= limit.
  MaskBounds b;
  b.begin = c.begin ? max(begin, c.begin) : begin;
  b.limit = c.limit ? min(limit, c.limit) : limit;
  if (c.begin || c.limit) b.limit = max(b.limit, b.begin);
  if (!c.any_full) {
    b.full_begin = b.full_end = b.begin;
  } else {
    b.full_begin = c.full_begin ? max(b.begin, c.full_begin) : b.begin;
    if (c.full_begin) b.full_begin = min(b.full_begin, b.limit);
    b.full_end = c.full_end ? min(full, c.full_end) : full;
    b.full_end = max(b.full_end, b.full_begin);
    if (c.full_begin || c.begin) b.full_end = min(b.full_end, b.limit);
  }
  b.stop = c.stop;
  for (Expr* e : {&b.begin, &b.full_begin, &b.full_end, &b.limit, &b.stop})
    if (*e) *e = simplify(*e);
  return b;
}

MaskBounds analyse_masks(const std::vector<Expr>& presents, const TileKernel& k, const KernelAxis& stream,
                         const BlockOf& block) {
  if (presents.size() == 1) return analyse_mask(presents[0], k, stream, block);
  const auto always = [](Expr e) { return e.is_constant(1); };
  const bool all = std::any_of(presents.begin(), presents.end(), always);
  const MaskBounds some = analyse_mask(all ? Expr(1) : make(Op::Or, presents), k, stream, block);
  const MaskBounds every = analyse_mask(make(Op::And, presents), k, stream, block);
  MaskBounds b{some.begin, max(some.begin, min(every.full_begin, some.limit)), {}, some.limit, some.stop};
  b.full_end = max(b.full_begin, min(every.full_end, some.limit));
  return b;
}

std::vector<Segment> segments_of(const MaskBounds& b) {
  std::vector<Segment> parts;
  auto part = [&](Expr lo, Expr hi, bool masked) {
    if (lo != hi) parts.push_back({lo, hi, masked, masked ? b.stop : Expr()});
  };
  part(b.begin, b.full_begin, true);
  part(b.full_begin, b.full_end, false);
  part(b.full_end, b.limit, true);
  return parts;
}

}  // namespace tilewright
