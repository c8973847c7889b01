// build_tiles: axes, passes, outputs and kernels of a plan.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tilewright/expr/simplify.h"
#include "tilewright/program/compared.h"
#include "tilewright/tile/pass.h"
#include "tilewright/tile/statements.h"
#include "tilewright/tile/unscale.h"

namespace tilewright {
namespace {

class Builder {
 public:
  Builder(const Program& p, Derivation d, const Plan& plan) : p_(p), d_(std::move(d)), plan_(plan) {}

  TileProgram run() {
    out_.name = p_.name;
    out_.axes = p_.axes;
    out_.plan = plan_;
    if (plan_.split > 0)
      split();
    else
      single();
    return std::move(out_);
  }

 private:
  void add_axes(KernelBuilder& b) {
    for (const Cut& c : plan_.group) b.add_group(c);
  }
  /// Rows share nothing when states are merged, so that a GPU takes them one by one, each in a block of its own.
  void add_merged_axes(KernelBuilder& b) {
    const std::vector<Point>& points = d_.passes[0].state.points;
    for (const Cut& c : plan_.group) {
      const bool row = std::any_of(points.begin(), points.end(),
                                   [&](const Point& x) { return contains_axis(x.axes, c.axis); });
      b.add_group(plan_.feeds_units() && row ? Cut{c.axis, 1, 1} : c);
    }
  }
  void add_whole(KernelBuilder& b) {
    for (Sym a : plan_.whole) {
      auto size = p_.axis(a).size.rational();
      b.add_whole(a, size->num());
    }
  }

  void single() {
    KernelBuilder b(p_, d_, plan_, out_, p_.name);
    add_axes(b);
    b.add_stream(plan_.stream, plan_.chunk, plan_.resident);
    add_whole(b);
    for (const Pass& pass : d_.passes) PassBuilder::declare(b, pass.state);
    if (plan_.resident) {
      b.open_loop({});
      for (const Pass& pass : d_.passes) {
        PassBuilder(b, pass.state, plan_.guard).chunk();
        store_outputs(b, pass.stored);
      }
      b.close_loop({{0, 1, true}});
    } else {
      for (const Pass& pass : d_.passes) stream_pass(b, pass);
    }
    store_rest(b);
    b.finish();
    order_blocks(out_.kernels.back());
  }

  void stream_pass(KernelBuilder& b, const Pass& pass) {
    if (pass.state.points.empty() && pass.state.components.empty() && pass.stored.empty()) return;
    PassBuilder::initialise(b, pass.state);
    b.open_loop(PassBuilder::tiles(pass.state));
    PassBuilder(b, pass.state, plan_.guard).chunk();
    store_outputs(b, pass.stored);
    std::vector<Expr> presents;
    std::vector<Segment> parts = segments(b, pass, presents);
    b.close_loop(std::move(parts), std::move(presents));
  }

  /// Chunks that some part of the pass may need; those that every part needs whole are plain. `presents` receives what they are made of.
  std::vector<Segment> segments(KernelBuilder& b, const Pass& pass, std::vector<Expr>& presents) {
    auto add = [&](Expr present) {
      Expr e = simplify(bake(p_.axes, present));
      if (std::find(presents.begin(), presents.end(), e) == presents.end()) presents.push_back(e);
    };
    for (const Point& x : pass.state.points) add(x.present);
    for (const Component& c : pass.state.components) add(c.present);
    if (!pass.stored.empty()) add(truth());
    const TileKernel& k = b.kernel();
    const bool all = std::any_of(presents.begin(), presents.end(), [](Expr e) { return is_true(e); });
    const Expr some = all ? truth() : presents.size() == 1 ? presents[0] : make(Op::Or, presents);
    const Expr every = presents.size() == 1 ? presents[0] : make(Op::And, presents);
    const bool found =
        (plan_.bounds == BoundsBy::Host || plan_.bounds == BoundsBy::Device) && !tensors_read(every).empty();
    MaskBounds bounds = found ? from_table(b, some, every) : analyse_masks(presents, k, b.stream());
    for (Expr* e : {&bounds.begin, &bounds.full_begin, &bounds.full_end, &bounds.limit, &bounds.stop})
      if (*e) *e = simplify(bake(p_.axes, *e));
    if (found) presents.clear();
    return segments_of(bounds);
  }

