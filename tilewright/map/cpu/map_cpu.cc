// TileProgram -> MappedProgram for CPUs.
//
// One role, one owner: a task is a block of the grid. Tiles are buffers in Local, except operands that are read where they lie (views). Dots become
// products of the micro-kernel where lanes allow, otherwise sums of element products; loops, votes, maps and reductions stay what they are,
// with the ranges of their axes made explicit.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tilewright/expr/simplify.h"
#include "tilewright/map/checks.h"
#include "tilewright/map/cpu/in_place.h"
#include "tilewright/map/cpu/lanes.h"
#include "tilewright/map/cpu/nested.h"
#include "tilewright/map/cpu/operands.h"
#include "tilewright/map/cpu/pairs.h"
#include "tilewright/map/cpu/passes.h"
#include "tilewright/support/error.h"
#include "tilewright/tile/statements.h"

namespace tilewright {
namespace cpu {
namespace {

constexpr int64_t kCachedBytes =
    32 << 20;  // of a result: what a core's share of the caches may still hold when it is read

Sym variable(const std::string& name) {
  return Sym::fresh({.name = name, .kind = SymbolKind::Variable, .integer = true, .nonnegative = true});
}

std::vector<Expr> own_axes(const std::vector<Sym>& axes) { return {axes.begin(), axes.end()}; }

/// Does the segment kind change what a body does?
bool mask_matters(const Body& body) {
  bool matters = false;
  for_each_stmt(body, [&](const Stmt& s) {
    if (const Map* x = std::get_if<Map>(&s.node)) matters = matters || (x->masked && x->masked != x->value);
    if (const Reduce* x = std::get_if<Reduce>(&s.node))
      matters = matters || (x->masked && x->masked != x->value);
    if (const Dot* x = std::get_if<Dot>(&s.node)) matters = matters || x->present;
    if (const Rank* x = std::get_if<Rank>(&s.node)) matters = matters || x->present;
  });
  return matters;
}

class KernelMapper {
 public:
  KernelMapper(const TileProgram& t, const TileKernel& k, const Machine& m)
      : t_(t), k_(k), machine_(m), lanes_(choose_lanes(k, m)), views_(views_of(t, k, lanes_)) {}

  MappedKernel run() {
    out_.name = k_.name;
    out_.grid = k_.grid;
    out_.heaviest_first = k_.heaviest_first;
    for (const Tile& tile : k_.tiles) add_buffer(tile);
    Role role{.name = "task"};
    std::vector<MappedOp>& ops = role.body;
    for (const KernelAxis& a : k_.grid) open_axis(a, ops);
    for (const KernelAxis& a : k_.inner)
      if (a.kind != KernelAxis::Kind::Stream) open_axis(a, ops);
    lower(k_.body, false, ops);
    for (const KernelAxis& a : k_.grid) {
      bool lacking = false;
      for_each_stmt(k_.body, [&](const Stmt& s) {
        const Store* x = std::get_if<Store>(&s.node);
        lacking = lacking || (x && std::none_of(x->index.begin(), x->index.end(),
                                                [&](Expr e) { return depends_on(e, a.index); }));
      });
      if (lacking) out_.at_least_one.push_back(a.index);
    }
    for (Buffer& b : scratch_) out_.buffers.push_back(std::move(b));
    inline_maps(out_, ops);
    out_.roles.push_back(std::move(role));
    return std::move(out_);
  }

 private:
  const TileProgram& t_;
  const TileKernel& k_;
  const Machine& machine_;
  Lanes lanes_;
  std::map<Sym, View> views_;
  MappedKernel out_;
  std::vector<Buffer> scratch_;
  std::map<Sym, AxisFrame> frames_;
  std::map<Sym, Expr>
      uses_;  ///< operand of a product that gives its lanes -> how often the product reads each element

  DType held(const Tile& tile) const { return lanes_.held.at(tile.sym); }

