#include "tilewright/map/mapped.h"

#include <fmt/format.h>

#include <algorithm>

#include "tilewright/support/error.h"

namespace tilewright {
namespace {

constexpr int64_t signal_bytes = 16;  // of one ring slot: full and empty, 8 bytes each

int64_t align_up(int64_t n, int64_t alignment) { return (n + alignment - 1) / alignment * alignment; }

bool has_storage(const Buffer& b) { return b.space == Space::Local && !b.shares; }

/// Calls `visit(buffer, offset)` for each Local buffer that has bytes of its own; returns the end.
template <class F>
int64_t place_buffers(const MappedKernel& k, F visit) {
  std::vector<const Buffer*> order;
  for (const Buffer& b : k.buffers)
    if (has_storage(b)) order.push_back(&b);
  std::stable_sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->alignment > b->alignment; });
  int64_t end = 0;
  for (const Buffer* b : order) {
    end = align_up(end, b->alignment);
    visit(*b, end);
    end += b->slot_bytes() * b->slots;
  }
  return end;
}

}  // namespace

int64_t Buffer::slot_bytes() const {
  return align_up(layout.elements() * bytes(dtype), std::max<int64_t>(alignment, 1));
}

const Buffer& MappedKernel::buffer(Sym s) const {
  auto it = std::find_if(buffers.begin(), buffers.end(), [&](const Buffer& b) { return b.sym == s; });
  TW_CHECK(it != buffers.end(), fmt::format("kernel {} has no buffer {}", name, s ? s.name() : "(null)"));
  return *it;
}

int64_t MappedKernel::local_offset(Sym s) const {
  const Buffer* b = &buffer(s);
  TW_CHECK(b->space == Space::Local, fmt::format("buffer {} is not local", s.name()));
  for (size_t step = 0; b->shares; ++step) {
    TW_CHECK(step < buffers.size(), fmt::format("buffer {} shares its own bytes", s.name()));
    b = &buffer(b->shares);
  }
  int64_t found = -1;
  place_buffers(*this, [&](const Buffer& other, int64_t offset) {
    if (other.sym == b->sym) found = offset;
  });
  TW_CHECK(found >= 0, fmt::format("buffer {} has no bytes", s.name()));
  return found;
}

int64_t MappedKernel::signal_offset(int channel) const {
  TW_CHECK(channel >= 0 && channel < int(channels.size()),
           fmt::format("kernel {} has no channel {}", name, channel));
  int64_t offset = align_up(place_buffers(*this, [](const Buffer&, int64_t) {}), signal_bytes);
  for (int c = 0; c < channel; ++c) offset += channels[c].slots * signal_bytes;
  return offset;
}

int64_t MappedKernel::local_bytes() const {
  int64_t end = place_buffers(*this, [](const Buffer&, int64_t) {});
  if (channels.empty()) return end;
  return signal_offset(int(channels.size()) - 1) + channels.back().slots * signal_bytes;
}

int MappedKernel::threads() const {
  int n = 0;
  for (const Role& r : roles) n += r.threads;
  return n;
}

std::vector<int64_t> grid_counters(const MappedKernel& k, const std::vector<int64_t>& counts, int64_t section,
                                   int64_t number) {
  const size_t n = counts.size();
  std::vector<int64_t> counters(n);
  size_t cut = 0;
  while (cut < n && !(k.sectioned && k.grid[cut].index == k.sectioned)) ++cut;
  const auto take = [&](size_t axis, int64_t count) {
    counters[axis] = number % count;
    number /= count;
  };
  if (cut >= n) {
    for (size_t a = n; a-- > 0;) take(a, counts[a]);
  } else {
    TW_CHECK(cut + 1 < n && section > 0, fmt::format("kernel {} has no blocks to share a section", k.name));
    int64_t beside = 1;  // elements for each block of the section
    for (size_t a = cut + 1; a < n; ++a) beside *= counts[a];
    const int64_t whole = counts[cut] * beside;
    section = std::min(section, counts[cut]);
    int64_t outer = number / whole;
    const int64_t first = number % whole / (section * beside) * section;
    number = number % whole - first * beside;
    for (size_t a = n - 1; a-- > cut + 1;) take(a, counts[a]);
    take(cut, std::min(section, counts[cut] - first));
    counters[cut] += first;
    counters[n - 1] = number;
    number = outer;
    for (size_t a = cut; a-- > 0;) take(a, counts[a]);
  }
  if (k.heaviest_first && n > 0) counters.back() = counts.back() - 1 - counters.back();
  return counters;
}

int64_t item_number(int64_t ordinal, int64_t block, int64_t blocks) {
  return ordinal * blocks + (ordinal % 2 == 0 ? block : blocks - 1 - block);
}

Expr element_offset(const std::vector<Dim>& dims, const std::vector<Expr>& index,
                    const std::vector<Sym>& strides) {
  TW_CHECK(strides.size() == dims.size(), "one stride for each memory dimension");
  Expr offset;
  size_t piece = 0;
  for (size_t d = 0; d < dims.size(); ++d) {
    Expr position;  // Horner over the pieces, outermost first
    for (Sym axis : dims[d].pieces) {
      TW_CHECK(piece < index.size(), "one index for each piece");
      position = position ? position * Expr(axis.size()) + index[piece] : index[piece];
      ++piece;
    }
    if (!position) continue;
    Expr term = position * Expr(strides[d]);
    offset = offset ? offset + term : term;
  }
  TW_CHECK(piece == index.size(), "one index for each piece");
  return offset ? offset : Expr(0);
}

std::vector<ChunkTable> chunk_tables(const TileProgram& t) {
  std::vector<ChunkTable> tables;
  for (const TileKernel& k : t.kernels)
    tables.insert(tables.end(), k.chunk_tables.begin(), k.chunk_tables.end());
  return tables;
}

void fetch_chunks(const TileKernel& k, const Loop& loop, Ops& ops) {
  for (const ChunkTable& table : k.chunk_tables)
    for (size_t column = 0; column < table.bounds.size(); ++column) {
      const Sym bound = table.bounds[column];
      if (std::none_of(loop.segments.begin(), loop.segments.end(),
                       [&](const Segment& g) { return depends_on(g.lo, bound) || depends_on(g.hi, bound); }))
        continue;
      std::vector<Expr> index = table.index();
      index.back() = int64_t(column);
      ops.push_back({Fetch{bound, table.table, std::move(index)}, {}});
    }
}

std::vector<Dim> memory_dims(const Program& p, const MappedProgram& m, Sym tensor) {
  for (const Input& input : p.inputs)
    if (input.sym == tensor) return input.dims;
  for (const Output& output : p.outputs)
    if (output.sym == tensor) return output.dims;
  for (const Workspace& w : m.workspaces) {
    if (w.sym != tensor) continue;
    std::vector<Dim> dims;
    for (Sym axis : w.axes) dims.push_back({{axis}});
    return dims;
  }
  TW_CHECK(false, fmt::format("{} is no array of the program", tensor ? tensor.name() : "(null)"));
}

}  // namespace tilewright
