// Formulas by a walk over the tile program that mirrors what the interpreter does, with the counters left
// symbolic.
//
// What one statement moves is a product of extents and numbers of pieces. It is summed over the chunks of its
// loop and the blocks of the grid in closed form where only one factor varies with the counter (Σ min(B, n −
// k·B) = n), else as a RangeSum.
#include "tilewright/model/cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tilewright/expr/simplify.h"
#include "tilewright/tile/lifetime.h"
#include "tilewright/tile/statements.h"

namespace tilewright {
namespace {

struct Factor {
  enum class Kind { Extent, Pieces, Other } kind = Kind::Other;
  const KernelAxis* axis = nullptr;  ///< Extent, Pieces
  Expr value;
};

/// A product of factors.
struct Term {
  std::vector<Factor> factors;
  Expr value() const {
    Expr v = 1;
    for (const Factor& f : factors) v = v.is_constant(1) ? f.value : v * f.value;
    return v;
  }
};

/// The chunks that a statement runs on: some segments of a loop over `axis`; outside of loops `axis` is null.
struct Range {
  const KernelAxis* axis = nullptr;
  std::vector<const Segment*> segments;
};

struct Totals {
  std::vector<Expr> memory_loaded, memory_stored, shared_loaded, shared_stored, chunks;
  std::vector<std::pair<Sym, std::vector<Expr>>> by_tensor;
};

class Walk {
 public:
  Walk(const Program& p, const TileProgram& t, const TileKernel& k, Totals& totals)
      : p_(p), t_(t), k_(k), totals_(totals) {}

  void run() { body(k_.body, {}); }

 private:
  void body(const Body& stmts, const Range& range) {
    for (const Stmt& s : stmts) std::visit([&](const auto& node) { visit(s, node, range); }, s.node);
  }

  void visit(const Stmt&, const Load& x, const Range& range) {
    Expr sum = total(elements(x.tile, bytes_of(x.tensor)), range);
    totals_.memory_loaded.push_back(sum);
    for (auto& [tensor, terms] : totals_.by_tensor)
      if (tensor == x.tensor) return terms.push_back(sum);
    totals_.by_tensor.push_back({x.tensor, {sum}});
  }
  void visit(const Stmt&, const Store& x, const Range& range) {
    totals_.memory_stored.push_back(total(elements(x.tile, stored_bytes_of(x.tensor)), range));
  }
  void visit(const Stmt& s, const Map&, const Range& range) { values(s, range); }
  void visit(const Stmt& s, const Reduce&, const Range& range) { values(s, range); }
  void visit(const Stmt& s, const Rank&, const Range& range) { values(s, range); }
  void visit(const Stmt& s, const Dot& x, const Range& range) {
    for (Sym operand : {x.a, x.b}) {
      const Tile& t = k_.tile(operand);
      if (t.level != Level::Shared) continue;
      Term term = elements(operand, bytes(t.dtype));
      for (Sym a : domain(k_, s))
        if (!contains_axis(t.axes, a)) term.factors.push_back(pieces(k_.axis(a)));
      totals_.shared_loaded.push_back(total(term, range));
    }
  }
  void visit(const Stmt&, const Loop& x, const Range&) {
    Range range{&k_.axis(x.axis), {}};
    for (const Segment& g : x.segments) range.segments.push_back(&g);
    if (range.axis->kind == KernelAxis::Kind::Stream) totals_.chunks.push_back(total(Term{}, range));
    body(x.body, range);
  }
  void visit(const Stmt&, const When& x, const Range& range) {
    if (!x.slow_path) body(x.body, range);
  }

