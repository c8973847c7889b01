// tilewright tune: plans chosen by measurement; the winner as JSON that --schedule reads.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "cli/arrays.h"
#include "cli/commands.h"
#include "cli/machine.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "tilewright/driver/tune.h"
#include "tilewright/search/plan_file.h"

namespace tilewright::cli {

namespace {

struct TuneArguments {
  Options program;
  std::string machine, output;
  int budget = 60, rounds = 9;
  int64_t best = 12;
  int finals = 3;
};

/// "1.234 ms".
std::string time_text(double seconds) { return fmt::format("{:.3f} ms", seconds * 1e3); }

nlohmann::ordered_json to_json(const TunedPlan& x) {
  nlohmann::ordered_json j{{"schedule", x.schedule}};
  if (!x.kernel.empty()) j["kernel"] = x.kernel;
  if (x.place > 0) j["place"] = x.place, j["predicted"] = x.predicted;
  if (!x.measured.seconds.empty()) {
    j["median"] = x.measured.median();
    j["least"] = x.measured.least();
    j["rounds"] = x.measured.seconds.size();
    j["times"] = x.measured.seconds;
  }
  if (!x.measured.failed.empty()) j["refused"] = x.measured.failed;
  return j;
}

/// The order of measured times: those that ran in most rounds and are shortest.
std::vector<size_t> by_time(const Tuned& t) {
  std::vector<size_t> order;
  for (size_t n = 0; n < t.plans.size(); ++n)
    if (!t.plans[n].measured.seconds.empty()) order.push_back(n);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return t.plans[a].measured.median() < t.plans[b].measured.median();
  });
  return order;
}

/// The plans of a schedule's text, by the heading that they stand under.
std::vector<std::pair<std::string, std::string>> plans_of(const std::string& schedule) {
  std::vector<std::pair<std::string, std::string>> plans;
  std::istringstream in(schedule);
  std::string heading;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    if (line.rfind("kernel ", 0) == 0 && line.back() == ':')
      heading = line;
    else
      plans.emplace_back(heading, line);
  }
  return plans;
}

/// The clauses of one plan, without the condition in front of them.
std::vector<std::string> clauses_of(const std::string& plan) {
  std::vector<std::string> clauses;
  const size_t colon = plan.find(": ");
  for (size_t begin = colon == std::string::npos ? 0 : colon + 2; begin < plan.size();) {
    const size_t end = std::min(plan.find("; ", begin), plan.size());
    clauses.push_back(plan.substr(begin, end - begin));
    begin = end + 2;
  }
  return clauses;
}

/// A schedule in a line: its plans, of several kernels the clauses alone that the default does not have.
std::string in_a_line(const TunedPlan& x, const TunedPlan& own) {
  const auto plans = plans_of(x.schedule), defaults = plans_of(own.schedule);
  std::string line;
  const auto add = [&](const std::string& text, const char* between) {
    line += (line.empty() ? "" : between) + text;
  };
  for (const auto& plan : plans) {
    if (x.kernel.empty()) {
      add(plan.second, " | ");
      continue;
    }
    if (std::find(defaults.begin(), defaults.end(), plan) != defaults.end()) continue;
    std::vector<std::string> known;
    for (const auto& other : defaults)
      if (other.first == plan.first)
        known = clauses_of(other.second);  // the default's last, which has no condition
    const std::vector<std::string> clauses = clauses_of(plan.second);
    std::string changed;
    for (const std::string& c : clauses)
      if (std::find(known.begin(), known.end(), c) == known.end())
        changed += (changed.empty() ? "" : "; ") + c;
    for (const std::string& c : known) {
      const std::string word = c.substr(0, c.find(' '));
      if (std::none_of(clauses.begin(), clauses.end(),
                       [&](const std::string& d) { return d.substr(0, d.find(' ')) == word; }))
        changed += (changed.empty() ? "no " : "; no ") + word;
    }
    if (!changed.empty()) add(changed, " | ");
  }
  constexpr size_t most = 200;
  return line.size() > most ? line.substr(0, most) + "…" : line;
}

}  // namespace

