#include "tilewright/map/cpu/operands.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tilewright/expr/simplify.h"
#include "tilewright/map/checks.h"
#include "tilewright/tile/statements.h"

namespace tilewright::cpu {
namespace {

/// Coordinates of the tile that one element of the index list moves by are known multiples.
bool is_affine(const TileProgram& t, const Tile& tile, const std::vector<Expr>& index) {
  for (Expr e : index) {
    const Expr baked = bake(t.axes, e);
    if (!tensors_read(baked).empty()) return false;
    const auto form = affine(baked, tile.axes);
    if (!form) return false;
    for (Expr c : form->coefficient)
      if (!c.rational()) return false;
  }
  return true;
}

void collect(Expr e, std::set<Sym>& symbols, std::set<Sym>& read_from) {
  if (!e) return;
  for (Sym s : free_symbols(e)) symbols.insert(s);
  for (Sym s : tensors_read(e)) read_from.insert(s);
}

struct Collector {
  const MappedProgram& m;
  std::set<Sym> symbols, tensors;

  void expr(Expr e) { collect(e, symbols, tensors); }
  void frame(const Frame& f) {
    for (const AxisFrame& a : f) {
      expr(a.origin);
      expr(a.extent);
    }
  }
  void exprs(const std::vector<Expr>& list) {
    for (Expr e : list) expr(e);
  }
  void access(Sym tensor, const std::vector<Expr>& index) {
    tensors.insert(tensor);
    exprs(index);
  }
  void ops(const std::vector<MappedOp>& list) {
    for (const MappedOp& op : list) std::visit([&](const auto& x) { visit(x); }, op.node);
  }

