// tilewright check: run and compare with the definition.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/arrays.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/progress.h"

namespace tilewright::cli {

void add_check(CLI::App& app, int& status) {
  auto o = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("check", "run and compare with the definition evaluated in f64");
  add_common(*verb, *o);
  add_running(*verb, *o);
  add_examples(
      *verb,
      {"tilewright check examples/pf_causal.tw --size b=1,h=2,i=300,j=300 --dtype Q=f32,K=f32,V=f32,O=f32",
       "tilewright check examples/softmax.tw --size r=7,j=5000 --target interp --json",
       "tilewright check examples/softmax.tw --input x=x.npy --schedule 'stream j=256'"});
  verb->callback([o, verb, &status] {
    status = [&] {
      std::map<std::string, int64_t> sizes;
      const Program p = load(*o, sizes);
      CompileOptions options = compile_options(*o, p);
      options.recall = true;
      expect_effects(*verb, *o, options.target);
      const SessionOptions s = session_options(*o, p, sizes);
      Session session = make_session(p, options, s);
      run_session(session, 0, 1);
      write_outputs(*o, session);
      const std::vector<OutputCheck> checks = [&] {
        Progress progress("comparing with the definition in f64");
        return session.check();
      }();
      bool passed = true, sampled = false;
      nlohmann::json j{
          {"program", p.name}, {"target", name(options.target)}, {"plan", session.kernel().last_plan()}};
      for (const Axis& a : p.axes) j["sizes"][a.name()] = session.sizes().at(a.index.size());
      for (const OutputCheck& c : checks) {
        passed = passed && c.comparison.passed;
        sampled = sampled || c.sampled;
        nlohmann::json e{{"name", c.name},
                         {"error", c.comparison.error},
                         {"tolerance", c.comparison.tolerance},
                         {"usual", c.comparison.usual},
                         {"loose", c.comparison.loose()},
                         {"passed", c.comparison.passed},
                         {"elements", c.comparison.elements},
                         {"not_finite", c.comparison.not_finite},
                         {"sampled", c.sampled}};
        if (c.comparison.worst >= 0) {
          e["index"] = c.index;
          e["got"] = fmt::format("{}", c.got);
          e["expected"] = fmt::format("{}", c.expected);
        }
        if (!c.comparison.passed) e["reason"] = c.comparison.reason;
        j["outputs"].push_back(e);
      }
      j["sampled"] = sampled;
      j["passed"] = passed;
      if (o->json) {
        put_json(j);
        return passed ? 0 : 1;
      }
      put(fmt::format("{}  {}  {}\n  plan   {}\n", p.name, name(options.target),
                      sizes_text(p, session.sizes()), plan_lines(session)));
      for (const OutputCheck& c : checks) {
        put(fmt::format(
            "  {:<6} {}  error {:.3g}  tolerance {:.3g}  {} elements{}{}\n", c.name,
            c.comparison.passed ? "passed" : "FAILED", c.comparison.error, c.comparison.tolerance,
            c.comparison.elements, c.sampled ? " (a seeded sample)" : "",
            c.comparison.not_finite > 0
                ? fmt::format(", {} of {} not finite", c.comparison.not_finite, c.comparison.elements)
                : ""));
        if (c.comparison.passed && c.comparison.loose())
          put(
              fmt::format("         loose: the tolerance is {:.0f} % of the root mean square of what is "
                          "expected, {:.3g}; give "
                          "inputs of less spread (--input), or dtypes of more digits\n",
                          100 * c.comparison.tolerance / c.comparison.usual, c.comparison.usual));
        if (!c.comparison.passed)
          put(fmt::format("         {}: at [{}] got {}, expected {}\n", c.comparison.reason,
                          fmt::join(c.index, ", "), c.got, c.expected));
      }
      return passed ? 0 : 1;
    }();
  });
}

}  // namespace tilewright::cli
