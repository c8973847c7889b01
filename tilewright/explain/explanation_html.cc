// The page about a program as HTML.
#include <fmt/format.h>

#include "tilewright/explain/explanation.h"
#include "tilewright/explain/page.h"

namespace tilewright::explain {

std::string to_html(const Explanation& e) {
  std::vector<HtmlSection> sections;
  HtmlSection definition{"definition", "definition", ""};
  if (!e.about.empty()) definition.body += fmt::format("<p>{}</p>\n", escaped(e.about));
  std::vector<CodeLine> code;
  for (const std::string& line : e.definition) code.push_back({0, line, "", "", nullptr});
  definition.body += html_code(code, {});
  Diagram picture = e.picture;
  picture.title.clear();
  picture.notes.clear();
  definition.body += html_pictures({lay_out(picture)}, e.program);
  sections.push_back(std::move(definition));
  for (size_t k = 0; k < e.sections.size(); ++k) {
    const PageSection& s = e.sections[k];
    HtmlSection x{fmt::format("s{}", k + 1), s.title, ""};
    if (!s.summary.empty())
      x.body += s.title.rfind("plan", 0) == 0 ? fmt::format("<p><code>{}</code></p>\n", escaped(s.summary))
                                              : fmt::format("<p>{}</p>\n", escaped(s.summary));
    x.body += "<div class=\"tw-scroll\"><table><tbody>\n";
    for (const PageLine& l : s.lines)
      x.body += fmt::format(
          "<tr><th scope=\"row\">{}</th><td class=\"tw-r\">{}</td><td class=\"tw-f\">{}</td></tr>\n",
          escaped(l.name), escaped(l.value), escaped(l.text));
    x.body += "</tbody></table></div>\n";
    sections.push_back(std::move(x));
  }
  return html_page(e.program, escaped(e.file), sections, false);
}

}  // namespace tilewright::explain
