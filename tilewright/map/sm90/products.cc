// Products: on tensor cores, by FMA instructions, and the choice between them where absent elements may be non-finite.
#include <fmt/format.h>

#include <algorithm>

#include "tilewright/expr/simplify.h"
#include "tilewright/map/sm90/body.h"
#include "tilewright/support/error.h"

namespace tilewright::hopper {

void BodyBuilder::issue(const Dot& s, const Position& at, Ops& out) {
  const Product& p = c_.product(s);
  beyond_.erase(s.tile);
  auto longer = [&](Sym operand, Sym k) {
    const Buffer& b = c_.out.buffer(operand);
    const auto at_axis = std::find(b.axes.begin(), b.axes.end(), k) - b.axes.begin();
    return b.layout.shape()[size_t(at_axis)] > c_.axis(k).block;
  };
  std::vector<Sym> padded;  // only the steps that hold elements are issued
  for (Sym k : s.axes)
    if (c_.axis(k).kind == KernelAxis::Kind::Whole || longer(p.a, k) || longer(p.b, k)) padded.push_back(k);
  Mma mma{p.atom, s.tile, p.a, p.b, s.axes, !s.accumulate, uses_of({p.a, p.b}, at), c_.frame(at, padded)};
  out.push_back({mma, {}});
}

void BodyBuilder::multiply_by_fma(const Dot& s, const Position& at, bool test_only, Ops& out) {
  const Product& p = c_.product(s);
  beyond_.erase(s.tile);
  Sym a = p.a, b = p.b;
  const bool condition = at.masked && s.present;
  const bool share = condition && p.condition_tile;
  if (p.scratch || share) {
    auto has_row = [&](const std::vector<Sym>& axes) {
      return c_.row && std::find(axes.begin(), axes.end(), c_.row) != axes.end();
    };
    // Rows belong to one warp, so only its threads exchange them.
    const bool rows =
        (!p.scratch || has_row(c_.tile(p.scratched).axes)) && (!share || has_row(p.condition_axes));
    const Scope scope = rows ? Scope::Warp : Scope::Role;
    out.push_back({Barrier{0, scope}, {}});
    if (p.scratch) {
      Position unmasked = at;
      unmasked.masked = false;
      const Expr value = clipped(at_own_axes(p.scratched), s.axes, unmasked, Expr(0));
      out.push_back({MapOp{p.scratch, value, c_.frame(at), {}}, {}});
      (a == p.scratched ? a : b) = p.scratch;
    }
    if (share) {
      Expr value = p.condition_value;
      if (p.condition_registers) {
        out.push_back({MapOp{p.condition_registers, value, c_.frame(at), uses({value}, at)}, {}});
        value = at_own_axes(p.condition_registers);
      }
      out.push_back({MapOp{p.condition_tile, value, c_.frame(at), uses({value}, at)}, {}});
    }
    out.push_back({Barrier{0, scope}, {}});
  }
  Expr value = at_own_axes(a) * at_own_axes(b);
  if (condition) value = select(p.condition, value, Expr(0));
  value = clipped(value, s.axes, at, Expr(0));
  ReduceOp op;
  op.buffer = s.tile;
  op.reducer = Reducer::Sum;
  op.axes = s.axes;
  op.value = value;
  op.accumulate = s.accumulate;
  op.uses = uses({value}, at);
  const std::set<Sym> held = register_axes(value);
  std::vector<Sym> exchanged;
  for (Sym k : s.axes)
    if (held.count(k)) exchanged.push_back(k);
  op.across = c_.distribution.across(exchanged);
  op.frame = c_.frame(at, s.axes);
  if (op.across > Scope::Warp) {
    const Layout& result = c_.out.buffer(s.tile).layout;
    op.scratch =
        scratch(s.tile, c_.distribution.threads() / 32 * result.elements() * 32, c_.tile(s.tile).dtype);
  }
  out.push_back(
      {op, test_only ? "terms that are absent contribute nothing, whatever the operands hold" : ""});
}

/// A product in a masked chunk: absent terms are zero in one operand, which is enough while the other is finite. Where it is not, the product is computed by
/// FMA instructions that skip absent terms.
void BodyBuilder::tested(const Dot& s, const Position& at, Ops& out) {
  const Product& p = c_.product(s);
  const Expr element = at_own_axes(p.b);
  Vote vote;
  vote.condition = logical_not(less(make(Op::Abs, {element}), Expr::infinity()));
  vote.axes = c_.out.buffer(p.b).axes;
  vote.frame = c_.frame(at);
  vote.uses = uses_of({p.b}, at);
  vote.scope = Scope::Group;
  multiply_by_fma(s, at, true, vote.then);
  vote.scope = std::max(vote.scope, scope_of(vote.then));
  if (!c_.by_warps) vote.otherwise.push_back({MmaFence{}, {}});
  issue(s, at, vote.otherwise);
  if (!c_.by_warps) {
    vote.otherwise.push_back({Commit{}, {}});
    vote.otherwise.push_back({WaitGroup{0}, {}});
  }
  out.push_back({vote, "a non-finite " + p.b.name() + " would leak through 0 · inf"});
}

void BodyBuilder::multiply_now(const Statements& dots, const Position& at, Ops& out) {
  Statements together;
  for (const Stmt* s : dots) {
    const Dot& dot = std::get<Dot>(s->node);
    const Product& p = c_.product(dot);
    if (!at.masked || p.absent == Product::Absent::None) {
      together.push_back(s);
      continue;
    }
    if (p.absent == Product::Absent::Instructions) {
      multiply_by_fma(dot, at, true, out);
      continue;
    }
    if (p.absent == Product::Absent::Select) {
      const Expr value = select(dot.present, at_own_axes(p.a), Expr(0));
      out.push_back({MapOp{p.a, value, c_.frame(at), uses({value}, at)}, "absent terms"});
    }
    tested(dot, at, out);
  }
  if (together.empty()) return;
  if (!c_.by_warps) out.push_back({MmaFence{}, {}});
  for (const Stmt* s : together) {
    issue(std::get<Dot>(s->node), at, out);
    out.back().comment = s->comment;
  }
  if (c_.by_warps) return;
  out.push_back({Commit{}, {}});
  out.push_back({WaitGroup{0}, {}});
}

}  // namespace tilewright::hopper
