// Collects the diagnostics of one run of the parser and verifier.
#pragma once
#include <string>
#include <vector>

#include "tilewright/support/error.h"

namespace tilewright {

/// Thrown to abandon the statement at hand after its error has been reported; never leaves parse_program.
struct StatementAbandoned {};

class Diagnostics {
 public:
  static constexpr size_t limit = 20;

  /// Records an error; throws UserError when the limit is reached.
  void add(Span span, std::string what, std::string hint = {}) {
    list_.push_back({std::move(span), std::move(what), std::move(hint)});
    if (list_.size() >= limit) throw_sorted();
  }
  /// Records an error and abandons the statement.
  [[noreturn]] void fail(Span span, std::string what, std::string hint = {}) {
    add(std::move(span), std::move(what), std::move(hint));
    throw StatementAbandoned();
  }
  bool any() const { return !list_.empty(); }
  /// Throws UserError with everything recorded, in the order of the text; does nothing when there is nothing.
  void throw_if_any() {
    if (any()) throw_sorted();
  }

 private:
  [[noreturn]] void throw_sorted();
  std::vector<Diagnostic> list_;
};

}  // namespace tilewright
