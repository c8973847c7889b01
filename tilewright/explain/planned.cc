#include "tilewright/explain/planned.h"

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

}  // namespace tilewright::explain
