#include "tests/support/tile_samples.h"

#include <cmath>

#include "tilewright/expr/simplify.h"

namespace tilewright::testing {
namespace {

constexpr double log2e = 1.4426950408889634;
constexpr double ln2 = 0.6931471805599453;

Axis make_axis(const std::string& name, Expr size = {}) {
  Sym length = Sym::fresh({.name = name, .kind = SymbolKind::Size, .integer = true, .nonnegative = true});
  Sym index = Sym::fresh({.name = name,
                          .kind = SymbolKind::Index,
                          .integer = true,
                          .nonnegative = true,
                          .size = &length.info()});
  return Axis{index, size, {}};
}

Sym named(const std::string& name, SymbolKind kind) { return Sym::fresh({.name = name, .kind = kind}); }

Sym counter_of(const std::string& name) {
  return Sym::fresh({.name = name, .kind = SymbolKind::Variable, .integer = true, .nonnegative = true});
}

std::vector<Dim> dims_of(const std::vector<Sym>& axes) {
  std::vector<Dim> dims;
  for (Sym a : axes) dims.push_back(Dim{{a}});
  return dims;
}

std::vector<Expr> as_exprs(const std::vector<Sym>& axes) { return {axes.begin(), axes.end()}; }

Expr read_at(Sym tensor, const std::vector<Sym>& axes) { return read(tensor, as_exprs(axes)); }

KernelAxis group_axis(Sym index, int64_t block, int64_t piece) {
  return {index, KernelAxis::Kind::Group, block, piece, counter_of(index.name() + "_block"), {}, {}};
}
KernelAxis stream_axis(Sym index, int64_t chunk) {
  return {index, KernelAxis::Kind::Stream, chunk, chunk, counter_of(index.name() + "_chunk"), {}, {}};
}
KernelAxis whole_axis(Sym index, int64_t size) {
  return {index, KernelAxis::Kind::Whole, size, size, {}, {}, {}};
}

/// Statements of one kernel; reads of a tile are at its own axes.
struct Builder {
  TileKernel kernel;
  Body* body = &kernel.body;

