#include "tilewright/diagram/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "tilewright/diagram/arrange.h"

namespace tilewright {

using Kind = DiagramBox::Kind;

double Row::port_y(const RowEdge& e, bool at_end, size_t wire) const {
  const RowVertex& v = vertices[static_cast<size_t>(at_end ? e.to : e.from)];
  const auto& ys = at_end ? v.g.in_y : v.g.out_y;
  return v.y + ys[static_cast<size_t>(at_end ? e.to_port : e.from_port)][wire];
}

size_t Row::wires(const RowEdge& e, const Diagram& d) const {
  const RowVertex& v = vertices[static_cast<size_t>(e.from)];
  return d.arrays[static_cast<size_t>(v.out_arrays[static_cast<size_t>(e.from_port)])].wires.size();
}

std::vector<std::vector<size_t>> Row::edges_of_vertices() const {
  std::vector<std::vector<size_t>> of(vertices.size());
  for (size_t e = 0; e < edges.size(); ++e)
    for (int v : {edges[e].from, edges[e].to}) of[static_cast<size_t>(v)].push_back(e);
  return of;
}

namespace {

class Cutter {
 public:
  Cutter(const Diagram& d, double room, const std::function<double(Row&)>& place)
      : d_(d), room_(room), place_(place), readers_(readers_of(d)) {}

  std::vector<Row> run() {
    const auto n = static_cast<size_t>(d_.columns());
    std::vector<double> boxes(n, 0), labels(n, 0);
    std::vector<bool> begins(n, false);  // results stand in the row of what gives them
    for (const DiagramBox& box : d_.boxes) {
      const auto c = static_cast<size_t>(box.column);
      if (box.kind != Kind::Sink) begins[c] = true;
      const BoxGeometry g = geometry_of(d_, box);
      boxes[c] = std::max(boxes[c], g.width);
      for (const std::string& f : box.figures)
        boxes[c] = std::max(boxes[c], text_width(f, Font::Sans, measure::figure) - 6);
      for (size_t k = 0; k < box.outputs.size(); ++k) {
        const DiagramArray& a = d_.arrays[static_cast<size_t>(box.outputs[k])];
        if (!g.labelled[k]) continue;
        labels[c] = std::max(labels[c], text_width(a.label, Font::Bold, measure::name) + 6);
        for (const DiagramWire& w : a.wires) labels[c] = std::max(labels[c], width_of(w) + 8);
      }
    }
    // As few rows as can be; then where few and named wires are cut, and about equal. A row is laid out to know its width where it may fit by what
    // its boxes and labels take at least.
    std::vector<double> best(n + 1, 1e18), cuts(n + 1, 0);
    for (size_t c = 1; c < n; ++c) cuts[c] = cut_cost(static_cast<int>(c));
    std::vector<Row> last(n + 1);  // the row that ends there
    best[0] = 0;
    for (size_t to = 1; to <= n; ++to) {
      double least = 0;
      for (size_t from = to; from-- > 0;) {
        least += boxes[from] + labels[from];
        const bool found = best[to] < 1e17;
        if (least > room_ && found) break;
        if (from > 0 && !begins[from]) continue;
        Row tried = row(static_cast<int>(from), static_cast<int>(to));
        const double width = place_(tried);
        if (width > room_ && found) continue;
        const double free = std::max(0.0, 1 - width / room_), over = std::max(0.0, width / room_ - 1);
        const double cost = best[from] + 1000 + cuts[from] + 24 * free * free + 5000 * over;
        if (cost < best[to]) best[to] = cost, last[to] = std::move(tried);
      }
    }
    std::vector<Row> rows;
    for (size_t to = n; to > 0; to = static_cast<size_t>(rows.back().begin))
      rows.push_back(std::move(last[to]));
    std::reverse(rows.begin(), rows.end());
    return rows;
  }

 private:
  /// Wires that go on beyond the boundary left of a column, those without a name more.
  double cut_cost(int column) const {
    double cost = 0;
    for (size_t a = 0; a < d_.arrays.size(); ++a) {
      const DiagramBox& from = d_.boxes[static_cast<size_t>(d_.arrays[a].from)];
      if (from.kind == Kind::Source || from.column >= column) continue;
      const bool goes_on = std::any_of(readers_[a].begin(), readers_[a].end(), [&](int r) {
        const DiagramBox& box = d_.boxes[static_cast<size_t>(r)];
        return box.kind != Kind::Sink && box.column >= column;
      });
      if (goes_on)
        cost += static_cast<double>(d_.arrays[a].wires.size()) + (d_.arrays[a].name.empty() ? 6 : 0);
    }
    return cost;
  }

