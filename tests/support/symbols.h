// Symbols for tests of expressions.
#pragma once
#include "tilewright/expr/expr.h"

namespace tilewright {

inline Sym test_symbol(const std::string& name, SymbolKind kind, bool integer = false,
                       bool positive = false) {
  SymbolInfo s;
  s.name = name;
  s.kind = kind;
  s.integer = integer;
  s.positive = positive;
  return Sym::fresh(s);
}

/// An index symbol with a size of its own.
inline Sym test_axis(const std::string& name) {
  Sym size = test_symbol(name, SymbolKind::Size);
  SymbolInfo s;
  s.name = name;
  s.kind = SymbolKind::Index;
  s.size = &size.info();
  return Sym::fresh(s);
}

inline Sym test_variable(const std::string& name) { return test_symbol(name, SymbolKind::Variable); }
inline Sym test_param(const std::string& name) { return test_symbol(name, SymbolKind::Param); }
/// A param with a range of positive numbers.
inline Sym test_positive(const std::string& name) {
  SymbolInfo s;
  s.name = name;
  s.kind = SymbolKind::Param;
  s.positive = true;
  s.largest = 1000;
  return Sym::fresh(s);
}
inline Sym test_counter(const std::string& name) { return test_symbol(name, SymbolKind::Variable, true); }
inline Sym test_tensor(const std::string& name) { return test_symbol(name, SymbolKind::Tensor); }
inline Sym test_integers(const std::string& name) { return test_symbol(name, SymbolKind::Tensor, true); }

}  // namespace tilewright
