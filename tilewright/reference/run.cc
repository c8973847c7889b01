#include "tilewright/reference/run.h"

#include <algorithm>

#include <fmt/format.h>

#include "tilewright/reference/state.h"

namespace tilewright::reference {
namespace {

using Do = Instruction::Do;

/// A table is kept whole when it takes at most this many bytes, all such tables together `dense_total`; else block by block.
constexpr int64_t dense_bytes = int64_t(1) << 30, dense_total = int64_t(3) << 30;
/// Blocks of tables that are not whole are dropped, between elements that are asked for, when they take more than this.
constexpr int64_t sparse_bytes = int64_t(1) << 29;
/// Inputs of at most this many elements are converted at once.
constexpr int64_t eager_elements = int64_t(1) << 24;
/// Failures that are told apart; further ones are reported as the last.
constexpr size_t most_failures = 4096;

/// Why an element could not be computed.
struct Failure {
  Expr source;
  int axis = -1;  ///< of the tensor read at `source`; −1: division by zero
  int64_t value = 0;
};

/// The value of every bit pattern of a 16-bit float.
const std::vector<float>& halves(DType t) {
  static const auto table = [](DType type) {
    std::vector<float> values(size_t(1) << 16);
    for (size_t k = 0; k < values.size(); ++k) {
      const uint16_t bits = uint16_t(k);
      values[k] = float(load_element(type, &bits, 0));
    }
    return values;
  };
  static const std::vector<float> f16 = table(DType::f16), bf16 = table(DType::bf16);
  return t == DType::f16 ? f16 : bf16;
}

template <class T>
class Runner : public Engine {
 public:
  Runner(Graph& graph, std::vector<ArrayView> arrays)
      : graph_(graph), arrays_(std::move(arrays)), states_(graph.tables.size()) {
    for (size_t k = 0; k < states_.size(); ++k) set_up(states_[k], graph_.tables[k]);
  }

  double element(int table, const std::vector<int64_t>& index) override {
    drop_parts();
    State& s = states_[size_t(table)];
    int64_t row = 0, column = 0;
    for (size_t k = 0; k < index.size(); ++k) {
      if (int(k) == s.table->row) column = index[k];
      row += index[k] * s.row_strides[k];
    }
    const std::byte* p = fetch(s, row, column);
    if (uint32_t failure = failure_at(s, row, column)) report(failure);
    return value_of(s.table->kind, p, 0);
  }

  void all(int table, const std::vector<int64_t>& strides, double* out) override {
    State& s = states_[size_t(table)];
    const Table& t = *s.table;
    if (s.length == 0) return;
    const int64_t column_stride = t.row < 0 ? 0 : strides[size_t(t.row)];
    for (int64_t row = 0; row < s.rows; ++row) {
      int64_t offset = 0;
      for (int64_t k = int64_t(t.axes.size()) - 1, rest = row; k >= 0; --k) {
        if (int(k) == t.row) continue;
        offset += rest % t.sizes[size_t(k)] * strides[size_t(k)];
        rest /= t.sizes[size_t(k)];
      }
      for (int64_t column = 0; column < s.length;) {
        drop_parts();
        const int64_t n = std::min(s.length - column, int64_t(1) << t.shift);
        const std::byte* p = fetch(s, row, column);
        for (int64_t k = 0; k < n; ++k) {
          if (uint32_t failure = failure_at(s, row, column + k)) report(failure);
          out[offset + (column + k) * column_stride] = value_of(t.kind, p, k);
        }
        column += n;
      }
    }
  }

 private:
  void set_up(State& s, const Table& t) {
    if (t.elements() > 0x1p60)
      throw UserError(
          {}, fmt::format("{} has {:g} elements, more than can be evaluated", t.sym.name(), t.elements()));
    s.table = &t;
    s.element_bytes = bytes_of(t.kind, sizeof(T));
    s.length = t.row < 0 ? 1 : t.sizes[size_t(t.row)];
    s.row_strides.assign(t.axes.size(), 0);
    for (int64_t k = int64_t(t.axes.size()) - 1; k >= 0; --k) {
      if (int(k) == t.row) continue;
      s.row_strides[size_t(k)] = s.rows;
      s.rows *= t.sizes[size_t(k)];
    }
    s.blocks = (s.length + (int64_t(1) << t.shift) - 1) >> t.shift;
    s.empty = t.points() == 0 && t.reducer;
  }