  /// Columns [from, to) of the diagram.
  Row row(int from, int to) {
    row_ = Row{};
    from_ = from;
    to_ = to;
    by_box_.clear();
    // A result stands behind the box that gives it.
    const auto column = [&](int box) {
      const DiagramBox& b = d_.boxes[static_cast<size_t>(box)];
      if (b.kind != Kind::Sink) return b.column;
      const DiagramBox& giver =
          d_.boxes[static_cast<size_t>(d_.arrays[static_cast<size_t>(b.inputs[0])].from)];
      return giver.kind == Kind::Source ? b.column : giver.column;
    };
    const auto inside = [&](int box) { return column(box) >= from && column(box) < to; };
    // Boxes other than sources; those come with what reads them.
    for (size_t b = 0; b < d_.boxes.size(); ++b)
      if (inside(static_cast<int>(b)) && d_.boxes[b].kind != Kind::Source) add_box(static_cast<int>(b));
    for (size_t a = 0; a < d_.arrays.size(); ++a) {
      const int array = static_cast<int>(a), producer = d_.arrays[a].from;
      std::vector<int> here;
      bool later = false;
      for (int r : readers_[a]) {
        if (inside(r)) here.push_back(r);
        later = later || column(r) >= to;
      }
      std::stable_sort(here.begin(), here.end(), [&](int x, int y) {
        return d_.boxes[static_cast<size_t>(x)].column < d_.boxes[static_cast<size_t>(y)].column;
      });
      const bool source = d_.boxes[static_cast<size_t>(producer)].kind == Kind::Source;
      if (!source && inside(producer)) {
        if (later && here.empty()) {
          const int end = name(array, false, d_.boxes[static_cast<size_t>(producer)].column + 1);
          connect(array, by_box_.at(producer), {}, end);
        }
        if (!here.empty()) connect(array, by_box_.at(producer), here, -1);
        continue;
      }
      // Given, or from an earlier row: in groups of boxes that are near each other.
      for (size_t k = 0; k < here.size();) {
        std::vector<int> near{here[k]};
        int at = d_.boxes[static_cast<size_t>(here[k])].column;
        const int begin = at - 1;
        while (++k < here.size() && belongs(here[k], near, at)) {
          near.push_back(here[k]);
          at = d_.boxes[static_cast<size_t>(here[k])].column;
        }
        const int v = source ? add_source(producer, begin) : name(array, true, begin);
        connect(array, v, near, -1);
      }
    }
    int least = 0;
    for (const RowVertex& v : row_.vertices) least = std::min(least, v.column);
    int most = 0;
    for (RowVertex& v : row_.vertices) v.column -= least, most = std::max(most, v.column);
    row_.first = from + least;
    row_.begin = from;
    row_.end = to;
    pass();
    row_.columns.assign(static_cast<size_t>(most) + 1, {});
    initial_order();
    return row_;
  }

  /// Does a box take what is given from the same place as those in `near`, the last of them in column `at`? Where it stands beside
  /// them, or behind and reads what they make of it; further away it is given again.
  bool belongs(int box, const std::vector<int>& near, int at) const {
    const DiagramBox& b = d_.boxes[static_cast<size_t>(box)];
    if (b.column == at) return true;
    if (b.column > at + 1) return false;
    return std::any_of(b.inputs.begin(), b.inputs.end(), [&](int a) {
      return std::find(near.begin(), near.end(), d_.arrays[static_cast<size_t>(a)].from) != near.end();
    });
  }

  int add_vertex(RowVertex v) {
    row_.vertices.push_back(std::move(v));
    return static_cast<int>(row_.vertices.size()) - 1;
  }

  int add_box(int b) {
    const DiagramBox& box = d_.boxes[static_cast<size_t>(b)];
    RowVertex v;
    v.box = b;
    v.column = box.column - from_;
    v.g = geometry_of(d_, box);
    v.in_arrays = box.inputs;
    v.out_arrays = box.outputs;
    return by_box_[b] = add_vertex(v);
  }

  int add_source(int b, int column) {
    RowVertex v;
    v.box = b;
    v.column = column - from_;
    v.g = geometry_of(d_, d_.boxes[static_cast<size_t>(b)]);
    v.out_arrays = d_.boxes[static_cast<size_t>(b)].outputs;
    return add_vertex(v);
  }

