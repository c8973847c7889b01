// Boxes of one statement, or of several.
#include <fmt/format.h>

#include <algorithm>

#include "tilewright/diagram/arrange.h"
#include "tilewright/diagram/kernel_picture.h"

namespace tilewright {

using Kind = DiagramBox::Kind;

std::vector<Sym> KernelPicture::with_served(const std::vector<Sym>& read,
                                            std::vector<std::string>& more) const {
  std::vector<Sym> all;
  for (Sym t : read) {
    const auto it = served_.find(t);
    if (it == served_.end()) {
      all = axes_union(all, {t});
      continue;
    }
    for (const std::string& l : broken(fmt::format("{} = {}", t.name(), text_.of(it->second->value))))
      more.push_back(l);
    all = axes_union(all, tiles_read(k_, it->second->value));
  }
  return all;
}

void KernelPicture::statement(const Stmt& s, const Load& x) {
  DiagramBox source;
  source.kind = Kind::Source;
  const Input* in = p_.input(x.tensor);
  std::vector<Sym> axes;
  DType dtype = DType::f32;
  if (in) {
    axes = in->axes();
    dtype = in->dtype;
  } else {
    for (const Workspace& w : t_.workspaces)
      if (w.sym == x.tensor) axes = w.axes, dtype = w.dtype;
  }
  DiagramArray a;
  a.name = x.tensor.name();
  a.title = in ? declaration(p_, x.tensor) : "workspace " + x.tensor.name();
  const int array = add_array(a, axes, false);
  source.lines = {x.tensor.name(), name(dtype)};
  source.title = a.title;
  source.outputs = {array};
  add_box(source);

  DiagramBox b;
  b.kind = Kind::Load;
  b.inputs = {array};
  b.lines = {"load"};
  std::string index;
  for (size_t k = 0; k < x.index.size(); ++k) {
    index += (k ? ", " : "") + text_.of(x.index[k]);
    if (k < axes.size() && x.index[k] != Expr(axes[k])) {
      b.lines.push_back(fmt::format("{} = {}", axes[k].name(), text_.of(x.index[k])));
      for (int t : tiles(tiles_read(k_, x.index[k])))
        if (std::find(b.inputs.begin(), b.inputs.end(), t) == b.inputs.end()) b.inputs.push_back(t);
    }
  }
  if (x.present) {
    for (const std::string& l : broken("where " + text_.of(x.present))) b.lines.push_back(l);
    for (int t : tiles(tiles_read(k_, x.present)))
      if (std::find(b.inputs.begin(), b.inputs.end(), t) == b.inputs.end()) b.inputs.push_back(t);
  }
  const Tile& t = k_.tile(x.tile);
  b.title = fmt::format("{} = load {}[{}] to {}{}", x.tile.name(), x.tensor.name(), index, name(t.level),
                        t.slots > 1 ? fmt::format(", ring of {}", t.slots) : "");
  b.outputs = {tile_array(x.tile)};
  count_moved(x.tile, dtype);
  add_box(b, &s);
}

void KernelPicture::statement(const Stmt& s, const Store& x) {
  DiagramBox b;
  b.kind = Kind::Store;
  b.inputs = {tile(x.tile)};
  b.lines = {"store"};
  std::string index;
  for (size_t k = 0; k < x.index.size(); ++k) index += (k ? ", " : "") + text_.of(x.index[k]);
  b.title = fmt::format("store {}[{}] = {}", x.tensor.name(), index, x.tile.name());
  std::vector<Sym> axes;
  DType dtype = DType::f32;
  for (const Output& o : p_.outputs)
    if (o.sym == x.tensor) axes = o.axes(), dtype = o.dtype;
  for (const Workspace& w : t_.workspaces)
    if (w.sym == x.tensor) axes = w.axes, dtype = w.dtype;
  DiagramArray a;
  a.name = x.tensor.name();
  a.title = fmt::format("{} : {} in memory", x.tensor.name(), name(dtype));
  b.outputs = {add_array(a, axes, false)};
  count_moved(x.tile, dtype);
  add_box(b, &s);
  DiagramBox sink;
  sink.kind = Kind::Sink;
  sink.lines = {x.tensor.name(), name(dtype)};
  sink.title = a.title;
  sink.inputs = b.outputs;
  add_box(sink);
}

void KernelPicture::statement(const Stmt& s, const Map& x) {
  const Tile& t = k_.tile(x.tile);
  DiagramBox b;
  const std::vector<Sym> read = axes_union(tiles_read(k_, x.value), tiles_read(k_, x.masked));
  b.title = text_.line(s);
  if (read.empty() && t.use == Tile::Use::State) {
    b.kind = Kind::Source;
    b.lines = {x.tile.name(), "from " + text_.of(x.value)};
    b.outputs = {tile_array(x.tile)};
    d_.arrays.back().label.clear();
    add_box(b);
    return;
  }
  const MaskOf mask_here = mask_of(x.value, x.masked);
  if (mask_here.condition && x.value.is(Op::Read) && x.value->sym == x.tile) {
    const int before = tile(x.tile);
    mask(before, mask_here.condition, mask_here.otherwise, domain(k_, s), tile_array(x.tile), &s);
    return;
  }
  b.kind = Kind::Function;
  std::string shown = text_.of(x.value);
  if (x.value.is(Op::Read) && has_tile(k_, x.value->sym)) shown = fmt::format("{}({})", name(t.dtype), shown);
  b.lines = broken(shown);
  if (mask_here.condition) {
    b.inputs = by_width(tiles(with_served(tiles_read(k_, x.value), b.lines)));
    const int before = tile_array(x.tile);
    b.outputs = {before};
    figures(s);
    add_box(b);
    mask(before, mask_here.condition, mask_here.otherwise, domain(k_, s), tile_array(x.tile), &s);
    return;
  }
  if (x.masked && x.masked != x.value)
    for (const std::string& l : broken("masked: " + text_.of(x.masked))) b.lines.push_back(l);
  b.inputs = by_width(tiles(with_served(read, b.lines)));
  b.outputs = {tile_array(x.tile)};
  add_box(b, &s);
}

// ---- masks

std::vector<Sym> KernelPicture::axes_of(int array) const {
  std::vector<Sym> axes;
  for (const DiagramWire& w : d_.arrays[static_cast<size_t>(array)].wires)
    if (w.axis) axes.push_back(w.axis);
  return axes;
}

std::vector<Sym> KernelPicture::axes_of_condition(Expr condition, const std::vector<Sym>& domain) const {
  std::vector<Sym> all = axes_in(condition), axes;
  for (Sym t : tiles_read(k_, condition)) all = axes_union(all, k_.tile(t).axes);
  for (Sym s : all)
    if (holds(domain, s)) axes.push_back(s);
  return axes;
}

bool KernelPicture::is_masked(int array, Expr condition) const {
  const auto it = masks_.find(array);
  return it != masks_.end() && std::any_of(it->second.begin(), it->second.end(),
                                           [&](const Applied& m) { return m.condition == condition; });
}

MaskOf KernelPicture::open_mask(const Reduce& x) const {
  const MaskOf m = mask_of(x.value, x.masked);
  const std::vector<Sym> read = tiles_read(k_, x.value);
  if (!m.condition || read.empty()) return {};
  for (Sym t : read)
    if (const auto it = current_.find(t); it != current_.end() && is_masked(it->second, m.condition))
      return {};
  return m;
}

bool KernelPicture::has_open_mask(const Dot& x) const {
  return x.present && !is_masked(tile(x.a), x.present) && !is_masked(tile(x.b), x.present);
}

int KernelPicture::mask(int array, Expr condition, Expr otherwise, const std::vector<Sym>& domain, int result,
                        const Stmt* s) {
  DiagramBox b;
  b.kind = Kind::Mask;
  b.lines = broken(text_.of(condition), 20);
  if (otherwise) {
    const auto other = otherwise.number();
    if (!other || *other != -__builtin_inf()) b.lines.push_back("else " + text_.of(otherwise));
  }
  b.title = "in chunks that the mask cuts: where " + text_.of(condition);
  b.inputs = {array};
  for (int t : tiles(with_served(tiles_read(k_, condition), b.lines)))
    if (t != array && d_.arrays[static_cast<size_t>(t)].name != d_.arrays[static_cast<size_t>(array)].name)
      b.inputs.push_back(t);
  b.inputs = by_width(b.inputs);
  const std::vector<Sym> varies = axes_of_condition(condition, domain);
  if (result < 0) {
    const DiagramArray& from = d_.arrays[static_cast<size_t>(array)];
    DiagramArray a;
    a.name = from.name;
    a.spare = from.spare;
    a.label = from.name;
    a.title = from.title;
    a.shade = from.shade;
    result = add_array(a, axes_union(axes_of(array), varies), true);
  }
  b.outputs = {result};
  if (s) {
    b.title = text_.line(*s) + "\n" + b.title;
    figures(*s);
  }
  add_box(b);
  masks_[result].push_back({condition, varies});
  return result;
}

std::vector<int> KernelPicture::by_width(std::vector<int> arrays) const {
  std::stable_sort(arrays.begin(), arrays.end(), [&](int a, int b) {
    return d_.arrays[static_cast<size_t>(a)].wires.size() > d_.arrays[static_cast<size_t>(b)].wires.size();
  });
  return arrays;
}

void KernelPicture::statement(const Stmt& s, const Dot& x) {
  DiagramBox b;
  b.kind = Kind::Contract;
  b.inputs = {tile(x.a), tile(x.b)};
  if (has_open_mask(x)) {
    // Of the factors the one that varies with the condition is masked.
    const std::vector<Sym> varies = axes_of_condition(x.present, domain(k_, s));
    const auto lacks = [&](int array) {
      const std::vector<Sym> own = axes_of(array);
      return std::count_if(varies.begin(), varies.end(), [&](Sym v) { return !holds(own, v); });
    };
    int& factor = b.inputs[lacks(b.inputs[0]) <= lacks(b.inputs[1]) ? 0 : 1];
    factor = mask(factor, x.present, {}, domain(k_, s), -1, &s);
  }
  if (x.accumulate) {
    b.inputs.push_back(tile(x.tile));
    b.lines = {"+ " + x.tile.name()};
  }
  b.enters = x.axes;
  b.title = text_.line(s);
  if (holds(drawing_.on_matrix_unit, x.tile)) {
    b.shade = Shade::Matrix;
    b.title += "\non the matrix unit";
  }
  b.outputs = {tile_array(x.tile)};
  add_box(b, &s);
}

void KernelPicture::statement(const Stmt& s, const Reduce& x) {
  DiagramBox b;
  b.kind = Kind::Reduce;
  if (const MaskOf m = open_mask(x); m.condition) {
    const std::vector<Sym> over = domain(k_, s);
    const bool plain = x.value.is(Op::Read) && has_tile(k_, x.value->sym);
    int array = plain ? tile(x.value->sym) : -1;
    if (!plain) {
      DiagramBox f;
      f.kind = Kind::Function;
      f.lines = broken(text_.of(x.value));
      f.title = text_.of(x.value);
      f.inputs = by_width(tiles(with_served(tiles_read(k_, x.value), f.lines)));
      std::vector<Sym> axes;
      for (int a : f.inputs) axes = axes_union(axes, axes_of(a));
      DiagramArray made;
      made.spare = names_.fresh();
      made.shade = Shade::Registers;
      array = add_array(made, axes_union(axes, axes_of_condition(x.value, over)), true);
      f.outputs = {array};
      figures(s);
      add_box(f);
    }
    const bool absent = m.otherwise.is_constant(0) && x.reducer == Reducer::Sum;
    b.inputs = {mask(array, m.condition, absent ? Expr() : m.otherwise, over, -1, &s)};
    b.lines = broken(text_.of(x, plain ? "" : "•"));
  } else {
    std::vector<Sym> read = tiles_read(k_, x.value);
    b.lines = broken(text_.of(x));
    const MaskOf own = mask_of(x.value, x.masked);
    if (x.masked && x.masked != x.value && (!own.condition || read.empty())) {
      read = axes_union(read, tiles_read(k_, x.masked));
      const std::string masked =
          own.condition ? "where " + text_.of(own.condition) : "masked: " + text_.of(x.masked);
      for (const std::string& l : broken(masked)) b.lines.push_back(l);
    }
    b.inputs = by_width(tiles(with_served(read, b.lines)));
  }
  if (x.accumulate) {
    const int own = tile(x.tile);
    if (std::find(b.inputs.begin(), b.inputs.end(), own) == b.inputs.end()) b.inputs.push_back(own);
  }
  for (int a : b.inputs)
    for (const DiagramWire& w : d_.arrays[static_cast<size_t>(a)].wires)
      if (w.axis && holds(x.axes, w.axis) && !holds(b.enters, w.axis)) b.enters.push_back(w.axis);
  b.title = text_.line(s);
  b.outputs = {tile_array(x.tile)};
  add_box(b, &s);
}

void KernelPicture::statement(const Stmt& s, const Rank& x) {
  DiagramBox b;
  b.kind = Kind::Step;
  std::vector<Sym> read = {x.keys, x.indices};
  for (bool masked : {false, true})
    for (Expr e : values_in(s, masked)) read = axes_union(read, tiles_read(k_, e));
  b.inputs = tiles(read);
  b.lines = {fmt::format("first {} along {} of", x.rank.name(), x.axis.name()),
             fmt::format("these and ({}, {})", text_.of(x.value), text_.of(x.at))};
  if (x.present) b.lines.push_back("where " + text_.of(x.present));
  b.title = text_.line(s);
  b.outputs = {tile_array(x.keys), tile_array(x.indices)};
  add_box(b, &s);
}

void KernelPicture::statement(const Stmt& s, const When&) { step(std::span(&s, 1)); }

void KernelPicture::step(std::span<const Stmt> run) {
  DiagramBox b;
  b.kind = Kind::Step;
  std::vector<Sym> read, wrote;
  const auto look = [&](const Stmt& s) {
    for (Sym t : reads(k_, s))
      if (!holds(wrote, t)) read = axes_union(read, {t});
    wrote = axes_union(wrote, all_written(s));
  };
  for (const Stmt& s : run) {
    look(s);
    if (const Body* inner = inner_body(s)) for_each_stmt(*inner, look);
    text_.add_lines(s, "", b.lines);
    if (const When* w = std::get_if<When>(&s.node); w && w->slow_path) b.title = "the inner part runs seldom";
  }
  std::vector<Sym> results, inputs;
  for (Sym t : wrote)
    if (lifetime_.after(run.back()).count(t)) results.push_back(t);
  // Results that were there before come in on the height at which they leave.
  for (Sym t : results)
    if (current_.count(t)) inputs.push_back(t);
  for (Sym t : read)
    if (current_.count(t)) inputs = axes_union(inputs, {t});
  b.inputs = tiles(inputs);
  for (Sym t : results) b.outputs.push_back(tile_array(t));
  for (const Stmt& s : run) figures(s);
  add_box(b);
}

void KernelPicture::statement(const Stmt&, const Loop& x) {
  const KernelAxis& a = k_.axis(x.axis);
  ++stage_;
  const size_t first = d_.boxes.size();
  body(x.body, x.axis);
  Frame f{stage_, first, d_.boxes.size(), {}};
  f.label = a.kind == KernelAxis::Kind::Stream ? fmt::format("{} in chunks of {}", x.axis.name(), a.block)
                                               : fmt::format("{} whole, up to {}", x.axis.name(), a.block);
  bool tested = false;
  for_each_stmt(x.body, [&](const Stmt& inner) {
    const Map* map = std::get_if<Map>(&inner.node);
    const Reduce* reduce = std::get_if<Reduce>(&inner.node);
    const Dot* dot = std::get_if<Dot>(&inner.node);
    tested = tested || (map && map->masked) || (reduce && reduce->masked) || (dot && dot->present);
  });
  const auto masked =
      std::count_if(x.segments.begin(), x.segments.end(), [](const Segment& g) { return g.masked; });
  if (tested && a.kind == KernelAxis::Kind::Stream && masked > 0 &&
      masked < static_cast<std::ptrdiff_t>(x.segments.size()))
    cut_by_mask_ = true;
  frames_.push_back(f);
  ++stage_;
}

}  // namespace tilewright
