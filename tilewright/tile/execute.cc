#include "tilewright/tile/execute.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "tilewright/tile/chunk_table.h"
#include "tilewright/tile/statements.h"

namespace tilewright::interpreter {
namespace {

int64_t ceil_quotient(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Values of a reducer. Sums of f32 run in lanes that are added pairwise, so that long rows keep their
/// digits.
class Accumulator {
 public:
  Accumulator(Reducer r, bool wide) : r_(r), wide_(wide) {
    switch (r) {
      case Reducer::Sum: value_ = 0; break;
      case Reducer::Prod:
      case Reducer::All: value_ = 1; break;
      case Reducer::Any: value_ = 0; break;
      case Reducer::Max:
      case Reducer::Argmax: value_ = -INFINITY; break;
      case Reducer::Min:
      case Reducer::Argmin: value_ = INFINITY; break;
      default: fail_check("a reducer of tile programs", __FILE__, __LINE__, name(r));
    }
  }
  double result() const { return r_ == Reducer::Argmax || r_ == Reducer::Argmin ? double(index_) : value_; }

  void take(double x) { value_ = combine(value_, x); }

  /// n values, `step` apart (0: the same each time); the first stands at index `first` of its axis.
  void take(const double* v, int64_t step, int64_t n, int64_t first) {
    if (r_ == Reducer::Argmax || r_ == Reducer::Argmin) return take_index(v, step, n, first);
    if (r_ == Reducer::Sum && n > 1) return take(sum(v, step, n));
    for (int64_t k = 0; k < n; ++k) take(v[k * step]);
  }

 private:
  double round(double x) const { return wide_ ? x : double(float(x)); }
  double combine(double a, double b) const {
    switch (r_) {
      case Reducer::Sum: return round(a + b);
      case Reducer::Prod: return round(a * b);
      case Reducer::Max: return std::isnan(a) || a > b ? a : b;
      case Reducer::Min: return std::isnan(a) || a < b ? a : b;
      case Reducer::Any: return double(a != 0 || b != 0);
      case Reducer::All: return double(a != 0 && b != 0);
      default: return a;
    }
  }
  double sum(const double* v, int64_t step, int64_t n) const {
    constexpr int lanes = 16;
    double lane[lanes] = {};
    for (int64_t k = 0; k < n; k += lanes)
      for (int64_t i = 0; i < lanes && k + i < n; ++i) lane[i] = round(lane[i] + v[(k + i) * step]);
    for (int half = lanes / 2; half > 0; half /= 2)
      for (int i = 0; i < half; ++i) lane[i] = round(lane[i] + lane[i + half]);
    return lane[0];
  }
  void take_index(const double* v, int64_t step, int64_t n, int64_t first) {
    for (int64_t k = 0; k < n; ++k) {
      double x = v[k * step];
      // The first NaN wins, then the first of the best.
      bool better = index_ < 0 || (!std::isnan(value_) &&
                                   (std::isnan(x) || (r_ == Reducer::Argmax ? x > value_ : x < value_)));
      if (better) value_ = x, index_ = first + k;
    }
  }

  Reducer r_;
  bool wide_;
  double value_ = 0;
  int64_t index_ = -1;
};

bool is_wide(const Tile& t) { return t.dtype == DType::f64; }

}  // namespace

void TileData::set(int64_t at, double x) {
  if (wide)
    wides[size_t(at)] = tile->dtype == DType::f64 ? x : round_to(tile->dtype, x);
  else
    single[size_t(at)] = tile->dtype == DType::f32 ? float(x) : float(round_to(tile->dtype, x));
}

int64_t TileData::stride_of(int axis) const {
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i] == axis) return strides[i];
  return 0;
}

void Kernel::check_memory() const {
  double needed = 0, most = 0;
  const Tile* largest = nullptr;
  for (const Tile& tile : k_.tiles) {
    double size = tile.dtype == DType::f64 || !is_float(tile.dtype) ? sizeof(double) : sizeof(float);
    for (int axis : numbers(tile.axes)) size *= double(axes_[size_t(axis)].axis->block);
    needed += 2 * size;  // each tile has a second form: as it was fetched
    if (size > most) most = size, largest = &tile;
  }
  const double there = double(sysconf(_SC_PHYS_PAGES)) * double(sysconf(_SC_PAGE_SIZE));
  if (needed > there && there > 0)
    throw UserError(
        Span{},
        fmt::format("the tiles of this schedule take {:.1f} GiB, and this machine has {:.1f} GiB; the "
                    "largest is `{}`",
                    needed / (1 << 30), there / (1 << 30), largest->sym.name()),
        "write smaller blocks and chunks");
}

