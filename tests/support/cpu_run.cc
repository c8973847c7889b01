#include "tests/support/cpu_run.h"

#include <cstdlib>
#include <cstring>

#include "tilewright/emit/emit.h"
#include "tilewright/expr/simplify.h"
#include "tilewright/runtime/compile.h"
#include "tilewright/support/error.h"

namespace tilewright::testing {
namespace {

std::vector<int64_t> row_major(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t n = 1;
  for (size_t k = shape.size(); k-- > 0;) {
    strides[k] = n;
    n *= shape[k];
  }
  return strides;
}

struct Placed {
  void* data = nullptr;
  std::vector<int64_t> strides;
};

}  // namespace

Machine cpu_machine(const std::string& isa) {
  const char* before = std::getenv("TILEWRIGHT_CPU_ISA");
  const std::string saved = before ? before : "";
  setenv("TILEWRIGHT_CPU_ISA", isa.c_str(), 1);
  Machine m = this_cpu();
  if (before)
    setenv("TILEWRIGHT_CPU_ISA", saved.c_str(), 1);
  else
    unsetenv("TILEWRIGHT_CPU_ISA");
  return m;
}

void run_cpu(const Program& elaborated, const MappedProgram& m, const Sizes& given,
             const std::map<std::string, ArrayView>& inputs, const std::map<std::string, double>& params,
             const std::map<std::string, MutableArray>& outputs) {
  const auto module = CpuModule::load(emit_cpp(elaborated, m), m.machine.vector.flags);
  Sizes sizes = given;
  Bindings values;
  for (const Axis& a : m.axes)
    if (a.size && !sizes.count(a.index.size())) sizes[a.index.size()] = evaluate_integer(a.size, sizes);
  for (const auto& [sym, n] : sizes) values[sym] = double(n);
  for (const Param& q : elaborated.params)
    values[q.sym] = params.count(q.sym.name()) ? params.at(q.sym.name()) : evaluate(q.value, values);
  for (const HostScalar& s : m.scalars) values[s.sym] = evaluate(s.value, values);

  std::map<Sym, Placed> arrays;
  std::vector<std::vector<char>> workspaces;
  for (const Input& in : elaborated.inputs) {
    const ArrayView& a = inputs.at(in.sym.name());
    arrays[in.sym] = {const_cast<void*>(a.data),
                      a.strides.empty() ? row_major(shape_of(in.dims, sizes)) : a.strides};
  }
  for (const Output& out : elaborated.outputs) {
    const MutableArray& a = outputs.at(out.sym.name());
    arrays[out.sym] = {a.data, a.strides.empty() ? row_major(shape_of(out.dims, sizes)) : a.strides};
  }
  for (const Workspace& w : m.workspaces) {
    std::vector<int64_t> shape;
    int64_t n = bytes(w.dtype);
    for (Sym a : w.axes) {
      shape.push_back(sizes.at(a.size()));
      n *= shape.back();
    }
    workspaces.emplace_back(size_t(n) + 64);
    arrays[w.sym] = {workspaces.back().data(), row_major(shape)};
  }
  int64_t error = 0;
  for (const MappedKernel& k : m.kernels) {
    std::vector<int64_t> words;
    for (const Argument& a : k.arguments) {
      int64_t word = 0;
      switch (a.kind) {
        case Argument::Kind::Pointer: word = reinterpret_cast<int64_t>(arrays.at(a.sym).data); break;
        case Argument::Kind::Stride: word = arrays.at(a.tensor).strides.at(size_t(a.dim)); break;
        case Argument::Kind::Size: word = sizes.at(a.sym); break;
        case Argument::Kind::Error: word = reinterpret_cast<int64_t>(&error); break;
        case Argument::Kind::Scalar: {
          const double x = values.at(a.sym);
          std::memcpy(&word, &x, 8);
          break;
        }
      }
      words.push_back(word);
    }
    int64_t tasks = 1;
    for (const KernelAxis& a : k.grid) tasks *= (sizes.at(a.index.size()) + a.block - 1) / a.block;
    module->entry(kernel_symbol(k))(words.data(), 0, tasks);
  }
  TW_CHECK(error == 0, "an index lies outside its array");
}

}  // namespace tilewright::testing
