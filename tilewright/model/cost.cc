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
#include <set>

#include "tilewright/expr/simplify.h"
#include "tilewright/model/laurent.h"
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
struct ChunkRange {
  const KernelAxis* axis = nullptr;
  std::vector<Segment> segments;
  Expr share = 1;  ///< of the chunks, where tiles are smooth
};

struct Totals {
  std::vector<Expr> memory_loaded, memory_stored, shared_loaded, shared_stored, chunks;
  std::vector<std::pair<Sym, std::vector<Expr>>> loaded_by_tensor, stored_by_tensor;
};

void add_to(std::vector<std::pair<Sym, std::vector<Expr>>>& lists, Sym tensor, Expr e) {
  for (auto& [known, terms] : lists)
    if (known == tensor) return terms.push_back(e);
  lists.push_back({tensor, {e}});
}

/// Tile sizes and widths of a tile program: its numbers, or symbols.
class Tiling {
 public:
  Tiling(const TileProgram& t, const TileSymbols* symbols, bool smooth)
      : t_(t), symbols_(symbols), smooth_(smooth) {}

  bool smooth() const { return smooth_; }
  const TileSymbols* symbols() const { return symbols_; }

  Expr width(DType dtype) const {
    if (symbols_)
      if (auto it = symbols_->width.find(dtype); it != symbols_->width.end()) return it->second;
    return bytes(dtype);
  }
  Expr block(const KernelAxis& a) const {
    if (!symbols_) return a.block;
    if (a.kind == KernelAxis::Kind::Whole && literal(a.index)) return a.index.size();
    auto it = symbols_->block.find(a.index);
    return it != symbols_->block.end() ? Expr(it->second) : Expr(a.block);
  }
  bool has_pieces(const KernelAxis& a) const { return a.piece > 0 && a.piece < a.block; }
  Expr piece(const KernelAxis& a) const {
    if (!has_pieces(a)) return block(a);
    if (!symbols_) return a.piece;
    auto it = symbols_->piece.find(a.index);
    return it != symbols_->piece.end() ? Expr(it->second) : Expr(a.piece);
  }
  /// Of the axis: its literal, its symbol, or an expression where tiles are smooth and it is an axis of parts.
  Expr size(Sym index) const {
    if (!symbols_) return size_of(t_.axes, index);
    if (smooth_ && t_.plan.split > 0)
      for (const Axis& a : t_.axes)
        if (a.index.size() == index.size() && a.size && !a.size.is(Op::Symbol) && !a.baked() &&
            depends_on(a.size, t_.plan.stream.size()))
          return Expr(t_.plan.stream.size()) / Expr(symbols_->split);
    return index.size();
  }
  Expr extent(const KernelAxis& a) const {
    if (!symbols_) return tilewright::extent(t_.axes, a);
    if (a.kind == KernelAxis::Kind::Whole) return block(a);
    if (smooth_) return a.kind == KernelAxis::Kind::Resident ? size(a.index) : block(a);
    if (a.block == 1 && advances(a)) return 1;
    if (!advances(a)) return min(block(a), size(a.index));
    return min(block(a), size(a.index) - Expr(a.counter) * block(a));
  }
  Expr count(const KernelAxis& a) const {
    if (!symbols_) return tilewright::count(t_.axes, a);
    if (!advances(a)) return 1;
    if (smooth_) return a.block == 1 ? size(a.index) : size(a.index) / block(a);
    return a.block == 1 ? size(a.index) : ceildiv(size(a.index), block(a));
  }
  /// Pieces of the axis in one block.
  Expr pieces(const KernelAxis& a) const {
    if (advances(a) && !has_pieces(a)) return 1;  // no block or chunk is empty
    if (symbols_) {
      if (smooth_ || a.kind == KernelAxis::Kind::Whole) return has_pieces(a) ? block(a) / piece(a) : Expr(1);
      return ceildiv(extent(a), piece(a));
    }
    const Expr here = extent(a);
    const int64_t piece = std::max<int64_t>(a.piece, 1);
    if (auto q = here.rational()) return (q->num() + piece - 1) / piece;
    return ceildiv(here, piece);
  }
  /// Pieces of a whole block.
  Expr whole_pieces(const KernelAxis& a) const {
    if (!has_pieces(a)) return 1;
    if (symbols_) return smooth_ ? block(a) / piece(a) : ceildiv(block(a), piece(a));
    return (a.block + a.piece - 1) / a.piece;
  }
  /// Elements of a tile at full size; a resident axis counts with what it may hold.
  Expr full_elements(const TileKernel& k, const std::vector<Sym>& axes) const {
    Expr n = 1;
    for (Sym a : axes) n = n.is_constant(1) ? block(k.axis(a)) : n * block(k.axis(a));
    return n;
  }
  /// The chunks of a loop at these tile sizes.
  std::vector<Segment> segments(const TileKernel& k, const Loop& x) const {
    const KernelAxis& a = k.axis(x.axis);
    if (!symbols_ || x.presents.empty() || a.kind != KernelAxis::Kind::Stream) return x.segments;
    return segments_of(analyse_masks(x.presents, k, a, [this](const KernelAxis& b) { return block(b); }));
  }
  /// Is some chunk of the loop left out?
  static bool has_mask(const TileKernel& k, const Loop& x) {
    if (k.axis(x.axis).kind != KernelAxis::Kind::Stream) return false;
    for (const Segment& g : x.segments)  // bounds of a block that a step in front finds
      for (const ChunkTable& table : k.chunk_tables)
        for (Sym bound : table.bounds)
          if (depends_on(g.lo, bound) || depends_on(g.hi, bound)) return true;
    return std::any_of(x.presents.begin(), x.presents.end(), [](Expr e) { return !e.is_constant(1); }) &&
           std::none_of(x.presents.begin(), x.presents.end(), [](Expr e) { return e.is_constant(1); });
  }