  Expr bake(Expr e) const { return tilewright::bake(t_.axes, e); }

  void add_buffer(const Tile& tile) {
    Buffer b;
    b.sym = tile.sym;
    b.axes = tile.axes;
    b.dtype = held(tile);
    if (auto it = views_.find(tile.sym); it != views_.end()) {
      b.space = Space::Memory;
      b.tensor = it->second.tensor;
      for (Expr e : it->second.index) b.index.push_back(bake(e));
      b.comment = "read where it lies";
    } else {
      b.space = Space::Local;
      b.layout = layout_of(lanes_, k_, tile);
      b.alignment = machine_.vector.bytes;
      if (tile.dtype != b.dtype) b.comment = fmt::format("values of {}", name(tile.dtype));
    }
    out_.buffers.push_back(std::move(b));
  }

  Sym scratch(const std::string& name, DType dtype) {
    Buffer b;
    b.sym = Sym::fresh({.name = name, .kind = SymbolKind::Tile});
    b.dtype = dtype;
    b.space = Space::Local;
    b.layout = Layout::row_major({});
    b.alignment = machine_.vector.bytes;
    scratch_.push_back(b);
    return b.sym;
  }

  void add(std::vector<MappedOp>& ops, decltype(MappedOp::node) node, std::string comment = {}) {
    ops.push_back({std::move(node), std::move(comment)});
  }

  bool in_tiles(Sym axis) const {
    return std::any_of(k_.tiles.begin(), k_.tiles.end(),
                       [&](const Tile& t) { return contains_axis(t.axes, axis); });
  }

  /// Origin and clipped extent of an axis from here on.
  /// `stop`: no element from there on matters (null: all do).
  void open_axis(const KernelAxis& a, std::vector<MappedOp>& ops, Expr stop = {}) {
    const std::string& text = a.index.name();
    const Expr size = size_of(t_.axes, a.index);
    if (a.kind == KernelAxis::Kind::Whole) {
      frames_[a.index] = {a.index, 0, size};
      return;
    }
    if (a.kind == KernelAxis::Kind::Resident) {
      frames_[a.index] = {a.index, 0, size};
      return;
    }
    if (a.block == 1 && !in_tiles(a.index)) {
      add(ops, Define{a.index, a.counter});
      frames_[a.index] = {a.index, a.index, 1};
      return;
    }
    const Sym first = variable(text + "0");
    add(ops, Define{first, Expr(a.counter) * Expr(a.block)});
    const auto literal = size.rational();
    Expr extent = a.block;
    if (a.end || stop || !literal || literal->num() == 0 || literal->num() % a.block != 0) {
      const Sym count = variable("n" + text);
      Expr end = a.end ? bake(a.end) : size;
      if (stop) end = min(end, bake(stop));
      add(ops, Define{count, min(a.block, end - first)});
      extent = count;
    }
    frames_[a.index] = {a.index, first, extent};
  }

  Frame frame(const std::vector<Sym>& axes) const {
    Frame f;
    for (Sym a : axes) {
      auto it = frames_.find(a);
      TW_CHECK(it != frames_.end(), fmt::format("axis {} is used outside its loop", a.name()));
      f.push_back(it->second);
    }
    return f;
  }

  void lower(const Body& body, bool masked, std::vector<MappedOp>& ops) {
    for (const Stmt& s : body) std::visit([&](const auto& x) { lower(x, s.comment, masked, ops); }, s.node);
  }

  void lower(const Load& x, const std::string& comment, bool, std::vector<MappedOp>& ops) {
    if (views_.count(x.tile)) return;
    const Tile& tile = k_.tile(x.tile);
    Copy c;
    const bool panels = lanes_.panel_axis && lanes_.fastest.at(x.tile) == lanes_.panel_axis;
    c.atom = panels || lanes_.paired.count(x.tile) ? "copy.pack"
             : tile.dtype == held(tile)            ? "copy.plain"
                                                   : "copy.convert";
    c.buffer = x.tile;
    c.tensor = x.tensor;
    for (Expr e : x.index) c.index.push_back(bake(e));
    if (x.present) c.present = bake(x.present);
    c.frame = frame(tile.axes);
    add(ops, std::move(c), comment);
  }

