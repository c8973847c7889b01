// From a definition to the code of a machine, one named relabelling or rewrite a step ("FlashAttention on a Napkin", arXiv 2412.03317, section 5): each with
// what changed and why it is legal, pseudocode, H and M as formulas, tables and pictures. docs/steps.md says how they are read.
#pragma once
#include <nlohmann/json.hpp>

#include "tilewright/diagram/layout.h"
#include "tilewright/explain/planned.h"
#include "tilewright/explain/pseudocode.h"
#include "tilewright/explain/text.h"

namespace tilewright::explain {

/// H, M or another quantity of a step.
struct StepFormula {
  std::string name;             ///< "H", "M"
  std::string text;             ///< as people write it, where tiles divide what they cut
  Expr exact;                   ///< the same with floors; null: the text is all
  std::optional<double> value;  ///< of `exact`, where every size is known
  std::string unit = "bytes";
  std::string note;
  Integers numbers = {};  ///< of the symbols in `exact`
};

struct Step {
  std::string
      name;  ///< "definition" "kernels" "stream" "group" "split" "expand" "sub-loops" "recolour" "divisibility" "lifetimes" "configurations" "clocks" "overlap"
  std::string kernel;  ///< empty for a program of one kernel, and for what concerns all
  std::string title;   ///< "stream x"
  bool applies = true;
  std::string
      changed;  ///< one or two sentences: what changed and why it is legal; or why the step does not apply
  std::vector<CodeLine> code;
  std::vector<StepFormula> formulas;
  std::vector<Table> tables;
  std::string chart;                         ///< of units and time, in characters
  std::string chart_svg;                     ///< the same
  std::vector<Picture> pictures;             ///< where they are asked for
  std::map<std::string, Shade> shades = {};  ///< of tile names in the code, from `recolour` on
};

struct StepOptions {
  CompileOptions compile;
  MachineFile machine;
  std::map<std::string, int64_t> sizes;  ///< by axis name, as far as known
  std::string kernel;  ///< one of several, by the whole of its name or an array in it; empty: all
  bool pictures = false;
};

/// UserError: no kernel of that name. A plan that a target's mapping refuses is no error: the steps that need the mapping say why.
std::vector<Step> steps_of(const CompiledProgram& c, const StepOptions& o);

/// "3 MiB", "512 clocks"; empty where there is no value.
std::string value_text(const StepFormula& x);
/// "3. group: group q"
std::string heading_of(const std::vector<Step>& steps, size_t k);

std::string to_text(const CompiledProgram& c, const StepOptions& o, const std::vector<Step>& steps);
nlohmann::ordered_json to_json(const CompiledProgram& c, const StepOptions& o,
                               const std::vector<Step>& steps);
/// One self-contained page: a section for each step, before and after by links, light and dark by preference, text as text.
std::string to_html(const CompiledProgram& c, const StepOptions& o, const std::vector<Step>& steps);

}  // namespace tilewright::explain
