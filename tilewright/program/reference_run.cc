#include "tilewright/program/reference_run.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include <fmt/format.h>

#include "tilewright/program/elaborate.h"
#include "tilewright/program/reference_code.h"
#include "tilewright/program/reference_operate.h"

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

struct Free {
  void operator()(void* p) const { std::free(p); }
};
using Memory = std::unique_ptr<std::byte, Free>;

/// Zeroed; large requests cost nothing until touched.
Memory zeroed(int64_t bytes) {
  void* p = std::calloc(size_t(std::max<int64_t>(bytes, 1)), 1);
  if (!p) throw std::bad_alloc();
  return Memory(static_cast<std::byte*>(p));
}

/// Why an element could not be computed.
struct Failure {
  Expr source;
  int axis = -1;  ///< of the tensor read at `source`; −1: division by zero
  int64_t value = 0;
};

/// Where the lanes of one instruction failed: 0, or 1 + the number of a failure.
struct Poison {
  bool any = false;
  std::array<uint32_t, strip_length> lane{};
};

struct State {
  const Table* table = nullptr;
  Code code;
  bool compiled = false, started = false, open = true, empty = false;

  // Storage.
  int64_t element_bytes = 0, length = 1, rows = 1, blocks = 1;
  std::vector<int64_t> row_strides;  ///< of each axis, in rows; 0 for the row axis
  bool ready = false;                ///< whole and complete
  Memory whole;
  std::vector<bool> done;
  std::unordered_map<int64_t, Memory> parts;
  std::unordered_map<int64_t, uint32_t> failed;  ///< row · length + column -> 1 + failure

  // The block at hand.
  std::vector<Memory> own;
  std::vector<const std::byte*> at;
  std::vector<Poison> poisons;
  int64_t first = 0, count = 1, lanes = 1, row_in_block = 0;
  Memory values;    ///< accumulators, or values of a table without a reducer: strip_length of value_kind
  Memory best;      ///< Argmax, Argmin: values at the indices in `values`
  std::array<uint32_t, strip_length> failures{};
  bool any_failure = false;
};

int64_t bytes_of(Kind k, size_t real) {
  return k == Kind::real ? int64_t(real) : k == Kind::integer ? 8 : 1;
}

