#include "tilewright/tile/memory.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tilewright/expr/simplify.h"
#include "tilewright/program/params.h"
#include "tilewright/program/sizes.h"
#include "tilewright/support/advice.h"

namespace tilewright::interpreter {
namespace {

std::vector<int64_t> row_major(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t k = shape.size(); k-- > 1;) strides[k - 1] = strides[k] * shape[k];
  return strides;
}

/// Strides of piece axes from those of memory dimensions: inside a composite one the last piece has the
/// dimension's stride.
void set_pieces(Array& a, const std::vector<Dim>& dims, const std::vector<int64_t>& dim_strides,
                const Sizes& sizes) {
  for (size_t d = 0; d < dims.size(); ++d) {
    std::vector<int64_t> strides(dims[d].pieces.size());
    int64_t stride = dim_strides[d];
    for (size_t i = dims[d].pieces.size(); i-- > 0;) {
      strides[i] = stride;
      stride *= sizes.at(dims[d].pieces[i].size());
    }
    for (size_t i = 0; i < dims[d].pieces.size(); ++i) {
      a.axes.push_back(dims[d].pieces[i]);
      a.sizes.push_back(sizes.at(dims[d].pieces[i].size()));
      a.strides.push_back(strides[i]);
    }
  }
}

template <class View>
const View& checked(const char* what, const std::string& name, DType dtype, const std::vector<int64_t>& shape,
                    const Span& span, const std::map<std::string, View>& given) {
  auto it = given.find(name);
  if (it == given.end())
    throw UserError(span, fmt::format("{} {} is missing", what, name),
                    fmt::format("give an array of shape {}", shape_text(shape)));
  const View& v = it->second;
  if (v.dtype != dtype)
    throw UserError(span,
                    fmt::format("{} {} has dtype {} but the program declares {}", what, name,
                                tilewright::name(v.dtype), tilewright::name(dtype)),
                    "convert the array, or declare its dtype");
  if (v.shape != shape)
    throw UserError(span,
                    fmt::format("{} {} has shape {} but the program's sizes make it {}", what, name,
                                shape_text(v.shape), shape_text(shape)),
                    "give sizes and arrays that agree");
  if (!v.strides.empty() && v.strides.size() != shape.size())
    throw UserError(
        span,
        fmt::format("{} {} has {} strides for {} dimensions", what, name, v.strides.size(), shape.size()),
        "give one stride for each dimension");
  return v;
}

template <class View>
std::vector<int64_t> strides_of(const View& v) {
  return v.strides.empty() ? row_major(v.shape) : v.strides;
}

}  // namespace

std::map<Sym, double> bind_params(const Program& p, const Sizes& sizes,
                                  const std::map<std::string, double>& given) {
  std::vector<std::string> names;
  for (const Param& param : p.params) names.push_back(param.sym.name());
  for (const auto& [name, value] : given) {
    bool known = false;
    for (const std::string& n : names) known = known || n == name;
    if (!known) {
      std::string near = nearest_name(name, names);
      throw UserError({}, fmt::format("the program has no param `{}`", name),
                      near.empty() ? "" : fmt::format("did you mean `{}`?", near));
    }
  }
  Bindings bindings;
  for (const auto& [sym, size] : sizes) bindings[sym] = double(size);
  std::map<Sym, double> values;
  for (const Param& param : p.params) {
    auto it = given.find(param.sym.name());
    if (it == given.end() && !param.value)
      throw UserError(param.span, fmt::format("param `{}` has no value", param.sym.name()),
                      "give one: " + advice::param(param.sym.name()));
    const double value = param_value(param, it == given.end() ? evaluate(param.value, bindings) : it->second);
    values[param.sym] = bindings[param.sym] = value;
  }
  for (const Param& param : p.params) {
    if (!param.range) continue;
    double lo = evaluate(param.range.lo, bindings), hi = evaluate(param.range.hi, bindings),
           value = values[param.sym];
    if (!(value >= lo && value < hi))
      throw UserError(
          param.span,
          fmt::format("param {} is {}, outside its declared range [{}, {})", param.sym.name(), value, lo, hi),
          "give a value inside the range");
  }
  return values;
}

std::map<Sym, Array> bind_inputs(const Program& p, const Sizes& sizes,
                                 const std::map<std::string, ArrayView>& inputs) {
  std::map<Sym, Array> arrays;
  for (const Input& in : p.inputs) {
    const ArrayView& v = checked("input", in.sym.name(), in.dtype, shape_of(in.dims, sizes), in.span, inputs);
    Array a{in.sym, in.dtype, const_cast<void*>(v.data), {}, {}, {}, in.span, {}};
    set_pieces(a, in.dims, strides_of(v), sizes);
    arrays[in.sym] = std::move(a);
  }
  return arrays;
}

Arrays bind_arrays(const Program& p, const TileProgram& t, const Sizes& sizes,
                   const std::map<std::string, ArrayView>& inputs,
                   const std::map<std::string, MutableArray>& outputs) {
  Arrays arrays{bind_inputs(p, sizes, inputs), {}};
  for (const Output& o : p.outputs) {
    const MutableArray& v =
        checked("output", o.sym.name(), o.dtype, shape_of(o.dims, sizes), o.span, outputs);
    Array a{o.sym, o.dtype, v.data, {}, {}, {}, o.span, {}};
    set_pieces(a, o.dims, strides_of(v), sizes);
    arrays.write[o.sym] = std::move(a);
  }
  for (const Workspace& w : t.workspaces) {
    Array a{w.sym, w.dtype, nullptr, w.axes, {}, {}, {}, {}};
    int64_t elements = 1;
    for (Sym axis : w.axes) {
      a.sizes.push_back(sizes.at(axis.size()));
      elements *= a.sizes.back();
    }
    a.strides = row_major(a.sizes);
    a.storage = std::make_shared<std::vector<double>>(size_t(elements), 0.0);  // room for either dtype
    a.data = a.storage->data();
    arrays.read[w.sym] = arrays.write[w.sym] = std::move(a);
  }
  return arrays;
}

}  // namespace tilewright::interpreter
