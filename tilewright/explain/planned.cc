#include "tilewright/explain/planned.h"

#include <fmt/format.h>

#include <cmath>

namespace tilewright::explain {

Integers numbers(const Planned& k, const std::map<std::string, int64_t>& sizes) {
  Sizes known;
  for (const Axis& a : k.compilation.elaborated.axes) {
    if (const auto it = sizes.find(a.name()); it != sizes.end()) known[a.index.size()] = it->second;
    if (a.joined.empty()) continue;  // one axis in the place of several
    int64_t n = 1;
    bool all = true;
    for (const std::string& piece : a.joined) {
      const auto it = sizes.find(piece);
      all = all && it != sizes.end();
      if (all) n *= it->second;
    }
    if (all) known[a.index.size()] = n;
  }
  return values_of(k.model, known);
}

std::string where_tiles_divide(const Model& m, Expr smooth, const std::optional<double>& exact,
                               const Integers& values) {
  if (!exact || !smooth) return "";
  Bindings b;
  for (const auto& [sym, n] : values) b[sym] = double(n);
  for (const Visits& v : m.visits) {
    const auto share = m.symbols.visited.find(v.loop);
    if (share == m.symbols.visited.end()) continue;
    const auto some = value_of(v.elements, values), all = value_of(v.all, values);
    b[share->second] = some && all && *all > 0 ? *some / *all : 1;
  }
  for (Sym s : free_symbols(smooth))
    if (!b.count(s)) return "";
  const double divided = evaluate(smooth, b);
  constexpr double alike = 0.005;
  if (std::fabs(divided - *exact) <= alike * *exact) return "";
  return fmt::format("; that is {} where tiles divide the axes, and counted exactly {}",
                     quantity(divided, "bytes"), quantity(*exact, "bytes"));
}

}  // namespace tilewright::explain
