#include "tilewright/derive/latex.h"

#include <fmt/format.h>

#include "tilewright/derive/readable.h"
#include "tilewright/expr/latex.h"

namespace tilewright {
namespace {

using derivation::PointText;
using derivation::Readable;
using derivation::ReductionText;

/// Words with the characters that LaTeX reads as commands made plain.
std::string words(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (std::string("_%&#$").find(c) != std::string::npos) out += '\\';
    out += c;
  }
  return out;
}

/// Lines of an align*, each with what it says at its right.
class Aligned {
 public:
  void add(const std::string& line, const std::string& label) {
    std::string text = line;  // aligned at the first sign of equality
    const size_t at = text.find(" = ");
    text = at == std::string::npos ? "& " + text : text.replace(at, 3, " &= ");
    lines_ += fmt::format("{}  {}{}", lines_.empty() ? "" : " \\\\\n", text,
                          label.empty() ? "" : fmt::format(" && \\text{{{}}}", label));
  }
  void add(const std::vector<std::string>& lines, const std::string& label) {
    for (size_t k = 0; k < lines.size(); ++k) add(lines[k], k == 0 ? label : "");
  }
  std::string text() const {
    return lines_.empty() ? "" : fmt::format("\\begin{{align*}}\n{}\n\\end{{align*}}\n", lines_);
  }

 private:
  std::string lines_;
};

}  // namespace

std::string to_latex(const Program& p, const Derivation& d) {
  const Readable readable(p, d, Readable::Form::Latex);
  const std::string x = latex_name(d.cascade.axis.name());
  std::string out = fmt::format("\\paragraph{{{}}} streams over ${}$ in {} pass{}", words(p.name), x,
                                d.passes.size(), d.passes.size() == 1 ? "" : "es");
  Aligned legend;
  for (const auto& [name, text] : readable.legend()) legend.add(latex_name(name) + " = " + text, "");
  out += legend.text().empty() ? ".\n" : ", with\n" + legend.text();
  for (size_t n = 0; n < d.passes.size(); ++n) {
    const Pass& pass = d.passes[n];
    if (d.passes.size() > 1) out += fmt::format("\n\\paragraph{{Pass {}.}}\n", n + 1);
    for (const Point& q : pass.state.points) {
      const PointText t = readable.point(q);
      Aligned moves;
      moves.add(t.moves, "");
      out += fmt::format("\nThe point ${}$ is {}:\n{}", t.name, t.meaning, moves.text());
    }
    for (size_t k : pass.reductions) {
      const ReductionText t = readable.reduction(k);
      for (const Refusal& r : d.refusals)
        if (r.reduction == k)
          out += fmt::format("\n${}$ needs a pass of its own, for ${}$ is {}.\n", t.result,
                             readable(r.subterm), words(r.reason));
      Aligned lines;
      lines.add(fmt::format("{} = {}", t.result, t.definition), "definition");
      lines.add(t.state, "state");
      lines.add(t.repair, "repair");
      lines.add(t.merge, "merge");
      lines.add(fmt::format("{} = {}", t.result, t.finish), "finish");
      out += "\n" + lines.text();
    }
  }
  Aligned outputs;
  for (const CascadeOutput& o : d.cascade.outputs) outputs.add(readable.output(o), "");
  return out + "\nOutputs:\n" + outputs.text();
}

}  // namespace tilewright