  void lower(const Store& x, const std::string& comment, bool, std::vector<MappedOp>& ops) {
    const Tile& tile = k_.tile(x.tile);
    StoreOut s;
    const Sym fastest = lanes_.fastest.at(x.tile);
    const bool transposed = fastest && tile.axes.size() > 1 && fastest == lanes_.panel_axis;
    s.atom = transposed ? "store.transpose" : "store.plain";
    s.buffer = x.tile;
    s.tensor = x.tensor;
    for (Expr e : x.index) s.index.push_back(bake(e));
    s.frame = frame(tile.axes);
    if (fastest && fastest != lanes_.panel_axis) s.past = past_caches(x.index, bytes(held(tile)));
    add(ops, std::move(s), comment);
  }

  /// Where do these elements of all tasks together take more bytes than caches hold? Null: never, or it is not known.
  Expr past_caches(const std::vector<Expr>& index, int64_t element) const {
    Expr all = element;
    std::set<Sym> counted;
    for (Expr e : index)
      for (Sym s : free_symbols(e)) {
        const bool axis =
            std::any_of(t_.axes.begin(), t_.axes.end(), [&](const Axis& a) { return a.index == s; });
        if (axis && counted.insert(s).second) all = all * size_of(t_.axes, s);
      }
    all = simplify(bake(all));
    const Expr most = kCachedBytes;
    if (all.is(Op::Constant)) return all->number > most->number ? less(most, all) : Expr();
    return less(most, all);
  }

  void lower(const Map& x, const std::string& comment, bool masked, std::vector<MappedOp>& ops) {
    const Tile& tile = k_.tile(x.tile);
    const Expr value = value_in(x, masked);
    if (value == read(x.tile, own_axes(tile.axes))) return;
    add(ops, MapOp{x.tile, bake(value), frame(tile.axes), {}}, comment);
  }

  void lower(const Reduce& x, const std::string& comment, bool masked, std::vector<MappedOp>& ops) {
    const Tile& tile = k_.tile(x.tile);
    if (const Expr value = bake(value_in(x, masked)); x.reducer == Reducer::Sum && value.rational()) {
      Expr sum = value;
      for (Sym a : x.axes) sum = sum * frames_.at(a).extent;
      if (is_float(tile.dtype)) sum = cast(tile.dtype, sum);
      if (x.accumulate) sum = read(x.tile, own_axes(tile.axes)) + sum;
      add(ops, MapOp{x.tile, sum, frame(tile.axes), {}}, comment);
      return;
    }
    ReduceOp r;
    r.buffer = x.tile;
    r.reducer = x.reducer;
    r.axes = x.axes;
    r.value = bake(value_in(x, masked));
    r.accumulate = x.accumulate;
    r.frame = frame(axes_union(tile.axes, x.axes));
    add(ops, std::move(r), comment);
  }

  void lower(const Rank& x, const std::string& comment, bool masked, std::vector<MappedOp>& ops) {
    RankOp r;
    r.keys = x.keys;
    r.indices = x.indices;
    r.rank = x.rank;
    r.axis = x.axis;
    r.value = bake(x.value);
    r.at = bake(x.at);
    if (masked && x.present) r.present = bake(x.present);
    r.frame = frame(axes_union(k_.tile(x.keys).axes, {x.axis}));
    add(ops, std::move(r), comment);
  }

