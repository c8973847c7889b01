#include "tilewright/diagram/layout.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "tilewright/diagram/arrange.h"
#include "tilewright/diagram/rows.h"

namespace tilewright {

using Kind = DiagramBox::Kind;
using TextKind = PictureText::Kind;

namespace {

constexpr double kMargin = 12;

Path moved(Path p, double x, double y) {
  const auto move = [&](Spot& q) { q = {q.x + x, q.y + y}; };
  move(p.start);
  for (Stroke& s : p.strokes) move(s.a), move(s.b), move(s.to);
  return p;
}

class Layout {
 public:
  Layout(const Diagram& d, const LayoutOptions& o) : d_(d), o_(o) {}

  Picture run() {
    double y = kMargin;
    if (!d_.title.empty()) {
      put(text_at(TextKind::Title, {kMargin, y + 10}, d_.title));
      y += 22;
    }
    for (const std::string& r : d_.table.rows)
      left_ = std::max(left_, kMargin + text_width(r, Font::Sans, measure::figure) + 8);
    for (Row& row : placed_rows()) y = draw(row, y) + 16;
    y = totals(y - 4);
    y = notes(y);
    p_.height = y + kMargin - 6;
    p_.width += kMargin;
    return std::move(p_);
  }

 private:
  std::vector<Row> placed_rows() {
    return rows_of(d_, o_.width - 2 * kMargin, [&](Row& row) {
      reduce_crossings(d_, row);
      place_heights(d_, row);
      for (bool given : {false, true}) {
        align_inputs(d_, row, given);
        place_heights(d_, row);
      }
      close_gaps(row);
      double end = 0;
      for (const Column& c : columns_of(row)) end = std::max(end, c.right() + c.labels);
      return end - kMargin;
    });
  }

  void put(const PictureText& t) {
    p_.texts.push_back(t);
    p_.width = std::max(p_.width, t.bounds.right());
  }

  /// The name of an array; of "name : dtype" the dtype in small type.
  static PictureText name_text(const DiagramArray& a, Spot at) {
    const size_t colon = a.label.find(" : ");
    return text_at(TextKind::Name, at, a.label.substr(0, colon), "",
                   colon == std::string::npos ? "" : a.label.substr(colon + 3));
  }

  /// Does the name of an output stand behind the box, with the labels of its wires? Else above its right end.
  static bool names_beside(const RowVertex& v, size_t output) {
    const double y = v.g.out_y[output][0];
    return v.g.labelled[output] || (v.g.shaped && v.g.shape.y < y - 6 && v.g.shape.bottom() > y - 18);
  }

  const DiagramArray& array(int a) const { return d_.arrays[static_cast<size_t>(a)]; }

  /// Boundaries of the columns of a row.
  struct Column {
    double x = 0;       ///< left edge of its boxes
    double width = 0;   ///< of the widest box
    double labels = 0;  ///< width of the text on the wires behind it
    double fork = 0, bend = 0;
    double right() const { return x + width; }
    double bend_from() const { return right() + labels + fork; }
    double end() const { return bend_from() + bend; }
  };

