// Texts of boxes: expressions with names in place of what they read, declarations.
#pragma once
#include <set>

#include "tilewright/diagram/diagram.h"
#include "tilewright/diagram/glyphs.h"

namespace tilewright {

/// Names for arrays that have none: t1, t2 …, none of which the program uses.
class FreshNames {
 public:
  explicit FreshNames(const Program& p);
  std::string fresh();

 private:
  std::set<std::string> taken_;
  int last_ = 0;
};

/// `e` in the language's syntax with each of the expressions in `shown` replaced by its text, and silu, gelu and relu
/// for what they stand for.
std::string with_names(Expr e, const std::vector<std::pair<Expr, std::string>>& shown);

/// The axes that occur free in an expression, in order of occurrence.
std::vector<Sym> axes_in(Expr e);

/// "512 B", "96 KiB", "1.5 MiB"
std::string bytes_text(int64_t n);

/// "i, j"
std::string axis_names(const std::vector<Sym>& axes);

/// The statement that declares an input, or the left side of a definition: `input Q[b, (k g), d] : f16`.
std::string declaration(const Program& p, Sym tensor);

/// What a picture does not show by itself: axes and their sizes, params, the inputs in `used`, outputs with their
/// order in memory.
std::vector<std::string> declarations(const Program& p, const std::vector<const Definition*>& drawn,
                                      const std::set<Sym>& used);

}  // namespace tilewright
