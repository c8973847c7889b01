// tilewright completion: scripts for shells, made from the options of the verbs themselves.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>

#include "cli/commands.h"
#include "cli/output.h"

namespace tilewright::cli {

namespace {

struct Option {
  std::string name, letter;  ///< "--output" and "-o", or "" for none
  std::string description;
  bool value = false;                ///< takes one
  std::vector<std::string> choices;  ///< of the value; empty: files
};

struct Verb {
  std::string name, description;
  std::vector<Option> options;
  std::vector<std::string> choices;  ///< of the positional arguments; .tw files too where `file`
  bool file = false;
};

/// The choices that a type name such as "cpu|cuda" lists; none where a part of it is upper case and so stands for something.
std::vector<std::string> choices_of(const std::string& type) {
  std::vector<std::string> choices;
  if (type.find('|') == std::string::npos) return choices;
  std::istringstream in(type);
  for (std::string part; std::getline(in, part, '|');) {
    if (part.empty() || std::isupper(static_cast<unsigned char>(part[0]))) return {};
    choices.push_back(part);
  }
  return choices;
}

std::vector<Verb> verbs_of(const CLI::App& app) {
  std::vector<Verb> verbs;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    Verb v{sub->get_name(), sub->get_description(), {}, {}, false};
    for (const CLI::Option* o : sub->get_options()) {
      if (o->get_positional()) {
        const std::vector<std::string> choices = choices_of(o->get_type_name());
        v.choices.insert(v.choices.end(), choices.begin(), choices.end());
        v.file = v.file || choices.empty();
      } else {
        const std::string letter = o->get_snames().empty() ? "" : "-" + o->get_snames()[0];
        v.options.push_back({"--" + o->get_lnames().at(0), letter, o->get_description(),
                             o->get_items_expected_max() > 0, choices_of(o->get_type_name())});
      }
    }
    verbs.push_back(std::move(v));
  }
  return verbs;
}

std::string names_of(const std::vector<Verb>& verbs) {
  std::vector<std::string> names;
  for (const Verb& v : verbs) names.push_back(v.name);
  return fmt::format("{}", fmt::join(names, " "));
}

std::string bash_script(const std::vector<Verb>& verbs) {
  std::string s = fmt::format(
      "# bash completion of tilewright: source it, or put it into /etc/bash_completion.d\n"
      "_tilewright() {{\n"
      "  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} "
      "verb=${{COMP_WORDS[1]}}\n"
      "  COMPREPLY=()\n"
      "  if [ \"$COMP_CWORD\" = 1 ]; then\n"
      "    COMPREPLY=($(compgen -W \"{} --help --version\" -- \"$word\"))\n"
      "    return\n"
      "  fi\n"
      "  case $verb:$before in\n",
      names_of(verbs));
  for (const Verb& v : verbs)
    for (const Option& o : v.options) {
      if (!o.value) continue;
      const std::string words =
          o.choices.empty() ? "compgen -f" : fmt::format("compgen -W \"{}\"", fmt::join(o.choices, " "));
      for (const std::string& given : {o.name, o.letter})
        if (!given.empty())
          s += fmt::format("    {}:{}) COMPREPLY=($({} -- \"$word\")); return ;;\n", v.name, given, words);
    }
  s += "  esac\n  case $verb in\n";
  for (const Verb& v : verbs) {
    std::vector<std::string> words = v.choices;
    for (const Option& o : v.options) words.push_back(o.name);
    s += fmt::format("    {}) COMPREPLY=($(compgen -W \"{}\" -- \"$word\")", v.name, fmt::join(words, " "));
    if (v.file) s += " $(compgen -f -X '!*.tw' -- \"$word\") $(compgen -d -- \"$word\")";
    s += ") ;;\n";
  }
  return s + "  esac\n}\ncomplete -o filenames -F _tilewright tilewright\n";
}

/// `text` inside single quotes of a shell; `special` characters get a backslash.
std::string quoted(const std::string& text, const std::string& special) {
  std::string s;
  for (char c : text) {
    if (c == '\'') {
      s += "'\\''";
      continue;
    }
    if (special.find(c) != std::string::npos) s += '\\';
    s += c;
  }
  return s;
}

std::string zsh_script(const std::vector<Verb>& verbs) {
  std::string s =
      "#compdef tilewright\n# zsh completion of tilewright: save it as _tilewright in a folder of "
      "$fpath\n_tilewright() {\n  local -a verbs\n  verbs=(\n";
  for (const Verb& v : verbs) s += fmt::format("    '{}:{}'\n", v.name, quoted(v.description, ":"));
  s += "  )\n  if (( CURRENT == 2 )); then\n    _describe verb verbs\n    return\n  fi\n  shift words\n  (( "
       "CURRENT-- ))\n  case $words[1] in\n";
  for (const Verb& v : verbs) {
    s += fmt::format("    {})\n      _arguments", v.name);
    for (const Option& o : v.options) {
      for (const std::string& given : {o.name, o.letter}) {
        if (given.empty()) continue;
        s += fmt::format(" \\\n        '{}[{}]", given, quoted(o.description, "[]:"));
        if (o.value && o.choices.empty()) s += ":value:_files";
        if (o.value && !o.choices.empty()) s += fmt::format(":value:({})", fmt::join(o.choices, " "));
        s += "'";
      }
    }
    if (v.file) s += " \\\n        '1:program:_files -g \"*.tw\"'";
    if (!v.choices.empty()) s += fmt::format(" \\\n        '1:choice:({})'", fmt::join(v.choices, " "));
    s += "\n      ;;\n";
  }
  return s + "  esac\n}\n_tilewright \"$@\"\n";
}

std::string fish_script(const std::vector<Verb>& verbs) {
  std::string s =
      "# fish completion of tilewright: save it as ~/.config/fish/completions/tilewright.fish\ncomplete -c "
      "tilewright -f\n";
  for (const Verb& v : verbs)
    s += fmt::format("complete -c tilewright -n __fish_use_subcommand -a {} -d '{}'\n", v.name,
                     quoted(v.description, ""));
  for (const Verb& v : verbs) {
    const std::string head =
        fmt::format("complete -c tilewright -n '__fish_seen_subcommand_from {}'", v.name);
    for (const Option& o : v.options) {
      s += fmt::format("{} -l {}", head, o.name.substr(2));
      if (!o.letter.empty()) s += fmt::format(" -s {}", o.letter.substr(1));
      s += fmt::format(" -d '{}'", quoted(o.description, ""));
      if (o.value) s += o.choices.empty() ? " -r -F" : fmt::format(" -x -a '{}'", fmt::join(o.choices, " "));
      s += "\n";
    }
    if (v.file) s += fmt::format("{} -k -a '(__fish_complete_suffix .tw)'\n", head);
    if (!v.choices.empty()) s += fmt::format("{} -a '{}'\n", head, fmt::join(v.choices, " "));
  }
  return s;
}

}  // namespace

void add_completion(CLI::App& app, int& status) {
  CLI::App* verb = app.add_subcommand("completion", "print a completion script for a shell");
  auto shell = std::make_shared<std::string>();
  verb->add_option("SHELL", *shell, "the shell")->required()->type_name("bash|zsh|fish");
  add_examples(*verb,
               {"source <(tilewright completion bash)", "tilewright completion zsh > ~/.zfunc/_tilewright",
                "tilewright completion fish > ~/.config/fish/completions/tilewright.fish"});
  verb->callback([=, &app, &status] {
    expect_one_of(*shell, {"bash", "zsh", "fish"}, "shell");
    const std::vector<Verb> verbs = verbs_of(app);
    put(*shell == "bash" ? bash_script(verbs) : *shell == "zsh" ? zsh_script(verbs) : fish_script(verbs));
    status = 0;
  });
}

}  // namespace tilewright::cli
