#include "tilewright/driver/session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <optional>

#include "tilewright/driver/compiled.h"
#include "tilewright/driver/launch.h"
#include "tilewright/expr/simplify.h"
#include "tilewright/program/failures.h"
#include "tilewright/runtime/cuda.h"

namespace tilewright {

namespace {

constexpr int64_t kSampleElements = 512;

Tensor tensor_of(const HostArray& a) { return Tensor{a.dtype, a.data.get(), a.shape, a.strides}; }

/// Bytes spanned by an array's strides.
int64_t extent_bytes(const Tensor& t) {
  const std::vector<int64_t> strides = t.strides.empty() ? row_major(t.shape) : t.strides;
  int64_t last = 0;
  for (size_t k = 0; k < t.shape.size(); ++k) {
    if (t.shape[k] == 0) return 0;
    last += (t.shape[k] - 1) * strides[k];
  }
  return (last + 1) * bytes(t.dtype);
}

Timing summary(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  Timing t;
  if (times.empty()) return t;
  t.min = times.front();
  t.max = times.back();
  const size_t n = times.size();
  t.median = n % 2 == 1 ? times[n / 2] : (times[n / 2 - 1] + times[n / 2]) / 2;
  return t;
}

/// The program with indices ranked as its kernels rank them: by the value of which what is ranked is a strictly increasing function. Over the
/// reals both are the same; where that function rounds two values to one, the definition as written ranks them by index. Nothing where no output
/// is such an index alone.
std::optional<Program> ranked_by_keys(Program p, const CompiledProgram& c) {
  bool found = false;
  for (const Compilation& kernel : c.kernels) {
    const Derivation& d = kernel.derivation;
    for (const CascadeOutput& o : d.cascade.outputs) {
      const Sym sym = kernel.elaborated.outputs[o.output].sym;
      const auto written = std::find_if(p.definitions.begin(), p.definitions.end(),
                                        [&](const Definition& x) { return x.sym == sym; });
      if (written == p.definitions.end()) continue;
      bool deferred = false;
      const Expr value = rewrite(o.value, [&](Expr e) {
        for (size_t k = 0; e.is(Op::Read) && k < d.cascade.reductions.size(); ++k) {
          const Reduction& r = d.cascade.reductions[k];
          if (r.result != e->sym || r.reducer != Reducer::Argtopk) continue;
          const State& s = d.passes[size_t(r.pass) - 1].state;
          const Component& keys = s.components[size_t(s.components[size_t(d.family[k][0])].beside)];
          deferred = deferred || keys.lift != r.body;
          const Expr none = Expr::real(-__builtin_inf());
          return ranked(r.reducer, d.cascade.axis,
                        keys.present.is_constant(1) ? keys.lift : select(keys.present, keys.lift, none),
                        e.arg(size_t(std::find(r.axes.begin(), r.axes.end(), r.rank) - r.axes.begin())));
        }
        return e;
      });
      bool known = deferred;
      for (Sym s : tensors_read(value))
        known = known && (p.input(s) != nullptr || p.definition(s) != nullptr);
      for (Sym s : free_symbols(value))
        known = known && (s.kind() != SymbolKind::Index ||
                          std::find(written->axes.begin(), written->axes.end(), s) != written->axes.end());
      if (!known) continue;
      written->value = value;
      found = true;
    }
  }
  return found ? std::optional<Program>(std::move(p)) : std::nullopt;
}

}  // namespace

struct Session::Impl {
  Program program;
  CompileOptions compile;
  SessionOptions options;
  std::shared_ptr<Kernel> kernel;
  Sizes sizes;
  std::map<std::string, HostArray> inputs, outputs;

