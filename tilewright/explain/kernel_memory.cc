// recolour, divisibility, lifetimes, configurations: levels of memory and tile sizes.
#include "tilewright/explain/kernel_steps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tilewright/diagram/text.h"
#include "tilewright/expr/simplify.h"
#include "tilewright/tile/lifetime.h"
#include "tilewright/tile/statements.h"

namespace tilewright::explain {

void KernelSteps::recolour() {
  Step& s = add("recolour", "levels of memory");
  std::vector<std::string> shared, registers, matrix;
  for (const TileKernel& k : t_.kernels)
    for (const Tile& tile : k.tiles) {
      const Shade shade = tile.level == Level::Shared   ? Shade::Shared
                          : tile.level == Level::Memory ? Shade::Memory
                                                        : Shade::Registers;
      shades_[tile.sym.name()] = shade;
      (tile.level == Level::Shared ? shared : registers).push_back(tile.sym.name());
    }
  for (Sym tile : on_matrix_unit_)
    if (shades_[tile.name()] != Shade::Matrix) {
      shades_[tile.name()] = Shade::Matrix;
      matrix.push_back(tile.name());
    }
  const bool gpu = o_.machine.gpu;
  s.changed = fmt::format(
      "{} {} in {}; {} in {}. Legal since every tile is used only inside the block that makes it.",
      shared.empty() ? "No operand" : listed(shared), shared.size() == 1 || shared.empty() ? "lies" : "lie",
      gpu ? "shared memory, which all groups of the block read"
          : "the memory of a task, packed for the products that read it",
      "state and intermediate tiles",
      gpu ? "registers" : "the memory of the task too, which a cache near the core holds");
  if (!matrix.empty())
    s.changed += fmt::format(" {} {} made by the matrix unit ({}).", listed(matrix),
                             matrix.size() == 1 ? "is" : "are", atoms_.begin()->second);
  else if (!mapped_)
    s.changed += fmt::format(" Which unit computes them is not known: {}.", unmapped_);
  else
    s.changed += fmt::format(" No product runs on a matrix unit: {}.", why_no_matrix_unit());
  CodeStyle style{.detail = CodeStyle::Detail::Opened, .levels = true, .on_matrix_unit = on_matrix_unit_};
  s.code = code(style);
  s.shades = shades_;
  s.formulas = {transfers("memory to blocks")};
  const Expr inner = both(m_.exact.shared);
  if (!inner.is_constant(0))
    s.formulas.push_back(formula("H shared", inner, both(m_.smooth.shared), "shared memory to registers"));
  if (gpu) {
    s.formulas.push_back(formula("M shared", m_.exact.peak_shared, m_.exact.peak_shared, room_text(room())));
    s.formulas.push_back(
        formula("M registers", m_.exact.peak_registers, m_.exact.peak_registers, room_text(file())));
  } else {
    s.formulas.push_back(one_memory(room_text(room())));
  }
  pictures(s, planned_, Labels::Symbols, true);
}

std::string KernelSteps::why_no_matrix_unit() const {
  bool any = false;
  for (const TileKernel& k : t_.kernels)
    for_each_stmt(k.body, [&](const Stmt& x) { any = any || std::holds_alternative<Dot>(x.node); });
  if (!any) return "the program has no product of two tiles";
  if (!o_.machine.gpu) return "on this processor they run on vector units";
  return "its operands are f32, which it would round, or the tiles do not fit its shape";
}

double KernelSteps::room() const {
  const MemoryLevel* l = o_.machine.level("shared");
  return !l ? 0 : l->per_block ? l->per_block->value : l->capacity ? l->capacity->value : 0;
}

double KernelSteps::file() const {
  const MemoryLevel* l = o_.machine.level("registers");
  return l && l->capacity ? l->capacity->value : 0;
}

std::string KernelSteps::room_text(double n) {
  return n > 0 ? fmt::format("of {}", quantity(n, "bytes")) : "capacity not known";
}

void KernelSteps::divisibility() {
  const std::vector<Divisor> all = divisors(m_, o_.machine);
  const std::map<Sym, int64_t> of = multiples(m_, o_.machine);
  Step& s = add("divisibility", "what tiles are multiples of");
  Table table{"", {"tile", "multiple of", "because of"}, {}, {false, true}};
  std::vector<std::string> several;
  for (const auto& [tile, n] : of) {
    std::vector<std::string> why;
    int count = 0;
    for (const Divisor& d : all)
      if (d.tile == tile && d.of > 1) why.push_back(fmt::format("{} ({})", d.why, d.of)), ++count;
    if (count > 1) several.push_back(tile.name());
    table.rows.push_back({tile.name(), fmt::format("{}", n), why.empty() ? "nothing" : listed(why)});
  }
  s.applies = std::any_of(of.begin(), of.end(), [](const auto& x) { return x.second > 1; });
  if (!s.applies) {
    s.changed =
        of.empty()
            ? "Every axis is whole or cut into single indices: no tile size is left to choose."
            : fmt::format("Tiles may have any size: {}.",
                          o_.machine.line_bytes || o_.machine.vector_bytes
                              ? "no product and no contiguous axis asks for more"
                              : "the machine file names neither a line of memory nor a unit with a shape");
    return;
  }
  s.changed = fmt::format(
      "Superscripts say what each tile size must be a multiple of, so that units are full and lines of "
      "memory are read whole.{} Legal since tiles that do not divide an axis "
      "leave a last block that is cut short.",
      several.empty()
          ? ""
          : fmt::format(" Of several reasons ({}) it is the least common multiple.", listed(several)));
  s.code = code({.detail = CodeStyle::Detail::Folded, .multiples = of});
  s.shades = shades_;
  s.formulas = {transfers(), one_memory()};
  s.tables.push_back(table);
  pictures(s, planned_, Labels::Multiples, true);
}

void KernelSteps::lifetimes() {
  Step& s = add("lifetimes", "where tiles are born and die");
  const bool gpu = o_.machine.gpu;
  s.shades = shades_;
  std::string peaks;
  for (size_t n = 0; n < t_.kernels.size(); ++n) {
    const TileKernel& k = t_.kernels[n];
    const Lifetime lifetime(k);
    std::vector<CodeLine> lines =
        pseudocode(t_, n, m_.symbols, {.detail = CodeStyle::Detail::Opened, .numbers = true});
    if (t_.kernels.size() > 1)
      s.code.push_back({0, fmt::format("# kernel {}: {}", n + 1, k.name), "", "", nullptr});
    std::map<Sym, std::pair<size_t, size_t>> lives;
    int64_t most = -1, most_registers = -1;
    size_t at = 0, at_registers = 0;
    std::vector<std::string> held, held_registers;
    for (size_t l = 0; l < lines.size(); ++l) {
      lines[l].margin = fmt::format("{:>2}  {:>9}", l + 1, "");
      const Stmt* x = lines[l].stmt;
      if (!x || inner_body(*x)) continue;
      int64_t on_shared = 0, in_registers = 0;
      std::vector<std::string> names, names_registers;
      for (Sym sym : lifetime.during(*x)) {
        const Tile& tile = k.tile(sym);
        const bool near = gpu && tile.level != Level::Shared;
        (near ? in_registers : on_shared) += full_bytes(k, tile);
        (near ? names_registers : names).push_back(sym.name());
        const auto [life, fresh] = lives.try_emplace(sym, l, l);
        life->second.second = l;
      }
      lines[l].margin =
          gpu ? fmt::format("{:>2}  {:>9} {:>9}", l + 1, bytes_text(on_shared), bytes_text(in_registers))
              : fmt::format("{:>2}  {:>9}", l + 1, bytes_text(on_shared));
      if (on_shared > most) most = on_shared, at = l, held = names;
      if (in_registers > most_registers)
        most_registers = in_registers, at_registers = l, held_registers = names_registers;
    }
    for (size_t l = 0; l < lines.size(); ++l)
      if (lines[l].margin.size() < (gpu ? 23u : 13u))
        lines[l].margin = fmt::format("{:>2}  {:>{}}", l + 1, "", gpu ? 19 : 9);
    lines[at].margin += gpu ? "" : " M";
    const auto total = [&](size_t line, int64_t bytes, const std::vector<std::string>& names,
                           const char* what) {
      return fmt::format(" {} is the total at line {}: {} = {}.", what, line + 1,
                         fmt::format("{}", fmt::join(names, " + ")), bytes_text(bytes));
    };
    if (!held.empty()) peaks += total(at, most, held, gpu ? "M of shared memory" : "M");
    if (gpu && !held_registers.empty())
      peaks += total(at_registers, most_registers, held_registers, "M of registers");
    Table table{t_.kernels.size() > 1 ? k.name : "",
                {"tile", "dtype", "level", "bytes", "born", "dead"},
                {},
                {false, false, false, true, true, true}};
    std::vector<size_t> births;
    for (const Tile& tile : k.tiles) {
      const auto life = lives.find(tile.sym);
      if (life == lives.end()) continue;
      births.push_back(life->second.first);
      table.rows.push_back(
          {tile_text(k, tile, m_.symbols, {.numbers = true}), name(tile.dtype),
           std::string(name(tile.level)) + (tile.slots > 1 ? fmt::format(", ring of {}", tile.slots)
                                            : tile.kept    ? ", kept"
                                                           : ""),
           bytes_text(full_bytes(k, tile)), fmt::format("line {}", life->second.first + 1),
           tile.use == Tile::Use::State ? fmt::format("line {}, carried", life->second.second + 1)
                                        : fmt::format("line {}", life->second.second + 1)});
    }
    std::vector<size_t> order(births.size());
    for (size_t r = 0; r < order.size(); ++r) order[r] = r;
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return births[a] < births[b]; });
    std::vector<std::vector<std::string>> sorted;
    for (size_t r : order) sorted.push_back(std::move(table.rows[r]));
    table.rows = std::move(sorted);
    s.tables.push_back(table);
    for (CodeLine& l : lines) s.code.push_back(std::move(l));
  }
  s.changed = fmt::format(
      "A tile takes memory from the statement that makes it to the last one that reads it{}; before each "
      "line stands what is live there{}.{}",
      t_.plan.stages > 1 ? fmt::format(", a ring {} times", t_.plan.stages) : "",
      gpu ? ": shared memory, then registers" : "", peaks);
  if (gpu)
    s.formulas = {
        formula("M shared", m_.exact.peak_shared, m_.exact.peak_shared, room_text(room())),
        formula("M registers", m_.exact.peak_registers, m_.exact.peak_registers, room_text(file()))};
  else
    s.formulas = {one_memory(room_text(room()))};
  s.formulas.insert(s.formulas.begin(), transfers());
  pictures(s, planned_, Labels::Numbers, true, true);
}

