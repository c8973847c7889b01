// diagram_of(TileKernel): statements to boxes. A tile that is written again is a new array of the same name.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "tilewright/derive/json.h"
#include "tilewright/diagram/arrange.h"
#include "tilewright/diagram/text.h"
#include "tilewright/expr/simplify.h"
#include "tilewright/model/cost.h"
#include "tilewright/tile/lifetime.h"
#include "tilewright/tile/statements.h"

namespace tilewright {
namespace {

using Kind = DiagramBox::Kind;

class KernelPicture {
 public:
  KernelPicture(const Program& p, const Derivation& derivation, const TileProgram& t, size_t kernel,
                const KernelDrawing& drawing)
      : p_(p),
        derivation_(derivation),
        t_(t),
        k_(t.kernels.at(kernel)),
        last_(kernel + 1 == t.kernels.size()),
        drawing_(drawing),
        lifetime_(k_) {}

  Diagram run() {
    d_.title = drawing_.title.empty() ? k_.name : drawing_.title;
    body(k_.body);
    carried();
    order_wires(d_);
    assign_columns(d_);
    loops();
    table();
    notes();
    return std::move(d_);
  }

 private:
  // ---- arrays and boxes

  std::string size_text(Sym axis) const {
    for (const Axis& a : t_.axes)
      if (a.index == axis && a.baked()) return to_string(a.size);
    return "";
  }

