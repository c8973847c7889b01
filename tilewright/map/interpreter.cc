#include "tilewright/map/interpreter.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>

#include "tilewright/expr/simplify.h"
#include "tilewright/map/interpreter_runner.h"
#include "tilewright/program/failures.h"
#include "tilewright/program/params.h"
#include "tilewright/tile/chunk_table.h"

namespace tilewright {
namespace {

using emulation::Array;
using emulation::Environment;

[[noreturn]] void refuse(const std::string& what, const std::string& hint) {
  throw UserError(Span{}, what, hint);
}

std::vector<int64_t> row_major(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= shape[d];
  }
  return strides;
}

/// The array of a tensor: memory dimensions are cut into their piece axes.
std::unique_ptr<Array> make_array(Sym tensor, const std::vector<Dim>& dims, const Sizes& sizes, DType dtype,
                                  const void* data, const std::vector<int64_t>& shape,
                                  std::vector<int64_t> strides) {
  std::vector<int64_t> expected = shape_of(dims, sizes);
  if (shape != expected)
    refuse(fmt::format("{} has shape [{}], the sizes give [{}]", tensor.name(), fmt::join(shape, ", "),
                       fmt::join(expected, ", ")),
           "give an array of that shape");
  if (strides.empty()) strides = row_major(shape);
  if (strides.size() != shape.size())
    refuse(fmt::format("{} has {} strides", tensor.name(), strides.size()), "give one for each dimension");
  auto a = std::make_unique<Array>();
  a->sym = tensor;
  a->dtype = dtype;
  a->data = data;
  a->limit = 1;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (shape[d] == 0) a->limit = 0;
    a->limit = a->limit == 0 ? 0 : a->limit + (shape[d] - 1) * strides[d];
    int64_t stride = strides[d];
    std::vector<int64_t> piece_strides;
    for (size_t k = dims[d].pieces.size(); k-- > 0;) {
      piece_strides.insert(piece_strides.begin(), stride);
      stride *= sizes.at(dims[d].pieces[k].size());
    }
    for (size_t k = 0; k < dims[d].pieces.size(); ++k) {
      a->sizes.push_back(sizes.at(dims[d].pieces[k].size()));
      a->strides.push_back(piece_strides[k]);
    }
  }
  if (a->limit > 0 && !data) refuse(fmt::format("{} has no data", tensor.name()), "give an array");
  return a;
}

/// Sizes of all axes, those of parts included.
Sizes all_sizes(const MappedProgram& m, const Sizes& given) {
  Sizes sizes = given;
  for (const Axis& a : m.axes)
    if (a.size && !sizes.count(a.index.size())) sizes[a.index.size()] = evaluate_integer(a.size, sizes);
  return sizes;
}

