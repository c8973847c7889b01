// clocks, overlap: what a chunk takes of a core, and who works while others wait.
#include "tilewright/explain/kernel_steps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tilewright/explain/overlap.h"
#include "tilewright/map/mapped.h"
#include "tilewright/tile/statements.h"

namespace tilewright::explain {

void KernelSteps::clocks() {
  Step& s = add("clocks", "what one chunk takes of a core");
  s.shades = shades_;
  budget_ = clock_budget(m_, o_.machine, values_);
  s.formulas = {transfers(), one_memory()};
  if (!budget_) {
    s.applies = false;
    const bool loop =
        std::any_of(m_.visits.begin(), m_.visits.end(), [](const Visits& v) { return v.kernel == 0; });
    s.changed =
        loop
            ? fmt::format(
                  "{} has no clock to count with: {}. `tilewright hardware calibrate` measures this machine.",
                  o_.machine.name, o_.machine.missing("rates.clock"))
            : "The kernel has no loop over chunks.";
    return;
  }
  const double rows = double(budget_->rows);
  Table table{"", {"unit", "clocks", "a row", "does"}, {}, {false, true, true}};
  for (const ClockLine& l : budget_->lines)
    table.rows.push_back(
        {l.role, l.clocks > 0 ? fmt::format("{:.0f}", l.clocks) : "?",
         l.clocks > 0 ? fmt::format("{:.3g}", l.clocks / rows) : "not priced",
         l.role == "load" ? fmt::format("{} of operands", quantity(l.count, "bytes")) : cut(l.what, 72)});
  s.changed = fmt::format(
      "Each statement of one chunk at the rate of its unit, on one core of {}: {} clocks of the matrix unit, "
      "{} of the special units, {} of the vector units.",
      o_.machine.name, whole(budget_->matrix), whole(budget_->special), whole(budget_->vector));
  const std::pair<double, const char*> units[] = {{budget_->matrix, "the matrix unit"},
                                                  {budget_->special, "the special units"},
                                                  {budget_->vector, "the vector units"}};
  const auto most = std::max_element(std::begin(units), std::end(units));
  if (most->first > 0)
    s.changed += fmt::format(" If everything overlapped, {} would be the bound.", most->second);
  const auto total = [&](const char* what, double n, const std::string& note = {}) {
    if (n <= 0) return;
    StepFormula x;
    x.name = what;
    x.value = n;
    x.unit = "clocks";
    x.note = note.empty() && rows > 1 ? fmt::format("{:.3g} a row of {}", n / rows, budget_->rows) : note;
    s.formulas.push_back(x);
  };
  total("matrix", budget_->matrix), total("special", budget_->special), total("vector", budget_->vector),
      total("load", budget_->load);
  if (budget_->matrix_bound > 0) {
    StepFormula x;
    x.name = "rate if products never wait";
    x.value = budget_->matrix_bound;
    x.unit = "op/s";
    s.formulas.push_back(x);
  }
  s.tables.push_back(table);
}

std::string KernelSteps::whole(double n) { return fmt::format("{:.0f}", n); }

void KernelSteps::overlapping() {
  Step& s = add("overlap", "who works while others wait");
  s.shades = shades_;
  s.formulas = {transfers(), one_memory()};
  Table roles{"", {"role", "threads", "registers a thread", "does"}, {}, {false, true, true}};
  int rings = 0;
  if (mapped_) {
    const MappedKernel& kernel = mapped_->kernels[0];
    rings = static_cast<int>(kernel.channels.size());
    for (const Role& role : kernel.roles) {
      std::map<std::string, int> count;
      for_each_op(role.body, [&](const MappedOp& op) {
        if (std::holds_alternative<Mma>(op.node))
          ++count["product"];
        else if (std::holds_alternative<CopyAsync>(op.node))
          ++count["bulk load"];
        else if (std::holds_alternative<Copy>(op.node))
          ++count["load"];
        else if (std::holds_alternative<ReduceOp>(op.node))
          ++count["reduction"];
        else if (std::holds_alternative<MapOp>(op.node))
          ++count["function"];
        else if (std::holds_alternative<StoreOut>(op.node) || std::holds_alternative<StoreAsync>(op.node))
          ++count["store"];
        else if (std::holds_alternative<Wait>(op.node))
          ++count["wait"];
      });
      std::vector<std::string> does;
      for (const auto& [what, n] : count) does.push_back(counted(static_cast<size_t>(n), what));
      roles.rows.push_back({role.name, fmt::format("{}", role.threads),
                            role.registers > 0 ? fmt::format("{}", role.registers) : "-", listed(does)});
    }
    for (const Channel& channel : kernel.channels)
      if (channel.slots > 1)
        roles.rows.push_back({"ring " + channel.name, "", "",
                              fmt::format("{} slots: one is filled while others are read", channel.slots)});
  }
  const int groups = std::max(1, t_.plan.computers);
  const auto timed =
      budget_ ? overlap(*budget_, groups, std::max(1, t_.plan.stages), 32) : std::optional<Overlap>();
  if (!mapped_)
    s.changed = fmt::format("There are no roles to show: {}. ", unmapped_);
  else if (o_.machine.gpu)
    s.changed = fmt::format(
        "{} of threads run at once and meet at {}. Legal since every wait has its signal: the mapped "
        "program's interpreter runs them with completions delayed "
        "adversarially and reports races and deadlocks. ",
        counted(mapped_->kernels[0].roles.size(), "role"), counted(static_cast<size_t>(rings), "ring"));
  else
    s.changed =
        "One task runs its statements one after another; tasks of other blocks run on other cores, and what "
        "the next chunk reads is brought near meanwhile. ";
  if (!timed) {
    s.applies = mapped_.has_value() && o_.machine.gpu;
    s.changed +=
        budget_ ? "No unit is priced, so there is no chart." : "Without clocks there is no chart of time.";
  } else {
    s.changed += fmt::format(
        "By the clocks above {} {} at the units: a chunk of all of them takes {:.0f} clocks in the steady "
        "state, {:.0f} if nothing overlapped.",
        groups == 1 ? "one computing group"
                    : fmt::format("{} computing groups (A to {})", groups, char('A' + groups - 1)),
        groups == 1 ? "works" : "take turns", timed->chunk_clocks, timed->serial);
    s.chart = chart(*timed, 80);
    s.chart_svg = chart_svg(*timed, *budget_);
    StepFormula x;
    x.name = "clocks of a chunk";
    x.value = timed->chunk_clocks;
    x.unit = "clocks";
    x.note = fmt::format("{:.0f} % of the time without overlap", 100 * timed->chunk_clocks / timed->serial);
    s.formulas.push_back(x);
  }
  if (!roles.rows.empty()) s.tables.push_back(roles);
  if (complete(m_, values_)) {
    const Prediction p = predict(m_, o_.machine, values_);
    if (p.serial > 0) {
      StepFormula x;
      x.name = "time";
      x.value = p.predicted;
      x.unit = "s";
      x.note = fmt::format("predicted, bound by {}", p.bound_by);
      s.formulas.push_back(x);
    }
  }
}

}  // namespace tilewright::explain