  double value_of(Kind k, const std::byte* p, int64_t index) const {
    switch (k) {
      case Kind::real: return double(reinterpret_cast<const T*>(p)[index]);
      case Kind::integer: return double(reinterpret_cast<const int64_t*>(p)[index]);
      case Kind::boolean: return double(reinterpret_cast<const uint8_t*>(p)[index] != 0);
    }
    return 0;
  }

  // ---- Storage ----

  /// Storage is taken when a table is first read.
  void allocate(State& s) {
    const int64_t bytes = s.rows * s.length * s.element_bytes;
    if (bytes > dense_bytes || dense_used_ + bytes > dense_total) return;
    s.whole = zeroed(bytes);
    s.done.assign(size_t(s.rows * s.blocks), false);
    dense_used_ += bytes;
    if (s.table->input && s.rows * s.length <= eager_elements) {
      for (int64_t row = 0; row < s.rows; ++row)
        for (int64_t block = 0; block < s.blocks; ++block) compute(s, row, block, whole_block(s, row, block));
      s.ready = true;
    }
  }

  std::byte* whole_block(State& s, int64_t row, int64_t block) {
    return s.whole.get() + (row * s.length + (block << s.table->shift)) * s.element_bytes;
  }

  /// The block's values, computed if they are not yet known.
  const std::byte* block_at(State& s, int64_t row, int64_t block) {
    if (!s.compiled) start(s);
    if (s.whole) {
      std::byte* p = whole_block(s, row, block);
      if (!s.ready && !s.done[size_t(row * s.blocks + block)]) {
        compute(s, row, block, p);
        s.done[size_t(row * s.blocks + block)] = true;
      }
      return p;
    }
    const int64_t key = row * s.blocks + block;
    auto it = s.parts.find(key);
    if (it == s.parts.end()) {
      const int64_t bytes = (int64_t(1) << s.table->shift) * s.element_bytes;
      Memory memory = zeroed(bytes);
      compute(s, row, block, memory.get());
      sparse_used_ += bytes + 64;
      it = s.parts.emplace(key, std::move(memory)).first;
    }
    return it->second.get();
  }

  const std::byte* fetch(State& s, int64_t row, int64_t column) {
    if (s.ready) return s.whole.get() + (row * s.length + column) * s.element_bytes;
    const int shift = s.table->shift;
    const int64_t block = column >> shift;
    return block_at(s, row, block) + (column - (block << shift)) * s.element_bytes;
  }

  uint32_t failure_at(const State& s, int64_t row, int64_t column) const {
    if (s.failed.empty()) return 0;
    auto it = s.failed.find(row * s.length + column);
    return it == s.failed.end() ? 0 : it->second;
  }

  void drop_parts() {
    if (sparse_used_ <= sparse_bytes) return;
    for (State& s : states_) {
      if (s.parts.empty()) continue;
      s.parts.clear();
      s.failed.clear();
    }
    sparse_used_ = 0;
  }

  // ---- Failures ----

  uint32_t note(Failure f) {
    if (failures_.size() < most_failures) failures_.push_back(f);
    return uint32_t(failures_.size());
  }

  [[noreturn]] void report(uint32_t number) {
    const Failure& f = failures_[number - 1];
    Span span = graph_.program().span_of(f.source);
    if (f.axis < 0)
      throw UserError(span, fmt::format("division by zero in `{}`", to_string(f.source)),
                      "guard it: where(divisor != 0, ..., 0)");
    const Table& t = graph_.tables[size_t(graph_.table_of(f.source->sym))];
    const std::string axis = t.axes[size_t(f.axis)].name();
    throw UserError(span,
                    fmt::format("index {} is outside axis `{}` of `{}`, which has size {}", f.value, axis,
                                f.source->sym.name(), t.sizes[size_t(f.axis)]),
                    "guard the read with where(...), or correct the values it is indexed by");
  }

