// The syntax tree: what parser.cc reads and verify.cc turns into a Program. Names are not resolved here.
#pragma once
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "tilewright/program/diagnostics.h"

namespace tilewright {

struct Ident {
  std::string name;
  Span span;
};

/// The deepest nesting of brackets, signs and powers that is accepted, and the deepest tree, which chains of
/// operators make too. Recursive passes over expressions rely on them.
constexpr int nesting_limit = 500;
constexpr int depth_limit = 1000;

struct Syntax {
  enum class Kind : uint8_t {
    Number,  ///< name: spelling; real
    Inf,
    True,
    False,
    Name,    ///< bare name
    Read,    ///< name[args]
    Pieces,  ///< (k g) as an index: idents
    Size,    ///< size(idents[0])
    Reduce,  ///< name[idents](args[0])
    TopK,    ///< name[idents[0] -> idents[1]](args[0])
    Call,    ///< name(args): a function or a dtype
    Not,
    Neg,
    Binary,  ///< args[0] name args[1]: `name` is the operator as written
  };
  Kind kind = Kind::Name;
  Span span;
  std::string name;
  Span name_span;  ///< of `name`: the operator, function or tensor
  bool real = false;
  std::vector<const Syntax*> args;
  std::vector<Ident> idents;
  int depth = 1;
};

struct DimSyntax {
  std::vector<Ident> pieces;
  Span span;
};

struct Statement {
  enum class Kind : uint8_t { Program, Axis, Param, Let, Input, Define, Output };
  Kind kind = Kind::Program;
  Span span;
  bool complete = false;  ///< false: its error has been reported; `items` still declare their names
  /// One declared (or, for Output, named) thing.
  struct Item {
    Ident name;
    bool has_dims = false;
    std::vector<DimSyntax> dims;
    Span dims_span;
    std::optional<Ident> dtype;
    const Syntax* value = nullptr;  ///< size, default or right side
    const Syntax* lo = nullptr;     ///< range
    const Syntax* hi = nullptr;
  };
  std::vector<Item> items;
};

struct SyntaxTree {
  std::deque<Syntax> nodes;  ///< owns all nodes; addresses are stable
  std::vector<Statement> statements;
};

/// Parses a text. Errors are added to `diagnostics`; the statements that could be read are returned.
SyntaxTree parse_syntax(const SourceRef& source, Diagnostics& diagnostics);

/// The text a span covers.
std::string source_slice(const Span& span);

}  // namespace tilewright
