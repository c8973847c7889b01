// Evaluates programs by the reference evaluator, for tests/numpy/reference.py.
//
//   evaluate FOLDER...
//
// Each FOLDER holds program.tw, NAME.npy for each input, and `bindings`: lines "size NAME N" and "param NAME X".
// For each output NAME.out.npy is written in f64, in the memory order of the output and without the output's
// rounding. A program that is refused leaves its message in error.txt. Exit status 0 unless the folder cannot be used.
#include <cstdio>
#include <fstream>
#include <sstream>

#include "tilewright/reference/reference.h"
#include "tilewright/runtime/npy.h"

namespace tilewright {
namespace {

void evaluate_folder(const std::string& folder) {
  const Program p = load_program(folder + "/program.tw");
  std::map<std::string, int64_t> given;
  std::map<std::string, double> params;
  std::ifstream bindings(folder + "/bindings");
  for (std::string what, name, value; bindings >> what >> name >> value;) {
    if (what == "size") given[name] = std::stoll(value);
    if (what == "param") params[name] = std::stod(value);
  }
  std::map<std::string, HostArray> inputs;
  std::map<std::string, ArrayView> views;
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const Input& in : p.inputs) {
    const std::string& name = in.sym.name();
    const HostArray& a = inputs[name] = read_npy(folder + "/" + name + ".npy", in.dtype);
    views[name] = a.view();
    shapes[name] = a.shape;
  }
  const Sizes sizes = bind_sizes(p, shapes, given);
  Evaluator evaluator(p, sizes, views, params, Precision::f64);
  for (const Output& o : p.outputs) {
    const std::vector<double> values = evaluator.all(o);
    HostArray out = allocate(DType::f64, shape_of(o.dims, sizes));
    for (size_t k = 0; k < values.size(); ++k)
      store_element(DType::f64, out.data.get(), int64_t(k), values[k]);
    write_npy(folder + "/" + o.sym.name() + ".out.npy", out);
  }
}

}  // namespace
}  // namespace tilewright

int main(int argc, char** argv) {
  for (int k = 1; k < argc; ++k) {
    const std::string folder = argv[k];
    try {
      tilewright::evaluate_folder(folder);
    } catch (const std::exception& e) {
      std::ofstream(folder + "/error.txt") << e.what();
    }
  }
  return 0;
}
