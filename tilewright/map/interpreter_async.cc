// Products and bulk copies: issued in order, completed when the adversary likes.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <set>
#include <type_traits>

#include "tilewright/map/interpreter_points.h"
#include "tilewright/support/error.h"

namespace tilewright::emulation {

using Kind = MappedFault::Kind;

/// Where the elements of a product lie. Batches, rows, columns and depth are row-major over their axes.
struct MmaTables : OpCache {
  struct Side {
    std::vector<Sym> axes;
    std::vector<int64_t> shape;
    std::vector<std::vector<int64_t>> coords;  ///< of each number along the side
    int64_t size() const { return int64_t(coords.size()); }
  };
  Side batch, rows, columns, depth;
  struct Operand {
    int buffer = -1;
    std::vector<int32_t>
        index;     ///< element of the slot, (batch, rows | depth, columns | depth); empty for views
    PointOp view;  ///< views: their index in memory
    std::vector<int8_t> region;  ///< Local, asynchronous: the group that reads each element of the slot
    std::vector<Unit> readers;   ///< Local, synchronous: the threads that read each entry of `index`
  };
  Operand d, a, b;
  std::vector<int32_t> d_owner;
  std::vector<int64_t> replicas{0};  ///< of d, relative elements
  bool asynchronous = false;
  bool by_warp = false;
  bool in_parts = false;
  int64_t step = 1;  ///< of the depth in one instruction
};

namespace {

constexpr int8_t every_group = 127;

std::vector<Sym> common(const std::vector<Sym>& of, const std::vector<Sym>& in, bool inside) {
  std::vector<Sym> result;
  for (Sym s : of)
    if ((std::find(in.begin(), in.end(), s) != in.end()) == inside) result.push_back(s);
  return result;
}

std::vector<int64_t> joined(std::initializer_list<const std::vector<int64_t>*> parts) {
  std::vector<int64_t> result;
  for (auto* p : parts) result.insert(result.end(), p->begin(), p->end());
  return result;
}

std::vector<Sym> joined(std::initializer_list<const std::vector<Sym>*> parts) {
  std::vector<Sym> result;
  for (auto* p : parts) result.insert(result.end(), p->begin(), p->end());
  return result;
}

/// d[m][n] += Σ_k a[m][k]·b[k][n], dense.
template <class T>
void multiply_dense(T* d, const T* a, const T* b, int64_t m, int64_t n, int64_t k) {
  typedef T Vector __attribute__((vector_size(32), aligned(sizeof(T)), may_alias));
  constexpr int64_t width = int64_t(sizeof(Vector) / sizeof(T));
  for (int64_t i = 0; i < m; ++i) {
    T* row = d + i * n;
    for (int64_t c = 0; c < k; ++c) {
      const T x = a[i * k + c];
      const T* from = b + c * n;
      int64_t j = 0;
      for (; j + width <= n; j += width)
        *reinterpret_cast<Vector*>(row + j) += x * *reinterpret_cast<const Vector*>(from + j);
      for (; j < n; ++j) row[j] += x * from[j];
    }
  }
}

}  // namespace

MmaTables& Runner::mma_tables(RoleState& r, const Mma& op) {
  auto& cache = caches_[&op];
  if (cache) return static_cast<MmaTables&>(*cache);
  const Atom* atom = find_atom(op.atom);
  TW_CHECK(atom && atom->kind == Atom::Kind::Mma, fmt::format("{} is no product", op.atom));
  auto made = std::make_unique<MmaTables>();
  MmaTables& t = *made;
  t.asynchronous = atom->completion == Completion::Group;
  t.by_warp = atom->by_warp;
  t.in_parts = atom->in_parts;
  t.step = std::max(1, atom->k);
  t.d.buffer = buffer_index(op.d), t.a.buffer = buffer_index(op.a), t.b.buffer = buffer_index(op.b);
  const Buffer &d = kernel_.buffer(op.d), &a = kernel_.buffer(op.a), &b = kernel_.buffer(op.b);
  TW_CHECK(d.space != Space::Memory, fmt::format("{} is a view and cannot be written", d.sym.name()));

  std::vector<Sym> shared = common(d.axes, a.axes, true);
  t.batch.axes = common(shared, b.axes, true);
  t.rows.axes = common(shared, b.axes, false);
  t.columns.axes = common(d.axes, a.axes, false);
  t.depth.axes = op.contracted;
  for (Sym s : t.columns.axes)
    TW_CHECK(std::find(b.axes.begin(), b.axes.end(), s) != b.axes.end(),
             fmt::format("neither operand of {} has axis {}", d.sym.name(), s.name()));
  FrameScope frame(*this, r, op.frame);
  for (MmaTables::Side* side : {&t.batch, &t.rows, &t.columns, &t.depth}) {
    for (Sym s : side->axes) {
      auto n = axis_extent(s, {t.d.buffer, t.a.buffer, t.b.buffer});
      TW_CHECK(n, fmt::format("`{}` does not say how long {} is", print(kernel_, *r.node), s.name()));
      if (side == &t.depth)
        n = std::min(*n,
                     axis_extent(s, {t.b.buffer, t.a.buffer}).value_or(*n));  // panels are padded on one side
      side->shape.push_back(*n);
    }
    for_each_coordinate(side->shape,
                        [&](const std::vector<int64_t>& coords, int64_t) { side->coords.push_back(coords); });
  }

  auto place = [&](MmaTables::Operand& operand, const MmaTables::Side& first, const MmaTables::Side& second,
                   std::vector<int32_t>* owners) {
    const BufferState& state = buffers_[operand.buffer];
    std::vector<Sym> axes = joined({&t.batch.axes, &first.axes, &second.axes});
    if (state.storage < 0) {
      operand.view.points.axes = axes;
      operand.view.points.coords.resize(axes.size());
      for_each_coordinate(joined({&t.batch.shape, &first.shape, &second.shape}),
                          [&](const std::vector<int64_t>& coords, int64_t) {
                            for (size_t k = 0; k < axes.size(); ++k)
                              operand.view.points.coords[k].push_back(int32_t(coords[k]));
                            operand.view.points.owner.push_back(r.spec->threads == 1 ? 0 : -1);
                          });
      std::vector<Expr> args(state.spec->axes.begin(), state.spec->axes.end());
      compile(r, operand.view, {read(state.spec->sym, args)}, false);
      return;
    }
    Projection at(axes, state.spec->axes, state.table.shape);
    bool registers = state.spec->space == Space::Registers;
    for_each_coordinate(
        joined({&t.batch.shape, &first.shape, &second.shape}),
        [&](const std::vector<int64_t>& coords, int64_t) {
          int64_t k = at(coords);
          operand.index.push_back(
              int32_t((registers ? state.table.owner[k] * state.table.elements : 0) + state.table.offset[k]));
          if (owners) owners->push_back(registers ? state.table.owner[k] : r.spec->threads == 1 ? 0 : -1);
        });
  };
  std::vector<int32_t> a_owner, b_owner;
  place(t.d, t.rows, t.columns, &t.d_owner);
  place(t.a, t.rows, t.depth, &a_owner);
  place(t.b, t.depth, t.columns, &b_owner);
  if (d.space == Space::Registers) {
    t.replicas.clear();
    for (int32_t replica : buffers_[t.d.buffer].table.replicas)
      t.replicas.push_back(replica * buffers_[t.d.buffer].table.elements);
  }

  const int64_t rows = t.rows.size(), columns = t.columns.size(), depth = t.depth.size();
  if (t.asynchronous || t.by_warp) {
    auto table = [&](const Buffer& spec, const MmaTables::Operand& operand,
                     const std::vector<int32_t>& owner) {
      OperandTable result{.space = spec.space,
                          .swizzle = spec.layout.swizzle(),
                          .bytes = bytes(spec.dtype),
                          .owner = owner,
                          .offset = operand.index};
      if (spec.space == Space::Registers)
        for (int32_t& offset : result.offset) offset %= int32_t(spec.layout.elements());
      return result;
    };
    std::string refusal;
    if (t.batch.size() != 1) refusal = "a batch axis";
    if (a.dtype != atom->dtype || b.dtype != atom->dtype) refusal = "operands of another type";
    if (a.space == Space::Memory || b.space == Space::Memory) refusal = "an operand is not in local memory";
    if (t.by_warp && r.spec->threads % 32 != 0) refusal = "a role that is not made of warps";
    if (!t.by_warp && (r.spec->group != 128 || r.spec->threads % 128 != 0))
      refusal = "a role that is not made of groups of 128 threads";
    if (refusal.empty())
      refusal = refuse_layouts(*atom, rows, columns, depth, table(d, t.d, t.d_owner), table(a, t.a, a_owner),
                               table(b, t.b, b_owner));
    if (!refusal.empty()) fault(Kind::Placement, r, fmt::format("{} refuses: {}", op.atom, refusal));
    if (t.by_warp) find_warp_readers(r, t);
  } else if (r.spec->threads > 1) {
    find_readers(r, t);
  }

  // Which group reads what: rows of a belong to the group of their results, b to all.
  auto region = [&](MmaTables::Operand& operand, const Buffer& spec, bool of_rows) {
    if (spec.space != Space::Local || !t.asynchronous) return;
    operand.region.assign(spec.layout.elements(), -1);
    for (size_t k = 0; k < operand.index.size(); ++k) {
      int8_t group = r.groups() == 1 ? 0 : every_group;
      if (of_rows) group = int8_t(t.d_owner[k / size_t(depth) * size_t(columns)] / r.spec->group);
      operand.region[operand.index[k]] = group;
    }
  };
  region(t.a, a, true);
  region(t.b, b, false);
  cache = std::move(made);
  return static_cast<MmaTables&>(*cache);
}

/// A product by instructions: every owner of a result reads its row of a and its column of b itself.
void Runner::find_readers(RoleState& r, MmaTables& t) {
  const BufferState& d = buffers_[t.d.buffer];
  const Unit role = unit(r, Scope::Role, 0);
  const int64_t rows = t.rows.size(), columns = t.columns.size(), depth = t.depth.size();
  if (d.spec->space == Space::Local) {
    for (auto* operand : {&t.d, &t.a, &t.b}) operand->readers.assign(operand->index.size(), role);
    return;
  }
  for (int64_t n = 0; n < t.batch.size(); ++n) {
    std::vector<std::set<int>> of_row(static_cast<size_t>(rows)), of_column(static_cast<size_t>(columns));
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        for (int32_t replica : d.table.replicas) {
          int owner = t.d_owner[size_t((n * rows + i) * columns + j)] + replica;
          of_row[size_t(i)].insert(owner);
          of_column[size_t(j)].insert(owner);
        }
    // Entries (n, row, k) of a and (n, k, column) of b.
    auto see = [&](MmaTables::Operand& operand, const std::vector<std::set<int>>& owners, int64_t line_step,
                   int64_t depth_step) {
      const BufferState& b = buffers_[operand.buffer];
      if (b.storage < 0) return;
      operand.readers.resize(operand.index.size(), role);
      for (size_t line = 0; line < owners.size(); ++line) {
        Unit reader = owners[line].empty() ? role : Unit{Scope::Thread, *owners[line].begin()};
        for (int owner : owners[line]) reader = cover(r, reader, {Scope::Thread, owner});
        for (int64_t k = 0; k < depth; ++k) {
          size_t entry =
              size_t(n * int64_t(owners.size()) * depth + int64_t(line) * line_step + k * depth_step);
          operand.readers[entry] = reader;
          if (b.spec->space != Space::Registers) continue;
          int64_t first = operand.index[entry] / b.table.elements;
          for (int owner : owners[line])
            if (std::none_of(b.table.replicas.begin(), b.table.replicas.end(),
                             [&](int32_t x) { return first + x == owner; }))
              fault(Kind::Placement, r,
                    fmt::format("thread {} needs an element of {} that it does not hold", owner,
                                b.spec->sym.name()));
        }
      }
    };
    see(t.a, of_row, depth, 1);
    see(t.b, of_column, 1, columns);
  }
}

/// A product by warps: the warp of a row reads that row of a, every warp all of b.
void Runner::find_warp_readers(RoleState& r, MmaTables& t) {
  const int64_t rows = t.rows.size(), columns = t.columns.size(), depth = t.depth.size();
  const Unit role = unit(r, Scope::Role, 0);
  if (buffers_[t.a.buffer].spec->space == Space::Local) {
    for (int64_t i = 0; i < rows; ++i) {
      const Unit warp = unit(r, Scope::Warp, t.d_owner[size_t(i * columns)] / 32);
      t.a.readers.insert(t.a.readers.end(), size_t(depth), warp);
    }
  }
  t.b.readers.assign(t.b.index.size(), role);
}

void Runner::execute(RoleState& r, const Mma& op) {
  MmaTables& t = mma_tables(r, op);
  Product p;
  p.id = next_id_++;
  p.op = &op;
  p.node = r.node;
  p.group = r.group_number;
  p.mask = r.mask;
  for (Sym s : {op.d, op.a, op.b}) {
    const Buffer& b = kernel_.buffer(s);
    p.slots.push_back(b.space == Space::Local ? slot_of(r, b, op.uses) : 0);
  }
  {
    FrameScope frame(*this, r, op.frame);
    for (MmaTables::Side* side : {&t.batch, &t.rows, &t.columns, &t.depth}) {
      std::vector<int64_t> limits;
      for (size_t a = 0; a < side->axes.size(); ++a) {
        int64_t limit = frame.extent(side->axes[a]).value_or(side->shape[a]);
        // Instructions of the matrix unit compute whole tiles, and whole steps of the depth.
        if (t.asynchronous || t.by_warp)
          limit = side == &t.depth ? (limit + t.step - 1) / t.step * t.step : side->shape[a];
        limits.push_back(limit);
      }
      std::vector<int32_t> inside;
      for (int64_t k = 0; k < side->size(); ++k) {
        bool all = true;
        for (size_t a = 0; a < limits.size(); ++a) all = all && side->coords[k][a] < limits[a];
        if (all) inside.push_back(int32_t(k));
      }
      p.inside.push_back(std::move(inside));
    }
  }
  if (t.by_warp) require_level(r, Scope::Warp, "a product of a warp");
  if (!t.asynchronous) {
    for (size_t k = 0; k < 3; ++k) {
      const Buffer& b = kernel_.buffer(k == 0 ? op.d : k == 1 ? op.a : op.b);
      const MmaTables::Operand& operand = k == 0 ? t.d : k == 1 ? t.a : t.b;
      if (b.space == Space::Registers) {
        touch_registers(r, b, k == 0);
      } else if (b.space == Space::Local) {
        read_slot(r, b, p.slots[k]);
        if (!racy_) continue;
        Slot& s = tracked(b, p.slots[k]);
        for (size_t x = 0; x < operand.index.size(); ++x) {
          Unit u = operand.readers.empty() ? owner_unit(r, 0) : operand.readers[x];
          read_local(r, b, p.slots[k], s, operand.index[x], u);
          if (k == 0) write_local(r, b, p.slots[k], s, operand.index[x], u);
        }
      }
    }
    compute(r, p);
    return;
  }
  require_level(r, Scope::Group, "a product");
  const Buffer &d = kernel_.buffer(op.d), &a = kernel_.buffer(op.a), &b = kernel_.buffer(op.b);
  touch_by_product(r, d, true);
  if (a.space == Space::Registers)
    touch_by_product(r, a, false);
  else
    read_by_product(r, a, p.slots[1], t.a.region, p.id);
  read_by_product(r, b, p.slots[2], t.b.region, p.id);
  ++storages_[buffers_[t.d.buffer].storage].in_flight_d;
  if (a.space == Space::Registers) ++storages_[buffers_[t.a.buffer].storage].in_flight_a;
  r.products.push_back(std::move(p));
  if (adversary_.mode == Adversary::Mode::Eager) complete(r.products.back(), r);
}

void Runner::complete(Product& p, RoleState& r) {
  if (p.done) return;
  for (Product& earlier : r.products) {  // in order of issue
    if (earlier.done) continue;
    const MappedOp* node = r.node;
    r.node = earlier.node;
    compute(r, earlier);
    r.node = node;
    earlier.done = true;
    if (earlier.id == p.id) return;
  }
}

void Runner::compute(RoleState& r, const Product& p) {
  if (kernel_.buffer(p.op->d).dtype == DType::f64)
    multiply<double>(r, p);
  else
    multiply<float>(r, p);
}

template <class T>
void Runner::multiply(RoleState& r, const Product& p) {
  MmaTables& t = mma_tables(r, *p.op);
  const auto &batches = p.inside[0], &rows = p.inside[1], &columns = p.inside[2], &depth = p.inside[3];
  const int64_t m = int64_t(rows.size()), n = int64_t(columns.size()), k = int64_t(depth.size());
  std::vector<T> d(size_t(m * n)), a(size_t(m * k)), b(size_t(k * n));
  auto gather = [&](MmaTables::Operand& operand, int slot, std::vector<T>& into, int32_t batch,
                    const std::vector<int32_t>& first, const std::vector<int32_t>& second, int64_t first_size,
                    int64_t second_size) {
    const Buffer& spec = *buffers_[operand.buffer].spec;
    if (operand.index.empty() && operand.view.program) {
      load_view(r, p, operand.view);
      for (size_t x = 0; x < first.size(); ++x)
        for (size_t y = 0; y < second.size(); ++y)
          into[x * second.size() + y] =
              T(view_values_[size_t((batch * first_size + first[x]) * second_size + second[y])]);
      return;
    }
    const double* data = slot_data(spec, slot);
    for (size_t x = 0; x < first.size(); ++x) {
      const int32_t* index = operand.index.data() + (batch * first_size + first[x]) * second_size;
      for (size_t y = 0; y < second.size(); ++y) {
        double value = data[index[second[y]]];
        if (is_unwritten(value))
          fault(Kind::Uninitialised, r,
                fmt::format("{} is used by a product and was not written everywhere", slot_name(spec, slot)));
        into[x * second.size() + y] = T(value);
      }
    }
  };
  const Buffer& result = kernel_.buffer(p.op->d);
  double* out = slot_data(result, p.slots[0]);
  for (int32_t batch : batches) {
    if (p.op->zero)
      std::fill(d.begin(), d.end(), T(0));
    else
      gather(t.d, p.slots[0], d, batch, rows, columns, t.rows.size(), t.columns.size());
    gather(t.a, p.slots[1], a, batch, rows, depth, t.rows.size(), t.depth.size());
    gather(t.b, p.slots[2], b, batch, depth, columns, t.depth.size(), t.columns.size());
    if constexpr (std::is_same_v<T, float>) {
      if (t.in_parts)
        multiply_in_parts(d.data(), a.data(), b.data(), m, n, k);
      else
        multiply_dense(d.data(), a.data(), b.data(), m, n, k);
    } else {
      multiply_dense(d.data(), a.data(), b.data(), m, n, k);
    }
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        size_t at = size_t((batch * t.rows.size() + rows[i]) * t.columns.size() + columns[j]);
        double value = round_to(result.dtype, double(d[size_t(i * n + j)]));
        for (int64_t replica : t.replicas) {
          int64_t element = t.d.index[at] + replica;
          int owner =
              result.space == Space::Registers ? int(element / buffers_[t.d.buffer].table.elements) : -1;
          if (p.mask.empty() || owner < 0 || p.mask[owner]) out[element] = value;
        }
      }
    }
  }
}

