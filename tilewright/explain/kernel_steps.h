// Inside of explain/ only: the steps of one kernel. The relabellings and rewrites of the algorithm are in kernel_algorithm.cc, levels, multiples, lifetimes and
// tile sizes in kernel_memory.cc, clocks and overlap in kernel_time.cc.
#pragma once
#include "tilewright/derive/json.h"
#include "tilewright/explain/formula.h"
#include "tilewright/explain/steps.h"

namespace tilewright::explain {

class KernelSteps {
 public:
  KernelSteps(const CompiledProgram& c, size_t kernel, const StepOptions& o)
      : o_(o),
        name_(c.several() ? c.name_of(kernel) : ""),
        planned_(c.kernels[kernel], plan_for(c.kernels[kernel], o.sizes)),
        t_(planned_.tiles),
        m_(planned_.model),
        f_(m_),
        p_(planned_.compilation.elaborated),
        d_(planned_.compilation.derivation),
        derived_(to_json(p_, d_)),
        values_(numbers(planned_, o.sizes)) {
    map();
    before_split();
  }

  std::vector<Step> run();

 private:
  // ---- common parts

  Step& add(const std::string& name, const std::string& title);

  StepFormula formula(const std::string& name, Expr exact, Expr shown, const std::string& note = {}) const;
  /// Of a model that is not the kernel's own.
  StepFormula formula_of(const Planned& k, const std::string& name, Expr exact, Expr shown,
                         const std::string& note = {}) const;
  StepFormula transfers(const std::string& note = {}) const;
  StepFormula one_memory(const std::string& note = {}) const;

  std::vector<CodeLine> code(const CodeStyle& style) const;
  static std::vector<CodeLine> code_of(const TileProgram& t, const TileSymbols& symbols,
                                       const CodeStyle& style);

  /// Name of the streamed axis.
  std::string axis() const;
  const KernelAxis* stream_axis(const TileProgram& t) const;
  /// Group axes of a tile program that are cut into blocks of several, and those that are cut singly.
  static void grouped(const TileProgram& t, std::vector<std::string>& blocks,
                      std::vector<std::string>& singly);

  /// The mapped program, or why there is none.
  void map();

  /// The plan without its split, for the steps before it.
  void before_split();
  const Planned& base() const;

  // ---- pictures

  /// The definition with the labels that have been chosen: s on the streamed axis, and g on the others.
  void definition_picture(Step& s, const Planned& k, bool groups) const;
  /// Of tiles: g_i, g_i with its multiple, numbers.
  enum class Labels { Symbols, Multiples, Numbers };
  /// A picture of each kernel; `levels` in their colours, `figures` with bytes under the columns.
  void pictures(Step& s, const Planned& k, Labels labels, bool levels, bool figures = false) const;
  void relabel(DiagramWire& w, const Planned& k, Labels labels) const;

  // ---- steps

  static std::vector<std::string> texts(const nlohmann::ordered_json& list);

  void stream();

  void group();

  /// Does what is loaded of `tensor` depend on the axis?
  static bool mentions(const TileProgram& t, Sym tensor, const KernelAxis& a);

  void split();

  void expand();

  void sub_loops();
  std::string runs(Expr e) const;

  void recolour();
  std::string why_no_matrix_unit() const;
  /// Bytes of shared memory that a block may have, and of registers; 0: not known.
  double room() const;
  double file() const;
  static std::string room_text(double n);

  void divisibility();

  void lifetimes();

  struct Configuration {
    std::map<Sym, int64_t> tiles;
    std::string note;
  };
  /// Values with other tile sizes; pieces keep their share of a block.
  Integers with(const std::map<Sym, int64_t>& tiles) const;

  void configurations();

  void clocks();
  static std::string whole(double n);

  void overlapping();

  const StepOptions& o_;
  const std::string name_;
  const Planned planned_;
  const TileProgram& t_;
  const Model& m_;
  const Formulas f_;
  const Program& p_;
  const Derivation& d_;
  const nlohmann::ordered_json derived_;
  const Integers values_;
  std::unique_ptr<Planned> unsplit_;
  std::optional<MappedProgram> mapped_;
  std::string unmapped_;
  std::map<std::string, std::string> atoms_;  ///< tile -> atom of a matrix unit
  std::vector<Sym> on_matrix_unit_;
  std::map<std::string, Shade> shades_;
  std::optional<ClockBudget> budget_;
  std::vector<Step> steps_;
};

}  // namespace tilewright::explain
