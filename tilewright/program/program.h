// Tensor programs: the verified value that a .tw text means.
//
// A Program is a list of definitions over named axes. Values are raw expressions (expr.h) in which
//  - an axis index is a Symbol of kind Index (its size is index.size()), bound by Reduce or free on the left
//  side,
//  - `A[…]` is a Read of the tensor's symbol with one index for each *piece axis* in declared order: a
//  composite dimension (k g) counts as its
//    pieces, outermost first, so storage shape never shows in expressions,
//  - written reducers (softmax, mean, …) stay until elaborate() (elaborate.h).
#pragma once
#include <map>
#include <string>
#include <vector>

#include "tilewright/expr/expr.h"
#include "tilewright/support/error.h"

namespace tilewright {

struct Axis {
  Sym index;  ///< kind Index; index.size() is the Size symbol
  Expr size;  ///< null: known when it runs; else a literal (baked in) or an expression over other sizes
  Span span;
  std::vector<std::string> joined =
      {};  ///< axes of the text that it stands for as one, outermost first; empty: it is one itself
  const std::string& name() const { return index.name(); }
  bool baked() const { return size && size.rational().has_value(); }
};

/// One memory dimension: one axis, or the pieces of a composite one, outermost first (index symbols).
struct Dim {
  std::vector<Sym> pieces;
};

struct Range {
  Expr lo, hi;  ///< half open; null when not declared
  explicit operator bool() const { return bool(lo); }
};

struct Param {
  Sym sym;
  DType dtype = DType::f32;
  Expr value;  ///< default, or null
  Range range;
  Span span;
};

struct Let {
  Sym sym;
  Expr value;
  Span span;
};

struct Input {
  Sym sym;  ///< kind Tensor
  std::vector<Dim> dims;
  DType dtype = DType::f32;
  Range range;
  Span span;
  std::vector<Sym> axes() const;  ///< all pieces in order
};

struct Definition {
  Sym sym;                     ///< kind Tensor
  std::vector<Sym> axes;       ///< left side, index symbols
  std::optional<DType> dtype;  ///< rounds here when given
  Expr value;  ///< raw, over inputs and earlier definitions; lets are substituted, params are Symbols
  Span span;
};

struct Output {
  Sym sym;                ///< of a definition (or an input)
  std::vector<Dim> dims;  ///< memory order; a permutation of the definition's axes
  DType dtype = DType::f32;
  Span span;
  std::vector<Sym> axes() const;
};

struct Program {
  std::string name;  ///< "program" when not given
  std::vector<Axis> axes;
  std::vector<Param> params;
  std::vector<Let> lets;
  std::vector<Input> inputs;
  std::vector<Definition> definitions;
  std::vector<Output> outputs;
  std::map<Expr, Span> spans;  ///< where an expression was first written

  const Axis* axis(const std::string& name) const;
  const Axis& axis(Sym index) const;
  const Input* input(Sym tensor) const;
  const Definition* definition(Sym tensor) const;
  const std::string& tensor_name(Sym tensor) const { return tensor.name(); }
  std::vector<Sym> tensor_axes(Sym tensor) const;  ///< of an input or a definition
  Span span_of(Expr e) const;  ///< of e or of the nearest child that has one; empty if none
};

/// What messages call an axis: "axis `f`", or "the product `kgd` of axes `k`, `g`, `d`" of one that stands for several.
std::string described(const Axis& a);
/// `e` as text with axes as messages call them (SymbolInfo::written): q[b, i, (k g)].
std::string written(Expr e);
/// How it gets a literal size: "declare `axis f = 128` (any literal)".
std::string hint_of_literal(const Axis& a);

/// Replacements made before parsing is finished: `--size d=64` replaces a literal size, `--dtype Q=bf16` a declared
/// dtype of an input, statement or output. An axis of another size is refused; one whose size follows from literals
/// may be named with the size that it has.
struct Overrides {
  std::map<std::string, int64_t> literal_sizes;
  std::map<std::string, DType> dtypes;
};

/// Parses and verifies. Throws UserError with up to 20 diagnostics.
Program parse_program(const SourceRef& source, const Overrides& overrides = {});
/// Reads the file; UserError when it cannot be read or is not text.
Program load_program(const std::string& path, const Overrides& overrides = {});
/// Canonical text; parse_program(print(p)) prints the same.
std::string print(const Program& p);

}  // namespace tilewright
