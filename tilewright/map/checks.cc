#include "tilewright/map/checks.h"

#include <functional>

#include "tilewright/expr/simplify.h"
#include "tilewright/program/failures.h"
#include "tilewright/support/error.h"
#include "tilewright/tile/index_range.h"
#include "tilewright/tile/statements.h"

namespace tilewright {
namespace {

/// 0 <= index < size(axis) for all values of the axes that the index mentions.
bool proved_inside(const std::vector<Axis>& axes, Expr index, Sym axis) {
  if (index.is(Op::Symbol) && index->sym.kind() == SymbolKind::Index && index->sym.size() == axis.size())
    return true;
  const auto range = index_range(index, [](Sym s) {
    return std::optional<IndexRange>(IndexRange{0, Expr(s.size()) - 1});
  });
  if (!range) return false;
  Expr lo = range->lo, room = Expr(axis.size()) - 1 - range->hi;
  Substitution sizes;
  for (const Axis& a : axes)
    if (a.size) sizes.emplace_back(a.index.size(), a.size);
  for (size_t round = 0; round < axes.size(); ++round) {  // sizes may be given by other sizes
    lo = substitute(lo, sizes);
    room = substitute(room, sizes);
  }
  return provably_nonnegative(simplify(lo)) && provably_nonnegative(simplify(room));
}

/// Where an op evaluates expressions, and which.
struct Evaluated {
  std::vector<Expr> values;
  Frame frame;
};

Evaluated evaluated(const MappedOp& op) {
  if (auto* x = std::get_if<Define>(&op.node)) return {{x->value}, {}};
  if (auto* x = std::get_if<Fetch>(&op.node)) return {x->index, {}};
  if (auto* x = std::get_if<MappedLoop>(&op.node)) return {{x->lo, x->hi}, {}};
  if (auto* x = std::get_if<If>(&op.node)) return {{x->condition}, {}};
  if (auto* x = std::get_if<Vote>(&op.node)) return {{x->condition}, x->frame};
  if (auto* x = std::get_if<MapOp>(&op.node)) return {{x->value}, x->frame};
  if (auto* x = std::get_if<ReduceOp>(&op.node)) return {{x->value}, x->frame};
  if (auto* x = std::get_if<RankOp>(&op.node)) {
    if (!x->present) return {{x->value, x->at}, x->frame};
    return {{x->present, select(x->present, x->value, 0), select(x->present, x->at, 0)}, x->frame};
  }
  if (auto* x = std::get_if<StoreOut>(&op.node)) return {x->index, x->frame};
  if (auto* x = std::get_if<Copy>(&op.node)) {
    Evaluated e{{}, x->frame};
    if (x->present) e.values.push_back(x->present);
    for (Expr i : x->index) e.values.push_back(x->present ? select(x->present, i, 0) : i);
    return e;
  }
  return {};
}

/// The vote before an op, over the axes that its condition varies along; of the other axes some element must exist.
Vote test_of(const ZeroDivision& z, const Frame& frame, int check) {
  Vote v;
  v.condition = z.condition;
  v.scope = Scope::Thread;
  v.then.push_back({Fail{check}, {}});
  for (const AxisFrame& f : frame) {
    if (f.origin == Expr(f.axis)) continue;  // one element, whose index is defined outside
    if (depends_on(z.condition, f.axis)) {
      v.axes.push_back(f.axis);
      v.frame.push_back(f);
    } else if (f.extent && !provably_positive(f.extent)) {
      v.condition = logical_and(less(0, f.extent), v.condition);
    }
  }
  return v;
}

void check_divisors(Ops& ops, const Ranges& ranges, MappedProgram& m) {
  Ops out;
  for (MappedOp& op : ops) {
    const Evaluated e = evaluated(op);
    for (Expr value : e.values)
      for (const ZeroDivision& z : zero_divisions(value, ranges)) {
        out.push_back({test_of(z, e.frame, int(m.checks.size())), "no divisor is 0"});
        m.checks.push_back({{}, {}, z.division});
      }
    for_each_body(op, [&](Ops& inside) { check_divisors(inside, ranges, m); });
    out.push_back(std::move(op));
  }
  ops = std::move(out);
}

}  // namespace

void check_divisors(const Program& elaborated, MappedProgram& m) {
  Ranges ranges;  // of params, which are tested when they are bound
  for (const Param& p : elaborated.params)
    if (p.range && p.range.lo.number() && p.range.hi.number())
      ranges[p.sym] = {*p.range.lo.number(), *p.range.hi.number() - (is_float(p.dtype) ? 0 : 1)};
  for (MappedKernel& k : m.kernels)
    for (Role& r : k.roles) check_divisors(r.body, ranges, m);
  TW_CHECK(m.checks.size() < (size_t(1) << check_bits) - 1, "more checks than an error word can tell apart");
}

void number_checks(const Program& elaborated, MappedProgram& m) {
  for (MappedKernel& k : m.kernels)
    for (Role& r : k.roles)
      for_each_op(r.body, [&](MappedOp& op) {
        Copy* x = std::get_if<Copy>(&op.node);
        if (!x || !x->present) return;
        Copy& c = *x;
        std::vector<Sym> pieces;
        for (const Dim& d : memory_dims(elaborated, m, c.tensor))
          pieces.insert(pieces.end(), d.pieces.begin(), d.pieces.end());
        TW_CHECK(pieces.size() == c.index.size(), "one index for each axis of " + c.tensor.name());
        c.checks.assign(pieces.size(), -1);
        for (size_t axis = 0; axis < pieces.size(); ++axis) {
          if (proved_inside(m.axes, c.index[axis], pieces[axis])) continue;
          c.checks[axis] = int(m.checks.size());
          m.checks.push_back({c.tensor, pieces[axis]});
        }
      });
  TW_CHECK(m.checks.size() < (size_t(1) << check_bits) - 1,
           "more checked reads than an error word can tell apart");
}

bool has_checks(const MappedKernel& k) {
  bool found = false;
  for (const Role& r : k.roles)
    for_each_op(r.body, [&](const MappedOp& op) {
      found = found || std::holds_alternative<Fail>(op.node);
      if (const Copy* c = std::get_if<Copy>(&op.node))
        for (int check : c->checks) found = found || check >= 0;
    });
  return found;
}

std::optional<FailedCheck> failed_check(int64_t word) {
  if (word == 0) return std::nullopt;
  return FailedCheck{int(word & ((int64_t(1) << check_bits) - 1)) - 1, word >> check_bits};
}

}  // namespace tilewright
