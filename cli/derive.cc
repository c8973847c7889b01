// tilewright derive: the states, repairs, merges and checks, or the refusal and its reason.
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "tilewright/derive/json.h"

namespace tilewright::cli {

void add_derive(CLI::App& app, int& status) {
  auto o = std::make_shared<Options>();
  CLI::App* verb =
      app.add_subcommand("derive", "print the streaming state that the definition has, and what proves it");
  add_program(*verb, *o);
  add_json(*verb, o->json);
  add_examples(*verb,
               {"tilewright derive examples/layernorm_matmul.tw",
                "tilewright derive examples/pf_causal.tw --json", "tilewright derive PROGRAM.tw --stream j"});
  verb->callback([o, &status] {
    status = [&] {
      std::map<std::string, int64_t> sizes;
      const Program p = load(*o, sizes);
      const Compilation c = [&] {
        Progress progress("deriving");
        return analyse(p, compile_options(*o, p));
      }();
      if (o->json) {
        put_json(to_json(c.elaborated, c.derivation));
      } else {
        put(to_text(c.elaborated, c.derivation));
      }
      return 0;
    }();
  });
}

}  // namespace tilewright::cli
