#include "tilewright/tile/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tilewright/expr/simplify.h"
#include "tilewright/program/compared.h"
#include "tilewright/program/elaborate.h"
#include "tilewright/tile/index_range.h"
#include "tilewright/tile/statements.h"

namespace tilewright {

namespace {

/// Does the value itself, not a condition or an index in it, hold an element of an integer array or a cast to an integer?
bool holds_integers(const Program& p, Expr e) {
  const auto integer = [](DType t) { return !is_float(t) && t != DType::boolean; };
  if (is_boolean(e)) return false;
  if (e.is(Op::Cast)) return integer(e->dtype);
  if (e.is(Op::Read)) {
    if (const Input* in = p.input(e->sym)) return integer(in->dtype);
    const Definition* d = p.definition(e->sym);
    return d && d->dtype && integer(*d->dtype);
  }
  const size_t first = e.is(Op::Select) ? 1 : 0;
  return std::any_of(e.args().begin() + std::min(first, e.args().size()), e.args().end(),
                     [&](Expr a) { return holds_integers(p, a); });
}

/// Are elements of integer arrays added up, multiplied or compared by a reduction? f32 would round them from 2^24 on.
bool reduces_integers(const Program& p, const Derivation& d) {
  const auto exact = [&](Expr e) { return is_integer(e) && holds_integers(p, e); };
  const auto inside = [&](Expr e) {
    bool found = false;
    if (e)
      rewrite(e, [&](Expr x) {
        found = found || (x.is(Op::Reduce) && exact(x.arg(0)));
        return x;
      });
    return found;
  };
  for (const Pass& pass : d.passes) {
    for (const Point& q : pass.state.points)
      if (exact(q.u) || inside(q.u) || inside(q.present)) return true;
    for (const Component& c : pass.state.components)
      if (exact(c.lift) || inside(c.lift) || inside(c.present)) return true;
  }
  for (const CascadeOutput& o : d.cascade.outputs)
    if (inside(o.value)) return true;
  return false;
}

}  // namespace

KernelBuilder::KernelBuilder(const Program& p, const Derivation& d, const Plan& plan, TileProgram& out,
                             std::string name)
    : p_(p),
      d_(d),
      plan_(plan),
      out_(out),
      frames_(1),
      machine_(
          out.scalars, [this](Expr e) { return axes_in(e); },
          [this](const std::vector<Sym>& domain) { return stream_ && contains_axis(domain, stream_); },
          [this] { return real_; }) {
  k_.name = std::move(name);
  for (const Input& in : p.inputs)
    if (in.dtype == DType::f64) real_ = DType::f64;
  if (reduces_integers(p, d)) real_ = DType::f64;
}

// ---- axes ----

namespace {

Sym counter_of(Sym axis, const char* what) {
  return Sym::fresh({.name = fmt::format("{}_{}", axis.name(), what),
                     .kind = SymbolKind::Variable,
                     .integer = true,
                     .nonnegative = true});
}

}  // namespace

void KernelBuilder::add_group(const Cut& cut) {
  k_.grid.push_back({cut.axis,
                     KernelAxis::Kind::Group,
                     cut.block,
                     cut.piece ? cut.piece : cut.block,
                     counter_of(cut.axis, "block"),
                     {},
                     {}});
}
void KernelBuilder::add_part(Sym part) {
  k_.grid.push_back({part, KernelAxis::Kind::Part, 1, 1, counter_of(part, "number"), {}, {}});
}
void KernelBuilder::add_stream(Sym axis, int64_t chunk, bool resident) {
  stream_ = axis;
  if (resident)
    k_.inner.push_back({axis, KernelAxis::Kind::Resident, chunk, chunk, {}, {}, {}});
  else
    k_.inner.push_back({axis, KernelAxis::Kind::Stream, chunk, chunk, counter_of(axis, "chunk"), {}, {}});
}
void KernelBuilder::add_whole(Sym axis, int64_t size) {
  if (!has_axis(k_, axis)) k_.inner.push_back({axis, KernelAxis::Kind::Whole, size, size, {}, {}, {}});
}

const KernelAxis& KernelBuilder::stream() const { return k_.axis(stream_); }
bool KernelBuilder::resident() const { return stream_ && stream().kind == KernelAxis::Kind::Resident; }

bool KernelBuilder::is_tile_axis(Sym index) const {
  if (!has_axis(k_, index)) return false;
  const KernelAxis& a = k_.axis(index);
  return !(a.block == 1 && (a.kind == KernelAxis::Kind::Group || a.kind == KernelAxis::Kind::Part));
}

std::vector<Sym> KernelBuilder::tile_axes(const std::vector<Sym>& axes) const {
  std::vector<Sym> kept;
  for (Sym s : axes)
    if (is_tile_axis(s)) kept.push_back(s);
  return kept;
}

std::vector<Sym> KernelBuilder::axes_in(Expr e) const {
  std::vector<Sym> free = free_symbols(e), axes;
  for (const auto* list : {&k_.grid, &k_.inner})
    for (const KernelAxis& a : *list)
      if (contains_axis(free, a.index) && is_tile_axis(a.index)) axes.push_back(a.index);
  return axes;
}

// ---- tiles ----

std::string KernelBuilder::unique(std::string name) {
  int n = ++names_[name];
  return n == 1 ? name : unique(fmt::format("{}{}", name, n));
}

Sym KernelBuilder::new_tile(std::string name, std::vector<Sym> axes, DType dtype, Tile::Use use) {
  Sym sym =
      Sym::fresh({.name = unique(std::move(name)), .kind = SymbolKind::Tile, .integer = !is_float(dtype)});
  k_.tiles.push_back({sym, std::move(axes), dtype, Level::Registers, use, false, 1});
  return sym;
}

void KernelBuilder::declare(Sym sym, const std::vector<Sym>& axes, DType dtype, Tile::Use use) {
  ++names_[sym.name()];
  full_axes_[sym] = axes;
  k_.tiles.push_back({sym, tile_axes(axes), dtype, Level::Registers, use, false, 1});
}

Expr KernelBuilder::at(Sym tile) const {
  const std::vector<Sym>& axes = k_.tile(tile).axes;
  return read(tile, {axes.begin(), axes.end()});
}

// ---- statements ----

void KernelBuilder::forget(Sym tile) {
  auto stale = [&](const std::pair<const Expr, Sym>& entry) {
    if (entry.second == tile) return true;
    std::vector<Sym> read = tensors_read(entry.first);
    return std::find(read.begin(), read.end(), tile) != read.end();
  };
  for (Frame& f : frames_) std::erase_if(f.known, stale);
}

void KernelBuilder::put(decltype(Stmt::node) node, std::string comment) {
  Stmt s{std::move(node), std::move(comment)};
  for (Sym tile : all_written(s)) {
    forget(tile);
    if (current_ > 0) changing_.insert(tile);
  }
  frames_[current_].body.push_back(std::move(s));
}

void KernelBuilder::open_loop(const std::vector<Sym>& changing) {
  TW_CHECK(frames_.size() == 1, "loops do not nest");
  for (Sym s : changing) {
    forget(s);
    changing_.insert(s);
  }
  frames_.emplace_back();
  current_ = 1;
}

void KernelBuilder::close_loop(std::vector<Segment> segments, std::vector<Expr> presents) {
  Body body = std::move(frames_.back().body);
  frames_.pop_back();
  current_ = 0;
  put(Loop{stream_, std::move(segments), std::move(body), std::move(presents)});
  for (const auto& entry : loads_)
    if (changing_.count(entry.second)) earlier_loads_.insert(entry);
  std::erase_if(loads_, [&](const auto& entry) { return changing_.count(entry.second) != 0; });
  exponentials_.clear();
  changing_.clear();
}

void KernelBuilder::open_when() {
  frames_.emplace_back();
  current_ = frames_.size() - 1;
}

void KernelBuilder::close_when(Expr condition, std::vector<Sym> axes, bool slow) {
  Body body = std::move(frames_.back().body);
  frames_.pop_back();
  current_ = frames_.size() - 1;
  put(When{condition, std::move(axes), std::move(body), slow});
}

size_t KernelBuilder::frame_for(Expr e) const {
  if (current_ == 0) return 0;
  if (stream_ && depends_on(e, stream_)) return current_;
  for (Sym s : tensors_read(e))
    if (changing_.count(s)) return current_;
  return 0;
}

Sym KernelBuilder::known(Expr machine) const {
  for (size_t f = current_ + 1; f-- > 0;)
    if (auto it = frames_[f].known.find(machine); it != frames_[f].known.end()) return it->second;
  return {};
}

Sym KernelBuilder::remember(size_t frame, Expr machine, Sym tile) {
  return frames_[frame].known[machine] = tile;
}

// ---- from the derivation to tiles ----

Expr KernelBuilder::tiled(Expr e, Expr condition) {
  memo_.clear();
  return simplify(tiled_node(bake(p_.axes, e), condition));
}

Expr KernelBuilder::tiled_node(Expr e, Expr condition) {
  if (e.args().empty() && !e.is(Op::Read)) return e;
  auto key = std::make_pair(e, condition);
  if (auto it = memo_.find(key); it != memo_.end()) return it->second;
  auto arguments = [&] {
    std::vector<Expr> args;
    for (Expr a : e.args()) args.push_back(tiled_node(a, condition));
    return args;
  };
  Expr result;
  if (e.is(Op::Select)) {
    Expr c = simplify(tiled_node(e.arg(0), condition));
    Expr then = tiled_node(e.arg(1), conjunction(condition, c));
    Expr otherwise = tiled_node(e.arg(2), conjunction(condition, simplify(logical_not(c))));
    result = select(c, then, otherwise);
  } else if (e.is(Op::Reduce)) {
    result = inner_reduction(e, condition);
  } else if (e.is(Op::Read) && p_.input(e->sym)) {
    result = load(read(e->sym, arguments()), condition);
  } else if (e.is(Op::Read)) {
    std::vector<Expr> args = arguments();
    auto replaced = [&](const std::vector<Sym>& axes, Expr v) {
      Substitution s;
      for (size_t i = 0; i < axes.size(); ++i)
        if (args.at(i) != Expr(axes[i])) s.emplace_back(axes[i], args[i]);
      return tiled_node(bake(p_.axes, s.empty() ? v : substitute(v, s)), condition);
    };
    for (size_t k = 0; !result && k < d_.cascade.reductions.size(); ++k) {
      const Reduction& r = d_.cascade.reductions[k];
      if (r.result == e->sym) result = replaced(r.axes, d_.finish[k]);
    }
    if (!result && has_tile(k_, e->sym)) {
      const Tile& t = k_.tile(e->sym);
      auto is = [&](const std::vector<Sym>& axes) {
        return std::equal(axes.begin(), axes.end(), args.begin(), args.end(),
                          [](Sym s, Expr a) { return a == Expr(s); });
      };
      auto full = full_axes_.find(e->sym);
      if (is(t.axes) || (full != full_axes_.end() && is(full->second)))
        result = at(e->sym);
      else
        throw UserError(p_.span_of(e),
                        fmt::format("`{}` is read at other coordinates than those it is computed at: {}",
                                    e->sym.name(), written(e)),
                        "results of a reduction are read at their own axes only; write the value that is "
                        "picked as a reduction of its own");
    }
    if (!result) {
      const Definition* def = p_.definition(e->sym);
      TW_CHECK(def, "a value for " + to_string(e));
      Expr v = inlined(p_, e->sym);
      result = replaced(def->axes, def->dtype ? cast(*def->dtype, v) : v);
    }
  } else {
    result = with_args(e, arguments());
    // What a tile holds is rounded as a whole already.
    const Expr x = is_whole(result) ? result.arg(0) : Expr();
    if (x && x.is(Op::Read) && has_tile(k_, x->sym)) {
      const DType t = k_.tile(x->sym).dtype;
      if (is_float(t) && mantissa_bits(t) <= mantissa_bits(result->dtype)) result = x;
    }
  }
  return memo_[key] = result;
}

bool KernelBuilder::inside(Expr index, Sym axis) const {
  if (index.is(Op::Symbol) && index->sym.kind() == SymbolKind::Index && index->sym.size() == axis.size())
    return true;
  auto range = index_range(index, [](Sym s) {
    return std::optional<IndexRange>(IndexRange{0, Expr(s.size()) - 1});
  });
  if (!range) return false;
  // Declared sizes (literals, and expressions over other sizes) in place of their symbols, as often as they
  // refer to each other.
  Expr lo = range->lo, room = Expr(axis.size()) - 1 - range->hi;
  for (size_t round = 0; round < p_.axes.size(); ++round) {
    Substitution s;
    for (const Axis& a : p_.axes)
      if (a.size) s.emplace_back(a.index.size(), a.size);
    lo = substitute(lo, s);
    room = substitute(room, s);
  }
  return provably_nonnegative(simplify(lo)) && provably_nonnegative(simplify(room));
}

bool KernelBuilder::changes(Expr e) const {
  return std::ranges::any_of(tensors_read(e), [&](Sym s) { return changing_.count(s) != 0; });
}

bool KernelBuilder::widen(Sym tile, Expr needed) {
  const auto loads = [](const Stmt& s, Sym t) {
    auto* x = std::get_if<Load>(&s.node);
    return x && x->tile == t;
  };
  size_t f = 0;
  auto place = frames_[0].body.end();
  for (f = frames_.size(); f-- > 0;) {
    Body& body = frames_[f].body;
    place = std::ranges::find_if(body, [&](const Stmt& s) { return loads(s, tile); });
    if (place != body.end()) break;
  }
  TW_CHECK(f < frames_.size(), "the tile is loaded in an open body");
  Expr& present = std::get<Load>(place->node).present;
  if (is_true(present)) return true;
  if (f == 0 && current_ > 0 && changes(needed)) return false;
  // What the condition reads and what comes after this load: other loads can come before it.
  const std::vector<Sym> read = tiles_read(k_, needed);
  std::set<Sym> wanted(read.begin(), read.end()), early;
  const auto writes_wanted = [&](const Stmt& s) {
    bool found = std::ranges::any_of(all_written(s), [&](Sym t) { return wanted.count(t) != 0; });
    if (const Body* inner = inner_body(s))
      for_each_stmt(*inner, [&](const Stmt& x) {
        found = found || std::ranges::any_of(all_written(x), [&](Sym t) { return wanted.count(t) != 0; });
      });
    return found;
  };
  for (size_t g = frames_.size(); g-- > f;) {
    Body& body = frames_[g].body;
    const size_t first = g == f ? size_t(place - body.begin()) : 0;
    for (size_t i = body.size(); i-- > first;) {
      if (!writes_wanted(body[i])) continue;
      auto* x = std::get_if<Load>(&body[i].node);
      if (g != f || i == first || !x) return false;
      early.insert(x->tile);
      for (Sym s : reads(k_, body[i])) wanted.insert(s);
    }
  }
  present = simplify(logical_or(present, needed));
  std::stable_partition(place, frames_[f].body.end(), [&](const Stmt& s) {
    auto* x = std::get_if<Load>(&s.node);
    return x && early.count(x->tile) != 0;
  });
  return true;
}

Expr KernelBuilder::load(Expr e, Expr condition) {
  const Input& input = *p_.input(e->sym);
  const std::vector<Sym> piece_axes = input.axes();
  bool proved = true;
  for (size_t i = 0; i < e.args().size(); ++i) proved = proved && inside(e.arg(i), piece_axes.at(i));
  // What of the condition concerns the tile's own elements.
  std::vector<Sym> axes;
  for (Expr i : e.args()) axes = axes_union(axes, axes_in(i));
  Expr needed = truth();
  if (!proved) {
    std::vector<Expr> parts = condition.is(Op::And) ? condition.args() : std::vector<Expr>{condition};
    for (Expr part : parts) {
      bool own = true;
      for (Sym s : axes_in(part)) own = own && contains_axis(axes, s);
      if (own) needed = conjunction(needed, part);
    }
  }
  if (auto it = loads_.find(e); it != loads_.end()) {
    if (proved || widen(it->second, needed)) return at(it->second);
    earlier_loads_.erase(e);  // the tile holds elements that are needed elsewhere
  }
  const bool along = stream_ && contains_axis(axes, stream_);
  const bool keep =
      resident() || std::find(plan_.keep.begin(), plan_.keep.end(), input.sym) != plan_.keep.end();
  size_t frame = frame_for(e);
  if (current_ > 0 && !along && !keep) frame = current_;
  if (along && resident()) frame = 0;
  if (current_ > 0 && (changes(e) || changes(needed))) frame = current_;
  if (frame > 1) frame = 1;  // never inside a When: both sides need it
  Sym tile;
  if (auto it = earlier_loads_.find(e); it != earlier_loads_.end() && frame > 0) {
    tile = it->second;
  } else {
    tile = new_tile(input.sym.name(), axes, input.dtype, Tile::Use::Operand);
    k_.tiles.back().kept = frame == 0;
  }
  const size_t saved = std::exchange(current_, frame);
  put(Load{tile, input.sym, e.args(), proved ? Expr() : needed});
  current_ = saved;
  loads_[e] = tile;
  return at(tile);
}

Expr KernelBuilder::inner_reduction(Expr e, Expr condition) {
  // Bound symbols become the program's own where those are not free in the body: equal contractions are then
  // one.
  std::vector<Sym> bound = e->bound;
  Expr body = e.arg(0);
  for (Sym& s : bound) {
    for (const Axis& a : p_.axes) {
      if (a.index.size() != s.size() || a.index == s || depends_on(body, a.index) ||
          contains_axis(bound, a.index))
        continue;
      body = substitute(body, {{s, a.index}});
      s = a.index;
      break;
    }
    if (has_axis(k_, s) && k_.axis(s).kind == KernelAxis::Kind::Whole) continue;
    const Axis& axis = *std::find_if(p_.axes.begin(), p_.axes.end(),
                                     [&](const Axis& a) { return a.index.size() == s.size(); });
    if (!axis.baked())
      throw UserError(
          axis.span,
          fmt::format("{} is reduced inside a chunk and has no literal size, so a tile cannot hold it whole",
                      described(axis)),
          hint_of_literal(axis));
    if (has_axis(k_, s)) {  // grouped or streamed as well: a copy of its own
      Sym& copy = copies_[s];
      if (!copy || depends_on(body, copy)) {
        SymbolInfo info = s.info();
        info.written = s.written();
        info.name += "_2";
        copy = Sym::fresh(info);
      }
      body = substitute(body, {{s, copy}});
      s = copy;
    }
    add_whole(s, axis.size.rational()->num());
  }
  const Expr inside = simplify(tiled_node(body, condition));
  const auto tiled_reduction = [&](Reducer r, Expr value) {
    return rewrite(simplify(reduce(r, bound, value)),
                   [&](Expr x) { return x.is(Op::Reduce) ? at(reduction_tile(x)) : x; });
  };
  if (e->reducer != Reducer::Argmax && e->reducer != Reducer::Argmin)
    return tiled_reduction(e->reducer, inside);
  // The first position of the best, among which NaN is before all; one is present (elaborate.h) unless there is none at all.
  const Expr best = tiled_reduction(e->reducer == Reducer::Argmax ? Reducer::Max : Reducer::Min, inside);
  const Expr is_best = logical_or(equal(inside, best), logical_not(less_equal(inside, Expr::infinity())));
  const int64_t count = k_.axis(bound[0]).block;
  if (count == 0) return Expr(-1);
  return tiled_reduction(Reducer::Min, select(is_best, Expr(bound[0]), Expr(count)));
}

/// A least index where a condition holds, else a number: 32 bits hold it.
static bool is_position(Expr reduction) {
  const Expr v = reduction.arg(0);
  const auto index = [](Expr x) { return x.is(Op::Symbol) && x->sym.kind() == SymbolKind::Index; };
  return reduction->reducer == Reducer::Min && v.is(Op::Select) &&
         (index(v.arg(1)) ? v.arg(2).number().has_value() : index(v.arg(2)) && v.arg(1).number());
}

Sym KernelBuilder::reduction_tile(Expr e) {
  if (Sym tile = known(e)) return tile;
  const size_t frame = frame_for(e), saved = std::exchange(current_, frame);
  DType dtype = real_;
  if (e->reducer == Reducer::Any || e->reducer == Reducer::All) dtype = DType::boolean;
  if (is_position(e)) dtype = DType::i32;
  const std::vector<Sym> axes = axes_in(e);
  std::vector<Piece> pieces;
  std::vector<Expr> others;
  if (e->reducer == Reducer::Sum)
    for (Expr term : e.arg(0).is(Op::Add) ? e.arg(0).args() : std::vector<Expr>{e.arg(0)}) {
      Piece piece;
      if (factorise(term, e->bound, axes, piece))
        pieces.push_back(piece);
      else
        others.push_back(term);
    }
  else
    others.push_back(e.arg(0));
  if (!others.empty()) {
    Piece piece;
    piece.kind = Piece::Kind::Reduce;
    piece.reducer = e->reducer;
    piece.value = others.size() == 1 ? others[0] : simplify(make(Op::Add, others));
    pieces.push_back(piece);
  }
  Sym tile = new_tile(pieces[0].kind == Piece::Kind::Dot ? "S" : "s", axes, dtype);
  for (size_t i = 0; i < pieces.size(); ++i) {
    pieces[i].tile = tile;
    pieces[i].axes = e->bound;
    pieces[i].accumulate = i > 0;
  }
  emit(std::move(pieces));
  remember(frame, e, tile);
  current_ = saved;
  return tile;
}

Expr KernelBuilder::binary_scale(Expr scale) {
  const Expr binary = simplify(bake(p_.axes, scale) / log(2));
  return binary.is_constant(1) ? binary : scalar(binary);
}

Expr KernelBuilder::with_known_exponentials(Expr e) {
  if (exponentials_.empty()) return e;
  return outside_whole_values(e, [&](Expr x) {
    if (!x.is(Op::Exp)) return x;
    for (const auto& [exponent, tile] : exponentials_)
      if (simplify(x.arg(0) - exponent).is_constant(0)) return at(tile);
    return x;
  });
}

void KernelBuilder::finish() {
  TW_CHECK(frames_.size() == 1 && current_ == 0, "all bodies are closed");
  k_.body = std::move(frames_[0].body);
  tidy(k_, plan_.stages);
  out_.kernels.push_back(std::move(k_));
}

}  // namespace tilewright