  /// Final form: literal sizes put in where tile sizes are numbers, numbers of parts in terms of the program's sizes.
  Expr closed(const Program& p, Expr all) const {
    if (!symbols_) all = bake(t_.axes, all);
    Substitution parts;
    for (const Axis& a : t_.axes) {
      bool own = std::any_of(p.axes.begin(), p.axes.end(), [&](const Axis& b) { return b.index == a.index; });
      if (!own) parts.emplace_back(a.index.size(), smooth_ ? size(a.index) : a.size);
    }
    if (!parts.empty()) all = substitute(all, parts);
    if (!symbols_) all = bake(t_.axes, all);
    return smooth_ ? expand(all) : simplify(all);
  }

 private:
  bool literal(Sym index) const { return symbols_->literal.count(index.size()) != 0; }
  const TileProgram& t_;
  const TileSymbols* symbols_;
  bool smooth_;
};

class Walk {
 public:
  Walk(const Program& p, const TileProgram& t, const TileKernel& k, const Tiling& tiling, Totals& totals,
       bool memory_alone = false)
      : p_(p), t_(t), k_(k), tiling_(tiling), totals_(totals), memory_alone_(memory_alone) {}

  void run() { body(k_.body, {}); }

 private:
  void body(const Body& stmts, const ChunkRange& range) {
    for (const Stmt& s : stmts) std::visit([&](const auto& node) { visit(s, node, range); }, s.node);
  }

  void visit(const Stmt&, const Load& x, const ChunkRange& range) {
    Expr sum = total(elements(x.tile, dtype_of(x.tensor)), range);
    totals_.memory_loaded.push_back(sum);
    add_to(totals_.loaded_by_tensor, x.tensor, sum);
  }
  void visit(const Stmt&, const Store& x, const ChunkRange& range) {
    Expr sum = total(elements(x.tile, stored_dtype_of(x.tensor)), range);
    totals_.memory_stored.push_back(sum);
    add_to(totals_.stored_by_tensor, x.tensor, sum);
  }
  void visit(const Stmt& s, const Map&, const ChunkRange& range) { values(s, range); }
  void visit(const Stmt& s, const Reduce&, const ChunkRange& range) { values(s, range); }
  void visit(const Stmt& s, const Rank&, const ChunkRange& range) { values(s, range); }
  void visit(const Stmt& s, const Dot& x, const ChunkRange& range) {
    if (memory_alone_) return;
    for (Sym operand : {x.a, x.b}) {
      const Tile& t = k_.tile(operand);
      if (t.level != Level::Shared) continue;
      Term term = elements(operand, t.dtype);
      for (Sym a : domain(k_, s))
        if (!contains_axis(t.axes, a))
          term.factors.push_back({Factor::Kind::Pieces, &k_.axis(a), tiling_.pieces(k_.axis(a))});
      totals_.shared_loaded.push_back(total(term, range));
    }
  }
  void visit(const Stmt&, const Loop& x, const ChunkRange&) {
    const ChunkRange range = range_of(x);
    if (range.axis->kind == KernelAxis::Kind::Stream && !memory_alone_)
      totals_.chunks.push_back(total(Term{}, range));
    body(x.body, range);
  }
  void visit(const Stmt&, const When& x, const ChunkRange& range) {
    if (!x.slow_path) body(x.body, range);
  }

