#include "tilewright/reference/reference.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tilewright/expr/simplify.h"
#include "tilewright/program/elaborate.h"
#include "tilewright/program/params.h"
#include "tilewright/reference/run.h"
#include "tilewright/support/advice.h"

namespace tilewright {
namespace {

using reference::IntegerRange;

std::vector<int64_t> row_major(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t k = shape.size(); k-- > 1;) strides[k - 1] = strides[k] * shape[k];
  return strides;
}

/// The array of `input`, checked, with strides.
ArrayView checked_array(const Input& input, const Sizes& sizes,
                        const std::map<std::string, ArrayView>& arrays) {
  const std::string& name = input.sym.name();
  auto it = arrays.find(name);
  if (it == arrays.end()) {
    std::vector<std::string> given;
    for (auto& [other, array] : arrays) given.push_back(other);
    throw UserError(input.span, fmt::format("input `{}` is missing", name),
                    given.empty()
                        ? "give an array for it"
                        : fmt::format("give an array for it; given are {}", fmt::join(given, ", ")));
  }
  ArrayView a = it->second;
  if (a.dtype != input.dtype)
    throw UserError(input.span,
                    fmt::format("input `{}` has dtype {}, but the program declares {}", name,
                                tilewright::name(a.dtype), tilewright::name(input.dtype)),
                    "convert the array, or compile with " + advice::dtype(name, tilewright::name(a.dtype)));
  std::vector<int64_t> shape = shape_of(input.dims, sizes);
  if (a.shape != shape)
    throw UserError(input.span,
                    fmt::format("input `{}` has shape {}, but the program's sizes make it {}", name,
                                shape_text(a.shape), shape_text(shape)),
                    "give an array of that shape, or other sizes");
  if (a.strides.empty()) a.strides = row_major(shape);
  if (a.strides.size() != shape.size())
    throw UserError(input.span, fmt::format("input `{}` has {} strides for {} dimensions", name,
                                            a.strides.size(), shape.size()));
  return a;
}

/// Smallest and largest element of an integer array; nothing for an empty one.
std::optional<IntegerRange> extremes(const ArrayView& a) {
  int64_t elements = 1;
  for (int64_t s : a.shape) elements *= s;
  if (elements == 0) return std::nullopt;
  IntegerRange r{std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()};
  std::vector<int64_t> index(a.shape.size(), 0);
  int64_t offset = 0;
  for (int64_t n = 0; n < elements; ++n) {
    const double x = load_element(a.dtype, a.data, offset);
    const int64_t value = a.dtype == DType::i64 ? static_cast<const int64_t*>(a.data)[offset] : int64_t(x);
    r.lo = std::min(r.lo, value);
    r.hi = std::max(r.hi, value);
    for (size_t k = index.size(); k-- > 0;) {
      offset += a.strides[k];
      if (++index[k] < a.shape[k]) break;
      offset -= index[k] * a.strides[k];
      index[k] = 0;
    }
  }
  return r;
}

std::map<Sym, double> checked_params(const Program& p, const Sizes& sizes,
                                     const std::map<std::string, double>& given) {
  std::vector<std::string> names;
  for (const Param& param : p.params) names.push_back(param.sym.name());
  for (auto& [name, value] : given)
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      std::string near = nearest_name(name, names);
      throw UserError(
          {}, fmt::format("the program has no param `{}`", name),
          near.empty()
              ? (names.empty() ? "it has none" : fmt::format("its params are {}", fmt::join(names, ", ")))
              : fmt::format("did you mean `{}`?", near));
    }
  Bindings bindings;
  for (auto& [sym, size] : sizes) bindings[sym] = double(size);
  std::map<Sym, double> values;
  for (const Param& param : p.params) {
    const std::string& name = param.sym.name();
    double value = 0;
    if (auto it = given.find(name); it != given.end())
      value = param_value(param, it->second);
    else if (param.value)
      value = param_value(param, evaluate(param.value, bindings));
    else
      throw UserError(param.span, fmt::format("param `{}` has no value", name),
                      "give one: " + advice::param(name));
    values[param.sym] = bindings[param.sym] = value;
  }
  for (const Param& param : p.params) {
    if (!param.range) continue;
    const double lo = evaluate(param.range.lo, bindings), hi = evaluate(param.range.hi, bindings),
                 value = values[param.sym];
    if (!(value >= lo && value < hi))
      throw UserError(param.span,
                      fmt::format("param `{}` is {}, outside its declared range [{}, {})", param.sym.name(),
                                  value, lo, hi),
                      "give a value inside; the upper end is excluded");
  }
  return values;
}

