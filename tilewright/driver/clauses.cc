#include "tilewright/driver/clauses.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tilewright/plan/axes.h"

namespace tilewright {

std::vector<std::string> names_of(const std::vector<Sym>& symbols) {
  std::vector<std::string> names;
  for (Sym s : symbols) names.push_back(s.name());
  return names;
}

bool same_names(const std::vector<ScheduleSections::Name>& written, const std::vector<Sym>& symbols) {
  std::vector<std::string> given, names = names_of(symbols);
  for (const auto& n : written) given.push_back(n.text);
  std::sort(given.begin(), given.end());
  std::sort(names.begin(), names.end());
  return given == names;
}

Forced forced_by(const Program& elaborated, const ScheduleSections& sections) {
  const std::vector<Sym> holding = holding_reductions(elaborated);
  const auto resolve = [&](const ScheduleSections::Name& n, const char* clause) {
    for (Sym s : holding)
      if (s.name() == n.text) return s;
    for (const Definition& d : elaborated.definitions)
      if (d.sym.name() == n.text)
        throw UserError(n.span, fmt::format("`{}` holds no reduction", n.text),
                        "it costs little and is computed where it is read; name a definition that holds one");
    const std::string near = nearest_name(n.text, names_of(holding));
    throw UserError(n.span, fmt::format("`{}` names no definition: `{}`", clause, n.text),
                    near.empty() ? fmt::format("definitions that hold a reduction are {}",
                                               fmt::join(names_of(holding), ", "))
                                 : fmt::format("did you mean `{}`?", near));
  };
  Forced forced;
  for (const auto& n : sections.store) forced.store.push_back(resolve(n, "store"));
  for (const auto& n : sections.fuse) {
    const Sym s = resolve(n, "fuse");
    if (contains(forced.store, s))
      throw UserError(n.span, fmt::format("`{}` is to be stored and to be fused", n.text),
                      "name it in one of the clauses");
    forced.fuse.push_back(s);
  }
  return forced;
}

StoredAndFused stored_and_fused(const Program& p, const Partition& partition) {
  StoredAndFused out;
  for (const StoredArray& a : partition.arrays)
    if (p.definition(a.definition)) out.stored.push_back(a.definition);
  // What is stored as an operand has no name that `store` knows, and `fuse` of what it is made from would forbid it.
  std::vector<Sym> of_operands;
  for (const Part& part : partition.parts)
    if (std::any_of(part.stores.begin(), part.stores.end(), [&](Sym s) { return !p.definition(s); }))
      for (const Definition& d : part.program.definitions) of_operands.push_back(d.sym);
  for (Sym s : partition.fused)
    if (p.definition(s) && !contains(of_operands, s)) out.fused.push_back(s);
  return out;
}

std::string to_text(const StoredAndFused& named) {
  std::string text;
  if (!named.stored.empty()) text += fmt::format("store {}\n", fmt::join(names_of(named.stored), ", "));
  if (!named.fused.empty()) text += fmt::format("fuse {}\n", fmt::join(names_of(named.fused), ", "));
  return text;
}

bool says_nothing(const ScheduleRange& r) {
  bool comment = false;
  for (size_t k = r.begin; k < r.end; ++k) {
    const char c = r.source->text[k];
    comment = (comment || c == '#') && c != '\n';
    if (!comment && std::string(" \t\r\n;").find(c) == std::string::npos) return false;
  }
  return true;
}

std::string blanked(const ScheduleRange& r) {
  std::string text = r.source->text;
  for (size_t k = 0; k < text.size(); ++k)
    if ((k < r.begin || k >= r.end) && text[k] != '\n') text[k] = ' ';
  return text;
}

}  // namespace tilewright