  /// Operand reads of a Map, Reduce or Rank, and the write of a tile at Level::Shared.
  void values(const Stmt& s, const Range& range) {
    // Plain and masked segments may read different tiles.
    for (bool masked : {false, true}) {
      Range part{range.axis, {}};
      for (const Segment* g : range.segments)
        if (g->masked == masked) part.segments.push_back(g);
      if (range.axis ? part.segments.empty() : masked) continue;
      std::vector<Sym> read;
      for (Expr value : values_in(s, masked)) read = axes_union(read, tiles_read(k_, value));
      for (Sym tile : read) {
        const Tile& t = k_.tile(tile);
        if (t.level == Level::Shared)
          totals_.shared_loaded.push_back(total(elements(tile, bytes(t.dtype)), part));
      }
    }
    const Tile& target = k_.tile(written(s));
    if (target.level == Level::Shared)
      totals_.shared_stored.push_back(total(elements(target.sym, bytes(target.dtype)), range));
  }

  Term elements(Sym tile, int64_t width) const {
    Term term;
    term.factors.push_back({Factor::Kind::Other, nullptr, width});
    for (Sym a : k_.tile(tile).axes) {
      const KernelAxis& axis = k_.axis(a);
      term.factors.push_back({Factor::Kind::Extent, &axis, extent(t_.axes, axis)});
    }
    return term;
  }

  Factor pieces(const KernelAxis& a) const {
    Expr here = extent(t_.axes, a);
    int64_t piece = std::max<int64_t>(a.piece, 1);
    if (advances(a) && piece >= a.block) return {Factor::Kind::Pieces, &a, 1};  // no block or chunk is empty
    if (auto q = here.rational()) return {Factor::Kind::Pieces, &a, (q->num() + piece - 1) / piece};
    return {Factor::Kind::Pieces, &a, ceildiv(here, piece)};
  }

  int64_t bytes_of(Sym tensor) const {
    if (const Input* in = p_.input(tensor)) return bytes(in->dtype);
    return stored_bytes_of(tensor);
  }
  int64_t stored_bytes_of(Sym tensor) const {
    for (const Output& o : p_.outputs)
      if (o.sym == tensor) return bytes(o.dtype);
    for (const Workspace& w : t_.workspaces)
      if (w.sym == tensor) return bytes(w.dtype);
    fail_check("an array", __FILE__, __LINE__, tensor.name());
  }

  /// Over the chunks (if inside a loop), then over the grid.
  Expr total(const Term& once, const Range& range) const {
    Term term;
    if (range.axis && range.axis->kind == KernelAxis::Kind::Stream) {
      Expr chunks = 0;
      for (const Segment* g : range.segments) {
        Term varying;
        for (Factor f : once.factors) {
          if (!along(f, *range.axis)) continue;
          if (!g->masked)
            f.value = f.kind == Factor::Kind::Extent ? range.axis->block : whole_pieces(*range.axis);
          varying.factors.push_back(f);
        }
        Expr sum = over(varying, *range.axis, g->lo, g->hi).value();
        chunks = chunks.is_constant(0) ? sum : chunks + sum;
      }
      for (const Factor& f : once.factors)
        if (!along(f, *range.axis)) term.factors.push_back(f);
      term.factors.push_back({Factor::Kind::Other, nullptr, simplify(chunks)});
    } else {
      term = once;
    }
    for (size_t i = k_.grid.size(); i-- > 0;) term = over(term, k_.grid[i], 0, count(t_.axes, k_.grid[i]));
    return term.value();
  }

  static bool along(const Factor& f, const KernelAxis& a) { return f.axis == &a; }
  static int64_t whole_pieces(const KernelAxis& a) { return (a.block + a.piece - 1) / a.piece; }

  /// Σ of the term for the axis' counter in [lo, hi).
  Term over(const Term& term, const KernelAxis& a, Expr lo, Expr hi) const {
    std::vector<Factor> varying;
    Term rest;
    for (const Factor& f : term.factors)
      (depends_on(f.value, a.counter) ? varying : rest.factors).push_back(f);
    const Expr size = size_of(t_.axes, a.index), all = count(t_.axes, a);
    const bool whole = lo.is_constant(0) && (hi == all || hi == simplify(all));
    Expr sum;
    if (varying.empty()) {
      sum = lo.is_constant(0) ? hi : hi - lo;
    } else if (varying.size() == 1 && varying[0].kind == Factor::Kind::Extent && varying[0].axis == &a) {
      sum = whole ? size : lo.is_constant(0) ? before(hi, a) : before(hi, a) - before(lo, a);
    } else if (whole && varying.size() == 1 && varying[0].kind == Factor::Kind::Pieces &&
               varying[0].axis == &a && a.block % a.piece == 0) {
      sum = ceildiv(size, a.piece);
    } else {
      sum = range_sum(a.counter, lo, hi, Term{varying}.value());
    }
    rest.factors.push_back({Factor::Kind::Other, nullptr, sum});
    return rest;
  }