void add_tune(CLI::App& app, int& status) {
  auto o = std::make_shared<TuneArguments>();
  CLI::App* verb = app.add_subcommand("tune", "choose a plan by measurement and keep it as JSON");
  add_program(*verb, o->program);
  verb->add_option("--target", o->program.target, "what to compile for")
      ->type_name("cpu|cuda")
      ->capture_default_str();
  add_machine_of_target(*verb, o->machine);
  verb->add_option_function<std::string>(
          "--best",
          [o](const std::string& text) {
            if (text == "all") {
              o->best = 1 << 20;
              return;
            }
            try {
              size_t end = 0;
              o->best = std::stoll(text, &end);
              if (end != text.size()) o->best = 0;
            } catch (const std::exception&) {
              o->best = 0;
            }
            if (o->best < 1 || o->best > (1 << 20))
              throw UserError(Span{}, fmt::format("--best {} is not a number of plans", text),
                              "write --best 12, or --best all");
          },
          "plans of each kernel to measure, the fastest by prediction first; or `all`")
      ->type_name("N|all")
      ->default_str("12");
  add_integer(
      *verb, "--budget", [o](int64_t n) { o->budget = int(n); }, 1, 86400, 60,
      "seconds that measuring may take, compiling included; the default runs once whatever it takes");
  add_integer(
      *verb, "--rounds", [o](int64_t n) { o->rounds = int(n); }, 1, 1000, 9,
      "times that each plan is measured");
  add_integer(
      *verb, "--finals", [o](int64_t n) { o->finals = int(n); }, 1, 1000, 3,
      "the fastest plans that are measured twice as many times again, beside the default");
  verb->add_option("-o,--output", o->output, "the JSON file that keeps the winner")->type_name("FILE");
  add_threads(*verb, o->program);
  add_device(*verb, o->program);
  add_inputs(*verb, o->program);
  add_json(*verb, o->program.json);
  add_examples(*verb,
               {"tilewright tune examples/pf_causal.tw --size b=1,h=8,i=2048,j=2048 -o causal.json",
                "tilewright run examples/pf_causal.tw --size b=1,h=8,i=2048,j=2048 --schedule causal.json",
                "tilewright tune examples/rmsnorm_matmul.tw --size r=8,n=6144 --budget 20 --best 30"});
  verb->callback([o, verb, &status] {
    expect_one_of(o->program.target, {"cpu", "cuda"}, "target of tuning");
    const bool cpu = o->program.target == "cpu";
    expect_effect(*verb, "--device", !cpu, "it chooses the GPU of --target cuda");
    expect_effect(*verb, "--threads", cpu, "it is for --target cpu");
    const MachineFile machine = with_rates(machine_of_target(o->machine, o->program.target));
    if (!o->output.empty()) {
      check_writable("--output " + o->output, o->output);
      files_read(o->program, o->machine).writes("--output", o->output);
    }
    std::map<std::string, int64_t> given;
    const Program p = load(o->program, given);
    const CompileOptions options = compile_options(o->program, p);
    const SessionOptions session = session_options(o->program, p, given);
    TuneOptions t;
    t.best = size_t(o->best);
    t.race.budget = o->budget;
    t.race.rounds = o->rounds;
    t.finals = size_t(o->finals);
    const Tuned tuned = [&] {
      Progress progress("ranking plans", Piped::Lines);
      t.progress = [&](int round, size_t schedule, size_t schedules) {
        progress.now(fmt::format("round {}: plan {} of {}", round + 1, schedule + 1, schedules));
      };
      return tune(p, options, session, machine, t);
    }();
    const TunedPlan &own = tuned.plans[0], &best = tuned.plans[tuned.winner];
    nlohmann::ordered_json file = plan_file(p.name, name(options.target), best.schedule);
    file["machine"] = machine.name;
    file["sizes"] = given;
    file["seconds"] = best.measured.median();
    file["default_seconds"] = own.measured.median();
    file["regret"] = tuned.regret();
    if (!o->output.empty()) write_text(o->output, file.dump(1) + "\n");
    size_t ran = 0, failed = 0;
    for (const TunedPlan& x : tuned.plans)
      ran += !x.measured.seconds.empty(), failed += !x.measured.failed.empty();
    if (o->program.json) {
      nlohmann::ordered_json j = file;
      j["winner"] = tuned.winner;
      j["took"] = tuned.seconds;
      j["plans"] = nlohmann::ordered_json::array();
      for (const TunedPlan& x : tuned.plans) j["plans"].push_back(to_json(x));
      if (!o->output.empty()) j["file"] = o->output;
      put_json(j);
    } else {
      std::string text =
          fmt::format("{}  {}  {} plans measured, {} refused, {} left out by the budget\n", p.name,
                      name(options.target), ran, failed, tuned.plans.size() - ran - failed);
      text +=
          fmt::format("  {:>12}  {:>12}  {:>6}  {:>5}  {}\n", "median", "least", "rounds", "place", "plan");
      const std::vector<size_t> order = by_time(tuned);
      for (size_t n = 0; n < order.size(); ++n) {
        const TunedPlan& x = tuned.plans[order[n]];
        if (n >= 12 && order[n] != 0) continue;
        text += fmt::format("  {:>12}  {:>12}  {:>6}  {:>5}  {}{}\n", time_text(x.measured.median()),
                            time_text(x.measured.least()), x.measured.seconds.size(),
                            x.place > 0 ? std::to_string(x.place) : "-",
                            order[n] == 0      ? "(default) "
                            : x.kernel.empty() ? ""
                                               : "(" + x.kernel + ") ",
                            in_a_line(x, own));
      }
      text += fmt::format("  regret of the default: {:.1f} %\n", 100 * tuned.regret());
      if (tuned.default_seconds > o->budget)
        text += fmt::format(
            "  the default alone took {:.0f} s of the budget of {} s: give --budget {} to compare plans\n",
            tuned.default_seconds, o->budget, int(std::ceil(4 * tuned.default_seconds)));
      if (!o->output.empty()) text += fmt::format("  kept in {}\n", o->output);
      put(text);
    }
    status = 0;
  });
}

}  // namespace tilewright::cli