  /// Bounds that a step in front of the kernel finds: one row of a table for each block that the mask tells apart.
  MaskBounds from_table(KernelBuilder& b, Expr some, Expr every) {
    ChunkTable table;
    table.stream = b.stream();
    table.some = some;
    table.every = every;
    const std::string stream = table.stream.index.name();
    auto added = [&](const std::string& name, Expr size) {
      Sym length = Sym::fresh({.name = name, .kind = SymbolKind::Size, .integer = true, .nonnegative = true});
      Sym index = Sym::fresh({.name = name,
                              .kind = SymbolKind::Index,
                              .integer = true,
                              .nonnegative = true,
                              .size = &length.info()});
      out_.axes.push_back({index, size, {}});
      return index;
    };
    Workspace w{Sym::fresh({.name = stream + "_chunks", .kind = SymbolKind::Tensor}), {}, DType::i64};
    for (const KernelAxis& a : b.kernel().grid) {
      auto mentions = [&](Expr e) { return e && (depends_on(e, a.index) || depends_on(e, a.counter)); };
      if (!mentions(some) && !mentions(every) && !mentions(table.stream.begin) && !mentions(table.stream.end))
        continue;
      w.axes.push_back(added(a.index.name() + "_blocks", ceildiv(size_of(out_.axes, a.index), a.block)));
      table.rows.push_back(a);
    }
    w.axes.push_back(added("bound", 4));
    table.table = w.sym;
    for (const char* name : {"begin", "full", "masked", "end"})
      table.bounds.push_back(Sym::fresh(
          {.name = stream + "_" + name, .kind = SymbolKind::Variable, .integer = true, .nonnegative = true}));
    out_.workspaces.push_back(std::move(w));
    const std::vector<Sym> x = table.bounds;
    b.kernel().chunk_tables.push_back(std::move(table));
    return {x[0], x[1], x[2], x[3], {}};
  }

  DType dtype_of(const KernelBuilder& b, Expr value) const {
    if (is_boolean(value)) return DType::boolean;
    return is_integer(value) ? DType::i64 : b.real();
  }

  /// A definition of a narrow dtype rounds before its output, of another dtype, is stored.
  Expr rounded_by_definition(const KernelBuilder& b, const Output& output, Expr value) const {
    for (const Definition& d : p_.definitions)
      if (d.sym == output.sym && d.dtype && *d.dtype != output.dtype && is_float(*d.dtype) &&
          mantissa_bits(*d.dtype) < mantissa_bits(b.real()))
        return cast(*d.dtype, value);
    return value;
  }

  /// Values into tiles, then into the outputs' arrays.
  void store(KernelBuilder& b, const std::vector<const CascadeOutput*>& outputs) {
    std::vector<Piece> pieces;
    std::vector<std::pair<const Output*, Sym>> stores;
    for (const CascadeOutput* o : outputs) {
      const Output& output = p_.outputs[o->output];
      Expr value = rounded_by_definition(b, output,
                                         simplify(b.with_known_exponentials(guarded(b, b.tiled(o->value)))));
      if (value.is(Op::Read) && has_tile(b.kernel(), value->sym) &&
          b.kernel().tile(value->sym).axes.size() == b.tile_axes(output.axes()).size()) {
        stores.emplace_back(&output, value->sym);
        continue;
      }
      Piece piece;
      std::vector<Expr> at;
      for (Sym a : output.axes()) at.push_back(a);
      piece.tile = b.new_tile(output.sym.name(), b.axes_in(read(output.sym, at)), dtype_of(b, value));
      piece.value = value;
      piece.comment = "finish";
      pieces.push_back(piece);
      stores.emplace_back(&output, piece.tile);
    }
    b.emit(std::move(pieces));
    for (const auto& [output, tile] : stores) {
      std::vector<Expr> index;
      for (Sym a : output->axes()) index.push_back(a);
      b.put(Store{output->sym, std::move(index), tile});
    }
  }

