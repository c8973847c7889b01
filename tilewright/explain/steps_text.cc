// Steps as text for a terminal, and as JSON.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tilewright/diagram/svg.h"
#include "tilewright/explain/steps.h"

namespace tilewright::explain {

namespace {

constexpr size_t kStepWidth = 112;

std::string sizes_line(const StepOptions& o) {
  std::vector<std::string> all;
  for (const auto& [axis, n] : o.sizes) all.push_back(fmt::format("{}={}", axis, n));
  return all.empty() ? "not given: formulas alone (--size gives them values)"
                     : fmt::format("{}", fmt::join(all, ", "));
}

/// "H   2·q·d + …   = 3 MiB", the text wrapped.
std::string formula_line(const StepFormula& x, size_t name) {
  std::string text = x.text;
  if (x.value) text += (text.empty() ? "" : " = ") + value_text(x);
  if (!x.note.empty()) text += (text.empty() ? "" : "  ") + fmt::format("({})", x.note);
  return "  " + padded(x.name, name) + "  " + wrapped(text, name + 4, kStepWidth) + "\n";
}

std::string code_lines(const std::vector<CodeLine>& code) {
  size_t margin = 0, body = 0;
  for (const CodeLine& l : code) {
    margin = std::max(margin, columns_of(l.margin));
    if (!l.comment.empty()) body = std::max(body, columns_of(l.text) + static_cast<size_t>(l.depth) * 2);
  }
  body = std::min<size_t>(body, 62);
  std::string out;
  for (const CodeLine& l : code) {
    const size_t indent = 4 + (margin > 0 ? margin + 2 : 0) + static_cast<size_t>(l.depth) * 2;
    std::string line = "    ";
    if (margin > 0) line += padded(l.margin, margin) + "  ";
    line += std::string(static_cast<size_t>(l.depth) * 2, ' ');
    // Columns of equal signs keep their spaces.
    if (indent + columns_of(l.text) <= kStepWidth) {
      line += l.text;
      if (!l.comment.empty())
        line = padded(line, 4 + (margin > 0 ? margin + 2 : 0) + body) + "  # " + l.comment;
    } else {
      line += wrapped(l.text, indent + 4, kStepWidth);
    }
    out += line + "\n";
  }
  return out;
}

}  // namespace

std::string value_text(const StepFormula& x) {
  if (!x.value) return "";
  if (x.unit == "bytes" || x.unit == "s" || x.unit == "op/s") return quantity(*x.value, x.unit);
  return fmt::format("{:.0f}{}{}", *x.value, x.unit.empty() ? "" : " ", x.unit);
}

std::string heading_of(const std::vector<Step>& steps, size_t k) {
  const Step& s = steps[k];
  return fmt::format("{}. {}: {}{}", k + 1, s.name, s.title,
                     s.kernel.empty() ? "" : fmt::format("  (kernel {})", s.kernel));
}

std::string to_text(const CompiledProgram& c, const StepOptions& o, const std::vector<Step>& steps) {
  std::string out = fmt::format("{} on {}: {} from the definition to hardware\n  sizes  {}\n", c.program.name,
                                o.machine.name, counted(steps.size(), "step"), sizes_line(o));
  for (size_t k = 0; k < steps.size(); ++k) {
    const Step& s = steps[k];
    out += "\n" + heading_of(steps, k) + (s.applies ? "" : "  (does not apply)") + "\n";
    out += "  " + wrapped(s.changed, 2, kStepWidth) + "\n";
    if (!s.code.empty()) out += "\n" + code_lines(s.code);
    size_t name = 0;
    for (const StepFormula& x : s.formulas) name = std::max(name, columns_of(x.name));
    if (!s.formulas.empty()) out += "\n";
    for (const StepFormula& x : s.formulas) out += formula_line(x, name);
    for (const Table& t : s.tables) out += "\n" + to_text(t, 2, kStepWidth);
    if (!s.chart.empty()) {
      out += "\n";
      for (size_t at = 0; at < s.chart.size();) {
        const size_t end = std::min(s.chart.find('\n', at), s.chart.size());
        out += "  " + s.chart.substr(at, end - at) + "\n";
        at = end + 1;
      }
    }
  }
  return out;
}

nlohmann::ordered_json to_json(const CompiledProgram& c, const StepOptions& o,
                               const std::vector<Step>& steps) {
  using json = nlohmann::ordered_json;
  json out{{"program", c.program.name},
           {"machine", o.machine.name},
           {"sizes", json::object()},
           {"steps", json::array()}};
  for (const auto& [axis, n] : o.sizes) out["sizes"][axis] = n;
  for (const Step& s : steps) {
    json one{{"name", s.name}, {"title", s.title}, {"applies", s.applies}, {"changed", s.changed}};
    if (!s.kernel.empty()) one["kernel"] = s.kernel;
    one["code"] = json::array();
    for (const CodeLine& l : s.code) {
      json line{{"depth", l.depth}, {"text", l.text}};
      if (!l.comment.empty()) line["comment"] = l.comment;
      if (!l.margin.empty()) line["margin"] = l.margin;
      one["code"].push_back(line);
    }
    one["formulas"] = json::array();
    for (const StepFormula& x : s.formulas) {
      json formula{{"name", x.name}};
      if (!x.text.empty()) formula["formula"] = x.text;
      if (x.exact) formula["exact"] = to_string(x.exact);
      if (x.value) formula["value"] = *x.value;
      if (!x.unit.empty()) formula["unit"] = x.unit;
      if (!x.note.empty()) formula["note"] = x.note;
      one["formulas"].push_back(formula);
    }
    one["tables"] = json::array();
    for (const Table& t : s.tables)
      one["tables"].push_back({{"title", t.title}, {"head", t.head}, {"rows", t.rows}});
    if (!s.pictures.empty()) one["svg"] = to_svg(s.pictures, Theme::Auto, s.title);
    if (!s.chart_svg.empty()) one["chart"] = s.chart_svg;
    out["steps"].push_back(one);
  }
  return out;
}

}  // namespace tilewright::explain
