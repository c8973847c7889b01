// The C interface (include/tilewright.h) over Kernel.
#include "tilewright.h"

#include <fmt/format.h>

#include <cmath>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tilewright/driver/compiled.h"
#include "tilewright/support/advice.h"

using namespace tilewright;

struct tw_kernel {
  std::unique_ptr<Kernel> kernel;
  std::string description;
  bool on_gpu = false;
  std::mutex mutex;
  std::string last_call;  ///< bytes_of() the last run that succeeded on a GPU
};

namespace {

thread_local std::string last_error;

/// Runs f; on an exception stores its message and returns its status (2: the caller's mistake, 3: a fault of ours).
template <class F>
int guarded(const F& f) {
  const advice::InPython in_python;
  try {
    f();
    last_error.clear();
    return 0;
  } catch (const UserError& e) {
    last_error.clear();
    for (const Diagnostic& d : e.diagnostics()) last_error += d.render();
    return 2;
  } catch (const std::exception& e) {
    last_error = e.what();
    return 3;
  }
}

[[noreturn]] void mistake(const std::string& what, const std::string& hint) {
  throw UserError(Span{}, what, hint);
}

/// "d=64,Q=bf16": numbers are literal sizes, dtype names are dtypes.
Overrides parse_overrides(const char* text) {
  Overrides o;
  if (text == nullptr) return o;
  std::istringstream in(text);
  for (std::string item; std::getline(in, item, ',');) {
    const size_t eq = item.find('=');
    if (eq == std::string::npos || eq == 0)
      mistake(fmt::format("override `{}` has no `=`", item), "write overrides like \"d=64,Q=bf16\"");
    const std::string key = item.substr(0, eq), value = item.substr(eq + 1);
    if (o.dtypes.count(key) || o.literal_sizes.count(key))
      mistake(fmt::format("overrides name `{}` twice", key), "give it once");
    if (const auto dtype = parse_dtype(value)) {
      o.dtypes[key] = *dtype;
    } else if (!value.empty() && value.size() < 18 &&
               value.find_first_not_of("0123456789") == std::string::npos) {
      o.literal_sizes[key] = std::stoll(value);
    } else {
      mistake(fmt::format("override `{}` is neither a size nor a dtype", item),
              "write overrides like \"d=64,Q=bf16\"");
    }
  }
  return o;
}

/// All that a run depends on beside the stream and what the arrays hold; empty where a name, dtype or shape is missing.
std::string bytes_of(const tw_array* arrays, int32_t n_arrays, const tw_value* values, int32_t n_values) {
  std::string all;
  const auto add = [&](const void* p, size_t bytes) { all.append(static_cast<const char*>(p), bytes); };
  const auto text = [&](const char* s) { all.append(s).push_back('\0'); };
  add(&n_arrays, sizeof n_arrays);
  for (int32_t k = 0; k < n_arrays; ++k) {
    const tw_array& a = arrays[k];
    if (!a.name || !a.dtype || a.rank < 0 || (a.rank > 0 && !a.shape)) return {};
    text(a.name);
    text(a.dtype);
    add(&a.data, sizeof a.data);
    add(&a.rank, sizeof a.rank);
    add(a.shape, sizeof(int64_t) * size_t(a.rank));
    all.push_back(a.strides ? 's' : '-');
    if (a.strides) add(a.strides, sizeof(int64_t) * size_t(a.rank));
  }
  for (int32_t k = 0; k < n_values; ++k) {
    if (!values[k].name) return {};
    text(values[k].name);
    add(&values[k].value, sizeof values[k].value);
  }
  return all;
}

Target parse_target(const char* text) {
  for (Target t : {Target::Interp, Target::InterpMapped, Target::Cpu, Target::Cuda})
    if (text != nullptr && std::string(text) == name(t)) return t;
  mistake(fmt::format("no target is called `{}`", text == nullptr ? "" : text),
          "targets are cpu, cuda, interp, interp-mapped");
}

std::vector<std::string> axis_names(const std::vector<Dim>& dims) {
  std::vector<std::string> names;
  for (const Dim& d : dims) {
    std::string s;
    for (Sym piece : d.pieces) s += (s.empty() ? "" : " ") + piece.name();
    names.push_back(d.pieces.size() > 1 ? "(" + s + ")" : s);
  }
  return names;
}

std::string describe(const Kernel& k) {
  const Program& p = k.compiled().program;
  nlohmann::json j;
  j["name"] = p.name;
  for (const Input& in : p.inputs)
    j["inputs"].push_back(
        {{"name", in.sym.name()}, {"dtype", name(in.dtype)}, {"dims", axis_names(in.dims)}});
  for (const Output& o : p.outputs)
    j["outputs"].push_back({{"name", o.sym.name()}, {"dtype", name(o.dtype)}, {"dims", axis_names(o.dims)}});
  j["axes"] = nlohmann::json::array();
  for (const Axis& a : p.axes) j["axes"].push_back(a.name());
  j["params"] = nlohmann::json::array();
  for (const Param& x : p.params) j["params"].push_back(x.sym.name());
  const CompiledProgram& c = k.compiled();
  for (size_t n = 0; n < c.kernels.size(); ++n)
    for (const GuardedPlan& g : c.kernels[n].plans) {
      nlohmann::json when = nlohmann::json::object();
      for (const auto& [axis, limit] : g.when.at_most) when[axis.name()] = limit;
      j["plans"].push_back({{"kernel", c.name_of(n)}, {"at_most", when}, {"schedule", print(p, g.plan)}});
    }
  return j.dump();
}

}  // namespace

