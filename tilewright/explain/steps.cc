#include "tilewright/explain/steps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tilewright/driver/choices.h"
#include "tilewright/explain/kernel_steps.h"
#include "tilewright/explain/unfused.h"
#include "tilewright/expr/simplify.h"

namespace tilewright::explain {

namespace {

/// The definition as kernels of single statements.
Step definition_step(const CompiledProgram& c, const StepOptions& o) {
  Step s;
  s.name = "definition";
  s.title = "every statement is a kernel of its own";
  const std::vector<UnfusedKernel> kernels = unfused(c.program, o.compile, o.sizes);
  std::string text = print(c.program);
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    if (!line.empty() && line.rfind("program ", 0) != 0) s.code.push_back({0, line, "", "", nullptr});
    at = end + 1;
  }
  std::vector<std::string> between, refused;
  const Formulas all(c.program.axes);
  Expr once = 0, stored = 0;
  Table table{"",
              {"kernel", "reads", "H where every array crosses once", "in bytes"},
              {},
              {false, false, false, true}};
  StepFormula h{"H", "", {}, 0.0, "bytes", "", {}}, least{"H once", "", {}, 0.0, "bytes", "", {}},
      arrays{"between", "", {}, 0.0, "bytes", "", {}}, m{"M", "", {}, 0.0, "bytes", "", {}};
  double largest = 0;
  for (const UnfusedKernel& k : kernels) {
    if (k.between) between.push_back(k.statement);
    if (!k.kernel) {
      refused.push_back(k.statement);
      table.rows.push_back(
          {k.statement, fmt::format("{}", fmt::join(k.reads, " ")), "refused: " + k.refused, ""});
      h.value = least.value = std::nullopt;
      continue;
    }
    const Planned& planned = *k.kernel;
    const Formulas f(planned.model);
    const Integers values = numbers(planned, o.sizes);
    const Expr exact = both(planned.model.exact.memory), smooth = both(planned.model.smooth.memory);
    const auto moved = transferred(planned.model, exact, smooth, values);
    const auto crossed = transferred(planned.model, f.ungrouped(exact), f.ungrouped(smooth), values);
    h.exact = h.exact ? simplify(h.exact + exact) : exact;
    least.exact = least.exact ? simplify(least.exact + f.ungrouped(exact)) : f.ungrouped(exact);
    for (const auto& [sym, n] : values) h.numbers[sym] = n, least.numbers[sym] = n;
    const auto add = [](std::optional<double>& to, const std::optional<double>& x) {
      to = to && x ? std::optional<double>(*to + *x) : std::nullopt;
    };
    add(h.value, moved), add(least.value, crossed);
    const Expr crossing = f.numbered(f.ungrouped(smooth));
    once = once + crossing;
    table.rows.push_back({k.statement, fmt::format("{}", fmt::join(k.reads, " ")), all.text(crossing),
                          crossed ? quantity(*crossed, "bytes") : "not known"});
    if (k.between) {
      const Expr n = k.elements * Expr(bytes(k.dtype));
      stored = stored + n;
      add(arrays.value, value_of(n, values));
    }
    const Expr peak = planned.model.held;
    if (const auto held = value_of(peak, values); held && *held > largest) {
      largest = *held;
      m.text = f.text(peak), m.exact = peak, m.value = held, m.numbers = values;
      m.note = fmt::format("of a block of {}, the largest", k.statement);
    }
  }
  least.text = all.text(once);
  arrays.text = all.text(stored);
  least.note = "every array crosses once for each pass over it";
  h.text = "";
  h.note = "with the default tiles of each kernel, whose blocks read what they share again";
  s.changed = fmt::format(
      "Nothing yet: {} as written, each by itself.{}", counted(kernels.size(), "statement"),
      between.empty() ? ""
                      : fmt::format(" {} {} written to memory by one kernel and read back by the next.",
                                    listed(between), between.size() == 1 ? "is" : "are"));
  if (!refused.empty()) s.changed += fmt::format(" {} cannot be a kernel alone.", listed(refused));
  s.formulas.push_back(least);
  if (h.value) s.formulas.push_back(h);
  if (!between.empty()) s.formulas.push_back(arrays);
  s.formulas.push_back(m);
  s.tables.push_back(table);
  if (o.pictures) s.pictures.push_back(lay_out(diagram_of(c.program)));
  return s;
}

/// What shares a kernel, where there are several.
Step kernels_step(const CompiledProgram& c, Target plans) {
  Step s;
  s.name = "kernels";
  s.applies = c.several();
  s.title = s.applies ? fmt::format("cut into {} kernels", c.kernels.size()) : "one kernel";
  if (!s.applies) {
    s.changed =
        "Everything is one kernel: what its reductions need of each other lies on the rows of one block. The "
        "steps below are its own.";
    return s;
  }
  s.changed = fmt::format(
      "{}What is stored between them is decided by counted bytes and operations, or because one kernel is "
      "refused. The steps below are those of "
      "each kernel.",
      c.whole ? "One kernel would be accepted, and several cost less. " : "");
  Table table{"", {"kernel", "stores", "reads"}, {}, {true}};
  for (size_t k = 0; k < c.kernels.size(); ++k) {
    std::vector<std::string> reads;
    for (const Input& in : c.kernels[k].program.inputs) reads.push_back(in.sym.name());
    table.rows.push_back({fmt::format("{}", k + 1), c.name_of(k), fmt::format("{}", fmt::join(reads, " "))});
  }
  s.tables.push_back(table);
  Table choices{"what was compared", {"", ""}, {}, {}};
  std::string text = choices_text(c, plans);
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    const size_t first = line.find_first_not_of("# ");
    if (first != std::string::npos) choices.rows.push_back({"", line.substr(first)});
    at = end + 1;
  }
  if (!choices.rows.empty()) s.tables.push_back(choices);
  return s;
}

}  // namespace

std::vector<Step> steps_of(const CompiledProgram& c, const StepOptions& o) {
  std::vector<size_t> chosen;
  std::vector<std::string> names;
  for (size_t k = 0; k < c.kernels.size(); ++k) {
    const std::string all = c.name_of(k);
    names.push_back(all);
    if (o.kernel.empty() || (", " + all + ",").find(", " + o.kernel + ",") != std::string::npos)
      chosen.push_back(k);
  }
  if (chosen.empty()) {
    const std::string near = nearest_name(o.kernel, names);
    throw UserError(Span{}, fmt::format("no kernel is called `{}`", o.kernel),
                    near.empty() ? fmt::format("choose one of {}", fmt::join(names, ", "))
                                 : fmt::format("did you mean `{}`?", near));
  }
  std::vector<Step> steps{definition_step(c, o)};
  if (c.several()) steps.push_back(kernels_step(c, plan_target(o.compile)));
  for (size_t k : chosen)
    for (Step& s : KernelSteps(c, k, o).run()) steps.push_back(std::move(s));
  return steps;
}

}  // namespace tilewright::explain