 public:
  ChunkRange range_of(const Loop& x) const {
    ChunkRange range{&k_.axis(x.axis), tiling_.segments(k_, x)};
    if (tiling_.symbols())
      if (auto it = tiling_.symbols()->visited.find(&x); it != tiling_.symbols()->visited.end())
        range.share = it->second;
    return range;
  }
  Expr total(const Term& once, const ChunkRange& range) const;
  Term elements_along(const KernelAxis& a) const {
    return Term{{{Factor::Kind::Extent, &a, tiling_.extent(a)}}};
  }
  Term elements_of(const std::vector<Sym>& axes) const {
    Term term;
    for (Sym a : axes)
      term.factors.push_back({Factor::Kind::Extent, &k_.axis(a), tiling_.extent(k_.axis(a))});
    return term;
  }

 private:
  /// Operand reads of a Map, Reduce or Rank, and the write of a tile at Level::Shared.
  void values(const Stmt& s, const ChunkRange& range) {
    if (memory_alone_) return;
    // Plain and masked segments may read different tiles.
    for (bool masked : {false, true}) {
      ChunkRange part{range.axis, {}, range.share};
      for (const Segment& g : range.segments)
        if (g.masked == masked) part.segments.push_back(g);
      // Smooth tiles: every chunk is plain, but the one of a resident axis.
      if (tiling_.smooth() && range.axis && range.axis->kind == KernelAxis::Kind::Stream ? masked
          : range.axis ? part.segments.empty()
                       : masked)
        continue;
      std::vector<Sym> read;
      for (Expr value : values_in(s, masked)) read = axes_union(read, tiles_read(k_, value));
      for (Sym tile : read) {
        const Tile& t = k_.tile(tile);
        if (t.level == Level::Shared) totals_.shared_loaded.push_back(total(elements(tile, t.dtype), part));
      }
    }
    const Tile& target = k_.tile(written(s));
    if (target.level == Level::Shared)
      totals_.shared_stored.push_back(total(elements(target.sym, target.dtype), range));
  }

  Term elements(Sym tile, DType dtype) const {
    Term term;
    term.factors.push_back({Factor::Kind::Other, nullptr, tiling_.width(dtype)});
    for (Sym a : k_.tile(tile).axes) {
      const KernelAxis& axis = k_.axis(a);
      term.factors.push_back({Factor::Kind::Extent, &axis, tiling_.extent(axis)});
    }
    return term;
  }

  DType dtype_of(Sym tensor) const {
    if (const Input* in = p_.input(tensor)) return in->dtype;
    return stored_dtype_of(tensor);
  }
  DType stored_dtype_of(Sym tensor) const {
    for (const Output& o : p_.outputs)
      if (o.sym == tensor) return o.dtype;
    for (const Workspace& w : t_.workspaces)
      if (w.sym == tensor) return w.dtype;
    fail_check("an array", __FILE__, __LINE__, tensor.name());
  }

  static bool along(const Factor& f, const KernelAxis& a) { return f.axis == &a; }

