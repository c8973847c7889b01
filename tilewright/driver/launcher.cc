#include "tilewright/driver/launcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "tilewright/emit/emit.h"
#include "tilewright/expr/simplify.h"
#include "tilewright/map/interpreter.h"
#include "tilewright/program/failures.h"
#include "tilewright/runtime/cuda.h"
#include "tilewright/runtime/pool.h"
#include "tilewright/support/advice.h"
#include "tilewright/tile/chunk_table.h"

namespace tilewright {

namespace {

/// A plan brought to machine code for one layout class.
struct Variant {
  MappedProgram mapped;
  std::string source;
  std::shared_ptr<CpuModule> cpu;
  std::unique_ptr<cuda::Module> gpu;
  std::vector<void*> functions;  ///< one for each kernel
  std::vector<void*> steps;      ///< one for each chunk table that the GPU fills
  int64_t multiprocessors = 1;   ///< of the GPU
  bool serialized = false;       ///< a kernel's products wait for one another: too few registers
  bool early = false;            ///< its kernels may start before those in front have ended
  std::vector<std::unique_ptr<cuda::DeviceBuffer>> work;  ///< workspaces, grown as needed
};

/// What the kernels of a machine are compiled for, to run on the device.
std::string arch_on(const cuda::DeviceInfo& device, const Machine& m) {
  const std::string own = fmt::format("sm_{}{}", device.major, device.minor);
  const bool hopper = m.arch == sm90().arch;
  if (hopper ? device.major == 9
             : own.size() > m.arch.size() || (own.size() == m.arch.size() && own >= m.arch)) {
    if (!hopper && m.shared_bytes > device.shared_per_block)
      throw UserError(
          Span{},
          fmt::format("kernels for {} may need {} bytes of shared memory, and a block of {} has {}", m.arch,
                      m.shared_bytes, device.name, device.shared_per_block),
          fmt::format("leave the architecture out, or give {}", advice::arch(own)));
    return hopper ? m.arch : own;
  }
  throw UserError(Span{},
                  fmt::format("{} has compute capability {}.{}, and kernels are made for {}", device.name,
                              device.major, device.minor, m.arch),
                  device.major >= 8 ? fmt::format("leave the architecture out, or give {}", advice::arch(own))
                                    : "run on a GPU of compute capability 8.0 or later, or choose " +
                                          advice::target("cpu"));
}

}  // namespace

void refuse_checked_divisions(const Compilation& compilation, const TileProgram& t, Target target) {
  if (target != Target::Cuda) return;
  std::function<void(const Body&)> visit = [&](const Body& body) {
    for (const Stmt& s : body) {
      const auto divides = [&](Expr e) {
        if (!e) return;
        for (const ZeroDivision& z : zero_divisions(e))
          if (!tensors_read(z.division.arg(1)).empty())
            throw UserError(
                division_by_zero(compilation.elaborated, z.division).diagnostics()[0].span,
                fmt::format("an integer is divided by a value that is not proved to differ from 0, which "
                            "{} does not support yet",
                            advice::target(name(target))),
                "use " + advice::target("cpu") + ", or divide where(divisor != 0, ..., 0)");
      };
      if (const auto* map = std::get_if<Map>(&s.node)) divides(map->value), divides(map->masked);
      if (const auto* reduce = std::get_if<Reduce>(&s.node)) divides(reduce->value), divides(reduce->masked);
      if (const auto* loop = std::get_if<Loop>(&s.node)) visit(loop->body);
      if (const auto* when = std::get_if<When>(&s.node)) divides(when->condition), visit(when->body);
    }
  };
  for (const TileKernel& k : t.kernels) visit(k.body);
}

struct Launcher::Impl {
  Compilation& compilation;
  const CompileOptions& options;
  std::map<size_t, TileProgram> tiles;  ///< by plan, those that the compilation does not hold
  std::map<std::pair<size_t, LayoutClass>, Variant> variants;
  std::unique_ptr<cuda::DeviceBuffer> dummy;   ///< what maps of empty arrays point at
  std::unique_ptr<cuda::SharedWord> failures;  ///< where kernels on a GPU report failed checks
  const Variant* checked = nullptr;            ///< the last that was launched with it, and its sizes
  Sizes checked_sizes;
  Counts counts;
  std::string last_plan;
  struct Launch {
    void* function;
    int64_t blocks, local_bytes;
    int threads;
    std::vector<cuda::EncodedMap> maps;
    std::vector<int64_t> words;
    bool early;
    void go(void* stream) const {
      cuda::launch(function, blocks, threads, local_bytes, maps, words, stream, early);
    }
  };
  std::vector<Launch> launched;  ///< on a GPU, by the last run

