// Names, types and axes: from the syntax tree to a Program.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "tilewright/program/program.h"
#include "tilewright/program/syntax.h"

namespace tilewright {

/// What an expression's value is. Real is f32 and Double f64 unless a dtype says otherwise. Ordered:
/// arithmetic gives the larger one, at least Int.
enum class ValueType : uint8_t { Bool, Int, Real, Double };
const char* name(ValueType t);
ValueType type_of(DType t);
DType default_dtype(ValueType t);  ///< of an output: bool, i64, f32, f64

class Verifier {
 public:
  Verifier(const SourceRef& source, const Overrides& overrides, Diagnostics& diagnostics)
      : source_(source), overrides_(overrides), diagnostics_(diagnostics) {}
  /// Errors go to the diagnostics; the result is meaningful only when there are none.
  Program run(const SyntaxTree& tree);

 private:
  struct Entry {
    enum Kind : uint8_t { AxisName, ParamName, LetName, InputName, DefinitionName, Broken } kind = Broken;
    size_t index = 0;  ///< in the Program's list of that kind
    Span span;
  };
  struct Value {
    Expr expr;
    ValueType type = ValueType::Real;
  };
  /// Where an expression stands and which axes it may use.
  struct Scope {
    std::string place;       ///< "a let", "the size of an axis", …; empty: the right side of a definition
    bool axis_size = false;  ///< sizes and integers only; sizes of axes declared further down are known
    std::vector<Sym> left;   ///< axes of the left side
    std::vector<Sym> bound;  ///< axes of the reductions around
    struct Missing {
      Sym axis;
      Span span;
      std::string why;
    };
    std::vector<Missing> missing;  ///< free axes of the right side that the left side lacks, each once
    bool scalar() const { return !place.empty(); }
  };

  // verify.cc: statements
  void declare_axes_ahead(const SyntaxTree& tree);
  void statement(const Statement& s);
  void axis_statement(const Statement::Item& item);
  void param_statement(const Statement::Item& item, const Span& span);
  void let_statement(const Statement::Item& item, const Span& span);
  void input_statement(const Statement::Item& item, const Span& span);
  void definition(const Statement::Item& item, const Span& span);
  void output_item(const Statement::Item& item);
  void check_sizes();
  void check_overrides();
  void declare(const Ident& name, Entry::Kind kind, size_t index);
  std::vector<Dim> dims_of(const Statement::Item& item, const std::string& where);
  Range range_of(const Statement::Item& item, DType dtype);
  DType dtype_of(const Statement::Item& item) const;
  void report_missing(const Scope& scope, const std::string& name);

  // verify_expr.cc: expressions
  Value expression(const Syntax& s, Scope& scope);
  Value expression_node(const Syntax& s, Scope& scope);
  Value number(const Syntax& s);
  Value bare_name(const Syntax& s, Scope& scope);
  Value element(const Syntax& s, Scope& scope);
  Value reduction(const Syntax& s, Scope& scope);
  Value ranked_element(const Syntax& s, Scope& scope);
  Value call(const Syntax& s, Scope& scope);
  Value binary(const Syntax& s, Scope& scope);
  Value condition(const Syntax& s, Scope& scope, const std::string& user);
  Entry lookup(const Ident& name, const Scope* scope);
  Sym axis_named(const Ident& name, const Scope* scope);
  void use_axis(Sym axis, const Span& span, Scope& scope, const std::string& why = {});
  std::vector<Dim> tensor_dims(const Entry& e) const;
  Sym tensor_sym(const Entry& e) const;
  void require_tensors_allowed(const Syntax& s, const Scope& scope);

  const SourceRef source_;
  const Overrides& overrides_;
  Diagnostics& diagnostics_;
  Program program_;
  std::map<std::string, Entry> names_;
  std::map<std::string, Span> later_;         ///< every declared name with its first declaration
  std::map<std::string, size_t> axes_ahead_;  ///< every axis of the text
  std::map<Sym, ValueType> types_;            ///< of params, lets and tensors
  std::map<Sym, int> depth_;                  ///< nesting of a definition with those it reads put in
  std::vector<std::string> seen_dtypes_;      ///< names whose dtype an override replaced
};

/// Text of dimensions: "[b, (k g), i]".
std::string dims_text(const std::vector<Dim>& dims);

/// The pieces of a composite dimension at a flat index x, outermost first: x // (g·h), x // h % g, x % h for
/// pieces (f g h).
std::vector<Expr> split_index(Expr flat, const Dim& dim);

}  // namespace tilewright