  /// Σ of the term for the axis' counter in [lo, hi).
  Term over(const Term& term, const KernelAxis& a, Expr lo, Expr hi) const {
    std::vector<Factor> varying;
    Term rest;
    for (const Factor& f : term.factors)
      (depends_on(f.value, a.counter) ? varying : rest.factors).push_back(f);
    const Expr size = tiling_.size(a.index), all = tiling_.count(a);
    const bool whole = lo.is_constant(0) && (hi == all || hi == simplify(all));
    Expr sum;
    if (varying.empty()) {
      sum = lo.is_constant(0) ? hi : hi - lo;
    } else if (varying.size() == 1 && varying[0].kind == Factor::Kind::Extent && varying[0].axis == &a) {
      sum = whole ? size : lo.is_constant(0) ? before(hi, a) : before(hi, a) - before(lo, a);
    } else if (whole && varying.size() == 1 && varying[0].kind == Factor::Kind::Pieces &&
               varying[0].axis == &a && a.block % a.piece == 0) {
      sum = ceildiv(size, tiling_.piece(a));
    } else {
      sum = range_sum(a.counter, lo, hi, Term{varying}.value());
    }
    rest.factors.push_back({Factor::Kind::Other, nullptr, sum});
    return rest;
  }

  /// Elements of the axis in the chunks before `chunk`.
  Expr before(Expr chunk, const KernelAxis& a) const {
    const Expr size = tiling_.size(a.index), block = tiling_.block(a);
    if (chunk.is_constant(0)) return 0;
    if (simplify(chunk) == simplify(ceildiv(size, block))) return size;
    const Expr whole = simplify(chunk * block);
    return at_most(simplify(chunk), simplify(floordiv(size, block))) ? whole : min(whole, size);
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
  const Tiling& tiling_;
  Totals& totals_;
  bool memory_alone_;
};

/// Over the chunks (if inside a loop), then over the grid.
Expr Walk::total(const Term& once, const ChunkRange& range) const {
  Term term;
  if (range.axis && range.axis->kind == KernelAxis::Kind::Stream) {
    if (tiling_.smooth()) {
      // A part streams its own elements; parts together the axis.
      Expr chunks = range.axis->end ? Expr(tiling_.symbols()->split) / tiling_.block(*range.axis)
                                    : tiling_.count(*range.axis);
      term = once;
      term.factors.push_back({Factor::Kind::Other, nullptr, range.share * chunks});
    } else {
      Expr chunks = 0;
      for (const Segment& g : range.segments) {
        Term varying;
        for (Factor f : once.factors) {
          if (!along(f, *range.axis)) continue;
          if (!g.masked)
            f.value = f.kind == Factor::Kind::Extent ? tiling_.block(*range.axis)
                                                     : tiling_.whole_pieces(*range.axis);
          varying.factors.push_back(f);
        }
        Expr sum = over(varying, *range.axis, g.lo, g.hi).value();
        chunks = chunks.is_constant(0) ? sum : chunks + sum;
      }
      for (const Factor& f : once.factors)
        if (!along(f, *range.axis)) term.factors.push_back(f);
      term.factors.push_back({Factor::Kind::Other, nullptr, simplify(chunks)});
    }
  } else {
    term = once;
  }
  for (size_t i = k_.grid.size(); i-- > 0;) {
    if (tiling_.smooth())
      term.factors.push_back({Factor::Kind::Other, nullptr, tiling_.count(k_.grid[i])});
    else
      term = over(term, k_.grid[i], 0, tiling_.count(k_.grid[i]));
  }
  return term.value();
}

Cost with_tiling(const Program& p, const TileProgram& t, const Tiling& tiling, bool all = true) {
  Totals totals;
  for (const TileKernel& k : t.kernels) Walk(p, t, k, tiling, totals, !all).run();
  auto sum = [&](const std::vector<Expr>& terms) {
    Expr n = 0;
    for (Expr e : terms) n = n.is_constant(0) ? e : n + e;
    return tiling.closed(p, n);
  };
  Cost c;
  for (const auto& [tensor, terms] : totals.loaded_by_tensor)
    c.loaded_by_tensor.emplace_back(tensor, sum(terms));
  c.memory.stored = sum(totals.memory_stored);
  if (!all) return c;
  c.memory.loaded = sum(totals.memory_loaded);
  c.shared = {sum(totals.shared_loaded), sum(totals.shared_stored)};
  for (const auto& [tensor, terms] : totals.stored_by_tensor)
    c.stored_by_tensor.emplace_back(tensor, sum(terms));
  c.chunks_visited = sum(totals.chunks);
  return c;
}

}  // namespace