  /// where(x == −inf, 0, exp(x − ρ)) with a maximum ρ of x needs no test of elements when a ρ of −inf counts
  /// as 0: then x is −inf as well.
  Expr guarded(KernelBuilder& b, Expr value) {
    const Expr none = Expr::real(-__builtin_inf());
    return outside_whole_values(value, [&](Expr x) {
      if (!x.is(Op::Select) || !x.arg(2).is_constant(0) || !x.arg(0).is(Op::Ne) || x.arg(0).arg(1) != none)
        return x;
      Expr e = x.arg(1);
      if (!e.is(Op::Exp)) return x;
      for (const Pass& pass : d_.passes)
        for (const Point& p : pass.state.points) {
          if (p.kind != Point::Kind::Maximum || !depends_on_tile(e.arg(0), p.var)) continue;
          const Expr rho = b.at(p.var), scale = bake(p_.axes, p.scale), u = b.tiled(p.u);
          if (!simplify(e.arg(0) - (scale * u - scale * rho)).is_constant(0) ||
              !is_scaled(u, x.arg(0).arg(0)))
            continue;
          Expr known = b.with_known_exponentials(e);
          return known != e ? known : exp(simplify(scale * u - scale * select(equal(rho, none), 0, rho)));
        }
      return x;
    });
  }
  static bool depends_on_tile(Expr e, Sym tile) {
    std::vector<Sym> read = tensors_read(e);
    return std::find(read.begin(), read.end(), tile) != read.end();
  }
  /// u = c·core with a positive scalar c.
  static bool is_scaled(Expr u, Expr core) {
    Expr c = simplify(u / core);
    return is_scalar(c) && provably_positive(c);
  }

  void store_outputs(KernelBuilder& b, const std::vector<size_t>& stored) {
    std::vector<const CascadeOutput*> outputs;
    for (size_t k : stored) outputs.push_back(&d_.cascade.outputs[k]);
    store(b, outputs);
  }
  void store_rest(KernelBuilder& b) {
    std::vector<const CascadeOutput*> outputs;
    for (const CascadeOutput& o : d_.cascade.outputs)
      if (!o.along_stream) outputs.push_back(&o);
    store(b, outputs);
  }

  /// The value that a param has unless a launch says another; 0 of other symbols and of params without one.
  int64_t usual(Sym s) const {
    for (const Param& q : p_.params)
      if (q.sym == s && q.value && q.value.number()) return int64_t(*q.value.number());
    return 0;
  }

  /// Blocks are ordered from the end where later ones have more chunks, as seen at a typical size.
  void order_blocks(TileKernel& k) {
    if (k.grid.empty() || k.grid.back().kind != KernelAxis::Kind::Group) return;
    const KernelAxis& last = k.grid.back();
    const int64_t size = 1 << 14, blocks = (size + last.block - 1) / last.block;
    for_each_stmt(k.body, [&](const Stmt& s) {
      auto* loop = std::get_if<Loop>(&s.node);
      if (!loop) return;
      auto chunks = [&](int64_t block) -> int64_t {
        std::map<Sym, int64_t> values;
        int64_t n = 0;
        for (const Segment& g : loop->segments)
          for (Expr e : {g.lo, g.hi})
            for (Sym v : free_symbols(e))
              values[v] = v.kind() == SymbolKind::Size ? size : v == last.counter ? block : usual(v);
        for (const Segment& g : loop->segments)
          n += evaluate_integer(g.hi, values) - evaluate_integer(g.lo, values);
        return n;
      };
      if (blocks > 1 && chunks(blocks - 1) > chunks(0)) k.heaviest_first = true;
    });
  }

