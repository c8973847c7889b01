// Inside of derive/ only: a derivation in words, for the text, the JSON and the LaTeX form.
#pragma once
#include "tilewright/derive/family.h"

namespace tilewright::derivation {

struct ReductionText {
  std::string result, definition, where;  ///< "o[b, h, i, e]", "sum[j](…)", "file.tw:9"
  std::vector<std::string> family, state, repair, merge;
  std::string finish, held_at;
  std::vector<std::string> deferred, proofs;
  int pass = 1;
};

struct PointText {
  std::string name, meaning, moves, may_lag;
};

/// Expressions with short names: reads at a tensor's own axes are its name alone, and what a definition of the program says is that definition's name.
class Readable {
 public:
  enum class Form { Text, Latex };  ///< expressions in the language's syntax, or in LaTeX's mathematics
  Readable(const Program& p, const Derivation& d, Form form = Form::Text);
  std::string operator()(Expr e) const;
  ReductionText reduction(size_t k) const;
  PointText point(const Point& p) const;
  std::string output(const CascadeOutput& o) const;
  /// Names of definitions that occur, and what they stand for.
  std::vector<std::pair<std::string, std::string>> legend() const;

 private:
  Expr shortened(Expr e) const;
  Expr plain(Expr e) const;
  std::string print(Expr e) const;
  std::string named(const std::string& name) const;
  std::string indexed(Sym s, const std::vector<Sym>& axes) const;
  std::string reduced(Reducer r, Expr body, Expr present, Sym rank = {}) const;
  std::string listed(const Component& keys) const;
  std::string extremum(const char* which, const std::string& a, const std::string& b) const;
  std::string held(const Component& c) const;
  std::string in_terms(const std::vector<RepairTerm>& row, const State& s, const std::string& side,
                       const std::string& target) const;

  const Program& program_;
  const Derivation& d_;
  const bool latex_;
  struct Name {
    Expr value;
    Sym shown;
    std::string text;
  };
  std::vector<Name> names_;
  std::vector<std::pair<Sym, std::pair<std::vector<Sym>, Sym>>>
      own_;  ///< tensor or tile -> its axes, a symbol of its name
};

/// Fills Component.meaning and Derivation.deferred.
void describe(const Program& p, Derivation& d, const std::vector<Note>& notes);

}  // namespace tilewright::derivation