  Impl(Compilation& c, const CompileOptions& o) : compilation(c), options(o) {}

  Target mapping() const { return options.target == Target::InterpMapped ? options.mapping : options.target; }

  const TileProgram& tile_program(size_t plan) {
    const bool built = plan < compilation.tiles.size();
    auto it = tiles.find(plan);
    if (!built && it == tiles.end())
      it = tiles.emplace(plan, lower(compilation, compilation.plans[plan].plan, &compilation.times)).first;
    const TileProgram& t = built ? compilation.tiles[plan] : it->second;
    refuse_checked_divisions(compilation, t, options.target);
    return t;
  }

  /// Is an integer output made of the component, itself or through other results?
  bool feeds_integers(const Component& c) const {
    const Derivation& d = compilation.derivation;
    const auto reads = [](Expr e, Sym s) {
      const std::vector<Sym> all = tensors_read(e);
      return std::find(all.begin(), all.end(), s) != all.end();
    };
    std::vector<Sym> fed{c.var};
    for (size_t n = 0; n < fed.size(); ++n) {
      for (const CascadeOutput& o : d.cascade.outputs)
        if (!is_float(compilation.program.outputs[o.output].dtype) && reads(o.value, fed[n])) return true;
      for (size_t k = 0; k < d.finish.size(); ++k) {
        const Sym result = d.cascade.reductions[k].result;
        if (std::find(fed.begin(), fed.end(), result) == fed.end() && reads(d.finish[k], fed[n]))
          fed.push_back(result);
      }
    }
    return false;
  }

  /// A count is carried in reals of the program: f32 counts to 2^24, which an integer output would show.
  void refuse_long_counts(const TileProgram& t, const Sizes& sizes) const {
    constexpr double most = 1 << 24;
    Ranges ranges;
    for (const auto& [size, n] : sizes) ranges[size] = {double(n), double(n)};
    const Sym axis = compilation.derivation.cascade.axis;
    for (const Pass& pass : compilation.derivation.passes)
      for (const Component& c : pass.state.components) {
        if (c.combine != Reducer::Sum || !is_integer(c.lift) || !sizes.count(axis.size())) continue;
        const Interval one = bounds(c.lift, ranges);
        const double reaches = std::max(std::fabs(one.lo), std::fabs(one.hi)) * double(sizes.at(axis.size()));
        if (!(reaches > most) || !feeds_integers(c)) continue;
        for (const TileKernel& k : t.kernels)
          for (const Tile& tile : k.tiles)
            if (tile.sym == c.var && tile.dtype != DType::f64)
              throw UserError(
                  compilation.program.axis(axis).span,
                  fmt::format(
                      "integers summed along `{}` are held in f32, which counts to 2^24, and they may "
                      "reach {:.0f}",
                      axis.name(), reaches),
                  "declare an input f64: sums are then held in f64");
      }
  }

  /// A position is carried in reals of the program: f32 counts to 2^24.
  void refuse_long_positions(const TileProgram& t, const Sizes& sizes) const {
    constexpr int64_t most = int64_t{1} << 24;
    for (const Pass& pass : compilation.derivation.passes)
      for (const Component& c : pass.state.components) {
        const bool position = c.combine == Reducer::Min && c.lift.is(Op::Select) && is_integer(c.lift.arg(1));
        if (!position) continue;
        for (const TileKernel& k : t.kernels)
          for (const Tile& tile : k.tiles) {
            if (tile.sym != c.var || tile.dtype == DType::f64) continue;
            for (Sym s : free_symbols(c.lift.arg(1))) {
              if (s.kind() != SymbolKind::Index) continue;
              const auto size = sizes.find(s.size());
              if (size == sizes.end() || size->second < most) continue;
              throw UserError(compilation.program.axis(s).span,
                              fmt::format("positions along `{}` are held in f32, which counts to 2^24, and "
                                          "size({}) is {}",
                                          s.name(), s.name(), size->second),
                              "compare f64 values: positions are then held in f64");
            }
          }
      }
  }

  Variant& variant(size_t plan, LayoutClass layout) {
    const auto key = std::make_pair(plan, layout);
    auto it = variants.find(key);
    if (it != variants.end()) return it->second;
    Variant v;
    v.mapped = lower_mapped(compilation, tile_program(plan), mapping(), layout, &compilation.times);
    return variants.emplace(key, std::move(v)).first->second;
  }

