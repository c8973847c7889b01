#include "tilewright/emit/cpp_prelude.h"

#include <fmt/format.h>

#include <cctype>
#include <set>
#include <sstream>
#include <vector>

#include "tilewright/emit/identifiers.h"
#include "tilewright/support/error.h"

namespace tilewright {
namespace {

struct Section {
  std::set<std::string> names;
  std::string text;
};

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

std::vector<Section> sections(DType real) {
  const std::string wanted = name(real);
  std::vector<Section> list;
  std::istringstream in(std::string(cpp_prelude_text) + cpp_prelude_bf16_text);
  bool use = true;
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("//@", 0) != 0) {
      if (use && !list.empty()) list.back().text += line + "\n";
      continue;
    }
    Section s;
    std::istringstream words(line.substr(3));
    use = true;
    for (std::string word; words >> word;) {
      if (word == "f32" || word == "f64")
        use = word == wanted;
      else
        s.names.insert(word);
    }
    if (use) list.push_back(std::move(s));
  }
  return list;
}

}  // namespace

const std::set<std::string>& cpp_prelude_names() {
  static const std::set<std::string> all = [] {
    std::set<std::string> found;
    std::istringstream in(std::string(cpp_prelude_text) + cpp_prelude_bf16_text);
    bool always = false;
    for (std::string line; std::getline(in, line);) {
      const bool section = line.rfind("//@", 0) == 0, macro = line.rfind("#define ", 0) == 0;
      if (section) always = line == "//@ always";
      if (section) line = line.substr(3);
      if (macro) line = line.substr(8, line.find_first_of(" (", 8) - 8);
      if (!section && !macro && !always) continue;
      line = line.substr(0, line.find("//"));
      for (size_t at; (at = line.find('$')) != std::string::npos;)  // what the program fills in
        line.erase(at, line.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ", at + 1) - at);
      found.merge(identifiers_in(line));
    }
    return found;
  }();
  return all;
}

std::string cpp_prelude(const std::string& code, const VectorUnit& unit, DType real) {
  const std::vector<Section> all = sections(real);
  std::vector<bool> used(all.size(), false);
  std::vector<std::string> work{code};
  while (!work.empty()) {
    const std::set<std::string> words = identifiers_in(work.back());
    work.pop_back();
    for (size_t s = 0; s < all.size(); ++s) {
      if (used[s]) continue;
      for (const std::string& n : all[s].names) {
        if (n != "always" && !words.count(n)) continue;
        used[s] = true;
        work.push_back(all[s].text);
        break;
      }
    }
  }
  std::string text;
  for (size_t s = 0; s < all.size(); ++s)
    if (used[s]) text += all[s].text;
  const int lanes = unit.bytes / bytes(real);
  std::string iota;
  for (int l = 0; l < lanes; ++l) iota += fmt::format("{}{}", l ? ", " : "", l);
  text = replaced(std::move(text), "$IOTA", iota);
  for (int away : {8, 4, 2, 1}) {
    std::string list;
    for (int l = 0; l < lanes; ++l) list += fmt::format("{}{}", l ? ", " : "", (l ^ away) % lanes);
    text = replaced(std::move(text), fmt::format("$AWAY{}", away), list);
    // Of vectors a and b, `away` rows apart in a square of words: what stays of each, and what changes places.
    std::string lows, highs;
    for (int l = 0; l < lanes; ++l) {
      const int low = l & away ? lanes + (l ^ away) : l, high = l & away ? lanes + l : l ^ away;
      lows += fmt::format("{}{}", l ? ", " : "", low % (2 * lanes));
      highs += fmt::format("{}{}", l ? ", " : "", high % (2 * lanes));
    }
    text = replaced(std::move(text), fmt::format("$LOWS{}", away), lows);
    text = replaced(std::move(text), fmt::format("$HIGHS{}", away), highs);
  }
  text =
      replaced(std::move(text), "$NT", unit.bytes > 16 ? fmt::format("{}", 8 * unit.bytes) : std::string());
  text = replaced(std::move(text), "$V", fmt::format("{}", lanes));
  text = replaced(std::move(text), "$B", fmt::format("{}", unit.bytes));
  text = replaced(std::move(text), "$R", real == DType::f32 ? "float" : "double");
  text = replaced(std::move(text), "$M", real == DType::f32 ? "int" : "long long");
  return text;
}

}  // namespace tilewright