/// Range of the values of an input, checked against the declared one.
IntegerRange checked_range(const Input& input, const ArrayView& array, const Sizes& sizes,
                           const std::map<Sym, double>& params) {
  if (is_float(input.dtype)) return {};
  if (input.dtype == DType::boolean) return {0, 1};
  std::optional<IntegerRange> found = extremes(array);
  if (!found) return {0, 0};
  if (input.range) {
    Bindings bindings(params.begin(), params.end());
    for (auto& [sym, size] : sizes) bindings[sym] = double(size);
    const double lo = evaluate(input.range.lo, bindings), hi = evaluate(input.range.hi, bindings);
    for (int64_t value : {found->lo, found->hi})
      if (!(double(value) >= lo && double(value) < hi))
        throw UserError(input.span,
                        fmt::format("input `{}` holds {}, outside its declared range [{}, {})",
                                    input.sym.name(), value, lo, hi),
                        "correct the array; the upper end is excluded");
  }
  return {std::max(found->lo, IntegerRange::low), std::min(found->hi, IntegerRange::high)};
}

}  // namespace

bool rounds_to_integer(const Program& p, Expr e) {
  const bool steps = e.is(Op::Round) || e.is(Op::Floor) ||
                     (e.is(Op::Cast) && !is_float(e->dtype) && e->dtype != DType::boolean);
  if (!steps || e.arg(0).number() || is_integer(e.arg(0))) return false;
  return !(e.arg(0).is(Op::Read) && p.input(e.arg(0)->sym));
}

struct Evaluator::Impl {
  Program program;  ///< elaborated
  Sizes sizes;
  std::map<Sym, double> params;
  std::unique_ptr<reference::Graph> graph;
  std::unique_ptr<reference::Engine> engine;

  /// For each axis of the table of `o`: its place in o.axes().
  std::vector<size_t> places(const Output& o, int table) const {
    const std::vector<Sym> axes = o.axes();
    std::vector<size_t> result;
    for (Sym s : graph->tables[size_t(table)].axes) {
      auto it = std::find(axes.begin(), axes.end(), s);
      TW_CHECK(it != axes.end(), "output " + o.sym.name() + " lacks axis " + s.name());
      result.push_back(size_t(it - axes.begin()));
    }
    TW_CHECK(result.size() == axes.size(),
             "output " + o.sym.name() + " has an axis that its definition has not");
    return result;
  }
};

Evaluator::Evaluator(const Program& p, const Sizes& sizes, const std::map<std::string, ArrayView>& arrays,
                     const std::map<std::string, double>& params, Precision precision)
    : impl_(std::make_unique<Impl>()) {
  impl_->sizes = sizes;
  impl_->params = checked_params(p, sizes, params);
  std::vector<ArrayView> views;
  std::vector<IntegerRange> ranges;
  for (const Input& input : p.inputs) {
    views.push_back(checked_array(input, sizes, arrays));
    ranges.push_back(checked_range(input, views.back(), sizes, impl_->params));
  }
  impl_->program = with_counted_ranks(elaborate(p));
  impl_->graph =
      std::make_unique<reference::Graph>(impl_->program, impl_->sizes, impl_->params, ranges, precision);
  impl_->engine = reference::make_engine(*impl_->graph, std::move(views), precision);
}

Evaluator::~Evaluator() = default;

double Evaluator::element(const Output& o, const std::vector<int64_t>& index) {
  const int table = impl_->graph->table_of(o.sym);
  std::vector<size_t> places = impl_->places(o, table);
  std::vector<int64_t> inner;
  for (size_t k = 0; k < places.size(); ++k) {
    inner.push_back(index.at(places[k]));
    TW_CHECK(inner[k] >= 0 && inner[k] < impl_->graph->tables[size_t(table)].sizes[k],
             fmt::format("index {} is outside output {}", shape_text(index), o.sym.name()));
  }
  return impl_->engine->element(table, inner);
}

std::vector<double> Evaluator::all(const Output& o) {
  const int table = impl_->graph->table_of(o.sym);
  std::vector<size_t> places = impl_->places(o, table);
  std::vector<int64_t> shape, strides;
  for (Sym s : o.axes()) shape.push_back(impl_->graph->size_of(s));
  int64_t elements = 1;
  for (int64_t s : shape) elements *= s;
  std::vector<int64_t> memory = row_major(shape);
  for (size_t place : places) strides.push_back(memory[place]);
  std::vector<double> out(static_cast<size_t>(elements));
  if (elements > 0) impl_->engine->all(table, strides, out.data());
  return out;
}

double Evaluator::cost(const Output& o) const {
  const reference::Graph& graph = *impl_->graph;
  std::vector<bool> needed(graph.tables.size(), false);
  needed[size_t(graph.table_of(o.sym))] = true;
  double sum = 0;
  for (size_t k = graph.tables.size(); k-- > 0;) {
    if (!needed[k]) continue;
    const reference::Table& t = graph.tables[k];
    if (!t.body) continue;
    sum += t.elements() * t.points() * t.operations;
    for (Expr part : {t.body, t.guard})
      if (part)
        for (Expr r : reference::reads_in(part)) needed[size_t(graph.table_of(r->sym))] = true;
  }
  return sum;
}

}  // namespace tilewright