  // ---- Running ----

  void start(State& s) {
    s.compiled = true;
    allocate(s);
    if (s.table->input) return;
    s.code = compile(graph_, *s.table);
    for (const Register& r : s.code.registers) {
      s.own.push_back(zeroed((r.vector ? strip_length : 1) * 8));
      s.at.push_back(s.own.back().get());
    }
    for (const Code::Constant& c : s.code.constants) switch (s.code.registers[size_t(c.reg)].kind) {
        case Kind::real: *out<T>(s, c.reg) = T(c.real); break;
        case Kind::integer: *out<int64_t>(s, c.reg) = c.integer; break;
        case Kind::boolean: *out<uint8_t>(s, c.reg) = c.integer != 0; break;
      }
    s.poisons.resize(s.code.poisons.size());
    s.values = zeroed(strip_length * 8);
    if (s.table->reducer) s.best = zeroed(strip_length * 8);
  }

  void compute(State& s, int64_t row, int64_t block, std::byte* to) {
    const Table& t = *s.table;
    s.first = block << t.shift;
    s.count = std::min(s.length - s.first, int64_t(1) << t.shift);
    if (t.input) return convert_input(s, row, to);
    for (int64_t k = int64_t(t.axes.size()) - 1, rest = row; k >= 0; --k) {
      if (int(k) == t.row) continue;
      *out<int64_t>(s, s.code.axis_registers[size_t(k)]) = rest % t.sizes[size_t(k)];
      rest /= t.sizes[size_t(k)];
    }
    s.lanes = 1;
    s.row_in_block = 0;
    if (t.strip && !t.strip_is_bound()) {
      *out<int64_t>(s, s.code.axis_registers[size_t(t.row)]) = s.first;
      s.lanes = s.count;
    }
    if (s.any_failure) s.failures.fill(0);
    s.any_failure = false;
    if (t.reducer) clear_accumulators<T>(s);
    if (!s.empty) {
      if (!s.started) s.open = execute(s, 0);
      s.started = true;
      if (s.open) run_level(s, 1);
    }
    store<T>(s, to);
    if (s.any_failure)
      for (int64_t k = 0; k < s.count; ++k)
        if (s.failures[size_t(k)]) s.failed[row * s.length + s.first + k] = s.failures[size_t(k)];
  }

  void run_level(State& s, size_t level) {
    if (!execute(s, level)) return;
    if (level == s.code.loops.size() + 1) return consume<T>(s);
    const Loop& loop = s.code.loops[level - 1];
    if (loop.strip) {
      for (int64_t at = 0; at < loop.size; at += strip_length) {
        s.lanes = std::min(strip_length, loop.size - at);
        *out<int64_t>(s, loop.reg) = at;
        run_level(s, level + 1);
      }
    } else if (loop.row) {
      for (int64_t k = 0; k < s.count; ++k) {
        s.row_in_block = k;
        *out<int64_t>(s, loop.reg) = s.first + k;
        run_level(s, level + 1);
      }
    } else {
      for (int64_t k = 0; k < loop.size; ++k) {
        *out<int64_t>(s, loop.reg) = k;
        run_level(s, level + 1);
      }
    }
  }

  /// False when a guard lets no lane through.
  bool execute(State& s, size_t level) {
    for (const Instruction& i : s.code.levels[level]) {
      switch (i.what) {
        case Do::Operate: operate(s, i); break;
        case Do::Convert: convert(s, i); break;
        case Do::Load: load(s, i); break;
        case Do::Iota: {
          int64_t* d = out<int64_t>(s, i.dst);
          const int64_t base = integer(s, i.a);
          for (int64_t k = 0; k < s.lanes; ++k) d[k] = base + k;
          break;
        }
        case Do::Guard:
          if (!any(s, i.a)) return false;
          break;
      }
    }
    return true;
  }