/// Values of a view at all of its points, where they lie inside the extents.
void Runner::load_view(RoleState& r, const Product& p, PointOp& view) {
  FrameScope frame(*this, r, p.op->frame);
  view_values_.assign(view.points.size(), 0);
  begin(r, view, frame, p.op->uses);
  run_points(r, view, frame,
             [&](size_t point, size_t lane) { view_values_[point] = view.program->output(0)[lane]; });
}

// ---- Bulk copies ----

int64_t Runner::box_elements(const TensorMap& map) const {
  int64_t n = 1;
  for (const TensorMap::Dimension& d : map.dims) n *= d.box;
  return n;
}

const TensorMap& Runner::tensor_map(RoleState& r, int number, const Buffer& b, int64_t offset, size_t rank) {
  TW_CHECK(number >= 0 && number < int(kernel_.tensor_maps.size()),
           fmt::format("there is no tensor map {}", number));
  const TensorMap& map = kernel_.tensor_maps[number];
  auto refuse = [&](const std::string& what) {
    fault(Kind::Placement, r, fmt::format("tensor map {}: {}", map.name, what));
  };
  if (map.dims.empty() || map.dims.size() > 5) refuse("a map has 1 to 5 dimensions");
  if (rank != map.dims.size()) refuse(fmt::format("{} coordinates for {} dimensions", rank, map.dims.size()));
  if (b.space != Space::Local) refuse(fmt::format("{} is not in local memory", b.sym.name()));
  if (b.dtype != map.dtype) refuse(fmt::format("{} has another element type", b.sym.name()));
  for (const TensorMap::Dimension& d : map.dims)
    if (d.box < 1 || d.box > 256) refuse("a side of the box is not in 1 … 256");
  const Buffer* base = &b;
  while (base->shares) base = &kernel_.buffer(base->shares);
  int inner = map.dims[0].box * bytes(map.dtype);
  if (inner % 16 != 0) refuse("the inner side of the box is no multiple of 16 bytes");
  if (map.swizzle_bytes > 0 && inner > map.swizzle_bytes)
    refuse("the inner side of the box is longer than the swizzle");
  if (integer(r, map.dims[0].stride) != 1) refuse("dimension 0 is not contiguous");
  if (base->alignment % std::max(128, map.swizzle_bytes * 8) != 0)
    refuse(fmt::format("{} is aligned to {} bytes, not to {}", base->sym.name(), base->alignment,
                       std::max(128, map.swizzle_bytes * 8)));
  if (offset * bytes(map.dtype) % 128 != 0) refuse("the box does not start at a multiple of 128 bytes");
  if (offset < 0 || offset + box_elements(map) > b.layout.elements())
    fault(Kind::OutOfBounds, r,
          fmt::format("a box of {} elements at {} does not fit in {} of {}", box_elements(map), offset,
                      b.sym.name(), b.layout.elements()));
  return map;
}