  std::vector<Column> columns_of(Row& row) const {
    std::vector<Column> columns(row.columns.size());
    std::map<std::pair<int, int>, int> reads;
    for (const RowEdge& e : row.edges) ++reads[{e.from, e.from_port}];
    for (size_t c = 0; c < columns.size(); ++c) {
      Column& col = columns[c];
      for (int v : row.columns[c]) {
        const RowVertex& x = row.vertices[static_cast<size_t>(v)];
        col.width = std::max(col.width, x.g.width);
        if (x.box >= 0)
          for (const std::string& f : d_.boxes[static_cast<size_t>(x.box)].figures)
            col.width = std::max(col.width, text_width(f, Font::Sans, measure::figure) - 6);
        if (x.passes) continue;
        for (size_t k = 0; k < x.out_arrays.size(); ++k) {
          const DiagramArray& a = array(x.out_arrays[k]);
          if (!a.label.empty() && x.box >= 0) {
            const double width = name_text(a, {}).bounds.width;
            col.labels = std::max(col.labels, names_beside(x, k) ? width + 6 : width - x.g.width + 2);
          }
          if (x.g.labelled[k])
            for (const DiagramWire& w : a.wires)
              if (w.axis) col.labels = std::max(col.labels, width_of(w) + 8);
        }
      }
      for (const auto& [port, count] : reads)
        if (count > 1 && row.vertices[static_cast<size_t>(port.first)].column == static_cast<int>(c))
          col.fork = 7;
      double most = 0;
      bool any = false;
      for (const RowEdge& e : row.edges) {
        if (row.vertices[static_cast<size_t>(e.from)].column != static_cast<int>(c)) continue;
        any = true;
        most = std::max(most, std::abs(row.port_y(e, true, 0) - row.port_y(e, false, 0)));
      }
      col.bend = !any ? 0 : most < 0.01 ? 4 : std::min(12 + most * 0.36, 80.0);
    }
    // Room for the sides of loops.
    for (const DiagramLoop& l : d_.loops)
      for (int c : {l.first - 1, l.last}) {
        const int at = c - row.first;
        if (at >= 0 && at + 1 < static_cast<int>(columns.size())) columns[static_cast<size_t>(at)].bend += 14;
      }
    double x = kMargin;
    for (Column& col : columns) {
      col.x = x;
      x = col.end();
    }
    // Names may stand above those of the table's rows, but figures stand beside them.
    double right = 0;
    for (size_t c = 0; c < columns.size(); ++c)
      for (const std::string& f : figures_of(row, c))
        if (!f.empty())
          right = std::max(right, left_ - columns[c].x - columns[c].width / 2 +
                                      text_width(f, Font::Sans, measure::figure) / 2);
    for (Column& col : columns) col.x += right;
    return columns;
  }

  double draw(Row& row, double top) {
    const std::vector<Column> columns = columns_of(row);
    double bottom = 0;
    const auto here = [&](const DiagramLoop& l) { return l.first < row.end && l.last >= row.begin; };
    const bool framed = std::any_of(d_.loops.begin(), d_.loops.end(), here);
    if (framed) top += 24;
    for (RowVertex& v : row.vertices) {
      v.y += top;
      const Column& col = columns[static_cast<size_t>(v.column)];
      const bool right = v.box >= 0 ? d_.boxes[static_cast<size_t>(v.box)].inputs.empty() &&
                                          d_.boxes[static_cast<size_t>(v.box)].kind != Kind::Function
                                    : !v.passes && v.in_arrays.empty();
      v.x = right ? col.right() - v.g.width : col.x;
      bottom = std::max(bottom, v.y + v.g.bottom);
    }
    for (const DiagramLoop& l : d_.loops) {
      if (!here(l)) continue;
      PictureFrame f;
      f.begins = l.first >= row.begin;
      f.ends = l.last < row.end;
      const double from =
          f.begins ? columns[static_cast<size_t>(l.first - row.first)].x - 8 : columns[0].x - 4;
      const double to = f.ends ? columns[static_cast<size_t>(l.last - row.first)].bend_from() + 7
                               : columns.back().right() + columns.back().labels + 4;
      f.at = {from, top - 20, to - from, bottom - top + 26};
      p_.frames.push_back(f);
      if (f.begins) put(text_at(TextKind::Loop, {from + 9, top - 8}, l.label));
    }
    if (framed) bottom += 8;
    separators(row, columns);
    const size_t before = p_.wires.size();
    for (const RowVertex& v : row.vertices) vertex(v);
    wires(row, columns);
    join_wires(before);
    // What runs straight lies above what bends.
    std::stable_partition(p_.wires.begin() + static_cast<std::ptrdiff_t>(before), p_.wires.end(),
                          [](const PictureWire& w) {
                            return std::any_of(w.path.strokes.begin(), w.path.strokes.end(),
                                               [](const Stroke& s) { return s.curve; });
                          });
    for (const RowVertex& v : row.vertices)
      if (!v.passes) labels(v, columns[static_cast<size_t>(v.column)]);
    for (const Column& c : columns) p_.width = std::max(p_.width, c.right() + c.labels);
    return figures(row, columns, bottom);
  }

