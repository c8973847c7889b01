// tilewright derive: the states, repairs, merges and checks, or the refusal and its reason.
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "tilewright/derive/json.h"
#include "tilewright/driver/compiled.h"

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
      const CompiledProgram c = [&] {
        Progress progress("deriving");
        return compile_program(p, compile_options(*o, p));
      }();
      nlohmann::ordered_json several;
      for (size_t k = 0; k < c.kernels.size(); ++k) {
        const Compilation& kernel = c.kernels[k];
        if (!o->json) {
          put(heading(c, k, "#") + to_text(kernel.elaborated, kernel.derivation));
        } else if (!c.several()) {
          put_json(to_json(kernel.elaborated, kernel.derivation));
        } else {
          nlohmann::ordered_json one{{"kernel", c.name_of(k)}};
          one.update(to_json(kernel.elaborated, kernel.derivation));
          several["kernels"].push_back(one);
        }
      }
      if (o->json && c.several()) put_json(several);
      return 0;
    }();
  });
}

}  // namespace tilewright::cli
