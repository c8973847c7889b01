// tilewright search: the plans of each kernel in the order of their predicted times, and the place of the default among them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/commands.h"
#include "cli/machine.h"
#include "cli/output.h"
#include "tilewright/driver/ranked.h"

namespace tilewright::cli {

namespace {

struct SearchOptions {
  Options program;
  std::string machine;
  int best = 12;
  bool explain = false, fusion = false;
};

/// Seconds of everything that a plan's time is made of, the longest first.
std::vector<std::pair<std::string, double>> longest_first(const RankedPlan& x) {
  std::vector<std::pair<std::string, double>> terms;
  for (const auto& term : x.terms)
    if (term.second > 0) terms.push_back(term);
  std::stable_sort(terms.begin(), terms.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return terms;
}

nlohmann::ordered_json to_json(const Program& p, const RankedPlan& x, size_t place) {
  nlohmann::ordered_json terms = nlohmann::ordered_json::object();
  for (const auto& [what, seconds] : longest_first(x)) terms[what] = seconds;
  return {{"place", place + 1},           {"seconds", x.seconds}, {"bound_by", x.bound_by},
          {"transfers", x.transfers},     {"held", x.held},       {"default", x.is_default},
          {"schedule", print(p, x.plan)}, {"terms", terms}};
}

std::string row(const Program& p, const RankedPlan& x, size_t place, double first, bool cpu) {
  // Tiles of a CPU may lie in the next cache too: its default blocks fit the memory of a task.
  const char* too_large = cpu ? "  (default; larger than a core's cache)" : "  (default; holds too much)";
  return fmt::format("  {:>4}  {:>10}  {:>5.2f}  {:>10}  {:>10}  {:<34}  {}{}\n", place + 1,
                     quantity(x.seconds, "s"), first > 0 ? x.seconds / first : 1,
                     quantity(x.transfers, "bytes"), quantity(x.held, "bytes"), x.bound_by, print(p, x.plan),
                     x.is_default && x.too_large ? too_large
                     : x.is_default              ? "  (default)"
                                                 : "");
}

/// A line below the plan's: what takes how long.
std::string explained(const RankedPlan& x) {
  std::string text;
  for (const auto& [what, seconds] : longest_first(x))
    text += fmt::format("{}{} {}", text.empty() ? "        " : ", ", what, quantity(seconds, "s"));
  return text + "\n";
}

}  // namespace

void add_search(CLI::App& app, int& status) {
  auto o = std::make_shared<SearchOptions>();
  CLI::App* verb = app.add_subcommand("search", "rank the legal plans of a program by predicted time");
  add_program(*verb, o->program);
  verb->add_option("--target", o->program.target, "whose plans")
      ->type_name("cpu|cuda|interp")
      ->capture_default_str();
  add_machine_of_target(*verb, o->machine);
  add_integer(
      *verb, "--best", [o](int64_t n) { o->best = static_cast<int>(n); }, 1, 100000, 12,
      "plans to print of each kernel");
  verb->add_flag("--explain", o->explain, "below each plan what takes how long");
  verb->add_flag(
      "--fusion", o->fusion,
      "also other kernels: a definition stored that is computed where it is read, or the other way "
      "round");
  add_json(*verb, o->program.json);
  add_examples(*verb, {"tilewright search examples/pf_causal.tw --size b=1,h=8,i=2048,j=2048",
                       "tilewright search examples/pf_global.tw --machine h100-sxm --target interp --best 5",
                       "tilewright search examples/rmsnorm_matmul.tw --size r=8,n=6144 --explain",
                       "tilewright search examples/swiglu.tw --size t=512 --fusion"});
  verb->callback([o, &status] {
    expect_one_of(o->program.target, {"cpu", "cuda", "interp"}, "target of a search");
    const bool cpu = o->program.target == "cpu";
    const MachineFile machine = with_rates(machine_of_target(o->machine, o->program.target));
    std::map<std::string, int64_t> given;
    const Program p = load(o->program, given);
    CompileOptions options = compile_options(o->program, p);
    if (!o->machine.empty()) options.arch = machine.arch;
    const CompiledProgram c = compile_program(p, options);
    const Sizes sizes = all_sizes(c, given);
    const std::vector<RankedKernel> kernels = rank_plans(c, options, machine, sizes, size_t(o->best));
    // Each makes kernels, which takes tens of milliseconds.
    constexpr size_t most_cuts = 4;
    bool complete = true;
    std::vector<RankedCut> cuts;
    if (o->fusion) cuts = rank_cuts(p, c, kernels, options, machine, given, most_cuts, complete);
    nlohmann::ordered_json j{
        {"program", p.name}, {"target", name(options.target)}, {"machine", machine.name}};
    std::string at;
    std::vector<std::string> assumed;
    for (const Axis& a : p.axes) {
      const auto it = sizes.find(a.index.size());
      if (it == sizes.end()) continue;
      j["sizes"][a.name()] = it->second;
      if (a.baked()) continue;
      at += fmt::format("{}{}={}", at.empty() ? "" : " ", a.name(), it->second);
      if (!a.size && !given.count(a.name())) assumed.push_back(a.name());
    }
    if (!assumed.empty()) j["assumed"] = assumed;
    j["kernels"] = nlohmann::ordered_json::array();
    std::string text = fmt::format("{}  {}  {}{}\n", p.name, name(options.target), machine.name,
                                   machine.about.empty() ? "" : " (" + machine.about + ")");
    if (!at.empty())
      text += fmt::format(
          "  at {}{}\n", at,
          assumed.empty() ? ""
                          : fmt::format("; {} assumed, where --size gives none", fmt::join(assumed, ", ")));
    for (const RankedKernel& k : kernels) {
      const Program& of = c.kernels[k.kernel].program;
      const Ranking& r = k.ranking;
      const size_t shown = std::min(r.plans.size(), size_t(o->best)), own = r.place_of_default();
      text += heading(c, k.kernel, "#");
      const bool kept = own < r.plans.size() && r.plans[own].too_large;
      text += fmt::format(
          "  {} plans, {} tile programs; {} hold too much{}, {} refused, {} ranked; {:.0f} ms\n",
          r.enumerated, r.families, r.too_large, kept ? " (the default too, which is ranked)" : "", r.refused,
          r.plans.size(), r.milliseconds);
      text += fmt::format("  {:>4}  {:>10}  {:>5}  {:>10}  {:>10}  {:<34}  {}\n", "", "predicted", "ratio",
                          "H", "M", "bound by", "plan");
      nlohmann::ordered_json one{{"kernel", c.name_of(k.kernel)},
                                 {"enumerated", r.enumerated},
                                 {"tile_programs", r.families},
                                 {"too_large", r.too_large},
                                 {"refused", r.refused},
                                 {"milliseconds", r.milliseconds},
                                 {"plans", nlohmann::ordered_json::array()}};
      for (size_t n = 0; n < r.plans.size(); ++n) {
        if (n >= shown && n != own) continue;
        if (n > shown) text += "   ...\n";
        text += row(of, r.plans[n], n, r.plans[0].seconds, cpu);
        if (o->explain) text += explained(r.plans[n]);
        one["plans"].push_back(to_json(of, r.plans[n], n));
      }
      j["kernels"].push_back(one);
    }
    if (o->fusion && cuts.empty())
      text += "\n  no other kernels: no definition could be stored, or computed where it is read\n";
    if (!cuts.empty()) {
      const double own = seconds_of(kernels);
      text += fmt::format("\n  other kernels{}\n  {:>10}  {:>5}  {:>7}  {}\n",
                          complete ? "" : fmt::format(" (of the first {} definitions)", most_cuts),
                          "predicted", "ratio", "kernels", "schedule");
      const auto one = [&](double seconds, size_t number, const std::string& clause) {
        text += fmt::format("  {:>10}  {:>5.2f}  {:>7}  {}\n", quantity(seconds, "s"),
                            own > 0 ? seconds / own : 1, number, clause);
      };
      one(own, c.kernels.size(), "(as now, best plan)");
      for (const RankedCut& cut : cuts) {
        one(cut.seconds, cut.program.kernels.size(), cut.clause);
        j["cuts"].push_back(
            {{"schedule", cut.clause}, {"kernels", cut.program.kernels.size()}, {"seconds", cut.seconds}});
      }
    }
    if (o->program.json)
      put_json(j);
    else
      put(text);
    status = 0;
  });
}

}  // namespace tilewright::cli
