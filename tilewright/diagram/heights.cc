// The order of the boxes of each column, and their heights.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "tilewright/diagram/rows.h"

namespace tilewright {
namespace {

constexpr double kApart = 4;    // between the extents of neighbours
constexpr double kSpread = 52;  // by which inputs of a box are moved apart at most
constexpr double kNudge = 16;   // the same of what is given, which can stand anywhere

/// Heights that only stack a column, for positions of ports while the order is sought.
void stack(Row& row, size_t column) {
  double y = 0;
  for (int v : row.columns[column]) {
    RowVertex& x = row.vertices[static_cast<size_t>(v)];
    x.y = y - x.g.top;
    y += x.g.bottom - x.g.top + kApart;
  }
}
void stack(Row& row) {
  for (size_t c = 0; c < row.columns.size(); ++c) stack(row, c);
}

/// Crossings of wires between neighbouring columns: pairs of edges that are the other way round on the right, counted from the left one down
/// by sums over the heights on the right (Fenwick's tree).
double crossings(const Diagram& d, const Row& row) {
  struct End {
    double left, right;
    int64_t wires;
  };
  std::vector<std::vector<End>> by_column(row.columns.size());
  for (const RowEdge& e : row.edges)
    by_column[static_cast<size_t>(row.vertices[static_cast<size_t>(e.from)].column)].push_back(
        {row.port_y(e, false, 0), row.port_y(e, true, 0), static_cast<int64_t>(row.wires(e, d))});
  int64_t all = 0;
  for (std::vector<End>& ends : by_column) {
    std::sort(ends.begin(), ends.end(), [](const End& a, const End& b) { return a.left < b.left; });
    std::vector<double> heights;
    for (const End& e : ends) heights.push_back(e.right);
    std::sort(heights.begin(), heights.end());
    heights.erase(std::unique(heights.begin(), heights.end()), heights.end());
    std::vector<int64_t> sums(heights.size() + 1, 0);
    int64_t before = 0;  // wires that are counted so far
    for (size_t k = 0; k < ends.size();) {
      size_t same = k;  // those that begin at one height do not cross
      for (; same < ends.size() && ends[same].left == ends[k].left; ++same) {
        int64_t not_below = 0;
        const auto rank = static_cast<size_t>(
            std::upper_bound(heights.begin(), heights.end(), ends[same].right) - heights.begin());
        for (size_t at = rank; at > 0; at &= at - 1) not_below += sums[at];
        all += (before - not_below) * ends[same].wires;
      }
      for (; k < same; ++k) {
        const auto rank = static_cast<size_t>(
            std::upper_bound(heights.begin(), heights.end(), ends[k].right) - heights.begin());
        for (size_t at = rank; at < sums.size(); at += at & (~at + 1)) sums[at] += ends[k].wires;
        before += ends[k].wires;
      }
    }
  }
  return static_cast<double>(all);
}

}  // namespace

void reduce_crossings(const Diagram& d, Row& row) {
  stack(row);
  const std::vector<std::vector<size_t>> edges_of = row.edges_of_vertices();
  double best = crossings(d, row);
  auto kept = row.columns;
  for (int sweep = 0; sweep < 8 && best > 0; ++sweep) {
    const bool rightwards = sweep % 2 == 0;
    const size_t n = row.columns.size();
    for (size_t step = 1; step < n; ++step) {
      const size_t number = rightwards ? step : n - 1 - step;
      std::vector<int>& column = row.columns[number];
      std::vector<std::pair<double, int>> keyed;
      for (size_t at = 0; at < column.size(); ++at) {
        const int v = column[at];
        double sum = 0, weight = 0;
        for (size_t k : edges_of[static_cast<size_t>(v)]) {
          const RowEdge& e = row.edges[k];
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
      stack(row, number);
    }
    const double now = crossings(d, row);
    if (now < best) {
      best = now;
      kept = row.columns;
    }
  }
  row.columns = kept;
  stack(row);
}

namespace {

/// A height that a wire would have, and how much it matters.
struct Wish {
  double y;
  int weight;
};

/// The median of wishes by weight: the least height with at least half of the weight at it or above it.
class Median {
 public:
  void add(Wish w) {
    if (above_.empty() || w.y <= above_.rbegin()->first) {
      above_.emplace(w.y, w.weight);
      weight_above_ += w.weight;
    } else {
      below_.emplace(w.y, w.weight);
    }
    weight_ += w.weight;
    balance();
  }
  void add(const Median& other) {
    for (const auto* half : {&other.above_, &other.below_})
      for (const auto& [y, weight] : *half) add({y, weight});
  }
  size_t size() const { return above_.size() + below_.size(); }
  double value() const { return above_.empty() ? 0 : above_.rbegin()->first; }

 private:
  void balance() {
    while (weight_above_ * 2 < weight_) {
      const auto first = below_.begin();
      weight_above_ += first->second;
      above_.insert(below_.extract(first));
    }
    while ((weight_above_ - above_.rbegin()->second) * 2 >= weight_) {
      const auto last = std::prev(above_.end());
      weight_above_ -= last->second;
      below_.insert(below_.begin(), above_.extract(last));
    }
  }

  std::multimap<double, int> above_, below_;  ///< up to the median, and the rest
  int64_t weight_above_ = 0, weight_ = 0;
};

/// Puts the vertices of a column at the heights that they wish for, as far as they keep their order and do not overlap: neighbours
/// that would are joined to a block, which takes the median of its wishes.
void place(Row& row, const std::vector<int>& column, const std::vector<std::vector<Wish>>& wishes) {
  struct Block {
    Median wishes;
    size_t count = 0;
  };
  std::vector<double> offset(column.size());
  std::vector<Block> blocks;
  double at = 0;
  for (size_t k = 0; k < column.size(); ++k) {
    const BoxGeometry& g = row.vertices[static_cast<size_t>(column[k])].g;
    if (k > 0) at += row.vertices[static_cast<size_t>(column[k - 1])].g.bottom + kApart - g.top;
    offset[k] = at;
    Block b;
    for (Wish w : wishes[k]) b.wishes.add({w.y - at, w.weight});
    b.count = 1;
    while (!blocks.empty() && blocks.back().wishes.value() > b.wishes.value()) {
      Block& before = blocks.back();
      // The fewer wishes go to the more.
      if (before.wishes.size() > b.wishes.size()) std::swap(before.wishes, b.wishes);
      b.wishes.add(before.wishes);
      b.count += before.count;
      blocks.pop_back();
    }
    blocks.push_back(std::move(b));
  }
  size_t k = 0;
  for (const Block& b : blocks)
    for (size_t n = 0; n < b.count; ++n, ++k)
      row.vertices[static_cast<size_t>(column[k])].y = b.wishes.value() + offset[k];
}

}  // namespace

void align_inputs(const Diagram& d, Row& row, bool given) {
  const std::vector<std::vector<size_t>> edges_of = row.edges_of_vertices();
  for (size_t v = 0; v < row.vertices.size(); ++v) {
    RowVertex& x = row.vertices[v];
    if (x.box < 0 || x.in_arrays.size() < 2) continue;
    std::vector<double> wanted(x.in_arrays.size(), 0);
    std::vector<double> spread(x.in_arrays.size(), kSpread);
    for (size_t k : edges_of[v]) {
      const RowEdge& e = row.edges[k];
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
    return passes ? 1000 : given ? 300 : e.to_port == 0 ? 120 : 100;
  };
  const std::vector<std::vector<size_t>> edges_of = row.edges_of_vertices();
  const auto wishes_of = [&](const std::vector<int>& column, bool left, bool right) {
    std::vector<std::vector<Wish>> all;
    for (int v : column) {
      std::vector<Wish> wishes;
      for (size_t k : edges_of[static_cast<size_t>(v)])
        for (bool to : {true, false}) {
          const RowEdge& e = row.edges[k];
          if ((to ? e.to : e.from) != v || !(to ? left : right)) continue;
          for (size_t w = 0; w < row.wires(e, d); ++w)
            wishes.push_back(
                {row.port_y(e, !to, w) - (row.port_y(e, to, w) - row.vertices[static_cast<size_t>(v)].y),
                 weight(e)});
        }
      if (wishes.empty()) wishes.push_back({row.vertices[static_cast<size_t>(v)].y, 1});
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

void close_gaps(Row& row) {
  constexpr double kBetween = 12;  // between parts
  const size_t n = row.vertices.size();
  std::vector<size_t> part(n);
  for (size_t v = 0; v < n; ++v) part[v] = v;
  const auto root = [&](size_t v) {
    while (part[v] != v) v = part[v] = part[part[v]];
    return v;
  };
  for (const RowEdge& e : row.edges)
    part[root(static_cast<size_t>(e.from))] = root(static_cast<size_t>(e.to));
  // The least moves t with t(below) >= t(above) - room between them, for what stands next to each other; upwards is less.
  struct Pair {
    size_t above, below;
    double room;
  };
  std::vector<Pair> pairs;
  for (size_t v = 0; v < n; ++v) part[v] = root(v);
  std::vector<double> top(n, std::numeric_limits<double>::infinity()), t(n);
  for (size_t v = 0; v < n; ++v)
    top[part[v]] = std::min(top[part[v]], row.vertices[v].y + row.vertices[v].g.top);
  for (size_t v = 0; v < n; ++v) t[v] = -top[part[v]];
  for (const std::vector<int>& column : row.columns)
    for (size_t k = 1; k < column.size(); ++k) {
      const RowVertex &a = row.vertices[static_cast<size_t>(column[k - 1])],
                      &b = row.vertices[static_cast<size_t>(column[k])];
      const size_t above = part[static_cast<size_t>(column[k - 1])],
                   below = part[static_cast<size_t>(column[k])];
      if (above != below)
        pairs.push_back({above, below, std::max(0.0, b.y + b.g.top - a.y - a.g.bottom - kBetween)});
    }
  for (bool moved = true; moved;) {
    moved = false;
    for (const Pair& p : pairs)
      if (t[p.below] < t[p.above] - p.room - 0.01) t[p.below] = t[p.above] - p.room, moved = true;
  }
  for (size_t v = 0; v < n; ++v) row.vertices[v].y += t[part[v]];
}

}  // namespace tilewright