  const std::string& source_of(Variant& v) {
    if (v.source.empty()) v.source = lower_source(compilation, v.mapped, &compilation.times);
    return v.source;
  }

  /// Machine code of a variant, made on first use.
  void finish(Variant& v) {
    if (!v.functions.empty() || v.mapped.kernels.empty()) return;
    const std::string& source = source_of(v);
    if (options.target == Target::Cpu) {
      v.cpu = CpuModule::load(source, v.mapped.machine.vector.flags);
      for (const MappedKernel& k : v.mapped.kernels)
        v.functions.push_back(reinterpret_cast<void*>(v.cpu->entry(kernel_symbol(k))));
    } else {
      const cuda::DeviceInfo device = cuda::device_info(options.device);
      v.multiprocessors = std::max(1, device.multiprocessors);
      v.early = device.major >= 9;
      std::string log;
      v.gpu = std::make_unique<cuda::Module>(compile_cuda(source, arch_on(device, v.mapped.machine), &log));
      v.serialized = products_serialized(log);
      for (const MappedKernel& k : v.mapped.kernels)
        v.functions.push_back(v.gpu->function(kernel_symbol(k), k.local_bytes()));
      for (const ChunkStep& s : v.mapped.chunk_steps) v.steps.push_back(v.gpu->function(step_symbol(s), 0));
    }
  }

  /// The plan that admits the sizes and the layout class that admits the arrays.
  std::pair<size_t, LayoutClass> choose(const Bound& b) {
    size_t plan = 0;
    while (plan < compilation.plans.size() && !compilation.plans[plan].when.admits(b.sizes)) ++plan;
    if (plan == compilation.plans.size()) {
      std::string limits;
      for (const auto& [axis, limit] : compilation.plans.back().when.at_most)
        limits +=
            fmt::format("{} is {}, the plan holds at most {}", axis.name(), b.sizes.at(axis.size()), limit);
      throw UserError(Span{}, "no plan admits these sizes: " + limits,
                      "drop the schedule, raise the capacity, or stream the axis");
    }
    const LayoutClass layout = admits(variant(plan, LayoutClass::Aligned).mapped.layout, b)
                                   ? LayoutClass::Aligned
                                   : LayoutClass::General;
    return {plan, layout};
  }

  void launch_gpu(Variant& v, Bound& b, void* stream) {
    for (const auto& [size, length] : b.sizes)
      if (length >= (int64_t{1} << 31) - 4096)
        throw UserError(
            Span{},
            fmt::format("size({}) is {}, and indices along an axis are 32-bit on a GPU", size.name(), length),
            "keep each axis under 2147479552, or use " + advice::target("cpu"));
    launched.clear();
    cuda::use_device(options.device);
    if (!dummy) dummy = std::make_unique<cuda::DeviceBuffer>(1024);
    report_failures();  // of an earlier launch
    if (!v.mapped.checks.empty()) {
      if (!failures) failures = std::make_unique<cuda::SharedWord>();
      b.error = failures->data();
      checked = &v;
      checked_sizes = b.sizes;
    }
    bind_workspaces(v, b, [&](size_t k, int64_t size) {
      if (v.work.size() <= k) v.work.resize(k + 1);
      if (!v.work[k] || v.work[k]->bytes() < size) {
        cuda::synchronize();  // an earlier launch may still use the smaller one
        v.work[k] = std::make_unique<cuda::DeviceBuffer>(size);
      }
      return v.work[k]->data();
    });
    const auto go = [&](Launch l) {
      launched.push_back(std::move(l));
      launched.back().go(stream);
    };
    for (size_t k = 0; k < v.mapped.chunk_steps.size(); ++k) {
      const ChunkStep& step = v.mapped.chunk_steps[k];
      go({v.steps[k],
          rows_of(step.table, b.sizes),
          0,
          step.threads,
          {},
          words_of(step.arguments, b),
          v.early});
    }
    for (size_t k = 0; k < v.mapped.kernels.size(); ++k) {
      const MappedKernel& kernel = v.mapped.kernels[k];
      int64_t blocks = blocks_of(kernel, b.sizes);
      if (blocks == 0) continue;
      if (kernel.persistent) {
        if (blocks >= (int64_t{1} << 31) - 2 * v.multiprocessors)
          throw UserError(
              Span{},
              fmt::format("the grid has {} elements, and a persistent one counts them in 32 bits", blocks),
              "write `grid blocks`, or use larger blocks");
        blocks = std::min(blocks, v.multiprocessors);  // one fills a multiprocessor
      }
      std::vector<cuda::EncodedMap> maps;
      for (const TensorMap& m : kernel.tensor_maps) maps.push_back(encode(kernel, m, b));
      go({v.functions[k], blocks, kernel.local_bytes(), kernel.threads(), std::move(maps),
          words_of(kernel.arguments, b), v.early});
    }
  }

