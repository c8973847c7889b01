// What the steps of a kernel share: formulas, code, pictures, the mapped program.
#include "tilewright/explain/kernel_steps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tilewright/map/atom.h"
#include "tilewright/tile/statements.h"

namespace tilewright::explain {

std::vector<Step> KernelSteps::run() {
  stream();
  group();
  split();
  expand();
  sub_loops();
  recolour();
  divisibility();
  lifetimes();
  configurations();
  clocks();
  overlapping();
  return std::move(steps_);
}

Step& KernelSteps::add(const std::string& name, const std::string& title) {
  Step s;
  s.name = name;
  s.kernel = name_;
  s.title = title;
  steps_.push_back(std::move(s));
  return steps_.back();
}

StepFormula KernelSteps::formula(const std::string& name, Expr exact, Expr shown,
                                 const std::string& note) const {
  StepFormula x;
  x.name = name;
  x.exact = exact;
  x.text = f_.text(shown);
  x.value = transferred(m_, exact, shown, values_);
  x.note = note;
  x.numbers = values_;
  return x;
}

StepFormula KernelSteps::formula_of(const Planned& k, const std::string& name, Expr exact, Expr shown,
                                    const std::string& note) const {
  const Integers values = numbers(k, o_.sizes);
  StepFormula x;
  x.name = name;
  x.exact = exact;
  x.text = Formulas(k.model).text(shown);
  x.value = transferred(k.model, exact, shown, values);
  x.note = note;
  x.numbers = values;
  return x;
}

StepFormula KernelSteps::transfers(const std::string& note) const {
  return formula("H", both(m_.exact.memory), both(m_.smooth.memory), note);
}

StepFormula KernelSteps::one_memory(const std::string& note) const {
  const Expr peak = m_.held;
  return formula("M", peak, peak, note);
}

std::vector<CodeLine> KernelSteps::code(const CodeStyle& style) const {
  return code_of(t_, m_.symbols, style);
}

std::vector<CodeLine> KernelSteps::code_of(const TileProgram& t, const TileSymbols& symbols,
                                           const CodeStyle& style) {
  std::vector<CodeLine> all;
  for (size_t k = 0; k < t.kernels.size(); ++k) {
    if (t.kernels.size() > 1)
      all.push_back({0, fmt::format("# kernel {}: {}", k + 1, t.kernels[k].name), "", "", nullptr});
    for (CodeLine& l : pseudocode(t, k, symbols, style)) all.push_back(std::move(l));
  }
  return all;
}

std::string KernelSteps::axis() const { return t_.plan.stream.name(); }

void KernelSteps::map() {
  const bool hopper = o_.machine.about.find("compute capability 9.0") != std::string::npos;
  if (o_.machine.gpu && !hopper) {
    unmapped_ = fmt::format("the mapping shown here is that for compute capability 9.0, and {} is another",
                            o_.machine.name);
    return;
  }
  try {
    mapped_ = lower_mapped(planned_.compilation, t_, o_.machine.gpu ? Target::Cuda : Target::Cpu,
                           LayoutClass::Aligned);
  } catch (const UserError& e) {
    unmapped_ = e.diagnostics().front().what;
    return;
  }
  for (const MappedKernel& kernel : mapped_->kernels)
    for (const Role& role : kernel.roles)
      for_each_op(role.body, [&](const MappedOp& op) {
        const Mma* x = std::get_if<Mma>(&op.node);
        if (!x || (x->atom.rfind("wgmma", 0) != 0 && x->atom.rfind("bf16_tiles", 0) != 0)) return;
        atoms_[x->d.name()] = x->atom;
        for (const TileKernel& k : t_.kernels)
          for (const Tile& tile : k.tiles)
            if (tile.sym == x->d || tile.sym.name() == x->d.name()) on_matrix_unit_.push_back(tile.sym);
      });
}

void KernelSteps::before_split() {
  if (t_.plan.split == 0) return;
  Plan whole = t_.plan;
  whole.split = 0;
  try {
    check_plan(p_, d_, whole);
    unsplit_ = std::make_unique<Planned>(planned_.compilation, whole);
  } catch (const UserError&) {
    // Then the steps before it show the parts too.
  }
}

const Planned& KernelSteps::base() const { return unsplit_ ? *unsplit_ : planned_; }

void KernelSteps::definition_picture(Step& s, const Planned& k, bool groups) const {
  if (!o_.pictures) return;
  Diagram d = diagram_of(planned_.compilation.program);
  d.title.clear();
  d.notes.clear();
  const auto label = [&](DiagramWire& w, const KernelAxis& a) {
    const bool streamed = a.kind == KernelAxis::Kind::Stream || a.kind == KernelAxis::Kind::Resident;
    if (a.kind == KernelAxis::Kind::Whole || (!streamed && !groups)) return;
    if (!k.model.symbols.block.count(a.index) && a.block != 1) return;
    w.sub = w.name;
    w.name = streamed ? "s" : "g";
    w.size = a.block == 1 ? "1" : "";
  };
  for (DiagramArray& array : d.arrays)
    for (DiagramWire& w : array.wires)
      for (const auto* list : {&k.tiles.kernels[0].grid, &k.tiles.kernels[0].inner})
        for (const KernelAxis& a : *list)
          if (w.axis && a.index == w.axis) label(w, a);
  s.pictures.push_back(lay_out(d));
}

void KernelSteps::pictures(Step& s, const Planned& k, Labels labels, bool levels, bool figures) const {
  if (!o_.pictures) return;
  for (size_t n = 0; n < k.tiles.kernels.size(); ++n) {
    KernelDrawing drawing;
    drawing.title = " ";
    if (levels) drawing.on_matrix_unit = on_matrix_unit_;
    for (const Axis& axis : p_.axes)
      if (const auto it = values_.find(axis.index.size()); it != values_.end())
        drawing.sizes[it->first] = it->second;
    Diagram d = diagram_of(p_, d_, k.tiles, n, drawing);
    d.title = k.tiles.kernels.size() > 1 ? k.tiles.kernels[n].name : "";
    d.notes.clear();
    if (!figures) {
      d.table = {};
      for (DiagramBox& b : d.boxes) b.figures.clear();
    }
    for (DiagramArray& a : d.arrays) {
      if (!levels) a.shade = Shade::Memory;
      for (DiagramWire& w : a.wires) relabel(w, k, labels);
    }
    if (!levels)
      for (DiagramBox& b : d.boxes) b.shade = Shade::Memory;
    if (labels != Labels::Numbers)
      for (DiagramLoop& l : d.loops) {
        const std::string who = l.label.substr(0, l.label.find(' '));
        for (const auto& [index, sym] : k.model.symbols.block)
          if (index.name() == who && l.label.find(" in chunks of ") != std::string::npos)
            l.label = fmt::format("{} in chunks of {}", who, sym.name());
      }
    s.pictures.push_back(lay_out(d));
  }
}

void KernelSteps::relabel(DiagramWire& w, const Planned& k, Labels labels) const {
  if (w.sub.empty() || labels == Labels::Numbers) return;
  w.size.clear();
  if (labels != Labels::Multiples) return;
  if (const auto it = k.model.symbols.block.find(w.axis); it != k.model.symbols.block.end()) {
    const auto all = multiples(k.model, o_.machine);
    if (const auto n = all.find(it->second); n != all.end() && n->second > 1)
      w.size = fmt::format("{}·n", n->second);
  }
}

}  // namespace tilewright::explain
