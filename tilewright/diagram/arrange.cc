#include "tilewright/diagram/arrange.h"

#include <algorithm>
#include <map>

namespace tilewright {

using Kind = DiagramBox::Kind;

bool holds(const std::vector<Sym>& axes, Sym axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

int wire_of(const DiagramArray& a, Sym axis) {
  for (size_t k = 0; k < a.wires.size(); ++k)
    if (a.wires[k].axis == axis) return static_cast<int>(k);
  return -1;
}

std::vector<std::vector<int>> readers_of(const Diagram& d) {
  std::vector<std::vector<int>> readers(d.arrays.size());
  for (size_t b = 0; b < d.boxes.size(); ++b)
    for (int a : d.boxes[b].inputs) {
      std::vector<int>& r = readers[static_cast<size_t>(a)];
      if (r.empty() || r.back() != static_cast<int>(b)) r.push_back(static_cast<int>(b));
    }
  return readers;
}

namespace {

/// Ranks of axes, higher ones further down.
using Ranks = std::map<Sym, std::vector<int>>;

class WireOrder {
 public:
  explicit WireOrder(Diagram& d)
      : d_(d), readers_(readers_of(d)), wanted_(d.arrays.size()), known_(d.arrays.size()) {}

  void run() {
    for (DiagramBox& box : d_.boxes)
      for (int a : box.outputs) sort(box, d_.arrays[static_cast<size_t>(a)], wanted(a));
  }

 private:
  /// How the first box that reads the array wants its wires.
  const Ranks& wanted(int array) {
    const auto at = static_cast<size_t>(array);
    if (known_[at]) return wanted_[at];
    known_[at] = true;
    if (readers_[at].empty()) return wanted_[at];
    const DiagramBox& box = d_.boxes[static_cast<size_t>(readers_[at][0])];
    if (box.kind == Kind::Load || box.kind == Kind::Store || box.kind == Kind::Step) return wanted_[at];
    Ranks later;
    if (!box.outputs.empty()) later = wanted(box.outputs[0]);
    Ranks ranks;
    for (const DiagramWire& w : d_.arrays[at].wires) {
      std::vector<int> rank;
      if (box.kind == Kind::Contract && box.inputs.size() > 2 && box.inputs[2] == array) {
        rank.push_back(0);  // what the sum is added to
      } else if (box.kind == Kind::Contract) {
        const bool upper = box.inputs[0] == array;
        const int other = box.inputs[upper ? 1 : 0];
        const bool summed = holds(box.enters, w.axis);
        const bool shared = wire_of(d_.arrays[static_cast<size_t>(other)], w.axis) >= 0;
        rank.push_back(upper ? (summed ? 2 : shared ? 1 : 0) : (summed ? 0 : shared ? 1 : 2));
      } else {
        rank.push_back(holds(box.enters, w.axis) ? 1 : 0);
      }
      if (auto it = later.find(w.axis); it != later.end() && rank[0] != 2)
        rank.insert(rank.end(), it->second.begin(), it->second.end());
      ranks[w.axis] = rank;
    }
    return wanted_[at] = ranks;
  }

  void sort(const DiagramBox& box, DiagramArray& out, const Ranks& ranks) {
    // As the wires come out of the box: those that pass, input by input, then those that it makes.
    std::vector<Sym> natural;
    for (int a : box.inputs)
      for (const DiagramWire& w : d_.arrays[static_cast<size_t>(a)].wires)
        if (!holds(natural, w.axis) && !holds(box.leaves, w.axis)) natural.push_back(w.axis);
    const auto place = [&](const DiagramWire& w) {
      const auto it = std::find(natural.begin(), natural.end(), w.axis);
      return it - natural.begin();
    };
    if (!box.inputs.empty())
      std::stable_sort(out.wires.begin(), out.wires.end(),
                       [&](const DiagramWire& a, const DiagramWire& b) { return place(a) < place(b); });
    std::stable_sort(out.wires.begin(), out.wires.end(), [&](const DiagramWire& a, const DiagramWire& b) {
      const auto x = ranks.find(a.axis), y = ranks.find(b.axis);
      if (x == ranks.end() || y == ranks.end()) return false;
      return x->second < y->second;
    });
  }

  Diagram& d_;
  std::vector<std::vector<int>> readers_;
  std::vector<Ranks> wanted_;
  std::vector<bool> known_;
};

}  // namespace

void order_wires(Diagram& d) { WireOrder(d).run(); }

void assign_columns(Diagram& d) {
  const auto readers = readers_of(d);
  const auto box_of = [&](int array) {
    return static_cast<size_t>(d.arrays[static_cast<size_t>(array)].from);
  };
  const auto is_source = [&](size_t b) { return d.boxes[b].kind == Kind::Source; };
  // Stage by stage, each right of the one before.
  int stages = 0;
  for (const DiagramBox& box : d.boxes) stages = std::max(stages, box.stage + 1);
  std::vector<int> first_of(static_cast<size_t>(stages), 1), last_of(static_cast<size_t>(stages), 1);
  for (int stage = 0, begin = 1; stage < stages; ++stage) {
    first_of[static_cast<size_t>(stage)] = begin;
    int last = begin - 1;
    for (size_t b = 0; b < d.boxes.size(); ++b) {
      DiagramBox& box = d.boxes[b];
      if (box.stage != stage) continue;
      box.column = is_source(b) ? 0 : begin;
      for (int a : box.inputs)
        if (!is_source(box_of(a))) box.column = std::max(box.column, d.boxes[box_of(a)].column + 1);
      if (!is_source(b)) last = std::max(last, box.column);
    }
    last_of[static_cast<size_t>(stage)] = last;
    begin = last + 1;
  }
  // The first column at which an output of the box is read; -1: nowhere.
  const auto needed = [&](size_t b) {
    int first = -1;
    for (int a : d.boxes[b].outputs)
      for (int r : readers[static_cast<size_t>(a)]) {
        const int c = d.boxes[static_cast<size_t>(r)].column;
        first = first < 0 ? c : std::min(first, c);
      }
    return first;
  };
  for (size_t b = d.boxes.size(); b-- > 0;) {
    DiagramBox& box = d.boxes[b];
    if (is_source(b) || box.outputs.empty()) continue;
    const int first = std::min(needed(b), last_of[static_cast<size_t>(box.stage)] + 1);
    if (first <= box.column + 1) continue;
    // Wires that would run on beside the boxes in between: what only this box reads, against what it gives.
    size_t before = 0, after = 0;
    for (int a : box.inputs)
      if (!is_source(box_of(a)) && readers[static_cast<size_t>(a)].size() == 1)
        before += d.arrays[static_cast<size_t>(a)].wires.size();
    for (int a : box.outputs) after += d.arrays[static_cast<size_t>(a)].wires.size();
    if (before <= after) box.column = first - 1;
  }
  for (size_t b = 0; b < d.boxes.size(); ++b)
    if (is_source(b)) d.boxes[b].column = std::max(0, needed(b) - 1);
  int least = 1 << 30;
  for (const DiagramBox& box : d.boxes) least = std::min(least, box.column);
  for (DiagramBox& box : d.boxes) box.column -= least;
}

int Diagram::columns() const {
  int n = 0;
  for (const DiagramBox& b : boxes) n = std::max(n, b.column + 1);
  return n;
}

}  // namespace tilewright