/// All blocks of one kernel, in threads; rethrows what the lowest block that failed threw.
void run_blocks(const Environment& env, const MappedKernel& kernel, int number, const Adversary& adversary,
                int threads) {
  std::mutex mutex;
  std::exception_ptr failure;
  std::atomic<int64_t> next = 0, failed = std::numeric_limits<int64_t>::max();
  auto work = [&] {
    int64_t block = -1;
    try {
      Environment own = env;
      emulation::Runner runner(own, kernel, number, adversary);
      while ((block = next++) < std::min<int64_t>(runner.blocks(), failed)) runner.run_block(block);
    } catch (...) {
      std::lock_guard lock(mutex);
      if (block < failed) failed = block, failure = std::current_exception();
    }
  };
  std::vector<std::thread> helpers;
  for (int t = 1; t < threads; ++t) helpers.emplace_back(work);
  work();
  for (std::thread& t : helpers) t.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace

const char* name(MappedFault::Kind k) {
  switch (k) {
    case MappedFault::Kind::Race: return "race";
    case MappedFault::Kind::EarlyRead: return "early read";
    case MappedFault::Kind::InFlight: return "in flight";
    case MappedFault::Kind::MissingFence: return "missing fence";
    case MappedFault::Kind::StalePhase: return "stale phase";
    case MappedFault::Kind::EarlyRelease: return "early release";
    case MappedFault::Kind::Deadlock: return "deadlock";
    case MappedFault::Kind::BarrierMismatch: return "barrier mismatch";
    case MappedFault::Kind::Uninitialised: return "uninitialised";
    case MappedFault::Kind::Placement: return "placement";
    case MappedFault::Kind::OutOfBounds: return "out of bounds";
  }
  return "?";
}

void interpret(const Program& p, const MappedProgram& m, const Sizes& given,
               const std::map<std::string, ArrayView>& inputs, const std::map<std::string, double>& params,
               const std::map<std::string, MutableArray>& outputs, const Adversary& adversary, int threads) {
  Environment env{p, m, {}, {}, {}};
  const Sizes sizes = all_sizes(m, given);
  Bindings values;
  for (auto [size, n] : sizes) values[size] = double(n);
  for (const Param& param : p.params) {
    auto it = params.find(param.sym.name());
    if (it != params.end())
      values[param.sym] = param_value(param, it->second);
    else if (param.value)
      values[param.sym] = param_value(param, evaluate(param.value, values));
    else
      refuse(fmt::format("param {} has no value", param.sym.name()), "give one");
  }
  for (const HostScalar& s : m.scalars) {
    refuse_zero_divisors(p, s.value, values);
    values[s.sym] = evaluate(s.value, values);
  }
  for (auto [sym, value] : values) env.scalars.set(env.symbols.slot(sym), value);

  std::map<std::pair<Sym, int>, int64_t> strides;  // of each memory dimension
  auto add = [&](Sym tensor, DType dtype, const void* data, void* writable, const std::vector<int64_t>& shape,
                 std::vector<int64_t> given_strides) {
    std::vector<Dim> dims = memory_dims(p, m, tensor);
    if (given_strides.empty()) given_strides = row_major(shape);
    auto a = make_array(tensor, dims, sizes, dtype, data, shape, given_strides);
    a->writable = writable;
    if (writable) a->writer.assign(size_t(a->limit), 0);
    for (size_t d = 0; d < given_strides.size(); ++d) strides[{tensor, int(d)}] = given_strides[d];
    env.arrays[tensor] = std::move(a);
  };
  for (const Input& input : p.inputs) {
    auto it = inputs.find(input.sym.name());
    if (it == inputs.end())
      refuse(fmt::format("input {} is missing", input.sym.name()), "give an array of that name");
    add(input.sym, it->second.dtype, it->second.data, nullptr, it->second.shape, it->second.strides);
  }
  for (const Output& output : p.outputs) {
    auto it = outputs.find(output.sym.name());
    if (it == outputs.end())
      refuse(fmt::format("output {} is missing", output.sym.name()), "give an array of that name");
    add(output.sym, it->second.dtype, it->second.data, it->second.data, it->second.shape, it->second.strides);
  }
  std::vector<std::vector<double>> storage;  // of workspaces; eight bytes an element suffice for any dtype
  for (const Workspace& w : m.workspaces) {
    std::vector<int64_t> shape = shape_of(memory_dims(p, m, w.sym), sizes);
    int64_t n = 1;
    for (int64_t extent : shape) n *= extent;
    storage.emplace_back(size_t(std::max<int64_t>(n, 1)));
    add(w.sym, w.dtype, storage.back().data(), storage.back().data(), shape, {});
  }
  if (!m.chunk_tables.empty()) {
    const std::map<Sym, interpreter::Array> bound = interpreter::bind_inputs(p, sizes, inputs);
    for (const ChunkTable& table : m.chunk_tables) {
      const std::vector<int64_t> rows = chunk_rows(table, values, sizes, bound);
      std::memcpy(env.arrays.at(table.table)->writable, rows.data(), rows.size() * sizeof(int64_t));
    }
  }
  for (const LayoutGuard& g : m.layout) {
    auto it = env.arrays.find(g.tensor);
    TW_CHECK(it != env.arrays.end(), fmt::format("a guard of {}, which is no array", g.tensor.name()));
    if (it->second->limit == 0) continue;  // nothing is accessed
    const std::vector<int64_t> extents = shape_of(memory_dims(p, m, g.tensor), sizes);
    int last = int(extents.size()) - 1;
    for (int d = 0; d <= last; ++d) {
      if (extents[size_t(d)] == 1 || (d == last && !g.unit_inner)) continue;  // a stride that is never used
      int64_t stride = strides.at({g.tensor, d});
      bool fits = d == last ? stride == 1 : stride * bytes(it->second->dtype) % g.align == 0;
      TW_CHECK(
          fits,
          fmt::format("{} has stride {} in dimension {} and this mapping is for arrays aligned to {} bytes",
                      g.tensor.name(), stride, d, g.align));
    }
  }

  for (size_t k = 0; k < m.kernels.size(); ++k) {
    for (const Argument& a : m.kernels[k].arguments) {
      if (a.kind != Argument::Kind::Stride) continue;
      auto it = strides.find({a.tensor, a.dim});
      TW_CHECK(it != strides.end(), fmt::format("{} has no dimension {}", a.tensor.name(), a.dim));
      env.scalars.set(env.symbols.slot(a.sym), double(it->second));
    }
    run_blocks(env, m.kernels[k], int(k), adversary, threads);
  }
}

}  // namespace tilewright