TileSymbols tile_symbols(const Program& p, const TileProgram& t) {
  TileSymbols s;
  auto symbol = [&](const std::string& name, int64_t value) {
    Sym sym = Sym::fresh(
        {.name = name, .kind = SymbolKind::Variable, .integer = true, .positive = true, .nonnegative = true});
    s.values[sym] = value;
    return sym;
  };
  auto width = [&](DType dtype) {
    if (!s.width.count(dtype)) s.width[dtype] = symbol(fmt::format("q_{}", name(dtype)), bytes(dtype));
  };
  for (const Input& in : p.inputs) width(in.dtype);
  for (const Output& o : p.outputs) width(o.dtype);
  for (const Workspace& w : t.workspaces) width(w.dtype);
  for (const Axis& a : t.axes)
    if (a.baked()) s.literal[a.index.size()] = a.size.rational()->num();
  if (t.plan.split > 0) s.split = symbol(fmt::format("part_{}", t.plan.stream.name()), t.plan.split);
  int shares = 0;
  for (const TileKernel& k : t.kernels) {
    for (const Tile& tile : k.tiles) width(tile.dtype);
    for (const auto* list : {&k.grid, &k.inner})
      for (const KernelAxis& a : *list) {
        if (a.block <= 1 || s.block.count(a.index)) continue;
        if (a.kind == KernelAxis::Kind::Whole || a.kind == KernelAxis::Kind::Part) continue;
        const char* letter = a.kind == KernelAxis::Kind::Group ? "g" : "s";
        s.block[a.index] = symbol(fmt::format("{}_{}", letter, a.index.name()), a.block);
        if (a.piece > 0 && a.piece < a.block)
          s.piece[a.index] = symbol(fmt::format("p_{}", a.index.name()), a.piece);
      }
    for_each_stmt(k.body, [&](const Stmt& stmt) {
      auto* loop = std::get_if<Loop>(&stmt.node);
      if (!loop || !Tiling::has_mask(k, *loop)) return;
      const std::string number = ++shares == 1 ? "" : fmt::format("_{}", shares);
      s.visited[loop] = Sym::fresh({.name = fmt::format("phi_{}{}", loop->axis.name(), number),
                                    .kind = SymbolKind::Variable,
                                    .positive = true,
                                    .nonnegative = true});
    });
  }
  return s;
}

Cost transfers(const Program& p, const TileProgram& t, const TileSymbols& symbols, bool smooth, bool all) {
  return with_tiling(p, t, Tiling(t, &symbols, smooth), all);
}

Cost cost(const Program& p, const TileProgram& t, const TileSymbols& symbols, bool smooth) {
  Cost c = transfers(p, t, symbols, smooth);
  Peaks peak = peaks(t, symbols);
  c.peak_shared = peak.shared;
  c.peak_registers = peak.registers;
  return c;
}

Peaks peaks(const TileProgram& t, const TileSymbols& symbols, Memories memories) {
  struct Columns {
    std::vector<Laurent> all;
    void add(Laurent sum) {
      if (std::find(all.begin(), all.end(), sum) == all.end()) all.push_back(std::move(sum));
    }
  };
  Columns shared, registers, both;
  const Tiling tiling(t, &symbols, false);
  for (const TileKernel& k : t.kernels) {
    const Lifetime lifetime(k);
    // A state has tiles of other sizes where it is merged.
    std::map<Sym, Laurent> bytes_of_tile;
    for (const Tile& tile : k.tiles) {
      const auto bytes =
          laurent(Expr(tile.slots) * tiling.width(tile.dtype) * tiling.full_elements(k, tile.axes));
      TW_CHECK(bytes, "the bytes of a tile are a polynomial of its sizes");
      bytes_of_tile[tile.sym] = *bytes;
    }
    std::set<std::set<Sym>> columns;
    for_each_stmt(k.body, [&](const Stmt& s) { columns.insert(lifetime.during(s)); });
    for (const std::set<Sym>& column : columns) {
      const auto sum = [&](auto counts) {
        Laurent bytes;
        for (Sym tile : column)
          if (counts(k.tile(tile).level))
            for (const auto& [powers, coefficient] : bytes_of_tile.at(tile).terms)
              bytes.add(powers, coefficient);
        return bytes;
      };
      if (memories != Memories::Apart) both.add(sum([](Level) { return true; }));
      if (memories == Memories::Together) continue;
      shared.add(sum([](Level l) { return l == Level::Shared; }));
      registers.add(sum([](Level l) { return l != Level::Shared; }));
    }
  }
  return {greatest(std::move(shared.all)), greatest(std::move(registers.all)), greatest(std::move(both.all))};
}

