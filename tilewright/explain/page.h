// Self-contained HTML pages: one style, light and dark by preference, pictures inline, no script, nothing fetched.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "tilewright/diagram/layout.h"
#include "tilewright/explain/pseudocode.h"
#include "tilewright/explain/text.h"

namespace tilewright::explain {

struct HtmlSection {
  std::string id, heading;
  std::string body;  ///< HTML
};

/// The document. With `steps` each section has links to the one before and the one behind it, and the page begins with a list of all.
std::string html_page(const std::string& title, const std::string& subtitle,
                      const std::vector<HtmlSection>& sections, bool steps);

/// Pseudocode with names of tiles in the colours of their levels.
std::string html_code(const std::vector<CodeLine>& code, const std::map<std::string, Shade>& shades);
std::string html_table(const Table& t);
/// The pictures below one another as inline SVG, with style rules of its own, so that it can be taken out of the page.
std::string html_pictures(const std::vector<Picture>& pictures, const std::string& title);

}  // namespace tilewright::explain