  /// Makes one wire of those that go on where another ends, from number `first` on.
  void join_wires(size_t first) {
    const auto key = [](Spot s) { return std::make_pair(std::lround(s.x * 20), std::lround(s.y * 20)); };
    std::map<std::pair<long, long>, std::vector<size_t>> begins, ends;
    for (size_t k = first; k < p_.wires.size(); ++k) {
      begins[key(p_.wires[k].path.start)].push_back(k);
      ends[key(p_.wires[k].path.end())].push_back(k);
    }
    constexpr size_t none = static_cast<size_t>(-1);
    std::vector<size_t> next(p_.wires.size(), none);
    std::vector<bool> continues(p_.wires.size());
    for (const auto& [at, list] : ends) {
      const auto it = begins.find(at);
      if (list.size() != 1 || it == begins.end() || it->second.size() != 1 || it->second[0] == list[0])
        continue;
      const PictureWire &a = p_.wires[list[0]], &b = p_.wires[it->second[0]];
      if (a.shade != b.shade || a.unit != b.unit) continue;
      next[list[0]] = it->second[0];
      continues[it->second[0]] = true;
    }
    std::vector<PictureWire> joined(p_.wires.begin(), p_.wires.begin() + static_cast<std::ptrdiff_t>(first));
    for (size_t k = first; k < p_.wires.size(); ++k) {
      if (continues[k]) continue;
      PictureWire w = p_.wires[k];
      for (size_t n = next[k]; n != none; n = next[n]) {
        for (const Stroke& s : p_.wires[n].path.strokes) {
          if (s.curve)
            w.path.strokes.push_back(s);
          else
            w.path.line(s.to);
        }
        if (w.title.empty()) w.title = p_.wires[n].title;
      }
      joined.push_back(w);
    }
    p_.wires = std::move(joined);
  }

  /// Dashed lines: between boxes side by side, and between neighbouring arrays from column to column.
  void separators(const Row& row, const std::vector<Column>& columns) {
    for (size_t c = 0; c < columns.size(); ++c) {
      const auto& order = row.columns[c];
      for (size_t k = 1; k < order.size(); ++k) {
        const RowVertex& a = row.vertices[static_cast<size_t>(order[k - 1])];
        const RowVertex& b = row.vertices[static_cast<size_t>(order[k])];
        if (a.in_arrays.empty() || b.in_arrays.empty() || a.out_arrays.empty() || b.out_arrays.empty())
          continue;
        Path p;
        p.start = {columns[c].x, (a.y + a.g.bottom + b.y + b.g.top) / 2};
        p.line({columns[c].right(), p.start.y});
        p_.separators.push_back(p);
      }
      std::vector<RowEdge> edges;
      for (const RowEdge& e : row.edges)
        if (row.vertices[static_cast<size_t>(e.from)].column == static_cast<int>(c)) edges.push_back(e);
      std::stable_sort(edges.begin(), edges.end(), [&](const RowEdge& a, const RowEdge& b) {
        const double x = row.port_y(a, false, 0), y = row.port_y(b, false, 0);
        return x != y ? x < y : row.port_y(a, true, 0) < row.port_y(b, true, 0);
      });
      std::vector<double> arrive;
      for (const RowEdge& e : edges) arrive.push_back(row.port_y(e, true, 0));
      std::sort(arrive.begin(), arrive.end());
      for (size_t k = 1; k < edges.size(); ++k) {
        const RowEdge &a = edges[k - 1], &b = edges[k];
        if (a.from == b.from && a.from_port == b.from_port) continue;
        const RowVertex &va = row.vertices[static_cast<size_t>(a.from)],
                        &vb = row.vertices[static_cast<size_t>(b.from)];
        const double from = a.from != b.from
                                ? (va.y + va.g.bottom + vb.y + vb.g.top) / 2
                                : row.port_y(a, false, row.wires(a, d_) - 1) + measure::pitch * 0.6;
        Path p;
        p.start = {columns[c].right() + 2, from};
        p.line({columns[c].bend_from(), from});
        const double above = row.port_y(a, true, row.wires(a, d_) - 1), below = row.port_y(b, true, 0);
        const auto between = std::upper_bound(arrive.begin(), arrive.end(), above);
        const bool neighbours = above < below && (between == arrive.end() || *between >= below);
        const double rise = std::abs((above + below) / 2 - from);
        if (neighbours && rise <= 2 * columns[c].bend) {
          const RowVertex& to = row.vertices[static_cast<size_t>(b.to)];
          p.bend({columns[c].end(), (above + below) / 2});
          if (a.to == b.to && !to.passes) p.line({columns[c].end() + 4, (above + below) / 2});
        }
        if (!p.strokes.empty() && p.end().x > p.start.x + 2) p_.separators.push_back(p);
      }
    }
  }