Integers KernelSteps::with(const std::map<Sym, int64_t>& tiles) const {
  Integers v = values_;
  for (const auto& [sym, n] : tiles) v[sym] = n;
  for (const auto& [index, piece] : m_.symbols.piece) {
    const Sym block = m_.symbols.block.at(index);
    v[piece] = std::max<int64_t>(1, v.at(block) * m_.symbols.values.at(piece) / m_.symbols.values.at(block));
  }
  return v;
}

void KernelSteps::configurations() {
  Step& s = add("configurations", "tile sizes and what they cost");
  s.shades = shades_;
  std::map<Sym, int64_t> plan;
  for (const auto& [index, sym] : m_.symbols.block) plan[sym] = m_.symbols.values.at(sym);
  if (plan.empty()) {
    s.applies = false;
    s.changed = "Every axis is whole or cut into single indices: there is one configuration.";
    s.formulas = {transfers(), one_memory()};
    return;
  }
  const auto best = best_tiles(m_, o_.machine, values_);
  std::vector<Configuration> all{{plan, "the plan"}};
  const auto also = [&](std::map<Sym, int64_t> tiles, const std::string& note) {
    for (Configuration& c : all)
      if (c.tiles == tiles) {
        if (!note.empty()) c.note += ", " + note;
        return;
      }
    all.push_back({std::move(tiles), note});
  };
  if (best) {
    std::map<Sym, int64_t> tiles = plan;
    for (const auto& [sym, n] : best->tiles) tiles[sym] = n;
    also(tiles, "least H that fits");
  }
  const std::map<Sym, int64_t> of = multiples(m_, o_.machine);
  for (const auto& [sym, n] : plan)
    for (const int64_t other : {n / 2, n * 2}) {
      if (other < 1) continue;
      std::map<Sym, int64_t> tiles = plan;
      tiles[sym] = other;
      const int64_t unit = of.count(sym) ? of.at(sym) : 1;
      also(tiles, other % unit ? fmt::format("no multiple of {}", unit) : "");
    }
  const bool gpu = o_.machine.gpu;
  Table table{"", {}, {}, {}};
  for (const auto& [sym, n] : plan) table.head.push_back(sym.name()), table.right.push_back(true);
  const auto column = [&](const std::string& head, bool right) {
    table.head.push_back(head), table.right.push_back(right);
  };
  if (gpu)
    column("shared", true), column("registers", true);
  else
    column("M", true);
  column("fits", false), column("H", false), column("", false);
  const Expr held = gpu ? m_.exact.peak_shared : m_.held, near = m_.exact.peak_registers;
  struct Row {
    double h;
    std::vector<std::string> cells;
  };
  std::vector<Row> rows;
  for (const Configuration& c : all) {
    const Integers v = with(c.tiles);
    std::vector<std::string> cells;
    for (const auto& [sym, n] : c.tiles) cells.push_back(fmt::format("{}", n));
    const double a = value_of(held, v).value_or(0), b = value_of(near, v).value_or(0);
    const auto share = [](double n, double all_of_it) {
      return all_of_it > 0 ? fmt::format("{} {:>3.0f} %", quantity(n, "bytes"), 100 * n / all_of_it)
                           : quantity(n, "bytes");
    };
    cells.push_back(share(a, room()));
    if (gpu) cells.push_back(share(b, file()));
    const bool fits = (room() <= 0 || a <= room()) && (!gpu || file() <= 0 || b <= file());
    cells.push_back(fits ? "yes" : "no");
    const auto moved =
        transferred(m_, both(m_.exact.memory), f_.with_tiles(both(m_.smooth.memory), c.tiles), v);
    cells.push_back(moved ? quantity(*moved, "bytes")
                          : f_.text(f_.with_tiles(both(m_.smooth.memory), c.tiles)));
    cells.push_back(c.note);
    rows.push_back({moved.value_or(0), cells});
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.h < b.h; });
  for (Row& r : rows) table.rows.push_back(std::move(r.cells));
  s.changed = fmt::format(
      "Numbers take the place of symbols: the plan is `{}`. Beside it {}, and each tile halved and doubled.",
      print(p_, t_.plan),
      best ? fmt::format("stand the tiles that move least of {} that fit", best->tried)
           : "stands no search: its formulas are no sums of products of powers");
  s.code = code({.detail = CodeStyle::Detail::Folded, .numbers = true});
  s.formulas = {transfers("at the plan's tiles")};
  if (gpu)
    s.formulas.insert(
        s.formulas.end(),
        {formula("M shared", m_.exact.peak_shared, m_.exact.peak_shared, room_text(room())),
         formula("M registers", m_.exact.peak_registers, m_.exact.peak_registers, room_text(file()))});
  else
    s.formulas.push_back(one_memory(room_text(room())));
  s.tables.push_back(table);
  pictures(s, planned_, Labels::Numbers, true);
}

}  // namespace tilewright::explain