/// Calls visit(element of the slot, offset in memory or −1 outside) for each element of the box.
template <class F>
void Runner::for_each_in_box(RoleState& r, const TensorMap& map, const std::vector<int64_t>& coordinates,
                             int64_t offset, F visit) {
  Swizzle swizzle;
  swizzle.bits = map.swizzle_bytes > 0 ? std::countr_zero(unsigned(map.swizzle_bytes)) - 4 : 0;
  swizzle.base = std::countr_zero(unsigned(16 / bytes(map.dtype)));
  swizzle.shift = 3;
  std::vector<int64_t> sizes, strides, shape;
  for (const TensorMap::Dimension& d : map.dims) {
    sizes.push_back(integer(r, d.size));
    strides.push_back(integer(r, d.stride));
    shape.insert(shape.begin(), d.box);  // dimension 0 is fastest
  }
  const size_t rank = sizes.size();
  for_each_coordinate(shape, [&](const std::vector<int64_t>& box, int64_t k) {
    int64_t at = 0;
    bool inside = true;
    for (size_t d = 0; d < rank; ++d) {
      int64_t c = coordinates[d] + box[rank - 1 - d];
      inside = inside && c >= 0 && c < sizes[d];
      at += c * strides[d];
    }
    visit(swizzle.apply(offset + k), inside ? at : -1);
  });
}