  Sym tile(const std::string& name, std::vector<Sym> axes, DType dtype, Level level, Tile::Use use,
           bool kept = false, int slots = 1) {
    Sym sym = named(name, SymbolKind::Tile);
    kernel.tiles.push_back({sym, std::move(axes), dtype, level, use, kept, slots});
    return sym;
  }
  Sym temporary(const std::string& name, std::vector<Sym> axes, DType dtype = DType::f32) {
    return tile(name, std::move(axes), dtype, Level::Registers, Tile::Use::Temporary);
  }
  Sym state(const std::string& name, std::vector<Sym> axes) {
    return tile(name, std::move(axes), DType::f32, Level::Registers, Tile::Use::State);
  }
  Expr at(Sym tile) const {
    for (const Tile& t : kernel.tiles) {
      if (t.sym == tile) return read_at(tile, t.axes);
    }
    fail_check("tile", __FILE__, __LINE__, tile.name());
  }
  void add(decltype(Stmt::node) node, std::string comment = {}) {
    body->push_back(Stmt{std::move(node), std::move(comment)});
  }
  void map(Sym tile, Expr value, std::string comment = {}) { add(Map{tile, value, {}}, std::move(comment)); }
};

Expr minus_infinity() { return Expr::real(-INFINITY); }
Expr number(double x) { return Expr::real(x); }
Expr guarded(Expr point) { return select(equal(point, minus_infinity()), 0, point); }
Expr differs(Expr a, Expr b) { return make(Op::Ne, {a, b}); }
Expr repair_factor(Expr point, Expr next, Expr binary_scale = number(log2e)) {
  return select(differs(point, next), exp2((point - next) * binary_scale), 1);
}
/// The number that an expression without symbols stands for, as build_tiles() folds it.
Expr folded(Expr e) { return number(evaluate(simplify(e), {})); }

}  // namespace

TileSample attention_sample(const AttentionOptions& o) {
  TileSample sample;
  Program& p = sample.program;
  p.name = o.causal ? "causal" : "global";
  Axis b = make_axis("b"), h = make_axis("h"), i = make_axis("i"), j = make_axis("j");
  Axis d = make_axis("d", o.features), e = make_axis("e", o.features);
  p.axes = {b, h, i, j, d, e};
  std::vector<Sym> q_axes{b.index, h.index, i.index, d.index}, k_axes{b.index, h.index, j.index, d.index};
  std::vector<Sym> v_axes{b.index, h.index, j.index, e.index}, o_axes{b.index, h.index, i.index, e.index};
  Sym Q = named("Q", SymbolKind::Tensor), K = named("K", SymbolKind::Tensor),
      V = named("V", SymbolKind::Tensor);
  Sym O = named("O", SymbolKind::Tensor);
  p.inputs = {{Q, dims_of(q_axes), o.dtype, {}, {}},
              {K, dims_of(k_axes), o.dtype, {}, {}},
              {V, dims_of(v_axes), o.dtype, {}, {}}};
  Expr present = simplify(less_equal(j.index, Expr(i.index) + Expr(j.index.size()) - Expr(i.index.size())));
  Expr score =
      reduce(Reducer::Sum, {d.index}, read_at(Q, q_axes) * read_at(K, k_axes)) / sqrt(Expr(d.index.size()));
  if (o.causal) score = select(present, score, minus_infinity());
  p.definitions = {
      {O,
       o_axes,
       {},
       reduce(Reducer::Sum, {j.index}, reduce(Reducer::Softmax, {j.index}, score) * read_at(V, v_axes)),
       {}}};
  p.outputs = {{O, dims_of(o_axes), o.dtype, {}}};

  TileProgram& t = sample.tiles;
  t.name = p.name;
  t.axes = p.axes;
  t.plan.group = {{b.index, 1, 1}, {h.index, 1, 1}, {i.index, o.block, o.piece}};
  t.plan.stream = j.index;
  t.plan.chunk = o.chunk;
  t.plan.whole = {d.index, e.index};
  t.plan.keep = {Q};
  t.plan.stages = o.stages;
  t.plan.guard = o.guard;

  Builder k;
  k.kernel.name = p.name;
  k.kernel.grid = {group_axis(b.index, 1, 1), group_axis(h.index, 1, 1),
                   group_axis(i.index, o.block, o.piece)};
  k.kernel.inner = {stream_axis(j.index, o.chunk), whole_axis(d.index, o.features),
                    whole_axis(e.index, o.features)};
  k.kernel.heaviest_first = o.causal;
  Sym i_block = k.kernel.grid[2].counter;

  Sym Qt = k.tile("Q", {i.index, d.index}, o.dtype, Level::Shared, Tile::Use::Operand, true);
  Sym rho = k.state("rho", {i.index}), l = k.state("l", {i.index}), acc = k.state("o", {i.index, e.index});
  Sym Kt = k.tile("K", {j.index, d.index}, o.dtype, Level::Shared, Tile::Use::Operand, false, o.stages);
  Sym Vt = k.tile("V", {j.index, e.index}, o.dtype, Level::Shared, Tile::Use::Operand, false, o.stages);
  Sym S = k.temporary("S", {i.index, j.index});
  Sym m = k.temporary("m", {i.index}), next = k.temporary("rho_next", {i.index});
  Sym g = k.temporary("g", {i.index}), r = k.temporary("r", {i.index});
  bool speculative = o.guard == Guard::Speculative;
  Sym fast = speculative && o.dtype != DType::f32 ? k.temporary("g", {i.index}) : Sym();
  Sym E = speculative ? k.temporary("E", {i.index, j.index}) : S;
  Sym sum = speculative ? k.temporary("l_chunk", {i.index}) : Sym();
  Sym P = o.dtype == DType::f32 ? E : k.temporary("P", {i.index, j.index}, o.dtype);

  k.add(Load{Qt, Q, as_exprs(q_axes)});
  k.map(rho, minus_infinity());
  k.map(l, 0);
  k.map(acc, 0);

  Expr root = pow(o.features, Rational(-1, 2));
  Expr binary_scale = folded(root * pow(log(2), -1));
  Body loop;
  k.body = &loop;
  k.add(Load{Kt, K, as_exprs(k_axes)});
  k.add(Load{Vt, V, as_exprs(v_axes)});
  k.add(Dot{S, Qt, Kt, {d.index}, false, {}});
  if (o.causal) k.add(Map{S, k.at(S), select(present, k.at(S), minus_infinity())});
  auto point = [&] {
    k.add(Reduce{m, Reducer::Max, {j.index}, k.at(S), {}, false});
    k.map(next, max(k.at(rho), k.at(m)), "point");
  };
  auto repair = [&] {
    k.map(r, repair_factor(k.at(rho), k.at(next), binary_scale));
    k.map(l, k.at(l) * k.at(r), "repair");
    k.map(acc, k.at(acc) * k.at(r), "repair");
    k.map(rho, k.at(next));
  };
  auto lift = [&](bool guard) {
    const Expr scaled = k.at(rho) * binary_scale;
    if (guard) {
      k.map(g, guarded(k.at(rho)));
      k.map(E, exp2((k.at(S) - k.at(g)) * binary_scale), "exp(S - rho)");
    } else if (fast) {
      k.map(fast, select(less_equal(make(Op::Abs, {scaled}), 1024), scaled, minus_infinity()));
      k.map(E, exp2(k.at(S) * binary_scale - k.at(fast)), "exp(S - rho)");
    } else {
      k.map(E, exp2((k.at(S) - k.at(rho)) * binary_scale), "exp(S - rho)");
    }
    if (speculative) k.add(Reduce{sum, Reducer::Sum, {j.index}, k.at(E), {}, false});
    if (!speculative) k.add(Reduce{l, Reducer::Sum, {j.index}, k.at(E), {}, true}, "sum exp(S - rho)");
  };
  if (speculative) {
    lift(false);
    Body slow;
    k.body = &slow;
    point();
    repair();
    lift(true);
    k.body = &loop;
    k.add(When{logical_not(less_equal(k.at(sum), 32768)), {i.index}, std::move(slow), true});
    k.map(l, k.at(l) + k.at(sum), "sum exp(S - rho)");
  } else {
    point();
    if (o.guard == Guard::Always) {
      repair();
    } else {
      Expr above = o.guard == Guard::Moved ? k.at(rho) : k.at(rho) + folded(Expr::real(8 * ln2) / root);
      Body moved;
      k.body = &moved;
      repair();
      k.body = &loop;
      k.add(When{less(above, k.at(next)), {i.index}, std::move(moved), false});
    }
    lift(true);
  }
  if (P != E) k.map(P, k.at(E));
  k.add(Dot{acc, P, Vt, {j.index}, true, o.causal ? present : Expr()}, "sum exp(S - rho) V");

  Expr nj = j.index.size(), ni = i.index.size();
  std::vector<Segment> segments;
  if (o.causal) {
    Expr first = Expr(i_block) * Expr(o.block);
    Expr last = min(first + Expr(o.block - 1), ni - 1);
    Expr full = max(0, min(floordiv(nj, o.chunk), floordiv(first + nj - ni + 1, o.chunk)));
    Expr limit = max(0, min(ceildiv(nj, o.chunk), floordiv(last + nj - ni, o.chunk) + 1));
    segments = {{0, full, false}, {full, limit, true}};
  } else {
    segments = {{0, floordiv(nj, o.chunk), false}, {floordiv(nj, o.chunk), ceildiv(nj, o.chunk), true}};
  }
  for (Segment& part : segments) part.lo = simplify(part.lo), part.hi = simplify(part.hi);
  k.body = &k.kernel.body;
  k.add(Loop{j.index, std::move(segments), std::move(loop)});

  Sym inverse = k.temporary("l_inv", {i.index});
  k.map(inverse, Expr(1) / k.at(l));
  k.map(acc, select(differs(k.at(l), 0), k.at(acc) * k.at(inverse), 0), "finish");
  k.add(Store{O, as_exprs(o_axes), acc});
  t.kernels.push_back(std::move(k.kernel));
  return sample;
}

namespace {

TileSample softmax_sample(DType dtype, bool resident, int64_t chunk) {
  TileSample sample;
  Program& p = sample.program;
  p.name = "softmax";
  Axis r = make_axis("r"), j = make_axis("j");
  p.axes = {r, j};
  std::vector<Sym> axes{r.index, j.index};
  Sym X = named("X", SymbolKind::Tensor), Y = named("Y", SymbolKind::Tensor);
  p.inputs = {{X, dims_of(axes), dtype, {}, {}}};
  p.definitions = {{Y, axes, {}, reduce(Reducer::Softmax, {j.index}, read_at(X, axes)), {}}};
  p.outputs = {{Y, dims_of(axes), dtype, {}}};

  TileProgram& t = sample.tiles;
  t.name = p.name;
  t.axes = p.axes;
  t.plan.group = {{r.index, 1, 1}};
  t.plan.stream = j.index;
  t.plan.chunk = chunk;
  t.plan.resident = resident;

  Builder k;
  k.kernel.name = p.name;
  k.kernel.grid = {group_axis(r.index, 1, 1)};
  KernelAxis stream = stream_axis(j.index, chunk);
  if (resident) stream.kind = KernelAxis::Kind::Resident, stream.counter = {};
  k.kernel.inner = {stream};
  Sym x = k.tile("X", {j.index}, dtype, Level::Registers, Tile::Use::Operand, resident);
  Sym rho = k.state("rho", {}), l = k.state("l", {});
  Sym E = k.temporary("E", {j.index});
  Sym m = resident ? Sym() : k.temporary("m", {});
  Sym next = resident ? Sym() : k.temporary("rho_next", {});
  Sym f = resident ? Sym() : k.temporary("f", {}), out = resident ? Sym() : k.temporary("Y", {j.index});
  Sym g = k.temporary("g", {}), inverse = k.temporary("l_inv", {});

  Load load{x, X, as_exprs(axes)};
  Expr lifted = exp2((k.at(x) - k.at(g)) * number(log2e));
  Body pass;
  if (resident) {
    k.add(load);
    k.body = &pass;
    k.add(Reduce{rho, Reducer::Max, {j.index}, k.at(x), {}, false}, "point");
    k.map(g, guarded(k.at(rho)));
    k.map(E, lifted, "exp(X - rho)");
    k.add(Reduce{l, Reducer::Sum, {j.index}, k.at(E), {}, false}, "sum exp(X - rho)");
    k.map(inverse, Expr(1) / k.at(l));
    k.map(E, select(differs(k.at(l), 0), k.at(E) * k.at(inverse), 0), "finish");
    k.add(Store{Y, as_exprs(axes), E});
    k.body = &k.kernel.body;
    k.add(Loop{j.index, {{0, 1, true}}, std::move(pass)});
  } else {
    Expr n = j.index.size();
    Expr whole = simplify(floordiv(n, chunk)), all = simplify(ceildiv(n, chunk));
    std::vector<Segment> segments{{0, whole, false}, {whole, all, true}};
    k.map(rho, minus_infinity());
    k.map(l, 0);
    k.body = &pass;
    k.add(load);
    k.add(Reduce{m, Reducer::Max, {j.index}, k.at(x), {}, false});
    k.map(next, max(k.at(rho), k.at(m)), "point");
    k.map(l, k.at(l) * repair_factor(k.at(rho), k.at(next)), "repair");
    k.map(rho, k.at(next));
    k.map(g, guarded(k.at(rho)));
    k.map(E, lifted, "exp(X - rho)");
    k.add(Reduce{l, Reducer::Sum, {j.index}, k.at(E), {}, true}, "sum exp(X - rho)");
    k.body = &k.kernel.body;
    k.add(Loop{j.index, segments, std::move(pass)});
    k.map(f, select(differs(k.at(rho), minus_infinity()), k.at(rho), 0));
    k.map(inverse, Expr(1) / k.at(l));
    Body second;
    k.body = &second;
    k.add(load);
    Expr share = exp2((k.at(x) - k.at(f)) * number(log2e)) * k.at(inverse);
    k.map(out, select(differs(k.at(l), 0), share, 0), "finish");
    k.add(Store{Y, as_exprs(axes), out});
    k.body = &k.kernel.body;
    k.add(Loop{j.index, segments, std::move(second)});
  }
  t.kernels.push_back(std::move(k.kernel));
  return sample;
}

}  // namespace

TileSample resident_softmax_sample(DType dtype) { return softmax_sample(dtype, true, 8192); }
TileSample two_pass_softmax_sample(DType dtype) { return softmax_sample(dtype, false, 1024); }

TileSample layernorm_matmul_sample(DType dtype) {
  TileSample sample;
  Program& p = sample.program;
  p.name = "layernorm_matmul";
  Axis r = make_axis("r"), n = make_axis("n"), c = make_axis("c", 4096);
  p.axes = {r, n, c};
  Sym x = named("x", SymbolKind::Tensor), gamma = named("gamma", SymbolKind::Tensor);
  Sym W = named("W", SymbolKind::Tensor), y = named("y", SymbolKind::Tensor);
  std::vector<Sym> x_axes{r.index, c.index}, w_axes{c.index, n.index}, y_axes{r.index, n.index};
  p.inputs = {{x, dims_of(x_axes), dtype, {}, {}},
              {gamma, dims_of({c.index}), dtype, {}, {}},
              {W, dims_of(w_axes), dtype, {}, {}}};
  Expr mean = reduce(Reducer::Mean, {c.index}, read_at(x, x_axes));
  Expr variance = reduce(Reducer::Var, {c.index}, read_at(x, x_axes));
  Expr epsilon = Rational(1, 100000);
  p.definitions = {{y,
                    y_axes,
                    {},
                    reduce(Reducer::Sum, {c.index},
                           (read_at(x, x_axes) - mean) * make(Op::Rsqrt, {variance + epsilon}) *
                               read_at(gamma, {c.index}) * read_at(W, w_axes)),
                    {}}};
  p.outputs = {{y, dims_of(y_axes), dtype, {}}};

  TileProgram& t = sample.tiles;
  t.name = p.name;
  t.axes = p.axes;
  t.plan.group = {{r.index, 64, 64}, {n.index, 64, 64}};
  t.plan.stream = c.index;
  t.plan.chunk = 64;
  t.plan.stages = 2;

  Builder k;
  k.kernel.name = p.name;
  k.kernel.grid = {group_axis(r.index, 64, 64), group_axis(n.index, 64, 64)};
  k.kernel.inner = {stream_axis(c.index, 64)};
  Sym rho = k.state("rho", {r.index}), count = k.state("count", {}), s1 = k.state("s1", {r.index});
  Sym s2 = k.state("s2", {r.index}), g = k.state("g", {n.index}), acc = k.state("o", {r.index, n.index});
  Sym Wt = k.tile("W", {c.index, n.index}, dtype, Level::Shared, Tile::Use::Operand, false, 2);
  Sym gt = k.tile("gamma", {c.index}, dtype, Level::Shared, Tile::Use::Operand, false, 2);
  Sym xt = k.tile("x", {r.index, c.index}, dtype, Level::Registers, Tile::Use::Operand);
  Sym sum = k.temporary("s1_chunk", {r.index}), number_here = k.temporary("count_chunk", {});
  Sym seen = k.temporary("count_seen", {});
  Sym next = k.temporary("rho_next", {r.index}), delta = k.temporary("delta", {r.index});
  Sym D = k.temporary("D", {r.index, c.index});
  // Differences of f16 numbers leave the range of f16; those of bf16 and f32 numbers do not leave theirs.
  Sym A = dtype == DType::bf16 ? k.temporary("A", {r.index, c.index}, dtype) : D;

  k.map(rho, 0);
  k.map(count, 0);
  k.map(s1, 0);
  k.map(s2, 0);
  k.map(g, 0);
  k.map(acc, 0);
  Body loop;
  k.body = &loop;
  k.add(Load{gt, gamma, {c.index}});
  k.add(Load{Wt, W, as_exprs(w_axes)});
  k.add(Load{xt, x, as_exprs(x_axes)});
  k.add(Reduce{sum, Reducer::Sum, {c.index}, k.at(xt) - k.at(rho), {}, false});
  k.add(Reduce{number_here, Reducer::Sum, {c.index}, 1, {}, false});
  k.map(seen, k.at(count) + k.at(number_here));
  Expr mean_here = k.at(rho) + (k.at(s1) + k.at(sum)) / k.at(seen);
  k.map(next, select(equal(k.at(seen), 0), k.at(rho), mean_here), "point");
  k.map(delta, k.at(rho) - k.at(next));
  k.map(s2, k.at(s2) + k.at(delta) * k.at(delta) * k.at(count) + k.at(s1) * k.at(delta) * 2, "repair");
  k.map(s1, k.at(s1) + k.at(delta) * k.at(count), "repair");
  k.map(acc, k.at(acc) + k.at(g) * k.at(delta), "repair");
  k.map(rho, k.at(next));
  k.map(D, k.at(xt) - k.at(rho));
  k.map(count, k.at(count) + k.at(number_here), "sum 1");
  k.add(Reduce{s1, Reducer::Sum, {c.index}, k.at(D), {}, true}, "sum (x - rho)");
  k.add(Reduce{s2, Reducer::Sum, {c.index}, k.at(D) * k.at(D), {}, true}, "sum (x - rho)**2");
  k.add(Dot{g, gt, Wt, {c.index}, true, {}}, "sum gamma W");
  k.map(A, k.at(D) * k.at(gt));
  k.add(Dot{acc, A, Wt, {c.index}, true, {}}, "sum (x - rho) gamma W");
  k.body = &k.kernel.body;
  k.add(Loop{c.index, {{0, 64, false}}, std::move(loop)});

  // With N = 4096 elements: sqrt(N) / sqrt(N·variance + N·epsilon).
  Sym inverse = k.temporary("scale", {r.index});
  Expr spread = k.at(s2) + number(0.04096) - k.at(s1) * k.at(s1) / 4096;
  k.map(inverse, make(Op::Rsqrt, {spread}) * 64);
  k.map(acc, (k.at(acc) - k.at(s1) * k.at(g) / 4096) * k.at(inverse), "finish");
  k.add(Store{y, as_exprs(y_axes), acc});
  t.kernels.push_back(std::move(k.kernel));
  return sample;
}

}  // namespace tilewright::testing
