// The order of the boxes of each column, and their heights.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tilewright/diagram/rows.h"

namespace tilewright {
namespace {

constexpr double kApart = 4;    // between the extents of neighbours
constexpr double kSpread = 52;  // by which inputs of a box are moved apart at most
constexpr double kNudge = 16;   // the same of what is given, which can stand anywhere

/// Heights that only stack each column, for positions of ports while the order is sought.
void stacked(Row& row) {
  for (auto& column : row.columns) {
    double y = 0;
    for (int v : column) {
      RowVertex& x = row.vertices[static_cast<size_t>(v)];
      x.y = y - x.g.top;
      y += x.g.bottom - x.g.top + kApart;
    }
  }
}

double crossings(const Diagram& d, const Row& row) {
  double sum = 0;
  for (size_t k = 0; k < row.edges.size(); ++k)
    for (size_t m = k + 1; m < row.edges.size(); ++m) {
      const RowEdge &a = row.edges[k], &b = row.edges[m];
      if (row.vertices[static_cast<size_t>(a.from)].column !=
          row.vertices[static_cast<size_t>(b.from)].column)
        continue;
      const double left = row.port_y(a, false, 0) - row.port_y(b, false, 0);
      const double right = row.port_y(a, true, 0) - row.port_y(b, true, 0);
      if (left * right < 0) sum += static_cast<double>(row.wires(a, d) * row.wires(b, d));
    }
  return sum;
}

}  // namespace

void reduce_crossings(const Diagram& d, Row& row) {
  stacked(row);
  double best = crossings(d, row);
  auto kept = row.columns;
  for (int sweep = 0; sweep < 8 && best > 0; ++sweep) {
    const bool rightwards = sweep % 2 == 0;
    const size_t n = row.columns.size();
    for (size_t step = 1; step < n; ++step) {
      auto& column = row.columns[rightwards ? step : n - 1 - step];
      std::vector<std::pair<double, int>> keyed;
      for (size_t at = 0; at < column.size(); ++at) {
        const int v = column[at];
        double sum = 0, weight = 0;
        for (const RowEdge& e : row.edges) {
          if ((rightwards ? e.to : e.from) != v) continue;
          const auto count = row.wires(e, d);
          for (size_t w = 0; w < count; ++w) {
            // Where the vertex would be if its port stood opposite.
            const double own = row.port_y(e, rightwards, w) - row.vertices[static_cast<size_t>(v)].y;
            sum += row.port_y(e, !rightwards, w) - own;
            weight += 1;
          }
        }
        keyed.emplace_back(weight > 0 ? sum / weight : row.vertices[static_cast<size_t>(v)].y, v);
      }
      std::stable_sort(keyed.begin(), keyed.end(),
                       [](const auto& a, const auto& b) { return a.first < b.first; });
      for (size_t at = 0; at < column.size(); ++at) column[at] = keyed[at].second;
      stacked(row);
    }
    const double now = crossings(d, row);
    if (now < best) {
      best = now;
      kept = row.columns;
    }
  }
  row.columns = kept;
  stacked(row);
}

namespace {

struct Wish {
  double y, weight;
};

double weighted_median(std::vector<Wish>& wishes) {
  std::sort(wishes.begin(), wishes.end(), [](const Wish& a, const Wish& b) { return a.y < b.y; });
  double all = 0, sum = 0;
  for (const Wish& w : wishes) all += w.weight;
  for (const Wish& w : wishes) {
    sum += w.weight;
    if (sum * 2 >= all) return w.y;
  }
  return wishes.empty() ? 0 : wishes.back().y;
}

/// Puts the vertices of a column at the heights that they wish for, as far as they keep their order and do not overlap: neighbours
/// that would are joined to a block, which takes the median of its wishes.
void place(Row& row, const std::vector<int>& column, const std::vector<std::vector<Wish>>& wishes) {
  struct Block {
    std::vector<Wish> wishes;
    size_t count = 0;
    double y = 0;
  };
  std::vector<double> offset(column.size());
  std::vector<Block> blocks;
  double at = 0;
  for (size_t k = 0; k < column.size(); ++k) {
    const BoxGeometry& g = row.vertices[static_cast<size_t>(column[k])].g;
    if (k > 0) at += row.vertices[static_cast<size_t>(column[k - 1])].g.bottom + kApart - g.top;
    offset[k] = at;
    Block b;
    for (Wish w : wishes[k]) b.wishes.push_back({w.y - at, w.weight});
    b.count = 1;
    b.y = weighted_median(b.wishes);
    while (!blocks.empty() && blocks.back().y > b.y) {
      Block& before = blocks.back();
      b.wishes.insert(b.wishes.end(), before.wishes.begin(), before.wishes.end());
      b.count += before.count;
      b.y = weighted_median(b.wishes);
      blocks.pop_back();
    }
    blocks.push_back(b);
  }
  size_t k = 0;
  for (const Block& b : blocks)
    for (size_t n = 0; n < b.count; ++n, ++k)
      row.vertices[static_cast<size_t>(column[k])].y = b.y + offset[k];
}

}  // namespace

void align_inputs(const Diagram& d, Row& row, bool given) {
  for (size_t v = 0; v < row.vertices.size(); ++v) {
    RowVertex& x = row.vertices[v];
    if (x.box < 0 || x.in_arrays.size() < 2) continue;
    std::vector<double> wanted(x.in_arrays.size(), 0);
    std::vector<double> spread(x.in_arrays.size(), kSpread);
    for (const RowEdge& e : row.edges) {
      if (e.to != static_cast<int>(v)) continue;
      wanted[static_cast<size_t>(e.to_port)] = row.port_y(e, false, 0);
      if (row.vertices[static_cast<size_t>(e.from)].in_arrays.empty())
        spread[static_cast<size_t>(e.to_port)] = given ? kNudge : 0;
    }
    std::vector<size_t> order(wanted.size());
    for (size_t k = 0; k < order.size(); ++k) order[k] = k;
    const DiagramBox& box = d.boxes[static_cast<size_t>(x.box)];
    if (box.kind != DiagramBox::Kind::Contract)
      std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return wanted[a] < wanted[b]; });
    const auto height = [&](size_t k) {
      return measure::pitch *
                 static_cast<double>(d.arrays[static_cast<size_t>(x.in_arrays[k])].wires.size()) +
             measure::gap;
    };
    const auto first = static_cast<size_t>(std::find(order.begin(), order.end(), 0U) - order.begin());
    std::vector<double> starts(wanted.size(), 0);
    // Closest to the one before, and so much further at most where its array comes from there.
    for (size_t n = first + 1; n < order.size(); ++n) {
      const size_t k = order[n];
      const double least = starts[order[n - 1]] + height(order[n - 1]);
      starts[k] = std::clamp(wanted[k] - wanted[0], least, least + spread[k]);
    }
    for (size_t n = first; n-- > 0;) {
      const size_t k = order[n];
      const double most = starts[order[n + 1]] - height(k);
      starts[k] = std::clamp(wanted[k] - wanted[0], most - spread[k], most);
    }
    x.g = geometry_of(d, box, starts);
  }
}

