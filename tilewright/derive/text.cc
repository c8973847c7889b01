// The text form of a derivation.
#include <algorithm>

#include <fmt/format.h>

#include "tilewright/derive/readable.h"

namespace tilewright {
namespace {

using derivation::PointText;
using derivation::Readable;
using derivation::ReductionText;

void lines(std::string& out, const char* label, const std::vector<std::string>& all) {
  for (size_t k = 0; k < all.size(); ++k) out += fmt::format("  {:<9}{}\n", k == 0 ? label : "", all[k]);
}

std::string count(size_t n, const char* what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : what[0] == 'p' && what[2] == 's' ? "es" : "s");
}

/// "closure, distributivity of l (expressions)": the checks of one kind together.
void proofs(std::string& out, const Derivation& d) {
  out += "checked\n";
  std::vector<std::pair<std::string, std::vector<std::string>>> kinds;
  for (const Pass& pass : d.passes) {
    for (const Check& c : pass.state.checks) {
      size_t of = c.by == "expressions" || c.by == "z3" ? c.what.rfind(" of ") : std::string::npos;
      std::string kind = of == std::string::npos ? c.what : c.what.substr(0, of);
      std::string key = fmt::format("{:<52}{}{}", kind, c.by, c.passed ? "" : " NOT PROVED: " + c.detail);
      auto it = std::find_if(kinds.begin(), kinds.end(), [&](auto& x) { return x.first == key; });
      if (it == kinds.end()) it = kinds.insert(kinds.end(), {key, {}});
      if (of != std::string::npos) it->second.push_back(c.what.substr(of + 4));
    }
  }
  for (auto& [kind, of] : kinds)
    out += fmt::format("  {}{}\n", kind, of.empty() ? "" : fmt::format("  {}", fmt::join(of, ", ")));
  const bool z3 = std::any_of(d.passes.begin(), d.passes.end(), [](const Pass& pass) {
    const std::vector<Check>& all = pass.state.checks;
    return std::any_of(all.begin(), all.end(), [](const Check& c) { return c.by == "z3"; });
  });
  out += fmt::format("  (expressions{}: proved over the reals; random values: tested in f64)\n",
                     z3 ? ", z3" : "");
}

}  // namespace

std::string to_text(const Program& p, const Derivation& d) {
  Readable readable(p, d);
  const std::string x = d.cascade.axis.name();
  std::string body;
  for (size_t n = 0; n < d.passes.size(); ++n) {
    const Pass& pass = d.passes[n];
    if (d.passes.size() > 1) body += fmt::format("\npass {} over {}\n", n + 1, x);
    for (const Point& q : pass.state.points) {
      PointText t = readable.point(q);
      body += fmt::format("\npoint {}: {}\n  {:<9}{}\n", t.name, t.meaning, "moves", t.moves);
      if (!t.may_lag.empty()) body += fmt::format("  {:<9}{}\n", "", t.may_lag);
    }
    for (size_t k : pass.reductions) {
      ReductionText t = readable.reduction(k);
      body += fmt::format("\n{} = {}", t.result, t.definition);
      body += t.where.empty() ? "\n" : fmt::format("    # {}\n", t.where);
      for (const Refusal& r : d.refusals)
        if (r.reduction == k)
          body += fmt::format("  {:<9}{} in an earlier pass: {}\n", "refused", readable(r.subterm), r.reason);
      if (!t.family.empty()) lines(body, "family", {fmt::format("{}", fmt::join(t.family, ",  "))});
      lines(body, "state", t.state);
      lines(body, "repair", t.repair);
      lines(body, "merge", t.merge);
      lines(body, "finish", {t.finish});
      lines(body, "note", t.deferred);
    }
    for (size_t k : pass.stored)
      body += fmt::format("\nstored along {}: {}\n", x, readable.output(d.cascade.outputs[k]));
  }
  std::string out = fmt::format("{} streams over {} in {}", p.name, x, count(d.passes.size(), "pass"));
  size_t components = 0, points = 0;
  std::string lists;
  for (const Pass& pass : d.passes) {
    points += pass.state.points.size();
    for (const Component& c : pass.state.components) {
      components += !c.listed();
      if (c.combine == Reducer::Topk)
        lists += fmt::format(", 1 list of {} pairs", to_string(p.axis(c.rank).size));
    }
  }
  out += fmt::format(": {}, {}, {}{}\n", count(d.cascade.reductions.size(), "reduction"),
                     count(points, "point"), count(components, "component"), lists);
  bool first = true;
  for (auto& [name, text] : readable.legend()) {
    out += fmt::format("{}{} = {}\n", first ? "\nwith " : "     ", name, text);
    first = false;
  }
  out += body;
  std::string outputs;
  for (const CascadeOutput& o : d.cascade.outputs)
    if (!o.along_stream) outputs += fmt::format("  {}\n", readable.output(o));
  if (!outputs.empty()) out += "\noutputs\n" + outputs;
  out += "\n";
  proofs(out, d);
  return out;
}

}  // namespace tilewright
