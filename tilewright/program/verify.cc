#include "tilewright/program/verify.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tilewright/expr/simplify.h"
#include "tilewright/support/advice.h"

namespace tilewright {

namespace {

/// The nesting of definitions put into one another that is accepted: what inlining hands to recursive passes.
constexpr int inlined_depth_limit = 2 * depth_limit;

std::vector<std::string> names_of(const std::vector<Sym>& axes) {
  std::vector<std::string> names;
  for (Sym s : axes) names.push_back(s.name());
  return names;
}

/// Flags of a symbol that follow from its dtype and declared range.
SymbolInfo described(const std::string& name, SymbolKind kind, DType dtype, const Range& range) {
  SymbolInfo info;
  info.name = name;
  info.kind = kind;
  info.integer = is_integer(dtype) || dtype == DType::boolean;
  const auto lo = range ? range.lo.number() : std::nullopt;
  info.positive = lo && *lo > 0;
  info.nonnegative = dtype == DType::boolean || (lo && *lo >= 0);
  const auto hi = range ? range.hi.number() : std::nullopt;
  if (kind == SymbolKind::Param && lo && hi) info.largest = std::max(std::abs(*lo), std::abs(*hi));
  return info;
}

}  // namespace

Program Verifier::run(const SyntaxTree& tree) {
  program_.name = "program";
  for (const Statement& s : tree.statements)
    if (s.kind != Statement::Kind::Program && s.kind != Statement::Kind::Output)
      for (const Statement::Item& item : s.items) later_.emplace(item.name.name, item.name.span);
  declare_axes_ahead(tree);
  bool named = false, has_output = false, has_definition = false;
  for (const Statement& s : tree.statements) {
    has_output |= s.kind == Statement::Kind::Output;
    has_definition |= s.kind == Statement::Kind::Define;
    if (s.kind == Statement::Kind::Program && s.complete) {
      if (named) diagnostics_.add(s.span, "a program has one name", "remove this line");
      named = true;
      program_.name = s.items[0].name.name;
    } else {
      statement(s);
    }
  }
  check_sizes();
  check_overrides();
  if (!has_output && !diagnostics_.any()) {
    const size_t end = source_->text.size();
    diagnostics_.add(
        {source_, end, end}, "the program has no output",
        has_definition
            ? fmt::format("end it with: output {}",
                          program_.definitions.empty() ? "NAME" : program_.definitions.back().sym.name())
            : "define something, NAME[axes] = expression, and end with: output NAME");
  }
  return std::move(program_);
}

void Verifier::declare_axes_ahead(const SyntaxTree& tree) {
  for (const Statement& s : tree.statements) {
    if (s.kind != Statement::Kind::Axis) continue;
    for (const Statement::Item& item : s.items) {
      if (!axes_ahead_.emplace(item.name.name, program_.axes.size()).second) continue;
      SymbolInfo size;
      size.name = item.name.name;
      size.kind = SymbolKind::Size;
      size.integer = size.nonnegative = true;
      SymbolInfo index = size;
      index.kind = SymbolKind::Index;
      index.size = &Sym::fresh(size).info();
      program_.axes.push_back({Sym::fresh(index), Expr(), item.name.span});
    }
  }
}

void Verifier::statement(const Statement& s) {
  for (const Statement::Item& item : s.items) {
    try {
      if (!s.complete) throw StatementAbandoned();
      switch (s.kind) {
        case Statement::Kind::Program: break;
        case Statement::Kind::Axis: axis_statement(item); break;
        case Statement::Kind::Param: param_statement(item, s.span); break;
        case Statement::Kind::Let: let_statement(item, s.span); break;
        case Statement::Kind::Input: input_statement(item, s.span); break;
        case Statement::Kind::Define: definition(item, s.span); break;
        case Statement::Kind::Output: output_item(item); break;
      }
    } catch (const StatementAbandoned&) {
      // The name counts as declared, so that its uses are not reported too.
      if (s.kind == Statement::Kind::Axis) {
        names_.emplace(item.name.name,
                       Entry{Entry::AxisName, axes_ahead_.at(item.name.name), item.name.span});
      } else if (s.kind != Statement::Kind::Program && s.kind != Statement::Kind::Output) {
        names_.emplace(item.name.name, Entry{Entry::Broken, 0, item.name.span});
      }
    }
  }
}

void Verifier::declare(const Ident& id, Entry::Kind kind, size_t index) {
  const auto [at, fresh] = names_.emplace(id.name, Entry{kind, index, id.span});
  if (!fresh)
    diagnostics_.fail(
        id.span, fmt::format("`{}` is declared twice, first on line {}", id.name, at->second.span.line()),
        "each name is given once; choose another");
}

void Verifier::axis_statement(const Statement::Item& item) {
  const size_t index = axes_ahead_.at(item.name.name);
  declare(item.name, Entry::AxisName, index);
  if (!item.value) return;
  Scope scope;
  scope.place = "the size of an axis";
  scope.axis_size = true;
  const Value v = expression(*item.value, scope);
  if (v.type != ValueType::Int)
    diagnostics_.fail(
        item.value->span,
        fmt::format("the size of axis `{}` is {}, not an integer", item.name.name, name(v.type)),
        "`//` divides integers");
  program_.axes[index].size = v.expr;
}

DType Verifier::dtype_of(const Statement::Item& item) const {
  const auto given = overrides_.dtypes.find(item.name.name);
  return given != overrides_.dtypes.end() ? given->second : *parse_dtype(item.dtype->name);
}

Range Verifier::range_of(const Statement::Item& item, DType dtype) {
  if (!item.lo) return {};
  Scope scope;
  scope.place = "a range";
  const Range r{expression(*item.lo, scope).expr, expression(*item.hi, scope).expr};
  const auto lo = r.lo.number(), hi = r.hi.number();
  if (lo && hi && !(*lo < *hi))
    diagnostics_.fail(Span::join(item.lo->span, item.hi->span),
                      fmt::format("the range of `{}` is empty", item.name.name),
                      "range(lo, hi) holds lo and excludes hi");
  if (lo && hi && !std::isinf(*lo) && !(least_from(dtype, *lo) < *hi)) {
    const double next = least_from(dtype, *lo);
    diagnostics_.fail(
        Span::join(item.lo->span, item.hi->span),
        fmt::format(
            "the range of `{}` holds no value of {}: {}", item.name.name, tilewright::name(dtype),
            std::isinf(next) ? "all are smaller" : fmt::format("the first from {} on is {}", *lo, next)),
        "widen it, or declare a dtype that has values there");
  }
  return r;
}

void Verifier::param_statement(const Statement::Item& item, const Span& span) {
  Param p;
  p.dtype = *parse_dtype(item.dtype->name);
  p.span = span;
  p.range = range_of(item, p.dtype);
  if (item.value) {
    Scope scope;
    scope.place = "the default of a param";
    const Value v = expression(*item.value, scope);
    p.value = v.expr;
    const auto number = v.expr.number();
    if (type_of(p.dtype) == ValueType::Int && v.type > ValueType::Int)
      diagnostics_.fail(
          item.value->span,
          fmt::format("param `{}` is {} and its default is real", item.name.name, item.dtype->name),
          "give an integer, or declare the param f32");
    const auto lo = p.range ? p.range.lo.number() : std::nullopt,
               hi = p.range ? p.range.hi.number() : std::nullopt;
    if (number && ((lo && *number < *lo) || (hi && *number >= *hi)))
      diagnostics_.fail(item.value->span,
                        fmt::format("the default of param `{}` is outside its range({}, {})", item.name.name,
                                    source_slice(item.lo->span), source_slice(item.hi->span)),
                        "the upper end is excluded");
  }
  p.sym = Sym::fresh(described(item.name.name, SymbolKind::Param, p.dtype, p.range));
  declare(item.name, Entry::ParamName, program_.params.size());
  types_[p.sym] = type_of(p.dtype);
  program_.params.push_back(p);
}

void Verifier::let_statement(const Statement::Item& item, const Span& span) {
  Scope scope;
  scope.place = "a let";
  const Value v = expression(*item.value, scope);
  declare(item.name, Entry::LetName, program_.lets.size());
  SymbolInfo info;
  info.name = item.name.name;
  info.integer = v.type <= ValueType::Int;
  const Sym sym = Sym::fresh(info);
  types_[sym] = v.type;
  program_.lets.push_back({sym, v.expr, span});
}

std::vector<Dim> Verifier::dims_of(const Statement::Item& item, const std::string& where) {
  std::vector<Dim> dims;
  std::set<Sym> seen;
  for (const DimSyntax& d : item.dims) {
    Dim& dim = dims.emplace_back();
    for (const Ident& id : d.pieces) {
      const Sym axis = axis_named(id, nullptr);
      if (!seen.insert(axis).second)
        diagnostics_.fail(id.span, fmt::format("axis `{}` stands twice in {}", id.name, where),
                          "declare a second axis of the same size: axis NAME = size(" + id.name + ")");
      dim.pieces.push_back(axis);
    }
  }
  return dims;
}

void Verifier::input_statement(const Statement::Item& item, const Span& span) {
  Input in;
  in.dims = dims_of(item, "an input");
  in.dtype = dtype_of(item);
  in.range = range_of(item, in.dtype);
  in.span = span;
  in.sym = Sym::fresh(described(item.name.name, SymbolKind::Tensor, in.dtype, in.range));
  declare(item.name, Entry::InputName, program_.inputs.size());
  types_[in.sym] = type_of(in.dtype);
  if (overrides_.dtypes.count(item.name.name)) seen_dtypes_.push_back(item.name.name);
  program_.inputs.push_back(in);
}

void Verifier::report_missing(const Scope& scope, const std::string& name) {
  std::vector<std::string> left = names_of(scope.left);
  for (const Scope::Missing& m : scope.missing) {
    left.push_back(m.axis.name());
    std::string hint = fmt::format("reduce over it, for example sum[{0}](…), or write {1}[{2}]",
                                   m.axis.name(), name, fmt::join(left, ", "));
    if (!m.why.empty()) hint = m.why + "; " + hint;
    diagnostics_.add(
        m.span,
        fmt::format("axis `{}` of the right side is not on the left side of `{}`", m.axis.name(), name),
        hint);
    left.pop_back();
  }
  if (!scope.missing.empty()) throw StatementAbandoned();
}

void Verifier::definition(const Statement::Item& item, const Span& span) {
  Scope scope;
  for (const Dim& d : dims_of(item, "a left side")) scope.left.push_back(d.pieces[0]);
  const Value v = expression(*item.value, scope);
  report_missing(scope, item.name.name);

  Definition d;
  d.axes = scope.left;
  d.value = v.expr;
  d.span = span;
  ValueType type = v.type;
  if (item.dtype) {
    d.dtype = dtype_of(item);
    type = type_of(*d.dtype);
    if (overrides_.dtypes.count(item.name.name)) seen_dtypes_.push_back(item.name.name);
  }
  SymbolInfo info;
  info.name = item.name.name;
  info.kind = SymbolKind::Tensor;
  info.integer = type <= ValueType::Int;
  info.nonnegative = type == ValueType::Bool;
  d.sym = Sym::fresh(info);

  int depth = 0;
  for (Sym t : tensors_read(v.expr))
    if (const auto known = depth_.find(t); known != depth_.end()) depth = std::max(depth, known->second);
  depth += item.value->depth;
  if (depth > inlined_depth_limit)
    diagnostics_.fail(item.name.span,
                      fmt::format("`{}` and the definitions it reads nest deeper than {} levels",
                                  item.name.name, inlined_depth_limit),
                      "give one of them a dtype and make it an output of a program of its own, which this "
                      "one takes as an input");
  declare(item.name, Entry::DefinitionName, program_.definitions.size());
  depth_[d.sym] = depth;
  types_[d.sym] = type;
  program_.definitions.push_back(d);
}

void Verifier::output_item(const Statement::Item& item) {
  const Entry e = lookup(item.name, nullptr);
  if (e.kind != Entry::InputName && e.kind != Entry::DefinitionName)
    diagnostics_.fail(item.name.span, fmt::format("`{}` is not a tensor", item.name.name),
                      "an output names a definition or an input");
  Output o;
  o.sym = tensor_sym(e);
  o.span = item.name.span;
  for (const Output& other : program_.outputs)
    if (other.sym == o.sym)
      diagnostics_.fail(
          item.name.span,
          fmt::format("`{}` is an output twice, first on line {}", item.name.name, other.span.line()),
          "define a second name for a second form of it");
  o.dims = tensor_dims(e);
  if (item.has_dims) {
    std::vector<Dim> dims = dims_of(item, "an output");
    const auto sorted = [](const std::vector<Dim>& of) {
      std::vector<Sym> all;
      for (const Dim& d : of) all.insert(all.end(), d.pieces.begin(), d.pieces.end());
      std::sort(all.begin(), all.end());
      return all;
    };
    if (sorted(dims) != sorted(o.dims))
      diagnostics_.fail(item.dims_span,
                        fmt::format("output `{0}{1}` does not have the axes of {0}{2}", item.name.name,
                                    dims_text(dims), dims_text(o.dims)),
                        "an output lists each axis of its definition once, in any order and grouping");
    o.dims = std::move(dims);
  }
  o.dtype = item.dtype ? *parse_dtype(item.dtype->name) : default_dtype(types_.at(o.sym));
  const bool definition_has_dtype = e.kind == Entry::DefinitionName && program_.definitions[e.index].dtype;
  if (const auto given = overrides_.dtypes.find(item.name.name); given != overrides_.dtypes.end()) {
    if (item.dtype || (e.kind == Entry::DefinitionName && !definition_has_dtype)) o.dtype = given->second;
    seen_dtypes_.push_back(item.name.name);
  }
  program_.outputs.push_back(o);
}

// Sizes of axes from others: acyclic; those that follow from literals become literals.
void Verifier::check_sizes() {
  for (const auto& [name, size] : overrides_.literal_sizes) {
    const auto axis = axes_ahead_.find(name);
    if (axis == axes_ahead_.end()) {
      std::vector<std::string> known;
      for (const Axis& a : program_.axes) known.push_back(a.name());
      const std::string near = nearest_name(name, known);
      diagnostics_.add(
          {},
          fmt::format("{}: there is no axis `{}`", advice::literal_size(name, std::to_string(size)), name),
          near.empty() ? "" : fmt::format("did you mean `{}`?", near));
      continue;
    }
    if (size < 0)
      diagnostics_.add({}, advice::literal_size(name, std::to_string(size)) + ": a size is not negative");
    Axis& a = program_.axes[axis->second];
    if (a.size && free_symbols(a.size).empty() && size >= 0) a.size = Expr(size);
  }
  std::vector<Expr> written;  // sizes as they are declared
  for (const Axis& a : program_.axes) written.push_back(a.size);
  std::map<Sym, size_t> axis_of_size;
  for (size_t k = 0; k < program_.axes.size(); ++k) axis_of_size[program_.axes[k].index.size()] = k;
  std::vector<int> state(program_.axes.size(), 0);  // 0 new, 1 open, 2 done
  std::vector<size_t> path;
  const auto visit = [&](const auto& self, size_t k) -> void {
    Axis& axis = program_.axes[k];
    if (state[k] == 2 || !axis.size) return;
    if (state[k] == 1) {
      std::vector<std::string> cycle;
      for (auto at = std::find(path.begin(), path.end(), k); at != path.end(); ++at)
        cycle.push_back(program_.axes[*at].name());
      cycle.push_back(axis.name());
      diagnostics_.fail(axis.span, fmt::format("sizes depend on each other: {}", fmt::join(cycle, " -> ")),
                        "leave one of them open, to be found when the program runs");
    }
    state[k] = 1;
    path.push_back(k);
    Substitution literal;
    bool known = true;
    for (Sym s : free_symbols(axis.size)) {
      const size_t other = axis_of_size.at(s);
      self(self, other);
      if (program_.axes[other].baked())
        literal.push_back({s, program_.axes[other].size});
      else
        known = false;
    }
    path.pop_back();
    state[k] = 2;
    if (!known) return;
    try {
      axis.size = Expr(evaluate_integer(substitute(axis.size, literal), {}));
    } catch (const UserError& e) {
      diagnostics_.fail(axis.span,
                        fmt::format("the size of axis `{}`: {}", axis.name(), e.diagnostics()[0].what),
                        e.diagnostics()[0].hint);
    }
    if (*axis.size.rational() < Rational(0))
      diagnostics_.fail(axis.span,
                        fmt::format("the size of axis `{}` is {}", axis.name(), axis.size.rational()->str()),
                        "a size is not negative");
    if (*axis.size.rational() > Rational(int64_t{1} << 62))
      diagnostics_.fail(axis.span,
                        fmt::format("the size of axis `{}` is {}", axis.name(), axis.size.rational()->str()),
                        "a size is at most 2^62");
  };
  for (size_t k = 0; k < program_.axes.size(); ++k) {
    try {
      path.clear();
      visit(visit, k);
    } catch (const StatementAbandoned&) {
      for (size_t open : path) state[open] = 2;
    }
  }
  for (size_t k = 0; k < program_.axes.size(); ++k) {
    const Axis& axis = program_.axes[k];
    const auto given = overrides_.literal_sizes.find(axis.name());
    if (given == overrides_.literal_sizes.end() || given->second < 0) continue;
    const std::string shown = advice::literal_size(axis.name(), std::to_string(given->second));
    if (!written[k]) {
      diagnostics_.add(axis.span,
                       fmt::format("{}: axis `{}` declares no size to replace", shown, axis.name()),
                       "leave it out: the size comes with the arrays");
    } else if (!axis.baked()) {
      diagnostics_.add(axis.span,
                       fmt::format("{}: axis `{}` is declared by the sizes of others, {}", shown, axis.name(),
                                   to_string(written[k])),
                       "leave it out: the size follows when the program runs");
    } else if (!(*axis.size.rational() == Rational(given->second))) {
      std::vector<std::string> others;
      for (Sym s : free_symbols(written[k])) {
        const Axis& other = program_.axes[axis_of_size.at(s)];
        others.push_back(fmt::format("{} = {}", other.name(), other.size.rational()->str()));
      }
      diagnostics_.add(axis.span,
                       fmt::format("{}: axis `{}` is {} by its declaration {} = {} with {}", shown,
                                   axis.name(), axis.size.rational()->str(), axis.name(),
                                   to_string(written[k]), fmt::join(others, ", ")),
                       fmt::format("replace the sizes that it follows from, or leave {} out", shown));
    }
  }
}

void Verifier::check_overrides() {
  for (const auto& [name, dtype] : overrides_.dtypes) {
    if (std::find(seen_dtypes_.begin(), seen_dtypes_.end(), name) != seen_dtypes_.end()) continue;
    std::vector<std::string> known;
    for (const Input& in : program_.inputs) known.push_back(in.sym.name());
    for (const Definition& d : program_.definitions) known.push_back(d.sym.name());
    const std::string shown = advice::dtype(name, tilewright::name(dtype));
    if (std::find(known.begin(), known.end(), name) != known.end()) {
      diagnostics_.add({}, fmt::format("{}: `{}` declares no dtype", shown, name),
                       "declare one in its statement, or make it an output");
    } else if (!later_.count(name)) {
      const std::string near = nearest_name(name, known);
      diagnostics_.add({}, fmt::format("{}: there is no input, definition or output `{}`", shown, name),
                       near.empty() ? fmt::format("it can replace the dtype of {}", fmt::join(known, ", "))
                                    : fmt::format("did you mean `{}`?", near));
    } else if (names_.count(name) && names_.at(name).kind != Entry::Broken) {
      diagnostics_.add({}, fmt::format("{}: `{}` is not a tensor", shown, name),
                       "the dtype of a param stands in the program");
    }
  }
}

}  // namespace tilewright