  ReduceOp sum_of_products(const Dot& x, Expr present, bool accumulate) const {
    const Tile& tile = k_.tile(x.tile);
    const Expr product = read(x.a, own_axes(k_.tile(x.a).axes)) * read(x.b, own_axes(k_.tile(x.b).axes));
    ReduceOp r;
    r.buffer = x.tile;
    r.reducer = Reducer::Sum;
    r.axes = x.axes;
    r.value = present ? select(bake(present), product, 0) : product;
    r.accumulate = accumulate;
    r.frame = frame(axes_union(tile.axes, x.axes));
    return r;
  }

  void lower(const Dot& x, const std::string& comment, bool masked, std::vector<MappedOp>& ops) {
    const Tile& tile = k_.tile(x.tile);
    const Expr present = masked ? x.present : Expr();
    const auto product = product_axes(lanes_, k_, x);
    if (!product) {
      add(ops, sum_of_products(x, present, x.accumulate), comment);
      return;
    }
    bool zero = !x.accumulate;
    const bool contracted_outside = std::any_of(product->outer.begin(), product->outer.end(),
                                                [&](Sym a) { return contains_axis(x.axes, a); });
    if (zero && contracted_outside) {  // several products add up
      add(ops, MapOp{x.tile, 0, frame(tile.axes), {}});
      zero = false;
    }
    const int vectors = lanes_.vectors.at(product->lane);
    const int rows = product->row ? rows_of_product(vectors, machine_.vector.registers) : 1;
    Expr uses = 1;
    for (Sym a : tile.axes)
      if (!contains_axis(k_.tile(product->lanes).axes, a)) uses = uses * frames_.at(a).extent;
    uses_[product->lanes] = uses;
    Mma mma;
    mma.atom = fmt::format("fma.{}x{}", rows, vectors);
    if (lanes_.by_pairs.count(&x))
      mma.atom = machine_.vector.bf16 == Bf16Unit::Tiles ? fmt::format("bf16_tiles.32x{}", vectors)
                                                         : fmt::format("bf16_dot.{}x{}", rows, vectors);
    mma.d = x.tile;
    mma.a = product->lanes;
    mma.b = product->broadcast;
    mma.contracted = x.axes;
    mma.zero = zero;
    mma.frame = frame(axes_union(tile.axes, x.axes));
    if (!present) {
      add(ops, std::move(mma), comment);
    } else {
      guard_absent(x, present, std::move(mma), comment, ops);
    }
  }

  /// Is the tile 0 or NaN where the terms of the dot are absent? Exponentials of c·u + v are, with c > 0 and u = −inf there, whatever v.
  bool vanishes_where_absent(const Dot& dot, Sym tile) const {
    std::map<Sym, bool> lowest, vanishes;  // −inf; 0 or NaN
    bool reached = false;
    for_each_stmt(k_.body, [&](const Stmt& s) {
      const Dot* d = std::get_if<Dot>(&s.node);
      reached = reached || d == &dot;
      const Sym out = written(s);
      if (reached || !out) return;
      bool is_lowest = false, is_zero = false;
      if (const Map* m = std::get_if<Map>(&s.node)) {
        const Expr value = value_in(*m, true);
        if (value.is(Op::Select) && value.arg(0) == dot.present)
          is_lowest = simplify(value.arg(2)) == Expr::real(-__builtin_inf());
        // Rounding keeps 0 and NaN.
        if (held(k_.tile(out)) == DType::bf16) {
          const Expr source = value.is(Op::Cast) ? value.arg(0) : value;
          if (source.is(Op::Read)) is_zero = vanishes[source->sym];
        }
        if (value.is(Op::Exp) || value.is(Op::Exp2))
          for (Sym u : tensors_read(value)) {
            if (!lowest[u]) continue;
            const Sym x = Sym::fresh({.name = "u", .kind = SymbolKind::Variable});
            const Expr source = read(u, own_axes(k_.tile(u).axes));
            const auto form =
                affine(rewrite(value.arg(0), [&](Expr e) { return e == source ? Expr(x) : e; }), {x});
            is_zero = is_zero || (form && provably_positive(form->coefficient[0]) &&
                                  !contains_axis(tensors_read(form->rest), u));
          }
      }
      lowest[out] = is_lowest;
      vanishes[out] = is_zero;
    });
    return reached && vanishes[tile];
  }

