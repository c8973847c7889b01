#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "tilewright/program/verify.h"
#include "tilewright/program/words.h"

namespace tilewright {

const char* name(ValueType t) {
  switch (t) {
    case ValueType::Bool: return "bool";
    case ValueType::Int: return "an integer";
    case ValueType::Real:
    case ValueType::Double: return "real";
  }
  return "";
}

ValueType type_of(DType t) {
  if (t == DType::boolean) return ValueType::Bool;
  if (is_integer(t)) return ValueType::Int;
  return t == DType::f64 ? ValueType::Double : ValueType::Real;
}

DType default_dtype(ValueType t) {
  switch (t) {
    case ValueType::Bool: return DType::boolean;
    case ValueType::Int: return DType::i64;
    case ValueType::Real: return DType::f32;
    case ValueType::Double: return DType::f64;
  }
  return DType::f32;
}

namespace {

ValueType arithmetic(ValueType a, ValueType b) { return std::max({a, b, ValueType::Int}); }
ValueType real(ValueType a) { return std::max(a, ValueType::Real); }

/// `true` and `false` stay distinct from the integers 1 and 0: a cast of the constant to bool.
Expr truth(bool value) { return cast(DType::boolean, Expr(value ? 1 : 0)); }

/// A number written with a point or an exponent. Where its value is an integer it stays distinct from the i64
/// that has the same value, so that what is printed has the types of what was written.
Expr real_literal(double x) {
  if (!std::isfinite(x) || x != std::floor(x)) return Expr::real(x);
  Node n;
  n.op = Op::Real;
  n.real = x;
  return make(std::move(n));
}

Expr one(Op op, Expr x) { return make(op, {x}); }

}  // namespace

std::vector<Expr> split_index(Expr flat, const Dim& dim) {
  std::vector<Expr> pieces(dim.pieces.size());
  Expr inner;  // product of the sizes further in
  for (size_t k = dim.pieces.size(); k-- > 0;) {
    const Expr size(dim.pieces[k].size());
    const Expr shifted = inner ? floordiv(flat, inner) : flat;
    pieces[k] = k == 0 ? shifted : mod(shifted, size);
    inner = inner ? size * inner : size;
  }
  return pieces;
}

std::string dims_text(const std::vector<Dim>& dims) {
  std::string text = "[";
  for (const Dim& d : dims) {
    if (text.size() > 1) text += ", ";
    std::vector<std::string> names;
    for (Sym s : d.pieces) names.push_back(s.name());
    text += names.size() == 1 ? names[0] : fmt::format("({})", fmt::join(names, " "));
  }
  return text + "]";
}

Verifier::Entry Verifier::lookup(const Ident& id, const Scope* scope) {
  const auto found = names_.find(id.name);
  if (found != names_.end()) {
    if (found->second.kind == Entry::Broken) throw StatementAbandoned();  // its own error has been reported
    return found->second;
  }
  if (scope && scope->axis_size && axes_ahead_.count(id.name))
    return {Entry::AxisName, axes_ahead_.at(id.name), id.span};
  if (const auto later = later_.find(id.name); later != later_.end()) {
    const bool own = later->second.line() == id.span.line() && later->second.begin < id.span.begin;
    if (own)
      diagnostics_.fail(id.span, fmt::format("`{}` is read in its own definition", id.name),
                        "definitions are not recursive");
    diagnostics_.fail(id.span,
                      fmt::format("`{}` is used before line {} declares it", id.name, later->second.line()),
                      "move its declaration up");
  }
  std::vector<std::string> known;
  for (const auto& [n, entry] : names_) known.push_back(n);
  const std::string near = nearest_name(id.name, known);
  diagnostics_.fail(id.span, fmt::format("unknown name `{}`", id.name),
                    near.empty() ? "declare it with axis, param, let or input, or define it above"
                                 : fmt::format("did you mean `{}`?", near));
}

Sym Verifier::axis_named(const Ident& id, const Scope* scope) {
  const bool declared = names_.count(id.name) || later_.count(id.name);
  if (!declared) {
    std::vector<std::string> known;
    for (const Axis& a : program_.axes) known.push_back(a.name());
    const std::string near = nearest_name(id.name, known);
    diagnostics_.fail(
        id.span, fmt::format("unknown axis `{}`", id.name),
        near.empty() ? fmt::format("declare it: axis {}", id.name) : fmt::format("did you mean `{}`?", near));
  }
  const Entry e = lookup(id, scope);
  if (e.kind != Entry::AxisName)
    diagnostics_.fail(id.span, fmt::format("`{}` is not an axis", id.name),
                      "an axis is declared with `axis NAME`");
  return program_.axes[e.index].index;
}

void Verifier::use_axis(Sym axis, const Span& span, Scope& scope, const std::string& why) {
  if (scope.scalar())
    diagnostics_.fail(span,
                      fmt::format("axis `{}` is used in {}, which has no axes", axis.name(), scope.place),
                      fmt::format("size({}) is its length", axis.name()));
  const auto has = [&](const std::vector<Sym>& list) {
    return std::find(list.begin(), list.end(), axis) != list.end();
  };
  if (has(scope.left) || has(scope.bound)) return;
  for (const Scope::Missing& m : scope.missing)
    if (m.axis == axis) return;
  scope.missing.push_back({axis, span, why});
}

std::vector<Dim> Verifier::tensor_dims(const Entry& e) const {
  if (e.kind == Entry::InputName) return program_.inputs[e.index].dims;
  std::vector<Dim> dims;
  for (Sym s : program_.definitions[e.index].axes) dims.push_back({{s}});
  return dims;
}

Sym Verifier::tensor_sym(const Entry& e) const {
  return e.kind == Entry::InputName ? program_.inputs[e.index].sym : program_.definitions[e.index].sym;
}

void Verifier::require_tensors_allowed(const Syntax& s, const Scope& scope) {
  if (scope.scalar())
    diagnostics_.fail(s.name_span, fmt::format("tensor `{}` is read in {}", s.name, scope.place),
                      "only numbers, sizes, params and lets stand there; a definition without axes, NAME[] = "
                      "…, may read tensors");
}

Verifier::Value Verifier::expression(const Syntax& s, Scope& scope) {
  Value v = expression_node(s, scope);
  program_.spans.emplace(v.expr, s.span);
  return v;
}

Verifier::Value Verifier::expression_node(const Syntax& s, Scope& scope) {
  switch (s.kind) {
    case Syntax::Kind::Number: return number(s);
    case Syntax::Kind::Inf: return {Expr::infinity(), ValueType::Real};
    case Syntax::Kind::True: return {truth(true), ValueType::Bool};
    case Syntax::Kind::False: return {truth(false), ValueType::Bool};
    case Syntax::Kind::Name: return bare_name(s, scope);
    case Syntax::Kind::Read: return element(s, scope);
    case Syntax::Kind::Pieces:
      diagnostics_.fail(s.span, "the pieces of a composite dimension stand only as an index",
                        "write K[b, (k g), i]");
    case Syntax::Kind::Size: return {Expr(axis_named(s.idents[0], &scope).size()), ValueType::Int};
    case Syntax::Kind::Reduce: return reduction(s, scope);
    case Syntax::Kind::TopK: return ranked_element(s, scope);
    case Syntax::Kind::Call: return call(s, scope);
    case Syntax::Kind::Not: return {logical_not(condition(*s.args[0], scope, "`not`").expr), ValueType::Bool};
    case Syntax::Kind::Neg: {
      const Value v = expression(*s.args[0], scope);
      const bool literal = s.args[0]->kind == Syntax::Kind::Number || s.args[0]->kind == Syntax::Kind::Inf;
      const ValueType type = arithmetic(v.type, v.type);
      const auto r = v.expr.rational();
      // -0 is no literal of its own: it stays a negation, which prints as it was written.
      if (!literal || (r && *r == Rational(0))) return {-v.expr, type};
      if (r) return {Expr(-*r), type};
      return {real_literal(-*v.expr.number()), type};
    }
    case Syntax::Kind::Binary: return binary(s, scope);
  }
  TW_CHECK(false, "a kind of syntax is not handled");
}

Verifier::Value Verifier::number(const Syntax& s) {
  const auto exact = Rational::parse(s.name);
  if (exact && !(s.real && exact->is_integer()))
    return {Expr(*exact), s.real ? ValueType::Real : ValueType::Int};
  if (!s.real)
    diagnostics_.fail(s.span, fmt::format("{} does not fit i64", s.name),
                      "write it with a point to make it real");
  const double value = std::strtod(s.name.c_str(), nullptr);
  if (!std::isfinite(value))
    diagnostics_.fail(s.span, fmt::format("{} does not fit f64", s.name), "infinity is written inf");
  // What is too long to be exact is the nearest double; where the digits that name it are exact, so is what is printed.
  const auto shortest = Rational::parse(fmt::format("{}", value));
  if (shortest && !shortest->is_integer()) return {Expr(*shortest), ValueType::Real};
  return {real_literal(value), ValueType::Real};
}

Verifier::Value Verifier::bare_name(const Syntax& s, Scope& scope) {
  const Entry e = lookup({s.name, s.span}, &scope);
  switch (e.kind) {
    case Entry::AxisName: {
      const Sym axis = program_.axes[e.index].index;
      use_axis(axis, s.span, scope);
      return {Expr(axis), ValueType::Int};
    }
    case Entry::ParamName: {
      if (scope.axis_size)
        diagnostics_.fail(
            s.span, fmt::format("param `{}` is used in the size of an axis", s.name),
            "sizes depend on numbers, lets and other sizes only; make it an axis, whose size is given");
      const Param& p = program_.params[e.index];
      return {Expr(p.sym), p.dtype == DType::f64 ? ValueType::Real : type_of(p.dtype)};
    }
    case Entry::LetName: {
      const Let& let = program_.lets[e.index];
      return {let.value, types_.at(let.sym)};
    }
    case Entry::InputName:
    case Entry::DefinitionName: {
      require_tensors_allowed(s, scope);
      std::vector<Expr> indices;
      for (const Dim& d : tensor_dims(e))
        for (Sym axis : d.pieces) {
          use_axis(axis, s.span, scope,
                   fmt::format("`{}` alone reads {}{}", s.name, s.name, dims_text(tensor_dims(e))));
          indices.push_back(Expr(axis));
        }
      return {read(tensor_sym(e), indices), types_.at(tensor_sym(e))};
    }
    case Entry::Broken: break;
  }
  throw StatementAbandoned();
}

Verifier::Value Verifier::element(const Syntax& s, Scope& scope) {
  const Entry e = lookup({s.name, s.name_span}, &scope);
  if (e.kind != Entry::InputName && e.kind != Entry::DefinitionName) {
    const char* what = e.kind == Entry::AxisName    ? "an axis"
                       : e.kind == Entry::ParamName ? "a param"
                                                    : "a let";
    diagnostics_.fail(s.name_span, fmt::format("`{}` is {} and has no elements", s.name, what),
                      fmt::format("write {} without brackets", s.name));
  }
  require_tensors_allowed(s, scope);
  const std::vector<Dim> dims = tensor_dims(e);
  if (dims.size() != s.args.size()) {
    std::vector<std::string> given;
    for (const Syntax* a : s.args) given.push_back(source_slice(a->span));
    diagnostics_.fail(
        s.span,
        fmt::format("`{0}` has {1} dimension{2}, {0}{3}, and is read with {4} ind{5}, [{6}]", s.name,
                    dims.size(), dims.size() == 1 ? "" : "s", dims_text(dims), s.args.size(),
                    s.args.size() == 1 ? "ex" : "ices", fmt::join(given, ", ")),
        dims.size() == 0
            ? fmt::format("write {}[]", s.name)
            : fmt::format("give one index for each dimension, or {} alone to read it at its own axes",
                          s.name));
  }
  std::vector<Expr> indices;
  for (size_t k = 0; k < dims.size(); ++k) {
    const Syntax& index = *s.args[k];
    Expr flat;
    if (index.kind == Syntax::Kind::Pieces) {
      std::vector<Expr> pieces;
      for (const Ident& id : index.idents) {
        const Sym axis = axis_named(id, &scope);
        use_axis(axis, id.span, scope);
        pieces.push_back(Expr(axis));
        flat = flat ? flat * Expr(axis.size()) + Expr(axis) : Expr(axis);
      }
      if (pieces.size() == dims[k].pieces.size()) {
        indices.insert(indices.end(), pieces.begin(), pieces.end());
        continue;
      }
    } else {
      const Value v = expression(index, scope);
      if (v.type != ValueType::Int)
        diagnostics_.fail(
            index.span, fmt::format("index {} of `{}` is {}, not an integer", k + 1, s.name, name(v.type)),
            v.type == ValueType::Bool
                ? fmt::format("i64({}) counts it as 0 or 1", source_slice(index.span))
                : fmt::format("`//` divides integers; i64({}) truncates", source_slice(index.span)));
      flat = v.expr;
    }
    for (Expr piece : dims[k].pieces.size() == 1 ? std::vector<Expr>{flat} : split_index(flat, dims[k]))
      indices.push_back(piece);
  }
  return {read(tensor_sym(e), indices), types_.at(tensor_sym(e))};
}

Verifier::Value Verifier::condition(const Syntax& s, Scope& scope, const std::string& user) {
  const Value v = expression(s, scope);
  if (v.type != ValueType::Bool)
    diagnostics_.fail(s.span, fmt::format("{} needs a condition, and this is {}", user, name(v.type)),
                      fmt::format("compare it: {} != 0", source_slice(s.span)));
  return v;
}

Verifier::Value Verifier::reduction(const Syntax& s, Scope& scope) {
  const Reducer r = *find_reducer(s.name);
  std::vector<Sym> axes;
  for (const Ident& id : s.idents) {
    const Sym axis = axis_named(id, &scope);
    if (scope.scalar()) use_axis(axis, id.span, scope);
    if (std::find(axes.begin(), axes.end(), axis) != axes.end())
      diagnostics_.fail(id.span, fmt::format("axis `{}` stands twice in one reduction", id.name),
                        "name each axis once");
    axes.push_back(axis);
  }
  if ((r == Reducer::Argmax || r == Reducer::Argmin) && axes.size() > 1)
    diagnostics_.fail(s.idents[1].span, fmt::format("`{}` takes one axis", s.name),
                      fmt::format("it gives an index along one axis; nest {0} and {1} to search several",
                                  s.name, r == Reducer::Argmax ? "max" : "min"));
  scope.bound.insert(scope.bound.end(), axes.begin(), axes.end());
  Value body;
  if (r == Reducer::Any || r == Reducer::All)
    body = condition(*s.args[0], scope, fmt::format("`{}`", s.name));
  else
    body = expression(*s.args[0], scope);
  scope.bound.resize(scope.bound.size() - axes.size());
  if (r == Reducer::Softmax)
    for (size_t k = 0; k < axes.size(); ++k)
      use_axis(axes[k], s.idents[k].span, scope,
               fmt::format("softmax[{0}] has a value for each {0}", s.idents[k].name));
  ValueType type = body.type;
  switch (r) {
    case Reducer::Sum:
    case Reducer::Prod:
    case Reducer::Max:
    case Reducer::Min: type = arithmetic(type, type); break;
    case Reducer::Any:
    case Reducer::All: break;
    case Reducer::Argmax:
    case Reducer::Argmin: type = ValueType::Int; break;
    case Reducer::Mean:
    case Reducer::Var:
    case Reducer::Softmax:
    case Reducer::Logsumexp:
    case Reducer::Topk:
    case Reducer::Argtopk: type = real(type); break;
  }
  return {reduce(r, axes, body.expr), type};
}

/// topk[v -> n](x): v is bound in x; n is free in the value, whose rank it is, and cannot stand in x.
Verifier::Value Verifier::ranked_element(const Syntax& s, Scope& scope) {
  const Sym axis = axis_named(s.idents[0], &scope), rank = axis_named(s.idents[1], &scope);
  if (scope.scalar()) use_axis(axis, s.idents[0].span, scope);
  if (axis == rank)
    diagnostics_.fail(s.idents[1].span, fmt::format("`{}` numbers its results along another axis", s.name),
                      fmt::format("declare one whose size says how many: axis n = 8, then {}[{} -> n](…)",
                                  s.name, axis.name()));
  scope.bound.push_back(axis);
  const Value body = expression(*s.args[0], scope);
  scope.bound.pop_back();
  if (depends_on(body.expr, rank))
    diagnostics_.fail(s.args[0]->span,
                      fmt::format("axis `{}` numbers the results of `{}` and cannot be used in what it ranks",
                                  rank.name(), s.name),
                      "rank along another axis, declared with the same size");
  use_axis(rank, s.idents[1].span, scope,
           fmt::format("{0}[{1} -> {2}] has a value for each {2}", s.name, axis.name(), rank.name()));
  const bool index = s.name == "argtopk";
  return {ranked(index ? Reducer::Argtopk : Reducer::Topk, axis, body.expr, Expr(rank)),
          index ? ValueType::Int : real(body.type)};
}

Verifier::Value Verifier::call(const Syntax& s, Scope& scope) {
  const size_t n = s.args.size();
  const std::optional<DType> dtype = parse_dtype(s.name);
  const FunctionWord* f = find_function(s.name);
  if (!dtype && !f) {
    if (names_.count(s.name) || later_.count(s.name))
      diagnostics_.fail(s.name_span, fmt::format("`{}` is not a function", s.name),
                        fmt::format("an element is {0}[…]; a product needs `*`: {0} * (…)", s.name));
    const std::string near = nearest_name(s.name, callable_names());
    diagnostics_.fail(
        s.name_span, fmt::format("unknown function `{}`", s.name),
        near.empty() ? "docs/language.md lists the functions" : fmt::format("did you mean `{}`?", near));
  }
  const int least = dtype ? 1 : f->least, most = dtype ? 1 : f->most;
  if (int(n) < least || (most >= 0 && int(n) > most)) {
    std::string hint;
    if (s.name == "where") hint = "where(condition, x, y)";
    if (s.name == "max" || s.name == "min")
      hint = fmt::format("{0}(x, y) of values; {0}[j](x) over an axis", s.name);
    diagnostics_.fail(s.span,
                      fmt::format("`{}` takes {}{} argument{}, not {}", s.name, most < 0 ? "at least " : "",
                                  least, least == 1 ? "" : "s", n),
                      hint);
  }
  std::vector<Value> v;
  for (size_t k = 0; k < n; ++k)
    v.push_back(s.name == "where" && k == 0 ? condition(*s.args[0], scope, "`where`")
                                            : expression(*s.args[k], scope));
  const Expr x = v[0].expr;
  const ValueType t = v[0].type, real_type = real(t), number_type = arithmetic(t, t);
  if (dtype) return {cast(*dtype, x), type_of(*dtype)};
  if (s.name == "where") {
    const ValueType a = v[1].type, b = v[2].type;
    return {select(x, v[1].expr, v[2].expr),
            a == ValueType::Bool && b == ValueType::Bool ? a : arithmetic(a, b)};
  }
  if (s.name == "max" || s.name == "min") {
    std::vector<Expr> args;
    ValueType type = ValueType::Int;
    for (const Value& a : v) {
      args.push_back(a.expr);
      type = arithmetic(type, a.type);
    }
    return {make(s.name == "max" ? Op::Max : Op::Min, args), type};
  }
  if (s.name == "pow") {
    const bool integer = number_type == ValueType::Int && v[1].type <= ValueType::Int &&
                         v[1].expr.rational() && *v[1].expr.rational() >= Rational(0);
    return {pow(x, v[1].expr), integer ? ValueType::Int : real(arithmetic(t, v[1].type))};
  }
  if (s.name == "relu") return {make(Op::Max, {x, Expr(0)}), number_type};
  if (s.name == "silu") return {x * one(Op::Sigmoid, x), real_type};
  if (s.name == "gelu")
    return {Expr(Rational(1, 2)) * x * (Expr(1) + one(Op::Erf, x / sqrt(Expr(2)))), real_type};
  static const std::vector<std::pair<std::string, Op>> real_functions = {
      {"exp", Op::Exp},   {"log", Op::Log},         {"exp2", Op::Exp2},
      {"log2", Op::Log2}, {"sqrt", Op::Sqrt},       {"rsqrt", Op::Rsqrt},
      {"tanh", Op::Tanh}, {"sigmoid", Op::Sigmoid}, {"erf", Op::Erf}};
  for (const auto& [word, op] : real_functions)
    if (s.name == word) return {one(op, x), real_type};
  static const std::vector<std::pair<std::string, Op>> keeping = {
      {"abs", Op::Abs}, {"floor", Op::Floor}, {"round", Op::Round}, {"sign", Op::Sign}};
  for (const auto& [word, op] : keeping)
    if (s.name == word) return {one(op, x), number_type};
  TW_CHECK(false, "function " + s.name + " is not handled");
}

namespace {

/// A real number whose value is a whole number, such as 1e12: beside an integer an expression does not show that it is real, and integers would overflow.
template <class Value>
bool is_large_whole_real(const Value& v) {
  constexpr double large = 1024;  // times 2^53 is 2^63
  const auto n = v.expr.number();
  return v.type >= ValueType::Real && n && std::isfinite(*n) && *n == std::floor(*n) &&
         std::fabs(*n) >= large;
}

template <class Value>
Value real_beside_large(const Value& v, ValueType type) {
  if (v.type >= ValueType::Real || v.expr.number()) return v;
  return {cast(type == ValueType::Double ? DType::f64 : DType::f32, v.expr), type};
}

}  // namespace

Verifier::Value Verifier::binary(const Syntax& s, Scope& scope) {
  const std::string& op = s.name;
  if (op == "and" || op == "or") {
    const Expr a = condition(*s.args[0], scope, fmt::format("`{}`", op)).expr;
    const Expr b = condition(*s.args[1], scope, fmt::format("`{}`", op)).expr;
    return {op == "and" ? logical_and(a, b) : logical_or(a, b), ValueType::Bool};
  }
  Value a = expression(*s.args[0], scope), b = expression(*s.args[1], scope);
  const ValueType type = arithmetic(a.type, b.type);
  if (op == "+" || op == "-" || op == "*") {
    if (is_large_whole_real(a)) b = real_beside_large(b, type);
    if (is_large_whole_real(b)) a = real_beside_large(a, type);
  }
  if (op == "+") return {a.expr + b.expr, type};
  if (op == "-") return {a.expr - b.expr, type};
  if (op == "*") return {a.expr * b.expr, type};
  if (op == "/") return {a.expr / b.expr, real(type)};
  if (op == "//" || op == "%") {
    for (int k = 0; k < 2; ++k) {
      if ((k == 0 ? a : b).type <= ValueType::Int) continue;
      diagnostics_.fail(s.args[k]->span, fmt::format("`{}` is for integers, and this is real", op),
                        op == "//" ? fmt::format("floor({} / {}) divides reals and rounds down",
                                                 source_slice(s.args[0]->span), source_slice(s.args[1]->span))
                                   : fmt::format("x - y * floor(x / y) is the remainder of reals"));
    }
    if (b.expr.is_constant(0))
      diagnostics_.fail(s.args[1]->span, "division by zero", "the divisor must not be zero");
    return {op == "//" ? floordiv(a.expr, b.expr) : mod(a.expr, b.expr), ValueType::Int};
  }
  if (op == "**") {
    const auto exponent = b.expr.rational();
    const bool integer = type == ValueType::Int && exponent && *exponent >= Rational(0);
    return {pow(a.expr, b.expr), integer ? ValueType::Int : real(type)};
  }
  if (op == "==") return {equal(a.expr, b.expr), ValueType::Bool};
  if (op == "!=") return {make(Op::Ne, {a.expr, b.expr}), ValueType::Bool};
  if (op == "<") return {less(a.expr, b.expr), ValueType::Bool};
  if (op == "<=") return {less_equal(a.expr, b.expr), ValueType::Bool};
  if (op == ">") return {less(b.expr, a.expr), ValueType::Bool};
  if (op == ">=") return {less_equal(b.expr, a.expr), ValueType::Bool};
  TW_CHECK(false, "operator " + op + " is not handled");
}

}  // namespace tilewright
