#include "tilewright/explain/unfused.h"

#include "tilewright/plan/part.h"

namespace tilewright::explain {

std::vector<UnfusedKernel> unfused(const Program& p, const CompileOptions& given,
                                   const std::map<std::string, int64_t>& sizes) {
  CompileOptions o = given;
  o.schedule.clear();
  o.stream = {};
  std::set<Sym> all;
  std::map<Sym, StoredArray> arrays;
  for (const Definition& d : p.definitions) {
    arrays[d.sym] = parts::array_of(p, d.sym);
    for (Sym t : tensors_read(d.value))
      if (p.definition(t)) all.insert(t);
  }
  std::vector<UnfusedKernel> kernels;
  for (const Definition& d : p.definitions) {
    UnfusedKernel k;
    k.statement = d.sym.name();
    k.between =
        std::none_of(p.outputs.begin(), p.outputs.end(), [&](const Output& x) { return x.sym == d.sym; });
    k.dtype = arrays.at(d.sym).dtype;
    k.elements = 1;
    for (Sym a : d.axes) k.elements = k.elements * Expr(a.size());
    for (Sym t : tensors_read(d.value)) k.reads.push_back(t.name());
    try {
      Compilation c = analyse(parts::program_of(p, {d.sym}, all, arrays), o);
      const Plan plan = plan_for(c, sizes);
      k.kernel = std::make_unique<Planned>(std::move(c), plan);
    } catch (const UserError& e) {
      k.refused = e.diagnostics().front().what;
    }
    kernels.push_back(std::move(k));
  }
  return kernels;
}

}  // namespace tilewright::explain