  void vertex(const RowVertex& v) {
    for (const PictureWire& s : v.g.strands) {
      PictureWire w = s;
      w.path = moved(s.path, v.x, v.y);
      p_.wires.push_back(w);
    }
    for (PictureDot dot : v.g.dots) {
      dot.at = {dot.at.x + v.x, dot.at.y + v.y};
      p_.dots.push_back(dot);
    }
    for (const Spot& q : v.g.ports) p_.ports.push_back({q.x + v.x, q.y + v.y});
    for (const Path& b : v.g.bars) p_.bars.push_back(moved(b, v.x, v.y));
    for (const PictureText& t : v.g.texts) put(text_at(t.kind, {t.at.x + v.x, t.at.y + v.y}, t.text));
    if (v.g.shaped) {
      const DiagramBox& box = d_.boxes[static_cast<size_t>(v.box)];
      const Rect at = {v.g.shape.x + v.x, v.g.shape.y + v.y, v.g.shape.width, v.g.shape.height};
      p_.shapes.push_back({box.kind, v.box, at, box.shade, box.title});
    }
    for (const auto& ys : v.g.in_y)
      for (double y : ys) p_.ports.push_back({v.x, v.y + y});
    for (const auto& ys : v.g.out_y)
      for (double y : ys) p_.ports.push_back({v.x + v.g.width, v.y + y});
  }

  void wires(const Row& row, const std::vector<Column>& columns) {
    std::map<std::pair<int, int>, int> reads;
    for (const RowEdge& e : row.edges) ++reads[{e.from, e.from_port}];
    for (const RowEdge& e : row.edges) {
      const RowVertex& from = row.vertices[static_cast<size_t>(e.from)];
      const RowVertex& to = row.vertices[static_cast<size_t>(e.to)];
      const DiagramArray& a = array(from.out_arrays[static_cast<size_t>(e.from_port)]);
      const Column& col = columns[static_cast<size_t>(from.column)];
      for (size_t w = 0; w < a.wires.size(); ++w) {
        PictureWire wire;
        wire.shade = a.shade;
        wire.unit = !a.wires[w].axis;
        wire.title = a.title;
        wire.path.start = {from.x + (from.passes ? 0 : from.g.width), row.port_y(e, false, w)};
        wire.path.line({col.bend_from(), wire.path.start.y});
        wire.path.bend({columns[static_cast<size_t>(to.column)].x, row.port_y(e, true, w)});
        wire.path.line({to.x, row.port_y(e, true, w)});
        p_.wires.push_back(wire);
        const bool forks = reads.at({e.from, e.from_port}) > 1;
        if (forks) p_.dots.push_back({{col.bend_from() - 1, wire.path.start.y}, a.shade, false});
      }
    }
    // Results that nothing reads end behind their labels.
    for (size_t v = 0; v < row.vertices.size(); ++v) {
      const RowVertex& x = row.vertices[v];
      for (size_t k = 0; k < x.out_arrays.size(); ++k) {
        if (reads.count({static_cast<int>(v), static_cast<int>(k)})) continue;
        const DiagramArray& a = array(x.out_arrays[k]);
        const Column& col = columns[static_cast<size_t>(x.column)];
        for (size_t w = 0; w < a.wires.size(); ++w) {
          PictureWire wire;
          wire.shade = a.shade;
          wire.unit = !a.wires[w].axis;
          wire.path.start = {x.x + x.g.width, x.y + x.g.out_y[k][w]};
          wire.path.line({col.bend_from(), wire.path.start.y});
          p_.ports.push_back(wire.path.end());
          p_.wires.push_back(wire);
        }
      }
    }
  }

