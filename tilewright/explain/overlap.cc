#include "tilewright/explain/overlap.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tilewright/explain/text.h"

namespace tilewright::explain {

namespace {

/// The tile that a statement of the budget writes: "S" of "S = dot d (Q, K)".
std::string tile_of(const ClockLine& l) { return l.what.substr(0, l.what.find_first_of(" [,")); }

}  // namespace

double Overlap::busy(const std::string& unit) const {
  if (chunk_clocks <= 0) return 0;
  double sum = 0;
  for (const Turn& t : turns)
    if (t.unit == unit && t.chunk == 0) sum += t.end - t.begin;
  return sum / chunk_clocks;
}

std::optional<Overlap> overlap(const ClockBudget& budget, int groups, int ahead, int chunks) {
  Overlap o;
  o.groups = std::max(1, groups);
  o.chunks = chunks;
  double load = 0;
  size_t load_line = 0;
  std::vector<size_t> lines;
  for (size_t n = 0; n < budget.lines.size(); ++n) {
    const ClockLine& l = budget.lines[n];
    if (l.clocks <= 0) continue;
    if (l.role == "load")
      load += l.clocks, load_line = n;
    else
      lines.push_back(n);
    if (std::find(o.units.begin(), o.units.end(), l.role) == o.units.end()) o.units.push_back(l.role);
  }
  if (lines.empty()) return std::nullopt;
  for (size_t n : lines) o.serial += budget.lines[n].clocks;

  struct Group {
    int chunk = 0;
    size_t next = 0;
    double ready = 0;
  };
  std::vector<Group> all(static_cast<size_t>(o.groups));
  std::vector<std::vector<double>> done(static_cast<size_t>(chunks));  // ends of a chunk, group by group
  std::vector<double> loaded;
  double loader = 0;
  std::map<std::string, double> free_at;
  // When chunk c lies on chip; nothing while a slot that it needs is still in use.
  const auto arrival = [&](int c) -> std::optional<double> {
    if (load <= 0) return 0.0;
    while (static_cast<int>(loaded.size()) <= c) {
      const int before = static_cast<int>(loaded.size()) - std::max(1, ahead);
      double begin = loader;
      if (before >= 0) {
        const auto& ends = done[static_cast<size_t>(before)];
        if (static_cast<int>(ends.size()) < o.groups) return std::nullopt;
        begin = std::max(begin, *std::max_element(ends.begin(), ends.end()));
      }
      loader = begin + load;
      o.turns.push_back({"load", -1, static_cast<int>(loaded.size()), load_line, begin, loader});
      loaded.push_back(loader);
    }
    return loaded[static_cast<size_t>(c)];
  };
  for (;;) {
    Group* best = nullptr;
    double earliest = 0;
    for (Group& g : all) {
      if (g.chunk >= chunks) continue;
      const auto there = g.next == 0 ? arrival(g.chunk) : std::optional<double>(0.0);
      if (!there) continue;
      const double begin = std::max({g.ready, *there, free_at[budget.lines[lines[g.next]].role]});
      if (best == nullptr || begin < earliest) best = &g, earliest = begin;
    }
    if (best == nullptr) break;
    const ClockLine& l = budget.lines[lines[best->next]];
    const double end = earliest + l.clocks / o.groups;
    o.turns.push_back(
        {l.role, static_cast<int>(best - all.data()), best->chunk, lines[best->next], earliest, end});
    best->ready = free_at[l.role] = end;
    o.clocks = std::max(o.clocks, end);
    if (++best->next == lines.size()) {
      done[static_cast<size_t>(best->chunk)].push_back(end);
      best->next = 0;
      ++best->chunk;
    }
  }
  // From the begin of a chunk in the first group to that of a later one, away from both ends.
  std::vector<double> begins(static_cast<size_t>(chunks), -1);
  std::map<std::string, double> work;
  for (const Turn& t : o.turns) {
    if (t.chunk == 0) work[t.unit] += t.end - t.begin;
    double& begin = begins[static_cast<size_t>(t.chunk)];
    if (t.group == 0 && begin < 0) begin = t.begin;
  }
  const int first = chunks / 4, last = chunks - 1 - chunks / 4;
  o.chunk_clocks =
      last > first ? (begins[static_cast<size_t>(last)] - begins[static_cast<size_t>(first)]) / (last - first)
                   : o.clocks;
  for (const auto& [unit, n] : work)
    o.chunk_clocks = std::max(o.chunk_clocks, n);  // groups drift within a chunk
  return o;
}

std::string chart(const Overlap& o, size_t width) {
  // The first chunks, in which the order settles.
  const double shown = std::min(o.clocks, o.chunk_clocks * 3.5), step = shown / static_cast<double>(width);
  size_t name = 0;
  for (const std::string& u : o.units) name = std::max(name, u.size());
  std::string out;
  for (const std::string& unit : o.units) {
    std::string row;
    for (size_t c = 0; c < width; ++c) {
      // Whoever has most of the column.
      const double from = step * static_cast<double>(c), to = from + step;
      std::map<int, double> share;
      for (const Turn& t : o.turns)
        if (t.unit == unit) {
          const double part = std::min(to, t.end) - std::max(from, t.begin);
          if (part > 0) share[t.group < 0 ? t.chunk : t.group] += part;
        }
      int most = -1;
      double best = step * 0.5;
      for (const auto& [who, part] : share)
        if (part >= best) best = part, most = who;
      row += most < 0         ? std::string("·")
             : unit == "load" ? std::string(1, char('0' + most % 10))
                              : std::string(1, char('A' + most % 26));
    }
    out += padded(unit, name + 2) + row + fmt::format("  {:.0f} %\n", 100 * o.busy(unit));
  }
  out += padded("clocks", name + 2) + padded("0", width / 2) +
         padded(fmt::format("{:.0f}", shown / 2), width - width / 2) + fmt::format("{:.0f}\n", shown);
  return out;
}

std::string chart_svg(const Overlap& o, const ClockBudget& budget) {
  const double shown = std::min(o.clocks, o.chunk_clocks * 3.5), left = 70, right = 60, lane = 26,
               width = 700;
  const double scale = (width - left - right) / shown;
  const double height = lane * static_cast<double>(o.units.size()) + 30;
  std::string s = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
      "{1:.0f}\">\n"
      "<title>who uses which unit</title>\n<style>\n"
      ".tw-name{{font:11px Helvetica,Arial,'DejaVu Sans',sans-serif;fill:#1b1b1f}}\n"
      ".tw-small{{font:8.5px 'DejaVu Sans Mono',Menlo,Consolas,monospace;fill:#fff}}\n"
      ".tw-faint{{font:8.5px Helvetica,Arial,'DejaVu Sans',sans-serif;fill:#6d6d76}}\n"
      ".tw-lane{{fill:#f4f4f6}}.tw-load{{fill:#b45309}}.tw-matrix{{fill:#1d4ed8}}.tw-special{{fill:#a21caf}}."
      "tw-vector{{fill:#15803d}}\n"
      ".tw-odd{{fill-opacity:.72}}\n"
      "@media (prefers-color-scheme: "
      "dark){{.tw-name{{fill:#ececf0}}.tw-faint{{fill:#a0a0ab}}.tw-lane{{fill:#24262d}}"
      ".tw-load{{fill:#c2761b}}.tw-matrix{{fill:#3f6fe0}}.tw-special{{fill:#b04ac0}}.tw-vector{{fill:#23874a}"
      "}}}\n</style>\n",
      width, height);
  for (size_t u = 0; u < o.units.size(); ++u) {
    const double y = lane * static_cast<double>(u) + 4;
    s += fmt::format("<text class=\"tw-name\" x=\"4\" y=\"{:.1f}\">{}</text>", y + 15, o.units[u]);
    s += fmt::format("<rect class=\"tw-lane\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>",
                     left, y, width - left - right, lane - 4);
    s += fmt::format("<text class=\"tw-faint\" x=\"{:.1f}\" y=\"{:.1f}\">{:.0f} % busy</text>\n",
                     width - right + 6, y + 14, 100 * o.busy(o.units[u]));
    for (const Turn& t : o.turns) {
      if (t.unit != o.units[u] || t.begin >= shown) continue;
      const double x = left + t.begin * scale, w = (std::min(t.end, shown) - t.begin) * scale;
      const ClockLine& l = budget.lines[t.line];
      const std::string what = t.unit == "load" ? fmt::format("chunk {}", t.chunk) : tile_of(l);
      const std::string who =
          t.group < 0 ? "loading role" : fmt::format("group {}", char('A' + t.group % 26));
      s += fmt::format(
          "<rect class=\"tw-{}{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"><title>{}, "
          "chunk {}: {} "
          "({:.0f} to {:.0f})</title></rect>",
          t.unit, t.group % 2 == 1 || (t.group < 0 && t.chunk % 2 == 1) ? " tw-odd" : "", x, y,
          std::max(0.3, w - 0.4), lane - 4, who, t.chunk, escaped(l.what), t.begin, t.end);
      const std::string label = t.group < 0 ? what : fmt::format("{} {}", char('A' + t.group % 26), what);
      if (w > 5.4 * static_cast<double>(label.size()) + 4)
        s += fmt::format("<text class=\"tw-small\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>", x + 3, y + 14,
                         escaped(label));
    }
    s += "\n";
  }
  const double y = height - 10;
  for (int k = 0; k <= 4; ++k)
    s += fmt::format("<text class=\"tw-faint\" x=\"{:.1f}\" y=\"{:.1f}\">{:.0f}{}</text>",
                     left + shown * scale * k / 4 - (k ? 8 : 0), y, shown * k / 4, k == 0 ? " clocks" : "");
  return s + "\n</svg>\n";
}

}  // namespace tilewright::explain