Kernel::Kernel(const TileProgram& t, const TileKernel& k, const std::map<Sym, double>& scalars,
               const Sizes& sizes, const Arrays& arrays, Counts& counts)
    : t_(t), k_(k), arrays_(arrays), counts_(counts), memory_(&counts.memory), shared_(&counts.shared) {
  compile_axes(scalars, sizes);
  check_memory();
  for (const Tile& tile : k.tiles) {
    TileData d;
    d.tile = &tile;
    d.axes = numbers(tile.axes);
    d.strides.resize(d.axes.size());
    int64_t elements = 1;
    for (size_t i = d.axes.size(); i-- > 0;) {
      d.strides[i] = elements;
      elements *= axes_[size_t(d.axes[i])].axis->block;
    }
    d.wide = tile.dtype == DType::f64 || !is_float(tile.dtype);
    if (d.wide)
      d.wides.assign(size_t(elements), NAN);
    else
      d.single.assign(size_t(elements), NAN);
    tile_number_[tile.sym] = int(tiles_.size());
    tiles_.push_back(std::move(d));
  }
  fetched_ = tiles_;
  use_fetched_.assign(tiles_.size(), false);
  for (const ChunkTable& table : k.chunk_tables)
    chunk_rows_.push_back(chunk_rows(table, scalars, sizes, arrays.read));
  code_ = compile(k.body);
}

void Kernel::compile_axes(const std::map<Sym, double>& scalars, const Sizes& sizes) {
  auto slot = [&](Sym s, double value) {
    auto [it, fresh] = slots_.emplace(s, int(scalars_.size()));
    if (fresh) scalars_.push_back(value);
    return it->second;
  };
  for (const auto& [sym, value] : scalars) slot(sym, value);
  for (const ChunkTable& table : k_.chunk_tables)
    for (Sym s : table.bounds) slot(s, 0);
  for (const auto* list : {&k_.grid, &k_.inner})
    for (const KernelAxis& a : *list) {
      AxisState s;
      s.axis = &a;
      s.size = sizes.at(a.index.size());
      s.index_slot = slot(a.index, 0);
      if (a.counter) s.counter_slot = slot(a.counter, 0);
      if (a.kind == KernelAxis::Kind::Whole || a.kind == KernelAxis::Kind::Resident) {
        s.length = s.size;
        if (s.size > a.block)
          throw UserError(Span{},
                          fmt::format("axis `{}` has {} elements, but the plan holds at most {} of it",
                                      a.index.name(), s.size, a.block),
                          fmt::format("stream it: `stream {}={}`", a.index.name(), a.block));
      }
      axis_number_[a.index] = int(axes_.size());
      axes_.push_back(s);
    }
}

std::vector<int> Kernel::numbers(const std::vector<Sym>& axes) const {
  std::vector<int> n;
  for (Sym s : axes) n.push_back(axis_number_.at(s));
  return n;
}

VectorProgram Kernel::program(Expr e, const std::vector<int>& domain, const Tile* target) const {
  if (!e) return {};
  Sym strip = domain.empty() ? Sym() : axes_[size_t(domain.back())].axis->index;
  bool wide = target && is_wide(*target);
  std::vector<bool> integer, has_strip;
  for (const TileData& d : tiles_) {
    integer.push_back(!is_float(d.tile->dtype));
    has_strip.push_back(strip && contains_axis(d.tile->axes, strip));
  }
  for (Sym s : tiles_read(k_, e)) {
    const Tile& t = k_.tile(s);
    wide = wide || is_wide(t);
    for (Sym axis : t.axes)
      TW_CHECK(std::find(domain.begin(), domain.end(), axis_number_.at(axis)) != domain.end(),
               fmt::format("tile {} is read outside of its axis {}", s.name(), axis.name()));
  }
  return VectorProgram(e, strip, slots_, tile_number_, integer, has_strip, wide);
}