  Impl(const Program& p, const CompileOptions& c, const SessionOptions& o, std::shared_ptr<Kernel> k)
      : program(p), compile(c), options(o), kernel(std::move(k)) {
    std::map<std::string, std::vector<int64_t>> shapes;
    for (const auto& [name, source] : o.inputs) {
      bool known = false;
      std::vector<std::string> names;
      for (const Input& in : p.inputs) {
        names.push_back(in.sym.name());
        known = known || in.sym.name() == name;
      }
      if (!known) {
        const std::string near = nearest_name(name, names);
        throw UserError(
            Span{}, fmt::format("no input is called `{}`", name),
            near.empty() ? "name inputs of the program" : fmt::format("did you mean `{}`?", near));
      }
      if (source.array) shapes[name] = source.array->shape;
    }
    sizes = bind_sizes(p, shapes, o.sizes);
    check_memory();
    for (const Input& in : p.inputs) {
      const std::string& name = in.sym.name();
      const auto it = o.inputs.find(name);
      if (it != o.inputs.end() && it->second.array) {
        inputs[name] = *it->second.array;
        continue;
      }
      const std::vector<int64_t> shape = shape_of(in.dims, sizes);
      const Fill fill = it == o.inputs.end() ? Fill::Normal : it->second.fill;
      std::pair<double, double> range{0, in.dtype == DType::boolean ? 2 : 1};
      if (in.range && fill != Fill::Zeros && (it == o.inputs.end() || !is_float(in.dtype))) {
        range = declared_range(in);
        check_range(in, shape, range);
      }
      if (is_float(in.dtype)) {
        inputs[name] = in.range && it == o.inputs.end()
                           ? filled_within(in.dtype, shape, o.seed, name, range.first, range.second)
                           : filled(in.dtype, shape, fill, o.seed, name);
        continue;
      }
      if (!in.range && in.dtype != DType::boolean && fill != Fill::Zeros)
        throw UserError(in.span, fmt::format("integer input `{}` has no values", name),
                        fmt::format("pass --input {}=FILE.npy, or declare its range", name));
      inputs[name] = filled(in.dtype, shape, fill, o.seed, name, static_cast<int64_t>(range.first),
                            static_cast<int64_t>(range.second));
    }
    for (const Output& out : p.outputs) {
      HostArray a = allocate(out.dtype, shape_of(out.dims, sizes));
      std::memset(a.data.get(), 0xff,
                  static_cast<size_t>(a.elements() *
                                      bytes(a.dtype)));  // NaN in every float type: unwritten elements show
      outputs[out.sym.name()] = a;
    }
  }

  /// The range of an input at the sizes and params of this run. That of an integer is cut to what the dtype holds.
  std::pair<double, double> declared_range(const Input& in) const {
    Bindings values;
    for (const auto& [sym, size] : sizes) values[sym] = static_cast<double>(size);
    for (const auto& [sym, value] : bind_scalars(program, {}, sizes, options.params)) values[sym] = value;
    for (Expr e : {in.range.lo, in.range.hi}) refuse_zero_divisors(program, e, values);
    std::pair<double, double> range{evaluate(in.range.lo, values), evaluate(in.range.hi, values)};
    if (!is_float(in.dtype)) {
      const double most = std::ldexp(1.0, std::min(53, 8 * static_cast<int>(bytes(in.dtype)) - 1));
      range = {std::max(range.first, -most), std::min(range.second, most)};
    }
    return range;
  }

  /// Refuses a range that holds no value of the dtype, where one is needed.
  void check_range(const Input& in, const std::vector<int64_t>& shape,
                   const std::pair<double, double>& range) const {
    const auto [lo, hi] = range;
    const bool empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
    if (empty || least_from(in.dtype, lo) < hi || std::isinf(lo)) return;
    throw UserError(
        in.span,
        fmt::format("the range of `{}` is [{}, {}), which holds no value of {}", in.sym.name(), lo, hi,
                    name(in.dtype)),
        fmt::format("give params and sizes with which it holds one, or --input {}=FILE.npy", in.sym.name()));
  }

