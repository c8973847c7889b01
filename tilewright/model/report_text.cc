// Reports as aligned text, JSON, LaTeX and Markdown.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "tilewright/expr/latex.h"
#include "tilewright/model/report.h"

namespace tilewright {
namespace {

std::string value_text(const ReportLine& l) {
  if (!l.value) return {};
  const double v = *l.value;
  if (l.unit == "bytes" || l.unit == "s" || l.unit == "op/s" || l.unit == "bytes/s")
    return quantity(v, l.unit);
  if (l.unit == "op") return quantity(v, "op");
  const std::string n =
      v == double(int64_t(v)) && v < 1e15 ? fmt::format("{:.0f}", v) : fmt::format("{:.4g}", v);
  return l.unit.empty() || l.unit == "clocks" || l.unit == "multiply-adds" || l.unit == "results" ||
                 l.unit == "instructions"
             ? n
         : l.unit == "%" ? fmt::format("{:.1f} %", v)
                         : fmt::format("{} {}", n, l.unit);
}

/// Columns that a text takes on a terminal.
size_t width_of(const std::string& s) {
  return size_t(std::count_if(s.begin(), s.end(),
                              [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string padded(const std::string& s, size_t width) {
  const size_t n = width_of(s);
  return n < width ? s + std::string(width - n, ' ') : s;
}

/// What most lines of a section assume: it stands in the title, and lines that assume otherwise say so themselves.
std::vector<std::string> common_keys(const ReportSection& s) {
  std::map<std::vector<std::string>, int> count;
  for (const ReportLine& l : s.lines)
    if (!l.assumes.empty()) ++count[l.assumes];
  std::vector<std::string> most;
  int n = 0;
  for (const auto& [keys, times] : count)
    if (times > n) most = keys, n = times;
  return n > 1 || s.lines.size() == 1 ? most : std::vector<std::string>{};
}

std::string keys_text(const std::vector<std::string>& keys) {
  return keys.empty() ? "" : fmt::format("[{}]", fmt::join(keys, " "));
}

/// A formula and a note as one text.
std::string body(const ReportLine& l) {
  std::string s = l.formula ? to_string(l.formula) : "";
  if (!l.note.empty()) s += (s.empty() ? "" : " (") + l.note + (s.empty() ? "" : ")");
  return s;
}

std::string sizes_text(const Report& r) {
  std::vector<std::string> all;
  for (const auto& [axis, n] : r.sizes) all.push_back(fmt::format("{}={}", axis, n));
  return all.empty() ? "none" : fmt::format("{}", fmt::join(all, ", "));
}

std::string title(const Report& r) {
  return r.kernel.empty() ? r.program : fmt::format("{}, kernel {}", r.program, r.kernel);
}

std::vector<const Assumption*> used(const std::vector<Report>& reports) {
  std::vector<const Assumption*> all;
  for (const Assumption& a : assumptions()) {
    bool found = false;
    for (const Report& r : reports)
      for (const ReportSection& s : r.sections)
        for (const ReportLine& l : s.lines)
          found = found || std::find(l.assumes.begin(), l.assumes.end(), a.key) != l.assumes.end();
    if (found) all.push_back(&a);
  }
  return all;
}

/// `text` in lines of at most `width`, the later ones behind `indent` spaces.
std::string wrapped(const std::string& text, size_t indent, size_t width) {
  std::string out, line;
  size_t at = 0;
  auto flush = [&] {
    out += (out.empty() ? "" : "\n" + std::string(indent, ' ')) + line;
    line.clear();
  };
  while (at < text.size()) {
    size_t end = text.find(' ', at);
    if (end == std::string::npos) end = text.size();
    const std::string word = text.substr(at, end - at);
    if (word.empty()) {
      at = end + 1;
      continue;
    }
    if (!line.empty() && width_of(line) + 1 + width_of(word) + indent > width) flush();
    line += (line.empty() ? "" : " ") + word;
    at = end + 1;
  }
  flush();
  return out;
}

constexpr size_t kWidth = 120;

std::string latex_text(const std::string& s) {
  std::string out;
  for (char c : s) {
    if (c == '&' || c == '%' || c == '#' || c == '_' || c == '{' || c == '}' || c == '$') out += '\\';
    if (c == '^')
      out += "\\^{}";
    else if (c == '<')
      out += "$<$";
    else if (c == '>')
      out += "$>$";
    else if (c == '~')
      out += "\\~{}";
    else
      out += c;
  }
  for (const auto& [from, to] :
       {std::pair<std::string, std::string>{"β", "$\\beta$"}, {"µ", "$\\mu$"}, {"…", "\\dots{}"}})
    for (size_t at; (at = out.find(from)) != std::string::npos;) out.replace(at, from.size(), to);
  return out;
}

std::string markdown_cell(std::string s) {
  for (size_t at = 0; (at = s.find('|', at)) != std::string::npos; at += 2) s.replace(at, 1, "\\|");
  return s;
}

}  // namespace

std::string to_text(const Report& r) {
  std::string s =
      fmt::format("{} on {}\n  plan   {}\n  sizes  {}\n", title(r), r.machine, r.plan, sizes_text(r));
  for (const ReportSection& section : r.sections) {
    if (section.lines.empty()) continue;
    const std::vector<std::string> keys = common_keys(section);
    s += fmt::format("\n{}{}\n", section.title, keys.empty() ? "" : "  " + keys_text(keys));
    size_t name = 0, value = 0;
    for (const ReportLine& l : section.lines) {
      name = std::max(name, width_of(l.name));
      value = std::max(value, width_of(value_text(l)));
    }
    name = std::min<size_t>(name, 34);
    for (const ReportLine& l : section.lines) {
      std::string row = "  " + padded(l.name, name);
      if (value > 0) row += "  " + padded(value_text(l), value);
      std::string text = body(l);
      if (!l.assumes.empty() && l.assumes != keys) text += (text.empty() ? "" : " ") + keys_text(l.assumes);
      if (!text.empty()) row += "  " + wrapped(text, name + (value > 0 ? value + 2 : 0) + 4, kWidth);
      while (!row.empty() && row.back() == ' ') row.pop_back();
      s += row + "\n";
    }
  }
  return s;
}

std::string assumptions_text(const std::vector<Report>& reports) {
  std::string s = "\nassumptions, and what could refute them\n";
  for (const Assumption* a : used(reports)) {
    s += fmt::format("  {:<4} {}\n", a->key, wrapped(a->text, 7, kWidth));
    s += fmt::format("       refute: {}\n", wrapped(a->experiment, 7, kWidth));
  }
  return s;
}

std::string to_markdown(const Report& r) {
  std::string s =
      fmt::format("# {} on {}\n\nPlan `{}`, sizes {}.\n", title(r), r.machine, r.plan, sizes_text(r));
  for (const ReportSection& section : r.sections) {
    if (section.lines.empty()) continue;
    s += fmt::format("\n## {}\n\n| | value | formula | assumes |\n|---|---|---|---|\n", section.title);
    for (const ReportLine& l : section.lines) {
      std::string formula = l.formula ? fmt::format("`{}`", to_string(l.formula)) : "";
      if (!l.note.empty()) formula += (formula.empty() ? "" : ", ") + l.note;
      s += fmt::format("| {} | {} | {} | {} |\n", markdown_cell(l.name), value_text(l),
                       markdown_cell(formula), fmt::join(l.assumes, " "));
    }
  }
  return s;
}

std::string assumptions_markdown(const std::vector<Report>& reports) {
  std::string s = "\n## Assumptions\n\n| | assumed | refuted by |\n|---|---|---|\n";
  for (const Assumption* a : used(reports))
    s += fmt::format("| {} | {} | {} |\n", a->key, markdown_cell(a->text), markdown_cell(a->experiment));
  return s;
}

std::string to_latex(const Report& r) {
  std::string s = fmt::format("% {} on {}: {}\n\\section*{{{} on {}}}\nPlan \\texttt{{{}}}, sizes {}.\n",
                              title(r), r.machine, r.plan, latex_text(title(r)), latex_text(r.machine),
                              latex_text(r.plan), latex_text(sizes_text(r)));
  for (const ReportSection& section : r.sections) {
    if (section.lines.empty()) continue;
    s += fmt::format("\n\\subsection*{{{}}}\n\\begin{{align*}}\n", latex_text(section.title));
    for (size_t k = 0; k < section.lines.size(); ++k) {
      const ReportLine& l = section.lines[k];
      std::vector<std::string> words;
      if (l.value) words.push_back(latex_text(value_text(l)));
      if (!l.note.empty()) words.push_back(latex_text(l.note));
      if (!l.assumes.empty()) words.push_back(fmt::format("[{}]", fmt::join(l.assumes, " ")));
      const std::string row = fmt::format("  &\\text{{{}}} && {} && \\text{{{}}}", latex_text(l.name),
                                          l.formula ? to_latex(l.formula) : "", fmt::join(words, ", "));
      s += row + (k + 1 < section.lines.size() ? " \\\\\n" : "\n");
    }
    s += "\\end{align*}\n";
  }
  return s;
}

std::string assumptions_latex(const std::vector<Report>& reports) {
  std::string s = "\n\\subsection*{Assumptions}\n\\begin{description}\n";
  for (const Assumption* a : used(reports))
    s += fmt::format("  \\item[{}] {}. To refute: {}.\n", a->key, latex_text(a->text),
                     latex_text(a->experiment));
  return s + "\\end{description}\n";
}

nlohmann::ordered_json to_json(const Report& r) {
  nlohmann::ordered_json j;
  if (!r.kernel.empty()) j["kernel"] = r.kernel;
  j["plan"] = r.plan;
  j["sizes"] = nlohmann::ordered_json::object();
  for (const auto& [axis, n] : r.sizes) j["sizes"][axis] = n;
  j["sections"] = nlohmann::ordered_json::array();
  for (const ReportSection& section : r.sections) {
    if (section.lines.empty()) continue;
    nlohmann::ordered_json s{{"title", section.title}, {"lines", nlohmann::ordered_json::array()}};
    for (const ReportLine& l : section.lines) {
      nlohmann::ordered_json line{{"name", l.name}};
      if (l.formula) line["formula"] = to_string(l.formula);
      if (l.value) line["value"] = *l.value;
      if (!l.unit.empty()) line["unit"] = l.unit;
      if (!l.note.empty()) line["note"] = l.note;
      line["assumes"] = l.assumes;
      s["lines"].push_back(line);
    }
    j["sections"].push_back(s);
  }
  if (r.prediction && r.prediction->serial > 0) {
    const Prediction& p = *r.prediction;
    nlohmann::ordered_json one{{"seconds", p.predicted},
                               {"overlapped", p.overlapped},
                               {"serial", p.serial},
                               {"bound_by", p.bound_by},
                               {"operations", p.operations},
                               {"fits", p.occupancy.fits},
                               {"resources", nlohmann::ordered_json::array()}};
    for (const ResourceTime& x : p.resources) {
      nlohmann::ordered_json resource{{"name", x.name}, {"amount", x.amount}, {"unit", x.unit}};
      if (x.rate > 0)
        resource["seconds"] = x.seconds;
      else
        resource["unpriced"] = x.unpriced;
      one["resources"].push_back(resource);
    }
    j["prediction"] = one;
  }
  return j;
}

nlohmann::ordered_json assumptions_json(const std::vector<Report>& reports) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Assumption* a : used(reports))
    all.push_back({{"key", a->key}, {"text", a->text}, {"experiment", a->experiment}});
  return all;
}

}  // namespace tilewright