  bool any(const State& s, int reg) const {
    auto c = in<uint8_t>(s, reg);
    const int64_t n = c.wide ? s.lanes : 1;
    for (int64_t k = 0; k < n; ++k)
      if (c.at[k]) return true;
    return false;
  }

  int64_t lanes_of(const State& s, int reg) const {
    return s.code.registers[size_t(reg)].vector ? s.lanes : 1;
  }

  void operate(State& s, const Instruction& i) {
    const int64_t n = lanes_of(s, i.dst);
    const Kind result = s.code.registers[size_t(i.dst)].kind;
    if (i.op == Op::Select) {
      auto c = in<uint8_t>(s, i.a);
      switch (i.kind) {
        case Kind::real: return select(out<T>(s, i.dst), c, in<T>(s, i.b), in<T>(s, i.c), n);
        case Kind::integer:
          return select(out<int64_t>(s, i.dst), c, in<int64_t>(s, i.b), in<int64_t>(s, i.c), n);
        case Kind::boolean:
          return select(out<uint8_t>(s, i.dst), c, in<uint8_t>(s, i.b), in<uint8_t>(s, i.c), n);
      }
    }
    switch (i.kind) {
      case Kind::real:
        if (result == Kind::real)
          return operate_real(i.op, i.dtype, out<T>(s, i.dst), in<T>(s, i.a), in<T>(s, i.b), n);
        if (result == Kind::boolean)
          return compare(i.op, out<uint8_t>(s, i.dst), in<T>(s, i.a), in<T>(s, i.b), n);
        return map1(out<int64_t>(s, i.dst), in<T>(s, i.a).at, n,
                    [&](T x) { return to_integer(i.dtype, double(x)); });
      case Kind::integer:
        if (result == Kind::boolean)
          return compare(i.op, out<uint8_t>(s, i.dst), in<int64_t>(s, i.a), in<int64_t>(s, i.b), n);
        operate_integer(i.op, i.dtype, out<int64_t>(s, i.dst), in<int64_t>(s, i.a), in<int64_t>(s, i.b), n);
        if (i.poison >= 0) check_divisor(s, i, n);
        return;
      case Kind::boolean:
        return operate_boolean(i.op, out<uint8_t>(s, i.dst), in<uint8_t>(s, i.a), in<uint8_t>(s, i.b), n);
    }
  }

  void check_divisor(State& s, const Instruction& i, int64_t n) {
    Poison& poison = s.poisons[size_t(i.poison)];
    poison.any = false;
    auto mask = in<uint8_t>(s, i.mask);
    auto divisor = in<int64_t>(s, i.b);
    for (int64_t k = 0; k < n; ++k)
      if (divisor[k] == 0 && (!mask.at || mask[k])) taint(poison, k, note({i.source, -1, 0}));
  }

  void convert(State& s, const Instruction& i) {
    const int64_t n = lanes_of(s, i.dst);
    auto with = [&](auto source) {
      using E = decltype(source);
      const E* a = in<E>(s, i.a).at;
      switch (s.code.registers[size_t(i.dst)].kind) {
        case Kind::real: return map1(out<T>(s, i.dst), a, n, [](E x) TW_INLINE { return T(x); });
        case Kind::integer:
          return map1(out<int64_t>(s, i.dst), a, n, [](E x) {
            if constexpr (std::is_floating_point_v<E>)
              return to_integer(DType::i64, double(x));
            else
              return int64_t(x);
          });
        case Kind::boolean:
          return map1(out<uint8_t>(s, i.dst), a, n, [](E x) TW_INLINE { return uint8_t(x != 0); });
      }
    };
    switch (i.kind) {
      case Kind::real: return with(T{});
      case Kind::integer: return with(int64_t{});
      case Kind::boolean: return with(uint8_t{});
    }
  }

  // ---- Reads ----

