#include "tilewright/driver/kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "tilewright/driver/compiled.h"
#include "tilewright/driver/integers.h"
#include "tilewright/driver/launcher.h"
#include "tilewright/runtime/cuda.h"
#include "tilewright/support/advice.h"

namespace tilewright {

struct Kernel::Impl {
  CompiledProgram compiled;
  CompileOptions options;
  bool integers = false;  ///< computes_with_integers
  std::mutex mutex;
  std::vector<Launcher> launchers;
  std::unique_ptr<char[]> host_memory;  ///< of the workspace, grown as needed
  int64_t host_bytes = 0;
  std::unique_ptr<cuda::DeviceBuffer> device_memory;
  bool repeatable = false;  ///< the last run succeeded, on a GPU

  /// Memory for the arrays between kernels, at a multiple of their alignment.
  char* workspace(int64_t bytes) {
    if (options.target == Target::Cuda) {
      cuda::use_device(options.device);
      if (!device_memory || device_memory->bytes() < bytes) {
        if (device_memory) cuda::synchronize();  // an earlier launch may still use the smaller one
        device_memory = std::make_unique<cuda::DeviceBuffer>(std::max<int64_t>(bytes, 16));
      }
      return static_cast<char*>(device_memory->data());
    }
    if (host_bytes < bytes + workspace_alignment) {
      host_memory.reset();
      host_bytes = 0;
      host_memory.reset(new char[static_cast<size_t>(bytes + workspace_alignment)]);
      host_bytes = bytes + workspace_alignment;
    }
    const auto address = reinterpret_cast<uintptr_t>(host_memory.get());
    const auto step = static_cast<uintptr_t>(workspace_alignment);
    return reinterpret_cast<char*>((address + step - 1) / step * step);
  }

  /// The arrays of one part: those of the call, and the arrays between kernels in their places.
  Bound bound_of(const Program& part, const Bound& whole, const WorkspaceLayout& layout, char* memory) const {
    Bound b;
    b.sizes = whole.sizes;
    bind_added_axes(part.axes, b.sizes);
    const auto place = [&](Sym sym, const std::vector<Dim>& dims, DType dtype) {
      for (size_t k = 0; k < compiled.partition.arrays.size(); ++k) {
        const StoredArray& a = compiled.partition.arrays[k];
        if (a.sym != sym || a.output) continue;
        Tensor t;
        t.dtype = dtype;
        t.data = memory + layout.offset[k];
        t.shape = shape_of(dims, b.sizes);
        t.strides = row_major(t.shape);
        b.tensors[sym] = t;
        return;
      }
      b.tensors[sym] = whole.tensors.at(sym);
    };
    for (const Input& in : part.inputs) place(in.sym, in.dims, in.dtype);
    for (const Output& o : part.outputs) place(o.sym, o.dims, o.dtype);
    return b;
  }