  void labels(const RowVertex& v, const Column& col) {
    for (size_t k = 0; k < v.out_arrays.size(); ++k) {
      const DiagramArray& a = array(v.out_arrays[k]);
      if (v.g.labelled[k])
        for (size_t w = 0; w < a.wires.size(); ++w) {
          const DiagramWire& x = a.wires[w];
          if (!x.axis) continue;
          PictureText t =
              text_at(TextKind::Axis, {col.right() + 5, v.y + v.g.out_y[k][w] + 3}, x.name, x.sub, x.size);
          t.shade = a.shade;
          put(t);
        }
      if (!a.label.empty() && v.box >= 0 && d_.boxes[static_cast<size_t>(v.box)].kind != Kind::Source) {
        // Where wires pass straight it ends where the box does, else it stands above the labels.
        PictureText t = name_text(a, {});
        const double x =
            names_beside(v, k) ? col.right() + 3 : std::max(v.x, v.x + v.g.width - t.bounds.width);
        put(name_text(a, {x, v.y + v.g.out_y[k][0] - 9}));
      }
    }
  }

  /// Below a column of a row; none where the column is not its own.
  std::vector<std::string> figures_of(const Row& row, size_t c) const {
    const int column = row.first + static_cast<int>(c);
    if (column < row.begin || column >= row.end || static_cast<size_t>(column) >= d_.table.of_column.size())
      return {};
    return d_.table.of_column[static_cast<size_t>(column)];
  }

  /// The table below a row.
  double figures(const Row& row, const std::vector<Column>& columns, double y) {
    if (d_.table.rows.empty()) return y;
    y += 6;
    bool any = false;
    for (size_t c = 0; c < columns.size(); ++c) {
      const std::vector<std::string> lines = figures_of(row, c);
      for (size_t r = 0; r < lines.size(); ++r) {
        if (lines[r].empty()) continue;
        any = true;
        const double width = text_width(lines[r], Font::Sans, measure::figure);
        const double middle = columns[c].x + columns[c].width / 2;
        put(text_at(TextKind::Figure, {middle - width / 2, y + 12 * static_cast<double>(r) + 11}, lines[r]));
      }
    }
    if (!any) return y - 6;
    for (size_t r = 0; r < d_.table.rows.size(); ++r)
      put(text_at(TextKind::Figure, {kMargin, y + 12 * static_cast<double>(r) + 11}, d_.table.rows[r]));
    Path rule;
    rule.start = {kMargin, y};
    rule.line({columns.back().end(), y});
    p_.bars.push_back(rule);
    return y + 12 * static_cast<double>(d_.table.rows.size()) + 4;
  }

  double totals(double y) {
    if (!d_.table.rows.empty()) {
      y += 14;
      double x = kMargin;
      for (const auto& [shade, text] : {std::pair{Shade::Memory, "device memory"},
                                        {Shade::Shared, "shared, or of a task"},
                                        {Shade::Registers, "registers"},
                                        {Shade::Matrix, "matrix unit"}}) {
        PictureWire w;
        w.shade = shade;
        w.path.start = {x, y - 3};
        w.path.line({x + 18, y - 3});
        p_.ports.push_back(w.path.start);
        p_.ports.push_back(w.path.end());
        p_.wires.push_back(w);
        PictureText t = text_at(TextKind::Axis, {x + 22, y}, "", "", text);
        t.shade = shade;
        put(t);
        x = t.bounds.right() + 16;
      }
      y += 4;
    }
    for (const std::string& line : d_.table.totals)
      for (const std::string& part : broken(line, characters())) {
        y += 12;
        put(text_at(TextKind::Note, {kMargin, y}, part));
      }
    return y + (d_.table.totals.empty() ? 0 : 6);
  }

  size_t characters() const {
    return static_cast<size_t>((o_.width - 2 * kMargin) / text_width("x", Font::Code, measure::note));
  }

  /// One after another, as many as fit in a line.
  double notes(double y) {
    double x = kMargin;
    y += 12;
    for (const std::string& note : d_.notes)
      for (const std::string& part : broken(note, characters())) {
        const double width = text_width(part, Font::Code, measure::note);
        if (x > kMargin && x + width > o_.width - kMargin) {
          x = kMargin;
          y += 12;
        }
        put(text_at(TextKind::Note, {x, y}, part));
        x += width + 16;
      }
    return d_.notes.empty() ? y - 12 : y + 4;
  }

  const Diagram& d_;
  LayoutOptions o_;
  Picture p_;
  double left_ = kMargin;  ///< behind the names of the table's rows
};

}  // namespace

Picture lay_out(const Diagram& d, const LayoutOptions& options) { return Layout(d, options).run(); }

}  // namespace tilewright