  void load(State& s, const Instruction& i) {
    const Site& site = s.code.sites[size_t(i.site)];
    State& from = states_[size_t(site.table)];
    Poison* poison = i.poison >= 0 ? &s.poisons[size_t(i.poison)] : nullptr;
    if (poison) poison->any = false;
    const int64_t n = site.vector ? s.lanes : 1;
    if (i.mask >= 0 && !any(s, i.mask)) {
      std::fill_n(out<std::byte>(s, i.dst), n * from.element_bytes, std::byte{0});
      return;
    }
    if (site.gather) return load_lanes(s, i, n);
    int64_t row = 0, column = 0, row_step = 0, column_step = 0;
    for (size_t k = 0; k < site.indices.size(); ++k) {
      const Site::Index& index = site.indices[k];
      const int64_t first = integer(s, index.reg), last = first + (n - 1) * index.coefficient;
      if (index.checked) {
        const int64_t size = from.table->sizes[k];
        if (std::min(first, last) < 0 || std::max(first, last) >= size) return load_lanes(s, i, n);
      }
      if (int(k) == from.table->row) {
        column = first;
        column_step = index.coefficient;
      } else {
        row += first * from.row_strides[k];
        row_step += index.coefficient * from.row_strides[k];
      }
    }
    if (!from.compiled) start(from);
    if (n == 1) {
      std::memcpy(out<std::byte>(s, i.dst), fetch(from, row, column), size_t(from.element_bytes));
    } else if (row_step == 0 && column_step == 1) {
      load_neighbours(s, i, from, row, column, n);
    } else if (from.ready) {
      const std::byte* p = from.whole.get() + (row * from.length + column) * from.element_bytes;
      const int64_t step = row_step * from.length + column_step;
      switch (from.table->kind) {
        case Kind::real: spread(out<T>(s, i.dst), p, step, n); break;
        case Kind::integer: spread(out<int64_t>(s, i.dst), p, step, n); break;
        case Kind::boolean: spread(out<uint8_t>(s, i.dst), p, step, n); break;
      }
    } else {
      return load_lanes(s, i, n);
    }
    if (!from.failed.empty() && poison) {
      auto mask = in<uint8_t>(s, i.mask);
      for (int64_t k = 0; k < n; ++k)
        if (!mask.at || mask[k])
          if (uint32_t f = failure_at(from, row + k * row_step, column + k * column_step))
            taint(*poison, k, f);
    }
  }

  template <class E>
  void spread(E* d, const std::byte* from, int64_t step, int64_t n) {
    const E* p = reinterpret_cast<const E*>(from);
    for (int64_t k = 0; k < n; ++k) d[k] = p[k * step];
  }

  void load_neighbours(State& s, const Instruction& i, State& from, int64_t row, int64_t column, int64_t n) {
    const int shift = from.table->shift;
    if (!from.ready) {
      if (!from.whole) {  // blocks lie apart
        std::byte* d = out<std::byte>(s, i.dst);
        for (int64_t k = 0; k < n;) {
          const int64_t at = column + k, block_end = ((at >> shift) + 1) << shift;
          const int64_t here = std::min(n - k, block_end - at);
          std::memcpy(d + k * from.element_bytes, fetch(from, row, at), size_t(here * from.element_bytes));
          k += here;
        }
        return;
      }
      for (int64_t block = column >> shift; block <= (column + n - 1) >> shift; ++block)
        block_at(from, row, block);
    }
    s.at[size_t(i.dst)] = from.whole.get() + (row * from.length + column) * from.element_bytes;
  }

  /// Lane by lane: every index is checked, lanes outside of the mask are left 0.
  void load_lanes(State& s, const Instruction& i, int64_t n) {
    const Site& site = s.code.sites[size_t(i.site)];
    State& from = states_[size_t(site.table)];
    Poison* poison = i.poison >= 0 ? &s.poisons[size_t(i.poison)] : nullptr;
    std::byte* d = out<std::byte>(s, i.dst);
    auto mask = in<uint8_t>(s, i.mask);
    for (int64_t k = 0; k < n; ++k, d += from.element_bytes) {
      std::fill_n(d, from.element_bytes, std::byte{0});
      if (mask.at && !mask[k]) continue;
      int64_t row = 0, column = 0;
      bool inside = true;
      for (size_t a = 0; a < site.indices.size() && inside; ++a) {
        const Site::Index& index = site.indices[a];
        const int64_t x =
            index.vector ? in<int64_t>(s, index.reg)[k] : integer(s, index.reg) + k * index.coefficient;
        if (x < 0 || x >= from.table->sizes[a]) {
          TW_CHECK(poison, "an index was proved inside its axis and is not: " + to_string(site.source));
          taint(*poison, k, note({site.source, int(a), x}));
          inside = false;
        } else if (int(a) == from.table->row) {
          column = x;
        } else {
          row += x * from.row_strides[a];
        }
      }
      if (!inside) continue;
      std::memcpy(d, fetch(from, row, column), size_t(from.element_bytes));
      if (uint32_t f = failure_at(from, row, column)) taint(*poison, k, f);
    }
  }