std::vector<Code> Kernel::compile(const Body& body) {
  std::vector<Code> code;
  for (const Stmt& s : body) code.push_back(compile(s));
  return code;
}

Code Kernel::compile(const Stmt& s) {
  Code c;
  c.stmt = &s;
  c.domain = numbers(tilewright::domain(k_, s));
  if (auto* x = std::get_if<Load>(&s.node)) {
    for (Expr e : x->index) c.index.push_back(program(e, c.domain, nullptr));
    c.plain = program(x->present, c.domain, nullptr);
  } else if (auto* store = std::get_if<Store>(&s.node)) {
    for (Expr e : store->index) c.index.push_back(program(e, c.domain, nullptr));
  } else if (auto* map = std::get_if<Map>(&s.node)) {
    c.plain = program(map->value, c.domain, &k_.tile(map->tile));
    c.masked = program(value_in(*map, true), c.domain, &k_.tile(map->tile));
  } else if (auto* sum = std::get_if<Reduce>(&s.node)) {
    c.plain = program(sum->value, c.domain, &k_.tile(sum->tile));
    c.masked = program(value_in(*sum, true), c.domain, &k_.tile(sum->tile));
  } else if (auto* rank = std::get_if<Rank>(&s.node)) {
    c.plain = program(rank->value, c.domain, &k_.tile(rank->keys));
    c.masked = program(rank->present, c.domain, nullptr);
    c.index.push_back(program(rank->at, c.domain, &k_.tile(rank->indices)));
  } else if (auto* dot = std::get_if<Dot>(&s.node)) {
    prepare_dot(c, *dot);
  } else if (auto* loop = std::get_if<Loop>(&s.node)) {
    for (const Segment& g : loop->segments) {
      c.index.push_back(program(g.lo, {}, nullptr));
      c.index.push_back(program(g.hi, {}, nullptr));
    }
    c.body = compile(loop->body);
  } else if (auto* when = std::get_if<When>(&s.node)) {
    c.domain = numbers(when->axes);
    c.plain = program(when->condition, c.domain, nullptr);
    c.body = compile(when->body);
  }
  return c;
}

void Kernel::run() {
  for (const KernelAxis& a : k_.grid) {
    const AxisState& s = axes_[size_t(axis_number_.at(a.index))];
    if (ceil_quotient(s.size, a.block) == 0) return;
  }
  std::vector<int64_t> counter(k_.grid.size(), 0);
  while (true) {
    for (size_t i = 0; i < counter.size(); ++i) enter(int(i), counter[i]);
    run_block();
    size_t i = counter.size();
    while (i > 0) {
      --i;
      if (++counter[i] < ceil_quotient(axes_[i].size, axes_[i].axis->block)) break;
      counter[i] = 0;
      if (i == 0) return;
    }
    if (counter.empty()) return;
  }
}

void Kernel::run_block() {
  find_chunks();
  run(code_, false);
}

/// The block's rows of the chunk tables.
void Kernel::find_chunks() {
  for (size_t t = 0; t < k_.chunk_tables.size(); ++t) {
    const ChunkTable& table = k_.chunk_tables[t];
    size_t row = 0;
    for (const KernelAxis& a : table.rows) {
      const AxisState& s = axes_[size_t(axis_number_.at(a.index))];
      row = row * size_t(ceil_quotient(s.size, a.block)) + size_t(scalars_[size_t(s.counter_slot)]);
    }
    for (size_t k = 0; k < table.bounds.size(); ++k)
      scalars_[size_t(slots_.at(table.bounds[k]))] = double(chunk_rows_[t][4 * row + k]);
  }
}

void Kernel::place(int axis, int64_t at) {
  AxisState& s = axes_[size_t(axis)];
  s.at = at;
  scalars_[size_t(s.index_slot)] = double(s.first + at);
}

void Kernel::enter(int axis, int64_t counter) {
  AxisState& s = axes_[size_t(axis)];
  s.first = counter * s.axis->block;
  s.length = std::clamp<int64_t>(s.size - s.first, 0, s.axis->block);
  scalars_[size_t(s.counter_slot)] = double(counter);
  place(axis, 0);
}