  /// Absent terms contribute nothing whatever the operands hold. Where the lanes operand is 0 for absent terms (weights behind a mask are) and the other
  /// is finite they add 0 by themselves; only otherwise is the sum taken with selects.
  void guard_absent(const Dot& x, Expr present, Mma mma, const std::string& comment,
                    std::vector<MappedOp>& ops) {
    const Sym flag = scratch("leak", DType::boolean);
    const auto any = [&](std::vector<Sym> axes, Expr condition, bool accumulate) {
      ReduceOp r;
      r.buffer = flag;
      r.reducer = Reducer::Any;
      r.value = condition;
      r.accumulate = accumulate;
      r.frame = frame(axes);
      r.axes = std::move(axes);
      add(ops, std::move(r));
    };
    const std::vector<Sym>&a = k_.tile(mma.a).axes, &b = k_.tile(mma.b).axes;
    const Expr weight = read(mma.a, own_axes(a));
    any(b, logical_not(less(make(Op::Abs, {read(mma.b, own_axes(b))}), Expr::infinity())), false);
    if (vanishes_where_absent(x, mma.a)) {
      any(a, make(Op::Ne, {weight, weight}), true);
    } else {
      std::vector<Sym> axes = a;
      for (Sym s : free_symbols(present))
        if (has_axis(k_, s) && contains_axis(axes_union(k_.tile(x.tile).axes, x.axes), s))
          axes = axes_union(axes, {s});
      any(axes, logical_and(logical_not(bake(present)), make(Op::Ne, {weight, 0})), true);
    }
    Vote vote;
    vote.condition = read(flag, {});
    vote.scope = Scope::Thread;
    add(vote.then, sum_of_products(x, present, !mma.zero), comment);
    add(vote.otherwise, std::move(mma), comment);
    add(ops, std::move(vote), "absent terms contribute nothing, whatever the operands hold");
  }

  void lower(const Loop& x, const std::string& comment, bool, std::vector<MappedOp>& ops) {
    const KernelAxis& axis = k_.axis(x.axis);
    const bool matters = mask_matters(x.body);
    fetch_chunks(k_, x, ops);
    for (size_t s = 0; s < x.segments.size();) {
      // Extents are clipped: where no statement asks for the mask, contiguous segments are one.
      size_t e = s + 1;
      const auto joins = [&](size_t k) {
        return !matters && bake(x.segments[k - 1].hi) == bake(x.segments[k].lo);
      };
      while (e < x.segments.size() && (joins(e) || (x.segments[e].masked == x.segments[s].masked &&
                                                    bake(x.segments[e - 1].hi) == bake(x.segments[e].lo))))
        ++e;
      MappedLoop loop;
      loop.var = axis.counter ? axis.counter : variable(x.axis.name() + "_chunk");
      loop.lo = bake(x.segments[s].lo);
      loop.hi = bake(x.segments[e - 1].hi);
      const bool masked = matters && x.segments[s].masked;
      if (axis.kind == KernelAxis::Kind::Stream)
        open_axis(axis, loop.body, masked ? x.segments[s].stop : Expr());
      lower(x.body, masked, loop.body);
      scale_at_products(loop.body);
      rows_beside(loop.body);
      if (axis.kind == KernelAxis::Kind::Stream) {
        read_ahead(axis, loop.body);
        read_in_place(loop.body, uses_);
        share_reading(out_, loop.body, axis.index, axis.index, axis.block);
      } else if (axis.kind == KernelAxis::Kind::Resident && !k_.grid.empty()) {
        share_reading(out_, loop.body, axis.index, k_.grid.back().index, k_.grid.back().block);
      }
      std::string text = comment;
      if (matters) text += (text.empty() ? "" : ", ") + std::string(masked ? "masked" : "plain");
      if (axis.kind == KernelAxis::Kind::Stream)
        add(ops, std::move(loop), text);
      else
        for (MappedOp& op : loop.body) ops.push_back(std::move(op));  // one chunk: no loop
      s = e;
    }
  }

