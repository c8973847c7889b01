// Kernels in front that fill chunk tables: what they are called and what they are given.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tilewright/map/sm90/context.h"

namespace tilewright::hopper {

std::vector<ChunkStep> chunk_steps(const Program& p, const TileProgram& t) {
  std::set<std::string> taken;
  for (const TileKernel& k : t.kernels) taken.insert(k.name);
  std::vector<ChunkStep> steps;
  MappedProgram view;  // only the workspaces matter
  view.workspaces = t.workspaces;
  for (const TileKernel& k : t.kernels)
    for (const ChunkTable& table : k.chunk_tables) {
      ChunkStep step;
      const std::string wish = fmt::format("{}_{}", k.name, table.table.name());
      step.name = wish;
      for (int n = 2; !taken.insert(step.name).second; ++n) step.name = fmt::format("{}_{}", wish, n);
      step.table = table;
      step.arguments.push_back({Argument::Kind::Pointer, table.table, table.table, 0});
      std::set<Sym> sizes, scalars;
      std::vector<Sym> arrays;
      const auto add = [&](Expr e) {
        if (!e) return;
        for (Sym s : free_symbols(e)) {
          const bool host = std::any_of(t.scalars.begin(), t.scalars.end(),
                                        [&](const HostScalar& h) { return h.sym == s; });
          if (s.kind() == SymbolKind::Size) sizes.insert(s);
          if (s.kind() == SymbolKind::Index) sizes.insert(s.size());
          if (s.kind() == SymbolKind::Param || host) scalars.insert(s);
        }
        for (Sym array : tensors_read(e)) {
          const Input* input = p.input(array);
          const bool known = std::find(arrays.begin(), arrays.end(), array) != arrays.end();
          if (input != nullptr && !is_float(input->dtype) && !known) arrays.push_back(array);
        }
      };
      for (Expr e : {table.some, table.every, table.stream.begin, table.stream.end}) add(e);
      for (const KernelAxis& a : table.rows) sizes.insert(a.index.size());
      sizes.insert(table.stream.index.size());
      for (Sym array : arrays) {
        const std::vector<Dim> dims = memory_dims(p, view, array);
        step.arguments.push_back({Argument::Kind::Pointer, array, array, 0});
        for (size_t d = 0; d < dims.size(); ++d) {
          const Sym stride = Sym::fresh({.name = fmt::format("{}_stride{}", array.name(), d),
                                         .kind = SymbolKind::Variable,
                                         .integer = true});
          step.arguments.push_back({Argument::Kind::Stride, stride, array, int(d)});
          for (Sym piece : dims[d].pieces) sizes.insert(piece.size());
        }
      }
      for (Sym s : sizes) step.arguments.push_back({Argument::Kind::Size, s, {}, 0});
      for (Sym s : scalars) step.arguments.push_back({Argument::Kind::Scalar, s, {}, 0});
      steps.push_back(std::move(step));
    }
  return steps;
}

}  // namespace tilewright::hopper
