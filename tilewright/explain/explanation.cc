#include "tilewright/explain/explanation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "tilewright/derive/json.h"
#include "tilewright/explain/formula.h"
#include "tilewright/explain/sketch.h"
#include "tilewright/explain/unfused.h"
#include "tilewright/search/rank.h"

namespace tilewright::explain {

namespace {

constexpr size_t kPageWidth = 104;
/// A longer picture would not leave room for the rest of the page.
constexpr int kSketchLines = 36;

std::string milliseconds(double n) {
  return n >= 1 ? fmt::format("{:.3g} ms", n) : fmt::format("{:.3g} µs", n * 1000);
}

std::string without_indices(const std::string& result) { return result.substr(0, result.find('[')); }

/// What the streamed axis is carried by.
PageSection state_of(const Compilation& c, const std::string& title) {
  const nlohmann::ordered_json d = to_json(c.elaborated, c.derivation);
  size_t points = 0, components = 0, proved = 0, tested = 0;
  for (const Pass& pass : c.derivation.passes) {
    points += pass.state.points.size();
    components += pass.state.components.size();
    for (const Check& check : pass.state.checks)
      (check.by == "expressions" ? proved : tested) += check.passed ? 1 : 0;
  }
  PageSection s{title, "", {}};
  const size_t passes = c.derivation.passes.size();
  s.summary =
      d["reductions"].empty()
          ? fmt::format("nothing is reduced: {} only crosses in chunks", c.derivation.cascade.axis.name())
          : fmt::format("over {} in {}: {} carried by {} and {}", c.derivation.cascade.axis.name(),
                        passes == 1 ? "one pass" : fmt::format("{} passes", passes),
                        counted(d["reductions"].size(), "reduction"), counted(points, "point"),
                        counted(components, "component"));
  std::set<std::string> written;  // several reductions may share a component
  const auto add = [&](const std::string& name, const std::string& text, const std::string& value) {
    if (written.insert(name + "|" + text + "|" + value).second) s.lines.push_back({name, text, value});
  };
  for (const auto& p : d["points"]) {
    std::string moves = p["moves"].get<std::string>();
    s.lines.push_back({without_indices(p["name"].get<std::string>()), moves, "point"});
  }
  for (const auto& r : d["reductions"]) {
    const std::string pass = passes > 1 ? fmt::format("pass {}", r["pass"].get<int>()) : "";
    const auto& states = r["state"];
    for (size_t k = 0; k < states.size(); ++k) {
      const std::string text = states[k].get<std::string>();
      if (text.rfind("the point", 0) == 0) continue;
      const size_t equal = text.find(" = ");
      add(without_indices(text.substr(0, equal)), equal == std::string::npos ? text : text.substr(equal + 3),
          pass);
    }
    for (const auto& text : r["repair"]) {
      const std::string repair = text.get<std::string>();
      add("", repair, "repair");
    }
  }
  for (const auto& r : d["refusals"])
    s.lines.push_back(
        {"again",
         fmt::format("{} mixes in {}", r["reduction"].get<std::string>(), r["subterm"].get<std::string>()),
         ""});
  for (const auto& r : d["reductions"]) {
    const std::string name = without_indices(r["name"].get<std::string>()),
                      value = r["finish"].get<std::string>();
    if (value != name) s.lines.push_back({name, value, "finish"});
  }
  for (const auto& o : d["outputs"]) {
    const std::string value = o["value"].get<std::string>();
    const size_t equal = value.find(" = ");
    s.lines.push_back({o["name"].get<std::string>(),
                       equal == std::string::npos ? value : value.substr(equal + 3), "output"});
  }
  if (proved + tested > 0)
    s.lines.push_back({"checks",
                       fmt::format("{} {} proved over the reals, {} tested on random values", proved,
                                   proved == 1 ? "identity" : "identities", tested),
                       ""});
  return s;
}

PageSection plan_of(const Planned& k, const std::string& title) {
  PageSection s{title, print(k.compilation.elaborated, k.plan), {}};
  const Plan& plan = k.plan;
  for (const Cut& c : plan.group)
    if (c.block > 1)
      s.lines.push_back({c.axis.name(),
                         c.piece > 0 && c.piece < c.block
                             ? fmt::format("blocks of {}, in pieces of {}", c.block, c.piece)
                             : fmt::format("blocks of {}", c.block),
                         ""});
  std::vector<std::string> singly, whole;
  for (const Cut& c : plan.group)
    if (c.block == 1) singly.push_back(c.axis.name());
  for (Sym x : plan.whole) whole.push_back(x.name());
  if (!singly.empty()) s.lines.push_back({listed(singly), "a block for each index", ""});
  s.lines.push_back({plan.stream.name(),
                     plan.resident ? fmt::format("held whole, up to {}", plan.chunk)
                     : plan.split
                         ? fmt::format("chunks of {}, in parts of {} that are merged", plan.chunk, plan.split)
                         : fmt::format("chunks of {}", plan.chunk),
                     ""});
  if (!whole.empty()) s.lines.push_back({listed(whole), "whole in a block", ""});
  return s;
}

/// Definitions that no output depends on, in their order.
std::vector<Definition> unused_definitions(const Program& p) {
  std::set<Sym> used;
  for (const Output& o : p.outputs) used.insert(o.sym);
  for (size_t k = p.definitions.size(); k-- > 0;)  // a definition reads those before it
    if (used.count(p.definitions[k].sym))
      rewrite(p.definitions[k].value, [&](Expr e) {
        if (e->sym) used.insert(e->sym);
        return e;
      });
  std::vector<Definition> unused;
  for (const Definition& d : p.definitions)
    if (!used.count(d.sym)) unused.push_back(d);
  return unused;
}

}  // namespace

Explanation explanation_of(const CompiledProgram& c, const StepOptions& o, const Measured& measured,
                           const std::string& whose_sizes) {
  Explanation e;
  e.program = c.program.name;
  const std::string written = print(c.program);
  for (size_t at = 0; at < written.size();) {
    const size_t end = std::min(written.find('\n', at), written.size());
    const std::string line = written.substr(at, end - at);
    at = end + 1;
    if (!line.empty() && line.rfind("program ", 0) != 0) e.definition.push_back(line);
  }
  for (const Definition& d : unused_definitions(c.program))
    e.definition.push_back(fmt::format("# no output depends on {}", d.sym.name()));
  e.picture = diagram_of(c.program);
  std::vector<std::string> sizes;
  for (const auto& [axis, n] : o.sizes) sizes.push_back(fmt::format("{}={}", axis, n));
  e.sizes = fmt::format("{}", fmt::join(sizes, " "));

  const MachineFile machine = with_rates(o.machine);
  const bool typical = !o.machine.gpu && !o.machine.fma_f32;
  PageSection cost{"cost", "", {}};
  std::optional<double> moved = 0.0, seconds = 0.0;
  bool known = true;  // every size
  std::vector<std::string> bound;
  for (size_t k = 0; k < c.kernels.size(); ++k) {
    const Planned planned(c.kernels[k], plan_for(c.kernels[k], o.sizes));
    const Formulas f(planned.model);
    const Integers values = numbers(planned, o.sizes);
    const std::string of = c.several() ? fmt::format(" {}", c.name_of(k)) : "";
    e.sections.push_back(state_of(planned.compilation, "state" + of));
    e.sections.push_back(plan_of(planned, "plan" + of));
    const Expr exact = both(planned.model.exact.memory), smooth = both(planned.model.smooth.memory);
    const auto h = transferred(planned.model, exact, smooth, values);
    const Expr peak = planned.model.held;
    const auto m = value_of(peak, values);
    const auto text = [](const std::optional<double>& x) {
      return x ? quantity(*x, "bytes") : std::string();
    };
    cost.lines.push_back(
        {"H" + of, f.text(smooth) + where_tiles_divide(planned.model, smooth, h, values), text(h)});
    cost.lines.push_back({"M" + of, f.text(peak), text(m)});
    moved = moved && h ? std::optional<double>(*moved + *h) : std::nullopt;
    if (complete(planned.model, values)) {
      const Prediction p = predict(planned.model, machine, values);
      seconds = seconds && p.serial > 0 ? std::optional<double>(*seconds + p.predicted) : std::nullopt;
      if (std::find(bound.begin(), bound.end(), p.bound_by) == bound.end()) bound.push_back(p.bound_by);
    } else {
      seconds = std::nullopt;
      known = false;
    }
  }
  cost.summary = e.sizes.empty()
                     ? "H crosses memory, M is held by a block"
                     : fmt::format("H crosses memory, M is held by a block; at {}{}", e.sizes, whose_sizes);
  if (c.several() && moved) cost.lines.push_back({"H", "of all kernels", quantity(*moved, "bytes")});
  const std::vector<UnfusedKernel> apart = unfused(c.program, o.compile, o.sizes);
  std::optional<double> without = 0.0;
  std::vector<std::string> between;
  for (const UnfusedKernel& k : apart) {
    if (k.between) between.push_back(k.statement);
    const auto n = k.kernel ? transferred(k.kernel->model, both(k.kernel->model.exact.memory),
                                          both(k.kernel->model.smooth.memory), numbers(*k.kernel, o.sizes))
                            : std::nullopt;
    without = without && n ? std::optional<double>(*without + *n) : std::nullopt;
  }
  // Fewer than the kernels move where these compute again what a statement would have stored.
  const auto compared = [&]() -> std::string {
    if (!without || !moved || *moved <= 0) return "";
    if (*without >= *moved || *without <= 0)
      return fmt::format(", {:.1f} times the bytes", *without / *moved);
    return fmt::format(", fewer bytes: H is {:.1f} times as many", *moved / *without);
  };
  if (apart.size() > c.kernels.size())
    cost.lines.push_back({"unfused",
                          between.empty()
                              ? fmt::format("{}, each a kernel", counted(apart.size(), "statement"))
                              : fmt::format("{}, each a kernel: {} in memory{}",
                                            counted(apart.size(), "statement"), listed(between), compared()),
                          without ? quantity(*without, "bytes") : ""});
  e.sections.push_back(cost);

  PageSection time{"time", "", {}};
  if (measured.ran)
    time.lines.push_back({"measured",
                          fmt::format("{}, median of {} ({} to {})", measured.on, measured.runs,
                                      milliseconds(measured.min), milliseconds(measured.max)),
                          milliseconds(measured.median)});
  else
    time.lines.push_back({"measured", measured.why_not, "not run"});
  if (seconds && *seconds > 0) {
    e.predicted = *seconds * 1000;
    time.lines.push_back(
        {"predicted",
         fmt::format(
             "{}, bound by {}{}", o.machine.name, listed(bound),
             typical ? "; by typical rates: `hardware calibrate` measures those of this machine" : ""),
         milliseconds(*seconds * 1000)});
  } else {
    time.lines.push_back({"predicted",
                          !known ? "sizes are missing"
                                 : fmt::format("{} has no rates for what the kernels do", o.machine.name),
                          "unknown"});
  }
  e.sections.push_back(time);
  return e;
}

std::string to_text(const Explanation& e) {
  const auto rule = [](const std::string& title, const std::string& summary) {
    std::string line = title;
    if (!summary.empty()) line += "  " + wrapped(summary, columns_of(title) + 2, kPageWidth);
    return line + "\n";
  };
  std::string out = e.program;
  if (!e.file.empty()) out = padded(out, kPageWidth - std::min(kPageWidth / 2, columns_of(e.file))) + e.file;
  out += "\n";
  for (size_t k = 0; k < kPageWidth; ++k) out += "─";
  out += "\n";
  if (!e.about.empty()) out += wrapped(e.about, 0, kPageWidth) + "\n\n";
  for (const std::string& line : e.definition) out += "  " + wrapped(line, 6, kPageWidth) + "\n";
  std::string drawn = sketch(e.picture, kPageWidth - 6);
  if (std::count(drawn.begin(), drawn.end(), '\n') > kSketchLines)
    drawn = "(the picture is long: tilewright draw FILE --output FILE.svg, or --html)";
  out += "\n";
  for (size_t at = 0; at < drawn.size();) {
    const size_t end = std::min(drawn.find('\n', at), drawn.size());
    out += "  " + drawn.substr(at, end - at) + "\n";
    at = end + 1;
  }
  for (const PageSection& s : e.sections) {
    out += "\n" + rule(s.title, s.summary);
    size_t name = 0, value = 0;
    for (const PageLine& l : s.lines)
      name = std::max(name, columns_of(l.name)), value = std::max(value, columns_of(l.value));
    for (const PageLine& l : s.lines) {
      std::string line = "  " + padded(l.name, name) + "  ";
      if (value > 0) line += padded(l.value, value) + "  ";
      line += wrapped(l.text, name + (value > 0 ? value + 2 : 0) + 4, kPageWidth);
      while (!line.empty() && line.back() == ' ') line.pop_back();
      out += line + "\n";
    }
  }
  for (size_t at; (at = out.find(" \n")) != std::string::npos;) out.erase(at, 1);
  return out;
}

nlohmann::ordered_json to_json(const Explanation& e) {
  using json = nlohmann::ordered_json;
  json out{
      {"program", e.program}, {"definition", e.definition}, {"sizes", e.sizes}, {"sections", json::array()}};
  for (const PageSection& s : e.sections) {
    json one{{"title", s.title}, {"summary", s.summary}, {"lines", json::array()}};
    for (const PageLine& l : s.lines)
      one["lines"].push_back({{"name", l.name}, {"text", l.text}, {"value", l.value}});
    out["sections"].push_back(one);
  }
  if (e.predicted) out["predicted_milliseconds"] = *e.predicted;
  return out;
}

}  // namespace tilewright::explain