  /// While a product runs, what the next one reads where it lies can be brought near; behind the last product of a chunk, what the first one reads of the
  /// next chunk. Copies and reductions read the next chunk themselves.
  void read_ahead(const KernelAxis& stream, std::vector<MappedOp>& ops) {
    std::vector<Mma*> products;
    const auto streamed = [&](const std::vector<Expr>& index) {
      return std::any_of(index.begin(), index.end(), [&](Expr e) { return depends_on(e, stream.index); });
    };
    for_each_op(ops, [&](MappedOp& op) {
      if (Mma* x = std::get_if<Mma>(&op.node)) products.push_back(x);
      if (Copy* x = std::get_if<Copy>(&op.node); x && !x->ahead.axis && streamed(x->index))
        x->ahead = {stream.index, stream.block};
      if (ReduceOp* x = std::get_if<ReduceOp>(&op.node))
        for (Sym s : tensors_read(x->value))
          if (auto view = views_.find(s); view != views_.end() && streamed(view->second.index))
            x->ahead = {stream.index, stream.block};
    });
    // One product alone finds its rows near: those behind the rows at hand are brought by the micro-kernel. Tile registers are faster than that.
    const auto by_tiles = [](const Mma* x) {
      const Atom* atom = find_atom(x->atom);
      return atom && atom->dtype == DType::bf16 && atom->k > 2;
    };
    const bool alone = products.size() == 1 && !by_tiles(products[0]);
    for (size_t k = 0; !alone && k < products.size(); ++k) {
      const bool last = k + 1 == products.size();
      const Sym next = products[last ? 0 : k + 1]->b;
      const auto view = views_.find(next);
      if (view == views_.end()) continue;
      if (!streamed(view->second.index)) continue;
      products[k]->next = next;
      products[k]->next_frame = frame(k_.tile(next).axes);
      if (!last) continue;
      for (AxisFrame& f : products[k]->next_frame) {
        if (f.axis != stream.index) continue;
        f.origin = f.origin + Expr(stream.block);
        f.extent =
            min(stream.block, (stream.end ? bake(stream.end) : size_of(t_.axes, stream.index)) - f.origin);
      }
    }
  }

  /// Maps that multiply a tile by a row are moved in front of the product that accumulates onto the tile next, where nothing in between knows the
  /// difference: there an emitter prints both as one.
  static void scale_at_products(std::vector<MappedOp>& ops) {
    for (size_t k = 0; k < ops.size(); ++k) {
      const auto* map = std::get_if<MapOp>(&ops[k].node);
      if (!map || !map->value.is(Op::Mul)) continue;
      const std::vector<Sym> reads = tensors_read(map->value);
      size_t at = k + 1;
      bool found = false;
      for (; at < ops.size() && !found; ++at) {
        // Where absent terms may leak into the product, it is taken in one of two ways: both scale.
        if (Vote* vote = std::get_if<Vote>(&ops[at].node)) {
          const auto* x = vote->otherwise.size() == 1 ? std::get_if<Mma>(&vote->otherwise[0].node) : nullptr;
          if (!x || x->d != map->buffer || x->zero ||
              contains_axis(tensors_read(vote->condition), map->buffer))
            break;
          vote->then.insert(vote->then.begin(), ops[k]);
          vote->otherwise.insert(vote->otherwise.begin(), ops[k]);
          ops.erase(ops.begin() + long(k));
          map = nullptr;
          break;
        }
        if (const auto* x = std::get_if<Mma>(&ops[at].node)) {
          if (x->d == map->buffer) found = !x->zero;
          if (x->d == map->buffer || x->a == map->buffer || x->b == map->buffer || contains_axis(reads, x->d))
            break;
          continue;
        }
        const Expr value = std::holds_alternative<MapOp>(ops[at].node) ? std::get<MapOp>(ops[at].node).value
                           : std::holds_alternative<ReduceOp>(ops[at].node)
                               ? std::get<ReduceOp>(ops[at].node).value
                               : Expr();
        if (!value || contains_axis(tensors_read(value), map->buffer)) break;
        const Sym written = std::holds_alternative<MapOp>(ops[at].node)
                                ? std::get<MapOp>(ops[at].node).buffer
                                : std::get<ReduceOp>(ops[at].node).buffer;
        if (written == map->buffer || contains_axis(reads, written)) break;
      }
      if (!map) {
        --k;
        continue;
      }
      if (!found || at == k + 1) continue;
      std::rotate(ops.begin() + long(k), ops.begin() + long(k) + 1, ops.begin() + long(at));
      --k;
    }
  }