extern "C" {

tw_kernel* tw_compile(const char* source, const char* target, const char* schedule, const char* overrides) {
  std::unique_ptr<tw_kernel> result;
  guarded([&] {
    if (source == nullptr) mistake("no program was given", "pass the text of a .tw program");
    CompileOptions o;
    o.target = parse_target(target);
    o.recall = true;
    o.schedule = schedule == nullptr ? "" : schedule;
    const Program p = parse_program(std::make_shared<SourceText>(SourceText{"<program>", source}),
                                    parse_overrides(overrides));
    auto k = std::make_unique<tw_kernel>();
    k->kernel = std::make_unique<Kernel>(p, o);
    k->description = describe(*k->kernel);
    k->on_gpu = o.target == Target::Cuda;
    result = std::move(k);
  });
  return result.release();
}

int tw_run(tw_kernel* kernel, const tw_array* arrays, int32_t n_arrays, const tw_value* values,
           int32_t n_values, void* stream) {
  return guarded([&] {
    if (kernel == nullptr) mistake("no kernel was given", "pass what tw_compile returned");
    if ((arrays == nullptr && n_arrays > 0) || (values == nullptr && n_values > 0))
      mistake("a count without an array", "pass the array or a count of 0");
    std::string call = kernel->on_gpu ? bytes_of(arrays, n_arrays, values, n_values) : "";
    std::lock_guard lock(kernel->mutex);
    if (!call.empty() && call == kernel->last_call && kernel->kernel->repeat(stream)) return;
    kernel->last_call.clear();
    const Program& p = kernel->kernel->compiled().program;
    std::map<std::string, Tensor> inputs, outputs;
    for (int32_t k = 0; k < n_arrays; ++k) {
      const tw_array& a = arrays[k];
      if (a.name == nullptr || a.dtype == nullptr)
        mistake(fmt::format("array {} has no name or dtype", k), "fill every field of tw_array");
      if (a.rank < 0 || (a.rank > 0 && a.shape == nullptr))
        mistake(fmt::format("array `{}` has no shape", a.name), "fill every field of tw_array");
      const auto dtype = parse_dtype(a.dtype);
      if (!dtype)
        mistake(fmt::format("no dtype is called `{}`", a.dtype),
                "dtypes are f64 f32 f16 bf16 f8e4m3 f8e5m2 i64 i32 i8 bool");
      Tensor t;
      t.dtype = *dtype;
      t.data = a.data;
      t.shape.assign(a.shape, a.shape + a.rank);
      if (a.strides != nullptr) t.strides.assign(a.strides, a.strides + a.rank);
      bool empty = false;
      for (int64_t n : t.shape) {
        if (n < 0) mistake(fmt::format("array `{}` has a negative size", a.name), "sizes are 0 or more");
        empty = empty || n == 0;
      }
      if (!empty && a.data == nullptr)
        mistake(fmt::format("array `{}` has no data", a.name), "pass its data pointer");
      bool is_output = false;
      for (const Output& o : p.outputs) is_output = is_output || o.sym.name() == a.name;
      if (!(is_output ? outputs : inputs).emplace(a.name, t).second)
        mistake(fmt::format("array `{}` is given twice", a.name), "give it once");
    }
    std::map<std::string, double> params;
    std::map<std::string, int64_t> sizes;
    for (int32_t k = 0; k < n_values; ++k) {
      if (values[k].name == nullptr)
        mistake(fmt::format("value {} has no name", k), "fill every field of tw_value");
      const std::string name = values[k].name;
      const double value = values[k].value;
      const bool is_size = p.axis(name) != nullptr;
      if (is_size && !(value >= 0 && value <= 0x1p53 && value == std::floor(value)))
        mistake(fmt::format("the size {} of axis `{}` is not an integer from 0 to 2^53", value, name),
                "give the number of its elements");
      if (!(is_size ? sizes.emplace(name, static_cast<int64_t>(value)).second
                    : params.emplace(name, value).second))
        mistake(fmt::format("value `{}` is given twice", name), "give it once");
    }
    kernel->kernel->run(inputs, params, outputs, sizes, stream);
    kernel->last_call = std::move(call);
  });
}

const char* tw_describe(tw_kernel* kernel) {
  return kernel == nullptr ? nullptr : kernel->description.c_str();
}
void tw_free(tw_kernel* kernel) { delete kernel; }
const char* tw_last_error(void) { return last_error.c_str(); }
const char* tw_version(void) { return TILEWRIGHT_VERSION; }

}  // extern "C"
