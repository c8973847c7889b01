#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "tilewright/expr/simplify.h"
#include "tilewright/map/checks.h"
#include "tilewright/map/placement.h"
#include "tilewright/map/sm90/context.h"
#include "tilewright/support/advice.h"
#include "tilewright/support/error.h"
#include "tilewright/tile/statements.h"

namespace tilewright {
namespace hopper {
namespace {

/// Register budgets of the loading and the computing role; the file of 65536 registers holds 128 threads of the first and all of the second. Loads by
/// instructions need more than issuing bulk copies does; a making role beside the loading one has its budget.
std::pair<int, int> register_budgets(int groups, bool plain_loads, bool makes) {
  if (groups == 2) return plain_loads ? std::pair{56, 224} : makes ? std::pair{40, 232} : std::pair{24, 240};
  if (groups == 3) return plain_loads ? std::pair{56, 152} : std::pair{32, 160};
  // 640 threads are launched with 96 each.
  if (groups == 4) return plain_loads ? std::pair{56, 104} : std::pair{32, 112};
  return {0, 0};
}

/// Puts literal sizes into every expression of a kernel.
struct LiteralSizes {
  Substitution sizes;
  Expr operator()(Expr e) const { return e ? substitute(e, sizes) : e; }
  void operator()(Body& body) const {
    for (Stmt& s : body) std::visit(*this, s.node);
  }
  void operator()(std::vector<Expr>& v) const {
    for (Expr& e : v) e = (*this)(e);
  }
  void operator()(Load& s) const {
    (*this)(s.index);
    s.present = (*this)(s.present);
  }
  void operator()(Store& s) const { (*this)(s.index); }
  void operator()(Map& s) const { s.value = (*this)(s.value), s.masked = (*this)(s.masked); }
  void operator()(Dot& s) const { s.present = (*this)(s.present); }
  void operator()(Reduce& s) const { s.value = (*this)(s.value), s.masked = (*this)(s.masked); }
  void operator()(Rank& s) const {
    s.value = (*this)(s.value), s.at = (*this)(s.at), s.present = (*this)(s.present);
  }
  void operator()(Loop& s) const {
    for (Segment& g : s.segments) g.lo = (*this)(g.lo), g.hi = (*this)(g.hi), g.stop = (*this)(g.stop);
    (*this)(s.body);
  }
  void operator()(When& s) const {
    s.condition = (*this)(s.condition);
    (*this)(s.body);
  }
  void operator()(KernelAxis& a) const { a.begin = (*this)(a.begin), a.end = (*this)(a.end); }
};

/// What a mapping may try that not every kernel has room for.
struct Attempt {
  bool use_rings = false, make_beside = false;
};

struct Mapping {
  MappedKernel kernel;
  std::vector<LayoutGuard> guards;
};

/// Null where only a lesser attempt fits.
std::optional<Mapping> try_to_map(const Program& p, const TileProgram& t, const TileKernel& k,
                                  const Machine& m, LayoutClass layout, bool by_warps,
                                  const LiteralSizes& literal_sizes, Attempt attempt) {
  Context c(p, t, k, m, layout);
  c.by_warps = by_warps;
  c.may_use_rings = attempt.use_rings;
  c.may_make_beside = attempt.make_beside;
  literal_sizes(c.kernel.body);
  for (KernelAxis& a : c.kernel.inner) literal_sizes(a);
  for (KernelAxis& a : c.kernel.grid) literal_sizes(a);
  c.out.name = k.name;
  c.out.grid = c.kernel.grid;
  c.out.heaviest_first = k.heaviest_first;
  survey(c);
  order_grid(c);
  allocate(c);
  const bool plain =
      std::any_of(c.staged.begin(), c.staged.end(), [](const Staged& s) { return s.load && !s.bulk; });
  if (plain && (c.makers > 0 || !c.through_rings.empty())) return {};  // the whole loading group copies
  c.out.roles.push_back(computing_role(c));
  keep_lane_sums(c.out, c.out.roles[0].body);
  if (by_warps) round_early(c.out, c.out.roles[0].body);
  if (c.loaders > 0) {
    c.out.roles.push_back(loading_role(c));
    auto [load, compute] = register_budgets(c.groups, plain, c.makers > 0);
    c.out.roles[0].registers = compute;
    c.out.roles[1].registers = load;
  }
  if (c.makers > 0) {
    c.out.roles.push_back(making_role(c));
    c.out.roles[2].registers = c.out.roles[1].registers;
  }
  check_shared(c);
  collect_arguments(c);
  return Mapping{std::move(c.out), std::move(c.guards)};
}

MappedKernel map_kernel(const Program& p, const TileProgram& t, const TileKernel& k, const Machine& m,
                        LayoutClass layout, bool by_warps, const LiteralSizes& literal_sizes,
                        std::vector<LayoutGuard>& guards) {
  for_each_stmt(k.body, [&](const Stmt& s) {
    if (auto* x = std::get_if<Rank>(&s.node))
      throw UserError(
          p.axis(x->rank).span,
          fmt::format("sorted lists along `{}` are not mapped to {} yet", x->rank.written(), m.name),
          "count ranks (program/elaborate.h, with_counted_ranks), or use " + advice::target("cpu"));
  });
  std::optional<Mapping> mapped;
  for (const Attempt attempt : {Attempt{true, true}, Attempt{false, true}}) {
    try {
      if (!mapped && !by_warps) mapped = try_to_map(p, t, k, m, layout, by_warps, literal_sizes, attempt);
    } catch (const UserError&) {  // the plain mapping says what does not fit
    }
  }
  if (!mapped) mapped = try_to_map(p, t, k, m, layout, by_warps, literal_sizes, {});
  for (const LayoutGuard& g : mapped->guards) {
    auto known = std::find_if(guards.begin(), guards.end(),
                              [&](const LayoutGuard& x) { return x.tensor == g.tensor; });
    if (known == guards.end()) {
      guards.push_back(g);
    } else {
      known->unit_inner = known->unit_inner || g.unit_inner;
      known->align = std::max(known->align, g.align);
    }
  }
  return std::move(mapped->kernel);
}

}  // namespace

MappedProgram map_kernels(const Program& elaborated, const TileProgram& t, const Machine& m,
                          LayoutClass layout, const std::function<bool(const TileKernel&)>& by_warps) {
  MappedProgram out;
  out.name = t.name;
  out.target = Target::Cuda;
  out.machine = m;
  out.axes = t.axes;
  out.scalars = t.scalars;
  out.workspaces = t.workspaces;
  out.chunk_tables = chunk_tables(t);
  out.chunk_steps = chunk_steps(elaborated, t);
  LiteralSizes literal_sizes;
  // Sizes that follow from others come first, so that literals reach into them.
  for (const Axis& a : t.axes)
    if (a.size && !a.baked()) literal_sizes.sizes.emplace_back(a.index.size(), a.size);
  LiteralSizes baked;
  for (const Axis& a : t.axes)
    if (a.baked()) baked.sizes.emplace_back(a.index.size(), a.size);
  for (auto& [sym, size] : literal_sizes.sizes) size = baked(size);
  literal_sizes.sizes.insert(literal_sizes.sizes.end(), baked.sizes.begin(), baked.sizes.end());
  for (const TileKernel& k : t.kernels)
    out.kernels.push_back(map_kernel(elaborated, t, k, m, layout, by_warps(k), literal_sizes, out.layout));
  number_checks(elaborated, out);
  for (MappedKernel& k : out.kernels)
    if (has_checks(k))
      k.arguments.push_back({Argument::Kind::Error,
                             Sym::fresh({.name = "error", .kind = SymbolKind::Variable, .integer = true}),
                             {},
                             0});
  if (const std::vector<std::string> faults = misplaced(out); !faults.empty()) {
    for (const TileKernel& k : t.kernels)
      for (const KernelAxis& a : k.inner)
        if (a.kind == KernelAxis::Kind::Stream && a.block > 1 && a.block % 16 != 0)
          throw UserError(Span{},
                          fmt::format("stream {}={}: matrix units of {} do not take chunks of {}: {}",
                                      a.index.name(), a.block, m.arch, a.block, faults[0]),
                          "use a chunk that is a multiple of 16 or 32");
    throw UserError(
        Span{},
        fmt::format("the program needs an exchange among threads that is not mapped to {}: {}", m.arch,
                    faults[0]),
        "write the operand at fault as an input, cut one of the axes in blocks of one element, or run the "
        "program on a CPU");
  }
  return out;
}

}  // namespace hopper

MappedProgram map_sm90(const Program& elaborated, const TileProgram& t, const Machine& m,
                       LayoutClass layout) {
  return hopper::map_kernels(elaborated, t, m, layout, [](const TileKernel&) { return false; });
}

}  // namespace tilewright