void Runner::expect_units(RoleState& r, const TensorMap& map, const std::vector<int64_t>& coordinates) {
  const int64_t begin = coordinates.at(0) * bytes(map.dtype);
  if (begin % 16 != 0)
    fault(Kind::Placement, r,
          fmt::format("a box begins {} bytes into the last dimension of {}, which is no multiple of 16",
                      begin, map.name));
}

void Runner::execute(RoleState& r, const CopyAsync& op) {
  const Buffer& b = kernel_.buffer(op.buffer);
  const Channel& c = kernel_.channels.at(op.channel);
  const TensorMap& map = tensor_map(r, op.tensor_map, b, op.offset, op.coordinates.size());
  TW_CHECK(std::find(c.buffers.begin(), c.buffers.end(), op.buffer) != c.buffers.end(),
           fmt::format("channel {} does not guard {}", c.name, b.sym.name()));
  int64_t use = integer(r, op.use);
  int slot = int(use % b.slots), signal_slot = int(use % c.slots);
  int64_t end = op.offset + box_elements(map);
  write_by_copy(r, b, slot, op.offset, end, channels_[op.channel].agent + signal_slot, use / c.slots);
  arrive(r, op.channel, true, use, 1, Scope::Role);
  signal(op.channel, true, signal_slot).bytes += op.bytes;
  copies_.push_back({&op, r.node, r.index, slot, signal_slot, integers(r, op.coordinates)});
  expect_units(r, map, copies_.back().coordinates);
  if (adversary_.mode == Adversary::Mode::Eager) complete_copy(copies_.size() - 1);
}

