// tilewright derive: the states, repairs, merges and checks, or the refusal and its reason.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "tilewright/derive/json.h"

namespace tilewright::cli {

void add_derive(CLI::App& app, int& status) {
  auto o = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("derive", "print the streaming state that the definition has, and what proves it");
  add_common(*verb, *o);
  verb->callback([o, &status] {
    status = guarded([&] {
      std::map<std::string, int64_t> sizes;
      const Program p = load(*o, sizes);
      CompileOptions options = compile_options(*o, p);
      options.schedule.clear();
      const Compilation c = analyse(p, options);
      if (o->json) {
        fmt::print("{}\n", to_json(c.elaborated, c.derivation).dump(1));
      } else {
        fmt::print("{}", to_text(c.elaborated, c.derivation));
      }
      return 0;
    });
  });
}

}  // namespace tilewright::cli