void place_heights(const Diagram& d, Row& row) {
  const size_t n = row.columns.size();
  // What passes beside boxes runs straight before all else, then what a box reads first; what is given stands beside what reads it.
  const auto weight = [&](const RowEdge& e) {
    const bool passes =
        row.vertices[static_cast<size_t>(e.from)].passes || row.vertices[static_cast<size_t>(e.to)].passes;
    const bool given = row.vertices[static_cast<size_t>(e.from)].in_arrays.empty();
    return passes ? 10.0 : given ? 3.0 : e.to_port == 0 ? 1.2 : 1.0;
  };
  const auto wishes_of = [&](const std::vector<int>& column, bool left, bool right) {
    std::vector<std::vector<Wish>> all;
    for (int v : column) {
      std::vector<Wish> wishes;
      for (const RowEdge& e : row.edges)
        for (bool to : {true, false}) {
          if ((to ? e.to : e.from) != v || !(to ? left : right)) continue;
          for (size_t w = 0; w < row.wires(e, d); ++w)
            wishes.push_back(
                {row.port_y(e, !to, w) - (row.port_y(e, to, w) - row.vertices[static_cast<size_t>(v)].y),
                 weight(e)});
        }
      if (wishes.empty()) wishes.push_back({row.vertices[static_cast<size_t>(v)].y, 0.01});
      all.push_back(wishes);
    }
    return all;
  };
  for (int round = 0; round < 3; ++round) {
    for (size_t c = 0; c < n; ++c) place(row, row.columns[c], wishes_of(row.columns[c], true, round > 0));
    for (size_t c = n; c-- > 0;) place(row, row.columns[c], wishes_of(row.columns[c], round > 0, true));
  }
  // Sources stand where what reads them wants them.
  for (size_t c = n; c-- > 0;) place(row, row.columns[c], wishes_of(row.columns[c], true, true));
  double top = std::numeric_limits<double>::infinity();
  for (const RowVertex& v : row.vertices) top = std::min(top, v.y + v.g.top);
  for (RowVertex& v : row.vertices) v.y = std::round((v.y - top) * 2) / 2;
}

}  // namespace tilewright
