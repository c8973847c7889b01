#include "tilewright/driver/choices.h"

#include <algorithm>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tilewright/driver/price.h"

namespace tilewright {
namespace {

std::string amount(double x, const char* unit) {
  constexpr const char* prefixes[] = {"", "k", "M", "G", "T", "P", "E"};
  int k = 0;
  while (x >= 999.5 && k < 6) x /= 1000, ++k;
  return fmt::format("{:.3g} {}{}", x, prefixes[k], unit);
}

/// What a name stands for, as the kernel that stores it or the program defines it: "y_1[m] = sum[k](x[m, k] ** 2)". Empty for an axis.
std::string definition_of(const CompiledProgram& c, const std::string& name) {
  const auto found = [&](const Program& p) -> std::string {
    std::istringstream lines(print(p));
    for (std::string line; std::getline(lines, line);) {
      const size_t end = line.find(" = ");
      if (end == std::string::npos || line.starts_with("axis ") || line.starts_with("param ")) continue;
      if (line.substr(0, line.find_first_of("[ ")) == name) return line;
    }
    return {};
  };
  for (const Compilation& k : c.kernels)
    if (std::string line = found(k.program); !line.empty()) return line;
  return found(c.program);
}

/// The columns of the table of choices.
std::string columns(const std::string& way, const std::string& taken, const std::string& bytes,
                    const std::string& products, const std::string& operations, const std::string& kernels,
                    const std::string& total) {
  return fmt::format("#   {:<34}{:<7}{:>9}{:>11}{:>11}{:>9}{:>10}\n", way, taken, bytes, products, operations,
                     kernels, total);
}
std::string row(const std::string& way, bool taken, const Price& p) {
  return columns("  " + way, taken ? "taken" : "", amount(p.bytes, "B"), amount(p.products, "op"),
                 amount(p.operations, "op"), std::to_string(p.kernels), amount(p.total, "B"));
}

/// What was decided about, the way taken and the other one.
struct Ways {
  std::string about, taken, other;
};
Ways ways_of(const Choice& x) {
  switch (x.kind) {
    case Choice::Kind::Stored: return {x.what, "stored", "computed where it is read"};
    case Choice::Kind::Fused: return {x.what, "computed where it is read", "stored"};
    case Choice::Kind::Held: return {"axis " + x.what, "held on chip, read once", "read in passes"};
    case Choice::Kind::Read: return {"axis " + x.what, "read in passes", "held on chip, read once"};
    case Choice::Kind::Apart: return {x.what + " | " + x.with, "two kernels", "one kernel"};
  }
  return {};
}

nlohmann::ordered_json price_json(const Price& p) {
  return {{"bytes", p.bytes},
          {"products", p.products},
          {"operations", p.operations},
          {"kernels", p.kernels},
          {"total", p.total}};
}

}  // namespace

std::string choices_text(const CompiledProgram& c, Target plans) {
  std::vector<Choice> all = c.partition.choices;
  for (const Compilation& k : c.kernels) all.insert(all.end(), k.choices.begin(), k.choices.end());
  if (all.empty()) return {};
  std::vector<std::string> names;
  for (size_t k = 0; k < c.kernels.size(); ++k) names.push_back(c.name_of(k));
  std::string text = fmt::format("# made as {} kernel{}: {}\n", names.size(), names.size() == 1 ? "" : "s",
                                 fmt::join(names, " | "));
  std::set<std::string> told;
  std::string definitions;
  for (const Choice& x : all)
    for (const std::string& list : {x.what, x.with}) {
      std::istringstream each(list);
      for (std::string name; std::getline(each >> std::ws, name, ',');)
        if (told.insert(name).second)
          if (const std::string line = definition_of(c, name); !line.empty())
            definitions += fmt::format("#   {}\n", line);
    }
  if (!definitions.empty()) text += "# where\n" + definitions;
  text += "#\n" + columns("", "", "bytes", "products", "others", "kernels", "total");
  for (const Choice& x : all) {
    const Ways ways = ways_of(x);
    text += fmt::format("#   {}\n", ways.about) + row(ways.taken, true, x.taken);
    if (x.refused.empty())
      text += row(ways.other, false, x.otherwise);
    else
      text += fmt::format("#     {:<32}refused, since {}\n", ways.other, x.refused);
  }
  const Balance b = balance_of(plans);
  text += fmt::format(
      "# The total is in bytes that cross memory once: a byte read again counts {:g}; {:g} operations of "
      "products ({:g} with 16-bit operands) or {:g}\n"
      "# other{} count as a byte, a kernel's start as {}. The other way would have to save {:g} %. Axes "
      "without a literal size count as {}.\n",
      b.again, b.products, b.narrow_products, b.operations, b.operations == 1 ? "" : "s",
      amount(b.launch, "B"), 100 * least_saving, nominal_size(plans));
  return text;
}

nlohmann::ordered_json choices_json(const CompiledProgram& c) {
  std::vector<Choice> choices = c.partition.choices;
  for (const Compilation& k : c.kernels) choices.insert(choices.end(), k.choices.begin(), k.choices.end());
  constexpr const char* kinds[] = {"stored", "fused", "held", "read", "apart"};
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Choice& x : choices) {
    nlohmann::ordered_json one{{"kind", kinds[size_t(x.kind)]}, {"what", x.what}};
    if (!x.with.empty()) one["with"] = x.with;
    one["taken"] = price_json(x.taken);
    if (x.refused.empty())
      one["otherwise"] = price_json(x.otherwise);
    else
      one["refused"] = x.refused;
    all.push_back(one);
  }
  return all;
}

std::string read_text(const CompiledProgram& c, size_t kernel, const char* mark) {
  std::string text;
  for (const Input& in : c.kernels.at(kernel).program.inputs) {
    for (size_t k = 0; k < c.kernels.size(); ++k) {
      const auto& outputs = c.kernels[k].program.outputs;
      const bool stores = k != kernel && std::any_of(outputs.begin(), outputs.end(),
                                                     [&](const Output& o) { return o.sym == in.sym; });
      if (!stores) continue;
      text += fmt::format("{} reads {}, stored by kernel {}\n", mark, definition_of(c, in.sym.name()), k + 1);
      break;
    }
  }
  return text;
}

}  // namespace tilewright