  /// Refuses arrays that the machine cannot hold, which the system would only notice when they are filled.
  void check_memory() const {
    double needed = 0;
    const auto add = [&](const std::vector<Dim>& dims, DType dtype) {
      double size = static_cast<double>(bytes(dtype));
      for (int64_t length : shape_of(dims, sizes)) size *= static_cast<double>(length);
      needed += size;
    };
    for (const Input& in : program.inputs) {
      const auto it = options.inputs.find(in.sym.name());
      if (it == options.inputs.end() || !it->second.array) add(in.dims, in.dtype);
    }
    for (const Output& out : program.outputs) add(out.dims, out.dtype);
    const double there =
        static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
    if (needed > there && there > 0)
      throw UserError(Span{},
                      fmt::format("the inputs and outputs take {:.1f} GiB, and this machine has {:.1f} GiB",
                                  needed / (1 << 30), there / (1 << 30)),
                      "give smaller sizes");
  }

  Timing run_host(Kernel& k, int warmup, int repeat) {
    std::map<std::string, Tensor> in, out;
    for (const auto& [name, a] : inputs) in[name] = tensor_of(a);
    for (const auto& [name, a] : outputs) out[name] = tensor_of(a);
    std::vector<double> times;
    for (int n = 0; n < warmup + std::max(1, repeat); ++n) {
      const auto begin = std::chrono::steady_clock::now();
      k.run(in, options.params, out, options.sizes);
      if (n >= warmup)
        times.push_back(
            std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
    }
    return summary(times);
  }

  Timing run_device(Kernel& k, int warmup, int repeat) {
    cuda::use_device(compile.device);
    std::vector<std::unique_ptr<cuda::DeviceBuffer>> buffers;
    std::map<std::string, Tensor> in, out;
    auto place = [&](const HostArray& a) {
      Tensor t = tensor_of(a);
      const int64_t size = extent_bytes(t);
      buffers.push_back(std::make_unique<cuda::DeviceBuffer>(std::max<int64_t>(size, 16)));
      buffers.back()->upload(t.data, size);
      t.data = buffers.back()->data();
      return t;
    };
    for (const auto& [name, a] : inputs) in[name] = place(a);
    for (const auto& [name, a] : outputs) out[name] = place(a);
    std::vector<double> times;
    for (int n = 0; n < warmup; ++n) k.run(in, options.params, out, options.sizes);
    for (int n = 0; n < std::max(1, repeat); ++n) {
      cuda::Event begin, end;
      begin.record(nullptr);
      k.run(in, options.params, out, options.sizes);
      end.record(nullptr);
      times.push_back(static_cast<double>(cuda::Event::milliseconds(begin, end)));
    }
    cuda::synchronize();
    k.report_failures();
    size_t next = inputs.size();
    for (auto& [name, a] : outputs) buffers[next++]->download(a.data.get(), extent_bytes(tensor_of(a)));
    return summary(times);
  }

  /// Tile steps along the memory dimensions of an output, for the sample.
  std::vector<int64_t> steps_of(const Output& out) const {
    const std::vector<Compilation>& kernels = kernel->compiled().kernels;
    size_t computes = 0;
    for (size_t k = 0; k < kernels.size(); ++k)
      for (const Output& o : kernels[k].program.outputs)
        if (o.sym == out.sym) computes = k;
    const Plan& plan = kernels[computes].plans.back().plan;
    std::vector<int64_t> steps;
    for (Sym a : out.axes()) {
      int64_t step = a == plan.stream ? plan.chunk : 0;
      for (const Cut& c : plan.group)
        if (c.axis == a) step = c.block;
      steps.push_back(std::max<int64_t>(1, step));
    }
    return steps;
  }
};

Session::Session(const Program& p, const CompileOptions& c, const SessionOptions& o)
    : Session(p, c, o, std::make_shared<Kernel>(p, c)) {}
Session::Session(const Program& p, const CompileOptions& c, const SessionOptions& o,
                 std::shared_ptr<Kernel> kernel)
    : impl_(std::make_unique<Impl>(p, c, o, std::move(kernel))) {}
Session::~Session() = default;
const Kernel& Session::kernel() const { return *impl_->kernel; }
const Sizes& Session::sizes() const { return impl_->sizes; }
const std::map<std::string, HostArray>& Session::inputs() const { return impl_->inputs; }
const std::map<std::string, HostArray>& Session::outputs() const { return impl_->outputs; }

std::shared_ptr<Kernel> Session::shared_kernel() const { return impl_->kernel; }

Timing Session::run(int warmup, int repeat) { return run_with(*impl_->kernel, warmup, repeat); }

Timing Session::run_with(Kernel& other, int warmup, int repeat) {
  return impl_->compile.target == Target::Cuda ? impl_->run_device(other, warmup, repeat)
                                               : impl_->run_host(other, warmup, repeat);
}

std::vector<OutputCheck> Session::check(double sample_above) {
  std::map<std::string, ArrayView> views;
  for (const auto& [name, a] : impl_->inputs) views[name] = a.view();
  const Program& p = impl_->program;
  Evaluator reference(p, impl_->sizes, views, impl_->options.params, Precision::f64);
  Evaluator naive(p, impl_->sizes, views, impl_->options.params, Precision::naive);
  std::optional<Evaluator> beside_ties;
  if (rounds_intermediates(p))
    beside_ties.emplace(p, impl_->sizes, views, impl_->options.params, Precision::ties);
  std::optional<Evaluator> by_keys;
  if (const auto q = ranked_by_keys(p, impl_->kernel->compiled()))
    by_keys.emplace(*q, impl_->sizes, views, impl_->options.params, Precision::f64);
  std::vector<OutputCheck> checks;
  for (const Output& out : p.outputs) {
    OutputCheck c;
    c.name = out.sym.name();
    const HostArray& array = impl_->outputs.at(c.name);
    std::vector<int64_t> shape;  // over pieces: the same elements in the same order as the memory shape
    for (Sym a : out.axes()) shape.push_back(impl_->sizes.at(a.size()));
    const std::vector<int64_t> strides = row_major(shape);
    std::vector<std::vector<int64_t>> indices;
    std::vector<double> got, ref, plain, ties, keyed;
    const bool by_key = by_keys && !is_float(out.dtype);
    c.sampled = reference.cost(out) > sample_above;
    if (c.sampled) {
      indices = sample_indices(shape, impl_->steps_of(out), kSampleElements, impl_->options.seed);
      for (const auto& index : indices) {
        int64_t at = 0;
        for (size_t k = 0; k < index.size(); ++k) at += index[k] * strides[k];
        got.push_back(array.at(at));
        ref.push_back(reference.element(out, index));
        plain.push_back(naive.element(out, index));
        if (beside_ties) ties.push_back(beside_ties->element(out, index));
        if (by_key) keyed.push_back(by_keys->element(out, index));
      }
    } else {
      for (int64_t at = 0; at < array.elements(); ++at) got.push_back(array.at(at));
      ref = reference.all(out);
      plain = naive.all(out);
      if (beside_ties) ties = beside_ties->all(out);
      if (by_key) keyed = by_keys->all(out);
    }
    // Both are rounded as the output is stored, so a tolerance of half a unit is not spent on the store.
    for (double& x : plain) x = round_to(out.dtype, x);
    c.comparison = compare(got, ref, plain, out.dtype, ties, keyed);
    if (c.comparison.worst >= 0) {
      const auto worst = static_cast<size_t>(c.comparison.worst);
      c.got = got[worst];
      // As the output would hold it, where that is what differs.
      const double held = round_to(out.dtype, ref[worst]);
      c.expected = std::isinf(held) ? held : ref[worst];
      if (c.sampled) {
        c.index = indices[worst];
      } else {
        int64_t rest = c.comparison.worst;
        for (size_t k = 0; k < shape.size(); ++k) {
          c.index.push_back(rest / strides[k]);
          rest %= strides[k];
        }
      }
    }
    checks.push_back(c);
  }
  return checks;
}

}  // namespace tilewright