  void repeat(void* stream) {
    cuda::use_device(options.device);
    report_failures();
    for (const Launch& l : launched) l.go(stream);
  }

  void report_failures() {
    if (checked == nullptr) return;
    if (const int64_t word = failures->take(); word != 0)
      throw_failed_check(word, compilation.program, checked->mapped, checked_sizes);
  }

  cuda::EncodedMap encode(const MappedKernel& kernel, const TensorMap& m, const Bound& b) const {
    const Tensor& t = b.tensors.at(m.tensor);
    std::map<Sym, int64_t> values = b.sizes;
    for (const Argument& a : kernel.arguments)
      if (a.kind == Argument::Kind::Stride)
        values[a.sym] = b.tensors.at(a.tensor).strides.at(static_cast<size_t>(a.dim));
    std::vector<cuda::MapDimension> dims;
    const bool empty = std::any_of(m.dims.begin(), m.dims.end(), [&](const TensorMap::Dimension& d) {
      return evaluate_integer(d.size, values) == 0;
    });
    for (const TensorMap::Dimension& d : m.dims) {
      cuda::MapDimension dim{};
      const int64_t size = evaluate_integer(d.size, values);
      int64_t stride = d.stride ? evaluate_integer(d.stride, values) * bytes(m.dtype) : bytes(m.dtype);
      if ((empty || size <= 1) && stride % 16 != 0)
        stride = (stride + 15) / 16 * 16;  // never used, but must be well formed
      if (stride <= 0) stride = 16;
      dim.size = static_cast<uint64_t>(std::max<int64_t>(1, size));
      dim.stride_bytes = static_cast<uint64_t>(stride);
      dim.box = static_cast<uint32_t>(d.box);
      dims.push_back(dim);
    }
    return cuda::encode_map(empty ? dummy->data() : t.data, name(m.dtype), dims, m.swizzle_bytes);
  }

  template <class Allocate>
  void bind_workspaces(const Variant& v, Bound& b, const Allocate& allocate) const {
    for (size_t k = 0; k < v.mapped.workspaces.size(); ++k) {
      const Workspace& w = v.mapped.workspaces[k];
      Tensor t;
      t.dtype = w.dtype;
      int64_t elements = 1;
      for (Sym a : w.axes) {
        t.shape.push_back(b.sizes.at(a.size()));
        elements *= std::max<int64_t>(1, t.shape.back());  // grids have a block along an empty axis
      }
      t.strides = row_major(t.shape);
      t.data = allocate(k, std::max<int64_t>(16, elements * bytes(w.dtype)));
      b.tensors[w.sym] = t;
    }
  }

  /// The host step of masks that read arrays.
  void find_chunks(const Variant& v, const Bound& b) const {
    if (v.mapped.chunk_tables.empty()) return;
    const std::map<Sym, interpreter::Array> inputs =
        interpreter::bind_inputs(compilation.elaborated, b.sizes, views(b));
    std::map<Sym, double> scalars = b.scalars;
    for (const auto& [sym, size] : b.sizes) scalars[sym] = static_cast<double>(size);
    for (const ChunkTable& table : v.mapped.chunk_tables) {
      const std::vector<int64_t> rows = chunk_rows(table, scalars, b.sizes, inputs);
      std::memcpy(b.tensors.at(table.table).data, rows.data(), rows.size() * sizeof(int64_t));
    }
  }

