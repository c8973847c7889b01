#include "tilewright/explain/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "tilewright/diagram/svg.h"

namespace tilewright::explain {

namespace {

constexpr const char* kPageStyle = R"(
:root{color-scheme:light dark;--paper:#ffffff;--ink:#1b1b1f;--faint:#5f5f69;--line:#dcdce2;--fill:#f6f6f8;--link:#1d4ed8;
--shared:#b45309;--registers:#15803d;--matrix:#1d4ed8}
@media (prefers-color-scheme: dark){:root{--paper:#16171b;--ink:#ececf0;--faint:#a0a0ab;--line:#34363f;--fill:#1f2127;--link:#7aa7ff;
--shared:#f6a93b;--registers:#4ade80;--matrix:#7aa7ff}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.55 Helvetica,Arial,'DejaVu Sans',sans-serif}
main{max-width:60rem;margin:0 auto;padding:1.5rem 1.25rem 4rem}
h1{font-size:1.6rem;margin:.2rem 0 .1rem}
h2{font-size:1.15rem;margin:0 0 .5rem}
p{margin:.4rem 0 .8rem;max-width:48rem}
a{color:var(--link);text-decoration:none}
a:hover,a:focus{text-decoration:underline}
.tw-sub{color:var(--faint);margin:0 0 1rem}
nav.tw-all ol{columns:2;margin:.5rem 0 1.5rem;padding-left:1.6rem}
section{border-top:1px solid var(--line);padding:1.2rem 0;scroll-margin-top:.5rem}
.tw-steps{display:flex;justify-content:space-between;gap:1rem;font-size:.85rem;color:var(--faint);margin-bottom:.4rem}
pre{font:13px/1.5 'DejaVu Sans Mono',Menlo,Consolas,monospace;background:var(--fill);border:1px solid var(--line);border-radius:6px;
padding:.7rem .9rem;overflow-x:auto;margin:.6rem 0}
pre .tw-c,pre .tw-m{color:var(--faint)}
pre .tw-k{font-weight:bold}
.tw-shared{color:var(--shared)}.tw-registers{color:var(--registers)}.tw-matrix{color:var(--matrix);font-weight:bold}
.tw-scroll{overflow-x:auto;margin:.6rem 0}
table{border-collapse:collapse;font-size:.88rem}
caption{text-align:left;color:var(--faint);padding:.2rem 0}
th,td{text-align:left;padding:.18rem 1rem .18rem 0;border-bottom:1px solid var(--line);vertical-align:top}
th{font-weight:normal;color:var(--faint)}
td.tw-r,th.tw-r{text-align:right;font-variant-numeric:tabular-nums}
td.tw-f,td.tw-f code,p code{font-family:'DejaVu Sans Mono',Menlo,Consolas,monospace;font-size:.82rem}
.tw-picture{overflow-x:auto;margin:.8rem 0}
.tw-picture svg{display:block;max-width:none}
.tw-legend{font-size:.82rem;color:var(--faint)}
@media print{section{break-inside:avoid}.tw-steps,nav.tw-all{display:none}}
@media (max-width:40rem){nav.tw-all ol{columns:1}}
)";

bool begins_word(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

std::string coloured(const std::string& s, const std::map<std::string, Shade>& shades) {
  static const std::set<std::string> keywords = {"for",    "by",     "load", "store",  "when", "any",
                                                 "stream", "finish", "init", "where",  "sum",  "max",
                                                 "min",    "point",  "lift", "repair", "merge"};
  std::string out;
  for (size_t at = 0; at < s.size();) {
    if (!begins_word(s[at]) || (at > 0 && in_word(s[at - 1]))) {
      out += escaped(std::string(1, s[at++]));
      continue;
    }
    size_t end = at;
    while (end < s.size() && in_word(s[end])) ++end;
    const std::string word = s.substr(at, end - at);
    at = end;
    const auto shade = shades.find(word);
    if (keywords.count(word))
      out += fmt::format("<span class=\"tw-k\">{}</span>", word);
    else if (shade != shades.end() && shade->second != Shade::Memory)
      out += fmt::format("<span class=\"tw-{}\">{}</span>",
                         shade->second == Shade::Shared   ? "shared"
                         : shade->second == Shade::Matrix ? "matrix"
                                                          : "registers",
                         word);
    else
      out += word;
  }
  return out;
}

}  // namespace

std::string html_page(const std::string& title, const std::string& subtitle,
                      const std::vector<HtmlSection>& sections, bool steps) {
  std::string s = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
      "content=\"width=device-width, "
      "initial-scale=1\">\n<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n<main>\n<h1>{}</h1>\n<p "
      "class=\"tw-sub\">{}</p>\n",
      escaped(title), kPageStyle, escaped(title), subtitle);
  if (steps) {
    s += "<nav class=\"tw-all\" aria-label=\"steps\"><ol>\n";
    for (const HtmlSection& x : sections) {
      const size_t number = x.heading.find(". ");
      s += fmt::format("<li><a href=\"#{}\">{}</a></li>\n", x.id,
                       escaped(number == std::string::npos ? x.heading : x.heading.substr(number + 2)));
    }
    s += "</ol></nav>\n";
  }
  for (size_t k = 0; k < sections.size(); ++k) {
    const HtmlSection& x = sections[k];
    s += fmt::format("<section id=\"{}\" aria-labelledby=\"{}-h\">\n", x.id, x.id);
    if (steps) {
      s += "<div class=\"tw-steps\">";
      s += k > 0 ? fmt::format("<a href=\"#{}\" rel=\"prev\">← {}</a>", sections[k - 1].id,
                               escaped(sections[k - 1].heading))
                 : "<span></span>";
      s += k + 1 < sections.size() ? fmt::format("<a href=\"#{}\" rel=\"next\">{} →</a>", sections[k + 1].id,
                                                 escaped(sections[k + 1].heading))
                                   : "<span></span>";
      s += "</div>\n";
    }
    s += fmt::format("<h2 id=\"{}-h\">{}</h2>\n{}</section>\n", x.id, escaped(x.heading), x.body);
  }
  return s + "</main>\n</body>\n</html>\n";
}

std::string html_code(const std::vector<CodeLine>& code, const std::map<std::string, Shade>& shades) {
  size_t margin = 0, body = 0;
  for (const CodeLine& l : code) {
    margin = std::max(margin, columns_of(l.margin));
    if (!l.comment.empty()) body = std::max(body, columns_of(l.text) + static_cast<size_t>(l.depth) * 2);
  }
  body = std::min<size_t>(body, 64);
  std::string s = "<pre>";
  for (const CodeLine& l : code) {
    if (margin > 0) s += fmt::format("<span class=\"tw-m\">{}</span>  ", escaped(padded(l.margin, margin)));
    const std::string text = std::string(static_cast<size_t>(l.depth) * 2, ' ') + l.text;
    const bool heading = l.text.rfind("# ", 0) == 0;
    s += heading ? fmt::format("<span class=\"tw-c\">{}</span>", escaped(text)) : coloured(text, shades);
    if (!l.comment.empty())
      s += fmt::format("<span class=\"tw-c\">{}  # {}</span>",
                       std::string(body > columns_of(text) ? body - columns_of(text) : 0, ' '),
                       escaped(l.comment));
    s += "\n";
  }
  return s + "</pre>\n";
}

std::string html_table(const Table& t) {
  std::string s = "<div class=\"tw-scroll\"><table>";
  if (!t.title.empty()) s += fmt::format("<caption>{}</caption>", escaped(t.title));
  const auto right = [&](size_t k) { return k < t.right.size() && t.right[k] ? " class=\"tw-r\"" : ""; };
  if (std::any_of(t.head.begin(), t.head.end(), [](const std::string& x) { return !x.empty(); })) {
    s += "<thead><tr>";
    for (size_t k = 0; k < t.head.size(); ++k)
      s += fmt::format("<th scope=\"col\"{}>{}</th>", right(k), escaped(t.head[k]));
    s += "</tr></thead>";
  }
  s += "<tbody>\n";
  for (const auto& row : t.rows) {
    s += "<tr>";
    for (size_t k = 0; k < row.size(); ++k) s += fmt::format("<td{}>{}</td>", right(k), escaped(row[k]));
    s += "</tr>\n";
  }
  return s + "</tbody></table></div>\n";
}

std::string html_pictures(const std::vector<Picture>& pictures, const std::string& title) {
  if (pictures.empty()) return "";
  return "<div class=\"tw-picture\">" + to_svg(pictures, Theme::Auto, title) + "</div>\n";
}

}  // namespace tilewright::explain
