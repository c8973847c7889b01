// Ops over points: how they are compiled and run; MapOp, Copy, StoreOut.
#include "tilewright/map/interpreter_points.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>

#include "tilewright/program/failures.h"
#include "tilewright/support/error.h"

namespace tilewright::emulation {

using Kind = MappedFault::Kind;

Runner::FrameScope::FrameScope(Runner& run, RoleState& r, const Frame& frame) : runner(run), role(r) {
  std::vector<std::pair<int, double>> values;
  for (const AxisFrame& f : frame) {
    values.emplace_back(run.env_.symbols.slot(f.axis), f.origin ? double(run.integer(r, f.origin)) : 0);
    if (f.extent) extents.emplace_back(f.axis, std::max<int64_t>(0, run.integer(r, f.extent)));
  }
  for (auto [slot, value] : values) {
    bool known = r.scalars.has(slot);
    saved.push_back({slot, known, known ? r.scalars.value[slot] : 0});
    r.scalars.set(slot, value);
  }
}

Runner::FrameScope::~FrameScope() {
  for (const Saved& s : saved) {
    role.scalars.value[s.slot] = s.value;
    role.scalars.known[s.slot] = s.known;
  }
}

double Runner::FrameScope::origin(Sym axis) const {
  int slot = runner.env_.symbols.slot(axis);
  return role.scalars.has(slot) ? role.scalars.value[slot] : 0;
}

std::optional<int64_t> Runner::FrameScope::extent(Sym axis) const {
  for (auto& [known, n] : extents)
    if (known == axis) return n;
  return std::nullopt;
}

std::vector<double> Runner::FrameScope::origins(const std::vector<Sym>& axes) const {
  std::vector<double> result;
  for (Sym axis : axes) result.push_back(origin(axis));
  return result;
}

Projection::Projection(const std::vector<Sym>& from, const std::vector<Sym>& to,
                       const std::vector<int64_t>& shape) {
  int64_t stride = 1;
  for (size_t a = to.size(); a-- > 0;) {
    auto it = std::find(from.begin(), from.end(), to[a]);
    TW_CHECK(it != from.end(), fmt::format("an op over other axes uses a buffer with axis {}", to[a].name()));
    terms_.emplace_back(size_t(it - from.begin()), stride);
    stride *= shape[a];
  }
}

// ---- Compiling ----

int Runner::buffer_index(Sym s) const {
  auto it = buffer_index_.find(s);
  TW_CHECK(it != buffer_index_.end(),
           fmt::format("kernel {} has no buffer {}", kernel_.name, s ? s.name() : "(null)"));
  return it->second;
}

Expr Runner::without_views(Expr e) const {
  return rewrite(e, [&](Expr x) {
    if (!x.is(Op::Read)) return x;
    auto it = buffer_index_.find(x->sym);
    if (it == buffer_index_.end()) return x;
    const Buffer& b = *buffers_[it->second].spec;
    if (b.space != Space::Memory) return x;
    TW_CHECK(b.axes.size() == x.args().size(), fmt::format("{} has {} axes", to_string(x), b.axes.size()));
    Substitution s;
    for (size_t a = 0; a < b.axes.size(); ++a) s.emplace_back(b.axes[a], x.arg(a));
    std::vector<Expr> index;
    for (Expr i : b.index) index.push_back(substitute(i, s));
    return read(b.tensor, index);
  });
}

std::vector<int> Runner::tiles_of(Expr e, Space space) const {
  std::vector<int> result;
  for (Sym s : tensors_read(e)) {
    auto it = buffer_index_.find(s);
    if (it != buffer_index_.end() && buffers_[it->second].spec->space == space) result.push_back(it->second);
  }
  return result;
}

bool Runner::is_wide(const std::vector<Expr>& exprs) const {
  for (Expr e : exprs) {
    for (Sym s : tensors_read(e)) {
      auto buffer = buffer_index_.find(s);
      auto array = env_.arrays.find(s);
      if (buffer != buffer_index_.end() && buffers_[buffer->second].spec->dtype == DType::f64) return true;
      if (array != env_.arrays.end() && array->second->dtype == DType::f64) return true;
    }
  }
  return false;
}

std::optional<int64_t> Runner::axis_extent(Sym axis, const std::vector<int>& buffers) const {
  std::optional<int64_t> least;  // a tile that a bulk copy fills may be padded
  for (int b : buffers) {
    const Buffer& spec = *buffers_[b].spec;
    if (spec.space == Space::Memory) continue;
    for (size_t a = 0; a < spec.axes.size(); ++a)
      if (spec.axes[a] == axis)
        least = std::min(least.value_or(spec.layout.shape()[a]), spec.layout.shape()[a]);
  }
  return least;
}

TileRead Runner::tile_read(RoleState& r, Expr e, const Points& points) {
  TileRead result;
  result.buffer = buffer_index(e->sym);
  const BufferState& b = buffers_[result.buffer];
  const Buffer& spec = *b.spec;
  TW_CHECK(spec.axes.size() == e.args().size(),
           fmt::format("{} has {} axes", to_string(e), spec.axes.size()));
  for (size_t a = 0; a < spec.axes.size(); ++a)
    TW_CHECK(e.arg(a) == Expr(spec.axes[a]), fmt::format("{} is not read at its own axes", to_string(e)));
  result.integer = !is_float(spec.dtype);
  Projection at(points.axes, spec.axes, b.table.shape);
  result.index.resize(points.size());
  std::vector<int64_t> coords(points.axes.size());
  for (size_t p = 0; p < points.size(); ++p) {
    for (size_t a = 0; a < coords.size(); ++a) coords[a] = points.coords[a][p];
    for (size_t a = 0; a < spec.axes.size(); ++a) {
      size_t axis =
          size_t(std::find(points.axes.begin(), points.axes.end(), spec.axes[a]) - points.axes.begin());
      TW_CHECK(coords[axis] < b.table.shape[a],
               fmt::format("{} is shorter than the op along {}", spec.sym.name(), spec.axes[a].name()));
    }
    int64_t place = at(coords);
    if (spec.space == Space::Local) {
      result.index[p] = b.table.offset[place];
      continue;
    }
    int64_t held = points.owner[p] < 0 ? -1 : b.table.held(place, points.owner[p]);
    if (held < 0)
      fault(Kind::Placement, r,
            points.owner[p] < 0
                ? fmt::format("registers {} are read by an op whose threads are not given", spec.sym.name())
                : fmt::format("thread {} needs an element of {} that it does not hold", points.owner[p],
                              spec.sym.name()));
    result.index[p] = int32_t(held);
  }
  return result;
}

PointProgram::Context Runner::context(RoleState& r, const Points& points) {
  return {env_.symbols, tag_, [this, &r, &points](Expr e) { return tile_read(r, e, points); },
          [this](Sym s) -> Array* {
            if (buffer_index_.count(s)) return nullptr;
            auto it = env_.arrays.find(s);
            TW_CHECK(it != env_.arrays.end(), fmt::format("{} is neither a buffer nor an array", s.name()));
            return it->second.get();
          }};
}

void Runner::compile(RoleState& r, PointOp& op, const std::vector<Expr>& values, bool wide) {
  std::vector<Expr> plain;
  for (Expr e : values) plain.push_back(without_views(e));
  op.program =
      std::make_unique<PointProgram>(plain, op.points, wide || is_wide(plain), context(r, op.points));
}

int Runner::slot_of(RoleState& r, const Buffer& b, const std::vector<Use>& uses) {
  if (b.slots <= 1) return 0;
  for (const Use& u : uses) {
    if (u.buffer != b.sym) continue;
    int64_t number = integer(r, u.number);
    TW_CHECK(number >= 0, fmt::format("use {} of {}", number, b.sym.name()));
    return int(number % b.slots);
  }
  TW_CHECK(false, fmt::format("`{}` does not say which slot of {}", r.node ? print(kernel_, *r.node) : "",
                              b.sym.name()));
}

double* Runner::slot_data(const Buffer& b, int slot) {
  Storage& s = storages_[buffers_[buffer_index(b.sym)].storage];
  return s.data.data() + s.slot_elements * slot;
}

Slot& Runner::tracked(const Buffer& b, int slot) {
  Storage& storage = storages_[buffers_[buffer_index(b.sym)].storage];
  Slot& s = storage.slots[slot];
  if (s.writes.empty()) {
    s.writes.resize(storage.slot_elements);
    s.reads.resize(storage.slot_elements);
  }
  return s;
}

Unit Runner::owner_unit(const RoleState& r, int owner) const {
  return owner < 0 ? unit(r, Scope::Role, 0) : unit(r, Scope::Thread, owner);
}

// ---- Running ----

void Runner::find_readers(RoleState& r, PointOp& op) {
  op.readers.assign(op.program->tiles().size(), {});
  op.readers_active = op.active;
  std::vector<int32_t> known;  // position in the list, by element
  for (size_t k = 0; k < op.readers.size(); ++k) {
    const TileRead& t = op.program->tiles()[k];
    if (buffers_[t.buffer].spec->space != Space::Local) continue;
    std::vector<Readers>& list = op.readers[k];
    known.assign(size_t(storages_[buffers_[t.buffer].storage].slot_elements), -1);
    for (size_t p = 0; p < op.points.size(); ++p) {
      if (!op.active.empty() && !op.active[p]) continue;
      const Unit u = owner_unit(r, op.points.owner[p]);
      int32_t& at = known[size_t(t.index[p])];
      if (at < 0)
        at = int32_t(list.size()), list.push_back({t.index[p], u});
      else if (list[size_t(at)].unit.level != u.level || list[size_t(at)].unit.index != u.index)
        list[size_t(at)].unit = cover(r, list[size_t(at)].unit, u);
    }
  }
}

void Runner::begin(RoleState& r, PointOp& op, const FrameScope& frame, const std::vector<Use>& uses) {
  const Points& points = op.points;
  op.clipped.clear();
  op.active.clear();
  for (size_t a = 0; a < points.axes.size(); ++a) {
    auto extent = frame.extent(points.axes[a]);
    if (!extent) continue;
    for (size_t p = 0; p < points.size(); ++p) {
      if (points.coords[a][p] < *extent) continue;
      if (op.clipped.empty()) op.clipped.assign(points.size(), 0);
      op.clipped[p] = 1;
    }
  }
  if (!op.clipped.empty() || !r.mask.empty()) {
    op.active.resize(points.size());
    for (size_t p = 0; p < points.size(); ++p)
      op.active[p] = (op.clipped.empty() || !op.clipped[p]) && r.active(points.owner[p]);
  }
  op.tile_slots.clear();
  if (racy_ && (op.readers.size() != op.program->tiles().size() || op.readers_active != op.active))
    find_readers(r, op);
  for (TileRead& t : op.program->tiles()) {
    const Buffer& b = *buffers_[t.buffer].spec;
    int slot = 0;
    if (b.space == Space::Registers) {
      touch_registers(r, b, false);
    } else {
      slot = slot_of(r, b, uses);
      read_slot(r, b, slot);
      if (racy_) {
        Slot& s = tracked(b, slot);
        for (const Readers& e : op.readers[op.tile_slots.size()])
          read_local(r, b, slot, s, e.element, e.unit);
      }
    }
    op.tile_slots.push_back(slot);
    t.base = slot_data(b, slot);
  }
  op.program->begin(r.scalars, frame.origins(points.axes));
}

std::string Runner::where(const PointOp& op, const FrameScope& frame, size_t point) const {
  std::string text;
  for (size_t a = 0; a < op.points.axes.size(); ++a)
    text += fmt::format("{}{} = {}", a ? ", " : " at ", op.points.axes[a].name(),
                        int64_t(frame.origin(op.points.axes[a])) + op.points.coords[a][point]);
  if (op.points.owner[point] >= 0) text += fmt::format(" in thread {}", op.points.owner[point]);
  return text;
}

/// Whole tiles hold points outside of the arrays as well.
bool Runner::inside_arrays(const RoleState& r, const PointOp& op, const FrameScope& frame,
                           size_t point) const {
  for (size_t a = 0; a < op.points.axes.size(); ++a) {
    const Sym axis = op.points.axes[a];
    const int size = env_.symbols.slot(axis.size());
    if (r.scalars.has(size) && frame.origin(axis) + op.points.coords[a][point] >= r.scalars.value[size])
      return false;
  }
  return true;
}

void Runner::bad_read(RoleState& r, const PointOp& op, const FrameScope& frame, const BadRead& bad) {
  std::string at = where(op, frame, bad.point);
  switch (bad.kind) {
    case BadRead::Kind::Unwritten: {
      std::string name = bad.sym.name();
      for (size_t t = 0; t < op.program->tiles().size() && t < op.tile_slots.size(); ++t) {
        const Buffer& b = *buffers_[op.program->tiles()[t].buffer].spec;
        if (b.sym == bad.sym) name = slot_name(b, op.tile_slots[t]);
      }
      fault(Kind::Uninitialised, r, fmt::format("{} is read{} and was never written there", name, at));
    }
    case BadRead::Kind::Outside:
      fault(Kind::OutOfBounds, r, fmt::format("{} is read outside its array{}", bad.sym.name(), at));
    case BadRead::Kind::Foreign:
      fault(Kind::Race, r,
            fmt::format("{} is read{}, where another block of this launch writes", bad.sym.name(), at));
    case BadRead::Kind::ZeroDivisor: break;
  }
  throw division_by_zero(env_.program, bad.division);
}

PointOp& Runner::map_points(RoleState& r, const MapOp& op) {
  auto& cache = caches_[&op];
  if (cache) return static_cast<PointOp&>(*cache);
  auto made = std::make_unique<PointOp>();
  const BufferState& b = buffers_[buffer_index(op.buffer)];
  TW_CHECK(b.storage >= 0, fmt::format("{} is a view and cannot be written", op.buffer.name()));
  made->points.axes = b.spec->axes;
  made->points.coords.resize(b.spec->axes.size());
  Expr value = without_views(op.value);
  const BufferState* driver = widest(tiles_of(value, Space::Registers));
  std::optional<Projection> at;
  if (driver) at.emplace(b.spec->axes, driver->spec->axes, driver->table.shape);
  for_each_coordinate(b.table.shape, [&](const std::vector<int64_t>& coords, int64_t k) {
    auto add = [&](int owner, int64_t element) {
      for (size_t a = 0; a < coords.size(); ++a) made->points.coords[a].push_back(int32_t(coords[a]));
      made->points.owner.push_back(owner);
      made->dest.push_back(int32_t(element));
    };
    if (b.spec->space == Space::Registers) {
      for (int32_t replica : b.table.replicas) {
        int owner = b.table.owner[k] + replica;
        add(owner, int64_t(owner) * b.table.elements + b.table.offset[k]);
      }
    } else {
      int owner = r.spec->threads == 1 ? 0 : driver ? driver->table.owner[(*at)(coords)] : -1;
      add(owner, b.table.offset[k]);
    }
  });
  compile(r, *made, {op.value}, b.spec->dtype == DType::f64);
  cache = std::move(made);
  return static_cast<PointOp&>(*cache);
}

void Runner::execute(RoleState& r, const MapOp& op) {
  FrameScope frame(*this, r, op.frame);
  PointOp& points = map_points(r, op);
  const Buffer& b = kernel_.buffer(op.buffer);
  begin(r, points, frame, op.uses);
  double* out = begin_write(r, b, slot_of_written(r, b, op.uses), points);
  run_points(r, points, frame, [&](size_t p, size_t lane) {
    out[points.dest[p]] = round_to(b.dtype, points.program->output(0)[lane]);
  });
}

double* Runner::begin_write(RoleState& r, const Buffer& b, int slot, const PointOp& op) {
  if (b.space == Space::Registers) {
    touch_registers(r, b, true);
  } else if (racy_) {
    Slot& s = tracked(b, slot);
    for (size_t p = 0; p < op.points.size(); ++p)
      if (op.active.empty() || op.active[p])
        write_local(r, b, slot, s, op.dest[p], owner_unit(r, op.points.owner[p]));
  }
  return slot_data(b, slot);
}

int Runner::slot_of_written(RoleState& r, const Buffer& b, const std::vector<Use>& uses) {
  return b.space == Space::Local ? slot_of(r, b, uses) : 0;
}

const BufferState* Runner::widest(const std::vector<int>& buffers) const {
  const BufferState* best = nullptr;
  for (int k : buffers)
    if (!best || buffers_[k].spec->axes.size() > best->spec->axes.size()) best = &buffers_[k];
  return best;
}

// ---- Copy and StoreOut ----

/// Points of a tile that moves to or from memory; of elements that are stored, one replica.
PointOp& Runner::memory_points(RoleState& r, const void* key, const Buffer& b,
                               const std::vector<Expr>& values, bool stored) {
  auto& cache = caches_[key];
  if (cache) return static_cast<PointOp&>(*cache);
  const BufferState& state = buffers_[buffer_index(b.sym)];
  TW_CHECK(state.storage >= 0, fmt::format("{} is a view and cannot be copied", b.sym.name()));
  auto made = std::make_unique<PointOp>();
  made->points.axes = b.axes;
  made->points.coords.resize(b.axes.size());
  for_each_coordinate(state.table.shape, [&](const std::vector<int64_t>& coords, int64_t k) {
    for (int32_t replica : state.table.replicas) {
      for (size_t a = 0; a < coords.size(); ++a) made->points.coords[a].push_back(int32_t(coords[a]));
      bool registers = b.space == Space::Registers;
      int owner = registers ? state.table.owner[k] + replica : r.spec->threads == 1 ? 0 : -1;
      made->points.owner.push_back(owner);
      made->dest.push_back(int32_t((registers ? owner * state.table.elements : 0) + state.table.offset[k]));
      if (stored) break;
    }
  });
  compile(r, *made, values, b.dtype == DType::f64);
  cache = std::move(made);
  return static_cast<PointOp&>(*cache);
}

/// Offset of the element whose index the program computed in `lane`; nullopt outside the array.
std::optional<int64_t> Runner::array_offset(const Array& a, const PointOp& op, size_t lane) const {
  int64_t offset = 0;
  for (size_t d = 0; d < a.sizes.size(); ++d) {
    double x = op.program->output(d)[lane];
    if (!(x >= 0 && x < double(a.sizes[d]))) return std::nullopt;
    offset += int64_t(x) * a.strides[d];
  }
  return offset;
}

Array& Runner::array(Sym s, size_t rank) {
  auto it = env_.arrays.find(s);
  TW_CHECK(it != env_.arrays.end(), fmt::format("{} is no array", s.name()));
  TW_CHECK(it->second->sizes.size() == rank,
           fmt::format("{} has {} axes, not {}", s.name(), it->second->sizes.size(), rank));
  return *it->second;
}

double Runner::load_array(RoleState& r, const Array& a, int64_t offset) {
  if (!a.writer.empty()) {
    const int64_t writer =
        std::atomic_ref(const_cast<int64_t&>(a.writer[offset])).load(std::memory_order_relaxed);
    if (writer == 0)
      fault(Kind::Uninitialised, r, fmt::format("{} is read and was never written there", a.sym.name()));
    if (writer != tag_ && writer >> 32 == tag_ >> 32)
      fault(Kind::Race, r, fmt::format("{} is read where another block of this launch writes", a.sym.name()));
  }
  return load_element(a.dtype, a.data, offset);
}

void Runner::store_array(RoleState& r, Array& a, int64_t offset, double value) {
  TW_CHECK(a.writable, fmt::format("{} is an input and is stored to", a.sym.name()));
  // Other blocks may store to the same element at the same time.
  static std::array<std::mutex, 64> stripes;
  std::lock_guard lock(stripes[size_t(offset) % stripes.size()]);
  const std::atomic_ref shared(a.writer[offset]);
  const int64_t writer = shared.load(std::memory_order_relaxed);
  if (writer != 0 && writer != tag_ && writer >> 32 == tag_ >> 32) {
    // Blocks that cut another axis compute a shared row alike; the same bits from each are no race.
    const double stored = load_element(a.dtype, a.data, offset), mine = round_to(a.dtype, value);
    if (stored != mine && !(stored != stored && mine != mine))
      fault(Kind::Race, r,
            fmt::format("two blocks of this launch write different values to the same element of {}",
                        a.sym.name()));
  }
  shared.store(tag_, std::memory_order_relaxed);
  store_element(a.dtype, a.writable, offset, value);
}

/// The user's mistake: an index that no layout guard or proof keeps inside its array.
void Runner::refuse_index(const Copy& op, const Array& from, const PointOp& points, size_t lane) {
  std::vector<Sym> axes;
  for (const Dim& d : memory_dims(env_.program, env_.mapped, op.tensor))
    axes.insert(axes.end(), d.pieces.begin(), d.pieces.end());
  for (size_t d = 0; d < from.sizes.size(); ++d) {
    const double x = points.program->output(d)[lane];
    if (!(x >= 0 && x < double(from.sizes[d])))
      throw index_outside(env_.program, op.tensor, axes.at(d), int64_t(x), from.sizes[d]);
  }
  TW_CHECK(false, "an index lies outside its array");
}

/// A vector's first element lies at a multiple of its length from the start of its row, which layout guards align.
void Runner::check_vectors(RoleState& r, const std::string& atom, const Buffer& b, const Array& array,
                           const std::vector<Expr>& index, const FrameScope& frame) {
  constexpr int64_t vector_bytes = 16;
  if (atom != "copy.vector" && atom != "copy.async" && atom != "store.vector" && atom != "store.quad") return;
  for (size_t a = 0; a < b.axes.size(); ++a) {
    if (!(index.back() == Expr(b.axes[a]))) continue;
    const int64_t run = b.space == Space::Local
                            ? vector_bytes / bytes(array.dtype)
                            : std::min(b.layout.contiguous(int(a)), vector_bytes / bytes(array.dtype));
    if (run > 1 && int64_t(frame.origin(b.axes[a])) % run != 0)
      fault(Kind::Placement, r,
            fmt::format("{} of {} begins at {} along {}, between vectors of {} elements", atom,
                        array.sym.name(), int64_t(frame.origin(b.axes[a])), b.axes[a].name(), run));
  }
}

void Runner::execute(RoleState& r, const Copy& op) {
  FrameScope frame(*this, r, op.frame);
  const Buffer& b = kernel_.buffer(op.buffer);
  const Array& from = array(op.tensor, op.index.size());
  check_vectors(r, op.atom, b, from, op.index, frame);
  std::vector<Expr> values;
  Expr there = op.present;  // elements outside their axes have no index
  for (Sym a : there ? b.axes : std::vector<Sym>{})
    if (r.scalars.has(env_.symbols.slot(a.size()))) there = logical_and(less(Expr(a), Expr(a.size())), there);
  for (Expr index : op.index) values.push_back(there ? select(there, index, -1) : index);
  if (op.present) values.push_back(op.present);
  PointOp& points = memory_points(r, &op, b, values, false);
  std::vector<Use> uses;
  if (op.use) uses.push_back({op.buffer, op.use});
  begin(r, points, frame, uses);
  // What is clipped is filled with zeros: every point of an active owner is written.
  points.active.clear();
  if (!r.mask.empty()) {
    points.active.resize(points.points.size());
    for (size_t p = 0; p < points.points.size(); ++p) points.active[p] = r.active(points.points.owner[p]);
  }
  auto exists = [&](size_t p) {
    for (size_t a = 0; a < b.axes.size(); ++a) {
      int size = env_.symbols.slot(b.axes[a].size());
      if (r.scalars.has(size) &&
          frame.origin(b.axes[a]) + points.points.coords[a][p] >= r.scalars.value[size])
        return false;
    }
    return true;
  };
  const int slot = slot_of_written(r, b, uses);
  double* out = begin_write(r, b, slot, points);
  const Atom* atom = find_atom(op.atom);
  GroupCopy* in_flight = b.space == Space::Local && atom && atom->completion == Completion::Group
                             ? &begin_group_copy(r, op, b, slot)
                             : nullptr;
  run_points(r, points, frame, [&](size_t p, size_t lane) {
    bool clipped = !points.clipped.empty() && points.clipped[p];
    auto offset = clipped ? std::nullopt : array_offset(from, points, lane);
    if (!clipped && !offset && op.present && points.program->output(op.index.size())[lane] != 0 && exists(p))
      refuse_index(op, from, points, lane);
    const double value = offset ? round_to(b.dtype, load_array(r, from, *offset)) : 0;
    if (in_flight)
      in_flight->values.emplace_back(points.dest[p], value);
    else
      out[points.dest[p]] = value;
  });
  if (in_flight && adversary_.mode == Adversary::Mode::Eager) complete(*in_flight);
}

void Runner::execute(RoleState& r, const StoreOut& op) {
  FrameScope frame(*this, r, op.frame);
  const Buffer& b = kernel_.buffer(op.buffer);
  const BufferState& state = buffers_[buffer_index(op.buffer)];
  Array& to = array(op.tensor, op.index.size());
  check_vectors(r, op.atom, b, to, op.index, frame);
  std::vector<Expr> values = op.index;
  values.push_back(read(b.sym, std::vector<Expr>(b.axes.begin(), b.axes.end())));
  PointOp& points = memory_points(r, &op, b, values, true);
  begin(r, points, frame, {});
  const double* held = slot_data(b, 0);
  run_points(r, points, frame, [&](size_t p, size_t lane) {
    auto offset = array_offset(to, points, lane);
    if (!offset) return;
    double value = points.program->output(op.index.size())[lane];
    for (int32_t replica : state.table.replicas) {
      if (b.space != Space::Registers || replica == 0) continue;
      double other = held[points.dest[p] + replica * state.table.elements];
      if (std::bit_cast<uint64_t>(other) != std::bit_cast<uint64_t>(value) &&
          !(other != other && value != value))
        fault(Kind::Placement, r,
              fmt::format("threads {} and {} hold different values of {}{}; combine them first",
                          points.points.owner[p], points.points.owner[p] + replica, b.sym.name(),
                          where(points, frame, p)));
    }
    store_array(r, to, *offset, value);
  });
}

}  // namespace tilewright::emulation