  void launch_cpu(Variant& v, Bound& b) const {
    int64_t error = 0;
    b.error = &error;
    std::vector<std::vector<char>> work;
    work.reserve(v.mapped.workspaces.size());
    bind_workspaces(v, b, [&](size_t, int64_t size) {
      work.emplace_back(static_cast<size_t>(size) + 64);
      const auto address = reinterpret_cast<uintptr_t>(work.back().data());
      return reinterpret_cast<void*>((address + 63) / 64 * 64);
    });
    find_chunks(v, b);
    for (size_t k = 0; k < v.mapped.kernels.size(); ++k) {
      struct Context {
        CpuModule::Entry entry;
        const int64_t* words;
      };
      const std::vector<int64_t> words = words_of(v.mapped.kernels[k].arguments, b);
      Context context{reinterpret_cast<CpuModule::Entry>(v.functions[k]), words.data()};
      parallel_for(
          blocks_of(v.mapped.kernels[k], b.sizes), 1, options.threads,
          [](void* ctx, int64_t begin, int64_t end) {
            const auto* c = static_cast<const Context*>(ctx);
            c->entry(c->words, begin, end);
          },
          &context);
      throw_failed_check(error, compilation.program, v.mapped, b.sizes);
    }
  }

  std::map<std::string, ArrayView> views(const Bound& b) const {
    std::map<std::string, ArrayView> all;
    for (const Input& in : compilation.program.inputs) {
      const Tensor& t = b.tensors.at(in.sym);
      all[in.sym.name()] = ArrayView{t.dtype, t.data, t.shape, t.strides};
    }
    return all;
  }

  std::map<std::string, MutableArray> results(const Bound& b) const {
    std::map<std::string, MutableArray> all;
    for (const Output& o : compilation.program.outputs) {
      const Tensor& t = b.tensors.at(o.sym);
      all[o.sym.name()] = MutableArray{t.dtype, t.data, t.shape, t.strides};
    }
    return all;
  }

  void interpret_tiles(const Bound& b, const std::map<std::string, double>& params) {
    size_t plan = 0;
    while (plan + 1 < compilation.plans.size() && !compilation.plans[plan].when.admits(b.sizes)) ++plan;
    if (!compilation.plans[plan].when.admits(b.sizes)) choose(b);  // reports what does not fit
    refuse_long_positions(tile_program(plan), b.sizes);
    refuse_long_counts(tile_program(plan), b.sizes);
    counts = interpret(compilation.elaborated, tile_program(plan), b.sizes, views(b), params, results(b));
    last_plan = print(compilation.program, compilation.plans[plan].plan);
  }
};

Launcher::Launcher(Compilation& c, const CompileOptions& o) : impl_(std::make_unique<Impl>(c, o)) {}
Launcher::~Launcher() = default;
Launcher::Launcher(Launcher&&) noexcept = default;
void Launcher::repeat(void* stream) { impl_->repeat(stream); }
void Launcher::report_failures() { impl_->report_failures(); }
const Counts& Launcher::counts() const { return impl_->counts; }
const std::string& Launcher::last_plan() const { return impl_->last_plan; }

std::optional<CpuSource> Launcher::missing(const Bound& bound) {
  if (impl_->options.target != Target::Cpu) return std::nullopt;
  const auto [plan, layout] = impl_->choose(bound);
  Variant& v = impl_->variant(plan, layout);
  if (!v.functions.empty() || v.mapped.kernels.empty()) return std::nullopt;
  return CpuSource{impl_->source_of(v), v.mapped.machine.vector.flags};
}

void Launcher::run(Bound& bound, const std::map<std::string, double>& params, void* stream) {
  const Target target = impl_->options.target;
  if (target == Target::Interp) return impl_->interpret_tiles(bound, params);
  const Compilation& c = impl_->compilation;
  const auto [plan, layout] = impl_->choose(bound);
  impl_->refuse_long_positions(impl_->tile_program(plan), bound.sizes);
  impl_->refuse_long_counts(impl_->tile_program(plan), bound.sizes);
  Variant& v = impl_->variant(plan, layout);
  impl_->last_plan =
      print(c.program, c.plans[plan].plan) + (layout == LayoutClass::Aligned ? "" : "; layout general");
  if (target == Target::InterpMapped) {
    interpret(c.elaborated, v.mapped, bound.sizes, impl_->views(bound), params, impl_->results(bound), {},
              impl_->options.threads > 0 ? impl_->options.threads : default_threads());
    return;
  }
  if (target == Target::Cuda) cuda::use_device(impl_->options.device);
  impl_->finish(v);
  if (v.serialized)
    impl_->last_plan +=
        "; its products wait for one another (registers): smaller blocks or more groups may be faster";
  bind_added_axes(v.mapped.axes, bound.sizes);
  bound.scalars = bind_scalars(c.program, v.mapped.scalars, bound.sizes, params);
  if (target == Target::Cpu) {
    impl_->launch_cpu(v, bound);
  } else {
    impl_->launch_gpu(v, bound, stream);
  }
}

}  // namespace tilewright