  DiagramWire wire(Sym axis, bool tile) const {
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

  int add_array(DiagramArray a, const std::vector<Sym>& axes, bool tile) {
    for (Sym s : axes) a.wires.push_back(wire(s, tile));
    if (axes.empty()) a.wires.push_back({});
    d_.arrays.push_back(std::move(a));
    return static_cast<int>(d_.arrays.size()) - 1;
  }

  /// A new version of a tile.
  int tile_array(Sym sym) {
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

  int tile(Sym sym) {
    const auto it = current_.find(sym);
    TW_CHECK(it != current_.end(), "a tile is drawn before it is written: " + sym.name());
    return it->second;
  }

  std::vector<int> tiles(const std::vector<Sym>& symbols) {
    std::vector<int> arrays;
    for (Sym s : symbols) arrays.push_back(tile(s));
    return arrays;
  }

  /// `s`: the statement that the box is; its figures are taken.
  void add_box(DiagramBox b, const Stmt* s = nullptr) {
    b.stage = stage_;
    if (s && !s->comment.empty()) b.title += (b.title.empty() ? "" : "\n") + s->comment;
    for (int a : b.outputs) d_.arrays[static_cast<size_t>(a)].from = static_cast<int>(d_.boxes.size());
    if (s) figures(*s);
    d_.boxes.push_back(std::move(b));
  }

  /// Bytes of the tiles that are live while the statement runs, for the box that is added next.
  void figures(const Stmt& s) {
    Peak& here = live_[static_cast<int>(d_.boxes.size())];
    const auto look = [&](const Stmt& x) {
      Peak now;
      for (Sym sym : lifetime_.during(x)) {
        const Tile& t = k_.tile(sym);
        (t.level == Level::Shared ? now.shared : now.registers) += full_bytes(k_, t);
      }
      here.shared = std::max(here.shared, now.shared);
      here.registers = std::max(here.registers, now.registers);
    };
    look(s);
    if (const Body* inner = inner_body(s)) for_each_stmt(*inner, look);
  }

  // ---- texts

  /// Reads of tiles at their own axes are their names.
  std::string text(Expr e) const {
    std::vector<std::pair<Expr, std::string>> shown;
    find_reads(e, shown);
    return short_numbers(with_names(e, shown));
  }

  /// Long decimals to six digits.
  static std::string short_numbers(const std::string& text) {
    std::string out;
    for (size_t k = 0; k < text.size();) {
      size_t end = k;
      const bool inside =
          k > 0 && (std::isalnum(static_cast<unsigned char>(text[k - 1])) || text[k - 1] == '_');
      while (end < text.size() && !inside &&
             (std::isdigit(static_cast<unsigned char>(text[end])) || text[end] == '.'))
        ++end;
      const std::string number = text.substr(k, end - k);
      if (number.size() > 9 && number.find('.') != std::string::npos)
        out += fmt::format("{:.6g}", std::stod(number));
      else if (end > k)
        out += number;
      else
        out += text[end++];
      k = end;
    }
    return out;
  }

  void find_reads(Expr e, std::vector<std::pair<Expr, std::string>>& shown) const {
    if (e.is(Op::Read) && has_tile(k_, e->sym)) {
      const std::vector<Sym>& axes = k_.tile(e->sym).axes;
      bool own = axes.size() == e.args().size();
      for (size_t k = 0; own && k < axes.size(); ++k) own = e.arg(k) == Expr(axes[k]);
      if (own) {
        shown.emplace_back(e, e->sym.name());
        return;
      }
    }
    for (Expr a : e.args()) find_reads(a, shown);
  }

  static std::vector<std::string> lines(const std::string& text, size_t most = 24) {
    return broken(text, most);
  }

  /// One line for a statement inside a step.
  std::string line(const Stmt& s) const {
    if (auto* x = std::get_if<Load>(&s.node))
      return fmt::format("{} = load {}", x->tile.name(), x->tensor.name());
    if (auto* x = std::get_if<Store>(&s.node))
      return fmt::format("store {} = {}", x->tensor.name(), x->tile.name());
    if (auto* x = std::get_if<Map>(&s.node)) return fmt::format("{} = {}", x->tile.name(), text(x->value));
    if (auto* x = std::get_if<Dot>(&s.node))
      return fmt::format("{} {} sum[{}]({} * {})", x->tile.name(), x->accumulate ? "+=" : "=",
                         axis_names(x->axes), x->a.name(), x->b.name());
    if (auto* x = std::get_if<Reduce>(&s.node))
      return fmt::format("{} = {}", x->tile.name(), reduce_text(*x));
    if (auto* x = std::get_if<Rank>(&s.node))
      return fmt::format("{}, {}: first {} of {}", x->keys.name(), x->indices.name(), x->rank.name(),
                         x->axis.name());
    if (auto* x = std::get_if<When>(&s.node)) return fmt::format("when any {}", text(x->condition));
    return fmt::format("for each chunk of {}", std::get<Loop>(s.node).axis.name());
  }

  std::string reduce_text(const Reduce& x) const {
    const std::string value = fmt::format("{}[{}]({})", name(x.reducer), axis_names(x.axes), text(x.value));
    if (!x.accumulate) return value;
    return x.reducer == Reducer::Sum ? fmt::format("{} + {}", x.tile.name(), value)
                                     : fmt::format("{}({}, {})", name(x.reducer), x.tile.name(), value);
  }

  // ---- statements

  /// `along`: the axis of the loop that holds the statements, or null. Neighbouring statements whose results do not run along it
  /// are one step: what they do to a state is read as text.
  void body(const Body& stmts, Sym along = {}) {
    for (size_t k = 0; k < stmts.size();) {
      size_t end = k;
      while (end < stmts.size() && joins_step(stmts[end], along)) ++end;
      if (end - k > 1 || (end > k && std::get_if<When>(&stmts[k].node))) {
        step({stmts.begin() + static_cast<std::ptrdiff_t>(k),
              stmts.begin() + static_cast<std::ptrdiff_t>(end)});
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

  bool starts_state(const Stmt& s) const {
    const Map* x = std::get_if<Map>(&s.node);
    return x && k_.tile(x->tile).use == Tile::Use::State && tiles_read(k_, x->value).empty();
  }

  bool joins_step(const Stmt& s, Sym along) const {
    if (std::get_if<When>(&s.node)) return true;
    if (!std::get_if<Map>(&s.node) && !std::get_if<Reduce>(&s.node)) return false;
    return !starts_state(s) && !holds(k_.tile(written(s)).axes, along);
  }

  /// A map that the next statement alone reads, one of fewer axes: it is written out in that statement's box.
  bool serves_next(const Stmt& s, const Stmt& next) const {
    const Map* x = std::get_if<Map>(&s.node);
    if (!x || x->masked || starts_state(s)) return false;
    if (!std::get_if<Map>(&next.node) && !std::get_if<Reduce>(&next.node)) return false;
    const std::vector<Sym> read = reads(k_, next);
    return holds(read, x->tile) && !holds(tiles_read(k_, x->value), x->tile) &&
           !lifetime_.after(next).count(x->tile) && k_.tile(x->tile).axes.size() < domain(k_, next).size();
  }

  /// What a statement reads, with what serves it looked through; its lines receive what that is.
  std::vector<Sym> with_served(const std::vector<Sym>& read, std::vector<std::string>& more) const {
    std::vector<Sym> all;
    for (Sym t : read) {
      const auto it = served_.find(t);
      if (it == served_.end()) {
        all = axes_union(all, {t});
        continue;
      }
      for (const std::string& l : lines(fmt::format("{} = {}", t.name(), text(it->second->value))))
        more.push_back(l);
      all = axes_union(all, tiles_read(k_, it->second->value));
    }
    return all;
  }

  void statement(const Stmt& s, const Load& x) {
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
      index += (k ? ", " : "") + text(x.index[k]);
      if (k < axes.size() && x.index[k] != Expr(axes[k])) {
        b.lines.push_back(fmt::format("{} = {}", axes[k].name(), text(x.index[k])));
        for (int t : tiles(tiles_read(k_, x.index[k])))
          if (std::find(b.inputs.begin(), b.inputs.end(), t) == b.inputs.end()) b.inputs.push_back(t);
      }
    }
    if (x.present) {
      for (const std::string& l : lines("where " + text(x.present))) b.lines.push_back(l);
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

  void statement(const Stmt& s, const Store& x) {
    DiagramBox b;
    b.kind = Kind::Store;
    b.inputs = {tile(x.tile)};
    b.lines = {"store"};
    std::string index;
    for (size_t k = 0; k < x.index.size(); ++k) index += (k ? ", " : "") + text(x.index[k]);
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

  /// Bytes of a tile that the box which is added next moves to or from memory.
  void count_moved(Sym tile, DType dtype) {
    int64_t n = bytes(dtype);
    for (Sym a : k_.tile(tile).axes) n *= k_.axis(a).block;
    moved_[static_cast<int>(d_.boxes.size())] = n;
  }

  void statement(const Stmt& s, const Map& x) {
    const Tile& t = k_.tile(x.tile);
    DiagramBox b;
    const std::vector<Sym> read = axes_union(tiles_read(k_, x.value), tiles_read(k_, x.masked));
    b.title = line(s);
    if (read.empty() && t.use == Tile::Use::State) {
      b.kind = Kind::Source;
      b.lines = {x.tile.name(), "from " + text(x.value)};
      b.outputs = {tile_array(x.tile)};
      d_.arrays.back().label.clear();
      add_box(b);
      return;
    }
    const bool keeps = x.masked && x.value.is(Op::Read) && x.value->sym == x.tile &&
                       x.masked.is(Op::Select) && x.masked.arg(1) == x.value;
    if (keeps) {
      b.kind = Kind::Mask;
      b.lines = lines(text(x.masked.arg(0)), 20);
      const auto other = x.masked.arg(2).number();
      if (!other || *other != -__builtin_inf()) b.lines.push_back("else " + text(x.masked.arg(2)));
      b.title += "\nin chunks that the mask cuts: " + text(x.masked);
    } else {
      b.kind = Kind::Function;
      std::string shown = text(x.value);
      if (x.value.is(Op::Read) && has_tile(k_, x.value->sym))
        shown = fmt::format("{}({})", name(t.dtype), shown);
      b.lines = lines(shown);
      if (x.masked && x.masked != x.value)
        for (const std::string& l : lines("masked: " + text(x.masked))) b.lines.push_back(l);
    }
    b.inputs = by_width(tiles(with_served(read, b.lines)));
    b.outputs = {tile_array(x.tile)};
    add_box(b, &s);
  }

  /// The widest array first: its wires run on, others join them.
  std::vector<int> by_width(std::vector<int> arrays) const {
    std::stable_sort(arrays.begin(), arrays.end(), [&](int a, int b) {
      return d_.arrays[static_cast<size_t>(a)].wires.size() > d_.arrays[static_cast<size_t>(b)].wires.size();
    });
    return arrays;
  }

  void statement(const Stmt& s, const Dot& x) {
    DiagramBox b;
    b.kind = Kind::Contract;
    b.inputs = {tile(x.a), tile(x.b)};
    if (x.accumulate) {
      b.inputs.push_back(tile(x.tile));
      b.lines = {"+ " + x.tile.name()};
    }
    b.enters = x.axes;
    b.title = line(s);
    if (x.present) b.title += "\nin chunks that the mask cuts: where " + text(x.present);
    if (holds(drawing_.on_matrix_unit, x.tile)) {
      b.shade = Shade::Matrix;
      b.title += "\non the matrix unit";
    }
    b.outputs = {tile_array(x.tile)};
    add_box(b, &s);
  }

  void statement(const Stmt& s, const Reduce& x) {
    DiagramBox b;
    b.kind = Kind::Reduce;
    std::vector<Sym> read = axes_union(tiles_read(k_, x.value), tiles_read(k_, x.masked));
    b.lines = lines(reduce_text(x));
    b.inputs = by_width(tiles(with_served(read, b.lines)));
    if (x.accumulate) {
      const int own = tile(x.tile);
      if (std::find(b.inputs.begin(), b.inputs.end(), own) == b.inputs.end()) b.inputs.push_back(own);
    }
    if (x.masked && x.masked != x.value)
      for (const std::string& l : lines("masked: " + text(x.masked))) b.lines.push_back(l);
    for (int a : b.inputs)
      for (const DiagramWire& w : d_.arrays[static_cast<size_t>(a)].wires)
        if (w.axis && holds(x.axes, w.axis) && !holds(b.enters, w.axis)) b.enters.push_back(w.axis);
    b.title = line(s);
    b.outputs = {tile_array(x.tile)};
    add_box(b, &s);
  }

  void statement(const Stmt& s, const Rank& x) {
    DiagramBox b;
    b.kind = Kind::Step;
    std::vector<Sym> read = {x.keys, x.indices};
    for (bool masked : {false, true})
      for (Expr e : values_in(s, masked)) read = axes_union(read, tiles_read(k_, e));
    b.inputs = tiles(read);
    b.lines = {fmt::format("first {} along {} of", x.rank.name(), x.axis.name()),
               fmt::format("these and ({}, {})", text(x.value), text(x.at))};
    if (x.present) b.lines.push_back("where " + text(x.present));
    b.title = line(s);
    b.outputs = {tile_array(x.keys), tile_array(x.indices)};
    add_box(b, &s);
  }

  void statement(const Stmt& s, const When&) { step(std::span(&s, 1)); }

  void add_lines(const Stmt& s, const std::string& indent, std::vector<std::string>& out) const {
    std::string own = indent;
    for (const std::string& l : lines(line(s) + (std::get_if<When>(&s.node) ? ":" : ""), 30)) {
      out.push_back(own + l);
      own = indent + "  ";
    }
    if (const Body* inner = inner_body(s))
      for (const Stmt& x : *inner) add_lines(x, indent + "  ", out);
  }

  void step(std::span<const Stmt> run) {
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
      add_lines(s, "", b.lines);
      if (const When* w = std::get_if<When>(&s.node); w && w->slow_path)
        b.title = "the inner part runs seldom";
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

  void statement(const Stmt&, const Loop& x) {
    const KernelAxis& a = k_.axis(x.axis);
    ++stage_;
    const size_t first = d_.boxes.size();
    body(x.body, x.axis);
    Frame f{stage_, first, d_.boxes.size(), {}};
    f.label = a.kind == KernelAxis::Kind::Stream ? fmt::format("{} in chunks of {}", x.axis.name(), a.block)
                                                 : fmt::format("{} whole, up to {}", x.axis.name(), a.block);
    size_t masked = 0;
    for (const Segment& g : x.segments) masked += g.masked ? 1 : 0;
    if (a.kind == KernelAxis::Kind::Stream && masked > 0 && masked < x.segments.size()) cut_by_mask_ = true;
    frames_.push_back(f);
    ++stage_;
  }

  /// What the next chunk alone reads ends here.
  void carried() {
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

  // ---- after the columns are known

  struct Frame {
    int stage;
    size_t begin, end;  ///< boxes
    std::string label;
  };

  void loops() {
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

  void table() {
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
      peaks[at].shared = std::max(peaks[at].shared, it->second.shared);
      peaks[at].registers = std::max(peaks[at].registers, it->second.registers);
      column[1] = bytes_text(peaks[at].shared);
      column[2] = bytes_text(peaks[at].registers);
    }
    for (DiagramBox& box : d_.boxes) box.figures = d_.table.of_column[static_cast<size_t>(box.column)];
    if (last_) totals();
  }

  void totals() {
    const Cost c = cost(p_, t_);
    const auto line = [&](const std::string& what, Expr e) {
      const std::vector<Sym> symbols = free_symbols(e);
      const bool known =
          std::all_of(symbols.begin(), symbols.end(), [&](Sym s) { return drawing_.sizes.count(s) != 0; });
      std::string formula = to_string(e);
      if (known) {
        const int64_t value = evaluate_integer(e, drawing_.sizes);
        const std::string exact = fmt::format("{} B", value), rounded = bytes_text(value);
        formula = exact + (rounded == exact || value == 0 ? "" : " = " + rounded) +
                  (symbols.empty() || formula.size() > 60 ? "" : " = " + formula);
      }
      if (formula.size() > 200) formula = "a long sum over blocks: --size gives its value";
      d_.table.totals.push_back(fmt::format("{:<18} {}", what, formula));
    };
    line("H memory, loaded", c.memory.loaded);
    if (c.loaded_by_tensor.size() > 1)
      for (const auto& [tensor, e] : c.loaded_by_tensor) line("  " + tensor.name(), e);
    line("H memory, stored", c.memory.stored);
    line("H shared, loaded", c.shared.loaded);
    if (!c.shared.stored.is_constant(0)) line("H shared, stored", c.shared.stored);
    line("M shared", c.peak_shared);
    line("M registers", c.peak_registers);
  }

  void notes() {
    d_.notes = drawing_.notes;
    std::string grid;
    for (const KernelAxis& a : k_.grid)
      grid += fmt::format("{}{}={}{}", grid.empty() ? "" : ", ", a.index.name(), a.block,
                          a.piece == a.block ? "" : fmt::format("/{}", a.piece));
    if (!grid.empty()) d_.notes.push_back("once for each block of " + grid);
    if (k_.heaviest_first)
      d_.notes.push_back(fmt::format("blocks of {} from the last to the first", k_.grid.back().index.name()));
    if (cut_by_mask_) d_.notes.push_back("masks are tested in the chunks that they cut");
    for (const ChunkTable& c : k_.chunk_tables)
      d_.notes.push_back(
          fmt::format("a host step finds the chunks of {} where {}", c.stream.index.name(), text(c.some)));
    for (const HostScalar& s : t_.scalars)
      d_.notes.push_back(fmt::format("{} = {}", s.sym.name(), text(s.value)));
    // The state, as it was derived, of what this kernel holds.
    std::set<std::string> held;
    for (const Tile& t : k_.tiles)
      if (t.use == Tile::Use::State) held.insert(t.sym.name());
    if (held.empty()) return;
    const auto j = to_json(p_, derivation_);
    std::set<std::string> told;
    for (const auto& point : j["points"]) {
      const std::string name = point["name"];
      if (held.count(name.substr(0, name.find('['))) && told.insert(name).second)
        d_.notes.push_back(fmt::format("point {}: {}", name, point["meaning"].get<std::string>()));
    }
    for (const auto& r : j["reductions"])
      for (const char* field : {"state", "repair"})
        for (const auto& text : r[field]) {
          const std::string line = text.get<std::string>();
          if (line.rfind("the point", 0) == 0) continue;
          if (told.insert(line).second) d_.notes.push_back(fmt::format("{} {}", field, line));
        }
  }

  const Program& p_;
  const Derivation& derivation_;
  const TileProgram& t_;
  const TileKernel& k_;
  bool last_;
  const KernelDrawing& drawing_;
  Lifetime lifetime_;
  Diagram d_;
  std::map<Sym, int> current_;        ///< the array that a tile is now
  std::map<int, int64_t> moved_;      ///< of boxes: bytes of a block or chunk
  std::map<int, Peak> live_;          ///< of boxes
  std::map<Sym, const Map*> served_;  ///< maps that the statement that comes next alone reads
  std::vector<Frame> frames_;
  bool cut_by_mask_ = false;  ///< some chunks are not tested
  int stage_ = 0;
};

}  // namespace

Diagram diagram_of(const Program& elaborated, const Derivation& d, const TileProgram& t, size_t kernel,
                   const KernelDrawing& drawing) {
  return KernelPicture(elaborated, d, t, kernel, drawing).run();
}

}  // namespace tilewright
