// tilewright derive: the states, repairs, merges and checks, or the refusal and its reason.
#include <fmt/format.h>

#include <algorithm>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/steps.h"
#include "tilewright/derive/json.h"
#include "tilewright/derive/latex.h"
#include "tilewright/driver/choices.h"
#include "tilewright/driver/prove.h"

namespace tilewright::cli {

void add_derive(CLI::App& app, int& status) {
  struct Proofs {
    bool z3 = false, latex = false;
    std::string folder;
  };
  auto o = std::make_shared<Options>();
  auto proofs = std::make_shared<Proofs>();
  CLI::App* verb =
      app.add_subcommand("derive", "print the streaming state that the definition has, and what proves it");
  add_program(*verb, *o);
  add_json(*verb, o->json);
  verb->add_flag("--latex", proofs->latex, "print LaTeX for a paper (amsmath) instead of text")
      ->excludes("--json");
  verb->add_flag(
      "--prove", proofs->z3,
      "prove the identities of each state a second time, by z3; exit status 1 if one is not proved");
  verb->add_option(
          "--smt", proofs->folder,
          "write the identities into this folder as SMT-LIB files, on which any solver must answer unsat")
      ->type_name("DIR")
      ->check([](const std::string& folder) {
        return folder.empty() || folder[0] == '-' ? "name a folder" : std::string();
      });
  auto steps = std::make_shared<StepsRequest>();
  add_steps(*verb, *o, *steps);
  add_examples(*verb, {"tilewright derive examples/layernorm_matmul.tw",
                       "tilewright derive examples/napkin/attention.tw --steps --size q=4096,x=4096",
                       "tilewright derive examples/pf_causal.tw --steps --machine h100-sxm --html steps.html",
                       "tilewright derive examples/pf_causal.tw --json",
                       "tilewright derive examples/layernorm_matmul.tw --prove --smt proofs",
                       "tilewright derive PROGRAM.tw --stream j"});
  verb->callback([o, proofs, steps, verb, &status] {
    status = [&] {
      expect_steps(*verb, *steps);
      if (steps->asked) return print_steps(*o, *steps);
      std::map<std::string, int64_t> sizes;
      const Program p = load(*o, sizes);
      CompiledProgram c = [&] {
        Progress progress("deriving");
        CompiledProgram made = compile_program(p, compile_options(*o, p));
        if (made.whole) prove(*made.whole);
        return made;
      }();
      bool proved = true;
      // The definition as one kernel, also where several cost less.
      std::vector<Compilation*> shown;
      for (Compilation& kernel : c.kernels) shown.push_back(&kernel);
      if (c.whole) shown = {&*c.whole};
      const bool several = shown.size() > 1;
      for (size_t k = 0; k < shown.size(); ++k) {
        if (!proofs->folder.empty())
          write_smt(shown[k]->elaborated, shown[k]->derivation, proofs->folder,
                    several ? fmt::format("{}-kernel{}", p.name, k + 1) : p.name);
        if (!proofs->z3) continue;
        Progress progress("proving by z3");
        proved = prove_by_z3(shown[k]->elaborated, shown[k]->derivation) && proved;
      }
      std::vector<bool> asked;
      for (const Compilation* kernel : shown)
        asked.push_back(std::any_of(
            kernel->derivation.passes.begin(), kernel->derivation.passes.end(), [](const Pass& pass) {
              const std::vector<Check>& all = pass.state.checks;
              return std::any_of(all.begin(), all.end(), [](const Check& x) { return x.by == "z3"; });
            }));
      const nlohmann::ordered_json choices = choices_json(c);
      nlohmann::ordered_json made, all;
      for (size_t k = 0; k < c.kernels.size(); ++k) made.push_back(c.name_of(k));
      for (size_t k = 0; k < shown.size(); ++k) {
        const Compilation& kernel = *shown[k];
        const std::string above =
            several ? heading(c, k, proofs->latex ? "%" : "#") + read_text(c, k, proofs->latex ? "%" : "#")
                    : "";
        if (proofs->latex) {
          put(above + to_latex(kernel.elaborated, kernel.derivation));
        } else if (!o->json) {
          put(above + to_text(kernel.elaborated, kernel.derivation));
          if (proofs->z3 && !asked[k]) put("  z3: nothing to ask (plain sums and extrema need no repair)\n");
        } else if (!several) {
          all = to_json(kernel.elaborated, kernel.derivation);
        } else {
          nlohmann::ordered_json one{{"kernel", c.name_of(k)}};
          one.update(to_json(kernel.elaborated, kernel.derivation));
          all["kernels"].push_back(one);
        }
      }
      if (o->json) {
        if (c.whole) all["made_as"] = made;
        if (!choices.empty()) all["choices"] = choices;
        put_json(all);
      } else if (!proofs->latex && !choices.empty()) {
        put("\n" + choices_text(c, plan_target(compile_options(*o, p))));
      }
      return proved ? 0 : 1;
    }();
  });
}

}  // namespace tilewright::cli
