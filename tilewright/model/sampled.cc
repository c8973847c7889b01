#include "tilewright/model/sampled.h"

#include <algorithm>
#include <cmath>

#include "tilewright/tile/statements.h"

namespace tilewright {

namespace {

double length_of(const TileProgram& t, Sym index, const Bindings& values) {
  if (const auto it = values.find(index.size()); it != values.end()) return it->second;
  for (const Axis& a : t.axes)
    if (a.index == index && a.baked()) return double(a.size.rational()->num());
  return 1;
}

bool known(Expr e, const Bindings& values) {
  const std::vector<Sym> free = free_symbols(e);
  return std::all_of(free.begin(), free.end(), [&](Sym s) { return values.count(s) != 0; });
}

}  // namespace

double count_of(const TileSymbols& symbols, const KernelAxis& a, double length, const Bindings& values) {
  if (a.kind == KernelAxis::Kind::Whole || a.kind == KernelAxis::Kind::Resident) return 1;
  const auto it = symbols.block.find(a.index);
  const double block =
      it == symbols.block.end() ? double(std::max<int64_t>(1, a.block)) : values.at(it->second);
  return std::ceil(length / block);
}

Sampler::Sampler(const TileProgram& t, const TileSymbols& symbols) : t_(t), symbols_(symbols) {
  const auto block = [&](const KernelAxis& a) -> Expr {
    const auto it = symbols.block.find(a.index);
    return it == symbols.block.end() ? Expr(a.block) : Expr(it->second);
  };
  for (const TileKernel& k : t.kernels)
    for_each_stmt(k.body, [&](const Stmt& s) {
      const Loop* loop = std::get_if<Loop>(&s.node);
      if (!loop) return;
      const KernelAxis& axis = k.axis(loop->axis);
      Of of{&k, &axis, loop->segments, {}};
      if (!loop->presents.empty() && axis.kind == KernelAxis::Kind::Stream)
        of.segments = segments_of(analyse_masks(loop->presents, k, axis, block));
      for (const KernelAxis& g : k.grid)
        if (std::any_of(of.segments.begin(), of.segments.end(),
                        [&](const Segment& x) { return depends_on(x.hi - x.lo, g.counter); }))
          of.rows.push_back(&g);
      loops_.push_back(std::move(of));
    });
}

std::vector<SampledVisits> Sampler::visits(const Bindings& given) const {
  std::vector<SampledVisits> all;
  Bindings values = given;
  for (const Of& of : loops_) {
    double blocks = 1;
    for (const KernelAxis& g : of.kernel->grid)
      blocks *= count_of(symbols_, g, length_of(t_, g.index, values), values);
    const double length = length_of(t_, of.axis->index, values);
    SampledVisits v;
    if (of.axis->kind != KernelAxis::Kind::Stream) {
      v.masked = blocks;
      v.elements = v.all = blocks * length;
      all.push_back(v);
      continue;
    }
    // A part of a split stream has its share of the chunks.
    double parts = 1;
    for (const KernelAxis& g : of.kernel->grid)
      if (g.kind == KernelAxis::Kind::Part)
        parts = count_of(symbols_, g, length_of(t_, g.index, values), values);
    const double chunks = count_of(symbols_, *of.axis, length, values);
    const double each = length / chunks;
    v.all = blocks / parts * length;
    // Of several axes a lattice: points that no two axes share.
    constexpr int samples = 7, of_lattice = 55;
    constexpr int steps[] = {1, 34, 21};
    const int rounds = of.rows.empty() ? 1 : of.rows.size() == 1 ? samples : of_lattice;
    bool found = true;
    double plain = 0, masked = 0;
    for (int n = 0; n < rounds && found; ++n) {
      for (size_t k = 0; k < of.rows.size(); ++k) {
        const KernelAxis* g = of.rows[k];
        const double count = count_of(symbols_, *g, length_of(t_, g->index, values), values);
        const int at = n * steps[k % 3] % rounds;
        values[g->counter] = rounds == 1 ? 0 : std::floor((count - 1) * (at + 0.5) / rounds + 0.5);
      }
      for (const Segment& s : of.segments) {
        const Expr e = s.hi - s.lo;
        found = found && known(e, values);
        if (found) (s.masked ? masked : plain) += std::max(0.0, evaluate(e, values)) / rounds;
      }
    }
    for (const KernelAxis* g : of.rows) values.erase(g->counter);
    if (!found) plain = chunks / parts, masked = 0;
    v.known = found;
    v.plain = plain * blocks;
    v.masked = masked * blocks;
    v.elements = std::min(v.all, (v.plain + v.masked) * each);
    all.push_back(v);
  }
  return all;
}

}  // namespace tilewright
