// Identifiers of emitted C, C++ and CUDA, and of headers that others include: one list of the words that they must avoid.
#pragma once
#include <map>
#include <set>
#include <string>

#include "tilewright/expr/expr.h"

namespace tilewright {

/// A word that no variable, field or function may be called: keywords of C, C++ and CUDA, types and macros that compilers or the standard
/// headers bring along, and what is reserved to them (`__x`, `_X`).
bool is_reserved_identifier(const std::string& name);
/// A function of the C library that compilers declare, or call, by themselves: nothing that is linked may be called this.
bool is_library_function(const std::string& name);
/// `name` made of letters, digits and underscores, without a digit in front, with `_` behind it where it is reserved.
std::string c_identifier(const std::string& name);
/// A function that may be linked: `c_identifier`, which no function of the C library is.
std::string c_function(const std::string& name);
/// Every word in `code`.
std::set<std::string> identifiers_in(const std::string& code);

/// A name for each symbol of one function, different from all others and from what the text around uses.
class Identifiers {
 public:
  /// `own`: words of the text around. `counted`: those that stand with a number behind them, such as `t` of t0, t1 …
  Identifiers(std::set<std::string> own, std::set<std::string> counted);
  /// The name of `s`; the first to ask for a text gets it plain.
  const std::string& of(Sym s, const std::string& preferred = {});
  /// The name of something that belongs to `s`: of(s)_suffix where it is free; the same at every call.
  const std::string& part(Sym s, const std::string& suffix);
  /// A new name that begins with `wish`.
  std::string fresh(const std::string& wish);

 private:
  std::set<std::string> taken_, counted_;
  std::map<Sym, std::string> names_;
  std::map<std::pair<Sym, std::string>, std::string> parts_;
};

}  // namespace tilewright