  /// A product of one row is moved in front of the next product of many with the same lanes, where nothing in between knows the difference: there an
  /// emitter prints both as one, and what the lanes are read from passes once.
  void rows_beside(std::vector<MappedOp>& ops) const {
    const auto rows = [&](const Mma& m) { return out_.buffer(m.d).axes.size() > 1; };
    for (size_t k = 0; k + 1 < ops.size(); ++k) {
      const auto* one = std::get_if<Mma>(&ops[k].node);
      if (!one || rows(*one)) continue;
      for (size_t at = k + 1; at < ops.size(); ++at) {
        const auto* next = std::get_if<Mma>(&ops[at].node);
        if (next && next->a == one->a && rows(*next)) {
          const auto* scale = std::get_if<MapOp>(&ops[at - 1].node);  // which is printed with the product
          if (!scale || scale->buffer != next->d)
            std::rotate(ops.begin() + long(k), ops.begin() + long(k) + 1, ops.begin() + long(at));
          break;
        }
        if (reads(ops[at], one->d) || writes(ops[at], one->d) || writes(ops[at], one->a) ||
            writes(ops[at], one->b) ||
            !(next || std::holds_alternative<MapOp>(ops[at].node) ||
              std::holds_alternative<ReduceOp>(ops[at].node)))
          break;
      }
    }
  }

  void lower(const When& x, const std::string& comment, bool masked, std::vector<MappedOp>& ops) {
    Vote vote;
    vote.condition = bake(x.condition);
    vote.axes = x.axes;
    vote.frame = frame(x.axes);
    vote.scope = Scope::Thread;
    lower(x.body, masked, vote.then);
    add(ops, std::move(vote), comment);
  }
};

}  // namespace
}  // namespace cpu

MappedProgram map_cpu(const Program& elaborated, const TileProgram& t, const Machine& m, LayoutClass) {
  MappedProgram out;
  out.name = t.name;
  out.target = Target::Cpu;
  out.machine = m;
  out.axes = t.axes;
  out.scalars = t.scalars;
  out.workspaces = t.workspaces;
  out.chunk_tables = chunk_tables(t);
  for (const TileKernel& given : t.kernels) {
    const TileKernel k = cpu::with_nested_sums(t.axes, given);
    MappedKernel kernel = cpu::KernelMapper(t, k, m).run();
    const int64_t needed = kernel.local_bytes();
    if (needed > m.shared_bytes)
      throw RoomError({},
                      fmt::format("the tiles of `{}` need {} KiB of task-local memory, and a task has {} KiB",
                                  k.name, (needed + 1023) / 1024, m.shared_bytes / 1024),
                      "use smaller blocks or chunks, or stream the axis that is resident");
    out.kernels.push_back(std::move(kernel));
  }
  number_checks(elaborated, out);
  check_divisors(elaborated, out);
  for (MappedKernel& k : out.kernels) cpu::add_arguments(elaborated, out, k);
  return out;
}

}  // namespace tilewright
