// stream, group, split, expand, sub-loops: what a definition becomes before it has a machine.
#include "tilewright/explain/kernel_steps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "tilewright/diagram/text.h"
#include "tilewright/expr/simplify.h"
#include "tilewright/tile/statements.h"

namespace tilewright::explain {

const KernelAxis* KernelSteps::stream_axis(const TileProgram& t) const {
  for (const TileKernel& k : t.kernels)
    for (const KernelAxis& a : k.inner)
      if (a.index == t.plan.stream) return &a;
  return nullptr;
}

void KernelSteps::grouped(const TileProgram& t, std::vector<std::string>& blocks,
                          std::vector<std::string>& singly) {
  for (const KernelAxis& a : t.kernels[0].grid)
    if (a.kind == KernelAxis::Kind::Group) (a.block > 1 ? blocks : singly).push_back(a.index.name());
}

std::vector<std::string> KernelSteps::texts(const nlohmann::ordered_json& list) {
  std::vector<std::string> all;
  for (const auto& x : list) all.push_back(x.get<std::string>());
  return all;
}

void KernelSteps::stream() {
  const Planned& k = base();
  const KernelAxis* a = stream_axis(k.tiles);
  const bool resident = t_.plan.resident;
  Step& s =
      add("stream", resident ? fmt::format("hold {} on chip", axis()) : fmt::format("stream {}", axis()));
  const size_t reductions = d_.cascade.reductions.size();
  size_t points = 0, components = 0, proved = 0, tested = 0;
  for (const Pass& pass : d_.passes) {
    points += pass.state.points.size();
    components += pass.state.components.size();
    for (const Check& check : pass.state.checks)
      (check.by == "expressions" ? proved : tested) += check.passed ? 1 : 0;
  }
  CodeStyle style;
  const std::string label = a ? label_of(*a, k.model.symbols, style) : axis();
  std::vector<std::string> inner;  // what no longer lies in memory
  for (const Definition& x : planned_.compilation.program.definitions) {
    const bool along = std::find(x.axes.begin(), x.axes.end(), t_.plan.stream) != x.axes.end();
    const bool out = std::any_of(p_.outputs.begin(), p_.outputs.end(),
                                 [&](const Output& y) { return y.sym.name() == x.sym.name(); });
    if (along && !out) inner.push_back(x.sym.name());
  }
  std::string moved = resident
                          ? fmt::format("{} is held on chip, up to {} of it, and read once", axis(), label)
                          : fmt::format("{} crosses in chunks of {}", axis(), label);
  std::string legal;
  if (reductions == 0)
    legal = "legal since nothing is reduced over it";
  else
    legal = fmt::format(
        "legal since the certificate exists: a state of {} and {} carries {} through it, and two states "
        "merge ({} {} proved by "
        "expressions, {} tested on random values)",
        counted(points, "point"), counted(components, "component"), counted(reductions, "reduction"), proved,
        proved == 1 ? "identity" : "identities", tested);
  s.changed = fmt::format("{}: {}.", moved, legal);
  if (!inner.empty())
    s.changed += fmt::format(" {} no longer {} in memory: {} there a chunk at a time.", listed(inner),
                             inner.size() == 1 ? "lies" : "lie", inner.size() == 1 ? "it is" : "they are");
  if (d_.passes.size() > 1) {
    std::vector<std::string> why;
    for (const auto& r : derived_["refusals"])
      why.push_back(fmt::format("{} mixes in {} ({})", r["reduction"].get<std::string>(),
                                r["subterm"].get<std::string>(), r["reason"].get<std::string>()));
    s.changed +=
        fmt::format(" One pass does not carry all of it, so there are {}{}", d_.passes.size(),
                    why.empty() ? ": an output lies along the axis and needs results of the whole of it."
                                : ": " + listed(why) + ".");
  }
  // The box that streams, by its five functions.
  std::set<std::string> written;  // of a pass: several reductions may share a component
  const auto line = [&](int depth, const std::string& text) {
    if (depth == 0) written.clear();
    if (written.insert(text).second) s.code.push_back({depth, text, "", "", nullptr});
  };
  if (reductions > 0) {
    for (size_t pass = 1; pass <= d_.passes.size(); ++pass) {
      line(0,
           fmt::format("stream {} by {}{}", axis(), label,
                       d_.passes.size() > 1 ? fmt::format(", pass {} of {}", pass, d_.passes.size()) : ""));
      for (const auto& x : derived_["points"])
        if (x["pass"] == pass) line(1, "point    " + x["moves"].get<std::string>());
      for (const char* part : {"state", "repair", "merge"})
        for (const auto& x : derived_["reductions"]) {
          if (x["pass"] != pass) continue;
          for (const std::string& text : texts(x[part]))
            if (text.rfind("the point", 0) != 0)
              line(1, fmt::format("{:<8} {}", std::string(part) == "state" ? "lift" : part, text));
        }
    }
    for (const auto& x : derived_["reductions"]) {
      const std::string result = x["name"].get<std::string>(), name = result.substr(0, result.find('[')),
                        value = x["finish"].get<std::string>();
      if (value != name) line(0, fmt::format("finish   {} = {}", name, value));
    }
    for (const auto& x : derived_["outputs"])
      line(0, fmt::format("finish   {}",
                          x["value"].get<std::string>().find(" = ") != std::string::npos
                              ? x["value"].get<std::string>()
                              : x["name"].get<std::string>() + " = " + x["value"].get<std::string>()));
  } else {
    for (CodeLine& l : code_of(k.tiles, k.model.symbols, {.detail = CodeStyle::Detail::Folded}))
      s.code.push_back(std::move(l));
  }
  const Formulas f(k.model);
  const Expr exact = both(k.model.exact.memory), smooth = both(k.model.smooth.memory), peak = k.model.held;
  s.formulas.push_back(formula_of(k, "H", f.ungrouped(exact), f.ungrouped(smooth),
                                  "one block for everything: each array crosses once"));
  s.formulas.push_back(formula_of(
      k, "M", f.ungrouped(peak), f.ungrouped(f.largest(peak)),
      resident ? "grows with all axes" : fmt::format("free of {}: only chunks of it are there", axis())));
  definition_picture(s, k, false);
}

void KernelSteps::group() {
  const Planned& k = base();
  std::vector<std::string> blocks, singly;
  grouped(k.tiles, blocks, singly);
  Step& s = add("group", blocks.empty() && singly.empty()
                             ? "nothing to group"
                             : fmt::format("group {}", listed(blocks.empty() ? singly : blocks)));
  if (blocks.empty() && singly.empty()) {
    s.applies = false;
    s.changed = "The outputs have no axis of their own that could be cut: there is one block.";
    return;
  }
  std::vector<std::string> parts, all = singly;
  all.insert(all.end(), blocks.begin(), blocks.end());
  for (const KernelAxis& a : k.tiles.kernels[0].grid)
    if (a.kind == KernelAxis::Kind::Group && a.block > 1)
      parts.push_back(fmt::format("{} into blocks of {}", a.index.name(), label_of(a, k.model.symbols, {})));
  if (!singly.empty()) parts.push_back(fmt::format("{} into single indices", listed(singly)));
  s.changed = fmt::format(
      "Cut {}. Legal since {} woven over the whole algorithm: nothing is reduced over {} and no block needs "
      "what another makes, so blocks run in any "
      "order.",
      listed(parts), all.size() == 1 ? all[0] + " is" : listed(all) + " are",
      all.size() == 1 ? "it" : "them");
  // Who pays: arrays that lack a grouped axis.
  Table table{"", {"array", "lacks", "crosses"}, {}, {}};
  for (const auto& [tensor, e] : k.model.smooth.loaded_by_tensor) {
    std::vector<std::string> lacks;
    for (const KernelAxis& a : k.tiles.kernels[0].grid)
      if (a.kind == KernelAxis::Kind::Group && !mentions(k.tiles, tensor, a)) lacks.push_back(a.index.name());
    table.rows.push_back({tensor.name(), lacks.empty() ? "nothing" : listed(lacks),
                          lacks.empty() ? "once"
                                        : fmt::format("once for each block of {}: {}", listed(lacks),
                                                      Formulas(k.model).text(e))});
  }
  s.code = code_of(k.tiles, k.model.symbols, {.detail = CodeStyle::Detail::Folded});
  s.formulas.push_back(formula_of(k, "H", both(k.model.exact.memory), both(k.model.smooth.memory)));
  const Expr peak = k.model.held;
  s.formulas.push_back(formula_of(k, "M", peak, peak, "of one block"));
  if (const Canonical* form = k.model.leading ? &*k.model.leading : k.model.form ? &*k.model.form : nullptr) {
    StepFormula least;
    least.name = "H*(M)";
    least.text = Formulas(k.model).text(form->formula);
    std::vector<std::string> best;
    for (const auto& [tile, e] : form->tiles)
      best.push_back(fmt::format("{} = {}", tile.name(), Formulas(k.model).text(e)));
    for (const auto& [product, e] : form->products)
      best.push_back(fmt::format("{} = {}", Formulas(k.model).text(product), Formulas(k.model).text(e)));
    least.note = "the least that blocks of M bytes allow, by leading terms" +
                 (best.empty() ? "" : ", with " + listed(best));
    s.formulas.push_back(least);
  } else if (!k.model.why_no_form.empty()) {
    StepFormula none;
    none.name = "H*(M)";
    none.note = "no closed form: " + k.model.why_no_form;
    s.formulas.push_back(none);
  }
  s.tables.push_back(table);
  definition_picture(s, k, true);
}

bool KernelSteps::mentions(const TileProgram& t, Sym tensor, const KernelAxis& a) {
  bool found = false;
  for (const TileKernel& k : t.kernels)
    for_each_stmt(k.body, [&](const Stmt& s) {
      const Load* x = std::get_if<Load>(&s.node);
      if (x && x->tensor == tensor)
        for (Expr i : x->index) found = found || depends_on(i, a.index) || depends_on(i, a.counter);
    });
  return found;
}

void KernelSteps::split() {
  if (t_.plan.split == 0) return;
  Step& s = add("split", fmt::format("split {}", axis()));
  s.changed = fmt::format(
      "{} is cut into parts of {} that are streamed by different blocks, so that few rows still fill the "
      "machine; a second kernel merges their states. Legal since "
      "states merge in any order with an identity.",
      axis(), t_.plan.split);
  s.code = code({.detail = CodeStyle::Detail::Folded});
  s.formulas = {transfers("with the states of the parts, written and read once"), one_memory("of one block")};
  pictures(s, planned_, Labels::Symbols, false);
}

void KernelSteps::expand() {
  Step& s = add("expand", "init, loop body, finish");
  size_t init = 0, body = 0, finish = 0;
  std::vector<std::string> kept, streamed;
  for (const TileKernel& k : t_.kernels) {
    bool seen = false;
    for (const Stmt& x : k.body) {
      if (const Loop* loop = std::get_if<Loop>(&x.node)) {
        seen = true;
        for_each_stmt(loop->body, [&](const Stmt& inner) {
          ++body;
          if (const Load* load = std::get_if<Load>(&inner.node)) streamed.push_back(load->tensor.name());
        });
      } else {
        ++(seen ? finish : init);
        if (const Load* load = std::get_if<Load>(&x.node)) kept.push_back(load->tensor.name());
      }
    }
  }
  s.changed = fmt::format(
      "The box that streams opens: {} set up the state, {} run for each chunk, {} finish. Legal since they "
      "are the five functions of the state, written out in the order in "
      "which they depend on each other.{}{}",
      counted(init, "statement"), body, finish,
      streamed.empty() ? ""
                       : fmt::format(" {} {} loaded chunk by chunk", listed(streamed),
                                     streamed.size() == 1 ? "is" : "are"),
      streamed.empty() ? ""
      : kept.empty()   ? "."
                       : fmt::format(", {} once for the block.", listed(kept)));
  if (t_.plan.guard != Guard::Always)
    s.changed += fmt::format(" Repairs follow the policy `guard {}`.", name(t_.plan.guard));
  s.code = code({.detail = CodeStyle::Detail::Opened});
  s.formulas = {transfers("as before: opening moves nothing"), one_memory("the largest column below")};
  pictures(s, planned_, Labels::Symbols, false);
}

void KernelSteps::sub_loops() {
  Step& s = add("sub-loops", "loops inside the loop");
  std::vector<std::string> found;
  Table table{"", {"loop", "over", "runs"}, {}, {}};
  for (const TileKernel& k : t_.kernels) {
    for (const KernelAxis& a : k.grid)
      if (a.piece > 0 && a.piece < a.block)
        table.rows.push_back({"pieces of a block", a.index.name(),
                              fmt::format("{} at once, one for each computing group",
                                          m_.symbols.piece.count(a.index)
                                              ? fmt::format("{}/{}", m_.symbols.block.at(a.index).name(),
                                                            m_.symbols.piece.at(a.index).name())
                                              : fmt::format("{}", a.block / a.piece))});
    for_each_stmt(k.body, [&](const Stmt& x) {
      if (const Loop* loop = std::get_if<Loop>(&x.node)) {
        for (const Visits& v : m_.visits) {
          if (v.loop != loop || k.axis(loop->axis).kind != KernelAxis::Kind::Stream) continue;
          if (!v.plain.is_constant(0))
            table.rows.push_back({"chunks without a test", loop->axis.name(), runs(v.plain)});
          if (!v.masked.is_constant(0))
            table.rows.push_back({"chunks with a test", loop->axis.name(), runs(v.masked)});
        }
      } else if (const Dot* dot = std::get_if<Dot>(&x.node)) {
        const auto atom = atoms_.find(dot->tile.name());
        table.rows.push_back({fmt::format("sum of {}", dot->tile.name()), axis_names(dot->axes),
                              atom == atoms_.end() ? "in the order of the unit that computes it"
                                                   : "in steps of " + atom->second});
      }
    });
  }
  const bool masks = !m_.symbols.visited.empty();
  s.changed = fmt::format(
      "{} Sums of products are loops of their own. Legal since chunks are independent but for the state, and "
      "bounds come from intervals of the condition.",
      masks ? "The mask parts the chunks: those that hold nothing present are never visited, those that it "
              "does not cut carry no test, only the rest test each element."
            : "No condition leaves a chunk out: only the last chunk, where it is not full, tests its "
              "elements.");
  if (!t_.kernels[0].chunk_tables.empty())
    s.changed += fmt::format(
        " The mask reads arrays, so a step on the {} finds the bounds of each block before the kernel runs.",
        name(t_.plan.bounds));
  s.code = code({.detail = CodeStyle::Detail::SubLoops});
  s.formulas = {transfers(masks ? "phi: the share of the chunks that the mask leaves" : "")};
  if (const Expr visited = m_.exact.chunks_visited; !visited.is_constant(0)) {
    StepFormula x = formula("chunks", visited, visited, "visited, over all blocks");
    x.unit = "";
    s.formulas.push_back(x);
  }
  s.formulas.push_back(one_memory());
  s.tables.push_back(table);
  pictures(s, planned_, Labels::Symbols, false);
}

std::string KernelSteps::runs(Expr e) const {
  const auto n = value_of(e, values_);
  return n ? fmt::format("{:.0f} times over all blocks", *n) : "from and to the chunks named above";
}

}  // namespace tilewright::explain
