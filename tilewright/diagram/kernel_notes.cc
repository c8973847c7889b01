#include "tilewright/diagram/kernel_notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tilewright/derive/json.h"
#include "tilewright/expr/simplify.h"
#include "tilewright/model/cost.h"

namespace tilewright {

std::vector<std::string> cost_lines(const Program& p, const TileProgram& t,
                                    const std::map<Sym, int64_t>& sizes) {
  std::vector<std::string> lines;
  const Cost c = cost(p, t);
  const auto line = [&](const std::string& what, Expr e) {
    const std::vector<Sym> symbols = free_symbols(e);
    const bool known =
        std::all_of(symbols.begin(), symbols.end(), [&](Sym s) { return sizes.count(s) != 0; });
    std::string formula = to_string(e);
    if (known) {
      const int64_t value = evaluate_integer(e, sizes);
      const std::string exact = fmt::format("{} B", value), rounded = bytes_text(value);
      formula = exact + (rounded == exact || value == 0 ? "" : " = " + rounded) +
                (symbols.empty() || formula.size() > 60 ? "" : " = " + formula);
    }
    if (formula.size() > 200) formula = "a long sum over blocks: --size gives its value";
    lines.push_back(fmt::format("{:<18} {}", what, formula));
  };
  line("H memory, loaded", c.memory.loaded);
  if (c.loaded_by_tensor.size() > 1)
    for (const auto& [tensor, e] : c.loaded_by_tensor) line("  " + tensor.name(), e);
  line("H memory, stored", c.memory.stored);
  line("H shared, loaded", c.shared.loaded);
  if (!c.shared.stored.is_constant(0)) line("H shared, stored", c.shared.stored);
  line("M shared", c.peak_shared);
  line("M registers", c.peak_registers);
  return lines;
}

std::vector<std::string> kernel_notes(const Program& p, const Derivation& d, const TileProgram& t,
                                      const TileKernel& k, bool cut_by_mask) {
  const KernelText text(k);
  std::vector<std::string> notes;
  std::string grid;
  for (const KernelAxis& a : k.grid)
    grid += fmt::format("{}{}={}{}", grid.empty() ? "" : ", ", a.index.name(), a.block,
                        a.piece == a.block ? "" : fmt::format("/{}", a.piece));
  if (!grid.empty()) notes.push_back("once for each block of " + grid);
  if (k.heaviest_first)
    notes.push_back(fmt::format("blocks of {} from the last to the first", k.grid.back().index.name()));
  if (cut_by_mask) notes.push_back("masks are tested in the chunks that they cut");
  for (const ChunkTable& c : k.chunk_tables)
    notes.push_back(fmt::format("a {} step finds the chunks of {} where {}", name(t.plan.bounds),
                                c.stream.index.name(), text.of(c.some)));
  for (const HostScalar& s : t.scalars)
    notes.push_back(fmt::format("{} = {}", s.sym.name(), text.of(s.value)));
  // The state, as it was derived, of what this kernel holds.
  std::set<std::string> held;
  for (const Tile& tile : k.tiles)
    if (tile.use == Tile::Use::State) held.insert(tile.sym.name());
  if (held.empty()) return notes;
  const auto j = to_json(p, d);
  std::set<std::string> told;
  for (const auto& point : j["points"]) {
    const std::string name = point["name"];
    if (held.count(name.substr(0, name.find('['))) && told.insert(name).second)
      notes.push_back(fmt::format("point {}: {}", name, point["meaning"].get<std::string>()));
  }
  for (const auto& r : j["reductions"])
    for (const char* field : {"state", "repair"})
      for (const auto& said : r[field]) {
        const std::string line = said.get<std::string>();
        if (line.rfind("the point", 0) == 0) continue;
        if (told.insert(line).second) notes.push_back(fmt::format("{} {}", field, line));
      }
  return notes;
}

}  // namespace tilewright