  void run_parts(const Bound& whole, const std::map<std::string, double>& params, void* stream) {
    const WorkspaceLayout layout = lay_out(compiled.workspaces, whole.sizes);
    char* memory = layout.bytes > 0 ? workspace(layout.bytes) : nullptr;
    std::vector<Bound> bounds;
    std::vector<CpuSource> missing;
    for (size_t k = 0; k < launchers.size(); ++k) {
      bounds.push_back(bound_of(compiled.kernels[k].program, whole, layout, memory));
      if (auto source = launchers[k].missing(bounds.back())) missing.push_back(std::move(*source));
    }
    const auto kept_until_they_run = CpuModule::load_all(missing);
    for (size_t k = 0; k < launchers.size(); ++k) {
      std::map<std::string, double> given;
      for (const Param& q : compiled.kernels[k].program.params)
        if (const auto it = params.find(q.sym.name()); it != params.end()) given.insert(*it);
      launchers[k].run(bounds[k], given, stream);
    }
  }
};

namespace {

/// An element of an i64 array on the host that is past `limit` in magnitude; the limits of i64 are what infinities become.
std::optional<int64_t> beyond(const Tensor& t, int64_t limit) {
  if (t.dtype != DType::i64) return std::nullopt;
  std::vector<int64_t> index(t.shape.size(), 0);
  int64_t total = 1;
  for (int64_t n : t.shape) total *= n;
  const auto* data = static_cast<const int64_t*>(t.data);
  int64_t at = 0;
  for (int64_t k = 0; k < total; ++k) {
    if ((data[at] > limit && data[at] != INT64_MAX) || (data[at] < -limit && data[at] != INT64_MIN))
      return data[at];
    for (size_t d = index.size(); d-- > 0;) {
      at += t.strides[d];
      if (++index[d] < t.shape[d]) break;
      at -= index[d] * t.strides[d];
      index[d] = 0;
    }
  }
  return std::nullopt;
}

}  // namespace

Kernel::Kernel(const Program& p, const CompileOptions& o) : impl_(std::make_unique<Impl>()) {
  impl_->options = o;
  impl_->compiled = compile_program(p, o);
  impl_->integers = computes_with_integers(p);
  for (Compilation& c : impl_->compiled.kernels) impl_->launchers.emplace_back(c, impl_->options);
}

Kernel::~Kernel() = default;

const CompiledProgram& Kernel::compiled() const { return impl_->compiled; }

void Kernel::report_failures() {
  for (Launcher& l : impl_->launchers) l.report_failures();
}

bool Kernel::repeat(void* stream) {
  std::lock_guard lock(impl_->mutex);
  if (!impl_->repeatable) return false;
  for (Launcher& l : impl_->launchers) l.repeat(stream);
  return true;
}

Counts Kernel::counts() const {
  Counts sum;
  const auto add = [](LevelBytes& to, const LevelBytes& b) {
    to.loaded += b.loaded;
    to.stored += b.stored;
  };
  for (const Launcher& l : impl_->launchers) {
    const Counts& c = l.counts();
    add(sum.memory, c.memory);
    add(sum.shared, c.shared);
    add(sum.slow_memory, c.slow_memory);
    add(sum.slow_shared, c.slow_shared);
    sum.peak_shared = std::max(sum.peak_shared, c.peak_shared);
    sum.peak_registers = std::max(sum.peak_registers, c.peak_registers);
    for (const auto& [tensor, bytes] : c.loaded_by_tensor) sum.loaded_by_tensor[tensor] += bytes;
    sum.chunks_visited += c.chunks_visited;
    sum.chunks_total += c.chunks_total;
  }
  return sum;
}

std::string Kernel::last_plan() const {
  if (!impl_->compiled.several()) return impl_->launchers[0].last_plan();
  std::string text;
  for (size_t k = 0; k < impl_->launchers.size(); ++k)
    text += fmt::format("{}kernel {}: {}", k == 0 ? "" : "\n", impl_->compiled.name_of(k),
                        impl_->launchers[k].last_plan());
  return text;
}

namespace {

/// The bytes from the first to behind the last element, and whether every byte between belongs to an element; empty where there is none.
struct Extent {
  uintptr_t begin = 0, end = 0;
  bool dense = false;
};

Extent extent_of(const Tensor& t) {
  int64_t elements = 1, low = 0, high = 0;
  for (size_t k = 0; k < t.shape.size(); ++k) {
    elements *= t.shape[k];
    (t.strides[k] < 0 ? low : high) += t.strides[k] * std::max<int64_t>(0, t.shape[k] - 1);
  }
  if (elements == 0) return {};
  const uintptr_t at = reinterpret_cast<uintptr_t>(t.data);
  const int64_t width = bytes(t.dtype);
  return {at + uintptr_t(low * width), at + uintptr_t((high + 1) * width), high - low + 1 == elements};
}

/// UserError where an element of an output lies where another element of it, of another output or of an input does.
/// Arrays that interleave without a common element pass.
void refuse_shared_outputs(const Program& p, const std::map<Sym, Tensor>& tensors) {
  const auto refuse = [&](const Output& o, Sym other, const char* what) {
    const Tensor &a = tensors.at(o.sym), &b = tensors.at(other);
    const Extent x = extent_of(a), y = extent_of(b);
    const bool share = x.begin < y.end && y.begin < x.end && ((x.dense && y.dense) || a.data == b.data);
    if (share)
      throw UserError(
          o.span,
          fmt::format("output `{}` and {} `{}` lie in the same memory", o.sym.name(), what, other.name()),
          "pass arrays that do not overlap: a kernel reads and writes in no given order");
  };
  for (size_t n = 0; n < p.outputs.size(); ++n) {
    const Output& o = p.outputs[n];
    const Tensor& t = tensors.at(o.sym);
    for (size_t k = 0; k < t.shape.size(); ++k)
      if (t.strides[k] == 0 && t.shape[k] > 1 && extent_of(t).begin != 0)
        throw UserError(o.span,
                        fmt::format("output `{}` is broadcast: dimension {} has {} elements at one place",
                                    o.sym.name(), k, t.shape[k]),
                        "pass an array that has memory for every element");
    for (const Input& in : p.inputs) refuse(o, in.sym, "input");
    for (size_t m = 0; m < n; ++m) refuse(o, p.outputs[m].sym, "output");
  }
}

}  // namespace

void Kernel::run(const std::map<std::string, Tensor>& inputs, const std::map<std::string, double>& params,
                 const std::map<std::string, Tensor>& outputs, const std::map<std::string, int64_t>& given,
                 void* stream) {
  const Program& p = impl_->compiled.program;
  std::map<std::string, std::vector<int64_t>> shapes;
  std::vector<std::string> input_names, output_names;
  for (const Input& in : p.inputs) input_names.push_back(in.sym.name());
  for (const Output& o : p.outputs) output_names.push_back(o.sym.name());
  std::vector<std::string> all_names = input_names;
  all_names.insert(all_names.end(), output_names.begin(), output_names.end());
  auto unknown = [&](const std::string& name, const char* what, const std::vector<std::string>& known) {
    const std::string near = nearest_name(name, known);
    throw UserError(Span{}, fmt::format("no {} is called `{}`", what, name),
                    near.empty() ? fmt::format("inputs are {}; outputs are {}", fmt::join(input_names, ", "),
                                               fmt::join(output_names, ", "))
                                 : fmt::format("did you mean `{}`?", near));
  };
  for (const auto& [n, t] : inputs) {
    if (std::find(input_names.begin(), input_names.end(), n) == input_names.end())
      unknown(n, "array", all_names);
    shapes[n] = t.shape;
  }
  for (const auto& [n, t] : outputs)
    if (std::find(output_names.begin(), output_names.end(), n) == output_names.end())
      unknown(n, "array", all_names);

  Bound bound;
  bound.sizes = bind_sizes(p, shapes, given);
  auto check = [&](const std::map<std::string, Tensor>& arrays, Sym sym, const std::vector<Dim>& dims,
                   DType dtype, const char* what, Span span) {
    auto it = arrays.find(sym.name());
    if (it == arrays.end())
      throw UserError(span, fmt::format("{} `{}` is missing", what, sym.name()),
                      fmt::format("pass an array of shape {}", shape_text(shape_of(dims, bound.sizes))));
    Tensor t = it->second;
    const std::vector<int64_t> expected = shape_of(dims, bound.sizes);
    if (t.shape != expected)
      throw UserError(span,
                      fmt::format("{} `{}` has shape {}, the program needs {}", what, sym.name(),
                                  shape_text(t.shape), shape_text(expected)),
                      "pass an array of that shape");
    if (t.dtype != dtype)
      throw UserError(
          span,
          fmt::format("{} `{}` is {}, the program declares {}", what, sym.name(), name(t.dtype), name(dtype)),
          "convert it, or compile with " + advice::dtype(sym.name(), name(t.dtype)));
    if (t.strides.empty()) t.strides = row_major(t.shape);
    if (t.strides.size() != t.shape.size())
      throw UserError(span,
                      fmt::format("{} `{}` has {} strides for shape {}", what, sym.name(), t.strides.size(),
                                  shape_text(t.shape)),
                      "give one stride for each dimension");
    bound.tensors[sym] = t;
  };
  for (const Input& in : p.inputs) check(inputs, in.sym, in.dims, in.dtype, "input", in.span);
  for (const Output& o : p.outputs) check(outputs, o.sym, o.dims, o.dtype, "output", o.span);

  refuse_shared_outputs(p, bound.tensors);
  const bool on_host = impl_->options.target != Target::Cuda;
  for (const Input& in : p.inputs)
    if (const auto value = on_host ? beyond(bound.tensors.at(in.sym), exact_integer) : std::nullopt)
      throw UserError(
          in.span,
          fmt::format("input `{}` holds {}, and integers are exact up to 2^53 alone", in.sym.name(), *value),
          "subtract an offset, or pass f64 where rounding is accepted");

  if (on_host && impl_->integers) refuse_inexact_integers(p, bound.tensors, bound.sizes, params);

  std::lock_guard lock(impl_->mutex);
  impl_->repeatable = false;
  if (!impl_->compiled.parted()) {
    impl_->launchers[0].run(bound, params, stream);
  } else {
    bind_scalars(p, {}, bound.sizes, params);  // params that no kernel reads are checked too
    impl_->run_parts(bound, params, stream);
  }
  impl_->repeatable = !on_host;
  for (const Output& o : p.outputs)
    if (const auto value = on_host ? beyond(bound.tensors.at(o.sym), exact_integer - 1) : std::nullopt)
      throw UserError(o.span,
                      fmt::format("output `{}` reaches {}, and integers are exact below 2^53 alone",
                                  o.sym.name(), *value),
                      "sum reals where rounding is accepted, for example sum[j](f64(n))");
}

}  // namespace tilewright
