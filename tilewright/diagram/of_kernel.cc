// diagram_of(TileKernel): the statements in their order, the arrays that tiles are, what is known when all boxes stand.
#include <fmt/format.h>

#include <algorithm>

#include "tilewright/diagram/arrange.h"
#include "tilewright/diagram/kernel_notes.h"
#include "tilewright/diagram/kernel_picture.h"

namespace tilewright {

using Kind = DiagramBox::Kind;

KernelPicture::KernelPicture(const Program& p, const Derivation& derivation, const TileProgram& t,
                             size_t kernel, const KernelDrawing& drawing)
    : p_(p),
      derivation_(derivation),
      t_(t),
      k_(t.kernels.at(kernel)),
      last_(kernel + 1 == t.kernels.size()),
      drawing_(drawing),
      text_(k_),
      lifetime_(k_),
      names_(p) {}

Diagram KernelPicture::run() {
  d_.title = drawing_.title.empty() ? k_.name : drawing_.title;
  body(k_.body);
  carried();
  order_wires(d_);
  assign_columns(d_);
  loops();
  table();
  d_.notes = drawing_.notes;
  for (std::string& note : kernel_notes(p_, derivation_, t_, k_, cut_by_mask_))
    d_.notes.push_back(std::move(note));
  return std::move(d_);
}

std::string KernelPicture::size_text(Sym axis) const {
  for (const Axis& a : t_.axes)
    if (a.index == axis && a.baked()) return to_string(a.size);
  return "";
}

DiagramWire KernelPicture::wire(Sym axis, bool tile) const {
  DiagramWire w{axis, axis.name(), "", size_text(axis)};
  if (!tile || !has_axis(k_, axis)) return w;
  const KernelAxis& a = k_.axis(axis);
  switch (a.kind) {
    case KernelAxis::Kind::Group:
    case KernelAxis::Kind::Part:
      w.size = a.piece == a.block ? fmt::format("{}", a.block) : fmt::format("{}/{}", a.block, a.piece);
      w.name = "g";
      w.sub = axis.name();
      break;
    case KernelAxis::Kind::Stream:
      w.size = fmt::format("{}", a.block);
      w.name = "s";
      w.sub = axis.name();
      break;
    case KernelAxis::Kind::Resident: w.size = fmt::format("<= {}", a.block); break;
    case KernelAxis::Kind::Whole: break;
  }
  return w;
}

int KernelPicture::add_array(DiagramArray a, const std::vector<Sym>& axes, bool tile) {
  for (Sym s : axes) a.wires.push_back(wire(s, tile));
  if (axes.empty()) a.wires.push_back({});
  d_.arrays.push_back(std::move(a));
  return static_cast<int>(d_.arrays.size()) - 1;
}

int KernelPicture::tile_array(Sym sym) {
  const Tile& t = k_.tile(sym);
  DiagramArray a;
  a.name = sym.name();
  const bool first = !current_.count(sym);
  a.label = sym.name();
  if (first) a.label += fmt::format(" : {}", name(t.dtype));
  a.title = fmt::format("{}[{}] : {} in {}", sym.name(), axis_names(t.axes), name(t.dtype), name(t.level));
  a.shade = t.level == Level::Memory   ? Shade::Memory
            : t.level == Level::Shared ? Shade::Shared
                                       : Shade::Registers;
  a.state = t.use == Tile::Use::State;
  return current_[sym] = add_array(a, t.axes, true);
}

int KernelPicture::tile(Sym sym) const {
  const auto it = current_.find(sym);
  TW_CHECK(it != current_.end(), "a tile is drawn before it is written: " + sym.name());
  return it->second;
}

std::vector<int> KernelPicture::tiles(const std::vector<Sym>& symbols) const {
  std::vector<int> arrays;
  for (Sym s : symbols) arrays.push_back(tile(s));
  return arrays;
}

void KernelPicture::add_box(DiagramBox b, const Stmt* s) {
  b.stage = stage_;
  if (s && !s->comment.empty()) b.title += (b.title.empty() ? "" : "\n") + s->comment;
  for (int a : b.outputs) d_.arrays[static_cast<size_t>(a)].from = static_cast<int>(d_.boxes.size());
  if (s) figures(*s);
  // Absence passes on to what is made of absent elements.
  for (int out : b.outputs) {
    const std::vector<Sym> axes = axes_of(out);
    for (int in : b.inputs)
      if (const auto it = masks_.find(in); it != masks_.end())
        for (const Applied& m : std::vector<Applied>(it->second))
          if (std::all_of(m.axes.begin(), m.axes.end(), [&](Sym a) { return holds(axes, a); }))
            masks_[out].push_back(m);
  }
  d_.boxes.push_back(std::move(b));
}

void KernelPicture::figures(const Stmt& s) {
  Peak& here = live_[static_cast<int>(d_.boxes.size())];
  const auto look = [&](const Stmt& x) { here.raise(live_during(k_, lifetime_, x)); };
  look(s);
  if (const Body* inner = inner_body(s)) for_each_stmt(*inner, look);
}

void KernelPicture::count_moved(Sym tile, DType dtype) {
  int64_t n = bytes(dtype);
  for (Sym a : k_.tile(tile).axes) n *= k_.axis(a).block;
  moved_[static_cast<int>(d_.boxes.size())] = n;
}

void KernelPicture::body(const Body& stmts, Sym along) {
  for (size_t k = 0; k < stmts.size();) {
    size_t end = k;
    while (end < stmts.size() && joins_step(stmts[end], along)) ++end;
    if (end - k > 1 || (end > k && std::get_if<When>(&stmts[k].node))) {
      step(
          {stmts.begin() + static_cast<std::ptrdiff_t>(k), stmts.begin() + static_cast<std::ptrdiff_t>(end)});
      k = end;
      continue;
    }
    const Stmt& s = stmts[k++];
    if (k < stmts.size() && serves_next(s, stmts[k])) {
      const Map& x = std::get<Map>(s.node);
      served_[x.tile] = &x;
      continue;
    }
    std::visit([&](const auto& x) { statement(s, x); }, s.node);
    served_.clear();
  }
}

bool KernelPicture::starts_state(const Stmt& s) const {
  const Map* x = std::get_if<Map>(&s.node);
  return x && k_.tile(x->tile).use == Tile::Use::State && tiles_read(k_, x->value).empty();
}

bool KernelPicture::joins_step(const Stmt& s, Sym along) const {
  if (std::get_if<When>(&s.node)) return true;
  if (!std::get_if<Map>(&s.node) && !std::get_if<Reduce>(&s.node)) return false;
  if (const Reduce* x = std::get_if<Reduce>(&s.node); x && open_mask(*x).condition) return false;
  return !starts_state(s) && !holds(k_.tile(written(s)).axes, along);
}

bool KernelPicture::serves_next(const Stmt& s, const Stmt& next) const {
  const Map* x = std::get_if<Map>(&s.node);
  if (!x || x->masked || starts_state(s)) return false;
  if (!std::get_if<Map>(&next.node) && !std::get_if<Reduce>(&next.node)) return false;
  const std::vector<Sym> read = reads(k_, next);
  return holds(read, x->tile) && !holds(tiles_read(k_, x->value), x->tile) &&
         !lifetime_.after(next).count(x->tile) && k_.tile(x->tile).axes.size() < domain(k_, next).size();
}

void KernelPicture::carried() {
  const auto readers = readers_of(d_);
  const size_t n = d_.arrays.size();
  for (size_t a = 0; a < n; ++a) {
    if (!readers[a].empty() || d_.boxes[static_cast<size_t>(d_.arrays[a].from)].kind == Kind::Source)
      continue;
    DiagramBox sink;
    sink.kind = Kind::Sink;
    sink.lines = {d_.arrays[a].name, d_.arrays[a].state ? "to the next chunk" : ""};
    sink.title = d_.arrays[a].title;
    sink.inputs = {static_cast<int>(a)};
    sink.stage = d_.boxes[static_cast<size_t>(d_.arrays[a].from)].stage;
    d_.boxes.push_back(sink);
  }
}

void KernelPicture::loops() {
  for (const Frame& f : frames_) {
    DiagramLoop loop{1 << 30, -1, f.label};
    for (size_t b = f.begin; b < f.end; ++b) {
      if (d_.boxes[b].kind == Kind::Source) continue;
      loop.first = std::min(loop.first, d_.boxes[b].column);
      loop.last = std::max(loop.last, d_.boxes[b].column);
    }
    if (loop.last >= 0) d_.loops.push_back(loop);
  }
}

void KernelPicture::table() {
  d_.table.rows = {"H, a block", "M shared", "M registers"};
  d_.table.of_column.assign(static_cast<size_t>(d_.columns()), std::vector<std::string>(3));
  std::vector<Peak> peaks(d_.table.of_column.size());
  std::vector<int64_t> moved(d_.table.of_column.size(), 0);
  for (size_t b = 0; b < d_.boxes.size(); ++b) {
    const auto at = static_cast<size_t>(d_.boxes[b].column);
    auto& column = d_.table.of_column[at];
    if (const auto it = moved_.find(static_cast<int>(b)); it != moved_.end())
      column[0] = bytes_text(moved[at] += it->second);
    const auto it = live_.find(static_cast<int>(b));
    if (it == live_.end()) continue;
    peaks[at].raise(it->second);
    column[1] = bytes_text(peaks[at].shared);
    column[2] = bytes_text(peaks[at].registers);
  }
  for (DiagramBox& box : d_.boxes) box.figures = d_.table.of_column[static_cast<size_t>(box.column)];
  if (last_) d_.table.totals = cost_lines(p_, t_, drawing_.sizes);
}

Diagram diagram_of(const Program& elaborated, const Derivation& d, const TileProgram& t, size_t kernel,
                   const KernelDrawing& drawing) {
  return KernelPicture(elaborated, d, t, kernel, drawing).run();
}

}  // namespace tilewright
