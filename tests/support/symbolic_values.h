// A program evaluated on elements that stand for symbols (see symbolic_tiles.h).
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/support/symbolic_fields.h"
#include "tilewright/program/sizes.h"

namespace tilewright::testing {

using Element = std::vector<int64_t>;
using SymbolicArray = std::map<Element, SymbolicValue>;

class SymbolicProgram {
 public:
  using Scope = std::map<Sym, SymbolicValue>;
  using Reading = std::function<SymbolicValue(Sym, const Element&)>;

  /// `elaborated` at `sizes`; `seed` chooses the point and the images.
  SymbolicProgram(const Program& elaborated, const Sizes& sizes, uint64_t seed);

  /// What the definitions say of an output at an index of its piece axes.
  SymbolicValue defined(const Output& o, const Element& at);
  /// An element of an input or of a definition.
  SymbolicValue element(Sym tensor, const Element& at);

  SymbolicValue constant(double x) const;
  SymbolicValue evaluate(Expr e, Scope& scope, const Reading& reading);
  SymbolicValue combine(Reducer r, const SymbolicValue& a, const SymbolicValue& b) const;

  const Program& program() const { return program_; }
  int64_t size(Sym index) const { return sizes_.at(index.size()); }

 protected:
  const Program& program_;
  Sizes sizes_;
  uint64_t seed_;
  Scope params_;
  std::map<std::pair<Sym, Element>, SymbolicValue> known_;
  bool in_definition_ = false;
  uint64_t attempt_ = 0;
  mutable bool not_squares_ = false;
  std::map<std::pair<const Node*, Element>, SymbolicValue> reduced_;
  std::map<const Node*, std::vector<Sym>> free_;

 private:
  SymbolicValue power(const SymbolicValue& a, double exponent) const;
  SymbolicValue opaque(const std::string& of, double argument, double value) const;
  SymbolicValue reduced(Expr e, Scope& scope, const Reading& reading);
  SymbolicValue reduced_anew(Expr e, Scope& scope, const Reading& reading);
  SymbolicValue input(const Input& in, const Element& at);
  double random(Sym s, const Element& at, uint64_t salt) const;
};

}  // namespace tilewright::testing
