// Steps as one page: a section for each.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tilewright/explain/page.h"
#include "tilewright/explain/steps.h"

namespace tilewright::explain {

namespace {

std::string formulas_of(const Step& s) {
  if (s.formulas.empty()) return "";
  std::string out = "<div class=\"tw-scroll\"><table><tbody>\n";
  for (const StepFormula& x : s.formulas)
    out += fmt::format(
        "<tr><th scope=\"row\">{}</th><td class=\"tw-f\">{}</td><td class=\"tw-r\">{}</td><td>{}</td></tr>\n",
        escaped(x.name), escaped(x.text), escaped(value_text(x)), escaped(x.note));
  return out + "</tbody></table></div>\n";
}

/// `stream`, `like this` as code.
std::string sentence(const std::string& s) {
  std::string out = escaped(s);
  for (bool open = true;; open = !open) {
    const size_t at = out.find('`');
    if (at == std::string::npos) return out;
    out.replace(at, 1, open ? "<code>" : "</code>");
  }
}

}  // namespace

std::string to_html(const CompiledProgram& c, const StepOptions& o, const std::vector<Step>& steps) {
  std::vector<HtmlSection> sections;
  for (size_t k = 0; k < steps.size(); ++k) {
    const Step& s = steps[k];
    HtmlSection x{fmt::format("s{}", k + 1), heading_of(steps, k), ""};
    x.body = fmt::format("<p>{}{}</p>\n", s.applies ? "" : "<em>Does not apply.</em> ", sentence(s.changed));
    x.body += html_pictures(s.pictures, s.title);
    if (!s.code.empty()) x.body += html_code(s.code, s.shades);
    if (!s.shades.empty())
      x.body +=
          "<p class=\"tw-legend\">Colours: memory, <span class=\"tw-shared\">shared memory</span>, <span "
          "class=\"tw-registers\">registers</span>, <span "
          "class=\"tw-matrix\">matrix unit</span>.</p>\n";
    x.body += formulas_of(s);
    for (const Table& t : s.tables) x.body += html_table(t);
    if (!s.chart_svg.empty()) x.body += "<div class=\"tw-picture\">" + s.chart_svg + "</div>\n";
    sections.push_back(std::move(x));
  }
  std::vector<std::string> sizes;
  for (const auto& [axis, n] : o.sizes) sizes.push_back(fmt::format("{}={}", axis, n));
  return html_page(
      fmt::format("{}: from definition to hardware", c.program.name),
      fmt::format("{}; {}", escaped(o.machine.name),
                  sizes.empty() ? "sizes as symbols" : escaped(fmt::format("{}", fmt::join(sizes, ", ")))),
      sections, true);
}

}  // namespace tilewright::explain
