#include "tests/support/mapped_samples.h"

#include <algorithm>
#include <cmath>

namespace tilewright::testing {
namespace {

constexpr auto Owner = Digit::To::Owner;
constexpr auto Offset = Digit::To::Offset;

Axis make_axis(const std::string& name, Expr size = {}) {
  Sym length = Sym::fresh({.name = name, .kind = SymbolKind::Size, .integer = true, .nonnegative = true});
  Sym index = Sym::fresh({.name = name,
                          .kind = SymbolKind::Index,
                          .integer = true,
                          .nonnegative = true,
                          .size = &length.info()});
  return {index, size, {}};
}
Sym variable(const std::string& name) {
  return Sym::fresh({.name = name, .kind = SymbolKind::Variable, .integer = true, .nonnegative = true});
}
Sym tensor(const std::string& name) { return Sym::fresh({.name = name, .kind = SymbolKind::Tensor}); }
Sym tile(const std::string& name) { return Sym::fresh({.name = name, .kind = SymbolKind::Tile}); }
std::vector<Dim> dims_of(const std::vector<Sym>& axes) {
  std::vector<Dim> dims;
  for (Sym a : axes) dims.push_back({{a}});
  return dims;
}
Expr at(const Buffer& b) { return read(b.sym, std::vector<Expr>(b.axes.begin(), b.axes.end())); }

Layout accumulator(int64_t groups, int64_t columns) {
  std::vector<Digit> digits{{0, 8, 1, Owner, 4},        {0, 2, 8, Offset, 2}, {0, 4, 16, Owner, 32},
                            {1, 2, 1, Offset, 1},       {1, 4, 2, Owner, 1},  {1, columns / 8, 8, Offset, 4},
                            {0, groups, 64, Owner, 128}};
  return Layout({64 * groups, columns}, digits);
}
Layout panel(int64_t rows) {
  return Layout({rows, 64}, {{1, 64, 1, Offset, 1}, {0, rows, 1, Offset, 64}}, {3, 3, 3});
}

std::vector<double> decoded(const TestArray& a) {
  std::vector<double> values;
  for (int64_t k = 0; k < a.elements(); ++k) values.push_back(a.at(k));
  return values;
}

/// Program of the samples: P[i,j] = f16(¼ Σ_d Q·K), 0 where j > i + 40; O = Σ_j P·V; with random inputs and what comes out.
void fill_program(MappedSample& s, Axis i, Axis j, Axis d, Axis e, std::vector<Sym>& tensors, int64_t rows,
                  int64_t columns, int64_t features) {
  s.program.name = s.mapped.name = "sample";
  s.program.axes = s.mapped.axes = {i, j, d, e};
  s.mapped.machine = sm90();
  s.mapped.target = Target::Cuda;
  Sym Q = tensor("Q"), K = tensor("K"), V = tensor("V"), O = tensor("O");
  tensors = {Q, K, V, O};
  s.program.inputs = {{Q, dims_of({i.index, d.index}), DType::f16, {}, {}},
                      {K, dims_of({j.index, d.index}), DType::f16, {}, {}},
                      {V, dims_of({j.index, e.index}), DType::f16, {}, {}}};
  s.program.outputs = {{O, dims_of({i.index, e.index}), DType::f16, {}}};
  s.sizes = {{i.index.size(), rows},
             {j.index.size(), columns},
             {d.index.size(), features},
             {e.index.size(), features}};
  s.inputs = {{"Q", random_array(DType::f16, {rows, features}, 1, 0, 0.5)},
              {"K", random_array(DType::f16, {columns, features}, 2, 0, 0.5)},
              {"V", random_array(DType::f16, {columns, features}, 3, 0, 0.5)}};
  s.output = "O";
  s.output_shape = {rows, features};
  std::vector<double> q = decoded(s.inputs.at("Q")), k = decoded(s.inputs.at("K")),
                      v = decoded(s.inputs.at("V"));
  for (int64_t a = 0; a < rows; ++a) {
    std::vector<double> row(size_t(features), 0);
    for (int64_t b = 0; b < std::min(columns, a + 41); ++b) {
      double score = 0;
      for (int64_t c = 0; c < features; ++c)
        score += q[size_t(a * features + c)] * k[size_t(b * features + c)];
      double p = round_to(DType::f16, score * 0.25);
      for (int64_t c = 0; c < features; ++c) row[size_t(c)] += p * v[size_t(b * features + c)];
    }
    s.expected.insert(s.expected.end(), row.begin(), row.end());
  }
  double largest = 0;
  for (double x : s.expected) largest = std::max(largest, std::fabs(x));
  s.tolerance = largest * 2e-3;
}

}  // namespace

double MappedSample::run(const Adversary& adversary, int threads) const {
  TestArray out(output_dtype, output_shape);
  for (int64_t k = 0; k < out.elements(); ++k) out.set(k, NAN);
  std::map<std::string, ArrayView> views;
  for (auto& [name, array] : inputs) views[name] = array.view();
  interpret(program, mapped, sizes, views, {}, {{output, out.target()}}, adversary, threads);
  double worst = 0;
  for (int64_t k = 0; k < out.elements(); ++k) {
    double difference = std::fabs(out.at(k) - expected[size_t(k)]);
    worst = difference <= worst ? worst : std::isnan(difference) ? INFINITY : difference;
  }
  return worst;
}

Role& MappedSample::role(const std::string& name) {
  auto& roles = kernel().roles;
  return *std::find_if(roles.begin(), roles.end(), [&](const Role& r) { return r.name == name; });
}

void edit(Ops& ops, const std::function<bool(MappedOp&)>& visit) {
  for (size_t k = 0; k < ops.size();) {
    if (!visit(ops[k])) {
      ops.erase(ops.begin() + long(k));
      continue;
    }
    for_each_body(ops[k], [&](Ops& body) { edit(body, visit); });
    ++k;
  }
}

MappedSample pipeline_sample(int64_t rows, int64_t columns) {
  MappedSample s;
  Axis i = make_axis("i"), j = make_axis("j"), d = make_axis("d", 64), e = make_axis("e", 64);
  std::vector<Sym> tensors;
  fill_program(s, i, j, d, e, tensors, rows, columns, 64);
  constexpr int64_t block = 128, chunk = 64;
  MappedKernel k;
  k.name = "pipeline";
  Sym counter = variable("block");
  k.grid = {{i.index, KernelAxis::Kind::Group, block, 64, counter, {}, {}}};
  k.heaviest_first = true;
  Expr first = Expr(counter) * Expr(block), nj = j.index.size();

  std::vector<Sym> row_strides;
  for (Sym t : tensors) {
    Sym stride = variable("stride_" + t.name());
    row_strides.push_back(stride);
    k.arguments.push_back({Argument::Kind::Pointer, t, {}, 0});
    k.arguments.push_back({Argument::Kind::Stride, stride, t, 0});
  }
  k.arguments.push_back({Argument::Kind::Size, i.index.size(), {}, 0});
  k.arguments.push_back({Argument::Kind::Size, j.index.size(), {}, 0});
  auto map = [&](int which, Axis outer, Axis inner, int box) {
    k.tensor_maps.push_back({tensors[which],
                             DType::f16,
                             {{inner.index.size(), 1, 64}, {outer.index.size(), row_strides[which], box}},
                             128,
                             "map_" + tensors[which].name()});
  };
  map(0, i, d, block), map(1, j, d, chunk), map(2, j, e, chunk), map(3, i, e, block);

  Buffer Q{.sym = tile("Q"),
           .axes = {i.index, d.index},
           .dtype = DType::f16,
           .space = Space::Local,
           .layout = panel(block),
           .alignment = 1024};
  Buffer K{.sym = tile("K"),
           .axes = {j.index, d.index},
           .dtype = DType::f16,
           .space = Space::Local,
           .layout = panel(chunk),
           .slots = 2,
           .alignment = 1024};
  Buffer V{.sym = tile("V"),
           .axes = {j.index, e.index},
           .dtype = DType::f16,
           .space = Space::Local,
           .layout = panel(chunk),
           .slots = 2,
           .alignment = 1024};
  Buffer out{.sym = tile("out"),
             .axes = {i.index, e.index},
             .dtype = DType::f16,
             .space = Space::Local,
             .layout = panel(block),
             .alignment = 1024,
             .shares = Q.sym};
  Buffer S{.sym = tile("S"), .axes = {i.index, j.index}, .layout = accumulator(2, chunk), .role = 1};
  Buffer P{.sym = tile("P"),
           .axes = {i.index, j.index},
           .dtype = DType::f16,
           .layout = accumulator(2, chunk),
           .role = 1};
  Buffer o{.sym = tile("o"), .axes = {i.index, e.index}, .layout = accumulator(2, 64), .role = 1};
  k.buffers = {Q, K, V, out, S, P, o};
  k.channels = {{"q", {Q.sym}, 1, 1, 1}, {"k", {K.sym}, 2, 1, 8}, {"v", {V.sym}, 2, 1, 8}};

  auto limit = [&](Sym var) {
    return MappedOp{
        Define{var, min(floordiv(nj + (chunk - 1), chunk), floordiv(first + (block - 1 + 40), chunk) + 1)},
        "chunks"};
  };
  // load: K0, Q, K1, V0, K2, V1 …
  Sym n = variable("n"), c = variable("c");
  auto copy = [&](const Buffer& b, int channel, int tensor_map, Expr use, Expr row) {
    return MappedOp{
        CopyAsync{"copy.bulk", b.sym, use, channel, tensor_map, {0, row}, b.layout.elements() * 2}, ""};
  };
  Role load{"load", 128, 128, 24, {}};
  load.body = {limit(n), {Wait{1, false, 0}, ""}, copy(K, 1, 1, 0, 0), copy(Q, 0, 0, 0, first)};
  load.body.push_back({MappedLoop{c,
                                  1,
                                  n,
                                  {{Wait{1, false, c}, ""},
                                   copy(K, 1, 1, c, Expr(c) * Expr(chunk)),
                                   {Wait{2, false, Expr(c) - 1}, ""},
                                   copy(V, 2, 2, Expr(c) - 1, (Expr(c) - 1) * Expr(chunk))}},
                       ""});
  load.body.push_back({Wait{2, false, Expr(n) - 1}, ""});
  load.body.push_back(copy(V, 2, 2, Expr(n) - 1, (Expr(n) - 1) * Expr(chunk)));

  Sym m = variable("m"), t = variable("t");
  auto frame = [&](Expr number) { return Frame{{i.index, first, {}}, {j.index, number * Expr(chunk), {}}}; };
  auto first_product = [&](Expr use) {
    return MappedOp{
        Mma{"wgmma.m64n64k16.f16", S.sym, Q.sym, K.sym, {d.index}, true, {{K.sym, use}}, frame(use)}, ""};
  };
  auto second_product = [&](Expr use) {
    return MappedOp{
        Mma{"wgmma.m64n64k16.f16.rs", o.sym, P.sym, V.sym, {j.index}, false, {{V.sym, use}}, frame(use)}, ""};
  };
  auto lift = [&](Expr use) {
    return MappedOp{MapOp{P.sym,
                          select(logical_and(less(j.index, nj), less_equal(j.index, Expr(i.index) + 40)),
                                 at(S) * Expr(Rational(1, 4)), 0),
                          frame(use),
                          {}},
                    ""};
  };
  Role compute{"compute", 256, 128, 240, {}};
  compute.body = {limit(m),
                  {MapOp{o.sym, 0, frame(0), {}}, ""},
                  {Wait{0, true, 0}, ""},
                  {Wait{1, true, 0}, ""},
                  {MmaFence{}, ""},
                  first_product(0),
                  {Commit{}, ""},
                  {WaitGroup{0}, ""},
                  {Arrive{1, false, 0, Scope::Warp}, ""},
                  lift(0)};
  compute.body.push_back({MappedLoop{t,
                                     1,
                                     m,
                                     {{Wait{1, true, t}, ""},
                                      {Wait{2, true, Expr(t) - 1}, ""},
                                      {MmaFence{}, ""},
                                      first_product(t),
                                      {Commit{}, ""},
                                      second_product(Expr(t) - 1),
                                      {Commit{}, ""},
                                      {WaitGroup{1}, ""},
                                      {Arrive{1, false, t, Scope::Warp}, ""},
                                      {WaitGroup{0}, ""},
                                      {Arrive{2, false, Expr(t) - 1, Scope::Warp}, ""},
                                      lift(t)}},
                          ""});
  Ops rest{{Wait{2, true, Expr(m) - 1}, ""},
           {MmaFence{}, ""},
           second_product(Expr(m) - 1),
           {Commit{}, ""},
           {WaitGroup{0}, ""},
           {Arrive{2, false, Expr(m) - 1, Scope::Warp}, ""},
           {MapOp{out.sym, at(o), frame(0), {}}, ""},
           {ProxyFence{}, ""},
           {Barrier{1, Scope::Role}, ""},
           {StoreAsync{"store.bulk", out.sym, 3, {0, first}, Scope::Role}, ""},
           {BulkWait{}, ""}};
  compute.body.insert(compute.body.end(), rest.begin(), rest.end());
  k.roles = {load, compute};
  s.mapped.kernels = {k};
  s.mapped.layout = {
      {tensors[0], true, 16}, {tensors[1], true, 16}, {tensors[2], true, 16}, {tensors[3], true, 16}};
  return s;
}

MappedSample plain_sample(int64_t rows, int64_t columns) {
  MappedSample s;
  Axis i = make_axis("i"), j = make_axis("j"), d = make_axis("d", 8), e = make_axis("e", 8);
  std::vector<Sym> tensors;
  fill_program(s, i, j, d, e, tensors, rows, columns, 8);
  constexpr int64_t block = 16, chunk = 8;
  MappedKernel k;
  k.name = "plain";
  Sym counter = variable("block");
  k.grid = {{i.index, KernelAxis::Kind::Group, block, block, counter, {}, {}}};
  Expr first = Expr(counter) * Expr(block), nj = j.index.size();

  // 64 threads: 16 rows × 4 lanes; a row of S has two columns in each lane.
  Layout lanes({block, chunk}, {{0, block, 1, Owner, 4}, {1, 4, 1, Owner, 1}, {1, 2, 4, Offset, 1}});
  Buffer Q{.sym = tile("Q"),
           .axes = {i.index, d.index},
           .dtype = DType::f16,
           .space = Space::Local,
           .layout = Layout::row_major({block, 8})};
  Buffer K{.sym = tile("K"),
           .axes = {j.index, d.index},
           .dtype = DType::f16,
           .space = Space::Local,
           .layout = Layout::row_major({chunk, 8})};
  Buffer V{.sym = tile("V"),
           .axes = {j.index, e.index},
           .dtype = DType::f16,
           .space = Space::Local,
           .layout = Layout::row_major({chunk, 8})};
  Buffer PL{.sym = tile("PL"),
            .axes = {i.index, j.index},
            .dtype = DType::f16,
            .space = Space::Local,
            .layout = Layout::strided({block, chunk}, {1, 0}, 2)};
  Buffer S{.sym = tile("S"), .axes = {i.index, j.index}, .layout = lanes, .role = 0};
  Buffer o{.sym = tile("o"), .axes = {i.index, e.index}, .layout = lanes, .role = 0};
  k.buffers = {Q, K, V, PL, S, o};
  Sym c = variable("c"), n = variable("n");
  Frame frame{{i.index, first, {}}, {j.index, Expr(c) * Expr(chunk), {}}};
  Role threads{"threads", 64, 64, 0, {}};
  threads.body = {
      {Define{n, floordiv(nj + (chunk - 1), chunk)}, ""},
      {Copy{"copy.plain", Q.sym, {}, tensors[0], {i.index, d.index}, {{i.index, first, {}}}, {}}, ""},
      {MapOp{o.sym, 0, {}, {}}, ""}};
  threads.body.push_back(
      {MappedLoop{c,
                  0,
                  n,
                  {{Copy{"copy.plain", K.sym, {}, tensors[1], {j.index, d.index}, frame, {}}, ""},
                   {Copy{"copy.plain", V.sym, {}, tensors[2], {j.index, e.index}, frame, {}}, ""},
                   {Barrier{0, Scope::Role}, "operands are there"},
                   {Mma{"fma.thread", S.sym, Q.sym, K.sym, {d.index}, true, {}, frame}, ""},
                   {MapOp{PL.sym,
                          select(less_equal(j.index, Expr(i.index) + 40), at(S) * Expr(Rational(1, 4)), 0),
                          frame,
                          {}},
                    ""},
                   {Barrier{0, Scope::Warp}, "a row is in one warp"},
                   {Mma{"fma.thread", o.sym, PL.sym, V.sym, {j.index}, false, {}, frame}, ""},
                   {Barrier{0, Scope::Role}, "operands are free"}}},
       ""});
  threads.body.push_back(
      {StoreOut{"store.plain", o.sym, tensors[3], {i.index, e.index}, {{i.index, first, {}}}}, ""});
  k.roles = {threads};
  s.mapped.kernels = {k};
  return s;
}

MappedSample task_sample(int64_t rows, int64_t columns) {
  MappedSample s;
  Axis r = make_axis("r"), j = make_axis("j");
  s.program.name = s.mapped.name = "sums";
  s.program.axes = s.mapped.axes = {r, j};
  s.mapped.machine.name = "cpu";
  s.mapped.target = Target::Cpu;
  Sym X = tensor("X"), Y = tensor("Y");
  s.program.inputs = {{X, dims_of({r.index, j.index}), DType::f32, {}, {}}};
  s.program.outputs = {{Y, dims_of({r.index}), DType::f32, {}}};
  s.sizes = {{r.index.size(), rows}, {j.index.size(), columns}};
  s.inputs = {{"X", random_array(DType::f32, {rows, columns}, 5)}};
  s.output = "Y";
  s.output_dtype = DType::f32;
  s.output_shape = {rows};
  s.tolerance = 1e-5;
  for (int64_t a = 0; a < rows; ++a) {
    double sum = 0;
    for (int64_t b = 0; b < columns; ++b) sum += s.inputs.at("X").at(a * columns + b);
    s.expected.push_back(sum);
  }
  MappedKernel k;
  k.name = "sums";
  Sym counter = variable("block"), c = variable("c");
  k.grid = {{r.index, KernelAxis::Kind::Group, 4, 4, counter, {}, {}}};
  Expr first = Expr(counter) * 4, at_j = Expr(c) * 8;
  AxisFrame rows_here{r.index, first, min(4, Expr(r.index.size()) - first)};
  Frame frame{rows_here, {j.index, at_j, min(8, Expr(j.index.size()) - at_j)}};
  Buffer view{.sym = tile("view"),
              .axes = {r.index, j.index},
              .space = Space::Memory,
              .tensor = X,
              .index = {r.index, j.index}};
  Buffer panel{.sym = tile("panel"),
               .axes = {r.index, j.index},
               .space = Space::Local,
               .layout = Layout::strided({4, 8}, {0, 1})};
  Buffer sum{.sym = tile("sum"), .axes = {r.index}, .layout = Layout::row_major({4}), .role = 0};
  k.buffers = {view, panel, sum};
  Role task{"task", 1, 1, 0, {}};
  task.body = {
      {MapOp{sum.sym, 0, {rows_here}, {}}, ""},
      {MappedLoop{
           c,
           0,
           floordiv(Expr(j.index.size()) + 7, 8),
           {{MapOp{panel.sym, at(view), frame, {}}, ""},
            {ReduceOp{sum.sym, Reducer::Sum, {j.index}, at(panel), true, frame, {}, Scope::Thread, {}}, ""}}},
       ""},
      {StoreOut{"store.plain", sum.sym, Y, {r.index}, {rows_here}}, ""}};
  k.roles = {task};
  s.mapped.kernels = {k};
  return s;
}

}  // namespace tilewright::testing