int64_t Kernel::offset(const TileData& d) const {
  int64_t at = 0;
  for (size_t i = 0; i < d.axes.size(); ++i) at += axes_[size_t(d.axes[i])].at * d.strides[i];
  return at;
}

const double* Kernel::evaluate(VectorProgram& p, const std::vector<int>& domain, int64_t n) {
  std::vector<Source> sources;
  sources.reserve(p.tiles().size());
  int64_t first = 0;
  if (!domain.empty()) first = axes_[size_t(domain.back())].first + axes_[size_t(domain.back())].at;
  for (int number : p.tiles()) {
    const TileData& d = use_fetched_[size_t(number)] ? fetched_[size_t(number)] : tiles_[size_t(number)];
    Source s;
    int64_t at = offset(d);
    if (d.wide)
      s.wide = d.wides.data() + at;
    else
      s.single = d.single.data() + at;
    s.stride = domain.empty() ? 0 : d.stride_of(domain.back());
    sources.push_back(s);
  }
  return p.run(scalars_.data(), sources, first, n);
}

void Kernel::fetch(const VectorProgram& p, std::vector<int>& fetched) {
  for (int number : p.tiles()) {
    const TileData& d = tiles_[size_t(number)];
    if (d.tile->level != Level::Shared || use_fetched_[size_t(number)]) continue;
    TileData& copy = fetched_[size_t(number)];
    const int64_t width = bytes(d.tile->dtype);
    each(d.axes, [&] {
      int64_t at = offset(d);
      if (d.wide)
        copy.wides[size_t(at)] = d.wides[size_t(at)];
      else
        copy.single[size_t(at)] = d.single[size_t(at)];
      shared_->loaded += width;
    });
    use_fetched_[size_t(number)] = true;
    fetched.push_back(number);
  }
}

void Kernel::run(std::vector<Code>& body, bool masked) {
  for (Code& c : body) run(c, masked);
}

void Kernel::run(Code& c, bool masked) {
  if (auto* load = std::get_if<Load>(&c.stmt->node))
    execute(c, *load);
  else if (auto* store = std::get_if<Store>(&c.stmt->node))
    execute(c, *store);
  else if (auto* map = std::get_if<Map>(&c.stmt->node))
    execute(c, *map, masked);
  else if (auto* dot = std::get_if<Dot>(&c.stmt->node))
    execute(c, *dot, masked);
  else if (auto* reduce = std::get_if<Reduce>(&c.stmt->node))
    execute(c, *reduce, masked);
  else if (auto* rank = std::get_if<Rank>(&c.stmt->node))
    execute(c, *rank, masked);
  else if (auto* loop = std::get_if<Loop>(&c.stmt->node))
    execute(c, *loop);
  else
    execute(c, std::get<When>(c.stmt->node), masked);
}

void Kernel::execute(Code& c, const Load& x) {
  TileData& tile = tiles_[size_t(tile_number_.at(x.tile))];
  const Array& array = arrays_.read.at(x.tensor);
  TW_CHECK(array.sizes.size() == x.index.size(), "one index for each axis of " + x.tensor.name());
  const int64_t width = bytes(array.dtype);
  int64_t& by_tensor = counts_.loaded_by_tensor[x.tensor];
  std::vector<const double*> index(x.index.size());
  strips(c.domain, [&](int64_t, int64_t n) {
    for (size_t d = 0; d < index.size(); ++d) index[d] = evaluate(c.index[d], c.domain, n);
    const double* present = x.present ? evaluate(c.plain, c.domain, n) : nullptr;
    const int64_t at = offset(tile), step = c.domain.empty() ? 0 : tile.stride_of(c.domain.back());
    for (int64_t i = 0; i < n; ++i) {
      int64_t element = 0;
      size_t outside = index.size();
      for (size_t d = 0; d < index.size(); ++d) {
        int64_t v = int64_t(index[d][c.index[d].uniform() ? 0 : i]);
        if (v < 0 || v >= array.sizes[d]) outside = d;
        element += v * array.strides[d];
      }
      if (outside < index.size()) {
        if (!present || present[c.plain.uniform() ? 0 : i] != 0)
          throw IndexOutside{x.tensor, array.axes[outside],
                             int64_t(index[outside][c.index[outside].uniform() ? 0 : i]),
                             array.sizes[outside]};
        tile.set(at + i * step, tile.tile->dtype == DType::boolean || is_integer(tile.tile->dtype) ? 0 : NAN);
        continue;
      }
      tile.set(at + i * step, load_element(array.dtype, array.data, element));
      memory_->loaded += width;
      by_tensor += width;
    }
  });
}

