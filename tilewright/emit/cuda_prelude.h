// Helper functions of the emitted CUDA: infinities, functions, conversions, waiting, copies and products. Only what a program uses is printed.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tilewright/support/dtype.h"

namespace tilewright::cuda_text {

/// One helper of the library: its name, those it calls, and its text.
struct Helper {
  const char* name;
  std::vector<const char*> needs;
  const char* text;
};

/// All helpers whose text does not depend on the program, each behind those that it needs.
const std::vector<Helper>& helper_library();

/// Helper functions of the emitted source by name; each is printed when it, or one that needs it, was asked for.
class Helpers {
 public:
  /// Marks `name` and what it needs; returns `name`.
  std::string use(const std::string& name);
  /// wgmma of an atom's shape; returns the function's name.
  std::string use_wgmma(int n, DType dtype, bool a_in_registers, bool a_transposed, bool b_transposed);
  /// Bulk copy through a tensor map of `rank` dimensions.
  std::string use_bulk_copy(int rank);
  /// Marks every helper that the text calls.
  void use_from(const std::string& text);
  /// Source of all that was marked.
  std::string text() const;

 private:
  std::set<std::string> used_;
  std::map<std::string, std::string> made_;
};

}  // namespace tilewright::cuda_text