template <class T>
class Runner : public Engine {
 public:
  Runner(Graph& graph, std::vector<ArrayView> arrays) : graph_(graph), arrays_(std::move(arrays)), states_(graph.tables.size()) {
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
      throw UserError(span, fmt::format("division by zero in {}", to_string(f.source)),
                      "guard it: where(divisor != 0, ..., 0)");
    const Table& t = graph_.tables[size_t(graph_.table_of(f.source->sym))];
    const std::string axis = t.axes[size_t(f.axis)].name();
    throw UserError(span,
                    fmt::format("index {} is outside axis {} of {}, which has size {}", f.value, axis,
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

  template <class E>
  E* out(State& s, int reg) {
    s.at[size_t(reg)] = s.own[size_t(reg)].get();
    return reinterpret_cast<E*>(s.own[size_t(reg)].get());
  }
  template <class E>
  Operand<E> in(const State& s, int reg) const {
    if (reg < 0) return {};
    return {reinterpret_cast<const E*>(s.at[size_t(reg)]), s.code.registers[size_t(reg)].vector};
  }
  int64_t integer(const State& s, int reg) const { return *reinterpret_cast<const int64_t*>(s.at[size_t(reg)]); }

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
    if (t.reducer) clear_accumulators(s);
    if (!s.empty) {
      if (!s.started) s.open = execute(s, 0);
      s.started = true;
      if (s.open) run_level(s, 1);
    }
    store(s, to);
    if (s.any_failure)
      for (int64_t k = 0; k < s.count; ++k)
        if (s.failures[size_t(k)]) s.failed[row * s.length + s.first + k] = s.failures[size_t(k)];
  }

  void run_level(State& s, size_t level) {
    if (!execute(s, level)) return;
    if (level == s.code.loops.size() + 1) return consume(s);
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

  int64_t lanes_of(const State& s, int reg) const { return s.code.registers[size_t(reg)].vector ? s.lanes : 1; }

  void operate(State& s, const Instruction& i) {
    const int64_t n = lanes_of(s, i.dst);
    const Kind result = s.code.registers[size_t(i.dst)].kind;
    if (i.op == Op::Select) {
      auto c = in<uint8_t>(s, i.a);
      switch (i.kind) {
        case Kind::real: return select(out<T>(s, i.dst), c, in<T>(s, i.b), in<T>(s, i.c), n);
        case Kind::integer: return select(out<int64_t>(s, i.dst), c, in<int64_t>(s, i.b), in<int64_t>(s, i.c), n);
        case Kind::boolean: return select(out<uint8_t>(s, i.dst), c, in<uint8_t>(s, i.b), in<uint8_t>(s, i.c), n);
      }
    }
    switch (i.kind) {
      case Kind::real:
        if (result == Kind::real) return operate_real(i.op, i.dtype, out<T>(s, i.dst), in<T>(s, i.a), in<T>(s, i.b), n);
        if (result == Kind::boolean) return compare(i.op, out<uint8_t>(s, i.dst), in<T>(s, i.a), in<T>(s, i.b), n);
        return map1(out<int64_t>(s, i.dst), in<T>(s, i.a).at, n, [&](T x) { return to_integer(i.dtype, double(x)); });
      case Kind::integer:
        if (result == Kind::boolean)
          return compare(i.op, out<uint8_t>(s, i.dst), in<int64_t>(s, i.a), in<int64_t>(s, i.b), n);
        operate_integer(i.op, i.dtype, out<int64_t>(s, i.dst), in<int64_t>(s, i.a), in<int64_t>(s, i.b), n);
        if (i.poison >= 0) check_divisor(s, i, n);
        return;
      case Kind::boolean: return operate_boolean(i.op, out<uint8_t>(s, i.dst), in<uint8_t>(s, i.a), in<uint8_t>(s, i.b), n);
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

  void taint(Poison& poison, int64_t lane, uint32_t failure) {
    if (!poison.any) poison.lane.fill(0);
    poison.any = true;
    poison.lane[size_t(lane)] = failure;
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
            if constexpr (std::is_floating_point_v<E>) return to_integer(DType::i64, double(x));
            else return int64_t(x);
          });
        case Kind::boolean: return map1(out<uint8_t>(s, i.dst), a, n, [](E x) TW_INLINE { return uint8_t(x != 0); });
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
          if (uint32_t f = failure_at(from, row + k * row_step, column + k * column_step)) taint(*poison, k, f);
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
      for (int64_t block = column >> shift; block <= (column + n - 1) >> shift; ++block) block_at(from, row, block);
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
        const int64_t x = index.vector ? in<int64_t>(s, index.reg)[k] : integer(s, index.reg) + k * index.coefficient;
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
      case Kind::integer: return convert_integers(reinterpret_cast<int64_t*>(to), array, offset, step, s.count);
      case Kind::boolean: {
        auto* d = reinterpret_cast<uint8_t*>(to);
        for (int64_t n = 0; n < s.count; ++n) d[n] = load_element(array.dtype, array.data, offset + n * step) != 0;
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
    if (array.dtype == DType::bf16) {
      const auto* p = static_cast<const uint16_t*>(array.data);
      for (int64_t k = 0; k < n; ++k) {
        const uint32_t u = uint32_t(p[offset + k * step]) << 16;
        float f;
        std::memcpy(&f, &u, sizeof f);
        d[k] = T(f);
      }
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

  // ---- Accumulation ----

  static constexpr bool is_extreme_index(Reducer r) { return r == Reducer::Argmax || r == Reducer::Argmin; }

  void clear_accumulators(State& s) {
    const Reducer r = *s.table->reducer;
    auto fill = [&](auto value) { std::fill_n(reinterpret_cast<decltype(value)*>(s.values.get()), s.count, value); };
    if (is_extreme_index(r)) return fill(int64_t(-1));
    const bool real = s.table->value_kind == Kind::real;
    switch (r) {
      case Reducer::Sum: return real ? fill(T(0)) : fill(int64_t(0));
      case Reducer::Prod: return real ? fill(T(1)) : fill(int64_t(1));
      case Reducer::Max:
        return real ? fill(-std::numeric_limits<T>::infinity()) : fill(std::numeric_limits<int64_t>::min());
      case Reducer::Min:
        return real ? fill(std::numeric_limits<T>::infinity()) : fill(std::numeric_limits<int64_t>::max());
      case Reducer::Any: return fill(uint8_t(0));
      case Reducer::All: return fill(uint8_t(1));
      default: TW_CHECK(false, "the program is not elaborated");
    }
  }

  /// The innermost level has run: its value is stored or accumulated.
  void consume(State& s) {
    const Table& t = *s.table;
    const bool by_lane = !t.strip_is_bound();
    for (Poison& p : s.poisons) {
      if (!p.any) continue;
      const bool wide = s.code.poisons[size_t(&p - s.poisons.data())];
      for (int64_t k = 0; k < s.lanes; ++k)
        if (uint32_t f = p.lane[wide ? size_t(k) : 0]) {
          s.any_failure = true;
          s.failures[size_t(by_lane ? k : s.row_in_block)] = f;
        }
    }
    if (!t.reducer) {
      const Operand<std::byte> value = in<std::byte>(s, s.code.value);
      const int64_t bytes = bytes_of(t.value_kind, sizeof(T));
      for (int64_t k = 0; k < s.count; k += value.wide ? s.count : 1)
        std::memcpy(s.values.get() + k * bytes, value.at, size_t(value.wide ? s.count * bytes : bytes));
      return;
    }
    if (is_extreme_index(*t.reducer)) {
      if (s.code.registers[size_t(s.code.value)].kind == Kind::real) return take_extreme<T>(s, by_lane);
      return take_extreme<int64_t>(s, by_lane);
    }
    switch (t.value_kind) {
      case Kind::real:
        if (s.code.factor >= 0) return take_products(s, by_lane);
        return accumulate<T>(s, by_lane);
      case Kind::integer: return accumulate<int64_t>(s, by_lane);
      case Kind::boolean: return accumulate<uint8_t>(s, by_lane);
    }
  }

  void take_products(State& s, bool by_lane) {
    Operand<T> a = in<T>(s, s.code.value), b = in<T>(s, s.code.factor);
    T* acc = reinterpret_cast<T*>(s.values.get());
    if (!a.wide && b.wide) std::swap(a, b);
    if (by_lane) {
      if (b.wide) return multiply_add(acc, a.at, b.at, s.lanes);
      if (a.wide) return multiply_add(acc, *b.at, a.at, s.lanes);
      for (int64_t k = 0; k < s.lanes; ++k) acc[k] += *a.at * *b.at;
    } else {
      T& to = acc[s.row_in_block];
      if (b.wide) to += dot(a.at, b.at, s.lanes);
      else if (a.wide) to += sum(a.at, s.lanes) * *b.at;
      else to += *a.at * *b.at * T(s.lanes);
    }
  }

  template <class E>
  void accumulate(State& s, bool by_lane) {
    const Operand<E> value = in<E>(s, s.code.value);
    E* acc = reinterpret_cast<E*>(s.values.get());
    auto with = [&](auto f) {
      if (by_lane) return map2(acc, acc, true, value.at, value.wide, s.lanes, f);
      E x = acc[s.row_in_block];
      for (int64_t k = 0; k < s.lanes; ++k) x = f(x, value[k]);
      acc[s.row_in_block] = x;
    };
    switch (*s.table->reducer) {
      case Reducer::Sum:
        if constexpr (std::is_floating_point_v<E>) {
          if (!by_lane) {
            acc[s.row_in_block] += value.wide ? sum(value.at, s.lanes) : *value.at * E(s.lanes);
            return;
          }
        }
        if constexpr (std::is_same_v<E, int64_t>)
          return with([](E x, E y) TW_INLINE { return E(uint64_t(x) + uint64_t(y)); });
        return with([](E x, E y) TW_INLINE { return E(x + y); });
      case Reducer::Prod:
        if constexpr (std::is_same_v<E, int64_t>)
          return with([](E x, E y) TW_INLINE { return E(uint64_t(x) * uint64_t(y)); });
        return with([](E x, E y) TW_INLINE { return E(x * y); });
      case Reducer::Max: return with([](E x, E y) TW_INLINE { return maximum(x, y); });
      case Reducer::Min: return with([](E x, E y) TW_INLINE { return minimum(x, y); });
      case Reducer::Any: return with([](E x, E y) TW_INLINE { return E(x != 0 || y != 0); });
      case Reducer::All: return with([](E x, E y) TW_INLINE { return E(x != 0 && y != 0); });
      default: TW_CHECK(false, "the program is not elaborated");
    }
  }

  /// NaN counts as larger than anything (Argmax) or smaller (Argmin); the smallest index wins among equals.
  template <class E>
  void take_extreme(State& s, bool by_lane) {
    const bool largest = *s.table->reducer == Reducer::Argmax;
    const Operand<E> value = in<E>(s, s.code.value);
    const auto mask = in<uint8_t>(s, s.code.mask);
    const int64_t index0 = integer(s, s.code.argument);
    auto* index = reinterpret_cast<int64_t*>(s.values.get());
    auto* best = reinterpret_cast<E*>(s.best.get());
    for (int64_t k = 0; k < s.lanes; ++k) {
      if (mask.at && !mask[k]) continue;
      const int64_t to = by_lane ? k : s.row_in_block, candidate = by_lane ? index0 : index0 + k;
      const E x = value[k], y = best[to];
      bool better = index[to] < 0;
      if (!better) {
        const bool x_nan = x != x, y_nan = y != y;
        const bool ahead = x_nan ? !y_nan : !y_nan && (largest ? x > y : x < y);
        const bool equal = x == y || (x_nan && y_nan);
        better = ahead || (equal && candidate < index[to]);
      }
      if (!better) continue;
      index[to] = candidate;
      best[to] = x;
    }
  }

  /// Values of the block to its storage, rounded as declared.
  void store(State& s, std::byte* to) {
    const Table& t = *s.table;
    if (t.kind == t.value_kind && !t.rounded && !t.operand) {
      std::memcpy(to, s.values.get(), size_t(s.count * s.element_bytes));
      return;
    }
    const DType dtype = t.operand ? *t.operand : t.rounded ? *t.rounded : DType::f64;
    const FloatRounding rounding(is_float(dtype) ? dtype : DType::f64);
    auto with = [&](auto source) {
      using E = decltype(source);
      const E* a = reinterpret_cast<const E*>(s.values.get());
      for (int64_t k = 0; k < s.count; ++k) switch (t.kind) {
          case Kind::real: {
            const double x = double(T(a[k]));
            reinterpret_cast<T*>(to)[k] = T(t.operand ? rounding.significand(x) : rounding(x));
            break;
          }
          case Kind::integer: {
            int64_t& d = reinterpret_cast<int64_t*>(to)[k];
            if constexpr (std::is_floating_point_v<E>) d = to_integer(dtype, double(a[k]));
            else d = narrow(dtype, int64_t(a[k]));
            break;
          }
          case Kind::boolean: reinterpret_cast<uint8_t*>(to)[k] = a[k] != 0; break;
        }
    };
    switch (t.value_kind) {
      case Kind::real: return with(T{});
      case Kind::integer: return with(int64_t{});
      case Kind::boolean: return with(uint8_t{});
    }
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