  /// Parts of the stream leave their states in workspaces; a second kernel merges them.
  void split() {
    TW_CHECK(d_.passes.size() == 1, "one pass");
    const State& state = d_.passes[0].state;
    Sym length = Sym::fresh({.name = plan_.stream.name() + "_parts",
                             .kind = SymbolKind::Size,
                             .integer = true,
                             .nonnegative = true});
    Sym part = Sym::fresh({.name = plan_.stream.name() + "_part",
                           .kind = SymbolKind::Index,
                           .integer = true,
                           .nonnegative = true,
                           .size = &length.info()});
    out_.axes.push_back({part, ceildiv(plan_.stream.size(), plan_.split), {}});
    std::vector<std::pair<Sym, Sym>> workspaces;  // symbol of the state -> workspace
    std::vector<std::vector<Sym>> axes;           // full axes, without the part

    KernelBuilder b(p_, d_, plan_, out_, p_.name + "_parts");
    add_axes(b);
    b.add_part(part);
    b.add_stream(plan_.stream, plan_.chunk, false);
    add_whole(b);
    for (KernelAxis& a : b.kernel().inner)
      if (a.index == plan_.stream) {
        Expr number = b.kernel().grid.back().counter;
        a.begin = number * Expr(plan_.split);
        a.end = min((number + 1) * Expr(plan_.split), plan_.stream.size());
      }
    PassBuilder::declare(b, state);
    stream_pass(b, d_.passes[0]);
    auto keep = [&](Sym sym, const std::vector<Sym>& own) {
      Workspace w{Sym::fresh({.name = sym.name() + "_parts", .kind = SymbolKind::Tensor}),
                  {part},
                  b.kernel().tile(sym).dtype};
      w.axes.insert(w.axes.end(), own.begin(), own.end());
      // Conditions and exact integers fit f32 and f64; indices of lists stay integers.
      if (w.dtype != DType::f64 && w.dtype != DType::i64) w.dtype = DType::f32;
      std::vector<Expr> index(w.axes.begin(), w.axes.end());
      b.put(Store{w.sym, index, sym});
      workspaces.emplace_back(sym, w.sym);
      axes.push_back(own);
      out_.workspaces.push_back(std::move(w));
    };
    for (const Point& x : state.points) keep(x.var, x.axes);
    for (const Component& c : state.components) keep(c.var, c.axes);
    b.finish();
    order_blocks(out_.kernels.back());

    KernelBuilder m(p_, d_, plan_, out_, p_.name + "_merge");
    add_merged_axes(m);
    m.add_stream(part, 1, false);
    add_whole(m);
    PassBuilder::declare(m, state);
    PassBuilder::initialise(m, state);
    m.open_loop(PassBuilder::tiles(state));
    std::vector<std::pair<Sym, Sym>> other;
    std::map<Sym, Sym> copies;  // of axes of ranks
    for (const Component& c : state.components) {
      if (!c.rank || copies.count(c.rank)) continue;
      SymbolInfo info = c.rank.info();
      info.written = c.rank.written();
      info.name += "_2";
      m.add_whole(copies[c.rank] = Sym::fresh(info), p_.axis(c.rank).size.rational()->num());
    }
    for (size_t k = 0; k < workspaces.size(); ++k) {
      const auto& [sym, workspace] = workspaces[k];
      for (Sym& a : axes[k])
        if (auto copy = copies.find(a); copy != copies.end() && is_listed(state, sym)) a = copy->second;
      Sym tile = m.new_tile(sym.name() + "_part", m.tile_axes(axes[k]), m.kernel().tile(sym).dtype,
                            Tile::Use::Operand);
      m.give_axes(tile, axes[k]);
      std::vector<Expr> index{part};
      for (Sym a : axes[k]) index.push_back(a);
      m.put(Load{tile, workspace, index, {}});
      other.emplace_back(sym, tile);
    }
    merge_state(m, state, other);
    m.close_loop({{0, length, false}});
    store_rest(m);
    m.finish();
  }

  static bool is_listed(const State& s, Sym component) {
    return std::any_of(s.components.begin(), s.components.end(),
                       [&](const Component& c) { return c.var == component && c.listed(); });
  }

  const Program& p_;
  const Derivation d_;
  const Plan& plan_;
  TileProgram out_;
};

}  // namespace

TileProgram build_tiles(const Program& elaborated, const Derivation& d, const Plan& plan) {
  check_plan(elaborated, d, plan);
  return Builder(elaborated, points_without_scale(elaborated, d), plan).run();
}

}  // namespace tilewright