void Kernel::execute(Code& c, const Store& x) {
  const TileData& tile = tiles_[size_t(tile_number_.at(x.tile))];
  const Array& array = arrays_.write.at(x.tensor);
  TW_CHECK(array.sizes.size() == x.index.size(), "one index for each axis of " + x.tensor.name());
  const int64_t width = bytes(array.dtype);
  std::vector<const double*> index(x.index.size());
  strips(c.domain, [&](int64_t, int64_t n) {
    for (size_t d = 0; d < index.size(); ++d) index[d] = evaluate(c.index[d], c.domain, n);
    const int64_t at = offset(tile), step = c.domain.empty() ? 0 : tile.stride_of(c.domain.back());
    for (int64_t i = 0; i < n; ++i) {
      int64_t element = 0;
      for (size_t d = 0; d < index.size(); ++d) {
        int64_t v = int64_t(index[d][c.index[d].uniform() ? 0 : i]);
        TW_CHECK(v >= 0 && v < array.sizes[d], "store inside " + x.tensor.name());
        element += v * array.strides[d];
      }
      store_element(array.dtype, array.data, element, tile.get(at + i * step));
      memory_->stored += width;
    }
  });
}

void Kernel::execute(Code& c, const Map& x, bool masked) {
  TileData& tile = tiles_[size_t(tile_number_.at(x.tile))];
  VectorProgram& p = masked ? c.masked : c.plain;
  std::vector<int> fetched;
  fetch(p, fetched);
  const int64_t width = tile.tile->level == Level::Shared ? bytes(tile.tile->dtype) : 0;
  strips(c.domain, [&](int64_t, int64_t n) {
    const double* v = evaluate(p, c.domain, n);
    const int64_t at = offset(tile), step = c.domain.empty() ? 0 : tile.stride_of(c.domain.back());
    const int64_t from = p.uniform() ? 0 : 1;
    for (int64_t i = 0; i < n; ++i) tile.set(at + i * step, v[i * from]);
    shared_->stored += n * width;
  });
  for (int t : fetched) use_fetched_[size_t(t)] = false;
}

void Kernel::execute(Code& c, const Reduce& x, bool masked) {
  TileData& tile = tiles_[size_t(tile_number_.at(x.tile))];
  VectorProgram& p = masked ? c.masked : c.plain;
  std::vector<int> fetched;
  fetch(p, fetched);
  const std::vector<int> outer = numbers(k_.tile(x.tile).axes);
  const std::vector<int> inner(c.domain.begin() + int64_t(outer.size()), c.domain.end());
  const int64_t width = tile.tile->level == Level::Shared ? bytes(tile.tile->dtype) : 0;
  each(outer, [&] {
    Accumulator total(x.reducer, is_wide(*tile.tile));
    strips(inner, [&](int64_t first, int64_t n) {
      const double* v = evaluate(p, c.domain, n);
      int64_t global = inner.empty() ? 0 : axes_[size_t(inner.back())].first + first;
      total.take(v, p.uniform() ? 0 : 1, n, global);
    });
    const int64_t at = offset(tile);
    if (x.accumulate) total.take(tile.get(at));
    tile.set(at, total.result());
    shared_->stored += width;
  });
  for (int t : fetched) use_fetched_[size_t(t)] = false;
}