  int name(int array, bool begins, int column) {
    RowVertex v;
    v.array = array;
    v.column = column - from_;
    std::string text = d_.arrays[static_cast<size_t>(array)].name;
    if (text.empty()) text = d_.arrays[static_cast<size_t>(array)].spare;
    v.g = continuation(d_, array, begins, text);
    (begins ? v.out_arrays : v.in_arrays) = {array};
    return add_vertex(v);
  }

  /// From a vertex to the boxes that read the array, or to the vertex `end`.
  void connect(int array, int from, const std::vector<int>& boxes, int end) {
    const RowVertex& v = row_.vertices[static_cast<size_t>(from)];
    const auto port = std::find(v.out_arrays.begin(), v.out_arrays.end(), array) - v.out_arrays.begin();
    if (end >= 0) row_.edges.push_back({from, static_cast<int>(port), end, 0});
    for (int b : boxes) {
      const auto& inputs = d_.boxes[static_cast<size_t>(b)].inputs;
      for (size_t k = 0; k < inputs.size(); ++k)
        if (inputs[k] == array)
          row_.edges.push_back({from, static_cast<int>(port), by_box_.at(b), static_cast<int>(k)});
    }
  }

  /// Puts vertices into the columns that an array passes, shared by all that read it.
  void pass() {
    std::vector<RowEdge> edges;
    std::map<std::pair<int, int>, std::vector<RowEdge>> by_port;
    for (const RowEdge& e : row_.edges) by_port[{e.from, e.from_port}].push_back(e);
    for (auto& [port, list] : by_port) {
      const int start = row_.vertices[static_cast<size_t>(port.first)].column;
      int last = start;
      for (const RowEdge& e : list) last = std::max(last, row_.vertices[static_cast<size_t>(e.to)].column);
      const int array =
          row_.vertices[static_cast<size_t>(port.first)].out_arrays[static_cast<size_t>(port.second)];
      int at = port.first, at_port = port.second;
      for (int c = start + 1; c <= last; ++c) {
        for (const RowEdge& e : list)
          if (row_.vertices[static_cast<size_t>(e.to)].column == c)
            edges.push_back({at, at_port, e.to, e.to_port});
        if (c == last) break;
        RowVertex v;
        v.array = array;
        v.passes = true;
        v.column = c;
        v.in_arrays = v.out_arrays = {array};
        std::vector<double> ys;
        for (size_t w = 0; w < d_.arrays[static_cast<size_t>(array)].wires.size(); ++w)
          ys.push_back(measure::pitch * static_cast<double>(w));
        v.g.in_y = v.g.out_y = {ys};
        v.g.top = -7;
        v.g.bottom = ys.back() + 7;
        v.g.labelled = {false};
        const int next = add_vertex(v);
        edges.push_back({at, at_port, next, 0});
        at = next;
        at_port = 0;
      }
    }
    row_.edges = edges;
  }

  /// Depth first from the right, inputs in their order: trees come out without crossings.
  void initial_order() {
    std::vector<std::vector<RowEdge>> into(row_.vertices.size());
    std::vector<bool> has_reader(row_.vertices.size());
    for (const RowEdge& e : row_.edges) {
      into[static_cast<size_t>(e.to)].push_back(e);
      has_reader[static_cast<size_t>(e.from)] = true;
    }
    std::vector<bool> placed(row_.vertices.size());
    const auto visit = [&](const auto& self, int v) -> void {
      const auto at = static_cast<size_t>(v);
      if (placed[at]) return;
      placed[at] = true;
      std::vector<RowEdge> edges = into[at];
      std::stable_sort(edges.begin(), edges.end(),
                       [](const RowEdge& a, const RowEdge& b) { return a.to_port < b.to_port; });
      for (const RowEdge& e : edges) self(self, e.from);
      row_.columns[static_cast<size_t>(row_.vertices[at].column)].push_back(v);
    };
    for (size_t v = 0; v < row_.vertices.size(); ++v)
      if (!has_reader[v]) visit(visit, static_cast<int>(v));
    for (size_t v = 0; v < row_.vertices.size(); ++v) visit(visit, static_cast<int>(v));
  }

  const Diagram& d_;
  double room_;
  const std::function<double(Row&)>& place_;
  std::vector<std::vector<int>> readers_;
  Row row_;
  int from_ = 0, to_ = 0;
  std::map<int, int> by_box_;
};

}  // namespace

std::vector<Row> rows_of(const Diagram& d, double room, const std::function<double(Row&)>& place) {
  return Cutter(d, room, place).run();
}

}  // namespace tilewright