void Runner::complete_copy(size_t which) {
  BulkCopy copy = std::move(copies_[which]);
  copies_.erase(copies_.begin() + long(which));
  RoleState& r = roles_[copy.role];
  const MappedOp* node = r.node;
  r.node = copy.node;
  const CopyAsync& op = *copy.op;
  const Buffer& b = kernel_.buffer(op.buffer);
  const TensorMap& map = kernel_.tensor_maps[op.tensor_map];
  const Array& from = *env_.arrays.at(map.tensor);
  double* data = slot_data(b, copy.slot);
  for_each_in_box(r, map, copy.coordinates, op.offset, [&](int64_t element, int64_t offset) {
    if (offset >= from.limit)
      fault(Kind::OutOfBounds, r,
            fmt::format("tensor map {} reaches outside {}", map.name, map.tensor.name()));
    data[element] = offset < 0 ? 0 : load_array(r, from, offset);
  });
  signal(op.channel, true, copy.signal).bytes -= box_elements(map) * bytes(map.dtype);
  advance(op.channel, true, copy.signal);
  r.node = node;
}

void Runner::execute(RoleState& r, const StoreAsync& op) {
  const Buffer& b = kernel_.buffer(op.buffer);
  const TensorMap& map = tensor_map(r, op.tensor_map, b, 0, op.coordinates.size());
  if (active_instances(r, op.per) != 1)
    fault(Kind::BarrierMismatch, r, "several threads issue this bulk store; elect one of the role");
  TW_CHECK(b.slots == 1, "a bulk store has no slot");
  BulkStore s{next_id_++, &op, r.node, integers(r, op.coordinates), false};
  expect_units(r, map, s.coordinates);
  read_by_store(r, b, 0, 0, box_elements(map), op, s.id);
  r.stores.push_back(std::move(s));
  if (adversary_.mode == Adversary::Mode::Eager) complete(r.stores.back(), r);
}

void Runner::complete(BulkStore& s, RoleState& r) {
  if (s.done) return;
  s.done = true;
  const MappedOp* node = r.node;
  r.node = s.node;
  const Buffer& b = kernel_.buffer(s.op->buffer);
  const TensorMap& map = kernel_.tensor_maps[s.op->tensor_map];
  Array& to = *env_.arrays.at(map.tensor);
  const double* data = slot_data(b, 0);
  for_each_in_box(r, map, s.coordinates, 0, [&](int64_t element, int64_t offset) {
    if (offset < 0) return;
    if (offset >= to.limit)
      fault(Kind::OutOfBounds, r,
            fmt::format("tensor map {} reaches outside {}", map.name, map.tensor.name()));
    if (is_unwritten(data[element]))
      fault(Kind::Uninitialised, r, fmt::format("{} is stored and was not written everywhere", b.sym.name()));
    store_array(r, to, offset, data[element]);
  });
  r.node = node;
}

}  // namespace tilewright::emulation