  void visit(const Define& x) { expr(x.value); }
  void visit(const Fetch& x) { access(x.tensor, x.index); }
  void visit(const MappedLoop& x) {
    expr(x.lo);
    expr(x.hi);
    ops(x.body);
  }
  void visit(const If& x) {
    expr(x.condition);
    ops(x.then);
    ops(x.otherwise);
  }
  void visit(const Vote& x) {
    expr(x.condition);
    frame(x.frame);
    ops(x.then);
    ops(x.otherwise);
  }
  void visit(const Copy& x) {
    access(x.tensor, x.index);
    frame(x.frame);
    expr(x.present);
    for (int check : x.checks)
      if (check >= 0) expr(size_of(m.axes, m.checks[size_t(check)].axis));
  }
  void visit(const StoreOut& x) {
    access(x.tensor, x.index);
    frame(x.frame);
    expr(x.past);
  }
  void visit(const Mma& x) {
    frame(x.frame);
    frame(x.next_frame);
  }
  void visit(const MapOp& x) {
    expr(x.value);
    frame(x.frame);
  }
  void visit(const ReduceOp& x) {
    expr(x.value);
    frame(x.frame);
  }
  void visit(const RankOp& x) {
    exprs({x.value, x.at});
    expr(x.present);
    frame(x.frame);
  }
  template <class T>
  void visit(const T&) {}  // waiting and asynchronous ops do not occur
};

/// Rows a power of two apart share so few sets of a second-level cache that no more than these stay in it.
constexpr int64_t many_rows = 64;

/// Does a product walk over the rows of a tensor and take a part of each, a row for each step of what it sums? Rows of a
/// power of two bytes then share the sets of every cache, and each group of columns meets all of them again.
bool strides_across(const TileKernel& k, const ProductAxes& product, const View& view) {
  const auto moves = [&](Expr index) { return depends_on(index, product.inner); };
  return product.row && k.axis(product.row).kind != KernelAxis::Kind::Whole &&
         std::any_of(view.index.begin(), view.index.end(), moves) && !moves(view.index.back());
}

}  // namespace

std::map<Sym, View> views_of(const TileProgram& t, const TileKernel& k, const Lanes& lanes) {
  std::map<Sym, View> views;
  std::set<Sym> refused;
  std::vector<ProductAxes> products;
  for_each_stmt(k.body, [&](const Stmt& s) {
    if (const Load* l = std::get_if<Load>(&s.node)) {
      const Tile& tile = k.tile(l->tile);
      const bool as_is = tile.dtype == lanes.held.at(tile.sym);
      auto [it, fresh] = views.emplace(l->tile, View{l->tensor, l->index});
      const bool same = it->second.tensor == l->tensor && it->second.index == l->index;
      if (!as_is || !same || l->present || !is_affine(t, tile, l->index)) refused.insert(l->tile);
      return;
    }
    if (Sym out = written(s)) refused.insert(out);
    if (const Dot* d = std::get_if<Dot>(&s.node))
      if (const auto product = product_axes(lanes, k, *d)) {
        refused.insert(product->lanes);
        products.push_back(*product);
      }
  });
  for (const ProductAxes& product : products)
    if (auto it = views.find(product.broadcast); it != views.end() && strides_across(k, product, it->second))
      refused.insert(product.broadcast);
  // Pairs are words of memory only where the summed axis is the innermost.
  for (const auto& [dot, product] : lanes.by_pairs)
    if (auto it = views.find(product.broadcast); it != views.end()) {
      const auto form = affine(it->second.index.back(), {product.inner});
      if (!form || !form->coefficient[0].is_constant(1)) refused.insert(product.broadcast);
    }
  // Several statements that walk over the same rows, a piece of each, would meet them again in a farther cache.
  std::map<Sym, int> readers;
  for_each_stmt(k.body, [&](const Stmt& s) {
    for (Sym tile : reads(k, s)) ++readers[tile];
  });
  for (const auto& [tile, count] : readers) {
    if (count < 2 || !views.count(tile)) continue;
    int64_t rows = 1;
    bool resident = false;  // a row that is held whole is its own copy
    for (Sym a : k.tile(tile).axes) {
      if (a != lanes.fastest.at(tile)) rows *= block_of(k, a);
      resident = resident || k.axis(a).kind == KernelAxis::Kind::Resident;
    }
    if (rows > many_rows && !resident) refused.insert(tile);
  }
  for (Sym s : refused) views.erase(s);
  return views;
}

void add_arguments(const Program& p, const MappedProgram& m, MappedKernel& k) {
  Collector c{m, {}, {}};
  for (const Role& r : k.roles) c.ops(r.body);
  for (const Buffer& b : k.buffers)
    if (b.space == Space::Memory) c.access(b.tensor, b.index);

  std::vector<Sym> tensors;
  const auto use = [&](Sym s) {
    if (c.tensors.count(s) && !contains_axis(tensors, s)) tensors.push_back(s);
  };
  for (const Input& in : p.inputs) use(in.sym);
  for (const Output& out : p.outputs) use(out.sym);
  for (const Workspace& w : m.workspaces) use(w.sym);
  for (Sym s : tensors) k.arguments.push_back({Argument::Kind::Pointer, s, s, 0});
  for (Sym s : tensors) {
    const std::vector<Dim> dims = memory_dims(p, m, s);
    for (size_t d = 0; d < dims.size(); ++d) {
      std::string name = s.name();
      for (Sym piece : dims[d].pieces) name += "_" + piece.name();
      const Sym stride = Sym::fresh({.name = name, .kind = SymbolKind::Variable, .integer = true});
      k.arguments.push_back({Argument::Kind::Stride, stride, s, int(d)});
      // Pieces of a composite dimension are addressed through the sizes of the pieces inside.
      for (size_t piece = 1; piece < dims[d].pieces.size(); ++piece)
        c.expr(size_of(m.axes, dims[d].pieces[piece]));
    }
  }
  for (const KernelAxis& a : k.grid) c.expr(size_of(m.axes, a.index));
  for (const Axis& a : m.axes)
    if (c.symbols.count(a.index.size())) k.arguments.push_back({Argument::Kind::Size, a.index.size(), {}, 0});
  for (const Param& q : p.params)
    if (c.symbols.count(q.sym)) k.arguments.push_back({Argument::Kind::Scalar, q.sym, {}, 0});
  for (const HostScalar& s : m.scalars)
    if (c.symbols.count(s.sym)) k.arguments.push_back({Argument::Kind::Scalar, s.sym, {}, 0});
  if (has_checks(k))
    k.arguments.push_back({Argument::Kind::Error,
                           Sym::fresh({.name = "error", .kind = SymbolKind::Variable, .integer = true}),
                           {},
                           0});
}

}  // namespace tilewright::cpu