std::vector<Visits> visits(const Program& p, const TileProgram& t, const TileSymbols& symbols) {
  std::vector<Visits> all;
  const Tiling tiling(t, &symbols, false);
  Totals unused;
  for (size_t n = 0; n < t.kernels.size(); ++n) {
    const TileKernel& k = t.kernels[n];
    const Walk walk(p, t, k, tiling, unused);
    for_each_stmt(k.body, [&](const Stmt& s) {
      auto* loop = std::get_if<Loop>(&s.node);
      if (!loop) return;
      const KernelAxis& axis = k.axis(loop->axis);
      Visits v{loop, n, 0, 0, {}, {}};
      if (axis.kind != KernelAxis::Kind::Stream) {
        Expr grid = walk.total(Term{}, {});
        v.plain = 0;
        v.masked = tiling.closed(p, grid);
        v.elements = v.all = tiling.closed(p, grid * tiling.extent(axis));
        all.push_back(v);
        return;
      }
      const ChunkRange range = walk.range_of(*loop);
      for (bool masked : {false, true}) {
        ChunkRange part{range.axis, {}};
        for (const Segment& g : range.segments)
          if (g.masked == masked) part.segments.push_back(g);
        (masked ? v.masked : v.plain) = tiling.closed(p, walk.total(Term{}, part));
      }
      v.elements = tiling.closed(p, walk.total(walk.elements_along(axis), range));
      Expr whole = 1;
      for (const KernelAxis& a : k.grid)
        if (a.kind != KernelAxis::Kind::Part) whole = whole * tiling.count(a);
      v.all = tiling.closed(p, whole * tiling.size(axis.index));
      all.push_back(v);
    });
  }
  return all;
}

std::vector<Expr> blocks(const Program& p, const TileProgram& t, const TileSymbols& symbols) {
  std::vector<Expr> all;
  const Tiling tiling(t, &symbols, false);
  for (const TileKernel& k : t.kernels) {
    Expr n = 1;
    for (const KernelAxis& a : k.grid) n = n * tiling.count(a);
    all.push_back(tiling.closed(p, n));
  }
  return all;
}

Expr smooth_repeats(const Program& p, const TileProgram& t, const TileSymbols& symbols, size_t kernel,
                    const Loop* loop) {
  const Tiling tiling(t, &symbols, true);
  Totals unused;
  const Walk walk(p, t, t.kernels.at(kernel), tiling, unused);
  return tiling.closed(p, walk.total(Term{}, loop ? walk.range_of(*loop) : ChunkRange{}));
}

Expr elements_of_domain(const TileProgram& t, const TileKernel& k, const std::vector<Sym>& axes,
                        const TileSymbols& symbols) {
  const Tiling tiling(t, &symbols, true);
  Expr n = 1;
  for (Sym a : axes) n = n * tiling.extent(k.axis(a));
  return simplify(n);
}

Expr clipped_elements(const Program& p, const TileProgram& t, const TileSymbols& symbols, size_t kernel,
                      const Loop* loop, const std::vector<Sym>& axes, bool plain, bool masked) {
  const Tiling tiling(t, &symbols, false);
  Totals unused;
  const Walk walk(p, t, t.kernels.at(kernel), tiling, unused);
  ChunkRange range;
  if (loop) {
    range = walk.range_of(*loop);
    if (range.axis->kind == KernelAxis::Kind::Stream)
      std::erase_if(range.segments, [&](const Segment& g) { return g.masked ? !masked : !plain; });
    else if (!masked)
      return 0;  // the one chunk of a resident axis is masked
  }
  return tiling.closed(p, walk.total(walk.elements_of(axes), range));
}

Cost cost(const Program& p, const TileProgram& t) {
  Cost c = with_tiling(p, t, Tiling(t, nullptr, false));
  Peak peak;
  for (const TileKernel& k : t.kernels) peak.raise(live_peak(k));
  c.peak_shared = peak.shared;
  c.peak_registers = peak.registers;
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
