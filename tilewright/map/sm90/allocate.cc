// Buffers, rings, channels, tensor maps, and the loading role.
#include <fmt/format.h>

#include <algorithm>

#include "tilewright/expr/simplify.h"
#include "tilewright/map/sm90/context.h"
#include "tilewright/support/error.h"
#include "tilewright/tile/lifetime.h"
#include "tilewright/tile/statements.h"

namespace tilewright::hopper {
namespace {

constexpr int64_t panel_columns = 64;  // elements of 2 bytes in a row of 128 bytes
constexpr int64_t panel_alignment = 1024;
constexpr int64_t step_of_parts =
    8;  // rows, columns and depth of f32 operands on tensor cores are whole multiples
constexpr int64_t largest_box = 256;
constexpr size_t most_map_dims = 5;
constexpr int group_threads = 128, warp_threads = 32;

Sym fresh(const std::string& name, SymbolKind kind) { return Sym::fresh({.name = name, .kind = kind}); }

bool is_panel(const Context& c, const Staged& s) {
  return bytes(s.tile->dtype) == 2 && s.tile->axes.size() == 2 && (s.tensor_core || s.bulk) && c.has_products;
}

/// The tile axis that runs along the last memory dimension, if the tensor is read at that axis there; null otherwise.
Sym innermost_axis(const Context& c, const Tile& tile, Sym tensor, const std::vector<Expr>& index) {
  std::vector<Dim> dims = c.dims(tensor);
  if (dims.empty() || dims.back().pieces.empty()) return {};
  Expr last = index.back();
  for (Sym a : tile.axes)
    if (depends_on(last, a)) return a;
  return {};
}

/// index = axis + rest with rest free of the tile's axes.
bool steps_along(Expr index, Sym axis, const std::vector<Sym>& axes) {
  auto form = affine(index, axes);
  if (!form) return false;
  for (size_t k = 0; k < axes.size(); ++k) {
    const bool one = form->coefficient[k].is_constant(1), zero = form->coefficient[k].is_constant(0);
    if (axes[k] == axis ? !one : !zero) return false;
  }
  for (Sym a : axes)
    if (depends_on(form->rest, a)) return false;
  return true;
}

/// A product on tensor cores that reads the tile; null: none does.
const Product* unit_product(const Context& c, Sym tile) {
  for (const Product& p : c.products)
    if (p.tensor_core && (p.a == tile || p.b == tile)) return &p;
  return nullptr;
}

/// Contiguous along `inner`: in swizzled panels, or in rows apart in the banks.
Layout tile_layout(const Context& c, const Tile& tile, Sym inner, bool tensor_core) {
  const std::vector<Sym>& axes = tile.axes;
  std::vector<int64_t> shape;
  for (Sym a : axes) shape.push_back(c.extent(a));
  if (tensor_core && bytes(tile.dtype) == 2) {
    const int in = axes[0] == inner ? 0 : 1, outer = 1 - in;
    shape[in] = round_up(shape[in], panel_columns);
    shape[outer] = round_up(shape[outer], c.axis(axes[outer]).kind == KernelAxis::Kind::Whole ? 16 : 8);
    std::vector<Digit> digits{
        {in, panel_columns, 1, Digit::To::Offset, 1},
        {in, shape[in] / panel_columns, panel_columns, Digit::To::Offset, panel_columns * shape[outer]},
        {outer, shape[outer], 1, Digit::To::Offset, panel_columns}};
    return Layout(shape, digits, Swizzle{3, 3, 3});
  }
  std::vector<int> order;
  for (size_t a = axes.size(); a-- > 0;) order.push_back(int(a));
  if (inner) {
    auto at = std::find_if(order.begin(), order.end(), [&](int a) { return axes[a] == inner; });
    std::rotate(order.begin(), at, at + 1);
  }
  // Rows one 16-byte unit apart in the banks, each aligned to it: four threads that read neighbouring pairs of rows, eight elements of each, meet in no bank. Eight
  // threads do that read four neighbouring pairs of elements of each row where rows are two units apart, as products in parts do along the contracted axis.
  int64_t pad = 0;
  const int64_t unit = 16 / bytes(tile.dtype);
  const Product* product = tensor_core ? unit_product(c, tile.sym) : nullptr;
  if (product)
    for (int64_t& n : shape) n = round_up(n, step_of_parts);
  const bool pairs = product && inner == product->dot->axes[0];
  if (axes.size() >= 2 && unit > 0) {
    const int64_t row = shape[order[0]];
    pad = round_up(row, unit) - row;
    while (pairs ? (row + pad) / unit % 4 != 2 : (row + pad) / unit % 2 == 0) pad += unit;
  }
  return Layout::strided(shape, order, pad);
}

Layout staged_layout(const Context& c, const Staged& s) {
  Sym inner = innermost_axis(c, *s.tile, s.load->tensor, s.load->index);
  if (!inner && !s.tile->axes.empty()) inner = s.tile->axes.back();
  return tile_layout(c, *s.tile, inner, s.tensor_core || is_panel(c, s));
}

/// Tries to copy the tile with the bulk copy engine; leaves s alone where it cannot.
void make_bulk(Context& c, Staged& s) {
  const Tile& tile = *s.tile;
  if (c.layout != LayoutClass::Aligned || bytes(tile.dtype) != 2 || c.loaders == 0 || tile.axes.empty() ||
      tile.axes.size() > 2)
    return;
  const Sym tensor = s.load->tensor;
  const Input* input = c.program.input(tensor);
  if (!input || input->dtype != tile.dtype || s.load->present)
    return;  // a bulk copy cannot report an index outside the array
  std::vector<Dim> dims = c.dims(tensor);
  const Sym inner = innermost_axis(c, tile, tensor, s.load->index);
  if (!inner || dims.back().pieces.size() != 1 || !begins_at_units(c, *s.load, inner, tile.dtype)) return;
  Sym outer;
  for (Sym a : tile.axes)
    if (a != inner) outer = a;

  // One coordinate for each memory dimension, from the last to the first.
  TensorMap map;
  map.tensor = tensor;
  map.dtype = tile.dtype;
  map.name = tile.sym.name();
  map.swizzle_bytes = outer ? 128 : 0;
  s.bulk = true;
  const Layout layout = staged_layout(c, s);
  s.bulk = false;
  auto shape_of = [&](Sym a) {
    return layout.shape()[std::find(tile.axes.begin(), tile.axes.end(), a) - tile.axes.begin()];
  };
  const int64_t columns = outer ? shape_of(inner) : c.axis(inner).block;
  const int64_t rows = outer ? shape_of(outer) : 1;
  if (rows > largest_box || (!outer && (columns > largest_box || columns * bytes(tile.dtype) % 16 != 0)))
    return;
  const int64_t panels = outer ? columns / panel_columns : 1;
  const bool split = panels > 1;
  size_t piece = s.load->index.size();
  std::vector<Expr> coordinates;
  size_t row_dim = 0;
  std::vector<TensorMap::Dimension> map_dims;
  for (size_t d = dims.size(); d-- > 0;) {
    const std::vector<Sym>& pieces = dims[d].pieces;
    if (pieces.empty()) continue;
    piece -= pieces.size();
    Expr index, size;
    for (size_t q = 0; q < pieces.size(); ++q) {
      const Expr length =
          c.program.axis(pieces[q]).size ? c.program.axis(pieces[q]).size : Expr(pieces[q].size());
      Expr part = s.load->index[piece + q];
      if (!tensors_read(part).empty()) return;
      index = index ? sum_of(product_of(index, length), part) : part;
      size = size ? product_of(size, length) : length;
    }
    TensorMap::Dimension dim{size, Expr(c.stride(tensor, int(d))), 1};
    const bool has_inner = depends_on(index, inner), has_outer = outer && depends_on(index, outer);
    if (has_inner) {
      if (d + 1 != dims.size() || has_outer || !steps_along(index, inner, tile.axes)) return;
      dim.box = int(outer ? panel_columns : columns);
      dim.stride = Expr(1);
    } else if (has_outer) {
      // Behind the last row of a piece the box holds rows of the next one: nobody reads what comes of them. A block of one group may have few rows of its own.
      const bool rows_alone = outer == c.row && c.groups > 1 && pieces.back() == outer;
      if (row_dim || !(pieces.size() == 1 || rows_alone) || !steps_along(index, outer, tile.axes)) return;
      row_dim = map_dims.size();
      dim.box = int(rows);
    }
    map_dims.push_back(dim);
    coordinates.push_back(index);
  }
  if ((outer && row_dim == 0) || map_dims.size() > most_map_dims) return;
  const int64_t panel_bytes = (outer ? panel_columns : columns) * rows * bytes(tile.dtype);
  const int64_t row_length = literal(map_dims[0].size, 0);
  const bool one_copy = split && row_length % panel_columns == 0 && row_length == columns &&
                        map_dims.size() < most_map_dims && coordinates[0] == Expr(inner) &&
                        c.axis(inner).kind == KernelAxis::Kind::Whole;
  if (one_copy) {
    // {64, rows, panels, …}: the whole tile in one copy. The rows come right behind the columns, whatever their place in memory.
    map_dims[0].size = Expr(panel_columns);
    std::swap(map_dims[1], map_dims[row_dim]);
    std::swap(coordinates[1], coordinates[row_dim]);
    map_dims.insert(map_dims.begin() + 2, {Expr(panels), Expr(panel_columns), int(panels)});
    coordinates[0] = Expr(0);
    coordinates.insert(coordinates.begin() + 2, Expr(0));
    s.pieces.push_back({int(c.out.tensor_maps.size()), coordinates, panel_bytes * panels, 0});
  } else {
    for (int64_t panel = 0; panel < panels; ++panel) {
      Staged::Piece copy{int(c.out.tensor_maps.size()), coordinates, panel_bytes,
                         panel * panel_columns * rows};
      copy.coordinates[0] = sum_of(copy.coordinates[0], Expr(panel * panel_columns));
      s.pieces.push_back(copy);
    }
  }
  map.dims = map_dims;
  c.out.tensor_maps.push_back(map);
  s.bulk = true;
  c.add_guard(tensor, true, 16);
}

Buffer& add_local(Context& c, Sym sym, std::vector<Sym> axes, DType dtype, Layout layout,
                  const std::string& comment) {
  Buffer b;
  b.sym = sym;
  b.axes = std::move(axes);
  b.dtype = dtype;
  b.space = Space::Local;
  b.layout = std::move(layout);
  b.comment = comment;
  c.out.buffers.push_back(std::move(b));
  return c.out.buffers.back();
}

void add_channel(Context& c, Staged& s, int slots, int full_arrivals) {
  Channel channel;
  channel.name = s.tile->sym.name();
  channel.buffers = {s.tile->sym};
  channel.slots = slots;
  channel.full_arrivals = full_arrivals;
  channel.empty_arrivals = group_threads * c.groups + (s.read_beside ? c.makers : 0);
  if (s.signals() == Scope::Warp) channel.empty_arrivals /= warp_threads;
  s.channel = int(c.out.channels.size());
  c.out.channels.push_back(channel);
}

void allocate_staged(Context& c, Staged& s) {
  if (!s.load) {
    std::vector<int64_t> shape;
    for (Sym a : s.tile->axes) shape.push_back(c.extent(a));
    Buffer& b = add_local(c, s.tile->sym, s.tile->axes, s.tile->dtype, Layout::row_major(shape),
                          s.carried ? "made beside, from chunk to chunk" : "made beside");
    b.slots = s.loops.empty() ? 1 : std::max(2, s.tile->slots);
    add_channel(c, s, b.slots, c.makers);
    return;
  }
  make_bulk(c, s);
  Buffer& b =
      add_local(c, s.tile->sym, s.tile->axes, s.tile->dtype, staged_layout(c, s), s.tile->kept ? "kept" : "");
  b.alignment = is_panel(c, s) ? panel_alignment : s.bulk ? 128 : 16;
  if (c.loaders == 0) {
    s.ring = c.by_warps && s.tile->slots > 1 && !s.loops.empty() &&
             std::all_of(s.loops.begin(), s.loops.end(),
                         [&](const Loop* l) { return c.axis(l->axis).kind != KernelAxis::Kind::Resident; });
    if (s.ring) b.slots = s.tile->slots;
    return;
  }
  b.slots = s.loops.empty() ? 1 : std::max(1, s.tile->slots);
  add_channel(c, s, b.slots, s.bulk ? int(s.pieces.size()) : group_threads);
}

/// Tiles made in shared memory are contiguous as the widest tile they are made from, or along their last axis.
void allocate_made(Context& c, Made& m) {
  const Tile& t = c.tile(m.tile);
  m.inner = t.axes.back();
  const Staged* widest = nullptr;
  for_each_stmt(c.kernel.body, [&](const Stmt& s) {
    auto* map = std::get_if<Map>(&s.node);
    if (!map || map->tile != t.sym) return;
    for (Sym read : tensors_read(map->value)) {
      const Staged* staged = c.find_staged(read);
      if (staged && (!widest || staged->tile->axes.size() > widest->tile->axes.size())) widest = staged;
    }
  });
  if (widest) {
    const Sym inner = innermost_axis(c, *widest->tile, widest->load->tensor, widest->load->index);
    if (inner && std::find(t.axes.begin(), t.axes.end(), inner) != t.axes.end()) m.inner = inner;
  }
  Layout layout = tile_layout(c, t, m.inner, m.tensor_core);
  Buffer& b = add_local(c, t.sym, t.axes, t.dtype, std::move(layout), "made by all threads");
  if (m.tensor_core && bytes(t.dtype) == 2) b.alignment = panel_alignment;
}

/// Which terms of a product are present, where FMA instructions need it in other threads than those that know.
void allocate_condition(Context& c, const Product& p) {
  if (!p.condition_tile) return;
  std::vector<int64_t> shape;
  std::vector<int> order;
  for (Sym a : p.condition_axes) {
    order.insert(order.begin(), int(shape.size()));
    shape.push_back(c.distribution.extent(a));
  }
  add_local(c, p.condition_tile, p.condition_axes, DType::boolean,
            Layout::strided(shape, order, shape.size() > 1 ? 4 : 0), "terms that are present");
  if (!p.condition_registers) return;
  Buffer b;
  b.sym = p.condition_registers;
  b.axes = p.condition_axes;
  b.dtype = DType::boolean;
  b.space = Space::Registers;
  b.layout = c.distribution.layout(b.axes);
  b.role = c.compute_role;
  c.out.buffers.push_back(std::move(b));
}

/// FMA products read their register operand from shared memory where the threads that need it are not those that hold it.
void allocate_scratch(Context& c, Product& p) {
  const bool fma_masked = p.tensor_core && p.in_masked && p.dot->present;
  if (p.tensor_core && !fma_masked) return;
  for (Sym operand : {p.a, p.b}) {
    const Tile& t = c.tile(operand);
    if (t.level != Level::Registers) continue;
    const bool conflict = p.column && std::any_of(p.dot->axes.begin(), p.dot->axes.end(), [&](Sym k) {
                            return std::find(t.axes.begin(), t.axes.end(), k) != t.axes.end();
                          });
    if (!conflict) continue;
    TW_CHECK(!p.scratch, "one operand of a product is in registers");
    p.scratched = operand;
    p.scratch = fresh(operand.name() + "_shared", SymbolKind::Tile);
    std::vector<int64_t> shape;
    for (Sym a : t.axes) shape.push_back(c.distribution.extent(a));
    std::vector<int> order;
    for (size_t a = t.axes.size(); a-- > 0;) order.push_back(int(a));
    const int64_t unit = 16 / bytes(t.dtype);
    add_local(c, p.scratch, t.axes, t.dtype, Layout::strided(shape, order, t.axes.size() > 1 ? unit : 0),
              "operand " + operand.name() + " for products by FMA");
  }
}

void allocate_registers(Context& c) {
  for (const Tile& t : c.kernel.tiles) {
    if (t.level == Level::Shared) continue;
    if (t.level == Level::Memory)
      throw UserError(Span{}, fmt::format("tile {} lies in memory, which {} does not read in place",
                                          t.sym.name(), c.machine.arch));
    Buffer b;
    b.sym = t.sym;
    b.axes = t.axes;
    b.dtype = t.dtype;
    b.space = Space::Registers;
    b.layout = c.distribution.layout(t.axes);
    b.role = c.compute_role;
    c.out.buffers.push_back(std::move(b));
  }
}

/// The most registers of a thread that tiles take at once, behind each statement.
int64_t live_words(const Context& c) {
  const Lifetime lifetime(c.kernel);
  int64_t most = 0;
  for_each_stmt(c.kernel.body, [&](const Stmt& s) {
    std::set<Sym> live = lifetime.after(s);
    if (Sym made = written(s)) live.insert(made);
    int64_t words = 0;
    for (Sym tile : live) {
      const Tile& t = c.tile(tile);
      if (t.level == Level::Registers) words += words_of_thread(c.out.buffer(t.sym));
    }
    most = std::max(most, words);
  });
  return most;
}

/// Registers a thread needs: 4-byte words of all states and of the two largest temporaries that may live together, and those beside tiles.
void check_registers(Context& c) {
  c.out.tile_registers = live_words(c);
  int64_t states = 0;
  std::vector<int64_t> temporaries;
  for (const Tile& t : c.kernel.tiles) {
    if (t.level != Level::Registers) continue;
    const int64_t words = words_of_thread(c.out.buffer(t.sym));
    if (t.use == Tile::Use::State)
      states += words;
    else
      temporaries.push_back(words);
  }
  std::sort(temporaries.rbegin(), temporaries.rend());
  int64_t needed = states + registers_beside_tiles;
  for (size_t k = 0; k < std::min<size_t>(2, temporaries.size()); ++k) needed += temporaries[k];
  const int64_t budget = std::min<int64_t>(c.machine.registers_per_thread,
                                           65536 / std::max<int64_t>(1, c.distribution.threads()));
  // Twice the budget leaves no hope even where temporaries never live together.
  if (states + registers_beside_tiles > budget || needed > 2 * budget) {
    throw RoomError(
        Span{},
        fmt::format("kernel {} needs about {} registers a thread ({} of them states), there are {}",
                    c.out.name, needed, states, budget),
        "use more computing groups (roles), smaller pieces or smaller blocks");
  }
}

/// Signals that what the thread's copies wrote is there, after a wait for those in groups.
void arrive_copied(const Context& c, const Staged& s, const Position& at, Ops& out) {
  if (s.tensor_core) out.push_back({ProxyFence{}, {}});
  out.push_back({Arrive{s.channel, true, c.use(s, at), s.signals()}, {}});
}

/// Copies by instructions are signalled here, or, where they join a group, by what `grouped` lists.
void load_tile(Context& c, const Staged& s, const Position& at, std::vector<const Staged*>& grouped,
               Ops& out) {
  const Expr use = c.use(s, at);
  if (!s.loops.empty() || c.persistent) out.push_back({Wait{s.channel, false, use}, {}});
  if (s.bulk) {
    Substitution origins;
    for (const AxisFrame& f : c.frame(at)) origins.emplace_back(f.axis, f.origin);
    for (const KernelAxis& a : c.kernel.grid)
      origins.emplace_back(a.index, product_of(Expr(a.counter), Expr(a.block)));
    for (const KernelAxis& a : c.kernel.inner)
      if (!at.loop || a.index != at.loop->axis) origins.emplace_back(a.index, Expr(0));
    for (const Staged::Piece& piece : s.pieces) {
      CopyAsync copy{"copy.bulk", s.tile->sym, use, s.channel, piece.map, {}, piece.bytes};
      copy.offset = piece.offset;
      for (Expr e : piece.coordinates) copy.coordinates.push_back(simplify(substitute(e, origins)));
      out.push_back({copy, {}});
    }
    return;
  }
  // A slot may be written by other threads than before: each has waited for readers, and those for all threads that wrote it.
  const bool units = in_units(c, s);
  out.push_back({Copy{units ? "copy.async" : "copy.plain", s.tile->sym, use, s.load->tensor, s.load->index,
                      c.frame(at), s.load->present},
                 {}});
  if (!units) return arrive_copied(c, s, at, out);
  c.add_guard(s.load->tensor, true, 16);
  out.push_back({CopyCommit{}, {}});
  grouped.push_back(&s);
}

/// Waits for groups of copies, one for each of the tiles, and signals each; `later` groups were issued behind them.
void await_copied(const Context& c, const std::vector<const Staged*>& grouped, size_t later,
                  const Position& at, Ops& out) {
  for (size_t k = 0; k < grouped.size(); ++k) {
    out.push_back({CopyWait{int(grouped.size() - k - 1 + later)}, {}});
    arrive_copied(c, *grouped[k], at, out);
  }
}

/// Copies all of the tiles before any is waited for, so that their ways to memory overlap.
void load_tiles(Context& c, const std::vector<const Staged*>& tiles, const Position& at, Ops& out) {
  std::vector<const Staged*> grouped;
  for (const Staged* s : tiles) load_tile(c, *s, at, grouped, out);
  await_copied(c, grouped, 0, at, out);
}

/// Copies the tiles of the chunks of a segment. Groups of copies are waited for when those of the next chunk are under way too, where there are slots for both.
void load_chunks(Context& c, const Loop& loop, const SegmentVars& segment,
                 const std::vector<const Staged*>& tiles, Ops& out) {
  const Sym counter = c.axis(loop.axis).counter;
  MappedLoop ops{counter, segment.lo, segment.hi, {}};
  std::vector<const Staged*> grouped;
  const Position at = c.position(loop, segment, Expr(counter));
  for (const Staged* s : tiles) load_tile(c, *s, at, grouped, ops.body);
  const bool ahead =
      std::all_of(grouped.begin(), grouped.end(), [](const Staged* s) { return s->tile->slots > 2; });
  if (!ahead || grouped.empty()) {
    await_copied(c, grouped, 0, at, ops.body);
    out.push_back({ops, {}});
    return;
  }
  If behind{less(segment.lo, Expr(counter)), {}, {}};
  await_copied(c, grouped, grouped.size(), c.position(loop, segment, Expr(counter) - 1), behind.then);
  ops.body.push_back({behind, {}});
  out.push_back({ops, "signalled one chunk behind"});
  If last{less(segment.lo, segment.hi), {}, {}};
  await_copied(c, grouped, 0, c.position(loop, segment, segment.hi - 1), last.then);
  out.push_back({last, {}});
}

}  // namespace

void allocate(Context& c) {
  for (Staged& s : c.staged) allocate_staged(c, s);
  allocate_beside(c);
  for (Made& m : c.made) allocate_made(c, m);
  for (Product& p : c.products) {
    allocate_scratch(c, p);
    allocate_condition(c, p);
  }
  allocate_registers(c);
  check_registers(c);
}

void check_shared(const Context& c) {
  const int64_t needed = c.out.local_bytes();
  if (needed <= c.machine.shared_bytes) return;
  std::string parts;
  for (const Buffer& b : c.out.buffers)
    if (b.space == Space::Local && !b.shares)
      parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", b.sym.name(), b.slot_bytes() * b.slots);
  throw RoomError(Span{},
                  fmt::format("kernel {} needs {} bytes of shared memory of {} ({})", c.out.name, needed,
                              c.machine.shared_bytes, parts),
                  "use smaller chunks, fewer stages or smaller blocks");
}

Role loading_role(Context& c) {
  Role role;
  role.name = "load";
  role.threads = role.group = 128 - c.makers;
  Ops body;
  std::vector<const Staged*> kept;
  for (const Staged& s : c.staged)
    if (s.load && s.loops.empty()) kept.push_back(&s);
  load_tiles(c, kept, {}, body);
  c.loop_total.clear();
  for (const Loop* loop : c.loops) {
    const auto loads = [&](const Staged& s) {
      return s.load && std::find(s.loops.begin(), s.loops.end(), loop) != s.loops.end();
    };
    if (std::none_of(c.staged.begin(), c.staged.end(), loads)) continue;
    for (const SegmentVars& segment : c.segments(*loop, body)) {
      if (segment.empty) continue;
      std::vector<const Staged*> tiles;
      for (const Staged& s : c.staged)
        if (loads(s)) tiles.push_back(&s);
      load_chunks(c, *loop, segment, tiles, body);
    }
  }
  role.body = c.for_each_item(std::move(body));
  return role;
}

}  // namespace tilewright::hopper