/// Pairs are inserted one after another.
void Kernel::execute(Code& c, const Rank& x, bool masked) {
  TileData &keys = tiles_[size_t(tile_number_.at(x.keys))],
           &indices = tiles_[size_t(tile_number_.at(x.indices))];
  const bool test = masked && x.present;
  std::vector<int> fetched;
  fetch(c.plain, fetched);
  fetch(c.index[0], fetched);
  if (test) fetch(c.masked, fetched);
  const std::vector<int> outer(c.domain.begin(), c.domain.end() - 1);
  const int rank = axis_number_.at(x.rank);
  const int64_t length = axes_[size_t(rank)].length, key_step = keys.stride_of(rank),
                index_step = indices.stride_of(rank);
  each(outer, [&] {
    place(rank, 0);
    const int64_t key_at = offset(keys), index_at = offset(indices);
    strips({c.domain.back()}, [&](int64_t, int64_t n) {
      const double *key = evaluate(c.plain, c.domain, n), *index = evaluate(c.index[0], c.domain, n),
                   *present = test ? evaluate(c.masked, c.domain, n) : nullptr;
      for (int64_t i = 0; i < n; ++i) {
        if (present && present[c.masked.uniform() ? 0 : i] == 0) continue;
        const double k = keys.wide ? key[c.plain.uniform() ? 0 : i]
                                   : double(float(key[c.plain.uniform() ? 0 : i])),
                     v = index[c.index[0].uniform() ? 0 : i];
        int64_t to = length;
        while (to > 0 && stands_before(k, v, keys.get(key_at + (to - 1) * key_step),
                                       indices.get(index_at + (to - 1) * index_step)))
          --to;
        for (int64_t j = length - 1; j > to; --j) {
          keys.set(key_at + j * key_step, keys.get(key_at + (j - 1) * key_step));
          indices.set(index_at + j * index_step, indices.get(index_at + (j - 1) * index_step));
        }
        if (to == length) continue;
        keys.set(key_at + to * key_step, k);
        indices.set(index_at + to * index_step, v);
      }
    });
  });
  for (int t : fetched) use_fetched_[size_t(t)] = false;
}

void Kernel::execute(Code& c, const Loop& x) {
  const int axis = axis_number_.at(x.axis);
  const KernelAxis& a = *axes_[size_t(axis)].axis;
  for (size_t g = 0; g < x.segments.size(); ++g) {
    const int64_t lo = int64_t(*evaluate(c.index[2 * g], {}, 1)),
                  hi = int64_t(*evaluate(c.index[2 * g + 1], {}, 1));
    if (a.kind == KernelAxis::Kind::Resident) {
      TW_CHECK(lo == 0 && hi == 1, "a resident axis has one chunk");
      run(c.body, x.segments[g].masked);
      continue;
    }
    for (int64_t chunk = lo; chunk < hi; ++chunk) {
      enter(axis, chunk);
      TW_CHECK(axes_[size_t(axis)].length > 0, "a chunk that is visited holds elements");
      ++counts_.chunks_visited;
      run(c.body, x.segments[g].masked);
    }
  }
  if (a.kind == KernelAxis::Kind::Stream) {
    VectorProgram begin = program(a.begin ? a.begin : Expr(0), {}, nullptr);
    VectorProgram end = program(a.end ? a.end : Expr(a.index.size()), {}, nullptr);
    const int64_t from = int64_t(*evaluate(begin, {}, 1)), to = int64_t(*evaluate(end, {}, 1));
    if (to > from) counts_.chunks_total += ceil_quotient(to, a.block) - from / a.block;
  }
}

void Kernel::execute(Code& c, const When& x, bool masked) {
  bool any = false;
  strips(c.domain, [&](int64_t, int64_t n) {
    const double* v = evaluate(c.plain, c.domain, n);
    for (int64_t i = 0; i < (c.plain.uniform() ? 1 : n); ++i) any = any || v[i] != 0;
  });
  if (!any) return;
  LevelBytes *memory = memory_, *shared = shared_;
  if (x.slow_path) memory_ = &counts_.slow_memory, shared_ = &counts_.slow_shared;
  run(c.body, masked);
  memory_ = memory, shared_ = shared;
}

void run_kernel(const TileProgram& t, const TileKernel& k, const std::map<Sym, double>& scalars,
                const Sizes& sizes, const Arrays& arrays, Counts& counts) {
  Kernel(t, k, scalars, sizes, arrays, counts).run();
}

}  // namespace tilewright::interpreter
