#include "tilewright/map/cpu/nested.h"

#include <algorithm>

#include "tilewright/expr/simplify.h"
#include "tilewright/tile/statements.h"

namespace tilewright::cpu {
namespace {

/// The two loads of a dot over `axis`; null where tiles with the axis are anything else.
struct Operands {
  const Load *a = nullptr, *b = nullptr;
};

Operands operands_of(const TileKernel& k, const Dot& dot, Sym axis) {
  Operands found;
  bool other = dot.present || dot.axes != std::vector<Sym>{axis};
  for (const Tile& t : k.tiles)
    other = other || (contains_axis(t.axes, axis) && t.sym != dot.a && t.sym != dot.b);
  for_each_stmt(k.body, [&](const Stmt& s) {
    if (const Load* l = std::get_if<Load>(&s.node)) {
      for (Sym side : {dot.a, dot.b}) {
        if (l->tile != side) continue;
        const Load*& place = side == dot.a ? found.a : found.b;
        other = other || place || l->present;
        place = l;
      }
    } else if (std::get_if<Dot>(&s.node) != &dot) {
      for (Sym t : reads(k, s)) other = other || t == dot.a || t == dot.b;
      for (Sym t : all_written(s)) other = other || t == dot.a || t == dot.b;
      const auto mentions = [&](Expr e) { return e && depends_on(e, axis); };
      for (bool masked : {false, true})
        for (Expr e : values_in(s, masked)) other = other || mentions(e);
    }
  });
  return other || dot.a == dot.b ? Operands{} : found;
}

/// The body without the loads of the operands, the dot a loop.
Body nested(const Body& body, const Dot& dot, const Operands& of, const KernelAxis& axis, Expr parts) {
  Body out;
  for (const Stmt& s : body) {
    const Load* load = std::get_if<Load>(&s.node);
    if (load == of.a || load == of.b) {
      if (load) continue;
    }
    if (std::get_if<Dot>(&s.node) != &dot) {
      out.push_back(s);
      if (const Body* inside = inner_body(s)) *inner_body(out.back()) = nested(*inside, dot, of, axis, parts);
      continue;
    }
    if (!dot.accumulate) out.push_back({Map{dot.tile, 0, {}}, s.comment});
    Dot part = dot;
    part.accumulate = true;
    Loop loop{axis.index, {{0, parts, false, {}}}, {{*of.a, ""}, {*of.b, ""}, {part, s.comment}}};
    out.push_back({std::move(loop), ""});
  }
  return out;
}

}  // namespace

TileKernel with_nested_sums(const std::vector<Axis>& axes, TileKernel k) {
  for (size_t at = 0; at < k.inner.size(); ++at) {
    const KernelAxis whole = k.inner[at];
    if (whole.kind != KernelAxis::Kind::Whole || whole.block <= long_sum) continue;
    const Dot* dot = nullptr;
    for_each_stmt(k.body, [&](const Stmt& s) {
      const Dot* d = std::get_if<Dot>(&s.node);
      if (!dot && d && contains_axis(d->axes, whole.index)) dot = d;
    });
    if (!dot) continue;
    const Operands of = operands_of(k, *dot, whole.index);
    if (!of.a || !of.b) continue;
    KernelAxis part = whole;
    part.kind = KernelAxis::Kind::Stream;
    part.block = part.piece = sum_part;
    part.counter = Sym::fresh({.name = whole.index.name() + "_part",
                               .kind = SymbolKind::Variable,
                               .integer = true,
                               .nonnegative = true});
    k.body = nested(k.body, *dot, of, part, count(axes, part));
    k.inner[at] = part;
  }
  return k;
}

}  // namespace tilewright::cpu
