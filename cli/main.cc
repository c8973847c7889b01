// The tilewright command (docs/cli.md).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <csignal>

#include "cli/commands.h"
#include "cli/interrupt.h"

namespace tilewright::cli {

namespace {

std::vector<std::string> verb_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(verb->get_name());
  return names;
}

/// A value that is there and empty, which CLI11 takes for one that is not there. Lists, schedules and folders have messages of their own.
void refuse_empty_values(int argc, char** argv) {
  for (int k = 1; k < argc; ++k) {
    const std::string item = argv[k], before = argv[k - 1];
    const bool value = k > 1 && before.size() > 1 && before[0] == '-';
    std::string option;
    if (item.empty())
      option = value ? before : "";
    else if (item.rfind("--", 0) == 0 && item.find('=') == item.size() - 1)
      option = item.substr(0, item.size() - 1);
    else
      continue;
    const char* const own[] = {"--schedule", "--size", "--dtype", "--param", "--input", "--smt"};
    if (std::find(std::begin(own), std::end(own), option) != std::end(own)) continue;
    throw UserError(Span{}, option.empty() ? "an argument is empty" : fmt::format("{} is empty", option),
                    option.empty() ? "leave it out" : "give it a value, or leave it out");
  }
}

/// What CLI11 found wrong with the command line, as a message of ours.
[[noreturn]] void refuse(const CLI::App& app, const CLI::ParseError& e) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  const CLI::App& verb = chosen.empty() ? app : *chosen.front();
  const std::string help =
      fmt::format("see tilewright {}--help", chosen.empty() ? "" : verb.get_name() + " ");
  const std::vector<std::string> rest = app.remaining(true);
  if (chosen.empty() && !rest.empty() && rest[0][0] != '-') {
    const std::string near = nearest_name(rest[0], verb_names(app));
    throw UserError(Span{}, fmt::format("no verb is called `{}`", rest[0]),
                    near.empty() ? fmt::format("verbs are {}", fmt::join(verb_names(app), ", "))
                                 : fmt::format("did you mean `{}`?", near));
  }
  for (const std::string& item : rest) {
    if (item[0] != '-') continue;
    std::vector<std::string> known;
    for (const CLI::Option* option : verb.get_options()) known.push_back(option->get_name());
    const std::string given = item.substr(0, item.find('='));
    std::string near = nearest_name(given, known);
    // `-t` where one long option alone begins so.
    if (given.size() == 2 && given[1] != '-') {
      std::vector<std::string> begun;
      for (const std::string& name : known)
        if (name.rfind("--" + given.substr(1), 0) == 0) begun.push_back(name);
      if (begun.size() == 1) near = begun[0];
    }
    throw UserError(Span{}, fmt::format("no option is called `{}`", given),
                    near.empty() ? help : fmt::format("did you mean `{}`?", near));
  }
  if (!rest.empty()) throw UserError(Span{}, fmt::format("`{}` is not expected here", rest[0]), help);
  if (chosen.empty())
    throw UserError(Span{}, "no verb is given",
                    fmt::format("verbs are {}", fmt::join(verb_names(app), ", ")));
  const std::string what = e.what(), option = what.substr(0, what.find_first_of(": "));
  if (what.find("At Most") != std::string::npos)
    throw UserError(Span{}, fmt::format("{} is given twice", option), "give it once");
  if (what.find("missing") != std::string::npos)
    throw UserError(Span{}, fmt::format("{} needs a value", option), help);
  if (what.find("is required") != std::string::npos) {
    std::string shown = option;  // the short name where there is one
    for (const CLI::Option* o : verb.get_options())
      if (o->get_name() == option && !o->get_snames().empty()) shown = "-" + o->get_snames()[0];
    throw UserError(Span{}, fmt::format("{} is missing", shown), help);
  }
  throw UserError(Span{}, what, help);
}

int run(int argc, char** argv) {
  CLI::App app{
      "Tilewright derives, checks and emits fused kernels from the plain definition of a tensor program."};
  app.set_version_flag("--version", TILEWRIGHT_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  app.footer(
      "Exit status: 0 fine, 1 a check failed, 2 the user's mistake, 3 a fault of Tilewright, 130 "
      "interrupted.\nEach verb has examples: tilewright VERB --help");
  int status = 0;
  add_run(app, status);
  add_check(app, status);
  add_derive(app, status);
  add_draw(app, status);
  add_emit(app, status);
  add_build(app, status);
  add_model(app, status);
  add_verify(app, status);
  add_search(app, status);
  add_tune(app, status);
  add_explain(app, status);
  add_hardware(app, status);
  add_cache(app, status);
  add_completion(app, status);
  // Also where the command line is not understood.
  const bool json =
      std::find(argv + 1, argv + std::max(argc, 1), std::string("--json")) != argv + std::max(argc, 1);
  return guarded(
      [&] {
        refuse_empty_values(argc, argv);
        try {
          app.parse(argc, argv);
        } catch (const CLI::ParseError& e) {
          if (e.get_exit_code() != 0) refuse(app, e);
          return app.exit(e);
        }
        return status;
      },
      json);
}

}  // namespace

}  // namespace tilewright::cli

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is noticed where output is written
  tilewright::cli::stop_on_signals();
  return tilewright::cli::run(argc, argv);
}