  /// Elements of the axis in the chunks before `chunk`.
  Expr before(Expr chunk, const KernelAxis& a) const {
    const Expr size = size_of(t_.axes, a.index);
    if (chunk.is_constant(0)) return 0;
    if (simplify(chunk) == simplify(ceildiv(size, a.block))) return size;
    const Expr whole = simplify(chunk * Expr(a.block));
    return at_most(simplify(chunk), simplify(floordiv(size, a.block))) ? whole : min(whole, size);
  }
  static bool at_most(Expr e, Expr bound) {
    if (e == bound || e.is_constant(0)) return true;
    if (e.is(Op::Min))
      return std::any_of(e.args().begin(), e.args().end(), [&](Expr x) { return at_most(x, bound); });
    if (e.is(Op::Max))
      return std::all_of(e.args().begin(), e.args().end(), [&](Expr x) { return at_most(x, bound); });
    return false;
  }

  const Program& p_;
  const TileProgram& t_;
  const TileKernel& k_;
  Totals& totals_;
};

}  // namespace

Cost cost(const Program& p, const TileProgram& t) {
  Totals totals;
  Peak peak;
  for (const TileKernel& k : t.kernels) {
    Walk(p, t, k, totals).run();
    Peak here = live_peak(k);
    peak.shared = std::max(peak.shared, here.shared);
    peak.registers = std::max(peak.registers, here.registers);
  }
  auto sum = [&](const std::vector<Expr>& terms) {
    Expr all = 0;
    for (Expr e : terms) all = all.is_constant(0) ? e : all + e;
    all = bake(t.axes, all);
    // Sizes of axes that are not the program's (numbers of parts) in terms of the program's.
    Substitution parts;
    for (const Axis& a : t.axes) {
      bool own = std::any_of(p.axes.begin(), p.axes.end(), [&](const Axis& b) { return b.index == a.index; });
      if (!own) parts.emplace_back(a.index.size(), a.size);
    }
    return simplify(bake(t.axes, parts.empty() ? all : substitute(all, parts)));
  };
  Cost c;
  c.memory = {sum(totals.memory_loaded), sum(totals.memory_stored)};
  c.shared = {sum(totals.shared_loaded), sum(totals.shared_stored)};
  for (const auto& [tensor, terms] : totals.by_tensor) c.loaded_by_tensor.emplace_back(tensor, sum(terms));
  c.peak_shared = peak.shared;
  c.peak_registers = peak.registers;
  c.chunks_visited = sum(totals.chunks);
  return c;
}

std::string to_text(const Program&, const Cost& c) {
  std::string text = "level      quantity  bytes\n";
  auto line = [&](const char* level, const char* what, Expr e) {
    text += fmt::format("{:<10} {:<9} {}\n", level, what, to_string(e));
  };
  line("memory", "H loaded", c.memory.loaded);
  for (const auto& [tensor, e] : c.loaded_by_tensor)
    text += fmt::format("{:<10} {:<9} {}\n", "", "  " + tensor.name(), to_string(e));
  line("memory", "H stored", c.memory.stored);
  line("shared", "H loaded", c.shared.loaded);
  if (!c.shared.stored.is_constant(0)) line("shared", "H stored", c.shared.stored);
  line("shared", "M", c.peak_shared);
  line("registers", "M", c.peak_registers);
  text += fmt::format("{:<10} {:<9} {}\n", "chunks", "visited", to_string(c.chunks_visited));
  return text;
}

}  // namespace tilewright