  void convert_input(State& s, int64_t row, std::byte* to) {
    const Table& t = *s.table;
    const ArrayView& array = arrays_[size_t(t.input - graph_.program().inputs.data())];
    // Strides of the pieces of composite dimensions follow from those of the dimensions.
    int64_t offset = 0, step = 0, rest = row;
    int k = int(t.axes.size()) - 1;
    for (size_t dim = t.input->dims.size(); dim-- > 0;) {
      int64_t stride = array.strides[dim];
      for (size_t piece = t.input->dims[dim].pieces.size(); piece-- > 0; --k) {
        if (k == t.row) {
          offset += s.first * stride;
          step = stride;
        } else {
          offset += rest % t.sizes[size_t(k)] * stride;
          rest /= t.sizes[size_t(k)];
        }
        stride *= t.sizes[size_t(k)];
      }
    }
    switch (t.kind) {
      case Kind::real: return convert_reals(reinterpret_cast<T*>(to), array, offset, step, s.count);
      case Kind::integer:
        return convert_integers(reinterpret_cast<int64_t*>(to), array, offset, step, s.count);
      case Kind::boolean: {
        auto* d = reinterpret_cast<uint8_t*>(to);
        for (int64_t n = 0; n < s.count; ++n)
          d[n] = load_element(array.dtype, array.data, offset + n * step) != 0;
        return;
      }
    }
  }

  void convert_reals(T* d, const ArrayView& array, int64_t offset, int64_t step, int64_t n) {
    auto typed = [&](auto zero) {
      const auto* p = static_cast<const decltype(zero)*>(array.data);
      for (int64_t k = 0; k < n; ++k) d[k] = T(p[offset + k * step]);
    };
    if (array.dtype == DType::f64) return typed(0.0);
    if (array.dtype == DType::f32) return typed(0.0f);
    if (bytes(array.dtype) == 2) {
      const auto* p = static_cast<const uint16_t*>(array.data);
      const std::vector<float>& values = halves(array.dtype);
      for (int64_t k = 0; k < n; ++k) d[k] = T(values[p[offset + k * step]]);
      return;
    }
    for (int64_t k = 0; k < n; ++k) d[k] = T(load_element(array.dtype, array.data, offset + k * step));
  }

  void convert_integers(int64_t* d, const ArrayView& array, int64_t offset, int64_t step, int64_t n) {
    if (array.dtype == DType::i64) {
      const auto* p = static_cast<const int64_t*>(array.data);
      for (int64_t k = 0; k < n; ++k) d[k] = p[offset + k * step];
      return;
    }
    for (int64_t k = 0; k < n; ++k) d[k] = int64_t(load_element(array.dtype, array.data, offset + k * step));
  }

  Graph& graph_;
  std::vector<ArrayView> arrays_;
  std::vector<State> states_;
  std::vector<Failure> failures_;
  int64_t dense_used_ = 0, sparse_used_ = 0;
};

}  // namespace

std::unique_ptr<Engine> make_engine(Graph& graph, std::vector<ArrayView> arrays, Precision precision) {
  if (precision == Precision::naive) return std::make_unique<Runner<float>>(graph, std::move(arrays));
  return std::make_unique<Runner<double>>(graph, std::move(arrays));
}

}  // namespace tilewright::reference
